/* tree_reduce.c - combine the elements of a tile in halves instead of one after the other.
 *
 *   tree_reduce r
 *             for r < 8 { t op= w[r] }
 *     becomes for r_1 < 4 { w[r_1] op= w[r_1 + 4] }
 *             for r_2 < 2 { w[r_2] op= w[r_2 + 2] }
 *             for r_3 < 1 { w[r_3] op= w[r_3 + 1] }    ->    w[0] op= w[1]
 *             t op= w[0]
 *
 * The iterations of each new loop are independent, so members of a work-group can share them: eight
 * steps where there were 256. It is applied to the combining loop that `rfactor` makes. The monoid
 * is associative and commutative, so the result stays (floating sums are reassociated).
 *
 * Legal where r's extent is a constant, its one statement updates by a monoid an element that does
 * not depend on r, by w[r + base] without a mask, a float sum's lanes may be added up in halves,
 * and nobody reads w afterwards: its definition stands beside r, and no access comes behind r. */
#include "transform/transform.h"

enum { MOST_FOLDED = 65536 };

typedef struct reduction_tree {
    ir_stmt store;
    mem_id from[IR_STATES];
    sym base;
    int64_t count;
} reduction_tree;

/* The store's value number i is w[r + base], plainly. */
static bool read_value(kernel *k, reduction_tree *f, sym var, int i, str *why) {
    const ir_expr *e = ir_e(k, f->store.store.value[i]);
    sym base;
    int64_t step;
    if (e->kind != EXPR_LOAD || ir_m(k, e->load.mem)->scope == MEM_ARG || e->load.dyn ||
        e->load.guard || e->load.valid != SYM_TRUE)
        return ir_refuse(why, "what is combined is no element of a tile");
    if (!sym_split(k->syms, e->load.index, var, &step, &base) || step != 1 ||
        (i && base != f->base))
        return ir_refuse(why, "the loop does not walk the tile element by element");
    for (int c = 0; c < i; c++)
        if (f->from[c] == e->load.mem) return ir_refuse(why, "two components are one tile");
    for (int c = 0; c < f->store.n; c++)
        if (f->store.store.mem[c] == e->load.mem)
            return ir_refuse(why, "the tile is combined into itself");
    f->from[i] = e->load.mem;
    f->base = base;
    return true;
}

/* Is w's live range within the block: defined beside the loop, last accessed in it? */
static bool ends_here(kernel *k, stmt_id loop, mem_id w, str *why) {
    stmt_id parent = ir_s(k, loop)->parent;
    bool defined = false;
    for (stmt_id s = ir_s(k, parent)->first; s != loop; s = ir_s(k, s)->next)
        defined |= ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == w;
    if (!defined) return ir_refuse(why, "the tile is not defined beside the loop");
    for (stmt_id s = ir_s(k, loop)->next; s; s = ir_s(k, s)->next) {
        ir_access *t;
        uint32_t n = ir_accesses(k, s, &t);
        for (uint32_t i = 0; i < n; i++)
            if (t[i].mem == w) return ir_refuse(why, "the tile is used behind the loop");
    }
    return true;
}

static bool read_loop(kernel *k, stmt_id loop, reduction_tree *f, str *why) {
    const ir_stmt l = *ir_s(k, loop);
    if (l.loop != LOOP_SERIAL && l.loop != LOOP_UNROLL)
        return ir_refuse(why, "only a serial or unrolled loop can be folded");
    if (!l.first || l.first != l.last || ir_s(k, l.first)->kind != STMT_STORE)
        return ir_refuse(why, "the loop does more than one store");
    f->store = *ir_s(k, l.first);
    if (!monoid_commutes(f->store.monoid) || sym_uses(k->syms, f->store.store.index, l.l.var) ||
        f->store.store.valid != SYM_TRUE || f->store.store.dyn || f->store.store.guard)
        return ir_refuse(why, "the loop does not just update one element");
    if (!sym_is_const(k->syms, l.l.extent, &f->count) || f->count < 1 || f->count > MOST_FOLDED)
        return ir_refuse(why, "the loop has no constant number of trips to fold");
    for (int i = 0; i < f->store.n; i++)
        if (!read_value(k, f, l.l.var, i, why) || !ends_here(k, loop, f->from[i], why))
            return false;
    return ir_may_halve(k, l.first, why) && ir_divisible(k, l.parent, why);
}

/* for r < n { w[r] op= w[r + half] } in front of the loop: that loop. */
static stmt_id add_step(kernel *k, stmt_id before, const reduction_tree *f, int64_t half,
                        int64_t n) {
    sym_store *s = k->syms;
    stmt_id parent = ir_s(k, before)->parent;
    const char *name = sym_name(s, ir_s(k, before)->l.var);
    stmt_id r = ir_loop(k, parent, LOOP_SERIAL, name, sym_const(s, n));
    ir_s(k, r)->l.want = ir_s(k, before)->l.want;
    ir_move(k, r, parent, before);
    sym at = sym_add(s, f->base, ir_trip(k, r)), other = sym_add(s, at, sym_const(s, half));
    ir_stmt step = {.kind = STMT_STORE, .monoid = f->store.monoid, .n = f->store.n};
    step.store.index = at;
    step.store.valid = SYM_TRUE;
    for (int i = 0; i < step.n; i++) {
        step.store.mem[i] = f->from[i];
        step.store.value[i] = ir_load(k, f->from[i], other, SYM_TRUE, 0, 0);
    }
    ir_store_n(k, r, &step);
    return r;
}

bool transform_tree_reduce(kernel *k, stmt_id loop, transform_made *made, str *why) {
    reduction_tree f = {.base = SYM_ZERO};
    if (!read_loop(k, loop, &f, why)) return false;
    for (int i = 0; i < f.store.n; i++) ir_halve(k, f.store.store.mem[i]);
    for (int64_t n = f.count; n > 1;) {
        int64_t half = (n + 1) / 2;
        transform_report(k, made, add_step(k, loop, &f, half, n - half));
        n = half;
    }
    sym var = ir_s(k, loop)->l.var, zero = SYM_ZERO;
    stmt_id store = ir_s(k, loop)->first;
    ir_subst(k, store, 1, &var, &zero);
    ir_move(k, store, ir_s(k, loop)->parent, loop);
    ir_unlink(k, loop);
    for (int i = 0; i < f.store.n; i++)
        if (ir_m(k, f.from[i])->scope == MEM_REG && !ir_in_registers(k, f.from[i], NULL))
            ir_m(k, f.from[i])->scope = MEM_LOCAL;
    return true;
}

bool apply_tree_reduce(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_tree_reduce(k, a->loop[0], made, why);
}
