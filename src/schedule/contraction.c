/* contraction.c - the default schedule of a contraction: a sum of products of two operands, each
 * with loops of its own (its rows, M, and its columns, N), perhaps around loops of both (a batch).
 *
 * The loop nest is that of BLIS, from the inside out; counting decides which parts a shape gets:
 *
 *   register tile   mr rows x nv vectors of accumulators (ir, jr), as many as there are registers,
 *                   so that multiply-adds and not loads are the limit
 *   ki              a block of the reduction; deep sums are cut (block_reduction), so that a block
 *                   of rows and a panel of columns stay in the second-level cache while in use
 *   rq900, cq900    tiles of rows inside (ir), so that a panel of columns serves all rows of the
 *                   block; tiles of columns around them (jr)
 *   ic900           blocks of rows that fit in most of the second-level cache (ic, MC)
 *   ko              the blocks of the reduction (pc, KC)
 *   rp900, cp900    parts for threads (jc, NC): the grid is chosen by the number of threads, which
 *                   decides who computes an element, never how
 *
 * Dot instructions. Where both operands are narrow and the device has an instruction that adds
 * products of the parts of words, the reduction goes by words (kw900, with d900 for the parts); all
 * sizes then count words. Packed columns interleave the parts of neighbouring rows.
 *
 * Packing. Operands with bad strides are copied in the order in which they will be read (stage):
 * rows that are far apart or collide in a cache, columns that are strided or reused often. A copy
 * is used by all tiles of the other operand, so it pays where there are many. */
#include <stdio.h>

#include "schedule/schedule.h"

enum {
    BLOCK_ROWS = 384,   /* MC, about; the block's depth follows from the cache */
    APART = 256,        /* bytes: rows this far apart share no lines */
    FAR = 2048,         /* bytes: rows this far apart lie in different pages */
    LONG_ROW = 512,     /* elements of a row that spans pages of its own */
    PACK_STRIDE = 1024, /* bytes: rows this far apart (or multiples) collide in the first cache */
    CARRY = 4,          /* cycles to store and load a vector of partial sums */
    BLOCKS = 3,         /* of a sum, from which on cutting it pays */
    LEAST_DEEP = 128,   /* rows of a panel of columns */
    LONG_RUN =
        256, /* of a reduction over unpacked rows, whose first lines are prefetched too late */
    MANY_COLUMNS = 24,  /* vectors of columns for which rows are copied element by element */
    SLICE = 32,         /* rows of a columns operand that is only streamed */
    FEW_ROWS = 12,      /* for which packing columns contiguous along the sum does not pay */
    FEW_USES = 2,       /* of a panel of strided columns, for packing to pay */
    SOME_USES = 8,      /* of a panel of contiguous ones */
    LONG_EPILOGUE = 10, /* operations of an epilogue that is worth a loop */
    MANY_STREAMS =
        4, /* arguments of an epilogue that are better walked along rows than down columns */
    LEAST_BLOCK = 8, /* iterations of the reduction between two prefetches of an epilogue's rows */
    NEAR = 8,        /* iterations of the reduction by which packed operands are prefetched */
    NEAR_LINES = 4,  /* the same for unpacked rows, in lines */
    PANELS_AT_ONCE = 32,   /* that are packed side by side */
    MOST_COLUMNS = 4 << 20 /* bytes of packed columns */
};

typedef struct operand {
    mem_id mem;
    ir_access touch;
    int side;   /* of the product as it is written */
    bool plain; /* a single load, so it can be packed */
    int as;     /* the dtype that the load is converted to, -1: none */
} operand;

typedef struct contraction {
    loop_chain c; /* loops of the output, then */
    char sum[40]; /* the reduction loop */
    mem_id tile;
    operand a, b;
} contraction;

/* The operand's one load of an argument; plain when the whole factor is that load. */
static bool read_operand(scheduler *m, stmt_id store, expr_id factor, operand *o) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, store, &t), found = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!t[i].load || !ir_expr_takes(m->k, factor, t[i].load) || !schedule_is_arg(m, &t[i]))
            continue;
        o->touch = t[i];
        o->mem = t[i].mem;
        found++;
    }
    o->plain = found == 1 && !o->touch.dyn && !o->touch.guard;
    const ir_expr *e = ir_e(m->k, factor);
    bool converted =
        o->plain && e->kind == EXPR_OP && e->op == OP_CAST && e->arg[0] == o->touch.load;
    o->as = converted ? e->dtype : -1;
    return found >= 1;
}

static bool moves(const scheduler *m, expr_id factor, const char *name) {
    return ir_expr_uses(m->k, factor, schedule_at(m, schedule_find(m, name))->l.var);
}

