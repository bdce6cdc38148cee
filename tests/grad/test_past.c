/* test_past.c - the gradient by an expression is that by a variable of its value, or an error:
 * never the number that is left when a rule put what is made of the expression together with what
 * the expression is made of. Every way to make x of a stands before every use of it; the oracle is
 * the same use of a leaf that holds x's value. */
#include "eval.h"
#include "quern.h"

enum { ROWS = 2, COLUMNS = 3, MOST = 64 };

static const float values[] = {0.5f, -1.25f, 2, 0.75f, -0.5f, 1.5f};
static const float others[] = {3, 0.25f, -1, 2, 1.25f, -0.75f};

typedef qn_tensor *make(qn_tensor *x, qn_tensor *w);

/* s = sin(s * x) + x, from w on, whose body uses x and what is made of it. */
static qn_tensor *looped(qn_tensor *x, qn_tensor *w) {
    qn_loop *l = qn_loop_begin(tensor_ctx(x), 1, &w, 0, NULL, &QN_LOOP_OPTIONS(.trips = 3));
    qn_tensor *next = qn_add(qn_sin(qn_mul(qn_loop_state(l, 0), x)), x), *y = NULL;
    if (!qn_loop_end(l, 1, &next, 0, NULL)) y = qn_loop_final(l, 0);
    qn_loop_free(l);
    return y;
}

#define MAKES(X)                                                                                   \
    X(neg, qn_neg(x))                                                                              \
    X(twice, qn_add(x, x))                                                                         \
    X(product, qn_mul(x, w))                                                                       \
    X(quotient, qn_div(x, w))                                                                      \
    X(square, qn_square(x))                                                                        \
    X(difference, qn_sub(x, w))                                                                    \
    X(negated_sum, qn_neg(qn_add(x, w)))                                                           \
    X(one_times, qn_mul(x, qn_like(x, 1)))                                                         \
    X(minus_one_times, qn_mul(x, qn_like(x, -1)))                                                  \
    X(abs, qn_abs(x))                                                                              \
    X(exp, qn_exp(x))                                                                              \
    X(relu, qn_relu(x))                                                                            \
    X(chosen, qn_where(qn_lt(w, qn_like(w, 1)), x, qn_like(x, 0)))                                 \
    X(transposed, qn_transpose(x, 0, 1))                                                           \
    X(flat, qn_flatten(x, 0, -1))                                                                  \
    X(reshaped, qn_reshape(x, 2, (int64_t[]){COLUMNS, ROWS}))                                      \
    X(unsqueezed, qn_unsqueeze(x, 1))                                                              \
    X(sliced, qn_slice(x, 0, 0, 1, 1))                                                             \
    X(flipped, qn_flip(x, 0))                                                                      \
    X(padded, qn_pad(x, (int64_t[]){1, 0, 0, 0}, QN_PAD_CONSTANT, 0))                              \
    X(rolled, qn_roll(x, 0, 1))                                                                    \
    X(repeated, qn_expand(qn_unsqueeze(x, 0), 3, (int64_t[]){2, ROWS, COLUMNS}))                   \
    X(wide, qn_cast(x, QN_F64))                                                                    \
    X(joined, qn_concat(2, (qn_tensor *[]){x, w}, 0))                                              \
    X(stacked, qn_stack(2, (qn_tensor *[]){x, x}, 0))                                              \
    X(row_sums, qn_sum(x, 0, true))                                                                \
    X(total, qn_sum(x, QN_ALL, false))                                                             \
    X(largest, qn_max(x, 0, true))                                                                 \
    X(multiplied, qn_matmul(x, qn_transpose(w, 0, 1)))                                             \
    X(softmax, qn_softmax(x, -1))                                                                  \
    X(copied, qn_contiguous(x))                                                                    \
    X(looped, looped(x, w))                                                                        \
    X(looped_flat, looped(qn_flatten(x, 0, -1), qn_flatten(w, 0, -1)))                             \
    X(looped_too, qn_add(qn_exp(x), looped(x, w)))

#define X(name, e)                                                                                 \
    static qn_tensor *make_##name(qn_tensor *x, qn_tensor *w) {                                    \
        (void)w;                                                                                   \
        return e;                                                                                  \
    }
MAKES(X)
#undef X

static const struct {
    const char *name;
    make *of;
} makes[] = {
#define X(name, e) {#name, make_##name},
    MAKES(X)
#undef X
};
enum { MAKES_COUNT = sizeof makes / sizeof *makes };

/* Any use of x as a number: x's own kind of use, then weights that differ by element. */
static qn_tensor *used(int use, qn_tensor *x) {
    qn_ctx *qn = tensor_ctx(x);
    float w[MOST];
    for (int i = 0; i < MOST; i++) w[i] = others[i % 6] + 0.125f * (float)i;
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < qn_rank(x); i++) dims[i] = qn_dim(x, i);
    qn_tensor *like = qn_cast(qn_from(qn, QN_F32, qn_rank(x), dims, w), qn_dtype_of(x));
    qn_tensor *y = makes[use].of(x, like);
    if (!y) return NULL;
    for (int i = 0; i < qn_rank(y); i++) dims[i] = qn_dim(y, i);
    qn_tensor *weights = qn_cast(qn_from(qn, QN_F32, qn_rank(y), dims, w), qn_dtype_of(y));
    return qn_cast(qn_sum(qn_mul(y, weights), QN_ALL, false), QN_F32);
}

