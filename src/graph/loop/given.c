/* given.c - where in a body the gradients are that a user gave.
 *
 * Such a gradient is a chain of CUSTOM nodes over a zero U, which what comes to the results is put
 * in the place of (grad/custom.c). U is a value of the trip, then, though it follows no argument:
 * what is made of it stays in the body, and is no value that could be had before. The results are
 * STAND_INs for pieces of the chain; there that ends, for their values are others'. */
#include "graph/loop/loop.h"

typedef struct finding {
    const graph *g;
    uint32_t nodes;
    const node_id *order;
    bool *value, *link; /* of the U in question: has its value; follows it */
    loop_given out;
} finding;

static uint32_t place_of(const graph *g, node_id n) {
    return node_at(g, n)->mark - g->mark_base;
}

/* The places of all U, each once. */
static uint32_t find_zeros(const finding *f, uint32_t *zero, bool *seen) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->nodes; i++) {
        const graph_node *x = node_at(f->g, f->order[i]);
        if (x->op != OP_CUSTOM || !x->src[1]) continue;
        node_id below = x->src[0];
        while (node_at(f->g, below)->op == OP_CUSTOM) below = node_at(f->g, below)->src[0];
        uint32_t place = place_of(f->g, below);
        if (!seen[place]) zero[n++] = place;
        seen[place] = true;
    }
    return n;
}

static void follow(finding *f, uint32_t zero) {
    for (uint32_t i = 0; i < f->nodes; i++) {
        const graph_node *x = node_at(f->g, f->order[i]);
        f->value[i] = f->link[i] = i == zero;
        if (node_is_memory(x)) continue;
        for (int s = 0; s < x->sources; s++) f->value[i] |= f->value[place_of(f->g, x->src[s])];
        for (int s = 0; s < node_links(x); s++) {
            uint32_t from = place_of(f->g, x->src[s]);
            bool result = x->op == OP_STAND_IN && s == 1 && f->value[from] && !f->value[i];
            f->out.results[i] |= result;
            f->link[i] |= f->link[from] && !result;
        }
        f->out.follows[i] |= f->link[i];
    }
}

loop_given loop_find_given(const graph *g, arena *a, uint32_t nodes, const node_id *order) {
    size_t n = (size_t)nodes + 1;
    finding f = {.g = g, .nodes = nodes, .order = order};
    f.out = (loop_given){arena_zeroed(a, n), arena_zeroed(a, n)};
    f.value = arena_zeroed(a, n);
    f.link = arena_zeroed(a, n);
    uint32_t *zero = arena_alloc(a, n * sizeof *zero), zeros = find_zeros(&f, zero, f.value);
    for (uint32_t k = 0; k < zeros; k++) follow(&f, zero[k]);
    return f.out;
}
