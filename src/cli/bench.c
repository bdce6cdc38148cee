/* bench.c - `quern bench`: how long a model in the ONNX format takes on random inputs.
 *
 * Sizes are those of the model; one that varies is 1, or what --shape says: "name=2x3x8" is an
 * input's shape, "name=4" the size of all axes of that name, or of an input of one axis. Floats are
 * normal, integers 0 or 1, which any table has. The first run compiles; the others launch the same
 * static graph, and of those the least time says what the model takes, the median what else runs on
 * the machine. */
#include "cli/cli.h"
#include "quern_onnx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MOST = 64, RUNS_MOST = 1000000 };
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

/* ---- shapes ---------------------------------------------------------------------------------- */

/* "2x3x8"; how many sizes, or -1. */
static int read_sizes(const char *text, size_t length, int64_t *size) {
    const char *end = text + length;
    int n = 0;
    while (text < end) {
        char *behind;
        errno = 0;
        long long value = strtoll(text, &behind, 10);
        if (behind == text || errno || value < 0 || n == QN_MAX_RANK) return -1;
        size[n++] = value;
        if (behind < end && *behind != 'x') return -1;
        text = behind + (behind < end);
        if (behind + 1 == end) return -1; /* nothing behind the last x */
    }
    return n ? n : -1;
}

/* One of the list "name=sizes,..": where it begins, its name's length, its sizes'; false: the list
 * has ended, or it is no such thing, and `text` is not at its end. */
typedef struct shape_text {
    const char *name, *sizes;
    size_t name_size, sizes_size;
} shape_text;
static bool next_shape(const char **text, shape_text *out) {
    const char *at = *text, *equals = at && *at ? strchr(at, '=') : NULL;
    if (!equals) return false;
    out->name = at;
    out->name_size = (size_t)(equals - at);
    out->sizes = equals + 1;
    out->sizes_size = strcspn(equals + 1, ",");
    *text = equals + 1 + out->sizes_size;
    if (**text == ',') ++*text;
    return true;
}

static bool is_named(const shape_text *s, const char *name) {
    return name && strlen(name) == s->name_size && memcmp(name, s->name, s->name_size) == 0;
}

/* What the list says of an input, into its shape; how much of the list was of it, false: said. */
static bool give_shape(const char *list, qn_onnx_value *v, bool *used) {
    shape_text s;
    for (int k = 0; next_shape(&list, &s); k++) {
        int64_t size[QN_MAX_RANK];
        int n = read_sizes(s.sizes, s.sizes_size, size);
        if (n < 0 || k >= VALUES_MOST) {
            cli_failed("bench", "--shape: no sizes as 2x3x8: %.*s", (int)s.sizes_size, s.sizes);
            return false;
        }
        if (is_named(&s, v->name) && (v->rank < 0 || v->rank == n)) {
            v->rank = n;
            memcpy(v->shape, size, (size_t)n * sizeof *size);
            used[k] = true;
        } else if (is_named(&s, v->name)) {
            cli_failed("bench", "--shape: %s has %d axes, not %d", v->name, v->rank, n);
            return false;
        }
        for (int i = 0; n == 1 && i < v->rank; i++) {
            if (v->shape[i] >= 0 || !is_named(&s, v->dim_name[i])) continue;
            v->shape[i] = size[0];
            used[k] = true;
        }
    }
    return true;
}

/* Is all of the list of the model? */
static bool all_used(const char *list, const bool *used) {
    shape_text s;
    for (int k = 0; next_shape(&list, &s); k++) {
        if (used[k]) continue;
        cli_failed("bench", "--shape: neither an input nor an axis that varies: %.*s",
                   (int)s.name_size, s.name);
        return false;
    }
    if (list && *list) cli_failed("bench", "--shape: no name=sizes: %s", list);
    return !list || !*list;
}

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
        if (!give_shape(shapes, &v, used)) return false;
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
    return all_used(shapes, used);
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
