/* compile.c - how a kernel becomes an object: from the disk cache, through LLVM, or through the
 * system's C compiler.
 *
 * Knob cpu says which compiler; without it the first that works is taken. Loading libLLVM takes
 * longer than a small program runs, so where the cache remembers which libLLVM was found last
 * (key.c), the choice waits until an object is missing. */
#include "dev/cpu/cpu.h"

#include <stdatomic.h>

/* ---- choosing ------------------------------------------------------------------------------- */

/* Where it is chosen `why` may have been added to: why LLVM is not it. */
static bool choose(cpu *c, str *why) {
    const char *wanted = c->ctx->knob[KNOB_CPU].text;
    bool any = !*wanted, cc = !strcmp(wanted, "cc"), llvm = !strcmp(wanted, "llvm");
    c->chosen = true;
    if (any || llvm) {
        c->llvm = emit_llvm_open(c->ctx, &c->isa, why);
        c->no_llvm.len = 0;
        if (!c->llvm) str_add(&c->no_llvm, why->s ? why->s : "");
        if (c->llvm) cpu_key_llvm(emit_llvm_file(c->llvm), &c->compiler);
        if (c->cache.on) cpu_key_record(c, c->llvm != NULL);
        if (c->llvm) return true;
    }
    if (any || cc) {
        char file[CPU_PATH];
        bool found = cpu_cc_find(c->ctx, file);
        if (found) cpu_key_cc(c->ctx, file, &c->compiler);
        c->by_cc = found;
        if (found && any && *c->ctx->knob[KNOB_LLVM].text)
            log_line(c->ctx, "device cpu: %s; the C compiler is used instead, much slower",
                     c->no_llvm.s);
        if (found) return true;
        str_addf(why, "%sno C compiler \"%s\"", why->len ? "; " : "", c->ctx->knob[KNOB_CC].text);
    }
    if (!any && !cc && !llvm) str_addf(why, "QN_CPU is \"%s\", not llvm or cc", wanted);
    c->chosen = false;
    return false;
}

bool cpu_choose_compiler(cpu *c, str *why) {
#if defined(__x86_64__)
    const char *wanted = c->ctx->knob[KNOB_CPU].text;
    if (!emit_isa_of(c->ctx->knob[KNOB_ISA].text, &c->isa, why)) return false;
    cpu_cache_open(c->ctx, &c->cache);
    if (c->cache.on) cpu_key_here(c, &c->here);
    bool wait = c->cache.on && (!*wanted || !strcmp(wanted, "llvm")) && cpu_key_recall(c);
    return wait || choose(c, why);
#else
    (void)choose;
    (void)c;
    str_add(why, "kernels are compiled for x86-64 only");
    return false;
#endif
}

void cpu_tell_compiler(cpu *c, str *out) {
    str why;
    str_open(&why, &c->ctx->heap);
    cleanup undo;
    cleanup_push(&c->ctx->heap, &undo, str_cleanup, &why);
    bool able = c->chosen || choose(c, &why);
    if (!able)
        str_addf(out, "none (%s)", why.s);
    else if (c->llvm)
        emit_llvm_tell(c->llvm, out);
    else
        str_addf(out, "the C compiler, %s (%s)", c->ctx->knob[KNOB_CC].text,
                 c->no_llvm.len ? c->no_llvm.s : "QN_CPU=cc");
    cleanup_run(&c->ctx->heap, &undo);
}

/* The knob may be turned while the device is open. */
static void follow_cache_knob(cpu *c) {
    if (cpu_cache_is(c->ctx, &c->cache)) return;
    cpu_cache_close(&c->cache);
    cpu_cache_open(c->ctx, &c->cache);
    if (c->cache.on && !c->here.len) cpu_key_here(c, &c->here);
}

/* ---- compiling ------------------------------------------------------------------------------ */

static bool find(cpu *c, cpu_unit *u) {
    if (!c->cache.on) return false;
    u->key.len = 0;
    str_addf(&u->key, "%s%s", c->here.s, c->compiler.s);
    ir_print(u->k, &u->key);
    return u->cached = cpu_cache_get(c->ctx, &c->cache, &u->key, &u->object, &u->function);
}

