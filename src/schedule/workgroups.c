/* workgroups.c - default schedules for devices with work-groups: an item is a group.
 *
 *   flat         every member computes an element of the output, with all that belongs to it: maps,
 *                short reductions, reductions across contiguous memory. Members of a group take
 *                neighbouring elements, so that their accesses coalesce.
 *   cooperative  a group computes a row: its members share each loop in it. A reduction gets an
 *                accumulator a member (rfactor), which are then combined in halves (tree_reduce).
 *   product      a contraction: a group computes a block of the output, each member a register tile
 *                of it; blocks of both operands pass through shared memory, copied there by all
 *                members in the order in which they lie in memory (stage).
 *
 * Every line names the loops it makes, so that later lines find them; a refused line leaves its
 * loop as it was, which is slower but correct, so the steps need not check each other. */
#include <stdio.h>

#include "schedule/schedule.h"

enum {
    SIDE = 16,      /* members of a product's group along each side of its block */
    SHORT_ROW = 32, /* a row of this length at most is one member's work */
    FEW_ROWS = 64   /* outputs of column sums below which groups work together */
};

static int64_t least_power(int64_t n) {
    int64_t p = 1;
    while (p < n && p < IR_MEMBERS) p *= 2;
    return p;
}

/* A group size for a loop of n iterations. */
static int64_t group_for(const scheduler *m, int64_t n) {
    int64_t p = least_power(n);
    return p < m->limits->members ? p : m->limits->members;
}

static bool merge_two(scheduler *m, loop_chain *c, int i) {
    char name[40];
    snprintf(name, sizeof name, "m%d", m->next++);
    if (!schedule_apply(m, "merge %s %s -> %s", c->name[i], c->name[i + 1], name)) return false;
    snprintf(c->name[i], sizeof c->name[0], "%s", name);
    loop_chain_drop(c, i + 1);
    return true;
}

/* Apply lines that belong together, all of them or none: bounds of merged loops can be beyond
 * proof. */
static bool apply_all(scheduler *m, const str *lines) {
    if (transform_lines(m->k, lines->s, NULL) < 0) return false;
    str_addn(m->out, lines->s, lines->len);
    return true;
}

/* Lines that merge the chain's loops from number `first` to number `last` into one: its name. */
static void merge_lines(scheduler *m, const loop_chain *c, int first, int last, str *lines,
                        char name[40]) {
    snprintf(name, 40, "%s", c->name[last]);
    for (int i = last; i-- > first;) {
        int id = m->next++;
        str_addf(lines, "merge %s %s -> m%d\n", c->name[i], name, id);
        snprintf(name, 40, "m%d", id);
    }
}

/* Make as many as possible of the first `n` loops of the chain, of which the outermost is a root,
 * the launch's items. */
static void items(scheduler *m, const loop_chain *c, int n) {
    if (schedule_at(m, schedule_find(m, c->name[0]))->parent != m->k->root) return;
    for (bool done = false; n > 0 && !done; n--) {
        char name[40];
        str lines;
        str_open(&lines, &m->k->ctx->heap);
        merge_lines(m, c, 0, n - 1, &lines, name);
        str_addf(&lines, "par %s\n", name);
        done = apply_all(m, &lines);
        str_free(&lines);
    }
}

/* Split the loop and share the inner one among members; refused as a whole. */
static bool share(scheduler *m, const char *name) {
    int id = m->next++;
    int64_t members = group_for(m, schedule_trips(m, schedule_find(m, name)));
    str lines;
    str_open(&lines, &m->k->ctx->heap);
    str_addf(&lines, "split %s %lld -> g%d t%d\nthread t%d\n", name, (long long)members, id, id,
             id);
    bool done = apply_all(m, &lines);
    str_free(&lines);
    return done;
}

/* ---- flat ----------------------------------------------------------------------------------- */

/* Merge the chain's innermost loops from number `first` on and share the result; on success the
 * chain ends with the loop over groups. */
