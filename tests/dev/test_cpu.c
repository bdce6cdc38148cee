/* test_cpu.c - the cpu and null devices as the run room sees them: compilers, launches and what
 * they refuse, memory running out. test_cache.c is about objects on disk. */
#include "emit_harness.h"
#include "schedule/schedule.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const scale_text =
    "kernel \"scale\" {\n dim n 1 100000\n arg a0 f32[n] read\n arg a1 f32[n] write\n"
    " local t0 f32[16]\n"
    " par i < (n + 15)/16 {\n def t0 = f32(0)\n vec v < min(16, n - 16*i) {\n"
    "  t0[v] += a0[16*i + v]\n  a1[16*i + v] = mul(t0[v], f32(3))\n }\n }\n}\n";

static char logged[4000];

static void keep_log(void *user, const char *line) {
    (void)user;
    size_t n = strlen(logged);
    snprintf(logged + n, sizeof logged - n, "%s\n", line);
}

static qn_ctx *open_context(int threads) {
    logged[0] = 0;
    return qn_open(&QN_OPTIONS(.device = "ref", .threads = threads, .log = keep_log));
}

/* NULL where it raises; the error stays in the context. */
static dev_program *compile_text(qn_ctx *qn, const dev_table *dev, void *state, const char *text) {
    kernel *volatile k = ir_parse(qn, text);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        ir_close(k);
        return NULL;
    }
    dev_program *p = k ? dev->compile(state, k) : NULL;
    guard_close(&qn->heap, &g);
    ir_close(k);
    return p;
}

static void *open_device(qn_ctx *qn, const dev_table *dev) {
    str why;
    str_open(&why, &qn->heap);
    void *state = dev->open(qn, &why);
    if (!state) keep_log(NULL, why.s ? why.s : "");
    str_free(&why);
    return state;
}

static bool triples(void *state, dev_program *p, int64_t n) {
    float *x = dev_cpu.alloc(state, (size_t)n * 4), *y = dev_cpu.alloc(state, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++) x[i] = (float)i;
    dev_slice arg[2] = {{x, 0, (size_t)n * 4}, {y, 0, (size_t)n * 4}};
    dev_set set = {.arg = arg, .var = &n};
    bool good = !dev_cpu.launch(state, p, 1, &set);
    for (int64_t i = 0; i < n; i++) good &= y[i] == 3 * (float)i;
    dev_cpu.free(state, x, (size_t)n * 4);
    dev_cpu.free(state, y, (size_t)n * 4);
    return good;
}

/* ---- compilers
 * ---------------------------------------------------------------------------------- */

static void unknown_compilers_are_refused(void) {
    qn_ctx *qn = open_context(1);
    CHECK_INT(knobs_set(qn, "cpu", "fortran"), QN_EARG);
    CHECK(strstr(qn_error(qn), "\"fortran\""));
    qn_clear_error(qn);
    knobs_set(qn, "cpu", "cc");
    knobs_set(qn, "cc", "no-such-compiler-here");
    CHECK(!open_device(qn, &dev_cpu));
    CHECK(strstr(logged, "no C compiler \"no-such-compiler-here\""));
    CHECK_INT(qn_error_code(qn), QN_OK);
    qn_close(qn);
}

static int files_in(const char *folder, char *last, size_t size) {
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        if (last) snprintf(last, size, "%s/%s", folder, e->d_name);
        n++;
    }
    if (d) closedir(d);
    return n;
}

static void remove_folder(const char *folder) {
    char file[600];
    while (files_in(folder, file, sizeof file) && !unlink(file)) {
    }
    rmdir(folder);
}

