/* test_fft.c - Fourier transforms against sums in long double by the definition: every length up to
 * some hundred, primes and large ones, each kind, axis and norm; identities; gradients. */
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

#include <math.h>

static qn_ctx *qn;

typedef struct complex_number {
    long double re, im;
} complex_number;

/* e^(sign 2 pi i k / n), reduced before the angle is rounded. */
static complex_number root(int64_t k, int64_t n, int sign) {
    long double x = 2 * 3.14159265358979323846264338L * (long double)(k % n) / (long double)n;
    return (complex_number){cosl(x), (long double)sign * sinl(x)};
}

static complex_number value_at(const double *x, int64_t n, int64_t k, int sign) {
    complex_number y = {0, 0};
    for (int64_t j = 0; j < n; j++) {
        complex_number w = root((int64_t)((__int128)j * k % n), n, sign);
        y.re += (long double)x[2 * j] * w.re - (long double)x[2 * j + 1] * w.im;
        y.im += (long double)x[2 * j] * w.im + (long double)x[2 * j + 1] * w.re;
    }
    return y;
}

/* The error of some of y's numbers over the root of the mean square of all. */
static double error_of(const double *x, const double *y, int64_t n, int64_t count, int sign) {
    long double size = 0, worst = 0;
    for (int64_t j = 0; j < 2 * n; j++) size += (long double)x[j] * (long double)x[j];
    int64_t step = n > 600 ? n / 23 + 1 : 1;
    for (int64_t k = 0; k < count; k += step) {
        complex_number want = value_at(x, n, k, sign);
        long double re = (long double)y[2 * k] - want.re, im = (long double)y[2 * k + 1] - want.im;
        worst = fmaxl(worst, sqrtl(re * re + im * im));
    }
    return (double)(worst / sqrtl(size));
}

/* Roundings grow with the logarithm of the length; Bluestein's transforms are longer, and three. */
static double bound(qn_dtype d, int64_t n) {
    double epsilon = d == QN_F64 ? 0x1p-53 : 0x1p-24;
    return epsilon * (4 + 2 * log2((double)n));
}

static double *noise(int64_t n) {
    double *x = malloc((size_t)n * sizeof *x);
    uint64_t seed = 11 + (uint64_t)n;
    for (int64_t i = 0; i < n; i++) x[i] = (double)(float)(test_uniform(&seed) * 2 - 1);
    return x;
}

static qn_tensor *tensor_from(qn_dtype d, int rank, const int64_t *dim, const double *x) {
    qn_tensor *t = qn_from(qn, QN_F64, rank, dim, x);
    return d == QN_F64 ? t : qn_cast(t, d);
}

static void read_doubles(qn_tensor *t, double *out) {
    CHECK(t != NULL);
    if (t) CHECK_INT(qn_read(qn_cast(t, QN_F64), out, (size_t)qn_numel(t) * sizeof *out), QN_OK);
}

/* ---- lengths --------------------------------------------------------------------------------- */

/* `rows` transforms each way, complex and real. */
static void check_length(qn_dtype d, int64_t rows, int64_t n) {
    qn_scope scope = qn_scope_begin(qn);
    double *x = noise(2 * rows * n), *y = calloc((size_t)(2 * rows * n + 2 * rows), sizeof *y);
    double *real = calloc((size_t)(2 * n), sizeof *real);
    int64_t half = n / 2 + 1, dim[3] = {rows, n, 2};
    qn_tensor *t = tensor_from(d, 3, dim, x);
    for (int sign = -1; sign <= 1; sign += 2) {
        read_doubles(
            sign < 0 ? qn_fft(t, 0, 1, QN_NORM_BACKWARD) : qn_ifft(t, 0, 1, QN_NORM_FORWARD), y);
        for (int64_t r = 0; r<rows; r += rows> 3 ? rows - 1 : 1) {
            double e = error_of(x + 2 * r * n, y + 2 * r * n, n, n, sign);
            if (e > bound(d, n)) FAIL("length %lld: off by %g", (long long)n, e);
        }
    }
    qn_tensor *re = qn_select(t, 2, 0);
    read_doubles(qn_rfft(re, 0, -1, QN_NORM_BACKWARD), y);
    for (int64_t r = 0; r<rows; r += rows> 3 ? rows - 1 : 1) {
        for (int64_t i = 0; i < n; i++) real[2 * i] = x[2 * (r * n + i)];
        double e = error_of(real, y + 2 * r * half, n, half, -1);
        if (e > bound(d, n)) FAIL("real length %lld: off by %g", (long long)n, e);
    }
    read_doubles(qn_irfft(qn_rfft(re, 0, -1, QN_NORM_ORTHO), n, -1, QN_NORM_ORTHO), y);
    for (int64_t i = 0; i < rows * n; i++) CHECK_NEAR(y[i], x[2 * i], 0, 4 * bound(d, n));
    free(x), free(y), free(real);
    qn_scope_end(qn, scope);
}

