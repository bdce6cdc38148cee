/* sort.c - sorting and what is found by it.
 *
 * Routines (graph/routines.h) put the last axis in order; another one is exchanged with it, which
 * is a copy. All but sort itself give places, and values are gathered from there, so that gradients
 * follow from what they are made of. */
#include "func/func.h"

#include <math.h>

/* The result has x's shape but for the last size, -1: all of it. */
static qn_tensor *call_on(qn_tensor *x, const call_attr *c, qn_dtype dtype, int64_t last) {
    int64_t dims[QN_MAX_RANK];
    tuple_id shape;
    if (!x) return NULL;
    int rank = func_dims(x, dims);
    if (last != -1) dims[rank - 1] = last;
    if (!shape_from_user(tensor_ctx(x), routine_rows[c->routine].name, rank, dims, &shape))
        return NULL;
    return build_call(c, dtype, shape, 1, &x);
}

static qn_tensor *flat(qn_tensor *x) {
    int64_t n = x ? func_count(x, (1u << func_rank(x)) - 1) : 0;
    return func_reshape(x, 1, &n);
}

/* x with the axis last; it is its own inverse. */
static qn_tensor *exchange(qn_tensor *x, int axis) {
    int last = func_rank(x) - 1;
    return x && axis != last ? qn_transpose(x, axis, last) : x;
}

static qn_tensor *sort_result(const char *name, qn_tensor *x, int axis, bool descending,
                              int result) {
    func_frame f = func_on(name, ARG(x));
    const call_attr c = {ROUTINE_SORT, result, 1, {descending}};
    if (!x || !func_axis(x, axis, &axis)) return func_end(f, NULL);
    qn_dtype dtype = result ? QN_I64 : qn_dtype_of(x);
    return func_end(f, exchange(call_on(exchange(x, axis), &c, dtype, -1), axis));
}

qn_tensor *qn_sort(qn_tensor *x, int axis, bool descending) {
    return sort_result("sort", x, axis, descending, 0);
}

qn_tensor *qn_argsort(qn_tensor *x, int axis, bool descending) {
    return sort_result("argsort", x, axis, descending, 1);
}

/* ---- some of a row --------------------------------------------------------------------------- */

/* What is picked along an axis: places by a call, in rows of `size`, or the elements there. */
typedef struct picking {
    const char *name;
    qn_tensor *x;
    int axis;
    bool keepdims, rows; /* rows: the axis stays, with `size` elements */
    int64_t size;
    call_attr call;
} picking;

/* One element, with so many axes. */
static qn_tensor *all_axes(qn_tensor *x, int rank) {
    int64_t ones[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) ones[i] = 1;
    return func_reshape(x, rank, ones);
}

static bool pick_refused(const picking *p, int64_t n) {
    qn_ctx *qn = tensor_ctx(p->x);
    int64_t k = p->rows ? p->size : p->call.attr[0];
    bool counted = p->rows || (p->call.routine == ROUTINE_KTH && !p->call.attr[1]);
    if (n < 0 && !dim_is_code(qn->graph, n)) return true;
    if (counted && (k < !p->rows || (n >= 0 && k > n)))
        return fail(qn, QN_ERANGE, "%s: %lld of %lld elements", graph_name(qn, p->name),
                    (long long)k, (long long)n);
    return !counted && n == 0 && fail(qn, QN_ESHAPE, "%s: of no elements", graph_name(qn, p->name));
}

static qn_tensor *pick_inside(const picking *p, bool values) {
    int axis = p->axis, rank = func_rank(p->x);
    qn_tensor *x = p->x;
    if (!x) return NULL;
    if (axis == QN_ALL) {
        x = flat(x);
        axis = 0;
    }
    if (!x || !func_axis(x, axis, &axis) || pick_refused(p, qn_dim(x, axis))) return NULL;
    qn_tensor *from = exchange(x, axis), *r = call_on(from, &p->call, QN_I64, p->size);
    if (values) r = build_gather(from, r, func_rank(from) - 1);
    r = exchange(r, axis);
    if (p->rows || !r) return r;
    if (p->axis != QN_ALL) return p->keepdims ? r : qn_squeeze(r, axis);
    return all_axes(r, p->keepdims ? rank : 0);
}

static qn_tensor *pick(picking p, bool values) {
    func_frame f = func_on(p.name, {&p.x, "x", false});
    return func_end(f, pick_inside(&p, values));
}