static void a_compiler_that_fails_is_an_error_and_leaves_nothing(void) {
    char folder[] = "/tmp/quern-test-XXXXXX";
    if (!mkdtemp(folder)) {
        FAIL("no folder");
        return;
    }
    setenv("TMPDIR", folder, 1);
    qn_ctx *qn = open_context(1);
    knobs_set(qn, "cpu", "cc");
    knobs_set(qn, "cc", "false");
    void *state = open_device(qn, &dev_cpu);
    CHECK(state && !compile_text(qn, &dev_cpu, state, scale_text));
    CHECK_INT(qn_error_code(qn), QN_EDEVICE);
    CHECK(strstr(qn_error(qn), "false fails (1)"));
    CHECK_INT(files_in(folder, NULL, 0), 0);
    if (state) dev_cpu.close(state);
    qn_close(qn);
    unsetenv("TMPDIR");
    remove_folder(folder);
}

/* ---- launches --------------------------------------------------- */

typedef struct opened {
    qn_ctx *qn;
    void *state;
    dev_program *p;
} opened;

static bool open_scale(opened *o, int threads, const char *text) {
    o->qn = open_context(threads);
    o->state = open_device(o->qn, &dev_cpu);
    o->p = o->state ? compile_text(o->qn, &dev_cpu, o->state, text) : NULL;
    if (o->state && !o->p) FAIL("%s", qn_error(o->qn));
    return o->p != NULL;
}

static void close_scale(opened *o) {
    if (o->p) dev_cpu.unload(o->state, o->p);
    if (o->state) dev_cpu.close(o->state);
    qn_close(o->qn);
}

static void launches_are_checked(void) {
    opened o;
    _Alignas(64) float x[64] = {1}, y[64] = {0};
    dev_slice arg[2] = {{x, 0, sizeof x}, {y, 0, sizeof y}};
    int64_t n = 64;
    dev_set set = {.arg = arg, .var = &n};
    if (!open_scale(&o, 2, scale_text)) {
        SKIP("no compiler");
    } else {
        CHECK_INT(o.p->args, 2);
        CHECK_INT(o.p->vars, 1);
        CHECK_STR(o.p->name, "scale");
        CHECK_INT(dev_cpu.launch(o.state, o.p, 1, &set), QN_OK);
        CHECK(y[0] == 3);
        n = 0;
        CHECK_INT(dev_cpu.launch(o.state, o.p, 1, &set), QN_ERANGE);
        qn_clear_error(o.qn);
        n = 100001;
        CHECK_INT(dev_cpu.launch(o.state, o.p, 1, &set), QN_ERANGE);
        qn_clear_error(o.qn);
        n = 65;
        CHECK_INT(dev_cpu.launch(o.state, o.p, 1, &set), QN_EINTERNAL);
        CHECK(strstr(qn_error(o.qn), "argument 0 has 256 bytes, not 260"));
    }
    close_scale(&o);
}

static void each_set_has_its_own_sizes(void) {
    opened o;
    _Alignas(64) float x[64], y[64] = {0};
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    dev_slice arg[4] = {{x, 0, 64}, {y, 0, 64}, {x, 64, 40}, {y, 128, 40}};
    int64_t n[2] = {16, 10};
    dev_set set[2] = {{.arg = arg, .var = &n[0]}, {.arg = arg + 2, .var = &n[1]}};
    if (!open_scale(&o, 2, scale_text)) {
        SKIP("no compiler");
    } else {
        CHECK_INT(dev_cpu.launch(o.state, o.p, 2, set), QN_OK);
        for (int i = 0; i < 64; i++) {
            float want = i < 16 ? 3 * x[i] : i >= 32 && i < 42 ? 3 * x[i - 16] : 0;
            CHECK(y[i] == want);
        }
    }
    close_scale(&o);
}

