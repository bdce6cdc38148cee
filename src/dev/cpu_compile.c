/* cpu_compile.c - how a kernel becomes an object: from the disk cache, through LLVM, or through the
 * system's C compiler.
 *
 * Knob cpu says which compiler; without it the first that works is taken. Loading libLLVM takes
 * longer than a small program runs, so where the cache remembers which libLLVM was found last
 * (cpu_key.c), the choice waits until an object is missing. */
#include "dev/cpu.h"

#include <stdatomic.h>

/* ---- choosing ------------------------------------------------------------------------------- */

static bool choose(cpu *c, str *why) {
    const char *wanted = c->ctx->knob[KNOB_CPU].text;
    bool any = !*wanted, cc = !strcmp(wanted, "cc"), llvm = !strcmp(wanted, "llvm");
    c->chosen = true;
    if (any || llvm) {
        c->llvm = emit_llvm_open(c->ctx, why);
        if (c->llvm) cpu_key_llvm(emit_llvm_file(c->llvm), &c->compiler);
        if (c->cache.on) cpu_key_record(c, c->llvm != NULL);
        if (c->llvm) return true;
    }
    if (any || cc) {
        char file[CPU_PATH];
        bool found = cpu_cc_find(c->ctx, file);
        if (found) cpu_key_cc(c->ctx, file, &c->compiler);
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
    cpu_cache_open(c->ctx, &c->cache);
    if (c->cache.on) cpu_key_here(&c->here);
    bool wait = c->cache.on && (!*wanted || !strcmp(wanted, "llvm")) && cpu_key_recall(c);
    return wait || choose(c, why);
#else
    (void)choose;
    (void)c;
    str_add(why, "kernels are compiled for x86-64 only");
    return false;
#endif
}

/* The knob may be turned while the device is open. */
static void follow_cache_knob(cpu *c) {
    if (cpu_cache_is(c->ctx, &c->cache)) return;
    cpu_cache_close(&c->cache);
    cpu_cache_open(c->ctx, &c->cache);
    if (c->cache.on && !c->here.len) cpu_key_here(&c->here);
}

/* ---- compiling ------------------------------------------------------------------------------ */

static bool find(cpu *c, cpu_unit *u) {
    if (!c->cache.on) return false;
    u->key.len = 0;
    str_addf(&u->key, "%s%s", c->here.s, c->compiler.s);
    kern_print(u->k, &u->key);
    return u->cached = cpu_cache_get(c->ctx, &c->cache, &u->key, &u->object);
}

static void begin(cpu *c, cpu_unit *u) {
    if (find(c, u)) return;
    bool waited = !c->chosen;
    if (waited && !choose(c, &u->text))
        raise_error(c->ctx, QN_EDEVICE, "kernel %s: %s", u->k->name, u->text.s ? u->text.s : "");
    if (waited && find(c, u)) return; /* the compiler may be another than was thought */
    bool told = debug_on(c->ctx, 'c');
    if (c->llvm)
        u->llvm = emit_llvm_begin(c->llvm, u->k);
    else
        emit_c99(u->k, &u->text);
    if (told && c->llvm) emit_llvm_text(u->llvm, &u->text);
    if (told) log_line(c->ctx, "c %s", u->text.s);
    if (!c->llvm) cpu_cc_compile(c->ctx, u->k->name, &u->text, &u->object);
}

/* Units that LLVM still has to run, taken one by one by whichever thread is free. */
typedef struct queue {
    cpu_unit *unit;
    int n;
    atomic_int next;
} queue;

static void run_units(void *arg, int thread, int64_t from, int64_t to) {
    (void)from;
    (void)to;
    queue *q = arg;
    for (int i; (i = atomic_fetch_add(&q->next, 1)) < q->n;) {
        cpu_unit *u = &q->unit[i];
        double start = clock_seconds();
        if (u->llvm) emit_llvm_run(u->llvm, thread);
        u->seconds += clock_seconds() - start;
    }
}

static void end(cpu *c, cpu_unit *u) {
    if (u->llvm) emit_llvm_end(u->llvm, &u->object);
    emit_llvm_drop(u->llvm);
    u->llvm = NULL;
    if (!u->cached && u->key.len) cpu_cache_put(c->ctx, &c->cache, &u->key, &u->object);
}

/* A unit's module takes some hundred KiB until its object is made: not too many at once. */
enum { MOST_UNITS = 64 };

static void compile_some(cpu *c, int n, cpu_unit *unit) {
    queue q = {.unit = unit, .n = n};
    int threads = pool_threads(c->pool), waiting = 0;
    for (int i = 0; i < n; i++) {
        double start = clock_seconds();
        begin(c, &unit[i]);
        unit[i].seconds += clock_seconds() - start;
        waiting += unit[i].llvm != NULL;
    }
    if (threads > EMIT_LANES) threads = EMIT_LANES;
    if (threads > waiting) threads = waiting;
    if (waiting) pool_run(c->pool, threads, run_units, &q);
    for (int i = 0; i < n; i++) end(c, &unit[i]);
}

void cpu_compile(cpu *c, int n, cpu_unit *unit) {
    follow_cache_knob(c);
    guard g;
    guard_open(&c->ctx->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&c->ctx->heap, &g);
        for (int i = 0; i < n; i++) {
            emit_llvm_drop(unit[i].llvm);
            unit[i].llvm = NULL;
        }
        heap_unwind(&c->ctx->heap);
    }
    for (int i = 0; i < n; i += MOST_UNITS)
        compile_some(c, n - i < MOST_UNITS ? n - i : MOST_UNITS, unit + i);
    guard_close(&c->ctx->heap, &g);
}
