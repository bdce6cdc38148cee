/* pipeline.c - software pipelining of rows whose loops depend on each other; schedule.c explains
 * what a schedule is.
 *
 * A softmax reads a row for its maximum, computes exponentials, and writes the quotients: memory,
 * arithmetic, memory, each dependent on the one before. Different rows are independent. So the
 * loops along a row are split into equal steps, those that are independent within a row are fused,
 * and what remains are stages. For each but the first, the rows' loop is shifted (`shift`) and the
 * stage fused with the one before it: one loop along the columns then stores row r, computes with
 * row r + 1 and reads row r + 2.
 *
 * A stage that reads what the stage before last has computed of its row (the maximum, in a log
 * softmax) would find it overwritten by then, and reads a copy (`spill`).
 *
 * Rows are distributed in chunks, and each chunk starts with an empty pipeline. A row goes through
 * the same operations wherever it is in its chunk, so no bit depends on who computes it, and with
 * which other rows. */
#include "schedule/schedule.h"

enum {                             /* of the algorithm, not of a machine */
       MOST_LOOPS = 8,             /* along a row */
       VECTORS = PIPELINE_VECTORS, /* of each loop in a step */
       MOST_CHUNK = 64,            /* rows; the pipeline is not full in two or three of them */
       LEAST_CHUNK = 8,
       FEW_ITEMS = 4,
       MANY_ITEMS = 64,
       SHORT = 16, /* vectors in a row, for which filling the pipeline at each row would count */
       CHUNK_ITEMS =
           16,  /* usual items' work in a chunk, where there are neither few nor many rows */
       FEW = 16 /* elements of a tile that is copied for a row */
};

typedef struct pipeline {
    scheduler *m;
    int n;
    loop_h loop[MOST_LOOPS]; /* along a row; at the end: the stages' */
    int64_t columns;
    bool streams;
} pipeline;

/* Read the loops along a row: leaves, all of one known extent. */
static bool read_row(pipeline *p, stmt_id row) {
    scheduler *m = p->m;
    bool along = false;
    for (stmt_id s = schedule_at(m, row)->first; s; s = schedule_at(m, s)->next) {
        int64_t n;
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        if (p->n == MOST_LOOPS || schedule_has_inner(m, s) ||
            !sym_is_const(m->k->syms, schedule_at(m, s)->l.extent, &n) || (p->n && n != p->columns))
            return false;
        p->columns = n;
        p->loop[p->n++] = loop_of(m, s);
        along |= schedule_contiguous(m, s, schedule_at(m, s)->l.var) > 0;
        p->streams |= schedule_streams(m, s, n, 1);
    }
    return p->n > 1 && along && p->columns >= 2 * VECTORS * m->lanes;
}

/* Do three rows of everything fit the second-level cache? */
static bool rows_fit(const pipeline *p) {
    const scheduler *m = p->m;
    int64_t bytes = 0;
    for (mem_id i = 1; i < m->k->mems; i++)
        if (ir_m(m->k, i)->size != SYM_ONE)
            bytes = sat_add(bytes, sat_mul(3, schedule_bytes(m, i, p->columns)));
    return bytes <= machine_shared(m->limits);
}

/* Split each loop into steps of as many vectors; reductions get an accumulator for each. */
static bool split_row(pipeline *p) {
    scheduler *m = p->m;
    for (int i = 0; i < p->n; i++) {
        int width = VECTORS * m->lanes;
        mem_id tile[SCHEDULE_TILES];
        int tiles = schedule_reduced_tiles(m, stmt_of(m, p->loop[i]), tile);
        if (p->columns % width && !step_pad(maybe(m), p->loop[i], width)) return false;
        loop2 steps = step_split(maybe(m), p->loop[i], width, "o", "w");
        loop2 vectors = step_split(maybe(m), steps.inner, m->lanes, "u", "v");
        if (!vectors.inner.id) return false;
        step_want(m, steps.outer, WANT_STEPS);
        step_want(m, vectors.outer, WANT_UNROLL);
        step_want(m, vectors.inner, WANT_VEC);
        for (int t = 0; t < tiles; t++) {
            mem_id wide = step_rfactor(maybe(m), tile[t], vectors.inner).tile;
            if (!step_rfactor(maybe(m), wide, vectors.outer).tile) return false;
        }
        p->loop[i] = steps.outer;
    }
    return true;
}

