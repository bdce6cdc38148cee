/* static.c - qn_plan_new and qn_plan_run: one plan, replayed.
 *
 * A static graph is an ordinary plan with names on its leaves: some are the inputs given at each
 * run, the rest are parameters, found again through the handle that held them at compile time, so
 * that qn_assign and qn_write on that handle are seen. Assignments pending at compile time become
 * part of the plan: each run computes them and points their handles at the new values. */
#include "graph/view/view.h"
#include "run/run.h"

typedef struct static_plan {
    qn_ctx *qn;
    qn_plan *name;                    /* by which the user knows it */
    struct static_plan *next, **link; /* among the context's open static graphs */
    arena arena;
    run_plan *plan;
    int inputs, outputs;
    tuple_id *input_shape;
    shape_binding binding;
    uint8_t *input_dtype;
    uint32_t leaves, roots;
    int *leaf_input;        /* by leaf: input number, or -1 */
    qn_tensor **leaf_owner; /* by leaf: the parameter's handle, kept */
    tuple_id *leaf_shape;
    int *output_root; /* by output */
    uint32_t assigned;
    qn_tensor **assign_to; /* handles that take a root's value after each run, kept */
    uint32_t *assign_root;
    uint32_t *assign_leaf;   /* 1 + the leaf whose value is replaced; 0: it is none */
    uint64_t donate;         /* by input */
    int states, state_input; /* inputs that outputs take the place of */
    uint32_t *donated;       /* by root: 1 + the leaf of these that it may lie over, or 0 */
    tuple_id *root_shape;
    uint8_t *root_dtype;
    reopened reopened; /* while it is captured */
    static_constants constants;
    int *leaf_constant; /* by leaf: which of these it is, or -1 */
    checks checks;      /* of indices, behind a run */
    early_checks early;
    /* of the run under way */
    uint32_t *leaf_buffer, *root_buffer;
    uint32_t *over;     /* by root, as plan_run has it */
    node_id *root_node; /* the first `noded` are there */
    uint32_t noded;
    node_id *assign_node; /* likewise: no tensor's value is the same node as another's */
    uint32_t versioned;
    qn_tensor **output; /* their handles, of which the first `handed` are there */
    int handed;
} static_plan;

typedef struct capture {
    static_plan *p;
    node_id *root, *order;
    uint32_t nodes;
} capture;

static plan_request request_of(const capture *c) {
    return (plan_request){
        .nodes = c->nodes, .roots = c->p->roots, .order = c->order, .root = c->root};
}

static uint32_t root_number(capture *c, node_id n) {
    for (uint32_t i = 0; i < c->p->roots; i++)
        if (c->root[i] == n) return i;
    c->root[c->p->roots] = n;
    return c->p->roots++;
}

/* And last what tells whether indices are inside, where that is not found out before. */
static void take_checks(capture *c, const static_lists *l) {
    static_plan *p = c->p;
    plan_request r = request_of(c);
    r.nodes = graph_order(p->qn->graph, &p->arena, (int)r.roots, r.root, &r.order);
    if (early_find(&p->early, p->qn, &p->arena, &r, l)) return;
    checks_add(&p->checks, p->qn, &p->arena, &r);
    c->root = r.root;
    p->roots = r.roots;
}

/* Roots: the outputs, then what pending assignments need. */
static void take_roots(capture *c, const static_lists *l) {
    static_plan *p = c->p;
    graph *g = p->qn->graph;
    arena *a = &p->arena;
    c->root = arena_alloc(a, (size_t)(l->n_out + g->pending_count + 1) * sizeof *c->root);
    p->output_root = arena_alloc(a, (size_t)(l->n_out + 1) * sizeof *p->output_root);
    p->output = arena_alloc(a, (size_t)(l->n_out + 1) * sizeof(qn_tensor *));
    for (int i = 0; i < l->n_out; i++) {
        node_id named = tensor_at(l->outputs[i])->node, n = node_behind(g, named);
        /* An input or a parameter: a copy of it. */
        if (node_is_memory(node_at(g, named))) named = make_apart(g, named);
        if (node_is_memory(node_at(g, n))) n = named;
        p->output_root[i] = (int)root_number(c, n);
    }
    p->assign_to = arena_alloc(a, (g->pending_count + 1) * sizeof *p->assign_to);
    p->assign_root = arena_alloc(a, (g->pending_count + 1) * sizeof *p->assign_root);
    p->assign_node = arena_alloc(a, (g->pending_count + 1) * sizeof *p->assign_node);
    for (uint32_t i = 0; i < g->pending_count; i++) {
        tensor *t = g->pending[i];
        node_id n = node_behind(g, t->node);
        if (node_is_memory(node_at(g, n))) n = t->node; /* an input: a copy of it */
        p->assign_root[p->assigned] = root_number(c, n);
        p->assign_to[p->assigned++] = handle_name(&tensor_keep(t)->h);
    }
    take_checks(c, l);
    p->root_shape = arena_alloc(a, (p->roots + 1) * sizeof *p->root_shape);
    p->root_dtype = arena_alloc(a, p->roots + 1);
    p->root_buffer = arena_alloc(a, (p->roots + 1) * sizeof *p->root_buffer);
    p->root_node = arena_alloc(a, (p->roots + 1) * sizeof *p->root_node);
    p->over = arena_zeroed(a, (p->roots + 1) * sizeof *p->over);
    for (uint32_t i = 0; i < p->roots; i++) {
        p->root_shape[i] = node_at(g, c->root[i])->shape;
        p->root_dtype[i] = node_at(g, c->root[i])->dtype;
    }
}

