/* rules.c - how each row of ops.h passes a gradient on to its sources.
 *
 * A rule gets its node n, whose value it may use, and the gradient g of n, of n's shape and dtype.
 * It gives each source a gradient of its shape and dtype. Formulas use n itself where that saves
 * work: e^x is its own derivative. docs/gradients.md says what holds at ties, kinks and bounds.
 *
 * A gradient is differentiated again, so a formula must be one expression wherever the function is
 * smooth: a WHERE between two halves has no derivative of its own at their border, and loses what
 * lies in the half that was not taken. So choices stand only at kinks and at single points, and
 * there they choose arguments, not results: what is not chosen still gets the gradient 0, which
 * times an infinite slope would be NaN. */
#include "grad/grad.h"

#include <math.h>

static node_id source(const grad *c, node_id n, int i) {
    return c->g->node[n].src[i];
}

static tuple_id shape_of(const grad *c, node_id n) {
    return c->g->node[n].shape;
}

/* v in n's dtype and shape. */
static node_id number(const grad *c, node_id n, double v) {
    return make_number(c->g, (qn_dtype)c->g->node[n].dtype, shape_of(c, n), v);
}

/* g is where(condition, *inner, 0), perhaps seen through a few views, and the condition is one on
 * places: the gradient of what a mask hides. */
static bool is_masked(const grad *c, node_id g, node_id *condition, node_id *inner) {
    node_id view[4];
    int views = 0;
    const graph_node *x = node_at(c->g, g);
    for (; x->op == OP_EXPAND || x->op == OP_RESHAPE || x->op == OP_PERMUTE; views++) {
        if (views == 4 || (x->flags & NODE_REALIZED)) return false;
        view[views] = (node_id)(x - c->g->node);
        x = node_at(c->g, x->src[0]);
    }
    if (x->op != OP_WHERE || (x->flags & NODE_REALIZED)) return false;
    const graph_node *zero = node_at(c->g, x->src[2]);
    if (zero->op != OP_CONST || zero->bits || !rule_of_places(c->g, x->src[0], 8)) return false;
    *condition = x->src[0];
    *inner = x->src[1];
    while (views--) {
        const graph_node v = *node_at(c->g, view[views]);
        *condition = node_make(c->g, (node_form){v.op, QN_BOOL, v.shape, v.attr, 0}, 1, condition);
        *inner = node_make(c->g, (node_form){v.op, v.dtype, v.shape, v.attr, 0}, 1, inner);
    }
    return true;
}

/* Where nothing flows back, nothing is multiplied: what a mask hides stays hidden, even infinities
 * and NaN, and later stages see that those terms of a sum are not there. */
static node_id times(const grad *c, int op, node_id a, node_id b) {
    node_id condition, inner;
    if (!is_masked(c, a, &condition, &inner)) return make2(c->g, op, a, b);
    node_id value = make2(c->g, op, inner, b);
    node_id zero = make_number(c->g, (qn_dtype)c->g->node[value].dtype, shape_of(c, value), 0);
    return make3(c->g, OP_WHERE, condition, value, zero);
}

static node_id mul(const grad *c, node_id a, node_id b) {
    return times(c, OP_MUL, a, b);
}

static node_id divide(const grad *c, node_id a, node_id b) {
    return times(c, OP_DIV, a, b);
}

static node_id negative(const grad *c, node_id a) {
    return make1(c->g, OP_NEG, a);
}

static node_id scaled(const grad *c, node_id a, double v) {
    return mul(c, a, number(c, a, v));
}

static node_id plus(const grad *c, node_id a, double v) {
    return make2(c->g, OP_ADD, a, number(c, a, v));
}

static node_id choose(const grad *c, node_id condition, node_id a, node_id b) {
    return make3(c->g, OP_WHERE, condition, a, b);
}

/* a where the condition holds, else 0 */
static node_id only(const grad *c, node_id condition, node_id a) {
    return choose(c, condition, a, number(c, a, 0));
}

/* A sum that is not taken in less than f32; of products it never is. */
static node_id sum_over(const grad *c, node_id x, uint32_t mask) {
    qn_dtype d = (qn_dtype)c->g->node[x].dtype;
    bool narrow = dtype_is_narrow(d) && !rule_sees(c->g, x, OP_MUL);
    node_id sum = make_reduce(c->g, OP_SUM, narrow ? make_cast(c->g, x, QN_F32) : x, mask);
    return make_cast(c->g, sum, d);
}

/* In which what is narrow is counted, and shared by the count. */
static node_id widened(const grad *c, node_id x) {
    qn_dtype d = (qn_dtype)c->g->node[x].dtype;
    return dtype_is_narrow(d) ? make_cast(c->g, x, QN_F32) : x;
}

/* ---- slopes --------------------------------------------------------------------------------- */

