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
 * Names tell the rest: loops called v.. become vectors, loops called d900.. the parts of words, and
 * loops called u.. are unrolled at the end, in whatever copies the transforms have made of them.
 * Parallel loops get enough work an item that launching it does not matter. The number of threads
 * may decide who computes an element, never how. */
#include <stdio.h>

#include "schedule/schedule.h"

enum {
    MOST_COPIES = 40, /* of a statement, by unrolling */
    SLICE = 16,       /* rows of a reduction down columns at a time */
    ROWS = 4,         /* of a reduction along rows at a time, where there are several */
    MOST_CHAINS = 8,  /* accumulators of all tiles that a loop along a row reduces into .. */
    MOST_BESIDE = 16, /* .. and of all rows that are processed at a time */
    PART_OF_L3 = 32 << 20,
    ARITHMETIC_BOUND = 10 /* operations an element, from which on memory would be idle */
};

bool schedule_apply(scheduler *m, const char *fmt, ...) {
    char line[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (!transform_apply(m->k, line, NULL)) return false;
    str_addf(m->out, "%s\n", line);
    return true;
}

loop_chain loop_chain_of(const scheduler *m, stmt_id loop) {
    loop_chain c = {.n = 0};
    for (stmt_id s = loop; c.n < LOOP_CHAIN; s = schedule_at(m, s)->first) {
        snprintf(c.name[c.n++], sizeof c.name[0], "%s", schedule_name(m, s));
        c.body = s;
        stmt_id child = schedule_at(m, s)->first;
        if (!child || child != schedule_at(m, s)->last || schedule_at(m, child)->kind != STMT_LOOP)
            break;
    }
    return c;
}

bool schedule_staged(const scheduler *m, const char *where, loop_chain *copy) {
    stmt_id s = schedule_at(m, schedule_find(m, where))->first;
    for (; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_DEF && schedule_at(m, s)->def.mem == m->k->mems - 1)
            break;
    if (!s) return false;
    *copy = loop_chain_of(m, schedule_at(m, s)->next);
    return true;
}

bool schedule_transpose_copy(scheduler *m, const char *outer, const char *inner) {
    char row[40], column[40];
    if (!schedule_apply(m, "transpose %s %s", outer, inner)) return false;
    stmt_id back = schedule_at(m, schedule_find(m, outer))->next;
    snprintf(column, sizeof column, "%s", schedule_name(m, back));
    snprintf(row, sizeof row, "%s", schedule_name(m, schedule_at(m, back)->first));
    schedule_apply(m, "vec %s", row);
    schedule_apply(m, "unroll %s", column);
    return true;
}

void loop_chain_drop(loop_chain *c, int i) {
    for (; i + 1 < c->n; i++) memcpy(c->name[i], c->name[i + 1], sizeof c->name[i]);
    c->n--;
}

/* ---- facts about a part of a kernel ---------------------------------------------------------- */

static int expr_ops(const scheduler *m, expr_id e, int limit) {
    if (!e || limit <= 0) return 0;
    const ir_expr *x = ir_e(m->k, e);
    if (x->kind == EXPR_TABLE) return 1 + expr_ops(m, x->table.index, limit - 1);
    if (x->kind != EXPR_OP) return 0;
    int n = 1;
    switch (x->op) {
    case OP_EXP:
    case OP_EXP2:
    case OP_LOG:
    case OP_LOG2:
        n = 12;
        break;
    case OP_TANH:
    case OP_SIGMOID:
    case OP_ERF:
    case OP_EXPM1:
    case OP_LOG1P:
    case OP_SIN:
    case OP_COS:
    case OP_ATAN:
    case OP_SILU:
    case OP_SILU_SLOPE:
    case OP_GELU:
    case OP_GELU_SLOPE:
    case OP_GELU_TANH:
    case OP_GELU_TANH_SLOPE:
        n = 24;
        break;
    case OP_ASIN:
    case OP_ACOS:
    case OP_ASINH:
    case OP_ACOSH:
    case OP_ATANH:
    case OP_SINH:
    case OP_COSH:
    case OP_SOFTPLUS:
    case OP_MISH:
    case OP_CBRT:
    case OP_ATAN2:
    case OP_HYPOT:
    case OP_LOGADDEXP:
    case OP_ERFC:
    case OP_POW:
        n = 48;
        break;
    default:
        break;
    }
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

/* Accesses of arguments below s that are contiguous along the loop; stores count double. With
 * `own`, only those whose address depends on that variable, too. */
static int contiguous(scheduler *m, stmt_id s, sym var, sym own) {
    ir_access *t;
    int n = 0;
    uint32_t count = ir_accesses(m->k, s, &t);
    for (uint32_t i = 0; i < count; i++) {
        int64_t step;
        if (own && !sym_uses(m->k->syms, t[i].index, own) &&
            !(t[i].dyn && ir_expr_uses(m->k, t[i].dyn, own)))
            continue;
        if (schedule_is_arg(m, &t[i]) && schedule_step(m, &t[i], var, &step) && step == 1)
            n += t[i].load ? 1 : 2;
    }
    return n;
}

int schedule_contiguous(scheduler *m, stmt_id s, sym var) {
    return contiguous(m, s, var, SYM_ZERO);
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

/* Can (outer, inner) be one index to all accesses below: outer's stride = inner's stride *
 * extent? */
bool schedule_in_step(scheduler *m, stmt_id outer, stmt_id inner) {
    sym_store *s = m->k->syms;
    sym vo = schedule_at(m, outer)->l.var, vi = schedule_at(m, inner)->l.var,
        n = schedule_at(m, inner)->l.extent;
    ir_access *t;
    uint32_t count = ir_accesses(m->k, inner, &t);
    for (uint32_t i = 0; i < count; i++) {
        sym co, ci, ro, ri;
        if (sym_uses(s, t[i].valid, vo) || sym_uses(s, t[i].valid, vi)) return false;
        if (t[i].dyn && (ir_expr_uses(m->k, t[i].dyn, vo) || ir_expr_uses(m->k, t[i].dyn, vi)))
            return false;
        if (!ir_linear(m->k, t[i].index, vo, &co, &ro)) return false;
        if (!ir_linear(m->k, t[i].index, vi, &ci, &ri)) return false;
        if (co != sym_mul(s, ci, n)) return false;
    }
    for (stmt_id c = inner; c; c = ir_next(m->k, c, inner)) {
        const ir_stmt *x = schedule_at(m, c);
        for (int i = 0; x->kind == STMT_STORE && i < x->n; i++) { /* an index used as a value */
            expr_id e = x->store.value[i];
            if (ir_expr_uses(m->k, e, vo) && ir_e(m->k, e)->kind == EXPR_INDEX) return false;
        }
    }
    return true;
}

void schedule_merge_in_step(scheduler *m, loop_chain *c) {
    for (int i = c->n - 2; i >= 0; i--) {
        if (!schedule_in_step(m, schedule_find(m, c->name[i]), schedule_find(m, c->name[i + 1])))
            continue;
        char name[40];
        snprintf(name, sizeof name, "m%d", m->next++);
        if (!schedule_apply(m, "merge %s %s -> %s", c->name[i], c->name[i + 1], name)) continue;
        snprintf(c->name[i], sizeof c->name[0], "%s", name);
        loop_chain_drop(c, i + 1);
    }
    c->body = schedule_find(m, c->name[c->n - 1]);
}

/* ---- vectors and parallel iterations --------------------------------------------------------- */

/* How many vectors of a statement are processed side by side, for its number of operations. */
static int chains_of(const scheduler *m, int ops, int64_t trips) {
    int chains = ops <= 12 ? 4 : ops <= 40 ? 2 : 1;
    while (chains > 1 && trips < (int64_t)chains * m->lanes * 2) chains /= 2;
    return chains;
}

/* A loop along contiguous memory, without reductions: full iterations of several vectors, then the
 * remainder. Full iterations are peeled before the inner split, so that their inner extents are
 * constants. `outer` names the loop over steps. */
static void vector_loop(scheduler *m, const char *name, const char *outer) {
    stmt_id loop = schedule_find(m, name);
    int64_t n = schedule_trips(m, loop);
    int id = m->next++, chains = chains_of(m, schedule_ops(m, loop), n);
    bool constant = sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, NULL);
    if (constant && n > 1 && n <= m->lanes && !(n & (n - 1)) && schedule_apply(m, "vec %s", name))
        return;
    if (!schedule_apply(m, "split %s %d -> %s %c%d", name, chains * m->lanes, outer,
                        chains > 1 ? 'w' : 'v', id))
        return;
    schedule_apply(m, "peel %s", outer);
    for (int copy = 0; copy < 2 && chains > 1; copy++) {
        char w[40];
        snprintf(w, sizeof w, copy ? "w%d_1" : "w%d", id);
        if (!schedule_find(m, w)) continue;
        int in = m->next++;
        schedule_apply(m, "split %s %d -> %c%d v%d", w, m->lanes, copy ? 'x' : 'u', in, in);
    }
}

/* How many pages of each argument the only loop of a kernel walks side by side, 0 where its
 * arguments do not stream from memory; `each` is the elements of a page. A core has few
 * outstanding misses by itself; the hardware prefetcher that has more stops at every page and
 * restarts slowly. */
static int pages_of(scheduler *m, stmt_id loop, int *each) {
    int64_t n = sym_lo(m->k->syms, schedule_at(m, loop)->l.extent), bytes = 0;
    int widest = 1, streams = 0;
    for (mem_id i = 1; i < m->k->mems; i++) {
        const ir_memory *mem = ir_m(m->k, i);
        int size = (int)qn_dtype_size(mem->dtype);
        if (mem->scope != MEM_ARG || mem->size == SYM_ONE) continue;
        bytes += n > INT32_MAX ? (int64_t)INT32_MAX * size : n * size;
        if (size > widest) widest = size;
        streams++;
    }
    *each = (int)m->limits->page / widest;
    if (bytes <= m->limits->memory_from * m->limits->l2) return 0;
    int side = (int)m->limits->stream_pages;
    return streams <= 3 || side < 2 ? side : streams <= 6 ? side / 2 : 1;
}

/* Where the expression is long, loads that miss leave no room in the window for later ones to be
 * issued: so each block prefetches the next, beyond the pages that the hardware prefetcher
 * knows. */
static void prefetch_blocks(scheduler *m, int elements) {
    for (mem_id i = 1; i < m->k->mems; i++) {
        const ir_memory *mem = ir_m(m->k, i);
        if (mem->scope == MEM_ARG && (mem->access & ACCESS_READ) && mem->size != SYM_ONE)
            schedule_apply(m, "prefetch_distance a%d %d", mem->arg,
                           elements * (int)qn_dtype_size(mem->dtype));
    }
}

/* The only loop, along contiguous memory: whole blocks of several vectors, items of some blocks,
 * and a masked last one. Blocks are pages side by side where memory streams. */
static void flat_loop(scheduler *m, const char *name) {
    stmt_id loop = schedule_find(m, name);
    int64_t n = schedule_trips(m, loop);
    int id = m->next++, ops = schedule_ops(m, loop), chains = chains_of(m, ops, n), each;
    int pages = pages_of(m, loop, &each), block = pages > 1 ? pages * each : chains * m->lanes;
    int64_t chunk = SCHEDULE_ITEM_WORK * 4 / (ops * (int64_t)block + 1) + 1, exact;
    char whole[24];
    if (chunk < 2) chunk = 2; /* of one block nothing can be peeled */
    bool constant = sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, &exact);
    if ((!constant || exact % block) && !schedule_apply(m, "pad %s %d", name, block)) return;
    if (!schedule_apply(m, "split %s %d -> o%d w%d", name, block, id, id)) return;
    if (pages && ops >= ARITHMETIC_BOUND) prefetch_blocks(m, pages * each);
    if (pages > 1) {
        schedule_apply(m, "split w%d %d -> s%d l%d", id, each, id, id);
        schedule_apply(m, "split l%d %d -> r%d w%d", id, chains * m->lanes, id, id);
        schedule_apply(m, "swap s%d r%d", id, id);
    }
    if (chains > 1)
        schedule_apply(m, "split w%d %d -> u%d v%d", id, m->lanes, id, id);
    else
        schedule_apply(m, "split w%d %d -> x%d v%d", id, m->lanes, id, id);
    snprintf(whole, sizeof whole, "o%d", id);
    if (schedule_trips(m, schedule_find(m, whole)) > 2 * chunk &&
        schedule_apply(m, "split o%d %lld -> p%d q%d", id, (long long)chunk, id, id)) {
        schedule_apply(m, "par p%d",
                       id); /* before peel, after which independence is harder to prove */
        whole[0] = 'q';
    }
    schedule_apply(m, "peel %s", whole);
}

/* Give the root loop enough work an iteration and make it parallel. */
static void parallel(scheduler *m, const char *name) {
    stmt_id loop = schedule_find(m, name);
    if (!loop || schedule_at(m, loop)->parent != m->k->root) return;
    int64_t n = schedule_trips(m, loop);
    double total = schedule_work(m, loop), each = total / (double)(n < 1         ? 1
                                                                   : n > 1 << 30 ? 1 << 30
                                                                                 : n);
    if (total < 2 * SCHEDULE_ITEM_WORK) return;
    int64_t chunk = (int64_t)((double)SCHEDULE_ITEM_WORK / (each + 1)) + 1;
    if (n / chunk > 4096) chunk = n / 4096;
    if (chunk > n / 4 && n >= 4) chunk = n / 4;
    if (chunk > 1) {
        int id = m->next++;
        if (!schedule_apply(m, "split %s %lld -> p%d q%d", name, (long long)chunk, id, id)) return;
        schedule_apply(m, "par p%d", id);
    } else {
        schedule_apply(m, "par %s", name);
    }
}

/* Merge a short outermost loop with the next so that there are enough items. */
static void widen_root(scheduler *m, loop_chain *c, int keep) {
    while (c->n > keep + 1 && schedule_trips(m, schedule_find(m, c->name[0])) < 16) {
        char name[40];
        snprintf(name, sizeof name, "m%d", m->next++);
        if (!schedule_apply(m, "merge %s %s -> %s", c->name[0], c->name[1], name)) return;
        snprintf(c->name[0], sizeof c->name[0], "%s", name);
        loop_chain_drop(c, 1);
    }
}

/* Peel the full iterations of what has been split. */
static void peel(scheduler *m, const char *name) {
    if (schedule_find(m, name)) schedule_apply(m, "peel %s", name);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

bool loop_chain_swap(scheduler *m, loop_chain *c, int i) {
    if (!schedule_apply(m, "swap %s %s", c->name[i], c->name[i + 1])) return false;
    char t[40];
    memcpy(t, c->name[i], sizeof t);
    memcpy(c->name[i], c->name[i + 1], sizeof t);
    memcpy(c->name[i + 1], t, sizeof t);
    return true;
}

void loop_chain_inward(scheduler *m, loop_chain *c, int i) {
    while (i + 1 < c->n && loop_chain_swap(m, c, i)) i++;
}

int schedule_most_contiguous(scheduler *m, const loop_chain *c) {
    int best = c->n - 1, most = 0;
    for (int i = c->n - 1; i >= 0; i--) {
        int n =
            schedule_contiguous(m, c->body, schedule_at(m, schedule_find(m, c->name[i]))->l.var);
        if (n > most) most = n, best = i;
    }
    return best;
}

static void elementwise(scheduler *m, stmt_id loop) {
    loop_chain c = loop_chain_of(m, loop);
    schedule_merge_in_step(m, &c);
    if (schedule_transpose(m, &c)) {
        widen_root(m, &c, 0);
        parallel(m, c.name[0]);
        return;
    }
    loop_chain_inward(m, &c, schedule_most_contiguous(m, &c));
    if (c.n == 1 && schedule_trips(m, c.body) > 2 * m->lanes) {
        flat_loop(m, c.name[0]);
        return;
    }
    char inner[40], o[24];
    memcpy(inner, c.name[c.n - 1], sizeof inner);
    snprintf(o, sizeof o, "o%d", m->next++);
    if (c.n > 1) widen_root(m, &c, 1);
    vector_loop(m, inner, o);
    if (c.n > 1) parallel(m, c.name[0]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

bool schedule_has_inner(const scheduler *m, stmt_id loop) {
    for (stmt_id c = schedule_at(m, loop)->first; c; c = schedule_at(m, c)->next)
        if (schedule_at(m, c)->kind != STMT_STORE) return true;
    return false;
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

bool schedule_streams(scheduler *m, stmt_id loop, int64_t bytes) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, loop, &t);
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *mem = ir_m(m->k, t[i].mem);
        int64_t one, size = (int64_t)qn_dtype_size(mem->dtype);
        if (t[i].load && schedule_is_arg(m, &t[i]) &&
            schedule_step(m, &t[i], schedule_at(m, loop)->l.var, &one) && one == 1 &&
            schedule_trips(m, loop) * size >= bytes &&
            sym_lo(m->k->syms, mem->size) > m->limits->memory_from * m->limits->l2 / size)
            return true;
    }
    return false;
}

/* Give each tile that the loop reduces into, in each of `rows` rows, an accumulator a lane and
 * several chains. */
static void reduction_loop(scheduler *m, const char *name, int rows, int tiles,
                           const mem_id *tile) {
    stmt_id loop = schedule_find(m, name);
    int64_t n = schedule_trips(m, loop);
    int id = m->next++, ops = schedule_ops(m, loop), chains = ops <= 6 * tiles ? 4 : 2;
    while (chains > 1 && (n < (int64_t)chains * m->lanes * 4 || chains * tiles > MOST_CHAINS ||
                          chains * tiles * rows > MOST_BESIDE))
        chains /= 2;
    if (n < 4) return;
    int step = chains * m->lanes;
    int64_t exact;
    if (!sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, &exact) || exact % step)
        if (!schedule_apply(m, "pad %s %d", name, step)) return;
    char part[40];
    snprintf(part, sizeof part, "%s", name);
    int64_t side = m->limits->stream_pages;
    bool parts =
        schedule_streams(m, loop, m->limits->stream_pages * m->limits->page) &&
        sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, &exact) && side > 1 &&
        exact % (side * step) == 0 &&
        schedule_apply(m, "split %s %lld -> us%d l%d", name, (long long)(exact / side), id, id);
    if (parts) snprintf(part, sizeof part, "l%d", id);
    if (!schedule_apply(m, "split %s %d -> o%d w%d", part, step, id, id)) return;
    if (parts) schedule_apply(m, "swap us%d o%d", id, id);
    if (chains > 1)
        schedule_apply(m, "split w%d %d -> u%d v%d", id, m->lanes, id, id);
    else
        schedule_apply(m, "split w%d %d -> x%d v%d", id, m->lanes, id, id);
    for (int i = 0; i < tiles; i++) {
        if (!schedule_apply(m, "rfactor t%d v%d", ir_tile_number(m->k, tile[i]), id)) return;
        mem_id wide = m->k->mems - 1;
        if (chains > 1) schedule_apply(m, "rfactor t%d u%d", ir_tile_number(m->k, wide), id);
    }
    char o[24];
    snprintf(o, sizeof o, "o%d", id);
    peel(m, o);
}

