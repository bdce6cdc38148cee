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
 * Cutting history (history.c) makes what was read a leaf. It then does not know any more what it is
 * a view of, but that it was one is kept, so that an assignment can be refused. */
#include "graph/view/view.h"

tensor *graph_handle_of(const graph *g, node_id n) {
    tensor *oldest = NULL;
    for (handle_block *b = g->ctx->handles.block; b; b = b->next)
        for (int i = 0; i < HANDLES_A_BLOCK; i++) {
            tensor *t = (tensor *)&b->slot[i].handle;
            if (t->h.kind != HANDLE_TENSOR || t->node != n) continue;
            if (!oldest || t->number < oldest->number) oldest = t;
        }
    return oldest;
}

/* Has a tensor that was assigned to, by its number, still a handle? Slow. */
static bool variable_lives(const graph *g, uint32_t variable) {
    if (!variable || variable == VARIABLE_SHARED) return variable;
    for (const handle_block *b = g->ctx->handles.block; b; b = b->next)
        for (int i = 0; i < HANDLES_A_BLOCK; i++) {
            const tensor *t = (const tensor *)&b->slot[i].handle;
            if (t->h.kind == HANDLE_TENSOR && t->variable == variable) return true;
        }
    return false;
}

static bool is_step(const graph_node *x) {
    return x->sources && op_rows[x->op].class_ == CLASS_MOVE && x->op != OP_EXPAND &&
           x->op != OP_PAD && x->op != OP_WINDOW;
}

/* Whose value is node n, on the way from t? */
static view_found look(tensor *t, node_id n, tensor **named) {
    const graph *g = t->h.ctx->graph;
    const graph_node *x = node_at(g, n);
    if (!view_is_value(x) && !(n == t->node && view_is_made(x))) return VIEW_OF_NONE;
    if (view_was_cut(x)) return VIEW_CUT;
    *named = n == t->node ? t : x->holders ? graph_handle_of(g, n) : NULL;
    if (*named) return VIEW_OF;
    return variable_lives(g, x->variable) ? VIEW_OLDER : VIEW_ORPHAN;
}

view_found view_owner(tensor *t, tensor **owner, node_id *end) {
    const graph *g = t->h.ctx->graph;
    view_found last = VIEW_OF_NONE;
    *owner = NULL;
    for (node_id n = t->node;; n = node_at(g, n)->src[0]) {
        tensor *named = NULL;
        view_found found = look(t, n, &named);
        bool orphan = found == VIEW_ORPHAN && *owner;
        if (found != VIEW_OF_NONE && !orphan) last = found, *owner = named;
        *end = n;
        if (!is_step(node_at(g, n))) return last;
    }
}

bool view_of_tensor(const graph *g, const graph_node *n) {
    while (is_step(n)) {
        n = node_at(g, n->src[0]);
        if (n->holders || n->variable) return true;
        if (view_was_cut(n)) return true;
    }
    return false;
}
