/* grad.h - derivatives, graph to graph. */
#ifndef QN_GRAD_H
#define QN_GRAD_H

#include "graph/graph.h"

/* ---- grad.c, rules.c ------------------------------------------------------------------------- */

/* One differentiation under way. Arrays go by a node's place in `order`. */
typedef struct grad {
    graph *g;
    arena *a;
    uint32_t count, born; /* what is older than `born` is no function of an x */
    node_id *order, *sum; /* sum: the gradient gathered so far, 0: none */
    bool *met;            /* lies on a way that gradients take from y */
    bool *wanted;         /* and on one from an x */
    node_id narrow, wide; /* the half whose rule runs, and the f32 node it runs on: grad_apply */
} grad;
/* The rule of a row: pass g, the gradient of n, on to n's sources. */
typedef void grad_rule(grad *c, node_id n, node_id g);
extern grad_rule *const grad_rules[OP_COUNT]; /* NULL: no gradient */
bool grad_wants(const grad *c, node_id n, int source);
void grad_add(grad *c, node_id n, int source, node_id value); /* nothing where not wanted */

#endif
