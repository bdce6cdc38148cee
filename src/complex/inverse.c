/* inverse.c - inverses of circular and hyperbolic functions of complex numbers, by Kahan's formulas
 * ("Branch cuts for complex elementary functions", 1987): square roots of 1 - z and 1 + z, each on
 * its own side of the cut, so that signs of zero say which side is meant. */
#include "complex/complex.h"

#include <math.h>

/* The roots of 1 - z and 1 + z. From 2^62 on both are scaled by 2^-15, since their product
 * overflows: of numbers that large, asinh is the one of a 2^30th and 30 log 2. */
typedef struct roots {
    parts less, more;
    qn_tensor *scale, *log; /* of their product */
} roots;

static roots roots_of(parts z) {
    qn_tensor *size = qn_maximum(qn_abs(z.re), qn_abs(z.im)), *one = qn_like(size, 1);
    qn_tensor *far = qn_le(qn_like(size, 0x1p62), size);
    roots r = {.scale = qn_where(far, qn_like(size, 0x1p-30), one)};
    r.log = qn_where(far, qn_like(size, 30 * M_LN2), qn_like(size, 0));
    z = complex_times(z, (parts){r.scale, NULL});
    r.more = complex_of_sqrt((parts){qn_add(r.scale, z.re), z.im});
    r.less = complex_of_sqrt((parts){qn_sub(r.scale, z.re), qn_neg(z.im)});
    return r;
}

static qn_tensor *area(roots r, qn_tensor *x) {
    return qn_add(qn_asinh(x), qn_mul(r.log, complex_sign_bit(x)));
}

/* The imaginary part of conj(x) y. */
static qn_tensor *cross(parts x, parts y) {
    return qn_sub(qn_mul(x.re, y.im), qn_mul(x.im, y.re));
}

static qn_tensor *inner(parts x, parts y) {
    return qn_sub(qn_mul(x.re, y.re), qn_mul(x.im, y.im));
}

/* What z is where formulas give NaN: annex G has an angle or a size there. */
typedef struct ends {
    qn_tensor *any, *both, *lost; /* is a part infinite; are both; and is the other one NaN? */
} ends;

static ends ends_of(parts z) {
    qn_tensor *x = qn_isinf(z.re), *y = qn_isinf(z.im);
    qn_tensor *nan = qn_or(qn_isnan(z.re), qn_isnan(z.im)), *any = qn_or(x, y);
    return (ends){any, qn_and(x, y), qn_and(any, nan)};
}

static qn_tensor *chosen(qn_tensor *where, double value, qn_tensor *other) {
    return qn_where(where, qn_like(other, value), other);
}

static qn_tensor *is_zero(qn_tensor *x) {
    return qn_eq(x, qn_like(x, 0));
}

/* An angle, that of asin, at the ends of x: half a right angle where both parts are infinite. */
static parts of_asin(parts z) {
    roots r = roots_of(z);
    ends e = ends_of(z);
    qn_tensor *x = qn_mul(z.re, r.scale), *wide = qn_isinf(z.re), *sign = complex_sign_bit(z.re);
    qn_tensor *re = qn_atan2(x, inner(r.less, r.more)), *im = area(r, cross(r.less, r.more));
    qn_tensor *angle = chosen(e.both, M_PI / 4, qn_like(re, M_PI / 2));
    re = chosen(e.lost, (double)NAN, qn_where(wide, qn_mul(angle, sign), re));
    re = qn_where(qn_and(qn_isnan(z.im), is_zero(z.re)), z.re, re);
    im = qn_where(e.any, qn_copysign(qn_like(im, (double)INFINITY), z.im), im);
    return (parts){re, im};
}

/* The angle of acos from 0 to pi, at the ends. */
static qn_tensor *wide_angle(parts z, ends e, qn_tensor *angle) {
    qn_tensor *left = qn_lt(z.re, qn_like(z.re, 0));
    qn_tensor *corner = chosen(left, 3 * M_PI / 4, qn_like(angle, M_PI / 4));
    angle = chosen(e.lost, (double)NAN, qn_where(e.both, corner, angle));
    return chosen(qn_and(qn_isnan(z.im), is_zero(z.re)), M_PI / 2, angle);
}

