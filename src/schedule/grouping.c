/* grouping.c - how the float sums of a lowered kernel are grouped (ir_grouping): the one place
 * where that is decided, from facts of the processor's model and from sizes, before any schedule.
 *
 * Schedulers read the field of the tile and make what it says. So no rate, price, answer or
 * measurement has a say in it, and a schedule that would add in another order is refused
 * (ir/grouping.c). What is decided is who gets the lanes of vectors:
 *
 *   along the sum      its terms are contiguous: an accumulator for each lane, several chains of
 *                      vectors to hide the latency of additions, fewer where a row is short or they
 *                      would not stay in registers; in parts where a long row streams from memory,
 *                      so that pages of all parts may be walked side by side or one part after the
 *                      other, as the machine likes it. Rows that are pipelined have two chains.
 *   across it          results are contiguous: each of them in order. So are products, but for a
 *                      few rows of which both operands lie along the sum.
 *
 *   at once            by dot instructions, which add a few terms of bf16 each.
 *
 * A convolution's sum is in order, too: in that in which schedule_order_sum has put its loops.
 *
 * Of rows with products inside, and on devices with work groups, schedulers decide by facts and
 * sizes as they go: there the kernel is scheduled once, on a clone, and what was made of its sums
 * is said (ir_learn_sum). What is too much to be said stays unsaid, and free. */
#include "schedule/schedule.h"

enum { NEAR = 4 }; /* elements from what one lane loads to what the next does: a line or a few */

static const ir_grouping in_order = {.parts = 1, .chains = 1, .lanes = 1};

/* Say it of all components of the statement's state, if it merges into tiles by a monoid. */
static void say_of(kernel *k, stmt_id s, ir_grouping g) {
    const ir_stmt *x = ir_s(k, s);
    if (x->kind != STMT_STORE || !monoid_commutes(x->monoid)) return;
    for (int i = 0; i < x->n; i++)
        if (ir_m(k, x->store.mem[i])->scope != MEM_ARG) ir_m(k, x->store.mem[i])->sum = g;
}

static void say_below(kernel *k, stmt_id top, ir_grouping g) {
    for (stmt_id s = top; s; s = ir_next(k, s, top)) say_of(k, s, g);
}

bool schedule_sums_around(const kernel *k, stmt_id top, stmt_id store) {
    for (stmt_id s = top; s; s = ir_next(k, s, top))
        if (ir_s(k, s)->kind == STMT_DEF && ir_s(k, s)->def.mem == ir_s(k, store)->store.mem[0])
            return false;
    return true;
}

static bool in_order_below(const scheduler *m, stmt_id top, bool around) {
    for (stmt_id s = top; s; s = ir_next(m->k, s, top)) {
        const ir_stmt *x = schedule_at(m, s);
        if (x->kind != STMT_STORE || !monoid_commutes(x->monoid)) continue;
        if (!around && schedule_sums_around(m->k, top, s)) continue;
        ir_grouping g = ir_m(m->k, x->store.mem[0])->sum;
        if (g.parts > 1 || g.chains > 1 || g.lanes > 1) return false;
    }
    return true;
}

bool schedule_sums_in_order(const scheduler *m, stmt_id top) {
    return in_order_below(m, top, true);
}

bool schedule_rows_in_order(const scheduler *m, stmt_id body) {
    return in_order_below(m, body, false);
}

int schedule_reduced_tiles(const scheduler *m, stmt_id leaf, mem_id tile[SCHEDULE_TILES]) {
    int n = 0;
    for (stmt_id s = schedule_at(m, leaf)->first; s; s = schedule_at(m, s)->next) {
        const ir_stmt *x = schedule_at(m, s);
        if (x->kind != STMT_STORE || x->monoid == MONOID_SET || n == SCHEDULE_TILES ||
            ir_m(m->k, x->store.mem[0])->scope == MEM_ARG)
            return 0;
        tile[n++] = x->store.mem[0];
    }
    return n;
}

