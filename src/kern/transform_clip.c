/* transform_clip.c - only the trips that do something.
 *
 *   clip i    for i < e { .. }   becomes   for i < hi - lo { .. }   with lo + i for i
 *
 * A trip does nothing when each of its stores is off, by its validity, or stores to an element of a
 * tile that nobody reads. Under a causal mask the sums over keys are off past the query; in a block
 * of queries past its last one; once those loops are clipped, nobody reads the scores behind, so
 * that the loop which makes them is clipped in turn, and masked blocks are not computed at all.
 *
 * Both bounds are linear: of a condition v <= rest, or rest <= v, with rest at its widest over the
 * loops inside; of a tile's index c*v + rest, against the least and largest index of all loads of
 * it. What cannot be bounded so keeps the trips it has. Trips that do something stay in their
 * order: always legal. */
#include "kern/kern.h"

typedef struct clipping {
    kern *k;
    kstmt loop;
    sym var, lo, hi; /* trips in [lo, hi) may do something */
    bool any;        /* there was a store */
} clipping;

/* Trips in which a condition holds, some time. */
static void bound_by(clipping *c, kstmt at, sym condition, sym *lo, sym *hi) {
    sym_store *s = c->k->syms;
    int64_t coef;
    sym rest, widest;
    if (!sym_split(s, condition, c->var, &coef, &rest)) return;
    if (coef == -1 && kern_extreme(c->k, at, c->loop, rest, true, &widest))
        *hi = sym_min(s, *hi, sym_add(s, widest, SYM_ONE));
    rest = sym_scale(s, rest, -1);
    if (coef == 1 && kern_extreme(c->k, at, c->loop, rest, false, &widest))
        *lo = sym_max(s, *lo, widest);
}

/* The loop, or root, in whose block the tile is defined; 0: it is no tile. */
static kstmt home_of(const kern *k, kmem tile) {
    for (kstmt s = k->root; s; s = kern_next(k, s, k->root))
        if (kern_s(k, s)->kind == KS_DEF && kern_s(k, s)->def.mem == tile)
            return kern_s(k, s)->parent;
    return 0;
}

/* The least and the largest index at which a tile is read, in terms of the loops around it. */
static bool read_range(kern *k, kmem tile, kstmt home, sym *least, sym *most) {
    kern_touch *t;
    uint32_t n = kern_touches(k, home, &t);
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        sym a, b;
        if (t[i].mem != tile) continue;
        if (t[i].dyn || (!t[i].load && t[i].monoid != MONOID_SET)) return false;
        if (!t[i].load) continue;
        if (!kern_extreme(k, t[i].at, home, t[i].index, false, &a)) return false;
        if (!kern_extreme(k, t[i].at, home, t[i].index, true, &b)) return false;
        *least = any ? sym_min(k->syms, *least, a) : a;
        *most = any ? sym_max(k->syms, *most, b) : b;
        any = true;
    }
    return any;
}

/* Trips that store to elements which are read. */
static void bound_by_reads(clipping *c, kstmt at, sym *lo, sym *hi) {
    kern *k = c->k;
    sym_store *s = k->syms;
    const kern_stmt x = *kern_s(k, at);
    int64_t coef;
    sym rest, least, most, below, above;
    kstmt home = home_of(k, x.store.mem[0]);
    if (!home || !kern_inside(k, c->loop, home) || home == c->loop) return;
    if (x.n != 1 || x.monoid != MONOID_SET || x.store.dyn) return;
    if (!sym_split(s, x.store.index, c->var, &coef, &rest) || coef < 1) return;
    if (!read_range(k, x.store.mem[0], home, &least, &most)) return;
    if (!kern_extreme(k, at, home, rest, false, &below)) return;
    if (!kern_extreme(k, at, home, rest, true, &above)) return;
    if (sym_uses(s, below, c->var) || sym_uses(s, above, c->var)) return;
    sym by = sym_const(s, coef);
    *hi = sym_min(s, *hi, sym_add(s, sym_div(s, sym_sub(s, most, below), by), SYM_ONE));
    sym up = sym_add(s, sym_sub(s, least, above), sym_const(s, coef - 1));
    *lo = sym_max(s, *lo, sym_div(s, up, by));
}

/* What a trip does to a tile of its own matters only through what it does to others. */
static bool is_own(const clipping *c, kstmt at) {
    const kern_stmt *x = kern_s(c->k, at);
    for (int i = 0; i < x->n; i++) {
        kstmt home = home_of(c->k, x->store.mem[i]);
        if (!home || !kern_inside(c->k, home, c->loop)) return false;
    }
    return true;
}

static void add_store(clipping *c, kstmt at) {
    kern *k = c->k;
    if (is_own(c, at)) return;
    sym fact[KERN_FACTS], lo = SYM_ZERO, hi = kern_s(k, c->loop)->l.extent;
    int n = kern_facts(k, kern_s(k, at)->store.valid, fact);
    for (int i = 0; i < n; i++) bound_by(c, at, fact[i], &lo, &hi);
    bound_by_reads(c, at, &lo, &hi);
    c->lo = c->any ? sym_min(k->syms, c->lo, lo) : lo;
    c->hi = c->any ? sym_max(k->syms, c->hi, hi) : hi;
    c->any = true;
}

bool kern_clip(kern *k, kstmt loop, str *why) {
    sym_store *s = k->syms;
    kern_stmt l = *kern_s(k, loop);
    if (l.kind != KS_LOOP || l.loop != KERN_SERIAL)
        return kern_refuse(why, "only a serial loop can be clipped");
    for (kstmt p = l.parent; p; p = kern_s(k, p)->parent)
        if (kern_s(k, p)->loop == KERN_VEC)
            return kern_refuse(why, "lanes of a vector loop would differ in trips");
    clipping c = {.k = k, .loop = loop, .var = l.l.var};
    for (kstmt p = loop; (p = kern_next(k, p, loop));)
        if (kern_s(k, p)->kind == KS_STORE) add_store(&c, p);
    if (!c.any || (c.lo == SYM_ZERO && c.hi == l.l.extent))
        return kern_refuse(why, "every trip of the loop may do something");
    sym extent = sym_sub(s, c.hi, c.lo);
    if (sym_lo(s, extent) < 0 && !kern_prove(k, l.parent, extent, 0, NULL))
        extent = sym_max(s, extent, SYM_ZERO);
    if (!kern_plain(k, extent, why) || !kern_plain(k, c.lo, why)) return false;
    kern_s(k, loop)->l.var = sym_loop(s, sym_name(s, l.l.var), extent);
    kern_s(k, loop)->l.extent = extent;
    sym shifted = sym_add(s, c.lo, kern_trip(k, loop));
    kern_subst(k, loop, 1, &l.l.var, &shifted);
    return true;
}

bool transform_clip(kern *k, const transform_args *a, str *why) {
    return kern_clip(k, a->loop[0], why);
}