/* Either may be NULL; where one fails both are. */
static qn_code pick_both(picking p, qn_tensor **values, qn_tensor **index) {
    if (values) *values = NULL;
    if (index) *index = NULL;
    qn_tensor *v = NULL, *i = pick(p, false);
    if (!i) return handle_code(p.x);
    if (values && !(v = pick(p, true))) {
        qn_release(i);
        return handle_code(p.x);
    }
    if (values) *values = v;
    if (index)
        *index = i;
    else
        qn_release(i);
    return QN_OK;
}

qn_code qn_topk(qn_tensor *x, int64_t k, int axis, bool largest, qn_tensor **values,
                qn_tensor **index) {
    picking p = {.name = "topk", .x = x, .axis = axis, .rows = true, .size = k};
    p.call = (call_attr){ROUTINE_TOPK, 0, 1, {largest}};
    return pick_both(p, values, index);
}

qn_code qn_kthvalue(qn_tensor *x, int64_t k, int axis, bool keepdims, qn_tensor **values,
                    qn_tensor **index) {
    picking p = {.name = "kthvalue", .x = x, .axis = axis, .keepdims = keepdims, .size = 1};
    p.call = (call_attr){ROUTINE_KTH, 0, 2, {k, 0}};
    return pick_both(p, values, index);
}

qn_code qn_mode(qn_tensor *x, int axis, bool keepdims, qn_tensor **values, qn_tensor **index) {
    picking p = {.name = "mode", .x = x, .axis = axis, .keepdims = keepdims, .size = 1};
    p.call = (call_attr){ROUTINE_MODE, 0, 0, {0}};
    return pick_both(p, values, index);
}

qn_tensor *qn_median(qn_tensor *x, int axis, bool keepdims) {
    picking p = {.name = "median", .x = x, .axis = axis, .keepdims = keepdims, .size = 1};
    p.call = (call_attr){ROUTINE_KTH, 0, 2, {0, 1}};
    return pick(p, true);
}

qn_tensor *qn_nanmedian(qn_tensor *x, int axis, bool keepdims) {
    picking p = {.name = "nanmedian", .x = x, .axis = axis, .keepdims = keepdims, .size = 1};
    p.call = (call_attr){ROUTINE_KTH, 0, 2, {0, 2}};
    return pick(p, true);
}

/* ---- quantiles ------------------------------------------------------------------------------- */

/* As NumPy and PyTorch: from the nearer end, so that both ends are met exactly. */
static qn_tensor *between(qn_tensor *a, qn_tensor *b, double t) {
    qn_tensor *d = qn_sub(b, a);
    if (t < 0.5) return qn_add(a, qn_mul(d, qn_like(a, t)));
    return qn_sub(b, qn_mul(d, qn_like(a, 1 - t)));
}

static qn_tensor *quantile_at(qn_tensor *sorted, double at, qn_quantile_mode mode) {
    double lo = floor(at), t = at - lo;
    if (mode == QN_QUANTILE_LOWER) t = 0;
    if (mode == QN_QUANTILE_HIGHER) t = t > 0;
    if (mode == QN_QUANTILE_MIDPOINT) t = t > 0 ? 0.5 : 0;
    if (mode == QN_QUANTILE_NEAREST) t = rint(at) - lo;
    qn_tensor *a = func_slice_axis(sorted, func_rank(sorted) - 1, (int64_t)lo + (t >= 1), 1, 1);
    if (t <= 0 || t >= 1) return a;
    return between(a, func_slice_axis(sorted, func_rank(sorted) - 1, (int64_t)lo + 1, 1, 1), t);
}

static bool quantile_refused(const qn_tensor *x, int n, const double *q, int64_t size) {
    qn_ctx *qn = tensor_ctx(x);
    if (n < 0 || !q) return fail(qn, QN_ENULL, "quantile: q is NULL");
    if (size < 1)
        return fail(qn, QN_ESHAPE, "quantile: there must be elements, and their number be known");
    for (int i = 0; i < n; i++)
        if (!(q[i] >= 0 && q[i] <= 1))
            return fail(qn, QN_ERANGE, "quantile: q[%d] is %g, not in [0, 1]", i, q[i]);
    return false;
}

