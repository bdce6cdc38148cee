/* loop.h - loops as nodes of the graph, and one node or graph for many trips or examples at once.
 * The rest of the room is in graph.h. */
#ifndef QUERN_GRAPH_LOOP_H
#define QUERN_GRAPH_LOOP_H

#include "graph/graph.h"

/* ---- loop/loop.c: loops as nodes ------------------------------------------------------------- */

/* What an ARGUMENT is to the body that it belongs to. Those of a body that is being recorded are
 * OPEN, and each has a number of its own; of a closed one they are counted by kind, so that equal
 * bodies are the same nodes. SEED: a gradient, while that of a body is made. EXAMPLE: no loop's,
 * but one example of many: see batch/examples.c. */
enum {
    ARGUMENT_OPEN,
    ARGUMENT_STATE,
    ARGUMENT_SLICE,
    ARGUMENT_CAPTURE,
    ARGUMENT_SEED,
    ARGUMENT_EXAMPLE
};
node_id make_loop_argument(graph *g, int kind, uint64_t number, qn_dtype dtype, tuple_id shape);
static inline int argument_kind(const graph_node *x) {
    return (int)(x->bits >> 56);
}
static inline uint32_t argument_number(const graph_node *x) {
    return (uint32_t)x->bits;
}
/* A LOOP's sources, in its list, are the first states, then the sequences, of which each trip sees
 * a slice along axis 0, then what the body captures, and where there are such the most trips as a
 * scalar (`limited`) and whether there is to be a first one (`tested`). What it keeps of its body
 * is the list of the states behind a trip, and where it is tested whether there is to be another
 * one. `frugal`: gradients recompute all that is not a state. */
typedef struct loop_attr {
    sym count; /* trips, at most */
    uint32_t states, sequences, captures;
    bool reverse, limited, tested, frugal; /* reverse: from the sequences' last row to the first */
} loop_attr;
node_id make_list(graph *g, arena *a, uint32_t n, const node_id *x);
uint32_t list_values(const graph *g, arena *a, node_id list, node_id **out); /* raises */
node_id make_loop(graph *g, const loop_attr *l, node_id inputs, node_id nexts);
loop_attr node_loop(const graph *g, const graph_node *n);
/* Results: state `number` at the end; a value of the body in each trip, zeros in trips that were
 * not made; the number of trips, in i64. */
enum { RESULT_FINAL, RESULT_STACK, RESULT_TRIPS };
node_id make_final(graph *g, node_id loop, uint32_t number, qn_dtype dtype, tuple_id shape);
node_id make_stack(graph *g, node_id loop, node_id body);
node_id make_trips(graph *g, node_id loop);
static inline bool node_is_result(const graph_node *n) {
    return n->op == OP_RESULT && !(n->flags & NODE_REALIZED);
}
int node_result(const graph *g, const graph_node *n, uint32_t *number); /* which of these it is */
tuple_id stacked_shape(graph *g, sym count, tuple_id shape);
/* A node again, of other sources. */
node_id make_again(graph *g, const graph_node *x, const node_id *src);

/* ---- loop/close.c: from what was recorded to a loop ------------------------------------------ */

enum { LOOP_STACKED, LOOP_SUMMED };
/* A recorded body: its arguments, which are OPEN, what they are at first or slices of, and what
 * became of them. All arrays are the caller's; `final` and `result` are filled in. */
typedef struct loop_record {
    loop_attr attr; /* states and captures are found */
    uint32_t states, slices, outs;
    const node_id *state, *init, *next;
    const node_id *slice, *sequence;
    const node_id *out;
    const uint8_t *how;  /* of each: every trip's, or their sum; NULL: every trip's */
    node_id limit, test; /* 0: none; test: of the states as they are before a trip */
    /* What is younger is computed in a trip, also what is the same in each: a loop of one trip at
     * most is a branch. 0: nothing. */
    uint32_t born;
    uint32_t before;         /* gradients may be taken by floats that are not younger */
    node_id *final, *result; /* by state, by out */
    node_id loop;
    bool named; /* gradients may be taken by the outputs */
    bool apart; /* outputs that follow no state are made outside of the loop */
} loop_record;
void loop_close(graph *g, arena *a, loop_record *r);       /* raises */
void loop_close_whole(graph *g, arena *a, loop_record *r); /* as one loop; raises */

/* ---- loop/given.c: gradients that are given in a body ---------------------------------------- */

/* By place in the traversal before: what is made of what will have come to the results of one, and
 * those results. */
typedef struct loop_given {
    bool *follows, *results;
} loop_given;
loop_given loop_find_given(const graph *g, arena *a, uint32_t nodes, const node_id *order);

/* ---- loop/distribute.c: a record as several loops, one after the other ----------------------- */

/* false: there is nothing to gain. */
bool loop_distribute(graph *g, arena *a, loop_record *r); /* raises */

/* ---- batch/node.c: one node for many trips, or examples, at once ----------------------------- */

/* May x be computed for all trips at once, of such values of its sources? */
bool batch_takes(const graph *g, const graph_node *x);
/* x for `count` trips, of its sources for as many. */
node_id batch_node(graph *g, const graph_node *x, sym count, const node_id *src);
/* A value that is the same in each trip. */
node_id batch_same(graph *g, node_id x, sym count);
/* A sum x, or a sum of products, over all trips, too. */
node_id batch_sum(graph *g, const graph_node *x, const node_id *src);

/* ---- batch/examples.c: a graph for many examples at once ------------------------------------- */

/* A graph of one example for `count` of them. */
typedef struct batching {
    sym count;
    int n, roots;
    const node_id *from, *to; /* arguments; and their values, which have an axis more, in front */
    const node_id *root;
    node_id *out; /* each root with such an axis, or 0: it is the same for all examples */
} batching;
void graph_batch(graph *g, arena *a, const batching *b); /* traversals; raises */
/* What becomes of a node that follows the examples, by its operation. */
typedef struct batch_walk batch_walk;
typedef node_id batch_rule(batch_walk *w, uint32_t place);
extern batch_rule *const batch_rules[OP_COUNT];

#endif
