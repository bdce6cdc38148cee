/* test_cc.c - kernels by the C compiler: few calls for many kernels, side by side, and what one of
 * them fails at costs the others nothing. The compiler is a script that notes each call. */
#include "emit_harness.h"

#include <sys/stat.h>

enum { KERNELS = 40, FLOATS = 256 };

static harness h;
static char folder[200], script[256];

/* A script that does `first` in the folder for the call's source, $source, then compiles it. */
static bool open_script(const char *first, int threads) {
    static const char head[] =
        "#!/bin/sh\nfor word; do case $word in *.c) source=$word;; esac; done\n";
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.150s/quern-cc-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) return FAIL("no folder %s", folder), false;
    snprintf(script, sizeof script, "%s/cc", folder);
    FILE *f = fopen(script, "w");
    if (!f) return FAIL("no script %s", script), false;
    fprintf(f, "%scd %s\necho call >> calls\n%s\nexec cc \"$@\"\n", head, folder, first);
    fclose(f);
    chmod(script, 0700);
    if (!harness_open(&h, "cc", threads)) return SKIP("no C compiler"), false;
    knobs_set(h.qn, "cc", script);
    return true;
}

static int calls(void) {
    char path[256];
    int n = 0;
    snprintf(path, sizeof path, "%s/calls", folder);
    FILE *f = fopen(path, "r");
    for (int c; f && (c = fgetc(f)) != EOF;) n += c == '\n';
    if (f) fclose(f);
    return n;
}

static void close_script(void) {
    char command[256];
    harness_close(&h);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) FAIL("%s stays", folder);
}

/* Multiplies by `factor`; every other one has an unrolled loop. */
static kernel *times(int factor) {
    char text[400];
    snprintf(
        text, sizeof text,
        "kernel \"times%d\" {\n arg a0 f32[256] read\n arg a1 f32[256] write\n"
        " %s u < 16 {\n vec v < 16 {\n  a1[16*u + v] = mul(a0[16*u + v], f32(%d))\n }\n }\n}\n",
        factor, factor % 2 ? "unroll" : "for", factor);
    return ir_parse(h.qn, text);
}

static void check_times(dev_program *p, int factor) {
    static float in[FLOATS], out[FLOATS];
    for (int i = 0; i < FLOATS; i++) in[i] = (float)i, out[i] = -1;
    dev_slice slice[2] = {{in, 0, sizeof in}, {out, 0, sizeof out}};
    dev_set set = {.arg = slice};
    if (h.dev->launch(h.cpu, p, 1, &set)) FAIL("%s", qn_error(h.qn));
    for (int i = 0; i < FLOATS; i++)
        if (out[i] != (float)(i * factor)) {
            FAIL("kernel %d gives %g for %d", factor, out[i], i);
            return;
        }
}

/* Kernels that multiply by 1, 2, ...; which of them there are. */
static int compile(int n, dev_program **p) {
    kernel *k[KERNELS];
    volatile int raised = 0;
    guard g;
    for (int i = 0; i < n; i++) k[i] = times(i + 1);
    guard_open(&h.qn->heap, &g);
    if (setjmp(g.at))
        raised = 1;
    else
        dev_compile_many(h.dev, h.cpu, n, k, p);
    guard_close(&h.qn->heap, &g);
    for (int i = 0; i < n; i++) ir_close(k[i]);
    return raised;
}

static void check_and_unload(int n, dev_program **p, int without) {
    for (int i = 0; i < n; i++) {
        CHECK((p[i] != NULL) == (i + 1 != without));
        if (p[i]) check_times(p[i], i + 1);
        if (p[i]) h.dev->unload(h.cpu, p[i]);
    }
}

static void many_kernels_take_few_calls(void) {
    dev_program *p[KERNELS] = {NULL};
    if (!open_script("", 2)) return;
    if (compile(KERNELS, p)) FAIL("%s", qn_error(h.qn));
    printf("%d kernels in %d calls of the compiler\n", KERNELS, calls());
    CHECK(calls() <= KERNELS / 4);
    check_and_unload(KERNELS, p, 0);
    close_script();
}

/* The first call ends when another has begun; alone it would wait for ten seconds. */
static void calls_run_side_by_side(void) {
    static const char meet[] = "i=0\nwhile [ $(wc -l < calls) -lt 2 ] && [ $i -lt 100 ]; do\n"
                               "  sleep 0.1; i=$((i + 1))\ndone\n[ $i -lt 100 ] || echo > alone";
    dev_program *p[KERNELS] = {NULL};
    char path[256];
    if (!open_script(meet, 2)) return;
    if (compile(KERNELS, p)) FAIL("%s", qn_error(h.qn));
    snprintf(path, sizeof path, "%s/alone", folder);
    CHECK(access(path, F_OK) != 0);
    check_and_unload(KERNELS, p, 0);
    close_script();
}

static void a_kernel_that_is_refused_loses_no_other(void) {
    static const char refuse[] = "if grep -q 'kernel times5 ' $source; then\n"
                                 "  echo 'no fives here'; exit 3\nfi";
    dev_program *p[KERNELS] = {NULL};
    if (!open_script(refuse, 2)) return;
    CHECK_INT(compile(KERNELS, p), 1);
    CHECK_INT(qn_error_code(h.qn), QN_EDEVICE);
    CHECK(strstr(qn_error(h.qn), "kernel times5: "));
    CHECK(strstr(qn_error(h.qn), "no fives here"));
    check_and_unload(KERNELS, p, 5);
    close_script();
}

