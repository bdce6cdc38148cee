/* reopen.c - what a static graph makes of its inputs, also where it was computed before.
 *
 * Reading a value changes nothing, so a graph that is captured after a loss was read is the graph
 * that it is without. But a value that was read lies in memory, and memory that is no input is a
 * parameter: each run would see the loss of the data that the graph was recorded with. So while a
 * graph is captured, every value that follows an input is the expression again that its history
 * says. Memory that follows none stays what it is; so do inputs, and versions of assigned tensors,
 * which are state and no functions.
 *
 * History is bounded. A value that forgot how it was computed, and is younger than an input, may
 * follow it: that is an error, never a parameter.
 *
 * An input is data, or was computed before anything was made of it. A rule that makes a node looks
 * through the expressions it is made of, and so past an input that was one then: what goes by an
 * input in that way would not see what a run is given. */
#include "run/run.h"

static QN_NORETURN void refuse(qn_ctx *qn, const char *call, node_id n, const char *fmt,
                               int number) {
    str *text = &qn->graph->text;
    text->len = 0;
    tensor_describe(qn->graph, n, text);
    raise_error(qn, QN_EGRAPH, fmt, call, text->s, number);
}

static node_id input_node(const static_lists *l, int i) {
    return tensor_at(l->inputs[i])->node;
}

static bool is_input(const static_lists *l, node_id n) {
    for (int i = 0; i < l->n_in; i++)
        if (input_node(l, i) == n) return true;
    return false;
}

static bool is_version(const graph_node *x) {
    return x->op == OP_DETACH && x->bits;
}

/* ---- what follows an input ------------------------------------------------------------------- */

/* An input; what the graph will assign to, which itself IS_STATE; of an input nobody knows. */
enum { FOLLOWS = 1, FOLLOWS_STATE = 2, FORGOT = 4, IS_STATE = 8 };

typedef struct walk {
    qn_ctx *qn;
    const static_lists *l;
    uint32_t roots, nodes;
    uint32_t oldest, reached; /* of the inputs; of these and of what assignments replace */
    node_id *root, *order;
    uint8_t *is; /* by place in the order */
} walk;

static uint8_t look(const walk *w, node_id n) {
    const graph *g = w->qn->graph;
    const graph_node *x = node_at(g, n);
    uint8_t is = 0;
    if (is_input(w->l, n)) return FOLLOWS;
    if (w->is[x->mark - g->mark_base]) return FOLLOWS_STATE | IS_STATE;
    if (w->l->sizes_vary && node_follows(x)) is = FOLLOWS;
    if (is_version(x) && node_is_memory(x)) return 0;
    if (x->cut && x->born >= w->oldest) return FORGOT;
    for (int i = 0; i < x->sources && x->born >= w->reached; i++)
        is |= w->is[node_at(g, x->src[i])->mark - g->mark_base];
    return is & ~IS_STATE;
}

static void find_followers(walk *w, arena *a) {
    graph *g = w->qn->graph;
    w->root = arena_alloc(a, ((size_t)w->l->n_out + g->pending_count + 1) * sizeof *w->root);
    for (int i = 0; i < w->l->n_out; i++) w->root[w->roots++] = tensor_at(w->l->outputs[i])->node;
    for (uint32_t i = 0; i < g->pending_count; i++) w->root[w->roots++] = g->pending[i]->node;
    w->oldest = UINT32_MAX;
    for (int i = 0; i < w->l->n_in; i++) {
        uint32_t born = node_at(g, input_node(w->l, i))->born;
        if (born < w->oldest) w->oldest = born;
    }
    w->reached = w->l->sizes_vary ? 0 : w->oldest;
    for (uint32_t i = 0; i < g->pending_count; i++) {
        uint32_t born = node_at(g, g->pending[i]->replaced)->born;
        if (born < w->reached) w->reached = born;
    }
    w->nodes = graph_order_history(g, a, (int)w->roots, w->root, w->reached, &w->order);
    w->is = arena_zeroed(a, w->nodes + 1);
    for (uint32_t i = 0; i < g->pending_count; i++) {
        const graph_node *x = node_at(g, g->pending[i]->replaced);
        if (x->mark >= g->mark_base) w->is[x->mark - g->mark_base] = IS_STATE;
    }
    for (uint32_t i = 0; i < w->nodes; i++) w->is[i] = look(w, w->order[i]);
}

