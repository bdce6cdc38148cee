/* fuse.c - which kernels: for each node, inline it into its consumers or store it in memory.
 *
 * The idea. Start from the thought that everything is inlined into the kernel of each requested
 * node and walk the graph once, consumers before producers. When a node's turn comes, all its uses
 * are known: in which kernels, and under which loops of them. That is enough to count how often its
 * value would be computed. It stays inline when the repeated work costs less than storing and
 * loading it; otherwise it is stored, either by a kernel that passes it anyway (a hosted output) or
 * by a new kernel whose loops are its axes.
 *
 * Uses. A use is (kernel, for each axis the set of that kernel's loops its index depends on). Loops
 * are the root's axes and, for every reduction met on the way, its own axes; a reduction's loops
 * lie inside all loops its result depends on (loop.outer). The value of a node is computed once per
 * combination of the loops in the closure of its index's set: code above hoists it exactly that
 * far.
 *
 * Held. A node that one kernel uses several times along a row, the exponentials of a softmax, is
 * computed once under the loops that all its uses share and kept in a tile over its other axes, if
 * that is small. The tile costs a write and a read in the nearest cache.
 *
 * Legality. Expressions can always be inlined; only cost argues against. What must be proved:
 *  - loops nest one way only, so the root loops that a kernel's reductions depend on must form a
 *    chain of sets (kernel.chain); the loop order follows from the chain;
 *  - a hosted output must be reached at every one of its elements exactly once, with no second use
 * at another index in that kernel, and no other reader of it may lead back to the host (a cycle);
 *  - a contraction (heavy: a product of two broadcast operands summed) owns its kernel's loops:
 * they become a register tile, so nothing else may be reduced beside it.
 *
 * Cost: units of one vector operation on one element. store_load is what a write and a read back
 * cost in those units (from measured cache bandwidth), launch what a separate kernel costs. */
#include "plan/plan.h"

#include <math.h>

enum {
    MAX_LOOPS = 64,   /* of one kernel: a set of loops is a word */
    MAX_USES = 8,     /* distinct uses of a node before it is simply stored */
    MAX_OPS = 500,    /* operations in one kernel: bounds compile time */
    MAX_EPILOGUE = 24 /* operations after a contraction: repeated over its register tile */
};

static const double store_load = 16;       /* cost of storing and loading an element */
static const double load = 2;              /* cost of a load in an inlined expression */
static const double hold = 5;              /* cost of holding an element in a tile */
static const double held_bytes = 64 << 10; /* most for one trip of the loops around a tile */
static const double launch = 40000;        /* cost of one more kernel */
static const double serial_work = 2e6; /* most worth doing in a kernel that cannot be parallel */
static const double few_items = 8;     /* outer loops with fewer trips than this are not parallel */

typedef struct fuse_loop {
    double extent;
    uint64_t outer; /* loops that enclose it */
} fuse_loop;

typedef struct group { /* a kernel under construction */
    node_id root;
    uint32_t loops, reduces, ops, root_loops;
    fuse_loop loop[MAX_LOOPS];
    uint64_t *chain; /* root-loop sets of its reductions */
    uint32_t chains, chain_cap;
    uint32_t *reader; /* groups that load what it stores */
    uint32_t readers, reader_cap;
    node_id *out, *in;
    uint32_t outs, out_cap, ins, in_cap;
    bool heavy, flat, scatter;
    uint32_t seen; /* stamp of the cycle search */
} group;

typedef struct use {
    uint32_t group;
    uint8_t rank;
    bool exact; /* every element of the node is reached, none twice by different paths of the index
                 */
    uint64_t mask[QN_MAX_RANK];
} use;

typedef struct fuse_node {
    use *uses;
    uint32_t count, cap;
    double cost; /* to compute one element, sources loaded */
    bool must_store, is_root, crowded;
} fuse_node;

typedef struct fuse {
    graph *g;
    arena *a;
    fusion *f;
    fuse_node *node; /* by place */
    group **group_;
    uint32_t groups, group_cap, stamp;
    bool everything_stored;
} fuse;

/* ---- small questions ------------------------------------------------------------------------- */

