/* math.c - elementwise functions composed of others.
 *
 * Each is written so that neither its value nor its derivative overflows where the true one does
 * not. The trap is WHERE: its gradient multiplies the branch that was not taken by 0, and 0
 * times an infinite derivative is NaN. So a branch is kept finite by clamping its own argument
 * first. */
#include "func/func.h"

#include <math.h>

static qn_tensor *add_number(qn_tensor *x, double v) {
    return qn_add(x, qn_like(x, v));
}

static qn_tensor *mul_number(qn_tensor *x, double v) {
    return qn_mul(x, qn_like(x, v));
}

/* x (v + low) with one rounding, low being what a double leaves of a constant: in two parts of one
 * sign, so that an infinite x stays so. */
static qn_tensor *scaled(qn_tensor *x, double v, double low) {
    bool wide = qn_dtype_of(x) == QN_F64;
    double high = wide ? v : (double)(float)v;
    if (fabs(high) > fabs(v) || (high == v && low < 0))
        high = wide ? nextafter(high, 0) : (double)nextafterf((float)high, 0);
    return qn_fma(x, qn_like(x, high), mul_number(x, v - high + low));
}

static qn_tensor *above(qn_tensor *x, double v) {
    return qn_lt(qn_like(x, v), x);
}

static qn_tensor *below(qn_tensor *x, double v) {
    return qn_lt(x, qn_like(x, v));
}

/* x, but no less than v; NaN stays. Where a function's tail is 0, the infinite x must
 * not be multiplied by it. */
static qn_tensor *not_below(qn_tensor *x, double v) {
    return qn_where(below(x, v), qn_like(x, v), x);
}

/* |x| with the derivative 1 at 0, for functions odd in x. */
static qn_tensor *magnitude(qn_tensor *x) {
    return qn_where(below(x, 0), qn_neg(x), x);
}

static qn_tensor *with_sign_of(qn_tensor *x, qn_tensor *y) {
    return qn_where(below(x, 0), qn_neg(y), y);
}

/* ---- comparisons and truth ------------------------------------------------------------------ */

qn_tensor *qn_gt(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("gt", ARG(x), ARG(y));
    return func_end(f, qn_lt(y, x));
}

qn_tensor *qn_ge(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("ge", ARG(x), ARG(y));
    return func_end(f, qn_le(y, x));
}

qn_tensor *qn_isnan(qn_tensor *x) {
    func_frame f = func_on("isnan", ARG(x));
    return func_end(f, qn_ne(x, x));
}

static qn_tensor *everywhere(qn_tensor *x, bool value) {
    return x ? func_broadcast(qn_scalar(tensor_ctx(x), QN_BOOL, value), x) : NULL;
}

qn_tensor *qn_isinf(qn_tensor *x) {
    func_frame f = func_on("isinf", ARG(x));
    if (!dtype_is_float(qn_dtype_of(x))) return func_end(f, everywhere(x, false));
    return func_end(f, qn_eq(qn_abs(x), qn_like(x, (double)INFINITY)));
}

qn_tensor *qn_isfinite(qn_tensor *x) {
    func_frame f = func_on("isfinite", ARG(x));
    if (!dtype_is_float(qn_dtype_of(x))) return func_end(f, everywhere(x, true));
    return func_end(f, below(qn_abs(x), (double)INFINITY));
}

qn_tensor *qn_logical_not(qn_tensor *x) {
    func_frame f = func_on("logical_not", ARG(x));
    return func_end(f, qn_not(func_truth(x)));
}

qn_tensor *qn_logical_and(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("logical_and", ARG(x), ARG(y));
    return func_end(f, qn_and(func_truth(x), func_truth(y)));
}

qn_tensor *qn_logical_or(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("logical_or", ARG(x), ARG(y));
    return func_end(f, qn_or(func_truth(x), func_truth(y)));
}

qn_tensor *qn_logical_xor(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("logical_xor", ARG(x), ARG(y));
    return func_end(f, qn_xor(func_truth(x), func_truth(y)));
}

/* ---- powers, exponentials, angles ----------------------------------------------------------- */

qn_tensor *qn_sign(qn_tensor *x) {
    func_frame f = func_on("sign", ARG(x));
    if (x && (dtype_is_unsigned(qn_dtype_of(x)) || qn_dtype_of(x) == QN_BOOL))
        return func_end(f, qn_where(above(x, 0), qn_like(x, 1), x));
    qn_tensor *rest = qn_where(below(x, 0), qn_like(x, -1), qn_detach(x)); /* 0 and NaN stay */
    return func_end(f, qn_where(above(x, 0), qn_like(x, 1), rest));
}

qn_tensor *qn_square(qn_tensor *x) {
    func_frame f = func_on("square", ARG(x));
    return func_end(f, qn_mul(x, x));
}

qn_tensor *qn_rsqrt(qn_tensor *x) {
    func_frame f = func_on("rsqrt", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_reciprocal(qn_sqrt(x)));
}

