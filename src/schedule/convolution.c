/* convolution.c - the default schedule of a convolution: a contraction whose loops do not merge
 * into rows, columns and one reduction, because an operand's index is a sum of several loops
 * (windows).
 *
 * The nest is that of a matrix product. One loop gives the lanes, one the rows of the register
 * tile; all others of the output go around them, all reduction loops inside:
 *
 *   lanes   a loop of one operand (b): as a rule the output's channels, whatever the layout, since
 *           they have no window and fill vectors; where the image itself is read contiguously
 *           (1x1), its positions. b is packed in the order of the reduction, unless it is so
 *           already
 *   rows    a loop of the other operand (a): positions along a row of the image. Each element is
 *           broadcast, so any stride and any index does, and no windows are copied (no im2col)
 *   edges   where a has padding, the part of it that a block of positions sees is copied once with
 *           its zeros (stage with joined loops): a few elements more than the image, not the
 *           windows. So the sum runs without masks
 *   windows loops of windows that are no rows, a weight's places, go inside the loop of rows: the
 *           piece of the image is copied once for all of them, and what they store lies together
 *   panels  as many as fit the second-level cache are packed together (jq), so that a piece of the
 *           image is copied once for all of them: small images have few products for each element
 *           of a copy
 *   blocks  where the sum goes over whole images (a weight's gradient) or many channels, blocks of
 *           it are the outermost loop (block_reduction), so that what a block reads stays in the
 *           cache */
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"

enum {
    LOOPS = 24,
    DEEP = 64,           /* a sum for which all rows are packed */
    FEW_ROWS = 6,        /* extent that is enough for the loop of rows: a register tile's, about */
    MOST_TRIPS = 1 << 24 /* of a loop whose trips vary */
};

typedef struct conv_loop {
    loop_h h;               /* the loop; of rows and lanes, once they are tiled, over the tiles */
    int64_t trips, step[2]; /* of each factor's load, 0: it does not depend on the loop */
    bool in[2], sum;
    bool panels;   /* its number is that of a panel and of a lane in it */
    int window[2]; /* loops of one window of that load have one number, 0: none */
} conv_loop;

typedef struct conv {
    scheduler *m;
    mem_id tile, mem[2];
    ir_access load[2];
    int n, kept; /* loops: those of the output first */
    conv_loop loop[LOOPS];
    int a, b;        /* the factor of the rows, the factor of the lanes */
    int rows, lanes; /* loops */
    int mr, nv;
    loop_h row, u, v; /* of the register tile: rows (mr), vectors and lanes */
    loop_h after[3];  /* those of its epilogue: lanes, vectors, rows */
    int64_t depth, size;
    int64_t panel; /* lanes of a panel packed beforehand (lower/prepack.c), 0: they are not */
    int64_t store_step[LOOPS];
} conv;

/* ---- facts ----------------------------------------------------------------------------------- */

/* Is it known how often the loop runs? Of a sum in parts (lower/split_reduction.c) the last part
 * may be shorter than the others: it is planned as if it were not. */
static bool has_trips(const conv *c, const conv_loop *l) {
    const sym_store *s = c->m->k->syms;
    sym extent = extent_of(c->m, l->h);
    bool known = sym_is_const(s, extent, NULL), part = false;
    for (int i = 0; l->sum && i < c->kept; i++)
        part |= sym_uses(s, extent, var_of(c->m, c->loop[i].h));
    return (known || (part && l->trips <= MOST_TRIPS)) && l->trips >= 1;
}

static bool read_loop(conv *c, loop_h h, bool sum) {
    if (c->n == LOOPS) return false;
    conv_loop *l = &c->loop[c->n++];
    *l = (conv_loop){.h = h, .sum = sum};
    sym var = var_of(c->m, h);
    l->trips = trips_of(c->m, h);
    for (int f = 0; f < 2; f++) {
        l->in[f] = sym_uses(c->m->k->syms, c->load[f].index, var) ||
                   sym_uses(c->m->k->syms, c->load[f].valid, var);
        if (schedule_step(c->m, &c->load[f], var, &l->step[f])) continue;
        int64_t panel = sum ? 0 : schedule_panel_of(c->m, &c->load[f], var);
        if (!panel || (c->panel && c->panel != panel)) return false;
        c->panel = panel;
        l->step[f] = 1;
        l->panels = true;
    }
    return has_trips(c, l);
}

/* Does only that factor depend on the loop? */
static bool only_in(const conv *c, int i, int f) {
    return c->loop[i].in[f] && !c->loop[i].in[1 - f];
}

static bool in_both(const conv *c, int i) {
    return c->loop[i].in[0] && c->loop[i].in[1];
}

/* Find the loops of one window: a position of the output and one of the reduction that appear
 * together in the load's mask, or whose steps are so small that they see the same elements. */
