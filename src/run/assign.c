/* assign.c - values from outside, and other values for tensors.
 *
 * A tensor's values are versions. Assigning makes the next one: the handle names a node of its own
 * from then on, and what was recorded before keeps the node it was recorded with. An expression
 * that is assigned is computed with the next run in any case; until then what it replaces is held,
 * so that a static graph can take the assignment back. Gradients end at an assignment (grad.c).
 *
 * Only variables can be assigned to: tensors that lie in memory, or whose first value was made of
 * no data. Assigning to a view of one gives that one a new version with the view's places
 * overwritten, and the view's handle then sees the same place of it (graph/view). Views that show
 * an element more than once, or what is no element, are refused, and so are results of operations:
 * nobody could see what they were given. */
#include "graph/loop/loop.h"
#include "graph/view/view.h"
#include "run/run.h"

#include <stdio.h>

/* ---- from outside --------------------------------------------------------------------------- */

static node_id node_over(qn_ctx *qn, qn_dtype dtype, tuple_id shape, uint32_t b) {
    buffer_list own = {qn, 1, &b};
    cleanup c;
    cleanup_push(&qn->heap, &c, buffer_list_cleanup, &own);
    node_id n = node_buffer(qn->graph, dtype, shape, b);
    cleanup_drop(&qn->heap, &c);
    buffer_sized(qn, n);
    return n;
}

/* A bool is one byte, 0 or 1: kernels rely on it. Others have the bytes that they like. */
static bool bools_are_some(qn_dtype dtype, const uint8_t *data, size_t size) {
    uint8_t all = 0;
    if (dtype != QN_BOOL) return true;
    for (size_t i = 0; i < size; i++) all |= data[i];
    return all <= 1;
}

/* As C has it for _Bool, and NumPy: what is not 0 is true. */
static qn_code copy_bools(qn_ctx *qn, void *memory, const uint8_t *data, size_t size) {
    const run_state *r = qn->run;
    uint8_t piece[4096];
    qn_code code = QN_OK;
    for (size_t at = 0, n; at < size && !code; at += n) {
        n = size - at < sizeof piece ? size - at : sizeof piece;
        for (size_t i = 0; i < n; i++) piece[i] = data[at + i] != 0;
        code = r->dev->copy_in(r->dev_state, memory, at, piece, n);
    }
    return code;
}

node_id node_from(qn_ctx *qn, qn_dtype dtype, tuple_id shape, const void *data, size_t size) {
    uint32_t b = buffer_new(qn, size);
    const run_state *r = qn->run;
    double start = trace_on(qn) ? clock_seconds() : 0;
    void *memory = buffer_at(qn, b)->memory;
    qn_code code = bools_are_some(dtype, data, size)
                       ? r->dev->copy_in(r->dev_state, memory, 0, data, size)
                       : copy_bools(qn, memory, data, size);
    if (trace_on(qn)) traced_copy(qn, "copy in", size, start);
    if (code) {
        buffer_unref(qn, b);
        raise_error(qn, code, "the device did not take %zu bytes", size);
    }
    return node_over(qn, dtype, shape, b);
}

static void borrowed_not_yet(void *owner) {
    (void)owner;
}

typedef struct given {
    qn_ctx *qn;
    qn_dtype dtype;
    int rank;
    const int64_t *shape;
    const void *data;
    const qn_lender *lender; /* NULL: it is copied */
    qn_tensor *made;
} given;