static bool flatten(scheduler *m, loop_chain *c, int first) {
    char name[40];
    int id = m->next++;
    int64_t trips = 1;
    for (int i = first; i < c->n; i++) {
        int64_t n = schedule_trips(m, schedule_find(m, c->name[i]));
        trips = trips > IR_MEMBERS || n > IR_MEMBERS ? IR_MEMBERS + 1 : trips * n;
    }
    str lines;
    str_open(&lines, &m->k->ctx->heap);
    merge_lines(m, c, first, c->n - 1, &lines, name);
    str_addf(&lines, "split %s %lld -> g%d t%d\nthread t%d\n", name, (long long)group_for(m, trips),
             id, id, id);
    bool done = apply_all(m, &lines);
    str_free(&lines);
    if (!done) return false;
    snprintf(c->name[first], sizeof c->name[0], "g%d", id);
    c->n = first + 1;
    return true;
}

static void flat(scheduler *m, loop_chain *c) {
    schedule_merge_in_step(m, c);
    loop_chain_inward(m, c, schedule_most_contiguous(m, c));
    int first = c->n - 1;
    int64_t trips = schedule_trips(m, schedule_find(m, c->name[first]));
    while (first > 0 && trips < m->limits->members)
        if (__builtin_mul_overflow(trips, schedule_trips(m, schedule_find(m, c->name[--first])),
                                   &trips))
            trips = INT64_MAX;
    while (!flatten(m, c, first) && first + 1 < c->n) first++;
    items(m, c, c->n);
}

/* ---- cooperative ---------------------------------------------------------------------------- */

static bool begins_with(const char *s, const char *with) {
    return !strncmp(s, with, strlen(with));
}

/* Names of the serial loops that begin so, up to `most`. */
static int loops_named(const scheduler *m, const char *with, char name[][40], int most) {
    int n = 0;
    for (stmt_id s = m->k->root; (s = ir_next(m->k, s, m->k->root)) && n < most;)
        if (schedule_at(m, s)->kind == STMT_LOOP && schedule_at(m, s)->loop == LOOP_SERIAL &&
            begins_with(schedule_name(m, s), with))
            snprintf(name[n++], sizeof name[0], "%s", schedule_name(m, s));
    return n;
}

static void reduce_together(scheduler *m, const char *name, int tiles, const mem_id *tile) {
    char inner[40], with[44], made[64][40];
    int64_t n = schedule_trips(m, schedule_find(m, name));
    if (n < SHORT_ROW) return;
    snprintf(inner, sizeof inner, "j%d", m->next++);
    snprintf(with, sizeof with, "%s_", inner);
    if (!schedule_apply(m, "split %s %lld -> o%s %s", name, (long long)group_for(m, n / 2), inner,
                        inner))
        return;
    for (int i = 0; i < tiles; i++)
        schedule_apply(m, "rfactor t%d %s", ir_tile_number(m->k, tile[i]), inner);
    schedule_apply(m, "thread %s", inner);
    int loops = loops_named(m, with, made, COUNT_OF(made));
    for (int i = 0; i < loops; i++) schedule_apply(m, "tree_reduce %s", made[i]);
    loops = loops_named(m, with, made, COUNT_OF(made));
    for (int i = 0; i < loops; i++) schedule_apply(m, "thread %s", made[i]);
}

/* Share the loops in the body of `block` among a group. */
static void cooperate(scheduler *m, stmt_id block) {
    char names[64][40];
    mem_id tile[SCHEDULE_TILES];
    int n = 0;
    for (stmt_id c = schedule_at(m, block)->first; c && n < 64; c = schedule_at(m, c)->next)
        if (schedule_at(m, c)->kind == STMT_LOOP)
            snprintf(names[n++], sizeof names[0], "%s", schedule_name(m, c));
    for (int i = 0; i < n; i++) {
        loop_chain c = loop_chain_of(m, schedule_find(m, names[i]));
        schedule_merge_in_step(m, &c);
        bool inside = schedule_has_inner(m, c.body);
        int tiles = inside ? 0 : schedule_reduced_tiles(m, c.body, tile);
        if (tiles) {
            reduce_together(m, c.name[c.n - 1], tiles, tile);
            continue;
        }
        loop_chain_inward(m, &c, schedule_most_contiguous(m, &c));
        if (!share(m, c.name[c.n - 1]) && inside) cooperate(m, schedule_find(m, c.name[c.n - 1]));
    }
}

static int64_t longest_inside(const scheduler *m, stmt_id body) {
    int64_t most = 0;
    for (stmt_id s = body; (s = ir_next(m->k, s, body));)
        if (schedule_at(m, s)->kind == STMT_LOOP && schedule_trips(m, s) > most)
            most = schedule_trips(m, s);
    return most;
}

