/* loss.c - losses: what is wrong with an answer, as a number.
 *
 * Formulas are those of PyTorch, written so that neither they nor their gradients overflow. Those
 * that take a qn_reduction give the mean, the sum, or the terms themselves. */
#include "func/func.h"

#include <math.h>

static qn_tensor *mul_number(qn_tensor *x, double v) {
    return qn_mul(x, qn_like(x, v));
}

static qn_tensor *below_largest(qn_tensor *x, uint32_t mask) {
    return qn_sub(x, qn_detach(build_reduce(OP_MAX, x, mask, true)));
}

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

/* ---- with a reduction ----------------------------------------------------------------------- */

qn_tensor *func_reduced(qn_tensor *terms, qn_reduction how) {
    if (!terms || how == QN_REDUCE_NONE) return terms;
    if (how == QN_REDUCE_MEAN) return mean_all(terms);
    if (how == QN_REDUCE_SUM)
        return build_reduce(OP_SUM, terms, (1u << func_rank(terms)) - 1, false);
    return fail_null(tensor_ctx(terms), QN_EARG, "%s: no such reduction",
                     graph_name(tensor_ctx(terms), "loss"));
}

/* What stays above 0. */
static qn_tensor *positive(qn_tensor *x) {
    return qn_relu(x);
}

/* x log(y), 0 where x is 0, whatever y is. */
static qn_tensor *times_log(qn_tensor *x, qn_tensor *y) {
    qn_tensor *none = qn_eq(x, qn_like(x, 0));
    return qn_where(none, qn_like(x, 0), qn_mul(x, qn_log(qn_where(none, qn_like(y, 1), y))));
}

qn_tensor *qn_kl_div(qn_tensor *log_p, qn_tensor *target, bool log_target, qn_reduction reduction) {
    func_frame f = func_on("kl_div", ARG(log_p), ARG(target));
    qn_tensor *v[] = {log_p, target}, *terms;
    func_floats(&f, 2, v);
    if (log_target)
        terms = qn_mul(qn_exp(v[1]), qn_sub(v[1], v[0]));
    else
        terms = qn_sub(times_log(v[1], v[1]), qn_mul(v[1], v[0]));
    return func_end(f, func_reduced(terms, reduction));
}

/* Logarithms are no less than -100, so that a certain but wrong answer is finite: there x is 0, and
 * the logarithm is taken of 1, which has a slope. Below the smallest normal number the slope, 1/x,
 * may be beyond the largest one: there, too, it is 0. */
static qn_tensor *bounded_log(qn_tensor *x) {
    double least = qn_dtype_of(x) == QN_F64 ? 0x1p-1022 : 0x1p-126;
    x = qn_where(qn_lt(x, qn_like(x, least)), qn_detach(x), x);
    qn_tensor *none = qn_eq(x, qn_like(x, 0));
    return qn_where(none, qn_like(x, -100), qn_log(qn_where(none, qn_like(x, 1), x)));
}

static qn_tensor *bounded_log_rest(qn_tensor *x) {
    qn_tensor *none = qn_eq(x, qn_like(x, 1)), *zero = qn_like(x, 0);
    return qn_where(none, qn_like(x, -100), qn_log1p(qn_neg(qn_where(none, zero, x))));
}

qn_tensor *qn_bce_loss(qn_tensor *p, qn_tensor *y, qn_reduction reduction) {
    func_frame f = func_on("bce_loss", ARG(p), ARG(y));
    qn_tensor *v[] = {p, y};
    func_floats(&f, 2, v);
    if (!v[0] || !v[1]) return func_end(f, NULL);
    qn_tensor *yes = qn_mul(v[1], bounded_log(v[0]));
    qn_tensor *no = qn_mul(qn_sub(qn_like(v[1], 1), v[1]), bounded_log_rest(v[0]));
    return func_end(f, func_reduced(qn_neg(qn_add(yes, no)), reduction));
}

