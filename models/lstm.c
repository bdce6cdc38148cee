/* lstm.c - a language model of an LSTM (Zaremba et al. 2014), with the names of PyTorch's example
 * word_language_model: encoder, rnn and decoder. Every window begins with states of 0. */
#include "models/model.h"

typedef struct config {
    int64_t vocabulary, context, width, hidden, layers;
    double dropout;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(vocabulary, 256, 1, 1 << 24, "different tokens"),
    MODEL_WHOLE(context, 64, 1, 1 << 20, "tokens of a window"),
    MODEL_WHOLE(width, 200, 1, 1 << 16, "numbers a token is made into"),
    MODEL_WHOLE(hidden, 200, 1, 1 << 16, "numbers of a state"),
    MODEL_WHOLE(layers, 2, 1, 64, "LSTMs above each other"),
    MODEL_REAL(dropout, 0.2, 0, 0.95, "what part of the inputs of layers is dropped"),
};

static const model_input inputs[] = {
    {.name = "ids", .whole = true, .shape = "N <context", .below = "vocabulary"},
    {.name = "targets",
     .whole = true,
     .shape = "N <context",
     .below = "vocabulary",
     .learns = true},
};

typedef struct parts {
    qn_layer *encoder, *rnn, *decoder, *drop;
} parts;

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    p->drop = net_dropout(n, c->dropout);
    p->encoder =
        qn_layer_new(n->module, "Embedding", "encoder",
                     &QN_LAYER_OPTIONS(.in = c->vocabulary, .out = c->width, .scale = 0.1));
    p->rnn =
        qn_layer_new(n->module, "LSTM", "rnn",
                     &QN_LAYER_OPTIONS(.in = c->width, .hidden = c->hidden, .layers = c->layers,
                                       .p = c->dropout, .batch_first = true));
    p->decoder = qn_layer_new(n->module, "Linear", "decoder",
                              &QN_LAYER_OPTIONS(.in = c->hidden, .out = c->vocabulary));
    return true;
}

static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const parts *p = n->parts;
    qn_tensor *x = net_drop(p->drop, qn_layer_forward(p->encoder, in[0]));
    x = net_drop(p->drop, qn_layer_forward(p->rnn, x));
    return qn_layer_forward(p->decoder, x);
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    (void)turn;
    return qn_cross_entropy(forward(n, in), in[1]);
}

const model_row model_lstm = {
    .name = "lstm",
    .help = "a language model of LSTMs",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_TOKENS,
    .make = make,
    .forward = forward,
    .loss = loss,
};
