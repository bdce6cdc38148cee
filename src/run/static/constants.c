/* constants.c - what a static graph computes of constants and parameters alone, once.
 *
 * Tables of positions, masks, functions of weights: they are the same in every run until somebody
 * gives a parameter another value. So such values, where something else is made of them and they
 * are more work than a load, have a plan of their own; what it computes is kept, and the graph's
 * plan has it as leaves. As packed weights it is made again when a parameter's buffer holds another
 * content. Parameters that the graph itself assigns change with every run and do not count.
 *
 * All of it takes at most what knob kept_memory says; what is beyond stays in the graph's plan. */
#include "run/run.h"

typedef struct finder {
    graph *g;
    const node_id *order;
    bool *constant, *edge; /* by place; edge: something that is not constant is made of it */
    double *work;
} finder;

static uint32_t place_of(const finder *f, node_id n) {
    return node_at(f->g, n)->mark - f->g->mark_base;
}

/* Sources come first. What sizes say that are not constants follows the run's inputs. */
static void look(finder *f, uint32_t place, bool lasting) {
    const graph_node *x = node_at(f->g, f->order[place]);
    f->constant[place] = node_is_memory(x) ? lasting : true;
    f->work[place] = node_work(f->g, x);
    if (node_is_memory(x)) return;
    for (int s = 0; s < x->sources; s++) {
        f->constant[place] &= f->constant[place_of(f, x->src[s])];
        f->work[place] += f->work[place_of(f, x->src[s])];
    }
    for (int s = 0; s < x->sources; s++) f->edge[place_of(f, x->src[s])] |= !f->constant[place];
}

static bool among(node_id n, uint32_t count, const node_id *list) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == n) return true;
    return false;
}

static void choose(finder *f, static_constants *c, uint32_t nodes, uint32_t roots,
                   const node_id *root) {
    graph *g = f->g;
    double room = (double)((size_t)g->ctx->knob[KNOB_KEPT_MEMORY].number << 20);
    for (uint32_t r = 0; r < roots; r++) /* they are computed in each run, so not constants */
        for (int s = 0; s < node_at(g, root[r])->sources; s++)
            f->edge[place_of(f, node_at(g, root[r])->src[s])] = true;
    for (uint32_t i = nodes; i-- > 0;) { /* lists have no values */
        const graph_node *x = node_at(g, f->order[i]);
        bool list = op_rows[x->op].class_ == CLASS_LOOP && x->op != OP_RESULT;
        for (int s = 0; list && f->edge[i] && s < x->sources; s++)
            f->edge[place_of(f, x->src[s])] = true;
        if (list) f->edge[i] = false;
    }
    for (uint32_t i = 0; i < nodes; i++) {
        if (!f->edge[i] || !f->constant[i]) continue;
        node_id n = node_shown(g, f->order[i]);
        const graph_node *x = node_at(g, n);
        if (node_is_memory(x) || op_rows[x->op].class_ == CLASS_LEAF) continue;
        double size = (double)shape_numel_hi(g, x->shape);
        double bytes = size * (double)qn_dtype_size((qn_dtype)x->dtype);
        double least = size * (double)g->ctx->run->limits.store_load_cost;
        if (f->work[place_of(f, n)] < least || bytes > room) continue;
        if (among(n, roots, root) || among(n, c->values, c->node)) continue;
        c->node[c->values++] = n;
        room -= bytes;
    }
}

static void make_plan(static_constants *c, qn_ctx *qn, arena *a) {
    graph *g = qn->graph;
    node_id *order;
    uint32_t nodes = graph_order(g, a, (int)c->values, c->node, &order);
    c->owner = arena_alloc(a, (nodes + 1) * sizeof *c->owner);
    c->content = arena_zeroed(a, (nodes + 1) * sizeof *c->content);
    c->leaf = arena_alloc(a, (nodes + 1) * sizeof *c->leaf);
    c->buffer = arena_zeroed(a, (c->values + 1) * sizeof *c->buffer);
    for (uint32_t i = 0; i < nodes; i++) {
        if (!node_is_memory(node_at(g, order[i]))) continue;
        kept_forget(qn, node_at(g, order[i])->buffer);
        c->owner[c->leaves++] = handle_name(&tensor_keep(static_owner(qn, order[i]))->h);
    }
    const plan_request r = {.nodes = nodes, .roots = c->values, .order = order, .root = c->node};
    plan_key key = key_build(g, a, &r);
    c->plan = plan_build(qn, &r, &key);
    plan_pin(qn, c->plan);
}

void constants_find(static_constants *c, qn_ctx *qn, arena *a, const plan_request *r) {
    graph *g = qn->graph;
    uint32_t nodes = r->nodes;
    finder f = {.g = g, .order = r->order};
    if (g->vars) return;
    f.constant = arena_zeroed(a, nodes + 1);
    f.edge = arena_zeroed(a, nodes + 1);
    f.work = arena_zeroed(a, (nodes + 1) * sizeof *f.work);
    c->node = arena_alloc(a, (nodes + 1) * sizeof *c->node);
    for (uint32_t i = 0; i < nodes; i++) look(&f, i, r->lasting[i]);
    choose(&f, c, nodes, r->roots, r->root);
    if (!c->values) return;
    make_plan(c, qn, a);
    for (; c->shown < c->values; c->shown++) node_at(g, c->node[c->shown])->flags |= NODE_REALIZED;
}

void constants_hide(static_constants *c, const graph *g) {
    while (c->shown) node_at(g, c->node[--c->shown])->flags &= (uint8_t)~NODE_REALIZED;
}

int constants_number(const static_constants *c, node_id n) {
    for (uint32_t i = 0; i < c->values; i++)
        if (c->node[i] == n) return (int)i;
    return -1;
}

bool constants_make(static_constants *c, qn_ctx *qn) {
    bool there = c->values && c->buffer[0];
    for (uint32_t i = 0; i < c->leaves; i++) {
        const tensor *t = tensor_of(qn, c->owner[i], "plan_run", "a parameter");
        if (!t) return false;
        if (node_at(qn->graph, t->node)->given_up) realize_nodes(qn, 1, &t->node);
        const graph_node *x = node_at(qn->graph, t->node);
        if (!node_is_memory(x))
            return fail(qn, QN_EGRAPH, "plan_run: a parameter was changed into something else"),
                   false;
        c->leaf[i] = x->buffer;
        there &= c->content[i] == buffer_at(qn, x->buffer)->content;
    }
    if (there || !c->values) return true;
    constants_drop(c, qn);
    plan_run(qn, c->plan, c->plan->key.value, c->leaf, NULL, c->buffer);
    for (uint32_t i = 0; i < c->leaves; i++) c->content[i] = buffer_at(qn, c->leaf[i])->content;
    return true;
}

void constants_drop(static_constants *c, qn_ctx *qn) {
    for (uint32_t i = 0; c->buffer && i < c->values; i++) {
        buffer_unref(qn, c->buffer[i]);
        c->buffer[i] = 0;
    }
}

void constants_close(static_constants *c, qn_ctx *qn) {
    constants_hide(c, qn->graph);
    constants_drop(c, qn);
    for (uint32_t i = 0; i < c->leaves; i++)
        if (handle_is(c->owner[i], HANDLE_TENSOR)) qn_release(c->owner[i]);
    plan_close(qn, c->plan);
}
