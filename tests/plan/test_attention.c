/* test_attention.c - attention as kernels over blocks of rows: against its formula in plain loops,
 * at odd shapes, with what a mask hides, that no score matrix is ever in memory, and that long rows
 * go by blocks of keys. */
#include "base/base.h"
#include "device_here.h"
#include "quern.h"
#include "quern_tune.h"
#include "test.h"

#include <math.h>
#include <unistd.h>

typedef struct problem {
    int64_t batch, queries, keys, depth, width; /* q: [batch, queries, depth], v: [.., width] */
    bool causal;
    qn_dtype dtype;
} problem;

enum { Q, K, V, SEED, INPUTS };

static int64_t rows_of(const problem *p, int i) {
    return i == K || i == V ? p->keys : p->queries;
}

static int64_t columns_of(const problem *p, int i) {
    return i == Q || i == K ? p->depth : p->width;
}

static int64_t size_of(const problem *p, int i) {
    return p->batch * rows_of(p, i) * columns_of(p, i);
}

static bool sees(const problem *p, int64_t q, int64_t k) {
    return !p->causal || k + p->queries <= q + p->keys;
}

/* One head: the output, and the gradients of q, k, v for the seed. */
static void plain(const problem *p, const float *const *x, double *out, double **grad) {
    int64_t n = p->queries, m = p->keys, d = p->depth, w = p->width;
    double *weight = calloc((size_t)(m + 1), sizeof *weight), scale = 1 / sqrt((double)d);
    for (int64_t q = 0; q < n; q++) {
        double most = -INFINITY, sum = 0, dot = 0;
        for (int64_t k = 0; k < m; k++) {
            if (!sees(p, q, k)) continue;
            weight[k] = 0;
            for (int64_t i = 0; i < d; i++) weight[k] += (double)x[Q][q * d + i] * x[K][k * d + i];
            weight[k] *= scale;
            if (weight[k] > most) most = weight[k];
        }
        for (int64_t k = 0; k < m; k++)
            if (sees(p, q, k)) sum += weight[k] = exp(weight[k] - most);
        for (int64_t i = 0; i < w; i++) out[q * w + i] = 0;
        for (int64_t k = 0; k < m; k++)
            for (int64_t i = 0; i < w && sees(p, q, k); i++)
                out[q * w + i] += weight[k] / sum * x[V][k * w + i];
        for (int64_t i = 0; i < w; i++) dot += out[q * w + i] * x[SEED][q * w + i];
        for (int64_t k = 0; k < m; k++) {
            if (!sees(p, q, k)) continue;
            double share = weight[k] / sum, slope = 0;
            for (int64_t i = 0; i < w; i++) {
                grad[V][k * w + i] += share * x[SEED][q * w + i];
                slope += (double)x[SEED][q * w + i] * x[V][k * w + i];
            }
            slope = share * (slope - dot) * scale;
            for (int64_t i = 0; i < d; i++) {
                grad[Q][q * d + i] += slope * x[K][k * d + i];
                grad[K][k * d + i] += slope * x[Q][q * d + i];
            }
        }
    }
    free(weight);
}

static void compare(const problem *p, const char *what, const float *got, const double *want,
                    int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double most = p->dtype == QN_F16 ? 2e-3 : p->dtype == QN_BF16 ? 1e-2 : 2e-5;
        if (fabs(got[i] - want[i]) <= most * (1 + fabs(want[i]))) continue;
        FAIL("%s of %lld x %lld x %lld, %lld and %lld deep%s: [%lld] is %g, not %g", what,
             (long long)p->batch, (long long)p->queries, (long long)p->keys, (long long)p->depth,
             (long long)p->width, p->causal ? ", causal" : "", (long long)i, got[i], want[i]);
        return;
    }
}

