/* test_half.c - functions of f16 and bf16: computed in f32 inside and rounded once, values and
 * gradients, and no trace of the casts in what is launched and stored. Values are those of the
 * function in f32 (which test_accuracy holds against libm), rounded by the graph's own cast;
 * launches and memory are counted on the null device. */
#include "quern.h"
#include "test.h"

#include <math.h>

#define LENGTH(a) ((int)(sizeof(a) / sizeof *(a)))

static const qn_dtype halves[] = {QN_F16, QN_BF16};

/* ---- the functions -------------------------------------------------------------------------- */

static qn_tensor *elu(qn_tensor *x) {
    return qn_elu(x, 0.7);
}
static qn_tensor *leaky_relu(qn_tensor *x) {
    return qn_leaky_relu(x, 0.01);
}
static qn_tensor *lerp(qn_tensor *x) {
    return qn_lerp(x, qn_flip(x, 0), qn_like(x, 0.25));
}
static qn_tensor *softmax(qn_tensor *x) {
    return qn_softmax(x, -1);
}
static qn_tensor *log_softmax(qn_tensor *x) {
    return qn_log_softmax(x, -1);
}
static qn_tensor *logsumexp(qn_tensor *x) {
    return qn_logsumexp(x, -1, false);
}
static qn_tensor *layer_norm(qn_tensor *x) {
    return qn_layer_norm(x, NULL, NULL, 1e-5);
}
static qn_tensor *rms_norm(qn_tensor *x) {
    return qn_rms_norm(x, NULL, 1e-5);
}
static qn_tensor *mse_loss(qn_tensor *x) {
    return qn_mse_loss(x, qn_flip(x, 0));
}
static qn_tensor *l1_loss(qn_tensor *x) {
    return qn_l1_loss(x, qn_flip(x, 0));
}
static qn_tensor *deviation(qn_tensor *x) {
    return qn_std(x, -1, 1, false);
}
static qn_tensor *norm2(qn_tensor *x) {
    return qn_norm(x, -1, 2, false);
}
static qn_tensor *norm3(qn_tensor *x) {
    return qn_norm(x, -1, 3, false);
}
static qn_tensor *huber(qn_tensor *x) {
    return qn_huber_loss(x, qn_flip(x, 0), 1);
}
static qn_tensor *bce(qn_tensor *x) {
    return qn_bce_with_logits(x, qn_like(x, 0.25));
}

typedef struct function {
    const char *name;
    qn_tensor *(*f)(qn_tensor *);
    double lo, hi;
} function;

static const function elementwise[] = {
    {"silu", qn_silu, -12, 12},
    {"gelu", qn_gelu, -6, 6},
    {"gelu_tanh", qn_gelu_tanh, -6, 6},
    {"mish", qn_mish, -12, 12},
    {"hardswish", qn_hardswish, -4, 4},
    {"hardsigmoid", qn_hardsigmoid, -4, 4},
    {"selu", qn_selu, -4, 4},
    {"elu", elu, -4, 4},
    {"leaky_relu", leaky_relu, -4, 4},
    {"lerp", lerp, -4, 4},
    {"rsqrt", qn_rsqrt, 0.01, 9},
    {"log10", qn_log10, 0.01, 90},
    {"tan", qn_tan, -1.5, 1.5},
    {"sinh", qn_sinh, -8, 8},
    {"cosh", qn_cosh, -8, 8},
    {"tanh", qn_tanh, -5, 5},
    {"sigmoid", qn_sigmoid, -9, 9},
    {"exp", qn_exp, -9, 9},
    {"reciprocal", qn_reciprocal, 0.2, 9},
    {"sqrt", qn_sqrt, 0.01, 9},
    {"erf", qn_erf, -3, 3},
    {"atan", qn_atan, -9, 9},
    {"asin", qn_asin, -1, 1},
    {"acos", qn_acos, -1, 1},
    {"asinh", qn_asinh, -60000, 60000},
    {"acosh", qn_acosh, 1, 60000},
    {"atanh", qn_atanh, -1, 1},
    {"cbrt", qn_cbrt, -90, 90},
    {"softplus", qn_softplus, -12, 12},
    {"log_sigmoid", qn_log_sigmoid, -12, 12},
};
static const function by_rows[] = {
    {"softmax", softmax, -9, 9},     {"log_softmax", log_softmax, -9, 9},
    {"logsumexp", logsumexp, -9, 9}, {"layer_norm", layer_norm, -4, 4},
    {"rms_norm", rms_norm, -4, 4},   {"mse_loss", mse_loss, -300, 300},
    {"l1_loss", l1_loss, -4, 4},     {"std", deviation, -4, 4},
    {"norm 2", norm2, -40, 40},      {"norm 3", norm3, -4, 4},
    {"huber", huber, -4, 4},         {"bce", bce, -9, 9},
};

