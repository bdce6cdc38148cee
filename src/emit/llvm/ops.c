/* ops.c - the ELEM rows of graph/ops.h as instructions, on scalars and vectors alike.
 *
 * In registers bool is i1; narrow floats are floats that hold a value of the narrow type exactly:
 * arithmetic is done in f32 and rounded after each operation, which for + - * / and sqrt gives the
 * narrow type's own correctly rounded result, since 24 >= 2*11 + 2 bits. Where f32 would round
 * twice (fma, conversions from f64 and wide integers) the bits lost are first or-ed into the last
 * place, rounding to odd.
 *
 * No fast-math flags: NaN, infinities and signed zeros behave as the rows say. */
#include "emit/llvm/llvm.h"

#include <math.h>

/* ---- types ---------------------------------------------------------------------------------- */

ll_type llvm_type(llvm *s, int dtype) {
    if (dtype == QN_BOOL) return s->t_i1;
    if (dtype_is_float(dtype)) return dtype_rows[dtype].acc == QN_F64 ? s->t_double : s->t_float;
    return s->L->IntTypeInContext(s->context, dtype_rows[dtype].bits);
}

/* Narrow floats move as integers: vectors of halfs are no first-class values everywhere. */
ll_type llvm_memory_type(llvm *s, int dtype) {
    if (dtype != QN_BOOL && !dtype_is_narrow(dtype)) return llvm_type(s, dtype);
    return s->L->IntTypeInContext(s->context, dtype_rows[dtype].bits);
}

val llvm_constant(llvm *s, int dtype, uint64_t bits) {
    ll_type t = llvm_type(s, dtype);
    if (dtype == QN_F32 || dtype == QN_F64) {
        ll_value whole = s->L->ConstInt(dtype == QN_F32 ? s->t_i32 : s->t_i64, bits, 0);
        return (val){.v = s->L->ConstBitCast(whole, t)};
    }
    if (dtype_is_float(dtype))
        return (val){.v = s->L->ConstReal(t, scalar_from_bits((qn_dtype)dtype, bits).f)};
    return llvm_int(s, t, (int64_t)bits);
}

static val masked_bits(llvm *s, val x, int64_t mask) {
    return llvm_binary(s, LL_AND, x, llvm_int_like(s, x, mask));
}

static val from_half(llvm *s, val raw) {
    if (!s->owner->isa.f16c) return llvm_soft_widen(s, QN_F16, raw);
    return llvm_cast(s, LL_FPEXT, llvm_cast(s, LL_BITCAST, raw, s->t_half), s->t_float);
}

static val to_half(llvm *s, val x) {
    if (!s->owner->isa.f16c) return llvm_soft_narrow(s, QN_F16, x);
    return llvm_cast(s, LL_BITCAST, llvm_cast(s, LL_FPTRUNC, x, s->t_half), s->t_i16);
}

val llvm_from_memory(llvm *s, int dtype, val raw) {
    if (dtype == QN_BOOL) return llvm_compare(s, LL_NE, raw, llvm_int_like(s, raw, 0));
    if (!dtype_is_narrow(dtype)) return raw;
    if (dtype == QN_F16) return from_half(s, raw);
    if (dtype != QN_BF16) return llvm_soft_widen(s, dtype, raw);
    val wide = llvm_cast(s, LL_ZEXT, raw, s->t_i32);
    wide = llvm_binary(s, LL_SHL, wide, llvm_int_like(s, wide, 16));
    return llvm_cast(s, LL_BITCAST, wide, s->t_float);
}

val llvm_to_memory(llvm *s, int dtype, val x) {
    if (dtype == QN_BOOL) return llvm_cast(s, LL_ZEXT, x, s->t_i8);
    if (!dtype_is_narrow(dtype)) return x;
    if (dtype == QN_F16) return to_half(s, x);
    if (dtype != QN_BF16) return llvm_soft_narrow(s, dtype, x);
    val wide = llvm_cast(s, LL_BITCAST, x, s->t_i32);
    wide = llvm_binary(s, LL_LSHR, wide, llvm_int_like(s, wide, 16));
    return llvm_cast(s, LL_TRUNC, wide, s->t_i16);
}

/* ---- rounding ------------------------------------------------------------------------------- */

static val is_nan(llvm *s, val x) {
    return llvm_compare_real(s, LL_UNO, x, x);
}

