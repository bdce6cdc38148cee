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
 * A refused step leaves its loop as it was, which is slower but correct, and gives null handles,
 * with which nothing happens: so the steps need not check each other. */
#include "schedule/schedule.h"

enum {                 /* of the algorithm: what every device with groups has room for */
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
    loop_h both = step_merge(maybe(m), c->loop[i], c->loop[i + 1], "m");
    if (!both.id) return false;
    c->loop[i] = both;
    loop_chain_drop(c, i + 1);
    return true;
}

/* Bounds of merged loops can be beyond proof. Are those of the kernel no worse than before? */
static bool still_sound(scheduler *m, const step_mark *before) {
    ir_verdict verdict = ir_verify(m->k, NULL);
    if (verdict == VERDICT_SOUND || verdict == VERDICT_BROKEN) return verdict == VERDICT_SOUND;
    ir_saved now = ir_save(m->k);
    ir_restore(m->k, &before->tree);
    ir_verdict was = ir_verify(m->k, NULL);
    ir_restore(m->k, &now);
    return was == verdict;
}

/* Steps that belong together, of which the last one was taken or not: keep all of them or none. */
static bool keep_all(scheduler *m, const step_mark *before, bool taken) {
    if (taken && still_sound(m, before)) return true;
    steps_back(m, before);
    return false;
}

/* Merge the chain's loops from number `first` to number `last` into one. */
static loop_h merge_all(scheduler *m, const loop_chain *c, int first, int last) {
    loop_h merged = c->loop[last];
    for (int i = last; i-- > first;) merged = step_merge(maybe(m), c->loop[i], merged, "m");
    return merged;
}

/* Make as many as possible of the first `n` loops of the chain, of which the outermost is a root,
 * the launch's items. */
static void items(scheduler *m, const loop_chain *c, int n) {
    if (schedule_at(m, stmt_of(m, c->loop[0]))->parent != m->k->root) return;
    for (bool done = false; n > 0 && !done; n--) {
        step_mark before = steps_mark(m);
        loop_h all = merge_all(m, c, 0, n - 1);
        done = keep_all(m, &before, step_bind(maybe(m), all, LOOP_PAR));
    }
}

/* Split the loop and share the inner one among `members`: the loop over groups. Where that is not
 * legal there is none, and what was done since `before` is undone. */
static loop_h share_from(scheduler *m, const step_mark *before, loop_h l, int64_t members) {
    loop2 t = step_split(maybe(m), l, members, "g", "t");
    return keep_all(m, before, step_bind(maybe(m), t.inner, LOOP_THREAD)) ? t.outer : NO_LOOP;
}

static bool share(scheduler *m, loop_h l) {
    step_mark before = steps_mark(m);
    return share_from(m, &before, l, group_for(m, trips_of(m, l))).id != 0;
}

/* Bind the serial loops that want it, those that the transforms made of them too. */
static void bind_wanted(scheduler *m, loop_want want, loop_kind kind) {
    loop_h loop[64];
    int n = 0;
    for (stmt_id s = m->k->root; (s = ir_next(m->k, s, m->k->root)) && n < (int)COUNT_OF(loop);)
        if (schedule_at(m, s)->kind == STMT_LOOP && schedule_at(m, s)->loop == LOOP_SERIAL &&
            schedule_at(m, s)->l.want == want)
            loop[n++] = loop_of(m, s);
    for (int i = 0; i < n; i++) step_bind(m, loop[i], kind);
}

/* ---- flat ----------------------------------------------------------------------------------- */

/* Merge the chain's innermost loops from number `first` on and share the result; on success the
 * chain ends with the loop over groups. */
static bool flatten(scheduler *m, loop_chain *c, int first) {
    int64_t trips = 1;
    for (int i = first; i < c->n; i++) {
        int64_t n = trips_of(m, c->loop[i]);
        trips = trips > IR_MEMBERS || n > IR_MEMBERS ? IR_MEMBERS + 1 : trips * n;
    }
    step_mark before = steps_mark(m);
    loop_h all = merge_all(m, c, first, c->n - 1);
    loop_h groups = share_from(m, &before, all, group_for(m, trips));
    if (!groups.id) return false;
    c->loop[first] = groups;
    c->n = first + 1;
    return true;
}

