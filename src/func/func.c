/* func.c - what composed functions are written with: the user's sizes, axes and numbers.
 *
 * The func_*.c files see only tensors and sizes as the user gives them, never nodes or syms. Every
 * helper gives NULL (or false, or DIM_BAD) when something failed, and takes NULL in silence, so a
 * function is one expression after another, and the first error is what the user reads.
 *
 * Half-precision floats are computed in f32 and rounded once, at the end (func_floats): each
 * operation in 11 or 8 bits would lose as much as the whole function may. A gradient takes the same
 * way back: it is gathered in f32 at the cast of the argument, and rounded there. The casts are
 * elementwise nodes like any others, so they are part of the kernel, and nothing wide is stored. */
#include "func/func.h"

#include <stdio.h>

int func_dims(const qn_tensor *x, int64_t *dims) {
    int rank = func_rank(x);
    for (int i = 0; i < rank; i++) dims[i] = qn_dim(x, i);
    return rank;
}

bool func_same_shape(const qn_tensor *x, const qn_tensor *y) {
    const graph *g = tensor_ctx(x)->graph;
    return node_at(g, tensor_at(x)->node)->shape == node_at(g, tensor_at(y)->node)->shape;
}

static tuple_id *func_shape(qn_ctx *qn, int rank, const int64_t *dims, tuple_id *shape) {
    return qn && shape_from_user(qn, "shape", rank, dims, shape) ? shape : NULL;
}

qn_tensor *func_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *dims, double value) {
    tuple_id shape;
    if (!func_shape(qn, rank, dims, &shape)) return NULL;
    return build_const(qn, dtype, shape, scalar_number(dtype, value));
}

qn_tensor *func_iota(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *dims, int axis) {
    tuple_id shape;
    if (!func_shape(qn, rank, dims, &shape)) return NULL;
    return build_iota(qn, dtype, shape, axis);
}

qn_tensor *func_reshape(qn_tensor *x, int rank, const int64_t *dims) {
    tuple_id shape;
    return func_shape(qn_context(x), rank, dims, &shape) ? build_reshape(x, shape) : NULL;
}

qn_tensor *func_expand(qn_tensor *x, int rank, const int64_t *dims) {
    tuple_id shape;
    return func_shape(qn_context(x), rank, dims, &shape) ? build_expand(x, shape) : NULL;
}

/* Three numbers for each axis of x, the first two of them sizes. */
static bool func_triples(const qn_tensor *x, const int64_t *p, int64_t *out) {
    int rank = func_rank(x);
    for (int i = 0; i < rank; i++) {
        if (!dims_from_user(tensor_ctx(x), "axis", 2, p + 3 * i, out + 3 * i)) return false;
        out[3 * i + 2] = p[3 * i + 2];
    }
    return true;
}

qn_tensor *func_pad(qn_tensor *x, const int64_t *lo_hi_interior) {
    int64_t p[3 * QN_MAX_RANK];
    if (!x || !func_triples(x, lo_hi_interior, p)) return NULL;
    return build_pad(x, func_rank(x), p);
}

qn_tensor *func_slice(qn_tensor *x, const int64_t *start_size_step) {
    int64_t p[3 * QN_MAX_RANK];
    if (!x || !func_triples(x, start_size_step, p)) return NULL;
    return build_slice(x, func_rank(x), p);
}

qn_tensor *func_slice_axis(qn_tensor *x, int axis, int64_t start, int64_t size, int64_t step) {
    int64_t p[3 * QN_MAX_RANK];
    if (!x) return NULL;
    for (int i = 0; i < func_rank(x); i++) {
        p[3 * i] = 0;
        p[3 * i + 1] = qn_dim(x, i);
        p[3 * i + 2] = 1;
    }
    p[3 * axis] = start;
    p[3 * axis + 1] = size;
    p[3 * axis + 2] = step;
    return func_slice(x, p);
}

static bool windows_from_user(const qn_tensor *x, const func_windows *w, window_attr *out) {
    const int64_t sizes[3] = {w->before, w->count, w->size};
    int64_t v[3];
    if (!x || !dims_from_user(tensor_ctx(x), "window", 3, sizes, v)) return false;
    *out = (window_attr){w->axis, w->by, w->stride, w->dilation, (sym)v[0], (sym)v[1], (sym)v[2]};
    return true;
}

qn_tensor *func_window(qn_tensor *x, const func_windows *w) {
    window_attr a;
    return windows_from_user(x, w, &a) ? build_window(x, &a, true) : NULL;
}

qn_tensor *func_unwindow(qn_tensor *t, const func_windows *w, int64_t n) {
    window_attr a;
    int64_t size;
    if (!windows_from_user(t, w, &a) || !dims_from_user(tensor_ctx(t), "window", 1, &n, &size))
        return NULL;
    return build_unwindow(t, &a, true, (sym)size);
}

