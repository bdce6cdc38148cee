/* export_onnx.c - `quern export` of a model in the ONNX format: recorded on zeros of the sizes that
 * its inputs have, made a static graph, and written as C.
 *
 * A size that varies has to be said. Inputs whose values decide what is computed, as a shape for
 * Reshape or the k of TopK, cannot be inputs of a C function: their values are given now (--value),
 * and the function is without them. */
#include "cli/cli.h"
#include "quern_export.h"
#include "quern_onnx.h"

#include <stdlib.h>
#include <string.h>

typedef struct exporting {
    qn_ctx *qn;
    const export_options *o;
    qn_onnx *onnx;
    qn_tensor *in[VALUES_MOST], *out[VALUES_MOST];
    int n_in, n_out;
} exporting;

static bool failed(const exporting *x) {
    cli_failed("export", "%s", qn_error(x->qn));
    return false;
}

/* Values that the model is to know. */
static bool fix_values(const exporting *x) {
    qn_tensor *value[VALUES_MOST] = {NULL};
    char *list = x->o->value ? strdup(x->o->value) : NULL;
    if (x->o->value && !list) return cli_failed("export", "out of memory"), false;
    bool fine = npy_read_inputs("export", x->qn, x->onnx, list, value);
    free(list);
    for (int i = 0; fine && i < x->n_in; i++)
        if (value[i] && qn_onnx_fix(x->onnx, i, value[i])) fine = failed(x);
    return fine;
}

static bool sizes_known(const qn_onnx_value *v) {
    if (v->rank < 0)
        cli_failed("export", "input %s has a shape that the model does not say: --shape %s=2x3",
                   v->name, v->name);
    for (int k = 0; k < v->rank; k++) {
        if (v->shape[k] >= 0) continue;
        const char *name = v->dim_name[k];
        cli_failed("export", "input %s: axis %d%s%s%s varies: --shape %s=%s", v->name, k,
                   name ? " (" : "", name ? name : "", name ? ")" : "", name ? name : v->name,
                   name ? "N" : "2x3");
        return false;
    }
    return v->rank >= 0;
}

/* As data: a constant would be no input. NULL: said. */
static qn_tensor *zeros(const exporting *x, const qn_onnx_value *v) {
    int64_t n = (int64_t)qn_dtype_size(v->dtype);
    for (int i = 0; i < v->rank; i++)
        if (__builtin_mul_overflow(n, v->shape[i], &n)) n = INT64_MAX;
    void *data = n < INT64_MAX ? calloc((size_t)n + 1, 1) : NULL;
    qn_tensor *t = data ? qn_from(x->qn, v->dtype, v->rank, v->shape, data) : NULL;
    if (!t) cli_failed("export", "%s", data ? qn_error(x->qn) : "out of memory");
    free(data);
    return t;
}

/* Zeros for those that have no value. */
static bool make_inputs(exporting *x) {
    bool used[VALUES_MOST] = {false};
    for (int i = 0; i < x->n_in; i++) {
        qn_onnx_value v;
        if (i >= VALUES_MOST || !qn_onnx_input_at(x->onnx, i, &v, sizeof v))
            return cli_failed("export", "input %d is no tensor, or one too many", i), false;
        if (v.optional) continue;
        if (!shapes_give("export", x->o->shape, &v, used) || !sizes_known(&v)) return false;
        x->in[i] = zeros(x, &v);
        if (!x->in[i]) return false;
    }
    return shapes_all_used("export", x->o->shape, used);
}

/* What is computed must follow from no input's value. */
static bool is_static(const exporting *x) {
    qn_onnx_value v;
    for (int i = 0; i < x->n_in; i++) {
        if (!qn_onnx_reads(x->onnx, i) || !qn_onnx_input_at(x->onnx, i, &v, sizeof v)) continue;
        cli_failed("export",
                   "what the model computes depends on the value of input %s; give it: "
                   "--value %s=FILE.npy",
                   v.name, v.name);
        return false;
    }
    return true;
}

static bool write_c(exporting *x) {
    qn_tensor *in[VALUES_MOST], *out[VALUES_MOST];
    const char *input[VALUES_MOST], *output[VALUES_MOST];
    int inputs = 0, outputs = 0;
    qn_onnx_value v;
    for (int i = 0; i < x->n_in; i++) {
        if (!x->in[i] || !qn_onnx_input_at(x->onnx, i, &v, sizeof v)) continue;
        input[inputs] = v.name;
        in[inputs++] = x->in[i];
    }
    for (int i = 0; i < x->n_out; i++) {
        if (!x->out[i] || !qn_onnx_output_at(x->onnx, i, &v, sizeof v)) continue;
        output[outputs] = v.name;
        out[outputs++] = x->out[i];
    }
    qn_plan *plan = qn_plan_new(x->qn, inputs, in, outputs, out);
    if (!plan) return failed(x);
    const qn_export_options o = QN_EXPORT_OPTIONS(.name = x->o->name, .blob = x->o->blob);
    bool fine = qn_export(plan, x->o->out, &o) == QN_OK || failed(x);
    for (int i = 0; fine && i < inputs; i++) printf("input_%d is %s\n", i, input[i]);
    for (int i = 0; fine && i < outputs; i++) printf("output_%d is %s\n", i, output[i]);
    qn_plan_free(plan);
    return fine;
}

bool export_onnx(qn_ctx *qn, const export_options *o) {
    exporting x = {.qn = qn, .o = o};
    x.onnx = qn_onnx_open(qn, o->model);
    if (!x.onnx) return failed(&x);
    x.n_in = qn_onnx_inputs(x.onnx);
    x.n_out = qn_onnx_outputs(x.onnx);
    bool fine = x.n_in <= VALUES_MOST && x.n_out <= VALUES_MOST;
    if (!fine)
        cli_failed("export", "%d inputs and %d outputs are too many: %d", x.n_in, x.n_out,
                   VALUES_MOST);
    fine = fine && fix_values(&x) && make_inputs(&x);
    qn_code code = fine ? qn_onnx_call(x.onnx, x.n_in, x.in, x.n_out, x.out) : QN_OK;
    fine = fine && is_static(&x); /* of zeros that were read the call may make an error */
    fine = fine && (code == QN_OK || failed(&x)) && write_c(&x);
    qn_onnx_close(x.onnx);
    return fine;
}
