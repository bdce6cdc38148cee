/* contraction_nest.c - the nest of a contraction, as contraction.c has decided on it: loops, packed
 * operands, prefetches. The names of the loops are those of BLIS, see there.
 *
 * Each step here is meant to be legal; where one may be refused (a tile that gets too large, a sum
 * of unknown depth) what is built so far is correct, if slow. */
#include "schedule/contraction/contraction.h"

enum {                   /* no property of a machine: */
       SHARED = 4,       /* vectors of a sum's terms that share a block's scale, at most */
       LEAST_BLOCK = 8,  /* iterations of the sum between two prefetches of an epilogue's rows */
       COPY_COLUMNS = 8, /* for which a copy of few rows is little work, */
       MOST_COLUMNS = 64 /* and those for which there is one, at most */
};

/* ---- pieces that other schedulers use, too --------------------------------------------------- */

loop2 schedule_lanes_of(scheduler *m, loop_h l, int lanes) {
    loop2 t = step_split(m, l, lanes, "u", "v");
    step_want(m, t.outer, WANT_UNROLL);
    step_want(m, t.inner, WANT_VEC);
    return t;
}

loop2 schedule_vectors(scheduler *m, loop_h l) {
    return schedule_lanes_of(m, l, m->lanes);
}

made_blocks schedule_block_sums(scheduler *m, mem_id tile, loop_h blocks, loop_h first) {
    made_blocks x = step_block_reduction(maybe(m), tile, blocks, first);
    schedule_vectors(m, x.load);
    schedule_vectors(m, x.store);
    return x;
}

/* The two innermost loops of a copy: vectors along its source, transposed in registers if
 * possible. */
static void copy_vectors(scheduler *m, loop_h outer, loop_h inner, bool transpose) {
    if (transpose && trips_of(m, outer) <= m->lanes) schedule_transpose_copy(m, outer, inner);
    step_bind(m, inner, LOOP_VEC);
    step_bind(m, outer, LOOP_UNROLL);
}

/* A copy whose source is contiguous along the reduction, its target along the innermost loop:
 * vectors of the reduction, one for each iteration of the inner loop, are transposed in registers.
 * Rows of half a page and more are walked to their ends, as few at a time as one transpose takes,
 * for the hardware prefetcher follows some dozen streams. The remainder behind whole vectors is
 * copied element by element. */
void schedule_copy_across(scheduler *m, const loop_chain *c, int deep) {
    sym_store *s = m->k->syms;
    sym trips = extent_of(m, c->loop[deep]);
    bool whole = sym_mod(s, trips, sym_const(s, m->lanes)) == SYM_ZERO;
    loop2 t = step_split(m, c->loop[deep], m->lanes, "x", "v");
    if (!t.outer.id) return;
    step_want(m, t.inner, WANT_VEC);
    for (int i = deep + 1; i < c->n; i++) step_swap(m, t.inner, c->loop[i]);
    for (int i = deep + 1; i < c->n - 1 && sym_lo(s, trips) >= machine_far(m->limits) / 4; i++)
        step_swap(m, t.outer, c->loop[i]);
    if (!whole && sym_lo(s, trips) >= m->lanes) {
        loop_h rest = step_peel(maybe(m), t.outer);
        loop_chain r = {.n = 0};
        if (rest.id) r = loop_chain_of(m, stmt_of(m, rest)), whole = true;
        if (r.n > 1) copy_vectors(m, r.loop[r.n - 2], r.loop[r.n - 1], false);
    }
    copy_vectors(m, c->loop[c->n - 1], t.inner, whole);
}

bool schedule_copies_along(scheduler *m, stmt_id body, loop_h l) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, body, &t);
    for (uint32_t i = 0; i < n; i++) {
        int64_t step;
        if (t[i].load) return schedule_step(m, &t[i], var_of(m, l), &step) && step == 1;
    }
    return false;
}

/* ---- building the nest ----------------------------------------------------------------------- */

