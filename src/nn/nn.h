/* nn.h - neural networks over the public tensor functions: modules, layers, optimizers, data.
 *
 * Nothing here knows nodes, plans or kernels. A layer is an object of its module: tensors that are
 * parameters and a function that records what it does to an input; making the result fast is the
 * compiler's affair. The public calls are in quern_nn.h. */
#ifndef QN_NN_H
#define QN_NN_H

#include "base/base.h"
#include "quern_nn.h"

/* ---- module.c -------------------------------------------------------------------------------- */

enum { NN_NAME_MOST = 128 }; /* bytes of a parameter's name with its end */

/* "<name>.<part>" into out; false and an error when it is too long. */
bool nn_name(qn_module *m, char out[NN_NAME_MOST], const char *name, const char *part);
qn_ctx *nn_context(const qn_module *m);
bool nn_training(const qn_module *m);
/* The key of a draw; the module's own is another one from then on. NULL after an error. */
qn_tensor *nn_draw(qn_module *m);
/* How a layer begins, by which its module frees it. nn_layer_keep gives its public name; NULL: not
 * taken. */
typedef struct nn_layer {
    struct nn_layer *next;
    size_t size;
    qn_layer *name;
} nn_layer;
qn_layer *nn_layer_keep(qn_module *m, nn_layer *l);

/* A tensor of one value with memory of its own. A lazy constant would do for the value, but then
 * the first step's graph would differ from all others and be planned apart. */
qn_tensor *nn_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value);

#endif
