/* cpu_compile.c - how a kernel becomes an object: from the disk cache, through LLVM, or through the
 * system's C compiler.
 *
 * Knob cpu says which compiler; without it the first that works is taken. Loading libLLVM takes
 * longer than a small program runs, so where a cache is in force and the C compiler stands by, the
 * choice waits until something is missing in the cache.
 *
 * A cached object's key is everything that its code depends on: the kernel's text, the compiler
 * asked for, the processor, and this very library (its file's size and time: who builds Quern anew
 * builds kernels anew). */
#include "dev/cpu.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool cpu_wide(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq");
#else
    return false;
#endif
}

/* ---- choosing ------------------------------------------------------------------------------- */

static bool choose(cpu *c, str *why) {
    const char *wanted = c->ctx->knob[KNOB_CPU].text;
    bool any = !*wanted, cc = !strcmp(wanted, "cc"), llvm = !strcmp(wanted, "llvm");
    c->chosen = true;
    if (any || llvm) {
        c->llvm = emit_llvm_open(c->ctx, why);
        if (c->llvm) return true;
    }
    if (any || cc) {
        if (cpu_cc_found(c->ctx)) return true;
        str_addf(why, "%sno C compiler \"%s\"", why->len ? "; " : "", c->ctx->knob[KNOB_CC].text);
    }
    if (!any && !cc && !llvm) str_addf(why, "QN_CPU is \"%s\", not llvm or cc", wanted);
    c->chosen = false;
    return false;
}

bool cpu_choose_compiler(cpu *c, str *why) {
#if defined(__x86_64__)
    c->cached = cpu_cache_open(c->ctx);
    bool wait = c->cached && strcmp(c->ctx->knob[KNOB_CPU].text, "llvm") && cpu_cc_found(c->ctx);
    return wait || choose(c, why);
#else
    (void)choose;
    (void)c;
    str_add(why, "kernels are compiled for x86-64 only");
    return false;
#endif
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void add_processor(str *key) {
#if defined(__x86_64__)
    static const unsigned leaf[] = {0, 1, 7, 0xd, 0x80000002, 0x80000003, 0x80000004};
    for (size_t i = 0; i < COUNT_OF(leaf); i++) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        __get_cpuid_count(leaf[i], leaf[i] == 0xd, &a, &b, &c, &d);
        if (leaf[i] == 1) b = 0, c &= ~(1u << 27); /* which core this is; what the system enabled */
        if (leaf[i] == 0xd) b = 0;
        str_addf(key, " %x.%x.%x.%x", a, b, c, d);
    }
#endif
}

static void add_library(str *key) {
    static const char here;
    Dl_info info;
    struct stat s;
    str_addf(key, " quern %s", qn_version());
    if (dladdr(&here, &info) && info.dli_fname && !stat(info.dli_fname, &s))
        str_addf(key, " %lld %lld.%ld", (long long)s.st_size, (long long)s.st_mtim.tv_sec,
                 s.st_mtim.tv_nsec);
}

static void add_key(cpu *c, const kern *k, str *key) {
    str_addf(key, "compiler %s %s processor", c->ctx->knob[KNOB_CPU].text,
             c->ctx->knob[KNOB_CC].text);
    add_processor(key);
    add_library(key);
    str_add(key, "\n");
    kern_print(k, key);
}

/* ---- compiling ------------------------------------------------------------------------------ */

static void begin(cpu *c, cpu_unit *u) {
    if (c->cached) add_key(c, u->k, &u->key);
    u->cached = c->cached && cpu_cache_get(c->ctx, &u->key, &u->object);
    if (u->cached) return;
    if (!c->chosen && !choose(c, &u->text))
        raise_error(c->ctx, QN_EDEVICE, "kernel %s: %s", u->k->name, u->text.s ? u->text.s : "");
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
    if (!u->cached && c->cached) cpu_cache_put(c->ctx, &u->key, &u->object);
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
