/* use.c - the uses of nodes: under which loops an index depends, from a node to its sources.
 *
 * A use is (kernel, for each axis the set of that kernel's loops its index depends on). Walking
 * from a use to the node's sources, an elementwise node passes it on, a movement permutes the axes'
 * sets, and a reduction opens loops for the axes it sums. Sizes count the most that dimension
 * variables allow. */
#include "graph/loop/loop.h"
#include "plan/fuse.h"

enum {
    PAIR = 2,           /* additions in a vector operation */
    MOST_IN_BLOCK = 32, /* elements of a block with one scale */
    SEEN = 256          /* nodes that a sum is made of, which are looked at */
};

/* ---- small questions ------------------------------------------------------------------------- */

double fuse_dim_size(const graph *g, sym dim) {
    return (double)sym_hi(g->syms, dim);
}

static double tuple_size(const graph *g, tuple_id shape) {
    int rank;
    const int64_t *d = graph_tuple_get(g, shape, &rank);
    double n = 1;
    for (int i = 0; i < rank; i++) n *= fuse_dim_size(g, (sym)d[i]);
    return n;
}

double fuse_size(const fuse *fu, node_id n) {
    return tuple_size(fu->g, node_at(fu->g, n)->shape);
}

/* Of a load in an expression that is computed again. */
static double load_cost(const fuse *fu) {
    return (double)fu->terms.machine->load_cost;
}

/* In the unit of the costs that fusion compares (machine/fields.h): of the additions by which the
 * table of operations counts, two make one vector operation there. */
double fuse_op_cost(const graph_node *x) {
    int additions = op_cost(x->op, x->dtype);
    return additions > PAIR ? additions / (double)PAIR : 1;
}

double fuse_reduced_size(const fuse *fu, const graph_node *x) {
    return fuse_size(fu, x->src[0]) / (tuple_size(fu->g, x->shape) + 1e-300);
}

static double source_cost(const fuse *fu, node_id n) {
    bool reduced = op_rows[node_at(fu->g, n)->op].class_ == CLASS_REDUCE;
    return reduced ? load_cost(fu) : fuse_info(fu, n)->cost;
}

/* Of what a reduction reduces, one element: a sum of products multiplies first. */
double fuse_term_cost(const fuse *fu, const graph_node *x) {
    double cost = x->op == OP_SUM_PRODUCT ? x->sources - 1 : 0;
    for (int i = 0; i < x->sources; i++) cost += source_cost(fu, x->src[i]);
    return cost;
}

/* What is repeated along the last axis is computed once for a row, before the loop over it. */
static bool is_repeated_by_row(const fuse *fu, const graph_node *x) {
    int rank;
    if (x->op != OP_EXPAND) return false;
    const int64_t *dims = graph_tuple_get(fu->g, x->shape, &rank);
    const int64_t *before = graph_tuple_get(fu->g, node_at(fu->g, x->src[0])->shape, &rank);
    while (rank-- > 0 && (sym)dims[rank] == SYM_ONE) continue;
    return rank >= 0 && (sym)before[rank] == SYM_ONE;
}

/* Cost of one element with inlined elementwise sources, but reductions and memory loaded. */
double fuse_node_cost(const fuse *fu, const graph_node *x) {
    int c = op_rows[x->op].class_;
    if (c == CLASS_LEAF) return node_is_memory(x) ? load_cost(fu) : 0;
    if ((x->flags & NODE_REALIZED) || c == CLASS_CALL || c == CLASS_LOOP) return load_cost(fu);
    double cost = fuse_term_cost(fu, x);
    if (c == CLASS_ELEM || c == CLASS_INDEX || c == CLASS_SCAN) cost += fuse_op_cost(x);
    if (c == CLASS_REDUCE) cost = (cost + 1) * (fuse_reduced_size(fu, x) + 1e-9);
    if (c == CLASS_JOIN) cost += x->sources - 1; /* a choice between each two */
    if (is_repeated_by_row(fu, x)) return 0;
    return cost < 1e18 ? cost : 1e18;
}

