/* nn.h - neural networks over the public tensor functions: modules, layers, optimizers, data.
 *
 * Nothing here knows nodes, plans or kernels. A layer is a plain struct of tensors that its module
 * owns and a function that records what it does to an input; making the result fast is the
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

/* A tensor of one value with memory of its own. A lazy constant would do for the value, but then
 * the first step's graph would differ from all others and be planned apart. */
qn_tensor *nn_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value);

#endif
