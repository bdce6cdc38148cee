/* layers.h - what a kind of layer is: a row of rows.h, with a function that makes its tensors and
 * one that records what it does.
 *
 * Both go through the tensors in one order: the first makes them, the second takes them by
 * layer_next. So a kind has no struct of its own, a layer of layers is a function that calls the
 * functions of its parts, and who keeps the tensors, a module or the caller, does not matter. */
#ifndef QN_NN_LAYERS_H
#define QN_NN_LAYERS_H

#include "nn/nn.h"

enum { LAYER_TENSORS = 512, LAYER_RESULTS = 4, LAYER_INPUTS = 7, LAYER_PARTS = 5 };

typedef struct layer layer;
typedef struct layer_row layer_row;

/* A layer while its tensors are made. */
typedef struct making {
    qn_module *m;
    qn_ctx *qn;
    const char *call, *name;
    const layer_row *row;
    const qn_layer_options *o; /* read: 0 is 0 */
    bool bare_bias;            /* biases start at 0 */
    bool fine;                 /* so far */
    int n;
    qn_tensor *tensor[LAYER_TENSORS];
} making;

/* A layer while what it does is recorded. */
typedef struct calling {
    qn_ctx *qn;
    const layer_row *row;
    const qn_layer_options *o;
    const layer *made; /* of layers whose parts are layers */
    qn_tensor *key;    /* for what is drawn, or NULL */
    uint64_t draws;
    bool training;
    int n, at; /* tensors, and those that were taken */
    qn_tensor *const *tensor;
    qn_tensor *in[LAYER_INPUTS];
    qn_tensor *out[LAYER_RESULTS];
    qn_tensor *update[LAYER_TENSORS]; /* new values; NULL: it stays */
} calling;

typedef union layer_function {
    qn_tensor *(*one)(qn_tensor *x);
    qn_tensor *(*number)(qn_tensor *x, double a);
    qn_tensor *(*numbers)(qn_tensor *x, double a, double b);
    qn_tensor *(*axis)(qn_tensor *x, int axis);
} layer_function;

struct layer_row {
    const char *name, *arguments;
    void (*tensors)(making *b); /* NULL: it has none */
    void (*apply)(calling *c);
    layer_function of;
    signed char space, least, most, results;
};

struct layer {
    nn_layer link; /* first: the module frees it */
    qn_module *m;
    const layer_row *row;
    qn_layer_options o;
    qn_conv_options conv;     /* that o.conv points to */
    layer *part[LAYER_PARTS]; /* of the same module */
    int n;
    qn_tensor *tensor[];
};

/* ---- kinds.c ------------------------------------------------------------------------------- */

bool making_begin(making *b, qn_module *m, const char *call, const char *name);
/* A layer of a row; NULL after an error. */
layer *layer_make(making *b, const layer_row *row, const qn_layer_options *o);
qn_layer *layer_known(const layer *l);
const layer_row *layer_row_of(qn_ctx *qn, const char *call, const char *kind);
/* The caller's options with the row's defaults for what is 0; an argument that is lacking is an
 * error. */
bool layer_options_read(qn_ctx *qn, const char *call, const layer_row *row,
                        const qn_layer_options *given, qn_layer_options *o);
/* limits.c: are they within what the kind takes? */
bool layer_options_fine(qn_ctx *qn, const char *call, const layer_row *row,
                        const qn_layer_options *o);
/* A parameter "<name>.<part>" or a buffer; uniform within `scale` or with that deviation. */
void layer_parameter(making *b, const char *part, int rank, const int64_t *shape, qn_init kind,
                     double scale);
void layer_value(making *b, const char *part, qn_tensor *value);
void layer_buffer(making *b, const char *part, qn_dtype dtype, int rank, const int64_t *shape,
                  qn_init kind);
/* The layer's one result of x. */
qn_tensor *layer_apply(const layer *l, qn_tensor *x);
qn_tensor *layer_next(calling *c); /* the next tensor */
/* x, or in training with values dropped. */
qn_tensor *layer_drop(calling *c, qn_tensor *x, double p);
/* Missing ones stay missing; narrow floats become f32, so that a layer of several steps rounds
 * once, to the dtype that this gives: their common one. */
qn_dtype layer_widen(int n, qn_tensor **x);
/* False after an error that names the layer: x has another number of axes. */
bool layer_rank(calling *c, qn_tensor *x, const char *what, int least, int most);

/* ---- plain.c: what others are made of ------------------------------------------------------- */

/* A weight [out, in] and a bias as of Linear. */
void linear_parameters(making *b, const char *weight, const char *bias, int64_t out, int64_t in);
qn_tensor *linear_next(calling *c, qn_tensor *x, bool bias);
void norm_parameters(making *b, const char *weight, const char *bias, int64_t width);
qn_tensor *norm_next(calling *c, qn_tensor *x, double epsilon, bool bias);

/* ---- the functions of rows.h ---------------------------------------------------------------- */

typedef void layer_tensors(making *b);
typedef void layer_applies(calling *c);
layer_tensors linear_tensors, bilinear_tensors, embedding_tensors, conv_tensors,
    conv_transpose_tensors, batch_norm_tensors, group_norm_tensors, layer_norm_tensors,
    rms_norm_tensors, prelu_tensors, recurrent_tensors, cell_tensors, multihead_tensors,
    encoder_tensors, decoder_tensors, gcn_tensors, gat_tensors;
layer_applies apply_linear, apply_bilinear, apply_embedding, apply_identity, apply_flatten,
    apply_conv, apply_conv_transpose, apply_max_pool, apply_avg_pool, apply_norm_pool,
    apply_adaptive_avg, apply_adaptive_max, apply_batch_norm, apply_instance_norm, apply_group_norm,
    apply_layer_norm, apply_rms_norm, apply_dropout, apply_one, apply_gelu, apply_number,
    apply_numbers, apply_axis, apply_prelu, apply_recurrent, apply_cell, apply_multihead,
    apply_encoder, apply_decoder, apply_gcn, apply_gat;
qn_tensor *tanhshrink(qn_tensor *x);
qn_tensor *hardshrink(qn_tensor *x, double lambda);
qn_tensor *softshrink(qn_tensor *x, double lambda);
qn_tensor *threshold(qn_tensor *x, double value, double limit);

#endif
