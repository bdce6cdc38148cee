/* test_derive.c - products with Jacobians from both sides, whole Jacobians, and second derivatives.
 * Expected values are worked out by hand, or by central differences in f64. */
#include "quern.h"
#include "test.h"

enum { N = 6 };

static qn_ctx *opened(void) {
    return qn_open(&QN_OPTIONS(.threads = 1));
}

static qn_tensor *numbers(qn_ctx *qn, int rank, const int64_t *dim, const double *v) {
    return qn_from(qn, QN_F64, rank, dim, v);
}

static void values(qn_tensor *t, int n, double *out) {
    for (int i = 0; i < n; i++) out[i] = NAN;
    if (!t || qn_read(t, out, (size_t)n * sizeof *out)) FAIL("%s", qn_error(qn_context(t)));
}

static void expect(qn_tensor *t, int n, const double *want) {
    double got[64];
    values(t, n, got);
    for (int i = 0; i < n; i++) CHECK_NEAR(got[i], want[i], 1e-12, 1e-13);
}

static void expect_error(qn_ctx *qn, int code, const char *part) {
    CHECK_INT(qn_error_code(qn), code);
    if (!strstr(qn_error(qn), part)) FAIL("\"%s\" does not say \"%s\"", qn_error(qn), part);
    qn_clear_error(qn);
}

/* ---- Jacobians ------------------------------------------------------------------------------ */

/* y = (a b, a + sin b), of a = 2 and b = 3. */
static void products_from_both_sides_of_a_jacobian(void) {
    qn_ctx *qn = opened();
    double two = 2, three = 3, five = 5, seven = 7;
    qn_tensor *x[2] = {numbers(qn, 0, NULL, &two), numbers(qn, 0, NULL, &three)};
    qn_tensor *y[2] = {qn_mul(x[0], x[1]), qn_add(x[0], qn_sin(x[1]))};
    qn_tensor *u[2] = {numbers(qn, 0, NULL, &five), numbers(qn, 0, NULL, &seven)}, *out[2];
    CHECK_INT(qn_vjp(2, y, u, 2, x, out), QN_OK);
    expect(out[0], 1, (double[]){5 * 3 + 7});
    expect(out[1], 1, (double[]){5 * 2 + 7 * cos(3)});
    CHECK_INT(qn_vjp(2, y, NULL, 2, x, out), QN_OK);
    expect(out[0], 1, (double[]){3 + 1});
    CHECK_INT(qn_jvp(2, y, 2, x, u, out), QN_OK);
    expect(out[0], 1, (double[]){3 * 5 + 2 * 7});
    expect(out[1], 1, (double[]){5 + 7 * cos(3)});
    qn_close(qn);
}

/* y_i = x_i sum(x): J is diag(sum) + x 1', of both shapes of walks. */
static void a_jacobian_is_whole(void) {
    qn_ctx *qn = opened();
    double v[6] = {1, 2, 3, 4, 5, 6}, want[36], got[36];
    qn_tensor *x = numbers(qn, 2, (int64_t[]){2, 3}, v);
    qn_tensor *y = qn_mul(x, qn_sum(x, QN_ALL, false)), *j = qn_jacobian(y, x);
    CHECK_INT(qn_rank(j), 4);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) want[6 * i + k] = v[i] + (i == k ? 21 : 0);
    expect(j, 36, want);
    qn_tensor *wide = qn_jacobian(qn_sum(y, 0, false), x); /* 3 rows by 6, and 6 by 2 */
    qn_tensor *part = qn_sum(x, 1, false), *tall = qn_jacobian(qn_mul(y, y), x);
    CHECK_INT(qn_rank(wide), 3);
    values(wide, 18, got);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 6; k++)
            CHECK_NEAR(got[6 * i + k], want[6 * i + k] + want[6 * (i + 3) + k], 1e-13, 0);
    values(tall, 36, got);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            CHECK_NEAR(got[6 * i + k], 2 * v[i] * 21 * want[6 * i + k], 1e-13, 0);
    qn_tensor *few =
        qn_jacobian(qn_expand(qn_reshape(part, 2, (int64_t[]){2, 1}), 2, (int64_t[]){2, 4}), part);
    values(few, 16, got); /* part has fewer elements than y: by columns */
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 2; k++) CHECK_NEAR(got[2 * i + k], i / 4 == k, 0, 0);
    qn_close(qn);
}

