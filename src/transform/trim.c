/* trim.c - tighten the bounds of a loop to the iterations that have an effect.
 *
 *   trim i    for i < e { .. }   becomes   for i < hi - lo { .. }   with lo + i for i
 *
 * An iteration has no effect when each of its stores is masked off, or stores to an element of a
 * tile that nobody reads. Under a causal mask the sums over keys are masked past the query, in a
 * block of queries past its last one. Once those loops are trimmed, nobody reads the scores behind,
 * so the loop that computes them is trimmed in turn, and masked blocks are not computed at all.
 *
 * Both bounds are linear: from a condition c*v <= rest, or rest <= c*v, with rest at its widest
 * over the inner loops; from a tile's index c*v + rest, against the least and largest index of all
 * its loads. What cannot be bounded this way keeps its iterations.
 *
 * Always legal: the iterations that have an effect keep their order. */
#include "transform/transform.h"

typedef struct trimming {
    kernel *k;
    stmt_id loop;
    sym var, lo, hi; /* iterations in [lo, hi) may have an effect */
    bool any;        /* there was a store */
} trimming;

/* Bounds of the iterations in which a condition holds for some inner iteration. */
static void bound_by(trimming *c, stmt_id at, sym condition, sym *lo, sym *hi) {
    sym_store *s = c->k->syms;
    int64_t coef;
    sym rest, widest;
    if (!sym_split(s, condition, c->var, &coef, &rest)) return;
    bool most = coef < 0;
    if (!most) rest = sym_scale(s, rest, -1);
    if (!coef || !ir_extreme(c->k, at, c->loop, rest, most, &widest) ||
        sym_uses(s, widest, c->var)) /* an inner loop that ends by it */
        return;
    sym by = sym_const(s, most ? -coef : coef);
    if (most)
        *hi = sym_min(s, *hi, sym_add(s, sym_div(s, widest, by), SYM_ONE));
    else
        *lo = sym_max(s, *lo, sym_div(s, sym_add(s, widest, sym_const(s, coef - 1)), by));
}

/* The loop, or root, in whose block the tile is defined; 0: it is no tile. */
static stmt_id block_of(const kernel *k, mem_id tile) {
    for (stmt_id s = k->root; s; s = ir_next(k, s, k->root))
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == tile) return ir_s(k, s)->parent;
    return 0;
}

/* The least and the largest index at which a tile is read, in terms of the loops around it. */
static bool read_range(kernel *k, mem_id tile, stmt_id block, sym *least, sym *most) {
    ir_access *t;
    uint32_t n = ir_accesses(k, block, &t);
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        sym a, b;
        if (t[i].mem != tile) continue;
        if (t[i].dyn || (!t[i].load && t[i].monoid != MONOID_SET)) return false;
        if (!t[i].load) continue;
        if (!ir_extreme(k, t[i].at, block, t[i].index, false, &a)) return false;
        if (!ir_extreme(k, t[i].at, block, t[i].index, true, &b)) return false;
        *least = any ? sym_min(k->syms, *least, a) : a;
        *most = any ? sym_max(k->syms, *most, b) : b;
        any = true;
    }
    return any;
}

/* Bounds of the iterations that store to elements which are read. */
static void bound_by_reads(trimming *c, stmt_id at, sym *lo, sym *hi) {
    kernel *k = c->k;
    sym_store *s = k->syms;
    const ir_stmt x = *ir_s(k, at);
    int64_t coef;
    sym rest, least = 0, most = 0, below, above;
    stmt_id block = block_of(k, x.store.mem[0]);
    if (!block || !ir_inside(k, c->loop, block) || block == c->loop) return;
    if (x.n != 1 || x.monoid != MONOID_SET || x.store.dyn) return;
    if (!sym_split(s, x.store.index, c->var, &coef, &rest) || coef < 1) return;
    if (!read_range(k, x.store.mem[0], block, &least, &most)) return;
    if (!ir_extreme(k, at, block, rest, false, &below)) return;
    if (!ir_extreme(k, at, block, rest, true, &above)) return;
    if (sym_uses(s, below, c->var) || sym_uses(s, above, c->var)) return;
    sym by = sym_const(s, coef);
    *hi = sym_min(s, *hi, sym_add(s, sym_div(s, sym_sub(s, most, below), by), SYM_ONE));
    sym up = sym_add(s, sym_sub(s, least, above), sym_const(s, coef - 1));
    *lo = sym_max(s, *lo, sym_div(s, up, by));
}

/* Is the store to a tile defined inside the loop? It has an effect only by way of other stores. */
static bool is_own(const trimming *c, stmt_id at) {
    const ir_stmt *x = ir_s(c->k, at);
    for (int i = 0; i < x->n; i++) {
        stmt_id block = block_of(c->k, x->store.mem[i]);
        if (!block || !ir_inside(c->k, block, c->loop)) return false;
    }
    return true;
}

static void add_store(trimming *c, stmt_id at) {
    kernel *k = c->k;
    if (is_own(c, at)) return;
    sym fact[IR_FACTS], lo = SYM_ZERO, hi = ir_s(k, c->loop)->l.extent;
    int n = ir_facts(k, ir_s(k, at)->store.valid, fact);
    for (int i = 0; i < n; i++) bound_by(c, at, fact[i], &lo, &hi);
    bound_by_reads(c, at, &lo, &hi);
    c->lo = c->any ? sym_min(k->syms, c->lo, lo) : lo;
    c->hi = c->any ? sym_max(k->syms, c->hi, hi) : hi;
    c->any = true;
}

bool transform_trim(kernel *k, stmt_id loop, str *why) {
    sym_store *s = k->syms;
    ir_stmt l = *ir_s(k, loop);
    if (l.kind != STMT_LOOP || l.loop != LOOP_SERIAL)
        return ir_refuse(why, "only a serial loop can be trimmed");
    for (stmt_id p = l.parent; p; p = ir_s(k, p)->parent)
        if (ir_s(k, p)->loop == LOOP_VEC)
            return ir_refuse(why, "lanes of a vector loop would differ in trips");
    trimming c = {.k = k, .loop = loop, .var = l.l.var};
    for (stmt_id p = loop; (p = ir_next(k, p, loop));)
        if (ir_s(k, p)->kind == STMT_STORE) add_store(&c, p);
    if (!c.any || (c.lo == SYM_ZERO && c.hi == l.l.extent))
        return ir_refuse(why, "every trip of the loop may do something");
    sym extent = sym_sub(s, c.hi, c.lo);
    if (sym_lo(s, extent) < 0 && !ir_prove(k, l.parent, extent, 0, NULL))
        extent = sym_max(s, extent, SYM_ZERO);
    if (!ir_plain(k, extent, why) || !ir_plain(k, c.lo, why)) return false;
    ir_s(k, loop)->l.var = sym_loop(s, sym_name(s, l.l.var), extent);
    ir_s(k, loop)->l.extent = extent;
    sym shifted = sym_add(s, c.lo, ir_trip(k, loop));
    ir_subst(k, loop, 1, &l.l.var, &shifted);
    return true;
}

bool apply_trim(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_trim(k, a->loop[0], why);
}
