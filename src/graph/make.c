/* make.c - nodes from nodes, unchecked: what constructors, rules and gradients are written in.
 *
 * Each function works out the result's shape and attributes and calls node_make(). Arguments fit:
 * the constructors in build.c check what a user gave, and the others derive theirs from nodes that
 * were checked. Sizes are syms. All may raise, for want of memory only; products that leave 64 bits
 * mark the sym store, which build.c looks at. */
#include "graph/graph.h"

static tuple_id shape_of(const graph *g, node_id x) {
    return g->node[x].shape;
}

static qn_dtype dtype_of(const graph *g, node_id x) {
    return (qn_dtype)g->node[x].dtype;
}

/* ---- leaves --------------------------------------------------------------------------------- */

node_id make_const(graph *g, qn_dtype dtype, tuple_id shape, scalar value) {
    return node_make(g, (node_form){OP_CONST, dtype, shape, 0, scalar_bits(dtype, value)}, 0, NULL);
}

node_id make_number(graph *g, qn_dtype dtype, tuple_id shape, double value) {
    uint64_t bits = 0;
    dtype_set_f(dtype, &bits, 0, value);
    return node_make(g, (node_form){OP_CONST, dtype, shape, 0, bits}, 0, NULL);
}

node_id make_iota(graph *g, qn_dtype dtype, tuple_id shape, int axis) {
    int64_t attr = axis;
    return node_make(g, (node_form){OP_IOTA, dtype, shape, graph_tuple(g, 1, &attr), 0}, 0, NULL);
}

/* ---- elementwise ---------------------------------------------------------------------------- */

node_id make_elem(graph *g, int op, int n, const node_id *x) {
    qn_dtype dtype = op_rows[op].types == TYPES_CMP ? QN_BOOL : dtype_of(g, x[n - 1]);
    return node_make(g, (node_form){op, dtype, shape_of(g, x[0]), 0, 0}, n, x);
}

node_id make1(graph *g, int op, node_id a) {
    return make_elem(g, op, 1, &a);
}

node_id make2(graph *g, int op, node_id a, node_id b) {
    return make_elem(g, op, 2, (const node_id[]){a, b});
}

node_id make3(graph *g, int op, node_id a, node_id b, node_id c) {
    return make_elem(g, op, 3, (const node_id[]){a, b, c});
}

node_id make_cast(graph *g, node_id x, qn_dtype dtype) {
    if (dtype_of(g, x) == dtype) return x;
    return node_make(g, (node_form){OP_CAST, dtype, shape_of(g, x), 0, 0}, 1, &x);
}

node_id make_bitcast(graph *g, node_id x, qn_dtype dtype) {
    if (dtype_of(g, x) == dtype) return x;
    return node_make(g, (node_form){OP_BITCAST, dtype, shape_of(g, x), 0, 0}, 1, &x);
}

node_id make_mark(graph *g, int op, node_id x) {
    return node_make(g, (node_form){op, dtype_of(g, x), shape_of(g, x), 0, 0}, 1, &x);
}

node_id make_apart(graph *g, node_id x) {
    return node_make(g, (node_form){OP_APART, dtype_of(g, x), shape_of(g, x), 0, ++g->serial}, 1,
                     &x);
}

/* ---- movement ------------------------------------------------------------------------------- */

node_id make_reshape(graph *g, node_id x, tuple_id shape) {
    if (shape_of(g, x) == shape) return x;
    return node_make(g, (node_form){OP_RESHAPE, dtype_of(g, x), shape, 0, 0}, 1, &x);
}

node_id make_expand(graph *g, node_id x, tuple_id shape) {
    if (shape_of(g, x) == shape) return x;
    return node_make(g, (node_form){OP_EXPAND, dtype_of(g, x), shape, 0, 0}, 1, &x);
}

