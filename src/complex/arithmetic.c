/* arithmetic.c - sums, products, quotients, powers and comparisons of complex numbers.
 *
 * A quotient is Smith's (CACM 5, 1962): scaled by the larger part of the divisor, and by powers of
 * 2 before, so that nothing overflows that need not. Divisors that are chosen away are never
 * divided by: gradients pass both sides of a choice. */
#include "complex/complex.h"

#include <math.h>

static qn_tensor *sum(qn_tensor *x, qn_tensor *y) {
    return x && y ? qn_add(x, y) : x ? x : y;
}

static qn_tensor *difference(qn_tensor *x, qn_tensor *y) {
    return x && y ? qn_sub(x, y) : y ? qn_neg(y) : x;
}

parts complex_plus(parts x, parts y) {
    return (parts){sum(x.re, y.re), sum(x.im, y.im)};
}

parts complex_minus(parts x, parts y) {
    return (parts){difference(x.re, y.re), difference(x.im, y.im)};
}

parts complex_times(parts x, parts y) {
    if (!y.im) return (parts){qn_mul(x.re, y.re), x.im ? qn_mul(x.im, y.re) : NULL};
    if (!x.im) return (parts){qn_mul(x.re, y.re), qn_mul(x.re, y.im)};
    return (parts){qn_sub(qn_mul(x.re, y.re), qn_mul(x.im, y.im)),
                   qn_add(qn_mul(x.re, y.im), qn_mul(x.im, y.re))};
}

parts complex_scaled(parts x, double by) {
    return complex_times(x, (parts){complex_number(x, by), NULL});
}

parts complex_turned(parts z, int by) {
    return by > 0 ? (parts){qn_neg(z.im), z.re} : (parts){z.im, qn_neg(z.re)};
}

/* Both operands are brought to a middling size, and the quotient back in two steps, since the
 * scale of both together may be beyond the dtype's range. */
parts complex_over(parts x, parts y) {
    if (!y.im) return (parts){qn_div(x.re, y.re), x.im ? qn_div(x.im, y.re) : NULL};
    complex_size of_x = complex_size_of(x), of_y = complex_size_of(y);
    parts back = {qn_mul(complex_size_scale(of_y, 0.5), complex_size_scale(of_x, -0.5)), NULL};
    x = complex_times(x, (parts){complex_size_scale(of_x, 1), NULL});
    y = complex_times(y, (parts){complex_size_scale(of_y, 1), NULL});
    qn_tensor *zero = complex_number(y, 0), *one = complex_number(y, 1);
    qn_tensor *real = qn_ge(qn_abs(y.re), qn_abs(y.im));
    qn_tensor *large = qn_where(real, y.re, y.im), *small = qn_where(real, y.im, y.re);
    qn_tensor *ratio = qn_div(small, qn_where(qn_eq(large, zero), one, large));
    qn_tensor *divisor = qn_add(large, qn_mul(small, ratio));
    qn_tensor *im = x.im ? x.im : qn_zeros_like(x.re);
    qn_tensor *p = qn_where(real, x.re, im), *q = qn_where(real, im, x.re);
    qn_tensor *cross = qn_sub(q, qn_mul(p, ratio));
    parts z = {qn_div(qn_add(p, qn_mul(q, ratio)), divisor),
               qn_div(qn_where(real, cross, qn_neg(cross)), divisor)};
    return complex_times(complex_times(z, back), back);
}

/* ---- the calls ------------------------------------------------------------------------------- */

typedef parts binary(parts x, parts y);

static qn_tensor *of_two(const char *name, binary *of, qn_tensor *x, qn_tensor *y) {
    func_frame f = func_begin(complex_context(x, y), name);
    parts z[2];
    if (!complex_given(f.qn, 2, (qn_tensor *[]){x, y}, "x\0y", z)) return func_end(f, NULL);
    return complex_end(f, of(z[0], z[1]));
}

qn_tensor *complex_div(qn_tensor *x, qn_tensor *y) {
    return of_two("div", complex_over, x, y);
}

/* A truth value of both parts. */
static parts truth(parts x) {
    qn_tensor *zero = complex_number(x, 0), *re = qn_ne(x.re, zero);
    return (parts){x.im ? qn_or(re, qn_ne(x.im, zero)) : re, NULL};
}

static parts equal(parts x, parts y) {
    qn_tensor *a = x.im ? x.im : qn_zeros_like(x.re), *b = y.im ? y.im : qn_zeros_like(y.re);
    return (parts){qn_and(qn_eq(x.re, y.re), qn_eq(a, b)), NULL};
}

static parts unequal(parts x, parts y) {
    return (parts){qn_not(equal(x, y).re), NULL};
}

static parts both(parts x, parts y) {
    return (parts){qn_and(truth(x).re, truth(y).re), NULL};
}

static parts either(parts x, parts y) {
    return (parts){qn_or(truth(x).re, truth(y).re), NULL};
}

static parts one_of(parts x, parts y) {
    return (parts){qn_xor(truth(x).re, truth(y).re), NULL};
}

static parts is_zero(parts x) {
    return (parts){qn_not(truth(x).re), NULL};
}

