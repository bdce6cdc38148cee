/* exp.c - exp and the functions made of it: exp2, expm1, tanh, erf, erfc.
 *
 * exp(x) = 2^n e^r with n the integer nearest x / log(2) and r = x - n log(2), |r| <= log(2)/2. The
 * constant is split in two, and the first fma is exact: n log(2)_hi has as many low zeros as r has
 * leading ones. e^r is a polynomial of degree 6 (F32) or 11 (F64).
 *
 * tanh and erf grow like x at 0 and approach 1. In F32 they are 16 polynomials of degree 5, whose
 * coefficients come from tables: a third less than two formulas and a choice cost, and no
 * quotient. In F64 they are two formulas, x + x^3 P(x^2) where x is small, and 1 minus something
 * small elsewhere, whose own error hardly counts. All work on |x| and get x's sign at the end,
 * which is right for -0, too.
 *
 * erfc has its digits where erf has none left, so it is e^(-x^2) times a function that changes
 * slowly, and x^2 is exact in two parts: an error of it counts as often as it is large. */
#include "math/math.h"

#define LOG2_E 0x1.71547652b82fep+0
#define LN2    0x1.62e42fefa39efp-1

/* r = x - n log(2) in two parts: this one, exact, plus n times math_ln2_low. */
static expr_id math_exp_rest(const math *m, expr_id x, math_integer n) {
    return math_fma(m, n.value, math_f(m, -LN2), x);
}

static expr_id math_ln2_low(const math *m) {
    return math_f(m, m->dtype == QN_F32 ? 0x1.05c61p-29 : -0x1.abc9e3b39803fp-56);
}

/* 0 where the result is already 0, before and after computing it: on its way there it would pass
 * through numbers too small for a float, which take x86 more than a hundred cycles a vector. */
static expr_id math_unless(const math *m, expr_id gone, expr_id x) {
    return math_where(m, gone, math_f(m, 0), x);
}

/* x = n log(2) + r, n with an offset, and e = e^r - 1. */
math_integer math_exp_parts(const math *m, expr_id x, int offset, expr_id *e) {
    math_integer n = math_nearest(m, x, math_f(m, LOG2_E), offset);
    expr_id r = math_fma(m, n.value, math_ln2_low(m), math_exp_rest(m, x, n));
    *e = math_mul(m, r, math_poly_from(m, POLY(m, EXP), 1, 1, r));
    return n;
}

/* Whether x is below `least`, or -inf because it was cut off: then x is what it was before. */
static expr_id math_is_gone(const math *m, expr_id *x, double least) {
    double cut;
    expr_id whole = ir_is_cut_below(m->k, *x, &cut);
    if (whole && cut > least) {
        *x = whole;
        least = cut;
    }
    return math_lt(m, *x, math_f(m, least));
}

expr_id math_exp(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    bool f32 = m->dtype == QN_F32;
    expr_id gone = math_is_gone(m, &x, f32 ? -104 : -746);        /* already 0 */
    x = math_unless(m, gone, math_at_most(m, x, f32 ? 89 : 710)); /* already inf */
    math_integer n = math_nearest(m, x, math_f(m, LOG2_E), 2 * m->bias);
    expr_id r = math_fma(m, n.value, math_ln2_low(m), math_exp_rest(m, x, n));
    return math_unless(m, gone, math_scale(m, math_poly(m, POLY(m, EXP), r), n));
}

expr_id math_exp2(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    bool f32 = m->dtype == QN_F32;
    expr_id gone = math_lt(m, x, math_f(m, f32 ? -151 : -1076));
    x = math_unless(m, gone, math_at_most(m, x, f32 ? 129 : 1025));
    math_integer n = math_nearest(m, x, 0, 2 * m->bias);
    expr_id r = math_sub(m, x, n.value);
    return math_unless(m, gone, math_scale(m, math_poly(m, POLY(m, EXP2), r), n));
}

/* From n = 25 on, 2^n - 1 is not a float and rounds to 2^n: subtract 2^-n from t instead. s is
 * 2^(n-1), so 2^(1-n) has the pattern of 2^127 less that of s, the biases cancelling; 0 for the
 * largest. */
static expr_id math_expm1_late(const math *m, expr_id s, expr_id t) {
    expr_id tiny = math_from_bits(m, math_sub(m, math_u(m, 254u << 23), math_bits(m, s)));
    tiny = math_where(m, math_lt(m, math_f(m, 0x1p23), s), tiny, math_f(m, 0));
    return math_fma(m, tiny, math_f(m, -0.5), t);
}

