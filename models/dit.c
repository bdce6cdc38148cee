/* dit.c - a diffusion transformer (Peebles and Xie 2023) that learns which noise is in an image of
 * a label, with the names of the authors' DiT.
 *
 * An image with noise of time t is cut into patches; time and label become a row that says, for
 * each block, how its norms are shifted and scaled and how much of the block counts, which is
 * nothing at first. The noise of time t is that of Ho et al. (2020). Times, noise, and which labels
 * are not told, so that an image can be drawn with more of its label than without (Ho and Salimans
 * 2022), are drawn in each step unless times are given. dit.py draws images. */
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct config {
    int64_t channels, image, patch, layers, heads, width, classes;
    double untold;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(channels, 4, 1, 4096, "channels of an image"),
    MODEL_WHOLE(image, 32, 1, 1 << 16, "rows and columns of an image"),
    MODEL_WHOLE(patch, 2, 1, 1 << 16, "rows and columns of a patch; divides the image"),
    MODEL_WHOLE(layers, 12, 1, 1024, "blocks"),
    MODEL_WHOLE(heads, 6, 1, 1024, "heads of attention; divides the width"),
    MODEL_WHOLE(width, 384, 4, 1 << 16, "numbers a patch is made into; divides by 4"),
    MODEL_WHOLE(classes, 1000, 1, 1 << 20, "different labels"),
    MODEL_REAL(untold, 0.1, 0, 1, "what part of the labels is not told"),
};

static const model_input inputs[] = {
    {.name = "images", .shape = "N channels image image"},
    {.name = "labels", .whole = true, .shape = "N", .below = "classes"},
    {.name = "times", .whole = true, .shape = "N", .below = "1000", .optional = true},
    {.name = "noise", .shape = "N channels image image", .optional = true},
};
enum { IMAGES, LABELS, TIMES, NOISE, ALL_TIMES = 1000, FREQUENCIES = 256 };

/* A linear map that begins as 0. */
typedef struct zeros {
    qn_tensor *weight, *bias;
} zeros;

typedef struct block {
    zeros change;
    qn_layer *qkv, *proj, *fc1, *fc2;
} block;

typedef struct parts {
    qn_layer *patches, *time[2];
    zeros change, out;
    qn_tensor *labels, *places;
    block *block;
} parts;

/* ---- making --------------------------------------------------------------------------------- */

static qn_layer *add_linear(net *n, const char *name, int64_t in, int64_t out, double deviation) {
    return qn_linear_new(n->module, name, in, out, &QN_LAYER_OPTIONS(.scale = deviation));
}

static zeros add_zeros(net *n, const char *name, int64_t in, int64_t out) {
    char full[128];
    snprintf(full, sizeof full, "%s.weight", name);
    zeros z = {.weight =
                   qn_module_parameter(n->module, full, QN_F32, 2, (int64_t[]){out, in}, NULL)};
    snprintf(full, sizeof full, "%s.bias", name);
    z.bias = qn_module_parameter(n->module, full, QN_F32, 1, &out, NULL);
    return z;
}

/* By Glorot and Bengio (2010), normal. */
static qn_layer *add_even(net *n, const char *name, int64_t in, int64_t out) {
    return add_linear(n, name, in, out, sqrt(2.0 / (double)(in + out)));
}

static block add_block(net *n, int i) {
    const config *c = n->config;
    int64_t width = c->width;
    block b;
    b.change = add_zeros(n, net_name(n, "blocks.%d.adaLN_modulation.1", i), width, 6 * width);
    b.qkv = add_even(n, net_name(n, "blocks.%d.attn.qkv", i), width, 3 * width);
    b.proj = add_even(n, net_name(n, "blocks.%d.attn.proj", i), width, width);
    b.fc1 = add_even(n, net_name(n, "blocks.%d.mlp.fc1", i), width, 4 * width);
    b.fc2 = add_even(n, net_name(n, "blocks.%d.mlp.fc2", i), 4 * width, width);
    return b;
}

/* [1, side * side, width]: half of the numbers for the column, half for the row, sines before
 * cosines. They are not trained. */
