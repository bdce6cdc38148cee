/* scalar.c - what the ELEM rows of ops.h mean, on one scalar: for folding and for the oracle.
 *
 * The F and I columns are C expressions over x, y and z, expanded here into one switch for doubles
 * and one each for int64_t and uint64_t. Float results are computed in double and rounded once to
 * the dtype, which for + - * / and sqrt gives exactly the dtype's own correctly rounded result.
 * Integers are computed in 64 bits and wrapped; since every row is a function of the wrapped values
 * only, that is the narrower type's arithmetic.
 *
 * A row without a formula has "-" there. Each formula is followed by "- 0", which leaves a value as
 * it is (also -0.0) and makes "-" into the expression "- - 0"; such a case is never reached.
 *
 * Three rows need more than a formula on doubles and are handled before the switch: casts and
 * bitcasts look at two dtypes, and the two rows that round within (fma, floor_div) must do so in
 * the dtype. */
#include "graph/graph.h"

#include <math.h>

/* ---- functions the rows use ----------------------------------------------------------------- */

static double float_max(double x, double y) {
    if (isnan(x)) return x;
    if (isnan(y)) return y;
    return x > y ? x : y;
}

static double float_min(double x, double y) {
    if (isnan(x)) return x;
    if (isnan(y)) return y;
    return x < y ? x : y;
}

