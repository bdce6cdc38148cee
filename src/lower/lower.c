/* lower.c - from a fused region of the graph to an unscheduled loop tree.
 *
 * The root's axes become loops; then the root's value at the loop variables is requested. A request
 * (node, index vector) gives an expression: elementwise nodes pass it on, movement nodes rewrite
 * the index, stored nodes load. A reduction becomes statements: a register accumulator, its loops,
 * an update; they are placed at the deepest loop its index depends on, before the loop the request
 * comes from, and the request's result is a load of the accumulator. So softmax comes out as one
 * outer loop with three inner ones without a rule for softmax. A further output of the kernel is
 * stored the same way: at the deepest loop its index depends on.
 *
 * Requests are memoized by (node, index vector, validity), so one reduction is computed once per
 * index. `valid` is passed down from padding: where it is false the value is not used, but loads
 * must not touch memory; it is dropped as soon as the index is provably in bounds.
 *
 * Invariant: path[0..depth) are the loops open at this point, each the parent of the next; path[0]
 * is the tree's root. */
#include <stdio.h>

#include "lower/lower.h"

enum { MAX_PATH = 96 };

/* Kernels for any length have two variants: lengths from here on are scheduled as large. */
enum { LARGE = 1 << 23 };

typedef struct answer {
    node_id node;
    int rank;
    sym index[QN_MAX_RANK];
    sym valid;
    expr_id value;
} answer;

typedef struct lower {
    qn_ctx *qn;
    graph *g;
    const fusion *f;
    const fuse_kernel *fk;
    kernel *k;
    lowered *out;
    uint32_t arg_cap;
    mem_id *memory; /* of each argument */
    uint32_t memory_cap;
    expr_id *param; /* of each of out->param */
    uint32_t param_cap, expr_cap;
    sym *var_from, *var_to; /* dimension variables, graph's and ours */
    uint32_t froms, from_cap, to_cap, var_cap;
    sym length; /* of a flat kernel */
    stmt_id path[MAX_PATH];
    int depth;
    uint32_t loops;  /* reduction loops made, for their names */
    mem_id *partial; /* the tile of partial sums of each of fk->share[] that is complete, else 0 */
    answer *known;
    uint32_t knowns, known_cap;
    idset known_set;
} lower;

typedef struct at { /* an index into a node */
    int rank;
    sym index[QN_MAX_RANK];
    sym valid;
} at;

static expr_id request(lower *l, node_id n, const at *p);
static expr_id operand(lower *l, const graph_node *x, int s, const at *p);
static expr_id compute(lower *l, node_id n, const at *p);

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

static uint32_t remember(lower *l, const answer *a, uint64_t hash) {
    l->known = arena_grow(&l->k->arena, l->known, &l->known_cap, l->knowns + 1, sizeof *l->known);
    l->known[l->knowns++] = *a;
    idset_add(&l->known_set, hash, l->knowns);
    return l->knowns;
}

static uint32_t place_in_order(const lower *l, node_id n) {
    return l->f->pos[n] - 1;
}

/* ---- dimensions ------------------------------------------------------------------------------ */

/* One more dimension variable, and what a launch gives for it. */
static sym add_variable(lower *l, const char *name, int64_t lo, int64_t hi, int given) {
    uint32_t n = (uint32_t)l->out->vars;
    l->out->var = arena_grow(&l->k->arena, l->out->var, &l->var_cap, n + 1, sizeof *l->out->var);
    l->out->var[n] = given;
    l->out->vars++;
    return ir_dim_var(l->k, name, lo, hi);
}

/* The variable for which a launch gives that, 0: there is none yet. */
static sym find_variable(const lower *l, int given) {
    for (int i = 0; i < l->out->vars; i++)
        if (l->out->var[i] == given) return l->k->dim_var[i];
    return SYM_ZERO;
}

static void import_variable(lower *l, uint32_t number) {
    sym v = l->g->var[number];
    const sym_store *s = l->g->syms;
    if (find_variable(l, (int)number) != SYM_ZERO) return;
    arena *a = &l->k->arena;
    l->var_from = arena_grow(a, l->var_from, &l->from_cap, l->froms + 1, sizeof *l->var_from);
    l->var_to = arena_grow(a, l->var_to, &l->to_cap, l->froms + 1, sizeof *l->var_to);
    l->var_from[l->froms] = v;
    l->var_to[l->froms++] =
        add_variable(l, sym_name(s, v), sym_lo(s, v), sym_hi(s, v), (int)number);
}

static sym import_dim(lower *l, sym dim) {
    int64_t c;
    if (sym_is_const(l->g->syms, dim, &c)) return sym_const(l->k->syms, c);
    for (uint32_t i = 0; i < l->g->vars; i++)
        if (sym_uses(l->g->syms, dim, l->g->var[i])) import_variable(l, i);
    return sym_import(l->k->syms, l->g->syms, dim, (int)l->froms, l->var_from, l->var_to);
}

/* Where a slice begins, or where padding puts its source. */
static sym offset_along(lower *l, const graph_node *x, int axis, int64_t written) {
    const plan_lift *lift = l->f->lift;
    uint32_t slot = lift_offset(lift, place_in_order(l, (node_id)(x - l->g->node)), axis);
    if (slot == LIFT_NONE) return import_dim(l, (sym)written);
    sym known = find_variable(l, LOWER_SLOT(slot));
    if (known != SYM_ZERO) return known;
    return add_variable(l, "at", 0, lift->most[slot], LOWER_SLOT(slot));
}

static int import_shape(lower *l, tuple_id shape, sym *dim) {
    int rank;
    const int64_t *d = graph_tuple_get(l->g, shape, &rank);
    for (int i = 0; i < rank; i++) dim[i] = import_dim(l, (sym)d[i]);
    return rank;
}

