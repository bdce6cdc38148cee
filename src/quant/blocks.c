/* blocks.c - types with a scale for each block.
 *
 * q4_0 to q5_1 have 32 elements: the low four bits of byte i are element i, the high ones element
 * i + 16, and a fifth bit lies in bit i of another four bytes. Those of names in _0 are signed
 * about 0, those in _1 have a least value. The ternary types pack -1, 0 and 1: tq2_0 in two bits,
 * tq1_0 five in a byte, as digits of base 3 of the byte as a fraction of 256, so that a product and
 * a shift give one. mxfp4 and nvfp4 have floats of 4 bits, sign, 2 bits of exponent and one of
 * fraction, taken twice as large so that they are integers. */
#include "quant/quant.h"

/* Low halves of n bytes, then their high ones: [R, 2 * n]. */
static qn_tensor *halves(qn_tensor *bytes, int64_t n) {
    return SHAPE(FIELDS(SHAPE(bytes, 1, n), 1, 2, 4, 15), 2 * n);
}

/* [R, 32]: bit i of four bytes. */
static qn_tensor *bits32(qn_tensor *bytes) {
    return SHAPE(FIELDS(SHAPE(bytes, 4, 1), 2, 8, 1, 1), 32);
}

static qn_tensor *scaled(qn_tensor *scale, qn_tensor *whole) {
    return qn_mul(scale, quant_float(whole));
}

static qn_tensor *whole_q4_0(qn_tensor *rows) {
    return quant_plus(halves(quant_bytes(rows, 2, 16), 16), -8);
}

qn_tensor *quant_q4_0(qn_tensor *rows) {
    return scaled(quant_half(rows, 0), whole_q4_0(rows));
}

qn_tensor *quant_q4_1(qn_tensor *rows) {
    qn_tensor *q = halves(quant_bytes(rows, 4, 16), 16);
    return qn_add(scaled(quant_half(rows, 0), q), quant_half(rows, 2));
}

static qn_tensor *fives(qn_tensor *rows, int64_t high, int64_t low) {
    qn_tensor *bits = bits32(quant_bytes(rows, high, 4));
    return qn_or(halves(quant_bytes(rows, low, 16), 16), quant_up(bits, 4));
}

static qn_tensor *whole_q5_0(qn_tensor *rows) {
    return quant_plus(fives(rows, 2, 6), -16);
}

qn_tensor *quant_q5_0(qn_tensor *rows) {
    return scaled(quant_half(rows, 0), whole_q5_0(rows));
}

qn_tensor *quant_q5_1(qn_tensor *rows) {
    return qn_add(scaled(quant_half(rows, 0), fives(rows, 4, 8)), quant_half(rows, 2));
}

static qn_tensor *whole_q8_0(qn_tensor *rows) {
    return qn_bitcast(qn_slice(rows, 1, 2, 34, 1), QN_I8);
}

qn_tensor *quant_q8_0(qn_tensor *rows) {
    return scaled(quant_half(rows, 0), whole_q8_0(rows));
}

quant_read *quant_whole(int type) {
    return type == QN_Q4_0   ? whole_q4_0
           : type == QN_Q5_0 ? whole_q5_0
           : type == QN_Q8_0 ? whole_q8_0
                             : NULL;
}

/* 3^i, i up to 4, along an axis: by its bits. */
static qn_tensor *powers_of_3(qn_tensor *x, int axis, int64_t n) {
    qn_tensor *i = quant_along(x, axis, n), *p = func_integer(x, 1);
    for (int bit = 0, factor = 3; bit < 3; bit++, factor *= factor) {
        qn_tensor *on = qn_ne(quant_and(i, 1 << bit), func_integer(i, 0));
        p = qn_mul(p, qn_where(on, func_integer(i, factor), func_integer(i, 1)));
    }
    return p;
}

/* `count` digits of each of n bytes, the first ones of all bytes first. */
static qn_tensor *digits(qn_tensor *bytes, int64_t n, int64_t count) {
    qn_tensor *x = SHAPE(bytes, 1, n);
    x = quant_and(qn_mul(x, powers_of_3(x, 1, count)), 255);
    return SHAPE(quant_down(qn_mul(x, func_integer(x, 3)), 8), count * n);
}

qn_tensor *quant_tq1_0(qn_tensor *rows) {
    qn_tensor *part[] = {digits(quant_bytes(rows, 0, 32), 32, 5),
                         digits(quant_bytes(rows, 32, 16), 16, 5),
                         digits(quant_bytes(rows, 48, 4), 4, 4)};
    return scaled(quant_half(rows, 52), quant_plus(qn_concat(3, part, 1), -1));
}

qn_tensor *quant_tq2_0(qn_tensor *rows) {
    qn_tensor *q = FIELDS(SHAPE(quant_bytes(rows, 0, 64), 2, 1, 32), 2, 4, 2, 3);
    return scaled(quant_half(rows, 64), quant_plus(SHAPE(q, 256), -1));
}

/* Twice the floats of 4 bits: their fraction with the leading 1 that all but the lowest exponent
 * have, shifted by the exponent. */
qn_tensor *quant_twice_e2m1(qn_tensor *q) {
    qn_tensor *zero = func_integer(q, 0), *one = func_integer(q, 1);
    qn_tensor *e = quant_and(quant_down(q, 1), 3);
    qn_tensor *lead = qn_where(qn_eq(e, zero), zero, func_integer(q, 2));
    qn_tensor *size = qn_shl(qn_or(quant_and(q, 1), lead), qn_sub(qn_maximum(e, one), one));
    return qn_where(qn_eq(quant_and(q, 8), zero), size, qn_neg(size));
}

qn_tensor *quant_half_e8m0(qn_tensor *e) { /* the first two are subnormal */
    qn_tensor *small = qn_shl(func_integer(e, 0x200000), e);
    qn_tensor *bits = quant_up(quant_plus(e, -1), 23);
    return qn_bitcast(qn_where(qn_lt(e, func_integer(e, 2)), small, bits), QN_F32);
}

qn_tensor *quant_mxfp4(qn_tensor *rows) {
    qn_tensor *q = halves(quant_bytes(rows, 1, 16), 16);
    return scaled(quant_half_e8m0(quant_bytes(rows, 0, 1)), quant_twice_e2m1(q));
}

/* Half of the 8-bit floats without a sign, of 4 bits of exponent and 3 of fraction; NaN as 0. */
static qn_tensor *half_ue4m3(qn_tensor *x) {
    qn_tensor *e = quant_and(quant_down(x, 3), 15), *fraction = quant_and(x, 7);
    qn_tensor *bits = qn_or(quant_up(quant_plus(e, 127 - 8), 23), quant_up(fraction, 20));
    qn_tensor *small = quant_float(fraction), *zero = func_integer(x, 0);
    small = qn_mul(small, qn_like(small, 0x1p-10));
    qn_tensor *y = qn_where(qn_eq(e, zero), small, qn_bitcast(bits, QN_F32));
    return qn_where(qn_eq(x, func_integer(x, 0x7f)), qn_like(y, 0), y);
}

qn_tensor *quant_nvfp4(qn_tensor *rows) {
    qn_tensor *q = FIELDS(SHAPE(quant_bytes(rows, 4, 32), 4, 1, 8), 2, 2, 4, 15);
    qn_tensor *scale = SHAPE(half_ue4m3(quant_bytes(rows, 0, 4)), 4, 1);
    return scaled(scale, quant_twice_e2m1(SHAPE(q, 4, 16)));
}
