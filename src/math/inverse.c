/* inverse.c - asin, acos, atan2, and the inverses of sinh, cosh and tanh.
 *
 * asin is x + x^3 P(x^2) up to 1/2. From there on it is pi/2 - 2 asin(s) with s^2 = (1 - |x|) / 2,
 * which is exact; what rounding s lost is added to the small terms. acos is the same two formulas
 * from the other side, so that it has all digits where it is small.
 *
 * atan2 is atan's polynomial for the smaller number over the larger one, and a multiple of pi/2
 * from the octant. The hyperbolic ones are log1p of what is small where x is; they are odd by
 * construction, or their domain is one side. */
#include "math/math.h"

/* pi/2 in two parts, n of them. */
static expr_id math_quarters(const math *m, double n) {
    return math_f(m, n * (m->dtype == QN_F32 ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0));
}

static expr_id math_quarters_low(const math *m, double n) {
    return math_f(m, n * (m->dtype == QN_F32 ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54));
}

/* ---- asin and acos -------------------------------------------------------------------------- */

/* asin(z) = z + rest for z in [0, 1/2], where z stands for |x|, or for the root s above. */
typedef struct math_arc {
    expr_id far; /* is it s? */
    expr_id z, rest;
} math_arc;

static math_arc math_arc_of(const math *m, expr_id x) {
    expr_id t = math_abs(m, x), half = math_f(m, 0.5);
    expr_id far = math_lt(m, half, t);
    expr_id u = math_fma(m, t, math_f(m, -0.5), half); /* (1 - t) / 2 */
    expr_id s = ir_op1(m->k, OP_SQRT, u);
    double least = m->dtype == QN_F32 ? 0x1p-60 : 0x1p-500; /* s is 0, or more than that */
    expr_id lost = math_fma(m, math_neg(m, s), s, u);
    lost = math_div(m, lost, math_at_least(m, math_add(m, s, s), least));
    lost = math_where(m, far, lost, math_f(m, 0));
    expr_id z = math_where(m, far, s, t);
    u = math_where(m, far, u, math_mul(m, x, x));
    expr_id rest = math_fma(m, math_mul(m, z, u), math_poly(m, POLY(m, ASIN), u), lost);
    return (math_arc){far, z, rest};
}

/* a - (b + rest), a in two parts; a is 0 or not less than b. */
static expr_id math_less(const math *m, expr_id a, expr_id a_low, expr_id b, expr_id rest) {
    expr_id sum = math_sub(m, a, b), lost = math_sub(m, math_sub(m, a, sum), b);
    return math_add(m, sum, math_add(m, lost, math_sub(m, a_low, rest)));
}

expr_id math_asin(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    math_arc a = math_arc_of(m, x);
    expr_id near = math_add(m, a.z, a.rest);
    expr_id far = math_less(m, math_quarters(m, 1), math_quarters_low(m, 1), math_add(m, a.z, a.z),
                            math_add(m, a.rest, a.rest));
    return math_copy_sign(m, math_where(m, a.far, far, near), x);
}

/* pi/2 - x up to 1/2; beyond, twice the arc of s, from pi where x is negative. */
expr_id math_acos(const math *m, const expr_id *arg) {
    expr_id x = arg[0], zero = math_f(m, 0), below = math_lt(m, x, zero);
    math_arc a = math_arc_of(m, x);
    expr_id z = math_where(m, a.far, math_add(m, a.z, a.z), a.z);
    expr_id rest = math_where(m, a.far, math_add(m, a.rest, a.rest), a.rest);
    expr_id other = ir_op2(m->k, OP_NE, a.far, below); /* it is added */
    z = math_where(m, other, math_neg(m, z), z);
    rest = math_where(m, other, math_neg(m, rest), rest);
    expr_id ends = math_where(m, below, math_quarters(m, 2), zero);
    expr_id ends_low = math_where(m, below, math_quarters_low(m, 2), zero);
    expr_id base = math_where(m, a.far, ends, math_quarters(m, 1));
    expr_id low = math_where(m, a.far, ends_low, math_quarters_low(m, 1));
    return math_less(m, base, low, z, rest);
}

/* ---- atan2 ---------------------------------------------------------------------------------- */

static expr_id math_is_negative(const math *m, expr_id x) { /* -0, too */
    expr_id sign = math_shr(m, math_bits(m, x), m->dtype == QN_F32 ? 31 : 63);
    return ir_op2(m->k, OP_NE, sign, math_u(m, 0));
}

/* small / large as a quotient in [0, 1] and what it lost; 0/0 is 0 and inf/inf is 1, as Annex F
 * has it. */
static expr_id math_ratio(const math *m, expr_id small, expr_id large, expr_id *lost) {
    expr_id zero = math_f(m, 0), one = math_f(m, 1), inf = math_f(m, INFINITY);
    expr_id endless = math_eq(m, large, inf);
    expr_id both = math_where(m, math_eq(m, small, inf), one, zero);
    small = math_where(m, endless, both, small);
    large = math_where(m, endless, one, math_where(m, math_eq(m, large, zero), one, large));
    expr_id z = math_div(m, small, large);
    *lost = math_div(m, math_fma(m, math_neg(m, z), large, small), large);
    return z;
}

