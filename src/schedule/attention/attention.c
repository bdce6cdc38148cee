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
 * a block. Nothing of the softmax crosses lanes.
 *
 * The planner (plan/attention.c) relies on it: what it makes a kernel of blocks is to be scheduled
 * so, and not as loops around a sum, which would add one term at a time. So
 *
 *   - rows, keys and sums may be of several axes, as the [batch, time] rows of a loss, over which
 *     the gradient of what they share is summed. Loops that go through memory as one become one
 *     first (merge); a product may be summed by several loops in any case;
 *   - a statistic may be one of values in memory, and be stored. Then accumulate has the loops over
 *     the block inside of its own already, so each nest finds them where they are. */
#include "schedule/schedule.h"

enum {                    /* of the algorithm, not of a machine */
       BLOCK_VECTORS = 2, /* of rows in a block, twice as many where that saves much traffic */
       PRODUCT_TRIPS = 8, /* iterations of a product's loop in a register tile, at most */
       LEAF_TRIPS = 4,    /* iterations of other loops taken together */
       LEAST_DEPTH = 4,   /* of a sum to count as a product */
       MOST_NESTS = 64
};

typedef struct row_nest {
    loop_h root;          /* the outermost loop, below the blocks */
    loop_h sum[8];        /* of a product: its sums */
    loop_h row[8];        /* loops along the row with more than a product in them */
    int sums, rows, step; /* step: iterations of a row's loop in one of the root; 0: unknown */
    bool slices;          /* the root iterates over slices of the row */
    bool shared;          /* adds to elements shared by the rows */
} row_nest;

typedef struct block {
    scheduler *m;
    int rows, trips; /* rows of a block; iterations of a product's loop in a register tile */
    loop_h u, v;     /* the block's loops in the current nest */
    int64_t slice;   /* of a row, where it is too long to be in a tile: all nests go by slices */
    row_nest nest[MOST_NESTS];
    int nests;
} block;

/* Pad the loop's extent to a multiple. */
static bool pad_extent(scheduler *m, loop_h l, int multiple) {
    sym_store *s = m->k->syms;
    return sym_mod(s, extent_of(m, l), sym_const(s, multiple)) == SYM_ZERO ||
           step_pad(maybe(m), l, multiple);
}

/* Split the loop into as many iterations taken together, which are unrolled. */
static loop2 split_tile(scheduler *m, loop_h l, int trips) {
    loop2 t = step_split(m, l, trips, "o", "u");
    step_want(m, t.inner, WANT_UNROLL);
    return t;
}

/* Does the value follow the row: by an index, or as a tile of the row's? */
static bool of_row(const scheduler *m, stmt_id row, expr_id value) {
    for (stmt_id s = schedule_at(m, row)->first; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_DEF &&
            ir_expr_reads(m->k, value, schedule_at(m, s)->def.mem))
            return true;
    return ir_expr_uses(m->k, value, schedule_at(m, row)->l.var);
}

/* Is it a loop around one statement? */
static bool does_one_thing(const scheduler *m, stmt_id s) {
    const ir_stmt *x = schedule_at(m, s);
    return x->kind == STMT_LOOP && x->first == x->last;
}

static bool defined_inside(const scheduler *m, stmt_id loop, mem_id tile) {
    for (stmt_id s = loop; (s = ir_next(m->k, s, loop));)
        if (schedule_at(m, s)->kind == STMT_DEF && schedule_at(m, s)->def.mem == tile) return true;
    return false;
}

/* Is there a contraction inside the loop, in a tile of its own, of something that all rows share?
 * A sum of a row's own squares is none, nor that of a head's values by the weights of its only
 * query: there lanes go along the row. Row 0: of anything. */
