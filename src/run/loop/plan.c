/* plan.c - plans of loops' bodies, and the launches that loops are.
 *
 * A body is planned as any request is: its arguments are the leaves, the states behind a trip and
 * what is stacked are the roots. It is planned once, whatever the number of trips, and its kernels
 * are compiled with all others. To the plan around it the loop is one launch, alone in its level,
 * whose scratch is a temporary of that plan: there lie states that have no other place, what is
 * packed once a run, and the body's temporaries, at every trip in the same places. */
#include "graph/loop/loop.h"
#include "run/run.h"

enum { PLACE_ALIGN = 64 };

static size_t aligned(size_t size) {
    return (size + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
}

/* ---- planning bodies ------------------------------------------------------------------------- */

/* A body while it is planned: nodes of places and constants that were computed elsewhere, too, are
 * expressions in here. */
typedef struct body {
    graph *g;
    node_id *order, *root, *shown;
    uint32_t nodes, roots, hidden;
} body;

static void show(void *of) {
    body *b = of;
    while (b->hidden) node_at(b->g, b->shown[--b->hidden])->flags |= NODE_REALIZED;
}

static void hide(body *b, arena *a) {
    b->shown = arena_alloc(a, (b->nodes + 1) * sizeof *b->shown);
    for (uint32_t i = 0; i < b->nodes; i++) {
        graph_node *x = node_at(b->g, b->order[i]);
        if (!(x->flags & NODE_REALIZED)) continue;
        x->flags &= (uint8_t)~NODE_REALIZED;
        b->shown[b->hidden++] = b->order[i];
    }
}

/* A root that is stored by itself: arguments are memory already, and each root has one place. */
static void add_root(body *b, node_id n) {
    graph *g = b->g;
    bool again = node_at(g, n)->op == OP_ARGUMENT;
    for (uint32_t i = 0; i < b->roots; i++) again |= b->root[i] == n;
    const graph_node x = *node_at(g, n);
    if (again)
        n = node_make(g,
                      (node_form){OP_CONTIGUOUS, (qn_dtype)x.dtype, x.shape,
                                  graph_tuple(g, 1, (const int64_t[]){b->roots + 1}), 0},
                      1, &n);
    b->root[b->roots++] = n;
}

/* Which results stack a state's value, before each trip or behind it: those take no copy, for the
 * state lives in their rows. A value that is there twice is copied, to a node of its own. First
 * values are copied by the host, so where it does not reach them a trip does that. */
static void find_stacked_states(const body *b, arena *a, uint32_t states, loop_body *out,
                                bool reached) {
    out->before = arena_zeroed(a, (states + 1) * sizeof *out->before);
    out->behind = arena_zeroed(a, (states + 1) * sizeof *out->behind);
    out->rooted = arena_zeroed(a, out->stacks + 1);
    for (uint32_t k = 0; k < out->stacks; k++) {
        node_id n = node_body(node_at(b->g, out->stack[k]));
        const graph_node *x = node_at(b->g, n);
        if (reached && x->op == OP_ARGUMENT && argument_kind(x) == ARGUMENT_STATE)
            out->before[argument_number(x)] = k + 1;
    }
    for (uint32_t k = 0; k < out->stacks; k++) {
        node_id n = node_body(node_at(b->g, out->stack[k]));
        for (uint32_t i = 0; i < states && !out->rooted[k]; i++) {
            if (out->before[i] == k + 1) out->rooted[k] = true;
            if (out->before[i] || out->behind[i] || b->root[i] != n) continue;
            out->behind[i] = k + 1;
            out->rooted[k] = true;
        }
        out->rooted[k] = !out->rooted[k];
    }
}

static bool in_rows(const loop_body *out, uint32_t state) {
    return out->before[state] || out->behind[state];
}

/* States may be written over their old values, but for those that are in rows. */
static uint32_t *states_over(const body *b, arena *a, uint32_t states, const loop_body *out) {
    uint32_t *over = arena_zeroed(a, (b->roots + 1) * sizeof *over), leaves = 0;
    for (uint32_t i = 0; i < b->nodes; i++) {
        const graph_node *x = node_at(b->g, b->order[i]);
        if (!node_is_memory(x)) continue;
        leaves++;
        if (argument_kind(x) == ARGUMENT_STATE && argument_number(x) < states &&
            !in_rows(out, argument_number(x)))
            over[argument_number(x)] = leaves;
    }
    return over;
}

static bool *captures(const body *b, arena *a) {
    bool *lasting = arena_zeroed(a, b->nodes + 1);
    for (uint32_t i = 0; i < b->nodes; i++) {
        const graph_node *x = node_at(b->g, b->order[i]);
        lasting[i] = x->op == OP_ARGUMENT && argument_kind(x) == ARGUMENT_CAPTURE;
    }
    return lasting;
}

/* Slices of sequences and states that are rows of what stacks them. */
static bool *rows(const body *b, arena *a, const loop_body *out) {
    bool *row = arena_zeroed(a, b->nodes + 1);
    for (uint32_t i = 0; i < b->nodes; i++) {
        const graph_node *x = node_at(b->g, b->order[i]);
        if (x->op != OP_ARGUMENT) continue;
        row[i] = argument_kind(x) == ARGUMENT_SLICE ||
                 (argument_kind(x) == ARGUMENT_STATE && in_rows(out, argument_number(x)));
    }
    return row;
}

/* Results that stack a value of the loop's, in the order of the request. */
static uint32_t find_stacks(const graph *g, arena *a, node_id loop, uint32_t nodes,
                            const node_id *order, node_id **out) {
    uint32_t n = 0, cap = 0, number;
    *out = NULL;
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(g, order[i]);
        if (!node_is_result(x) || x->src[0] != loop || node_result(g, x, &number) != RESULT_STACK)
            continue;
        *out = arena_grow(a, *out, &cap, n + 1, sizeof **out);
        (*out)[n++] = order[i];
    }
    return n;
}

