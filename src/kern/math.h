/* math.h - how the files math_*.c write a formula.
 *
 * A formula is a C expression over the helpers below, each of which makes one kernel expression in
 * the format of a `math`: the float dtype the function is computed in and the integers of its size.
 * Everything is branch-free: both sides of a WHERE are computed, so a formula's cost is the count
 * of its nodes, and constants are in the expression, not in memory; functions by pieces look theirs
 * up in tables, which a vector unit has in registers.
 *
 * Three habits of these files:
 *   Rounding to an integer: x + magic, with magic = 1.5 * 2^(mantissa bits), leaves the nearest
 *     integer in the low bits of the sum's pattern; subtracting magic gives it as a float. One fma
 *     and one subtraction replace a multiplication, a rounding and a conversion.
 *   Comparisons so that NaN takes the path that keeps it: WHERE(c < x, c, x) is c for large x and x
 *     for NaN, and one instruction on most machines.
 *   Shifts on unsigned integers, which every vector unit has. */
#ifndef QN_KERN_MATH_H
#define QN_KERN_MATH_H

#include "kern/kern.h"

#include <math.h>

/* The polynomials of math_poly.h. */
enum {
#define X(NAME, FORMAT, ...) POLY_##NAME##_##FORMAT,
#include "kern/math_poly.h"
#undef X
    POLY_COUNT
};
#define POLY(m, NAME) ((m)->dtype == QN_F32 ? POLY_##NAME##_F32 : POLY_##NAME##_F64)

/* The functions of math_piece.h. */
enum {
#define X(NAME, ...) PIECES_##NAME,
#include "kern/math_piece.h"
#undef X
    PIECES_COUNT
};

/* The format a function is computed in. */
typedef struct math {
    kern *k;
    qn_dtype dtype, uint; /* F32 U32 or F64 U64 */
    int mantissa;         /* stored bits: 23 or 52 */
    int bias;             /* 127 or 1023 */
} math;

math math_format(kern *k, qn_dtype dtype);

/* ---- math.c: the vocabulary ----------------------------------------------------------------- */

/* P(x) by Horner's rule. */
kexpr math_poly(const math *m, int poly, kexpr x);
/* The sum over i >= from of c[i] step^i x^(i - from). */
kexpr math_poly_from(const math *m, int poly, int from, double step, kexpr x);
double math_poly_first(int poly); /* c[0] */

static inline kexpr math_f(const math *m, double v) {
    return kern_const_f(m->k, m->dtype, v);
}
static inline kexpr math_u(const math *m, uint64_t v) {
    return kern_const_bits(m->k, m->uint, v);
}
static inline kexpr math_add(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_ADD, a, b);
}
static inline kexpr math_sub(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_SUB, a, b);
}
static inline kexpr math_mul(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_MUL, a, b);
}
static inline kexpr math_div(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_DIV, a, b);
}
static inline kexpr math_fma(const math *m, kexpr a, kexpr b, kexpr c) {
    return kern_op3(m->k, OP_FMA, a, b, c);
}
static inline kexpr math_neg(const math *m, kexpr a) {
    return kern_op1(m->k, OP_NEG, a);
}
static inline kexpr math_abs(const math *m, kexpr a) {
    return kern_op1(m->k, OP_ABS, a);
}
static inline kexpr math_rint(const math *m, kexpr a) {
    return kern_op1(m->k, OP_ROUND, a);
}
static inline kexpr math_and(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_AND, a, b);
}
static inline kexpr math_or(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_OR, a, b);
}
static inline kexpr math_xor(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_XOR, a, b);
}
static inline kexpr math_lt(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_LT, a, b);
}
static inline kexpr math_eq(const math *m, kexpr a, kexpr b) {
    return kern_op2(m->k, OP_EQ, a, b);
}
static inline kexpr math_where(const math *m, kexpr c, kexpr a, kexpr b) {
    return kern_op3(m->k, OP_WHERE, c, a, b);
}
/* Bits of a float as an unsigned integer and back. */
static inline kexpr math_bits(const math *m, kexpr a) {
    return kern_op(m->k, OP_BITCAST, m->uint, 1, &a);
}
static inline kexpr math_from_bits(const math *m, kexpr a) {
    return kern_op(m->k, OP_BITCAST, m->dtype, 1, &a);
}
static inline kexpr math_shl(const math *m, kexpr a, int n) {
    return kern_op2(m->k, OP_SHL, a, kern_const_i(m->k, kern_e(m->k, a)->dtype, n));
}
static inline kexpr math_shr(const math *m, kexpr a, int n) {
    return kern_op2(m->k, OP_SHR, a, kern_const_i(m->k, kern_e(m->k, a)->dtype, n));
}