/* ---- values --------------------------------------------------------------------------------- */

enum { ROWS = 8, COLUMNS = 64, COUNT = ROWS * COLUMNS };

/* In f32 it has digits that it does without in halves: test_accuracy judges it there. */
static bool is_other_formula(const function *f) {
    return f->f == qn_gelu_tanh;
}

/* The values of f or, where asked, its gradient, of x in `dtype`, as f32. */
static void values(qn_ctx *qn, const function *f, qn_tensor *x, bool gradient, int n, float *out) {
    qn_tape *tape = qn_tape_begin(qn);
    qn_tensor *y = f->f(x), *g = NULL;
    if (gradient) CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    qn_tensor *r = qn_cast(gradient ? g : y, QN_F32);
    CHECK_INT(qn_read(r, out, (size_t)n * sizeof *out), QN_OK);
    CHECK_STR(qn_error(qn), "");
    qn_tape_end(tape);
}

static void check_rounded_once(qn_ctx *qn, const function *f, qn_dtype d, bool gradient) {
    qn_scope s = qn_scope_begin(qn);
    float v[COUNT], got[COUNT], want[COUNT];
    uint64_t seed = 7;
    for (int i = 0; i < COUNT; i++) v[i] = (float)(f->lo + (f->hi - f->lo) * test_uniform(&seed));
    qn_tensor *x = qn_cast(qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, v), d);
    qn_realize(1, &x);
    qn_tensor *wide = qn_cast(x, QN_F32);
    qn_realize(1, &wide);
    int n = gradient ? COUNT : (int)qn_numel(f->f(x));
    values(qn, f, x, gradient, n, got);
    values(qn, f, wide, gradient, n, want);
    qn_tensor *rounded = qn_cast(qn_cast(qn_from(qn, QN_F32, 1, (int64_t[]){n}, want), d), QN_F32);
    CHECK_INT(qn_read(rounded, want, (size_t)n * sizeof *want), QN_OK);
    int wrong = 0;
    for (int i = 0; i < n; i++)
        if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i]))) && !wrong++)
            FAIL("%s of %s%s: number %d is %a, of f32 rounded once %a", f->name, qn_dtype_name(d),
                 gradient ? ", gradient" : "", i, (double)got[i], (double)want[i]);
    qn_scope_end(qn, s);
}

static void check_all(bool gradient) {
    qn_ctx *qn = qn_open(NULL);
    for (int k = 0; k < LENGTH(halves); k++) {
        for (int i = 0; i < LENGTH(elementwise); i++)
            if (!is_other_formula(&elementwise[i]))
                check_rounded_once(qn, &elementwise[i], halves[k], gradient);
        for (int i = 0; i < LENGTH(by_rows); i++)
            check_rounded_once(qn, &by_rows[i], halves[k], gradient);
    }
    qn_close(qn);
}

static void functions_of_halves_are_those_of_f32_rounded_once(void) {
    check_all(false);
}

static void gradients_of_halves_are_those_of_f32_rounded_once(void) {
    check_all(true);
}

/* ---- several products ------------------------------------------------------------------------ */

/* Of whole numbers, which f32 adds in any order. */
static void products_of_several_are_rounded_once(void) {
    static const char *const spec[] = {"ab,cb,cd->ad", "ab,cd->ac", "ab,cd,ab->d"};
    qn_ctx *qn = qn_open(NULL);
    for (int i = 0; i < 2 * LENGTH(spec); i++) {
        const qn_dtype d = halves[i % 2];
        float v[COUNT], got[COUNT], want[COUNT];
        uint64_t seed = 11;
        for (int k = 0; k < COUNT; k++) v[k] = (float)(test_below(&seed, 9) - 3);
        qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){ROWS, COLUMNS}, v), *y = qn_cast(x, d);
        qn_tensor *wide = qn_einsum(i / 2 == 1 ? 2 : 3, (qn_tensor *[]){x, x, x}, spec[i / 2]);
        qn_tensor *narrow = qn_einsum(i / 2 == 1 ? 2 : 3, (qn_tensor *[]){y, y, y}, spec[i / 2]);
        size_t n = (size_t)qn_numel(wide);
        CHECK_INT(qn_dtype_of(narrow), d);
        CHECK_INT(qn_read(qn_cast(narrow, QN_F32), got, n * sizeof *got), QN_OK);
        CHECK_INT(qn_read(qn_cast(qn_cast(wide, d), QN_F32), want, n * sizeof *want), QN_OK);
        for (size_t k = 0; k < n; k++)
            if (got[k] != want[k]) {
                FAIL("%s of %s: number %zu is %g, not %g", spec[i / 2], qn_dtype_name(d), k,
                     (double)got[k], (double)want[k]);
                break;
            }
    }
    qn_close(qn);
}

