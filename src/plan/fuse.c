/* fuse.c - fusion: for each node, inline it into its consumers, buffer it in a tile, or store it in
 * memory.
 *
 * Start with everything inlined into the kernel of each requested node, and walk the graph once,
 * consumers before producers. When a node is visited, all its uses are known: in which kernels, and
 * under which loops of them. That is enough to count how often its value would be computed. It
 * stays inline when recomputation costs less than storing and loading it; otherwise it is stored,
 * either as a further output of a kernel that computes it anyway or by a new kernel whose loops are
 * its axes.
 *
 * Uses. A use is (kernel, for each axis the set of that kernel's loops its index depends on). Loops
 * are the root's axes and, for every reduction met on the way, its own axes; a reduction's loops
 * lie inside all loops its result depends on (loop.outer). The value of a node is computed once per
 * combination of the loops in the closure of its index's set: lowering hoists it exactly that far.
 *
 * Buffered. A node that one kernel uses several times along a row, as the exponentials of a
 * softmax, is computed once under the loops that all its uses share and kept in a tile over its
 * other axes, if that is small. The tile costs a write and a read in the first-level cache.
 *
 * Legality. Inlining is always legal; only cost argues against. What must be proved:
 *   - loops nest one way only, so the root loops that a kernel's reductions depend on must form a
 *     chain of sets (kernel.chain); the loop order follows from the chain;
 *   - a further output must be computed exactly once at every one of its elements, with no second
 *     use at another index in that kernel, and no other reader of it may lead back to the kernel
 *     (a cycle);
 *   - a contraction (has_contraction: a product of two broadcast operands summed) owns its kernel's
 *     loops: they become a register tile, so nothing else may be reduced beside it.
 *
 * Cost: units of one vector operation on one element. The machine record says what a write and
 * a read back cost in those units, what a separate kernel costs, and what is worth a tile. */
#include "plan/fuse.h"

#include <math.h>

/* ---- groups ---------------------------------------------------------------------------------- */

group *fuse_open_group(fuse *fu, node_id root, use *u) {
    group *k = arena_zeroed(fu->a, sizeof *k);
    k->root = root;
    k->flat = true;
    k->columns = fuse_info(fu, root)->columns;
    k->place = -(int64_t)fu->groups;
    fu->group_ = arena_grow(fu->a, fu->group_, &fu->group_cap, fu->groups + 1, sizeof *fu->group_);
    fu->group_[fu->groups] = k;
    *u = (use){.group = fu->groups++, .exact = true, .straight = true};
    fuse_open_root(fu, k, u);
    return k;
}

static uint32_t open_group(fuse *fu, node_id root) {
    use u;
    group *k = fuse_open_group(fu, root, &u);
    k->scatter = node_at(fu->g, root)->op == OP_SCATTER;
    k->call = node_at(fu->g, root)->op == OP_CALL || node_at(fu->g, root)->op == OP_RESULT;
    k->has_contraction = fuse_has_contraction(fu, node_at(fu->g, root));
    k->adds_blocks = fuse_info(fu, root)->adds_blocks;
    k->products = fuse_info(fu, root)->adds_blocks ? fuse_info(fu, root)->products : 0;
    fuse_push_sources(fu, root, &u);
    if (k->has_contraction) fuse_find_rows(fu, node_at(fu->g, root), u.group);
    return u.group;
}

/* Is n another result of what the launch of k computes? Two nodes of one result differ in their
 * shape, as places of as many as are asked for do: those are two calls. */
static bool same_launch(const graph *g, const group *k, const graph_node *n) {
    const graph_node *root = node_at(g, k->root);
    if (root->op == OP_RESULT) return n->op == OP_RESULT && root->src[0] == n->src[0];
    if (!node_same_call(g, root, n)) return false;
    for (uint32_t i = 0; i < k->outs; i++)
        if (node_call(g, node_at(g, k->out[i])).result == node_call(g, n).result) return false;
    return true;
}

/* The launch of the call, or the loop, that n is a result of. Its results wait for the same values,
 * so none of them waits for another, and one launch for all of them closes no cycle. */
static uint32_t call_group(fuse *fu, node_id n) {
    for (uint32_t i = fu->calls; i-- > 0;)
        if (same_launch(fu->g, fu->group_[fu->call[i]], node_at(fu->g, n))) return fu->call[i];
    fu->call = arena_grow(fu->a, fu->call, &fu->call_cap, fu->calls + 1, sizeof *fu->call);
    return fu->call[fu->calls++] = open_group(fu, n);
}

