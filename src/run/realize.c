/* realize.c - values on demand: the one path from nodes to numbers.
 *
 * A request is the nodes asked for plus every pending assignment. Its structure is looked up among
 * the plans; a new structure is planned. What is computed is the values behind DETACH, which is
 * also what versions of assigned tensors are: both get the same buffer. */
#include "graph/loop/loop.h"
#include "run/run.h"

typedef struct request {
    node_id *asked; /* nodes that shall carry buffers, */
    uint32_t askeds;
    plan_request to;        /* and what of it has to be computed */
    checks checks;          /* of indices; their roots come after `wanted` ones */
    uint32_t wanted, named; /* the first `named` of these were asked for, the others are kept */
    kept_values kept;
    bool effects;      /* pending assignments are part of it, */
    uint64_t *made_of; /* made of these leaves: see effects.c */
} request;

node_id node_behind(const graph *g, node_id n) {
    while (op_is_view_mark(g->node[n].op) && rule_sees(g, n, g->node[n].op)) n = g->node[n].src[0];
    return n;
}

/* What is asked for may have been donated; what has to be computed anew, under other bindings, may
 * be made of a value that is not there any more. */
static void check_there(qn_ctx *qn, uint32_t n, const node_id *node) {
    graph *g = qn->graph;
    for (uint32_t i = 0; i < n; i++) {
        if (node_at(g, node[i])->op == OP_ARGUMENT)
            raise_error(qn, QN_EGRAPH,
                        argument_kind(node_at(g, node[i])) == ARGUMENT_EXAMPLE
                            ? "a value of one example is asked for, where it has none: qn_vmap "
                              "gives those of all"
                            : "a value of a loop's body is asked for outside of the loop, where "
                              "it has none: make it an output of the body");
        if (!(node_at(g, node[i])->flags & NODE_GONE)) continue;
        g->text.len = 0;
        tensor_describe(g, node[i], &g->text);
        if (node_at(g, node[i])->spent)
            raise_error(qn, QN_EGRAPH,
                        "%s was donated to a static graph: qn_plan_run took its value", g->text.s);
        raise_error(qn, QN_EGRAPH,
                    "a dimension variable was bound to another value, and what this is made of is "
                    "gone: an old value of %s; record it again",
                    g->text.s);
    }
}

/* A variable of zeros: its value is memory of its own, without a kernel and, where it is large,
 * without a touch: caches, of which a step writes a row. Variables of another value share memory,
 * which the first that is assigned to leaves by a copy of all of it. */
static bool is_cleared(const qn_ctx *qn, node_id n) {
    const graph *g = qn->graph;
    const graph_node *x = node_at(g, n), *value = node_at(g, node_behind(g, n));
    const dev_table *dev = qn->run->dev;
    return x->op == OP_APART && value->op == OP_CONST && !value->bits && !value->buffer &&
           !x->varies && dev->host_memory && dev->executes;
}

static void clear_value(qn_ctx *qn, node_id n) {
    graph *g = qn->graph;
    const graph_node *x = node_at(g, n);
    size_t size;
    if (!host_size(qn, "realize", x->shape, x->dtype, &size)) heap_unwind(&qn->heap);
    uint32_t b = buffer_cleared(qn, size);
    value_need(g, n);
    graph_realized(g, n, b);
    buffer_sized(qn, n);
    value_drop(g, n);
}

/* Marks are from this traversal on where a root is one already. */
static void add_root(graph *g, request *r, node_id n) {
    if (node_is_memory(node_at(g, n))) return;
    if (is_cleared(g->ctx, n)) {
        clear_value(g->ctx, n);
        return;
    }
    r->asked[r->askeds++] = n;
    n = node_behind(g, n);
    check_there(g->ctx, 1, &n);
    if (node_is_memory(node_at(g, n))) return;
    if (node_at(g, n)->buffer) {
        kept_use(g->ctx, node_at(g, n)->buffer); /* it must not be given up before it is taken */
        return;
    }
    if (node_at(g, n)->mark >= g->mark_base) return;
    node_at(g, n)->mark = g->mark_base;
    r->to.root[r->to.roots++] = n;
}