static bool has_product(const scheduler *m, stmt_id loop, stmt_id row) {
    for (stmt_id s = loop; (s = ir_next(m->k, s, loop));) {
        expr_id factor[2];
        if (!ir_adds_product(m->k, s, factor)) continue;
        if (row && of_row(m, row, factor[0]) && of_row(m, row, factor[1])) continue;
        stmt_id in = schedule_at(m, s)->parent;
        bool deep = false;
        while (in != loop) { /* a sum, of several loops perhaps */
            deep |= schedule_trips(m, in) >= LEAST_DEPTH;
            in = schedule_at(m, in)->parent;
            if (!does_one_thing(m, in)) break;
        }
        if (deep && defined_inside(m, in, schedule_at(m, s)->store.mem[0])) return true;
    }
    return false;
}

/* Is the body a row of attention: several loops, at least one with a product? */
static bool is_attention_row(const scheduler *m, const loop_chain *c) {
    bool product = false;
    int loops = 0;
    for (stmt_id s = schedule_at(m, c->body)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        product |= has_product(m, s, c->body);
        loops++;
    }
    return product && loops > 1;
}

/* The first tile that is defined in the body, 0: none. */
static mem_id tile_of(const scheduler *m, stmt_id body) {
    for (stmt_id s = schedule_at(m, body)->first; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_DEF) return schedule_at(m, s)->def.mem;
    return 0;
}

/* Expand all tiles of a row over the block, which is all that `rows` holds; false where that is not
 * legal. A row may have none, where all it reads is in memory. */
static bool expand_tiles(block *b, stmt_id rows) {
    scheduler *m = b->m;
    mem_id tile = tile_of(m, stmt_of(m, b->v));
    if (!tile) return true;
    if (!step_accumulate(maybe(m), tile, b->v).done) return false;
    if (!step_accumulate(maybe(m), tile, b->u).done) return false;
    for (stmt_id s = schedule_at(m, rows)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_DEF) continue;
        tile = schedule_at(m, s)->def.mem;
        if (ir_m(m->k, tile)->size != sym_const(m->k->syms, b->rows))
            step_transform_layout(m, tile, b->rows);
    }
    return true;
}

/* Move the block's loops as far inside as is legal. They are outermost in this nest, or inside of
 * loops along the row which make no tile, where accumulate has put them. */
static loop_chain sink(block *b, stmt_id nest) {
    scheduler *m = b->m;
    loop_chain c = loop_chain_of(m, nest);
    int v = 1;
    while (v + 1 < c.n && schedule_at(m, stmt_of(m, c.loop[v]))->l.want != WANT_VEC) v++;
    int u = v - 1;
    b->u = c.loop[u];
    b->v = c.loop[v];
    while (v + 1 < c.n && loop_chain_swap(m, &c, v)) v++;
    while (u + 1 < v && loop_chain_swap(m, &c, u)) u++;
    c.body = stmt_of(m, c.loop[c.n - 1]);
    return c;
}

/* What varies by row and is strided in memory is staged and transposed, once a block. */
static void stage_rows(scheduler *m, loop_h where, loop_h sum) {
    ir_access *t;
    stmt_id loop = stmt_of(m, sum);
    uint32_t n = ir_accesses(m->k, loop, &t);
    loop_chain nest = loop_chain_of(m, loop);
    if (nest.n < 3) return;
    loop_h u = nest.loop[nest.n - 2], v = nest.loop[nest.n - 1];
    for (uint32_t i = 0; i < n; i++) {
        int64_t across, along;
        if (!t[i].load || !schedule_is_arg(m, &t[i]) || t[i].dyn) continue;
        if (!schedule_step(m, &t[i], var_of(m, v), &across)) continue;
        if (across == 0 || across == 1) continue;
        bool along_sum = schedule_step(m, &t[i], var_of(m, sum), &along) && along == 1;
        stage_axes axes = {0};
        stage_axis(&axes, sum, false);
        stage_axis(&axes, u, false);
        stage_axis(&axes, v, false);
        loop_chain c = step_stage(maybe(m), t[i].mem, where, &axes, -1).copy;
        if (along_sum && c.n == 3) schedule_copy_across(m, &c, 0);
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
        !step_swap(maybe(m), c.loop[0], c.loop[1]))
        return;
    made_transpose back = step_transpose(maybe(m), c.loop[0], c.loop[2]);
    step_bind(m, back.inner, LOOP_VEC);
    step_bind(m, back.outer, LOOP_UNROLL);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Does the loop go along the row: is its variable in an index of a tile around it? */
static bool along_row(const scheduler *m, loop_h l) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, stmt_of(m, l), &t);
    for (uint32_t i = 0; i < n; i++)
        if (!schedule_is_arg(m, &t[i]) && sym_uses(m->k->syms, t[i].index, var_of(m, l)) &&
            !defined_inside(m, stmt_of(m, l), t[i].mem))
            return true;
    return false;
}

