/* cut.c - what to keep of a computation, so that what is wanted of it can be computed again.
 *
 * Some values must be kept or be made of what is kept: between those that only their own kind of
 * work can make (products, sums, a state) and those that are wanted later lie others that cost
 * little to compute again. To keep of them the least memory is the minimal cut of a network: a node
 * of the capacity of its bytes, what cannot be made again at the source, what is wanted at the
 * sink. By Ford and Fulkerson the cut is where no more can flow, and the paths are found by breadth
 * (Edmonds and Karp). Of several minimal cuts it is the one next to the sink, so that as little as
 * can be is computed again. */
#include "grad/grad.h"

enum { MOST_PATHS = 4096 }; /* beyond that, what cannot be made again is kept itself */

typedef struct arc {
    uint32_t to, next; /* next: of the same vertex, plus one */
    uint64_t room;     /* the arc back is its neighbour */
} arc;

/* Node i is the arc from vertex 2 i to 2 i + 1. */
typedef struct network {
    arena *a;
    arc *arc;
    uint32_t arcs, arc_cap, vertices;
    uint32_t *first, *by, *queue; /* first arc plus one; the arc by which it was reached plus one */
} network;

static void add_arc(network *w, uint32_t from, uint32_t to, uint64_t room) {
    w->arc = arena_grow(w->a, w->arc, &w->arc_cap, w->arcs + 2, sizeof *w->arc);
    w->arc[w->arcs] = (arc){to, w->first[from], room};
    w->first[from] = ++w->arcs;
    w->arc[w->arcs] = (arc){from, w->first[to], 0};
    w->first[to] = ++w->arcs;
}

/* Vertices that are reached from `from`, or that reach it, where there is room. */
static void reach(network *w, uint32_t from, bool back) {
    uint32_t n = 0;
    memset(w->by, 0, w->vertices * sizeof *w->by);
    w->by[from] = UINT32_MAX;
    w->queue[n++] = from;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = w->first[w->queue[i]]; e; e = w->arc[e - 1].next) {
            const arc *x = &w->arc[e - 1];
            if (w->by[x->to] || !w->arc[back ? (e - 1) ^ 1 : e - 1].room) continue;
            w->by[x->to] = e;
            w->queue[n++] = x->to;
        }
}

/* As much more as one path takes. */
static bool augment(network *w, uint32_t source, uint32_t sink) {
    uint64_t room = UINT64_MAX;
    reach(w, source, false);
    if (!w->by[sink]) return false;
    for (uint32_t v = sink; v != source; v = w->arc[(w->by[v] - 1) ^ 1].to)
        if (w->arc[w->by[v] - 1].room < room) room = w->arc[w->by[v] - 1].room;
    for (uint32_t v = sink; v != source; v = w->arc[(w->by[v] - 1) ^ 1].to) {
        w->arc[w->by[v] - 1].room -= room;
        w->arc[(w->by[v] - 1) ^ 1].room += room;
    }
    return true;
}

static void build(network *w, const grad_cut *c) {
    uint32_t source = 2 * c->nodes, sink = source + 1;
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (!c->size[i]) continue;
        add_arc(w, 2 * i, 2 * i + 1, c->size[i]);
        if (c->given[i]) add_arc(w, source, 2 * i, CUT_NEVER);
        if (c->wanted[i]) add_arc(w, 2 * i + 1, sink, CUT_NEVER);
    }
    for (uint32_t e = 0; e < c->uses; e++)
        if (c->size[c->use[e].from] && c->size[c->use[e].to])
            add_arc(w, 2 * c->use[e].from + 1, 2 * c->use[e].to, CUT_NEVER);
}

void grad_find_cut(arena *a, grad_cut *c) {
    uint32_t sink = 2 * c->nodes + 1, paths = 0;
    network w = {.a = a, .vertices = sink + 1};
    w.first = arena_zeroed(a, w.vertices * sizeof *w.first);
    w.by = arena_alloc(a, w.vertices * sizeof *w.by);
    w.queue = arena_alloc(a, w.vertices * sizeof *w.queue);
    build(&w, c);
    while (paths < MOST_PATHS && augment(&w, sink - 1, sink)) paths++;
    if (paths < MOST_PATHS) reach(&w, sink, true);
    for (uint32_t i = 0; i < c->nodes; i++)
        c->cut[i] = paths == MOST_PATHS ? c->given[i] : !w.by[2 * i] && w.by[2 * i + 1];
}
