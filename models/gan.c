/* gan.c - a generative adversarial network of convolutions (Radford et al. 2016, DCGAN), with the
 * names of PyTorch's example dcgan, those of the two networks apart: "discriminator.main.0.weight",
 * "generator.main.0.weight".
 *
 * A step has two turns. First the discriminator learns to tell images from what the generator
 * makes of noise, then the generator to be taken for images. Images are from 0 to 1; inside they
 * are from -1 to 1. Where no noise is given it is drawn, other in each turn. */
#include "models/model.h"

typedef struct config {
    int64_t channels, image, width, latent;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(channels, 3, 1, 4096, "channels of an image"),
    MODEL_WHOLE(image, 64, 8, 1024, "rows and columns of an image, a power of 2"),
    MODEL_WHOLE(width, 64, 1, 4096, "channels of the largest layers"),
    MODEL_WHOLE(latent, 100, 1, 1 << 16, "numbers of noise that an image is made of"),
};

static const model_input inputs[] = {
    {.name = "images", .shape = "N channels image image", .learns = true},
    {.name = "noise", .shape = "N latent", .optional = true},
};

enum { DISCRIMINATOR, GENERATOR, TURNS, MOST_LEVELS = 9 };

/* A convolution without bias, and the norm behind it, or NULL. */
typedef struct unit {
    qn_tensor *weight;
    qn_layer *norm;
} unit;

typedef struct parts {
    int levels; /* an image is 4 << levels rows */
    unit unit[TURNS][MOST_LEVELS + 1];
} parts;

/* ---- making --------------------------------------------------------------------------------- */

/* Unit `at` of a Sequential, whose norm is behind it where it has one. */
static unit add_unit(net *n, const char *which, int at, const int64_t weight[2], int64_t norm) {
    int64_t shape[4] = {weight[0], weight[1], 4, 4};
    unit u = {NULL, NULL};
    u.weight =
        qn_module_parameter(n->module, net_name(n, "%s.main.%d.weight", which, at), QN_F32, 4,
                            shape, &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 0.02));
    if (norm)
        u.norm = qn_layer_new(n->module, "BatchNorm2d", net_name(n, "%s.main.%d", which, at + 1),
                              &QN_LAYER_OPTIONS(.in = norm));
    return u;
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    while (4 << (p->levels + 1) <= c->image) p->levels++;
    if (4 << p->levels != c->image)
        return net_fail(n, "image is %lld, no power of 2", (long long)c->image);
    int last = p->levels;
    for (int i = 0; i <= last; i++) { /* channels, width, 2 width, .., 1 */
        int64_t in = i ? c->width << (i - 1) : c->channels, out = i < last ? c->width << i : 1;
        p->unit[DISCRIMINATOR][i] = add_unit(n, "discriminator", i ? 3 * i - 1 : 0,
                                             (int64_t[]){out, in}, i && i < last ? out : 0);
    }
    net_next_turn(n);
    for (int i = 0; i <= last; i++) { /* latent, .., 2 width, width, channels */
        int64_t in = i ? c->width << (last - i) : c->latent;
        int64_t out = i < last ? c->width << (last - 1 - i) : c->channels;
        p->unit[GENERATOR][i] =
            add_unit(n, "generator", 3 * i, (int64_t[]){in, out}, i < last ? out : 0);
    }
    return true;
}

/* ---- running -------------------------------------------------------------------------------- */

/* Windows of 4 x 4: by steps of 2 between the ends of the pyramid, one over all at its top. */
static qn_conv_options windows(bool top) {
    int64_t stride = top ? 1 : 2, pad = top ? 0 : 1;
    return QN_CONV_OPTIONS(.stride = {stride, stride}, .before = {pad, pad}, .after = {pad, pad});
}

/* Logits [N] of being an image. */
static qn_tensor *judge(const parts *p, qn_tensor *x) {
    for (int i = 0; i <= p->levels; i++) {
        const unit *u = &p->unit[DISCRIMINATOR][i];
        qn_conv_options o = windows(i == p->levels);
        x = qn_conv2d(x, u->weight, NULL, &o);
        if (u->norm) x = qn_layer_forward(u->norm, x);
        if (i < p->levels) x = qn_leaky_relu(x, 0.2);
    }
    return qn_flatten(x, 0, -1);
}

/* Images of `count` rows of noise, from -1 to 1. */
static qn_tensor *generate(net *n, int64_t count, qn_tensor *noise) {
    const config *c = n->config;
    const parts *p = n->parts;
    if (!noise) noise = qn_randn(net_key(n), QN_F32, 2, (int64_t[]){count, c->latent});
    qn_tensor *x = qn_reshape(noise, 4, (int64_t[]){count, c->latent, 1, 1});
    for (int i = 0; i <= p->levels; i++) {
        const unit *u = &p->unit[GENERATOR][i];
        qn_conv_options o = windows(i == 0);
        x = qn_conv_transpose(x, u->weight, NULL, &o);
        if (u->norm) x = qn_relu(qn_layer_forward(u->norm, x));
    }
    return qn_tanh(x);
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    if (!in[0] && !in[1]) return net_fail(n, "noise is missing, or images for their number"), NULL;
    qn_tensor *x = generate(n, qn_dim(in[in[1] ? 1 : 0], 0), in[1]);
    return qn_mul(qn_add(x, qn_weak(x, 1)), qn_weak(x, 0.5));
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    const parts *p = n->parts;
    qn_tensor *made = generate(n, qn_dim(in[0], 0), in[1]);
    if (turn == GENERATOR) {
        qn_tensor *taken = judge(p, made);
        return qn_bce_with_logits(taken, qn_ones_like(taken));
    }
    qn_tensor *given = qn_sub(qn_mul(in[0], qn_weak(in[0], 2)), qn_weak(in[0], 1));
    qn_tensor *real = judge(p, given), *fake = judge(p, qn_detach(made));
    return qn_add(qn_bce_with_logits(real, qn_ones_like(real)),
                  qn_bce_with_logits(fake, qn_zeros_like(fake)));
}

const model_row model_gan = {
    .name = "gan",
    .help = "a generative adversarial network of convolutions, of images from 0 to 1",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_SAMPLES,
    .turns = TURNS,
    .make = make,
    .forward = forward,
    .loss = loss,
};
