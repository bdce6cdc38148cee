/* transpose.c - elementwise kernels that read along one axis and write along another.
 *
 * In y[i,j] = x[j,i] one side is strided by a row, whichever loop is innermost: a cache line is
 * loaded for each element, and is visited again only a whole column later. So both loops are
 * blocked.
 *
 * Where whole vectors are written and nothing else is read, squares of a vector a side are loaded
 * along one axis, transposed in registers and stored along the other: as many lines are read side
 * by side as there are elements in one, and each is written once, by non-temporal stores where the
 * result is large. Where rows end within a vector, lines are transposed two by two, or a large
 * result is written by whole lines of it (lines.c). All of these pay even where the lines of a pass
 * stay in the nearest caches.
 *
 * Else the operand that the innermost loop does not walk along is staged: its block is loaded in
 * whole vectors along its own axis, and transposed or scattered into a tile in the order of the
 * stores. Scattering is preferred to gathering, which is slow beyond its instruction count on
 * processors with mitigations for gather sampling. A block is a long run of what is read (a quarter
 * of a page, for the hardware prefetcher to see a stream) by one vector of what is written; the
 * tile is half of a usual L1. The limit is the time of moving each byte once. Where the lines of
 * one pass over a column stay in the nearest caches a tile may gain nothing: the price is asked. */
#include "schedule/transpose/transpose.h"

enum {
    LEAST = 16 /* extent worth blocking: no property of a machine, squares must fit it */
};

typedef struct crossing {
    int along, across; /* places in the chain: the stores' loop, the operand's */
    mem_id operand;
    int64_t step; /* the operand's stride along the stores' loop */
} crossing;

/* The loop of the chain along which an access is contiguous; -1: none, or it is no plain access. */
static int walks(scheduler *m, const loop_chain *c, const ir_access *t) {
    int64_t stride;
    if (!schedule_is_arg(m, t) || t->dyn || t->valid != SYM_TRUE) return -1;
    for (int i = c->n - 1; i >= 0; i--)
        if (schedule_step(m, t, var_of(m, c->loop[i]), &stride) && stride == 1) return i;
    return -1;
}

/* Does the chain's body store along one loop and load one argument along another? */
static bool find_crossing(scheduler *m, const loop_chain *c, crossing *x) {
    ir_access *t;
    uint32_t count = ir_accesses(m->k, c->body, &t);
    *x = (crossing){-1, -1, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        int at = walks(m, c, &t[i]);
        if (t[i].load) continue;
        if (at < 0 || (x->along >= 0 && x->along != at)) return false;
        x->along = at;
    }
    for (uint32_t i = 0; i < count && x->along >= 0; i++) {
        int at = walks(m, c, &t[i]);
        int64_t stride;
        if (!t[i].load || at < 0 || at == x->along) continue;
        if (!schedule_step(m, &t[i], var_of(m, c->loop[x->along]), &stride) || !stride)
            continue; /* one value for the whole run */
        if (x->operand && x->operand != t[i].mem) return false;
        x->operand = t[i].mem;
        x->across = at;
        x->step = stride;
    }
    return x->operand != 0;
}

/* Can vectors of it be transposed in registers? LLVM is slow to compile other shuffles. */
static bool transposes(const scheduler *m, mem_id operand) {
    return m->lanes <= 8 || qn_dtype_size((qn_dtype)ir_m(m->k, operand)->dtype) == 4;
}

/* The nest y { v { .. } } loads along v and stores along y: vectors are transposed in registers,
 * where all of v's iterations are sure to exist. */
void copy_transpose_nest(scheduler *m, loop_h v) {
    stmt_id inner = stmt_of(m, v);
    if (!inner) return;
    loop_h y = loop_of(m, schedule_at(m, inner)->parent);
    bool whole = sym_is_const(m->k->syms, schedule_at(m, inner)->l.extent, NULL) &&
                 sym_is_const(m->k->syms, extent_of(m, y), NULL);
    if (whole && schedule_transpose_copy(m, y, v)) step_bind(m, y, LOOP_UNROLL);
    step_bind(m, v, LOOP_VEC);
}