/* Split a loop along the row into slices, if rows go by slices; null: they do not. It is padded to
 * whole ones, so that all nests take the same, and trimmed to those that do something. */
static loop2 split_slices(block *b, loop_h l, const char *outer, const char *inner) {
    if (!b->slice || !along_row(b->m, l) || !pad_extent(b->m, l, (int)b->slice)) return (loop2){0};
    loop2 t = step_split(maybe(b->m), l, b->slice, outer, inner);
    step_trim(maybe(b->m), t.outer);
    return t;
}

/* Split a nest's loop along the row, the outermost one, into slices, if rows go by slices. */
static void slice_root(block *b, row_nest *p, loop_chain *c, int *inner) {
    if (*inner > (c->n == 4 ? 1 : 0) || c->n == LOOP_CHAIN) return;
    loop2 t = split_slices(b, c->loop[0], "e", "f");
    if (!t.outer.id) return;
    memmove(&c->loop[1], &c->loop[0], (size_t)c->n++ * sizeof c->loop[0]);
    c->loop[0] = p->root = t.outer;
    c->loop[1] = t.inner;
    p->slices = true;
    ++*inner;
}

/* A register tile of the innermost loop's iterations by the block; then its operands. */
static void product_nest(block *b, row_nest *p, const loop_chain *c, int inner, loop_h where) {
    scheduler *m = b->m;
    mem_id tile = 0;
    for (stmt_id s = schedule_at(m, stmt_of(m, b->v))->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind == STMT_DEF) {
            tile = schedule_at(m, s)->def.mem;
        } else if (schedule_at(m, s)->kind == STMT_LOOP && p->sums < 8) {
            p->sum[p->sums++] = loop_of(m, s);
        }
    }
    if (!pad_extent(m, c->loop[inner], b->trips)) return;
    loop2 t = split_tile(m, c->loop[inner], b->trips);
    if (!t.outer.id || !step_accumulate(maybe(m), tile, b->v).done) return;
    step_accumulate(m, tile, b->u);
    step_accumulate(m, tile, t.inner);
    loop_h blocks = NO_LOOP;
    for (int i = 0; i < p->sums; i++) {
        loop2 slices = blocks.id ? (loop2){0} : split_slices(b, p->sum[i], "c", "k");
        if (slices.outer.id) {
            blocks = slices.outer;
            p->sum[i] = slices.inner;
        } else {
            step_trim(maybe(m), p->sum[i]);
        }
        stage_rows(m, where, p->sum[i]);
    }
    if (inner == 0) p->root = t.outer;
    if (p->slices) p->row[p->rows++] = t.outer;
    p->step = inner == 0 ? b->trips : 0;
    transpose_result(b, stmt_of(m, t.outer));
    if (!schedule_block_sums(m, tile, blocks, t.outer).tile) return;
    p->root = blocks;
    p->slices = true;
    p->step = 0;
}

/* Behind a product, as many iterations as the product takes, so that the two nests can be fused. */
static void leaf_nest(block *b, row_nest *p, const loop_chain *c, int inner, bool behind_product) {
    int trips = behind_product || p->slices ? b->trips : LEAF_TRIPS;
    if (trips_of(b->m, c->loop[inner]) < trips) return;
    loop_h steps = split_tile(b->m, c->loop[inner], trips).outer;
    if (!steps.id) return;
    if (!p->slices) p->root = steps;
    if (inner == 0 || p->slices) p->row[p->rows++] = steps;
    p->step = inner == 0 ? trips : 0;
}

