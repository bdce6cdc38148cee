/* format.c - a tensor's value as text, NumPy's brackets, with a limit on elements per axis. */
#include <inttypes.h>
#include <math.h>

#include "run/run.h"

typedef struct printer {
    str *out;
    qn_dtype dtype;
    int rank, limit;
    bool complex; /* the data are pairs */
    int64_t dim[QN_MAX_RANK];
    const void *data;
} printer;

static void print_element(printer *p, int64_t i);
static void print_pair(printer *p, int64_t i) {
    p->complex = false;
    print_element(p, 2 * i);
    if (!signbit(dtype_get_f(p->dtype, p->data, 2 * i + 1))) str_add(p->out, "+");
    print_element(p, 2 * i + 1);
    str_add(p->out, "j");
    p->complex = true;
}

static void print_element(printer *p, int64_t i) {
    if (p->complex)
        print_pair(p, i);
    else if (p->dtype == QN_BOOL)
        str_add(p->out, dtype_get_i(p->dtype, p->data, i) ? "true" : "false");
    else if (dtype_is_float(p->dtype))
        str_addf(p->out, "%.*g", p->dtype == QN_F64 ? 8 : 5, dtype_get_f(p->dtype, p->data, i));
    else if (p->dtype == QN_U64)
        str_addf(p->out, "%" PRIu64, (uint64_t)dtype_get_i(p->dtype, p->data, i));
    else
        str_addf(p->out, "%" PRId64, dtype_get_i(p->dtype, p->data, i));
}

/* Elements shown along an axis: all, or limit/2 from each end around an ellipsis. */
static void print_axis(printer *p, int axis, int64_t at) {
    if (axis == p->rank) {
        print_element(p, at);
        return;
    }
    int64_t n = p->dim[axis], half = p->limit / 2 + p->limit % 2;
    bool cut = n > p->limit && p->limit > 0;
    str_add(p->out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i && axis == p->rank - 1) str_add(p->out, ", ");
        if (i && axis < p->rank - 1) str_addf(p->out, ",\n%*s", axis + 1, "");
        if (cut && i == half) {
            str_add(p->out, axis == p->rank - 1 ? "..., " : "...,\n");
            if (axis < p->rank - 1) str_addf(p->out, "%*s", axis + 1, "");
            i = n - (p->limit - half);
            if (i >= n) break;
        }
        print_axis(p, axis + 1, at * n + i);
    }
    str_add(p->out, "]");
}

static void print_tensor(qn_tensor *name, bool complex, int limit, void *data) {
    const tensor *t = tensor_at(name);
    qn_ctx *qn = t->h.ctx;
    const graph_node *x = node_at(qn->graph, t->node);
    printer p = {.out = &qn->run->text, .dtype = (qn_dtype)x->dtype, .limit = limit, .data = data};
    const int64_t *d = node_dims(qn->graph, t->node, &p.rank);
    p.complex = complex;
    p.rank -= complex;
    for (int i = 0; i < p.rank; i++) p.dim[i] = shape_bound(qn->graph, (sym)d[i]);
    bool none = false;
    for (int i = 0; i < p.rank; i++) none |= p.dim[i] == 0;
    if (none)
        str_add(p.out, "[]"); /* however many rows of nothing there are */
    else
        print_axis(&p, 0, 0);
    str_addf(p.out, " %s", qn_dtype_name(complex ? dtype_of_parts(p.dtype) : p.dtype));
    shape_text(qn->graph, complex ? graph_tuple(qn->graph, p.rank, d) : x->shape, p.out);
}

typedef struct formatting {
    qn_tensor *t;
    bool complex;
    int limit;
    void *data;
    size_t size;
} formatting;

static void format_work(void *arg) {
    const formatting *f = arg;
    if (!qn_read(f->t, f->data, f->size)) print_tensor(f->t, f->complex, f->limit, f->data);
}

const char *qn_format(qn_tensor *t, int limit) {
    if (!t) return "";
    qn_ctx *qn = tensor_ctx(t);
    if (!tensor_any(NULL, t, "format", "t")) return "";
    bool complex = handle_is(t, HANDLE_COMPLEX);
    if (complex) t = handle_name(&tensor_pairs(tensor_at(t))->h);
    int64_t n = qn_numel(t);
    if (n < 0) return fail(qn, QN_ESHAPE, "format: a dimension variable is not bound"), "";
    size_t size;
    if (!checked_bytes(1, &n, qn_dtype_size(qn_dtype_of(t)), &size) || size > PTRDIFF_MAX - 8)
        return fail(qn, QN_ERANGE, "format: a value beyond 2^63 bytes"), "";
    void *data = heap_try(&qn->heap, size + 8);
    if (!data) return fail(qn, QN_ENOMEM, "format: no memory for %zu bytes", size), "";
    str *out = &qn->run->text;
    str_free(out);
    str_open(out, &qn->heap);
    formatting f = {t, complex, limit, data, size};
    qn_code code = guarded(qn, format_work, &f);
    heap_free(&qn->heap, data, size + 8);
    return !code && out->s ? out->s : "";
}

typedef struct dim_printing {
    qn_ctx *qn;
    sym size;
} dim_printing;

static void dim_work(void *arg) {
    const dim_printing *p = arg;
    p->qn->run->text.len = 0;
    sym_print(p->qn->graph->syms, p->size, &p->qn->run->text);
}

const char *qn_dim_text(qn_ctx *qn, int64_t dim) {
    dim_printing p = {.qn = qn};
    if (!dim_given(qn, "dim_text", dim, &p.size) || guarded(qn, dim_work, &p)) return NULL;
    return qn->run->text.s;
}
