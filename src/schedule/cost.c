/* cost.c - the cost model: how long a scheduled kernel takes, by counting.
 *
 * The estimate chooses among the proposals for a kernel (proposals.c) and says which candidates of
 * tuning are worth compiling (search.c), so it has to rank schedules; its cycles are no promise.
 * Three things are counted:
 *
 *   work     Every expression is evaluated at the outermost loop its variables allow, so it counts
 *            once for each iteration of the loops up to the deepest it uses. What depends on the
 *            vector variable is as many instructions as there are registers in its lanes; strided
 *            loads and stores count once a lane. A loop with a loop-carried reduction takes the
 *            latency of its chain at least.
 *   traffic  Of each cache level: what one iteration of a loop accesses is there for the next one
 *            if all that the iteration accesses fits. What fits in no cache comes from memory, in
 *            an order that the machine likes or not, and is written through the caches or past
 *            them.
 *   rest     Loop iterations, items of the launch, registers beyond those there are (spills).
 *
 * Work and traffic overlap in part. Threads divide what the parallel iterations share. */
#include <math.h>

#include "schedule/schedule.h"

enum {
    DEEPEST = 48,
    CACHES = 3,
    DIMS = 16,
    USUAL = 1 << 20, /* elements that tensors of unknown dimensions are thought to have */
    MOST_COUNT = 1 << 30,
    BESIDE = 3 /* registers of an iteration beside its tiles: operands on their way, of any code */
};

typedef struct level {
    stmt_id loop;
    double trips; /* iterations on average */
    double work;  /* cycles of one iteration, inner serial loops not counted */
    bool carries; /* a loop-carried chain */
    double live;  /* vector registers of tiles live in an iteration, inner loops not counted */
} level;

typedef struct pricer {
    scheduler m;
    level at[DEEPEST];
    int n;             /* loops around the statement, outermost first */
    double *working;   /* by stmt_id: bytes that an iteration accesses */
    double *trips;     /* by stmt_id, of loops: iterations */
    int64_t dim[DIMS]; /* what dimension variables are thought to be */
    struct change {    /* the stores to tiles */
        stmt_id at;
        mem_id mem;
    } * change;
    uint32_t changes;
    double traffic[CACHES];
    double all, parallel; /* cycles; iterations of the parallel roots */
    double copies;
    uint8_t *seen; /* by expr_id: counted for this statement */
} pricer;

static bool is_serial_loop(const kernel *k, stmt_id loop) {
    uint8_t kind = ir_s(k, loop)->loop;
    return kind == LOOP_SERIAL || kind == LOOP_PAR || kind == LOOP_THREAD;
}

static bool is_serial(const pricer *p, int i) {
    return is_serial_loop(p->m.k, p->at[i].loop);
}

static sym level_var(const pricer *p, int i) {
    return ir_s(p->m.k, p->at[i].loop)->l.var;
}

/* The size where loops around are at that quarter of their iterations, 4: at the last one. */
static double count_in(const pricer *p, sym a, stmt_id loop, int quarter) {
    const kernel *k = p->m.k;
    sym var[DIMS + DEEPEST];
    int64_t value[DIMS + DEEPEST], count = sym_hi(k->syms, a);
    int n = k->dim_vars < DIMS ? k->dim_vars : DIMS;
    for (int i = 0; i < n; i++) var[i] = k->dim_var[i], value[i] = p->dim[i];
    for (; loop && loop != k->root && n < DIMS + DEEPEST; loop = ir_s(k, loop)->parent, n++) {
        double trips = p->trips[loop] < 1 ? 1 : p->trips[loop];
        var[n] = ir_s(k, loop)->l.var;
        value[n] = (int64_t)(quarter == 4 ? trips - 1 : trips * quarter / 4);
    }
    sym_eval(k->syms, a, n, var, value, &count);
    return count < 0 ? 0 : count > MOST_COUNT ? (double)MOST_COUNT : (double)count;
}

/* A size as it is on average, inside of that loop; of few parallel iterations the most, for which
 * all wait. Dimensions make tensors of a million elements, within their bounds. What differs in the
 * first or last iteration of a loop around, as what is left over does, counts once for all its
 * iterations. */