static void flat(scheduler *m, loop_chain *c) {
    schedule_merge_in_step(m, c);
    loop_chain_inward(m, c, schedule_most_contiguous(m, c));
    int first = c->n - 1;
    int64_t trips = trips_of(m, c->loop[first]);
    while (first > 0 && trips < m->limits->members)
        if (__builtin_mul_overflow(trips, trips_of(m, c->loop[--first]), &trips)) trips = INT64_MAX;
    while (!flatten(m, c, first) && first + 1 < c->n) first++;
    items(m, c, c->n);
}

/* ---- cooperative ---------------------------------------------------------------------------- */

enum { MOST_SHARED = 64 };

typedef struct loop_list {
    int n;
    loop_h loop[MOST_SHARED];
} loop_list;

static void list_loop(loop_list *list, loop_h l) {
    if (l.id && list->n < MOST_SHARED) list->loop[list->n++] = l;
}

/* Each member reduces into its own elements, and then all of them combine these in halves. */
static void reduce_together(scheduler *m, loop_h l, int tiles, const mem_id *tile) {
    int64_t n = trips_of(m, l);
    if (n < SHORT_ROW) return;
    loop_h inner = step_split(m, l, group_for(m, n / 2), "oj", "j").inner;
    if (!inner.id) return;
    loop_list combining = {.n = 0}, halves = {.n = 0};
    for (int i = 0; i < tiles; i++) {
        made_rfactor sums = step_rfactor(m, tile[i], inner);
        list_loop(&combining, sums.part);
        list_loop(&combining, sums.element);
    }
    step_bind(m, inner, LOOP_THREAD);
    for (int i = 0; i < combining.n; i++) {
        made_loops tree = step_tree_reduce(maybe(m), combining.loop[i]);
        for (uint32_t j = 0; j < tree.n; j++) list_loop(&halves, tree.loop[j]);
        if (!tree.done) list_loop(&halves, combining.loop[i]);
    }
    for (int i = 0; i < halves.n; i++) step_bind(m, halves.loop[i], LOOP_THREAD);
}

