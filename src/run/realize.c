/* realize.c - values on demand: the one path from nodes to numbers.
 *
 * A request is the nodes asked for plus every pending assignment. Its structure is looked up among
 * the plans; a new structure is planned. When the plan has run, each root carries its buffer and,
 * without a tape, forgets how it came about. */
#include "run/run.h"

typedef struct request {
    node_id *root;
    uint32_t roots;
    node_id *order;
    uint32_t nodes;
} request;

static void add_root(const graph *g, request *r, node_id n) {
    if (node_is_memory(node_at(g, n))) return;
    for (uint32_t i = 0; i < r->roots; i++)
        if (r->root[i] == n) return;
    r->root[r->roots++] = n;
}

void pending_clear(graph *g, bool undo) {
    for (uint32_t i = 0; i < g->pending_count; i++) {
        tensor *t = g->pending[i];
        t->pending = 0;
        if (undo)
            tensor_point(t, t->replaced);
        else
            node_is_state(g, t->node);
        node_unref(g, t->replaced);
        t->replaced = 0;
    }
    g->pending_count = 0;
}

static bool same_key(const void *key, uint32_t id, const void *user) {
    const plan_key *k = key;
    const plan_key *o = &((run_plan *const *)user)[id - 1]->key;
    return o->words == k->words && !memcmp(o->word, k->word, (size_t)k->words * sizeof *k->word);
}

static run_plan *plan_for(qn_ctx *qn, arena *a, const request *r, const uint32_t *over) {
    run_state *s = qn->run;
    double start = clock_seconds();
    plan_key key = key_build(qn->graph, a, r->nodes, r->order, r->roots, r->root, over);
    uint32_t id = idset_find(&s->plan_set, key.hash, same_key, &key, s->plan);
    if (id) {
        s->stats.plan_hits++;
        s->stats.plan_seconds += clock_seconds() - start;
        return s->plan[id - 1];
    }
    s->plan = heap_grow(&qn->heap, s->plan, &s->plan_cap, s->plans + 1, sizeof *s->plan);
    double compile = s->stats.compile_seconds;
    run_plan *p = plan_build(qn, r->nodes, r->order, r->roots, r->root, &key, NULL, over);
    s->plan[s->plans++] = p;
    idset_add(&s->plan_set, key.hash, s->plans);
    s->stats.plans++;
    s->stats.plan_seconds += clock_seconds() - start - (s->stats.compile_seconds - compile);
    return p;
}

static void compute(qn_ctx *qn, arena *a, const request *r, uint32_t *out) {
    graph *g = qn->graph;
    if (qn->run->dev->unfused) {
        eval_run(qn, r->nodes, r->order, r->roots, r->root, out);
        return;
    }
    uint32_t *over = choose_replaced(qn, a, r->nodes, r->order, r->roots, r->root);
    run_plan *p = plan_for(qn, a, r, over);
    uint32_t *leaf = arena_alloc(a, (p->leaves + 1) * sizeof *leaf), leaves = 0;
    for (uint32_t i = 0; i < r->nodes; i++) {
        const graph_node *x = node_at(g, r->order[i]);
        if (node_is_memory(x)) leaf[leaves++] = x->buffer;
    }
    plan_run(qn, p, leaf, over, out);
}

void realize_nodes(qn_ctx *qn, uint32_t n, const node_id *node) {
    graph *g = qn->graph;
    arena a;
    arena_open(&a, &qn->heap);
    guard gd;
    guard_open(&qn->heap, &gd);
    if (setjmp(gd.at)) {
        guard_close(&qn->heap, &gd);
        arena_free(&a);
        heap_unwind(&qn->heap);
    }
    request r = {0};
    r.root = arena_alloc(&a, (size_t)(n + g->pending_count + 1) * sizeof *r.root);
    for (uint32_t i = 0; i < n; i++) add_root(g, &r, node[i]);
    for (uint32_t i = 0; i < g->pending_count; i++) add_root(g, &r, g->pending[i]->node);
    if (r.roots) {
        r.nodes = graph_order(g, &a, (int)r.roots, r.root, true, &r.order);
        uint32_t *out = arena_alloc(&a, r.roots * sizeof *out);
        compute(qn, &a, &r, out);
        for (uint32_t i = 0; i < r.roots; i++) graph_realized(g, r.root[i], out[i]);
    }
    pending_clear(g, false);
    guard_close(&qn->heap, &gd);
    arena_free(&a);
}

/* ---- public ---------------------------------------------------------------------------------- */

static qn_code realize_guarded(qn_ctx *qn, uint32_t n, const node_id *node) {
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        return qn_error_code(qn);
    }
    realize_nodes(qn, n, node);
    guard_close(&qn->heap, &g);
    return QN_OK;
}

/* The bytes of a value at the current bindings; false: there are too many, or it is not known. */
static bool host_size(qn_ctx *qn, const char *call, tuple_id shape, int dtype, size_t *out) {
    graph *g = qn->graph;
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    int64_t size[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        size[i] = shape_bound(g, (sym)dims[i]);
        if (size[i] < 0)
            return fail(qn, QN_ESHAPE, "%s: the size of axis %d is not bound", call, i), false;
    }
    if (!checked_bytes(rank, size, qn_dtype_size((qn_dtype)dtype), out))
        return fail(qn, QN_ERANGE, "%s: a value beyond 2^63 bytes", call), false;
    return true;
}