static bool is_product_nest(const block *b, const row_nest *p) {
    return has_product(b->m, stmt_of(b->m, p->root), 0);
}

/* Terms of elements that the rows share (the gradient of queries, where a row is a key): a block's
 * are added up in a register tile of iterations by vectors, reduced over the rows. */
static bool shares_element(const block *b, stmt_id body) {
    const scheduler *m = b->m;
    const ir_stmt *x = schedule_at(m, schedule_at(m, body)->first);
    if (x->kind != STMT_STORE || x->monoid == MONOID_SET || x->next) return false;
    return !sym_uses(m->k->syms, x->store.index, var_of(m, b->u)) &&
           !sym_uses(m->k->syms, x->store.index, var_of(m, b->v));
}

static void shared_nest(block *b, row_nest *p, const loop_chain *c) {
    scheduler *m = b->m;
    loop_h along = c->loop[0], across = c->loop[1];
    if (c->n != 4) return;
    step_trim(maybe(m), along);
    mem_id tile = step_privatize(maybe(m), b->u);
    if (!tile) return;
    int width = (trips_of(m, across) > m->lanes ? BLOCK_VECTORS : 1) * m->lanes;
    loop_h sum = step_merge(maybe(m), b->u, b->v, "r");
    if (!sum.id || !pad_extent(m, along, b->trips)) return;
    loop2 t = split_tile(m, along, b->trips);
    if (!t.outer.id || !pad_extent(m, across, width)) return;
    loop2 columns = step_split(m, across, width, "d", "w"), x = schedule_vectors(m, columns.inner);
    if (!x.inner.id || !step_swap(maybe(m), t.inner, columns.outer)) return;
    step_accumulate(m, tile, x.inner);
    step_accumulate(m, tile, x.outer);
    step_accumulate(m, tile, t.inner);
    p->sum[p->sums++] = sum;
    p->root = t.outer;
    p->step = b->trips;
    p->shared = true;
}

static void block_nest(block *b, int number, loop_h where) {
    scheduler *m = b->m;
    row_nest *p = &b->nest[number];
    bool behind = number && is_product_nest(b, p - 1);
    loop_chain c = sink(b, stmt_of(m, p->root));
    p->root = c.loop[0];
    int inner = -1;
    for (int i = 0; i < c.n; i++)
        if (!same_loop(c.loop[i], b->u) && !same_loop(c.loop[i], b->v)) inner = i;
    bool sunk = c.n > 2 && same_loop(c.loop[c.n - 1], b->v) && same_loop(c.loop[c.n - 2], b->u);
    if (inner < 0 || !sunk) return;
    slice_root(b, p, &c, &inner);
    if (!p->slices) step_trim(maybe(m), c.loop[inner]);
    if (schedule_at(m, schedule_at(m, c.body)->first)->kind == STMT_DEF)
        product_nest(b, p, &c, inner, where);
    else if (shares_element(b, c.body))
        shared_nest(b, p, &c);
    else if (!schedule_has_inner(m, c.body))
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
        if (fits && step_fuse(maybe(b->m), p->root, next->root)) {
            p->rows = 1;
            p->row[0] = p->root;
            drop_nest(b, i + 1);
        } else {
            i++;
        }
    }
}

/* Split the nest's iterations into slices of a row. */
static void cut_root(block *b, row_nest *p, int64_t slice) {
    loop2 t = step_split(b->m, p->root, slice / p->step, "e", "f");
    if (!t.outer.id) return;
    if (p->rows) p->row[0] = t.inner;
    p->root = t.outer;
    p->step = 0;
    p->slices = true;
}

/* A product that reduces over a long row, and the nest in front that computes the row, iterate over
 * slices of it together: a slice is computed, reduced and dead while it is in the first-level
 * cache. */
