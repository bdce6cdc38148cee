/* transform_pad.c - run a loop some trips too far, with nothing to show for it.
 *
 *   pad i m    for i < e {..}  becomes  for i < m*ceil(e/m) {..}
 *
 * so that what is split off it has constant extents. In the trips past e
 *   loads that depend on i are invalid: they read 0;
 *   stores to what outlives the trip (arguments, tiles defined outside the loop) are invalid, but
 *     for sums in tiles of products that are 0 then: they go on, and need no mask;
 *   stores to tiles defined inside go on: nobody sees those values, and a reduction into them needs
 *   no mask in its inner loop.
 * Arithmetic never traps, so values computed from zeros do no harm. Loops inside whose extents use
 * i would run further than their loads are made for: refused. */
#include "kern/kern.h"

typedef struct padding {
    sym var, inside; /* inside: the truth of i < e */
} padding;

static sym narrowed(kern *k, const padding *p, sym valid) {
    return sym_and(k->syms, valid, p->inside);
}

static kexpr pad_rewriter(kern *k, const kern_expr *e, void *user) {
    const padding *p = user;
    kern_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == KE_LOAD) {
        bool uses =
            sym_uses(k->syms, row.load.index, p->var) || sym_uses(k->syms, row.load.valid, p->var);
        uses |= row.load.dyn && kern_expr_uses(k, row.load.dyn, p->var);
        uses |= row.load.guard && kern_expr_uses(k, row.load.guard, p->var);
        if (uses) row.load.valid = narrowed(k, p, row.load.valid);
    }
    return kern_rebuild(k, &row, NULL);
}

/* Mark the tiles that live within a trip. */
static bool *inner_tiles(kern *k, kstmt loop) {
    bool *inner = arena_zeroed(&k->arena, k->mems * sizeof *inner);
    for (kstmt c = loop; c; c = kern_next(k, c, loop))
        if (kern_s(k, c)->kind == KS_DEF) inner[kern_s(k, c)->def.mem] = true;
    return inner;
}

/* 0 in the trips past the end: a load that is invalid there, or a conversion of one. */
static bool vanishes(kern *k, const padding *p, kexpr id) {
    const kern_expr *e = kern_e(k, id);
    if (e->kind == KE_OP && e->op == OP_CAST) return vanishes(k, p, e->arg[0]);
    if (e->kind == KE_OP && e->op == OP_MUL)
        return vanishes(k, p, e->arg[0]) && vanishes(k, p, e->arg[1]);
    return e->kind == KE_LOAD &&
           (sym_uses(k->syms, e->load.index, p->var) || sym_uses(k->syms, e->load.valid, p->var));
}

/* A tile's sum begins with 0 and is never -0, so it stays what it is. */
static bool adds_nothing(kern *k, const padding *p, const kern_stmt *t) {
    return t->monoid == MONOID_SUM && kern_m(k, t->store.mem[0])->scope != KERN_ARG &&
           !sym_uses(k->syms, t->store.index, p->var) && vanishes(k, p, t->store.value[0]);
}

static void pad_stores(kern *k, kstmt loop, const padding *p) {
    bool *inner = inner_tiles(k, loop);
    for (kstmt c = loop; c; c = kern_next(k, c, loop)) {
        kern_stmt *t = kern_s(k, c);
        if (t->kind != KS_STORE) continue;
        bool outlives = sym_uses(k->syms, t->store.index, p->var);
        for (int i = 0; i < t->n; i++) outlives |= !inner[t->store.mem[i]];
        if (outlives && !adds_nothing(k, p, t)) t->store.valid = narrowed(k, p, t->store.valid);
    }
}

bool kern_pad(kern *k, kstmt loop, int64_t multiple, str *why) {
    sym_store *s = k->syms;
    kern_stmt l = *kern_s(k, loop);
    if (l.loop != KERN_SERIAL && l.loop != KERN_PAR)
        return kern_refuse(why, "only a serial or parallel loop can be padded");
    if (multiple < 1 || multiple > INT32_MAX) return kern_refuse(why, "no multiple to pad to");
    for (kstmt c = loop; (c = kern_next(k, c, loop));)
        if (kern_s(k, c)->kind == KS_LOOP && sym_uses(s, kern_s(k, c)->l.extent, l.l.var))
            return kern_refuse(why, "the extent of %s depends on the loop",
                               sym_name(s, kern_s(k, c)->l.var));
    sym blocks =
        sym_div(s, sym_add(s, l.l.extent, sym_const(s, multiple - 1)), sym_const(s, multiple));
    sym extent = sym_scale(s, blocks, multiple);
    if (extent == l.l.extent) return true;
    if (!kern_plain(k, extent, why)) return false;
    sym var = sym_loop(s, sym_name(s, l.l.var), extent);
    kern_s(k, loop)->l.var = var;
    kern_s(k, loop)->l.extent = extent;
    kern_subst(k, loop, 1, &l.l.var, &var);
    padding p = {var, sym_lt(s, var, l.l.extent)};
    pad_stores(k, loop, &p);
    kern_rewrite(k, loop, pad_rewriter, &p);
    return true;
}

bool transform_pad(kern *k, const transform_args *a, str *why) {
    return kern_pad(k, a->loop[0], a->number, why);
}
