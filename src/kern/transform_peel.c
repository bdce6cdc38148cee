/* transform_peel.c - the trips where nothing is cut short apart from those at the edge.
 *
 *   peel i    for i < e {..}  becomes  for i < full {..}  for i_1 < e - full {..}
 *
 * with i + full in the second. A trip is full when no inner extent min(f, n - f*i) is below f and no
 * access's validity n - 1 - i*f - .. >= 0 fails; both are linear in i with a negative coefficient
 * once the inner variables stand at their worst, so the full trips come first and their number is
 * a floor division. Conditions of any other shape stay masked in both parts. The order of trips does
 * not change: always legal. The copy's loops get fresh names (i_1) and its tiles fresh memories. */
#include "kern/kern.h"

typedef struct peeling {
    kern *k;
    kstmt loop;
    sym var, full;
    bool any;
} peeling;

/* The trips in which condition >= 0, where those are the first ones. */
static void first_trips(peeling *p, sym condition) {
    sym_store *s = p->k->syms;
    int64_t c;
    sym rest;
    if (!sym_split(s, condition, p->var, &c, &rest) || c >= 0 || c == INT64_MIN) return;
    sym count = sym_div(s, sym_add(s, rest, sym_const(s, -c)), sym_const(s, -c));
    p->full = sym_min(s, p->full, sym_max(s, count, SYM_ZERO));
    p->any = true;
}

/* min(a, b) with b falling in i: b >= a. */
static void extent_trips(peeling *p, sym extent) {
    sym_store *s = p->k->syms;
    const sym *part;
    if (sym_kind_of(s, extent) != SYM_MIN) return;
    int n = sym_operands(s, extent, &part);
    if (n > 4) return;
    sym bound[4];
    memcpy(bound, part, (size_t)n * sizeof *bound);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (sym_uses(s, bound[i], p->var) && !sym_uses(s, bound[j], p->var))
                first_trips(p, sym_sub(s, bound[i], bound[j]));
}

static void find_full(peeling *p) {
    kern *k = p->k;
    for (kstmt c = p->loop; (c = kern_next(k, c, p->loop));)
        if (kern_s(k, c)->kind == KS_LOOP && sym_uses(k->syms, kern_s(k, c)->l.extent, p->var))
            extent_trips(p, kern_s(k, c)->l.extent);
    kern_touch *t;
    uint32_t n = kern_touches(k, p->loop, &t);
    for (uint32_t i = 0; i < n; i++) {
        sym fact[KERN_FACTS], worst;
        int facts = kern_facts(k, t[i].valid, fact);
        for (int f = 0; f < facts; f++)
            if (sym_uses(k->syms, fact[f], p->var) &&
                kern_extreme(k, t[i].at, p->loop, fact[f], false, &worst))
                first_trips(p, worst);
    }
}

bool kern_peel(kern *k, kstmt loop, str *why) {
    sym_store *s = k->syms;
    kern_stmt l = *kern_s(k, loop);
    if (l.loop != KERN_SERIAL) return kern_refuse(why, "only a serial loop can be peeled");
    peeling p = {k, loop, l.l.var, l.l.extent, false};
    find_full(&p);
    if (!p.any || p.full == l.l.extent) return kern_refuse(why, "nothing in the loop is cut short");
    if (sym_hi(s, p.full) <= 0) return kern_refuse(why, "every trip of the loop is cut short");

    kstmt copy = kern_copy(k, loop);
    kern_insert(k, copy, l.parent, l.next);
    kern_rename(k, copy);
    sym same = kern_s(k, copy)->l.var;
    sym rest = sym_loop(s, sym_name(s, same), sym_sub(s, l.l.extent, p.full));
    sym shifted = sym_add(s, p.full, rest);
    kern_s(k, copy)->l.var = rest;
    kern_s(k, copy)->l.extent = sym_sub(s, l.l.extent, p.full);
    kern_subst(k, copy, 1, &same, &shifted);

    sym first = sym_loop(s, sym_name(s, l.l.var), p.full);
    kern_s(k, loop)->l.var = first;
    kern_s(k, loop)->l.extent = p.full;
    kern_subst(k, loop, 1, &l.l.var, &first);
    return true;
}

bool transform_peel(kern *k, const transform_args *a, str *why) {
    return kern_peel(k, a->loop[0], why);
}
