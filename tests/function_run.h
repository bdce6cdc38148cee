/* function_run.h - a call of every public function in a dtype, by the rows of function_cases.h: its
 * value, its gradients, and what shapes went in and came out. */
#ifndef FUNCTION_RUN_H
#define FUNCTION_RUN_H

#include "graph/graph.h"
#include "quern.h"
#include "test.h"

enum { LEAVES = 8 };

typedef struct args {
    qn_ctx *qn;
    qn_dtype d, bits; /* under test; one of as many bits */
    qn_dtype like;    /* where d is f32: whose digits the inputs have */
    uint64_t draw;    /* which numbers */
    double share;     /* of the range that they are from: 0 is all of it */
    double lo, hi;
    qn_tensor *leaf[LEAVES];
    double *data[LEAVES];
    int64_t count[LEAVES];
    int leaves, indices;
    int nudged; /* this leaf's */
    int64_t element;
    double by;
    bool slopes; /* the sum of the gradients in place of the result */
} args;

typedef struct function_case {
    const char *name;
    double lo, hi;
    qn_tensor *(*call)(args *a);
} function_case;

/* ---- inputs ---------------------------------------------------------------------------------- */

static qn_tensor *from_doubles(qn_ctx *qn, qn_dtype d, int rank, const int64_t *dim, int64_t n,
                               const double *x) {
    void *data = calloc((size_t)n, qn_dtype_size(d));
    for (int64_t i = 0; i < n; i++)
        if (dtype_is_float(d))
            dtype_set_f(d, data, i, x[i]);
        else
            dtype_set_i(d, data, i, (int64_t)x[i]);
    qn_tensor *t = qn_from(qn, d, rank, dim, data);
    free(data);
    return t;
}

static int64_t product(int rank, const int64_t *dim) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dim[i];
    return n;
}

/* Numbers from lo to hi, for integers of either sign what is left of them, not all small. */
static qn_tensor *input(args *a, int rank, const int64_t *dim) {
    int64_t n = product(rank, dim);
    double *x = calloc((size_t)n, sizeof *x);
    uint64_t seed = 1000 + (uint64_t)a->leaves + 100 * a->draw;
    double lo = dtype_is_unsigned(a->d) || a->d == QN_BOOL ? fmax(a->lo, 0) : a->lo;
    if (a->share > 0) lo = a->hi - (a->hi - lo) * a->share;
    for (int64_t i = 0; i < n; i++) {
        x[i] = lo + (a->hi - lo) * test_uniform(&seed);
        if (!dtype_is_float(a->d)) x[i] = floor(x[i] + 0.5);
        if (a->d == QN_BOOL) x[i] = (double)((int64_t)x[i] & 1);
        if (dtype_is_narrow(a->d)) x[i] = dtype_round(a->d, x[i]);
        if (dtype_is_narrow(a->like)) x[i] = dtype_round(a->like, x[i]);
    }
    if (a->leaves == a->nudged) x[a->element] += a->by;
    qn_tensor *t = from_doubles(a->qn, a->d, rank, dim, n, x);
    a->leaf[a->leaves] = t;
    a->count[a->leaves] = n;
    a->data[a->leaves++] = x;
    return t;
}

static qn_tensor *index_input(args *a, int64_t below, int rank, const int64_t *dim) {
    int64_t n = product(rank, dim), *x = calloc((size_t)n, sizeof *x);
    uint64_t seed = 77 + (uint64_t)a->indices++;
    for (int64_t i = 0; i < n; i++) x[i] = test_below(&seed, below);
    qn_tensor *t = qn_from(a->qn, QN_I64, rank, dim, x);
    free(x);
    return t;
}

#define DIMS(...)         ((int64_t[]){__VA_ARGS__})
#define AXES(...)         ((int[]){__VA_ARGS__})
#define LIST(...)         ((qn_tensor *[]){__VA_ARGS__})
#define RANK(...)         ((int)(sizeof DIMS(__VA_ARGS__) / sizeof(int64_t)))
#define IN(...)           input(a, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))
#define INDEX(below, ...) index_input(a, below, RANK(__VA_ARGS__), DIMS(__VA_ARGS__))

