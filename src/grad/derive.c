/* derive.c - the public calls that differentiate: products with the Jacobian from either side,
 * whole Jacobians, and the same of second derivatives.
 *
 * With J the matrix of d y / d x, seeds u of y's shapes and tangents t of x's:
 *
 *   grad, vjp   u J, a walk back from the y (grad.c)
 *   jvp         J t. u J is linear in u, so its gradient by u with the seed t is J t, and u appears
 *               no more in it: the rules make a product with u of each slope, and the derivative of
 *               that by u is a product with t. What comes out has the nodes that rules written for
 *               forward mode would make, and there is one rule for each operation, so both agree at
 *               kinks, too. A rule that is linear but not made of products (matrix_exp) keeps u,
 *               which is 0.
 *   jacobian    J, by as many walks as y has elements, or x, whichever are fewer
 *   hvp         J t of the gradient: forward over reverse
 *   hessian     the Jacobian of the gradient
 *
 * All of it is made in one go as nodes, and only results get handles. */
#include "grad/grad.h"

#include <stdio.h>

typedef struct derivative {
    const char *call;
    int n, m; /* y and x */
    bool one; /* y is no list */
    qn_tensor *const *y, *const *seed, *const *x, *const *tangent;
    qn_tensor **out, **result;
    int32_t *depends;
    int outs, made; /* results, and those that have handles */
    bool gone;      /* they need a value that is not there any more */
    graph *g;
    arena arena;
} derivative;

/* ---- what is given -------------------------------------------------------------------------- */

static bool check_float(const derivative *d, const char *what, int i, const qn_tensor *t) {
    qn_ctx *qn = d->g->ctx;
    char name[32];
    snprintf(name, sizeof name, i < 0 ? "%s" : "%s %d", what, i);
    if (!tensor_of(qn, t, d->call, name)) return false;
    if (dtype_is_float(qn_dtype_of(t))) return true;
    fail(qn, QN_EDTYPE, "%s: %s is %s; only floats have gradients", d->call, name,
         qn_dtype_name(qn_dtype_of(t)));
    return false;
}

static bool check_floats(const derivative *d, const char *what, int n, qn_tensor *const *t) {
    if (n < 0 || (n > 0 && !t))
        return fail(d->g->ctx, QN_ENULL, "%s: no list of %ss", d->call, what), false;
    for (int i = 0; i < n; i++)
        if (!check_float(d, what, d->one && t == d->y ? -1 : i, t[i])) return false;
    return true;
}

/* A constant is a value and no variable: what is made of it is folded into other constants, and all
 * of equal value are one node. That has no meaning where there are no elements, which all is folded
 * into that has none. */
static bool check_constants(const derivative *d) {
    for (int i = 0; i < d->m; i++) {
        const graph_node *x = node_at(d->g, tensor_at(d->x[i])->node);
        if ((x->op != OP_CONST && x->op != OP_IOTA) || shape_is_empty(d->g, x->shape)) continue;
        fail(d->g->ctx, QN_EGRAPH,
             "%s: x %d is a constant, which is folded into what is made of it and is one with all "
             "of its value; make it as data (qn_from), or as a module's parameter",
             d->call, i);
        return false;
    }
    return true;
}

static node_id node_of(const qn_tensor *t) {
    return tensor_at(t)->node;
}

static node_id *nodes_of(derivative *d, int n, qn_tensor *const *t) {
    node_id *node = arena_alloc(&d->arena, ((size_t)n + 1) * sizeof *node);
    for (int i = 0; i < n; i++) node[i] = node_of(t[i]);
    return node;
}

/* `given`, or ones where it is NULL, in the dtype and shape of t; 0: reported. */
static node_id weight_of(const derivative *d, qn_tensor *given, const char *what, qn_tensor *t,
                         const char *name) {
    graph *g = d->g;
    const graph_node *n = node_at(g, node_of(t));
    qn_dtype dtype = (qn_dtype)n->dtype;
    tuple_id shape = n->shape, wider;
    if (!given) return make_number(g, dtype, shape, 1);
    node_id w = node_of(given);
    if (!shape_broadcast(g, g->node[w].shape, shape, &wider) || wider != shape) {
        tensor_unfit(name, t, what, given, "the %s has %s's shape", what, name);
        return 0;
    }
    return make_broadcast(g, make_cast(g, w, dtype), shape);
}