/* To nearest, ties to even; a NaN keeps its upper bits and becomes quiet. */
static val round_bf16(llvm *s, val x) {
    val b = llvm_cast(s, LL_BITCAST, x, s->t_i32);
    val odd = masked_bits(s, llvm_binary(s, LL_LSHR, b, llvm_int_like(s, b, 16)), 1);
    val up = llvm_binary(s, LL_ADD, odd, llvm_int_like(s, b, 0x7fff));
    val quiet = llvm_binary(s, LL_OR, b, llvm_int_like(s, b, 0x400000));
    b = llvm_select(s, is_nan(s, x), quiet, llvm_binary(s, LL_ADD, b, up));
    return llvm_cast(s, LL_BITCAST, masked_bits(s, b, -0x10000), s->t_float);
}

/* A float to the nearest value of a narrow dtype; other dtypes' values pass. */
static val rounded(llvm *s, int dtype, val x) {
    if (!dtype_is_narrow(dtype)) return x;
    if (dtype == QN_BF16) return round_bf16(s, x);
    return llvm_from_memory(s, dtype, llvm_to_memory(s, dtype, x));
}

/* A double as float, rounding to odd: rounding that once more is as good as rounding once. */
static val to_odd(llvm *s, val x) {
    val f = llvm_cast(s, LL_FPTRUNC, x, s->t_float);
    val back = llvm_cast(s, LL_FPEXT, f, s->t_double);
    val bits = llvm_cast(s, LL_BITCAST, f, s->t_i32);
    val inexact = llvm_compare_real(s, LL_UNE, back, x);
    val above = llvm_compare_real(s, LL_OGT, llvm_intrinsic(s, "llvm.fabs", 1, &back),
                                  llvm_intrinsic(s, "llvm.fabs", 1, &x));
    val down = llvm_binary(s, LL_SUB, bits, llvm_int_like(s, bits, 1));
    val odd = llvm_select(s, above, down, bits);
    odd = llvm_binary(s, LL_OR, odd, llvm_int_like(s, odd, 1));
    return llvm_cast(s, LL_BITCAST, llvm_select(s, inexact, odd, bits), s->t_float);
}

static val from_double(llvm *s, int to, val x) {
    if (to == QN_F64) return x;
    if (to == QN_F32) return llvm_cast(s, LL_FPTRUNC, x, s->t_float);
    return rounded(s, to, to_odd(s, x));
}

/* ---- conversions ---------------------------------------------------------------------------- */

/* A 64-bit integer whose low bits, where a double could not hold them, are or-ed together. */
static val sticky_integer(llvm *s, val x, bool is_unsigned) {
    int64_t big = (int64_t)1 << 53;
    val moved = is_unsigned ? x : llvm_binary(s, LL_ADD, x, llvm_int_like(s, x, big));
    val large = llvm_compare(s, LL_UGE, moved, llvm_int_like(s, x, is_unsigned ? big : 2 * big));
    val low = llvm_compare(s, LL_NE, masked_bits(s, x, 0xfff), llvm_int_like(s, x, 0));
    val stuck = llvm_binary(s, LL_OR, masked_bits(s, x, -0x1000), llvm_int_like(s, x, 0x800));
    return llvm_select(s, llvm_binary(s, LL_AND, large, low), stuck, x);
}

static val integer_to_float(llvm *s, int to, int from, val x) {
    bool is_unsigned = dtype_is_unsigned(from) || from == QN_BOOL;
    int opcode = is_unsigned ? LL_UITOFP : LL_SITOFP;
    if (dtype_rounds_integers_twice(to) && qn_dtype_size((qn_dtype)from) >= 4) {
        if (qn_dtype_size((qn_dtype)from) == 8) x = sticky_integer(s, x, is_unsigned);
        return from_double(s, to, llvm_cast(s, opcode, x, s->t_double));
    }
    return rounded(s, to, llvm_cast(s, opcode, x, llvm_type(s, to)));
}

static val float_to_unsigned(llvm *s, int to, val x) {
    ll_type types[2] = {llvm_shaped(s, llvm_type(s, to), x), s->L->TypeOf(x.v)};
    return llvm_call(s, (llvm_name){"llvm.fptoui.sat", 2, types}, 1, &x.v, x.level, x.vec);
}

/* Truncation that saturates, NaN giving 0; narrow integers by way of i32. What is out of range is
 * so before it is converted: of vectors the saturating intrinsic becomes a branch an element. */
