/* build.c - the checked constructors: from the user's tensors to a node, or an error that says why.
 *
 * Every constructor has the same two halves. The first, build_x(), looks at what needs no graph (a
 * NULL, a handle that was released, tensors of two contexts) and packs its arguments. The second,
 * x_node(), checks types and shapes against each other, reports what does not fit by returning 0
 * after fail(), and makes the nodes. It runs under the one guard, in build_run(), which also
 * collects what was made in vain and turns sizes beyond 64 bits into an error.
 *
 * Promotion and broadcasting are written into the graph as CAST, RESHAPE and EXPAND nodes, so that
 * no later stage knows about them. */
#include "graph/graph.h"
#include "graph/view/view.h"

typedef struct build_args {
    graph *g;
    const char *name;       /* of the operation, for errors */
    const char *const *arg; /* of the tensors; NULL: x, y, z */
    int op, n;
    node_id x[3];
    qn_dtype dtype;
    tuple_id shape;
    scalar value;
    int axis, row; /* row: of monoids.h */
    bool reverse;
    bool keep, bits;
    int axes_given; /* how many numbers or groups of them the caller gave */
    uint32_t mask;
    const int *axes;
    const call_attr *call;
    const int64_t *p; /* three numbers for each axis */
    const window_attr *window;
} build_args;

typedef node_id (*build_node)(graph *g, const build_args *a);

/* ---- what all constructors share ------------------------------------------------------------ */

/* Why build_enter() refuses. An error is reported where there is a context to hold it, and NULL is
 * not news where one is recorded already. */
static bool build_refuse(const build_args *a, int n, qn_tensor *const *x) {
    static const char *const usual[3] = {"x", "y", "z"};
    const char *const *arg = a->arg ? a->arg : usual;
    qn_ctx *qn = NULL;
    for (int i = 0; i < n && !qn; i++)
        if (handle_is(x[i], HANDLE_TENSOR)) qn = tensor_ctx(x[i]);
    const char *name = qn ? graph_name(qn, a->name) : a->name;
    for (int i = 0; i < n; i++) {
        if (!x[i] && qn && qn->code) return false;
        if (!tensor_of(qn, x[i], name, arg[i])) return false;
    }
    return false;
}

/* Put the inputs into `a`, and the graph they live in: each handle is looked at once. */
static inline bool build_enter(build_args *a, int n, qn_tensor *const *x) {
    qn_ctx *qn = NULL;
    for (int i = 0; i < n; i++) {
        if (!handle_is(x[i], HANDLE_TENSOR)) return build_refuse(a, n, x);
        const tensor *t = (const tensor *)handle_at(x[i]);
        if (i && t->h.ctx != qn) return build_refuse(a, n, x);
        qn = t->h.ctx;
        a->x[i] = t->node;
    }
    a->g = qn->graph;
    a->name = graph_name(qn, a->name);
    a->n = n;
    return true;
}

typedef struct building {
    const build_args *a;
    build_node make;
    qn_tensor *made;
} building;

static void build_work(void *arg) {
    building *b = arg;
    graph *g = b->a->g;
    node_id n = b->make(g, b->a);
    if (sym_overflowed(g->syms))
        fail(g->ctx, QN_ERANGE, "%s: sizes beyond 2^63", b->a->name);
    else if (n)
        b->made = tensor_make(g, n);
}

static qn_tensor *build_run(const build_args *a, build_node make) {
    building b = {a, make, NULL};
    guarded(a->g->ctx, build_work, &b);
    graph_settle(a->g);
    return b.made;
}

/* Of what shows places of x. */
static qn_tensor *build_view(const build_args *a, const qn_tensor *x, build_node make) {
    qn_tensor *made = build_run(a, make);
    if (made) view_made_of(tensor_at(made), tensor_at(x));
    return made;
}

static qn_dtype type_of(const graph *g, node_id x) {
    return (qn_dtype)g->node[x].dtype;
}

static const char *type_name(const graph *g, node_id x) {
    return qn_dtype_name(type_of(g, x));
}

/* Report "<name>: <text with the shapes of up to two nodes in place of %s>". */
static node_id fail_shapes(graph *g, const char *name, node_id x, const char *between, tuple_id y,
                           const char *after) {
    g->text.len = 0;
    str_addf(&g->text, "%s: ", name);
    shape_text(g, g->node[x].shape, &g->text);
    str_add(&g->text, between);
    shape_text(g, y, &g->text);
    str_add(&g->text, after);
    fail(g->ctx, QN_ESHAPE, "%s", g->text.s);
    return 0;
}

