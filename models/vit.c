/* vit.c - a vision transformer (Dosovitskiy et al. 2021), with the names of torchvision's.
 *
 * An image is cut into patches, which a convolution of their size makes into a row each; a row that
 * is learned stands in front, and what becomes of it is what the head sees. */
#include "models/model.h"

typedef struct config {
    int64_t channels, image, patch, layers, heads, width, hidden, classes;
    double dropout;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(channels, 3, 1, 4096, "channels of an image"),
    MODEL_WHOLE(image, 224, 1, 1 << 16, "rows and columns of an image"),
    MODEL_WHOLE(patch, 16, 1, 1 << 16, "rows and columns of a patch; divides the image"),
    MODEL_WHOLE(layers, 12, 1, 1024, "blocks"),
    MODEL_WHOLE(heads, 12, 1, 1024, "heads of attention; divides the width"),
    MODEL_WHOLE(width, 768, 1, 1 << 16, "numbers a patch is made into"),
    MODEL_WHOLE(hidden, 3072, 1, 1 << 18, "width within the perceptrons"),
    MODEL_WHOLE(classes, 1000, 1, 1 << 20, "different labels"),
    MODEL_REAL(dropout, 0, 0, 0.95, "what part is dropped"),
};

static const model_input inputs[] = {
    {.name = "images", .shape = "N channels image image"},
    {.name = "labels", .whole = true, .shape = "N", .below = "classes", .learns = true},
};

typedef struct block {
    qn_layer *ln_1, *attention, *ln_2, *up, *down;
} block;

typedef struct parts {
    qn_tensor *class_token, *places;
    qn_layer *conv_proj, *ln, *head, *drop;
    block *block;
} parts;

/* ---- making --------------------------------------------------------------------------------- */

static qn_layer *add_norm(net *n, const char *name, int64_t width) {
    return qn_layer_new(n->module, "LayerNorm", name,
                        &QN_LAYER_OPTIONS(.shape = {width}, .epsilon = 1e-6));
}

static qn_layer *add_linear(net *n, const char *name, int64_t in, int64_t out) {
    return qn_layer_new(n->module, "Linear", name, &QN_LAYER_OPTIONS(.in = in, .out = out));
}

static block add_block(net *n, int i) {
    static const char at[] = "encoder.layers.encoder_layer_";
    const config *c = n->config;
    block b;
    b.ln_1 = add_norm(n, net_name(n, "%s%d.ln_1", at, i), c->width);
    b.attention =
        qn_layer_new(n->module, "MultiheadAttention", net_name(n, "%s%d.self_attention", at, i),
                     &QN_LAYER_OPTIONS(.in = c->width, .heads = c->heads, .batch_first = true));
    b.ln_2 = add_norm(n, net_name(n, "%s%d.ln_2", at, i), c->width);
    b.up = add_linear(n, net_name(n, "%s%d.mlp.0", at, i), c->width, c->hidden);
    b.down = add_linear(n, net_name(n, "%s%d.mlp.3", at, i), c->hidden, c->width);
    return b;
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    int64_t side = c->image / c->patch;
    if (c->image % c->patch)
        return net_fail(n, "an image of %lld does not divide into patches of %lld",
                        (long long)c->image, (long long)c->patch);
    if (c->width % c->heads)
        return net_fail(n, "a width of %lld does not divide into %lld heads; set heads, too",
                        (long long)c->width, (long long)c->heads);
    p->block = net_room(n, c->layers, sizeof *p->block);
    p->drop = net_dropout(n, c->dropout);
    p->class_token =
        qn_module_parameter(n->module, "class_token", QN_F32, 3, (int64_t[]){1, 1, c->width}, NULL);
    p->conv_proj = qn_layer_new(n->module, "Conv2d", "conv_proj",
                                &QN_LAYER_OPTIONS(.in = c->channels, .out = c->width,
                                                  .kernel = {c->patch}, .stride = {c->patch}));
    p->places = qn_module_parameter(n->module, "encoder.pos_embedding", QN_F32, 3,
                                    (int64_t[]){1, side * side + 1, c->width},
                                    &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 0.02));
    for (int i = 0; p->block && i < c->layers; i++) p->block[i] = add_block(n, i);
    p->ln = add_norm(n, "encoder.ln", c->width);
    p->head = add_linear(n, "heads.head", c->width, c->classes);
    return p->block != NULL;
}

/* ---- running -------------------------------------------------------------------------------- */

static qn_tensor *run_block(const parts *p, const block *b, qn_tensor *x) {
    qn_tensor *y = qn_layer_forward(b->ln_1, x);
    if (!y || qn_layer_call(b->attention, 3, (qn_tensor *[]){y, y, y}, 1, &y)) return NULL;
    x = qn_add(x, net_drop(p->drop, y));
    y = net_drop(p->drop, qn_gelu(qn_layer_forward(b->up, qn_layer_forward(b->ln_2, x))));
    return qn_add(x, net_drop(p->drop, qn_layer_forward(b->down, y)));
}

/* Patches [N, width, side, side] as rows [N, 1 + side * side, width], the learned one first. */
static qn_tensor *rows_of(const parts *p, qn_tensor *patches) {
    qn_tensor *rows = qn_transpose(qn_flatten(patches, 2, 3), 1, 2);
    if (!rows) return NULL;
    int64_t shape[3] = {qn_dim(rows, 0), 1, qn_dim(rows, 2)};
    return qn_concat(2, (qn_tensor *[]){qn_expand(p->class_token, 3, shape), rows}, 1);
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const config *c = n->config;
    const parts *p = n->parts;
    qn_tensor *x = rows_of(p, qn_layer_forward(p->conv_proj, in[0]));
    x = net_drop(p->drop, qn_add(x, p->places));
    for (int64_t i = 0; i < c->layers; i++) x = run_block(p, &p->block[i], x);
    return qn_layer_forward(p->head, qn_select(qn_layer_forward(p->ln, x), 1, 0));
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    (void)turn;
    return qn_cross_entropy(forward(n, in), in[1]);
}

const model_row model_vit = {
    .name = "vit",
    .help = "a vision transformer, for images and their labels",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_SAMPLES,
    .make = make,
    .forward = forward,
    .loss = loss,
};