/* Output and gradients on a device, all of one graph, or first the output alone. */
static void check_by(qn_ctx *qn, const problem *p, uint64_t seed, bool alone) {
    static const char *const names[] = {"the gradient of q", "the gradient of k",
                                        "the gradient of v", "the output"};
    float *x[INPUTS], *got[INPUTS];
    double *want[INPUTS];
    qn_tensor *t[INPUTS], *y[INPUTS];
    qn_scope s = qn_scope_begin(qn);
    for (int i = 0; i < INPUTS; i++) {
        int64_t n = size_of(p, i), shape[3] = {p->batch, rows_of(p, i), columns_of(p, i)};
        x[i] = malloc((size_t)n * sizeof **x);
        got[i] = malloc((size_t)n * sizeof **got);
        want[i] = calloc((size_t)n, sizeof **want);
        for (int64_t k = 0; k < n; k++) /* halves have room for these */
            x[i][k] = p->dtype != QN_F32 ? (float)test_below(&seed, 64) / 16 - 2
                                         : (float)(4 * test_uniform(&seed) - 2);
        t[i] = qn_from(qn, QN_F32, 3, shape, x[i]);
        if (p->dtype != QN_F32) t[i] = qn_cast(t[i], p->dtype);
    }
    for (int64_t b = 0; b < p->batch; b++) {
        const float *in[INPUTS];
        double *out[INPUTS];
        for (int i = 0; i < INPUTS; i++) {
            in[i] = x[i] + b * size_of(p, i) / p->batch;
            out[i] = want[i] + b * size_of(p, i) / p->batch;
        }
        plain(p, in, out[SEED], out);
    }
    y[SEED] = qn_attention(t[Q], t[K], t[V], &QN_ATTENTION_OPTIONS(.causal = p->causal));
    CHECK_INT(qn_grad(y[SEED], t[SEED], 3, t, y), QN_OK);
    if (alone) CHECK_INT(qn_realize(1, &y[SEED]), QN_OK);
    CHECK_INT(qn_realize(INPUTS, y), QN_OK);
    for (int i = 0; i < INPUTS; i++) {
        int64_t n = size_of(p, i);
        if (qn_read(qn_cast(y[i], QN_F32), got[i], (size_t)n * sizeof **got))
            FAIL("%s", qn_error(qn));
        compare(p, names[i], got[i], want[i], n);
        free(x[i]);
        free(got[i]);
        free(want[i]);
    }
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

static void check(qn_ctx *qn, const problem *p, uint64_t seed) {
    check_by(qn, p, seed, false);
}

static void shapes_on(const char *device, int count) {
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 64, 67, 97};
    static const int64_t depths[] = {1, 3, 8, 16, 17, 40};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    uint64_t seed = 1;
    for (int i = 0; i < count; i++) {
        problem p = {.dtype = QN_F32,
                     .batch = 1 + test_below(&seed, 13),
                     .queries = lengths[test_below(&seed, COUNT_OF(lengths))],
                     .depth = depths[test_below(&seed, COUNT_OF(depths))]};
        p.causal = i % 2;
        p.keys = test_below(&seed, 2) ? p.queries : lengths[test_below(&seed, COUNT_OF(lengths))];
        if (p.causal && p.keys < p.queries) p.keys = p.queries; /* a query that sees nothing: NaN */
        p.width = test_below(&seed, 2) ? p.depth : depths[test_below(&seed, COUNT_OF(depths))];
        check(qn, &p, seed);
    }
    qn_close(qn);
}

static void it_is_its_formula_at_odd_shapes(void) {
    shapes_on("cpu", 24);
}

static void it_is_its_formula_on_devices_with_groups(void) {
    if (device_here("opencl")) shapes_on("opencl", 5);
}

/* Rows longer than a slice that stays in the nearest cache, among them. */
static void it_is_its_formula_over_several_blocks(void) {
    static const problem large[] = {
        {2, 131, 257, 24, 40, false, QN_F32}, {9, 300, 271, 24, 40, false, QN_F32},
        {8, 389, 389, 33, 17, true, QN_F32},  {3, 200, 200, 32, 32, true, QN_F32},
        {2, 96, 224, 33, 17, true, QN_F32},   {1, 70, 521, 16, 24, false, QN_F32},
        {1, 389, 389, 17, 16, true, QN_F32},  {1, 300, 641, 32, 33, true, QN_F32}};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    for (int i = 0; i < (int)COUNT_OF(large); i++) check(qn, &large[i], i);
    qn_close(qn);
}

