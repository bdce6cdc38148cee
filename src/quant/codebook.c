/* codebook.c - types whose bits are places in a table. iq4 chooses one of 16 numbers for each
 * element, the others a vector of 8 or 4 from grids.h, whose signs are stored apart: 8 bits, or 7
 * from which the eighth follows, as their number is even. Scales are odd multiples of a half. */
#include "quant/quant.h"

#include "quant/grids.h"

const int8_t quant_values_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

/* table[index], as i32. Indices are without sign, so that none counts from the end. */
static qn_tensor *looked_up(qn_tensor *index, qn_dtype dtype, int64_t n, const void *table) {
    if (!index) return NULL;
    qn_tensor *t = qn_from(tensor_ctx(index), dtype, 1, &n, table);
    return qn_cast(qn_take(t, qn_cast(index, QN_U32), 0), QN_I32);
}
#define TABLE(index, DTYPE, table) looked_up(index, DTYPE, (int64_t)COUNT_OF(table), table)

/* ---- 16 numbers ------------------------------------------------------------------------------ */

qn_tensor *quant_iq4_nl(qn_tensor *rows) {
    qn_tensor *q = FIELDS(SHAPE(quant_bytes(rows, 2, 16), 1, 16), 1, 2, 4, 15);
    return qn_mul(quant_half(rows, 0), quant_float(TABLE(SHAPE(q, 32), QN_I8, quant_values_iq4)));
}

qn_tensor *quant_scale_iq4_xs(qn_tensor *rows) {
    qn_tensor *low = FIELDS(SHAPE(quant_bytes(rows, 4, 4), 4, 1), 2, 2, 4, 15);
    qn_tensor *high = FIELDS(quant_words(rows, 2, 1), 1, 8, 2, 3);
    qn_tensor *scales = quant_plus(qn_or(SHAPE(low, 8), quant_up(high, 4)), -32);
    return qn_mul(quant_half(rows, 0), quant_float(scales));
}

