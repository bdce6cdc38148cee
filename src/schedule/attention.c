/* attention.c - the default schedule of rows with matrix products inside them: attention and its
 * gradients.
 *
 * For each of its rows (a query) such a kernel computes a row of scores by one product, statistics
 * of that row (maximum, sum), and from it the row's result by another product. The scores of a row
 * are a tile and never reach memory. The schedule takes a block of rows at once, each row a lane of
 * vectors:
 *
 *   split i -> b u v     v the lanes, u the vectors of a block, b the blocks, which are parallel
 *   accumulate t v, t u  every tile is expanded over the block
 *   transform_layout t   rows of the block interleaved, so that an iteration of a loop inside a row
 *                        reads whole vectors
 *   fission v, fission u each statement of a row becomes a nest over the block
 *
 * In a nest the block's loops move inside. Where it is a product, a few of its iterations are
 * combined into a register tile of mr iterations x u vectors, whose operands are a vector of rows
 * and a broadcast scalar. So nothing is packed but what varies by row and is strided (stage), once
 * a block. Nothing of the softmax crosses lanes. */
#include <stdio.h>

#include "schedule/schedule.h"

enum {
    BLOCK_VECTORS = 2, /* of rows in a block, twice as many where that saves much traffic */
    TILE_VECTORS = 16, /* of a product's register tile, at most */
    PRODUCT_TRIPS = 8, /* iterations of a product's loop in a register tile, at most */
    LEAF_TRIPS = 4,    /* iterations of other loops taken together */
    LEAST_DEPTH = 4,   /* of a sum to count as a product */
    L1_SHARE = 3,      /* part of the first-level cache for what one nest passes to the next */
    MOST_NESTS = 64
};

typedef struct row_nest {
    char root[40];   /* the outermost loop, below the blocks */
    char sum[8][40]; /* of a product: its sums */
    char row[40];    /* a loop along the row with more than a product in it; "": none */
    int sums, step;  /* step: iterations of a row's loop in one of the root; 0: unknown */
    bool slices;     /* the root iterates over slices of the row */
    bool shared;     /* adds to elements shared by the rows */
} row_nest;

typedef struct block {
    scheduler *m;
    int rows, trips;   /* rows of a block; iterations of a product's loop in a register tile */
    char u[40], v[40]; /* names of the block's loops in the current nest */
    row_nest nest[MOST_NESTS];
    int nests;
} block;

static bool divides(const scheduler *m, int n, stmt_id loop) {
    sym_store *s = m->k->syms;
    return sym_mod(s, schedule_at(m, loop)->l.extent, sym_const(s, n)) == SYM_ZERO;
}

/* Pad the loop's extent to a multiple. */
static bool pad_extent(scheduler *m, const char *loop, int multiple) {
    return divides(m, multiple, schedule_find(m, loop)) ||
           schedule_apply(m, "pad %s %d", loop, multiple);
}

static bool is_product_sum(const scheduler *m, stmt_id s) {
    const ir_stmt *x = schedule_at(m, s);
    if (x->kind != STMT_STORE || x->monoid != MONOID_SUM) return false;
    const ir_expr *e = ir_e(m->k, x->store.value[0]);
    return e->kind == EXPR_OP && e->op == OP_MUL;
}

/* Is there a contraction inside the loop, in a tile of its own? */
static bool has_product(const scheduler *m, stmt_id loop) {
    for (stmt_id s = loop; (s = ir_next(m->k, s, loop));) {
        if (!is_product_sum(m, s)) continue;
        stmt_id r = schedule_at(m, s)->parent, in = schedule_at(m, r)->parent;
        if (r == loop || !ir_inside(m->k, in, loop) || schedule_trips(m, r) < LEAST_DEPTH) continue;
        for (stmt_id d = schedule_at(m, in)->first; d; d = schedule_at(m, d)->next)
            if (schedule_at(m, d)->kind == STMT_DEF &&
                schedule_at(m, d)->def.mem == schedule_at(m, s)->store.mem[0])
                return true;
    }
    return false;
}

/* Is the body one of rows: several loops, at least one with a product? */
static bool is_block(const scheduler *m, const loop_chain *c) {
    bool product = false;
    int loops = 0;
    for (stmt_id s = schedule_at(m, c->body)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        product |= has_product(m, s);
        loops++;
    }
    return product && loops > 1;
}

