/* block_rows.c - a few rows times weights in blocks: what texts that are read together are
 * multiplied with.
 *
 *   for i, j { def s;  for b { def t; for p { t += i32(w[j, b, p]) * i32(x[i, b, p]) }
 *                              s += f(t, i, j, b) }  .. s }
 *
 * As they stand each row would read the weights, and make bytes of them, anew. Here
 *
 *   jo io { def s[mr, nr];  o { def f[mr, nr, u, g]; mr nr u g { f = .. }
 *                               u { mr nr { def t; words { t += w * x }  s += f * t } } }  .. s }
 *
 * with vectors of words along the row, as block_dots.c has them: of one row's two columns' words,
 * which mr rows share, and a vector of each row, which the columns share. Scales are made in front
 * of a trip of u vectors, for all of the tile. Other sums of a row, as that of least values, get
 * the same tile; each goes along its own loop. Columns are outside: the rows are in the first or
 * second cache, weights come from memory once, and the columns of a tile are far from each other
 * (schedule_split_far), and asked for. */
#include "schedule/schedule.h"

enum { COLUMNS = 2, MOST_LOOPS = 16 };

/* Does one factor of the products move with the rows alone, and the other with the columns? */
static bool are_apart(scheduler *m, const loop_chain *c, loop_h row, loop_h column) {
    contraction x;
    if (!contraction_of(m->k, c->body, &x)) return false;
    bool moves[2][2];
    for (int i = 0; i < 2; i++) {
        moves[i][0] = schedule_moves(m, x.factor[i], row);
        moves[i][1] = schedule_moves(m, x.factor[i], column);
    }
    return moves[0][0] != moves[1][0] && moves[0][1] != moves[1][1] && moves[0][0] != moves[0][1];
}

bool schedule_is_block_rows(scheduler *m, stmt_id body) {
    block_dots d;
    stmt_id rows = schedule_at(m, body)->parent;
    if (schedule_at(m, body)->kind != STMT_LOOP || schedule_at(m, rows)->kind != STMT_LOOP ||
        schedule_at(m, rows)->parent != m->k->root || schedule_trips(m, rows) < 2)
        return false;
    for (stmt_id s = schedule_at(m, body)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        loop_chain c = loop_chain_of(m, s);
        if (schedule_is_block_dots(m, &c, &d))
            return are_apart(m, &c, loop_of(m, rows), loop_of(m, body));
    }
    return false;
}

/* The row's loops: dots are shared, others go along themselves. */
static bool row_loops(scheduler *m, stmt_id body, block_loops *dots) {
    loop_h loop[MOST_LOOPS];
    int n = 0;
    bool streamed = false, found = false;
    for (stmt_id s = schedule_at(m, body)->first; s; s = schedule_at(m, s)->next) {
        if (schedule_at(m, s)->kind != STMT_LOOP) continue;
        if (n == MOST_LOOPS) return false;
        loop[n++] = loop_of(m, s);
    }
    for (int i = 0; i < n; i++) {
        loop_chain c = loop_chain_of(m, stmt_of(m, loop[i]));
        if (!found && schedule_block_dots_shared(m, &c, dots))
            found = true;
        else
            schedule_row_loop(m, loop[i], 1, &streamed);
    }
    return found && dots->vector.id;
}

/* Rows of a tile: all, or equal parts of them. */
static int64_t choose_rows(const scheduler *m, loop_h row) {
    int64_t rows = trips_of(m, row), most = m->limits->registers / 2 / COLUMNS;
    return rows < most ? rows : ceil_div(rows, ceil_div(rows, most));
}

/* By mem_id: what columns have of their own and all rows take, and the first cache does not
 * hold. */
static bool *find_weights(scheduler *m, stmt_id body, loop_h row, loop_h column) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, body, &t);
    bool *weights = arena_zeroed(&m->k->arena, m->k->mems * sizeof *weights);
    for (mem_id i = 1; i < m->k->mems; i++) {
        bool moves = false, shared = true;
        for (uint32_t a = 0; a < n; a++) {
            if (t[a].mem != i || !t[a].load || !schedule_is_arg(m, &t[a])) continue;
            moves |= sym_uses(m->k->syms, t[a].index, var_of(m, column));
            shared &= !sym_uses(m->k->syms, t[a].index, var_of(m, row));
        }
        const int64_t bytes = schedule_bytes(m, i, sym_lo(m->k->syms, ir_m(m->k, i)->size));
        weights[i] = moves && shared && bytes > machine_l1(m->limits);
    }
    return weights;
}

bool schedule_block_rows(scheduler *m, stmt_id loop) {
    loop_chain c = loop_chain_of(m, loop);
    block_loops dots = {0};
    int64_t exact;
    if (c.n != 2 || !schedule_is_block_rows(m, c.body) || !schedule_has_block_dots(m, c.body))
        return false;
    if (!sym_is_const(m->k->syms, extent_of(m, c.loop[0]), &exact)) return false;
    int64_t rows = choose_rows(m, c.loop[0]);
    step_mark mark = steps_mark(m);
    const bool *weights = find_weights(m, c.body, c.loop[0], c.loop[1]);
    const mem_id args = m->k->mems;
    if (!schedule_pad(m, c.loop[0], rows) || !row_loops(m, c.body, &dots)) {
        steps_back(m, &mark);
        return false;
    }
    loop2 row = step_split(m, c.loop[0], rows, "io", "mr");
    loop2 column = {.outer = c.loop[1]};
    loop_h tile[2] = {row.inner};
    int n = 1;
    if (trips_of(m, c.loop[1]) % COLUMNS == 0) {
        column = schedule_split_far(m, c.loop[1], COLUMNS, "jo", "nr");
        tile[n++] = column.inner;
    }
    step_swap(m, row.inner, column.outer);
    step_swap(m, row.outer, column.outer); /* jo io mr nr */
    for (int i = n; i-- > 0;) {
        step_want(m, tile[i], WANT_UNROLL);
        if (!step_accumulate_through(maybe(m), dots.sum, tile[i]).done) return true; /* slow */
    }
    schedule_block_scales(m, &dots, n, tile);
    for (int i = n; i-- > 0;) step_swap(maybe(m), tile[i], dots.vector);
    for (mem_id i = 1; i < args; i++)
        if (weights[i]) schedule_prefetch_block(m, i, dots.trip);
    schedule_share(m, column.outer);
    return true;
}
