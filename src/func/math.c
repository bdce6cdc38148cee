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
    if (!dtype_rows[qn_dtype_of(x)].infinite) return func_end(f, qn_eq(x, x));
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
    if (dtype_is_float(func_meet(x, y))) {
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

static double least_of(qn_dtype d) {
    bool is_signed = d != QN_BOOL && !dtype_is_unsigned(d);
    return is_signed ? -ldexp(1, 8 * (int)qn_dtype_size(d) - 1) : 0;
}

/* Is there a value of the dtype between the bounds? */
static bool holds_between(qn_dtype d, double lo, double hi) {
    if (dtype_is_float(d) || lo > hi) return true;
    bool is_signed = d != QN_BOOL && !dtype_is_unsigned(d);
    double past = d == QN_BOOL ? 2 : ldexp(1, 8 * (int)qn_dtype_size(d) - is_signed);
    return ceil(lo) <= floor(hi) && ceil(lo) < past && floor(hi) >= least_of(d);
}

qn_tensor *qn_clamp(qn_tensor *x, double lo, double hi) {
    func_frame f = func_on("clamp", ARG(x));
    if (x && (isnan(lo) || isnan(hi)))
        return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "clamp: between %g and %g", lo, hi));
    if (x && !holds_between(qn_dtype_of(x), lo, hi))
        return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "clamp: no %s between %g and %g",
                                     qn_dtype_name(qn_dtype_of(x)), lo, hi));
    qn_tensor *least = bound_of(x, lo, false), *most = bound_of(x, hi, true);
    qn_tensor *y = qn_where(qn_lt(x, least), least, x);
    return func_end(f, qn_where(qn_lt(most, y), most, y));
}

/* ---- bounds that are tensors, nearness ------------------------------------------------------ */

/* A bound that is NaN makes the result NaN, as a NaN x does. */
qn_tensor *qn_clip(qn_tensor *x, qn_tensor *lo, qn_tensor *hi) {
    func_frame f = func_on("clip", ARG(x), OPTIONAL(lo), OPTIONAL(hi));
    if (lo && hi) (void)func_meet(x, hi);
    if (lo) x = qn_where(qn_not(qn_le(lo, x)), qn_where(qn_isnan(x), x, lo), x);
    if (hi) x = qn_where(qn_not(qn_le(x, hi)), qn_where(qn_isnan(x), x, hi), x);
    return func_end(f, x);
}

qn_tensor *qn_heaviside(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("heaviside", ARG(x), ARG(y));
    qn_tensor *zero = x ? qn_like(x, 0) : NULL;
    qn_tensor *step = qn_where(above(x, 0), qn_like(x, 1), qn_detach(x)); /* NaN stays */
    step = qn_where(qn_lt(x, zero), zero, step);
    return func_end(f, qn_where(qn_eq(x, zero), y, step));
}

static qn_tensor *near_each_other(qn_tensor *x, qn_tensor *y, double relative, double absolute,
                                  bool equal_nan) {
    if (!x || !y) return qn_eq(x, y);
    bool floats = dtype_is_float(func_meet(x, y));
    qn_tensor *v[] = {floats ? func_widen(x) : qn_cast(x, QN_F64),
                      floats ? func_widen(y) : qn_cast(y, QN_F64)};
    qn_tensor *size = qn_abs(v[1]), *bound = mul_number(size, relative);
    qn_tensor *off = qn_abs(qn_sub(v[0], v[1]));
    qn_tensor *close = qn_le(off, qn_add(bound, qn_like(bound, absolute)));
    close = qn_and(close, qn_isfinite(v[1])); /* an infinite bound holds nothing */
    close = qn_or(close, qn_eq(v[0], v[1]));
    return equal_nan ? qn_or(close, qn_and(qn_isnan(v[0]), qn_isnan(v[1]))) : close;
}

qn_tensor *qn_isclose(qn_tensor *x, qn_tensor *y, double rtol, double atol, bool equal_nan) {
    func_frame f = func_on("isclose", ARG(x), ARG(y));
    return func_end(f, near_each_other(x, y, rtol, atol, equal_nan));
}

qn_tensor *qn_allclose(qn_tensor *x, qn_tensor *y, double rtol, double atol, bool equal_nan) {
    func_frame f = func_on("allclose", ARG(x), ARG(y));
    return func_end(f, qn_all(near_each_other(x, y, rtol, atol, equal_nan), QN_ALL, false));
}

/* ---- functions with a removable point ------------------------------------------------------- */

/* sin(pi r) / (pi r) by its series for |r| up to 1/2, and for larger x, r of them to the nearest
 * integer, times (-1)^n r / x: so the quotient and its slopes have no 0 / 0. What the product and
 * the quotient lost is added, but where that is nothing: a zero keeps its sign. */
qn_tensor *qn_sinc(qn_tensor *x) {
    func_frame f = func_on("sinc", ARG(x));
    func_floats(&f, 1, &x);
    if (!x) return func_end(f, NULL);
    qn_tensor *n = qn_round(x), *r = qn_sub(x, n), *square = qn_mul(r, r);
    int terms = qn_dtype_of(x) == QN_F64 ? 13 : 8;
    double term[16] = {1};
    for (int i = 1; i <= terms; i++) term[i] = -term[i - 1] * M_PI * M_PI / (2.0 * i * (2 * i + 1));
    qn_tensor *series = qn_like(x, term[terms]);
    for (int i = terms; i-- > 0;) series = qn_fma(square, series, qn_like(x, term[i]));
    qn_tensor *near = qn_le(qn_abs(x), qn_like(x, 0.5)), *one = qn_like(x, 1);
    qn_tensor *odd = qn_ne(qn_mod(n, qn_like(x, 2)), qn_like(x, 0));
    qn_tensor *signed_r = qn_where(odd, qn_neg(r), r);
    qn_tensor *factor = qn_where(near, one, signed_r), *by = qn_where(near, one, x);
    qn_tensor *above_line = qn_mul(series, factor), *q = qn_div(above_line, by);
    qn_tensor *lost = qn_fma(series, factor, qn_neg(above_line));
    lost = qn_add(lost, qn_fma(qn_neg(q), by, above_line));
    lost = qn_detach(qn_div(lost, by));
    return func_end(f, qn_where(qn_ne(lost, qn_like(x, 0)), qn_add(q, lost), q));
}