/* Has the kernel tiles with a row's values? One for each member would be too much memory. */
static bool holds_rows(const scheduler *m) {
    for (mem_id i = 1; i < m->k->mems; i++)
        if (ir_m(m->k, i)->scope != MEM_ARG && sym_hi(m->k->syms, ir_m(m->k, i)->size) > SIDE)
            return true;
    return false;
}

static void rows(scheduler *m, stmt_id loop) {
    loop_chain c = loop_chain_of(m, loop);
    int across = 0;
    double outputs = 1;
    for (int i = 0; i < c.n; i++) {
        stmt_id l = schedule_find(m, c.name[i]);
        int n = schedule_contiguous(m, c.body, schedule_at(m, l)->l.var);
        if (n > across) across = n;
        outputs *= (double)schedule_trips(m, l);
    }
    int64_t length = longest_inside(m, c.body);
    bool columns = across > schedule_contiguous_inside(m, c.body, SYM_ZERO);
    if (!holds_rows(m) &&
        (length <= SHORT_ROW || (columns && (outputs >= FEW_ROWS || length < 16 * FEW_ROWS)))) {
        flat(m, &c);
        return;
    }
    cooperate(m, c.body);
    items(m, &c, c.n);
}

/* ---- products ------------------------------------------------------------------------------- */

typedef enum side { BATCH, ROWS, COLUMNS } side;

typedef struct product {
    loop_chain c;        /* the output's loops */
    char sum[40];        /* the reduction's innermost loop */
    mem_id tile, mem[2]; /* mem: rows' operand, columns' */
    expr_id load[2];
    int64_t tiles[2]; /* a member's rows and columns */
    int64_t depth;    /* of the blocks that pass through shared memory */
} product;

static bool load_moves(const scheduler *m, expr_id load, const char *name) {
    return ir_expr_uses(m->k, load, schedule_at(m, schedule_find(m, name))->l.var);
}

/* Is the reduction's statement a sum of a product of two loads of arguments, and nothing else? */
static bool read_loads(scheduler *m, product *p) {
    stmt_id store = schedule_at(m, schedule_find(m, p->sum))->first;
    ir_access *t;
    uint32_t n = ir_accesses(m->k, store, &t), found = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!t[i].load || !schedule_is_arg(m, &t[i])) continue;
        if (found == 2 || t[i].dyn || t[i].guard) return false;
        p->load[found] = t[i].load;
        p->mem[found++] = t[i].mem;
    }
    return found == 2;
}

/* def t; for r {t += a*b}; stores   directly in the innermost output loop. */
static bool read_product(scheduler *m, stmt_id loop, product *p) {
    p->c = loop_chain_of(m, loop);
    stmt_id def = schedule_at(m, p->c.body)->first, red = def ? schedule_at(m, def)->next : 0;
    if (!red || schedule_at(m, def)->kind != STMT_DEF || schedule_at(m, red)->kind != STMT_LOOP)
        return false;
    for (stmt_id s = schedule_at(m, red)->next; s; s = schedule_at(m, s)->next)
        if (schedule_at(m, s)->kind != STMT_STORE) return false;
    loop_chain r = loop_chain_of(m, red);
    if (schedule_has_inner(m, r.body)) return false;
    const ir_stmt *x = schedule_at(m, schedule_at(m, r.body)->first);
    if (x != schedule_at(m, schedule_at(m, r.body)->last) || x->monoid != MONOID_SUM) return false;
    p->tile = schedule_at(m, def)->def.mem;
    if (x->store.mem[0] != p->tile) return false;
    schedule_merge_in_step(m, &r);
    snprintf(p->sum, sizeof p->sum, "%s", r.name[r.n - 1]);
    return read_loads(m, p);
}

static side side_of(const scheduler *m, const product *p, const char *name) {
    bool a = load_moves(m, p->load[0], name), b = load_moves(m, p->load[1], name);
    return a == b ? BATCH : a ? ROWS : COLUMNS;
}

/* The columns are the side along which the output is contiguous. */
static void choose_sides(scheduler *m, product *p) {
    stmt_id out = schedule_at(m, p->c.body)->last;
    if (schedule_at(m, out)->kind != STMT_STORE) return;
    for (int i = 0; i < p->c.n; i++) {
        sym rest;
        int64_t step;
        if (!sym_split(m->k->syms, schedule_at(m, out)->store.index,
                       schedule_at(m, schedule_find(m, p->c.name[i]))->l.var, &step, &rest) ||
            step != 1 || side_of(m, p, p->c.name[i]) != ROWS)
            continue;
        expr_id load = p->load[0];
        mem_id mem = p->mem[0];
        p->load[0] = p->load[1], p->mem[0] = p->mem[1];
        p->load[1] = load, p->mem[1] = mem;
    }
}

