/* lines.c - large copies across whose rows end within a line of the cache.
 *
 * A non-temporal store writes a whole vector at a multiple of its size, and only some rows begin at
 * one. So blocks are transposed into a tile, in registers by squares, and each row of the tile
 * is written by whole lines of the result; what stands before the first of these and behind the
 * last one gets loops of its own (align). 4100^2 takes 0.45 of the time, 4097^2 0.23 (Granite
 * Rapids, one thread, 2026-11-28). docs/decisions/030-rows-by-lines.md has what else was tried.
 *
 * A block's cost: its elements are read once, asked for while the block before is read, stored to
 * the tile and loaded again from the second cache, and written once. */
#include "schedule/transpose/transpose.h"

enum { RUN = 8 /* blocks side by side: rows are read on for some pages' worth of lines */ };

/* Elements of a block along the result's rows, of which lines at both ends are written in parts: it
 * is twice as long as where they are whole. */
static int64_t block_length(const scheduler *m) {
    int64_t length = 2 * m->limits->transpose_lines, most = machine_l2(m->limits) / 4;
    return length * m->limits->line > most ? most / m->limits->line : length;
}

/* Elements of a block across them: its tile is to be written and read back from the second cache
 * while others pass, and what is left of the n rows, of which elements are read one by one, is to
 * be few of them. */
static int64_t block_width(const scheduler *m, int64_t n) {
    const machine *l = m->limits;
    int64_t lines = l->transpose_reads, line = copy_line_elements(m), most = machine_l2(l) / 4;
    while (lines > 1 && (lines * l->line * block_length(m) > most || n % (lines * line) > n / 16))
        lines /= 2;
    return lines * line;
}

/* Blocks side by side that are an item of parallel work: two at least, for one would not be a loop
 * whose last iteration can be peeled. */
static int64_t blocks_of_item(const scheduler *m, int64_t blocks) {
    int64_t run = blocks / (2 * (m->limits->threads > 1 ? m->limits->threads : 1));
    return run < 2 ? 2 : run > RUN ? RUN : run;
}

/* The nest o { x { y { .. } } } over blocks of one size: squares are transposed in registers into a
 * tile, those of neighbouring lines one after the other; rows of it are written by lines of the
 * result. The next block's lines are asked for as each of this one's is read. */
static void block_in_lines(scheduler *m, mem_id operand, loop_h o, loop_h x, loop_h y) {
    int64_t ahead = schedule_bytes(m, operand, trips_of(m, x) + m->lanes - 1);
    mem_id result = schedule_at(m, schedule_at(m, stmt_of(m, y))->first)->store.mem[0];
    loop_chain copy = copy_stage_block(m, operand, o, x, y);
    if (copy.n == 2) {
        loop2 a = copy_split_lanes(m, copy.loop[0], "b");
        loop2 e = step_split(m, copy.loop[1], m->lanes, "y", "e");
        if (step_swap(m, a.inner, e.outer) && step_swap(m, a.inner, e.inner))
            step_swap(m, a.outer, e.outer);
        loop_h rest = copy_peel_nest(m, e.outer, 3); /* y b e v */
        copy_transpose_nest(m, a.inner);
        step_bind(m, rest, LOOP_VEC);
        step_prefetch_distance(maybe(m), operand, ahead);
    }
    bool copies = schedule_ops(m, stmt_of(m, y)) <= 1;
    made_align ends =
        step_align(maybe(m), y, result, copy_line_elements(m)); /* all may be aligned */
    copy_split_lanes(m, ends.after, "ya");
    if (!copies)
        copy_split_lanes(m, ends.before, "yb"); /* else one by one: a vector is of two lines */
    copy_split_lanes(m, y, "ys");
}

/* The rest of what was cut into blocks, x { y { .. } }: few along x or few along y. */
static void rest_of_blocks(scheduler *m, loop_h x, loop_h y) {
    if (!x.id || !y.id) return;
    bool few = trips_of(m, y) < m->lanes;
    if (few && !step_swap(m, x, y)) return;
    loop2 r = step_split(maybe(m), few ? x : y, m->lanes, "r", "v"); /* else one by one */
    if (r.inner.id) step_want(m, r.inner, WANT_VEC);
}

/* Whole blocks side by side, o { x { y { .. } } }, and what is left of x. */
static void row_of_blocks(scheduler *m, mem_id operand, loop_h o, loop_h x, loop_h y) {
    loop_chain rest = loop_chain_from(m, step_peel(maybe(m), o));
    block_in_lines(m, operand, o, x, y);
    rest_of_blocks(m, loop_chain_at(&rest, 1), loop_chain_at(&rest, 2));
}

/* A large copy whose rows end within a vector, by blocks whose rows are written by lines of the
 * result, see above. An item is a run of blocks side by side, so that what it reads goes on; items
 * are made parallel before whole blocks are peeled: their independence could not be proved then. */
void copy_in_lines(scheduler *m, loop_chain *c, mem_id operand, loop_h along, loop_h across) {
    int64_t n = trips_of(m, across), wide = block_width(m, n);
    loop2 x = step_split(m, across, wide, "xo", "xi");
    loop2 item = step_split(m, x.outer, blocks_of_item(m, n / wide), "p", "q");
    loop2 y = step_split(m, along, block_length(m), "yo", "yi");
    if (!item.outer.id || !y.outer.id) return;
    if (!step_swap(m, x.inner, y.outer) || !step_swap(m, item.inner, y.outer)) return;
    c->loop[--c->n - 1] = item.outer;
    c->body = stmt_of(m, item.outer);
    if (c->n == 1) step_bind(m, item.outer, LOOP_PAR);
    loop_chain last = loop_chain_from(m, step_peel(maybe(m), y.outer)); /* yo q xi yi */
    row_of_blocks(m, operand, item.inner, x.inner, y.inner);
    if (last.n == 4 && trips_of(m, last.loop[3]) >= 2 * copy_line_elements(m))
        row_of_blocks(m, operand, last.loop[1], last.loop[2], last.loop[3]);
    else
        rest_of_blocks(m, loop_chain_at(&last, 2), loop_chain_at(&last, 3));
}

/* Is it a large result that is better written past the caches, of elements as wide as what is read,
 * and are there blocks enough, for each thread two? What the price says of stores past the caches
 * is no answer here: it does not know how much is lost by lines that are written in parts. */
bool copy_pays_by_lines(scheduler *m, const loop_chain *c, mem_id operand, loop_h along,
                        loop_h across) {
    const machine *l = m->limits;
    const ir_stmt *x = schedule_at(m, schedule_at(m, c->body)->first);
    bool known = sym_is_const(m->k->syms, extent_of(m, along), NULL) &&
                 sym_is_const(m->k->syms, extent_of(m, across), NULL);
    if (!known || x->kind != STMT_STORE || !copy_loads_once(m, c->body, operand)) return false;
    mem_id result = x->store.mem[0];
    int64_t n = trips_of(m, across), vector = schedule_bytes(m, result, m->lanes);
    int64_t threads = c->n == 2 && l->threads > 1 ? l->threads : 1;
    return schedule_evicts(m, result) && l->nontemporal_gain > 100 && vector == l->vector_bytes &&
           vector == schedule_bytes(m, operand, m->lanes) && copy_line_elements(m) > 1 &&
           trips_of(m, along) >= l->transpose_lines && n / block_width(m, n) >= 2 * threads;
}
