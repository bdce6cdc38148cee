/* order.c - the nodes below some roots, sources before users.
 *
 * A depth-first walk with a stack of its own, so that a graph may be as deep as memory allows. The
 * order depends only on the roots and on each node's sources, or links where those are asked for,
 * never on ids: the same computation recorded twice is walked alike, which is what plans are found
 * again by. */
#include "graph/graph.h"

typedef struct order_entry {
    node_id node;
    uint32_t next; /* source to look at next */
} order_entry;

typedef struct order {
    graph *g;
    arena *a;
    bool history;  /* go on below realized nodes */
    bool kept;     /* but not below values that are kept */
    bool links;    /* by all links, too */
    uint32_t born; /* but not below what is older */
    uint32_t base, count, cap, depth, depth_cap;
    node_id *out;
    order_entry *stack;
} order;

static bool order_seen(const order *o, node_id n) {
    return o->g->node[n].mark >= o->base;
}

/* Until its place is known a node has the mark one past every place. */
static void order_push(order *o, node_id n) {
    if (o->depth == o->depth_cap)
        o->stack = arena_grow(o->a, o->stack, &o->depth_cap, o->depth + 1, sizeof *o->stack);
    o->g->node[n].mark = o->base + o->g->nodes;
    o->stack[o->depth++] = (order_entry){.node = n};
}

static void order_place(order *o, node_id n) {
    if (o->count == o->cap)
        o->out = arena_grow(o->a, o->out, &o->cap, o->count + 1, sizeof *o->out);
    o->g->node[n].mark = o->base + o->count;
    o->out[o->count++] = n;
}

static void order_walk(order *o) {
    while (o->depth) {
        order_entry *top = &o->stack[o->depth - 1];
        const graph_node *n = &o->g->node[top->node];
        bool leaf =
            o->history ? n->born < o->born : (n->flags & NODE_REALIZED) || (o->kept && n->buffer);
        uint32_t sources = o->history || o->links ? (uint32_t)node_links(n) : n->sources;
        if (!leaf && top->next < sources) {
            node_id source = n->src[top->next++];
            if (!order_seen(o, source)) order_push(o, source);
        } else {
            order_place(o, top->node);
            o->depth--;
        }
    }
}

/* QN_DEBUG=g: one line a node, "g   3 add f32[2, t] of 1, 2". Raises. */
void graph_log(graph *g, arena *a, uint32_t nodes, const node_id *node) {
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(g, node[i]);
        bool memory = (x->flags & NODE_REALIZED) != 0;
        str s;
        str_open_in(&s, a);
        str_addf(&s, "g %4u %s %s", i, op_rows[x->op].name, qn_dtype_name((qn_dtype)x->dtype));
        shape_text(g, x->shape, &s);
        for (int k = 0; k < x->sources && !memory; k++)
            str_addf(&s, "%s%u", k ? ", " : " of ", node_at(g, x->src[k])->mark - g->mark_base);
        if (memory) str_add(&s, ", computed");
        log_line(g->ctx, "%s", s.s);
    }
}

static uint32_t order_from(order o, int n, const node_id *roots, node_id **out) {
    o.base = graph_mark(o.g);
    for (int i = 0; i < n; i++) {
        if (order_seen(&o, roots[i])) continue;
        order_push(&o, roots[i]);
        order_walk(&o);
    }
    *out = o.out;
    return o.count;
}

uint32_t graph_order(graph *g, arena *a, int n, const node_id *roots, node_id **out) {
    return order_from((order){.g = g, .a = a}, n, roots, out);
}

uint32_t graph_order_links(graph *g, arena *a, int n, const node_id *roots, node_id **out) {
    return order_from((order){.g = g, .a = a, .links = true}, n, roots, out);
}

uint32_t graph_order_kept(graph *g, arena *a, int n, const node_id *roots, node_id **out) {
    return order_from((order){.g = g, .a = a, .kept = true}, n, roots, out);
}

uint32_t graph_order_history(graph *g, arena *a, int n, const node_id *roots, uint32_t born,
                             node_id **out) {
    return order_from((order){.g = g, .a = a, .history = true, .born = born}, n, roots, out);
}