static void every_short_length_is_exact_to_rounding(void) {
    for (int64_t n = 1; n <= 130; n++) check_length(n % 3 ? QN_F64 : QN_F32, 1 + n % 3, n);
}

static void rows_fill_vectors_and_leave_some_over(void) {
    static const int64_t lengths[] = {1,  2,  3,  4,  5,  7,  8,  9,  11, 12,  13,
                                      15, 16, 17, 27, 30, 45, 64, 72, 77, 128, 243};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        check_length(QN_F32, 19, lengths[i]);
        check_length(QN_F64, 9, lengths[i]);
    }
}

static void long_lengths_and_primes(void) {
    static const int64_t lengths[] = {1000,  1009,  1024,  1331,  2197,  2401,  3125,
                                      4096,  6561,  8191,  9973,  10007, 16384, 30030,
                                      32768, 65536, 65537, 76545, 100003};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        check_length(QN_F64, 1, lengths[i]);
        check_length(QN_F32, 1, lengths[i]);
    }
    check_length(QN_F64, 1, 1 << 20);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* By sums over any axis of a small array, cut or padded. */
static void axes_lengths_and_norms(void) {
    const int64_t dim[4] = {3, 4, 5, 2};
    double *x = noise(120), y[400], row[64];
    qn_tensor *t = tensor_from(QN_F64, 4, dim, x);
    for (int axis = 0; axis < 3; axis++)
        for (int64_t n = 2; n <= 7; n++)
            for (int norm = 0; norm < 3; norm++) {
                int64_t stride = axis == 0 ? 20 : axis == 1 ? 5 : 1, size = dim[axis];
                double scale = norm == 0 ? 1 : norm == 1 ? 1 / sqrt((double)n) : 1 / (double)n;
                read_doubles(qn_fft(t, n, axis - 3 * (norm == 1), (qn_fft_norm)norm), y);
                int64_t first = axis == 2 ? 5 : axis == 1 ? 20 : 1; /* another row than the first */
                for (int64_t j = 0; j < n; j++)
                    for (int c = 0; c < 2; c++)
                        row[2 * j + c] = j < size ? x[2 * (first + j * stride) + c] : 0;
                int64_t out = axis == 2 ? n : axis == 1 ? 5 * n : 1, out_stride = stride;
                if (axis == 0) out = 1, out_stride = 20;
                for (int64_t k = 0; k < n; k++) {
                    complex_number want = value_at(row, n, k, -1);
                    CHECK_NEAR(y[2 * (out + k * out_stride)], (double)want.re * scale, 0, 1e-14);
                    CHECK_NEAR(y[2 * (out + k * out_stride) + 1], (double)want.im * scale, 0,
                               1e-14);
                }
            }
    free(x);
}

