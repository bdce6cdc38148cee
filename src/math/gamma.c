/* gamma.c - the logarithm of the gamma function and its derivatives digamma and trigamma.
 *
 * To the right of some point all three are Stirling's series (Abramowitz and Stegun 6.1.41, 6.3.18,
 * 6.4.12) with a minimax polynomial in 1/x^2 for its tail, which converges where the series does
 * not. To the left of it lgamma is z P(z) around 2 by the distance z from a whole number, and the
 * logarithm of what the recurrence gamma(x + 1) = x gamma(x) leaves (6.1.15); digamma is
 * (x - x0) P(x - x0), x0 its zero, and a reciprocal (6.3.5); trigamma two reciprocals (6.4.6). So
 * the zeros at 1, 2 and x0 keep all their digits. Left of 0 is the reflection of what is right of
 * it (6.1.17, 6.3.7, 6.4.7): there two terms cancel near the zeros, which lie between the poles.
 *
 * F32 is computed in F64, with shorter polynomials. In F64 the terms that cancel or are large are
 * sums of two floats. */
#include "math/math.h"

#define LN2 0x1.62e42fefa39efp-1

/* The format of the arithmetic, always F64, and whether the result has F32's digits. */
typedef struct gamma_form {
    math m;
    bool narrow;
} gamma_form;

static gamma_form gamma_open(const math *f, expr_id *x) {
    gamma_form g = {math_format(f->k, QN_F64), f->dtype == QN_F32};
    *x = ir_cast(f->k, QN_F64, *x);
    return g;
}

static expr_id gamma_poly(const gamma_form *g, int wide, int narrow, expr_id x) {
    return math_poly(&g->m, g->narrow ? narrow : wide, x);
}

/* The same and what its last step lost. */
static math_two gamma_poly_two(const gamma_form *g, int wide, int narrow, expr_id x) {
    const math *m = &g->m;
    if (g->narrow) return (math_two){math_poly(m, narrow, x), 0};
    expr_id c = math_f(m, math_poly_at(wide, 0)), q = math_poly_from(m, wide, 1, 1, x);
    expr_id p = math_fma(m, q, x, c);
    return (math_two){p, math_fma(m, q, x, math_sub(m, c, p))};
}

static expr_id gamma_inverse(const math *m, expr_id x) {
    return ir_op1(m->k, OP_RECIPROCAL, x);
}

/* log(x) for x that is positive and finite; in F32's case the low part is left out. */
static math_two gamma_log(const gamma_form *g, expr_id x) {
    const math *m = &g->m;
    if (!g->narrow)
        return math_two_mul(m, math_two_log2(m, x), math_two_const(m, LN2, 0x1.abc9e3b39803fp-56));
    expr_id k, f = math_split(m, x, true, &k);
    expr_id l = math_fma(m, f, math_poly(m, POLY_LOG2_SHORT_F64, f), k);
    return (math_two){math_mul(m, l, math_f(m, LN2)), math_f(m, 0)};
}

/* sin(pi f) / pi for |f| <= 1/2; `lost` is what is missing, unless NULL. */
static expr_id gamma_sine(const math *m, expr_id f, expr_id *lost) {
    expr_id u = math_mul(m, f, f), p = math_mul(m, u, math_poly(m, POLY_SIN_TURN_F64, u));
    expr_id s = math_fma(m, f, p, f);
    if (lost) *lost = math_fma(m, f, p, math_sub(m, f, s));
    return s;
}

/* t less the nearest whole number. */
static expr_id gamma_part(const math *m, expr_id t) {
    return math_sub(m, t, math_rint(m, t));
}

/* ---- lgamma --------------------------------------------------------------------------------- */

/* What lgamma(s) is made of: a log(w) and `rest`, for s >= -1/2. */
typedef struct gamma_terms {
    expr_id near;         /* s < 3.5; beyond a is s, w is s, and it is a (log(w) - 1) */
    expr_id a, w, w_more; /* log(w) + w_more is meant */
    math_two rest;
} gamma_terms;