/* ---- sums by index -------------------------------------------------------------------------- */

/* As many of 1/16 added to one place as no narrow dtype has digits to count; of the narrowest the
 * whole is in reach. */
enum { TIMES = 5000 };
static const qn_dtype narrows[] = {QN_F16, QN_BF16, QN_F8_E4M3, QN_F8_E5M2};

typedef struct heap {
    qn_tensor *x, *index, *src; /* [1], [TIMES] of 0, [TIMES] of 1/16 */
} heap;

static qn_tensor *by_scatter(const heap *h) {
    return qn_scatter(h->x, h->index, h->src, 0, QN_COMBINE_SUM);
}
static qn_tensor *by_index_add(const heap *h) {
    return qn_index_add(h->x, h->index, h->src, 0);
}
static qn_tensor *by_index_put(const heap *h) {
    const qn_index_item at = QN_AT_PLACES(h->index);
    return qn_index_put(h->x, 1, &at, h->src, QN_COMBINE_SUM);
}
static qn_tensor *by_bincount(const heap *h) {
    return qn_bincount(h->index, h->src, 1);
}
static qn_tensor *by_histogram(const heap *h) {
    qn_tensor *edges = qn_cast(qn_arange(qn_context(h->x), QN_F32, 0, 2, 1), QN_F32);
    return qn_histogram(qn_cast(h->index, QN_F32), edges, h->src);
}

/* The gradient for x of what is read, each with the slope 1/16. */
static qn_tensor *slope(qn_tensor *y, const heap *h) {
    qn_tensor *g = NULL, *x = h->x;
    CHECK_INT(qn_grad(y, qn_reshape(h->src, qn_rank(y), (int64_t[]){TIMES, 1}), 1, &x, &g), QN_OK);
    return g;
}
static qn_tensor *slope_of_gather(const heap *h) {
    return slope(qn_gather(h->x, h->index, 0), h);
}
static qn_tensor *slope_of_take(const heap *h) {
    return slope(qn_take(h->x, h->index, 0), h);
}
static qn_tensor *slope_of_index(const heap *h) {
    const qn_index_item at = QN_AT_PLACES(h->index);
    return slope(qn_index(h->x, 1, &at), h);
}
static qn_tensor *slope_of_embedding(const heap *h) {
    return slope(qn_embedding(qn_unsqueeze(h->x, 1), h->index), h);
}

static qn_tensor *(*const sums_by_index[])(const heap *) = {
    by_scatter,      by_index_add,  by_index_put,   by_bincount,       by_histogram,
    slope_of_gather, slope_of_take, slope_of_index, slope_of_embedding};

static void sums_by_index_are_rounded_once(void) {
    static const char *const devices[] = {"cpu", "ref"};
    static const int64_t zeros[TIMES];
    for (int i = 0; i < LENGTH(devices); i++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[i]));
        for (int k = 0; k < LENGTH(narrows); k++)
            for (int j = 0; j < LENGTH(sums_by_index); j++) {
                qn_scope s = qn_scope_begin(qn);
                const int64_t one = 1, many = TIMES;
                float got = 0, want = 0;
                heap h = {qn_from(qn, narrows[k], 1, &one, zeros),
                          qn_from(qn, QN_I64, 1, &many, zeros),
                          qn_full(qn, narrows[k], 1, &many, 0.0625)};
                qn_tensor *exact = qn_cast(qn_scalar(qn, QN_F64, TIMES * 0.0625), narrows[k]);
                qn_tape *tape = qn_tape_begin(qn);
                qn_tensor *y = sums_by_index[j](&h);
                CHECK_STR(qn_error(qn), "");
                CHECK_INT(qn_dtype_of(y), narrows[k]);
                CHECK_INT(qn_read(qn_cast(y, QN_F32), &got, sizeof got), QN_OK);
                CHECK_INT(qn_read(qn_cast(exact, QN_F32), &want, sizeof want), QN_OK);
                if (!(got == want))
                    FAIL("sum by index %d of %s on %s is %g, not %g", j, qn_dtype_name(narrows[k]),
                         devices[i], (double)got, (double)want);
                qn_tape_end(tape);
                qn_scope_end(qn, s);
            }
        qn_close(qn);
    }
}

