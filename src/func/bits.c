/* bits.c - functions of the parts of a number: sign, exponent, neighbours, set bits, divisors.
 *
 * A float is taken apart by a BITCAST to integers of its size, so every dtype is treated in its own
 * format. What is differentiable goes through ordinary operations: ldexp multiplies, frexp is ldexp
 * of minus the exponent. */
#include "func/func.h"

#include <math.h>

static qn_dtype signed_of(qn_dtype d) {
    static const qn_dtype of_size[] = {[1] = QN_I8, [2] = QN_I16, [4] = QN_I32, [8] = QN_I64};
    return of_size[qn_dtype_size(d)];
}

static qn_dtype unsigned_of(qn_dtype d) {
    static const qn_dtype of_size[] = {[1] = QN_U8, [2] = QN_U16, [4] = QN_U32, [8] = QN_U64};
    return of_size[qn_dtype_size(d)];
}

/* Both in their common float dtype; integers as f32. */
static bool common_floats(qn_tensor **x, qn_tensor **y) {
    if (!*x || !*y) return false;
    qn_dtype d = func_meet(*x, *y);
    if (!dtype_is_float(d)) d = QN_F32;
    *x = func_as(*x, d);
    *y = func_as(*y, d);
    return *x && *y;
}

static qn_tensor *sign_bit(qn_tensor *x) {
    if (!x) return NULL;
    if (dtype_is_float(qn_dtype_of(x))) x = qn_bitcast(x, signed_of(qn_dtype_of(x)));
    return qn_lt(x, qn_like(x, 0));
}

qn_tensor *qn_signbit(qn_tensor *x) {
    func_frame f = func_on("signbit", ARG(x));
    return func_end(f, sign_bit(x));
}

qn_tensor *qn_copysign(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("copysign", ARG(x), ARG(y));
    if (!common_floats(&x, &y)) return func_end(f, build_elem(OP_ATAN2, 2, (qn_tensor *[]){x, y}));
    qn_tensor *size = qn_abs(x);
    return func_end(f, qn_where(sign_bit(y), qn_neg(size), size));
}

/* The numbers of one sign are ordered as their bits: the neighbour is one more or one less. */
qn_tensor *qn_nextafter(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("nextafter", ARG(x), ARG(y));
    if (!common_floats(&x, &y)) return func_end(f, build_elem(OP_ATAN2, 2, (qn_tensor *[]){x, y}));
    qn_dtype d = qn_dtype_of(x), bits = signed_of(d);
    qn_tensor *i = qn_bitcast(x, bits), *zero = qn_like(x, 0);
    qn_tensor *nearer = qn_xor(qn_lt(x, y), qn_lt(zero, x)); /* to 0 */
    i = qn_add(i, qn_where(nearer, qn_like(i, -1), qn_like(i, 1)));
    qn_tensor *least = qn_bitcast(qn_like(i, 1), d);
    least = qn_where(qn_lt(y, zero), qn_neg(least), least);
    qn_tensor *next = qn_where(qn_eq(x, zero), least, qn_bitcast(i, d));
    next = qn_where(qn_eq(x, y), y, next);
    qn_tensor *ordered = qn_and(qn_eq(x, x), qn_eq(y, y));
    return func_end(f, qn_where(ordered, next, qn_add(x, y)));
}

/* ---- exponents ------------------------------------------------------------------------------ */

/* 2^n for n from least to -least + 1, of x's dtype; n is of the integers of its size. */
static qn_tensor *power_of_two(qn_tensor *n, qn_dtype d) {
    int bias = 1 - dtype_rows[d].least;
    n = qn_shl(qn_add(n, qn_like(n, bias)), qn_like(n, dtype_rows[d].fraction));
    return qn_bitcast(n, d);
}

/* A factor of 2^n that is far from where floats end, and what is left of n. */
static qn_tensor *far_factor(qn_tensor **n, qn_dtype d) {
    int least = dtype_rows[d].least, most = 1 - least, down = least + dtype_rows[d].fraction + 1;
    qn_tensor *i = *n, *none = qn_like(i, 0);
    qn_tensor *part = qn_where(qn_lt(i, qn_like(i, least)), qn_like(i, down), none);
    part = qn_where(qn_lt(qn_like(i, most), i), qn_like(i, most), part);
    *n = qn_sub(i, part);
    return power_of_two(part, d);
}

