/* erfinv.c - the inverse of the error function.
 *
 * A polynomial comes within 6e-7 of it, of w = -log(1 - x^2), or near 1 of the root of w, as the
 * inverse grows with that root (the idea is Giles's, 2010; the coefficients were fitted in 40
 * digits). One of Halley's steps, of third order, does the rest. The step's residual is what
 * counts: erf(y) - x in f64 where the result is f32, of which no digit is lost; of f64 from 1/2 on
 * (1 - x) - erfc(y), whose first term is exact and whose second one has its own last place. The
 * derivative is the step's: that by the point where it begins is next to 0, of the second order,
 * too. */
#include "func/func.h"

#include <math.h>

/* Of w less the middle of [0, 6.25], and of its root less that of [2.5, 6.2]: y / x. */
static const double near_terms[] = {1.65365528,      0.240159222,    -0.00603628632,
                                    -0.000742357771, 0.000188287548, -1.32174743e-05,
                                    -1.69331151e-06, 3.28624175e-07};
static const double far_terms[] = {
    4.19322844,      1.01010259,      0.0005323339,    -0.000525645613, 0.000208829681,
    -5.80202297e-05, -7.13614744e-06, -2.53964194e-06, 1.21665067e-05,  -3.86695219e-06};
#define NEAR_MIDDLE 3.125
#define FAR_MIDDLE  4.35
#define NEAR_END    6.25

static qn_tensor *polynomial(qn_tensor *x, double middle, size_t n, const double *term) {
    x = qn_sub(x, qn_like(x, middle));
    qn_tensor *sum = qn_like(x, term[n - 1]);
    for (size_t i = n - 1; i-- > 0;) sum = qn_fma(sum, x, qn_like(x, term[i]));
    return sum;
}

static qn_tensor *begin_at(qn_tensor *x) {
    qn_tensor *one = qn_like(x, 1);
    qn_tensor *w = qn_neg(qn_log(qn_mul(qn_sub(one, x), qn_add(one, x))));
    qn_tensor *far = qn_lt(qn_like(x, NEAR_END), w);
    qn_tensor *root = qn_sqrt(qn_where(far, w, qn_like(x, NEAR_END)));
    qn_tensor *p = polynomial(w, NEAR_MIDDLE, COUNT_OF(near_terms), near_terms);
    qn_tensor *q = polynomial(root, FAR_MIDDLE, COUNT_OF(far_terms), far_terms);
    return qn_mul(x, qn_where(far, q, p));
}

/* erf(y) - x. */
static qn_tensor *residual(qn_tensor *x, qn_tensor *y, bool of_f64) {
    qn_tensor *off = qn_sub(qn_erf(y), x);
    if (!of_f64) return off;
    qn_tensor *rest = qn_sub(qn_sub(qn_like(x, 1), x), qn_erfc(y));
    return qn_where(qn_lt(x, qn_like(x, 0.5)), off, rest);
}

/* Of x in [0, 1), of anything else NaN. */
static qn_tensor *inverse(qn_tensor *x, bool of_f64) {
    qn_tensor *y = begin_at(x), *slope = qn_exp(qn_mul(y, y));
    qn_tensor *step = qn_mul(residual(x, y, of_f64), slope);
    step = qn_mul(step, qn_like(x, 1 / M_2_SQRTPI));
    return qn_sub(y, qn_div(step, qn_fma(y, step, qn_like(x, 1))));
}

/* At 1 a pole stands for it: infinite like all its derivatives there. */
qn_tensor *qn_erfinv(qn_tensor *x) {
    func_frame f = func_on("erfinv", ARG(x));
    func_floats(&f, 1, &x);
    if (!x) return func_end(f, NULL);
    qn_dtype given = qn_dtype_of(x);
    x = func_as(x, QN_F64);
    qn_tensor *one = qn_like(x, 1), *zero = qn_like(x, 0);
    qn_tensor *sign = qn_where(qn_lt(x, zero), qn_like(x, -1), one), *size = qn_mul(x, sign);
    qn_tensor *edge = qn_eq(size, one);
    qn_tensor *pole = qn_reciprocal(qn_sub(one, qn_where(edge, size, zero)));
    qn_tensor *y = inverse(qn_where(edge, zero, size), given == QN_F64);
    return func_end(f, func_as(qn_mul(qn_where(edge, pole, y), sign), given));
}
