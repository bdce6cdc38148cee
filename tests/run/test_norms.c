/* test_norms.c - norms and variances of values that are equal, alone in a row, or far from 0.
 *
 * A mean that was rounded must not be found again in a variance, and what all values share leaves
 * no trace: a norm of equal values is its bias, bit by bit, on every device, fused or not. */
#include "every_way.h"

#include <math.h>

/* ---- variances and rows of one value --------------------------------------------------------- */

static void check_norm_of_one(qn_ctx *qn) {
    const int64_t shape[2] = {ELEMENTS, 1}, one[1] = {1};
    const float gamma = 1.7f, beta = -0.3f;
    qn_tensor *x = qn_reshape(scaled_scores(qn, 1e3), 2, shape);
    qn_tensor *weight = qn_from(qn, QN_F32, 1, one, &gamma);
    qn_tensor *bias = qn_from(qn, QN_F32, 1, one, &beta);
    expect_zeros("layer_norm of width 1, less its bias",
                 qn_sub(qn_layer_norm(x, weight, bias, 1e-5), bias));
    expect_zeros("layer_norm of width 1", qn_layer_norm(x, NULL, NULL, 1e-5));
    expect_zeros("variance of one", qn_variance(x, 1, 0, false));
}

static void a_norm_of_width_1_is_its_bias(void) {
    in_every_way(check_norm_of_one);
}

/* Values around 1e6, which floats there hold to a sixteenth: their mean, summed in floats, is off
 * by some units, and the square of that must not be found in the variance. */
enum { FAR = 1 << 14 };

static void expect_variances(qn_ctx *qn, const float *data, double wanted) {
    const int64_t all[1] = {FAR};
    qn_tensor *x = qn_from(qn, QN_F32, 1, all, data), *g;
    double lo = 1 - 1e-3, hi = 1 + 1e-3;
    expect_range("variance", qn_variance(x, 0, 0, false), wanted * lo, wanted * hi);
    expect_range("nanvariance", qn_nanvariance(x, 0, 0, false), wanted * lo, wanted * hi);
    double root = sqrt(wanted), most = 8 / (root * FAR); /* of (x - mean) / (n * std) */
    expect_range("std", qn_std(x, 0, 0, false), root * lo, root * hi);
    CHECK_INT(qn_grad(qn_std(x, 0, 0, false), NULL, 1, &x, &g), QN_OK);
    expect_range("gradient of std", qn_max(qn_abs(g), 0, false), most / 100, most);
}

static void check_far_values(qn_ctx *qn) {
    static float far[FAR];
    double sum = 0, squares = 0;
    srand(5);
    for (int i = 0; i < FAR; i++) far[i] = (float)(1e6 + rand() % 9), sum += (double)far[i];
    for (int i = 0; i < FAR; i++) squares += pow((double)far[i] - sum / FAR, 2);
    expect_variances(qn, far, squares / FAR);
    const int64_t all[1] = {FAR}, two[1] = {2};
    for (int i = 0; i < FAR; i++) far[i] = 1e6f;
    expect_range("variance of equals", qn_variance(qn_from(qn, QN_F32, 1, all, far), 0, 0, false),
                 0, 1e-2);
    qn_tensor *huge = qn_from(qn, QN_F32, 1, two, (float[]){-1e30f, 1e30f});
    expect_range("variance beyond floats", qn_variance(huge, 0, 0, false), INFINITY, INFINITY);
}

static void a_variance_forgets_the_rounding_of_its_mean(void) {
    in_every_way(check_far_values);
}

/* ---- norms of rows that lie far from 0 ------------------------------------------------------- */

/* Of as many elements as there are. */
static void expect_within(const char *what, qn_tensor *t, double lo, double hi) {
    expect_range(what, qn_min(t, QN_ALL, false), lo, hi);
    expect_range(what, qn_max(t, QN_ALL, false), lo, hi);
}

static void expect_equal(const char *what, qn_tensor *t) {
    expect_within(what, t, 0, 0);
}

/* Each norm of n equal values, whose sum is rounded, and with it their mean as a quotient: exactly
 * the bias, the mean the value, and the variance 0, by whatever axis. */