/* Does the innermost loop's body load nothing but that operand? */
static bool loads_only(const scheduler *m, stmt_id body, mem_id operand) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, body, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && t[i].mem != operand) return false;
    return schedule_at(m, body)->first == schedule_at(m, body)->last;
}

/* Does the body load that operand once? A tile holds what one load takes. */
bool copy_loads_once(const scheduler *m, stmt_id body, mem_id operand) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, body, &t), loads = 0;
    for (uint32_t i = 0; i < n; i++) loads += t[i].load && t[i].mem == operand;
    return loads == 1;
}

/* Does the body store non-temporally? */
static bool stores_nontemporal(scheduler *m, stmt_id body) {
    const ir_stmt *x = schedule_at(m, schedule_at(m, body)->first);
    return x->kind == STMT_STORE && schedule_past_caches(m, x->store.mem[0]);
}

/* Split the loop across the lines into vectors. */
loop2 copy_split_lanes(scheduler *m, loop_h l, const char *outer) {
    loop2 t = step_split(m, l, m->lanes, outer, "v");
    step_want(m, t.inner, WANT_VEC);
    return t;
}

/* Peel a perfect nest: its loop number `i` in the copy for the rest, the outermost is 0. */
loop_h copy_peel_nest(scheduler *m, loop_h outermost, int i) {
    loop_chain rest = loop_chain_from(m, step_peel(maybe(m), outermost));
    return loop_chain_at(&rest, i);
}

/* Elements of a cache line that are stored along the innermost loop. */
int64_t copy_line_elements(const scheduler *m) {
    return m->limits->line * m->lanes / m->limits->vector_bytes;
}

/* Lines of the operand that are transposed together, a register each: as many as a vector has
 * elements. Non-temporal stores are of a cache line's elements, so that a line is complete before
 * the next one is begun: parts of eight lines at a time take 1.5 times as long on Zen 3, which
 * joins few. */
static int64_t square_lines(const scheduler *m, bool nontemporal, int64_t trips) {
    int64_t line = copy_line_elements(m);
    bool fits = line > m->lanes && line <= m->limits->registers && trips % (2 * line) == 0;
    return nontemporal && fits ? line : m->lanes;
}

/* A copy into whole lines, whatever is done to its elements on the way, needs no tile in memory:
 * squares of a vector a side are transposed in registers, a run of them at a time. Non-temporal
 * stores go two lines at a time, neighbours in memory: 4096^2 takes 0.8 of the time. */
static void copy_transposed(scheduler *m, loop_chain *c, loop_h along, loop_h across) {
    loop_h *line = &c->loop[c->n - 1];
    bool nontemporal = stores_nontemporal(m, c->body);
    int64_t trips = trips_of(m, along), lines = square_lines(m, nontemporal, trips);
    bool pairs = nontemporal && trips % (2 * lines) == 0;
    loop2 x = copy_split_lanes(m, across, "a");
    if (!x.outer.id) return;
    line[-1] = x.outer;
    loop2 y = step_split(m, along, lines, "y", "e"), pair = {NO_LOOP, NO_LOOP};
    if (!y.outer.id) return;
    *line = y.outer;
    if (!step_swap(m, x.inner, y.outer) || !step_swap(m, x.inner, y.inner)) return;
    if (pairs) pair = step_split(m, y.outer, 2, "z", "n");
    if (pair.outer.id) *line = pair.outer;
    c->body = stmt_of(m, *line);
    if (!step_swap(m, x.outer, *line)) return;
    loop_chain_drop(c, c->n - 2);
    loop_h rest = copy_peel_nest(m, x.outer, pair.outer.id ? 3 : 2); /* a (n) e v */
    copy_transpose_nest(m, x.inner);
    copy_transpose_nest(m, rest);
}

