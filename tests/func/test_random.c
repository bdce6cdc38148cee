/* test_random.c - the distributions of random numbers, with fixed keys: Kolmogorov and Smirnov's
 * distance of samples to the distribution function, chi-square of classes, and that keys made of a
 * key are as good as others. Bounds are exceeded by chance once in 10^5 keys. */
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

enum { N = 1 << 15 };

static qn_ctx *qn;
static double sample[N];

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The distance of the sample's distribution function, times the root of N; 2.5 is the bound. */
static double distance(double (*distribution)(double)) {
    double most = 0;
    qsort(sample, N, sizeof *sample, ascending);
    for (int i = 0; i < N; i++) {
        double p = distribution(sample[i]);
        most = fmax(most, fmax(p - (double)i / N, (double)(i + 1) / N - p));
    }
    return most * sqrt(N);
}

static double exponential(double x) {
    return x < 0 ? 0 : 1 - exp(-x);
}

static double gumbel(double x) {
    return exp(-exp(-x));
}

static double normal(double x) {
    return erfc(-x / sqrt(2)) / 2;
}

static double uniform(double x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static void drawn(const char *name, qn_tensor *t, double scale, double (*distribution)(double)) {
    t = qn_cast(t, QN_F64);
    CHECK_INT(qn_read(t, sample, sizeof sample), QN_OK);
    for (int i = 0; i < N; i++) {
        if (!isfinite(sample[i])) FAIL("%s: element %d is %g", name, i, sample[i]);
        sample[i] /= scale;
    }
    double d = distance(distribution);
    if (d > 2.5) FAIL("%s is off its distribution by %g", name, d);
}

static void samples_have_their_distribution(void) {
    const int64_t n = N, weight[2] = {128, 256};
    for (int k = 0; k < 2; k++) {
        qn_dtype d = k ? QN_F64 : QN_F32;
        drawn("uniform", qn_uniform(qn_key(qn, 1), d, 1, &n), 1, uniform);
        drawn("randn", qn_randn(qn_key(qn, 2), d, 1, &n), 1, normal);
        drawn("exponential", qn_exponential(qn_key(qn, 3), d, 1, &n), 1, exponential);
        drawn("gumbel", qn_gumbel(qn_key(qn, 4), d, 1, &n), 1, gumbel);
        drawn("kaiming_normal", qn_kaiming_normal(qn_key(qn, 5), d, 2, weight, 1.5), 1.5 / 16,
              normal);
        drawn("xavier_normal", qn_xavier_normal(qn_key(qn, 6), d, 2, weight, 1), sqrt(2.0 / 384),
              normal);
        double most = 2 * sqrt(3.0 / 256);
        qn_tensor *x = qn_kaiming_uniform(qn_key(qn, 7), d, 2, weight, 2);
        drawn("kaiming_uniform", qn_add(x, qn_like(x, most)), 2 * most, uniform);
        most = sqrt(6.0 / 384);
        x = qn_xavier_uniform(qn_key(qn, 8), d, 2, weight, 1);
        drawn("xavier_uniform", qn_add(x, qn_like(x, most)), 2 * most, uniform);
    }
}

/* Sum of (count - expected)^2 / expected over 5 classes: above 28.5 once in 10^5. */
static void check_counts(const char *name, qn_tensor *t, const double *p) {
    static int64_t classes[N];
    double count[5] = {0}, chi = 0;
    CHECK_INT(qn_dtype_of(t), QN_I64);
    CHECK_INT(qn_read(t, classes, sizeof classes), QN_OK);
    for (int i = 0; i < N; i++) {
        CHECK(classes[i] >= 0 && classes[i] < 5);
        count[classes[i]]++;
    }
    for (int i = 0; i < 5; i++)
        if (p[i] > 0)
            chi += (count[i] - N * p[i]) * (count[i] - N * p[i]) / (N * p[i]);
        else
            CHECK(count[i] == 0);
    if (chi > 28.5) FAIL("%s: chi-square is %g", name, chi);
}

static void classes_come_as_often_as_they_should(void) {
    const double p[5] = {0.5, 0.25, 0, 0.2, 0.05};
    float logit[5], weight[5];
    for (int i = 0; i < 5; i++) {
        logit[i] = logf((float)p[i]) + 3;
        weight[i] = (float)p[i] * 7;
    }
    const int64_t five = 5, many[2] = {N, 5};
    qn_tensor *logits = qn_from(qn, QN_F32, 1, &five, logit);
    check_counts("categorical", qn_categorical(qn_key(qn, 1), qn_expand(logits, 2, many)), p);
    check_counts("multinomial",
                 qn_multinomial(qn_key(qn, 2), qn_from(qn, QN_F32, 1, &five, weight), N), p);
}

static double correlation(qn_tensor *a, qn_tensor *b) {
    qn_tensor *s = qn_sum(qn_mul(a, b), QN_ALL, false);
    double v = 0;
    CHECK_INT(qn_read(s, &v, sizeof v), QN_OK);
    return v / sqrt(N);
}

static void keys_of_a_key_are_independent(void) {
    const int64_t n = N;
    qn_tensor *out[3], *x[3], *key = qn_key(qn, 9);
    CHECK_INT(qn_key_split(key, 3, out), QN_OK);
    for (int i = 0; i < 3; i++) x[i] = qn_randn(out[i], QN_F64, 1, &n);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < i; k++) CHECK(fabs(correlation(x[i], x[k])) < 4.5);
    CHECK(fabs(correlation(x[0], qn_randn(qn_key_fold(key, 0), QN_F64, 1, &n))) < 4.5);
    uint32_t a[2], b[2];
    qn_tensor *folded = qn_key_fold_in(key, qn_scalar_int(qn, QN_I64, ((int64_t)3 << 40) + 5));
    CHECK_INT(qn_read(folded, a, sizeof a), QN_OK);
    CHECK_INT(qn_read(qn_key_fold(key, ((uint64_t)3 << 40) + 5), b, sizeof b), QN_OK);
    CHECK(a[0] == b[0] && a[1] == b[1]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(&QN_OPTIONS(.threads = 1));
    if (!qn) return 1;
    RUN(samples_have_their_distribution);
    RUN(classes_come_as_often_as_they_should);
    RUN(keys_of_a_key_are_independent);
    qn_close(qn);
    return test_end();
}