/* Loops inside a row, `rows` rows at a time: each vectorized along itself. */
static void row_loops(scheduler *m, stmt_id body, int rows) {
    char names[64][40];
    int n = 0;
    bool streamed = false;
    for (stmt_id c = schedule_at(m, body)->first; c && n < 64; c = schedule_at(m, c)->next)
        if (schedule_at(m, c)->kind == STMT_LOOP)
            snprintf(names[n++], sizeof names[0], "%s", schedule_name(m, c));
    for (int i = 0; i < n; i++) {
        loop_chain c = loop_chain_of(m, schedule_find(m, names[i]));
        schedule_merge_in_step(m, &c);
        if (schedule_has_inner(m, c.body)) {
            row_loops(m, c.body, rows);
            continue;
        }
        mem_id tile[SCHEDULE_TILES];
        int tiles = schedule_reduced_tiles(m, c.body, tile);
        if (!tiles) loop_chain_inward(m, &c, schedule_most_contiguous(m, &c));
        stmt_id inner = schedule_find(m, c.name[c.n - 1]);
        bool streams = schedule_streams(m, inner, m->limits->stream_pages * m->limits->page);
        bool asks =
            streams && streamed && schedule_ops(m, inner) >= ARITHMETIC_BOUND && !m->copy[0];
        streamed |= streams;
        if (tiles) {
            reduction_loop(m, c.name[c.n - 1], rows, tiles, tile);
            continue;
        }
        char o[24];
        snprintf(o, sizeof o, "o%d", m->next++);
        vector_loop(m, c.name[c.n - 1], o);
        if (asks) { /* memory would be idle */
            snprintf(m->copy, sizeof m->copy, "%s", o);
            snprintf(m->use, sizeof m->use, "%s", o);
        }
    }
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

/* Tiles defined directly in the loop's body, which are accumulated together; how many there are. */
static int tiles_in(const scheduler *m, stmt_id loop, mem_id *tile) {
    int n = 0;
    for (stmt_id c = schedule_at(m, loop)->first; c; c = schedule_at(m, c)->next)
        if (schedule_at(m, c)->kind == STMT_DEF && !n++) *tile = schedule_at(m, c)->def.mem;
    return n;
}

/* The only reduction, into tiles beside it, of a body that does nothing else but store the result:
 * its loop, 0: none. */
static stmt_id only_reduction(const scheduler *m, stmt_id loop) {
    stmt_id def = schedule_at(m, loop)->first, red = def;
    while (red && schedule_at(m, red)->kind == STMT_DEF) red = schedule_at(m, red)->next;
    if (red == def || !red || schedule_at(m, red)->kind != STMT_LOOP) return 0;
    if (schedule_has_inner(m, red)) return 0;
    for (stmt_id s = schedule_at(m, red)->next; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind != STMT_STORE) return 0;
    return red;
}

/* Does a loop down columns, directly below the loop across them, read rows that are pages apart? */
static bool rows_distant(scheduler *m, stmt_id across, stmt_id down) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, down, &t);
    if (schedule_at(m, down)->kind != STMT_LOOP || schedule_trips(m, down) <= 2 * SLICE)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        int64_t one, step, size = (int64_t)qn_dtype_size(ir_m(m->k, t[i].mem)->dtype);
        if (!t[i].load || !schedule_is_arg(m, &t[i])) continue;
        if (!schedule_step(m, &t[i], schedule_at(m, across)->l.var, &one) || one != 1) continue;
        if (!schedule_step(m, &t[i], schedule_at(m, down)->l.var, &step)) continue;
        if (step * size * 16 >= m->limits->l1) return true;
    }
    return false;
}

