/* nan.c - reductions that count or leave out: of what is not zero, of what is not NaN.
 *
 * What is left out takes part as the reduction's identity, and is not counted. Its gradient is 0,
 * for the value that stands in its place is a constant. */
#include "func/func.h"

#include <math.h>

/* How many are true, in dtype d; sums of bools are of integers. */
static qn_tensor *count_true(qn_tensor *truth, uint32_t mask, bool keepdims, qn_dtype d) {
    if (!truth) return NULL;
    qn_tensor *n = build_reduce(OP_SUM, qn_cast(truth, QN_I64), mask, keepdims);
    return func_as(n, d);
}

static qn_tensor *count_nonzero(qn_tensor *x, uint32_t mask, bool keepdims) {
    return count_true(func_truth(x), mask, keepdims, QN_I64);
}

/* x without its NaNs; integers have none. */
static qn_tensor *instead_of_nan(qn_tensor *x, double value) {
    if (!x || !dtype_is_float(qn_dtype_of(x))) return x;
    return qn_where(qn_eq(x, x), x, qn_like(x, value));
}

static qn_tensor *nansum(qn_tensor *x, uint32_t mask, bool keepdims) {
    return func_reduce_mask(OP_SUM, instead_of_nan(x, 0), mask, keepdims);
}

static qn_tensor *nanprod(qn_tensor *x, uint32_t mask, bool keepdims) {
    return func_reduce_mask(OP_PROD, instead_of_nan(x, 1), mask, keepdims);
}

/* Of nothing but NaNs the largest is NaN. */
static qn_tensor *nan_extreme(int op, qn_tensor *x, uint32_t mask, bool keepdims) {
    if (!x || !dtype_is_float(qn_dtype_of(x))) return build_reduce(op, x, mask, keepdims);
    double top = dtype_top(qn_dtype_of(x)), none = op == OP_MAX ? -top : top;
    qn_tensor *some = build_reduce(OP_MAX, qn_eq(x, x), mask, keepdims);
    qn_tensor *y = build_reduce(op, instead_of_nan(x, none), mask, keepdims);
    return qn_where(some, y, qn_like(y, (double)NAN));
}

static qn_tensor *nanmax(qn_tensor *x, uint32_t mask, bool keepdims) {
    return nan_extreme(OP_MAX, x, mask, keepdims);
}

static qn_tensor *nanmin(qn_tensor *x, uint32_t mask, bool keepdims) {
    return nan_extreme(OP_MIN, x, mask, keepdims);
}

static qn_tensor *nanmean(qn_tensor *x, uint32_t mask, bool keepdims) {
    x = func_float(x);
    if (!x) return NULL;
    qn_dtype d = qn_dtype_of(x);
    qn_tensor *wide = func_widen(x);
    qn_tensor *sum = build_reduce(OP_SUM, instead_of_nan(wide, 0), mask, keepdims);
    qn_tensor *count = count_true(qn_eq(wide, wide), mask, keepdims, qn_dtype_of(wide));
    return func_as(qn_div(sum, count), d);
}

/* Around the mean of those that count; NaN where no more count than `correction`. As
 * func_mean_near has it, the mean is a value and the mean difference from it: the largest, for the
 * first may be NaN. */
static qn_tensor *nan_spread(qn_tensor *x, uint32_t mask, double correction, bool keepdims) {
    x = func_float(x);
    if (!x) return NULL;
    qn_dtype d = qn_dtype_of(x);
    qn_tensor *wide = func_widen(x), *there = qn_eq(wide, wide);
    qn_tensor *none = qn_like(wide, 0), *one = qn_detach(nan_extreme(OP_MAX, wide, mask, true));
    qn_tensor *count = count_true(there, mask, true, qn_dtype_of(wide));
    qn_tensor *sum = build_reduce(OP_SUM, qn_where(there, qn_sub(wide, one), none), mask, true);
    qn_tensor *mean = qn_fma(sum, qn_reciprocal(count), one);
    qn_tensor *off = qn_where(there, qn_sub(wide, mean), none);
    count = count_true(there, mask, keepdims, qn_dtype_of(wide));
    sum = func_squares(off, count, mask, keepdims);
    count = qn_maximum(qn_sub(count, qn_like(count, correction)), qn_like(count, 0));
    return func_as(qn_div(sum, count), d);
}

/* ---- the public forms ----------------------------------------------------------------------- */

