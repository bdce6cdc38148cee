/* schedule.c - default schedules: how a lowered kernel should run on a machine. Those for devices
 * with work-groups are in workgroups.c, the rest of this is about processors.
 *
 * The schedule is built on a clone: each line is tried there and kept if it was legal, so what
 * comes out is always accepted by the kernel it was made for. Kernels come in three kinds:
 *
 *   elementwise   loops around stores only. Loops with compatible strides are merged; the
 *                 contiguous loop is vectorized, several vectors an iteration; full iterations are
 *                 peeled from masked ones.
 *   rows          loops around reductions and loops: softmax, norms, sums. Reductions along
 *                 contiguous memory get an accumulator a lane (rfactor) and several chains;
 *                 reductions across it vectorize the contiguous loop, moved inside them
 *                 (accumulate), and go through strided rows in slices (block_reduction). The loops
 *                 of several rows are pipelined where that pays: pipeline.c.
 *   contraction   a sum of products of two operands with loops of their own: contraction.c.
 *
 * What is to become of a loop is said when it is made (`step_want`): vectors, parts of words,
 * unrolled; at the end all loops are bound so, in whatever copies the transforms have made of them.
 * Parallel loops get enough work an item that launching it does not matter. The number of threads
 * may decide who computes an element, never how. */
#include "schedule/schedule.h"

enum {
    /* what follows is no property of a machine: */
    ROWS = 4,         /* of a reduction along rows at a time, where there are several: the grouping
                         of sums, the same for all that have the registers */
    FEW_TERMS = 16,   /* of a sum, beside which that of the next place may begin */
    MOST_ITEMS = 4096 /* of a launch: more give no better balance */
};

loop_chain loop_chain_of(const scheduler *m, stmt_id loop) {
    loop_chain c = {.n = 0};
    for (stmt_id s = loop; c.n < LOOP_CHAIN; s = schedule_at(m, s)->first) {
        c.loop[c.n++] = loop_of(m, s);
        c.body = s;
        stmt_id child = schedule_at(m, s)->first;
        if (!child || child != schedule_at(m, s)->last || schedule_at(m, child)->kind != STMT_LOOP)
            break;
    }
    return c;
}

loop_chain loop_chain_from(const scheduler *m, loop_h l) {
    return l.id ? loop_chain_of(m, stmt_of(m, l)) : (loop_chain){.n = 0};
}

bool schedule_transpose_copy(scheduler *m, loop_h outer, loop_h inner) {
    made_transpose out =
        step_transpose(maybe(m), outer, inner); /* a column outside, a row inside */
    if (!out.inner.id) return false;
    if (trips_of(m, out.inner) > m->lanes) { /* of several vectors, one behind the other */
        loop2 part = step_split(maybe(m), out.inner, m->lanes, "n", "e");
        if (part.outer.id) {
            step_bind(maybe(m), part.outer, LOOP_UNROLL);
            out.inner = part.inner;
        }
    }
    step_bind(maybe(m), out.inner, LOOP_VEC);
    step_bind(maybe(m), out.outer, LOOP_UNROLL);
    return true;
}

void loop_chain_drop(loop_chain *c, int i) {
    for (; i + 1 < c->n; i++) c->loop[i] = c->loop[i + 1];
    c->n--;
}

/* ---- facts about a part of a kernel ---------------------------------------------------------- */

static int expr_ops(const scheduler *m, expr_id e, int limit) {
    if (!e || limit <= 0) return 0;
    const ir_expr *x = ir_e(m->k, e);
    if (x->kind == EXPR_TABLE) return 1 + expr_ops(m, x->table.index, limit - 1);
    if (x->kind != EXPR_OP) return 0;
    int n = ir_instructions(x->op, x->dtype);
    for (int i = 0; i < x->n; i++) n += expr_ops(m, x->arg[i], limit - n);
    return n;
}

int schedule_ops(const scheduler *m, stmt_id s) {
    int n = 0;
    for (stmt_id c = s; c; c = ir_next(m->k, c, s)) {
        const ir_stmt *x = schedule_at(m, c);
        if (x->kind != STMT_STORE) continue;
        n++;
        for (int i = 0; i < x->n; i++) n += expr_ops(m, x->store.value[i], 400);
    }
    return n;
}

/* Operations of all iterations of s, roughly. */
double schedule_work(const scheduler *m, stmt_id s) {
    if (schedule_at(m, s)->kind != STMT_LOOP)
        return schedule_at(m, s)->kind == STMT_STORE ? schedule_ops(m, s) + 1 : 1;
    double n = 0;
    for (stmt_id c = schedule_at(m, s)->first; c; c = schedule_at(m, c)->next)
        n += schedule_work(m, c);
    int64_t t = schedule_trips(m, s);
    return n * (double)(t < 1 ? 1 : t > 1 << 30 ? 1 << 30 : t);
}

