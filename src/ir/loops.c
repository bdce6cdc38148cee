/* loops.c - the two transforms of loops that proofs and lowering use, too: split and swap.
 *
 * split i f -> o n    for i < e {..}  becomes  for o < ceil(e/f) { for n < min(f, e - f*o) {..} }
 *                     with i = f*o + n. Where f is known to divide e the inner extent is f. The
 *                     order of iterations stays, so it is always legal.
 * swap o n            interchanges two perfectly nested loops. Iterations (o, n) then run in the
 * order of n first. Legal where, for every memory that the body shares and stores to, each element
 * belongs to iterations of one o (their order, by n, stays) or of one n (their order, by o, stays),
 * or the memory is only updated, by one monoid. The inner extent must be free of the outer
 * variable, and thread loops must stay adjacent.
 *
 * What is tried for a proof is undone: the tables of statements and memories are saved and
 * restored; expressions are only ever added. */
#include "ir/ir.h"

ir_saved ir_save(kernel *k) {
    ir_saved s = {.stmts = k->stmts, .mems = k->mems};
    s.stmt = arena_alloc(&k->arena, s.stmts * sizeof *s.stmt);
    s.mem = arena_alloc(&k->arena, s.mems * sizeof *s.mem);
    memcpy(s.stmt, k->stmt, s.stmts * sizeof *s.stmt);
    memcpy(s.mem, k->mem, s.mems * sizeof *s.mem);
    return s;
}

void ir_restore(kernel *k, const ir_saved *s) {
    memcpy(k->stmt, s->stmt, s->stmts * sizeof *s->stmt);
    memcpy(k->mem, s->mem, s->mems * sizeof *s->mem);
    k->stmts = s->stmts;
    k->mems = s->mems;
}

int64_t ir_most_trips(const kernel *k, stmt_id loop) {
    return sym_hi(k->syms, ir_s(k, loop)->l.extent);
}

bool ir_known_extent(const kernel *k, stmt_id loop, sym *out) {
    sym extent = ir_s(k, loop)->l.extent;
    int64_t most = sym_hi(k->syms, extent);
    if (most > IR_TILE_BYTES) return false;
    *out = sym_lo(k->syms, extent) < 0 ? sym_max(k->syms, extent, SYM_ZERO) : extent;
    for (stmt_id p = ir_s(k, loop)->parent; p && p != k->root; p = ir_s(k, p)->parent)
        if (sym_uses(k->syms, extent, ir_s(k, p)->l.var))
            *out = sym_const(k->syms, most < 0 ? 0 : most);
    return true;
}

bool ir_split(kernel *k, stmt_id loop, int64_t factor, const char *outer, const char *inner,
              str *why) {
    sym_store *s = k->syms;
    ir_stmt l = *ir_s(k, loop);
    if (l.loop != LOOP_SERIAL && l.loop != LOOP_PAR)
        return ir_refuse(why, "only a serial or parallel loop can be split");
    if (factor < 1 || factor > INT32_MAX) return ir_refuse(why, "no factor to split by");
    const char *name = sym_name(s, l.l.var);
    sym extent = l.l.extent, f = sym_const(s, factor), trips;
    trips = sym_div(s, sym_add(s, extent, sym_const(s, factor - 1)), f);
    if (!ir_plain(k, trips, why)) return false;
    sym o =
        sym_loop(s, outer ? outer : ir_fresh_name(k, arena_printf(&k->arena, "%so", name)), trips);
    ir_s(k, loop)->l = (loop_head){
        .var = o, .extent = trips, .id = ++k->loops, .terms = sym_scale(s, l.l.terms, factor)};
    o = ir_trip(k, loop);
    sym rest = sym_sub(s, extent, sym_scale(s, o, factor));
    bool divides = sym_mod(s, extent, f) == SYM_ZERO;
    stmt_id in = ir_loop(k, loop, LOOP_SERIAL, inner ? inner : arena_printf(&k->arena, "%si", name),
                         divides ? f : sym_min(s, f, rest));
    while (ir_s(k, loop)->first != in) {
        stmt_id child = ir_s(k, loop)->first;
        ir_move(k, child, in, 0);
    }
    ir_s(k, in)->l.terms = l.l.terms;
    sym value = sym_add(s, sym_scale(s, o, factor), ir_trip(k, in));
    ir_subst(k, in, 1, &l.l.var, &value);
    return true;
}

static void exchange(kernel *k, stmt_id outer, stmt_id inner) {
    ir_stmt *o = ir_s(k, outer), *i = ir_s(k, inner);
    uint8_t kind = o->loop;
    loop_head head = o->l;
    o->loop = i->loop;
    o->l = i->l;
    i->loop = kind;
    i->l = head;
}

bool ir_swap(kernel *k, stmt_id outer, stmt_id inner, str *why) {
    ir_stmt *o = ir_s(k, outer), *i = ir_s(k, inner);
    if (o->first != inner || o->last != inner || i->kind != STMT_LOOP)
        return ir_refuse(why, "the inner loop is not all that the outer one does");
    if (o->loop == LOOP_PAR) return ir_refuse(why, "a parallel loop stays at the root");
    if (sym_uses(k->syms, i->l.extent, o->l.var))
        return ir_refuse(why, "the inner extent depends on the outer loop");
    if (!ir_no_carried(k, outer, outer, FREEDOM_ANY_ORDER, NULL) &&
        !ir_no_carried(k, inner, outer, FREEDOM_ANY_ORDER, why))
        return false;
    exchange(k, outer, inner);
    if (ir_nests_fit(k, why)) return true;
    exchange(k, outer, inner);
    return false;
}
