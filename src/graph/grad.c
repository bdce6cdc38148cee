/* grad.c - gradients: from a graph to a graph.
 *
 * The nodes below y are walked once in dependency order to find those that lie on a way from an x
 * to y, and once backward, each passing the sum of what its users gave it on to its sources by the
 * rule of its row in ops.h (grad_rules.c). So a shared node is visited once, nothing is computed
 * for what does not depend on any x, and since rules make ordinary nodes, a gradient can be
 * differentiated again.
 *
 * Only floats have gradients: ways through integers, bools, DETACH and rows without a rule end
 * there. They also end at a realized tensor that has forgotten its history. That one is a leaf
 * like any other where it was meant to be one, as a parameter is; but if an x is not reached at
 * all and such a leaf once was computed from data, the zeros would most likely be wrong, and the
 * call is refused. Tensors that were assigned are meant to be leaves. */
#include "graph/graph.h"

#include <stdio.h>

static uint32_t grad_place(const grad *c, node_id n) {
    return c->g->node[n].mark - c->g->mark_base;
}

static bool grad_reaches(const grad *c, node_id n) {
    return c->g->node[n].mark >= c->g->mark_base && c->wanted[grad_place(c, n)];
}

bool grad_wants(const grad *c, node_id n, int source) {
    return grad_reaches(c, c->g->node[n].src[source]);
}

void grad_add(grad *c, node_id n, int source, node_id value) {
    if (!grad_wants(c, n, source)) return;
    node_id *sum = &c->sum[grad_place(c, c->g->node[n].src[source])];
    *sum = *sum ? make2(c->g, OP_ADD, *sum, value) : value;
}

/* ---- the way there -------------------------------------------------------------------------- */

static bool grad_passes(const graph_node *n) {
    return dtype_is_float(n->dtype) && op_rows[n->op].differentiable;
}

/* Which nodes lie on a way from an x to y. */
static void grad_mark(grad *c, int n, const node_id *x) {
    for (uint32_t i = 0; i < c->count; i++) {
        const graph_node *node = node_at(c->g, c->order[i]);
        for (int k = 0; grad_passes(node) && k < node->sources; k++)
            if (c->wanted[grad_place(c, node->src[k])]) c->wanted[i] = true;
        for (int k = 0; k < n; k++)
            if (x[k] == c->order[i]) c->wanted[i] = true;
    }
}

/* Is there, on a way gradients take from y, a value whose history was dropped? */
static bool grad_lost(const grad *c, node_id y) {
    bool *met = arena_zeroed(c->a, c->count * sizeof *met);
    met[grad_place(c, y)] = true;
    for (uint32_t i = c->count; i-- > 0;) {
        const graph_node *node = node_at(c->g, c->order[i]);
        if (!met[i]) continue;
        if ((node->flags & NODE_LOST) && !c->wanted[i]) return true;
        for (int k = 0; grad_passes(node) && k < node->sources; k++)
            met[grad_place(c, node->src[k])] = true;
    }
    return false;
}

static bool grad_check_history(grad *c, node_id y, int n, const node_id *x) {
    bool missed = false;
    for (int i = 0; i < n; i++) missed |= !grad_reaches(c, x[i]);
    bool leaf = c->g->node[y].op == OP_BUFFER && !c->wanted[c->count - 1];
    if (!leaf && !(missed && grad_lost(c, y))) return true;
    fail(c->g->ctx, QN_EGRAPH, "grad: %s and its history dropped; open a tape before, or detach it",
         leaf ? "y was computed already, or is data," : "a value on the way was computed already");
    return false;
}

/* ---- the way back --------------------------------------------------------------------------- */

static void grad_walk(grad *c, node_id y, node_id seed) {
    c->sum[grad_place(c, y)] = seed;
    for (uint32_t i = c->count; i-- > 0;) {
        node_id n = c->order[i];
        if (!c->wanted[i] || !c->sum[i] || !grad_passes(node_at(c->g, n))) continue;
        grad_rules[c->g->node[n].op](c, n, c->sum[i]);
    }
}