/* The access's stride along the loop; false where it is not constant. */
bool schedule_step(scheduler *m, const ir_access *t, sym var, int64_t *step) {
    sym rest;
    *step = 0;
    if (t->dyn && ir_expr_uses(m->k, t->dyn, var)) return false;
    return sym_split(m->k->syms, t->index, var, step, &rest);
}

bool schedule_is_arg(const scheduler *m, const ir_access *t) {
    return ir_m(m->k, t->mem)->scope == MEM_ARG;
}

static bool depends_on(const scheduler *m, const ir_access *t, sym var) {
    return sym_uses(m->k->syms, t->index, var) || (t->dyn && ir_expr_uses(m->k, t->dyn, var));
}

/* Of an access of an argument that is contiguous along the loop: 1, a store 2; of others 0. */
static int counted_along(scheduler *m, const ir_access *t, sym var) {
    int64_t step;
    if (!schedule_is_arg(m, t) || !schedule_step(m, t, var, &step) || step != 1) return 0;
    return t->load ? 1 : 2;
}

/* Accesses of arguments below s that are contiguous along the loop; stores count double. With
 * `own`, only those whose address depends on that variable, too. */
static int contiguous(scheduler *m, stmt_id s, sym var, sym own) {
    ir_access *t;
    int n = 0;
    uint32_t count = ir_accesses(m->k, s, &t);
    for (uint32_t i = 0; i < count; i++)
        if (!own || depends_on(m, &t[i], own)) n += counted_along(m, &t[i], var);
    return n;
}

int schedule_contiguous(scheduler *m, stmt_id s, sym var) {
    return contiguous(m, s, var, SYM_ZERO);
}

int64_t schedule_bytes(const scheduler *m, mem_id mem, int64_t elements) {
    return sat_mul(elements, (int64_t)qn_dtype_size((qn_dtype)ir_m(m->k, mem)->dtype));
}

/* Widest element among the accesses of arguments: it decides how many lanes a vector has. */
int schedule_lanes(const scheduler *m) {
    size_t width = 4;
    for (mem_id i = 1; i < m->k->mems; i++) {
        size_t w = qn_dtype_size((qn_dtype)ir_m(m->k, i)->dtype);
        if (ir_m(m->k, i)->dtype == QN_F64 && w > width) width = w;
    }
    int lanes = (int)m->limits->vector_bytes / (int)width;
    return lanes < 2 ? 2 : lanes > 16 ? 16 : lanes;
}

/* ---- merging --------------------------------------------------------------------------------- */

bool schedule_loads_in_step(scheduler *m, const ir_access *t, stmt_id outer, stmt_id inner) {
    sym_store *s = m->k->syms;
    sym vo = schedule_at(m, outer)->l.var, vi = schedule_at(m, inner)->l.var, co, ci, rest;
    if (sym_uses(s, t->valid, vo) || sym_uses(s, t->valid, vi)) return false;
    if (t->dyn && (ir_expr_uses(m->k, t->dyn, vo) || ir_expr_uses(m->k, t->dyn, vi))) return false;
    return ir_linear(m->k, t->index, vo, &co, &rest) && ir_linear(m->k, t->index, vi, &ci, &rest) &&
           co == sym_mul(s, ci, schedule_at(m, inner)->l.extent);
}

bool schedule_stores_number(const scheduler *m, stmt_id loop, sym var, bool parts) {
    for (stmt_id c = loop; c; c = ir_next(m->k, c, loop)) {
        const ir_stmt *x = schedule_at(m, c);
        for (int i = 0; x->kind == STMT_STORE && i < x->n; i++) {
            bool alone = ir_e(m->k, x->store.value[i])->kind == EXPR_INDEX;
            if ((parts || alone) && ir_expr_counts(m->k, x->store.value[i], var)) return true;
        }
    }
    return false;
}

bool schedule_in_step_but(scheduler *m, stmt_id outer, stmt_id inner, mem_id mem) {
    ir_access *t;
    uint32_t count = ir_accesses(m->k, inner, &t);
    for (uint32_t i = 0; i < count; i++) {
        if (mem && t[i].mem == mem && t[i].load) continue;
        if (!schedule_loads_in_step(m, &t[i], outer, inner)) return false;
    }
    return !schedule_stores_number(m, inner, schedule_at(m, outer)->l.var, false);
}

void schedule_merge_in_step(scheduler *m, loop_chain *c) {
    for (int i = c->n - 2; i >= 0; i--) {
        if (!schedule_in_step(m, stmt_of(m, c->loop[i]), stmt_of(m, c->loop[i + 1]))) continue;
        loop_h both = step_merge(maybe(m), c->loop[i], c->loop[i + 1], "m");
        if (!both.id) continue;
        c->loop[i] = both;
        loop_chain_drop(c, i + 1);
    }
    c->body = stmt_of(m, c->loop[c->n - 1]);
}

/* ---- vectors and parallel iterations --------------------------------------------------------- */

/* How many vectors of a statement are processed side by side, for its number of operations. */
static int chains_for(const scheduler *m, int ops) {
    const machine *l = m->limits;
    return ops <= l->four_chains ? 4 : ops <= l->two_chains ? 2 : 1;
}