/* A sum per item, so long that the pool takes it. */
static void results_do_not_depend_on_threads(void) {
    static const char *const text =
        "kernel \"sums\" {\n arg a0 f32[512000] read\n arg a1 f32[1000] write\n reg t0 f32[16]\n"
        " reg t1 f32[1]\n par r < 1000 {\n def t0 = f32(0)\n def t1 = f32(0)\n"
        " for i < 32 {\n vec v < 16 {\n  t0[v] += a0[512*r + 16*i + v]\n }\n }\n"
        " vec w < 16 {\n  t1[0] += t0[w]\n }\n a1[r] = t1[0]\n }\n}\n";
    static _Alignas(64) float x[512000], y[4][1000];
    uint64_t seed = 3;
    for (int i = 0; i < 512000; i++) x[i] = (float)test_uniform(&seed) - 0.5f;
    for (int threads = 1; threads <= 4; threads++) {
        opened o;
        if (!open_scale(&o, threads, text)) {
            SKIP("no compiler");
        } else {
            dev_slice arg[2] = {{x, 0, sizeof x}, {y[threads - 1], 0, sizeof y[0]}};
            CHECK_INT(dev_cpu.launch(o.state, o.p, 1, &(dev_set){.arg = arg}), QN_OK);
            CHECK(!memcmp(y[0], y[threads - 1], sizeof y[0]));
        }
        close_scale(&o);
    }
    double sum = 0;
    for (int i = 0; i < 512; i++) sum += (double)x[i];
    CHECK_NEAR((double)y[0][0], sum, 1e-5, 1e-5);
}

/* More tasks than stand in line at once, of one item and of many, short and long. */
static void launches_run_side_by_side(void) {
    static const char *const items =
        "kernel \"items\" {\n dim n 0 4096\n arg a0 f32[n] read write\n"
        " par i < n {\n a0[i] += f32(1)\n }\n}\n";
    static const char *const one =
        "kernel \"one\" {\n arg a0 f32[64] read write\n for r < 500 {\n for i < 64 {\n"
        " a0[i] += f32(1)\n }\n }\n}\n";
    enum { SETS = 200, MOST = 4096 };
    static _Alignas(64) float x[SETS][MOST], y[SETS][64];
    for (int threads = 1; threads <= 4; threads++) {
        opened o;
        if (!open_scale(&o, threads, items)) {
            SKIP("no compiler");
            close_scale(&o);
            return;
        }
        dev_program *p = compile_text(o.qn, &dev_cpu, o.state, one);
        dev_slice many[SETS], single[SETS];
        dev_set set[SETS], other[SETS];
        int64_t n[SETS];
        memset(x, 0, sizeof x), memset(y, 0, sizeof y);
        for (int i = 0; i < SETS; i++) {
            n[i] = i % 3 ? i : 20 * i;
            many[i] = (dev_slice){x[i], 0, sizeof x[i]}, single[i] = (dev_slice){y[i], 0, 256};
            set[i] = (dev_set){.arg = &many[i], .var = &n[i]},
            other[i] = (dev_set){.arg = &single[i]};
        }
        dev_launch launch[] = {{p, 1, other}, {o.p, SETS, set}, {p, SETS - 1, other + 1}};
        CHECK_INT(dev_cpu.launch_many(o.state, 3, launch), QN_OK);
        for (int i = 0; i < SETS; i++) {
            for (int j = 0; j < MOST; j++)
                if (x[i][j] != (float)(j < n[i])) FAIL("set %d, element %d", i, j);
            for (int j = 0; j < 64; j++) CHECK(y[i][j] == 500);
        }
        dev_cpu.unload(o.state, p);
        close_scale(&o);
    }
}

static void the_limits_are_this_machine(void) {
    opened o;
    if (!open_scale(&o, 2, scale_text)) {
        SKIP("no compiler");
    } else {
        machine l;
        dev_cpu.limits(o.state, &l);
        CHECK(l.vector_bytes == 16 || l.vector_bytes == 32 || l.vector_bytes == 64);
        CHECK_INT(l.registers, l.vector_bytes == 64 ? 32 : 16);
        CHECK(l.l1 >= 8 << 10 && l.l2 >= l.l1);
        CHECK_INT(l.threads, 2);
    }
    close_scale(&o);
}

/* ---- memory running out --------------------------------------------------- */

/* Open, compile, launch and close with the n-th request refused. */
typedef struct outcome {
    bool failed;
    uint64_t leaked, requests;
} outcome;