/* What was computed is there before anybody shares it: then no value is let go too soon. */
static void take_values(qn_ctx *qn, const request *r, const uint32_t *out) {
    graph *g = qn->graph;
    for (uint32_t i = 0; i < r->askeds; i++) value_need(g, r->asked[i]);
    for (uint32_t i = 0; i < r->named; i++) graph_realized(g, r->to.root[i], out[i]);
    uint32_t rest = r->wanted - r->named; /* of lists that are NULL where nothing is computed */
    kept_take(qn, r->to.nodes, r->to.order, rest, rest ? r->to.root + r->named : NULL,
              rest ? out + r->named : NULL);
    for (uint32_t i = 0; i < r->askeds; i++) {
        if (g->node[r->asked[i]].flags & NODE_REALIZED) continue;
        uint32_t b = g->node[node_behind(g, r->asked[i])].buffer;
        buffer_ref(qn, b);
        if (node_at(g, r->asked[i])->buffer == b) kept_forget(qn, b);
        graph_realized(g, r->asked[i], b);
        buffer_sized(qn, r->asked[i]);
    }
}

void pending_clear(graph *g, bool undo) {
    for (uint32_t i = 0; i < g->pending_count; i++) {
        tensor *t = g->pending[i];
        t->pending = 0;
        node_id old = t->replaced;
        t->replaced = 0;
        if (undo)
            tensor_point(t, old);
        else
            node_is_old(g, old, t->place);
        value_drop(g, old);
        node_unref(g, old);
    }
    g->pending_count = 0;
}

static void compute(qn_ctx *qn, arena *a, request *r, uint32_t *out) {
    graph *g = qn->graph;
    for (uint32_t i = 0; i < r->to.nodes && g->vars; i++) check_fits(qn, r->to.order[i]);
    if (qn->run->dev->unfused) {
        eval_run(qn, r->to.nodes, r->to.order, r->to.roots, r->to.root, out);
        return;
    }
    if (r->effects && !r->checks.checks)
        r->to.over = choose_donated(qn, a, r->to.nodes, r->to.order, r->to.roots, r->to.root);
    plan_key key = key_build(g, a, &r->to);
    run_plan *p = plans_get(qn, &r->to, &key);
    uint32_t *leaf = arena_alloc(a, (p->leaves + 1) * sizeof *leaf), leaves = 0;
    for (uint32_t i = 0; i < r->to.nodes; i++) {
        const graph_node *x = node_at(g, r->to.order[i]);
        if (node_is_memory(x)) leaf[leaves++] = x->buffer;
    }
    plan_run(qn, p, key.value, leaf, r->to.over, out);
}

/* Indices that are to be checked make the request larger. */
static void check_indices(qn_ctx *qn, arena *a, request *r) {
    r->wanted = r->to.roots;
    if (checks_add(&r->checks, qn, a, &r->to))
        r->to.nodes = graph_order(qn->graph, a, (int)r->to.roots, r->to.root, &r->to.order);
}

typedef struct given_up {
    qn_ctx *qn;
    request *r;
} given_up;

static void give_up(void *of) {
    const given_up *u = of;
    kept_hide(u->qn, &u->r->kept);
    kept_done(u->qn);
    checks_let_go(&u->r->checks, u->qn);
}

/* What every request does, one that has nothing to compute, too. */
void request_ends(qn_ctx *qn) {
    history_trim(qn->graph);
    kept_done(qn);
}

static bool is_there(const graph *g, uint32_t n, const node_id *node) {
    for (uint32_t i = 0; i < n; i++)
        if (!node_is_memory(node_at(g, node[i]))) return false;
    return true;
}