/* def t; for r {t += a*b}; stores   directly in the innermost output loop. */
static bool read_contraction(scheduler *m, stmt_id loop, contraction *x) {
    x->c = loop_chain_of(m, loop);
    stmt_id def = schedule_at(m, x->c.body)->first, red = def ? schedule_at(m, def)->next : 0;
    if (!red || schedule_at(m, def)->kind != STMT_DEF || schedule_at(m, red)->kind != STMT_LOOP)
        return false;
    loop_chain r = loop_chain_of(m, red);
    schedule_merge_in_step(m, &r);
    stmt_id store = schedule_at(m, r.body)->first;
    if (store != schedule_at(m, r.body)->last || schedule_at(m, store)->kind != STMT_STORE)
        return false;
    if (schedule_at(m, store)->monoid != MONOID_SUM ||
        schedule_at(m, store)->store.mem[0] != schedule_at(m, def)->def.mem)
        return false;
    for (stmt_id s = schedule_at(m, schedule_find(m, r.name[0]))->next; s;
         s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind != STMT_STORE) return false;
    const ir_expr *e = ir_e(m->k, schedule_at(m, store)->store.value[0]);
    if (e->kind != EXPR_OP || e->op != OP_MUL) return false;
    expr_id f[2] = {e->arg[0], e->arg[1]};
    snprintf(x->sum, sizeof x->sum, "%s", r.name[r.n - 1]);
    x->tile = schedule_at(m, def)->def.mem;
    x->b.side = 1;
    if (!read_operand(m, store, f[0], &x->a) || !read_operand(m, store, f[1], &x->b)) return false;
    bool rows_ = false, columns_ = false;
    for (int i = 0; i < x->c.n; i++) {
        bool a = moves(m, f[0], x->c.name[i]), b = moves(m, f[1], x->c.name[i]);
        rows_ |= a && !b;
        columns_ |= b && !a;
    }
    return rows_ && columns_;
}

/* 1: only the rows' operand depends on the loop, 2: only the columns', 0: both or none (batch).
 * With `swapped` the product's second factor is the rows' operand. */
static int loop_class(const scheduler *m, const expr_id *f, const char *name, bool swapped) {
    bool a = moves(m, f[swapped], name), b = moves(m, f[!swapped], name);
    return a && b ? 0 : a ? 1 : b ? 2 : 0;
}

/* Sort the chain into the order batch, rows, columns; merge each class as far as strides allow. */
static bool sort_loops(scheduler *m, contraction *x, const expr_id *f, bool swapped) {
    loop_chain *c = &x->c;
    for (int pass = 0; pass < c->n; pass++)
        for (int i = 0; i + 1 < c->n; i++) {
            if (loop_class(m, f, c->name[i], swapped) <= loop_class(m, f, c->name[i + 1], swapped))
                continue;
            if (!loop_chain_swap(m, c, i)) return false;
        }
    for (int i = c->n - 2; i >= 0; i--) {
        int k = loop_class(m, f, c->name[i], swapped);
        if (k != loop_class(m, f, c->name[i + 1], swapped)) continue;
        if (k &&
            !schedule_in_step(m, schedule_find(m, c->name[i]), schedule_find(m, c->name[i + 1])))
            continue;
        char name[40];
        snprintf(name, sizeof name, "m%d", m->next++);
        if (!schedule_apply(m, "merge %s %s -> %s", c->name[i], c->name[i + 1], name)) continue;
        snprintf(c->name[i], sizeof c->name[0], "%s", name);
        loop_chain_drop(c, i + 1);
    }
    return true;
}

static void factors(const scheduler *m, const contraction *x, expr_id *f) {
    stmt_id store = schedule_at(m, schedule_find(m, x->sum))->first;
    const ir_expr *e = ir_e(m->k, schedule_at(m, store)->store.value[0]);
    f[0] = e->arg[0];
    f[1] = e->arg[1];
}

/* ---- decisions ------------------------------------------------------------------------------- */

typedef struct plan {
    scheduler *m;
    const operand *a, *b; /* a: the rows' operand, b: the columns' */
    char sum[40];         /* the reduction loop, of one block when it is cut */
    mem_id tile;
    int64_t rows, columns, depth, batch, size; /* size: bytes of an element of the sum */
    int word;                                  /* parts of a word; depth counts words. 1: none */
    bool odd;                                  /* the last word is not whole */
    int64_t panel;                             /* columns of a panel packed beforehand; 0: not */
    bool same_sign;                            /* signedness of the bytes of both operands */
    int mr, nv;
    int64_t block;                        /* depth of a block of the sum (KC) */
    int64_t row_parts, parts;             /* of rows, of columns: the grid of work items */
    int64_t row_block;                    /* row tiles in a block */
    bool pack_rows, pack_columns, beside; /* beside: columns are contiguous */
    bool uncached;    /* each panel reads the rows from behind the second-level cache */
    mem_id packed[2]; /* tiles of rows, of columns; 0: not packed */
    bool along;       /* along a row first: a row tile serves all the part's columns */
} plan;

static int64_t tiles_of(int64_t n, int64_t each) {
    return (n + each - 1) / each;
}

/* The operand's stride along that loop, in elements; INT64_MAX where it varies. Both operands may
 * be views of one memory: they are told apart by their side of the product. */
static int64_t step_in(const plan *p, const operand *o, const char *name) {
    scheduler *m = p->m;
    int64_t step;
    ir_access *t;
    for (stmt_id s = m->k->root; s; s = ir_next(m->k, s, m->k->root)) {
        const ir_stmt *x = schedule_at(m, s);
        if (x->kind != STMT_STORE || x->monoid != MONOID_SUM || x->store.mem[0] != p->tile)
            continue;
        const ir_expr *e = ir_e(m->k, x->store.value[0]);
        if (e->kind != EXPR_OP || e->op != OP_MUL) continue;
        expr_id factor = e->arg[o->side];
        uint32_t n = ir_accesses(m->k, s, &t);
        for (uint32_t i = 0; i < n; i++)
            if (t[i].load && t[i].mem == o->mem && ir_expr_takes(m->k, factor, t[i].load))
                return schedule_step(m, &t[i], schedule_at(m, schedule_find(m, name))->l.var, &step)
                           ? step
                           : INT64_MAX;
    }
    return INT64_MAX;
}

/* The distance in bytes of rows a step apart. */
static int64_t row_distance(const plan *p, const operand *o, int64_t step) {
    int64_t size = (int64_t)qn_dtype_size(ir_m(p->m->k, o->mem)->dtype);
    return step > INT64_MAX / 8 || step < INT64_MIN / 8 ? INT64_MAX : step * size;
}