/* A reduction down columns over distant rows goes in slices of few rows, all columns of a part at a
 * time, so that memory streams; partial results stay in memory (block_reduction). Names the loop
 * over blocks of the reduction. */
static bool slice_rows(scheduler *m, stmt_id loop, int id) {
    stmt_id red = only_reduction(m, loop);
    return red && rows_distant(m, loop, red) &&
           schedule_apply(m, "split %s %d -> s%d y%d", schedule_name(m, red), SLICE, id, id);
}

/* Is there more than that one reduction, and distant rows? Then one row at a time, all columns of a
 * part; what belongs to a column is computed beforehand. */
static bool whole_rows(scheduler *m, stmt_id loop) {
    bool far = false;
    for (stmt_id s = schedule_at(m, loop)->first; s; s = schedule_at(m, s)->next)
        far |= rows_distant(m, loop, s);
    if (!far || only_reduction(m, loop)) return false;
    for (stmt_id s = schedule_at(m, loop)->first; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP)
            schedule_apply(m, "hoist %s", schedule_name(m, s));
    return true;
}

/* Columns in parts whose results fit in the first-level cache; `c` names the loop over vectors, and
 * the loop over parts afterwards. */
static bool cut_parts(scheduler *m, char c[40], int id, int64_t bytes) {
    int64_t n = schedule_trips(m, schedule_find(m, c)), most = m->limits->l1 / 2 / bytes;
    int threads = m->limits->threads > 1 ? m->limits->threads : 1;
    int64_t part = (n + threads - 1) / threads;
    if (part > most) part = most;
    if (part < 1) part = 1;
    part = (n + (n + part - 1) / part - 1) / ((n + part - 1) / part); /* equal ones */
    if (!schedule_apply(m, "split %s %lld -> g%d z%d", c, (long long)part, id, id)) return false;
    snprintf(c, 40, "g%d", id);
    return true;
}