static double dim_size(const graph *g, sym dim) {
    return (double)sym_hi(g->syms, dim);
}

static double tuple_size(const graph *g, tuple_id shape) {
    int rank;
    const int64_t *d = graph_tuple_get(g, shape, &rank);
    double n = 1;
    for (int i = 0; i < rank; i++) n *= dim_size(g, (sym)d[i]);
    return n;
}

static double node_size(const fuse *fu, node_id n) {
    return tuple_size(fu->g, node_at(fu->g, n)->shape);
}

static fuse_node *info(const fuse *fu, node_id n) {
    return &fu->node[fu->f->pos[n] - 1];
}

static bool is_memory(const graph_node *x) {
    return (x->flags & NODE_REALIZED) || x->op == OP_BUFFER;
}

static bool is_virtual(const graph_node *x) {
    return x->op == OP_CONST || x->op == OP_IOTA;
}

/* What one element of an op costs beside its sources. */
static double op_cost(int op) {
    switch (op) {
    case OP_EXP:
    case OP_EXP2:
    case OP_LOG:
    case OP_LOG2:
        return 10;
    case OP_TANH:
    case OP_ERF:
    case OP_EXPM1:
    case OP_LOG1P:
    case OP_SIN:
    case OP_COS:
    case OP_ATAN:
        return 20;
    case OP_ERFC:
    case OP_POW:
        return 40;
    case OP_DIV:
    case OP_RECIPROCAL:
    case OP_SQRT:
    case OP_MOD:
    case OP_FLOOR_DIV:
        return 5;
    default:
        return 1;
    }
}

static double reduced_size(const fuse *fu, const graph_node *x) {
    return node_size(fu, x->src[0]) / (tuple_size(fu->g, x->shape) + 1e-300);
}

/* Cost of one element with inlined elementwise sources, but reductions and memory loaded. */
static double node_cost(const fuse *fu, const graph_node *x) {
    int c = op_rows[x->op].class_;
    if (c == CLASS_LEAF) return x->op == OP_BUFFER ? load : 0;
    if (x->flags & NODE_REALIZED) return load;
    double cost = c == CLASS_ELEM ? op_cost(x->op) : 0;
    for (int i = 0; i < x->sources; i++) {
        const graph_node *s = node_at(fu->g, x->src[i]);
        cost += op_rows[s->op].class_ == CLASS_REDUCE ? load : info(fu, x->src[i])->cost;
    }
    if (c == CLASS_REDUCE) cost = (cost + 1) * (reduced_size(fu, x) + 1e-9);
    if (c == CLASS_INDEX) cost += 4;
    return cost < 1e18 ? cost : 1e18;
}

/* Does the operand repeat elements over the product's index space? */
static bool is_broadcast(const fuse *fu, node_id n, double size) {
    for (;;) {
        const graph_node *x = node_at(fu->g, n);
        if (node_size(fu, n) < 0.75 * size) return true;
        if (is_memory(x) || op_rows[x->op].class_ != CLASS_MOVE) return false;
        n = x->src[0];
    }
}

static bool is_heavy(const fuse *fu, const graph_node *x) {
    if (x->op != OP_SUM) return false;
    const graph_node *m = node_at(fu->g, x->src[0]);
    while (m->op == OP_CAST && !is_memory(m)) m = node_at(fu->g, m->src[0]);
    if (m->op != OP_MUL || is_memory(m)) return false;
    double size = node_size(fu, x->src[0]);
    return is_broadcast(fu, m->src[0], size) && is_broadcast(fu, m->src[1], size);
}

/* ---- loops and uses -------------------------------------------------------------------------- */

static uint64_t mask_of(const use *u) {
    uint64_t m = 0;
    for (int i = 0; i < u->rank; i++) m |= u->mask[i];
    return m;
}

static uint64_t closure(const group *k, uint64_t m) {
    for (uint64_t todo = m; todo; todo &= todo - 1) m |= k->loop[__builtin_ctzll(todo)].outer;
    return m;
}

static double trips(const group *k, uint64_t m) {
    double n = 1;
    for (m = closure(k, m); m; m &= m - 1) n *= k->loop[__builtin_ctzll(m)].extent;
    return n;
}