static outcome run_out(const char *compiler, uint64_t n) {
    qn_ctx *qn = open_context(2);
    knobs_set(qn, "cpu", compiler);
    uint64_t bytes = qn->heap.bytes, requests = qn->heap.requests;
    void *volatile state = NULL;
    dev_program *volatile p = NULL;
    qn->heap.fail_at = n ? requests + n : 0;
    guard g;
    guard_open(&qn->heap, &g);
    if (!setjmp(g.at)) {
        state = open_device(qn, &dev_cpu);
        p = state ? compile_text(qn, &dev_cpu, state, scale_text) : NULL;
    }
    guard_close(&qn->heap, &g);
    outcome o = {.failed = !p, .requests = qn->heap.requests - requests};
    qn->heap.fail_at = 0;
    if (p && !triples(state, p, 100)) FAIL("a wrong result after request %d", (int)n);
    if (!p && n && qn_error_code(qn) != QN_ENOMEM) FAIL("request %d: %s", (int)n, qn_error(qn));
    if (p) dev_cpu.unload(state, p);
    if (state) dev_cpu.close(state);
    o.leaked = qn->heap.bytes - bytes;
    qn_close(qn);
    return o;
}

static void every_failing_request_is_an_error(const char *compiler, uint64_t step) {
    outcome all = run_out(compiler, 0);
    if (all.failed) {
        SKIP("no compiler");
        return;
    }
    CHECK_INT(all.leaked, 0);
    int failures = 0;
    for (uint64_t n = 1; n <= all.requests; n += step) {
        outcome o = run_out(compiler, n);
        if (o.leaked) FAIL("%d bytes leak when request %d fails", (int)o.leaked, (int)n);
        failures += o.failed;
    }
    CHECK(failures * 2 > (int)(all.requests / step));
}

static void memory_may_run_out_anywhere_with_llvm(void) {
    every_failing_request_is_an_error("llvm", 1);
}

static void memory_may_run_out_anywhere_with_cc(void) {
    every_failing_request_is_an_error("cc", 3);
}

/* ---- null --------------------------------------------------- */

/* The same memory for two launches that may run at the same time, once read and once written. */
static void null_compares_what_runs_side_by_side(void) {
    qn_ctx *qn = open_context(1);
    void *null = open_device(qn, &dev_null);
    dev_program *p = compile_text(qn, &dev_null, null, scale_text);
    uint8_t *m = dev_null.alloc(null, 1024);
    int64_t n = 16;
    dev_slice arg[3] = {{m, 0, 64}, {m, 64, 64}, {m, 128, 64}};
    dev_slice first[2] = {arg[0], arg[1]}, reads[2] = {arg[0], arg[2]}, after[2] = {arg[1], arg[2]};
    dev_set set[3] = {
        {.arg = first, .var = &n}, {.arg = reads, .var = &n}, {.arg = after, .var = &n}};
    dev_launch beside[2] = {{p, 1, set}, {p, 1, set + 1}},
               chain[2] = {{p, 1, set}, {p, 1, set + 2}};
    CHECK_INT(dev_null.launch_many(null, 2, beside), QN_OK);
    CHECK_INT(dev_null.launch_many(null, 2, chain), QN_EINTERNAL);
    CHECK(strstr(qn_error(qn), "beside kernel scale"));
    qn_clear_error(qn);
    CHECK_INT(dev_null.launch(null, p, 2, (dev_set[]){set[0], set[2]}), QN_EINTERNAL);
    qn_clear_error(qn);
    dev_null.unload(null, p);
    dev_null.free(null, m, 1024);
    dev_null.close(null);
    qn_close(qn);
}

