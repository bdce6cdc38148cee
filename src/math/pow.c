/* pow.c - pow.
 *
 * pow(x, y) = 2^(y log2|x|). The error of the logarithm is multiplied by y, so it must be smaller
 * than the result's by the exponent range: for F32, F64 arithmetic has bits to spare; for F64 the
 * logarithm is the sum of two floats.
 *
 * With log2(0) = -inf and log2(inf) = inf the formula gives most of Annex F's special cases by
 * itself, if an infinite y is first made finite but huge (so that it does not meet log2(1) = 0).
 * What remains: 1 where y = 0 or x = 1; the sign of x where y is odd; NaN where x is negative and
 * finite and y no integer.
 *
 * Integers are squared, once for each bit of the exponent. */
#include "math/math.h"

/* m 2^e = |x| as k and the float in [sqrt(1/2), sqrt(2)). x is a normal F64. */
static expr_id math_pow_split(const math *m, expr_id x, expr_id *k) {
    uint64_t root = 0x3fe6a09e667f3bcd, low = ((uint64_t)1 << 52) - 1;
    expr_id bits = math_sub(m, math_bits(m, x), math_u(m, root - ((uint64_t)1024 << 52)));
    expr_id field = math_or(m, math_shr(m, bits, 52), math_u(m, (uint64_t)1075 << 52));
    *k = math_sub(m, math_from_bits(m, field), math_f(m, 0x1p52 + 1024));
    expr_id part = math_add(m, math_and(m, bits, math_u(m, low)), math_u(m, root));
    return math_from_bits(m, part);
}

/* log2 of 0 and inf; y elsewhere. */
static expr_id math_pow_ends(const math *m, expr_id x, expr_id y) {
    y = math_where(m, math_lt(m, x, math_f(m, INFINITY)), y, x);
    return math_where(m, math_eq(m, x, math_f(m, 0)), math_f(m, -INFINITY), y);
}

/* ---- F32 ------------------------------------------------------------------------------------ */

/* |x|^y in F64 arithmetic, whose cast to F32 over- and underflows as it should. */
static expr_id math_pow_f32(const math *f, expr_id x, expr_id y) {
    math d = math_format(f->k, QN_F64), *m = &d;
    expr_id k, wide = ir_cast(f->k, QN_F64, x);
    expr_id g = math_sub(m, math_pow_split(m, wide, &k), math_f(m, 1));
    g = math_fma(m, g, math_poly(m, POLY_LOG2_SHORT_F64, g), k);
    g = math_pow_ends(m, wide, g);
    expr_id z = math_mul(m, g, ir_cast(f->k, QN_F64, y));
    z = math_at_least(m, math_at_most(m, z, 200), -200);
    math_integer n = math_nearest(m, z, 0, m->bias);
    expr_id e = math_poly(m, POLY_EXP2_SHORT_F64, math_sub(m, z, n.value));
    return ir_cast(f->k, QN_F32, math_mul(m, e, math_pow2(m, n)));
}

/* ---- F64: the logarithm in two floats -------------------------------------------------------- */

/* (part - 1) / (part + 1): the numerator is exact, the denominator is not. */
static math_two math_pow_ratio(const math *m, expr_id part) {
    expr_id one = math_f(m, 1), f = math_sub(m, part, one);
    expr_id sum = math_add(m, part, one), rest = math_sub(m, part, math_sub(m, sum, one));
    expr_id inverse = math_div(m, one, sum), s = math_mul(m, f, inverse);
    expr_id left = math_fma(m, math_neg(m, s), sum, f);
    left = math_fma(m, math_neg(m, s), rest, left);
    return (math_two){s, math_mul(m, left, inverse)};
}

/* log2(x) = k + 2 log2(e) atanh(s), atanh(s) = s (1 + s^2/3 + s^4 P(s^2)). */
math_two math_two_log2(const math *m, expr_id x) {
    expr_id small = math_lt(m, x, math_f(m, 0x1p-1022)), k;
    expr_id normal = math_where(m, small, math_mul(m, x, math_f(m, 0x1p54)), x);
    math_two s = math_pow_ratio(m, math_pow_split(m, normal, &k));
    k = math_sub(m, k, math_where(m, small, math_f(m, 54), math_f(m, 0)));
    math_two u = math_two_mul(m, s, s);
    expr_id tail = math_poly(m, POLY_ATANH_F64, u.high);
    math_two third = math_two_const(m, 0x1.5555555555555p-2, 0x1.5555555555555p-56);
    third.low = math_fma(m, tail, u.high, third.low);
    third = math_two_fast(m, third.high, third.low);
    math_two sum = math_two_mul(m, u, third);
    sum = math_two_mul(m, s, sum);
    math_two atanh = math_two_fast(m, s.high, sum.high);
    atanh.low = math_add(m, atanh.low, math_add(m, s.low, sum.low));
    math_two scale = math_two_const(m, 0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55);
    math_two l = math_two_mul(m, atanh, scale);
    math_two out = math_two_fast(m, k, l.high);
    return math_two_fast(m, out.high, math_add(m, out.low, l.low));
}

