/* peel.c - separate the full iterations of a loop from those at the edge.
 *
 *   peel i    for i < e {..}  becomes  for i < full {..}  for i_1 < e - full {..}
 *
 * with i + full in the second. An iteration is full when no inner extent min(f, n - f*i) is below f
 * and no access's mask n - 1 - i*f - .. >= 0 fails. Both are linear in i with a negative
 * coefficient once the inner variables take their worst values, so the full iterations come first
 * and their number is a floor division. Where all conditions rise with i the full iterations come
 * last. Conditions of any other shape stay masked in both parts. The copy's loops get fresh names
 * (i_1) and its tiles fresh memories.
 *
 * Where conditions are cut off at offsets that a launch gives, how many iterations are full is
 * the least of all of these, and each mask in the rest is compared with each: beyond a few there is
 * little left to be full, and the loop stays whole.
 *
 * Always legal: the order of iterations does not change. */
#include "transform/transform.h"

typedef struct peeling {
    kernel *k;
    stmt_id loop;
    sym var, full; /* iterations before the conditions that fall with var begin to fail */
    sym late;      /* iterations before those that rise with it hold */
    bool falls, rises;
    int unknown; /* cuts that are known at launch only */
} peeling;
enum { MOST_UNKNOWN = 4 };

/* The iterations in which condition >= 0: the first ones, or the last. */
static void first_trips(peeling *p, sym condition) {
    sym_store *s = p->k->syms;
    int64_t c;
    sym rest;
    if (!sym_split(s, condition, p->var, &c, &rest) || c == 0 || c == INT64_MIN) return;
    if (c > 0) {
        sym start = sym_sub(s, sym_const(s, c - 1), rest), was = p->late;
        p->late = sym_max(s, was, sym_div(s, start, sym_const(s, c)));
        p->unknown += p->late != was && !sym_is_const(s, p->late, NULL);
        p->rises = true;
        return;
    }
    sym count = sym_div(s, sym_add(s, rest, sym_const(s, -c)), sym_const(s, -c));
    if (!ir_prove(p->k, ir_s(p->k, p->loop)->parent, count, 0, NULL))
        count = sym_max(s, count, SYM_ZERO);
    sym was = p->full;
    p->full = sym_min(s, was, count);
    p->unknown += p->full != was && !sym_is_const(s, p->full, NULL);
    p->falls = true;
}

/* An inner extent min(a, b) with b falling in i: b >= a, for all values of the loops between. */
static void extent_trips(peeling *p, stmt_id loop) {
    sym_store *s = p->k->syms;
    sym bound[IR_PARTS], worst;
    int n = ir_least_of(p->k, ir_s(p->k, loop)->l.extent, bound);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (sym_uses(s, bound[i], p->var) && !sym_uses(s, bound[j], p->var) &&
                ir_extreme(p->k, ir_s(p->k, loop)->parent, p->loop, sym_sub(s, bound[i], bound[j]),
                           false, &worst))
                first_trips(p, worst);
}

static void find_full(peeling *p) {
    kernel *k = p->k;
    for (stmt_id c = p->loop; (c = ir_next(k, c, p->loop));)
        if (ir_s(k, c)->kind == STMT_LOOP && sym_uses(k->syms, ir_s(k, c)->l.extent, p->var))
            extent_trips(p, c);
    ir_access *t;
    uint32_t n = ir_accesses(k, p->loop, &t);
    for (uint32_t i = 0; i < n; i++) {
        sym fact[IR_FACTS], worst;
        int facts = ir_facts(k, t[i].valid, fact);
        for (int f = 0; f < facts && p->unknown <= MOST_UNKNOWN; f++)
            if (sym_uses(k->syms, fact[f], p->var) &&
                ir_extreme(k, t[i].at, p->loop, fact[f], false, &worst))
                first_trips(p, worst);
    }
}

/* An extent like e - min(e, ..): how many of these iterations are full cannot be bounded. */
static bool is_rest(const kernel *k, sym extent) {
    sym_linear t = sym_terms(k->syms, extent);
    for (int i = 0; i < t.n; i++) {
        sym_kind kind = sym_kind_of(k->syms, t.term[i]);
        if (t.coef[i] < 0 && (kind == SYM_MIN || kind == SYM_MAX || kind == SYM_DIV)) return true;
    }
    return false;
}

bool transform_may_part(kernel *k, stmt_id loop, const char *parted, str *why) {
    const ir_stmt *l = ir_s(k, loop);
    if (l->loop != LOOP_SERIAL) return ir_refuse(why, "only a serial loop can be %s", parted);
    if (!ir_divisible(k, l->parent, why)) return false;
    for (stmt_id p = l->parent; p; p = ir_s(k, p)->parent)
        if (ir_s(k, p)->loop == LOOP_VEC)
            return ir_refuse(why, "lanes of a vector loop would differ in trips");
    return true;
}

stmt_id transform_copy(kernel *k, stmt_id loop, stmt_id before) {
    stmt_id copy = ir_copy(k, loop);
    ir_insert(k, copy, ir_s(k, loop)->parent, before);
    ir_rename(k, copy);
    return copy;
}

void transform_take_trips(kernel *k, stmt_id loop, sym first, sym count) {
    sym_store *s = k->syms;
    sym was = ir_s(k, loop)->l.var;
    ir_s(k, loop)->l.var = sym_loop(s, sym_name(s, was), count);
    ir_s(k, loop)->l.extent = count;
    sym now = sym_add(s, first, ir_trip(k, loop));
    ir_subst(k, loop, 1, &was, &now);
}

bool transform_peel(kernel *k, stmt_id loop, transform_made *made, str *why) {
    sym_store *s = k->syms;
    ir_stmt l = *ir_s(k, loop);
    if (!transform_may_part(k, loop, "peeled", why)) return false;
    if (is_rest(k, l.l.extent)) return ir_refuse(why, "the loop is what a peeling left");
    peeling p = {.k = k, .loop = loop, .var = l.l.var, .full = l.l.extent, .late = SYM_ZERO};
    find_full(&p);
    if (p.unknown > MOST_UNKNOWN)
        return ir_refuse(why, "the loop is cut short at %d places that are not known", p.unknown);
    if (!p.falls && p.rises) p.full = sym_min(s, p.late, l.l.extent);
    if ((!p.falls && !p.rises) || p.full == l.l.extent)
        return ir_refuse(why, "nothing in the loop is cut short");
    if (sym_hi(s, p.full) <= 0)
        return ir_refuse(why, "%s trip of the loop is cut short", p.falls ? "every" : "no");
    sym left = sym_sub(s, l.l.extent, p.full);
    if (!ir_plain(k, p.full, why) || !ir_plain(k, left, why)) return false;

    stmt_id copy = transform_copy(k, loop, l.next);
    transform_take_trips(k, copy, p.full, left);
    transform_take_trips(k, loop, SYM_ZERO, p.full);
    transform_report(k, made, copy);
    return true;
}

bool apply_peel(kernel *k, const transform_args *a, transform_made *made, str *why) {
    return transform_peel(k, a->loop[0], made, why);
}