/* With slices of rows inside. */
static void block_slices(scheduler *m, char c[40], int number, int id, int bytes) {
    if (!cut_parts(m, c, id, bytes)) return;
    if (!schedule_apply(m, "block_reduction t%d s%d z%d", number, id, id)) return;
    schedule_apply(m, "split more_t %d -> u9%d v9%d", m->lanes, id, id);
    schedule_apply(m, "split wait_t %d -> u8%d v8%d", m->lanes, id, id);
}

/* Vectors across the reductions: the contiguous loop moves inside them. */
static bool columns(scheduler *m, loop_chain *c, int i) {
    loop_chain_inward(m, c, i);
    stmt_id loop = schedule_find(m, c->name[c->n - 1]);
    mem_id tile = 0;
    int64_t n = schedule_trips(m, loop);
    int id = m->next++, ops = schedule_ops(m, loop), chains = ops <= 12 ? 4 : ops <= 32 ? 2 : 1;
    int tiles = tiles_in(m, loop, &tile);
    while (chains > 1 && n < (int64_t)chains * m->lanes) chains /= 2;
    int step = chains * m->lanes, number = tile ? ir_tile_number(m->k, tile) : 0;
    int64_t exact;
    if (!tile) return false;
    bool sliced = slice_rows(m, loop, id), in_rows = !sliced && whole_rows(m, loop);
    bool whole =
        sym_is_const(m->k->syms, schedule_at(m, loop)->l.extent, &exact) && exact % step == 0;
    if (!whole && !schedule_apply(m, "pad %s %d", c->name[c->n - 1], step)) return false;
    if (!schedule_apply(m, "split %s %d -> c%d w%d", c->name[c->n - 1], step, id, id)) return false;
    schedule_apply(m, "split w%d %d -> u%d v%d", id, m->lanes, id, id);
    schedule_apply(m, "accumulate t%d v%d", number, id);
    schedule_apply(m, "accumulate t%d u%d", number, id);
    snprintf(c->name[c->n - 1], sizeof c->name[0], "c%d", id);
    if (sliced) block_slices(m, c->name[c->n - 1], number, id, 4 * step * tiles);
    if (in_rows && cut_parts(m, c->name[c->n - 1], id, 8 * step))
        schedule_apply(m, "accumulate t%d z%d", number, id);
    char lanes[24];
    snprintf(lanes, sizeof lanes, "v%d", id);
    schedule_gather_once(m, c->name[0], lanes);
    return true;
}

