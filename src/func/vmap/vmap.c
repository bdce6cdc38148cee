/* vmap.c - a function of one example for many: what is checked, and where the axes are.
 *
 * What a user records of examples, arguments without a value, are nodes like any other; qn_vmap
 * makes them again with an axis of examples in front (graph/batch/examples.c). An input's axis is
 * brought to the front before, a result's taken from there behind, by movements. */
#include "func/func.h"
#include "graph/loop/loop.h"

typedef struct mapping {
    qn_ctx *qn;
    int n, m;
    qn_tensor *const *y, *const *example, *const *x;
    const int *in_axis, *out_axis; /* NULL: 0 */
    qn_tensor **out, **result;
    sym count;
    int first; /* the input that said how many examples there are */
    int made;
    arena arena;
} mapping;

static int in_axis(const mapping *d, int i) {
    return d->in_axis ? d->in_axis[i] : 0;
}

static int out_axis(const mapping *d, int k) {
    return d->out_axis ? d->out_axis[k] : 0;
}

static const graph_node *at(const mapping *d, const qn_tensor *t) {
    return node_at(d->qn->graph, tensor_at(t)->node);
}

/* `axis` of `rank`, counted from the end where it is negative; reports. */
static bool axis_of(const mapping *d, const char *what, int number, int axis, int rank, int *out) {
    *out = axis < 0 ? axis + rank : axis;
    if (*out >= 0 && *out < rank) return true;
    return fail(d->qn, QN_ERANGE, "vmap: %s %d: axis %d of rank %d", what, number, axis, rank),
           false;
}

/* ---- one example ----------------------------------------------------------------------------- */

typedef struct taking {
    qn_tensor *x, *made;
    int axis;
} taking;

static void example_work(void *arg) {
    taking *e = arg;
    graph *g = tensor_ctx(e->x)->graph;
    const graph_node x = *node_at(g, tensor_at(e->x)->node);
    int rank, n = 0;
    const int64_t *dims = graph_tuple_get(g, x.shape, &rank);
    int64_t v[QN_MAX_RANK];
    for (int i = 0; i < rank; i++)
        if (i != e->axis) v[n++] = dims[i];
    tuple_id shape = graph_tuple(g, n, v);
    e->made = tensor_make(
        g, make_loop_argument(g, ARGUMENT_EXAMPLE, ++g->serial, (qn_dtype)x.dtype, shape));
}

qn_tensor *qn_example(qn_tensor *x, int axis) {
    if (!tensor_of(NULL, x, "example", "x")) return NULL;
    taking e = {.x = x};
    qn_ctx *qn = tensor_ctx(x);
    if (!build_axis(x, "example", axis, &e.axis)) return NULL;
    guarded(qn, example_work, &e);
    graph_settle(qn->graph);
    return e.made;
}

/* ---- what is given --------------------------------------------------------------------------- */

/* Of an example without elements nothing follows: it is the constant that all such are. */
static bool check_example(const mapping *d, int i) {
    const graph_node *e = at(d, d->example[i]);
    if (e->op == OP_CONST && shape_numel_hi(d->qn->graph, e->shape) == 0) return true;
    if (e->op != OP_ARGUMENT || argument_kind(e) != ARGUMENT_EXAMPLE)
        return fail(d->qn, QN_EARG, "vmap: example %d is none; qn_example makes them", i), false;
    for (int k = 0; k < i; k++)
        if (at(d, d->example[k]) == e)
            return fail(d->qn, QN_EARG, "vmap: examples %d and %d are one", k, i), false;
    return true;
}

typedef struct misfit {
    const mapping *d;
    int input;
    sym size;
} misfit;

static void sizes_differ_work(void *arg) {
    const misfit *m = arg;
    graph *g = m->d->qn->graph;
    g->text.len = 0;
    str_addf(&g->text, "vmap: input %d has ", m->d->first);
    sym_print(g->syms, m->d->count, &g->text);
    str_addf(&g->text, " examples along its axis %d, and input %d has ", in_axis(m->d, m->d->first),
             m->input);
    sym_print(g->syms, m->size, &g->text);
    fail(m->d->qn, QN_ESHAPE, "%s along its axis %d", g->text.s, in_axis(m->d, m->input));
}