void fuse_add_node(fuse *fu, node_id **list, uint32_t *n, uint32_t *cap, node_id x) {
    for (uint32_t i = 0; i < *n; i++)
        if ((*list)[i] == x) return;
    *list = arena_grow(fu->a, *list, cap, *n + 1, sizeof **list);
    (*list)[(*n)++] = x;
}

/* Can the reductions of k, with one more that depends on root loops m, still be ordered? */
bool fuse_fits_chain(const group *k, uint64_t m) {
    for (uint32_t i = 0; i < k->chains; i++)
        if ((k->chain[i] & m) != m && (k->chain[i] & m) != k->chain[i]) return false;
    return true;
}

void fuse_add_chain(fuse *fu, group *k, uint64_t m) {
    k->chain = arena_grow(fu->a, k->chain, &k->chain_cap, k->chains + 1, sizeof *k->chain);
    k->chain[k->chains++] = m;
}

/* May scan x run in the kernel of use u: along the innermost of its loops, as all scans there? */
static bool scan_fits(const fuse *fu, const graph_node *x, const use *u) {
    const group *k = fu->group_[u->group];
    scan_attr s = node_scan(fu->g, x);
    if (!u->straight || k->scatter || k->has_contraction || k->rows || k->piece.into) return false;
    if (k->scan && k->scan != fuse_scan_way(s)) return false;
    if (k->parts[s.axis] > 1) return false; /* the state would have to outlive the inner loop */
    return fuse_fits_chain(k, fuse_root_set(k) & ~u->mask[s.axis]);
}

/* Several rows of block products, and what is added to them, get one register tile: nothing else
 * is summed up beside them (schedule/blocks/block_rows.c). */
static bool blocks_fit(const fuse *fu, const graph_node *x, const group *k, uint64_t m) {
    const fuse_node *f = fuse_info(fu, (node_id)(x - node_at(fu->g, 0)));
    if (fuse_rows(k) <= 1 || f->of_blocks || (!f->adds_blocks && !k->products)) return true;
    return f->adds_blocks && k->reduces == (k->adds_blocks ? 1 : 0) && m == fuse_root_set(k);
}

