/* tensor.c - handles, scopes and tapes: what the user holds.
 *
 * A handle names a node and counts its holders. Its count has two parts: references the user took
 * or was given, and one flag, HANDLE_SCOPED, for the scope it was made in. It is dead when neither
 * is left. Telling them apart is what makes a release too many an error and not a handle that dies
 * under its scope. Handles live in blocks that stay until the context is closed, so a dead one can
 * be recognised by its count of 0 until its slot is used again.
 *
 * A scope is the number of handles there were when it began; ending it releases those above. A
 * composed function opens one for its temporaries and moves its result outward. Scopes are numbered
 * by depth from 1; 0 is what qn_scope_begin gives where there is no memory: its handles then belong
 * to the scope around it, and ending it does nothing. Ending a scope also ends those inside it that
 * were left open. */
#include "graph/graph.h"

enum { HANDLES_A_BLOCK = 256 };
static const uint32_t HANDLE_SCOPED = 1u << 31;

typedef struct handle_block {
    struct handle_block *next;
    qn_tensor handle[HANDLES_A_BLOCK];
} handle_block;

struct qn_tape {
    qn_ctx *ctx;
    qn_tape *next;
};

void tensor_close(graph *g) {
    heap *h = &g->ctx->heap;
    while (g->handle_blocks) {
        handle_block *b = g->handle_blocks;
        g->handle_blocks = b->next;
        heap_free(h, b, sizeof *b);
    }
    while (g->tape) {
        qn_tape *t = g->tape;
        g->tape = t->next;
        heap_free(h, t, sizeof *t);
    }
    heap_free(h, g->owned, g->owned_cap * sizeof(qn_tensor *));
    heap_free(h, g->scope, g->scope_cap * sizeof *g->scope);
}

/* ---- handles -------------------------------------------------------------------------------- */

static void handles_more(graph *g) {
    handle_block *b = heap_zeroed(&g->ctx->heap, sizeof *b);
    b->next = g->handle_blocks;
    g->handle_blocks = b;
    for (int i = HANDLES_A_BLOCK; i-- > 0;) {
        b->handle[i].next_free = g->free_handle;
        g->free_handle = &b->handle[i];
    }
}

qn_tensor *tensor_make(graph *g, node_id n) {
    if (!g->free_handle) handles_more(g);
    if (g->scopes)
        g->owned = heap_grow(&g->ctx->heap, g->owned, &g->owned_cap, g->owned_count + 1,
                             sizeof(qn_tensor *));
    qn_tensor *t = g->free_handle;
    g->free_handle = t->next_free;
    *t = (qn_tensor){.ctx = g->ctx, .node = n, .number = g->made++};
    t->refs = g->scopes ? HANDLE_SCOPED : 1;
    if (g->scopes) g->owned[g->owned_count++] = t;
    node_ref(g, n);
    g->handles++;
    return t;
}

qn_tensor *tensor_new(qn_ctx *qn, node_id n) {
    guard gd;
    guard_open(&qn->heap, &gd);
    if (setjmp(gd.at)) {
        guard_close(&qn->heap, &gd);
        return NULL;
    }
    qn_tensor *t = tensor_make(qn->graph, n);
    guard_close(&qn->heap, &gd);
    return t;
}

void tensor_point(qn_tensor *t, node_id n) {
    graph *g = t->ctx->graph;
    node_id old = t->node;
    node_ref(g, n);
    t->node = n;
    node_unref(g, old);
}

/* The order of the assignments that stay is kept. */
static void handle_leave_pending(graph *g, const qn_tensor *t) {
    for (uint32_t i = t->pending; i < g->pending_count; i++) {
        g->pending[i - 1] = g->pending[i];
        g->pending[i - 1]->pending = i;
    }
    g->pending_count--;
}

qn_tensor *graph_handle_of(const graph *g, node_id n) {
    qn_tensor *oldest = NULL;
    for (handle_block *b = g->handle_blocks; b; b = b->next)
        for (int i = 0; i < HANDLES_A_BLOCK; i++) {
            qn_tensor *t = &b->handle[i];
            if (!t->refs || t->node != n) continue;
            if (!oldest || t->number < oldest->number) oldest = t;
        }
    return oldest;
}

void tensor_settle(qn_tensor *t) {
    if (!t->pending) return;
    handle_leave_pending(t->ctx->graph, t);
    node_unref(t->ctx->graph, t->replaced);
    node_is_state(t->ctx->graph, t->node);
    t->pending = t->replaced = 0;
}

static void handle_die(graph *g, qn_tensor *t) {
    tensor_settle(t);
    node_unref(g, t->node);
    *t = (qn_tensor){.ctx = t->ctx, .next_free = g->free_handle};
    g->free_handle = t;
    g->handles--;
}

static void handle_leave_scope(graph *g, qn_tensor *t) {
    t->refs &= ~HANDLE_SCOPED;
    if (t->refs == 0) handle_die(g, t);
}

qn_ctx *qn_context(const qn_tensor *t) {
    return t ? t->ctx : NULL;
}

