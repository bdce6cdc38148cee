/* transpose.c - elementwise kernels that read along one axis and write along another.
 *
 * In y[i,j] = x[j,i] one side is strided by a row, whichever loop is innermost: a cache line is
 * loaded for each element, and is visited again only a whole column later. So both loops are
 * blocked.
 *
 * Where whole vectors are written and nothing else is read, squares of a vector a side are loaded
 * along one axis, transposed in registers and stored along the other: as many lines are read side
 * by side as there are elements in one, and each is written once, by non-temporal stores where the
 * result is large. Where rows end within a vector, lines are transposed two by two.
 *
 * Else the operand that the innermost loop does not walk along is staged: its block is loaded in
 * whole vectors along its own axis, and transposed or scattered into a tile in the order of the
 * stores. Scattering is preferred to gathering, which is slow beyond its instruction count on
 * processors with mitigations for gather sampling. A block is a long run of what is read (RUN
 * elements, for the hardware prefetcher to see a stream) by one vector of what is written; the tile
 * is half of a usual L1. The limit is the time of moving each byte once. Where the lines of one
 * pass over a column stay in the nearest caches a tile gains nothing. */
#include <stdio.h>

#include "schedule/schedule.h"

enum {
    RUN = 256,
    LEAST = 16,  /* extent worth blocking */
    LINE = 64,   /* bytes of a cache line */
    CLASH = 1024 /* bytes: lines so far apart share few cache sets */
};

typedef struct crossing {
    int along, across; /* places in the chain: the stores' loop, the operand's */
    mem_id operand;
    int64_t step; /* the operand's stride along the stores' loop */
} crossing;

/* The loop of the chain along which an access is contiguous; -1: none, or it is no plain access. */
static int walks(scheduler *m, const loop_chain *c, const ir_access *t) {
    int64_t step;
    if (!schedule_is_arg(m, t) || t->dyn || t->valid != SYM_TRUE) return -1;
    for (int i = c->n - 1; i >= 0; i--)
        if (schedule_step(m, t, schedule_at(m, schedule_find(m, c->name[i]))->l.var, &step) &&
            step == 1)
            return i;
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
        int64_t step;
        if (!t[i].load || at < 0 || at == x->along) continue;
        sym var = schedule_at(m, schedule_find(m, c->name[x->along]))->l.var;
        if (!schedule_step(m, &t[i], var, &step) || !step)
            continue; /* one value for the whole run */
        if (x->operand && x->operand != t[i].mem) return false;
        x->operand = t[i].mem;
        x->across = at;
        x->step = step;
    }
    return x->operand != 0;
}

/* Can vectors of it be transposed in registers? LLVM is slow to compile other shuffles. */
static bool transposes(const scheduler *m, mem_id operand) {
    return m->lanes <= 8 || qn_dtype_size((qn_dtype)ir_m(m->k, operand)->dtype) == 4;
}

/* The nest y { v { .. } } loads along v and stores along y: vectors are transposed in registers,
 * where all of v's iterations are sure to exist. */
static void transpose_nest(scheduler *m, const char *v) {
    char y[40];
    stmt_id inner = schedule_find(m, v);
    if (!inner) return;
    snprintf(y, sizeof y, "%s", schedule_name(m, schedule_at(m, inner)->parent));
    bool whole = sym_is_const(m->k->syms, schedule_at(m, inner)->l.extent, NULL);
    if (whole && schedule_transpose_copy(m, y, v)) schedule_apply(m, "unroll %s", y);
    schedule_apply(m, "vec %s", v);
}

/* Does the innermost loop's body load nothing but that operand? */
static bool loads_only(const scheduler *m, stmt_id body, mem_id operand) {
    ir_access *t;
    uint32_t n = ir_accesses(m->k, body, &t);
    for (uint32_t i = 0; i < n; i++)
        if (t[i].load && t[i].mem != operand) return false;
    return schedule_at(m, body)->first == schedule_at(m, body)->last;
}