static node_id fail_axis(graph *g, const char *name, node_id x, int axis, const char *what) {
    g->text.len = 0;
    str_addf(&g->text, "%s: on axis %d of ", name, axis);
    shape_text(g, g->node[x].shape, &g->text);
    str_addf(&g->text, ": %s", what);
    fail(g->ctx, QN_ERANGE, "%s", g->text.s);
    return 0;
}

static bool check_fits(graph *g, const char *name, tuple_id shape) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    if (shape_fits(g, rank, dims)) return true;
    g->text.len = 0;
    str_addf(&g->text, "%s: ", name);
    shape_text(g, shape, &g->text);
    fail(g->ctx, QN_ERANGE, "%s has more than 2^63 elements", g->text.s);
    return false;
}

bool build_axis(const qn_tensor *x, const char *op, int axis, int *out) {
    if (!x || !tensor_of(NULL, x, op, "x")) return false;
    int rank = qn_rank(x);
    if (axis < -rank || axis >= rank) {
        fail(tensor_ctx(x), QN_ERANGE, "%s: axis %d of a tensor of rank %d", op, axis, rank);
        return false;
    }
    *out = axis < 0 ? axis + rank : axis;
    return true;
}

/* ---- elementwise ---------------------------------------------------------------------------- */

static const char *const takes[] = {
    [TYPES_NONE] = "nothing", [TYPES_FLOAT] = "numbers",          [TYPES_NUM] = "numbers",
    [TYPES_INT] = "integers", [TYPES_BITS] = "bools or integers", [TYPES_ANY] = "anything",
    [TYPES_CMP] = "anything", [TYPES_SELECT] = "anything",        [TYPES_TO] = "anything",
};

static bool fail_types(graph *g, const build_args *a) {
    g->text.len = 0;
    for (int i = 0; i < a->n; i++) str_addf(&g->text, "%s%s", i ? ", " : "", type_name(g, a->x[i]));
    fail(g->ctx, QN_EDTYPE, "%s: takes %s, not %s", a->name, takes[op_rows[a->op].types],
         g->text.s);
    return false;
}

/* The dtype the sources are brought to. */
static bool elem_type(graph *g, const build_args *a, qn_dtype *out) {
    int first = op_rows[a->op].types == TYPES_SELECT;
    qn_dtype d = type_of(g, a->x[first]);
    for (int i = first + 1; i < a->n; i++) {
        if (!dtype_may_meet(g, a->x[first], a->x[i])) return false;
        d = dtype_promote(d, type_of(g, a->x[i]));
    }
    *out = d;
    switch (op_rows[a->op].types) {
    case TYPES_FLOAT:
        if (!dtype_is_float(d)) *out = QN_F32;
        return true;
    case TYPES_NUM:
        return d != QN_BOOL || fail_types(g, a);
    case TYPES_INT:
        return dtype_is_int(d) || fail_types(g, a);
    case TYPES_BITS:
        return !dtype_is_float(d) || fail_types(g, a);
    case TYPES_SELECT:
        return true; /* a condition that is no bool: not 0 */
    default:
        return true;
    }
}

/* Arguments that nothing has to be done to: they are of one dtype and shape, which the operation
 * takes as it is. */
static bool elem_fits(const graph *g, const build_args *a) {
    const graph_node *x = &g->node[a->x[0]];
    bool same = true;
    for (int i = 1; i < a->n; i++)
        same &= g->node[a->x[i]].dtype == x->dtype && g->node[a->x[i]].shape == x->shape;
    int types = op_rows[a->op].types;
    return same && (types == TYPES_FLOAT || types == TYPES_NUM) && dtype_is_float(x->dtype);
}

static node_id not_zero(graph *g, node_id x) {
    qn_dtype d = type_of(g, x);
    return make2(g, OP_NE, x, make_number(g, d, g->node[x].shape, 0));
}