qn_tensor *qn_log10(qn_tensor *x) {
    func_frame f = func_on("log10", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, scaled(qn_log(x), 0.43429448190325182765, 0x1.95355baaafad3p-57));
}

qn_tensor *qn_tan(qn_tensor *x) {
    func_frame f = func_on("tan", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_div(qn_sin(x), qn_cos(x)));
}

/* Floats by magnitude, where MOD is exact; a zero x keeps its sign. Integers by correcting MOD,
 * which cannot overflow. */
qn_tensor *qn_rem(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("rem", ARG(x), ARG(y));
    if (dtype_is_float(dtype_promote(qn_dtype_of(x), qn_dtype_of(y)))) {
        qn_tensor *r = with_sign_of(x, qn_mod(magnitude(x), qn_abs(y)));
        qn_tensor *none = qn_and(qn_eq(x, qn_like(x, 0)), above(qn_abs(y), 0));
        return func_end(f, qn_where(none, x, r));
    }
    qn_tensor *r = qn_mod(x, y);
    qn_tensor *differ = qn_xor(below(x, 0), below(y, 0));
    differ = qn_and(differ, qn_ne(r, qn_like(r, 0)));
    r = qn_where(differ, qn_sub(r, y), r);
    return func_end(f, qn_where(qn_eq(y, qn_like(y, 0)), x, r));
}

qn_tensor *qn_lerp(qn_tensor *x, qn_tensor *y, qn_tensor *t) {
    func_frame f = func_on("lerp", ARG(x), ARG(y), ARG(t));
    qn_tensor *v[] = {x, y, t};
    func_floats(&f, 3, v);
    return func_end(f, qn_fma(v[2], qn_sub(v[1], v[0]), v[0]));
}

/* A bound in x's dtype; of integers the last one within, or the last one of the dtype. */
static qn_tensor *bound_of(qn_tensor *x, double v, bool upper) {
    qn_dtype d = qn_dtype_of(x);
    if (!x || dtype_is_float(d)) return qn_like(x, v);
    if (d == QN_BOOL) v = upper ? v >= 1 : v > 0;
    return build_const(tensor_ctx(x), d, 0, scalar_number(d, upper ? floor(v) : ceil(v)));
}

qn_tensor *qn_clamp(qn_tensor *x, double lo, double hi) {
    func_frame f = func_on("clamp", ARG(x));
    if (x && (isnan(lo) || isnan(hi)))
        return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "clamp: between %g and %g", lo, hi));
    qn_tensor *least = bound_of(x, lo, false), *most = bound_of(x, hi, true);
    qn_tensor *y = qn_where(qn_lt(x, least), least, x);
    return func_end(f, qn_where(qn_lt(most, y), most, y));
}

/* ---- activations ---------------------------------------------------------------------------- */

qn_tensor *qn_relu(qn_tensor *x) {
    func_frame f = func_on("relu", ARG(x));
    qn_tensor *zero = qn_like(x, 0);
    return func_end(f, qn_where(qn_le(x, zero), zero, x));
}

qn_tensor *qn_log_sigmoid(qn_tensor *x) {
    func_frame f = func_on("log_sigmoid", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_neg(qn_softplus(qn_neg(x))));
}

qn_tensor *qn_relu6(qn_tensor *x) {
    func_frame f = func_on("relu6", ARG(x));
    return func_end(f, qn_clamp(x, 0, 6));
}

qn_tensor *qn_hardsigmoid(qn_tensor *x) {
    func_frame f = func_on("hardsigmoid", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, scaled(qn_clamp(add_number(x, 3), 0, 6), 1.0 / 6, 0x1.5555555555555p-57));
}

qn_tensor *qn_hardswish(qn_tensor *x) {
    func_frame f = func_on("hardswish", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_mul(not_below(x, -3), qn_hardsigmoid(x)));
}

qn_tensor *qn_elu(qn_tensor *x, double alpha) {
    func_frame f = func_on("elu", ARG(x));
    func_floats(&f, 1, &x);
    qn_tensor *positive = above(x, 0);
    qn_tensor *curve = qn_expm1(qn_where(positive, qn_like(x, 0), x));
    return func_end(f, qn_where(positive, x, mul_number(curve, alpha)));
}

qn_tensor *qn_selu(qn_tensor *x) {
    func_frame f = func_on("selu", ARG(x));
    func_floats(&f, 1, &x);
    qn_tensor *positive = above(x, 0);
    qn_tensor *curve = qn_expm1(qn_where(positive, qn_like(x, 0), x));
    x = scaled(x, 1.0507009873554805, 0x1.6fc7d272f2695p-55);
    curve = scaled(curve, 1.7580993408473768, 0x1.05161b045a1fep-56);
    return func_end(f, qn_where(positive, x, curve));
}

qn_tensor *qn_leaky_relu(qn_tensor *x, double slope) {
    func_frame f = func_on("leaky_relu", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_where(above(x, 0), x, mul_number(x, slope)));
}
