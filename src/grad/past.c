/* past.c - is an expression still between y and what it is made of?
 *
 * A gradient by an expression x follows y's nodes down to x's node. But rules make nodes simpler
 * when they are made: the reshape of a reshape is made of the first one's source, the sum of a
 * product is a node of the factors. What y is made of then goes past x, and the walk that meets x
 * on some ways or none would give another number than the derivative. So a rule marks the
 * expressions that it went past (node_make). One that is an x is an error, with a remedy, where y
 * also reaches what x is made of without x, or x not at all: there is no telling the two uses
 * apart. Of a movement always: what was made past it may be it again, as pieces that are equal and
 * change places, or a constant, as a slice of nothing but padding. So of what is made of constants
 * alone, below which there is nothing to tell by. A loop's body goes past all that is made again
 * inside of it (graph/loop/close.c). */
#include "grad/grad.h"

/* What x is made of, as far as gradients flow: 1 in `below`. Is it anything? */
static bool mark_below(const graph *g, arena *a, node_id x, uint8_t *below) {
    node_id *stack = arena_alloc(a, (size_t)g->nodes * sizeof *stack);
    uint32_t depth = 0;
    bool any = false;
    stack[depth++] = x;
    while (depth) {
        const graph_node *n = &g->node[stack[--depth]];
        for (int i = 0; i < node_links(n); i++) {
            const graph_node *s = &g->node[n->src[i]];
            if (!grad_goes(n, i) || below[n->src[i]] || !dtype_is_float(s->dtype)) continue;
            if (s->op == OP_CONST || s->op == OP_IOTA) continue;
            below[n->src[i]] = any = true;
            stack[depth++] = n->src[i];
        }
    }
    return any;
}

/* Is all that the y use of what x is made of by way of x, and something? */
static bool only_by_way(const graph *g, arena *a, const grad_request *r, node_id x,
                        const uint8_t *below) {
    node_id *stack = arena_alloc(a, (size_t)g->nodes * sizeof *stack);
    bool *seen = arena_zeroed(a, g->nodes), met = false;
    uint32_t depth = 0;
    for (int i = 0; i < r->ys; i++) {
        if (!seen[r->y[i]]) stack[depth++] = r->y[i];
        seen[r->y[i]] = true;
    }
    while (depth) {
        node_id id = stack[--depth];
        const graph_node *n = &g->node[id];
        if (below[id]) return false;
        met |= id == x;
        for (int i = 0; i < node_links(n) && id != x; i++) {
            if (!grad_goes(n, i) || seen[n->src[i]] || !dtype_is_float(g->node[n->src[i]].dtype))
                continue;
            seen[n->src[i]] = true;
            stack[depth++] = n->src[i];
        }
    }
    return met;
}

bool grad_check_past(const grad *c, const grad_request *r) {
    const graph *g = c->g;
    for (int i = 0; i < r->xs; i++) {
        const graph_node *node = &g->node[r->x[i]];
        if (!node->passed) continue;
        uint8_t *below = arena_zeroed(c->a, g->nodes);
        bool any = mark_below(g, c->a, r->x[i], below);
        const op_class kind = (op_class)op_rows[node->op].class_;
        bool moved = kind == CLASS_MOVE || kind == CLASS_JOIN;
        if (!moved && any && only_by_way(g, c->a, r, r->x[i], below)) continue;
        const char *name = op_rows[node->op].name;
        fail(
            g->ctx, QN_EGRAPH,
            "%s: what y is made of was made past x %d, a %s, of what that is made of, since such "
            "expressions are put together; record x as qn_contiguous(%s(..)), or take the gradient "
            "by what it is made of",
            c->call, i, name, name);
        return false;
    }
    return true;
}