static node_id elem_node(graph *g, const build_args *a) {
    qn_dtype dtype;
    const graph_node *first = &g->node[a->x[0]];
    if (elem_fits(g, a))
        return node_make(g, (node_form){a->op, (qn_dtype)first->dtype, first->shape, 0, 0}, a->n,
                         a->x);
    if (!elem_type(g, a, &dtype)) return 0;
    tuple_id shape = g->node[a->x[0]].shape;
    for (int i = 1; i < a->n; i++) {
        tuple_id other = g->node[a->x[i]].shape, wider;
        if (other == shape) continue;
        if (!shape_broadcast(g, shape, other, &wider)) {
            node_id failing = a->x[i - 1]; /* of three, the two that met last */
            if (g->node[failing].shape != shape && i > 1) failing = a->x[0];
            return fail_shapes(g, a->name, failing, " and ", other, " do not broadcast");
        }
        if (wider != shape && wider != other && !check_fits(g, a->name, wider)) return 0;
        shape = wider;
    }
    node_id x[3];
    for (int i = 0; i < a->n; i++) {
        bool condition = i == 0 && op_rows[a->op].types == TYPES_SELECT;
        x[i] = a->x[i];
        if (!condition && type_of(g, x[i]) != dtype) x[i] = make_cast(g, x[i], dtype);
        if (condition && type_of(g, x[i]) != QN_BOOL) x[i] = not_zero(g, x[i]);
        if (g->node[x[i]].shape != shape) x[i] = make_broadcast(g, x[i], shape);
    }
    if (op_rows[a->op].types == TYPES_CMP) dtype = QN_BOOL;
    return node_make(g, (node_form){a->op, dtype, shape, 0, 0}, a->n, x);
}

/* The commonest constructor; clearing all arguments would be a twelfth of its time. */
qn_tensor *build_elem(int op, int n, qn_tensor *const *x) {
    build_args a;
    a.name = op_rows[op].name;
    a.arg = NULL;
    a.op = op;
    return build_enter(&a, n, x) ? build_run(&a, elem_node) : NULL;
}

static node_id cast_node(graph *g, const build_args *a) {
    if (!a->bits) return make_cast(g, a->x[0], a->dtype);
    if (qn_dtype_size(a->dtype) != qn_dtype_size(type_of(g, a->x[0]))) {
        fail(g->ctx, QN_EDTYPE, "%s: %s and %s differ in size", a->name, type_name(g, a->x[0]),
             qn_dtype_name(a->dtype));
        return 0;
    }
    if (a->dtype != QN_BOOL || type_of(g, a->x[0]) == QN_BOOL)
        return make_bitcast(g, a->x[0], a->dtype);
    return not_zero(g, a->x[0]); /* a bool has two values, a byte 256 */
}

static bool check_dtype(qn_ctx *qn, const char *name, qn_dtype dtype) {
    return dtype_is_known((int)dtype) || dtype_refuse(qn, name, (int)dtype);
}

qn_tensor *build_cast(qn_tensor *x, qn_dtype dtype, bool bits) {
    build_args a = {.name = bits ? "bitcast" : "cast", .dtype = dtype, .bits = bits};
    if (!build_enter(&a, 1, &x) || !check_dtype(tensor_ctx(x), a.name, dtype)) return NULL;
    return build_run(&a, cast_node);
}

qn_tensor *build_mark(int op, qn_tensor *x) {
    return build_elem(op, 1, &x);
}

static node_id apart_node(graph *g, const build_args *a) {
    return make_apart(g, a->x[0]);
}

qn_tensor *build_apart(qn_tensor *x) {
    build_args a = {.name = graph_name(tensor_ctx(x), "variable")};
    return build_enter(&a, 1, &x) ? build_run(&a, apart_node) : NULL;
}

/* ---- leaves --------------------------------------------------------------------------------- */

static node_id const_node(graph *g, const build_args *a) {
    return make_const(g, a->dtype, a->shape, a->value);
}

qn_tensor *build_const(qn_ctx *qn, qn_dtype dtype, tuple_id shape, scalar value) {
    if (!qn) return NULL;
    build_args a = {.g = qn->graph, .dtype = dtype, .shape = shape, .value = value};
    a.name = graph_name(qn, "const");
    return check_dtype(qn, a.name, dtype) ? build_run(&a, const_node) : NULL;
}

static node_id iota_node(graph *g, const build_args *a) {
    return make_iota(g, a->dtype, a->shape, a->axis);
}

