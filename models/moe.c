/* moe.c - a mixture of experts (Jiang et al. 2024), with the names of transformers'
 * MixtralForCausalLM: a small Llama, each of whose perceptrons is one of several for a token.
 *
 * A gate gives every token a probability for each expert; the `chosen` most probable ones work on
 * it, and what they give is summed by these probabilities, made to sum up to 1. Here all experts
 * work on all tokens, and those that were not chosen count 0: the same numbers, without moving
 * tokens about. So that no expert starves, the loss has `balance` times the number of experts times
 * the sum over experts of the part of the choices that fell on it and of its mean probability, the
 * former counted over tokens, by all layers together (Fedus et al. 2021). */
#include "models/grouped.h"

#include <stdio.h>

typedef struct config {
    int64_t vocabulary, context, layers, heads, groups, width, hidden, experts, chosen;
    double theta, epsilon, balance;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(vocabulary, 32000, 1, 1 << 24, "different tokens"),
    MODEL_WHOLE(context, 512, 1, 1 << 20, "tokens of the longest window"),
    MODEL_WHOLE(layers, 4, 1, 1024, "blocks"),
    MODEL_WHOLE(heads, 8, 1, 1024, "heads of queries; divides the width"),
    MODEL_WHOLE(groups, 4, 1, 1024, "heads of keys and values; divides the heads"),
    MODEL_WHOLE(width, 256, 1, 1 << 16, "numbers a token is made into"),
    MODEL_WHOLE(hidden, 512, 1, 1 << 18, "width within an expert"),
    MODEL_WHOLE(experts, 8, 1, 256, "experts of a block"),
    MODEL_WHOLE(chosen, 2, 1, 256, "of which so many work on a token"),
    MODEL_REAL(theta, 1000000, 1, 1e9, "base of the rotary positions"),
    MODEL_REAL(epsilon, 1e-5, 1e-12, 1, "what norms add to the mean of squares"),
    MODEL_REAL(balance, 0.02, 0, 100, "weight of the loss that spreads tokens over experts"),
};

static const model_input inputs[] = {
    {.name = "ids", .whole = true, .shape = "N <context", .below = "vocabulary"},
    {.name = "targets",
     .whole = true,
     .shape = "N <context",
     .below = "vocabulary",
     .learns = true},
};

typedef struct expert {
    qn_layer *w1, *w2, *w3; /* gate, down and up */
} expert;

typedef struct block {
    qn_layer *norm1, *norm2, *gate;
    grouped attention;
    expert *expert;
} block;

typedef struct parts {
    qn_layer *tokens, *norm, *head;
    block *layer;
} parts;

/* ---- making --------------------------------------------------------------------------------- */

static qn_layer *add_norm(net *n, const char *name) {
    const config *c = n->config;
    return qn_layer_new(n->module, "RMSNorm", name,
                        &QN_LAYER_OPTIONS(.shape = {c->width}, .epsilon = c->epsilon));
}

static expert add_expert(net *n, const char *at, int e) {
    const config *c = n->config;
    const char name[] = "%s.block_sparse_moe.experts.%d.%s";
    expert x;
    x.w1 = grouped_linear(n, net_name(n, name, at, e, "w1"), c->width, c->hidden);
    x.w2 = grouped_linear(n, net_name(n, name, at, e, "w2"), c->hidden, c->width);
    x.w3 = grouped_linear(n, net_name(n, name, at, e, "w3"), c->width, c->hidden);
    return x;
}

static bool add_block(net *n, block *b, int i) {
    const config *c = n->config;
    grouped like = {.heads = c->heads, .groups = c->groups, .theta = c->theta};
    char at[64];
    snprintf(at, sizeof at, "model.layers.%d", i);
    b->expert = net_room(n, c->experts, sizeof *b->expert);
    if (!b->expert ||
        !grouped_make(n, &b->attention, net_name(n, "%s.self_attn", at), c->width, like))
        return false;
    b->gate = grouped_linear(n, net_name(n, "%s.block_sparse_moe.gate", at), c->width, c->experts);
    for (int e = 0; e < c->experts; e++) b->expert[e] = add_expert(n, at, e);
    b->norm1 = add_norm(n, net_name(n, "%s.input_layernorm", at));
    b->norm2 = add_norm(n, net_name(n, "%s.post_attention_layernorm", at));
    return true;
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    if (c->chosen > c->experts)
        return net_fail(n, "%lld chosen of %lld experts", (long long)c->chosen,
                        (long long)c->experts);
    p->layer = net_room(n, c->layers, sizeof *p->layer);
    p->tokens =
        qn_layer_new(n->module, "Embedding", "model.embed_tokens",
                     &QN_LAYER_OPTIONS(.in = c->vocabulary, .out = c->width, .scale = 0.02));
    bool fine = p->layer != NULL;
    for (int i = 0; fine && i < c->layers; i++) fine = add_block(n, &p->layer[i], i);
    p->norm = add_norm(n, "model.norm");
    p->head = grouped_linear(n, "lm_head", c->width, c->vocabulary);
    return fine;
}

