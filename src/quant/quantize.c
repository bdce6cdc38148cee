/* quantize.c - blocks of floats, by the rules of the gguf package: the scale is what brings the
 * largest number to the end of the range, elements are multiplied by its reciprocal, both in f32,
 * and rounded; the scale is then stored as f16, so it is not quite what they were divided by. */
#include "quant/quant.h"

/* ---- parts ----------------------------------------------------------------------------------- */

static qn_tensor *largest_size(qn_tensor *x) {
    return qn_max(qn_abs(x), -1, true);
}

/* The element of the largest size, the first of several. */
static qn_tensor *largest(qn_tensor *x) {
    return qn_take_along_axis(x, qn_argmax(qn_abs(x), -1, true), -1);
}

/* 1 / d, of 0 0. */
static qn_tensor *inverse(qn_tensor *d) {
    qn_tensor *zero = qn_like(d, 0);
    return qn_where(qn_eq(d, zero), zero, qn_div(qn_like(d, 1), d));
}

static qn_tensor *over(qn_tensor *x, double n) {
    return qn_div(x, qn_like(x, n));
}

static qn_tensor *half_bytes(qn_tensor *d) {
    return qn_view(qn_cast(d, QN_F16), QN_U8);
}

/* Without its fraction, as integers up to `most`. */
static qn_tensor *whole(qn_tensor *x, int64_t most) {
    qn_tensor *q = qn_cast(x, QN_I32);
    return qn_minimum(quant_and(q, 255), func_integer(q, most));
}

/* To the nearest integer, halves away from 0. */
static qn_tensor *nearest_whole(qn_tensor *x) {
    qn_tensor *size = qn_abs(x), *least = qn_floor(size);
    qn_tensor *more = qn_sub(size, least);
    more = qn_floor(qn_mul(more, qn_like(more, 2)));
    return qn_cast(qn_mul(qn_sign(x), qn_add(least, more)), QN_I32);
}

/* Element i and i + n / 2 of [R, n] in a byte: u8 [R, n / 2]. */
static qn_tensor *halves(qn_tensor *q, int64_t n) {
    qn_tensor *low = qn_slice(q, 1, 0, n / 2, 1), *high = qn_slice(q, 1, n / 2, n, 1);
    return qn_cast(qn_or(quant_and(low, 15), quant_up(quant_and(high, 15), 4)), QN_U8);
}

/* Bits i of [R, 32] in four bytes. */
static qn_tensor *bits32(qn_tensor *bits) {
    qn_tensor *x = SHAPE(bits, 4, 8);
    x = qn_shl(x, quant_along(x, 2, 8));
    return qn_cast(qn_sum_axes(x, 1, (int[]){2}, false), QN_U8);
}

/* ---- about 0 --------------------------------------------------------------------------------- */

/* x over d, which brings the largest number to -most, from 0 on. */
static qn_tensor *signed_whole(qn_tensor *x, qn_tensor *d, int64_t most) {
    qn_tensor *y = qn_mul(x, inverse(d));
    return whole(qn_add(y, qn_like(y, (double)most + 0.5)), 2 * most - 1);
}

qn_tensor *quantize_q4_0(qn_tensor *x) {
    qn_tensor *d = over(largest(x), -8), *q = signed_whole(x, d, 8);
    return qn_concat(2, (qn_tensor *[]){half_bytes(d), halves(q, 32)}, 1);
}

qn_tensor *quantize_q5_0(qn_tensor *x) {
    qn_tensor *d = over(largest(x), -16), *q = signed_whole(x, d, 16);
    return qn_concat(3, (qn_tensor *[]){half_bytes(d), bits32(quant_down(q, 4)), halves(q, 32)}, 1);
}

qn_tensor *quantize_q8_0(qn_tensor *x) {
    qn_tensor *d = over(largest_size(x), 127), *q = nearest_whole(qn_mul(x, inverse(d)));
    return qn_concat(2, (qn_tensor *[]){half_bytes(d), qn_cast(q, QN_U8)}, 1);
}

/* ---- from a least value on ------------------------------------------------------------------- */