static qn_tensor *energy(qn_tensor *x) { /* sum of sin(x_i) x_{i+1}^2 */
    qn_tensor *a = qn_slice(x, 0, 0, N - 1, 1), *b = qn_slice(x, 0, 1, N, 1);
    return qn_sum(qn_mul(qn_sin(a), qn_square(b)), QN_ALL, false);
}

/* Row i of the Hessian of energy() times t. */
static double hessian_of_energy(const double *v, int i, int k) {
    double d = 0;
    if (i == k && i < N - 1) d -= sin(v[i]) * v[i + 1] * v[i + 1];
    if (i == k && i > 0) d += 2 * sin(v[i - 1]);
    if (k == i + 1) d += 2 * cos(v[i]) * v[k];
    if (i == k + 1) d += 2 * cos(v[k]) * v[i];
    return d;
}

static void second_derivatives_by_hand(void) {
    qn_ctx *qn = opened();
    double v[N] = {0.3, -1, 2, 0.7, 1.5, -0.4}, t[N] = {1, 2, -1, 0.5, 3, 0.25};
    double want[N] = {0}, all[N * N];
    qn_tensor *x = numbers(qn, 1, (int64_t[]){N}, v), *tangent = numbers(qn, 1, (int64_t[]){N}, t);
    qn_tensor *y = energy(x), *out;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            all[N * i + k] = hessian_of_energy(v, i, k);
            want[i] += all[N * i + k] * t[k];
        }
    CHECK_INT(qn_hvp(y, 1, &x, &tangent, &out), QN_OK);
    expect(out, N, want);
    qn_tensor *h = qn_hessian(y, x);
    CHECK_INT(qn_rank(h), 2);
    expect(h, N * N, all);
    qn_close(qn);
}

/* tanh's third derivative, by jvp of jvp of jvp. */
static void tangents_of_tangents(void) {
    qn_ctx *qn = opened();
    double v = 0.4, one = 1, y = tanh(v), s = 1 - y * y;
    qn_tensor *x = numbers(qn, 0, NULL, &v), *t = numbers(qn, 0, NULL, &one), *f = qn_tanh(x);
    double want[3] = {s, -2 * y * s, s * (6 * y * y - 2)};
    for (int i = 0; i < 3; i++) {
        qn_tensor *slope;
        CHECK_INT(qn_jvp(1, &f, 1, &x, &t, &slope), QN_OK);
        expect(f = slope, 1, &want[i]);
    }
    qn_close(qn);
}

/* As docs/gradients.md has them: |x| at 0 has 0, relu 0, max shares. */
static void kinks_are_those_of_gradients(void) {
    qn_ctx *qn = opened();
    double zero[2] = {0, 0}, t[2] = {3, 5};
    qn_tensor *x = numbers(qn, 1, (int64_t[]){2}, zero), *u = numbers(qn, 1, (int64_t[]){2}, t);
    qn_tensor *y[3] = {qn_abs(x), qn_relu(x), qn_max(x, 0, false)}, *out[3];
    CHECK_INT(qn_jvp(3, y, 1, &x, &u, out), QN_OK);
    expect(out[0], 2, (double[]){0, 0});
    expect(out[1], 2, (double[]){0, 0});
    expect(out[2], 1, (double[]){4});
    qn_close(qn);
}

