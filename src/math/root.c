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
 * logaddexp the two cancel where the result is near 0: F32 is computed in F64; in F64 the error
 * stays one unit of the larger term. */
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

/* The distance is corrected by what its rounding lost: e^-(d + l) = e^-d (1 - l). */
expr_id math_logaddexp(const math *m, const expr_id *arg) {
    expr_id x = arg[0], y = arg[1];
    if (m->dtype == QN_F32) {
        math d = math_format(m->k, QN_F64);
        expr_id wide[2] = {ir_cast(m->k, QN_F64, x), ir_cast(m->k, QN_F64, y)};
        return ir_cast(m->k, QN_F32, math_logaddexp(&d, wide));
    }
    expr_id less = math_lt(m, x, y), zero = math_f(m, 0);
    expr_id most = math_where(m, less, y, x), least = math_where(m, less, x, y);
    expr_id apart = math_sub(m, most, least), part = math_sub(m, most, apart);
    expr_id lost = math_sub(m, most, math_add(m, apart, part));
    lost = math_add(m, lost, math_sub(m, part, least)); /* exact */
    expr_id t = math_where(m, math_eq(m, x, y), zero, math_neg(m, apart));
    expr_id e = math_exp(m, &t);
    lost = math_where(m, math_lt(m, apart, math_f(m, 800)), lost, zero);
    e = math_fma(m, e, math_neg(m, lost), e);
    return math_add(m, most, math_log1p(m, &e));
}