qn_tensor *build_iota(qn_ctx *qn, qn_dtype dtype, tuple_id shape, int axis) {
    if (!qn) return NULL;
    build_args a = {.g = qn->graph, .dtype = dtype, .shape = shape};
    a.name = graph_name(qn, "iota");
    if (!check_dtype(qn, a.name, dtype)) return NULL;
    if (dtype == QN_BOOL) return fail_null(qn, QN_EDTYPE, "%s: numbers, not bool", a.name);
    int rank;
    graph_tuple_get(qn->graph, shape, &rank);
    if (axis < -rank || axis >= rank)
        return fail_null(qn, QN_ERANGE, "%s: axis %d of a shape of rank %d", a.name, axis, rank);
    a.axis = axis < 0 ? axis + rank : axis;
    return build_run(&a, iota_node);
}

/* ---- movement ------------------------------------------------------------------------------- */

static node_id reshape_node(graph *g, const build_args *a) {
    if (shape_numel(g, g->node[a->x[0]].shape) != shape_numel(g, a->shape))
        return fail_shapes(g, a->name, a->x[0], " has not as many elements as ", a->shape, "");
    return make_reshape(g, a->x[0], a->shape);
}

qn_tensor *build_reshape(qn_tensor *x, tuple_id shape) {
    build_args a = {.name = "reshape", .shape = shape};
    return build_enter(&a, 1, &x) ? build_view(&a, x, reshape_node) : NULL;
}

static node_id expand_node(graph *g, const build_args *a) {
    tuple_id wider;
    if (!shape_broadcast(g, g->node[a->x[0]].shape, a->shape, &wider) || wider != a->shape)
        return fail_shapes(g, a->name, a->x[0], " does not expand to ", a->shape, "");
    return check_fits(g, a->name, wider) ? make_broadcast(g, a->x[0], wider) : 0;
}

qn_tensor *build_expand(qn_tensor *x, tuple_id shape) {
    build_args a = {.name = "expand", .shape = shape};
    return build_enter(&a, 1, &x) ? build_run(&a, expand_node) : NULL;
}

static node_id permute_node(graph *g, const build_args *a) {
    int rank = node_rank(g, a->x[0]), p[QN_MAX_RANK];
    if (a->axes_given != rank) {
        fail(g->ctx, QN_ESHAPE, "%s: %d axes for a tensor of rank %d", a->name, a->axes_given,
             rank);
        return 0;
    }
    uint32_t seen = 0;
    for (int i = 0; i < rank; i++) {
        p[i] = a->axes[i] < 0 ? a->axes[i] + rank : a->axes[i];
        if (p[i] < 0 || p[i] >= rank || (seen >> p[i] & 1)) {
            fail(g->ctx, QN_ERANGE, "%s: axis %d is out of range or there twice", a->name,
                 a->axes[i]);
            return 0;
        }
        seen |= 1u << p[i];
    }
    return make_permute(g, a->x[0], p);
}

qn_tensor *build_permute(qn_tensor *x, int n, const int *axes) {
    build_args a = {.name = "permute", .axes_given = n, .axes = axes};
    if (!build_enter(&a, 1, &x)) return NULL;
    if (n > 0 && !axes) return fail_null(tensor_ctx(x), QN_ENULL, "%s: the axes are NULL", a.name);
    return build_view(&a, x, permute_node);
}

static bool check_rank(graph *g, const char *name, node_id x, int rank) {
    if (rank == node_rank(g, x)) return true;
    fail(g->ctx, QN_ESHAPE, "%s: numbers for %d axes, but the tensor's rank is %d", name, rank,
         node_rank(g, x));
    return false;
}

static node_id pad_node(graph *g, const build_args *a) {
    node_id x = a->x[0];
    if (!check_rank(g, a->name, x, a->axes_given)) return 0;
    for (int i = 0; i < a->axes_given; i++) {
        const int64_t *p = a->p + 3 * i;
        if (sym_lo(g->syms, (sym)p[0]) < 0 || sym_lo(g->syms, (sym)p[1]) < 0 || p[2] < 0)
            return fail_axis(g, a->name, x, i, "negative padding");
    }
    node_id n = make_pad(g, x, a->p);
    return check_fits(g, a->name, g->node[n].shape) ? n : 0;
}

qn_tensor *build_pad(qn_tensor *x, int rank, const int64_t *lo_hi_interior) {
    build_args a = {.name = "pad", .axes_given = rank, .p = lo_hi_interior};
    return build_enter(&a, 1, &x) ? build_run(&a, pad_node) : NULL;
}