static void find_windows(conv *c, int f) {
    sym_store *s = c->m->k->syms;
    sym fact[IR_FACTS];
    int facts = ir_facts(c->m->k, c->load[f].valid, fact), next = 0;
    for (int i = 0; i < c->n; i++)
        for (int j = i + 1; j < c->n; j++) {
            conv_loop *x = &c->loop[i], *y = &c->loop[j];
            if (!x->in[f] || !y->in[f] || x->sum == y->sum || !x->step[f] || !y->step[f]) continue;
            sym u = var_of(c->m, x->h), v = var_of(c->m, y->h);
            bool together = false;
            for (int k = 0; k < facts; k++)
                together |= sym_uses(s, fact[k], u) && sym_uses(s, fact[k], v);
            int64_t p = llabs(x->step[f]), q = llabs(y->step[f]);
            together |= (p <= q && (x->trips - 1) * p >= q) || (q <= p && (y->trips - 1) * q >= p);
            if (!together) continue;
            int number = x->window[f] ? x->window[f] : y->window[f] ? y->window[f] : ++next;
            x->window[f] = y->window[f] = number;
        }
}

/* A contraction of two loads, which may be converted: read how they are now. */
static bool read_loads(conv *c, stmt_id loop, contraction *x) {
    if (!contraction_of(c->m->k, loop, x) || !x->of[0].direct || !x->of[1].direct) return false;
    for (int f = 0; f < 2; f++) {
        c->mem[f] = x->of[f].mem;
        c->load[f] = x->of[f].access;
    }
    c->tile = x->tile;
    return true;
}

static bool read_outs(conv *c, const loop_chain *outs) {
    c->n = 0;
    c->panel = 0;
    for (int i = 0; i < outs->n; i++)
        if (!read_loop(c, outs->loop[i], false)) return false;
    c->kept = c->n;
    return true;
}

/* How many loops would be left of those of the output that only factor f depends on, once they are
 * merged? */
static int runs_of(const conv *c, int f) {
    int runs = 0;
    for (int i = 0, last = -1; i < c->kept; i++) {
        if (!only_in(c, i, f)) continue;
        runs += last < 0 || !schedule_in_step(c->m, stmt_of(c->m, c->loop[last].h),
                                              stmt_of(c->m, c->loop[i].h));
        last = i;
    }
    return runs;
}

/* Does the sum merge into one loop? */
static bool merges(scheduler *m, const contraction *x, const loop_chain *sum) {
    for (int i = 0; i + 1 < sum->n; i++) {
        stmt_id outer = stmt_of(m, sum->loop[i]), inner = stmt_of(m, sum->loop[i + 1]);
        if (!schedule_in_step(m, outer, inner) && !schedule_terms_merge(m, x, outer, inner))
            return false;
    }
    return true;
}

/* The stride of what is stored along an output's loop, 2 where it varies. */
static int64_t store_step(const conv *c, const contraction *x, int i) {
    sym index = schedule_at(c->m, x->epilogue)->store.index, rest;
    int64_t step;
    return sym_split(c->m->k->syms, index, var_of(c->m, c->loop[i].h), &step, &rest) ? step : 2;
}

/* Are all rows, of factor f, one loop once they are packed (schedule_masked_rows), and columns that
 * lie side by side enough for it? Where the sum is short, or what is stored goes along the rows,
 * copies of a few rows at a time are as good. No rate has a say, for the order of a sum follows. */
static bool rows_pack(const conv *c, const contraction *x, int f, stmt_id sum) {
    scheduler *m = c->m;
    int64_t columns = 1;
    bool beside = false;
    for (int i = 0, last = -1; i < c->kept; i++) {
        stmt_id at = stmt_of(m, c->loop[i].h);
        if (only_in(c, i, 1 - f)) columns = sat_mul(columns, c->loop[i].trips);
        beside |= only_in(c, i, 1 - f) && c->loop[i].step[1 - f] == 1;
        if (!only_in(c, i, f)) continue;
        stmt_id before = last >= 0 ? stmt_of(m, c->loop[last].h) : 0;
        bool one = !before || schedule_in_step(m, before, at) ||
                   schedule_masked_rows(m, &x->of[f], before, at, sum);
        if (!one || store_step(c, x, i) == 1) return false;
        last = i;
    }
    return beside && columns >= 4 * m->lanes && schedule_trips(m, sum) >= DEEP;
}

/* Read the contraction before it is changed; false where schedule_contraction can take it. */
static bool read_lowered(conv *c, stmt_id loop, contraction *x) {
    scheduler *m = c->m;
    if (!read_loads(c, loop, x)) return false;
    loop_chain outs = loop_chain_of(m, loop), sum = loop_chain_of(m, x->reduction);
    int first, second;
    if (!read_outs(c, &outs) || !(first = runs_of(c, 0)) || !(second = runs_of(c, 1))) return false;
    if (!merges(m, x, &sum)) return true;
    stmt_id last = stmt_of(m, sum.loop[sum.n - 1]);
    if (first == 1 && second == 1) return false;
    return (first > 1 && second > 1) || !rows_pack(c, x, second > 1, last);
}