/* Several results as one. */
static qn_tensor *both_of(qn_tensor *x, qn_tensor *y) {
    x = qn_reshape(x, 1, DIMS(-1));
    y = qn_reshape(y, 1, DIMS(-1));
    return qn_concat(2, LIST(x, y), 0);
}

static qn_tensor *split_of(qn_tensor *x) {
    qn_tensor *out[3] = {NULL};
    if (qn_split(x, 1, 3, DIMS(1, 3, 2), out)) return NULL;
    return qn_concat(3, LIST(out[2], out[0], out[1]), 1);
}

static qn_tensor *chunk_of(qn_tensor *x) {
    qn_tensor *out[3] = {NULL};
    if (qn_chunk(x, 1, 3, out)) return NULL;
    return qn_concat(3, LIST(out[2], out[0], out[1]), 1);
}

static qn_tensor *meshgrid_of(qn_tensor *x, qn_tensor *y) {
    qn_tensor *out[2] = {NULL};
    if (qn_meshgrid(2, LIST(x, y), out)) return NULL;
    return qn_stack(2, out, 0);
}

static qn_tensor *topk_of(qn_tensor *x) {
    qn_tensor *v = NULL, *i = NULL;
    if (qn_topk(x, 3, 1, true, &v, &i)) return NULL;
    return qn_add(v, qn_cast(i, qn_dtype_of(v)));
}

static qn_tensor *kthvalue_of(qn_tensor *x) {
    qn_tensor *v = NULL, *i = NULL;
    if (qn_kthvalue(x, 2, 0, true, &v, &i)) return NULL;
    return qn_add(v, qn_cast(i, qn_dtype_of(v)));
}

static qn_tensor *mode_of(qn_tensor *x) {
    qn_tensor *v = NULL, *i = NULL;
    if (qn_mode(x, 1, false, &v, &i)) return NULL;
    return qn_add(v, qn_cast(i, qn_dtype_of(v)));
}

static qn_tensor *unique_of(qn_tensor *x) {
    qn_tensor *v = NULL, *counts = NULL;
    if (qn_unique(x, &v, NULL, NULL, &counts, NULL)) return NULL;
    return qn_add(v, qn_cast(counts, qn_dtype_of(v)));
}

static qn_tensor *max_pool_index_of(qn_tensor *x) {
    qn_tensor *v = NULL, *i = NULL;
    const qn_pool_options o = QN_POOL_OPTIONS(.stride = {2, 1}, .before = {1, 0}, .ceil = true);
    if (qn_max_pool_index(x, DIMS(3, 2), &o, &v, &i)) return NULL;
    return qn_add(v, qn_cast(i, qn_dtype_of(v)));
}

static qn_tensor *fractional_of(qn_tensor *x, qn_tensor *samples) {
    qn_tensor *v = NULL;
    return qn_fractional_max_pool(x, samples, DIMS(2, 3), DIMS(4, 2), &v, NULL) ? NULL : v;
}

/* Each mode. */
static qn_tensor *interpolate_of(args *a) {
    const qn_interpolate_options o[] = {
        QN_INTERPOLATE_OPTIONS(.mode = QN_INTERPOLATE_NEAREST),
        QN_INTERPOLATE_OPTIONS(.mode = QN_INTERPOLATE_NEAREST_CENTER, .scale = {1.3, 1.7}),
        QN_INTERPOLATE_OPTIONS(.mode = QN_INTERPOLATE_LINEAR),
        QN_INTERPOLATE_OPTIONS(.mode = QN_INTERPOLATE_CUBIC, .align_corners = true),
        QN_INTERPOLATE_OPTIONS(.mode = QN_INTERPOLATE_LINEAR, .antialias = true),
        QN_INTERPOLATE_OPTIONS(.mode = QN_INTERPOLATE_AREA)};
    qn_tensor *y[COUNT_OF(o)];
    for (size_t i = 0; i < COUNT_OF(o); i++) {
        y[i] = qn_interpolate(IN(1, 2, 4, 5), DIMS(6, 3), &o[i]);
        y[i] = qn_reshape(qn_cast(y[i], qn_dtype_of(y[0])), 1, DIMS(-1));
    }
    return qn_concat((int)COUNT_OF(o), y, 0);
}