/* z P(z), z = s - rint(s), and the factors by which the recurrence takes s to 2 + z. */
static gamma_terms gamma_log_near(const gamma_form *g, expr_id s) {
    const math *m = &g->m;
    expr_id one = math_f(m, 1), zero = math_f(m, 0), z = gamma_part(m, s);
    math_two p = gamma_poly_two(g, POLY_LGAMMA_F64, POLY_LGAMMA_SHORT_F64, z);
    gamma_terms t = {.near = math_lt(m, s, math_f(m, 3.5))};
    expr_id not_below = math_lt(m, math_f(m, 0.5), math_abs(m, s)); /* rint(1/2) is 0, and */
    expr_id left = math_lt(m, s, math_f(m, 1.5)), right = math_lt(m, math_f(m, 2.5), s); /* 2 */
    expr_id up = math_add(m, s, one), down = math_sub(m, s, one);
    expr_id product = math_mul(m, s, up);
    t.w = math_where(m, not_below, s, product);
    t.w = math_where(m, left, t.w, math_where(m, right, down, one));
    t.w = math_abs(m, math_where(m, t.near, t.w, s));
    t.a = math_where(m, left, math_f(m, -1), one);
    t.w_more = zero;
    t.rest = (math_two){math_mul(m, z, p.high), zero};
    if (g->narrow) return t;
    t.rest.low = math_fma(m, z, p.high, math_neg(m, t.rest.high));
    t.rest.low = math_fma(m, z, p.low, t.rest.low);
    expr_id lost = math_fma(m, s, up, math_neg(m, product));
    lost = math_fma(m, s, math_sub(m, s, math_sub(m, up, one)), lost);
    t.w_more = math_where(m, not_below, zero, math_div(m, lost, product));
    return t;
}

/* lgamma(s) for s > -1/2; where that is infinite, rubbish for 0 and else infinity. */
static math_two gamma_log_right(const gamma_form *g, expr_id s) {
    const math *m = &g->m;
    gamma_terms t = gamma_log_near(g, s);
    math_two l = gamma_log(g, t.w);
    expr_id v = gamma_inverse(m, s), u = math_mul(m, v, v), half = math_f(m, -0.5);
    expr_id tail = gamma_poly(g, POLY_LGAMMA_FAR_F64, POLY_LGAMMA_FAR_SHORT_F64, u);
    expr_id end = math_fma(m, l.high, half, math_f(m, 0x1.d67f1c864beb5p-1));
    end = math_fma(m, v, tail, end); /* log(2 pi)/2 - log(s)/2 + .. */
    expr_id a = math_where(m, t.near, t.a, s), near = t.near;
    if (g->narrow) {
        expr_id rest = math_where(m, near, t.rest.high, end);
        l.high = math_where(m, near, l.high, math_sub(m, l.high, math_f(m, 1)));
        return (math_two){math_fma(m, a, l.high, rest), math_f(m, 0)};
    }
    math_two rest = {math_where(m, near, t.rest.high, end),
                     math_where(m, near, t.rest.low, math_mul(m, l.low, half))};
    l = math_two_fast(m, l.high, math_add(m, l.low, t.w_more));
    math_two less = math_two_fast(m, l.high, math_f(m, -1));
    less.low = math_add(m, less.low, l.low);
    l.high = math_where(m, near, l.high, less.high);
    l.low = math_where(m, near, l.low, less.low);
    math_two y = math_two_product(m, a, l.high);
    y.low = math_fma(m, a, l.low, y.low);
    math_two sum = math_two_sum(m, y.high, rest.high);
    sum.low = math_add(m, sum.low, math_add(m, y.low, rest.low));
    sum.low = math_where(m, math_lt(m, sum.high, math_f(m, INFINITY)), sum.low, math_f(m, 0));
    return sum;
}

