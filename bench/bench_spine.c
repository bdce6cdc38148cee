/* bench_spine.c - the floors of the spine, each a ratio taken within this run.
 *
 * Prints a table and one JSON object a line, and fails when a floor is missed:
 *   node          time to record one node (floor 200 ns)
 *   launch        time a kernel of 16x16 takes in a static graph of 1,000 that cannot fuse:
 *                 products, row sums, transposed copies (floor 200 ns, 5 M a second), one thread
 *   compile       median time to compile one kernel of a small transformer's step (floor 6 ms)
 *   plan_hit      share of a step spent finding its plan again (floor 20 %)
 *   gemm          1024^3 f32, one thread, against the FMA peak measured beside it (floor 50 %)
 *   softmax, layer_norm   4096^2, one thread, bytes against a copy measured beside it (floor 50 %)
 * Absolute times (node, launch, compile) are measured while the machine is quiet and are reported
 * as they are; they fail only beyond twice their floor, so that a loaded machine does not fail a
 * build. */
#include "limits.h"
#include "quern_nn.h"

static int failures;

static void report(const char *name, double value, double floor_, const char *unit, int at_least,
                   double slack) {
    int ok = at_least ? value >= floor_ : value <= floor_;
    int bad = at_least ? value < floor_ : value > floor_ * slack;
    printf("%-12s %10.3f %-10s floor %s %g  %s\n", name, value, unit,
           at_least ? ">=" : "<=", floor_,
           ok    ? "ok"
           : bad ? "MISSED"
                 : "slow (machine loaded?)");
    printf("{\"case\":\"%s\",\"quern\":%.6g,\"unit\":\"%s\",\"floor\":%g}\n", name, value, unit,
           floor_);
    failures += bad;
}

static void bench_node(void) {
    qn_ctx *qn = qn_open(NULL);
    int64_t shape[] = {16};
    float zero[16] = {0};
    double best[15];
    for (int r = 0; r < 15; r++) {
        bench_wait_quiet();
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *x = qn_from(qn, QN_F32, 1, shape, zero), *y = x;
        double start = bench_now();
        for (int i = 0; i < 20000; i++) y = qn_add(y, x);
        best[r] = (bench_now() - start) / 20000 * 1e9;
        qn_scope_end(qn, s);
    }
    report("node", bench_median(best, 15), 200, "ns", 0, 2);
    qn_close(qn);
}

/* The products are by an orthogonal matrix, Hadamard's, so that no number leaves the normal range,
 * beyond which some processors take a hundred times as long. */
static void bench_launch(void) {
    enum { ROUNDS = 333, RUNS = 50 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1));
    float data[256], turn[256];
    double best[15];
    for (int i = 0; i < 256; i++) data[i] = (float)(i * 37 % 11 - 5) / 40.f;
    for (int i = 0; i < 256; i++) turn[i] = __builtin_parity(i / 16 & i % 16) ? -0.25f : 0.25f;
    qn_set(qn, "fuse", "0");
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){16, 16}, data), *y = x, *sum[ROUNDS];
    qn_tensor *w = qn_from(qn, QN_F32, 2, (int64_t[]){16, 16}, turn), *out[2];
    for (int i = 0; i < ROUNDS; i++) {
        y = qn_matmul(y, w);
        sum[i] = qn_sum(y, 1, false);
        y = qn_contiguous(qn_transpose(y, 0, 1));
    }
    qn_plan *p = qn_plan_new(qn, 1, &x, 2, (qn_tensor *[]){qn_stack(ROUNDS, sum, 0), y});
    qn_stats before, after;
    for (int r = 0; r < 15; r++) {
        bench_wait_quiet();
        qn_scope s = qn_scope_begin(qn);
        qn_get_stats(qn, &before, sizeof before);
        double start = bench_now();
        for (int i = 0; i < RUNS; i++)
            if (qn_plan_run(p, &x, out)) exit(1);
        best[r] = bench_now() - start;
        qn_get_stats(qn, &after, sizeof after);
        best[r] *= 1e9 / (double)(after.kernels - before.kernels);
        qn_scope_end(qn, s);
    }
    report("launch", bench_median(best, 15), 200, "ns", 0, 2);
    qn_close(qn);
}

static float *random_data(size_t n) {
    float *p = aligned_alloc(64, (n * 4 + 63) / 64 * 64);
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        p[i] = (float)(s >> 8) / 8388608.f - 1.f;
    }
    return p;
}

/* Seconds of one run of f(x, y); best of several. A plan computes it each time, where a realized
 * value would be there the next time. */
typedef qn_tensor *(*bench_fn)(qn_tensor *x, qn_tensor *y);

static double time_fn(qn_ctx *qn, bench_fn f, qn_tensor *x, qn_tensor *y, int reps) {
    double t[32];
    qn_tensor *z = f(x, y), *in[2] = {x, y};
    qn_plan *p = qn_plan_new(qn, y ? 2 : 1, in, 1, &z);
    for (int r = -2; r < reps; r++) {
        if (r >= 0) bench_wait_quiet();
        for (int again = 0; again < 3; again++) { /* the wait has cooled caches and clock */
            double start = bench_now();
            if (qn_plan_run(p, in, &z)) {
                printf("%s\n", qn_error(qn));
                exit(1);
            }
            double seconds = bench_now() - start;
            qn_release(z);
            if (r >= 0 && (!again || seconds < t[r])) t[r] = seconds;
        }
    }
    qn_plan_free(p);
    return bench_median(t, reps);
}

