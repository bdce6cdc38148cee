/* scatter.c - share the columns of a scatter among threads.
 *
 * A scatter copies a value and then combines rows into it, at places that an index says. Rows may
 * meet in one place, and their order decides the bits of a sum, so one thread takes all rows in
 * order, but only some columns of them; of the copy it takes the same columns, so neither waits for
 * the other. Every thread reads the whole index, which is little where a part of a row is whole
 * cache lines.
 *
 *     for i { for c { y[i, c] = x[i, c] } }        par q { for i { for c in q { .. } }
 *     for s { for c { y[at[s], c] += z[s, c] } }           for s { for c in q { .. } } } */
#include "schedule/schedule.h"

/* The only store of the nest; false: it has none, or several. */
static bool only_store(scheduler *m, stmt_id nest, ir_access *out) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, nest, &t), stores = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!t[i].load) *out = t[i], stores++;
    return stores == 1;
}

/* The loop over parts of the chain's columns, around all others; null: an exchange is refused. */
static loop_h outermost(scheduler *m, const loop_chain *c, int64_t part) {
    loop_h l = step_split(maybe(m), c->loop[c->n - 1], part, "q", "c").outer;
    if (!l.id) return NO_LOOP;
    for (int i = c->n - 1; i-- > 0;)
        if (!step_swap(maybe(m), c->loop[i], l)) return NO_LOOP;
    return l;
}

/* Into parts of how many columns? Equal ones, at most one for each thread, and of whole lines, for
 * two threads that write to one wait for each other; or else of some. 0: there are no such. */
static int64_t columns_of_part(scheduler *m, const loop_chain *c, const ir_access *t) {
    int64_t step, n, line = m->limits->line / (int64_t)qn_dtype_size(ir_m(m->k, t->mem)->dtype);
    loop_h last = c->loop[c->n - 1];
    if (!schedule_step(m, t, var_of(m, last), &step) || step != 1 ||
        !sym_is_const(m->k->syms, extent_of(m, last), &n))
        return 0;
    for (int parts = m->limits->threads; parts > 1; parts--)
        if (n % (parts * line) == 0) return n / parts;
    for (int parts = m->limits->threads; parts > 1; parts--)
        if (n % parts == 0 && n / parts >= 2 * line) return n / parts;
    return 0;
}

stmt_id schedule_share_scatter(scheduler *m) {
    stmt_id copy = schedule_at(m, m->k->root)->first, rows = schedule_at(m, m->k->root)->last;
    ir_access to, t;
    if (m->limits->threads < 2 || !copy || schedule_at(m, rows)->kind != STMT_LOOP) return 0;
    if (copy != rows && (schedule_at(m, copy)->kind != STMT_LOOP ||
                         schedule_at(m, copy)->next != rows || !only_store(m, copy, &to)))
        return 0;
    if (!only_store(m, rows, &t) || !t.dyn || (copy != rows && (to.mem != t.mem || to.dyn)))
        return 0;
    if (schedule_work(m, rows) < 2 * (double)schedule_item_work(m)) return 0;
    loop_chain c = loop_chain_of(m, rows), of = loop_chain_of(m, copy);
    int64_t part = columns_of_part(m, &c, &t), step;
    loop_h columns = of.loop[of.n - 1];
    if (!part || extent_of(m, columns) != extent_of(m, c.loop[c.n - 1])) return 0;
    if (copy != rows && (!schedule_step(m, &to, var_of(m, columns), &step) || step != 1)) return 0;
    step_mark before = steps_mark(m);
    loop_h all = outermost(m, &c, part);
    loop_h first = copy == rows || !all.id ? all : outermost(m, &of, part);
    bool shared = first.id && (copy == rows || step_fuse(maybe(m), first, all)) &&
                  step_bind(maybe(m), first, LOOP_PAR);
    if (shared) return stmt_of(m, first);
    steps_back(m, &before);
    return 0;
}
