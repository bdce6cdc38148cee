/* node.c - the node store: hash-consing, reference counts.
 *
 * Making a node asks the rules first, then the hash-cons set, and only then takes a slot: a free
 * one through a list linked by src[0], else a new one at the array's end. There is no allocation
 * per node.
 *
 * Counts. A node's count is the number of nodes that use it plus what handles, plans and others
 * hold. A fresh node has none; it is on the list of loose nodes until graph_settle(), which every
 * constructor calls last, also when it was unwound, so that intermediate results nobody took do not
 * stay. When a count falls to zero the node leaves the set and joins a list of the dying, linked
 * through `next`; freeing a chain of a million nodes takes neither recursion nor memory. Whether a
 * value is needed is counted beside that, in history.c.
 *
 * Marks. A traversal gets numbers of its own from graph_mark(); a node's mark is either one of them
 * or stale. So nothing is ever cleared, also when a traversal is given up half-way, but for once in
 * 2^32 marks. */
#include "graph/graph.h"
#include "graph/loop/loop.h"
#include "graph/view/view.h"

/* ---- opening and closing -------------------------------------------------------------------- */

void graph_open(qn_ctx *qn) {
    heap *h = &qn->heap;
    graph *g = qn->graph = heap_zeroed(h, sizeof *g);
    g->ctx = qn;
    idset_open(&g->consed, h);
    str_open(&g->text, h);
    g->mark_base = g->mark_next = 1;
    rules_open(g);
    graph_tuples_open(g);
    g->syms = sym_open(h);
    g->node = heap_grow(h, NULL, &g->node_cap, 1, sizeof *g->node);
    g->node[g->nodes++] = (graph_node){.op = OP_NONE};
    tensor_open(g);
    graph_places_open(g);
}

/* Everything goes, whatever is still held; the device's buffers are the run room's to free. */
void graph_close(qn_ctx *qn) {
    graph *g = qn->graph;
    if (!g) return;
    heap *h = &qn->heap;
    customs_close(g);
    graph_tuples_close(g);
    tensor_close(g);
    sym_close(g->syms);
    idset_free(&g->consed);
    str_free(&g->text);
    graph_places_close(g);
    heap_free(h, g->node, g->node_cap * sizeof *g->node);
    heap_free(h, g->loose, g->loose_cap * sizeof *g->loose);
    heap_free(h, g->pending, g->pending_cap * sizeof(tensor *));
    heap_free(h, g->var, g->var_cap * sizeof *g->var);
    heap_free(h, g->bound, g->bound_cap * sizeof *g->bound);
    heap_free(h, g->spare, g->spare_cap * sizeof *g->spare);
    heap_free(h, g->dim, g->dim_cap * sizeof *g->dim);
    heap_free(h, g, sizeof *g);
    qn->graph = NULL;
}

