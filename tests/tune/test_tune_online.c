/* test_tune_online.c - tuning while a program runs. On a device whose clock and faults are played
 * (played_device.h): a bad default is replaced after some calls, results stay what they are, wrong
 * candidates are never used, what is assigned is computed once a run, costs stay within the share,
 * and what was found is another context's. Then the real device. */
#include "played_device.h"

#include <math.h>
#include <unistd.h>

enum { ROWS = 20, COLUMNS = 30, SIZE = ROWS * COLUMNS, MOST_RUNS = 400 };

static const play faster = {.each = 1, .marked = " par ", .marked_each = 0.5};

/* Tuning online, for whatever it costs: so it is over after some runs. */
static qn_ctx *online_open(play p) {
    qn_ctx *qn = play_open(p);
    qn_set(qn, "wisdom", "on"); /* with the cache off: in memory */
    qn_set(qn, "debug", "s");
    qn_set(qn, "tune", "online");
    tune_online_terms(qn, (tune_terms){.share = 1e9, .clock = {played_now, NULL}});
    return qn;
}

/* The same on this machine's processor, by a record of a machine; NULL: there is no compiler. */
static qn_ctx *real_open(int threads, const char *record) {
    char path[] = "/tmp/quern-online-XXXXXX";
    int file = record ? mkstemp(path) : -1;
    if (file >= 0) {
        if (write(file, record, strlen(record)) < 0) FAIL("%s", path);
        close(file);
        setenv("QN_MACHINE", path, 1);
    }
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads, .log = keep_log));
    unsetenv("QN_MACHINE");
    if (file >= 0) unlink(path);
    if (qn && (!qn->run->dev->executes || qn->run->dev->unfused)) {
        qn_close(qn);
        SKIP("no compiler");
        return NULL;
    }
    qn_set(qn, "wisdom", "on");
    qn_set(qn, "tune", "online");
    tune_online_terms(qn, (tune_terms){.share = 1e9});
    return qn;
}

static void make_input(float *x, int n) {
    uint64_t seed = 5;
    for (int i = 0; i < n; i++) x[i] = (float)(8 * test_uniform(&seed) - 4);
}

static uint32_t records(qn_ctx *qn) {
    const wisdom *w = wisdom_of(qn);
    return w ? w->count : 0;
}

/* x * x + 0.7, one kernel with a number given at each launch. */
static qn_tensor *curve(qn_tensor *x) {
    qn_ctx *qn = qn_context(x);
    return qn_add(qn_mul(x, x), qn_full(qn, QN_F32, 0, NULL, 0.7));
}

/* The curve of x by a static graph, until there is wisdom, and some more; how many runs that took.
 * Each run has the same bits, which are left in `out`. */
static int run_curve(qn_ctx *qn, float *out) {
    float x[SIZE], now[SIZE];
    make_input(x, SIZE);
    qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, x), *y = curve(in), *got;
    qn_plan *plan = qn_plan_new(qn, 1, &in, 1, &y);
    int runs = 0, more = 5;
    for (; runs < MOST_RUNS && more; runs++) {
        if (qn_plan_run(plan, &in, &got) || qn_read(got, now, sizeof now)) FAIL("%s", qn_error(qn));
        if (!runs) memcpy(out, now, sizeof now);
        if (memcmp(out, now, sizeof now)) FAIL("run %d has other bits", runs);
        qn_release(got);
        more -= records(qn) > 0;
    }
    qn_plan_free(plan);
    return runs;
}

/* ---- what it does ---------------------------------------------------------------------------- */

static void a_bad_default_is_replaced_after_some_calls(void) {
    float plain[SIZE], tuned[SIZE];
    qn_ctx *qn = play_open(faster);
    run_curve(qn, plain);
    CHECK(!qn->run->online); /* off costs nothing */
    qn_close(qn);
    qn = online_open(faster);
    int runs = run_curve(qn, tuned);
    CHECK(runs > 5 && runs < MOST_RUNS);
    CHECK(!memcmp(plain, tuned, sizeof plain));
    CHECK_INT(records(qn), 1);
    CHECK_NEAR(wisdom_of(qn)->at[0].ratio, 0.5, 1e-3, 0);
    CHECK(strstr(wisdom_of(qn)->at[0].schedule, "par "));
    CHECK_INT(qn->run->renewed, 1);
    CHECK(strstr(cache_log, "0.500 of the time"));
    /* It is settled: another hundred runs try nothing. */
    qn_set(qn, "debug", "");
    int compiled = played.compiled;
    run_curve(qn, tuned);
    CHECK_INT(played.compiled, compiled);
    qn_close(qn);
    CHECK_INT(live.bytes, 0);
}