static qn_tensor *add_places(net *n, int64_t side) {
    const config *c = n->config;
    int64_t shape[3] = {1, side * side, c->width}, quarter = c->width / 4;
    float *values = calloc((size_t)(shape[1] * shape[2]), sizeof *values);
    if (!values) return NULL;
    for (int64_t k = 0; k < shape[1] * shape[2]; k++) {
        int64_t place = k / c->width, at = k % c->width, i = at % quarter;
        int64_t which = at < 2 * quarter ? place % side : place / side;
        double angle = (double)which * pow(10000, -(double)i / (double)quarter);
        values[k] = (float)(at / quarter % 2 ? cos(angle) : sin(angle));
    }
    qn_tensor *places = qn_module_buffer(n->module, "pos_embed", QN_F32, 3, shape, NULL);
    if (places && qn_assign(places, qn_from(n->qn, QN_F32, 3, shape, values))) places = NULL;
    free(values);
    return places && !qn_realize(1, &places) ? places : NULL;
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    int64_t side = c->image / c->patch, patch = c->patch * c->patch * c->channels;
    if (c->image % c->patch)
        return net_fail(n, "an image of %lld does not divide into patches of %lld",
                        (long long)c->image, (long long)c->patch);
    if (c->width % c->heads || c->width % 4)
        return net_fail(n, "a width of %lld does not divide into %lld heads and by 4",
                        (long long)c->width, (long long)c->heads);
    p->block = net_room(n, c->layers, sizeof *p->block);
    p->patches = qn_layer_new(n->module, "Conv2d", "x_embedder.proj",
                              &QN_LAYER_OPTIONS(.in = c->channels, .out = c->width,
                                                .kernel = {c->patch}, .stride = {c->patch}));
    p->time[0] = add_linear(n, "t_embedder.mlp.0", FREQUENCIES, c->width, 0.02);
    p->time[1] = add_linear(n, "t_embedder.mlp.2", c->width, c->width, 0.02);
    p->labels = qn_module_parameter(n->module, "y_embedder.embedding_table.weight", QN_F32, 2,
                                    (int64_t[]){c->classes + 1, c->width},
                                    &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 0.02));
    p->places = add_places(n, side);
    for (int i = 0; p->block && i < c->layers; i++) p->block[i] = add_block(n, i);
    p->change = add_zeros(n, "final_layer.adaLN_modulation.1", c->width, 2 * c->width);
    p->out = add_zeros(n, "final_layer.linear", c->width, patch);
    return p->block && p->places;
}

/* ---- running -------------------------------------------------------------------------------- */

/* Parts [N, 1, width] of what time and label change. */
static bool changes(zeros l, qn_tensor *given, int count, qn_tensor **out) {
    qn_tensor *all = qn_linear(qn_silu(given), l.weight, l.bias);
    return all && !qn_chunk(qn_unsqueeze(all, 1), -1, count, out);
}

static qn_tensor *changed(qn_tensor *x, qn_tensor *shift, qn_tensor *scale) {
    x = qn_layer_norm(x, NULL, NULL, 1e-6);
    return qn_add(qn_mul(x, qn_add(scale, qn_weak(scale, 1))), shift);
}

static qn_tensor *run_block(net *n, const block *b, qn_tensor *x, qn_tensor *given) {
    const config *c = n->config;
    qn_tensor *by[6], *qkv[3];
    if (!changes(b->change, given, 6, by)) return NULL;
    if (qn_chunk(qn_layer_forward(b->qkv, changed(x, by[0], by[1])), -1, 3, qkv)) return NULL;
    for (int i = 0; i < 3; i++) qkv[i] = net_split_heads(qkv[i], c->heads);
    qn_tensor *y =
        net_join_heads(net_attention(n, qkv, &QN_ATTENTION_OPTIONS(.causal = false), NULL));
    x = qn_add(x, qn_mul(by[2], qn_layer_forward(b->proj, y)));
    y = qn_gelu_tanh(qn_layer_forward(b->fc1, changed(x, by[3], by[4])));
    return qn_add(x, qn_mul(by[5], qn_layer_forward(b->fc2, y)));
}

