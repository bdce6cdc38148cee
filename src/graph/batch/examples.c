/* examples.c - a graph that was recorded of one example, for many at once: qn_vmap's.
 *
 * Each node that follows an example is made again with an axis more, in front, by the rule of its
 * row of ops.h, which its class names; what follows none stays, and is repeated along that axis
 * where it meets one that does. So a product of an example and a weight becomes one product of all
 * of them, and what comes out are nodes like any other: planned, fused, differentiated like them.
 *
 *   - Elementwise, movements, joins, reductions, scans and computed indices: batch/node.c.
 *   - A routine whose items are rows or matrices has more of them.
 *   - A loop has a batched body: a state, a row or what is captured has the axis where it follows
 *     an example, a state also where it comes to in some trip.
 *   - What has no such form takes its examples one after the other, as a loop over them: routines
 *     of a whole array (unique), and loops whose number of trips is each example's own.
 *   - A gradient that was given (grad/custom.c) is a graph, too. The zero behind which it stands
 *     gets the axis, so that each example's slope is of its own gradient.
 *
 * The walk goes through history like any that makes a graph anew. */
#include "graph/graph.h"
#include "graph/loop/loop.h"

/* A loop that follows examples. */
typedef struct batch_loop {
    node_id loop;     /* with a batched body */
    batch_walk *body; /* NULL: a loop over the examples gave all[] of each result */
    bool *follows;    /* of the values that it is given */
} batch_loop;

/* What is known of nodes by place. */
struct batch_walk {
    graph *g;
    arena *a;
    sym count;
    uint32_t nodes, slots; /* slots: of `index`, a power of two */
    node_id *order, *all;  /* all: the node with the axis; 0: it is the same for all examples */
    uint32_t *index;       /* 1 + place, by a hash of the node */
    bool *follows;
    batch_loop **loop;
};

static uint32_t slot_of(const batch_walk *w, node_id n) {
    uint32_t i = n * 2654435769u & (w->slots - 1);
    while (w->index[i] && w->order[w->index[i] - 1] != n) i = (i + 1) & (w->slots - 1);
    return i;
}

static uint32_t place_of(const batch_walk *w, node_id n) {
    return w->index[slot_of(w, n)] - 1;
}

static const graph_node *node_of(const batch_walk *w, uint32_t place) {
    return node_at(w->g, w->order[place]);
}

static node_id with_axis(batch_walk *w, node_id n) {
    node_id all = w->all[place_of(w, n)];
    return all ? all : batch_same(w->g, n, w->count);
}

static void refuse_rank(const batch_walk *w, const graph_node *x) {
    graph *g = w->g;
    g->text.len = 0;
    shape_text(g, x->shape, &g->text);
    raise_error(g->ctx, QN_ESHAPE,
                "vmap: %s of shape %s in the body, or what it is made of, has no room for an axis "
                "of examples: %d are the most",
                op_rows[x->op].name, g->text.s, QN_MAX_RANK);
}

/* ---- rules of classes ------------------------------------------------------------------------ */

static node_id batch_by_node(batch_walk *w, uint32_t place) {
    const graph_node x = *node_of(w, place);
    node_id src[3];
    if (!batch_takes(w->g, &x)) refuse_rank(w, &x);
    for (int i = 0; i < x.sources; i++) src[i] = with_axis(w, x.src[i]);
    return batch_node(w->g, &x, w->count, src);
}

/* No leaf follows another node. */
static node_id batch_LEAF(batch_walk *w, uint32_t place) {
    (void)w, (void)place;
    return 0;
}

static node_id batch_ELEM(batch_walk *w, uint32_t place) {
    return batch_by_node(w, place);
}

static node_id batch_MOVE(batch_walk *w, uint32_t place) {
    return batch_by_node(w, place);
}

static node_id batch_JOIN(batch_walk *w, uint32_t place) {
    return batch_by_node(w, place);
}

static node_id batch_REDUCE(batch_walk *w, uint32_t place) {
    return batch_by_node(w, place);
}

static node_id batch_SCAN(batch_walk *w, uint32_t place) {
    return batch_by_node(w, place);
}