/* Expand all tiles of a row over the block; false where that is not legal. A row may have none,
 * where all it reads is in memory. */
static bool expand_tiles(block *b, stmt_id row, int rows) {
    scheduler *m = b->m;
    mem_id tile[64];
    sym size[64];
    int n = 0;
    for (stmt_id s = schedule_at(m, row)->first; s && n < 64; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_DEF) continue;
        tile[n] = schedule_at(m, s)->def.mem;
        size[n++] = ir_m(m->k, schedule_at(m, s)->def.mem)->size;
    }
    if (!n) return true;
    int first = ir_tile_number(m->k, tile[0]);
    if (!schedule_apply(m, "accumulate t%d %s", first, b->v)) return false;
    if (!schedule_apply(m, "accumulate t%d %s", first, b->u)) return false;
    for (int i = 0; i < n; i++)
        if (size[i] != SYM_ONE)
            schedule_apply(m, "transform_layout t%d %d", ir_tile_number(m->k, tile[i]), rows);
    return true;
}

/* Move the block's loops, outermost in this nest, as far inside as is legal. */
static loop_chain sink(block *b, stmt_id nest) {
    scheduler *m = b->m;
    loop_chain c = loop_chain_of(m, nest);
    snprintf(b->u, sizeof b->u, "%s", c.name[0]);
    snprintf(b->v, sizeof b->v, "%s", c.name[1]);
    int v = 1;
    while (v + 1 < c.n && loop_chain_swap(m, &c, v)) v++;
    for (int u = 0; u + 1 < v && loop_chain_swap(m, &c, u);) u++;
    c.body = schedule_find(m, c.name[c.n - 1]);
    return c;
}

/* What varies by row and is strided in memory is staged and transposed, once a block. */
static void stage_rows(scheduler *m, const char *where, const char *sum) {
    ir_access *t;
    stmt_id loop = schedule_find(m, sum);
    uint32_t n = ir_accesses(m->k, loop, &t);
    loop_chain nest = loop_chain_of(m, loop);
    if (nest.n < 3) return;
    const char *u = nest.name[nest.n - 2], *v = nest.name[nest.n - 1];
    for (uint32_t i = 0; i < n; i++) {
        int64_t across, along;
        if (!t[i].load || !schedule_is_arg(m, &t[i]) || t[i].dyn) continue;
        if (!schedule_step(m, &t[i], schedule_at(m, schedule_find(m, v))->l.var, &across)) continue;
        if (across == 0 || across == 1) continue;
        bool turns = schedule_step(m, &t[i], schedule_at(m, loop)->l.var, &along) && along == 1;
        int arg = ir_m(m->k, t[i].mem)->arg;
        if (!schedule_apply(m, "stage a%d %s %s %s %s", arg, where, sum, u, v)) continue;
        loop_chain c;
        if (!turns || !schedule_staged(m, where, &c)) continue;
        if (c.n == 3) schedule_copy_across(m, &c, 0);
    }
}

/* A result that is contiguous along the product's loop is transposed in registers, so that whole
 * pieces of rows are stored instead of single lanes. */
static void transpose_result(const block *b, stmt_id product) {
    scheduler *m = b->m;
    stmt_id end = schedule_at(m, product)->last;
    if (!end || schedule_at(m, end)->kind != STMT_LOOP || b->trips > m->lanes) return;
    if (2 * b->trips < m->lanes) return; /* pieces so small cost more than scalar stores */
    loop_chain c = loop_chain_of(m, end);
    ir_access *t;
    int64_t across, along;
    if (c.n != 3 || schedule_trips(m, end) != b->trips) return;
    stmt_id store = schedule_at(m, c.body)->first;
    uint32_t n = ir_accesses(m->k, c.body, &t);
    if (!n || store != schedule_at(m, c.body)->last || schedule_at(m, store)->kind != STMT_STORE)
        return;
    const ir_access *to = &t[n - 1];
    if (to->load || !schedule_is_arg(m, to) || to->dyn ||
        !schedule_step(m, to, schedule_at(m, c.body)->l.var, &across) || across == 1 ||
        !schedule_step(m, to, schedule_at(m, end)->l.var, &along) || along != 1 ||
        !schedule_apply(m, "swap %s %s", c.name[0], c.name[1]) ||
        !schedule_apply(m, "transpose %s %s", c.name[0], c.name[2]))
        return;
    stmt_id back = schedule_at(m, schedule_find(m, c.name[0]))->next;
    char column[40], row[40];
    snprintf(column, sizeof column, "%s", schedule_name(m, back));
    snprintf(row, sizeof row, "%s", schedule_name(m, schedule_at(m, back)->first));
    schedule_apply(m, "vec %s", row);
    schedule_apply(m, "unroll %s", column);
}

