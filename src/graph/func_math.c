/* func_math.c - elementwise functions composed of others.
 *
 * Each is written so that neither its value nor its derivative overflows where the true one does
 * not. The trap is WHERE: its gradient multiplies the branch that was not taken by 0, and 0
 * times an infinite derivative is NaN. So a branch is kept finite by clamping its own argument
 * first. */
#include "graph/graph.h"

#include <float.h>
#include <math.h>

static qn_tensor *add_number(qn_tensor *x, double v) {
    return qn_add(x, qn_like(x, v));
}

static qn_tensor *mul_number(qn_tensor *x, double v) {
    return qn_mul(x, qn_like(x, v));
}

static qn_tensor *above(qn_tensor *x, double v) {
    return qn_lt(qn_like(x, v), x);
}

static qn_tensor *below(qn_tensor *x, double v) {
    return qn_lt(x, qn_like(x, v));
}

/* |x| with the derivative 1 at 0, for functions odd in x. */
static qn_tensor *magnitude(qn_tensor *x) {
    return qn_where(below(x, 0), qn_neg(x), x);
}

static qn_tensor *with_sign_of(qn_tensor *x, qn_tensor *y) {
    return qn_where(below(x, 0), qn_neg(y), y);
}

static double dtype_largest(qn_dtype d) {
    switch (d) {
    case QN_F16:
        return 65504;
    case QN_BF16:
        return 0x1.fep127;
    case QN_F32:
        return FLT_MAX;
    default:
        return DBL_MAX;
    }
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
    qn_tensor *s = qn_where(below(x, 0), qn_like(x, -1), x);
    return func_end(f, qn_detach(qn_where(above(x, 0), qn_like(x, 1), s)));
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
    return func_end(f, mul_number(qn_log(x), 0.43429448190325182765));
}

/* Two to the third of the logarithm, then one step of Newton's, which makes it exact to
 * rounding. */
qn_tensor *qn_cbrt(qn_tensor *x) {
    func_frame f = func_on("cbrt", ARG(x));
    x = func_float(x);
    qn_tensor *a = magnitude(x);
    qn_tensor *itself = qn_logical_or(qn_isinf(x), qn_eq(x, qn_like(x, 0)));
    a = qn_where(itself, qn_like(x, 1), a);
    qn_tensor *y = qn_exp2(mul_number(qn_log2(a), 1.0 / 3));
    y = qn_sub(y, mul_number(qn_sub(y, qn_div(a, qn_mul(y, y))), 1.0 / 3));
    return func_end(f, qn_where(itself, x, with_sign_of(x, y)));
}

qn_tensor *qn_tan(qn_tensor *x) {
    func_frame f = func_on("tan", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_div(qn_sin(x), qn_cos(x)));
}

/* By expm1 both terms are small near 0 and nothing cancels. */
qn_tensor *qn_sinh(qn_tensor *x) {
    func_frame f = func_on("sinh", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, mul_number(qn_sub(qn_expm1(x), qn_expm1(qn_neg(x))), 0.5));
}

qn_tensor *qn_cosh(qn_tensor *x) {
    func_frame f = func_on("cosh", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, mul_number(qn_add(qn_exp(x), qn_exp(qn_neg(x))), 0.5));
}

/* (1 - x)(1 + x) loses nothing near the ends, where 1 - x*x would. */
qn_tensor *qn_asin(qn_tensor *x) {
    func_frame f = func_on("asin", ARG(x));
    x = func_float(x);
    qn_tensor *one = qn_like(x, 1);
    qn_tensor *side = qn_sqrt(qn_mul(qn_sub(one, x), qn_add(one, x)));
    return func_end(f, qn_atan(qn_div(x, side)));
}

qn_tensor *qn_acos(qn_tensor *x) {
    func_frame f = func_on("acos", ARG(x));
    x = func_float(x);
    qn_tensor *one = qn_like(x, 1);
    qn_tensor *half = qn_atan(qn_sqrt(qn_div(qn_sub(one, x), qn_add(one, x))));
    return func_end(f, mul_number(half, 2));
}

/* Beyond this both inverse functions are log(2x) to every float's precision. */
static const double inverse_far = 0x1p28;

/* log(2x), kept finite for the small x it is not taken for. */
static qn_tensor *log_of_double(qn_tensor *x) {
    qn_tensor *far = qn_maximum(x, qn_like(x, 1));
    return add_number(qn_log(far), 0.69314718055994530942);
}