/* Read the contraction, and merge what can be. */
static bool read_conv(conv *c, stmt_id loop) {
    scheduler *m = c->m;
    contraction x;
    if (!read_lowered(c, loop, &x)) return false;
    loop_chain outs = loop_chain_of(m, loop), sum = loop_chain_of(m, x.reduction);
    schedule_merge_in_step(m, &sum);
    schedule_merge_in_step(m, &outs);
    if (!read_loads(c, loop, &x) || !read_outs(c, &outs)) return false; /* indices are new */
    c->depth = 1;
    for (int i = 0; i < sum.n; i++) {
        if (!read_loop(c, sum.loop[i], true)) return false;
        c->depth *= c->loop[c->n - 1].trips;
    }
    for (int i = 0; i < c->kept; i++) c->store_step[i] = store_step(c, &x, i);
    return true;
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Rows of a tile that may be stored by vectors where lanes of factor f lie apart. */
static int64_t rows_stored(const conv *c, int f) {
    int64_t most = 1;
    for (int i = 0; i < c->kept; i++)
        if (only_in(c, i, 1 - f) && c->store_step[i] == 1 && c->loop[i].trips > most)
            most = c->loop[i].trips;
    return most;
}

/* The fraction of the machine's peak that vectors along loop i could reach. */
static double lane_rate(const conv *c, int i, int f) {
    const conv_loop *l = &c->loop[i];
    int64_t lanes = c->m->lanes;
    double rate = (double)l->trips / (double)(ceil_div(l->trips, lanes) * lanes);
    bool windows = false;
    for (int k = 0; k < c->n; k++) windows |= c->loop[k].window[f] && !c->loop[k].sum;
    const machine *is = c->m->limits;
    int64_t packed = windows ? is->lanes_windows : is->lanes_packed;
    bool unaligned = windows && l->step[f] == 1 && c->load[f].valid != SYM_TRUE;
    if (llabs(l->step[f]) != 1) rate *= (double)packed / 100;
    if (l->window[f] && l->step[f] != 1) rate *= (double)is->lanes_strided / 100;
    if (unaligned) rate *= (double)is->lanes_unaligned / 100;
    /* two multiply-adds a cycle on any machine: the order of the sum follows, so no rate may */
    double time = (double)c->depth / 2;
    if (c->store_step[i] != 1)
        rate *= time / (time + schedule_across_cycles(c->m, rows_stored(c, f)));
    return rate;
}

static bool choose_lanes(conv *c) {
    double best = 0;
    for (int i = 0; i < c->kept; i++) {
        const conv_loop *l = &c->loop[i];
        if (l->in[0] == l->in[1] || (c->panel && !l->panels)) continue;
        double rate = lane_rate(c, i, l->in[0] ? 0 : 1);
        if (rate <= best * 1.001) continue;
        best = rate;
        c->lanes = i;
        c->b = l->in[0] ? 0 : 1;
        c->a = 1 - c->b;
    }
    int most = -1;
    for (int i = c->kept; i-- > 0;) {
        if (!only_in(c, i, c->a)) continue;
        if (most < 0 || c->loop[i].trips > c->loop[most].trips) most = i;
        if (c->loop[i].trips >= FEW_ROWS) {
            most = i;
            break;
        }
    }
    c->rows = most;
    return best > 0 && most >= 0;
}

/* Elements of an operand that one iteration of loop `at` accesses (-1: all), reduction loops but
 * the first `skip` included. Loops of a window add up. */
static double footprint(const conv *c, int f, int at, int skip) {
    double n = 1, window[LOOPS] = {0};
    for (int i = 0; i < c->n; i++) {
        const conv_loop *l = &c->loop[i];
        if (!l->in[f] || (l->sum ? i < c->kept + skip : i < at)) continue;
        double trips = (double)l->trips;
        if (i == at && !l->sum) {
            if (i != c->rows && i != c->lanes) continue;
            trips = i == c->rows ? c->mr : c->nv * c->m->lanes;
        }
        if (l->window[f])
            window[l->window[f]] += trips;
        else
            n *= trips;
    }
    for (int w = 0; w < LOOPS; w++)
        if (window[w] > 0) n *= window[w];
    return n;
}

/* Is it large enough for its blocking to matter? Not where both operands stay in the second-level
 * cache. */
static int choose_large(const conv *c, choice_kind kind, int ways, int own) {
    double bytes = 0;
    for (int f = 0; f < 2; f++) bytes += (double)c->size * footprint(c, f, -1, 0);
    return bytes > (double)c->m->limits->l2 ? schedule_choose(c->m, kind, ways, own) : own;
}

/* The cycles of one iteration of the sum for a tile: a panel of columns may come from the second
 * cache. */
static double tile_cycles(const void *of, int r, int v, double cycles) {
    const conv *c = of;
    const machine *l = c->m->limits;
    int64_t step = (int64_t)v * l->vector_bytes;
    double stream = c->depth * step > l->l1 ? (double)step / (double)l->l2_rate : 0;
    (void)r;
    return cycles < stream ? stream : cycles;
}

/* Rows that look over an edge are not padded, for then what they see would depend on more than
 * their position. */
static bool tile_divides_rows(const void *of, int r, int v) {
    const conv *c = of;
    const conv_loop *rows = &c->loop[c->rows];
    if (c->panel && v * c->m->lanes != c->panel) return false;
    return !rows->window[c->a] || rows->trips % r == 0;
}

static double tile_masks(const void *of, int r, int v) {
    const conv *c = of;
    (void)r;
    bool masked = c->loop[c->lanes].trips % (v * c->m->lanes) != 0;
    return masked ? (double)(100 + c->m->limits->masked_tile) / 100 : 1;
}

static tile_ask tile_asked(const conv *c) {
    int64_t rows = c->loop[c->rows].trips, columns = c->loop[c->lanes].trips;
    return (tile_ask){c->m, c, rows, columns, tile_divides_rows, tile_cycles, tile_masks};
}

static void choose_tile(conv *c) {
    tile_ask ask = tile_asked(c);
    tile_size best = tile_least(&ask, 0), other = tile_least(&ask, best.nv);
    if (tile_is_close(&other, &best) && choose_large(c, CHOICE_tile, 2, 0)) best = other;
    c->mr = best.mr ? best.mr : 1, c->nv = best.nv ? best.nv : 1;
}

/* Read the contraction, and decide what does not depend on rates. */
static bool read_whole(conv *c, stmt_id loop) {
    if (!read_conv(c, loop)) return false;
    find_windows(c, 0);
    find_windows(c, 1);
    c->size = c->m->limits->vector_bytes / c->m->lanes;
    return choose_lanes(c);
}

/* Bytes of the second-level cache that copies may take. */
static int64_t copy_bytes(const conv *c) {
    return machine_l2(c->m->limits) * c->m->limits->l2_shared / 100;
}

/* Bytes of what all lanes read of b. */
static double lane_bytes(const conv *c) {
    double all = (double)c->size;
    for (int i = 0; i < c->n; i++)
        if (c->loop[i].in[c->b] && (c->loop[i].sum || i == c->lanes))
            all *= (double)c->loop[i].trips;
    return all;
}

/* Do blocks of the sum go around everything? A panel is taken to be of as many vectors as the
 * registers suggest: the order of the sum follows, so no rate may have a say. */
static bool is_deep(const conv *c) {
    const machine *l = c->m->limits;
    int64_t wide = (l->registers / 8 > 1 ? l->registers / 8 : 1) * c->m->lanes;
    double panel = lane_bytes(c) / (double)ceil_div(c->loop[c->lanes].trips, wide);
    return panel > (double)copy_bytes(c) && c->loop[c->kept].trips > 1 && c->n > c->kept + 1 &&
           c->loop[c->kept].in[c->a] && c->loop[c->kept].in[c->b];
}

/* The axes of the staged part from outside in: by decreasing stride, then the channels, the
 * contiguous axis last. */
static int64_t axis_rank(const conv *c, int i) {
    const conv_loop *l = &c->loop[i];
    int w = l->window[c->a];
    int64_t step = llabs(l->step[c->a]);
    if (w) /* the smallest step of the window */
        for (int k = 0; k < c->n; k++)
            if (c->loop[k].window[c->a] == w && llabs(c->loop[k].step[c->a]) < step)
                step = llabs(c->loop[k].step[c->a]);
    bool rows = w && w == c->loop[c->rows].window[c->a];
    int64_t far = ((int64_t)1 << 40) - step;
    return step == 1 ? INT64_MAX : w && !rows ? far : ((int64_t)(rows ? 2 : 1) << 42) + far;
}

/* ---- the order of the sum -------------------------------------------------------------------- */

/* The loops of a lowered sum, and where each is to stand: those that go in step have one place. */
typedef struct sum_order {
    int n;
    loop_h loop[LOOP_CHAIN];
    int run[LOOP_CHAIN]; /* which of the merged loops it becomes a part of */
    int64_t place[LOOP_CHAIN];
    int64_t panel; /* columns of a panel of an argument, as the scheduler would take it; 0 */
} sum_order;

static void runs_of_sum(scheduler *m, const contraction *x, sum_order *o) {
    loop_chain sum = loop_chain_of(m, x->reduction);
    o->n = sum.n;
    for (int i = 0, run = 0; i < sum.n; i++) {
        run += i && !schedule_in_step(m, stmt_of(m, sum.loop[i - 1]), stmt_of(m, sum.loop[i]));
        o->loop[i] = sum.loop[i];
        o->run[i] = run;
    }
}

/* Columns of a panel of the lanes' operand, if that is the argument; else 0. */
static int64_t lanes_packed(conv *c, int arg) {
    if (ir_m(c->m->k, c->mem[c->b])->arg != arg) return 0;
    tile_ask ask = tile_asked(c);
    return tile_least(&ask, 0).nv * c->m->lanes;
}

/* Read the contraction on a clone, where loops can be merged; false: it is no convolution. */
static bool read_in_clone(scheduler *m, stmt_id loop, int arg, sum_order *o) {
    conv *c = arena_zeroed(&m->k->arena, sizeof *c);
    contraction x;
    c->m = m;
    if (!read_lowered(c, loop, &x)) return false;
    runs_of_sum(m, &x, o);
    scheduler *on = arena_zeroed(&m->k->arena, sizeof *on);
    cleanup undo;
    *on = (scheduler){.k = ir_clone(m->k), .limits = m->limits, .lanes = m->lanes};
    cleanup_push(&m->k->ctx->heap, &undo, ir_cleanup, on->k);
    steps_open(on);
    c->m = on;
    bool taken = read_whole(c, loop);
    o->panel = taken ? lanes_packed(c, arg) : 0;
    bool moves = taken && !is_deep(c) && c->n - c->kept == o->run[o->n - 1] + 1;
    for (int i = c->kept; i < c->n && moves; i++) o->place[i - c->kept] = axis_rank(c, i);
    cleanup_run(&m->k->ctx->heap, &undo);
    return taken;
}

bool schedule_is_convolution(scheduler *m, stmt_id loop) {
    sum_order o = {0};
    return read_in_clone(m, loop, -1, &o);
}

int64_t schedule_convolution_panel(scheduler *m, stmt_id loop, int arg) {
    sum_order o = {0};
    return read_in_clone(m, loop, arg, &o) ? o.panel : 0;
}

/* As the staged part is laid out. */
void schedule_order_sum(kernel *k, const machine *limits) {
    scheduler *m = arena_zeroed(&k->arena, sizeof *m);
    stmt_id loop = ir_s(k, k->root)->first;
    sum_order o = {0};
    *m = (scheduler){.k = k, .limits = limits};
    while (loop && ir_s(k, loop)->kind != STMT_LOOP) loop = ir_s(k, loop)->next;
    if (limits->members > 1 || !loop || !schedule_is_alone(m, loop)) return;
    m->lanes = schedule_lanes(m);
    if (schedule_is_attention(m, loop) || !read_in_clone(m, loop, -1, &o)) return;
    for (int pass = 0; pass < o.n; pass++)
        for (int i = 0; i + 1 < o.n; i++) {
            if (o.place[o.run[i]] <= o.place[o.run[i + 1]]) continue;
            if (!ir_swap(k, stmt_of(m, o.loop[i]), stmt_of(m, o.loop[i + 1]), NULL)) return;
            loop_h l = o.loop[i];
            int run = o.run[i];
            o.loop[i] = o.loop[i + 1], o.loop[i + 1] = l;
            o.run[i] = o.run[i + 1], o.run[i + 1] = run;
        }
}

/* ---- building the nest ----------------------------------------------------------------------- */

/* Do rows go around loops of a's windows, as those of a weight's gradient over channels do? Then
 * what a trip of rows sees of a is copied once for them, and what it stores lies together. */
static bool rows_around(const conv *c, bool deep) {
    bool windows = false;
    if (c->loop[c->rows].window[c->a]) return false;
    for (int i = 0; i < c->kept; i++) windows |= c->loop[i].window[c->a] && only_in(c, i, c->a);
    return deep || windows;
}

/* Where a loop of the output stands: from outside in. `deep`: blocks of the sum are outside. */
static int rank_of(const conv *c, int i, bool panels, bool deep) {
    bool around = rows_around(c, deep);
    if (i == c->lanes) return panels ? 2 : around ? 4 : 7;
    if (i == c->rows) return around ? 3 : 6;
    return in_both(c, i) ? 0 : only_in(c, i, c->b) ? 1 : 5;
}

/* Sort the loops of the output by rank; loop numbers follow. */
static bool order_loops(conv *c, bool panels, bool deep) {
    scheduler *m = c->m;
    for (int pass = 0; pass < c->kept; pass++)
        for (int i = 0; i + 1 < c->kept; i++) {
            if (rank_of(c, i, panels, deep) <= rank_of(c, i + 1, panels, deep)) continue;
            if (!step_swap(maybe(m), c->loop[i].h, c->loop[i + 1].h)) return false;
            conv_loop t = c->loop[i];
            c->loop[i] = c->loop[i + 1], c->loop[i + 1] = t;
            int *of[2] = {&c->rows, &c->lanes};
            for (int k = 0; k < 2; k++) *of[k] = *of[k] == i ? i + 1 : *of[k] == i + 1 ? i : *of[k];
        }
    return true;
}

/* The largest divisor of n so that as many times `each` are at most `most`. */
static int64_t largest_part(int64_t n, double each, double most) {
    int64_t part = n;
    while (part > 1 && (n % part || (double)part * each > most)) part--;
    return part;
}

/* Blocks of the reduction of at most `most` bytes of both operands: parts of the first loop, or
 * single trips of it, and with them a part of the second. */
static void cut_sum(conv *c, double most) {
    scheduler *m = c->m;
    conv_loop *first = &c->loop[c->kept], *second = first + 1;
    double each = (double)(c->nv * m->lanes + c->mr) * (double)c->size;
    for (int i = c->kept + 2; i < c->n; i++) each *= (double)c->loop[i].trips;
    int64_t part = largest_part(first->trips, each * (double)second->trips, most);
    if (part > 1) {
        if (part == first->trips || c->n == LOOPS) return;
        loop2 t = step_split(m, first->h, part, "pc", "kr");
        if (!t.outer.id) return;
        memmove(second, first, (size_t)(c->n++ - c->kept) * sizeof *first);
        first->trips /= part;
        second->trips = part;
        for (int f = 0; f < 2; f++) first->step[f] *= part;
        first->h = t.outer;
        second->h = t.inner;
        return;
    }
    part = largest_part(second->trips, each, most);
    if (c->n < c->kept + 3 || part == second->trips) return;
    loop2 t = step_split(m, second->h, part, "kb", "kr");
    loop_h blocks = step_merge(m, first->h, t.outer, "pc");
    if (!blocks.id) return;
    first->trips *= second->trips / part;
    second->trips = part;
    first->h = blocks;
    second->h = t.inner;
}

static bool pad_to(scheduler *m, const conv_loop *l, int64_t multiple) {
    return l->trips % multiple == 0 || step_pad(maybe(m), l->h, multiple);
}

/* Swap a loop inward, past the loops of the output behind number `from`. */
static bool inward(conv *c, loop_h l, int from) {
    for (int i = from + 1; i < c->kept; i++)
        if (!step_swap(maybe(c->m), l, c->loop[i].h)) return false;
    return true;
}

/* Split rows and lanes, and make the register tile; other loops keep their order, the tile's own
 * are innermost. */
static bool build_tile(conv *c) {
    scheduler *m = c->m;
    conv_loop *rows = &c->loop[c->rows], *lanes = &c->loop[c->lanes];
    int nr = c->nv * m->lanes;
    if (!pad_to(m, rows, c->mr) || !pad_to(m, lanes, nr)) return false;
    loop2 row = step_split(m, rows->h, c->mr, "ir", "mr");
    step_want(m, row.inner, WANT_UNROLL);
    loop2 column = step_split(m, lanes->h, nr, "jr", "nr");
    if (!row.outer.id || !column.outer.id) return false;
    rows->h = row.outer, lanes->h = column.outer;
    c->row = row.inner;
    bool outside = c->lanes < c->rows; /* what stands further in goes first */
    if (!outside && !inward(c, column.inner, c->lanes)) return false;
    if (!inward(c, row.inner, c->rows)) return false;
    if (outside && !inward(c, column.inner, c->lanes)) return false;
    if (outside && !step_swap(maybe(m), column.inner, row.inner)) return false;
    loop2 vectors = schedule_vectors(m, column.inner);
    c->u = vectors.outer, c->v = vectors.inner;
    loop_h of[3] = {c->v, c->u, c->row}; /* and those of what follows the sum */
    for (int i = 0; i < 3; i++) {
        made_loops made = step_accumulate(maybe(m), c->tile, of[i]);
        if (!made.done) return false;
        c->after[i] = made.n ? made.loop[made.n - 1] : NO_LOOP;
    }
    return true;
}

/* List a loop's parts that are inside `at`, as one axis; it goes on with the last one's if
 * `joined`. Is the axis begun then? */
static bool list_loop(const conv *c, int i, stmt_id at, stage_axes *axes, bool joined) {
    loop_h part[2] = {c->loop[i].h, i == c->rows ? c->row : NO_LOOP};
    for (int k = 0; k < 2; k++) {
        stmt_id s = stmt_of(c->m, part[k]);
        if (!s || s == at || !ir_inside(c->m->k, s, at) || schedule_trips(c->m, s) <= 1) continue;
        stage_axis(axes, part[k], joined);
        joined = true;
    }
    return joined;
}

/* Stage what the blocks inside `where` see of the image, edges included; vectors along memory. */
static void stage_image(conv *c, loop_h where) {
    scheduler *m = c->m;
    stage_axes axes = {0};
    stmt_id at = stmt_of(m, where);
    bool done[LOOPS] = {false};
    for (int i = 0; i < c->n; i++) {
        int next = -1;
        for (int k = 0; k < c->n; k++)
            if (!done[k] && c->loop[k].in[c->a] &&
                (next < 0 || axis_rank(c, k) < axis_rank(c, next)))
                next = k;
        if (next < 0) break;
        bool begun = false;
        for (int k = 0; k < c->n; k++) {
            bool same = k == next || (c->loop[next].window[c->a] &&
                                      c->loop[k].window[c->a] == c->loop[next].window[c->a]);
            if (!same || !c->loop[k].in[c->a]) continue;
            done[k] = true;
            begun = list_loop(c, k, at, &axes, begun);
        }
    }
    loop_chain copy = step_stage(maybe(m), c->mem[c->a], where, &axes, -1).copy;
    if (!copy.n) return;
    loop2 t = step_split(m, copy.loop[copy.n - 1], m->lanes, "x", "v");
    step_want(m, t.inner, WANT_VEC);
    step_peel(maybe(m), t.outer);
}

/* Lanes that are contiguous along the sum, as a weight's channels are, are read by whole vectors
 * and transposed in registers. */
static void transpose_panel(conv *c, const loop_chain *copy) {
    scheduler *m = c->m;
    int lanes = c->nv > 1 ? 2 : 1;
    loop_chain sum = *copy;
    if (copy->n <= lanes) return;
    sum.n -= lanes;
    schedule_merge_in_step(m, &sum);
    for (int i = 0; i < lanes; i++) sum.loop[sum.n + i] = copy->loop[copy->n - lanes + i];
    sum.n += lanes;
    sum.body = copy->body;
    loop_h along = sum.loop[sum.n - lanes - 1];
    if (trips_of(m, along) >= m->lanes && schedule_copies_along(m, sum.body, along))
        schedule_copy_across(m, &sum, sum.n - lanes - 1);
}

/* `panels`: the loop over those that are packed together, if there is one. */
static void pack_lanes(conv *c, loop_h where, loop_h panels) {
    scheduler *m = c->m;
    stage_axes axes = {0};
    stmt_id at = stmt_of(m, where);
    if (panels.id)
        stage_axis(&axes, panels, false);
    else
        list_loop(c, c->lanes, at, &axes, false);
    for (int i = 0; i < c->n; i++)
        if (i != c->lanes && c->loop[i].in[c->b]) list_loop(c, i, at, &axes, false);
    if (c->nv > 1) stage_axis(&axes, c->u, false);
    stage_axis(&axes, c->v, false);
    made_stage panel = step_stage(m, c->mem[c->b], where, &axes, -1);
    if (panel.tile) transpose_panel(c, &panel.copy);
}

/* Split the outermost loop into parts, for each of which the weights are packed once: as many as
 * keep the threads busy, one for one thread; equal ones, where there are such. The loop over parts.
 */
static loop_h split_parts(conv *c) {
    conv_loop *l = &c->loop[0];
    int threads = c->m->limits->threads > 1 ? c->m->limits->threads : 1;
    int64_t trips = trips_of(c->m, l->h), part = ceil_div(trips, threads > 1 ? 2 * threads : 1);
    int64_t equal = largest_part(trips, 1, (double)part);
    if (2 * equal > part) part = equal;
    if (part < 2) return NO_LOOP;
    loop2 t = step_split(c->m, l->h, part, "parts", "in");
    if (!t.outer.id) return NO_LOOP;
    if (c->rows) l->trips = part;
    l->h = t.inner;
    return t.outer;
}

/* Merge outer loops until there are enough items for the threads, and make them parallel. */
static void share(conv *c, int first) {
    scheduler *m = c->m;
    stmt_id s = schedule_at(m, m->k->root)->first;
    loop_h root = loop_of(m, s);
    for (int i = 0; i < first && trips_of(m, root) < 2 * m->limits->threads; i++) {
        s = stmt_of(m, root);
        stmt_id inner = schedule_at(m, s)->first;
        if (inner != schedule_at(m, s)->last || schedule_at(m, inner)->kind != STMT_LOOP) break;
        loop_h merged = step_merge(maybe(m), root, loop_of(m, inner), "parts");
        if (!merged.id) break;
        root = merged;
    }
    schedule_share(m, root);
}

/* Where to stage the image: the outermost loop whose iteration sees no more than the cache holds;
 * `first`: the outermost candidate. */
static int image_loop(const conv *c, int first, bool deep) {
    int at = first;
    double most = (double)copy_bytes(c);
    while (at + 1 < c->kept && footprint(c, c->a, at, deep) * (double)c->size > most) at++;
    while (at + 1 < c->kept && at != c->rows && !c->loop[at].in[c->a])
        at++; /* no gain further out */
    return at;
}

/* There, one loop further in, or one further out, where there is one. */
static int choose_image(const conv *c, int at, int first) {
    int way[3] = {at}, ways = 1;
    if (at + 1 < c->kept) way[ways++] = at + 1;
    if (at > first) way[ways++] = at - 1;
    return ways > 1 ? way[choose_large(c, CHOICE_image, ways, 0)] : at;
}

/* How many panels of columns are packed together and share what is staged of the image: as many as
 * fit the second-level cache, the sums of a block among them, and leave work for all threads. */
static int64_t panels_at_once(const conv *c, int at, bool deep) {
    const machine *l = c->m->limits;
    int64_t panels = ceil_div(c->loop[c->lanes].trips, c->nv * c->m->lanes), n = panels;
    double panel = (double)(c->nv * c->m->lanes), sums = panel;
    for (int i = 0; i < c->n; i++) {
        bool block = !(deep && i == c->kept);
        if (c->loop[i].sum && c->loop[i].in[c->b] && block) panel *= (double)c->loop[i].trips;
        if (!c->loop[i].sum && only_in(c, i, c->a)) sums *= (double)c->loop[i].trips;
    }
    double image = footprint(c, c->a, at, deep), each = deep ? panel + sums : panel;
    double room = (double)machine_second(l) / (double)c->size - image;
    int64_t parts = l->threads > 1 ? 2 * l->threads : 1;
    while (n > 1 && (panels / n < parts || each * (double)n > room)) n--;
    return ceil_div(panels, ceil_div(panels, n)); /* equal groups, but for the last */
}

/* They, or one at a time. */
static int64_t choose_panels(const conv *c, int at, bool deep) {
    int64_t panels = panels_at_once(c, at, deep);
    return panels > 1 && choose_large(c, CHOICE_panels, 2, 0) ? 1 : panels;
}

/* Put the panels at once inside the loop at which the image is staged; the loop over them. */
static loop_h block_panels(conv *c, int at, int64_t panels) {
    scheduler *m = c->m;
    conv_loop *lanes = &c->loop[c->lanes];
    if (panels < 2 || at < c->lanes) return NO_LOOP;
    loop2 t = step_split(m, lanes->h, panels, "jc", "jq");
    if (!t.outer.id) return NO_LOOP;
    lanes->h = t.outer;
    for (int i = c->lanes + 1; i <= at; i++)
        if (!step_swap(maybe(m), t.inner, c->loop[i].h)) break;
    return t.inner;
}

bool schedule_convolution(scheduler *m, stmt_id loop) {
    conv *c = arena_zeroed(&m->k->arena, sizeof *c);
    c->m = m;
    step_mark before = steps_mark(m);
    bool split = schedule_split_divided(m, &loop);
    if (!read_whole(c, loop) || (split && !schedule_sums_in_order(m, loop))) {
        if (split) steps_back(m, &before);
        return false;
    }
    choose_tile(c);
    bool pack = c->loop[c->lanes].step[c->b] != 1 || c->load[c->b].valid != SYM_TRUE;
    bool packed = pack || c->panel;
    int outer = 0; /* loops that a does not depend on, or that both do: around everything */
    for (int i = 0; i < c->kept; i++) outer += i != c->lanes && c->loop[i].in[c->b];
    double most = (double)copy_bytes(c);
    bool deep = is_deep(c), panels = deep || lane_bytes(c) > most;
    if (!order_loops(c, panels, deep)) return false;
    if (deep) cut_sum(c, most / 4);
    if (!build_tile(c)) return true;
    loop_h sum = c->loop[c->kept].h;
    int first = 0; /* the outermost loop that a depends on */
    while (!only_in(c, first, c->a)) first++;
    int at = image_loop(c, deep ? first : 0, deep);
    bool staged = c->load[c->a].valid != SYM_TRUE;
    if (staged) at = choose_image(c, at, deep ? first : 0);
    loop_h several = NO_LOOP;
    if (panels && packed && staged) several = block_panels(c, at, choose_panels(c, at, deep));
    deep = deep && schedule_block_sums(m, c->tile, sum, c->loop[first].h).tile;
    loop_h parts = NO_LOOP;
    if (pack && !deep && !panels && !outer) parts = split_parts(c);
    if (pack)
        pack_lanes(c,
                   deep       ? sum
                   : panels   ? c->loop[c->lanes].h
                   : parts.id ? parts
                              : c->loop[outer ? outer - 1 : 0].h,
                   several);
    if (staged) stage_image(c, c->loop[at].h);
    schedule_store_across(m, c->after[2], c->after[1], c->after[0]);
    if (c->panel && deep && lane_bytes(c) > (double)machine_second(m->limits))
        step_prefetch_distance(m, c->mem[c->b], m->limits->page);
    share(c, c->kept);
    return true;
}
