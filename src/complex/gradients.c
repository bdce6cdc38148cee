/* gradients.c - derivatives by complex numbers and of them.
 *
 * By z = a + ib the derivative of a real y is dy/da + i dy/db, along which y falls the fastest: the
 * gradient of pairs by each part, side by side, and PyTorch's convention. A complex y has a seed v,
 * and stands for the real part of conj(v) y. */
#include "complex/complex.h"

static qn_tensor *pairs_of(qn_tensor *t) {
    return handle_is(t, HANDLE_COMPLEX) ? complex_pairs(t) : t;
}

static qn_ctx *context_of(int n, qn_tensor *const *t) {
    for (int i = 0; i < n && t; i++)
        if (complex_context(t[i], NULL)) return tensor_ctx(t[i]);
    return NULL;
}

/* What goes with complex numbers is complex: seeds with results, tangents with arguments. The error
 * is that of the call's context, which gives the code, wherever the tensor belongs. */
static bool are_alike(qn_ctx *qn, const char *name, int n, qn_tensor *const *x,
                      qn_tensor *const *with) {
    for (int i = 0; i < n && x; i++) {
        bool complex = handle_is(x[i], HANDLE_COMPLEX);
        if (with && with[i] ? handle_is(with[i], HANDLE_COMPLEX) == complex : !complex) continue;
        fail(qn, QN_EDTYPE, "%s: number %d is %s, and what goes with it is %s", name, i,
             complex ? "complex" : "real",
             !with || !with[i] ? "missing"
             : complex         ? "real"
                               : "complex");
        return false;
    }
    return true;
}

typedef struct lists {
    qn_ctx *qn;
    qn_tensor **room, **at;
    size_t bytes;
    func_frame frame;
} lists;

/* Room for copies of lists of altogether n tensors, in a frame; false: reported. */
static bool lists_open(lists *l, qn_ctx *qn, const char *name, int64_t n) {
    *l = (lists){.qn = qn, .bytes = (size_t)n * sizeof(qn_tensor *)};
    if (!qn) return false;
    if (!(l->room = heap_try(&qn->heap, l->bytes))) {
        fail(qn, QN_ENOMEM, "%s: out of memory", name);
        return false;
    }
    l->at = l->room;
    l->frame = func_begin(qn, name);
    return true;
}

/* The list itself: where results go may be the one that arguments came in. */
static qn_tensor *const *lists_copy(lists *l, int n, qn_tensor *const *t) {
    qn_tensor **to = l->at;
    for (int i = 0; i < n; i++) to[i] = t[i];
    l->at += n;
    return to;
}

static qn_tensor *const *lists_pairs(lists *l, int n, qn_tensor *const *t) {
    qn_tensor **to = l->at;
    if (!t) return NULL;
    for (int i = 0; i < n; i++) to[i] = pairs_of(t[i]);
    l->at += n;
    return to;
}

/* The frame's end: results of pairs become complex where `like` is. */
static qn_code lists_close(lists *l, int n, qn_tensor *const *like, qn_tensor **out, qn_code code) {
    for (int i = 0; i < n && !code; i++) qn_keep(out[i]);
    func_end(l->frame, NULL);
    for (int i = 0; i < n && !code; i++) {
        qn_scope scope = qn_scope_begin(l->qn);
        qn_tensor *made = handle_is(like[i], HANDLE_COMPLEX) ? tensor_complex(out[i]) : out[i];
        qn_tensor *kept = out[i];
        out[i] = scope && made ? scope_pass(l->qn, scope, made) : NULL;
        qn_release(kept);
    }
    for (int i = 0; i < n && !code; i++)
        if (!out[i]) code = qn_error_code(l->qn);
    for (int i = 0; i < n && code; i++) out[i] = NULL;
    heap_free(&l->qn->heap, l->room, l->bytes);
    return code;
}

qn_code complex_grad(qn_tensor *y, qn_tensor *seed, int n, qn_tensor *const *x, qn_tensor **out) {
    lists l;
    qn_ctx *qn = complex_context(y, NULL);
    if (n < 0 || !x || !out) return qn_grad(pairs_of(y), pairs_of(seed), n, x, out);
    bool alike = seed || handle_is(y, HANDLE_COMPLEX) ? are_alike(qn, "grad", 1, &y, &seed) : true;
    if (!alike || !lists_open(&l, qn, "grad", 2 * (int64_t)n + 1))
        return qn ? qn_error_code(qn) : QN_ENULL;
    qn_tensor *const *like = lists_copy(&l, n, x);
    qn_code code = qn_grad(pairs_of(y), pairs_of(seed), n, lists_pairs(&l, n, x), out);
    return lists_close(&l, n, like, out, code);
}

/* Seeds may be missing where results are real. */
static bool seeds_fit(qn_ctx *qn, int n, qn_tensor *const *ys, qn_tensor *const *seeds) {
    for (int i = 0; i < n && ys; i++) {
        qn_tensor *seed = seeds ? seeds[i] : NULL;
        if ((seed || handle_is(ys[i], HANDLE_COMPLEX)) && !are_alike(qn, "vjp", 1, &ys[i], &seed))
            return false;
    }
    return true;
}

qn_code complex_vjp(int n, qn_tensor *const *ys, qn_tensor *const *seeds, int m,
                    qn_tensor *const *xs, qn_tensor **out) {
    lists l;
    qn_ctx *qn = context_of(n, ys);
    if (n < 0 || m < 0 || !ys || !xs || !out) return qn_vjp(n, ys, seeds, m, xs, out);
    if (!seeds_fit(qn, n, ys, seeds) || !lists_open(&l, qn, "vjp", 2 * ((int64_t)n + m) + 1))
        return qn ? qn_error_code(qn) : QN_ENULL;
    qn_tensor *const *like = lists_copy(&l, m, xs);
    qn_tensor *const *y = lists_pairs(&l, n, ys), *const *s = lists_pairs(&l, n, seeds);
    return lists_close(&l, m, like, out, qn_vjp(n, y, s, m, lists_pairs(&l, m, xs), out));
}

qn_code complex_jvp(int n, qn_tensor *const *ys, int m, qn_tensor *const *xs,
                    qn_tensor *const *tangents, qn_tensor **out) {
    lists l;
    qn_ctx *qn = context_of(m, xs);
    if (n < 0 || m < 0 || !ys || !xs || !tangents || !out)
        return qn_jvp(n, ys, m, xs, tangents, out);
    if (!are_alike(qn, "jvp", m, xs, tangents) ||
        !lists_open(&l, qn, "jvp", 2 * ((int64_t)n + m) + 1))
        return qn ? qn_error_code(qn) : QN_ENULL;
    qn_tensor *const *like = lists_copy(&l, n, ys);
    qn_tensor *const *y = lists_pairs(&l, n, ys), *const *x = lists_pairs(&l, m, xs);
    return lists_close(&l, n, like, out, qn_jvp(n, y, m, x, lists_pairs(&l, m, tangents), out));
}