/* Fuse independent loops along a row into one stage. */
static bool fuse_stages(pipeline *p) {
    int stages = 1;
    for (int i = 1; i < p->n; i++)
        if (!step_fuse(maybe(p->m), p->loop[stages - 1], p->loop[i]))
            p->loop[stages++] = p->loop[i];
    p->n = stages;
    return stages > 1;
}

/* Copy what stage i reads and stages in front of it overwrite. */
static bool copy_tiles(pipeline *p, int i) {
    scheduler *m = p->m;
    kernel *k = m->k;
    stmt_id stage = stmt_of(m, p->loop[i]), before = stmt_of(m, p->loop[i - 1]);
    ir_access *t, *made;
    uint32_t n = ir_accesses(k, stage, &t);
    bool *early = arena_zeroed(&k->arena, k->mems * sizeof *early);
    for (stmt_id s = schedule_at(m, schedule_at(m, stage)->parent)->first; s != before;
         s = schedule_at(m, s)->next) {
        uint32_t count = ir_accesses(k, s, &made);
        for (uint32_t j = 0; j < count; j++)
            if (!made[j].load) early[made[j].mem] = true;
    }
    for (uint32_t j = 0; j < n; j++) {
        int64_t size;
        if (!t[j].load || !early[t[j].mem]) continue;
        early[t[j].mem] = false;
        if (!sym_is_const(k->syms, ir_m(k, t[j].mem)->size, &size) || size > FEW) return false;
        if (!step_spill(maybe(m), t[j].mem, p->loop[i]).tile) return false;
    }
    return true;
}

/* Fuse all stages into the last stage's loop. */
static bool overlap(pipeline *p, loop_h row) {
    loop_h last = p->loop[p->n - 1];
    for (int i = p->n - 1; i > 1; i--)
        if (!copy_tiles(p, i)) return false;
    for (int i = p->n - 2; i >= 0; i--)
        if (!step_shift(maybe(p->m), row, last) || !step_fuse(maybe(p->m), last, p->loop[i]))
            return false;
    return true;
}

/* The number of rows in a chunk: equal chunks if a number nearby divides the rows, else the last
 * one has enough rows to fill the pipeline, whose first and last iterations then need no masks. 0:
 * too few rows. */
static int64_t chunk_of(const pipeline *p, int64_t rows, double work) {
    double items = work / (double)(CHUNK_ITEMS * schedule_item_work(p->m));
    items = items < FEW_ITEMS ? FEW_ITEMS : items > MANY_ITEMS ? MANY_ITEMS : items;
    int64_t chunk = (int64_t)((double)rows / items), most;
    most = chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk > MOST_CHUNK ? MOST_CHUNK : chunk;
    if (rows < 2 * most) return 0;
    for (chunk = most; chunk > most / 2; chunk--)
        if (rows % chunk == 0) return chunk;
    for (chunk = most; chunk > p->n && rows % chunk < p->n;) chunk--;
    return chunk > p->n ? chunk : 0;
}

/* Split the rows into chunks for threads. `row` becomes the loop over the rows of a chunk. The
 * number of threads is not used here. */
static bool split_chunks(pipeline *p, loop_h *row) {
    scheduler *m = p->m;
    int64_t rows;
    if (!sym_is_const(m->k->syms, extent_of(m, *row), &rows)) return false;
    double work = schedule_work(m, stmt_of(m, *row));
    int64_t chunk = chunk_of(p, rows, work);
    if (!chunk || work < 2 * (double)schedule_item_work(m)) return rows >= 2 * LEAST_CHUNK;
    loop2 chunks = step_split(maybe(m), *row, chunk, "p", "q");
    *row = chunks.inner;
    return step_bind(maybe(m), chunks.outer, LOOP_PAR);
}

/* Is there something to overlap: much arithmetic, non-temporal stores, or rows so short that their
 * prologue counts? */