/* Soft labels: -sum y log_softmax(x), of which the logarithm of the sum is one for each row. */
qn_tensor *qn_cross_entropy_soft(qn_tensor *logits, qn_tensor *target, qn_reduction reduction) {
    func_frame f = func_on("cross_entropy_soft", ARG(logits), ARG(target));
    qn_tensor *v[] = {logits, target};
    uint32_t mask;
    func_floats(&f, 2, v);
    if (!v[0] || !v[1] || !func_mask(v[0], -1, &mask)) return func_end(f, NULL);
    if (!func_fits(v[1], v[0]))
        return func_end(f, tensor_unfit("logits", logits, "target", target,
                                        "there is one target for each logit"));
    qn_tensor *z = below_largest(v[0], mask);
    qn_tensor *norm = qn_log(build_reduce(OP_SUM, qn_exp(z), mask, true));
    qn_tensor *terms = build_reduce(OP_SUM, qn_mul(v[1], qn_sub(norm, z)), mask, false);
    return func_end(f, func_reduced(terms, reduction));
}

/* The label's loss and the mean of all classes' are mixed: smoothing. The mean is over the weights
 * that took part. */
static qn_tensor *options_losses(qn_tensor *log_p, qn_tensor *labels,
                                 const qn_cross_entropy_options *o) {
    uint32_t mask, all = (1u << func_rank(labels)) - 1;
    if (!func_mask(log_p, -1, &mask)) return NULL;
    if (!dtype_is_int(qn_dtype_of(labels))) return pick_class(log_p, labels); /* refuses */
    qn_tensor *wide = func_as(labels, QN_I64), *keep = NULL, *safe = wide;
    if (o->ignores) {
        keep = qn_ne(wide, func_integer(wide, o->ignore));
        safe = qn_where(keep, wide, func_integer(wide, 0));
    }
    qn_tensor *each = log_p, *weight = NULL;
    if (o->weight) {
        qn_tensor *w = func_as(o->weight, qn_dtype_of(log_p));
        each = qn_mul(log_p, w);
        weight = pick_class(func_broadcast(w, log_p), safe);
    }
    qn_tensor *loss = qn_neg(pick_class(each, safe));
    if (o->smoothing > 0) {
        qn_tensor *mean = qn_neg(func_mean(each, mask, false));
        loss = qn_add(mul_number(loss, 1 - o->smoothing), mul_number(mean, o->smoothing));
    }
    if (keep) loss = qn_where(keep, loss, qn_like(loss, 0));
    if (!loss || o->reduction != QN_REDUCE_MEAN || (!weight && !keep))
        return func_reduced(loss, o->reduction);
    if (!weight) weight = qn_ones_like(loss);
    if (keep) weight = qn_where(keep, weight, qn_like(weight, 0));
    return qn_div(build_reduce(OP_SUM, loss, all, false), build_reduce(OP_SUM, weight, all, false));
}

/* The options; false: reported. */
static bool take_options(const char *name, const char *arg, qn_tensor *x, qn_tensor *labels,
                         const qn_cross_entropy_options *options, qn_cross_entropy_options *o) {
    if (!labels_fit(arg, x, labels)) return false;
    qn_ctx *qn = tensor_ctx(x);
    if (!struct_take(qn, name, "qn_cross_entropy_options", o, sizeof *o, options)) return false;
    if (o->weight && !tensor_of(qn, o->weight, name, "weight")) return false;
    if (o->weight && (func_rank(o->weight) != 1 || qn_dim(o->weight, 0) != qn_dim(x, -1)))
        return tensor_unfit(arg, x, "weight", o->weight, "there is one weight for each class"),
               false;
    if (o->smoothing >= 0 && o->smoothing <= 1) return true;
    return fail_null(qn, QN_EARG, "%s: %g of smoothing", name, o->smoothing);
}

qn_tensor *qn_cross_entropy_with(qn_tensor *logits, qn_tensor *labels,
                                 const qn_cross_entropy_options *options) {
    qn_cross_entropy_options o = QN_CROSS_ENTROPY_OPTIONS();
    func_frame f = func_on("cross_entropy_with", ARG(logits), ARG(labels));
    uint32_t mask;
    if (!take_options("cross_entropy_with", "logits", logits, labels, options, &o))
        return func_end(f, NULL);
    func_floats(&f, 1, &logits);
    if (!logits || !func_mask(logits, -1, &mask)) return func_end(f, NULL);
    qn_tensor *z = below_largest(logits, mask);
    qn_tensor *norm = qn_log(build_reduce(OP_SUM, qn_exp(z), mask, true));
    return func_end(f, options_losses(qn_sub(z, norm), labels, &o));
}

