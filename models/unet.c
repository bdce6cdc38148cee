/* unet.c - a U-Net (Ronneberger et al. 2015) that gives each place of an image a class, with the
 * names of milesial's Pytorch-UNet: inc, down1 to down4, up1 to up4 and outc.
 *
 * Going down, each level has half the places and twice the channels; going up, a transposed
 * convolution undoes both, and what came down on that level is put beside it. Convolutions keep
 * sizes; one that is odd on the way down is padded on the way up. */
#include "models/model.h"

#include <stdio.h>

typedef struct config {
    int64_t channels, classes, width;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(channels, 3, 1, 4096, "channels of an image"),
    MODEL_WHOLE(classes, 2, 1, 1 << 16, "different labels of a place"),
    MODEL_WHOLE(width, 64, 1, 4096, "channels of the first level"),
};

static const model_input inputs[] = {
    {.name = "images", .shape = "N channels H W"},
    {.name = "masks", .whole = true, .shape = "N H W", .below = "classes", .learns = true},
};

enum { LEVELS = 4 };

/* Twice a convolution of 3 x 3, a norm, and relu. */
typedef struct twice {
    qn_layer *conv[2], *norm[2];
} twice;

typedef struct parts {
    twice down[LEVELS + 1], up[LEVELS];
    qn_layer *wider[LEVELS], *out;
} parts;

/* ---- making --------------------------------------------------------------------------------- */

static twice add_twice(net *n, const char *name, int64_t in, int64_t out) {
    twice t;
    char full[96];
    for (int i = 0; i < 2; i++) {
        snprintf(full, sizeof full, "%s.double_conv.%d", name, 3 * i);
        t.conv[i] = qn_layer_new(n->module, "Conv2d", full,
                                 &QN_LAYER_OPTIONS(.in = i ? out : in, .out = out, .kernel = {3},
                                                   .padding = {1, 1}, .no_bias = true));
        snprintf(full, sizeof full, "%s.double_conv.%d", name, 3 * i + 1);
        t.norm[i] = qn_layer_new(n->module, "BatchNorm2d", full, &QN_LAYER_OPTIONS(.in = out));
    }
    return t;
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    int64_t width = c->width;
    p->down[0] = add_twice(n, "inc", c->channels, width);
    for (int i = 1; i <= LEVELS; i++, width *= 2)
        p->down[i] = add_twice(n, net_name(n, "down%d.maxpool_conv.1", i), width, 2 * width);
    for (int i = 0; i < LEVELS; i++, width /= 2) {
        p->wider[i] = qn_layer_new(
            n->module, "ConvTranspose2d", net_name(n, "up%d.up", i + 1),
            &QN_LAYER_OPTIONS(.in = width, .out = width / 2, .kernel = {2}, .stride = {2}));
        p->up[i] = add_twice(n, net_name(n, "up%d.conv", i + 1), width, width / 2);
    }
    p->out = qn_layer_new(n->module, "Conv2d", "outc.conv",
                          &QN_LAYER_OPTIONS(.in = width, .out = c->classes, .kernel = {1}));
    return true;
}

/* ---- running -------------------------------------------------------------------------------- */

static qn_tensor *run_twice(const twice *t, qn_tensor *x) {
    for (int i = 0; i < 2; i++)
        x = qn_relu(qn_layer_forward(t->norm[i], qn_layer_forward(t->conv[i], x)));
    return x;
}

/* x with zeros around it, so that it has the places of `like`. */
static qn_tensor *padded(qn_tensor *x, qn_tensor *like) {
    int64_t widths[8] = {0};
    if (!x || !like) return NULL;
    for (int axis = 2; axis < 4; axis++) {
        int64_t lacks = qn_dim(like, axis) - qn_dim(x, axis);
        widths[2 * axis] = lacks / 2;
        widths[2 * axis + 1] = lacks - lacks / 2;
    }
    return qn_pad(x, widths, QN_PAD_CONSTANT, 0);
}

/* Logits [N, classes, H, W]. */
static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const parts *p = n->parts;
    qn_tensor *level[LEVELS + 1];
    if (qn_dim(in[0], 2) < 1 << LEVELS || qn_dim(in[0], 3) < 1 << LEVELS)
        return net_fail(n, "images of %lld x %lld are less than %d x %d",
                        (long long)qn_dim(in[0], 2), (long long)qn_dim(in[0], 3), 1 << LEVELS,
                        1 << LEVELS),
               NULL;
    level[0] = run_twice(&p->down[0], in[0]);
    for (int i = 1; i <= LEVELS; i++)
        level[i] = run_twice(&p->down[i], qn_max_pool(level[i - 1], (int64_t[]){2, 2}, NULL));
    qn_tensor *x = level[LEVELS];
    for (int i = 0; i < LEVELS; i++) {
        qn_tensor *beside = level[LEVELS - 1 - i];
        x = padded(qn_layer_forward(p->wider[i], x), beside);
        x = run_twice(&p->up[i], qn_concat(2, (qn_tensor *[]){beside, x}, 1));
    }
    return qn_layer_forward(p->out, x);
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    qn_tensor *logits = forward(n, in);
    (void)turn;
    if (!logits) return NULL;
    return qn_cross_entropy(qn_permute(logits, 4, (int[]){0, 2, 3, 1}), in[1]);
}

const model_row model_unet = {
    .name = "unet",
    .help = "a U-Net, for images and a label of each place",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_SAMPLES,
    .make = make,
    .forward = forward,
    .loss = loss,
};