static qn_tensor *from_least(qn_tensor *x, int64_t most, qn_tensor **d, qn_tensor **least) {
    *least = qn_min(x, -1, true);
    *d = over(qn_sub(qn_max(x, -1, true), *least), (double)most);
    qn_tensor *y = qn_mul(qn_sub(x, *least), inverse(*d));
    return whole(qn_add(y, qn_like(y, 0.5)), most);
}

qn_tensor *quantize_q4_1(qn_tensor *x) {
    qn_tensor *d, *least, *q = from_least(x, 15, &d, &least);
    return qn_concat(3, (qn_tensor *[]){half_bytes(d), half_bytes(least), halves(q, 32)}, 1);
}

qn_tensor *quantize_q5_1(qn_tensor *x) {
    qn_tensor *d, *least, *q = from_least(x, 31, &d, &least);
    qn_tensor *part[] = {half_bytes(d), half_bytes(least), bits32(quant_down(q, 4)), halves(q, 32)};
    return qn_concat(4, part, 1);
}

/* ---- -1, 0, 1 -------------------------------------------------------------------------------- */

/* 0, 1 or 2 each. */
static qn_tensor *ternary(qn_tensor *x, qn_tensor *d) {
    return quant_plus(nearest_whole(qn_mul(x, inverse(d))), 1);
}

/* `count` digits of base 3 from each of [R, count, n], the first the highest of five, in a byte:
 * the least whose fraction of 256 is no smaller than theirs of 243. */
static qn_tensor *digits(qn_tensor *q, int64_t from, int64_t count, int64_t n) {
    static const int power[] = {81, 27, 9, 3, 1};
    qn_tensor *x = SHAPE(qn_slice(q, 1, from, from + count * n, 1), count, n), *sum = NULL;
    for (int i = 0; i < count; i++) {
        qn_tensor *one = qn_select(x, 1, i);
        one = qn_mul(one, func_integer(one, power[i]));
        sum = sum ? qn_add(sum, one) : one;
    }
    sum = quant_plus(quant_up(sum, 8), 242);
    return qn_cast(qn_floor_div(sum, func_integer(sum, 243)), QN_U8);
}

qn_tensor *quantize_tq1_0(qn_tensor *x) {
    qn_tensor *d = largest_size(x), *q = ternary(x, d);
    qn_tensor *part[] = {digits(q, 0, 5, 32), digits(q, 160, 5, 16), digits(q, 240, 4, 4),
                         half_bytes(d)};
    return qn_concat(4, part, 1);
}

qn_tensor *quantize_tq2_0(qn_tensor *x) {
    qn_tensor *d = largest_size(x), *q = SHAPE(ternary(x, d), 2, 4, 32);
    q = qn_shl(q, qn_mul(quant_along(q, 2, 4), func_integer(q, 2)));
    q = qn_cast(qn_sum_axes(q, 1, (int[]){2}, false), QN_U8);
    return qn_concat(2, (qn_tensor *[]){SHAPE(q, 64), half_bytes(d)}, 1);
}

/* ---- floats of 4 bits ------------------------------------------------------------------------ */

/* The nearest of the 16, the first of two, at the exponent that the largest number has, less 2. Its
 * logarithm is rounded to f32, as the reference does: right below a power of two that counts. */
qn_tensor *quantize_mxfp4(qn_tensor *x) {
    qn_tensor *d = largest_size(x), *zero = qn_like(d, 0);
    qn_tensor *e = qn_floor(qn_cast(qn_log2(qn_cast(d, QN_F64)), QN_F32));
    e = qn_where(qn_gt(d, zero), qn_add(e, qn_like(e, 127 - 2)), zero);
    e = quant_and(qn_cast(e, QN_I32), 255);
    qn_tensor *codes = quant_along(qn_unsqueeze(e, -1), 2, 16);
    qn_tensor *values =
        qn_mul(qn_unsqueeze(quant_half_e8m0(e), -1), quant_float(quant_twice_e2m1(codes)));
    qn_tensor *off = qn_abs(qn_sub(values, qn_unsqueeze(x, -1)));
    qn_tensor *q = qn_cast(qn_argmin(off, -1, false), QN_I32);
    return qn_concat(2, (qn_tensor *[]){qn_cast(e, QN_U8), halves(q, 32)}, 1);
}