/* The handle through which a parameter will be found at each run: the one whose pending assignment
 * replaces it, for that is where the next run's value will be; else the first that was made of
 * those that hold it now. Others may hold it, too, such as a slice of all of it, and an assignment
 * will not move them. What was released and never assigned to is what it is: it gets a handle of
 * the scope in which plans are made. */
tensor *static_owner(qn_ctx *qn, node_id leaf) {
    graph *g = qn->graph;
    for (uint32_t i = 0; i < g->pending_count; i++)
        if (g->pending[i]->replaced == leaf) return g->pending[i];
    tensor *t = graph_handle_of(g, leaf);
    if (t) return t;
    const graph_node *x = node_at(g, leaf);
    if (!x->variable && !(x->flags & (NODE_OLD | NODE_GONE)))
        return tensor_at(tensor_make(g, leaf));
    g->text.len = 0;
    tensor_describe(g, leaf, &g->text);
    raise_error(
        qn, QN_EGRAPH,
        "plan_new: the outputs depend on a value %s of a tensor that was assigned to and released; "
        "name it as an input or keep its tensor",
        g->text.s);
}

void static_leaf(qn_ctx *qn, const static_lists *l, node_id leaf, int *input, qn_tensor **owner) {
    kept_forget(qn, node_at(qn->graph, leaf)->buffer);
    *input = -1;
    *owner = NULL;
    for (int j = 0; j < l->n_in; j++)
        if (tensor_at(l->inputs[j])->node == leaf) *input = j;
    if (*input < 0) *owner = handle_name(&tensor_keep(static_owner(qn, leaf))->h);
}

static void name_leaves(capture *c, const static_lists *l) {
    static_plan *p = c->p;
    graph *g = p->qn->graph;
    size_t n = (size_t)c->nodes + 1;
    p->leaf_input = arena_alloc(&p->arena, n * sizeof *p->leaf_input);
    p->leaf_owner = arena_zeroed(&p->arena, n * sizeof *p->leaf_owner);
    p->leaf_shape = arena_alloc(&p->arena, n * sizeof *p->leaf_shape);
    p->leaf_buffer = arena_alloc(&p->arena, n * sizeof *p->leaf_buffer);
    p->leaf_constant = arena_alloc(&p->arena, n * sizeof *p->leaf_constant);
    for (uint32_t i = 0; i < c->nodes; i++) {
        const graph_node *x = node_at(g, c->order[i]);
        if (!node_is_memory(x)) continue;
        uint32_t leaf = p->leaves++;
        p->leaf_shape[leaf] = x->shape;
        p->leaf_input[leaf] = -1;
        p->leaf_constant[leaf] = constants_number(&p->constants, c->order[i]);
        if (p->leaf_constant[leaf] >= 0) continue;
        static_leaf(p->qn, l, c->order[i], &p->leaf_input[leaf], &p->leaf_owner[leaf]);
    }
}

/* Which leaf's value each assignment replaces: what most runs will ask for. */
static void name_replaced(capture *c) {
    static_plan *p = c->p;
    p->assign_leaf = arena_zeroed(&p->arena, (p->assigned + 1) * sizeof *p->assign_leaf);
    for (uint32_t a = 0; a < p->assigned; a++)
        for (uint32_t leaf = 0; leaf < p->leaves; leaf++)
            if (p->leaf_owner[leaf] == p->assign_to[a]) {
                p->assign_leaf[a] = leaf + 1;
                p->over[p->assign_root[a]] = leaf + 1;
            }
}

/* By place in the order: the inputs that a node is made of, as bits. */
static uint64_t *made_of_inputs(const capture *c) {
    const graph *g = c->p->qn->graph;
    uint64_t *of = arena_zeroed(&c->p->arena, (c->nodes + 1) * sizeof *of);
    for (uint32_t i = 0, leaf = 0; i < c->nodes; i++) {
        const graph_node *x = node_at(g, c->order[i]);
        if (node_is_memory(x)) {
            int input = c->p->leaf_input[leaf++];
            if (input >= 0 && input < 64) of[i] = 1ull << input;
            continue;
        }
        for (int k = 0; k < x->sources; k++)
            of[i] |= of[node_at(g, x->src[k])->mark - g->mark_base];
    }
    return of;
}