/* Does the body store non-temporally? */
static bool stores_nontemporal(const scheduler *m, stmt_id body) {
    const ir_stmt *x = schedule_at(m, schedule_at(m, body)->first);
    return x->kind == STMT_STORE && schedule_past_caches(m, x->store.mem[0]);
}

/* A copy into whole lines, whatever is done to its elements on the way, needs no tile in memory:
 * squares of a vector a side are transposed in registers, a run of them at a time. Non-temporal
 * stores go two lines at a time, neighbours in memory: 4096^2 takes 0.8 of the time. */
static void copy_transposed(scheduler *m, loop_chain *c, const char *along, const char *across) {
    int id = m->next++;
    int64_t lines = schedule_trips(m, schedule_find(m, along));
    bool pairs = stores_nontemporal(m, c->body) && lines % (2 * m->lanes) == 0;
    if (!schedule_apply(m, "split %s %d -> a%d v%d", across, m->lanes, id, id)) return;
    snprintf(c->name[c->n - 2], sizeof c->name[0], "a%d", id);
    if (!schedule_apply(m, "split %s %d -> y%d e%d", along, m->lanes, id, id)) return;
    snprintf(c->name[c->n - 1], sizeof c->name[0], "y%d", id);
    if (!schedule_apply(m, "swap v%d y%d", id, id) || !schedule_apply(m, "swap v%d e%d", id, id))
        return;
    if (pairs && schedule_apply(m, "split y%d 2 -> z%d n%d", id, id, id))
        snprintf(c->name[c->n - 1], sizeof c->name[0], "z%d", id);
    c->body = schedule_find(m, c->name[c->n - 1]);
    if (!schedule_apply(m, "swap a%d %s", id, c->name[c->n - 1])) return;
    loop_chain_drop(c, c->n - 2);
    schedule_apply(m, "peel a%d", id);
    for (int rest = 0; rest < 2; rest++) {
        char v[40];
        snprintf(v, sizeof v, "v%d%s", id, rest ? "_1" : "");
        transpose_nest(m, v);
    }
}

/* The same where rows end within a vector, so that lines are cut between squares: some rows are
 * written from end to end, and the part of a line that one square starts the next one completes in
 * the first-level cache. Items of such rows are made parallel before full squares are peeled. */
static void copy_transposed_rows(scheduler *m, loop_chain *c, const char *along,
                                 const char *across) {
    int id = m->next++;
    if (!schedule_apply(m, "split %s %d -> a%d v%d", across, m->lanes, id, id)) return;
    snprintf(c->name[c->n - 2], sizeof c->name[0], "a%d", id);
    if (!schedule_apply(m, "split a%d 2 -> p%d q%d", id, id, id)) return;
    snprintf(c->name[c->n - 2], sizeof c->name[0], "p%d", id);
    c->body = schedule_find(m, c->name[c->n - 2]);
    c->n--;
    if (c->n == 1) schedule_apply(m, "par p%d", id);
    schedule_apply(m, "peel q%d", id);
    for (int rest = 0; rest < 2; rest++) {
        const char *r = rest ? "_1" : "";
        char y[40], v[40];
        snprintf(v, sizeof v, "v%d%s", id, r);
        snprintf(y, sizeof y, "%s%s", along, r);
        if (!schedule_find(m, v)) continue;
        if (!schedule_apply(m, "split %s %d -> y%d%s e%d%s", y, m->lanes, id, r, id, r)) continue;
        schedule_apply(m, "swap %s y%d%s", v, id, r);
        schedule_apply(m, "swap %s e%d%s", v, id, r);
        schedule_apply(m, "peel y%d%s", id, r);
        transpose_nest(m, v);
        snprintf(v, sizeof v, "v%d%s_1", id, r);
        transpose_nest(m, v);
    }
}