/* And for the trips of its loop: two rounds of them at least. */
static int chains_of(const scheduler *m, int ops, int64_t trips) {
    int chains = chains_for(m, ops);
    while (chains > 1 && trips < (int64_t)chains * m->lanes * 2) chains /= 2;
    return chains;
}

/* Split a loop into vectors and their lanes, of which there is only one where `chains` is 1. */
static loop2 split_lanes(scheduler *m, loop_h l, int lanes, int chains) {
    loop2 t = schedule_lanes_of(m, l, lanes);
    if (chains == 1) step_want(m, t.outer, WANT_NOTHING);
    return t;
}

/* A loop along contiguous memory, without reductions: full iterations of several vectors, then the
 * remainder. Full iterations are peeled before the inner split, so that their inner extents are
 * constants. Returns the loop over steps of several vectors. */
static loop_h vector_loop(scheduler *m, loop_h l) {
    stmt_id loop = stmt_of(m, l);
    int64_t n = schedule_trips(m, loop);
    int chains = chains_of(m, schedule_ops(m, loop), n);
    bool constant = sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, NULL);
    if (constant && n > 1 && n <= m->lanes && !(n & (n - 1)) && step_bind(maybe(m), l, LOOP_VEC))
        return NO_LOOP;
    loop2 t = step_split(m, l, chains * m->lanes, "o", "w");
    if (chains == 1) step_want(m, t.inner, WANT_VEC);
    loop_chain rest = loop_chain_from(m, step_peel(maybe(m), t.outer));
    if (chains == 1) return t.outer;
    schedule_vectors(m, t.inner);
    split_lanes(m, loop_chain_at(&rest, 1), m->lanes, 1); /* the copy of t.inner */
    return t.outer;
}

/* Is a stream that could be walked by pages side by side? */
static bool side_by_side(scheduler *m, bool alone) {
    return schedule_choose(m, CHOICE_pages, 2, machine_pages(m->limits, alone) > 1);
}

/* How many pages of each argument the only loop of a kernel walks side by side, 1: in order, 0
 * where its arguments do not stream from memory; `each` is the elements of a page. A core has few
 * outstanding misses by itself; a hardware prefetcher that stops at every page restarts slowly,
 * and one that does not stop likes plain order. */
static int pages_of(scheduler *m, stmt_id loop, int *each) {
    *each = 1;
    if (!ir_no_carried(m->k, loop, loop, FREEDOM_AT_ONCE, NULL)) return 0; /* a scan, in order */
    int64_t n = sym_lo(m->k->syms, schedule_at(m, loop)->l.extent), bytes = 0;
    int widest = 1, streams = 0;
    for (mem_id i = 1; i < m->k->mems; i++) {
        const ir_memory *mem = ir_m(m->k, i);
        int size = (int)qn_dtype_size(mem->dtype);
        if (mem->scope != MEM_ARG || mem->size == SYM_ONE) continue;
        bytes = sat_add(bytes, schedule_bytes(m, i, n));
        if (size > widest) widest = size;
        streams++;
    }
    *each = (int)m->limits->page / widest;
    if (bytes <= machine_streaming(m->limits)) return 0;
    int side = MACHINE_PAGES;
    while (side > 1 && side * streams > m->limits->streams) side /= 2;
    return side > 1 && side_by_side(m, false) ? side : 1;
}

/* Where the expression is long, loads that miss leave no room in the window for later ones to be
 * issued: so each block prefetches the next, beyond the pages that the hardware prefetcher
 * knows. */
static void prefetch_blocks(scheduler *m, int elements) {
    for (mem_id i = 1; i < m->k->mems; i++) {
        const ir_memory *mem = ir_m(m->k, i);
        if (mem->scope == MEM_ARG && (mem->access & ACCESS_READ) && mem->size != SYM_ONE)
            step_prefetch_distance(maybe(m), i, elements * (int)qn_dtype_size(mem->dtype));
    }
}

/* The only loop, along contiguous memory: whole blocks of several vectors, items of some blocks,
 * and a masked last one. Blocks are pages side by side where memory streams. */
static void flat_loop(scheduler *m, loop_h l) {
    stmt_id loop = stmt_of(m, l);
    int64_t n = schedule_trips(m, loop);
    int ops = schedule_ops(m, loop), chains = chains_of(m, ops, n), each;
    int pages = pages_of(m, loop, &each), block = pages > 1 ? pages * each : chains * m->lanes;
    int64_t chunk = schedule_item_work(m) * 4 / (ops * (int64_t)block + 1) + 1, exact;
    if (chunk < 2) chunk = 2; /* of one block nothing can be peeled */
    bool constant = sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, &exact);
    if ((!constant || exact % block) && !step_pad(maybe(m), l, block)) return;
    loop2 t = step_split(m, l, block, "o", "w");
    if (!t.outer.id) return;
    if (pages && ops >= m->limits->memory_ops) prefetch_blocks(m, pages * each);
    if (pages > 1) {
        loop2 page = step_split(m, t.inner, each, "s", "l");
        loop2 row = step_split(m, page.inner, chains * m->lanes, "r", "w");
        step_swap(m, page.outer, row.outer);
        t.inner = row.inner;
    }
    split_lanes(m, t.inner, m->lanes, chains);
    if (trips_of(m, t.outer) > 2 * chunk) {
        loop2 part = step_split(m, t.outer, chunk, "p", "q");
        step_bind(maybe(m), part.outer, LOOP_PAR); /* after peel that would be hard to prove */
        if (part.inner.id) t.outer = part.inner;
    }
    step_peel(maybe(m), t.outer);
}