static uint64_t root_set(const group *k) {
    return k->root_loops >= 64 ? ~0ull : (1ull << k->root_loops) - 1;
}

static bool same_use(const use *a, const use *b) {
    if (a->group != b->group || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->mask[i] != b->mask[i]) return false;
    return true;
}

static void add_use(fuse *fu, node_id n, const use *u) {
    fuse_node *x = info(fu, n);
    for (uint32_t i = 0; i < x->count; i++) {
        if (!same_use(&x->uses[i], u)) continue;
        x->uses[i].exact &= u->exact;
        return;
    }
    if (x->count >= 4 * MAX_USES && !is_memory(node_at(fu->g, n))) {
        x->crowded = true; /* stored in any case: only the kernels matter from here on */
        for (uint32_t i = 0; i < x->count; i++)
            if (x->uses[i].group == u->group) {
                x->uses[i].exact = false;
                return;
            }
    }
    x->uses = arena_grow(fu->a, x->uses, &x->cap, x->count + 1, sizeof *x->uses);
    x->uses[x->count++] = *u;
}

static int new_loop(group *k, double extent, uint64_t outer) {
    if (k->loops >= MAX_LOOPS) return -1;
    k->loop[k->loops] = (fuse_loop){extent, outer};
    return (int)k->loops++;
}

/* ---- how an index travels from a node to its sources ----------------------------------------- */

/* Axes of `from` (the result) that share elements with axes of `to` (the source) under reshape form
 * groups with equal products; a source axis depends on the loops of its whole group. */
static void reshape_use(const fuse *fu, const graph_node *x, const use *u, use *v) {
    int rf, rt;
    const int64_t *from = graph_tuple_get(fu->g, x->shape, &rf);
    const int64_t *to = graph_tuple_get(fu->g, node_at(fu->g, x->src[0])->shape, &rt);
    sym_store *s = fu->g->syms;
    for (int i = 0, j = 0; i < rf || j < rt;) {
        int i0 = i, j0 = j;
        uint64_t m = 0;
        sym a = SYM_ONE, b = SYM_ONE;
        if (i < rf) a = (sym)from[i], m |= u->mask[i++];
        if (j < rt) b = (sym)to[j++];
        while (a != b && (i < rf || j < rt)) {
            bool grow_a = j >= rt || (i < rf && sym_hi(s, a) <= sym_hi(s, b));
            if (grow_a) {
                a = sym_mul(s, a, (sym)from[i]);
                m |= u->mask[i++];
            } else {
                b = sym_mul(s, b, (sym)to[j++]);
            }
        }
        (void)i0;
        for (int t = j0; t < j; t++) v->mask[t] = (sym)to[t] == SYM_ONE ? 0 : m;
    }
    v->rank = (uint8_t)rt;
}

static void move_use(const fuse *fu, const graph_node *x, const use *u, use *v) {
    *v = *u;
    int rank, n;
    const int64_t *dims = graph_tuple_get(fu->g, node_at(fu->g, x->src[0])->shape, &rank);
    const int64_t *attr = graph_tuple_get(fu->g, x->attr, &n);
    switch (x->op) {
    case OP_RESHAPE:
        reshape_use(fu, x, u, v);
        break;
    case OP_PERMUTE:
        for (int i = 0; i < rank; i++) v->mask[attr[i]] = u->mask[i];
        break;
    case OP_EXPAND:
        for (int i = 0; i < rank; i++)
            if ((sym)dims[i] == SYM_ONE) v->mask[i] = 0;
        break;
    case OP_WINDOW:
        v->mask[attr[0]] |= u->mask[attr[1]];
        v->exact = false;
        break;
    case OP_PAD:
    case OP_SLICE:
        v->exact = false;
        break;
    default:
        break;
    }
    for (int i = 0; i < rank && i < v->rank; i++)
        if ((sym)dims[i] == SYM_ONE) v->mask[i] = 0;
}