/* ---- launches and memory -------------------------------------------------------------------- */

typedef struct cost {
    uint64_t kernels, arena;
} cost;

/* Of a function and its gradient, asked for together. */
static cost cost_of(qn_ctx *qn, const function *f, qn_dtype d) {
    qn_stats before, after;
    qn_scope s = qn_scope_begin(qn);
    qn_tape *tape = qn_tape_begin(qn);
    const int64_t shape[2] = {128, 1024};
    static char zero[128 * 1024 * sizeof(float)];
    qn_tensor *x = qn_from(qn, d, 2, shape, zero);
    qn_tensor *out[2] = {f->f(x), NULL};
    CHECK_INT(qn_grad(out[0], NULL, 1, &x, &out[1]), QN_OK);
    qn_get_stats(qn, &before, sizeof before);
    CHECK_INT(qn_realize(2, out), QN_OK);
    qn_get_stats(qn, &after, sizeof after);
    qn_tape_end(tape);
    qn_scope_end(qn, s);
    return (cost){after.kernels - before.kernels, after.planned_peak_bytes};
}

static void check_no_trace(qn_ctx *qn, const function *f) {
    cost wide = cost_of(qn, f, QN_F32);
    for (int k = 0; k < LENGTH(halves); k++) {
        cost narrow = cost_of(qn, f, halves[k]);
        if (narrow.kernels > wide.kernels)
            FAIL("%s of %s takes %d kernels, of f32 %d", f->name, qn_dtype_name(halves[k]),
                 (int)narrow.kernels, (int)wide.kernels);
        if (narrow.arena > wide.arena / 2 + 8192)
            FAIL("%s of %s takes %d bytes, of f32 %d", f->name, qn_dtype_name(halves[k]),
                 (int)narrow.arena, (int)wide.arena);
    }
}

static void casts_of_halves_add_no_kernel_and_no_wide_intermediate(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    for (int i = 0; i < LENGTH(elementwise); i++) check_no_trace(qn, &elementwise[i]);
    for (int i = 0; i < LENGTH(by_rows); i++) check_no_trace(qn, &by_rows[i]);
    qn_close(qn);
}

/* A user's own chain with its gradient: what is kept for the way back is kept narrow but for the
 * sum of a product that a function is taken of before it is rounded (docs/limits.md), and for the
 * gradients of several uses, which are added in f32. */
static void chains_of_halves_keep_little_wide(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    uint64_t arena[2];
    for (int k = 0; k < 2; k++) {
        qn_dtype d = k ? QN_BF16 : QN_F32;
        qn_stats after;
        const int64_t shape[2] = {256, 256};
        void *zeros = calloc(256 * 256, 4);
        qn_tensor *w = qn_from(qn, d, 2, shape, zeros);
        qn_tensor *x = qn_contiguous(qn_full(qn, d, 2, shape, 0.5)), *g;
        free(zeros);
        qn_realize(2, (qn_tensor *[]){w, x});
        qn_tape *tape = qn_tape_begin(qn);
        qn_tensor *y = x;
        for (int i = 0; i < 3; i++)
            y = qn_add(qn_gelu(qn_matmul(qn_layer_norm(y, NULL, NULL, 1e-5), w)), y);
        CHECK_INT(qn_grad(y, NULL, 1, &w, &g), QN_OK);
        CHECK_INT(qn_realize(1, &g), QN_OK);
        qn_get_stats(qn, &after, sizeof after);
        arena[k] = after.planned_peak_bytes;
        qn_tape_end(tape);
    }
    if (arena[1] > arena[0] - arena[0] / 8)
        FAIL("in bf16 the arena is %d bytes, in f32 %d", (int)arena[1], (int)arena[0]);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(functions_of_halves_are_those_of_f32_rounded_once);
    RUN(gradients_of_halves_are_those_of_f32_rounded_once);
    RUN(products_of_several_are_rounded_once);
    RUN(sums_by_index_are_rounded_once);
    RUN(casts_of_halves_add_no_kernel_and_no_wide_intermediate);
    RUN(chains_of_halves_keep_little_wide);
    return test_end();
}