/* A row [N, width] of times [N]. */
static qn_tensor *run_times(net *n, qn_tensor *times) {
    const parts *p = n->parts;
    qn_tensor *i = qn_arange(n->qn, QN_F32, 0, FREQUENCIES / 2, 1);
    qn_tensor *speeds = qn_exp(qn_mul(i, qn_weak(i, -log(10000) / (FREQUENCIES / 2.0))));
    qn_tensor *angles = qn_mul(qn_unsqueeze(qn_cast(times, QN_F32), 1), speeds);
    qn_tensor *x = qn_concat(2, (qn_tensor *[]){qn_cos(angles), qn_sin(angles)}, 1);
    return qn_layer_forward(p->time[1], qn_silu(qn_layer_forward(p->time[0], x)));
}

/* Rows of patches [N, side * side, patch * patch * channels] as images. */
static qn_tensor *images_of(const config *c, qn_tensor *x) {
    int64_t side = c->image / c->patch, count = qn_dim(x, 0);
    int64_t apart[6] = {count, side, side, c->patch, c->patch, c->channels};
    x = qn_permute(qn_reshape(x, 6, apart), 6, (int[]){0, 5, 1, 3, 2, 4});
    return qn_reshape(x, 4, (int64_t[]){count, c->channels, c->image, c->image});
}

/* What is not given is drawn, and then some labels become that of no class. */
static bool draw(net *n, qn_tensor *in[4]) {
    const config *c = n->config;
    qn_tensor *key = net_key(n);
    int64_t shape[4] = {qn_dim(in[IMAGES], 0), c->channels, c->image, c->image};
    if (!in[NOISE]) in[NOISE] = qn_randn(qn_key_fold(key, 0), QN_F32, 4, shape);
    if (in[TIMES]) return in[NOISE] != NULL;
    in[TIMES] = qn_randint(qn_key_fold(key, 1), QN_I32, 1, shape, 0, ALL_TIMES);
    qn_tensor *untold = qn_bernoulli(qn_key_fold(key, 2), 1, shape, c->untold);
    in[LABELS] = qn_where(untold, qn_like(in[LABELS], (double)c->classes), in[LABELS]);
    return in[NOISE] && in[TIMES] && in[LABELS];
}

/* The noise that is found in images from 0 to 1, made -1 to 1, with the noise of a time. */
static qn_tensor *guess(net *n, qn_tensor *in[4]) {
    const config *c = n->config;
    const parts *p = n->parts;
    if (!draw(n, in)) return NULL;
    qn_tensor *kept = qn_linspace(n->qn, QN_F64, 1 - 1e-4, 1 - 0.02, ALL_TIMES);
    kept = qn_take(qn_cast(qn_cumprod(kept, 0), QN_F32), in[TIMES], 0);
    kept = qn_unsqueeze_axes(kept, 3, (int[]){1, 2, 3});
    qn_tensor *x = qn_sub(qn_mul(in[IMAGES], qn_weak(in[IMAGES], 2)), qn_weak(in[IMAGES], 1));
    x = qn_add(qn_mul(qn_sqrt(kept), x),
               qn_mul(qn_sqrt(qn_sub(qn_like(kept, 1), kept)), in[NOISE]));
    qn_tensor *given = qn_add(run_times(n, in[TIMES]), qn_embedding(p->labels, in[LABELS])), *by[2];
    x = qn_transpose(qn_flatten(qn_layer_forward(p->patches, x), 2, 3), 1, 2);
    x = qn_add(x, p->places);
    for (int64_t i = 0; i < c->layers; i++) x = run_block(n, &p->block[i], x, given);
    if (!x || !changes(p->change, given, 2, by)) return NULL;
    x = qn_linear(changed(x, by[0], by[1]), p->out.weight, p->out.bias);
    return x ? images_of(c, x) : NULL;
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    qn_tensor *all[4] = {in[IMAGES], in[LABELS], in[TIMES], in[NOISE]};
    return guess(n, all);
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    qn_tensor *all[4] = {in[IMAGES], in[LABELS], in[TIMES], in[NOISE]}, *found = guess(n, all);
    (void)turn;
    return found ? qn_mse_loss(found, all[NOISE]) : NULL;
}

const model_row model_dit = {
    .name = "dit",
    .help = "a diffusion transformer, of images from 0 to 1 and their labels",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_SAMPLES,
    .make = make,
    .forward = forward,
    .loss = loss,
};
