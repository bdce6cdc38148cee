/* attention.c - fusion of attention and its gradients into kernels over blocks of rows, so that the
 * score matrix is never stored.
 *
 * Scores are a contraction that is large beside its operands (queries by keys), and whatever is
 * computed from them elementwise. Storing them would take the memory that attention is known for.
 * But where a second contraction sums over them, each of its rows needs one row of scores only: the
 * kernel of that contraction may compute, for a block of rows at a time, the scores in a tile,
 * statistics of the rows (maximum, sum) in registers, and then its own sum. Those kernels
 * (group.rows) may reduce beside their contraction, which no other may:
 *
 *   - scores, in loops over a row's keys, buffered in a tile where they are used twice,
 *   - statistics of rows.
 *
 * Several kernels may use the same scores, as the gradients do; then each recomputes them, with its
 * own axis as the rows. That costs products again, and never memory. Kernels with the same rows are
 * merged (sibling.c).
 *
 * Two products of which one takes the other's rows by element, as in a perceptron of two layers,
 * have such scores, too, but no statistics of them, and storing them may cost less: the products'
 * widths decide (docs/decisions/008-product-pairs.md).
 *
 * fuse.c walks from consumers to producers. Statistics of scores are decided as late as possible,
 * so that the contraction that makes a kernel one of blocks comes first. */
#include "plan/fuse.h"

/* A contraction counts as scores if it is as large as its operands, but for what rounding does to
 * sizes in floats; less is asked in a batch (machine's batch_scores), where each item has operands
 * of its own: layers' weights are shared. */
static const double least_ratio = 0.999;

/* Fewer scores may be stored for their gradients, which then need not compute them again. */
static bool may_be_stored(const fuse *fu, node_id scores) {
    double bytes = fuse_size(fu, scores) * (double)qn_dtype_size(node_at(fu->g, scores)->dtype);
    return bytes <= (double)fu->terms.machine->score_bytes;
}

/* Bytes of a row of n's values, in a tile. */
static bool row_fits(const fuse *fu, node_id n, uint32_t axes) {
    double bytes = (double)qn_dtype_size(node_at(fu->g, n)->dtype);
    /* groups keep whole rows in tiles; a processor goes by slices of any row
     * (schedule/attention/attention.c) */
    return axes && (fu->terms.workers || fuse_tile_size(fu, n, axes) * bytes <=
                                             (double)fu->terms.machine->row_tile_bytes);
}

/* The size of the smallest tensor that a factor's elements come from. */
static double factor_size(const fuse *fu, node_id n) {
    double least = fuse_size(fu, n);
    for (const graph_node *x = node_at(fu->g, n); op_rows[x->op].class_ == CLASS_MOVE;) {
        if (node_is_memory(x)) break;
        if (fuse_size(fu, x->src[0]) < least) least = fuse_size(fu, x->src[0]);
        x = node_at(fu->g, x->src[0]);
    }
    return least;
}

node_id fuse_scores_behind(const fuse *fu, node_id factor, use *v) {
    for (node_id n = factor;; n = node_at(fu->g, n)->src[0]) {
        const graph_node *x = node_at(fu->g, n);
        if (fuse_info(fu, n)->scores > 0) return !v || v->exact ? n : 0;
        if (node_is_memory(x)) return 0;
        bool moves = op_rows[x->op].class_ == CLASS_MOVE;
        if (!moves && x->op != OP_CAST) return 0;
        if (!moves || !v) continue;
        use w = *v;
        fuse_move_use(fu, x, &w, v);
    }
}

