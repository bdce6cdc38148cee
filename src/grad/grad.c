/* grad.c - gradients: from a graph to a graph.
 *
 * The nodes below y are walked once in dependency order to find those that lie on a way from an x
 * to y, and once backward, each passing the sum of what its users gave it on to its sources by the
 * rule of its row in ops.h (rules.c). So a shared node is visited once (but see apart.c),
 * nothing is computed for what does not depend on any x, and since rules make ordinary nodes, a
 * gradient can be differentiated again.
 *
 * Only floats have gradients: ways through integers, bools, DETACH and rows without a rule end
 * there. So do those through a tensor that was assigned to: an assignment stores a number, as an
 * optimizer's step does, and its tensor is a leaf.
 *
 * A gradient is right or an error. Three things could make it another number:
 *
 * - A tensor that was assigned to since y was recorded. Its handle names a later version than y
 *   uses; the gradient is that of the version y uses, if it is one, also where that is the last.
 * - A value on the way that is LOST: how it was computed was cut off (history.c). What is older
 *   than every x cannot depend on one, so it is not even looked at; nor on a value that an x had
 *   before, if it is older than all of those.
 * - A value that is GONE but wanted by a rule. Whether one is, the counts of history.c say when the
 *   results get their handles. */
#include "grad/grad.h"
#include "graph/view/view.h"

#include <stdio.h>
#include <stdlib.h>

static uint32_t grad_place(const grad *c, node_id n) {
    return c->g->node[n].mark - c->g->mark_base;
}

static bool grad_reaches(const grad *c, node_id n) {
    return c->g->node[n].mark >= c->g->mark_base && c->wanted[grad_place(c, n)];
}

bool grad_wants(const grad *c, node_id n, int source) {
    if (n == c->wide) n = c->narrow;
    return grad_reaches(c, c->g->node[n].src[source]);
}

void grad_add(grad *c, node_id n, int source, node_id value) {
    if (!grad_wants(c, n, source)) return;
    grad_give(c, c->g->node[n == c->wide ? c->narrow : n].src[source], value);
}

void grad_give(grad *c, node_id to, node_id value) {
    if (!grad_reaches(c, to)) return;
    value = make_cast(c->g, value, (qn_dtype)c->g->node[to].dtype);
    uint32_t place = grad_place(c, to);
    if (!grad_keep_apart(c, to, place, value) && !grad_keep_piece(c, place, value) &&
        !grad_keep_product(c, place, value))
        grad_include(c, &c->sum[place], value);
}

/* A derivative of a half takes several operations, each of which would round to 11 or 8 bits:
 * 1 - y*y of a tanh near 1 keeps none of them. So the rule runs on the same operation in f32, and
 * what it gives each source is rounded once. Operations on numbers of all kinds have derivatives
 * of one rounding, and need no detour, but powers. */
static void grad_apply(grad *c, node_id n, node_id g) {
    const graph_node *x = node_at(c->g, n);
    int op = x->op, sources = x->sources;
    bool half = dtype_is_narrow(x->dtype) && op_rows[op].class_ == CLASS_ELEM;
    if (!half || (op_rows[op].types != TYPES_FLOAT && op != OP_POW)) {
        grad_rules[op](c, n, g);
        return;
    }
    node_id src[3] = {x->src[0], x->src[1], x->src[2]};
    for (int i = 0; i < sources; i++) src[i] = make_cast(c->g, src[i], QN_F32);
    node_id wide = make_elem(c->g, op, sources, src);
    if (c->g->node[wide].op != op) { /* a rule made something else of it */
        grad_rules[op](c, n, g);
        return;
    }
    c->narrow = n;
    c->wide = wide;
    grad_rules[op](c, wide, make_cast(c->g, g, QN_F32));
    c->narrow = c->wide = 0;
}

/* Does a gradient go by a link? That of a STAND_IN does by the second alone; a CUSTOM's third is a
 * graph to be made anew. */
bool grad_goes(const graph_node *x, int k) {
    if (!x->src[1] || (x->op != OP_STAND_IN && x->op != OP_CUSTOM)) return k < x->sources;
    return x->op == OP_STAND_IN ? k == 1 : k < 2;
}

/* The places of nodes in the walk, after another traversal. */
void grad_mark_again(grad *c) {
    uint32_t base = graph_mark(c->g);
    for (uint32_t i = 0; i < c->count; i++) c->g->node[c->order[i]].mark = base + i;
}