/* Share the loops in the body of `block` among a group. */
static void cooperate(scheduler *m, stmt_id block) {
    loop_list inside = {.n = 0};
    mem_id tile[SCHEDULE_TILES];
    for (stmt_id c = schedule_at(m, block)->first; c && inside.n < MOST_SHARED;
         c = schedule_at(m, c)->next)
        if (schedule_at(m, c)->kind == STMT_LOOP) inside.loop[inside.n++] = loop_of(m, c);
    for (int i = 0; i < inside.n; i++) {
        loop_chain c = loop_chain_of(m, stmt_of(m, inside.loop[i]));
        schedule_merge_in_step(m, &c);
        bool deep = schedule_has_inner(m, c.body);
        int tiles = deep ? 0 : schedule_reduced_tiles(m, c.body, tile);
        if (tiles) {
            reduce_together(m, c.loop[c.n - 1], tiles, tile);
            continue;
        }
        loop_chain_inward(m, &c, schedule_most_contiguous(m, &c));
        if (!share(m, c.loop[c.n - 1]) && deep) cooperate(m, stmt_of(m, c.loop[c.n - 1]));
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
        int n = schedule_contiguous(m, c.body, var_of(m, c.loop[i]));
        if (n > across) across = n;
        outputs *= (double)trips_of(m, c.loop[i]);
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
    loop_h sum;          /* the reduction's innermost loop */
    mem_id tile, mem[2]; /* mem: rows' operand, columns' */
    expr_id load[2];
    bool exchanged;   /* the rows' operand is the product's second factor */
    int64_t tiles[2]; /* a member's rows and columns */
    int64_t depth;    /* of the blocks that pass through shared memory */
} product;

static bool load_moves(const scheduler *m, expr_id load, loop_h l) {
    return ir_expr_uses(m->k, load, var_of(m, l));
}

/* A contraction of which each factor loads one argument: its loads, as they are now. */
static bool read_loads(scheduler *m, product *p) {
    contraction x;
    if (!contraction_of(m->k, stmt_of(m, p->c.loop[0]), &x)) return false;
    p->tile = x.tile;
    p->sum = loop_of(m, x.loop[x.loops - 1].at);
    for (int i = 0; i < 2; i++) {
        const contraction_operand *o = &x.of[i ^ p->exchanged];
        if (!o->plain) return false;
        p->load[i] = o->access.load;
        p->mem[i] = o->mem;
    }
    return true;
}

/* The loops of a sum are merged where they can be, whatever it is. */
static bool read_product(scheduler *m, stmt_id loop, product *p) {
    p->c = loop_chain_of(m, loop);
    ir_reduction r;
    if (!ir_reduction_of(m->k, p->c.body, &r) || schedule_at(m, r.update)->monoid != MONOID_SUM)
        return false;
    loop_chain sum = loop_chain_of(m, r.loop);
    schedule_merge_in_step(m, &sum);
    return read_loads(m, p);
}

static side side_of(const scheduler *m, const product *p, loop_h l) {
    bool a = load_moves(m, p->load[0], l), b = load_moves(m, p->load[1], l);
    return a == b ? BATCH : a ? ROWS : COLUMNS;
}

static void exchange_sides(product *p) {
    p->exchanged = !p->exchanged;
    expr_id load = p->load[0];
    mem_id mem = p->mem[0];
    p->load[0] = p->load[1], p->mem[0] = p->mem[1];
    p->load[1] = load, p->mem[1] = mem;
}

/* The columns are the side along which the output is contiguous. */
static void choose_sides(scheduler *m, product *p) {
    const ir_stmt *out = schedule_at(m, schedule_at(m, p->c.body)->last);
    if (out->kind != STMT_STORE) return;
    for (int i = 0; i < p->c.n; i++) {
        sym rest;
        int64_t stride;
        if (sym_split(m->k->syms, out->store.index, var_of(m, p->c.loop[i]), &stride, &rest) &&
            stride == 1 && side_of(m, p, p->c.loop[i]) == ROWS)
            exchange_sides(p);
    }
}

/* Rank of a loop in the order: all but the last of each side first. */
static int rank_of(const scheduler *m, const product *p, int i) {
    side s = side_of(m, p, p->c.loop[i]);
    for (int j = i + 1; j < p->c.n; j++)
        if (side_of(m, p, p->c.loop[j]) == s) return 0;
    return (int)s;
}

/* Bring the chain into the order of everything else, rows, columns. Loads change with merging. */
static bool sort_loops(scheduler *m, product *p) {
    loop_chain *c = &p->c;
    for (int i = c->n - 2; i >= 0; i--) {
        side s = side_of(m, p, c->loop[i]);
        stmt_id a = stmt_of(m, c->loop[i]), b = stmt_of(m, c->loop[i + 1]);
        if (s == BATCH || s != side_of(m, p, c->loop[i + 1]) || !schedule_in_step(m, a, b))
            continue;
        if (!merge_two(m, c, i) || !read_loads(m, p)) return false;
    }
    for (int pass = 0; pass < c->n; pass++)
        for (int i = 0; i + 1 < c->n; i++)
            if (rank_of(m, p, i) > rank_of(m, p, i + 1) && !loop_chain_swap(m, c, i)) return false;
    return c->n >= 2 && rank_of(m, p, c->n - 2) == ROWS && rank_of(m, p, c->n - 1) == COLUMNS;
}

static int64_t tiles_for(int64_t trips) {
    return trips > 2 * SIDE ? 4 : trips > SIDE ? 2 : 1;
}

/* Does blocking pay, and is there enough shared memory? */
static bool choose_blocks(const scheduler *m, product *p) {
    int64_t rows_ = trips_of(m, p->c.loop[p->c.n - 2]);
    int64_t columns = trips_of(m, p->c.loop[p->c.n - 1]);
    p->tiles[0] = tiles_for(rows_);
    p->tiles[1] = tiles_for(columns);
    p->depth = SIDE;
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += SIDE * p->tiles[i] * p->depth *
                 (int64_t)qn_dtype_size((qn_dtype)ir_m(m->k, p->mem[i])->dtype);
    return m->limits->members >= SIDE * SIDE && bytes <= m->limits->group_bytes &&
           rows_ >= SIDE / 2 && columns >= SIDE / 2 && trips_of(m, p->sum) >= SIDE;
}

/* Stage the operand's block, whose copy all members share, along the operand's memory. */
static void copy_together(scheduler *m, mem_id operand, loop_h at, const stage_axes *axes) {
    loop_chain c = step_stage(m, operand, at, axes, -1).copy;
    if (c.n != 3 || !merge_two(m, &c, 1)) return; /* depth, block */
    int64_t depth = trips_of(m, c.loop[0]), block = trips_of(m, c.loop[1]);
    if (schedule_contiguous(m, stmt_of(m, c.loop[0]), var_of(m, c.loop[0]))) {
        loop_chain_inward(m, &c, 0);
        int64_t other = depth;
        depth = block;
        block = other;
    }
    int64_t outer = SIDE * SIDE / block;
    if (outer > depth) outer = depth;
    if (outer < 1) return;
    loop2 t = step_split(m, c.loop[0], outer, "s", "a");
    if (!t.outer.id) return;
    step_bind(m, t.inner, LOOP_THREAD);
    step_bind(m, c.loop[1], LOOP_THREAD);
}

/* A block of rows by columns is a group's: gr gc { ty tx { u { } } }, of which a member has the
 * register tile u by u. The reduction's blocks, ko, pass through shared memory. */
static void block_product(scheduler *m, product *p) {
    loop_h *rows_ = &p->c.loop[p->c.n - 2], *columns = &p->c.loop[p->c.n - 1];
    loop2 r = step_split(m, *rows_, SIDE * p->tiles[0], "gr", "ri");
    loop2 c = step_split(m, *columns, SIDE * p->tiles[1], "gc", "ci");
    *rows_ = r.outer;
    *columns = c.outer;
    step_swap(m, r.inner, c.outer);
    loop2 y = step_split(m, r.inner, SIDE, "ur", "ty"),
          x = step_split(m, c.inner, SIDE, "uc", "tx");
    step_want(m, y.outer, WANT_UNROLL);
    step_want(m, x.outer, WANT_UNROLL);
    step_want(m, y.inner, WANT_THREAD);
    step_want(m, x.inner, WANT_THREAD);
    step_swap(m, y.outer, y.inner);
    step_swap(m, x.outer, x.inner);
    step_swap(m, y.outer, x.inner);
    loop2 k = step_split(m, p->sum, p->depth, "ko", "ki");
    const loop_h inward[] = {x.outer, y.outer, x.inner, y.inner};
    for (int i = 0; i < (int)COUNT_OF(inward); i++) step_accumulate(m, p->tile, inward[i]);
    step_swap(m, k.inner, y.inner);
    step_swap(m, k.inner, x.inner);
    const loop2 side_of_block[2] = {y, x};
    for (int i = 0; i < 2; i++) {
        stage_axes axes = {0};
        stage_axis(&axes, k.inner, false);
        stage_axis(&axes, side_of_block[i].outer, false);
        stage_axis(&axes, side_of_block[i].inner, false);
        copy_together(m, p->mem[i], k.outer, &axes);
    }
    bind_wanted(m, WANT_THREAD, LOOP_THREAD);
    bind_wanted(m, WANT_UNROLL, LOOP_UNROLL);
}

/* false, with nothing changed that matters: this is no product for blocks. */
static bool contract(scheduler *m, stmt_id loop) {
    product p = {.tile = 0};
    if (!read_product(m, loop, &p)) return false;
    choose_sides(m, &p);
    if (!sort_loops(m, &p) || !choose_blocks(m, &p)) return false;
    if (!schedule_pad(m, p.c.loop[p.c.n - 2], SIDE * p.tiles[0]) ||
        !schedule_pad(m, p.c.loop[p.c.n - 1], SIDE * p.tiles[1]) ||
        !schedule_pad(m, p.sum, p.depth))
        return false;
    block_product(m, &p);
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
