/* test_scan.c - running sums, products, extremes and their places, logarithms of sums, recurrences:
 * against plain loops in double over odd, empty and long shapes, along each axis, on each device;
 * special values; gradients at zeros and ties; and how many kernels they become. */
#include "device_here.h"
#include "quern.h"
#include "test.h"

#include <math.h>

enum { MOST = 1 << 18 };
#define COUNT_OF(a) ((int)(sizeof(a) / sizeof *(a)))
static const char *const devices[] = {"cpu", "ref", "opencl"};
static const char *device;
static double in[2][MOST], want[MOST];
static float data[MOST];

static qn_ctx *begin(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    if (!qn || qn_error_code(qn)) FAIL("no device %s", device);
    return qn;
}

static void end(qn_ctx *qn) {
    if (qn_error_code(qn)) FAIL("%s: %s", device, qn_error(qn));
    qn_close(qn);
}

/* ---- the plain loops ------------------------------------------------------------------------- */

typedef enum scan_kind { SUM, PROD, MAX, MIN, ARGMAX, ARGMIN, LOGSUM, LINEAR, KINDS } scan_kind;
static const char *const names[KINDS] = {"cumsum",    "cumprod",   "cummax",       "cummin",
                                         "cumargmax", "cumargmin", "logcumsumexp", "linear_scan"};

static qn_tensor *scan(scan_kind kind, qn_tensor *a, qn_tensor *b, int axis) {
    switch (kind) {
    case SUM:
        return qn_cumsum(a, axis);
    case PROD:
        return qn_cumprod(a, axis);
    case MAX:
        return qn_cummax(a, axis);
    case MIN:
        return qn_cummin(a, axis);
    case ARGMAX:
        return qn_cumargmax(a, axis);
    case ARGMIN:
        return qn_cumargmin(a, axis);
    case LOGSUM:
        return qn_logcumsumexp(a, axis);
    default:
        return qn_linear_scan(a, b, axis);
    }
}

/* log of the sum of e^x over the first n. */
static double log_of_sum(const double *x, int64_t n, int64_t step) {
    double most = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i * step])) return NAN;
        most = fmax(most, x[i * step]);
    }
    if (isinf(most)) return most;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i * step] - most);
    return most + log(sum);
}

static bool extends(double v, double best, bool largest) {
    return isnan(v) || (!isnan(best) && (largest ? v >= best : v <= best));
}

/* One row of n elements, `step` apart. */
static void scan_row(scan_kind kind, const double *a, const double *b, double *out, int64_t n,
                     int64_t step) {
    double state = kind == PROD, best = a[0];
    int64_t where = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = a[i * step];
        if (extends(v, best, kind == MAX || kind == ARGMAX)) best = v, where = i;
        if (kind == SUM) state += v;
        if (kind == PROD) state *= v;
        if (kind == MAX || kind == MIN) state = best;
        if (kind == ARGMAX || kind == ARGMIN) state = (double)where;
        if (kind == LOGSUM) state = log_of_sum(a, i + 1, step);
        if (kind == LINEAR) state = v * state + b[i * step];
        out[i * step] = state;
    }
}

static int64_t scan_all(scan_kind kind, int rank, const int64_t *dim, int axis) {
    int64_t outer = 1, inner = 1, n = dim[axis];
    for (int i = 0; i < rank; i++) *(i < axis ? &outer : &inner) *= i == axis ? 1 : dim[i];
    for (int64_t o = 0; o < outer && n; o++)
        for (int64_t i = 0; i < inner; i++) {
            int64_t at = o * n * inner + i;
            scan_row(kind, in[0] + at, in[1] + at, want + at, n, inner);
        }
    return outer * inner * n;
}

static qn_tensor *from(qn_ctx *qn, int which, int rank, const int64_t *dim) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dim[i];
    for (int64_t i = 0; i < n; i++) data[i] = (float)in[which][i];
    return qn_from(qn, QN_F32, rank, dim, data);
}

