/* transform_fuse.c - two loops of one block become one; and tiles that then live for a trip only.
 *
 *   fuse i j     for i { A } .. for j { B }   becomes   .. for i { A; B }   or   for i { A; B } ..
 *   confine t i  def t[n * c]; for i { t[c*i + ..] }   becomes   for i { def t[c]; t[..] }
 *
 * What is computed in one nest and used up in the next, the weights of a block of keys, is then
 * still in the nearest cache, and its tile needs room for a trip and not for the row.
 *
 * fuse is legal where the extents are the same and no trip of B needs a later one of A: what both
 * touch, and one stores to, belongs to the same trip or is only updated by one monoid. A part of B
 * that runs in the last trip only (carry makes such) comes after all of A in any case. Definitions
 * between the two go in front. What else is between shares nothing that is stored to with the
 * second loop, and the one loop stands in front of it, or with the first, and it stands behind.
 *
 * confine is legal where each element belongs to one trip, and nothing outside of the loop touches
 * the tile. */
#include "kern/kern.h"

/* ---- fuse ------------------------------------------------------------------------------------ */

/* Does a loop inside of `fused` have no trip but in the last one of that? */
static bool in_last_trip(kern *k, kstmt fused, kstmt inner) {
    sym_store *s = k->syms;
    kern_stmt l = *kern_s(k, fused), in = *kern_s(k, inner);
    if (!sym_uses(s, in.l.extent, l.l.var)) return false;
    sym shorter = sym_sub(s, l.l.extent, SYM_ONE);
    if (sym_hi(s, shorter) < 1) return true;
    sym var = sym_loop(s, sym_name(s, l.l.var), shorter);
    sym none = sym_scale(s, sym_subst(s, in.l.extent, 1, &l.l.var, &var), -1);
    kern_s(k, fused)->l.var = var; /* for the time of the proof, the trips before */
    kern_s(k, fused)->l.extent = shorter;
    bool proved = kern_prove(k, in.parent, none, 0, NULL);
    kern_s(k, fused)->l = l.l;
    return proved;
}

/* Take out of B, whose first statement is given, what runs in the last trip only. */
static void take_last_out(kern *k, kstmt fused, kstmt b) {
    for (; b; b = kern_s(k, b)->next)
        for (kstmt s = b, next; s; s = next) {
            next = kern_next(k, s, b);
            if (s == b || kern_s(k, s)->kind != KS_LOOP || !in_last_trip(k, fused, s)) continue;
            for (kstmt skip = next; skip && kern_inside(k, skip, s); skip = kern_next(k, skip, b))
                next = kern_next(k, skip, b);
            kern_unlink(k, s);
        }
}

static bool touched(const kern_touch *t, uint32_t n, kmem m) {
    for (uint32_t i = 0; i < n; i++)
        if (t[i].mem == m) return true;
    return false;
}

/* Both bodies in the first loop, and nothing asked. */
static void join(kern *k, kstmt first, kstmt second) {
    sym from = kern_s(k, second)->l.var, to = kern_s(k, first)->l.var;
    while (kern_s(k, second)->first) {
        kstmt c = kern_s(k, second)->first;
        kern_move(k, c, first, 0);
        kern_subst(k, c, 1, &from, &to);
    }
    kern_unlink(k, second);
}

static bool same_trips(kern *k, kstmt first, kstmt second, str *why) {
    const kern_stmt *a = kern_s(k, first), *b = kern_s(k, second);
    if (a->kind != KS_LOOP || b->kind != KS_LOOP || a->loop != KERN_SERIAL ||
        b->loop != KERN_SERIAL)
        return kern_refuse(why, "only serial loops can be fused");
    if (a->l.extent != b->l.extent)
        return kern_refuse(why, "the loops have other numbers of trips");
    if (a->parent != b->parent) return kern_refuse(why, "the loops are not beside each other");
    for (kstmt s = a->next; s != second; s = kern_s(k, s)->next) {
        if (!s) return kern_refuse(why, "the second loop is not behind the first");
        kern_touch *t;
        if (kern_s(k, s)->kind == KS_DEF && kern_touches(k, s, &t))
            return kern_refuse(why, "a definition between the loops reads something");
    }
    return true;
}

/* May the loop and the statement beside it change places? */
static bool independent(kern *k, const kern_touch *t, uint32_t n, kstmt s) {
    for (kstmt c = s; c; c = kern_next(k, c, s))
        if (kern_s(k, c)->kind == KS_BARRIER) return false;
    kern_touch *other;
    uint32_t m = kern_touches(k, s, &other);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < m; j++)
            if (t[i].mem == other[j].mem && !(t[i].load && other[j].load)) return false;
    return true;
}

/* Definitions between the loops go in front of both, and then one loop to the other: the second up,
 * else the first down. */