static loop_leaf *name_leaves(const body *b, arena *a) {
    uint32_t n = 0;
    loop_leaf *leaf = arena_alloc(a, (b->nodes + 1) * sizeof *leaf);
    for (uint32_t i = 0; i < b->nodes; i++) {
        const graph_node *x = node_at(b->g, b->order[i]);
        if (node_is_memory(x))
            leaf[n++] = (loop_leaf){(uint32_t)argument_kind(x), argument_number(x)};
    }
    return leaf;
}

static run_plan *plan_body(qn_ctx *qn, arena *a, node_id loop, loop_body *out) {
    graph *g = qn->graph;
    loop_attr attr = node_loop(g, node_at(g, loop));
    body *b = arena_zeroed(a, sizeof *b);
    cleanup c;
    node_id *next;
    uint32_t nexts = list_values(g, a, node_body(node_at(g, loop)), &next);
    b->g = g;
    b->root = arena_alloc(a, (nexts + (size_t)out->stacks + 1) * sizeof *b->root);
    for (uint32_t i = 0; i < nexts; i++) add_root(b, next[i]);
    find_stacked_states(b, a, attr.states, out, qn->run->dev->host_memory);
    for (uint32_t i = 0; i < out->stacks; i++)
        if (out->rooted[i]) add_root(b, node_body(node_at(g, out->stack[i])));
    b->nodes = graph_order_history(g, a, (int)b->roots, b->root, 0, &b->order);
    cleanup_push(&qn->heap, &c, show, b);
    hide(b, a);
    out->leaf = name_leaves(b, a);
    plan_request r = {.nodes = b->nodes,
                      .roots = b->roots,
                      .order = b->order,
                      .root = b->root,
                      .over = states_over(b, a, attr.states, out),
                      .lasting = captures(b, a),
                      .rows = rows(b, a, out)};
    plan_key key = key_build(g, a, &r);
    run_plan *p = plan_build(qn, &r, &key);
    cleanup_run(&qn->heap, &c);
    return p;
}

loop_body *loops_plan(qn_ctx *qn, run_plan *p, arena *scratch, uint32_t nodes,
                      const node_id *order) {
    graph *g = qn->graph;
    uint32_t loops = 0;
    for (uint32_t i = 0; i < nodes; i++) loops += node_at(g, order[i])->op == OP_LOOP;
    if (!loops) return NULL;
    loop_body *of = arena_zeroed(scratch, (nodes + 1) * sizeof *of);
    p->body = arena_zeroed(&p->arena, loops * sizeof(run_plan *));
    for (uint32_t i = 0; i < nodes; i++) {
        if (node_at(g, order[i])->op != OP_LOOP) continue;
        of[i].stacks = find_stacks(g, scratch, order[i], nodes, order, &of[i].stack);
        of[i].plan = p->body[p->bodies] = plan_body(qn, scratch, order[i], &of[i]);
        p->bodies++;
    }
    return of;
}

/* ---- the launch ------------------------------------------------------------------------------ */

uint32_t loop_inputs(const graph *g, arena *a, const fuse_kernel *fk, node_id **out) {
    node_id loop = node_at(g, fk->root)->src[0];
    return list_values(g, a, node_at(g, loop)->src[0], out);
}

