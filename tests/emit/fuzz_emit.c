/* fuzz_emit.c - random kernels under random schedules (random_kernel.h), through the passes,
 * compiled by LLVM and now and then by the C compiler, against the interpreter on the kernel as it
 * was made. Arguments lie between guard bytes. A failing schedule is shrunk to the lines it needs.
 *
 *     fuzz_emit [cases [first seed [one in how many also by cc]]] */
#include "emit_harness.h"
#include "random_kernel.h"
#include "run/run.h"
#include "transform/transform.h"

static harness by_llvm, by_cc;

static void copy_buffers(const subject *s, void *const *data, const int64_t *count,
                         harness_buffers *b) {
    b->n = s->args;
    for (int a = 0; a < s->args; a++) {
        const ir_memory *mem = ir_m(s->k, s->arg[a]);
        b->dtype[a] = mem->dtype;
        b->count[a] = count[a];
        b->size[a] = (size_t)count[a] * qn_dtype_size(mem->dtype);
        size_t whole = (b->size[a] + 63) / 64 * 64 + 2 * HARNESS_GUARD;
        b->got[a] = aligned_alloc(64, whole);
        memset(b->got[a], 0xa5, whole);
        memcpy(b->got[a] + HARNESS_GUARD, data[a], b->size[a]);
    }
}

static bool guards_hold(const harness_buffers *b, str *what) {
    for (int a = 0; a < b->n; a++)
        for (int i = 0; i < HARNESS_GUARD; i++)
            if (b->got[a][i] != 0xa5 || b->got[a][HARNESS_GUARD + b->size[a] + (size_t)i] != 0xa5) {
                str_addf(what, "writes %s a%d", b->got[a][i] != 0xa5 ? "before" : "behind", a);
                return false;
            }
    return true;
}

/* Raises what the device raises. */
static bool launch_once(harness *h, kernel *k, const subject *s, harness_buffers *b, str *what) {
    dev_program *p = dev_cpu.compile(h->cpu, k);
    dev_slice arg[HARNESS_ARGS];
    for (int a = 0; a < b->n; a++) arg[a] = (dev_slice){b->got[a], HARNESS_GUARD, b->size[a]};
    dev_set set = {.arg = arg, .var = s->dim};
    qn_code code = dev_cpu.launch(h->cpu, p, 1, &set);
    dev_cpu.unload(h->cpu, p);
    if (code) str_addf(what, "launch: %s", qn_error(h->qn));
    return !code;
}

static bool try_compiler(harness *h, kernel *k, const subject *s, uint64_t seed, void **want,
                         const int64_t *count, str *what) {
    void *data[MOST_ARGS], *got[MOST_ARGS];
    harness_buffers b = {.n = 0};
    for (int a = 0; a < s->args; a++) {
        data[a] = malloc((size_t)count[a] * 8 + 8);
        fill(s->k, s->arg[a], data[a], count[a], s->index_below, seed);
    }
    copy_buffers(s, data, count, &b);
    guard g;
    guard_open(&ctx->heap, &g);
    volatile bool fine = false;
    if (!setjmp(g.at)) {
        fine = launch_once(h, k, s, &b, what) && guards_hold(&b, what);
    } else {
        printf("%s: %s\n", h->compiler, qn_error(ctx));
        qn_clear_error(ctx);
    }
    guard_close(&ctx->heap, &g);
    for (int a = 0; a < s->args; a++) got[a] = b.got[a] + HARNESS_GUARD;
    if (fine) fine = equal(s, want, got, count, what);
    if (!fine) str_addf(what, " by %s", h->compiler);
    for (int a = 0; a < s->args; a++) free(data[a]);
    harness_free(&b);
    return fine;
}

static bool holds(uint64_t seed, char lines[][256], int n, bool cc, str *what) {
    subject s;
    make(&s, seed);
    void *want[MOST_ARGS];
    int64_t count[MOST_ARGS];
    char error[200] = "";
    kernel *k = ir_clone(s.k);
    for (int i = 0; i < n; i++) transform_line(k, lines[i], NULL);
    run_passes(k);
    bool fine = run(&s, s.k, false, seed, want, count, error);
    if (!fine) str_addf(what, "does not run: %s", error);
    if (fine && by_llvm.cpu) fine = try_compiler(&by_llvm, k, &s, seed, want, count, what);
    if (fine && by_cc.cpu && cc) fine = try_compiler(&by_cc, k, &s, seed, want, count, what);
    for (int a = 0; a < s.args; a++) free(want[a]);
    ir_close(k);
    ir_close(s.k);
    return fine;
}

static void report(uint64_t seed, char lines[][256], int n, const char *what) {
    subject s;
    str text;
    str_open(&text, &ctx->heap);
    printf("seed %llu: %s\nschedule:\n", (unsigned long long)seed, what);
    for (int i = 0; i < n; i++) printf("  %s\n", lines[i]);
    make(&s, seed);
    for (int i = 0; i < n; i++) transform_line(s.k, lines[i], NULL);
    run_passes(s.k);
    ir_print(s.k, &text);
    printf("kernel:\n%s", text.s);
    for (int i = 0; i < s.k->dim_vars; i++) printf("dim %d is %lld\n", i, (long long)s.dim[i]);
    str_free(&text);
    ir_close(s.k);
}

static bool one_case(uint64_t seed, bool cc) {
    static char lines[MOST_LINES + 1][256], fewer[MOST_LINES + 1][256];
    str what, other;
    str_open(&what, &ctx->heap);
    str_open(&other, &ctx->heap);
    int n = some_schedule(seed, lines);
    bool fine = holds(seed, lines, n, cc, &what);
    for (int i = n - 1; !fine && i >= 0; i--) {
        memcpy(fewer, lines, sizeof fewer);
        memmove(fewer[i], fewer[i + 1], (size_t)(n - 1 - i) * sizeof *fewer);
        str_free(&other);
        if (holds(seed, fewer, n - 1, cc, &other)) continue;
        memcpy(lines, fewer, sizeof lines);
        n--;
        str_free(&what);
        str_add(&what, other.s ? other.s : "");
    }
    if (!fine) report(seed, lines, n, what.s ? what.s : "");
    str_free(&what);
    str_free(&other);
    return fine;
}

/* Both devices live in one context, whose knob says which compiler the next one takes. */
static void open_devices(void) {
    if (!harness_open(&by_llvm, "llvm", 2) && !harness_open(&by_llvm, "cc", 2)) return;
    ctx = by_llvm.qn;
    by_cc = (harness){.qn = ctx, .compiler = "cc"};
    str why;
    str_open(&why, &ctx->heap);
    knobs_set(ctx, "cpu", "cc");
    by_cc.cpu = dev_cpu.open(ctx, &why);
    str_free(&why);
}

int main(int argc, char **argv) {
    setenv("QN_CACHE", "off", 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    long cases = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    long every = argc > 3 ? strtol(argv[3], NULL, 10) : 25;
    int passed = 0, failed = 0;
    open_devices();
    if (!ctx) {
        printf("no compiler\n0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    for (long i = 0; i < cases && failed < 6; i++) {
        if (one_case(first + (uint64_t)i, i % every == 0))
            passed++;
        else
            failed++;
    }
    if (by_cc.cpu) dev_cpu.close(by_cc.cpu);
    harness_close(&by_llvm);
    printf("seeds from %llu: %d kernels kept their results, %d did not\n",
           (unsigned long long)first, passed, failed);
    printf("%d passed, %d failed, 0 skipped\n", !failed, failed != 0);
    return failed != 0;
}
