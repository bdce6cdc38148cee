/* shape.c - shapes as tuples of syms: sizes from and to the user, products, broadcasting, text.
 *
 * The user writes a size as an int64_t. A size that is not a constant is given and shown as a code,
 * a number far below every sensible negative index: DIM_CODE - i stands for the expression
 * graph->dim[i]. Codes work wherever sizes do, so what qn_dim() returns can be given back as it is,
 * and the dim_* functions below compute with sizes in this form. DIM_BAD, to users QN_DIM_ERROR, is
 * what they give after an error; it is no code, so whoever uses it is refused in turn.
 *
 * A shape fits when the product of its sizes' upper bounds, empty axes aside, stays below 2^63. */
#include "graph/graph.h"

/* ---- codes ---------------------------------------------------------------------------------- */

/* The code of a size; raises. */
static int64_t dim_code(graph *g, sym size) {
    int64_t value;
    if (sym_is_const(g->syms, size, &value)) return value;
    for (uint32_t i = 0; i < g->dims; i++)
        if (g->dim[i] == size) return DIM_CODE - (int64_t)i;
    g->dim = heap_grow(&g->ctx->heap, g->dim, &g->dim_cap, g->dims + 1, sizeof *g->dim);
    g->dim[g->dims] = size;
    return DIM_CODE - (int64_t)g->dims++;
}

bool dim_is_code(const graph *g, int64_t dim) {
    return dim <= DIM_CODE && dim > DIM_CODE - (int64_t)g->dims;
}

bool dim_sym(graph *g, int64_t dim, sym *out) {
    if (dim_is_code(g, dim))
        *out = g->dim[DIM_CODE - dim];
    else if (dim >= 0)
        *out = sym_const(g->syms, dim);
    else
        return false;
    return true;
}

static int64_t dim_apply(graph *g, char operation, int64_t a, int64_t b) {
    sym x, y;
    if (!dim_sym(g, a, &x) || !dim_sym(g, b, &y)) return DIM_BAD;
    sym_store *s = g->syms;
    sym r = operation == '+'   ? sym_add(s, x, y)
            : operation == '-' ? sym_sub(s, x, y)
            : operation == '*' ? sym_mul(s, x, y)
                               : sym_div(s, x, y);
    if (sym_overflowed(s) || sym_hi(s, r) < 0) return DIM_BAD;
    return dim_code(g, r);
}

/* What makes the code of a size guarded, and the code. */
typedef struct dim_call {
    graph *g;
    const char *name; /* of a new variable in [a, b] */
    char operation;   /* between two codes */
    int64_t a, b;
    sym size; /* or of this */
    int64_t code;
} dim_call;

static void apply_work(void *arg) {
    dim_call *c = arg;
    c->code = dim_apply(c->g, c->operation, c->a, c->b);
}

static void code_work(void *arg) {
    dim_call *c = arg;
    c->code = dim_code(c->g, c->size);
}

int64_t dim_op(qn_ctx *qn, int64_t a, char operation, int64_t b) {
    dim_call c = {.g = qn->graph, .operation = operation, .a = a, .b = b};
    if (guarded(qn, apply_work, &c)) return DIM_BAD;
    if (c.code == DIM_BAD)
        fail(qn, QN_ERANGE, "%s: a size below 0 or beyond 2^63", graph_name(qn, "size"));
    return c.code;
}

/* ---- dimension variables -------------------------------------------------------------------- */

static int64_t var_make(graph *g, const char *name, int64_t lo, int64_t hi) {
    heap *h = &g->ctx->heap;
    g->var = heap_grow(h, g->var, &g->var_cap, g->vars + 1, sizeof *g->var);
    g->bound = heap_grow(h, g->bound, &g->bound_cap, g->vars + 1, sizeof *g->bound);
    g->spare = heap_grow(h, g->spare, &g->spare_cap, g->vars + 1, sizeof *g->spare);
    sym v = sym_var(g->syms, name, lo, hi);
    int64_t code = dim_code(g, v);
    g->var[g->vars] = v;
    g->spare[g->vars] = false;
    g->bound[g->vars++] = -1;
    return code;
}

static void var_work(void *arg) {
    dim_call *c = arg;
    c->code = var_make(c->g, c->name, c->a, c->b);
}

