/* test_bits.c - functions of the parts of a number, bit by bit against the C library's: signs,
 * neighbours, exponents, divisors, set bits; and which numbers are close. */
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

#include <float.h>

static qn_ctx *context[2];
static const char *const device_name[2] = {"ref", "cpu"};

static const double numbers[] = {0.0,
                                 -0.0,
                                 1,
                                 -1,
                                 1.5,
                                 -2.75,
                                 0x1p-149,
                                 -0x1p-149,
                                 0x1p-126,
                                 -0x1.8p-127,
                                 0x1p-1074,
                                 -0x1p-1022,
                                 0x1.8p-1030,
                                 0x1.fffffep127,
                                 -0x1p100,
                                 0x1p1000,
                                 DBL_MAX,
                                 -DBL_MAX,
                                 3e-5,
                                 65504,
                                 6e-8,
                                 (double)INFINITY,
                                 -(double)INFINITY,
                                 (double)NAN};
enum { NUMBERS = sizeof numbers / sizeof *numbers, PAIRS = NUMBERS * NUMBERS };

static qn_tensor *of(qn_ctx *qn, qn_dtype d, int64_t n, const double *v) {
    static unsigned char bytes[PAIRS * 8];
    for (int64_t i = 0; i < n; i++)
        if (dtype_is_float(d))
            dtype_set_f(d, bytes, i, dtype_round(d, v[i]));
        else
            dtype_set_i(d, bytes, i, (int64_t)v[i]);
    return qn_from(qn, d, 1, &n, bytes);
}

static bool values(qn_tensor *t, double *out) {
    static unsigned char bytes[PAIRS * 8];
    int64_t n = qn_numel(t);
    if (!t || qn_read(t, bytes, sizeof bytes)) return false;
    for (int64_t i = 0; i < n; i++)
        out[i] = dtype_is_float(qn_dtype_of(t)) ? dtype_get_f(qn_dtype_of(t), bytes, i)
                                                : (double)dtype_get_i(qn_dtype_of(t), bytes, i);
    return true;
}

static void equal(const char *name, int device, qn_dtype d, double x, double y, double got,
                  double want) {
    bool same = isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want);
    if (!same)
        FAIL("%s of %g, %g as %s on %s is %.17g, expected %.17g", name, x, y, qn_dtype_name(d),
             device_name[device], got, want);
}

/* Every pair of the numbers in a dtype, and the value of the first argument's. */
static double first[PAIRS], second[PAIRS], result[PAIRS];

static void pairs(qn_dtype d) {
    for (int i = 0; i < PAIRS; i++) {
        first[i] = dtype_round(d, numbers[i / NUMBERS]);
        second[i] = dtype_round(d, numbers[i % NUMBERS]);
    }
}

/* The neighbour in any float dtype, by steps of its own unit. */
static double neighbour(qn_dtype d, double x, double y) {
    if (isnan(x) || isnan(y)) return (double)NAN;
    if (x == y) return y;
    if (d == QN_F64) return nextafter(x, y);
    if (d == QN_F32) return (double)nextafterf((float)x, (float)y);
    int fraction = dtype_rows[d].fraction, least = dtype_rows[d].least, e;
    double most = ldexp(2 - ldexp(1, -fraction), 1 - least);
    if (isinf(x)) return x > 0 ? most : -most;
    frexp(x, &e);
    bool up = x < y, power = fabs(frexp(x, &e)) == 0.5 && up != (x > 0);
    e = x == 0 ? least : e - 1 < least ? least : e - 1 - (power && e - 1 > least);
    double z = x + (up ? 1 : -1) * ldexp(1, e - fraction);
    return fabs(z) > most ? copysign((double)INFINITY, z) : z == 0 ? copysign(0, x) : z;
}