/* A register tile of the innermost loop's iterations by the block; then its operands. */
static void product_nest(block *b, row_nest *p, const loop_chain *c, int inner, const char *where) {
    scheduler *m = b->m;
    stmt_id body = schedule_find(m, b->v);
    int id = m->next++, number = 0;
    for (stmt_id s = schedule_at(m, body)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind == STMT_DEF) {
            number = ir_tile_number(m->k, schedule_at(m, s)->def.mem);
        } else if (schedule_at(m, s)->kind == STMT_LOOP && p->sums < 8) {
            snprintf(p->sum[p->sums++], sizeof p->sum[0], "%s", schedule_name(m, s));
        }
    }
    int trips = b->trips;
    char u[24];
    snprintf(u, sizeof u, "u%d", id);
    if (!pad_extent(m, c->name[inner], trips)) return;
    if (!schedule_apply(m, "split %s %d -> o%d %s", c->name[inner], trips, id, u)) return;
    if (!schedule_apply(m, "accumulate t%d %s", number, b->v)) return;
    schedule_apply(m, "accumulate t%d %s", number, b->u);
    schedule_apply(m, "accumulate t%d %s", number, u);
    for (int i = 0; i < p->sums; i++) {
        schedule_apply(m, "trim %s", p->sum[i]);
        stage_rows(m, where, p->sum[i]);
    }
    snprintf(p->root, sizeof p->root, "o%d", id);
    p->step = inner == 0 ? trips : 0;
    transpose_result(b, schedule_find(m, p->root));
}

/* Behind a product, as many iterations as the product takes, so that the two nests can be fused. */
static void leaf_nest(block *b, row_nest *p, const loop_chain *c, int inner, bool behind_product) {
    scheduler *m = b->m;
    int id = m->next++, trips = behind_product ? b->trips : LEAF_TRIPS;
    int64_t n = schedule_trips(m, schedule_find(m, c->name[inner]));
    if (n < trips) return;
    if (!schedule_apply(m, "split %s %d -> o%d u%d", c->name[inner], trips, id, id)) return;
    snprintf(p->root, sizeof p->root, "o%d", id);
    if (inner == 0) snprintf(p->row, sizeof p->row, "o%d", id);
    p->step = inner == 0 ? trips : 0;
}

static bool is_product_nest(const block *b, const row_nest *p) {
    return has_product(b->m, schedule_find(b->m, p->root));
}

/* Terms of elements that the rows share (the gradient of queries, where a row is a key): a block's
 * are added up in a register tile of iterations by vectors, reduced over the rows. */
static bool shares_element(const block *b, stmt_id body) {
    const scheduler *m = b->m;
    const ir_stmt *x = schedule_at(m, schedule_at(m, body)->first);
    if (x->kind != STMT_STORE || x->monoid == MONOID_SET || x->next) return false;
    return !sym_uses(m->k->syms, x->store.index, schedule_at(m, schedule_find(m, b->u))->l.var) &&
           !sym_uses(m->k->syms, x->store.index, schedule_at(m, schedule_find(m, b->v))->l.var);
}

/* Split the loop into vectors, padded to whole ones: "u.. v..", the loop over vectors first. */
static bool split_lanes(scheduler *m, const char *loop, int vectors, int id) {
    int n = vectors * m->lanes;
    return pad_extent(m, loop, n) && schedule_apply(m, "split %s %d -> d%d w%d", loop, n, id, id) &&
           schedule_apply(m, "split w%d %d -> u%d v%d", id, m->lanes, id, id);
}

