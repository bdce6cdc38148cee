/* gcn.c - a graph convolutional network (Kipf and Welling 2017) that gives each node a class, with
 * the names of PyTorch Geometric's GCN example: conv1 and conv2.
 *
 * A batch is the whole graph. In training the loss is that of the nodes in train_mask, else of the
 * others; without a mask it is that of all. */
#include "models/model.h"

typedef struct config {
    int64_t features, hidden, classes;
    double dropout;
} config;

static const model_field fields[] = {
    MODEL_WHOLE(features, 1433, 1, 1 << 24, "numbers of a node"),
    MODEL_WHOLE(hidden, 16, 1, 1 << 20, "numbers of a node between the convolutions"),
    MODEL_WHOLE(classes, 7, 1, 1 << 20, "different labels"),
    MODEL_REAL(dropout, 0.5, 0, 0.95, "what part of the inputs of convolutions is dropped"),
};

static const model_input inputs[] = {
    {.name = "x", .shape = "nodes features"},
    {.name = "edge_index", .whole = true, .shape = "2 edges", .below = "nodes"},
    {.name = "y", .whole = true, .shape = "nodes", .below = "classes", .learns = true},
    {.name = "train_mask", .whole = true, .shape = "nodes", .optional = true, .learns = true},
};
enum { X, EDGES, LABELS, MASK, IGNORED = -100 };

typedef struct parts {
    qn_layer *conv1, *conv2, *drop;
} parts;

static bool make(net *n) {
    const config *c = n->config;
    parts *p = n->parts;
    p->drop = net_dropout(n, c->dropout);
    p->conv1 = qn_layer_new(n->module, "GCNConv", "conv1",
                            &QN_LAYER_OPTIONS(.in = c->features, .out = c->hidden));
    p->conv2 = qn_layer_new(n->module, "GCNConv", "conv2",
                            &QN_LAYER_OPTIONS(.in = c->hidden, .out = c->classes));
    return true;
}

static qn_tensor *convolve(const parts *p, const qn_layer *conv, qn_tensor *x, qn_tensor *edges) {
    x = net_drop(p->drop, x);
    if (!x || qn_layer_call(conv, 2, (qn_tensor *[]){x, edges}, 1, &x)) return NULL;
    return x;
}

/* Logits [nodes, classes]. */
static qn_tensor *forward(net *n, qn_tensor *const *in) {
    const parts *p = n->parts;
    qn_tensor *x = qn_relu(convolve(p, p->conv1, in[X], in[EDGES]));
    return convolve(p, p->conv2, x, in[EDGES]);
}

static qn_tensor *loss(net *n, int turn, qn_tensor *const *in) {
    qn_tensor *logits = forward(n, in), *labels = in[LABELS], *mask = in[MASK];
    (void)turn;
    if (!mask) return qn_cross_entropy(logits, labels);
    qn_tensor *trains = qn_ne(mask, qn_like(mask, 0)), *ignored = qn_like(labels, IGNORED);
    labels = n->training ? qn_where(trains, labels, ignored) : qn_where(trains, ignored, labels);
    return qn_cross_entropy_ignoring(logits, labels, IGNORED);
}

const model_row model_gcn = {
    .name = "gcn",
    .help = "a graph convolutional network, for a graph and labels of its nodes",
    .config = sizeof(config),
    .parts = sizeof(parts),
    MODEL_FIELDS(fields),
    MODEL_INPUTS(inputs),
    .data = MODEL_GRAPH,
    .make = make,
    .forward = forward,
    .loss = loss,
};