static QN_COLD void trace_request(qn_ctx *qn, const request *r, double start) {
    trace_span(qn, "request", "request", start);
    trace_number(qn, "values", r->askeds);
    trace_number(qn, "nodes", r->to.nodes);
    if (qn->at_file) trace_textf(qn, "at", "%.400s:%d", qn->at_file, qn->at_line);
    trace_done(qn);
    trace_settle(qn);
}

static void run_request(qn_ctx *qn, uint32_t n, const node_id *node, bool effects) {
    graph *g = qn->graph;
    sweep_if_due(qn);
    if (effects) effects_settle_data(qn); /* first, so that what they replace goes */
    const uint32_t pending = effects ? g->pending_count : 0;
    check_there(qn, n, node);
    if (!pending && is_there(g, n, node)) {
        request_ends(qn);
        return;
    }
    double start = trace_on(qn) ? clock_seconds() : 0;
    arena a;
    arena_open(&a, &qn->heap);
    request *r = arena_zeroed(&a, sizeof *r);
    cleanup memory, c;
    cleanup_push(&qn->heap, &memory, arena_cleanup, &a);
    cleanup_push(&qn->heap, &c, give_up, &(given_up){qn, r});
    r->effects = effects;
    r->to.root = arena_alloc(&a, (size_t)(n + pending + 1) * sizeof *r->to.root);
    r->asked = arena_alloc(&a, (size_t)(n + pending + 1) * sizeof *r->asked);
    graph_mark(g);
    for (uint32_t i = 0; i < n; i++) add_root(g, r, node[i]);
    for (uint32_t i = 0; i < pending; i++) add_root(g, r, g->pending[i]->node);
    uint32_t *out = NULL;
    if (r->to.roots) {
        r->to.nodes = graph_order_kept(g, &a, (int)r->to.roots, r->to.root, &r->to.order);
        check_there(qn, r->to.nodes, r->to.order);
        if (pending) r->made_of = effects_made_of(g, &a, r->to.nodes, r->to.order);
        bool again = kept_show(qn, &a, &r->kept, r->to.nodes, r->to.order);
        r->named = r->to.roots;
        if (again)
            r->to.roots = kept_choose(qn, &a, r->to.nodes, r->to.order, r->to.roots, &r->to.root);
        if (debug_on(qn, 'g')) {
            log_line(qn, "g a request for %u values, of %u nodes", r->to.roots, r->to.nodes);
            graph_log(g, &a, r->to.nodes, r->to.order);
        }
        check_indices(qn, &a, r);
        out = arena_alloc(&a, r->to.roots * sizeof *out);
        compute(qn, &a, r, out);
        kept_hide(qn, &r->kept);
        checks_judge(&r->checks, qn, r->to.roots, out);
        for (uint32_t i = r->wanted; i < r->to.roots; i++) buffer_unref(qn, out[i]);
        checks_let_go(&r->checks, qn);
    }
    if (pending && !r->made_of) r->made_of = effects_made_of(g, &a, 0, NULL);
    take_values(qn, r, out);
    if (pending) effects_ran(g, r->made_of);
    if (effects) pending_clear(g, false);
    for (uint32_t i = 0; i < r->askeds; i++) value_drop(g, r->asked[i]);
    request_ends(qn);
    if (trace_on(qn)) trace_request(qn, r, start);
    cleanup_drop(&qn->heap, &c);
    cleanup_run(&qn->heap, &memory);
}

/* What was given up is computed by a request of its own, as it was before: so its sums are grouped
 * as they were. */
static void regain(qn_ctx *qn, uint32_t n, const node_id *node, bool effects) {
    graph *g = qn->graph;
    uint32_t nodes, lost = 0, count = 0;
    node_id *order, *root;
    const uint32_t pending = effects ? g->pending_count : 0;
    arena a;
    arena_open(&a, &qn->heap);
    cleanup c;
    cleanup_push(&qn->heap, &c, arena_cleanup, &a);
    root = arena_alloc(&a, (size_t)(n + pending + 1) * sizeof *root);
    for (uint32_t i = 0; i < n; i++) root[count++] = node[i];
    for (uint32_t i = 0; i < pending; i++) root[count++] = g->pending[i]->node;
    nodes = graph_order_kept(g, &a, (int)count, root, &order);
    for (uint32_t i = 0; i < nodes; i++)
        if (node_at(g, order[i])->given_up) order[lost++] = order[i];
    for (uint32_t i = 0; i < lost; i++) run_request(qn, 1, &order[i], false);
    cleanup_run(&qn->heap, &c);
}