/* The leaf of a kind with the root among these inputs, for the root to lie over; else `leaves`. */
static uint32_t leaf_alike(const static_plan *p, uint32_t root, uint64_t inputs) {
    for (uint32_t leaf = 0; leaf < p->leaves; leaf++) {
        int i = p->leaf_input[leaf];
        if (i >= 0 && i < 64 && inputs >> i & 1 && p->leaf_shape[leaf] == p->root_shape[root] &&
            p->input_dtype[i] == p->root_dtype[root])
            return leaf;
    }
    return p->leaves;
}

static bool is_state(const static_plan *p, int input) {
    return input >= p->state_input && input < p->state_input + p->states;
}

/* An output lies over the input whose place it takes. */
static void name_states(capture *c, const static_lists *l) {
    static_plan *p = c->p;
    p->states = l->states;
    p->state_input = l->state_input;
    for (uint32_t leaf = 0; leaf < p->leaves; leaf++) {
        const int i = p->leaf_input[leaf];
        if (!is_state(p, i)) continue;
        const uint32_t root = (uint32_t)p->output_root[i - l->state_input + l->state_output];
        if (p->over[root] || p->leaf_shape[leaf] != p->root_shape[root] ||
            p->input_dtype[i] != p->root_dtype[root])
            continue;
        p->donated[root] = p->over[root] = leaf + 1;
    }
}

/* Which donated leaf each output may lie over. Outputs that are made of few go first: what is made
 * of more, as a parameter is of its moments, takes what they leave. */
static void name_donated(capture *c, const static_lists *l) {
    static_plan *p = c->p;
    const graph *g = p->qn->graph;
    p->donate = l->donate;
    if (!p->donate) return;
    const uint64_t *of = made_of_inputs(c);
    uint64_t left = p->donate;
    for (int most = 1; most <= 64; most++)
        for (int o = 0; o < p->outputs; o++) {
            const uint32_t root = (uint32_t)p->output_root[o];
            const uint64_t inputs = of[node_at(g, c->root[root])->mark - g->mark_base];
            if (p->over[root] || __builtin_popcountll(inputs) != most) continue;
            const uint32_t leaf = leaf_alike(p, root, inputs & left);
            if (leaf == p->leaves) continue;
            left &= ~(1ull << p->leaf_input[leaf]);
            p->donated[root] = p->over[root] = leaf + 1;
        }
}

/* Parameters that no run of the plan assigns. */
static bool *lasting_leaves(const capture *c) {
    const static_plan *p = c->p;
    bool *lasting = arena_zeroed(&c->p->arena, c->nodes + 1);
    uint32_t leaf = 0;
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (!node_is_memory(node_at(p->qn->graph, c->order[i]))) continue;
        lasting[i] = p->leaf_owner[leaf] || p->leaf_constant[leaf] >= 0;
        for (uint32_t a = 0; a < p->assigned; a++)
            if (p->assign_to[a] == p->leaf_owner[leaf]) lasting[i] = false;
        leaf++;
    }
    return lasting;
}

/* The same before leaves have names. */
static void find_constants(capture *c, const static_lists *l) {
    static_plan *p = c->p;
    graph *g = p->qn->graph;
    bool *lasting = arena_zeroed(&p->arena, c->nodes + 1);
    for (uint32_t i = 0; i < c->nodes; i++) {
        if (!node_is_memory(node_at(g, c->order[i]))) continue;
        lasting[i] = true;
        for (int j = 0; j < l->n_in; j++)
            if (tensor_at(l->inputs[j])->node == c->order[i]) lasting[i] = false;
        qn_tensor *owner = lasting[i] ? handle_name(&static_owner(p->qn, c->order[i])->h) : NULL;
        for (uint32_t a = 0; a < p->assigned; a++)
            if (p->assign_to[a] == owner) lasting[i] = false;
    }
    plan_request r = request_of(c);
    r.lasting = lasting;
    constants_find(&p->constants, p->qn, &p->arena, &r);
    if (p->constants.values)
        c->nodes = graph_order(g, &p->arena, (int)p->roots, c->root, &c->order);
}

