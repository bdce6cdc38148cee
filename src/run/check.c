/* check.c - QN_CHECK: computed indices are looked at when they are used.
 *
 * An index that an operation reads or writes by is marked when the graph is made (make_checked). A
 * request that contains such marks computes two numbers more for each, the smallest and the largest
 * index: plain reductions, which the planner treats like any others, so that all devices check and
 * no kernel knows of it. After the run, before anybody is given a value, they are read; one outside
 * its axis is the run's error. While anything is checked no value is written over another, so that
 * a run that fails changes nothing. */
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

static uint32_t count(const graph *g, uint32_t nodes, const node_id *order) {
    uint32_t n = 0;
    sym size;
    for (uint32_t i = 0; i < nodes; i++) n += node_checked(g, node_at(g, order[i]), &size) != NULL;
    return g->ctx->run->dev->executes ? n : 0;
}

bool checks_add(checks *c, qn_ctx *qn, arena *a, plan_request *r) {
    graph *g = qn->graph;
    uint32_t most = count(g, r->nodes, r->order);
    if (!most) return false;
    node_id *root = arena_alloc(a, (r->roots + 2 * (size_t)most) * sizeof *root);
    memcpy(root, r->root, r->roots * sizeof *root);
    r->root = root;
    c->check = arena_alloc(a, most * sizeof *c->check);
    for (uint32_t i = 0; i < r->nodes; i++) {
        sym size = 0;
        const char *name = node_checked(g, node_at(g, r->order[i]), &size);
        if (!name) continue;
        node_id index = node_at(g, r->order[i])->src[0];
        if (is_none(g, node_at(g, index))) continue;
        index_check x = {.name = name, .size = size, .dtype = node_at(g, index)->dtype};
        const int op[2] = {OP_MIN, OP_MAX};
        for (int k = 0; k < 2; k++) {
            node_id n = extreme(g, op[k], index);
            node_ref(g, n);
            x.node[k] = n;
            x.root[k] = number_of(r, n);
        }
        c->check[c->checks++] = x;
    }
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