/* NumPy's broadcasting to `shape`: axes of size 1 in front, then repetition. */
node_id make_broadcast(graph *g, node_id x, tuple_id shape) {
    if (shape_of(g, x) == shape) return x;
    const graph_node *n = node_at(g, x);
    if (n->op == OP_CONST)
        return node_make(g, (node_form){OP_CONST, dtype_of(g, x), shape, 0, n->bits}, 0, NULL);
    int rank, wanted;
    const int64_t *dims = node_dims(g, x, &rank);
    graph_tuple_get(g, shape, &wanted);
    if (rank < wanted) {
        int64_t v[QN_MAX_RANK];
        for (int i = 0; i < wanted; i++)
            v[i] = i < wanted - rank ? SYM_ONE : dims[i - (wanted - rank)];
        x = make_reshape(g, x, graph_tuple(g, wanted, v));
    }
    return make_expand(g, x, shape);
}

node_id make_permute(graph *g, node_id x, const int *axes) {
    int rank;
    const int64_t *dims = node_dims(g, x, &rank);
    int64_t v[QN_MAX_RANK], attr[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        v[i] = dims[axes[i]];
        attr[i] = axes[i];
    }
    tuple_id shape = graph_tuple(g, rank, v), a = graph_tuple(g, rank, attr);
    return node_make(g, (node_form){OP_PERMUTE, dtype_of(g, x), shape, a, 0}, 1, &x);
}

/* An axis of n elements with `interior` zeros between two: n + (n-1)*interior, and 0 for n = 0. */
sym padded_size(sym_store *s, sym n, const int64_t *p) {
    sym size = n;
    if (p[2] > 0) {
        sym gaps = sym_sub(s, n, SYM_ONE);
        if (sym_lo(s, n) < 1) gaps = sym_max(s, gaps, SYM_ZERO);
        size = sym_add(s, n, sym_scale(s, gaps, p[2]));
    }
    return sym_add(s, sym_add(s, (sym)p[0], size), (sym)p[1]);
}

/* p: lo, hi (syms) and interior (a number) for each axis. */
node_id make_pad(graph *g, node_id x, const int64_t *p) {
    int rank;
    const int64_t *dims = node_dims(g, x, &rank);
    int64_t v[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) v[i] = padded_size(g->syms, (sym)dims[i], p + 3 * i);
    tuple_id shape = graph_tuple(g, rank, v), attr = graph_tuple(g, 3 * rank, p);
    return node_make(g, (node_form){OP_PAD, dtype_of(g, x), shape, attr, 0}, 1, &x);
}

/* p: start, size (syms) and step (a number) for each axis. */
/* What the slice left out at the end is what start and extent leave. */
void slice_undone(graph *g, const int64_t *slice, int rank, const int64_t *dims, int64_t *pad) {
    sym_store *s = g->syms;
    for (int i = 0; i < 3 * rank; i += 3) {
        const int64_t apart[3] = {slice[i], SYM_ZERO, slice[i + 2] - 1};
        pad[i] = slice[i];
        pad[i + 1] = sym_sub(s, (sym)dims[i / 3], padded_size(s, (sym)slice[i + 1], apart));
        pad[i + 2] = slice[i + 2] - 1;
    }
}

node_id make_slice(graph *g, node_id x, const int64_t *p) {
    int rank = node_rank(g, x);
    int64_t v[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) v[i] = p[3 * i + 1];
    tuple_id shape = graph_tuple(g, rank, v), attr = graph_tuple(g, 3 * rank, p);
    return node_make(g, (node_form){OP_SLICE, dtype_of(g, x), shape, attr, 0}, 1, &x);
}

node_id make_window(graph *g, node_id x, const window_attr *w) {
    int rank;
    const int64_t *dims = node_dims(g, x, &rank);
    int64_t v[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) v[i] = i == w->axis ? w->size : i == w->by ? w->length : dims[i];
    const int64_t p[7] = {w->axis, w->by, w->stride, w->slope, w->start, w->size, w->length};
    tuple_id shape = graph_tuple(g, rank, v), attr = graph_tuple(g, 7, p);
    return node_make(g, (node_form){OP_WINDOW, dtype_of(g, x), shape, attr, 0}, 1, &x);
}