static bool gradient(int use, qn_tensor *x, double *g, int *n) {
    qn_tensor *y = used(use, x), *out = NULL, *wide;
    if (!y || qn_grad(y, NULL, 1, &x, &out)) return false;
    wide = qn_cast(out, QN_F64);
    *n = (int)qn_numel(out);
    return !qn_read(wide, g, (size_t)*n * sizeof *g);
}

/* A leaf of x's value. */
static qn_tensor *copied_leaf(qn_tensor *x) {
    double v[MOST];
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < qn_rank(x); i++) dims[i] = qn_dim(x, i);
    size_t size = (size_t)qn_numel(x) * (qn_dtype_of(x) == QN_F64 ? 8 : 4);
    if (qn_read(x, v, size)) return NULL;
    return qn_from(tensor_ctx(x), qn_dtype_of(x), qn_rank(x), dims, v);
}

/* How often a gradient was right, and refused; with `kept`, x is recorded as contiguous. */
static void every_pair(bool kept, int *right, int *refused) {
    *right = *refused = 0;
    for (int m = 0; m < MAKES_COUNT; m++)
        for (int use = 0; use < MAKES_COUNT; use++) {
            qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
            const int64_t shape[] = {ROWS, COLUMNS};
            qn_tensor *a = qn_from(qn, QN_F32, 2, shape, values);
            qn_tensor *w = qn_from(qn, QN_F32, 2, shape, others), *x = makes[m].of(a, w);
            double want[MOST], got[MOST];
            int n = 0, k = 0;
            if (kept) x = qn_contiguous(x);
            bool there = gradient(use, x, got, &k);
            qn_code code = qn_error_code(qn);
            qn_clear_error(qn);
            qn_tensor *copy = copied_leaf(x);
            bool known = copy && gradient(use, copy, want, &n);
            qn_clear_error(qn); /* some uses need a rank or sizes that some x lack */
            if (known && !there) CHECK_INT(code, QN_EGRAPH);
            if (known && there) {
                CHECK_INT(k, n);
                for (int i = 0; i < n; i++)
                    if (fabs(got[i] - want[i]) > 1e-5 * (1 + fabs(want[i])))
                        FAIL("x %s, used as %s: element %d of the gradient is %g for %g",
                             makes[m].name, makes[use].name, i, got[i], want[i]);
            }
            *right += known && there;
            *refused += known && !there;
            qn_close(qn);
        }
}

static void a_gradient_by_an_expression_is_right_or_an_error(void) {
    int right, refused;
    every_pair(false, &right, &refused);
    printf("%d right, %d refused\n", right, refused);
    CHECK(right > 300 && refused > 20);
}

static void what_is_recorded_as_contiguous_has_its_gradient(void) {
    int right, refused;
    every_pair(true, &right, &refused);
    printf("%d right, %d refused\n", right, refused);
    CHECK(right > 400 && refused == 0);
}

static void a_gradient_by_a_constant_is_refused(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    const int64_t shape[] = {ROWS, COLUMNS};
    qn_tensor *m = qn_from(qn, QN_F32, 2, shape, values), *g = NULL;
    qn_tensor *x[] = {qn_zeros(qn, QN_F32, 1, shape + 1), qn_ones(qn, QN_F32, 2, shape),
                      qn_scalar(qn, QN_F32, 2)};
    for (int i = 0; i < 3; i++) {
        qn_tensor *y = qn_sum(qn_mul(qn_exp(x[i]), m), QN_ALL, false);
        if (qn_grad(y, NULL, 1, &x[i], &g) != QN_EGRAPH) FAIL("constant %d is a variable", i);
        CHECK(strstr(qn_error(qn), "x 0 is a constant") != NULL);
        qn_clear_error(qn);
    }
    qn_close(qn);
}

static bool second_gradient(qn_tensor *x, qn_tensor *w, bool too, double *v) {
    qn_tensor *y = looped(x, w), *g = NULL;
    if (too) y = qn_add(y, qn_exp(x));
    for (int order = 0; order < 2; order++) {
        if (qn_grad(qn_sum(y, QN_ALL, false), NULL, 1, &x, &g)) return false;
        if (qn_read(g, v + order * ROWS * COLUMNS, ROWS * COLUMNS * sizeof *v)) return false;
        y = qn_square(g);
    }
    return true;
}

/* What has no elements is folded into a constant, whatever it was made of, but the gradient by it
 * can only be nothing. So an example of none can be differentiated by, and a batch of none. */
