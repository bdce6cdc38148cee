/* test_special.c - first and second derivatives at special points: zeros of both signs, tiny and
 * large numbers, ties, kinks, bounds of domains, infinities and NaN, on ref and cpu, in f32 and
 * f64. Elementwise functions are compared with the table of tools/special.py, all others with
 * values worked out by hand here. docs/gradients.md has the conventions.
 *
 * Every row of ops.h and funcs.h that has a derivative must be in one of the tables, so a new one
 * fails here until someone has said what holds at its special points. */
#include "graph/graph.h"
#include "test.h"

#include <float.h>

#define UNSAID (-12345.0) /* no derivative here is that number */

/* ---- the table of elementwise functions ------------------------------------------------------ */

typedef struct special_row {
    const char *name;
    int arity, numbers;
    bool loose;
    const double *v; /* for each point: arguments, then derivatives */
} special_row;

#define ONE(name, loose, ...) static const double one_##name[] = {__VA_ARGS__};
#define TWO(name, ...)        static const double two_##name[] = {__VA_ARGS__};
#include "special_points.h"
#undef ONE
#undef TWO

static const special_row special_rows[] = {
#define ONE(name, loose, ...) {#name, 1, COUNT_OF(one_##name), loose, one_##name},
#define TWO(name, ...)        {#name, 2, COUNT_OF(two_##name), true, two_##name},
#include "special_points.h"
#undef ONE
#undef TWO
};

static int row_stride(const special_row *r) {
    return r->arity == 1 ? 3 : 7;
}

/* ---- the functions by name ------------------------------------------------------------------- */

typedef struct function {
    const char *name;
    int arity, op;
    qn_tensor *(*unary)(qn_tensor *);
    qn_tensor *(*binary)(qn_tensor *, qn_tensor *);
} function;

static qn_tensor *elu(qn_tensor *x) {
    return qn_elu(x, 0.75);
}

static qn_tensor *celu(qn_tensor *x) {
    return qn_celu(x, 2);
}

static qn_tensor *threshold(qn_tensor *x) {
    return qn_threshold(x, 1, 3);
}

static qn_tensor *softplus_beta(qn_tensor *x) {
    return qn_softplus_beta(x, 2, 20);
}

static qn_tensor *nan_to_num(qn_tensor *x) {
    return qn_nan_to_num(x, 0, 7, -7);
}

static qn_tensor *leaky_relu(qn_tensor *x) {
    return qn_leaky_relu(x, 0.25);
}

static qn_tensor *clamp(qn_tensor *x) {
    return qn_clamp(x, -1, 2);
}

#define UNARY_FUNC(name)  1, 0, qn_##name, NULL
#define BINARY_FUNC(name) 2, 0, NULL, qn_##name
#define TENSOR_FUNC(name) 0, 0, NULL, NULL
#define STATUS_FUNC(name) 0, 0, NULL, NULL
static const function public_functions[] = {
#define X(KIND, name, params, ORACLE, lo, hi, doc) {#name, KIND##_FUNC(name)},
#include "func/funcs.h"
#undef X
};
static const function wrapped[] = {{"elu", 1, 0, elu, NULL},
                                   {"celu", 1, 0, celu, NULL},
                                   {"hardtanh", 1, 0, clamp, NULL},
                                   {"threshold", 1, 0, threshold, NULL},
                                   {"softplus_beta", 1, 0, softplus_beta, NULL},
                                   {"nan_to_num", 1, 0, nan_to_num, NULL},
                                   {"leaky_relu", 1, 0, leaky_relu, NULL},
                                   {"erfinv", 1, 0, qn_erfinv, NULL},
                                   {"clamp", 1, 0, clamp, NULL}};

static bool find_function(const char *name, function *out) {
    for (size_t i = 0; i < COUNT_OF(wrapped); i++)
        if (!strcmp(wrapped[i].name, name)) return *out = wrapped[i], true;
    for (size_t i = 0; i < COUNT_OF(public_functions); i++)
        if (!strcmp(public_functions[i].name, name) && public_functions[i].arity)
            return *out = public_functions[i], true;
    for (int op = 1; op < OP_COUNT; op++)
        if (!strcmp(op_rows[op].name, name))
            return *out = (function){name, op_rows[op].arity, op, NULL, NULL}, true;
    return false;
}