/* ---- there and back -------------------------------------------------------------------------- */

/* It is needed meanwhile, so that no count of its sources changes that is not changed back. */
static void open_node(reopened *r, graph *g, node_id n) {
    graph_node *x = node_at(g, n);
    value_need(g, n);
    r->node[r->nodes] = n;
    r->buffer[r->nodes++] = x->buffer;
    x->buffer = 0;
    x->flags &= (uint8_t)~NODE_REALIZED;
}

void reopen_end(reopened *r, graph *g) {
    while (r->nodes) {
        graph_node *x = node_at(g, r->node[--r->nodes]);
        x->buffer = r->buffer[r->nodes];
        x->flags |= NODE_REALIZED;
        value_drop(g, r->node[r->nodes]);
    }
}

/* Outputs, too, that follow no input. */
static void open_computed(reopened *r, const walk *w, arena *a) {
    graph *g = w->qn->graph;
    for (int i = 0; i < w->l->n_out; i++)
        w->is[node_at(g, tensor_at(w->l->outputs[i])->node)->mark - g->mark_base] |= FOLLOWS;
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->nodes; i++) n += (w->is[i] & (FOLLOWS | FOLLOWS_STATE)) != 0;
    r->node = arena_alloc(a, (n + 1) * sizeof *r->node);
    r->buffer = arena_alloc(a, (n + 1) * sizeof *r->buffer);
    for (uint32_t i = 0; i < w->nodes; i++) {
        const graph_node *x = node_at(g, w->order[i]);
        bool computed = (x->flags & NODE_REALIZED) && x->op != OP_BUFFER && !is_version(x) &&
                        !(w->is[i] & IS_STATE);
        if (computed && (w->is[i] & (FOLLOWS | FOLLOWS_STATE)) && !is_input(w->l, w->order[i]))
            open_node(r, g, w->order[i]);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Memory that the graph would read and that may follow an input, or is not there any more. */
static void check_leaves(const walk *w, arena *a) {
    graph *g = w->qn->graph;
    node_id *order;
    uint32_t nodes = graph_order(g, a, (int)w->roots, w->root, &order);
    for (uint32_t i = 0; i < nodes; i++)
        if (node_at(g, order[i])->flags & NODE_GONE)
            refuse(w->qn, w->l->call, order[i],
                   "%s: what follows the inputs was computed of a value of %s, which is gone; "
                   "record it again",
                   0);
    for (uint32_t i = 0; i < w->nodes; i++) {
        const graph_node *x = node_at(g, w->order[i]);
        bool captured = x->mark >= g->mark_base && node_is_memory(x);
        if (captured && (w->is[i] & FORGOT))
            refuse(w->qn, w->l->call, w->order[i],
                   "%s: %s was computed after an input was made, and how was cut off, for "
                   "history is kept up to knob history: whether it follows the input nobody can "
                   "tell; record it again, make the input after it, or raise the knob",
                   0);
    }
}

/* Data below an input may be used beside it; but where a rule went past the input, by it. */
static bool may_be_past(const graph *g, const graph_node *input, node_id source) {
    const graph_node *s = node_at(g, source);
    return op_rows[s->op].class_ != CLASS_LEAF || (input->passed && s->op == OP_BUFFER);
}

/* Nodes that were recorded of what input h is made of, after h and before h was computed: they may
 * have been made past it. */
static void check_passed_by(const walk *w, arena *a, int number) {
    graph *g = w->qn->graph;
    node_id h = input_node(w->l, number), *before, *order;
    const graph_node *x = node_at(g, h);
    uint32_t computed = buffer_at(w->qn, x->buffer)->born;
    uint32_t many = graph_order_history(g, a, 1, &h, 0, &before);
    bool *below = arena_zeroed(a, g->nodes);
    for (uint32_t i = 0; i < many; i++) below[before[i]] = before[i] != h;
    uint32_t nodes = graph_order(g, a, (int)w->roots, w->root, &order);
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *u = node_at(g, order[i]);
        bool between = u->born > x->born && u->born <= computed && !node_is_memory(u);
        for (int k = 0; between && k < u->sources; k++)
            if (below[u->src[k]] && may_be_past(g, x, u->src[k]))
                refuse(
                    w->qn, w->l->call, h,
                    "%s: %s, input %d, was an expression when the outputs were recorded, "
                    "and they use what it was made of; realize it before, or give data (qn_from)",
                    number);
    }
}

