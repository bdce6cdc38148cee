/* custom.c - kernels of the user's: made once, called like any operation.
 *
 * A call is a CALL node for each result (graph/routines.h), opaque to what fuses around it. The
 * gradient is recorded with the call, on placeholders, and stands in front of the results as any
 * gradient that is given (grad/custom.c): no callback has to be kept for later. */
#include "custom/custom.h"
#include "grad/grad.h"

#include <stdio.h>

/* ---- making ---------------------------------------------------------------------------------- */

static bool is_name(const char *s) {
    for (const char *c = s; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
        if (!letter && (c == s || *c < '0' || *c > '9')) return false;
    }
    return *s && strlen(s) < 64;
}

static bool check_dtypes(qn_ctx *qn, const char *what, int n, int most, const qn_dtype *dtype) {
    if (n < 1 || n > most) {
        fail(qn, QN_EARG, "custom_new: %d %ss; there are 1 to %d", n, what, most);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (dtype_is_known((int)dtype[i]) && dtype_part(dtype[i]) == dtype[i]) continue;
        const char *name = qn_dtype_name(dtype[i]);
        fail(qn, QN_EDTYPE, "custom_new: %s %d is of dtype %d (%s), which no kernel has", what, i,
             (int)dtype[i], name ? name : "none");
        return false;
    }
    return true;
}

static bool check_options(qn_ctx *qn, const qn_custom_options *o) {
    const char *why = NULL;
    if (!o->name || !is_name(o->name))
        why = "name is none of C, of at most 63 letters";
    else if (!o->function && !o->c_source && !o->kernel)
        why = "neither a function nor a C source nor a kernel is given";
    else if (!!o->function + !!o->c_source + !!o->kernel > 1)
        why = "two of a function, a C source and a kernel are given";
    else if (o->kernel && o->rows)
        why = "rows are for functions; a kernel has loops of its own";
    else if (o->axes && !o->kernel)
        why = "axes are for kernels";
    else if (!(o->cost >= 0))
        why = "cost is below 0";
    if (why) return fail(qn, QN_EARG, "custom_new: %s", why), false;
    return check_dtypes(qn, "input", o->n_in, QN_CUSTOM_INPUTS, o->in_dtypes) &&
           check_dtypes(qn, "result", o->n_out, QN_CUSTOM_RESULTS, o->out_dtypes);
}

typedef struct making {
    qn_ctx *qn;
    qn_custom_options o;
    qn_custom *made;
} making;

static void make_work(void *arg) {
    making *m = arg;
    custom_code code = {0};
    void *given = m->o.arg;
    if (m->o.c_source && !custom_compile(m->qn, &m->o, &code)) return;
    if (m->o.kernel && !custom_loops(m->qn, &m->o, &code)) return;
    custom_kernel *k = custom_add(m->qn->graph, &m->o, code);
    k->arg = given;
    m->made = handle_name(handle_make(m->qn, HANDLE_CUSTOM, k));
}

qn_custom *qn_custom_new(qn_ctx *qn, const qn_custom_options *options) {
    making m = {.qn = qn};
    if (!qn) return NULL;
    if (!options) return fail_null(qn, QN_ENULL, "custom_new: options is NULL");
    if (!struct_take(qn, "custom_new", "qn_custom_options", &m.o, sizeof m.o, options) ||
        !check_options(qn, &m.o))
        return NULL;
    guarded(qn, make_work, &m);
    if (m.made && qn->recorder)
        log_line(qn, "no recording has kernel %s: a replay has nothing that follows from its calls",
                 m.o.name);
    return m.made;
}

/* ---- calling --------------------------------------------------------------------------------- */

typedef struct calling {
    qn_ctx *qn;
    const custom_kernel *k;
    qn_tensor *const *input;
    tuple_id shape[QN_CUSTOM_RESULTS];
    qn_tensor *result[QN_CUSTOM_RESULTS]; /* kept */
    qn_tensor **out;
    int made, passed;
} calling;

static bool fail_rows(const calling *c, const char *what, int i, tuple_id shape) {
    graph *g = c->qn->graph;
    g->text.len = 0;
    shape_text(g, shape, &g->text);
    str_add(&g->text, " for input 0 of ");
    shape_text(g, node_at(g, tensor_at(c->input[0])->node)->shape, &g->text);
    fail(c->qn, QN_ESHAPE, "%s: %s %d of %s: all have the same rows along axis 0", c->k->name, what,
         i, g->text.s);
    return false;
}