static node_id batch_INDEX(batch_walk *w, uint32_t place) {
    return batch_by_node(w, place);
}

/* Marks of a place in the graph are made anew, of both ways where there are two. */
static node_id batch_MARK(batch_walk *w, uint32_t place) {
    const graph_node x = *node_of(w, place);
    graph *g = w->g;
    node_id src[3] = {0};
    if (node_rank(g, w->order[place]) >= QN_MAX_RANK) refuse_rank(w, &x);
    if (x.op == OP_DETACH && x.bits)
        raise_error(g->ctx, QN_EGRAPH,
                    "vmap: a value that follows an example was assigned to a tensor in the body");
    for (int i = 0; i < node_links(&x); i++) src[i] = with_axis(w, x.src[i]);
    if (x.op == OP_APART) return make_apart(g, src[0]);
    if (src[1]) return make_again(g, node_of(w, place), src);
    return node_make(
        g,
        (node_form){x.op, (qn_dtype)x.dtype, stacked_shape(g, w->count, x.shape), x.attr, x.bits},
        1, src);
}

/* ---- example by example ---------------------------------------------------------------------- */

/* A loop over the examples, whose body is what a node does of one. */
typedef struct turns {
    batch_walk *w;
    node_id *slice, *sequence; /* room for as many as there are values */
    uint32_t slices;
} turns;

static turns turns_open(batch_walk *w, uint32_t values) {
    size_t size = ((size_t)values + 1) * sizeof(node_id);
    return (turns){w, arena_alloc(w->a, size), arena_alloc(w->a, size), 0};
}

/* In the body: one example of n, or n where it is the same for all. */
static node_id in_turn(turns *t, node_id n) {
    graph *g = t->w->g;
    node_id all = t->w->all[place_of(t->w, n)];
    const graph_node x = *node_at(g, n);
    if (!all) return n;
    t->sequence[t->slices] = all;
    return t->slice[t->slices++] =
               make_loop_argument(g, ARGUMENT_OPEN, ++g->serial, (qn_dtype)x.dtype, x.shape);
}

/* What the body makes for each example: `result` may be `out`. */
static void turns_close(const turns *t, uint32_t n, const node_id *out, node_id *result) {
    graph *g = t->w->g;
    loop_record r = {.attr = {.count = t->w->count}, .slices = t->slices, .outs = n};
    for (uint32_t i = 0; i < n; i++)
        if (node_rank(g, out[i]) >= QN_MAX_RANK) refuse_rank(t->w, node_at(g, out[i]));
    r.slice = t->slice;
    r.sequence = t->sequence;
    r.out = out;
    r.before = g->born;
    r.final = arena_alloc(t->w->a, sizeof *r.final);
    r.result = arena_alloc(t->w->a, ((size_t)n + 1) * sizeof *r.result);
    loop_close(g, t->w->a, &r);
    for (uint32_t i = 0; i < n; i++) result[i] = r.result[i];
}

/* ---- routines -------------------------------------------------------------------------------- */

/* One vector of SEARCH for all rows of the values, as it is where examples have each their own. */
static node_id repeated_rows(batch_walk *w, node_id sorted, node_id values) {
    graph *g = w->g;
    int n, m;
    const int64_t *rows = node_dims(g, sorted, &n), *dims = node_dims(g, values, &m);
    int64_t wide[QN_MAX_RANK], one[QN_MAX_RANK];
    if (n >= m) return sorted;
    for (int i = 0; i < m; i++) {
        wide[i] = i + 1 < m ? dims[i] : rows[n - 1];
        one[i] = i && i + 1 < m ? SYM_ONE : wide[i];
    }
    tuple_id narrow = graph_tuple(g, m, one), shape = graph_tuple(g, m, wide);
    return make_expand(g, make_reshape(g, sorted, narrow), shape);
}

