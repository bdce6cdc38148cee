/* vae.c - a variational autoencoder (Kingma and Welling 2014) of numbers from 0 to 1, with the
 * names of PyTorch's example vae: fc1 to fc4.
 *
 * The loss of a sample is the cross-entropy of its numbers, as it is made again, and the divergence
 * of the code's distribution from a normal one; the example sums both over the batch, here they
 * are its mean. Where no noise is given it is drawn, another in each step. */
#include "models/model.h"

typedef struct config {
    int64_t in, hidden, latent;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(in, 784, 1, 1 << 24, "numbers of a sample"),
    MODEL_WHOLE(hidden, 400, 1, 1 << 20, "width of the hidden layers"),
    MODEL_WHOLE(latent, 20, 1, 1 << 16, "numbers of a code"),
};

static const model_input inputs[] = {
    {.name = "images", .shape = "N in"},
    {.name = "noise", .shape = "N latent", .optional = true},
};

typedef struct parts {
    qn_layer *fc1, *fc21, *fc22, *fc3, *fc4;
} parts;

static qn_layer *add_linear(net *n, const char *name, int64_t in, int64_t out) {
    return qn_layer_new(n->module, "Linear", name, &QN_LAYER_OPTIONS(.in = in, .out = out));
}

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    p->fc1 = add_linear(n, "fc1", c->in, c->hidden);
    p->fc21 = add_linear(n, "fc21", c->hidden, c->latent);
    p->fc22 = add_linear(n, "fc22", c->hidden, c->latent);
    p->fc3 = add_linear(n, "fc3", c->latent, c->hidden);
    p->fc4 = add_linear(n, "fc4", c->hidden, c->in);
    return true;
}

/* Of each number of a code, the mean and the logarithm of the variance. */
typedef struct code {
    qn_tensor *mean, *log_variance;
} code;

static code encode(const parts *p, qn_tensor *x) {
    x = qn_relu(qn_layer_forward(p->fc1, x));
    return (code){qn_layer_forward(p->fc21, x), qn_layer_forward(p->fc22, x)};
}

static qn_tensor *draw(net *n, code of, qn_tensor *noise) {
    const config *c = n->config;
    if (!of.mean) return NULL;
    int64_t shape[2] = {qn_dim(of.mean, 0), c->latent};
    if (!noise) noise = qn_randn(net_key(n), QN_F32, 2, shape);
    qn_tensor *deviation = qn_exp(qn_mul(of.log_variance, qn_weak(of.log_variance, 0.5)));
    return qn_add(of.mean, qn_mul(noise, deviation));
}

/* Before the sigmoid. */
static qn_tensor *decode(const parts *p, qn_tensor *z) {
    return qn_layer_forward(p->fc4, qn_relu(qn_layer_forward(p->fc3, z)));
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const parts *p = n->parts;
    return qn_sigmoid(decode(p, draw(n, encode(p, in[0]), in[1])));
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    const config *c = n->config;
    const parts *p = n->parts;
    code of = encode(p, in[0]);
    qn_tensor *again = qn_bce_with_logits(decode(p, draw(n, of, in[1])), in[0]);
    qn_tensor *v = of.log_variance, *more = qn_add(qn_square(of.mean), qn_exp(v));
    qn_tensor *each = qn_sub(qn_sub(more, v), qn_weak(v, 1)); /* twice the divergence */
    qn_tensor *apart = qn_mean(qn_sum(each, 1, false), QN_ALL, false);
    (void)turn;
    return qn_add(qn_mul(again, qn_weak(again, (double)c->in)), qn_mul(apart, qn_weak(apart, 0.5)));
}

const model_row model_vae = {
    .name = "vae",
    .help = "a variational autoencoder, of images from 0 to 1",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_SAMPLES,
    .make = make,
    .forward = forward,
    .loss = loss,
};
