/* effects.c - assignments that a run has made, and static graphs that should have had them.
 *
 * A pending assignment becomes part of the static graph that is captured next. One that was made
 * already, by reading any value, does not: its tensor's value is data then. Where the graph's
 * outputs were recorded before that run, of the input that the assigned value was made of, the
 * program reads as if each run made the assignment, and none would. That is an error.
 *
 * So it is of a state that is made of its own old value or another's, as in a swap: each run would
 * have gone one step further.
 *
 * A version that was made has forgotten its expression. It notes when it was made, as how many
 * handles there had been (so an output that is recorded again is younger, be it the same node), and
 * what of: a set of leaves by 64 bits of their hashes. A leaf that
 * was computed itself counts as all of them, and so does a value that the same request replaces. So
 * the error may come where the assignment only happened between the recording of an output and its
 * capture; never is it missing. */
#include "graph/view/view.h"
#include "run/run.h"

static uint64_t leaf_bit(const graph_node *x) {
    return (uint64_t)1 << (x->born * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

/* Of a leaf of a request. */
static uint64_t leaf_set(const graph_node *x) {
    if (op_rows[x->op].class_ == CLASS_LEAF && x->op != OP_BUFFER) return 0;
    return x->op == OP_BUFFER && !x->cut && !(x->flags & NODE_LOST) ? leaf_bit(x) : UINT64_MAX;
}

uint64_t *effects_made_of(graph *g, arena *a, uint32_t nodes, const node_id *order) {
    uint64_t *set = arena_alloc(a, (g->pending_count + 1) * sizeof *set);
    uint64_t *of = arena_alloc(a, (nodes + 1) * sizeof *of);
    memset(of, 0, nodes * sizeof *of);
    for (uint32_t i = 0; i < g->pending_count && nodes; i++) {
        const graph_node *x = node_at(g, g->pending[i]->replaced);
        if (x->mark >= g->mark_base) of[x->mark - g->mark_base] = UINT64_MAX;
    }
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(g, order[i]);
        bool leaf = node_is_memory(x) || x->buffer || !x->sources;
        if (leaf) of[i] |= leaf_set(x);
        for (int k = 0; !leaf && k < x->sources; k++)
            of[i] |= of[node_at(g, x->src[k])->mark - g->mark_base];
    }
    for (uint32_t i = 0; i < g->pending_count; i++) {
        const graph_node *x = node_at(g, node_behind(g, g->pending[i]->node));
        set[i] = node_is_memory(x) || x->buffer ? leaf_set(x) : of[x->mark - g->mark_base];
    }
    return set;
}

static void note(graph *g, node_id version, uint64_t set) {
    graph_node *x = node_at(g, version);
    x->ran = (uint32_t)g->made;
    if (x->op != OP_BUFFER) return; /* a tape keeps its expression */
    x->made_of[0] = (uint32_t)set;
    x->made_of[1] = (uint32_t)(set >> 32);
}

void effects_ran(graph *g, const uint64_t *set) {
    for (uint32_t i = 0; i < g->pending_count; i++) note(g, g->pending[i]->node, set[i]);
}

/* Of a set of leaves. */
static void settle(qn_ctx *qn, tensor *t, uint64_t set) {
    graph *g = qn->graph;
    node_id version = t->node, behind = node_behind(g, version);
    if (!node_is_memory(node_at(g, version))) {
        buffer_ref(qn, node_at(g, behind)->buffer);
        graph_realized(g, version, node_at(g, behind)->buffer);
        buffer_sized(qn, version);
        note(g, version, set);
    }
    tensor_settle(t, true);
}

void effects_settle(qn_ctx *qn, tensor *t) {
    const graph *g = qn->graph;
    settle(qn, t, leaf_set(node_at(g, node_behind(g, t->node))));
}

/* Also of the values that are replaced: which these are must be known before the first is. */
void effects_settle_data(qn_ctx *qn) {
    graph *g = qn->graph;
    if (!g->pending_count) return;
    const uint32_t replaced = graph_mark(g);
    for (uint32_t i = 0; i < g->pending_count; i++)
        node_at(g, g->pending[i]->replaced)->mark = replaced;
    for (uint32_t i = g->pending_count; i-- > 0;) {
        const graph_node *x = node_at(g, node_behind(g, g->pending[i]->node));
        if (!node_is_memory(x) || x->flags & NODE_GONE) continue;
        settle(qn, g->pending[i], x->mark == replaced ? UINT64_MAX : leaf_set(x));
    }
}

/* ---- what a graph lacks ---------------------------------------------------------------------- */

/* Is n a value that a tensor does not have any more? */
static bool is_former(const graph *g, node_id n) {
    return node_at(g, n)->variable && !graph_handle_of(g, n);
}

/* By history, where a tape keeps it: the version's own former value, too, or another tensor's. */
static bool is_made_of(graph *g, arena *a, node_id version, node_id input) {
    const graph_node *x = node_at(g, version);
    if (x->op == OP_BUFFER) {
        uint64_t set = x->made_of[0] | (uint64_t)x->made_of[1] << 32;
        return (set & leaf_bit(node_at(g, input))) != 0;
    }
    node_id *order;
    uint32_t nodes = graph_order_history(g, a, 1, &version, 0, &order);
    for (uint32_t i = 0; i < nodes; i++)
        if (order[i] == input || (order[i] != version && is_former(g, order[i]))) return true;
    return false;
}

/* The output that was recorded after the input and before the assignment was made, or -1. */
static int output_between(const graph *g, const static_lists *l, const graph_node *in,
                          uint32_t ran) {
    for (int i = 0; i < l->n_out; i++) {
        const tensor *out = tensor_at(l->outputs[i]);
        bool before = ran - (uint32_t)out->number - 1 < UINT32_MAX / 2;
        if (before && node_at(g, out->node)->born > in->born) return i;
    }
    return -1;
}

static QN_NORETURN void refuse(graph *g, const tensor *t, int output, int input) {
    int line;
    const char *file = graph_place_text(g, t->place, &line);
    g->text.len = 0;
    tensor_describe(g, t->node, &g->text);
    if (file) str_addf(&g->text, " (%s:%d)", file, line);
    raise_error(g->ctx, QN_EGRAPH,
                "plan_new: an assignment to %s of what follows input %d or an old value was "
                "made, by reading some value, after output %d was recorded: it would be no part "
                "of the graph; capture before anything is read, or record it again",
                g->text.s, input, output);
}

/* What was recorded of a value that every other use of it is, too, was simplified by it, and would
 * not see what a run assigns. */
static void check_constants(graph *g) {
    for (uint32_t i = 0; i < g->pending_count; i++) {
        const tensor *t = g->pending[i];
        const graph_node *x = node_at(g, t->replaced);
        if (x->op != OP_CONST && x->op != OP_IOTA) continue;
        g->text.len = 0;
        tensor_describe(g, t->node, &g->text);
        raise_error(g->ctx, QN_EGRAPH,
                    "plan_new: %s is assigned to and was a constant, by which what is made of it "
                    "was simplified; give it data (qn_from, qn_write) before it is used",
                    g->text.s);
    }
}

/* Tensors of one node are one parameter, which two assignments would make two of. */
static void check_shared(graph *g) {
    for (uint32_t i = 0; i < g->pending_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            if (g->pending[i]->replaced != g->pending[k]->replaced) continue;
            g->text.len = 0;
            tensor_describe(g, g->pending[i]->node, &g->text);
            raise_error(g->ctx, QN_EGRAPH,
                        "plan_new: %s and another tensor had one value, without a copy, and both "
                        "are assigned to; begin one as qn_clone of the other",
                        g->text.s);
        }
}

void effects_check(qn_ctx *qn, arena *a, const static_lists *l) {
    graph *g = qn->graph;
    if (l->no_assignments) return;
    check_constants(g);
    check_shared(g);
    tensor **t;
    uint32_t many = tensors_assigned(g, a, &t);
    for (uint32_t k = 0; k < many; k++) {
        const graph_node *x = node_at(g, t[k]->node);
        if (!x->ran || (x->op != OP_BUFFER && !(x->op == OP_DETACH && x->bits))) continue;
        for (int i = 0; i < l->n_in; i++) {
            node_id in = tensor_at(l->inputs[i])->node;
            int output = output_between(g, l, node_at(g, in), x->ran);
            if (output >= 0 && t[k]->node != in && is_made_of(g, a, t[k]->node, in))
                refuse(g, t[k], output, i);
        }
    }
}