/* Left of -1/2: -log|s sin(pi s) / pi| - lgamma(s), s = -x. */
expr_id math_lgamma(const math *f, const expr_id *arg) {
    expr_id x = arg[0];
    gamma_form form = gamma_open(f, &x), *g = &form;
    const math *m = &g->m;
    expr_id inf = math_f(m, INFINITY), left = math_lt(m, math_f(m, -0.5), x);
    expr_id s = math_where(m, left, x, math_abs(m, x)), part = math_abs(m, gamma_part(m, s));
    math_two right = gamma_log_right(g, s);
    expr_id y = math_add(m, right.high, right.low), missing;
    expr_id sine = gamma_sine(m, part, &missing), w = math_mul(m, s, sine), other;
    if (g->narrow) {
        other = gamma_log(g, w).high;
    } else {
        expr_id lost = math_fma(m, s, missing, math_fma(m, s, sine, math_neg(m, w)));
        other = math_add(m, math_log(m, &w), math_add(m, math_div(m, lost, w), right.low));
    }
    other = math_neg(m, math_add(m, right.high, other));
    /* NaN is not more than -1/2 and stays NaN by the sine. */
    y = math_where(m, left, y, other);
    expr_id whole = math_eq(m, math_rint(m, x), x);
    expr_id pole = ir_op2(m->k, OP_AND, whole, math_lt(m, x, math_f(m, 0.5)));
    return ir_cast(f->k, f->dtype, math_where(m, pole, inf, y));
}

/* ---- digamma -------------------------------------------------------------------------------- */

#define PSI_ZERO     0x1.762d86356be3fp+0
#define PSI_ZERO_LOW 0x1.b86a722197829p-54

/* Left of here it is reflected; from here to 0 nothing but the pole counts. */
#define GAMMA_LEFT (-0x1p-30)

/* digamma(y) for y >= 2: log(y) - v/2 - v^2 P(v^2), v = 1/y; y + `lost` is meant. */
static math_two gamma_psi_far(const gamma_form *g, expr_id y, expr_id lost) {
    const math *m = &g->m;
    math_two l = gamma_log(g, y);
    expr_id v = gamma_inverse(m, y), u = math_mul(m, v, v);
    expr_id p = gamma_poly(g, POLY_DIGAMMA_FAR_F64, POLY_DIGAMMA_FAR_SHORT_F64, u);
    expr_id rest = math_fma(m, u, p, math_mul(m, v, math_f(m, 0.5)));
    if (g->narrow) return (math_two){l.high, math_neg(m, rest)};
    return (math_two){l.high, math_sub(m, math_fma(m, lost, v, l.low), rest)};
}

/* What the recurrence or the reflection adds to digamma(1 + t), t = |x|, for x < 1: -1/x, or
 * pi / tan(pi t). */
static math_two gamma_psi_other(const gamma_form *g, expr_id x, expr_id t, expr_id left) {
    const math *m = &g->m;
    expr_id f = gamma_part(m, t), pi = math_f(m, 0x1.921fb54442d18p+1), missing, c_missing;
    expr_id sine = gamma_sine(m, f, &missing);
    expr_id c = gamma_sine(m, math_sub(m, math_f(m, 0.5), math_abs(m, f)), &c_missing);
    expr_id inverse = gamma_inverse(m, sine), n = math_mul(m, c, pi), q = math_mul(m, n, inverse);
    expr_id v = math_neg(m, gamma_inverse(m, x)), zero = math_f(m, 0);
    expr_id high = math_where(m, math_eq(m, f, zero), math_f(m, NAN), q);
    math_two y = {math_where(m, left, high, v), 0};
    if (g->narrow) return y;
    expr_id back = math_neg(m, q), lost = math_fma(m, c, pi, math_neg(m, n));
    lost = math_fma(m, c, math_f(m, 0x1.1a62633145c07p-53), math_fma(m, c_missing, pi, lost));
    lost = math_add(m, math_fma(m, back, sine, n), math_fma(m, back, missing, lost));
    expr_id v_lost = math_mul(m, v, math_fma(m, v, x, math_f(m, 1)));
    v_lost = math_where(m, math_lt(m, t, math_f(m, 0x1p-60)), zero, v_lost);
    y.low = math_where(m, left, math_mul(m, lost, inverse), v_lost);
    return y;
}

