/* math.c - the mathematical functions as expressions over native operations.
 *
 * Every device computes exp, log, sin, tanh, erf, ... by the formulas of math_*.c, so they agree
 * with each other to the last bit, and no emitter calls a library. Native, and so allowed in a
 * formula, is what every machine has: sign, absolute value, reciprocal, square root, the roundings,
 * arithmetic, minimum and maximum, comparisons, bit operations, shifts, casts, select and fma.
 *
 * Errors stand in the table MATH_FUNCTIONS of ir/functions.h, costs in ops.h. F16 and BF16 are
 * computed in F32 and rounded once more. NaN, infinities, -0, subnormal arguments and results,
 * overflow and underflow are as C's Annex F has them; sin and cos are right for arguments of every
 * size.
 * floor_div and mod are native: they are divisions. */
#include "math/math.h"

/* ---- the vocabulary ------------------------------------------------------------------------- */

static const struct {
    int n;
    double c[24];
} polynomials[POLY_COUNT] = {
#define X(NAME, FORMAT, COUNT, ...) [POLY_##NAME##_##FORMAT] = {COUNT, {__VA_ARGS__}},
#include "math/poly.h"
#undef X
};

math math_format(kernel *k, qn_dtype dtype) {
    if (dtype == QN_F64) return (math){k, QN_F64, QN_U64, 52, 1023};
    return (math){k, QN_F32, QN_U32, 23, 127};
}

expr_id math_poly_from(const math *m, int poly, int from, double step, expr_id x) {
    double power = 1, c[COUNT_OF(polynomials[0].c)];
    int n = polynomials[poly].n;
    for (int i = 0; i < n; i++, power *= step) c[i] = polynomials[poly].c[i] * power;
    expr_id sum = math_f(m, c[n - 1]);
    for (int i = n - 1; i-- > from;) sum = math_fma(m, sum, x, math_f(m, c[i]));
    return sum;
}

expr_id math_poly(const math *m, int poly, expr_id x) {
    return math_poly_from(m, poly, 0, 1, x);
}

double math_poly_at(int poly, int i) {
    return polynomials[poly].c[i];
}

expr_id math_at_most(const math *m, expr_id x, double c) {
    expr_id limit = math_f(m, c);
    return math_where(m, math_lt(m, limit, x), limit, x);
}

expr_id math_at_least(const math *m, expr_id x, double c) {
    expr_id limit = math_f(m, c);
    return math_where(m, math_lt(m, x, limit), limit, x);
}

/* ---- functions by pieces -------------------------------------------------------------------- */

enum { PIECE_ENTRIES = 16, PIECE_COLUMNS = 8 };