/* ---- running -------------------------------------------------------------------------------- */

/* What a gate says of tokens: probabilities and choices, each summed over tokens, [experts]. */
typedef struct balance {
    qn_tensor *likely, *chosen;
    double tokens;
} balance;

static void count(balance *all, qn_tensor *likely, qn_tensor *chosen) {
    int axes[2] = {0, 1};
    if (!likely || !chosen) return;
    qn_tensor *l = qn_sum_axes(likely, 2, axes, false), *k = qn_sum_axes(chosen, 2, axes, false);
    all->likely = all->tokens > 0 ? qn_add(all->likely, l) : l;
    all->chosen = all->tokens > 0 ? qn_add(all->chosen, k) : k;
    all->tokens += (double)(qn_dim(likely, 0) * qn_dim(likely, 1));
}

/* The experts' weights for each token, [N, T, experts]: 0 for those that are not chosen. */
static qn_tensor *weigh(const config *c, const block *b, qn_tensor *x, balance *all) {
    qn_tensor *likely = qn_softmax(qn_layer_forward(b->gate, x), -1), *value, *index;
    if (!likely || qn_topk(likely, c->chosen, -1, true, &value, &index)) return NULL;
    qn_tensor *chosen = qn_sum(qn_one_hot(index, c->experts, QN_F32), 2, false);
    count(all, likely, chosen);
    qn_tensor *kept = qn_mul(likely, chosen);
    return qn_div(kept, qn_sum(kept, -1, true));
}

static qn_tensor *mix(const config *c, const block *b, qn_tensor *x, balance *all) {
    qn_tensor *weight = weigh(c, b, x, all), *sum = NULL;
    for (int64_t e = 0; e < c->experts; e++) {
        const expert *k = &b->expert[e];
        qn_tensor *y = qn_mul(qn_silu(qn_layer_forward(k->w1, x)), qn_layer_forward(k->w3, x));
        y = qn_mul(qn_layer_forward(k->w2, y), qn_slice(weight, -1, e, e + 1, 1));
        sum = e ? qn_add(sum, y) : y;
    }
    return sum;
}

static qn_tensor *run(net *n, qn_tensor *ids, balance *all) {
    const config *c = n->config;
    const parts *p = n->parts;
    qn_tensor *x = qn_layer_forward(p->tokens, ids);
    for (int64_t i = 0; i < c->layers; i++) {
        const block *b = &p->layer[i];
        x = qn_add(x, grouped_run(&b->attention, qn_layer_forward(b->norm1, x)));
        x = qn_add(x, mix(c, b, qn_layer_forward(b->norm2, x), all));
    }
    return qn_layer_forward(p->head, qn_layer_forward(p->norm, x));
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    balance all = {NULL, NULL, 0};
    return run(n, in[0], &all);
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    const config *c = n->config;
    balance all = {NULL, NULL, 0};
    qn_tensor *mean = qn_cross_entropy(run(n, in[0], &all), in[1]);
    qn_tensor *spread = qn_sum(qn_mul(all.likely, all.chosen), QN_ALL, false);
    double scale = c->balance * (double)c->experts / (all.tokens * all.tokens);
    (void)turn;
    return c->balance > 0 ? qn_add(mean, qn_mul(spread, qn_weak(spread, scale))) : mean;
}

const model_row model_moe = {
    .name = "moe",
    .help = "a mixture of experts, a transformer that foretells the next token",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_TOKENS,
    .make = make,
    .forward = forward,
    .loss = loss,
};