static void capture_graph(capture *c, const static_lists *l) {
    static_plan *p = c->p;
    qn_ctx *qn = p->qn;
    graph *g = qn->graph;
    p->inputs = l->n_in;
    p->outputs = l->n_out;
    p->input_shape = arena_alloc(&p->arena, (size_t)(l->n_in + 1) * sizeof *p->input_shape);
    p->input_dtype = arena_alloc(&p->arena, (size_t)l->n_in + 1);
    p->binding.value = arena_alloc(&p->arena, (g->vars + 1) * sizeof *p->binding.value);
    p->binding.from = arena_alloc(&p->arena, (g->vars + 1) * sizeof *p->binding.from);
    p->binding.vars = g->vars;
    for (int i = 0; i < l->n_in; i++) {
        const graph_node *x = node_at(g, tensor_at(l->inputs[i])->node);
        p->input_shape[i] = x->shape;
        p->input_dtype[i] = x->dtype;
    }
    reopen_inputs(&p->reopened, qn, &p->arena, l);
    take_roots(c, l);
    c->nodes = graph_order(g, &p->arena, (int)p->roots, c->root, &c->order);
    for (uint32_t i = 0; i < c->nodes; i++)
        if (node_at(g, c->order[i])->op == OP_ARGUMENT)
            raise_error(qn, QN_EGRAPH, "plan_new: an output uses a value of a loop's body");
    find_constants(c, l);
    name_leaves(c, l);
    name_replaced(c);
    p->donated = arena_zeroed(&p->arena, (p->roots + 1) * sizeof *p->donated);
    name_states(c, l);
    name_donated(c, l);
    plan_request r = request_of(c);
    r.lasting = lasting_leaves(c);
    r.over = p->over;
    plan_key key = key_build(g, &p->arena, &r);
    p->plan = plan_build(qn, &r, &key);
    plan_pin(qn, p->plan);
    constants_hide(&p->constants, g);
    checks_let_go(&p->checks, qn);
    reopen_end(&p->reopened, g);
    pending_clear(g, true);
}

static bool check_tensors(qn_ctx *qn, const char *call, const char *what, int n,
                          qn_tensor *const *t) {
    if (n < 0 || (n && !t)) return fail(qn, QN_EARG, "%s: bad list of %ss", call, what), false;
    return tensors_of(qn, n, t, call, what);
}

static void static_close(static_plan *p) {
    qn_ctx *qn = p->qn;
    constants_close(&p->constants, qn);
    checks_let_go(&p->checks, qn);
    early_close(&p->early, qn);
    reopen_end(&p->reopened, qn->graph);
    if (p->name) object_close(p->name, HANDLE_PLAN, "plan_free");
    for (uint32_t i = 0; p->leaf_owner && i < p->leaves; i++)
        if (handle_is(p->leaf_owner[i], HANDLE_TENSOR)) qn_release(p->leaf_owner[i]);
    for (uint32_t i = 0; i < p->assigned; i++)
        if (handle_is(p->assign_to[i], HANDLE_TENSOR)) qn_release(p->assign_to[i]);
    plan_close(qn, p->plan);
    *p->link = p->next;
    if (p->next) p->next->link = p->link;
    arena_free(&p->arena);
    heap_free(&qn->heap, p, sizeof *p);
}

void statics_close(qn_ctx *qn) {
    while (qn->run->statics) static_close(qn->run->statics);
}

void statics_keep(qn_ctx *qn) {
    graph *g = qn->graph;
    for (const static_plan *p = qn->run->statics; p; p = p->next) {
        for (int i = 0; i < p->inputs; i++) graph_keep(g, p->input_shape[i]);
        for (uint32_t i = 0; i < p->leaves; i++) graph_keep(g, p->leaf_shape[i]);
        for (uint32_t i = 0; i < p->roots; i++) graph_keep(g, p->root_shape[i]);
        plan_keep(qn, p->plan);
        if (p->constants.plan) plan_keep(qn, p->constants.plan);
        for (uint32_t i = 0; i < p->early.leaves; i++) graph_keep(g, p->early.shape[i]);
        if (p->early.plan) plan_keep(qn, p->early.plan);
    }
}

bool static_view_of(qn_plan *name, const char *call, static_view *out) {
    static_plan *p = object_of(name, HANDLE_PLAN, call);
    if (!p) return false;
    *out = (static_view){.qn = p->qn,
                         .plan = p->plan,
                         .inputs = p->inputs,
                         .outputs = p->outputs,
                         .input_shape = p->input_shape,
                         .input_dtype = p->input_dtype,
                         .leaf_input = p->leaf_input,
                         .output_root = p->output_root,
                         .assigned = p->assigned,
                         .assign_root = p->assign_root,
                         .assign_leaf = p->assign_leaf,
                         .assign_to = p->assign_to,
                         .roots = p->roots,
                         .root_shape = p->root_shape,
                         .root_dtype = p->root_dtype,
                         .leaf_owner = p->leaf_owner,
                         .leaf_buffer = p->leaf_buffer,
                         .checked = p->checks.checks || p->early.checks.checks};
    return true;
}