bool fuse_is_of_halves(const fuse *fu, const graph_node *x) {
    static const double few = 1 / 8.0;
    bool found = false;
    if (node_is_memory(x) || op_rows[x->op].class_ != CLASS_ELEM) return false;
    if (x->dtype != QN_F32 && x->dtype != QN_BOOL) return false;
    for (int i = 0; i < x->sources; i++) {
        node_id n = x->src[i];
        const graph_node *s = node_at(fu->g, n);
        while (!node_is_memory(s) &&
               (op_rows[s->op].class_ == CLASS_MOVE || op_is_view_mark(s->op)))
            s = node_at(fu->g, n = s->src[0]);
        if (fuse_is_virtual(s) || fuse_size(fu, n) <= few * tuple_size(fu->g, x->shape)) continue;
        if (!dtype_is_narrow(s->dtype) && !fuse_info(fu, n)->of_halves) return false;
        found = true;
    }
    return found;
}

/* Does the operand repeat elements over the product's index space? */
static bool is_broadcast(const fuse *fu, node_id n, double size) {
    for (;;) {
        const graph_node *x = node_at(fu->g, n);
        if (fuse_size(fu, n) < 0.75 * size) return true;
        if (node_is_memory(x) || op_rows[x->op].class_ != CLASS_MOVE) return false;
        n = x->src[0];
    }
}

/* Bytes as whole numbers of 32 bits. */
static bool is_of_bytes(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    while (op_rows[x->op].class_ == CLASS_MOVE && !node_is_memory(x)) x = node_at(fu->g, x->src[0]);
    if (node_is_memory(x) || x->op != OP_CAST || x->dtype != QN_I32) return false;
    return qn_dtype_size(node_at(fu->g, x->src[0])->dtype) == 1;
}

/* A few words of bytes each, which cost less to multiply again than to store: the products of a
 * block, that are scaled and added up where they are needed (schedule/blocks/block_product.c). */
static bool is_block_product(const fuse *fu, const graph_node *x) {
    return !node_is_memory(x) && x->op == OP_SUM_PRODUCT && x->dtype == QN_I32 &&
           fuse_reduced_size(fu, x) <= MOST_IN_BLOCK && is_of_bytes(fu, x->src[0]) &&
           is_of_bytes(fu, x->src[1]);
}

static bool is_float_sum(const graph_node *x) {
    return !node_is_memory(x) && (x->op == OP_SUM || x->op == OP_SUM_PRODUCT) &&
           dtype_is_float(x->dtype);
}

/* Is n made by element of bytes in memory? Looks at so many nodes. */
static bool reads_bytes(const fuse *fu, node_id n, int *left) {
    const graph_node *x = node_at(fu->g, n);
    if (--*left < 0) return false;
    if (node_is_memory(x)) return x->dtype == QN_U8 || x->dtype == QN_I8;
    int c = op_rows[x->op].class_;
    if (c != CLASS_ELEM && c != CLASS_MOVE && c != CLASS_REDUCE) return false;
    for (int i = 0; i < x->sources; i++)
        if (reads_bytes(fu, x->src[i], left)) return true;
    return false;
}

/* Is n a float sum of block products, or of a term a group, which are made of a block's bytes? */
static bool is_of_blocks(const fuse *fu, node_id n) {
    int left = SEEN;
    return is_float_sum(node_at(fu->g, n)) &&
           (fuse_info(fu, n)->products || reads_bytes(fu, n, &left));
}

/* Are there several rows of x: is it more than its last axis? */
static bool has_rows(const fuse *fu, const graph_node *x) {
    int rank;
    const int64_t *d = graph_tuple_get(fu->g, x->shape, &rank);
    return rank > 1 && tuple_size(fu->g, x->shape) > fuse_dim_size(fu->g, (sym)d[rank - 1]);
}

void fuse_mark_blocks(fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    fuse_node *f = fuse_info(fu, n);
    int c = op_rows[x->op].class_;
    uint8_t most = 0;
    bool of_blocks = false, added = false;
    for (int i = 0; !node_is_memory(x) && i < x->sources; i++) {
        of_blocks |= fuse_info(fu, x->src[i])->of_blocks;
        added |= fuse_info(fu, x->src[i])->adds_blocks;
        if (fuse_info(fu, x->src[i])->of_blocks && fuse_info(fu, x->src[i])->products > most)
            most = fuse_info(fu, x->src[i])->products;
    }
    f->of_blocks = is_block_product(fu, x) || (of_blocks && (c == CLASS_ELEM || c == CLASS_MOVE));
    f->adds_blocks = of_blocks && is_float_sum(x);
    f->products = !f->of_blocks && !f->adds_blocks ? 0
                  : is_block_product(fu, x)        ? (uint8_t)fuse_reduced_size(fu, x)
                                                   : most;
    int sums = 0;
    for (int i = 0; c == CLASS_ELEM && added && i < x->sources; i++) {
        if (!is_of_blocks(fu, x->src[i])) continue;
        fuse_info(fu, x->src[i])->adds_blocks = true;
        sums++;
    }
    f->joins_sums = sums > 1;
    if (f->joins_sums && has_rows(fu, x)) f->must_store = true; /* a kernel has one of them */
    if (f->consumers < 2) return;
    while (!node_is_memory(x) && op_rows[x->op].class_ == CLASS_MOVE)
        x = node_at(fu->g, n = x->src[0]);
    fuse_info(fu, n)->must_store |= fuse_info(fu, n)->joins_sums;
}

