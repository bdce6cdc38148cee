/* depthwise.c - the default schedule of a depthwise convolution: windows slide over an image, and
 * each image has weights of its own.
 *
 *   for c { for y { for x { def t; for r { for q { t += a[c, y + r, x + q] * w[c, r, q] } } } } }
 *
 * There are no columns to share what is loaded of the image, as a product's have, so vectors go
 * along its rows:
 *
 *   edges   what a window sees beyond the image is 0. The image of one channel is copied with its
 *           edges once (stage with joined loops), and the sum runs without masks but for the last
 *           lanes of a row
 *   lanes   positions along a row of the result; of narrow images vectors are as short as they are
 *   rows    several at once, in a register tile: their sums are chains beside each other, where one
 *           row's would wait for itself, and a weight is loaded once for all of them */
#include "schedule/schedule.h"

enum {
    MOST_VECTORS = 4, /* along a row of a tile */
    LEAST_REUSE = 2   /* times that an element is read, to be worth a copy */
};

typedef struct sliding {
    scheduler *m;
    contraction x;
    int image, first;               /* the factor; the first loop of its positions */
    loop_h loop[CONTRACTION_LOOPS]; /* handles of x.loop */
    int along[CONTRACTION_LOOPS];   /* of a loop of the sum: whose positions it moves; -1: none's */
} sliding;

static bool only_image(const sliding *d, int i) {
    return d->x.loop[i].side == (d->image ? SIDE_SECOND : SIDE_FIRST);
}

/* Positions are the inner loops of the output, outer ones are of both factors. */
static bool find_image(sliding *d) {
    const contraction *x = &d->x;
    int last = x->outs - 1;
    uint8_t side = x->loop[last].side;
    d->image = side == SIDE_SECOND;
    if (side != SIDE_FIRST && side != SIDE_SECOND) return false;
    for (d->first = last; d->first > 0 && only_image(d, d->first - 1);) d->first--;
    for (int i = 0; i < d->first; i++)
        if (x->loop[i].side != SIDE_BOTH) return false;
    for (int i = d->first; i < x->loops; i++)
        if (!x->loop[i].fixed[d->image] || x->loop[i].step[d->image] < 1) return false;
    return d->first > 0;
}

/* Which positions a loop of the sum moves: those that appear with it in the image's mask. */
static void find_windows(sliding *d) {
    kernel *k = d->m->k;
    sym fact[IR_FACTS];
    int facts = ir_facts(k, d->x.of[d->image].access.valid, fact);
    for (int j = d->x.outs; j < d->x.loops; j++) {
        d->along[j] = -1;
        for (int i = d->first; i < d->x.outs; i++)
            for (int n = 0; n < facts; n++)
                if (sym_uses(k->syms, fact[n], var_of(d->m, d->loop[i])) &&
                    sym_uses(k->syms, fact[n], var_of(d->m, d->loop[j])))
                    d->along[j] = i;
    }
}

static bool read_sliding(scheduler *m, stmt_id loop, sliding *d) {
    contraction *x = &d->x;
    int64_t step;
    sym rest;
    d->m = m;
    if (!contraction_of(m->k, loop, x) || !x->epilogue) return false;
    if (!x->of[0].direct || !x->of[1].direct || !find_image(d)) return false;
    for (int i = 0; i < x->loops; i++) d->loop[i] = loop_of(m, x->loop[i].at);
    sym to = schedule_at(m, x->epilogue)->store.index, last = var_of(m, d->loop[x->outs - 1]);
    if (!sym_split(m->k->syms, to, last, &step, &rest) || step != 1) return false;
    find_windows(d);
    return schedule_sums_in_order(m, x->reduction);
}

/* Elements of the image that one channel's windows see along positions i. */
static int64_t seen_along(const sliding *d, int i) {
    int64_t unit = d->x.loop[i].step[d->image], far = 0;
    for (int j = d->x.outs; j < d->x.loops; j++)
        if (d->along[j] == i && d->x.loop[j].step[d->image] < unit)
            unit = d->x.loop[j].step[d->image];
    for (int j = d->first; j < d->x.loops; j++)
        if (j == i || (j >= d->x.outs && d->along[j] == i))
            far += (trips_of(d->m, d->loop[j]) - 1) * d->x.loop[j].step[d->image];
    return far / unit + 1;
}

/* Is a copy of a channel with its edges read often enough, and does it stay in the second cache? */
static bool is_worth_copying(const sliding *d) {
    const scheduler *m = d->m;
    int64_t copied = 1, read = 1;
    for (int i = d->first; i < d->x.loops; i++) {
        bool position = i < d->x.outs, alone = !position && d->along[i] < 0;
        read = sat_mul(read, trips_of(m, d->loop[i]));
        if (position) copied = sat_mul(copied, seen_along(d, i));
        if (alone) copied = sat_mul(copied, trips_of(m, d->loop[i]));
    }
    int64_t most = machine_l2(m->limits) * m->limits->l2_shared / 100;
    return d->x.of[d->image].access.valid != SYM_TRUE && read / LEAST_REUSE >= copied &&
           schedule_bytes(m, d->x.of[d->image].mem, copied) <= most;
}

