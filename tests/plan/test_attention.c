/* test_attention.c - attention as kernels over blocks of rows: against its formula in plain loops,
 * at odd shapes, with what a mask hides, and that no score matrix is ever in memory. */
#include "base/base.h"
#include "device_here.h"
#include "quern.h"
#include "test.h"

#include <math.h>

typedef struct problem {
    int64_t batch, queries, keys, depth, width; /* q: [batch, queries, depth], v: [.., width] */
    bool causal;
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
        if (fabs(got[i] - want[i]) <= 2e-5 * (1 + fabs(want[i]))) continue;
        FAIL("%s of %lld x %lld x %lld, %lld and %lld deep%s: [%lld] is %g, not %g", what,
             (long long)p->batch, (long long)p->queries, (long long)p->keys, (long long)p->depth,
             (long long)p->width, p->causal ? ", causal" : "", (long long)i, got[i], want[i]);
        return;
    }
}

/* Output and gradients on a device, all of one graph. */
static void check(qn_ctx *qn, const problem *p, uint64_t seed) {
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
        for (int64_t k = 0; k < n; k++) x[i][k] = (float)(4 * test_uniform(&seed) - 2);
        t[i] = qn_from(qn, QN_F32, 3, shape, x[i]);
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
    CHECK_INT(qn_realize(INPUTS, y), QN_OK);
    for (int i = 0; i < INPUTS; i++) {
        int64_t n = size_of(p, i);
        if (qn_read(y[i], got[i], (size_t)n * sizeof **got)) FAIL("%s", qn_error(qn));
        compare(p, names[i], got[i], want[i], n);
        free(x[i]);
        free(got[i]);
        free(want[i]);
    }
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

static void shapes_on(const char *device, int count) {
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 64, 67, 97};
    static const int64_t depths[] = {1, 3, 8, 16, 17, 40};
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    uint64_t seed = 1;
    for (int i = 0; i < count; i++) {
        problem p = {.batch = 1 + test_below(&seed, 13),
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
    static const problem large[] = {{2, 131, 257, 24, 40, false}, {9, 300, 271, 24, 40, false},
                                    {8, 389, 389, 33, 17, true},  {3, 200, 200, 32, 32, true},
                                    {2, 96, 224, 33, 17, true},   {1, 70, 521, 16, 24, false},
                                    {1, 389, 389, 17, 16, true},  {1, 300, 641, 32, 33, true}};
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
        /* those of k and v are one, and that of q with them where there are heads for threads */
        CHECK_INT(both.kernels - forward.kernels, heads == HEADS ? 5 : 6);
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

/* Keys and values that a query does not see may hold anything: neither its result nor its gradient
 * knows. */
static void what_is_hidden_takes_no_part(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    hide_on(qn, 1);
    hide_on(qn, 9);
    qn_close(qn);
}

int main(void) {
    RUN(it_is_its_formula_at_odd_shapes);
    RUN(it_is_its_formula_over_several_blocks);
    RUN(it_is_its_formula_on_devices_with_groups);
    RUN(scores_are_never_in_memory);
    RUN(what_is_hidden_takes_no_part);
    return test_end();
}
