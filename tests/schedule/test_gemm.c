/* test_gemm.c - matrix products at shapes where schedules change their form: one row, one column,
 * nothing to sum, primes, just around register tiles, sums deep enough to be cut in blocks,
 * operands that are transposed, of dtypes narrower than the sum's; against sums in double precision
 * (integers: 64 bits) written out here. And that the number of threads decides who computes an
 * element, never how. */
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
    {1, 1, 36, 1027, false, true},    {1, 64, 1, 1100, false, false},
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
    {1, 2, 601, 512, false, true},    {1, 5, 7, 256, false, true},
    {1, 12, 130, 1040, false, true},  {3, 4, 132, 272, false, true},
    {1, 13, 130, 1040, false, true},  {1, 37, 350, 1800, false, false},
    {1, 64, 96, 2048, true, false},   {1, 3, 1029, 1040, false, true}, /* columns from memory */
    {1, 5, 1030, 1024, false, true},  {1, 7, 516, 2048, false, true},
    {1, 16, 258, 4096, false, true},
};

static float *numbers(int64_t n, uint64_t seed) {
    float *p = malloc(((size_t)n + 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(test_below(&seed, 2001) - 1000) / 1024;
    return p;
}

/* relu(a b + bias), so that there is an epilogue. */
static float *run(const product *p, const float *a, const float *b, const float *bias,
                  int threads) {
    qn_options options = QN_OPTIONS(.threads = threads);
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

/* ---- narrow operands ------------------------------------------------------------------------- */

typedef struct narrow {
    qn_dtype a, b, sum;
} narrow;

static const narrow dtypes[] = {
    {QN_I8, QN_I8, QN_I32},   {QN_U8, QN_I8, QN_I32},    {QN_I8, QN_U8, QN_I32},
    {QN_U8, QN_U8, QN_I32},   {QN_I16, QN_I8, QN_I32},   {QN_BF16, QN_BF16, QN_F32},
    {QN_F16, QN_F16, QN_F32}, {QN_F16, QN_BF16, QN_F32}, {QN_F32, QN_BF16, QN_F32},
    {QN_I8, QN_F32, QN_F32},
};

static const product narrow_cases[] = {
    {1, 1, 1, 1, false, false},      {1, 1, 70, 300, false, false},
    {1, 1, 301, 77, false, true},    {1, 5, 7, 0, false, false},
    {1, 8, 600, 700, false, true},   {1, 8, 300, 255, false, false},
    {1, 13, 31, 17, false, false},   {1, 14, 32, 16, false, false},
    {1, 15, 33, 18, false, true},    {1, 127, 131, 137, true, false},
    {1, 127, 131, 138, false, true}, {1, 64, 400, 512, false, false},
    {1, 300, 512, 40, true, true},   {1, 130, 100, 1030, false, false},
    {3, 29, 31, 36, false, true},    {1, 450, 40, 2200, false, false},
    {2, 65, 20, 900, true, false},   {1, 40, 1, 300, false, false},
    {1, 4, 130, 512, false, true},   {3, 12, 33, 272, false, true},
    {1, 6, 518, 3072, false, true}, /* columns from memory */
};

/* Whole numbers over the dtype's range where it is an integer, small ones with a fraction else. */
static float *numbers_of(qn_dtype dtype, int64_t n, uint64_t seed) {
    float *p = malloc(((size_t)n + 1) * sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        int64_t x = (int64_t)test_below(&seed, 256);
        bool extreme =
            test_below(&seed, 4) == 0; /* ends of the range, where saturation would show */
        if (dtype == QN_U8)
            p[i] = (float)(extreme ? 255 : x);
        else if (dtype == QN_I8)
            p[i] = (float)(extreme ? -128 : x - 128);
        else if (dtype == QN_I16)
            p[i] = (float)(extreme ? -32768 : 200 * (x - 128));
        else
            p[i] = (float)(x - 128) / 64;
    }
    return p;
}

static void *run_narrow(const product *p, const narrow *d, const float *a, const float *b,
                        int threads) {
    qn_options options = QN_OPTIONS(.threads = threads);
    qn_ctx *qn = qn_open(&options);
    int64_t as[3] = {p->batch, p->a_turned ? p->k : p->m, p->a_turned ? p->m : p->k};
    int64_t bs[3] = {p->batch, p->b_turned ? p->n : p->k, p->b_turned ? p->k : p->n};
    int64_t count = (int64_t)p->batch * p->m * p->n;
    qn_tensor *x = qn_cast(qn_from(qn, QN_F32, 3, as, a), d->a);
    qn_tensor *y = qn_cast(qn_from(qn, QN_F32, 3, bs, b), d->b), *both[2] = {x, y};
    qn_realize(2, both);
    x = qn_cast(x, d->sum);
    y = qn_cast(y, d->sum);
    if (p->a_turned) x = qn_transpose(x, 1, 2);
    if (p->b_turned) y = qn_transpose(y, 1, 2);
    qn_tensor *z = qn_relu(qn_add(qn_matmul(x, y), qn_full(qn, d->sum, 0, NULL, 7)));
    void *out = calloc((size_t)count + 1, 4);
    if (qn_read(z, out, (size_t)count * 4)) FAIL("%s", qn_error(qn));
    qn_close(qn);
    return out;
}

static void check_narrow(const product *p, const narrow *d) {
    int64_t m = p->m, n = p->n, k = p->k;
    float *a = numbers_of(d->a, p->batch * m * k, 1), *b = numbers_of(d->b, p->batch * k * n, 2);
    void *one = run_narrow(p, d, a, b, 1);
    int bad = 0;
    for (int64_t e = 0; e < p->batch * m * n && bad < 3; e++) {
        int64_t t = e / (m * n), i = e / n % m, j = e % n, whole = 0;
        double sum = 0, size = 0;
        for (int64_t q = 0; q < k; q++) {
            double x = (double)a[t * m * k + (p->a_turned ? q * m + i : i * k + q)];
            double y = (double)b[t * k * n + (p->b_turned ? j * k + q : q * n + j)];
            sum += x * y;
            size += fabs(x * y);
            whole += (int64_t)x * (int64_t)y;
        }
        double got = d->sum == QN_I32 ? ((int32_t *)one)[e] : (double)((float *)one)[e];
        int32_t wrapped = (int32_t)(uint32_t)(uint64_t)(whole + 7);
        double want =
            d->sum == QN_I32 ? (double)(wrapped > 0 ? wrapped : 0) : (sum + 7 > 0 ? sum + 7 : 0);
        if (fabs(got - want) <= (d->sum == QN_I32 ? 0 : 1e-6 * (size + 8))) continue;
        FAIL("%s x %s, %d x %dx%dx%d%s%s: element %lld is %.9g, not %.9g", qn_dtype_name(d->a),
             qn_dtype_name(d->b), p->batch, p->m, p->n, p->k, p->a_turned ? " ta" : "",
             p->b_turned ? " tb" : "", (long long)e, got, want);
        bad++;
    }
    if (m * n * k > 1 << 20) {
        void *three = run_narrow(p, d, a, b, 3);
        CHECK(!memcmp(one, three, (size_t)(p->batch * m * n) * 4));
        free(three);
    }
    void *all[] = {a, b, one};
    for (int i = 0; i < 3; i++) free(all[i]);
}

static void products_of_narrow_numbers_are_summed_in_the_wider_type(void) {
    for (size_t j = 0; j < sizeof dtypes / sizeof *dtypes; j++)
        for (size_t i = 0; i < sizeof narrow_cases / sizeof *narrow_cases; i++)
            check_narrow(&narrow_cases[i], &dtypes[j]);
}

/* ---- what follows a sum with many arguments ---- */

static void note_swap(void *user, const char *line) {
    if (strstr(line, "swap ir jr")) ++*(int *)user;
}

/* Two states and a value from x^T y, as an optimizer has them; what the schedule says of the order
 * of tiles goes to *swaps. */
static void step_behind_product(const char *device, float *out, int64_t k, int64_t m, int64_t n,
                                int *swaps) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .log = note_swap, .log_user = swaps));
    int64_t count = m * n, most = (m > n ? m : n) * (k > m ? k : m);
    float *data = malloc((size_t)most * sizeof *data);
    for (int64_t i = 0; i < most; i++) data[i] = (float)(i * 37 % 101 - 50) / 64;
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){k, m}, data);
    qn_tensor *y = qn_from(qn, QN_F32, 2, (int64_t[]){k, n}, data), *state[3];
    for (int i = 0; i < 3; i++) state[i] = qn_from(qn, QN_F32, 2, (int64_t[]){m, n}, data);
    qn_tensor *g = qn_matmul(qn_transpose(x, 0, 1), y);
    qn_tensor *a = qn_add(qn_mul(state[0], qn_like(g, 0.5)), g);
    qn_tensor *b = qn_add(qn_mul(state[1], qn_like(g, 0.25)), qn_mul(g, g));
    qn_tensor *c = qn_sub(state[2], qn_div(a, qn_add(qn_sqrt(qn_abs(b)), qn_like(g, 1))));
    qn_tensor *all[3] = {a, b, c};
    CHECK_INT(qn_realize(3, all), QN_OK);
    for (int i = 0; i < 3; i++)
        CHECK_INT(qn_read(all[i], out + i * count, (size_t)count * sizeof *out), QN_OK);
    qn_close(qn);
    free(data);
}

