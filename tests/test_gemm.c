/* test_gemm.c - matrix products at shapes where schedules change their form: one row, one column,
 * nothing to sum, primes, just around register tiles, sums deep enough to be cut in blocks,
 * operands that are transposed; against sums in double precision written out here. And that the
 * number of threads decides who computes an element, never how. */
#include "quern.h"
#include "test.h"

#include <math.h>

typedef struct product {
    int batch, m, n, k;
    bool a_turned, b_turned;
} product;

static const product cases[] = {
    {1, 1, 1, 1, false, false},       {1, 1, 1, 0, false, false},
    {1, 5, 7, 0, false, false},       {1, 1, 70, 300, false, false},
    {1, 70, 1, 300, false, false},    {1, 1, 301, 77, false, true},
    {1, 2, 1100, 1100, false, false}, {1, 8, 600, 700, false, false},
    {1, 8, 600, 704, false, true},    {1, 7, 513, 1031, false, true},
    {1, 13, 31, 17, false, false},    {1, 14, 32, 16, false, false},
    {1, 15, 33, 18, false, false},    {1, 9, 48, 64, false, true},
    {1, 10, 49, 65, true, false},     {1, 127, 131, 137, false, false},
    {1, 127, 131, 137, true, false},  {1, 127, 131, 137, false, true},
    {1, 127, 131, 144, true, true},   {1, 64, 400, 512, false, false},
    {1, 300, 512, 40, true, true},    {1, 130, 100, 1030, true, false},
    {1, 700, 96, 1100, false, true},  {1, 450, 530, 1600, false, false},
    {3, 29, 31, 37, false, true},     {5, 64, 64, 32, false, true},
    {2, 65, 20, 900, true, false},    {2, 1, 40, 50, false, false},
    {7, 16, 16, 1, false, false},     {1, 1, 613, 701, false, false},
    {3, 1, 640, 100, false, false},   {1, 256, 2, 32, false, true},
    {1, 256, 2, 32, true, true},      {1, 300, 3, 40, true, true},
};

static float *numbers(int64_t n, uint64_t seed) {
    float *p = malloc(((size_t)n + 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(test_below(&seed, 2001) - 1000) / 1024;
    return p;
}

/* relu(a b + bias), so that there is an epilogue. */
static float *run(const product *p, const float *a, const float *b, const float *bias,
                  int threads) {
    qn_options options = {.threads = threads};
    qn_ctx *qn = qn_open(&options);
    int64_t as[3] = {p->batch, p->a_turned ? p->k : p->m, p->a_turned ? p->m : p->k};
    int64_t bs[3] = {p->batch, p->b_turned ? p->n : p->k, p->b_turned ? p->k : p->n};
    int64_t ns[1] = {p->n}, count = (int64_t)p->batch * p->m * p->n;
    qn_tensor *x = qn_from(qn, QN_F32, 3, as, a), *y = qn_from(qn, QN_F32, 3, bs, b);
    if (p->a_turned) x = qn_transpose(x, 1, 2);
    if (p->b_turned) y = qn_transpose(y, 1, 2);
    qn_tensor *z = qn_relu(qn_add(qn_matmul(x, y), qn_from(qn, QN_F32, 1, ns, bias)));
    float *out = malloc(((size_t)count + 1) * sizeof *out);
    if (qn_read(z, out, (size_t)count * sizeof *out)) FAIL("%s", qn_error(qn));
    qn_close(qn);
    return out;
}

static void check_case(const product *p) {
    int64_t m = p->m, n = p->n, k = p->k;
    float *a = numbers(p->batch * m * k, 1), *b = numbers(p->batch * k * n, 2);
    float *bias = numbers(n, 3), *one = run(p, a, b, bias, 1), *two = run(p, a, b, bias, 2);
    float *three = run(p, a, b, bias, 3);
    int bad = 0;
    for (int64_t e = 0; e < p->batch * m * n && bad < 3; e++) {
        int64_t t = e / (m * n), i = e / n % m, j = e % n;
        double sum = 0, size = 0;
        for (int64_t q = 0; q < k; q++) {
            double x = a[t * m * k + (p->a_turned ? q * m + i : i * k + q)];
            double y = b[t * k * n + (p->b_turned ? j * k + q : q * n + j)];
            sum += x * y;
            size += fabs(x * y);
        }
        sum += (double)bias[j];
        double want = sum > 0 ? sum : 0;
        if (fabs((double)one[e] - want) <= 1e-6 * (size + 1)) continue;
        FAIL("%d x %dx%dx%d%s%s: element %lld is %.9g, not %.9g", p->batch, p->m, p->n, p->k,
             p->a_turned ? " ta" : "", p->b_turned ? " tb" : "", (long long)e, (double)one[e],
             want);
        bad++;
    }
    size_t bytes = (size_t)(p->batch * m * n) * sizeof *one;
    CHECK(!memcmp(one, two, bytes));
    CHECK(!memcmp(one, three, bytes));
    float *all[] = {a, b, bias, one, two, three};
    for (int i = 0; i < 6; i++) free(all[i]);
}

static void products_of_any_shape_agree_whatever_the_threads(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(products_of_any_shape_agree_whatever_the_threads);
    return test_end();
}