static void shared_nest(block *b, row_nest *p, const loop_chain *c) {
    scheduler *m = b->m;
    const char *along = c->name[0], *across = c->name[1];
    int id = m->next++, by = m->next++;
    if (c->n != 4) return;
    schedule_apply(m, "trim %s", along);
    if (!schedule_apply(m, "privatize %s", b->u)) return;
    int vectors = schedule_trips(m, schedule_find(m, across)) > m->lanes ? BLOCK_VECTORS : 1;
    char sum[24];
    snprintf(sum, sizeof sum, "r%d", id);
    if (!schedule_apply(m, "merge %s %s -> %s", b->u, b->v, sum)) return;
    if (!pad_extent(m, along, b->trips) ||
        !schedule_apply(m, "split %s %d -> o%d u%d", along, b->trips, id, id) ||
        !split_lanes(m, across, vectors, by) || !schedule_apply(m, "swap u%d d%d", id, by))
        return;
    char loop[3][24];
    snprintf(loop[0], sizeof loop[0], "v%d", by);
    snprintf(loop[1], sizeof loop[1], "u%d", by);
    snprintf(loop[2], sizeof loop[2], "u%d", id);
    stmt_id body = schedule_find(m, loop[0]);
    int tile = ir_tile_number(m->k, schedule_at(m, schedule_at(m, body)->first)->def.mem);
    for (int i = 0; i < 3; i++) schedule_apply(m, "accumulate t%d %s", tile, loop[i]);
    snprintf(p->sum[p->sums++], sizeof p->sum[0], "%s", sum);
    snprintf(p->root, sizeof p->root, "o%d", id);
    p->step = b->trips;
    p->shared = true;
}

static void block_nest(block *b, int number, const char *where) {
    row_nest *p = &b->nest[number];
    bool behind = number && is_product_nest(b, p - 1);
    loop_chain c = sink(b, schedule_find(b->m, p->root));
    snprintf(p->root, sizeof p->root, "%s", c.name[0]);
    int inner = -1;
    for (int i = 0; i < c.n; i++)
        if (strcmp(c.name[i], b->u) != 0 && strcmp(c.name[i], b->v) != 0) inner = i;
    bool sunk = c.n > 2 && !strcmp(c.name[c.n - 1], b->v) && !strcmp(c.name[c.n - 2], b->u);
    if (inner < 0 || !sunk) return;
    schedule_apply(b->m, "trim %s", c.name[inner]);
    if (schedule_at(b->m, schedule_at(b->m, c.body)->first)->kind == STMT_DEF)
        product_nest(b, p, &c, inner, where);
    else if (shares_element(b, c.body))
        shared_nest(b, p, &c);
    else if (!schedule_has_inner(b->m, c.body))
        leaf_nest(b, p, &c, inner, behind);
}

/* ---- between nests --------------------------------------------------------------------------- */

static void drop_nest(block *b, int i) {
    memmove(&b->nest[i], &b->nest[i + 1], (size_t)(--b->nests - i) * sizeof b->nest[0]);
}

/* Fuse neighbours that take the same number of iterations at once: a statistic is computed from
 * scores that are still in registers or in the first-level cache. */
static void fuse_neighbours(block *b) {
    for (int i = 0; i + 1 < b->nests;) {
        row_nest *p = &b->nest[i], *next = p + 1;
        bool fits = p->step && p->step == next->step && !next->sums && !p->shared;
        if (fits && schedule_apply(b->m, "fuse %s %s", p->root, next->root)) {
            memcpy(p->row, p->root, sizeof p->row);
            drop_nest(b, i + 1);
        } else {
            i++;
        }
    }
}

/* Vectorize the loops that block_reduction made to move partial sums. */
static void vectorize_moves(scheduler *m, stmt_id slices) {
    char move[8][40];
    int n = 0;
    for (stmt_id s = slices; (s = ir_next(m->k, s, slices)) && n < 8;) {
        const char *name = schedule_name(m, schedule_at(m, s)->kind == STMT_LOOP ? s : slices);
        bool moves = !strncmp(name, "more", 4) || !strncmp(name, "wait", 4);
        stmt_id in = schedule_at(m, s)->kind == STMT_LOOP && moves ? schedule_at(m, s)->first : 0;
        if (in && schedule_at(m, in)->kind == STMT_LOOP)
            snprintf(move[n++], sizeof move[0], "%s", schedule_name(m, in));
    }
    for (int i = 0; i < n; i++) {
        int id = m->next++;
        schedule_apply(m, "split %s %d -> u%d v%d", move[i], m->lanes, id, id);
    }
}

static int tile_of(const scheduler *m, stmt_id body) {
    for (stmt_id s = schedule_at(m, body)->first; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_DEF)
            return ir_tile_number(m->k, schedule_at(m, s)->def.mem);
    return -1;
}