window_attr node_window(const graph *g, const graph_node *n) {
    int count;
    const int64_t *p = graph_tuple_get(g, n->attr, &count);
    return (window_attr){(int)p[0], (int)p[1], p[2], p[3], (sym)p[4], (sym)p[5], (sym)p[6]};
}

bool op_attr_is_size(int op, int i) {
    if (op == OP_WINDOW) return i >= 4;
    if (op == OP_LOOP) return i == 0;
    if (op == OP_CALL) return i >= 2 + CUSTOM_SIZES;
    return (op == OP_PAD || op == OP_SLICE) && i % 3 != 2;
}

static tuple_id axes_tuple(graph *g, uint32_t mask) {
    int64_t axes[32];
    int n = 0;
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1) axes[n++] = i;
    return graph_tuple(g, n, axes);
}

node_id make_flip(graph *g, node_id x, uint32_t mask) {
    if (!mask) return x;
    return node_make(
        g, (node_form){OP_FLIP, dtype_of(g, x), shape_of(g, x), axes_tuple(g, mask), 0}, 1, &x);
}

/* ---- reductions ----------------------------------------------------------------------------- */

/* The shape with the axes of the mask gone, or of size 1 where they are kept. */
tuple_id reduced_shape(graph *g, tuple_id shape, uint32_t mask, bool keep) {
    int rank, n = 0;
    const int64_t *dims = graph_tuple_get(g, shape, &rank);
    int64_t v[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        if (!(mask >> i & 1))
            v[n++] = dims[i];
        else if (keep)
            v[n++] = SYM_ONE;
    }
    return graph_tuple(g, n, v);
}

node_id make_reduce(graph *g, int op, node_id x, uint32_t mask) {
    bool index = op_rows[op].types == TYPES_TO;
    if (!mask) return index ? make_number(g, QN_I64, shape_of(g, x), 0) : x;
    tuple_id shape = reduced_shape(g, shape_of(g, x), mask, false);
    qn_dtype dtype = index ? QN_I64 : dtype_of(g, x);
    return node_make(g, (node_form){op, dtype, shape, axes_tuple(g, mask), 0}, 1, &x);
}

/* The sum over the axes of a*b where `here` holds; 0: everywhere. */
node_id make_sum_product(graph *g, node_id a, node_id b, node_id here, uint32_t mask) {
    qn_dtype dtype = dtype_of(g, a);
    if (!mask) {
        node_id p = make2(g, OP_MUL, a, b);
        return here ? make3(g, OP_WHERE, here, p, make_number(g, dtype, shape_of(g, a), 0)) : p;
    }
    tuple_id shape = reduced_shape(g, shape_of(g, a), mask, false);
    return node_make(g, (node_form){OP_SUM_PRODUCT, dtype, shape, axes_tuple(g, mask), 0},
                     here ? 3 : 2, (const node_id[]){a, b, here});
}

/* Undo what reducing over `mask` did to the shape: repeat x along those axes of `shape`. */
node_id make_unreduce(graph *g, node_id x, tuple_id shape, uint32_t mask) {
    return make_expand(g, make_reshape(g, x, reduced_shape(g, shape, mask, true)), shape);
}

uint32_t tuple_axes(const graph *g, tuple_id list) {
    int n;
    const int64_t *axes = graph_tuple_get(g, list, &n);
    uint32_t mask = 0;
    for (int i = 0; i < n; i++) mask |= 1u << axes[i];
    return mask;
}

uint32_t node_axes(const graph *g, node_id x) {
    return tuple_axes(g, g->node[x].attr);
}

/* ---- calls ---------------------------------------------------------------------------------- */

node_id make_call(graph *g, const call_attr *c, qn_dtype dtype, tuple_id shape, int sources,
                  const node_id *src) {
    int64_t attr[2 + ROUTINE_ATTRS] = {c->routine, c->result};
    for (int i = 0; i < c->n; i++) attr[2 + i] = c->attr[i];
    return node_make(g, (node_form){OP_CALL, dtype, shape, graph_tuple(g, 2 + c->n, attr), 0},
                     sources, src);
}