/* A sum over scores is no scores itself. */
static double scores_of(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    double most = 0, size = fuse_size(fu, n);
    if (node_is_memory(x)) return 0;
    if (op_rows[x->op].class_ == CLASS_REDUCE) {
        if (!fuse_has_contraction(fu, x)) return 0;
        for (int i = 0; i < 2; i++)
            if (fuse_scores_behind(fu, x->src[i], NULL)) return 0;
        double a = factor_size(fu, x->src[0]), b = factor_size(fu, x->src[1]), depth;
        depth = fuse_reduced_size(fu, x);
        bool batch = a * b > 1.5 * size * depth * depth;
        double least = batch ? (double)fu->terms.machine->batch_scores / 100 : least_ratio;
        return size >= least * (a + b) ? size / (a + b + 1) : 0;
    }
    bool passes = op_rows[x->op].class_ == CLASS_ELEM || x->op == OP_RESHAPE ||
                  x->op == OP_PERMUTE || op_is_view_mark(x->op);
    for (int i = 0; passes && i < x->sources; i++) {
        double ratio = fuse_info(fu, x->src[i])->scores;
        if (fuse_size(fu, x->src[i]) == size && ratio > most) most = ratio;
    }
    return most;
}

/* Operations on indices only: recomputing them is cheaper than loading, wherever they are used. */
static uint8_t index_ops_of(const fuse *fu, const graph_node *x) {
    if (node_is_memory(x)) return 0;
    if (fuse_is_virtual(x)) return 1;
    int c = op_rows[x->op].class_, n = c == CLASS_ELEM;
    if ((c != CLASS_ELEM && c != CLASS_MOVE) || x->op == OP_PAD || dtype_is_float(x->dtype))
        return 0;
    for (int i = 0; i < x->sources; i++) {
        int ops = fuse_info(fu, x->src[i])->index_ops;
        if (!ops || fuse_op_cost(x) > 1) return 0;
        n += ops;
    }
    return n <= FUSE_MAX_INDEX_OPS ? (uint8_t)n : 0;
}

void fuse_mark_scores(fuse *fu) {
    for (uint32_t i = 0; i < fu->f->nodes; i++) {
        node_id n = fu->f->order[i];
        fu->node[i].scores = scores_of(fu, n);
        fu->node[i].index_ops = index_ops_of(fu, node_at(fu->g, n));
    }
}

/* A reduction of scores to a statistic of each row. */
bool fuse_is_statistic(const fuse *fu, const graph_node *x) {
    if (op_rows[x->op].class_ != CLASS_REDUCE || node_is_memory(x) || fuse_has_contraction(fu, x))
        return false;
    bool scores = false;
    for (int i = 0; i < x->sources; i++) scores |= fuse_info(fu, x->src[i])->scores > 0;
    return scores;
}

/* May a block's kernel compute reduction x under loops m: a product of a row's own tile, or a
 * statistic of rows? */
bool fuse_attention_takes(const fuse *fu, const graph_node *x, uint32_t number, uint64_t m) {
    const group *k = fu->group_[number];
    if ((m & fuse_root_set(k)) != k->rows) return false;
    if (fuse_has_contraction(fu, x))
        return m != k->rows && fuse_info(fu, (node_id)(x - fu->g->node))->scores > 0;
    return m == k->rows && fuse_is_statistic(fu, x);
}

/* What is behind views and conversions. */
static const graph_node *behind_views(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    while (!node_is_memory(x) && (op_rows[x->op].class_ == CLASS_MOVE || x->op == OP_CAST))
        x = node_at(fu->g, x->src[0]);
    return x;
}

bool fuse_weighs_rows(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    bool weighted = false, statistic = false;
    if (node_is_memory(x) || op_rows[x->op].class_ != CLASS_ELEM) return false;
    for (int i = 0; i < x->sources; i++) {
        const graph_node *s = behind_views(fu, x->src[i]);
        statistic |= !node_is_memory(s) && fuse_is_statistic(fu, s);
        if (node_is_memory(s) || !fuse_has_contraction(fu, s)) continue;
        for (int j = 0; j < 2; j++) {
            node_id scores = fuse_scores_behind(fu, s->src[j], NULL);
            weighted |= scores && !may_be_stored(fu, scores);
        }
    }
    return weighted && statistic;
}

