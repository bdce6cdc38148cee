/* control.c - If, Loop and Scan.
 *
 * A condition that is known chooses its branch while the model is recorded, and so does one that is
 * not, after it was read: qn_onnx_depends() tells of it. A loop's trips are recorded one after the
 * other, for states may change their shapes from trip to trip; a scan of many rows, whose states do
 * not, is one loop (quern.h) whatever its length. */
#include "onnx/onnx.h"

enum { UNROLL_MOST = 16, TRIPS_MOST = 1 << 20 };

static const onnx_graph *graph_of(onnx_op *o, const char *name) {
    const onnx_attr *at = op_attr(o, name);
    if (!at || !at->graph) op_fail(o, QN_EFORMAT, "no graph %s", name);
    return at->graph;
}

/* The one element of a condition, now. */
static bool truth_of(onnx_op *o, onnx_value *v) {
    onnx_op of = *o;
    of.value = &v;
    of.n_in = 1;
    return op_int(&of, 0, 1) != 0;
}

void op_if(onnx_op *o) {
    const onnx_graph *g = graph_of(o, truth_of(o, o->value[0]) ? "then_branch" : "else_branch");
    if ((int)g->n_out < o->n_out) op_fail(o, QN_EARG, "a branch of %u outputs", g->n_out);
    onnx_value **out = op_alloc(o, g->n_out, sizeof *out);
    run_graph(o->run, o->frame, g, 0, NULL, out);
    for (int k = 0; k < o->n_out; k++) o->made[k] = out[k];
}

/* Rows of what is stacked, in the model's context. */
typedef struct stack {
    qn_tensor **row;
    uint32_t n, cap;
    int type;
} stack;

static void stack_push(onnx_op *o, stack *s, onnx_value *v) {
    s->row = arena_grow(&o->run->a, s->row, &s->cap, s->n + 1, sizeof *s->row);
    s->row[s->n++] = value_main(o->run, v);
    s->type = v->type;
}

/* Of no rows the shape is what the body's output says. */
static qn_tensor *stack_all(onnx_op *o, const stack *s, const onnx_info *like, int axis,
                            int *type) {
    *type = s->n ? s->type : like->type;
    if (s->n) return qn_stack((int)s->n, s->row, axis);
    int64_t shape[QN_MAX_RANK] = {0};
    const onnx_type *t = onnx_type_of(like->type);
    if (!t || like->rank < 0 || like->rank >= QN_MAX_RANK)
        op_fail(o, QN_ESHAPE, "no trip, and no shape for output \"%.60s\"", like->name);
    for (int i = 0; i < like->rank; i++) shape[1 + i] = like->shape[i] < 0 ? 0 : like->shape[i];
    return qn_zeros(o->qn, t->carrier, like->rank + 1, shape);
}

static onnx_value *known_value(onnx_op *o, int type, int64_t v) {
    qn_ctx *aside = o->run->model->aside;
    qn_tensor *t = qn_scalar_int(aside, onnx_types[type].carrier, v);
    return value_new(o->run, "", t, type, true);
}

void op_loop(onnx_op *o) {
    const onnx_graph *g = graph_of(o, "body");
    int states = o->n_in - 2, stacks = (int)g->n_out - 1 - states;
    if (states < 0 || stacks < 0 || (int)g->n_in != 2 + states || o->n_out > states + stacks)
        op_fail(o, QN_EARG, "a body of %u inputs and %u outputs", g->n_in, g->n_out);
    int64_t trips = op_int(o, 0, INT64_MAX), t = 0;
    onnx_value **in = op_alloc(o, g->n_in, sizeof *in), **out = op_alloc(o, g->n_out, sizeof *out);
    stack *rows = op_alloc(o, (size_t)stacks, sizeof *rows);
    for (int i = 0; i < states; i++) in[2 + i] = o->value[2 + i];
    in[1] = op_has(o, 1) ? o->value[1] : known_value(o, ONNX_BOOL, 1);
    for (; t < trips && truth_of(o, in[1]); t++) {
        if (t == TRIPS_MOST) op_fail(o, QN_ERANGE, "more than %d trips", TRIPS_MOST);
        in[0] = known_value(o, ONNX_INT64, t);
        run_graph(o->run, o->frame, g, (int)g->n_in, in, out);
        in[1] = out[0];
        for (int i = 0; i < states; i++) in[2 + i] = out[1 + i];
        for (int i = 0; i < stacks; i++) stack_push(o, &rows[i], out[1 + states + i]);
    }
    for (int k = 0; k < o->n_out; k++) {
        if (!op_wants(o, k)) continue;
        if (k < states)
            o->made[k] = in[2 + k];
        else
            o->out[k] = stack_all(o, &rows[k - states], &g->output[1 + k], 0, &o->type[k]);
    }
}