static void signs_and_neighbours_are_those_of_the_library(void) {
    const qn_dtype floats[] = {QN_F16, QN_BF16, QN_F32, QN_F64};
    for (int device = 0; device < 2; device++)
        for (int k = 0; k < 4 && context[device]; k++) {
            qn_dtype d = floats[k];
            pairs(d);
            qn_tensor *x = of(context[device], d, PAIRS, first),
                      *y = of(context[device], d, PAIRS, second);
            CHECK(values(qn_copysign(x, y), result));
            for (int i = 0; i < PAIRS; i++)
                equal("copysign", device, d, first[i], second[i], result[i],
                      copysign(first[i], second[i]));
            CHECK(values(qn_nextafter(x, y), result));
            for (int i = 0; i < PAIRS; i++)
                equal("nextafter", device, d, first[i], second[i], result[i],
                      neighbour(d, first[i], second[i]));
            CHECK(values(qn_signbit(x), result));
            for (int i = 0; i < PAIRS; i++)
                equal("signbit", device, d, first[i], 0, result[i], signbit(first[i]) != 0);
            qn_tensor *out[2];
            CHECK_INT(qn_frexp(x, out), QN_OK);
            CHECK_INT(qn_dtype_of(out[1]), QN_I32);
            CHECK(values(out[0], result));
            int e;
            for (int i = 0; i < PAIRS; i++)
                equal("frexp", device, d, first[i], 0, result[i], frexp(first[i], &e));
            CHECK(values(out[1], result));
            for (int i = 0; i < PAIRS; i++) {
                frexp(first[i], &e);
                equal("frexp's exponent", device, d, first[i], 0, result[i],
                      isfinite(first[i]) ? e : 0);
            }
        }
}

static void ldexp_rounds_once(void) {
    const int by[] = {0,    1,    -1,   24,   -24,  -126,  -127,    -149,    -150,  -151,
                      127,  128,  254,  276,  300,  -300,  -1022,   -1074,   -1075, -1080,
                      1023, 1024, 2047, 2097, 2200, -2200, 2000000, -2000000};
    const qn_dtype floats[] = {QN_F16, QN_BF16, QN_F32, QN_F64};
    for (int device = 0; device < 2; device++)
        for (int k = 0; k < 4 && context[device]; k++)
            for (size_t j = 0; j < COUNT_OF(by); j++) {
                qn_dtype d = floats[k];
                double odd = dtype_round(d, -0x1.5555555555555p-3), x[NUMBERS + 1];
                for (int i = 0; i < NUMBERS; i++) x[i] = dtype_round(d, numbers[i]);
                x[NUMBERS] = odd;
                qn_tensor *t = of(context[device], d, NUMBERS + 1, x);
                qn_tensor *n = qn_scalar(context[device], QN_I64, by[j]);
                CHECK(values(qn_ldexp(t, n), result));
                for (int i = 0; i <= NUMBERS; i++)
                    equal("ldexp", device, d, x[i], by[j], result[i],
                          d == QN_F64 ? ldexp(x[i], by[j])
                                      : dtype_round(d, (double)ldexpl(x[i], by[j])));
            }
}

static uint64_t size_of(int d, int64_t a) {
    return a < 0 && !dtype_is_unsigned(d) ? 0 - (uint64_t)a : (uint64_t)a;
}

static uint64_t divisor(uint64_t x, uint64_t y) {
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x;
}

