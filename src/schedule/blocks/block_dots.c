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

enum { PARTS = 4, MOST_WORDS = 8, CHAINS = 4, BLOCK_LANES = 16 /* of many words each */ };

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

bool schedule_is_block_dots(scheduler *m, const loop_chain *c, block_dots *d) {
    contraction x;
    stmt_id loop = c->body;
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

int64_t schedule_chain_trips(const scheduler *m, const loop_chain *c) {
    int64_t trips = 1;
    for (int i = 0; i < c->n; i++) trips = sat_mul(trips, trips_of(m, c->loop[i]));
    return trips;
}

bool schedule_has_block_dots(scheduler *m, stmt_id row) {
    block_dots d;
    for (stmt_id s = schedule_at(m, row)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        loop_chain c = loop_chain_of(m, s);
        if (schedule_is_block_dots(m, &c, &d) && schedule_chain_trips(m, &c) >= m->lanes)
            return true;
    }
    return false;
}

/* Vectors of the row in a trip. */
static int vectors_of(const scheduler *m, const loop_chain *c, int most) {
    int64_t trips = schedule_chain_trips(m, c);
    while (most > 1 && trips % (most * m->lanes)) most /= 2;
    return most;
}

/* Chains along the row: no more than a block's vectors where a lane adds up many words of it. */
ir_grouping schedule_block_dots_grouping(scheduler *m, const loop_chain *c, bool several) {
    block_dots d;
    bool many = schedule_is_block_dots(m, c, &d) && schedule_chain_trips(m, &d.words) > 2 * PARTS;
    int most = several ? 1 : many ? BLOCK_LANES / m->lanes : CHAINS;
    return ir_grouped(1, most > 1 ? vectors_of(m, c, most) : 1, m->lanes);
}

/* The lane's loop `l` goes through the statements of its body one by one: that of the dots, and
 * that behind them. Sums that begin with a number of each lane (lower/seed.c) have one in front. */
typedef struct spread_loops {
    loop_h dots, behind;
} spread_loops;

static spread_loops spread(scheduler *m, mem_id part, loop_h l) {
    made_loops others = step_accumulate(m, part, l);
    if (!others.n) return (spread_loops){l, NO_LOOP};
    return (spread_loops){others.n > 1 ? others.loop[others.n - 2] : l, others.loop[others.n - 1]};
}

/* How many neighbours load the same by that index, as far as they divide the lanes. */
static int64_t run_of(scheduler *m, sym index, loop_h lanes) {
    sym_store *s = m->k->syms;
    sym var = var_of(m, lanes);
    int64_t all = trips_of(m, lanes), run = all;
    for (; run > 1; run /= 2) {
        sym q = sym_loop(s, "g", sym_const(s, all / run)), l = sym_loop(s, "l", sym_const(s, run));
        sym at = sym_add(s, sym_scale(s, q, run), l);
        if (all % run == 0 && !sym_uses(s, sym_subst(s, index, 1, &var, &at), l)) break;
    }
    return run;
}

/* The smallest groups of lanes that have a scale, or anything else, in common; 1: none have. */
static int64_t group_of(scheduler *m, stmt_id use, loop_h lanes) {
    int64_t least = trips_of(m, lanes);
    ir_access *t;
    uint32_t n = ir_accesses(m->k, use, &t);
    for (uint32_t i = 0; i < n; i++) {
        int64_t run = t[i].load ? run_of(m, t[i].index, lanes) : 1;
        if (run > 1 && run < least) least = run;
    }
    return least < trips_of(m, lanes) ? least : 1;
}

/* Is all that the scales are made of spaced evenly along the row, so that its scales alone go
 * through all of it? */
static bool is_even(scheduler *m, stmt_id use, loop_h row, loop2 group) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, use, &t);
    int64_t of_row, of_group, all = trips_of(m, group.outer) * trips_of(m, group.inner);
    for (uint32_t i = 0; i < n; i++) {
        if (!t[i].load || !schedule_is_arg(m, &t[i])) continue;
        if (!schedule_step(m, &t[i], var_of(m, row), &of_row) || !of_row) continue;
        if (!schedule_step(m, &t[i], var_of(m, group.inner), &of_group)) return false;
        if (of_row != all * of_group) return false;
    }
    return true;
}

