/* unwindow.c - the gradient of WINDOW, as windows again and never as a scatter.
 *
 * For r[i, j] = x[start + stride*i + slope*j] the gradient of x[p] is the sum of t[i, j] over all
 * (i, j) that look at p. With stride 1 that is a window of t with the slope turned around,
 *
 *     sum over j of  t[p - start - slope*j, j]
 *
 * With a larger stride and slope 1 let j = stride*m + r: then p - start = stride*(i + m) + r, so
 * that the places p of one remainder r see only the j of that remainder, every stride-th from r on:
 *
 *     y_r[q] = sum over m of  t[q - m, stride*m + r]     and  p = start + stride*q + r
 *
 * That is a window of stride 1 for each r, and no zeros are computed with; x's gradient has the
 * y_r one place of each after the other. Any other stride sees t with zeros between its elements.
 *
 * What makes this a convolution. In one, t = sum(a * b) with a (the output's gradient) the same for
 * all j and b (the weights) the same for all i. As an array t is as large as all windows together,
 * so it must not come to be: the window moves into the sum and onto a, b is rearranged, and both
 * sums become one. The result is again a sum of products of two broadcast operands, and the next
 * window's gradient goes on from there. Zeros beyond the edges of `a` are multiplied by b: as with
 * padding, weights that are infinite give NaN there. */
#include "graph/graph.h"

/* The movement: what the array is over, and how its two axes are rearranged. */
typedef struct unwind {
    graph *g;
    window_attr w;
    sym n;         /* places of x along the axis: those of one remainder, when phase */
    bool phase;    /* by remainders of the stride */
    int64_t apart; /* every so manieth j is seen, when phase, from `from` on; w.length of them */
    int64_t from;
} unwind;

static node_id pad_axis(graph *g, node_id x, int axis, sym lo, sym hi, int64_t interior) {
    int64_t p[3 * QN_MAX_RANK] = {0};
    p[3 * axis] = lo;
    p[3 * axis + 1] = hi;
    p[3 * axis + 2] = interior;
    return make_pad(g, x, p);
}

/* What is summed is over [.. p .. j ..]: the shape of what was `from`. */
static tuple_id shape_inside(const unwind *u, tuple_id from, int axis, int by) {
    int rank;
    int64_t v[QN_MAX_RANK];
    const int64_t *dims = graph_tuple_get(u->g, from, &rank);
    for (int i = 0; i < rank; i++) v[i] = i == axis ? u->n : i == by ? u->w.length : dims[i];
    return graph_tuple(u->g, rank, v);
}

/* The j of one remainder. */
static node_id every(const unwind *u, node_id x, int by) {
    int rank;
    int64_t p[3 * QN_MAX_RANK];
    const int64_t *dims = node_dims(u->g, x, &rank);
    for (int i = 0; i < rank; i++) {
        p[3 * i] = i == by ? sym_const(u->g->syms, u->from) : SYM_ZERO;
        p[3 * i + 1] = i == by ? (int64_t)u->w.length : dims[i];
        p[3 * i + 2] = i == by ? u->apart : 1;
    }
    return make_slice(u->g, x, p);
}

/* Which of the two axes v moves with. */
enum { MOVES_AXIS = 1, MOVES_BY = 2 };

/* v, which can be expanded to the shape `over`, rearranged to be summed. */
static node_id rearranged(const unwind *u, node_id v, tuple_id over, int axis, int by, int moves) {
    graph *g = u->g;
    sym_store *s = g->syms;
    int64_t stride = u->w.stride;
    window_attr w = {axis, by, 1, -u->w.slope, SYM_ZERO, u->n, u->w.length};
    w.start = sym_sub(s, SYM_ZERO, u->w.start);
    if (u->phase && (moves & MOVES_BY)) v = every(u, v, by);
    if ((moves & MOVES_AXIS) && stride > 1)
        v = pad_axis(g, v, axis, SYM_ZERO, SYM_ZERO, stride - 1);
    if (moves & MOVES_AXIS) v = make_window(g, v, &w);
    return make_expand(g, v, shape_inside(u, over, axis, by));
}

static node_id sum_over(graph *g, node_id x, uint32_t mask) {
    qn_dtype d = (qn_dtype)g->node[x].dtype;
    bool narrow = dtype_is_narrow(d) && !rule_sees(g, x, OP_MUL);
    return make_cast(g, make_reduce(g, OP_SUM, narrow ? make_cast(g, x, QN_F32) : x, mask), d);
}

/* What was rearranged, summed over the windows' places and over `axes` of it. */
static node_id summed(const unwind *u, node_id v, int by, uint32_t axes, tuple_id shape) {
    return make_reshape(u->g, sum_over(u->g, v, axes | 1u << by), shape);
}

