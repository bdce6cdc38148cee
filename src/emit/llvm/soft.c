/* soft.c - operations of older processors that later ones have instructions for.
 *
 * Where the instruction is missing LLVM calls a function of the compiler's or the maths library for
 * each lane. These forms need none, keep vectors whole, and give the same bits.
 *   - F16C: conversions between f16 and f32, by integer arithmetic; they round to nearest even.
 *   - FMA: of f32, and of narrower floats, in double precision. There the product is exact, and so
 *     is the error of the sum; the sum is rounded to odd by it, and then once more as usual. Double
 *     precision itself is left to the maths library. */
#include "emit/llvm/llvm.h"

enum { HALF_INF = 0x7c00, FLOAT_INF = 0x7f800000, BIAS_CHANGE = 112 };

static val and_bits(llvm *s, val x, int64_t mask) {
    return llvm_binary(s, LL_AND, x, llvm_int_like(s, x, mask));
}

static val add_bits(llvm *s, val x, int64_t n) {
    return llvm_binary(s, LL_ADD, x, llvm_int_like(s, x, n));
}

static val shift(llvm *s, int opcode, val x, int by) {
    return llvm_binary(s, opcode, x, llvm_int_like(s, x, by));
}

/* With the exponent's bits where f32 has them a half is 2^-112 of its value, subnormal or not. */
val llvm_soft_from_half(llvm *s, val raw) {
    val h = llvm_cast(s, LL_ZEXT, raw, s->t_i32);
    val sign = shift(s, LL_SHL, and_bits(s, h, 0x8000), 16);
    val size = shift(s, LL_SHL, and_bits(s, h, 0x7fff), 13);
    val finite = llvm_cast(s, LL_BITCAST, size, s->t_float);
    finite = llvm_binary(s, LL_FMUL, finite, llvm_number_like(s, finite, 0x1p112));
    finite = llvm_cast(s, LL_BITCAST, finite, s->t_i32);
    val inf = llvm_int_like(s, size, (int64_t)HALF_INF << 13);
    val special = llvm_binary(s, LL_OR, size, llvm_int_like(s, size, FLOAT_INF));
    val quiet = llvm_binary(s, LL_OR, special, llvm_int_like(s, size, 0x400000));
    special = llvm_select(s, llvm_compare(s, LL_SGT, size, inf), quiet, special);
    val bits = llvm_select(s, llvm_compare(s, LL_SLT, size, inf), finite, special);
    return llvm_cast(s, LL_BITCAST, llvm_binary(s, LL_OR, bits, sign), s->t_float);
}

/* The bits of a half as i16. Adding a half makes of a number below 2^-14 one whose last place is
 * that of subnormal halves. */
val llvm_soft_to_half(llvm *s, val x) {
    val b = llvm_cast(s, LL_BITCAST, x, s->t_i32);
    val sign = and_bits(s, shift(s, LL_LSHR, b, 16), 0x8000), size = and_bits(s, b, 0x7fffffff);
    val odd = and_bits(s, shift(s, LL_LSHR, size, 13), 1);
    val normal = add_bits(s, llvm_binary(s, LL_ADD, size, odd), 0xfff - (BIAS_CHANGE << 23));
    normal = shift(s, LL_ASHR, normal, 13);
    val inf = llvm_int_like(s, normal, HALF_INF);
    normal = llvm_select(s, llvm_compare(s, LL_SGT, normal, inf), inf, normal);
    val small = llvm_cast(s, LL_BITCAST, size, s->t_float);
    small = llvm_binary(s, LL_FADD, small, llvm_number_like(s, small, 0.5));
    small = add_bits(s, llvm_cast(s, LL_BITCAST, small, s->t_i32), -0x3f000000);
    val is_small = llvm_compare(s, LL_SLT, size, llvm_int_like(s, size, 0x38800000));
    val nan = and_bits(s, shift(s, LL_LSHR, size, 13), 0x3ff);
    nan = llvm_binary(s, LL_OR, nan, llvm_int_like(s, nan, HALF_INF | 0x200));
    val is_nan = llvm_compare(s, LL_SGT, size, llvm_int_like(s, size, FLOAT_INF));
    val r = llvm_select(s, is_nan, nan, llvm_select(s, is_small, small, normal));
    return llvm_cast(s, LL_TRUNC, llvm_binary(s, LL_OR, r, sign), s->t_i16);
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
