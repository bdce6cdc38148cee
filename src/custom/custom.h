/* custom.h - kernels of the user's: how they are declared, compiled and called. */
#ifndef QN_CUSTOM_H
#define QN_CUSTOM_H

#include "func/func.h"
#include "quern_custom.h"

/* ---- source.c -------------------------------------------------------------------------------- */

/* The function called o->name of o->c_source, compiled; its library is the caller's to close.
 * false: reported. Raises. */
bool custom_compile(qn_ctx *qn, qn_custom_options *o, custom_code *code);

/* ---- loops.c --------------------------------------------------------------------------------- */

/* The loops o->kernel, checked and compiled: sets the function, and its argument, which `code`
 * closes. false: reported. Raises. */
bool custom_loops(qn_ctx *qn, qn_custom_options *o, custom_code *code);
void custom_run_loops(void *arg, const qn_custom_array *in, const qn_custom_array *out);
/* Are inputs and results of these shapes as the kernel wants them, as far as sizes are numbers
 * now? false: reported. */
bool custom_loops_fit(qn_ctx *qn, const custom_kernel *k, const node_id *src,
                      const tuple_id *shape);

#endif