/* ---- the way there -------------------------------------------------------------------------- */

/* The nodes below y, and which of them gradients come to. */
static void grad_look(grad *c, int n, const node_id *y) {
    c->count = graph_order_history(c->g, c->a, n, y, c->born, &c->order);
    c->met = arena_zeroed(c->a, (c->count + 1) * sizeof *c->met);
    for (int i = 0; i < n; i++) c->met[grad_place(c, y[i])] = true;
    for (uint32_t i = c->count; i-- > 0;) {
        const graph_node *node = node_at(c->g, c->order[i]);
        if (!c->met[i] || !node_differentiable(node)) continue;
        for (int k = 0; k < node_links(node); k++) {
            if (!grad_goes(node, k)) continue;
            bool below = node_at(c->g, node->src[k])->mark >= c->g->mark_base;
            if (below) c->met[grad_place(c, node->src[k])] = true;
        }
    }
}

static bool grad_meets(const grad *c, node_id n) {
    return c->g->node[n].mark >= c->g->mark_base && c->met[grad_place(c, n)];
}

/* Which nodes lie on a way from an x to y. */
static void grad_mark(grad *c, int n, const node_id *x) {
    c->wanted = arena_zeroed(c->a, c->count * sizeof *c->wanted);
    for (int k = 0; k < n; k++)
        if (grad_meets(c, x[k])) c->wanted[grad_place(c, x[k])] = true;
    for (uint32_t i = 0; i < c->count; i++) {
        const graph_node *node = node_at(c->g, c->order[i]);
        for (int k = 0; c->met[i] && node_differentiable(node) && k < node_links(node); k++)
            if (grad_goes(node, k) && grad_reaches(c, node->src[k])) c->wanted[i] = true;
    }
}

static uint32_t grad_oldest(const grad *c, int n, const node_id *x) {
    uint32_t born = UINT32_MAX;
    for (int i = 0; i < n; i++)
        if (c->g->node[x[i]].born < born) born = c->g->node[x[i]].born;
    return born;
}

/* "f32[2] "w"" and the rest, as an error. */
static bool grad_fail(const grad *c, node_id about, const char *fmt, ...) {
    va_list args;
    char text[400];
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    str s;
    str_open_in(&s, c->a);
    tensor_describe(c->g, about, &s);
    fail(c->g->ctx, QN_EGRAPH, "%s: %s%s", c->call, s.s, text);
    return false;
}

static const char *grad_at(const grad *c, node_id n) {
    int line;
    const char *file = graph_place_text(c->g, c->g->node[n].attr, &line);
    return file ? arena_printf(c->a, " at %s:%d", file, line) : "";
}

/* ---- versions ------------------------------------------------------------------------------- */

static bool grad_fail_mixed(const grad *c, node_id x, bool now) {
    return grad_fail(c, x,
                     " was assigned to%s, and y uses more than one of its values; detach what was "
                     "recorded before the assignment, or record it again",
                     now ? "" : " since y was recorded");
}

/* The version of x, which was assigned to since, that y uses; x itself where it uses none. */
static bool grad_version(const grad *c, node_id *x) {
    uint32_t variable = c->g->node[*x].variable;
    node_id found = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const graph_node *node = node_at(c->g, c->order[i]);
        if (!c->met[i] || !node->variable) continue;
        if (node->variable == VARIABLE_SHARED || (node->variable == variable && found))
            return grad_fail_mixed(c, *x, false);
        if (node->variable == variable) found = c->order[i];
    }
    if (found && c->g->node[found].op == OP_CONST)
        return grad_fail(c, *x,
                         " was a constant, which other tensors share, and was assigned to since y "
                         "was recorded; record y after the assignment");
    if (found) *x = found;
    return true;
}

static int by_variable(const void *left, const void *right) {
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Is `node`, a value of `variable`, none of the x, but one that such a variable had? */
static bool was_another(const uint64_t *of, size_t n, uint32_t variable, node_id node) {
    size_t lo = 0, hi = n;
    bool any = variable == VARIABLE_SHARED;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (of[mid] >> 32 < variable)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < n && of[lo] >> 32 == variable; lo++) {
        if ((node_id)of[lo] == node) return false;
        any = true;
    }
    return any;
}

/* Does y use, beside what an x is, what it was? Not asked of constants: they are folded into
 * others, and equal ones are one node. */