/* Loops for some axes of `shape`, as masks; false when the kernel is out of loops. */
static bool open_axes(fuse *fu, group *k, tuple_id shape, uint32_t axes, uint64_t outer, use *u) {
    int rank;
    const int64_t *dims = graph_tuple_get(fu->g, shape, &rank);
    u->rank = (uint8_t)rank;
    for (int i = 0; i < rank; i++) {
        if (!(axes >> i & 1)) continue;
        u->mask[i] = 0;
        if ((sym)dims[i] == SYM_ONE) continue;
        int l = new_loop(k, dim_size(fu->g, (sym)dims[i]), outer);
        if (l < 0) return false;
        u->mask[i] = 1ull << l;
        outer |= u->mask[i];
    }
    return true;
}

static uint32_t reduce_axes(const graph *g, const graph_node *x) {
    int n;
    const int64_t *axes = graph_tuple_get(g, x->attr, &n);
    uint32_t m = 0;
    for (int i = 0; i < n; i++) m |= 1u << axes[i];
    return m;
}

static void reduce_use(fuse *fu, const graph_node *x, const use *u) {
    group *k = fu->group_[u->group];
    const graph_node *s = node_at(fu->g, x->src[0]);
    uint32_t axes = reduce_axes(fu->g, x);
    use v = {.group = u->group, .exact = u->exact};
    int rank, kept = 0;
    graph_tuple_get(fu->g, s->shape, &rank);
    for (int i = 0; i < rank; i++)
        if (!(axes >> i & 1)) v.mask[i] = u->mask[kept++];
    if (!open_axes(fu, k, s->shape, axes, closure(k, mask_of(u)), &v)) k->loops = MAX_LOOPS;
    add_use(fu, x->src[0], &v);
}

/* The kernel computes a scatter: its source and index have loops of their own, after the copy. */
static void scatter_use(fuse *fu, const graph_node *x, const use *u) {
    group *k = fu->group_[u->group];
    add_use(fu, x->src[0], u);
    use v = {.group = u->group, .exact = true};
    tuple_id shape = node_at(fu->g, x->src[1])->shape;
    open_axes(fu, k, shape, ~0u, 0, &v);
    add_use(fu, x->src[1], &v);
    add_use(fu, x->src[2], &v);
}

/* Does a movement keep every element's row-major place? */
static bool keeps_order(const fuse *fu, const graph_node *x) {
    if (x->op == OP_RESHAPE || node_size(fu, x->src[0]) == 1) return true;
    if (x->op != OP_PERMUTE) return false;
    int rank;
    const int64_t *p = graph_tuple_get(fu->g, x->attr, &rank);
    const int64_t *dims = graph_tuple_get(fu->g, node_at(fu->g, x->src[0])->shape, &rank);
    int64_t before = -1;
    for (int i = 0; i < rank; i++) {
        if ((sym)dims[p[i]] == SYM_ONE) continue;
        if (p[i] < before) return false;
        before = p[i];
    }
    return true;
}