int64_t qn_var(qn_ctx *qn, const char *name, int64_t lo, int64_t hi) {
    if (!qn) return DIM_BAD;
    if (!name) return fail(qn, QN_ENULL, "var: a dimension variable needs a name"), DIM_BAD;
    if (lo < 0 || hi < lo)
        return fail(qn, QN_ERANGE, "var: %.100s in [%lld, %lld] is no range of sizes", name,
                    (long long)lo, (long long)hi),
               DIM_BAD;
    dim_call c = {.g = qn->graph, .name = name, .a = lo, .b = hi, .code = DIM_BAD};
    guarded(qn, var_work, &c);
    return c.code;
}

/* Which variable a code is; g->vars: none. */
static uint32_t var_of_code(const graph *g, int64_t var) {
    uint32_t i = g->vars;
    if (dim_is_code(g, var))
        for (i = 0; i < g->vars && g->var[i] != g->dim[DIM_CODE - var];) i++;
    return i;
}

int64_t dim_var_take(qn_ctx *qn, const char *name, int64_t lo, int64_t hi) {
    graph *g = qn->graph;
    for (uint32_t i = 0; i < g->vars; i++) {
        sym v = g->var[i];
        if (!g->spare[i] || sym_lo(g->syms, v) != lo || sym_hi(g->syms, v) != hi ||
            strcmp(sym_name(g->syms, v), name) != 0)
            continue;
        g->spare[i] = false;
        return dim_code(g, v); /* it has one */
    }
    return qn_var(qn, name, lo, hi);
}

void dim_var_give_back(qn_ctx *qn, int64_t var) {
    graph *g = qn->graph;
    uint32_t i = var_of_code(g, var);
    if (i < g->vars) g->spare[i] = true;
}

qn_code qn_bind(qn_ctx *qn, int64_t var, int64_t value) {
    if (!qn) return QN_ENULL;
    graph *g = qn->graph;
    uint32_t i = var_of_code(g, var);
    if (i == g->vars) return fail(qn, QN_EARG, "bind: not a variable made by qn_var");
    int64_t lo = sym_lo(g->syms, g->var[i]), hi = sym_hi(g->syms, g->var[i]);
    if (value < lo || value > hi)
        return fail(qn, QN_ERANGE, "bind: %s = %lld is outside [%lld, %lld]",
                    sym_name(g->syms, g->var[i]), (long long)value, (long long)lo, (long long)hi);
    bind_change(g, i, value);
    return QN_OK;
}

int64_t shape_bound(const graph *g, sym dim) {
    int64_t value;
    if (sym_is_const(g->syms, dim, &value)) return value;
    for (uint32_t i = 0; i < g->vars; i++)
        if (g->bound[i] < 0 && sym_uses(g->syms, dim, g->var[i])) return -1;
    return sym_eval(g->syms, dim, (int)g->vars, g->var, g->bound, &value) ? value : -1;
}

/* ---- what users ask of sizes ---------------------------------------------------------------- */

/* A size that is one, or DIM_BAD, which was reported where it came about. */
static bool size_of(qn_ctx *qn, const char *call, int64_t dim, sym *out) {
    if (dim_is_code(qn->graph, dim) || dim >= 0) return dim_sym(qn->graph, dim, out);
    if (dim == DIM_BAD && qn->code) return false;
    return fail_null(qn, QN_ERANGE, "%s: %lld is no size", call, (long long)dim);
}

typedef struct size_call {
    qn_ctx *qn;
    const char *call;
    int64_t dim;
    sym out;
    bool good;
} size_call;

static void size_work(void *arg) {
    size_call *c = arg;
    c->good = size_of(c->qn, c->call, c->dim, &c->out);
}

bool dim_given(qn_ctx *qn, const char *call, int64_t dim, sym *out) {
    size_call c = {.qn = qn, .call = call, .dim = dim};
    if (!qn) return false;
    guarded(qn, size_work, &c);
    *out = c.out;
    return c.good;
}

static int64_t size_op(qn_ctx *qn, const char *call, int64_t a, char operation, int64_t b) {
    sym x, y;
    if (!dim_given(qn, call, a, &x) || !dim_given(qn, call, b, &y)) return DIM_BAD;
    if (operation == '/' && sym_lo(qn->graph->syms, y) <= 0)
        return fail(qn, QN_ERANGE, "%s: by a size that may be 0", call), DIM_BAD;
    return dim_op(qn, a, operation, b);
}

