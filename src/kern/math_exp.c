/* math_exp.c - exp and the functions made of it: exp2, expm1, tanh, erf.
 *
 * exp(x) = 2^n e^r with n the integer nearest x / log(2) and r = x - n log(2), |r| <= log(2)/2. The
 * constant is split in two, and the first fma is exact: n log(2)_hi has as many low zeros as r has
 * leading ones. e^r is a polynomial of degree 6 (F32) or 11 (F64).
 *
 * tanh and erf grow like x at 0 and approach 1, so they need two formulas: x + x^3 P(x^2) where x
 * is small, and 1 minus something small elsewhere, whose own error hardly counts. Both work on |x|
 * and get x's sign at the end, which is right for -0, too. */
#include "kern/math.h"

#define LOG2_E 0x1.71547652b82fep+0
#define LN2    0x1.62e42fefa39efp-1

/* x - n log(2) */
static kexpr math_exp_rest(const math *m, kexpr x, math_integer n) {
    bool f32 = m->dtype == QN_F32;
    kexpr high = math_f(m, f32 ? -0x1.62e43p-1 : -LN2);
    kexpr low = math_f(m, f32 ? 0x1.05c61p-29 : -0x1.abc9e3b39803fp-56);
    return math_fma(m, n.value, low, math_fma(m, n.value, high, x));
}

kexpr math_exp(const math *m, kexpr x) {
    bool f32 = m->dtype == QN_F32;
    x = math_at_most(m, x, f32 ? 89 : 710);    /* already inf */
    x = math_at_least(m, x, f32 ? -104 : -746); /* already 0 */
    math_integer n = math_nearest(m, x, LOG2_E, 2 * m->bias);
    kexpr r = math_exp_rest(m, x, n);
    return math_scale(m, math_poly(m, POLY(m, EXP), 1, r), n);
}

kexpr math_exp2(const math *m, kexpr x) {
    bool f32 = m->dtype == QN_F32;
    x = math_at_most(m, x, f32 ? 129 : 1025);
    x = math_at_least(m, x, f32 ? -151 : -1076);
    math_integer n = math_nearest(m, x, 1, 2 * m->bias);
    kexpr r = math_sub(m, x, n.value);
    return math_scale(m, math_poly(m, POLY(m, EXP2), 1, r), n);
}

/* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with one rounding by fma; all of it halved, since 2^n itself
 * overflows for the largest x. */
kexpr math_expm1(const math *m, kexpr x) {
    bool f32 = m->dtype == QN_F32;
    kexpr near = math_lt(m, math_abs(m, x), math_f(m, f32 ? 0x1p-24 : 0x1p-53)), a = x;
    x = math_at_most(m, x, f32 ? 89 : 710);
    x = math_at_least(m, x, f32 ? -18 : -38); /* already -1 */
    math_integer n = math_nearest(m, x, LOG2_E, m->bias - 1);
    kexpr r = math_exp_rest(m, x, n);
    kexpr p = math_fma(m, math_mul(m, r, r), math_poly(m, POLY(m, EXPM1), 1, r), r);
    kexpr s = math_pow2(m, n);
    kexpr half = math_fma(m, s, p, math_sub(m, s, math_f(m, 0.5)));
    return math_where(m, near, a, math_add(m, half, half));
}

/* 1 - 2 / (e^2t + 1) for larger t. There the reduction needs no second constant: n is small where
 * the error of e^2t counts. */
kexpr math_tanh(const math *m, kexpr x) {
    bool f32 = m->dtype == QN_F32;
    kexpr t = math_abs(m, x), c = math_at_most(m, t, f32 ? 9.125 : 19.125); /* already 1 */
    math_integer n = math_nearest(m, c, 2 * LOG2_E, m->bias);
    kexpr r = math_fma(m, n.value, math_f(m, -LN2 / 2), c);
    kexpr one = math_f(m, 1), e = math_poly(m, POLY(m, EXP), 2, r);
    kexpr far = math_div(m, math_f(m, 2), math_fma(m, math_pow2(m, n), e, one));
    far = math_sub(m, one, far);
    kexpr u = math_mul(m, t, t);
    kexpr near = math_fma(m, math_mul(m, t, u), math_poly(m, POLY(m, TANH), 1, u), t);
    kexpr y = math_where(m, math_lt(m, t, math_f(m, 0.64)), near, far);
    return math_copy_sign(m, y, x);
}

/* 1 - 2^G(t) for larger t, with G approximating the logarithm of erfc. */
kexpr math_erf(const math *m, kexpr x) {
    kexpr t = math_abs(m, x);
    kexpr c = math_at_most(m, t, m->dtype == QN_F32 ? 4 : 6); /* already 1 */
    kexpr g = math_poly(m, POLY(m, ERFC), 1, c);
    math_integer n = math_nearest(m, g, 1, m->bias);
    kexpr e = math_poly(m, POLY(m, EXP2), 1, math_sub(m, g, n.value));
    kexpr far = math_fma(m, math_pow2(m, n), math_neg(m, e), math_f(m, 1));
    kexpr u = math_mul(m, t, t), near = math_fma(m, t, math_poly(m, POLY(m, ERF), 1, u), t);
    kexpr y = math_where(m, math_lt(m, t, math_f(m, 0.9375)), near, far);
    return math_copy_sign(m, y, x);
}