/* Build the loops from ip and jc inward. false: the register tile failed. */
bool contraction_build(plan *p) {
    scheduler *m = p->m;
    int nr = p->nv * m->lanes;
    if (!schedule_pad(m, p->nest.row, p->mr) || !schedule_pad(m, p->nest.column, nr)) return false;
    int64_t rt = ceil_div(p->rows, p->mr), ct = ceil_div(p->columns, nr);
    loop2 row = step_split(m, p->nest.row, p->mr, "it", "mr");
    loop2 column = step_split(m, p->nest.column, nr, "jt", "nr");
    step_want(m, row.inner, WANT_UNROLL);
    step_swap(m, row.inner, column.outer);
    loop2 vectors = schedule_vectors(m, column.inner);
    p->nest.mr = row.inner, p->nest.u = vectors.outer, p->nest.v = vectors.inner;
    if (p->block < p->depth) {
        loop2 cut = step_split(maybe(m), p->sum, p->block, "pc", "kr");
        if (cut.outer.id)
            p->nest.pc = cut.outer, p->sum = cut.inner;
        else
            p->block = p->depth;
    }
    loop_h of[3] = {p->nest.v, p->nest.u, p->nest.mr};
    for (int i = 0; i < 3; i++) {
        made_loops made = step_accumulate(maybe(m), p->tile, of[i]);
        if (!made.done) return true; /* correct, if slow */
        p->nest.after[i] = made.n ? made.loop[made.n - 1] : NO_LOOP;
    }
    loop2 part = step_split(m, row.outer, ceil_div(rt, p->row_parts), "ip", "it");
    loop2 block = step_split(m, part.inner, p->row_block, "ic", "ir");
    loop2 panel = step_split(m, column.outer, ceil_div(ct, p->parts), "jc", "jr");
    p->nest.ip = part.outer, p->nest.ic = block.outer, p->nest.ir = block.inner;
    p->nest.jc = panel.outer, p->nest.jr = panel.inner;
    step_swap(m, p->nest.ir, p->nest.jc); /* ip ic jc ir jr */
    step_swap(m, p->nest.ic, p->nest.jc);
    if (!p->along) step_swap(m, p->nest.ir, p->nest.jr);
    p->nest.last = schedule_block_sums(m, p->tile, p->nest.pc, p->nest.ic).last;
    return true;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* The listed loops by which a copy of the operand at `where` is indexed: those with several
 * iterations that it depends on. */
static stage_axes axes_of(const plan *p, const contraction_operand *o, int n, const loop_h *loop) {
    stage_axes axes = {0};
    for (int i = 0; i < n; i++)
        if (trips_of(p->m, loop[i]) > 1 && contraction_step(p, o, loop[i]))
            stage_axis(&axes, loop[i], false);
    return axes;
}

/* Stage an operand of words: rows contiguous along the reduction keep their order, and vectors of
 * words are copied; else the last of the listed loops is vectorized. Returns the tile; 0: none. */
static mem_id pack_words(plan *p, const contraction_operand *o, loop_h where, int n,
                         const loop_h *loop) {
    scheduler *m = p->m;
    stage_axes axes = axes_of(p, o, n, loop);
    stage_axis(&axes, p->nest.part, false);
    made_stage x = step_stage(maybe(m), o->mem, where, &axes, -1);
    const loop_chain c = x.copy;
    if (c.n < 2) return x.tile;
    if (same_loop(loop[n - 1], p->sum)) {
        loop2 t = step_split(m, c.loop[c.n - 2], m->lanes, "x", "v");
        step_want(m, t.inner, WANT_VEC);
    } else if (want_of(m, c.loop[c.n - 2]) == WANT_UNROLL) {
        step_bind(m, c.loop[c.n - 2], LOOP_VEC);
    }
    return x.tile;
}

/* A single panel takes a little of each row of the operand, and the next panel visits all those
 * pages again. Where they come from memory, several panels are packed at a time. */
static void pack_side_by_side(plan *p, const contraction_operand *o, const loop_chain *c) {
    scheduler *m = p->m;
    loop_h few = c->loop[0];
    if ((o == p->a ? p->rows : p->columns) * p->depth * p->size <= machine_shared(m->limits))
        return;
    if (trips_of(m, few) > m->limits->pack_pages) {
        few = step_split(m, few, m->limits->pack_pages, "group", "few").inner;
        if (!few.id) return;
    }
    step_swap(m, few, c->loop[1]);
}

/* Stage an operand at a loop, by those of the listed loops that it depends on; the copy is
 * vectorized along the source's contiguous direction: that of the last loop, or of the
 * reduction. */
static void pack(plan *p, const contraction_operand *o, loop_h where, int n, const loop_h *loop) {
    scheduler *m = p->m;
    stage_axes axes = axes_of(p, o, n, loop);
    int deep = -1;
    for (int i = 0; i < axes.n; i++)
        if (same_loop(axes.loop[i], p->sum)) deep = i;
    if (deep < 0) return;
    loop_h last = axes.loop[axes.n - 1];
    bool along = contraction_step(p, o, last) == 1,
         across = !along && contraction_step(p, o, p->sum) == 1;
    made_stage x = step_stage(maybe(m), o->mem, where, &axes, o->as);
    const loop_chain c = x.copy;
    if (!x.tile) return;
    p->packed[o == p->b] = x.tile;
    if (along && want_of(m, last) == WANT_UNROLL) step_bind(m, c.loop[c.n - 1], LOOP_VEC);
    if (along && deep == 1) pack_side_by_side(p, o, &c);
    if (along && same_loop(where, p->nest.jr) &&
        p->columns * p->depth * p->size > m->limits->l2 / m->limits->l2_ahead) {
        m->copy = c.loop[0];
        m->use = p->sum;
    }
    if (across && c.n == axes.n) schedule_copy_across(m, &c, deep);
}

/* The loop over rows of accumulators in the epilogue; 0: there is none. */
static stmt_id epilogue_loop(const plan *p) {
    scheduler *m = p->m;
    stmt_id rest = stmt_of(m, p->nest.last);
    if (!rest)
        for (stmt_id s = m->k->root; (s = ir_next(m->k, s, m->k->root)) && !rest;)
            if (schedule_at(m, s)->kind == STMT_DEF && schedule_at(m, s)->def.mem == p->tile)
                rest = schedule_at(m, s)->parent;
    rest = rest ? schedule_at(m, rest)->last : 0;
    return rest && schedule_at(m, rest)->kind == STMT_LOOP ? rest : 0;
}

/* A long epilogue is a loop over rows of accumulators in memory (spill), which is not unrolled. */
void contraction_epilogue(plan *p) {
    scheduler *m = p->m;
    stmt_id rest = epilogue_loop(p);
    if (!rest) return;
    if (!contraction_long_epilogue(schedule_ops(m, rest))) {
        schedule_store_across(m, p->nest.after[2], p->nest.after[1], p->nest.after[0]);
        return;
    }
    made_spill sums = step_spill(maybe(m), p->tile, loop_of(m, rest));
    if (!sums.tile) return;
    schedule_vectors(m, sums.copy);
    step_want(m, loop_of(m, rest), WANT_NOTHING);
}

static void pack_both_words(plan *p, loop_h outside, bool blocks) {
    loop_h where = p->pack_columns && blocks ? outside : p->nest.jr;
    bool along = contraction_step(p, p->a, p->nest.part) == 1;
    if (p->pack_columns)
        pack_words(p, p->b, where, 3 + blocks,
                   (const loop_h[]){p->nest.jr, p->sum, p->nest.u, p->nest.v} + !blocks);
    if (!p->pack_rows) return;
    loop_h order[] = {p->nest.ir, along ? p->nest.mr : p->sum, along ? p->sum : p->nest.mr};
    mem_id packed = pack_words(p, p->a, p->nest.ic, 3, order);
    if (p->same_sign) step_offset(maybe(p->m), p->tile, packed, where);
}

/* Cut the reduction into steps, in each of which something is prefetched; the loop over them. It
 * can be cut so once, and cannot ask for the next block of a copy then. */
static loop_h prefetch_steps(plan *p, int64_t each) {
    scheduler *m = p->m;
    loop2 t = step_split(m, p->sum, each, "pf", "kr");
    if (!t.outer.id) return NO_LOOP;
    if (same_loop(m->use, p->sum)) m->copy = m->use = NO_LOOP;
    p->sum = NO_LOOP;
    return t.outer;
}

/* Prefetch what does not come from the first-level cache: unpacked rows by lines, the reduction in
 * blocks of a line; packed operands where a panel of columns is larger than that cache, and so is
 * read from the second level for each tile of rows, and that tile beside it. */
static void prefetch_operands(plan *p) {
    scheduler *m = p->m;
    int64_t line = m->limits->vector_bytes / p->size, step = p->nv * m->limits->vector_bytes;
    int64_t ahead = m->limits->prefetch_trips;
    loop_h steps = p->uncached ? prefetch_steps(p, line) : NO_LOOP;
    if (steps.id) /* refused, as below, where blocks are that short */
        step_prefetch_trip(maybe(m), p->a->mem, steps, m->limits->prefetch_lines);
    if (!p->packed[0] || contraction_panel_bytes(p) <= m->limits->l1) return;
    if (p->packed[1])
        step_prefetch_trip(maybe(m), p->packed[1], p->sum, ahead);
    else if (p->panel && p->rows > p->mr)
        step_prefetch_distance(m, p->b->mem, ahead * step);
    else
        return;
    step_prefetch_trip(maybe(m), p->packed[0], p->sum, ahead);
}

void contraction_pack(plan *p) {
    bool blocks = trips_of(p->m, p->nest.ic) > 1;
    loop_h outside = p->nest.pc.id ? p->nest.pc : p->nest.jc;
    if (p->word > 1)
        pack_both_words(p, outside, blocks);
    else if (p->pack_columns && (blocks || p->along))
        pack(p, p->b, outside, 4, (const loop_h[]){p->nest.jr, p->sum, p->nest.u, p->nest.v});
    else if (p->pack_columns)
        pack(p, p->b, p->nest.jr, 3, (const loop_h[]){p->sum, p->nest.u, p->nest.v});
    if (p->pack_rows && p->word == 1)
        pack(p, p->a, p->nest.ic, 3, (const loop_h[]){p->nest.ir, p->sum, p->nest.mr});
    prefetch_operands(p);
}

/* The epilogue reads and writes streams from memory, while the operands of the reduction come
 * from the caches. So a block of the reduction for each row prefetches the row's lines; for
 * written ones, too, unless the stores are non-temporal or in place: a store waits for its line
 * otherwise. */
void contraction_prefetch_streams(plan *p) {
    scheduler *m = p->m;
    stmt_id rest = epilogue_loop(p);
    int64_t rows = rest ? schedule_trips(m, rest) : 0,
            each = rows > 0 ? ceil_div(p->depth, rows) : 0;
    if (each < LEAST_BLOCK || p->block < p->depth) return;
    loop_h rows_loop = loop_of(m, rest), steps = NO_LOOP;
    bool *seen = arena_zeroed(&m->k->arena, m->k->mems);
    ir_access *t;
    uint32_t n = ir_accesses(m->k, rest, &t);
    for (uint32_t i = 0; i < n; i++) {
        const ir_memory *mem = ir_m(m->k, t[i].mem);
        int64_t most = m->limits->l2 / (int64_t)qn_dtype_size(mem->dtype);
        if (seen[t[i].mem] || !schedule_is_arg(m, &t[i]) || schedule_past_caches(m, t[i].mem) ||
            mem->access & ACCESS_INPLACE)
            continue;
        if (sym_lo(m->k->syms, mem->size) <= most && !schedule_is_new(m, t[i].mem)) continue;
        seen[t[i].mem] = true;
        if (!steps.id) steps = prefetch_steps(p, each);
        step_prefetch_nest(m, t[i].mem, steps, rows_loop);
    }
}

/* ---- parts for threads ----------------------------------------------------------------------- */

/* Merge the batch and the grid's loops into one parallel loop. */
void contraction_share(plan *p) {
    scheduler *m = p->m;
    loop_h root = p->nest.batch, part[2] = {p->nest.ip, p->nest.jc};
    for (int i = 0; i < 2; i++) {
        if (!part[i].id || (trips_of(m, part[i]) <= 1 && root.id)) continue;
        loop_h merged = root.id ? step_merge(maybe(m), root, part[i], "parts") : part[i];
        if (merged.id) root = merged;
    }
    schedule_share(m, root);
}

/* ---- few rows -------------------------------------------------------------------------------- */

/* How many vectors along the sum share something that the columns' operand is made of, as a block's
 * scale, so that it is made once for them: as many as may be unrolled beside `copies` of each. */
static int64_t shared_vectors(const plan *p, int lanes, int64_t copies) {
    scheduler *m = p->m;
    sym_store *s = m->k->syms;
    stmt_id sum = stmt_of(m, p->sum), at = schedule_at(m, sum)->first;
    int64_t trips = trips_of(m, p->sum), n = SHARED;
    ir_access *t;
    uint32_t count = p->b->plain ? 0 : ir_accesses(m->k, at, &t);
    for (; n > 1; n /= 2) {
        if (trips % (n * lanes) || n * copies > m->limits->unrolled) continue;
        sym var = schedule_at(m, sum)->l.var, blocks = sym_const(s, trips / (n * lanes));
        sym first = sym_scale(s, sym_loop(s, "q", blocks), n * lanes);
        sym other = sym_add(s, first, sym_loop(s, "v", sym_const(s, n * lanes)));
        for (uint32_t i = 0; i < count; i++) {
            if (!t[i].load || !ir_expr_takes(m->k, p->b->factor, t[i].load) || t[i].dyn) continue;
            sym from = sym_subst(s, t[i].index, 1, &var, &first);
            if (from == sym_subst(s, t[i].index, 1, &var, &other)) return n;
        }
    }
    return 1;
}

/* Loads and operations that make a vector of the columns' operand. */
static int64_t making(const plan *p) {
    stmt_id update = schedule_at(p->m, stmt_of(p->m, p->sum))->first;
    int64_t ops = schedule_ops(p->m, update) - 2; /* a product and its sum */
    return p->b->plain || ops < 1 ? 1 + (p->b->as >= 0) : 1 + ops;
}

/* How many rows and columns at a time, of r and n: of all whose sums fit in registers, beside the
 * columns' vectors and one of a row, those that take the fewest loads and operations a
 * multiply-add. Beside what is made a vector from behind the first cache takes twice as long. */
static int64_t choose_few(const plan *p, int64_t r, int64_t n, int64_t *columns) {
    const machine *limits = p->m->limits;
    int64_t rows = r, made = making(p), loaded = 1 + (p->a->as >= 0);
    double best = 0;
    bool near = sat_mul(sat_mul(r, trips_of(p->m, p->sum)), p->size) <= machine_l1(limits);
    if (!p->b->plain && !near) loaded *= 2;
    *columns = 1; /* other machines group sums of more rows so */
    for (int64_t some = 1; some <= r; some++)
        for (int64_t each = 1; each <= limits->epilogue_streams; each++) {
            double loads = (double)(some * loaded + each * made);
            double gain = (double)(some * each) / loads;
            if (r % some || n % each || some * each + each >= limits->registers || gain < best)
                continue;
            best = gain, rows = some, *columns = each;
        }
    return rows;
}

/* For how many steps of columns rows are copied, side by side, once; 0: they stay. They are where
 * their lines take so much of a set of the first cache that those of columns push them out. */
static int64_t rows_copied(const plan *p, int64_t r, int64_t each) {
    const machine *limits = p->m->limits;
    int64_t apart = contraction_step(p, p->a, p->nest.row), way = limits->l1 / limits->l1_ways;
    if (!p->a->plain || way < 1 || apart < 1 || apart > INT32_MAX) return 0;
    apart *= (int64_t)qn_dtype_size(ir_m(p->m->k, p->a->mem)->dtype);
    if (ceil_div(r, way / sym_gcd(apart, way)) + each <= limits->l1_ways) return 0;
    int64_t part = p->columns / each / (4 * (limits->threads > 1 ? limits->threads : 1));
    if (part > MOST_COLUMNS) part = MOST_COLUMNS;
    return part < COPY_COLUMNS ? 0 : part;
}

/* Do the columns come from memory? */
static bool comes_from_memory(const plan *p) {
    int64_t all = sat_mul(p->columns, trips_of(p->m, p->sum));
    return sat_mul(all, p->size) > machine_second(p->m->limits);
}

/* The columns that are taken together; far from each other where they come from memory. */
static loop2 columns_apart(const plan *p, int64_t each) {
    scheduler *m = p->m;
    if (each < 2 || !comes_from_memory(p)) return step_split(m, p->nest.column, each, "jc", "nr");
    return schedule_split_far(m, p->nest.column, each, "jc", "nr");
}

/* The nest for few rows, r of them at a time and `each` columns. false: only begun; correct, if
 * slow. */
static bool build_few_rows(plan *p, int64_t r, int64_t each, int after) {
    scheduler *m = p->m;
    int lanes = ir_m(m->k, p->tile)->sum.lanes;
    int64_t shared = shared_vectors(p, lanes, r * each), part = rows_copied(p, r, each);
    loop2 column = columns_apart(p, each);
    loop_h columns_loop = p->nest.jc = column.outer;
    step_want(m, column.inner, WANT_UNROLL);
    if (r < p->rows) {
        loop2 row = step_split(m, p->nest.row, r, "it", "mr");
        p->nest.ir = row.outer, p->nest.row = row.inner;
    }
    if (!p->nest.jc.id || !p->nest.row.id || !step_swap(maybe(m), p->nest.row, p->nest.jc) ||
        (r < p->rows && !step_swap(maybe(m), p->nest.ir, p->nest.jc)) ||
        !step_accumulate(maybe(m), p->tile, column.inner).done)
        return false;
    made_loops rows = step_accumulate(maybe(m), p->tile, p->nest.row);
    if (!rows.done) return false;
    loop_h epilogue = rows.n ? rows.loop[0] : NO_LOOP; /* p->nest.row's second part */
    loop2 some = {p->sum, NO_LOOP};
    if (shared > 1) some = step_split(m, p->sum, shared * lanes, "kb", "kr");
    loop2 sum = step_split(m, some.inner.id ? some.inner : p->sum, lanes, "kr", "v");
    if (some.inner.id) step_want(m, sum.outer, WANT_UNROLL);
    step_want(m, sum.inner, WANT_VEC);
    made_rfactor wide = step_rfactor(maybe(m), p->tile, sum.inner);
    if (!wide.tile) return false;
    step_swap(m, sum.inner, p->nest.row);
    step_swap(m, sum.inner, column.inner);
    step_swap(m, wide.part, wide.element);
    step_transform_layout(m, wide.tile, lanes);
    if (part) {
        loop2 parts = step_split(m, columns_loop, part, "jp", "jc");
        stage_axes axes = {0};
        if (r < p->rows) stage_axis(&axes, p->nest.ir, false);
        if (some.inner.id) stage_axis(&axes, some.outer, false);
        stage_axis(&axes, sum.outer, false);
        stage_axis(&axes, p->nest.row, false);
        stage_axis(&axes, sum.inner, false);
        made_stage x = step_stage(maybe(m), p->a->mem, parts.outer, &axes, p->a->as);
        if (x.tile) step_bind(m, x.copy.loop[x.copy.n - 1], LOOP_VEC);
        p->nest.jc = parts.outer;
    }
    p->sum = some.inner.id ? some.outer : sum.outer; /* of vectors */
    step_bind(m, sum.inner, LOOP_VEC);
    step_bind(m, wide.part, LOOP_VEC);
    step_bind(m, wide.element, LOOP_UNROLL);
    step_bind(m, p->nest.row, LOOP_UNROLL);
    if (!contraction_long_epilogue(after)) step_bind(m, epilogue, LOOP_UNROLL);
    return true;
}

/* The largest argument that the columns' operand is made of. */
static mem_id largest_of(const plan *p) {
    const kernel *k = p->m->k;
    mem_id most = p->b->mem;
    for (mem_id i = 1; i < k->mems; i++) {
        const ir_memory *x = ir_m(k, i), *y = ir_m(k, most);
        int64_t bytes = (int64_t)qn_dtype_size((qn_dtype)x->dtype),
                other = (int64_t)qn_dtype_size((qn_dtype)y->dtype);
        if (x->scope == MEM_ARG && ir_expr_reads(k, p->b->factor, i) &&
            sat_mul(sym_hi(k->syms, x->size), bytes) > sat_mul(sym_hi(k->syms, y->size), other))
            most = i;
    }
    return most;
}

/* Few rows, and both operands contiguous along the reduction (a dot product): lanes go along it,
 * where the sum's grouping says so (schedule/grouping.c). Each vector of a column is loaded once,
 * in place, for all rows, and nothing is packed; the lanes are summed at the end. false: no such
 * product. */
bool contraction_few_rows(plan *p, int after) {
    scheduler *m = p->m;
    kernel *k = m->k;
    int64_t r, n, deep, each;
    const int lanes = ir_m(k, p->tile)->sum.lanes;
    if (lanes < 2 || p->word > 1 || p->panel) return false;
    if (!sym_is_const(k->syms, extent_of(m, p->nest.row), &r) ||
        !sym_is_const(k->syms, extent_of(m, p->nest.column), &n) ||
        !sym_is_const(k->syms, extent_of(m, p->sum), &deep))
        return false;
    if (deep % lanes) return false;
    const bool memory = comes_from_memory(p);
    int64_t some = choose_few(p, r, n, &each);
    if (build_few_rows(p, some, each, after) && memory)
        schedule_prefetch_block(m, largest_of(p), p->sum);
    return true;
}

/* ---- loops whose number is divided ----------------------------------------------------------- */

/* By what an index divides the loop's number, as i / 7; 0: it does not, or by no part of it. Where
 * places lie side by side they are packed columns, panel by panel, which are taken as they are. */
static int64_t divisor_of(scheduler *m, sym index, loop_h l) {
    sym_linear t = sym_terms(m->k->syms, index);
    int64_t by = 0, found = 0, trips;
    if (!sym_is_const(m->k->syms, extent_of(m, l), &trips)) return 0;
    for (int i = 0; i < t.n; i++) {
        const sym *x;
        if (t.term[i] == var_of(m, l) && t.coef[i] == 1) return 0;
        if (sym_kind_of(m->k->syms, t.term[i]) != SYM_DIV ||
            sym_operands(m->k->syms, t.term[i], &x) != 2 || x[0] != var_of(m, l))
            continue;
        if (sym_is_const(m->k->syms, x[1], &by) && by > 1 && trips % by == 0) found = by;
    }
    return found;
}

bool schedule_split_divided(scheduler *m, stmt_id *loop) {
    contraction x;
    bool any = false;
    if (!contraction_of(m->k, *loop, &x)) return false;
    for (int i = 0; i < x.outs; i++) {
        loop_h l = loop_of(m, x.loop[i].at);
        int64_t by = 0;
        for (int f = 0; f < 2 && !by; f++)
            if (x.of[f].plain && !x.loop[i].fixed[f]) by = divisor_of(m, x.of[f].access.index, l);
        loop_h outer = by ? step_split(maybe(m), l, by, "o", "w").outer : NO_LOOP;
        if (!i && outer.id) *loop = stmt_of(m, outer);
        any |= outer.id != 0;
    }
    return any;
}
