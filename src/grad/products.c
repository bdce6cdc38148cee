/* products.c - the gradient of a weight that is used several times: one contraction.
 *
 * Each use gives the weight a sum of products over its rows, x0' g0, x1' g1, and so on. Adding them
 * reads and writes a value of the weight's size for each use; where a use has few rows, as a step
 * of a recurrent network does, that takes longer than the products. But
 *
 *     sum_r x0[r] g0[r] + sum_r x1[r] g1[r] = sum_r X[r] G[r],  X and G being the rows one behind
 *
 * the other, JOINs. So such terms are not added as they come, but kept until all users of the node
 * have given theirs. What is joined are the rows themselves, behind the views by which a product
 * sees them: slices that lie one behind the other are one slice again.
 *
 * Rows are stored anew, so a term is kept where those of both sides are no more than the result;
 * and until its product is computed they all are in memory. So a few products are made, each of as
 * many uses one after the other as take no more memory than the result, and these are added. */
#include "grad/grad.h"

enum { VIEWS = 8 };

typedef struct view {
    node_id node;
    int axis; /* of the rows, in what it gives */
} view;

typedef struct factor { /* one side of a product: rows behind views, the outermost first */
    view view[VIEWS];
    int views, axis; /* axis: of the rows */
    node_id rows;
} factor;

struct grad_product {
    node_id value, outer[VIEWS]; /* views of the product, the outermost first */
    int outers;
    node_id product;
    factor side[2];
    bool done;
    struct grad_product *next;
};

/* ---- what is joined -------------------------------------------------------------------------- */

/* The source's axis that is axis `axis` of a reshape which only puts in or takes out ones; -1. */
static int axis_below(const graph *g, node_id reshape, int axis) {
    int rank, from, j = 0;
    const int64_t *to = node_dims(g, reshape, &rank);
    const int64_t *dims = node_dims(g, g->node[reshape].src[0], &from);
    int found = -1;
    for (int i = 0; i < rank; i++) {
        if ((sym)to[i] == SYM_ONE) continue;
        while (j < from && (sym)dims[j] == SYM_ONE) j++;
        if (j == from || dims[j] != to[i]) return -1;
        if (i == axis) found = j;
        j++;
    }
    return found;
}

/* Follow rows through views; false where the product repeats them. */
static bool read_factor(const graph *g, node_id x, int axis, factor *f) {
    int rank;
    for (f->views = 0; f->views < VIEWS; f->views++) {
        const graph_node *n = &g->node[x];
        int below = axis;
        if (rule_sees(g, x, OP_EXPAND)) {
            if (node_dims(g, x, &rank)[axis] != node_dims(g, n->src[0], &rank)[axis]) return false;
        } else if (rule_sees(g, x, OP_PERMUTE)) {
            below = (int)graph_tuple_get(g, n->attr, &rank)[axis];
        } else if (rule_sees(g, x, OP_RESHAPE)) {
            below = axis_below(g, x, axis);
        } else {
            break;
        }
        if (below < 0) break;
        f->view[f->views] = (view){x, axis};
        axis = below;
        x = n->src[0];
    }
    f->rows = x;
    f->axis = axis;
    return true;
}

static double size_of(graph *g, node_id x) {
    return (double)sym_hi(g->syms, shape_numel(g, g->node[x].shape));
}

static double rows_of(graph *g, const grad_product *p) {
    return size_of(g, p->side[0].rows) + size_of(g, p->side[1].rows);
}

static bool read_product(graph *g, node_id value, grad_product *p) {
    node_id x = value;
    for (; p->outers < VIEWS && (rule_sees(g, x, OP_RESHAPE) || rule_sees(g, x, OP_PERMUTE));
         x = g->node[x].src[0])
        p->outer[p->outers++] = x;
    if (!rule_sees(g, x, OP_SUM_PRODUCT) || g->node[x].sources != 2) return false;
    p->value = value;
    p->product = x;
    int rank;
    const int64_t *dims = node_dims(g, g->node[x].src[0], &rank);
    for (int axis = 0; axis < rank; axis++) {
        if (!(node_axes(g, x) >> axis & 1) || (sym)dims[axis] == SYM_ONE) continue;
        if (!read_factor(g, g->node[x].src[0], axis, &p->side[0])) continue;
        if (!read_factor(g, g->node[x].src[1], axis, &p->side[1])) continue;
        return rows_of(g, p) <= size_of(g, value);
    }
    return false;
}

bool grad_keep_product(grad *c, uint32_t place, node_id value) {
    grad_product *p = arena_zeroed(c->a, sizeof *p);
    if (!read_product(c->g, value, p)) return false;
    if (!c->product) c->product = arena_zeroed(c->a, c->count * sizeof *c->product);
    grad_product **last = &c->product[place];
    p->next = *last; /* the last comes first */
    *last = p;
    return true;
}