static val float_to_integer(llvm *s, int to, int from, val x) {
    int size = (int)qn_dtype_size((qn_dtype)to), digits = from == QN_F64 ? 53 : 24;
    bool is_unsigned = dtype_is_unsigned(to), exact = 8 * size - 1 <= digits;
    if (is_unsigned && size >= 4) return float_to_unsigned(s, to, x);
    ll_type wide = size == 8 ? s->t_i64 : s->t_i32;
    double above = ldexp(1, is_unsigned ? 8 * size : 8 * size - 1); /* the first that is not held */
    val least = llvm_number_like(s, x, is_unsigned ? 0 : -above), none = llvm_number_like(s, x, 0);
    val most = llvm_number_like(s, x, exact ? above - 1 : 0);
    val over = llvm_compare_real(s, LL_OGE, x, llvm_number_like(s, x, above));
    x = llvm_select(s, llvm_compare_real(s, LL_OLT, x, least), least, x);
    x = llvm_select(s, is_nan(s, x), none, llvm_select(s, over, most, x));
    val r = llvm_cast(s, LL_FPTOSI, x, wide);
    if (!exact) r = llvm_select(s, over, llvm_int_like(s, r, size == 8 ? INT64_MAX : INT32_MAX), r);
    return size >= 4 ? r : llvm_cast(s, LL_TRUNC, r, llvm_type(s, to));
}

val llvm_convert(llvm *s, int to, int from, val x) {
    if (to == from) return x;
    ll_type t = llvm_type(s, to);
    if (to == QN_BOOL && dtype_is_float(from))
        return llvm_compare_real(s, LL_UNE, x, llvm_number_like(s, x, 0));
    if (to == QN_BOOL) return llvm_compare(s, LL_NE, x, llvm_int_like(s, x, 0));
    if (dtype_is_float(to)) {
        if (!dtype_is_float(from)) return integer_to_float(s, to, from, x);
        if (from == QN_F64) return from_double(s, to, x);
        return to == QN_F64 ? llvm_cast(s, LL_FPEXT, x, t) : rounded(s, to, x);
    }
    if (dtype_is_float(from)) return float_to_integer(s, to, from, x);
    if (qn_dtype_size((qn_dtype)to) <= qn_dtype_size((qn_dtype)from) && from != QN_BOOL)
        return llvm_cast(s, LL_TRUNC, x, t);
    return llvm_cast(s, dtype_is_unsigned(from) || from == QN_BOOL ? LL_ZEXT : LL_SEXT, x, t);
}

static val bit_cast(llvm *s, int to, int from, val x) {
    val raw = llvm_to_memory(s, from, x);
    return llvm_from_memory(s, to, llvm_cast(s, LL_BITCAST, raw, llvm_memory_type(s, to)));
}

/* ---- rows that are one instruction ----------------------------------------------------------- */

static const struct {
    uint8_t whole, real; /* opcodes; 0: another way */
} arithmetic[OP_COUNT] = {
    [OP_ADD] = {LL_ADD, LL_FADD}, [OP_SUB] = {LL_SUB, LL_FSUB}, [OP_MUL] = {LL_MUL, LL_FMUL},
    [OP_DIV] = {0, LL_FDIV},      [OP_AND] = {LL_AND, 0},       [OP_OR] = {LL_OR, 0},
    [OP_XOR] = {LL_XOR, 0},
};

static const struct {
    uint8_t is_signed, is_unsigned, real; /* predicates */
} comparison[OP_COUNT] = {
    [OP_LT] = {LL_SLT, LL_ULT, LL_OLT},
    [OP_LE] = {LL_SLE, LL_ULE, LL_OLE},
    [OP_EQ] = {LL_EQ, LL_EQ, LL_OEQ},
    [OP_NE] = {LL_NE, LL_NE, LL_UNE},
};

static const char *const intrinsic[OP_COUNT] = {
    [OP_SQRT] = "llvm.sqrt", [OP_FLOOR] = "llvm.floor",     [OP_CEIL] = "llvm.ceil",
    [OP_FMA] = "llvm.fma",   [OP_ROUND] = "llvm.roundeven", [OP_TRUNC] = "llvm.trunc",
};

/* ---- rows that are more --------------------------------------------------------------------- */

static val real_extreme(llvm *s, val x, val y, int predicate) {
    val r = llvm_select(s, llvm_compare_real(s, predicate, x, y), x, y);
    return llvm_select(s, is_nan(s, x), x, r);
}