/* Exact: fmod has x's sign and no rounding; bringing it to y's side adds y once. */
static double float_mod(double x, double y) {
    double r = fmod(x, y);
    if (r == 0) return copysign(0.0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

static int64_t signed_floor_div(int64_t x, int64_t y) {
    if (y == 0) return 0;
    if (y == -1) return (int64_t)(0 - (uint64_t)x); /* wraps for the smallest */
    int64_t q = x / y;
    return q - (x % y != 0 && (x < 0) != (y < 0));
}

static int64_t signed_mod(int64_t x, int64_t y) {
    if (y == 0 || y == -1) return 0;
    int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static uint64_t unsigned_floor_div(uint64_t x, uint64_t y) {
    return y ? x / y : 0;
}

static uint64_t unsigned_mod(uint64_t x, uint64_t y) {
    return y ? x % y : 0;
}

/* A negative count is, as an unsigned one, past every width. */
static int64_t signed_shl(int64_t x, int64_t y) {
    return (uint64_t)y < 64 ? (int64_t)((uint64_t)x << y) : 0;
}

static int64_t signed_shr(int64_t x, int64_t y) {
    return x >> ((uint64_t)y < 64 ? y : 63);
}

static uint64_t unsigned_shl(uint64_t x, uint64_t y) {
    return y < 64 ? x << y : 0;
}

static uint64_t unsigned_shr(uint64_t x, uint64_t y) {
    return y < 64 ? x >> y : 0;
}

/* ---- the formulas --------------------------------------------------------------------------- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wtype-limits"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wbitwise-op-parentheses"
#endif

static double scalar_float(int op, double x, double y, double z) {
    switch (op) {
#define X(NAME, name, arity, CLASS, TYPES, F, I, ...)                                              \
    case OP_##NAME:                                                                                \
        return F - 0;
#include "graph/ops.h"
#undef X
    default:
        return 0;
    }
}

#define int_floor_div signed_floor_div
#define int_mod       signed_mod
#define int_shl       signed_shl
#define int_shr       signed_shr
static int64_t scalar_signed(int op, int64_t x, int64_t y, int64_t z) {
    typedef int64_t T;
    switch (op) {
#define X(NAME, name, arity, CLASS, TYPES, F, I, ...)                                              \
    case OP_##NAME:                                                                                \
        return I - 0;
#include "graph/ops.h"
#undef X
    default:
        return 0;
    }
}
#undef int_floor_div
#undef int_mod
#undef int_shl
#undef int_shr

#define int_floor_div unsigned_floor_div
#define int_mod       unsigned_mod
#define int_shl       unsigned_shl
#define int_shr       unsigned_shr
static uint64_t scalar_unsigned(int op, uint64_t x, uint64_t y, uint64_t z) {
    typedef uint64_t T;
    switch (op) {
#define X(NAME, name, arity, CLASS, TYPES, F, I, ...)                                              \
    case OP_##NAME:                                                                                \
        return (uint64_t)(I - 0);
#include "graph/ops.h"
#undef X
    default:
        return 0;
    }
}

#pragma GCC diagnostic pop

/* ---- casts ---------------------------------------------------------------------------------- */

static scalar scalar_cast(qn_dtype to, qn_dtype from, scalar v) {
    if (dtype_is_float(from)) {
        if (dtype_is_float(to)) return (scalar){.f = dtype_round(to, v.f)};
        uint64_t element = 0;
        dtype_set_f(to, &element, 0, v.f);
        return (scalar){.i = dtype_get_i(to, &element, 0)};
    }
    if (dtype_is_float(to)) {
        double f = from == QN_U64 ? dtype_from_u64(to, (uint64_t)v.i) : dtype_from_i64(to, v.i);
        return (scalar){.f = dtype_round(to, f)};
    }
    return (scalar){.i = to == QN_BOOL ? v.i != 0 : dtype_wrap(to, v.i)};
}

uint64_t scalar_bits(qn_dtype dtype, scalar v) {
    uint64_t bits = 0;
    if (dtype_is_float(dtype))
        dtype_set_f(dtype, &bits, 0, v.f);
    else
        dtype_set_i(dtype, &bits, 0, v.i);
    return bits;
}

scalar scalar_from_bits(qn_dtype dtype, uint64_t bits) {
    if (dtype_is_float(dtype)) return (scalar){.f = dtype_get_f(dtype, &bits, 0)};
    return (scalar){.i = dtype_get_i(dtype, &bits, 0)};
}

/* ---- one operation -------------------------------------------------------------------------- */

static bool scalar_cast_op(int op, qn_dtype dtype, qn_dtype in, scalar x, scalar *out) {
    if (op == OP_CAST) {
        *out = scalar_cast(dtype, in, x);
        return true;
    }
    if (qn_dtype_size(dtype) != qn_dtype_size(in)) return false;
    *out = scalar_from_bits(dtype, scalar_bits(in, x));
    return true;
}

static double scalar_float_op(int op, qn_dtype dtype, double x, double y, double z) {
    if (op == OP_FMA && dtype == QN_F32) return (double)fmaf((float)x, (float)y, (float)z);
    if (op == OP_FLOOR_DIV) return floor(dtype_round(dtype, x / y));
    return scalar_float(op, x, y, z);
}

bool scalar_op(int op, qn_dtype dtype, qn_dtype in, const scalar *x, scalar *out) {
    if (op <= OP_NONE || op >= OP_COUNT || op_rows[op].class_ != CLASS_ELEM) return false;
    if (op == OP_CAST || op == OP_BITCAST) return scalar_cast_op(op, dtype, in, x[0], out);
    if (op == OP_WHERE) {
        *out = x[0].i ? x[1] : x[2];
        return true;
    }
    int n = op_rows[op].arity;
    if (dtype_is_float(in)) {
        if (!op_rows[op].has_float) return false;
        double v = scalar_float_op(op, dtype, x[0].f, n > 1 ? x[1].f : 0, n > 2 ? x[2].f : 0);
        if (dtype_is_float(dtype))
            out->f = dtype_round(dtype, v);
        else
            out->i = v != 0;
        return true;
    }
    if (!op_rows[op].has_int) return false;
    int64_t a = x[0].i, b = n > 1 ? x[1].i : 0, c = n > 2 ? x[2].i : 0, v;
    if (dtype_is_unsigned(in))
        v = (int64_t)scalar_unsigned(op, (uint64_t)a, (uint64_t)b, (uint64_t)c);
    else
        v = scalar_signed(op, a, b, c);
    out->i = dtype_wrap(dtype, v);
    return true;
}

/* ---- identities of the monoids -------------------------------------------------------------- */

static int64_t int_lowest(qn_dtype d) {
    if (d == QN_BOOL || dtype_is_unsigned(d)) return 0;
    return INT64_MIN >> (64 - 8 * (int)qn_dtype_size(d));
}

static int64_t int_highest(qn_dtype d) {
    if (d == QN_BOOL) return 1;
    if (dtype_is_unsigned(d)) return dtype_wrap(d, -1);
    return INT64_MAX >> (64 - 8 * (int)qn_dtype_size(d));
}

scalar scalar_identity(int row, qn_dtype dtype) {
    if (row < 0 || row >= MONOID_COUNT) return (scalar){.i = 0};
    int64_t LOWEST = int_lowest(dtype), HIGHEST = int_highest(dtype);
    const double floats[MONOID_COUNT] = {
#define X(NAME, name, states, COMBINE, identity_f, identity_i) identity_f,
#include "graph/monoids.h"
#undef X
    };
    const int64_t ints[MONOID_COUNT] = {
#define X(NAME, name, states, COMBINE, identity_f, identity_i) identity_i,
#include "graph/monoids.h"
#undef X
    };
    if (dtype_is_float(dtype)) return (scalar){.f = floats[row]};
    return (scalar){.i = dtype_wrap(dtype, ints[row])};
}
