/* loop.c - launches of loops: a body's plan, run trip by trip.
 *
 * A body is planned as any request is: its arguments are the leaves, the states behind a trip and
 * what is stacked are the roots. It is planned once, whatever the number of trips, and its kernels
 * are compiled with all others. To the plan around it the loop is one launch, alone in its level.
 *
 * A trip is a run of that plan on other places, and nothing else:
 *   - a sequence's slice, and a row of what is stacked, lie where the row does;
 *   - a state's first value is read where it is. Then it is written over itself, where the body's
 *     plan can do that, or into two places by turns, counted so that the last trip writes where
 *     the result is wanted. A state that is stacked lives in the rows of its stack. No trip copies
 *     a state;
 *   - temporaries lie in the loop's scratch, which is a temporary of the plan around it, at every
 *     trip in the same places. Weights that all trips read are packed once a run.
 * So a trip allocates nothing and takes no lock, and what it is given anew is a few addresses.
 *
 * Where data say how many trips there are, the host reads a number before the first, or a bool
 * before each. */
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

/* ---- memory of devices ----------------------------------------------------------------------- */

static qn_code copy(const run_state *r, loop_place to, loop_place from, size_t size) {
    char some[4096];
    qn_code code = QN_OK;
    if (r->dev->host_memory) {
        memmove((char *)to.memory + to.offset, (char *)from.memory + from.offset, size);
        return QN_OK;
    }
    for (size_t done = 0, n; done < size && !code; done += n) {
        n = size - done < sizeof some ? size - done : sizeof some;
        code = r->dev->copy_out(r->dev_state, from.memory, from.offset + done, some, n);
        if (!code) code = r->dev->copy_in(r->dev_state, to.memory, to.offset + done, some, n);
    }
    return code;
}