/* The derivative along a tangent is no more than the function and its slope. */
static void a_tangent_costs_no_more_than_a_gradient(void) {
    qn_ctx *qn = opened();
    float v[16] = {1};
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){4, 4}, v), *y = x, *out;
    for (int i = 0; i < 4; i++) y = qn_tanh(qn_matmul(y, y));
    qn_stats before, forward, back;
    qn_get_stats(qn, &before, sizeof before);
    CHECK_INT(qn_jvp(1, &y, 1, &x, &x, &out), QN_OK);
    qn_get_stats(qn, &forward, sizeof forward);
    CHECK_INT(qn_grad(y, NULL, 1, &x, &out), QN_OK);
    qn_get_stats(qn, &back, sizeof back);
    CHECK(forward.nodes - before.nodes <= 2 * (back.nodes - forward.nodes));
    qn_close(qn);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void bad_arguments_are_named(void) {
    qn_ctx *qn = opened();
    double v[3] = {1, 2, 3};
    int32_t whole = 1;
    qn_tensor *x = numbers(qn, 1, (int64_t[]){3}, v), *two = numbers(qn, 1, (int64_t[]){2}, v);
    qn_tensor *y = qn_exp(x), *i = qn_from(qn, QN_I32, 0, NULL, &whole), *out = x;
    CHECK(qn_jvp(1, &y, 1, &x, &two, &out) == QN_ESHAPE && !out);
    expect_error(qn, QN_ESHAPE, "jvp: x [3], tangent [2]");
    CHECK(qn_jvp(1, &y, 1, &x, NULL, &out) == QN_ENULL);
    expect_error(qn, QN_ENULL, "jvp: no list of tangents");
    CHECK(qn_vjp(1, &y, &two, 1, &x, &out) == QN_ESHAPE);
    expect_error(qn, QN_ESHAPE, "vjp: y [3], seed [2]");
    CHECK(qn_hvp(y, 1, &x, &i, &out) == QN_EDTYPE);
    expect_error(qn, QN_EDTYPE, "hvp: tangent 0 is i32");
    CHECK(!qn_jacobian(y, i));
    expect_error(qn, QN_EDTYPE, "jacobian: x is i32");
    int64_t t = qn_var(qn, "t", 1, 8), many[7] = {1, 1, 1, 1, 1, 1, 3};
    qn_tensor *open = qn_contiguous(qn_iota(qn, QN_F64, 1, &t, 0)), *deep = qn_reshape(x, 7, many);
    CHECK(!qn_jacobian(qn_exp(open), open));
    expect_error(qn, QN_ESHAPE, "sizes that are numbers");
    CHECK(!qn_hessian(qn_exp(deep), deep));
    expect_error(qn, QN_ESHAPE, "14 axes");
    qn_close(qn);
}

static void sizes_that_vary_have_tangents(void) {
    qn_ctx *qn = opened();
    int64_t t = qn_var(qn, "t", 1, 8);
    qn_tensor *x = qn_contiguous(qn_iota(qn, QN_F64, 1, &t, 0)), *y = qn_exp(x),
              *tangent = qn_square(x), *out;
    CHECK_INT(qn_jvp(1, &y, 1, &x, &tangent, &out), QN_OK);
    qn_bind(qn, t, 3);
    expect(out, 3, (double[]){0, exp(1), 4 * exp(2)});
    qn_close(qn);
}

/* A rule that is linear in its gradient by way of a call keeps what it is derived by. */
static void a_routine_has_tangents(void) {
    qn_ctx *qn = opened();
    double v[4] = {0, 1, 0, 0}, u[4] = {0, 0, 1, 0}; /* e^(A + hU) to the first order in h */
    qn_tensor *x = numbers(qn, 2, (int64_t[]){2, 2}, v), *t = numbers(qn, 2, (int64_t[]){2, 2}, u);
    qn_tensor *y = qn_matrix_exp(x), *out;
    CHECK_INT(qn_jvp(1, &y, 1, &x, &t, &out), QN_OK);
    expect(out, 4, (double[]){0.5, 1.0 / 6, 1, 0.5});
    qn_close(qn);
}