/* Source i of n gets g * slope, or g / divisor. */
static void by_slope(grad *c, node_id n, int i, node_id g, node_id slope) {
    grad_add(c, n, i, mul(c, g, slope));
}

static void by_divisor(grad *c, node_id n, int i, node_id g, node_id divisor) {
    grad_add(c, n, i, divide(c, g, divisor));
}

static node_id equals(const grad *c, node_id x, double v) {
    return make2(c->g, OP_EQ, x, number(c, x, v));
}

static node_id is_nan(const grad *c, node_id x) {
    return make2(c->g, OP_NE, x, x);
}

static node_id is_endless(const grad *c, node_id x) {
    return equals(c, make1(c->g, OP_ABS, x), (double)INFINITY);
}

/* g times NaN where n is NaN, else 0. The factor is finite elsewhere, for second derivatives. */
static node_id where_nan(const grad *c, node_id n, node_id g) {
    node_id bad = is_nan(c, n);
    return only(c, bad, mul(c, g, choose(c, bad, n, number(c, n, 1))));
}

/* x, but `most` and -most beyond: there the slope is 0, and times an infinite x it would be NaN. */
static node_id within(const grad *c, node_id x, double most) {
    node_id hi = number(c, x, most), lo = number(c, x, -most);
    x = choose(c, make2(c->g, OP_LT, hi, x), hi, x);
    return choose(c, make2(c->g, OP_LT, x, lo), lo, x);
}

/* 1 - x * x with one rounding: near 1 it has all digits. */
static node_id one_less_square(const grad *c, node_id x) {
    return make3(c->g, OP_FMA, negative(c, x), x, number(c, x, 1));
}

/* ---- elementwise, one source ---------------------------------------------------------------- */

static void rule_neg(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, negative(c, g));
}

static void rule_abs(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), zero = number(c, x, 0);
    node_id below = make2(c->g, OP_LT, x, zero), above = make2(c->g, OP_LT, zero, x);
    node_id other = where_nan(c, n, g);
    grad_add(c, n, 0, choose(c, above, g, choose(c, below, negative(c, g), other)));
}

static void rule_reciprocal(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, negative(c, mul(c, g, mul(c, n, n))));
}

static void rule_sqrt(grad *c, node_id n, node_id g) {
    by_divisor(c, n, 0, scaled(c, g, 0.5), n);
}

static void rule_exp(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, mul(c, g, n));
}

static void rule_exp2(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, scaled(c, mul(c, g, n), M_LN2));
}

/* e^x, of which n + 1 has lost the digits where it is small. */
static void rule_expm1(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, mul(c, g, make1(c->g, OP_EXP, source(c, n, 0))));
}

static void rule_log(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, divide(c, g, source(c, n, 0)));
}

static void rule_log2(grad *c, node_id n, node_id g) {
    by_divisor(c, n, 0, g, scaled(c, source(c, n, 0), M_LN2));
}

static void rule_log1p(grad *c, node_id n, node_id g) {
    by_divisor(c, n, 0, g, plus(c, source(c, n, 0), 1));
}

static void rule_sin(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, mul(c, g, make1(c->g, OP_COS, source(c, n, 0))));
}

static void rule_cos(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, negative(c, mul(c, g, make1(c->g, OP_SIN, source(c, n, 0)))));
}

static void rule_asin(grad *c, node_id n, node_id g) {
    node_id square = one_less_square(c, source(c, n, 0));
    by_divisor(c, n, 0, g, make1(c->g, OP_SQRT, square));
}

static void rule_acos(grad *c, node_id n, node_id g) {
    rule_asin(c, n, negative(c, g));
}

static void rule_atan(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    x = within(c, x, c->g->node[x].dtype == QN_F64 ? 0x1p600 : 0x1p70);
    by_divisor(c, n, 0, g, plus(c, mul(c, x, x), 1));
}

static void rule_asinh(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    by_divisor(c, n, 0, g, make2(c->g, OP_HYPOT, x, number(c, x, 1)));
}

/* By two roots, for x*x overflows; one under the other, for their product at 1 is 0, and its
 * derivative 0 times infinity. */
static void rule_acosh(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    node_id below = make1(c->g, OP_SQRT, plus(c, x, -1));
    node_id above = make1(c->g, OP_SQRT, plus(c, x, 1));
    by_slope(c, n, 0, g, divide(c, make1(c->g, OP_RECIPROCAL, below), above));
}

static void rule_atanh(grad *c, node_id n, node_id g) {
    by_divisor(c, n, 0, g, one_less_square(c, source(c, n, 0)));
}

/* 1 / (3 n n), one n after the other: the derivative of n n at 0 is 0, and would meet infinity. */
static void rule_cbrt(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, divide(c, make1(c->g, OP_RECIPROCAL, scaled(c, n, 3)), n));
}

static void rule_sinh(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, make1(c->g, OP_COSH, source(c, n, 0)));
}

static void rule_cosh(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, make1(c->g, OP_SINH, source(c, n, 0)));
}