qn_tensor *qn_asinh(qn_tensor *x) {
    func_frame f = func_on("asinh", ARG(x));
    x = func_float(x);
    qn_tensor *a = magnitude(x), *near = qn_clamp(a, 0, inverse_far);
    qn_tensor *square = qn_mul(near, near);
    qn_tensor *root = add_number(qn_sqrt(add_number(square, 1)), 1);
    qn_tensor *y = qn_log1p(qn_add(near, qn_div(square, root)));
    y = qn_where(above(a, inverse_far), log_of_double(a), y);
    return func_end(f, with_sign_of(x, y));
}

qn_tensor *qn_acosh(qn_tensor *x) {
    func_frame f = func_on("acosh", ARG(x));
    x = func_float(x);
    qn_tensor *near = qn_clamp(x, 0, inverse_far); /* 0 gives NaN, too */
    qn_tensor *d = add_number(near, -1);
    qn_tensor *y = qn_log1p(qn_add(d, qn_sqrt(qn_mul(d, add_number(near, 1)))));
    return func_end(f, qn_where(above(x, inverse_far), log_of_double(x), y));
}

qn_tensor *qn_atanh(qn_tensor *x) {
    func_frame f = func_on("atanh", ARG(x));
    x = func_float(x);
    qn_tensor *ratio = qn_div(mul_number(x, 2), qn_sub(qn_like(x, 1), x));
    return func_end(f, mul_number(qn_log1p(ratio), 0.5));
}

/* The smaller of the two over the larger, so that the quotient is at most 1; infinities first
 * become the largest finite number, whose quotients are right. */
qn_tensor *qn_atan2(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("atan2", ARG(x), ARG(y));
    qn_tensor *both = qn_add(func_float(x), func_float(y)); /* for the common dtype and shape */
    double most = dtype_largest(qn_dtype_of(both));
    x = qn_clamp(func_as(func_float(x), qn_dtype_of(both)), -most, most);
    y = qn_clamp(func_as(func_float(y), qn_dtype_of(both)), -most, most);
    qn_tensor *steep = qn_lt(qn_abs(y), qn_abs(x));
    qn_tensor *up = qn_where(steep, y, x), *down = qn_where(steep, x, y);
    down = qn_where(qn_eq(down, qn_like(x, 0)), qn_like(x, 1), down);
    qn_tensor *angle = qn_atan(qn_div(up, down));
    qn_tensor *back = qn_where(below(x, 0), qn_like(x, -M_PI), qn_like(x, M_PI));
    back = qn_where(below(y, 0), back, qn_like(x, 0));
    qn_tensor *quarter = with_sign_of(x, qn_like(x, M_PI / 2));
    return func_end(f, qn_where(steep, qn_sub(quarter, angle), qn_add(angle, back)));
}

qn_tensor *qn_hypot(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("hypot", ARG(x), ARG(y));
    x = qn_abs(func_float(x));
    y = qn_abs(func_float(y));
    qn_tensor *large = qn_maximum(x, y), *small = qn_minimum(x, y);
    qn_tensor *plain = qn_logical_or(qn_isinf(large), qn_eq(large, qn_like(large, 0)));
    qn_tensor *ratio = qn_div(small, qn_where(plain, qn_like(large, 1), large));
    ratio = qn_where(plain, qn_like(ratio, 0), ratio);
    return func_end(f, qn_mul(large, qn_sqrt(add_number(qn_mul(ratio, ratio), 1))));
}

/* Floats by magnitude, where MOD is exact; integers by correcting MOD, which cannot overflow. */
qn_tensor *qn_rem(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("rem", ARG(x), ARG(y));
    if (dtype_is_float(dtype_promote(qn_dtype_of(x), qn_dtype_of(y))))
        return func_end(f, with_sign_of(x, qn_mod(magnitude(x), qn_abs(y))));
    qn_tensor *r = qn_mod(x, y);
    qn_tensor *differ = qn_xor(below(x, 0), below(y, 0));
    differ = qn_and(differ, qn_ne(r, qn_like(r, 0)));
    return func_end(f, qn_where(differ, qn_sub(r, y), r));
}