/* Scales that take long to make, one a group of lanes, are made side by side at loop `at`, for the
 * axes and the groups. What the lanes' loop is then; its id 0: nothing has been done. */
static loop_h make_scales(scheduler *m, loop_h at, stage_axes *axes, loop2 lane) {
    stage_axis(axes, lane.outer, false);
    made_stage made = step_compute_at(maybe(m), at, axes);
    if (!made.tile) return NO_LOOP;
    const loop_h *last = &made.copy.loop[made.copy.n - 2];
    step_want(m, step_merge(m, last[0], last[1], "s"), WANT_VEC);
    return step_merge(m, lane.outer, lane.inner, "v");
}

/* The bytes that a trip of the row takes of the argument that it takes most of. */
static int64_t bytes_of_trip(scheduler *m, stmt_id use, loop_h row) {
    int64_t most = 0, step;
    ir_access *t;
    uint32_t n = ir_accesses(m->k, use, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && schedule_is_arg(m, &t[i]) &&
            schedule_step(m, &t[i], var_of(m, row), &step) &&
            schedule_bytes(m, t[i].mem, step) > most)
            most = schedule_bytes(m, t[i].mem, step);
    return most;
}

/* Parts of a row that are no more than a page, of equal trips, of one where no other number divides
 * them; the row itself where it is no more, or a trip is. */
static loop2 part_of_row(scheduler *m, stmt_id use, loop_h row) {
    const int64_t all = trips_of(m, row), bytes = bytes_of_trip(m, use, row);
    int64_t n = all;
    while (n > 1 && (n * bytes > m->limits->page || all % n)) n--;
    if (n == all || n * bytes > m->limits->page) return (loop2){NO_LOOP, row};
    return step_split(m, row, n, "c", "o");
}

/* In front of the products: of a part of a row where they lie evenly in it, as then they go through
 * it as the weights do, which have been asked for; else of a trip. */
static loop_h scales_first(scheduler *m, stmt_id use, loop_h row, loop2 vector) {
    int64_t group = group_of(m, use, vector.inner);
    if (group < 2) return vector.inner;
    step_mark mark = steps_mark(m);
    loop2 lane = step_split(m, vector.inner, group, "g", "l");
    loop_h at = loop_of(m, schedule_at(m, stmt_of(m, row))->parent);
    bool whole = at.id && is_even(m, use, row, (loop2){vector.outer, lane.outer});
    stage_axes axes = {0};
    if (whole) {
        loop2 part = part_of_row(m, use, row);
        if (part.outer.id) at = part.outer;
        stage_axis(&axes, part.inner, false);
    }
    stage_axis(&axes, vector.outer, false);
    loop_h lanes = make_scales(m, whole ? at : row, &axes, lane);
    if (!lanes.id) {
        steps_back(m, &mark);
        return vector.inner;
    }
    return lanes;
}

/* The dots' words go inside of the vectors, the last loop inmost. */
static void words_inside(scheduler *m, loop_chain *words, int n, const loop_h *vectors) {
    if (trips_of(m, words->loop[words->n - 1]) > PARTS) {
        loop2 word = step_split(m, words->loop[words->n - 1], PARTS, "word", "part");
        words->loop[words->n - 1] = word.outer;
        words->loop[words->n++] = word.inner;
    }
    for (int i = words->n - 1; i >= 0; i--) {
        step_want(m, words->loop[i], i == words->n - 1 ? WANT_WORD : WANT_UNROLL);
        for (int k = 0; k < n; k++) step_swap(m, words->loop[i], vectors[k]);
    }
}

/* The row's loops become one. */
static bool merge_row(scheduler *m, loop_chain *c) {
    for (; c->n > 1; loop_chain_drop(c, c->n - 1)) {
        loop_h both = step_merge(maybe(m), c->loop[c->n - 2], c->loop[c->n - 1], "b");
        if (!both.id) return false;
        c->loop[c->n - 2] = both;
    }
    return true;
}