static qn_tensor *apply(const function *f, qn_tensor *const *x) {
    if (f->op) return build_elem(f->op, f->arity, x);
    return f->arity == 1 ? f->unary(x[0]) : f->binary(x[0], x[1]);
}

/* ---- devices and numbers --------------------------------------------------------------------- */

static qn_ctx *context[2];
static const char *const device_name[2] = {"ref", "cpu"};

static qn_tensor *numbers_of(qn_ctx *qn, qn_dtype d, int64_t n, const double *v) {
    float narrow[128];
    if (n > (int64_t)COUNT_OF(narrow)) return NULL;
    for (int64_t i = 0; i < n; i++) narrow[i] = (float)v[i];
    return qn_from(qn, d, 1, &n, d == QN_F32 ? (const void *)narrow : v);
}

static bool read_numbers(qn_tensor *t, int64_t n, double *out) {
    float narrow[128];
    bool f32 = qn_dtype_of(t) == QN_F32;
    size_t size = (size_t)n * (f32 ? sizeof *narrow : sizeof *out);
    if (qn_read(t, f32 ? (void *)narrow : out, size)) return false;
    for (int64_t i = 0; f32 && i < n; i++) out[i] = (double)narrow[i];
    return true;
}

/* `want` as the dtype has it; the smallest numbers and the largest are given some room. */
static bool is_right(qn_dtype d, double got, double want, bool loose) {
    bool f32 = d == QN_F32;
    if (want == UNSAID) return true;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    double rel = f32 ? 4e-6 : 1e-14, least = f32 ? (double)FLT_MIN : DBL_MIN;
    double most = f32 ? (double)FLT_MAX : DBL_MAX;
    if (fabs(want) > most || isinf(got)) {
        bool near = fabs(want) > most * 0.9 && fabs(got) > most * 0.9;
        return near && signbit(got) == signbit(want);
    }
    return fabs(got - want) <= rel * fabs(want) + 4 * least + (loose ? rel : 0);
}

/* ---- elementwise ----------------------------------------------------------------------------- */

enum { POINTS = 128, MOST = 6 };

typedef struct grid {
    int points, derivatives;
    double x[2][POINTS], want[MOST][POINTS];
} grid;

/* d/dx, d/dy, d2/dx2, d2/dxdy from the first, d2/dydx from the second, d2/dy2 */
static grid grid_of(const special_row *r) {
    grid g = {.points = r->numbers / row_stride(r), .derivatives = r->arity == 1 ? 2 : MOST};
    static const int column[MOST] = {0, 1, 2, 3, 3, 4};
    CHECK(g.points <= POINTS && r->numbers == g.points * row_stride(r));
    for (int i = 0; i < g.points; i++) {
        const double *v = r->v + (size_t)i * (size_t)row_stride(r);
        for (int k = 0; k < r->arity; k++) g.x[k][i] = v[k];
        for (int k = 0; k < g.derivatives; k++) g.want[k][i] = v[r->arity + column[k]];
    }
    return g;
}

static bool derive(const function *f, qn_tensor **x, qn_tensor **d) {
    if (qn_grad(apply(f, x), NULL, f->arity, x, d)) return false;
    for (int i = 0; i < f->arity; i++)
        if (qn_grad(d[i], NULL, f->arity, x, d + f->arity * (i + 1))) return false;
    return true;
}