/* First values of parameters are computed by a request of their own: then the first step that uses
 * them finds memory, as all others do, and has the same plan. */
static void first_values(qn_ctx *qn, uint32_t n, const node_id *node, bool effects) {
    graph *g = qn->graph;
    node_id *order, *first, *root;
    const uint32_t pending = effects ? g->pending_count : 0;
    arena a;
    arena_open(&a, &qn->heap);
    cleanup c;
    cleanup_push(&qn->heap, &c, arena_cleanup, &a);
    uint32_t many = tensors_initial(g, &a, &first), used = 0;
    root = arena_alloc(&a, (size_t)(n + pending + 1) * sizeof *root);
    for (uint32_t i = 0; i < n; i++) root[i] = node[i];
    for (uint32_t i = 0; i < pending; i++) root[n + i] = g->pending[i]->node;
    if (many) graph_order_kept(g, &a, (int)(n + pending), root, &order);
    for (uint32_t i = 0; i < many; i++)
        if (node_at(g, first[i])->mark >= g->mark_base) first[used++] = first[i];
    if (used) run_request(qn, used, first, false);
    cleanup_run(&qn->heap, &c);
}

static void realize(qn_ctx *qn, uint32_t n, const node_id *node, bool effects) {
    if (qn->graph->given_up) regain(qn, n, node, effects);
    if (qn->graph->initial_count) first_values(qn, n, node, effects);
    run_request(qn, n, node, effects);
}

void realize_nodes(qn_ctx *qn, uint32_t n, const node_id *node) {
    realize(qn, n, node, true);
}

void realize_given_up(qn_ctx *qn, node_id n) {
    if (qn->graph->given_up) regain(qn, 1, &n, false);
}

/* What assignments replace and nobody read: a graph that is captured starts from it, in memory,
 * though it could be computed. Not constants, by which rules simplify. */
static uint32_t tensors_replaced(const graph *g, arena *a, node_id **node) {
    uint32_t n = 0;
    *node = arena_alloc(a, (g->pending_count + 1) * sizeof **node);
    for (uint32_t i = 0; i < g->pending_count; i++) {
        const graph_node *x = node_at(g, g->pending[i]->replaced);
        if (!node_is_memory(x) && x->op != OP_CONST && x->op != OP_IOTA)
            (*node)[n++] = g->pending[i]->replaced;
    }
    return n;
}

void realize_initial(qn_ctx *qn) {
    arena a;
    arena_open(&a, &qn->heap);
    cleanup c;
    cleanup_push(&qn->heap, &c, arena_cleanup, &a);
    node_id *node;
    uint32_t n = tensors_initial(qn->graph, &a, &node);
    if (n) realize(qn, n, node, false);
    n = tensors_written(qn->graph, &a, &node);
    if (n) realize(qn, n, node, false);
    n = tensors_replaced(qn->graph, &a, &node);
    if (n) realize(qn, n, node, false);
    cleanup_run(&qn->heap, &c);
}

/* ---- public ---------------------------------------------------------------------------------- */

typedef struct realizing {
    qn_ctx *qn;
    uint32_t n;
    const node_id *node;
} realizing;

static void realize_work(void *arg) {
    const realizing *r = arg;
    realize_nodes(r->qn, r->n, r->node);
}

static qn_code realize_guarded(qn_ctx *qn, uint32_t n, const node_id *node) {
    return guarded(qn, realize_work, &(realizing){qn, n, node});
}