/* Three factors are enough for every n that does not give 0 or infinity. Of them only the last one
 * rounds: one of 2^down that goes below the normal numbers is followed by one that ends at 0. */
static qn_tensor *scaled_by(qn_tensor *x, qn_tensor *n) {
    if (!x || !n) return NULL;
    qn_dtype d = qn_dtype_of(x), bits = signed_of(d);
    int least = dtype_rows[d].least, most = 1 - least;
    double far = 3.0 * most; /* every bound fits the integers below 64 bits, too */
    n = func_as(n, qn_dtype_of(n) == QN_U64 ? QN_U64 : QN_I64);
    if (qn_dtype_of(n) == QN_I64) n = qn_maximum(n, qn_like(n, -far));
    n = qn_cast(qn_minimum(n, qn_like(n, far)), bits);
    x = qn_mul(x, far_factor(&n, d));
    x = qn_mul(x, far_factor(&n, d));
    n = qn_maximum(qn_minimum(n, qn_like(n, most)), qn_like(n, least));
    return qn_mul(x, power_of_two(n, d));
}

qn_tensor *qn_ldexp(qn_tensor *x, qn_tensor *n) {
    func_frame f = func_on("ldexp", ARG(x), ARG(n));
    if (n && dtype_is_float(qn_dtype_of(n)))
        return func_end(f, fail_null(f.qn, QN_EDTYPE, "ldexp: the exponents are integers, not %s",
                                     qn_dtype_name(qn_dtype_of(n))));
    func_floats(&f, 1, &x);
    return func_end(f, scaled_by(x, n));
}

/* The exponent e of x = m 2^e with m from 1/2 up to 1; 0 of 0, infinities and NaN. */
static qn_tensor *exponent_of(qn_tensor *x) {
    if (!x) return NULL;
    qn_dtype d = qn_dtype_of(x);
    int fraction = dtype_rows[d].fraction, least = dtype_rows[d].least;
    qn_tensor *size = qn_abs(x);
    qn_tensor *tiny = qn_lt(size, qn_like(size, ldexp(1, least)));
    size = qn_where(tiny, qn_mul(size, qn_like(size, ldexp(1, fraction + 1))), size);
    qn_tensor *e = qn_bitcast(size, signed_of(d));
    e = qn_shr(e, qn_like(e, fraction));
    qn_tensor *bias = qn_where(tiny, qn_like(e, -least + fraction + 1), qn_like(e, -least));
    qn_tensor *usual = qn_and(qn_isfinite(x), qn_ne(x, qn_like(x, 0)));
    return qn_cast(qn_where(usual, qn_sub(e, bias), qn_like(e, 0)), QN_I32);
}

qn_code qn_frexp(qn_tensor *x, qn_tensor **out) {
    if (!func_outputs_check(x, "frexp", out)) return handle_code(x);
    qn_ctx *qn = tensor_ctx(x);
    int made = 0;
    for (; made < 2; made++) {
        qn_tensor *t = x;
        func_frame f = func_on("frexp", ARG(t));
        func_floats(&f, 1, &t);
        qn_tensor *e = exponent_of(t);
        if (made == 1) f.dtype = QN_I32;
        out[made] = func_end(f, made == 0 ? scaled_by(t, qn_neg(e)) : e);
        if (!out[made]) break;
    }
    return func_outputs_done(qn, 2, out, made);
}

qn_tensor *qn_nan_to_num(qn_tensor *x, double nan, double infinity, double minus_infinity) {
    func_frame f = func_on("nan_to_num", ARG(x));
    if (!x || !dtype_is_float(qn_dtype_of(x))) return func_end(f, x);
    qn_dtype d = qn_dtype_of(x);
    double most = dtype_most(d);
    if (isinf(infinity)) infinity = infinity > 0 ? most : -most;
    if (isinf(minus_infinity)) minus_infinity = minus_infinity > 0 ? most : -most;
    qn_tensor *up = qn_eq(x, qn_like(x, (double)INFINITY));
    qn_tensor *down = qn_eq(x, qn_like(x, -(double)INFINITY));
    qn_tensor *y = qn_where(qn_ne(x, x), qn_like(x, nan), x);
    y = qn_where(up, qn_like(x, infinity), y);
    return func_end(f, qn_where(down, qn_like(x, minus_infinity), y));
}