static void null_checks_launches(void) {
    qn_ctx *qn = open_context(1);
    void *null = open_device(qn, &dev_null);
    dev_program *p = compile_text(qn, &dev_null, null, scale_text);
    void *x = dev_null.alloc(null, 400), *y = dev_null.alloc(null, 512);
    dev_slice arg[2] = {{x, 0, 400}, {y, 64, 400}};
    int64_t n = 100;
    dev_set set = {.arg = arg, .var = &n};
    const struct {
        dev_slice x, y;
        int64_t n;
        qn_code code;
    } cases[] = {
        {{x, 0, 400}, {y, 64, 400}, 100, QN_OK},
        {{x, 0, 400}, {y, 64, 400}, 101, QN_EINTERNAL},  /* too small */
        {{x, 0, 400}, {y, 64, 400}, 100001, QN_ERANGE},  /* past the variable's bounds */
        {{x, 0, 400}, {y, 128, 400}, 100, QN_EINTERNAL}, /* past the memory's end */
        {{x, 0, 400}, {y, 4, 400}, 100, QN_EINTERNAL},   /* not aligned */
        {{y, 0, 80}, {y, 64, 40}, 10, QN_EINTERNAL},     /* what is written overlaps */
        {{y, 0, 40}, {y, 64, 40}, 10, QN_OK},
        {{&n, 0, 400}, {y, 64, 400}, 100, QN_EINTERNAL}, /* never allocated */
    };
    for (size_t i = 0; i < COUNT_OF(cases) && p; i++) {
        arg[0] = cases[i].x;
        arg[1] = cases[i].y;
        n = cases[i].n;
        CHECK_INT(dev_null.launch(null, p, 1, &set), cases[i].code);
        qn_clear_error(qn);
    }
    CHECK(p);
    dev_null.free(null, x, 400);
    arg[0] = (dev_slice){x, 0, 400};
    n = 100;
    CHECK_INT(dev_null.launch(null, p, 1, &set), QN_EINTERNAL); /* freed before */
    dev_null.free(null, y, 512);
    dev_null.unload(null, p);
    dev_null.close(null);
    qn_close(qn);
}

static void null_checks_copies_and_gives_zeros(void) {
    qn_ctx *qn = open_context(1);
    void *null = open_device(qn, &dev_null);
    uint8_t *x = dev_null.alloc(null, 100), data[100];
    memset(data, 7, sizeof data);
    CHECK_INT(dev_null.copy_out(null, x, 0, data, 100), QN_OK);
    CHECK(data[0] == 0 && data[99] == 0);
    CHECK_INT(dev_null.copy_in(null, x, 90, data, 10), QN_OK);
    CHECK_INT(dev_null.copy_in(null, x, 91, data, 10), QN_EINTERNAL);
    CHECK_INT(dev_null.copy_out(null, x, SIZE_MAX, data, 2), QN_EINTERNAL);
    CHECK_INT(dev_null.copy_out(null, data, 0, data, 1), QN_EINTERNAL);
    dev_null.free(null, x, 100);
    dev_null.close(null);
    qn_close(qn);
}

static void null_refuses_bad_kernels(void) {
    qn_ctx *qn = open_context(1);
    void *null = open_device(qn, &dev_null);
    CHECK(!compile_text(qn, &dev_null, null,
                        "kernel \"reads\" {\n arg a0 f32[4] read\n for i < 4 {\n"
                        "  a0[i] = f32(1)\n }\n}\n"));
    CHECK_INT(qn_error_code(qn), QN_EINTERNAL);
    dev_null.close(null);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(unknown_compilers_are_refused);
    RUN(a_compiler_that_fails_is_an_error_and_leaves_nothing);
    RUN(launches_are_checked);
    RUN(each_set_has_its_own_sizes);
    RUN(results_do_not_depend_on_threads);
    RUN(launches_run_side_by_side);
    RUN(the_limits_are_this_machine);
    RUN(memory_may_run_out_anywhere_with_llvm);
    RUN(memory_may_run_out_anywhere_with_cc);
    RUN(null_checks_launches);
    RUN(null_compares_what_runs_side_by_side);
    RUN(null_checks_copies_and_gives_zeros);
    RUN(null_refuses_bad_kernels);
    return test_end();
}
