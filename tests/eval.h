/* eval.h - a plain interpreter of graphs, so that tests of the graph room see values without any of
 * the rooms behind it. Every operation is a loop over the result's indices, written from ops.h's
 * words; elementwise ones use scalar_op, which test_dtype.c checks by itself. Nothing is fast.
 *
 * A leaf's data is kept by its buffer number in a table that close_graph() empties. */
#ifndef QN_TEST_EVAL_H
#define QN_TEST_EVAL_H
#include "graph/graph.h"
#include "test.h"

typedef struct eval_value {
    int rank;
    int64_t dim[QN_MAX_RANK], n;
    qn_dtype dtype;
    scalar *v;
} eval_value;

enum { EVAL_LEAVES = 4096 };
static scalar *eval_leaf[EVAL_LEAVES];
static uint32_t eval_leaves;

static inline qn_ctx *open_graph(void) {
    qn_ctx *qn = calloc(1, sizeof *qn);
    heap_open(&qn->heap, NULL, qn);
    qn->knob[KNOB_HISTORY].number = 64;
    guard gd;
    guard_open(&qn->heap, &gd);
    if (!setjmp(gd.at)) graph_open(qn);
    guard_close(&qn->heap, &gd);
    return qn;
}

/* Nothing may be alive and no memory taken. */
static inline void close_graph(qn_ctx *qn) {
    CHECK_INT(qn->graph->live, 0);
    CHECK_INT(qn->graph->handles, 0);
    CHECK(qn->heap.top == NULL);
    CHECK(qn->graph->func == NULL);
    graph_close(qn);
    CHECK_INT(qn->heap.bytes, 0);
    free(qn);
    while (eval_leaves) free(eval_leaf[--eval_leaves]);
}

/* A leaf nothing can be folded into, with these values (NULL: 0). */
static inline qn_tensor *leaf_of(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *dims,
                                 const double *data) {
    tuple_id shape = 0;
    CHECK(shape_from_user(qn, "leaf", rank, dims, &shape));
    qn_tensor *t = tensor_new(qn, node_buffer(qn->graph, dtype, shape, eval_leaves));
    graph_settle(qn->graph);
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i] >= 0 ? dims[i] : 0;
    scalar *v = n < 1 << 20 ? calloc((size_t)n + 1, sizeof *v) : NULL; /* huge: a shape only */
    for (int64_t i = 0; data && i < n; i++) v[i] = scalar_number(dtype, data[i]);
    if (eval_leaves < EVAL_LEAVES)
        eval_leaf[eval_leaves++] = v;
    else
        free(v);
    return t;
}

static inline qn_tensor *leaf(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *dims) {
    return leaf_of(qn, dtype, rank, dims, NULL);
}

/* ---- indices -------------------------------------------------------------------------------- */

static inline void eval_split(const eval_value *x, int64_t flat, int64_t *at) {
    for (int i = x->rank; i-- > 0;) {
        at[i] = flat % x->dim[i];
        flat /= x->dim[i];
    }
}

static inline int64_t eval_join(const eval_value *x, const int64_t *at) {
    int64_t flat = 0;
    for (int i = 0; i < x->rank; i++) flat = flat * x->dim[i] + at[i];
    return flat;
}

static inline int64_t eval_size(const graph *g, int64_t size) {
    return shape_bound(g, (sym)size);
}

/* ---- operations ----------------------------------------------------------------------------- */

static inline scalar eval_integer(qn_dtype d, int64_t v) {
    uint64_t element = 0;
    dtype_set_i(d, &element, 0, v);
    return scalar_from_bits(d, element);
}

static inline scalar eval_zero(qn_dtype d) {
    return dtype_is_float(d) ? (scalar){.f = 0} : (scalar){.i = 0};
}

