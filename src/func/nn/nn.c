/* nn.c - what neural networks are made of, and their losses.
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

static qn_tensor *softmax_mask(qn_tensor *x, uint32_t mask) {
    qn_tensor *e = qn_exp(below_largest(x, mask));
    return qn_mul(e, qn_reciprocal(build_reduce(OP_SUM, e, mask, true)));
}

qn_tensor *qn_softmax(qn_tensor *x, int axis) {
    func_frame f = func_on("softmax", ARG(x));
    uint32_t mask;
    func_floats(&f, 1, &x);
    return func_end(f, func_mask(x, axis, &mask) ? softmax_mask(x, mask) : NULL);
}

qn_tensor *qn_softmax_axes(qn_tensor *x, int n, const int *axes) {
    func_frame f = func_on("softmax", ARG(x));
    uint32_t mask;
    func_floats(&f, 1, &x);
    return func_end(f, func_mask_of(x, n, axes, &mask) ? softmax_mask(x, mask) : NULL);
}

static qn_tensor *log_softmax_mask(qn_tensor *x, uint32_t mask) {
    qn_tensor *z = below_largest(x, mask);
    return qn_sub(z, qn_log(build_reduce(OP_SUM, qn_exp(z), mask, true)));
}

qn_tensor *qn_log_softmax(qn_tensor *x, int axis) {
    func_frame f = func_on("log_softmax", ARG(x));
    uint32_t mask;
    func_floats(&f, 1, &x);
    return func_end(f, func_mask(x, axis, &mask) ? log_softmax_mask(x, mask) : NULL);
}

qn_tensor *qn_log_softmax_axes(qn_tensor *x, int n, const int *axes) {
    func_frame f = func_on("log_softmax", ARG(x));
    uint32_t mask;
    func_floats(&f, 1, &x);
    return func_end(f, func_mask_of(x, n, axes, &mask) ? log_softmax_mask(x, mask) : NULL);
}

qn_tensor *qn_softmin(qn_tensor *x, int axis) {
    func_frame f = func_on("softmin", ARG(x));
    uint32_t mask;
    func_floats(&f, 1, &x);
    return func_end(f, func_mask(x, axis, &mask) ? softmax_mask(qn_neg(x), mask) : NULL);
}

/* ---- normalisation -------------------------------------------------------------------------- */

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

/* Mean 0 and variance 1 over the last axis. */
static qn_tensor *standardize(qn_tensor *x, double eps) {
    uint32_t last = 1u << (func_rank(x) - 1);
    qn_tensor *d = qn_sub(x, func_mean(x, last, true));
    qn_tensor *variance = func_mean(qn_mul(d, d), last, true);
    return qn_mul(d, qn_rsqrt(qn_add(variance, qn_like(variance, eps))));
}