static const struct {
    int degree, shift;
    double factor, offset, most;
    double column[PIECE_COLUMNS][PIECE_ENTRIES]; /* start, value, coefficients */
} pieces_rows[PIECES_COUNT] = {
#define X(NAME, degree, shift, factor, offset, most, ...)                                          \
    [PIECES_##NAME] = {degree, shift, factor, offset, most, {__VA_ARGS__}},
#include "math/piece.h"
#undef X
};

static expr_id math_column(const math *m, const double *value, expr_id index) {
    uint64_t bits[PIECE_ENTRIES];
    for (int i = 0; i < PIECE_ENTRIES; i++)
        bits[i] = scalar_bits(m->dtype, (scalar){.f = value[i]});
    return ir_lookup(m->k, ir_table_of(m->k, m->dtype, PIECE_ENTRIES, bits), index);
}

/* The value where the piece begins and what is added to it; t becomes the place in the piece. */
static expr_id math_piece(const math *m, int pieces, expr_id t, expr_id *value, expr_id *d) {
    const double(*column)[PIECE_ENTRIES] = pieces_rows[pieces].column;
    int last = pieces_rows[pieces].degree + 1;
    expr_id sum = math_fma(m, t, math_f(m, pieces_rows[pieces].factor),
                           math_f(m, pieces_rows[pieces].offset));
    expr_id index = math_shr(m, math_bits(m, sum), pieces_rows[pieces].shift);
    *d = math_sub(m, t, math_column(m, column[0], index));
    *value = math_column(m, column[1], index);
    expr_id p = math_column(m, column[last], index);
    for (int i = last; i-- > 2;) p = math_fma(m, p, *d, math_column(m, column[i], index));
    return p;
}

/* The smaller of t and the value where the piece begins: that is t itself where the piece is near 0
 * and stands for f(t) - t, which then has few digits to lose; elsewhere the value is never more. */
expr_id math_pieces(const math *m, int pieces, expr_id t) {
    expr_id value, d;
    t = math_at_most(m, t, pieces_rows[pieces].most);
    expr_id p = math_piece(m, pieces, t, &value, &d);
    value = math_where(m, math_lt(m, value, t), value, t);
    return math_fma(m, p, d, value);
}

double math_pieces_most(int pieces) {
    return pieces_rows[pieces].most;
}

/* For functions whose value is 0 where a piece begins at 0. t is at most the row's largest. */
expr_id math_pieces_of(const math *m, int pieces, expr_id t, expr_id e) {
    expr_id value, d, p = math_piece(m, pieces, t, &value, &d);
    expr_id rest = math_mul(m, d, math_fma(m, p, e, p));
    return math_add(m, value, math_fma(m, value, e, rest));
}

/* ---- signs and powers of two ----------------------------------------------------------------- */

static expr_id math_sign(const math *m, expr_id x) {
    return math_and(m, math_bits(m, x), math_u(m, m->dtype == QN_F32 ? 1ull << 31 : 1ull << 63));
}

expr_id math_flip_sign(const math *m, expr_id y, expr_id x) {
    return math_from_bits(m, math_xor(m, math_bits(m, y), math_sign(m, x)));
}

expr_id math_copy_sign(const math *m, expr_id y, expr_id x) {
    return math_from_bits(m, math_or(m, math_bits(m, y), math_sign(m, x)));
}

math_integer math_nearest(const math *m, expr_id x, expr_id scale, int offset) {
    expr_id magic = math_f(m, (m->mantissa == 23 ? 0x1.8p23 : 0x1.8p52) + offset);
    expr_id sum = scale ? math_fma(m, x, scale, magic) : math_add(m, x, magic);
    expr_id value = math_sub(m, sum, magic);
    return (math_integer){value, math_bits(m, sum)};
}

expr_id math_pow2(const math *m, math_integer n) {
    return math_from_bits(m, math_shl(m, n.bits, m->mantissa));
}

/* Two factors, 2^(n/2) and 2^(n - n/2): each normal, and only the second product rounds. */
expr_id math_scale(const math *m, expr_id x, math_integer n) {
    math_integer half = {0, math_shr(m, n.bits, 1)};
    math_integer rest = {0, math_sub(m, n.bits, half.bits)};
    x = math_mul(m, x, math_pow2(m, half));
    return math_mul(m, x, math_pow2(m, rest));
}

/* ---- the expansion -------------------------------------------------------------------------- */

typedef expr_id (*math_function)(const math *m, const expr_id *x);
static const math_function functions[OP_COUNT] = {
#define X(OP, name, ...) [OP_##OP] = math_##name,
    MATH_FUNCTIONS(X)
#undef X
};

/* Integers are whole already. */
static expr_id math_int_op(kernel *k, int op, qn_dtype dtype, const expr_id *arg) {
    switch (op) {
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND:
    case OP_TRUNC:
        return arg[0];
    case OP_POW:
        return math_int_pow(k, dtype, arg[0], arg[1]);
    default:
        return 0;
    }
}

expr_id math_expand_op(kernel *k, int op, qn_dtype dtype, const expr_id *arg) {
    if (!dtype_is_float(dtype)) return math_int_op(k, op, dtype, arg);
    if (!ir_expands(op, dtype)) return 0;
    math m = math_format(k, dtype);
    expr_id x[2] = {0};
    for (int i = 0; i < op_rows[op].arity; i++) x[i] = ir_cast(k, m.dtype, arg[i]);
    return ir_cast(k, dtype, functions[op](&m, x));
}

static expr_id math_rewriter(kernel *k, const ir_expr *e, void *user) {
    expr_id expanded = e->kind == EXPR_OP ? math_expand_op(k, e->op, e->dtype, e->arg) : 0;
    return expanded ? expanded : ir_rebuild(k, e, user);
}

/* A formula is about loads of no memory: these stay as they are. */
static expr_id formula_rewriter(kernel *k, const ir_expr *e, void *user) {
    if (e->kind != EXPR_OP) return ir_intern(k, e);
    return math_rewriter(k, e, user);
}

expr_id math_expand_formula(kernel *k, expr_id e) {
    return ir_rewrite_expr(k, e, formula_rewriter, NULL);
}

void math_expand(kernel *k) {
    ir_rewrite(k, k->root, math_rewriter, NULL);
}