/* Is it found? If not, the compiler is chosen. */
static bool look_up(cpu *c, cpu_unit *u) {
    if (find(c, u)) return true;
    if (c->chosen) return false;
    if (!choose(c, &u->text))
        raise_error(c->ctx, QN_EDEVICE, "kernel %s: %s", u->k->name, u->text.s ? u->text.s : "");
    return find(c, u); /* the compiler may be another than was thought */
}

/* A module takes some hundred KiB a kernel until its object is made: not too many at once. A module
 * costs LLVM as much as a small kernel, and a process of the C compiler more, so several kernels
 * share one; more than a few gain nothing, and each one's entry in the disk cache holds all of
 * them: so each entry is whole, and no entry that goes takes others with it. */
enum { MOST_UNITS = 64, MOST_TOGETHER = 6, MOST_TOGETHER_CC = 8 };

/* Kernels that are compiled together, and the seconds that took: writing the module, and LLVM. */
typedef struct group {
    cpu_unit *holder;
    double writing, running;
} group;

/* Groups that LLVM still has to run, taken one by one by whichever thread is free. */
typedef struct queue {
    group *at;
    int n;
    atomic_int next;
} queue;

static void run_groups(void *arg, int thread, int64_t from, int64_t to) {
    (void)from;
    (void)to;
    queue *q = arg;
    for (int i; (i = atomic_fetch_add(&q->next, 1)) < q->n;) {
        double start = clock_seconds();
        emit_llvm_run(q->at[i].holder->llvm, thread);
        q->at[i].running = clock_seconds() - start;
    }
}

/* So many that each thread has the same number of them. */
static int count_groups(int units, int threads, int most) {
    int rounds = (units + most * threads - 1) / (most * threads);
    return rounds * threads < units ? rounds * threads : units;
}

/* Kernels in a row are often alike: they are dealt out, so that groups take about as long. */
static void write_modules(cpu *c, int n, cpu_unit *const *unit, int groups, group *g) {
    for (int i = 0; i < n; i++) {
        cpu_unit *u = unit[i];
        group *to = &g[i % groups];
        double start = clock_seconds();
        if (i < groups) {
            to->holder = u;
            u->llvm = emit_llvm_begin(c->llvm);
        }
        u->holder = to->holder;
        u->function = emit_llvm_add(to->holder->llvm, u->k);
        double took = clock_seconds() - start;
        to->writing += took;
        u->seconds += took;
    }
}

static void tell_modules(cpu *c, int groups, const group *g) {
    for (int i = 0; i < groups; i++) {
        cpu_unit *u = g[i].holder;
        emit_llvm_text(u->llvm, &u->text);
        log_line(c->ctx, "c %s", u->text.s);
    }
}

static void compile_by_llvm(cpu *c, int n, cpu_unit *const *unit) {
    group g[MOST_UNITS] = {{0}};
    int threads = pool_threads(c->pool);
    if (threads > EMIT_LANES) threads = EMIT_LANES;
    int groups = count_groups(n, threads, MOST_TOGETHER);
    write_modules(c, n, unit, groups, g);
    if (debug_on(c->ctx, 'c')) tell_modules(c, groups, g);
    queue q = {.at = g, .n = groups};
    pool_run(c->pool, threads < groups ? threads : groups, run_groups, &q);
    for (int i = 0; i < groups; i++) {
        emit_llvm_end(g[i].holder->llvm, &g[i].holder->object);
        emit_llvm_drop(g[i].holder->llvm);
        g[i].holder->llvm = NULL;
    }
    /* A kernel's share of LLVM's time is that of the module's writing: both go by instructions. */
    for (int i = 0; i < n; i++)
        unit[i]->seconds *= 1 + g[i % groups].running / (g[i % groups].writing + 1e-9);
}

/* ---- by the C compiler ----------------------------------------------------------------------- */

static bool is_unrolled(const kernel *k) {
    for (stmt_id i = 1; i < k->stmts; i++)
        if (ir_s(k, i)->kind == STMT_LOOP && ir_s(k, i)->loop == LOOP_UNROLL) return true;
    return false;
}

/* Kernels that one process is to compile. */
typedef struct batch {
    cpu_unit *unit[MOST_TOGETHER_CC];
    int n;
    bool unrolled;
} batch;