/* Where in x the element `at` of the result comes from; false: nowhere (padding). */
static inline bool eval_from(const graph *g, const graph_node *n, const eval_value *x,
                             const eval_value *r, int64_t flat, int64_t *from) {
    int64_t at[QN_MAX_RANK], to[QN_MAX_RANK];
    int count;
    const int64_t *p = graph_tuple_get(g, n->attr, &count);
    eval_split(r, flat, at);
    for (int i = 0; i < r->rank && i < x->rank; i++) to[i] = at[i];
    switch (n->op) {
    case OP_RESHAPE:
        *from = flat;
        return true;
    case OP_PERMUTE:
        for (int i = 0; i < r->rank; i++) to[p[i]] = at[i];
        break;
    case OP_EXPAND:
        for (int i = 0; i < r->rank; i++) to[i] = x->dim[i] == 1 ? 0 : at[i];
        break;
    case OP_PAD:
        for (int i = 0; i < r->rank; i++) {
            int64_t place = at[i] - eval_size(g, p[3 * i]), every = p[3 * i + 2] + 1;
            if (place < 0 || place % every || place / every >= x->dim[i]) return false;
            to[i] = place / every;
        }
        break;
    case OP_SLICE:
        for (int i = 0; i < r->rank; i++) to[i] = eval_size(g, p[3 * i]) + at[i] * p[3 * i + 2];
        break;
    case OP_WINDOW: {
        int64_t place = eval_size(g, p[4]) + p[2] * at[p[0]] + p[3] * at[p[1]];
        if (place < 0 || place >= x->dim[p[0]]) return false;
        to[p[0]] = place;
        if (x->dim[p[1]] == 1) to[p[1]] = 0;
        break;
    }
    case OP_FLIP:
        for (int i = 0; i < count; i++) to[p[i]] = x->dim[p[i]] - 1 - at[p[i]];
        break;
    default:
        break;
    }
    for (int i = 0; i < x->rank; i++) CHECK(to[i] >= 0 && to[i] < x->dim[i]);
    *from = eval_join(x, to);
    return true;
}

/* The piece of a join in which an element of the result lies, and which it is there. */
static inline const eval_value *eval_piece(const graph *g, const graph_node *n,
                                           const eval_value *const *x, const eval_value *r,
                                           int64_t flat, int64_t *from) {
    int64_t at[QN_MAX_RANK];
    int count, k = 0, axis = (int)graph_tuple_get(g, n->attr, &count)[0];
    eval_split(r, flat, at);
    while (at[axis] >= x[k]->dim[axis]) at[axis] -= x[k++]->dim[axis];
    CHECK(k < n->sources);
    *from = eval_join(x[k], at);
    return x[k];
}

static inline bool eval_wins(int op, qn_dtype d, scalar a, scalar b) {
    bool larger = op == OP_ARGMAX;
    if (dtype_is_float(d)) {
        if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && !isnan(b.f);
        return larger ? a.f > b.f : a.f < b.f;
    }
    if (dtype_is_unsigned(d))
        return larger ? (uint64_t)a.i > (uint64_t)b.i : (uint64_t)a.i < (uint64_t)b.i;
    return larger ? a.i > b.i : a.i < b.i;
}

/* Element k of what reduction n reduces; false: it is masked. A product is rounded here, so that a
 * sum has one value whether it was made a sum of products or not. */
static inline bool eval_term(const graph_node *n, const eval_value *const *x, int64_t k,
                             scalar *out) {
    *out = x[0]->v[k];
    if (n->op != OP_SUM_PRODUCT) return true;
    const scalar both[2] = {x[0]->v[k], x[1]->v[k]};
    CHECK(scalar_op(OP_MUL, x[0]->dtype, x[0]->dtype, both, out));
    return n->sources < 3 || x[2]->v[k].i;
}