bool schedule_block_dots(scheduler *m, loop_chain *c) {
    block_dots d;
    if (!schedule_is_block_dots(m, c, &d)) return false;
    const ir_grouping g = ir_m(m->k, d.sum)->sum;
    int step = g.chains * g.lanes;
    if (g.lanes < 2 || !merge_row(m, c) || !schedule_pad(m, c->loop[0], step)) return false;
    loop2 row = step_split(m, c->loop[0], step, "o", "w");
    loop2 vector = step_split(m, row.inner, g.lanes, "u", "v");
    if (!vector.outer.id) return true;
    vector.inner = scales_first(m, d.use, row.outer, vector);
    step_want(m, vector.outer, WANT_UNROLL);
    step_want(m, vector.inner, WANT_VEC);
    spread_loops lanes = spread(m, d.part, vector.inner), chains = spread(m, d.part, vector.outer);
    mem_id wide = step_rfactor(m, d.sum, lanes.behind).tile;
    if (wide && g.chains > 1) step_rfactor(m, wide, chains.behind);
    words_inside(m, &d.words, 2, (const loop_h[]){chains.dots, lanes.dots});
    return true;
}

bool schedule_distribute_sums(scheduler *m, stmt_id body) {
    bool blocks = schedule_has_block_dots(m, body);
    for (stmt_id s = schedule_at(m, body)->first; blocks && s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        stmt_id in = schedule_at(m, s)->first;
        if (schedule_at(m, in)->kind == STMT_LOOP && !schedule_at(m, in)->next &&
            !schedule_has_inner(m, in) && step_fission(maybe(m), loop_of(m, in)).done)
            step_fission(maybe(m), loop_of(m, s));
    }
    return blocks;
}

/* A loop of several trips, which has loops in it. */
static bool goes_in_trips(const scheduler *m, stmt_id s) {
    return schedule_at(m, s)->kind == STMT_LOOP && schedule_has_inner(m, s) &&
           schedule_trips(m, s) > 1;
}

/* Dot instructions' words; sums, which others than of dots are, too. */
static bool is_words(const ir_stmt *t) {
    return t->kind == STMT_LOOP && t->l.want == WANT_WORD;
}

static bool is_sum(const ir_stmt *t) {
    return t->kind == STMT_STORE && t->monoid == MONOID_SUM;
}

static bool has(const scheduler *m, stmt_id loop, bool (*is_so)(const ir_stmt *t)) {
    for (stmt_id s = loop; (s = ir_next(m->k, s, loop));)
        if (is_so(schedule_at(m, s))) return true;
    return false;
}

/* Do both load bytes of the same argument? */
static bool share_weights(scheduler *m, stmt_id a, stmt_id b) {
    ir_access *t, *u;
    uint32_t n = ir_accesses(m->k, a, &t), p = ir_accesses(m->k, b, &u);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < p && t[i].load && schedule_is_arg(m, &t[i]); k++)
            if (u[k].load && u[k].mem == t[i].mem &&
                qn_dtype_size((qn_dtype)ir_m(m->k, u[k].mem)->dtype) == 1)
                return true;
    return false;
}

/* Fuse the sums s, a loop of the body, with the dots of the weights that they belong to. */
static void fuse_with_dots(scheduler *m, stmt_id body, stmt_id s) {
    bool behind = false;
    for (stmt_id d = schedule_at(m, body)->first; d; d = schedule_at(m, d)->next) {
        behind |= d == s;
        if (d == s || !goes_in_trips(m, d) || !has(m, d, is_words) || !share_weights(m, s, d))
            continue;
        if (schedule_trips(m, d) != schedule_trips(m, s)) continue;
        step_fuse(maybe(m), loop_of(m, behind ? s : d), loop_of(m, behind ? d : s));
        return;
    }
}

void schedule_fuse_sums(scheduler *m, stmt_id body) {
    for (stmt_id s = schedule_at(m, body)->first, next; s; s = next) {
        next = schedule_at(m, s)->next;
        if (goes_in_trips(m, s) && !has(m, s, is_words) && has(m, s, is_sum))
            fuse_with_dots(m, body, s);
    }
}

