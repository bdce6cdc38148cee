/* resnet.c - residual networks of images (He et al. 2016), with the names of torchvision: ResNet-18
 * of basic blocks and ResNet-50 of bottlenecks, whose stride is that of the middle convolution.
 *
 * The first convolution is 7 x 7 with stride 2 and a pooling behind it; `small` makes it 3 x 3 with
 * stride 1 and no pooling, as is usual for images of 32 x 32. Convolutions begin normal with
 * variance 2 / (out * places), norms at 1 and 0. */
#include "models/model.h"

#include <math.h>
#include <stdio.h>

typedef struct config {
    int64_t channels, classes, width, small;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(channels, 3, 1, 4096, "channels of an image"),
    MODEL_WHOLE(classes, 1000, 1, 1 << 20, "different labels"),
    MODEL_WHOLE(width, 64, 1, 4096, "channels of the first blocks"),
    MODEL_WHOLE(small, 0, 0, 1, "1: for small images"),
};

static const model_input inputs[] = {
    {.name = "images", .shape = "N channels H W"},
    {.name = "labels", .whole = true, .shape = "N", .below = "classes", .learns = true},
};

enum { STAGES = 4, MOST_BLOCKS = 16, MOST_UNITS = 3 };

/* What a convolution is. */
typedef struct window {
    int64_t in, out, kernel, stride;
} window;

/* A convolution and the norm behind it. */
typedef struct unit {
    qn_tensor *weight;
    qn_layer *norm;
    window of;
} unit;

typedef struct block {
    int units;
    bool projects; /* what goes past the block is made as wide and as small by a unit of its own */
    unit unit[MOST_UNITS], downsample;
} block;

typedef struct parts {
    unit stem;
    int blocks;
    block block[MOST_BLOCKS];
    qn_layer *fc;
} parts;

/* ---- making --------------------------------------------------------------------------------- */

static unit add_unit(net *n, const char *conv, const char *norm, window of) {
    unit u = {.of = of};
    char name[64];
    double deviation = sqrt(2 / (double)(of.out * of.kernel * of.kernel));
    snprintf(name, sizeof name, "%s.weight", conv);
    u.weight = qn_module_parameter(n->module, name, QN_F32, 4,
                                   (int64_t[]){of.out, of.in, of.kernel, of.kernel},
                                   &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = deviation));
    u.norm = qn_layer_new(n->module, "BatchNorm2d", norm, &QN_LAYER_OPTIONS(.in = of.out));
    return u;
}

/* Two convolutions of 3 x 3, or with `wide` ones of 1, 3 and 1, the last four times as wide. */
static block add_block(net *n, const char *name, window of, bool wide) {
    block b = {.units = wide ? 3 : 2};
    int64_t out = wide ? 4 * of.out : of.out;
    const window windows[2][MOST_UNITS] = {
        {{of.in, of.out, 3, of.stride}, {of.out, of.out, 3, 1}},
        {{of.in, of.out, 1, 1}, {of.out, of.out, 3, of.stride}, {of.out, out, 1, 1}}};
    char conv[64], norm[64];
    for (int i = 0; i < b.units; i++) {
        snprintf(conv, sizeof conv, "%s.conv%d", name, i + 1);
        snprintf(norm, sizeof norm, "%s.bn%d", name, i + 1);
        b.unit[i] = add_unit(n, conv, norm, windows[wide][i]);
    }
    b.projects = of.stride != 1 || of.in != out;
    snprintf(conv, sizeof conv, "%s.downsample.0", name);
    snprintf(norm, sizeof norm, "%s.downsample.1", name);
    if (b.projects) b.downsample = add_unit(n, conv, norm, (window){of.in, out, 1, of.stride});
    return b;
}

static bool make(net *n, const int blocks[STAGES], bool wide) {
    const config *c = n->config;
    parts *p = n->parts;
    int64_t in = c->width, width = c->width;
    char name[32];
    p->stem = add_unit(n, "conv1", "bn1",
                       (window){c->channels, width, c->small ? 3 : 7, c->small ? 1 : 2});
    for (int s = 0; s < STAGES; s++, width *= 2)
        for (int i = 0; i < blocks[s]; i++) {
            snprintf(name, sizeof name, "layer%d.%d", s + 1, i);
            window of = {in, width, 3, s && !i ? 2 : 1};
            p->block[p->blocks++] = add_block(n, name, of, wide);
            in = wide ? 4 * width : width;
        }
    p->fc = qn_layer_new(n->module, "Linear", "fc", &QN_LAYER_OPTIONS(.in = in, .out = c->classes));
    return true;
}

static bool make18(net *n) {
    return make(n, (const int[]){2, 2, 2, 2}, false);
}

static bool make50(net *n) {
    return make(n, (const int[]){3, 4, 6, 3}, true);
}

/* ---- running -------------------------------------------------------------------------------- */

static qn_tensor *run_unit(const unit *u, qn_tensor *x) {
    int64_t s = u->of.stride, pad = u->of.kernel / 2;
    qn_conv_options o =
        QN_CONV_OPTIONS(.stride = {s, s}, .before = {pad, pad}, .after = {pad, pad});
    return qn_layer_forward(u->norm, qn_conv2d(x, u->weight, NULL, &o));
}

static qn_tensor *run_block(const block *b, qn_tensor *x) {
    qn_tensor *y = x;
    for (int i = 0; i < b->units; i++) {
        y = run_unit(&b->unit[i], y);
        if (i + 1 < b->units) y = qn_relu(y);
    }
    return qn_relu(qn_add(y, b->projects ? run_unit(&b->downsample, x) : x));
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const config *c = n->config;
    const parts *p = n->parts;
    qn_conv_options pool = QN_CONV_OPTIONS(.stride = {2, 2}, .before = {1, 1}, .after = {1, 1});
    qn_tensor *x = qn_relu(run_unit(&p->stem, in[0]));
    if (!c->small) x = qn_max_pool(x, (int64_t[]){3, 3}, &pool);
    for (int i = 0; i < p->blocks; i++) x = run_block(&p->block[i], x);
    return qn_layer_forward(p->fc, qn_mean_axes(x, 2, (int[]){2, 3}, false));
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    (void)turn;
    return qn_cross_entropy(forward(n, in), in[1]);
}

#define ROW(number, about)                                                                         \
    const model_row model_resnet##number = {                                                       \
        .name = "resnet" #number,                                                                  \
        .help = about,                                                                             \
        .config = sizeof(config),                                                                  \
        .parts = sizeof(parts),                                                                    \
        MODEL_FIELDS(fields),                                                                      \
        MODEL_INPUTS(inputs),                                                                      \
        .data = MODEL_SAMPLES,                                                                     \
        .make = make##number,                                                                      \
        .forward = forward,                                                                        \
        .loss = loss,                                                                              \
    }

ROW(18, "a residual network of 18 layers, for images and their labels");
ROW(50, "a residual network of 50 layers in bottlenecks, for images and their labels");