/* Is 0 <= start and start + (size-1)*step < dim, or size = 0, whatever the variables' values? */
static bool slice_inside(sym_store *s, sym dim, sym start, sym size, int64_t step) {
    if (sym_lo(s, start) < 0 || sym_lo(s, size) < 0) return false;
    if (size == SYM_ZERO) return sym_lo(s, sym_sub(s, dim, start)) >= 0;
    sym last = sym_add(s, start, sym_scale(s, sym_sub(s, size, SYM_ONE), step));
    return sym_lo(s, sym_sub(s, sym_sub(s, dim, SYM_ONE), last)) >= 0;
}

static node_id slice_node(graph *g, const build_args *a) {
    node_id x = a->x[0];
    if (!check_rank(g, a->name, x, a->axes_given)) return 0;
    int rank;
    const int64_t *dims = node_dims(g, x, &rank);
    for (int i = 0; i < rank; i++) {
        const int64_t *p = a->p + 3 * i;
        if (p[2] < 1) return fail_axis(g, a->name, x, i, "a step below 1");
        if (!slice_inside(g->syms, (sym)dims[i], (sym)p[0], (sym)p[1], p[2]))
            return fail_axis(g, a->name, x, i, "the slice does not lie inside");
    }
    return make_slice(g, x, a->p);
}

qn_tensor *build_slice(qn_tensor *x, int rank, const int64_t *start_size_step) {
    build_args a = {.name = "slice", .axes_given = rank, .p = start_size_step};
    return build_enter(&a, 1, &x) ? build_view(&a, x, slice_node) : NULL;
}

/* The attributes given, checked as far as x's axes go. */
static bool check_window(graph *g, const build_args *a, window_attr *w) {
    *w = *a->window;
    if (a->keep) w->start = sym_sub(g->syms, SYM_ZERO, w->start);
    int rank = node_rank(g, a->x[0]);
    if (w->axis < 0 || w->axis >= rank || w->by < 0 || w->by >= rank || w->axis == w->by)
        return fail(g->ctx, QN_ERANGE, "%s: axes %d and %d of rank %d", a->name, w->axis, w->by,
                    rank),
               false;
    if (w->stride < 1 || !w->slope)
        return fail_axis(g, a->name, a->x[0], w->axis, "a stride below 1 or a slope of 0"), false;
    if (sym_lo(g->syms, w->size) < 0 || sym_lo(g->syms, w->length) < 0)
        return fail_axis(g, a->name, a->x[0], w->axis, "a size below 0"), false;
    return true;
}

static node_id window_node(graph *g, const build_args *a) {
    node_id x = a->x[0];
    window_attr w;
    if (!check_window(g, a, &w)) return 0;
    int rank;
    const int64_t *dims = node_dims(g, x, &rank);
    if (dims[w.by] != w.length && dims[w.by] != SYM_ONE)
        return fail_axis(g, a->name, x, w.by, "neither of size 1 nor of the windows' length");
    node_id n = make_window(g, x, &w);
    return check_fits(g, a->name, g->node[n].shape) ? n : 0;
}

qn_tensor *build_window(qn_tensor *x, const window_attr *w, bool before) {
    build_args a = {.name = "window", .window = w, .keep = before};
    return build_enter(&a, 1, &x) ? build_run(&a, window_node) : NULL;
}

static node_id unwindow_node(graph *g, const build_args *a) {
    window_attr w;
    if (!check_window(g, a, &w)) return 0;
    int rank;
    const int64_t *dims = node_dims(g, a->x[0], &rank);
    if (dims[w.axis] != w.size || dims[w.by] != w.length)
        return fail_axis(g, a->name, a->x[0], w.axis, "windows of another number or length");
    return make_unwindow(g, a->x[0], &w, (sym)a->shape, true);
}

qn_tensor *build_unwindow(qn_tensor *t, const window_attr *w, bool before, sym n) {
    build_args a = {.name = "window", .window = w, .keep = before, .shape = n};
    return build_enter(&a, 1, &t) ? build_run(&a, unwindow_node) : NULL;
}

static bool check_mask(graph *g, const build_args *a) {
    if (a->mask >> node_rank(g, a->x[0]) == 0) return true;
    fail(g->ctx, QN_ERANGE, "%s: an axis beyond rank %d", a->name, node_rank(g, a->x[0]));
    return false;
}

static node_id flip_node(graph *g, const build_args *a) {
    return check_mask(g, a) ? make_flip(g, a->x[0], a->mask) : 0;
}

