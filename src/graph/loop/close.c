/* close.c - from a recorded body to a loop.
 *
 * What was recorded are nodes over OPEN arguments, and over anything else there is. A node follows
 * the state, or only slices, or neither.
 *
 *   - What follows neither is the same in each trip: it is computed outside, and captured where the
 *     body uses it. Constants, masks of places, and views are no work: they stay, views of what is
 *     captured. So the loop goes past them, and gradients by them must know (grad/past.c). Floats
 *     made of places and constants before the loop may be variables, as random weights are: they
 *     are captured.
 *   - A product of what follows only slices with what is the same in each trip is made of all trips
 *     at once, as one product outside, whose result is one more sequence (`hoisted`). It is what
 *     makes x @ w of a recurrent network a single product.
 *   - Everything else is made again on arguments that are counted by kind, and is the closed body.
 *     So is what is made of what comes to a gradient that is given (given.c): it has a value on the
 *     way back alone.
 *
 * What gradients take their way by is looked at as sources are, but no product is hoisted for it:
 * that would compute what none may ask for.
 *
 * A result may be the sum over all trips, a weight's gradient. A sum of products is then taken of
 * all trips at once, behind the loop, over operands that are stacked: one contraction, and not one
 * in each trip and a sum of those. Where data say how many trips there are, all of it is stacked,
 * for what is stacked is 0 behind the last trip. */
#include "graph/graph.h"
#include "graph/loop/loop.h"

enum { FOLLOWS_STATE = 1, FOLLOWS_SLICE = 2, FOLLOWS_GIVEN = 4 };

typedef struct closing {
    graph *g;
    arena *a;
    loop_record *r;
    bool exact;     /* all trips are made */
    uint32_t nodes; /* what was recorded, by place: */
    node_id *order;
    uint8_t *follows;
    loop_given given;
    bool *valued;  /* a value that is asked for is made of it */
    bool *small;   /* made of places and constants by element, or of what is a branch's */
    bool *able;    /* can be had for all trips at once, of slices and what is the same */
    bool *hoisted; /* its value for all trips is a sequence */
    bool *inside;  /* a node of the closed body */
    bool *stacked; /* and its values of all trips are wanted */
    bool *whole;   /* is wanted for all trips at once */
    node_id *closed, *batched;
    /* of the loop */
    node_id *sequence, *capture, *next;
    uint32_t sequences, sequence_cap, captures, capture_cap, nexts;
    node_id *next_root;
} closing;

static uint32_t place_of(const closing *c, node_id n) {
    return node_at(c->g, n)->mark - c->g->mark_base;
}

/* ---- what follows what ----------------------------------------------------------------------- */

/* The number of n among the record's arguments, or UINT32_MAX. */
static uint32_t among(uint32_t count, const node_id *list, node_id n) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == n) return i;
    return UINT32_MAX;
}

static bool is_state(const closing *c, node_id n) {
    return among(c->r->states, c->r->state, n) != UINT32_MAX;
}

static bool is_slice(const closing *c, node_id n) {
    return among(c->r->slices, c->r->slice, n) != UINT32_MAX;
}

/* Does it stay in the body, whatever it is of? Views are no work, and a list is no value. */
static bool stays(const graph_node *x) {
    return !node_is_memory(x) && (op_rows[x->op].class_ == CLASS_MOVE || x->op == OP_LIST);
}

/* Floats by element that are older than the body. */
static bool may_be_variable(const closing *c, const graph_node *x) {
    return x->sources && x->born <= c->r->before && dtype_is_float(x->dtype) &&
           op_rows[x->op].class_ == CLASS_ELEM;
}

/* Is it a product with what is the same in each trip? */
static bool is_weighed(const closing *c, const graph_node *x) {
    return x->op == OP_SUM_PRODUCT &&
           (!c->follows[place_of(c, x->src[0])] || !c->follows[place_of(c, x->src[1])]);
}

