/* cost.c - the cost model: how long a scheduled kernel takes, by counting.
 *
 * The estimate chooses which candidates are worth compiling (search.c), so it has to rank
 * schedules; its cycles are no promise. Three things are counted:
 *
 *   work     Every expression is evaluated at the outermost loop its variables allow, so it counts
 *            once for each iteration of the loops up to the deepest it uses. What depends on the
 *            vector variable is as many instructions as there are registers in its lanes; strided
 *            loads and stores count once a lane. A loop with a loop-carried reduction takes the
 *            latency of its chain at least.
 *   traffic  Of each cache level: the outermost loop whose working set fits is filled once each
 *            time that loop runs. What fits in none comes from memory.
 *   rest     Loop iterations, items of the launch, registers beyond those there are (spills).
 *
 * Work and traffic overlap in part. Threads divide what the parallel iterations share. */
#include "schedule/schedule.h"

enum { DEEPEST = 48, CACHES = 3 };

typedef struct level {
    stmt_id loop;
    double trips;   /* average iterations; of an outermost loop with an inexact extent: the most */
    double work;    /* cycles of one iteration, inner serial loops not counted */
    bool carries;   /* a loop-carried chain */
    double working; /* bytes accessed by all iterations */
    double live;    /* vector registers of tiles live in an iteration, inner loops not counted */
} level;

typedef struct pricer {
    scheduler m;
    level at[DEEPEST];
    int n;           /* loops around the statement, outermost first */
    double *working; /* by stmt_id, of loops */
    double traffic[CACHES];
    double all, parallel; /* cycles; iterations of the parallel roots */
    double copies;
    uint8_t *seen; /* by expr_id: counted for this statement */
} pricer;

static bool is_serial(const pricer *p, int i) {
    uint8_t kind = ir_s(p->m.k, p->at[i].loop)->loop;
    return kind == LOOP_SERIAL || kind == LOOP_PAR || kind == LOOP_THREAD;
}

static sym level_var(const pricer *p, int i) {
    return ir_s(p->m.k, p->at[i].loop)->l.var;
}

/* The vector loop around, -1: none. */
static int vector_level(const pricer *p) {
    for (int i = p->n - 1; i >= 0; i--)
        if (ir_s(p->m.k, p->at[i].loop)->loop == LOOP_VEC) return i;
    return -1;
}

static double registers_of(const pricer *p, int vector, int dtype) {
    double bytes = p->at[vector].trips * (double)qn_dtype_size((qn_dtype)dtype);
    double n = bytes / (double)p->m.limits->vector_bytes;
    return n < 1 ? 1 : n;
}

/* ---- work ------------------------------------------------------------------------------------ */

static const double addition = 0.6; /* cycles, with what cannot go side by side */

/* An access by lanes: whole vectors, one element for all, or one by one. */
static double access_cycles(const pricer *p, sym index, sym valid, expr_id dyn, mem_id mem,
                            bool store) {
    const ir_memory *x = ir_m(p->m.k, mem);
    int vector = vector_level(p);
    sym_store *s = p->m.k->syms;
    if (x->scope == MEM_REG) return 0;
    const machine *l = p->m.limits;
    double one = 1 / (double)(store ? l->store_rate : l->load_rate),
           masked = valid == SYM_TRUE ? 1 : 2;
    if (vector < 0) return one * masked;
    sym var = level_var(p, vector), rest;
    int64_t step = 0;
    bool moves = sym_uses(s, index, var), by_value = dyn && ir_expr_uses(p->m.k, dyn, var);
    if (!moves && !by_value) return one * masked;
    if (!by_value && sym_split(s, index, var, &step, &rest) && step == 1)
        return one * masked * registers_of(p, vector, x->dtype);
    return (store ? 2.0 : 1.2) * p->at[vector].trips;
}

/* The deepest loop whose variable the expression itself uses, or in which its value may change. */
static int depth_of(const pricer *p, expr_id e) {
    const kernel *k = p->m.k;
    const ir_expr *x = ir_e(k, e);
    bool changes = x->kind == EXPR_LOAD && ir_m(k, x->load.mem)->scope != MEM_ARG;
    if (changes) return p->n - 1;
    for (int i = p->n - 1; i >= 0; i--)
        if (ir_expr_uses(k, e, level_var(p, i))) return i;
    return -1;
}

/* Add cycles of something that depends on loops up to `depth`: to the innermost serial loop at or
 * above it, times the copies that unrolled loops between make. */
static void charge(pricer *p, int depth, double cycles) {
    int i = depth;
    for (; i >= 0 && !is_serial(p, i); i--)
        if (ir_s(p->m.k, p->at[i].loop)->loop == LOOP_UNROLL) cycles *= p->at[i].trips;
    if (i >= 0)
        p->at[i].work += cycles;
    else
        p->all += cycles;
}

