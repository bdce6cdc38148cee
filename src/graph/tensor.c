/* tensor.c - handles, scopes and tapes: what the user holds.
 *
 * A handle names a node and counts its holders. Its count has two parts: references the user took
 * or was given, and one flag, HANDLE_SCOPED, for the scope it was made in. It is dead when neither
 * is left. Telling them apart is what makes a release too many an error and not a handle that dies
 * under its scope. Complex ones keep their pairs by a count of their own, which no release takes
 * from. A dead one is recognised by the rules of base/handle.c.
 *
 * A scope is the number of handles there were when it began; ending it releases those above. A
 * composed function opens one for its temporaries and moves its result outward. Scopes are numbered
 * by depth from 1; 0 is what qn_scope_begin gives where there is no memory: its handles then belong
 * to the scope around it, and ending it does nothing. Ending a scope also ends those inside it that
 * were left open. */
#include "graph/graph.h"

#include <stdio.h>

static const uint32_t HANDLE_SCOPED = 1u << 31;

typedef struct tape {
    qn_ctx *ctx;
    struct tape *next;
} tape;

/* An open scope: its handles in `owned` begin at start. */
typedef struct open_scope {
    uint64_t number; /* among all that were begun, from 1 */
    uint32_t start;
} open_scope;

/* The outermost scope opens without memory: should an inner one not, its handles are owned. */
void tensor_open(graph *g) {
    g->scope = heap_grow(&g->ctx->heap, NULL, &g->scope_cap, 1, sizeof *g->scope);
}

void tensor_close(graph *g) {
    heap *h = &g->ctx->heap;
    while (g->tape) {
        tape *t = g->tape;
        g->tape = t->next;
        heap_free(h, t, sizeof *t);
    }
    heap_free(h, g->initial, g->initial_cap * sizeof(tensor *));
    heap_free(h, g->owned, g->owned_cap * sizeof(tensor *));
    heap_free(h, g->scope, g->scope_cap * sizeof *g->scope);
    handles_close(g->ctx);
}

/* ---- handles -------------------------------------------------------------------------------- */

qn_tensor *tensor_make(graph *g, node_id n) {
    if (g->scopes)
        g->owned =
            heap_grow(&g->ctx->heap, g->owned, &g->owned_cap, g->owned_count + 1, sizeof(tensor *));
    tensor *t = (tensor *)handle_make(g->ctx, HANDLE_TENSOR, NULL);
    t->node = n;
    t->number = g->made++;
    t->h.wholes = t->h.of = 0;
    t->pending = t->replaced = t->place = t->variable = 0;
    t->refs = g->scopes ? HANDLE_SCOPED : 1;
    if (g->scopes) g->owned[g->owned_count++] = t;
    node_ref(g, n);
    value_need(g, n);
    node_hold(g, n);
    g->handles++;
    return handle_name(&t->h);
}

/* ---- complex ones --------------------------------------------------------------------------- */

/* A handle that keeps the one of its pairs and has no node of its own. */
static qn_tensor *complex_make(graph *g, tensor *pairs) {
    if (g->scopes)
        g->owned =
            heap_grow(&g->ctx->heap, g->owned, &g->owned_cap, g->owned_count + 1, sizeof(tensor *));
    tensor *t = (tensor *)handle_make(g->ctx, HANDLE_COMPLEX, pairs);
    t->node = t->pending = t->replaced = t->place = t->variable = 0;
    t->number = g->made++;
    t->h.wholes = t->h.of = 0;
    t->h.dtype = (uint8_t)dtype_of_parts(tensor_dtype(pairs));
    t->refs = g->scopes ? HANDLE_SCOPED : 1;
    if (g->scopes) g->owned[g->owned_count++] = t;
    pairs->h.wholes++;
    return handle_name(&t->h);
}

typedef struct wrapping {
    tensor *pairs;
    qn_tensor *made;
} wrapping;

static void complex_work(void *arg) {
    wrapping *w = arg;
    w->made = complex_make(w->pairs->h.ctx->graph, w->pairs);
}

qn_tensor *tensor_complex(qn_tensor *pairs) {
    if (!pairs) return NULL;
    wrapping w = {tensor_at(pairs), NULL};
    guarded(tensor_ctx(pairs), complex_work, &w);
    return w.made;
}

qn_dtype tensor_dtype(const tensor *t) {
    if (t->h.kind == HANDLE_COMPLEX) return (qn_dtype)t->h.dtype;
    return (qn_dtype)node_at(t->h.ctx->graph, t->node)->dtype;
}

/* ---- real ones again ------------------------------------------------------------------------- */