static bool pays(const pipeline *p) {
    const scheduler *m = p->m;
    bool past = false, computes = false;
    for (mem_id i = 1; i < m->k->mems; i++) past |= schedule_evicts(m, i);
    for (int i = 0; i < p->n; i++)
        computes |= schedule_ops(m, stmt_of(m, p->loop[i])) >= m->limits->pipeline_ops;
    bool whole = p->columns % (VECTORS * m->lanes) == 0;
    return computes || (whole && (past || p->columns <= SHORT * m->lanes));
}

/* Does a loop along the row need what a loop before it reduces? Else there is but one stage. */
static bool has_stages(const pipeline *p) {
    scheduler *m = p->m;
    mem_id tile[SCHEDULE_TILES];
    stmt_id last = stmt_of(m, p->loop[p->n - 1]);
    for (int i = 0; i + 1 < p->n; i++) {
        stmt_id loop = stmt_of(m, p->loop[i]), s = loop;
        int tiles = schedule_reduced_tiles(m, loop, tile);
        while (tiles && s != last) {
            ir_access *t;
            s = schedule_at(m, s)->next;
            uint32_t n = ir_accesses(m->k, s, &t);
            for (uint32_t a = 0; a < n; a++)
                for (int j = 0; j < tiles; j++)
                    if (t[a].load && t[a].mem == tile[j]) return true;
        }
    }
    return false;
}

/* Are there rows enough for two chunks? */
static bool has_rows(scheduler *m, const loop_chain *c) {
    int64_t rows = 1, n;
    for (int i = 0; i < c->n; i++) {
        stmt_id l = stmt_of(m, c->loop[i]);
        if (!sym_is_const(m->k->syms, extent_of(m, c->loop[i]), &n)) return false;
        if (i + 1 < c->n && !schedule_in_step(m, l, stmt_of(m, c->loop[i + 1]))) return false;
        if (__builtin_mul_overflow(rows, n, &rows)) return false;
    }
    return rows >= 2 * LEAST_CHUNK;
}

bool schedule_may_pipeline(scheduler *m, const loop_chain *c) {
    pipeline p = {.m = m};
    return read_row(&p, c->body) && rows_fit(&p) && pays(&p) && has_stages(&p) && has_rows(m, c);
}

/* Have the sums along the row the chains that a pipeline gives them? */
static bool grouped_so(const pipeline *p) {
    const scheduler *m = p->m;
    mem_id tile[SCHEDULE_TILES];
    for (int i = 0; i < p->n; i++) {
        int tiles = schedule_reduced_tiles(m, stmt_of(m, p->loop[i]), tile);
        for (int j = 0; j < tiles; j++) {
            ir_grouping g = ir_m(m->k, tile[j])->sum;
            if (g.parts != 1 || g.chains != VECTORS || g.lanes != m->lanes) return false;
        }
    }
    return true;
}

/* Peel the iterations that need no masks in any loop along columns, where some do. */
static void peel(pipeline *p) {
    scheduler *m = p->m;
    loop_h loop[64];
    int n = 0;
    for (stmt_id s = m->k->root; (s = ir_next(m->k, s, m->k->root)) && n < 64;)
        if (schedule_at(m, s)->kind == STMT_LOOP && schedule_at(m, s)->l.want == WANT_STEPS)
            loop[n++] = loop_of(m, s);
    for (int i = 0; i < n; i++) {
        step_want(m, loop[i], WANT_NOTHING);
        if (p->columns % (VECTORS * m->lanes)) step_peel(maybe(m), loop[i]);
    }
}

bool schedule_pipeline(scheduler *m, loop_chain *c) {
    pipeline p = {.m = m};
    loop_chain whole = *c;
    step_mark was = steps_mark(m);
    schedule_merge_in_step(m, c);
    loop_h row = c->loop[0];
    if (c->n == 1 && read_row(&p, c->body) && rows_fit(&p) && pays(&p) && grouped_so(&p) &&
        split_row(&p) && split_chunks(&p, &row) && fuse_stages(&p) && overlap(&p, row)) {
        peel(&p);
        if (p.streams) m->copy = m->use = p.loop[p.n - 1];
        return true;
    }
    steps_back(m, &was);
    *c = whole;
    return false;
}