static void check_points(const special_row *r, int device, qn_dtype dtype) {
    static const char *const names[2][MOST] = {
        {"first", "second"}, {"d/dx", "d/dy", "d2/dx2", "d2/dxdy", "d2/dydx", "d2/dy2"}};
    qn_ctx *qn = context[device];
    function f;
    if (!find_function(r->name, &f)) {
        FAIL("%s is no function", r->name);
        return;
    }
    static grid g;
    g = grid_of(r);
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *x[2], *d[MOST] = {NULL};
    for (int k = 0; k < f.arity; k++) x[k] = numbers_of(qn, dtype, g.points, g.x[k]);
    qn_tape *tape = qn_tape_begin(qn);
    bool made = derive(&f, x, d) && !qn_realize(g.derivatives, d);
    if (!made) FAIL("%s: %s", r->name, qn_error(qn));
    for (int k = 0; made && k < g.derivatives; k++) {
        double got[POINTS];
        CHECK(read_numbers(d[k], g.points, got));
        for (int i = 0; i < g.points; i++) {
            if (is_right(dtype, got[i], g.want[k][i], r->loose)) continue;
            FAIL("%s, %s: %s of %s at %g%s%g is %.9g, expected %.9g", device_name[device],
                 qn_dtype_name(dtype), names[f.arity - 1][k], r->name, g.x[0][i],
                 f.arity > 1 ? ", " : " / ", g.x[f.arity - 1][i], got[i], g.want[k][i]);
        }
    }
    qn_tape_end(tape);
    qn_scope_end(qn, scope);
}

static void elementwise_functions_at_special_points(void) {
    for (size_t i = 0; i < COUNT_OF(special_rows); i++)
        for (int device = 0; device < 2; device++)
            for (int f32 = 0; f32 < 2 && context[device]; f32++)
                check_points(&special_rows[i], device, f32 ? QN_F32 : QN_F64);
}

/* The second derivatives of functions whose slope is near 1 there, to four digits. */
static void second_derivatives_keep_their_tails(void) {
    static const float at[] = {1, 8, 10, 15, 20};
    static const double mish[] = {0.18468576, -6.29201e-6, -1.48372e-7, -1.04805e-11, -6.4575e-16};
    static const double softplus[] = {0.19661193, 3.35238e-4, 4.53958e-5, 3.05902e-7, 2.06115e-9};
    qn_tensor *(*const f[])(qn_tensor *) = {qn_mish, qn_softplus};
    for (int device = 0; device < 2; device++)
        for (int k = 0; k < 2 && context[device]; k++) {
            qn_scope scope = qn_scope_begin(context[device]);
            qn_tensor *x = qn_from(context[device], QN_F32, 1, (int64_t[]){5}, at), *d = NULL;
            float got[5] = {0};
            CHECK_INT(qn_grad(qn_sum(f[k](x), QN_ALL, false), NULL, 1, &x, &d), QN_OK);
            CHECK_INT(qn_grad(qn_sum(d, QN_ALL, false), NULL, 1, &x, &d), QN_OK);
            CHECK_INT(qn_read(d, got, sizeof got), QN_OK);
            const double *want = k ? softplus : mish;
            for (int i = 0; i < 5; i++)
                CHECK_NEAR((double)got[i], want[i], 0, 1e-4 * fabs(want[i]));
            qn_scope_end(context[device], scope);
        }
}

/* ---- functions of whole vectors, by hand ----------------------------------------------------- */

enum { LONGEST = 4 };

typedef struct vector_case {
    const char *name;
    qn_tensor *(*f)(qn_tensor *x);
    int n;
    double x[LONGEST];
    double first[LONGEST];  /* the gradient of f's sum */
    double second[LONGEST]; /* the gradient of the sum of (i + 1) * first[i] */
} vector_case;

#define VECTOR(function, expression)                                                               \
    static qn_tensor *function(qn_tensor *x) {                                                     \
        return expression;                                                                         \
    }

static qn_tensor *zeros_then_ones(qn_tensor *x) { /* the targets 1, 0 */
    return qn_cast(qn_eq(qn_iota(tensor_ctx(x), QN_I32, 1, (int64_t[]){2}, 0),
                         qn_scalar(tensor_ctx(x), QN_I32, 0)),
                   qn_dtype_of(x));
}

static qn_tensor *indices(qn_tensor *x) {
    return qn_iota(tensor_ctx(x), QN_I32, 1, (int64_t[]){2}, 0);
}

