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
#include <stdio.h>

#include "schedule/schedule.h"

enum {
    MOST_LOOPS = 8,  /* along a row */
    VECTORS = 2,     /* vectors of each loop in a step */
    MOST_CHUNK = 64, /* rows; the pipeline is not full in two or three of them */
    LEAST_CHUNK = 8,
    FEW_ITEMS = 4,
    MANY_ITEMS = 64,
    COMPUTES = 10, /* operations an element, from which on memory would be idle */
    SHORT = 16,    /* vectors in a row */
    CHUNK_WORK =
        16 * SCHEDULE_ITEM_WORK, /* of an item, where there are neither few nor many rows */
    FEW = 16                     /* elements of a tile that is copied for a row */
};

typedef struct pipeline {
    scheduler *m;
    int n;
    char loop[MOST_LOOPS][40]; /* along a row; at the end: the stages' */
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
        snprintf(p->loop[p->n++], sizeof p->loop[0], "%s", schedule_name(m, s));
        along |= schedule_contiguous(m, s, schedule_at(m, s)->l.var) > 0;
        p->streams |= schedule_streams(m, s, 1);
    }
    return p->n > 1 && along && p->columns >= 2 * VECTORS * m->lanes;
}

/* Do three rows of everything fit the second-level cache? */
static bool rows_fit(const pipeline *p) {
    const scheduler *m = p->m;
    int64_t bytes = 0;
    for (mem_id i = 1; i < m->k->mems; i++)
        if (ir_m(m->k, i)->size != SYM_ONE)
            bytes += 3 * p->columns * (int64_t)qn_dtype_size(ir_m(m->k, i)->dtype);
    return bytes <= m->limits->l2 / 2;
}

/* Split each loop into steps of as many vectors; reductions get an accumulator for each. */
static bool split_row(pipeline *p) {
    scheduler *m = p->m;
    for (int i = 0; i < p->n; i++) {
        int id = m->next++, step = VECTORS * m->lanes;
        mem_id tile[SCHEDULE_TILES];
        int tiles = schedule_reduced_tiles(m, schedule_find(m, p->loop[i]), tile);
        if (p->columns % step && !schedule_apply(m, "pad %s %d", p->loop[i], step)) return false;
        if (!schedule_apply(m, "split %s %d -> o%d w%d", p->loop[i], step, id, id)) return false;
        if (!schedule_apply(m, "split w%d %d -> u%d v%d", id, m->lanes, id, id)) return false;
        for (int t = 0; t < tiles; t++) {
            int number = ir_tile_number(m->k, tile[t]);
            if (!schedule_apply(m, "rfactor t%d v%d", number, id)) return false;
            number = ir_tile_number(m->k, m->k->mems - 1);
            if (!schedule_apply(m, "rfactor t%d u%d", number, id)) return false;
        }
        snprintf(p->loop[i], sizeof p->loop[0], "o%d", id);
    }
    return true;
}

/* Fuse independent loops along a row into one stage. */
static bool fuse_stages(pipeline *p) {
    int stages = 1;
    for (int i = 1; i < p->n; i++)
        if (!schedule_apply(p->m, "fuse %s %s", p->loop[stages - 1], p->loop[i]))
            memmove(p->loop[stages++], p->loop[i], sizeof p->loop[0]);
    p->n = stages;
    return stages > 1;
}

/* Copy what stage i reads and stages in front of it overwrite. */
static bool copy_tiles(pipeline *p, int i) {
    scheduler *m = p->m;
    kernel *k = m->k;
    stmt_id stage = schedule_find(m, p->loop[i]), before = schedule_find(m, p->loop[i - 1]);
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
        if (!schedule_apply(m, "spill t%d %s", ir_tile_number(k, t[j].mem), p->loop[i]))
            return false;
    }
    return true;
}

/* Fuse all stages into the last stage's loop. */
static bool overlap(pipeline *p, const char *row) {
    char *last = p->loop[p->n - 1];
    for (int i = p->n - 1; i > 1; i--)
        if (!copy_tiles(p, i)) return false;
    for (int i = p->n - 2; i >= 0; i--)
        if (!schedule_apply(p->m, "shift %s %s", row, last) ||
            !schedule_apply(p->m, "fuse %s %s", last, p->loop[i]))
            return false;
    return true;
}

/* The number of rows in a chunk: equal chunks if a number nearby divides the rows, else the last
 * one has enough rows to fill the pipeline, whose first and last iterations then need no masks. 0:
 * too few rows. */
static int64_t chunk_of(const pipeline *p, int64_t rows, double work) {
    double items = work / CHUNK_WORK;
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
static bool split_chunks(pipeline *p, char row[40]) {
    scheduler *m = p->m;
    int64_t rows;
    stmt_id loop = schedule_find(m, row);
    if (!sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, &rows)) return false;
    double work = schedule_work(m, loop);
    int64_t chunk = chunk_of(p, rows, work);
    if (!chunk || work < 2 * SCHEDULE_ITEM_WORK) return rows >= 2 * LEAST_CHUNK;
    int id = m->next++;
    if (!schedule_apply(m, "split %s %lld -> p%d q%d", row, (long long)chunk, id, id)) return false;
    snprintf(row, 40, "q%d", id);
    return schedule_apply(m, "par p%d", id);
}

/* Is there something to overlap: much arithmetic, non-temporal stores, or rows so short that their
 * prologue counts? */
static bool pays(const pipeline *p) {
    const scheduler *m = p->m;
    bool past = false, computes = false;
    for (mem_id i = 1; i < m->k->mems; i++) past |= schedule_past_caches(m, i);
    for (int i = 0; i < p->n; i++)
        computes |= schedule_ops(m, schedule_find(m, p->loop[i])) >= COMPUTES;
    bool whole = p->columns % (VECTORS * m->lanes) == 0;
    return computes || (whole && (past || p->columns <= SHORT * m->lanes));
}

/* Peel the iterations that need no masks in any loop along columns, where some do. */
static void peel(pipeline *p, stmt_id root) {
    scheduler *m = p->m;
    char name[64][40];
    int n = 0;
    for (stmt_id s = root; s && n < 64; s = ir_next(m->k, s, root))
        if (s != m->k->root && schedule_at(m, s)->kind == STMT_LOOP &&
            schedule_name(m, s)[0] == 'o')
            snprintf(name[n++], sizeof name[0], "%s", schedule_name(m, s));
    for (int i = 0; i < n && p->columns % (VECTORS * m->lanes); i++)
        schedule_apply(m, "peel %s", name[i]);
}

bool schedule_pipeline(scheduler *m, loop_chain *c) {
    pipeline p = {.m = m};
    uint32_t before = m->out->len;
    int next = m->next;
    loop_chain whole = *c;
    ir_saved was = ir_save(m->k);
    schedule_merge_in_step(m, c);
    char row[40];
    snprintf(row, sizeof row, "%s", c->name[0]);
    if (c->n == 1 && read_row(&p, c->body) && rows_fit(&p) && pays(&p) && split_row(&p) &&
        split_chunks(&p, row) && fuse_stages(&p) && overlap(&p, row)) {
        peel(&p, m->k->root);
        if (!p.streams) return true;
        snprintf(m->copy, sizeof m->copy, "%s", p.loop[p.n - 1]);
        snprintf(m->use, sizeof m->use, "%s", p.loop[p.n - 1]);
        return true;
    }
    ir_restore(m->k, &was);
    *c = whole;
    m->next = next;
    if (m->out->s) m->out->s[m->out->len = before] = 0;
    return false;
}