/* Give the root loop enough work an iteration and make it parallel. */
static void parallel(scheduler *m, loop_h l) {
    stmt_id loop = stmt_of(m, l);
    if (!loop || schedule_at(m, loop)->parent != m->k->root) return;
    int64_t n = schedule_trips(m, loop);
    double total = schedule_work(m, loop), each = total / (double)(n < 1         ? 1
                                                                   : n > 1 << 30 ? 1 << 30
                                                                                 : n);
    double item = (double)schedule_item_work(m);
    if (total < 2 * item) return;
    int64_t chunk = (int64_t)(item / (each + 1)) + 1;
    if (n / chunk > MOST_ITEMS) chunk = n / MOST_ITEMS;
    if (chunk > n / 4 && n >= 4) chunk = n / 4;
    if (chunk > 1) {
        step_bind(maybe(m), step_split(m, l, chunk, "p", "q").outer, LOOP_PAR);
    } else {
        step_bind(maybe(m), l, LOOP_PAR);
    }
}

/* Merge a short outermost loop with the next so that there are enough items. */
static void widen_root(scheduler *m, loop_chain *c, int keep) {
    if (schedule_at(m, stmt_of(m, c->loop[0]))->parent != m->k->root) return;
    while (c->n > keep + 1 && trips_of(m, c->loop[0]) < 16) {
        loop_h both = step_merge(maybe(m), c->loop[0], c->loop[1], "m");
        if (!both.id) return;
        c->loop[0] = both;
        loop_chain_drop(c, 1);
    }
}

/* ---- elementwise ----------------------------------------------------------------------------- */

bool loop_chain_swap(scheduler *m, loop_chain *c, int i) {
    if (!step_swap(maybe(m), c->loop[i], c->loop[i + 1])) return false;
    loop_h l = c->loop[i];
    c->loop[i] = c->loop[i + 1];
    c->loop[i + 1] = l;
    return true;
}

void loop_chain_inward(scheduler *m, loop_chain *c, int i) {
    while (i + 1 < c->n && loop_chain_swap(m, c, i)) i++;
}

/* Does it move with all loops of the chain? Others are of few elements, which stay near. */
static bool is_of_all(const scheduler *m, const loop_chain *c, const ir_access *t) {
    for (int i = 0; i < c->n; i++)
        if (!depends_on(m, t, var_of(m, c->loop[i]))) return false;
    return true;
}

int schedule_most_contiguous(scheduler *m, const loop_chain *c) {
    enum { MANY = 1024 }; /* an access of all elements is worth any number of others */
    ir_access *t;
    int best = c->n - 1, most = 0;
    uint32_t count = ir_accesses(m->k, c->body, &t);
    for (int i = c->n - 1, n = 0; i >= 0; i--, n = 0) {
        for (uint32_t k = 0; k < count; k++)
            n += counted_along(m, &t[k], var_of(m, c->loop[i])) *
                 (is_of_all(m, c, &t[k]) ? MANY : 1);
        if (n > most) most = n, best = i;
    }
    return best;
}

bool schedule_elementwise(scheduler *m, stmt_id loop) {
    loop_chain c = loop_chain_of(m, loop);
    schedule_merge_in_step(m, &c);
    if (schedule_transpose(m, &c)) {
        widen_root(m, &c, 0);
        parallel(m, c.loop[0]);
        return true;
    }
    loop_chain_inward(m, &c, schedule_most_contiguous(m, &c));
    if (c.n == 1 && schedule_trips(m, c.body) > 2 * m->lanes) {
        flat_loop(m, c.loop[0]);
        return true;
    }
    loop_h inner = c.loop[c.n - 1];
    if (c.n > 1) widen_root(m, &c, 1);
    vector_loop(m, inner);
    if (c.n > 1) parallel(m, c.loop[0]);
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

bool schedule_has_inner(const scheduler *m, stmt_id loop) {
    for (stmt_id c = schedule_at(m, loop)->first; c; c = schedule_at(m, c)->next)
        if (schedule_at(m, c)->kind != STMT_STORE) return true;
    return false;
}

bool schedule_streams(scheduler *m, stmt_id loop, int64_t trips, int64_t bytes) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, loop, &t);
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *mem = ir_m(m->k, t[i].mem);
        int64_t one, size = (int64_t)qn_dtype_size(mem->dtype);
        if (t[i].load && schedule_is_arg(m, &t[i]) &&
            schedule_step(m, &t[i], schedule_at(m, loop)->l.var, &one) && one == 1 &&
            trips >= ceil_div(bytes, size) &&
            sym_lo(m->k->syms, mem->size) > machine_streaming(m->limits) / size)
            return true;
    }
    return false;
}