static bool collides(int64_t bytes) {
    return bytes == INT64_MAX || bytes % PACK_STRIDE == 0 || bytes >= FAR;
}

/* The loop along the reduction, that of the parts of words where there are some. */
static const char *along_sum(const plan *p) {
    return p->word > 1 ? "d900" : p->sum;
}

/* Pack rows where a copy is cheap (they are contiguous) and the original has bad strides, or very
 * many columns use it; and where packing converts them once for several vectors of columns. */
static void choose_row_packing(plan *p, const char *rows) {
    scheduler *m = p->m;
    int64_t down = step_in(p, p->a, rows), along = step_in(p, p->a, along_sum(p));
    bool many = p->columns >= MANY_COLUMNS * m->lanes;
    p->pack_rows = p->a->plain && p->depth >= 32 && p->rows > 1;
    if (p->word > 1 && (p->odd || p->same_sign || along != 1))
        p->pack_rows = true;
    else if (p->a->as >= 0)
        p->pack_rows &= p->columns >= 4 * m->lanes;
    else if (along == 1)
        p->pack_rows &= many && collides(row_distance(p, p->a, down));
    else if (down == 1)
        p->pack_rows &= row_distance(p, p->a, along) >= APART && p->columns > 2 * m->lanes;
    else
        p->pack_rows &= many;
}

/* Do all partial sums fit the second-level cache? Then they can be stored there between blocks. */
static bool sums_fit(const plan *p) {
    return p->rows * p->columns * p->size <= p->m->limits->l2 / 2;
}

/* Do unpacked rows come from behind the second-level cache for every panel of columns? For short
 * ones a prefetch would be too late. */
static bool rows_uncached(const plan *p) {
    int64_t l2 = p->m->limits->l2;
    return l2 && !p->pack_rows && p->word == 1 && p->depth >= LEAST_DEEP &&
           p->rows * p->depth * p->size >= l2 / 2 && step_in(p, p->a, p->sum) == 1;
}

/* The depth of a panel of columns that stays in the first-level cache, beside a tile of rows. */
static int64_t panel_depth(const plan *p, int64_t step) {
    int64_t deep = p->m->limits->l1 * 7 / 10 / step / 16 * 16;
    int64_t least = p->uncached ? LONG_RUN : LEAST_DEEP;
    return deep < least ? least : deep;
}

/* The depth of blocks of the reduction whose panels stay in the first-level cache; 0 where
 * cutting the sum so does not pay, or no equal blocks of whole vectors exist for columns to be
 * transposed. */
static int64_t short_blocks(const plan *p, int64_t step) {
    int64_t deep = panel_depth(p, step), n = tiles_of(p->depth, deep);
    if (!sums_fit(p) || p->depth <= (p->uncached ? 1 : BLOCKS) * deep) return 0;
    for (int64_t i = n * 4 / 5; i <= n * 3 / 2; i++)
        if (i > 1 && p->depth % (i * p->m->lanes) == 0) return p->depth / i;
    return p->beside ? (tiles_of(p->depth, n) + 15) / 16 * 16 : 0;
}

/* Choose mr x nr: least time for the whole, from two multiply-adds and two loads a cycle, four
 * cycles of latency, the bandwidth of the second-level cache, and padding. */
static void choose_tile(plan *p) {
    const scheduler *m = p->m;
    double best = 1e300;
    for (int v = 1; v <= 6; v++)
        for (int r = 1; r <= 30; r++) {
            if (r * v + v + 1 > m->limits->registers || (r > p->rows && r > 1)) continue;
            if (v > 1 && (int64_t)(v - 1) * m->lanes >= p->columns) continue;
            if (p->panel && v * m->lanes != p->panel) continue;
            double fma = r * v / 2.0, load = (r + v) / 2.0, cycles = fma > load ? fma : load;
            if (cycles < 4) cycles = 4;
            int64_t step = (int64_t)v * m->limits->vector_bytes; /* of the panel of columns */
            int64_t deep = short_blocks(p, step);
            double stream = (double)step / (double)p->m->limits->l2_rate;
            if ((deep ? deep : p->depth) * step > m->limits->l1 * 3 / 4 && cycles < stream)
                cycles = stream;
            if (p->uncached) cycles += (double)(r * p->size) / (double)p->m->limits->l3_rate;
            if (deep) cycles += CARRY * r * v / (double)deep;
            double tiles =
                (double)tiles_of(p->rows, r) * (double)tiles_of(p->columns, v * m->lanes);
            double time = tiles * (cycles + 0.5 + 0.06 * (r + v));
            if (p->rows % r && !p->pack_rows)
                time *= r > 10 ? 1.08 : 1.02; /* an address register each */
            if (p->columns % (v * m->lanes)) time *= 1.02;
            if (time < best * 0.999) best = time, p->mr = r, p->nv = v;
        }
}

/* Bytes that a block of rows may take of the second-level cache. */
static int64_t second_level(const scheduler *m) {
    return (m->limits->l2 ? m->limits->l2 : 256 << 10) * 3 / 4;
}

/* Pack columns where they are strided, or reused often enough. Then the depth of a block: deep sums
 * in blocks; where rows are so few that the columns' operand is only streamed, in slices of few of
 * its rows, which are contiguous, instead of column by column across its pages. */