static void look(closing *c, uint32_t i) {
    const graph_node *x = node_at(c->g, c->order[i]);
    bool memory = node_is_memory(x), leaf = memory || !x->sources;
    int class_ = op_rows[x->op].class_;
    bool small = !memory && (x->op == OP_CONST || x->op == OP_IOTA || class_ == CLASS_ELEM ||
                             class_ == CLASS_MOVE);
    bool able = leaf || batch_takes(c->g, x);
    uint8_t follows = c->given.follows[i] ? FOLLOWS_GIVEN : 0;
    if (x->op == OP_ARGUMENT)
        follows |= is_state(c, c->order[i])   ? FOLLOWS_STATE
                   : is_slice(c, c->order[i]) ? FOLLOWS_SLICE
                                              : 0;
    for (int s = 0; s < node_links(x) && !memory; s++) {
        uint32_t from = place_of(c, x->src[s]);
        follows |= c->follows[from] & ~FOLLOWS_GIVEN; /* that is each node's own */
        small &= c->small[from];
        able &= c->able[from] || !c->follows[from];
    }
    small &= !may_be_variable(c, x);
    small |= !memory && c->r->born && x->born > c->r->born;
    able &=
        !(follows & (FOLLOWS_STATE | FOLLOWS_GIVEN)) && node_rank(c->g, c->order[i]) < QN_MAX_RANK;
    c->follows[i] = follows;
    c->small[i] = small;
    c->able[i] = able;
    c->hoisted[i] = c->exact && !c->r->attr.frugal && c->valued[i] && able &&
                    follows == FOLLOWS_SLICE && is_weighed(c, x);
}

/* ---- what is wanted -------------------------------------------------------------------------- */

/* How a sum over all trips is made of node i: of that of its source, or of both its sources; as the
 * sum that it is, with one more axis; or by summing its values. */
enum { SUM_VALUES, SUM_SOURCES, SUM_AXES };
static int sum_way(const closing *c, uint32_t i) {
    const graph_node *x = node_at(c->g, c->order[i]);
    if (node_is_memory(x) || node_rank(c->g, c->order[i]) >= QN_MAX_RANK) return SUM_VALUES;
    if (x->op == OP_RESHAPE || x->op == OP_PERMUTE) return SUM_SOURCES;
    if (x->op == OP_ADD && dtype_is_float(x->dtype)) return SUM_SOURCES;
    bool sum = x->op == OP_SUM || x->op == OP_SUM_PRODUCT;
    return sum && batch_takes(c->g, x) ? SUM_AXES : SUM_VALUES;
}

static void want_sum(closing *c, uint32_t root) {
    uint32_t *todo = arena_alloc(c->a, (2 * (size_t)c->nodes + 2) * sizeof *todo), n = 0;
    bool *seen = arena_zeroed(c->a, c->nodes + 1);
    todo[n++] = root;
    while (n) {
        uint32_t i = todo[--n];
        if (seen[i]) continue;
        seen[i] = true;
        const graph_node *x = node_at(c->g, c->order[i]);
        int way = c->follows[i] ? sum_way(c, i) : SUM_VALUES;
        if (way == SUM_VALUES) c->whole[i] = true;
        for (int s = 0; way != SUM_VALUES && s < x->sources; s++) {
            uint32_t from = place_of(c, x->src[s]);
            if (way == SUM_AXES)
                c->whole[from] = true;
            else
                todo[n++] = from;
        }
    }
}

/* Of what is wanted for all trips at once: is it made of such values of its sources? */
static bool is_made_whole(const closing *c, uint32_t i) {
    const graph_node *x = node_at(c->g, c->order[i]);
    if (!c->follows[i] || node_is_memory(x)) return false;
    bool view = op_rows[x->op].class_ == CLASS_MOVE && batch_takes(c->g, x);
    return (c->exact && c->able[i]) || view;
}