static void from_work(void *arg) {
    given *f = arg;
    qn_ctx *qn = f->qn;
    const char *call = f->lender ? "borrow" : "from";
    tuple_id dims;
    size_t size = 0;
    if (!shape_from_user(qn, call, f->rank, f->shape, &dims) ||
        !host_size(qn, call, dims, (int)f->dtype, &size))
        return;
    if (size && !f->data) {
        fail(qn, QN_ENULL, "%s: no data for %zu bytes", call, size);
        return;
    }
    const dev_table *dev = qn->run->dev; /* null knows its own memory alone */
    bool lies = f->lender && f->lender->give_back && size && dev->host_memory && dev->executes &&
                (uintptr_t)f->data % qn_dtype_size(f->dtype) == 0 &&
                bools_are_some(f->dtype, f->data, size);
    if (!lies) {
        f->made = tensor_new(qn, node_from(qn, f->dtype, dims, f->data, size));
        if (f->made && f->lender && f->lender->give_back) f->lender->give_back(f->lender->owner);
        return;
    }
    uint32_t b = buffer_borrow(qn, f->data, size, f->lender);
    void (*give_back)(void *) = f->lender->give_back;
    buffer_at(qn, b)->give_back = borrowed_not_yet; /* where node or handle cannot be made */
    node_id n = node_over(qn, f->dtype, dims, b);
    f->made = tensor_new(qn, n);
    if (f->made) buffer_at(qn, b)->give_back = give_back;
}

qn_tensor *qn_from(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, const void *data) {
    if (!qn) return NULL;
    if (!dtype_is_known((int)dtype)) return dtype_refuse(qn, "from", (int)dtype), NULL;
    given f = {.qn = qn, .dtype = dtype, .rank = rank, .shape = shape, .data = data};
    guarded(qn, from_work, &f);
    graph_settle(qn->graph);
    return f.made;
}

qn_tensor *qn_borrow(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, const void *data,
                     const qn_lender *lender) {
    qn_lender l = QN_LENDER();
    if (!qn || !struct_take(qn, "borrow", "qn_lender", &l, sizeof l, lender)) return NULL;
    if (!dtype_is_known((int)dtype)) return dtype_refuse(qn, "borrow", (int)dtype), NULL;
    given f = {qn, dtype, rank, shape, data, &l, NULL};
    guarded(qn, from_work, &f);
    graph_settle(qn->graph);
    return f.made;
}

/* ---- another value -------------------------------------------------------------------------- */

/* Remember that t's value is an effect. */
static void add_pending(graph *g, tensor *t, uint32_t place) {
    g->pending[g->pending_count++] = t;
    t->pending = g->pending_count;
    t->replaced = t->node;
    t->place = place;
    node_ref(g, t->node);
    value_need(g, t->node);
}

static void take_memory(tensor *t, node_id value) {
    qn_ctx *qn = t->h.ctx;
    const graph_node *v = node_at(qn->graph, value);
    uint32_t b = v->buffer, place = graph_place(qn->graph);
    node_id n = node_buffer(qn->graph, (qn_dtype)v->dtype, v->shape, b);
    buffer_ref(qn, b);
    if (t->pending)
        tensor_settle(t, true);
    else
        node_is_old(qn->graph, t->node, place);
    tensor_renew(t, n);
}

static bool is_written(const graph *g, const tensor *t) {
    return !t->pending || node_at(g, t->node)->attr == VERSION_WRITTEN;
}

/* A value that is there, too, may be an input of the static graph that is captured next, and then
 * each run makes the assignment. What was `written` is data of the moment. Raises; then nothing has
 * changed. */
static void assign_node(tensor *t, node_id value, bool written) {
    qn_ctx *qn = t->h.ctx;
    graph *g = qn->graph;
    if (value == t->node) return;
    if (written && node_at(g, value)->op == OP_BUFFER) {
        take_memory(t, value);
        return;
    }
    g->pending =
        heap_grow(&qn->heap, g->pending, &g->pending_cap, g->pending_count + 1, sizeof *g->pending);
    uint32_t place = graph_place(g);
    node_id version = node_version(g, value);
    if (written && is_written(g, t)) node_at(g, version)->attr = VERSION_WRITTEN;
    if (!t->pending) add_pending(g, t, place);
    tensor_renew(t, version);
}

/* ---- views ---------------------------------------------------------------------------------- */

static bool refuse(const tensor *t, const char *fmt, ...) QN_PRINTF(2, 3);
static bool refuse(const tensor *t, const char *fmt, ...) {
    graph *g = t->h.ctx->graph;
    va_list args;
    char text[300];
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    g->text.len = 0;
    tensor_describe(g, t->node, &g->text);
    return fail(t->h.ctx, QN_EGRAPH, "%s: %s %s", graph_name(t->h.ctx, "assign"), g->text.s, text),
           false;
}