/* ---- making --------------------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 uint128;

/* Two words to one; both halves of the product carry every bit. */
static inline uint64_t fold(uint64_t a, uint64_t b) {
    uint128 product = (uint128)(a ^ 0x6a09e667f3bcc909u) * (b ^ 0xbb67ae8584caa73bu);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Making a node is the commonest thing of all; hash_bytes() would take a fifth of its time. */
uint32_t node_hash(const graph_node *n) {
    uint64_t what = (uint64_t)n->op | (uint64_t)n->dtype << 8 | (uint64_t)n->shape << 32;
    uint64_t from =
        fold(n->src[0] | (uint64_t)n->src[1] << 32, n->src[2] | (uint64_t)n->attr << 32);
    uint64_t hash = fold(fold(what, n->bits), from);
    return (uint32_t)(hash ^ hash >> 32);
}

static bool node_same(const void *key, uint32_t id, const void *user) {
    const graph_node *a = key, *b = &((const graph *)user)->node[id];
    return a->op == b->op && a->dtype == b->dtype && a->sources == b->sources &&
           a->shape == b->shape && a->attr == b->attr && a->src[0] == b->src[0] &&
           a->src[1] == b->src[1] && a->src[2] == b->src[2] && a->bits == b->bits;
}

/* Room for one more node and its place among the loose; afterwards taking a slot cannot fail. */
static void node_reserve(graph *g) {
    heap *h = &g->ctx->heap;
    if (!g->free_node && g->nodes == g->node_cap)
        g->node = heap_grow(h, g->node, &g->node_cap, g->nodes + 1, sizeof *g->node);
    if (g->loose_count == g->loose_cap)
        g->loose = heap_grow(h, g->loose, &g->loose_cap, g->loose_count + 1, sizeof *g->loose);
}

static node_id node_next(const graph *g) {
    return g->free_node ? g->free_node : g->nodes;
}

static void everything_is_old(graph *g) {
    for (node_id id = 1; id < g->nodes; id++) g->node[id].born = 0;
    tensors_are_old(g);
    g->born = 1;
}

static bool tuple_varies(const graph *g, const graph_node *n, tuple_id tuple, bool attributes) {
    int count;
    const int64_t *v = graph_tuple_get(g, tuple, &count);
    for (int i = 0; i < count; i++)
        if ((!attributes || op_attr_is_size(n->op, i)) && !sym_is_const(g->syms, (sym)v[i], NULL))
            return true;
    return false;
}

/* A version takes its value once, and follows no variable then; its size may. A loop follows what
 * its body does, though that is no source. */
static bool node_varies(const graph *g, const graph_node *n) {
    if (!g->vars) return false;
    bool version = n->op == OP_DETACH && n->bits, varies = tuple_varies(g, n, n->shape, false);
    for (int i = 0; i < n->sources && !version; i++) varies |= g->node[n->src[i]].varies;
    varies |= g->node[node_body(n)].varies;
    return varies || (n->sources && tuple_varies(g, n, n->attr, true));
}

/* Put `n` into the slot node_next() named. A reused slot's mark is stale, as it should be. */
static node_id node_take(graph *g, const graph_node *n) {
    node_id id = node_next(g);
    if (g->free_node)
        g->free_node = g->node[id].src[0];
    else
        g->nodes++;
    if (++g->born == 0) everything_is_old(g);
    g->node[id] = *n;
    g->node[id].born = g->born;
    g->node[id].varies = node_varies(g, n);
    g->node[node_body(n)].refs++;
    for (int i = 0; i < node_links(n); i++) {
        graph_node *source = &g->node[n->src[i]];
        source->refs++;
        if (dtype_is_float(source->dtype)) g->node[id].flags |= source->flags & NODE_DATA;
    }
    g->loose[g->loose_count++] = id;
    g->live++;
    g->idle++;
    return id;
}

/* The node that there is already, or a new one. */
static node_id node_intern(graph *g, graph_node *node) {
    uint32_t hash = node_hash(node);
    node_id same = idset_find(&g->consed, hash, node_same, node, g);
    if (same) return same;
    node->hash = hash;
    node_reserve(g);
    idset_add(&g->consed, hash, node_next(g));
    return node_take(g, node);
}

/* A rule has found `simpler` for a node of n's sources. A source that is no part of it, a movement
 * that was put together with another or a product that became that of a sum, or not on all ways to
 * what it is made of, is passed: gradients by it must know (grad/past.c). */
enum { NEAR_NODES = 24, PAST_DEPTH = 8 }; /* a chain of movements is seldom longer */

static bool among(int n, const node_id *list, node_id id) {
    for (int i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}

/* What has several sources counts twice. A node that was passed before is no end: what is below it
 * may not have been. APART is, of which no rule sees the source: what lacks it is no function. */
static void mark_passed(graph *g, node_id simpler, node_id id, int depth) {
    graph_node *x = &g->node[id];
    if (!x->sources || id == simpler || x->op == OP_APART) return;
    node_id near[NEAR_NODES] = {simpler}; /* of what it is made, but for what x is made of */
    int count = 1;
    for (int i = 0; i < count; i++) {
        const graph_node *n = &g->node[near[i]];
        for (int k = 0; near[i] != id && k < n->sources && count < NEAR_NODES; k++)
            if (!among(count, near, n->src[k])) near[count++] = n->src[k];
    }
    bool passed = !among(count, near, id);
    for (int k = 0; k < x->sources && !depth; k++) passed |= among(count, near, x->src[k]);
    if (!passed) return;
    x->passed = 1;
    for (int i = 0; i < x->sources && depth < PAST_DEPTH; i++)
        mark_passed(g, simpler, x->src[i], depth + 1 + (x->sources > 1));
}

node_id node_make(graph *g, node_form form, int n, const node_id *src) {
    graph_node node = {.op = (unsigned)form.op & 127,
                       .dtype = (unsigned)form.dtype & 31,
                       .sources = (unsigned)n & 3,
                       .flags = NODE_CONSED,
                       .shape = form.shape,
                       .attr = form.attr,
                       .bits = form.bits};
    for (int i = 0; i < n; i++) node.src[i] = src[i];
    node_id simpler = rules_apply(g, &node);
    if (!simpler) return node_intern(g, &node);
    for (int i = 0; i < n; i++) mark_passed(g, simpler, src[i], 0);
    return simpler;
}

node_id node_make_loop(graph *g, node_form form, node_id src, node_id body) {
    graph_node node = {.op = (unsigned)form.op & 127,
                       .dtype = (unsigned)form.dtype & 31,
                       .sources = 1,
                       .flags = NODE_CONSED,
                       .shape = form.shape,
                       .attr = form.attr,
                       .src = {src, body}};
    return node_intern(g, &node);
}

node_id node_buffer(graph *g, qn_dtype dtype, tuple_id shape, uint32_t buffer) {
    node_reserve(g);
    return node_take(g, &(graph_node){.op = OP_BUFFER,
                                      .dtype = (unsigned)dtype & 31,
                                      .flags = NODE_REALIZED | NODE_DATA,
                                      .shape = shape,
                                      .buffer = buffer,
                                      .bits = ++g->serial});
}

node_id node_version(graph *g, node_id x) {
    node_reserve(g);
    const graph_node *n = &g->node[x];
    return node_take(g, &(graph_node){.op = OP_DETACH,
                                      .dtype = n->dtype,
                                      .sources = 1,
                                      .shape = n->shape,
                                      .src = {x},
                                      .bits = ++g->serial});
}

static node_id linked(graph *g, int op, const node_id *src) {
    node_reserve(g);
    const graph_node *n = &g->node[src[0]];
    return node_take(g, &(graph_node){.op = (unsigned)op & 127,
                                      .dtype = n->dtype,
                                      .sources = 1,
                                      .shape = n->shape,
                                      .src = {src[0], src[1], src[2]}});
}

node_id node_stand_in(graph *g, node_id x, node_id way) {
    return linked(g, OP_STAND_IN, (node_id[3]){x, way});
}

node_id node_custom(graph *g, node_id x, node_id to, node_id slope) {
    return linked(g, OP_CUSTOM, (node_id[3]){x, to, slope});
}

/* ---- counting and freeing ------------------------------------------------------------------- */

/* Move a node without references to the list of the dying. */
static void node_condemn(graph *g, node_id id, node_id *dying) {
    graph_node *n = &g->node[id];
    history_unlist(g, id);
    if (n->flags & NODE_CONSED) idset_remove(&g->consed, n->hash, id);
    n->next = *dying;
    *dying = id;
}

static void node_die(graph *g, node_id id) {
    node_id dying = 0;
    node_condemn(g, id, &dying);
    while (dying) {
        id = dying;
        graph_node *n = &g->node[id];
        dying = n->next;
        node_id body = node_body(n);
        if (body && --g->node[body].refs == 0) node_condemn(g, body, &dying);
        for (int i = 0; i < node_links(n); i++)
            if (--g->node[n->src[i]].refs == 0) node_condemn(g, n->src[i], &dying);
        if (n->buffer && g->drop_buffer) g->drop_buffer(g->ctx, n->buffer);
        n->buffer = 0;
        if (n->op == OP_ARGUMENT) g->examples -= argument_kind(n) == ARGUMENT_EXAMPLE;
        n->op = OP_NONE;
        g->given_up -= n->given_up;
        n->given_up = 0;
        n->sources = 0;
        n->flags = 0;
        n->next = 0;
        n->src[0] = g->free_node;
        g->free_node = id;
        g->live--;
        g->idle--;
    }
}

void node_unref(graph *g, node_id n) {
    if (--g->node[n].refs == 0) node_die(g, n);
}

void node_drop(graph *g, node_id n) {
    if (g->node[n].op != OP_NONE && g->node[n].refs == 0) node_die(g, n);
}

void graph_settle(graph *g) {
    while (g->loose_count) node_drop(g, g->loose[--g->loose_count]);
}

void node_forget(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    node_id src[3] = {n->src[0], n->src[1], n->src[2]}, body = node_body(n);
    int sources = node_links(n);
    history_unlist(g, id);
    if (n->flags & NODE_CONSED) idset_remove(&g->consed, n->hash, id);
    n->flags |= NODE_DATA;
    n->flags &= (uint8_t)~NODE_CONSED;
    n->op = OP_BUFFER;
    n->computed = 0;
    n->sources = 0;
    n->src[0] = n->src[1] = n->src[2] = 0;
    n->attr = 0;
    n->bits = ++g->serial;
    for (int i = 0; i < sources; i++) node_unref(g, src[i]);
    if (body) node_unref(g, body);
}

/* ---- marks ---------------------------------------------------------------------------------- */

uint32_t graph_mark(graph *g) {
    if (UINT32_MAX - g->mark_next <= g->nodes) {
        for (node_id id = 0; id < g->nodes; id++) g->node[id].mark = 0;
        g->mark_next = 1;
    }
    g->mark_base = g->mark_next;
    g->mark_next += g->nodes + 1;
    return g->mark_base;
}