int qn_realize(qn_tensor *const *ts, int n) {
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
    if (node != few) heap_free(&qn->heap, node, (size_t)n * sizeof *node);
    return code;
}

int qn_read(qn_tensor *name, void *out, size_t size) {
    if (!name) return QN_ENULL;
    qn_ctx *qn = tensor_ctx(name);
    const tensor *t = tensor_of(NULL, name, "read", "t");
    if (!t) return QN_EGRAPH;
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
    if (b->size != need)
        return fail(qn, QN_ESHAPE, "read: the value was computed for other bindings (%zu bytes)",
                    b->size);
    return qn->run->dev->copy_out(qn->run->dev_state, b->memory, 0, out, need);
}

static node_id node_from(qn_ctx *qn, qn_dtype dtype, tuple_id shape, const void *data,
                         size_t size) {
    uint32_t b = buffer_new(qn, size);
    qn_code code =
        qn->run->dev->copy_in(qn->run->dev_state, buffer_at(qn, b)->memory, 0, data, size);
    if (code) {
        buffer_unref(qn, b);
        raise_error(qn, code, "the device did not take %zu bytes", size);
    }
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        buffer_unref(qn, b);
        heap_unwind(&qn->heap);
    }
    node_id n = node_buffer(qn->graph, dtype, shape, b);
    guard_close(&qn->heap, &g);
    return n;
}

qn_tensor *qn_from(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, const void *data) {
    if (!qn) return NULL;
    tuple_id dims;
    size_t size = 0;
    if ((unsigned)dtype >= QN_DTYPE_COUNT)
        return fail_null(qn, QN_EDTYPE, "from: %d is not a dtype", (int)dtype);
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        graph_settle(qn->graph);
        return NULL;
    }
    qn_tensor *t = NULL;
    if (shape_from_user(qn, "from", rank, shape, &dims) &&
        host_size(qn, "from", dims, (int)dtype, &size)) {
        if (size && !data)
            fail(qn, QN_ENULL, "from: no data for %zu bytes", size);
        else
            t = tensor_new(qn, node_from(qn, dtype, dims, data, size));
    }
    guard_close(&qn->heap, &g);
    graph_settle(qn->graph);
    return t;
}

/* Remember that t's value is an effect: the next run computes it in any case. What it replaces is
 * held until then, so that a static graph can take the assignment back. */
static void add_pending(graph *g, tensor *t) {
    g->pending[g->pending_count++] = t;
    t->pending = g->pending_count;
    t->replaced = t->node;
    node_ref(g, t->node);
}

int qn_assign(qn_tensor *name, qn_tensor *from) {
    qn_ctx *qn = name ? tensor_ctx(name) : from ? tensor_ctx(from) : NULL;
    tensor *t = tensor_of(qn, name, "assign", "t");
    const tensor *value = t ? tensor_of(qn, from, "assign", "value") : NULL;
    if (!value) return name && from ? QN_EGRAPH : QN_ENULL;
    graph *g = qn->graph;
    const graph_node *a = node_at(g, t->node), *b = node_at(g, value->node);
    if (a->dtype != b->dtype)
        return fail(qn, QN_EDTYPE, "assign: the tensor is %s, the value %s",
                    qn_dtype_name((qn_dtype)a->dtype), qn_dtype_name((qn_dtype)b->dtype));
    str s;
    guard gd;
    str_open(&s, &qn->heap);
    guard_open(&qn->heap, &gd);
    if (setjmp(gd.at)) {
        guard_close(&qn->heap, &gd);
        str_free(&s);
        return qn_error_code(qn);
    }
    if (a->shape != b->shape) {
        str_add(&s, "assign: the tensor is ");
        shape_text(g, a->shape, &s);
        str_add(&s, ", the value ");
        shape_text(g, b->shape, &s);
        qn_code code = fail(qn, QN_ESHAPE, "%s", s.s);
        str_free(&s);
        guard_close(&qn->heap, &gd);
        return code;
    }
    g->pending =
        heap_grow(&qn->heap, g->pending, &g->pending_cap, g->pending_count + 1, sizeof *g->pending);
    if (node_is_memory(node_at(g, value->node)))
        tensor_settle(t);
    else if (!t->pending)
        add_pending(g, t);
    tensor_point(t, value->node);
    guard_close(&qn->heap, &gd);
    return QN_OK;
}

int qn_write(qn_tensor *name, const void *data, size_t size) {
    if (!name) return QN_ENULL;
    qn_ctx *qn = tensor_ctx(name);
    tensor *t = tensor_of(NULL, name, "write", "t");
    if (!t) return QN_EGRAPH;
    graph *g = qn->graph;
    guard gd;
    guard_open(&qn->heap, &gd);
    if (setjmp(gd.at)) {
        guard_close(&qn->heap, &gd);
        graph_settle(g);
        return qn_error_code(qn);
    }
    const graph_node *x = node_at(g, t->node);
    size_t need = 0;
    qn_code code = QN_OK;
    if (!host_size(qn, "write", x->shape, x->dtype, &need))
        code = qn_error_code(qn);
    else if (need != size)
        code = fail(qn, QN_ERANGE, "write: the tensor has %zu bytes, the data %zu", need, size);
    else if (size && !data)
        code = fail(qn, QN_ENULL, "write: no data for %zu bytes", size);
    else {
        tensor_point(t, node_from(qn, (qn_dtype)x->dtype, x->shape, data, size));
        tensor_settle(t);
    }
    guard_close(&qn->heap, &gd);
    graph_settle(g);
    return code;
}