/* Node n is computed in u's kernel under u's loops: tell its sources. */
static void push_sources(fuse *fu, node_id n, const use *u) {
    const graph_node *x = node_at(fu->g, n);
    group *k = fu->group_[u->group];
    use v;
    k->ops++;
    switch (op_rows[x->op].class_) {
    case CLASS_MOVE: {
        if (x->op == OP_PAD || x->op == OP_WINDOW || !keeps_order(fu, x)) k->flat = false;
        move_use(fu, x, u, &v);
        add_use(fu, x->src[0], &v);
        break;
    }
    case CLASS_REDUCE:
        k->flat = false;
        k->reduces++;
        reduce_use(fu, x, u);
        break;
    case CLASS_INDEX:
        k->flat = false;
        if (x->op == OP_SCATTER) {
            scatter_use(fu, x, u);
            break;
        }
        v = *u;
        v.exact = false;
        info(fu, x->src[0])->must_store = true;
        add_use(fu, x->src[0], &v);
        add_use(fu, x->src[1], u);
        break;
    default:
        if (x->op == OP_IOTA) k->flat = false;
        for (int i = 0; i < x->sources; i++) add_use(fu, x->src[i], u);
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

static uint32_t open_group(fuse *fu, node_id root) {
    group *k = arena_zeroed(fu->a, sizeof *k);
    k->root = root;
    k->flat = true;
    k->scatter = node_at(fu->g, root)->op == OP_SCATTER;
    fu->group_ = arena_grow(fu->a, fu->group_, &fu->group_cap, fu->groups + 1, sizeof *fu->group_);
    fu->group_[fu->groups] = k;
    use u = {.group = fu->groups++, .exact = true};
    open_axes(fu, k, node_at(fu->g, root)->shape, ~0u, 0, &u);
    for (uint32_t i = 0; i < k->loops; i++) k->loop[i].outer = 0; /* the order is still free */
    k->root_loops = k->loops;
    k->heavy = is_heavy(fu, node_at(fu->g, root));
    push_sources(fu, root, &u);
    return u.group;
}

static void add_node(fuse *fu, node_id **list, uint32_t *n, uint32_t *cap, node_id x) {
    for (uint32_t i = 0; i < *n; i++)
        if ((*list)[i] == x) return;
    *list = arena_grow(fu->a, *list, cap, *n + 1, sizeof **list);
    (*list)[(*n)++] = x;
}

/* Is there a path from group `from` to group `to` along readers? */
static bool reaches(fuse *fu, uint32_t from, uint32_t to) {
    if (from == to) return true;
    group *k = fu->group_[from];
    if (k->seen == fu->stamp) return false;
    k->seen = fu->stamp;
    for (uint32_t i = 0; i < k->readers; i++)
        if (reaches(fu, k->reader[i], to)) return true;
    return false;
}

/* Can the reductions of k, with one more that depends on root loops m, still be ordered? */
static bool fits_chain(const group *k, uint64_t m) {
    for (uint32_t i = 0; i < k->chains; i++)
        if ((k->chain[i] & m) != m && (k->chain[i] & m) != k->chain[i]) return false;
    return true;
}

static void add_chain(fuse *fu, group *k, uint64_t m) {
    k->chain = arena_grow(fu->a, k->chain, &k->chain_cap, k->chains + 1, sizeof *k->chain);
    k->chain[k->chains++] = m;
}

/* May reduction x run inside group k where its result depends on loops m? */
static bool reduce_fits(const fuse *fu, const graph_node *x, const group *k, uint64_t m) {
    if (k->heavy || k->scatter) return false;
    m = closure(k, m);
    if (is_heavy(fu, x)) return !k->reduces && k->ops <= MAX_EPILOGUE && m == root_set(k);
    double work = trips(k, m) * (reduced_size(fu, x) + 1) * info(fu, x->src[0])->cost;
    if (trips(k, m & root_set(k)) < few_items && work > serial_work) return false;
    return fits_chain(k, m & root_set(k));
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* A conversion of memory to something wider: a contraction does it where it packs its operands. */
static bool is_widening(const fuse *fu, const graph_node *x) {
    if (x->op != OP_CAST) return false;
    const graph_node *s = node_at(fu->g, x->src[0]);
    bool narrow = qn_dtype_size(s->dtype) < qn_dtype_size(x->dtype);
    while (op_rows[s->op].class_ == CLASS_MOVE && !is_memory(s)) s = node_at(fu->g, s->src[0]);
    return narrow && is_memory(s);
}

/* What computing n anew at each use costs more than computing it once; infinite where it cannot be.
 */
static double inline_extra(fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    fuse_node *f = info(fu, n);
    bool reduce = op_rows[x->op].class_ == CLASS_REDUCE;
    double size = node_size(fu, n), evals = 0;
    if (f->count > MAX_USES || f->crowded) return INFINITY;
    if (reduce && is_heavy(fu, x) && f->count > 1) return INFINITY;
    for (uint32_t i = 0; i < f->count; i++) {
        const group *k = fu->group_[f->uses[i].group];
        uint64_t m = mask_of(&f->uses[i]);
        if (k->ops > MAX_OPS || k->loops >= MAX_LOOPS - QN_MAX_RANK) return INFINITY;
        if (reduce && !reduce_fits(fu, x, k, m)) return INFINITY;
        if (reduce && is_heavy(fu, x) && !f->uses[i].exact) return INFINITY;
        evals += k->heavy && is_widening(fu, x) ? size : trips(k, m);
    }
    return (evals - size) * f->cost;
}

static double store_cost(const fuse *fu, node_id n) {
    const fuse_node *f = info(fu, n);
    bool one_group = true;
    for (uint32_t i = 1; i < f->count; i++) one_group &= f->uses[i].group == f->uses[0].group;
    return node_size(fu, n) * store_load + (one_group ? 2 : 1) * launch;
}

/* The loops that enclose all uses of n; false when they are not of one kernel. */
static bool common_loops(const fuse *fu, const fuse_node *f, uint64_t *m) {
    const group *k = fu->group_[f->uses[0].group];
    *m = root_set(k);
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->uses[i].group != f->uses[0].group) return false;
        *m &= closure(k, mask_of(&f->uses[i]));
    }
    return true;
}

/* The axes of n that a tile under the loops m has: those whose index moves inside. The others must
 * be at one place for all uses. */
static uint32_t tile_axes(const fuse_node *f, uint64_t m) {
    uint32_t axes = 0;
    for (int a = 0; a < f->uses[0].rank; a++)
        for (uint32_t i = 0; i < f->count; i++)
            if ((f->uses[i].mask[a] & ~m) || f->uses[i].mask[a] != f->uses[0].mask[a])
                axes |= 1u << a;
    return axes;
}

static double tile_size(const fuse *fu, node_id n, uint32_t axes) {
    int rank;
    const int64_t *d = graph_tuple_get(fu->g, node_at(fu->g, n)->shape, &rank);
    double size = 1;
    for (int i = 0; i < rank; i++)
        if (axes >> i & 1) size *= dim_size(fu->g, (sym)d[i]);
    return size;
}

/* What holding n in a tile costs; infinite where it cannot be. */
static double hold_cost(fuse *fu, node_id n, uint64_t *m, uint32_t *axes) {
    const graph_node *x = node_at(fu->g, n);
    const fuse_node *f = info(fu, n);
    if (!f->count || f->count > MAX_USES || f->crowded || fu->everything_stored) return INFINITY;
    const group *k = fu->group_[f->uses[0].group];
    if (k->heavy || k->scatter || k->ops > MAX_OPS || k->loops >= MAX_LOOPS - 2 * QN_MAX_RANK)
        return INFINITY;
    if (op_rows[x->op].class_ == CLASS_REDUCE || !common_loops(fu, f, m)) return INFINITY;
    *axes = tile_axes(f, *m);
    double tile = tile_size(fu, n, *axes), around = trips(k, *m);
    if (!*axes || tile * (double)qn_dtype_size(x->dtype) > held_bytes) return INFINITY;
    bool across = k->root_loops && (*m >> (k->root_loops - 1) & 1);
    if (across) return INFINITY; /* vectors across rows: a tile for each */
    if (around < few_items && around * tile * f->cost > serial_work) return INFINITY;
    if (!fits_chain(k, *m)) return INFINITY;
    return around * tile * (hold + f->cost) - node_size(fu, n) * f->cost;
}

/* May group u->group store n where it passes it? */
static bool can_host(fuse *fu, node_id n, const use *u) {
    const graph_node *x = node_at(fu->g, n);
    const fuse_node *f = info(fu, n);
    group *k = fu->group_[u->group];
    uint64_t m = closure(k, mask_of(u));
    if (!u->exact || k->scatter || f->crowded || k->ops > MAX_OPS) return false;
    if (x->op == OP_SCATTER || fu->everything_stored) return false;
    if (k->loops >= MAX_LOOPS - QN_MAX_RANK) return false;
    double size = node_size(fu, n), t = trips(k, m);
    if (t < size * 0.999 || t > size * 1.001) return false;
    if (k->heavy && m != root_set(k)) return false;
    if ((m & ~root_set(k)) && size * f->cost > serial_work) return false;
    if (!fits_chain(k, m & root_set(k))) return false;
    if (op_rows[x->op].class_ == CLASS_REDUCE && !reduce_fits(fu, x, k, mask_of(u))) return false;
    for (uint32_t i = 0; i < f->count; i++)
        if (&f->uses[i] != u && f->uses[i].group == u->group) return false;
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->uses[i].group == u->group) continue;
        fu->stamp++;
        if (reaches(fu, f->uses[i].group, u->group)) return false;
    }
    return true;
}