/* Of each of n tensors; NULL: reported. */
static node_id *weights_of(derivative *d, int n, qn_tensor *const *given, const char *what,
                           qn_tensor *const *t, const char *name) {
    node_id *w = arena_alloc(&d->arena, ((size_t)n + 1) * sizeof *w);
    for (int i = 0; i < n; i++)
        if (!(w[i] = weight_of(d, given ? given[i] : NULL, what, t[i], name))) return NULL;
    return w;
}

/* ---- how a call goes ------------------------------------------------------------------------ */

/* Results go to `out` when all are there, for it may be the list of arguments. */
static void give(derivative *d, int i, node_id n) {
    if (!d->result) d->result = arena_zeroed(&d->arena, (size_t)d->outs * sizeof *d->result);
    d->result[i] = tensor_make(d->g, n);
    d->made++;
}

/* Needs a result what is gone? Then it is no result. */
static void look_for_gone(derivative *d) {
    d->gone = d->g->gone != 0;
    if (d->gone) grad_report_gone(d->g, &d->arena, d->call);
}

static qn_code refuse(derivative *d) {
    qn_ctx *qn = d->g->ctx;
    for (int i = 0; d->out && i < d->outs; i++) d->out[i] = NULL;
    return qn->code ? qn->code : QN_EINTERNAL;
}

static qn_code derive(derivative *d, void (*work)(void *)) {
    qn_ctx *qn = d->g->ctx;
    const char *func = d->g->func;
    if (!func) d->g->func = d->call;
    arena_open(&d->arena, &qn->heap);
    guarded(qn, work, d);
    graph_settle(d->g);
    d->g->func = func;
    bool done = d->made == d->outs && !d->gone;
    for (int i = 0; i < d->made; i++) {
        if (done)
            d->out[i] = d->result[i];
        else
            tensor_forget(tensor_at(d->result[i]));
    }
    arena_free(&d->arena);
    return done ? QN_OK : refuse(d);
}

static bool has_room(const derivative *d) {
    if (d->outs >= 0 && (d->out || !d->outs)) return true;
    fail(d->g->ctx, QN_ENULL, "%s: no place for results", d->call);
    return false;
}

/* The graph of the first living tensor of a list; NULL: reported where there is anywhere to. */
static graph *graph_of(const char *call, int n, qn_tensor *const *t) {
    for (int i = 0; t && i < n; i++)
        if (handle_is(t[i], HANDLE_TENSOR)) return tensor_ctx(t[i])->graph;
    if (t && n > 0) tensor_of(NULL, t[0], call, "y 0");
    return NULL;
}

/* ---- from the results back ------------------------------------------------------------------ */

static void vjp_run(void *arg) {
    derivative *d = arg;
    grad_request r = {.call = d->call, .ys = d->n, .xs = d->m};
    r.y = nodes_of(d, d->n, d->y);
    r.seed = weights_of(d, d->n, d->seed, "seed", d->y, "y");
    r.x = nodes_of(d, d->m, d->x);
    r.out = arena_zeroed(&d->arena, ((size_t)d->m + 1) * sizeof *r.out);
    if (!r.seed || !grad_nodes(d->g, &d->arena, &r)) return;
    d->g->gone = 0;
    for (int i = 0; i < d->m; i++) give(d, i, r.out[i]);
    look_for_gone(d);
}

static qn_code vjp(derivative *d) {
    bool fits = has_room(d) && check_floats(d, "y", d->n, d->y);
    for (int i = 0; fits && d->seed && i < d->n; i++)
        fits = !d->seed[i] || check_float(d, "seed", d->one ? -1 : i, d->seed[i]);
    fits = fits && check_floats(d, "x", d->m, d->x) && check_constants(d);
    if (!fits) return refuse(d);
    return d->m ? derive(d, vjp_run) : QN_OK;
}