static bool grad_check_mixed(const grad *c, const grad_request *r) {
    uint64_t *of = arena_alloc(c->a, ((size_t)r->xs + 1) * sizeof *of);
    size_t n = 0;
    for (int i = 0; i < r->xs; i++) {
        uint32_t variable = c->g->node[r->x[i]].variable;
        if (variable) of[n++] = (uint64_t)variable << 32 | r->x[i];
    }
    if (!n) return true;
    qsort(of, n, sizeof *of, by_variable);
    for (uint32_t i = 0; i < c->count; i++) {
        const graph_node *node = node_at(c->g, c->order[i]);
        if (c->met[i] && node->variable && node->op != OP_CONST && node->op != OP_IOTA &&
            was_another(of, n, node->variable, c->order[i]))
            return grad_fail_mixed(c, c->order[i], true);
    }
    return true;
}

/* Look at what lies below y, and find what y uses of each x. What is older than every x is no
 * function of one; but where an x was assigned to, y may use what it was at any time. */
static bool grad_find(grad *c, const grad_request *r) {
    bool assigned = false, missed = false;
    for (int i = 0; i < r->xs; i++) assigned |= c->g->node[r->x[i]].variable != 0;
    c->born = assigned ? 0 : grad_oldest(c, r->xs, r->x);
    grad_look(c, r->ys, r->y);
    if (!assigned) return true;
    for (int i = 0; i < r->xs; i++) {
        if (!c->g->node[r->x[i]].variable || grad_meets(c, r->x[i])) continue;
        missed = true;
        if (!grad_version(c, &r->x[i])) return false;
    }
    if (!missed) c->born = grad_oldest(c, r->xs, r->x);
    return true;
}

/* ---- what is lost --------------------------------------------------------------------------- */

static bool grad_is_x(node_id node, int n, const node_id *x) {
    for (int i = 0; i < n; i++)
        if (x[i] == node) return true;
    return false;
}

static bool grad_fail_lost(const grad *c, node_id n) {
    if (c->g->node[n].flags & NODE_RAN)
        return grad_fail(c, n,
                         " lies on the way and is an output of qn_plan_run, which has no history; "
                         "detach it, or compute it without a plan");
    return grad_fail(c, n,
                     " lies on the way, and how it was computed was cut off%s, for history is kept "
                     "up to knob history; detach it, open a tape, or raise the knob",
                     grad_at(c, n));
}

/* When the oldest value was born that an x has or had. */
static uint32_t grad_since(const grad *c, int n, const node_id *x) {
    uint32_t since = grad_oldest(c, n, x);
    for (int i = 0; i < n; i++) {
        uint32_t variable = c->g->node[x[i]].variable;
        uint32_t first = variable ? variable_since(c->g, variable) : since;
        if (first < since) since = first;
    }
    return since;
}

/* Is the history there that the gradients would take? What was made of a value that an x had before
 * may be lost, too; together with it y would be of more than one. */
static bool grad_check_history(const grad *c, int n, const node_id *x) {
    uint32_t since = UINT32_MAX;
    for (uint32_t i = 0; i < c->count; i++) {
        const graph_node *node = node_at(c->g, c->order[i]);
        if (!c->met[i] || !(node->flags & NODE_LOST) || grad_is_x(c->order[i], n, x)) continue;
        if (since == UINT32_MAX) since = grad_since(c, n, x);
        if (node->born >= since || node->born >= c->born) return grad_fail_lost(c, c->order[i]);
    }
    return true;
}

static bool grad_fail_gone(const grad *c, node_id n) {
    uint8_t flags = c->g->node[n].flags;
    if (c->g->node[n].spent)
        return grad_fail(c, n, ": its value is needed and was donated to qn_plan_run%s",
                         grad_at(c, n));
    if (!(flags & NODE_OLD))
        return grad_fail(c, n,
                         ": its value is needed and gone; its tensor was released, and knob "
                         "history keeps no more; keep the tensor, open a tape, or raise the knob");
    return grad_fail(
        c, n, ": the value it had before it was assigned to%s is needed and gone%s", grad_at(c, n),
        flags & NODE_TAPED ? ", for the tape ended that kept it; take the gradient before its end"
                           : "; record y after the assignment, or open a tape before it");
}

/* ---- ways that were given -------------------------------------------------------------------- */