/* The shape of t with the windows' axis as x has it, the other of size 1. */
static tuple_id shape_after(const unwind *u, node_id t, int axis, int by) {
    int rank;
    int64_t v[QN_MAX_RANK];
    const int64_t *dims = node_dims(u->g, t, &rank);
    for (int i = 0; i < rank; i++) v[i] = i == axis ? u->n : i == by ? SYM_ONE : dims[i];
    return graph_tuple(u->g, rank, v);
}

/* What x repeats, where that is of size 1 on an axis; 0: it is not. */
static node_id narrowed(graph *g, node_id x, int axis) {
    int rank;
    if (rule_sees(g, x, OP_EXPAND)) x = g->node[x].src[0];
    return node_dims(g, x, &rank)[axis] == SYM_ONE ? x : 0;
}

/* x repeated along an axis as `over` has it. */
static node_id widened(graph *g, node_id x, int axis, tuple_id over) {
    int rank;
    int64_t v[QN_MAX_RANK];
    const int64_t *dims = node_dims(g, x, &rank);
    for (int i = 0; i < rank; i++) v[i] = dims[i];
    v[axis] = graph_tuple_get(g, over, &rank)[axis];
    return make_expand(g, x, graph_tuple(g, rank, v));
}

/* For a sum over `axes` of the product of n's two sources, as in a convolution. 0: they are not
 * such that the window moves one of them. */
static node_id push_product(const unwind *u, node_id n, int axis, int by, uint32_t axes,
                            tuple_id shape) {
    graph *g = u->g;
    tuple_id over = g->node[g->node[n].src[0]].shape;
    for (int side = 0; side < 2; side++) {
        node_id a = narrowed(g, g->node[n].src[side], by);
        node_id b = narrowed(g, g->node[n].src[1 - side], axis);
        if (!a || !b) continue;
        a = widened(g, a, axis, over);
        b = widened(g, b, by, over);
        a = rearranged(u, a, over, axis, by, MOVES_AXIS);
        b = rearranged(u, b, over, axis, by, MOVES_BY);
        node_id product = side ? make2(g, OP_MUL, b, a) : make2(g, OP_MUL, a, b);
        return summed(u, product, by, axes, shape);
    }
    return 0;
}

/* The axis of y that stands where `axis` of x stands, y being x reshaped; -1: none. */
static int same_axis(graph *g, node_id x, int axis, node_id y) {
    int rank;
    const int64_t *from = node_dims(g, x, &rank), *to = node_dims(g, y, &rank);
    sym before = shape_product(g, axis, from);
    for (int i = 0; i < rank; i++)
        if (to[i] == from[axis] && shape_product(g, i, to) == before) return i;
    return -1;
}

/* The gradient for t, moved into what t is made of: through movements of other axes and a sum onto
 * a product's factors. 0: there is no such product. */
static node_id push(const unwind *u, node_id t, int axis, int by) {
    graph *g = u->g;
    tuple_id shape = shape_after(u, t, axis, by);
    const graph_node *n = node_at(g, t);
    if (n->flags & NODE_REALIZED) return 0;
    node_id x = n->sources ? n->src[0] : 0;
    int count;
    const int64_t *attr = graph_tuple_get(g, n->attr, &count);
    switch (n->op) {
    case OP_MUL:
        return push_product(u, t, axis, by, 0, shape);
    case OP_SUM_PRODUCT: {
        uint32_t axes = node_axes(g, t);
        if (n->sources == 3) return 0;
        for (int i = 0; i < 32; i++) { /* to axes of the sources */
            if (!(axes >> i & 1)) continue;
            axis += i <= axis;
            by += i <= by;
        }
        return push_product(u, t, axis, by, axes, shape);
    }
    case OP_ADD: { /* of remainders along another axis */
        node_id a = push(u, x, axis, by), b = a ? push(u, g->node[t].src[1], axis, by) : 0;
        return b ? make2(g, OP_ADD, a, b) : 0;
    }
    case OP_CAST:
        x = push(u, x, axis, by);
        return x ? make_cast(g, x, (qn_dtype)g->node[t].dtype) : 0;
    case OP_RESHAPE: {
        int a = same_axis(g, t, axis, x), b = same_axis(g, t, by, x);
        x = a >= 0 && b >= 0 && a != b ? push(u, x, a, b) : 0;
        return x ? make_reshape(g, x, shape) : 0;
    }
    case OP_PERMUTE: {
        int order[QN_MAX_RANK];
        for (int i = 0; i < count; i++) order[i] = (int)attr[i];
        x = push(u, x, order[axis], order[by]);
        return x ? make_permute(g, x, order) : 0;
    }
    case OP_PAD: {
        int64_t p[3 * QN_MAX_RANK];
        memcpy(p, attr, (size_t)count * sizeof *p);
        for (int i = 0; i < 3; i++)
            if (p[3 * axis + i] || p[3 * by + i]) return 0;
        x = push(u, x, axis, by);
        return x ? make_pad(g, x, p) : 0;
    }
    default:
        return 0;
    }
}