kexpr math_at_most(const math *m, kexpr x, double c);  /* min(x, c), NaN stays */
kexpr math_at_least(const math *m, kexpr x, double c); /* max(x, c), NaN stays */
kexpr math_flip_sign(const math *m, kexpr y, kexpr x); /* y, negated where x has a sign */
kexpr math_copy_sign(const math *m, kexpr y, kexpr x); /* the same for y >= 0 */

/* An F32 function of t >= 0 by pieces; t is anything, past the last piece the function stays. */
kexpr math_pieces(const math *m, int pieces, kexpr t);
kexpr math_pieces_at(const math *m, int pieces, kexpr t, kexpr *rest);

/* The integer nearest x*scale (scale 0: nearest x), by the magic constant. */
typedef struct math_integer {
    kexpr value; /* as a float */
    kexpr bits;  /* low bits: the integer plus an offset, in two's complement; the others are
                    rubbish that a shift left by the mantissa's width removes */
} math_integer;
math_integer math_nearest(const math *m, kexpr x, kexpr scale, int offset);
kexpr math_pow2(const math *m, math_integer n); /* 2^n, n with offset bias, -bias < n <= bias */
/* x * 2^n for x near 1 and any n down to -2 bias, n with offset 2 bias: overflow gives inf, results
 * below the normal range are rounded once. */
kexpr math_scale(const math *m, kexpr x, math_integer n);

/* x = 2^k (1 + f): f, and k as a float; 1 + f is in [sqrt(1/2), sqrt(2)), or without `root` in
 * [3/4, 3/2). Rubbish for what is not positive and finite. */
kexpr math_split(const math *m, kexpr x, bool root, kexpr *k);

/* ---- the functions: math_exp.c math_log.c math_trig.c math_inverse.c math_root.c math_pow.c -- */

/* X(OP, name, sources, error in F32, error in F64, cost in F32): the largest errors in units in the
 * last place of the result; the count of operations, bitcasts aside. tests/test_math.c holds the
 * formulas to both. The two terms of logaddexp cancel where it is near 0: its units are those of
 * the larger term in F64, and in F32 those of its 2^-29, where that is more than the result. */
#define MATH_FUNCTIONS(X)                                                                          \
    X(EXP, exp, 1, 0.90, 0.90, 21)                                                                 \
    X(EXP2, exp2, 1, 0.90, 0.90, 20)                                                               \
    X(EXPM1, expm1, 1, 0.90, 1.20, 31)                                                             \
    X(LOG, log, 1, 0.95, 0.95, 28)                                                                 \
    X(LOG2, log2, 1, 0.95, 1.00, 29)                                                               \
    X(LOG1P, log1p, 1, 0.95, 0.95, 30)                                                             \
    X(SIN, sin, 1, 0.51, 0.90, 41)                                                                 \
    X(COS, cos, 1, 0.51, 0.90, 39)                                                                 \
    X(ASIN, asin, 1, 0.60, 0.60, 33)                                                               \
    X(ACOS, acos, 1, 0.60, 0.60, 41)                                                               \
    X(ATAN, atan, 1, 0.98, 1.05, 29)                                                               \
    X(ASINH, asinh, 1, 1.75, 1.70, 44)                                                             \
    X(ACOSH, acosh, 1, 1.90, 2.00, 41)                                                             \
    X(ATANH, atanh, 1, 1.65, 1.65, 42)                                                             \
    X(CBRT, cbrt, 1, 0.51, 0.51, 53)                                                               \
    X(SOFTPLUS, softplus, 1, 1.55, 1.60, 56)                                                       \
    X(ATAN2, atan2, 2, 1.30, 1.20, 52)                                                             \
    X(HYPOT, hypot, 2, 0.51, 1.20, 12)                                                             \
    X(LOGADDEXP, logaddexp, 2, 1.60, 2.60, 89)                                                     \
    X(TANH, tanh, 1, 0.85, 1.20, 22)                                                               \
    X(SIGMOID, sigmoid, 1, 1.60, 1.60, 26)                                                         \
    X(ERF, erf, 1, 0.72, 1.05, 22)                                                                 \
    X(ERFC, erfc, 1, 1.80, 2.00, 65)                                                               \
    X(MUL_SIGMOID, mul_sigmoid, 2, 1.80, 1.80, 48)                                                 \
    X(MUL_NDTR, mul_ndtr, 2, 2.00, 3.00, 64)                                                       \
    X(POW, pow, 2, 0.51, 0.95, 70)

kexpr math_int_pow(kern *k, qn_dtype dtype, kexpr x, kexpr y); /* math_pow.c */
#define X(OP, name, sources, ...) kexpr math_##name(const math *m, const kexpr *x);
MATH_FUNCTIONS(X)
#undef X

#endif