qn_tensor *qn_layer_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps) {
    func_frame f = func_on("layer_norm", ARG(x), OPTIONAL(gamma), OPTIONAL(beta));
    int axis;
    if (!norm_takes(x, "gamma", gamma) || !norm_takes(x, "beta", beta)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    if (!func_axis(x, -1, &axis)) return func_end(f, NULL);
    return func_end(f, scale_shift(standardize(x, eps), gamma, beta));
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
    y = y ? func_reshape(standardize(y, eps), rank, dims) : NULL;
    y = scale_shift(y, gamma ? per_channel(gamma, rank) : NULL,
                    beta ? per_channel(beta, rank) : NULL);
    return func_end(f, y);
}

/* ---- attention ------------------------------------------------------------------------------ */

/* Which keys a query sees, [queries, keys]: those not after it; the last query sees all. */
static qn_tensor *not_later(qn_tensor *scores, int64_t queries, int64_t keys) {
    const int64_t shape[2] = {queries, keys};
    qn_tensor *q = func_iota(tensor_ctx(scores), QN_I64, 2, shape, 0);
    qn_tensor *k = func_iota(tensor_ctx(scores), QN_I64, 2, shape, 1);
    return qn_le(qn_add(k, func_size(k, queries)), qn_add(q, func_size(q, keys)));
}

/* x where it is seen, else `other`. */
static qn_tensor *only(qn_tensor *seen, qn_tensor *x, double other) {
    return qn_where(seen, x, qn_like(x, other));
}

/* sum over keys of e^(scale (score - largest)) * v, divided by the sum of the weights: once for
 * each number of the result, not for each score. The largest is taken off before anything is
 * rounded by scaling, so no weight is above 1. What is not seen takes no part: its terms are left
 * out, where a weight of 0 would still multiply. */
static qn_tensor *weigh(qn_tensor *scores, qn_tensor *scale, qn_tensor *v, bool causal) {
    uint32_t mask;
    if (!func_mask(scores, -1, &mask)) return NULL;
    qn_tensor *seen = causal ? not_later(scores, qn_dim(scores, -2), qn_dim(scores, -1)) : NULL;
    qn_tensor *shown = causal ? only(seen, scores, -(double)INFINITY) : scores;
    qn_tensor *below = qn_sub(scores, qn_detach(build_reduce(OP_MAX, shown, mask, true)));
    qn_tensor *e = qn_exp(qn_mul(below, scale));
    qn_tensor *weight = build_reduce(OP_SUM, causal ? only(seen, e, 0) : e, mask, true);
    if (!causal) return qn_div(qn_matmul(e, v), weight);
    qn_tensor *p = qn_mul(qn_unsqueeze(e, -2), qn_unsqueeze(qn_transpose(v, -1, -2), -3));
    p = only(qn_unsqueeze(seen, -2), p, 0);
    return p && func_mask(p, -1, &mask) ? qn_div(build_reduce(OP_SUM, p, mask, false), weight)
                                        : NULL;
}

qn_tensor *qn_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v,
                        const qn_attention_options *options) {
    qn_attention_options o = QN_ATTENTION_OPTIONS();
    func_frame f = func_on("attention", ARG(q), ARG(k), ARG(v));
    if (!q || !k || !v) return func_end(f, build_elem(OP_FMA, 3, (qn_tensor *const[]){q, k, v}));
    if (!struct_take(f.qn, "attention", "qn_attention_options", &o, sizeof o, options))
        return func_end(f, NULL);
    if (func_rank(q) < 2 || func_rank(k) < 2 || func_rank(v) < 2)
        return func_end(f, tensor_unfit("q", q, func_rank(k) < 2 ? "k" : "v",
                                        func_rank(k) < 2 ? k : v, "all are [.., T, D]"));
    if (qn_dim(q, -1) != qn_dim(k, -1))
        return func_end(f, tensor_unfit("q", q, "k", k, "their last axes must be equal"));
    if (qn_dim(k, -2) != qn_dim(v, -2))
        return func_end(f, tensor_unfit("k", k, "v", v, "there is one value for each key"));
    qn_tensor *x[] = {q, k, v};
    func_floats(&f, 3, x);
    qn_tensor *depth = func_size(x[0], qn_dim(q, -1));
    qn_tensor *scores = qn_matmul(x[0], qn_transpose(x[1], -1, -2));
    return func_end(f, weigh(scores, qn_rsqrt(depth), x[2], o.causal));
}

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

/* ---- losses --------------------------------------------------------------------------------- */

static qn_tensor *mean_all(qn_tensor *x) {
    return x ? func_mean(x, (1u << func_rank(x)) - 1, false) : NULL;
}

static bool labels_fit(const char *name, const qn_tensor *x, const qn_tensor *labels) {
    if (!x || !labels) return false;
    int rank = func_rank(labels);
    bool fits = func_rank(x) == rank + 1;
    for (int i = 0; fits && i < rank; i++) fits = qn_dim(x, i) == qn_dim(labels, i);
    if (!fits)
        tensor_unfit(name, x, "labels", labels,
                     "there is one label for each row of %s, whose last axis is the classes", name);
    return fits;
}

/* x[.., label[..]] as a sum over the classes, of which all but one term are 0. */
static qn_tensor *pick_class(qn_tensor *x, qn_tensor *labels) {
    if (!x || !labels) return NULL;
    qn_tensor *here = func_is_class(labels, qn_dim(x, -1));
    qn_tensor *picked = qn_where(here, x, qn_like(x, 0));
    return picked ? build_reduce(OP_SUM, picked, 1u << (func_rank(x) - 1), false) : NULL;
}