static qn_tensor *gemm(qn_tensor *x, qn_tensor *y) {
    return qn_matmul(x, y);
}
static qn_tensor *softmax(qn_tensor *x, qn_tensor *y) {
    (void)y;
    return qn_softmax(x, -1);
}
static qn_tensor *layer_norm(qn_tensor *x, qn_tensor *y) {
    (void)y;
    return qn_layer_norm(x, NULL, NULL, 1e-5);
}

static void bench_gemm(qn_ctx *qn) {
    int64_t shape[] = {1024, 1024};
    float *d = random_data(1024 * 1024);
    qn_tensor *a = qn_from(qn, QN_F32, 2, shape, d), *b = qn_from(qn, QN_F32, 2, shape, d);
    double best = 0;
    for (int r = 0; r < 5; r++) {
        bench_wait_quiet();
        double peak = bench_fma_peak();
        double t = time_fn(qn, gemm, a, b, 5);
        double ratio = 2.0 * 1024 * 1024 * 1024 / t / peak;
        printf("gemm 1024^3: %.1f GFLOP/s of %.1f\n", 2.147483648 / t, peak * 1e-9);
        if (ratio > best) best = ratio;
    }
    report("gemm", best, 0.5, "of peak", 1, 1);
    qn_release(a);
    qn_release(b);
    free(d);
}

static void bench_rows(qn_ctx *qn, const char *name, bench_fn f) {
    int64_t shape[] = {4096, 4096};
    size_t bytes = (size_t)4096 * 4096 * 4;
    float *d = random_data(bytes / 4), *e = random_data(bytes / 4);
    qn_tensor *x = qn_from(qn, QN_F32, 2, shape, d);
    double best = 0;
    for (int r = 0; r < 5; r++) {
        bench_wait_quiet();
        double copy = bench_copy_peak(e, d, bytes);
        double t = time_fn(qn, f, x, NULL, 5);
        double ratio = 2.0 * (double)bytes / t / copy;
        printf("%s 4096^2: %.2f ms, %.1f GB/s of %.1f\n", name, t * 1e3, 2e-9 * (double)bytes / t,
               copy * 1e-9);
        if (ratio > best) best = ratio;
    }
    report(name, best, 0.5, "of copy", 1, 1);
    qn_release(x);
    free(d);
    free(e);
}

/* The demo's step: how much of it is recording the graph and finding its plan, how long kernels
 * took to compile. */
static void bench_gpt(void) {
    enum { BATCH = 16, TIME = 64, STEPS = 20 };
    qn_ctx *qn = qn_open(NULL);
    qn_gpt_config config =
        QN_GPT_CONFIG(.vocabulary = 94, .context = TIME, .layers = 4, .heads = 4, .width = 128);
    qn_gpt *gpt = qn_gpt_new(qn, 1, &config);
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAMW);
    qn_module *m = qn_gpt_module(gpt);
    qn_optimizer *o = qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &options);
    int32_t ids[BATCH * TIME], *next = ids;
    double share[STEPS], wall[STEPS];
    for (int i = 0; i < BATCH * TIME; i++) ids[i] = i * 7919 % 94;
    for (int step = -3; step < STEPS; step++) {
        qn_stats a, b;
        float loss;
        if (step >= 0) bench_wait_quiet();
        qn_get_stats(qn, &a, sizeof a);
        double start = bench_now();
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *x = qn_from(qn, QN_I32, 2, (int64_t[]){BATCH, TIME}, ids);
        qn_tensor *y = qn_from(qn, QN_I32, 2, (int64_t[]){BATCH, TIME}, next);
        qn_tensor *l = qn_gpt_loss(gpt, x, y);
        if (qn_optimizer_step(o, l) || qn_read(l, &loss, sizeof loss)) printf("%s\n", qn_error(qn));
        qn_scope_end(qn, s);
        double t = bench_now() - start;
        qn_get_stats(qn, &b, sizeof b);
        if (step < 0) continue;
        wall[step] = t;
        share[step] = (t - (b.run_seconds - a.run_seconds)) / t;
    }
    qn_stats st;
    qn_get_stats(qn, &st, sizeof st);
    printf("gpt step: %.1f ms, %llu kernels compiled in %.2f s, %llu plans\n",
           bench_median(wall, STEPS) * 1e3, (unsigned long long)st.compiles, st.compile_seconds,
           (unsigned long long)st.plans);
    report("plan_hit", bench_median(share, STEPS), 0.2, "of step", 0, 1);
    report("compile", st.compile_median * 1e3, 6, "ms", 0, 2);
    qn_optimizer_free(o);
    qn_gpt_free(gpt);
    qn_close(qn);
}

int main(void) {
    setenv("QN_CACHE", "off", 1); /* compiling is measured, too */
    qn_options one = QN_OPTIONS(.threads = 1);
    bench_node();
    bench_launch();
    bench_gpt();
    qn_ctx *qn = qn_open(&one);
    if (!qn) return 1;
    bench_gemm(qn);
    bench_rows(qn, "softmax", softmax);
    bench_rows(qn, "layer_norm", layer_norm);
    qn_close(qn);
    return failures != 0;
}