static void check_equals(qn_ctx *qn, int64_t n, float value) {
    const float gamma[3] = {1.7f, -0.4f, 3}, beta[3] = {-0.3f, 0.7f, 0};
    const int64_t three[1] = {3}, rows[2] = {3, n}, columns[2] = {n, 3}, images[3] = {1, 3, n};
    qn_tensor *weight = qn_from(qn, QN_F32, 1, three, gamma), *made[3];
    qn_tensor *bias = qn_from(qn, QN_F32, 1, three, beta);
    qn_tensor *x = qn_contiguous(qn_full(qn, QN_F32, 2, rows, (double)value));
    qn_tensor *up = qn_reshape(bias, 2, (int64_t[]){3, 1}), *image = qn_reshape(x, 3, images);
    expect_equal("layer_norm of equals", qn_layer_norm(x, NULL, NULL, 1e-5));
    expect_equal("group_norm of equals, less its bias",
                 qn_sub(qn_squeeze(qn_group_norm(image, weight, bias, 3, 1e-5), 0), up));
    expect_equal("instance_norm of equals, less its bias",
                 qn_sub(qn_squeeze(qn_instance_norm(image, weight, bias, 1e-5), 0), up));
    x = qn_reshape(x, 2, columns);
    CHECK_INT(qn_batch_norm_training(x, weight, bias, 1e-5, made), QN_OK);
    expect_equal("batch_norm of equals, less its bias", qn_sub(made[0], bias));
    expect_equal("batch_norm's mean of equals", qn_sub(made[1], qn_like(made[1], (double)value)));
    expect_equal("batch_norm's variance of equals", made[2]);
    expect_equal("variance of equals", qn_variance(x, 0, 1, false));
    expect_equal("nanvariance of equals", qn_nanvariance(x, 0, 1, false));
}

static void check_norms_of_equals(qn_ctx *qn) {
    static const int64_t width[] = {2, 7, 100, 512, 768};
    static const float value[] = {0.1f, 1000.1f, -30000.7f, 1e6f + 0.3f, 3e-5f, 7.7e20f};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        for (size_t k = 0; k < sizeof value / sizeof *value; k++)
            if (!slow || k == 2) check_equals(qn, width[i], value[k]);
}

static void a_norm_of_equal_values_is_its_bias(void) {
    in_every_way(check_norms_of_equals);
}

/* The mean of the batch's long columns is one chain of additions, which loses 1e-4 of it; that of
 * the variance's terms loses as much. */
enum { LONG = 1 << 16 };

static void check_long_columns(qn_ctx *qn) {
    const int64_t shape[2] = {LONG, 3};
    qn_tensor *x = qn_contiguous(qn_full(qn, QN_F32, 2, shape, 1e6)), *made[3];
    if (slow) return;
    CHECK_INT(qn_batch_norm_training(x, NULL, NULL, 1e-5, made), QN_OK);
    expect_within("batch_norm of a long column", made[0], 0, 0);
    expect_range("its mean", made[1], 1e6, 1e6);
    expect_range("its variance", made[2], 0, 0);
    qn_tensor *bit = qn_mod(qn_iota(qn, QN_F32, 2, shape, 0), qn_scalar(qn, QN_F32, 2));
    CHECK_INT(qn_batch_norm_training(qn_add(x, bit), NULL, NULL, 1e-5, made), QN_OK);
    expect_within("batch_norm of two values", qn_abs(made[0]), 1 - 1e-3, 1 + 1e-3);
    expect_range("their mean", made[1], 1e6 + 0.5, 1e6 + 0.5);
    expect_range("their variance", made[2], 0.25 * (1 - 1e-3), 0.25 * (1 + 1e-3));
}

static void statistics_of_long_columns_are_those_of_short_ones(void) {
    in_every_way(check_long_columns);
}

/* Each element of a norm of FAR_ROWS rows around `mean` with deviations about 1, by long double.
 * The mean is off by half a unit in its last place, 2^-24 of it, and so is what all of its row are
 * less; the deviation by the square of that; everything else is a matter of the last places of
 * numbers around 1, or of a sum of them. */
enum { FAR_ROWS = 6, WIDE = 300 };

static void check_far_rows(qn_ctx *qn, double mean) {
    static float v[FAR_ROWS * WIDE];
    static double want[FAR_ROWS * WIDE], got[FAR_ROWS * WIDE];
    const int64_t shape[2] = {FAR_ROWS, WIDE}, image[3] = {1, FAR_ROWS, WIDE};
    uint64_t state = 3;
    double off = fabs(mean) * 0x1p-24, bound = 2 * off + 2 * off * off + 1e-5;
    for (int r = 0; r < FAR_ROWS; r++) {
        float *row = v + r * WIDE;
        long double sum = 0, squares = 0;
        for (int c = 0; c < WIDE; c++)
            row[c] = (float)(mean + 4 * test_uniform(&state) - 2), sum += (long double)row[c];
        for (int c = 0; c < WIDE; c++) squares += powl((long double)row[c] - sum / WIDE, 2);
        for (int c = 0; c < WIDE; c++)
            want[r * WIDE + c] =
                (double)(((long double)row[c] - sum / WIDE) / sqrtl(squares / WIDE + 1e-5L));
    }
    qn_tensor *x = qn_from(qn, QN_F32, 2, shape, v), *y[4], *made[3];
    y[0] = qn_layer_norm(x, NULL, NULL, 1e-5);
    y[1] = qn_group_norm(qn_reshape(x, 3, image), NULL, NULL, FAR_ROWS, 1e-5);
    y[2] = qn_instance_norm(qn_reshape(x, 3, image), NULL, NULL, 1e-5);
    CHECK_INT(qn_batch_norm_training(qn_transpose(x, 0, 1), NULL, NULL, 1e-5, made), QN_OK);
    y[3] = qn_transpose(made[0], 0, 1);
    for (int k = 0; k < 4; k++) {
        qn_tensor *flat = qn_cast(qn_reshape(y[k], 2, shape), QN_F64);
        CHECK_INT(qn_read(flat, got, sizeof got), QN_OK);
        for (int i = 0; i < FAR_ROWS * WIDE; i++)
            if (!(fabs(got[i] - want[i]) <= bound)) {
                FAIL("%s: norm %d around %g: element %d is %.9g, not %.9g to %g", way, k, mean, i,
                     got[i], want[i], bound);
                break;
            }
    }
}

