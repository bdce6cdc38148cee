/* compute_at.c - compute what several iterations share once, in front of them, into tiles (the
 * producer's place in its consumer: Halide's and TVM's compute_at).
 *
 *   compute_at i j    for i { for j { for k { .. f(j) .. } } }
 *       becomes       for i { def b[extent of j];  for j_1 { b[j_1] = f(j_1) }
 *                             for j { for k { .. b[j] .. } } }
 *
 * The scales of weights in blocks are numbers of few bits, scattered over bytes: made anew for each
 * vector of weights they take longer than the weights, made side by side a few instructions.
 *
 * Computed are the values in i's body that depend, of the loops inside, on the listed ones alone
 * and on some of them, as large as possible, where they cost more than storing and loading them
 * does. Tiles are indexed by the loops row-major in the order given.
 *
 * Legal where nothing inside i stores to what the values load or defines it, and the extents of the
 * listed loops are free of the loops inside i. An emitter moves what depends on none of the loops
 * inside by itself. */
#include "transform/transform.h"

enum { AXES = COUNT_OF(((transform_args *)0)->loop), MOST_VALUES = 8, CHEAP = 6 };

typedef struct computing {
    kernel *k;
    stmt_id at;
    int n;
    const stmt_id *axis;
    bool *changed;  /* by mem_id: stored to or defined inside `at` */
    uint8_t *known; /* by expr_id, what is known of it: each is looked at once */
    uint8_t *cost;  /* and what it costs, to CHEAP + 1 */
    sym var[AXES], to[AXES];
    sym index, size; /* of the tiles */
} computing;

enum { LOOKED_AT = 1, SHARED = 2, BY_AXIS = 4, SEARCHED = 8 };

static bool is_axis(const computing *p, stmt_id loop) {
    for (int i = 0; i < p->n; i++)
        if (p->axis[i] == loop) return true;
    return false;
}

/* Of an index or a condition: is it free of the loops inside but for the axes? */
static int look_at_sym(const computing *p, sym x) {
    const kernel *k = p->k;
    int is = SHARED;
    for (stmt_id s = p->at; (s = ir_next(k, s, p->at));) {
        if (ir_s(k, s)->kind != STMT_LOOP || !sym_uses(k->syms, x, ir_s(k, s)->l.var)) continue;
        if (!is_axis(p, s)) return 0;
        is |= BY_AXIS;
    }
    return is;
}

static int of_both(int a, int b) {
    return a & b & SHARED ? a | b : 0;
}

/* Do neighbours along the last axis lie apart? Such elements are put together one by one. */
static bool is_apart(const computing *p, sym index) {
    int64_t step;
    sym rest, var = ir_s(p->k, p->axis[p->n - 1])->l.var;
    return !sym_split(p->k->syms, index, var, &step, &rest) || step < -1 || step > 1;
}

static int look_at(computing *p, expr_id id) {
    if (p->known[id] & LOOKED_AT) return p->known[id] & (SHARED | BY_AXIS);
    ir_expr x = *ir_e(p->k, id);
    int is = SHARED, cost = 0;
    if (x.kind == EXPR_LOAD) {
        bool plain = !x.load.dyn && !x.load.guard && !p->changed[x.load.mem];
        is = plain ? of_both(look_at_sym(p, x.load.index), look_at_sym(p, x.load.valid)) : 0;
        cost = is_apart(p, x.load.index) ? CHEAP + 1 : 0;
    } else if (x.kind == EXPR_INDEX) {
        is = look_at_sym(p, x.index);
    } else if (x.kind == EXPR_TABLE) {
        is = look_at(p, x.table.index);
        cost = p->cost[x.table.index] + 1;
    } else if (x.kind == EXPR_OP) {
        cost = op_cost(x.op, x.dtype);
        for (int i = 0; i < x.n && is & SHARED; i++) {
            is = of_both(is, look_at(p, x.arg[i]));
            cost += p->cost[x.arg[i]];
        }
    } else if (x.kind != EXPR_CONST && x.kind != EXPR_PARAM) {
        is = 0;
    }
    p->cost[id] = (uint8_t)(cost > CHEAP ? CHEAP + 1 : cost);
    is = is & SHARED ? is : 0;
    p->known[id] |= (uint8_t)(LOOKED_AT | is);
    return is;
}

