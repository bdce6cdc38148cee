/* eval.c - devices that evaluate node by node (the oracle).
 *
 * Nodes are evaluated in dependency order into memory of their own; movement that is only another
 * look at the source's memory stays a view. A value's memory is given back after its last use.
 *
 * A loop evaluates its body in each trip, by an evaluator of its own whose arguments have values;
 * all results of the loop are filled in then. */
#include "graph/loop/loop.h"
#include "run/run.h"

typedef enum held { HELD_NOTHING, HELD_MEMORY, HELD_VIEW } held;

typedef struct value {
    dev_array array;
    uint32_t uses;   /* consumers still to come, plus one for a root */
    uint32_t buffer; /* of HELD_MEMORY */
    uint8_t held;
    bool whole; /* never a view: a root, or what a routine reads */
} value;

/* What a body's arguments are in a trip, by kind and number. */
typedef struct arguments {
    const dev_array *of[ARGUMENT_SEED];
} arguments;

typedef struct evaluator {
    qn_ctx *qn;
    graph *g;
    const node_id *order;
    uint32_t nodes;
    value *value;
    const arguments *in; /* NULL: it is no body */
} evaluator;

static value *value_of(const evaluator *e, node_id n) {
    return &e->value[node_at(e->g, n)->mark];
}

static int64_t bound(const evaluator *e, sym s) {
    if (shape_unbound(e->g, s)) raise_unbound(e->qn, s);
    int64_t n = 0; /* a start or a padding may be negative */
    sym_eval(e->g->syms, s, (int)e->g->vars, e->g->var, e->g->bound, &n);
    return n;
}

static void shape_array(const evaluator *e, const graph_node *x, dev_array *a) {
    const int64_t *d = graph_tuple_get(e->g, x->shape, &a->rank);
    a->dtype = (qn_dtype)x->dtype;
    for (int i = 0; i < a->rank; i++) a->dim[i] = bound(e, (sym)d[i]);
    dev_dense(a);
}

static size_t array_bytes(const evaluator *e, int op, const dev_array *a) {
    size_t bytes;
    if (!checked_bytes(a->rank, a->dim, qn_dtype_size(a->dtype), &bytes))
        raise_error(e->qn, QN_ERANGE, "%s: a value beyond 2^63 bytes", op_rows[op].name);
    return bytes;
}

/* Data has the size it was given with, whatever variables are bound to since. */
static void check_size(const evaluator *e, const graph_node *x, const dev_array *a) {
    size_t size = buffer_at(e->qn, x->buffer)->size, need = array_bytes(e, x->op, a);
    if (size != need)
        raise_error(e->qn, QN_ESHAPE,
                    "a tensor of %zu bytes was fed where the bound dimensions need %zu", size,
                    need);
}

/* Attributes as numbers: sizes are syms, all else is plain. */
static int attributes(const evaluator *e, const graph_node *x, int64_t *out) {
    int n;
    const int64_t *v = graph_tuple_get(e->g, x->attr, &n);
    for (int i = 0; i < n; i++) out[i] = op_attr_is_size(x->op, i) ? bound(e, (sym)v[i]) : v[i];
    return n;
}

static void release(evaluator *e, uint32_t i) {
    value *v = &e->value[i];
    if (--v->uses) return;
    const graph_node *x = node_at(e->g, e->order[i]);
    if (v->held == HELD_MEMORY) buffer_unref(e->qn, v->buffer);
    if (v->held == HELD_VIEW)
        for (int s = 0; s < x->sources; s++) release(e, node_at(e->g, x->src[s])->mark);
    v->held = HELD_NOTHING;
}

static void evaluate_call(evaluator *e, uint32_t i) {
    const graph_node *x = node_at(e->g, e->order[i]);
    value *v = &e->value[i];
    dev_array source[ROUTINE_SOURCES];
    call_attr what = node_call(e->g, x);
    for (int s = 0; s < x->sources; s++) source[s] = value_of(e, x->src[s])->array;
    shape_array(e, x, &v->array);
    v->buffer = buffer_new(e->qn, array_bytes(e, x->op, &v->array));
    v->held = HELD_MEMORY;
    v->array.data = buffer_at(e->qn, v->buffer)->memory;
    call_eval(e->qn, &what, x->sources, source, &v->array);
    e->qn->run->stats.kernels++;
    for (int s = 0; s < x->sources; s++) release(e, node_at(e->g, x->src[s])->mark);
}