/* ---- along the sum --------------------------------------------------------------------------- */

/* The innermost loop of a chain once those in step with it are merged with it. */
typedef struct merged {
    int64_t trips;
    bool constant;
    int n; /* loops */
} merged;

static merged merged_of(scheduler *m, const loop_chain *c) {
    merged x = {1, true, 0};
    for (int i = c->n - 1; i >= 0; i--) {
        stmt_id l = stmt_of(m, c->loop[i]);
        if (x.n && !schedule_in_step(m, l, stmt_of(m, c->loop[i + 1]))) break;
        x.constant &= sym_is_const(m->k->syms, extent_of(m, c->loop[i]), NULL);
        if (__builtin_mul_overflow(x.trips, schedule_trips(m, l), &x.trips)) x.trips = INT64_MAX;
        x.n++;
    }
    return x;
}

int64_t schedule_merged_trips(scheduler *m, const loop_chain *c) {
    return merged_of(m, c).trips;
}

static int parts_of(scheduler *m, stmt_id loop, int64_t trips, int sums, bool alone) {
    int parts = (int)m->limits->sum_parts;
    bool fits = parts * sums <= m->limits->registers / 2 && alone;
    return fits && schedule_streams(m, loop, trips, parts * m->limits->page) ? parts : 1;
}

/* A sum beside products of blocks, of a term a group: its loop's trips are the lanes, or part them
 * evenly, for what it reads is put together by blocks. */
static void say_beside_dots(scheduler *m, const loop_chain *c) {
    int64_t trips;
    int lanes = m->lanes;
    if (!sym_is_const(m->k->syms, extent_of(m, c->loop[c->n - 1]), &trips)) return;
    while (lanes > 1 && trips % lanes) lanes /= 2;
    if (lanes > 1) say_below(m->k, c->body, ir_grouped(1, 1, lanes));
}

/* The sums of a loop along a row, `rows` rows at a time. */
static void say_along(scheduler *m, const loop_chain *c, int rows) {
    mem_id tile[SCHEDULE_TILES];
    stmt_id loop = c->body;
    int tiles = schedule_reduced_tiles(m, loop, tile);
    merged x = merged_of(m, c);
    if (!tiles)
        say_below(m->k, loop, (ir_grouping){0}); /* what it stores, too, decides its lanes */
    if (!tiles || x.trips < 4) return;
    int chains = schedule_ops(m, loop) <= m->limits->sum_chains * tiles ? 4 : 2;
    int parts = parts_of(m, loop, x.trips, tiles * rows, tiles == 1 || rows == 1);
    int sums = parts * tiles;
    while (chains > 1 &&
           (x.trips < (int64_t)chains * m->lanes * 4 || chains * sums > m->limits->accumulators ||
            chains * sums * rows > m->limits->registers / 2))
        chains /= 2;
    int64_t step = (int64_t)chains * m->lanes, whole = sat_mul(ceil_div(x.trips, step), step);
    if (!x.constant || whole % (parts * step)) parts = 1;
    say_below(m->k, loop, ir_grouped(parts, chains, m->lanes));
}

static void say_row_loops(scheduler *m, stmt_id body, int rows) {
    for (stmt_id s = schedule_at(m, body)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        loop_chain c = loop_chain_of(m, s);
        block_dots d;
        if (!schedule_has_inner(m, c.body) && schedule_has_block_dots(m, body))
            say_beside_dots(m, &c);
        else if (!schedule_has_inner(m, c.body))
            say_along(m, &c, rows);
        else if (rows == 1 && schedule_is_block_dots(m, &c, &d))
            say_of(m->k, d.use,
                   schedule_block_dots_grouping(m, &c, schedule_is_block_rows(m, body)));
        else if (rows > 1 || !schedule_reduces_columns(m, &c, merged_of(m, &c).trips))
            say_row_loops(m, c.body, rows);
    }
}