static void a_good_default_stays(void) {
    float out[SIZE];
    qn_ctx *qn = online_open((play){.each = 1.01});
    CHECK(run_curve(qn, out) < MOST_RUNS);
    CHECK_STR(wisdom_of(qn)->at[0].schedule, "");
    CHECK_INT(qn->run->renewed, 0);
    qn_close(qn);
}

static void wrong_candidates_are_never_used(void) {
    const fault faults[] = {WRONG, WRONG_AT_NAN, PAST_THE_END, UNWRITTEN};
    float plain[SIZE], out[SIZE];
    qn_ctx *qn = play_open(faster);
    run_curve(qn, plain);
    qn_close(qn);
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        qn = online_open((play){.fault = faults[i], .each = 0.1});
        CHECK(run_curve(qn, out) < MOST_RUNS);
        CHECK(!memcmp(plain, out, sizeof plain));
        CHECK_STR(wisdom_of(qn)->at[0].schedule, "");
        CHECK_INT(qn->run->renewed, 0);
        qn_close(qn);
    }
}

/* x = 3 x + 1 in place of the old value, n times: a step that ran twice, or on another's memory,
 * would show. The reference is the recurrence by hand. */
static void assign_often(qn_ctx *qn) {
    enum { N = 1000 };
    static int32_t host[N], got[N];
    for (int i = 0; i < N; i++) host[i] = i - 7;
    qn_tensor *x = qn_from(qn, QN_I32, 1, (int64_t[]){N}, host), *none = NULL;
    qn_tensor *three = qn_full(qn, QN_I32, 0, NULL, 3), *one = qn_full(qn, QN_I32, 0, NULL, 1);
    qn_realize(1, &x);
    CHECK_INT(qn_assign(x, qn_add(qn_mul(x, three), one)), QN_OK);
    qn_plan *plan = qn_plan_new(qn, 0, NULL, 0, NULL);
    int after = 0;
    for (int run = 0; run < MOST_RUNS && after < 20; run++) {
        CHECK_INT(qn_plan_run(plan, NULL, &none), QN_OK);
        for (int i = 0; i < N; i++) host[i] = (int32_t)((uint32_t)host[i] * 3u + 1u);
        CHECK_INT(qn_read(x, got, sizeof got), QN_OK);
        if (memcmp(host, got, sizeof got)) FAIL("run %d differs", run);
        after += records(qn) > 0;
    }
    CHECK_INT(after, 20);
}

static void assigned_values_are_computed_once_a_run(void) {
    qn_ctx *qn = online_open(faster);
    assign_often(qn);
    CHECK_INT(qn->run->renewed, 1);
    qn_close(qn);
    for (int threads = 1; threads < 3; threads++) { /* and here in the old value's memory */
        qn = real_open(threads, NULL);
        if (!qn) return;
        assign_often(qn);
        qn_stats stats;
        qn_get_stats(qn, &stats, sizeof stats);
        CHECK(stats.replaced > 20);
        qn_close(qn);
    }
}

/* Without a static graph: the same request again and again, and sizes that vary. */
static void recorded_graphs_are_tuned_at_their_sizes(void) {
    qn_ctx *qn = online_open(faster);
    float x[SIZE], got[SIZE];
    make_input(x, SIZE);
    int64_t t = qn_var(qn, "t", 1, 1000);

    qn_bind(qn, t, ROWS);
    qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){t, COLUMNS}, x), *y = curve(in), *out;
    qn_plan *plan = qn_plan_new(qn, 1, &in, 1, &y);
    if (!plan) FAIL("%s", qn_error(qn));
    for (int run = 0; run < MOST_RUNS && !records(qn); run++) {
        int64_t rows = 3 + run % (ROWS - 3);
        qn_tensor *part = qn_from(qn, QN_F32, 2, (int64_t[]){rows, COLUMNS}, x);
        if (qn_plan_run(plan, &part, &out) || qn_read(out, got, (size_t)rows * COLUMNS * 4))
            FAIL("%s", qn_error(qn));
        for (int i = 0; i < rows * COLUMNS; i++)
            if (!(fabs(got[i] - ((double)x[i] * x[i] + 0.7)) < 1e-5)) FAIL("run %d at %d", run, i);
        qn_release(out);
        qn_release(part);
    }
    CHECK_INT(records(qn), 1);
    qn_plan_free(plan);
    qn_close(qn);
    qn = online_open(faster);
    for (int run = 0; run < MOST_RUNS && !records(qn); run++) {
        qn_tensor *a = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, x), *b = curve(a);
        CHECK_INT(qn_read(b, got, sizeof got), QN_OK);
        qn_release(b);
        qn_release(a);
    }
    CHECK_INT(records(qn), 1);
    qn_close(qn);
}

