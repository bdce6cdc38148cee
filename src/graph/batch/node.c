/* node.c - a node of a loop's body for all trips at once, or of one example for all of them: one
 * more axis, in front.
 *
 * What needs no state is the same computation in each trip, on other slices. As one node over all
 * of them a product of a slice and a weight is one large product, and the sum over all trips of
 * such products, a weight's gradient, is one contraction. */
#include "graph/graph.h"
#include "graph/loop/loop.h"

bool batch_takes(const graph *g, const graph_node *x) {
    int rank;
    graph_tuple_get(g, x->shape, &rank);
    for (int i = 0; i < x->sources; i++)
        if (node_rank(g, x->src[i]) >= QN_MAX_RANK) return false;
    if (rank >= QN_MAX_RANK) return false;
    switch (op_rows[x->op].class_) {
    case CLASS_ELEM:
    case CLASS_MOVE:
    case CLASS_JOIN:
    case CLASS_REDUCE:
    case CLASS_SCAN:
        return true;
    case CLASS_INDEX:
        return true;
    default:
        return x->op == OP_CONTIGUOUS;
    }
}

static tuple_id shifted(graph *g, tuple_id tuple, int first) {
    int n;
    const int64_t *v = graph_tuple_get(g, tuple, &n);
    int64_t out[3 * QN_MAX_RANK];
    for (int i = 0; i < n; i++) out[i] = v[i] + (i >= first);
    return graph_tuple(g, n, out);
}

/* The attributes of `more` in front of the others. */
static tuple_id behind(graph *g, tuple_id tuple, int more, const int64_t *front, int64_t add) {
    int n;
    const int64_t *v = graph_tuple_get(g, tuple, &n);
    int64_t out[3 * (QN_MAX_RANK + 1)];
    for (int i = 0; i < more; i++) out[i] = front[i];
    for (int i = 0; i < n; i++) out[more + i] = v[i] + add;
    return graph_tuple(g, n + more, out);
}

static tuple_id batch_attr(graph *g, const graph_node *x, sym count) {
    int n;
    const int64_t *v = graph_tuple_get(g, x->attr, &n);
    int64_t out[7];
    switch (x->op) {
    case OP_PERMUTE:
        return behind(g, x->attr, 1, (const int64_t[]){0}, 1);
    case OP_PAD:
        return behind(g, x->attr, 3, (const int64_t[]){SYM_ZERO, SYM_ZERO, 0}, 0);
    case OP_SLICE:
        return behind(g, x->attr, 3, (const int64_t[]){SYM_ZERO, count, 1}, 0);
    case OP_WINDOW:
        for (int i = 0; i < n; i++) out[i] = v[i] + (i < 2);
        return graph_tuple(g, n, out);
    case OP_SCAN: /* monoid, axis, reverse */
        return graph_tuple(g, 3, (const int64_t[]){v[0], v[1] + 1, v[2]});
    case OP_SCATTER:
        return graph_tuple(g, 2, (const int64_t[]){v[0] + 1, v[1]});
    case OP_FLIP:
    case OP_JOIN:
    case OP_GATHER:
        return shifted(g, x->attr, 0);
    default:
        return op_rows[x->op].class_ == CLASS_REDUCE ? shifted(g, x->attr, 0) : x->attr;
    }
}

node_id batch_node(graph *g, const graph_node *x, sym count, const node_id *src) {
    const graph_node n = *x;
    tuple_id shape = stacked_shape(g, count, n.shape), attr = batch_attr(g, &n, count);
    if (n.op == OP_RESHAPE) return make_reshape(g, src[0], shape);
    if (n.op == OP_EXPAND) return make_expand(g, src[0], shape);
    return node_make(g, (node_form){n.op, (qn_dtype)n.dtype, shape, attr, n.bits}, n.sources, src);
}

node_id batch_same(graph *g, node_id x, sym count) {
    const graph_node n = g->node[x];
    tuple_id shape = stacked_shape(g, count, n.shape);
    if (n.op == OP_CONST && !(n.flags & NODE_REALIZED))
        return node_make(g, (node_form){OP_CONST, (qn_dtype)n.dtype, shape, 0, n.bits}, 0, NULL);
    return make_broadcast(g, x, shape);
}

node_id batch_sum(graph *g, const graph_node *x, const node_id *src) {
    const graph_node n = *x;
    uint32_t mask = node_axes(g, (node_id)(x - g->node)) << 1 | 1;
    if (n.op == OP_SUM_PRODUCT)
        return make_sum_product(g, src[0], src[1], n.sources == 3 ? src[2] : 0, mask);
    return make_reduce(g, n.op, src[0], mask);
}
