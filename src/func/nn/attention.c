/* attention.c - attention, and how positions get into it.
 *
 * It is written plainly: scores, a softmax, a sum. The planner makes one kernel of it that works on
 * blocks of rows (docs/design.md). Which keys are seen is a condition on places where it can be. */
#include "func/func.h"

#include <math.h>

/* Which keys a query sees, [queries, keys]: those not after it; the last query sees all. */
static qn_tensor *not_later(qn_tensor *scores, int64_t queries, int64_t keys) {
    const int64_t shape[2] = {queries, keys};
    qn_tensor *q = func_iota(tensor_ctx(scores), QN_I64, 2, shape, 0);
    qn_tensor *k = func_iota(tensor_ctx(scores), QN_I64, 2, shape, 1);
    return qn_le(qn_add(k, func_size(k, queries)), qn_add(q, func_size(q, keys)));
}

/* What is seen of the scores: NULL where all is. */
typedef struct sight {
    qn_tensor *seen;
    bool may_be_none; /* a query may see no key: its result is 0 */
} sight;

/* x where it is seen, else `other`. */
static qn_tensor *only(qn_tensor *seen, qn_tensor *x, double other) {
    return qn_where(seen, x, qn_like(x, other));
}

/* sum over keys of e^(scale (score - largest)) * v, divided by the sum of the weights: once for
 * each number of the result, not for each score. The largest is taken off before anything is
 * rounded by scaling, so no weight is above 1. What is not seen takes no part: its terms are left
 * out, where a weight of 0 would still multiply. */
static qn_tensor *weigh(qn_tensor *scores, qn_tensor *scale, qn_tensor *v, const sight *s) {
    uint32_t mask;
    if (!func_mask(scores, -1, &mask)) return NULL;
    qn_tensor *seen = s->seen;
    qn_tensor *shown = seen ? only(seen, scores, -(double)INFINITY) : scores;
    qn_tensor *most = qn_detach(build_reduce(OP_MAX, shown, mask, true));
    if (s->may_be_none) most = qn_where(qn_isinf(most), qn_like(most, 0), most);
    qn_tensor *below = qn_sub(scores, most);
    qn_tensor *e = qn_exp(qn_mul(below, scale));
    qn_tensor *weight = build_reduce(OP_SUM, seen ? only(seen, e, 0) : e, mask, true);
    if (s->may_be_none)
        weight = qn_where(qn_eq(weight, qn_like(weight, 0)), qn_like(weight, 1), weight);
    if (!seen) return qn_div(qn_matmul(e, v), weight);
    qn_tensor *p = qn_mul(qn_unsqueeze(e, -2), qn_unsqueeze(qn_transpose(v, -1, -2), -3));
    p = only(qn_unsqueeze(seen, -2), p, 0);
    return p && func_mask(p, -1, &mask) ? qn_div(build_reduce(OP_SUM, p, mask, false), weight)
                                        : NULL;
}

/* Keys further back than the window, of which query i's last is i + Tk - Tq; without `causal` as
 * far ahead. */
static qn_tensor *within_window(qn_tensor *scores, const qn_attention_options *o) {
    int64_t queries = qn_dim(scores, -2), keys = qn_dim(scores, -1);
    const int64_t shape[2] = {queries, keys};
    qn_tensor *q = func_iota(tensor_ctx(scores), QN_I64, 2, shape, 0);
    qn_tensor *k = func_iota(tensor_ctx(scores), QN_I64, 2, shape, 1);
    qn_tensor *own = qn_add(q, func_size(q, keys)), *place = qn_add(k, func_size(k, queries));
    qn_tensor *reach = func_integer(q, o->window);
    qn_tensor *near = qn_lt(own, qn_add(place, reach));
    return o->causal ? near : qn_and(near, qn_lt(place, qn_add(own, reach)));
}

static qn_tensor *both(qn_tensor *a, qn_tensor *b) {
    return a && b ? qn_and(a, b) : a ? a : b;
}

