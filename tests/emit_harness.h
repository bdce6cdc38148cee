/* emit_harness.h - run a kernel given as text on the CPU device or by OpenCL and compare every
 * argument with what the interpreter makes of it. Buffers have guard bytes around them. */
#ifndef QN_EMIT_HARNESS_H
#define QN_EMIT_HARNESS_H

#include "dev/cpu/cpu.h"
#include "dev/cpu/elf_load.h"
#include "device_here.h"
#include "ir_interp.h"
#include "test.h"

enum { HARNESS_ARGS = 48, HARNESS_GUARD = 128 };

typedef struct harness {
    qn_ctx *qn;
    const dev_table *dev;
    void *cpu; /* the device's state */
    const char *compiler;
} harness;

static inline void harness_log(void *user, const char *line) {
    (void)user;
    printf("%s\n", line);
}

/* Compiler llvm or cc, or device opencl; false: it is not here. */
static inline bool harness_open(harness *h, const char *compiler, int threads) {
    qn_options options = QN_OPTIONS(.device = "ref", .threads = threads, .log = harness_log);
    h->compiler = compiler;
    if (compiler[0] == 'o' && !device_here(compiler)) return false;
    h->qn = qn_open(&options);
    if (!h->qn) return false;
    h->dev = compiler[0] == 'o' ? &dev_opencl : &dev_cpu;
    if (h->dev == &dev_cpu) knobs_set(h->qn, "cpu", compiler);
    str why;
    str_open(&why, &h->qn->heap);
    h->cpu = h->dev->open(h->qn, &why);
    if (!h->cpu) printf("no %s: %s\n", compiler, why.s ? why.s : "");
    str_free(&why);
    if (h->cpu) return true;
    qn_close(h->qn);
    return false;
}

static inline void harness_close(harness *h) {
    if (h->cpu) h->dev->close(h->cpu);
    if (h->qn) qn_close(h->qn);
    h->cpu = NULL;
    h->qn = NULL;
}

/* Random values of a dtype, the awkward ones among them; small integers where `index` says that
 * they are used as such. */
static inline void harness_fill(qn_dtype d, void *p, int64_t n, uint64_t *seed, int64_t index) {
    static const double odd[] = {0.0,  -0.0,  INFINITY, -INFINITY, NAN,
                                 1e30, -1e30, 1e-40,    65519,     3e9};
    for (int64_t i = 0; i < n; i++) {
        if (index) {
            dtype_set_i(d, p, i, test_below(seed, index));
        } else if (!dtype_is_float(d)) {
            uint64_t bits = test_rand(seed);
            dtype_set_i(d, p, i, (int64_t)(test_below(seed, 3) ? bits >> 58 : bits));
        } else {
            double v = 8 * test_uniform(seed) - 4;
            bool rare = !test_below(seed, 24);
            dtype_set_f(d, p, i, rare ? odd[test_below(seed, COUNT_OF(odd))] : v);
        }
    }
}

static inline bool harness_same(qn_dtype d, const void *a, const void *b, int64_t i, double rel) {
    if (!dtype_is_float(d)) return dtype_get_i(d, a, i) == dtype_get_i(d, b, i);
    double x = dtype_get_f(d, a, i), y = dtype_get_f(d, b, i);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (x == y) return rel > 0 || signbit(x) == signbit(y);
    return rel > 0 && fabs(x - y) <= rel * (1 + fabs(y));
}

typedef struct harness_case {
    const char *text;
    int64_t dim[4];
    double rel;    /* allowed relative difference of floats; 0: the same bits, but for NaNs */
    int64_t index; /* arguments of i64 hold values in [0, index) */
    uint64_t seed;
    bool plain; /* no NaN or infinity in the data */
} harness_case;

typedef struct harness_buffers {
    uint8_t *got[HARNESS_ARGS], *want[HARNESS_ARGS];
    size_t size[HARNESS_ARGS];
    int64_t count[HARNESS_ARGS];
    uint8_t dtype[HARNESS_ARGS];
    int n;
} harness_buffers;

static inline void harness_make(kernel *k, const harness_case *c, harness_buffers *b) {
    uint64_t seed = c->seed + 12345;
    b->n = k->args;
    for (mem_id m = 1; m < k->mems; m++) {
        const ir_memory *mem = ir_m(k, m);
        if (mem->scope != MEM_ARG) continue;
        int a = mem->arg;
        b->dtype[a] = mem->dtype;
        sym_eval(k->syms, mem->size, k->dim_vars, k->dim_var, c->dim, &b->count[a]);
        b->size[a] = (size_t)b->count[a] * qn_dtype_size(mem->dtype);
        size_t whole = (b->size[a] + 63) / 64 * 64 + 2 * HARNESS_GUARD;
        b->got[a] = aligned_alloc(64, whole);
        b->want[a] = aligned_alloc(64, whole);
        memset(b->want[a], 0xa5, whole);
        uint8_t *data = b->want[a] + HARNESS_GUARD;
        bool is_index = c->index && mem->dtype == QN_I64;
        if (mem->access & ACCESS_READ)
            harness_fill(mem->dtype, data, b->count[a], &seed, is_index ? c->index : 0);
        for (int64_t i = 0; i < b->count[a] && c->plain && dtype_is_float(mem->dtype); i++)
            dtype_set_f(mem->dtype, data, i, 8 * test_uniform(&seed) - 4);
        memcpy(b->got[a], b->want[a], whole);
    }
}