static void choose_columns(plan *p, bool divisible) {
    int64_t down = step_in(p, p->b, p->sum), uses = tiles_of(p->rows, p->mr);
    bool poor = collides(row_distance(p, p->b, down)) || p->b->as >= 0 || p->word > 1;
    int64_t least = !p->beside ? 1 : poor ? FEW_USES : SOME_USES;
    p->pack_columns = p->b->plain && p->depth >= 8 && uses >= least && !p->panel;
    p->block = p->depth;
    if (!divisible) return;
    int64_t available = second_level(p->m), whole = available / (BLOCK_ROWS * p->size) / 16 * 16;
    if (whole < 16) whole = 16;
    bool fits = p->rows * p->depth * p->size <= available && p->depth <= BLOCKS * whole;
    int64_t shorter = short_blocks(p, p->nv * p->m->limits->vector_bytes);
    if (p->pack_columns && shorter)
        p->block = shorter;
    else if (p->depth > whole + whole / 2 && !fits)
        p->block = (tiles_of(p->depth, tiles_of(p->depth, whole)) + 15) / 16 * 16;
    if (uses == 1 && !p->pack_columns && !p->panel && row_distance(p, p->b, down) >= FAR &&
        p->depth > SLICE)
        p->block = SLICE;
    if (p->block > p->depth) p->block = p->depth;
}

/* Does the epilogue stream so many arguments that tiles should advance along rows? It accesses a
 * vector or three of each row of a tile; down the rows every tile has these on other pages. With
 * many arguments (an optimizer's step behind a weight's gradient) that costs more than reading a
 * panel of columns from the second-level cache again for each tile of rows. */
static bool many_streams(const plan *p, stmt_id after) {
    scheduler *m = p->m;
    bool *seen = arena_zeroed(&m->k->arena, m->k->mems);
    int streams = 0;
    for (stmt_id s = after; s; s = schedule_at(m, s)->next) {
        ir_access *t;
        uint32_t n = ir_accesses(m->k, s, &t);
        for (uint32_t i = 0; i < n; i++) {
            if (seen[t[i].mem] || !schedule_is_arg(m, &t[i])) continue;
            seen[t[i].mem] = true;
            streams++;
        }
    }
    return streams >= MANY_STREAMS;
}

static int64_t panel_bytes(const plan *p) {
    return p->block * p->nv * p->m->limits->vector_bytes;
}

/* Along a row first, a tile of unpacked rows is loaded once, if it then stays in the first-level
 * cache. Panels that do not stay there anyway lose nothing, where all of them stay in the
 * second. */
static bool rows_load_once(const plan *p) {
    const machine *l = p->m->limits;
    return p->uncached && panel_bytes(p) > l->l1 && p->mr * p->depth * p->size <= l->l1 * 3 / 4 &&
           p->columns * p->depth * p->size <= second_level(p->m);
}

/* Choose the grid of parts, as many as there are threads, for the least time of the most loaded
 * one, packing included. Then limit the columns so that the packed panel is not too large (NC), and
 * the rows so that a block fits (MC). */
static void choose_parts(plan *p) {
    const scheduler *m = p->m;
    int64_t nr = (int64_t)p->nv * m->lanes, threads = m->limits->threads;
    int64_t rt = tiles_of(p->rows, p->mr), ct = tiles_of(p->columns, nr);
    double best = 1e300, all = (double)p->rows * (double)p->columns * (double)p->depth;
    if (all * (double)p->batch < 4.0 * SCHEDULE_ITEM_WORK * m->lanes) threads = 1;
    if (p->batch > 1) threads = tiles_of(threads > 1 ? 2 * threads : 1, p->batch);
    p->row_parts = p->parts = 1;
    for (int64_t r = 1; r <= threads && r <= rt; r++) {
        int64_t c = threads / r < ct ? threads / r : ct;
        double rows = (double)(tiles_of(rt, r) * p->mr), columns = (double)(tiles_of(ct, c) * nr);
        double time = rows * columns / (2 * m->lanes);
        if (p->pack_rows) time += rows;
        if (p->pack_columns) time += columns;
        if (time < best * 0.999) best = time, p->row_parts = r, p->parts = c;
    }
    int64_t row = p->block * p->size;
    int64_t available = p->along ? second_level(m) : MOST_COLUMNS;
    int64_t most = available / (row * nr) + 1, each = tiles_of(ct, p->parts);
    if (each > most) p->parts *= tiles_of(each, most);
    rt = tiles_of(rt, p->row_parts);
    most = (p->along ? m->limits->l2 / 8 : second_level(m)) / (row * p->mr) + 1;
    p->row_block = tiles_of(rt, tiles_of(rt, most));
}

/* ---- building the nest ----------------------------------------------------------------------- */

static bool pad_to(scheduler *m, const char *name, int64_t multiple) {
    int64_t exact;
    bool whole = sym_is_const(m->k->syms, schedule_at(m, schedule_find(m, name))->l.extent, &exact);
    return (whole && exact % multiple == 0) ||
           schedule_apply(m, "pad %s %lld", name, (long long)multiple);
}

