/* loop.c - loops as nodes: a body that is a graph of its own, and how often it runs.
 *
 * A body is recorded once, on ARGUMENTs: leaves that have a value in each trip only. Closed, it is
 * made of nothing but arguments and constants, all numbered by what they are to the loop. So two
 * recordings of the same body are the same nodes, by hash-consing, and loops of equal bodies over
 * equal sources are one loop. Checkpoints and gradients that are given are new nodes each time.
 *
 *     LIST    s0, x, w                   first states, sequences, what is captured
 *     LOOP    of the list; keeps the list of the states behind a trip
 *     RESULT  of the loop: a state at its end; or, keeping it, any value of the body in each trip
 *
 * A body is kept, and is no source: it has no value outside of a trip, so orders, needs and
 * gradients do not come by it. Which of a body's values are wanted is no part of the loop, but a
 * matter of the results that are there; so a gradient that wants more of them makes results of the
 * same loop, and a plan runs it once for all.
 *
 * LIST and LOOP have no value. They are scalars of f32 to whoever asks, so that gradients pass. */
#include "graph/loop/loop.h"
#include "graph/graph.h"

node_id make_loop_argument(graph *g, int kind, uint64_t number, qn_dtype dtype, tuple_id shape) {
    const node_form form = {OP_ARGUMENT, dtype, shape, 0, (uint64_t)kind << 56 | number};
    node_id made = node_make(g, form, 0, NULL);
    g->examples += kind == ARGUMENT_EXAMPLE && g->node[made].op == OP_ARGUMENT;
    return made;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static node_id list_of(graph *g, int n, const node_id *x) {
    return node_make(g, (node_form){OP_LIST, QN_F32, 0, 0, 0}, n, x);
}

/* From the end: the last list has up to three values, each before it two and the list behind. */
node_id make_list(graph *g, arena *a, uint32_t n, const node_id *x) {
    (void)a;
    uint32_t rest = n <= 3 ? n : n % 2 ? 3 : 2;
    node_id list = list_of(g, (int)rest, x + (n - rest));
    for (uint32_t at = n - rest; at; at -= 2)
        list = list_of(g, 3, (const node_id[]){x[at - 2], x[at - 1], list});
    return list;
}

uint32_t list_values(const graph *g, arena *a, node_id list, node_id **out) {
    uint32_t n = 0, cap = 0;
    node_id *value = arena_grow(a, NULL, &cap, 4, sizeof *value);
    while (list) {
        const graph_node *x = &g->node[list];
        list = 0;
        for (int i = 0; i < x->sources; i++) {
            if (g->node[x->src[i]].op == OP_LIST) {
                list = x->src[i];
                break;
            }
            value = arena_grow(a, value, &cap, n + 1, sizeof *value);
            value[n++] = x->src[i];
        }
    }
    *out = value;
    return n;
}

/* ---- loops and their results ----------------------------------------------------------------- */

enum { LOOP_REVERSE = 1, LOOP_LIMITED = 2, LOOP_TESTED = 4, LOOP_FRUGAL = 8 };

node_id make_loop(graph *g, const loop_attr *l, node_id inputs, node_id nexts) {
    int64_t how = (l->reverse ? LOOP_REVERSE : 0) | (l->limited ? LOOP_LIMITED : 0) |
                  (l->tested ? LOOP_TESTED : 0) | (l->frugal ? LOOP_FRUGAL : 0);
    const int64_t attr[5] = {l->count, l->states, l->sequences, l->captures, how};
    return node_make_loop(g, (node_form){OP_LOOP, QN_F32, 0, graph_tuple(g, 5, attr), 0}, inputs,
                          nexts);
}

loop_attr node_loop(const graph *g, const graph_node *n) {
    int count;
    const int64_t *attr = graph_tuple_get(g, n->attr, &count);
    return (loop_attr){.count = (sym)attr[0],
                       .states = (uint32_t)attr[1],
                       .sequences = (uint32_t)attr[2],
                       .captures = (uint32_t)attr[3],
                       .reverse = (attr[4] & LOOP_REVERSE) != 0,
                       .limited = (attr[4] & LOOP_LIMITED) != 0,
                       .tested = (attr[4] & LOOP_TESTED) != 0,
                       .frugal = (attr[4] & LOOP_FRUGAL) != 0};
}

static tuple_id result_attr(graph *g, int what, uint32_t number) {
    return graph_tuple(g, 2, (const int64_t[]){what, number});
}

node_id make_final(graph *g, node_id loop, uint32_t number, qn_dtype dtype, tuple_id shape) {
    return node_make_loop(
        g, (node_form){OP_RESULT, dtype, shape, result_attr(g, RESULT_FINAL, number), 0}, loop, 0);
}

tuple_id stacked_shape(graph *g, sym count, tuple_id shape) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    int64_t v[QN_MAX_RANK + 1] = {count};
    for (int i = 0; i < rank; i++) v[i + 1] = dims[i];
    return graph_tuple(g, rank + 1, v);
}

node_id make_stack(graph *g, node_id loop, node_id body) {
    const graph_node x = g->node[body];
    loop_attr l = node_loop(g, &g->node[loop]);
    const node_form form = {OP_RESULT, (qn_dtype)x.dtype, stacked_shape(g, l.count, x.shape),
                            result_attr(g, RESULT_STACK, 0), 0};
    return node_make_loop(g, form, loop, body);
}

node_id make_trips(graph *g, node_id loop) {
    return node_make_loop(g, (node_form){OP_RESULT, QN_I64, 0, result_attr(g, RESULT_TRIPS, 0), 0},
                          loop, 0);
}

int node_result(const graph *g, const graph_node *n, uint32_t *number) {
    int count;
    const int64_t *attr = graph_tuple_get(g, n->attr, &count);
    *number = (uint32_t)attr[1];
    return (int)attr[0];
}

node_id make_again(graph *g, const graph_node *x, const node_id *src) {
    const graph_node n = *x; /* nodes move when one is made */
    bool same = true;
    for (int i = 0; i < node_links(&n); i++) same &= src[i] == n.src[i];
    if (same) return (node_id)(x - g->node);
    if (n.op == OP_STAND_IN && n.src[1]) return node_stand_in(g, src[0], src[1]);
    if (n.op == OP_CUSTOM && n.src[1]) return node_custom(g, src[0], src[1], src[2]);
    const node_form form = {n.op, (qn_dtype)n.dtype, n.shape, n.attr, n.bits};
    if (n.op == OP_LOOP || n.op == OP_RESULT) return node_make_loop(g, form, src[0], node_body(&n));
    return node_make(g, form, n.sources, src);
}
