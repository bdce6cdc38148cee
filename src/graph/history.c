/* history.c - who may still ask for a value, and how much of the past is kept.
 *
 * A node has two counts. `refs` says who keeps the node: consumers, handles. `needs` says who may
 * still ask for its value: handles, and each source slot of a needed node that has no value yet. So
 * a value in memory needs nothing of its sources; they are only its history, which gradients walk.
 * Needs are passed on when a node is first needed and when it is not any more, so every value is
 * let go at the very moment when nobody can ask for it:
 *
 *   - a computed value goes; a gradient that wants it computes it again from its sources;
 *   - a leaf that was overwritten (assigned, written) goes for good: its node stays, GONE;
 *   - any other leaf, whose tensor was released, waits in a list.
 *
 * An open tape keeps them all until it ends.
 *
 * History is bounded by the bytes of what nobody needs: nodes, and leaves that wait. The list holds
 * what can be cut, oldest first: what was computed, and leaves that wait. Cut, the first become
 * leaves that are LOST, and what has no value then is GONE. A gradient that would have to pass a
 * LOST leaf or wants a value that is GONE is an error (grad.c), never another number.
 *
 * Marks of time. `born` counts nodes as they are made, sources before users: what is older than a
 * tensor cannot depend on it. Should the counter overflow, all nodes there are become equally old,
 * which only means that less can be ruled out. */
#include "graph/graph.h"
#include "graph/view/view.h"

enum { NODE_COST = 96 }; /* bytes of a node and its places in the hash-cons set */

/* ---- the list of what can be cut ------------------------------------------------------------ */

/* Node 0, which is none, is both ends. */
static void list_add(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    node_id last = g->node[0].prev;
    n->prev = last;
    n->next = 0;
    g->node[last].next = id;
    g->node[0].prev = id;
    n->flags |= NODE_LISTED;
    if (n->op == OP_BUFFER) g->idle_bytes += graph_value_bytes(g, n);
}

void history_take_out(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    g->node[n->prev].next = n->next;
    g->node[n->next].prev = n->prev;
    n->next = 0;
    n->hash = node_hash(n);
    n->flags &= (uint8_t)~NODE_LISTED;
    if (n->op == OP_BUFFER) g->idle_bytes -= graph_value_bytes(g, n);
}

size_t graph_value_bytes(const graph *g, const graph_node *n) {
    return g->buffer_bytes ? g->buffer_bytes(g->ctx, n->buffer) : 0;
}

static size_t history_most(const graph *g) {
    return (size_t)g->ctx->knob[KNOB_HISTORY].number << 20;
}

/* ---- values that nobody needs --------------------------------------------------------------- */

static void value_free(graph *g, graph_node *n) {
    n->flags &= (uint8_t)~NODE_REALIZED;
    if (g->drop_buffer) g->drop_buffer(g->ctx, n->buffer);
    n->buffer = 0;
}

/* What was kept for the next request that wants it goes with the last who needs it. */
static void kept_free(graph *g, graph_node *n) {
    if ((n->flags & NODE_REALIZED) || !n->buffer) return;
    if (g->drop_buffer) g->drop_buffer(g->ctx, n->buffer);
    n->buffer = 0;
}

static void leaf_gone(graph *g, node_id id) {
    history_unlist(g, id);
    value_free(g, &g->node[id]);
    g->node[id].flags |= NODE_GONE;
}

static void value_idle(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    if (g->tapes) return;
    if (n->op != OP_BUFFER)
        value_free(g, n);
    else if ((n->flags & NODE_OLD) || graph_value_bytes(g, n) > history_most(g))
        leaf_gone(g, id);
    else if (!(n->flags & NODE_LISTED)) /* it is, where it waited before the tape began */
        list_add(g, id);
}

/* ---- needs ---------------------------------------------------------------------------------- */

/* Nodes whose sources have yet to be told are linked through `next`: what is needed and has no
 * value is not in the list, for it cannot be cut. Is this one of them? */
static inline bool wakes_sources(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    n->needs = 1;
    g->idle--;
    if (!(n->flags & (NODE_REALIZED | NODE_GONE | NODE_LISTED))) return n->sources; /* as usual */
    if (n->op == OP_BUFFER || !(n->flags & NODE_REALIZED)) history_unlist(g, id);
    if (n->flags & NODE_GONE) g->gone = id;
    return !(n->flags & NODE_REALIZED) && n->sources;
}