/* Build the loops from cp900 inward as described at the top. false: the register tile failed. */
static bool build_loops(plan *p, const char *rows, const char *columns) {
    scheduler *m = p->m;
    int nr = p->nv * m->lanes, number = ir_tile_number(m->k, p->tile);
    if (!pad_to(m, rows, p->mr) || !pad_to(m, columns, nr)) return false;
    int64_t rt = tiles_of(p->rows, p->mr), ct = tiles_of(p->columns, nr);
    schedule_apply(m, "split %s %d -> ro900 u901", rows, p->mr);
    schedule_apply(m, "split %s %d -> co900 w900", columns, nr);
    schedule_apply(m, "swap u901 co900");
    schedule_apply(m, "split w900 %d -> u900 v900", m->lanes);
    if (p->block < p->depth) {
        if (!schedule_apply(m, "split %s %lld -> ko900 ki900", p->sum, (long long)p->block))
            p->block = p->depth;
        else
            snprintf(p->sum, sizeof p->sum, "ki900");
    }
    if (!schedule_apply(m, "accumulate t%d v900", number) ||
        !schedule_apply(m, "accumulate t%d u900", number) ||
        !schedule_apply(m, "accumulate t%d u901", number))
        return true; /* correct, if slow */
    schedule_apply(m, "split ro900 %lld -> rp900 rr900", (long long)tiles_of(rt, p->row_parts));
    schedule_apply(m, "split rr900 %lld -> ic900 rq900", (long long)p->row_block);
    schedule_apply(m, "split co900 %lld -> cp900 cq900", (long long)tiles_of(ct, p->parts));
    schedule_apply(m, "swap rq900 cp900"); /* rp ic cp rq cq */
    schedule_apply(m, "swap ic900 cp900");
    if (!p->along) schedule_apply(m, "swap rq900 cq900");
    if (schedule_find(m, "ko900") && schedule_apply(m, "block_reduction t%d ko900 ic900", number)) {
        schedule_apply(m, "split more_t %d -> u902 v902", m->lanes);
        schedule_apply(m, "split wait_t %d -> u903 v903", m->lanes);
    }
    return true;
}

/* The two innermost loops of a copy: vectors along its source, transposed in registers if
 * possible. */
static void copy_vectors(scheduler *m, const char *outer, const char *inner, bool turned) {
    if (turned && schedule_trips(m, schedule_find(m, outer)) <= m->lanes)
        schedule_transpose_copy(m, outer, inner);
    schedule_apply(m, "vec %s", inner);
    schedule_apply(m, "unroll %s", outer);
}

/* A copy whose source is contiguous along the reduction, its target along the innermost loop:
 * vectors of the reduction, one for each iteration of the inner loop, are transposed in registers.
 * Rows of half a page and more are walked to their ends, as few at a time as one transpose takes,
 * for the hardware prefetcher follows some dozen streams. The remainder behind whole vectors is
 * copied element by element. */
void schedule_copy_across(scheduler *m, const loop_chain *c, int deep) {
    sym_store *s = m->k->syms;
    int id = m->next++;
    char inner[40];
    const char *outer = c->name[c->n - 1];
    sym trips = schedule_at(m, schedule_find(m, c->name[deep]))->l.extent;
    bool whole = sym_mod(s, trips, sym_const(s, m->lanes)) == SYM_ZERO;
    snprintf(inner, sizeof inner, "v%d", id);
    if (!schedule_apply(m, "split %s %d -> x%d %s", c->name[deep], m->lanes, id, inner)) return;
    for (int i = deep + 1; i < c->n; i++) schedule_apply(m, "swap %s %s", inner, c->name[i]);
    for (int i = deep + 1; i < c->n - 1 && sym_lo(s, trips) >= LONG_ROW; i++)
        schedule_apply(m, "swap x%d %s", id, c->name[i]);
    stmt_id all = schedule_find(m, arena_printf(&m->k->arena, "x%d", id));
    if (!whole && sym_lo(s, trips) >= m->lanes && schedule_apply(m, "peel x%d", id)) {
        loop_chain rest = loop_chain_of(m, schedule_at(m, all)->next);
        whole = true;
        if (rest.n > 1) copy_vectors(m, rest.name[rest.n - 2], rest.name[rest.n - 1], false);
    }
    copy_vectors(m, outer, inner, whole);
}

/* Stage an operand of words: rows contiguous along the reduction keep their order, and vectors of
 * words are copied; else the loop of the last name is vectorized. */
static void pack_words(plan *p, const operand *o, const char *where, int n,
                       const char *const *name) {
    scheduler *m = p->m;
    char loops[200] = "";
    for (int i = 0; i < n; i++) {
        stmt_id loop = schedule_find(m, name[i]);
        if (!loop || schedule_trips(m, loop) <= 1 || !step_in(p, o, name[i])) continue;
        snprintf(loops + strlen(loops), sizeof loops - strlen(loops), " %s", name[i]);
    }
    if (!schedule_apply(m, "stage a%d %s%s d900", ir_m(m->k, o->mem)->arg, where, loops)) return;
    loop_chain c;
    if (!schedule_staged(m, where, &c)) return;
    int id = m->next++;
    if (c.n < 2) return;
    if (!strcmp(name[n - 1], p->sum))
        schedule_apply(m, "split %s %d -> x%d v%d", c.name[c.n - 2], m->lanes, id, id);
    else if (c.name[c.n - 2][0] == 'u')
        schedule_apply(m, "vec %s", c.name[c.n - 2]);
}

/* A single panel takes a little of each row of the operand, and the next panel visits all those
 * pages again. Where they come from memory, several panels are packed at a time. */
static void pack_side_by_side(plan *p, const operand *o, const loop_chain *c) {
    scheduler *m = p->m;
    const char *panels = c->name[0];
    char few[48];
    if ((o == p->a ? p->rows : p->columns) * p->depth * p->size <= m->limits->l2 / 2) return;
    snprintf(few, sizeof few, "%s", panels);
    if (schedule_trips(m, schedule_find(m, panels)) > PANELS_AT_ONCE) {
        snprintf(few, sizeof few, "%s_f", panels);
        if (!schedule_apply(m, "split %s %d -> %s_g %s", panels, PANELS_AT_ONCE, panels, few))
            return;
    }
    schedule_apply(m, "swap %s %s", few, c->name[1]);
}