/* ---- lists ---------------------------------------------------------------------------------- */

qn_ctx *func_list_context(const char *call, int n, qn_tensor *const *xs) {
    qn_ctx *qn = NULL;
    for (int i = 0; xs && i < n && !qn; i++)
        if (handle_is(xs[i], HANDLE_TENSOR)) qn = tensor_ctx(xs[i]);
    if (qn) call = graph_name(qn, call);
    for (int i = 0; xs && i < n; i++)
        if (!xs[i] && qn && qn->code) return NULL; /* why is known */
    return xs && tensors_of(qn, n, xs, call, "tensor") ? qn : NULL;
}

/* ---- several results ------------------------------------------------------------------------ */

bool func_outputs_check(const qn_tensor *x, const char *name, qn_tensor **out) {
    if (!x || !tensor_of(NULL, x, name, "x")) return false;
    if (out) return true;
    fail(tensor_ctx(x), QN_ENULL, "%s: out is NULL", name);
    return false;
}

int func_outputs_done(qn_ctx *qn, int n, qn_tensor **out, int made) {
    if (made == n) return QN_OK;
    for (int i = 0; i < made; i++)
        if (qn->graph->scopes == 0) qn_release(out[i]);
    for (int i = 0; i < n; i++) out[i] = NULL;
    return qn->code ? (int)qn->code : QN_EINTERNAL;
}

/* ---- axes ----------------------------------------------------------------------------------- */

bool func_axis(const qn_tensor *x, int axis, int *out) {
    return x && build_axis(x, graph_name(tensor_ctx(x), "axis"), axis, out);
}

bool func_mask(const qn_tensor *x, int axis, uint32_t *mask) {
    *mask = (1u << func_rank(x)) - 1;
    if (axis == QN_ALL) return x != NULL;
    if (!func_axis(x, axis, &axis)) return false;
    *mask = 1u << axis;
    return true;
}

bool func_mask_of(const qn_tensor *x, int n, const int *axes, uint32_t *mask) {
    *mask = 0;
    if (!x) return false;
    if (n < 0)
        return fail_null(tensor_ctx(x), QN_EARG, "%s: %d axes", graph_name(tensor_ctx(x), "axes"),
                         n);
    if (n > 0 && !axes)
        return fail_null(tensor_ctx(x), QN_ENULL, "%s: the axes are NULL",
                         graph_name(tensor_ctx(x), "axes"));
    for (int i = 0; i < n; i++) {
        int axis;
        if (!func_axis(x, axes[i], &axis)) return false;
        if (*mask >> axis & 1) {
            fail(tensor_ctx(x), QN_ERANGE, "%s: axis %d twice", graph_name(tensor_ctx(x), "axes"),
                 axes[i]);
            return false;
        }
        *mask |= 1u << axis;
    }
    return true;
}

qn_dtype func_meet(const qn_tensor *x, const qn_tensor *y) {
    if (x && y) (void)dtype_may_meet(tensor_ctx(x)->graph, tensor_at(x)->node, tensor_at(y)->node);
    return dtype_promote(qn_dtype_of(x), qn_dtype_of(y));
}

void func_meet_all(const func_frame *f, int n, qn_tensor *const *xs) {
    graph *g = f->qn->graph;
    if (!f->outermost || !f->qn->knob[KNOB_EXPLICIT].number) return;
    for (int i = 1; i < n; i++) {
        g->given_node[0] = tensor_at(xs[0])->node;
        g->given_node[1] = tensor_at(xs[i])->node;
        g->given = 2;
        (void)func_meet(xs[0], xs[i]);
    }
}

bool func_mask_at(const qn_tensor *x, func_axes at, uint32_t *mask) {
    return at.listed ? func_mask_of(x, at.n, at.list, mask) : func_mask(x, at.n, mask);
}

qn_tensor *func_over(const char *name, func_of_mask of, qn_tensor *x, func_axes at, bool keepdims) {
    func_frame f = func_on(name, ARG(x));
    uint32_t mask;
    return func_end(f, func_mask_at(x, at, &mask) ? of(x, mask, keepdims) : NULL);
}

