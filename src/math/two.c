/* two.c - numbers as sums of two floats, of some 2^-106 of their size, for what cancels.
 *
 * The sums and products are Dekker's and Knuth's with Møller's fma (Muller et al., Handbook of
 * Floating-Point Arithmetic, chapter 4): what a sum or a product rounds off is a float itself and
 * is worked out exactly.
 *
 * e^x - 1 is the Taylor series on |r| <= log(2)/2, x = n log(2) + r with log(2) in three parts, of
 * degree 23: what is left out is less than 2^-106 of the first term. Terms that are less than 2^-53
 * of it need one float only. */
#include "math/math.h"

math_two math_two_fast(const math *m, expr_id a, expr_id b) {
    expr_id high = math_add(m, a, b);
    return (math_two){high, math_sub(m, b, math_sub(m, high, a))};
}

math_two math_two_sum(const math *m, expr_id a, expr_id b) {
    expr_id high = math_add(m, a, b), part = math_sub(m, high, a);
    expr_id rest = math_sub(m, a, math_sub(m, high, part));
    return (math_two){high, math_add(m, rest, math_sub(m, b, part))};
}

math_two math_two_product(const math *m, expr_id a, expr_id b) {
    expr_id high = math_mul(m, a, b);
    return (math_two){high, math_fma(m, a, b, math_neg(m, high))};
}

math_two math_two_mul(const math *m, math_two a, math_two b) {
    math_two p = math_two_product(m, a.high, b.high);
    p.low = math_fma(m, a.high, b.low, p.low);
    p.low = math_fma(m, a.low, b.high, p.low);
    return math_two_fast(m, p.high, p.low);
}

math_two math_two_const(const math *m, double high, double low) {
    return (math_two){math_f(m, high), math_f(m, low)};
}

math_two math_two_poly_from(const math *m, int poly, int from, expr_id x) {
    expr_id first = math_f(m, math_poly_at(poly, from));
    expr_id rest = math_poly_from(m, poly, from + 1, 1, x), high = math_fma(m, rest, x, first);
    return (math_two){high, math_fma(m, rest, x, math_sub(m, first, high))};
}

/* ---- e^x - 1, F64 --------------------------------------------------------------------------- */

static const double factorials[][2] = {
    {0x1p-1, 0x0p+0},                                /* 1/2! */
    {0x1.5555555555555p-3, 0x1.5555555555555p-57},   /* 1/3! */
    {0x1.5555555555555p-5, 0x1.5555555555555p-59},   /* 1/4! */
    {0x1.1111111111111p-7, 0x1.1111111111111p-63},   /* 1/5! */
    {0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65}, /* 1/6! */
    {0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-73},  /* 1/7! */
    {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},  /* 1/8! */
    {0x1.71de3a556c734p-19, -0x1.c154f8ddc6cp-73},   /* 1/9! */
    {0x1.27e4fb7789f5cp-22, 0x1.cbbc05b4fa99ap-76},  /* 1/10! */
    {0x1.ae64567f544e4p-26, -0x1.c062e06d1f209p-80}, /* 1/11! */
    {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83}, /* 1/12! */
};
static const double late_factorials[] = {/* 1/13! and on */
                                         0x1.6124613a86d09p-33, 0x1.93974a8c07c9dp-37,
                                         0x1.ae7f3e733b81fp-41, 0x1.ae7f3e733b81fp-45,
                                         0x1.952c77030ad4ap-49, 0x1.6827863b97d97p-53,
                                         0x1.2f49b46814157p-57, 0x1.e542ba4020225p-62,
                                         0x1.71b8ef6dcf572p-66, 0x1.0ce396db7f853p-70,
                                         0x1.761b41316381ap-75};

/* c + p r, where c is the larger term. */
static math_two math_two_step(const math *m, math_two p, math_two r, const double c[2]) {
    math_two product = math_two_mul(m, p, r);
    math_two sum = math_two_fast(m, math_f(m, c[0]), product.high);
    sum.low = math_add(m, sum.low, math_add(m, product.low, math_f(m, c[1])));
    return sum;
}

/* e^r - 1 = r + r^2 (1/2 + r/6 + ...) */
static math_two math_two_series(const math *m, math_two r) {
    int late = COUNT_OF(late_factorials);
    expr_id tail = math_f(m, late_factorials[late - 1]);
    for (int i = late - 1; i-- > 0;)
        tail = math_fma(m, tail, r.high, math_f(m, late_factorials[i]));
    math_two p = {tail, math_f(m, 0)};
    for (int i = COUNT_OF(factorials); i-- > 0;) p = math_two_step(m, p, r, factorials[i]);
    p = math_two_mul(m, math_two_mul(m, p, r), r);
    math_two sum = math_two_fast(m, r.high, p.high);
    return math_two_fast(m, sum.high, math_add(m, sum.low, math_add(m, p.low, r.low)));
}

math_two math_two_expm1(const math *m, expr_id x, expr_id *power) {
    math_integer n = math_nearest(m, x, math_f(m, 0x1.71547652b82fep+0), m->bias);
    expr_id minus = math_neg(m, n.value);
    expr_id first = math_fma(m, minus, math_f(m, 0x1.62e42fefa39efp-1), x); /* exact */
    math_two second = math_two_product(m, minus, math_f(m, 0x1.abc9e3b39803fp-56));
    math_two r = math_two_sum(m, first, second.high);
    expr_id third = math_fma(m, minus, math_f(m, 0x1.7b57a079a1934p-111), second.low);
    r = math_two_fast(m, r.high, math_add(m, r.low, third));
    *power = math_pow2(m, n);
    math_two e = math_two_series(m, r);
    return (math_two){math_mul(m, e.high, *power), math_mul(m, e.low, *power)};
}
