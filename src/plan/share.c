/* share.c - a contraction over the rows of a kernel of blocks: the gradient of queries together
 * with those of keys and of values.
 *
 * Kernels of blocks (attention.c) recompute their scores, each with its own axis as the rows. The
 * gradients of attention need the same matrix dS both ways: its rows times keys are the gradient of
 * queries, its columns times queries that of keys. As two kernels they compute it twice, seven
 * products in all. But where one of them has blocks of columns in tiles, the other's sum can be
 * accumulated from block to block: each row of the one (a key, say) adds its terms to all queries'
 * gradients, whose partial sums are kept in a tile, in the loop around the rows; five products, and
 * still no matrix in memory.
 *
 * The price is that the rows are serial: parallel loops are those around the rows, batches and
 * heads, of which there must be some. */
#include "plan/fuse.h"

/* How one kernel (the other) is merged into another (the target). */
typedef struct sharing {
    const fuse *fu;
    const group *target, *other;
    uint32_t target_number, other_number;
    node_id scores; /* that both use, along the target's rows and along the other's */
    fuse_share s;
    uint8_t row_of[FUSE_MAX_LOOPS]; /* 1 + the target's row for each of the other's loops, 0: own */
    uint64_t around;                /* the target's rows but the one that is summed over */
} sharing;

static int only_bit(uint64_t m) {
    return m && !(m & (m - 1)) ? __builtin_ctzll(m) : -1;
}

/* Which of a kernel's rows the loop is, from 0. */
static int row_number(const group *k, int loop) {
    return loop >= 0 && k->rows >> loop & 1 ? __builtin_popcountll(k->rows & ((1ull << loop) - 1))
                                            : -1;
}

/* The loop of that row. */
static int row_loop(const group *k, int row) {
    uint64_t rows = k->rows;
    while (row--) rows &= rows - 1;
    return __builtin_ctzll(rows);
}

static uint32_t buffered_axes(const group *k, node_id n) {
    return fuse_axes_of(k->buffered_count, k->buffered, n);
}

/* The only contraction behind a kernel's root, with nothing between them that moves rows; 0: there
 * is none, or something else is reduced. *found: how many were met. */
static node_id sum_behind(const fuse *fu, node_id root, node_id n, int *found) {
    const graph_node *x = node_at(fu->g, n);
    int c = op_rows[x->op].class_;
    node_id sum = 0;
    if (node_is_memory(x) || fuse_is_virtual(x) || (n != root && fuse_is_stored(fu->f, n)))
        return 0;
    if (c == CLASS_REDUCE) return ++*found, fuse_has_contraction(fu, x) ? n : 0;
    if (c == CLASS_INDEX) return *found = 2, 0;
    if (c == CLASS_MOVE && x->op != OP_PERMUTE && x->op != OP_RESHAPE) {
        int moved = 0;
        sum_behind(fu, root, x->src[0], &moved);
        if (moved) *found = 2;
        return 0;
    }
    for (int i = 0; i < x->sources && *found < 2; i++) {
        node_id s = sum_behind(fu, root, x->src[i], found);
        if (s) sum = s;
    }
    return sum;
}

/* Map the other's loop to the target's row, or to none. */
static bool pair(sharing *p, uint64_t loop, int row) {
    int l = only_bit(loop);
    if (l < 0 || row < 0 || (p->row_of[l] && p->row_of[l] != row + 1)) return false;
    p->row_of[l] = (uint8_t)(row + 1);
    return true;
}

/* Find the buffered scores behind a view; v, the use of the view, becomes theirs. */
static bool find_buffered(sharing *p, node_id n, use *v) {
    for (; !buffered_axes(p->target, n); n = node_at(p->fu->g, n)->src[0]) {
        const graph_node *x = node_at(p->fu->g, n);
        if (op_rows[x->op].class_ != CLASS_MOVE || node_is_memory(x)) return false;
        use w = *v;
        fuse_move_use(p->fu, x, &w, v);
    }
    p->scores = n;
    return v->exact;
}

/* Both use the same scores; each axis of them is a row of one and a reduction loop of the other, or
 * a row of both. */
static bool pair_loops(sharing *p, const use *mine) {
    const use *its = fuse_use_in(fuse_info(p->fu, p->scores), p->target_number);
    uint32_t axes = buffered_axes(p->target, p->scores);
    if (!its || !axes || its->rank != mine->rank) return false;
    for (int a = 0; a < its->rank; a++) {
        if (axes >> a & 1) {
            if (row_number(p->other, only_bit(mine->mask[a])) < 0) return false;
            continue;
        }
        if (!its->mask[a] && !mine->mask[a]) continue;
        if (!pair(p, mine->mask[a], row_number(p->target, only_bit(its->mask[a])))) return false;
    }
    return true;
}

