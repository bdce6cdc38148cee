/* loop.c - loops as ONNX's Loop.
 *
 * The body is a graph in the node, written as the graph around it is, in a scope of its own: its
 * arguments are values of their own, but what it captures is the outer value, which it sees. A trip
 * gathers its row of each sequence. What it stacks comes out in the order of trips and only of
 * those that were made; so it is turned around for a loop that goes backwards, and zeros follow. */
#include "onnx/save/save.h"

#include "graph/loop/loop.h"

typedef struct looping {
    loop_attr attr;
    node_id loop, *input, *next, *stack; /* stack: nodes of the body */
    uint32_t inputs, nexts, stacks;
    val trips;        /* how many there may be, a scalar */
    val at, going;    /* in the body: which trip, and whether there is one */
    val *first;       /* by input: outside */
    val *state, *row; /* in the body */
} looping;

/* ---- the body -------------------------------------------------------------------------------- */

static val scalar_of(saving *s, val list) {
    return spell(s, QN_I64, 2, (val[]){list, save_ints(s, 0, NULL)}, "Reshape(x,y)");
}

static void open_rows(saving *s, looping *l) {
    const val in[2] = {l->at, l->trips};
    val row = l->at;
    if (l->attr.reverse && l->attr.sequences) row = spell(s, QN_I64, 2, in, "Sub(Sub(y,1),x)");
    for (uint32_t i = 0; i < l->attr.sequences; i++) {
        const val of[2] = {l->first[l->attr.states + i], row};
        l->row[i] = spell(s, QN_I64, 2, of, "Gather[axis=0](x,y)");
    }
}

/* The values of the body's arguments. */
static void bind_arguments(saving *s, const looping *l) {
    for (uint32_t i = 0; i < s->in->nodes; i++) {
        const graph_node *x = node_at(s->g, s->in->order[i]);
        if (x->op != OP_ARGUMENT) continue;
        uint32_t n = argument_number(x);
        int kind = argument_kind(x);
        uint32_t captured = l->attr.states + l->attr.sequences + n;
        s->in->node[i].slim = kind == ARGUMENT_STATE     ? l->state[n]
                              : kind == ARGUMENT_SLICE   ? l->row[n]
                              : kind == ARGUMENT_CAPTURE ? l->first[captured]
                                                         : 0;
        if (!s->in->node[i].slim) save_refuse(s, QN_EGRAPH, "a value of another loop's body");
        val_shape(s, s->in->node[i].slim, x->shape);
    }
}

static val copied(saving *s, val v) {
    return spell(s, QN_I64, 1, &v, "Identity(x)");
}

static void put_in(saving *s, val v, qn_dtype dtype, tuple_id shape, str *out) {
    wire_info(s, 11, v, dtype, shape, out);
}

static void put_out(saving *s, node_id n, str *out) {
    const graph_node *x = node_at(s->g, n);
    wire_info(s, 12, copied(s, full_of(s, n)), (qn_dtype)x->dtype, x->shape, out);
}

/* Its GraphProto: the nodes, and behind them what goes in and comes out. */
static void write_body(saving *s, looping *l, node_id *root, str *body) {
    save_scope *outer = s->in, inner = {0};
    str *out = s->out, ends;
    uint32_t sizes = s->sizes;
    str_open_in(&ends, &s->a);
    s->out = body;
    s->in = &inner;
    save_open_scope(s, l->nexts + l->stacks, root);
    l->at = val_new(s, NULL);
    l->going = val_new(s, NULL);
    put_in(s, l->at, QN_I64, 0, &ends);
    put_in(s, l->going, QN_BOOL, 0, &ends);
    for (uint32_t i = 0; i < l->attr.states; i++) {
        const graph_node *x = node_at(s->g, l->input[i]);
        l->state[i] = val_new(s, NULL);
        put_in(s, l->state[i], (qn_dtype)x->dtype, x->shape, &ends);
    }
    val count = val_new(s, NULL);
    put_in(s, count, QN_I64, 0, &ends);
    open_rows(s, l);
    bind_arguments(s, l);
    save_mark_scope(s, l->nexts + l->stacks, root);
    save_write_scope(s);
    if (l->attr.tested)
        put_out(s, root[l->attr.states], &ends);
    else
        wire_info(s, 12, copied(s, l->going), QN_BOOL, 0, &ends);
    for (uint32_t i = 0; i < l->attr.states; i++) put_out(s, root[i], &ends);
    count = spell(s, QN_I64, 1, &count, "Add(x,1)");
    wire_info(s, 12, count, QN_I64, 0, &ends);
    for (uint32_t i = 0; i < l->stacks; i++) put_out(s, root[l->nexts + i], &ends);
    wire_text(body, 2, "body");
    str_addn(body, ends.s, ends.len);
    s->in = outer;
    s->out = out;
    s->sizes = sizes; /* those of the body are not seen outside */
}

/* ---- results --------------------------------------------------------------------------------- */