/* Accesses that are contiguous along a loop outside of the rows. Where rows are at least a vector
 * long only those in loops along the row count: one access a row is cheap. */
static int contiguous_across(scheduler *m, stmt_id body, sym var) {
    int n = 0;
    bool deep = false;
    for (stmt_id c = schedule_at(m, body)->first; c; c = schedule_at(m, c)->next) {
        if (schedule_at(m, c)->kind != STMT_LOOP) continue;
        deep |= schedule_trips(m, c) >= m->lanes;
        n += schedule_contiguous(m, c, var);
    }
    return deep ? n : schedule_contiguous(m, body, var);
}

/* Is the reduction's row a page or more behind the last one? */
static bool rows_in_pages(scheduler *m, stmt_id loop, stmt_id red) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, red, &t);
    for (uint32_t i = 0; i < n; i++) {
        int64_t down, size = (int64_t)qn_dtype_size(ir_m(m->k, t[i].mem)->dtype);
        if (t[i].load && schedule_is_arg(m, &t[i]) &&
            schedule_step(m, &t[i], schedule_at(m, loop)->l.var, &down) &&
            down * size >= m->limits->page)
            return true;
    }
    return false;
}

/* Process several long rows of one reduction at a time: memory streams from as many pages at once,
 * where the hardware prefetcher stops at each, and what all rows share is loaded once. */
