/* rules.c - when a node about to be made has a simpler equal. */
#include "graph/graph.h"

node_id rules_apply(graph *g, int op, qn_dtype dtype, tuple_id shape, int n, const node_id *src,
                    tuple_id attr, uint64_t bits) {
    (void)g, (void)op, (void)dtype, (void)shape, (void)n, (void)src, (void)attr, (void)bits;
    return 0;
}