/* Has it as many rows as the first input? */
static bool rows_fit(const calling *c, const char *what, int i, tuple_id shape) {
    graph *g = c->qn->graph;
    int rank, first;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    const int64_t *rows = node_dims(g, tensor_at(c->input[0])->node, &first);
    return (rank && first && dims[0] == rows[0]) || fail_rows(c, what, i, shape);
}

static bool check_inputs(const calling *c, int n) {
    const custom_kernel *k = c->k;
    char arg[32];
    if (n != k->o.n_in) {
        fail(c->qn, QN_EARG, "%s: %d inputs, and it takes %d", k->name, n, k->o.n_in);
        return false;
    }
    if (!c->input) return fail(c->qn, QN_ENULL, "%s: inputs is NULL", k->name), false;
    for (int i = 0; i < n; i++) {
        snprintf(arg, sizeof arg, "input %d", i);
        if (!c->input[i] && c->qn->code) return false; /* why is known */
        if (!tensor_of(c->qn, c->input[i], k->name, arg)) return false;
        qn_dtype dtype = qn_dtype_of(c->input[i]);
        if (dtype == k->o.in_dtypes[i]) continue;
        fail(c->qn, QN_EDTYPE, "%s: input %d is %s, and the kernel takes %s", k->name, i,
             qn_dtype_name(dtype), qn_dtype_name(k->o.in_dtypes[i]));
        return false;
    }
    return true;
}

static bool check_shapes(calling *c, int n, const qn_custom_shape *shapes) {
    const custom_kernel *k = c->k;
    char what[96];
    if (n != k->o.n_out) {
        fail(c->qn, QN_EARG, "%s: %d results, and it gives %d", k->name, n, k->o.n_out);
        return false;
    }
    if (!shapes) return fail(c->qn, QN_ENULL, "%s: shapes is NULL", k->name), false;
    for (int i = 0; i < n; i++) {
        snprintf(what, sizeof what, "%s: result %d", k->name, i);
        if (!shape_from_user(c->qn, what, shapes[i].rank, shapes[i].shape, &c->shape[i]))
            return false;
    }
    return true;
}

static tuple_id without_rows(graph *g, tuple_id shape) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    return graph_tuple(g, rank - 1, dims + 1);
}

static void call_nodes(void *arg) {
    calling *c = arg;
    graph *g = c->qn->graph;
    const qn_custom_options *o = &c->k->o;
    tuple_id item[QN_CUSTOM_RESULTS];
    node_id src[QN_CUSTOM_INPUTS];
    for (int i = 0; i < o->n_in; i++) {
        src[i] = tensor_at(c->input[i])->node;
        if (o->rows && !rows_fit(c, "input", i, node_at(g, src[i])->shape)) return;
    }
    for (int i = 0; i < o->n_out; i++) {
        item[i] = c->shape[i];
        if (!o->rows) continue;
        if (!rows_fit(c, "result", i, c->shape[i])) return;
        item[i] = without_rows(g, c->shape[i]);
    }
    if (o->function == custom_run_loops && !custom_loops_fit(c->qn, c->k, src, c->shape)) return;
    call_attr call = {.routine = ROUTINE_CUSTOM};
    call.attr[CUSTOM_KERNEL] = c->k->number;
    call.attr[CUSTOM_LEADING] = o->rows;
    custom_set_items(g, &call, o->n_out, item);
    for (int i = 0; i < o->n_out; i++, c->made++) {
        call.result = i;
        c->result[i] =
            tensor_make(g, make_call(g, &call, o->out_dtypes[i], c->shape[i], o->n_in, src));
    }
}

/* ---- its gradient ---------------------------------------------------------------------------- */

/* What was given for inputs that have gradients, without the others. */
static int slopes_of_floats(const calling *c, qn_tensor *const *slope, qn_tensor **x,
                            qn_tensor **of) {
    int n = 0;
    for (int i = 0; i < c->k->o.n_in; i++) {
        qn_dtype dtype = c->k->o.in_dtypes[i];
        if (!slope[i]) continue;
        if (!dtype_is_float(dtype)) {
            fail(c->qn, QN_EDTYPE, "%s: slope %d: input %d is %s; only floats have gradients",
                 c->k->name, i, i, qn_dtype_name(dtype));
            return -1;
        }
        x[n] = c->input[i];
        of[n++] = slope[i];
    }
    return n;
}