/* Give the tile an accumulator for each of the parts. */
static void factor_parts(scheduler *m, mem_id tile) {
    made_rfactor sums = step_rfactor(maybe(m), tile, m->parts);
    if (!sums.element.id) return;
    if (trips_of(m, sums.element) > m->lanes) schedule_vectors(m, sums.element);
    step_want(m, sums.part,
              WANT_UNROLL); /* or the parts' accumulators would have to be in memory */
}

/* The outermost loop of the only nest of a body that then stores its tiles; 0: there is none. */
static stmt_id only_nest(const scheduler *m, stmt_id loop) {
    stmt_id def = schedule_at(m, loop)->first, red = def;
    while (red && schedule_at(m, red)->kind == STMT_DEF) red = schedule_at(m, red)->next;
    if (red == def || !red || schedule_at(m, red)->kind != STMT_LOOP) return 0;
    for (stmt_id s = schedule_at(m, red)->next; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind != STMT_STORE) return 0;
    return red;
}

/* Give each tile that the loop reduces into, in each of `rows` rows, the accumulators that its
 * grouping says: one a lane, several chains, and parts. Those of several rows come later:
 * m->parts. */
static void reduction_loop(scheduler *m, loop_h l, int rows, int tiles, const mem_id *tile) {
    stmt_id loop = stmt_of(m, l);
    const ir_grouping g = ir_m(m->k, tile[0])->sum;
    int streams = schedule_contiguous(m, loop, schedule_at(m, loop)->l.var);
    const bool alone = rows == 1 && only_nest(m, schedule_at(m, loop)->parent) == loop;
    if (g.lanes < 2) return;
    int chains = g.chains, parts = g.parts, step = chains * g.lanes;
    int64_t exact;
    if (!sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, &exact) || exact % step)
        if (!step_pad(maybe(m), l, step)) return;
    loop2 page = {NO_LOOP, l}; /* parts of the row */
    if (parts > 1 && sym_is_const(m->k->syms, extent_of(m, l), &exact) &&
        exact % (parts * step) == 0) {
        page = step_split(maybe(m), l, exact / parts, "s", "l");
        if (!page.inner.id) page.inner = l;
    }
    loop2 t = step_split(m, page.inner, step, "o", "w");
    if (!t.outer.id) return;
    if (page.outer.id && side_by_side(m, rows == 1 && streams == 1))
        step_swap(m, page.outer, t.outer);
    loop2 vector = split_lanes(m, t.inner, g.lanes, chains);
    m->parts = page.outer;
    if (alone && !page.outer.id) schedule_prefetch_row(m, t.outer);
    for (int i = 0; i < tiles; i++) {
        mem_id wide = step_rfactor(maybe(m), tile[i], vector.inner).tile;
        if (!wide) return;
        mem_id all = chains > 1 ? step_rfactor(maybe(m), wide, vector.outer).tile : wide;
        m->summed = all ? all : wide;
        if (m->parts.id && rows == 1) factor_parts(m, m->summed);
    }
    step_peel(maybe(m), t.outer);
    if (rows > 1) return;
    step_bind(maybe(m), m->parts, LOOP_UNROLL);
    m->parts = NO_LOOP;
}

/* Accesses that are contiguous along loops inside the row; with `own` only those that depend on the
 * row: a vector that all rows share is soon cached, whatever its stride. */
int schedule_contiguous_inside(scheduler *m, stmt_id body, sym own) {
    int n = 0;
    for (stmt_id s = body; (s = ir_next(m->k, s, body));)
        if (schedule_at(m, s)->kind == STMT_LOOP)
            n += contiguous(m, s, schedule_at(m, s)->l.var, own);
    return n;
}

/* The same of one loop: a reduction, or a scan. */
static stmt_id only_reduction(const scheduler *m, stmt_id loop) {
    stmt_id red = only_nest(m, loop);
    return red && !schedule_has_inner(m, red) ? red : 0;
}

static bool columns(scheduler *m, loop_chain *c, int i);
static void row_loops(scheduler *m, stmt_id body, int rows);

bool schedule_reduces_columns(scheduler *m, const loop_chain *c, int64_t trips) {
    mem_id tile[SCHEDULE_TILES];
    sym across = var_of(m, c->loop[c->n - 1]);
    stmt_id red = only_reduction(m, c->body);
    return red && schedule_reduced_tiles(m, red, tile) &&
           schedule_contiguous(m, red, across) > schedule_contiguous_inside(m, c->body, across) &&
           trips >= m->lanes;
}

/* Should lanes go across a reduction inside a row, and are its sums in order? */
static bool goes_across(scheduler *m, const loop_chain *c) {
    return schedule_reduces_columns(m, c, trips_of(m, c->loop[c->n - 1])) &&
           schedule_rows_in_order(m, c->body);
}