/* Split the nest's iterations into slices of a row. */
static bool cut_root(block *b, row_nest *p, int64_t slice) {
    scheduler *m = b->m;
    int id = m->next++;
    if (!schedule_apply(m, "split %s %lld -> e%d f%d", p->root, (long long)slice / p->step, id, id))
        return false;
    if (p->row[0]) snprintf(p->row, sizeof p->row, "f%d", id);
    snprintf(p->root, sizeof p->root, "e%d", id);
    p->step = 0;
    p->slices = true;
    return true;
}

/* A product that reduces over a long row, and the nest in front that computes the row, iterate over
 * slices of it together: a slice is computed, reduced and dead while it is in the first-level
 * cache. */
static void slice_nest(block *b, int i, int64_t slice) {
    scheduler *m = b->m;
    row_nest *p = &b->nest[i], *made = p - 1;
    if (p->shared && made->slices && slice % p->step == 0) cut_root(b, p, slice);
    if (p->shared || p->sums != 1 || !made->step || slice % made->step) return;
    if (schedule_trips(m, schedule_find(m, p->sum[0])) < 2 * slice) return;
    int id = m->next++, tile = tile_of(m, schedule_find(m, p->root));
    if (!schedule_apply(m, "split %s %lld -> c%d r%d", p->sum[0], (long long)slice, id, id)) return;
    snprintf(p->sum[0], sizeof p->sum[0], "r%d", id);
    if (!schedule_apply(m, "block_reduction t%d c%d %s", tile, id, p->root)) return;
    snprintf(p->root, sizeof p->root, "c%d", id);
    p->slices = true;
    p->step = 0;
    vectorize_moves(m, schedule_find(m, p->root));
    cut_root(b, made, slice);
}

static void slice_rows(block *b, const char *rows) {
    scheduler *m = b->m;
    int64_t l1 = m->limits->l1 ? m->limits->l1 : 32 << 10, slice = PRODUCT_TRIPS;
    int64_t row = (int64_t)b->rows * (m->limits->vector_bytes / m->lanes);
    while (2 * slice * row * L1_SHARE <= l1) slice *= 2;
    for (int i = 1; i < b->nests; i++) slice_nest(b, i, slice);
    for (int i = 0; i + 1 < b->nests;) {
        row_nest *p = &b->nest[i], *next = p + 1;
        if (!p->slices || !next->slices || !schedule_apply(m, "fuse %s %s", p->root, next->root)) {
            i++;
            continue;
        }
        for (int j = 0; j < next->sums && p->sums < 8; j++)
            snprintf(p->sum[p->sums++], sizeof p->sum[0], "%s", next->sum[j]);
        drop_nest(b, i + 1);
    }
    int tile[64], n = 0;
    for (stmt_id s = schedule_at(m, schedule_find(m, rows))->first; s && n < 64;
         s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_DEF)
            tile[n++] = ir_tile_number(m->k, schedule_at(m, s)->def.mem);
    for (int i = 0; i < b->nests; i++)
        for (int j = 0; j < n && b->nest[i].slices; j++)
            schedule_apply(m, "fold_storage t%d %s", tile[j], b->nest[i].root);
}

/* Merge the loops around the rows with the loop over blocks, and make the result parallel. */
static void parallelize_blocks(scheduler *m, loop_chain *c) {
    char root[40];
    snprintf(root, sizeof root, "%s", c->name[0]);
    for (int i = 1; i < c->n; i++) {
        char merged[40];
        snprintf(merged, sizeof merged, "p%d", m->next++);
        if (!schedule_apply(m, "merge %s %s -> %s", root, c->name[i], merged)) break;
        snprintf(root, sizeof root, "%s", merged);
    }
    if (schedule_trips(m, schedule_find(m, root)) > 1) schedule_apply(m, "par %s", root);
}

/* Bytes of arguments that each block of rows reads again. */
static double reread_bytes(const scheduler *m, stmt_id rows) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, rows, &t);
    double bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        sym row = schedule_at(m, rows)->l.var;
        if (!t[i].load || !schedule_is_arg(m, &t[i]) || sym_uses(m->k->syms, t[i].index, row))
            continue;
        double size = (double)qn_dtype_size(ir_m(m->k, t[i].mem)->dtype);
        for (stmt_id l = t[i].at; l != rows; l = schedule_at(m, l)->parent)
            if (schedule_at(m, l)->kind == STMT_LOOP &&
                sym_uses(m->k->syms, t[i].index, schedule_at(m, l)->l.var))
                size *= (double)schedule_trips(m, l);
        bytes += size;
    }
    return bytes;
}