typedef struct making {
    graph *g;
    node_id node;
    qn_tensor *made;
} making;

static void make_work(void *arg) {
    making *m = arg;
    m->made = tensor_make(m->g, m->node);
}

qn_tensor *tensor_new(qn_ctx *qn, node_id n) {
    making m = {qn->graph, n, NULL};
    guarded(qn, make_work, &m);
    return m.made;
}

void tensor_point(tensor *t, node_id n) {
    graph *g = t->h.ctx->graph;
    node_id old = t->node;
    node_ref(g, n);
    value_need(g, n);
    node_hold(g, n);
    t->node = n;
    node_let_go(g, old);
    value_drop(g, old);
    node_unref(g, old);
}

void tensor_renew(tensor *t, node_id n) {
    graph *g = t->h.ctx->graph;
    if (!t->variable) {
        t->variable = ++g->variables;
        t->h.since = g->node[t->node].born;
    }
    node_is_version(g, t->node, t->variable);
    node_is_version(g, n, t->variable);
    tensor_point(t, n);
}

/* The order of the assignments that stay is kept. */
static void handle_leave_pending(graph *g, const tensor *t) {
    for (uint32_t i = t->pending; i < g->pending_count; i++) {
        g->pending[i - 1] = g->pending[i];
        g->pending[i - 1]->pending = i;
    }
    g->pending_count--;
}

void tensor_is_initial(tensor *t) {
    graph *g = t->h.ctx->graph;
    if (t->h.initial) return;
    g->initial = heap_grow(&t->h.ctx->heap, g->initial, &g->initial_cap, g->initial_count + 1,
                           sizeof *g->initial);
    g->initial[g->initial_count++] = t;
    t->h.initial = true;
}

/* A parameter that is assigned to, pending, has its first value still: that is what the assignment
 * replaces. */
uint32_t tensors_initial(graph *g, arena *a, node_id **node) {
    uint32_t n = 0, left = 0;
    *node = arena_alloc(a, (g->initial_count + 1) * sizeof **node);
    for (uint32_t i = 0; i < g->initial_count; i++) {
        tensor *t = g->initial[i];
        if (t->h.kind != HANDLE_TENSOR || !t->h.initial) continue;
        node_id first = t->pending ? t->replaced : t->node;
        t->h.initial = !(g->node[first].flags & NODE_REALIZED);
        if (!t->h.initial) continue;
        (*node)[n++] = first;
        g->initial[left++] = t;
    }
    g->initial_count = left;
    return n;
}

uint32_t tensors_assigned(const graph *g, arena *a, tensor ***out) {
    uint32_t n = 0, cap = 0;
    *out = NULL;
    for (handle_block *b = g->ctx->handles.block; b; b = b->next)
        for (int i = 0; i < HANDLES_A_BLOCK; i++) {
            tensor *t = (tensor *)&b->slot[i].handle;
            if (t->h.kind != HANDLE_TENSOR || !t->variable || t->pending) continue;
            *out = arena_grow(a, *out, &cap, n + 1, sizeof **out);
            (*out)[n++] = t;
        }
    return n;
}

uint32_t tensors_written(const graph *g, arena *a, node_id **node) {
    uint32_t n = 0;
    *node = arena_alloc(a, (g->pending_count + 1) * sizeof **node);
    for (uint32_t i = 0; i < g->pending_count; i++) {
        node_id id = g->pending[i]->node;
        if (g->node[id].op == OP_DETACH && g->node[id].attr == VERSION_WRITTEN) (*node)[n++] = id;
    }
    return n;
}

void tensor_settle(tensor *t, bool done) {
    if (!t->pending) return;
    graph *g = t->h.ctx->graph;
    node_id old = t->replaced;
    handle_leave_pending(g, t);
    t->pending = t->replaced = 0;
    if (done) node_is_old(g, old, t->place);
    value_drop(g, old);
    node_unref(g, old);
}

qn_code qn_set_name(qn_tensor *name, const char *text) {
    if (!name) return QN_ENULL;
    tensor *t = tensor_any(NULL, name, "set_name", "t");
    if (!t) return handle_code(name);
    t->h.label = text ? graph_place_of(t->h.ctx->graph, text, 0) : 0;
    if (t->h.kind == HANDLE_COMPLEX) tensor_pairs(t)->h.label = t->h.label;
    return text && !t->h.label ? fail(t->h.ctx, QN_ENOMEM, "set_name: out of memory") : QN_OK;
}