/* A float sum that is added to one of block products, in its kernel: one of a term a group. */
static bool is_beside_blocks(const fuse *fu, const graph_node *x) {
    node_id n = (node_id)(x - node_at(fu->g, 0));
    return fu->f->pos[n] && fuse_info(fu, n)->adds_blocks && !fuse_info(fu, n)->products;
}

bool fuse_has_contraction(const fuse *fu, const graph_node *x) {
    if (x->op != OP_SUM_PRODUCT || is_block_product(fu, x)) return false;
    if (x->sources == 3 && !fuse_info(fu, x->src[2])->index_ops) return false;
    if (is_beside_blocks(fu, x)) return false;
    double size = fuse_size(fu, x->src[0]);
    return is_broadcast(fu, x->src[0], size) && is_broadcast(fu, x->src[1], size);
}

double fuse_terms_behind(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    int c = op_rows[x->op].class_;
    double most = 1;
    if (node_is_memory(x) || (c != CLASS_ELEM && fuse_info(fu, n)->consumers > 1)) return 1;
    if (c == CLASS_REDUCE) return fuse_has_contraction(fu, x) ? 1 : fuse_reduced_size(fu, x);
    for (int i = 0; (c == CLASS_ELEM || c == CLASS_MOVE) && i < x->sources; i++)
        if (fuse_info(fu, x->src[i])->terms > most) most = fuse_info(fu, x->src[i])->terms;
    return most;
}

/* ---- loops and uses -------------------------------------------------------------------------- */

uint64_t fuse_closure(const group *k, uint64_t m) {
    for (uint64_t todo = m; todo; todo &= todo - 1) m |= k->loop[__builtin_ctzll(todo)].outer;
    return m;
}

double fuse_trips(const group *k, uint64_t m) {
    double n = 1;
    for (m = fuse_closure(k, m); m; m &= m - 1) n *= k->loop[__builtin_ctzll(m)].extent;
    return n;
}

static bool same_use(const use *a, const use *b) {
    if (a->group != b->group || a->rank != b->rank || a->around != b->around) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->mask[i] != b->mask[i]) return false;
    return true;
}

void fuse_add_use(fuse *fu, node_id n, const use *u) {
    fuse_node *x = fuse_info(fu, n);
    bool memory = node_is_memory(node_at(fu->g, n));
    uint32_t some = 4 * FUSE_MAX_USES; /* the last ones, where thousands of kernels read pieces */
    uint32_t from = x->count > some ? x->count - some : 0;
    for (uint32_t i = from; i < x->count; i++) {
        if (!same_use(&x->uses[i], u)) continue;
        x->uses[i].exact &= u->exact;
        x->uses[i].whole &= u->whole;
        x->uses[i].straight &= u->straight;
        return;
    }
    if (x->count >= some && !memory) {
        x->crowded = true; /* stored in any case: only the kernels matter from here on */
        for (uint32_t i = from; i < x->count; i++)
            if (x->uses[i].group == u->group) {
                x->uses[i].exact = false;
                return;
            }
    }
    if (!x->cap) { /* most nodes have one use */
        x->uses = arena_alloc(fu->a, sizeof *x->uses);
        x->cap = 1;
    }
    x->uses = arena_grow(fu->a, x->uses, &x->cap, x->count + 1, sizeof *x->uses);
    x->uses[x->count++] = *u;
}

/* Node n's source s is used so; a constant that the launch gives is no node of the plan. */
static void use_source(fuse *fu, node_id n, int s, const use *u) {
    if (lift_operand(fu->f->lift, fu->f->pos[n] - 1, s) != LIFT_NONE) return;
    fuse_add_use(fu, node_at(fu->g, n)->src[s], u);
}

static int new_loop(group *k, double extent, uint64_t outer) {
    if (k->loops >= FUSE_MAX_LOOPS) return -1;
    k->loop[k->loops] = (fuse_loop){extent, outer};
    return (int)k->loops++;
}