qn_tensor *build_flip(qn_tensor *x, uint32_t axis_mask) {
    build_args a = {.name = "flip", .mask = axis_mask};
    return build_enter(&a, 1, &x) ? build_view(&a, x, flip_node) : NULL;
}

/* ---- reductions ----------------------------------------------------------------------------- */

/* The index of the largest of nothing does not exist. */
static bool check_not_empty(graph *g, const build_args *a) {
    int rank;
    const int64_t *dims = node_dims(g, a->x[0], &rank);
    for (int i = 0; i < rank; i++) {
        if (!(a->mask >> i & 1) || dims[i] != SYM_ZERO) continue;
        fail(g->ctx, QN_ESHAPE, "%s: axis %d is empty", a->name, i);
        return false;
    }
    return true;
}

static node_id reduce_node(graph *g, const build_args *a) {
    node_id x = a->x[0];
    if (!check_mask(g, a)) return 0;
    if (op_rows[a->op].types == TYPES_NUM && type_of(g, x) == QN_BOOL) return fail_types(g, a), 0;
    if (op_rows[a->op].types == TYPES_TO && !check_not_empty(g, a)) return 0;
    node_id n = make_reduce(g, a->op, x, a->mask);
    if (!a->keep) return n;
    return make_reshape(g, n, reduced_shape(g, g->node[x].shape, a->mask, true));
}

qn_tensor *build_reduce(int op, qn_tensor *x, uint32_t axis_mask, bool keepdims) {
    build_args a = {.name = op_rows[op].name, .op = op, .mask = axis_mask, .keep = keepdims};
    return build_enter(&a, 1, &x) ? build_run(&a, reduce_node) : NULL;
}

/* ---- computed indices ----------------------------------------------------------------------- */

/* index: integers, of x's shape but along the axis. */
static bool check_index(graph *g, const build_args *a) {
    node_id x = a->x[0], index = a->x[1];
    if (!dtype_is_int(type_of(g, index))) {
        fail(g->ctx, QN_EDTYPE, "%s: indices are integers, not %s", a->name, type_name(g, index));
        return false;
    }
    int rank, other;
    const int64_t *dims = node_dims(g, x, &rank), *at = node_dims(g, index, &other);
    bool fits = rank == other;
    for (int i = 0; fits && i < rank; i++) fits = i == a->axis || dims[i] == at[i];
    if (!fits)
        fail_shapes(g, a->name, x, " and indices ", g->node[index].shape,
                    " differ on more than the axis");
    return fits;
}

/* An index that is known must lie in its axis; another one is checked when it is computed, under
 * QN_CHECK. 0 after an error. */
static node_id as_index(graph *g, const char *name, node_id index, sym size) {
    const graph_node *x = node_at(g, index);
    int64_t most = sym_hi(g->syms, size), last = -1;
    int rank, count;
    const int64_t *dims = node_dims(g, index, &rank);
    for (int i = 0; i < rank; i++)
        if (sym_lo(g->syms, (sym)dims[i]) < 1) return index; /* perhaps there is none */
    if (x->op == OP_CONST) last = scalar_from_bits((qn_dtype)x->dtype, x->bits).i;
    if (x->op == OP_IOTA)
        last = sym_lo(g->syms, (sym)dims[graph_tuple_get(g, x->attr, &count)[0]]) - 1;
    bool known = x->op == OP_CONST || x->op == OP_IOTA;
    if (known && (last < 0 || last >= most)) {
        if (dtype_is_unsigned(x->dtype))
            fail(g->ctx, QN_ERANGE, "%s: index %llu of an axis of %lld", name,
                 (unsigned long long)last, (long long)most);
        else
            fail(g->ctx, QN_ERANGE, "%s: index %lld of an axis of %lld", name, (long long)last,
                 (long long)most);
        return 0;
    }
    bool check = g->ctx->knob[KNOB_CHECK].number != 0 && x->op != OP_CONST;
    return check ? make_checked(g, index, size, name) : index;
}

static node_id index_node(graph *g, const build_args *a) {
    return as_index(g, a->name, a->x[0], (sym)a->shape);
}

qn_tensor *build_index(qn_tensor *index, int64_t size) {
    build_args a = {.name = "index"};
    int64_t dim;
    if (!build_enter(&a, 1, &index) || !dims_from_user(tensor_ctx(index), "index", 1, &size, &dim))
        return NULL;
    a.shape = (tuple_id)dim;
    return build_run(&a, index_node);
}