static void rule_tanh(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, one_less_square(c, n));
}

static void rule_sigmoid(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, mul(c, n, make2(c->g, OP_SUB, number(c, n, 1), n)));
}

/* The sigmoid, whose own derivative s - s^2 cancels where s is near 1: e^-softplus(-x) does not. */
static void rule_softplus(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), slope = make1(c->g, OP_SIGMOID, x);
    node_id way = negative(c, make1(c->g, OP_SOFTPLUS, negative(c, x)));
    by_slope(c, n, 0, g, node_stand_in(c->g, slope, make1(c->g, OP_EXP, way)));
}

/* c e^(k x^2), k a power of two: what x*x loses counts as often as the exponent is large. */
static node_id bell(const grad *c, node_id x, double k, double factor) {
    x = within(c, x, 50);
    node_id square = mul(c, x, x), lost = make3(c->g, OP_FMA, x, x, negative(c, square));
    node_id e = make1(c->g, OP_EXP, scaled(c, square, k));
    return scaled(c, make3(c->g, OP_FMA, e, scaled(c, lost, k), e), factor);
}

static void rule_erf(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, bell(c, source(c, n, 0), -1, M_2_SQRTPI));
}

static void rule_erfc(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, negative(c, bell(c, source(c, n, 0), -1, M_2_SQRTPI)));
}

static void rule_lgamma(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, make1(c->g, OP_DIGAMMA, source(c, n, 0)));
}

static void rule_digamma(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, make1(c->g, OP_TRIGAMMA, source(c, n, 0)));
}

static void rule_trigamma(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, grad_polygamma2(c, source(c, n, 0)));
}

static void rule_silu(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, make1(c->g, OP_SILU_SLOPE, source(c, n, 0)));
}

/* s(z) s(-z) and 1 - 2 s(z), s being the sigmoid: its first derivative, and what the second is of
 * that. */
static node_id sigmoid_slope(const grad *c, node_id z, node_id *bend) {
    node_id s = make1(c->g, OP_SIGMOID, z);
    *bend = plus(c, scaled(c, s, -2), 1);
    return mul(c, s, make1(c->g, OP_SIGMOID, negative(c, z)));
}

/* s (1 - s) (2 + x (1 - 2 s)) */
static void rule_silu_slope(grad *c, node_id n, node_id g) {
    node_id x = within(c, source(c, n, 0), 1000), bend, slope = sigmoid_slope(c, x, &bend);
    by_slope(c, n, 0, g, mul(c, slope, make3(c->g, OP_FMA, x, bend, number(c, x, 2))));
}

static void rule_gelu(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, make1(c->g, OP_GELU_SLOPE, source(c, n, 0)));
}

/* (2 - x^2) e^(-x^2/2) / sqrt(2 pi) */
static void rule_gelu_slope(grad *c, node_id n, node_id g) {
    node_id x = within(c, source(c, n, 0), 50), square = mul(c, x, x);
    node_id bend = make2(c->g, OP_SUB, number(c, x, 2), square);
    by_slope(c, n, 0, g, mul(c, bend, bell(c, x, -0.5, 0.39894228040143267794)));
}

static void rule_gelu_tanh(grad *c, node_id n, node_id g) {
    by_slope(c, n, 0, g, make1(c->g, OP_GELU_TANH_SLOPE, source(c, n, 0)));
}

/* With z = k (x + b x^3) and s its sigmoid: s (1 - s) (2 z' + x (z'' + z'^2 (1 - 2 s))). */
static void rule_gelu_tanh_slope(grad *c, node_id n, node_id g) {
    static const double k = 1.5957691216057308, b = 0.07135481627260025;
    node_id x = within(c, source(c, n, 0), 50), square = mul(c, x, x);
    node_id z = mul(c, x, plus(c, scaled(c, square, b), k));
    node_id rise = plus(c, scaled(c, square, 3 * b), k), bend, slope = sigmoid_slope(c, z, &bend);
    node_id inner = make3(c->g, OP_FMA, mul(c, rise, rise), bend, scaled(c, x, 6 * b));
    by_slope(c, n, 0, g, mul(c, slope, make3(c->g, OP_FMA, x, inner, scaled(c, rise, 2))));
}

/* With n = e^x and a = n + n^2/2: a / (1 + a) + x (n + n^2) / (1 + a)^2. */
static node_id mish_slope_left(const grad *c, node_id x) {
    node_id e = make1(c->g, OP_EXP, x), square = mul(c, e, e);
    node_id a = make3(c->g, OP_FMA, square, number(c, x, 0.5), e), sum = plus(c, a, 1);
    node_id rise = divide(c, make2(c->g, OP_ADD, e, square), sum);
    return divide(c, make3(c->g, OP_FMA, x, rise, a), sum);
}

