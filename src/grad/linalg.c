/* linalg.c - gradients of factorisations, graph to graph: see calls.c.
 *
 * Written for one matrix; the axes before the last two count them. ' is the transpose. Sources:
 * Murray 2016 for Cholesky, Walter and Lehmann 2018 for QR, Giles 2008 for the rest. A symmetric
 * source gets a symmetric gradient, though one triangle of it alone is read. */
#include "grad/grad.h"

/* ---- matrices -------------------------------------------------------------------------------- */

static tuple_id shape_of(const grad *c, node_id x) {
    return c->g->node[x].shape;
}

static qn_dtype type_of(const grad *c, node_id x) {
    return (qn_dtype)c->g->node[x].dtype;
}

static node_id source(const grad *c, node_id n, int i) {
    return c->g->node[n].src[i];
}

/* The size of an axis from the end, 1: the last. */
static sym size_of(const grad *c, node_id x, int from_end) {
    int rank;
    const int64_t *dim = node_dims(c->g, x, &rank);
    return (sym)dim[rank - from_end];
}

/* x's shape with the last `n` sizes replaced by these. */
static tuple_id shape_with(const grad *c, node_id x, int drop, int n, const sym *size) {
    int rank;
    int64_t dim[QN_MAX_RANK + 1];
    const int64_t *old = node_dims(c->g, x, &rank);
    rank -= drop;
    memcpy(dim, old, (size_t)rank * sizeof *dim);
    for (int i = 0; i < n; i++) dim[rank++] = size[i];
    return graph_tuple(c->g, rank, dim);
}

static node_id number(const grad *c, node_id x, double v) {
    return make_number(c->g, type_of(c, x), shape_of(c, x), v);
}

static node_id turned(const grad *c, node_id x) {
    int rank = node_rank(c->g, x), axes[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) axes[i] = i;
    axes[rank - 1] = rank - 2;
    axes[rank - 2] = rank - 1;
    return make_permute(c->g, x, axes);
}

static node_id product(const grad *c, node_id a, node_id b) {
    sym m = size_of(c, a, 2), n = size_of(c, b, 1), k = size_of(c, a, 1);
    tuple_id whole = shape_with(c, a, 2, 3, (sym[]){m, n, k});
    node_id x = make_reshape(c->g, a, shape_with(c, a, 2, 3, (sym[]){m, SYM_ONE, k}));
    node_id y = turned(c, b);
    y = make_reshape(c->g, y, shape_with(c, b, 2, 3, (sym[]){SYM_ONE, n, k}));
    x = make_expand(c->g, x, whole);
    y = make_expand(c->g, y, whole);
    return make_sum_product(c->g, x, y, 0, 1u << (node_rank(c->g, x) - 1));
}

static node_id add(const grad *c, node_id a, node_id b) {
    return make2(c->g, OP_ADD, a, b);
}

static node_id subtract(const grad *c, node_id a, node_id b) {
    return make2(c->g, OP_SUB, a, b);
}

static node_id times(const grad *c, node_id a, node_id b) {
    return make2(c->g, OP_MUL, a, b);
}

/* Where the row's number is `op` the column's: x; else zero. */
static node_id part(const grad *c, int op, node_id x) {
    int rank = node_rank(c->g, x);
    node_id i = make_iota(c->g, QN_I64, shape_of(c, x), rank - 2);
    node_id k = make_iota(c->g, QN_I64, shape_of(c, x), rank - 1);
    return make3(c->g, OP_WHERE, make2(c->g, op, i, k), x, number(c, x, 0));
}

static node_id part_below(const grad *c, node_id x) {
    return turned(c, part(c, OP_LT, turned(c, x)));
}

static node_id lower(const grad *c, node_id x) { /* with the diagonal */
    return turned(c, part(c, OP_LE, turned(c, x)));
}

