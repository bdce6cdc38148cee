/* reduce.c - reductions, scans and tiles, as lowering meets them: statements that are placed at the
 * deepest loop that their index depends on, before the loop the request comes from. */
#include <stdio.h>

#include "lower/request.h"

/* ---- places ---------------------------------------------------------------------------------- */

/* How many loops of the path must be open for the index (and validity) to be defined. */
int lower_depth_of(const lower *l, const at *p) {
    for (int d = l->depth; d-- > 1;) {
        sym v = ir_s(l->k, l->path[d])->l.var;
        if (sym_uses(l->k->syms, p->valid, v)) return d + 1;
        for (int i = 0; i < p->rank; i++)
            if (sym_uses(l->k->syms, p->index[i], v)) return d + 1;
    }
    return 1;
}

/* Move a statement just appended to path[depth-1] before the loop the request came from. */
void lower_place(lower *l, int depth, stmt_id s) {
    if (depth >= l->depth) return;
    ir_move(l->k, s, l->path[depth - 1], l->path[depth]);
}

stmt_id lower_open_loop(lower *l, const char *prefix, int number, sym extent) {
    if (l->depth >= LOWER_MAX_PATH) raise_error(l->qn, QN_EINTERNAL, "kernel nests too deep");
    char name[24];
    snprintf(name, sizeof name, "%s%d", prefix, number);
    stmt_id s = ir_loop(l->k, l->path[l->depth - 1], LOOP_SERIAL, name, extent);
    l->path[l->depth++] = s;
    return s;
}

/* ---- reductions ------------------------------------------------------------------------------ */

state lower_open_state(lower *l, int by, qn_dtype d, int depth) {
    state t = {.monoid = by};
    t.n = monoid_rows[t.monoid].states;
    for (int i = 0; i < t.n; i++) {
        t.dtype[i] = monoid_dtype(t.monoid, i, d);
        t.tile[i] = ir_tile(l->k, MEM_REG, t.dtype[i], SYM_ONE);
        expr_id identity = ir_identity(l->k, t.monoid, i, t.dtype[i]);
        lower_place(l, depth, ir_def(l->k, l->path[depth - 1], t.tile[i], identity));
    }
    return t;
}

/* Loops over the reduced axes; fills the source's index and the flat index among the axes. */
static void open_axes(lower *l, const graph_node *x, const at *p, at *src, sym *flat) {
    sym dim[QN_MAX_RANK];
    int n, rank = lower_node_shape(l, x->src[0], dim), kept = 0;
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
            stmt_id s = lower_open_loop(l, "r", (int)l->loops++, dim[i]);
            src->index[i] = ir_s(l->k, s)->l.var;
        }
        *flat = sym_add(l->k->syms, sym_mul(l->k->syms, *flat, dim[i]), src->index[i]);
    }
}

/* Expressions that were looked at, by expr_id: what is shared is so once. */
typedef struct places {
    uint8_t *known; /* 0, or */
    sym *sym;
} places;
enum { NO_PLACE = 1, PLACE };

static bool find_place(lower *l, places *p, expr_id e, sym *out);