static qn_tensor *nonzero_of(qn_tensor *x) {
    qn_tensor *at = NULL, *n = NULL;
    return qn_nonzero(x, 20, &at, &n) ? NULL : qn_cast(qn_add(at, n), qn_dtype_of(x));
}

static qn_tensor *masked_select_of(qn_tensor *x, qn_tensor *mask) {
    qn_tensor *v = NULL, *n = NULL;
    if (qn_masked_select(x, mask, -1, &v, &n)) return NULL;
    return qn_add(v, qn_cast(n, qn_dtype_of(v)));
}

/* x x' + 2 + the row's number on the diagonal, so that no two eigenvalues are close. */
static qn_tensor *positive_of(qn_tensor *x) {
    qn_dtype d = qn_dtype_of(x) == QN_F64 ? QN_F64 : QN_F32;
    x = qn_cast(x, d);
    int64_t n = qn_dim(x, -1);
    qn_tensor *one = qn_eye(handle_at(x)->ctx, d, n, n);
    qn_tensor *more = qn_iota(handle_at(x)->ctx, d, 1, &n, 0);
    x = qn_matmul(x, qn_transpose(x, -1, -2));
    return qn_add(x, qn_mul(one, qn_add(qn_mul(more, qn_like(more, 4)), qn_like(more, 2))));
}

static qn_tensor *slogdet_of(qn_tensor *x) {
    qn_tensor *sign = NULL, *size = NULL;
    return qn_slogdet(x, &sign, &size) ? NULL : qn_add(sign, size);
}

static qn_tensor *qr_of(qn_tensor *x) {
    qn_tensor *q = NULL, *r = NULL;
    return qn_qr(x, &q, &r) ? NULL : qn_add(q, r);
}

/* Whatever the vectors' signs are. */
static qn_tensor *eigh_of(qn_tensor *x) {
    qn_tensor *w = NULL, *v = NULL;
    return qn_eigh(x, &w, &v) ? NULL : qn_mul(qn_square(v), qn_sqrt(w));
}

static qn_tensor *eig_of(qn_tensor *x) {
    qn_tensor *w = NULL, *v = NULL;
    return qn_eig(x, &w, &v) ? NULL : qn_mul(qn_square(qn_abs(v)), qn_sqrt(qn_real(w)));
}

static qn_tensor *svd_of(qn_tensor *x) {
    qn_tensor *u = NULL, *s = NULL, *vh = NULL;
    return qn_svd(x, &u, &s, &vh) ? NULL : qn_add(qn_square(u), qn_mul(qn_square(vh), s));
}

static qn_tensor *meshgrid_xy_of(qn_tensor *x, qn_tensor *y) {
    qn_tensor *out[2] = {NULL};
    if (qn_meshgrid_xy(2, LIST(x, y), out)) return NULL;
    return qn_stack(2, out, 0);
}

static qn_tensor *broadcast_of(qn_tensor *x, qn_tensor *y) {
    qn_tensor *out[2] = {NULL};
    if (qn_broadcast_arrays(2, LIST(x, y), out)) return NULL;
    return qn_stack(2, out, 0);
}

static qn_tensor *unstack_of(qn_tensor *x) {
    qn_tensor *out[4] = {NULL};
    if (qn_unstack(x, 1, 4, out)) return NULL;
    return qn_stack(3, LIST(out[3], out[0], out[1]), 0);
}

static qn_tensor *aminmax_of(qn_tensor *x) {
    qn_tensor *out[2] = {NULL};
    if (qn_aminmax(x, 1, false, out)) return NULL;
    return qn_stack(2, out, 0);
}

static qn_tensor *frexp_of(qn_tensor *x) {
    qn_tensor *out[2] = {NULL};
    if (qn_frexp(x, out)) return NULL;
    return qn_ldexp(out[0], qn_add(out[1], qn_scalar(qn_context(x), QN_I32, 3)));
}