static void enter(fuse *fu, node_id n, const use *u) {
    const graph_node *x = node_at(fu->g, n);
    group *k = fu->group_[u->group];
    if (op_rows[x->op].class_ == CLASS_REDUCE) {
        add_chain(fu, k, closure(k, mask_of(u)) & root_set(k));
        if (is_heavy(fu, x)) k->heavy = true;
    }
    push_sources(fu, n, u);
}

static void store_node(fuse *fu, node_id n) {
    fuse_node *f = info(fu, n);
    uint32_t host = UINT32_MAX;
    for (uint32_t i = f->count; i-- > 0 && host == UINT32_MAX;) {
        use u = f->uses[i];
        if (!can_host(fu, n, &f->uses[i])) continue;
        host = u.group;
        group *k = fu->group_[host];
        add_chain(fu, k, closure(k, mask_of(&u)) & root_set(k));
        enter(fu, n, &u);
    }
    if (host == UINT32_MAX) host = open_group(fu, n);
    group *k = fu->group_[host];
    add_node(fu, &k->out, &k->outs, &k->out_cap, n);
    fu->f->stored[fu->f->pos[n] - 1] = 1;
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t r = f->uses[i].group;
        if (r == host) continue;
        group *reader = fu->group_[r];
        add_node(fu, &reader->in, &reader->ins, &reader->in_cap, n);
        add_node(fu, &k->reader, &k->readers, &k->reader_cap, r);
    }
}