qn_code qn_vjp(int n, qn_tensor *const *ys, qn_tensor *const *seeds, int m, qn_tensor *const *xs,
               qn_tensor **out) {
    derivative d = {.call = "vjp", .n = n, .m = m, .y = ys, .seed = seeds, .x = xs};
    d.out = out;
    d.outs = m;
    if (!(d.g = graph_of(d.call, n, ys))) return QN_ENULL;
    return vjp(&d);
}

qn_code qn_grad(qn_tensor *y, qn_tensor *seed, int n, qn_tensor *const *x, qn_tensor **out) {
    derivative d = {.call = "grad", .one = true, .n = 1, .m = n, .y = &y, .seed = &seed, .x = x};
    d.out = out;
    d.outs = n;
    if (!(d.g = graph_of(d.call, 1, &y))) return QN_ENULL;
    return vjp(&d);
}

static void depends_run(void *arg) {
    derivative *d = arg;
    grad_request r = {.call = d->call, .ys = d->n, .xs = d->m};
    r.y = nodes_of(d, d->n, d->y);
    r.x = nodes_of(d, d->m, d->x);
    int32_t *found = arena_zeroed(&d->arena, ((size_t)d->m + 1) * sizeof *found);
    if (!grad_depends(d->g, &d->arena, &r, found)) return;
    memcpy(d->depends, found, (size_t)d->m * sizeof *found);
}

qn_code qn_depends(int n, qn_tensor *const *ys, int m, qn_tensor *const *xs, int32_t *out) {
    derivative d = {.call = "depends", .n = n, .m = m, .y = ys, .x = xs, .depends = out};
    if (!(d.g = graph_of(d.call, n, ys))) return QN_ENULL;
    if (!out && m > 0) return fail(d.g->ctx, QN_ENULL, "%s: no place for results", d.call);
    if (!check_floats(&d, "y", n, ys) || !check_floats(&d, "x", m, xs)) return refuse(&d);
    if (!m) return QN_OK;
    qn_ctx *qn = d.g->ctx;
    unsigned failures = qn->failures;
    arena_open(&d.arena, &qn->heap);
    qn_code code = guarded(qn, depends_run, &d);
    arena_free(&d.arena);
    return qn->failures == failures ? code : refuse(&d);
}

/* ---- along tangents ------------------------------------------------------------------------- */

/* 0 in n's dtype and shape, but no other node. */
static node_id dummy_for(graph *g, node_id n) {
    const graph_node *x = node_at(g, n);
    return make_apart(g, make_number(g, (qn_dtype)x->dtype, x->shape, 0));
}

typedef struct forward {
    const char *call;
    int ys, xs;
    const node_id *y;
    node_id *x;        /* versions that y uses, when it is done */
    node_id *u, *back; /* dummies for y, and u J */
} forward;

static bool forward_open(graph *g, arena *a, forward *f) {
    f->u = arena_alloc(a, ((size_t)f->ys + 1) * sizeof *f->u);
    f->back = arena_zeroed(a, ((size_t)f->xs + 1) * sizeof *f->back);
    for (int i = 0; i < f->ys; i++) f->u[i] = dummy_for(g, f->y[i]);
    grad_request r = {f->call, f->ys, f->xs, f->y, f->u, f->x, f->back};
    return grad_nodes(g, a, &r);
}

static bool forward_along(graph *g, arena *a, const forward *f, const node_id *tangent,
                          node_id *out) {
    grad_request r = {f->call, f->xs, f->ys, f->back, tangent, f->u, out};
    return grad_nodes(g, a, &r);
}

static void jvp_give(derivative *d, forward *f, const node_id *tangent) {
    node_id *out = arena_zeroed(&d->arena, ((size_t)f->ys + 1) * sizeof *out);
    if (!forward_open(d->g, &d->arena, f) || !forward_along(d->g, &d->arena, f, tangent, out))
        return;
    d->g->gone = 0;
    for (int i = 0; i < f->ys; i++) give(d, i, out[i]);
    look_for_gone(d);
}

