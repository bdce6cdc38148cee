/* test_product_pairs.c - a product of a product by element, as a perceptron of two layers is:
 * narrow ones are one kernel over blocks of rows, wide ones two, which is counted on the device
 * null; the values of both are those of plain loops in double precision. */
#include "base/base.h"
#include "quern.h"
#include "test.h"

typedef struct pair {
    int64_t rows, in, hidden, out;
    int kernels;
} pair;

typedef enum kind { RELU, BIAS, GATED, WEIGHED, KINDS } kind;

typedef struct inputs {
    qn_tensor *x, *up, *gate, *bias, *down;
} inputs;

static const pair pairs[] = {{4096, 16, 64, 16, 1},    {1031, 7, 61, 5, 1},
                             {4096, 32, 256, 8, 1},    {16384, 16, 256, 16, 1},
                             {1024, 64, 256, 64, 2},   {512, 96, 384, 48, 2},
                             {2048, 256, 1024, 256, 2}};
enum { CHECKED = 6 }; /* pairs whose values are compared */

static double *numbers(int64_t n, uint64_t seed) {
    double *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(2 * test_uniform(&seed) - 1);
    return x;
}

static qn_tensor *tensor(qn_ctx *qn, qn_dtype dtype, int64_t r, int64_t c, const double *x) {
    qn_tensor *t = qn_from(qn, QN_F64, 2, (int64_t[]){r, c}, x);
    t = qn_cast(t, dtype);
    if (qn_realize(1, &t)) FAIL("%s", qn_error(qn));
    return t;
}

static qn_tensor *make(kind k, const inputs *in) {
    qn_tensor *h = qn_matmul(in->x, in->up);
    if (k == BIAS) h = qn_tanh(qn_add(h, in->bias));
    if (k == GATED) h = qn_mul(qn_matmul(in->x, in->gate), h);
    if (k != BIAS) h = qn_relu(h);
    qn_tensor *y = qn_matmul(h, in->down);
    return k == WEIGHED ? qn_div(y, qn_add(qn_sum(h, 1, true), qn_like(y, 1))) : y;
}

static double at(const double *x, int64_t width, int64_t r, int64_t c) {
    return x[r * width + c];
}

/* One row of the result. */
static void plain(kind k, const pair *p, int64_t r, double *const *v, double *y) {
    double weight = 1;
    for (int64_t o = 0; o < p->out; o++) y[o] = 0;
    for (int64_t h = 0; h < p->hidden; h++) {
        double s = 0, g = 0;
        for (int64_t i = 0; i < p->in; i++) {
            s += at(v[0], p->in, r, i) * at(v[1], p->hidden, i, h);
            g += at(v[0], p->in, r, i) * at(v[2], p->hidden, i, h);
        }
        if (k == BIAS) s = tanh(s + v[3][h]);
        if (k == GATED) s *= g;
        if (k != BIAS && s <= 0) s = 0;
        weight += s;
        for (int64_t o = 0; o < p->out; o++) y[o] += s * at(v[4], p->out, h, o);
    }
    for (int64_t o = 0; k == WEIGHED && o < p->out; o++) y[o] /= weight;
}

static inputs open_inputs(qn_ctx *qn, qn_dtype dtype, const pair *p, double **v) {
    const int64_t size[5][2] = {{p->rows, p->in},
                                {p->in, p->hidden},
                                {p->in, p->hidden},
                                {1, p->hidden},
                                {p->hidden, p->out}};
    qn_tensor *t[5];
    for (int i = 0; i < 5; i++) {
        v[i] = numbers(size[i][0] * size[i][1], (uint64_t)i + 1);
        t[i] = tensor(qn, dtype, size[i][0], size[i][1], v[i]);
    }
    return (inputs){t[0], t[1], t[2], t[3], t[4]};
}

static int launched(qn_ctx *qn, qn_tensor *y) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    if (qn_realize(1, &y)) FAIL("%s", qn_error(qn));
    qn_get_stats(qn, &b, sizeof b);
    return (int)(b.kernels - a.kernels);
}