VECTOR(sum, qn_sum(x, 0, false))
VECTOR(prod, qn_prod(x, 0, false))
VECTOR(max, qn_max(x, 0, false))
VECTOR(min, qn_min(x, 0, false))
VECTOR(mean, qn_mean(x, 0, false))
VECTOR(variance, qn_variance(x, 0, 0, false))
VECTOR(deviation, qn_std(x, 0, 0, false))
VECTOR(nansum, qn_nansum(x, 0, false))
VECTOR(nanprod, qn_nanprod(x, 0, false))
VECTOR(nanmax, qn_nanmax(x, 0, false))
VECTOR(nanmin, qn_nanmin(x, 0, false))
VECTOR(nanmean, qn_nanmean(x, 0, false))
VECTOR(nanvariance, qn_nanvariance(x, 0, 0, false))
VECTOR(nanstd, qn_nanstd(x, 0, 0, false))
VECTOR(bce_of, qn_bce_loss(x, zeros_then_ones(x), QN_REDUCE_MEAN))

/* Query 0 sees nothing. */
static qn_tensor *hidden_by(qn_tensor *x, double seen, double hidden, qn_dtype d) {
    const double v[4] = {hidden, hidden, seen, seen};
    qn_tensor *t = qn_reshape(x, 2, (int64_t[]){2, 1});
    qn_tensor *mask = qn_cast(qn_from(tensor_ctx(x), QN_F64, 2, (int64_t[]){2, 2}, v), d);
    return qn_attention(t, t, t, &QN_ATTENTION_OPTIONS(.mask = mask));
}
VECTOR(hidden_truth, hidden_by(x, 1, 0, QN_BOOL))
VECTOR(hidden_sum, hidden_by(x, 0, -(double)INFINITY, QN_F32))
VECTOR(norm2, qn_norm(x, 0, 2, false))
VECTOR(norm1, qn_norm(x, 0, 1, false))
VECTOR(norm3, qn_norm(x, 0, 3, false))
VECTOR(norm_half, qn_norm(x, 0, 0.5, false))
VECTOR(norm_inverse, qn_norm(x, 0, -1, false))
VECTOR(norm_most, qn_norm(x, 0, (double)INFINITY, false))
VECTOR(norm_least, qn_norm(x, 0, -(double)INFINITY, false))
VECTOR(norm_count, qn_norm(x, 0, 0, false))
VECTOR(logsumexp, qn_logsumexp(x, 0, false))
VECTOR(cumprod, qn_cumprod(x, 0))
VECTOR(cummax, qn_cummax(x, 0))
VECTOR(cummin, qn_cummin(x, 0))
VECTOR(logcumsumexp, qn_logcumsumexp(x, 0))
VECTOR(huber, qn_huber_loss(x, qn_like(x, 0), 1))
VECTOR(bce, qn_bce_with_logits(x, zeros_then_ones(x)))
VECTOR(l1, qn_l1_loss(x, qn_like(x, 0)))
VECTOR(mse, qn_mse_loss(x, qn_like(x, 0)))
VECTOR(cross_entropy, qn_cross_entropy(x, qn_scalar(tensor_ctx(x), QN_I32, 1)))
VECTOR(max_pool, qn_max_pool(qn_reshape(x, 3, (int64_t[]){1, 1, 4}), (int64_t[]){2}, NULL))
VECTOR(scatter_max, qn_scatter(x, indices(x), qn_ones_like(x), 0, QN_COMBINE_MAX))
VECTOR(scatter_prod, qn_scatter(x, indices(x), qn_full_like(x, 3), 0, QN_COMBINE_PROD))
VECTOR(where, qn_where(qn_lt(x, qn_like(x, 1)), qn_mul(x, x), qn_like(x, 5)))
VECTOR(fma_, qn_fma(x, x, x))
VECTOR(square_of_max, qn_square(qn_max(x, 0, false)))
VECTOR(square_of_maximum, qn_square(qn_maximum(x, qn_like(x, 1))))
VECTOR(square_of_abs, qn_square(qn_abs(x)))
VECTOR(lerp, qn_lerp(x, qn_like(x, 3), qn_like(x, 0.25)))