call_attr node_call(const graph *g, const graph_node *n) {
    int count;
    const int64_t *attr = graph_tuple_get(g, n->attr, &count);
    call_attr c = {.routine = (int)attr[0], .result = (int)attr[1], .n = count - 2};
    for (int i = 0; i < c.n; i++) c.attr[i] = attr[2 + i];
    return c;
}

const char *routine_name(const graph *g, const call_attr *c) {
    return c->routine == ROUTINE_CUSTOM ? custom_of(g, c)->name : routine_rows[c->routine].name;
}

/* Results of one call differ in their number, and in dtype and shape, which follow from it. */
bool node_same_call(const graph *g, const graph_node *a, const graph_node *b) {
    if (a->op != OP_CALL || b->op != OP_CALL || a->sources != b->sources) return false;
    for (int i = 0; i < a->sources; i++)
        if (a->src[i] != b->src[i]) return false;
    call_attr x = node_call(g, a), y = node_call(g, b);
    return x.routine == y.routine && x.n == y.n &&
           memcmp(x.attr, y.attr, (size_t)x.n * sizeof *x.attr) == 0;
}

/* ---- scans ---------------------------------------------------------------------------------- */

node_id make_scan(graph *g, node_id x, node_id y, scan_attr s) {
    int rank;
    const int64_t attr[3] = {s.monoid, s.axis, s.reverse};
    const int64_t *dims = graph_tuple_get(g, shape_of(g, x), &rank);
    if ((sym)dims[s.axis] == SYM_ONE) return y ? y : x; /* the result of one element is itself */
    return node_make(
        g, (node_form){OP_SCAN, dtype_of(g, x), shape_of(g, x), graph_tuple(g, 3, attr), 0},
        y ? 2 : 1, (const node_id[]){x, y});
}

scan_attr node_scan(const graph *g, const graph_node *n) {
    int count;
    const int64_t *attr = graph_tuple_get(g, n->attr, &count);
    return (scan_attr){(int)attr[0], (int)attr[1], attr[2] != 0};
}

/* ---- computed indices ----------------------------------------------------------------------- */

node_id make_checked(graph *g, node_id index, sym size, const char *name) {
    const int64_t attr[2] = {size, (int64_t)(intptr_t)name};
    g->marked = true;
    return node_make(
        g,
        (node_form){OP_DETACH, dtype_of(g, index), shape_of(g, index), graph_tuple(g, 2, attr), 0},
        1, &index);
}

const char *node_checked(const graph *g, const graph_node *n, sym *size) {
    if (n->op != OP_DETACH || !n->attr) return NULL;
    int count;
    const int64_t *attr = graph_tuple_get(g, n->attr, &count);
    *size = (sym)attr[0];
    return (const char *)(intptr_t)attr[1];
}

node_id make_gather(graph *g, node_id x, node_id index, int axis) {
    int64_t attr = axis;
    return node_make(
        g, (node_form){OP_GATHER, dtype_of(g, x), shape_of(g, index), graph_tuple(g, 1, &attr), 0},
        2, (const node_id[]){x, index});
}

/* What is added or multiplied by index is so in f32 where its dtype is narrow, and rounded once, as
 * a sum is: in 11 bits a count ends at 2048, in 8 at 256. */
node_id make_scatter(graph *g, node_id x, node_id index, node_id src, int axis, int row) {
    const int64_t attr[2] = {axis, row};
    qn_dtype dtype = dtype_of(g, x), in = dtype;
    if (dtype_is_narrow(dtype) && (row == MONOID_SUM || row == MONOID_PROD))
        in = (qn_dtype)dtype_rows[dtype].acc;
    const node_id from[3] = {make_cast(g, x, in), index, make_cast(g, src, in)};
    tuple_id places = graph_tuple(g, 2, attr);
    node_id n = node_make(g, (node_form){OP_SCATTER, in, shape_of(g, x), places, 0}, 3, from);
    return make_cast(g, n, dtype);
}