enum { MOST_BEHIND = 32 };

/* What scores are made of by element. */
typedef struct behind {
    node_id node[MOST_BEHIND];
    int count;
} behind;

static bool add_behind(behind *b, node_id n) {
    for (int i = 0; i < b->count; i++)
        if (b->node[i] == n) return true;
    if (b->count == MOST_BEHIND) return false;
    b->node[b->count++] = n;
    return true;
}

/* Does n repeat along that axis what has one element there, as a statistic of a row does, or what
 * is computed here? A bias is memory that is repeated along the rows. */
static bool is_of_row(const fuse *fu, node_id n, int axis) {
    const graph_node *x = node_at(fu->g, n);
    int rank;
    if (node_is_memory(x) || x->op != OP_EXPAND) return false;
    return !node_is_memory(behind_views(fu, n)) ||
           (sym)node_dims(fu->g, x->src[0], &rank)[axis] == SYM_ONE;
}

/* Terms of all products that an element of scores n is made of, where it is made of nothing else of
 * its row, which goes along the axis; 0: it is weighed or moved. */
static double plain_depth(const fuse *fu, node_id n, int axis) {
    behind b = {.node = {n}, .count = 1};
    double depth = 0;
    for (int i = 0; i < b.count; i++) {
        const graph_node *x = node_at(fu->g, b.node[i]);
        bool passes = op_rows[x->op].class_ == CLASS_ELEM || op_is_view_mark(x->op);
        if (!passes && !fuse_has_contraction(fu, x)) return 0;
        if (!passes) depth += fuse_reduced_size(fu, x);
        for (int s = 0; passes && s < x->sources; s++) {
            bool scores = fuse_info(fu, x->src[s])->scores > 0;
            if (scores ? !add_behind(&b, x->src[s]) : is_of_row(fu, x->src[s], axis)) return 0;
        }
    }
    return depth;
}

/* Is it better to store scores s, used by u, and to have a kernel for each product? `width`: how
 * many sums take an element. */
static bool is_stored_pair(const fuse *fu, node_id s, const use *u, double width) {
    uint64_t roots = fuse_root_set(fu->group_[u->group]);
    int axis = -1;
    use v = *u, w;
    for (; op_rows[node_at(fu->g, s)->op].class_ == CLASS_MOVE; v = w) {
        const graph_node *x = node_at(fu->g, s);
        if (fuse_info(fu, s)->consumers > 1) return false;
        fuse_move_use(fu, x, &v, &w);
        s = x->src[0];
    }
    for (int i = 0; i < v.rank; i++)
        if (v.mask[i] & ~roots) axis = axis < 0 ? i : QN_MAX_RANK;
    if (axis < 0 || axis == QN_MAX_RANK || !may_be_stored(fu, s)) return false;
    if (fuse_info(fu, s)->consumers > 1) return false; /* others weigh them, or store them */
    double depth = plain_depth(fu, s, axis);
    const machine *m = fu->terms.machine;
    double stored = (double)m->store_load_cost + (double)m->kernel_cost / (fuse_size(fu, s) + 1);
    return depth > 0 && (depth + width) / (double)m->block_loss > stored;
}

/* The other factor's data for one row must be small beside the scores, since it is read again for
 * each block of rows. */
void fuse_find_rows(fuse *fu, const graph_node *x, uint32_t number) {
    group *k = fu->group_[number];
    const use *u = &k->reduced;
    if (x->op != OP_SUM_PRODUCT) return;
    use v[2] = {*u, *u};
    node_id s[2] = {fuse_scores_behind(fu, x->src[0], &v[0]),
                    fuse_scores_behind(fu, x->src[1], &v[1])};
    if (!s[0] == !s[1]) return;
    int side = s[0] ? 0 : 1;
    uint64_t rows = fuse_mask(&v[side]) & fuse_root_set(k);
    double slice = 1;
    if (!rows || rows == fuse_root_set(k) || !fuse_fits_chain(k, rows)) return;
    for (uint64_t l = (fuse_mask(u) | fuse_root_set(k)) & ~rows; l; l &= l - 1)
        slice *= k->loop[__builtin_ctzll(l)].extent;
    if (slice * 8 > fuse_size(fu, s[side])) return;
    if (is_stored_pair(fu, s[side], &v[side], slice / fuse_reduced_size(fu, x))) return;
    k->rows = rows;
    k->terms = *u;
}