#define INF ((double)INFINITY)
static const vector_case vector_cases[] = {
    {"sum", sum, 2, {INF, 1}, {1, 1}, {0, 0}},
    {"prod", prod, 3, {0, 2, 3}, {6, 0, 0}, {12, 3, 2}},
    {"prod", prod, 3, {0, 0, 3}, {0, 0, 0}, {6, 3, 0}},
    {"prod", prod, 2, {NAN, 2}, {NAN, NAN}, {UNSAID, UNSAID}},
    {"max", max, 3, {1, 3, 3}, {0, 0.5, 0.5}, {0, 0, 0}},
    {"max", max, 2, {0.0, -0.0}, {0.5, 0.5}, {0, 0}},
    {"max", max, 2, {INF, 1}, {1, 0}, {0, 0}},
    {"max", max, 2, {-INF, -INF}, {0.5, 0.5}, {0, 0}},
    {"max", max, 2, {NAN, 1}, {NAN, NAN}, {UNSAID, UNSAID}},
    {"min", min, 3, {1, 1, 3}, {0.5, 0.5, 0}, {0, 0, 0}},
    {"min", min, 2, {1, NAN}, {NAN, NAN}, {UNSAID, UNSAID}},
    {"mean", mean, 2, {1, 1}, {0.5, 0.5}, {0, 0}},
    {"variance", variance, 2, {2, 2}, {0, 0}, {-0.5, 0.5}},
    {"std", deviation, 3, {2, 2, 2}, {0, 0, 0}, {0, 0, 0}},
    {"std", deviation, 2, {1, -1}, {0.5, -0.5}, {0, 0}},
    {"std", deviation, 2, {NAN, 1}, {NAN, NAN}, {NAN, NAN}},
    {"norm", norm2, 3, {0, 0.0, -0.0}, {0, 0, 0}, {0, 0, 0}},
    {"norm", norm2, 2, {3, 4}, {0.6, 0.8}, {-0.064, 0.048}},
    {"norm", norm2, 2, {0, 2}, {0, 1}, {0.5, 0}},
    {"norm", norm2, 2, {NAN, 1}, {NAN, NAN}, {NAN, NAN}},
    {"norm", norm1, 3, {0, -2, 3}, {0, -1, 1}, {0, 0, 0}},
    {"norm", norm1, 2, {NAN, 1}, {NAN, 1}, {UNSAID, 0}},
    {"norm", norm3, 2, {0, 0}, {0, 0}, {0, 0}},
    {"norm", norm3, 2, {0, -2}, {0, -1}, {0, 0}},
    {"norm", norm_half, 2, {0, 0}, {0, 0}, {0, 0}},
    {"norm", norm_inverse, 2, {0, 1}, {0, 0}, {0, 0}},
    {"norm", norm_inverse, 2, {1, 1}, {0.25, 0.25}, {0.25, -0.25}},
    {"norm", norm_most, 2, {0, 0}, {0, 0}, {0, 0}},
    {"norm", norm_most, 3, {1, -3, 3}, {0, -0.5, 0.5}, {0, 0, 0}},
    {"norm", norm_most, 2, {NAN, 1}, {NAN, UNSAID}, {UNSAID, UNSAID}},
    {"norm", norm_least, 3, {1, -1, 3}, {0.5, -0.5, 0}, {0, 0, 0}},
    {"norm", norm_count, 2, {0, 2}, {0, 0}, {0, 0}},
    {"bce_loss", bce_of, 2, {0, 1}, {0, 0}, {0, 0}},
    {"bce_loss", bce_of, 2, {1, 0}, {-0.5, 0.5}, {0.5, 1}},
    {"attention", hidden_truth, 2, {0, 0}, {0.5, 0.5}, {0, 0}},
    {"attention", hidden_sum, 2, {0, 0}, {0.5, 0.5}, {0, 0}},
    {"nansum", nansum, 3, {NAN, 1, INF}, {0, 1, 1}, {0, 0, 0}},
    {"nanprod", nanprod, 3, {NAN, 2, 3}, {0, 3, 2}, {0, 3, 2}},
    {"nanmax", nanmax, 3, {NAN, 3, 3}, {0, 0.5, 0.5}, {0, 0, 0}},
    {"nanmax", nanmax, 2, {NAN, NAN}, {0, 0}, {0, 0}},
    {"nanmin", nanmin, 3, {NAN, 1, 3}, {0, 1, 0}, {0, 0, 0}},
    {"nanmean", nanmean, 3, {NAN, 1, 3}, {0, 0.5, 0.5}, {0, 0, 0}},
    {"nanvariance", nanvariance, 3, {NAN, 1, 3}, {0, -1, 1}, {0, -0.5, 0.5}},
    {"nanstd", nanstd, 3, {NAN, 1, -1}, {0, 0.5, -0.5}, {0, 0, 0}},
    {"nanstd", nanstd, 3, {NAN, 2, 2}, {0, 0, 0}, {0, 0, 0}},
    {"logsumexp", logsumexp, 2, {0, 0}, {0.5, 0.5}, {-0.25, 0.25}},
    {"logsumexp", logsumexp, 2, {-INF, 0}, {0, 1}, {0, 0}},
    {"logsumexp", logsumexp, 2, {NAN, 0}, {NAN, NAN}, {NAN, NAN}},
    {"cumprod", cumprod, 3, {2, 0, 3}, {1, 8, 0}, {8, 10, 4}},
    {"cumprod", cumprod, 3, {0, 0, 3}, {1, 0, 0}, {8, 4, 0}},
    {"cummax", cummax, 3, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}},
    {"cummax", cummax, 2, {NAN, 1}, {2, 0}, {0, 0}},
    {"cummin", cummin, 4, {3, 1, 2, 1}, {1, 2, 0, 1}, {0, 0, 0, 0}},
    {"logcumsumexp", logcumsumexp, 2, {0, 0}, {1.5, 0.5}, {-0.25, 0.25}},
    {"logcumsumexp", logcumsumexp, 2, {-INF, 0}, {0, 1}, {0, 0}},
    {"logcumsumexp", logcumsumexp, 2, {1000, 0}, {2, 0}, {0, 0}},
    {"logcumsumexp", logcumsumexp, 2, {0, 1000}, {1, 1}, {0, 0}},
    {"huber_loss", huber, 4, {0, 0.5, 1, -3}, {0, 0.125, 0.25, -0.25}, {0.25, 0.5, 0.75, 0}},
    {"huber_loss", huber, 2, {INF, NAN}, {0.5, NAN}, {0, UNSAID}},
    {"bce_with_logits", bce, 2, {0, 0}, {-0.25, 0.25}, {0.125, 0.25}},
    {"bce_with_logits", bce, 2, {-800, 800}, {-0.5, 0.5}, {0, 0}},
    {"bce_with_logits", bce, 2, {800, -800}, {0, 0}, {0, 0}},
    {"bce_with_logits", bce, 2, {NAN, 0}, {NAN, 0.25}, {NAN, 0.25}},
    {"l1_loss", l1, 2, {0, -2}, {0, -0.5}, {0, 0}},
    {"mse_loss", mse, 2, {0, 2}, {0, 2}, {1, 2}},
    {"cross_entropy", cross_entropy, 2, {0, 0}, {0.5, -0.5}, {-0.25, 0.25}},
    {"cross_entropy", cross_entropy, 2, {10000, 0}, {1, -1}, {0, 0}},
    {"max_pool", max_pool, 4, {1, 1, 0, -2}, {0.5, 0.5, 1, 0}, {0, 0, 0, 0}},
    {"scatter", scatter_max, 2, {1, 2}, {0.5, 1}, {0, 0}},
    {"scatter", scatter_max, 2, {NAN, 0}, {NAN, 0}, {UNSAID, 0}},
    {"scatter", scatter_prod, 2, {0, 2}, {3, 3}, {0, 0}},
    {"where", where, 3, {0, 1, INF}, {0, 0, NAN}, {2, 0, 0}},
    {"fma", fma_, 3, {0, -0.0, 2}, {1, 1, 5}, {2, 4, 6}},
    {"square of max", square_of_max, 2, {INF, 1}, {INF, 0}, {2, 0}},
    {"square of max", square_of_max, 2, {3, 3}, {3, 3}, {1.5, 1.5}},
    {"square of maximum", square_of_maximum, 3, {INF, 0, 2}, {INF, 0, 4}, {2, 0, 6}},
    {"square of abs", square_of_abs, 3, {INF, -INF, -2}, {INF, -INF, -4}, {2, 4, 6}},
    {"lerp", lerp, 2, {0, 2}, {0.75, 0.75}, {0, 0}},
};