/* e^x - 1 = (2^n - 1 + 2^n r') + 2^n t where r = r' + l, both parts of the reduction, and
 * t = e^r - 1 - r' = r^2 P(r) + l. What rounding the bracket loses is added to the second term. All
 * is computed halved and doubled at the end, since 2^n itself overflows for the largest x. */
expr_id math_expm1(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    bool f32 = m->dtype == QN_F32;
    expr_id near = math_lt(m, math_abs(m, x), math_f(m, f32 ? 0x1p-24 : 0x1p-53));
    expr_id c = math_at_most(m, x, f32 ? 89 : 710);
    c = math_at_least(m, c, f32 ? -18 : -38); /* already -1 */
    math_integer n = math_nearest(m, c, math_f(m, LOG2_E), m->bias - 1);
    expr_id high = math_exp_rest(m, c, n), low = math_mul(m, n.value, math_ln2_low(m));
    expr_id r = math_add(m, high, low);
    expr_id t = math_fma(m, math_mul(m, r, r), math_poly(m, POLY(m, EXPM1), r), low);
    expr_id s = math_pow2(m, n);
    if (f32) t = math_expm1_late(m, s, t);
    expr_id one = math_sub(m, s, math_f(m, 0.5)), sum = math_fma(m, s, high, one);
    expr_id error = math_fma(m, s, high, math_sub(m, one, sum));
    expr_id half = math_add(m, sum, math_fma(m, s, t, error));
    return math_where(m, near, x, math_add(m, half, half));
}

/* e^-r - 1 where y = n log(2) + r. */
static expr_id math_exp_less(const math *m, math_integer n, expr_id y, expr_id *r) {
    *r = math_fma(m, n.value, math_ln2_low(m), math_exp_rest(m, y, n));
    return math_poly_from(m, POLY(m, EXP), 1, -1, *r);
}

/* a + b + small, where one of a and b is at least the other and small is less than it: what a + b
 * loses goes to the small one, so that there is one rounding. */
static expr_id math_sum_of_powers(const math *m, expr_id a, expr_id b, expr_id r, expr_id p) {
    expr_id sum = math_add(m, a, b), lost = math_sub(m, a, math_sub(m, sum, b));
    return math_add(m, sum, math_fma(m, r, p, lost));
}

/* 2^n / (2^n + e^-r) with x = n log(2) + r. Past where the result is 1 n grows no further, so that
 * nothing overflows; small results have all digits. */
expr_id math_sigmoid(const math *m, const expr_id *arg) {
    expr_id x = arg[0], r;
    bool f32 = m->dtype == QN_F32;
    expr_id gone = math_lt(m, x, math_f(m, f32 ? -104 : -746));  /* already 0 */
    x = math_unless(m, gone, math_at_most(m, x, f32 ? 20 : 40)); /* already 1 */
    math_integer n = math_nearest(m, x, math_f(m, LOG2_E), 2 * m->bias);
    expr_id p = math_exp_less(m, n, x, &r);
    expr_id power = math_unless(m, gone, math_scale(m, math_f(m, 1), n));
    return math_div(m, power, math_sum_of_powers(m, power, math_f(m, 1), r, p));
}

/* x a / (1 + a) with a = n + n^2/2, n = e^x = 2^k (1 + e): a is 2^k w with w = c + e b,
 * c = 1 + 2^(k-1) being exact where that counts. What w, x w and 1 + a lose goes to the quotient's
 * one correction. 2^k comes last, away by `scale` from where floats end. */