static void slice_nest(block *b, int i, int64_t slice) {
    scheduler *m = b->m;
    row_nest *p = &b->nest[i], *made = p - 1;
    if (p->shared && made->slices && slice % p->step == 0) cut_root(b, p, slice);
    if (p->shared || p->sums != 1 || !made->step || slice % made->step) return;
    if (trips_of(m, p->sum[0]) < 2 * slice) return;
    mem_id tile = tile_of(m, stmt_of(m, p->root));
    loop2 t = step_split(maybe(m), p->sum[0], slice, "c", "r");
    if (!t.outer.id) return;
    p->sum[0] = t.inner;
    if (!schedule_block_sums(m, tile, t.outer, p->root).tile) return;
    p->root = t.outer;
    p->slices = true;
    p->step = 0;
    cut_root(b, made, slice);
}

/* The tile of a maximum that the nest finds, 0: none. */
static mem_id maximum_of(const block *b, const row_nest *p) {
    const scheduler *m = b->m;
    stmt_id root = stmt_of(m, p->root);
    for (stmt_id s = root; (s = ir_next(m->k, s, root));) {
        const ir_stmt *x = schedule_at(m, s);
        if (x->kind == STMT_STORE && x->monoid == MONOID_MAX) return x->store.mem[0];
    }
    return 0;
}

/* Another nest has become a part of nest i, which takes over what is still to be done with it. */
static void join_nest(block *b, int i, int other) {
    row_nest *p = &b->nest[i], *next = &b->nest[other];
    for (int j = 0; j < next->sums && p->sums < 8; j++) p->sum[p->sums++] = next->sum[j];
    for (int j = 0; j < next->rows && p->rows < 8; j++) p->row[p->rows++] = next->row[j];
    drop_nest(b, other);
}

/* Fuse loops along a slice, where one's results are still near. */
static void fuse_in_slice(block *b, row_nest *p) {
    for (int j = 0; j + 1 < p->rows;) {
        if (step_fuse(maybe(b->m), p->row[j], p->row[j + 1]))
            memmove(&p->row[j + 1], &p->row[j + 2], (size_t)(--p->rows - j - 1) * sizeof p->row[0]);
        else
            j++;
    }
}

/* All nests go by slices: they become one loop, in which a maximum is found slice by slice together
 * with the sums that depend on it; these are rescaled when it grows, and the row is never whole. */
static void stream_rows(block *b) {
    scheduler *m = b->m;
    for (int i = b->nests - 1; i-- > 0;) { /* what uses a maximum is one loop before it meets it */
        row_nest *p = &b->nest[i];
        int other = i + 1;
        while (other < b->nests && !b->nest[other].slices) other++;
        if (!p->slices || other == b->nests) continue;
        mem_id most = maximum_of(b, p);
        loop_h next = b->nest[other].root;
        bool fused = step_fuse(maybe(m), p->root, next);
        if (!fused && most) {
            made_loops rows = step_online(maybe(m), most, p->root, next);
            for (uint32_t j = 0; j < rows.n; j++) schedule_vectors(m, rows.loop[j]);
            fused = rows.done;
        }
        if (fused) join_nest(b, i, other);
    }
    for (int i = 0; i < b->nests; i++) fuse_in_slice(b, &b->nest[i]);
}

/* Iterations along the row whose values for a block stay in the first-level cache. */
static int64_t slice_trips(const block *b) {
    const scheduler *m = b->m;
    int64_t l1 = machine_l1(m->limits), slice = PRODUCT_TRIPS;
    int64_t row = (int64_t)b->rows * (m->limits->vector_bytes / m->lanes);
    while (2 * slice * row * m->limits->l1_slice <= l1) slice *= 2;
    return slice;
}

/* Neighbours go over slices of the rows together, where they can. */
static void slice_rows(block *b) {
    scheduler *m = b->m;
    int64_t slice = slice_trips(b);
    for (int i = 1; i < b->nests; i++) slice_nest(b, i, slice);
    for (int i = 0; i + 1 < b->nests;) {
        row_nest *p = &b->nest[i], *next = p + 1;
        if (!p->slices || !next->slices || !step_fuse(maybe(m), p->root, next->root)) {
            i++;
            continue;
        }
        join_nest(b, i, i + 1);
    }
}