/* Stage an operand at a loop, by those of the listed loops that it depends on; the copy is
 * vectorized along the source's contiguous direction: that of the last loop, or of the
 * reduction. */
static void pack(plan *p, const operand *o, const char *where, int n, const char *const *name) {
    scheduler *m = p->m;
    char loops[200] = "";
    int count = 0, deep = -1;
    const char *last = "";
    for (int i = 0; i < n; i++) {
        stmt_id loop = schedule_find(m, name[i]);
        if (!loop || schedule_trips(m, loop) <= 1 || !step_in(p, o, name[i])) continue;
        if (!strcmp(name[i], p->sum)) deep = count;
        snprintf(loops + strlen(loops), sizeof loops - strlen(loops), " %s", name[i]);
        last = name[i];
        count++;
    }
    if (deep < 0) return;
    bool along = step_in(p, o, last) == 1, across = !along && step_in(p, o, p->sum) == 1;
    if (o->as >= 0)
        snprintf(loops + strlen(loops), sizeof loops - strlen(loops), " %s", qn_dtype_name(o->as));
    if (!schedule_apply(m, "stage a%d %s%s", ir_m(m->k, o->mem)->arg, where, loops)) return;
    p->packed[o == p->b] = m->k->mems - 1;
    loop_chain c;
    if (!schedule_staged(m, where, &c)) return;
    if (along && last[0] == 'u') schedule_apply(m, "vec %s", c.name[c.n - 1]);
    if (along && deep == 1) pack_side_by_side(p, o, &c);
    if (along && !strcmp(where, "cq900") && p->columns * p->depth * p->size > m->limits->l2 / 4) {
        snprintf(m->copy, sizeof m->copy, "%s", c.name[0]);
        snprintf(m->use, sizeof m->use, "%s", p->sum);
    }
    if (across && c.n == count) schedule_copy_across(m, &c, deep);
}

/* The loop over rows of accumulators in the epilogue; 0: there is none. */
static stmt_id epilogue_loop(const plan *p) {
    scheduler *m = p->m;
    stmt_id rest = schedule_find(m, "last");
    if (!rest)
        for (stmt_id s = m->k->root; (s = ir_next(m->k, s, m->k->root)) && !rest;)
            if (schedule_at(m, s)->kind == STMT_DEF && schedule_at(m, s)->def.mem == p->tile)
                rest = schedule_at(m, s)->parent;
    rest = rest ? schedule_at(m, rest)->last : 0;
    return rest && schedule_at(m, rest)->kind == STMT_LOOP ? rest : 0;
}

/* A long epilogue is a loop over rows of accumulators in memory (spill). */
static void spill(plan *p) {
    scheduler *m = p->m;
    stmt_id rest = epilogue_loop(p);
    if (!rest || schedule_ops(m, rest) < LONG_EPILOGUE) return;
    char rows[40];
    snprintf(rows, sizeof rows, "%s", schedule_name(m, rest));
    if (!schedule_apply(m, "spill t%d %s", ir_tile_number(m->k, p->tile), rows)) return;
    schedule_apply(m, "split spill %d -> u904 v904", m->lanes);
    schedule_apply(m, "split %s 1 -> e900 u905", rows); /* a name that is not unrolled */
}

static void pack_both_words(plan *p, const char *outside, bool blocks) {
    const char *where = p->pack_columns && blocks ? outside : "cq900";
    bool along = step_in(p, p->a, "d900") == 1;
    if (p->pack_columns)
        pack_words(p, p->b, where, 3 + blocks,
                   (const char *[]){"cq900", p->sum, "u900", "v900"} + !blocks);
    if (!p->pack_rows) return;
    const char *order[] = {"rq900", along ? "u901" : p->sum, along ? p->sum : "u901"};
    pack_words(p, p->a, "ic900", 3, order);
    int packed = ir_tile_number(p->m->k, p->m->k->mems - 1);
    if (p->same_sign)
        schedule_apply(p->m, "offset t%d t%d %s", ir_tile_number(p->m->k, p->tile), packed, where);
}

/* Prefetch what does not come from the first-level cache: unpacked rows by lines, the reduction in
 * blocks of a line; packed operands where a panel of columns is larger than that cache, and so is
 * read from the second level for each tile of rows, and that tile beside it. */
static void prefetch_operands(plan *p) {
    scheduler *m = p->m;
    int64_t line = m->limits->vector_bytes / p->size, step = p->nv * m->limits->vector_bytes;
    if (p->uncached && schedule_apply(m, "split %s %lld -> f900 s900", p->sum, (long long)line))
        schedule_apply(m, "prefetch_trip a%d f900 %d", ir_m(m->k, p->a->mem)->arg, NEAR_LINES);
    if (!p->packed[0] || panel_bytes(p) <= m->limits->l1) return;
    if (p->packed[1])
        schedule_apply(m, "prefetch_trip t%d %s %d", ir_tile_number(m->k, p->packed[1]), p->sum,
                       NEAR);
    else if (p->panel && p->rows > p->mr)
        schedule_apply(m, "prefetch_distance a%d %lld", ir_m(m->k, p->b->mem)->arg,
                       (long long)(NEAR * step));
    else
        return;
    schedule_apply(m, "prefetch_trip t%d %s %d", ir_tile_number(m->k, p->packed[0]), p->sum, NEAR);
}