static node_id unwound(const unwind *u, node_id t, bool repeated) {
    graph *g = u->g;
    const window_attr *w = &u->w;
    node_id inside = repeated ? push(u, t, w->axis, w->by) : 0;
    if (inside) return inside;
    node_id all = rearranged(u, t, g->node[t].shape, w->axis, w->by, MOVES_AXIS | MOVES_BY);
    return repeated ? summed(u, all, w->by, 0, shape_after(u, t, w->axis, w->by)) : all;
}

enum { MOST_PHASES = 256 }; /* terms of a sum: more are zeros that are multiplied */

/* Those of remainder r at their places, zeros between; 0: there are none. */
static node_id unwound_phase(graph *g, node_id t, const window_attr *w, sym n, int64_t r) {
    sym_store *s = g->syms;
    int64_t length, stride = w->stride;
    if (!sym_is_const(s, w->length, &length) || r >= length) return 0;
    sym by_stride = sym_const(s, stride), at = sym_add(s, w->start, sym_const(s, r));
    sym first = sym_div(s, sym_sub(s, sym_const(s, stride - 1), at), by_stride);
    sym last = sym_div(s, sym_sub(s, sym_sub(s, n, SYM_ONE), at), by_stride);
    unwind u = {.g = g, .w = *w, .phase = true, .apart = stride, .from = r};
    u.n = sym_max(s, sym_add(s, sym_sub(s, last, first), SYM_ONE), SYM_ZERO);
    u.w.stride = 1;
    u.w.start = sym_sub(s, SYM_ZERO, first);
    u.w.length = sym_const(s, (length - r - 1) / stride + 1);
    node_id y = unwound(&u, t, true);
    sym before = sym_add(s, at, sym_scale(s, first, stride));
    const int64_t apart[3] = {before, SYM_ZERO, stride - 1};
    sym after = sym_sub(s, n, padded_size(s, u.n, apart));
    return pad_axis(g, y, w->axis, before, after, stride - 1);
}

/* Windows that lie one behind the other, all inside of x: their places are put back there. So are
 * those of a single one. */
static node_id put_back(graph *g, node_id t, const window_attr *w, sym n) {
    sym_store *s = g->syms;
    int rank, axis = 0, to = 0, order[QN_MAX_RANK];
    sym reach = sym_scale(s, w->size, w->stride);
    sym after = sym_sub(s, sym_sub(s, n, w->start), reach);
    if (sym_lo(s, w->start) < 0 || sym_lo(s, after) < 0) return 0;
    t = pad_axis(g, t, w->by, SYM_ZERO, sym_sub(s, sym_const(s, w->stride), w->length), 0);
    int64_t v[QN_MAX_RANK];
    const int64_t *dims = node_dims(g, t, &rank);
    for (int i = 0; i < rank; i++) { /* the places behind the windows */
        if (i == w->by) continue;
        if (i == w->axis) axis = to;
        v[to] = i == w->axis ? (int64_t)reach : dims[i];
        order[to++] = i;
    }
    for (int i = rank - 1; i > axis + 1; i--) order[i] = order[i - 1];
    order[axis + 1] = w->by;
    t = make_reshape(g, make_permute(g, t, order), graph_tuple(g, rank - 1, v));
    t = pad_axis(g, t, axis, w->start, after, 0);
    dims = node_dims(g, t, &to);
    for (int i = 0, from = 0; i < rank; i++) v[i] = i == w->by ? SYM_ONE : dims[from++];
    return make_reshape(g, t, graph_tuple(g, rank, v));
}

node_id make_unwindow(graph *g, node_id t, const window_attr *w, sym n, bool repeated) {
    unwind u = {.g = g, .w = *w, .n = n};
    int64_t length, phases; /* remainders of the stride that a window reaches */
    if (repeated && w->size == SYM_ONE && w->slope == 1 &&
        sym_is_const(g->syms, w->length, &length)) {
        window_attr one = *w; /* its stride does not matter, and nothing is repeated in it */
        one.stride = length;
        node_id x = put_back(g, t, &one, n);
        if (x) return x;
    }
    bool apart =
        repeated && w->stride > 1 && w->slope == 1 && sym_is_const(g->syms, w->length, &length);
    phases = apart && length < w->stride ? length : w->stride;
    if (apart && length <= w->stride && !push(&u, t, w->axis, w->by)) {
        node_id x = put_back(g, t, w, n);
        if (x) return x;
    }
    if (!apart || phases < 1 || phases > MOST_PHASES) return unwound(&u, t, repeated);
    node_id sum = 0;
    for (int64_t r = 0; r < phases; r++) {
        node_id y = unwound_phase(g, t, w, n, r);
        if (y) sum = sum ? make2(g, OP_ADD, sum, y) : y;
    }
    return sum;
}