/* ---- how an index travels from a node to its sources ----------------------------------------- */

/* What an axis counts through: an axis, or one of the loops that count through it. */
typedef struct factor {
    sym size;
    uint64_t mask;
    bool whole;
} factor;

/* The axes of x, those of which several loops count through all elements taken apart. */
static int factors_of(const fuse *fu, const graph_node *x, const use *u, factor *out) {
    const group *k = fu->group_[u->group];
    int rank, n = 0;
    const int64_t *dims = graph_tuple_get(fu->g, x->shape, &rank);
    for (int i = 0; i < rank; i++) {
        uint64_t m = u->mask[i];
        bool whole = u->whole >> i & 1;
        int64_t size;
        if (whole && m & (m - 1) && sym_is_const(fu->g->syms, (sym)dims[i], &size)) {
            for (; m; m &= m - 1) {
                int l = __builtin_ctzll(m);
                sym part = sym_const(fu->g->syms, (int64_t)k->loop[l].extent);
                out[n++] = (factor){part, 1ull << l, true};
            }
        } else {
            out[n++] = (factor){(sym)dims[i], m, whole};
        }
    }
    return n;
}

/* Factors of the result that share elements with axes of the source form groups with equal
 * products; a source axis depends on the loops of its whole group. */
static void reshape_use(const fuse *fu, const graph_node *x, const use *u, use *v) {
    factor from[FUSE_MAX_LOOPS + QN_MAX_RANK];
    int rf = factors_of(fu, x, u, from), rt;
    const int64_t *to = graph_tuple_get(fu->g, node_at(fu->g, x->src[0])->shape, &rt);
    sym_store *s = fu->g->syms;
    v->whole = 0;
    for (int i = 0, j = 0; i < rf || j < rt;) {
        int j0 = j, i0 = i, axes = 0;
        uint64_t m = 0;
        sym a = SYM_ONE, b = SYM_ONE;
        bool whole = true;
        if (i < rf) a = from[i++].size;
        if (j < rt) b = (sym)to[j++];
        while (a != b && (i < rf || j < rt)) {
            bool grow_a = j >= rt || (i < rf && sym_hi(s, a) <= sym_hi(s, b));
            if (grow_a)
                a = sym_mul(s, a, from[i++].size);
            else
                b = sym_mul(s, b, (sym)to[j++]);
        }
        for (int f = i0; f < i; f++) { /* in order: each one's loops behind those before */
            whole &= from[f].whole && (!from[f].mask || (from[f].mask & -from[f].mask) > m);
            m |= from[f].mask;
        }
        for (int t = j0; t < j; t++) axes += (sym)to[t] != SYM_ONE;
        for (int t = j0; t < j; t++) {
            v->mask[t] = (sym)to[t] == SYM_ONE ? 0 : m;
            if (whole && axes <= 1) v->whole |= (uint16_t)(1u << t);
        }
    }
    v->rank = (uint8_t)rt;
}

/* What an axis of one element is expanded to can be computed before the loop; what it is padded to
 * is another value in each trip, so all trips compute it. */
void fuse_move_use(const fuse *fu, const graph_node *x, const use *u, use *v) {
    *v = *u;
    v->straight = false;
    int rank, n;
    const int64_t *dims = graph_tuple_get(fu->g, node_at(fu->g, x->src[0])->shape, &rank);
    const int64_t *attr = graph_tuple_get(fu->g, x->attr, &n);
    switch (x->op) {
    case OP_RESHAPE:
        reshape_use(fu, x, u, v);
        break;
    case OP_PERMUTE:
        v->whole = 0;
        for (int i = 0; i < rank; i++) {
            v->mask[attr[i]] = u->mask[i];
            if (u->whole >> i & 1) v->whole |= (uint16_t)(1u << attr[i]);
        }
        break;
    case OP_EXPAND:
        for (int i = 0; i < rank; i++)
            if ((sym)dims[i] == SYM_ONE) v->mask[i] = 0;
        break;
    case OP_WINDOW:
        v->mask[attr[0]] |= u->mask[attr[1]];
        v->exact = false;
        v->whole = 0;
        break;
    case OP_PAD:
    case OP_SLICE:
        v->exact = false;
        v->whole = 0;
        break;
    case OP_FLIP:
        v->whole = 0;
        break;
    default:
        break;
    }
    const int64_t *grown = graph_tuple_get(fu->g, x->shape, &n);
    for (int i = 0; i < rank && i < v->rank; i++) {
        if ((sym)dims[i] != SYM_ONE) continue;
        if (x->op == OP_PAD && grown[i] != dims[i]) v->around |= v->mask[i];
        v->mask[i] = 0;
    }
}