expr_id math_mish(const math *m, const expr_id *arg) {
    bool f32 = m->dtype == QN_F32;
    int scale = f32 ? 49 : 80;
    expr_id one = math_f(m, 1), e, x = math_at_least(m, arg[0], f32 ? -110 : -760);
    x = math_at_most(m, x, f32 ? 20 : 40); /* already x */
    math_integer k = math_exp_parts(m, x, m->bias + scale, &e);
    expr_id power = math_pow2(m, k), n = math_mul(m, power, math_f(m, ldexp(1, -scale))),
            t = math_abs(m, x);
    expr_id half = math_mul(m, power, math_f(m, ldexp(1, -scale - 1))), c = math_add(m, half, one);
    expr_id b = math_fma(m, half, e, math_add(m, c, half)), w = math_fma(m, e, b, c);
    expr_id w_lost = math_fma(m, e, b, math_sub(m, c, w)), sum = math_fma(m, n, w, one);
    expr_id sum_lost = math_fma(m, n, w, math_sub(m, one, sum)), p = math_mul(m, t, w);
    expr_id p_lost = math_fma(m, t, w_lost, math_fma(m, t, w, math_neg(m, p)));
    expr_id inverse = ir_op1(m->k, OP_RECIPROCAL, sum), q = math_mul(m, p, inverse);
    expr_id rest = math_add(m, math_fma(m, math_neg(m, q), sum, p), p_lost);
    rest = math_fma(m, math_neg(m, q), sum_lost, rest);
    q = math_mul(m, math_fma(m, rest, inverse, q), power);
    q = math_copy_sign(m, math_mul(m, q, math_f(m, ldexp(1, -scale))), arg[0]);
    return math_where(m, math_lt(m, math_f(m, f32 ? 20 : 40), arg[0]), arg[0], q);
}

/* e^t / 2 for large t, which is finite for longer than e^t: e^(t - c) times e^c / 2, where c is
 * such that the difference is exact and the factor nearly a number of the format. */
static expr_id math_half_exp(const math *m, expr_id t) {
    bool f32 = m->dtype == QN_F32;
    expr_id less = math_sub(m, t, math_f(m, f32 ? 0x1.69de9cp+5 : 0x1.660000004467cp+8));
    return math_mul(m, math_exp(m, &less),
                    math_f(m, f32 ? 0x1.32388cp+64 : 0x1.66401cc162e0bp+515));
}

/* With e = e^t - 1: (e + e / (e + 1)) / 2, and as e less something small where e is. */
expr_id math_sinh(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_abs(m, x), far = math_f(m, m->dtype == QN_F32 ? 46 : 359);
    expr_id is_far = math_lt(m, far, t), near = math_where(m, is_far, far, t);
    expr_id e = math_expm1(m, &near), q = math_div(m, e, math_add(m, e, math_f(m, 1)));
    expr_id half = math_mul(m, e, math_f(m, 0.5)), late = math_fma(m, q, math_f(m, 0.5), half);
    expr_id early = math_fma(m, math_neg(m, half), q, e);
    near = math_where(m, math_lt(m, math_f(m, 1), e), late, early);
    return math_copy_sign(m, math_where(m, is_far, math_half_exp(m, t), near), x);
}

expr_id math_cosh(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_abs(m, x), far = math_f(m, m->dtype == QN_F32 ? 46 : 359);
    expr_id is_far = math_lt(m, far, t), near = math_where(m, is_far, far, t);
    expr_id e = math_mul(m, math_exp(m, &near), math_f(m, 0.5));
    near = math_add(m, e, math_div(m, math_f(m, 0.25), e));
    return math_where(m, is_far, math_half_exp(m, t), near);
}

/* 1 - 2 / (e^2t + 1) for larger t. There the reduction needs no second constant: n is small where
 * the error of e^2t counts. */
static expr_id math_tanh_wide(const math *m, expr_id t) {
    expr_id c = math_at_most(m, t, 19.125); /* already 1 */
    math_integer n = math_nearest(m, c, math_f(m, 2 * LOG2_E), m->bias);
    expr_id r = math_fma(m, n.value, math_f(m, -LN2 / 2), c);
    expr_id one = math_f(m, 1), s = math_pow2(m, n), e = math_poly_from(m, POLY(m, EXP), 1, 2, r);
    expr_id sum = math_fma(m, math_mul(m, s, r), e, math_add(m, s, one));
    expr_id far = math_sub(m, one, math_div(m, math_f(m, 2), sum));
    expr_id u = math_mul(m, t, t);
    expr_id near = math_fma(m, math_mul(m, t, u), math_poly(m, POLY_TANH_F64, u), t);
    return math_where(m, math_lt(m, t, math_f(m, 0.875)), near, far);
}

expr_id math_tanh(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_abs(m, x);
    bool f32 = m->dtype == QN_F32;
    return math_copy_sign(m, f32 ? math_pieces(m, PIECES_TANH, t) : math_tanh_wide(m, t), x);
}

