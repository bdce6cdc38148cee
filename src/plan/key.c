/* key.c - the structure of a request, as words.
 *
 * Two requests with equal words compute the same function of their leaves in the same order of
 * nodes, so a plan built for one serves the other: its slots refer to leaves by their place in the
 * order. Nodes are written in dependency order; a source is its distance back, so that equal layers
 * look alike wherever they stand. Shapes and attributes are interned, their ids are their identity.
 * A constant that the launch gives (lift.c) is no node here: its use says which dtype and shape it
 * has, beside places its sign, too, and its value stands beside the words.
 * What replaces what (`over`, as plans have it) is part of it: kernels differ by that.
 * The body of a loop stands behind the loop, and what a result stacks behind the result, each by
 * itself: how many words, how many nodes, and these, whose constants are all written out.
 */
#include "plan/plan.h"

/* A node is {operation, dtype, how many words follow the head; shape; attributes} and these: of a
 * constant its bits, else each source, which is a distance, or LIFTED with a dtype, and a shape;
 * behind them, of a slice or padding with offsets that are lifted, what slot each axis has. */
enum { HEAD = 3, MOST_WORDS = HEAD + 6 + QN_MAX_RANK };
static const uint32_t lifted = UINT32_C(1) << 31, negative = lifted >> 1;

static uint32_t write_sources(const plan_lift *l, const graph_node *x, uint32_t place,
                              const uint32_t *number, uint32_t *w) {
    uint32_t n = 0;
    for (int s = 0; s < x->sources; s++) {
        const graph_node *from = node_at(l->g, x->src[s]);
        uint32_t slot = lift_operand(l, place, s);
        if (slot == LIFT_NONE) {
            w[n++] = number[place] - number[from->mark];
        } else {
            w[n++] = lifted | (lift_is_negative(l, slot, from) ? negative : 0) | from->dtype;
            w[n++] = from->shape;
        }
    }
    return n;
}

/* Slots are counted from the first use of a number, so equal words have equal slots. */
static uint32_t write_offsets(const plan_lift *l, const graph_node *x, uint32_t place,
                              uint32_t *w) {
    int rank = 0;
    if (!l->offset || !l->offset[place]) return 0;
    graph_tuple_get(l->g, x->shape, &rank);
    for (int i = 0; i < rank; i++) w[i] = l->offset[place][i];
    return (uint32_t)rank;
}

static uint32_t write_node(graph *g, const plan_lift *l, uint32_t place, const uint32_t *number,
                           uint32_t *w) {
    const graph_node *x = node_at(g, l->order[place]);
    uint32_t n = 0, *more = w + HEAD;
    bool leaf = node_is_memory(x);
    if (!leaf && x->op == OP_CONST && lift_fill(l, place) == LIFT_NONE) {
        more[n++] = (uint32_t)x->bits;
        more[n++] = (uint32_t)(x->bits >> 32);
    } else if (!leaf) {
        n = write_sources(l, x, place, number, more);
        n += write_offsets(l, x, place, more + n);
    }
    w[0] = (uint32_t)(leaf ? OP_BUFFER : x->op) | (uint32_t)x->dtype << 8 | n << 16;
    w[1] = x->shape;
    w[2] = leaf ? 0 : lift_attr(l, g, place);
    return HEAD + n;
}

/* ---- bodies of loops ------------------------------------------------------------------------- */

typedef struct words {
    uint32_t *at, count, cap;
} words;

static void add_word(arena *a, words *w, uint32_t word) {
    w->at = arena_grow(a, w->at, &w->cap, w->count + 1, sizeof *w->at);
    w->at[w->count++] = word;
}

static void add_words(arena *a, words *w, const words *more) {
    add_word(a, w, more->count);
    for (uint32_t i = 0; i < more->count; i++) add_word(a, w, more->at[i]);
}

static bool has_body(const graph_node *x) {
    return op_rows[x->op].class_ == CLASS_LOOP && x->op != OP_LIST;
}