/* ---- integers ------------------------------------------------------------------------------- */

static qn_tensor *magnitude(qn_tensor *x) {
    if (!x || dtype_is_unsigned(qn_dtype_of(x))) return x;
    return qn_bitcast(qn_abs(x), unsigned_of(qn_dtype_of(x)));
}

static qn_tensor *whole(qn_tensor *x, uint64_t v) {
    return func_integer(x, (int64_t)v);
}

/* Sums of two bits, of four, of eight; the product adds the bytes into the highest one. */
static qn_tensor *set_bits(qn_tensor *x) {
    if (!x) return NULL;
    uint64_t ones = UINT64_MAX >> (64 - 8 * qn_dtype_size(qn_dtype_of(x)));
    int width = 8 * (int)qn_dtype_size(qn_dtype_of(x));
    qn_tensor *pairs = qn_and(qn_shr(x, whole(x, 1)), whole(x, ones / 3));
    x = qn_sub(x, pairs);
    qn_tensor *high = qn_and(qn_shr(x, whole(x, 2)), whole(x, ones / 5));
    x = qn_add(qn_and(x, whole(x, ones / 5)), high);
    x = qn_and(qn_add(x, qn_shr(x, whole(x, 4))), whole(x, ones / 17));
    return qn_shr(qn_mul(x, whole(x, ones / 255)), whole(x, (uint64_t)width - 8));
}

qn_tensor *qn_bitwise_count(qn_tensor *x) {
    func_frame f = func_on("bitwise_count", ARG(x));
    if (x && dtype_is_float(qn_dtype_of(x)))
        return func_end(f, build_elem(OP_NOT, 1, &x)); /* refuses */
    if (qn_dtype_of(x) == QN_BOOL) return func_end(f, qn_cast(x, QN_U8));
    return func_end(f, qn_cast(set_bits(magnitude(x)), QN_U8));
}

/* Euclid: no two numbers of n bits need more steps than neighbours of Fibonacci's numbers, which
 * grow by 1.618 a step, and one to put the larger first. By 0 MOD gives 0. */
static qn_tensor *common_divisor(qn_tensor *x, qn_tensor *y) {
    if (!x || !y) return NULL;
    int bits = 8 * (int)qn_dtype_size(qn_dtype_of(x)), steps = (int)ceil(bits * 1.4404) + 1;
    for (int i = 0; i < steps; i++) {
        qn_tensor *rest = qn_mod(x, y);
        x = qn_where(qn_eq(y, whole(y, 0)), x, y);
        y = rest;
    }
    return x;
}

/* Both in the dtype where they meet, which is an integer's. */
static bool common_integers(qn_tensor **x, qn_tensor **y, qn_dtype *d) {
    if (!*x || !*y) return false;
    *d = func_meet(*x, *y);
    if (!dtype_is_int(*d)) return false;
    *x = magnitude(func_as(*x, *d));
    *y = magnitude(func_as(*y, *d));
    return true;
}

qn_tensor *qn_gcd(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("gcd", ARG(x), ARG(y));
    qn_dtype d;
    if (!common_integers(&x, &y, &d)) /* refuses */
        return func_end(f, build_elem(OP_SHL, 2, (qn_tensor *[]){x, y}));
    return func_end(f, func_as(common_divisor(x, y), d));
}

qn_tensor *qn_lcm(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("lcm", ARG(x), ARG(y));
    qn_dtype d;
    if (!common_integers(&x, &y, &d)) /* refuses */
        return func_end(f, build_elem(OP_SHL, 2, (qn_tensor *[]){x, y}));
    qn_tensor *z = qn_mul(qn_floor_div(x, common_divisor(x, y)), y);
    z = func_as(z, d);
    return func_end(f, dtype_is_unsigned(d) ? z : qn_abs(z));
}