const run_plan *static_plan_at(qn_plan *name, const char *call, qn_ctx **qn) {
    const static_plan *p = object_of(name, HANDLE_PLAN, call);
    if (p) *qn = p->qn;
    return p ? p->plan : NULL;
}

void qn_plan_free(qn_plan *name) {
    static_plan *p = object_of(name, HANDLE_PLAN, "plan_free");
    if (!p) return;
    qn_ctx *qn = p->qn;
    static_close(p);
    plans_trim(qn, NULL);
}

/* Values that were read are leaves, as if they had not been given up. Raises. */
static void regain_all(qn_ctx *qn, const static_lists *l) {
    for (int i = 0; i < l->n_in; i++) realize_given_up(qn, tensor_at(l->inputs[i])->node);
    for (int i = 0; i < l->n_out; i++) realize_given_up(qn, tensor_at(l->outputs[i])->node);
    for (uint32_t i = 0; i < qn->graph->pending_count; i++)
        realize_given_up(qn, qn->graph->pending[i]->node);
}

typedef struct compiling {
    qn_ctx *qn;
    static_lists lists;
    static_plan *made;
} compiling;

static void compile_work(void *arg) {
    compiling *c = arg;
    qn_ctx *qn = c->qn;
    realize_initial(qn); /* runs, and may sweep, so before there is a graph that lacks its plan */
    if (c->lists.no_assignments && qn->graph->pending_count) realize_nodes(qn, 0, NULL);
    regain_all(qn, &c->lists);
    static_plan *p = heap_zeroed(&qn->heap, sizeof *p);
    p->qn = qn;
    arena_open(&p->arena, &qn->heap);
    p->next = qn->run->statics;
    p->link = &qn->run->statics;
    if (p->next) p->next->link = &p->next;
    qn->run->statics = p;
    c->made = p;
    p->name = handle_name(handle_make(qn, HANDLE_PLAN, p));
    capture_graph(&(capture){.p = p}, &c->lists);
}

qn_plan *qn_plan_new_with(qn_ctx *qn, int n_in, qn_tensor *const *inputs, int n_out,
                          qn_tensor *const *outputs, const qn_plan_options *options) {
    qn_plan_options o = QN_PLAN_OPTIONS();
    if (!qn || !check_tensors(qn, "plan_new", "input", n_in, inputs) ||
        !check_tensors(qn, "plan_new", "output", n_out, outputs))
        return NULL;
    if (!struct_take(qn, "plan_new_with", "qn_plan_options", &o, sizeof o, options)) return NULL;
    if (n_in < 64 && o.donate >> n_in)
        return fail_null(qn, QN_EARG, "plan_new_with: donate is %#llx, and there are %d inputs",
                         (unsigned long long)o.donate, n_in);
    if (o.states < 0 || o.state_input < 0 || o.state_output < 0 || o.states > n_in ||
        o.states > n_out || o.state_input > n_in - o.states || o.state_output > n_out - o.states)
        return fail_null(qn, QN_EARG,
                         "plan_new_with: %lld states from input %lld and output %lld on, and there "
                         "are %d inputs and %d outputs",
                         (long long)o.states, (long long)o.state_input, (long long)o.state_output,
                         n_in, n_out);
    if (o.no_assignments && o.all_assignments)
        return fail_null(qn, QN_EARG,
                         "plan_new_with: no_assignments and all_assignments are both "
                         "set");
    if (qn->run->dev->unfused)
        return fail_null(qn, QN_EDEVICE, "plan_new: device %s has no plans", qn->run->dev->name);
    const static_lists lists = {.call = "plan_new",
                                .n_in = n_in,
                                .n_out = n_out,
                                .inputs = inputs,
                                .outputs = outputs,
                                .donate = o.donate,
                                .no_assignments = o.no_assignments,
                                .all_assignments = o.all_assignments,
                                .states = (int)o.states,
                                .state_input = (int)o.state_input,
                                .state_output = (int)o.state_output};
    compiling c = {qn, lists, NULL};
    qn_scope handles = qn_scope_begin(qn);
    if (!handles) return NULL;
    qn_code code = guarded(qn, compile_work, &c);
    if (code && c.made) static_close(c.made);
    qn_scope_end(qn, handles);
    if (code) return NULL;
    plans_trim(qn, NULL);
    return c.made->name;
}

qn_plan *qn_plan_new(qn_ctx *qn, int n_in, qn_tensor *const *inputs, int n_out,
                     qn_tensor *const *outputs) {
    return qn_plan_new_with(qn, n_in, inputs, n_out, outputs, NULL);
}

