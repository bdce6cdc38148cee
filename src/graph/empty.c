/* empty.c - a node without elements, or over a source without elements, is a constant.
 *
 * So no later stage meets a loop that is known to run no trip. That is more than tidiness: the
 * variable of such a loop has no value, expressions over it fold as if it were constant, and what
 * is hoisted out of the loop would touch memory that is not there. Sizes that are empty only for
 * some values of a dimension variable stay variable and keep their loops. */
#include "graph/graph.h"

static bool is_empty(const graph *g, tuple_id shape) {
    int rank;
    const int64_t *dim = graph_tuple_get(g, shape, &rank);
    for (int i = 0; i < rank; i++)
        if (dim[i] == SYM_ZERO) return true;
    return false;
}

static bool source_is_empty(const graph *g, node_id x) {
    return is_empty(g, g->node[x].shape);
}

static node_id constant(graph *g, qn_dtype dtype, tuple_id shape, uint64_t bits) {
    return node_make(g, OP_CONST, dtype, shape, 0, NULL, 0, bits);
}

node_id empty_apply(graph *g, int op, qn_dtype dtype, tuple_id shape, int n, const node_id *src) {
    if (op == OP_CONST || op == OP_BUFFER) return 0;
    if (is_empty(g, shape)) return constant(g, dtype, shape, 0);
    if (!n) return 0;
    if (op == OP_SCATTER) return source_is_empty(g, src[1]) ? src[0] : 0;
    if (!source_is_empty(g, src[0])) return 0;
    if (op == OP_PAD || op == OP_GATHER) return constant(g, dtype, shape, 0);
    if (op_rows[op].class_ != CLASS_REDUCE || op_rows[op].types == TYPES_TO) return 0;
    scalar identity = scalar_identity(monoid_of_reduction(op), dtype);
    return constant(g, dtype, shape, scalar_bits(dtype, identity));
}
