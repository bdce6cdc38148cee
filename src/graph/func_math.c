/* func_math.c - elementwise functions composed of others.
 *
 * Each is written so that neither its value nor its derivative overflows where the true one does
 * not. The trap is WHERE: its gradient multiplies the branch that was not taken by 0, and 0
 * times an infinite derivative is NaN. So a branch is kept finite by clamping its own argument
 * first. */
#include "graph/graph.h"

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

qn_tensor *qn_log_sigmoid(qn_tensor *x) {
    func_frame f = func_on("log_sigmoid", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, qn_neg(qn_softplus(qn_neg(x))));
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