static void check_vector(const vector_case *v, int device, qn_dtype dtype) {
    static const char *const order[2] = {"first", "second"};
    qn_ctx *qn = context[device];
    double weight[LONGEST] = {1, 2, 3, 4}, got[LONGEST];
    qn_scope scope = qn_scope_begin(qn);
    qn_tape *tape = qn_tape_begin(qn);
    qn_tensor *x = numbers_of(qn, dtype, v->n, v->x), *d[2] = {NULL};
    qn_tensor *w = numbers_of(qn, dtype, v->n, weight);
    bool made = !qn_grad(v->f(x), NULL, 1, &x, &d[0]) && !qn_grad(d[0], w, 1, &x, &d[1]);
    if (!made) FAIL("%s: %s", v->name, qn_error(qn));
    for (int k = 0; k < 2 && made; k++) {
        const double *want = k ? v->second : v->first;
        CHECK(read_numbers(d[k], v->n, got));
        for (int i = 0; i < v->n; i++)
            if (!is_right(dtype, got[i], want[i], true))
                FAIL("%s, %s: %s[%d] of %s at {%g, %g, ..} is %.9g, expected %.9g",
                     device_name[device], qn_dtype_name(dtype), order[k], i, v->name, v->x[0],
                     v->x[1], got[i], want[i]);
    }
    qn_tape_end(tape);
    qn_scope_end(qn, scope);
}