static void name_results(const graph *g, loop_launch *c, const fuse_kernel *fk,
                         const loop_body *b) {
    uint32_t number;
    for (uint32_t i = 0; i < c->results; i++) {
        int what = node_result(g, node_at(g, fk->out[i]), &number);
        if (what == RESULT_FINAL) c->state[number].final = (int)i;
        if (what == RESULT_TRIPS) c->trips_result = (int)i;
        for (uint32_t k = 0; k < b->stacks; k++)
            if (b->stack[k] == fk->out[i]) c->stack[k] = i;
    }
    for (uint32_t i = 0; i < c->attr.states; i++) {
        if (b->before[i]) c->state[i].before = (int)c->stack[b->before[i] - 1];
        if (b->behind[i]) c->state[i].behind = (int)c->stack[b->behind[i] - 1];
    }
}

loop_launch *loop_make(graph *g, arena *a, const fuse_kernel *fk, const loop_body *b) {
    loop_launch *c = arena_zeroed(a, sizeof *c);
    run_plan *p = b->plan;
    node_id *in;
    c->attr = node_loop(g, node_at(g, node_at(g, fk->root)->src[0]));
    c->body = p;
    c->results = fk->outs;
    c->inputs = loop_inputs(g, a, fk, &in);
    c->stacks = b->stacks;
    c->program.name = "loop";
    c->program.args = (int)(c->results + c->inputs + 1);
    c->trips_result = -1;
    c->leaf = arena_alloc(a, (p->leaves + 1) * sizeof *c->leaf);
    memcpy(c->leaf, b->leaf, p->leaves * sizeof *c->leaf);
    c->stack = arena_zeroed(a, (c->stacks + 1) * sizeof *c->stack);
    c->rooted = memcpy(arena_alloc(a, c->stacks + 1), b->rooted, c->stacks);
    c->state = arena_zeroed(a, (c->attr.states + 1) * sizeof *c->state);
    for (uint32_t i = 0; i < c->attr.states; i++)
        c->state[i].final = c->state[i].before = c->state[i].behind = -1;
    name_results(g, c, fk, b);
    c->in = arena_zeroed(a, (p->leaves + 1) * sizeof *c->in);
    c->out = arena_zeroed(a, (p->outputs + 1) * sizeof *c->out);
    c->pack = arena_zeroed(a, (p->packings + 1) * sizeof *c->pack);
    return c;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The leaf of the body that state i is, plus one; 0: the body does not read it. */
static uint32_t leaf_of_state(const loop_launch *c, uint32_t i) {
    for (uint32_t k = 0; k < c->body->leaves; k++)
        if (c->leaf[k].kind == ARGUMENT_STATE && c->leaf[k].number == i) return k + 1;
    return 0;
}

static size_t take(size_t *at, size_t size) {
    size_t here = *at;
    *at += aligned(size);
    return here;
}

static size_t place_states(const run_plan *p, const launch *l, size_t at) {
    loop_launch *c = l->loop;
    for (uint32_t i = 0; i < c->attr.states; i++) {
        loop_state *s = &c->state[i];
        uint32_t leaf = leaf_of_state(c, i);
        s->size = p->slot[l->set->slot[c->results + i]].size;
        s->over = leaf && plan_donates(c->body, i, leaf - 1);
        if (s->final < 0 && s->behind < 0) s->home = take(&at, s->size);
        if (!s->over && s->before < 0 && s->behind < 0) s->other = take(&at, s->size);
    }
    return at;
}

void loops_find_sizes(qn_ctx *qn, run_plan *p) {
    graph *g = qn->graph;
    for (uint32_t i = 0; i < p->launches; i++) {
        loop_launch *c = p->launch[i].loop;
        if (!c) continue;
        run_plan *b = c->body;
        plan_measure(qn, b);
        if (shape_unbound(g, c->attr.count) ||
            !sym_eval(g->syms, c->attr.count, (int)g->vars, g->var, g->bound, &c->count) ||
            c->count < 0)
            raise_unbound(qn, c->attr.count);
        size_t at = place_states(p, &p->launch[i], 0);
        c->test_at = take(&at, 1);
        for (uint32_t k = 0; k < b->packings; k++) c->pack[k] = take(&at, b->packing[k].size);
        c->arena_at = take(&at, (size_t)b->arena_size);
        p->slot[p->launch[i].set->slot[c->program.args - 1]].size = at;
        if (b->staging > p->staging) p->staging = b->staging;
    }
}