static bool several_rows(scheduler *m, loop_chain *c) {
    stmt_id red = only_reduction(m, c->body);
    mem_id tile = 0;
    int id = m->next++;
    int64_t n;
    tiles_in(m, c->body, &tile);
    if (!red || !sym_is_const(m->k->syms, schedule_at(m, c->body)->l.extent, &n)) return false;
    if (n % ROWS || n < 8 * ROWS || !rows_in_pages(m, c->body, red)) return false;
    if (!schedule_apply(m, "split %s %d -> g%d u%d", c->name[c->n - 1], ROWS, id, id)) return false;
    char inner[40];
    snprintf(inner, sizeof inner, "u%d", id);
    snprintf(c->name[c->n - 1], sizeof c->name[0], "g%d", id);
    row_loops(m, schedule_find(m, inner), ROWS);
    schedule_apply(m, "accumulate t%d %s", ir_tile_number(m->k, tile), inner);
    for (mem_id i = 1; i < m->k->mems; i++) {
        const ir_memory *mem = ir_m(m->k, i);
        int64_t most = m->limits->memory_from * m->limits->l2 / (int64_t)qn_dtype_size(mem->dtype);
        if (mem->scope == MEM_ARG && mem->access == ACCESS_READ &&
            sym_lo(m->k->syms, mem->size) > most)
            schedule_apply(m, "prefetch_distance a%d %lld", mem->arg, (long long)m->limits->page);
    }
    return true;
}

