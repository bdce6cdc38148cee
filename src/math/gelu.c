/* gelu.c - gelu, gelu by tanh, silu, and their slopes.
 *
 * With t = |x| all six are an even function h(t), small where t is large, taken off what x alone
 * gives: gelu(x) = max(x, 0) - h(t) with h(t) = t Phi(-t), its slope is 1 - h(t) right of 0 and
 * h(t) left of it. So one evaluation serves both halves, nothing is taken from 1 where the result
 * is small, and infinities need no care: h ends at a t where it is below every float.
 *
 * gelu: h(t) = e^(-t^2/2) W(t). A grid n G for t^2 whose G has few bits makes t^2 + n G one fma,
 * exact but for its own rounding, although t^2 is as large as 200 and its error would count as
 * often. 2^n stands for e^(-K n G/2) then, not for e^(-n G/2), K = 2 log(2) / G being near 1; so
 * h(t) is e^(-K t^2/2), whose remainder is a polynomial, times e^((K - 1) t^2/2) W(t), of which the
 * pieces of math/piece.h are made. In F64 G has so many bits that K - 1 is next to nothing, and W
 * is a polynomial in 1/(t + 5), or near 0 what erf leaves of 1/2.
 *
 * gelu by tanh: h(t) = t / (1 + e^z) with z = t (a + b t^2). log2(e) is in a and b, and what z
 * loses in its sum and products is added to its fraction. silu likewise, with z = t.
 *
 * Powers of two are kept away from where floats end by a factor SCALE, which the last fma takes
 * off again, with the only rounding that results below the normal range have. */
#include "math/math.h"

/* 2^49 and 2^80. */
static int math_scale_bits(const math *m) {
    return m->dtype == QN_F32 ? 49 : 80;
}

/* t = |x|, but not beyond where h(t) is nothing. */
static expr_id math_size(const math *m, expr_id x, double most) {
    return math_at_most(m, math_abs(m, x), most);
}

/* x right of 0 and 0 left of it, less what h is times SCALE. */
static expr_id math_right_less(const math *m, expr_id x, expr_id h) {
    expr_id right = math_at_least(m, x, -0.0); /* keeps both zeros and NaN */
    return math_fma(m, h, math_f(m, -ldexp(1, -math_scale_bits(m))), right);
}

/* 1 - h right of 0 and h left of it. */
static expr_id math_slope_of(const math *m, expr_id x, expr_id h) {
    expr_id zero = math_f(m, 0), one = math_f(m, 1), left = math_lt(m, x, zero);
    double scale = ldexp(1, -math_scale_bits(m));
    expr_id factor = math_where(m, left, math_f(m, scale), math_f(m, -scale));
    return math_fma(m, h, factor, math_where(m, left, zero, one));
}

/* ---- gelu ----------------------------------------------------------------------------------- */

/* e^(-K t^2/2) = power (1 + e) / SCALE */
typedef struct math_bell {
    expr_id square, power, e;
    expr_id e_rest; /* what e's last rounding lost; F64 only */
} math_bell;

#define GRID_F32 1.375
#define GRID_F64 0x1.62e42fefa3p+0
#define BELL_F64 0x1.000000000072bp-1
#define MORE_F64 0x1.caa265188bf96p-43 /* (K - 1)/2 */

/* The scaled grid's offset is a multiple of 16, so that its product with G is a float. */
static math_bell math_bell_f32(const math *m, expr_id t) {
    double magic = 0x1.8p23 + m->bias + math_scale_bits(m);
    math_bell b = {.square = math_mul(m, t, t)};
    expr_id sum = math_fma(m, b.square, math_f(m, -1 / GRID_F32), math_f(m, magic));
    expr_id grid = math_fma(m, sum, math_f(m, GRID_F32), math_f(m, -magic * GRID_F32));
    expr_id r = math_fma(m, t, t, grid);
    b.power = math_from_bits(m, math_shl(m, math_bits(m, sum), m->mantissa));
    b.e = math_mul(m, r, math_poly_from(m, POLY_BELL_F32, 1, 1, r));
    return b;
}