static qn_code clear(const run_state *r, loop_place to, size_t size) {
    static const char zeros[4096];
    qn_code code = QN_OK;
    for (size_t done = 0, n; done < size && !code; done += n) {
        n = size - done < sizeof zeros ? size - done : sizeof zeros;
        code = r->dev->copy_in(r->dev_state, to.memory, to.offset + done, zeros, n);
    }
    return code;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct trip {
    qn_ctx *qn;
    const launch *l;
    loop_launch *c;
    int64_t trips; /* as far as that is known before: at most */
    int64_t done;
} trip;

static loop_place argument(const trip *t, uint32_t i) {
    return (loop_place){t->l->slice[i].memory, t->l->slice[i].offset};
}

static loop_place scratch(const trip *t, size_t at) {
    const dev_slice *s = &t->l->slice[t->c->program.args - 1];
    return (loop_place){s->memory, s->offset + at};
}

/* Row `row` of an argument that has one for each trip. */
static loop_place row_of(const trip *t, uint32_t i, int64_t row) {
    loop_place p = argument(t, i);
    p.offset += (size_t)row * (t->l->slice[i].size / (size_t)t->c->count);
    return p;
}

static loop_place home(const trip *t, const loop_state *s) {
    return s->final >= 0 ? argument(t, (uint32_t)s->final) : scratch(t, s->home);
}

/* The row of what is stacked `ahead` trips behind this one. */
static int64_t row_ahead(const trip *t, int64_t ahead) {
    int64_t at = t->done + ahead;
    return t->c->attr.reverse ? t->trips - 1 - at : at;
}

static int64_t row_now(const trip *t) {
    return row_ahead(t, 0);
}

/* Where the state goes in this trip. What stacks it before each trip has no row behind the last. */
static loop_place next_place(const trip *t, const loop_state *s) {
    int64_t left = t->c->attr.tested ? t->done : t->trips - 1 - t->done;
    if (s->behind >= 0) return row_of(t, (uint32_t)s->behind, row_now(t));
    if (s->before >= 0 && t->done + 1 < t->trips)
        return row_of(t, (uint32_t)s->before, row_ahead(t, 1));
    return s->over || s->before >= 0 || left % 2 == 0 ? home(t, s) : scratch(t, s->other);
}

/* First values into the rows of what is stacked before each trip. */
static qn_code stack_first(const trip *t) {
    qn_code code = QN_OK;
    for (uint32_t i = 0; i < t->c->attr.states && !code; i++) {
        loop_state *s = &t->c->state[i];
        if (s->before < 0) continue;
        loop_place to = row_of(t, (uint32_t)s->before, row_now(t));
        code = copy(t->qn->run, to, s->now, s->size);
        s->now = to;
    }
    return code;
}

static void place_leaves(const trip *t, bool first) {
    const loop_launch *c = t->c;
    uint32_t sequence = c->results + c->attr.states;
    for (uint32_t i = 0; i < c->body->leaves; i++) {
        uint32_t n = c->leaf[i].number;
        if (c->leaf[i].kind == ARGUMENT_STATE)
            c->in[i] = c->state[n].now;
        else if (c->leaf[i].kind == ARGUMENT_SLICE)
            c->in[i] = row_of(t, sequence + n, row_now(t));
        else if (first)
            c->in[i] = argument(t, sequence + c->attr.sequences + n);
    }
}

static void place_outputs(const trip *t) {
    const loop_launch *c = t->c;
    uint32_t n = 0;
    for (; n < c->attr.states; n++) c->out[n] = next_place(t, &c->state[n]);
    if (c->attr.tested) c->out[n++] = scratch(t, c->test_at);
    for (uint32_t i = 0; i < c->stacks; i++)
        if (c->rooted[i]) c->out[n++] = row_of(t, c->stack[i], row_now(t));
}

static void move(const trip *t, bool first) {
    const loop_launch *c = t->c;
    for (uint32_t i = 0; i < c->body->movings; i++) {
        const moving_slice *m = &c->body->moving[i];
        if (m->kind == SLOT_PACK && !first) continue;
        loop_place p = m->kind == SLOT_LEAF     ? c->in[m->number]
                       : m->kind == SLOT_OUTPUT ? c->out[m->number]
                                                : scratch(t, c->pack[m->number]);
        m->slice->memory = p.memory;
        m->slice->offset = p.offset + m->within;
    }
}

/* Weights, in panels: what is captured is the same in all trips. */
static qn_code pack_captures(const trip *t) {
    const run_state *r = t->qn->run;
    qn_code code = QN_OK;
    for (uint32_t i = 0; i < t->c->body->packings && !code; i++) {
        const packing *x = &t->c->body->packing[i];
        loop_place to = scratch(t, t->c->pack[i]), from = t->c->in[x->leaf];
        size_t size = t->c->body->slot[t->c->body->leaf_slot[x->leaf]].size;
        const dev_slice slice[2] = {{to.memory, to.offset, x->size},
                                    {from.memory, from.offset, size}};
        const dev_set set = {.arg = slice};
        code = r->dev->launch(r->dev_state, x->program, 1, &set);
    }
    return code;
}

static void give_values(const run_plan *p) {
    for (uint32_t i = 0; i < p->lifteds; i++) {
        const moving_value *v = &p->lifted[i];
        if (*v->value == p->key.value[v->number]) continue;
        *v->value = p->key.value[v->number];
        v->checked->is = false;
    }
}

/* How many trips there may be, of a number that data are. */
static qn_code find_trips(trip *t) {
    const run_state *r = t->qn->run;
    const loop_attr *a = &t->c->attr;
    int64_t limit = t->c->count;
    t->trips = limit;
    if (!a->limited) return QN_OK;
    loop_place p = argument(t, t->c->results + a->states + a->sequences + a->captures);
    qn_code code = r->dev->copy_out(r->dev_state, p.memory, p.offset, &limit, sizeof limit);
    if (limit < t->trips) t->trips = limit < 0 ? 0 : limit;
    return code;
}

static qn_code is_going(const trip *t, bool *going) {
    const run_state *r = t->qn->run;
    uint8_t test = 1;
    qn_code code = QN_OK;
    loop_place p =
        t->done ? scratch(t, t->c->test_at) : argument(t, t->c->results + t->c->inputs - 1);
    *going = t->done < t->trips;
    if (*going && t->c->attr.tested)
        code = r->dev->copy_out(r->dev_state, p.memory, p.offset, &test, 1);
    *going &= test != 0;
    return code;
}

static qn_code run_trip(trip *t) {
    loop_launch *c = t->c;
    bool first = !t->done;
    qn_code code = first ? stack_first(t) : QN_OK;
    place_leaves(t, first);
    place_outputs(t);
    if (first && !code) code = pack_captures(t);
    move(t, first);
    if (!code) code = plan_launch(t->qn, c->body);
    for (uint32_t i = 0; i < c->attr.states; i++) c->state[i].now = c->out[i];
    return code;
}

/* States that are somewhere else than they are wanted, rows of trips that were not made. */
static qn_code finish(const trip *t) {
    const run_state *r = t->qn->run;
    const loop_launch *c = t->c;
    qn_code code = QN_OK;
    for (uint32_t i = 0; i < c->attr.states && !code; i++) {
        const loop_state *s = &c->state[i];
        loop_place to = home(t, s);
        if (s->final >= 0 && (s->now.memory != to.memory || s->now.offset != to.offset))
            code = copy(r, to, s->now, s->size);
    }
    for (uint32_t i = 0; i < c->stacks && !code && t->done < c->count; i++) {
        size_t row = t->l->slice[c->stack[i]].size / (size_t)c->count;
        code = clear(r, row_of(t, c->stack[i], t->done), (size_t)(c->count - t->done) * row);
    }
    if (c->trips_result < 0 || code) return code;
    loop_place to = argument(t, (uint32_t)c->trips_result);
    return r->dev->copy_in(r->dev_state, to.memory, to.offset, &t->done, sizeof t->done);
}

qn_code loop_run(qn_ctx *qn, const launch *l) {
    trip t = {.qn = qn, .l = l, .c = l->loop};
    bool going;
    for (uint32_t i = 0; i < t.c->attr.states; i++)
        t.c->state[i].now = argument(&t, t.c->results + i);
    t.c->body->base = scratch(&t, t.c->arena_at).offset;
    plan_fill(qn, t.c->body);
    give_values(t.c->body);
    qn_code code = find_trips(&t);
    if (!code) code = is_going(&t, &going);
    while (!code && going) {
        code = run_trip(&t);
        t.done++;
        if (!code) code = is_going(&t, &going);
    }
    return code ? code : finish(&t);
}