/* -log_softmax at each label. The largest comes off the label's logit, too, before anything is
 * rounded: the difference of two large numbers would have few digits. */
static qn_tensor *label_losses(qn_tensor *logits, qn_tensor *labels) {
    uint32_t mask;
    if (!func_mask(logits, -1, &mask)) return NULL;
    qn_tensor *z = below_largest(logits, mask), *picked = pick_class(z, labels);
    if (!picked) return NULL;
    return qn_sub(qn_log(build_reduce(OP_SUM, qn_exp(z), mask, false)), picked);
}

qn_tensor *qn_cross_entropy(qn_tensor *logits, qn_tensor *labels) {
    func_frame f = func_on("cross_entropy", ARG(logits), ARG(labels));
    if (!labels_fit("logits", logits, labels)) return func_end(f, NULL);
    func_floats(&f, 1, &logits);
    return func_end(f, mean_all(label_losses(logits, labels)));
}

/* What is ignored counts as class 0, and then not at all. */
qn_tensor *qn_cross_entropy_ignoring(qn_tensor *logits, qn_tensor *labels, int64_t ignore) {
    func_frame f = func_on("cross_entropy_ignoring", ARG(logits), ARG(labels));
    if (!labels_fit("logits", logits, labels)) return func_end(f, NULL);
    uint32_t all = (1u << func_rank(labels)) - 1;
    func_floats(&f, 1, &logits);
    qn_tensor *wide =
        labels && dtype_is_int(qn_dtype_of(labels)) ? func_as(labels, QN_I64) : labels;
    qn_tensor *keep = qn_ne(wide, func_integer(wide, ignore));
    qn_tensor *safe = qn_where(keep, wide, func_integer(wide, 0));
    qn_tensor *loss = label_losses(logits, safe);
    if (!loss) return func_end(f, NULL);
    loss = qn_where(keep, loss, qn_like(loss, 0));
    qn_tensor *count = build_reduce(OP_SUM, func_as(keep, qn_dtype_of(loss)), all, false);
    return func_end(f, qn_div(build_reduce(OP_SUM, loss, all, false), count));
}

qn_tensor *qn_nll_loss(qn_tensor *log_p, qn_tensor *labels) {
    func_frame f = func_on("nll_loss", ARG(log_p), ARG(labels));
    if (!labels_fit("log_p", log_p, labels)) return func_end(f, NULL);
    func_floats(&f, 1, &log_p);
    return func_end(f, qn_neg(mean_all(pick_class(log_p, labels))));
}

qn_tensor *qn_mse_loss(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("mse_loss", ARG(x), ARG(y));
    qn_tensor *v[] = {x, y};
    func_floats(&f, 2, v);
    qn_tensor *d = qn_sub(v[0], v[1]);
    return func_end(f, mean_all(qn_mul(d, d)));
}

qn_tensor *qn_l1_loss(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("l1_loss", ARG(x), ARG(y));
    qn_tensor *v[] = {x, y};
    func_floats(&f, 2, v);
    return func_end(f, mean_all(qn_abs(qn_sub(v[0], v[1]))));
}

/* With q = d within [-delta, delta]: q (d - q/2), smooth where d is 0. */
qn_tensor *qn_huber_loss(qn_tensor *x, qn_tensor *y, double delta) {
    func_frame f = func_on("huber_loss", ARG(x), ARG(y));
    qn_tensor *v[] = {x, y};
    func_floats(&f, 2, v);
    qn_tensor *d = qn_sub(v[0], v[1]), *q = qn_clamp(d, -delta, delta);
    return func_end(f, mean_all(qn_mul(q, qn_sub(d, mul_number(q, 0.5)))));
}

/* Neither term is below 0 for y in [0, 1], so nothing cancels. */
qn_tensor *qn_bce_with_logits(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("bce_with_logits", ARG(x), ARG(y));
    qn_tensor *v[] = {x, y};
    func_floats(&f, 2, v);
    qn_tensor *yes = qn_mul(v[1], qn_softplus(qn_neg(v[0])));
    qn_tensor *no = qn_mul(qn_sub(qn_like(yes, 1), v[1]), qn_softplus(v[0]));
    return func_end(f, mean_all(qn_add(yes, no)));
}