static void example_differs_work(void *arg) {
    const misfit *m = arg;
    graph *g = m->d->qn->graph;
    const graph_node *e = at(m->d, m->d->example[m->input]), *x = at(m->d, m->d->x[m->input]);
    g->text.len = 0;
    str_addf(&g->text, "vmap: example %d is %s", m->input, qn_dtype_name((qn_dtype)e->dtype));
    shape_text(g, e->shape, &g->text);
    str_addf(&g->text, ", and input %d is %s", m->input, qn_dtype_name((qn_dtype)x->dtype));
    shape_text(g, x->shape, &g->text);
    bool whole = in_axis(m->d, m->input) == QN_UNBATCHED;
    fail(m->d->qn, e->dtype != x->dtype ? QN_EDTYPE : QN_ESHAPE,
         whole ? "%s: one that is not batched is the example" : "%s with its axis %d", g->text.s,
         in_axis(m->d, m->input));
}

/* Is input i its example with an axis more, of as many places as those of others? */
static bool check_input(mapping *d, int i) {
    graph *g = d->qn->graph;
    const graph_node *e = at(d, d->example[i]), *x = at(d, d->x[i]);
    int rank, few, axis = -1;
    const int64_t *dims = graph_tuple_get(g, x->shape, &rank),
                  *one = graph_tuple_get(g, e->shape, &few);
    bool whole = in_axis(d, i) == QN_UNBATCHED;
    if (!whole && !axis_of(d, "input", i, in_axis(d, i), rank, &axis)) return false;
    bool same = e->dtype == x->dtype && rank == few + !whole;
    for (int k = 0; same && k < few; k++) same = one[k] == dims[k + (!whole && k >= axis)];
    misfit m = {d, i, whole ? d->count : (sym)dims[axis]};
    if (!same) return guarded(d->qn, example_differs_work, &m), false;
    if (whole) return true;
    if (d->first < 0) d->first = i, d->count = m.size;
    if (m.size == d->count) return true;
    return guarded(d->qn, sizes_differ_work, &m), false;
}

static bool check_mapping(mapping *d) {
    qn_ctx *qn = d->qn;
    if (d->n < 0 || d->m < 0 || (d->n && (!d->y || !d->out)) || (d->m && (!d->example || !d->x)))
        return fail(qn, QN_ENULL, "vmap: no list of %s",
                    !d->y     ? "results"
                    : !d->out ? "places for results"
                    : d->x    ? "examples"
                              : "inputs"),
               false;
    if (!tensors_of(qn, d->n, d->y, "vmap", "y") ||
        !tensors_of(qn, d->m, d->example, "vmap", "example") ||
        !tensors_of(qn, d->m, d->x, "vmap", "input"))
        return false;
    for (int i = 0; i < d->m; i++)
        if (!check_example(d, i) || !check_input(d, i)) return false;
    if (d->first < 0) return fail(qn, QN_EARG, "vmap: no input has an axis of examples"), false;
    for (int k = 0; k < d->n; k++) {
        int rank = qn_rank(d->y[k]), axis;
        if (out_axis(d, k) == QN_UNBATCHED) continue;
        if (rank >= QN_MAX_RANK)
            return fail(qn, QN_ESHAPE, "vmap: result %d has rank %d, and no room for an axis more",
                        k, rank),
                   false;
        if (!axis_of(d, "result", k, out_axis(d, k), rank + 1, &axis)) return false;
    }
    return true;
}

/* ---- the work -------------------------------------------------------------------------------- */

/* x with axis `from` at `to`, the others in their order. */
static node_id moved(graph *g, node_id x, int from, int to) {
    int axes[QN_MAX_RANK], n = 0, rank = node_rank(g, x);
    for (int i = 0; i < rank; i++) {
        if (n == from) n++;
        axes[i] = i == to ? from : n++;
    }
    return from == to ? x : make_permute(g, x, axes);
}

