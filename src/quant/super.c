/* super.c - the K types: 256 elements in groups of 16 or 32, whose scales, and least values where
 * there are some, are numbers of 4 to 8 bits times one f16 of the block. Those of 6 bits are
 * scattered over 12 bytes: six_bit_scales and quant_q3_k say how. */
#include "quant/quant.h"

/* Fields of bytes [R, n]: those of `count` with `step` bits of each 32 bytes behind each other, as
 * groups of 16 or 32. */
static qn_tensor *planes(qn_tensor *bytes, int64_t n, int64_t step, int64_t group) {
    int64_t count = 8 / step;
    qn_tensor *x = SHAPE(bytes, n / 32, 1, 32);
    return SHAPE(FIELDS(x, 2, count, step, (1 << step) - 1), n * count / group, group);
}

qn_tensor *quant_scale_q2_k(qn_tensor *rows) {
    return qn_mul(quant_half(rows, 80), quant_float(quant_and(quant_bytes(rows, 0, 16), 15)));
}

qn_tensor *quant_least_q2_k(qn_tensor *rows) {
    return qn_mul(quant_half(rows, 82), quant_float(quant_down(quant_bytes(rows, 0, 16), 4)));
}

qn_tensor *quant_q2_k(qn_tensor *rows) {
    qn_tensor *q = planes(quant_bytes(rows, 16, 64), 64, 2, 16);
    qn_tensor *d = SHAPE(quant_scale_q2_k(rows), 16, 1);
    return qn_sub(qn_mul(d, quant_float(q)), SHAPE(quant_least_q2_k(rows), 16, 1));
}

/* Scale i has its low bits in a half of byte i % 8, its high ones in two bits of byte 8 + i % 4. */
qn_tensor *quant_scale_q3_k(qn_tensor *rows) {
    qn_tensor *low = FIELDS(SHAPE(quant_bytes(rows, 96, 8), 1, 8), 1, 2, 4, 15);
    qn_tensor *high = FIELDS(SHAPE(quant_bytes(rows, 104, 4), 1, 4), 1, 4, 2, 3);
    qn_tensor *scales = qn_or(SHAPE(low, 16), quant_up(SHAPE(high, 16), 4));
    return qn_mul(quant_half(rows, 108), quant_float(quant_plus(scales, -32)));
}

qn_tensor *quant_q3_k(qn_tensor *rows) {
    qn_tensor *d = quant_scale_q3_k(rows), *q = planes(quant_bytes(rows, 32, 64), 64, 2, 16);
    qn_tensor *bit = planes(quant_bytes(rows, 0, 32), 32, 1, 16); /* 0: 4 less */
    q = qn_sub(q, quant_up(qn_xor(bit, func_integer(bit, 1)), 2));
    return qn_mul(SHAPE(d, 16, 1), quant_float(q));
}

/* Scale or least value i < 4 is the low 6 bits of byte i or 4 + i; i + 4 has its low 4 bits in a
 * half of byte 8 + i, its high 2 in the top of byte i or 4 + i. f32 [R, 8], times `d`. */
static qn_tensor *six_bit_scales(qn_tensor *rows, int64_t at, bool least, qn_tensor *d) {
    qn_tensor *own = SHAPE(quant_bytes(rows, at + (least ? 4 : 0), 4), 1, 4);
    qn_tensor *both = SHAPE(quant_bytes(rows, at + 8, 4), 1, 4);
    qn_tensor *low = least ? quant_down(both, 4) : quant_and(both, 15);
    qn_tensor *second = qn_or(low, quant_and(quant_down(own, 2), 0x30));
    qn_tensor *which = quant_along(own, 1, 2);
    qn_tensor *scales = qn_where(qn_eq(which, func_integer(which, 0)), quant_and(own, 63), second);
    return qn_mul(d, quant_float(SHAPE(scales, 8)));
}

qn_tensor *quant_scale_q4_k(qn_tensor *rows) {
    return six_bit_scales(rows, 4, false, quant_half(rows, 0));
}

qn_tensor *quant_least_q4_k(qn_tensor *rows) {
    return six_bit_scales(rows, 4, true, quant_half(rows, 2));
}

static qn_tensor *with_least(qn_tensor *rows, qn_tensor *q) {
    qn_tensor *d = SHAPE(quant_scale_q4_k(rows), 8, 1),
              *least = SHAPE(quant_least_q4_k(rows), 8, 1);
    return qn_sub(qn_mul(d, quant_float(q)), least);
}

qn_tensor *quant_q4_k(qn_tensor *rows) {
    return with_least(rows, planes(quant_bytes(rows, 16, 128), 128, 4, 32));
}

qn_tensor *quant_q5_k(qn_tensor *rows) {
    qn_tensor *q = planes(quant_bytes(rows, 48, 128), 128, 4, 32);
    qn_tensor *bit = planes(quant_bytes(rows, 16, 32), 32, 1, 32);
    return with_least(rows, qn_or(q, quant_up(bit, 4)));
}

qn_tensor *quant_scale_q6_k(qn_tensor *rows) {
    qn_tensor *scales = quant_float(qn_bitcast(qn_slice(rows, 1, 192, 208, 1), QN_I8));
    return qn_mul(quant_half(rows, 208), scales);
}

qn_tensor *quant_q6_k(qn_tensor *rows) {
    qn_tensor *low = SHAPE(quant_bytes(rows, 0, 128), 2, 1, 64);
    low = SHAPE(FIELDS(low, 2, 2, 4, 15), 16, 16);
    qn_tensor *high = planes(quant_bytes(rows, 128, 64), 64, 2, 16);
    qn_tensor *d = SHAPE(quant_scale_q6_k(rows), 16, 1);
    return qn_mul(d, quant_float(quant_plus(qn_or(low, quant_up(high, 4)), -32)));
}
