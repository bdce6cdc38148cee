/* mlp.c - a perceptron of several layers, with the names of torchvision.ops.MLP: a Sequential in
 * which each hidden layer is Linear, ReLU and Dropout, so that the weights are 0, 3, 6 and on. */
#include "models/model.h"

typedef struct config {
    int64_t in, hidden, layers, classes;
    double dropout;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(in, 784, 1, 1 << 24, "numbers of a sample"),
    MODEL_WHOLE(hidden, 256, 1, 1 << 20, "width of the hidden layers"),
    MODEL_WHOLE(layers, 2, 0, 1024, "how many hidden layers"),
    MODEL_WHOLE(classes, 10, 1, 1 << 20, "different labels"),
    MODEL_REAL(dropout, 0, 0, 0.95, "what part of the hidden numbers is dropped"),
};

static const model_input inputs[] = {
    {.name = "images", .shape = "N in"},
    {.name = "labels", .whole = true, .shape = "N", .below = "classes", .learns = true},
};

typedef struct parts {
    qn_layer **linear, *drop; /* linear: config.layers + 1 of them */
} parts;

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    p->linear = net_room(n, c->layers + 1, sizeof *p->linear);
    p->drop = net_dropout(n, c->dropout);
    for (int64_t i = 0; p->linear && i <= c->layers; i++) {
        int64_t in = i ? c->hidden : c->in, out = i < c->layers ? c->hidden : c->classes;
        p->linear[i] = qn_layer_new(n->module, "Linear", net_name(n, "%lld", 3 * (long long)i),
                                    &QN_LAYER_OPTIONS(.in = in, .out = out));
    }
    return p->linear != NULL;
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const config *c = n->config;
    const parts *p = n->parts;
    qn_tensor *x = in[0];
    for (int64_t i = 0; i < c->layers; i++)
        x = net_drop(p->drop, qn_relu(qn_layer_forward(p->linear[i], x)));
    return qn_layer_forward(p->linear[c->layers], x);
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    (void)turn;
    return qn_cross_entropy(forward(n, in), in[1]);
}

const model_row model_mlp = {
    .name = "mlp",
    .help = "a perceptron of several layers, of images or other rows of numbers",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_SAMPLES,
    .make = make,
    .forward = forward,
    .loss = loss,
};