/* May reduction x run inside group k where its result depends on loops m? */
static bool reduce_fits(const fuse *fu, const graph_node *x, uint32_t number, uint64_t m) {
    const group *k = fu->group_[number];
    if (k->scatter || (k->scan && fuse_has_contraction(fu, x))) return false;
    m = fuse_closure(k, m);
    if (!blocks_fit(fu, x, k, m)) return false;
    if (k->has_contraction) return k->rows && fuse_attention_takes(fu, x, number, m);
    if (fuse_has_contraction(fu, x))
        return !k->reduces && !k->split && k->ops <= FUSE_MAX_EPILOGUE && m == fuse_root_set(k);
    double work = fuse_trips(k, m) * (fuse_reduced_size(fu, x) + 1) * fuse_term_cost(fu, x);
    const machine *l = fu->terms.machine;
    if (fuse_trips(k, m & fuse_root_set(k)) < (double)l->few_items && work > (double)l->serial_cost)
        return false;
    return fuse_fits_chain(k, m & fuse_root_set(k));
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* A conversion of memory to something wider: a contraction does it where it packs its operands. */
static bool is_widening(const fuse *fu, const graph_node *x) {
    if (x->op != OP_CAST) return false;
    const graph_node *s = node_at(fu->g, x->src[0]);
    bool narrow = qn_dtype_size(s->dtype) < qn_dtype_size(x->dtype);
    while (op_rows[s->op].class_ == CLASS_MOVE && !node_is_memory(s)) s = node_at(fu->g, s->src[0]);
    return narrow && (node_is_memory(s) || s->op == OP_CONTIGUOUS);
}

/* Of bytes: what loads them converts them, or multiplies them as they are. */
static bool widens_bytes(const fuse *fu, const graph_node *x) {
    return x->dtype == QN_I32 && is_widening(fu, x) &&
           qn_dtype_size(node_at(fu->g, x->src[0])->dtype) == 1;
}

/* Do the last bits of x depend on how a schedule groups its terms? */
static bool is_regrouped(const graph_node *x) {
    bool sums = x->op == OP_SUM || x->op == OP_SUM_PRODUCT || x->op == OP_PROD;
    return sums && dtype_is_float(x->dtype);
}

static uint64_t last_loop(uint64_t loops) {
    return loops ? 1ull << (63 - __builtin_clzll(loops)) : 0;
}

/* Does a product of few rows read n, which is gathered, as it reads memory? So it does where lanes
 * go along columns that lie side by side, and the index is the same along them and along the
 * innermost loop of the sum, as where whole pages of keys are gathered: each row then loads them
 * anew, as it would load a copy. */
static bool is_gathered_in_step(const fuse *fu, node_id n, const use *u) {
    const group *k = fu->group_[u->group];
    const graph_node *x = node_at(fu->g, n);
    if (!k->has_contraction || k->rows || node_is_memory(x)) return false;
    if (fuse_trips(k, fuse_mask(u)) >
        (double)machine_made_rows(fu->terms.machine) * fuse_size(fu, n))
        return false;
    use v = *u, w;
    if (x->op == OP_CAST) x = node_at(fu->g, x->src[0]);
    for (; !node_is_memory(x) && op_rows[x->op].class_ == CLASS_MOVE; v = w) {
        fuse_move_use(fu, x, &v, &w);
        x = node_at(fu->g, x->src[0]);
    }
    const uint64_t roots = fuse_root_set(k), sum = fuse_mask(&k->reduced) & ~roots;
    if (node_is_memory(x) || x->op != OP_GATHER || !v.rank) return false;
    if (v.mask[v.rank - 1] != last_loop(roots)) return false;
    x = node_at(fu->g, x->src[1]);
    for (; !node_is_memory(x) && op_rows[x->op].class_ == CLASS_MOVE; v = w) {
        fuse_move_use(fu, x, &v, &w);
        x = node_at(fu->g, x->src[0]);
    }
    return !(fuse_mask(&v) & (last_loop(roots) | last_loop(sum)));
}

enum { LEAST_GROUP = 16 }; /* products of a block that share a scale */

/* What computing n anew at each use costs more than computing it once; infinite where it cannot be:
 * what one kernel adds up in its way another would add up in its own, and a node has one value. */
static double inline_extra(fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    fuse_node *f = fuse_info(fu, n);
    bool reduce = op_rows[x->op].class_ == CLASS_REDUCE;
    double size = fuse_size(fu, n), evals = 0;
    if (f->count > FUSE_MAX_USES || f->crowded) return INFINITY;
    if (x->op == OP_SCAN && (f->count > 1 || !scan_fits(fu, x, &f->uses[0]))) return INFINITY;
    if (reduce && f->count > 1 && (is_regrouped(x) || fuse_has_contraction(fu, x))) return INFINITY;
    for (uint32_t i = 0; i < f->count; i++) {
        const group *k = fu->group_[f->uses[i].group];
        uint64_t m = fuse_mask(&f->uses[i]);
        if (fuse_is_full(k) || k->loops >= FUSE_MAX_LOOPS - QN_MAX_RANK) return INFINITY;
        if (reduce && !reduce_fits(fu, x, f->uses[i].group, m)) return INFINITY;
        if (reduce && fuse_has_contraction(fu, x) && !f->uses[i].exact) return INFINITY;
        if (reduce && !fuse_piece_takes(fu, x, &f->uses[i])) return INFINITY;
        if (reduce && fuse_has_contraction(fu, x) && fuse_scatters(fu, x, &f->uses[i]))
            return INFINITY;
        bool packed = (k->has_contraction && !k->rows && is_widening(fu, x)) ||
                      is_gathered_in_step(fu, n, &f->uses[i]);
        double shared = reduce ? 0 : fuse_shared_by_rows(fu, n, &f->uses[i]),
               all = fuse_trips(k, m);
        int parts = k->products ? k->products : LEAST_GROUP / 2; /* not known yet */
        bool by_group = !reduce && k->adds_blocks && LEAST_GROUP * size <= all * parts;
        evals += packed || by_group ? size : shared > 0 ? shared : all;
    }
    return widens_bytes(fu, x) ? 0 : (evals - size) * f->cost;
}

/* Functions of halves compute in f32, which would take twice the bytes of their inputs: where such
 * a value is needed again, for a gradient, it is recomputed. */
static bool is_never_wide(fuse *fu, node_id n, double extra) {
    const fuse_node *f = fuse_info(fu, n);
    double most = (double)fu->terms.machine->half_cost;
    return f->of_halves && f->cost <= most && extra <= 4 * most * fuse_size(fu, n);
}

/* Would n be computed in a kernel that has a contraction of its own, or will have one? */
static bool is_partial_sum(const fuse *fu, node_id n) {
    const fuse_node *f = fuse_info(fu, n);
    if (fu->terms.everything_stored || !f->sums || f->count != 1 || !f->uses[0].exact) return false;
    return f->added || fu->group_[f->uses[0].group]->has_contraction;
}

static bool has_one_reader(const fuse_node *f) {
    for (uint32_t i = 1; i < f->count; i++)
        if (f->uses[i].group != f->uses[0].group) return false;
    return true;
}

static double store_cost(const fuse *fu, node_id n) {
    const fuse_node *f = fuse_info(fu, n);
    const machine *m = fu->terms.machine;
    return fuse_size(fu, n) * (double)m->store_load_cost +
           (has_one_reader(f) ? 2 : 1) * (double)m->kernel_cost;
}

/* Is a contraction used only through n, which is made of it by element? Where n would be computed
 * more than once the contraction is stored, and storing n in its place costs nothing: what is
 * between them is done while its sums are in registers. */
static bool stands_for_product(const fuse *fu, node_id n) {
    const fuse_node *f = fuse_info(fu, n);
    if (!f->product || f->product == n || f->share < 1 - 1e-9) return false;
    const graph_node *x = node_at(fu->g, n), *product = node_at(fu->g, f->product);
    return qn_dtype_size(x->dtype) <= qn_dtype_size(product->dtype) &&
           fuse_size(fu, n) == fuse_size(fu, f->product);
}

/* The loops that enclose all uses of n; false when they are not of one kernel. */
static bool common_loops(const fuse *fu, const fuse_node *f, uint64_t *m) {
    const group *k = fu->group_[f->uses[0].group];
    *m = fuse_root_set(k);
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->uses[i].group != f->uses[0].group) return false;
        *m &= fuse_closure(k, fuse_mask(&f->uses[i]));
    }
    return true;
}