/* Rows of v along the rows or columns of a matrix [n, m]. */
static node_id spread(const grad *c, node_id v, sym n, bool columns) {
    sym m = size_of(c, v, 1);
    node_id x = make_reshape(c->g, v,
                             columns ? shape_with(c, v, 1, 2, (sym[]){SYM_ONE, m})
                                     : shape_with(c, v, 1, 2, (sym[]){m, SYM_ONE}));
    return make_expand(c->g, x,
                       columns ? shape_with(c, v, 1, 2, (sym[]){n, m})
                               : shape_with(c, v, 1, 2, (sym[]){m, n}));
}

static node_id diagonal_of(const grad *c, node_id v) { /* a matrix of it */
    return part(c, OP_EQ, spread(c, v, size_of(c, v, 1), true));
}

static node_id symmetric(const grad *c, node_id x) {
    node_id sum = add(c, x, turned(c, x));
    return times(c, sum, number(c, sum, 0.5));
}

/* Another result of the call that n is one of, of a shape. */
static node_id result(const grad *c, node_id n, int which, tuple_id shape) {
    const graph_node x = *node_at(c->g, n);
    call_attr a = node_call(c->g, &x);
    a.result = which;
    return make_call(c->g, &a, (qn_dtype)x.dtype, shape, x.sources, x.src);
}

static node_id solve(const grad *c, node_id a, node_id b, bool transposed) {
    const call_attr call = {ROUTINE_SOLVE, 0, 1, {transposed}};
    return make_call(c->g, &call, type_of(c, b), shape_of(c, b), 2, (const node_id[]){a, b});
}

static node_id solve_triangular(const grad *c, node_id a, node_id b, bool upper, bool transposed) {
    const call_attr call = {ROUTINE_SOLVE_TRIANGULAR, 0, 3, {upper, transposed, false}};
    return make_call(c->g, &call, type_of(c, b), shape_of(c, b), 2, (const node_id[]){a, b});
}

/* ---- triangles and systems ------------------------------------------------------------------- */

/* a = L L': gradient L'^-1 F L^-1, symmetric, F the lower half of L' g, the diagonal halved. */
void call_rule_cholesky(grad *c, node_id n, node_id g) {
    node_id f = product(c, turned(c, n), g), d = part(c, OP_EQ, f);
    f = subtract(c, lower(c, f), times(c, d, number(c, d, 0.5)));
    node_id s = solve_triangular(c, n, f, false, true);
    s = turned(c, solve_triangular(c, n, turned(c, s), false, true));
    grad_add(c, n, 0, symmetric(c, s));
}

/* a x = b: of b a'^-1 g, of a minus that times x'. */
void call_rule_solve(grad *c, node_id n, node_id g) {
    bool transposed = node_call(c->g, node_at(c->g, n)).attr[0] != 0;
    node_id of_b = solve(c, source(c, n, 0), g, !transposed);
    grad_add(c, n, 1, of_b);
    if (!grad_wants(c, n, 0)) return;
    node_id of_a = transposed ? product(c, n, turned(c, of_b)) : product(c, of_b, turned(c, n));
    grad_add(c, n, 0, make1(c->g, OP_NEG, of_a));
}

void call_rule_solve_triangular(grad *c, node_id n, node_id g) {
    const graph_node x = *node_at(c->g, n);
    call_attr call = node_call(c->g, &x);
    bool upper = call.attr[0] != 0, transposed = call.attr[1] != 0;
    call.attr[1] = !transposed;
    node_id of_b =
        make_call(c->g, &call, (qn_dtype)x.dtype, x.shape, 2, (const node_id[]){x.src[0], g});
    grad_add(c, n, 1, of_b);
    if (!grad_wants(c, n, 0)) return;
    node_id of_a = transposed ? product(c, n, turned(c, of_b)) : product(c, of_b, turned(c, n));
    of_a = make1(c->g, OP_NEG, upper ? turned(c, lower(c, turned(c, of_a))) : lower(c, of_a));
    if (call.attr[2]) of_a = subtract(c, of_a, part(c, OP_EQ, of_a));
    grad_add(c, n, 0, of_a);
}

