/* transform_split.c - one loop as two, two loops as one. Neither changes the order of trips, so
 * both are always legal; sym's normal form brings a split and merged index back to what it was.
 *
 * split i f -> o n    for i < e {..}  becomes  for o < ceil(e/f) { for n < min(f, e - f*o) {..} }
 *                     with i = f*o + n. Where f is known to divide e the inner extent is f.
 * merge o n -> m      for o < p { for n < q {..} }  becomes  for m < p*q {..}  with o = m/q and
 *                     n = m - q*(m/q). The inner loop must be all that the outer one does and its
 *                     extent free of the outer's variable, and positive by its range where it is no
 *                     constant: it is divided by. Then, too, every index must be one in which m/q
 *                     cancels: little is known of a quotient by a variable. */
#include "kern/kern.h"

bool kern_split(kern *k, kstmt loop, int64_t factor, const char *outer, const char *inner,
                str *why) {
    sym_store *s = k->syms;
    kern_stmt l = *kern_s(k, loop);
    if (l.loop != KERN_SERIAL && l.loop != KERN_PAR)
        return kern_refuse(why, "only a serial or parallel loop can be split");
    if (factor < 1 || factor > INT32_MAX) return kern_refuse(why, "no factor to split by");
    const char *name = sym_name(s, l.l.var);
    sym extent = l.l.extent, f = sym_const(s, factor), trips;
    trips = sym_div(s, sym_add(s, extent, sym_const(s, factor - 1)), f);
    if (!kern_plain(k, trips, why)) return false;
    sym o = sym_loop(s, outer ? outer : kern_fresh_name(k, arena_printf(&k->arena, "%so", name)),
                     trips);
    kern_s(k, loop)->l.var = o;
    kern_s(k, loop)->l.extent = trips;
    o = kern_trip(k, loop);
    sym rest = sym_sub(s, extent, sym_scale(s, o, factor));
    bool divides = sym_mod(s, extent, f) == SYM_ZERO;
    kstmt in = kern_loop(k, loop, KERN_SERIAL, inner ? inner : arena_printf(&k->arena, "%si", name),
                         divides ? f : sym_min(s, f, rest));
    while (kern_s(k, loop)->first != in) {
        kstmt child = kern_s(k, loop)->first;
        kern_move(k, child, in, 0);
    }
    sym value = sym_add(s, sym_scale(s, o, factor), kern_trip(k, in));
    kern_subst(k, in, 1, &l.l.var, &value);
    return true;
}

/* Some index of the body, with o = var and n = m - width*var, still uses var? */
static bool keeps_quotient(kern *k, kstmt body, const sym from[2], sym m, sym width) {
    sym_store *s = k->syms;
    sym var = sym_loop(s, "quotient", m), to[2] = {var, sym_sub(s, m, sym_mul(s, width, var))};
    kern_touch *t;
    uint32_t n = kern_touches(k, body, &t);
    for (uint32_t i = 0; i < n; i++)
        if (sym_uses(s, sym_subst(s, t[i].index, 2, from, to), var) ||
            sym_uses(s, sym_subst(s, t[i].valid, 2, from, to), var))
            return true;
    for (kstmt c = body; c; c = kern_next(k, c, body))
        if (kern_s(k, c)->kind == KS_LOOP &&
            sym_uses(s, sym_subst(s, kern_s(k, c)->l.extent, 2, from, to), var))
            return true;
    return false;
}

bool kern_merge(kern *k, kstmt outer, kstmt inner, const char *name, str *why) {
    sym_store *s = k->syms;
    kern_stmt o = *kern_s(k, outer), i = *kern_s(k, inner);
    if (o.first != inner || o.last != inner || i.kind != KS_LOOP)
        return kern_refuse(why, "the inner loop is not all that the outer one does");
    if (o.loop != KERN_SERIAL || i.loop != KERN_SERIAL)
        return kern_refuse(why, "only serial loops can be merged");
    if (sym_uses(s, i.l.extent, o.l.var))
        return kern_refuse(why, "the inner extent depends on the outer loop");
    const char *fresh = kern_fresh_name(
        k, arena_printf(&k->arena, "%s%s", sym_name(s, o.l.var), sym_name(s, i.l.var)));
    sym extent = sym_mul(s, o.l.extent, i.l.extent), width = sym_max(s, i.l.extent, SYM_ONE);
    if (sym_lo(s, width) < 1)
        return kern_refuse(why, "the inner extent's range does not say that it is positive");
    sym m = sym_loop(s, name ? name : fresh, extent), from[2] = {o.l.var, i.l.var};
    if (!kern_plain(k, extent, why)) return false;
    if (!sym_is_const(s, width, NULL) && keeps_quotient(k, inner, from, m, width))
        return kern_refuse(why, "an index would be divided by a variable extent");
    kern_s(k, outer)->l.var = m;
    kern_s(k, outer)->l.extent = extent;
    m = kern_trip(k, outer);
    sym to[2] = {sym_div(s, m, width), sym_mod(s, m, width)};
    while (kern_s(k, inner)->first) {
        kstmt child = kern_s(k, inner)->first;
        kern_move(k, child, outer, inner);
    }
    kern_unlink(k, inner);
    for (kstmt c = kern_s(k, outer)->first; c; c = kern_s(k, c)->next)
        kern_subst(k, c, 2, from, to);
    return true;
}

bool transform_split(kern *k, const transform_args *a, str *why) {
    return kern_split(k, a->loop[0], a->number, a->name[0], a->name[1], why);
}

bool transform_merge(kern *k, const transform_args *a, str *why) {
    return kern_merge(k, a->loop[0], a->loop[1], a->name[0], why);
}