static val extreme(llvm *s, int op, int in, val x, val y) {
    bool max = op == OP_MAXIMUM;
    if (dtype_is_float(in)) return real_extreme(s, x, y, max ? LL_OGT : LL_OLT);
    bool is_unsigned = dtype_is_unsigned(in) || in == QN_BOOL;
    int predicate = max ? (is_unsigned ? LL_UGT : LL_SGT) : (is_unsigned ? LL_ULT : LL_SLT);
    return llvm_select(s, llvm_compare(s, predicate, x, y), x, y);
}

static val absolute(llvm *s, int in, val x) {
    if (dtype_is_float(in)) return llvm_intrinsic(s, "llvm.fabs", 1, &x);
    if (dtype_is_unsigned(in) || in == QN_BOOL) return x;
    val zero = llvm_int_like(s, x, 0);
    return llvm_select(s, llvm_compare(s, LL_SLT, x, zero), llvm_binary(s, LL_SUB, zero, x), x);
}

/* Quotient and remainder rounding to below, 0 for a divisor of 0, and never the trapping division
 * of the smallest number by -1. */
static val signed_division(llvm *s, val x, val y, bool remainder) {
    val zero = llvm_int_like(s, x, 0), one = llvm_int_like(s, x, 1);
    val none = llvm_compare(s, LL_EQ, y, zero);
    val minus = llvm_compare(s, LL_EQ, y, llvm_int_like(s, y, -1));
    val d = llvm_select(s, llvm_binary(s, LL_OR, none, minus), one, y);
    val q = llvm_binary(s, LL_SDIV, x, d);
    val r = llvm_binary(s, LL_SUB, x, llvm_binary(s, LL_MUL, q, d));
    val opposite = llvm_compare(s, LL_SLT, llvm_binary(s, LL_XOR, r, d), zero);
    val below = llvm_binary(s, LL_AND, opposite, llvm_compare(s, LL_NE, r, zero));
    if (remainder) /* 0 for divisors 0 and -1, as dividing by 1 gives */
        return llvm_select(s, below, llvm_binary(s, LL_ADD, r, d), r);
    q = llvm_select(s, below, llvm_binary(s, LL_SUB, q, one), q);
    q = llvm_select(s, minus, llvm_binary(s, LL_SUB, zero, x), q);
    return llvm_select(s, none, zero, q);
}

static val unsigned_division(llvm *s, val x, val y, bool remainder) {
    val none = llvm_compare(s, LL_EQ, y, llvm_int_like(s, y, 0));
    val d = llvm_select(s, none, llvm_int_like(s, y, 1), y);
    val q = llvm_binary(s, LL_UDIV, x, d);
    if (remainder) return llvm_binary(s, LL_SUB, x, llvm_binary(s, LL_MUL, q, d));
    return llvm_select(s, none, llvm_int_like(s, q, 0), q);
}

/* frem is C's fmod, exact, with x's sign. */
static val real_modulo(llvm *s, int dtype, val x, val y) {
    val r = llvm_binary(s, LL_FREM, x, y), zero = llvm_number_like(s, r, 0);
    val opposite = llvm_binary(s, LL_XOR, llvm_compare_real(s, LL_OLT, r, zero),
                               llvm_compare_real(s, LL_OLT, y, zero));
    val signed_zero[2] = {zero, y};
    val moved = llvm_select(s, opposite, rounded(s, dtype, llvm_binary(s, LL_FADD, r, y)), r);
    return llvm_select(s, llvm_compare_real(s, LL_OEQ, r, zero),
                       llvm_intrinsic(s, "llvm.copysign", 2, signed_zero), moved);
}

static val shifted(llvm *s, int op, int dtype, val x, val y) {
    int bits = 8 * (int)qn_dtype_size((qn_dtype)dtype);
    val inside = llvm_compare(s, LL_ULT, y, llvm_int_like(s, y, bits));
    if (op == OP_SHR && !dtype_is_unsigned(dtype))
        return llvm_binary(s, LL_ASHR, x, llvm_select(s, inside, y, llvm_int_like(s, y, bits - 1)));
    y = llvm_select(s, inside, y, llvm_int_like(s, y, 0)); /* what is shifted too far is no value */
    val r = llvm_binary(s, op == OP_SHL ? LL_SHL : LL_LSHR, x, y);
    return llvm_select(s, inside, r, llvm_int_like(s, r, 0));
}

/* Of narrow floats the sum in double precision is rounded to odd: to nearest it may come to lie
 * halfway between two of them. */