qn_tensor *qn_nll_loss_with(qn_tensor *log_p, qn_tensor *labels,
                            const qn_cross_entropy_options *options) {
    qn_cross_entropy_options o = QN_CROSS_ENTROPY_OPTIONS();
    func_frame f = func_on("nll_loss_with", ARG(log_p), ARG(labels));
    if (!take_options("nll_loss_with", "log_p", log_p, labels, options, &o))
        return func_end(f, NULL);
    func_floats(&f, 1, &log_p);
    return func_end(f, log_p ? options_losses(log_p, labels, &o) : NULL);
}

/* ---- of distances --------------------------------------------------------------------------- */

/* At 0 the length has the derivative 0. */
static qn_tensor *distance(qn_tensor *x, qn_tensor *y) {
    qn_tensor *d = qn_sub(x, y);
    uint32_t mask;
    if (!func_mask(d, -1, &mask)) return NULL;
    return func_root(build_reduce(OP_SUM, qn_mul(d, d), mask, false));
}

qn_tensor *qn_triplet_margin_loss(qn_tensor *anchor, qn_tensor *near, qn_tensor *far, double margin,
                                  qn_reduction reduction) {
    func_frame f = func_on("triplet_margin_loss", ARG(anchor), ARG(near), ARG(far));
    qn_tensor *v[] = {anchor, near, far};
    func_floats(&f, 3, v);
    qn_tensor *more = qn_sub(distance(v[0], v[1]), distance(v[0], v[2]));
    more = more ? qn_add(more, qn_like(more, margin)) : NULL;
    return func_end(f, func_reduced(positive(more), reduction));
}

/* Each length is no less than eps. */
static qn_tensor *cosine(qn_tensor *x, qn_tensor *y, uint32_t mask, double eps) {
    qn_tensor *v[] = {x, y}, *size[2];
    for (int i = 0; i < 2; i++) {
        qn_tensor *least = v[i] ? qn_like(v[i], eps * eps) : NULL;
        qn_tensor *square = v[i] ? build_reduce(OP_SUM, qn_mul(v[i], v[i]), mask, false) : NULL;
        size[i] = qn_rsqrt(qn_where(qn_lt(square, least), least, square));
    }
    qn_tensor *dot = qn_mul(x, y);
    dot = dot ? build_reduce(OP_SUM, dot, mask, false) : NULL;
    return qn_mul(qn_mul(dot, size[0]), size[1]);
}

qn_tensor *qn_cosine_similarity(qn_tensor *x, qn_tensor *y, int axis, double eps) {
    func_frame f = func_on("cosine_similarity", ARG(x), ARG(y));
    qn_tensor *v[] = {x, y};
    uint32_t mask;
    func_floats(&f, 2, v);
    qn_tensor *shape = qn_mul(v[0], v[1]);
    if (!func_mask(shape, axis, &mask)) return func_end(f, NULL);
    for (int i = 0; i < 2; i++) v[i] = func_broadcast(v[i], shape);
    return func_end(f, cosine(v[0], v[1], mask, eps));
}

qn_tensor *qn_cosine_embedding_loss(qn_tensor *x, qn_tensor *y, qn_tensor *target, double margin,
                                    qn_reduction reduction) {
    func_frame f = func_on("cosine_embedding_loss", ARG(x), ARG(y), ARG(target));
    qn_tensor *v[] = {x, y, target};
    func_floats(&f, 3, v);
    qn_tensor *c = qn_cosine_similarity(v[0], v[1], -1, 1e-6);
    if (!c || !v[2]) return func_end(f, NULL);
    qn_tensor *alike = qn_sub(qn_like(c, 1), c);
    qn_tensor *unlike = positive(qn_sub(c, qn_like(c, margin)));
    qn_tensor *terms = qn_where(qn_lt(qn_like(c, 0), v[2]), alike, unlike);
    return func_end(f, func_reduced(terms, reduction));
}

qn_tensor *qn_margin_ranking_loss(qn_tensor *x, qn_tensor *y, qn_tensor *target, double margin,
                                  qn_reduction reduction) {
    func_frame f = func_on("margin_ranking_loss", ARG(x), ARG(y), ARG(target));
    qn_tensor *v[] = {x, y, target};
    func_floats(&f, 3, v);
    qn_tensor *terms = qn_mul(qn_neg(v[2]), qn_sub(v[0], v[1]));
    terms = terms ? qn_add(terms, qn_like(terms, margin)) : NULL;
    return func_end(f, func_reduced(positive(terms), reduction));
}