/* The nest over one block: its loops have the number `id` and a suffix. */
static void block(scheduler *m, mem_id operand, int id, const char *loop, const char *part) {
    char at[40], v[40];
    snprintf(at, sizeof at, "%s%s", loop, part);
    if (!schedule_find(m, at)) return;
    int in = m->next++;
    if (schedule_apply(m, "stage a%d %s xi%d%s yi%d%s", ir_m(m->k, operand)->arg, at, id, part, id,
                       part)) {
        stmt_id def = schedule_at(m, schedule_find(m, at))->first;
        loop_chain copy = loop_chain_of(m, schedule_at(m, def)->next);
        bool turn = transposes(m, operand);
        schedule_apply(m, "split %s %d -> %c%d v%d", copy.name[0], m->lanes, turn ? 'b' : 'u', in,
                       in);
        schedule_apply(m, "swap v%d %s", in, copy.name[1]);
        snprintf(v, sizeof v, "v%d", in);
        if (turn)
            transpose_nest(m, v);
        else
            schedule_apply(m, "swap u%d %s", in, copy.name[1]);
    }
    in = m->next++;
    schedule_apply(m, "split xi%d%s 4 -> xj%d u%d", id, part, in, in);
    schedule_apply(m, "split yi%d%s %d -> ys%d v%d", id, part, m->lanes, in, in);
}

/* A loop that has been split stays split: a later refusal leaves a kernel correct and slower. Lines
 * that are written whole go outermost, as many iterations as there are items; where the last one is
 * cut short, runs do, because only the full lines peeled inside can be proved independent. */
static void cut(scheduler *m, loop_chain *c, mem_id operand, const char *along,
                const char *across) {
    int64_t n = schedule_trips(m, schedule_find(m, across));
    int id = m->next++, run = n < RUN ? (int)n : RUN;
    bool whole = schedule_trips(m, schedule_find(m, along)) % m->lanes == 0;
    if (transposes(m, operand) && loads_only(m, c->body, operand)) {
        if (whole)
            copy_transposed(m, c, along, across);
        else
            copy_transposed_rows(m, c, along, across);
        return;
    }
    const char *order[2] = {whole ? along : across, whole ? across : along};
    int width[2] = {whole ? m->lanes : run, whole ? run : m->lanes};
    if (whole && !schedule_apply(m, "swap %s %s", across, along)) return;
    char o[2][24], in[2][24];
    for (int i = 0; i < 2; i++) {
        snprintf(o[i], sizeof o[i], "%so%d", (i == 0) == whole ? "y" : "x", id);
        snprintf(in[i], sizeof in[i], "%si%d", (i == 0) == whole ? "y" : "x", id);
        snprintf(c->name[c->n - 2 + i], sizeof c->name[0], "%s", order[i]);
        if (!schedule_apply(m, "split %s %d -> %s %s", order[i], width[i], o[i], in[i])) return;
        snprintf(c->name[c->n - 2 + i], sizeof c->name[0], "%s", o[i]);
    }
    c->n--;
    if (!schedule_apply(m, "swap %s %s", in[0], o[1])) return;
    if (whole && !schedule_apply(m, "swap %s %s", in[0], in[1])) return;
    schedule_apply(m, "peel %s", o[1]);
    block(m, operand, id, o[1], "");
    block(m, operand, id, o[1], "_1");
    c->body = schedule_find(m, c->name[c->n - 1]);
}

bool schedule_transpose(scheduler *m, loop_chain *c) {
    crossing x;
    if (c->n < 2 || !find_crossing(m, c, &x)) return false;
    char along[40], across[40];
    memcpy(along, c->name[x.along], sizeof along);
    memcpy(across, c->name[x.across], sizeof across);
    int64_t lines = schedule_trips(m, schedule_find(m, along));
    if (lines < LEAST || schedule_trips(m, schedule_find(m, across)) < LEAST) return false;
    bool turned =
        lines % m->lanes == 0 && transposes(m, x.operand) && loads_only(m, c->body, x.operand);
    if (!turned && lines * LINE <= 2 * m->limits->l1 && x.step * LINE / m->lanes % CLASH)
        return false;
    loop_chain_inward(m, c, x.across);
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->name[i], along)) loop_chain_inward(m, c, i);
    if (strcmp(c->name[c->n - 1], along) || strcmp(c->name[c->n - 2], across)) return false;
    cut(m, c, x.operand, along, across);
    return true;
}