static void write_batch(cpu *c, batch *b, cpu_cc_job *job) {
    kernel *k[MOST_TOGETHER_CC];
    cpu_unit *holder = b->unit[0];
    for (int i = 0; i < b->n; i++) {
        k[i] = b->unit[i]->k;
        b->unit[i]->holder = holder;
        b->unit[i]->function = i;
    }
    holder->text.len = 0;
    emit_c99(b->n, k, &holder->text);
    if (debug_on(c->ctx, 'c')) log_line(c->ctx, "c %s", holder->text.s);
    *job = (cpu_cc_job){.text = &holder->text, .object = &holder->object, .unrolled = b->unrolled};
}

static void run_batches(cpu *c, int n, batch *b, cpu_cc_job *job) {
    for (int i = 0; i < n; i++) write_batch(c, &b[i], &job[i]);
    cpu_cc_compile(c->ctx, &c->isa, n, job, pool_threads(c->pool));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < b[i].n; k++) b[i].unit[k]->seconds += job[i].seconds / b[i].n;
}

/* Kernels of one kind, dealt out as modules are: so many batches. */
static int deal(const cpu *c, int n, cpu_unit *const *unit, bool unrolled, batch *to) {
    int count = 0, next = 0;
    for (int i = 0; i < n; i++) count += is_unrolled(unit[i]->k) == unrolled;
    int groups = count ? count_groups(count, pool_threads(c->pool), MOST_TOGETHER_CC) : 0;
    for (int i = 0; i < n; i++) {
        if (is_unrolled(unit[i]->k) != unrolled) continue;
        batch *b = &to[next++ % groups];
        b->unrolled = unrolled;
        b->unit[b->n++] = unit[i];
    }
    return groups;
}

/* Kernels of a batch that the compiler refuses are tried one by one, so that the others live. */
static void compile_by_cc(cpu *c, int n, cpu_unit *const *unit) {
    batch all[MOST_UNITS] = {{.n = 0}}, alone[MOST_UNITS] = {{.n = 0}};
    cpu_cc_job job[MOST_UNITS];
    int batches = deal(c, n, unit, true, all), again = 0;
    batches += deal(c, n, unit, false, all + batches);
    run_batches(c, batches, all, job);
    for (int i = 0; i < batches; i++)
        for (int k = 0; job[i].code && k < all[i].n; k++)
            alone[again++] = (batch){{all[i].unit[k]}, 1, all[i].unrolled};
    run_batches(c, again, alone, job);
    for (int i = 0; i < again; i++) {
        cpu_unit *u = alone[i].unit[0];
        u->code = job[i].code;
        if (!u->code) continue;
        u->text.len = 0;
        str_add(&u->text, job[i].why);
    }
}

void cpu_raise(const cpu *c, const cpu_unit *u) {
    raise_error(c->ctx, u->code, "kernel %s: %s", u->k->name, u->text.s);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void compile_some(cpu *c, int n, cpu_unit *unit) {
    cpu_unit *missing[MOST_UNITS];
    int count = 0;
    for (int i = 0; i < n; i++) {
        unit[i].holder = &unit[i];
        if (!look_up(c, &unit[i])) missing[count++] = &unit[i];
    }
    if (count && c->llvm) compile_by_llvm(c, count, missing);
    if (count && !c->llvm) compile_by_cc(c, count, missing);
    for (int i = 0; i < count; i++) {
        cpu_unit *u = missing[i];
        double start = clock_seconds();
        if (u->key.len && !u->code)
            cpu_cache_put(c->ctx, &c->cache, &u->key, &u->holder->object, u->function);
        u->seconds += clock_seconds() - start;
    }
}

typedef struct units {
    int n;
    cpu_unit *unit;
} units;

static void drop_units(void *of) {
    const units *u = of;
    for (int i = 0; i < u->n; i++) {
        emit_llvm_drop(u->unit[i].llvm);
        u->unit[i].llvm = NULL;
    }
}

void cpu_compile(cpu *c, int n, cpu_unit *unit) {
    follow_cache_knob(c);
    units own = {n, unit};
    cleanup undo;
    cleanup_push(&c->ctx->heap, &undo, drop_units, &own);
    for (int i = 0; i < n; i += MOST_UNITS)
        compile_some(c, n - i < MOST_UNITS ? n - i : MOST_UNITS, unit + i);
    cleanup_drop(&c->ctx->heap, &undo);
}