static void divisors_and_bits_are_exact(void) {
    const int64_t v[] = {0,
                         1,
                         -1,
                         2,
                         -6,
                         12,
                         35,
                         100,
                         -128,
                         127,
                         89,
                         55,
                         46368,
                         28657,
                         1836311903,
                         1134903170,
                         INT32_MIN,
                         7540113804746346429,
                         4660046610375530309,
                         INT64_MAX};
    enum { N = sizeof v / sizeof *v };
    for (int device = 0; device < 2; device++)
        for (int d = QN_I8; d <= QN_U64 && context[device]; d++) {
            int64_t a[N * N], b[N * N], got[N * N], n = N * N;
            unsigned char bytes[2][N * N * 8];
            for (int i = 0; i < N * N; i++) {
                a[i] = dtype_wrap((qn_dtype)d, v[i / N]);
                b[i] = dtype_wrap((qn_dtype)d, v[i % N]);
                dtype_set_i((qn_dtype)d, bytes[0], i, a[i]);
                dtype_set_i((qn_dtype)d, bytes[1], i, b[i]);
            }
            qn_tensor *x = qn_from(context[device], (qn_dtype)d, 1, &n, bytes[0]);
            qn_tensor *y = qn_from(context[device], (qn_dtype)d, 1, &n, bytes[1]);
            CHECK_INT(qn_read(qn_cast(qn_gcd(x, y), QN_I64), got, sizeof got), QN_OK);
            for (int i = 0; i < N * N; i++) {
                uint64_t g = divisor(size_of(d, a[i]), size_of(d, b[i]));
                CHECK_INT(got[i], dtype_wrap((qn_dtype)d, (int64_t)g));
            }
            CHECK_INT(qn_read(qn_cast(qn_lcm(x, y), QN_I64), got, sizeof got), QN_OK);
            for (int i = 0; i < N * N; i++) {
                uint64_t p = size_of(d, a[i]), q = size_of(d, b[i]), g = divisor(p, q);
                int64_t want = dtype_wrap((qn_dtype)d, (int64_t)(g ? p / g * q : 0));
                want = dtype_wrap((qn_dtype)d, (int64_t)size_of(d, want));
                CHECK_INT(got[i], want);
            }
            CHECK_INT(qn_read(qn_cast(qn_bitwise_count(x), QN_I64), got, sizeof got), QN_OK);
            for (int i = 0; i < N * N; i++)
                CHECK_INT(got[i], __builtin_popcountll(size_of(d, a[i])));
        }
}

static void what_is_close_is_said(void) {
    const double x[] = {1, 1, 0, INFINITY, INFINITY, NAN, 100, 1},
                 y[] = {1.0625, 1.25, 1e-9, INFINITY, -INFINITY, NAN, 107, INFINITY};
    const bool want[] = {true, false, true, true, false, false, true, false};
    for (int device = 0; device < 2 && context[device]; device++) {
        qn_tensor *a = of(context[device], QN_F32, 8, x), *b = of(context[device], QN_F32, 8, y);
        CHECK(values(qn_isclose(a, b, 0.07, 1e-8, false), result));
        for (int i = 0; i < 8; i++) CHECK_INT((int)result[i], want[i]);
        CHECK(values(qn_isclose(a, b, 0.07, 1e-8, true), result));
        CHECK_INT((int)result[5], 1);
        CHECK(values(qn_allclose(a, b, 0.07, 1e-8, true), result));
        CHECK_INT((int)result[0], 0);
        CHECK(values(qn_allclose(a, a, 0, 0, true), result));
        CHECK_INT((int)result[0], 1);
        CHECK(values(qn_nan_to_num(a, 5, (double)INFINITY, -3), result));
        CHECK(result[3] == (double)FLT_MAX && result[5] == 5 && result[0] == 1);
        CHECK(values(qn_where(b, a, qn_like(a, -1)), result)); /* a condition that is no bool */
        CHECK(result[0] == 1 && result[2] == 0);
        CHECK(values(qn_where(a, b, qn_like(a, -1)), result));
        CHECK(result[2] == -1 && isnan(result[5]));
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    for (int i = 0; i < 2; i++)
        context[i] = qn_open(&QN_OPTIONS(.device = device_name[i], .threads = 1));
    RUN(signs_and_neighbours_are_those_of_the_library);
    RUN(ldexp_rounds_once);
    RUN(divisors_and_bits_are_exact);
    RUN(what_is_close_is_said);
    for (int i = 0; i < 2; i++) qn_close(context[i]);
    return test_end();
}