static void price_expr(pricer *p, expr_id e) {
    kernel *k = p->m.k;
    if (!e || p->seen[e]) return;
    p->seen[e] = 1;
    const ir_expr *x = ir_e(k, e);
    if (x->kind == EXPR_CONST || x->kind == EXPR_PARAM) return;
    int depth = depth_of(p, e), vector = vector_level(p);
    double wide = 1, cycles = addition;
    if (vector >= 0 && ir_expr_uses(k, e, level_var(p, vector)))
        wide = registers_of(p, vector, x->dtype);
    if (x->kind == EXPR_LOAD)
        cycles = access_cycles(p, x->load.index, x->load.valid, x->load.dyn, x->load.mem, false);
    else if (x->kind == EXPR_OP)
        cycles = addition * op_cost(x->op, x->dtype) * wide;
    else if (x->kind == EXPR_TABLE)
        cycles = wide;
    charge(p, depth, cycles);
    expr_id *slot[3];
    ir_expr copy = *x;
    int n = ir_expr_args(&copy, slot);
    for (int i = 0; i < n; i++) price_expr(p, *slot[i]);
}

/* Is the store a loop-carried update of an innermost serial loop? */
static void find_chain(pricer *p, const ir_stmt *x) {
    kernel *k = p->m.k;
    bool updates = x->monoid != MONOID_SET;
    for (int i = 0; i < x->n; i++) updates |= ir_expr_reads(k, x->store.value[i], x->store.mem[i]);
    for (int i = p->n - 1; i >= 0 && updates; i--) {
        if (!is_serial(p, i)) continue;
        p->at[i].carries |= !sym_uses(k->syms, x->store.index, level_var(p, i));
        return;
    }
}

static void price_store(pricer *p, const ir_stmt *x) {
    kernel *k = p->m.k;
    int vector = vector_level(p);
    memset(p->seen, 0, k->exprs);
    for (int i = 0; i < x->n; i++) {
        int dtype = ir_m(k, x->store.mem[i])->dtype;
        double wide = vector >= 0 ? registers_of(p, vector, dtype) : 1;
        price_expr(p, x->store.value[i]);
        charge(
            p, p->n - 1,
            access_cycles(p, x->store.index, x->store.valid, x->store.dyn, x->store.mem[i], true));
        if (x->monoid != MONOID_SET) charge(p, p->n - 1, addition * wide);
        bool across = vector >= 0 && !sym_uses(k->syms, x->store.index, level_var(p, vector)) &&
                      x->monoid != MONOID_SET;
        if (across) charge(p, p->n - 1, 12 * wide);
        if (ir_m(k, x->store.mem[i])->scope != MEM_REG) continue;
        double registers = wide;
        for (int j = p->n - 1; j >= 0 && !is_serial(p, j); j--)
            if (ir_s(k, p->at[j].loop)->loop == LOOP_UNROLL &&
                sym_uses(k->syms, x->store.index, level_var(p, j)))
                registers *= p->at[j].trips;
        for (int j = p->n - 1; j >= 0; j--)
            if (is_serial(p, j)) {
                p->at[j].live += registers;
                break;
            }
    }
    price_expr(p, x->store.dyn);
    price_expr(p, x->store.guard);
    find_chain(p, x);
    double copies = 1;
    for (int i = p->n - 1; i >= 0; i--)
        if (ir_s(k, p->at[i].loop)->loop == LOOP_UNROLL) copies *= p->at[i].trips;
    p->copies += copies;
}

/* ---- traffic --------------------------------------------------------------------------------- */

/* Bytes of an access in all iterations of the loops from `from` inward; whole lines. */
static double reach(const pricer *p, const ir_access *t, const stmt_id *loop, const double *trips,
                    int from, int n) {
    sym_store *s = p->m.k->syms;
    double elements = 1, run = 1, size = (double)qn_dtype_size(ir_m(p->m.k, t->mem)->dtype);
    for (int i = from; i < n; i++) {
        sym var = ir_s(p->m.k, loop[i])->l.var, rest;
        int64_t step;
        bool by_value = t->dyn && ir_expr_uses(p->m.k, t->dyn, var);
        if (!by_value && !sym_uses(s, t->index, var)) continue;
        elements *= trips[i];
        if (!by_value && sym_split(s, t->index, var, &step, &rest) && step >= 1 &&
            (double)step <= run)
            run *= trips[i];
    }
    double line = (double)p->m.limits->line;
    if (run * size > line) line = run * size;
    double all = size * (double)sym_hi(s, ir_m(p->m.k, t->mem)->size);
    double bytes = elements / run * line;
    return bytes < all ? bytes : all;
}

/* The loops around a statement, outermost first. */
static int loops_around(const pricer *p, stmt_id at, stmt_id loop[DEEPEST], double trips[DEEPEST]) {
    const kernel *k = p->m.k;
    int n = 0;
    for (stmt_id s = ir_s(k, at)->parent; s && s != k->root && n < DEEPEST; s = ir_s(k, s)->parent)
        loop[n++] = s;
    for (int i = 0; i < n / 2; i++) {
        stmt_id s = loop[i];
        loop[i] = loop[n - 1 - i];
        loop[n - 1 - i] = s;
    }
    for (int i = 0; i < n; i++) {
        int64_t t = schedule_trips(&p->m, loop[i]);
        trips[i] = t < 1 ? 1 : t > 1 << 30 ? 1 << 30 : (double)t;
    }
    return n;
}