int64_t qn_dim_add(qn_ctx *qn, int64_t a, int64_t b) {
    return size_op(qn, "dim_add", a, '+', b);
}
int64_t qn_dim_sub(qn_ctx *qn, int64_t a, int64_t b) {
    return size_op(qn, "dim_sub", a, '-', b);
}
int64_t qn_dim_mul(qn_ctx *qn, int64_t a, int64_t b) {
    return size_op(qn, "dim_mul", a, '*', b);
}
int64_t qn_dim_div(qn_ctx *qn, int64_t a, int64_t b) {
    return size_op(qn, "dim_div", a, '/', b);
}

int64_t qn_dim_value(qn_ctx *qn, int64_t dim) {
    sym size;
    if (!dim_given(qn, "dim_value", dim, &size)) return DIM_BAD;
    int64_t value = shape_bound(qn->graph, size);
    if (value >= 0) return value;
    return fail(qn, QN_EARG, "dim_value: it depends on %s, which is not bound",
                shape_unbound(qn->graph, size)),
           DIM_BAD;
}

qn_code qn_dim_range(qn_ctx *qn, int64_t dim, int64_t *lo, int64_t *hi) {
    sym size;
    if (!dim_given(qn, "dim_range", dim, &size)) return qn_error_code(qn);
    if (lo) *lo = sym_lo(qn->graph->syms, size);
    if (hi) *hi = sym_hi(qn->graph->syms, size);
    return QN_OK;
}

/* ---- products ------------------------------------------------------------------------------- */

sym shape_product(graph *g, int rank, const int64_t *dims) {
    int64_t constant = 1, value, next;
    sym rest = SYM_ONE;
    for (int i = 0; i < rank; i++) {
        bool known = sym_is_const(g->syms, (sym)dims[i], &value);
        if (known && !__builtin_mul_overflow(constant, value, &next))
            constant = next;
        else
            rest = sym_mul(g->syms, rest, (sym)dims[i]);
    }
    return rest == SYM_ONE ? sym_const(g->syms, constant) : sym_scale(g->syms, rest, constant);
}

sym shape_numel(graph *g, tuple_id shape) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    return shape_product(g, rank, dims);
}

/* The product of the sizes' upper bounds, those below `least` counting as it; -1 past 2^63. */
static int64_t dims_hi(const graph *g, int rank, const int64_t *dims, int64_t least) {
    int64_t product = 1;
    bool over = false;
    for (int i = 0; i < rank; i++) {
        int64_t hi = sym_hi(g->syms, (sym)dims[i]);
        if (hi == 0 && least == 0) return 0;
        if (__builtin_mul_overflow(product, hi > least ? hi : least, &product)) over = true;
    }
    return over ? -1 : product;
}

int64_t shape_numel_hi(graph *g, tuple_id shape) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    int64_t product = dims_hi(g, rank, dims, 0);
    return product < 0 ? INT64_MAX : product;
}

bool shape_fits(const graph *g, int rank, const int64_t *dims) {
    return dims_hi(g, rank, dims, 1) >= 0;
}

/* ---- from and to the user ------------------------------------------------------------------- */

const char *graph_name(const qn_ctx *qn, const char *op) {
    return qn && qn->graph->func ? qn->graph->func : op;
}

static bool syms_from_user(graph *g, const char *op, int n, const int64_t *dims, int64_t *syms) {
    for (int i = 0; i < n; i++) {
        sym size;
        if (!dim_sym(g, dims[i], &size)) {
            if (dims[i] != DIM_BAD || !g->ctx->code) /* that one was reported */
                fail(g->ctx, QN_ERANGE, "%s: size %lld", graph_name(g->ctx, op),
                     (long long)dims[i]);
            return false;
        }
        syms[i] = size;
    }
    return true;
}

/* What the functions below do guarded, and what came of it. */
typedef struct sizing {
    graph *g;
    const char *op;
    int n;
    const int64_t *dims;
    int64_t *syms;   /* each size */
    tuple_id *shape; /* or all of them */
    bool good;
} sizing;

static void syms_work(void *arg) {
    sizing *z = arg;
    z->good = syms_from_user(z->g, z->op, z->n, z->dims, z->syms);
}

bool dims_from_user(qn_ctx *qn, const char *op, int n, const int64_t *dims, int64_t *syms) {
    sizing z = {.g = qn->graph, .op = op, .n = n, .dims = dims, .syms = syms};
    guarded(qn, syms_work, &z);
    return z.good;
}