/* log(x) - log(1 - x), which has its slope at 0 and 1, too. Around 1/2 the two cancel: there
 * 2 atanh(2x - 1). */
qn_tensor *qn_logit(qn_tensor *x) {
    func_frame f = func_on("logit", ARG(x));
    func_floats(&f, 1, &x);
    qn_tensor *middle = qn_and(above(x, 0.25), below(x, 0.75));
    qn_tensor *part = qn_where(middle, x, qn_like(x, 0.5));
    qn_tensor *inner = qn_atanh(qn_fma(part, qn_like(x, 2), qn_like(x, -1)));
    qn_tensor *outer = qn_sub(qn_log(x), qn_log1p(qn_neg(x)));
    return func_end(f, qn_where(middle, mul_number(inner, 2), outer));
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

/* The argument is scaled, which e^x - 1 of what is below 0 must not see overflow. */
qn_tensor *qn_celu(qn_tensor *x, double alpha) {
    func_frame f = func_on("celu", ARG(x));
    if (x && alpha == 0) return func_end(f, fail_null(f.qn, QN_EARG, "celu: alpha is 0"));
    func_floats(&f, 1, &x);
    qn_tensor *positive = above(x, 0);
    qn_tensor *below_zero = qn_where(positive, qn_like(x, 0), x);
    qn_tensor *curve = qn_expm1(qn_div(below_zero, qn_like(x, alpha)));
    return func_end(f, qn_where(positive, x, mul_number(curve, alpha)));
}

/* x / (1 + |x|), and for larger x sign(x) (1 - 1 / (1 + |x|)): both hold everywhere, but the first
 * has no value at infinity, and neither a slope with all its digits on the other side. */
qn_tensor *qn_softsign(qn_tensor *x) {
    func_frame f = func_on("softsign", ARG(x));
    func_floats(&f, 1, &x);
    qn_tensor *size = qn_abs(x), *large = above(size, 1);
    qn_tensor *share = qn_reciprocal(add_number(size, 1));
    qn_tensor *near = qn_mul(qn_where(large, qn_like(x, 0), x), share);
    qn_tensor *far = qn_sub(qn_like(x, 1), share);
    return func_end(f, qn_where(large, with_sign_of(x, far), near));
}

qn_tensor *qn_hardtanh(qn_tensor *x, double lo, double hi) {
    func_frame f = func_on("hardtanh", ARG(x));
    return func_end(f, qn_clamp(x, lo, hi));
}

qn_tensor *qn_threshold(qn_tensor *x, double threshold, double value) {
    func_frame f = func_on("threshold", ARG(x));
    qn_tensor *other = qn_like(x, value);
    qn_dtype d = qn_dtype_of(x);
    if (other && !dtype_is_float(d) && !(floor(threshold) >= least_of(d))) return func_end(f, x);
    return func_end(f, qn_where(qn_le(x, bound_of(x, threshold, true)), other, x));
}

qn_tensor *qn_softplus_beta(qn_tensor *x, double beta, double threshold) {
    func_frame f = func_on("softplus_beta", ARG(x));
    if (x && beta == 0) return func_end(f, fail_null(f.qn, QN_EARG, "softplus_beta: beta is 0"));
    func_floats(&f, 1, &x);
    qn_tensor *z = mul_number(x, beta), *y = qn_div(qn_softplus(z), qn_like(x, beta));
    return func_end(f, qn_where(above(z, threshold), x, y));
}

/* A weight for all, or one for each channel, axis 1 of x. */
qn_tensor *qn_prelu(qn_tensor *x, qn_tensor *weight) {
    func_frame f = func_on("prelu", ARG(x), ARG(weight));
    qn_tensor *v[] = {x, weight};
    func_floats(&f, 2, v);
    if (!v[0] || !v[1]) return func_end(f, build_elem(OP_MUL, 2, v));
    int rank = func_rank(x);
    bool one = qn_numel(weight) == 1;
    if (func_rank(weight) > 1 || (!one && (rank < 2 || qn_dim(weight, 0) != qn_dim(x, 1))))
        return func_end(f, tensor_unfit("x", x, "weight", weight,
                                        "weight has one number, or one for each channel of x"));
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = i == 1 && !one ? qn_dim(weight, 0) : 1;
    qn_tensor *w = func_reshape(v[1], one ? 0 : rank, dims);
    return func_end(f, qn_where(above(v[0], 0), v[0], qn_mul(v[0], w)));
}

qn_tensor *qn_glu(qn_tensor *x, int axis) {
    func_frame f = func_on("glu", ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    int64_t n = qn_dim(x, axis);
    if (n < 0 || n % 2)
        return func_end(f, tensor_unfit("x", x, NULL, NULL, "axis %d has two halves", axis));
    func_floats(&f, 1, &x);
    qn_tensor *gate = qn_sigmoid(func_slice_axis(x, axis, n / 2, n / 2, 1));
    return func_end(f, qn_mul(func_slice_axis(x, axis, 0, n / 2, 1), gate));
}