static bool counts(const pricer *p, const ir_access *t, uint32_t i, uint32_t n) {
    if (ir_m(p->m.k, t[i].mem)->scope == MEM_REG) return false;
    for (uint32_t j = i + 1; j < n; j++) /* the same access again: a later copy stands for it */
        if (t[j].mem == t[i].mem && t[j].index == t[i].index && t[j].at == t[i].at &&
            !t[j].load == !t[i].load)
            return false;
    return true;
}

static void find_traffic(pricer *p) {
    kernel *k = p->m.k;
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t);
    stmt_id loop[DEEPEST];
    double trips[DEEPEST];
    const int64_t cache[CACHES] = {p->m.limits->l1, p->m.limits->l2, p->m.limits->l3};
    for (uint32_t i = 0; i < n; i++) {
        int depth = loops_around(p, t[i].at, loop, trips);
        for (int d = 0; d < depth && counts(p, t, i, n); d++)
            p->working[loop[d]] += reach(p, &t[i], loop, trips, d, depth);
    }
    for (uint32_t i = 0; i < n; i++) {
        int depth = loops_around(p, t[i].at, loop, trips);
        bool around = t[i].load == 0 && !(ir_m(k, t[i].mem)->access & ACCESS_NONTEMPORAL);
        if (!counts(p, t, i, n)) continue;
        for (int c = 0; c < CACHES; c++) {
            int d = 0;
            double times = around ? 2 : 1; /* a line is read before it is partly written */
            while (d < depth && p->working[loop[d]] > (double)cache[c]) times *= trips[d++];
            if (d == 0) continue; /* all of it fits: it may be cached already */
            p->traffic[c] += times * reach(p, &t[i], loop, trips, d, depth);
        }
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void price_block(pricer *p, stmt_id block);

static void price_loop(pricer *p, stmt_id loop) {
    if (p->n == DEEPEST) return;
    int64_t trips = schedule_trips(&p->m, loop);
    level *v = &p->at[p->n++];
    *v = (level){.loop = loop, .trips = trips < 1 ? 1 : trips > 1 << 30 ? 1 << 30 : (double)trips};
    price_block(p, loop);
    int self = --p->n;
    if (!is_serial(p, self)) return;
    double spilled = v->live + 3 - (double)p->m.limits->registers;
    if (spilled > 0) v->work += 1.5 * spilled;
    double latency = (double)p->m.limits->fma_latency;
    if (v->carries && v->work < latency) v->work = latency;
    bool par = ir_s(p->m.k, loop)->loop == LOOP_PAR;
    if (par) p->parallel += v->trips;
    charge(p, self - 1, v->trips * (v->work + (par ? 40 : 1)));
}

static void price_block(pricer *p, stmt_id block) {
    const kernel *k = p->m.k;
    for (stmt_id s = ir_s(k, block)->first; s; s = ir_s(k, s)->next) {
        const ir_stmt *x = ir_s(k, s);
        if (x->kind == STMT_LOOP) price_loop(p, s);
        if (x->kind == STMT_STORE) price_store(p, x);
        if (x->kind == STMT_DEF && x->def.value)
            charge(p, p->n - 1,
                   0.5 * (double)sym_hi(k->syms, ir_m(k, x->def.mem)->size) /
                       (double)(p->m.limits->vector_bytes / 4));
    }
}

schedule_price schedule_price_of(kernel *k, const machine *limits) {
    arena a;
    arena_open(&a, &k->ctx->heap);
    cleanup undo;
    cleanup_push(&k->ctx->heap, &undo, arena_cleanup, &a);
    pricer *p = arena_zeroed(&a, sizeof *p);
    p->m = (scheduler){.k = k, .limits = limits};
    p->seen = arena_zeroed(&a, k->exprs + 1);
    p->working = arena_zeroed(&a, k->stmts * sizeof *p->working);
    price_block(p, k->root);
    find_traffic(p);
    double share = 1;
    if (p->parallel > 1 && limits->threads > 1) {
        double each = p->parallel / limits->threads;
        int64_t most = (int64_t)each + (each > (double)(int64_t)each);
        share = (double)most / p->parallel;
    }
    const int64_t rate[CACHES] = {limits->l2_rate, limits->l3_rate, limits->memory_rate};
    double work = p->all * share, moved = 0;
    for (int c = 0; c < CACHES; c++)
        moved += p->traffic[c] / (double)rate[c] * (c == CACHES - 1 && share < 0.7 ? 0.7 : share);
    double most = work > moved ? work : moved, least = work > moved ? moved : work;
    schedule_price price = {.cycles = most + 0.3 * least,
                            .work = work,
                            .moved = moved,
                            .copies = p->copies,
                            .items = p->parallel};
    cleanup_run(&k->ctx->heap, &undo);
    return price;
}