static void a_gradient_by_nothing_is_nothing(void) {
    static const char *const devices[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d]));
        const int64_t some[2] = {2, 3}, none[2] = {2, 0};
        qn_tensor *w = qn_from(qn, QN_F32, 2, some, values), *x = qn_from(qn, QN_F32, 2, none, "");
        qn_tensor *of[2] = {qn_neg(x), w}, *g[2], *all[2];
        CHECK_INT(qn_grad(qn_concat(2, of, 1), NULL, 2, of, g), QN_OK);
        CHECK_INT(qn_dim(g[0], 0), 2);
        CHECK_INT(qn_numel(g[0]), 0);
        qn_tensor *in[2] = {x, w}, *each[2] = {qn_example(x, 0), qn_example(w, 0)};
        qn_tensor *joined = qn_concat(2, each, 0), *y = qn_mul(joined, joined);
        CHECK_INT(qn_grad(y, NULL, 2, each, g), QN_OK);
        CHECK_INT(qn_vmap(2, g, NULL, 2, each, in, NULL, all), QN_OK);
        float got[6] = {0};
        CHECK_INT(qn_read(all[1], got, sizeof got), QN_OK);
        for (int i = 0; i < 6; i++) CHECK_NEAR(got[i], 2 * values[i], 0, 0);
        CHECK_INT(qn_dim(all[0], 0), 2);
        CHECK_INT(qn_numel(all[0]), 0);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
    }
}

/* Below such an expression there is nothing to tell by; random numbers are one. */
static void loops_of_what_is_made_of_constants_have_gradients(void) {
    for (int k = 0; k < 4; k++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
        const int64_t shape[] = {ROWS, COLUMNS};
        qn_tensor *w = qn_cast(qn_from(qn, QN_F32, 2, shape, others), QN_F64);
        qn_tensor *x = k < 2 ? qn_sin(qn_cast(qn_iota(qn, QN_I64, 2, shape, 1), QN_F64))
                             : qn_randn(qn_key(qn, 7), QN_F64, 2, shape);
        double got[MOST], want[MOST];
        CHECK(second_gradient(x, w, k % 2, got));
        CHECK(second_gradient(copied_leaf(x), w, k % 2, want));
        for (int i = 0; i < 2 * ROWS * COLUMNS; i++)
            if (!(fabs(got[i] - want[i]) <= 1e-9 * (1 + fabs(want[i]))))
                FAIL("%d: derivative %d is %g for %g", k, i, got[i], want[i]);
        qn_close(qn);
    }
}

/* Made in the body, it is the body's: an error, also where y uses it outside, too. */
static void what_a_body_makes_of_constants_is_no_variable(void) {
    for (int too = 0; too < 2; too++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
        const int64_t shape[] = {ROWS, COLUMNS};
        qn_tensor *w = qn_from(qn, QN_F32, 2, shape, others), *g = NULL;
        qn_loop *l = qn_loop_begin(qn, 1, &w, 0, NULL, &QN_LOOP_OPTIONS(.trips = 3));
        qn_tensor *x = qn_keep(qn_sin(qn_cast(qn_iota(qn, QN_I64, 2, shape, 1), QN_F32)));
        qn_tensor *next = qn_mul(qn_loop_state(l, 0), x);
        CHECK_INT(qn_loop_end(l, 1, &next, 0, NULL), QN_OK);
        qn_tensor *y = qn_loop_final(l, 0);
        if (too) y = qn_add(y, qn_exp(x));
        CHECK_INT(qn_grad(qn_sum(y, QN_ALL, false), NULL, 1, &x, &g), QN_EGRAPH);
        CHECK(strstr(qn_error(qn), "made past x 0") != NULL);
        qn_loop_free(l);
        qn_release(x);
        qn_close(qn);
    }
}

/* A rule goes past the flip, the transpose and the product; past the transpose one went before. */
static void what_was_passed_before_is_no_end(void) {
    for (int before = 0; before < 2; before++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
        const int64_t shape[] = {ROWS, COLUMNS};
        qn_tensor *a = qn_from(qn, QN_F32, 2, shape, values), *g = NULL;
        qn_tensor *x = qn_mul(a, qn_from(qn, QN_F32, 2, shape, others)), *v = qn_transpose(x, 0, 1);
        if (before) qn_reshape(v, 1, (int64_t[]){ROWS * COLUMNS});
        qn_tensor *y = qn_sum(qn_square(qn_sum(qn_flip(v, 0), 0, false)), QN_ALL, false);
        CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_EGRAPH);
        qn_close(qn);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_gradient_by_an_expression_is_right_or_an_error);
    RUN(what_is_recorded_as_contiguous_has_its_gradient);
    RUN(a_gradient_by_a_constant_is_refused);
    RUN(a_gradient_by_nothing_is_nothing);
    RUN(loops_of_what_is_made_of_constants_have_gradients);
    RUN(what_a_body_makes_of_constants_is_no_variable);
    RUN(what_was_passed_before_is_no_end);
    return test_end();
}