const char *qn_name(const qn_tensor *name) {
    const tensor *t = name ? tensor_any(NULL, name, "name", "t") : NULL;
    return t ? graph_place_text(t->h.ctx->graph, t->h.label, NULL) : NULL;
}

/* Slow: for errors. */
static const char *name_of(const graph *g, node_id n) {
    uint32_t variable = g->node[n].variable;
    if (variable == VARIABLE_SHARED) variable = 0;
    for (handle_block *b = g->ctx->handles.block; b; b = b->next)
        for (int i = 0; i < HANDLES_A_BLOCK; i++) {
            const tensor *t = (const tensor *)&b->slot[i].handle;
            if (t->h.kind != HANDLE_TENSOR || !t->h.label) continue;
            if (t->node == n || (variable && t->variable == variable))
                return graph_place_text(g, t->h.label, NULL);
        }
    return NULL;
}

void tensor_describe(const graph *g, node_id n, str *out) {
    const char *name = name_of(g, n);
    str_add(out, qn_dtype_name((qn_dtype)g->node[n].dtype));
    shape_text(g, g->node[n].shape, out);
    if (name) str_addf(out, " \"%s\"", name);
}

static void handle_die(graph *g, tensor *t);

/* Where somebody has it. */
static void handle_stay(graph *g, tensor *t) {
    if (t->refs == 0 && t->h.wholes == 0) handle_die(g, t);
}

static void handle_die(graph *g, tensor *t) {
    if (t->h.kind == HANDLE_COMPLEX) {
        tensor *pairs = tensor_pairs(t);
        handle_drop(&t->h);
        pairs->h.wholes--;
        handle_stay(g, pairs);
        return;
    }
    tensor_settle(t, false);
    node_let_go(g, t->node);
    value_drop(g, t->node);
    node_unref(g, t->node);
    handle_drop(&t->h);
    g->handles--;
}

static void handle_leave_scope(graph *g, tensor *t) {
    t->refs &= ~HANDLE_SCOPED;
    handle_stay(g, t);
}

void tensor_forget(tensor *t) {
    graph *g = t->h.ctx->graph;
    for (uint32_t i = g->owned_count; i-- > 0;)
        if (g->owned[i] == t) {
            g->owned[i] = g->owned[--g->owned_count];
            break;
        }
    handle_die(g, t);
}

tensor *tensor_keep(tensor *t) {
    t->refs++;
    return t;
}

void tensor_drop(tensor *t) {
    t->refs--;
    handle_stay(t->h.ctx->graph, t);
}

void tensor_unwanted(tensor *t) {
    if (t->refs & ~HANDLE_SCOPED) tensor_drop(t);
}

qn_ctx *qn_context(const qn_tensor *t) {
    const tensor *x = t ? tensor_any(NULL, t, "context", "t") : NULL;
    return x ? x->h.ctx : NULL;
}

qn_tensor *qn_keep(qn_tensor *t) {
    tensor *x = t ? tensor_any(NULL, t, "keep", "t") : NULL;
    if (!x) return NULL;
    tensor_keep(x);
    return t;
}

void qn_release(qn_tensor *t) {
    tensor *x = t ? tensor_any(NULL, t, "release", "t") : NULL;
    if (!x) return;
    if ((x->refs & ~HANDLE_SCOPED) == 0)
        fail(x->h.ctx, QN_EGRAPH, "release: a tensor nobody kept; its scope will release it");
    else
        tensor_drop(x);
}

/* ---- scopes --------------------------------------------------------------------------------- */

static void scope_work(void *arg) {
    graph *g = arg;
    g->scope = heap_grow(&g->ctx->heap, g->scope, &g->scope_cap, g->scopes + 1, sizeof *g->scope);
}

qn_scope qn_scope_begin(qn_ctx *qn) {
    if (!qn) return 0;
    graph *g = qn->graph;
    if (guarded(qn, scope_work, g)) return 0;
    g->scope[g->scopes++] = (open_scope){++g->scopes_begun, g->owned_count};
    return g->scopes;
}

uint64_t scope_number(const graph *g, qn_scope scope) {
    return scope && scope <= g->scopes ? g->scope[scope - 1].number : 0;
}

void qn_scope_end(qn_ctx *qn, qn_scope scope) {
    if (!qn || scope == 0) return;
    graph *g = qn->graph;
    if (scope > g->scopes) {
        fail(qn, QN_EARG, "scope_end: scope %u is not open", scope);
        return;
    }
    uint32_t start = g->scope[scope - 1].start;
    g->scopes = scope - 1;
    while (g->owned_count > start) handle_leave_scope(g, g->owned[--g->owned_count]);
}