static expr_id math_pow_f64(const math *m, expr_id x, expr_id y) {
    math_two l = math_two_log2(m, x);
    l.high = math_pow_ends(m, x, l.high);
    expr_id z = math_mul(m, l.high, y), rest = math_fma(m, l.high, y, math_neg(m, z));
    rest = math_fma(m, l.low, y, rest);
    expr_id usual = math_lt(m, math_abs(m, z), math_f(m, 1100));
    rest = math_where(m, usual, rest, math_f(m, 0));
    z = math_at_least(m, math_at_most(m, z, 1100), -1100);
    math_integer n = math_nearest(m, z, 0, 2 * m->bias);
    expr_id r = math_add(m, math_sub(m, z, n.value), rest);
    return math_scale(m, math_poly(m, POLY_EXP2_F64, r), n);
}

/* ---- both ----------------------------------------------------------------------------------- */

/* The powers one writes most need no logarithm; 0 for all others. */
static expr_id math_pow_const(const math *m, expr_id x, expr_id y) {
    const ir_expr *e = ir_e(m->k, y);
    if (e->kind != EXPR_CONST) return 0;
    double c = scalar_from_bits(m->dtype, e->bits).f;
    expr_id square = 0;
    if (c == 1) return x;
    if (c == -1) return math_div(m, math_f(m, 1), x);
    if (c == 2 || c == 3) square = math_mul(m, x, x);
    if (c == 2) return square;
    if (c == 3) return math_mul(m, square, x);
    if (c == 0) return math_f(m, 1);
    return 0;
}

expr_id math_pow(const math *m, const expr_id *arg) {
    expr_id x = arg[0], y = arg[1];
    expr_id known = math_pow_const(m, x, y);
    if (known) return known;
    expr_id zero = math_f(m, 0), one = math_f(m, 1), inf = math_f(m, INFINITY);
    expr_id whole = math_rint(m, y), half = math_mul(m, y, math_f(m, 0.5));
    expr_id integer = math_eq(m, whole, y);
    expr_id odd = ir_op2(m->k, OP_NE, math_rint(m, half), half);
    odd = ir_op2(m->k, OP_AND, odd, integer);
    double most = m->dtype == QN_F32 ? 0x1p100 : 0x1p1000;
    expr_id finite = math_at_least(m, math_at_most(m, y, most), -most), t = math_abs(m, x);
    expr_id p = m->dtype == QN_F32 ? math_pow_f32(m, t, finite) : math_pow_f64(m, t, finite);
    p = math_flip_sign(m, p, math_where(m, odd, x, zero));
    expr_id negative = ir_op2(m->k, OP_AND, math_lt(m, x, zero), math_lt(m, t, inf));
    expr_id bad = ir_op2(m->k, OP_AND, negative, ir_op2(m->k, OP_NE, whole, y));
    p = math_where(m, bad, math_f(m, NAN), p);
    expr_id unit = ir_op2(m->k, OP_OR, math_eq(m, y, zero), math_eq(m, x, one));
    return math_where(m, unit, one, p);
}

/* ---- integers ------------------------------------------------------------------------------- */

/* To a negative power 1 and -1 stay what they are, and 0 is what is left of all others. */
static expr_id math_int_inverse(kernel *k, qn_dtype dtype, expr_id x, expr_id odd) {
    expr_id one = ir_const_i(k, dtype, 1), less = ir_const_i(k, dtype, -1);
    expr_id sign = ir_op3(k, OP_WHERE, odd, less, one);
    expr_id rest = ir_op3(k, OP_WHERE, ir_op2(k, OP_EQ, x, less), sign, ir_const_i(k, dtype, 0));
    return ir_op3(k, OP_WHERE, ir_op2(k, OP_EQ, x, one), one, rest);
}

expr_id math_int_pow(kernel *k, qn_dtype dtype, expr_id x, expr_id y) {
    int bits = 8 * (int)qn_dtype_size(dtype) - !dtype_is_unsigned(dtype);
    expr_id zero = ir_const_i(k, dtype, 0), r = ir_const_i(k, dtype, 1), power = x, odd = 0;
    for (int i = 0; i < bits; i++) {
        expr_id bit = ir_op2(k, OP_AND, y, ir_const_bits(k, dtype, (uint64_t)1 << i));
        expr_id there = ir_op2(k, OP_NE, bit, zero);
        if (i)
            power = ir_op2(k, OP_MUL, power, power);
        else
            odd = there;
        r = ir_op3(k, OP_WHERE, there, ir_op2(k, OP_MUL, r, power), r);
    }
    if (dtype_is_unsigned(dtype)) return r;
    expr_id below = ir_op2(k, OP_LT, y, zero);
    return ir_op3(k, OP_WHERE, below, math_int_inverse(k, dtype, x, odd), r);
}