/* Larger blocks where what each block reads again does not stay in the second-level cache. */
static int block_vectors(const scheduler *m, stmt_id rows) {
    int64_t trips = schedule_trips(m, rows);
    if (trips <= m->lanes) return 1;
    bool far = m->limits->l2 && reread_bytes(m, rows) >= (double)m->limits->l2;
    return far && trips >= 8 * BLOCK_VECTORS * m->lanes ? 2 * BLOCK_VECTORS : BLOCK_VECTORS;
}

/* Find the loops down to the rows. Where something is shared by all rows, they are a loop beside
 * the statements that use it. false: there are none. */
static bool find_rows(const scheduler *m, stmt_id loop, loop_chain *c) {
    *c = loop_chain_of(m, loop);
    for (stmt_id s = schedule_at(m, c->body)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        loop_chain in = loop_chain_of(m, s);
        if (!is_block(m, &in) || c->n + in.n > LOOP_CHAIN) continue;
        memcpy(c->name[c->n], in.name[0], (size_t)in.n * sizeof in.name[0]);
        c->n += in.n;
        c->body = in.body;
        return true;
    }
    return is_block(m, c);
}

/* Vectorize the statements beside the rows. */
static void beside_rows(scheduler *m, const char *rows) {
    stmt_id around = schedule_at(m, schedule_find(m, rows))->parent;
    char name[8][40];
    int n = 0;
    for (stmt_id s = schedule_at(m, around)->first; s && n < 8; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP && strcmp(schedule_name(m, s), rows) != 0)
            snprintf(name[n++], sizeof name[0], "%s", schedule_name(m, s));
    for (int i = 0; i < n; i++) {
        loop_chain c = loop_chain_of(m, schedule_find(m, name[i]));
        int id = m->next++;
        if (schedule_has_inner(m, c.body)) continue;
        schedule_apply(m, "split %s %d -> u%d v%d", c.name[c.n - 1], m->lanes, id, id);
    }
}

bool schedule_attention(scheduler *m, stmt_id loop) {
    loop_chain c;
    block b = {.m = m, .rows = m->lanes};
    if (!find_rows(m, loop, &c)) return false;
    char *rows = c.name[c.n - 1];
    int64_t trips = schedule_trips(m, c.body);
    if (trips < m->lanes / 2) return false;
    int vectors = block_vectors(m, c.body), block_rows = vectors * m->lanes, id = m->next++;
    b.rows = block_rows;
    b.trips = TILE_VECTORS / vectors < PRODUCT_TRIPS ? TILE_VECTORS / vectors : PRODUCT_TRIPS;
    if (!pad_extent(m, rows, block_rows)) return false;
    snprintf(b.u, sizeof b.u, "u%d", id);
    snprintf(b.v, sizeof b.v, "v%d", id);
    if (!schedule_apply(m, "split %s %d -> b%d w%d", rows, block_rows, id, id)) return false;
    snprintf(rows, sizeof c.name[0], "b%d", id);
    schedule_apply(m, "split w%d %d -> %s %s", id, m->lanes, b.u, b.v);
    if (expand_tiles(&b, schedule_find(m, b.v), block_rows) && schedule_apply(m, "fission %s", b.v))
        schedule_apply(m, "fission %s", b.u);
    for (stmt_id s = schedule_at(m, schedule_find(m, rows))->first; s && b.nests < MOST_NESTS;
         s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP)
            snprintf(b.nest[b.nests++].root, sizeof b.nest[0].root, "%s", schedule_name(m, s));
    for (int i = b.nests; i--;) block_nest(&b, i, rows);
    for (int i = 0; i < b.nests; i++) /* not before the loops that read them are trimmed */
        if (b.nest[i].shared) schedule_apply(m, "trim %s", b.nest[i].sum[0]);
    fuse_neighbours(&b);
    slice_rows(&b, rows);
    for (int i = 0; i < b.nests; i++) {
        for (int j = 0; j < b.nest[i].sums; j++) schedule_apply(m, "peel %s", b.nest[i].sum[j]);
        if (b.nest[i].row[0]) schedule_apply(m, "peel %s", b.nest[i].row);
    }
    if (schedule_at(m, schedule_find(m, rows))->parent != m->k->root) beside_rows(m, rows);
    parallelize_blocks(m, &c);
    return true;
}