static void check(kind k, qn_dtype dtype, const pair *p) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    double *v[5], *y = malloc((size_t)p->out * sizeof *y);
    inputs in = open_inputs(qn, dtype, p, v);
    qn_tensor *t = qn_cast(make(k, &in), QN_F64);
    double *got = malloc((size_t)(p->rows * p->out) * sizeof *got);
    if (qn_read(t, got, (size_t)(p->rows * p->out) * sizeof *got)) FAIL("%s", qn_error(qn));
    double near = dtype == QN_F64 ? 1e-11 : 1e-4;
    bool bad = false;
    for (int64_t r = 0; r < p->rows && !bad; r += r % 64 == 63 ? 1 + p->rows / 7 : 1) {
        plain(k, p, r, v, y);
        for (int64_t o = 0; o < p->out && !bad; o++) {
            double want = y[o], is = at(got, p->out, r, o);
            bad = !(fabs(is - want) <= near * (fabs(want) + sqrt((double)(p->in * p->hidden))));
            if (bad)
                FAIL("kind %d of %lld x %lld-%lld-%lld: [%lld, %lld] is %g, not %g", k,
                     (long long)p->rows, (long long)p->in, (long long)p->hidden, (long long)p->out,
                     (long long)r, (long long)o, is, want);
        }
    }
    for (int i = 0; i < 5; i++) free(v[i]);
    free(got);
    free(y);
    qn_close(qn);
}

static void narrow_pairs_are_one_kernel_and_wide_ones_two(void) {
    for (size_t i = 0; i < 2 * COUNT_OF(pairs); i++) {
        const pair *p = &pairs[i / 2];
        kind k = i % 2 ? BIAS : RELU;
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
        double *v[5];
        inputs in = open_inputs(qn, QN_F32, p, v);
        int kernels = launched(qn, make(k, &in));
        if (kernels != p->kernels)
            FAIL("kind %d of pair %zu is %d kernels, not %d", k, i / 2, kernels, p->kernels);
        for (int j = 0; j < 5; j++) free(v[j]);
        qn_close(qn);
    }
}

/* Rows that would take too much memory are not stored, however wide the products are. */
static void large_rows_are_never_in_memory(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    double *v[5];
    const pair p = {8192, 64, 4096, 64, 1};
    inputs in = open_inputs(qn, QN_F32, &p, v);
    CHECK_INT(launched(qn, make(RELU, &in)), 1);
    for (int j = 0; j < 5; j++) free(v[j]);
    qn_close(qn);
}

static void values_are_those_of_plain_loops(void) {
    for (size_t i = 0; i < CHECKED; i++)
        for (kind k = RELU; k < KINDS; k++) check(k, QN_F32, &pairs[i]);
    check(RELU, QN_F64, &pairs[1]);
    check(BIAS, QN_F64, &pairs[1]);
}

static void nan_stays_in_its_row(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    const pair *p = &pairs[1];
    double *v[5];
    inputs in = open_inputs(qn, QN_F32, p, v);
    float *x = malloc((size_t)(p->rows * p->in) * sizeof *x);
    for (int64_t i = 0; i < p->rows * p->in; i++) x[i] = i == 500 * p->in ? NAN : (float)v[0][i];
    in.x = qn_from(qn, QN_F32, 2, (int64_t[]){p->rows, p->in}, x);
    float *got = malloc((size_t)(p->rows * p->out) * sizeof *got);
    CHECK_INT(qn_read(make(BIAS, &in), got, (size_t)(p->rows * p->out) * sizeof *got), QN_OK);
    for (int64_t i = 0; i < p->rows * p->out; i++) CHECK(isnan(got[i]) == (i / p->out == 500));
    for (int i = 0; i < 5; i++) free(v[i]);
    free(x);
    free(got);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(narrow_pairs_are_one_kernel_and_wide_ones_two);
    RUN(large_rows_are_never_in_memory);
    RUN(values_are_those_of_plain_loops);
    RUN(nan_stays_in_its_row);
    return test_end();
}