/* e^(y log x); 0 to the power 0 is 1, to 1 itself, and to one with a positive real part 0, else
 * NaN. Where log x is no number, anything to the power 0 is 1. */
static parts power(parts x, parts y) {
    qn_tensor *zero = complex_number(x, 0), *one = complex_number(x, 1);
    if (!x.im) x.im = qn_zeros_like(x.re);
    qn_tensor *none = is_zero(x).re, *known = qn_and(qn_isfinite(x.re), qn_isfinite(x.im));
    qn_tensor *flat = qn_and(is_zero(y).re, qn_or(none, qn_not(known)));
    qn_tensor *chosen = qn_or(none, flat);
    parts base = {qn_where(chosen, one, x.re), qn_where(chosen, zero, x.im)};
    parts z = complex_of_exp(complex_times(complex_of_log(base), y));
    qn_tensor *nan = complex_number(x, (double)NAN);
    qn_tensor *same = equal(y, (parts){qn_like(y.re, 1), NULL}).re;
    qn_tensor *of_none = qn_where(qn_lt(qn_like(y.re, 0), y.re), zero, nan);
    qn_tensor *re = qn_where(same, x.re, of_none), *im = qn_where(same, x.im, of_none);
    return (parts){qn_where(flat, one, qn_where(none, re, z.re)),
                   qn_where(flat, zero, qn_where(none, im, z.im))};
}

qn_tensor *complex_pow(qn_tensor *x, qn_tensor *y) {
    return of_two("pow", power, x, y);
}

qn_tensor *complex_eq(qn_tensor *x, qn_tensor *y) {
    return of_two("eq", equal, x, y);
}

qn_tensor *complex_ne(qn_tensor *x, qn_tensor *y) {
    return of_two("ne", unequal, x, y);
}

qn_tensor *complex_logical_and(qn_tensor *x, qn_tensor *y) {
    return of_two("logical_and", both, x, y);
}

qn_tensor *complex_logical_or(qn_tensor *x, qn_tensor *y) {
    return of_two("logical_or", either, x, y);
}

qn_tensor *complex_logical_xor(qn_tensor *x, qn_tensor *y) {
    return of_two("logical_xor", one_of, x, y);
}

qn_tensor *complex_logical_not(qn_tensor *x) {
    return complex_by_element("logical_not", is_zero, x);
}

static qn_tensor *of_three(const char *name, bool mixed, qn_tensor *x, qn_tensor *y, qn_tensor *z) {
    qn_ctx *qn = complex_context(x, y);
    func_frame f = func_begin(qn ? qn : complex_context(z, NULL), name);
    parts p[3];
    const char *args = mixed ? "x\0y\0t" : "x\0y\0z";
    if (!complex_given(f.qn, 3, (qn_tensor *[]){x, y, z}, args, p)) return func_end(f, NULL);
    parts a = p[0], b = p[1], c = p[2];
    if (mixed) return complex_end(f, complex_plus(a, complex_times(c, complex_minus(b, a))));
    return complex_end(f, complex_plus(complex_times(a, b), c));
}

qn_tensor *complex_fma(qn_tensor *x, qn_tensor *y, qn_tensor *z) {
    return of_three("fma", false, x, y, z);
}

qn_tensor *complex_lerp(qn_tensor *x, qn_tensor *y, qn_tensor *t) {
    return of_three("lerp", true, x, y, t);
}

static qn_tensor *absolute(parts z) {
    return z.im ? qn_hypot(z.re, z.im) : qn_abs(z.re);
}

static qn_tensor *close_to(parts x, parts y, double rtol, double atol, bool equal_nan) {
    qn_tensor *off = absolute(complex_minus(x, y)), *size = absolute(y);
    qn_tensor *most = qn_add(qn_mul(size, qn_like(size, rtol)), qn_like(size, atol));
    qn_tensor *near = qn_or(qn_and(qn_le(off, most), qn_isfinite(size)), equal(x, y).re);
    if (!equal_nan) return near;
    qn_tensor *a = x.im ? qn_or(qn_isnan(x.re), qn_isnan(x.im)) : qn_isnan(x.re);
    qn_tensor *b = y.im ? qn_or(qn_isnan(y.re), qn_isnan(y.im)) : qn_isnan(y.re);
    return qn_or(near, qn_and(a, b));
}

qn_tensor *complex_isclose(qn_tensor *x, qn_tensor *y, double rtol, double atol, bool equal_nan) {
    func_frame f = func_begin(complex_context(x, y), "isclose");
    parts z[2];
    bool both = complex_given(f.qn, 2, (qn_tensor *[]){x, y}, "x\0y", z);
    return func_end(f, both ? close_to(z[0], z[1], rtol, atol, equal_nan) : NULL);
}

qn_tensor *complex_allclose(qn_tensor *x, qn_tensor *y, double rtol, double atol, bool equal_nan) {
    func_frame f = func_begin(complex_context(x, y), "allclose");
    return func_end(f, qn_all(complex_isclose(x, y, rtol, atol, equal_nan), QN_ALL, false));
}