/* The tensor that t is a view of, or t; NULL, with an error, where it cannot be written through. */
static tensor *view_written(tensor *t) {
    const graph *g = t->h.ctx->graph;
    tensor *owner = NULL;
    node_id end = t->node;
    view_found found = view_owner(t, &owner, &end);
    const char *name = op_rows[node_at(g, end)->op].name;
    if (found == VIEW_OF_NONE && op_rows[node_at(g, end)->op].class_ == CLASS_MOVE)
        refuse(t, "is a view by %s, whose elements are not one place each", name);
    else if (found == VIEW_OF_NONE)
        refuse(t, "is a view of a result of %s, which is no variable", name);
    else if (found == VIEW_EQUAL)
        refuse(t,
               "has a view's value and is none: assign to a view itself, or to a copy (qn_clone)");
    else if (found == VIEW_THROUGH)
        refuse(t, "is a view of a constant or of a value that rules see through, which it does not "
                  "reach: take it of a variable (qn_variable), or assign to all of that");
    else if (found == VIEW_CUT)
        refuse(t, "is a view, and history that was cut (QN_HISTORY) knew of what: take it again");
    else if (!owner)
        refuse(t, "is a view of a tensor that was assigned to since, or released: take it again");
    return owner;
}

/* What the source of view v is with `value` in the view's place. */
static node_id view_undone(graph *g, node_id v, node_id value) {
    const graph_node x = *node_at(g, v);
    int rank, n, inverse[QN_MAX_RANK];
    const int64_t *dims = node_dims(g, x.src[0], &rank);
    const int64_t *attr = graph_tuple_get(g, x.attr, &n);
    int64_t pad[3 * QN_MAX_RANK];
    switch (x.op) {
    case OP_RESHAPE:
        return make_reshape(g, value, node_at(g, x.src[0])->shape);
    case OP_PERMUTE:
        for (int i = 0; i < n; i++) inverse[attr[i]] = i;
        return make_permute(g, value, inverse);
    case OP_FLIP:
        return make_flip(g, value, node_axes(g, v));
    default:
        slice_undone(g, attr, rank, dims, pad);
        node_id yes = make_number(g, QN_BOOL, x.shape, 1);
        return make3(g, OP_WHERE, make_pad(g, yes, pad), make_pad(g, value, pad), x.src[0]);
    }
}

/* The view again, of another source. */
static node_id view_of(graph *g, node_id v, node_id base, node_id instead) {
    if (v == base) return instead;
    const graph_node x = *node_at(g, v);
    node_id from = view_of(g, x.src[0], base, instead);
    return node_make(g, (node_form){x.op, (qn_dtype)x.dtype, x.shape, x.attr, 0}, 1, &from);
}

static bool assign_view(tensor *t, node_id value, bool written) {
    graph *g = t->h.ctx->graph;
    tensor *owner = view_written(t);
    if (!owner) return false;
    if (owner == t) return assign_node(t, value, written), true;
    node_id base = owner->node, view = t->node;
    for (node_id v = view; v != base; v = g->node[v].src[0]) value = view_undone(g, v, value);
    node_ref(g, base); /* view_of() asks which node it was */
    assign_node(owner, value, written);
    tensor_point(t, view_of(g, view, base, owner->node));
    node_unref(g, base);
    return true;
}

/* ---- public ---------------------------------------------------------------------------------- */

static bool assign_fits(const tensor *t, const tensor *value) {
    qn_ctx *qn = t->h.ctx;
    graph *g = qn->graph;
    const graph_node *a = node_at(g, t->node), *b = node_at(g, value->node);
    if (a->dtype != b->dtype)
        return fail(qn, QN_EDTYPE, "assign: the tensor is %s, the value %s",
                    qn_dtype_name((qn_dtype)a->dtype), qn_dtype_name((qn_dtype)b->dtype)),
               false;
    if (a->shape == b->shape) return true;
    g->text.len = 0;
    str_add(&g->text, "assign: the tensor is ");
    shape_text(g, a->shape, &g->text);
    str_add(&g->text, ", the value ");
    shape_text(g, b->shape, &g->text);
    return fail(qn, QN_ESHAPE, "%s", g->text.s), false;
}