/* A tile that only one slice at a time needs shrinks to it. */
static void fold_rows(block *b, loop_h rows) {
    scheduler *m = b->m;
    mem_id tile[64];
    int n = 0;
    for (stmt_id s = schedule_at(m, stmt_of(m, rows))->first; s && n < 64;
         s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_DEF) tile[n++] = schedule_at(m, s)->def.mem;
    for (int i = 0; i < b->nests; i++)
        for (int j = 0; j < n && b->nest[i].slices; j++)
            step_fold_storage(maybe(m), tile[j], b->nest[i].root);
}

/* Merge the loops around the rows with the loop over blocks, and make the result parallel. */
static void parallelize_blocks(scheduler *m, const loop_chain *c) {
    loop_h root = c->loop[0];
    for (int i = 1; i < c->n; i++) {
        loop_h both = step_merge(maybe(m), root, c->loop[i], "p");
        if (!both.id) break;
        root = both;
    }
    if (trips_of(m, root) > 1) step_bind(m, root, LOOP_PAR);
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

/* Bytes of the largest tile of a row. */
static int64_t row_bytes(const scheduler *m, stmt_id row) {
    int64_t bytes = 0;
    for (stmt_id s = schedule_at(m, row)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_DEF) continue;
        const ir_memory *t = ir_m(m->k, schedule_at(m, s)->def.mem);
        int64_t size = schedule_bytes(m, schedule_at(m, s)->def.mem, sym_hi(m->k->syms, t->size));
        if (size > bytes) bytes = size;
    }
    return bytes;
}

/* Find the loops down to the rows. Where something is shared by all rows, they are a loop beside
 * the statements that use it. false: there are none. */
static bool find_rows(const scheduler *m, stmt_id loop, loop_chain *c) {
    *c = loop_chain_of(m, loop);
    for (stmt_id s = schedule_at(m, c->body)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        loop_chain in = loop_chain_of(m, s);
        if (!is_attention_row(m, &in) || c->n + in.n > LOOP_CHAIN) continue;
        memcpy(&c->loop[c->n], in.loop, (size_t)in.n * sizeof in.loop[0]);
        c->n += in.n;
        c->body = in.body;
        return true;
    }
    return is_attention_row(m, c);
}

/* Vectorize the statements beside the rows. */
static void beside_rows(scheduler *m, loop_h rows) {
    stmt_id around = schedule_at(m, stmt_of(m, rows))->parent;
    loop_h beside[8];
    int n = 0;
    for (stmt_id s = schedule_at(m, around)->first; s && n < 8; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP && !same_loop(loop_of(m, s), rows))
            beside[n++] = loop_of(m, s);
    for (int i = 0; i < n; i++) {
        loop_chain c = loop_chain_of(m, stmt_of(m, beside[i]));
        if (!schedule_has_inner(m, c.body)) schedule_vectors(m, c.loop[c.n - 1]);
    }
}

/* Loops of a row that go through memory as one are one: axes that a reshape took apart. */
static void merge_axes(scheduler *m, stmt_id row) {
    for (stmt_id s = row; (s = ir_next(m->k, s, row));) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        loop_chain c = loop_chain_of(m, s);
        schedule_merge_in_step(m, &c);
        s = c.body;
    }
}

/* A nest for each statement, where the loops over the block hold several. */
static void divide(scheduler *m, stmt_id rows) {
    for (stmt_id s = schedule_at(m, rows)->first; s; s = schedule_at(m, s)->next) {
        loop_h in = {does_one_thing(m, s) ? loop_of(m, schedule_at(m, s)->first).id : 0};
        if (in.id && step_fission(maybe(m), in).done) step_fission(maybe(m), loop_of(m, s));
    }
}

/* Split the rows, the innermost loop of the chain, into blocks, and each statement of a row into a
 * nest over its block. */