/* Rank of a loop in the order: all but the last of each side first. */
static int rank_of(const scheduler *m, const product *p, int i) {
    side s = side_of(m, p, p->c.name[i]);
    for (int j = i + 1; j < p->c.n; j++)
        if (side_of(m, p, p->c.name[j]) == s) return 0;
    return (int)s;
}

/* Bring the chain into the order of everything else, rows, columns. Loads change with merging. */
static bool sort_loops(scheduler *m, product *p) {
    loop_chain *c = &p->c;
    for (int i = c->n - 2; i >= 0; i--) {
        side s = side_of(m, p, c->name[i]);
        stmt_id a = schedule_find(m, c->name[i]), b = schedule_find(m, c->name[i + 1]);
        if (s == BATCH || s != side_of(m, p, c->name[i + 1]) || !schedule_in_step(m, a, b))
            continue;
        bool flipped = p->load[0] > p->load[1];
        if (!merge_two(m, c, i) || !read_loads(m, p)) return false;
        if (flipped != (p->load[0] > p->load[1])) {
            expr_id load = p->load[0];
            mem_id mem = p->mem[0];
            p->load[0] = p->load[1], p->mem[0] = p->mem[1];
            p->load[1] = load, p->mem[1] = mem;
        }
    }
    for (int pass = 0; pass < c->n; pass++)
        for (int i = 0; i + 1 < c->n; i++) {
            if (rank_of(m, p, i) <= rank_of(m, p, i + 1)) continue;
            char t[40];
            if (!schedule_apply(m, "swap %s %s", c->name[i], c->name[i + 1])) return false;
            memcpy(t, c->name[i], sizeof t);
            memcpy(c->name[i], c->name[i + 1], sizeof t);
            memcpy(c->name[i + 1], t, sizeof t);
        }
    return c->n >= 2 && rank_of(m, p, c->n - 2) == ROWS && rank_of(m, p, c->n - 1) == COLUMNS;
}

static int64_t tiles_for(int64_t trips) {
    return trips > 2 * SIDE ? 4 : trips > SIDE ? 2 : 1;
}

/* Does blocking pay, and is there enough shared memory? */
static bool choose_blocks(const scheduler *m, product *p) {
    int64_t rows_ = schedule_trips(m, schedule_find(m, p->c.name[p->c.n - 2]));
    int64_t columns = schedule_trips(m, schedule_find(m, p->c.name[p->c.n - 1]));
    p->tiles[0] = tiles_for(rows_);
    p->tiles[1] = tiles_for(columns);
    p->depth = SIDE;
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += SIDE * p->tiles[i] * p->depth *
                 (int64_t)qn_dtype_size((qn_dtype)ir_m(m->k, p->mem[i])->dtype);
    return m->limits->members >= SIDE * SIDE && bytes <= m->limits->group_bytes &&
           rows_ >= SIDE / 2 && columns >= SIDE / 2 &&
           schedule_trips(m, schedule_find(m, p->sum)) >= SIDE;
}

/* Pad the loop where it is no multiple already. */
static bool pad(scheduler *m, const char *name, int64_t multiple) {
    int64_t n;
    if (sym_is_const(m->k->syms, schedule_at(m, schedule_find(m, name))->l.extent, &n) &&
        n % multiple == 0)
        return true;
    return schedule_apply(m, "pad %s %lld", name, (long long)multiple);
}

/* Share the copy of the tile staged last among all members, along the operand's memory. */
static void copy_together(scheduler *m, const char *at) {
    stmt_id def = schedule_at(m, schedule_find(m, at))->first;
    loop_chain c = loop_chain_of(m, schedule_at(m, def)->next);
    int id = m->next++;
    if (c.n != 3 || !merge_two(m, &c, 1)) return; /* depth, block */
    int64_t depth = schedule_trips(m, schedule_find(m, c.name[0]));
    int64_t block = schedule_trips(m, schedule_find(m, c.name[1]));
    stmt_id loop = schedule_find(m, c.name[0]);
    if (schedule_contiguous(m, loop, schedule_at(m, loop)->l.var)) {
        loop_chain_inward(m, &c, 0);
        int64_t other = depth;
        depth = block;
        block = other;
    }
    int64_t outer = SIDE * SIDE / block;
    if (outer > depth) outer = depth;
    if (outer < 1 ||
        !schedule_apply(m, "split %s %lld -> s%d a%d", c.name[0], (long long)outer, id, id))
        return;
    schedule_apply(m, "thread a%d", id);
    schedule_apply(m, "thread %s", c.name[1]);
}

