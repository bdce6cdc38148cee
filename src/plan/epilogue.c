/* epilogue.c - what a contraction behind which elementwise work is done costs by the order in which
 * its results come.
 *
 * A kernel that sums a product goes by the order that suits the sum. The results of a matrix
 * product come by rows, whichever operand is turned. But where the axis that lies contiguous in
 * memory is a window's, as the places of a weight's gradient are and positions along a row of an
 * image, vectors go along another axis, the channels, and each lane of a result is stored for
 * itself, far from the next. One such stream is hidden behind the sum. An optimizer has four or six
 * of them, on other pages each: of weights of 512 x 512 x 3 x 3 with momentum they took as long as
 * the sum. Then the result is stored, and a kernel that walks memory in its order does the rest. */
#include "plan/fuse.h"

enum { NODES = 4 * FUSE_MAX_EPILOGUE };

static bool moves(const fuse *fu, node_id n) {
    return op_rows[node_at(fu->g, n)->op].class_ == CLASS_MOVE;
}

/* Does a factor's index on an axis of a window come from one of these loops? */
static bool is_windowed(const fuse *fu, node_id factor, const use *u, uint64_t loops) {
    use at = *u, v;
    for (node_id n = factor; !node_is_memory(node_at(fu->g, n)) && moves(fu, n);) {
        const graph_node *x = node_at(fu->g, n);
        int rank;
        const int64_t *attr = graph_tuple_get(fu->g, x->attr, &rank);
        if (x->op == OP_WINDOW && (at.mask[attr[0]] | at.mask[attr[1]]) & loops) return true;
        fuse_move_use(fu, x, &at, &v);
        at = v;
        n = x->src[0];
    }
    return false;
}

/* Do the contraction's vectors go along another axis than the one that lies contiguous? */
static bool goes_by_lanes(const fuse *fu, const graph_node *x, const use *u) {
    const group *k = fu->group_[u->group];
    if (!k->root_loops) return false;
    use v = {.group = u->group};
    int rank, reduced, kept = 0;
    const int64_t *axes = graph_tuple_get(fu->g, x->attr, &reduced);
    uint32_t sums = 0;
    for (int i = 0; i < reduced; i++) sums |= 1u << axes[i];
    graph_tuple_get(fu->g, node_at(fu->g, x->src[0])->shape, &rank);
    v.rank = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        if (!(sums >> i & 1)) v.mask[i] = u->mask[kept++];
    uint64_t last = 1ull << (k->root_loops - 1);
    return is_windowed(fu, x->src[0], &v, last) || is_windowed(fu, x->src[1], &v, last);
}

/* Values of at least `least` elements that a kernel loads for what it does behind a reduction. */
static int streams_in(const fuse *fu, const group *k, double least) {
    node_id node[NODES];
    int n = 0, streams = 0;
    for (uint32_t i = 0; i < k->outs && n < NODES; i++) node[n++] = k->out[i];
    for (int i = 0; i < n; i++) {
        const graph_node *x = node_at(fu->g, node[i]);
        uint32_t place = fu->f->pos[node[i]] - 1;
        bool output = i < (int)k->outs, reduces = op_rows[x->op].class_ == CLASS_REDUCE;
        if (fuse_is_virtual(x) || (reduces && !fu->f->stored[place])) continue;
        if (!output && (node_is_memory(x) || fu->f->stored[place])) {
            streams += fuse_size(fu, node[i]) >= least;
            continue;
        }
        for (int s = 0; s < x->sources; s++) {
            if (lift_operand(fu->f->lift, place, s) != LIFT_NONE) continue;
            int j = 0;
            while (j < n && node[j] != x->src[s]) j++;
            if (j == n && n < NODES) node[n++] = x->src[s];
        }
    }
    return streams;
}

bool fuse_scatters(const fuse *fu, const graph_node *x, const use *u) {
    if (!goes_by_lanes(fu, x, u)) return false;
    const group *k = fu->group_[u->group];
    double size = fuse_trips(k, fuse_root_set(k));
    double streams = streams_in(fu, k, 0.75 * size) + (double)k->outs;
    const machine *l = fu->terms.machine;
    return (streams - 1) * size * (double)l->lane_cost >
           size * (double)l->store_load_cost + (double)l->kernel_cost;
}
