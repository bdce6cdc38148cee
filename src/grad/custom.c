/* custom.c - gradients that take a way of their own: given by the user, or by computing again.
 *
 * A STAND_IN has the value of its source and the gradient of another node, its `way`, of equal
 * shape. That is all that checkpointing takes: the way is what lies between inputs and result made
 * anew of APART inputs, which keep it from being the nodes that are there already. The gradient's
 * rules use its values, and nothing of the first computation is kept for them. When it is computed
 * is the planner's to say (plan/sequence.c): late, for nothing else waits for it.
 *
 * A gradient that is given is a graph, recorded once on placeholders, which are APART zeros: no
 * function is kept that would have to be called later, and no argument of one that would have to
 * live until then. A chain of CUSTOM nodes, one for each x, holds it behind a zero U of the size of
 * all results together; each result is a STAND_IN whose way is its piece of U. So what comes to U
 * is the gradients of all results at once, as a slope that is not linear in them needs, and each
 * CUSTOM gives its x the slope made anew with that in the placeholders' places. */
#include "grad/grad.h"

#include <stdio.h>

typedef struct custom {
    const char *call;
    int n, m;
    qn_tensor *const *y, *const *upstream, *const *x, *const *slope;
    qn_tensor **out, **result;
    int made;
    graph *g;
    arena arena;
} custom;

/* ---- what is given -------------------------------------------------------------------------- */

static bool check_list(const custom *d, const char *what, int n, qn_tensor *const *t, bool floats) {
    qn_ctx *qn = d->g->ctx;
    char name[32];
    if (n < 0 || (n > 0 && !t))
        return fail(qn, QN_ENULL, "%s: no list of %ss", d->call, what), false;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s %d", what, i);
        if (!tensor_of(qn, t[i], d->call, name)) return false;
        if (!floats || dtype_is_float(qn_dtype_of(t[i]))) continue;
        fail(qn, QN_EDTYPE, "%s: %s is %s; only floats have gradients", d->call, name,
             qn_dtype_name(qn_dtype_of(t[i])));
        return false;
    }
    return true;
}

static const graph_node *at(const custom *d, const qn_tensor *t) {
    return node_at(d->g, tensor_at(t)->node);
}

/* Has `given` the dtype and shape of t? */
static bool fits(const custom *d, const char *what, qn_tensor *given, const char *name,
                 qn_tensor *t) {
    const graph_node *a = at(d, given), *b = at(d, t);
    if (a->shape != b->shape) {
        tensor_unfit(what, given, name, t, "a %s has the shape of its %s", what, name);
        return false;
    }
    if (a->dtype == b->dtype) return true;
    fail(d->g->ctx, QN_EDTYPE, "%s: a %s of %s for a %s of %s", d->call, what,
         qn_dtype_name((qn_dtype)a->dtype), name, qn_dtype_name((qn_dtype)b->dtype));
    return false;
}

static bool check_placeholders(const custom *d) {
    if (!check_list(d, "placeholder", d->n, d->upstream, true)) return false;
    for (int k = 0; k < d->n; k++) {
        const graph_node *p = at(d, d->upstream[k]);
        bool nothing = p->op == OP_CONST && shape_is_empty(d->g, p->shape);
        if (!nothing && (p->op != OP_APART || (p->flags & NODE_REALIZED) || !p->bits)) {
            fail(d->g->ctx, QN_EARG, "%s: placeholder %d is none; qn_placeholder makes them",
                 d->call, k);
            return false;
        }
        if (!fits(d, "placeholder", d->upstream[k], "y", d->y[k])) return false;
        for (int i = 0; i < k && !nothing; i++)
            if (at(d, d->upstream[i]) == p)
                return fail(d->g->ctx, QN_EARG, "%s: placeholders %d and %d are one", d->call, i,
                            k),
                       false;
    }
    return true;
}