void schedule_row_loop(scheduler *m, loop_h loop, int rows, bool *streamed) {
    loop_chain c = loop_chain_of(m, stmt_of(m, loop));
    mem_id tile[SCHEDULE_TILES];
    schedule_merge_in_step(m, &c);
    if (schedule_has_inner(m, c.body)) {
        if (rows == 1 && schedule_block_dots(m, &c)) return;
        if (rows > 1 || !goes_across(m, &c) || !columns(m, &c, c.n - 1)) row_loops(m, c.body, rows);
        return;
    }
    int64_t pages = machine_pages(m->limits, false);
    int tiles = schedule_reduced_tiles(m, c.body, tile);
    if (!tiles) loop_chain_inward(m, &c, schedule_most_contiguous(m, &c));
    stmt_id inner = stmt_of(m, c.loop[c.n - 1]);
    bool streams = schedule_streams(m, inner, schedule_trips(m, inner), pages * m->limits->page);
    bool asks =
        streams && *streamed && schedule_ops(m, inner) >= m->limits->memory_ops && !m->copy.id;
    *streamed |= streams;
    if (tiles) {
        reduction_loop(m, c.loop[c.n - 1], rows, tiles, tile);
        return;
    }
    loop_h steps = vector_loop(m, c.loop[c.n - 1]);
    if (asks) m->copy = m->use = steps; /* memory would be idle */
}

static void row_loops(scheduler *m, stmt_id body, int rows) {
    loop_h loop[64];
    int n = 0;
    bool streamed = false, blocks = rows == 1 && schedule_distribute_sums(m, body);
    for (stmt_id c = schedule_at(m, body)->first; c && n < 64; c = schedule_at(m, c)->next)
        if (schedule_at(m, c)->kind == STMT_LOOP) loop[n++] = loop_of(m, c);
    for (int i = 0; i < n; i++) schedule_row_loop(m, loop[i], rows, &streamed);
    if (!blocks) return;
    schedule_fuse_sums(m, body);
    schedule_prefetch_blocks(m, body);
}

/* Tiles defined directly in the loop's body, which are accumulated together; how many there are. */
static int tiles_in(const scheduler *m, stmt_id loop, mem_id *tile) {
    int n = 0;
    for (stmt_id c = schedule_at(m, loop)->first; c; c = schedule_at(m, c)->next)
        if (schedule_at(m, c)->kind == STMT_DEF && !n++) *tile = schedule_at(m, c)->def.mem;
    return n;
}

/* How many arguments does a loop down columns, directly below the loop across them, read of which
 * rows are pages apart? */
static int rows_distant(scheduler *m, stmt_id across, stmt_id down) {
    bool *seen = arena_zeroed(&m->k->arena, m->k->mems);
    ir_access *t;
    uint32_t n = ir_accesses(m->k, down, &t);
    int distant = 0;
    if (schedule_at(m, down)->kind != STMT_LOOP ||
        schedule_trips(m, down) <= 2 * m->limits->column_rows)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t one, step;
        if (seen[t[i].mem] || !t[i].load || !schedule_is_arg(m, &t[i])) continue;
        if (!schedule_step(m, &t[i], schedule_at(m, across)->l.var, &one) || one != 1) continue;
        if (!schedule_step(m, &t[i], schedule_at(m, down)->l.var, &step)) continue;
        if (schedule_bytes(m, t[i].mem, step) < m->limits->l1 / m->limits->l1_apart) continue;
        seen[t[i].mem] = true;
        distant++;
    }
    return distant;
}

/* A reduction down columns over distant rows goes in slices of few rows, all columns of a part at a
 * time, so that memory streams; partial results stay in memory (block_reduction). Each row of each
 * argument is a stream, so several arguments share the rows. The loop over blocks of the reduction.
 */
static loop_h slice_rows(scheduler *m, stmt_id loop) {
    stmt_id red = only_reduction(m, loop);
    mem_id tile[SCHEDULE_TILES];
    if (!red || !schedule_reduced_tiles(m, red, tile)) return NO_LOOP; /* a scan reads its sums */
    int distant = rows_distant(m, loop, red);
    if (!distant) return NO_LOOP;
    int64_t rows = m->limits->column_rows / distant;
    return step_split(m, loop_of(m, red), rows < 1 ? 1 : rows, "pc", "k").outer;
}

/* Is there more than that one reduction, or a scan, and distant rows? Then one row at a time, all
 * columns of a part; what belongs to a column is computed beforehand. */
static bool whole_rows(scheduler *m, stmt_id loop) {
    bool far = false;
    for (stmt_id s = schedule_at(m, loop)->first; s; s = schedule_at(m, s)->next)
        far |= rows_distant(m, loop, s) > 0;
    stmt_id red = only_reduction(m, loop);
    mem_id tile[SCHEDULE_TILES];
    if (!far || (red && schedule_reduced_tiles(m, red, tile))) return false;
    for (stmt_id s = schedule_at(m, loop)->first; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP) step_hoist(maybe(m), loop_of(m, s));
    return true;
}