static node_id batch_CALL(batch_walk *w, uint32_t place) {
    const graph_node x = *node_of(w, place);
    graph *g = w->g;
    call_attr call = node_call(g, &x);
    node_id src[ROUTINE_SOURCES] = {0}, out;
    if (routine_rows[call.routine].examples == EXAMPLES_WHOLE) {
        turns t = turns_open(w, x.sources);
        for (int i = 0; i < x.sources; i++) src[i] = in_turn(&t, x.src[i]);
        out = make_call(g, &call, (qn_dtype)x.dtype, x.shape, x.sources, src);
        turns_close(&t, 1, &out, &out);
        return out;
    }
    if (node_rank(g, w->order[place]) >= QN_MAX_RANK) refuse_rank(w, &x);
    for (int i = 0; i < x.sources; i++) {
        if (node_rank(g, x.src[i]) >= QN_MAX_RANK) refuse_rank(w, node_at(g, x.src[i]));
        src[i] = with_axis(w, x.src[i]);
    }
    if (call.routine == ROUTINE_SEARCH) src[0] = repeated_rows(w, src[0], src[1]);
    if (call.routine == ROUTINE_CUSTOM) call.attr[CUSTOM_LEADING]++;
    return make_call(g, &call, (qn_dtype)x.dtype, stacked_shape(g, w->count, x.shape), x.sources,
                     src);
}

/* ---- loops ----------------------------------------------------------------------------------- */

static batch_walk *walk_open(graph *g, arena *a, const batching *b, bool history);
static void walk_follow(batch_walk *w);
static void walk_make(batch_walk *w);

/* A loop's values, and which of them follow an example. */
typedef struct loop_inputs {
    loop_attr attr;
    uint32_t values, nexts;
    node_id *value, *next;
    bool *follows, own_trips; /* own_trips: how many trips there are does */
} loop_inputs;

static loop_inputs inputs_of(batch_walk *w, uint32_t place) {
    const graph_node x = *node_of(w, place);
    loop_inputs in = {.attr = node_loop(w->g, &x)};
    in.values = list_values(w->g, w->a, x.src[0], &in.value);
    in.nexts = list_values(w->g, w->a, node_body(&x), &in.next);
    in.follows = arena_zeroed(w->a, in.values + 1);
    for (uint32_t i = 0; i < in.values; i++) {
        in.follows[i] = w->all[place_of(w, in.value[i])] != 0;
        if (i >= in.attr.states + in.attr.sequences + in.attr.captures)
            in.own_trips |= in.follows[i];
    }
    return in;
}

/* The value that an argument of the closed body has: its place in the list. */
static uint32_t input_of(const loop_inputs *in, const graph_node *x) {
    int kind = argument_kind(x);
    return argument_number(x) + (kind == ARGUMENT_STATE   ? 0
                                 : kind == ARGUMENT_SLICE ? in->attr.states
                                                          : in->attr.states + in->attr.sequences);
}

static bool is_result_of(const batch_walk *w, uint32_t i, node_id loop) {
    const graph_node *x = node_of(w, i);
    return x->op == OP_RESULT && x->src[0] == loop;
}

static bool is_stack(const graph *g, const graph_node *result) {
    uint32_t number;
    return node_result(g, result, &number) == RESULT_STACK;
}

/* The body's walk, over all that is asked of a trip. */
static batch_walk *body_of(batch_walk *w, uint32_t place, const loop_inputs *in) {
    uint32_t n = in->nexts;
    node_id *root = arena_alloc(w->a, ((size_t)n + w->nodes + 1) * sizeof *root);
    for (uint32_t i = 0; i < n; i++) root[i] = in->next[i];
    for (uint32_t i = 0; i < w->nodes; i++)
        if (is_result_of(w, i, w->order[place]) && is_stack(w->g, node_of(w, i)))
            root[n++] = node_body(node_of(w, i));
    return walk_open(w->g, w->a, &(batching){.count = w->count, .roots = (int)n, .root = root},
                     false);
}

/* States follow an example where their next value does. */
static void find_states(batch_walk *body, loop_inputs *in) {
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < body->nodes; i++) {
            const graph_node *x = node_of(body, i);
            body->follows[i] = x->op == OP_ARGUMENT && in->follows[input_of(in, x)];
        }
        walk_follow(body);
        for (uint32_t i = 0; i < in->attr.states; i++) {
            if (in->follows[i] || !body->follows[place_of(body, in->next[i])]) continue;
            in->follows[i] = more = true;
        }
    }
    if (in->attr.tested) in->own_trips |= body->follows[place_of(body, in->next[in->nexts - 1])];
}