/* Compute n once under the loops `around`, in loops of its own over the tile's axes. */
static void hold_node(fuse *fu, node_id n, uint64_t around, uint32_t axes) {
    const fuse_node *f = info(fu, n);
    group *k = fu->group_[f->uses[0].group];
    use u = f->uses[0];
    for (uint32_t i = 1; i < f->count; i++) u.exact &= f->uses[i].exact;
    add_chain(fu, k, around);
    open_axes(fu, k, node_at(fu->g, n)->shape, axes, around, &u);
    k->flat = false;
    fu->f->held[fu->f->pos[n] - 1] = axes;
    enter(fu, n, &u);
}

static void decide(fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    fuse_node *f = info(fu, n);
    if (is_memory(x)) {
        fu->f->stored[fu->f->pos[n] - 1] = 1;
        for (uint32_t i = 0; i < f->count; i++) {
            group *r = fu->group_[f->uses[i].group];
            add_node(fu, &r->in, &r->ins, &r->in_cap, n);
        }
        return;
    }
    int c = op_rows[x->op].class_;
    bool view = c == CLASS_MOVE || x->op == OP_DETACH;
    bool store = f->is_root || x->op == OP_CONTIGUOUS || x->op == OP_SCATTER || f->must_store;
    if (f->must_store && is_virtual(x)) store = true;
    if (!store && is_virtual(x)) {
        for (uint32_t i = 0; i < f->count; i++)
            if (x->op == OP_IOTA) fu->group_[f->uses[i].group]->flat = false;
        return;
    }
    uint64_t around = 0;
    uint32_t axes = 0;
    if (!store && !view) {
        double extra = fu->everything_stored ? INFINITY : inline_extra(fu, n);
        double held = hold_cost(fu, n, &around, &axes), stored = store_cost(fu, n);
        if (held < extra && held < stored) {
            hold_node(fu, n, around, axes);
            return;
        }
        store = extra > stored;
    }
    if (store) {
        store_node(fu, n);
        return;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        use u = f->uses[i];
        enter(fu, n, &u);
    }
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Root axes in loop order: first those the reductions depend on, smallest set first. */
static void order_axes(const fuse *fu, const group *k, fuse_kernel *out) {
    int rank, loop[QN_MAX_RANK], n = 0;
    const int64_t *dims = graph_tuple_get(fu->g, node_at(fu->g, k->root)->shape, &rank);
    for (int i = 0, l = 0; i < rank; i++) loop[i] = (sym)dims[i] == SYM_ONE ? -1 : l++;
    uint64_t placed = 0;
    for (;;) {
        uint64_t best = 0;
        for (uint32_t c = 0; c < k->chains; c++) {
            uint64_t m = k->chain[c] & ~placed;
            if (m && (!best || __builtin_popcountll(m) < __builtin_popcountll(best))) best = m;
        }
        if (!best) best = root_set(k) & ~placed;
        for (int i = 0; i < rank; i++)
            if (loop[i] >= 0 && best >> loop[i] & 1) out->order[n++] = (uint8_t)i;
        placed |= best;
        if (!(root_set(k) & ~placed)) break;
    }
    for (int i = 0; i < rank; i++)
        if (loop[i] < 0) out->order[n++] = (uint8_t)i;
    out->rank = (uint8_t)rank;
}

static void finish_kernel(const fuse *fu, const group *k, fuse_kernel *out) {
    *out =
        (fuse_kernel){.root = k->root, .outs = k->outs, .ins = k->ins, .out = k->out, .in = k->in};
    out->heavy = k->heavy;
    out->flat = k->flat && k->root_loops > 0;
    order_axes(fu, k, out);
}

/* Kahn's order over readers; among ready groups the one whose root comes first in the graph. */
static void order_groups(fuse *fu, fusion *f) {
    uint32_t n = fu->groups, *waits = arena_zeroed(fu->a, (n + 1) * sizeof *waits), done = 0;
    bool *taken = arena_zeroed(fu->a, n + 1);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < fu->group_[i]->readers; j++) waits[fu->group_[i]->reader[j]]++;
    f->kernel = arena_alloc(fu->a, (n + 1) * sizeof *f->kernel);
    while (done < n) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = n; i-- > 0;) { /* groups open from the last node to the first */
            if (taken[i] || waits[i]) continue;
            best = i;
            break;
        }
        if (best == UINT32_MAX)
            raise_error(fu->g->ctx, QN_EINTERNAL, "fusion: kernels form a cycle");
        taken[best] = true;
        group *k = fu->group_[best];
        for (uint32_t j = 0; j < k->readers; j++) waits[k->reader[j]]--;
        finish_kernel(fu, k, &f->kernel[done++]);
    }
    f->kernels = n;
}