/* ---- which are alike ------------------------------------------------------------------------- */

/* Equal shapes, but for the axis? */
static bool like_shapes(const graph *g, node_id x, node_id y, int axis) {
    int rank, other;
    const int64_t *a = node_dims(g, x, &rank), *b = node_dims(g, y, &other);
    if (rank != other || g->node[x].dtype != g->node[y].dtype) return false;
    for (int i = 0; i < rank; i++)
        if (i != axis && a[i] != b[i]) return false;
    return true;
}

static bool like_factors(const graph *g, const factor *x, const factor *y) {
    if (x->views != y->views || x->axis != y->axis) return false;
    for (int i = 0; i < x->views; i++) {
        const graph_node *a = &g->node[x->view[i].node], *b = &g->node[y->view[i].node];
        if (a->op != b->op || x->view[i].axis != y->view[i].axis) return false;
        if (a->op == OP_PERMUTE && a->attr != b->attr) return false;
        if (!like_shapes(g, x->view[i].node, y->view[i].node, x->view[i].axis)) return false;
    }
    return like_shapes(g, x->rows, y->rows, x->axis);
}

static bool like_products(const graph *g, const grad_product *x, const grad_product *y) {
    const graph_node *p = &g->node[x->product], *q = &g->node[y->product];
    if (x->outers != y->outers || p->attr != q->attr || p->shape != q->shape) return false;
    for (int i = 0; i < x->outers; i++) {
        const graph_node *a = &g->node[x->outer[i]], *b = &g->node[y->outer[i]];
        if (a->op != b->op || a->shape != b->shape) return false;
        if (a->op == OP_PERMUTE && a->attr != b->attr) return false;
    }
    return like_factors(g, &x->side[0], &y->side[0]) && like_factors(g, &x->side[1], &y->side[1]);
}

/* ---- one product ----------------------------------------------------------------------------- */

/* The view of x that `like` is of something of other rows; axis -1: of as many. */
static node_id view_again(graph *g, node_id x, node_id like, int axis, sym rows) {
    int rank, order[QN_MAX_RANK];
    int64_t dims[QN_MAX_RANK];
    const int64_t *has = node_dims(g, like, &rank);
    memcpy(dims, has, sizeof *dims * (size_t)rank);
    if (g->node[like].op == OP_PERMUTE) {
        const int64_t *axes = graph_tuple_get(g, g->node[like].attr, &rank);
        for (int i = 0; i < rank; i++) order[i] = (int)axes[i];
        return make_permute(g, x, order);
    }
    if (axis >= 0) dims[axis] = rows;
    tuple_id shape = graph_tuple(g, rank, dims);
    return g->node[like].op == OP_EXPAND ? make_expand(g, x, shape) : make_reshape(g, x, shape);
}

/* The same side of all these products, one behind the other: as they were recorded, for the walk
 * goes backward. */
static node_id join_side(grad *c, uint32_t n, grad_product *const *p, int side) {
    graph *g = c->g;
    const factor first = p[0]->side[side];
    node_id *rows = arena_alloc(c->a, n * sizeof *rows);
    int rank;
    for (uint32_t i = 0; i < n; i++) rows[n - 1 - i] = p[i]->side[side].rows;
    node_id x = make_join(g, (int)n, rows, first.axis);
    sym all = (sym)node_dims(g, x, &rank)[first.axis];
    for (int i = first.views; i-- > 0;)
        x = view_again(g, x, first.view[i].node, first.view[i].axis, all);
    return x;
}

node_id grad_join_products(grad *c, uint32_t place) {
    graph *g = c->g;
    node_id sum = 0;
    uint32_t count = 0;
    if (!c->product || !c->product[place]) return 0;
    for (grad_product *p = c->product[place]; p; p = p->next) count++;
    grad_product **of = arena_alloc(c->a, 2 * (size_t)count * sizeof *of), **like = of + count;
    uint32_t i = count;
    for (grad_product *p = c->product[place]; p; p = p->next) of[--i] = p;
    for (i = 0; i < count; i++) {
        uint32_t n = 0;
        double room = size_of(g, of[i]->value);
        if (of[i]->done) continue;
        for (uint32_t j = i; j < count; j++) {
            if (of[j]->done || !like_products(g, of[i], of[j])) continue;
            room -= rows_of(g, of[j]);
            if (n && room < 0) break;
            of[j]->done = true;
            like[n++] = of[j];
        }
        node_id x = of[i]->value;
        if (n > 1) {
            node_id a = join_side(c, n, like, 0), b = join_side(c, n, like, 1);
            x = make_sum_product(g, a, b, 0, node_axes(g, of[i]->product));
            for (int k = of[i]->outers; k-- > 0;) x = view_again(g, x, of[i]->outer[k], -1, 0);
        }
        grad_include(c, &sum, x);
    }
    c->product[place] = NULL;
    return sum;
}