static inline void eval_reduce(const graph *g, const graph_node *n, const eval_value *const *src,
                               eval_value *r) {
    const eval_value *x = src[0];
    int count, m = 0;
    const int64_t *axes = graph_tuple_get(g, n->attr, &count);
    bool index = n->op == OP_ARGMAX || n->op == OP_ARGMIN;
    int row = monoid_of_reduction(n->op), combine = monoid_rows[row].combine;
    scalar *best = calloc((size_t)r->n + 1, sizeof *best);
    for (int64_t i = 0; i < r->n; i++) {
        if (index)
            r->v[i].i = -1;
        else
            r->v[i] = monoid_identity(row, 0, r->dtype);
    }
    for (int64_t k = 0; k < x->n; k++) {
        int64_t at[QN_MAX_RANK], to[QN_MAX_RANK], flat = 0;
        eval_split(x, k, at);
        m = 0;
        for (int i = 0, a = 0; i < x->rank; i++) {
            if (a < count && axes[a] == i) {
                flat = flat * x->dim[i] + at[i];
                a++;
            } else {
                to[m++] = at[i];
            }
        }
        int64_t o = eval_join(r, to);
        if (index) {
            if (r->v[o].i < 0 || eval_wins(n->op, x->dtype, x->v[k], best[o])) {
                r->v[o].i = flat;
                best[o] = x->v[k];
            }
        } else {
            scalar both[2] = {r->v[o]};
            if (!eval_term(n, src, k, &both[1])) continue;
            CHECK(scalar_op(combine, r->dtype, r->dtype, both, &r->v[o]));
        }
    }
    free(best);
}

static inline void eval_indexed(const graph *g, const graph_node *n, const eval_value *const *x,
                                eval_value *r) {
    int count;
    const int64_t *p = graph_tuple_get(g, n->attr, &count);
    if (n->op == OP_SCATTER) memcpy(r->v, x[0]->v, (size_t)r->n * sizeof *r->v);
    for (int64_t k = 0; k < x[1]->n; k++) {
        int64_t at[QN_MAX_RANK], index = x[1]->v[k].i;
        eval_split(x[1], k, at);
        bool inside = index >= 0 && index < x[0]->dim[p[0]];
        at[p[0]] = index;
        int64_t place = inside ? eval_join(x[0], at) : 0;
        if (n->op == OP_GATHER) {
            r->v[k] = inside ? x[0]->v[place] : eval_zero(r->dtype);
        } else if (inside && p[1] == MONOID_SET) {
            r->v[place] = x[2]->v[k];
        } else if (inside) {
            scalar both[2] = {r->v[place], x[2]->v[k]};
            CHECK(scalar_op(monoid_rows[p[1]].combine, r->dtype, r->dtype, both, &r->v[place]));
        }
    }
}

/* The result of the first n + 1 elements of a row, in the scan's order, from its own definition. */
static inline double eval_running(int by, const double *x, const double *y, int64_t n) {
    double r = by == MONOID_PROD ? 1 : 0, most = x[0];
    for (int64_t i = 0; i <= n; i++) {
        if (by == MONOID_MAX ? x[i] > most : x[i] < most) most = x[i];
        if (by == MONOID_SUM) r += x[i];
        if (by == MONOID_PROD) r *= x[i];
        if (by == MONOID_LOGSUMEXP) r += exp(x[i]);
        if (by == MONOID_AFFINE) r = x[i] * r + y[i];
    }
    if (by == MONOID_MAX || by == MONOID_MIN) return most;
    return by == MONOID_LOGSUMEXP ? log(r) : r;
}

static inline void eval_scan(const graph *g, const graph_node *n, const eval_value *const *x,
                             eval_value *r) {
    scan_attr s = node_scan(g, n);
    bool floats = dtype_is_float(r->dtype);
    int64_t at[QN_MAX_RANK];
    for (int64_t k = 0; k < r->n; k++) {
        double row[2][64] = {{0}};
        eval_split(r, k, at);
        int64_t here = at[s.axis], last = r->dim[s.axis] - 1;
        int64_t count = s.reverse ? last - here : here;
        for (int64_t i = 0; i <= count; i++) {
            at[s.axis] = s.reverse ? last - i : i;
            for (int c = 0; c < n->sources; c++) {
                scalar v = x[c]->v[eval_join(x[c], at)];
                row[c][i] = floats ? v.f : (double)v.i;
            }
        }
        double v = eval_running(s.monoid, row[0], row[1], count);
        if (floats)
            r->v[k].f = v;
        else
            r->v[k].i = (int64_t)v;
    }
}