static void say_pipelined(scheduler *m, stmt_id row) {
    for (stmt_id s = schedule_at(m, row)->first; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP)
            say_below(m->k, s, ir_grouped(1, PIPELINE_VECTORS, m->lanes));
}

/* Lanes go across the rows. What is summed over all of them, as a loss, has an accumulator for each
 * lane, where they are next to each other in that sum. */
static void say_across(scheduler *m, const loop_chain *c, int across) {
    stmt_id loop = stmt_of(m, c->loop[across]);
    if (across != c->n - 1 || schedule_trips(m, loop) < m->lanes) return;
    for (int i = 0; i < c->n; i++)
        if (!sym_is_const(m->k->syms, extent_of(m, c->loop[i]), NULL)) return;
    for (stmt_id s = schedule_at(m, c->body)->first; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_STORE && schedule_sums_around(m->k, c->body, s))
            say_of(m->k, s, ir_grouped(1, 1, m->lanes));
}

static void say_rows(scheduler *m, stmt_id loop) {
    loop_chain c = loop_chain_of(m, loop);
    say_below(m->k, loop, in_order);
    int across = schedule_across(m, &c);
    if (across >= 0) {
        say_across(m, &c, across);
        return;
    }
    if (schedule_may_pipeline(m, &c))
        say_pipelined(m, c.body);
    else
        say_row_loops(m, c.body, schedule_rows_at_once(m, c.body));
}