/* e^`more` is a factor beside it. */
static math_bell math_bell_f64(const math *m, expr_id t, expr_id more) {
    math_bell b = {.square = math_mul(m, t, t)};
    math_integer n =
        math_nearest(m, b.square, math_f(m, -1 / GRID_F64), m->bias + math_scale_bits(m));
    expr_id r = math_fma(m, t, t, math_mul(m, n.value, math_f(m, GRID_F64)));
    more = math_fma(m, b.square, math_f(m, MORE_F64), more);
    r = math_fma(m, r, math_f(m, -BELL_F64), more);
    expr_id slope = math_mul(m, r, math_poly_from(m, POLY(m, EXP), 2, 1, r));
    b.power = math_pow2(m, n);
    b.e = math_fma(m, r, slope, r);
    b.e_rest = math_fma(m, r, slope, math_sub(m, r, b.e));
    return b;
}

/* A step of Horner's rule and what it lost. */
static math_two math_step(const math *m, expr_id p, expr_id v, int i) {
    expr_id c = math_f(m, math_poly_at(POLY_NDTR_TAIL_F64, i)), sum = math_fma(m, p, v, c);
    expr_id product = math_sub(m, sum, c), lost = math_fma(m, p, v, math_neg(m, product));
    return (math_two){sum, math_add(m, math_sub(m, c, math_sub(m, sum, product)), lost)};
}

/* W(t) = e^(t^2/2) Phi(-t) = v P(v), v = 1/(t + 5), times e^*more: W is steep in v, so what the sum
 * and the quotient lost of v, times W's slope there, goes to the exponent. */
static math_two math_mills(const math *m, expr_id t, expr_id *more) {
    expr_id five = math_f(m, 5), sum = math_add(m, t, five);
    expr_id v = ir_op1(m->k, OP_RECIPROCAL, sum), back = math_neg(m, v);
    expr_id lost = math_sub(m, t, math_sub(m, sum, five));
    expr_id error = math_fma(m, back, lost, math_fma(m, back, sum, math_f(m, 1)));
    expr_id slope = math_fma(m, v, math_f(m, 63.8), math_f(m, 2.27));
    *more = math_mul(m, error, math_fma(m, v, slope, math_f(m, 1)));
    math_two c = math_step(m, math_poly_from(m, POLY_NDTR_TAIL_F64, 3, 1, v), v, 2);
    math_two q = math_step(m, c.high, v, 1), p = math_step(m, q.high, v, 0);
    q.low = math_fma(m, c.low, v, q.low);
    expr_id w = math_mul(m, v, p.high), p_lost = math_fma(m, q.low, v, p.low);
    return (math_two){w, math_fma(m, v, p_lost, math_fma(m, v, p.high, math_neg(m, w)))};
}

/* Where that is not defined: Phi(-t) = 1/4 - (erf(t / sqrt(2)) / 2 - 1/4), the difference in
 * brackets being small where the result is. */
static math_two math_ndtr_near(const math *m, expr_id t, expr_id square) {
    expr_id c = math_f(m, 0x1.6a09e667f3bcdp-2), low = math_f(m, -0x1.bdd3413b26456p-56);
    expr_id z = math_mul(m, t, c), lost = math_fma(m, t, low, math_fma(m, t, c, math_neg(m, z)));
    expr_id half = math_mul(m, square, math_f(m, 0.5)), quarter = math_f(m, -0.25);
    expr_id erf = math_fma(m, z, math_poly(m, POLY_ERF_F64, half), math_add(m, z, quarter));
    math_two q = math_two_fast(m, quarter, erf);
    q.low = math_fma(m, lost, math_f(m, 0.9), q.low);
    return (math_two){math_neg(m, q.high), math_neg(m, q.low)};
}