qn_tensor *func_over_floats(const char *name, func_of_floats of, qn_tensor *x, func_axes at,
                            double number, bool keepdims) {
    func_frame f = func_on(name, ARG(x));
    uint32_t mask;
    func_floats(&f, 1, &x);
    return func_end(f, func_mask_at(x, at, &mask) ? of(x, mask, number, keepdims) : NULL);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* The arguments of a function of floats, as it computes with them: in their common dtype, integers
 * among themselves as f32, halves as f32. func_end rounds the result to the common dtype. A
 * function that calls another one gives it what it computes with, so that only the outermost
 * rounds. Missing arguments stay missing. */
void func_floats(func_frame *f, int n, qn_tensor **x) {
    qn_dtype common = QN_BOOL;
    for (int i = 0; i < n; i++)
        if (x[i]) common = dtype_promote(common, qn_dtype_of(x[i]));
    for (int i = 1; i < n; i++) (void)func_meet(x[0], x[i]);
    if (!dtype_is_float(common)) common = QN_F32;
    for (int i = 0; i < n; i++) x[i] = func_as(x[i], common == QN_F64 ? QN_F64 : QN_F32);
    f->dtype = common;
}

void func_numbers(func_frame *f, int n, qn_tensor **x) {
    bool floats = false;
    for (int i = 0; i < n; i++) floats |= x[i] && dtype_is_float(qn_dtype_of(x[i]));
    if (floats) func_floats(f, n, x);
}

qn_tensor *func_float(qn_tensor *x) {
    return x && !dtype_is_float(qn_dtype_of(x)) ? qn_cast(x, QN_F32) : x;
}

qn_tensor *func_widen(qn_tensor *x) {
    qn_dtype d = qn_dtype_of(x);
    return x && dtype_is_narrow(d) ? qn_cast(x, (qn_dtype)dtype_rows[d].acc) : x;
}

qn_tensor *func_as(qn_tensor *x, qn_dtype dtype) {
    return qn_dtype_of(x) == dtype ? x : qn_cast(x, dtype);
}

qn_tensor *func_truth(qn_tensor *x) {
    return qn_dtype_of(x) == QN_BOOL ? x : qn_ne(x, qn_like(x, 0));
}

qn_tensor *func_integer(qn_tensor *x, int64_t value) {
    qn_dtype d = qn_dtype_of(x);
    return x ? build_const(tensor_ctx(x), d, 0, (scalar){.i = dtype_wrap(d, value)}) : NULL;
}

/* A size as a scalar of x's dtype. One that is not a constant is where an index arrives at it: the
 * last element of an iota one longer. */
qn_tensor *func_size(qn_tensor *x, int64_t size) {
    if (!x || size == DIM_BAD) return NULL;
    if (size >= 0) return qn_like(x, (double)size);
    int64_t longer = dim_op(tensor_ctx(x), size, '+', 1);
    qn_tensor *index = func_iota(tensor_ctx(x), QN_I64, 1, &longer, 0);
    index = func_reshape(func_slice_axis(index, 0, size, 1, 1), 0, NULL);
    return func_as(index, qn_dtype_of(x));
}

int64_t func_count(const qn_tensor *x, uint32_t mask) {
    int64_t count = 1;
    for (int i = 0; i < func_rank(x); i++)
        if (mask >> i & 1) count = dim_op(tensor_ctx(x), count, '*', qn_dim(x, i));
    return count;
}

qn_tensor *func_broadcast(qn_tensor *x, const qn_tensor *to) {
    if (!x || !to) return NULL;
    return build_expand(x, node_at(tensor_ctx(to)->graph, tensor_at(to)->node)->shape);
}

typedef struct fitting {
    graph *g;
    tuple_id small, shape;
    bool fits;
} fitting;

static void fit_work(void *arg) {
    fitting *f = arg;
    tuple_id wider;
    f->fits = shape_broadcast(f->g, f->small, f->shape, &wider) && wider == f->shape;
}

bool func_fits(const qn_tensor *p, const qn_tensor *x) {
    qn_ctx *qn = tensor_ctx(x);
    graph *g = qn->graph;
    fitting f = {g, node_at(g, tensor_at(p)->node)->shape, node_at(g, tensor_at(x)->node)->shape,
                 false};
    guarded(qn, fit_work, &f);
    return f.fits;
}

/* ---- errors --------------------------------------------------------------------------------- */

typedef struct dim_print {
    graph *g;
    sym size;
    char *text;
} dim_print;

static void dim_work(void *arg) {
    const dim_print *p = arg;
    str *t = &p->g->text;
    t->len = 0;
    sym_print(p->g->syms, p->size, t);
    snprintf(p->text, FUNC_DIM_TEXT, "%s", t->s);
}

const char *func_dim_text(const qn_tensor *x, int axis, char text[FUNC_DIM_TEXT]) {
    graph *g = tensor_ctx(x)->graph;
    int rank;
    const int64_t *dims = node_dims(g, tensor_at(x)->node, &rank);
    dim_print p = {g, (sym)dims[axis < 0 ? axis + rank : axis], text};
    text[0] = 0;
    guarded(g->ctx, dim_work, &p);
    return text;
}