/* The sign has none; log|det|: g a'^-1; det: g det a'^-1. */
void call_rule_determinant(grad *c, node_id n, node_id g) {
    int which = node_call(c->g, node_at(c->g, n)).result;
    node_id a = source(c, n, 0);
    if (which == 0) return;
    node_id inverse = solve(c, a, part(c, OP_EQ, number(c, a, 1)), true);
    if (which == 2) g = times(c, g, n);
    tuple_id one = shape_with(c, a, 2, 2, (sym[]){SYM_ONE, SYM_ONE});
    g = make_expand(c->g, make_reshape(c->g, g, one), shape_of(c, a));
    grad_add(c, n, 0, times(c, g, inverse));
}

/* The right upper quarter of exp([[a', g], [0, a']]): Mathias 1996. */
void call_rule_matrix_exp(grad *c, node_id n, node_id g) {
    node_id a = turned(c, source(c, n, 0)), zero = number(c, a, 0);
    int rank = node_rank(c->g, a), row = rank - 2, column = rank - 1;
    node_id top = make_join(c->g, 2, (node_id[]){a, g}, column);
    node_id bottom = make_join(c->g, 2, (node_id[]){zero, a}, column);
    node_id whole = make_join(c->g, 2, (node_id[]){top, bottom}, row);
    const call_attr call = {ROUTINE_MATRIX_EXP, 0, 0, {0}};
    node_id e = make_call(c->g, &call, type_of(c, a), shape_of(c, whole), 1, &whole);
    int64_t slice[3 * QN_MAX_RANK];
    const int64_t *dim = node_dims(c->g, a, &rank);
    for (int i = 0; i < rank; i++) {
        slice[3 * i] = i == column ? dim[i] : SYM_ZERO;
        slice[3 * i + 1] = dim[i];
        slice[3 * i + 2] = 1;
    }
    grad_add(c, n, 0, make_slice(c->g, e, slice));
}

/* ---- turned matrices ------------------------------------------------------------------------- */

/* a = Q R, no more columns than rows: (gQ + Q copy(M)) R'^-1, M = R gR' - gQ' Q, copy(M) symmetric
 * with M's lower triangle. */
void call_rule_qr(grad *c, node_id n, node_id g) {
    node_id a = source(c, n, 0), m;
    sym rows = size_of(c, a, 2), k = size_of(c, a, 1);
    if (sym_hi(c->g->syms, k) > sym_lo(c->g->syms, rows))
        raise_error(c->g->ctx, QN_EGRAPH,
                    "qr: no gradient where there may be more columns than rows");
    bool of_q = node_call(c->g, node_at(c->g, n)).result == 0;
    node_id q = of_q ? n : result(c, n, 0, shape_of(c, a));
    node_id r = of_q ? result(c, n, 1, shape_with(c, a, 2, 2, (sym[]){k, k})) : n;
    if (of_q)
        m = make1(c->g, OP_NEG, product(c, turned(c, g), q));
    else
        m = product(c, r, turned(c, g));
    node_id low = lower(c, m), copy = add(c, low, turned(c, part_below(c, m)));
    node_id s = product(c, q, copy);
    if (of_q) s = add(c, g, s);
    grad_add(c, n, 0, turned(c, solve_triangular(c, r, turned(c, s), true, false)));
}

/* x over the differences of the columns' and the rows' number; on the diagonal, and where they are
 * equal, nothing is divided and nothing passes. */
static node_id over_differences(const grad *c, node_id x, node_id v) {
    sym n = size_of(c, v, 1);
    node_id d = subtract(c, spread(c, v, n, true), spread(c, v, n, false));
    node_id none = make2(c->g, OP_EQ, d, number(c, d, 0));
    node_id safe = make3(c->g, OP_WHERE, none, number(c, d, 1), d);
    return make3(c->g, OP_WHERE, none, number(c, x, 0), make2(c->g, OP_DIV, x, safe));
}