/* Equal ones apart: there the difference of two infinities would be NaN. */
qn_tensor *qn_logaddexp(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("logaddexp", ARG(x), ARG(y));
    x = func_float(x);
    y = func_float(y);
    qn_tensor *same = qn_eq(x, y);
    qn_tensor *distance = qn_where(same, qn_like(x, 0), qn_abs(qn_sub(x, y)));
    return func_end(f, qn_add(qn_maximum(x, y), qn_log1p(qn_exp(qn_neg(distance)))));
}

qn_tensor *qn_lerp(qn_tensor *x, qn_tensor *y, qn_tensor *t) {
    func_frame f = func_on("lerp", ARG(x), ARG(y), ARG(t));
    qn_tensor *v[] = {x, y, t};
    func_floats(&f, 3, v);
    return func_end(f, qn_add(v[0], qn_mul(v[2], qn_sub(v[1], v[0]))));
}

qn_tensor *qn_clamp(qn_tensor *x, double lo, double hi) {
    func_frame f = func_on("clamp", ARG(x));
    qn_tensor *y = qn_where(above(x, hi), qn_like(x, hi), x);
    return func_end(f, qn_where(below(x, lo), qn_like(x, lo), y));
}

/* ---- activations ---------------------------------------------------------------------------- */

qn_tensor *qn_relu(qn_tensor *x) {
    func_frame f = func_on("relu", ARG(x));
    qn_tensor *zero = qn_like(x, 0);
    return func_end(f, qn_where(qn_le(x, zero), zero, x));
}

/* log(1 + e^-|x|) */
static qn_tensor *log1p_exp(qn_tensor *x) {
    return qn_log1p(qn_exp(qn_neg(qn_abs(x))));
}

qn_tensor *qn_softplus(qn_tensor *x) {
    func_frame f = func_on("softplus", ARG(x));
    x = func_float(x);
    return func_end(f, qn_add(qn_maximum(x, qn_like(x, 0)), log1p_exp(x)));
}

qn_tensor *qn_log_sigmoid(qn_tensor *x) {
    func_frame f = func_on("log_sigmoid", ARG(x));
    x = func_float(x);
    return func_end(f, qn_sub(qn_minimum(x, qn_like(x, 0)), log1p_exp(x)));
}

qn_tensor *qn_silu(qn_tensor *x) {
    func_frame f = func_on("silu", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_mul(x, qn_sigmoid(x)));
}

/* With h = x/2, h (1 + erf(..)) is written h + h erf(..): one fma. */
qn_tensor *qn_gelu(qn_tensor *x) {
    func_frame f = func_on("gelu", ARG(x));
    func_floats(&f, 1, &x);
    qn_tensor *half = mul_number(x, 0.5), *erf = qn_erf(mul_number(x, 0.70710678118654752440));
    return func_end(f, qn_add(qn_mul(half, erf), half));
}

/* 0.5 x (1 + tanh(z)) is x / (1 + e^-2z): cheaper, and for x < 0 no difference from 1 is taken. */
qn_tensor *qn_gelu_tanh(qn_tensor *x) {
    func_frame f = func_on("gelu_tanh", ARG(x));
    func_floats(&f, 1, &x);
    double twice = 2 * 0.79788456080286535588; /* sqrt(2 / pi) */
    qn_tensor *slope = add_number(mul_number(qn_mul(x, x), twice * 0.044715), twice);
    return func_end(f, qn_mul(x, qn_sigmoid(qn_mul(x, slope))));
}

qn_tensor *qn_mish(qn_tensor *x) {
    func_frame f = func_on("mish", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_mul(x, qn_tanh(qn_softplus(x))));
}

qn_tensor *qn_relu6(qn_tensor *x) {
    func_frame f = func_on("relu6", ARG(x));
    return func_end(f, qn_clamp(x, 0, 6));
}

qn_tensor *qn_hardsigmoid(qn_tensor *x) {
    func_frame f = func_on("hardsigmoid", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, mul_number(qn_clamp(add_number(x, 3), 0, 6), 1.0 / 6));
}

qn_tensor *qn_hardswish(qn_tensor *x) {
    func_frame f = func_on("hardswish", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_mul(x, qn_hardsigmoid(x)));
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
    return func_end(f, mul_number(qn_elu(x, 1.6732632423543772848), 1.0507009873554804934));
}

qn_tensor *qn_leaky_relu(qn_tensor *x, double slope) {
    func_frame f = func_on("leaky_relu", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_where(above(x, 0), x, mul_number(x, slope)));
}