/* ---- scans ----------------------------------------------------------------------------------- */

typedef struct scanning {
    const onnx_graph *body;
    int states, inputs, stacks;
    int64_t rows;
    qn_tensor **sequence; /* with rows along axis 0, in order */
    onnx_value **in, **out;
} scanning;

/* Number i of an attribute's list of directions or axes. */
static int64_t listed(const onnx_op *o, const char *name, int i) {
    int n;
    const int64_t *list = attr_ints(o, name, &n);
    return list && i < n ? list[i] : 0;
}

static void read_sequences(onnx_op *o, scanning *s) {
    for (int i = 0; i < s->inputs; i++) {
        int rank;
        onnx_value *v = o->value[s->states + i];
        qn_tensor *x = v ? value_main(o->run, v) : NULL;
        op_shape_of(o, x, &rank);
        int axis = op_axis(o, listed(o, "scan_input_axes", i), rank);
        if (axis) x = qn_moveaxis(x, 1, &axis, (int[]){0});
        if (listed(o, "scan_input_directions", i)) x = qn_flip(x, 0);
        s->sequence[i] = x;
        s->rows = op_shape_of(o, x, &rank)[0];
    }
}

static void scan_trips(onnx_op *o, scanning *s, qn_tensor **stacked, int *types) {
    stack *rows = op_alloc(o, (size_t)s->stacks, sizeof *rows);
    for (int64_t t = 0; t < s->rows; t++) {
        for (int i = 0; i < s->inputs; i++)
            s->in[s->states + i] = value_new(o->run, "", qn_select(s->sequence[i], 0, t),
                                             op_type(o, s->states + i), false);
        run_graph(o->run, o->frame, s->body, s->states + s->inputs, s->in, s->out);
        for (int i = 0; i < s->states; i++) s->in[i] = s->out[i];
        for (int i = 0; i < s->stacks; i++) stack_push(o, &rows[i], s->out[s->states + i]);
    }
    for (int i = 0; i < s->stacks; i++)
        stacked[i] = stack_all(o, &rows[i], &s->body->output[s->states + i], 0, &types[i]);
}

static void give_up(void *loop) {
    qn_loop_free(loop);
}

/* As one loop; false, with nothing recorded, where the body has no more than a few rows or states
 * are known values, which it may need as numbers. */
static bool scan_loop(onnx_op *o, scanning *s, qn_tensor **stacked, int *types) {
    enum { MOST = 32 };
    qn_tensor *state[MOST], *next[MOST], *out[MOST];
    if (s->rows <= UNROLL_MOST || s->states > MOST || s->stacks > MOST) return false;
    for (int i = 0; i < s->states; i++) state[i] = value_main(o->run, s->in[i]);
    qn_loop *l = qn_loop_begin(o->qn, s->states, state, s->inputs, s->sequence, NULL);
    if (!l) op_fail(o, qn_error_code(o->qn), "%s", qn_error(o->qn));
    cleanup c;
    cleanup_push(&o->qn->heap, &c, give_up, l);
    for (int i = 0; i < s->states; i++)
        s->in[i] = value_new(o->run, "", qn_loop_state(l, i), s->in[i]->type, false);
    for (int i = 0; i < s->inputs; i++)
        s->in[s->states + i] =
            value_new(o->run, "", qn_loop_slice(l, i), op_type(o, s->states + i), false);
    run_graph(o->run, o->frame, s->body, s->states + s->inputs, s->in, s->out);
    for (int i = 0; i < s->states; i++) next[i] = value_main(o->run, s->out[i]);
    for (int i = 0; i < s->stacks; i++) {
        out[i] = value_main(o->run, s->out[s->states + i]);
        types[i] = s->out[s->states + i]->type;
    }
    if (qn_loop_end(l, s->states, next, s->stacks, out) == QN_OK) {
        for (int i = 0; i < s->states; i++)
            s->in[i] = value_new(o->run, "", qn_loop_final(l, i), s->in[i]->type, false);
        for (int i = 0; i < s->stacks; i++) stacked[i] = qn_loop_output(l, i);
    }
    cleanup_run(&o->qn->heap, &c);
    if (qn_error_code(o->qn)) op_fail(o, qn_error_code(o->qn), "%s", qn_error(o->qn));
    return true;
}

