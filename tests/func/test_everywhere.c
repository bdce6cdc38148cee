/* test_everywhere.c - every public function on every device, in every dtype, with its gradients.
 *
 * Each row of function_cases.h is called on `ref` and on the CPU by LLVM, by the C compiler, and
 * on OpenCL, whichever are there; all must refuse the same dtypes and give the same values, whole
 * numbers exactly, floats within some last places. Gradients of floating results by each input are
 * compared likewise, and on `ref` in f64, as second ones, with central differences. Elementwise
 * functions are held against their row's oracle. A function that the header declares and no row
 * calls is a failure.
 *
 * Kernels take the C compiler and OpenCL 0.1 s and more each: there f32 is tried, with the
 * gradients of every fourth function; with QN_TEST_ALL=1 in the environment everything, in some
 * minutes. QN_TEST_ROWS=take,index tries these functions alone. */
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

enum { LEAVES = 8, DEVICES = 4 };

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

static bool has_case(const char *name, size_t size) {
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (strlen(cases[i].name) == size && !memcmp(cases[i].name, name, size)) return true;
    return false;
}

/* As a header has them between its marks: how many. */
static int cases_of_header(const char *header) {
    FILE *f = fopen(header, "r");
    char line[400];
    bool inside = false;
    int found = 0;
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        inside |= strstr(line, "== generated by") != NULL;
        const char *at = inside && !strncmp(line, "QN_API", 6) ? strstr(line, "qn_") : NULL;
        while (at && at[strcspn(at, " *(")] != '(') at = strstr(at + 3, "qn_");
        if (!at) continue;
        size_t size = strcspn(at + 3, "(");
        found++;
        if (!has_case(at + 3, size)) FAIL("qn_%.*s has no case", (int)size, at + 3);
    }
    fclose(f);
    return found;
}

static void every_function_has_a_case(void) {
    int found = cases_of_header("include/quern_ops.h");
    if (!found) {
        SKIP("include/quern_ops.h is not here");
        return;
    }
    CHECK(found > 150 && cases_of_header("include/quern_ops_nn.h") > 50);
    CHECK(cases_of_header("include/quern_ops_linalg.h") > 30);
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (size_t j = 0; j < i; j++) CHECK(strcmp(cases[i].name, cases[j].name));
}

/* ---- devices --------------------------------------------------------------------------------- */

static struct device {
    const char *name, *device, *compiler;
    bool slow;
    qn_ctx *qn;
} devices[DEVICES] = {{"ref", "ref", NULL, false, NULL},
                      {"llvm", "cpu", "llvm", false, NULL},
                      {"cc", "cpu", "cc", true, NULL},
                      {"opencl", "opencl", NULL, true, NULL}};

static void open_devices(void) {
    for (int i = 0; i < DEVICES; i++) {
        if (devices[i].compiler) setenv("QN_CPU", devices[i].compiler, 1);
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[i].device, .threads = 1));
        unsetenv("QN_CPU");
        /* the CPU without this compiler is not it */
        const char *facts = qn && devices[i].compiler ? qn_device_facts(qn) : "";
        if (qn && devices[i].compiler && !*facts) {
            qn_close(qn);
            qn = NULL;
        }
        if (!qn) printf("no %s here\n", devices[i].name);
        devices[i].qn = qn;
    }
}

/* ---- results --------------------------------------------------------------------------------- */

typedef struct value {
    qn_code code; /* it was refused */
    qn_dtype dtype;
    int64_t n;
    void *data;
} value;