/* The first such value in e, as large as possible; 0: none. */
static expr_id find(computing *p, expr_id e) {
    const int wanted = SHARED | BY_AXIS;
    if (!e || p->known[e] & SEARCHED) return 0;
    ir_expr x = *ir_e(p->k, e);
    p->known[e] |= SEARCHED;
    int is = look_at(p, e);
    if (is & SHARED) return (is & wanted) == wanted && p->cost[e] > CHEAP ? e : 0;
    expr_id *slot[4];
    for (int i = 0, n = ir_expr_args(&x, slot); i < n; i++) {
        expr_id found = find(p, *slot[i]);
        if (found) return found;
    }
    return 0;
}

static expr_id find_in(computing *p) {
    p->known = arena_zeroed(&p->k->arena, p->k->exprs);
    p->cost = arena_zeroed(&p->k->arena, p->k->exprs);
    for (stmt_id s = p->at; (s = ir_next(p->k, s, p->at));) {
        const ir_stmt *t = ir_s(p->k, s);
        for (int i = 0; t->kind == STMT_STORE && i < t->n; i++) {
            expr_id found = find(p, t->store.value[i]);
            if (found) return found;
        }
    }
    return 0;
}

/* Row-major index and size of a tile, by the axes' variables. */
static bool index_tiles(computing *p, str *why) {
    sym_store *s = p->k->syms;
    p->size = SYM_ONE, p->index = SYM_ZERO;
    for (int i = p->n; i-- > 0;) {
        sym trips;
        if (!ir_known_extent(p->k, p->axis[i], &trips))
            return ir_refuse(why, "a loop's trips have no bound");
        p->var[i] = ir_s(p->k, p->axis[i])->l.var;
        p->index = sym_add(s, p->index, sym_mul(s, p->var[i], p->size));
        p->size = sym_mul(s, p->size, trips);
        if (sym_overflowed(s) || sym_hi(s, p->size) > IR_TILE_BYTES / (int64_t)sizeof(double))
            return ir_refuse(why, "the tile would get too large");
    }
    return true;
}

/* The nest that computes, at the top of the body; its innermost loop. */
static stmt_id open_nest(computing *p, transform_made *made) {
    kernel *k = p->k;
    stmt_id before = ir_s(k, p->at)->first, parent = p->at;
    for (int i = 0; i < p->n; i++) {
        const ir_stmt *l = ir_s(k, p->axis[i]);
        uint8_t want = l->l.want;
        stmt_id loop = ir_loop(k, parent, LOOP_SERIAL, sym_name(k->syms, l->l.var), l->l.extent);
        ir_s(k, loop)->l.want = want;
        transform_report(k, made, loop);
        if (parent == p->at) ir_move(k, loop, p->at, before);
        p->to[i] = ir_s(k, loop)->l.var;
        parent = loop;
    }
    return parent;
}

static mem_id compute(computing *p, stmt_id nest, stmt_id body, expr_id e) {
    kernel *k = p->k;
    mem_id tile = ir_tile(k, MEM_LOCAL, (qn_dtype)ir_e(k, e)->dtype, p->size);
    p->changed[tile] = true;
    sym place = sym_subst(k->syms, p->index, p->n, p->var, p->to);
    expr_id value = ir_subst_expr(k, e, p->n, p->var, p->to);
    ir_move(k, ir_def(k, p->at, tile, 0), p->at, nest);
    ir_replace(k, p->at, e, ir_load(k, tile, p->index, SYM_TRUE, 0, 0));
    ir_store(k, body, MONOID_SET, (ir_place){tile, place, SYM_TRUE}, value);
    return tile;
}

bool apply_compute_at(kernel *k, const transform_args *a, transform_made *made, str *why) {
    computing *p = arena_zeroed(&k->arena, sizeof *p);
    *p = (computing){.k = k, .at = a->loop[0], .n = a->loops - 1, .axis = a->loop + 1};
    if (p->n < 1) return ir_refuse(why, "no loops to compute by");
    if (!ir_divisible(k, p->at, why) || !transform_axes_allowed(k, p->at, p->n, p->axis, why) ||
        !index_tiles(p, why))
        return false;
    p->changed = transform_changed(k, p->at, MOST_VALUES);
    expr_id e = find_in(p);
    if (!e) return ir_refuse(why, "nothing in the loop is worth computing ahead");
    stmt_id body = open_nest(p, made), nest = ir_s(k, p->at)->first;
    for (int i = 0; i < MOST_VALUES && e; i++, e = find_in(p)) {
        mem_id tile = compute(p, nest, body, e);
        if (!i) made->tile = tile;
    }
    return true;
}