static qn_code add_gradient(calling *c) {
    const qn_custom_options *o = &c->k->o;
    qn_tensor *upstream[QN_CUSTOM_RESULTS] = {0}, *slope[QN_CUSTOM_INPUTS] = {0};
    qn_tensor *x[QN_CUSTOM_INPUTS], *of[QN_CUSTOM_INPUTS];
    qn_tensor *y[QN_CUSTOM_RESULTS], *u[QN_CUSTOM_RESULTS], *out[QN_CUSTOM_RESULTS];
    int place[QN_CUSTOM_RESULTS], n = 0;
    for (int i = 0; i < o->n_out; i++) {
        if (!dtype_is_float(o->out_dtypes[i])) continue;
        upstream[i] = u[n] = qn_placeholder(c->result[i]);
        if (!u[n]) return qn_error_code(c->qn);
        place[n] = i;
        y[n++] = c->result[i];
    }
    if (!n) return QN_OK;
    uint32_t failures = c->qn->failures;
    c->qn->graph->slopes++;
    qn_code code = o->gradient(c->qn, c->k->arg, c->input, c->result, upstream, slope);
    c->qn->graph->slopes--;
    if (code || failures != c->qn->failures) { /* a slope that failed is no slope that is 0 */
        if (!c->qn->code)
            fail(c->qn, code ? code : QN_EARG, "%s: its gradient could not be recorded",
                 c->k->name);
        return c->qn->code;
    }
    int m = slopes_of_floats(c, slope, x, of);
    if (m < 0) return c->qn->code;
    code = qn_custom_gradient(n, y, u, m, x, of, out);
    for (int i = 0; code == QN_OK && i < n; i++) c->result[place[i]] = out[i];
    return code;
}

/* ---- results --------------------------------------------------------------------------------- */

/* To the scope around. */
static void pass_work(void *arg) {
    calling *c = arg;
    for (int i = 0; i < c->k->o.n_out; i++, c->passed++)
        c->out[i] = tensor_make(c->qn->graph, tensor_at(c->result[i])->node);
}

static qn_code call_in_scope(calling *c) {
    int n = c->k->o.n_out;
    qn_scope scope = qn_scope_begin(c->qn);
    if (!scope) return c->qn->code;
    guarded(c->qn, call_nodes, c);
    qn_code code = c->made == n ? QN_OK : c->qn->code;
    /* Where gradients would call each other without end there is none: grad/calls.c refuses. */
    bool none = c->qn->graph->slopes >= CUSTOM_LEVELS;
    if (code == QN_OK && c->k->o.gradient && !none) code = add_gradient(c);
    for (int i = 0; code == QN_OK && i < n; i++) qn_keep(c->result[i]);
    qn_scope_end(c->qn, scope);
    if (code) return code;
    guarded(c->qn, pass_work, c);
    for (int i = 0; i < n; i++) qn_release(c->result[i]);
    if (c->passed == n) return QN_OK;
    for (int i = 0; i < c->passed; i++) tensor_forget(tensor_at(c->out[i]));
    return c->qn->code;
}

qn_code qn_custom_call(qn_custom *kernel, int n_in, qn_tensor *const *inputs, int n_out,
                       const qn_custom_shape *shapes, qn_tensor **results) {
    const custom_kernel *k = object_of(kernel, HANDLE_CUSTOM, "custom_call");
    for (int i = 0; !k && results && i < n_out; i++) results[i] = NULL;
    if (!k) return handle_code(kernel);
    calling c = {.qn = handle_at(kernel)->ctx, .k = k, .input = inputs, .out = results};
    bool good = check_inputs(&c, n_in) && check_shapes(&c, n_out, shapes);
    if (good && !results) {
        fail(c.qn, QN_ENULL, "%s: results is NULL", k->name);
        good = false;
    }
    qn_code code = good ? call_in_scope(&c) : QN_OK;
    if (good && code == QN_OK) return QN_OK;
    for (int i = 0; results && i < n_out; i++) results[i] = NULL;
    if (!code) code = c.qn->code;
    return code ? code : QN_EINTERNAL;
}