/* The bytes of a value at the current bindings; false: there are too many, or it is not known. */
bool host_size(qn_ctx *qn, const char *call, tuple_id shape, int dtype, size_t *out) {
    graph *g = qn->graph;
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    int64_t size[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        size[i] = shape_bound(g, (sym)dims[i]);
        if (size[i] < 0)
            return fail(qn, QN_ESHAPE, "%s: axis %d depends on %s, which is not bound", call, i,
                        shape_unbound(g, (sym)dims[i])),
                   false;
    }
    if (!checked_bytes(rank, size, qn_dtype_size((qn_dtype)dtype), out))
        return fail(qn, QN_ERANGE, "%s: a value beyond 2^63 bytes", call), false;
    return true;
}

qn_code qn_realize(int n, qn_tensor *const *ts) {
    node_id few[32];
    if (n < 0 || (n && !ts)) return QN_EARG;
    if (!n) return QN_OK;
    if (!ts[0]) return QN_ENULL;
    qn_ctx *qn = tensor_ctx(ts[0]);
    if (!tensors_of(qn, n, ts, "realize", "tensor")) return qn_error_code(qn);
    node_id *node = n <= 32 ? few : heap_try(&qn->heap, (size_t)n * sizeof *node);
    if (!node) return fail(qn, QN_ENOMEM, "realize: no memory for %d tensors", n);
    for (int i = 0; i < n; i++) node[i] = tensor_at(ts[i])->node;
    qn_code code = realize_guarded(qn, (uint32_t)n, node);
    for (int i = 0; i < n && !code; i++) kept_forget(qn, node_at(qn->graph, node[i])->buffer);
    if (node != few) heap_free(&qn->heap, node, (size_t)n * sizeof *node);
    return code;
}

qn_code qn_data(qn_tensor *name, const void **out) {
    if (out) *out = NULL;
    if (!name) return QN_ENULL;
    qn_ctx *qn = tensor_ctx(name);
    const tensor *t = tensor_of(NULL, name, "data", "t");
    if (!t) return handle_code(name);
    if (!out) return fail(qn, QN_ENULL, "data: no place for the address");
    if (!qn->run->dev->host_memory)
        return fail(qn, QN_EDEVICE, "data: memory of %s is not this process'", qn->run->dev->name);
    qn_code code = qn_realize(1, &name);
    if (code) return code;
    if (!buffer_fits(qn, t->node))
        return fail(qn, QN_ESHAPE, "data: the value was made for other bindings");
    *out = buffer_at(qn, node_at(qn->graph, t->node)->buffer)->memory;
    return QN_OK;
}

qn_code qn_read(qn_tensor *name, void *out, size_t size) {
    if (!name) return QN_ENULL;
    qn_ctx *qn = tensor_ctx(name);
    const tensor *t = tensor_of(NULL, name, "read", "t");
    if (!t) return handle_code(name);
    if (!out) return fail(qn, QN_ENULL, "read: no place to read to");
    size_t need;
    if (!host_size(qn, "read", node_at(qn->graph, t->node)->shape,
                   node_at(qn->graph, t->node)->dtype, &need))
        return qn_error_code(qn);
    if (size < need)
        return fail(qn, QN_ERANGE, "read: the value has %zu bytes, the buffer %zu", need, size);
    qn_code code = realize_guarded(qn, 1, &t->node);
    if (code) return code;
    const buffer *b = buffer_at(qn, node_at(qn->graph, t->node)->buffer);
    if (b->size != need || !buffer_fits(qn, t->node))
        return fail(qn, QN_ESHAPE, "read: the value was made for other bindings (%zu bytes)",
                    b->size);
    double start = trace_on(qn) ? clock_seconds() : 0;
    code = qn->run->dev->copy_out(qn->run->dev_state, b->memory, 0, out, need);
    if (trace_on(qn)) traced_copy(qn, "copy out", need, start);
    if (!code) kept_read(qn, t->node);
    return code;
}
