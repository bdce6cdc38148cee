/* pad.c - round a loop's extent up to a multiple, with the added iterations masked.
 *
 *   pad i m    for i < e {..}  becomes  for i < m*ceil(e/m) {..}
 *
 * so that a split by m has constant extents. In the added iterations
 *   loads that depend on i are invalid: they read 0;
 *   stores to what outlives the iteration (arguments, tiles defined outside the loop) are invalid,
 *     except for sums of products that are 0 then: they need no mask;
 *   stores to tiles defined inside stay valid: nobody reads those values, and a reduction into them
 *     needs no mask in its inner loop.
 * Arithmetic never traps, so values computed from zeros do no harm.
 *
 * Legal where no inner extent depends on i: such a loop would run further than its loads allow. */
#include "transform/transform.h"

typedef struct padding {
    sym var, inside; /* inside: the truth of i < e */
    uint8_t *known;  /* by expr_id: 0, or */
} padding;
enum { STAYS = 1, VANISHES = 2 };

static sym narrowed(kernel *k, const padding *p, sym valid) {
    return sym_and(k->syms, valid, p->inside);
}

static expr_id pad_rewriter(kernel *k, const ir_expr *e, void *user) {
    const padding *p = user;
    ir_expr row;
    memcpy(&row, e, sizeof row);
    if (row.kind == EXPR_LOAD) {
        bool uses =
            sym_uses(k->syms, row.load.index, p->var) || sym_uses(k->syms, row.load.valid, p->var);
        uses |= row.load.dyn && ir_expr_uses(k, row.load.dyn, p->var);
        uses |= row.load.guard && ir_expr_uses(k, row.load.guard, p->var);
        if (uses) row.load.valid = narrowed(k, p, row.load.valid);
    }
    return ir_rebuild(k, &row, NULL);
}

/* Mark the tiles that are defined inside the loop. */
static bool *inner_tiles(kernel *k, stmt_id loop) {
    bool *inner = arena_zeroed(&k->arena, k->mems * sizeof *inner);
    for (stmt_id c = loop; c; c = ir_next(k, c, loop))
        if (ir_s(k, c)->kind == STMT_DEF) inner[ir_s(k, c)->def.mem] = true;
    return inner;
}

/* Is the value 0 in the added iterations: an invalid load, or a conversion of one? */
static bool vanishes(kernel *k, const padding *p, expr_id id) {
    if (p->known[id]) return p->known[id] == VANISHES;
    const ir_expr *e = ir_e(k, id);
    bool yes = e->kind == EXPR_LOAD && (sym_uses(k->syms, e->load.index, p->var) ||
                                        sym_uses(k->syms, e->load.valid, p->var));
    if (e->kind == EXPR_OP && (e->op == OP_CAST || e->op == OP_MUL)) {
        yes = vanishes(k, p, e->arg[0]);
        if (e->op == OP_MUL) yes = yes && vanishes(k, p, e->arg[1]);
    }
    p->known[id] = yes ? VANISHES : STAYS;
    return yes;
}

/* The tile's sum starts from 0 and is never -0, so adding 0 leaves it as it is. */
static bool adds_nothing(kernel *k, const padding *p, const ir_stmt *t) {
    return t->monoid == MONOID_SUM && ir_m(k, t->store.mem[0])->scope != MEM_ARG &&
           !sym_uses(k->syms, t->store.index, p->var) && vanishes(k, p, t->store.value[0]);
}

static void pad_stores(kernel *k, stmt_id loop, const padding *p) {
    bool *inner = inner_tiles(k, loop);
    for (stmt_id c = loop; c; c = ir_next(k, c, loop)) {
        ir_stmt *t = ir_s(k, c);
        if (t->kind != STMT_STORE) continue;
        bool outlives = sym_uses(k->syms, t->store.index, p->var);
        for (int i = 0; i < t->n; i++) outlives |= !inner[t->store.mem[i]];
        if (outlives && !adds_nothing(k, p, t)) t->store.valid = narrowed(k, p, t->store.valid);
    }
}

bool transform_pad(kernel *k, stmt_id loop, int64_t multiple, str *why) {
    sym_store *s = k->syms;
    ir_stmt l = *ir_s(k, loop);
    if (l.loop != LOOP_SERIAL && l.loop != LOOP_PAR)
        return ir_refuse(why, "only a serial or parallel loop can be padded");
    if (multiple < 1 || multiple > INT32_MAX) return ir_refuse(why, "no multiple to pad to");
    for (stmt_id c = loop; (c = ir_next(k, c, loop));)
        if (ir_s(k, c)->kind == STMT_LOOP && sym_uses(s, ir_s(k, c)->l.extent, l.l.var))
            return ir_refuse(why, "the extent of %s depends on the loop",
                             sym_name(s, ir_s(k, c)->l.var));
    sym blocks =
        sym_div(s, sym_add(s, l.l.extent, sym_const(s, multiple - 1)), sym_const(s, multiple));
    sym extent = sym_scale(s, blocks, multiple);
    if (extent == l.l.extent) return true;
    if (!ir_plain(k, extent, why)) return false;
    sym var = sym_loop(s, sym_name(s, l.l.var), extent);
    ir_s(k, loop)->l.var = var;
    ir_s(k, loop)->l.extent = extent;
    ir_subst(k, loop, 1, &l.l.var, &var);
    padding p = {var, sym_lt(s, var, l.l.extent), arena_zeroed(&k->arena, k->exprs)};
    pad_stores(k, loop, &p);
    ir_rewrite(k, loop, pad_rewriter, &p);
    return true;
}

bool apply_pad(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_pad(k, a->loop[0], a->number, why);
}
