/* llama.c - a small Llama (Touvron et al. 2023), with the names of transformers' LlamaForCausalLM:
 * root mean square norms in front of each branch, grouped-query attention with rotary positions,
 * and perceptrons with a gate, down(silu(gate(x)) * up(x)). */
#include "models/grouped.h"

#include <stdio.h>

typedef struct config {
    int64_t vocabulary, context, layers, heads, groups, width, hidden;
    double theta, epsilon;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(vocabulary, 32000, 1, 1 << 24, "different tokens"),
    MODEL_WHOLE(context, 512, 1, 1 << 20, "tokens of the longest window"),
    MODEL_WHOLE(layers, 8, 1, 1024, "blocks"),
    MODEL_WHOLE(heads, 8, 1, 1024, "heads of queries; divides the width"),
    MODEL_WHOLE(groups, 4, 1, 1024, "heads of keys and values; divides the heads"),
    MODEL_WHOLE(width, 512, 1, 1 << 16, "numbers a token is made into"),
    MODEL_WHOLE(hidden, 1376, 1, 1 << 18, "width within the perceptrons"),
    MODEL_REAL(theta, 10000, 1, 1e9, "base of the rotary positions"),
    MODEL_REAL(epsilon, 1e-5, 1e-12, 1, "what norms add to the mean of squares"),
};

static const model_input inputs[] = {
    {.name = "ids", .whole = true, .shape = "N <context", .below = "vocabulary"},
    {.name = "targets",
     .whole = true,
     .shape = "N <context",
     .below = "vocabulary",
     .learns = true},
};

typedef struct block {
    qn_layer *norm1, *norm2, *gate, *up, *down;
    grouped attention;
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

static bool add_block(net *n, block *b, int i) {
    const config *c = n->config;
    grouped like = {.heads = c->heads, .groups = c->groups, .theta = c->theta};
    char at[64];
    snprintf(at, sizeof at, "model.layers.%d", i);
    if (!grouped_make(n, &b->attention, net_name(n, "%s.self_attn", at), c->width, like))
        return false;
    b->gate = grouped_linear(n, net_name(n, "%s.mlp.gate_proj", at), c->width, c->hidden);
    b->up = grouped_linear(n, net_name(n, "%s.mlp.up_proj", at), c->width, c->hidden);
    b->down = grouped_linear(n, net_name(n, "%s.mlp.down_proj", at), c->hidden, c->width);
    b->norm1 = add_norm(n, net_name(n, "%s.input_layernorm", at));
    b->norm2 = add_norm(n, net_name(n, "%s.post_attention_layernorm", at));
    return true;
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
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

static qn_tensor *run_block(const block *b, qn_tensor *x) {
    x = qn_add(x, grouped_run(&b->attention, qn_layer_forward(b->norm1, x)));
    qn_tensor *y = qn_layer_forward(b->norm2, x);
    y = qn_mul(qn_silu(qn_layer_forward(b->gate, y)), qn_layer_forward(b->up, y));
    return qn_add(x, qn_layer_forward(b->down, y));
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const config *c = n->config;
    const parts *p = n->parts;
    qn_tensor *x = qn_layer_forward(p->tokens, in[0]);
    for (int64_t i = 0; i < c->layers; i++) x = run_block(&p->layer[i], x);
    return qn_layer_forward(p->head, qn_layer_forward(p->norm, x));
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    (void)turn;
    return qn_cross_entropy(forward(n, in), in[1]);
}

const model_row model_llama = {
    .name = "llama",
    .help = "a small Llama, a transformer that foretells the next token",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_TOKENS,
    .make = make,
    .forward = forward,
    .loss = loss,
};
