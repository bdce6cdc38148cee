/* request.c - the value of a node at an index, as an expression: see lower.c.
 *
 * Requests are memoized by (node, index vector, validity), so what is computed once in the graph is
 * computed once per index in the kernel. */
#include "lower/request.h"

/* ---- memoized requests ----------------------------------------------------------------------- */

static bool same_answer(const void *key, uint32_t id, const void *user) {
    const answer *a = key, *b = &((const lower *)user)->known[id - 1];
    return a->node == b->node && a->rank == b->rank && a->valid == b->valid &&
           !memcmp(a->index, b->index, (size_t)a->rank * sizeof *a->index);
}

static uint64_t answer_hash(const answer *a) {
    return hash_bytes(a->index, (size_t)a->rank * sizeof *a->index,
                      hash_mix(a->node, (uint64_t)a->rank << 32 | a->valid));
}

uint32_t lower_find(lower *l, const answer *key, uint64_t *hash) {
    *hash = answer_hash(key);
    return idset_find(&l->known_set, *hash, same_answer, key, l);
}

uint32_t lower_remember(lower *l, const answer *a, uint64_t hash) {
    l->known = arena_grow(&l->k->arena, l->known, &l->known_cap, l->knowns + 1, sizeof *l->known);
    l->known[l->knowns++] = *a;
    idset_add(&l->known_set, hash, l->knowns);
    return l->knowns;
}

uint32_t lower_place_in_order(const lower *l, node_id n) {
    return l->f->pos[n] - 1;
}