static int node_shape(lower *l, node_id n, sym *dim) {
    return import_shape(l, node_at(l->g, n)->shape, dim);
}

static sym numel(lower *l, int rank, const sym *dim) {
    sym n = SYM_ONE;
    for (int i = 0; i < rank; i++) n = sym_mul(l->k->syms, n, dim[i]);
    return n;
}

/* The row-major offset of an index. */
static sym flatten(lower *l, int rank, const sym *dim, const sym *index) {
    sym_store *s = l->k->syms;
    sym at_ = SYM_ZERO;
    for (int i = 0; i < rank; i++) at_ = sym_add(s, sym_mul(s, at_, dim[i]), index[i]);
    return at_;
}

static void unflatten(lower *l, sym offset, int rank, const sym *dim, sym *index) {
    sym_store *s = l->k->syms;
    for (int i = rank; i-- > 0;) {
        sym d = sym_lo(s, dim[i]) >= 1 ? dim[i] : sym_max(s, dim[i], SYM_ONE);
        index[i] = i ? sym_mod(s, offset, d) : offset;
        if (dim[i] == SYM_ONE) index[i] = SYM_ZERO;
        offset = sym_div(s, offset, d);
    }
}

static bool inside(lower *l, int rank, const sym *dim, const sym *index) {
    sym_store *s = l->k->syms;
    for (int i = 0; i < rank; i++) {
        if (sym_ge0(s, index[i]) != SYM_TRUE) return false;
        if (sym_lt(s, index[i], dim[i]) != SYM_TRUE) return false;
    }
    return true;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static mem_id new_argument(lower *l, node_id n, sym size, int access, sym base) {
    lowered *o = l->out;
    uint32_t cap = l->arg_cap;
    o->arg = arena_grow(&l->k->arena, o->arg, &l->arg_cap, o->args + 1, sizeof *o->arg);
    o->base = arena_grow(&l->k->arena, o->base, &cap, o->args + 1, sizeof *o->base);
    l->memory = arena_grow(&l->k->arena, l->memory, &l->memory_cap, o->args + 1, sizeof *l->memory);
    o->arg[o->args] = n;
    o->base[o->args] = base;
    l->memory[o->args] = ir_arg(l->k, node_at(l->g, n)->dtype, size, access);
    return l->memory[o->args++];
}

static mem_id argument(lower *l, node_id n, int access) {
    lowered *o = l->out;
    for (uint32_t i = 0; i < o->args; i++) {
        if (o->arg[i] != n) continue;
        ir_m(l->k, l->memory[i])->access |= (uint8_t)access;
        return l->memory[i];
    }
    sym dim[QN_MAX_RANK];
    int rank = node_shape(l, n, dim);
    sym size = l->fk->flat && numel(l, rank, dim) != SYM_ONE ? l->length : numel(l, rank, dim);
    return new_argument(l, n, size, access, SYM_ZERO);
}

/* Offset of index p in node n's memory. */
static sym offset_of(lower *l, node_id n, const at *p) {
    if (l->fk->flat) return p->rank ? p->index[0] : SYM_ZERO;
    sym dim[QN_MAX_RANK];
    int rank = node_shape(l, n, dim);
    return flatten(l, rank, dim, p->index);
}

/* ---- numbers that the launch gives ----------------------------------------------------------- */

static expr_id parameter(lower *l, uint32_t slot, int dtype) {
    lowered *o = l->out;
    for (uint32_t i = 0; i < o->params; i++)
        if (o->param[i] == slot) return l->param[i];
    o->param = arena_grow(&l->k->arena, o->param, &l->param_cap, o->params + 1, sizeof *o->param);
    l->param = arena_grow(&l->k->arena, l->param, &l->expr_cap, o->params + 1, sizeof *l->param);
    o->param[o->params] = slot;
    return l->param[o->params++] = ir_param(l->k, (qn_dtype)dtype);
}

/* x's source s at that place: a constant may be the launch's. */
static expr_id operand(lower *l, const graph_node *x, int s, const at *p) {
    uint32_t slot = lift_operand(l->f->lift, place_in_order(l, (node_id)(x - l->g->node)), s);
    if (slot == LIFT_NONE) return request(l, x->src[s], p);
    return parameter(l, slot, node_at(l->g, x->src[s])->dtype);
}

static expr_id constant(lower *l, node_id n) {
    const graph_node *x = node_at(l->g, n);
    uint32_t slot = lift_fill(l->f->lift, place_in_order(l, n));
    if (slot == LIFT_NONE) return ir_const_bits(l->k, x->dtype, x->bits);
    return parameter(l, slot, x->dtype);
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* The kernel's root as a piece of something larger: as much of that one's memory as lies between
 * the piece's first and last element. Large ones that begin on a cache line are like any other
 * output, which may go past the caches. */
static mem_id piece_argument(lower *l) {
    const fuse_piece *p = &l->fk->piece;
    sym_store *s = l->k->syms;
    sym own[QN_MAX_RANK], all[QN_MAX_RANK], last = SYM_ZERO, base = fuse_piece_base(l->g, p);
    int rank = node_shape(l, l->fk->root, own);
    node_shape(l, p->into, all);
    for (int i = 0; i < rank; i++)
        last = sym_add(s, sym_mul(s, last, all[i]), sym_sub(s, own[i], SYM_ONE));
    sym size = l->fk->flat ? l->length : sym_add(s, last, SYM_ONE);
    int64_t first, width = (int64_t)qn_dtype_size(node_at(l->g, p->into)->dtype);
    bool aligned = sym_is_const(l->g->syms, base, &first) && first % (64 / width) == 0;
    bool large = sym_lo(s, size) >= LARGE;
    return new_argument(l, p->into, size, ACCESS_WRITE | (aligned && large ? 0 : ACCESS_PIECE),
                        base);
}

static sym piece_offset(lower *l, const at *p) {
    sym all[QN_MAX_RANK];
    if (l->fk->flat) return p->rank ? p->index[0] : SYM_ZERO;
    int rank = node_shape(l, l->fk->piece.into, all);
    return flatten(l, rank, all, p->index);
}

/* What is computed here as itself. */
static bool is_own_root(const lower *l, node_id n) {
    return n == l->fk->root && !l->fk->piece.into;
}

static expr_id truth(lower *l, sym p);

/* A choice by place. A piece that is off here is not computed, nor loaded. */
static expr_id join(lower *l, const graph_node *x, const at *p) {
    sym_store *s = l->k->syms;
    const int axis = node_join_axis(l->g, x);
    sym dim[QN_MAX_RANK], before = SYM_ZERO;
    expr_id value[3] = {0}, v = 0;
    sym ends[3] = {SYM_ZERO};
    for (int i = 0; i < x->sources; i++) {
        at src = *p;
        node_shape(l, x->src[i], dim);
        src.index[axis] = sym_sub(s, p->index[axis], before);
        before = ends[i] = sym_add(s, before, dim[axis]);
        sym here = sym_and(s, sym_ge0(s, src.index[axis]), sym_lt(s, src.index[axis], dim[axis]));
        src.valid = sym_and(s, p->valid, here);
        if (dim[axis] == SYM_ONE) src.index[axis] = SYM_ZERO;
        if (src.valid != SYM_FALSE) value[i] = request(l, x->src[i], &src);
    }
    for (int i = x->sources; i-- > 0;) {
        if (!value[i]) continue;
        sym in_front = sym_lt(s, p->index[axis], ends[i]);
        v = v && in_front != SYM_TRUE ? ir_op3(l->k, OP_WHERE, truth(l, in_front), value[i], v)
                                      : value[i];
    }
    return v ? v : ir_const_bits(l->k, x->dtype, 0);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* How many loops of the path must be open for the index (and validity) to be defined. */
static int depth_of(const lower *l, const at *p) {
    for (int d = l->depth; d-- > 1;) {
        sym v = ir_s(l->k, l->path[d])->l.var;
        if (sym_uses(l->k->syms, p->valid, v)) return d + 1;
        for (int i = 0; i < p->rank; i++)
            if (sym_uses(l->k->syms, p->index[i], v)) return d + 1;
    }
    return 1;
}

/* Move a statement just appended to path[depth-1] before the loop the request came from. */
static void place(lower *l, int depth, stmt_id s) {
    if (depth >= l->depth) return;
    ir_move(l->k, s, l->path[depth - 1], l->path[depth]);
}

static stmt_id open_loop(lower *l, const char *prefix, int number, sym extent) {
    if (l->depth >= MAX_PATH) raise_error(l->qn, QN_EINTERNAL, "kernel nests too deep");
    char name[24];
    snprintf(name, sizeof name, "%s%d", prefix, number);
    stmt_id s = ir_loop(l->k, l->path[l->depth - 1], LOOP_SERIAL, name, extent);
    l->path[l->depth++] = s;
    return s;
}

/* ---- reductions ------------------------------------------------------------------------------ */

typedef struct state { /* a reduction's accumulator */
    int monoid, n;
    mem_id tile[IR_STATES];
    qn_dtype dtype[IR_STATES];
} state;

static state open_state(lower *l, const graph_node *x, int depth) {
    qn_dtype d = node_at(l->g, x->src[0])->dtype;
    state t = {.monoid = monoid_of_reduction(x->op)};
    t.n = monoid_rows[t.monoid].states;
    t.dtype[0] = (qn_dtype)dtype_rows[d].acc;
    t.dtype[1] = QN_I64;
    for (int i = 0; i < t.n; i++) {
        t.tile[i] = ir_tile(l->k, MEM_REG, t.dtype[i], SYM_ONE);
        expr_id identity = ir_identity(l->k, t.monoid, i, t.dtype[i]);
        place(l, depth, ir_def(l->k, l->path[depth - 1], t.tile[i], identity));
    }
    return t;
}

/* Loops over the reduced axes; fills the source's index and the flat index among the axes. */
static void open_axes(lower *l, const graph_node *x, const at *p, at *src, sym *flat) {
    sym dim[QN_MAX_RANK];
    int n, rank = node_shape(l, x->src[0], dim), kept = 0;
    const int64_t *axes = graph_tuple_get(l->g, x->attr, &n);
    src->rank = rank;
    src->valid = p->valid;
    *flat = SYM_ZERO;
    for (int i = 0, a = 0; i < rank; i++) {
        if (a == n || axes[a] != i) {
            src->index[i] = p->index[kept++];
            continue;
        }
        a++;
        src->index[i] = SYM_ZERO;
        if (dim[i] != SYM_ONE) {
            stmt_id s = open_loop(l, "r", (int)l->loops++, dim[i]);
            src->index[i] = ir_s(l->k, s)->l.var;
        }
        *flat = sym_add(l->k->syms, sym_mul(l->k->syms, *flat, dim[i]), src->index[i]);
    }
}

/* An integer computed from indices only, as a sym; of a condition its truth. */
static bool place_of(lower *l, expr_id e, sym *out) {
    const ir_expr x = *ir_e(l->k, e);
    sym_store *s = l->k->syms;
    sym a, b;
    if (x.kind == EXPR_INDEX) return *out = x.index, true;
    if (x.kind == EXPR_CONST && !dtype_is_float(x.dtype))
        return *out = sym_const(s, scalar_from_bits((qn_dtype)x.dtype, x.bits).i), true;
    if (x.kind != EXPR_OP || x.n != 2) return false;
    if (!place_of(l, x.arg[0], &a) || !place_of(l, x.arg[1], &b)) return false;
    bool bools = ir_e(l->k, x.arg[0])->dtype == QN_BOOL;
    switch (x.op) {
    case OP_ADD:
        return *out = sym_add(s, a, b), !bools;
    case OP_SUB:
        return *out = sym_sub(s, a, b), !bools;
    case OP_LE:
        return *out = sym_ge0(s, sym_sub(s, b, a)), !bools;
    case OP_LT:
        return *out = sym_lt(s, a, b), !bools;
    case OP_AND:
        return *out = sym_and(s, a, b), bools;
    default:
        return false;
    }
}

/* where(c, x, identity) is x, updated only where c holds: a condition on indices becomes the
 * store's mask, which the transforms can exploit. */
static expr_id update_value(lower *l, const state *t, expr_id value, sym *valid) {
    expr_id identity = ir_identity(l->k, t->monoid, 0, t->dtype[0]);
    const ir_expr x = *ir_e(l->k, value);
    *valid = SYM_TRUE;
    if (x.kind != EXPR_OP || x.op != OP_WHERE || x.arg[2] != identity) return value;
    return t->n == 1 && place_of(l, x.arg[0], valid) ? x.arg[1] : value;
}

/* x, perhaps a product, rounded as its node is: in an update by SUM a bare product is contracted
 * and not rounded (passes.c). */
static expr_id rounded(lower *l, expr_id value) {
    const ir_expr x = *ir_e(l->k, value);
    if (x.kind != EXPR_OP || !dtype_is_float(x.dtype)) return value;
    if (x.op == OP_WHERE)
        return ir_op3(l->k, OP_WHERE, x.arg[0], rounded(l, x.arg[1]), rounded(l, x.arg[2]));
    if (x.op != OP_MUL) return value;
    qn_dtype whole = qn_dtype_size(x.dtype) == 8 ? QN_U64 : QN_U32;
    return ir_op(l->k, OP_BITCAST, x.dtype, 1,
                 (expr_id[]){ir_op(l->k, OP_BITCAST, whole, 1, &value)});
}

/* The term of reduction x at that index of its sources, and its mask. */
static expr_id term_of(lower *l, const graph_node *x, const state *t, const at *p, sym *valid) {
    expr_id a = ir_cast(l->k, t->dtype[0], operand(l, x, 0, p));
    if (x->op != OP_SUM_PRODUCT) {
        a = update_value(l, t, a, valid);
        return x->op == OP_SUM ? rounded(l, a) : a;
    }
    expr_id b = ir_cast(l->k, t->dtype[0], operand(l, x, 1, p));
    expr_id product = ir_op2(l->k, OP_MUL, a, b);
    if (x->sources == 3)
        product = ir_op3(l->k, OP_WHERE, request(l, x->src[2], p), product,
                         ir_const_bits(l->k, t->dtype[0], 0));
    return update_value(l, t, product, valid);
}

static expr_id reduce(lower *l, node_id n, const at *p) {
    const graph_node *x = node_at(l->g, n);
    stmt_id saved[MAX_PATH];
    int saved_depth = l->depth, depth = depth_of(l, p);
    memcpy(saved, l->path, sizeof saved);
    state t = open_state(l, x, depth);
    at src;
    sym flat;
    /* the nest is built at the end of path[depth-1], then moved before the loop the request came
     * from */
    l->depth = depth;
    open_axes(l, x, p, &src, &flat);
    stmt_id first = l->depth > depth ? l->path[depth] : 0;
    if (first && depth < saved_depth) {
        ir_move(l->k, first, l->path[depth - 1], saved[depth]);
    }
    stmt_id parent = l->path[l->depth - 1];
    if (!first)
        l->depth = saved_depth; /* all axes have size 1: the source is placed like the request */
    ir_stmt store = {.kind = STMT_STORE, .monoid = (uint8_t)t.monoid, .n = (uint8_t)t.n};
    sym valid;
    store.store.value[0] = term_of(l, x, &t, &src, &valid);
    store.store.valid = valid;
    if (t.n > 1) store.store.value[1] = ir_index(l->k, flat);
    for (int i = 0; i < t.n; i++) store.store.mem[i] = t.tile[i];
    stmt_id s = ir_store_n(l->k, parent, &store);
    memcpy(l->path, saved, sizeof saved);
    l->depth = saved_depth;
    if (!first) place(l, depth, s);
    expr_id v = ir_load(l->k, t.tile[t.n - 1], SYM_ZERO, SYM_TRUE, 0, 0);
    return ir_cast(l->k, x->dtype, v);
}

/* ---- tiles --------------------------------------------------------------------------------- */

/* The key of a tile: its node, and the indices of the axes that it lacks. A request is never made
 * where it is known to be invalid, so no request's key is a tile's. */
static answer tile_key(node_id n, const at *p, uint32_t axes) {
    answer key = {.node = n, .rank = p->rank, .valid = SYM_FALSE};
    for (int i = 0; i < p->rank; i++) key.index[i] = axes >> i & 1 ? SYM_ZERO : p->index[i];
    return key;
}

/* A tile with the node's values over `axes`, made before the loop the request came from and under
 * the loops that the other axes' indices depend on. */
static mem_id make_tile(lower *l, node_id n, const answer *key, uint32_t axes) {
    at src = {.rank = key->rank, .valid = SYM_TRUE};
    sym dim[QN_MAX_RANK], size = SYM_ONE, offset = SYM_ZERO;
    node_shape(l, n, dim);
    memcpy(src.index, key->index, sizeof src.index);
    for (int i = 0; i < src.rank; i++)
        if (axes >> i & 1) size = sym_mul(l->k->syms, size, dim[i]);
    stmt_id saved[MAX_PATH];
    int saved_depth = l->depth, depth = depth_of(l, &src);
    memcpy(saved, l->path, sizeof saved);
    mem_id tile = ir_tile(l->k, MEM_LOCAL, node_at(l->g, n)->dtype, size);
    place(l, depth, ir_def(l->k, l->path[depth - 1], tile, 0));
    l->depth = depth;
    for (int i = 0; i < src.rank; i++) {
        if (!(axes >> i & 1)) continue;
        if (dim[i] != SYM_ONE)
            src.index[i] = ir_s(l->k, open_loop(l, "h", (int)l->loops++, dim[i]))->l.var;
        offset = sym_add(l->k->syms, sym_mul(l->k->syms, offset, dim[i]), src.index[i]);
    }
    stmt_id first = l->path[depth];
    if (depth < saved_depth) {
        ir_move(l->k, first, l->path[depth - 1], saved[depth]);
    }
    stmt_id parent = l->path[l->depth - 1];
    ir_store(l->k, parent, MONOID_SET, tile, offset, SYM_TRUE, compute(l, n, &src));
    memcpy(l->path, saved, sizeof saved);
    l->depth = saved_depth;
    return tile;
}

static expr_id hold(lower *l, node_id n, const at *p, uint32_t axes) {
    answer key = tile_key(n, p, axes);
    uint64_t h = answer_hash(&key);
    uint32_t id = idset_find(&l->known_set, h, same_answer, &key, l);
    if (!id) {
        key.value = make_tile(l, n, &key, axes);
        id = remember(l, &key, h);
    }
    sym dim[QN_MAX_RANK], offset = SYM_ZERO;
    int rank = node_shape(l, n, dim);
    for (int i = 0; i < rank; i++)
        if (axes >> i & 1)
            offset = sym_add(l->k->syms, sym_mul(l->k->syms, offset, dim[i]), p->index[i]);
    return ir_load(l->k, l->known[id - 1].value, offset, SYM_TRUE, 0, 0);
}

/* ---- movement -------------------------------------------------------------------------------- */

static expr_id zero(lower *l, qn_dtype d) {
    return ir_const_bits(l->k, d, 0);
}

static expr_id truth(lower *l, sym p) {
    return ir_op2(l->k, OP_NE, ir_index(l->k, p), ir_const_i(l->k, QN_I64, 0));
}

/* The source where `cond` holds, which src.valid implies, too, else zero. */
static expr_id inside_or_zero(lower *l, const graph_node *x, const at *src, sym cond) {
    if (src->valid == SYM_FALSE) return zero(l, x->dtype);
    expr_id v = operand(l, x, 0, src);
    const ir_expr *e = ir_e(l->k, v);
    if (cond == SYM_TRUE) return v;
    if (e->kind == EXPR_LOAD && sym_and(l->k->syms, e->load.valid, src->valid) == e->load.valid)
        return v;
    return ir_op3(l->k, OP_WHERE, truth(l, cond), v, zero(l, x->dtype));
}

/* Padding: inside the source's extent the source, else zero. A load does that by its mask. */
static expr_id pad(lower *l, const graph_node *x, const at *p) {
    sym_store *s = l->k->syms;
    sym dim[QN_MAX_RANK];
    int n, rank = node_shape(l, x->src[0], dim);
    const int64_t *attr = graph_tuple_get(l->g, x->attr, &n);
    sym cond = SYM_TRUE;
    at src = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        sym lo = offset_along(l, x, i, attr[3 * i]);
        int64_t step = attr[3 * i + 2] + 1;
        sym j = sym_sub(s, p->index[i], lo), q = j;
        if (step > 1) {
            sym by = sym_const(s, step);
            q = sym_div(s, j, by);
            cond = sym_and(s, cond, sym_eq(s, sym_mod(s, j, by), SYM_ZERO));
        }
        cond = sym_and(s, cond, sym_ge0(s, q));
        cond = sym_and(s, cond, sym_lt(s, q, dim[i]));
        src.index[i] = q;
    }
    src.valid = sym_and(s, p->valid, cond);
    return inside_or_zero(l, x, &src, cond);
}

/* A window, likewise: the index along its axis is a sum of two. */
static expr_id window(lower *l, const graph_node *x, const at *p) {
    sym_store *s = l->k->syms;
    window_attr w = node_window(l->g, x);
    sym dim[QN_MAX_RANK];
    at src = *p;
    node_shape(l, x->src[0], dim);
    sym to =
        sym_add(s, sym_scale(s, p->index[w.axis], w.stride), sym_scale(s, p->index[w.by], w.slope));
    to = sym_add(s, to, import_dim(l, w.start));
    src.index[w.axis] = to;
    if (dim[w.by] == SYM_ONE) src.index[w.by] = SYM_ZERO;
    sym cond = sym_and(s, sym_ge0(s, to), sym_lt(s, to, dim[w.axis]));
    src.valid = sym_and(s, p->valid, cond);
    return inside_or_zero(l, x, &src, cond);
}

/* Reshape by groups of axes of equal size, so that an unchanged axis keeps its index: a division of
 * an index beyond its padded edge would never simplify. */
static void reshape(lower *l, int rf, const sym *from, const sym *index, int rt, const sym *to,
                    sym *out) {
    sym_store *s = l->k->syms;
    for (int i = 0, j = 0; i < rf || j < rt;) {
        int i0 = i, j0 = j;
        sym a = SYM_ONE, b = SYM_ONE;
        if (i < rf) a = from[i++];
        if (j < rt) b = to[j++];
        while (a != b && (i < rf || j < rt)) {
            bool grow_a = j >= rt || (i < rf && sym_hi(s, a) <= sym_hi(s, b));
            if (grow_a)
                a = sym_mul(s, a, from[i++]);
            else
                b = sym_mul(s, b, to[j++]);
        }
        if (a != b) { /* sizes that are equal but not provably so: all at once */
            unflatten(l, flatten(l, rf, from, index), rt, to, out);
            return;
        }
        while (i0 < i && from[i0] == SYM_ONE) i0++;
        while (j0 < j && to[j0] == SYM_ONE) out[j0++] = SYM_ZERO;
        unflatten(l, flatten(l, i - i0, from + i0, index + i0), j - j0, to + j0, out + j0);
    }
}

static expr_id move(lower *l, const graph_node *x, const at *p) {
    sym_store *s = l->k->syms;
    sym dim[QN_MAX_RANK], from[QN_MAX_RANK];
    int n, rank = node_shape(l, x->src[0], dim);
    const int64_t *attr = graph_tuple_get(l->g, x->attr, &n);
    at src = {.rank = rank, .valid = p->valid};
    if (l->fk->flat) { /* equal sizes in row-major order, or a scalar repeated */
        src.rank = numel(l, rank, dim) == SYM_ONE ? 0 : 1;
        src.index[0] = p->index[0];
        return operand(l, x, 0, &src);
    }
    switch (x->op) {
    case OP_RESHAPE:
        reshape(l, import_shape(l, x->shape, from), from, p->index, rank, dim, src.index);
        break;
    case OP_PERMUTE:
        for (int i = 0; i < rank; i++) src.index[attr[i]] = p->index[i];
        break;
    case OP_EXPAND:
        for (int i = 0; i < rank; i++) src.index[i] = dim[i] == SYM_ONE ? SYM_ZERO : p->index[i];
        break;
    case OP_SLICE:
        for (int i = 0; i < rank; i++)
            src.index[i] = sym_add(s, offset_along(l, x, i, attr[3 * i]),
                                   sym_scale(s, p->index[i], attr[3 * i + 2]));
        break;
    default: /* FLIP */
        for (int i = 0; i < rank; i++) src.index[i] = p->index[i];
        for (int i = 0; i < n; i++) {
            sym last = sym_sub(s, dim[attr[i]], SYM_ONE);
            src.index[attr[i]] = sym_sub(s, last, p->index[attr[i]]);
        }
    }
    return operand(l, x, 0, &src);
}

/* ---- computed indices ------------------------------------------------------------------------ */

/* The computed part of an address: index * stride, and whether the index is in [0, size). */
static void computed(lower *l, expr_id index, sym stride, sym size, expr_id *dyn,
                     expr_id *in_range) {
    expr_id i = ir_cast(l->k, QN_I64, index);
    expr_id low = ir_op2(l->k, OP_LE, ir_const_i(l->k, QN_I64, 0), i);
    expr_id high = ir_op2(l->k, OP_LT, i, ir_index(l->k, size));
    *in_range = ir_op2(l->k, OP_AND, low, high);
    *dyn = stride == SYM_ONE ? i : ir_op2(l->k, OP_MUL, i, ir_index(l->k, stride));
}

static expr_id gather(lower *l, const graph_node *x, const at *p) {
    int n;
    int axis = (int)graph_tuple_get(l->g, x->attr, &n)[0];
    sym dim[QN_MAX_RANK];
    int rank = node_shape(l, x->src[0], dim);
    at rest = *p;
    rest.index[axis] = SYM_ZERO;
    expr_id dyn, in_range, index = request(l, x->src[1], p);
    computed(l, index, numel(l, rank - axis - 1, dim + axis + 1), dim[axis], &dyn, &in_range);
    mem_id m = argument(l, x->src[0], ACCESS_READ);
    return ir_load(l->k, m, flatten(l, rank, dim, rest.index), p->valid, dyn, in_range);
}

/* The kernel of a scatter: copy x, then combine src into it, one after the other. */
static void scatter(lower *l, node_id root) {
    const graph_node *x = node_at(l->g, root);
    int n;
    const int64_t *attr = graph_tuple_get(l->g, x->attr, &n);
    int axis = (int)attr[0];
    sym dim[QN_MAX_RANK], loop[QN_MAX_RANK];
    int rank = node_shape(l, root, dim);
    mem_id m = argument(l, root, ACCESS_WRITE | ACCESS_READ);
    at p = {.rank = rank, .valid = SYM_TRUE};
    for (int i = 0; i < rank; i++)
        p.index[i] = dim[i] == SYM_ONE ? SYM_ZERO : ir_s(l->k, open_loop(l, "i", i, dim[i]))->l.var;
    ir_store(l->k, l->path[l->depth - 1], MONOID_SET, m, flatten(l, rank, dim, p.index), SYM_TRUE,
             operand(l, x, 0, &p));
    l->depth = 1;
    node_shape(l, x->src[1], loop);
    for (int i = 0; i < rank; i++)
        p.index[i] =
            loop[i] == SYM_ONE ? SYM_ZERO : ir_s(l->k, open_loop(l, "s", i, loop[i]))->l.var;
    ir_stmt st = {.kind = STMT_STORE, .monoid = (uint8_t)attr[1], .n = 1};
    expr_id index = request(l, x->src[1], &p);
    st.store.value[0] = operand(l, x, 2, &p);
    computed(l, index, numel(l, rank - axis - 1, dim + axis + 1), dim[axis], &st.store.dyn,
             &st.store.guard);
    p.index[axis] = SYM_ZERO;
    st.store.mem[0] = m;
    st.store.valid = SYM_TRUE;
    st.store.index = flatten(l, rank, dim, p.index);
    ir_store_n(l->k, l->path[l->depth - 1], &st);
}

/* ---- requests -------------------------------------------------------------------------------- */

static expr_id compute(lower *l, node_id n, const at *p) {
    const graph_node *x = node_at(l->g, n);
    expr_id arg[3] = {0};
    switch (op_rows[x->op].class_) {
    case CLASS_LEAF:
        if (x->op == OP_CONST) return constant(l, n);
        int count;
        sym i = p->index[graph_tuple_get(l->g, x->attr, &count)[0]];
        return ir_cast(l->k, x->dtype, ir_index(l->k, i));
    case CLASS_MOVE:
        return x->op == OP_PAD      ? pad(l, x, p)
               : x->op == OP_WINDOW ? window(l, x, p)
                                    : move(l, x, p);
    case CLASS_JOIN:
        return join(l, x, p);
    case CLASS_REDUCE:
        return reduce(l, n, p);
    case CLASS_INDEX:
        return gather(l, x, p);
    case CLASS_MARK:
        return request(l, x->src[0], p);
    default:
        for (int s = 0; s < x->sources; s++) arg[s] = operand(l, x, s, p);
        if (x->op == OP_CAST) return ir_cast(l->k, x->dtype, arg[0]);
        return ir_op(l->k, x->op, x->dtype, x->sources, arg);
    }
}

static bool stored_here(const lower *l, node_id n) {
    for (uint32_t i = 0; i < l->fk->outs; i++)
        if (l->fk->out[i] == n) return true;
    return false;
}

/* Index into a tile by the axes that are no row of the kernel. */
static sym own_place(lower *l, const fuse_share *x, int rank, const sym *dim, const sym *index) {
    sym offset = SYM_ZERO;
    for (int i = 0; i < rank; i++)
        if (!x->row[i]) offset = sym_add(l->k->syms, sym_mul(l->k->syms, offset, dim[i]), index[i]);
    return offset;
}

/* A contraction over the kernel's rows, when its sum is complete; 0: n is none. */
static expr_id partial_sum(lower *l, node_id n, const at *p) {
    for (uint32_t s = 0; s < l->fk->shares; s++) {
        const fuse_share *x = &l->fk->share[s];
        if (x->sum != n || !l->partial[s]) continue;
        const graph_node *sum = node_at(l->g, n);
        int axes, rank;
        const int64_t *summed = graph_tuple_get(l->g, sum->attr, &axes);
        sym dim[QN_MAX_RANK], index[QN_MAX_RANK];
        rank = node_shape(l, sum->src[0], dim);
        for (int i = 0, a = 0, kept = 0; i < rank; i++) {
            bool gone = a < axes && summed[a] == i;
            index[i] = gone ? SYM_ZERO : p->index[kept++];
            a += gone;
        }
        sym at_ = own_place(l, x, rank, dim, index);
        expr_id v = ir_load(l->k, l->partial[s], at_, p->valid, 0, 0);
        return ir_cast(l->k, sum->dtype, v);
    }
    return 0;
}

static expr_id fetch(lower *l, node_id n, const at *p) {
    expr_id sum = partial_sum(l, n, p);
    if (sum) return sum;
    bool own = is_own_root(l, n);
    if (own || !stored_here(l, n)) {
        if (!own && fuse_is_stored(l->f, n))
            return ir_load(l->k, argument(l, n, ACCESS_READ), offset_of(l, n, p), p->valid, 0, 0);
        uint32_t axes = own || p->valid != SYM_TRUE ? 0 : fuse_buffered_axes(l->fk, n);
        return axes ? hold(l, n, p, axes) : compute(l, n, p);
    }
    expr_id v = compute(l, n, p);
    int depth = depth_of(l, p);
    mem_id m = argument(l, n, ACCESS_WRITE);
    place(l, depth,
          ir_store(l->k, l->path[depth - 1], MONOID_SET, m, offset_of(l, n, p), p->valid, v));
    return v;
}

static expr_id request(lower *l, node_id n, const at *p) {
    answer key = {.node = n, .rank = p->rank, .valid = p->valid};
    sym dim[QN_MAX_RANK];
    memcpy(key.index, p->index, (size_t)p->rank * sizeof *p->index);
    if (p->valid != SYM_TRUE && inside(l, node_shape(l, n, dim), dim, p->index))
        key.valid = SYM_TRUE;
    uint64_t h = answer_hash(&key);
    uint32_t id = idset_find(&l->known_set, h, same_answer, &key, l);
    if (id) return l->known[id - 1].value;
    at q = *p;
    q.valid = key.valid;
    key.value = fetch(l, n, &q);
    remember(l, &key, h);
    return key.value;
}

/* ---- a kernel -------------------------------------------------------------------------------- */

static void root_loops(lower *l, at *p) {
    sym dim[QN_MAX_RANK];
    const fuse_kernel *fk = l->fk;
    p->valid = SYM_TRUE;
    if (fk->flat) {
        int64_t size;
        bool large = sym_is_const(l->k->syms, numel(l, node_shape(l, fk->root, dim), dim), &size) &&
                     size >= LARGE;
        sym n = add_variable(l, "n", large ? LARGE : 0, (int64_t)1 << 40, LOWER_LENGTH);
        l->length = n;
        p->rank = 1;
        p->index[0] = ir_s(l->k, open_loop(l, "i", 0, n))->l.var;
        return;
    }
    p->rank = node_shape(l, fk->root, dim);
    for (int i = 0; i < fk->rank; i++) {
        int a = fk->order[i];
        p->index[a] = SYM_ZERO;
        if (dim[a] == SYM_ONE) continue;
        p->index[a] = ir_s(l->k, open_loop(l, "i", a, dim[a]))->l.var;
    }
}

/* Index of the root's axis number `which`, from 1, among those in the set. */
static sym index_of_axis(const at *root, uint32_t set, int which) {
    while (--which) set &= set - 1;
    return root->index[__builtin_ctz(set)];
}

/* Open the axes of a further root or of its operand: for each axis the root's index of the axis
 * that `shared` gives, from 1 and among those in the set, or a loop of its own; those of size 1
 * have none. */
static void open_own(lower *l, at *p, const uint8_t *shared, const at *root, uint32_t set,
                     const sym *dim) {
    p->valid = SYM_TRUE;
    for (int i = 0; i < p->rank; i++) {
        p->index[i] = SYM_ZERO;
        if (dim[i] == SYM_ONE) continue;
        p->index[i] = shared[i] ? index_of_axis(root, set, shared[i])
                                : ir_s(l->k, open_loop(l, "g", (int)l->loops++, dim[i]))->l.var;
    }
}

/* A further root of the kernel, under the loops that it shares with the first one. */
static void sibling(lower *l, fuse_axes x, const at *root) {
    sym dim[QN_MAX_RANK];
    uint8_t shared[QN_MAX_RANK] = {0};
    at p = {.rank = node_shape(l, x.node, dim)};
    for (int i = 0, n = 0; i < p.rank; i++)
        if (x.axes >> i & 1) shared[i] = (uint8_t)++n;
    l->depth = 1 + (l->fk->flat ? 1 : __builtin_popcount(l->fk->common));
    if (l->fk->flat)
        p = *root;
    else
        open_own(l, &p, shared, root, l->fk->common, dim);
    mem_id m = argument(l, x.node, ACCESS_WRITE);
    expr_id v = compute(l, x.node, &p);
    ir_store(l->k, l->path[l->depth - 1], MONOID_SET, m, offset_of(l, x.node, &p), SYM_TRUE, v);
}

/* A further root that sums over the rows: its terms inside each row, behind the rows its epilogue;
 * the partial sums are kept in a tile in the loops around. */
static void share(lower *l, uint32_t number, const at *root) {
    const fuse_share *x = &l->fk->share[number];
    const graph_node *sum = node_at(l->g, x->sum);
    int around = __builtin_popcount(l->fk->rows); /* of the path: the root and all rows but one */
    sym dim[QN_MAX_RANK], size = SYM_ONE;
    at p = {.rank = node_shape(l, sum->src[0], dim)};
    for (int i = 0; i < p.rank; i++)
        if (!x->row[i]) size = sym_mul(l->k->syms, size, dim[i]);
    state t = open_state(l, sum, around);
    ir_memory *wide = ir_m(l->k, t.tile[0]);
    wide->size = size;
    wide->scope = MEM_LOCAL;
    l->depth = around + 1;
    open_own(l, &p, x->row, root, l->fk->rows, dim);
    sym valid, place_ = own_place(l, x, p.rank, dim, p.index);
    expr_id value = term_of(l, sum, &t, &p, &valid);
    ir_store(l->k, l->path[l->depth - 1], t.monoid, t.tile[0], place_, valid, value);

    l->partial[number] = t.tile[0];
    l->depth = around;
    at q = {.rank = node_shape(l, x->root, dim)};
    open_own(l, &q, x->root_row, root, l->fk->rows, dim);
    mem_id m = argument(l, x->root, ACCESS_WRITE);
    value = x->root == x->sum ? partial_sum(l, x->sum, &q) : compute(l, x->root, &q);
    ir_store(l->k, l->path[l->depth - 1], MONOID_SET, m, offset_of(l, x->root, &q), SYM_TRUE,
             value);
}

/* What a trace shows: the ops of the kernel, root last. */
static const char *name_kernel(lower *l) {
    str s;
    str_open_in(&s, &l->k->arena);
    for (uint32_t i = l->fk->outs; i-- > 0 && s.len < 48;)
        str_addf(&s, "%s%s", s.len ? "." : "", op_rows[node_at(l->g, l->fk->out[i])->op].name);
    str_add(&s, l->fk->has_contraction ? ".contract" : l->fk->flat ? ".flat" : "");
    if (!l->fk->flat) shape_text(l->g, node_at(l->g, l->fk->root)->shape, &s);
    return s.s;
}

void lower_kernel(qn_ctx *qn, const fusion *f, const fuse_kernel *fk, lowered *out) {
    *out = (lowered){0};
    kernel *k = out->k = ir_open(qn);
    lower *l = arena_zeroed(&k->arena, sizeof *l);
    *l = (lower){.qn = qn, .g = f->g, .f = f, .fk = fk, .k = k, .out = out};
    l->partial = arena_zeroed(&k->arena, (fk->shares + 1) * sizeof *l->partial);
    idset_open(&l->known_set, &qn->heap);
    l->path[l->depth++] = k->root;
    cleanup c;
    cleanup_push(&qn->heap, &c, idset_cleanup, &l->known_set);
    if (node_at(f->g, fk->root)->op == OP_SCATTER && !fk->piece.into) {
        scatter(l, fk->root);
    } else {
        at p;
        root_loops(l, &p);
        mem_id m = fk->piece.into ? piece_argument(l) : argument(l, fk->root, ACCESS_WRITE);
        sym offset = fk->piece.into ? piece_offset(l, &p) : offset_of(l, fk->root, &p);
        expr_id v = request(l, fk->root, &p);
        ir_store(k, l->path[l->depth - 1], MONOID_SET, m, offset, SYM_TRUE, v);
        for (uint32_t i = 0; i < fk->siblings; i++) sibling(l, fk->sibling[i], &p);
        for (uint32_t i = 0; i < fk->shares; i++) share(l, i, &p);
        if (!fk->has_contraction) fuse_reductions(k);
        inplace_order_stores(k);
    }
    k->name = name_kernel(l);
    if (sym_overflowed(k->syms))
        raise_error(qn, QN_ERANGE, "index arithmetic beyond 63 bits in %s", k->name);
    cleanup_run(&qn->heap, &c);
}