static void many_arguments_behind_a_sum_are_walked_along_rows(void) {
    static const int64_t shape[][3] = {{64, 397, 211}, {70, 256, 384}, {33, 1, 50}, {64, 800, 17}};
    setenv("QN_DEBUG", "k", 1);
    for (int s = 0; s < 4; s++) {
        int64_t k = shape[s][0], m = shape[s][1], n = shape[s][2];
        float *got = malloc((size_t)(3 * m * n) * 4), *want = malloc((size_t)(3 * m * n) * 4);
        int swaps = 0, bad = 0;
        step_behind_product(NULL, got, k, m, n, &swaps);
        if (s < 2) CHECK_INT(swaps, 0);
        step_behind_product("ref", want, k, m, n, &swaps);
        for (int64_t i = 0; i < 3 * m * n; i++)
            bad += !(fabs(got[i] - want[i]) <= 1e-4 * (1 + fabs(want[i])));
        CHECK_INT(bad, 0);
        free(got);
        free(want);
    }
    unsetenv("QN_DEBUG");
}

/* ---- operands with rows that are not there --------------------------------------------------- */

/* A [b, t, k] without its first `cut` places of t, padded to [b, t, k] again, times [k, n], of rows
 * that are kept an addend, too; the zeros meet infinities. */
static float *padded_product(const char *device, const int64_t *d, int64_t cut, int threads) {
    const int64_t b = d[0], t = d[1], k = d[2], n = d[3];
    qn_options options = QN_OPTIONS(.device = device, .threads = threads);
    qn_ctx *qn = qn_open(&options);
    float *x = numbers(b * (t - cut) * k, 1), *y = numbers(k * n, 2);
    float *out = malloc((size_t)(b * t * n) * sizeof *out);
    if (n > 1) y[n - 1] = INFINITY;
    int64_t pad[6] = {0, 0, cut, 0, 0, 0};
    qn_tensor *rows = qn_from(qn, QN_F32, 3, (int64_t[]){b, t - cut, k}, x);
    qn_tensor *columns = qn_from(qn, QN_F32, 2, (int64_t[]){k, n}, y);
    qn_tensor *z = qn_relu(qn_matmul(qn_pad(rows, pad, QN_PAD_CONSTANT, 0), columns));
    if (qn_read(z, out, (size_t)(b * t * n) * sizeof *out)) FAIL("%s", qn_error(qn));
    qn_close(qn);
    free(x);
    free(y);
    return out;
}