static void check(qn_ctx *qn, scan_kind kind, int rank, const int64_t *dim, int axis) {
    qn_tensor *y = scan(kind, from(qn, 0, rank, dim), from(qn, 1, rank, dim), axis);
    int64_t n = scan_all(kind, rank, dim, axis);
    qn_read(qn_cast(y, QN_F32), data, sizeof(float) * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        if (isnan(want[i]) ? isnan(data[i]) : data[i] == want[i]) continue;
        double slack = 1e-5 * (fabs(want[i]) + 1);
        if (!(fabs(data[i] - want[i]) <= slack))
            FAIL("%s: %s of %d axes along %d: [%lld] is %.9g, not %.9g", device, names[kind], rank,
                 axis, (long long)i, (double)data[i], want[i]);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

static void fill(int64_t n, double lo, double hi, uint64_t seed) {
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < n; i++)
            in[k][i] = (double)(float)(lo + (hi - lo) * test_uniform(&seed));
}

static void scans_are_those_of_plain_loops_in_every_shape(void) {
    static const int64_t shape[][3] = {{3, 5, 7}, {2, 0, 3},  {1, 97, 1},
                                       {5, 1, 4}, {4, 33, 2}, {8, 8, 40}};
    int shapes = strcmp(device, "opencl") ? COUNT_OF(shape) : 3; /* whose compiler is slow */
    for (int s = 0; s < shapes; s++)
        for (int axis = 0; axis < 3; axis++)
            for (int kind = 0; kind < KINDS; kind++) {
                qn_ctx *qn = begin();
                bool factors = kind == PROD || kind == LINEAR;
                fill(MOST / 64, factors ? 0.7 : -2, factors ? 1.2 : 2, (uint64_t)(s * 100 + kind));
                if (kind == SUM) /* exact, in any grouping */
                    for (int i = 0; i < MOST / 64; i++) in[0][i] = rint(8 * in[0][i]) / 8;
                check(qn, (scan_kind)kind, 3, shape[s], axis);
                end(qn);
            }
}

static void long_rows_and_columns_are_those_of_plain_loops(void) {
    static const int64_t shape[][2] = {
        {1, 200003}, {200003, 1}, {64, 2048}, {37, 1031}, {509, 257}};
    static const scan_kind kinds[] = {SUM, MAX, ARGMIN, LINEAR};
    int shapes = strcmp(device, "opencl") ? COUNT_OF(shape) : 1;
    for (int s = 0; s < shapes; s++)
        for (int k = 0; k < COUNT_OF(kinds); k++)
            for (int axis = 0; axis < 2; axis++) {
                qn_ctx *qn = begin();
                fill(MOST, -1, 1, (uint64_t)(7 + s));
                if (kinds[k] == SUM)
                    for (int i = 0; i < MOST; i++) in[0][i] = rint(8 * in[0][i]);
                check(qn, kinds[k], 2, shape[s], axis);
                end(qn);
            }
}

static void nan_and_infinities_go_on_from_where_they_are(void) {
    static const double special[] = {-INFINITY, -INFINITY, 1, 1, -2, INFINITY, 3, NAN, 4, NAN, 5};
    for (int kind = 0; kind < LINEAR; kind++)
        for (int first = 0; first < 8; first++) {
            qn_ctx *qn = begin();
            int64_t n = COUNT_OF(special) - first;
            for (int64_t i = 0; i < n; i++) in[0][i] = in[1][i] = special[first + i];
            check(qn, (scan_kind)kind, 1, &n, 0);
            end(qn);
        }
}

static void integers_are_summed_in_64_bits(void) {
    qn_ctx *qn = begin();
    const int8_t x[5] = {127, 127, -128, 1, 2};
    const uint8_t u[3] = {255, 255, 2}, b[3] = {1, 0, 1};
    int64_t sum[5];
    uint64_t product[3];
    qn_tensor *t = qn_cumsum(qn_from(qn, QN_I8, 1, (int64_t[]){5}, x), 0);
    CHECK_INT(qn_dtype_of(t), QN_I64);
    qn_read(t, sum, sizeof sum);
    CHECK(sum[0] == 127 && sum[1] == 254 && sum[2] == 126 && sum[3] == 127 && sum[4] == 129);
    t = qn_cumprod(qn_from(qn, QN_U8, 1, (int64_t[]){3}, u), -1);
    CHECK_INT(qn_dtype_of(t), QN_U64);
    qn_read(t, product, sizeof product);
    CHECK(product[0] == 255 && product[1] == 65025 && product[2] == 130050);
    qn_read(qn_cumsum(qn_from(qn, QN_BOOL, 1, (int64_t[]){3}, b), 0), sum, 3 * sizeof *sum);
    CHECK(sum[0] == 1 && sum[1] == 1 && sum[2] == 2);
    end(qn);
}

static void halves_are_summed_in_f32(void) {
    qn_ctx *qn = begin();
    float y[4096];
    qn_tensor *ones = qn_ones(qn, QN_F16, 1, (int64_t[]){4096});
    qn_tensor *s = qn_cumsum(qn_mul(ones, qn_like(ones, 0.125)), 0);
    CHECK_INT(qn_dtype_of(s), QN_F16);
    qn_read(qn_cast(s, QN_F32), y, sizeof y);
    CHECK(y[4095] == 512 && y[2047] == 256); /* in f16 it would stay at 256 */
    end(qn);
}

/* a is 0 at the first element of each segment. */
static void a_recurrence_sums_segments(void) {
    qn_ctx *qn = begin();
    const float a[7] = {0, 1, 1, 0, 1, 0, 1}, b[7] = {1, 2, 3, 4, 5, 6, 7};
    const float sums[7] = {1, 3, 6, 4, 9, 6, 13};
    float y[7];
    qn_tensor *t = qn_from(qn, QN_F32, 1, (int64_t[]){7}, a);
    qn_read(qn_linear_scan(t, qn_from(qn, QN_F32, 1, (int64_t[]){7}, b), 0), y, sizeof y);
    for (int i = 0; i < 7; i++) CHECK(y[i] == sums[i]);
    end(qn);
}

static void differences_undo_sums(void) {
    qn_ctx *qn = begin();
    const int64_t x[6] = {3, -1, 4, 1, -5, 9};
    int64_t y[6];
    qn_tensor *t = qn_from(qn, QN_I64, 1, (int64_t[]){6}, x);
    qn_read(qn_diff(qn_cumsum(t, 0), 1, 0), y, 5 * sizeof *y);
    for (int i = 0; i < 5; i++) CHECK_INT(y[i], x[i + 1]);
    qn_read(qn_diff(t, 2, -1), y, 4 * sizeof *y);
    for (int i = 0; i < 4; i++) CHECK_INT(y[i], x[i + 2] - 2 * x[i + 1] + x[i]);
    CHECK_INT(qn_dim(qn_diff(t, 9, 0), 0), 0);
    end(qn);
}

/* ---- gradients at zeros and ties ------------------------------------------------------------- */

static void gradient(qn_ctx *qn, scan_kind kind, int n, const double *x, double *out) {
    qn_tensor *t = qn_from(qn, QN_F64, 1, (int64_t[]){n}, x), *g;
    qn_tensor *y = scan(kind, t, t, 0),
              *weight = qn_add(qn_iota(qn, QN_F64, 1, (int64_t[]){n}, 0), qn_scalar(qn, QN_F64, 1));
    qn_grad(qn_sum(qn_mul(y, weight), QN_ALL, false), NULL, 1, &t, &g);
    qn_read(g, out, sizeof(double) * (size_t)n);
}

/* d/dx_i of 1*y_0 + 2*y_1 + ..., worked out by hand. */
static void gradients_of_products_are_right_at_zeros(void) {
    static const struct {
        double x[4], g[4];
    } cases[] = {
        {{2, 0, 3, 4}, {1, 2 * (2 + 9 + 48), 0, 0}}, /* 2*2 + 3*2*3 + 4*2*3*4 = 118 */
        {{0, 2, 0, 4}, {1 + 4, 0, 0, 0}},
        {{0, 0, 0, 0}, {1, 0, 0, 0}},
        {{1, 2, 3, 4}, {1 + 4 + 18 + 96, 2 + 9 + 48, 6 + 32, 24}},
    };
    for (int c = 0; c < COUNT_OF(cases); c++) {
        qn_ctx *qn = begin();
        double g[4];
        gradient(qn, PROD, 4, cases[c].x, g);
        for (int i = 0; i < 4; i++) CHECK_NEAR(g[i], cases[c].g[i], 1e-6, 0);
        end(qn);
    }
}

static void gradients_of_extremes_go_to_the_last_of_equal_ones(void) {
    qn_ctx *qn = begin();
    const double x[6] = {1, 3, 3, 2, 5, 5}, expected[6] = {1, 2, 3 + 4, 0, 5, 6};
    double g[6];
    gradient(qn, MAX, 6, x, g);
    for (int i = 0; i < 6; i++) CHECK(g[i] == expected[i]);
    end(qn);
}

static void gradients_of_logarithms_are_finite_behind_minus_infinity(void) {
    qn_ctx *qn = begin();
    const double x[3] = {-INFINITY, 0, 0}, expected[3] = {0, 2 + 1.5, 1.5};
    double g[3];
    gradient(qn, LOGSUM, 3, x, g);
    for (int i = 0; i < 3; i++) CHECK_NEAR(g[i], expected[i], 1e-6, 0);
    end(qn);
}

/* ---- kernels -------------------------------------------------------------------------------- */

static int kernels;
static void count_kernels(void *user, const char *line) {
    (void)user;
    if (!strncmp(line, "f kernel ", 9)) kernels++;
}

static int kernels_of(qn_tensor *(*f)(qn_tensor *x)) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .log = count_kernels));
    qn_set(qn, "debug", "f");
    memset(data, 0, sizeof data);
    qn_tensor *y = f(qn_from(qn, QN_F32, 2, (int64_t[]){64, 128}, data));
    kernels = 0;
    CHECK_INT(qn_realize(1, &y), QN_OK);
    qn_close(qn);
    return kernels;
}

