/* norm.c - normalisation: over the last axes, over groups of channels, over images and batches.
 *
 * Every one takes off a mean and divides by a deviation over some axes, and then scales and shifts
 * by parameters that do not make x larger. */
#include "func/func.h"

/* A parameter of a norm does not make x larger. */
static bool norm_takes(const qn_tensor *x, const char *name, const qn_tensor *p) {
    char width[FUNC_DIM_TEXT];
    if (!x || !p || !func_rank(x) || func_fits(p, x)) return true;
    tensor_unfit("x", x, name, p, "%s has the size of x's last axis, %s", name,
                 func_dim_text(x, -1, width));
    return false;
}

static qn_tensor *scale_shift(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta) {
    if (gamma && beta) return qn_fma(x, gamma, beta);
    if (gamma) x = qn_mul(x, gamma);
    if (beta) x = qn_add(x, beta);
    return x;
}

/* Mean 0 and variance 1 over the axes of the mask. */
static qn_tensor *standardize(qn_tensor *x, uint32_t mask, double eps) {
    qn_tensor *d = qn_sub(x, func_mean_near(x, mask));
    qn_tensor *variance = func_mean(qn_mul(d, d), mask, true);
    return qn_mul(d, qn_rsqrt(qn_add(variance, qn_like(variance, eps))));
}