static inline void harness_compare(kernel *k, const harness_case *c, const harness_buffers *b,
                                   const char *who) {
    for (int a = 0; a < b->n; a++) {
        int bad = 0;
        for (int64_t i = 0; i < b->count[a] && bad < 5; i++) {
            const uint8_t *x = b->got[a] + HARNESS_GUARD, *y = b->want[a] + HARNESS_GUARD;
            if (harness_same(b->dtype[a], x, y, i, c->rel)) continue;
            FAIL("%s: kernel %s: a%d[%lld] is %.17g (%lld), not %.17g (%lld)", who, k->name, a,
                 (long long)i, dtype_get_f(b->dtype[a], x, i),
                 (long long)dtype_get_i(b->dtype[a], x, i), dtype_get_f(b->dtype[a], y, i),
                 (long long)dtype_get_i(b->dtype[a], y, i));
            bad++;
        }
        size_t end = HARNESS_GUARD + b->size[a];
        bool guards = !memcmp(b->got[a], b->want[a], HARNESS_GUARD) &&
                      !memcmp(b->got[a] + end, b->want[a] + end, HARNESS_GUARD);
        if (!guards) FAIL("%s: kernel %s writes past the ends of a%d", who, k->name, a);
    }
}

static inline void harness_free(harness_buffers *b) {
    for (int a = 0; a < b->n; a++) {
        free(b->got[a]);
        free(b->want[a]);
    }
}

/* Launch the program on `got`, or on copies of it in the device's memory; false with the error in
 * the context. */
static inline qn_code harness_on_device(harness *h, dev_program *p, const int64_t *dim,
                                        harness_buffers *b) {
    dev_slice arg[HARNESS_ARGS];
    size_t whole[HARNESS_ARGS];
    qn_code code = QN_OK;
    bool here = h->dev->host_memory;
    for (int a = 0; a < b->n; a++) {
        whole[a] = (b->size[a] + 63) / 64 * 64 + 2 * HARNESS_GUARD;
        arg[a] = (dev_slice){b->got[a], HARNESS_GUARD, b->size[a]};
        if (here) continue;
        arg[a].memory = h->dev->alloc(h->cpu, whole[a]);
        if (!code) code = h->dev->copy_in(h->cpu, arg[a].memory, 0, b->got[a], whole[a]);
    }
    dev_set set = {.arg = arg, .var = dim};
    if (!code) code = h->dev->launch(h->cpu, p, 1, &set);
    for (int a = 0; a < b->n && !here; a++) {
        if (!code) code = h->dev->copy_out(h->cpu, arg[a].memory, 0, b->got[a], whole[a]);
        h->dev->free(h->cpu, arg[a].memory, whole[a]);
    }
    return code;
}

static inline void harness_launch(harness *h, kernel *k, const harness_case *c,
                                  harness_buffers *b) {
    guard g;
    guard_open(&h->qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&h->qn->heap, &g);
        FAIL("%s: %s", h->compiler, qn_error(h->qn));
        qn_clear_error(h->qn);
        return;
    }
    dev_program *p = h->dev->compile(h->cpu, k);
    guard_close(&h->qn->heap, &g);
    if (harness_on_device(h, p, c->dim, b)) FAIL("launch: %s", qn_error(h->qn));
    h->dev->unload(h->cpu, p);
    harness_compare(k, c, b, h->compiler);
}

static inline void harness_run_kernel(harness *h, kernel *k, const harness_case *c) {
    harness_buffers b = {.n = 0};
    harness_make(k, c, &b);
    void *want[HARNESS_ARGS];
    for (int a = 0; a < b.n; a++) want[a] = b.want[a] + HARNESS_GUARD;
    char error[200];
    if (!interp_run(k, false, c->dim, want, error)) {
        FAIL("interpreter: %s", error);
    } else {
        harness_launch(h, k, c, &b);
    }
    harness_free(&b);
}

static inline void harness_run(harness *h, const harness_case *c) {
    kernel *k = ir_parse(h->qn, c->text);
    if (!k) {
        FAIL("%s in\n%s", qn_error(h->qn), c->text);
        qn_clear_error(h->qn);
        return;
    }
    str why;
    str_open(&why, &h->qn->heap);
    if (!ir_check(k, &why)) FAIL("%s in\n%s", why.s ? why.s : "", c->text);
    str_free(&why);
    harness_run_kernel(h, k, c);
    ir_close(k);
}

#endif