typedef struct outcome {
    value y, gradient[LEAVES];
    int gradients;
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
    qn_tape_end(tape);
    qn_clear_error(a->qn);
    qn_scope_end(a->qn, s);
    for (int i = 0; i < a->leaves; i++) free(a->data[i]);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double tolerance(qn_dtype d) {
    return d == QN_F64 ? 1e-12 : d == QN_F32 ? 1e-5 : d == QN_F16 ? 2e-2 : 0.15;
}

static double largest(const value *v) {
    double most = 0;
    for (int64_t i = 0; i < v->n; i++) most = fmax(most, fabs(number(v, i)));
    return isfinite(most) ? most : 0;
}

/* false: they differ, which was said. */
static bool same(const char *what, const char *who, qn_dtype d, const value *got,
                 const value *want) {
    const char *dtype = qn_dtype_name(d);
    if (got->code != want->code || got->dtype != want->dtype || got->n != want->n) {
        FAIL("%s of %s on %s: code %d, %lld of %s; on ref code %d, %lld of %s", what, dtype, who,
             (int)got->code, (long long)got->n, qn_dtype_name(got->dtype), (int)want->code,
             (long long)want->n, qn_dtype_name(want->dtype));
        return false;
    }
    double rel = dtype_is_float(got->dtype) ? tolerance(d == QN_F64 ? got->dtype : d) : 0;
    if (rel > 0 && !dtype_is_float(d)) rel = tolerance(got->dtype);
    double most = rel * largest(want);
    for (int64_t i = 0; i < got->n && !got->code; i++) {
        if (test_close(number(got, i), number(want, i), rel, most)) continue;
        FAIL("%s of %s on %s: [%lld] is %.17g, on ref %.17g", what, dtype, who, (long long)i,
             number(got, i), number(want, i));
        return false;
    }
    return true;
}

static void compare(const function_case *c, const char *who, qn_dtype d, const outcome *got,
                    const outcome *want) {
    char what[80];
    if (!same(c->name, who, d, &got->y, &want->y)) return;
    for (int i = 0; i < got->gradients && i < want->gradients; i++) {
        snprintf(what, sizeof what, "%s's gradient by input %d", c->name, i);
        same(what, who, d, &got->gradient[i], &want->gradient[i]);
    }
}

/* ---- the tests ------------------------------------------------------------------------------- */

static bool try_all(const struct device *v) {
    return !v->slow || getenv("QN_TEST_ALL") != NULL;
}

static int compared, gradients_compared, refused;

/* Is the function among those asked for? */
static bool is_wanted(const char *name) {
    const char *rows = getenv("QN_TEST_ROWS");
    size_t n = strlen(name);
    if (!rows) return true;
    for (const char *at = strstr(rows, name); at; at = strstr(at + 1, name))
        if ((at == rows || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

static void run_everywhere(size_t row, qn_dtype d) {
    const function_case *c = &cases[row];
    outcome want, got;
    args a = {.qn = devices[0].qn, .d = d, .nudged = -1};
    run(c, &a, true, &want);
    refused += want.y.code != QN_OK;
    for (int i = 1; i < DEVICES; i++) {
        const struct device *v = &devices[i];
        if (!v->qn || !(try_all(v) || d == QN_F32)) continue;
        bool gradients = try_all(v) || row % 4 == 0;
        a = (args){.qn = v->qn, .d = d, .nudged = -1};
        run(c, &a, gradients, &got);
        if (gradients) CHECK_INT(got.gradients, want.gradients);
        compare(c, v->name, d, &got, &want);
        compared++;
        gradients_compared += got.gradients;
        free_outcome(&got);
    }
    free_outcome(&want);
}

static void every_function_agrees_on_every_device(void) {
    for (size_t row = 0; row < COUNT_OF(cases); row++)
        for (int d = 0; d < DTYPE_COUNT && is_wanted(cases[row].name); d++)
            run_everywhere(row, (qn_dtype)d);
    printf("%zu functions: %d comparisons of values, %d of gradients, %d refusals\n",
           COUNT_OF(cases), compared, gradients_compared, refused);
    if (getenv("QN_TEST_ROWS")) return;
    CHECK(gradients_compared >= 500 || !devices[1].qn);
    CHECK(refused < 5 * (int)COUNT_OF(cases)); /* a call that no dtype takes tests nothing */
}

/* ---- narrow floats: rounded once ------------------------------------------------------------- */

/* From v to the next number of a half; its smallest normal numbers have all digits. */
static double last_place(qn_dtype d, double v) {
    int e;
    frexp(v, &e);
    int least = d == QN_F16 ? -14 : -126;
    return ldexp(1, (e - 1 < least ? least : e - 1) - dtype_rows[d].fraction);
}

/* By how many last places of d the numbers are apart from those of f32 at most. */
static double places_apart(qn_dtype d, const value *got, const value *wide) {
    double most = 0;
    for (int64_t i = 0; i < got->n && i < wide->n; i++) {
        double want = dtype_round(d, number(wide, i)), is = number(got, i);
        if (is == want || (isnan(is) && isnan(want))) continue;
        double apart = fabs(is - want) / last_place(d, want);
        most = apart <= most ? most : isnan(apart) ? (double)INFINITY : apart;
    }
    return most;
}

static void hold_rounded_once(const function_case *c, qn_dtype d, uint64_t draw, double share) {
    outcome got, want;
    args a = {.qn = devices[0].qn, .d = d, .nudged = -1, .draw = draw, .share = share};
    run(c, &a, true, &got);
    a.like = d;
    a.d = QN_F32;
    run(c, &a, true, &want);
    bool both = !got.y.code && !want.y.code && got.y.dtype == d && want.y.dtype == QN_F32;
    double apart = both ? places_apart(d, &got.y, &want.y) : 0;
    if (apart > 0)
        FAIL("%s of %s is %g last places from that of f32", c->name, qn_dtype_name(d), apart);
    for (int i = 0; both && i < got.gradients && i < want.gradients; i++) {
        apart = places_apart(d, &got.gradient[i], &want.gradient[i]);
        if (apart > 0)
            FAIL("%s of %s: the gradient by input %d is %g last places from that of f32", c->name,
                 qn_dtype_name(d), i, apart);
    }
    free_outcome(&got);
    free_outcome(&want);
}

/* Numbers of the whole range, and close ones, whose differences have few digits. */
static void narrow_functions_are_those_of_f32_rounded_once(void) {
    for (size_t row = 0; row < COUNT_OF(cases); row++) {
        const function_case *c = &cases[row];
        if (!is_wanted(c->name) || !strcmp(c->name, "uniform")) continue; /* has d's own steps */
        for (int k = 0; k < 2; k++)
            for (uint64_t draw = 0; draw < 4; draw++)
                hold_rounded_once(c, k ? QN_BF16 : QN_F16, draw, draw & 1 ? 0.04 : 0);
    }
}

/* The weighted sum of the results with one input's element moved. */
static double nudged_sum(const function_case *c, bool slopes, int leaf, int64_t element,
                         double by) {
    args a = {.qn = devices[0].qn, .d = QN_F64, .nudged = leaf, .element = element, .by = by};
    a.slopes = slopes;
    outcome o;
    double sum = 0;
    run(c, &a, false, &o);
    for (int64_t i = 0; i < o.y.n && !o.y.code; i++) sum += weight(i) * number(&o.y, i);
    free_outcome(&o);
    return sum;
}

static void hold_against_differences(bool slopes) {
    const double h = 1e-6;
    const char *what = slopes ? "second derivative" : "gradient";
    int checked = 0;
    for (size_t row = 0; row < COUNT_OF(cases); row++) {
        const function_case *c = &cases[row];
        args a = {.qn = devices[0].qn, .d = QN_F64, .nudged = -1, .slopes = slopes};
        outcome o;
        if (!strcmp(c->name, "detach")) continue; /* which is about having no gradient */
        if (!is_wanted(c->name)) continue;
        run(c, &a, true, &o);
        for (int i = 0; i < o.gradients; i++) {
            if (o.gradient[i].code)
                FAIL("%s's %s by input %d: code %d", c->name, what, i, (int)o.gradient[i].code);
            for (int64_t k = 0; k < o.gradient[i].n; k += 1 + o.gradient[i].n / 4) {
                double up = nudged_sum(c, slopes, i, k, h);
                double down = nudged_sum(c, slopes, i, k, -h);
                checked++;
                double want = (up - down) / (2 * h), got = number(&o.gradient[i], k);
                if (test_close(got, want, 1e-5, 1e-5 * (1 + fabs(up)))) continue;
                FAIL("%s's %s by input %d [%lld] is %.17g, by differences %.17g", c->name, what, i,
                     (long long)k, got, want);
            }
        }
        free_outcome(&o);
    }
    CHECK(checked > 500 || getenv("QN_TEST_ROWS"));
}

static void gradients_are_central_differences(void) {
    hold_against_differences(false);
}

static void second_derivatives_are_central_differences(void) {
    hold_against_differences(true);
}

/* w (J t) by the derivative along t against (w J) t by the gradient: they are one number. */
static void along_a_tangent(const function_case *c) {
    args a = {.qn = devices[0].qn, .d = QN_F64, .lo = c->lo, .hi = c->hi, .nudged = -1};
    a.bits = QN_I64;
    qn_scope s = qn_scope_begin(a.qn);
    qn_tensor *y = c->call(&a), *out = NULL, *back[LEAVES], *tangent[LEAVES];
    if (y && a.leaves && dtype_is_float(qn_dtype_of(y))) {
        double want = 0, got = 0, most = 0;
        for (int i = 0; i < a.leaves; i++) tangent[i] = weights(a.qn, a.leaf[i]);
        int code = qn_jvp(1, &y, a.leaves, a.leaf, tangent, &out);
        if (!code) code = qn_grad(y, weights(a.qn, y), a.leaves, a.leaf, back);
        if (code) FAIL("%s along a tangent: %s", c->name, qn_error(a.qn));
        value v = code ? (value){0} : read_value(a.qn, out);
        for (int64_t i = 0; i < v.n; i++) got += weight(i) * number(&v, i);
        free(v.data);
        for (int k = 0; k < a.leaves && !code; k++) {
            v = read_value(a.qn, back[k]);
            for (int64_t i = 0; i < v.n; i++) want += weight(i) * number(&v, i);
            for (int64_t i = 0; i < v.n; i++) most += fabs(number(&v, i));
            free(v.data);
        }
        double rel = qn_dtype_of(y) == QN_F64 ? 1e-10 : tolerance(qn_dtype_of(y));
        if (!test_close(got, want, rel, rel * (1 + most)))
            FAIL("%s along a tangent is %.17g, by its gradient %.17g", c->name, got, want);
    }
    qn_clear_error(a.qn);
    qn_scope_end(a.qn, s);
    for (int i = 0; i < a.leaves; i++) free(a.data[i]);
}

static void every_derivative_along_a_tangent_is_the_gradients(void) {
    for (size_t row = 0; row < COUNT_OF(cases); row++)
        if (is_wanted(cases[row].name)) along_a_tangent(&cases[row]);
}

/* ---- oracles --------------------------------------------------------------------------------- */

typedef long double real;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
static const char *oracle(size_t row, real x, real y, double *want) {
    (void)y;
    const struct {
        const char *name;
        real value;
    } all[] = {
#define X(KIND, name, params, ORACLE, lo, hi, doc) {#name, (real)(ORACLE - 0)},
#include "func/funcs.h"
#undef X
    };
    if (row >= COUNT_OF(all)) return NULL;
    *want = (double)all[row].value;
    return all[row].name;
}
#pragma GCC diagnostic pop

static const bool elementwise[] = {
#define IS_UNARY                                   true
#define IS_BINARY                                  true
#define IS_TENSOR                                  false
#define IS_STATUS                                  false
#define X(KIND, name, params, ORACLE, lo, hi, doc) IS_##KIND,
#include "func/funcs.h"
#undef X
};

static const function_case *case_of(const char *name) {
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (!strcmp(cases[i].name, name)) return &cases[i];
    return NULL;
}

/* As input() makes them: x is the first leaf, y the second. */
static double sample(const function_case *c, qn_dtype d, int leaf, int64_t i) {
    uint64_t seed = 1000 + (uint64_t)leaf;
    double x = 0;
    for (int64_t k = 0; k <= i; k++) x = c->lo + (c->hi - c->lo) * test_uniform(&seed);
    return dtype_round(d, x);
}

static void hold_against_oracle(size_t row, const struct device *v, qn_dtype d) {
    double want;
    const function_case *c = case_of(oracle(row, 1, 1, &want));
    args a = {.qn = v->qn, .d = d, .nudged = -1};
    outcome o;
    run(c, &a, false, &o);
    CHECK_INT(o.y.code, QN_OK);
    for (int64_t i = 0; i < o.y.n && !o.y.code; i++) {
        oracle(row, (real)sample(c, d, 0, i), (real)sample(c, d, 1, i), &want);
        double rel = d == QN_F64 ? 4e-15 : 3e-6;
        if (test_close(number(&o.y, i), want, rel, rel)) continue;
        FAIL("%s of %s on %s: [%lld] is %.17g, expected %.17g", c->name, qn_dtype_name(d), v->name,
             (long long)i, number(&o.y, i), want);
    }
    free_outcome(&o);
}

static void elementwise_functions_agree_with_their_oracle(void) {
    for (size_t row = 0; row < COUNT_OF(elementwise); row++)
        for (int i = 0; elementwise[row] && i < DEVICES; i++) {
            if (devices[i].qn && !devices[i].slow) hold_against_oracle(row, &devices[i], QN_F64);
            if (devices[i].qn) hold_against_oracle(row, &devices[i], QN_F32);
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    open_devices();
    RUN(every_function_has_a_case);
    RUN(every_function_agrees_on_every_device);
    RUN(narrow_functions_are_those_of_f32_rounded_once);
    RUN(gradients_are_central_differences);
    RUN(second_derivatives_are_central_differences);
    RUN(every_derivative_along_a_tangent_is_the_gradients);
    RUN(elementwise_functions_agree_with_their_oracle);
    for (int i = 0; i < DEVICES; i++) qn_close(devices[i].qn);
    return test_end();
}