qn_tensor *qn_layer_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps) {
    func_frame f = func_on("layer_norm", ARG(x), OPTIONAL(gamma), OPTIONAL(beta));
    int axis;
    if (!norm_takes(x, "gamma", gamma) || !norm_takes(x, "beta", beta)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    if (!func_axis(x, -1, &axis)) return func_end(f, NULL);
    return func_end(f, scale_shift(standardize(x, 1u << axis, eps), gamma, beta));
}

qn_tensor *qn_rms_norm(qn_tensor *x, qn_tensor *gamma, double eps) {
    func_frame f = func_on("rms_norm", ARG(x), OPTIONAL(gamma));
    int axis;
    if (!norm_takes(x, "gamma", gamma)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    if (!func_axis(x, -1, &axis)) return func_end(f, NULL);
    qn_tensor *square = func_mean(qn_mul(x, x), 1u << axis, true);
    qn_tensor *y = qn_mul(x, qn_rsqrt(qn_add(square, qn_like(square, eps))));
    return func_end(f, scale_shift(y, gamma, NULL));
}

/* A parameter of shape [C], to be broadcast over [N, C, ...] of this rank. */
static qn_tensor *per_channel(qn_tensor *p, int rank) {
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = 1;
    dims[1] = qn_dim(p, 0);
    return func_reshape(p, rank, dims);
}

static qn_tensor *scale_channels(qn_tensor *y, qn_tensor *gamma, qn_tensor *beta, int rank) {
    return scale_shift(y, gamma ? per_channel(gamma, rank) : NULL,
                       beta ? per_channel(beta, rank) : NULL);
}

static bool channel_takes(const qn_tensor *x, const char *name, const qn_tensor *p) {
    if (!p || (func_rank(p) == 1 && qn_dim(p, 0) == qn_dim(x, 1))) return true;
    tensor_unfit("x", x, name, p, "%s has one number for each channel of x", name);
    return false;
}

qn_tensor *qn_group_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, int64_t groups,
                         double eps) {
    func_frame f = func_on("group_norm", ARG(x), OPTIONAL(gamma), OPTIONAL(beta));
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    func_floats(&f, 1, &x);
    if (!x) return func_end(f, NULL);
    if (rank < 2 || groups < 1 || dims[1] < 0 || dims[1] % groups != 0)
        return func_end(f, tensor_unfit("x", x, NULL, NULL, "its channels, axis 1, in %lld groups",
                                        (long long)groups));
    if (!channel_takes(x, "gamma", gamma) || !channel_takes(x, "beta", beta))
        return func_end(f, NULL);
    int64_t rest = func_count(x, (1u << rank) - 2);
    const int64_t split[3] = {dims[0], groups, dim_op(tensor_ctx(x), rest, '/', groups)};
    qn_tensor *y = func_reshape(x, 3, split);
    y = y ? func_reshape(standardize(y, 4, eps), rank, dims) : NULL;
    return func_end(f, scale_channels(y, gamma, beta, rank));
}

qn_tensor *qn_layer_norm_axes(qn_tensor *x, int n, const int *axes, qn_tensor *gamma,
                              qn_tensor *beta, double eps) {
    func_frame f = func_on("layer_norm", ARG(x), OPTIONAL(gamma), OPTIONAL(beta));
    uint32_t mask;
    if (!norm_takes(x, "gamma", gamma) || !norm_takes(x, "beta", beta)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    if (!func_mask_of(x, n, axes, &mask)) return func_end(f, NULL);
    return func_end(f, scale_shift(standardize(x, mask, eps), gamma, beta));
}

/* ---- by channels ---------------------------------------------------------------------------- */

/* Is x [N, C, ..], and are its parameters of its channels? */
static bool channels_fit(const qn_tensor *x, const qn_tensor *gamma, const qn_tensor *beta) {
    if (!x) return false;
    if (func_rank(x) < 2) return tensor_unfit("x", x, NULL, NULL, "its channels are axis 1"), false;
    return channel_takes(x, "gamma", gamma) && channel_takes(x, "beta", beta);
}

/* One value has no variance without bias, and its standardized value is 0 whatever it is. */
static bool channels_vary(const qn_tensor *x) {
    if (func_count(x, ((1u << func_rank(x)) - 1) & ~2u) != 1) return true;
    tensor_unfit("x", x, NULL, NULL,
                 "more than one value for each channel is wanted when training");
    return false;
}

qn_tensor *qn_instance_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps) {
    func_frame f = func_on("instance_norm", ARG(x), OPTIONAL(gamma), OPTIONAL(beta));
    if (!channels_fit(x, gamma, beta)) return func_end(f, NULL);
    int rank = func_rank(x);
    uint32_t space = ((1u << rank) - 1) & ~3u;
    func_floats(&f, 1, &x);
    return func_end(f, scale_channels(standardize(x, space, eps), gamma, beta, rank));
}

qn_tensor *qn_batch_norm(qn_tensor *x, qn_tensor *mean, qn_tensor *variance, qn_tensor *gamma,
                         qn_tensor *beta, double eps) {
    func_frame f =
        func_on("batch_norm", ARG(x), ARG(mean), ARG(variance), OPTIONAL(gamma), OPTIONAL(beta));
    if (!mean || !variance || !channels_fit(x, gamma, beta) || !channel_takes(x, "mean", mean) ||
        !channel_takes(x, "variance", variance))
        return func_end(f, NULL);
    int rank = func_rank(x);
    func_floats(&f, 1, &x);
    qn_tensor *d = qn_sub(x, per_channel(mean, rank));
    qn_tensor *v = func_widen(per_channel(variance, rank));
    qn_tensor *y = qn_mul(d, qn_rsqrt(qn_add(v, qn_like(v, eps))));
    return func_end(f, scale_channels(y, gamma, beta, rank));
}

/* The result, the batch's mean, and its variance without bias, as running statistics take it in. */
static qn_tensor *batch_norm_part(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps,
                                  int part) {
    int rank = func_rank(x);
    uint32_t mask = ((1u << rank) - 1) & ~2u;
    if (part == 0) return scale_channels(standardize(x, mask, eps), gamma, beta, rank);
    qn_tensor *mean = func_mean_near(x, mask);
    if (part == 1) return func_reshape(mean, 1, (int64_t[]){qn_dim(x, 1)});
    qn_tensor *count = func_size(x, func_count(x, mask));
    qn_tensor *sum = func_squares(qn_sub(x, mean), count, mask, false);
    qn_tensor *less = qn_sub(count, qn_like(count, 1));
    return qn_div(sum, qn_maximum(less, qn_like(count, 0)));
}

qn_code qn_batch_norm_training(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps,
                               qn_tensor **out) {
    if (!func_outputs_check(x, "batch_norm_training", out)) return handle_code(x);
    qn_ctx *qn = tensor_ctx(x);
    int made = 0;
    for (; made < 3; made++) {
        qn_tensor *t = x;
        func_frame f = func_on("batch_norm_training", ARG(t), OPTIONAL(gamma), OPTIONAL(beta));
        bool fits = channels_fit(t, gamma, beta) && channels_vary(t);
        func_floats(&f, 1, &t);
        out[made] = func_end(f, fits ? batch_norm_part(t, gamma, beta, eps, made) : NULL);
        if (!out[made]) break;
    }
    return func_outputs_done(qn, 3, out, made);
}