/* A mask for all heads, [.., Tq, Tk], beside scores whose heads are in groups. */
static qn_tensor *mask_by_groups(qn_tensor *mask, int64_t heads, int64_t groups) {
    if (!mask || func_rank(mask) < 3) return mask;
    if (qn_dim(mask, -3) != heads || heads == 1) return qn_unsqueeze(mask, -3);
    return qn_unflatten(mask, -3, 2, (const int64_t[]){heads / groups, groups});
}

/* How the scores are changed before the softmax, and which of them count. What is hidden by data is
 * minus infinity, whose weight is 0 and passes no gradient; what is hidden by place is left out. */
static qn_tensor *shaped(qn_tensor *scores, qn_tensor **scale, qn_tensor *mask,
                         const qn_attention_options *o, sight *s) {
    if (!scores || !*scale) return NULL;
    bool added = mask && dtype_is_float(qn_dtype_of(mask));
    if (o->cap > 0) {
        scores = qn_tanh(qn_mul(scores, qn_mul(*scale, qn_like(scores, 1 / o->cap))));
        scores = qn_mul(scores, qn_like(scores, o->cap));
    } else if (added) {
        scores = qn_mul(scores, *scale);
    }
    if (o->cap > 0 || added) *scale = qn_like(scores, 1);
    if (added) scores = qn_add(scores, func_as(mask, qn_dtype_of(scores)));
    if (!scores) return NULL;
    if (o->causal) s->seen = not_later(scores, qn_dim(scores, -2), qn_dim(scores, -1));
    if (o->window > 0) s->seen = both(s->seen, within_window(scores, o));
    if (mask && !added) scores = only(func_truth(mask), scores, -(double)INFINITY);
    s->may_be_none = mask || o->window > 0;
    return scores;
}

static bool attention_fits(const qn_tensor *q, const qn_tensor *k, const qn_tensor *v) {
    const char *reason = NULL;
    if (func_rank(q) < 2 || func_rank(k) < 2 || func_rank(v) < 2)
        return tensor_unfit("q", q, func_rank(k) < 2 ? "k" : "v", func_rank(k) < 2 ? k : v,
                            "all are [.., T, D]"),
               false;
    if (qn_dim(q, -1) != qn_dim(k, -1)) reason = "their last axes must be equal";
    if (reason) return tensor_unfit("q", q, "k", k, "%s", reason), false;
    if (qn_dim(k, -2) != qn_dim(v, -2))
        return tensor_unfit("k", k, "v", v, "there is one value for each key"), false;
    return true;
}

/* How many heads of q share one of k and v; 0: reported. */
static int64_t heads_of_group(const qn_tensor *q, const qn_tensor *k, const qn_tensor *v) {
    int64_t heads = func_rank(q) < 3 ? -1 : qn_dim(q, -3);
    int64_t shared = func_rank(k) < 3 ? -1 : qn_dim(k, -3);
    if (heads > 0 && shared > 0 && heads % shared == 0 && func_rank(v) > 2 &&
        qn_dim(v, -3) == shared)
        return heads / shared;
    tensor_unfit("q", q, "k", k, "grouped heads, axis -3, of q are a multiple of k's and v's");
    return 0;
}

/* Are the options of a kind, and does the mask fit the scores? */
static bool mask_fits(const qn_tensor *q, const qn_tensor *k, const qn_tensor *mask) {
    if (!mask) return true;
    int rank = func_rank(mask);
    bool fits = rank < 1 || qn_dim(mask, -1) == 1 || qn_dim(mask, -1) == qn_dim(k, -2);
    fits &= rank < 2 || qn_dim(mask, -2) == 1 || qn_dim(mask, -2) == qn_dim(q, -2);
    if (!fits) tensor_unfit("q", q, "mask", mask, "the mask is [.., Tq, Tk]");
    return fits;
}

