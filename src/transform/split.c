/* split.c - one loop as two, two loops as one. Neither changes the order of iterations, so both are
 * always legal; the normal form of sym restores an index that was split and merged.
 *
 *     merge o n -> m    for o < p { for n < q {..} }  becomes  for m < p*q {..}
 *                       with o = m/q and n = m - q*(m/q)
 *
 * split and swap themselves are in ir/loops.c.
 *
 * merge wants the loops perfectly nested, and the inner extent free of the outer variable and
 * positive by its range where it is no constant, because it is divided by. Then, too, m/q must
 * cancel in every index: little is known of a quotient by a variable. */
#include "transform/transform.h"

/* Does some index of the body, with o = var and n = m - width*var, still use var? */
static bool keeps_quotient(kernel *k, stmt_id body, const sym from[2], sym m, sym width) {
    sym_store *s = k->syms;
    sym var = sym_loop(s, "quotient", m), to[2] = {var, sym_sub(s, m, sym_mul(s, width, var))};
    ir_access *t;
    uint32_t n = ir_accesses(k, body, &t);
    for (uint32_t i = 0; i < n; i++)
        if (sym_uses(s, sym_subst(s, t[i].index, 2, from, to), var) ||
            sym_uses(s, sym_subst(s, t[i].valid, 2, from, to), var))
            return true;
    for (stmt_id c = body; c; c = ir_next(k, c, body))
        if (ir_s(k, c)->kind == STMT_LOOP &&
            sym_uses(s, sym_subst(s, ir_s(k, c)->l.extent, 2, from, to), var))
            return true;
    return false;
}

bool transform_merge(kernel *k, stmt_id outer, stmt_id inner, const char *name,
                     transform_made *made, str *why) {
    sym_store *s = k->syms;
    ir_stmt o = *ir_s(k, outer), i = *ir_s(k, inner);
    if (o.first != inner || o.last != inner || i.kind != STMT_LOOP)
        return ir_refuse(why, "the inner loop is not all that the outer one does");
    if (o.loop != LOOP_SERIAL || i.loop != LOOP_SERIAL)
        return ir_refuse(why, "only serial loops can be merged");
    if (sym_uses(s, i.l.extent, o.l.var))
        return ir_refuse(why, "the inner extent depends on the outer loop");
    const char *fresh = ir_fresh_name(
        k, arena_printf(&k->arena, "%s%s", sym_name(s, o.l.var), sym_name(s, i.l.var)));
    sym extent = sym_mul(s, o.l.extent, i.l.extent), width = sym_max(s, i.l.extent, SYM_ONE);
    if (sym_lo(s, width) < 1)
        return ir_refuse(why, "the inner extent's range does not say that it is positive");
    sym m = sym_loop(s, name ? name : fresh, extent), from[2] = {o.l.var, i.l.var};
    if (!ir_plain(k, extent, why)) return false;
    if (!sym_is_const(s, width, NULL) && keeps_quotient(k, inner, from, m, width))
        return ir_refuse(why, "an index would be divided by a variable extent");
    bool goes_on = o.l.terms == sym_mul(s, i.l.terms, i.l.extent);
    sym terms = goes_on ? i.l.terms : sym_const(s, IR_TERMS_LOST);
    ir_s(k, outer)->l = (loop_head){.var = m, .extent = extent, .id = ++k->loops, .terms = terms};
    m = ir_trip(k, outer);
    sym to[2] = {sym_div(s, m, width), sym_mod(s, m, width)};
    while (ir_s(k, inner)->first) {
        stmt_id child = ir_s(k, inner)->first;
        ir_move(k, child, outer, inner);
    }
    ir_unlink(k, inner);
    for (stmt_id c = ir_s(k, outer)->first; c; c = ir_s(k, c)->next) ir_subst(k, c, 2, from, to);
    transform_report(k, made, outer);
    return true;
}

bool apply_split(kernel *k, const transform_args *a, transform_made *made, str *why) {
    if (!ir_split(k, a->loop[0], a->number, a->name[0], a->name[1], why)) return false;
    transform_report(k, made, a->loop[0]);
    transform_report(k, made, ir_s(k, a->loop[0])->first);
    return true;
}

bool apply_merge(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_merge(k, a->loop[0], a->loop[1], a->name[0], made, why);
}

bool apply_swap(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return ir_swap(k, a->loop[0], a->loop[1], why);
}