static bool make_place(lower *l, places *p, expr_id e, sym *out) {
    const ir_expr x = *ir_e(l->k, e);
    sym_store *s = l->k->syms;
    sym a, b;
    if (x.kind == EXPR_INDEX) return *out = x.index, true;
    if (x.kind == EXPR_CONST && !dtype_is_float(x.dtype))
        return *out = sym_const(s, scalar_from_bits((qn_dtype)x.dtype, x.bits).i), true;
    if (x.kind != EXPR_OP || x.n != 2) return false;
    if (!find_place(l, p, x.arg[0], &a) || !find_place(l, p, x.arg[1], &b)) return false;
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

static bool find_place(lower *l, places *p, expr_id e, sym *out) {
    if (!p->known[e]) p->known[e] = make_place(l, p, e, &p->sym[e]) ? PLACE : NO_PLACE;
    if (p->known[e] == PLACE) *out = p->sym[e];
    return p->known[e] == PLACE;
}

/* An integer computed from indices only, as a sym; of a condition its truth. */
static bool place_of(lower *l, expr_id e, sym *out) {
    arena *a = &l->k->arena;
    places p = {arena_zeroed(a, e + 1), arena_zeroed(a, (e + 1) * sizeof *p.sym)};
    return find_place(l, &p, e, out);
}

/* where(c, x, identity) is x, updated only where c holds: a condition on indices becomes the
 * store's mask, which the transforms can exploit. */
static expr_id update_value(lower *l, const state *t, expr_id value, sym *valid) {
    const ir_expr x = *ir_e(l->k, value);
    *valid = SYM_TRUE;
    if (t->n > 1) return value; /* where an element's state is not known to be the identity */
    expr_id identity = ir_identity(l->k, t->monoid, 0, t->dtype[0]);
    if (x.kind != EXPR_OP || x.op != OP_WHERE || x.arg[2] != identity) return value;
    return place_of(l, x.arg[0], valid) ? x.arg[1] : value;
}

/* x, perhaps a product, rounded as its node is: in an update by SUM a bare product is contracted
 * and not rounded (passes.c). */
static expr_id rounded_once(lower *l, expr_id *done, expr_id value) {
    const ir_expr x = *ir_e(l->k, value);
    if (x.kind != EXPR_OP || !dtype_is_float(x.dtype) || done[value])
        return done[value] ? done[value] : value;
    if (x.op == OP_WHERE) {
        expr_id yes = rounded_once(l, done, x.arg[1]), no = rounded_once(l, done, x.arg[2]);
        return done[value] = ir_op3(l->k, OP_WHERE, x.arg[0], yes, no);
    }
    if (x.op != OP_MUL) return value;
    qn_dtype whole = qn_dtype_size(x.dtype) == 8 ? QN_U64 : QN_U32;
    return ir_op(l->k, OP_BITCAST, x.dtype, 1,
                 (expr_id[]){ir_op(l->k, OP_BITCAST, whole, 1, &value)});
}

static expr_id rounded(lower *l, expr_id value) {
    const ir_expr *x = ir_e(l->k, value);
    bool looks = x->kind == EXPR_OP && (x->op == OP_WHERE || x->op == OP_MUL);
    if (!looks) return value;
    return rounded_once(l, arena_zeroed(&l->k->arena, (value + 1) * sizeof(expr_id)), value);
}

/* The term of reduction x at that index of its sources, and its mask. */
expr_id lower_term(lower *l, const graph_node *x, const state *t, const at *p, sym *valid) {
    qn_dtype d = (qn_dtype)dtype_rows[node_at(l->g, x->src[0])->dtype].acc;
    expr_id a = ir_cast(l->k, d, lower_operand(l, x, 0, p));
    if (x->op != OP_SUM_PRODUCT) {
        a = update_value(l, t, a, valid);
        return x->op == OP_SUM ? rounded(l, a) : a;
    }
    expr_id b = ir_cast(l->k, d, lower_operand(l, x, 1, p));
    expr_id product = ir_op2(l->k, OP_MUL, a, b);
    if (x->sources == 3)
        product = ir_op3(l->k, OP_WHERE, lower_request(l, x->src[2], p), product,
                         ir_const_bits(l->k, d, 0));
    return update_value(l, t, product, valid);
}

/* A component of the state of one element: of these terms, at that flat index. */
static expr_id lifted(lower *l, const state *t, int component, const expr_id *term, sym flat) {
    qn_dtype d = t->dtype[component];
    switch (monoid_rows[t->monoid].part[component].lift) {
    case LIFT_SECOND:
        return term[1];
    case LIFT_PLACE:
        return ir_cast(l->k, d, ir_index(l->k, flat));
    case LIFT_ONE:
        return ir_cast(l->k, d, ir_const_i(l->k, QN_I64, 1));
    case LIFT_ZERO:
        return ir_const_bits(l->k, d, 0);
    default:
        return term[0];
    }
}

static expr_id finished(lower *l, const state *t) {
    expr_id part[IR_STATES] = {0};
    for (int i = 0; i < t->n; i++) part[i] = ir_load(l->k, t->tile[i], SYM_ZERO, SYM_TRUE, 0, 0);
    return ir_finish(l->k, t->monoid, part);
}

expr_id lower_reduce(lower *l, node_id n, const at *p) {
    const graph_node *x = node_at(l->g, n);
    stmt_id saved[LOWER_MAX_PATH];
    int saved_depth = l->depth, depth = lower_depth_of(l, p);
    memcpy(saved, l->path, sizeof saved);
    int by = monoid_of_reduction(x->op);
    state t = lower_open_state(l, by, node_at(l->g, x->src[0])->dtype, depth);
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
    expr_id term = lower_term(l, x, &t, &src, &valid);
    store.store.valid = valid;
    for (int i = 0; i < t.n; i++) {
        store.store.mem[i] = t.tile[i];
        store.store.value[i] = lifted(l, &t, i, (expr_id[]){term, 0}, flat);
    }
    stmt_id s = ir_store_n(l->k, parent, &store);
    memcpy(l->path, saved, sizeof saved);
    l->depth = saved_depth;
    if (!first) lower_place(l, depth, s);
    return ir_cast(l->k, x->dtype, finished(l, &t));
}

/* ---- scans ----------------------------------------------------------------------------------- */

/* How many loops are open around the one along the axis that p's index goes through last. */
static int around_loop_of(lower *l, const at *p, int axis) {
    for (int d = l->depth; d-- > 1;)
        if (sym_uses(l->k->syms, p->index[axis], ir_s(l->k, l->path[d])->l.var)) return d;
    raise_error(l->qn, QN_EINTERNAL, "a scan without a loop along its axis");
}

/* The innermost of the root's loops carries the state, and the running result is there behind each
 * update: what is computed of it is stored in the same trip. */
expr_id lower_scan(lower *l, const graph_node *x, const at *p) {
    scan_attr a = node_scan(l->g, x);
    int depth = around_loop_of(l, p, a.axis);
    state t = lower_open_state(l, a.monoid, node_at(l->g, x->src[0])->dtype, depth);
    expr_id term[2] = {0};
    for (int i = 0; i < x->sources; i++) {
        term[i] = ir_cast(l->k, t.dtype[0], lower_operand(l, x, i, p));
        if (a.monoid == MONOID_SUM) term[i] = rounded(l, term[i]);
    }
    ir_stmt store = {.kind = STMT_STORE, .monoid = (uint8_t)t.monoid, .n = (uint8_t)t.n};
    store.store.valid = p->valid;
    for (int i = 0; i < t.n; i++) {
        store.store.mem[i] = t.tile[i];
        store.store.value[i] = lifted(l, &t, i, term, p->index[a.axis]);
    }
    ir_store_n(l->k, l->path[l->depth - 1], &store);
    return ir_cast(l->k, x->dtype, finished(l, &t));
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
    lower_node_shape(l, n, dim);
    memcpy(src.index, key->index, sizeof src.index);
    for (int i = 0; i < src.rank; i++)
        if (axes >> i & 1) size = sym_mul(l->k->syms, size, dim[i]);
    stmt_id saved[LOWER_MAX_PATH];
    int saved_depth = l->depth, depth = lower_depth_of(l, &src);
    memcpy(saved, l->path, sizeof saved);
    mem_id tile = ir_tile(l->k, MEM_LOCAL, node_at(l->g, n)->dtype, size);
    lower_place(l, depth, ir_def(l->k, l->path[depth - 1], tile, 0));
    l->depth = depth;
    for (int i = 0; i < src.rank; i++) {
        if (!(axes >> i & 1)) continue;
        if (dim[i] != SYM_ONE)
            src.index[i] = ir_s(l->k, lower_open_loop(l, "h", (int)l->loops++, dim[i]))->l.var;
        offset = sym_add(l->k->syms, sym_mul(l->k->syms, offset, dim[i]), src.index[i]);
    }
    stmt_id first = l->path[depth];
    if (depth < saved_depth) {
        ir_move(l->k, first, l->path[depth - 1], saved[depth]);
    }
    stmt_id parent = l->path[l->depth - 1];
    ir_store(l->k, parent, MONOID_SET, (ir_place){tile, offset, SYM_TRUE},
             lower_compute(l, n, &src));
    memcpy(l->path, saved, sizeof saved);
    l->depth = saved_depth;
    return tile;
}

expr_id lower_buffer(lower *l, node_id n, const at *p, uint32_t axes) {
    answer key = tile_key(n, p, axes);
    uint64_t h;
    uint32_t id = lower_find(l, &key, &h);
    if (!id) {
        key.value = make_tile(l, n, &key, axes);
        id = lower_remember(l, &key, h);
    }
    sym dim[QN_MAX_RANK], offset = SYM_ZERO;
    int rank = lower_node_shape(l, n, dim);
    for (int i = 0; i < rank; i++)
        if (axes >> i & 1)
            offset = sym_add(l->k->syms, sym_mul(l->k->syms, offset, dim[i]), p->index[i]);
    return ir_load(l->k, l->known[id - 1].value, offset, SYM_TRUE, 0, 0);
}
