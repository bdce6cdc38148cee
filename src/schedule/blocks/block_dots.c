/* block_dots.c - rows of small integer products, each scaled: what weights in blocks of few bits
 * are multiplied with.
 *
 *   for b { def t;  for p { t += i32(w[4*b + p]) * i32(x[4*b + p]) }  s += f(t, b) }
 *
 * t is exact and takes four bytes of each side, or a few times four; s is a float sum along the
 * row. Word b is a lane:
 *
 *   for o { def t[u, v];  u v { word p { t[u, v] += w * x } }  u v { s[u, v] += f(t[u, v], b) } }
 *
 * so that a dot instruction makes four products a lane, of whole vectors of bytes as they lie, and
 * f runs on vectors, too. A processor without the instruction makes the same products part by part:
 * they are integers, so nothing but the time depends on it. How s is grouped is said by facts of
 * sizes (schedule/grouping.c): a lane each, in as many chains as divide the row. */
#include "schedule/schedule.h"

enum { PARTS = 4, MOST_WORDS = 8, CHAINS = 4 };

/* An i32 made of a byte. */
static bool is_byte(const kernel *k, expr_id factor) {
    const ir_expr *e = ir_e(k, factor);
    if (e->kind != EXPR_OP || e->op != OP_CAST || e->dtype != QN_I32) return false;
    return qn_dtype_size((qn_dtype)ir_e(k, e->arg[0])->dtype) == 1 &&
           ir_e(k, e->arg[0])->dtype != QN_BOOL;
}

/* Loops of a few whole words. */
static bool are_words(const scheduler *m, const loop_chain *c) {
    int64_t all = 1, trips = 0;
    for (int i = 0; i < c->n; i++) { /* there is room for one more */
        if (c->n == LOOP_CHAIN) return false;
        if (!sym_is_const(m->k->syms, extent_of(m, c->loop[i]), &trips)) return false;
        if (trips < 1 || trips > PARTS * MOST_WORDS) return false;
        all *= trips;
    }
    return trips % PARTS == 0 && all <= PARTS * MOST_WORDS;
}

bool schedule_is_block_dots(scheduler *m, stmt_id loop, block_dots *d) {
    contraction x;
    if (!contraction_of(m->k, loop, &x) || x.body != loop || !x.epilogue) return false;
    const ir_stmt *use = schedule_at(m, x.epilogue);
    if (use->next || use->n != 1 || use->monoid != MONOID_SUM) return false;
    d->words = loop_chain_of(m, x.reduction);
    d->part = x.tile;
    d->sum = use->store.mem[0];
    d->use = x.epilogue;
    return ir_m(m->k, d->sum)->scope != MEM_ARG && are_words(m, &d->words) &&
           is_byte(m->k, x.factor[0]) && is_byte(m->k, x.factor[1]);
}

ir_grouping schedule_block_dots_grouping(scheduler *m, stmt_id loop) {
    int64_t trips = schedule_trips(m, loop);
    int chains = CHAINS;
    while (chains > 1 && trips % (chains * m->lanes)) chains /= 2;
    return ir_grouped(1, chains, m->lanes);
}

/* Give the products' tile an element for each of the loop's trips; the loop of those that are
 * scaled then. */
static loop_h spread(scheduler *m, mem_id part, loop_h l) {
    made_loops others = step_accumulate(m, part, l);
    return others.n ? others.loop[others.n - 1] : NO_LOOP;
}

bool schedule_block_dots(scheduler *m, const loop_chain *c) {
    block_dots d;
    int64_t exact;
    if (c->n != 1 || !schedule_is_block_dots(m, c->body, &d)) return false;
    const ir_grouping g = ir_m(m->k, d.sum)->sum;
    int step = g.chains * g.lanes;
    if (g.lanes < 2) return false;
    if (!sym_is_const(m->k->syms, extent_of(m, c->loop[0]), &exact) || exact % step)
        if (!step_pad(maybe(m), c->loop[0], step)) return false;
    loop2 row = step_split(m, c->loop[0], step, "o", "w");
    loop2 vector = step_split(m, row.inner, g.lanes, "u", "v");
    if (!vector.outer.id) return true;
    step_want(m, vector.outer, WANT_UNROLL);
    step_want(m, vector.inner, WANT_VEC);
    loop_h lanes = spread(m, d.part, vector.inner), chains = spread(m, d.part, vector.outer);
    mem_id wide = step_rfactor(m, d.sum, lanes).tile;
    if (wide && g.chains > 1) step_rfactor(m, wide, chains);
    if (trips_of(m, d.words.loop[d.words.n - 1]) > PARTS) {
        loop2 word = step_split(m, d.words.loop[d.words.n - 1], PARTS, "word", "part");
        d.words.loop[d.words.n - 1] = word.outer;
        d.words.loop[d.words.n++] = word.inner;
    }
    for (int i = d.words.n - 1; i >= 0; i--) { /* words inside the lanes, the last loop inmost */
        step_want(m, d.words.loop[i], i == d.words.n - 1 ? WANT_WORD : WANT_UNROLL);
        step_swap(m, d.words.loop[i], vector.outer);
        step_swap(m, d.words.loop[i], vector.inner);
    }
    return true;
}
