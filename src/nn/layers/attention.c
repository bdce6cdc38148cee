/* attention.c - attention by heads and the layers of transformers (Vaswani et al. 2017).
 *
 * Inside, sequences are [N, T, width], whatever the caller has. Masks say what is not seen, where
 * they are bools, or are added to the scores; those of keys and those of pairs are joined into one.
 * The weights that are a result are recorded apart from attention itself, which never stores them;
 * what nobody reads is not computed. */
#include "nn/layers/layers.h"

#include <math.h>
#include <stdio.h>

/* ---- parameters ----------------------------------------------------------------------------- */

/* Do queries, keys and values have one weight? */
static bool is_joined(const qn_layer_options *o) {
    return (!o->key_width || o->key_width == o->in) && (!o->value_width || o->value_width == o->in);
}

static bool heads_fine(making *b) {
    const qn_layer_options *o = b->o;
    b->fine = o->in > 0 && o->in < INT32_MAX && o->heads > 0 && o->in % o->heads == 0;
    if (!b->fine)
        fail(b->qn, QN_EARG, "%s: %s of a width of %lld in %lld heads", b->call, b->row->name,
             (long long)o->in, (long long)o->heads);
    return b->fine;
}

/* "<before><part>" */
static const char *joined(char name[64], const char *before, const char *part) {
    snprintf(name, 64, "%s%s", before, part);
    return name;
}

static void projection(making *b, const char *before, const char *part, int64_t out, int64_t in) {
    char name[64];
    layer_parameter(b, joined(name, before, part), 2, (int64_t[]){out, in}, QN_INIT_UNIFORM,
                    sqrt(6 / ((double)out + (double)in)));
}

static void zero_bias(making *b, const char *before, const char *part, int64_t n) {
    char name[64];
    if (!b->o->no_bias) layer_parameter(b, joined(name, before, part), 1, &n, QN_INIT_ZEROS, 0);
}

static void attention_parameters(making *b, const char *before) {
    const qn_layer_options *o = b->o;
    int64_t width = o->in;
    double within = 1 / sqrt((double)width);
    char name[64];
    if (is_joined(o)) {
        projection(b, before, "in_proj_weight", 3 * width, width);
    } else {
        projection(b, before, "q_proj_weight", width, width);
        projection(b, before, "k_proj_weight", width, o->key_width ? o->key_width : width);
        projection(b, before, "v_proj_weight", width, o->value_width ? o->value_width : width);
    }
    zero_bias(b, before, "in_proj_bias", 3 * width);
    for (int i = 0; i < 2 && o->add_bias; i++)
        layer_parameter(b, joined(name, before, i ? "bias_v" : "bias_k"), 3,
                        (int64_t[]){1, 1, width}, QN_INIT_NORMAL, within);
    layer_parameter(b, joined(name, before, "out_proj.weight"), 2, (int64_t[]){width, width},
                    QN_INIT_UNIFORM, within);
    zero_bias(b, before, "out_proj.bias", width);
}

void multihead_tensors(making *b) {
    if (heads_fine(b)) attention_parameters(b, "");
}

static void feedforward_parameters(making *b) {
    const qn_layer_options *o = b->o;
    linear_parameters(b, "linear1.weight", "linear1.bias", o->hidden, o->in);
    linear_parameters(b, "linear2.weight", "linear2.bias", o->in, o->hidden);
    norm_parameters(b, "norm1.weight", "norm1.bias", o->in);
    norm_parameters(b, "norm2.weight", "norm2.bias", o->in);
}

void encoder_tensors(making *b) {
    if (!heads_fine(b)) return;
    attention_parameters(b, "self_attn.");
    feedforward_parameters(b);
}

void decoder_tensors(making *b) {
    if (!heads_fine(b)) return;
    attention_parameters(b, "self_attn.");
    attention_parameters(b, "multihead_attn.");
    feedforward_parameters(b);
    norm_parameters(b, "norm3.weight", "norm3.bias", b->o->in);
}

/* ---- masks ---------------------------------------------------------------------------------- */

