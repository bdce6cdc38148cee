/* block_product.c - many rows times weights in blocks, by small integer products that are scaled:
 * how a prompt is multiplied with weights of few bits.
 *
 *   for i, j { def s; for b { def t; for p { t += i32(w[j, b, p]) * i32(x[i, b, p]) }
 *                             s += f(t, i, j, b) }  .. s }
 *
 * t is exact, and words of neighbouring columns lie one behind the other: four parts of column j,
 * then those of j + 1. So a lane is a column, and
 *
 *   jt it { def s[mr, u, v];  b { def t[mr, u, v]; word { mr u v { part { t += w * x } } }
 *                                 mr u v { s += f(t) } }  mr u v { .. s } }
 *
 * has a register tile twice, of whole numbers and of floats: a dot instruction adds four products a
 * lane, of a vector of weights as it lies and a word of x that all lanes share, and f runs once a
 * block. Columns are outside, for a panel of them serves all rows from the first or second cache.
 * A processor without the instruction makes the same products part by part. Sums of s are in
 * order. What lies along the sum instead is for schedule/blocks/block_dots.c. */
#include "schedule/schedule.h"

enum { PARTS = 4, MOST_VECTORS = 2, SPARE = 2 /* registers: a word of x, a scale */ };

typedef struct block_product {
    loop_h row, column, block;
    block_dots dots;
} block_product;

/* Do words of neighbouring columns lie behind each other, as far as a vector goes? */
static bool is_interleaved(scheduler *m, const contraction_operand *w, loop_h column) {
    sym_store *s = m->k->syms;
    sym var = var_of(m, column), rest, lanes = sym_const(s, m->lanes);
    int64_t step, trips;
    if (!sym_is_const(s, extent_of(m, column), &trips) || trips % m->lanes) return false;
    sym first = sym_scale(s, sym_loop(s, "q", sym_const(s, trips / m->lanes)), m->lanes);
    sym lane = sym_loop(s, "v", lanes), at = sym_add(s, first, lane);
    sym index = sym_subst(s, w->access.index, 1, &var, &at);
    return w->loads == 1 && sym_split(s, index, lane, &step, &rest) && step == PARTS;
}

static bool read_product(scheduler *m, stmt_id loop, block_product *p) {
    loop_chain c = loop_chain_of(m, loop), b;
    contraction x;
    if (c.n != 2) return false;
    stmt_id def = schedule_at(m, c.body)->first, blocks = def ? schedule_at(m, def)->next : 0;
    if (!blocks || schedule_at(m, def)->kind != STMT_DEF) return false;
    if (schedule_at(m, blocks)->kind != STMT_LOOP || !schedule_at(m, blocks)->next) return false;
    b = loop_chain_of(m, blocks);
    if (b.n != 1 || !schedule_is_block_dots(m, &b, &p->dots)) return false;
    if (p->dots.sum != schedule_at(m, def)->def.mem) return false;
    p->row = c.loop[0], p->column = c.loop[1], p->block = b.loop[0];
    if (!contraction_of(m->k, b.body, &x)) return false;
    for (int i = 0; i < 2; i++)
        if (schedule_moves(m, x.factor[i], p->column) && !schedule_moves(m, x.factor[i], p->row) &&
            schedule_moves(m, x.factor[!i], p->row) && !schedule_moves(m, x.factor[!i], p->column))
            return is_interleaved(m, &x.of[i], p->column);
    return false;
}

bool schedule_is_block_product(scheduler *m, stmt_id loop) {
    block_product p;
    return read_product(m, loop, &p);
}

/* Rows and vectors of columns of the tile: as many as there are registers for both sums. */
static int64_t choose_tile(const scheduler *m, const block_product *p, int64_t *vectors) {
    int64_t columns = trips_of(m, p->column) / m->lanes, rows = trips_of(m, p->row);
    *vectors = columns % MOST_VECTORS ? 1 : MOST_VECTORS;
    int64_t most = (m->limits->registers - *vectors - SPARE) / (2 * *vectors);
    if (most < 1) most = 1;
    return rows < most ? rows : ceil_div(rows, ceil_div(rows, most));
}

/* Both tiles get an element for each trip of the loops, the last of which goes in first. */
static bool spread(scheduler *m, const block_product *p, int n, const loop_h *l) {
    for (int i = n; i-- > 0;)
        if (!step_accumulate_through(m, p->dots.sum, l[i]).done) return false;
    for (int i = n; i-- > 0;)
        if (!step_accumulate(m, p->dots.part, l[i]).done) return false;
    return true;
}

static bool cut_words(scheduler *m, block_product *p) {
    loop_chain *words = &p->dots.words;
    int last = words->n - 1;
    if (trips_of(m, words->loop[last]) == PARTS) return true;
    loop2 t = step_split(m, words->loop[last], PARTS, "word", "part");
    words->loop[last] = t.outer;
    words->loop[words->n++] = t.inner;
    return t.inner.id != 0;
}

bool schedule_block_product(scheduler *m, stmt_id loop) {
    block_product p;
    int64_t vectors, rows;
    if (!read_product(m, loop, &p) || !schedule_sums_in_order(m, loop)) return false;
    rows = choose_tile(m, &p, &vectors);
    if (!schedule_pad(m, p.row, rows)) return false;
    loop2 row = step_split(m, p.row, rows, "it", "mr");
    loop2 column = step_split(m, p.column, vectors * m->lanes, "jt", "nr");
    loop2 vector = schedule_vectors(m, column.inner);
    step_want(m, row.inner, WANT_UNROLL);
    if (!cut_words(m, &p)) return true;
    loop_h part = p.dots.words.loop[p.dots.words.n - 1];
    step_swap(m, row.inner, column.outer);
    step_swap(m, row.outer, column.outer); /* jt it mr u v */
    const loop_h tile[] = {row.inner, vector.outer, vector.inner};
    if (!spread(m, &p, 3, tile)) return true; /* correct, if slow */
    step_want(m, part, WANT_WORD);
    step_swap(m, part, row.inner);
    step_swap(m, part, vector.outer);
    step_swap(m, part, vector.inner);
    schedule_share(m, column.outer);
    return true;
}