static bool shape_make(graph *g, const char *op, int rank, const int64_t *dims, tuple_id *out) {
    int64_t v[QN_MAX_RANK];
    if (!syms_from_user(g, op, rank, dims, v)) return false;
    if (!shape_fits(g, rank, v)) {
        fail(g->ctx, QN_ERANGE, "%s: a shape of more than 2^63 elements", graph_name(g->ctx, op));
        return false;
    }
    *out = graph_tuple(g, rank, v);
    return true;
}

static void shape_work(void *arg) {
    sizing *z = arg;
    z->good = shape_make(z->g, z->op, z->n, z->dims, z->shape);
}

bool shape_from_user(qn_ctx *qn, const char *op, int rank, const int64_t *dims, tuple_id *out) {
    if (rank < 0 || rank > QN_MAX_RANK) {
        fail(qn, QN_ERANGE, "%s: rank %d, but ranks are 0 to %d", graph_name(qn, op), rank,
             QN_MAX_RANK);
        return false;
    }
    if (rank > 0 && !dims)
        return fail(qn, QN_ENULL, "%s: the shape is NULL", graph_name(qn, op)), false;
    sizing z = {.g = qn->graph, .op = op, .n = rank, .dims = dims, .shape = out};
    guarded(qn, shape_work, &z);
    return z.good;
}

void shape_text(const graph *g, tuple_id shape, str *out) {
    int rank;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    str_add(out, "[");
    for (int i = 0; i < rank; i++) {
        if (i) str_add(out, ", ");
        sym_print(g->syms, (sym)dims[i], out);
    }
    str_add(out, "]");
}

/* What t names, or NULL; a stale one is reported. */
static const tensor *shape_tensor(const qn_tensor *t, const char *call) {
    return t ? tensor_of(NULL, t, call, "t") : NULL;
}

qn_dtype qn_dtype_of(const qn_tensor *name) {
    const tensor *t = shape_tensor(name, "dtype_of");
    return t ? (qn_dtype)node_at(t->h.ctx->graph, t->node)->dtype : QN_BOOL;
}

int qn_rank(const qn_tensor *name) {
    const tensor *t = shape_tensor(name, "rank");
    return t ? node_rank(t->h.ctx->graph, t->node) : -1;
}

int64_t qn_dim(const qn_tensor *name, int axis) {
    const tensor *t = shape_tensor(name, "dim");
    if (!t || !build_axis(name, "dim", axis, &axis)) return DIM_BAD;
    qn_ctx *qn = t->h.ctx;
    int rank;
    const int64_t *dims = node_dims(qn->graph, t->node, &rank);
    int64_t value;
    if (sym_is_const(qn->graph->syms, (sym)dims[axis], &value)) return value;
    dim_call c = {.g = qn->graph, .size = (sym)dims[axis], .code = DIM_BAD};
    guarded(qn, code_work, &c);
    return c.code;
}

int64_t qn_numel(const qn_tensor *name) {
    const tensor *t = shape_tensor(name, "numel");
    if (!t) return -1;
    qn_ctx *qn = t->h.ctx;
    int rank;
    const int64_t *dims = node_dims(qn->graph, t->node, &rank);
    int64_t product = 1;
    bool none = false;
    for (int i = 0; i < rank; i++) {
        int64_t size = shape_bound(qn->graph, (sym)dims[i]);
        if (size < 0)
            return fail(qn, QN_EARG, "numel: axis %d depends on %s, which is not bound", i,
                        shape_unbound(qn->graph, (sym)dims[i])),
                   -1;
        none |= size == 0;
        if (__builtin_mul_overflow(product, size, &product))
            return fail(qn, QN_ERANGE, "numel: more than 2^63 elements"), -1;
    }
    return none ? 0 : product;
}

/* ---- broadcasting --------------------------------------------------------------------------- */

bool shape_broadcast(graph *g, tuple_id a, tuple_id b, tuple_id *out) {
    *out = a;
    if (a == b) return true;
    int ra, rb;
    const int64_t *da = graph_tuple_get(g, a, &ra), *db = graph_tuple_get(g, b, &rb);
    int rank = ra > rb ? ra : rb;
    int64_t v[QN_MAX_RANK];
    for (int i = 1; i <= rank; i++) {
        int64_t x = i <= ra ? da[ra - i] : SYM_ONE, y = i <= rb ? db[rb - i] : SYM_ONE;
        if (x != y && x != SYM_ONE && y != SYM_ONE) return false;
        v[rank - i] = x == SYM_ONE ? y : x;
    }
    *out = graph_tuple(g, rank, v);
    return true;
}
