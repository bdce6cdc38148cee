/* test_random.c - the distributions of random numbers, with fixed keys: Kolmogorov and Smirnov's
 * distance of samples to the distribution function, chi-square of classes, and that keys made of a
 * key are as good as others. Bounds are exceeded by chance once in 10^5 keys. Each function of
 * funcs.h that takes a key has its test; test_same_numbers.c holds the bits. */
#include "graph/graph.h"
#include "keyed.h"
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

/* A narrow dtype's numbers stand for all that are rounded to them. */
static void drawn(const char *name, qn_tensor *t, double scale, double (*distribution)(double)) {
    double most = 2.5 + sqrt(N) * dtype_epsilon(qn_dtype_of(t));
    t = qn_cast(t, QN_F64);
    CHECK_INT(qn_read(t, sample, sizeof sample), QN_OK);
    for (int i = 0; i < N; i++) {
        if (!isfinite(sample[i])) FAIL("%s: element %d is %g", name, i, sample[i]);
        sample[i] /= scale;
    }
    double d = distance(distribution);
    if (d > most) FAIL("%s is off its distribution by %g", name, d);
}

static void samples_have_their_distribution(void) {
    const int64_t n = N, weight[2] = {128, 256};
    for (int k = 0; k < 4; k++) {
        qn_dtype d = (const qn_dtype[]){QN_F32, QN_F64, QN_F16, QN_BF16}[k];
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

static void truths(const char *name, qn_tensor *t, double p) {
    check_counts(name, qn_cast(t, QN_I64), (const double[5]){1 - p, p});
}

static void bits_and_truths_are_fair(void) {
    const int64_t n = N;
    const double alike[5] = {0.2, 0.2, 0.2, 0.2, 0.2};
    qn_tensor *bits = qn_random_bits(qn_key(qn, 14), 1, &n);
    for (int i = 0; i < 32; i++) {
        qn_tensor *bit = qn_and(qn_shr(bits, qn_like(bits, i)), qn_like(bits, 1));
        truths("random_bits", bit, 0.5);
    }
    drawn("random_bits", qn_cast(bits, QN_F64), 0x1p32, uniform);
    check_counts("randint", qn_randint(qn_key(qn, 15), QN_I64, 1, &n, 0, 5), alike);
    qn_tensor *low = qn_randint(qn_key(qn, 16), QN_I8, 1, &n, -128, -123);
    check_counts("randint", qn_add(qn_cast(low, QN_I64), qn_scalar(qn, QN_I64, 128)), alike);
    const double p[] = {0, 0.001, 0.3, 0.5, 1};
    for (int i = 0; i < 5; i++) {
        truths("bernoulli", qn_bernoulli(qn_key(qn, 17), 1, &n, p[i]), p[i]);
        qn_tensor *x = qn_dropout(qn_ones(qn, QN_F32, 1, &n), qn_key(qn, 18), p[i]);
        if (p[i] < 1) truths("dropout", qn_eq(x, qn_like(x, 0)), p[i]);
    }
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

/* ---- by rejection ---------------------------------------------------------------------------- */

/* The distribution function of gamma variates of whole and half shapes, by its recurrence. */
static double gamma_of(double x, double shape) {
    double at = fmod(shape, 1) != 0 ? 0.5 : 1;
    double p = at == 1 ? 1 - exp(-x) : erf(sqrt(x));
    for (; at < shape; at++) p -= exp(at * log(x) - x - lgamma(at + 1));
    return x <= 0 ? 0 : p;
}
static double gamma_half(double x) {
    return gamma_of(x, 0.5);
}
static double gamma_three(double x) {
    return gamma_of(x, 3);
}
static double gamma_twenty(double x) {
    return gamma_of(x, 20.5);
}
/* Of a = 1/2 and b = 1/2: the arc sine's. */
static double arcsine(double x) {
    return x <= 0 ? 0 : x >= 1 ? 1 : 2 / M_PI * asin(sqrt(x));
}
/* Of 1 and 2. */
static double one_two(double x) {
    return x < 0 ? 0 : x > 1 ? 1 : 1 - (1 - x) * (1 - x);
}
static double between_(double x, double lo, double hi) {
    double a = normal(lo), b = normal(hi);
    return x <= lo ? 0 : x >= hi ? 1 : (normal(x) - a) / (b - a);
}
static double about_zero(double x) {
    return between_(x, -2, 2);
}
static double narrow(double x) {
    return between_(x, 0.25, 0.75);
}
static double tail(double x) {
    return x < 4 ? 0 : 1 - erfc(x / sqrt(2)) / erfc(4 / sqrt(2));
}
static double low_tail(double x) {
    return 1 - tail(-x);
}

static double half(double x) {
    return erf(x / sqrt(2));
}

static double low_half(double x) {
    return 1 - half(-x);
}

static qn_tensor *many(qn_dtype d, double v) {
    const int64_t n = N;
    return qn_full(qn, d, 1, &n, v);
}

static void rejection_gives_the_distribution(void) {
    const int64_t n = N;
    for (int k = 0; k < 2; k++) {
        qn_dtype d = k ? QN_F64 : QN_F32;
        drawn("gamma 1/2", qn_gamma(qn_key(qn, 1), many(d, 0.5)), 1, gamma_half);
        drawn("gamma 1", qn_gamma(qn_key(qn, 2), many(d, 1)), 1, exponential);
        drawn("gamma 3", qn_gamma(qn_key(qn, 3), many(d, 3)), 1, gamma_three);
        drawn("gamma 20.5", qn_gamma(qn_key(qn, 4), many(d, 20.5)), 1, gamma_twenty);
        drawn("beta", qn_beta(qn_key(qn, 5), many(d, 0.5), qn_scalar(qn, d, 0.5)), 1, arcsine);
        drawn("beta 1 2", qn_beta(qn_key(qn, 6), many(d, 1), many(d, 2)), 1, one_two);
        drawn("dirichlet",
              qn_select(qn_dirichlet(qn_key(qn, 7), qn_ones(qn, d, 2, (const int64_t[]){N, 3})), 1,
                        2),
              1, one_two);
        drawn("truncated", qn_truncated_normal(qn_key(qn, 8), d, 1, &n, -2, 2), 1, about_zero);
        drawn("narrow", qn_truncated_normal(qn_key(qn, 9), d, 1, &n, 0.25, 0.75), 1, narrow);
        drawn("tail", qn_truncated_normal(qn_key(qn, 10), d, 1, &n, 4, (double)INFINITY), 1, tail);
        drawn("upper half", qn_truncated_normal(qn_key(qn, 12), d, 1, &n, 1e-9, 1e8), 1, half);
        drawn("lower half", qn_truncated_normal(qn_key(qn, 13), d, 1, &n, -1e300, -1e-300), 1,
              low_half);
        drawn("low tail", qn_truncated_normal(qn_key(qn, 11), d, 1, &n, -(double)INFINITY, -4), 1,
              low_tail);
    }
    double none[2];
    const int64_t two = 2;
    for (double lo = 1e7; lo < 1e308; lo *= 1e50) { /* no bounds are too far out */
        qn_tensor *far = qn_truncated_normal(qn_key(qn, 1), QN_F64, 1, &two, lo, lo * 1.5);
        CHECK_INT(qn_read(far, none, sizeof none), QN_OK);
        CHECK(none[0] >= lo && none[1] >= lo && none[0] < lo * 1.001);
    }
    qn_tensor *bad = qn_from(qn, QN_F64, 1, &two, (const double[]){-1, (double)NAN});
    CHECK_INT(qn_read(qn_gamma(qn_key(qn, 1), bad), none, sizeof none), QN_OK);
    CHECK(isnan(none[0]) && isnan(none[1]));
}

/* Means and variances are the rate, both within 5 deviations; the classes' chi-square. */
static void events_are_poissons(void) {
    static int64_t count[N];
    const double rates[] = {0.5, 4, 9.9, 10, 60, 2000};
    for (int k = 0; k < 6; k++) {
        double r = rates[k], mean = 0, square = 0, chi = 0, left = N, p = exp(-r);
        CHECK_INT(qn_read(qn_poisson(qn_key(qn, 20), many(QN_F64, r)), count, sizeof count), 0);
        for (int i = 0; i < N; i++) mean += (double)count[i] / N;
        for (int i = 0; i < N; i++)
            square += ((double)count[i] - mean) * ((double)count[i] - mean) / N;
        CHECK_NEAR(mean, r, 0, 5 * sqrt(r / N));
        CHECK_NEAR(square, r, 0, 5 * sqrt((r + 2 * r * r) / N));
        if (r > 20) continue;
        int classes = 0;
        for (int c = 0; c < 40; p *= r / ++c) {
            if (p * N < 10) continue;
            double got = 0;
            for (int i = 0; i < N; i++) got += count[i] == c;
            chi += (got - N * p) * (got - N * p) / (N * p);
            left -= got, classes++;
        }
        CHECK(left >= 0 && left < 0.01 * N);
        if (chi > classes + 5.5 * sqrt(2.0 * classes) + 10)
            FAIL("poisson %g: chi-square %g of %d classes", r, chi, classes);
    }
    CHECK_INT(qn_read(qn_poisson(qn_key(qn, 1), many(QN_F64, -1)), count, sizeof count), 0);
    CHECK_INT(count[5], 0);
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void orders_are_alike(void) {
    enum { TIMES = 6000 };
    int count[24] = {0}, first[5] = {0};
    qn_tensor *rows = qn_iota(qn, QN_I64, 2, (const int64_t[]){4, 2}, 0);
    qn_tensor *w = qn_from(qn, QN_F32, 1, (const int64_t[]){5}, (const float[]){1, 2, 3, 4, 0});
    for (uint64_t k = 0; k < TIMES; k++) {
        int64_t v[4], x[8], c[4], seen = 0;
        qn_scope s = qn_scope_begin(qn);
        /* the key as data, so that all run one plan */
        qn_tensor *key = qn_from(qn, QN_U32, 1, (const int64_t[]){2}, (uint32_t[]){(uint32_t)k, 1});
        qn_tensor *out[3] = {qn_permutation(key, 4), qn_shuffle(key, rows, 0),
                             qn_multinomial_distinct(key, w, 4)};
        CHECK_INT(qn_realize(3, out), 0);
        CHECK_INT(qn_read(out[0], v, sizeof v) + qn_read(out[1], x, sizeof x) +
                      qn_read(out[2], c, sizeof c),
                  0);
        for (int i = 0; i < 4; i++) {
            seen |= 1 << v[i];
            CHECK(x[2 * i] == v[i] && x[2 * i + 1] == v[i]);
            for (int j = 0; j < i; j++) CHECK(c[i] != c[j]);
            CHECK(c[i] < 4);
        }
        CHECK_INT(seen, 15);
        count[v[0] * 6 + v[1]]++;
        first[c[0]]++;
        qn_scope_end(qn, s);
    }
    double chi = 0, drawn_ = 0;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            double expected = TIMES / 12.0, off = count[i * 6 + j] - expected;
            if (i != j) chi += off * off / expected;
        }
    for (int i = 0; i < 4; i++) {
        double expected = TIMES * (i + 1) / 10.0, off = first[i] - expected;
        drawn_ += off * off / expected;
    }
    CHECK(chi < 46 && drawn_ < 28);
}

/* Where all rotations are alike, a column's ends are spread evenly over the sphere, and so is each
 * coordinate over [-1, 1] (Archimedes). */
static void rotations_are_alike(void) {
    enum { TIMES = N / 16 };
    double count[2][4] = {{0}};
    for (uint64_t k = 0; k < TIMES; k++) {
        double v[9];
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *key = qn_from(qn, QN_U32, 1, (const int64_t[]){2}, (uint32_t[]){(uint32_t)k, 2});
        qn_tensor *q = qn_orthogonal(key, QN_F64, 2, (const int64_t[]){3, 3}, 1);
        CHECK_INT(qn_read(q, v, sizeof v), QN_OK);
        for (int i = 0; i < 2; i++) count[i][(int)fmin((v[5 * i] + 1) * 2, 3)]++;
        qn_scope_end(qn, s);
    }
    for (int i = 0; i < 2; i++) {
        double chi = 0, expected = TIMES / 4.0;
        for (int c = 0; c < 4; c++)
            chi += (count[i][c] - expected) * (count[i][c] - expected) / expected;
        if (chi > 26) FAIL("orthogonal: chi-square %g", chi);
    }
}

static void weights_are_orthogonal(void) {
    for (int wide = 0; wide < 2; wide++) {
        const int64_t shape[3] = {wide ? 6 : 20, 5, 2};
        double v[200];
        int64_t rows = shape[0], columns = 10, n = rows < columns ? rows : columns;
        CHECK_INT(qn_read(qn_orthogonal(qn_key(qn, 3), QN_F64, 3, shape, 3), v, sizeof v), 0);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double dot = 0;
                for (int64_t k = 0; k < (wide ? columns : rows); k++)
                    dot += wide ? v[i * columns + k] * v[j * columns + k]
                                : v[k * columns + i] * v[k * columns + j];
                CHECK_NEAR(dot, i == j ? 9 : 0, 1e-13, 1e-12);
            }
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*test)(void);
} held[] = {
    {"uniform", samples_have_their_distribution},
    {"randn", samples_have_their_distribution},
    {"exponential", samples_have_their_distribution},
    {"gumbel", samples_have_their_distribution},
    {"kaiming_normal", samples_have_their_distribution},
    {"kaiming_uniform", samples_have_their_distribution},
    {"xavier_normal", samples_have_their_distribution},
    {"xavier_uniform", samples_have_their_distribution},
    {"categorical", classes_come_as_often_as_they_should},
    {"multinomial", classes_come_as_often_as_they_should},
    {"random_bits", bits_and_truths_are_fair},
    {"randint", bits_and_truths_are_fair},
    {"bernoulli", bits_and_truths_are_fair},
    {"dropout", bits_and_truths_are_fair},
    {"key_fold", keys_of_a_key_are_independent},
    {"key_split", keys_of_a_key_are_independent},
    {"key_fold_in", keys_of_a_key_are_independent},
    {"gamma", rejection_gives_the_distribution},
    {"beta", rejection_gives_the_distribution},
    {"dirichlet", rejection_gives_the_distribution},
    {"truncated_normal", rejection_gives_the_distribution},
    {"poisson", events_are_poissons},
    {"permutation", orders_are_alike},
    {"shuffle", orders_are_alike},
    {"multinomial_distinct", orders_are_alike},
    {"orthogonal", rotations_are_alike},
};

static bool is_held(const char *name) {
    for (size_t k = 0; k < COUNT_OF(held); k++)
        if (!strcmp(held[k].name, name)) return true;
    return false;
}

static void every_distribution_has_a_test(void) {
    const char *name = keyed_unlisted(is_held);
    if (name) FAIL("%s has no test of its distribution", name);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(&QN_OPTIONS(.threads = 1));
    if (!qn) return 1;
    RUN(samples_have_their_distribution);
    RUN(classes_come_as_often_as_they_should);
    RUN(bits_and_truths_are_fair);
    RUN(keys_of_a_key_are_independent);
    RUN(rejection_gives_the_distribution);
    RUN(events_are_poissons);
    RUN(orders_are_alike);
    RUN(rotations_are_alike);
    RUN(weights_are_orthogonal);
    RUN(every_distribution_has_a_test);
    qn_close(qn);
    return test_end();
}
