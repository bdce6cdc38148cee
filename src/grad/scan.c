/* scan.c - gradients of scans, each again a scan of as many elements.
 *
 * Of y_i = a_i * y_(i-1) + b_i the gradient r_i of everything behind i is g_i + a_(i+1) * r_(i+1),
 * the same recurrence the other way: b_i gets r_i, a_i gets r_i * y_(i-1). Products and logarithms
 * of sums of exponentials are such recurrences: no division, so zeros need no care, and second
 * derivatives follow from the rule itself. */
#include "grad/grad.h"

#include <math.h>

typedef struct scanned {
    grad *c;
    graph *g;
    node_id n, x, y; /* the scan and its sources */
    scan_attr s;
} scanned;

static node_id like(const scanned *t, node_id n, double v) {
    return make_number(t->g, (qn_dtype)t->g->node[n].dtype, t->g->node[n].shape, v);
}

static node_id place_of(const scanned *t, node_id n) {
    return make_iota(t->g, QN_I64, t->g->node[n].shape, t->s.axis);
}

/* Element i becomes that in front of it in the scan's order, or behind it; 0 at the end. */
static node_id neighbour(const scanned *t, node_id x, bool behind) {
    bool up = behind != t->s.reverse; /* element i + 1 */
    int64_t slice[3 * QN_MAX_RANK], pad[3 * QN_MAX_RANK] = {0};
    int rank;
    const int64_t *dims = graph_tuple_get(t->g, t->g->node[x].shape, &rank);
    for (int i = 0; i < rank; i++) {
        slice[3 * i] = SYM_ZERO;
        slice[3 * i + 1] = dims[i];
        slice[3 * i + 2] = 1;
        pad[3 * i] = pad[3 * i + 1] = SYM_ZERO;
    }
    int64_t *cut = slice + 3 * t->s.axis, *end = pad + 3 * t->s.axis;
    cut[0] = up ? SYM_ONE : SYM_ZERO;
    cut[1] = (int64_t)sym_sub(t->g->syms, (sym)cut[1], SYM_ONE);
    end[up ? 1 : 0] = SYM_ONE;
    return make_pad(t->g, make_slice(t->g, x, slice), pad);
}

/* Of everything behind each element: g + a * (that of the next one). */
static node_id behind(const scanned *t, node_id a, node_id g) {
    return make_scan(t->g, a, g, (scan_attr){MONOID_AFFINE, t->s.axis, !t->s.reverse});
}

static void rule_affine(const scanned *t, node_id g) {
    node_id r = behind(t, neighbour(t, t->x, true), g);
    if (grad_wants(t->c, t->n, 1)) grad_add(t->c, t->n, 1, r);
    if (grad_wants(t->c, t->n, 0))
        grad_add(t->c, t->n, 0, make2(t->g, OP_MUL, r, neighbour(t, t->n, false)));
}

/* y_i = x_i * y_(i-1). */
static void rule_product(const scanned *t, node_id g) {
    node_id r = behind(t, neighbour(t, t->x, true), g), before = neighbour(t, t->n, false);
    node_id inside = neighbour(t, like(t, t->n, 1), false);
    node_id first = make2(t->g, OP_EQ, inside, like(t, inside, 0));
    before = make3(t->g, OP_WHERE, first, like(t, before, 1), before);
    grad_add(t->c, t->n, 0, make2(t->g, OP_MUL, r, before));
}

/* a - b, 0 where they are equal, as infinities may be. */
static node_id distance(const scanned *t, node_id a, node_id b) {
    node_id d = make2(t->g, OP_SUB, a, b);
    return make3(t->g, OP_WHERE, make2(t->g, OP_EQ, a, b), like(t, d, 0), d);
}

/* y_i = log(e^y_(i-1) + e^x_i): the last one's share is e^(y_(i-1) - y_i), x_i's e^(x_i - y_i).
 * Behind the end nothing is added, and the share there is any number, but not infinite. */
static void rule_logarithm(const scanned *t, node_id g) {
    node_id inside = neighbour(t, like(t, t->n, 1), true), next = neighbour(t, t->n, true);
    node_id last = make2(t->g, OP_EQ, inside, like(t, inside, 0));
    next = make3(t->g, OP_WHERE, last, t->n, next);
    node_id kept = make1(t->g, OP_EXP, distance(t, t->n, next));
    node_id r = behind(t, kept, g), share = distance(t, t->x, t->n);
    node_id lowest = like(t, t->x, -(double)INFINITY);
    share = make3(t->g, OP_WHERE, make2(t->g, OP_EQ, t->x, lowest), lowest, share);
    grad_add(t->c, t->n, 0, make2(t->g, OP_MUL, r, make1(t->g, OP_EXP, share)));
}

/* All of it to the element that the running one is: of equal ones the last. */
static void rule_extreme(const scanned *t, node_id g) {
    node_id x = grad_one_value(t->c, t->x);
    node_id most = x == t->x ? t->n : make_scan(t->g, x, 0, t->s);
    node_id here = make2(t->g, OP_OR, make2(t->g, OP_EQ, x, most), make2(t->g, OP_NE, x, x));
    node_id place = place_of(t, x), none = like(t, place, t->s.reverse ? 0x1p62 : 0);
    scan_attr by = {t->s.reverse ? MONOID_MIN : MONOID_MAX, t->s.axis, t->s.reverse};
    node_id index = make_scan(t->g, make3(t->g, OP_WHERE, here, place, none), 0, by);
    grad_add(t->c, t->n, 0, make_scatter(t->g, like(t, x, 0), index, g, t->s.axis, MONOID_SUM));
}

void rule_scan(grad *c, node_id n, node_id g) {
    const graph_node *x = node_at(c->g, n);
    scanned t = {.c = c, .g = c->g, .n = n, .x = x->src[0], .s = node_scan(c->g, x)};
    if (x->sources > 1) t.y = x->src[1];
    switch (t.s.monoid) {
    case MONOID_SUM:
        grad_add(c, n, 0, make_scan(c->g, g, 0, (scan_attr){MONOID_SUM, t.s.axis, !t.s.reverse}));
        break;
    case MONOID_PROD:
        rule_product(&t, g);
        break;
    case MONOID_AFFINE:
        rule_affine(&t, g);
        break;
    case MONOID_LOGSUMEXP:
        rule_logarithm(&t, g);
        break;
    default:
        rule_extreme(&t, g);
    }
}