/* The same where rows end within a vector, so that lines are cut between squares: some rows are
 * written from end to end, and the part of a line that one square starts the next one completes in
 * the first-level cache. Items of such rows are made parallel before full squares are peeled. */
static void copy_transposed_rows(scheduler *m, loop_chain *c, loop_h along, loop_h across) {
    loop_h *column = &c->loop[c->n - 2];
    loop2 x = copy_split_lanes(m, across, "a");
    if (!x.outer.id) return;
    *column = x.outer;
    loop2 rows = step_split(m, x.outer, 2, "p", "q");
    if (!rows.outer.id) return;
    *column = rows.outer;
    c->body = stmt_of(m, rows.outer);
    c->n--;
    if (c->n == 1) step_bind(m, rows.outer, LOOP_PAR);
    loop_h left = copy_peel_nest(m, rows.inner, 1); /* q v along */
    loop2 y = step_split(m, along, m->lanes, "y", "e");
    if (!y.outer.id) return;
    step_swap(m, x.inner, y.outer);
    step_swap(m, x.inner, y.inner);
    loop_h cut_short = copy_peel_nest(m, y.outer, 2); /* y e v */
    copy_transpose_nest(m, x.inner);
    if (left.id)
        step_bind(m, left, LOOP_VEC); /* rows fewer than a vector: one element of each at a time */
    else
        copy_transpose_nest(m, cut_short);
}

/* The copy of what the nest o { x { y { .. } } } loads into a tile, in the order of x and y. */
loop_chain copy_stage_block(scheduler *m, mem_id operand, loop_h o, loop_h x, loop_h y) {
    stage_axes ax = {0};
    stage_axis(&ax, x, false);
    stage_axis(&ax, y, false);
    return step_stage(m, operand, o, &ax, -1).copy;
}

/* The nest o { x { y { .. } } } over one block: the operand walks along x, stores along y. */
static void block(scheduler *m, mem_id operand, loop_h o, loop_h x, loop_h y) {
    if (!x.id || !y.id) return;
    loop_h one = trips_of(m, y) == 1 ? x : trips_of(m, x) == 1 ? y : NO_LOOP;
    if (one.id) { /* what is left over has no two elements side by side, or no two lines */
        copy_split_lanes(m, one, same_loop(one, x) ? "xs" : "ys");
        return;
    }
    loop_chain copy = copy_stage_block(m, operand, o, x, y);
    if (copy.n) {
        bool in_registers = transposes(m, operand);
        loop2 t = copy_split_lanes(m, copy.loop[0], in_registers ? "b" : "u");
        step_swap(m, t.inner, copy.loop[1]);
        if (in_registers) {
            copy_transpose_nest(m, t.inner);
        } else {
            step_want(m, t.outer, WANT_UNROLL);
            step_swap(m, t.outer, copy.loop[1]);
        }
    }
    step_want(m, step_split(m, x, 4, "xj", "u").inner, WANT_UNROLL);
    copy_split_lanes(m, y, "ys");
}

/* A question, where what is copied does not stay in the second-level cache. */
static int choose_large(scheduler *m, const loop_chain *c, choice_kind kind, int ways, int own) {
    double bytes = (double)m->limits->vector_bytes / m->lanes;
    for (int i = 0; i < c->n; i++) bytes *= (double)trips_of(m, c->loop[i]);
    return bytes > (double)machine_second(m->limits) ? schedule_choose(m, kind, ways, own) : own;
}

typedef enum crossing_form { BY_SQUARES, BY_ROWS, BY_TILES, BY_LINES } crossing_form;

/* Lines that are cut within a vector cannot be written by whole squares, and a tile holds what one
 * load takes. */
