/* bench_decode.c - a token of a small Llama, held against the bytes that it must read.
 *
 * A token reads every weight and every cached key and value once, and computes little else: the
 * limit is these bytes over what the machine reads, measured by turns with the token, on one thread
 * and on two. What is lost besides is forks and joins of small kernels, and the cache, which is
 * written whole. Prints a table and one JSON object a line; fails by one thread's processor time
 * alone, far below the usual. */
#include "limits.h"
#include "quern.h"

#include <math.h>

enum { LAYERS = 6, WIDTH = 768, HEADS = 12, HEAD = WIDTH / HEADS, HIDDEN = 2048, CONTEXT = 256 };
enum { WORDS = 8192, PLACE = 17, INPUTS = 3, ROUNDS = 40, MOST_THREADS = 2 };

static qn_ctx *qn;
static double bytes; /* of weights and caches */

static qn_tensor *noise(int rank, const int64_t *shape, double scale) {
    static uint32_t s = 1;
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    float *p = malloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        p[i] = (float)scale * ((float)(s >> 8) / 8388608.f - 1.f);
    }
    qn_tensor *t = qn_from(qn, QN_F32, rank, shape, p);
    free(p);
    return t;
}

static qn_tensor *linear(qn_tensor *x, int64_t in, int64_t out) {
    bytes += 4.0 * (double)(in * out);
    return qn_matmul(x, noise(2, (int64_t[]){in, out}, 1 / sqrt((double)in)));
}

static qn_tensor *norm(qn_tensor *x) {
    return qn_rms_norm(x, noise(1, (int64_t[]){WIDTH}, 1), 1e-5);
}

static qn_tensor *heads(qn_tensor *x) {
    return qn_reshape(linear(x, WIDTH, WIDTH), 3, (int64_t[]){HEADS, 1, HEAD});
}

/* Halves of a head turned by the angles of the place. */
static qn_tensor *turned(qn_tensor *x, qn_tensor *c, qn_tensor *s) {
    qn_tensor *a = qn_slice(x, 2, 0, HEAD / 2, 1), *b = qn_slice(x, 2, HEAD / 2, HEAD, 1);
    qn_tensor *half[2] = {qn_sub(qn_mul(a, c), qn_mul(b, s)), qn_add(qn_mul(a, s), qn_mul(b, c))};
    return qn_concat(2, half, 2);
}

static qn_tensor *cached(qn_tensor *row) {
    qn_tensor *cache = noise(3, (int64_t[]){HEADS, CONTEXT, HEAD}, 1);
    bytes += 4.0 * WIDTH * CONTEXT;
    qn_assign(cache, qn_update_slice(cache, row, (int64_t[]){0, PLACE, 0}));
    return cache;
}

static qn_tensor *layer(qn_tensor *h, qn_tensor *const *in) {
    qn_tensor *n = norm(h), *q = turned(heads(n), in[1], in[2]);
    qn_tensor *k = cached(turned(heads(n), in[1], in[2])), *v = cached(heads(n));
    qn_tensor *o = qn_permute(qn_attention(q, k, v, NULL), 3, (int[]){1, 0, 2});
    h = qn_add(h, linear(qn_reshape(o, 2, (int64_t[]){1, WIDTH}), WIDTH, WIDTH));
    n = norm(h);
    qn_tensor *gate = qn_silu(linear(n, WIDTH, HIDDEN)), *up = linear(n, WIDTH, HIDDEN);
    return qn_add(h, linear(qn_mul(gate, up), HIDDEN, WIDTH));
}

/* One thread's processor time does not mind who else is on the machine. */
static double now(int threads) {
    struct timespec t;
    clock_gettime(threads > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what the machine reads ------------------------------------------------------------------ */

typedef struct reading {
    const float *from;
    size_t n;
    float sum;
} reading;

static void *read_all(void *arg) {
    reading *r = arg;
    float sum[64] = {0};
    for (size_t i = 0; i + 64 <= r->n; i += 64)
        for (size_t k = 0; k < 64; k++) sum[k] += r->from[i + k];
    for (size_t k = 0; k < 64; k++) r->sum += sum[k];
    return NULL;
}

static double read_seconds(const float *from, size_t n, int threads) {
    pthread_t other[MOST_THREADS];
    reading r[MOST_THREADS];
    double start = now(threads);
    for (int i = 0; i < threads; i++) {
        r[i] = (reading){from + n / (size_t)threads * (size_t)i, n / (size_t)threads, 0};
        if (i && pthread_create(&other[i], NULL, read_all, &r[i])) exit(1);
    }
    read_all(&r[0]);
    for (int i = 1; i < threads; i++) pthread_join(other[i], NULL);
    double took = now(threads) - start;
    for (int i = 0; i < threads; i++)
        if (r[i].sum != 0) exit(1);
    return took;
}

/* ---- the token ------------------------------------------------------------------------------- */

static int bench(int threads) {
    qn_options o = QN_OPTIONS(.threads = threads);
    qn_stats before, after;
    qn_tensor *in[INPUTS], *h, *y, *out;
    if (!(qn = qn_open(&o))) return 1;
    bytes = 0;
    h = in[0] = noise(2, (int64_t[]){1, WIDTH}, 1);
    in[1] = noise(2, (int64_t[]){1, HEAD / 2}, 1);
    in[2] = noise(2, (int64_t[]){1, HEAD / 2}, 1);
    for (int i = 0; i < LAYERS; i++) h = layer(h, in);
    y = linear(norm(h), WIDTH, WORDS);
    qn_plan *p = qn_plan_new(qn, INPUTS, in, 1, &y);
    if (!p) return puts(qn_error(qn)), 1;
    size_t n = (size_t)bytes / 4;
    float *stream = malloc(n * sizeof *stream);
    for (size_t i = 0; i < n; i++) stream[i] = i % 2 ? 1 : -1;
    double token = 1e9, limit = 1e9;
    qn_get_stats(qn, &before, sizeof before);
    for (int r = 0; r < ROUNDS; r++) {
        if (threads > 1) bench_wait_quiet();
        double start = now(threads);
        if (qn_plan_run(p, in, &out)) return puts(qn_error(qn)), 1;
        double took = now(threads) - start, read = read_seconds(stream, n, threads);
        if (took < token) token = took;
        if (read < limit) limit = read;
        qn_release(out);
    }
    qn_get_stats(qn, &after, sizeof after);
    double ratio = limit / token, floor_ = 0.3;
    printf("decode, %d threads: %.2f ms a token, %.2f to read its %.0f MB (%.1f GB/s): %.3f of the "
           "limit, floor %g; %.0f kernels %s\n",
           threads, token * 1e3, limit * 1e3, bytes * 1e-6, bytes * 1e-9 / limit, ratio, floor_,
           (double)(after.kernels - before.kernels) / ROUNDS,
           ratio >= floor_ ? "ok"
           : threads > 1   ? "slow (machine loaded?)"
                           : "MISSED");
    printf("{\"case\":\"decode-%d\",\"quern\":%.6g,\"unit\":\"of read\",\"floor\":%g}\n", threads,
           ratio, floor_);
    free(stream);
    qn_plan_free(p);
    qn_close(qn);
    return threads == 1 && ratio < floor_;
}

int main(void) {
    int failures = 0;
    setenv("QN_CACHE", "off", 1);
    for (int threads = 1; threads <= MOST_THREADS; threads++) failures += bench(threads);
    return failures != 0;
}
