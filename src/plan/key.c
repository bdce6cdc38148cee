/* key.c - the structure of a request, as words.
 *
 * Two requests with equal words compute the same function of their leaves in the same order of
 * nodes, so a plan built for one serves the other: its slots refer to leaves by their place in the
 * order. Nodes are written in dependency order; a source is its distance back, so that equal layers
 * look alike wherever they stand. Shapes and attributes are interned, their ids are their identity.
 * What replaces what (`over`, as plans have it) is part of it: kernels differ by that.
 */
#include "plan/plan.h"

static uint32_t node_words(const graph_node *x, bool leaf) {
    return leaf ? 3 : x->op == OP_CONST ? 5u : 3u + x->sources;
}

plan_key key_build(graph *g, arena *a, uint32_t nodes, const node_id *order, uint32_t roots,
                   const node_id *root, const uint32_t *over) {
    uint32_t words = 2 + roots + (over ? roots : 0), n = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(g, order[i]);
        words += node_words(x, (x->flags & NODE_REALIZED) || x->op == OP_BUFFER);
    }
    uint32_t *w = arena_alloc(a, words * sizeof *w);
    for (uint32_t i = 0; i < nodes; i++) node_at(g, order[i])->mark = i;
    w[n++] = nodes;
    w[n++] = roots;
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(g, order[i]);
        bool leaf = (x->flags & NODE_REALIZED) || x->op == OP_BUFFER;
        w[n++] = leaf ? (uint32_t)OP_BUFFER | (uint32_t)x->dtype << 8
                      : (uint32_t)x->op | (uint32_t)x->dtype << 8 | (uint32_t)x->sources << 16;
        w[n++] = x->shape;
        w[n++] = leaf ? 0 : x->attr;
        if (leaf) continue;
        if (x->op == OP_CONST) {
            w[n++] = (uint32_t)x->bits;
            w[n++] = (uint32_t)(x->bits >> 32);
            continue;
        }
        for (int s = 0; s < x->sources; s++) w[n++] = i - node_at(g, x->src[s])->mark;
    }
    for (uint32_t i = 0; i < roots; i++) w[n++] = node_at(g, root[i])->mark;
    for (uint32_t i = 0; over && i < roots; i++) w[n++] = over[i];
    return (plan_key){w, n, hash_bytes(w, n * sizeof *w, 0)};
}

/* The words of a node's head say how many follow; see key_build. */
void key_keep(graph *g, const plan_key *key) {
    for (uint32_t i = 0, at = 2; i < key->word[0]; i++) {
        uint32_t op = key->word[at] & 0xff, sources = key->word[at] >> 16;
        graph_keep(g, key->word[at + 1]);
        graph_keep(g, key->word[at + 2]);
        at += 3 + (op == OP_CONST ? 2 : sources);
    }
}