/* Is it there for all trips without the loop? */
static bool is_there(const closing *c, uint32_t i) {
    return c->exact && (!c->follows[i] || is_slice(c, c->order[i]));
}

/* From users to sources, so that all uses are known. */
static void want(closing *c) {
    for (uint32_t i = c->nodes; i-- > 0;) {
        const graph_node *x = node_at(c->g, c->order[i]);
        if (c->inside[i] && c->hoisted[i]) c->whole[i] = true;
        if (c->whole[i] && is_made_whole(c, i))
            for (int s = 0; s < x->sources; s++) c->whole[place_of(c, x->src[s])] = true;
        else if (c->whole[i] && !is_there(c, i))
            c->inside[i] = c->stacked[i] = true;
        if (!c->inside[i] || c->hoisted[i] || node_is_memory(x)) continue;
        bool inside = c->follows[i] || c->small[i] || stays(x);
        for (int s = 0; s < node_links(x) && inside; s++) c->inside[place_of(c, x->src[s])] = true;
    }
}

/* ---- what is made ---------------------------------------------------------------------------- */

static node_id capture(closing *c, node_id n) {
    const graph_node x = *node_at(c->g, n);
    c->capture = arena_grow(c->a, c->capture, &c->capture_cap, c->captures + 1, sizeof *c->capture);
    c->capture[c->captures] = n;
    return make_loop_argument(c->g, ARGUMENT_CAPTURE, c->captures++, (qn_dtype)x.dtype, x.shape);
}

static node_id add_sequence(closing *c, uint32_t i, node_id all) {
    const graph_node x = *node_at(c->g, c->order[i]);
    c->sequence =
        arena_grow(c->a, c->sequence, &c->sequence_cap, c->sequences + 1, sizeof *c->sequence);
    c->sequence[c->sequences] = all;
    return make_loop_argument(c->g, ARGUMENT_SLICE, c->sequences++, (qn_dtype)x.dtype, x.shape);
}

/* Node i of the closed body. */
static node_id close_node(closing *c, uint32_t i) {
    node_id n = c->order[i], src[3];
    graph_node *x = node_at(c->g, n);
    if (x->op == OP_ARGUMENT && c->follows[i]) {
        uint32_t number = among(c->r->states, c->r->state, n);
        if (number != UINT32_MAX)
            return make_loop_argument(c->g, ARGUMENT_STATE, number, (qn_dtype)x->dtype, x->shape);
        return add_sequence(c, i, c->r->sequence[among(c->r->slices, c->r->slice, n)]);
    }
    if (c->hoisted[i]) return add_sequence(c, i, c->batched[i]);
    if (!c->follows[i] && !c->small[i] && !stays(x)) return capture(c, n);
    if (!c->follows[i] && x->sources) x->passed = 1;
    for (int s = 0; s < node_links(x); s++) src[s] = c->closed[place_of(c, x->src[s])];
    return make_again(c->g, x, src);
}

/* Node i for all trips, where that needs no loop. */
static node_id whole_node(closing *c, uint32_t i) {
    node_id n = c->order[i], src[3];
    const graph_node *x = node_at(c->g, n);
    if (c->stacked[i]) return 0;
    if (!c->follows[i]) return batch_same(c->g, n, c->r->attr.count);
    if (is_slice(c, n)) return c->r->sequence[among(c->r->slices, c->r->slice, n)];
    for (int s = 0; s < x->sources; s++) {
        src[s] = c->batched[place_of(c, x->src[s])];
        if (!src[s]) return 0;
    }
    return batch_node(c->g, x, c->r->attr.count, src);
}

/* And the others: what the loop stacks, and what is made of that. */
static void finish_whole(closing *c) {
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (!c->whole[i] || c->batched[i]) continue;
        c->batched[i] =
            c->stacked[i] ? make_stack(c->g, c->r->loop, c->closed[i]) : whole_node(c, i);
    }
}