static void functions_of_vectors_at_special_points(void) {
    for (size_t i = 0; i < COUNT_OF(vector_cases); i++)
        for (int device = 0; device < 2; device++)
            for (int f32 = 0; f32 < 2 && context[device]; f32++)
                check_vector(&vector_cases[i], device, f32 ? QN_F32 : QN_F64);
}

/* ---- nobody is left out ---------------------------------------------------------------------- */

/* Without special points: linear, or smooth wherever they are defined, or made of functions that
 * are in a table; and those that have no derivative. */
static const char *const plain[] = {
    "cast", "bitcast", "reshape", "permute", "expand", "pad", "slice", "window", "flip", "join",
    "gather", "contiguous", "apart", "stand_in", "custom", "transpose", "select", "as_strided",
    "roll", "squeeze", "unsqueeze", "flatten", "unfold", "diagonal", "triu", "tril", "concat",
    "stack", "vstack", "hstack", "tile", "repeat_interleave", "take", "take_along_axis",
    "index_add", "update_slice", "embedding", "matmul", "dot", "outer", "tensordot", "einsum",
    "linear", "conv", "conv1d", "conv2d", "conv3d", "conv_transpose", "avg_pool", "pool",
    "max_unpool", "interpolate", "grid_sample", "im2col", "col2im", "mean_axes", "variance_axes",
    "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "attention", "dropout",
    "nll_loss", "flip_axes", "roll_axes", "squeeze_axes", "unsqueeze_axes", "softmax_axes",
    "log_softmax_axes",
    /* by the same formula as over one axis, which has special points */
    "std_axes", "norm_axes", "logsumexp_axes",
    /* linear, or a polynomial */
    "scan", "cumsum", "linear_scan", "diff", "cross", "kron", "fft", "ifft", "rfft", "irfft",
    "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2",
    "fftfreq", "rfftfreq", "fftshift", "ifftshift", "cast_saturating", "mx_dequantize",
    /* by each routine's rule, in the tests of sorting and linear algebra */
    "call", "sort", "argsort", "median", "nanmedian", "quantile", "searchsorted", "bincount",
    "histogram", "cholesky", "solve_triangular", "solve", "inv", "det", "lstsq", "pinv",
    "matrix_rank", "matrix_power", "matrix_exp", "eigvals",
    /* smooth: tested by differences */
    "layer_norm_axes", "instance_norm", "batch_norm", "rope", "pixel_shuffle", "pixel_unshuffle",
    "cross_entropy_with", "nll_loss_with", "cross_entropy_soft", "kl_div", "bce_loss",
    "triplet_margin_loss", "ctc_loss", "cosine_similarity", "cosine_embedding_loss",
    "margin_ranking_loss", "hinge_embedding_loss", "soft_margin_loss", "focal_loss",
    "poisson_nll_loss", "gaussian_nll_loss", "index", "index_put", "index_copy", "index_fill",
    "scatter_mean", "masked_fill", "masked_scatter", "head", "slice_scatter", "select_scatter",
    "diagonal_scatter", "glu", "ldexp", "clip", "prelu", "softmin", "narrow", "expand_as",
    "unflatten", "moveaxis", "atleast", "rot90", "diag_embed", "diag", "diagonal_axes", "clone",
    "variable", "repeat_counts", "trace", "sum_as", "prod_as", "mean_as", "view", "nanprod_axes",
    "nanmax_axes", "nanmin_axes", "nansum_axes", "nanmean_axes", "nanvariance_axes", "nanstd_axes",
    "cross_entropy_ignoring", "sum_product",
    /* of no derivative */
    "gamma", "beta", "dirichlet", "poisson", "truncated_normal", "permutation", "shuffle",
    "multinomial_distinct", "orthogonal", "key_fold_in", "exponential", "gumbel", "categorical",
    "multinomial", "kaiming_normal", "kaiming_uniform", "xavier_normal", "xavier_uniform",
    "nextafter", "gcd", "lcm", "bitwise_count", "isclose", "allclose", "count_nonzero",
    "count_nonzero_axes", "signbit", "full", "zeros", "ones", "scalar", "like", "weak", "weak_int",
    "scalar_int", "full_int", "arange_int", "full_like", "zeros_like", "ones_like", "iota",
    "arange", "linspace", "eye", "any", "all", "cumargmax", "cumargmin", "any_axes", "all_axes",
    "one_hot", "key", "key_fold", "random_bits", "uniform", "randn", "randint", "bernoulli",
    "isnan", "isinf", "isfinite", "list", "loop", "result", "logical_not", "gt", "ge",
    "logical_and", "logical_or", "logical_xor"};

