/* few_rows.c - products of few rows: may what is made of one operand be made in the product?
 *
 *   y[i, j] = sum over k of x[i, k] w[j, k],   w made by element, as weights of blocks and scales
 *
 * As the loops stand, w is made anew for each row i. But lanes go along the sum where rows are few
 * and both operands lie along it (schedule/grouping.c), and then a vector of w is made once for all
 * rows, in registers. So making w there costs what making it once does, and storing it costs more.
 *
 * What is asked here is what the scheduler asks of the loops. To say yes where it says no would
 * make w once a row; so whatever is not plain is refused: rows and columns of one loop each, a sum
 * of one loop, windows, memory that is strided along the sum, long tables. */
#include "plan/fuse.h"

enum {
    BLOCK = 4, /* vectors that share a scale: see contraction_few_rows */
    SEEN = 512 /* nodes that w is made of, which are looked at; shared ones again */
};

static bool is_constant(const fuse *fu, node_id n) {
    graph *g = fu->g;
    return sym_is_const(g->syms, shape_numel(g, node_at(g, n)->shape), NULL);
}

static bool is_one(uint64_t loops) {
    return loops && !(loops & (loops - 1));
}

/* Those of the loops that have several iterations. */
static uint64_t several(const group *k, uint64_t loops) {
    uint64_t more = 0;
    for (; loops; loops &= loops - 1) {
        int i = __builtin_ctzll(loops);
        if (k->loop[i].extent > 1) more |= 1ull << i;
    }
    return more;
}

/* Does an axis go by rows of w and along the sum in one, as that of a window does? */
static bool mixes(const use *u, uint64_t sum) {
    for (int a = 0; a < u->rank; a++)
        if ((u->mask[a] & sum) && (u->mask[a] & ~sum)) return true;
    return false;
}

/* Is n, in memory, contiguous along the sum's loop? Or do several terms share an element of it? */
static bool is_contiguous(const fuse *fu, node_id n, const use *u, uint64_t sum) {
    int rank;
    const int64_t *d = graph_tuple_get(fu->g, node_at(fu->g, n)->shape, &rank);
    const group *k = fu->group_[u->group];
    double lanes = (double)(fu->terms.machine->vector_bytes / (int64_t)sizeof(float)), size = 1;
    bool last = true;
    for (int a = u->rank - 1; a >= 0; a--) {
        double dim = fuse_dim_size(fu->g, (sym)d[a]);
        if (dim <= 1) continue;
        if (last && (u->mask[a] & sum)) return true;
        last = false;
        if (u->mask[a] & sum) size *= dim;
    }
    return size * lanes <= k->loop[__builtin_ctzll(sum)].extent;
}

static bool is_table(const fuse *fu, node_id n) {
    double bytes = fuse_size(fu, n) * (double)qn_dtype_size(node_at(fu->g, n)->dtype);
    return bytes <= (double)machine_table(fu->terms.machine);
}

/* Does all that n is made of lie along the sum? */
static bool lies_along(const fuse *fu, node_id n, const use *u, uint64_t sum, int *left) {
    const graph_node *x = node_at(fu->g, n);
    if (--*left < 0) return false;
    if (fuse_is_virtual(x)) return true;
    int c = node_is_memory(x) ? CLASS_CALL : op_rows[x->op].class_;
    if (c == CLASS_MOVE) {
        use v;
        if (x->op == OP_WINDOW) return false;
        fuse_move_use(fu, x, u, &v);
        return lies_along(fu, x->src[0], &v, sum, left);
    }
    if (c == CLASS_INDEX && x->op != OP_SCATTER)
        return is_table(fu, x->src[0]) && lies_along(fu, x->src[1], u, sum, left);
    if (c != CLASS_ELEM) return is_contiguous(fu, n, u, sum);
    for (int s = 0; s < x->sources; s++)
        if (!lies_along(fu, x->src[s], u, sum, left)) return false;
    return true;
}

double fuse_shared_by_rows(const fuse *fu, node_id n, const use *u) {
    const group *k = fu->group_[u->group];
    const machine *l = fu->terms.machine;
    const graph_node *x = node_at(fu->g, n);
    int c = op_rows[x->op].class_;
    if (!k->has_contraction || k->rows || k->reduces != 1 || !k->root_loops || l->members > 1)
        return 0;
    if ((c != CLASS_ELEM && c != CLASS_INDEX) || u->around) return 0;
    uint64_t m = several(k, fuse_mask(u)), root = fuse_root_set(k), column = m & root,
             sum = m & ~root;
    if (column != 1ull << (k->root_loops - 1) || !is_one(sum)) return 0;
    uint64_t rows = several(k, root) & ~column;
    if ((rows && !is_one(rows)) || !is_constant(fu, n) || !is_constant(fu, k->root)) return 0;
    double lanes = (double)(l->vector_bytes / (int64_t)sizeof(float));
    double deep = k->loop[__builtin_ctzll(sum)].extent;
    double made = deep * k->loop[k->root_loops - 1].extent, at_once = fuse_trips(k, rows);
    if (at_once > (double)machine_made_rows(l) || at_once * k->epilogue > deep) return 0;
    if (deep < lanes * lanes || (int64_t)deep % (int64_t)lanes) return 0;
    if (!u->exact && mixes(u, sum)) return 0;
    int left = SEEN;
    if (!lies_along(fu, n, u, sum, &left)) return 0;
    /* a block's scale is a scalar, and made once for the vectors of the block */
    return fuse_size(fu, n) * lanes <= made ? made / BLOCK : made;
}