/* a = V diag(w) V': V (diag(gw) + (V' gV) / (wj - wi)) V'. */
void call_rule_eigh(grad *c, node_id n, node_id g) {
    node_id a = source(c, n, 0), inner;
    sym k = size_of(c, a, 1);
    if (node_call(c->g, node_at(c->g, n)).result == 0) {
        inner = diagonal_of(c, g);
    } else {
        node_id w = result(c, n, 0, shape_with(c, a, 2, 1, &k));
        inner = over_differences(c, product(c, turned(c, n), g), w);
    }
    node_id v = result(c, n, 1, shape_of(c, a));
    grad_add(c, n, 0, symmetric(c, product(c, product(c, v, inner), turned(c, v))));
}

/* What of x lies outside of the space of q's columns. */
static node_id outside(const grad *c, node_id q, node_id x) {
    return subtract(c, x, product(c, q, product(c, turned(c, q), x)));
}

/* a = U diag(s) V': of s U diag(g) V'; of U (U (skew(U' g) / E) diag(s) + outside(g) / s) V'; of V'
 * likewise of the transpose; E is sj^2 - si^2. */
void call_rule_svd(grad *c, node_id n, node_id g) {
    node_id a = source(c, n, 0), inner;
    int which = node_call(c->g, node_at(c->g, n)).result, rank;
    const int64_t *dim = node_dims(c->g, a, &rank);
    sym rows = (sym)dim[rank - 2], columns = (sym)dim[rank - 1], k;
    k = which == 0 ? size_of(c, n, 1) : which == 1 ? size_of(c, n, 1) : size_of(c, n, 2);
    node_id u = result(c, n, 0, shape_with(c, a, 2, 2, (sym[]){rows, k}));
    node_id s = result(c, n, 1, shape_with(c, a, 2, 1, &k));
    node_id v = turned(c, result(c, n, 2, shape_with(c, a, 2, 2, (sym[]){k, columns})));
    if (which == 1) {
        inner = diagonal_of(c, g);
        grad_add(c, n, 0, product(c, product(c, u, inner), turned(c, v)));
        return;
    }
    node_id q = which == 0 ? u : v, other = which == 0 ? v : u;
    if (which == 2) g = turned(c, g);
    node_id skew = product(c, turned(c, q), g);
    skew = over_differences(c, subtract(c, skew, turned(c, skew)), times(c, s, s));
    node_id first = product(c, q, times(c, skew, spread(c, s, k, true)));
    node_id rest = outside(c, q, g);
    rest = make2(c->g, OP_DIV, rest, spread(c, s, size_of(c, q, 2), true));
    node_id r = product(c, add(c, first, rest), turned(c, other));
    grad_add(c, n, 0, which == 0 ? r : turned(c, r));
}

/* ---- complex vectors ------------------------------------------------------------------------- */

typedef struct complex_node {
    node_id re, im;
} complex_node;

/* Part 0 or 1 of pairs along the last axis. */
static node_id part_of_pairs(const grad *c, node_id x, int which) {
    int rank;
    const int64_t *dim = node_dims(c->g, x, &rank);
    int64_t at[3 * QN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        at[3 * i] = i == rank - 1 ? which : 0;
        at[3 * i + 1] = i == rank - 1 ? SYM_ONE : dim[i];
        at[3 * i + 2] = 1;
    }
    return make_reshape(c->g, make_slice(c->g, x, at), shape_with(c, x, 1, 0, NULL));
}

static complex_node parts_of(const grad *c, node_id x) {
    return (complex_node){part_of_pairs(c, x, 0), part_of_pairs(c, x, 1)};
}