qn_tensor *qn_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v,
                        const qn_attention_options *options) {
    qn_attention_options o = QN_ATTENTION_OPTIONS();
    func_frame f = func_on("attention", ARG(q), ARG(k), ARG(v));
    if (!q || !k || !v) return func_end(f, build_elem(OP_FMA, 3, (qn_tensor *const[]){q, k, v}));
    if (!struct_take(f.qn, "attention", "qn_attention_options", &o, sizeof o, options))
        return func_end(f, NULL);
    qn_tensor *mask = o.mask;
    if (mask && !tensor_of(f.qn, mask, "attention", "mask")) return func_end(f, NULL);
    if (!attention_fits(q, k, v) || !mask_fits(q, k, mask)) return func_end(f, NULL);
    qn_tensor *x[] = {q, k, v};
    int64_t heads = o.grouped ? qn_dim(q, -3) : 0;
    int64_t groups = o.grouped ? heads_of_group(q, k, v) : 1;
    if (!groups) return func_end(f, NULL);
    func_floats(&f, 3, x);
    if (o.grouped) {
        x[0] = qn_unflatten(x[0], -3, 2, (const int64_t[]){heads / groups, groups});
        x[1] = qn_unsqueeze(x[1], -3);
        x[2] = qn_unsqueeze(x[2], -3);
        mask = mask_by_groups(mask, heads, groups);
    }
    qn_tensor *scale = qn_rsqrt(func_size(x[0], qn_dim(q, -1)));
    if (o.scale != 0) scale = x[0] ? qn_like(x[0], o.scale) : NULL;
    sight s = {NULL, false};
    qn_tensor *scores = qn_matmul(x[0], qn_transpose(x[1], -1, -2));
    scores = shaped(scores, &scale, mask, &o, &s);
    qn_tensor *y = weigh(scores, scale, x[2], &s);
    return func_end(f, o.grouped && y ? qn_flatten(y, func_rank(y) - 4, func_rank(y) - 3) : y);
}

/* ---- positions ------------------------------------------------------------------------------ */

/* Pairs of numbers turned by position * base^(-2i/D): pair i is [i, i + D/2], or [2i, 2i + 1]. */
qn_tensor *qn_rope(qn_tensor *x, qn_tensor *positions, double base, bool interleaved) {
    func_frame f = func_on("rope", ARG(x), ARG(positions));
    if (!x || !positions) return func_end(f, NULL);
    int64_t width = func_rank(x) ? qn_dim(x, -1) : -1, half = width / 2;
    if (func_rank(x) < 2 || width < 2 || width % 2 || !(base > 0))
        return func_end(f, tensor_unfit("x", x, "positions", positions,
                                        "x is [.., T, D] of an even size D, and the base above 0"));
    func_floats(&f, 1, &x);
    int last = func_rank(x) - 1;
    qn_dtype d = qn_dtype_of(x);
    qn_tensor *i = func_iota(f.qn, d, 1, &half, 0);
    qn_tensor *speed = qn_exp2(qn_mul(i, qn_like(i, -log2(base) / (double)half)));
    qn_tensor *angle = qn_mul(qn_unsqueeze(qn_cast(positions, d), -1), speed);
    qn_tensor *c = qn_cos(angle), *s = qn_sin(angle), *a, *b;
    if (interleaved) x = qn_unflatten(x, last, 2, (const int64_t[]){half, 2});
    a = interleaved ? qn_select(x, -1, 0) : func_slice_axis(x, last, 0, half, 1);
    b = interleaved ? qn_select(x, -1, 1) : func_slice_axis(x, last, half, half, 1);
    qn_tensor *y[] = {qn_sub(qn_mul(a, c), qn_mul(b, s)), qn_add(qn_mul(a, s), qn_mul(b, c))};
    if (!interleaved) return func_end(f, qn_concat(2, y, -1));
    return func_end(f, qn_flatten(qn_stack(2, y, -1), last, last + 1));
}