/* Dimension variables are what the inputs' shapes say. Raises. */
static bool bind_inputs(static_plan *p, qn_tensor *const *inputs) {
    graph *g = p->qn->graph;
    shape_binding *b = &p->binding;
    bool fits = true;
    bind_begin(g, b);
    for (int i = 0; fits && i < p->inputs; i++)
        fits = bind_shape(g, "plan_run", i, b, p->input_shape[i],
                          node_at(g, tensor_at(inputs[i])->node)->shape);
    for (int i = 0; fits && i < p->inputs; i++)
        fits = bind_check(g, "plan_run", i, b, p->input_shape[i],
                          node_at(g, tensor_at(inputs[i])->node)->shape);
    if (fits) bind_end(g, b);
    return fits;
}

/* What was read or realized is a leaf, but may have been given up, or be of other bindings. */
static bool is_there(const graph_node *x) {
    return node_is_memory(x) ? !(x->flags & NODE_GONE) : !x->given_up && !node_follows(x);
}

/* Inputs may be expressions, and earlier effects come first. A run whose inputs are there is the
 * common one, and as short as can be. */
static bool realize_inputs(const static_plan *p, qn_tensor *const *inputs) {
    qn_ctx *qn = p->qn;
    const graph *g = qn->graph;
    bool there = !g->pending_count;
    for (int i = 0; i < p->inputs && there; i++) {
        const graph_node *x = node_at(g, tensor_at(inputs[i])->node);
        there = node_is_memory(x) && is_there(x);
        if (there) kept_forget(qn, x->buffer);
    }
    if (there) {
        sweep_if_due(qn);
        request_ends(qn);
        return true;
    }
    if (qn_realize(p->inputs, inputs)) return false;
    if (g->pending_count) realize_nodes(qn, 0, NULL);
    return true;
}

/* The buffer of an input, or where that is NULL of a parameter. */
static bool find_value(qn_ctx *qn, const qn_tensor *input, const qn_tensor *owner, tuple_id shape,
                       uint32_t *out) {
    graph *g = qn->graph;
    const tensor *t = input ? tensor_at(input) : tensor_of(qn, owner, "plan_run", "a parameter");
    if (!t) return false;
    if (!is_there(node_at(g, t->node))) realize_nodes(qn, 1, &t->node);
    const graph_node *x = node_at(g, t->node);
    if (x->varies) check_fits(qn, t->node);
    if (!node_is_memory(x) || !(input || x->shape == shape))
        return fail(qn, QN_EGRAPH, "plan_run: a parameter was changed into something else"), false;
    *out = x->buffer;
    return true;
}

static bool find_leaf(static_plan *p, uint32_t leaf, const qn_tensor *input) {
    if (p->leaf_constant[leaf] < 0)
        return find_value(p->qn, input, p->leaf_owner[leaf], p->leaf_shape[leaf],
                          &p->leaf_buffer[leaf]);
    p->leaf_buffer[leaf] = p->constants.buffer[p->leaf_constant[leaf]];
    return true;
}

static bool find_early(const early_checks *e, qn_ctx *qn, qn_tensor *const *inputs) {
    for (uint32_t i = 0; i < e->leaves; i++)
        if (!find_value(qn, e->input[i] >= 0 ? inputs[e->input[i]] : NULL, e->owner[i], e->shape[i],
                        &e->leaf[i]))
            return false;
    return true;
}

/* Which buffer each leaf is this time; anything that does not fit what was compiled is an error. */
static bool find_leaves(static_plan *p, qn_tensor *const *inputs) {
    qn_ctx *qn = p->qn;
    graph *g = qn->graph;
    if (!tensors_of(qn, (int)p->assigned, p->assign_to, "plan_run", "assigned parameter"))
        return false;
    for (int i = 0; i < p->inputs; i++) {
        const graph_node *x = node_at(g, tensor_at(inputs[i])->node);
        if (x->dtype != p->input_dtype[i])
            return fail(qn, QN_EDTYPE, "plan_run: input %d is %s, compiled was %s", i,
                        qn_dtype_name((qn_dtype)x->dtype),
                        qn_dtype_name((qn_dtype)p->input_dtype[i])),
                   false;
    }
    if (!bind_inputs(p, inputs)) return false;
    if (!realize_inputs(p, inputs)) return false;
    if (!constants_make(&p->constants, qn)) return false;
    for (uint32_t i = 0; i < p->leaves; i++)
        if (!find_leaf(p, i, p->leaf_input[i] >= 0 ? inputs[p->leaf_input[i]] : NULL)) return false;
    return find_early(&p->early, qn, inputs);
}