static void another_context_finds_what_was_tuned(void) {
    char folder[FILE_PATH], path[2 * FILE_PATH];
    float first[SIZE], second[SIZE];
    if (!make_folder(folder)) return;
    snprintf(path, sizeof path, "%.590s/wisdom", folder);
    qn_ctx *qn = online_open(faster);
    qn_set(qn, "wisdom", path);
    run_curve(qn, first);
    qn_close(qn); /* and it is saved */
    for (int again = 0; again < 2; again++) {
        qn = again ? online_open(faster) : play_open(faster);
        qn_set(qn, "wisdom", path);
        qn_set(qn, "debug", "k");
        cache_log[0] = 0;
        run_curve(qn, second);
        CHECK(strstr(cache_log, "schedule, tuned"));
        CHECK(!memcmp(first, second, sizeof first));
        CHECK_INT(played.compiled, 1); /* nothing is tried again */
        qn_close(qn);
    }
    remove_folder(folder);
}

/* Runs of a graph of these inputs until all its kernels are settled, each with the same bits as the
 * first context's, which does not tune. */
static void run_real(int threads, const char *record, qn_tensor *(*make)(qn_tensor *x), int64_t n,
                     int64_t m) {
    size_t size = 0;
    float *x = calloc((size_t)(n * m), sizeof *x), *want = NULL, *got = NULL;
    make_input(x, (int)(n * m));
    for (int tuned = 0; tuned < 2; tuned++) {
        qn_ctx *qn = real_open(threads, record);
        if (!qn) break;
        if (!tuned) qn_set(qn, "tune", "0");
        qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){n, m}, x), *y = make(in), *out;
        qn_plan *plan = qn_plan_new(qn, 1, &in, 1, &y);
        const run_plan *p = static_plan_at(plan, "test", &qn);
        size = (size_t)qn_numel(y) * sizeof *x;
        if (!tuned) want = malloc(size), got = malloc(size);
        for (int run = 0; run < (tuned ? MOST_RUNS : 1); run++) {
            CHECK_INT(qn_plan_run(plan, &in, &out), QN_OK);
            CHECK_INT(qn_read(out, tuned ? got : want, size), QN_OK);
            qn_release(out);
            if (tuned && memcmp(want, got, size)) FAIL("run %d has other bits", run);
            if (records(qn) == p->programs) break;
        }
        if (tuned) CHECK_INT(records(qn), p->programs);
        qn_plan_free(plan);
        qn_close(qn);
    }
    free(x);
    free(want);
    free(got);
}

static qn_tensor *many_kernels(qn_tensor *x) {
    return qn_softmax(qn_matmul(qn_softmax(x, 1), qn_transpose(x, 0, 1)), 0);
}

static qn_tensor *product(qn_tensor *x) {
    return qn_matmul(x, qn_transpose(x, 0, 1));
}

/* By records whose schedules are bad here: caches far too small; a tile for more and wider
 * registers than this processor may have. Whether another one is faster is the machine's word. */
static void kernels_keep_their_bits_whatever_wins(void) {
    run_real(2, "l1 512\nl2 1024\n", many_kernels, 96, 160);
    run_real(1, "vector_bytes 64\nregisters 32\n", product, 128, 160);
}

/* ---- what it costs --------------------------------------------------------------------------- */

static void kernels_that_run_once_pay_nothing(void) {
    float x[SIZE], got[SIZE];
    make_input(x, SIZE);
    qn_ctx *qn = online_open(faster);
    qn_tensor *in = qn_from(qn, QN_F32, 1, (int64_t[]){SIZE}, x);
    for (int i = 1; i <= 20; i++) {
        qn_tensor *part = qn_slice(in, 0, 0, SIZE - i, 1), *y = curve(part);
        CHECK_INT(qn_read(y, got, (size_t)(SIZE - i) * 4), QN_OK);
    }
    CHECK_INT(played.compiled, 20);
    CHECK_INT(records(qn), 0);
    qn_close(qn);
}

