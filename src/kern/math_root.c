/* math_root.c - cbrt and hypot, softplus and logaddexp.
 *
 * cbrt begins with a polynomial of degree 6 for x = 2^(3n) v, v in [3/8, 3), takes one step of
 * Halley's, which triples the digits, and one of Newton's whose residual is exact, so that it is
 * the last one that rounds.
 *
 * hypot in F32 is sqrt(x*x + y*y) in F64 arithmetic, where nothing overflows and the products are
 * exact; in F64 both are first scaled by a power of two.
 *
 * softplus and logaddexp take the larger term out and leave log1p of a number in [0, 1]. In
 * logaddexp the two cancel where the result is near 0: F32 is computed in F64; in F64 the error
 * stays one unit of the larger term. */
#include "kern/math.h"

/* ---- roots ---------------------------------------------------------------------------------- */

static kexpr math_cbrt_step(const math *m, kexpr v, kexpr y) {
    kexpr cube = math_mul(m, math_mul(m, y, y), y), two = math_f(m, 2);
    kexpr up = math_fma(m, v, two, cube), down = math_fma(m, cube, two, v);
    return math_mul(m, y, math_div(m, up, down));
}

static kexpr math_cbrt_last(const math *m, kexpr v, kexpr y) {
    kexpr square = math_mul(m, y, y), square_low = math_fma(m, y, y, math_neg(m, square));
    kexpr cube = math_mul(m, square, y), cube_low = math_fma(m, square, y, math_neg(m, cube));
    cube_low = math_fma(m, square_low, y, cube_low);
    kexpr off = math_add(m, math_sub(m, cube, v), cube_low);
    return math_sub(m, y, math_div(m, off, math_mul(m, square, math_f(m, 3))));
}

kexpr math_cbrt(const math *m, const kexpr *arg) {
    kexpr x = arg[0], t = math_abs(m, x), k, f = math_split(m, t, false, &k);
    kexpr zero = math_f(m, 0), one = math_f(m, 1);
    math_integer n = math_nearest(m, k, math_f(m, 1.0 / 3), m->bias);
    kexpr left = math_fma(m, n.value, math_f(m, -3), k); /* -1, 0 or 1 */
    kexpr scale = math_where(m, math_lt(m, left, zero), math_f(m, 0.5), one);
    scale = math_where(m, math_lt(m, zero, left), math_f(m, 2), scale);
    kexpr v = math_mul(m, math_add(m, f, one), scale);
    kexpr y = math_cbrt_step(m, v, math_poly(m, POLY(m, CBRT), v));
    y = math_mul(m, math_cbrt_last(m, v, y), math_pow2(m, n));
    y = math_where(m, math_lt(m, t, math_f(m, INFINITY)), math_copy_sign(m, y, x), x);
    return math_where(m, math_eq(m, x, zero), x, y);
}

static kexpr math_hypot_f64(const math *m, kexpr a, kexpr b) {
    kexpr most = math_where(m, math_lt(m, a, b), b, a), one = math_f(m, 1);
    kexpr large = math_lt(m, math_f(m, 0x1p500), most);
    kexpr small = math_lt(m, most, math_f(m, 0x1p-400));
    kexpr up = math_f(m, 0x1p600), down = math_f(m, 0x1p-600);
    kexpr scale = math_where(m, large, down, math_where(m, small, up, one));
    kexpr back = math_where(m, large, up, math_where(m, small, down, one));
    a = math_mul(m, a, scale);
    b = math_mul(m, b, scale);
    kexpr sum = math_fma(m, a, a, math_mul(m, b, b));
    return math_mul(m, kern_op1(m->k, OP_SQRT, sum), back);
}

kexpr math_hypot(const math *m, const kexpr *arg) {
    kexpr a = math_abs(m, arg[0]), b = math_abs(m, arg[1]), inf = math_f(m, INFINITY), h;
    if (m->dtype == QN_F32) {
        math d = math_format(m->k, QN_F64);
        kexpr x = kern_cast(m->k, QN_F64, a), y = kern_cast(m->k, QN_F64, b);
        kexpr sum = math_fma(&d, x, x, math_mul(&d, y, y));
        h = kern_cast(m->k, QN_F32, kern_op1(m->k, OP_SQRT, sum));
    } else {
        h = math_hypot_f64(m, a, b);
    }
    kexpr endless = kern_op2(m->k, OP_OR, math_eq(m, a, inf), math_eq(m, b, inf));
    return math_where(m, endless, inf, h);
}

/* ---- logarithms of sums --------------------------------------------------------------------- */

kexpr math_softplus(const math *m, const kexpr *arg) {
    kexpr x = arg[0], t = math_neg(m, math_abs(m, x));
    t = math_exp(m, &t);
    return math_add(m, math_at_least(m, x, 0), math_log1p(m, &t));
}

/* The distance is corrected by what its rounding lost: e^-(d + l) = e^-d (1 - l). */
kexpr math_logaddexp(const math *m, const kexpr *arg) {
    kexpr x = arg[0], y = arg[1];
    if (m->dtype == QN_F32) {
        math d = math_format(m->k, QN_F64);
        kexpr wide[2] = {kern_cast(m->k, QN_F64, x), kern_cast(m->k, QN_F64, y)};
        return kern_cast(m->k, QN_F32, math_logaddexp(&d, wide));
    }
    kexpr less = math_lt(m, x, y), zero = math_f(m, 0);
    kexpr most = math_where(m, less, y, x), least = math_where(m, less, x, y);
    kexpr apart = math_sub(m, most, least), part = math_sub(m, most, apart);
    kexpr lost = math_sub(m, most, math_add(m, apart, part));
    lost = math_add(m, lost, math_sub(m, part, least)); /* exact */
    kexpr t = math_where(m, math_eq(m, x, y), zero, math_neg(m, apart));
    kexpr e = math_exp(m, &t);
    lost = math_where(m, math_lt(m, apart, math_f(m, 800)), lost, zero);
    e = math_fma(m, e, math_neg(m, lost), e);
    return math_add(m, most, math_log1p(m, &e));
}
