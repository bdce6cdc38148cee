/* reduce.c - reductions, primitive and composed.
 *
 * The public form of every reduction takes one axis or QN_ALL, some also a list of axes; both
 * end in a mask of axes. Sums and products are taken in what dtypes.h says: those of integers in 64
 * bits, as the array API asks, those of narrow floats in f32. Mean and variance are separate
 * reductions over the same axes, which the planner puts into one kernel. */
#include "func/func.h"

#include <math.h>

qn_tensor *func_reduce_mask(int op, qn_tensor *x, uint32_t mask, bool keepdims) {
    if (!x) return NULL;
    if (op_rows[op].types != TYPES_NUM) return build_reduce(op, x, mask, keepdims);
    qn_dtype d = qn_dtype_of(x);
    qn_tensor *r = build_reduce(op, func_as(x, func_sum_dtype(d)), mask, keepdims);
    return dtype_is_float(d) ? func_as(r, d) : r;
}

static qn_tensor *reduce_at(int op, qn_tensor *x, func_axes at, bool keepdims) {
    func_frame f = func_on(op_rows[op].name, ARG(x));
    uint32_t mask;
    return func_end(f, func_mask_at(x, at, &mask) ? func_reduce_mask(op, x, mask, keepdims) : NULL);
}

qn_tensor *func_reduce(int op, qn_tensor *x, int axis, bool keepdims) {
    return reduce_at(op, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *func_reduce_axes(int op, qn_tensor *x, int n, const int *axes, bool keepdims) {
    return reduce_at(op, x, LISTED_AXES(n, axes), keepdims);
}

/* ---- mean and variance ---------------------------------------------------------------------- */

qn_tensor *func_mean(qn_tensor *x, uint32_t mask, bool keepdims) {
    x = func_float(x);
    if (!x) return NULL;
    qn_tensor *wide = func_widen(x);
    qn_tensor *sum = build_reduce(OP_SUM, wide, mask, keepdims);
    return func_as(qn_div(sum, func_size(wide, func_count(x, mask))), qn_dtype_of(x));
}

/* A value of each row. Of rows that may be empty there is no first one. */
static qn_tensor *one_of(qn_tensor *x, uint32_t mask) {
    qn_tensor *first = x;
    for (int i = 0; i < func_rank(x); i++) {
        int64_t least;
        if (!(mask >> i & 1)) continue;
        if (qn_dim_range(tensor_ctx(x), qn_dim(x, i), &least, NULL)) return NULL;
        if (least < 1) return build_reduce(OP_MAX, x, mask, true);
        first = func_slice_axis(first, i, 0, 1, 1);
    }
    return first;
}

/* The mean as a difference from one value of the row, which all digits of a common part survive. An
 * outlier there takes digits of the others' differences, but no more than its own square takes in a
 * variance, and func_squares takes off what the mean is off: the variance of 1e8, 1 .. 1023 in f32
 * is right to 1.5e-7, that of 1e4 + i / 1000 to 7e-8, where PyTorch 2.15 has 4e-8 and 7e-6. */
qn_tensor *func_mean_near(qn_tensor *x, uint32_t mask) {
    qn_tensor *one = qn_detach(one_of(x, mask));
    if (!one) return NULL;
    qn_tensor *sum = build_reduce(OP_SUM, qn_sub(x, one), mask, true);
    return qn_fma(sum, qn_reciprocal(func_size(x, func_count(x, mask))), one);
}

qn_tensor *func_squares(qn_tensor *d, qn_tensor *count, uint32_t mask, bool keepdims) {
    qn_tensor *squares = build_reduce(OP_SUM, qn_mul(d, d), mask, keepdims);
    qn_tensor *left = build_reduce(OP_SUM, d, mask, keepdims);
    qn_tensor *lost = qn_minimum(qn_mul(left, qn_div(left, count)), squares);
    qn_tensor *finite = qn_lt(squares, qn_like(squares, (double)INFINITY));
    return qn_sub(squares, qn_detach(qn_where(finite, lost, qn_like(squares, 0))));
}

/* Around the mean, in two passes: the textbook's single pass cancels. */
static qn_tensor *spread(qn_tensor *x, uint32_t mask, double correction, bool keepdims) {
    x = func_float(x);
    if (!x) return NULL;
    qn_tensor *wide = func_widen(x);
    qn_tensor *d = qn_sub(wide, func_mean_near(wide, mask));
    qn_tensor *count = func_size(wide, func_count(x, mask));
    qn_tensor *sum = func_squares(d, count, mask, keepdims);
    if (correction != 0) {
        count = qn_sub(count, qn_like(count, correction));
        count = qn_maximum(count, qn_like(count, 0));
    }
    return func_as(qn_div(sum, count), qn_dtype_of(x));
}

qn_tensor *qn_mean(qn_tensor *x, int axis, bool keepdims) {
    return func_over("mean", func_mean, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_mean_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("mean", func_mean, x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *qn_variance(qn_tensor *x, int axis, double correction, bool keepdims) {
    return func_over_floats("variance", spread, x, ONE_AXIS(axis), correction, keepdims);
}

qn_tensor *qn_variance_axes(qn_tensor *x, int n, const int *axes, double correction,
                            bool keepdims) {
    return func_over_floats("variance", spread, x, LISTED_AXES(n, axes), correction, keepdims);
}

/* The p-th root of a sum of p-th powers. Where it is 0 its derivative is 0: there infinity would
 * meet the 0 of what the sum is made of. */
static qn_tensor *root_of_sum(qn_tensor *sum, double p) {
    qn_tensor *flat = qn_eq(sum, qn_like(sum, p > 0 ? 0 : (double)INFINITY));
    qn_tensor *rest = qn_where(flat, qn_like(sum, 1), sum);
    rest = p == 2 ? qn_sqrt(rest) : qn_pow(rest, qn_like(sum, 1 / p));
    return qn_where(flat, qn_like(sum, 0), rest);
}

qn_tensor *func_root(qn_tensor *x) {
    return root_of_sum(x, 2);
}

qn_tensor *func_norm_root(qn_tensor *sum, double p) {
    return root_of_sum(sum, p);
}

static qn_tensor *deviation(qn_tensor *x, uint32_t mask, double correction, bool keepdims) {
    return root_of_sum(spread(x, mask, correction, keepdims), 2);
}

qn_tensor *qn_std(qn_tensor *x, int axis, double correction, bool keepdims) {
    return func_over_floats("std", deviation, x, ONE_AXIS(axis), correction, keepdims);
}

qn_tensor *qn_std_axes(qn_tensor *x, int n, const int *axes, double correction, bool keepdims) {
    return func_over_floats("std", deviation, x, LISTED_AXES(n, axes), correction, keepdims);
}

/* ---- truth ---------------------------------------------------------------------------------- */

/* Of bools the largest says whether any is true, and the smallest whether all are; of none, the
 * identities say false and true. */
static qn_tensor *any_of(qn_tensor *x, uint32_t mask, bool keepdims) {
    return build_reduce(OP_MAX, func_truth(x), mask, keepdims);
}

static qn_tensor *all_of(qn_tensor *x, uint32_t mask, bool keepdims) {
    return build_reduce(OP_MIN, func_truth(x), mask, keepdims);
}

qn_tensor *qn_any(qn_tensor *x, int axis, bool keepdims) {
    return func_over("any", any_of, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_all(qn_tensor *x, int axis, bool keepdims) {
    return func_over("all", all_of, x, ONE_AXIS(axis), keepdims);
}

qn_tensor *qn_any_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("any", any_of, x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *qn_all_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over("all", all_of, x, LISTED_AXES(n, axes), keepdims);
}

/* ---- norms and logarithms of sums ----------------------------------------------------------- */

static qn_tensor *norm_mask(qn_tensor *x, uint32_t mask, double p, bool keepdims) {
    if (p == 0) {
        qn_tensor *there = qn_cast(qn_ne(x, qn_like(x, 0)), qn_dtype_of(x));
        return build_reduce(OP_SUM, there, mask, keepdims);
    }
    if (isinf(p)) return build_reduce(p > 0 ? OP_MAX : OP_MIN, qn_abs(x), mask, keepdims);
    if (p == 1) return build_reduce(OP_SUM, qn_abs(x), mask, keepdims);
    qn_tensor *powers = p == 2 ? qn_mul(x, x) : qn_pow(qn_abs(x), qn_like(x, p));
    return root_of_sum(build_reduce(OP_SUM, powers, mask, keepdims), p);
}

qn_tensor *qn_norm(qn_tensor *x, int axis, double p, bool keepdims) {
    return func_over_floats("norm", norm_mask, x, ONE_AXIS(axis), p, keepdims);
}

qn_tensor *qn_norm_axes(qn_tensor *x, int n, const int *axes, double p, bool keepdims) {
    return func_over_floats("norm", norm_mask, x, LISTED_AXES(n, axes), p, keepdims);
}

/* The largest is taken off first and added again. It is a constant for the gradient, since any
 * constant gives the same value; an infinite one is left where it is. */
static qn_tensor *log_of_sum(qn_tensor *x, uint32_t mask, double none, bool keepdims) {
    (void)none;
    qn_tensor *most = qn_detach(build_reduce(OP_MAX, x, mask, true));
    most = qn_where(qn_isfinite(most), most, qn_like(most, 0));
    qn_tensor *sum = build_reduce(OP_SUM, qn_exp(qn_sub(x, most)), mask, keepdims);
    if (!keepdims) most = build_reduce(OP_MAX, most, mask, false); /* sizes 1: only drops them */
    return qn_add(qn_log(sum), most);
}

qn_tensor *qn_logsumexp(qn_tensor *x, int axis, bool keepdims) {
    return func_over_floats("logsumexp", log_of_sum, x, ONE_AXIS(axis), 0, keepdims);
}

qn_tensor *qn_logsumexp_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return func_over_floats("logsumexp", log_of_sum, x, LISTED_AXES(n, axes), 0, keepdims);
}