static sym root_dim(const fuse *fu, const group *k, int loop) {
    int rank;
    const int64_t *dims = graph_tuple_get(fu->g, node_at(fu->g, k->root)->shape, &rank);
    for (int i = 0, l = 0; i < rank; i++)
        if ((sym)dims[i] != SYM_ONE && l++ == loop) return (sym)dims[i];
    return SYM_ONE;
}

/* The axes of what is summed: rows of the target, or the tile's own; one of them is summed over. */
static bool read_axes(sharing *p, const graph_node *x, const use *u) {
    int rank, n;
    double bytes = (double)qn_dtype_size(x->dtype);
    const int64_t *dims = graph_tuple_get(p->fu->g, node_at(p->fu->g, x->src[0])->shape, &rank);
    const int64_t *summed = graph_tuple_get(p->fu->g, x->attr, &n);
    uint64_t rows = 0;
    for (int a = 0, s = 0; a < rank; a++) {
        bool sum = s < n && summed[s] == a;
        s += sum;
        p->s.row[a] = 0;
        if ((sym)dims[a] == SYM_ONE) continue;
        int l = only_bit(u->mask[a]);
        if (l < 0) return false;
        p->s.row[a] = p->row_of[l];
        if (sum && (!p->row_of[l] || p->around)) return false;
        if (!p->row_of[l]) {
            bytes *= fuse_dim_size(p->fu->g, (sym)dims[a]);
            continue;
        }
        int loop = row_loop(p->target, p->row_of[l] - 1);
        if (root_dim(p->fu, p->target, loop) != (sym)dims[a]) return false;
        rows |= 1ull << loop;
        if (!sum) continue;
        p->s.over = p->row_of[l];
        p->around = p->target->rows & ~(1ull << loop);
    }
    return rows == p->target->rows && p->around &&
           bytes <= (double)p->fu->terms.machine->shared_sum_bytes;
}

/* The root's axes: rows of the target, or loops of their own. */
static void read_root(sharing *p) {
    int rank;
    const int64_t *dims =
        graph_tuple_get(p->fu->g, node_at(p->fu->g, p->other->root)->shape, &rank);
    for (int a = 0, l = 0; a < rank; a++)
        p->s.root_row[a] = (sym)dims[a] == SYM_ONE ? 0 : p->row_of[l++];
}

static bool can_share(sharing *p) {
    const fuse *fu = p->fu;
    int found = 0;
    node_id sum = sum_behind(fu, p->other->root, p->other->root, &found);
    if (!sum || found != 1 || p->other->outs != 1) return false;
    const graph_node *x = node_at(fu->g, sum);
    const use *u = &p->other->terms;
    use v[2] = {*u, *u};
    node_id s[2] = {fuse_scores_behind(fu, x->src[0], &v[0]),
                    fuse_scores_behind(fu, x->src[1], &v[1])};
    if (!s[0] == !s[1]) return false;
    p->s.root = p->other->root;
    p->s.sum = sum;
    if (!find_buffered(p, s[0] ? s[0] : s[1], &v[!s[0]]) || !pair_loops(p, &v[!s[0]]) ||
        !read_axes(p, x, u))
        return false;
    read_root(p);
    double workers = fu->terms.workers, least = (double)fu->terms.machine->few_items;
    if (least < workers) least = workers;
    return fuse_trips(p->target, p->around) >= least && fuse_fits_chain(p->target, p->around);
}

void fuse_move_shares(fuse *fu, group *to, const group *from) {
    for (uint32_t i = 0; i < from->shares; i++) {
        uint64_t around = to->rows & ~(1ull << row_loop(to, from->share[i].over - 1));
        to->share = arena_grow(fu->a, to->share, &to->share_cap, to->shares + 1, sizeof *to->share);
        to->share[to->shares++] = from->share[i];
        fuse_add_chain(fu, to, around);
    }
}

void fuse_share_attention(fuse *fu) {
    for (uint32_t i = 0; i < fu->groups; i++)
        for (uint32_t j = 0; fu->group_[i]->rows && j < fu->groups; j++) {
            group *a = fu->group_[i];
            const group *b = fu->group_[j];
            if (i == j || a->gone || b->gone || !b->rows || b->siblings || b->shares) continue;
            if (fuse_too_much(a, b)) continue;
            sharing p = {.fu = fu, .target = a, .other = b, .target_number = i, .other_number = j};
            if (!can_share(&p) || fuse_reaches(fu, i, j) || fuse_reaches(fu, j, i)) continue;
            a->share = arena_grow(fu->a, a->share, &a->share_cap, a->shares + 1, sizeof *a->share);
            a->share[a->shares++] = p.s;
            fuse_add_chain(fu, a, p.around);
            fuse_absorb(fu, i, j);
        }
}