void rule_stand_in(grad *c, node_id n, node_id g) {
    grad_add(c, n, c->g->node[n].src[1] != 0, g);
}

void rule_custom(grad *c, node_id n, node_id g) {
    const graph_node x = *node_at(c->g, n);
    grad_add(c, n, 0, g);
    if (!x.src[1] || !grad_wants(c, n, 1)) return;
    node_id slope = grad_given(c, &x, g);
    grad_mark_again(c);
    grad_add(c, n, 1, slope);
}

/* ---- the way back --------------------------------------------------------------------------- */

/* QN_DEBUG=a: whose rule is applied, and to a gradient made by which operation. Raises. */
static void grad_log(grad *c, node_id n, node_id gradient) {
    graph *g = c->g;
    str s;
    str_open_in(&s, c->a);
    str_addf(&s, "a %s %s", op_rows[g->node[n].op].name, qn_dtype_name((qn_dtype)g->node[n].dtype));
    shape_text(g, g->node[n].shape, &s);
    log_line(g->ctx, "%s, its gradient %s", s.s, op_rows[g->node[gradient].op].name);
}

static void grad_pass(grad *c, node_id n, node_id g) {
    if (debug_on(c->g->ctx, 'a')) grad_log(c, n, g);
    grad_apply(c, n, g);
}

static void grad_back(grad *c) {
    for (uint32_t i = c->count; i-- > 0;) {
        node_id n = c->order[i];
        if (!c->wanted[i] || !node_differentiable(node_at(c->g, n))) continue;
        node_id total = grad_rounded(c, i, grad_total(c, i));
        if (total) grad_pass(c, n, total);
        for (const grad_part *part = c->parts[i].first; part; part = part->next)
            grad_pass(c, n, part->value);
    }
}

static void grad_walk(grad *c, const grad_request *r) {
    for (int k = 0; k < r->ys; k++) grad_include(c, &c->sum[grad_place(c, r->y[k])], r->seed[k]);
    grad_back(c);
}

static node_id grad_of(grad *c, node_id x) {
    node_id sum = grad_reaches(c, x) ? grad_whole(c, grad_place(c, x)) : 0;
    const graph_node *n = node_at(c->g, x);
    return sum ? sum : make_number(c->g, (qn_dtype)n->dtype, n->shape, 0);
}

/* ---- of a body ------------------------------------------------------------------------------- */

void grad_of_vector(graph *g, arena *a, const grad_vector *v) {
    grad c = {.g = g, .a = a, .call = "grad"};
    grad_look(&c, (int)v->ys, v->y);
    grad_mark(&c, (int)v->xs, v->x);
    c.sum = arena_zeroed(a, (c.count + 1) * sizeof *c.sum);
    c.parts = arena_zeroed(a, (c.count + 1) * sizeof *c.parts);
    for (uint32_t i = 0; i < v->ys; i++)
        if (grad_reaches(&c, v->y[i]))
            grad_include(&c, &c.sum[grad_place(&c, v->y[i])], v->seed[i]);
    grad_back(&c);
    for (uint32_t i = 0; i < v->xs; i++)
        v->dx[i] = grad_reaches(&c, v->x[i]) ? grad_whole(&c, grad_place(&c, v->x[i])) : 0;
}

bool grad_nodes(graph *g, arena *a, const grad_request *r) {
    grad c = {.g = g, .a = a, .call = r->call};
    if (!grad_find(&c, r) || !grad_check_mixed(&c, r) || !grad_check_past(&c, r)) return false;
    grad_mark(&c, r->xs, r->x);
    if (!grad_check_history(&c, r->xs, r->x)) return false;
    c.sum = arena_zeroed(a, c.count * sizeof *c.sum);
    c.parts = arena_zeroed(a, c.count * sizeof *c.parts);
    grad_walk(&c, r);
    for (int i = 0; i < r->xs; i++) r->out[i] = grad_of(&c, r->x[i]);
    return true;
}

bool grad_depends(graph *g, arena *a, const grad_request *r, int32_t *out) {
    grad c = {.g = g, .a = a, .call = r->call};
    if (!grad_find(&c, r)) return false;
    for (int i = 0; i < r->xs; i++) out[i] = grad_meets(&c, r->x[i]);
    return true;
}

void grad_report_gone(graph *g, arena *a, const char *call) {
    grad c = {.g = g, .a = a, .call = call};
    grad_fail_gone(&c, g->gone);
}