static void rows_that_are_padded_are_zeros(void) {
    static const int64_t shape[][4] = {{4, 65, 700, 300}, {3, 17, 64, 64}, {2, 9, 1000, 67},
                                       {5, 2, 130, 96},   {1, 40, 80, 70}, {7, 1, 90, 128}};
    for (int s = 0; s < 6; s++)
        for (int64_t cut = 0; cut <= shape[s][1]; cut += shape[s][1] > 9 ? shape[s][1] - 8 : 1) {
            const int64_t *d = shape[s], n = d[0] * d[1] * d[3];
            float *want = padded_product("ref", d, cut, 1);
            int bad = 0;
            for (int threads = 1; threads < 4; threads += 2) {
                float *got = padded_product("cpu", d, cut, threads);
                for (int64_t i = 0; i < n; i++) {
                    bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
                    bad += !same && !(fabsf(got[i] - want[i]) <= 1e-4F * (1 + fabsf(want[i])));
                }
                free(got);
            }
            if (bad) FAIL("shape %d, cut %lld: %d wrong", s, (long long)cut, bad);
            free(want);
        }
}

/* The sum over t and b of A [t, b, m] times B [b, t - cut, n] padded to [b, t, n]. */
static float *two_orders(const char *device, const int64_t *d, int64_t cut, int threads) {
    const int64_t t = d[0], b = d[1], m = d[2], n = d[3];
    qn_options options = QN_OPTIONS(.device = device, .threads = threads);
    qn_ctx *qn = qn_open(&options);
    float *x = numbers(t * b * m, 1), *y = numbers(b * (t - cut) * n, 2);
    float *out = malloc((size_t)(m * n) * sizeof *out);
    const int64_t pad[6] = {0, 0, 0, cut, 0, 0};
    qn_tensor *in[2] = {
        qn_from(qn, QN_F32, 3, (int64_t[]){t, b, m}, x),
        qn_pad(qn_from(qn, QN_F32, 3, (int64_t[]){b, t - cut, n}, y), pad, QN_PAD_CONSTANT, 0)};
    if (qn_read(qn_einsum(2, in, "tbi,btj->ij"), out, (size_t)(m * n) * sizeof *out))
        FAIL("%s", qn_error(qn));
    qn_close(qn);
    free(x);
    free(y);
    return out;
}

