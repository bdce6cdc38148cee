/* replace.c - a graph made anew with other nodes in the places of some.
 *
 * What depends on a node that is replaced is made again, of what its sources became, by the rules
 * and hash-consing that any node goes through; all else stays. The walk goes through history, for a
 * value that was computed is a function of its sources still. It ends at what is older than
 * everything that is replaced, and at versions: what was assigned is a number. */
#include "graph/graph.h"
#include "graph/loop/loop.h"

typedef struct replace {
    graph *g;
    const replacing *r;
    uint32_t count;
    node_id *order, *now; /* by place: what the node became */
} replace;

static node_id now_of(const replace *w, node_id n) {
    uint32_t mark = w->g->node[n].mark, base = w->g->mark_base;
    return mark >= base && mark - base < w->count ? w->now[mark - base] : n;
}

static node_id given_for(const replacing *r, node_id n) {
    for (int i = 0; i < r->n; i++)
        if (r->from[i] == n) return r->to[i];
    return 0;
}

static node_id made_anew(const replace *w, node_id id) {
    graph *g = w->g;
    const graph_node x = *node_at(g, id);
    node_id src[3] = {0};
    bool same = true, version = x.op == OP_DETACH && x.bits;
    for (int i = 0; i < node_links(&x); i++) {
        src[i] = now_of(w, x.src[i]);
        same &= src[i] == x.src[i];
    }
    if (same || version) return id;
    return make_again(g, &x, src);
}

void graph_replace(graph *g, arena *a, const replacing *r) {
    replace w = {.g = g, .r = r};
    uint32_t born = UINT32_MAX;
    for (int i = 0; i < r->n; i++)
        if (g->node[r->from[i]].born < born) born = g->node[r->from[i]].born;
    uint32_t n = graph_order_history(g, a, r->roots, r->root, born, &w.order);
    w.now = arena_alloc(a, ((size_t)n + 1) * sizeof *w.now);
    for (; w.count < n; w.count++) {
        node_id id = w.order[w.count], given = given_for(r, id);
        w.now[w.count] = given ? given : made_anew(&w, id);
    }
    for (int i = 0; i < r->roots; i++) r->out[i] = now_of(&w, r->root[i]);
}