static node_id gather_node(graph *g, const build_args *a) {
    int rank;
    if (!check_index(g, a)) return 0;
    sym size = (sym)node_dims(g, a->x[0], &rank)[a->axis];
    node_id index = as_index(g, a->name, a->x[1], size);
    return index ? make_gather(g, a->x[0], index, a->axis) : 0;
}

qn_tensor *build_gather(qn_tensor *x, qn_tensor *index, int axis) {
    qn_tensor *const both[2] = {x, index};
    build_args a = {.name = "gather", .arg = (const char *const[]){"x", "index"}};
    if (!build_enter(&a, 2, both) || !build_axis(x, a.name, axis, &a.axis)) return NULL;
    return build_run(&a, gather_node);
}

/* ---- scans ---------------------------------------------------------------------------------- */

static node_id scan_node(graph *g, const build_args *a) {
    node_id x = a->x[0], y = a->n > 1 ? a->x[1] : 0;
    if (!types_fit(monoid_rows[a->row].types, type_of(g, x)))
        return fail(g->ctx, QN_EDTYPE, "%s: of %s", a->name, type_name(g, x)), 0;
    if (y && (type_of(g, y) != type_of(g, x) || g->node[y].shape != g->node[x].shape))
        return fail_shapes(g, a->name, x, " and ", g->node[y].shape, " are to be alike");
    return make_scan(g, x, y, (scan_attr){a->row, a->axis, a->reverse});
}

qn_tensor *build_scan(qn_tensor *x, qn_tensor *y, scan_attr s) {
    qn_tensor *const both[2] = {x, y};
    build_args a = {.name = "scan", .row = s.monoid, .axis = s.axis, .reverse = s.reverse};
    return build_enter(&a, y ? 2 : 1, both) ? build_run(&a, scan_node) : NULL;
}

/* May elements of this dtype be combined by this monoid? */
static bool scatter_takes(int row, qn_dtype dtype) {
    switch (row) {
    case MONOID_SET:
    case MONOID_MAX:
    case MONOID_MIN:
        return true;
    case MONOID_SUM:
    case MONOID_PROD:
        return dtype != QN_BOOL;
    case MONOID_AND:
    case MONOID_OR:
        return !dtype_is_float(dtype);
    default:
        return false;
    }
}

static node_id call_node(graph *g, const build_args *a) {
    return make_call(g, a->call, a->dtype, a->shape, a->n, a->x);
}

qn_tensor *build_call(const call_attr *call, qn_dtype dtype, tuple_id shape, int n,
                      qn_tensor *const *x) {
    build_args a = {
        .name = routine_rows[call->routine].name, .call = call, .dtype = dtype, .shape = shape};
    return build_enter(&a, n, x) ? build_run(&a, call_node) : NULL;
}

static node_id scatter_node(graph *g, const build_args *a) {
    node_id x = a->x[0], index = a->x[1], src = a->x[2];
    qn_dtype dtype = type_of(g, x);
    if (!check_index(g, a)) return 0;
    if (g->node[index].shape != g->node[src].shape)
        return fail_shapes(g, a->name, index, " indices for elements of ", g->node[src].shape, "");
    if (!dtype_may_meet(g, x, src)) return 0;
    if (dtype_promote(dtype, type_of(g, src)) != dtype || !scatter_takes(a->row, dtype)) {
        fail(g->ctx, QN_EDTYPE, "%s: cannot combine %s into %s by \"%s\"", a->name,
             type_name(g, src), type_name(g, x), monoid_rows[a->row].name);
        return 0;
    }
    int rank;
    index = as_index(g, a->name, index, (sym)node_dims(g, x, &rank)[a->axis]);
    return index ? make_scatter(g, x, index, make_cast(g, src, dtype), a->axis, a->row) : 0;
}

qn_tensor *build_scatter(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis, int row) {
    qn_tensor *const all[3] = {x, index, src};
    build_args a = {
        .name = "scatter", .arg = (const char *const[]){"x", "index", "src"}, .row = row};
    if (!build_enter(&a, 3, all) || !build_axis(x, a.name, axis, &a.axis)) return NULL;
    if (row < 0 || row >= MONOID_COUNT)
        return fail_null(tensor_ctx(x), QN_EARG, "%s: %d is no way to combine", a.name, row);
    return build_run(&a, scatter_node);
}