static void hermitian_signals_have_real_spectra(void) {
    for (int64_t n = 1; n <= 9; n++) {
        int64_t half = n / 2 + 1, dim[2] = {half, 2};
        double *x = noise(2 * half), whole[40], y[40], back[40];
        x[1] = 0;
        if (n % 2 == 0) x[2 * half - 1] = 0;
        for (int64_t j = 0; j < n; j++) {
            int64_t k = j < half ? j : n - j;
            whole[2 * j] = x[2 * k];
            whole[2 * j + 1] = j < half ? x[2 * k + 1] : -x[2 * k + 1];
        }
        qn_tensor *t = tensor_from(QN_F64, 2, dim, x), *h = qn_hfft(t, n, 0, QN_NORM_BACKWARD);
        read_doubles(h, y);
        for (int64_t k = 0; k < n; k++) {
            complex_number want = value_at(whole, n, k, -1);
            CHECK_NEAR(y[k], (double)want.re, 0, 1e-14);
            CHECK_NEAR((double)want.im, 0, 0, 1e-14);
        }
        read_doubles(qn_ihfft(h, 0, 0, QN_NORM_BACKWARD), back);
        for (int64_t k = 0; k < 2 * half; k++) CHECK_NEAR(back[k], x[k], 0, 1e-14);
        free(x);
    }
}

/* Imaginary parts that a real signal's spectrum does not have change nothing. */
static void what_must_be_real_is_not_read(void) {
    const double x[8] = {1, 5, 2, -1, 0.5, 2, 3, -7};
    double y[8], z[8], clean[8];
    memcpy(clean, x, sizeof x);
    clean[1] = clean[7] = 0;
    read_doubles(qn_irfft(tensor_from(QN_F64, 2, (int64_t[]){4, 2}, x), 6, 0, QN_NORM_BACKWARD), y);
    read_doubles(qn_irfft(tensor_from(QN_F64, 2, (int64_t[]){4, 2}, clean), 6, 0, QN_NORM_BACKWARD),
                 z);
    for (int i = 0; i < 6; i++) CHECK_NEAR(y[i], z[i], 0, 0);
}

static void several_axes_are_one_after_the_other(void) {
    const int64_t dim[4] = {4, 6, 5, 2};
    double *x = noise(240), a[240], b[240];
    qn_tensor *t = tensor_from(QN_F64, 4, dim, x), *u = t;
    for (int axis = 2; axis >= 0; axis--) u = qn_fft(u, 0, axis, QN_NORM_ORTHO);
    read_doubles(u, a);
    read_doubles(qn_fftn(t, 0, NULL, QN_NORM_ORTHO), b);
    for (int i = 0; i < 240; i++) CHECK_NEAR(a[i], b[i], 0, 1e-15);
    read_doubles(qn_ifftn(u, 3, (int[]){0, 1, 2}, QN_NORM_ORTHO), b);
    for (int i = 0; i < 240; i++) CHECK_NEAR(b[i], x[i], 0, 1e-14);
    read_doubles(qn_ifft2(qn_fft2(t, QN_NORM_BACKWARD), QN_NORM_BACKWARD), b);
    for (int i = 0; i < 240; i++) CHECK_NEAR(b[i], x[i], 0, 1e-14);
    qn_tensor *real = qn_select(t, 3, 0);
    read_doubles(qn_irfftn(qn_rfftn(real, 0, NULL, QN_NORM_FORWARD), 0, NULL, 5, QN_NORM_FORWARD),
                 b);
    for (int i = 0; i < 120; i++) CHECK_NEAR(b[i], x[2 * i], 0, 1e-14);
    read_doubles(qn_irfft2(qn_rfft2(real, QN_NORM_BACKWARD), 5, QN_NORM_BACKWARD), b);
    for (int i = 0; i < 120; i++) CHECK_NEAR(b[i], x[2 * i], 0, 1e-14);
    free(x);
}