void value_wake(graph *g, node_id id) {
    if (!wakes_sources(g, id)) return;
    for (node_id todo = 0;;) {
        const graph_node *n = &g->node[id];
        for (int i = 0; i < n->sources; i++) {
            graph_node *source = &g->node[n->src[i]];
            if (source->needs) {
                source->needs++;
            } else if (wakes_sources(g, n->src[i])) {
                source->next = todo;
                todo = n->src[i];
            }
        }
        if (!(id = todo)) return;
        todo = g->node[id].next;
        g->node[id].next = 0;
    }
}

static inline bool rests_sources(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    g->idle++;
    kept_free(g, n);
    if (!(n->flags & NODE_REALIZED)) return n->sources;
    value_idle(g, id);
    return false;
}

void node_hold(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    if (n->holders < HOLDERS_MANY) n->holders++;
}

void node_let_go(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    if (n->holders < HOLDERS_MANY) n->holders--;
}

void value_rest(graph *g, node_id id) {
    if (!rests_sources(g, id)) return;
    for (node_id todo = 0;;) {
        const graph_node *n = &g->node[id];
        for (int i = 0; i < n->sources; i++) {
            graph_node *source = &g->node[n->src[i]];
            if (--source->needs || !rests_sources(g, n->src[i])) continue;
            source->next = todo;
            todo = n->src[i];
        }
        if (!(id = todo)) return;
        todo = g->node[id].next;
        g->node[id].next = 0;
    }
}

/* ---- values that are there ------------------------------------------------------------------ */

bool node_differentiable(const graph_node *n) {
    return dtype_is_float(n->dtype) && op_rows[n->op].differentiable;
}

/* A tensor's version: nothing asks what was assigned once it is there. */
static bool node_is_state(const graph_node *n) {
    return n->op == OP_DETACH && n->bits;
}

void graph_realized(graph *g, node_id id, uint32_t buffer) {
    graph_node *n = &g->node[id];
    bool had = (n->flags & NODE_REALIZED) != 0;
    if (had && n->buffer != buffer && g->drop_buffer) g->drop_buffer(g->ctx, n->buffer);
    kept_free(g, n);
    g->given_up -= n->given_up;
    n->given_up = 0;
    n->flags |= NODE_REALIZED;
    n->buffer = buffer;
    g->varied |= node_follows(n);
    if (had || op_rows[n->op].class_ == CLASS_LEAF) return;
    if (n->needs)
        for (int i = 0; i < n->sources; i++) value_drop(g, n->src[i]);
    if (node_is_state(n)) {
        if (!g->tapes) node_forget(g, id);
    } else if (!(n->flags & NODE_LISTED)) {
        list_add(g, id);
    }
}

bool value_regainable(const graph *g, node_id id) {
    enum { MOST = 32 };
    node_id seen[MOST];
    int count = 0;
    if (!g->node[id].needs || !g->node[id].sources) return false;
    seen[count++] = id;
    for (int at = 0; at < count; at++) {
        const graph_node *n = &g->node[seen[at]];
        for (int i = 0; i < n->sources; i++) {
            const graph_node *s = &g->node[n->src[i]];
            bool there = (s->flags & NODE_REALIZED) || s->op == OP_CONST || s->op == OP_IOTA;
            int k = 0;
            while (k < count && seen[k] != n->src[i]) k++;
            if (there || k < count) continue;
            if (s->op == OP_BUFFER || count == MOST) return false;
            seen[count++] = n->src[i];
        }
    }
    return true;
}

void value_give_up(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    history_unlist(g, id);
    value_free(g, n);
    n->given_up = 1;
    g->given_up++;
    for (int i = 0; i < n->sources; i++) value_need(g, n->src[i]);
}

/* A value becomes a leaf, and a gradient that comes by there would be wrong. One that follows the
 * variables is `computed`: under other bindings nobody can say what it is. */
static void history_cut(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    bool lost = (n->flags & NODE_DATA) && node_differentiable(n), follows = node_follows(n);
    bool version = node_is_state(n), view = view_of_tensor(g, n);
    node_forget(g, id);
    if (view) n->bits |= CUT_VIEW;
    n->computed = follows;
    n->cut = !version;
    n->attr = graph_place(g);
    if (lost) n->flags |= NODE_LOST;
    if (!(n->flags & NODE_REALIZED)) n->flags |= NODE_GONE;
}

void value_spend(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    leaf_gone(g, id);
    n->spent = 1;
    n->attr = graph_place(g);
}

void history_trim(graph *g) {
    if (g->tapes) return;
    while (g->node[0].next && (size_t)g->idle * NODE_COST + g->idle_bytes > history_most(g)) {
        node_id id = g->node[0].next;
        if (g->node[id].op == OP_BUFFER)
            leaf_gone(g, id);
        else
            history_cut(g, id);
    }
}

/* ---- values of another binding -------------------------------------------------------------- */