static node_id input(const mapping *d, int i) {
    graph *g = d->qn->graph;
    node_id x = tensor_at(d->x[i])->node;
    int axis = in_axis(d, i);
    if (axis == QN_UNBATCHED) {
        if (node_rank(g, x) >= QN_MAX_RANK)
            raise_error(g->ctx, QN_ESHAPE, "vmap: input %d has rank %d, and no room for an axis", i,
                        QN_MAX_RANK);
        return batch_same(g, x, d->count);
    }
    return moved(g, x, axis < 0 ? axis + node_rank(g, x) : axis, 0);
}

static node_id output(const mapping *d, int k, node_id all) {
    graph *g = d->qn->graph;
    int axis = out_axis(d, k);
    node_id y = tensor_at(d->y[k])->node;
    if (axis == QN_UNBATCHED) {
        if (!all) return y;
        raise_error(g->ctx, QN_EGRAPH, "vmap: result %d follows an example, and is not batched", k);
    }
    if (!all) all = batch_same(g, y, d->count);
    return moved(g, all, 0, axis < 0 ? axis + node_rank(g, all) : axis);
}

static void map_work(void *arg) {
    mapping *d = arg;
    graph *g = d->qn->graph;
    arena *a = &d->arena;
    node_id *from = arena_alloc(a, ((size_t)d->m + 1) * sizeof *from);
    node_id *to = arena_alloc(a, ((size_t)d->m + 1) * sizeof *to);
    node_id *root = arena_alloc(a, ((size_t)d->n + 1) * sizeof *root);
    node_id *all = arena_zeroed(a, ((size_t)d->n + 1) * sizeof *all);
    for (int i = 0; i < d->m; i++) {
        from[i] = tensor_at(d->example[i])->node;
        to[i] = input(d, i);
    }
    for (int k = 0; k < d->n; k++) root[k] = tensor_at(d->y[k])->node;
    graph_batch(g, a, &(batching){d->count, d->m, d->n, from, to, root, all});
    for (int k = 0; k < d->n; k++) all[k] = output(d, k, all[k]);
    d->result = arena_zeroed(a, ((size_t)d->n + 1) * sizeof *d->result);
    for (; d->made < d->n; d->made++) d->result[d->made] = tensor_make(g, all[d->made]);
}

/* Results go to `out` when all are there, for it may be the list of arguments. */
static qn_code map_close(mapping *d) {
    bool done = d->result && d->made == d->n;
    for (int k = 0; k < d->made; k++) {
        if (done)
            d->out[k] = d->result[k];
        else
            tensor_forget(tensor_at(d->result[k]));
    }
    for (int k = 0; !done && d->out && k < d->n; k++) d->out[k] = NULL;
    return done ? QN_OK : d->qn->code ? (int)d->qn->code : QN_EINTERNAL;
}

qn_code qn_vmap(int n, qn_tensor *const *ys, const int *out_axes, int m, qn_tensor *const *examples,
                qn_tensor *const *xs, const int *in_axes, qn_tensor **out) {
    mapping d = {.n = n, .m = m, .y = ys, .example = examples, .x = xs, .first = -1};
    d.in_axis = in_axes;
    d.out_axis = out_axes;
    d.out = out;
    for (int i = 0; ys && i < n && !d.qn; i++)
        if (handle_is(ys[i], HANDLE_TENSOR)) d.qn = tensor_ctx(ys[i]);
    if (!d.qn) {
        if (ys && n > 0) tensor_of(NULL, ys[0], "vmap", "y 0");
        for (int k = 0; out && k < n; k++) out[k] = NULL;
        qn_code code = ys && n > 0 ? handle_code(ys[0]) : QN_ENULL;
        return code ? code : QN_ENULL;
    }
    graph *g = d.qn->graph;
    if (!check_mapping(&d)) return map_close(&d);
    const char *func = g->func;
    if (!func) g->func = "vmap";
    arena_open(&d.arena, &d.qn->heap);
    guarded(d.qn, map_work, &d);
    graph_settle(g);
    g->func = func;
    qn_code code = map_close(&d);
    arena_free(&d.arena);
    return code;
}