/* Copy a channel with its edges, rows as they lie. */
static void stage_channel(sliding *d) {
    scheduler *m = d->m;
    stage_axes axes = {0};
    for (int j = d->x.outs; j < d->x.loops; j++)
        if (d->along[j] < 0) stage_axis(&axes, d->loop[j], false);
    for (int i = d->first; i < d->x.outs; i++) {
        stage_axis(&axes, d->loop[i], false);
        for (int j = d->x.outs; j < d->x.loops; j++)
            if (d->along[j] == i) stage_axis(&axes, d->loop[j], true);
    }
    loop_h channel = d->loop[d->first - 1];
    loop_chain copy = step_stage(maybe(m), d->x.of[d->image].mem, channel, &axes, -1).copy;
    if (!copy.n) return;
    loop2 t = step_split(m, copy.loop[copy.n - 1], m->lanes, "x", "v");
    step_want(m, t.inner, WANT_VEC);
    step_peel(maybe(m), t.outer);
}

/* Vectors of how many lanes, and how many of them: the fewest lanes that are idle, then the widest.
 * What is apart in memory is shuffled from whole vectors. */
static int choose_vectors(const sliding *d, int64_t n, int *lanes) {
    int best = 1;
    bool beside = d->x.loop[d->x.outs - 1].step[d->image] == 1;
    *lanes = d->m->lanes;
    while (beside && *lanes > 4 && *lanes / 2 >= n) *lanes /= 2;
    for (int v = 2; v <= MOST_VECTORS && (v - 1) * *lanes < n; v++)
        if (ceil_div(n, v * *lanes) * v <= ceil_div(n, best * *lanes) * best) best = v;
    return best;
}

/* The register tile: rows x vectors. */
static bool build_rows(sliding *d) {
    scheduler *m = d->m;
    int last = d->x.outs - 1, lanes;
    loop_h columns = d->loop[last];
    int vectors = choose_vectors(d, trips_of(m, columns), &lanes);
    if (!schedule_pad(m, columns, (int64_t)vectors * lanes)) return false;
    loop2 column = step_split(m, columns, (int64_t)vectors * lanes, "jr", "nr");
    loop_h row = NO_LOOP;
    if (!column.outer.id) return false;
    if (last > d->first) {
        int64_t trips = trips_of(m, d->loop[last - 1]), most = m->limits->registers / 2 / vectors;
        int64_t part = trips < most ? trips : most;
        while (part > 1 && trips % part) part--;
        loop2 rows = part > 1 ? step_split(m, d->loop[last - 1], part, "ir", "mr") : (loop2){0};
        if (rows.inner.id && step_swap(maybe(m), rows.inner, column.outer)) row = rows.inner;
        step_want(m, row, WANT_UNROLL);
    }
    loop2 vector = schedule_lanes_of(m, column.inner, lanes);
    return step_accumulate(maybe(m), d->x.tile, vector.inner).done &&
           step_accumulate(maybe(m), d->x.tile, vector.outer).done &&
           (!row.id || step_accumulate(maybe(m), d->x.tile, row).done);
}

bool schedule_depthwise(scheduler *m, stmt_id loop) {
    sliding *d = arena_zeroed(&m->k->arena, sizeof *d);
    if (!read_sliding(m, loop, d)) return false;
    if (is_worth_copying(d)) stage_channel(d);
    build_rows(d);
    loop_h root = d->loop[0];
    for (int i = 1; i < d->first && trips_of(m, root) < 2 * m->limits->threads; i++) {
        loop_h both = step_merge(maybe(m), root, d->loop[i], "parts");
        if (!both.id) break;
        root = both;
    }
    schedule_share(m, root);
    return true;
}

/* ---- weights for lanes across channels ------------------------------------------------------- */

void schedule_gather_once(scheduler *m, loop_h root, loop_h lanes) {
    stmt_id top = stmt_of(m, root), vec = stmt_of(m, lanes);
    ir_access *t;
    if (!top || !vec || !ir_inside(m->k, vec, top) || vec == top) return;
    sym_store *s = m->k->syms;
    sym var = schedule_at(m, vec)->l.var;
    uint32_t n = ir_accesses(m->k, vec, &t);
    for (uint32_t i = 0; i < n; i++) {
        int64_t step;
        if (!t[i].load || !schedule_is_arg(m, &t[i]) || t[i].dyn || t[i].guard) continue;
        if (!schedule_step(m, &t[i], var, &step) || !step || step == 1) continue;
        if (sym_uses(s, t[i].index, schedule_at(m, top)->l.var)) continue;
        loop_h inner[CONTRACTION_LOOPS];
        stage_axes axes = {0};
        int used = 0;
        int64_t again = 1;
        for (stmt_id p = vec; p != top && used < CONTRACTION_LOOPS; p = schedule_at(m, p)->parent) {
            sym v = schedule_at(m, p)->l.var;
            if (sym_uses(s, t[i].index, v) || sym_uses(s, t[i].valid, v))
                inner[used++] = loop_of(m, p);
            else if (schedule_trips(m, p) < (int64_t)1 << 30)
                again *= schedule_trips(m, p) > 1 ? schedule_trips(m, p) : 1;
        }
        while (used-- > 0) stage_axis(&axes, inner[used], false);
        if (again < 4) continue;
        step_stage(maybe(m), t[i].mem, root, &axes, -1);
        return;
    }
}