static qn_tensor *mx_of(qn_tensor *x, bool back) {
    qn_tensor *out[2] = {NULL};
    if (qn_mx_quantize(x, QN_F8_E5M2, 3, out)) return NULL;
    if (back) return qn_mx_dequantize(out[0], out[1]);
    return qn_add(qn_cast(qn_sum(out[1], 1, true), QN_F32), out[0]);
}

static qn_tensor *batch_norm_of(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta) {
    qn_tensor *out[3] = {NULL};
    if (qn_batch_norm_training(x, gamma, beta, 1e-3, out)) return NULL;
    return both_of(out[0], both_of(out[1], out[2]));
}

static qn_tensor *key_split_of(qn_tensor *key) {
    qn_tensor *out[3] = {NULL};
    return qn_key_split(key, 3, out) ? NULL : qn_stack(3, out, 0);
}

/* Arrays apart, so that their axes come first; and the same written. */
static qn_tensor *index_of(qn_tensor *x, qn_tensor *i, qn_tensor *j) {
    const qn_index_item items[] = {QN_AT_PLACES(j), QN_SLICE(-1, 0, -2), QN_AT_PLACES(i)};
    return qn_index(x, 3, items);
}

static qn_tensor *index_put_of(qn_tensor *x, qn_tensor *i, qn_tensor *j, qn_tensor *src) {
    const qn_index_item items[] = {QN_AT_PLACES(j), QN_SLICE(-1, 0, -2), QN_AT_PLACES(i)};
    qn_combine how = qn_dtype_of(x) == QN_BOOL ? QN_COMBINE_OR : QN_COMBINE_SUM;
    return qn_index_put(x, 3, items, src, how);
}

/* ---- the cases ------------------------------------------------------------------------------- */

#include "function_cases.h"

#define ONE(name, lo, hi)                                                                          \
    static qn_tensor *case_##name(args *a) {                                                       \
        return qn_##name(M);                                                                       \
    }
#define TWO(name, lo, hi)                                                                          \
    static qn_tensor *case_##name(args *a) {                                                       \
        qn_tensor *x = M;                                                                          \
        return qn_##name(x, M);                                                                    \
    }
#define ANY(name, lo, hi, expression)                                                              \
    static qn_tensor *case_##name(args *a) {                                                       \
        (void)a;                                                                                   \
        return expression;                                                                         \
    }
#define ONE_UNARY  ONE
#define ONE_BINARY TWO
#define ONE_TENSOR(name, lo, hi)
#define ONE_STATUS(name, lo, hi)
UNARY_ROWS(ONE)
BINARY_ROWS(TWO)
FUNCTION_CASES(ANY)
#define X(KIND, name, params, ORACLE, lo, hi, doc) ONE_##KIND(name, lo, hi)
#include "func/funcs.h"
#undef X

#define ROW(name, lo, hi)       {#name, lo, hi, case_##name},
#define ROW_OF(name, lo, hi, _) ROW(name, lo, hi)
#define ROW_UNARY               ROW
#define ROW_BINARY              ROW
#define ROW_TENSOR(name, lo, hi)
#define ROW_STATUS(name, lo, hi)
static const function_case cases[] = {UNARY_ROWS(ROW) BINARY_ROWS(ROW) FUNCTION_CASES(ROW_OF)
#define X(KIND, name, params, ORACLE, lo, hi, doc) ROW_##KIND(name, lo, hi)
#include "func/funcs.h"
#undef X
};

/* ---- results --------------------------------------------------------------------------------- */

typedef struct value {
    qn_code code; /* it was refused */
    qn_dtype dtype;
    int64_t n;
    void *data;
} value;

typedef struct outcome {
    value y, gradient[LEAVES];
    int gradients, leaves;
    char shapes[200]; /* of the inputs and the result */
} outcome;

static void free_outcome(outcome *o) {
    free(o->y.data);
    for (int i = 0; i < o->gradients; i++) free(o->gradient[i].data);
    *o = (outcome){.gradients = 0};
}

static value read_value(qn_ctx *qn, qn_tensor *t) {
    value v = {.code = t ? QN_OK : qn_error_code(qn)};
    if (!t) return v;
    v.dtype = qn_dtype_of(t);
    v.n = qn_numel(t);
    size_t size = (size_t)v.n * qn_dtype_size(v.dtype);
    v.data = calloc(size + 1, 1);
    v.code = (qn_code)qn_read(t, v.data, size);
    return v;
}