qn_tensor *qn_keep(qn_tensor *t) {
    if (!t) return NULL;
    if (t->refs == 0) return fail_null(t->ctx, QN_EGRAPH, "keep: a tensor that was released");
    t->refs++;
    return t;
}

void qn_release(qn_tensor *t) {
    if (!t) return;
    if ((t->refs & ~HANDLE_SCOPED) == 0) {
        fail(t->ctx, QN_EGRAPH, "release: a tensor nobody kept, or released already");
        return;
    }
    if (--t->refs == 0) handle_die(t->ctx->graph, t);
}

/* ---- scopes --------------------------------------------------------------------------------- */

qn_scope qn_scope_begin(qn_ctx *qn) {
    if (!qn) return 0;
    graph *g = qn->graph;
    guard gd;
    guard_open(&qn->heap, &gd);
    if (setjmp(gd.at)) {
        guard_close(&qn->heap, &gd);
        return 0;
    }
    g->scope = heap_grow(&qn->heap, g->scope, &g->scope_cap, g->scopes + 1, sizeof *g->scope);
    guard_close(&qn->heap, &gd);
    g->scope[g->scopes++] = g->owned_count;
    return g->scopes;
}

void qn_scope_end(qn_ctx *qn, qn_scope scope) {
    if (!qn || scope == 0) return;
    graph *g = qn->graph;
    if (scope > g->scopes) {
        fail(qn, QN_EARG, "scope_end: scope %u is not open", scope);
        return;
    }
    uint32_t start = g->scope[scope - 1];
    g->scopes = scope - 1;
    while (g->owned_count > start) handle_leave_scope(g, g->owned[--g->owned_count]);
}

/* ---- the frame of a composed function ------------------------------------------------------- */

func_frame func_begin(qn_ctx *qn, const char *name) {
    func_frame f = {.qn = qn};
    if (!qn) return f;
    f.scope = qn_scope_begin(qn);
    f.outermost = qn->graph->func == NULL;
    if (f.outermost) qn->graph->func = name;
    return f;
}

/* Take t out of the scopes from `start` on; false when no such scope owns it. */
static bool func_take(graph *g, uint32_t start, const qn_tensor *t) {
    for (uint32_t i = g->owned_count; i-- > start;) {
        if (g->owned[i] != t) continue;
        g->owned[i] = g->owned[--g->owned_count];
        return true;
    }
    return false;
}

/* A result that was made outside, such as the argument itself, gets a handle of its own: the caller
 * may release what a function returns. */
static qn_tensor *func_pass(qn_ctx *qn, qn_scope scope, qn_tensor *result) {
    graph *g = qn->graph;
    if (!func_take(g, g->scope[scope - 1], result)) {
        node_id n = result->node;
        node_ref(g, n);
        qn_scope_end(qn, scope);
        result = tensor_new(qn, n);
        node_unref(g, n);
        return result;
    }
    qn_scope_end(qn, scope);
    if (g->scopes)
        g->owned[g->owned_count++] = result; /* its old place there is free */
    else
        result->refs = (result->refs & ~HANDLE_SCOPED) + 1;
    return result;
}

qn_tensor *qn_scope_return(qn_ctx *qn, qn_scope scope, qn_tensor *result) {
    if (!qn || scope == 0) return NULL;
    if (scope > qn->graph->scopes) {
        fail(qn, QN_EARG, "scope_return: scope %u is not open", scope);
        return NULL;
    }
    if (result && result->ctx == qn && result->refs) return func_pass(qn, scope, result);
    if (result)
        fail(qn, QN_EGRAPH, "scope_return: a tensor that was released, or another context's");
    qn_scope_end(qn, scope);
    return NULL;
}

qn_tensor *func_end(func_frame f, qn_tensor *result) {
    if (!f.qn) return NULL;
    if (f.outermost) f.qn->graph->func = NULL;
    if (!f.scope) return NULL; /* no memory for a scope: reported */
    if (result) return func_pass(f.qn, f.scope, result);
    qn_scope_end(f.qn, f.scope);
    return NULL;
}

/* ---- tapes ---------------------------------------------------------------------------------- */

qn_tape *qn_tape_begin(qn_ctx *qn) {
    if (!qn) return NULL;
    qn_tape *tape = heap_try(&qn->heap, sizeof *tape);
    if (!tape) return fail_null(qn, QN_ENOMEM, "out of memory opening a tape");
    *tape = (qn_tape){.ctx = qn, .next = qn->graph->tape};
    qn->graph->tape = tape;
    qn->graph->tapes++;
    return tape;
}

void qn_tape_end(qn_tape *tape) {
    if (!tape) return;
    qn_ctx *qn = tape->ctx;
    graph *g = qn->graph;
    qn_tape **link = &g->tape;
    while (*link && *link != tape) link = &(*link)->next;
    if (!*link) return;
    *link = tape->next;
    heap_free(&qn->heap, tape, sizeof *tape);
    if (--g->tapes == 0) graph_forget_history(g);
}