/* Has it a value only in what qn_vmap makes of it? Then no run could make the assignment. */
static bool follows_example(graph *g, node_id value) {
    arena a;
    cleanup up;
    node_id *order;
    bool follows = false;
    if (!g->examples) return false;
    arena_open(&a, &g->ctx->heap);
    cleanup_push(&g->ctx->heap, &up, arena_cleanup, &a);
    uint32_t nodes = graph_order(g, &a, 1, &value, &order);
    for (uint32_t i = 0; i < nodes; i++) {
        const graph_node *x = node_at(g, order[i]);
        follows |= x->op == OP_ARGUMENT && argument_kind(x) == ARGUMENT_EXAMPLE;
    }
    cleanup_run(&g->ctx->heap, &up);
    return follows;
}

/* The value fits. Raises. */
static bool assign_value(tensor *t, node_id value, bool written) {
    graph *g = t->h.ctx->graph;
    const graph_node *x = node_at(g, t->node);
    if (g->loop) return refuse(t, "is assigned to in a loop's body; make it a state of the loop");
    if (follows_example(g, value))
        return refuse(t, "is given a value of one example; assign what qn_vmap makes of it");
    if (op_rows[x->op].class_ == CLASS_MOVE || view_was_cut(x) || t->h.of)
        return assign_view(t, value, written);
    if (view_is_value(x) || view_is_made(x)) return assign_node(t, value, written), true;
    return refuse(t,
                  "is the result of %s, which nothing else would see; assign to a variable, or "
                  "realize it before",
                  op_rows[x->op].name);
}

typedef struct assignment {
    tensor *t;
    const tensor *value;
    const void *data; /* where there is no value */
    size_t size;
    bool done;
} assignment;

static void assign_work(void *arg) {
    assignment *a = arg;
    a->done = assign_fits(a->t, a->value) && assign_value(a->t, a->value->node, false);
}

qn_code qn_assign(qn_tensor *name, qn_tensor *from) {
    qn_ctx *qn = name ? tensor_ctx(name) : from ? tensor_ctx(from) : NULL;
    tensor *t = tensor_of(qn, name, "assign", "t");
    const tensor *value = t ? tensor_of(qn, from, "assign", "value") : NULL;
    if (!value) return qn_error_code(qn);
    assignment a = {.t = t, .value = value};
    guarded(qn, assign_work, &a);
    graph_settle(qn->graph);
    return a.done ? QN_OK : (int)qn_error_code(qn);
}

/* Of t's shape and dtype. Raises. */
static bool write_checked(tensor *t, const void *data, size_t size) {
    qn_ctx *qn = t->h.ctx;
    const graph_node x = *node_at(qn->graph, t->node);
    size_t need = 0;
    if (!host_size(qn, "write", x.shape, x.dtype, &need)) return false;
    if (need != size)
        return fail(qn, QN_ERANGE, "write: the tensor has %zu bytes, the data %zu", need, size),
               false;
    if (size && !data) return fail(qn, QN_ENULL, "write: no data for %zu bytes", size), false;
    return assign_value(t, node_from(qn, (qn_dtype)x.dtype, x.shape, data, size), true);
}

static void write_work(void *arg) {
    assignment *a = arg;
    a->done = write_checked(a->t, a->data, a->size);
}

qn_code qn_write(qn_tensor *name, const void *data, size_t size) {
    if (!name) return QN_ENULL;
    qn_ctx *qn = tensor_ctx(name);
    tensor *t = tensor_of(NULL, name, "write", "t");
    if (!t) return handle_code(name);
    assignment a = {.t = t, .data = data, .size = size};
    guarded(qn, write_work, &a);
    graph_settle(qn->graph);
    return a.done ? QN_OK : (int)qn_error_code(qn);
}