static double count_at(const pricer *p, sym a, stmt_id loop) {
    const kernel *k = p->m.k;
    double around = 1, size[5], most = 0;
    bool few = false;
    int64_t exact;
    if (sym_is_const(k->syms, a, &exact)) return exact < 0 ? 0 : (double)exact;
    for (stmt_id s = loop; s && s != k->root; s = ir_s(k, s)->parent) {
        if (p->trips[s] <= around || !sym_uses(k->syms, a, ir_s(k, s)->l.var)) continue;
        around = p->trips[s];
        few = ir_s(k, s)->loop == LOOP_PAR && around <= 2.0 * p->m.limits->threads;
    }
    if (around < 2) return count_in(p, a, loop, 0);
    for (int quarter = 0; quarter < 5; quarter++) {
        size[quarter] = count_in(p, a, loop, quarter);
        if (size[quarter] > most) most = size[quarter];
    }
    double inside = 0.5 * (size[1] + size[3]);
    return few ? most : (size[0] + size[4] + (around - 2) * inside) / around;
}

static double trips_in(const pricer *p, stmt_id loop) {
    return p->trips[loop];
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

/* A field in hundredths. */
static double hundredth(int64_t field) {
    return (double)field / 100;
}

static double addition(const pricer *p) {
    return hundredth(p->m.limits->addition_cycles);
}

/* An access by lanes: whole vectors, one element for all, or one by one. */
static double access_cycles(const pricer *p, sym index, sym valid, expr_id dyn, mem_id mem,
                            bool store) {
    const ir_memory *x = ir_m(p->m.k, mem);
    int vector = vector_level(p);
    sym_store *s = p->m.k->syms;
    if (x->scope == MEM_REG) return 0;
    const machine *l = p->m.limits;
    double one = 1 / (double)(store ? l->store_rate : l->load_rate),
           masked = valid == SYM_TRUE ? 1 : hundredth(l->mask_time);
    if (vector < 0) return one * masked;
    sym var = level_var(p, vector), rest;
    int64_t step = 0;
    bool moves = sym_uses(s, index, var), by_value = dyn && ir_expr_uses(p->m.k, dyn, var);
    if (!moves && !by_value) return one * masked;
    if (!by_value && sym_split(s, index, var, &step, &rest) && step == 1)
        return one * masked * registers_of(p, vector, x->dtype);
    if (store) return (double)l->scatter_cycles * registers_of(p, vector, x->dtype);
    return hundredth(l->gather_cycles) * p->at[vector].trips;
}

/* Is there a store to the memory inside the loop? */
static bool changes_inside(const pricer *p, mem_id mem, stmt_id loop) {
    for (uint32_t i = 0; i < p->changes; i++)
        if (p->change[i].mem == mem && ir_inside(p->m.k, p->change[i].at, loop)) return true;
    return false;
}

/* The deepest loop whose variable the expression itself uses, or in which its value may change. */
static int depth_of(const pricer *p, expr_id e) {
    const kernel *k = p->m.k;
    const ir_expr *x = ir_e(k, e);
    bool tile = x->kind == EXPR_LOAD && ir_m(k, x->load.mem)->scope != MEM_ARG;
    for (int i = p->n - 1; i >= 0; i--)
        if (ir_expr_uses(k, e, level_var(p, i)) ||
            (tile && changes_inside(p, x->load.mem, p->at[i].loop)))
            return i;
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
    double wide = 1, cycles = addition(p);
    if (vector >= 0 && ir_expr_uses(k, e, level_var(p, vector)))
        wide = registers_of(p, vector, x->dtype);
    if (x->kind == EXPR_LOAD)
        cycles = access_cycles(p, x->load.index, x->load.valid, x->load.dyn, x->load.mem, false);
    else if (x->kind == EXPR_OP)
        cycles = addition(p) * op_cost(x->op, x->dtype) * wide;
    else if (x->kind == EXPR_TABLE)
        cycles = wide; /* a permutation each, as emitters write it */
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
        if (x->monoid != MONOID_SET) charge(p, p->n - 1, addition(p) * wide);
        bool across = vector >= 0 && !sym_uses(k->syms, x->store.index, level_var(p, vector)) &&
                      x->monoid != MONOID_SET;
        if (across) charge(p, p->n - 1, (double)p->m.limits->across_cycles * wide);
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

/* An access among the loops around it, outermost first. */
typedef struct place {
    stmt_id loop[DEEPEST];
    double trips[DEEPEST];
    int n;
    double bytes[DEEPEST + 1];         /* in all iterations of this loop and those inside */
    double crowd[CACHES][DEEPEST + 1]; /* as many as these seem to be, where they share few sets */
} place;

/* The part of `unit` bytes, after which places in a cache repeat, on which runs of contiguous bytes
 * begin that are a multiple of `apart` away from each other: rows a page apart have few sets. */
static double spread_over(double unit, double run, int64_t apart) {
    double places = apart ? unit / (double)sym_gcd(apart, (int64_t)unit) : 1;
    return places * run < unit && apart ? places * run / unit : 1;
}

/* Bytes of an access in all iterations of the loops from number `from` inward, in runs of so many
 * contiguous bytes, whole lines at least, whose distances `apart` divides. */
static double reach(const pricer *p, const ir_access *t, const place *x, int from,
                    double *contiguous, int64_t *apart) {
    sym_store *s = p->m.k->syms;
    double elements = 1, run = 1, size = (double)qn_dtype_size(ir_m(p->m.k, t->mem)->dtype);
    *apart = 0;
    for (int i = x->n - 1; i >= from; i--) {
        sym var = ir_s(p->m.k, x->loop[i])->l.var, rest;
        int64_t step, bytes;
        bool by_value = t->dyn && ir_expr_uses(p->m.k, t->dyn, var);
        if ((!by_value && !sym_uses(s, t->index, var)) || x->trips[i] <= 1) continue;
        elements *= x->trips[i];
        if (by_value || !sym_split(s, t->index, var, &step, &rest) ||
            __builtin_mul_overflow(step, (int64_t)size, &bytes))
            *apart = 1; /* anywhere */
        else if (step >= 1 && (double)step <= run)
            run *= x->trips[i];
        else
            *apart = sym_gcd(*apart, bytes);
    }
    double line = (double)p->m.limits->line;
    if (run * size > line) line = run * size;
    *contiguous = line;
    double all = size * count_at(p, ir_m(p->m.k, t->mem)->size, 0);
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
    for (int i = 0; i < n; i++) trips[i] = trips_in(p, loop[i]);
    return n;
}

/* Does the access walk pages of one stream side by side? Then there is a loop over places pages
 * apart inside of one that goes on along contiguous memory, which is by vectors. */
static bool walks_pages(const pricer *p, const ir_access *t, const place *x) {
    double run = 1, size = (double)qn_dtype_size(ir_m(p->m.k, t->mem)->dtype);
    bool apart = false;
    for (int i = x->n - 1; i >= 0; i--) {
        sym var = ir_s(p->m.k, x->loop[i])->l.var, rest;
        int64_t step;
        if (x->trips[i] <= 1 || !sym_uses(p->m.k->syms, t->index, var)) continue;
        if (!sym_split(p->m.k->syms, t->index, var, &step, &rest) || step < 1) return false;
        if ((double)step <= run) {
            if (apart) return true;
            run *= x->trips[i];
        } else {
            double page = (double)p->m.limits->page; /* whole pages at a time are in order */
            apart = run > 1 && run * size < page && (double)step * size >= page;
        }
    }
    return false;
}

/* Is it one stream that is only read? Then the innermost serial loop around it accesses no other
 * argument, and is at so many pages of this one only as walking pages side by side makes it. */
static bool reads_alone(const pricer *p, const ir_access *t, uint32_t n, uint32_t self,
                        const place *x, bool pages) {
    const kernel *k = p->m.k;
    double size = (double)qn_dtype_size(ir_m(k, t[self].mem)->dtype), places = 1;
    int deep = x->n - 1;
    for (; deep >= 0 && !is_serial_loop(k, x->loop[deep]); deep--) {
        sym var = ir_s(k, x->loop[deep])->l.var, rest;
        int64_t step;
        bool linear = sym_split(k->syms, t[self].index, var, &step, &rest);
        if (!linear || fabs((double)step) * size >= (double)p->m.limits->page)
            places *= x->trips[deep];
    }
    for (uint32_t i = 0; i < n && deep >= 0; i++)
        if (ir_m(k, t[i].mem)->scope == MEM_ARG && (!t[i].load || t[i].mem != t[self].mem) &&
            ir_inside(k, t[i].at, x->loop[deep]))
            return false;
    return t[self].load && deep >= 0 && places <= (pages ? MACHINE_PAGES : 1);
}

/* What a byte of access number i of n takes from memory, of the least that it can: streams in the
 * order that the machine does not like, and stores that read the line before it is written. */
static double memory_factor(const pricer *p, const ir_access *all, uint32_t n, uint32_t i,
                            const place *x) {
    const machine *l = p->m.limits;
    const ir_access *t = &all[i];
    bool pages = !t->dyn && walks_pages(p, t, x);
    double gain = (double)machine_page_gain(l, reads_alone(p, all, n, i, x, pages)) / 100;
    double past = (double)l->nontemporal_gain / 100;
    double factor = pages ? 1 / gain : gain;
    if (factor < 1) factor = 1;
    if (t->load) return factor;
    /* of a copy, whose loads take half of its time: past * 2 = 1 + that of the store */
    bool through = !(ir_m(p->m.k, t->mem)->access & ACCESS_NONTEMPORAL);
    return factor * (through ? 2 * past - 1 : 1);
}

static bool counts(const pricer *p, const ir_access *t, uint32_t i, uint32_t n) {
    if (ir_m(p->m.k, t[i].mem)->scope == MEM_REG) return false;
    for (uint32_t j = i + 1; j < n; j++) /* the same access again: a later copy stands for it */
        if (t[j].mem == t[i].mem && t[j].index == t[i].index && t[j].at == t[i].at &&
            !t[j].load == !t[i].load)
            return false;
    return true;
}

/* false: it never runs. */
static bool find_place(const pricer *p, const ir_access *t, place *x) {
    const machine *l = p->m.limits;
    double ways = (double)l->l1 / (double)l->l1_ways, page = (double)l->page, run;
    int64_t apart;
    x->n = loops_around(p, t->at, x->loop, x->trips);
    for (int d = 0; d < x->n; d++)
        if (x->trips[d] <= 0) return false;
    for (int d = 0; d <= x->n; d++) {
        double bytes = reach(p, t, x, d, &run, &apart);
        double first = ways > 0 && ways < page ? ways : page;
        x->bytes[d] = x->crowd[CACHES - 1][d] = bytes;
        x->crowd[0][d] = bytes / spread_over(first, run, apart);
        x->crowd[1][d] = bytes / spread_over(page, run, apart);
    }
    return true;
}

/* What one iteration of each loop accesses; of the root, everything. A tile is one however many
 * access it. */
static void find_working(pricer *p, const ir_access *t, uint32_t n, const place *x, double *most) {
    const kernel *k = p->m.k;
    for (mem_id m = 1; m < k->mems; m++) {
        bool tile = ir_m(k, m)->scope != MEM_ARG;
        if (tile) memset(most, 0, k->stmts * sizeof *most);
        for (uint32_t i = 0; i < n; i++)
            for (int d = 0; t[i].mem == m && d <= x[i].n; d++) {
                stmt_id around = d ? x[i].loop[d - 1] : k->root;
                double more = x[i].bytes[d] - (tile ? most[around] : 0);
                if (more <= 0) continue;
                p->working[around] += more;
                most[around] += more;
            }
    }
}

/* The part of what was accessed that is gone when it is wanted again, so many bytes later. Caches
 * evict neither in order nor all at once. */
static double missing(double bytes, double cache) {
    double over = bytes / (cache > 1 ? cache : 1) - 1; /* all of it from half as much again on */
    return over <= 0 ? 0 : over >= 0.5 ? 1 : 2 * over;
}

/* Bytes of the access that come from behind a cache. What an iteration accesses is there for the
 * next one if all of that stays; else each brings its own. What stays of everything may be cached
 * already. */
static double missed(const pricer *p, const place *x, int c, double cache) {
    double bytes = x->bytes[x->n];
    for (int d = x->n; d-- > 0;) {
        double crowd = x->crowd[c][d + 1] - x->bytes[d + 1];
        double gone = missing(p->working[x->loop[d]] + crowd, cache);
        double trips = x->trips[d];
        bytes = trips < 1 ? trips * bytes : (1 - gone) * x->bytes[d] + gone * trips * bytes;
    }
    return missing(p->working[p->m.k->root], cache) * bytes;
}

static void find_traffic(pricer *p, arena *a) {
    kernel *k = p->m.k;
    const machine *l = p->m.limits;
    ir_access *t;
    uint32_t n = ir_accesses(k, k->root, &t), kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (counts(p, t, i, n)) t[kept++] = t[i];
    place *x = arena_alloc(a, (kept + 1) * sizeof *x);
    n = kept, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        t[kept] = t[i];
        kept += find_place(p, &t[i], &x[kept]);
    }
    find_working(p, t, kept, x, arena_zeroed(a, k->stmts * sizeof(double)));
    /* what would evict what others need is not counted on to be in the last one */
    const double cache[CACHES] = {(double)l->l1, (double)l->l2, (double)machine_evicting(l)};
    for (uint32_t i = 0; i < kept; i++) {
        for (int c = 0; c < CACHES; c++) {
            double times = t[i].load ? 1 : 2; /* a line is read before it is partly written */
            if (c == CACHES - 1) times = memory_factor(p, t, kept, i, &x[i]);
            p->traffic[c] += times * missed(p, &x[i], c, cache[c]);
        }
    }
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void price_block(pricer *p, stmt_id block);

static void price_loop(pricer *p, stmt_id loop) {
    if (p->n == DEEPEST) return;
    level *v = &p->at[p->n++];
    *v = (level){.loop = loop, .trips = trips_in(p, loop)};
    price_block(p, loop);
    int self = --p->n;
    if (!is_serial(p, self)) return;
    const machine *l = p->m.limits;
    double spilled = v->live + BESIDE - (double)l->registers;
    if (spilled > 0) v->work += spilled * (1 / (double)l->store_rate + 1 / (double)l->load_rate);
    double latency = (double)l->fma_latency;
    if (v->carries && v->work < latency) v->work = latency;
    bool par = ir_s(p->m.k, loop)->loop == LOOP_PAR;
    if (par) p->parallel += v->trips;
    charge(p, self - 1, v->trips * (v->work + (double)(par ? l->item_cycles : l->trip_cycles)));
}

static void price_block(pricer *p, stmt_id block) {
    const kernel *k = p->m.k;
    const machine *l = p->m.limits;
    for (stmt_id s = ir_s(k, block)->first; s; s = ir_s(k, s)->next) {
        const ir_stmt *x = ir_s(k, s);
        if (x->kind == STMT_LOOP) price_loop(p, s);
        if (x->kind == STMT_STORE) price_store(p, x);
        if (x->kind == STMT_DEF && x->def.value)
            charge(p, p->n - 1,
                   hundredth(l->clear_cycles) * count_at(p, ir_m(k, x->def.mem)->size, 0) /
                       (double)(l->vector_bytes / 4));
    }
}

/* What is asked often: dimensions, and where tiles change. */
static void look_through(pricer *p, arena *a) {
    kernel *k = p->m.k;
    for (int i = 0; i < k->dim_vars && i < DIMS; i++) {
        int64_t lo = sym_lo(k->syms, k->dim_var[i]), hi = sym_hi(k->syms, k->dim_var[i]);
        int64_t usual = USUAL >> (10 * (k->dim_vars - 1 < 2 ? k->dim_vars - 1 : 2));
        p->dim[i] = usual < lo ? lo : usual > hi ? hi : usual;
    }
    p->change = arena_alloc(a, k->stmts * sizeof *p->change);
    p->trips = arena_zeroed(a, k->stmts * sizeof *p->trips);
    for (stmt_id s = k->root; (s = ir_next(k, s, k->root));) {
        const ir_stmt *x = ir_s(k, s);
        if (x->kind == STMT_LOOP) p->trips[s] = count_at(p, x->l.extent, x->parent);
        for (int i = 0; x->kind == STMT_STORE && i < x->n; i++)
            p->change[p->changes++] = (struct change){s, x->store.mem[i]};
    }
    p->working = arena_zeroed(a, k->stmts * sizeof *p->working);
}

schedule_price schedule_price_of(kernel *k, const machine *limits) {
    arena a;
    arena_open(&a, &k->ctx->heap);
    cleanup undo;
    cleanup_push(&k->ctx->heap, &undo, arena_cleanup, &a);
    pricer *p = arena_zeroed(&a, sizeof *p);
    p->m = (scheduler){.k = k, .limits = limits};
    p->seen = arena_zeroed(&a, k->exprs + 1);
    look_through(p, &a);
    price_block(p, k->root);
    find_traffic(p, &a);
    double share = 1;
    if (p->parallel > 1 && limits->threads > 1) {
        double each = p->parallel / limits->threads;
        int64_t most = (int64_t)each + (each > (double)(int64_t)each);
        share = (double)most / p->parallel;
    }
    const int64_t rate[CACHES] = {limits->l2_rate, limits->l3_rate, limits->memory_rate};
    double work = p->all * share, moved = 0, shared = hundredth(limits->memory_threads);
    for (int c = 0; c < CACHES; c++) /* threads have caches of their own, and one memory */
        moved +=
            p->traffic[c] / (double)rate[c] * (c == CACHES - 1 && share < shared ? shared : share);
    double most = work > moved ? work : moved, least = work > moved ? moved : work;
    schedule_price price = {.cycles = most + hundredth(limits->exposed) * least,
                            .work = work,
                            .moved = moved,
                            .copies = p->copies,
                            .items = p->parallel};
    cleanup_run(&k->ctx->heap, &undo);
    return price;
}