qn_tensor *quant_iq4_xs(qn_tensor *rows) {
    qn_tensor *d = SHAPE(quant_scale_iq4_xs(rows), 8, 1);
    qn_tensor *q = FIELDS(SHAPE(quant_bytes(rows, 8, 128), 8, 1, 16), 2, 2, 4, 15);
    return qn_mul(d, quant_float(TABLE(SHAPE(q, 8, 32), QN_I8, quant_values_iq4)));
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* A new last axis: fields of `bits` of the words at those places of a grid. */
static qn_tensor *vectors(qn_tensor *words, int64_t n, int64_t bits) {
    qn_tensor *x = qn_unsqueeze(words, -1);
    return x ? FIELDS(x, func_rank(x) - 1, n, bits, n == 8 ? 3 : 7) : NULL;
}

/* Of iq2: 0, 1, 2 are 8, 25, 43. */
static qn_tensor *of_iq2(qn_tensor *words) {
    qn_tensor *c = vectors(words, 8, 2), *x = qn_mul(c, func_integer(c, 17));
    return quant_float(quant_plus(qn_add(x, quant_down(c, 1)), 8));
}

/* x with a minus where `bits` [R, .., 1] has bit i of the last axis. */
static qn_tensor *with_signs(qn_tensor *x, qn_tensor *bits, int64_t n) {
    if (!x || !bits) return NULL;
    qn_tensor *bit = FIELDS(bits, func_rank(bits) - 1, n, 1, 1);
    return qn_where(qn_eq(bit, func_integer(bit, 0)), x, qn_neg(x));
}

/* 8 signs of 7: the last one makes their number even. */
static qn_tensor *eight_signs(qn_tensor *seven) {
    qn_tensor *p = qn_xor(seven, quant_down(seven, 4));
    p = qn_xor(p, quant_down(p, 2));
    p = quant_and(qn_xor(p, quant_down(p, 1)), 1);
    return qn_or(seven, quant_up(p, 7));
}

/* d * (half + n) * factor. */
static qn_tensor *odd_scale(qn_tensor *d, qn_tensor *n, double factor) {
    qn_tensor *x = quant_float(n);
    x = qn_mul(d, qn_add(x, qn_like(x, 0.5)));
    return qn_mul(x, qn_like(x, factor));
}

/* d * (2 * n + 1). */
static qn_tensor *odd_times(qn_tensor *d, qn_tensor *n) {
    return qn_mul(d, quant_float(quant_plus(quant_up(n, 1), 1)));
}

/* Four fields of 7 bits of words [R, 8], and the signs that they stand for: [R, 8, 4, 1]. */
static qn_tensor *packed_signs(qn_tensor *words) {
    return SHAPE(eight_signs(FIELDS(SHAPE(words, 8, 1), 2, 4, 7, 127)), 8, 4, 1);
}

qn_tensor *quant_iq2_xxs(qn_tensor *rows) {
    qn_tensor *pairs = SHAPE(quant_longs(rows, 2, 16), 8, 2);
    qn_tensor *second = SHAPE(qn_slice(pairs, 2, 1, 2, 1), 8);
    qn_tensor *d = odd_scale(quant_half(rows, 0), quant_and(quant_down(second, 28), 15), 0.25);
    qn_tensor *places = SHAPE(quant_bytes(rows, 2, 64), 8, 8);
    qn_tensor *x = of_iq2(TABLE(qn_slice(places, 2, 0, 4, 1), QN_U16, grid_iq2_xxs));
    return with_signs(qn_mul(SHAPE(d, 8, 1, 1), x), packed_signs(second), 8);
}

/* Scales of 4 bits: [R, 16] of 8 bytes at `at`. */
static qn_tensor *half_bytes(qn_tensor *rows, int64_t at, int64_t n) {
    return SHAPE(FIELDS(SHAPE(quant_bytes(rows, at, n), n, 1), 2, 2, 4, 15), 2 * n);
}

qn_tensor *quant_iq2_xs(qn_tensor *rows) {
    qn_tensor *words = SHAPE(quant_words(rows, 2, 32), 16, 2);
    qn_tensor *d = odd_scale(quant_half(rows, 0), half_bytes(rows, 66, 8), 0.25);
    qn_tensor *x = of_iq2(TABLE(quant_and(words, 511), QN_U16, grid_iq2_xs));
    qn_tensor *signs = eight_signs(quant_down(words, 9));
    return with_signs(qn_mul(SHAPE(d, 16, 1, 1), x), SHAPE(signs, 16, 2, 1), 8);
}

/* Bytes with more bits above them, `count` fields of `step` bits in each of n bytes at `high`. */
static qn_tensor *with_high(qn_tensor *low, qn_tensor *high, int64_t n, int64_t step) {
    int64_t count = 8 / step;
    qn_tensor *bits = FIELDS(SHAPE(high, n, 1), 2, count, step, (1 << step) - 1);
    return qn_or(low, quant_up(SHAPE(bits, n * count), 8));
}

qn_tensor *quant_iq2_s(qn_tensor *rows) {
    qn_tensor *places = with_high(quant_bytes(rows, 2, 32), quant_bytes(rows, 66, 8), 8, 2);
    qn_tensor *d = odd_scale(quant_half(rows, 0), half_bytes(rows, 74, 8), 0.25);
    qn_tensor *x = of_iq2(TABLE(SHAPE(places, 16, 2), QN_U16, grid_iq2_s));
    qn_tensor *signs = SHAPE(quant_bytes(rows, 34, 32), 16, 2, 1);
    return with_signs(qn_mul(SHAPE(d, 16, 1, 1), x), signs, 8);
}

/* 4 + 8 * c, but 62 for the last. Vectors of 4 come in pairs. */
qn_tensor *quant_iq3_xxs(qn_tensor *rows) {
    qn_tensor *words = quant_longs(rows, 66, 8);
    qn_tensor *d = odd_scale(quant_half(rows, 0), quant_and(quant_down(words, 28), 15), 0.5);
    qn_tensor *c = vectors(TABLE(quant_bytes(rows, 2, 64), QN_U16, grid_iq3_xxs), 4, 4);
    qn_tensor *last = quant_up(quant_down(quant_plus(c, 1), 3), 1);
    qn_tensor *x = quant_float(quant_plus(qn_add(quant_up(c, 3), last), 4));
    return with_signs(qn_mul(SHAPE(d, 8, 1, 1), SHAPE(x, 8, 4, 8)), packed_signs(words), 8);
}

qn_tensor *quant_iq3_s(qn_tensor *rows) {
    qn_tensor *places = with_high(quant_bytes(rows, 2, 64), quant_bytes(rows, 66, 8), 8, 1);
    qn_tensor *d = odd_times(quant_half(rows, 0), half_bytes(rows, 106, 4));
    qn_tensor *c = vectors(TABLE(places, QN_U16, grid_iq3_s), 4, 4);
    qn_tensor *x = quant_float(quant_plus(quant_up(c, 1), 1));
    qn_tensor *signs = SHAPE(quant_bytes(rows, 74, 32), 8, 4, 1);
    return with_signs(qn_mul(SHAPE(d, 8, 1, 1), SHAPE(x, 8, 4, 8)), signs, 8);
}

/* ---- -1, 0, 1, moved by an eighth ------------------------------------------------------------ */

/* d * (x - 1 + 1/8), or - 1/8 where `down` is not 0; [R, 8, 4, 8], d and down [R, 8, n, 1]. */
static qn_tensor *moved(qn_tensor *d, qn_tensor *places, qn_tensor *down) {
    qn_tensor *x = quant_float(quant_plus(vectors(TABLE(places, QN_U16, grid_iq1), 8, 2), -1));
    qn_tensor *by =
        qn_where(qn_eq(down, func_integer(down, 0)), qn_like(x, 0.125), qn_like(x, -0.125));
    return qn_mul(d, qn_add(x, by));
}

qn_tensor *quant_iq1_s(qn_tensor *rows) {
    qn_tensor *words = SHAPE(quant_words(rows, 34, 8), 8, 1);
    qn_tensor *d = quant_and(quant_down(words, 12), 7);
    d = odd_times(quant_half(rows, 0), SHAPE(d, 8));
    qn_tensor *high = quant_up(FIELDS(words, 2, 4, 3, 7), 8);
    qn_tensor *places = qn_or(SHAPE(quant_bytes(rows, 2, 32), 8, 4), high);
    return moved(SHAPE(d, 8, 1, 1), places, SHAPE(quant_and(words, 0x8000), 8, 1, 1));
}

/* The scale is in the top four bits of four words, the low ones first. */
static qn_tensor *scattered_half(qn_tensor *words) {
    qn_tensor *place = quant_along(words, 1, 4), *top = quant_and(quant_down(words, 12), 15);
    qn_tensor *bits = qn_shl(top, quant_up(place, 2));
    bits = qn_sum_axes(bits, 1, (int[]){1}, true);
    return qn_cast(qn_bitcast(qn_cast(bits, QN_U16), QN_F16), QN_F32);
}

qn_tensor *quant_iq1_m(qn_tensor *rows) {
    qn_tensor *words = quant_words(rows, 48, 4);
    qn_tensor *d = SHAPE(FIELDS(SHAPE(words, 4, 1), 2, 4, 3, 7), 16);
    d = SHAPE(odd_times(scattered_half(words), d), 8, 2, 1, 1);
    qn_tensor *high = FIELDS(SHAPE(quant_bytes(rows, 32, 16), 16, 1), 2, 2, 4, 15);
    qn_tensor *low = SHAPE(quant_bytes(rows, 0, 32), 8, 2, 2);
    high = SHAPE(high, 8, 2, 2);
    qn_tensor *places = qn_or(low, quant_up(quant_and(high, 7), 8));
    return moved(d, places, qn_unsqueeze(quant_and(high, 8), -1));
}