/* The rows that a loop gave in their order, and zeros for those that it did not. */
static val all_rows(saving *s, const looping *l, val v, const graph_node *x) {
    const int64_t back[4] = {-1, INT64_MIN, 0, -1}, count = l->attr.count;
    if (l->attr.reverse) {
        const val in[5] = {v, save_ints(s, 1, &back[0]), save_ints(s, 1, &back[1]),
                           save_ints(s, 1, &back[2]), save_ints(s, 1, &back[3])};
        v = spell(s, QN_I64, 5, in, "Slice(x,y,z,u,v)");
    }
    if (!l->attr.limited && !l->attr.tested) return v;
    const int64_t axis = 0;
    qn_dtype dtype = (qn_dtype)x->dtype, in = save_wide(s, save_rows[OP_PAD].types, dtype);
    const val of[5] = {save_cast(s, v, dtype, in), l->trips, save_sizes(s, 1, &count),
                       save_ints(s, 1, &axis), save_ints(s, 1, (const int64_t[]){1})};
    v = spell(s, QN_I64, 5, of,
              l->attr.reverse ? "m=Shape[start=0;end=1](x);t=Reshape(y,v);a=Sub(t,m);b=Sub(z,t);"
                                "Pad(x,Concat[axis=0](a,b),,u)"
                              : "m=Shape[start=0;end=1](x);Pad(x,Concat[axis=0](u,Sub(z,m)),,u)");
    return save_cast(s, v, in, dtype);
}

/* Does the result take part in what is written? Then which node of the body it stacks, if any. */
static bool is_wanted(const saving *s, uint32_t place, node_id loop, int *what, uint32_t *number) {
    const graph_node *x = node_at(s->g, s->in->order[place]);
    if (!node_is_result(x) || x->src[0] != loop || !s->in->node[place].needed) return false;
    *what = node_result(s->g, x, number);
    return true;
}

static void find_stacks(saving *s, looping *l) {
    uint32_t number;
    int what;
    l->stack = arena_alloc(&s->a, (s->in->nodes + 1) * sizeof *l->stack);
    for (uint32_t i = 0; i < s->in->nodes; i++)
        if (is_wanted(s, i, l->loop, &what, &number) && what == RESULT_STACK)
            l->stack[l->stacks++] = node_body(node_at(s->g, s->in->order[i]));
}

/* Behind the loop's own values, which begin with `first`: states, how many trips, stacks. */
static void give_results(saving *s, const looping *l, val first) {
    uint32_t number, stack = 0;
    int what;
    for (uint32_t i = 0; i < s->in->nodes; i++) {
        const graph_node *x = node_at(s->g, s->in->order[i]);
        if (!is_wanted(s, i, l->loop, &what, &number)) continue;
        val v = first + l->attr.states;
        if (what == RESULT_FINAL) v = first + number;
        if (what == RESULT_STACK) v = all_rows(s, l, first + l->attr.states + 1 + stack++, x);
        s->in->node[i].slim = v;
        val_shape(s, v, x->shape);
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void find_trips(saving *s, looping *l) {
    const int64_t count = l->attr.count;
    uint32_t limit = l->attr.states + l->attr.sequences + l->attr.captures;
    l->trips = scalar_of(s, save_sizes(s, 1, &count));
    if (l->attr.limited)
        l->trips = spell(s, QN_I64, 2, (val[]){l->trips, l->first[limit]}, "Max(Min(x,y),0)");
    val_written(s, l->trips);
}

/* In an order that holds them all already: a list is no value. */
void save_loop(saving *s, const graph_node *x) {
    looping l = {.attr = node_loop(s->g, x), .loop = s->current};
    l.inputs = list_values(s->g, &s->a, x->src[0], &l.input);
    l.first = arena_alloc(&s->a, (l.inputs + 1) * sizeof *l.first);
    for (uint32_t i = 0; i < l.inputs; i++) {
        l.first[i] = full_of(s, l.input[i]);
        if (!s->marking) val_written(s, l.first[i]);
    }
    save_done(s, 1);
    if (s->marking) return;
    l.nexts = list_values(s->g, &s->a, node_body(x), &l.next);
    l.state = arena_alloc(&s->a, (l.attr.states + 1) * sizeof *l.state);
    l.row = arena_alloc(&s->a, (l.attr.sequences + 1) * sizeof *l.row);
    find_trips(s, &l);
    find_stacks(s, &l);
    str body;
    str_open_in(&body, &s->a);
    node_id *root = arena_alloc(&s->a, (l.nexts + l.stacks + 1) * sizeof *root);
    for (uint32_t i = 0; i < l.nexts; i++) root[i] = l.next[i];
    for (uint32_t i = 0; i < l.stacks; i++) root[l.nexts + i] = l.stack[i];
    write_body(s, &l, root, &body);
    s->current = l.loop;
    uint32_t ins = 3 + l.attr.states, outs = l.attr.states + 1 + l.stacks;
    val *in = arena_alloc(&s->a, ins * sizeof *in), first = val_new(s, NULL);
    for (uint32_t i = 1; i < outs; i++) (void)val_new(s, NULL);
    in[0] = l.trips;
    in[1] = l.attr.tested ? l.first[l.inputs - 1] : save_scalar(s, QN_BOOL, 1);
    for (uint32_t i = 0; i < l.attr.states; i++) in[2 + i] = l.first[i];
    in[ins - 1] = save_scalar(s, QN_I64, 0);
    wire_loop(s, (int)ins, in, (int)outs, first, &body);
    give_results(s, &l, first);
}

/* Its value is given by the loop. */
void save_result(saving *s, const graph_node *x) {
    (void)slim_of(s, x->src[0]);
    if (s->marking) save_done(s, 1);
}