static void value_rebound(graph *g, node_id id) {
    graph_node *n = &g->node[id];
    if (!(n->flags & NODE_REALIZED)) {
        kept_free(g, n);
        return;
    }
    history_unlist(g, id);
    value_free(g, n);
    for (int i = 0; i < n->sources && n->needs; i++) value_need(g, n->src[i]);
}

/* Raises nothing, and needs no memory. */
void history_rebound(graph *g) {
    if (!g->varied) return;
    g->varied = false;
    for (node_id id = 1; id < g->nodes; id++) {
        const graph_node *n = &g->node[id];
        if (!n->buffer) continue;
        if (n->op == OP_BUFFER && n->computed)
            leaf_gone(g, id);
        else if (node_follows(n))
            value_rebound(g, id);
    }
}

/* ---- the end of a tape ----------------------------------------------------------------------- */

void history_tape_ended(graph *g) {
    for (node_id id = 1; id < g->nodes; id++) {
        graph_node *n = &g->node[id];
        if (!(n->flags & NODE_REALIZED)) continue;
        if (node_is_state(n)) node_forget(g, id);
        if (n->needs || n->op == OP_NONE) continue;
        if (n->flags & NODE_OLD) n->flags |= NODE_TAPED;
        value_idle(g, id);
    }
    history_trim(g);
}

/* ---- versions ------------------------------------------------------------------------------- */

/* The same node may have been the value of two tensors that were both assigned to since. */
void node_is_version(graph *g, node_id id, uint32_t variable) {
    uint32_t *of = &g->node[id].variable;
    *of = *of && *of != variable ? VARIABLE_SHARED : variable;
}

/* Only leaves lose their values: what is computed can be computed again. */
void node_is_old(graph *g, node_id id, uint32_t place) {
    graph_node *n = &g->node[id];
    if (n->op != OP_BUFFER) return;
    n->flags |= NODE_OLD;
    n->attr = place;
}

/* ---- the user's places ---------------------------------------------------------------------- */

typedef struct place_row {
    const char *text; /* a file, or what tensors are called */
    int line;
} place_row;

struct graph_places {
    arena text;
    place_row *row;
    uint32_t count, cap;
    idset set;
};

static bool place_same(const void *key, uint32_t id, const void *user) {
    const place_row *a = key, *b = &((const struct graph_places *)user)->row[id - 1];
    return a->line == b->line && !strcmp(a->text, b->text);
}

void graph_places_open(graph *g) {
    g->places = heap_zeroed(&g->ctx->heap, sizeof *g->places);
    arena_open(&g->places->text, &g->ctx->heap);
    idset_open(&g->places->set, &g->ctx->heap);
}

void graph_places_close(graph *g) {
    struct graph_places *p = g->places;
    if (!p) return;
    arena_free(&p->text);
    idset_free(&p->set);
    heap_free(&g->ctx->heap, p->row, p->cap * sizeof *p->row);
    heap_free(&g->ctx->heap, p, sizeof *p);
    g->places = NULL;
}

static uint32_t place_add(graph *g, const place_row *row, uint64_t hash) {
    struct graph_places *p = g->places;
    size_t size = strlen(row->text) + 1;
    p->row = heap_grow(&g->ctx->heap, p->row, &p->cap, p->count + 1, sizeof *p->row);
    char *text = memcpy(arena_alloc(&p->text, size), row->text, size);
    idset_add(&p->set, hash, p->count + 1);
    p->row[p->count++] = (place_row){text, row->line};
    return p->count;
}

typedef struct adding {
    graph *g;
    place_row *row;
    uint64_t hash;
    uint32_t id;
} adding;

static void add_work(void *arg) {
    adding *a = arg;
    a->id = place_add(a->g, a->row, a->hash);
}

uint32_t graph_place_of(graph *g, const char *text, int line) {
    place_row row = {text, line};
    uint64_t hash = hash_bytes(text, strlen(text), (uint64_t)line);
    uint32_t id = idset_find(&g->places->set, hash, place_same, &row, g->places);
    if (id) return id;
    qn_ctx *qn = g->ctx;
    bool failed = qn->code != QN_OK;
    adding a = {g, &row, hash, 0};
    if (guarded(qn, add_work, &a) && !failed) qn_clear_error(qn);
    return a.id;
}

uint32_t graph_place(graph *g) {
    return g->ctx->at_file ? graph_place_of(g, g->ctx->at_file, g->ctx->at_line) : 0;
}

const char *graph_place_text(const graph *g, uint32_t place, int *line) {
    if (line) *line = place ? g->places->row[place - 1].line : 0;
    return place ? g->places->row[place - 1].text : NULL;
}