/* (a.high + a.low) (1 + e) power */
static expr_id math_times_bell(const math *m, math_two a, math_bell b) {
    a.low = math_fma(m, a.high, b.e_rest, a.low);
    expr_id y = math_add(m, a.high, math_fma(m, a.high, b.e, a.low));
    return math_mul(m, y, b.power);
}

/* SCALE h(t) in F32, from a row of pieces. */
static expr_id math_by_pieces(const math *m, int pieces, expr_id t) {
    math_bell b = math_bell_f32(m, t);
    return math_mul(m, math_pieces_of(m, pieces, t, b.e), b.power);
}

static expr_id math_is_near(const math *m, math_bell b) {
    return math_lt(m, b.square, math_f(m, 1.125));
}

static expr_id math_gelu_f64(const math *m, expr_id t) {
    expr_id more;
    math_two w = math_mills(m, t, &more);
    math_bell b = math_bell_f64(m, t, more);
    expr_id y = math_mul(m, t, w.high), lost = math_fma(m, t, w.high, math_neg(m, y));
    expr_id far = math_times_bell(m, (math_two){y, math_fma(m, t, w.low, lost)}, b);
    math_two q = math_ndtr_near(m, t, b.square);
    expr_id near = math_fma(m, t, q.high, math_mul(m, t, q.low));
    near = math_mul(m, near, math_f(m, ldexp(1, math_scale_bits(m))));
    return math_where(m, math_is_near(m, b), near, far);
}

expr_id math_gelu(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    bool f32 = m->dtype == QN_F32;
    expr_id t = math_size(m, x, f32 ? math_pieces_most(PIECES_GELU) : 38.75);
    return math_right_less(m, x, f32 ? math_by_pieces(m, PIECES_GELU, t) : math_gelu_f64(m, t));
}

/* Phi(-t) - t phi(t), phi(t) = e^(-t^2/2) / sqrt(2 pi): 0 at 0.75, where both have to be exact. */
static expr_id math_gelu_slope_f64(const math *m, expr_id t) {
    expr_id more, c = math_f(m, 0x1.9884533d43651p-2), c_low = math_f(m, -0x1.cbc0d30ebfd15p-56);
    math_two w = math_mills(m, t, &more), q;
    math_bell b = math_bell_f64(m, t, math_f(m, 0));
    expr_id y = math_neg(m, math_mul(m, t, c)), lost = math_fma(m, t, c, y);
    lost = math_neg(m, math_fma(m, t, c_low, lost));
    math_two far = math_two_fast(m, y, w.high); /* y is larger where that counts */
    expr_id rest = math_fma(m, w.high, more, math_add(m, w.low, lost));
    far.low = math_add(m, far.low, rest);
    q = math_ndtr_near(m, t, b.square);
    expr_id one = math_f(m, 1),
            flat = math_mul(m, b.power, math_f(m, ldexp(1, -math_scale_bits(m))));
    expr_id near = math_fma(m, math_mul(m, y, flat), math_add(m, b.e, one), q.high);
    near = math_mul(m, near, math_f(m, ldexp(1, math_scale_bits(m))));
    return math_where(m, math_is_near(m, b), near, math_times_bell(m, far, b));
}

expr_id math_gelu_slope(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    bool f32 = m->dtype == QN_F32;
    expr_id t = math_size(m, x, f32 ? math_pieces_most(PIECES_GELU_SLOPE) : 38.75);
    return math_slope_of(m, x,
                         f32 ? math_by_pieces(m, PIECES_GELU_SLOPE, t) : math_gelu_slope_f64(m, t));
}

/* ---- gelu by tanh --------------------------------------------------------------------------- */

/* (1 + e^z) / SCALE, of 2^n and e, which is e^z / 2^n - 1. The 1 is added to the smaller term: the
 * sum has one rounding. */
