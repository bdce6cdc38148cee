/* early.c - indices of a static graph that are looked at before it runs.
 *
 * What is checked behind a run holds on to the values that the run replaces, for an index outside
 * of its axis must leave them. Where indices are little work beside the rest, as labels and tokens
 * are, what they are at most and at least has a plan of its own, which runs first; then the graph's
 * own plan cannot fail so any more and writes over what nobody else needs. Indices that are
 * computed of much, as those that a router chooses, are looked at behind the run. */
#include "run/run.h"

enum { PART = 8 }; /* of the work of the whole, for early ones to be worth their plan */

static double work_of(graph *g, uint32_t nodes, const node_id *order) {
    double work = 0;
    for (uint32_t i = 0; i < nodes; i++)
        if (!node_is_memory(node_at(g, order[i]))) work += node_work(g, node_at(g, order[i]));
    return work;
}

/* A leaf is the input that it was given as, or found by the handle of a parameter. */
static void name_leaves(early_checks *e, qn_ctx *qn, arena *a, const plan_request *r,
                        const static_lists *l) {
    e->input = arena_alloc(a, (r->nodes + 1) * sizeof *e->input);
    e->owner = arena_zeroed(a, (r->nodes + 1) * sizeof *e->owner);
    e->shape = arena_alloc(a, (r->nodes + 1) * sizeof *e->shape);
    e->leaf = arena_alloc(a, (r->nodes + 1) * sizeof *e->leaf);
    for (uint32_t i = 0; i < r->nodes; i++) {
        const graph_node *x = node_at(qn->graph, r->order[i]);
        if (!node_is_memory(x)) continue;
        uint32_t leaf = e->leaves++;
        e->shape[leaf] = x->shape;
        static_leaf(qn, l, r->order[i], &e->input[leaf], &e->owner[leaf]);
    }
}

bool early_find(early_checks *e, qn_ctx *qn, arena *a, const plan_request *whole,
                const static_lists *l) {
    graph *g = qn->graph;
    plan_request r = *whole;
    double all = work_of(g, whole->nodes, whole->order);
    r.roots = 0;
    if (!checks_add(&e->checks, qn, a, &r)) return true;
    r.nodes = graph_order(g, a, (int)r.roots, r.root, &r.order);
    if (work_of(g, r.nodes, r.order) * PART > all) {
        checks_let_go(&e->checks, qn);
        e->checks = (checks){0};
        return false;
    }
    e->roots = r.roots;
    e->out = arena_zeroed(a, (r.roots + 1) * sizeof *e->out);
    name_leaves(e, qn, a, &r, l);
    plan_key key = key_build(g, a, &r);
    e->plan = plan_build(qn, &r, &key);
    plan_pin(qn, e->plan);
    checks_let_go(&e->checks, qn);
    return true;
}

void early_run(const early_checks *e, qn_ctx *qn) {
    if (!e->plan) return;
    plan_run(qn, e->plan, e->plan->key.value, e->leaf, NULL, e->out);
    checks_judge(&e->checks, qn, e->roots, e->out);
    buffer_list_cleanup(&(buffer_list){qn, e->roots, e->out});
}

void early_close(early_checks *e, qn_ctx *qn) {
    checks_let_go(&e->checks, qn);
    for (uint32_t i = 0; i < e->leaves; i++)
        if (handle_is(e->owner[i], HANDLE_TENSOR)) qn_release(e->owner[i]);
    plan_close(qn, e->plan);
}