static void log_fusion(const fusion *f, arena *a) {
    graph *g = f->g;
    for (uint32_t i = 0; i < f->kernels; i++) {
        const fuse_kernel *k = &f->kernel[i];
        str s;
        str_open_in(&s, a);
        str_addf(&s, "f kernel %u%s%s:", i, k->heavy ? " heavy" : "", k->flat ? " flat" : "");
        for (uint32_t j = 0; j < k->outs; j++) {
            str_addf(&s, " %s#%u", op_rows[node_at(g, k->out[j])->op].name, k->out[j]);
            shape_text(g, node_at(g, k->out[j])->shape, &s);
        }
        str_add(&s, " <-");
        for (uint32_t j = 0; j < k->ins; j++) str_addf(&s, " #%u", k->in[j]);
        log_line(g->ctx, "%s", s.s);
    }
}

fusion *fuse_build(graph *g, arena *a, uint32_t nodes, node_id *order, uint32_t roots,
                   const node_id *root, bool everything_stored) {
    fusion *f = arena_zeroed(a, sizeof *f);
    fuse fu = {.g = g, .a = a, .f = f, .everything_stored = everything_stored};
    f->g = g;
    f->nodes = nodes;
    f->order = order;
    f->pos = arena_zeroed(a, (size_t)g->nodes * sizeof *f->pos);
    f->stored = arena_zeroed(a, nodes + 1);
    f->held = arena_zeroed(a, (nodes + 1) * sizeof *f->held);
    fu.node = arena_zeroed(a, (nodes + 1) * sizeof *fu.node);
    for (uint32_t i = 0; i < nodes; i++) f->pos[order[i]] = i + 1;
    for (uint32_t i = 0; i < nodes; i++) fu.node[i].cost = node_cost(&fu, node_at(g, order[i]));
    for (uint32_t i = 0; i < roots; i++) info(&fu, root[i])->is_root = true;
    for (uint32_t i = nodes; i-- > 0;) decide(&fu, order[i]);
    order_groups(&fu, f);
    if (debug_on(g->ctx, 'f')) log_fusion(f, a);
    return f;
}
