/* frame.c - the frame of a composed function: its arguments checked once, everything made inside
 * released at its end but the result. */
#include "func/func.h"

func_frame func_begin(qn_ctx *qn, const char *name) {
    func_frame f = {.qn = qn};
    if (!qn) return f;
    f.failures = qn->failures;
    f.scope = qn_scope_begin(qn);
    f.outermost = qn->graph->func == NULL;
    if (f.outermost) {
        qn->graph->func = name;
        qn->graph->given = 0;
    }
    return f;
}

/* The context of the first argument that is alive; the others must be of it, too. */
static qn_ctx *func_context(size_t n, const func_arg *arg) {
    for (size_t i = 0; i < n; i++)
        if (handle_is(*arg[i].t, HANDLE_TENSOR)) return tensor_ctx(*arg[i].t);
    return NULL;
}

func_frame func_begin_on(const char *name, size_t n, const func_arg *arg) {
    qn_ctx *qn = func_context(n, arg);
    const char *call = qn ? graph_name(qn, name) : name;
    uint32_t failures = qn ? qn->failures : 0;
    for (size_t i = 0; i < n; i++) {
        const qn_tensor *t = *arg[i].t;
        if (!t && arg[i].optional) continue;
        if (!t && qn && qn->code) continue; /* why is known */
        if (tensor_of(qn, t, call, arg[i].name)) continue;
        *arg[i].t = NULL;
    }
    func_frame f = func_begin(qn, name);
    f.failures = failures;
    for (size_t i = 0; i < n && f.outermost; i++)
        if (*arg[i].t && qn->graph->given < GRAPH_GIVEN)
            qn->graph->given_node[qn->graph->given++] = tensor_at(*arg[i].t)->node;
    return f;
}

qn_tensor *func_end(func_frame f, qn_tensor *result) {
    if (!f.qn) return NULL;
    if (f.dtype != QN_BOOL) result = func_as(result, f.dtype);
    if (f.outermost) f.qn->graph->func = NULL;
    if (!f.scope) return NULL; /* no memory for a scope: reported */
    if (result && f.failures == f.qn->failures) return scope_pass(f.qn, f.scope, result);
    qn_scope_end(f.qn, f.scope);
    return NULL;
}
