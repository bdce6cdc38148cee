/* math.c - exponentials, logarithms, roots, and circular and hyperbolic functions of complex
 * numbers, by real ones; branch cuts and signs of zero as in C99's annex G, which NumPy has, too.
 *
 * What a choice leaves out gets arguments where nothing is infinite, since gradients pass both of
 * its sides. */
#include "complex/complex.h"

#include <math.h>

qn_tensor *complex_by_element(const char *name, complex_function *of, qn_tensor *x) {
    func_frame f = func_begin(complex_context(x, NULL), name);
    parts z = complex_parts(x);
    return z.re ? complex_end(f, of(z)) : func_end(f, NULL);
}

static qn_tensor *is_zero(qn_tensor *x) {
    return qn_eq(x, qn_like(x, 0));
}

static qn_tensor *times(qn_tensor *x, double by) {
    return qn_mul(x, qn_like(x, by));
}

/* y * scale where y is 0 is y: also where the scale is infinite. */
static qn_tensor *scaled(qn_tensor *scale, qn_tensor *y, qn_tensor *of_y) {
    return qn_where(is_zero(y), y, qn_mul(scale, of_y));
}

/* ---- exponentials and logarithms ------------------------------------------------------------- */

parts complex_of_exp(parts z) {
    qn_tensor *e = qn_exp(z.re);
    if (!z.im) return (parts){e, NULL};
    return (parts){qn_mul(e, qn_cos(z.im)), scaled(e, z.im, qn_sin(z.im))};
}

/* e^x cos y - 1 = expm1(x) cos y - 2 sin(y/2)^2 */
static parts of_expm1(parts z) {
    qn_tensor *half = qn_sin(times(z.im, 0.5)), *e = qn_exp(z.re);
    qn_tensor *re = qn_sub(qn_mul(qn_expm1(z.re), qn_cos(z.im)), times(qn_square(half), 2));
    return (parts){re, scaled(e, z.im, qn_sin(z.im))};
}

/* log |1 + w| of w = x + iy, which may be small: log1p(x (2 + x) + y^2) / 2 near 1. */
static qn_tensor *log_size(qn_tensor *x, qn_tensor *y) {
    qn_tensor *u = qn_add(x, qn_like(x, 1)), *h = qn_hypot(u, y);
    qn_tensor *near = qn_and(qn_lt(qn_like(h, 0.7), h), qn_lt(h, qn_like(h, 1.5)));
    qn_tensor *zero = qn_like(x, 0), *a = qn_where(near, x, zero), *b = qn_where(near, y, zero);
    qn_tensor *t = qn_fma(a, qn_add(a, qn_like(a, 2)), qn_square(b));
    return qn_where(near, times(qn_log1p(t), 0.5), qn_log(qn_where(near, qn_like(h, 1), h)));
}

parts complex_of_log(parts z) {
    qn_tensor *x = qn_abs(z.re), *y = qn_abs(z.im);
    qn_tensor *large = qn_maximum(x, y), *small = qn_minimum(x, y);
    return (parts){log_size(qn_sub(large, qn_like(large, 1)), small), qn_atan2(z.im, z.re)};
}

static parts of_log1p(parts z) {
    return (parts){log_size(z.re, z.im), qn_atan2(z.im, qn_add(z.re, qn_like(z.re, 1)))};
}

static parts of_exp2(parts z) {
    return complex_of_exp(complex_scaled(z, M_LN2));
}

static parts of_log2(parts z) {
    return complex_scaled(complex_of_log(z), 1 / M_LN2);
}

static parts of_log10(parts z) {
    return complex_scaled(complex_of_log(z), 1 / M_LN10);
}

/* ---- roots ----------------------------------------------------------------------------------- */

/* Kahan's: t = sqrt((|x| + |z|) / 2) is the larger part, y / 2t the other. Large numbers are halved
 * before they are added. */
parts complex_of_sqrt(parts z) {
    qn_tensor *zero = complex_number(z, 0), *one = complex_number(z, 1);
    qn_tensor *size = qn_add(times(qn_abs(z.re), 0.5), times(qn_hypot(z.re, z.im), 0.5));
    qn_tensor *none = is_zero(size);
    qn_tensor *t = qn_sqrt(qn_where(none, one, size)), *other = qn_div(times(qn_abs(z.im), 0.5), t);
    qn_tensor *endless = qn_isinf(z.im);
    t = qn_where(none, zero, t);
    other = qn_where(none, zero, qn_where(endless, qn_abs(z.im), other));
    qn_tensor *left = qn_and(qn_signbit(z.re), qn_not(endless));
    return (parts){qn_where(left, other, t), qn_copysign(qn_where(left, t, other), z.im)};
}

static parts of_reciprocal(parts z) {
    return complex_over((parts){complex_number(z, 1), NULL}, z);
}

static parts of_rsqrt(parts z) {
    return of_reciprocal(complex_of_sqrt(z));
}

static parts of_square(parts z) {
    return complex_times(z, z);
}

static parts of_abs(parts z) {
    return (parts){qn_hypot(z.re, z.im), NULL};
}

