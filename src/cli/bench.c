/* bench.c - `quern bench`: how long a model in the ONNX format takes on random inputs.
 *
 * Sizes are those of the model; one that varies is 1, or what --shape says (shapes.c). Floats are
 * normal, integers 0 or 1, which any table has. The first run compiles; the others launch the same
 * static graph, and of those the least time says what the model takes, the median what else runs on
 * the machine. */
#include "cli/cli.h"
#include "quern_onnx.h"

#include <stdlib.h>
#include <string.h>

enum { RUNS_MOST = 1000000 };
static const double MIB = 1 << 20;

typedef struct bench_options {
    const char *model, *shape, *device;
    int64_t threads, runs;
} bench_options;

static const option rows[] = {
    {"model", OPTION_TEXT, offsetof(bench_options, model), 0, 0, "FILE",
     "the model, .onnx; the first argument, too, may be it"},
    {"shape", OPTION_TEXT, offsetof(bench_options, shape), 0, 0, "SHAPES",
     "input=2x3x8, or axis=4; commas between (1 for what varies)"},
    {"runs", OPTION_WHOLE, offsetof(bench_options, runs), 1, RUNS_MOST, "N",
     "runs behind the first (20)"},
    {"device", OPTION_TEXT, offsetof(bench_options, device), 0, 0, "NAME",
     "cpu, or another of quern devices"},
    {"threads", OPTION_WHOLE, offsetof(bench_options, threads), 0, 4096, "N", "0: all (0)"},
};

/* ---- inputs ---------------------------------------------------------------------------------- */

static qn_tensor *random_input(qn_ctx *qn, const qn_onnx_value *v, int number) {
    qn_tensor *key = qn_key(qn, (uint64_t)number + 1);
    if (v->dtype == QN_BOOL) return qn_bernoulli(key, v->rank, v->shape, 0.5);
    bool whole = v->dtype <= QN_U64;
    return whole ? qn_cast(qn_randint(key, QN_I32, v->rank, v->shape, 0, 2), v->dtype)
                 : qn_cast(qn_randn(key, QN_F32, v->rank, v->shape), v->dtype);
}

static void print_input(const qn_onnx_value *v) {
    printf("input   %s %s [", v->name, qn_dtype_name(v->dtype));
    for (int i = 0; i < v->rank; i++) printf("%s%lld", i ? ", " : "", (long long)v->shape[i]);
    printf("]\n");
}

/* Those that have no value in the model. */
static bool make_inputs(qn_ctx *qn, const qn_onnx *onnx, const char *shapes, qn_tensor **in) {
    bool used[VALUES_MOST] = {false};
    int n = qn_onnx_inputs(onnx);
    for (int i = 0; i < n; i++) {
        qn_onnx_value v;
        if (i >= VALUES_MOST || !qn_onnx_input_at(onnx, i, &v, sizeof v)) {
            cli_failed("bench", "input %d is no tensor, or one too many", i);
            return false;
        }
        if (v.optional) continue;
        if (!shapes_give("bench", shapes, &v, used)) return false;
        if (v.rank < 0) {
            cli_failed("bench", "input %s has a shape that the model does not say: --shape %s=..",
                       v.name, v.name);
            return false;
        }
        for (int k = 0; k < v.rank; k++)
            if (v.shape[k] < 0) v.shape[k] = 1;
        print_input(&v);
        in[i] = random_input(qn, &v, i);
        if (in[i] && qn_realize(1, &in[i]) == QN_OK) continue;
        cli_failed("bench", "input %s: %s", v.name, qn_error(qn));
        return false;
    }
    return shapes_all_used("bench", shapes, used);
}

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct bench {
    qn_ctx *qn;
    qn_onnx *onnx;
    qn_tensor *in[VALUES_MOST], *out[VALUES_MOST];
    int n_in, n_out;
    double *seconds; /* of each run but the first */
} bench;

/* Seconds of a run; negative: it failed. */
static double timed_run(bench *b) {
    double begun = cli_seconds();
    qn_code code = qn_onnx_run(b->onnx, b->n_in, b->in, b->n_out, b->out);
    double took = cli_seconds() - begun;
    for (int i = 0; code == QN_OK && i < b->n_out; i++)
        if (b->out[i]) qn_release(b->out[i]);
    return code == QN_OK ? took : -1;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_first(const bench *b, const qn_stats *before, double took) {
    qn_stats s;
    qn_get_stats(b->qn, &s, sizeof s);
    printf("first   %.3f s, %llu launches, %llu kernels compiled in %.3f s%s\n", took,
           (unsigned long long)(s.kernels - before->kernels),
           (unsigned long long)(s.compiles - before->compiles),
           s.compile_seconds - before->compile_seconds,
           qn_onnx_depends(b->onnx) ? "; no static graph: it depends on values" : "");
}

static void print_runs(const bench *b, int64_t runs) {
    qn_stats s;
    qsort(b->seconds, (size_t)runs, sizeof *b->seconds, by_size);
    printf("run     %.3f ms at least, %.3f ms in the middle of %lld\n", b->seconds[0] * 1e3,
           b->seconds[runs / 2] * 1e3, (long long)runs);
    qn_get_stats(b->qn, &s, sizeof s);
    printf("memory  %.1f MiB of tensors at most, %.1f MiB with the model and what was compiled\n",
           (double)s.peak_bytes / MIB, (double)s.host_bytes / MIB);
}

static bool run_all(bench *b, int64_t runs) {
    qn_stats before;
    qn_get_stats(b->qn, &before, sizeof before);
    double first = timed_run(b);
    if (first >= 0) print_first(b, &before, first);
    for (int64_t i = 0; first >= 0 && i < runs; i++)
        if ((b->seconds[i] = timed_run(b)) < 0) first = -1;
    if (first < 0) cli_failed("bench", "%s", qn_error(b->qn));
    return first >= 0;
}

int command_bench(int argc, char **argv) {
    bench_options o = {.runs = 20};
    static const option_set set = {"bench", "Time a model in the ONNX format on random inputs.",
                                   rows, sizeof rows / sizeof rows[0]};
    int status = options_parse_model(&set, argc, argv, &o, &o.model);
    if (status >= 0) return status;
    bench b = {.qn = cli_open_threads("bench", o.device, (int)o.threads)};
    if (!b.qn) return EXIT_FAILED;
    b.onnx = qn_onnx_open(b.qn, o.model);
    b.seconds = malloc((size_t)o.runs * sizeof *b.seconds);
    if (!b.onnx || !b.seconds) cli_failed("bench", "%s", b.onnx ? "out of memory" : qn_error(b.qn));
    bool fine = b.onnx && b.seconds && make_inputs(b.qn, b.onnx, o.shape, b.in);
    b.n_in = b.onnx ? qn_onnx_inputs(b.onnx) : 0;
    b.n_out = b.onnx ? qn_onnx_outputs(b.onnx) : 0;
    if (b.n_out > VALUES_MOST) b.n_out = VALUES_MOST;
    fine = fine && run_all(&b, o.runs);
    if (fine) print_runs(&b, o.runs);
    free(b.seconds);
    if (b.onnx) qn_onnx_close(b.onnx);
    qn_close(b.qn);
    return fine ? EXIT_DONE : EXIT_FAILED;
}
