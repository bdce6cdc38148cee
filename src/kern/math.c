/* math.c - the mathematical functions as expressions over native operations.
 *
 * Every device computes exp, log, sin, tanh, erf, ... by the formulas of math_*.c, so they agree
 * with each other to the last bit, and no emitter calls a library. Native, and so allowed in a
 * formula, is what every machine has: sign, absolute value, reciprocal, square root, the roundings,
 * arithmetic, minimum and maximum, comparisons, bit operations, shifts, casts, select and fma.
 *
 * Largest errors, in units in the last place of the result, as tests/test_math.c measures and
 * asserts them (F16 and BF16 are computed in F32 and rounded once more):
 *
 *            F32   F64                 F32   F64                 F32   F64
 *   exp      1     1        log        1     1        sin, cos   1     2
 *   exp2     1     1        log2       1     1        atan       1     1
 *   expm1    1     1        log1p      1     1        pow        1     1
 *   tanh     1     2        erf        1     1
 *
 * NaN, infinities, -0, subnormal arguments and results, overflow and underflow are as C's Annex F
 * has them; sin and cos are right for arguments of every size. floor_div and mod of floats are here
 * because they, too, are formulas and not instructions; those of integers are native. */
#include "kern/math.h"

/* ---- the vocabulary ------------------------------------------------------------------------- */

static const struct {
    int n;
    double c[24];
} polynomials[POLY_COUNT] = {
#define X(NAME, FORMAT, COUNT, ...) [POLY_##NAME##_##FORMAT] = {COUNT, {__VA_ARGS__}},
#include "kern/math_poly.h"
#undef X
};

math math_format(kern *k, qn_dtype dtype) {
    if (dtype == QN_F64) return (math){k, QN_F64, QN_U64, 52, 1023};
    return (math){k, QN_F32, QN_U32, 23, 127};
}

kexpr math_poly_from(const math *m, int poly, int from, double step, kexpr x) {
    double power = 1, c[COUNT_OF(polynomials[0].c)];
    int n = polynomials[poly].n;
    for (int i = 0; i < n; i++, power *= step) c[i] = polynomials[poly].c[i] * power;
    kexpr sum = math_f(m, c[n - 1]);
    for (int i = n - 1; i-- > from;) sum = math_fma(m, sum, x, math_f(m, c[i]));
    return sum;
}

kexpr math_poly(const math *m, int poly, kexpr x) {
    return math_poly_from(m, poly, 0, 1, x);
}

kexpr math_at_most(const math *m, kexpr x, double c) {
    kexpr limit = math_f(m, c);
    return math_where(m, math_lt(m, limit, x), limit, x);
}

kexpr math_at_least(const math *m, kexpr x, double c) {
    kexpr limit = math_f(m, c);
    return math_where(m, math_lt(m, x, limit), limit, x);
}

static kexpr math_sign(const math *m, kexpr x) {
    return math_and(m, math_bits(m, x), math_u(m, m->dtype == QN_F32 ? 1ull << 31 : 1ull << 63));
}

kexpr math_flip_sign(const math *m, kexpr y, kexpr x) {
    return math_from_bits(m, math_xor(m, math_bits(m, y), math_sign(m, x)));
}

kexpr math_copy_sign(const math *m, kexpr y, kexpr x) {
    return math_from_bits(m, math_or(m, math_bits(m, y), math_sign(m, x)));
}

math_integer math_nearest(const math *m, kexpr x, kexpr scale, int offset) {
    kexpr magic = math_f(m, (m->mantissa == 23 ? 0x1.8p23 : 0x1.8p52) + offset);
    kexpr sum = scale ? math_fma(m, x, scale, magic) : math_add(m, x, magic);
    kexpr value = math_sub(m, sum, magic);
    return (math_integer){value, math_bits(m, sum)};
}

kexpr math_pow2(const math *m, math_integer n) {
    return math_from_bits(m, math_shl(m, n.bits, m->mantissa));
}

/* Two factors, 2^(n/2) and 2^(n - n/2): each normal, and only the second product rounds. */
kexpr math_scale(const math *m, kexpr x, math_integer n) {
    math_integer half = {0, math_shr(m, n.bits, 1)};
    math_integer rest = {0, math_sub(m, n.bits, half.bits)};
    x = math_mul(m, x, math_pow2(m, half));
    return math_mul(m, x, math_pow2(m, rest));
}

/* ---- which function is which row ------------------------------------------------------------ */

static kexpr math_floor_div(const math *m, kexpr x, kexpr y) {
    return kern_op1(m->k, OP_FLOOR, math_div(m, x, y));
}

typedef struct math_function {
    kexpr (*one)(const math *m, kexpr x);
    kexpr (*two)(const math *m, kexpr x, kexpr y);
} math_function;

static const math_function functions[OP_COUNT] = {
    [OP_EXP] = {.one = math_exp},
    [OP_EXP2] = {.one = math_exp2},
    [OP_EXPM1] = {.one = math_expm1},
    [OP_LOG] = {.one = math_log},
    [OP_LOG2] = {.one = math_log2},
    [OP_LOG1P] = {.one = math_log1p},
    [OP_SIN] = {.one = math_sin},
    [OP_COS] = {.one = math_cos},
    [OP_ATAN] = {.one = math_atan},
    [OP_TANH] = {.one = math_tanh},
    [OP_ERF] = {.one = math_erf},
    [OP_POW] = {.two = math_power},
    [OP_FLOOR_DIV] = {.two = math_floor_div},
    [OP_MOD] = {.two = math_mod},
};

kexpr kern_expand_op(kern *k, int op, qn_dtype dtype, const kexpr *arg) {
    if (!dtype_is_float(dtype) || (!functions[op].one && !functions[op].two)) return 0;
    math m = math_format(k, dtype);
    kexpr x = kern_cast(k, m.dtype, arg[0]);
    if (functions[op].one) return kern_cast(k, dtype, functions[op].one(&m, x));
    return kern_cast(k, dtype, functions[op].two(&m, x, kern_cast(k, m.dtype, arg[1])));
}

static kexpr math_rewriter(kern *k, const kern_expr *e, void *user) {
    kexpr expanded = 0;
    if (e->kind == KE_OP) expanded = kern_expand_op(k, e->op, e->dtype, e->arg);
    return expanded ? expanded : kern_rebuild(k, e, user);
}

void kern_expand_math(kern *k) {
    kern_rewrite(k, k->root, math_rewriter, NULL);
}
