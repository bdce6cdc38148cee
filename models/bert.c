/* bert.c - BERT (Devlin et al. 2019) with its head for masked tokens, by the names of transformers'
 * BertForMaskedLM: norms come last in each branch, the head's weight is that of the embeddings.
 *
 * Without labels it masks by itself: of `chance` of the tokens, 8 in 10 become the mask, 1 in 10
 * any token, and all are to be guessed; each step draws others. Labels of -100 are not guessed. */
#include "models/model.h"

#include <stdio.h>

typedef struct config {
    int64_t vocabulary, context, layers, heads, width, hidden, kinds, mask;
    double chance, dropout;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(vocabulary, 30522, 1, 1 << 24, "different tokens, the mask among them"),
    MODEL_WHOLE(context, 512, 1, 1 << 20, "tokens of the longest text"),
    MODEL_WHOLE(layers, 12, 1, 1024, "blocks"),
    MODEL_WHOLE(heads, 12, 1, 1024, "heads of attention; divides the width"),
    MODEL_WHOLE(width, 768, 1, 1 << 16, "numbers a token is made into"),
    MODEL_WHOLE(hidden, 3072, 1, 1 << 18, "width within the perceptrons"),
    MODEL_WHOLE(kinds, 2, 1, 1024, "kinds of tokens, of which all are the first"),
    MODEL_WHOLE(mask, 103, 0, 1 << 24, "the token that stands for one that is masked"),
    MODEL_REAL(chance, 0.15, 0, 1, "what part of the tokens is to be guessed"),
    MODEL_REAL(dropout, 0.1, 0, 0.95, "what part is dropped"),
};

static const model_input inputs[] = {
    {.name = "ids", .whole = true, .shape = "N <context", .below = "vocabulary"},
    {.name = "labels", .whole = true, .shape = "N <context", .optional = true, .learns = true},
    {.name = "seen", .whole = true, .shape = "N <context", .optional = true},
};
enum { IDS, LABELS, SEEN, IGNORED = -100 };

/* A linear map added to what came before, and a norm. */
typedef struct output {
    qn_layer *dense, *norm;
} output;

typedef struct block {
    qn_layer *qkv[3], *up;
    output attention, output;
} block;

typedef struct parts {
    qn_layer *norm, *drop;
    qn_tensor *words, *places, *kinds, *bias;
    output transform; /* of the head, where nothing is added */
    block *layer;
} parts;

/* ---- making --------------------------------------------------------------------------------- */

static const double deviation = 0.02;

static qn_layer *add_linear(net *n, const char *name, int64_t in, int64_t out) {
    return qn_linear_new(n->module, name, in, out, &QN_LAYER_OPTIONS(.scale = deviation));
}

static qn_layer *add_norm(net *n, const char *name) {
    const config *c = n->config;
    return qn_layer_new(n->module, "LayerNorm", name,
                        &QN_LAYER_OPTIONS(.shape = {c->width}, .epsilon = 1e-12));
}

static qn_tensor *add_rows(net *n, const char *name, int64_t rows) {
    const config *c = n->config;
    return qn_module_parameter(n->module, name, QN_F32, 2, (int64_t[]){rows, c->width},
                               &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = deviation));
}

static output add_output(net *n, const char *name, int64_t in) {
    const config *c = n->config;
    char full[128];
    output o;
    snprintf(full, sizeof full, "%s.dense", name);
    o.dense = add_linear(n, full, in, c->width);
    snprintf(full, sizeof full, "%s.LayerNorm", name);
    o.norm = add_norm(n, full);
    return o;
}

static block add_block(net *n, int i) {
    static const char *const names[] = {"query", "key", "value"};
    const config *c = n->config;
    char at[64];
    block b;
    snprintf(at, sizeof at, "bert.encoder.layer.%d", i);
    for (int k = 0; k < 3; k++)
        b.qkv[k] =
            add_linear(n, net_name(n, "%s.attention.self.%s", at, names[k]), c->width, c->width);
    b.attention = add_output(n, net_name(n, "%s.attention.output", at), c->width);
    b.up = add_linear(n, net_name(n, "%s.intermediate.dense", at), c->width, c->hidden);
    b.output = add_output(n, net_name(n, "%s.output", at), c->hidden);
    return b;
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    if (c->width % c->heads)
        return net_fail(n, "a width of %lld does not divide into %lld heads; set heads, too",
                        (long long)c->width, (long long)c->heads);
    if (c->mask >= c->vocabulary)
        return net_fail(n, "mask is %lld, beyond a vocabulary of %lld", (long long)c->mask,
                        (long long)c->vocabulary);
    p->layer = net_room(n, c->layers, sizeof *p->layer);
    p->drop = net_dropout(n, c->dropout);
    p->words = add_rows(n, "bert.embeddings.word_embeddings.weight", c->vocabulary);
    p->places = add_rows(n, "bert.embeddings.position_embeddings.weight", c->context);
    p->kinds = add_rows(n, "bert.embeddings.token_type_embeddings.weight", c->kinds);
    p->norm = add_norm(n, "bert.embeddings.LayerNorm");
    for (int i = 0; p->layer && i < c->layers; i++) p->layer[i] = add_block(n, i);
    p->transform = add_output(n, "cls.predictions.transform", c->width);
    p->bias =
        qn_module_parameter(n->module, "cls.predictions.bias", QN_F32, 1, &c->vocabulary, NULL);
    return p->layer != NULL;
}