static bool make_nests(block *b, loop_chain *c) {
    scheduler *m = b->m;
    loop_h *rows = &c->loop[c->n - 1];
    merge_axes(m, stmt_of(m, *rows));
    if (!pad_extent(m, *rows, b->rows)) return false;
    bool far = row_bytes(m, stmt_of(m, *rows)) * b->rows > machine_l2(m->limits);
    if (far) b->slice = slice_trips(b);
    loop2 blocks = step_split(maybe(m), *rows, b->rows, "b", "w");
    if (!blocks.outer.id) return false;
    *rows = blocks.outer;
    loop2 lanes = schedule_vectors(m, blocks.inner);
    b->u = lanes.outer;
    b->v = lanes.inner;
    if (expand_tiles(b, stmt_of(m, *rows))) divide(m, stmt_of(m, *rows));
    for (stmt_id s = schedule_at(m, stmt_of(m, *rows))->first; s && b->nests < MOST_NESTS;
         s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind == STMT_LOOP) b->nest[b->nests++].root = loop_of(m, s);
    return true;
}

/* Are the rows of loop `inner`, and those of the loop around it, the rows of one? Not where a row's
 * number says what is done, as a mask of what comes behind it does: loops are cut short by that. */
static bool are_rows_of_one(scheduler *m, const loop_chain *c, int inner) {
    stmt_id outer = stmt_of(m, c->loop[inner - 1]), rows = stmt_of(m, c->loop[inner]);
    return does_one_thing(m, outer) && schedule_in_step(m, outer, rows) &&
           !schedule_stores_number(m, rows, schedule_at(m, rows)->l.var, true);
}

/* Find its rows; false: they are too few, or none with products. *one: of the loops, the first of
 * those whose rows are the rows of one. */
static bool takes(scheduler *m, stmt_id loop, loop_chain *c, int *one) {
    if (!find_rows(m, loop, c) || schedule_has_block_dots(m, c->body)) return false;
    double rows = (double)schedule_trips(m, c->body);
    for (*one = c->n - 1; *one && are_rows_of_one(m, c, *one);)
        rows *= (double)trips_of(m, c->loop[--*one]);
    return rows >= m->lanes / 2;
}

bool schedule_is_attention(scheduler *m, stmt_id loop) {
    loop_chain c;
    int one;
    return takes(m, loop, &c, &one);
}

bool schedule_attention(scheduler *m, stmt_id loop) {
    loop_chain c;
    int one;
    if (!takes(m, loop, &c, &one)) return false;
    for (; c.n - 1 > one; c.n--) {
        loop_h both = step_merge(maybe(m), c.loop[c.n - 2], c.loop[c.n - 1], "m");
        if (!both.id) break;
        c.loop[c.n - 2] = both;
    }
    c.body = stmt_of(m, c.loop[c.n - 1]);
    int vectors = block_vectors(m, c.body), trips = (int)m->limits->registers / 2 / vectors;
    block b = {.m = m, .rows = vectors * m->lanes};
    b.trips = trips < 1 ? 1 : trips < PRODUCT_TRIPS ? trips : PRODUCT_TRIPS;
    if (!make_nests(&b, &c)) return false;
    loop_h rows = c.loop[c.n - 1];
    for (int i = b.nests; i--;) block_nest(&b, i, rows);
    for (int i = 0; i < b.nests; i++) /* not before the loops that read them are trimmed */
        if (b.nest[i].shared) step_trim(maybe(m), b.nest[i].sum[0]);
    if (b.slice) {
        stream_rows(&b);
    } else {
        fuse_neighbours(&b);
        slice_rows(&b);
    }
    fold_rows(&b, rows);
    for (int i = 0; i < b.nests; i++) {
        for (int j = 0; j < b.nest[i].sums; j++) step_peel(maybe(m), b.nest[i].sum[j]);
        for (int j = 0; j < b.nest[i].rows; j++) step_peel(maybe(m), b.nest[i].row[j]);
    }
    if (schedule_at(m, stmt_of(m, rows))->parent != m->k->root) beside_rows(m, rows);
    parallelize_blocks(m, &c);
    return true;
}