/* Bodies in bodies come first, for an order ends with the next one. Depth is how loops nest. */
static words write_body(graph *g, arena *a, node_id body) {
    words w = {0};
    if (!body) return w;
    node_id *order;
    uint32_t nodes = graph_order_history(g, a, 1, &body, 0, &order); /* whatever has a value */
    words *inner = arena_zeroed(a, (nodes + 1) * sizeof *inner);
    for (uint32_t i = 0; i < nodes; i++)
        if (has_body(node_at(g, order[i])))
            inner[i] = write_body(g, a, node_body(node_at(g, order[i])));
    for (uint32_t i = 0; i < nodes; i++) node_at(g, order[i])->mark = i;
    add_word(a, &w, nodes);
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(g, order[i]);
        bool bits = x->op == OP_CONST || x->op == OP_ARGUMENT;
        uint32_t n = bits ? 2 : x->sources;
        add_word(a, &w, (uint32_t)x->op | (uint32_t)x->dtype << 8 | n << 16);
        add_word(a, &w, x->shape);
        add_word(a, &w, x->attr);
        if (bits) add_word(a, &w, (uint32_t)x->bits), add_word(a, &w, (uint32_t)(x->bits >> 32));
        for (int s = 0; s < x->sources; s++) add_word(a, &w, i - node_at(g, x->src[s])->mark);
        if (has_body(x)) add_words(a, &w, &inner[i]);
    }
    return w;
}

/* By place, of the nodes that have one; NULL: none has. */
static words *write_bodies(graph *g, arena *a, const plan_request *r, uint32_t *most) {
    words *body = NULL;
    for (uint32_t i = 0; i < r->nodes; i++) {
        const graph_node *x = node_at(g, r->order[i]);
        if (node_is_memory(x) || !has_body(x)) continue;
        if (!body) body = arena_zeroed(a, (r->nodes + 1) * sizeof *body);
        body[i] = write_body(g, a, node_body(x));
        *most += body[i].count;
    }
    return body;
}

static void keep_nodes(graph *g, const uint32_t *w, uint32_t nodes) {
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t op = w[0] & 0xff, n = w[0] >> 16;
        graph_keep(g, w[1]);
        graph_keep(g, w[2]);
        for (uint32_t j = HEAD; op != OP_CONST && op != OP_ARGUMENT && j < HEAD + n; j++)
            if (w[j] & lifted) graph_keep(g, w[++j]);
        w += HEAD + n;
        if (op != OP_LOOP && op != OP_RESULT) continue;
        if (w[0]) keep_nodes(g, w + 2, w[1]);
        w += 1 + w[0];
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

plan_key key_build(graph *g, arena *a, const plan_request *r) {
    uint32_t bodies = 0;
    const words *body = write_bodies(g, a, r, &bodies);
    const plan_lift *l = lift_build(g, a, r);
    size_t most = 2 + 2 * (size_t)r->roots + (MOST_WORDS + 1) * (size_t)r->nodes + bodies;
    uint32_t *w = arena_alloc(a, most * sizeof *w), n = 2, kept = 0;
    uint32_t *number = arena_alloc(a, (r->nodes + 1) * sizeof *number);
    for (uint32_t i = 0; i < r->nodes; i++) {
        if (!lift_keeps(l, i)) continue;
        number[i] = kept++;
        n += write_node(g, l, i, number, w + n);
        const graph_node *x = node_at(g, r->order[i]);
        if (!has_body(x) || node_is_memory(x)) continue;
        w[n++] = body[i].count;
        if (body[i].count) memcpy(w + n, body[i].at, body[i].count * sizeof *w);
        n += body[i].count;
    }
    w[0] = kept;
    w[1] = r->roots;
    for (uint32_t i = 0; i < r->roots; i++) w[n++] = number[node_at(g, r->root[i])->mark];
    for (uint32_t i = 0; r->over && i < r->roots; i++) w[n++] = r->over[i];
    return (plan_key){w, n, l->slots, hash_bytes(w, n * sizeof *w, 0), l->value, l};
}

void key_keep(graph *g, const plan_key *key) {
    keep_nodes(g, key->word + 2, key->word[0]);
}
