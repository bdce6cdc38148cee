/* custom.h - kernels of the user's: how they are declared, compiled and called. */
#ifndef QN_CUSTOM_H
#define QN_CUSTOM_H

#include "func/func.h"
#include "quern_custom.h"

/* ---- source.c -------------------------------------------------------------------------------- */

/* The function called o->name of o->c_source, compiled; its library is the caller's to close.
 * false: reported. Raises. */
bool custom_compile(qn_ctx *qn, qn_custom_options *o, void **library);

#endif