static void jvp_run(void *arg) {
    derivative *d = arg;
    forward f = {.call = d->call, .ys = d->n, .xs = d->m};
    node_id *tangent = weights_of(d, d->m, d->tangent, "tangent", d->x, "x");
    f.y = nodes_of(d, d->n, d->y);
    f.x = nodes_of(d, d->m, d->x);
    if (tangent) jvp_give(d, &f, tangent);
}

/* The gradient of one y, and what it is along tangents. */
static void hvp_run(void *arg) {
    derivative *d = arg;
    node_id *tangent = weights_of(d, d->m, d->tangent, "tangent", d->x, "x");
    node_id y = node_of(d->y[0]), seed = weight_of(d, NULL, "", d->y[0], "y");
    node_id *x = nodes_of(d, d->m, d->x);
    node_id *slope = arena_zeroed(&d->arena, ((size_t)d->m + 1) * sizeof *slope);
    grad_request r = {d->call, 1, d->m, &y, &seed, x, slope};
    if (!tangent || !grad_nodes(d->g, &d->arena, &r)) return;
    forward f = {.call = d->call, .ys = d->m, .xs = d->m, .y = slope, .x = x};
    jvp_give(d, &f, tangent);
}

static qn_code along(derivative *d, void (*work)(void *)) {
    bool fits = has_room(d) && check_floats(d, "y", d->n, d->y) &&
                check_floats(d, "x", d->m, d->x) && check_floats(d, "tangent", d->m, d->tangent) &&
                check_constants(d);
    if (!fits) return refuse(d);
    return d->outs ? derive(d, work) : QN_OK;
}

qn_code qn_jvp(int n, qn_tensor *const *ys, int m, qn_tensor *const *xs, qn_tensor *const *tangents,
               qn_tensor **out) {
    derivative d = {.call = "jvp", .n = n, .m = m, .y = ys, .x = xs, .tangent = tangents};
    d.out = out;
    d.outs = n;
    if (!(d.g = graph_of(d.call, n, ys))) return QN_ENULL;
    return along(&d, jvp_run);
}

qn_code qn_hvp(qn_tensor *y, int n, qn_tensor *const *xs, qn_tensor *const *tangents,
               qn_tensor **out) {
    derivative d = {
        .call = "hvp", .one = true, .n = 1, .m = n, .y = &y, .x = xs, .tangent = tangents};
    d.out = out;
    d.outs = n;
    if (!(d.g = graph_of(d.call, 1, &y))) return QN_ENULL;
    return along(&d, hvp_run);
}

/* ---- whole matrices ------------------------------------------------------------------------- */

/* Sizes as numbers, for there is a walk for each element; the count, or -1: reported. */
static int64_t elements(const derivative *d, const char *name, const qn_tensor *t) {
    int64_t n = shape_numel_hi(d->g, d->g->node[node_of(t)].shape);
    if (sym_is_const(d->g->syms, shape_numel(d->g, d->g->node[node_of(t)].shape), NULL)) return n;
    tensor_unfit(name, t, "", NULL, "needs sizes that are numbers");
    return -1;
}

/* 1 at one place of n, 0 elsewhere, in that shape. */
static node_id one_at(graph *g, qn_dtype dtype, tuple_id shape, int64_t n, int64_t place) {
    int64_t one = SYM_ONE;
    int64_t pad[3] = {sym_const(g->syms, place), sym_const(g->syms, n - 1 - place), 0};
    node_id x = make_number(g, dtype, graph_tuple(g, 1, &one), 1);
    return make_reshape(g, make_pad(g, x, pad), shape);
}

/* y's axes and then x's; or, for rows by x, the other way round. */
static tuple_id both_shapes(graph *g, node_id first, node_id second) {
    int64_t dims[QN_MAX_RANK];
    int a, b;
    const int64_t *p = node_dims(g, first, &a);
    for (int i = 0; i < a; i++) dims[i] = p[i];
    p = node_dims(g, second, &b);
    for (int i = 0; i < b; i++) dims[a + i] = p[i];
    return graph_tuple(g, a + b, dims);
}