/* [1, ..] of what was found along the last axis, of size 1. */
static qn_tensor *quantile_shaped(qn_tensor *r, int axis, int rank, bool all, bool keepdims) {
    r = exchange(r, axis);
    if (all) r = all_axes(r, keepdims ? rank : 0);
    if (!all && !keepdims) r = qn_squeeze(r, axis);
    return qn_unsqueeze(r, 0);
}

static qn_tensor *quantiles(qn_tensor *x, int n, const double *q, int axis, bool keepdims,
                            qn_quantile_mode mode) {
    int rank = func_rank(x);
    bool all = axis == QN_ALL;
    if (all) {
        x = flat(x);
        axis = 0;
    }
    x = func_float(x);
    if (!x || !func_axis(x, axis, &axis)) return NULL;
    int64_t size = qn_dim(x, axis);
    if (quantile_refused(x, n, q, size)) return NULL;
    const call_attr c = {ROUTINE_SORT, 0, 1, {false}};
    qn_tensor *s = call_on(exchange(x, axis), &c, qn_dtype_of(x), -1), *out = NULL;
    qn_tensor *last = func_slice_axis(s, func_rank(s) - 1, size - 1, 1, 1);
    for (int i = 0; i < n; i++) {
        qn_tensor *r = quantile_at(func_widen(s), q[i] * (double)(size - 1), mode);
        r = qn_where(qn_isnan(last), last, func_as(r, qn_dtype_of(x)));
        r = quantile_shaped(r, axis, rank, all, keepdims);
        out = out ? qn_concat(2, (qn_tensor *[]){out, r}, 0) : r;
    }
    return out;
}

qn_tensor *qn_quantile(qn_tensor *x, int n, const double *q, int axis, bool keepdims,
                       qn_quantile_mode mode) {
    func_frame f = func_on("quantile", ARG(x));
    if (x && n < 1) fail(f.qn, QN_ERANGE, "quantile: of %d numbers", n);
    if (x && ((int)mode < 0 || mode > QN_QUANTILE_NEAREST))
        fail(f.qn, QN_EARG, "quantile: no such mode");
    if (!x || f.failures != f.qn->failures) return func_end(f, NULL);
    return func_end(f, quantiles(x, n, q, axis, keepdims, mode));
}

/* ---- different elements ---------------------------------------------------------------------- */

enum { UNIQUE_INDEX, UNIQUE_COUNTS, UNIQUE_INVERSE, UNIQUE_COUNT, UNIQUE_VALUES };

static qn_tensor *unique_result(qn_tensor *x, int result) {
    func_frame f = func_on("unique", ARG(x));
    int64_t dims[QN_MAX_RANK];
    if (!x) return func_end(f, NULL);
    int rank = func_dims(x, dims);
    x = flat(x);
    call_attr c = {ROUTINE_UNIQUE, result == UNIQUE_VALUES ? UNIQUE_INDEX : result, 0, {0}};
    call_attr count = {ROUTINE_UNIQUE, UNIQUE_COUNT, 0, {0}};
    qn_tensor *number = x ? build_call(&count, QN_I64, 0, 1, &x) : NULL;
    if (result == UNIQUE_COUNT) return func_end(f, number);
    qn_tensor *r = call_on(x, &c, QN_I64, -1);
    if (result == UNIQUE_INVERSE) r = func_reshape(r, rank, dims);
    if (result != UNIQUE_VALUES || !r) return func_end(f, r);
    int64_t n = qn_dim(x, 0);
    qn_tensor *there = qn_lt(func_iota(f.qn, QN_I64, 1, &n, 0), number);
    r = build_gather(x, r, 0);
    return func_end(f, qn_where(there, r, r ? qn_zeros_like(r) : NULL));
}

qn_code qn_unique(qn_tensor *x, qn_tensor **values, qn_tensor **index, qn_tensor **inverse,
                  qn_tensor **counts, qn_tensor **count) {
    static const int which[] = {UNIQUE_VALUES, UNIQUE_INDEX, UNIQUE_INVERSE, UNIQUE_COUNTS,
                                UNIQUE_COUNT};
    qn_tensor **const out[] = {values, index, inverse, counts, count};
    qn_tensor *made[5] = {NULL};
    qn_code code = QN_OK;
    for (int i = 0; i < 5; i++)
        if (out[i]) *out[i] = NULL;
    for (int i = 0; i < 5 && !code; i++) {
        if (!out[i] && which[i] != UNIQUE_COUNT) continue;
        made[i] = unique_result(x, which[i]);
        if (!made[i]) code = handle_code(x);
    }
    for (int i = 0; i < 5; i++)
        if (!code && out[i])
            *out[i] = made[i];
        else if (made[i])
            qn_release(made[i]);
    return code;
}

