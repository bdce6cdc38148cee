/* trig.c - sin, cos and atan.
 *
 * sin and cos need x / pi without its integer part, for x up to the largest float: the integer's
 * parity is the sign and the fraction, in [-1/2, 1/2], goes into one polynomial for sin. The cosine
 * is the sine a half turn-quarter later: 1/2 is added to x / pi. With x a multiple of 2^e, bits of
 * 1/pi that make multiples of 2 with it do not count, so from a long 1/pi one needs a window that
 * begins where x's exponent says and is as long as x's significand, plus the result's, plus about
 * as many bits as an x can be close to a multiple of pi/2.
 *
 * F32 does this in F64 arithmetic. A window of 27+27+27+53 bits serves 76 binades, so
 * there are two windows, chosen by |x| < 2^76. The products of x with the first three parts are
 * exact and so are their fractions and the sums of those.
 *
 * F64 does it in integers, which drop multiples by themselves: a window of 192 bits is chosen out
 * of 1280 by a ladder of selects, one step a bit of the exponent, and multiplied by the significand
 * modulo 2^128 as a fraction of a turn. */
#include "math/math.h"

/* ---- F32 ------------------------------------------------------------------------------------ */

/* 1/(2 pi) in pieces: weights 2^-3 to 2^-29, ..2^-56, ..2^-83, and twice the rest; then from the
 * bit of weight 2^-54 on, for x that are multiples of 2^53. */
static const double turn_parts[2][4] = {
    {0x1.45f306cp-3, 0x1.c9c8828p-31, 0x1.29fc27p-58, 0x1.5f47d4d377037p-83},
    {0x1.529fc24p-54, 0x1.abe8fa8p-81, 0x1.a6ee068p-109, 0x1.6c52b32788721p-134},
};

/* x c less the nearest integer; x c is exact. */
static expr_id math_fraction(const math *m, expr_id x, expr_id c) {
    expr_id v = math_mul(m, x, c);
    return math_sub(m, v, math_rint(m, v));
}

/* The part of v that is left when the nearest integer goes to the sum n. */
static expr_id math_take_integer(const math *m, expr_id v, expr_id *n) {
    expr_id whole = math_rint(m, v);
    *n = *n ? math_add(m, *n, whole) : whole;
    return math_sub(m, v, whole);
}

/* sin(pi (t/pi + shift)), in F64. */
static expr_id math_sin_f32(const math *f, expr_id t, double shift) {
    math d = math_format(f->k, QN_F64), *m = &d;
    expr_id near = math_lt(f, t, math_f(f, 0x1p76)), c[4], n = 0;
    for (int i = 0; i < 4; i++)
        c[i] = math_where(m, near, math_f(m, turn_parts[0][i]), math_f(m, turn_parts[1][i]));
    t = ir_cast(f->k, QN_F64, t);
    expr_id two = math_f(m, 2), v = math_fma(m, math_fraction(m, t, c[0]), two, math_f(m, shift));
    v = math_take_integer(m, v, &n);
    v = math_take_integer(m, math_fma(m, math_fraction(m, t, c[1]), two, v), &n);
    v = math_take_integer(m, math_fma(m, math_fraction(m, t, c[2]), two, v), &n);
    v = math_fma(m, t, c[3], v);
    expr_id y = math_mul(m, v, math_poly(m, POLY_SIN_PI_F64, math_mul(m, v, v)));
    expr_id odd = math_shl(m, math_nearest(m, n, 0, 0).bits, 63);
    return math_from_bits(m, math_xor(m, math_bits(m, y), odd));
}

/* ---- F64 ------------------------------------------------------------------------------------ */

/* 128 zero bits, then those of 1/(2 pi). */
#define TURN_WORDS 21
static const uint64_t turn_words[TURN_WORDS] = {
    0,
    0,
    0x28be60db9391054a,
    0x7f09d5f47d4d3770,
    0x36d8a5664f10e410,
    0x7f9458eaf7aef158,
    0x6dc91b8e909374b8,
    0x01924bba82746487,
    0x3f877ac72c4a69cf,
    0xba208d7d4baed121,
    0x3a671c09ad17df90,
    0x4e64758e60d4ce7d,
    0x272117e2ef7e4a0e,
    0xc7fe25fff7816603,
    0xfbcbc462d6829b47,
    0xdb4d9fb3c9f2c26d,
    0xd3d18fd9a797fa8b,
    0x5d49eeb1faf97c5e,
    0xcf41ce7de294a4ba,
    0x9afed7ec47e35742,
    0x1580cc11bf1edaea,
};