/* Elements of the memory by which a trip of the row moves on; 0: unevenly, or not at all. */
static int64_t step_of(scheduler *m, mem_id mem, loop_h row) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, stmt_of(m, row), &t);
    int64_t step = 0;
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && t[i].mem == mem &&
            (!schedule_step(m, &t[i], var_of(m, row), &step) || step <= 0))
            return 0;
    return step;
}

bool schedule_prefetch_lines(scheduler *m, mem_id mem, loop_h row) {
    enum { PAGES = 2 };
    const int64_t step = step_of(m, mem, row);
    return step &&
           step_prefetch_trip(maybe(m), mem, row,
                              ceil_div(PAGES * m->limits->page, schedule_bytes(m, mem, step)));
}

void schedule_prefetch_block(scheduler *m, mem_id mem, loop_h row) {
    if (!schedule_prefetch_lines(m, mem, row))
        step_prefetch_distance(maybe(m), mem, m->limits->page); /* trips are parts of blocks */
}

/* Of arguments that the first cache does not hold. */
static void prefetch_blocks(scheduler *m, stmt_id row) {
    for (mem_id i = 1; i < m->k->mems; i++) {
        const ir_memory *mem = ir_m(m->k, i);
        if (mem->scope == MEM_ARG && !(mem->access & ACCESS_WRITE) &&
            schedule_bytes(m, i, sym_lo(m->k->syms, mem->size)) > machine_l1(m->limits))
            schedule_prefetch_block(m, i, loop_of(m, row));
    }
}

void schedule_prefetch_blocks(scheduler *m, stmt_id body) {
    for (stmt_id s = schedule_at(m, body)->first; s; s = schedule_at(m, s)->next) {
        stmt_id row = 0; /* the loop of blocks */
        for (stmt_id l = s; l; l = ir_next(m->k, l, s))
            if (goes_in_trips(m, l) && schedule_at(m, l)->l.want == WANT_NOTHING &&
                has(m, l, is_words))
                row = l;
        if (row) prefetch_blocks(m, row);
    }
}

bool schedule_block_dots_shared(scheduler *m, loop_chain *c, block_loops *l) {
    block_dots d;
    if (!schedule_is_block_dots(m, c, &d)) return false;
    const ir_grouping g = ir_m(m->k, d.sum)->sum;
    if (g.lanes < 2 || g.chains > 1) return false;
    step_mark mark = steps_mark(m);
    if (!merge_row(m, c) || !schedule_pad(m, c->loop[0], g.lanes)) {
        steps_back(m, &mark);
        return false;
    }
    loop2 vector = step_split(m, c->loop[0], g.lanes, "w", "v");
    int64_t group = group_of(m, d.use, vector.inner); /* so many share a vector of scales */
    if (trips_of(m, vector.outer) % group) group = 1;
    loop2 trip = step_split(m, vector.outer, group, "o", "u");
    step_want(m, trip.inner, WANT_UNROLL);
    step_want(m, vector.inner, WANT_VEC);
    spread_loops lanes = spread(m, d.part, vector.inner);
    *l = (block_loops){trip.outer, trip.inner, lanes.behind, d.sum, d.use};
    step_rfactor(m, d.sum, l->lanes);
    words_inside(m, &d.words, 1, &lanes.dots);
    return true;
}

void schedule_block_scales(scheduler *m, const block_loops *l, int n, const loop_h *tile) {
    int64_t group = group_of(m, l->use, l->lanes);
    if (group < 2) return;
    step_mark mark = steps_mark(m);
    loop2 lane = step_split(m, l->lanes, group, "g", "l");
    stage_axes axes = {0};
    for (int i = 0; i < n; i++) stage_axis(&axes, tile[i], false);
    stage_axis(&axes, l->vector, false);
    loop_h lanes = make_scales(m, l->trip, &axes, lane);
    if (lanes.id)
        step_want(m, lanes, WANT_VEC);
    else
        steps_back(m, &mark);
}