/* What is added to the scores for a mask: itself, or -infinity where a bool says so. */
static qn_tensor *additive(qn_tensor *mask, qn_dtype dtype) {
    if (qn_dtype_of(mask) != QN_BOOL) return qn_cast(mask, dtype);
    qn_tensor *zero = qn_full(qn_context(mask), dtype, 0, NULL, 0);
    return qn_where(mask, qn_like(zero, -INFINITY), zero);
}

/* Both masks as one that is added, [.., T, S]; NULL: there is none. */
static qn_tensor *mask_of(calling *c, qn_tensor *pairs, qn_tensor *keys, qn_dtype dtype) {
    qn_tensor *mask = NULL;
    if (pairs) {
        if (!layer_rank(c, pairs, "the mask", 2, 3)) return NULL;
        mask = additive(pairs, dtype);
        if (qn_rank(pairs) == 3) /* [N * heads, T, S] */
            mask = qn_reshape(mask, 4,
                              (int64_t[]){-1, c->o->heads, qn_dim(pairs, 1), qn_dim(pairs, 2)});
    }
    if (!keys) return mask;
    if (!layer_rank(c, keys, "the mask of keys", 1, 2)) return NULL;
    if (qn_rank(keys) == 1) keys = qn_unsqueeze(keys, 0);
    keys = qn_unsqueeze(qn_unsqueeze(additive(keys, dtype), 1), 1);
    return mask ? qn_add(mask, keys) : keys;
}

/* ---- attention ------------------------------------------------------------------------------ */

typedef struct attends {
    qn_tensor *query, *key, *value; /* [N, T, width] */
    qn_tensor *pairs, *keys;        /* masks, or NULL */
    qn_tensor *past[2];             /* keys and values [N, heads, P, size], or NULL */
    qn_tensor *weights, *made[2];   /* results beside the tensor */
} attends;

/* [N, T, width] as [N, heads, T, size]; -1 stands for what may vary only once. */
static qn_tensor *by_heads(const calling *c, qn_tensor *x) {
    int64_t heads = c->o->heads, size = c->o->in / heads;
    x = qn_reshape(x, 4, (int64_t[]){qn_dim(x, 0), qn_dim(x, 1), heads, size});
    return qn_permute(x, 4, (int[]){0, 2, 1, 3});
}

/* Query, key and value, projected. */
static void project(calling *c, const attends *a, qn_tensor *out[3]) {
    const qn_layer_options *o = c->o;
    qn_tensor *const in[] = {a->query, a->key, a->value};
    qn_tensor *weight[3] = {NULL}, *bias = NULL;
    bool one = is_joined(o);
    for (int i = 0; i < (one ? 1 : 3); i++) weight[i] = layer_next(c);
    if (!o->no_bias) bias = layer_next(c);
    if (one && a->query == a->key && a->key == a->value) { /* one product */
        qn_tensor *all = qn_linear(a->query, weight[0], bias);
        for (int i = 0; i < 3; i++) out[i] = qn_slice(all, -1, i * o->in, (i + 1) * o->in, 1);
        return;
    }
    for (int i = 0; i < 3; i++) {
        qn_tensor *w = one ? qn_slice(weight[0], 0, i * o->in, (i + 1) * o->in, 1) : weight[i];
        out[i] =
            qn_linear(in[i], w, bias ? qn_slice(bias, 0, i * o->in, (i + 1) * o->in, 1) : NULL);
    }
}

/* One more place at the end of [N, T, width], for every example. */
static qn_tensor *with_place(qn_tensor *x, qn_tensor *place) {
    int64_t shape[] = {qn_dim(x, 0), 1, qn_dim(x, 2)};
    return qn_concat(2, (qn_tensor *[]){x, qn_expand(place, 3, shape)}, 1);
}

/* A mask for one more key, which all see. */
static qn_tensor *wider(qn_tensor *mask) {
    int64_t widths[2 * QN_MAX_RANK] = {0};
    if (!mask) return NULL;
    widths[2 * qn_rank(mask) - 1] = 1;
    return qn_pad(mask, widths, QN_PAD_CONSTANT, 0);
}

