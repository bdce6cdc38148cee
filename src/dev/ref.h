/* ref.h - what the files of the oracle share. */
#ifndef QN_DEV_REF_H
#define QN_DEV_REF_H

#include "dev/dev.h"
#include "graph/graph.h"

/* ---- ref.c ----------------------------------------------------------------------------------- */

void ref_load(qn_dtype dtype, const void *p, int64_t n, const int64_t *at, scalar *out);
/* Rounds or wraps to the dtype; the elements lie next to each other from `at` on. */
void ref_store(const dev_array *a, int64_t at, int64_t n, const scalar *v);

/* ---- ref_scan.c ------------------------------------------------------------------------------ */

/* A state of several components, values in double. */
typedef struct monoid_state {
    int monoid;
    qn_dtype dtype[MONOID_STATES];
    scalar part[MONOID_STATES];
} monoid_state;
monoid_state ref_state_of(int by, qn_dtype in);
/* One more element, of one or two operands, at that index. */
void ref_step_state(monoid_state *t, scalar x, scalar y, int64_t index);
scalar ref_result_of(const monoid_state *t, qn_dtype to);
void ref_eval_scan(const dev_node *node);

#endif
