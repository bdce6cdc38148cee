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
 *     outer one's trips are farther apart, and no loop merges its trips at once, as lanes; as words
 *     those that are said
 *   - lanes are added up in halves (tree_reduce) where that is said
 *   - a block's terms become a sum of their own (privatize) where they are as many as is said and
 *     nearer than all that is not among them; its sum is rescaled (online) in front of as many
 *   - in the end nothing may be left to be made.
 *
 * Of numbers that any order merges to the same (integers, maxima) the field says only what default
 * schedules make; nothing is refused. Of loops whose number is not known, as those of a sum that
 * goes over several nests, nothing is said here.
 *
 * What a scheduler makes of a sum while nothing is said can be learned, and said of the kernel that
 * it has not yet seen: so the schedulers of rows with products, and of work groups, decide by facts
 * and sizes as they go, once, and what comes later makes that. */
#include "ir/ir.h"

bool ir_order_shows(int how, int dtype) {
    return dtype_is_float(dtype) && monoid_rows[how].order == MONOID_COMMUTES;
}

/* What is said of a tile's sum where its order shows, else NULL. */
static const ir_grouping *said(const kernel *k, const ir_stmt *update) {
    const ir_memory *m = ir_m(k, update->store.mem[0]);
    if (update->kind != STMT_STORE || !m->sum.lanes) return NULL;
    return ir_order_shows(update->monoid, m->dtype) ? &m->sum : NULL;
}

static bool is_made(const ir_grouping *g) {
    return g->parts == 1 && g->chains == 1 && g->lanes == 1 && !g->halves;
}

static bool not_so(const kernel *k, mem_id tile, str *why) {
    return ir_refuse(why, "the sum in t%d is not grouped so", ir_tile_number(k, tile));
}

static stmt_id def_of(const kernel *k, mem_id tile) {
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));)
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == tile) return s;
    return 0;
}