static void check_inputs(const walk *w) {
    graph *g = w->qn->graph;
    for (int i = 0; i < w->l->n_in; i++) {
        const graph_node *x = node_at(g, input_node(w->l, i));
        if (!node_is_memory(x))
            raise_error(w->qn, QN_EGRAPH, "%s: input %d is an expression; give a realized tensor",
                        w->l->call, i);
        if (x->op == OP_CONST || x->op == OP_IOTA)
            raise_error(w->qn, QN_EGRAPH,
                        "%s: input %d is a constant, which every other use of its value is, "
                        "too; give data (qn_from)",
                        w->l->call, i);
        for (int j = 0; j < i; j++)
            if (input_node(w->l, j) == input_node(w->l, i))
                raise_error(w->qn, QN_EGRAPH,
                            "%s: inputs %d and %d are one tensor, and could not be told apart",
                            w->l->call, j, i);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The value that an assignment takes as it lies there, and that is no input; 0: it is none such. */
static node_id value_there(const walk *w, const tensor *t) {
    const graph *g = w->qn->graph;
    node_id n = node_behind(g, t->node);
    return node_is_memory(node_at(g, n)) && !is_input(w->l, n) ? n : 0;
}

/* Is n what some assignment replaces? */
static bool is_replaced(const graph *g, node_id n) {
    for (uint32_t i = 0; i < g->pending_count; i++)
        if (g->pending[i]->replaced == n) return true;
    return false;
}

/* Is n what some assignment takes as it lies there? */
static bool is_taken(const walk *w, node_id n) {
    const graph *g = w->qn->graph;
    for (uint32_t i = 0; i < g->pending_count; i++)
        if (value_there(w, g->pending[i]) == n) return true;
    return false;
}

/* What qn_write made of a part is there itself, and made: no run has it to make. */
static void settle_written(qn_ctx *qn) {
    const graph *g = qn->graph;
    for (uint32_t i = g->pending_count; i-- > 0;)
        if (node_is_memory(node_at(g, g->pending[i]->node))) effects_settle(qn, g->pending[i]);
}

/* An assignment of what is there and follows no input is no part of the graph, but where each run
 * has another value to take, that of a tensor which is assigned to, or where the graph uses what is
 * replaced, of which the next run shall see what this one made of it. So a swap of two tensors is
 * one at each run. What takes a replaced value stays, and so then does what replaces it. */
static void settle_assignments(const walk *w, arena *a) {
    graph *g = w->qn->graph;
    uint32_t roots = (uint32_t)w->l->n_out; /* of all roots, the outputs and what is made */
    node_id *order;
    for (uint32_t i = 0; i < g->pending_count; i++)
        if (!value_there(w, g->pending[i])) w->root[roots++] = g->pending[i]->node;
    graph_order(g, a, (int)roots, w->root, &order);
    for (uint32_t i = g->pending_count; i-- > 0;) {
        tensor *t = g->pending[i];
        node_id n = value_there(w, t);
        bool used = node_at(g, t->replaced)->mark >= g->mark_base;
        if (!n || used || is_replaced(g, n) || is_taken(w, t->replaced)) continue;
        effects_settle(w->qn, t);
    }
}

void reopen_inputs(reopened *r, qn_ctx *qn, arena *keep, const static_lists *l) {
    arena a;
    arena_open(&a, &qn->heap);
    cleanup c;
    cleanup_push(&qn->heap, &c, arena_cleanup, &a);
    walk w = {.qn = qn, .l = l};
    check_inputs(&w);
    effects_check(qn, &a, l);
    find_followers(&w, &a);
    open_computed(r, &w, keep);
    check_leaves(&w, &a);
    for (int i = 0; i < l->n_in; i++) {
        const graph_node *x = node_at(qn->graph, input_node(l, i));
        if (x->sources && !is_version(x)) check_passed_by(&w, &a, i);
    }
    settle_written(qn);
    if (!l->all_assignments) settle_assignments(&w, &a);
    cleanup_run(&qn->heap, &c);
}