/* The same as 1 and what is off it, with m = e^-x and d = 1 + 2 m + 2 m^2: 4 x (m^2 + m^3) / d^2 -
 * 2 m^2 / d. */
static node_id mish_slope_right(const grad *c, node_id x) {
    node_id m = make1(c->g, OP_EXP, negative(c, x)), square = mul(c, m, m);
    node_id d = plus(c, scaled(c, make2(c->g, OP_ADD, m, square), 2), 1);
    node_id rise = divide(c, make3(c->g, OP_FMA, square, m, square), d);
    node_id off = make3(c->g, OP_FMA, scaled(c, rise, 4), x, scaled(c, square, -2));
    return plus(c, divide(c, off, d), 1);
}

/* Beyond the bounds that is 0 or 1. The derivative of the left form cancels right of 0, where the
 * slope takes it from the other. */
static void rule_mish(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    const bool wide = c->g->node[x].dtype == QN_F64;
    node_id hi = number(c, x, wide ? 50 : 25), lo = number(c, x, wide ? -800 : -120);
    node_id zero = number(c, x, 0), right = make2(c->g, OP_LT, zero, x);
    node_id above = within(c, choose(c, right, x, zero), wide ? 800 : 120);
    x = choose(c, make2(c->g, OP_LT, x, lo), lo, x);
    node_id below = choose(c, right, zero, x),
            slope = mish_slope_left(c, choose(c, make2(c->g, OP_LT, hi, x), hi, x));
    node_id way = choose(c, right, mish_slope_right(c, above), mish_slope_left(c, below));
    by_slope(c, n, 0, g, node_stand_in(c->g, slope, way));
}

static void rule_cast(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, make_cast(c->g, g, (qn_dtype)c->g->node[source(c, n, 0)].dtype));
}

static void rule_contiguous(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, g);
}

/* ---- elementwise, more sources -------------------------------------------------------------- */

static void rule_add(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, g);
    grad_add(c, n, 1, g);
}

static void rule_sub(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, g);
    if (grad_wants(c, n, 1)) grad_add(c, n, 1, negative(c, g));
}

static void rule_mul(grad *c, node_id n, node_id g) {
    if (grad_wants(c, n, 0)) grad_add(c, n, 0, mul(c, g, source(c, n, 1)));
    if (grad_wants(c, n, 1)) grad_add(c, n, 1, mul(c, g, source(c, n, 0)));
}

static void rule_div(grad *c, node_id n, node_id g) {
    node_id part = divide(c, g, source(c, n, 1));
    grad_add(c, n, 0, part);
    if (grad_wants(c, n, 1)) grad_add(c, n, 1, negative(c, mul(c, part, n)));
}

/* How often y was taken off x. */
static void rule_mod(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, g);
    if (!grad_wants(c, n, 1)) return;
    node_id x = source(c, n, 0), y = source(c, n, 1);
    grad_add(c, n, 1, negative(c, mul(c, g, make2(c->g, OP_FLOOR_DIV, x, y))));
}

/* y * x^(y-1). Where y is 0 that is 0 also at x = 0, where it would be 0 times infinity, and for
 * NaN, whose power is 1: 1 stands there for x. */
static node_id power_slope(const grad *c, node_id x, node_id y) {
    node_id bad = make2(c->g, OP_OR, equals(c, x, 0), is_nan(c, x));
    x = choose(c, make2(c->g, OP_AND, equals(c, y, 0), bad), number(c, x, 1), x);
    return mul(c, y, make2(c->g, OP_POW, x, plus(c, y, -1)));
}

/* x^y * log(x). It is 0 where x^y is, although the logarithm is infinite at 0 and at infinity, and
 * at 0^0: there the logarithm is that of 1. */
static node_id exponent_slope(const grad *c, node_id x, node_id y, node_id power) {
    node_id zeros = make2(c->g, OP_AND, equals(c, x, 0), equals(c, y, 0));
    node_id flat = make2(c->g, OP_OR, equals(c, power, 0), zeros);
    flat = make2(c->g, OP_AND, flat, make2(c->g, OP_LE, number(c, x, 0), x));
    node_id base = choose(c, flat, number(c, x, 1), x);
    return mul(c, power, make1(c->g, OP_LOG, base));
}

static void rule_pow(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), y = source(c, n, 1);
    if (grad_wants(c, n, 0)) by_slope(c, n, 0, g, power_slope(c, x, y));
    if (grad_wants(c, n, 1)) by_slope(c, n, 1, g, exponent_slope(c, x, y, n));
}

/* x / h, 0 at the origin. Where x alone is infinite it is 1 or -1. */
static node_id unit(const grad *c, node_id x, node_id y, node_id h) {
    node_id origin = equals(c, h, 0), zero = number(c, x, 0), one = number(c, x, 1);
    node_id finite = make2(c->g, OP_LT, make1(c->g, OP_ABS, y), number(c, y, (double)INFINITY));
    node_id alone = make2(c->g, OP_AND, is_endless(c, x), finite);
    node_id side = choose(c, make2(c->g, OP_LT, x, zero), number(c, x, -1), one);
    x = choose(c, origin, zero, choose(c, alone, side, x));
    return divide(c, x, choose(c, make2(c->g, OP_OR, origin, alone), one, h));
}