/* ---- places ---------------------------------------------------------------------------------- */

static qn_tensor *places_in(qn_tensor *sorted, qn_tensor *values, bool right) {
    int64_t dims[QN_MAX_RANK], rows[QN_MAX_RANK];
    tuple_id shape;
    if (!sorted || !values) return NULL;
    int rank = func_dims(values, dims), n = func_dims(sorted, rows);
    bool fits = n == 1 || (n == rank && n > 0);
    for (int i = 0; i + 1 < n && fits; i++) fits = rows[i] == dims[i];
    if (!fits)
        return tensor_unfit("sorted", sorted, "values", values,
                            "sorted is a vector, or its rows are those of values");
    qn_dtype dtype = func_meet(sorted, values);
    qn_tensor *const both[2] = {func_as(sorted, dtype), func_as(values, dtype)};
    const call_attr c = {ROUTINE_SEARCH, 0, 1, {right}};
    if (!shape_from_user(tensor_ctx(values), "searchsorted", rank, dims, &shape)) return NULL;
    return build_call(&c, QN_I64, shape, 2, both);
}

qn_tensor *qn_searchsorted(qn_tensor *sorted, qn_tensor *values, bool right) {
    func_frame f = func_on("searchsorted", ARG(sorted), ARG(values));
    return func_end(f, places_in(sorted, values, right));
}

/* [bins]: one for each index, or its weight, added up. */
static qn_tensor *add_up(qn_tensor *index, qn_tensor *weights, int64_t bins) {
    if (!index) return NULL;
    qn_dtype dtype = weights ? qn_dtype_of(weights) : QN_I64;
    if (weights && !dtype_is_float(dtype)) dtype = QN_I64;
    weights = weights ? func_widen(func_as(weights, dtype))
                      : func_full(tensor_ctx(index), QN_I64, 0, NULL, 1);
    if (!weights) return NULL;
    qn_tensor *zeros = func_full(tensor_ctx(index), qn_dtype_of(weights), 1, &bins, 0);
    weights = func_broadcast(weights, index);
    index = flat(index);
    return func_as(build_scatter(zeros, index, flat(weights), 0, MONOID_SUM), dtype);
}

static bool weights_fit(qn_tensor *x, qn_tensor *weights) {
    if (!weights || func_fits(weights, x)) return true;
    return tensor_unfit("x", x, "weights", weights, "there is one weight for each element"), false;
}

qn_tensor *qn_bincount(qn_tensor *x, qn_tensor *weights, int64_t bins) {
    func_frame f = func_on("bincount", ARG(x), OPTIONAL(weights));
    if (!x || !weights_fit(x, weights)) return func_end(f, NULL);
    if (!dtype_is_int(qn_dtype_of(x))) {
        fail(f.qn, QN_EDTYPE, "bincount: takes integers, not %s", qn_dtype_name(qn_dtype_of(x)));
        return func_end(f, NULL);
    }
    return func_end(f, add_up(func_as(x, QN_I64), weights, bins));
}

qn_tensor *qn_histogram(qn_tensor *x, qn_tensor *edges, qn_tensor *weights) {
    func_frame f = func_on("histogram", ARG(x), ARG(edges), OPTIONAL(weights));
    if (!x || !edges || !weights_fit(x, weights)) return func_end(f, NULL);
    int64_t n = func_rank(edges) == 1 ? qn_dim(edges, 0) : 0;
    if (n < 2) {
        fail(f.qn, QN_ESHAPE, "histogram: edges are a vector of a known size of at least 2");
        return func_end(f, NULL);
    }
    qn_dtype dtype = func_meet(x, edges);
    x = func_as(x, dtype);
    edges = func_as(edges, dtype);
    qn_tensor *end = qn_select(edges, 0, -1), *at = places_in(edges, x, true);
    at = qn_sub(at, qn_like(at, 1));
    at = qn_where(qn_eq(x, end), qn_like(at, (double)(n - 2)), at);
    /* What is outside goes behind the last bin. */
    at = qn_where(qn_lt(at, qn_like(at, 0)), qn_like(at, (double)(n - 1)), at);
    return func_end(f, func_slice_axis(add_up(at, weights, n), 0, 0, n - 1, 1));
}
