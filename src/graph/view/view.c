/* view.c - which tensor's places a tensor shows.
 *
 * A view is a chain of slices, reshapes, permutations and flips: each of its elements is one place
 * of what it is made of. Reading any node of the chain gives that one memory of its own, but what
 * is in it is a copy: the tensor is the one at the far end of the chain. So the chain is followed
 * past what was read on the way, and what an assignment does does not depend on reads. Only where
 * no handle names what is farther does one that was read take its place.
 *
 * Expansions, padding and windows end a chain, for an element of theirs is several places or none;
 * so do operations. What was read of them is a value of its own.
 *
 * Nodes of equal value are one, so the chain's end may be held by several tensors. Each view's
 * handle therefore knows which tensor it was taken of, and that one is written, or nothing.
 *
 * Cutting history (history.c) makes what was read a leaf. It then does not know any more what it is
 * a view of, but that it was one is kept, so that an assignment can be refused. */
#include "graph/view/view.h"

#define ALL UINT32_MAX

typedef bool (*handle_test)(const tensor *other, const tensor *t, uint32_t number);

/* Of all living tensors, the oldest that is so for t and a number. Slow: it looks at each, until it
 * has seen `most` of those that are so. */
static tensor *oldest_that(const qn_ctx *qn, handle_test is_so, const tensor *t, uint32_t number,
                           uint32_t most) {
    tensor *oldest = NULL;
    for (handle_block *b = qn->handles.block; b && most; b = b->next)
        for (int i = 0; i < HANDLES_A_BLOCK && most; i++) {
            tensor *other = (tensor *)&b->slot[i].handle;
            if (other->h.kind != HANDLE_TENSOR || !is_so(other, t, number)) continue;
            if (!oldest || other->number < oldest->number) oldest = other;
            most--;
        }
    return oldest;
}

static bool has_node(const tensor *other, const tensor *t, uint32_t n) {
    (void)t;
    return other->node == n;
}

static bool has_variable(const tensor *other, const tensor *t, uint32_t variable) {
    (void)t;
    return other->variable == variable;
}

tensor *graph_handle_of(const graph *g, node_id n) {
    const uint32_t holders = node_at(g, n)->holders;
    return oldest_that(g->ctx, has_node, NULL, n, holders < HOLDERS_MANY ? holders : ALL);
}

/* Has a tensor that was assigned to, by its number, still a handle? */
static bool variable_lives(const graph *g, uint32_t variable) {
    if (!variable || variable == VARIABLE_SHARED) return variable;
    return oldest_that(g->ctx, has_variable, NULL, variable, ALL) != NULL;
}

uint32_t variable_since(const graph *g, uint32_t variable) {
    const tensor *t = oldest_that(g->ctx, has_variable, NULL, variable, ALL);
    return t ? t->h.since : 0;
}

void tensors_are_old(const graph *g) {
    for (handle_block *b = g->ctx->handles.block; b; b = b->next)
        for (int i = 0; i < HANDLES_A_BLOCK; i++)
            if (b->slot[i].handle.kind == HANDLE_TENSOR) b->slot[i].handle.since = 0;
}

static bool is_step(const graph_node *x) {
    return x->sources && op_rows[x->op].class_ == CLASS_MOVE && x->op != OP_EXPAND &&
           x->op != OP_PAD && x->op != OP_WINDOW;
}

/* ---- by handles ----------------------------------------------------------------------------- */

/* The low half of a tensor's number tells it among those that were made before its view. */
static uint32_t mark_of(const tensor *t) {
    return (uint32_t)t->number + 1;
}

void view_made_of(tensor *t, const tensor *of) {
    t->h.of = of->h.of ? of->h.of : mark_of(of);
}

static bool is_base(const tensor *other, const tensor *t, uint32_t n) {
    (void)n;
    return mark_of(other) == t->h.of && other->number < t->number;
}

/* The base, or a view of it that was there before. */
static bool shows_the_same(const tensor *other, const tensor *t, uint32_t n) {
    return other->node == n && (is_base(other, t, n) || (other->h.of == t->h.of && other != t));
}

/* The tensor whose value is node n, on the way from t, whose base is this or gone. */
static tensor *named_by(tensor *t, const tensor *base, node_id n) {
    if (!t->h.of) return t;
    if (n == t->node) return base && base->node == n ? (tensor *)base : t;
    return oldest_that(t->h.ctx, shows_the_same, t, n, ALL);
}

static view_found look(tensor *t, const tensor *base, node_id n, tensor **named) {
    const graph *g = t->h.ctx->graph;
    const graph_node *x = node_at(g, n);
    bool whole = n == t->node || (base && base->node == n);
    if (!view_is_value(x) && !(whole && view_is_made(x))) return VIEW_OF_NONE;
    if (view_was_cut(x)) return VIEW_CUT;
    *named = x->holders || n == t->node ? named_by(t, base, n) : NULL;
    if (*named) return VIEW_OF;
    return variable_lives(g, x->variable) ? VIEW_OLDER : VIEW_ORPHAN;
}

view_found view_owner(tensor *t, tensor **owner, node_id *end) {
    const graph *g = t->h.ctx->graph;
    const tensor *base = t->h.of ? oldest_that(t->h.ctx, is_base, t, 0, ALL) : NULL;
    view_found last = VIEW_OF_NONE;
    *owner = NULL;
    *end = t->node;
    if (!t->h.of && is_step(node_at(g, t->node))) {
        *owner = view_is_value(node_at(g, t->node)) ? t : NULL;
        return *owner ? VIEW_OF : VIEW_EQUAL;
    }
    for (node_id n = t->node;; n = node_at(g, n)->src[0]) {
        tensor *named = NULL;
        view_found found = look(t, base, n, &named);
        bool orphan = found == VIEW_ORPHAN && *owner;
        if (found != VIEW_OF_NONE && !orphan) last = found, *owner = named;
        *end = n;
        if (*owner == base && base) return last;
        if (!is_step(node_at(g, n))) break;
    }
    if (last != VIEW_OF || !base) return last;
    *owner = NULL;
    return base->variable ? VIEW_OLDER : VIEW_THROUGH;
}

bool view_of_tensor(const graph *g, const graph_node *n) {
    while (is_step(n)) {
        n = node_at(g, n->src[0]);
        if (n->holders || n->variable) return true;
        if (view_was_cut(n)) return true;
    }
    return false;
}
