/* soft.c - operations of older processors that later ones have instructions for.
 *
 * Where the instruction is missing LLVM calls a function of the compiler's or the maths library for
 * each lane. These forms need none, keep vectors whole, and give the same bits.
 *   - F16C: conversions between f16 and f32, by integer arithmetic; they round to nearest even. The
 *     same code converts any narrow float, by its row of dtypes.h.
 *   - FMA: of f32, and of narrower floats, in double precision. There the product is exact, and so
 *     is the error of the sum; the sum is rounded to odd by it, and then once more as usual. Double
 *     precision itself is left to the maths library. */
#include "emit/llvm/llvm.h"

#include <math.h>

enum { FLOAT_FRACTION = 23, FLOAT_INF = 0x7f800000 };

static val and_bits(llvm *s, val x, int64_t mask) {
    return llvm_binary(s, LL_AND, x, llvm_int_like(s, x, mask));
}

static val add_bits(llvm *s, val x, int64_t n) {
    return llvm_binary(s, LL_ADD, x, llvm_int_like(s, x, n));
}

static val shift(llvm *s, int opcode, val x, int by) {
    return llvm_binary(s, opcode, x, llvm_int_like(s, x, by));
}

typedef struct narrow {
    int shift;    /* from its fraction to f32's */
    int change;   /* of the exponent's bias */
    int64_t sign; /* its bit; one less: the mask of the rest */
    int64_t most; /* bits of its largest number; infinity, or NaN, comes next */
} narrow;

static narrow narrow_of(int dtype) {
    const dtype_row *r = &dtype_rows[dtype];
    return (narrow){FLOAT_FRACTION - r->fraction, 126 + r->least, (int64_t)1 << (r->bits - 1),
                    dtype_most_bits((qn_dtype)dtype)};
}

/* With the exponent's bits where f32 has them it is 2^-change of its value, subnormal or not. */
val llvm_soft_widen(llvm *s, int dtype, val raw) {
    const narrow n = narrow_of(dtype);
    val h = llvm_cast(s, LL_ZEXT, raw, s->t_i32);
    val sign = shift(s, LL_SHL, and_bits(s, h, n.sign), 32 - dtype_rows[dtype].bits);
    val size = shift(s, LL_SHL, and_bits(s, h, n.sign - 1), n.shift);
    val finite = llvm_cast(s, LL_BITCAST, size, s->t_float);
    finite = llvm_binary(s, LL_FMUL, finite, llvm_number_like(s, finite, ldexp(1, n.change)));
    finite = llvm_cast(s, LL_BITCAST, finite, s->t_i32);
    val most = llvm_int_like(s, size, n.most << n.shift);
    val inf = llvm_int_like(s, size, (n.most + dtype_rows[dtype].infinite) << n.shift);
    val special = llvm_binary(s, LL_OR, size, llvm_int_like(s, size, FLOAT_INF));
    val quiet = llvm_binary(s, LL_OR, special, llvm_int_like(s, size, 0x400000));
    special = llvm_select(s, llvm_compare(s, LL_SGT, size, inf), quiet, special);
    val bits = llvm_select(s, llvm_compare(s, LL_SGT, size, most), special, finite);
    return llvm_cast(s, LL_BITCAST, llvm_binary(s, LL_OR, bits, sign), s->t_float);
}

/* Its bits, rounded to nearest even. To a number below the smallest normal one a power of two is
 * added so that the sum's last place is that of subnormals. */
val llvm_soft_narrow(llvm *s, int dtype, val x) {
    const narrow n = narrow_of(dtype);
    const dtype_row *r = &dtype_rows[dtype];
    int64_t added = (int64_t)(127 + r->least + n.shift) << FLOAT_FRACTION;
    val b = llvm_cast(s, LL_BITCAST, x, s->t_i32);
    val sign = and_bits(s, shift(s, LL_LSHR, b, 32 - r->bits), n.sign);
    val size = and_bits(s, b, 0x7fffffff);
    val odd = and_bits(s, shift(s, LL_LSHR, size, n.shift), 1);
    int64_t half = ((int64_t)1 << (n.shift - 1)) - 1;
    val normal = add_bits(s, llvm_binary(s, LL_ADD, size, odd),
                          half - ((int64_t)n.change << FLOAT_FRACTION));
    normal = shift(s, LL_ASHR, normal, n.shift);
    val inf = llvm_int_like(s, normal, n.most + 1);
    normal = llvm_select(s, llvm_compare(s, LL_SGT, normal, inf), inf, normal);
    val small = llvm_cast(s, LL_BITCAST, size, s->t_float);
    small =
        llvm_binary(s, LL_FADD, small, llvm_number_like(s, small, ldexp(1, r->least + n.shift)));
    small = add_bits(s, llvm_cast(s, LL_BITCAST, small, s->t_i32), -added);
    int64_t least = (int64_t)(127 + r->least) << FLOAT_FRACTION;
    val is_small = llvm_compare(s, LL_SLT, size, llvm_int_like(s, size, least));
    val nan = and_bits(s, shift(s, LL_LSHR, size, n.shift), ((int64_t)1 << r->fraction) - 1);
    nan = llvm_binary(s, LL_OR, nan,
                      llvm_int_like(s, nan, (n.most + 1) | (int64_t)1 << (r->fraction - 1)));
    val is_nan = llvm_compare(s, LL_SGT, size, llvm_int_like(s, size, FLOAT_INF));
    val y = llvm_select(s, is_nan, nan, llvm_select(s, is_small, small, normal));
    return llvm_cast(s, LL_TRUNC, llvm_binary(s, LL_OR, y, sign), llvm_memory_type(s, dtype));
}

/* x*y + z of doubles whose product is exact, rounded to odd: of the two doubles around the value
 * the one with an odd last place. Knuth's two-sum gives the error of the sum. */
val llvm_soft_fma_odd(llvm *s, val x, val y, val z) {
    val p = llvm_binary(s, LL_FMUL, x, y), sum = llvm_binary(s, LL_FADD, p, z);
    val from_z = llvm_binary(s, LL_FSUB, sum, p);
    val from_p = llvm_binary(s, LL_FSUB, sum, from_z);
    val error = llvm_binary(s, LL_FADD, llvm_binary(s, LL_FSUB, p, from_p),
                            llvm_binary(s, LL_FSUB, z, from_z));
    val zero = llvm_number_like(s, error, 0), bits = llvm_cast(s, LL_BITCAST, sum, s->t_i64);
    val more = llvm_compare_real(s, LL_OGT, error, zero); /* of infinities and NaN neither is so */
    val inexact = llvm_binary(s, LL_OR, more, llvm_compare_real(s, LL_OLT, error, zero));
    val even = llvm_compare(s, LL_EQ, and_bits(s, bits, 1), llvm_int_like(s, bits, 0));
    val inward = llvm_binary(s, LL_XOR, more, llvm_compare_real(s, LL_OGT, sum, zero));
    val moved = llvm_select(s, inward, add_bits(s, bits, -1), add_bits(s, bits, 1));
    bits = llvm_select(s, llvm_binary(s, LL_AND, inexact, even), moved, bits);
    return llvm_cast(s, LL_BITCAST, bits, s->t_double);
}