static parts of_angle(parts z) {
    return (parts){qn_atan2(z.im, z.re), NULL};
}

/* z / |z|; of 0 it is 0. */
static parts of_sign(parts z) {
    qn_tensor *none = qn_and(is_zero(z.re), is_zero(z.im)), *one = complex_number(z, 1);
    qn_tensor *size = qn_hypot(qn_where(none, one, z.re), z.im);
    return complex_over(z, (parts){size, NULL});
}

/* ---- hyperbolic and circular functions ------------------------------------------------------- */

static parts of_sinh(parts z) {
    return (parts){qn_mul(qn_sinh(z.re), qn_cos(z.im)), scaled(qn_cosh(z.re), z.im, qn_sin(z.im))};
}

static parts of_cosh(parts z) {
    qn_tensor *flat = qn_mul(qn_copysign(qn_like(z.re, 1), z.re), z.im);
    qn_tensor *im = qn_mul(qn_sinh(z.re), qn_sin(z.im));
    return (parts){qn_mul(qn_cosh(z.re), qn_cos(z.im)), qn_where(is_zero(z.im), flat, im)};
}

/* Kahan's: with t = tan y, s = sinh x and b = 1 + t^2, (b s sqrt(1 + s^2) + i t) / (1 + b s^2). By
 * cosines, sin y cos y over cos^2 y + s^2 has no pole on the way. Far out it is +-1 and
 * 4 sin y cos y e^-2|x|. */
static parts of_tanh(parts z) {
    qn_tensor *x = z.re, *far = qn_lt(qn_like(x, 22), qn_abs(x)),
              *near = qn_where(far, qn_like(x, 1), x);
    qn_tensor *s = qn_sinh(near), *c = qn_cos(z.im), *turn = qn_mul(qn_sin(z.im), c);
    qn_tensor *divisor = qn_fma(s, s, qn_square(c));
    divisor = qn_where(is_zero(divisor), qn_like(x, 1), divisor);
    qn_tensor *re = qn_where(far, qn_tanh(x), qn_div(qn_mul(s, qn_cosh(near)), divisor));
    qn_tensor *decay = qn_exp(times(qn_where(far, qn_abs(x), qn_like(x, 0)), -2));
    qn_tensor *none = is_zero(decay);
    qn_tensor *tail =
        qn_where(none, qn_copysign(qn_like(x, 0), z.im), times(qn_mul(turn, decay), 4));
    return (parts){re, qn_where(far, tail, qn_where(is_zero(z.im), z.im, qn_div(turn, divisor)))};
}

static parts of_sin(parts z) {
    return complex_turned(of_sinh(complex_turned(z, 1)), -1);
}

static parts of_cos(parts z) {
    return of_cosh(complex_turned(z, 1));
}

static parts of_tan(parts z) {
    return complex_turned(of_tanh(complex_turned(z, 1)), -1);
}

/* (1 + tanh(z/2)) / 2 */
static parts of_sigmoid(parts z) {
    parts t = complex_scaled(of_tanh(complex_scaled(z, 0.5)), 0.5);
    return (parts){qn_add(t.re, qn_like(t.re, 0.5)), t.im};
}

/* ---- what a number is ------------------------------------------------------------------------ */

static parts of_isnan(parts z) {
    return (parts){qn_or(qn_isnan(z.re), qn_isnan(z.im)), NULL};
}

static parts of_isinf(parts z) {
    return (parts){qn_or(qn_isinf(z.re), qn_isinf(z.im)), NULL};
}

static parts of_isfinite(parts z) {
    return (parts){qn_and(qn_isfinite(z.re), qn_isfinite(z.im)), NULL};
}

/* ---- the calls ------------------------------------------------------------------------------- */

#define BY_ELEMENT(name, of)                                                                       \
    qn_tensor *complex_##name(qn_tensor *x) {                                                      \
        return complex_by_element(#name, of, x);                                                   \
    }
BY_ELEMENT(exp, complex_of_exp)
BY_ELEMENT(expm1, of_expm1)
BY_ELEMENT(exp2, of_exp2)
BY_ELEMENT(log, complex_of_log)
BY_ELEMENT(log1p, of_log1p)
BY_ELEMENT(log2, of_log2)
BY_ELEMENT(log10, of_log10)
BY_ELEMENT(sqrt, complex_of_sqrt)
BY_ELEMENT(rsqrt, of_rsqrt)
BY_ELEMENT(square, of_square)
BY_ELEMENT(reciprocal, of_reciprocal)
BY_ELEMENT(abs, of_abs)
BY_ELEMENT(angle, of_angle)
BY_ELEMENT(sign, of_sign)
BY_ELEMENT(sinh, of_sinh)
BY_ELEMENT(cosh, of_cosh)
BY_ELEMENT(tanh, of_tanh)
BY_ELEMENT(sin, of_sin)
BY_ELEMENT(cos, of_cos)
BY_ELEMENT(tan, of_tan)
BY_ELEMENT(sigmoid, of_sigmoid)
BY_ELEMENT(isnan, of_isnan)
BY_ELEMENT(isinf, of_isinf)
BY_ELEMENT(isfinite, of_isfinite)