/* y = a b of two variables of x = 3: by each the other's value, by x both; also second ones. */
/* The second vector's gradient is a slice of nothing but padding. */
static void a_tangent_passes_where_a_slope_is_constant(void) {
    qn_ctx *qn = opened();
    double a[3] = {1, 2, 3}, b[3] = {-1, 4, 0.5}, t[3] = {2, 3, 5};
    qn_tensor *x[2] = {numbers(qn, 1, (int64_t[]){3}, a), numbers(qn, 1, (int64_t[]){3}, b)};
    qn_tensor *along[2] = {numbers(qn, 1, (int64_t[]){3}, t), x[0]}, *out = NULL;
    qn_tensor *y = qn_slice(qn_contiguous(qn_concat(2, x, 0)), 0, 0, 3, 1);
    CHECK_INT(qn_jvp(1, &y, 2, x, along, &out), QN_OK);
    expect(out, 3, t);
    y = qn_square(y);
    CHECK_INT(qn_jvp(1, &y, 2, x, along, &out), QN_OK);
    expect(out, 3, (double[]){4, 12, 30});
    qn_close(qn);
}

static void variables_of_one_value_are_apart(void) {
    qn_ctx *qn = opened();
    double three = 3;
    qn_tensor *x = numbers(qn, 0, NULL, &three), *a = qn_variable(x), *b = qn_variable(x);
    qn_tensor *y = qn_mul(a, b), *out[3], *again, *by[3] = {a, b, x};
    CHECK_INT(qn_grad(y, NULL, 3, by, out), QN_OK);
    expect(out[0], 1, (double[]){3});
    expect(out[1], 1, (double[]){3});
    expect(out[2], 1, (double[]){6});
    CHECK_INT(qn_grad(out[0], NULL, 1, &b, &again), QN_OK);
    expect(again, 1, (double[]){1});
    qn_tensor *zeros = qn_variable(qn_zeros(qn, QN_F64, 0, NULL));
    CHECK_INT(qn_grad(qn_exp(zeros), NULL, 1, &zeros, out), QN_OK);
    expect(out[0], 1, (double[]){1});
    qn_stats before = {0}, after = {0};
    qn_get_stats(qn, &before, sizeof before);
    qn_tensor *alone = qn_variable(x);
    CHECK_INT(qn_realize(1, &alone), QN_OK);
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.kernels, before.kernels);
    qn_close(qn);
}

static void what_gradients_come_to_is_said(void) {
    qn_ctx *qn = opened();
    double v[4] = {1, 2, 3, 4}, w[4] = {5, 6, 7, 8};
    int64_t four = 4;
    qn_tensor *x[4];
    for (int i = 0; i < 4; i++) x[i] = numbers(qn, 1, &four, i ? v : w);
    qn_tensor *y[2] = {qn_add(qn_mul(x[0], qn_like(x[0], 0)), qn_detach(x[1])), qn_exp(x[2])};
    int32_t out[4] = {7, 7, 7, 7};
    CHECK_INT(qn_depends(2, y, 4, x, out), QN_OK);
    for (int i = 0; i < 4; i++) CHECK_INT(out[i], i == 0 || i == 2);
    qn_assign(x[2], x[3]); /* y[1] uses the version before */
    CHECK_INT(qn_depends(1, &y[1], 1, &x[2], out), QN_OK);
    CHECK_INT(out[0], 1);
    CHECK_INT(qn_depends(1, y, 0, NULL, NULL), QN_OK);
    qn_tensor *whole = qn_cast(x[0], QN_I32);
    CHECK_INT(qn_depends(1, y, 1, &whole, out), QN_EDTYPE);
    expect_error(qn, QN_EDTYPE, "depends: x 0");
    CHECK_INT(qn_depends(1, y, 4, x, NULL), QN_ENULL);
    expect_error(qn, QN_ENULL, "depends");
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(products_from_both_sides_of_a_jacobian);
    RUN(a_jacobian_is_whole);
    RUN(second_derivatives_by_hand);
    RUN(tangents_of_tangents);
    RUN(kinks_are_those_of_gradients);
    RUN(a_tangent_costs_no_more_than_a_gradient);
    RUN(bad_arguments_are_named);
    RUN(sizes_that_vary_have_tangents);
    RUN(a_routine_has_tangents);
    RUN(a_tangent_passes_where_a_slope_is_constant);
    RUN(variables_of_one_value_are_apart);
    RUN(what_gradients_come_to_is_said);
    return test_end();
}
