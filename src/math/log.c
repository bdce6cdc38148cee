/* log.c - logarithms.
 *
 * x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), split by integer arithmetic on x's bits:
 * subtracting the pattern of sqrt(1/2) makes the exponent field k and leaves what must be added
 * back to get 1 + f. A multiple of 2^mantissa is added to keep it unsigned. f is exact, and near
 * x = 1, where log is small, k is 0 and log(1 + f) = f + f^2 P(f) is as accurate as f.
 *
 * Subnormal arguments are first multiplied by a power of two. Negative ones, zero, inf and NaN go
 * through as rubbish and are replaced at the end. */
#include "math/math.h"

#define LN2    0x1.62e42fefa39efp-1
#define LOG2_E 0x1.71547652b82fep+0

/* The exponent field of b, biased by half its range, with the bits of 1 + f below. */
typedef struct math_fields {
    expr_id bits;
    expr_id k; /* the exponent as a float */
} math_fields;

/* Pattern of the lower end of 1 + f. */
static uint64_t math_low_end(const math *m, bool root) {
    if (m->dtype == QN_F32) return root ? 0x3f3504f3 : 0x3f400000;
    return root ? 0x3fe6a09e667f3bcd : 0x3fe8000000000000;
}

/* `extra`: subtracted from the exponent. */
static math_fields math_fields_of(const math *m, expr_id x, uint64_t low_end, expr_id extra) {
    uint64_t up = (uint64_t)(m->bias + 1) << m->mantissa;
    expr_id bits = math_sub(m, math_bits(m, x), math_u(m, low_end - up));
    expr_id high = math_f(m, m->dtype == QN_F32 ? 0x1p23 : 0x1p52);
    expr_id k = math_or(m, math_shr(m, bits, m->mantissa), math_bits(m, high));
    return (math_fields){bits, math_sub(m, math_from_bits(m, k), extra)};
}

/* x = 2^k (1 + f) */
expr_id math_split(const math *m, expr_id x, bool root, expr_id *k) {
    uint64_t low_end = math_low_end(m, root);
    bool f32 = m->dtype == QN_F32;
    expr_id small = math_lt(m, x, math_f(m, f32 ? 0x1p-126 : 0x1p-1022));
    x = math_where(m, small, math_mul(m, x, math_f(m, f32 ? 0x1p24 : 0x1p54)), x);
    double high = (f32 ? 0x1p23 : 0x1p52) + m->bias + 1;
    expr_id extra = math_where(m, small, math_f(m, high + (f32 ? 24 : 54)), math_f(m, high));
    math_fields s = math_fields_of(m, x, low_end, extra);
    *k = s.k;
    expr_id low = math_and(m, s.bits, math_u(m, ((uint64_t)1 << m->mantissa) - 1));
    low = math_from_bits(m, math_add(m, low, math_u(m, low_end)));
    return math_sub(m, low, math_f(m, 1));
}

/* log's value where its argument is not positive and finite; y elsewhere. */
static expr_id math_log_special(const math *m, expr_id x, expr_id y) {
    expr_id zero = math_f(m, 0), inf = math_f(m, INFINITY);
    y = math_where(m, math_lt(m, x, inf), y, x);
    expr_id bad = math_where(m, math_eq(m, x, zero), math_f(m, -INFINITY), math_f(m, NAN));
    return math_where(m, math_lt(m, zero, x), y, bad);
}

/* k log(2) + log(1 + f). The float nearest log(2) is good enough in F32; in F64 it is off by a
 * fifth of a unit. */
static expr_id math_log_sum(const math *m, expr_id k, expr_id f) {
    expr_id square = math_mul(m, f, f), p = math_poly(m, POLY(m, LOG), f), y;
    if (m->dtype == QN_F32) {
        y = math_fma(m, square, p, f);
    } else {
        expr_id low = math_mul(m, k, math_f(m, 0x1.abc9e3b39803fp-56));
        y = math_add(m, f, math_fma(m, square, p, low));
    }
    return math_fma(m, k, math_f(m, LN2), y);
}

expr_id math_log(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    expr_id k, f = math_split(m, x, false, &k);
    return math_log_special(m, x, math_log_sum(m, k, f));
}

/* log2(1 + f) = f log2(e)_hi + f (log2(e)_lo + f P(f)): the large term is rounded only with the
 * sum. */
expr_id math_log2(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    expr_id k, f = math_split(m, x, true, &k);
    expr_id y = math_mul(m, f, math_poly(m, POLY(m, LOG2), f));
    y = math_add(m, k, math_fma(m, f, math_f(m, LOG2_E), y));
    return math_log_special(m, x, y);
}

/* k comes from 1 + x rounded, but f = 2^-k (1 + x) - 1 = 2^-k x + (2^-k - 1) from x itself. 2^-k
 * is subnormal for the largest x, hence the factor 4 here and 1/4 there. */
expr_id math_log1p(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    bool f32 = m->dtype == QN_F32;
    double high = (f32 ? 0x1p23 : 0x1p52) + m->bias + 1;
    expr_id one_x = math_add(m, x, math_f(m, 1));
    math_fields s = math_fields_of(m, one_x, math_low_end(m, false), math_f(m, high));
    uint64_t low = ((uint64_t)1 << m->mantissa) - 1;
    uint64_t four = (uint64_t)(2 * m->bias + 3) << m->mantissa; /* 4, and the fields' bias */
    expr_id field = math_and(m, s.bits, math_u(m, f32 ? (uint32_t)~low : ~low));
    expr_id scale = math_from_bits(m, math_sub(m, math_u(m, four), field));
    expr_id quarter = math_f(m, 0.25);
    expr_id f = math_fma(m, scale, quarter, math_f(m, -1));
    f = math_fma(m, math_mul(m, x, quarter), scale, f);
    expr_id y = math_log_special(m, one_x, math_log_sum(m, s.k, f));
    expr_id near = math_lt(m, math_abs(m, x), math_f(m, f32 ? 0x1p-24 : 0x1p-53));
    return math_where(m, near, x, y);
}
