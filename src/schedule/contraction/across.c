/* across.c - results that lie across the lanes they were computed in, stored by whole vectors.
 *
 * A convolution whose channels are outermost in memory, as images have them, has these as its lanes
 * all the same: each vector of accumulators then holds one place of many channels, which lie far
 * from each other. Stored lane by lane they take an instruction each, which is much where the sum
 * is short. But a register tile has several places beside each other, its rows, and these are
 * contiguous:
 *
 *   for mr { vec v { y[n*v + mr] = f(t[mr, v]) } }
 *     becomes  for mr { vec v { x[mr, v] = f(t[mr, v]) } }
 *              for v { vec mr { y[n*v + mr] = x[mr, v] } }
 *
 * x is registers, read across by shuffles (transform/transpose.c). What f adds of another image,
 * which lies likewise, is brought into the order of the lanes in the same way, before. */
#include "schedule/schedule.h"

enum {
    LEAST_ROWS = 3, /* of a tile, from which on shuffles are fewer than stores of lanes */
    MOST_ROWS = 64
};

/* As many rows, of those of a tile or of all, as are stored by a vector: they divide them. */
static int64_t rows_at_once(const scheduler *m, int64_t rows) {
    int64_t n = rows < m->lanes ? rows : m->lanes;
    while (n > 1 && rows % n) n--;
    return n;
}

/* A square of registers takes a shuffle for each of its lanes' bits, and a store. */
double schedule_across_cycles(const scheduler *m, int64_t rows) {
    int64_t n = rows_at_once(m, rows);
    double each = (double)m->limits->scatter_cycles, all = (double)(5 * m->lanes) / (double)n;
    return n >= LEAST_ROWS && all < each ? all : each;
}

/* Does an access of an argument go along memory in the loop of rows, but not in that of lanes? */
static bool lies_across(scheduler *m, const ir_access *t, loop_h rows, loop_h lanes) {
    int64_t along, across;
    return schedule_is_arg(m, t) && !t->dyn && !t->guard &&
           qn_dtype_size((qn_dtype)ir_m(m->k, t->mem)->dtype) == 4 &&
           schedule_step(m, t, var_of(m, rows), &along) && along == 1 &&
           schedule_step(m, t, var_of(m, lanes), &across) && across != 0 && across != 1;
}

/* Copy what the tile's vector of channels reads of an image into the order of its lanes. */
static void stage_across(scheduler *m, mem_id image, loop_h where, loop_h rows, loop_h lanes) {
    stage_axes axes = {0};
    stage_axis(&axes, rows, false);
    stage_axis(&axes, lanes, false);
    loop_chain copy = step_stage(maybe(m), image, where, &axes, -1).copy;
    if (copy.n != 2 || !step_swap(maybe(m), copy.loop[0], copy.loop[1])) return;
    if (step_pad(maybe(m), copy.loop[0], m->lanes))
        schedule_transpose_copy(m, copy.loop[1], copy.loop[0]);
    step_bind(m, copy.loop[0], LOOP_VEC);
    step_bind(m, copy.loop[1], LOOP_UNROLL);
}

void schedule_store_across(scheduler *m, loop_h rows, loop_h vectors, loop_h lanes) {
    stmt_id row = stmt_of(m, rows), body = stmt_of(m, lanes);
    if (!row || !body || !ir_inside(m->k, body, row)) return;
    int64_t many = trips_of(m, rows);
    if (many < LEAST_ROWS || many > MOST_ROWS) return;
    stmt_id store = schedule_at(m, body)->first;
    bool one = store && !schedule_at(m, store)->next && schedule_at(m, store)->kind == STMT_STORE;
    int64_t part = rows_at_once(m, many);
    if (!one || part < LEAST_ROWS || trips_of(m, lanes) != m->lanes) return;
    ir_access *t;
    uint32_t n = ir_accesses(m->k, body, &t);
    for (uint32_t i = 0; i < n; i++)
        if (!t[i].load && !lies_across(m, &t[i], rows, lanes)) return;
    loop_h parts = NO_LOOP;
    step_mark mark = steps_mark(m);
    if (part < many) {
        loop2 cut = step_split(maybe(m), rows, part, "mp", "mr");
        if (!cut.outer.id) return;
        parts = cut.outer, rows = cut.inner;
    }
    if (!step_swap(maybe(m), rows, vectors)) {
        steps_back(m, &mark);
        return;
    }
    n = ir_accesses(m->k, stmt_of(m, lanes), &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && lies_across(m, &t[i], rows, lanes))
            stage_across(m, t[i].mem, vectors, rows, lanes);
    if (!schedule_transpose_copy(m, rows, lanes)) {
        steps_back(m, &mark);
        return;
    }
    step_bind(maybe(m), rows, LOOP_UNROLL);
    step_bind(maybe(m), lanes, LOOP_VEC);
    step_bind(maybe(m), vectors, LOOP_UNROLL);
    step_bind(maybe(m), parts, LOOP_UNROLL);
}
