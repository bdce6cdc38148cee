/* latency.c - times that no peer has in this form: compiling, planning, starting.
 *
 * Cold and warm start are whole processes: the program starts itself, makes one training step of a
 * small network, and ends. Cold has an empty folder of compiled objects, warm the folder that a
 * cold one left. Planning is that of a GPT-2 of 124 million parameters on the device that computes
 * nothing. What it costs to divide a kernel is measured by a chain of kernels that are just long
 * enough to be divided. */
#include "../limits.h"
#include "quern_nn.h"
#include "versus.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static qn_tensor *noise(qn_ctx *qn, uint32_t number, int64_t rows, int64_t columns) {
    static float data[1 << 20];
    vs_fill(data, number, rows * columns);
    for (int64_t i = 0; i < rows * columns; i++) data[i] *= 0.05f;
    return qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, data);
}

int vs_once(void) {
    qn_ctx *qn = qn_open(NULL);
    int32_t labels[128];
    for (int i = 0; i < 128; i++) labels[i] = i % 10;
    qn_tensor *x = noise(qn, 0, 128, 784), *w[2] = {noise(qn, 1, 784, 512), noise(qn, 2, 512, 10)};
    qn_tensor *y = qn_from(qn, QN_I32, 1, (int64_t[]){128}, labels), *g[2];
    qn_tensor *loss = qn_cross_entropy(qn_matmul(qn_relu(qn_matmul(x, w[0])), w[1]), y);
    float value = NAN;
    if (!qn_grad(loss, NULL, 2, w, g))
        for (int i = 0; i < 2; i++) qn_assign(w[i], qn_sub(w[i], g[i]));
    int code = qn_read(loss, &value, sizeof value);
    if (code) fprintf(stderr, "%s\n", qn_error(qn));
    qn_close(qn);
    return code || !isfinite(value);
}

/* Seconds from asking for the process to its end, or < 0. */
static double process(const char *cache, int threads) {
    double start = bench_now();
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        char count[16];
        snprintf(count, sizeof count, "%d", threads);
        setenv("QN_CACHE", cache, 1);
        setenv("QN_THREADS", count, 1);
        vs_pin(threads);
        execl("/proc/self/exe", "versus", "--once", NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) return -1;
    return bench_now() - start;
}

static const char *time_start(bool warm, int threads, double *seconds) {
    char folder[] = "/tmp/quern-bench-XXXXXX", command[64];
    if (!mkdtemp(folder)) return "no folder for the cache";
    *seconds = process(folder, threads);
    if (warm && *seconds > 0) *seconds = process(folder, threads);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command)) return "the cache's folder stays";
    return *seconds > 0 ? NULL : "the process failed";
}

/* One step of AdamW for a GPT of this size; the context's figures afterwards. */
static const char *step(const char *device, int threads, const qn_gpt_config *config, int64_t batch,
                        int64_t time, qn_stats *stats) {
    qn_options options = QN_OPTIONS(.device = device, .threads = threads);
    qn_ctx *qn = qn_open(&options);
    qn_gpt *gpt = qn_gpt_new(qn, 1, config);
    if (!gpt) return "no model";
    qn_module *m = qn_gpt_module(gpt);
    qn_realize(qn_module_count(m), qn_module_parameters(m));
    qn_optimizer_options adamw = qn_optimizer_defaults(QN_ADAMW);
    qn_optimizer *o = qn_optimizer_new(qn, qn_module_count(m), qn_module_parameters(m), &adamw);
    static int32_t ids[4096];
    qn_stats before;
    float loss;
    qn_tensor *x = qn_from(qn, QN_I32, 2, (int64_t[]){batch, time}, ids);
    qn_tensor *l = qn_gpt_loss(gpt, x, x);
    bool ok = !qn_optimizer_step(o, l);
    qn_get_stats(qn, &before, sizeof before);
    ok = ok && !qn_read(l, &loss, sizeof loss);
    qn_get_stats(qn, stats, sizeof *stats);
    stats->plan_seconds -= before.plan_seconds;
    qn_optimizer_free(o);
    qn_gpt_free(gpt);
    qn_close(qn);
    return ok ? NULL : "the step failed";
}

/* A static graph that hands a value on through kernels of a microsecond or two, on some number of
 * threads; what a thread reads in one it wrote in the last. */
typedef struct chain {
    qn_ctx *qn;
    qn_tensor *in;
    qn_plan *plan;
} chain;

static bool chain_open(chain *c, int threads, const vs_case *k) {
    qn_options options = QN_OPTIONS(.threads = threads);
    setenv("QN_FUSE", "0", 1); /* each link is a kernel */
    c->qn = qn_open(&options);
    unsetenv("QN_FUSE");
    c->in = noise(c->qn, 0, 1, k->d[1]);
    qn_tensor *x = c->in;
    for (int64_t i = 0; i < k->d[0]; i++) x = qn_tanh(x);
    c->plan = qn_plan_new(c->qn, 1, &c->in, 1, &x);
    return c->plan != NULL;
}

static double chain_run(const chain *c) {
    double start = bench_now();
    qn_tensor *out = NULL;
    bool ok = !qn_plan_run(c->plan, &c->in, &out);
    double seconds = bench_now() - start;
    qn_release(out);
    return ok ? seconds : (double)NAN;
}

static void chain_close(chain *c) {
    qn_plan_free(c->plan);
    qn_close(c->qn);
}

/* A kernel's time on all threads, less its share of its time on one. So it also holds what half of
 * a launch costs, and the wait for the slower of two halves. */
static const char *time_fork(const vs_case *k, int threads, double *seconds) {
    enum { RUNS = 201 };
    static double alone[RUNS], shared[RUNS];
    chain one = {0}, all = {0};
    bool ok = chain_open(&one, 1, k) && chain_open(&all, threads, k);
    for (int i = 0; ok && i < RUNS; i++) {
        chain_run(&one);
        alone[i] = chain_run(&one);
        chain_run(&all); /* wakes the workers */
        shared[i] = chain_run(&all);
        ok = isfinite(alone[i] + shared[i]);
    }
    chain_close(&one);
    chain_close(&all);
    if (!ok) return "the chain does not run";
    double share = bench_median(alone, RUNS) / threads;
    *seconds = (bench_median(shared, RUNS) - share) / (double)k->d[0];
    return NULL;
}

const char *vs_latency(const vs_case *c, int threads, double *seconds) {
    static const qn_gpt_config demo =
        QN_GPT_CONFIG(.vocabulary = 94, .context = 64, .layers = 4, .heads = 4, .width = 128);
    static const qn_gpt_config gpt2 = QN_GPT_CONFIG(.vocabulary = 50257, .context = 1024,
                                                    .layers = 12, .heads = 12, .width = 768);
    qn_stats stats;
    const char *why = NULL;
    switch (c->kind) {
    case VS_COLD_START:
        return time_start(false, threads, seconds);
    case VS_WARM_START:
        return time_start(true, threads, seconds);
    case VS_COMPILE:
        why = step(NULL, threads, &demo, 16, 64, &stats);
        *seconds = stats.compile_median;
        return why;
    case VS_PLAN:
        why = step("null", threads, &gpt2, 4, 64, &stats);
        *seconds = stats.plan_seconds;
        return why;
    case VS_FORK_JOIN:
        return time_fork(c, threads, seconds);
    default:
        return "no such case";
    }
}