/* The axes of the tile of a row of scores n in a block's kernel; false when there can be none. */
static bool row_axes(const fuse *fu, node_id n, uint32_t number, uint32_t *axes) {
    const fuse_node *f = fuse_info(fu, n);
    const group *k = fu->group_[number];
    const use *first = NULL;
    *axes = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const use *u = &f->uses[i];
        if (u->group != number) continue;
        if (fuse_mask(u) & fuse_root_set(k) & ~k->rows) return false;
        if (!first) first = u;
        for (int a = 0; a < u->rank; a++)
            if ((u->mask[a] & ~k->rows) || u->mask[a] != first->mask[a]) *axes |= 1u << a;
    }
    return true;
}

typedef struct score_choice {
    bool possible, buffered;
    uint32_t axes;
} score_choice;

/* How group `number` gets the values of n that it uses, if not from memory. */
static score_choice choose_for(const fuse *fu, node_id n, uint32_t number) {
    const fuse_node *f = fuse_info(fu, n);
    const graph_node *x = node_at(fu->g, n);
    const group *k = fu->group_[number];
    score_choice c = {0};
    if (!k->rows || fuse_is_full(k) || k->loops >= FUSE_MAX_LOOPS - 2 * QN_MAX_RANK) return c;
    bool view = op_rows[x->op].class_ == CLASS_MOVE || op_is_view_mark(x->op),
         has_contraction = fuse_has_contraction(fu, x);
    double evals = 0, around = fuse_trips(k, k->rows);
    bool inline_ = true;
    uint32_t uses = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->uses[i].group != number) continue;
        uint64_t m = fuse_mask(&f->uses[i]);
        evals += fuse_trips(k, m);
        uses++;
        if (has_contraction)
            inline_ &= uses == 1 && fuse_attention_takes(fu, x, number, fuse_closure(k, m));
    }
    if (view) return (score_choice){.possible = true};
    c.buffered = row_axes(fu, n, number, &c.axes) && row_fits(fu, n, c.axes);
    double tile = c.buffered ? around * fuse_tile_size(fu, n, c.axes) : 0;
    double once = 1.001 * fuse_size(fu, n), hold = (double)fu->terms.machine->hold_cost;
    if (tile > once) return (score_choice){.possible = false};
    if (has_contraction) inline_ &= evals <= once;
    if (inline_ && evals * f->cost <= tile * (hold + f->cost)) c.buffered = false;
    c.possible = c.buffered || (inline_ && evals <= 4 * fuse_size(fu, n));
    return c;
}

/* Scores that only blocks use are never stored. */
bool fuse_decide_scores(fuse *fu, node_id n) {
    fuse_node *f = fuse_info(fu, n);
    if (f->crowded || !f->count) return false;
    for (uint32_t i = 0; i < f->count; i++)
        if (!choose_for(fu, n, f->uses[i].group).possible) return false;
    uint32_t count = f->count;
    for (uint32_t i = 0; i < count; i++) {
        use u = f->uses[i];
        bool seen = false;
        for (uint32_t j = 0; j < i; j++) seen |= f->uses[j].group == u.group;
        score_choice c = choose_for(fu, n, u.group);
        if (!c.buffered)
            fuse_enter(fu, n, &u);
        else if (!seen)
            fuse_buffer(fu, n, u.group, fu->group_[u.group]->rows, c.axes);
    }
    return true;
}