static bool inside(lower *l, int rank, const sym *dim, const sym *index) {
    sym_store *s = l->k->syms;
    for (int i = 0; i < rank; i++) {
        if (sym_ge0(s, index[i]) != SYM_TRUE) return false;
        if (sym_lt(s, index[i], dim[i]) != SYM_TRUE) return false;
    }
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* x's source s at that place: a constant may be the launch's. */
expr_id lower_operand(lower *l, const graph_node *x, int s, const at *p) {
    uint32_t slot = lift_operand(l->f->lift, lower_place_in_order(l, (node_id)(x - l->g->node)), s);
    const graph_node *from = node_at(l->g, x->src[s]);
    if (slot == LIFT_NONE) return lower_request(l, x->src[s], p);
    if (l->f->lift->most[slot] == LIFT_NUMBER) return lower_parameter(l, slot, from->dtype);
    sym v = lower_slot(l, slot);
    return ir_index(l->k,
                    lift_is_negative(l->f->lift, slot, from) ? sym_scale(l->k->syms, v, -1) : v);
}

static expr_id constant(lower *l, node_id n) {
    const graph_node *x = node_at(l->g, n);
    uint32_t slot = lift_fill(l->f->lift, lower_place_in_order(l, n));
    if (slot == LIFT_NONE) return ir_const_bits(l->k, x->dtype, x->bits);
    return lower_parameter(l, slot, x->dtype);
}

static const graph_node *behind_moves(const lower *l, node_id n) {
    const graph_node *x = node_at(l->g, n);
    while (op_rows[x->op].class_ == CLASS_MOVE || op_rows[x->op].class_ == CLASS_MARK)
        x = node_at(l->g, x->src[0]);
    return x;
}

/* The largest of s along one axis, or that where it is finite and a number elsewhere. */
static bool is_largest_of(const lower *l, node_id s, node_id n) {
    const graph_node *x = behind_moves(l, n);
    if (x->op == OP_WHERE) {
        const graph_node *is = node_at(l->g, x->src[0]), *size = node_at(l->g, is->src[0]);
        if (is->op != OP_EQ || size->op != OP_ABS || size->src[0] != x->src[2]) return false;
        if (behind_moves(l, x->src[1])->op != OP_CONST) return false;
        x = behind_moves(l, x->src[2]);
    }
    int axes = 0;
    if (x->op == OP_MAX) graph_tuple_get(l->g, x->attr, &axes);
    return axes == 1 && x->src[0] == s;
}

/* Whether n is what a softmax takes the exponential of: a score less its row's largest, and the
 * difference times numbers. */
static bool is_below_largest(const lower *l, node_id n) {
    const graph_node *x = node_at(l->g, n);
    if (x->dtype != QN_F32 && x->dtype != QN_F64) return false;
    for (int number = 0; x->op == OP_MUL; x = node_at(l->g, x->src[!number])) {
        number = behind_moves(l, x->src[0])->op == OP_CONST ? 0 : 1;
        if (behind_moves(l, x->src[number])->op != OP_CONST) return false;
    }
    return x->op == OP_SUB && is_largest_of(l, x->src[0], x->src[1]);
}

/* Of a kernel that sums rows by a softmax's weights, none of which is seen: e^-83 is 2^-120, and
 * less beside the largest, 1, counts as 0. So is what a mask of -100 leaves, which would be too
 * small for a normal float, and products of that take Intel's processors 150 cycles each. Such are
 * quotients by sums of up to 64 neither. */
static expr_id without_least(lower *l, expr_id d) {
    return ir_cut_below(l->k, d, ir_e(l->k, d)->dtype == QN_F32 ? -83 : -704);
}

/* What is computed here as itself. */
static bool is_own_root(const lower *l, node_id n) {
    return n == l->fk->root && !l->fk->piece.into;
}

expr_id lower_compute(lower *l, node_id n, const at *p) {
    const graph_node *x = node_at(l->g, n);
    expr_id arg[3] = {0};
    switch (op_rows[x->op].class_) {
    case CLASS_LEAF:
        if (x->op == OP_CONST) return constant(l, n);
        int count;
        sym i = p->index[graph_tuple_get(l->g, x->attr, &count)[0]];
        return ir_cast(l->k, x->dtype, ir_index(l->k, i));
    case CLASS_MOVE:
        return lower_move(l, x, p);
    case CLASS_JOIN:
        return lower_join(l, x, p);
    case CLASS_REDUCE:
        return lower_reduce(l, n, p);
    case CLASS_INDEX:
        return lower_gather(l, x, p);
    case CLASS_MARK:
        return lower_request(l, x->src[0], p);
    case CLASS_SCAN:
        return lower_scan(l, x, p);
    default:
        for (int s = 0; s < x->sources; s++) arg[s] = lower_operand(l, x, s, p);
        if (x->op == OP_CAST) return ir_cast(l->k, x->dtype, arg[0]);
        if (x->op == OP_EXP && l->fk->rows && is_below_largest(l, x->src[0]))
            arg[0] = without_least(l, arg[0]);
        return ir_op(l->k, x->op, x->dtype, x->sources, arg);
    }
}

static bool stored_here(const lower *l, node_id n) {
    for (uint32_t i = 0; i < l->fk->outs; i++)
        if (l->fk->out[i] == n) return true;
    return false;
}

/* Index into a tile by the axes that are no row of the kernel. */
sym lower_own_place(lower *l, const fuse_share *x, int rank, const sym *dim, const sym *index) {
    sym offset = SYM_ZERO;
    for (int i = 0; i < rank; i++)
        if (!x->row[i]) offset = sym_add(l->k->syms, sym_mul(l->k->syms, offset, dim[i]), index[i]);
    return offset;
}

/* A contraction over the kernel's rows, when its sum is complete; 0: n is none. */
expr_id lower_partial_sum(lower *l, node_id n, const at *p) {
    for (uint32_t s = 0; s < l->fk->shares; s++) {
        const fuse_share *x = &l->fk->share[s];
        if (x->sum != n || !l->partial[s]) continue;
        const graph_node *sum = node_at(l->g, n);
        int axes, rank;
        const int64_t *summed = graph_tuple_get(l->g, sum->attr, &axes);
        sym dim[QN_MAX_RANK], index[QN_MAX_RANK];
        rank = lower_node_shape(l, sum->src[0], dim);
        for (int i = 0, a = 0, kept = 0; i < rank; i++) {
            bool gone = a < axes && summed[a] == i;
            index[i] = gone ? SYM_ZERO : p->index[kept++];
            a += gone;
        }
        sym at_ = lower_own_place(l, x, rank, dim, index);
        expr_id v = ir_load(l->k, l->partial[s], at_, p->valid, 0, 0);
        return ir_cast(l->k, sum->dtype, v);
    }
    return 0;
}

static expr_id fetch(lower *l, node_id n, const at *p) {
    expr_id sum = lower_partial_sum(l, n, p);
    if (sum) return sum;
    bool own = is_own_root(l, n);
    if (own || !stored_here(l, n)) {
        if (!own && fuse_is_stored(l->f, n))
            return ir_load(l->k, lower_argument(l, n, ACCESS_READ), lower_offset_of(l, n, p),
                           p->valid, 0, 0);
        uint32_t axes = own || p->valid != SYM_TRUE ? 0 : fuse_buffered_axes(l->fk, n);
        return axes ? lower_buffer(l, n, p, axes) : lower_compute(l, n, p);
    }
    expr_id v = lower_compute(l, n, p);
    int depth = lower_depth_of(l, p);
    mem_id m = lower_argument(l, n, ACCESS_WRITE);
    lower_place(l, depth,
                ir_store(l->k, l->path[depth - 1], MONOID_SET,
                         (ir_place){m, lower_offset_of(l, n, p), p->valid}, v));
    return v;
}

expr_id lower_request(lower *l, node_id n, const at *p) {
    answer key = {.node = n, .rank = p->rank, .valid = p->valid};
    sym dim[QN_MAX_RANK];
    memcpy(key.index, p->index, (size_t)p->rank * sizeof *p->index);
    if (p->valid != SYM_TRUE && inside(l, lower_node_shape(l, n, dim), dim, p->index))
        key.valid = SYM_TRUE;
    uint64_t h;
    uint32_t id = lower_find(l, &key, &h);
    if (id) return l->known[id - 1].value;
    at q = *p;
    q.valid = key.valid;
    key.value = fetch(l, n, &q);
    lower_remember(l, &key, h);
    return key.value;
}