/* Sizes are those of GPT-2's heads; counted on the null device, which plans and runs nothing. */
static void scores_are_never_in_memory(void) {
    enum { HEADS = 8, TIME = 1024, DEPTH = 64 };
    float *zero = calloc(HEADS * TIME * DEPTH, sizeof *zero);
    for (int i = 0; i < 4; i++) {
        int causal = i % 2, heads = i < 2 ? HEADS : HEADS / 2;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
        qn_tensor *t[INPUTS], *y[INPUTS];
        for (int k = 0; k < INPUTS; k++)
            t[k] = qn_from(qn, QN_F32, 4, (int64_t[]){1, heads, TIME, DEPTH}, zero);
        qn_stats before, forward, both;
        qn_get_stats(qn, &before, sizeof before);
        y[SEED] = qn_attention(t[Q], t[K], t[V], &QN_ATTENTION_OPTIONS(.causal = causal));
        qn_realize(1, &y[SEED]);
        qn_get_stats(qn, &forward, sizeof forward);
        CHECK_INT(forward.kernels - before.kernels, 1);
        CHECK_INT(forward.planned_peak_bytes, 0);
        y[SEED] = qn_attention(qn_neg(t[Q]), t[K], t[V], &QN_ATTENTION_OPTIONS(.causal = causal));
        CHECK_INT(qn_grad(y[SEED], t[SEED], 3, t, y), QN_OK);
        qn_realize(INPUTS, y);
        qn_get_stats(qn, &both, sizeof both);
        /* those of k and v are one, and that of q with them where there are heads for threads; of
         * fewer heads the sums of rows store what they sum */
        CHECK_INT(both.kernels - forward.kernels, 5);
        if (both.planned_peak_bytes > 4 * (uint64_t)heads * TIME * DEPTH * sizeof *zero)
            FAIL("gradients take %llu bytes beside what they are made of",
                 (unsigned long long)both.planned_peak_bytes);
        qn_close(qn);
    }
    free(zero);
}

/* With one head queries have a kernel of their own, with many it is one with keys and values. */
static void hide_on(qn_ctx *qn, int heads) {
    enum { TIME = 397, SHOWN = 201, DEPTH = 16, HEAD = TIME * DEPTH, HEADS = 9 };
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
    static float x[3][HEADS * HEAD], got[2][HEADS * HEAD], want[2][HEADS * HEAD];
    int size = heads * HEAD;
    uint64_t seed = 5;
    for (int i = 0; i < 3 * size; i++) x[i / size][i % size] = (float)(2 * test_uniform(&seed) - 1);
    for (int hide = 0; hide < 2; hide++) {
        int64_t shape[3] = {heads, TIME, DEPTH};
        qn_tensor *in[3], *y[4];
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < size && hide && i; k++)
                if (k % HEAD >= SHOWN * DEPTH) x[i][k] = odd[k % 4];
            in[i] = qn_from(qn, QN_F32, 3, shape, x[i]);
        }
        y[0] = qn_attention(in[0], in[1], in[2], &QN_ATTENTION_OPTIONS(.causal = true));
        CHECK_INT(qn_grad(y[0], qn_ones(qn, QN_F32, 3, shape), 3, in, y + 1), QN_OK);
        CHECK_INT(qn_realize(4, y), QN_OK);
        for (int i = 0; i < 2; i++)
            qn_read(y[i], hide ? got[i] : want[i], (size_t)size * sizeof got[i][0]);
    }
    CHECK_INT(qn_error_code(qn), QN_OK);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < size; i++)
            if (i % HEAD < SHOWN * DEPTH && got[k][i] != want[k][i]) {
                FAIL("%d heads, result %d: [%d] is %g, not %g", heads, k, i, got[k][i], want[k][i]);
                break;
            }
    CHECK(isnan(got[0][size - 1]) && isnan(got[1][size - 1]));
}

