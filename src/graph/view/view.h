/* view.h - which tensor's places a tensor shows. */
#ifndef QN_VIEW_H
#define QN_VIEW_H

#include "graph/graph.h"

/* In `bits` of a BUFFER: history was cut behind it, and it was a view of a tensor then. */
#define CUT_VIEW ((uint64_t)1 << 63)
static inline bool view_was_cut(const graph_node *x) {
    return x->op == OP_BUFFER && (x->bits & CUT_VIEW);
}
/* Can it be assigned to, as something that lies in memory, or as a first value made of no data? */
static inline bool view_is_value(const graph_node *x) {
    return node_is_memory(x) || x->given_up || (x->op == OP_DETACH && x->bits);
}
static inline bool view_is_made(const graph_node *x) {
    return op_rows[x->op].class_ == CLASS_LEAF || !(x->flags & NODE_DATA);
}

/* t was made of `of` by a slice, a reshape, a permutation or a flip, even one that does nothing: it
 * shows places of what that one shows or is. By handles, for nodes are shared: what has the same
 * value as a variable is not that variable. */
void view_made_of(tensor *t, const tensor *of);

tensor *graph_handle_of(const graph *g, node_id n); /* the oldest live one of n, or NULL; slow */
/* When the first value of the tensor of that number was born, 0 where nobody knows; slow, too. */
uint32_t variable_since(const graph *g, uint32_t variable);
/* Nobody knows that any more of any. */
void tensors_are_old(const graph *g);

typedef enum view_found {
    VIEW_OF_NONE, /* of no value that could be assigned to */
    VIEW_OF,      /* of *owner, */
    VIEW_OLDER,   /* or of what a tensor was before it was assigned to, */
    VIEW_ORPHAN,  /* or of what no tensor is any more: it was released */
    VIEW_CUT,     /* history that was cut knew of what */
    VIEW_EQUAL,   /* none, but the value of one, as what it is times 1 */
    VIEW_THROUGH  /* of one that rules see through, such as a constant: its nodes are others' */
} view_found;
/* The tensor that t is a view of, into *owner, else NULL: t itself where it is none. *end is where
 * the way of views ends. */
view_found view_owner(tensor *t, tensor **owner, node_id *end);
/* Does n show places of what somebody has, or assigned to since? */
bool view_of_tensor(const graph *g, const graph_node *n);

#endif