/* ---- loops ----------------------------------------------------------------------------------- */

typedef struct looping {
    evaluator *e;
    arena *a;
    loop_attr attr;
    int64_t count, trips, done;
    uint32_t inputs, nexts, stacks;
    node_id loop, *input, *root;
    uint32_t *stack; /* places of the results that stack */
    dev_array *state, *slice, *captured, test;
    void **place[2]; /* by state: where it goes, by turns */
} looping;

static void evaluate(evaluator *e, uint32_t i);
static void count_uses(evaluator *e, uint32_t roots, const node_id *root);
static void give_back(void *of);

static void set_marks(const evaluator *e) {
    for (uint32_t i = 0; i < e->nodes; i++) node_at(e->g, e->order[i])->mark = i;
}

static void hold(evaluator *e, uint32_t place) {
    const graph_node *x = node_at(e->g, e->order[place]);
    value *v = &e->value[place];
    shape_array(e, x, &v->array);
    v->buffer = buffer_new(e->qn, array_bytes(e, x->op, &v->array));
    v->held = HELD_MEMORY;
    v->array.data = buffer_at(e->qn, v->buffer)->memory;
}

static size_t dense_bytes(const evaluator *e, const dev_array *a) {
    return array_bytes(e, OP_RESULT, a);
}

/* A row of what a result stacks. */
static char *stack_row(const looping *l, uint32_t k, int64_t row) {
    const dev_array *a = &l->e->value[l->stack[k]].array;
    return (char *)a->data + dense_bytes(l->e, a) / (size_t)l->count * (size_t)row;
}

/* Everything that the body is, evaluated anew. */
static void evaluate_trip(looping *l) {
    qn_ctx *qn = l->e->qn;
    int64_t row = l->attr.reverse ? l->trips - 1 - l->done : l->done;
    dev_array *slice = arena_alloc(l->a, (l->attr.sequences + 1) * sizeof *slice);
    for (uint32_t i = 0; i < l->attr.sequences; i++) {
        slice[i] = l->slice[i];
        for (int k = 0; k + 1 < slice[i].rank; k++) slice[i].dim[k] = slice[i].dim[k + 1];
        slice[i].rank--;
        dev_dense(&slice[i]);
        slice[i].data = (char *)l->slice[i].data + (size_t)row * dense_bytes(l->e, &slice[i]);
    }
    arguments in = {
        {[ARGUMENT_STATE] = l->state, [ARGUMENT_SLICE] = slice, [ARGUMENT_CAPTURE] = l->captured}};
    evaluator *e = arena_zeroed(l->a, sizeof *e);
    node_id *order;
    uint32_t roots = l->nexts + l->stacks;
    uint32_t nodes = graph_order(l->e->g, l->a, (int)roots, l->root, &order);
    *e = (evaluator){.qn = qn, .g = l->e->g, .order = order, .nodes = nodes, .in = &in};
    e->value = arena_zeroed(l->a, (nodes + 1) * sizeof *e->value);
    cleanup c;
    cleanup_push(&qn->heap, &c, give_back, e);
    count_uses(e, roots, l->root);
    for (uint32_t i = 0; i < nodes; i++) evaluate(e, i);
    for (uint32_t i = 0; i < l->stacks; i++) {
        const dev_array *a = &value_of(e, l->root[l->nexts + i])->array;
        memcpy(stack_row(l, i, row), a->data, dense_bytes(e, a));
    }
    if (l->attr.tested) {
        const dev_array *a = &value_of(e, l->root[l->nexts - 1])->array;
        memcpy(l->test.data, a->data, 1);
    }
    for (uint32_t i = 0; i < l->attr.states; i++) {
        const dev_array *a = &value_of(e, l->root[i])->array;
        memcpy(l->place[l->done % 2][i], a->data, dense_bytes(e, a));
    }
    for (uint32_t i = 0; i < l->attr.states; i++) l->state[i].data = l->place[l->done % 2][i];
    cleanup_run(&qn->heap, &c);
}

