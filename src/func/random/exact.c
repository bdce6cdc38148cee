/* exact.c - logarithms, cosines and quotients of exponentials in operations that are rounded once
 * wherever they run: sums, products, quotients and integers.
 *
 * Libraries and compilers differ in the last place of a logarithm, and the devices in the order of
 * a sum. Random numbers are the same bits of the same key everywhere, so they are made of these
 * alone. Each is off by an ulp or two. They have no derivative, which no parameter of a
 * distribution needs. */
#include "func/func.h"

#include <math.h>

#define LN2     0x1.62e42fefa39efp-1
#define LN2_LOW 0x1.abc9e3b39803fp-56

/* The sum of c[i] x^i. */
static qn_tensor *polynomial(qn_tensor *x, int n, const double *c) {
    qn_tensor *sum = qn_like(x, c[n - 1]);
    for (int i = n - 1; i--;) sum = qn_fma(sum, x, qn_like(x, c[i]));
    return sum;
}

/* log(1 + f) = f - s (f - t) for s = f / (2 + f) and t = 2 s^2/3 + 2 s^4/5 + .., |s| being at most
 * 1/5. */
static qn_tensor *log_near_one(qn_tensor *f, qn_dtype d) {
    double c[11] = {0};
    int terms = d == QN_F64 ? 11 : 6;
    for (int i = 1; i < terms; i++) c[i] = 2.0 / (2 * i + 1);
    qn_tensor *s = qn_div(f, qn_add(f, qn_like(f, 2)));
    qn_tensor *t = polynomial(qn_mul(s, s), terms, c);
    return qn_fma(s, qn_sub(t, f), f);
}

/* x = 2^k (1 + f), 1 + f from 3/4 up to 3/2, by integers: less the bits of 3/4 the exponent's field
 * is k. */
qn_tensor *func_exact_log(qn_tensor *x) {
    if (!x) return NULL;
    qn_dtype d = qn_dtype_of(x), whole = d == QN_F64 ? QN_I64 : QN_I32;
    int fraction = dtype_rows[d].fraction, least = dtype_rows[d].least;
    qn_tensor *small = qn_lt(x, qn_like(x, ldexp(1, least)));
    qn_tensor *up = qn_mul(x, qn_like(x, ldexp(1, fraction + 1)));
    qn_tensor *bits = qn_bitcast(qn_where(small, up, x), whole);
    int64_t one = (int64_t)(1 - least) << fraction, half = (int64_t)1 << (fraction - 1);
    qn_tensor *k = qn_sub(bits, func_integer(bits, one - half));
    k = qn_shr(k, func_integer(k, fraction));
    qn_tensor *rest = qn_sub(bits, qn_shl(k, func_integer(k, fraction)));
    qn_tensor *f = qn_bitcast(rest, d);
    f = log_near_one(qn_sub(f, qn_like(f, 1)), d);
    k = qn_sub(k, qn_where(small, func_integer(k, fraction + 1), func_integer(k, 0)));
    k = qn_cast(k, d);
    if (d == QN_F64) f = qn_fma(k, qn_like(k, LN2_LOW), f);
    qn_tensor *y = qn_fma(k, qn_like(k, LN2), f), *zero = qn_like(x, 0);
    y = qn_where(qn_lt(x, qn_like(x, (double)INFINITY)), y, x); /* NaN, too */
    qn_tensor *none =
        qn_where(qn_eq(x, zero), qn_like(x, -(double)INFINITY), qn_like(x, (double)NAN));
    return qn_where(qn_lt(zero, x), y, none);
}

/* cos(2 pi v) for v in [0, 1), a multiple of the dtype's epsilon: sin(pi s) (-1)^n with the nearest
 * integer n of 2 v and s = 1/2 - |2 v - n|, which is exact. The sine is its Taylor series. */
qn_tensor *func_exact_cos_turns(qn_tensor *v) {
    static const double c[] = {
        0x1.921fb54442d18p+1,   -0x1.4abbce625be53p+2,  0x1.466bc6775aae2p+1,
        -0x1.32d2cce62bd86p-1,  0x1.50783487ee782p-4,   -0x1.e3074fde8871fp-8,
        0x1.e8f434d018d63p-12,  -0x1.6fadb9f155744p-16, 0x1.aaec32af93359p-21,
        -0x1.8a404211f9547p-26, 0x1.2877020d52cf0p-31};
    if (!v) return NULL;
    int terms = qn_dtype_of(v) == QN_F64 ? (int)COUNT_OF(c) : 7;
    v = qn_mul(v, qn_like(v, 2));
    qn_tensor *n = qn_round(v), *s = qn_sub(qn_like(v, 0.5), qn_abs(qn_sub(v, n)));
    qn_tensor *y = qn_mul(s, polynomial(qn_mul(s, s), terms, c));
    return qn_where(qn_eq(n, qn_like(n, 1)), qn_neg(y), y);
}

/* e^x of f64 for x <= 0: 2^n e^r with |r| <= log(2)/2, by its Taylor series; NaN stays. */
static qn_tensor *exponential_below(qn_tensor *x) {
    double c[14] = {1};
    for (int i = 1; i < 14; i++) c[i] = c[i - 1] / i;
    qn_tensor *gone = qn_lt(x, qn_like(x, -800)), *zero = qn_like(x, 0);
    x = qn_where(gone, zero, x);
    qn_tensor *n = qn_round(qn_mul(x, qn_like(x, 1 / LN2)));
    qn_tensor *r = qn_fma(n, qn_like(n, -LN2), x);
    r = qn_fma(n, qn_like(n, -LN2_LOW), r);
    qn_tensor *y = qn_ldexp(polynomial(r, 14, c), qn_cast(n, QN_I32));
    return qn_where(gone, zero, y);
}

/* 1 / (1 + e^-x) of f64. */
qn_tensor *func_exact_sigmoid(qn_tensor *x) {
    if (!x) return NULL;
    qn_tensor *e = exponential_below(qn_neg(qn_abs(x))), *one = qn_like(x, 1);
    return qn_div(qn_where(qn_lt(x, qn_like(x, 0)), e, one), qn_add(one, e));
}

/* The sum over the last axis of numbers in [0, 1], of which one is 1: in whole multiples of 2^-62,
 * by two words, so that no order of adding rounds. */
static qn_tensor *whole_sum(qn_tensor *x) {
    qn_tensor *up = qn_like(x, 0x1p31), *down = qn_like(x, 0x1p-31);
    x = qn_mul(x, up);
    qn_tensor *high = qn_floor(x), *low = qn_round(qn_mul(qn_sub(x, high), up));
    high = qn_cast(qn_sum(qn_cast(high, QN_U64), -1, true), QN_F64);
    low = qn_cast(qn_sum(qn_cast(low, QN_U64), -1, true), QN_F64);
    return qn_mul(qn_fma(low, down, high), down);
}

/* e^x over its sum along the last axis, of f64. */
qn_tensor *func_exact_softmax(qn_tensor *x) {
    if (!x) return NULL;
    qn_tensor *e = exponential_below(qn_sub(x, qn_max(x, -1, true)));
    return qn_div(e, whole_sum(e));
}