/* The axes of n that its tile has under the loops m: those whose index depends on inner loops. The
 * others must have one index for all uses. */
static uint32_t tile_axes(const fuse_node *f, uint64_t m) {
    uint32_t axes = 0;
    for (int a = 0; a < f->uses[0].rank; a++)
        for (uint32_t i = 0; i < f->count; i++)
            if ((f->uses[i].mask[a] & ~m) || f->uses[i].mask[a] != f->uses[0].mask[a])
                axes |= 1u << a;
    return axes;
}

double fuse_tile_size(const fuse *fu, node_id n, uint32_t axes) {
    int rank;
    const int64_t *d = graph_tuple_get(fu->g, node_at(fu->g, n)->shape, &rank);
    double size = 1;
    for (int i = 0; i < rank; i++)
        if (axes >> i & 1) size *= fuse_dim_size(fu->g, (sym)d[i]);
    return size;
}

/* The cost of buffering n in a tile; infinite where that is not possible. */
static double buffer_cost(fuse *fu, node_id n, uint64_t *m, uint32_t *axes) {
    const graph_node *x = node_at(fu->g, n);
    const fuse_node *f = fuse_info(fu, n);
    if (!f->count || f->count > FUSE_MAX_USES || f->crowded || fu->terms.everything_stored)
        return INFINITY;
    const group *k = fu->group_[f->uses[0].group];
    if (k->has_contraction || k->scatter || fuse_is_full(k) ||
        k->loops >= FUSE_MAX_LOOPS - 2 * QN_MAX_RANK)
        return INFINITY;
    if (op_rows[x->op].class_ == CLASS_REDUCE || x->op == OP_SCAN || !common_loops(fu, f, m))
        return INFINITY;
    *axes = tile_axes(f, *m);
    double tile = fuse_tile_size(fu, n, *axes), around = fuse_trips(k, *m);
    const machine *l = fu->terms.machine;
    if (!*axes || tile * (double)qn_dtype_size(x->dtype) > (double)l->tile_bytes) return INFINITY;
    bool across = k->root_loops && (*m >> (k->root_loops - 1) & 1);
    if (across) return INFINITY; /* vectors across rows: a tile for each */
    if (around < (double)l->few_items && around * tile * f->cost > (double)l->serial_cost)
        return INFINITY;
    if (!fuse_fits_chain(k, *m)) return INFINITY;
    return around * tile * ((double)l->hold_cost + f->cost) - fuse_size(fu, n) * f->cost;
}