static void open_loop(looping *l, uint32_t place) {
    evaluator *e = l->e;
    const graph_node *x = node_at(e->g, e->order[place]);
    l->loop = e->order[place];
    l->attr = node_loop(e->g, x);
    l->count = l->trips = bound(e, l->attr.count);
    l->inputs = list_values(e->g, l->a, x->src[0], &l->input);
    l->nexts = list_values(e->g, l->a, node_body(x), &l->root);
    dev_array *in = arena_alloc(l->a, (l->inputs + 1) * sizeof *in);
    for (uint32_t i = 0; i < l->inputs; i++) in[i] = value_of(e, l->input[i])->array;
    l->state = in;
    l->slice = l->state + l->attr.states;
    l->captured = l->slice + l->attr.sequences;
    const dev_array *more = l->captured + l->attr.captures;
    if (l->attr.limited) {
        int64_t limit = *(const int64_t *)(more++)->data;
        if (limit < l->trips) l->trips = limit < 0 ? 0 : limit;
    }
    if (l->attr.tested) {
        l->test = *more;
        l->test.data = memcpy(arena_alloc(l->a, 8), more->data, 1);
    }
    for (int k = 0; k < 2; k++) {
        l->place[k] = arena_alloc(l->a, (l->attr.states + 1) * sizeof(void *));
        for (uint32_t i = 0; i < l->attr.states; i++)
            l->place[k][i] = arena_alloc(l->a, dense_bytes(e, &l->state[i]) + 8);
    }
}

/* Places for all results, and the roots of what is stacked behind the others. */
static void open_results(looping *l) {
    evaluator *e = l->e;
    uint32_t number;
    node_id *root = arena_alloc(l->a, (l->nexts + (size_t)e->nodes + 1) * sizeof *root);
    memcpy(root, l->root, l->nexts * sizeof *root);
    l->root = root;
    l->stack = arena_alloc(l->a, (e->nodes + 1) * sizeof *l->stack);
    for (uint32_t i = 0; i < e->nodes; i++) {
        const graph_node *x = node_at(e->g, e->order[i]);
        if (!node_is_result(x) || x->src[0] != l->loop) continue;
        hold(e, i);
        if (node_result(e->g, x, &number) != RESULT_STACK) continue;
        memset(e->value[i].array.data, 0, dense_bytes(e, &e->value[i].array));
        root[l->nexts + l->stacks] = node_body(x);
        l->stack[l->stacks++] = i;
    }
}

static void finish_results(const looping *l) {
    evaluator *e = l->e;
    uint32_t number;
    for (uint32_t i = 0; i < e->nodes; i++) {
        const graph_node *x = node_at(e->g, e->order[i]);
        if (!node_is_result(x) || x->src[0] != l->loop) continue;
        int what = node_result(e->g, x, &number);
        void *to = e->value[i].array.data;
        if (what == RESULT_TRIPS) memcpy(to, &l->done, sizeof l->done);
        if (what == RESULT_FINAL)
            memcpy(to, l->state[number].data, dense_bytes(e, &l->state[number]));
    }
}

static void evaluate_loop(evaluator *e, uint32_t place) {
    qn_ctx *qn = e->qn;
    arena a, each;
    cleanup c, d;
    arena_open(&a, &qn->heap);
    cleanup_push(&qn->heap, &c, arena_cleanup, &a);
    looping *l = arena_zeroed(&a, sizeof *l);
    l->e = e;
    l->a = &a;
    open_loop(l, place);
    open_results(l);
    for (; l->done < l->trips; l->done++) {
        if (l->attr.tested && !*(const uint8_t *)l->test.data) break;
        arena_open(&each, &qn->heap);
        cleanup_push(&qn->heap, &d, arena_cleanup, &each);
        l->a = &each;
        evaluate_trip(l);
        cleanup_run(&qn->heap, &d);
    }
    set_marks(e);
    finish_results(l);
    release(e, node_at(e->g, node_at(e->g, e->order[place])->src[0])->mark);
    cleanup_run(&qn->heap, &c);
}