static void rule_hypot(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), y = source(c, n, 1), h = n;
    if (grad_wants(c, n, 0)) by_slope(c, n, 0, g, unit(c, x, y, h));
    if (grad_wants(c, n, 1)) by_slope(c, n, 1, g, unit(c, y, x, h));
}

/* The angle's slopes are x / h^2 and -y / h^2; 0 at the origin and at infinity, where zeros over 1
 * stand for them. */
static void rule_atan2(grad *c, node_id n, node_id g) {
    node_id y = source(c, n, 0), x = source(c, n, 1), zero = number(c, x, 0);
    node_id origin = make2(c->g, OP_AND, equals(c, x, 0), equals(c, y, 0));
    node_id far = make2(c->g, OP_OR, is_endless(c, x), is_endless(c, y));
    node_id known = make2(c->g, OP_AND, make2(c->g, OP_EQ, x, x), make2(c->g, OP_EQ, y, y));
    node_id flat = make2(c->g, OP_OR, origin, make2(c->g, OP_AND, far, known));
    x = choose(c, flat, zero, x);
    y = choose(c, flat, zero, y);
    node_id h = choose(c, flat, number(c, x, 1), make2(c->g, OP_HYPOT, x, y));
    if (grad_wants(c, n, 0)) by_slope(c, n, 0, g, divide(c, divide(c, x, h), h));
    if (grad_wants(c, n, 1)) by_slope(c, n, 1, g, negative(c, divide(c, divide(c, y, h), h)));
}

/* sigmoid of the distance, which two equal infinities have none of: they share. */
static void rule_logaddexp(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), y = source(c, n, 1);
    node_id same = make2(c->g, OP_AND, make2(c->g, OP_EQ, x, y), is_endless(c, x));
    node_id apart = choose(c, same, number(c, x, 0), make2(c->g, OP_SUB, x, y));
    by_slope(c, n, 0, g, make1(c->g, OP_SIGMOID, apart));
    if (grad_wants(c, n, 1)) by_slope(c, n, 1, g, make1(c->g, OP_SIGMOID, negative(c, apart)));
}

/* g for the winner, half of it for both where they tie, and NaN where the value is. The factor is
 * finite where there is a winner, for second derivatives. */
static void grad_extreme(grad *c, node_id n, node_id g, bool larger) {
    node_id x = source(c, n, 0), y = source(c, n, 1), none = number(c, g, 0);
    node_id below = make2(c->g, OP_LT, x, y), above = make2(c->g, OP_LT, y, x);
    node_id tie = choose(c, make2(c->g, OP_EQ, x, y), number(c, n, 0.5), n);
    node_id decided = make2(c->g, OP_OR, below, above);
    node_id share = mul(c, g, choose(c, decided, number(c, n, 1), tie));
    grad_add(c, n, 0, choose(c, larger ? below : above, none, share));
    grad_add(c, n, 1, choose(c, larger ? above : below, none, share));
}

static void rule_maximum(grad *c, node_id n, node_id g) {
    grad_extreme(c, n, g, true);
}

static void rule_minimum(grad *c, node_id n, node_id g) {
    grad_extreme(c, n, g, false);
}

/* where(x <= k, k, x), a relu, is k just where it is no more than k: the result tells, which those
 * behind it need, too, so x need not be kept for the gradient. */
static node_id told_by_result(grad *c, node_id n) {
    node_id condition = source(c, n, 0), k = source(c, n, 1);
    const graph_node *le = node_at(c->g, condition);
    bool told = le->op == OP_LE && !(le->flags & NODE_REALIZED) && le->src[0] == source(c, n, 2) &&
                le->src[1] == k && node_at(c->g, k)->op == OP_CONST;
    return told ? make2(c->g, OP_LE, n, k) : condition;
}

static void rule_where(grad *c, node_id n, node_id g) {
    node_id condition = told_by_result(c, n);
    if (grad_wants(c, n, 1)) grad_add(c, n, 1, only(c, condition, g));
    if (grad_wants(c, n, 2)) grad_add(c, n, 2, choose(c, condition, number(c, g, 0), g));
}

static void rule_fma(grad *c, node_id n, node_id g) {
    rule_mul(c, n, g);
    grad_add(c, n, 2, g);
}

/* ---- movement ------------------------------------------------------------------------------- */

static void rule_reshape(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, make_reshape(c->g, g, shape_of(c, source(c, n, 0))));
}

