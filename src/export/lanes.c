/* lanes.c - sums across the lanes of a vector, written out.
 *
 * A store in a VEC loop whose place is the same in all lanes merges them. Code for vectors does
 * that by halves, lane i with lane i + n/2 and so on, and each order of a float sum has its own
 * bits. In plain C a loop over lanes would go from the first to the last, so the tree says how:
 *
 *     vec v < 16 { t0[0] += x }      def y = identity
 *                                    vec v < 16 { y[v] = x }
 *                                    vec l < 8 { y[l] += y[8 + l] }
 *                                    ... 4, 2 ...
 *                                    vec l < 1 { y[l] += y[1 + l] }
 *                                    t0[0] += y[0]
 *
 * A VEC loop that holds such a store, or a loop, is done statement by statement, as code for
 * vectors does it: each statement has a loop over lanes of its own, inside of the loops around it.
 * Lanes that are masked off have the identity; where no lane is on a register takes the identity,
 * and memory is left alone. */
#include "export/export.h"

typedef struct spread {
    kernel *k;
    arena *a;
    stmt_id shell; /* the VEC loop without its statements */
    sym var, extent;
    int64_t lanes; /* a power of two */
} spread;

/* Where statements go. */
typedef struct gap {
    stmt_id parent, before;
} gap;

static bool is_across(const kernel *k, const ir_stmt *s, sym var) {
    return s->kind == STMT_STORE && !sym_uses(k->syms, s->store.index, var) && !s->store.dyn &&
           monoid_commutes(s->monoid);
}

/* A sum across, or a loop. */
static bool is_divided(const kernel *k, stmt_id loop) {
    sym var = ir_s(k, loop)->l.var;
    for (stmt_id s = ir_next(k, loop, loop); s; s = ir_next(k, s, loop))
        if (ir_s(k, s)->kind == STMT_LOOP || is_across(k, ir_s(k, s), var)) return true;
    return false;
}

static void put(spread *p, stmt_id s, gap at) {
    ir_move(p->k, s, at.parent, at.before);
}

/* ---- one store ------------------------------------------------------------------------------- */

/* A tile of the component's lanes, all of them the identity. */
static mem_id lanes_of(spread *p, const ir_stmt *store, int component, gap at) {
    kernel *k = p->k;
    qn_dtype dtype = (qn_dtype)ir_m(k, store->store.mem[component])->dtype;
    mem_id y = ir_tile(k, MEM_REG, dtype, sym_const(k->syms, p->lanes));
    put(p, ir_def(k, at.parent, y, ir_identity(k, store->monoid, component, dtype)), at);
    return y;
}

static void halve(spread *p, const ir_stmt *store, const mem_id *y, gap at) {
    kernel *k = p->k;
    for (int64_t n = p->lanes / 2; n; n /= 2) {
        stmt_id loop = ir_loop(k, at.parent, LOOP_VEC, "l", sym_const(k->syms, n));
        sym l = ir_s(k, loop)->l.var, high = sym_add(k->syms, l, sym_const(k->syms, n));
        ir_stmt merge = {.kind = STMT_STORE, .monoid = store->monoid, .n = store->n};
        merge.store.index = l;
        merge.store.valid = SYM_TRUE;
        for (int i = 0; i < store->n; i++) {
            merge.store.mem[i] = y[i];
            merge.store.value[i] = ir_load(k, y[i], high, SYM_TRUE, 0, 0);
        }
        ir_store_n(k, loop, &merge);
        put(p, loop, at);
    }
}

/* Is a lane on? */
static expr_id any_lane(spread *p, const ir_stmt *store, stmt_id loop, gap at) {
    kernel *k = p->k;
    mem_id any = ir_tile(k, MEM_REG, QN_BOOL, SYM_ONE);
    put(p, ir_def(k, at.parent, any, ir_const_i(k, QN_BOOL, 0)), at);
    ir_stmt note = {.kind = STMT_STORE, .monoid = MONOID_SET, .n = 1};
    note.store = store->store;
    note.store.mem[0] = any;
    note.store.index = SYM_ZERO;
    note.store.value[0] = ir_const_i(k, QN_BOOL, 1);
    ir_store_n(k, loop, &note);
    return ir_load(k, any, SYM_ZERO, SYM_TRUE, 0, 0);
}