/* Sums of halves are taken in f32. */
static node_id sum_values(graph *g, node_id x) {
    qn_dtype d = (qn_dtype)node_at(g, x)->dtype;
    if (!dtype_is_narrow(d)) return make_reduce(g, OP_SUM, x, 1);
    return make_cast(g, make_reduce(g, OP_SUM, make_cast(g, x, QN_F32), 1), d);
}

static node_id sum_of(closing *c, uint32_t root) {
    graph *g = c->g;
    uint32_t *todo = arena_alloc(c->a, (4 * (size_t)c->nodes + 4) * sizeof *todo), n = 0;
    node_id *sum = arena_zeroed(c->a, (c->nodes + 1) * sizeof *sum);
    todo[n++] = root;
    while (n) {
        uint32_t i = todo[n - 1];
        const graph_node *x = node_at(g, c->order[i]);
        int way = c->follows[i] ? sum_way(c, i) : SUM_VALUES;
        node_id src[3] = {0};
        bool ready = true;
        for (int s = 0; way != SUM_VALUES && s < x->sources; s++) {
            uint32_t from = place_of(c, x->src[s]);
            src[s] = way == SUM_AXES ? c->batched[from] : sum[from];
            if (!src[s] && way == SUM_SOURCES) todo[n++] = from, ready = false;
        }
        if (!ready) continue;
        n--;
        if (sum[i]) continue;
        sum[i] = way == SUM_SOURCES ? make_again(g, x, src)
                 : way == SUM_AXES  ? batch_sum(g, x, src)
                                    : sum_values(g, c->batched[i]);
    }
    return sum[root];
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* `x` with other values of the states, where it follows them. Its marks are a traversal's. */
static node_id replaced(closing *c, node_id x, const node_id *state) {
    node_id *order, src[3];
    uint32_t nodes = graph_order_links(c->g, c->a, 1, &x, &order);
    node_id *to = arena_alloc(c->a, (nodes + 1) * sizeof *to);
    for (uint32_t i = 0; i < nodes; i++) node_at(c->g, order[i])->mark = i;
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *n = node_at(c->g, order[i]);
        uint32_t number = among(c->r->states, c->r->state, order[i]);
        to[i] = number != UINT32_MAX ? state[number] : order[i];
        if (node_is_memory(n)) continue;
        for (int s = 0; s < node_links(n); s++) src[s] = to[node_at(c->g, n->src[s])->mark];
        to[i] = make_again(c->g, n, src);
    }
    return to[nodes - 1];
}

static void find_nexts(closing *c) {
    loop_record *r = c->r;
    c->next_root = arena_alloc(c->a, (r->states + 2) * sizeof *c->next_root);
    for (uint32_t i = 0; i < r->states; i++) c->next_root[c->nexts++] = r->next[i];
    if (r->test) c->next_root[c->nexts++] = replaced(c, r->test, r->next);
}

/* Is output i made for all trips at once, behind or before the loop? */
static bool is_apart(const closing *c, uint32_t i) {
    return c->r->apart && c->able[i];
}

static void find_wanted(closing *c) {
    const loop_record *r = c->r;
    for (uint32_t i = 0; i < c->nexts; i++) c->inside[place_of(c, c->next_root[i])] = true;
    for (uint32_t i = 0; i < r->outs; i++) {
        uint32_t place = place_of(c, r->out[i]);
        if (r->how && r->how[i] == LOOP_SUMMED)
            want_sum(c, place);
        else if (is_apart(c, place))
            c->whole[place] = true;
        else
            c->inside[place] = true;
    }
    want(c);
}

static void open_arrays(closing *c) {
    size_t n = (size_t)c->nodes + 1;
    bool **flag[] = {&c->valued, &c->small,   &c->able, &c->hoisted,
                     &c->inside, &c->stacked, &c->whole};
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++) *flag[i] = arena_zeroed(c->a, n);
    c->follows = arena_zeroed(c->a, n);
    c->closed = arena_zeroed(c->a, n * sizeof *c->closed);
    c->batched = arena_zeroed(c->a, n * sizeof *c->batched);
}