/* By the real clock: all that was spent fits into the share, but for the last step. */
static void costs_stay_within_the_share(void) {
    static const double share = 4;
    float x[SIZE], got[SIZE];
    make_input(x, SIZE);
    qn_ctx *qn = online_open(faster);
    tune_online_terms(qn, (tune_terms){.share = share, .clock = {played_now, NULL}});
    qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, x), *y = curve(in), *out;
    qn_plan *plan = qn_plan_new(qn, 1, &in, 1, &y);
    const run_plan *p = static_plan_at(plan, "test", &qn);
    double last = 0, begun = 0;
    for (int run = 0; run < 20000 && !records(qn); run++) {
        CHECK_INT(qn_plan_run(plan, &in, &out), QN_OK);
        CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
        qn_release(out);
        const program_use *u = program_use_of(qn, p->launch[0].id);
        double step = u->tuning - last;
        if (!(begun > 0)) begun = u->tuning;
        if (step > 0 && last > share * u->seconds) FAIL("run %d: beyond its share", run);
        last = u->tuning;
    }
    CHECK(begun > 0);
    qn_plan_free(plan);
    qn_close(qn);
}

/* Inputs of a kernel that does not run any more are not kept for ever. */
static void a_search_whose_kernel_has_gone_is_given_up(void) {
    float x[SIZE], got[SIZE];
    make_input(x, SIZE);
    qn_ctx *qn = online_open((play){.each = 1});
    qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, x), *y = curve(in), *out;
    qn_tensor *z = qn_neg(in);
    qn_plan *one = qn_plan_new(qn, 1, &in, 1, &y), *other = qn_plan_new(qn, 1, &in, 1, &z);
    for (int run = 0; run < 3; run++) {
        CHECK_INT(qn_plan_run(one, &in, &out), QN_OK);
        qn_release(out);
    }
    CHECK(qn->run->online && !records(qn));
    tune_online_terms(qn, (tune_terms){.share = 0, .clock = {played_now, NULL}});
    int64_t before = live.bytes;
    for (int run = 0; run < MOST_RUNS; run++) {
        CHECK_INT(qn_plan_run(other, &in, &out), QN_OK);
        CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
        qn_release(out);
    }
    CHECK(live.bytes < before);
    qn_plan_free(one);
    qn_plan_free(other);
    qn_close(qn);
    CHECK_INT(live.bytes, 0);
}

/* One allocation of the trials fails: the program's own results are there all the same. */
static void memory_that_runs_out_is_no_error(void) {
    float x[SIZE], got[SIZE];
    make_input(x, SIZE);
    for (int i = 0; i < 24; i++) {
        qn_ctx *qn = online_open(faster);
        qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, x), *y = curve(in);
        qn_plan *plan = qn_plan_new(qn, 1, &in, 1, &y);
        qn_tensor *out = NULL;
        for (int run = 0; run < 2 + i % 8; run++) {
            CHECK_INT(qn_plan_run(plan, &in, &out), QN_OK);
            qn_release(out);
        }
        const run_plan *p = static_plan_at(plan, "test", &qn);
        qn->heap.fail_at = qn->heap.requests + 1 + (uint64_t)(7 * i * i);
        tune_ran(qn, p);
        qn->heap.fail_at = 0;
        CHECK_INT(qn_error_code(qn), QN_OK);
        CHECK_INT(qn_plan_run(plan, &in, &out), QN_OK);
        CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
        for (int k = 0; k < SIZE; k++)
            if (!(fabs(got[k] - ((double)x[k] * x[k] + 0.7)) < 1e-5)) FAIL("%d: at %d", i, k);
        qn_close(qn);
        if (live.bytes) FAIL("allocation %d: %lld bytes lost", i, (long long)live.bytes);
        live = (books){0};
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_bad_default_is_replaced_after_some_calls);
    RUN(a_good_default_stays);
    RUN(wrong_candidates_are_never_used);
    RUN(assigned_values_are_computed_once_a_run);
    RUN(recorded_graphs_are_tuned_at_their_sizes);
    RUN(kernels_keep_their_bits_whatever_wins);
    RUN(another_context_finds_what_was_tuned);
    RUN(kernels_that_run_once_pay_nothing);
    RUN(costs_stay_within_the_share);
    RUN(a_search_whose_kernel_has_gone_is_given_up);
    RUN(memory_that_runs_out_is_no_error);
    return test_end();
}