/* The same of a request: what was compiled is there when it is asked for again. */
static void a_request_that_fails_leaves_what_was_compiled(void) {
    static const char refuse[] = "[ -e good ] || ! grep -q 'tanh' $source || exit 3";
    char path[256];
    if (!open_script(refuse, 2)) return;
    qn_options o = QN_OPTIONS(.device = "cpu", .threads = 2);
    setenv("QN_CPU", "cc", 1);
    setenv("QN_CC", script, 1);
    qn_ctx *qn = qn_open(&o);
    unsetenv("QN_CPU");
    unsetenv("QN_CC");
    float data[64] = {0.5f}, got[48];
    int64_t shape[] = {64}, other[] = {48};
    qn_tensor *x = qn_from(qn, QN_F32, 1, shape, data), *z = qn_from(qn, QN_F32, 1, other, data);
    qn_tensor *y[2] = {qn_softmax(x, 0), qn_tanh(z)};
    qn_stats before, after;
    CHECK(qn_realize(2, y) != QN_OK);
    qn_clear_error(qn);
    qn_get_stats(qn, &before, sizeof before);
    CHECK(before.compiles > 0);
    snprintf(path, sizeof path, "%s/good", folder);
    FILE *f = fopen(path, "w");
    if (f) fclose(f);
    CHECK_INT(qn_realize(2, y), QN_OK);
    qn_get_stats(qn, &after, sizeof after);
    printf("%d kernels compiled at first, %d then\n", (int)before.compiles,
           (int)(after.compiles - before.compiles));
    CHECK_INT((int64_t)(after.compiles - before.compiles), 1);
    CHECK_INT(qn_read(y[1], got, sizeof got), QN_OK);
    CHECK(fabsf(got[0] - tanhf(0.5f)) < 1e-6f);
    qn_close(qn);
    close_script();
}

static qn_ctx *open_by_cc(void) {
    setenv("QN_CPU", "cc", 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    unsetenv("QN_CPU");
    return qn;
}

/* gcc 12 lost trips of such sums with vectors of 512 bits. */
static void sums_of_narrow_integers_are_whole(void) {
    static const qn_dtype dtypes[] = {QN_BOOL, QN_I8, QN_U8, QN_I16, QN_U16};
    qn_ctx *qn = open_by_cc();
    if (!qn) {
        SKIP("no C compiler");
        return;
    }
    uint8_t data[512];
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int64_t n = 32; n <= 256; n *= 2) {
            int64_t got = -1, want = 0, wide = (int64_t)qn_dtype_size(dtypes[d]);
            memset(data, 0, sizeof data);
            for (int64_t i = 0; i < n; i++) want += data[i * wide] = i % 4 != 0;
            qn_tensor *x = qn_from(qn, dtypes[d], 1, &n, data);
            CHECK_INT(qn_read(qn_sum(qn_cast(x, QN_I64), 0, false), &got, sizeof got), QN_OK);
            if (got != want)
                FAIL("%d %s: %d, not %d", (int)n, qn_dtype_name(dtypes[d]), (int)got, (int)want);
        }
    qn_close(qn);
}

/* gcc 12 read neighbouring lanes under the first one's mask. */
static void gathers_keep_their_masks(void) {
    qn_ctx *qn = open_by_cc();
    if (!qn) {
        SKIP("no C compiler");
        return;
    }
    double data[64], got[64];
    int64_t index[64];
    for (int64_t n = 16; n <= 64; n += 16)
        for (int round = 0; round < 8; round++) {
            int64_t shape[] = {1, n};
            int wrong = 0;
            for (int i = 0; i < n; i++)
                data[i] = i + 1, index[i] = (i * 7 + round * 13 + i * i * round) % 3 ? 1 : 0;
            qn_tensor *x = qn_from(qn, QN_F64, 2, shape, data);
            qn_tensor *at = qn_from(qn, QN_I64, 2, shape, index);
            CHECK_INT(qn_read(qn_gather(x, at, 0), got, sizeof(double) * (size_t)n), QN_OK);
            for (int i = 0; i < n; i++) wrong += got[i] != (index[i] ? 0 : data[i]);
            if (wrong) FAIL("%d of %d elements", wrong, (int)n);
        }
    if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
    qn_close(qn);
}

/* A power of integers is a chain of products of a value by itself, of which gcc made a tree. */
static void integer_powers_take_little_memory(void) {
    if (!open_script("ulimit -v 1500000", 1)) return;
    setenv("QN_CPU", "cc", 1);
    setenv("QN_CC", script, 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    unsetenv("QN_CPU");
    unsetenv("QN_CC");
    int64_t got[7];
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){2}, (float[]){2, 1});
    qn_tensor *i = qn_argmin(x, 0, true);
    CHECK_INT(qn_read(qn_expand(qn_pow(i, i), 1, (int64_t[]){7}), got, sizeof got), QN_OK);
    CHECK_INT(got[6], 1);
    if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
    qn_close(qn);
    close_script();
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(integer_powers_take_little_memory);
    RUN(gathers_keep_their_masks);
    RUN(sums_of_narrow_integers_are_whole);
    RUN(many_kernels_take_few_calls);
    RUN(calls_run_side_by_side);
    RUN(a_kernel_that_is_refused_loses_no_other);
    RUN(a_request_that_fails_leaves_what_was_compiled);
    return test_end();
}