static void rows(scheduler *m, stmt_id loop) {
    loop_chain c = loop_chain_of(m, loop);
    int outer = -1, most = 0;
    for (int i = 0; i < c.n; i++) {
        int n = contiguous_across(m, c.body, schedule_at(m, schedule_find(m, c.name[i]))->l.var);
        if (n > most) most = n, outer = i;
    }
    sym across = outer < 0 ? SYM_ZERO : schedule_at(m, schedule_find(m, c.name[outer]))->l.var;
    if (most > 0 && schedule_contiguous_inside(m, c.body, across) < most && columns(m, &c, outer)) {
        widen_root(m, &c, 0);
        parallel(m, c.name[0]);
        return;
    }
    if (schedule_pipeline(m, &c)) return;
    if (!several_rows(m, &c)) row_loops(m, c.body, 1);
    widen_root(m, &c, 0);
    parallel(m, c.name[0]);
}

/* ---- the end of every schedule --------------------------------------------------------------- */

/* Is that a loop over an rfactored tile's elements, "x_e", perhaps with a number? */
static bool over_tile_elements(const char *name) {
    for (const char *at = name; (at = strstr(at, "_e")); at++)
        if (!at[2 + strspn(at + 2, "_0123456789")]) return true;
    return false;
}

/* Does a serial loop run below s? Then unrolling s would only repeat that loop. */
static bool serial_inside(const scheduler *m, stmt_id s) {
    for (stmt_id c = s; (c = ir_next(m->k, c, s));)
        if (schedule_at(m, c)->kind == STMT_LOOP && schedule_at(m, c)->loop == LOOP_SERIAL &&
            schedule_name(m, c)[0] != 'u')
            return true;
    return false;
}

