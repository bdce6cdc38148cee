/* move.c - movements of complex tensors that lie in memory, as movements of their pairs.
 *
 * A view of a variable can be written through, one that is joined of two views cannot. So the
 * function that moves is called once, with a stand-in of one part's shape that no rule looks
 * behind; what it made of that, reshapes, permutations, slices, is made again of the pairs, whose
 * last axis stays where it is.
 *
 *     (x) -> slice -> permute        (pairs) -> slice, all of the last -> permute, the last last
 *
 * Pairs that are joined of parts by computing have no memory, and what follows sees through the
 * join when the parts are moved; those are left to turns (record/parts.c), and so is what is no
 * chain of movements. */
#include "complex/complex.h"
#include "graph/view/view.h"

#include <string.h>

typedef struct moving {
    qn_ctx *qn;
    node_id pairs, stand_in, moved, made;
} moving;

static bool is_movement(const graph *g, node_id n) {
    return op_rows[node_at(g, n)->op].class_ == CLASS_MOVE;
}

bool complex_is_joined(const qn_tensor *z) {
    const graph *g = tensor_ctx(z)->graph;
    node_id n = tensor_pairs(tensor_at(z))->node;
    while (is_movement(g, n)) n = node_at(g, n)->src[0];
    return node_at(g, n)->op == OP_JOIN && !node_is_memory(node_at(g, n));
}

static void stand_in_work(void *arg) {
    moving *m = arg;
    m->made = node_version(m->qn->graph, m->stand_in);
}

qn_tensor *complex_stand_in(const qn_tensor *z) {
    qn_tensor *re = complex_parts(z).re;
    if (!re) return NULL;
    moving m = {.qn = tensor_ctx(re), .stand_in = tensor_at(re)->node};
    return guarded(m.qn, stand_in_work, &m) ? NULL : tensor_new(m.qn, m.made);
}

/* The shape with the axis of pairs behind; false: that is an axis too many. */
static bool shape_of_pairs(graph *g, tuple_id shape, tuple_id *out) {
    int rank;
    int64_t dims[QN_MAX_RANK];
    const int64_t *given = graph_tuple_get(g, shape, &rank);
    if (rank >= QN_MAX_RANK) return false;
    memcpy(dims, given, (size_t)rank * sizeof *dims);
    dims[rank] = (int64_t)sym_const(g->syms, 2);
    *out = graph_tuple(g, rank + 1, dims);
    return true;
}

/* Movement n of another source, with one axis more; 0: there is none. */
static node_id moved_again(graph *g, node_id n, node_id src) {
    const graph_node x = *node_at(g, n);
    int count, rank = node_rank(g, x.src[0]), axes[QN_MAX_RANK];
    int64_t p[3 * QN_MAX_RANK];
    tuple_id shape;
    const int64_t *attr = graph_tuple_get(g, x.attr, &count);
    if (!shape_of_pairs(g, x.shape, &shape)) return 0;
    switch (x.op) {
    case OP_RESHAPE:
        return make_reshape(g, src, shape);
    case OP_EXPAND:
        return make_expand(g, src, shape);
    case OP_FLIP:
        return make_flip(g, src, node_axes(g, n));
    case OP_PERMUTE:
        for (int i = 0; i < rank; i++) axes[i] = (int)attr[i];
        axes[rank] = rank;
        return make_permute(g, src, axes);
    case OP_SLICE:
        memcpy(p, attr, 3 * (size_t)rank * sizeof *p);
        p[3 * rank] = SYM_ZERO, p[3 * rank + 1] = (int64_t)sym_const(g->syms, 2);
        p[3 * rank + 2] = 1;
        return make_slice(g, src, p);
    default:
        return 0;
    }
}

/* As deep as the chain is long: a function's own movements. */
static node_id follow(const moving *m, node_id n) {
    if (n == m->stand_in) return m->pairs;
    if (!is_movement(m->qn->graph, n)) return 0;
    node_id src = follow(m, node_at(m->qn->graph, n)->src[0]);
    return src ? moved_again(m->qn->graph, n, src) : 0;
}

static void move_work(void *arg) {
    moving *m = arg;
    m->made = follow(m, m->moved);
}

qn_tensor *complex_moved(const qn_tensor *z, const qn_tensor *stand_in, const qn_tensor *moved) {
    moving m = {.qn = tensor_ctx(z), .pairs = tensor_pairs(tensor_at(z))->node};
    m.stand_in = tensor_at(stand_in)->node;
    m.moved = tensor_at(moved)->node;
    if (guarded(m.qn, move_work, &m) || !m.made) return NULL;
    qn_tensor *made = tensor_new(m.qn, m.made);
    if (made) view_made_of(tensor_at(made), tensor_pairs(tensor_at(z)));
    return made;
}
