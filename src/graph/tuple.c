/* tuple.c - interned tuples, shapes and attributes, and taking back those that nobody uses.
 *
 * A tuple's id stands for its numbers in nodes, in the keys of plans and in static graphs, and
 * nobody counts who has it. A program that makes another shape each time would so keep them all,
 * and the sizes in them, constants of the index algebra. So now and then, when there are twice as
 * many as were found in use the last time, they are swept: everyone who holds ids from one run to
 * the next says which (graph_keep), and the rest go. Ids of those in use stay, free ids are used
 * again, and numbers lie where they lay, so a pointer from graph_tuple_get() to a tuple in use
 * stays valid. Checked builds sweep every time.
 *
 * That is done between one request and the next (run/sweep.c), when nobody has an id in his hand
 * that is not in a node yet. An entry may be a size or a plain number; a number that happens to be
 * a size's id keeps it, which costs nothing but its room. Expressions of dimension variables are
 * not swept: a program has as many as it has places that write them. */
#include "graph/graph.h"

enum { LENGTHS = 3 * QN_MAX_RANK + 1, LEAST_SWEEP = 4096 };

typedef struct tuple_row {
    int64_t *v; /* NULL: free */
    uint32_t n; /* free: the next free one */
    bool kept;  /* by the sweep under way */
} tuple_row;

struct graph_tuples {
    arena values;
    tuple_row *row;
    uint32_t count, cap, live, free;
    int64_t *unused[LENGTHS]; /* numbers of tuples that went, by length; each begins with a link */
    uint32_t due;             /* sweep when so many tuples and constants are live */
    idset set;
};

void graph_tuples_open(graph *g) {
    heap *h = &g->ctx->heap;
    struct graph_tuples *t = g->tuples = heap_zeroed(h, sizeof *t);
    arena_open(&t->values, h);
    idset_open(&t->set, h);
    t->due = LEAST_SWEEP;
    t->row = heap_grow(h, NULL, &t->cap, 1, sizeof *t->row);
    t->row[t->count++] = (tuple_row){.n = 0}; /* the empty tuple is id 0 */
}

void graph_tuples_close(graph *g) {
    struct graph_tuples *t = g->tuples;
    if (!t) return;
    arena_free(&t->values);
    idset_free(&t->set);
    heap_free(&g->ctx->heap, t->row, t->cap * sizeof *t->row);
    heap_free(&g->ctx->heap, t, sizeof *t);
    g->tuples = NULL;
}

/* ---- finding and making --------------------------------------------------------------------- */

typedef struct tuple_key {
    const int64_t *v;
    uint32_t n;
} tuple_key;

static bool tuple_same(const void *key, uint32_t id, const void *user) {
    const tuple_key *k = key;
    const tuple_row *row = &((const struct graph_tuples *)user)->row[id];
    return row->n == k->n && memcmp(row->v, k->v, k->n * sizeof *k->v) == 0;
}

static uint64_t tuple_hash(uint32_t n, const int64_t *v) {
    return hash_bytes(v, n * sizeof *v, 0);
}

static int64_t *numbers_new(struct graph_tuples *t, uint32_t n) {
    int64_t *v = n < LENGTHS ? t->unused[n] : NULL;
    if (!v) return arena_alloc(&t->values, n * sizeof *v);
    memcpy(&t->unused[n], v, sizeof t->unused[n]);
    return v;
}

static void numbers_free(struct graph_tuples *t, uint32_t n, int64_t *v) {
    if (n >= LENGTHS) return;
    memcpy(v, &t->unused[n], sizeof t->unused[n]);
    t->unused[n] = v;
}

tuple_id graph_tuple(graph *g, int n, const int64_t *v) {
    if (n == 0) return 0;
    struct graph_tuples *t = g->tuples;
    tuple_key key = {v, (uint32_t)n};
    uint64_t hash = tuple_hash(key.n, v);
    tuple_id id = idset_find(&t->set, hash, tuple_same, &key, t);
    if (id) return id;
    id = t->free ? t->free : t->count;
    t->row = heap_grow(&g->ctx->heap, t->row, &t->cap, id + 1, sizeof *t->row);
    int64_t *copy = numbers_new(t, key.n);
    memcpy(copy, v, key.n * sizeof *v);
    idset_add(&t->set, hash, id); /* numbers that it leaves behind by raising go with the graph */
    if (t->free)
        t->free = t->row[id].n;
    else
        t->count++;
    t->row[id] = (tuple_row){.v = copy, .n = key.n};
    t->live++;
    return id;
}

const int64_t *graph_tuple_get(const graph *g, tuple_id t, int *n) {
    static const int64_t none[1]; /* of nothing one may copy 0 bytes, of NULL not */
    const tuple_row *row = &g->tuples->row[t];
    *n = (int)row->n;
    return row->n ? row->v : none;
}

/* ---- sweeping ------------------------------------------------------------------------------- */

bool graph_sweep_due(const graph *g) {
#ifdef QN_CHECK
    return g != NULL;
#else
    return g->tuples->live + sym_consts(g->syms) >= g->tuples->due;
#endif
}

void graph_keep(graph *g, tuple_id id) {
    tuple_row *row = &g->tuples->row[id];
    if (!id || row->kept) return;
    row->kept = true;
    for (uint32_t i = 0; i < row->n; i++) sym_keep(g->syms, row->v[i]);
}

void graph_sweep_begin(graph *g) {
    sym_sweep_begin(g->syms);
    for (uint32_t i = 0; i < g->vars; i++) sym_keep(g->syms, g->var[i]);
    for (uint32_t i = 0; i < g->dims; i++) sym_keep(g->syms, g->dim[i]);
    for (node_id id = 1; id < g->nodes; id++) {
        if (g->node[id].op == OP_NONE) continue;
        graph_keep(g, g->node[id].shape);
        graph_keep(g, g->node[id].attr);
    }
}

void graph_sweep_end(graph *g) {
    struct graph_tuples *t = g->tuples;
    for (tuple_id id = 1; id < t->count; id++) {
        tuple_row *row = &t->row[id];
        bool kept = row->kept;
        row->kept = false;
        if (!row->v || kept) continue;
        idset_remove(&t->set, tuple_hash(row->n, row->v), id);
        numbers_free(t, row->n, row->v);
        *row = (tuple_row){.n = t->free};
        t->free = id;
        t->live--;
    }
    sym_sweep_end(g->syms);
    /* Walking the nodes is paid for, too. */
    t->due = LEAST_SWEEP + 2 * (t->live + sym_consts(g->syms)) + g->nodes / 8;
}
