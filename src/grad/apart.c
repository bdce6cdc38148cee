/* apart.c - which terms of a gradient are passed on one by one, and added later.
 *
 * The gradient of a node is the sum of what its users give it, and in general it is added before it
 * is passed on: then a rule runs once for each node. Movements are linear, so for them it could as
 * well be passed on term by term and added behind them. That is better where a term is a product of
 * two factors that repeat, over a space that is larger than both, and the movement's gradient sums
 * it: the sum of one product is a contraction, SUM_PRODUCT, computed as matrix products are; the
 * sum of a sum of products is not.
 *
 *     w of y0 = x0 w and y1 = x1 w, both of B rows:  EXPAND(w) to [B, out, in] is one node
 *     its gradient: g0 x0 + g1 x1 over [B, out, in];  w's: g0' x0 + g1' x1, two contractions
 *
 * So it goes with a weight that is used at every step of a recurrent network, with an x that
 * several projections of the same width read, and with the windows of convolutions: their gradient
 * is moved into a product's factors (unwindow.c), which a sum of products does not have.
 *
 * However they come, the terms of a half are added in f32 and their sum is rounded once: in bf16
 * 256 and 1 is 256, so that the gradient of what is used often would stop growing. */
#include "grad/grad.h"

enum { MOST_VIEWS = 16 };

static const op_set movements =
    (op_set)1 << OP_RESHAPE | (op_set)1 << OP_PERMUTE | (op_set)1 << OP_EXPAND |
    (op_set)1 << OP_PAD | (op_set)1 << OP_SLICE | (op_set)1 << OP_WINDOW | (op_set)1 << OP_FLIP;

/* The movements that are met from x on, x among them, before anything else. */
static op_set movements_below(const graph *g, node_id x) {
    op_set met = 0;
    for (; movements >> g->node[x].op & 1; x = g->node[x].src[0]) met |= (op_set)1 << g->node[x].op;
    return met;
}

/* Does x repeat elements, as seen through views? */
static bool repeats(const graph *g, node_id x) {
    for (int i = 0; i < MOST_VIEWS; i++, x = g->node[x].src[0]) {
        if (rule_sees(g, x, OP_EXPAND)) return true;
        if (!(movements >> g->node[x].op & 1) || !rule_sees(g, x, g->node[x].op)) return false;
    }
    return false;
}

/* The operation behind x's views that is none: MUL where it is one of two factors that repeat, also
 * where a mask by places is around it, or SUM_PRODUCT; else NONE. */
static int term_of(const graph *g, node_id x) {
    const op_set views = movements & ~((op_set)1 << OP_EXPAND | (op_set)1 << OP_WINDOW);
    for (int i = 0; i < MOST_VIEWS && views >> g->node[x].op & 1; i++) x = g->node[x].src[0];
    if (rule_sees(g, x, OP_SUM_PRODUCT)) return OP_SUM_PRODUCT;
    if (rule_sees(g, x, OP_WHERE) && rule_of_places(g, g->node[x].src[0], 8)) x = g->node[x].src[1];
    bool term =
        rule_sees(g, x, OP_MUL) && repeats(g, g->node[x].src[0]) && repeats(g, g->node[x].src[1]);
    return term ? OP_MUL : OP_NONE;
}

bool grad_keep_apart(grad *c, node_id to, uint32_t place, node_id value) {
    op_set met = movements_below(c->g, to), sums = (op_set)1 << OP_EXPAND,
           windows = (op_set)1 << OP_WINDOW;
    if (!(met & (sums | windows))) return false;
    int term = term_of(c->g, value);
    if (term == OP_NONE || (term == OP_SUM_PRODUCT && !(met & windows))) return false;
    grad_part *part = arena_alloc(c->a, sizeof *part);
    *part = (grad_part){value, NULL};
    grad_parts *parts = &c->parts[place];
    *(parts->last ? &parts->last->next : &parts->first) = part;
    parts->last = part;
    return true;
}

node_id grad_unrounded(const graph *g, node_id x) {
    const graph_node *n = node_at(g, x);
    bool rounded = dtype_is_narrow(n->dtype) && n->op == OP_CAST;
    return rounded && node_at(g, n->src[0])->dtype == QN_F32 ? n->src[0] : x;
}

node_id grad_wide(graph *g, node_id x) {
    x = grad_unrounded(g, x);
    return dtype_is_narrow(node_at(g, x)->dtype) ? make_cast(g, x, QN_F32) : x;
}

node_id grad_plus(graph *g, node_id sum, node_id value) {
    return sum ? make2(g, OP_ADD, grad_wide(g, sum), grad_wide(g, value)) : value;
}

void grad_include(grad *c, node_id *sum, node_id value) {
    *sum = grad_plus(c->g, *sum, value);
}

node_id grad_whole(grad *c, uint32_t place) {
    node_id sum = grad_total(c, place);
    for (const grad_part *part = c->parts[place].first; part; part = part->next)
        grad_include(c, &sum, part->value);
    return grad_rounded(c, place, sum);
}

node_id grad_rounded(const grad *c, uint32_t place, node_id sum) {
    int dtype = c->g->node[c->order[place]].dtype;
    bool wide = sum && dtype_is_narrow(dtype) && c->g->node[sum].dtype == QN_F32;
    return wide ? make_cast(c->g, sum, (qn_dtype)dtype) : sum;
}