/* The angle of the octant's edge, which is a multiple of pi/2, plus or minus the arc of z; as in
 * atan the edge and z are added first, and what that sum loses goes to the small terms, as does
 * what the quotient lost, times the slope 1/(1 + u), roughly. */
expr_id math_atan2(const math *m, const expr_id *arg) {
    expr_id y = arg[0], x = arg[1], up = math_abs(m, y), across = math_abs(m, x), lost;
    expr_id zero = math_f(m, 0), steep = math_lt(m, across, up), back = math_is_negative(m, x);
    expr_id z =
        math_ratio(m, math_where(m, steep, across, up), math_where(m, steep, up, across), &lost);
    expr_id u = math_mul(m, z, z), slope = math_fma(m, u, math_f(m, -0.5), math_f(m, 1));
    expr_id rest = math_mul(m, math_mul(m, z, u), math_poly(m, POLY(m, ATAN), u));
    rest = math_fma(m, lost, slope, rest);
    expr_id minus = ir_op2(m->k, OP_NE, steep, back);
    z = math_where(m, minus, z, math_neg(m, z));
    rest = math_where(m, minus, rest, math_neg(m, rest));
    expr_id flat = math_where(m, back, math_quarters(m, 2), zero);
    expr_id flat_low = math_where(m, back, math_quarters_low(m, 2), zero);
    expr_id edge = math_where(m, steep, math_quarters(m, 1), flat);
    expr_id low = math_where(m, steep, math_quarters_low(m, 1), flat_low);
    expr_id angle = math_copy_sign(m, math_abs(m, math_less(m, edge, low, z, rest)), y);
    expr_id bad = ir_op2(m->k, OP_OR, ir_op2(m->k, OP_NE, x, x), ir_op2(m->k, OP_NE, y, y));
    return math_where(m, bad, math_f(m, NAN), angle);
}

/* ---- asinh, acosh, atanh -------------------------------------------------------------------- */

/* log1p(near), or log(2 (1 + far)) where `large` says that this is the function to every digit. */
static expr_id math_log_of_sum(const math *m, expr_id large, expr_id near, expr_id far) {
    expr_id y = math_where(m, large, far, near);
    y = math_log1p(m, &y);
    expr_id more = math_where(m, large, math_f(m, 0x1.62e42fefa39efp-1), math_f(m, 0));
    return math_add(m, y, more);
}

static expr_id math_is_large(const math *m, expr_id x) {
    return math_lt(m, math_f(m, m->dtype == QN_F32 ? 0x1p14 : 0x1p29), x);
}

/* x + sqrt(x*x + 1) - 1 = x + x*x / (1 + sqrt(x*x + 1)) */
expr_id math_asinh(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_abs(m, x), one = math_f(m, 1), square = math_mul(m, t, t);
    expr_id root = ir_op1(m->k, OP_SQRT, math_fma(m, t, t, one));
    expr_id near = math_add(m, t, math_div(m, square, math_add(m, root, one)));
    expr_id y = math_log_of_sum(m, math_is_large(m, t), near, math_sub(m, t, one));
    return math_copy_sign(m, y, x);
}

/* With t = x - 1: log1p(t + sqrt(t*t + 2t)). While the sum is below 1 what it lost is added to the
 * logarithm, whose slope is near 1 - sum. */
expr_id math_acosh(const math *m, const expr_id *arg) {
    expr_id x = arg[0], one = math_f(m, 1), zero = math_f(m, 0), t = math_sub(m, x, one);
    expr_id root = ir_op1(m->k, OP_SQRT, math_fma(m, t, t, math_add(m, t, t)));
    math_two sum = math_two_fast(m, root, t); /* t is the smaller one there */
    expr_id small = math_lt(m, sum.high, one), slope = math_sub(m, one, sum.high);
    expr_id y = math_log_of_sum(m, math_is_large(m, x), sum.high, t);
    y = math_fma(m, math_where(m, small, sum.low, zero), math_where(m, small, slope, zero), y);
    return math_where(m, math_lt(m, x, one), math_f(m, NAN), y);
}

/* log1p(2t / (1 - t)) / 2; where t is small as 2t + 2t t / (1 - t), whose first term is exact. */
expr_id math_atanh(const math *m, const expr_id *arg) {
    expr_id x = arg[0], t = math_abs(m, x), half = math_f(m, 0.5), twice = math_add(m, t, t);
    expr_id near = math_lt(m, t, half), other = math_mul(m, twice, t);
    expr_id ratio = math_where(m, near, other, twice);
    ratio = math_div(m, ratio, math_sub(m, math_f(m, 1), t));
    ratio = math_where(m, near, math_add(m, twice, ratio), ratio);
    return math_copy_sign(m, math_mul(m, math_log1p(m, &ratio), half), x);
}