/* Sums over all columns get their accumulators, one a lane, where their grouping says so. */
void schedule_lanes_around(scheduler *m, stmt_id nest) {
    mem_id tile[SCHEDULE_TILES];
    loop_h lanes[SCHEDULE_TILES];
    int n = 0;
    for (stmt_id s = nest; s && n < SCHEDULE_TILES; s = ir_next(m->k, s, nest)) {
        const ir_stmt *x = schedule_at(m, s);
        if (x->kind != STMT_STORE || !monoid_commutes(x->monoid)) continue;
        const ir_memory *sum = ir_m(m->k, x->store.mem[0]);
        if (sum->scope == MEM_ARG || sum->sum.lanes < 2) continue;
        tile[n] = x->store.mem[0];
        lanes[n++] = loop_of(m, x->parent);
    }
    for (int i = 0; i < n; i++) step_rfactor(maybe(m), tile[i], lanes[i]);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The last of the output's loops of that side, merged with those in step; *runs: how many loops are
 * left of the side. */
static merged side_of(scheduler *m, const contraction *x, contraction_side side, int *runs) {
    loop_chain c = {.n = 0};
    *runs = 0;
    for (int i = 0; i < x->outs; i++) {
        if (x->loop[i].side != side) continue;
        loop_h l = loop_of(m, x->loop[i].at);
        *runs += !c.n || !schedule_in_step(m, stmt_of(m, c.loop[c.n - 1]), stmt_of(m, l));
        c.loop[c.n++] = l;
    }
    return merged_of(m, &c);
}

/* Are the columns on the first factor's side: does the result step by one along them? */
static bool columns_first(scheduler *m, const contraction *x) {
    bool first = false;
    for (int i = 0; i < x->outs; i++) {
        int64_t step;
        sym rest, index = schedule_at(m, x->epilogue)->store.index;
        sym var = schedule_at(m, x->loop[i].at)->l.var;
        if (sym_split(m->k->syms, index, var, &step, &rest) && step == 1)
            first = x->loop[i].side == SIDE_FIRST;
    }
    return first;
}

/* The terms that a dot instruction adds at once, which has an order of its own; 0: none does. */
static int words_of(const scheduler *m, const contraction *x, merged deep) {
    int sum = ir_m(m->k, x->tile)->dtype, row = -1;
    for (int i = 0; i < 2 && row < 0; i++)
        row = ir_dot_of(ir_m(m->k, x->of[i].mem)->dtype, ir_m(m->k, x->of[!i].mem)->dtype, sum);
    if (row < 0 || !(m->limits->dots >> row & 1)) return 0;
    if (!x->of[0].direct || !x->of[1].direct) return 0;
    return deep.constant && deep.trips >= 2 * ir_dots[row].parts ? ir_dots[row].parts : 0;
}

/* Does what the access loads lie together for a vector of the sum's terms, within that many
 * elements? An offset that is computed lies anywhere in its memory, which must be a table in the
 * cache. */
static bool is_near(scheduler *m, const ir_access *t, stmt_id sum, int64_t most) {
    sym_store *s = m->k->syms;
    const ir_memory *x = ir_m(m->k, t->mem);
    sym var = schedule_at(m, sum)->l.var, lanes = sym_const(s, m->lanes);
    if (!schedule_is_arg(m, t)) return false;
    if (t->dyn && ir_expr_uses(m->k, t->dyn, var))
        return sat_mul(sym_hi(s, x->size), (int64_t)qn_dtype_size(x->dtype)) <=
               machine_table(m->limits);
    sym vectors = sym_const(s, ceil_div(schedule_trips(m, sum), m->lanes));
    sym first = sym_scale(s, sym_loop(s, "q", vectors), m->lanes);
    sym other = sym_add(s, first, sym_loop(s, "v", lanes));
    sym from = sym_subst(s, t->index, 1, &var, &first),
        to = sym_subst(s, t->index, 1, &var, &other);
    sym away = sym_sub(s, to, from);
    return sym_lo(s, away) >= -most && sym_hi(s, away) <= most;
}

/* Is the factor contiguous along the sum? One that is made of several loads, as of blocks and their
 * scales, is where all of them are near: it is then made once for all rows, whatever it takes. A
 * vector of the rows' operand is loaded once for several columns, and may lie in a few lines. */
static bool lies_along(scheduler *m, const contraction *x, int f, int64_t most) {
    const contraction_loop *sum = &x->loop[x->loops - 1];
    if (sum->fixed[f] && sum->step[f] == 1 && x->of[f].plain) return true;
    if (!most || x->loops > x->outs + 1) return false;
    ir_access *t;
    uint32_t n = ir_accesses(m->k, x->update, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && ir_expr_takes(m->k, x->factor[f], t[i].load) &&
            !is_near(m, &t[i], sum->at, most))
            return false;
    return true;
}

/* Few rows, of which both operands are contiguous along the sum (a dot product): each vector of a
 * column is loaded, and made of blocks, once, in place, for all rows; more rows than have
 * accumulators in registers go by blocks, which load it again. The result is scalar, so what
 * follows the sum must not be long. */
static bool lanes_along(scheduler *m, const contraction *x, bool swapped, merged rows,
                        merged columns, merged deep) {
    bool plain = x->of[0].plain && x->of[1].plain;
    int64_t near = plain ? 0 : NEAR * m->lanes;
    const bool blocks = plain && rows.trips % 4 == 0 && columns.trips % 2 == 0;
    const int64_t few = blocks ? m->limits->dot_rows : machine_made_rows(m->limits);
    return rows.constant && columns.constant && deep.constant && deep.n == x->loops - x->outs &&
           rows.trips <= few && deep.trips >= (int64_t)m->lanes * m->lanes &&
           deep.trips % m->lanes == 0 &&
           sat_mul(rows.trips, schedule_ops(m, x->epilogue)) <= deep.trips &&
           lies_along(m, x, !swapped, near) && lies_along(m, x, swapped, near * few);
}

/* false: it is no product for schedule_contraction or schedule_convolution. */
static bool say_product(scheduler *m, stmt_id loop) {
    contraction x;
    if (!contraction_of(m->k, loop, &x) || !x.epilogue || !x.of[0].loads || !x.of[1].loads)
        return false;
    if (schedule_is_convolution(m, loop)) {
        say_below(m->k, loop, in_order);
        return true;
    }
    bool swapped = columns_first(m, &x);
    int row_runs, column_runs;
    merged rows = side_of(m, &x, swapped ? SIDE_SECOND : SIDE_FIRST, &row_runs);
    merged columns = side_of(m, &x, swapped ? SIDE_FIRST : SIDE_SECOND, &column_runs);
    if (!row_runs || column_runs != 1) return false;
    loop_chain c = loop_chain_of(m, x.reduction);
    merged deep = merged_of(m, &c);
    ir_grouping said = in_order;
    said.words = (uint16_t)words_of(m, &x, deep);
    if (!said.words && lanes_along(m, &x, swapped, rows, columns, deep))
        said.lanes = (uint16_t)m->lanes;
    say_below(m->k, loop, said);
    return true;
}

/* ---- what schedulers make -------------------------------------------------------------------- */

/* The tiles of float sums below the statement. */
static uint32_t sums_below(const kernel *k, stmt_id top, mem_id *tile) {
    uint32_t n = 0;
    for (stmt_id s = top; s; s = ir_next(k, s, top)) {
        const ir_stmt *x = ir_s(k, s);
        if (x->kind != STMT_STORE || !ir_order_shows(x->monoid, ir_m(k, x->store.mem[0])->dtype))
            continue;
        for (int i = 0; i < x->n; i++)
            if (ir_m(k, x->store.mem[i])->scope != MEM_ARG) tile[n++] = x->store.mem[i];
    }
    return n;
}

/* Say of the sums below the statement what is made of them. */
static void say_learned(kernel *k, const machine *limits, stmt_id top) {
    mem_id *tile = arena_alloc(&k->arena, (k->stmts * IR_STATES + 1) * sizeof *tile);
    uint32_t n = sums_below(k, top, tile);
    if (!n) return;
    kernel *clone = ir_clone(k);
    cleanup c;
    cleanup_push(&k->ctx->heap, &c, ir_cleanup, clone);
    for (uint32_t i = 0; i < n; i++) ir_learn_sum(clone, tile[i]);
    ir_number_terms(clone);
    schedule_once(clone, limits);
    for (uint32_t i = 0; i < n; i++) {
        ir_grouping g;
        if (ir_learned_sum(clone, tile[i], &g)) ir_m(k, tile[i])->sum = g;
    }
    cleanup_run(&k->ctx->heap, &c);
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool schedule_sums_said(const kernel *k) {
    for (mem_id i = 1; i < k->mems; i++)
        if (ir_m(k, i)->sum.lanes) return true;
    return false;
}

/* Say it of a nest; false: of the whole kernel, which is one with its leaf. */
static bool say_nest(scheduler *m, stmt_id loop, bool alone, stmt_id *learned) {
    loop_chain c = loop_chain_of(m, loop);
    mem_id tile[SCHEDULE_TILES];
    bool leaf = !schedule_has_inner(m, c.body);
    if (leaf && schedule_reduced_tiles(m, c.body, tile)) {
        say_below(m->k, m->k->root, in_order);
        say_row_loops(m, m->k->root, 1);
        return false;
    }
    if (leaf) return true;
    bool first = alone && schedule_is_alone(m, loop);
    if (first && schedule_is_block_product(m, loop))
        say_below(m->k, loop, in_order);
    else if (first && schedule_is_attention(m, loop))
        *learned = loop;
    else if (!first || !say_product(m, loop))
        say_rows(m, loop);
    return true;
}

static void say_nests(scheduler *m) {
    stmt_id learned = 0;
    bool alone = true, more = true;
    for (stmt_id s = schedule_at(m, m->k->root)->first; s && more; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        more = say_nest(m, s, alone, &learned);
        alone &= !schedule_has_inner(m, loop_chain_of(m, s).body);
    }
    if (learned) say_learned(m->k, m->limits, learned);
}

void schedule_group_sums(kernel *k, const machine *limits) {
    scheduler m = {.k = k, .limits = limits};
    m.lanes = schedule_lanes(&m);
    if (limits->members > 1)
        say_learned(k, limits, k->root);
    else
        say_nests(&m);
    ir_number_terms(k);
}