static crossing_form choose_form(scheduler *m, const loop_chain *c, mem_id operand, bool whole,
                                 bool lines) {
    bool able = transposes(m, operand) && loads_only(m, c->body, operand);
    if (!able) return BY_TILES;
    int ways = copy_loads_once(m, c->body, operand) ? 3 : 2;
    if (whole) return (crossing_form)choose_large(m, c, CHOICE_crossing, ways, BY_SQUARES);
    static const crossing_form forms[] = {BY_LINES, BY_ROWS, BY_TILES}; /* the first that may be */
    int first = lines ? 0 : 1;
    return forms[first + choose_large(m, c, CHOICE_crossing, ways - first, 0)];
}

/* A loop that has been split stays split: a later refusal leaves a kernel correct and slower. Lines
 * that are written whole go outermost, as many iterations as there are items; where the last one is
 * cut short, runs do, because only the full lines peeled inside can be proved independent. */
static void cut(scheduler *m, loop_chain *c, mem_id operand, loop_h along, loop_h across) {
    int64_t n = trips_of(m, across), run = m->limits->transpose_lines;
    bool whole = trips_of(m, along) % m->lanes == 0;
    bool lines = copy_pays_by_lines(m, c, operand, along, across);
    crossing_form form = choose_form(m, c, operand, whole, lines);
    if (form == BY_LINES) copy_in_lines(m, c, operand, along, across);
    if (form == BY_SQUARES) copy_transposed(m, c, along, across);
    if (form == BY_ROWS) copy_transposed_rows(m, c, along, across);
    if (form != BY_TILES) return;
    if (run < n && choose_large(m, c, CHOICE_run, 2, 0)) run *= 4;
    if (run > n) run = n;
    if (whole && !step_swap(m, across, along)) return;
    loop2 x = {NO_LOOP, NO_LOOP}, y = x;
    for (int i = 0; i < 2; i++) {
        bool is_y = (i == 0) == whole;
        loop2 *t = is_y ? &y : &x;
        loop_h *place = &c->loop[c->n - 2 + i];
        *place = is_y ? along : across;
        *t = is_y ? step_split(m, along, m->lanes, "yo", "yi")
                  : step_split(m, across, run, "xo", "xi");
        if (!t->outer.id) return;
        *place = t->outer;
    }
    c->n--;
    loop_h o = whole ? x.outer : y.outer;
    if (!step_swap(m, whole ? y.inner : x.inner, o)) return;
    if (whole && !step_swap(m, y.inner, x.inner)) return;
    loop_chain rest = loop_chain_from(m, step_peel(maybe(m), o));
    block(m, operand, o, x.inner, y.inner);
    block(m, operand, loop_chain_at(&rest, 0), loop_chain_at(&rest, 1), loop_chain_at(&rest, 2));
    c->body = stmt_of(m, c->loop[c->n - 1]);
}

bool schedule_transpose(scheduler *m, loop_chain *c) {
    crossing x;
    if (c->n < 2 || !find_crossing(m, c, &x)) return false;
    loop_h along = c->loop[x.along], across = c->loop[x.across];
    int64_t lines = trips_of(m, along);
    if (lines < LEAST || trips_of(m, across) < LEAST) return false;
    bool in_registers = transposes(m, x.operand) && loads_only(m, c->body, x.operand);
    bool stays = lines * m->limits->line <= 2 * m->limits->l1 &&
                 sat_mul(x.step, m->limits->line) / m->lanes % machine_clash(m->limits);
    if (!in_registers && !copy_loads_once(m, c->body, x.operand)) return false;
    if (!in_registers && choose_large(m, c, CHOICE_blocks_across, 2, stays)) return false;
    loop_chain_inward(m, c, x.across);
    for (int i = 0; i < c->n; i++)
        if (same_loop(c->loop[i], along)) loop_chain_inward(m, c, i);
    if (!same_loop(c->loop[c->n - 1], along) || !same_loop(c->loop[c->n - 2], across)) return false;
    cut(m, c, x.operand, along, across);
    return true;
}
