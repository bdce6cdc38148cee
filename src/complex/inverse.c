/* inverse.c - inverses of circular and hyperbolic functions of complex numbers, by Kahan's formulas
 * ("Branch cuts for complex elementary functions", 1987): square roots of 1 - z and 1 + z, each on
 * its own side of the cut, so that signs of zero say which side is meant. */
#include "complex/complex.h"

#include <math.h>

static parts one_more(parts z, double sign) {
    qn_tensor *x = sign > 0 ? z.re : qn_neg(z.re), *y = sign > 0 ? z.im : qn_neg(z.im);
    return (parts){qn_add(x, qn_like(x, 1)), y};
}

/* The imaginary part of conj(x) y. */
static qn_tensor *cross(parts x, parts y) {
    return qn_sub(qn_mul(x.re, y.im), qn_mul(x.im, y.re));
}

static qn_tensor *inner(parts x, parts y) {
    return qn_sub(qn_mul(x.re, y.re), qn_mul(x.im, y.im));
}

static parts of_asin(parts z) {
    parts a = complex_of_sqrt(one_more(z, -1)), b = complex_of_sqrt(one_more(z, 1));
    return (parts){qn_atan2(z.re, inner(a, b)), qn_asinh(cross(a, b))};
}

static parts of_acos(parts z) {
    parts a = complex_of_sqrt(one_more(z, -1)), b = complex_of_sqrt(one_more(z, 1));
    qn_tensor *half = qn_atan2(a.re, b.re);
    return (parts){qn_add(half, half), qn_asinh(cross(b, a))};
}

static parts of_acosh(parts z) {
    qn_tensor *one = complex_number(z, 1);
    parts a = complex_of_sqrt((parts){qn_sub(z.re, one), z.im}),
          b = complex_of_sqrt(one_more(z, 1));
    qn_tensor *half = qn_atan2(a.im, b.re);
    return (parts){qn_asinh(qn_add(qn_mul(a.re, b.re), qn_mul(a.im, b.im))), qn_add(half, half)};
}

static parts of_asinh(parts z) {
    return complex_turned(of_asin(complex_turned(z, 1)), -1);
}

/* log1p(4x / ((1-x)^2 + y^2)) / 4 and atan2(2y, (1-x)(1+x) - y^2) / 2, |x| for x and its sign
 * behind. */
static parts of_atanh(parts z) {
    qn_tensor *x = qn_abs(z.re), *one = complex_number(z, 1), *d = qn_sub(one, x);
    qn_tensor *square = qn_square(z.im), *divisor = qn_fma(d, d, square);
    qn_tensor *pole = qn_eq(divisor, qn_like(x, 0));
    qn_tensor *large = qn_not(qn_isfinite(divisor)), *chosen = qn_or(pole, large);
    qn_tensor *t = qn_div(qn_mul(x, qn_like(x, 4)), qn_where(chosen, one, divisor));
    qn_tensor *re = qn_mul(qn_log1p(qn_where(chosen, qn_like(x, 0), t)), qn_like(x, 0.25));
    re = qn_where(pole, qn_like(x, (double)INFINITY), re);
    qn_tensor *up = qn_sub(qn_mul(d, qn_add(x, one)), square);
    up = qn_where(large, qn_like(x, -1), up);
    qn_tensor *side = qn_where(large, qn_copysign(qn_like(x, 0), z.im), qn_add(z.im, z.im));
    return (parts){qn_copysign(re, z.re), qn_mul(qn_atan2(side, up), qn_like(x, 0.5))};
}

static parts of_atan(parts z) {
    return complex_turned(of_atanh(complex_turned(z, 1)), -1);
}

qn_tensor *complex_asin(qn_tensor *x) {
    return complex_by_element("asin", of_asin, x);
}

qn_tensor *complex_acos(qn_tensor *x) {
    return complex_by_element("acos", of_acos, x);
}

qn_tensor *complex_atan(qn_tensor *x) {
    return complex_by_element("atan", of_atan, x);
}

qn_tensor *complex_asinh(qn_tensor *x) {
    return complex_by_element("asinh", of_asinh, x);
}

qn_tensor *complex_acosh(qn_tensor *x) {
    return complex_by_element("acosh", of_acosh, x);
}

qn_tensor *complex_atanh(qn_tensor *x) {
    return complex_by_element("atanh", of_atanh, x);
}