static bool check_slopes(const custom *d) {
    if (d->m && !d->slope)
        return fail(d->g->ctx, QN_ENULL, "%s: no list of slopes", d->call), false;
    for (int i = 0; i < d->m; i++) {
        char name[32];
        snprintf(name, sizeof name, "slope %d", i);
        if (!d->slope[i]) continue;
        if (!tensor_of(d->g->ctx, d->slope[i], d->call, name) ||
            !fits(d, "slope", d->slope[i], "x", d->x[i]))
            return false;
    }
    return true;
}

/* ---- how a call goes ------------------------------------------------------------------------ */

static bool custom_open(custom *d) {
    d->g = NULL;
    for (int k = 0; d->y && k < d->n && !d->g; k++)
        if (handle_is(d->y[k], HANDLE_TENSOR)) d->g = tensor_ctx(d->y[k])->graph;
    if (!d->g && d->y && d->n > 0) tensor_of(NULL, d->y[0], d->call, "y 0");
    if (!d->g) return false;
    if (!d->out) return fail(d->g->ctx, QN_ENULL, "%s: no place for results", d->call), false;
    return check_list(d, "y", d->n, d->y, true) && check_list(d, "x", d->m, d->x, true);
}

static qn_code refuse(custom *d) {
    for (int k = 0; d->out && k < d->n; k++) d->out[k] = NULL;
    if (!d->g) {
        qn_code code = d->y && d->n > 0 ? handle_code(d->y[0]) : QN_ENULL;
        return code ? code : QN_ENULL;
    }
    return d->g->ctx->code ? d->g->ctx->code : QN_EINTERNAL;
}

static qn_code custom_run(custom *d, void (*work)(void *)) {
    const char *func = d->g->func;
    if (!func) d->g->func = d->call;
    arena_open(&d->arena, &d->g->ctx->heap);
    guarded(d->g->ctx, work, d);
    graph_settle(d->g);
    d->g->func = func;
    bool done = d->made == d->n;
    for (int k = 0; k < d->made; k++) {
        if (done)
            d->out[k] = d->result[k];
        else
            tensor_forget(tensor_at(d->result[k]));
    }
    arena_free(&d->arena);
    return done ? QN_OK : refuse(d);
}

/* Results go to `out` when all are there, for it may be the list of arguments. */
static void give(custom *d, int k, node_id n) {
    if (!d->result) d->result = arena_zeroed(&d->arena, (size_t)d->n * sizeof *d->result);
    d->result[k] = tensor_make(d->g, n);
    d->made++;
}

/* y, whose gradient goes by `way`. */
static void give_by(custom *d, int k, node_id way) {
    node_id y = tensor_at(d->y[k])->node;
    give(d, k, way == y ? y : node_stand_in(d->g, y, way));
}

static node_id *nodes_of(custom *d, int n, qn_tensor *const *t) {
    node_id *node = arena_alloc(&d->arena, ((size_t)n + 1) * sizeof *node);
    for (int i = 0; i < n; i++) node[i] = t[i] ? tensor_at(t[i])->node : 0;
    return node;
}

/* ---- computing again ------------------------------------------------------------------------ */

static void checkpoint_work(void *arg) {
    custom *d = arg;
    node_id *y = nodes_of(d, d->n, d->y), *x = nodes_of(d, d->m, d->x);
    node_id *fresh = nodes_of(d, d->m, d->x), *way = nodes_of(d, d->n, d->y);
    for (int i = 0; i < d->m; i++) fresh[i] = make_apart(d->g, x[i]);
    graph_replace(d->g, &d->arena, &(replacing){d->m, d->n, x, fresh, y, way});
    for (int k = 0; k < d->n; k++) give_by(d, k, way[k]);
}

qn_code qn_checkpoint(int n, qn_tensor *const *ys, int m, qn_tensor *const *xs, qn_tensor **out) {
    custom d = {.call = "checkpoint", .n = n, .m = m, .y = ys, .x = xs, .out = out};
    return custom_open(&d) ? custom_run(&d, checkpoint_work) : refuse(&d);
}