/* The largest number of copies that unrolling has made of a statement below s. */
static int64_t copies(const scheduler *m, stmt_id s) {
    int64_t most = 1;
    for (stmt_id c = schedule_at(m, s)->first; c; c = schedule_at(m, c)->next) {
        if (schedule_at(m, c)->kind != STMT_LOOP) continue;
        int64_t n = copies(m, c);
        if (schedule_at(m, c)->loop == LOOP_UNROLL) n *= schedule_trips(m, c);
        if (n > most) most = n;
    }
    return most;
}

/* Bind the loops by the first letters of their names, and innermost loops over a packed or
 * rfactored tile. */
static void bind_named(scheduler *m) {
    for (int pass = 0; pass < 2; pass++)
        for (stmt_id s = m->k->root; s; s = ir_next(m->k, s, m->k->root)) {
            if (s == m->k->root || schedule_at(m, s)->kind != STMT_LOOP ||
                schedule_at(m, s)->loop != LOOP_SERIAL)
                continue;
            const char *name = schedule_name(m, s);
            int64_t n = schedule_trips(m, s);
            if (!pass && !strncmp(name, "d900", 4)) {
                schedule_apply(m, "word %s", name);
            } else if (!pass && (name[0] == 'v' || over_tile_elements(name))) {
                if (n >= 1 && n <= m->lanes) schedule_apply(m, "vec %s", name);
            } else if (pass && name[0] == 'u' && !over_tile_elements(name) && n <= 32 &&
                       !serial_inside(m, s) && n * copies(m, s) <= MOST_COPIES) {
                schedule_apply(m, "unroll %s", name);
            }
        }
}

/* What is larger than half of the last-level cache would only evict what is needed sooner. Of a
 * cache that many cores share, a program has a part. */
bool schedule_past_caches(const scheduler *m, mem_id i) {
    int64_t most = m->limits->l3 ? m->limits->l3 / 2 : (int64_t)16 << 20;
    const ir_memory *mem = ir_m(m->k, i);
    if (most > PART_OF_L3) most = PART_OF_L3;
    return mem->scope == MEM_ARG && mem->access == ACCESS_WRITE &&
           sym_lo(m->k->syms, mem->size) >= most / (int64_t)qn_dtype_size(mem->dtype);
}

static void bypass_caches(scheduler *m) {
    for (mem_id i = 1; i < m->k->mems; i++)
        if (schedule_past_caches(m, i)) schedule_apply(m, "nontemporal a%d", ir_m(m->k, i)->arg);
}

/* For a processor: vectors and threads. */
static void schedule_threads(scheduler *m) {
    stmt_id roots[16];
    int n = 0;
    for (stmt_id s = schedule_at(m, m->k->root)->first; s && n < 16; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP) roots[n++] = s;
    for (int i = 0; i < n; i++) {
        loop_chain c = loop_chain_of(m, roots[i]);
        if (!schedule_has_inner(m, c.body)) {
            mem_id tile[SCHEDULE_TILES];
            if (schedule_reduced_tiles(m, c.body, tile))
                row_loops(m, m->k->root, 1), i = n;
            else
                elementwise(m, roots[i]);
        } else if (n > 1 ||
                   !(schedule_attention(m, roots[i]) || schedule_convolution(m, roots[i]) ||
                     schedule_contraction(m, roots[i]))) {
            rows(m, roots[i]);
        }
    }
    bind_named(m);
    if (m->copy[0]) schedule_apply(m, "prefetch_next %s %s", m->copy, m->use);
    bypass_caches(m);
}

static void close_clone(void *m) {
    ir_close(((scheduler *)m)->k);
}

void schedule_default(const kernel *k, const machine *limits, str *out) {
    scheduler m = {.k = ir_clone(k), .limits = limits, .out = out};
    cleanup c;
    cleanup_push(&k->ctx->heap, &c, close_clone, &m);
    m.lanes = schedule_lanes(&m);
    if (limits->members < 2) {
        schedule_threads(&m);
    } else {
        uint32_t before = out->len;
        schedule_workgroups(&m, false);
        if (ir_shared_bytes(m.k) > limits->group_bytes) { /* buffered rows that are too long */
            ir_close(m.k);
            m.k = NULL;
            m.k = ir_clone(k);
            if (out->s) out->s[out->len = before] = 0;
            schedule_workgroups(&m, true);
        }
    }
    cleanup_run(&k->ctx->heap, &c);
}