static node_id grad_result(grad *c, node_id x) {
    node_id sum = grad_reaches(c, x) ? c->sum[grad_place(c, x)] : 0;
    const graph_node *n = node_at(c->g, x);
    return sum ? sum : make_number(c->g, (qn_dtype)n->dtype, n->shape, 0);
}

/* ---- the public call ------------------------------------------------------------------------ */

typedef struct grad_call {
    qn_tensor *y, *seed;
    int n;
    qn_tensor *const *x;
    qn_tensor **out;
    arena arena;
    int made; /* handles in out */
} grad_call;

static node_id grad_seed(graph *g, const grad_call *q) {
    const graph_node *y = node_at(g, tensor_at(q->y)->node);
    qn_dtype dtype = (qn_dtype)y->dtype;
    tuple_id shape = y->shape, wider;
    if (!q->seed) return make_number(g, dtype, shape, 1);
    node_id seed = tensor_at(q->seed)->node;
    if (!shape_broadcast(g, g->node[seed].shape, shape, &wider) || wider != shape) {
        func_fail_shapes(q->y, q->seed, "differ: the seed has y's shape");
        return 0;
    }
    return make_broadcast(g, make_cast(g, seed, dtype), shape);
}

static void grad_run(graph *g, grad_call *q) {
    grad c = {.g = g, .a = &q->arena};
    node_id y = tensor_at(q->y)->node, seed = grad_seed(g, q);
    if (!seed) return;
    node_id *x = arena_alloc(c.a, ((size_t)q->n + 1) * sizeof *x);
    for (int i = 0; i < q->n; i++) x[i] = tensor_at(q->x[i])->node;
    c.count = graph_order(g, c.a, 1, &y, false, &c.order);
    c.wanted = arena_zeroed(c.a, c.count * sizeof *c.wanted);
    c.sum = arena_zeroed(c.a, c.count * sizeof *c.sum);
    grad_mark(&c, q->n, x);
    if (!grad_check_history(&c, y, q->n, x)) return;
    grad_walk(&c, y, seed);
    for (int i = 0; i < q->n; i++) {
        node_id result = grad_result(&c, x[i]);
        q->out[i] = tensor_make(g, result);
        q->made++;
    }
}

static void grad_guarded(graph *g, grad_call *q) {
    guard gd;
    guard_open(&g->ctx->heap, &gd);
    if (!setjmp(gd.at)) grad_run(g, q);
    guard_close(&g->ctx->heap, &gd);
}

static int grad_check(qn_ctx *qn, const char *what, int i, const qn_tensor *t) {
    char name[32];
    snprintf(name, sizeof name, i < 0 ? "%s" : "%s %d", what, i);
    if (!tensor_of(qn, t, "grad", name)) return t ? QN_EGRAPH : QN_ENULL;
    if (!dtype_is_float(qn_dtype_of(t)))
        return fail(qn, QN_EDTYPE, "grad: %s is %s; only floats have gradients", name,
                    qn_dtype_name(qn_dtype_of(t)));
    return QN_OK;
}

int qn_grad(qn_tensor *y, qn_tensor *seed, int n, qn_tensor *const *x, qn_tensor **out) {
    if (!y) return QN_ENULL;
    qn_ctx *qn = tensor_ctx(y);
    if (n < 0 || (n > 0 && (!x || !out))) return fail(qn, QN_ENULL, "grad: no place for results");
    for (int i = 0; i < n; i++) out[i] = NULL;
    int code = grad_check(qn, "y", -1, y);
    if (!code && seed) code = grad_check(qn, "seed", -1, seed);
    for (int i = 0; i < n && !code; i++) code = grad_check(qn, "x", i, x[i]);
    if (code || n == 0) return code;
    grad_call q = {.y = y, .seed = seed, .n = n, .x = x, .out = out};
    arena_open(&q.arena, &qn->heap);
    grad_guarded(qn->graph, &q);
    arena_free(&q.arena);
    graph_settle(qn->graph);
    if (q.made == n) return QN_OK;
    for (int i = 0; i < q.made; i++) {
        if (!qn->graph->scopes) qn_release(out[i]);
        out[i] = NULL;
    }
    return qn->code ? (int)qn->code : QN_EINTERNAL;
}