static void terms_in_two_orders_are_summed_once(void) {
    static const int64_t shape[][4] = {{64, 16, 200, 96}, {65, 4, 70, 133}, {9, 31, 33, 64},
                                       {1, 100, 40, 40},  {50, 1, 64, 64},  {7, 3, 5, 3}};
    for (int s = 0; s < 6; s++)
        for (int64_t cut = 0; cut < 3 && cut < shape[s][0]; cut++) {
            const int64_t *d = shape[s], n = d[2] * d[3];
            float *want = two_orders("ref", d, cut, 1);
            for (int threads = 1; threads < 4; threads += 2) {
                float *got = two_orders("cpu", d, cut, threads);
                int bad = 0;
                for (int64_t i = 0; i < n; i++) bad += !(fabsf(got[i] - want[i]) <= 1e-4F);
                if (bad) FAIL("shape %d, cut %lld: %d wrong", s, (long long)cut, bad);
                free(got);
            }
            free(want);
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(terms_in_two_orders_are_summed_once);
    RUN(rows_that_are_padded_are_zeros);
    RUN(products_of_any_shape_agree_whatever_the_threads);
    RUN(products_of_narrow_numbers_are_summed_in_the_wider_type);
    RUN(many_arguments_behind_a_sum_are_walked_along_rows);
    return test_end();
}