/* Take t out of the scopes from `start` on; false when no such scope owns it. */
static bool scope_take(graph *g, uint32_t start, const tensor *t) {
    for (uint32_t i = g->owned_count; i-- > start;) {
        if (g->owned[i] != t) continue;
        g->owned[i] = g->owned[--g->owned_count];
        return true;
    }
    return false;
}

/* Of the same value, but another variable. */
static qn_tensor *complex_pass(qn_ctx *qn, qn_scope scope, const tensor *t) {
    tensor *pairs = tensor_keep(tensor_pairs(t));
    qn_scope_end(qn, scope);
    qn_tensor *again = tensor_new(qn, pairs->node), *result = tensor_complex(again);
    tensor_drop(pairs);
    if (again && !qn->graph->scopes) qn_release(again);
    return result;
}

/* A result that was made outside, such as the argument itself, gets a handle of its own: the caller
 * may release what a function returns. */
qn_tensor *scope_pass(qn_ctx *qn, qn_scope scope, qn_tensor *result) {
    graph *g = qn->graph;
    tensor *t = tensor_at(result);
    if (!scope_take(g, g->scope[scope - 1].start, t)) {
        if (t->h.kind == HANDLE_COMPLEX) return complex_pass(qn, scope, t);
        node_id n = t->node;
        node_ref(g, n);
        value_need(g, n);
        qn_scope_end(qn, scope);
        result = tensor_new(qn, n);
        value_drop(g, n);
        node_unref(g, n);
        return result;
    }
    qn_scope_end(qn, scope);
    if (g->scopes)
        g->owned[g->owned_count++] = t; /* its old place there is free */
    else
        t->refs = (t->refs & ~HANDLE_SCOPED) + 1;
    return result;
}

qn_tensor *qn_scope_return(qn_ctx *qn, qn_scope scope, qn_tensor *result) {
    if (!qn || scope == 0) return NULL;
    if (scope > qn->graph->scopes) {
        fail(qn, QN_EARG, "scope_return: scope %u is not open", scope);
        return NULL;
    }
    if (result && tensor_any(qn, result, "scope_return", "result"))
        return scope_pass(qn, scope, result);
    qn_scope_end(qn, scope);
    return NULL;
}

/* ---- errors --------------------------------------------------------------------------------- */

/* Between opening and closing nothing else may use the graph's text. */
typedef struct misfit {
    const char *a, *b; /* what the two tensors are called */
    const qn_tensor *x, *y;
    char why[400];
} misfit;

static void unfit(void *arg) {
    const misfit *m = arg;
    graph *g = tensor_ctx(m->x)->graph;
    g->text.len = 0;
    str_addf(&g->text, "%s ", m->a);
    shape_text(g, node_at(g, tensor_at(m->x)->node)->shape, &g->text);
    if (m->y) {
        str_addf(&g->text, ", %s ", m->b);
        shape_text(g, node_at(g, tensor_at(m->y)->node)->shape, &g->text);
    }
    fail(g->ctx, QN_ESHAPE, "%s: %s: %s", graph_name(g->ctx, "shapes"), g->text.s, m->why);
}

void *tensor_unfit(const char *a, const qn_tensor *x, const char *b, const qn_tensor *y,
                   const char *fmt, ...) {
    misfit m = {.a = a, .b = b, .x = x, .y = y};
    va_list args;
    va_start(args, fmt);
    vsnprintf(m.why, sizeof m.why, fmt, args);
    va_end(args);
    guarded(tensor_ctx(x), unfit, &m);
    return NULL;
}

/* ---- tapes ---------------------------------------------------------------------------------- */

qn_tape *qn_tape_begin(qn_ctx *qn) {
    if (!qn) return NULL;
    tape *t = heap_try(&qn->heap, sizeof *t);
    if (!t) return fail_null(qn, QN_ENOMEM, "out of memory opening a tape");
    qn_tape *name = object_open(qn, HANDLE_TAPE, t);
    if (!name) {
        heap_free(&qn->heap, t, sizeof *t);
        return NULL;
    }
    *t = (tape){.ctx = qn, .next = qn->graph->tape};
    qn->graph->tape = t;
    qn->graph->tapes++;
    return name;
}

void qn_tape_end(qn_tape *name) {
    tape *t = object_close(name, HANDLE_TAPE, "tape_end");
    if (!t) return;
    graph *g = t->ctx->graph;
    tape **link = &g->tape;
    while (*link != t) link = &(*link)->next;
    *link = t->next;
    heap_free(&g->ctx->heap, t, sizeof *t);
    if (--g->tapes == 0) history_tape_ended(g);
}