/* Exchange the first two axes. */
static node_id turned(graph *g, node_id x) {
    int axes[QN_MAX_RANK];
    for (int i = 0; i < QN_MAX_RANK; i++) axes[i] = i < 2 ? 1 - i : i;
    return make_permute(g, x, axes);
}

static batch_loop *batched_loop(batch_walk *w, const loop_inputs *in, batch_walk *body) {
    graph *g = w->g;
    batch_loop *l = arena_zeroed(w->a, sizeof *l);
    uint32_t rows = in->attr.states + in->attr.sequences;
    node_id *value = arena_alloc(w->a, (in->values + 1) * sizeof *value);
    node_id *next = arena_alloc(w->a, (in->nexts + 1) * sizeof *next);
    for (uint32_t i = 0; i < body->nodes; i++) {
        const graph_node x = *node_of(body, i);
        if (x.op != OP_ARGUMENT || !body->follows[i]) continue;
        body->all[i] = make_loop_argument(g, argument_kind(&x), argument_number(&x),
                                          (qn_dtype)x.dtype, stacked_shape(g, w->count, x.shape));
    }
    walk_make(body);
    for (uint32_t i = 0; i < in->values; i++) {
        bool row = i >= in->attr.states && i < rows;
        value[i] = in->follows[i] ? with_axis(w, in->value[i]) : in->value[i];
        if (row && in->follows[i]) value[i] = turned(g, value[i]);
    }
    for (uint32_t i = 0; i < in->nexts; i++) {
        bool all = i < in->attr.states && in->follows[i];
        next[i] = all ? with_axis(body, in->next[i]) : in->next[i];
    }
    l->body = body;
    l->follows = in->follows;
    l->loop = make_loop(g, &in->attr, make_list(g, w->a, in->values, value),
                        make_list(g, w->a, in->nexts, next));
    return l;
}

static node_id result_of(batch_walk *w, uint32_t place, node_id loop) {
    const graph_node x = *node_of(w, place);
    uint32_t number;
    int what = node_result(w->g, &x, &number);
    if (what == RESULT_TRIPS) return make_trips(w->g, loop);
    if (what == RESULT_STACK) return make_stack(w->g, loop, node_body(&x));
    return make_final(w->g, loop, number, (qn_dtype)x.dtype, x.shape);
}

/* The loop as it is, in a loop over the examples. */
static batch_loop *loop_in_turns(batch_walk *w, uint32_t place, const loop_inputs *in) {
    graph *g = w->g;
    batch_loop *l = arena_zeroed(w->a, sizeof *l);
    turns t = turns_open(w, in->values);
    node_id *value = arena_alloc(w->a, (in->values + 1) * sizeof *value);
    node_id *out = arena_alloc(w->a, ((size_t)w->nodes + 1) * sizeof *out);
    uint32_t n = 0, at = 0;
    for (uint32_t i = 0; i < in->values; i++) value[i] = in_turn(&t, in->value[i]);
    l->loop = make_loop(g, &in->attr, make_list(g, w->a, in->values, value),
                        node_body(node_of(w, place)));
    for (uint32_t i = 0; i < w->nodes; i++)
        if (is_result_of(w, i, w->order[place])) out[n++] = result_of(w, i, l->loop);
    turns_close(&t, n, out, out);
    for (uint32_t i = 0; i < w->nodes; i++)
        if (is_result_of(w, i, w->order[place])) w->all[i] = out[at++];
    return l;
}