static void frequencies_and_shifts_are_those_of_numpy(void) {
    double y[8];
    static const double odd[5] = {0, 0.4, 0.8, -0.8, -0.4}, even[4] = {0, 0.5, -1, -0.5};
    read_doubles(qn_fftfreq(qn, QN_F64, 5, 0.5), y);
    for (int i = 0; i < 5; i++) CHECK_NEAR(y[i], odd[i], 1e-15, 0);
    read_doubles(qn_fftfreq(qn, QN_F32, 4, 0.5), y);
    for (int i = 0; i < 4; i++) CHECK_NEAR(y[i], even[i], 0, 0);
    read_doubles(qn_rfftfreq(qn, QN_F64, 5, 0.5), y);
    for (int i = 0; i < 3; i++) CHECK_NEAR(y[i], odd[i], 1e-15, 0);
    qn_tensor *k = qn_arange(qn, QN_F64, 0, 5, 1);
    static const double shifted[5] = {3, 4, 0, 1, 2};
    read_doubles(qn_fftshift(k, 0, NULL), y);
    for (int i = 0; i < 5; i++) CHECK_NEAR(y[i], shifted[i], 0, 0);
    read_doubles(qn_ifftshift(qn_fftshift(k, 0, NULL), 1, (int[]){-1}), y);
    for (int i = 0; i < 5; i++) CHECK_NEAR(y[i], i, 0, 0);
}

