/* grad_rules.c - how each row of ops.h passes a gradient on to its sources.
 *
 * A rule gets its node n, whose value it may use, and the gradient g of n, of n's shape and
 * dtype. It gives each source a gradient of that source's shape and dtype. Where the derivative
 * does not exist the rules choose: 0 for |x| at 0; for maximum, minimum and the reductions MAX
 * and MIN an equal share for each that attains the value. Formulas use n itself where that saves
 * work: e^x is its own derivative. */
#include "graph/graph.h"

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
        *condition = node_make(c->g, v.op, QN_BOOL, v.shape, 1, condition, v.attr, 0);
        *inner = node_make(c->g, v.op, v.dtype, v.shape, 1, inner, v.attr, 0);
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
    bool narrow = (d == QN_F16 || d == QN_BF16) && !rule_sees(c->g, x, OP_MUL);
    node_id sum = make_reduce(c->g, OP_SUM, narrow ? make_cast(c->g, x, QN_F32) : x, mask);
    return make_cast(c->g, sum, d);
}

/* ---- elementwise, one source ---------------------------------------------------------------- */

static void rule_neg(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, negative(c, g));
}

static void rule_abs(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), zero = number(c, x, 0);
    node_id below = make2(c->g, OP_LT, x, zero), above = make2(c->g, OP_LT, zero, x);
    grad_add(c, n, 0, choose(c, above, g, only(c, below, negative(c, g))));
}

static void rule_reciprocal(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, negative(c, mul(c, g, mul(c, n, n))));
}

static void rule_sqrt(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, divide(c, scaled(c, g, 0.5), n));
}

static void rule_exp(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, mul(c, g, n));
}

static void rule_exp2(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, scaled(c, mul(c, g, n), M_LN2));
}

static void rule_expm1(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, mul(c, g, plus(c, n, 1)));
}

static void rule_log(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, divide(c, g, source(c, n, 0)));
}

static void rule_log2(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, divide(c, g, scaled(c, source(c, n, 0), M_LN2)));
}

static void rule_log1p(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, divide(c, g, plus(c, source(c, n, 0), 1)));
}

static void rule_sin(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, mul(c, g, make1(c->g, OP_COS, source(c, n, 0))));
}

static void rule_cos(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, negative(c, mul(c, g, make1(c->g, OP_SIN, source(c, n, 0)))));
}

static void rule_atan(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    grad_add(c, n, 0, divide(c, g, plus(c, mul(c, x, x), 1)));
}

static void rule_tanh(grad *c, node_id n, node_id g) {
    node_id slope = make2(c->g, OP_SUB, number(c, n, 1), mul(c, n, n));
    grad_add(c, n, 0, mul(c, g, slope));
}

static void rule_sigmoid(grad *c, node_id n, node_id g) {
    node_id slope = mul(c, n, make2(c->g, OP_SUB, number(c, n, 1), n));
    grad_add(c, n, 0, mul(c, g, slope));
}

/* 2/sqrt(pi) * e^(-x*x) */
static node_id bell(const grad *c, node_id x) {
    return scaled(c, make1(c->g, OP_EXP, negative(c, mul(c, x, x))), M_2_SQRTPI);
}

static void rule_erf(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, mul(c, g, bell(c, source(c, n, 0))));
}

static void rule_erfc(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, negative(c, mul(c, g, bell(c, source(c, n, 0)))));
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

static void rule_mod(grad *c, node_id n, node_id g) {
    grad_add(c, n, 0, g);
    if (!grad_wants(c, n, 1)) return;
    node_id times = make2(c->g, OP_FLOOR_DIV, source(c, n, 0), source(c, n, 1));
    grad_add(c, n, 1, negative(c, mul(c, g, times)));
}

/* y * x^(y-1), which is 0 for y = 0 whatever x is, and x^y * log(x), which is 0 for x = 0. */
static void rule_pow(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), y = source(c, n, 1);
    if (grad_wants(c, n, 0)) {
        node_id slope = mul(c, y, make2(c->g, OP_POW, x, plus(c, y, -1)));
        node_id flat = make2(c->g, OP_EQ, y, number(c, y, 0));
        grad_add(c, n, 0, choose(c, flat, number(c, g, 0), mul(c, g, slope)));
    }
    if (grad_wants(c, n, 1)) {
        node_id empty = make2(c->g, OP_EQ, x, number(c, x, 0));
        node_id base = choose(c, empty, number(c, x, 1), x);
        grad_add(c, n, 1, mul(c, g, mul(c, n, make1(c->g, OP_LOG, base))));
    }
}

/* For `first` the part of g where a is strictly on the winning side, and half where both are. */
static node_id winner_share(grad *c, node_id wins, node_id ties, node_id g) {
    return choose(c, wins, g, only(c, ties, scaled(c, g, 0.5)));
}

static void grad_extreme(grad *c, node_id n, node_id g, bool larger) {
    node_id x = source(c, n, 0), y = source(c, n, 1);
    node_id below = make2(c->g, OP_LT, x, y), above = make2(c->g, OP_LT, y, x);
    node_id ties = make2(c->g, OP_EQ, x, y);
    grad_add(c, n, 0, winner_share(c, larger ? above : below, ties, g));
    grad_add(c, n, 1, winner_share(c, larger ? below : above, ties, g));
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

static void rule_attained(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0);
    tuple_id shape = shape_of(c, x);
    uint32_t mask = node_axes(c->g, n);
    node_id here = make2(c->g, OP_EQ, x, make_unreduce(c->g, n, shape, mask));
    node_id count = sum_over(c, only(c, here, number(c, x, 1)), mask);
    node_id share = make_unreduce(c->g, divide(c, g, count), shape, mask);
    grad_add(c, n, 0, only(c, here, share));
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
    node_id x = source(c, n, 0), src = source(c, n, 2);
    node_id kept = make2(c->g, OP_EQ, x, n);
    node_id won = make2(c->g, OP_EQ, src, make_gather(c->g, n, index, axis));
    node_id count = only(c, kept, number(c, x, 1));
    count = make_scatter(c->g, count, index, only(c, won, number(c, src, 1)), axis, MONOID_SUM);
    node_id share = divide(c, g, count);
    if (grad_wants(c, n, 0)) grad_add(c, n, 0, only(c, kept, share));
    if (grad_wants(c, n, 2)) grad_add(c, n, 2, only(c, won, make_gather(c->g, share, index, axis)));
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
#define X(NAME, name, arity, CLASS, TYPES, F, I, GRAD, ...) [OP_##NAME] = rule_##GRAD,
#include "graph/ops.h"
#undef X
};