static inline void eval_node(const graph *g, const graph_node *n, const eval_value *const *x,
                             eval_value *r) {
    int count;
    const int64_t *p = graph_tuple_get(g, n->attr, &count);
    int64_t at[QN_MAX_RANK], from;
    switch (op_rows[n->op].class_) {
    case CLASS_LEAF:
        for (int64_t i = 0; i < r->n; i++) {
            eval_split(r, i, at);
            if (n->op == OP_CONST)
                r->v[i] = scalar_from_bits(r->dtype, n->bits);
            else if (n->op == OP_IOTA)
                r->v[i] = eval_integer(r->dtype, at[p[0]]);
            else
                r->v[i] = eval_leaf[n->buffer][i];
        }
        break;
    case CLASS_ELEM:
        for (int64_t i = 0; i < r->n; i++) {
            scalar in[3];
            for (int k = 0; k < n->sources; k++) in[k] = x[k]->v[i];
            CHECK(scalar_op(n->op, r->dtype, x[n->sources - 1]->dtype, in, &r->v[i]));
        }
        break;
    case CLASS_MOVE:
        for (int64_t i = 0; i < r->n; i++)
            r->v[i] = eval_from(g, n, x[0], r, i, &from) ? x[0]->v[from] : eval_zero(r->dtype);
        break;
    case CLASS_JOIN:
        for (int64_t i = 0; i < r->n; i++) {
            const eval_value *piece = eval_piece(g, n, x, r, i, &from);
            r->v[i] = piece->v[from];
        }
        break;
    case CLASS_REDUCE:
        eval_reduce(g, n, x, r);
        break;
    case CLASS_INDEX:
        eval_indexed(g, n, x, r);
        break;
    case CLASS_SCAN:
        eval_scan(g, n, x, r);
        break;
    default:
        memcpy(r->v, x[0]->v, (size_t)r->n * sizeof *r->v);
    }
}

/* The value of a tensor; free its v. */
static inline eval_value eval(qn_tensor *t) {
    eval_value none = {.n = 0};
    if (!t) {
        FAIL("no tensor to evaluate");
        return none;
    }
    graph *g = tensor_ctx(t)->graph;
    arena a;
    arena_open(&a, &tensor_ctx(t)->heap);
    node_id *order;
    uint32_t n = graph_order_history(g, &a, 1, &tensor_at(t)->node, 0, &order), base = g->mark_base;
    eval_value *value = calloc(n, sizeof *value);
    for (uint32_t i = 0; i < n; i++) {
        const graph_node *node = node_at(g, order[i]);
        const eval_value *x[3];
        for (int k = 0; k < node->sources; k++) x[k] = &value[g->node[node->src[k]].mark - base];
        eval_value *r = &value[i];
        const int64_t *dims = node_dims(g, order[i], &r->rank);
        r->n = 1;
        r->dtype = (qn_dtype)node->dtype;
        for (int k = 0; k < r->rank; k++) r->n *= r->dim[k] = eval_size(g, dims[k]);
        r->v = calloc((size_t)r->n + 1, sizeof *r->v);
        eval_node(g, node, x, r);
    }
    for (uint32_t i = 0; i + 1 < n; i++) free(value[i].v);
    eval_value result = value[n - 1];
    free(value);
    arena_free(&a);
    return result;
}

static inline double eval_number(const eval_value *x, int64_t i) {
    if (dtype_is_float(x->dtype)) return x->v[i].f;
    return x->dtype == QN_U64 ? (double)(uint64_t)x->v[i].i : (double)x->v[i].i;
}

/* Compare all elements with `want`, and how many there are. */
#define CHECK_VALUES(t, n, want, rel) check_values(__FILE__, __LINE__, #t, t, n, want, rel)
static inline void check_values(const char *file, int line, const char *what, qn_tensor *t,
                                int64_t n, const double *want, double rel) {
    eval_value x = eval(t);
    test_int(file, line, what, x.n, n);
    for (int64_t i = 0; i < n && i < x.n; i++)
        test_near(file, line, what, eval_number(&x, i), want[i], rel, rel * 1e-3);
    free(x.v);
}
#endif