static bool bring_together(kern *k, kstmt first, const kern_touch *a, uint32_t n, kstmt second,
                           const kern_touch *b, uint32_t m, str *why) {
    kstmt block = kern_s(k, first)->parent;
    bool up = true, down = true;
    for (kstmt s = kern_s(k, first)->next, next; s != second; s = next) {
        next = kern_s(k, s)->next;
        if (kern_s(k, s)->kind == KS_DEF) {
            kern_move(k, s, block, first);
            continue;
        }
        up = up && independent(k, b, m, s);
        down = down && independent(k, a, n, s);
    }
    if (!up && !down) return kern_refuse(why, "what is between the loops depends on both");
    if (kern_s(k, first)->next == second) return true;
    kstmt moved = up ? second : first, before = up ? kern_s(k, first)->next : second;
    kern_move(k, moved, block, before);
    return true;
}

bool kern_fuse(kern *k, kstmt first, kstmt second, str *why) {
    if (!same_trips(k, first, second, why)) return false;
    kern_touch *a, *b;
    uint32_t n = kern_touches(k, first, &a), m = kern_touches(k, second, &b);
    bool *alone = arena_zeroed(&k->arena, k->mems * sizeof *alone);
    for (kmem i = 1; i < k->mems; i++) alone[i] = !touched(a, n, i) || !touched(b, m, i);
    kern_tables apart = kern_save(k);
    if (!bring_together(k, first, a, n, second, b, m, why)) {
        kern_restore(k, &apart);
        return false;
    }
    kstmt rest = kern_s(k, second)->first;
    join(k, first, second);
    kern_tables done = kern_save(k);
    take_last_out(k, first, rest);
    bool fine = kern_apart_but(k, first, alone, why);
    kern_restore(k, fine ? &done : &apart);
    return fine;
}

bool transform_fuse(kern *k, const transform_args *a, str *why) {
    return kern_fuse(k, a->loop[0], a->loop[1], why);
}

/* ---- confine --------------------------------------------------------------------------------- */

typedef struct confining {
    kmem tile;
    sym first; /* the trip's first element */
} confining;

static kexpr confine_rewriter(kern *k, const kern_expr *e, void *user) {
    const confining *c = user;
    kern_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == KE_LOAD && row.load.mem == c->tile)
        row.load.index = sym_sub(k->syms, row.load.index, c->first);
    return kern_rebuild(k, &row, NULL);
}

/* The elements a trip has: index = each*i + small, 0 <= small < each, at every access. */
static bool own_elements(kern *k, kmem tile, kstmt loop, sym *each, str *why) {
    sym_store *s = k->syms;
    kern_touch *t;
    uint32_t n = kern_touches(k, k->root, &t);
    *each = SYM_ZERO;
    for (uint32_t i = 0; i < n; i++) {
        sym c, small, fact[KERN_FACTS];
        if (t[i].mem != tile) continue;
        if (!kern_inside(k, t[i].at, loop))
            return kern_refuse(why, "something outside of the loop touches the tile");
        if (t[i].dyn || !kern_linear(k, t[i].index, kern_s(k, loop)->l.var, &c, &small) ||
            sym_lo(s, c) < 1 || (*each != SYM_ZERO && c != *each))
            return kern_refuse(why, "the tile's index does not step with the loop");
        *each = c;
        if (!t[i].load && kern_s(k, t[i].at)->n > 1)
            return kern_refuse(why, "the tile is stored together with another");
        int facts = kern_facts(k, t[i].valid, fact);
        if (!kern_prove(k, t[i].at, small, facts, fact) ||
            !kern_prove(k, t[i].at, sym_sub(s, sym_sub(s, c, SYM_ONE), small), facts, fact))
            return kern_refuse(why, "a trip of the loop may touch elements of another");
    }
    return *each != SYM_ZERO || kern_refuse(why, "the loop does not touch the tile");
}

bool kern_confine(kern *k, kmem tile, kstmt loop, str *why) {
    sym each;
    kstmt def = 0;
    if (kern_m(k, tile)->scope == KERN_ARG) return kern_refuse(why, "only a tile is confined");
    for (kstmt s = k->root; (s = kern_next(k, s, k->root)) && !def;)
        if (kern_s(k, s)->kind == KS_DEF && kern_s(k, s)->def.mem == tile) def = s;
    if (!def || kern_s(k, def)->parent != kern_s(k, loop)->parent)
        return kern_refuse(why, "the tile is not defined beside the loop");
    if (kern_s(k, loop)->loop != KERN_SERIAL)
        return kern_refuse(why, "only a serial loop can have a tile of its own");
    kern_touch *t;
    if (kern_touches(k, def, &t)) return kern_refuse(why, "the tile's first value is computed");
    if (!own_elements(k, tile, loop, &each, why)) return false;
    confining c = {tile, sym_mul(k->syms, each, kern_trip(k, loop))};
    kern_rewrite(k, loop, confine_rewriter, &c);
    for (kstmt s = loop; s; s = kern_next(k, s, loop)) {
        kern_stmt *x = kern_s(k, s);
        if (x->kind == KS_STORE && x->store.mem[0] == tile)
            x->store.index = sym_sub(k->syms, x->store.index, c.first);
    }
    kern_m(k, tile)->size = each;
    kern_move(k, def, loop, kern_s(k, loop)->first);
    return true;
}

bool transform_confine(kern *k, const transform_args *a, str *why) {
    return kern_confine(k, a->mem, a->loop[0], why);
}
