/* gamma.c - the derivative of trigamma, polygamma of order 2, as operations of the graph.
 *
 * Right of 0 the recurrence (Abramowitz and Stegun 6.4.6) takes the argument ten further, where
 * eight terms of the asymptotic series (6.4.14) have all digits of F64; left of 0 it is the
 * reflection (6.4.7). All of it is smooth between the poles, so that derivatives of any order
 * follow. */
#include "grad/grad.h"

static node_id gamma_number(const grad *c, node_id x, double v) {
    return make_number(c->g, (qn_dtype)c->g->node[x].dtype, c->g->node[x].shape, v);
}

static node_id gamma_mul(const grad *c, node_id a, node_id b) {
    return make2(c->g, OP_MUL, a, b);
}

/* For s > 0: the sum of -2/(s + k)^3 over k < 10, and the series at z = s + 10, v = 1/z:
 * -v^2 - v^3 - the sum of (2k + 1) B_2k v^(2k + 2). */
static node_id gamma_series(const grad *c, node_id s) {
    static const double b[] = {3 / 6.,   -5 / 30.,          7 / 42.,     -9 / 30.,
                               55 / 66., -13 * 691 / 2730., 15 * 7 / 6., -17 * 3617 / 510.};
    enum { SHIFT = 10, TERMS = sizeof b / sizeof *b };
    node_id sum = 0;
    for (int k = 0; k < SHIFT; k++) {
        node_id at = k ? make2(c->g, OP_ADD, s, gamma_number(c, s, k)) : s;
        node_id v = make1(c->g, OP_RECIPROCAL, at), cube = gamma_mul(c, v, gamma_mul(c, v, v));
        sum = k ? make2(c->g, OP_ADD, sum, cube) : cube;
    }
    node_id z = make2(c->g, OP_ADD, s, gamma_number(c, s, SHIFT));
    node_id v = make1(c->g, OP_RECIPROCAL, z), u = gamma_mul(c, v, v);
    node_id tail = gamma_number(c, s, b[TERMS - 1]);
    for (int i = TERMS - 1; i-- > 0;) tail = make3(c->g, OP_FMA, tail, u, gamma_number(c, s, b[i]));
    tail = make3(c->g, OP_FMA, tail, u, make2(c->g, OP_ADD, v, gamma_number(c, s, 1)));
    return make3(c->g, OP_FMA, sum, gamma_number(c, s, -2),
                 make1(c->g, OP_NEG, gamma_mul(c, tail, u)));
}

static node_id gamma_where(const grad *c, node_id when, node_id yes, node_id no) {
    return make3(c->g, OP_WHERE, when, yes, no);
}

/* -2 pi^3 cos(pi d) / sin(pi d)^3 of the distance d to a pole, -1/2 to 1/2. Near one, where a
 * derivative's terms would be 0 times infinity, it is -2 / d^3, off by a factor of 1 + O(d^4): all
 * derivatives are infinite where they should be. */
static node_id gamma_reflected(const grad *c, node_id d) {
    static const double pi = 3.14159265358979323846;
    node_id size = make1(c->g, OP_ABS, d);
    node_id near = make2(c->g, OP_LT, size, gamma_number(c, d, 1 / 32768.));
    node_id v = make1(c->g, OP_RECIPROCAL, gamma_where(c, near, d, gamma_number(c, d, 1)));
    node_id pole = gamma_mul(c, gamma_mul(c, v, gamma_mul(c, v, v)), gamma_number(c, d, -2));
    d = gamma_where(c, near, gamma_number(c, d, 0.25), d);
    node_id turn = gamma_mul(c, d, gamma_number(c, d, pi)), sine = make1(c->g, OP_SIN, turn);
    node_id cube = gamma_mul(c, sine, gamma_mul(c, sine, sine));
    node_id other = make2(c->g, OP_DIV, make1(c->g, OP_COS, turn), cube);
    other = gamma_mul(c, other, gamma_number(c, d, -2 * pi * pi * pi));
    return gamma_where(c, near, pole, other);
}

/* Left of 0: that of 1 - x, and what the reflection adds. */
node_id grad_polygamma2(const grad *c, node_id x) {
    node_id one = gamma_number(c, x, 1), zero = gamma_number(c, x, 0);
    node_id left = make2(c->g, OP_LT, x, zero), mirror = make2(c->g, OP_SUB, one, x);
    node_id right = gamma_series(c, gamma_where(c, left, mirror, x));
    node_id d = make2(c->g, OP_SUB, x, make1(c->g, OP_ROUND, x));
    node_id other = gamma_reflected(c, gamma_where(c, left, d, gamma_number(c, x, 0.25)));
    return make2(c->g, OP_ADD, right, gamma_where(c, left, other, zero));
}