/* Can group u->group store n as a further output? */
static bool can_store_in(fuse *fu, node_id n, const use *u) {
    const graph_node *x = node_at(fu->g, n);
    const fuse_node *f = fuse_info(fu, n);
    group *k = fu->group_[u->group];
    uint64_t m = fuse_closure(k, fuse_mask(u));
    if (!u->exact || k->scatter || k->call || f->crowded || fuse_is_full(k)) return false;
    if (x->op == OP_SCATTER || x->op == OP_CALL || x->op == OP_RESULT ||
        fu->terms.everything_stored)
        return false;
    if (k->loops >= FUSE_MAX_LOOPS - QN_MAX_RANK) return false;
    double size = fuse_size(fu, n), t = fuse_trips(k, m);
    double serial = (double)fu->terms.machine->serial_cost;
    if (t < size * 0.999 || t > size * 1.001) return false;
    if (k->has_contraction && m != fuse_root_set(k) && m != k->rows) return false;
    /* a statement at its root would keep its loops from being parallel, and others, who want the
     * number, waiting until they end */
    double most = has_one_reader(f) ? serial : (double)fu->terms.machine->kernel_cost;
    if (!(m & fuse_root_set(k)) && fuse_trips(k, fuse_root_set(k)) > most) return false;
    /* in a reduction's loops its contraction could not be computed, nor its statistics staged */
    if ((m & ~fuse_root_set(k)) && (f->sums || size * f->cost * f->terms > serial)) return false;
    if (!fuse_fits_chain(k, m & fuse_root_set(k))) return false;
    if (op_rows[x->op].class_ == CLASS_REDUCE &&
        !(reduce_fits(fu, x, u->group, fuse_mask(u)) && fuse_piece_takes(fu, x, u)))
        return false;
    if (fuse_has_contraction(fu, x) && fuse_scatters(fu, x, u)) return false;
    if (x->op == OP_SCAN && !scan_fits(fu, x, u)) return false;
    for (uint32_t i = 0; i < f->count; i++)
        if (&f->uses[i] != u && f->uses[i].group == u->group) return false;
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->uses[i].group == u->group) continue;
        if (fuse_reaches(fu, f->uses[i].group, u->group)) return false;
    }
    return true;
}

void fuse_enter(fuse *fu, node_id n, const use *u) {
    const graph_node *x = node_at(fu->g, n);
    group *k = fu->group_[u->group];
    if (op_rows[x->op].class_ == CLASS_REDUCE) {
        fuse_add_chain(fu, k, fuse_closure(k, fuse_mask(u)) & fuse_root_set(k));
        k->adds_blocks |= fuse_info(fu, n)->adds_blocks;
        if (fuse_info(fu, n)->adds_blocks && fuse_info(fu, n)->products)
            k->products = fuse_info(fu, n)->products;
        if (fuse_has_contraction(fu, x)) {
            k->has_contraction = true;
            k->epilogue = k->ops;
        }
    }
    fuse_push_sources(fu, n, u);
    if (op_rows[x->op].class_ == CLASS_REDUCE && k->has_contraction && !k->rows)
        fuse_find_rows(fu, x, u->group);
}

/* Store n, in a kernel that passes it, or in one of its own, which it is if `apart`. */
static void store_node(fuse *fu, node_id n, bool apart) {
    fuse_node *f = fuse_info(fu, n);
    uint32_t owner = UINT32_MAX;
    for (uint32_t i = apart ? 0 : 2 * f->count; i-- > 0 && owner == UINT32_MAX;) {
        use u = f->uses[i % f->count];
        bool blocks = fu->group_[u.group]->rows != 0; /* these buffer a row's scores */
        if (blocks != (i >= f->count) || !can_store_in(fu, n, &f->uses[i % f->count])) continue;
        owner = u.group;
        group *k = fu->group_[owner];
        fuse_add_chain(fu, k, fuse_closure(k, fuse_mask(&u)) & fuse_root_set(k));
        fuse_enter(fu, n, &u);
    }
    if (owner == UINT32_MAX)
        owner = fuse_is_call(node_at(fu->g, n)) ? call_group(fu, n) : open_group(fu, n);
    group *k = fu->group_[owner];
    fuse_add_node(fu, &k->out, &k->outs, &k->out_cap, n);
    fu->f->stored[fu->f->pos[n] - 1] = 1;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t r = f->uses[i].group;
        if (r == owner) continue;
        group *reader = fu->group_[r];
        fuse_add_node(fu, &reader->in, &reader->ins, &reader->in_cap, n);
        fuse_add_reader(fu, owner, r);
    }
}

static void store_pieces(fuse *fu, node_id n) {
    if (fuse_stores_columns(fu, n))
        store_node(fu, n, true);
    else
        fuse_assemble(fu, n);
}

