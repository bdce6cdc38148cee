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

static qn_tensor *plus(qn_tensor *x, double by) {
    return qn_add(x, qn_like(x, by));
}

qn_tensor *complex_sign_bit(qn_tensor *x) {
    return qn_copysign(qn_like(x, 1), x);
}

/* |x| whose derivative at +-0 is +-1, the one of the side that the zero is on. */
static qn_tensor *size_of(qn_tensor *x) {
    return qn_mul(x, complex_sign_bit(x));
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* Sizes from 2^-most to 2^most may be squared and added; those above are taken times 2^large, those
 * below times 2^small. Both are even, for roots. */
typedef struct range {
    int most, large, small;
} range;

static range range_of(parts z) {
    return qn_dtype_of(z.re) == QN_F64 ? (range){500, -520, 600} : (range){62, -66, 88};
}

static qn_tensor *chosen(complex_size s, double large, double small, double other) {
    qn_tensor *x = s.of;
    return qn_where(s.large, qn_like(x, large),
                    qn_where(s.small, qn_like(x, small), qn_like(x, other)));
}

complex_size complex_size_of(parts z) {
    complex_size s = {.of = z.re};
    if (!z.re) return s;
    qn_tensor *x = qn_abs(z.re);
    if (z.im) x = qn_maximum(x, qn_abs(z.im));
    range r = range_of(z);
    s.large = qn_le(qn_like(x, ldexp(1, r.most)), x);
    s.small = qn_lt(x, qn_like(x, ldexp(1, -r.most)));
    return s;
}

qn_tensor *complex_size_scale(complex_size s, double power) {
    if (!s.of) return NULL;
    range r = range_of((parts){s.of, NULL});
    return chosen(s, exp2(r.large * power), exp2(r.small * power), 1);
}

static parts by(parts z, qn_tensor *scale) {
    return complex_times(z, (parts){scale, NULL});
}

/* ---- exponentials and logarithms ------------------------------------------------------------- */

static qn_tensor *is_at(qn_tensor *x, double value) {
    return qn_eq(x, qn_like(x, value));
}

/* Infinite, or NaN. */
static qn_tensor *is_endless(qn_tensor *x) {
    return qn_not(qn_isfinite(x));
}

/* h^2 (cos y + i sin y) of h, the root of the size at x: each part may be finite where the size is
 * not. Where y is 0 the imaginary part is, too; where it has no angle, a size of 0 is 0 and an
 * infinite one has an infinite real part. */
static parts turned(qn_tensor *h, qn_tensor *x, qn_tensor *given) {
    qn_tensor *endless = is_endless(given), *none = qn_and(endless, is_at(x, -(double)INFINITY));
    qn_tensor *y = qn_where(none, qn_like(given, 0), given);
    qn_tensor *bare = qn_and(is_endless(h), is_zero(y)), *g = qn_where(bare, qn_like(h, 1), h);
    qn_tensor *re = qn_mul(qn_mul(h, qn_cos(y)), h);
    re = qn_where(qn_and(endless, is_at(x, (double)INFINITY)), x, re);
    return (parts){re, qn_mul(qn_mul(g, qn_sin(y)), g)};
}

parts complex_of_exp(parts z) {
    if (!z.im) return (parts){qn_exp(z.re), NULL};
    return turned(qn_exp(times(z.re, 0.5)), z.re, z.im);
}

/* e^x cos y - 1 = expm1(x) cos y - 2 sin(y/2)^2, where e^x is not large */
static parts of_expm1(parts z) {
    parts e = complex_of_exp(z);
    qn_tensor *far = qn_lt(qn_like(z.re, 1), z.re), *x = qn_where(far, qn_like(z.re, 1), z.re);
    qn_tensor *half = qn_sin(times(z.im, 0.5));
    qn_tensor *near = qn_sub(qn_mul(qn_expm1(x), qn_cos(z.im)), times(qn_square(half), 2));
    qn_tensor *none = qn_and(is_endless(z.im), is_at(z.re, -(double)INFINITY));
    near = qn_where(none, qn_like(x, -1), plus(near, 0)); /* -0 is 0, as in C's cexp(z) - 1 */
    return (parts){qn_where(far, plus(e.re, -1), near), e.im};
}

/* log |z|; near 1 it is log1p(a (2 + a) + b^2) / 2, where 1 + a and b are the parts of z. */
static qn_tensor *log_size(parts z, qn_tensor *a, qn_tensor *b) {
    complex_size s = complex_size_of(z);
    parts w = by(z, complex_size_scale(s, 1));
    qn_tensor *h = qn_hypot(w.re, w.im), *zero = qn_like(h, 0);
    qn_tensor *near = qn_and(qn_lt(qn_like(h, 0.7), h), qn_lt(h, qn_like(h, 1.5)));
    near = qn_and(near, qn_not(qn_or(s.large, s.small)));
    a = qn_where(near, a, zero), b = qn_where(near, b, zero);
    qn_tensor *t = qn_fma(a, plus(a, 2), qn_square(b));
    range r = range_of(z);
    qn_tensor *log = qn_log(qn_where(near, qn_like(h, 1), h));
    log = qn_sub(log, chosen(s, r.large * M_LN2, r.small * M_LN2, 0));
    return qn_where(near, times(qn_log1p(t), 0.5), log);
}

parts complex_of_log(parts z) {
    qn_tensor *real = qn_ge(qn_abs(z.re), qn_abs(z.im));
    qn_tensor *large = size_of(qn_where(real, z.re, z.im)), *small = qn_where(real, z.im, z.re);
    return (parts){log_size(z, plus(large, -1), small), qn_atan2(z.im, z.re)};
}

static parts of_log1p(parts z) {
    parts more = {plus(z.re, 1), z.im};
    return (parts){log_size(more, z.re, z.im), qn_atan2(z.im, more.re)};
}

static parts of_exp2(parts z) {
    if (!z.im) return (parts){qn_exp2(z.re), NULL};
    return turned(qn_exp2(times(z.re, 0.5)), z.re, times(z.im, M_LN2));
}

static parts of_log2(parts z) {
    return complex_scaled(complex_of_log(z), 1 / M_LN2);
}

static parts of_log10(parts z) {
    return complex_scaled(complex_of_log(z), 1 / M_LN10);
}

/* ---- roots ----------------------------------------------------------------------------------- */

/* Kahan's: t = sqrt((|x| + |z|) / 2) is the larger part, y / 2t the other. */
parts complex_of_sqrt(parts given) {
    complex_size s = complex_size_of(given);
    parts z = by(given, complex_size_scale(s, 1));
    qn_tensor *zero = complex_number(z, 0), *one = complex_number(z, 1);
    qn_tensor *size = times(qn_add(size_of(z.re), qn_hypot(z.re, z.im)), 0.5);
    qn_tensor *none = is_zero(size), *endless = qn_isinf(z.im);
    qn_tensor *t = qn_sqrt(qn_where(none, one, size)), *half = times(z.im, 0.5);
    t = qn_where(endless, qn_abs(z.im), t);
    qn_tensor *other = qn_where(none, z.im, qn_where(endless, z.im, qn_div(half, t)));
    t = qn_where(none, zero, t);
    qn_tensor *left = qn_and(qn_signbit(z.re), qn_not(endless));
    parts root = {qn_where(left, size_of(other), t),
                  qn_where(left, qn_mul(t, complex_sign_bit(z.im)), other)};
    return by(root, complex_size_scale(s, -0.5));
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
    z = by(z, complex_size_scale(complex_size_of(z), 1));
    qn_tensor *none = qn_and(is_zero(z.re), is_zero(z.im)), *one = complex_number(z, 1);
    qn_tensor *size = qn_hypot(qn_where(none, one, z.re), z.im);
    return complex_over(z, (parts){size, NULL});
}

/* ---- hyperbolic and circular functions ------------------------------------------------------- */

/* (sinh x) u + i (cosh x) v, or with both exchanged, of u and v the sine and cosine of y as they
 * are wanted. Far out both are e^|x| / 2, of which the root is multiplied twice: each part may be
 * finite where that is not. What is 0 stays 0 beside a y without an angle, and a real part that is
 * infinite stays so. */
static parts of_hyperbolic(parts z, bool cosine) {
    qn_tensor *x = z.re, *one = qn_like(x, 1), *zero = qn_like(x, 0), *sign = complex_sign_bit(x);
    qn_tensor *size = qn_abs(x), *far = qn_lt(qn_like(x, 22), size);
    qn_tensor *h = qn_exp(times(qn_where(far, size, zero), 0.5)), *near = qn_where(far, zero, x);
    qn_tensor *sine = qn_where(far, times(qn_mul(sign, h), 0.5), qn_sinh(near));
    qn_tensor *even = qn_where(far, times(h, 0.5), qn_cosh(near));
    qn_tensor *re = cosine ? even : sine, *im = cosine ? sine : even;
    qn_tensor *bare = qn_and(qn_or(qn_isinf(h), qn_isnan(x)), is_zero(z.im));
    im = qn_where(bare, cosine ? sign : one, im);
    re = qn_mul(qn_mul(re, qn_cos(z.im)), h);
    im = qn_mul(qn_mul(im, qn_sin(z.im)), qn_where(bare, one, h));
    qn_tensor *endless = is_endless(z.im), *none = qn_and(endless, is_zero(x));
    if (cosine) im = qn_where(none, x, im);
    qn_tensor *kept = cosine ? qn_isinf(x) : qn_or(qn_isinf(x), is_zero(x));
    re = qn_where(qn_and(endless, kept), cosine ? size : x, re);
    return (parts){re, im};
}

static parts of_sinh(parts z) {
    return of_hyperbolic(z, false);
}

static parts of_cosh(parts z) {
    return of_hyperbolic(z, true);
}

/* Kahan's: with t = tan y, s = sinh x and b = 1 + t^2, (b s sqrt(1 + s^2) + i t) / (1 + b s^2). By
 * cosines, sin y cos y over cos^2 y + s^2 has no pole on the way. Far out it is
 * +-(1 - 2 cos 2y e^-2|x|) and 2 sin 2y e^-2|x|. */
static parts of_tanh(parts z) {
    qn_tensor *x = z.re, *far = qn_lt(qn_like(x, 22), qn_abs(x)),
              *near = qn_where(far, qn_like(x, 1), x);
    qn_tensor *s = qn_sinh(near), *c = qn_cos(z.im), *turn = qn_mul(qn_sin(z.im), c);
    qn_tensor *divisor = qn_fma(s, s, qn_square(c));
    qn_tensor *decay = qn_exp(times(qn_where(far, qn_abs(x), qn_like(x, 0)), -2));
    qn_tensor *flat = qn_isinf(x), *zero = qn_like(x, 0);
    qn_tensor *less = qn_where(flat, zero, qn_mul(plus(times(qn_square(c), 2), -1), decay));
    qn_tensor *re = qn_mul(complex_sign_bit(x), plus(times(less, -2), 1));
    qn_tensor *endless = is_endless(z.im);
    qn_tensor *tail = qn_where(endless, qn_copysign(zero, z.im), qn_mul(turn, zero));
    tail = qn_where(flat, tail, times(qn_mul(turn, decay), 4));
    re = qn_where(far, re, qn_div(qn_mul(s, qn_cosh(near)), divisor));
    qn_tensor *im = qn_where(far, tail, qn_div(turn, divisor));
    return (parts){qn_where(qn_and(endless, is_zero(x)), x, re),
                   qn_where(qn_and(qn_isnan(x), is_zero(z.im)), z.im, im)};
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

/* 1 / (1 + e^-z), or e^z / (1 + e^z) where the real part is negative: by exponentials that are not
 * large. */
static parts of_sigmoid(parts z) {
    qn_tensor *left = qn_lt(z.re, qn_like(z.re, 0));
    parts e = complex_of_exp(
        (parts){qn_where(left, z.re, qn_neg(z.re)), qn_where(left, z.im, qn_neg(z.im))});
    parts above = {qn_where(left, e.re, qn_like(e.re, 1)), qn_where(left, e.im, qn_like(e.re, 0))};
    return complex_over(above, (parts){plus(e.re, 1), e.im});
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
