/* custom.c - kernels of the user's: the context's own table of what CUSTOM calls compute.
 *
 * A call names its kernel by a number that is never given again, so calls of two kernels are never
 * one node, one launch or one plan. The table keeps a kernel until the graph is closed: plans and
 * static graphs hold its number and not a reference.
 *
 * Attributes of such a call also say the shape of one item of each result, for a function computes
 * all of them at once, and what nobody wants is no node whose shape could be asked. An item is a
 * row or all that there is; axes of examples come in front, and the items stay what they are. */
#include "graph/graph.h"

typedef struct adding {
    heap *h;
    custom_kernel *k;
} adding;

static void drop(heap *h, custom_kernel *k) {
    if (k->code.of) k->code.close(k->code.of);
    heap_free(h, k->name, k->name_size);
    heap_free(h, k, sizeof *k);
}

static void undo(void *of) {
    const adding *a = of;
    drop(a->h, a->k);
}

static void close_code(void *of) {
    const custom_code *code = of;
    if (code->of) code->close(code->of);
}

custom_kernel *custom_add(graph *g, const qn_custom_options *o, custom_code code) {
    heap *h = &g->ctx->heap;
    cleanup c;
    cleanup_push(h, &c, close_code, &code);
    custom_kernel *k = heap_zeroed(h, sizeof *k);
    adding a = {h, k};
    cleanup_drop(h, &c);
    k->code = code;
    cleanup_push(h, &c, undo, &a);
    k->o = *o;
    k->name_size = strlen(o->name) + 1;
    k->name = heap_alloc(h, k->name_size);
    memcpy(k->name, o->name, k->name_size);
    k->o.name = k->name;
    k->o.c_source = k->o.kernel = k->o.axes = NULL;
    k->number = g->customs;
    g->custom = heap_grow(h, g->custom, &g->custom_cap, g->customs + 1, sizeof *g->custom);
    g->custom[g->customs++] = k;
    cleanup_drop(h, &c);
    return k;
}

const custom_kernel *custom_of(const graph *g, const call_attr *c) {
    return g->custom[c->attr[CUSTOM_KERNEL]];
}

static int item_rank(const call_attr *c, int result) {
    return (int)(c->attr[CUSTOM_RANKS] >> 4 * result & 15);
}

tuple_id custom_item(graph *g, const call_attr *c, int result) {
    int at = CUSTOM_SIZES;
    for (int i = 0; i < result; i++) at += item_rank(c, i);
    return graph_tuple(g, item_rank(c, result), c->attr + at);
}

_Static_assert(QN_MAX_RANK < 16, "a rank has four bits");

void custom_set_items(graph *g, call_attr *c, int n, const tuple_id *item) {
    c->n = CUSTOM_SIZES;
    for (int i = 0; i < n; i++) {
        int rank;
        const int64_t *dims = graph_tuple_get(g, item[i], &rank);
        c->attr[CUSTOM_RANKS] |= (int64_t)rank << 4 * i;
        for (int j = 0; j < rank; j++) c->attr[c->n++] = dims[j];
    }
}

void customs_close(graph *g) {
    heap *h = &g->ctx->heap;
    while (g->customs) drop(h, g->custom[--g->customs]);
    heap_free(h, g->custom, g->custom_cap * sizeof *g->custom);
    g->custom = NULL;
}