/* Was it a loop of some sum, of which no number says any more how far a trip goes on? */
static bool is_lost(const kernel *k, sym terms) {
    int64_t apart;
    return sym_is_const(k->syms, terms, &apart) && apart < 0;
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
        if (u.kind != STMT_STORE) continue;
        const ir_memory *m = ir_m(k, u.store.mem[0]);
        if (!m->sum.lanes && !m->learner) continue;
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

/* ---- learning -------------------------------------------------------------------------------- */

/* While it is learned the tile's field says nothing (lanes is 0), and its other numbers are what
 * was made so far, the lanes as `spread`. */
static const uint16_t beyond = UINT16_MAX; /* something that cannot be said */

void ir_learn_sum(kernel *k, mem_id tile) {
    ir_m(k, tile)->sum = (ir_grouping){0};
    ir_m(k, tile)->learner = tile;
}

bool ir_learned_sum(const kernel *k, mem_id tile, ir_grouping *g) {
    const ir_grouping x = ir_m(k, tile)->sum;
    *g = x;
    g->parts = g->chains = 1;
    g->lanes = x.spread ? x.spread : 1;
    g->spread = 0;
    return x.spread != beyond && !(x.spread && x.block) && !(x.halves && !x.spread);
}

/* Where what is made of the tile's sum is noted, else NULL. */
static ir_grouping *notes(kernel *k, mem_id tile) {
    mem_id of = ir_m(k, tile)->learner;
    return of ? &ir_m(k, of)->sum : NULL;
}

/* Does each loop that merges into the update's tile from farther away than `loop` go on by whole
 * runs of so many terms? Else a run is cut, and what follows is not where its number says. */
static bool in_whole_runs(const kernel *k, stmt_id update, stmt_id loop, int64_t terms) {
    const ir_stmt *u = ir_s(k, update);
    stmt_id home = home_of(k, u->store.mem[0]);
    int64_t own, apart;
    if (!sym_is_const(k->syms, ir_s(k, loop)->l.terms, &own)) return false;
    for (stmt_id l = u->parent; home && l && l != home; l = ir_s(k, l)->parent) {
        const loop_head *h = &ir_s(k, l)->l;
        if (is_lost(k, h->terms)) return false;
        if (l == loop || h->terms == SYM_ZERO || sym_hi(k->syms, h->extent) <= 1 ||
            sym_uses(k->syms, u->store.index, h->var) ||
            (sym_is_const(k->syms, h->terms, &apart) && apart <= own))
            continue;
        if (sym_mod(k->syms, h->terms, sym_const(k->syms, terms)) != SYM_ZERO) return false;
    }
    return true;
}

/* ---- may it be made, and then it is ---------------------------------------------------------- */

/* Are all trips that merge into one accumulator nearer than those of the loop? */
static bool is_outermost(const kernel *k, stmt_id update, stmt_id loop, stmt_id home) {
    int64_t far, apart, trips;
    if (!sym_is_const(k->syms, ir_s(k, loop)->l.terms, &far)) return false;
    for (stmt_id l = ir_s(k, update)->parent; l && l != home; l = ir_s(k, l)->parent) {
        const loop_head *h = &ir_s(k, l)->l;
        if (l == loop || h->terms == SYM_ZERO) continue;
        if (!sym_is_const(k->syms, h->terms, &apart) || !sym_is_const(k->syms, h->extent, &trips) ||
            apart < 0)
            return false;
        if (__builtin_mul_overflow(apart, trips, &apart) || apart > far) return false;
    }
    return true;
}

bool ir_may_spread(const kernel *k, mem_id tile, stmt_id update, stmt_id loop, ir_grouping *rest,
                   str *why) {
    const loop_head *l = &ir_s(k, loop)->l;
    const ir_stmt *u = ir_s(k, update);
    ir_grouping g = ir_m(k, tile)->sum;
    *rest = g.lanes ? g : (ir_grouping){0};
    if (!g.lanes) return true;
    rest->halves = false; /* it is the tile's, in which lanes are added up */
    int64_t trips = sym_hi(k->syms, l->extent), apart = g.spread ? g.spread : 1, far = 0;
    bool lanes = g.lanes > 1 && trips == g.lanes && l->terms == SYM_ONE;
    bool known = sym_is_const(k->syms, l->terms, &far);
    bool chains = g.lanes == 1 && g.chains > 1 && trips == g.chains && known && far == apart;
    bool parts = g.lanes == 1 && g.chains == 1 && g.parts > 1 && trips == g.parts &&
                 is_outermost(k, update, loop, home_of(k, tile));
    if (lanes)
        rest->lanes = 1, rest->spread = (uint16_t)trips;
    else if (chains)
        rest->chains = 1, rest->spread = (uint16_t)(apart * trips);
    else if (parts)
        rest->parts = 1;
    else if (!ir_order_shows(u->monoid, ir_m(k, tile)->dtype))
        *rest = (ir_grouping){0};
    else
        return not_so(k, tile, why);
    return true;
}

void ir_spread(kernel *k, mem_id tile, mem_id wide, stmt_id loop, const ir_grouping *rest) {
    ir_memory *from = ir_m(k, tile), *to = ir_m(k, wide);
    int64_t lanes = sym_hi(k->syms, ir_s(k, loop)->l.extent);
    bool next_to = ir_s(k, loop)->l.terms == SYM_ONE && lanes <= IR_GROUPED;
    ir_grouping *g = notes(k, tile);
    if (g) g->spread = !g->spread && next_to ? (uint16_t)lanes : beyond;
    to->sum = *rest;
    to->learner = from->learner;
    if (!rest->lanes) return;
    bool halves = from->sum.halves;
    from->sum = ir_grouped(1, 1, 1);
    from->sum.halves = halves;
}

bool ir_may_halve(const kernel *k, stmt_id update, str *why) {
    const ir_grouping *g = said(k, ir_s(k, update));
    return !g || g->halves || not_so(k, ir_s(k, update)->store.mem[0], why);
}

void ir_halve(kernel *k, mem_id tile) {
    if (notes(k, tile)) notes(k, tile)->halves = true;
    if (ir_m(k, tile)->sum.lanes) ir_m(k, tile)->sum.halves = false;
}

/* How many terms one run of the loop merges into an element; 0: not known, or some of them are
 * farther apart than some that it leaves out. */
static int64_t terms_in(const kernel *k, stmt_id update, stmt_id loop) {
    const ir_stmt *u = ir_s(k, update);
    stmt_id home = home_of(k, u->store.mem[0]);
    int64_t terms = 1, most = 0, apart, trips;
    bool inside = true;
    for (stmt_id l = u->parent; l && l != home; l = ir_s(k, l)->parent) {
        const loop_head *h = &ir_s(k, l)->l;
        bool merges = !sym_uses(k->syms, u->store.index, h->var);
        if (merges && sym_hi(k->syms, h->extent) > 1) {
            if (!sym_is_const(k->syms, h->terms, &apart) || apart < 1) return 0;
            if (!inside && apart <= most) return 0;
            if (inside && (!sym_is_const(k->syms, h->extent, &trips) ||
                           __builtin_mul_overflow(terms, trips, &terms)))
                return 0;
            if (inside && apart > most) most = apart;
        }
        inside &= l != loop;
    }
    return inside || terms < 2 || terms > IR_GROUPED ? 0 : terms;
}

bool ir_may_block(const kernel *k, stmt_id update, stmt_id loop, str *why) {
    const ir_grouping *g = said(k, ir_s(k, update));
    bool so = !g || (g->block && !g->online && g->block == terms_in(k, update, loop) &&
                     in_whole_runs(k, update, loop, g->block));
    return so || not_so(k, ir_s(k, update)->store.mem[0], why);
}

/* The tile's field once blocks are made. */
static void blocks_made(kernel *k, mem_id tile, int64_t terms, bool online) {
    ir_grouping *g = notes(k, tile);
    if (g && (!terms || g->block)) g->spread = beyond;
    if (g) g->block = (uint32_t)terms, g->online = online;
    if (!ir_m(k, tile)->sum.lanes) return;
    ir_m(k, tile)->sum.block = 0;
    ir_m(k, tile)->sum.online = false;
}

void ir_block(kernel *k, stmt_id update, stmt_id loop, mem_id own) {
    mem_id tile = ir_s(k, update)->store.mem[0];
    if (ir_m(k, tile)->sum.lanes) ir_m(k, own)->sum = ir_grouped(1, 1, 1);
    blocks_made(k, tile, terms_in(k, update, loop), false);
}

/* Terms of a trip: what is rescaled is whole, so all its loops count. */
static int64_t terms_of_trip(const kernel *k, stmt_id loop) {
    int64_t terms;
    bool known = sym_is_const(k->syms, ir_s(k, loop)->l.terms, &terms);
    return known && terms > 1 && terms <= IR_GROUPED ? terms : 0;
}

bool ir_may_rescale(const kernel *k, mem_id tile, stmt_id loop, str *why) {
    const ir_grouping *g = &ir_m(k, tile)->sum;
    bool so = !g->lanes || (g->block && g->online && g->block == terms_of_trip(k, loop));
    return so || not_so(k, tile, why);
}

void ir_rescale(kernel *k, mem_id tile, stmt_id loop) {
    blocks_made(k, tile, terms_of_trip(k, loop), true);
}

void ir_wait_between(kernel *k, mem_id tile, mem_id wide) {
    ir_memory *from = ir_m(k, tile), *to = ir_m(k, wide);
    to->learner = from->learner;
    if (!from->sum.lanes || !from->sum.online) return; /* other blocks are made before */
    to->sum = ir_grouped(1, 1, 1);
    to->sum.block = from->sum.block;
    to->sum.online = from->sum.online;
    from->sum.block = 0;
    from->sum.online = false;
}

/* ---- was all made? --------------------------------------------------------------------------- */

/* Do trips `outer` terms apart around trips `inner` apart go backwards? Sizes that are not known
 * are as they were lowered, the unknown ones outside, unless loops have been swapped. */
static bool goes_backwards(const kernel *k, sym outer, sym inner) {
    int64_t a, b;
    bool known = sym_is_const(k->syms, outer, &a), known_inner = sym_is_const(k->syms, inner, &b);
    if (known && known_inner) return a < b;
    if (known) return true;
    return !known_inner && outer != inner && sym_hi(k->syms, sym_sub(k->syms, outer, inner)) <= 0;
}

/* Does the update merge into each accumulator in order? */
static bool in_order(const kernel *k, stmt_id update, str *why) {
    const ir_stmt *u = ir_s(k, update);
    stmt_id home = home_of(k, u->store.mem[0]);
    sym last = SYM_ZERO;
    int64_t words = ir_m(k, u->store.mem[0])->sum.words;
    bool merges = false;
    for (stmt_id l = u->parent; home && l && l != home; l = ir_s(k, l)->parent) {
        const ir_stmt *x = ir_s(k, l);
        const char *name = sym_name(k->syms, x->l.var);
        if (is_lost(k, x->l.terms))
            return ir_refuse(why, "%s is merged of loops that do not go on in each other", name);
        if (x->l.terms == SYM_ZERO || sym_uses(k->syms, u->store.index, x->l.var)) continue;
        merges = true;
        bool word = words && x->loop == LOOP_WORD && x->l.terms == SYM_ONE;
        if (word && sym_hi(k->syms, x->l.extent) == words)
            words = 0;
        else if (x->loop == LOOP_VEC || x->loop == LOOP_WORD)
            return ir_refuse(why, "lanes of %s are added up at once", name);
        if (sym_hi(k->syms, x->l.extent) == 1) continue;
        if (goes_backwards(k, x->l.terms, last))
            return ir_refuse(why, "%s goes backwards in the sum", name);
        last = x->l.terms;
    }
    return !merges || !words || ir_refuse(why, "no words of the sum are added up at once");
}

static bool still_to_make(const kernel *k, mem_id tile, str *why) {
    return ir_refuse(why, "the sum in t%d is still to be grouped", ir_tile_number(k, tile));
}

bool ir_sums_made(const kernel *k, str *why) {
    for (mem_id m = 1; m < k->mems; m++)
        if (ir_m(k, m)->sum.lanes && ir_m(k, m)->sum.block) return still_to_make(k, m, why);
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));) {
        const ir_stmt *u = ir_s(k, s);
        if (u->kind != STMT_STORE) continue;
        const ir_grouping *g = said(k, u);
        if (g && !is_made(g)) return still_to_make(k, u->store.mem[0], why);
        if (g && !in_order(k, s, why)) return false;
    }
    return true;
}