static void rule_permute(grad *c, node_id n, node_id g) {
    int rank, inverse[QN_MAX_RANK];
    const int64_t *axes = graph_tuple_get(c->g, c->g->node[n].attr, &rank);
    for (int i = 0; i < rank; i++) inverse[axes[i]] = i;
    grad_add(c, n, 0, make_permute(c->g, g, inverse));
}

/* What was repeated is summed. */
static void rule_expand(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    int rank;
    const int64_t *from = node_dims(c->g, x, &rank), *to = node_dims(c->g, n, &rank);
    uint32_t mask = 0;
    for (int i = 0; i < rank; i++)
        if (from[i] != to[i]) mask |= 1u << i;
    grad_add(c, n, 0, make_reshape(c->g, sum_over(c, g, mask), shape_of(c, x)));
}

/* PAD by (lo, hi, interior) undone is SLICE from lo by interior + 1. What it cut off (lo or hi
 * below 0) has the gradient 0. */
static void rule_pad(grad *c, node_id n, node_id g) {
    int rank, count;
    const int64_t *dims = node_dims(c->g, source(c, n, 0), &rank);
    const int64_t *p = graph_tuple_get(c->g, c->g->node[n].attr, &count);
    sym_store *s = c->g->syms;
    int64_t slice[3 * QN_MAX_RANK], cut[3 * QN_MAX_RANK] = {0};
    for (int i = 0; i < rank; i++) {
        for (int end = 0; end < 2; end++)
            cut[3 * i + end] = sym_max(s, sym_sub(s, SYM_ZERO, (sym)p[3 * i + end]), SYM_ZERO);
        slice[3 * i] = sym_add(s, (sym)p[3 * i], (sym)cut[3 * i]);
        slice[3 * i + 1] = dims[i];
        slice[3 * i + 2] = p[3 * i + 2] + 1;
    }
    grad_add(c, n, 0, make_slice(c->g, make_pad(c->g, g, cut), slice));
}

/* And SLICE undone is PAD. */
static void rule_slice(grad *c, node_id n, node_id g) {
    int rank, count;
    const int64_t *dims = node_dims(c->g, source(c, n, 0), &rank);
    const int64_t *p = graph_tuple_get(c->g, c->g->node[n].attr, &count);
    int64_t pad[3 * QN_MAX_RANK];
    slice_undone(c->g, p, rank, dims, pad);
    grad_add(c, n, 0, make_pad(c->g, g, pad));
}

/* Each piece has its own part of g. */
static void rule_join(grad *c, node_id n, node_id g) {
    int rank, axis = node_join_axis(c->g, node_at(c->g, n)), sources = node_at(c->g, n)->sources;
    int64_t p[3 * QN_MAX_RANK] = {0};
    sym before = SYM_ZERO;
    for (int k = 0; k < sources; k++) {
        node_id x = source(c, n, k);
        const int64_t *dims = node_dims(c->g, x, &rank);
        for (int i = 0; i < rank; i++) {
            p[3 * i] = i == axis ? (int64_t)before : SYM_ZERO;
            p[3 * i + 1] = dims[i];
            p[3 * i + 2] = 1;
        }
        before = sym_add(c->g->syms, before, (sym)dims[axis]);
        if (grad_wants(c, n, k)) grad_add(c, n, k, make_slice(c->g, g, p));
    }
}

static void rule_window(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    int rank;
    const int64_t *dims = node_dims(c->g, x, &rank);
    window_attr w = node_window(c->g, node_at(c->g, n));
    bool repeated = dims[w.by] == SYM_ONE;
    grad_add(c, n, 0, make_unwindow(c->g, g, &w, (sym)dims[w.axis], repeated));
}

static void rule_flip(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, make_flip(c->g, g, node_axes(c->g, n)));
}

/* ---- reductions ----------------------------------------------------------------------------- */

static void rule_sum(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, make_unreduce(c->g, g, shape_of(c, source(c, n, 0)), node_axes(c->g, n)));
}

/* sum of x*y where the condition holds: there g times the other factor. */
static void rule_sum_product(grad *c, node_id n, node_id g) {
    tuple_id shape = shape_of(c, source(c, n, 0));
    g = make_unreduce(c->g, g, shape, node_axes(c->g, n));
    if (c->g->node[n].sources == 3) g = only(c, source(c, n, 2), g);
    rule_mul(c, n, g);
}

/* The gradient of a product of factors is g times the product of the others. For a factor that is
 * not 0 that is the whole by division. For a 0 it is the product `rest` of what is not 0 if it is
 * the only one; if there are two, rest times the other one, which has no value but a derivative:
 * their sum without this one. With more it is 0, and so is its derivative. */
typedef struct product {
    node_id whole;  /* g times the product */
    node_id single; /* g*rest where there is one 0, else 0 */
    node_id pair;   /* g*rest where there are two */
    node_id sum;    /* of the zeros, for its derivative */
} product;