qn_tensor *qn_hinge_embedding_loss(qn_tensor *x, qn_tensor *target, double margin,
                                   qn_reduction reduction) {
    func_frame f = func_on("hinge_embedding_loss", ARG(x), ARG(target));
    qn_tensor *v[] = {x, target};
    func_floats(&f, 2, v);
    if (!v[0] || !v[1]) return func_end(f, NULL);
    qn_tensor *far = positive(qn_sub(qn_like(v[0], margin), v[0]));
    qn_tensor *alike = qn_lt(qn_like(v[1], 0), v[1]);
    return func_end(f, func_reduced(qn_where(alike, v[0], far), reduction));
}

qn_tensor *qn_soft_margin_loss(qn_tensor *x, qn_tensor *target, qn_reduction reduction) {
    func_frame f = func_on("soft_margin_loss", ARG(x), ARG(target));
    qn_tensor *v[] = {x, target};
    func_floats(&f, 2, v);
    return func_end(f, func_reduced(qn_softplus(qn_neg(qn_mul(v[0], v[1]))), reduction));
}

/* ---- of counts and deviations --------------------------------------------------------------- */

/* (1 - p)^gamma times the cross-entropy, p being what the answer gives to the truth; alpha weighs
 * the truths (Lin et al. 2017). Below 0: no weights. */
qn_tensor *qn_focal_loss(qn_tensor *x, qn_tensor *y, double alpha, double gamma,
                         qn_reduction reduction) {
    func_frame f = func_on("focal_loss", ARG(x), ARG(y));
    qn_tensor *v[] = {x, y};
    func_floats(&f, 2, v);
    if (!v[0] || !v[1]) return func_end(f, NULL);
    qn_tensor *rest = qn_sub(qn_like(v[1], 1), v[1]);
    qn_tensor *p = qn_sigmoid(v[0]), *q = qn_sigmoid(qn_neg(v[0]));
    qn_tensor *yes = qn_mul(v[1], qn_softplus(qn_neg(v[0])));
    qn_tensor *no = qn_mul(rest, qn_softplus(v[0]));
    qn_tensor *wrong = qn_add(qn_mul(q, v[1]), qn_mul(p, rest));
    qn_tensor *terms = qn_mul(qn_add(yes, no), qn_pow(wrong, qn_like(wrong, gamma)));
    if (alpha >= 0) {
        qn_tensor *share = qn_add(mul_number(v[1], alpha), mul_number(rest, 1 - alpha));
        terms = qn_mul(terms, share);
    }
    return func_end(f, func_reduced(terms, reduction));
}

qn_tensor *qn_poisson_nll_loss(qn_tensor *x, qn_tensor *y, bool log_input, qn_reduction reduction) {
    func_frame f = func_on("poisson_nll_loss", ARG(x), ARG(y));
    qn_tensor *v[] = {x, y}, *terms;
    func_floats(&f, 2, v);
    if (log_input)
        terms = qn_sub(qn_exp(v[0]), qn_mul(v[1], v[0]));
    else
        terms = qn_sub(v[0], times_log(v[1], v[0]));
    return func_end(f, func_reduced(terms, reduction));
}

/* The variance is no less than eps, and there has no gradient. */
qn_tensor *qn_gaussian_nll_loss(qn_tensor *x, qn_tensor *y, qn_tensor *variance, double eps,
                                qn_reduction reduction) {
    func_frame f = func_on("gaussian_nll_loss", ARG(x), ARG(y), ARG(variance));
    qn_tensor *v[] = {x, y, variance};
    func_floats(&f, 3, v);
    if (!v[2]) return func_end(f, NULL);
    qn_tensor *least = qn_like(v[2], eps), *d = qn_sub(v[0], v[1]);
    qn_tensor *wide = qn_where(qn_lt(v[2], least), least, v[2]);
    qn_tensor *terms = qn_add(qn_log(wide), qn_div(qn_mul(d, d), wide));
    return func_end(f, func_reduced(terms ? mul_number(terms, 0.5) : NULL, reduction));
}
