/* grouping.c - how the terms of sums are grouped: the rule, and whether a tree keeps it.
 *
 * A sum of floats has other last bits for each order in which its terms are added. So the lowered
 * kernel says the order (ir_grouping), and schedules may only make it:
 *
 *   reg t0 f32[1] sum chains 2 lanes 8
 *   for r < 1024 { t0[0] += a1[r] }
 *
 * What a loop does to the order follows from how many terms its trips are apart. The loops of such
 * a sum carry that number: 1 for the innermost one as it was lowered, its extent for the one around
 * it. Split and merged loops have theirs from the loops they were, whatever their order. Then
 *
 *   - an accumulator for each trip (rfactor) is a lane where the trips are 1 apart and there are as
 *     many as lanes, a chain where they are as far apart as a chain has lanes, and a part where
 *     nothing of the sum is farther apart; in this order, which is that of merging them
 *   - what merges into one accumulator must do so in order: of two loops around the update the
 *     outer one's trips are farther apart, and no loop merges its trips at once, as lanes
 *   - in the end nothing may be left to be made.
 *
 * Of numbers that any order merges to the same (integers, maxima) the field says only what default
 * schedules make; nothing is refused. Of loops whose number is not known, as those of a sum that
 * goes over several nests, nothing is said here. */
#include "ir/ir.h"

bool ir_order_shows(int how, int dtype) {
    return dtype_is_float((qn_dtype)dtype) && monoid_commutes(how) && how != MONOID_MAX &&
           how != MONOID_MIN && how != MONOID_ARGMAX && how != MONOID_ARGMIN;
}

/* What is said of a tile's sum where its order shows, else NULL. */
static const ir_grouping *said(const kernel *k, const ir_stmt *update) {
    const ir_memory *m = ir_m(k, update->store.mem[0]);
    if (update->kind != STMT_STORE || !m->sum.lanes) return NULL;
    return ir_order_shows(update->monoid, m->dtype) ? &m->sum : NULL;
}

static bool is_made(const ir_grouping *g) {
    return g->parts == 1 && g->chains == 1 && g->lanes == 1;
}

static stmt_id def_of(const kernel *k, mem_id tile) {
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));)
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == tile) return s;
    return 0;
}

/* The loop in whose trips the tile lives anew; 0: it is never defined. */
static stmt_id home_of(const kernel *k, mem_id tile) {
    stmt_id def = def_of(k, tile);
    return def ? ir_s(k, def)->parent : 0;
}

void ir_number_terms(kernel *k) {
    const sym unset = SYM_ZERO;
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));) {
        const ir_stmt u = *ir_s(k, s);
        if (u.kind != STMT_STORE || !ir_m(k, u.store.mem[0])->sum.lanes) continue;
        stmt_id home = home_of(k, u.store.mem[0]);
        sym apart = SYM_ONE;
        for (stmt_id l = u.parent; home && l != home && l != k->root; l = ir_s(k, l)->parent) {
            loop_head *h = &ir_s(k, l)->l;
            bool two = h->terms != unset && h->terms != apart; /* of sums that count otherwise */
            h->terms = two ? unset : apart;
            apart = sym_mul(k->syms, apart, h->extent);
        }
    }
}

void ir_free_sums(kernel *k) {
    for (mem_id m = 1; m < k->mems; m++) ir_m(k, m)->sum = (ir_grouping){0};
}

/* Are all trips that merge into one accumulator nearer than those of the loop? */
static bool is_outermost(const kernel *k, stmt_id update, stmt_id loop, stmt_id home) {
    int64_t far, apart, trips;
    if (!sym_is_const(k->syms, ir_s(k, loop)->l.terms, &far)) return false;
    for (stmt_id l = ir_s(k, update)->parent; l && l != home; l = ir_s(k, l)->parent) {
        const loop_head *h = &ir_s(k, l)->l;
        if (l == loop || h->terms == SYM_ZERO) continue;
        if (!sym_is_const(k->syms, h->terms, &apart) || !sym_is_const(k->syms, h->extent, &trips))
            return false;
        if (apart * trips > far) return false;
    }
    return true;
}

bool ir_may_spread(const kernel *k, mem_id tile, stmt_id update, stmt_id loop, ir_grouping *rest,
                   str *why) {
    const loop_head *l = &ir_s(k, loop)->l;
    const ir_stmt *u = ir_s(k, update);
    ir_grouping g = ir_m(k, tile)->sum;
    *rest = g;
    if (!g.lanes) return true;
    int64_t trips = sym_hi(k->syms, l->extent), apart = g.spread ? g.spread : 1, far = 0;
    bool lanes = g.lanes > 1 && trips == g.lanes && l->terms == SYM_ONE;
    bool known = sym_is_const(k->syms, l->terms, &far);
    bool chains = g.lanes == 1 && g.chains > 1 && trips == g.chains && known && far == apart;
    bool parts = g.lanes == 1 && g.chains == 1 && g.parts > 1 && trips == g.parts &&
                 is_outermost(k, update, loop, home_of(k, tile));
    if (lanes)
        *rest = (ir_grouping){g.parts, g.chains, 1, (uint16_t)trips};
    else if (chains)
        *rest = (ir_grouping){g.parts, 1, 1, (uint16_t)(apart * trips)};
    else if (parts)
        *rest = (ir_grouping){1, 1, 1, g.spread};
    else if (!ir_order_shows(u->monoid, ir_m(k, tile)->dtype))
        *rest = (ir_grouping){0};
    else
        return ir_refuse(why, "the sum in t%d is not grouped so", ir_tile_number(k, tile));
    return true;
}

bool ir_may_regroup(const kernel *k, stmt_id update, str *why) {
    const ir_stmt *u = ir_s(k, update);
    return !said(k, u) ||
           ir_refuse(why, "the sum in t%d is not grouped so", ir_tile_number(k, u->store.mem[0]));
}

/* Does the update merge into each accumulator in order? */
static bool in_order(const kernel *k, stmt_id update, str *why) {
    const ir_stmt *u = ir_s(k, update);
    stmt_id home = home_of(k, u->store.mem[0]);
    int64_t last = 0, apart;
    for (stmt_id l = u->parent; home && l && l != home; l = ir_s(k, l)->parent) {
        const ir_stmt *x = ir_s(k, l);
        if (x->l.terms == SYM_ZERO || sym_uses(k->syms, u->store.index, x->l.var)) continue;
        if (x->loop == LOOP_VEC)
            return ir_refuse(why, "lanes of %s are added up at once", sym_name(k->syms, x->l.var));
        if (!sym_is_const(k->syms, x->l.terms, &apart) || sym_hi(k->syms, x->l.extent) == 1)
            continue;
        if (apart < last)
            return ir_refuse(why, "%s goes backwards in the sum", sym_name(k->syms, x->l.var));
        last = apart;
    }
    return true;
}

bool ir_sums_made(const kernel *k, str *why) {
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));) {
        const ir_stmt *u = ir_s(k, s);
        if (u->kind != STMT_STORE) continue;
        const ir_grouping *g = said(k, u);
        if (!g) continue;
        if (!is_made(g))
            return ir_refuse(why, "the sum in t%d is still to be grouped",
                             ir_tile_number(k, u->store.mem[0]));
        if (!in_order(k, s, why)) return false;
    }
    return true;
}