static complex_node complex_product(const grad *c, complex_node a, complex_node b) {
    node_id re = subtract(c, product(c, a.re, b.re), product(c, a.im, b.im));
    return (complex_node){re, add(c, product(c, a.re, b.im), product(c, a.im, b.re))};
}

static complex_node adjoint(const grad *c, complex_node a) {
    return (complex_node){turned(c, a.re), make1(c->g, OP_NEG, turned(c, a.im))};
}

/* Columns' number less rows' number of a vector, 1 on the diagonal. */
static complex_node differences(const grad *c, complex_node w) {
    sym n = size_of(c, w.re, 1);
    node_id re = subtract(c, spread(c, w.re, n, true), spread(c, w.re, n, false));
    node_id im = subtract(c, spread(c, w.im, n, true), spread(c, w.im, n, false));
    return (complex_node){add(c, re, part(c, OP_EQ, number(c, re, 1))), im};
}

/* a = V diag(w) V^-1, * the conjugate's transpose: V^-* (diag(gw) + (K - V* V diag(re K)) /
 * conj(wj - wi)) V*, K = V* gV, of which a real source takes the real part (Boeddeker et al.
 * 2017, 4.77). What is on K's diagonal and imaginary moves phases, which are as the routine gives
 * them. */
void call_rule_eig(grad *c, node_id n, node_id g) {
    node_id a = source(c, n, 0);
    sym k = size_of(c, a, 1), two = sym_const(c->g->syms, 2);
    bool of_values = node_call(c->g, node_at(c->g, n)).result == 0;
    complex_node v, given = parts_of(c, g), inner;
    v = parts_of(c, of_values ? result(c, n, 1, shape_with(c, a, 2, 3, (sym[]){k, k, two})) : n);
    complex_node turned_v = adjoint(c, v);
    if (of_values) {
        inner = (complex_node){diagonal_of(c, given.re), diagonal_of(c, given.im)};
    } else {
        complex_node w = parts_of(c, result(c, n, 0, shape_with(c, a, 2, 2, (sym[]){k, two})));
        complex_node e = differences(c, w), all = complex_product(c, turned_v, given);
        complex_node gram = complex_product(c, turned_v, v);
        node_id along = part(c, OP_EQ, all.re);
        node_id re = subtract(c, all.re, product(c, gram.re, along));
        node_id im = subtract(c, all.im, product(c, gram.im, along));
        node_id size = add(c, times(c, e.re, e.re), times(c, e.im, e.im));
        inner.re = subtract(c, times(c, re, e.re), times(c, im, e.im));
        inner.im = add(c, times(c, re, e.im), times(c, im, e.re));
        inner.re = part(c, OP_NE, make2(c->g, OP_DIV, inner.re, size));
        inner.im = part(c, OP_NE, make2(c->g, OP_DIV, inner.im, size));
    }
    inner = complex_product(c, inner, turned_v);
    /* A + iB as [A -B; B A], of V*, and a column of both parts */
    int rows = node_rank(c->g, a) - 2;
    node_id minus_im = make1(c->g, OP_NEG, turned_v.im);
    node_id top = make_join(c->g, 2, (node_id[]){turned_v.re, minus_im}, rows + 1);
    node_id bottom = make_join(c->g, 2, (node_id[]){turned_v.im, turned_v.re}, rows + 1);
    node_id whole = make_join(c->g, 2, (node_id[]){top, bottom}, rows);
    node_id right = make_join(c->g, 2, (node_id[]){inner.re, inner.im}, rows);
    node_id x = solve(c, whole, right, false);
    int rank;
    const int64_t *dim = node_dims(c->g, x, &rank);
    int64_t at[3 * QN_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        at[3 * i] = 0;
        at[3 * i + 1] = i == rows ? (int64_t)k : dim[i];
        at[3 * i + 2] = 1;
    }
    grad_add(c, n, 0, make_slice(c->g, x, at));
}