/* A list holds its values; a result is there when its loop was evaluated. */
static void evaluate_of_loop(evaluator *e, uint32_t i) {
    const graph_node *x = node_at(e->g, e->order[i]);
    if (x->op == OP_LIST) e->value[i].held = HELD_VIEW;
    if (x->op == OP_LOOP) evaluate_loop(e, i);
    if (x->op == OP_RESULT) release(e, node_at(e->g, x->src[0])->mark);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void evaluate(evaluator *e, uint32_t i) {
    const graph_node *x = node_at(e->g, e->order[i]);
    value *v = &e->value[i];
    if (x->op == OP_ARGUMENT) {
        v->array = e->in->of[argument_kind(x)][argument_number(x)];
        return;
    }
    if (node_is_memory(x)) {
        kept_use(e->qn, x->buffer);
        shape_array(e, x, &v->array);
        check_size(e, x, &v->array);
        v->array.data = buffer_at(e->qn, x->buffer)->memory;
        return;
    }
    int64_t attr[3 * QN_MAX_RANK];
    if (op_rows[x->op].class_ == CLASS_LOOP) {
        evaluate_of_loop(e, i);
        return;
    }
    if (x->op == OP_CALL) {
        evaluate_call(e, i);
        return;
    }
    dev_node n = {.op = x->op, .dtype = (qn_dtype)x->dtype, .attr = attr, .bits = x->bits};
    n.attrs = attributes(e, x, attr);
    n.sources = x->sources;
    shape_array(e, x, &n.out);
    for (int s = 0; s < n.sources; s++) n.src[s] = value_of(e, x->src[s])->array;
    if (!v->whole && dev_view(&n, &v->array)) {
        v->held = HELD_VIEW;
        return;
    }
    v->buffer = buffer_new(e->qn, array_bytes(e, x->op, &n.out));
    v->held = HELD_MEMORY;
    n.out.data = buffer_at(e->qn, v->buffer)->memory;
    v->array = n.out;
    double start = trace_on(e->qn) ? clock_seconds() : 0;
    qn_code code = e->qn->run->dev->eval(e->qn->run->dev_state, &n);
    if (trace_on(e->qn)) {
        char text[200];
        traced_shape(e->qn, x->dtype, x->shape, text, sizeof text);
        trace_span(e->qn, "kernel", op_rows[x->op].name, start);
        trace_text(e->qn, "writes", text);
        trace_done(e->qn);
    }
    if (code) raise_error(e->qn, code, "%s failed on this device", op_rows[x->op].name);
    e->qn->run->stats.kernels++;
    for (int s = 0; s < x->sources; s++) release(e, node_at(e->g, x->src[s])->mark);
}

static void count_uses(evaluator *e, uint32_t roots, const node_id *root) {
    set_marks(e);
    for (uint32_t i = 0; i < e->nodes; i++) {
        const graph_node *x = node_at(e->g, e->order[i]);
        if (node_is_memory(x)) {
            e->value[i].uses = 1; /* its buffer is the node's, not ours */
            continue;
        }
        for (int s = 0; s < x->sources; s++) {
            value_of(e, x->src[s])->uses++;
            if (x->op == OP_CALL || x->op == OP_LIST) value_of(e, x->src[s])->whole = true;
        }
    }
    for (uint32_t i = 0; i < roots; i++) {
        value_of(e, root[i])->whole = true;
        value_of(e, root[i])->uses++;
    }
}

/* The values that a request which is given up had computed. */
static void give_back(void *of) {
    evaluator *e = of;
    for (uint32_t i = 0; i < e->nodes; i++)
        if (e->value[i].held == HELD_MEMORY) buffer_unref(e->qn, e->value[i].buffer);
}

void eval_run(qn_ctx *qn, uint32_t nodes, const node_id *order, uint32_t roots, const node_id *root,
              uint32_t *out) {
    arena a;
    arena_open(&a, &qn->heap);
    cleanup memory, c;
    cleanup_push(&qn->heap, &memory, arena_cleanup, &a);
    evaluator *e = arena_zeroed(&a, sizeof *e);
    *e = (evaluator){.qn = qn, .g = qn->graph, .order = order, .nodes = nodes};
    e->value = arena_zeroed(&a, (nodes + 1) * sizeof *e->value);
    cleanup_push(&qn->heap, &c, give_back, e);
    count_uses(e, roots, root);
    for (uint32_t i = 0; i < nodes; i++) evaluate(e, i);
    for (uint32_t i = 0; i < roots; i++) {
        value *v = value_of(e, root[i]);
        out[i] = v->buffer;
        v->held = HELD_NOTHING;
    }
    cleanup_drop(&qn->heap, &c);
    cleanup_run(&qn->heap, &memory);
}