/* Columns in parts whose results fit in the first-level cache: of `c`, the loop over vectors. */
static loop2 cut_parts(scheduler *m, loop_h c, int64_t bytes) {
    int64_t n = trips_of(m, c), most = m->limits->l1 * m->limits->l1_shared / 100 / bytes;
    int threads = m->limits->threads > 1 ? m->limits->threads : 1;
    int64_t part = ceil_div(n, threads);
    if (part > most) part = most;
    if (part < 1) part = 1;
    part = ceil_div(n, ceil_div(n, part)); /* equal ones */
    return step_split(m, c, part, "jc", "jr");
}

/* Are elements loaded that lie a few apart along the loop? Whole vectors give them by shuffles, but
 * under a mask each is gathered. Sums of few terms need no more chains than one: those of the next
 * place may begin beside them. */
static bool wants_no_mask(scheduler *m, stmt_id loop) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, loop, &t);
    bool apart = false;
    for (uint32_t i = 0; i < n; i++) {
        int64_t step, terms = 1;
        for (stmt_id s = schedule_at(m, t[i].at)->parent; s != loop; s = schedule_at(m, s)->parent)
            if (schedule_at(m, s)->kind == STMT_LOOP) terms *= schedule_trips(m, s);
        if (terms > FEW_TERMS) return false;
        apart |= t[i].load && schedule_step(m, &t[i], schedule_at(m, loop)->l.var, &step) &&
                 step >= 2 && step <= 4;
    }
    return apart;
}

/* Vectors across the reductions: the contiguous loop moves inside them. */
static bool columns(scheduler *m, loop_chain *c, int i) {
    loop_chain_inward(m, c, i);
    loop_h l = c->loop[c->n - 1];
    stmt_id loop = stmt_of(m, l);
    mem_id tile = 0;
    int64_t n = schedule_trips(m, loop), exact;
    int chains = chains_for(m, schedule_ops(m, loop));
    int tiles = tiles_in(m, loop, &tile);
    bool unmasked = n % m->lanes == 0 && wants_no_mask(m, loop);
    while (chains > 1 && (n < (int64_t)chains * m->lanes || (unmasked && n % (chains * m->lanes))))
        chains /= 2;
    int step = chains * m->lanes;
    if (!tile) return false;
    loop_h slices = slice_rows(m, loop);
    bool in_rows = !slices.id && whole_rows(m, loop);
    bool whole = sym_is_const(m->k->syms, extent_of(m, l), &exact) && exact % step == 0;
    if (!whole && !step_pad(maybe(m), l, step)) return false;
    loop2 t = step_split(m, l, step, "jr", "w");
    if (!t.outer.id) return false;
    loop2 vector = schedule_vectors(m, t.inner);
    step_accumulate(maybe(m), tile, vector.inner);
    step_accumulate(maybe(m), tile, vector.outer);
    c->loop[c->n - 1] = t.outer;
    if (slices.id || in_rows) {
        loop2 part = cut_parts(m, t.outer, slices.id ? 4 * step * tiles : 8 * step);
        if (slices.id)
            schedule_block_sums(m, tile, slices, part.inner);
        else
            step_accumulate(maybe(m), tile, part.inner);
        if (part.outer.id) c->loop[c->n - 1] = part.outer;
    }
    schedule_gather_once(m, c->loop[0], vector.inner);
    schedule_lanes_around(m, stmt_of(m, c->loop[0]));
    return true;
}

/* Does the access, somewhere in the loop, vary along it or one of those inside? */
static bool varies(const scheduler *m, stmt_id loop, const ir_access *t) {
    for (stmt_id s = t->at; s != loop;) {
        s = schedule_at(m, s)->parent;
        if (schedule_at(m, s)->kind == STMT_LOOP && depends_on(m, t, schedule_at(m, s)->l.var))
            return true;
    }
    return false;
}

/* Accesses that are contiguous along a loop outside of the rows; stores count double. Where rows
 * are at least a vector long only those in loops along the row count, and that vary along it: one
 * access a row is cheap. A row is as long as vectors can go along it: of a window of 3 by 3, three.
 */
static int contiguous_across(scheduler *m, stmt_id body, sym var) {
    int n = 0;
    bool deep = false;
    for (stmt_id c = schedule_at(m, body)->first; c; c = schedule_at(m, c)->next) {
        ir_access *t;
        if (schedule_at(m, c)->kind != STMT_LOOP) continue;
        loop_chain row = loop_chain_of(m, c);
        deep |= schedule_merged_trips(m, &row) >= m->lanes;
        uint32_t count = ir_accesses(m->k, c, &t);
        for (uint32_t i = 0; i < count; i++)
            if (varies(m, c, &t[i])) n += counted_along(m, &t[i], var);
    }
    return deep ? n : schedule_contiguous(m, body, var);
}