qn_tensor *qn_count_nonzero(qn_tensor *x, int axis, bool keepdims) {
    return func_over("count_nonzero", count_nonzero, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_count_nonzero_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("count_nonzero", count_nonzero, x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *qn_nansum(qn_tensor *x, int axis, bool keepdims) {
    return func_over("nansum", nansum, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_nansum_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("nansum", nansum, x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *qn_nanprod(qn_tensor *x, int axis, bool keepdims) {
    return func_over("nanprod", nanprod, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_nanprod_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("nanprod", nanprod, x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *qn_nanmax(qn_tensor *x, int axis, bool keepdims) {
    return func_over("nanmax", nanmax, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_nanmax_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("nanmax", nanmax, x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *qn_nanmin(qn_tensor *x, int axis, bool keepdims) {
    return func_over("nanmin", nanmin, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_nanmin_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("nanmin", nanmin, x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *qn_nanmean(qn_tensor *x, int axis, bool keepdims) {
    return func_over("nanmean", nanmean, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_nanmean_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("nanmean", nanmean, x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *qn_nanvariance(qn_tensor *x, int axis, double correction, bool keepdims) {
    return func_over_floats("nanvariance", nan_spread, x, ONE_AXIS(axis), correction, keepdims);
}

qn_tensor *qn_nanvariance_axes(qn_tensor *x, int n, const int *axes, double correction,
                               bool keepdims) {
    return func_over_floats("nanvariance", nan_spread, x, LISTED_AXES(n, axes), correction,
                            keepdims);
}

/* The root of 0 has the derivative 0, as std's. */
static qn_tensor *nan_deviation(qn_tensor *x, uint32_t mask, double correction, bool keepdims) {
    return func_root(nan_spread(x, mask, correction, keepdims));
}

qn_tensor *qn_nanstd(qn_tensor *x, int axis, double correction, bool keepdims) {
    return func_over_floats("nanstd", nan_deviation, x, ONE_AXIS(axis), correction, keepdims);
}

qn_tensor *qn_nanstd_axes(qn_tensor *x, int n, const int *axes, double correction, bool keepdims) {
    return func_over_floats("nanstd", nan_deviation, x, LISTED_AXES(n, axes), correction, keepdims);
}

/* ---- in another dtype ----------------------------------------------------------------------- */

static qn_tensor *reduce_as(int op, qn_tensor *x, uint32_t mask, qn_dtype dtype, bool keepdims) {
    if (!x) return NULL;
    if (dtype == QN_BOOL)
        return fail_null(tensor_ctx(x), QN_EDTYPE, "%s: no sum is of bools",
                         graph_name(tensor_ctx(x), "sum_as"));
    x = qn_cast(x, dtype);
    if (op == OP_NONE) return func_mean(x, mask, keepdims);
    return x ? func_as(func_reduce_mask(op, x, mask, keepdims), dtype) : NULL;
}

qn_tensor *qn_sum_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims) {
    func_frame f = func_on("sum_as", ARG(x));
    uint32_t mask;
    if (!func_mask_of(x, n, axes, &mask)) return func_end(f, NULL);
    return func_end(f, reduce_as(OP_SUM, x, mask, dtype, keepdims));
}

qn_tensor *qn_prod_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims) {
    func_frame f = func_on("prod_as", ARG(x));
    uint32_t mask;
    if (!func_mask_of(x, n, axes, &mask)) return func_end(f, NULL);
    return func_end(f, reduce_as(OP_PROD, x, mask, dtype, keepdims));
}

qn_tensor *qn_mean_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims) {
    func_frame f = func_on("mean_as", ARG(x));
    uint32_t mask;
    if (x && !dtype_is_float(dtype))
        return func_end(f, fail_null(f.qn, QN_EDTYPE, "mean_as: a mean is a float, not %s",
                                     qn_dtype_name(dtype)));
    if (!func_mask_of(x, n, axes, &mask)) return func_end(f, NULL);
    return func_end(f, reduce_as(OP_NONE, x, mask, dtype, keepdims));
}

qn_code qn_aminmax(qn_tensor *x, int axis, bool keepdims, qn_tensor **out) {
    if (!func_outputs_check(x, "aminmax", out)) return handle_code(x);
    qn_ctx *qn = tensor_ctx(x);
    int made = 0;
    for (; made < 2; made++) {
        qn_tensor *t = x;
        func_frame f = func_on("aminmax", ARG(t));
        uint32_t mask;
        bool fine = func_mask(t, axis, &mask);
        int op = made == 0 ? OP_MIN : OP_MAX;
        out[made] = func_end(f, fine ? build_reduce(op, t, mask, keepdims) : NULL);
        if (!out[made]) break;
    }
    return func_outputs_done(qn, 2, out, made);
}

qn_tensor *qn_trace(qn_tensor *x, int64_t offset) {
    func_frame f = func_on("trace", ARG(x));
    qn_tensor *d = qn_diagonal(x, offset);
    uint32_t mask;
    return func_end(f, func_mask(d, -1, &mask) ? func_reduce_mask(OP_SUM, d, mask, false) : NULL);
}