/* 1 - 2^(t G(t)) for larger t, where t G(t) approximates log2(erfc(t)); only its fraction is
 * rounded, by the fma that removes the integer. */
static expr_id math_erf_wide(const math *m, expr_id t) {
    expr_id c = math_at_most(m, t, 6); /* already 1 */
    expr_id g = math_poly_from(m, POLY_ERFC_F64, 1, 1, c);
    math_integer n = math_nearest(m, c, g, m->bias);
    expr_id e = math_poly(m, POLY(m, EXP2), math_fma(m, c, g, math_neg(m, n.value)));
    expr_id far = math_fma(m, math_pow2(m, n), math_neg(m, e), math_f(m, 1));
    expr_id u = math_mul(m, t, t), near = math_fma(m, t, math_poly(m, POLY(m, ERF), u), t);
    return math_where(m, math_lt(m, t, math_f(m, 0.9375)), near, far);
}

expr_id math_erf(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_abs(m, x);
    bool f32 = m->dtype == QN_F32;
    return math_copy_sign(m, f32 ? math_pieces(m, PIECES_ERF, t) : math_erf_wide(m, t), x);
}

/* erfc(t) e^(t^2) = v P(v) with v = 1/(t + K), as a value and what its rounding lost. It is steep
 * in v where t is small, so what the sum and the quotient lost, relative to v, times that slope
 * goes to the exponent: e^r is to come. */
static expr_id math_erfc_tail(const math *m, expr_id t, expr_id *rest, expr_id *more) {
    bool f32 = m->dtype == QN_F32;
    expr_id shift = math_f(m, f32 ? 2.5 : 4), sum = math_add(m, t, shift);
    expr_id v = ir_op1(m->k, OP_RECIPROCAL, sum), back = math_neg(m, v);
    expr_id lost = math_sub(m, t, math_sub(m, sum, shift));
    expr_id error = math_fma(m, back, lost, math_fma(m, back, sum, math_f(m, 1)));
    expr_id slope = math_fma(m, v, math_f(m, f32 ? 5.1 : 13.2), math_f(m, f32 ? 0.84 : 0.7));
    *more = math_mul(m, error, slope);
    expr_id first = math_f(m, math_poly_at(POLY(m, ERFC_TAIL), 0));
    math_two q = math_two_poly_from(m, POLY(m, ERFC_TAIL), 1, v);
    expr_id p = math_fma(m, q.high, v, first), tail = math_mul(m, v, p);
    expr_id p_rest = math_fma(m, q.high, v, math_sub(m, first, p));
    p_rest = math_fma(m, q.low, v, p_rest);
    *rest = math_fma(m, v, p_rest, math_fma(m, v, p, math_neg(m, tail)));
    return tail;
}

/* 1 - erf(x) where x is small, as 1/2 - (erf(x) - 1/2): the difference in brackets is small where
 * the result is. Elsewhere e^(-t^2) times the tail, from 2 where x is negative. */
expr_id math_erfc(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_abs(m, x), half = math_f(m, 0.5), rest, more;
    expr_id u = math_mul(m, x, x);
    expr_id near = math_fma(m, x, math_poly(m, POLY(m, ERF), u), math_sub(m, x, half));
    near = math_sub(m, half, near);
    expr_id c = math_at_most(m, t, m->dtype == QN_F32 ? 10.25 : 27.5); /* already 0 */
    expr_id tail = math_erfc_tail(m, c, &rest, &more);
    expr_id square = math_neg(m, math_mul(m, c, c)), low = math_fma(m, c, c, square);
    math_integer n = math_nearest(m, square, math_f(m, LOG2_E), 2 * m->bias);
    more = math_fma(m, n.value, math_ln2_low(m), math_sub(m, more, low));
    expr_id r = math_add(m, math_exp_rest(m, square, n), more);
    expr_id slope = math_poly_from(m, POLY(m, EXP), 1, 1, r), e = math_mul(m, r, slope);
    rest = math_fma(m, tail, math_fma(m, r, slope, math_neg(m, e)), rest); /* what that lost */
    expr_id far = math_scale(m, math_add(m, tail, math_fma(m, tail, e, rest)), n);
    expr_id other = math_sub(m, math_f(m, 2), far);
    far = math_where(m, math_lt(m, x, math_f(m, 0)), other, far);
    return math_where(m, math_lt(m, t, math_f(m, 0.75)), near, far);
}