bool static_parameters(qn_plan *name, const char *call) {
    static_plan *p = object_of(name, HANDLE_PLAN, call);
    if (!p) return false;
    qn_ctx *qn = p->qn;
    if (qn->graph->pending_count) realize_nodes(qn, 0, NULL);
    if (!tensors_of(qn, (int)p->assigned, p->assign_to, call, "assigned parameter")) return false;
    if (!constants_make(&p->constants, qn)) return false;
    for (uint32_t i = 0; i < p->leaves; i++)
        if (p->leaf_input[i] < 0 && !find_leaf(p, i, NULL)) return false;
    for (uint32_t i = 0; i < p->assigned; i++) {
        const node_id n = tensor_at(p->assign_to[i])->node;
        if (!p->assign_leaf[i] && !is_there(node_at(qn->graph, n))) realize_nodes(qn, 1, &n);
    }
    return true;
}

static bool is_input(const static_plan *p, qn_tensor *const *inputs, uint32_t number) {
    for (int i = 0; i < p->inputs; i++)
        if (node_at(p->qn->graph, tensor_at(inputs[i])->node)->buffer == number) return true;
    return false;
}

/* New values may lie where those of assigned parameters do that only their handles need; a tape
 * keeps them all. */
static void find_replaced(static_plan *p, qn_tensor *const *inputs) {
    for (uint32_t a = 0; a < p->assigned; a++) {
        const graph_node *x = node_at(p->qn->graph, tensor_at(p->assign_to[a])->node);
        bool alone = !p->checks.checks && p->assign_leaf[a] && !p->qn->graph->tapes &&
                     x->needs == 1 && buffer_at(p->qn, x->buffer)->refs == 1 &&
                     !is_input(p, inputs, x->buffer);
        p->over[p->assign_root[a]] = alone ? p->assign_leaf[a] : 0;
    }
}

/* Is it data that this run may use up? */
static bool is_donated(const static_plan *p, qn_tensor *const *inputs, int i) {
    const graph *g = p->qn->graph;
    return i < 64 && p->donate >> i & 1 && !g->tapes &&
           node_at(g, tensor_at(inputs[i])->node)->op == OP_BUFFER;
}

/* What is used up must have no other part in the run. */
static bool check_donated(const static_plan *p, qn_tensor *const *inputs) {
    const graph *g = p->qn->graph;
    for (int i = 0; p->donate && i < p->inputs; i++) {
        if (!is_donated(p, inputs, i)) continue;
        const uint32_t b = node_at(g, tensor_at(inputs[i])->node)->buffer;
        for (int j = 0; j < p->inputs; j++)
            if (j != i && node_at(g, tensor_at(inputs[j])->node)->buffer == b)
                return fail(p->qn, QN_EARG,
                            "plan_run: input %d is donated, and input %d is the same value", i, j),
                       false;
        for (uint32_t leaf = 0; leaf < p->leaves; leaf++)
            if (p->leaf_input[leaf] != i && p->leaf_buffer[leaf] == b)
                return fail(p->qn, QN_EARG,
                            "plan_run: input %d is donated, and the value of a parameter", i),
                       false;
    }
    return true;
}

/* Is it data that goes with the name that the caller lets go of? Each input has been counted among
 * those who need its value. */
static bool is_let_go(const static_plan *p, qn_tensor *const *inputs, int i) {
    const graph *g = p->qn->graph;
    const tensor *t = tensor_at(inputs[i]);
    const graph_node *x = node_at(g, t->node);
    return is_state(p, i) && !g->tapes && x->op == OP_BUFFER && t->refs == 1 && x->needs == 2;
}

static void count_inputs(const static_plan *p, qn_tensor *const *inputs, int by) {
    for (int i = 0; p->states && i < p->inputs; i++)
        node_at(p->qn->graph, tensor_at(inputs[i])->node)->needs += (uint32_t)by;
}

/* Outputs may lie where values do that are donated or let go, and that nothing else shares. */
static void find_donated(static_plan *p, qn_tensor *const *inputs) {
    if (!p->donate && !p->states) return;
    count_inputs(p, inputs, 1);
    for (uint32_t r = 0; r < p->roots; r++) {
        if (!p->donated[r]) continue;
        const uint32_t leaf = p->donated[r] - 1;
        const int i = p->leaf_input[leaf];
        bool alone = !p->checks.checks && (is_donated(p, inputs, i) || is_let_go(p, inputs, i)) &&
                     buffer_at(p->qn, p->leaf_buffer[leaf])->refs == 1;
        p->over[r] = alone ? p->donated[r] : 0;
    }
    count_inputs(p, inputs, -1);
}

/* Of the states those which something may lie over now. */
static void use_up(static_plan *p, qn_tensor *const *inputs) {
    graph *g = p->qn->graph;
    for (int i = 0; p->donate && i < p->inputs; i++)
        if (is_donated(p, inputs, i)) value_spend(g, tensor_at(inputs[i])->node);
    for (uint32_t r = 0; p->states && r < p->roots; r++) {
        if (!p->over[r] || !p->donated[r]) continue;
        const int i = p->leaf_input[p->donated[r] - 1];
        if (!is_donated(p, inputs, i)) value_spend(g, tensor_at(inputs[i])->node);
    }
}