/* Four words from number `at` / 64 on, at / 64 <= 17: a ladder of selects, one step a bit. */
static void math_window(const math *m, expr_id at, expr_id w[TURN_WORDS]) {
    int live = TURN_WORDS;
    for (int i = 0; i < TURN_WORDS; i++) w[i] = math_u(m, turn_words[i]);
    for (int step = 16; step; step /= 2) {
        expr_id bit = math_and(m, at, math_u(m, (uint64_t)step * 64));
        bit = ir_op2(m->k, OP_NE, bit, math_u(m, 0));
        int need = step + 3; /* what the later steps and the four words reach */
        for (int i = 0; i < need && i + step < live; i++)
            w[i] = math_where(m, bit, w[i + step], w[i]);
        live = need;
    }
}

/* The 64 bits that begin `at` % 64 bits into a, b. */
static expr_id math_funnel(const math *m, expr_id a, expr_id b, expr_id at) {
    expr_id left = math_and(m, at, math_u(m, 63)), right = math_xor(m, left, math_u(m, 63));
    a = ir_op2(m->k, OP_SHL, a, left);
    return math_or(m, a, ir_op2(m->k, OP_SHR, math_shr(m, b, 1), right));
}

static expr_id math_low32(const math *m, expr_id a) {
    return math_and(m, a, math_u(m, 0xffffffff));
}

/* One column of a long multiplication in digits of 32 bits: returns carry + a + b and puts what
 * goes to the next column into *carry. b < 2^63. */
static expr_id math_column(const math *m, expr_id a, expr_id b, expr_id *carry) {
    expr_id sum = math_add(m, math_add(m, *carry, math_low32(m, a)), b);
    *carry = math_add(m, math_shr(m, sum, 32), math_shr(m, a, 32));
    return sum;
}

/* t / (2 pi) without its integer part, as 128 bits. t is not below 2^-76. */
static expr_id math_turn(const math *m, expr_id t, expr_id *low) {
    expr_id bits = math_bits(m, t), w[TURN_WORDS];
    expr_id at = math_sub(m, math_shr(m, bits, 52), math_u(m, 947));
    math_window(m, at, w);
    for (int i = 0; i < 3; i++) w[i] = math_funnel(m, w[i], w[i + 1], at);
    uint64_t implicit = (uint64_t)1 << 52;
    expr_id s = math_or(m, math_and(m, bits, math_u(m, implicit - 1)), math_u(m, implicit));
    expr_id s0 = math_low32(m, s), s1 = math_shr(m, s, 32);
    expr_id w3 = math_shr(m, w[1], 32), w2 = math_low32(m, w[1]);
    expr_id w1 = math_shr(m, w[2], 32), w0 = math_low32(m, w[2]);
    expr_id carry = math_shr(m, math_mul(m, s0, w1), 32);
    carry = math_add(m, carry, math_shr(m, math_mul(m, s1, w0), 32));
    expr_id sum = math_column(m, math_mul(m, s0, w2), math_mul(m, s1, w1), &carry);
    expr_id next = math_column(m, math_mul(m, s0, w3), math_mul(m, s1, w2), &carry);
    *low = math_or(m, math_shl(m, next, 32), math_low32(m, sum));
    carry = math_add(m, carry, math_mul(m, s1, w3));
    return math_add(m, math_mul(m, s, w[0]), carry);
}

/* An integer below 2^52 as a float, less c. */
static expr_id math_count(const math *m, expr_id a, double c) {
    expr_id float_bits = math_or(m, a, math_u(m, (uint64_t)1075 << 52));
    return math_sub(m, math_from_bits(m, float_bits), math_f(m, 0x1p52 + c));
}