static qn_tensor *between(qn_tensor *x) {
    return qn_exp(qn_neg(qn_cumsum(qn_mul(x, x), 1)));
}
static qn_tensor *places(qn_tensor *x) {
    return qn_cumargmax(x, 0);
}
static qn_tensor *of_weights(qn_tensor *x) {
    return qn_cumsum(qn_softmax(x, 1), 1);
}
static qn_tensor *both_ways(qn_tensor *x) {
    return qn_cumsum(qn_cumsum(x, 0), 1);
}
static qn_tensor *turned(qn_tensor *x) {
    return qn_flip(qn_cumsum(x, 1), 1);
}

static void elementwise_work_and_scans_along_one_axis_share_a_kernel(void) {
    CHECK_INT(kernels_of(between), 1);
    CHECK_INT(kernels_of(places), 1);
    CHECK_INT(kernels_of(of_weights), 1);
    CHECK_INT(kernels_of(both_ways), 2);
    CHECK_INT(kernels_of(turned), 2); /* elements are asked for in another order */
}

/* ---- errors --------------------------------------------------------------------------------- */

static void wrong_arguments_are_refused(void) {
    qn_ctx *qn = begin();
    memset(data, 0, sizeof data);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){3, 4}, data);
    CHECK(!qn_cumsum(x, 2) && qn_error_code(qn) == QN_ERANGE);
    qn_clear_error(qn);
    CHECK(!qn_diff(x, -1, 0) && qn_error_code(qn) == QN_ERANGE);
    qn_clear_error(qn);
    CHECK(!qn_linear_scan(x, qn_from(qn, QN_F32, 1, (int64_t[]){4}, data), 0) && qn_error_code(qn));
    qn_clear_error(qn);
    end(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    for (int i = 0; i < COUNT_OF(devices); i++) {
        device = devices[i];
        if (!device_here(device)) continue;
        RUN(scans_are_those_of_plain_loops_in_every_shape);
        RUN(long_rows_and_columns_are_those_of_plain_loops);
        RUN(nan_and_infinities_go_on_from_where_they_are);
        RUN(integers_are_summed_in_64_bits);
        RUN(halves_are_summed_in_f32);
        RUN(a_recurrence_sums_segments);
        RUN(differences_undo_sums);
        RUN(gradients_of_products_are_right_at_zeros);
        RUN(gradients_of_extremes_go_to_the_last_of_equal_ones);
        RUN(gradients_of_logarithms_are_finite_behind_minus_infinity);
        RUN(wrong_arguments_are_refused);
    }
    RUN(elementwise_work_and_scans_along_one_axis_share_a_kernel);
    return test_end();
}
