/* eval.c - devices that evaluate node by node (the oracle).
 *
 * Nodes are evaluated in dependency order into memory of their own; movement that is only another
 * look at the source's memory stays a view. A value's memory is given back after its last use. */
#include "run/run.h"

typedef enum held { HELD_NOTHING, HELD_MEMORY, HELD_VIEW } held;

typedef struct value {
    dev_array array;
    uint32_t uses;   /* consumers still to come, plus one for a root */
    uint32_t buffer; /* of HELD_MEMORY */
    uint8_t held;
    bool whole; /* never a view: a root, or what a routine reads */
} value;

typedef struct evaluator {
    qn_ctx *qn;
    graph *g;
    const node_id *order;
    uint32_t nodes;
    value *value;
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

static void evaluate(evaluator *e, uint32_t i) {
    const graph_node *x = node_at(e->g, e->order[i]);
    value *v = &e->value[i];
    if (node_is_memory(x)) {
        kept_use(e->qn, x->buffer);
        shape_array(e, x, &v->array);
        check_size(e, x, &v->array);
        v->array.data = buffer_at(e->qn, x->buffer)->memory;
        return;
    }
    int64_t attr[3 * QN_MAX_RANK];
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
    qn_code code = e->qn->run->dev->eval(e->qn->run->dev_state, &n);
    if (code) raise_error(e->qn, code, "%s failed on this device", op_rows[x->op].name);
    e->qn->run->stats.kernels++;
    for (int s = 0; s < x->sources; s++) release(e, node_at(e->g, x->src[s])->mark);
}

static void count_uses(evaluator *e, uint32_t roots, const node_id *root) {
    for (uint32_t i = 0; i < e->nodes; i++) node_at(e->g, e->order[i])->mark = i;
    for (uint32_t i = 0; i < e->nodes; i++) {
        const graph_node *x = node_at(e->g, e->order[i]);
        if (node_is_memory(x)) {
            e->value[i].uses = 1; /* its buffer is the node's, not ours */
            continue;
        }
        for (int s = 0; s < x->sources; s++) {
            value_of(e, x->src[s])->uses++;
            if (x->op == OP_CALL) value_of(e, x->src[s])->whole = true;
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
