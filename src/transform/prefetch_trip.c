/* prefetch_trip.c - prefetch what a loop loads a number of iterations later.
 *
 * prefetch_trip t0 i 8
 *                for i { .. t[c*i + x] .. }
 *        becomes for i { .. t[c*i + x] ..  prefetch t[c*i + 8*c] }
 *
 * A packed operand is read from the second-level cache, in order. The hardware prefetcher into the
 * first level lags behind a loop that consumes one to three lines in a dozen cycles: out-of-order
 * execution hides the latency, but each line occupies a miss buffer. Rows that are not packed may
 * come from farther away, several to a page, which the hardware prefetcher does not tell apart;
 * there i is a block of the reduction, a line long.
 *
 * The elements that one iteration advances by are prefetched line by line. Loops inside that move
 * by less than that are taken to stay within them, and so are loads that are less than that apart,
 * as the scales and the weights of a block are: of a stream each line is asked for once. Loops that
 * move by more (rows of an operand) are prefetched each on its own.
 *
 * Legal where every load of the memory in the loop advances by the same positive step, and the loop
 * is no vector: a prefetch reads nothing and never faults. */
#include "transform/transform.h"

enum { LINE = 64, MOST_LINES = 32 };

typedef struct prefetching {
    kernel *k;
    mem_id mem;
    stmt_id loop;
    int64_t step; /* elements by which an iteration advances */
    int n, streams;
    sym at[MOST_LINES], stream[MOST_LINES];
} prefetching;

/* Are they always less than an iteration's advance apart? */
static bool are_near(const prefetching *f, sym a, sym b) {
    const sym apart = sym_sub(f->k->syms, a, b);
    return sym_lo(f->k->syms, apart) > -f->step && sym_hi(f->k->syms, apart) < f->step;
}

/* Is it of a stream whose lines are there? */
static bool is_known(const prefetching *f, sym index) {
    bool known = false;
    for (int i = 0; i < f->streams; i++) known |= are_near(f, index, f->stream[i]);
    return known;
}

static bool add_lines(prefetching *f, sym index) {
    int64_t line = LINE / (int64_t)qn_dtype_size(ir_m(f->k, f->mem)->dtype);
    if (is_known(f, index)) return true;
    for (int64_t e = 0; e < f->step; e += line) {
        if (f->n == MOST_LINES) return false;
        f->at[f->n++] = sym_add(f->k->syms, index, sym_const(f->k->syms, e));
    }
    f->stream[f->streams++] = index;
    return true;
}

/* Collect the addresses of the load in one iteration, by the loops from `inner` out. */
static bool add_addresses(prefetching *f, sym index, stmt_id inner) {
    sym_store *s = f->k->syms;
    if (inner == f->loop) return add_lines(f, index);
    const ir_stmt *l = ir_s(f->k, inner);
    stmt_id outer = l->parent;
    sym var = l->l.var, rest, zero = SYM_ZERO, first = sym_subst(s, index, 1, &var, &zero);
    int64_t step = 0, trips = 1;
    if (are_near(f, index, first)) return add_addresses(f, first, outer);
    if (!sym_split(s, index, var, &step, &rest)) return false;
    if (step <= -f->step || step >= f->step) {
        if (!sym_is_const(s, l->l.extent, &trips) || trips > MOST_LINES) return false;
    }
    for (int64_t i = 0; i < trips; i++) {
        sym trip = sym_const(s, i);
        if (!add_addresses(f, sym_subst(s, index, 1, &var, &trip), outer)) return false;
    }
    return true;
}

bool transform_prefetch_trip(kernel *k, mem_id mem, stmt_id loop, int64_t trips, str *why) {
    prefetching f = {.k = k, .mem = mem, .loop = loop};
    ir_stmt l = *ir_s(k, loop);
    if (l.loop == LOOP_VEC || l.loop == LOOP_WORD || l.loop == LOOP_THREAD)
        return ir_refuse(why, "lanes and members prefetch nothing on their own");
    if (ir_m(k, mem)->scope == MEM_REG) return ir_refuse(why, "registers have no address");
    ir_access *t;
    uint32_t n = ir_accesses(k, loop, &t);
    for (uint32_t i = 0; i < n; i++) {
        sym rest;
        int64_t step;
        if (!t[i].load || t[i].mem != mem) continue;
        if (t[i].dyn || !sym_split(k->syms, t[i].index, l.l.var, &step, &rest) || step <= 0)
            return ir_refuse(why, "the loop does not move on in it");
        if (f.step && step != f.step) return ir_refuse(why, "loads move on by other steps");
        f.step = step;
        if (!add_addresses(&f, t[i].index, ir_s(k, t[i].at)->parent))
            return ir_refuse(why, "too many places, or none that is known");
    }
    if (!f.n) return ir_refuse(why, "the loop does not read that");
    sym ahead = sym_add(k->syms, l.l.var, sym_const(k->syms, trips));
    for (int i = 0; i < f.n; i++)
        ir_prefetch(k, loop, mem, sym_subst(k->syms, f.at[i], 1, &l.l.var, &ahead));
    return true;
}

bool apply_prefetch_trip(kernel *k, const transform_args *a, transform_made *made, str *why) {
    (void)made;
    return transform_prefetch_trip(k, a->mem, a->loop[0], a->number, why);
}