/* Share the epilogue's nest among members, too. */
static void share_copies(scheduler *m, const char *with) {
    char made[8][40];
    int n = loops_named(m, with, made, COUNT_OF(made));
    for (int i = 0; i < n; i++) schedule_apply(m, "thread %s", made[i]);
}

static void block_product(scheduler *m, product *p) {
    const char *rows_ = p->c.name[p->c.n - 2], *columns = p->c.name[p->c.n - 1];
    int tile = ir_tile_number(m->k, p->tile);
    schedule_apply(m, "split %s %lld -> gr ri", rows_, (long long)(SIDE * p->tiles[0]));
    schedule_apply(m, "split %s %lld -> gc ci", columns, (long long)(SIDE * p->tiles[1]));
    schedule_apply(m, "swap ri gc");
    schedule_apply(m, "split ri %d -> u1 ty", SIDE);
    schedule_apply(m, "split ci %d -> u2 tx", SIDE);
    schedule_apply(m, "swap u1 ty");
    schedule_apply(m, "swap u2 tx");
    schedule_apply(m, "swap u1 tx");
    schedule_apply(m, "split %s %lld -> ko ki", p->sum, (long long)p->depth);
    schedule_apply(m, "accumulate t%d u2", tile);
    schedule_apply(m, "accumulate t%d u1", tile);
    schedule_apply(m, "accumulate t%d tx", tile);
    schedule_apply(m, "accumulate t%d ty", tile);
    schedule_apply(m, "swap ki ty");
    schedule_apply(m, "swap ki tx");
    if (schedule_apply(m, "stage a%d ko ki u1 ty", ir_m(m->k, p->mem[0])->arg))
        copy_together(m, "ko");
    if (schedule_apply(m, "stage a%d ko ki u2 tx", ir_m(m->k, p->mem[1])->arg))
        copy_together(m, "ko");
    share_copies(m, "ty");
    share_copies(m, "tx");
}

static void unroll(scheduler *m) {
    char made[16][40];
    int n = loops_named(m, "u", made, COUNT_OF(made));
    for (int i = 0; i < n; i++) schedule_apply(m, "unroll %s", made[i]);
}

/* false, with nothing changed that matters: this is no product for blocks. */
static bool contract(scheduler *m, stmt_id loop) {
    product p = {.tile = 0};
    if (!read_product(m, loop, &p)) return false;
    choose_sides(m, &p);
    if (!sort_loops(m, &p) || !choose_blocks(m, &p)) return false;
    if (!pad(m, p.c.name[p.c.n - 2], SIDE * p.tiles[0]) ||
        !pad(m, p.c.name[p.c.n - 1], SIDE * p.tiles[1]) || !pad(m, p.sum, p.depth))
        return false;
    block_product(m, &p);
    unroll(m);
    snprintf(p.c.name[p.c.n - 2], sizeof p.c.name[0], "gr");
    snprintf(p.c.name[p.c.n - 1], sizeof p.c.name[0], "gc");
    items(m, &p.c, p.c.n);
    return true;
}

/* ---- a kernel ------------------------------------------------------------------------------- */

void schedule_workgroups(scheduler *m, bool plainly) {
    stmt_id roots[16];
    int n = 0;
    bool whole = false; /* statements at the root: all of it is one item */
    for (stmt_id s = schedule_at(m, m->k->root)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP)
            whole = true;
        else if (n < (int)COUNT_OF(roots))
            roots[n++] = s;
    }
    if (whole && !plainly) cooperate(m, m->k->root);
    if (whole) return;
    for (int i = 0; i < n; i++) {
        loop_chain c = loop_chain_of(m, roots[i]);
        if (plainly)
            items(m, &c, c.n);
        else if (!schedule_has_inner(m, c.body))
            flat(m, &c);
        else if (n > 1 || !contract(m, roots[i]))
            rows(m, roots[i]);
    }
}