static expr_id math_one_more(const math *m, math_integer n, expr_id e) {
    expr_id one = math_f(m, ldexp(1, -math_scale_bits(m))), power = math_pow2(m, n);
    return math_add(m, power, math_fma(m, power, e, one));
}

/* (1 + e^z) / SCALE for z = log(2) z', z' = t (a + b t^2): the high part of a has so few bits that
 * what the sum loses is a float. The power of two times the fraction is exact. */
static expr_id math_cubic(const math *m, expr_id t, expr_id square) {
    bool f32 = m->dtype == QN_F32;
    expr_id a = math_f(m, f32 ? 0x1.26aecp+1 : 0x1.26aec21bce75p+1);
    expr_id a_low = math_f(m, f32 ? 0x1.0de73acap-22 : 0x1.2976942cda18ap-48);
    expr_id b = math_f(m, f32 ? 0x1.a5a7dp-4 : 0x1.a5a7cf7572a98p-4);
    expr_id b_low = math_f(m, f32 ? -0x1.151aad0dp-29 : -0x1.b91c940e4cfcfp-58);
    expr_id square_low = math_fma(m, t, t, math_neg(m, square));
    expr_id w = math_fma(m, b, square, a), lost = math_fma(m, b, square, math_sub(m, a, w));
    expr_id low = math_fma(m, b_low, square, math_fma(m, b, square_low, a_low));
    lost = math_add(m, lost, low);
    math_integer n = math_nearest(m, t, w, m->bias - math_scale_bits(m));
    expr_id f = math_fma(m, t, lost, math_fma(m, t, w, math_neg(m, n.value)));
    expr_id one = math_f(m, ldexp(1, -math_scale_bits(m))), power = math_pow2(m, n);
    math_two slope = math_two_poly_from(m, POLY(m, EXP2), 1, f);
    f = math_mul(m, power, f);
    return math_add(m, power, math_fma(m, f, slope.high, math_fma(m, f, slope.low, one)));
}

/* q - t q (1 - q) z', q = 1 / (1 + e^z), z' the derivative; all by SCALE. */
static expr_id math_logistic_slope(const math *m, expr_id t, expr_id sum, expr_id slope) {
    expr_id q = ir_op1(m->k, OP_RECIPROCAL, sum);
    expr_id other = math_fma(m, q, math_f(m, -ldexp(1, -math_scale_bits(m))), math_f(m, 1));
    expr_id rise = slope ? math_mul(m, t, slope) : t;
    return math_fma(m, q, math_mul(m, math_neg(m, rise), other), q);
}

static double math_cubic_most(const math *m) {
    return m->dtype == QN_F32 ? 10.9375 : 21.625;
}

expr_id math_gelu_tanh(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_size(m, x, math_cubic_most(m));
    return math_right_less(m, x, math_div(m, t, math_cubic(m, t, math_mul(m, t, t))));
}

expr_id math_gelu_tanh_slope(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_size(m, x, math_cubic_most(m)), square = math_mul(m, t, t);
    expr_id slope =
        math_fma(m, square, math_f(m, 0x1.b6676bf7450fp-3), math_f(m, 0x1.9884533d43651p+0));
    return math_slope_of(m, x, math_logistic_slope(m, t, math_cubic(m, t, square), slope));
}

/* ---- silu ----------------------------------------------------------------------------------- */

static double math_linear_most(const math *m) {
    return m->dtype == QN_F32 ? 110 : 760;
}

expr_id math_silu(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_size(m, x, math_linear_most(m)), e;
    math_integer n = math_exp_parts(m, t, m->bias - math_scale_bits(m), &e);
    return math_right_less(m, x, math_div(m, t, math_one_more(m, n, e)));
}

expr_id math_silu_slope(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_size(m, x, math_linear_most(m)), e;
    math_integer n = math_exp_parts(m, t, m->bias - math_scale_bits(m), &e);
    return math_slope_of(m, x, math_logistic_slope(m, t, math_one_more(m, n, e), 0));
}