/* What several sums over the rows of a head share is computed once for all, and each sum is taken
 * in the loop of the rows. */
static void several_sums_over_rows_of_scores(void) {
    enum { HEADS = 17, TIME = 29, KEYS = 16, DEPTH = 2, SUMS = 3, WIDE = HEADS * TIME * KEYS };
    static float q[HEADS * TIME * DEPTH], k[HEADS * DEPTH * KEYS], in[SUMS][WIDE],
        got[HEADS * KEYS * KEYS];
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    qn_tensor *t[SUMS], *y[1 + SUMS];
    uint64_t seed = 7;
    for (int i = 0; i < HEADS * TIME * DEPTH; i++) q[i] = (float)(test_uniform(&seed) - 0.5);
    for (int i = 0; i < HEADS * DEPTH * KEYS; i++) k[i] = (float)(test_uniform(&seed) - 0.5);
    for (int i = 0; i < SUMS; i++) {
        for (int j = 0; j < WIDE; j++) in[i][j] = (float)(2 * test_uniform(&seed) - 1);
        t[i] = qn_from(qn, QN_F32, 3, (int64_t[]){HEADS, TIME, KEYS}, in[i]);
    }
    qn_tensor *scores =
        qn_exp(qn_matmul(qn_from(qn, QN_F32, 3, (int64_t[]){HEADS, TIME, DEPTH}, q),
                         qn_from(qn, QN_F32, 3, (int64_t[]){HEADS, DEPTH, KEYS}, k)));
    y[SUMS] = qn_matmul(scores, qn_narrow(t[0], 1, 0, KEYS));
    for (int i = 0; i < SUMS; i++) y[i] = qn_matmul(qn_transpose(t[i], 1, 2), scores);
    CHECK_INT(qn_realize(1 + SUMS, y), QN_OK);
    for (int i = 0; i < SUMS; i++) {
        qn_read(y[i], got, sizeof got);
        for (int at = 0; at < HEADS * KEYS * KEYS; at++) {
            int head = at / KEYS / KEYS, row = at / KEYS % KEYS, column = at % KEYS;
            const float *key = k + head * DEPTH * KEYS + column;
            double want = 0;
            for (int j = head * TIME; j < head * TIME + TIME; j++)
                want += in[i][j * KEYS + row] *
                        exp((double)q[DEPTH * j] * key[0] + (double)q[DEPTH * j + 1] * key[KEYS]);
            if (!(fabs(got[at] - want) < 1e-5))
                FAIL("sum %d [%d]: %g, not %g", i, at, (double)got[at], want);
        }
    }
    qn_close(qn);
}

/* Keys and values that a query does not see may hold anything: neither its result nor its gradient
 * knows. */
static void what_is_hidden_takes_no_part(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    hide_on(qn, 1);
    hide_on(qn, 9);
    qn_close(qn);
}

/* ---- rows by blocks of keys ------------------------------------------------------------------ */

/* What the dumps of scheduled kernels say: the largest tile, and how many maxima grew. */
static int64_t largest_tile;
static int onlines;

static void read_dump(void *user, const char *line) {
    (void)user;
    if (strstr(line, "online t")) onlines++;
    const char *tile = strstr(line, "  local t"), *size = tile ? strchr(tile, '[') : NULL;
    if (size && atoll(size + 1) > largest_tile) largest_tile = atoll(size + 1);
}

/* A context for a processor with a second-level cache of 1 KiB, which no row of a block fits. */
static qn_ctx *open_streaming(const char *device) {
    char path[] = "/tmp/quern-machine-XXXXXX";
    int file = mkstemp(path);
    qn_ctx *here = qn_open(&QN_OPTIONS(.device = "null"));
    const char *text = qn_machine(here), *l2 = strstr(text, "\nl2 ");
    if (file < 0 || !l2) return FAIL("no record"), here;
    dprintf(file, "%.*s\nl2 1024%s", (int)(l2 - text), text, strchr(l2 + 1, '\n'));
    close(file);
    setenv("QN_MACHINE", path, 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .log = read_dump));
    unsetenv("QN_MACHINE");
    unlink(path);
    qn_close(here);
    largest_tile = onlines = 0;
    if (qn_set(qn, "debug", "k")) FAIL("%s", qn_error(qn));
    return qn;
}