static void make_it(closing *c, node_id first_test) {
    loop_record *r = c->r;
    graph *g = c->g;
    uint32_t inputs = 0;
    r->attr.states = r->states;
    r->attr.sequences = c->sequences;
    r->attr.captures = c->captures;
    r->attr.limited = r->limit != 0;
    r->attr.tested = r->test != 0;
    size_t most = (size_t)r->states + c->sequences + c->captures + 2;
    node_id *in = arena_alloc(c->a, most * sizeof *in);
    node_id *next = arena_alloc(c->a, (c->nexts + 1) * sizeof *next);
    for (uint32_t i = 0; i < r->states; i++) in[inputs++] = r->init[i];
    for (uint32_t i = 0; i < c->sequences; i++) in[inputs++] = c->sequence[i];
    for (uint32_t i = 0; i < c->captures; i++) in[inputs++] = c->capture[i];
    if (r->limit) in[inputs++] = r->limit;
    if (first_test) in[inputs++] = first_test;
    for (uint32_t i = 0; i < c->nexts; i++) next[i] = c->closed[place_of(c, c->next_root[i])];
    r->loop =
        make_loop(g, &r->attr, make_list(g, c->a, inputs, in), make_list(g, c->a, c->nexts, next));
}

static void find_valued(closing *c, uint32_t roots, const node_id *root) {
    for (uint32_t i = 0; i < roots; i++) c->valued[place_of(c, root[i])] = true;
    for (uint32_t i = c->nodes; i-- > 0;) {
        const graph_node *x = node_at(c->g, c->order[i]);
        if (!c->valued[i] || node_is_memory(x)) continue;
        for (int s = 0; s < x->sources; s++) c->valued[place_of(c, x->src[s])] = true;
    }
}

void loop_close_whole(graph *g, arena *a, loop_record *r) {
    closing c = {.g = g, .a = a, .r = r, .exact = !r->limit && !r->test};
    node_id first_test = r->test ? replaced(&c, r->test, r->init) : 0;
    find_nexts(&c);
    uint32_t roots = c.nexts + r->outs;
    node_id *root = arena_alloc(a, (roots + 1) * sizeof *root);
    for (uint32_t i = 0; i < c.nexts; i++) root[i] = c.next_root[i];
    for (uint32_t i = 0; i < r->outs; i++) root[c.nexts + i] = r->out[i];
    c.nodes = graph_order_links(g, a, (int)roots, root, &c.order);
    open_arrays(&c);
    c.given = loop_find_given(g, a, c.nodes, c.order);
    find_valued(&c, roots, root);
    for (uint32_t i = 0; i < c.nodes; i++) look(&c, i);
    find_wanted(&c);
    for (uint32_t i = 0; i < c.nodes; i++) {
        if (c.whole[i]) c.batched[i] = whole_node(&c, i);
        if (c.inside[i]) c.closed[i] = close_node(&c, i);
    }
    make_it(&c, first_test);
    finish_whole(&c);
    for (uint32_t i = 0; i < r->states; i++) {
        const graph_node x = *node_at(g, r->init[i]);
        r->final[i] = make_final(g, r->loop, i, (qn_dtype)x.dtype, x.shape);
    }
    for (uint32_t i = 0; i < r->outs; i++) {
        uint32_t place = place_of(&c, r->out[i]);
        bool sum = r->how && r->how[i] == LOOP_SUMMED;
        r->result[i] = sum                   ? sum_of(&c, place)
                       : is_apart(&c, place) ? c.batched[place]
                                             : make_stack(g, r->loop, c.closed[place]);
    }
}

void loop_close(graph *g, arena *a, loop_record *r) {
    if (!loop_distribute(g, a, r)) loop_close_whole(g, a, r);
}