expr_id math_digamma(const math *f, const expr_id *arg) {
    expr_id x = arg[0];
    gamma_form form = gamma_open(f, &x), *g = &form;
    const math *m = &g->m;
    expr_id one = math_f(m, 1), left = math_lt(m, x, math_f(m, GAMMA_LEFT)), t = math_abs(m, x);
    expr_id below = math_lt(m, x, one), up = math_add(m, t, one), y = math_where(m, below, up, x);
    expr_id lost = math_where(m, below, math_sub(m, t, math_sub(m, up, one)), math_f(m, 0));
    expr_id d = math_where(m, below, math_sub(m, t, math_f(m, PSI_ZERO - 1)),
                           math_sub(m, x, math_f(m, PSI_ZERO)));
    math_two p = gamma_poly_two(g, POLY_DIGAMMA_F64, POLY_DIGAMMA_SHORT_F64, d);
    expr_id product = math_mul(m, d, p.high), zero_low = math_f(m, -PSI_ZERO_LOW);
    expr_id low = math_mul(m, p.high, zero_low);
    if (!g->narrow) {
        low = math_add(m, low, math_fma(m, d, p.high, math_neg(m, product)));
        low = math_fma(m, d, p.low, low);
    }
    math_two far = gamma_psi_far(g, y, lost);
    expr_id near = math_lt(m, y, math_f(m, 2));
    math_two q = {math_where(m, near, product, far.high), math_where(m, near, low, far.low)};
    expr_id right = math_add(m, q.high, q.low), inf = math_f(m, INFINITY);
    right = math_where(m, math_lt(m, y, inf), right, y);
    math_two other = gamma_psi_other(g, x, t, left);
    expr_id sum = other.low ? math_add(m, right, other.low) : right;
    y = math_where(m, below, math_add(m, other.high, sum), right);
    return ir_cast(f->k, f->dtype, y);
}

/* ---- trigamma ------------------------------------------------------------------------------- */

/* 1 / (s + lost)^2 */
static math_two gamma_inverse_square(const gamma_form *g, expr_id s, expr_id lost) {
    const math *m = &g->m;
    expr_id v = gamma_inverse(m, s), high = math_mul(m, v, v), zero = math_f(m, 0);
    if (g->narrow) return (math_two){high, zero};
    expr_id back = math_neg(m, v), off = math_fma(m, back, s, math_f(m, 1));
    if (lost) off = math_fma(m, back, lost, off);
    expr_id low = math_fma(m, high, math_add(m, off, off), math_fma(m, v, v, math_neg(m, high)));
    expr_id tiny = math_lt(m, math_abs(m, s), math_f(m, 0x1p-400));
    return (math_two){high, math_where(m, tiny, zero, low)};
}

/* 1/s^2 and trigamma(s + 1) = 1/(s + 1)^2 + trigamma(s + 2), or trigamma(s) where s >= 2; left of 0
 * it is pi^2 / sin(pi x)^2 less that of s = 1 - x. */
expr_id math_trigamma(const math *f, const expr_id *arg) {
    expr_id x = arg[0];
    gamma_form form = gamma_open(f, &x), *g = &form;
    const math *m = &g->m;
    expr_id one = math_f(m, 1), two = math_f(m, 2);
    expr_id left = math_lt(m, x, math_f(m, GAMMA_LEFT)), t = math_abs(m, x);
    expr_id s = math_where(m, left, math_add(m, t, one), x), near = math_lt(m, s, two);
    expr_id y = math_where(m, near, math_add(m, s, two), s), v = gamma_inverse(m, y);
    expr_id u = math_mul(m, v, v);
    expr_id p = gamma_poly(g, POLY_TRIGAMMA_F64, POLY_TRIGAMMA_SHORT_F64, u);
    expr_id small = math_mul(m, u, math_fma(m, v, p, math_f(m, 0.5)));
    expr_id next = gamma_inverse(m, math_add(m, s, one));
    math_two square = gamma_inverse_square(g, s, 0);
    expr_id rest = math_fma(m, next, next, math_add(m, math_add(m, v, small), square.low));
    y = math_add(m, math_where(m, near, square.high, v), math_where(m, near, rest, small));
    expr_id missing, sine = gamma_sine(m, gamma_part(m, t), &missing);
    math_two back = gamma_inverse_square(g, sine, missing);
    expr_id other = math_add(m, back.high, math_sub(m, back.low, y));
    return ir_cast(f->k, f->dtype, math_where(m, left, other, y));
}