/* Compute n once under the loops `around` of a kernel, in loops of its own over the tile's axes. */
void fuse_buffer(fuse *fu, node_id n, uint32_t number, uint64_t around, uint32_t axes) {
    const fuse_node *f = fuse_info(fu, n);
    group *k = fu->group_[number];
    use u = {.group = UINT32_MAX};
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->uses[i].group != number) continue;
        const use before = u;
        u = f->uses[i];
        if (before.group == UINT32_MAX) continue;
        u.exact &= before.exact;
        u.whole &= before.whole;
    }
    u.straight = false;
    fuse_add_chain(fu, k, around);
    fuse_open_axes(fu, k, node_at(fu->g, n)->shape, axes, around, &u);
    k->flat = false;
    k->buffered = arena_grow(fu->a, k->buffered, &k->buffered_cap, k->buffered_count + 1,
                             sizeof *k->buffered);
    k->buffered[k->buffered_count++] = (fuse_axes){n, axes};
    fuse_enter(fu, n, &u);
}

/* Is it asked for in this order, and read by one kernel, in another? Each of the two then goes
 * along what it writes; as a further output of the reader nobody would read it. */
static bool is_rearranged(const fuse *fu, node_id n) {
    const fuse_node *f = fuse_info(fu, n);
    return node_at(fu->g, n)->op == OP_CONTIGUOUS && !f->is_root && f->count == 1 &&
           !f->uses[0].straight;
}