/* sin(t + shift quarter turns) */
static expr_id math_sin_f64(const math *m, expr_id t, uint64_t shift) {
    expr_id low, high = math_turn(m, math_at_least(m, t, 0x1p-76), &low);
    /* Nearest half turn: its parity is the sign; the rest lies in [-1/4, 1/4) turns, here offset
     * by 1/4. Four counts of 32 bits make it two floats. */
    high = math_add(m, high, math_u(m, (shift + 1) << 62));
    expr_id sign = math_and(m, high, math_u(m, (uint64_t)1 << 63));
    high = math_xor(m, high, sign);
    expr_id a = math_count(m, math_shr(m, high, 32), 0x1p30),
            b = math_count(m, math_low32(m, high), 0);
    expr_id c = math_count(m, math_shr(m, low, 32), 0), d = math_count(m, math_low32(m, low), 0);
    expr_id scale = math_f(m, 0x1p-32);
    a = math_mul(m, a, math_f(m, 0x1p32));
    expr_id v = math_add(m, a, b), rest = math_sub(m, b, math_sub(m, v, a));
    rest = math_fma(m, math_fma(m, d, scale, c), scale, rest);
    expr_id v_high = math_add(m, v, rest), v_low = math_sub(m, rest, math_sub(m, v_high, v));
    expr_id pi = math_f(m, 0x1.921fb54442d18p-62), r = math_mul(m, v_high, pi); /* times 2^-63 */
    expr_id r_low = math_fma(m, v_high, pi, math_neg(m, r));
    r_low = math_fma(m, v_high, math_f(m, 0x1.1a62633145c07p-116), r_low);
    r_low = math_fma(m, v_low, pi, r_low);
    /* r + r^3 P(r^2) + r_low cos(r), the cosine roughly; so is the slope that corrects u. The term
     * of r^3 is up to 0.4 of r: it and the sum of both are taken with what rounding loses. */
    expr_id u = math_mul(m, r, r), cosine = math_fma(m, u, math_f(m, -0.405), math_f(m, 1));
    expr_id u_low = math_fma(m, r, r, math_neg(m, u));
    expr_id first = math_f(m, math_poly_at(POLY_SIN_F64, 0)), cube = math_mul(m, u, first);
    expr_id less = math_fma(m, u_low, first, math_fma(m, u, first, math_neg(m, cube)));
    expr_id high_order = math_poly_from(m, POLY_SIN_F64, 1, 1, u);
    less = math_fma(m, math_mul(m, u, u), high_order, less);
    expr_id term = math_mul(m, r, cube), term_low = math_fma(m, r, cube, math_neg(m, term));
    expr_id sum = math_add(m, r, term), sum_low = math_sub(m, term, math_sub(m, sum, r));
    less = math_fma(m, r, less, math_fma(m, r_low, cosine, math_add(m, term_low, sum_low)));
    expr_id y = math_add(m, sum, less);
    y = math_from_bits(m, math_xor(m, math_bits(m, y), sign));
    return math_where(m, math_lt(m, t, math_f(m, INFINITY)), y, math_sub(m, t, t));
}

/* ---- the functions -------------------------------------------------------------------------- */

expr_id math_sin(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    bool f32 = m->dtype == QN_F32;
    expr_id t = math_abs(m, x);
    if (f32) return math_flip_sign(m, ir_cast(m->k, QN_F32, math_sin_f32(m, t, 0)), x);
    expr_id near = math_lt(m, t, math_f(m, 0x1p-27));
    return math_where(m, near, x, math_flip_sign(m, math_sin_f64(m, t, 0), x));
}

expr_id math_cos(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    expr_id t = math_abs(m, x);
    if (m->dtype == QN_F32) return ir_cast(m->k, QN_F32, math_sin_f32(m, t, 0.5));
    return math_sin_f64(m, t, 1);
}

/* z + z^3 P(z^2) with z = |x|, or -1/|x| added to pi/2. There the two largest terms are added
 * first, the rounding error of that sum (exact) goes to the small ones, and so does that of the
 * division, times the slope 1/(1 + z^2) where it matters most, just above |x| = 1. */
expr_id math_atan(const math *m, const expr_id *arg) {
    expr_id x = arg[0];
    bool f32 = m->dtype == QN_F32;
    expr_id t = math_at_most(m, math_abs(m, x), f32 ? 0x1p40 : 0x1p80); /* already pi/2 */
    expr_id zero = math_f(m, 0), one = math_f(m, 1);
    expr_id far = math_lt(m, one, t);
    expr_id z = math_where(m, far, math_div(m, math_f(m, -1), t), t);
    expr_id high = math_f(m, f32 ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0);
    expr_id low = math_f(m, f32 ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54);
    expr_id error = math_mul(m, math_fma(m, t, z, one), z); /* -1/t is z + error */
    low = math_where(m, far, math_fma(m, error, math_f(m, 0.6), low), zero);
    high = math_where(m, far, high, zero);
    expr_id u = math_mul(m, z, z);
    expr_id rest = math_fma(m, math_mul(m, z, u), math_poly(m, POLY(m, ATAN), u), low);
    expr_id sum = math_add(m, high, z);
    rest = math_add(m, rest, math_add(m, z, math_sub(m, high, sum)));
    return math_copy_sign(m, math_add(m, sum, rest), x);
}
