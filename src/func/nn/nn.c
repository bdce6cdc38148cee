/* nn.c - softmax, dropout, and images rearranged.
 *
 * Every function here is meant to become one kernel, and is written without regard to that: each
 * reduction stands for itself, and the planner fuses. */
#include "func/func.h"

#include <math.h>

static qn_tensor *mul_number(qn_tensor *x, double v) {
    return qn_mul(x, qn_like(x, v));
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* x less its largest along the axis. The largest is a constant for the gradient: whatever is taken
 * off, softmax is the same. */
static qn_tensor *below_largest(qn_tensor *x, uint32_t mask) {
    return qn_sub(x, qn_detach(build_reduce(OP_MAX, x, mask, true)));
}

static qn_tensor *softmax_mask(qn_tensor *x, uint32_t mask, double none, bool keepdims) {
    (void)none, (void)keepdims;
    qn_tensor *e = qn_exp(below_largest(x, mask));
    return qn_mul(e, qn_reciprocal(build_reduce(OP_SUM, e, mask, true)));
}

qn_tensor *qn_softmax(qn_tensor *x, int axis) {
    return func_over_floats("softmax", softmax_mask, x, ONE_AXIS(axis), 0, true);
}

qn_tensor *qn_softmax_axes(qn_tensor *x, int n, const int *axes) {
    return func_over_floats("softmax", softmax_mask, x, LISTED_AXES(n, axes), 0, true);
}

static qn_tensor *log_softmax_mask(qn_tensor *x, uint32_t mask, double none, bool keepdims) {
    (void)none, (void)keepdims;
    qn_tensor *z = below_largest(x, mask);
    return qn_sub(z, qn_log(build_reduce(OP_SUM, qn_exp(z), mask, true)));
}

qn_tensor *qn_log_softmax(qn_tensor *x, int axis) {
    return func_over_floats("log_softmax", log_softmax_mask, x, ONE_AXIS(axis), 0, true);
}

qn_tensor *qn_log_softmax_axes(qn_tensor *x, int n, const int *axes) {
    return func_over_floats("log_softmax", log_softmax_mask, x, LISTED_AXES(n, axes), 0, true);
}

static qn_tensor *softmin_mask(qn_tensor *x, uint32_t mask, double none, bool keepdims) {
    return softmax_mask(qn_neg(x), mask, none, keepdims);
}

qn_tensor *qn_softmin(qn_tensor *x, int axis) {
    return func_over_floats("softmin", softmin_mask, x, ONE_AXIS(axis), 0, true);
}

/* ---- dropout and rearranging ---------------------------------------------------------------- */

qn_tensor *qn_dropout(qn_tensor *x, qn_tensor *key, double p) {
    func_frame f = func_on("dropout", ARG(x), ARG(key));
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    if (!x || p == 0) return func_end(f, x);
    if (!(p >= 0 && p <= 1))
        return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "dropout: %g is no probability", p));
    func_floats(&f, 1, &x);
    qn_tensor *keep = qn_bernoulli(key, rank, dims, 1 - p), *zero = qn_like(x, 0);
    if (p == 1) return func_end(f, func_broadcast(zero, x));
    return func_end(f, qn_where(keep, mul_number(x, 1 / (1 - p)), zero));
}

/* [N, C r^n, spatial..] as [N, C, spatial r..]: each of r^n channels is a place in a block. */
qn_tensor *qn_pixel_shuffle(qn_tensor *x, int64_t r) {
    func_frame f = func_on("pixel_shuffle", ARG(x));
    int64_t dims[2 * QN_MAX_RANK], shape[QN_MAX_RANK];
    int rank = func_rank(x), space = rank - 2, axes[2 * QN_MAX_RANK], n = 0;
    if (!x) return func_end(f, NULL);
    int64_t block = 1;
    for (int i = 0; i < space; i++) block = sat_mul(block, r);
    if (rank < 3 || rank > 5 || r < 1 || qn_dim(x, 1) < 0 || qn_dim(x, 1) % block)
        return func_end(f, tensor_unfit("x", x, NULL, NULL, "x is [N, C * %lld, 1 to 3 axes]",
                                        (long long)block));
    shape[0] = dims[n++] = qn_dim(x, 0);
    shape[1] = dims[n++] = qn_dim(x, 1) / block;
    for (int i = 0; i < space; i++) dims[n++] = r;
    for (int i = 0; i < space; i++) {
        dims[n++] = qn_dim(x, i + 2);
        shape[i + 2] = dim_op(f.qn, qn_dim(x, i + 2), '*', r);
    }
    axes[0] = 0, axes[1] = 1;
    for (int i = 0; i < space; i++) {
        axes[2 + 2 * i] = 2 + space + i;
        axes[3 + 2 * i] = 2 + i;
    }
    return func_end(f, func_reshape(qn_permute(func_reshape(x, n, dims), n, axes), rank, shape));
}

qn_tensor *qn_pixel_unshuffle(qn_tensor *x, int64_t r) {
    func_frame f = func_on("pixel_unshuffle", ARG(x));
    int64_t dims[2 * QN_MAX_RANK], shape[QN_MAX_RANK];
    int rank = func_rank(x), space = rank - 2, axes[2 * QN_MAX_RANK], n = 0;
    if (!x) return func_end(f, NULL);
    bool fits = rank >= 3 && rank <= 5 && r >= 1;
    for (int i = 0; i < space && fits; i++) fits = qn_dim(x, i + 2) >= 0 && !(qn_dim(x, i + 2) % r);
    if (!fits)
        return func_end(
            f, tensor_unfit("x", x, NULL, NULL, "its axes from 2 on go by %lld", (long long)r));
    shape[0] = dims[n++] = qn_dim(x, 0);
    shape[1] = dims[n++] = qn_dim(x, 1);
    for (int i = 0; i < space; i++) {
        dims[n++] = shape[i + 2] = qn_dim(x, i + 2) / r;
        dims[n++] = r;
        shape[1] = dim_op(f.qn, shape[1], '*', r);
        axes[2 + i] = 3 + 2 * i;
        axes[2 + space + i] = 2 + 2 * i;
    }
    axes[0] = 0, axes[1] = 1;
    return func_end(f, func_reshape(qn_permute(func_reshape(x, n, dims), n, axes), rank, shape));
}