static product product_of(const grad *c, node_id n, node_id g, node_id zeros, node_id rest,
                          node_id sum) {
    node_id others = mul(c, g, rest);
    node_id one = make2(c->g, OP_EQ, zeros, number(c, zeros, 1));
    node_id two = make2(c->g, OP_EQ, zeros, number(c, zeros, 2));
    return (product){mul(c, g, n), only(c, one, others), only(c, two, others), sum};
}

/* The factors' gradients, with p already in their shape. */
static node_id product_gradient(const grad *c, node_id x, product p) {
    node_id zero = make2(c->g, OP_EQ, x, number(c, x, 0));
    node_id other = mul(c, p.pair, make2(c->g, OP_SUB, p.sum, x));
    node_id quotient = divide(c, p.whole, choose(c, zero, number(c, x, 1), x));
    return choose(c, zero, make2(c->g, OP_ADD, p.single, other), quotient);
}

/* What is 0 in x: as a count, as the factor that remains, as itself. */
static node_id zero_count(const grad *c, node_id x) {
    return only(c, make2(c->g, OP_EQ, x, number(c, x, 0)), number(c, x, 1));
}

static node_id without_zeros(const grad *c, node_id x) {
    return choose(c, make2(c->g, OP_EQ, x, number(c, x, 0)), number(c, x, 1), x);
}

static node_id only_zeros(const grad *c, node_id x) {
    return only(c, make2(c->g, OP_EQ, x, number(c, x, 0)), x);
}

static void rule_prod(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    tuple_id shape = shape_of(c, x);
    uint32_t mask = node_axes(c->g, n);
    product p = product_of(c, n, g, sum_over(c, zero_count(c, x), mask),
                           make_reduce(c->g, OP_PROD, without_zeros(c, x), mask),
                           make_reduce(c->g, OP_SUM, only_zeros(c, x), mask));
    product each = {
        make_unreduce(c->g, p.whole, shape, mask), make_unreduce(c->g, p.single, shape, mask),
        make_unreduce(c->g, p.pair, shape, mask), make_unreduce(c->g, p.sum, shape, mask)};
    grad_add(c, n, 0, product_gradient(c, x, each));
}

/* Is a sum of floats computed for n? Kernels may group it differently, so that its last bits are
 * another kernel's. Looks at so many nodes; what is more than that counts as one. */
static bool is_of_sums(const grad *c, node_id n, int *nodes) {
    const graph_node *x = node_at(c->g, n);
    if ((x->flags & NODE_REALIZED) || op_rows[x->op].class_ == CLASS_LEAF) return false;
    if (x->op == OP_CONTIGUOUS || !dtype_is_float(x->dtype)) return false;
    bool sum = op_rows[x->op].class_ == CLASS_REDUCE && x->op != OP_MAX && x->op != OP_MIN;
    if (sum || x->op == OP_SCATTER || x->op == OP_SCAN || --*nodes < 0) return true;
    for (int i = 0; i < x->sources; i++)
        if (is_of_sums(c, x->src[i], nodes)) return true;
    return false;
}

/* x as one value, where it is compared with what was made of it: stored, where two kernels could
 * compute two. What is stored is what movements look at, not each look. */
node_id grad_one_value(const grad *c, node_id x) {
    const graph_node n = *node_at(c->g, x);
    int nodes = 64;
    if (op_rows[n.op].class_ == CLASS_MOVE && !(n.flags & NODE_REALIZED)) {
        node_id from = grad_one_value(c, n.src[0]);
        if (from == n.src[0]) return x;
        return node_make(c->g, (node_form){n.op, (qn_dtype)n.dtype, n.shape, n.attr, 0}, 1, &from);
    }
    return is_of_sums(c, x, &nodes) ? make_mark(c->g, OP_CONTIGUOUS, x) : x;
}

/* An equal share for each that attains the value. */
static void rule_attained(grad *c, node_id n, node_id g) {
    node_id x = grad_one_value(c, source(c, n, 0));
    tuple_id shape = shape_of(c, x);
    uint32_t mask = node_axes(c->g, n);
    node_id most = x == source(c, n, 0) ? n : make_reduce(c->g, c->g->node[n].op, x, mask);
    node_id here = make2(c->g, OP_EQ, x, make_unreduce(c->g, most, shape, mask));
    g = widened(c, g);
    most = widened(c, most);
    node_id count = sum_over(c, only(c, here, number(c, widened(c, x), 1)), mask);
    node_id share = make_unreduce(c->g, divide(c, g, count), shape, mask);
    node_id rest = make_unreduce(c->g, where_nan(c, most, g), shape, mask);
    grad_add(c, n, 0, choose(c, here, share, rest));
}

static void rule_max(grad *c, node_id n, node_id g) {
    rule_attained(c, n, g);
}

static void rule_min(grad *c, node_id n, node_id g) {
    rule_attained(c, n, g);
}

/* ---- computed indices ----------------------------------------------------------------------- */

