/* privatize.c - reduce into a private accumulator what iterations add to one element.
 *
 * privatize i  for i { for .. { a[x] += f } }
 *     becomes  def t = identity; for i { for .. { t += f } } a[x] += t
 *
 * A sum whose terms come block by block (the gradient of queries, over blocks of keys) stays in
 * memory between blocks. Each term added on its own would cost a load and a store; the terms of one
 * block are added in a register, which `accumulate` then expands to a register tile.
 *
 * Legal where the loop does nothing but one update of an element whose index does not depend on it,
 * by one monoid, and the element is in bounds even where every iteration is masked: what is added
 * is then the identity. Floating sums are reassociated: where their grouping is said it is to be
 * so. */
#include "transform/transform.h"

/* The loop's only statement, an update by a monoid; 0: it holds something else. */
static stmt_id only_update(kernel *k, stmt_id loop, str *why) {
    stmt_id s = loop;
    for (; ir_s(k, s)->kind == STMT_LOOP; s = ir_s(k, s)->first) {
        const ir_stmt *l = ir_s(k, s);
        if (l->loop != LOOP_SERIAL) return ir_refuse(why, "only serial loops are privatized");
        if (!l->first || l->first != l->last)
            return ir_refuse(why, "the loop does more than one thing");
    }
    const ir_stmt *x = ir_s(k, s);
    if (x->kind != STMT_STORE || !monoid_commutes(x->monoid) || x->n != 1 || x->store.dyn ||
        x->store.guard)
        return ir_refuse(why, "the loop does not just update one element");
    for (stmt_id l = ir_s(k, s)->parent;; l = ir_s(k, l)->parent) {
        if (sym_uses(k->syms, x->store.index, ir_s(k, l)->l.var))
            return ir_refuse(why, "the loop chooses the element");
        if (l == loop) break;
    }
    if (ir_expr_reads(k, x->store.value[0], x->store.mem[0]))
        return ir_refuse(why, "the loop reads what it updates");
    return s;
}

/* The part of a condition that does not depend on the loop. */
static sym invariant_part(kernel *k, stmt_id loop, sym valid) {
    sym fact[IR_FACTS], kept = SYM_TRUE;
    int n = ir_facts(k, valid, fact);
    for (int i = 0; i < n; i++) {
        bool uses = false;
        for (stmt_id l = loop; ir_s(k, l)->kind == STMT_LOOP; l = ir_s(k, l)->first)
            uses |= sym_uses(k->syms, fact[i], ir_s(k, l)->l.var);
        if (!uses) kept = sym_and(k->syms, kept, sym_ge0(k->syms, fact[i]));
    }
    return kept;
}

static bool stays_inside(kernel *k, stmt_id loop, const ir_stmt *x, sym valid, str *why) {
    sym_store *s = k->syms;
    sym fact[IR_FACTS], size = ir_m(k, x->store.mem[0])->size;
    int n = ir_facts(k, valid, fact);
    sym left = sym_sub(s, sym_sub(s, size, SYM_ONE), x->store.index);
    return (ir_prove(k, loop, x->store.index, n, fact) && ir_prove(k, loop, left, n, fact)) ||
           ir_refuse(why, "the element may lie outside where no trip is on");
}

bool transform_privatize(kernel *k, stmt_id loop, transform_made *made, str *why) {
    stmt_id update = only_update(k, loop, why);
    stmt_id parent = ir_s(k, loop)->parent, behind = ir_s(k, loop)->next;
    if (!update || !ir_may_block(k, update, loop, why) || !ir_divisible(k, parent, why) ||
        !ir_outside_vectors(k, parent, why))
        return false;
    ir_stmt x = *ir_s(k, update);
    sym valid = invariant_part(k, loop, x.store.valid);
    if (!stays_inside(k, loop, &x, valid, why)) return false;
    qn_dtype dtype = ir_m(k, x.store.mem[0])->dtype;
    mem_id t = made->tile = ir_tile(k, MEM_REG, dtype, SYM_ONE);
    stmt_id def = ir_def(k, parent, t, ir_identity(k, x.monoid, 0, dtype));
    ir_move(k, def, parent, loop);
    ir_block(k, update, loop, t);
    ir_s(k, update)->store.mem[0] = t;
    ir_s(k, update)->store.index = SYM_ZERO;
    expr_id sum = ir_load(k, t, SYM_ZERO, SYM_TRUE, 0, 0);
    stmt_id once =
        ir_store(k, parent, x.monoid, (ir_place){x.store.mem[0], x.store.index, valid}, sum);
    ir_move(k, once, parent, behind);
    return true;
}

bool apply_privatize(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_privatize(k, a->loop[0], made, why);
}
