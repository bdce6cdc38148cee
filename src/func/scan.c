/* scan.c - running results along an axis.
 *
 * All are the primitive scan of a monoid, whose gradients are scans again. Sums and products are
 * taken in 64 bits of integers and in f32 of half-precision floats, as reductions take theirs. */
#include "func/func.h"

static qn_tensor *running(const char *name, int by, qn_tensor *x, int axis) {
    func_frame f = func_on(name, ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    qn_dtype d = qn_dtype_of(x);
    if (by == MONOID_SUM || by == MONOID_PROD) x = func_as(x, func_sum_dtype(d));
    x = build_scan(x, NULL, (scan_attr){by, axis, false});
    return func_end(f, dtype_is_float(d) ? func_as(x, d) : x);
}

qn_tensor *qn_cumsum(qn_tensor *x, int axis) {
    return running("cumsum", MONOID_SUM, x, axis);
}

qn_tensor *qn_cumprod(qn_tensor *x, int axis) {
    return running("cumprod", MONOID_PROD, x, axis);
}

qn_tensor *qn_cummax(qn_tensor *x, int axis) {
    return running("cummax", MONOID_MAX, x, axis);
}

qn_tensor *qn_cummin(qn_tensor *x, int axis) {
    return running("cummin", MONOID_MIN, x, axis);
}

/* The largest index so far at which the running extreme was met, or a NaN was. */
static qn_tensor *running_index(const char *name, int by, qn_tensor *x, int axis) {
    func_frame f = func_on(name, ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    qn_tensor *most = build_scan(x, NULL, (scan_attr){by, axis, false});
    qn_tensor *here = qn_eq(x, most), *place = func_iota(f.qn, QN_I64, rank, dims, axis);
    if (dtype_is_float(qn_dtype_of(x))) here = qn_logical_or(here, qn_ne(x, x));
    place = qn_where(here, place, qn_like(place, 0));
    return func_end(f, build_scan(place, NULL, (scan_attr){MONOID_MAX, axis, false}));
}

qn_tensor *qn_cumargmax(qn_tensor *x, int axis) {
    return running_index("cumargmax", MONOID_MAX, x, axis);
}

qn_tensor *qn_cumargmin(qn_tensor *x, int axis) {
    return running_index("cumargmin", MONOID_MIN, x, axis);
}

qn_tensor *qn_logcumsumexp(qn_tensor *x, int axis) {
    func_frame f = func_on("logcumsumexp", ARG(x));
    func_floats(&f, 1, &x);
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    return func_end(f, build_scan(x, NULL, (scan_attr){MONOID_LOGSUMEXP, axis, false}));
}

qn_tensor *qn_linear_scan(qn_tensor *a, qn_tensor *b, int axis) {
    func_frame f = func_on("linear_scan", ARG(a), ARG(b));
    qn_tensor *both[2] = {a, b};
    func_floats(&f, 2, both);
    if (!func_axis(both[1], axis, &axis)) return func_end(f, NULL);
    both[0] = func_broadcast(both[0], both[1]);
    if (!both[0]) return func_end(f, NULL);
    return func_end(f, build_scan(both[0], both[1], (scan_attr){MONOID_AFFINE, axis, false}));
}

qn_tensor *qn_diff(qn_tensor *x, int n, int axis) {
    func_frame f = func_on("diff", ARG(x));
    if (n < 0)
        return func_end(f, fail_null(f.qn, QN_ERANGE, "%s: %d times", graph_name(f.qn, "diff"), n));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    func_numbers(&f, 1, &x);
    for (int i = 0; i < n && x; i++) {
        int64_t size = qn_dim(x, axis);
        int64_t left = size ? dim_op(f.qn, size, '-', 1) : 0;
        qn_tensor *next = func_slice_axis(x, axis, size ? 1 : 0, left, 1);
        qn_tensor *here = func_slice_axis(x, axis, 0, left, 1);
        x = qn_dtype_of(x) == QN_BOOL ? qn_ne(next, here) : qn_sub(next, here);
    }
    return func_end(f, x);
}