/* ---- running -------------------------------------------------------------------------------- */

static qn_tensor *run_output(const parts *p, const output *o, qn_tensor *y, qn_tensor *x) {
    y = net_drop(p->drop, qn_layer_forward(o->dense, y));
    return qn_layer_forward(o->norm, qn_add(y, x));
}

static qn_tensor *run_block(net *n, const block *b, qn_tensor *x, qn_tensor *seen) {
    const config *c = n->config;
    const parts *p = n->parts;
    qn_tensor *qkv[3];
    for (int i = 0; i < 3; i++) qkv[i] = net_split_heads(qn_layer_forward(b->qkv[i], x), c->heads);
    qn_tensor *y = net_attention(n, qkv, &QN_ATTENTION_OPTIONS(.mask = seen), p->drop);
    x = run_output(p, &b->attention, net_join_heads(y), x);
    return run_output(p, &b->output, qn_gelu(qn_layer_forward(b->up, x)), x);
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const config *c = n->config;
    const parts *p = n->parts;
    int64_t time = qn_dim(in[IDS], 1);
    qn_tensor *seen = in[SEEN];
    if (seen) seen = qn_unsqueeze_axes(seen, 2, (int[]){1, 2}); /* [N, 1, 1, T]: for all queries */
    qn_tensor *x = qn_add(qn_embedding(p->words, in[IDS]), qn_slice(p->places, 0, 0, time, 1));
    x = net_drop(p->drop, qn_layer_forward(p->norm, qn_add(x, qn_select(p->kinds, 0, 0))));
    for (int64_t i = 0; i < c->layers; i++) x = run_block(n, &p->layer[i], x, seen);
    x = qn_layer_forward(p->transform.norm, qn_gelu(qn_layer_forward(p->transform.dense, x)));
    return qn_linear(x, p->words, p->bias);
}

/* Masked ids, and as labels those that were chosen. */
static void mask(net *n, qn_tensor *in[3]) {
    const config *c = n->config;
    qn_tensor *key = net_key(n), *ids = in[IDS];
    int64_t shape[2] = {qn_dim(ids, 0), qn_dim(ids, 1)};
    qn_tensor *chosen = qn_bernoulli(qn_key_fold(key, 0), 2, shape, c->chance);
    qn_tensor *how = qn_uniform(qn_key_fold(key, 1), QN_F32, 2, shape);
    qn_tensor *any = qn_randint(qn_key_fold(key, 2), QN_I32, 2, shape, 0, c->vocabulary);
    qn_tensor *other = qn_where(qn_lt(how, qn_weak(how, 0.9)), any, ids);
    other = qn_where(qn_lt(how, qn_weak(how, 0.8)), qn_like(ids, (double)c->mask), other);
    in[LABELS] = qn_where(chosen, ids, qn_like(ids, IGNORED));
    in[IDS] = qn_where(chosen, other, ids);
}

/* The mean over what is to be guessed; 0 where that is nothing. */
static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    qn_tensor *given[3] = {in[IDS], in[LABELS], in[SEEN]};
    (void)turn;
    if (!given[LABELS]) mask(n, given);
    qn_tensor *sum = qn_cross_entropy_with(
        forward(n, given), given[LABELS],
        &QN_CROSS_ENTROPY_OPTIONS(.reduction = QN_REDUCE_SUM, .ignore = IGNORED, .ignores = true));
    qn_tensor *counts = qn_ne(given[LABELS], qn_like(given[LABELS], IGNORED));
    qn_tensor *count = qn_sum(qn_cast(counts, QN_F32), QN_ALL, false);
    return qn_div(sum, qn_maximum(count, qn_like(count, 1)));
}

const model_row model_bert = {
    .name = "bert",
    .help = "BERT, a transformer that guesses masked tokens",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_TOKENS,
    .make = make,
    .forward = forward,
    .loss = loss,
};