static void scan(onnx_op *o, scanning *s) {
    qn_tensor **stacked = op_alloc(o, (size_t)s->stacks, sizeof(qn_tensor *));
    int *types = op_alloc(o, (size_t)s->stacks, sizeof *types);
    read_sequences(o, s);
    if (!scan_loop(o, s, stacked, types)) scan_trips(o, s, stacked, types);
    for (int k = 0; k < o->n_out; k++) {
        if (!op_wants(o, k)) continue;
        if (k < s->states) {
            o->made[k] = s->in[k];
            continue;
        }
        int i = k - s->states, rank;
        qn_tensor *y = stacked[i];
        op_shape_of(o, y, &rank);
        if (listed(o, "scan_output_directions", i)) y = qn_flip(y, 0);
        int axis = op_axis(o, listed(o, "scan_output_axes", i), rank);
        o->out[k] = axis ? qn_moveaxis(y, 1, (int[]){0}, &axis) : y;
        o->type[k] = types[i];
    }
}

void op_scan(onnx_op *o) {
    scanning s = {.body = graph_of(o, "body")};
    int64_t scanned = attr_int(o, "num_scan_inputs", 1);
    int first = o->version < 9; /* sequence_lens, and a batch axis in front of all */
    int inputs = o->n_in - first;
    s.inputs = scanned > 0 && scanned <= inputs ? (int)scanned : 0;
    s.states = inputs - s.inputs;
    s.stacks = (int)s.body->n_out - s.states;
    if (s.inputs < 1 || s.states < 0 || s.stacks < 0 || (int)s.body->n_in != inputs ||
        o->n_out > (int)s.body->n_out)
        op_fail(o, QN_EARG, "a body of %u inputs and %u outputs", s.body->n_in, s.body->n_out);
    for (int i = 0; i < inputs; i++)
        if (!op_has(o, first + i)) op_fail(o, QN_EARG, "input %d is missing", first + i);
    s.in = op_alloc(o, (size_t)inputs, sizeof *s.in);
    s.out = op_alloc(o, s.body->n_out, sizeof *s.out);
    s.sequence = op_alloc(o, (size_t)s.inputs, sizeof(qn_tensor *));
    if (!first) {
        for (int i = 0; i < s.states; i++) s.in[i] = o->value[i];
        scan(o, &s);
        return;
    }
    int rank;
    int64_t batches = op_shape(o, 1, &rank)[0];
    onnx_op one = *o;
    stack *rows = op_alloc(o, (size_t)o->n_out, sizeof *rows);
    one.value = op_alloc(o, (size_t)inputs, sizeof *one.value);
    one.n_in = inputs;
    for (int64_t b = 0; b < batches; b++) {
        run_spend(o->run, 1 + (uint64_t)inputs);
        for (int i = 0; i < inputs; i++)
            one.value[i] =
                value_new(o->run, "", qn_select(op_in(o, 1 + i), 0, b), op_type(o, 1 + i), false);
        for (int i = 0; i < s.states; i++) s.in[i] = one.value[i];
        for (int k = 0; k < o->n_out; k++) one.made[k] = NULL;
        scan(&one, &s);
        for (int k = 0; k < o->n_out; k++) {
            if (!op_wants(o, k)) continue;
            onnx_value *v =
                one.made[k] ? one.made[k] : value_new(o->run, "", one.out[k], one.type[k], false);
            stack_push(o, &rows[k], v);
            o->made[k] = NULL;
        }
    }
    for (int k = 0; k < o->n_out; k++)
        if (op_wants(o, k)) o->out[k] = stack_all(o, &rows[k], &s.body->output[k], 0, &o->type[k]);
}