static void write_across(spread *p, const ir_stmt *store, gap at) {
    kernel *k = p->k;
    mem_id y[IR_STATES] = {0};
    bool masked = sym_uses(k->syms, store->store.valid, p->var) ||
                  (store->store.guard && ir_expr_uses(k, store->store.guard, p->var));
    bool memory = ir_m(k, store->store.mem[0])->scope != MEM_REG;
    ir_stmt take = *store, give = *store;
    for (int i = 0; i < store->n; i++) y[i] = lanes_of(p, store, i, at);
    take.monoid = MONOID_SET;
    take.store.index = p->var;
    stmt_id loop = ir_copy(k, p->shell);
    ir_insert(k, loop, at.parent, at.before);
    for (int i = 0; i < store->n; i++) {
        ir_stmt one = take;
        one.n = 1;
        one.store.mem[0] = y[i];
        one.store.value[0] = store->store.value[i];
        ir_store_n(k, loop, &one);
    }
    if (masked) {
        give.store.guard = memory ? any_lane(p, store, loop, (gap){at.parent, loop}) : 0;
        give.store.valid = SYM_TRUE;
    }
    ir_rename(k, loop);
    halve(p, store, y, at);
    sym some = sym_ge0(k->syms, sym_sub(k->syms, p->extent, SYM_ONE));
    give.store.valid = sym_and(k->syms, give.store.valid, some);
    for (int i = 0; i < store->n; i++)
        give.store.value[i] = ir_load(k, y[i], SYM_ZERO, SYM_TRUE, 0, 0);
    put(p, ir_store_n(k, at.parent, &give), at);
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* The statements of a block, which is empty then. */
static stmt_id *empty_block(spread *p, stmt_id block, uint32_t *n) {
    kernel *k = p->k;
    *n = 0;
    for (stmt_id s = ir_s(k, block)->first; s; s = ir_s(k, s)->next) ++*n;
    stmt_id *all = arena_alloc(p->a, (*n + 1) * sizeof *all), first;
    for (uint32_t i = 0; (first = ir_s(k, block)->first) != 0; i++) {
        all[i] = first;
        ir_unlink(k, first);
    }
    return all;
}

static void distribute(spread *p, uint32_t n, const stmt_id *all, gap at) {
    kernel *k = p->k;
    for (uint32_t i = 0; i < n; i++) {
        const ir_stmt s = *ir_s(k, all[i]);
        if (s.kind == STMT_LOOP) {
            uint32_t inner;
            stmt_id *body = empty_block(p, all[i], &inner);
            ir_insert(k, all[i], at.parent, at.before);
            distribute(p, inner, body, (gap){all[i], 0});
        } else if (is_across(k, &s, p->var)) {
            write_across(p, &s, at);
        } else if (s.kind == STMT_STORE) {
            stmt_id loop = ir_copy(k, p->shell);
            ir_insert(k, loop, at.parent, at.before);
            ir_insert(k, all[i], loop, 0);
            ir_rename(k, loop); /* each has a variable of its own */
        } else if (s.kind == STMT_DEF) {
            ir_insert(k, all[i], at.parent, at.before);
        }
    }
}

static void write_out(kernel *k, arena *a, stmt_id loop) {
    spread p = {k, a, loop, ir_s(k, loop)->l.var, ir_s(k, loop)->l.extent, 1};
    gap at = {ir_s(k, loop)->parent, loop};
    uint32_t n;
    while (p.lanes < sym_hi(k->syms, p.extent)) p.lanes *= 2;
    stmt_id *body = empty_block(&p, loop, &n);
    distribute(&p, n, body, at);
    ir_unlink(k, loop);
}

void export_lanes(kernel *k, arena *a) {
    uint32_t n = 0;
    stmt_id *loop = arena_alloc(a, k->stmts * sizeof *loop);
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root))
        if (ir_s(k, s)->kind == STMT_LOOP && ir_s(k, s)->loop == LOOP_VEC &&
            sym_hi(k->syms, ir_s(k, s)->l.extent) > 1 && is_divided(k, s))
            loop[n++] = s;
    for (uint32_t i = 0; i < n; i++) write_out(k, a, loop[i]);
}
