/* check.c - QN_CHECK: computed indices are looked at when they are used.
 *
 * An index that an operation reads or writes by is marked when the graph is made (make_checked). A
 * request that contains such marks computes two numbers more for each, the smallest and the largest
 * index: plain reductions, which the planner treats like any others, so that all devices check and
 * no kernel knows of it. After the run, before anybody is given a value, they are read; one outside
 * its axis is the run's error. In a loop's body each trip has these two; the loop stacks them, and
 * those of all trips are the smallest and the largest of them. While anything is checked behind a
 * run no value is written over another, so that a run that fails changes nothing; a static graph
 * looks at indices that are little work before it runs (static/early.c). */
#include "graph/loop/loop.h"
#include "run/run.h"

static bool is_none(const graph *g, const graph_node *x) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, x->shape, &rank);
    for (int i = 0; i < rank; i++)
        if ((sym)dims[i] == SYM_ZERO) return true;
    return false;
}

/* The smallest or the largest of the index, in i64; something to be computed in any case. */
static node_id extreme(graph *g, int op, node_id index) {
    node_id wide = make_cast(g, index, QN_I64);
    node_id n = make_reduce(g, op, wide, (1u << node_rank(g, index)) - 1);
    if (!node_is_memory(node_at(g, n))) return n;
    return make2(g, OP_MINIMUM, n, make_const(g, QN_I64, 0, (scalar){.i = INT64_MAX - 1}));
}

static uint32_t number_of(plan_request *r, node_id n) {
    for (uint32_t i = 0; i < r->roots; i++)
        if (r->root[i] == n) return i;
    r->root[r->roots] = n;
    return r->roots++;
}

/* ---- what is marked -------------------------------------------------------------------------- */

/* Marked indices of a graph, or of a loop's body, and what their extremes are there. */
typedef struct marks {
    graph *g;
    arena *a;
    index_check *at;
    uint32_t count, cap;
} marks;

static void add_mark(marks *m, const index_check *x) {
    m->at = arena_grow(m->a, m->at, &m->cap, m->count + 1, sizeof *m->at);
    m->at[m->count++] = *x;
}

static void find_marks(marks *m, uint32_t nodes, const node_id *order);

/* The values of the body that its trips make: those behind a trip, and what results of the request
 * stack. */
static uint32_t body_order(const marks *m, node_id loop, uint32_t nodes, const node_id *order,
                           node_id **out) {
    node_id *root = arena_alloc(m->a, (nodes + 1) * sizeof *root);
    uint32_t roots = 0;
    root[roots++] = node_body(node_at(m->g, loop));
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(m->g, order[i]);
        if (node_is_result(x) && x->src[0] == loop && node_body(x)) root[roots++] = node_body(x);
    }
    return graph_order_history(m->g, m->a, (int)roots, root, 0, out);
}

/* Rows of trips that were not made are 0, which is inside of any axis but one of no elements: that
 * is not asked then, nor where its size is bound to 0 later. */
static void find_in_body(marks *m, node_id loop, uint32_t nodes, const node_id *order) {
    graph *g = m->g;
    const loop_attr l = node_loop(g, node_at(g, loop));
    const int op[2] = {OP_MIN, OP_MAX};
    marks in = {.g = g, .a = m->a};
    node_id *inner;
    uint32_t count = body_order(m, loop, nodes, order, &inner);
    find_marks(&in, count, inner);
    for (uint32_t i = 0; i < in.count; i++) {
        index_check x = in.at[i];
        x.maybe_none |= l.limited || l.tested;
        if (x.maybe_none && x.size == SYM_ZERO) continue;
        for (int k = 0; k < 2; k++)
            x.node[k] = make_reduce(g, op[k], make_stack(g, loop, x.node[k]), 1);
        add_mark(m, &x);
    }
}

static void find_marks(marks *m, uint32_t nodes, const node_id *order) {
    graph *g = m->g;
    for (uint32_t i = 0; i < nodes; i++) {
        sym size = 0;
        if (node_at(g, order[i])->op == OP_LOOP) find_in_body(m, order[i], nodes, order);
        const char *name = node_checked(g, node_at(g, order[i]), &size);
        if (!name) continue;
        node_id index = node_at(g, order[i])->src[0];
        if (is_none(g, node_at(g, index))) continue;
        index_check x = {.name = name, .size = size, .dtype = node_at(g, index)->dtype};
        x.node[0] = extreme(g, OP_MIN, index);
        x.node[1] = extreme(g, OP_MAX, index);
        add_mark(m, &x);
    }
}

bool checks_add(checks *c, qn_ctx *qn, arena *a, plan_request *r) {
    graph *g = qn->graph;
    marks m = {.g = g, .a = a};
    if (!g->marked || !qn->run->dev->executes) return false;
    find_marks(&m, r->nodes, r->order);
    if (!m.count) return false;
    node_id *root = arena_alloc(a, (r->roots + 2 * (size_t)m.count) * sizeof *root);
    memcpy(root, r->root, r->roots * sizeof *root);
    r->root = root;
    c->check = m.at;
    for (uint32_t i = 0; i < m.count; i++)
        for (int k = 0; k < 2; k++) {
            node_ref(g, m.at[i].node[k]);
            m.at[i].root[k] = number_of(r, m.at[i].node[k]);
        }
    c->checks = m.count;
    return true;
}

void checks_let_go(checks *c, qn_ctx *qn) {
    for (uint32_t i = 0; i < 2 * c->checks; i++) {
        node_id *n = &c->check[i / 2].node[i % 2];
        if (*n) node_unref(qn->graph, *n);
        *n = 0;
    }
}

static void judge(const checks *c, qn_ctx *qn, const uint32_t *out) {
    for (uint32_t i = 0; i < c->checks; i++) {
        const index_check *x = &c->check[i];
        long long size = (long long)shape_bound(qn->graph, x->size);
        int64_t v[2];
        for (int k = 0; k < 2; k++) {
            const buffer *b = buffer_at(qn, out[x->root[k]]);
            qn_code code =
                qn->run->dev->copy_out(qn->run->dev_state, b->memory, 0, &v[k], sizeof *v);
            if (code) raise_error(qn, code, "the device did not give back an index");
        }
        if (v[0] > v[1]) continue; /* there is none */
        if (x->maybe_none && !size && !v[0] && !v[1]) continue;
        if (v[0] >= 0 && v[1] < size) continue;
        int64_t bad = v[0] < 0 ? v[0] : v[1];
        if (bad < 0 && dtype_is_unsigned(x->dtype))
            raise_error(qn, QN_ERANGE, "%s: index %llu of an axis of %lld", x->name,
                        (unsigned long long)bad, size);
        raise_error(qn, QN_ERANGE, "%s: index %lld of an axis of %lld", x->name, (long long)bad,
                    size);
    }
}

void checks_judge(const checks *c, qn_ctx *qn, uint32_t roots, const uint32_t *out) {
    if (!c->checks) return;
    buffer_list own = {qn, roots, out};
    cleanup undo;
    cleanup_push(&qn->heap, &undo, buffer_list_cleanup, &own);
    judge(c, qn, out);
    cleanup_drop(&qn->heap, &undo);
}