static void decide(fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    fuse_node *f = fuse_info(fu, n);
    if (node_is_memory(x)) {
        fu->f->stored[fu->f->pos[n] - 1] = 1;
        for (uint32_t i = 0; i < f->count; i++) {
            group *r = fu->group_[f->uses[i].group];
            fuse_add_node(fu, &r->in, &r->ins, &r->in_cap, n);
        }
        return;
    }
    int c = op_rows[x->op].class_;
    if (c == CLASS_LOOP && x->op != OP_RESULT) return; /* its results have told its sources */
    bool view = c == CLASS_MOVE || op_is_view_mark(x->op);
    bool store = f->is_root || x->op == OP_CONTIGUOUS || x->op == OP_SCATTER || fuse_is_call(x) ||
                 f->must_store;
    if (f->must_store && fuse_is_virtual(x)) store = true;
    if (!store && fuse_is_virtual(x)) {
        for (uint32_t i = 0; i < f->count; i++)
            if (x->op == OP_IOTA) fu->group_[f->uses[i].group]->flat = false;
        return;
    }
    if (x->op == OP_JOIN) {
        if (f->placed) return;
        store = store || fu->terms.everything_stored;
        if (store || fuse_writes_pieces(fu, n, inline_extra(fu, n))) {
            store_pieces(fu, n);
            return;
        }
        view = true;
    }
    if (store && fuse_borders_contraction(fu, n)) {
        fuse_store_bordered(fu, n);
        return;
    }
    bool partial = false;
    uint64_t around = 0;
    uint32_t axes = 0;
    if (!store && !fu->terms.everything_stored && f->scores > 0 && fuse_decide_scores(fu, n))
        return;
    if (!store && !view && (!f->index_ops || fu->terms.everything_stored)) {
        double extra = fu->terms.everything_stored ? INFINITY : inline_extra(fu, n);
        double buffered = buffer_cost(fu, n, &around, &axes);
        double stored = stands_for_product(fu, n) ? 0 : store_cost(fu, n);
        if (buffered < extra && buffered < stored) {
            fuse_buffer(fu, n, f->uses[0].group, around, axes);
            return;
        }
        store = extra > stored && !is_never_wide(fu, n, extra);
        partial = !store && is_partial_sum(fu, n);
    }
    if (store || partial) {
        store_node(fu, n, partial || fuse_weighs_rows(fu, n) || is_rearranged(fu, n));
        return;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        use u = f->uses[i];
        fuse_enter(fu, n, &u);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void count_consumers(fuse *fu) {
    fusion *f = fu->f;
    for (uint32_t i = 0; i < f->nodes; i++) {
        const graph_node *x = node_at(fu->g, f->order[i]);
        if (node_is_memory(x)) continue;
        for (int s = 0; s < x->sources; s++)
            if (f->pos[x->src[s]]) fuse_info(fu, x->src[s])->waits++;
    }
    for (uint32_t i = 0; i < f->nodes; i++) {
        fu->node[i].consumers = fu->node[i].waits;
        fuse_mark_blocks(fu, f->order[i]);
    }
    for (uint32_t i = 0; i < f->nodes; i++) fu->node[i].terms = fuse_terms_behind(fu, f->order[i]);
}

/* What is computed by element and used once, behind reshapes and permutations that are, too. */
static node_id sole_source(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    while (!node_is_memory(x) && (x->op == OP_RESHAPE || x->op == OP_PERMUTE)) {
        if (fuse_info(fu, n)->waits != 1) return 0;
        x = node_at(fu->g, n = x->src[0]);
    }
    return node_is_memory(x) || fuse_is_virtual(x) || fuse_info(fu, n)->waits != 1 ? 0 : n;
}

/* A node made by element of a contraction that only it uses, in a kernel that has another one: one
 * of the two has to be stored, and it costs the same. So it is the node, behind whose contraction
 * the rest of it is done: of a sum of many contractions each kernel then adds one to what the one
 * before it stored. */
static void mark_sums(fuse *fu) {
    const fusion *f = fu->f;
    for (uint32_t i = 0; i < f->nodes; i++) {
        const graph_node *x = node_at(fu->g, f->order[i]);
        if (node_is_memory(x) || op_rows[x->op].class_ != CLASS_ELEM) continue;
        for (int s = 0; s < x->sources; s++) {
            node_id y = sole_source(fu, x->src[s]);
            if (!y || fuse_size(fu, y) != fuse_size(fu, f->order[i])) continue;
            fu->node[i].sums |= fuse_has_contraction(fu, node_at(fu->g, y));
        }
        for (int s = 0; s < x->sources && fu->node[i].sums; s++) {
            node_id y = sole_source(fu, x->src[s]);
            if (y) fuse_info(fu, y)->added = true;
        }
    }
}

/* What nodes pass on of a contraction: it is one whole, and of what a node has each of its uses
 * takes the same part. Where ways part and meet again, as those of x * sigmoid(x), the whole is in
 * one node again. */
static void mark_products(fuse *fu) {
    const fusion *f = fu->f;
    for (uint32_t i = 0; i < f->nodes; i++) {
        const graph_node *x = node_at(fu->g, f->order[i]);
        fuse_node *to = &fu->node[i];
        if (node_is_memory(x)) continue;
        if (fuse_has_contraction(fu, x)) {
            to->product = f->order[i];
            to->share = 1;
        }
        if (op_rows[x->op].class_ != CLASS_ELEM && x->op != OP_RESHAPE) continue;
        for (int s = 0; s < x->sources; s++) {
            if (!f->pos[x->src[s]]) continue;
            const fuse_node *from = fuse_info(fu, x->src[s]);
            double part = from->share / (from->consumers + from->is_root + 1e-300);
            if (!from->product || (to->product != from->product && part <= to->share)) continue;
            to->share = part + (to->product == from->product ? to->share : 0);
            to->product = from->product;
        }
    }
}

/* From the last node to the first, so that all consumers are decided before their producers; but
 * statistics of scores are put off as long as possible, so that the kernels of blocks exist. */
static void decide_all(fuse *fu) {
    const fusion *f = fu->f;
    bool *done = arena_zeroed(fu->a, f->nodes + 1);
    count_consumers(fu);
    mark_sums(fu);
    mark_products(fu);
    for (uint32_t top = f->nodes; top;) {
        uint32_t late = 0;
        for (uint32_t i = top; i-- > 0;) {
            const graph_node *x = node_at(fu->g, f->order[i]);
            if (done[i] || fu->node[i].waits) continue;
            if (fuse_is_statistic(fu, x) && !fu->node[i].late) {
                fu->node[i].late = true;
                if (!late) late = i + 1;
                continue;
            }
            done[i] = true;
            decide(fu, f->order[i]);
            for (int s = 0; s < x->sources && !node_is_memory(x); s++)
                if (f->pos[x->src[s]]) fuse_info(fu, x->src[s])->waits--;
        }
        top = late;
    }
}

/* ---- the result ------------------------------------------------------------------------------ */

static void finish_kernel(const fuse *fu, const group *k, fuse_kernel *out) {
    *out =
        (fuse_kernel){.root = k->root, .outs = k->outs, .ins = k->ins, .out = k->out, .in = k->in};
    out->piece = k->piece;
    out->columns = k->columns;
    out->buffered_count = k->buffered_count;
    out->buffered = k->buffered;
    out->siblings = k->siblings;
    out->sibling = k->sibling;
    out->shares = k->shares;
    out->share = k->share;
    out->rows = fuse_root_axes(fu, k, k->rows);
    out->common = fuse_root_axes(fu, k, k->common);
    out->has_contraction = k->has_contraction;
    out->flat = k->flat && k->root_loops > 0;
    out->reversed = (uint8_t)(k->scan && k->scan % 2 == 0 ? k->scan / 2 : 0);
    fuse_order_loops(fu, k, out);
}

/* Groups that are ready, the one opened last on top. */
typedef struct ready {
    uint32_t *at, count;
} ready;

static void ready_put(ready *r, uint32_t number) {
    uint32_t i = r->count++;
    for (; i && r->at[(i - 1) / 2] < number; i = (i - 1) / 2) r->at[i] = r->at[(i - 1) / 2];
    r->at[i] = number;
}

static uint32_t ready_take(ready *r) {
    uint32_t top = r->at[0], last = r->at[--r->count], i = 0;
    for (uint32_t child; (child = 2 * i + 1) < r->count; i = child) {
        if (child + 1 < r->count && r->at[child + 1] > r->at[child]) child++;
        if (r->at[child] <= last) break;
        r->at[i] = r->at[child];
    }
    r->at[i] = last;
    return top;
}

/* Kahn's order over readers; among ready groups the one whose root comes first in the graph, since
 * groups open from the last node to the first. */
static void order_groups(fuse *fu, fusion *f) {
    uint32_t n = fu->groups, *waits = arena_zeroed(fu->a, (n + 1) * sizeof *waits), done = 0;
    uint32_t live = 0;
    ready r = {.at = arena_alloc(fu->a, (n + 1) * sizeof *r.at)};
    for (uint32_t i = 0; i < n; i++) {
        live += !fu->group_[i]->gone;
        for (uint32_t j = 0; j < fu->group_[i]->readers; j++) waits[fu->group_[i]->reader[j]]++;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!waits[i] && !fu->group_[i]->gone) ready_put(&r, i);
    f->kernel = arena_alloc(fu->a, (n + 1) * sizeof *f->kernel);
    while (r.count) {
        group *k = fu->group_[ready_take(&r)];
        for (uint32_t j = 0; j < k->readers; j++)
            if (!--waits[k->reader[j]]) ready_put(&r, k->reader[j]);
        finish_kernel(fu, k, &f->kernel[done++]);
    }
    if (done < live) raise_error(fu->g->ctx, QN_EINTERNAL, "fusion: kernels form a cycle");
    f->kernels = live;
}

static void log_fusion(const fusion *f, arena *a) {
    graph *g = f->g;
    for (uint32_t i = 0; i < f->kernels; i++) {
        const fuse_kernel *k = &f->kernel[i];
        str s;
        str_open_in(&s, a);
        str_addf(&s, "f kernel %u%s%s:", i, k->has_contraction ? " contraction" : "",
                 k->flat ? " flat" : "");
        for (uint32_t j = 0; j < k->outs; j++) {
            str_addf(&s, " %s#%u", op_rows[node_at(g, k->out[j])->op].name, k->out[j]);
            shape_text(g, node_at(g, k->out[j])->shape, &s);
        }
        str_add(&s, " <-");
        for (uint32_t j = 0; j < k->ins; j++) str_addf(&s, " #%u", k->in[j]);
        log_line(g->ctx, "%s", s.s);
    }
}

fusion *fuse_build(graph *g, arena *a, const plan_request *r, fuse_terms terms,
                   const plan_lift *lift) {
    uint32_t nodes = r->nodes;
    node_id *order = r->order;
    fusion *f = arena_zeroed(a, sizeof *f);
    fuse fu = {.g = g, .a = a, .f = f, .terms = terms};
    f->g = g;
    f->lift = lift ? lift : lift_build(g, a, r);
    f->nodes = nodes;
    f->order = order;
    f->pos = arena_zeroed(a, (size_t)g->nodes * sizeof *f->pos);
    f->stored = arena_zeroed(a, nodes + 1);
    fu.node = arena_zeroed(a, (nodes + 1) * sizeof *fu.node);
    for (uint32_t i = 0; i < nodes; i++) f->pos[order[i]] = i + 1;
    for (uint32_t i = 0; i < nodes; i++) {
        fu.node[i].cost = fuse_node_cost(&fu, node_at(g, order[i]));
        fu.node[i].of_halves = fuse_is_of_halves(&fu, node_at(g, order[i]));
    }
    for (uint32_t i = 0; i < r->roots; i++) fuse_info(&fu, r->root[i])->is_root = true;
    fuse_mark_scores(&fu);
    fuse_count_pieces(&fu);
    decide_all(&fu);
    if (terms.workers) fuse_share_attention(&fu);
    fuse_merge_siblings(&fu);
    order_groups(&fu, f);
    if (debug_on(g->ctx, 'f')) log_fusion(f, a);
    return f;
}
