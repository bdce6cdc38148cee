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
#ifndef QN_MATH_H
#define QN_MATH_H

#include "ir/functions.h"
#include "ir/ir.h"

#include <math.h>

/* The polynomials of poly.h. */
enum {
#define X(NAME, FORMAT, ...) POLY_##NAME##_##FORMAT,
#include "math/poly.h"
#undef X
    POLY_COUNT
};
#define POLY(m, NAME) ((m)->dtype == QN_F32 ? POLY_##NAME##_F32 : POLY_##NAME##_F64)

/* The functions of piece.h. */
enum {
#define X(NAME, ...) PIECES_##NAME,
#include "math/piece.h"
#undef X
    PIECES_COUNT
};

/* The format a function is computed in. */
typedef struct math {
    kernel *k;
    qn_dtype dtype, uint; /* F32 U32 or F64 U64 */
    int mantissa;         /* stored bits: 23 or 52 */
    int bias;             /* 127 or 1023 */
} math;

math math_format(kernel *k, qn_dtype dtype);

/* ---- math.c: the vocabulary ------------------------------------------------------------------ */

/* P(x) by Horner's rule. */
expr_id math_poly(const math *m, int poly, expr_id x);
/* The sum over i >= from of c[i] step^i x^(i - from). */
expr_id math_poly_from(const math *m, int poly, int from, double step, expr_id x);
double math_poly_at(int poly, int i); /* c[i] */

static inline expr_id math_f(const math *m, double v) {
    return ir_const_f(m->k, m->dtype, v);
}
static inline expr_id math_u(const math *m, uint64_t v) {
    return ir_const_bits(m->k, m->uint, v);
}
static inline expr_id math_add(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_ADD, a, b);
}
static inline expr_id math_sub(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_SUB, a, b);
}
static inline expr_id math_mul(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_MUL, a, b);
}
static inline expr_id math_div(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_DIV, a, b);
}
static inline expr_id math_fma(const math *m, expr_id a, expr_id b, expr_id c) {
    return ir_op3(m->k, OP_FMA, a, b, c);
}
static inline expr_id math_neg(const math *m, expr_id a) {
    return ir_op1(m->k, OP_NEG, a);
}
static inline expr_id math_abs(const math *m, expr_id a) {
    return ir_op1(m->k, OP_ABS, a);
}
static inline expr_id math_rint(const math *m, expr_id a) {
    return ir_op1(m->k, OP_ROUND, a);
}
static inline expr_id math_and(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_AND, a, b);
}
static inline expr_id math_or(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_OR, a, b);
}
static inline expr_id math_xor(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_XOR, a, b);
}
static inline expr_id math_lt(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_LT, a, b);
}
static inline expr_id math_eq(const math *m, expr_id a, expr_id b) {
    return ir_op2(m->k, OP_EQ, a, b);
}
static inline expr_id math_where(const math *m, expr_id c, expr_id a, expr_id b) {
    return ir_op3(m->k, OP_WHERE, c, a, b);
}
/* Bits of a float as an unsigned integer and back. */
static inline expr_id math_bits(const math *m, expr_id a) {
    return ir_op(m->k, OP_BITCAST, m->uint, 1, &a);
}
static inline expr_id math_from_bits(const math *m, expr_id a) {
    return ir_op(m->k, OP_BITCAST, m->dtype, 1, &a);
}
static inline expr_id math_shl(const math *m, expr_id a, int n) {
    return ir_op2(m->k, OP_SHL, a, ir_const_i(m->k, ir_e(m->k, a)->dtype, n));
}
static inline expr_id math_shr(const math *m, expr_id a, int n) {
    return ir_op2(m->k, OP_SHR, a, ir_const_i(m->k, ir_e(m->k, a)->dtype, n));
}

expr_id math_at_most(const math *m, expr_id x, double c);    /* min(x, c), NaN stays */
expr_id math_at_least(const math *m, expr_id x, double c);   /* max(x, c), NaN stays */
expr_id math_flip_sign(const math *m, expr_id y, expr_id x); /* y, negated where x has a sign */
expr_id math_copy_sign(const math *m, expr_id y, expr_id x); /* the same for y >= 0 */

/* An F32 function of t >= 0 by pieces; t is anything, past the last piece the function stays. */
expr_id math_pieces(const math *m, int pieces, expr_id t);
/* The same times 1 + e: the value where the piece begins is exact and added last, so that only the
 * small rest has roundings of its own. t is at most the largest. */
expr_id math_pieces_of(const math *m, int pieces, expr_id t, expr_id e);
double math_pieces_most(int pieces);

/* The integer nearest x*scale (scale 0: nearest x), by the magic constant. */
typedef struct math_integer {
    expr_id value; /* as a float */
    expr_id bits;  /* low bits: the integer plus an offset, in two's complement; the others are
                    rubbish that a shift left by the mantissa's width removes */
} math_integer;
math_integer math_nearest(const math *m, expr_id x, expr_id scale, int offset);
expr_id math_pow2(const math *m, math_integer n); /* 2^n, n with offset bias, -bias < n <= bias */
/* x * 2^n for x near 1 and any n down to -2 bias, n with offset 2 bias: overflow gives inf, results
 * below the normal range are rounded once. */
expr_id math_scale(const math *m, expr_id x, math_integer n);

/* x = 2^k (1 + f): f, and k as a float; 1 + f is in [sqrt(1/2), sqrt(2)), or without `root` in
 * [3/4, 3/2). Rubbish for what is not positive and finite. */
expr_id math_split(const math *m, expr_id x, bool root, expr_id *k);

math_integer math_exp_parts(const math *m, expr_id x, int offset, expr_id *e); /* exp.c */

/* ---- two.c: sums of two floats --------------------------------------------------------------- */

typedef struct math_two {
    expr_id high, low;
} math_two;

math_two math_two_fast(const math *m, expr_id a, expr_id b); /* a + b, |a| >= |b| or a = 0 */
math_two math_two_sum(const math *m, expr_id a, expr_id b);
math_two math_two_product(const math *m, expr_id a, expr_id b);
math_two math_two_mul(const math *m, math_two a, math_two b);
math_two math_two_const(const math *m, double high, double low);
/* math_poly_from with step 1, and what the last of its sums lost. */
math_two math_two_poly_from(const math *m, int poly, int from, expr_id x);
/* F64: 2^n (e^r - 1) and `power` 2^n, with x = n log(2) + r. |x| is at most 700. */
math_two math_two_expm1(const math *m, expr_id x, expr_id *power);
math_two math_two_log2(const math *m, expr_id x); /* pow.c; F64, x positive and finite */

/* ---- the functions: exp.c log.c trig.c inverse.c root.c pow.c gelu.c gamma.c ----------------- */

expr_id math_int_pow(kernel *k, qn_dtype dtype, expr_id x, expr_id y); /* pow.c */
#define X(OP, name, sources, ...) expr_id math_##name(const math *m, const expr_id *x);
MATH_FUNCTIONS(X)
#undef X

/* ---- math.c: the pass ------------------------------------------------------------------------ */

void math_expand(kernel *k);                       /* every function of a kernel */
expr_id math_expand_formula(kernel *k, expr_id e); /* of a monoid's formula (ir_combine) */
/* 0: the operation needs none. */
expr_id math_expand_op(kernel *k, int op, qn_dtype dtype, const expr_id *arg);

#endif