static node_id make_result(const static_plan *p, uint32_t root, tuple_id shape) {
    graph *g = p->qn->graph;
    node_id n = node_buffer(g, (qn_dtype)p->root_dtype[root], shape, 0);
    node_ref(g, n);
    return n;
}

/* Where data said what variables are, outputs have sizes as that has: the next run's may differ.
 * Assigned tensors keep their shape. */
static node_id make_output(const static_plan *p, uint32_t root) {
    tuple_id shape = p->root_shape[root];
    return make_result(p, root, p->binding.any ? shape_now(p->qn->graph, shape) : shape);
}

/* Nodes for the new values and the outputs' handles, before there are values: once these have
 * replaced others nothing may fail any more. Raises. */
static void make_results(static_plan *p) {
    qn_ctx *qn = p->qn;
    for (; p->noded < p->roots; p->noded++) p->root_node[p->noded] = make_output(p, p->noded);
    for (; p->versioned < p->assigned; p->versioned++)
        p->assign_node[p->versioned] = make_result(p, p->assign_root[p->versioned],
                                                   p->root_shape[p->assign_root[p->versioned]]);
    for (; p->handed < p->outputs; p->handed++) {
        p->output[p->handed] = tensor_new(qn, p->root_node[p->output_root[p->handed]]);
        if (!p->output[p->handed]) heap_unwind(&qn->heap);
    }
}

/* Handles that are a scope's end with it. */
static void drop_results(static_plan *p) {
    for (int i = 0; i < p->handed && !p->qn->graph->scopes; i++) qn_release(p->output[i]);
    for (uint32_t i = 0; i < p->noded; i++) node_unref(p->qn->graph, p->root_node[i]);
    for (uint32_t i = 0; i < p->versioned; i++) node_unref(p->qn->graph, p->assign_node[i]);
}

/* Outputs have fresh handles, assigned parameters keep theirs. How an output was computed no
 * gradient can find out: floats are LOST. */
static void hand_out(static_plan *p, qn_tensor **outputs) {
    graph *g = p->qn->graph;
    uint32_t place = graph_place(g);
    for (uint32_t i = 0; i < p->roots; i++) {
        graph_node *n = node_at(g, p->root_node[i]);
        n->buffer = p->root_buffer[i];
        buffer_sized(p->qn, p->root_node[i]);
        if (dtype_is_float(n->dtype)) n->flags |= NODE_LOST | NODE_RAN;
    }
    for (uint32_t i = 0; i < p->assigned; i++) {
        uint32_t b = p->root_buffer[p->assign_root[i]];
        tensor *t = tensor_at(p->assign_to[i]);
        buffer_ref(p->qn, b);
        node_at(g, p->assign_node[i])->buffer = b;
        buffer_sized(p->qn, p->assign_node[i]);
        node_is_old(g, t->node, place);
        tensor_renew(t, p->assign_node[i]);
        node_unref(g, p->assign_node[i]);
    }
    for (uint32_t i = 0; i < p->roots; i++) node_unref(g, p->root_node[i]);
    for (int i = 0; i < p->outputs; i++) outputs[i] = p->output[i];
}

typedef struct running {
    static_plan *p;
    qn_tensor *const *inputs;
    bool found;
} running;

static void run_work(void *arg) {
    running *r = arg;
    static_plan *p = r->p;
    r->found = find_leaves(p, r->inputs);
    r->found = r->found && check_donated(p, r->inputs);
    if (!r->found) return;
    early_run(&p->early, p->qn);
    find_replaced(p, r->inputs);
    find_donated(p, r->inputs);
    make_results(p);
    plan_run(p->qn, p->plan, p->plan->key.value, p->leaf_buffer, p->over, p->root_buffer);
    checks_judge(&p->checks, p->qn, p->roots, p->root_buffer);
}

qn_code qn_plan_run(qn_plan *name, qn_tensor *const *inputs, qn_tensor **outputs) {
    static_plan *p = object_of(name, HANDLE_PLAN, "plan_run");
    if (!p) return handle_code(name);
    qn_ctx *qn = p->qn;
    if (!check_tensors(qn, "plan_run", "input", p->inputs, inputs)) return qn_error_code(qn);
    if (p->outputs && !outputs) return fail(qn, QN_ENULL, "plan_run: no place for the outputs");
    p->noded = 0;
    p->versioned = 0;
    p->handed = 0;
    running r = {.p = p, .inputs = inputs};
    if (guarded(qn, run_work, &r)) {
        drop_results(p);
        return qn_error_code(qn);
    }
    if (!r.found) return qn_error_code(qn);
    use_up(p, inputs);
    hand_out(p, outputs);
    return QN_OK;
}