/* Places that all see: bias_k and bias_v, and one of zeros. */
static void add_places(calling *c, attends *a, qn_tensor *kv[2]) {
    qn_tensor *bias[2] = {NULL};
    if (c->o->add_bias) bias[0] = layer_next(c), bias[1] = layer_next(c);
    for (int turn = 0; turn < 2; turn++) {
        if (turn ? !c->o->add_zero : !c->o->add_bias) continue;
        for (int i = 0; i < 2; i++) {
            qn_tensor *zero = qn_full(c->qn, qn_dtype_of(kv[i]), 3, (int64_t[]){1, 1, c->o->in}, 0);
            kv[i] = with_place(kv[i], turn ? zero : bias[i]);
        }
        a->pairs = wider(a->pairs), a->keys = wider(a->keys);
    }
}

/* The softmax of the scores [N, heads, T, S]. */
static qn_tensor *weights_of(calling *c, qn_tensor *q, qn_tensor *k, qn_tensor *mask) {
    double scale = 1 / sqrt((double)(c->o->in / c->o->heads));
    qn_tensor *scores = qn_matmul(qn_mul(q, qn_like(q, scale)), qn_transpose(k, -2, -1));
    if (mask) scores = qn_add(scores, mask);
    if (c->o->causal) {
        qn_tensor *ones = qn_ones_like(scores),
                  *early = qn_dim(q, 2) == qn_dim(k, 2)
                               ? qn_tril(ones, 0)
                               : qn_tril(ones, (int)(qn_dim(k, 2) - qn_dim(q, 2)));
        scores = qn_where(early, scores, qn_like(scores, -INFINITY));
    }
    return qn_softmax(scores, -1);
}

/* What the heads give, [N, T, width], projected. */
static qn_tensor *attend(calling *c, attends *a) {
    qn_tensor *p[3], *mask;
    if (!layer_rank(c, a->query, "the query", 3, 3) || !layer_rank(c, a->key, "the key", 3, 3) ||
        !layer_rank(c, a->value, "the value", 3, 3))
        return NULL;
    project(c, a, p);
    add_places(c, a, p + 1);
    for (int i = 0; i < 3; i++) p[i] = by_heads(c, p[i]);
    for (int i = 0; i < 2; i++) {
        if (a->past[i]) p[1 + i] = qn_concat(2, (qn_tensor *[]){a->past[i], p[1 + i]}, 2);
        a->made[i] = p[1 + i];
    }
    if (!p[0] || !p[1] || !p[2]) return NULL;
    mask = mask_of(c, a->pairs, a->keys, qn_dtype_of(p[0]));
    if (!mask && (a->pairs || a->keys)) return NULL;
    qn_attention_options how = QN_ATTENTION_OPTIONS(.causal = c->o->causal, .mask = mask);
    bool drops = c->training && c->o->p > 0;
    qn_tensor *weights = drops || c->row->results > 1 ? weights_of(c, p[0], p[1], mask) : NULL;
    if (drops) weights = layer_drop(c, weights, c->o->p);
    qn_tensor *y = drops ? qn_matmul(weights, p[2]) : qn_attention(p[0], p[1], p[2], &how);
    a->weights = weights && !c->o->apart ? qn_mean(weights, 1, false) : weights;
    y = qn_permute(y, 4, (int[]){0, 2, 1, 3});
    if (!y) return NULL;
    y = qn_reshape(y, 3, (int64_t[]){qn_dim(y, 0), qn_dim(y, 1), c->o->in});
    return linear_next(c, y, !c->o->no_bias);
}

/* Of the caller's sequences: do they lack the batch, is it in the middle? */
typedef struct layout {
    bool single, turned;
} layout;

static layout layout_of(const calling *c, qn_tensor *x) {
    bool single = qn_rank(x) == 2;
    return (layout){single, !single && !c->o->batch_first};
}

static qn_tensor *inward(layout l, qn_tensor *x) {
    return !x ? NULL : l.single ? qn_unsqueeze(x, 0) : l.turned ? qn_transpose(x, 0, 1) : x;
}

static qn_tensor *outward(layout l, qn_tensor *x) {
    return l.single ? qn_squeeze(x, 0) : l.turned ? qn_transpose(x, 0, 1) : x;
}