static bool is_tabled(const char *name) {
    for (size_t i = 0; i < COUNT_OF(special_rows); i++)
        if (!strcmp(special_rows[i].name, name)) return true;
    for (size_t i = 0; i < COUNT_OF(vector_cases); i++)
        if (!strcmp(vector_cases[i].name, name)) return true;
    for (size_t i = 0; i < COUNT_OF(plain); i++)
        if (!strcmp(plain[i], name)) return true;
    return false;
}

static void every_function_has_a_row(void) {
    static const char *const names[] = {
#define X(KIND, name, ...) KIND##_NAME(#name),
#define UNARY_NAME(name)   name
#define BINARY_NAME(name)  name
#define TENSOR_NAME(name)  name
#define STATUS_NAME(name)  NULL /* split, chunk, meshgrid: views */
#include "func/funcs.h"
#undef X
    };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (names[i] && !is_tabled(names[i])) FAIL("%s has no special points", names[i]);
    for (int op = 1; op < OP_COUNT; op++)
        if (op_rows[op].differentiable && !is_tabled(op_rows[op].name))
            FAIL("%s has no special points", op_rows[op].name);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    for (int i = 0; i < 2; i++) context[i] = qn_open(&QN_OPTIONS(.device = device_name[i]));
    RUN(elementwise_functions_at_special_points);
    RUN(second_derivatives_keep_their_tails);
    RUN(functions_of_vectors_at_special_points);
    RUN(every_function_has_a_row);
    for (int i = 0; i < 2; i++) qn_close(context[i]);
    return test_end();
}
