/* bind.c - how a loop runs: serial, par, vec, unroll, thread or word. The loop stays; its kind
 * changes.
 *
 *   par     a root loop whose iterations share no element that one of them stores to; every root
 *           must be a loop, or a store, which becomes one of one trip, and independent of the
 *           others
 *   vec     at most IR_LANES iterations, no vector loop around or inside, no tile defined inside
 *           (accumulate moves it out), inner extents that do not depend on the lane, and no element
 *           that two lanes touch, but to update it by one monoid
 *   unroll  a constant number of iterations, at most UNROLL_MOST
 *   word    2 or 4 iterations around one store
 *   thread  iterations that share no element that one of them stores to; directly in or around
 *           another thread loop or unrelated to any, in no vector loop, no barriers inside
 *   serial  always, unless a register tile needs the loop's kind, or it is a thread loop between
 *           two others */
#include "transform/transform.h"

enum { UNROLL_MOST = 256 };

static bool vec_allowed(kernel *k, stmt_id loop, str *why) {
    const ir_stmt *l = ir_s(k, loop);
    int64_t most = ir_most_trips(k, loop);
    if (most < 1 || most > IR_LANES) return ir_refuse(why, "a vector has 1 to %d lanes", IR_LANES);
    for (stmt_id s = l->parent; s; s = ir_s(k, s)->parent)
        if (ir_s(k, s)->loop == LOOP_VEC) return ir_refuse(why, "a vector loop is around it");
    for (stmt_id s = loop; (s = ir_next(k, s, loop));) {
        const ir_stmt *t = ir_s(k, s);
        if (t->kind == STMT_DEF) return ir_refuse(why, "a tile is defined inside");
        if (t->kind == STMT_STORE && !monoid_commutes(t->monoid) &&
            !sym_uses(k->syms, t->store.index, l->l.var) &&
            !(t->store.dyn && ir_expr_uses(k, t->store.dyn, l->l.var)))
            return ir_refuse(why, "all lanes would store to one element");
        if (t->kind != STMT_LOOP) continue;
        if (t->loop == LOOP_VEC) return ir_refuse(why, "a vector loop is inside it");
        if (sym_uses(k->syms, t->l.extent, l->l.var))
            return ir_refuse(why, "lanes would differ in trips of %s", sym_name(k->syms, t->l.var));
    }
    return ir_no_carried(k, loop, loop, FREEDOM_LOCKSTEP, why);
}

static bool par_allowed(kernel *k, stmt_id loop, str *why) {
    if (ir_s(k, loop)->parent != k->root) return ir_refuse(why, "only a root loop can be parallel");
    return ir_roots_independent(k, true, why) && ir_no_carried(k, loop, loop, FREEDOM_AT_ONCE, why);
}

static bool unroll_allowed(kernel *k, stmt_id loop, str *why) {
    int64_t n;
    if (!sym_is_const(k->syms, ir_s(k, loop)->l.extent, &n))
        return ir_refuse(why, "the extent is not constant");
    return n <= UNROLL_MOST || ir_refuse(why, "more than %d trips", UNROLL_MOST);
}

static bool word_allowed(kernel *k, stmt_id loop, str *why) {
    const ir_stmt *l = ir_s(k, loop);
    int64_t n;
    if (!sym_is_const(k->syms, l->l.extent, &n) || (n != 2 && n != 4))
        return ir_refuse(why, "a word has 2 or 4 parts");
    return (l->first && l->first == l->last && ir_s(k, l->first)->kind == STMT_STORE) ||
           ir_refuse(why, "a store is not all that the loop does");
}

/* Is every register tile still indexed by constants and lanes only? */
static bool registers_kept(kernel *k, str *why) {
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->scope == MEM_REG && !ir_in_registers(k, m, why)) return false;
    return true;
}

/* A store at the root beside parallel loops is one item of the launch. */
static void wrap_stores(kernel *k) {
    for (stmt_id s = ir_s(k, k->root)->first, next; s; s = next) {
        next = ir_s(k, s)->next;
        if (ir_s(k, s)->kind != STMT_STORE) continue;
        stmt_id one = ir_loop(k, k->root, LOOP_SERIAL, "one", SYM_ONE);
        ir_move(k, one, k->root, s);
        ir_move(k, s, one, 0);
    }
}

bool transform_bind(kernel *k, stmt_id loop, loop_kind kind, str *why) {
    uint8_t before = ir_s(k, loop)->loop;
    if (kind == LOOP_VEC && !vec_allowed(k, loop, why)) return false;
    if (kind == LOOP_PAR && !par_allowed(k, loop, why)) return false;
    if (kind == LOOP_UNROLL && !unroll_allowed(k, loop, why)) return false;
    if (kind == LOOP_WORD && !word_allowed(k, loop, why)) return false;
    if (kind == LOOP_THREAD && !ir_no_carried(k, loop, loop, FREEDOM_AT_ONCE, why)) return false;
    ir_s(k, loop)->loop = (uint8_t)kind;
    if (!ir_nests_fit(k, why) || !registers_kept(k, why)) {
        ir_s(k, loop)->loop = before;
        return false;
    }
    if (kind == LOOP_PAR) wrap_stores(k);
    return true;
}

bool apply_serial(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_bind(k, a->loop[0], LOOP_SERIAL, why);
}

bool apply_par(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_bind(k, a->loop[0], LOOP_PAR, why);
}

bool apply_vec(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_bind(k, a->loop[0], LOOP_VEC, why);
}

bool apply_unroll(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_bind(k, a->loop[0], LOOP_UNROLL, why);
}

bool apply_thread(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_bind(k, a->loop[0], LOOP_THREAD, why);
}

bool apply_word(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_bind(k, a->loop[0], LOOP_WORD, why);
}

/* ---- non-temporal stores and prefetch distance ----------------------------------------------- */

bool apply_nontemporal(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    ir_memory *m = ir_m(k, a->mem);
    if (m->scope != MEM_ARG || (m->access & ~ACCESS_ROW) != ACCESS_WRITE)
        return ir_refuse(why, "only an argument that is written and not read goes past the caches");
    m->access |= ACCESS_NONTEMPORAL;
    return true;
}

bool apply_prefetch_distance(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    ir_memory *m = ir_m(k, a->mem);
    if (m->scope != MEM_ARG) return ir_refuse(why, "only an argument is prefetched");
    if (a->number > IR_PREFETCH_BYTES) return ir_refuse(why, "nothing is prefetched so far ahead");
    m->ahead = (int)a->number;
    return true;
}