void apply_multihead(calling *c) {
    qn_tensor *const *in = c->in;
    if (!layer_rank(c, in[0], "the query", 2, 3) || !layer_rank(c, in[1], "the key", 2, 3) ||
        !layer_rank(c, in[2], "the value", 2, 3))
        return;
    layout l = layout_of(c, in[0]);
    attends a = {.keys = in[3], .pairs = in[4], .past = {in[5], in[6]}};
    a.query = inward(l, in[0]);
    a.key = in[1] == in[0] ? a.query : inward(l, in[1]);
    a.value = in[2] == in[1] ? a.key : inward(l, in[2]);
    c->out[0] = outward(l, attend(c, &a));
    c->out[1] = a.weights && l.single ? qn_squeeze(a.weights, 0) : a.weights;
    c->out[2] = a.made[0], c->out[3] = a.made[1];
}

/* ---- transformers --------------------------------------------------------------------------- */

/* A norm's tensors, which come behind those that it is applied before. */
typedef struct norm {
    qn_tensor *weight, *bias;
} norm;

static qn_tensor *normed(const calling *c, norm n, qn_tensor *x) {
    return qn_layer_norm(x, n.weight, n.bias, c->o->epsilon);
}

/* How many tensors attention and the two linear maps have. */
static int attention_count(const qn_layer_options *o) {
    return o->no_bias ? 2 : 4;
}

static void take_norms(const calling *c, int at, int count, norm *n) {
    int each = c->o->no_bias ? 1 : 2;
    for (int i = 0; i < count; i++) {
        int k = at + i * each;
        n[i].weight = k < c->n ? c->tensor[k] : NULL;
        n[i].bias = each == 2 && k + 1 < c->n ? c->tensor[k + 1] : NULL;
    }
}

static qn_tensor *feedforward(calling *c, qn_tensor *x) {
    bool bias = !c->o->no_bias;
    x = linear_next(c, x, bias);
    x = c->o->variant ? qn_gelu(x) : qn_relu(x);
    return linear_next(c, layer_drop(c, x, c->o->p), bias);
}

/* A branch of x: through attention over a memory, x itself where that is NULL, or through the
 * linear maps where `a` is, with its norm before or behind the sum. */
static qn_tensor *branch(calling *c, qn_tensor *x, norm n, attends *a, qn_tensor *memory) {
    qn_tensor *y = c->o->norm_first ? normed(c, n, x) : x;
    if (a) {
        a->query = y;
        a->key = a->value = memory ? memory : y;
        y = attend(c, a);
    } else {
        y = feedforward(c, y);
    }
    y = qn_add(x, layer_drop(c, y, c->o->p));
    return c->o->norm_first ? y : normed(c, n, y);
}

void apply_encoder(calling *c) {
    norm n[2];
    qn_tensor *x = c->in[0];
    if (!layer_rank(c, x, "src", 2, 3)) return;
    layout l = layout_of(c, x);
    attends a = {.pairs = c->in[1], .keys = c->in[2]};
    take_norms(c, 2 * attention_count(c->o), 2, n);
    x = branch(c, inward(l, x), n[0], &a, NULL);
    x = branch(c, x, n[1], NULL, NULL);
    c->at += c->o->no_bias ? 2 : 4;
    c->out[0] = outward(l, x);
}

void apply_decoder(calling *c) {
    norm n[3];
    qn_tensor *x = c->in[0];
    if (!layer_rank(c, x, "tgt", 2, 3) || !layer_rank(c, c->in[1], "memory", 2, 3)) return;
    layout l = layout_of(c, x);
    const qn_layer_options *o = c->o;
    qn_layer_options over_all = *o; /* causal is said of tgt alone */
    over_all.causal = false;
    attends self = {.pairs = c->in[2], .keys = c->in[4]};
    attends over = {.pairs = c->in[3], .keys = c->in[5]};
    take_norms(c, 3 * attention_count(c->o), 3, n);
    x = branch(c, inward(l, x), n[0], &self, NULL);
    c->o = &over_all;
    x = branch(c, x, n[1], &over, inward(l, c->in[1]));
    c->o = o;
    x = branch(c, x, n[2], NULL, NULL);
    c->at += c->o->no_bias ? 3 : 6;
    c->out[0] = outward(l, x);
}