static void pack_both(plan *p) {
    bool blocks = schedule_trips(p->m, schedule_find(p->m, "ic900")) > 1;
    const char *outside = schedule_find(p->m, "ko900") ? "ko900" : "cp900";
    if (p->word > 1)
        pack_both_words(p, outside, blocks);
    else if (p->pack_columns && (blocks || p->along))
        pack(p, p->b, outside, 4, (const char *[]){"cq900", p->sum, "u900", "v900"});
    else if (p->pack_columns)
        pack(p, p->b, "cq900", 3, (const char *[]){p->sum, "u900", "v900"});
    if (p->pack_rows && p->word == 1)
        pack(p, p->a, "ic900", 3, (const char *[]){"rq900", p->sum, "u901"});
    prefetch_operands(p);
}

/* Few rows, and both operands contiguous along the reduction (a dot product): lanes go along it.
 * Each vector of a column is loaded once, in place, for all rows, and nothing is packed; the lanes
 * are summed at the end, and the epilogue is scalar, so it must not be long. false: no such
 * product. */
static bool few_rows(plan *p, const char *rows, const char *columns, int after) {
    scheduler *m = p->m;
    kernel *k = m->k;
    int64_t r, n, deep;
    if (p->word > 1 || p->panel || step_in(p, p->a, p->sum) != 1 || step_in(p, p->b, p->sum) != 1)
        return false;
    if (!sym_is_const(k->syms, schedule_at(m, schedule_find(m, rows))->l.extent, &r) ||
        !sym_is_const(k->syms, schedule_at(m, schedule_find(m, columns))->l.extent, &n) ||
        !sym_is_const(k->syms, schedule_at(m, schedule_find(m, p->sum))->l.extent, &deep))
        return false;
    if (r > FEW_ROWS || deep < (int64_t)m->lanes * m->lanes || deep % m->lanes || r * after > deep)
        return false;
    int64_t each = (m->limits->registers - 4) / r;
    if (each > MANY_STREAMS) each = MANY_STREAMS;
    while (each > 1 && n % each) each--;
    int number = ir_tile_number(k, p->tile);
    if (!schedule_apply(m, "split %s %lld -> cp900 u901", columns, (long long)each) ||
        !schedule_apply(m, "swap %s cp900", rows) ||
        !schedule_apply(m, "accumulate t%d u901", number) ||
        !schedule_apply(m, "accumulate t%d %s", number, rows))
        return true;
    schedule_apply(m, "split %s %d -> ko900 v901", p->sum, m->lanes);
    if (!schedule_apply(m, "rfactor t%d v901", number)) return true;
    int wide = ir_tile_number(k, k->mems - 1);
    schedule_apply(m, "swap v901 %s", rows);
    schedule_apply(m, "swap v901 u901");
    schedule_apply(m, "swap v901_1 v901_e");
    schedule_apply(m, "transform_layout t%d %d", wide, m->lanes);
    schedule_apply(m, "vec v901");
    schedule_apply(m, "vec v901_1");
    schedule_apply(m, "unroll v901_e");
    schedule_apply(m, "unroll %s", rows);
    if (after < LONG_EPILOGUE) schedule_apply(m, "unroll %s_1", rows);
    if (n * deep * p->size > second_level(m))
        schedule_apply(m, "prefetch_distance a%d %lld", ir_m(k, p->b->mem)->arg,
                       (long long)m->limits->page);
    return true;
}

/* The epilogue reads and writes streams from memory, while the operands of the reduction come
 * from the caches. So a block of the reduction for each row prefetches the row's lines; for
 * written ones, too, unless the stores are non-temporal or in place: a store waits for its line
 * otherwise. */
static void prefetch_streams(plan *p) {
    scheduler *m = p->m;
    stmt_id rest = epilogue_loop(p);
    int64_t rows = rest ? schedule_trips(m, rest) : 0,
            each = rows > 0 ? tiles_of(p->depth, rows) : 0;
    if (each < LEAST_BLOCK || p->block < p->depth) return;
    char name[40];
    snprintf(name, sizeof name, "%s", schedule_name(m, rest));
    bool *seen = arena_zeroed(&m->k->arena, m->k->mems), split = false;
    ir_access *t;
    uint32_t n = ir_accesses(m->k, rest, &t);
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *mem = ir_m(m->k, t[i].mem);
        int64_t most = m->limits->l2 / (int64_t)qn_dtype_size(mem->dtype);
        if (seen[t[i].mem] || !schedule_is_arg(m, &t[i]) || sym_lo(m->k->syms, mem->size) <= most ||
            schedule_past_caches(m, t[i].mem) || mem->access & ACCESS_INPLACE)
            continue;
        seen[t[i].mem] = true;
        split = split || schedule_apply(m, "split %s %lld -> f900 s900", p->sum, (long long)each);
        if (split) schedule_apply(m, "prefetch_nest a%d f900 %s", mem->arg, name);
    }
}

/* Merge the batch and the grid's loops into one parallel loop. */
static void parallelize(plan *p, const char *batch) {
    scheduler *m = p->m;
    char root[40] = "";
    const char *part[3] = {batch, "rp900", "cp900"};
    for (int i = 0; i < 3; i++) {
        stmt_id loop = part[i] ? schedule_find(m, part[i]) : 0;
        if (!loop || (i && schedule_trips(m, loop) <= 1 && root[0])) continue;
        char merged[40];
        snprintf(merged, sizeof merged, "p90%d", i);
        if (!root[0])
            snprintf(root, sizeof root, "%s", part[i]);
        else if (schedule_apply(m, "merge %s %s -> %s", root, part[i], merged))
            snprintf(root, sizeof root, "%s", merged);
    }
    stmt_id loop = schedule_find(m, root);
    if (schedule_trips(m, loop) > 1 && schedule_work(m, loop) > 4 * SCHEDULE_ITEM_WORK)
        schedule_apply(m, "par %s", root);
}