static parts of_acos(parts z) {
    roots r = roots_of(z);
    ends e = ends_of(z);
    qn_tensor *half = qn_atan2(r.less.re, r.more.re), *im = area(r, cross(r.more, r.less));
    return (parts){wide_angle(z, e, qn_add(half, half)),
                   qn_where(e.any, qn_copysign(qn_like(im, (double)INFINITY), qn_neg(z.im)), im)};
}

static parts of_acosh(parts z) {
    roots r = roots_of(z);
    qn_tensor *x = qn_sub(qn_mul(z.re, r.scale), r.scale);
    parts a = complex_of_sqrt((parts){x, qn_mul(z.im, r.scale)}), b = r.more;
    ends e = ends_of(z);
    qn_tensor *half = qn_atan2(a.im, b.re), *full = qn_add(half, half);
    qn_tensor *re = area(r, qn_add(qn_mul(a.re, b.re), qn_mul(a.im, b.im)));
    qn_tensor *special = qn_or(qn_or(e.both, e.lost), qn_and(qn_isnan(z.im), is_zero(z.re)));
    return (parts){chosen(e.any, (double)INFINITY, re),
                   qn_where(special, qn_copysign(wide_angle(z, e, full), z.im), full)};
}

static parts of_asinh(parts z) {
    return complex_turned(of_asin(complex_turned(z, 1)), -1);
}

/* log1p(4x / ((1-x)^2 + y^2)) / 4 and atan2(2y, (1-x)(1+x) - y^2) / 2, |x| for x and its sign
 * behind. Where a part is NaN only the other one's 0 or infinity tells a size. Near the pole the
 * first is (log |1 + z| - log |1 - z|) / 2: no squares, that may be 0. */
static parts of_atanh(parts z) {
    qn_tensor *sign = complex_sign_bit(z.re), *x = qn_mul(z.re, sign);
    qn_tensor *one = complex_number(z, 1), *zero = qn_like(x, 0), *d = qn_sub(one, x);
    qn_tensor *size = qn_hypot(d, z.im), *square = qn_square(z.im), *divisor = qn_fma(d, d, square);
    qn_tensor *pole = qn_eq(size, zero), *near = qn_lt(size, qn_like(x, 0.5));
    qn_tensor *large = qn_not(qn_isfinite(divisor)), *bare = qn_or(near, large);
    qn_tensor *t = qn_div(qn_mul(x, qn_like(x, 4)), qn_where(bare, one, divisor));
    qn_tensor *re = qn_mul(qn_log1p(qn_where(bare, zero, t)), qn_like(x, 0.25));
    qn_tensor *rest = qn_log(qn_where(qn_and(near, qn_not(pole)), size, one));
    rest = qn_sub(qn_log(qn_hypot(qn_add(qn_where(near, x, one), one), qn_where(near, z.im, zero))),
                  rest);
    re = qn_where(near, qn_mul(rest, qn_like(x, 0.5)), re);
    re = qn_where(pole, qn_like(x, (double)INFINITY), re);
    qn_tensor *up = qn_sub(qn_mul(d, qn_add(x, one)), square);
    up = qn_where(large, qn_like(x, -1), up);
    qn_tensor *side = qn_where(large, qn_copysign(zero, z.im), qn_add(z.im, z.im));
    qn_tensor *im = qn_mul(qn_atan2(side, up), qn_like(x, 0.5));
    qn_tensor *lost = qn_or(qn_isnan(z.im), qn_and(qn_isnan(x), qn_not(qn_isinf(z.im))));
    qn_tensor *none = qn_or(is_zero(x), qn_isinf(x));
    re = qn_mul(qn_where(lost, chosen(none, 0, qn_like(x, (double)NAN)), re), sign);
    return (parts){re, chosen(lost, (double)NAN, im)};
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