static double number(const value *v, int64_t i) {
    return dtype_is_float(v->dtype) ? dtype_get_f(v->dtype, v->data, i)
                                    : (double)dtype_get_i(v->dtype, v->data, i);
}

/* Weights of the results' elements, so that gradients are of their weighted sum. */
static double weight(int64_t i) {
    return 0.5 + (double)(i * 7 % 11) / 8;
}

static qn_tensor *weights(qn_ctx *qn, qn_tensor *y) {
    int64_t dim[QN_MAX_RANK], n = qn_numel(y);
    double *x = calloc((size_t)n + 1, sizeof *x);
    int rank = qn_rank(y);
    for (int i = 0; i < rank; i++) dim[i] = qn_dim(y, i);
    for (int64_t i = 0; i < n; i++) x[i] = weight(i);
    qn_tensor *w = from_doubles(qn, qn_dtype_of(y), rank, dim, n, x);
    free(x);
    return w;
}

static void take_gradients(args *a, qn_tensor *y, outcome *o) {
    qn_tensor *out[LEAVES] = {NULL};
    if (!a->leaves || !dtype_is_float(a->d) || !dtype_is_float(qn_dtype_of(y))) return;
    int code = qn_grad(y, weights(a->qn, y), a->leaves, a->leaf, out);
    o->gradients = a->leaves;
    for (int i = 0; i < a->leaves; i++) {
        o->gradient[i] = code ? (value){.code = (qn_code)code} : read_value(a->qn, out[i]);
    }
}

/* The gradients' weighted sum, in which every input has a share, be it 0; NULL of none. */
static qn_tensor *sum_of_slopes(args *a, qn_tensor *y) {
    qn_tensor *out[LEAVES] = {NULL}, *sum = NULL;
    if (!y || !a->leaves || !dtype_is_float(qn_dtype_of(y))) return NULL;
    if (qn_grad(y, weights(a->qn, y), a->leaves, a->leaf, out)) return NULL;
    for (int i = 0; i < a->leaves; i++) {
        qn_tensor *none = qn_mul(a->leaf[i], qn_like(a->leaf[i], 0));
        qn_tensor *term = qn_add(qn_mul(out[i], weights(a->qn, out[i])), none);
        sum = qn_add(sum ? sum : qn_like(term, 0), qn_sum(term, QN_ALL, false));
    }
    return sum;
}

static void add_shape(char *text, size_t size, const char *before, const qn_tensor *t) {
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, size - at, "%s[", before);
    for (int i = 0; i < qn_rank(t) && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? ", " : "",
                               (long long)qn_dim(t, i));
    if (at < size) snprintf(text + at, size - at, "]");
}

static void run(const function_case *c, args *a, bool gradients, outcome *o) {
    static const qn_dtype bits[] = {0, QN_U8, QN_I16, 0, QN_F32, 0, 0, 0, QN_I64};
    qn_scope s = qn_scope_begin(a->qn);
    *o = (outcome){.gradients = 0};
    a->bits = a->d == QN_F32 ? QN_I32 : a->d == QN_F64 ? QN_I64 : bits[qn_dtype_size(a->d)];
    a->lo = c->lo, a->hi = c->hi;
    a->leaves = a->indices = 0;
    qn_tape *tape = qn_tape_begin(a->qn);
    qn_tensor *y = a->slopes ? sum_of_slopes(a, c->call(a)) : c->call(a);
    o->y = read_value(a->qn, y);
    if (y && !o->y.code && gradients) take_gradients(a, y, o);
    o->leaves = a->leaves;
    for (int i = 0; i < a->leaves; i++)
        add_shape(o->shapes, sizeof o->shapes, i ? ", " : "", a->leaf[i]);
    if (y) add_shape(o->shapes, sizeof o->shapes, a->leaves ? " to " : "", y);
    qn_tape_end(tape);
    qn_clear_error(a->qn);
    qn_scope_end(a->qn, s);
    for (int i = 0; i < a->leaves; i++) free(a->data[i]);
}

#endif