/* J of y by x with y's axes first; 0: reported. One row a walk, of y's elements or of x's. */
static node_id jacobian_node(derivative *d, node_id y, node_id *x, bool by_rows) {
    graph *g = d->g;
    forward f = {.call = d->call, .ys = 1, .xs = 1, .y = &y, .x = x};
    if (!by_rows && !forward_open(g, &d->arena, &f)) return 0;
    node_id of = by_rows ? y : *x, other = by_rows ? *x : y;
    tuple_id shape = g->node[of].shape;
    int64_t n = shape_numel_hi(g, shape), flat[2] = {SYM_ONE, 0};
    qn_dtype dtype = (qn_dtype)g->node[of].dtype;
    node_id *row = arena_alloc(&d->arena, ((size_t)n + 1) * sizeof *row);
    flat[1] = shape_numel(g, g->node[other].shape);
    for (int64_t i = 0; i < n; i++) {
        node_id seed = one_at(g, dtype, shape, n, i), slope = 0;
        grad_request r = {d->call, 1, 1, &y, &seed, x, &slope};
        if (!(by_rows ? grad_nodes(g, &d->arena, &r)
                      : forward_along(g, &d->arena, &f, &seed, &slope)))
            return 0;
        row[i] = make_reshape(g, slope, graph_tuple(g, 2, flat));
    }
    node_id all = n ? make_join(g, (int)n, row, 0) : 0;
    if (!all) return make_number(g, (qn_dtype)g->node[*x].dtype, both_shapes(g, y, *x), 0);
    if (by_rows) return make_reshape(g, all, both_shapes(g, y, *x));
    return make_reshape(g, make_permute(g, all, (int[]){1, 0}), both_shapes(g, y, *x));
}

static void jacobian_run(void *arg) {
    derivative *d = arg;
    node_id y = node_of(d->y[0]), x = node_of(d->x[0]);
    bool by_rows = elements(d, "y", d->y[0]) <= elements(d, "x", d->x[0]);
    node_id made = jacobian_node(d, y, &x, by_rows);
    if (!made) return;
    d->g->gone = 0;
    give(d, 0, made);
    look_for_gone(d);
}

static void hessian_run(void *arg) {
    derivative *d = arg;
    node_id y = node_of(d->y[0]), seed = weight_of(d, NULL, "", d->y[0], "y"), slope = 0;
    node_id x = node_of(d->x[0]);
    grad_request r = {d->call, 1, 1, &y, &seed, &x, &slope};
    if (!grad_nodes(d->g, &d->arena, &r)) return;
    node_id made = jacobian_node(d, slope, &x, false);
    if (!made) return;
    d->g->gone = 0;
    give(d, 0, made);
    look_for_gone(d);
}

/* `axes`: how often x's axes are there beside y's. */
static qn_tensor *matrix(derivative *d, int axes, void (*work)(void *)) {
    qn_tensor *made = NULL;
    d->n = d->m = d->outs = 1;
    d->out = &made;
    if (!(d->g = graph_of(d->call, 1, d->y))) return NULL;
    if (!check_float(d, "y", -1, d->y[0]) || !check_float(d, "x", -1, d->x[0])) return NULL;
    if (!check_constants(d)) return NULL;
    if (elements(d, "y", d->y[0]) < 0 || elements(d, "x", d->x[0]) < 0) return NULL;
    int rank = (axes == 1 ? qn_rank(d->y[0]) : 0) + axes * qn_rank(d->x[0]);
    if (rank > QN_MAX_RANK)
        return tensor_unfit("y", d->y[0], "x", d->x[0], "the result has %d axes, at most %d are",
                            rank, QN_MAX_RANK);
    return derive(d, work) ? NULL : made;
}

qn_tensor *qn_jacobian(qn_tensor *y, qn_tensor *x) {
    return matrix(&(derivative){.call = "jacobian", .y = &y, .x = &x}, 1, jacobian_run);
}

qn_tensor *qn_hessian(qn_tensor *y, qn_tensor *x) {
    return matrix(&(derivative){.call = "hessian", .y = &y, .x = &x}, 2, hessian_run);
}