/* Loops for some axes of `shape`, as masks; false when the kernel is out of loops. */
bool fuse_open_axes(fuse *fu, group *k, tuple_id shape, uint32_t axes, uint64_t outer, use *u) {
    int rank;
    const int64_t *dims = graph_tuple_get(fu->g, shape, &rank);
    u->rank = (uint8_t)rank;
    for (int i = 0; i < rank; i++) {
        if (!(axes >> i & 1)) continue;
        u->mask[i] = 0;
        u->whole |= (uint16_t)(1u << i);
        if ((sym)dims[i] == SYM_ONE) continue;
        int l = new_loop(k, fuse_dim_size(fu->g, (sym)dims[i]), outer);
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

static void reduce_use(fuse *fu, node_id n, const use *u) {
    const graph_node *x = node_at(fu->g, n);
    group *k = fu->group_[u->group];
    const graph_node *s = node_at(fu->g, x->src[0]);
    uint32_t axes = reduce_axes(fu->g, x);
    k->nested |= (fuse_mask(u) & ~fuse_root_set(k)) != 0;
    use v = {.group = u->group, .exact = u->exact, .around = u->around};
    int rank, kept = 0;
    graph_tuple_get(fu->g, s->shape, &rank);
    for (int i = 0; i < rank; i++)
        if (!(axes >> i & 1)) {
            if (u->whole >> kept & 1) v.whole |= (uint16_t)(1u << i);
            v.mask[i] = u->mask[kept++];
        }
    if (!fuse_open_axes(fu, k, s->shape, axes, fuse_closure(k, fuse_mask(u)), &v))
        k->loops = FUSE_MAX_LOOPS;
    k->reduced = v;
    for (int i = 0; i < x->sources; i++) use_source(fu, n, i, &v);
}

/* The kernel computes a scatter: its source and index have loops of their own, after the copy. */
static void scatter_use(fuse *fu, node_id n, const use *u) {
    const graph_node *x = node_at(fu->g, n);
    group *k = fu->group_[u->group];
    use_source(fu, n, 0, u);
    use v = {.group = u->group, .exact = true};
    tuple_id shape = node_at(fu->g, x->src[1])->shape;
    fuse_open_axes(fu, k, shape, ~0u, 0, &v);
    fuse_add_use(fu, x->src[1], &v);
    use_source(fu, n, 2, &v);
}

/* Does a movement keep every element's row-major place? */
static bool keeps_order(const fuse *fu, const graph_node *x) {
    if (x->op == OP_RESHAPE || fuse_size(fu, x->src[0]) == 1) return true;
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

/* ---- what is gathered from ------------------------------------------------------------------- */

/* The axis of the reshape's source that axis `a` of the reshape is a part of, alone or with its
 * neighbours; -1: it goes through several. */
static int reshaped_axis(const fuse *fu, const graph_node *x, int a) {
    int rf, rt;
    const int64_t *from = graph_tuple_get(fu->g, x->shape, &rf);
    const int64_t *to = graph_tuple_get(fu->g, node_at(fu->g, x->src[0])->shape, &rt);
    sym_store *s = fu->g->syms;
    for (int i = 0, j = 0; i < rf;) {
        const int j0 = j;
        int axis = -1, axes = 0;
        sym product = (sym)from[i++], behind = j < rt ? (sym)to[j++] : SYM_ONE;
        while (product != behind && (i < rf || j < rt)) {
            if (j >= rt || (i < rf && sym_hi(s, product) <= sym_hi(s, behind)))
                product = sym_mul(s, product, (sym)from[i++]);
            else
                behind = sym_mul(s, behind, (sym)to[j++]);
        }
        if (product != behind) return -1;
        if (i <= a) continue;
        for (int t = j0; t < j; t++) {
            if ((sym)to[t] == SYM_ONE) continue;
            axis = t;
            axes++;
        }
        return axes == 1 ? axis : -1;
    }
    return -1;
}

/* Will n's value be in memory, whoever reads it? */
static bool is_stored_anyway(const fuse *fu, node_id n) {
    const graph_node *x = node_at(fu->g, n);
    const fuse_node *f = fuse_info(fu, n);
    return node_is_memory(x) || f->is_root || f->must_store || x->op == OP_SCATTER ||
           x->op == OP_CONTIGUOUS || fuse_is_call(x);
}

/* What gather x reads: behind views of what is in memory anyway that memory, where an element of
 * the view lies at a number times its place along the gathered axis, beside what its other places
 * come to. Else the view itself, which is copied. (lower_gather) */
static node_id gathered_from(const fuse *fu, const graph_node *x) {
    int n, rank = 0;
    int a = (int)graph_tuple_get(fu->g, x->attr, &n)[0];
    for (node_id from = x->src[0], in_order;;) {
        const graph_node *v = node_at(fu->g, in_order = from);
        while (!is_stored_anyway(fu, in_order) && (op_is_view_mark(v->op) || v->op == OP_RESHAPE))
            v = node_at(fu->g, in_order = v->src[0]);
        if (is_stored_anyway(fu, in_order)) return in_order;
        v = node_at(fu->g, from);
        const int64_t *attr = graph_tuple_get(fu->g, v->attr, &n);
        if (v->op == OP_RESHAPE) a = reshaped_axis(fu, v, a);
        if (v->op == OP_EXPAND && (sym)node_dims(fu->g, v->src[0], &rank)[a] == SYM_ONE) a = -1;
        if (v->op == OP_PERMUTE) {
            /* across the rows of memory only what is not more than would be copied */
            bool across = attr[n - 1] != n - 1;
            if (across && tuple_size(fu->g, x->shape) > fuse_size(fu, from)) return x->src[0];
            a = (int)attr[a];
        }
        bool passes = op_is_view_mark(v->op) || v->op == OP_RESHAPE || v->op == OP_EXPAND ||
                      v->op == OP_PERMUTE || v->op == OP_SLICE || v->op == OP_FLIP;
        if (!passes || a < 0) return x->src[0];
        from = v->src[0];
    }
}

/* The launch in u reads value n whole. */
static void call_use(fuse *fu, node_id n, const use *u) {
    use v = {.group = u->group};
    v.rank = (uint8_t)node_rank(fu->g, n);
    fuse_info(fu, n)->must_store = true;
    fuse_add_use(fu, n, &v);
}

/* Node n is computed in u's kernel under u's loops: add the uses of its sources. */
void fuse_push_sources(fuse *fu, node_id n, const use *u) {
    const graph_node *x = node_at(fu->g, n);
    group *k = fu->group_[u->group];
    use v;
    k->ops++;
    k->code += fuse_op_cost(x);
    switch (op_rows[x->op].class_) {
    case CLASS_MOVE: {
        if (x->op == OP_PAD || x->op == OP_WINDOW || !keeps_order(fu, x)) k->flat = false;
        fuse_move_use(fu, x, u, &v);
        use_source(fu, n, 0, &v);
        break;
    }
    case CLASS_JOIN:
        k->flat = false;
        fuse_push_pieces(fu, x, u);
        break;
    case CLASS_REDUCE:
        k->flat = false;
        k->reduces++;
        reduce_use(fu, n, u);
        break;
    case CLASS_CALL:
        k->flat = false;
        for (int i = 0; i < x->sources; i++) call_use(fu, x->src[i], u);
        break;
    case CLASS_LOOP: {
        node_id *value;
        uint32_t values = list_values(fu->g, fu->a, node_at(fu->g, x->src[0])->src[0], &value);
        k->flat = false;
        for (uint32_t i = 0; i < values; i++) call_use(fu, value[i], u);
        break;
    }
    case CLASS_INDEX:
        k->flat = false;
        if (x->op == OP_SCATTER) {
            scatter_use(fu, n, u);
            break;
        }
        v = *u;
        v.exact = v.straight = false;
        fuse_info(fu, gathered_from(fu, x))->must_store = true;
        fuse_add_use(fu, x->src[0], &v);
        fuse_add_use(fu, x->src[1], u);
        break;
    case CLASS_SCAN: {
        scan_attr s = node_scan(fu->g, x);
        k->flat = false;
        k->scan = fuse_scan_way(s);
        fuse_add_chain(fu, k, fuse_root_set(k) & ~u->mask[s.axis]);
        for (int i = 0; i < x->sources; i++) use_source(fu, n, i, u);
        break;
    }
    default:
        if (x->op == OP_IOTA) k->flat = false;
        for (int i = 0; i < x->sources; i++) use_source(fu, n, i, u);
    }
}
