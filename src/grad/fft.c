/* fft.c - gradients of Fourier transforms, which are linear: the transform back.
 *
 * As a map of pairs a complex transform's adjoint is the one with the other sign. A real row gives
 * half of a spectrum, and from half of one comes a real row, where every number but those that are
 * their own mirror images (the first, and the last of an even length) stands for two: so it is
 * halved before the one adjoint, and doubled behind the other. */
#include "grad/grad.h"

/* x, whose numbers that stand for two are multiplied. */
static node_id weighed(const grad *c, node_id x, int64_t n, double weight) {
    tuple_id shape = c->g->node[x].shape;
    qn_dtype dtype = (qn_dtype)c->g->node[x].dtype;
    node_id k = make_iota(c->g, QN_I64, shape, node_rank(c->g, x) - 2);
    node_id first = make2(c->g, OP_EQ, k, make_number(c->g, QN_I64, shape, 0));
    node_id alone = first;
    if (n % 2 == 0) {
        node_id last = make2(c->g, OP_EQ, k, make_number(c->g, QN_I64, shape, (double)(n / 2)));
        alone = make2(c->g, OP_OR, first, last);
    }
    node_id one = make_number(c->g, dtype, shape, 1);
    node_id by = make3(c->g, OP_WHERE, alone, one, make_number(c->g, dtype, shape, weight));
    return make2(c->g, OP_MUL, x, by);
}

void call_rule_fft(grad *c, node_id n, node_id g) {
    const graph_node x = *node_at(c->g, n), *src = node_at(c->g, x.src[0]);
    tuple_id shape = src->shape;
    call_attr back = node_call(c->g, &x);
    int kind = (int)back.attr[0];
    int64_t length = back.attr[3];
    back.attr[1] = !back.attr[1];
    if (kind == CALL_FFT_REAL_IN) back.attr[0] = CALL_FFT_REAL_OUT;
    if (kind == CALL_FFT_REAL_OUT) back.attr[0] = CALL_FFT_REAL_IN;
    if (kind == CALL_FFT_REAL_IN) g = weighed(c, g, length, 0.5);
    node_id r = make_call(c->g, &back, (qn_dtype)x.dtype, shape, 1, &g);
    if (kind == CALL_FFT_REAL_OUT) r = weighed(c, r, length, 2);
    grad_add(c, n, 0, r);
}