/* The extent to plan for: zero and unknown ones are no special cases. */
static int64_t count_of(const scheduler *m, const char *name) {
    int64_t n = schedule_trips(m, schedule_find(m, name));
    return n < 1 ? 1 : n > 1 << 24 ? 1 << 24 : n;
}

/* Columns packed beforehand (lower/prepack.c) are indexed by the panel's number: column / width. */
static int64_t panel_width(const plan *p, const char *columns) {
    sym_store *s = p->m->k->syms;
    sym var = schedule_at(p->m, schedule_find(p->m, columns))->l.var;
    sym_linear t = sym_terms(s, p->b->touch.index);
    for (int i = 0; p->b->plain && i < t.n; i++) {
        const sym *x;
        int64_t width;
        if (sym_kind_of(s, t.term[i]) != SYM_DIV || sym_operands(s, t.term[i], &x) != 2) continue;
        if (x[0] == var && sym_is_const(s, x[1], &width) && width % p->m->lanes == 0 &&
            width <= 6 * p->m->lanes)
            return width;
    }
    return 0;
}

/* By words, where a dot instruction takes these operands. */
static void choose_words(plan *p) {
    scheduler *m = p->m;
    int64_t exact;
    int sum = ir_m(m->k, p->tile)->dtype, left = ir_m(m->k, p->a->mem)->dtype,
        right = ir_m(m->k, p->b->mem)->dtype, row = ir_dot_of(left, right, sum);
    p->word = 1;
    if (row < 0 || !(m->limits->dots >> row & 1) || p->a->as != sum || p->b->as != sum) return;
    int parts = ir_dots[row].parts;
    if (!sym_is_const(m->k->syms, schedule_at(m, schedule_find(m, p->sum))->l.extent, &exact))
        return;
    if (exact < 2 * parts) return;
    if (exact % parts && !schedule_apply(m, "pad %s %d", p->sum, parts)) return;
    if (!schedule_apply(m, "split %s %d -> kw900 d900", p->sum, parts)) return;
    schedule_apply(m, "word d900");
    snprintf(p->sum, sizeof p->sum, "kw900");
    p->word = parts;
    p->odd = exact % parts != 0;
    p->same_sign = parts == 4 && left == right;
    p->depth = tiles_of(p->depth, parts);
}

bool schedule_contraction(scheduler *m, stmt_id loop) {
    contraction x = {.tile = 0};
    if (!read_contraction(m, loop, &x)) return false;
    expr_id f[2];
    factors(m, &x, f);
    /* the columns are the class whose loop steps the stored output by one */
    stmt_id red = schedule_find(m, x.sum);
    while (schedule_at(m, red)->parent != schedule_find(m, x.c.name[x.c.n - 1]))
        red = schedule_at(m, red)->parent;
    bool swapped = false, divisible = red == schedule_find(m, x.sum);
    for (int i = 0; i < x.c.n; i++) {
        sym var = schedule_at(m, schedule_find(m, x.c.name[i]))->l.var;
        int64_t step;
        sym rest;
        sym index = schedule_at(m, schedule_at(m, red)->next)->store.index;
        if (sym_split(m->k->syms, index, var, &step, &rest) && step == 1)
            swapped = loop_class(m, f, x.c.name[i], false) == 1;
    }
    if (!sort_loops(m, &x, f, swapped)) return false;
    factors(m, &x, f);
    int row = -1, column = -1;
    for (int i = 0; i < x.c.n; i++) {
        int k = loop_class(m, f, x.c.name[i], swapped);
        if (k == 1) row = i;
        if (k == 2 && column < 0) column = i;
    }
    if (row < 0 || column != row + 1 || column != x.c.n - 1) return false;
    const char *rows = x.c.name[row], *columns = x.c.name[column];
    plan p = {.m = m, .a = swapped ? &x.b : &x.a, .b = swapped ? &x.a : &x.b, .tile = x.tile};
    snprintf(p.sum, sizeof p.sum, "%s", x.sum);
    p.rows = count_of(m, rows);
    p.columns = count_of(m, columns);
    p.depth = count_of(m, x.sum);
    p.batch = row ? count_of(m, x.c.name[0]) : 1;
    p.size = m->limits->vector_bytes / m->lanes;
    p.mr = p.nv = p.word = 1;
    p.panel = panel_width(&p, columns);
    if (divisible) choose_words(&p);
    if (divisible && few_rows(&p, rows, columns, schedule_ops(m, schedule_at(m, red)->next))) {
        parallelize(&p, row == 1 ? x.c.name[0] : NULL);
        return true;
    }
    p.beside = step_in(&p, p.b, columns) == 1;
    choose_row_packing(&p, rows);
    p.uncached = rows_uncached(&p);
    choose_tile(&p);
    choose_columns(&p, divisible);
    bool whole = p.word == 1 && p.pack_columns && p.block == p.depth;
    bool streams = whole && many_streams(&p, schedule_at(m, red)->next);
    p.along = streams || (whole && rows_load_once(&p));
    choose_parts(&p);
    if (!build_loops(&p, rows, columns)) return false;
    if (p.panel && p.rows <= p.mr && p.columns * p.depth * p.size > second_level(m))
        schedule_apply(m, "prefetch_distance a%d %lld", ir_m(m->k, p.b->mem)->arg,
                       (long long)m->limits->page);
    if (schedule_find(m, "cq900")) {
        spill(&p);
        pack_both(&p);
    }
    if (streams) prefetch_streams(&p);
    parallelize(&p, row == 1 ? x.c.name[0] : NULL);
    return true;
}