int schedule_rows_at_once(scheduler *m, stmt_id body) {
    stmt_id red = only_nest(m, body);
    int64_t n;
    if (!red || !sym_is_const(m->k->syms, schedule_at(m, body)->l.extent, &n)) return 1;
    loop_chain c = loop_chain_of(m, red);
    if (schedule_has_inner(m, c.body)) return 1;
    for (int i = 0; i + 1 < c.n; i++) /* they will be one loop */
        if (!schedule_in_step(m, stmt_of(m, c.loop[i]), stmt_of(m, c.loop[i + 1]))) return 1;
    return n % ROWS || n < 8 * ROWS || !schedule_paged_rows(m, body, red) ? 1 : ROWS;
}

/* May rows go in any order, and is what they are of, beside something else, read from memory? */
static bool rows_from_memory(scheduler *m, stmt_id loop) {
    const stmt_id red = only_nest(m, loop);
    const loop_chain c = loop_chain_of(m, red);
    const stmt_id in = stmt_of(m, c.loop[c.n - 1]);
    return schedule_from_memory(m, schedule_paged_rows(m, loop, red)) &&
           schedule_contiguous(m, in, schedule_at(m, in)->l.var) > 1 &&
           ir_no_carried(m->k, loop, loop, FREEDOM_AT_ONCE, NULL);
}

/* Process several long rows of one reduction at a time: memory streams from as many pages at once,
 * where the prefetcher stops at each; what all share is loaded once. Where it loses at rows that
 * are near, they are each of another part of a matrix from memory. Sums are grouped so always. */
static bool several_rows(scheduler *m, loop_chain *c) {
    mem_id tile = 0;
    tiles_in(m, c->body, &tile);
    const loop_h row = c->loop[c->n - 1];
    const bool near = machine_rows_beside(m->limits);
    if (schedule_rows_at_once(m, c->body) == 1) return false;
    if (!near && !rows_from_memory(m, c->body)) return false;
    loop2 t =
        near ? step_split(m, row, ROWS, "g", "u") : schedule_split_far(m, row, ROWS, "g", "u");
    if (!t.outer.id) return false;
    step_want(m, t.inner, WANT_UNROLL);
    c->loop[c->n - 1] = t.outer;
    row_loops(m, stmt_of(m, t.inner), ROWS);
    step_accumulate(maybe(m), tile, t.inner);
    if (m->parts.id) { /* not before the rows are inside the loop over parts */
        factor_parts(m, m->summed);
        step_bind(maybe(m), m->parts, LOOP_UNROLL);
    }
    m->parts = NO_LOOP;
    if (near) schedule_prefetch_streams(m);
    return true;
}

/* Short rows of one access that is contiguous along them and across: they are windows that slide
 * over it. Lanes across them need no sum over lanes at the end. */
static bool slides(scheduler *m, stmt_id body, loop_h across) {
    if (trips_of(m, across) < m->lanes) return false;
    for (stmt_id s = body; (s = ir_next(m->k, s, body));) {
        ir_access *t;
        int64_t one, other;
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        uint32_t n = ir_accesses(m->k, s, &t);
        if (schedule_trips(m, s) >= (int64_t)m->lanes * m->lanes) return false;
        for (uint32_t i = 0; i < n; i++)
            if (t[i].load && schedule_step(m, &t[i], var_of(m, across), &one) && one == 1 &&
                schedule_step(m, &t[i], schedule_at(m, s)->l.var, &other) && other == 1)
                return true;
    }
    return false;
}

int schedule_across(scheduler *m, const loop_chain *c) {
    int outer = -1, most = 0;
    mem_id tile;
    for (int i = 0; i < c->n; i++) {
        int n = contiguous_across(m, c->body, var_of(m, c->loop[i]));
        if (n > most) most = n, outer = i;
    }
    if (outer < 0 || !tiles_in(m, c->body, &tile) || schedule_has_block_dots(m, c->body)) return -1;
    int inside = schedule_contiguous_inside(m, c->body, var_of(m, c->loop[outer]));
    if (inside == most && slides(m, c->body, c->loop[outer])) return outer;
    return inside < most ? outer : -1;
}

bool schedule_rows(scheduler *m, stmt_id loop) {
    loop_chain c = loop_chain_of(m, loop);
    int outer = schedule_rows_in_order(m, c.body) ? schedule_across(m, &c) : -1;
    if (outer >= 0 && columns(m, &c, outer)) {
        widen_root(m, &c, 0);
        parallel(m, c.loop[0]);
        return true;
    }
    if (schedule_pipeline(m, &c)) return true;
    if (!several_rows(m, &c)) row_loops(m, c.body, 1);
    widen_root(m, &c, 0);
    parallel(m, c.loop[0]);
    return true;
}

/* All loops of the kernel, which reduce into tiles beside them. */
bool schedule_reduction(scheduler *m, stmt_id loop) {
    mem_id tile[SCHEDULE_TILES];
    if (!schedule_reduced_tiles(m, loop_chain_of(m, loop).body, tile)) return false;
    row_loops(m, m->k->root, 1);
    m->done = true;
    return true;
}
