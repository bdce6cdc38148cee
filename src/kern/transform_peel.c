/* transform_peel.c - the trips where nothing is cut short apart from those at the edge.
 *
 *   peel i    for i < e {..}  becomes  for i < full {..}  for i_1 < e - full {..}
 *
 * with i + full in the second. A trip is full when no inner extent min(f, n - f*i) is below f and
 * no access's validity n - 1 - i*f - .. >= 0 fails; both are linear in i with a negative
 * coefficient once the inner variables stand at their worst, so the full trips come first and their
 * number is a floor division. Where all conditions rise with i the full trips come last, behind
 * those that are cut short. Conditions of any other shape stay masked in both parts. The order of
 * trips does not change: always legal. The copy's loops get fresh names (i_1) and its tiles fresh
 * memories. */
#include "kern/kern.h"

typedef struct peeling {
    kern *k;
    kstmt loop;
    sym var, full; /* trips in front of where conditions that fall with var begin to fail */
    sym late;      /* trips until those that rise with it hold */
    bool falls, rises;
} peeling;

/* The trips in which condition >= 0: the first ones, or the last. */
static void first_trips(peeling *p, sym condition) {
    sym_store *s = p->k->syms;
    int64_t c;
    sym rest;
    if (!sym_split(s, condition, p->var, &c, &rest) || c == 0 || c == INT64_MIN) return;
    if (c > 0) {
        sym start = sym_sub(s, sym_const(s, c - 1), rest);
        p->late = sym_max(s, p->late, sym_div(s, start, sym_const(s, c)));
        p->rises = true;
        return;
    }
    sym count = sym_div(s, sym_add(s, rest, sym_const(s, -c)), sym_const(s, -c));
    if (!kern_prove(p->k, kern_s(p->k, p->loop)->parent, count, 0, NULL))
        count = sym_max(s, count, SYM_ZERO);
    p->full = sym_min(s, p->full, count);
    p->falls = true;
}

/* An inner extent min(a, b) with b falling in i: b >= a, whatever the loops between do. */
static void extent_trips(peeling *p, kstmt loop) {
    sym_store *s = p->k->syms;
    sym bound[KERN_PARTS], worst;
    int n = kern_least_of(p->k, kern_s(p->k, loop)->l.extent, bound);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (sym_uses(s, bound[i], p->var) && !sym_uses(s, bound[j], p->var) &&
                kern_extreme(p->k, kern_s(p->k, loop)->parent, p->loop,
                             sym_sub(s, bound[i], bound[j]), false, &worst))
                first_trips(p, worst);
}

static void find_full(peeling *p) {
    kern *k = p->k;
    for (kstmt c = p->loop; (c = kern_next(k, c, p->loop));)
        if (kern_s(k, c)->kind == KS_LOOP && sym_uses(k->syms, kern_s(k, c)->l.extent, p->var))
            extent_trips(p, c);
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

/* An extent like e - min(e, ..): nobody can say how many of these trips are full. */
static bool is_rest(const kern *k, sym extent) {
    sym_linear t = sym_terms(k->syms, extent);
    for (int i = 0; i < t.n; i++) {
        sym_kind kind = sym_kind_of(k->syms, t.term[i]);
        if (t.coef[i] < 0 && (kind == SYM_MIN || kind == SYM_MAX || kind == SYM_DIV)) return true;
    }
    return false;
}

bool kern_peel(kern *k, kstmt loop, str *why) {
    sym_store *s = k->syms;
    kern_stmt l = *kern_s(k, loop);
    if (l.loop != KERN_SERIAL) return kern_refuse(why, "only a serial loop can be peeled");
    if (!kern_divisible(k, l.parent, why)) return false;
    for (kstmt p = l.parent; p; p = kern_s(k, p)->parent)
        if (kern_s(k, p)->loop == KERN_VEC)
            return kern_refuse(why, "lanes of a vector loop would differ in trips");
    if (is_rest(k, l.l.extent)) return kern_refuse(why, "the loop is what a peeling left");
    peeling p = {k, loop, l.l.var, l.l.extent, SYM_ZERO, false, false};
    find_full(&p);
    if (!p.falls && p.rises) p.full = sym_min(s, p.late, l.l.extent);
    if ((!p.falls && !p.rises) || p.full == l.l.extent)
        return kern_refuse(why, "nothing in the loop is cut short");
    if (sym_hi(s, p.full) <= 0)
        return kern_refuse(why, "%s trip of the loop is cut short", p.falls ? "every" : "no");
    sym left = sym_sub(s, l.l.extent, p.full);
    if (!kern_plain(k, p.full, why) || !kern_plain(k, left, why)) return false;

    kstmt copy = kern_copy(k, loop);
    kern_insert(k, copy, l.parent, l.next);
    kern_rename(k, copy);
    sym same = kern_s(k, copy)->l.var;
    sym rest = sym_loop(s, sym_name(s, same), left);
    kern_s(k, copy)->l.var = rest;
    kern_s(k, copy)->l.extent = left;
    sym shifted = sym_add(s, p.full, kern_trip(k, copy));
    kern_subst(k, copy, 1, &same, &shifted);

    sym first = sym_loop(s, sym_name(s, l.l.var), p.full);
    kern_s(k, loop)->l.var = first;
    kern_s(k, loop)->l.extent = p.full;
    first = kern_trip(k, loop);
    kern_subst(k, loop, 1, &l.l.var, &first);
    return true;
}

bool transform_peel(kern *k, const transform_args *a, str *why) {
    return kern_peel(k, a->loop[0], why);
}