static void long_rows_go_by_blocks_of_keys(void) {
    static const problem rows[] = {
        {1, 128, 1024, 16, 16, false, QN_F32}, {2, 131, 1021, 16, 24, false, QN_F32},
        {1, 509, 509, 17, 16, true, QN_F32},   {2, 96, 641, 16, 16, true, QN_F32},
        {1, 256, 255, 16, 16, false, QN_F32},  {1, 255, 257, 16, 16, true, QN_F32},
        {9, 397, 397, 16, 16, true, QN_F32},   {1, 400, 400, 16, 16, true, QN_F64},
        {1, 400, 400, 16, 16, true, QN_F16},   {1, 400, 400, 16, 16, false, QN_BF16}};
    /* so many scores that gradients compute them again */
    static const problem large[] = {{1, 4099, 4201, 8, 8, true, QN_F32},
                                    {9, 1009, 2003, 8, 16, false, QN_F32}};
    qn_ctx *qn = open_streaming("cpu");
    for (int i = 0; i < (int)COUNT_OF(rows); i++) {
        int before = onlines;
        check_by(qn, &rows[i], i + 1, true);
        CHECK_INT(onlines, before + 1);
    }
    for (int i = 0; i < (int)COUNT_OF(large); i++) check(qn, &large[i], i + 1);
    CHECK_INT(onlines, (int)(COUNT_OF(rows) + COUNT_OF(large)));
    hide_on(qn, 1);
    hide_on(qn, 9);
    qn_close(qn);
}

/* Key 1 has a weight of e^-100, key 2 one of e^`second`, the largest key one of 1, others none. */
static void mask_on(qn_ctx *qn, bool composed, int largest, float second) {
    enum { TIME = 400, DEPTH = 16 };
    static float x[TIME * DEPTH], value[TIME * DEPTH], mask[TIME * TIME], got[TIME * DEPTH];
    int64_t shape[2] = {TIME, DEPTH}, square[2] = {TIME, TIME};
    for (int i = 0; i < TIME * TIME; i++)
        mask[i] = i % TIME == largest ? 0 : composed ? -1e4f : -INFINITY;
    for (int q = 0; q < TIME; q++) mask[q * TIME + 1] = -100, mask[q * TIME + 2] = second;
    value[1 * DEPTH] = value[2 * DEPTH + 1] = 1e30f;
    qn_tensor *zero = qn_from(qn, QN_F32, 2, shape, x), *v = qn_from(qn, QN_F32, 2, shape, value);
    qn_tensor *m = qn_from(qn, QN_F32, 2, square, mask);
    qn_tensor *y = qn_attention(zero, zero, v, &QN_ATTENTION_OPTIONS(.mask = m));
    if (composed) {
        qn_tensor *scores = qn_add(qn_matmul(zero, qn_transpose(zero, 0, 1)), m);
        qn_tensor *weight = qn_exp(qn_sub(scores, qn_max(scores, 1, true)));
        y = qn_div(qn_matmul(weight, v), qn_sum(weight, 1, true));
    }
    if (qn_read(y, got, sizeof got)) FAIL("%s", qn_error(qn));
    double want = second < -83 ? 0 : 1e30 * exp((double)second);
    for (int q = 0; q < TIME; q++) {
        double first = (double)got[q * DEPTH], next = (double)got[q * DEPTH + 1];
        if (first != 0 || !(fabs(next - want) <= 1e-5 * want))
            FAIL("query %d: %g, %g, not 0, %g", q, first, next, want);
    }
}