/* ---- gradients that are given --------------------------------------------------------------- */

static void placeholder_work(void *arg) {
    custom *d = arg;
    const graph_node *y = at(d, d->y[0]);
    node_id zero = make_number(d->g, (qn_dtype)y->dtype, y->shape, 0);
    give(d, 0, make_apart(d->g, zero));
}

qn_tensor *qn_placeholder(qn_tensor *y) {
    qn_tensor *made = NULL;
    custom d = {.call = "placeholder", .n = 1, .y = &y, .out = &made};
    return custom_open(&d) && !custom_run(&d, placeholder_work) ? made : NULL;
}

/* Piece k of a vector of all: from `from` on, in y's shape and dtype. */
static node_id piece_of(const custom *d, node_id all, sym from, node_id y) {
    tuple_id shape = d->g->node[y].shape;
    int64_t p[3] = {from, shape_numel(d->g, shape), 1};
    if (d->n == 1) return all;
    node_id piece = make_reshape(d->g, make_slice(d->g, all, p), shape);
    return make_cast(d->g, piece, (qn_dtype)d->g->node[y].dtype);
}

/* The zero U that what comes to all results comes to. */
static node_id all_of(const custom *d, const node_id *y) {
    graph *g = d->g;
    qn_dtype dtype = (qn_dtype)g->node[y[0]].dtype;
    tuple_id shape = g->node[y[0]].shape;
    sym total = SYM_ZERO;
    for (int k = 0; k < d->n; k++) {
        dtype = dtype_promote(dtype, (qn_dtype)g->node[y[k]].dtype);
        total = sym_add(g->syms, total, shape_numel(g, g->node[y[k]].shape));
    }
    if (d->n > 1) shape = graph_tuple(g, 1, (int64_t[]){total});
    return make_apart(g, make_number(g, dtype, shape, 0));
}

static void custom_work(void *arg) {
    custom *d = arg;
    graph *g = d->g;
    node_id *y = nodes_of(d, d->n, d->y), *x = nodes_of(d, d->m, d->x);
    node_id *slope = nodes_of(d, d->m, d->slope), *upstream = nodes_of(d, d->n, d->upstream);
    node_id *piece = nodes_of(d, d->n, d->y), all = all_of(d, y), way = all;
    sym from = SYM_ZERO;
    for (int k = 0; k < d->n; k++) {
        piece[k] = piece_of(d, all, from, y[k]);
        from = sym_add(g->syms, from, shape_numel(g, g->node[y[k]].shape));
    }
    for (int i = 0; i < d->m; i++) {
        if (!slope[i]) continue;
        replacing r = {d->n, 1, upstream, piece, &slope[i], &slope[i]};
        graph_replace(g, &d->arena, &r);
        way = node_custom(g, way, x[i], slope[i]);
    }
    from = SYM_ZERO;
    for (int k = 0; k < d->n; k++) {
        give_by(d, k, piece_of(d, way, from, y[k]));
        from = sym_add(g->syms, from, shape_numel(g, g->node[y[k]].shape));
    }
}

qn_code qn_custom_gradient(int n, qn_tensor *const *ys, qn_tensor *const *placeholders, int m,
                           qn_tensor *const *xs, qn_tensor *const *slopes, qn_tensor **out) {
    custom d = {.call = "custom_gradient", .n = n, .m = m, .y = ys, .x = xs, .out = out};
    d.upstream = placeholders;
    d.slope = slopes;
    bool fits = custom_open(&d) && check_placeholders(&d) && check_slopes(&d);
    return fits ? custom_run(&d, custom_work) : refuse(&d);
}

node_id grad_given(const grad *c, const graph_node *x, node_id g) {
    node_id slope = x->src[2], all = x->src[0], out;
    while (c->g->node[all].op == OP_CUSTOM) all = c->g->node[all].src[0];
    graph_replace(c->g, c->a, &(replacing){1, 1, &all, &g, &slope, &out});
    return out;
}