/* LIST and LOOP have no value; results have. */
static node_id batch_LOOP(batch_walk *w, uint32_t place) {
    const graph_node x = *node_of(w, place);
    graph *g = w->g;
    uint32_t number;
    if (x.op == OP_LIST) return 0;
    if (x.op == OP_LOOP) {
        loop_inputs in = inputs_of(w, place);
        batch_walk *body = in.own_trips ? NULL : body_of(w, place, &in);
        if (body) find_states(body, &in);
        w->loop[place] = in.own_trips ? loop_in_turns(w, place, &in) : batched_loop(w, &in, body);
        return 0;
    }
    const batch_loop *l = w->loop[place_of(w, x.src[0])];
    if (!l->body) return w->all[place];
    int what = node_result(g, &x, &number);
    if (what == RESULT_TRIPS) return batch_same(g, make_trips(g, l->loop), w->count);
    if (node_rank(g, w->order[place]) >= QN_MAX_RANK) refuse_rank(w, &x);
    if (what == RESULT_STACK)
        return turned(g, make_stack(g, l->loop, with_axis(l->body, node_body(&x))));
    if (!l->follows[number]) return batch_same(g, result_of(w, place, l->loop), w->count);
    return make_final(g, l->loop, number, (qn_dtype)x.dtype, stacked_shape(g, w->count, x.shape));
}

/* ---- the walk -------------------------------------------------------------------------------- */

batch_rule *const batch_rules[OP_COUNT] = {
#define X(NAME, name, arity, CLASS, ...) [OP_##NAME] = batch_##CLASS,
#include "graph/ops.h"
#undef X
};

static batch_walk *walk_open(graph *g, arena *a, const batching *b, bool history) {
    batch_walk *w = arena_zeroed(a, sizeof *w);
    *w = (batch_walk){.g = g, .a = a, .count = b->count, .slots = 16};
    uint32_t born = history ? UINT32_MAX : 0;
    for (int i = 0; i < b->n; i++)
        if (g->node[b->from[i]].born < born) born = g->node[b->from[i]].born;
    w->nodes = graph_order_history(g, a, b->roots, b->root, born, &w->order);
    while (w->slots < 2 * w->nodes) w->slots *= 2;
    w->index = arena_zeroed(a, w->slots * sizeof *w->index);
    w->all = arena_zeroed(a, (w->nodes + 1) * sizeof *w->all);
    w->follows = arena_zeroed(a, w->nodes + 1);
    w->loop = arena_zeroed(a, (w->nodes + 1) * sizeof *w->loop);
    for (uint32_t i = 0; i < w->nodes; i++) w->index[slot_of(w, w->order[i])] = i + 1;
    return w;
}

/* A source that is older than all examples, of a node that is, is none of the walk. */
static bool link_follows(const batch_walk *w, node_id n) {
    uint32_t place = place_of(w, n);
    return place != UINT32_MAX && w->follows[place];
}

/* The zero behind a chain of given gradients stands for each example's own. */
static bool follow_behind(batch_walk *w, node_id n) {
    while (node_at(w->g, n)->op == OP_CUSTOM) n = node_at(w->g, n)->src[0];
    uint32_t place = place_of(w, n);
    if (place == UINT32_MAX || w->follows[place]) return false;
    return w->follows[place] = true;
}

/* From what is known to follow an example to all that does. */
static void walk_follow(batch_walk *w) {
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < w->nodes; i++) {
            const graph_node *x = node_of(w, i);
            for (int s = 0; s < node_links(x); s++) w->follows[i] |= link_follows(w, x->src[s]);
            if (x->op == OP_CUSTOM && w->follows[i]) again |= follow_behind(w, w->order[i]);
        }
    }
}

static void walk_make(batch_walk *w) {
    for (uint32_t i = 0; i < w->nodes; i++)
        if (w->follows[i] && !w->all[i]) w->all[i] = batch_rules[node_of(w, i)->op](w, i);
}

void graph_batch(graph *g, arena *a, const batching *b) {
    batch_walk *w = walk_open(g, a, b, true);
    for (int i = 0; i < b->n; i++) {
        uint32_t place = place_of(w, b->from[i]);
        if (place == UINT32_MAX) continue; /* nothing follows it */
        w->follows[place] = true;
        w->all[place] = b->to[i];
    }
    walk_follow(w);
    walk_make(w);
    for (int i = 0; i < b->roots; i++) b->out[i] = w->all[place_of(w, b->root[i])];
}