/* Where the largest of all rows is taken off, a row's own may be as small as any. */
static void rows_below_the_largest(qn_ctx *qn) {
    enum { TIME = 400, DEPTH = 16 };
    static float x[TIME * DEPTH], mask[TIME], got[TIME * DEPTH];
    for (int q = 1; q < TIME; q++) mask[q] = -100;
    int64_t shape[2] = {TIME, DEPTH};
    qn_tensor *zero = qn_from(qn, QN_F32, 2, shape, x);
    qn_tensor *m = qn_from(qn, QN_F32, 2, (int64_t[]){TIME, 1}, mask);
    qn_tensor *scores = qn_add(qn_matmul(zero, qn_transpose(zero, 0, 1)), m);
    qn_tensor *weight = qn_exp(qn_sub(scores, qn_max(scores, QN_ALL, true)));
    qn_tensor *y =
        qn_div(qn_matmul(weight, qn_add(zero, qn_like(zero, 1))), qn_sum(weight, 1, true));
    if (qn_read(y, got, sizeof got)) FAIL("%s", qn_error(qn));
    for (int i = 0; i < TIME * DEPTH; i++)
        if (!(fabsf(got[i] - 1) < 1e-5f)) FAIL("[%d] is %g, not 1", i, (double)got[i]);
}

/* A key whose weight is less than 2^-120 of the largest counts nothing. By blocks of keys, too,
 * where the largest comes last: what was summed up before it counts nothing then. */
static void weights_that_are_least_count_nothing(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu")), *streaming = open_streaming("cpu");
    for (int composed = 0; composed < 2; composed++) {
        mask_on(qn, composed, 0, -80);
        mask_on(qn, composed, 399, -80);
    }
    rows_below_the_largest(qn);
    mask_on(streaming, true, 0, -80);
    mask_on(streaming, true, 399, -100);
    CHECK_INT(onlines, 1); /* the same kernel */
    qn_close(qn);
    qn_close(streaming);
}

/* Tiles have no room for more than blocks of keys and queries, forward and gradients. */
static void memory_does_not_grow_with_rows(void) {
    enum { DEPTH = 16, MOST = 1 << 14 };
    float *zero = calloc((1 << 17) * DEPTH, sizeof *zero);
    for (int i = 0; i < 4; i++) {
        int64_t time = i < 2 ? 1 << 17 : 100003;
        qn_ctx *qn = open_streaming("null");
        qn_tensor *t[INPUTS], *y[INPUTS];
        for (int k = 0; k < INPUTS; k++)
            t[k] = qn_from(qn, QN_F32, 4, (int64_t[]){1, 1, time, DEPTH}, zero);
        y[SEED] = qn_attention(t[Q], t[K], t[V], &QN_ATTENTION_OPTIONS(.causal = i % 2));
        CHECK_INT(qn_grad(y[SEED], t[SEED], 3, t, y), QN_OK);
        CHECK_INT(qn_realize(INPUTS, y), QN_OK);
        qn_stats s;
        qn_get_stats(qn, &s, sizeof s);
        CHECK_INT(onlines, 1);
        if (largest_tile > MOST)
            FAIL("%lld keys: a tile of %lld", (long long)time, (long long)largest_tile);
        if (s.planned_peak_bytes > 4 * (uint64_t)time * DEPTH * sizeof *zero)
            FAIL("%lld keys: %llu bytes", (long long)time,
                 (unsigned long long)s.planned_peak_bytes);
        qn_close(qn);
    }
    free(zero);
}

int main(void) {
    RUN(it_is_its_formula_at_odd_shapes);
    RUN(it_is_its_formula_over_several_blocks);
    RUN(it_is_its_formula_on_devices_with_groups);
    RUN(scores_are_never_in_memory);
    RUN(several_sums_over_rows_of_scores);
    RUN(what_is_hidden_takes_no_part);
    RUN(long_rows_go_by_blocks_of_keys);
    RUN(weights_that_are_least_count_nothing);
    RUN(memory_does_not_grow_with_rows);
    return test_end();
}