static void shifts_know_sizes_when_they_run(void) {
    double y[8];
    int64_t n = qn_var(qn, "n", 1, 8);
    for (int64_t size = 1; size <= 8; size++) {
        CHECK_INT(qn_bind(qn, n, size), 0);
        qn_tensor *k = qn_cumsum(qn_full(qn, QN_F64, 1, &n, 1), 0);
        read_doubles(qn_fftshift(k, 0, NULL), y);
        for (int i = 0; i < size; i++) CHECK_NEAR(y[(i + size / 2) % size], i + 1, 0, 0);
        read_doubles(qn_ifftshift(k, 0, NULL), y);
        for (int i = 0; i < size; i++) CHECK(y[i] == (double)((i + size / 2) % size + 1));
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Of the sum of weights times the transform: it is linear, so a difference of any size is exact. */
static void check_gradient(qn_tensor *(*f)(qn_tensor *), int rank, const int64_t *dim) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dim[i];
    qn_scope scope = qn_scope_begin(qn);
    double *x = noise(n), *g = calloc((size_t)n, sizeof *g), up, down;
    qn_tape *tape = qn_tape_begin(qn);
    qn_tensor *t = tensor_from(QN_F64, rank, dim, x), *y = f(t), *d;
    qn_tensor *w = qn_sin(
        qn_reshape(qn_arange(qn, QN_F64, 0, (double)qn_numel(y), 1), qn_rank(y),
                   (int64_t[]){qn_dim(y, 0), qn_dim(y, 1), qn_rank(y) > 2 ? qn_dim(y, 2) : 1}));
    CHECK_INT(qn_grad(qn_sum(qn_mul(y, w), QN_ALL, false), NULL, 1, &t, &d), QN_OK);
    read_doubles(d, g);
    qn_tape_end(tape);
    for (int64_t i = 0; i < n; i++) {
        x[i] += 0.5;
        read_doubles(qn_sum(qn_mul(f(tensor_from(QN_F64, rank, dim, x)), w), QN_ALL, false), &up);
        x[i] -= 1;
        read_doubles(qn_sum(qn_mul(f(tensor_from(QN_F64, rank, dim, x)), w), QN_ALL, false), &down);
        x[i] += 0.5;
        CHECK_NEAR(g[i], up - down, 1e-12, 1e-12);
    }
    free(x), free(g);
    qn_scope_end(qn, scope);
}

static qn_tensor *forward(qn_tensor *x) {
    return qn_fft(x, 0, -1, QN_NORM_BACKWARD);
}
static qn_tensor *back(qn_tensor *x) {
    return qn_ifft(x, 6, 0, QN_NORM_BACKWARD);
}
static qn_tensor *real(qn_tensor *x) {
    return qn_rfft(x, 0, -1, QN_NORM_ORTHO);
}
static qn_tensor *to_real_even(qn_tensor *x) {
    return qn_irfft(x, 6, -1, QN_NORM_BACKWARD);
}
static qn_tensor *to_real_odd(qn_tensor *x) {
    return qn_irfft(x, 7, -1, QN_NORM_FORWARD);
}
/* Twice through: the second derivative of nothing linear is 0, but rules are used on rules. */
static qn_tensor *filtered(qn_tensor *x) {
    qn_tensor *s = qn_rfft(x, 0, -1, QN_NORM_BACKWARD);
    return qn_irfft(qn_mul(s, qn_sqrt(qn_add(qn_iota(qn, QN_F64, 1, (int64_t[]){2}, 0),
                                             qn_scalar(qn, QN_F64, 1)))),
                    qn_dim(x, -1), -1, QN_NORM_BACKWARD);
}

static void gradients_are_differences(void) {
    check_gradient(forward, 3, (int64_t[]){2, 5, 2});
    check_gradient(back, 3, (int64_t[]){5, 3, 2});
    check_gradient(real, 2, (int64_t[]){2, 6});
    check_gradient(real, 2, (int64_t[]){2, 7});
    check_gradient(to_real_even, 3, (int64_t[]){2, 4, 2});
    check_gradient(to_real_odd, 3, (int64_t[]){2, 4, 2});
    check_gradient(filtered, 2, (int64_t[]){2, 9});
}

/* ---- errors and threads ---------------------------------------------------------------------- */

static void refused(qn_tensor *t, qn_code code, const char *text) {
    CHECK(!t);
    CHECK_INT(qn_error_code(qn), code);
    if (!strstr(qn_error(qn), text)) FAIL("%s", qn_error(qn));
    qn_clear_error(qn);
}

static void what_does_not_fit_is_refused(void) {
    qn_tensor *x = qn_zeros(qn, QN_F32, 2, (int64_t[]){4, 2}),
              *y = qn_zeros(qn, QN_F32, 1, (int64_t[]){4});
    qn_tensor *none = qn_zeros(qn, QN_F32, 2, (int64_t[]){0, 2});
    refused(qn_fft(y, 0, 0, QN_NORM_BACKWARD), QN_ESHAPE, "pairs");
    refused(qn_fft(x, 0, 1, QN_NORM_BACKWARD), QN_ERANGE, "axis 1 of 1");
    refused(qn_fft(x, -3, 0, QN_NORM_BACKWARD), QN_ERANGE, "-3");
    refused(qn_fft(none, 0, 0, QN_NORM_BACKWARD), QN_ESHAPE, "size 0");
    refused(qn_fft(x, 0, 0, (qn_fft_norm)7), QN_EARG, "norm 7");
    refused(qn_fftn(x, 2, (int[]){0, 0}, QN_NORM_BACKWARD), QN_ERANGE, "twice");
    refused(qn_fftfreq(qn, QN_F32, 0, 1), QN_ERANGE, "0 frequencies");
}

static void bits_do_not_depend_on_threads(void) {
    double *x = noise(2 * 64 * 300);
    float *y[2];
    const int64_t dim[3] = {64, 300, 2};
    for (int i = 0; i < 2; i++) {
        qn_ctx *other = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1 + 2 * i));
        y[i] = malloc(2 * 64 * 300 * sizeof(float));
        qn_tensor *t = qn_cast(qn_from(other, QN_F64, 3, dim, x), QN_F32);
        CHECK_INT(qn_read(qn_fft(t, 0, 1, QN_NORM_BACKWARD), y[i], 2 * 64 * 300 * sizeof(float)),
                  QN_OK);
        qn_close(other);
    }
    CHECK(!memcmp(y[0], y[1], 2 * 64 * 300 * sizeof(float)));
    free(x), free(y[0]), free(y[1]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    RUN(every_short_length_is_exact_to_rounding);
    RUN(rows_fill_vectors_and_leave_some_over);
    RUN(long_lengths_and_primes);
    RUN(axes_lengths_and_norms);
    RUN(hermitian_signals_have_real_spectra);
    RUN(what_must_be_real_is_not_read);
    RUN(several_axes_are_one_after_the_other);
    RUN(frequencies_and_shifts_are_those_of_numpy);
    RUN(shifts_know_sizes_when_they_run);
    RUN(gradients_are_differences);
    RUN(what_does_not_fit_is_refused);
    RUN(bits_do_not_depend_on_threads);
    qn_close(qn);
    return test_end();
}