static void check_norms_far_from_0(qn_ctx *qn) {
    static const double mean[] = {0, 100, -1e4, 1e5, 3e6};
    for (size_t i = 0; i < sizeof mean / sizeof *mean; i++) check_far_rows(qn, mean[i]);
}

static void norms_far_from_0_keep_their_digits(void) {
    in_every_way(check_norms_far_from_0);
}

/* A row's gradient does not depend on where the row lies: in f64, around 1e6, it is that of
 * differences around 0, which have all their digits. */
static void check_gradient_far_from_0(qn_ctx *qn) {
    enum { N = 12 };
    const int64_t shape[2] = {1, N};
    double v[N], w[N], far[N], step = 1e-5, sum[2], g[N];
    uint64_t state = 11;
    for (int i = 0; i < N; i++) {
        v[i] = (double)(test_below(&state, 1 << 20)) * 0x1p-18;
        w[i] = test_uniform(&state) - 0.5, far[i] = v[i] + 1e6;
    }
    qn_tensor *weight = qn_from(qn, QN_F64, 2, shape, w), *d;
    qn_tensor *x = qn_from(qn, QN_F64, 2, shape, far);
    qn_tensor *loss = qn_sum(qn_mul(weight, qn_layer_norm(x, NULL, NULL, 1e-5)), QN_ALL, false);
    CHECK_INT(qn_grad(loss, NULL, 1, &x, &d), QN_OK);
    CHECK_INT(qn_read(d, g, sizeof g), QN_OK);
    for (int i = 0; i < N; i++) {
        for (int side = 0; side < 2; side++) {
            double old = v[i];
            v[i] += side ? -step : step;
            qn_tensor *y = qn_layer_norm(qn_from(qn, QN_F64, 2, shape, v), NULL, NULL, 1e-5);
            v[i] = old;
            CHECK_INT(qn_read(qn_sum(qn_mul(weight, y), QN_ALL, false), &sum[side], 8), QN_OK);
        }
        CHECK_NEAR(g[i], (sum[0] - sum[1]) / (2 * step), 1e-7, 1e-7);
    }
}

static void a_norm_has_the_same_gradient_far_from_0(void) {
    in_every_way(check_gradient_far_from_0);
}

/* Where an axis may be empty there is no first value, and the norm is the same. */
static void check_axes_that_may_be_empty(qn_ctx *qn) {
    static float v[ROWS][COLUMNS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) v[r][c] = 1000.1f + (float)r;
    int64_t n = qn_var(qn, "n", 0, COLUMNS);
    CHECK_INT(qn_bind(qn, n, COLUMNS), QN_OK);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, n}, v);
    expect_equal("layer_norm of equals", qn_layer_norm(x, NULL, NULL, 1e-5));
    qn_tensor *none = qn_zeros(qn, QN_F32, 2, (int64_t[]){ROWS, 0});
    CHECK_INT(qn_realize(1, (qn_tensor *[]){qn_layer_norm(none, NULL, NULL, 1e-5)}), QN_OK);
}

static void a_norm_of_an_axis_that_may_be_empty(void) {
    in_every_way(check_axes_that_may_be_empty);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_norm_of_width_1_is_its_bias);
    RUN(a_variance_forgets_the_rounding_of_its_mean);
    RUN(a_norm_of_equal_values_is_its_bias);
    RUN(statistics_of_long_columns_are_those_of_short_ones);
    RUN(norms_far_from_0_keep_their_digits);
    RUN(a_norm_has_the_same_gradient_far_from_0);
    RUN(a_norm_of_an_axis_that_may_be_empty);
    return test_end();
}