static void rule_gather(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), index = source(c, n, 1);
    int count, axis = (int)graph_tuple_get(c->g, c->g->node[n].attr, &count)[0];
    grad_add(c, n, 0, make_scatter(c->g, number(c, x, 0), index, g, axis, MONOID_SUM));
}

/* What was overwritten has no gradient; of several written to one place the last has. That is the
 * one whose number, written by the same rule, is found there. */
static void grad_scatter_set(grad *c, node_id n, node_id g, node_id index, int axis) {
    node_id src = source(c, n, 2);
    if (grad_wants(c, n, 0))
        grad_add(c, n, 0, make_scatter(c->g, g, index, number(c, src, 0), axis, MONOID_SET));
    if (!grad_wants(c, n, 2)) return;
    tuple_id places = shape_of(c, n), shape = shape_of(c, src);
    node_id number_of = make_iota(c->g, QN_I64, shape, axis);
    node_id none = make_number(c->g, QN_I64, places, -1);
    node_id last = make_scatter(c->g, none, index, number_of, axis, MONOID_SET);
    node_id stays = make2(c->g, OP_EQ, make_gather(c->g, last, index, axis), number_of);
    grad_add(c, n, 2, only(c, stays, make_gather(c->g, g, index, axis)));
}

/* An equal share of g for each that attains the value: x's own element and those of src. */
static void grad_scatter_extreme(grad *c, node_id n, node_id g, node_id index, int axis) {
    node_id x = grad_one_value(c, source(c, n, 0)), src = grad_one_value(c, source(c, n, 2));
    node_id most = n;
    if (x != source(c, n, 0) || src != source(c, n, 2)) {
        int count, row = (int)graph_tuple_get(c->g, c->g->node[n].attr, &count)[1];
        most = make_scatter(c->g, x, index, src, axis, row);
    }
    node_id kept = make2(c->g, OP_EQ, x, most);
    node_id won = make2(c->g, OP_EQ, src, make_gather(c->g, most, index, axis));
    g = widened(c, g);
    most = widened(c, most);
    node_id count = only(c, kept, number(c, widened(c, x), 1));
    node_id winners = only(c, won, number(c, widened(c, src), 1));
    count = make_scatter(c->g, count, index, winners, axis, MONOID_SUM);
    node_id share = divide(c, g, count), rest = where_nan(c, most, g);
    if (grad_wants(c, n, 0)) grad_add(c, n, 0, choose(c, kept, share, rest));
    if (!grad_wants(c, n, 2)) return;
    share = make_gather(c->g, share, index, axis);
    rest = make_gather(c->g, rest, index, axis);
    grad_add(c, n, 2, choose(c, won, share, rest));
}

/* As rule_prod, the factors being x's own element and those of src. */
static void grad_scatter_product(grad *c, node_id n, node_id g, node_id index, int axis) {
    node_id x = source(c, n, 0), src = source(c, n, 2);
    product p = product_of(
        c, n, g, make_scatter(c->g, zero_count(c, x), index, zero_count(c, src), axis, MONOID_SUM),
        make_scatter(c->g, without_zeros(c, x), index, without_zeros(c, src), axis, MONOID_PROD),
        make_scatter(c->g, only_zeros(c, x), index, only_zeros(c, src), axis, MONOID_SUM));
    if (grad_wants(c, n, 0)) grad_add(c, n, 0, product_gradient(c, x, p));
    if (!grad_wants(c, n, 2)) return;
    product each = {make_gather(c->g, p.whole, index, axis),
                    make_gather(c->g, p.single, index, axis),
                    make_gather(c->g, p.pair, index, axis), make_gather(c->g, p.sum, index, axis)};
    grad_add(c, n, 2, product_gradient(c, src, each));
}

static void rule_scatter(grad *c, node_id n, node_id g) {
    int count;
    const int64_t *attr = graph_tuple_get(c->g, c->g->node[n].attr, &count);
    int axis = (int)attr[0];
    node_id index = source(c, n, 1);
    switch (attr[1]) {
    case MONOID_SET:
        grad_scatter_set(c, n, g, index, axis);
        break;
    case MONOID_PROD:
        grad_scatter_product(c, n, g, index, axis);
        break;
    case MONOID_MAX:
    case MONOID_MIN:
        grad_scatter_extreme(c, n, g, index, axis);
        break;
    default:
        grad_add(c, n, 0, g);
        if (grad_wants(c, n, 2)) grad_add(c, n, 2, make_gather(c->g, g, index, axis));
    }
}

/* ---- the column of ops.h -------------------------------------------------------------------- */

#define rule_NONE NULL
grad_rule *const grad_rules[OP_COUNT] = {
#define X(NAME, name, arity, CLASS, TYPES, F, I, VALUE, fcost, icost, GRAD, ...)                   \
    [OP_##NAME] = rule_##GRAD,
#include "graph/ops.h"
#undef X
};
