/* root.c - cbrt and hypot, softplus and logaddexp.
 *
 * cbrt begins with a polynomial of degree 6 for x = 2^(3n) v, v in [3/8, 3), takes one step of
 * Halley's, which triples the digits, and one of Newton's whose residual is exact, so that it is
 * the last one that rounds.
 *
 * hypot in F32 is sqrt(x*x + y*y) in F64 arithmetic, where nothing overflows and the products are
 * exact; in F64 both are first scaled by a power of two.
 *
 * softplus and logaddexp take the larger term out and leave log1p of a number in [0, 1]. In
 * logaddexp the two cancel where the result is near 0: F32 is computed in F64, and F64 is log1p of
 * e^x + e^y - 1 there, in numbers of two floats. So that has all digits of results down to 2^-50,
 * and 2^-103 of the larger term below. */
#include "math/math.h"

/* ---- roots ---------------------------------------------------------------------------------- */

static expr_id math_cbrt_step(const math *m, expr_id v, expr_id y) {
    expr_id cube = math_mul(m, math_mul(m, y, y), y), two = math_f(m, 2);
    expr_id up = math_fma(m, v, two, cube), down = math_fma(m, cube, two, v);
    return math_mul(m, y, math_div(m, up, down));
}

static expr_id math_cbrt_last(const math *m, expr_id v, expr_id y) {
    expr_id square = math_mul(m, y, y), square_low = math_fma(m, y, y, math_neg(m, square));
    expr_id cube = math_mul(m, square, y), cube_low = math_fma(m, square, y, math_neg(m, cube));
    cube_low = math_fma(m, square_low, y, cube_low);
    expr_id off = math_add(m, math_sub(m, cube, v), cube_low);
    return math_sub(m, y, math_div(m, off, math_mul(m, square, math_f(m, 3))));
}

expr_id math_cbrt(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_abs(m, x), k, f = math_split(m, t, false, &k);
    expr_id zero = math_f(m, 0), one = math_f(m, 1);
    math_integer n = math_nearest(m, k, math_f(m, 1.0 / 3), m->bias);
    expr_id left = math_fma(m, n.value, math_f(m, -3), k); /* -1, 0 or 1 */
    expr_id scale = math_where(m, math_lt(m, left, zero), math_f(m, 0.5), one);
    scale = math_where(m, math_lt(m, zero, left), math_f(m, 2), scale);
    expr_id v = math_mul(m, math_add(m, f, one), scale);
    expr_id y = math_cbrt_step(m, v, math_poly(m, POLY(m, CBRT), v));
    y = math_mul(m, math_cbrt_last(m, v, y), math_pow2(m, n));
    y = math_where(m, math_lt(m, t, math_f(m, INFINITY)), math_copy_sign(m, y, x), x);
    return math_where(m, math_eq(m, x, zero), x, y);
}

static expr_id math_hypot_f64(const math *m, expr_id a, expr_id b) {
    expr_id most = math_where(m, math_lt(m, a, b), b, a), one = math_f(m, 1);
    expr_id large = math_lt(m, math_f(m, 0x1p500), most);
    expr_id small = math_lt(m, most, math_f(m, 0x1p-400));
    expr_id up = math_f(m, 0x1p600), down = math_f(m, 0x1p-600);
    expr_id scale = math_where(m, large, down, math_where(m, small, up, one));
    expr_id back = math_where(m, large, up, math_where(m, small, down, one));
    a = math_mul(m, a, scale);
    b = math_mul(m, b, scale);
    expr_id sum = math_fma(m, a, a, math_mul(m, b, b));
    return math_mul(m, ir_op1(m->k, OP_SQRT, sum), back);
}

expr_id math_hypot(const math *m, const expr_id *arg) {
    expr_id a = math_abs(m, arg[0]), b = math_abs(m, arg[1]), inf = math_f(m, INFINITY), h;
    if (m->dtype == QN_F32) {
        math d = math_format(m->k, QN_F64);
        expr_id x = ir_cast(m->k, QN_F64, a), y = ir_cast(m->k, QN_F64, b);
        expr_id sum = math_fma(&d, x, x, math_mul(&d, y, y));
        h = ir_cast(m->k, QN_F32, ir_op1(m->k, OP_SQRT, sum));
    } else {
        h = math_hypot_f64(m, a, b);
    }
    expr_id endless = ir_op2(m->k, OP_OR, math_eq(m, a, inf), math_eq(m, b, inf));
    return math_where(m, endless, inf, h);
}

/* ---- logarithms of sums --------------------------------------------------------------------- */

expr_id math_softplus(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_neg(m, math_abs(m, x));
    t = math_exp(m, &t);
    return math_add(m, math_at_least(m, x, 0), math_log1p(m, &t));
}

/* Near 0, log1p(s) of s = e^x + e^y - 1, whose terms have two floats each. */
static expr_id math_logaddexp_near(const math *m, expr_id x, expr_id y) {
    expr_id scale_x, scale_y, one = math_f(m, 1);
    math_two a = math_two_expm1(m, math_at_most(m, math_at_least(m, x, -2), 1), &scale_x);
    math_two b = math_two_expm1(m, math_at_most(m, math_at_least(m, y, -700), 1), &scale_y);
    math_two parts = math_two_sum(m, a.high, b.high);
    math_two powers = math_two_sum(m, math_sub(m, scale_x, one), scale_y);
    math_two sum = math_two_sum(m, parts.high, powers.high);
    expr_id low = math_add(m, math_add(m, parts.low, powers.low), math_add(m, a.low, b.low));
    sum = math_two_fast(m, sum.high, math_add(m, sum.low, low));
    expr_id slope = ir_op1(m->k, OP_RECIPROCAL, math_add(m, sum.high, one));
    return math_fma(m, sum.low, slope, math_log1p(m, &sum.high));
}

/* The distance is corrected by what its rounding lost: e^-(d + l) = e^-d (1 - l). */
expr_id math_logaddexp(const math *m, const expr_id *arg) {
    expr_id x = arg[0], y = arg[1];
    bool f32 = m->dtype == QN_F32;
    math d = math_format(m->k, QN_F64), *w = &d;
    if (f32) x = ir_cast(m->k, QN_F64, x), y = ir_cast(m->k, QN_F64, y);
    expr_id less = math_lt(w, x, y), zero = math_f(w, 0);
    expr_id most = math_where(w, less, y, x), least = math_where(w, less, x, y);
    expr_id apart = math_sub(w, most, least), part = math_sub(w, most, apart);
    expr_id lost = math_sub(w, most, math_add(w, apart, part));
    lost = math_add(w, lost, math_sub(w, part, least)); /* exact */
    expr_id t = math_where(w, math_eq(w, x, y), zero, math_neg(w, apart));
    expr_id e = math_exp(w, &t);
    lost = math_where(w, math_lt(w, apart, math_f(w, 800)), lost, zero);
    e = math_fma(w, e, math_neg(w, lost), e);
    expr_id sum = math_add(w, most, math_log1p(w, &e));
    if (f32) return ir_cast(m->k, QN_F32, sum);
    expr_id near = math_lt(m, math_abs(m, sum), math_f(m, 0.5));
    near = math_and(m, near, math_lt(m, math_f(m, -700), least));
    return math_where(m, near, math_logaddexp_near(m, most, least), sum);
}
