/* gpt2.c - GPT-2 (Radford et al. 2019), with the names of transformers' GPT2LMHeadModel.
 *
 * Norms come first in each branch; linear maps are Conv1D there, whose weight is [in, out]; the
 * head is the weight of the token embeddings. Weights begin normal with deviation 0.02, those that
 * end a branch with 0.02 / sqrt(2 * layers), so that the sum of all branches keeps its variance
 * with depth. */
#include "models/model.h"

#include <math.h>
#include <stdio.h>

typedef struct config {
    int64_t vocabulary, context, layers, heads, width;
    double dropout;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(vocabulary, 50257, 1, 1 << 24, "different tokens"),
    MODEL_WHOLE(context, 1024, 1, 1 << 20, "tokens of the longest window"),
    MODEL_WHOLE(layers, 12, 1, 1024, "blocks"),
    MODEL_WHOLE(heads, 12, 1, 1024, "heads of attention; divides the width"),
    MODEL_WHOLE(width, 768, 1, 1 << 16, "numbers a token is made into"),
    MODEL_REAL(dropout, 0.1, 0, 0.95, "what part is dropped"),
};

static const model_input inputs[] = {
    {.name = "ids", .whole = true, .shape = "N <context", .below = "vocabulary"},
    {.name = "targets",
     .whole = true,
     .shape = "N <context",
     .below = "vocabulary",
     .learns = true},
};

typedef struct conv1d {
    qn_tensor *weight, *bias;
} conv1d;

typedef struct block {
    qn_layer *ln_1, *ln_2;
    conv1d c_attn, c_proj, c_fc, mlp_proj;
} block;

typedef struct parts {
    qn_layer *ln_f, *drop;
    qn_tensor *wte, *wpe;
    block *h;
} parts;

/* ---- making --------------------------------------------------------------------------------- */

static qn_tensor *weight(net *n, const char *name, int64_t rows, int64_t columns,
                         double deviation) {
    return qn_module_parameter(n->module, name, QN_F32, 2, (int64_t[]){rows, columns},
                               &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = deviation));
}

static conv1d add_conv1d(net *n, const char *name, int64_t in, int64_t out, double deviation) {
    char full[128];
    conv1d l;
    snprintf(full, sizeof full, "%s.weight", name);
    l.weight = weight(n, full, in, out, deviation);
    snprintf(full, sizeof full, "%s.bias", name);
    l.bias = qn_module_parameter(n->module, full, QN_F32, 1, &out, NULL);
    return l;
}

static qn_layer *add_norm(net *n, const char *name, int64_t width) {
    return qn_layer_new(n->module, "LayerNorm", name, &QN_LAYER_OPTIONS(.shape = {width}));
}

static block add_block(net *n, int i) {
    const config *c = n->config;
    double deviation = 0.02, last = deviation / sqrt(2 * (double)c->layers);
    int64_t w = c->width;
    block b;
    b.ln_1 = add_norm(n, net_name(n, "transformer.h.%d.ln_1", i), w);
    b.c_attn = add_conv1d(n, net_name(n, "transformer.h.%d.attn.c_attn", i), w, 3 * w, deviation);
    b.c_proj = add_conv1d(n, net_name(n, "transformer.h.%d.attn.c_proj", i), w, w, last);
    b.ln_2 = add_norm(n, net_name(n, "transformer.h.%d.ln_2", i), w);
    b.c_fc = add_conv1d(n, net_name(n, "transformer.h.%d.mlp.c_fc", i), w, 4 * w, deviation);
    b.mlp_proj = add_conv1d(n, net_name(n, "transformer.h.%d.mlp.c_proj", i), 4 * w, w, last);
    return b;
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    if (c->width % c->heads)
        return net_fail(n, "a width of %lld does not divide into %lld heads; set heads, too",
                        (long long)c->width, (long long)c->heads);
    p->h = net_room(n, c->layers, sizeof *p->h);
    p->drop = net_dropout(n, c->dropout);
    p->wte = weight(n, "transformer.wte.weight", c->vocabulary, c->width, 0.02);
    p->wpe = weight(n, "transformer.wpe.weight", c->context, c->width, 0.01);
    for (int i = 0; p->h && i < c->layers; i++) p->h[i] = add_block(n, i);
    p->ln_f = add_norm(n, "transformer.ln_f", c->width);
    return p->h != NULL;
}

/* ---- running -------------------------------------------------------------------------------- */

static qn_tensor *run_conv1d(const conv1d *l, qn_tensor *x) {
    return qn_add(qn_matmul(x, l->weight), l->bias);
}

static qn_tensor *attend(net *n, const block *b, qn_tensor *x) {
    const config *c = n->config;
    const parts *p = n->parts;
    qn_tensor *qkv[3];
    if (qn_chunk(run_conv1d(&b->c_attn, x), -1, 3, qkv)) return NULL;
    for (int i = 0; i < 3; i++) qkv[i] = net_split_heads(qkv[i], c->heads);
    x = net_join_heads(net_attention(n, qkv, &QN_ATTENTION_OPTIONS(.causal = true), p->drop));
    return net_drop(p->drop, run_conv1d(&b->c_proj, x));
}

static qn_tensor *run_block(net *n, const block *b, qn_tensor *x) {
    const parts *p = n->parts;
    x = qn_add(x, attend(n, b, qn_layer_forward(b->ln_1, x)));
    qn_tensor *y = run_conv1d(&b->c_fc, qn_layer_forward(b->ln_2, x));
    return qn_add(x, net_drop(p->drop, run_conv1d(&b->mlp_proj, qn_gelu_tanh(y))));
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const config *c = n->config;
    const parts *p = n->parts;
    qn_tensor *places = qn_slice(p->wpe, 0, 0, qn_dim(in[0], 1), 1);
    qn_tensor *x = net_drop(p->drop, qn_add(qn_embedding(p->wte, in[0]), places));
    for (int64_t i = 0; i < c->layers; i++) x = run_block(n, &p->h[i], x);
    return qn_linear(qn_layer_forward(p->ln_f, x), p->wte, NULL);
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    (void)turn;
    return qn_cross_entropy(forward(n, in), in[1]);
}

const model_row model_gpt2 = {
    .name = "gpt2",
    .help = "GPT-2, a transformer that foretells the next token",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_TOKENS,
    .make = make,
    .forward = forward,
    .loss = loss,
};