static val fused(llvm *s, int dtype, const val *x) {
    bool native = s->owner->isa.fma;
    if (dtype == QN_F64 || (native && dtype == QN_F32)) return llvm_intrinsic(s, "llvm.fma", 3, x);
    val wide[3];
    for (int i = 0; i < 3; i++) wide[i] = llvm_cast(s, LL_FPEXT, x[i], s->t_double);
    return from_double(s, dtype, llvm_soft_fma_odd(s, wide[0], wide[1], wide[2]));
}

/* The floor of the exact quotient: what is left of x tells where the division rounded up to a whole
 * number, all of x where the quotient is 0, also of an infinite y. x - x makes NaN of what is
 * infinite. Narrow floats are divided as F32. */
static val real_floor_div(llvm *s, int dtype, val x, val y) {
    int wide = dtype_is_narrow(dtype) ? QN_F32 : dtype;
    val q = llvm_binary(s, LL_FDIV, x, y), zero = llvm_number_like(s, q, 0);
    q = llvm_intrinsic(s, "llvm.floor", 1, &q);
    val left = fused(s, wide, (val[]){llvm_negate(s, q), y, x});
    left = llvm_select(s, llvm_compare_real(s, LL_OEQ, q, zero), x, left);
    val none =
        llvm_select(s, llvm_compare_real(s, LL_OEQ, y, zero), zero, llvm_binary(s, LL_FSUB, x, x));
    q = llvm_binary(s, LL_FSUB, q, none);
    left = llvm_select(s, llvm_compare_real(s, LL_OLT, y, zero), llvm_negate(s, left), left);
    val less = llvm_binary(s, LL_FSUB, q, llvm_number_like(s, q, 1));
    return rounded(s, dtype, llvm_select(s, llvm_compare_real(s, LL_OLT, left, zero), less, q));
}

static val division(llvm *s, int op, int dtype, val x, val y) {
    if (dtype_is_float(dtype))
        return op == OP_MOD ? real_modulo(s, dtype, x, y) : real_floor_div(s, dtype, x, y);
    if (dtype_is_unsigned(dtype)) return unsigned_division(s, x, y, op == OP_MOD);
    return signed_division(s, x, y, op == OP_MOD);
}

val llvm_op(llvm *s, int op, int dtype, int in, const val *x) {
    bool real = dtype_is_float(in);
    if (real ? arithmetic[op].real : arithmetic[op].whole) {
        int opcode = real ? arithmetic[op].real : arithmetic[op].whole;
        return rounded(s, dtype, llvm_binary(s, opcode, x[0], x[1]));
    }
    if (comparison[op].real) {
        if (real) return llvm_compare_real(s, comparison[op].real, x[0], x[1]);
        bool is_unsigned = dtype_is_unsigned(in) || in == QN_BOOL;
        return llvm_compare(s, is_unsigned ? comparison[op].is_unsigned : comparison[op].is_signed,
                            x[0], x[1]);
    }
    switch (op) {
    case OP_NEG:
        return real ? llvm_negate(s, x[0])
                    : llvm_binary(s, LL_SUB, llvm_int_like(s, x[0], 0), x[0]);
    case OP_ABS:
        return absolute(s, in, x[0]);
    case OP_RECIPROCAL:
        return rounded(s, dtype, llvm_binary(s, LL_FDIV, llvm_number_like(s, x[0], 1), x[0]));
    case OP_NOT:
        return llvm_binary(s, LL_XOR, x[0], llvm_int_like(s, x[0], -1));
    case OP_CAST:
        return llvm_convert(s, dtype, in, x[0]);
    case OP_BITCAST:
        return bit_cast(s, dtype, in, x[0]);
    case OP_FLOOR_DIV:
    case OP_MOD:
        return division(s, op, dtype, x[0], x[1]);
    case OP_MAXIMUM:
    case OP_MINIMUM:
        return extreme(s, op, in, x[0], x[1]);
    case OP_SHL:
    case OP_SHR:
        return shifted(s, op, dtype, x[0], x[1]);
    case OP_WHERE:
        return llvm_select(s, x[0], x[1], x[2]);
    case OP_FMA:
        return fused(s, dtype, x);
    default:
        break;
    }
    if (!real && intrinsic[op]) return x[0]; /* integers are whole */
    if (!intrinsic[op])
        raise_error(s->ctx, QN_EINTERNAL, "kernel %s: %s must be expanded before it is emitted",
                    s->k->name, op_rows[op].name);
    /* without the instruction the library is called, which older ones have no roundeven in */
    const char *name = op == OP_ROUND && !s->owner->isa.sse41 ? "llvm.rint" : intrinsic[op];
    return rounded(s, dtype, llvm_intrinsic(s, name, 1, x));
}
