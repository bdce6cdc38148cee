/* test_checkpoint.c - gradients that compute again, and gradients that are given. The first are
 * compared, bit by bit, with those of the same graph without checkpoints. */
#include "quern.h"
#include "test.h"

enum { SIDE = 8, LAYERS = 64, WIDE = 64 };

static qn_ctx *opened(const char *device) {
    return qn_open(&QN_OPTIONS(.threads = 1, .device = device));
}

static qn_tensor *filled(qn_ctx *qn, int n, int side, uint64_t seed) {
    float *v = calloc((size_t)(n * side), sizeof *v);
    for (int i = 0; i < n * side; i++) v[i] = (float)(test_uniform(&seed) - 0.5) / 4;
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){n, side}, v);
    free(v);
    return t;
}

static qn_tensor *number(qn_ctx *qn, double v) {
    return qn_from(qn, QN_F64, 0, NULL, &v);
}

static double value(qn_tensor *t) {
    double v = NAN;
    if (!t || qn_read(t, &v, sizeof v)) FAIL("%s", t ? qn_error(qn_context(t)) : "no tensor");
    return v;
}

static double slope(qn_tensor *y, qn_tensor *x) {
    qn_tensor *g;
    return qn_grad(y, NULL, 1, &x, &g) ? NAN : value(g);
}

static void expect_error(qn_ctx *qn, int code, const char *part) {
    CHECK_INT(qn_error_code(qn), code);
    if (!strstr(qn_error(qn), part)) FAIL("\"%s\" does not say \"%s\"", qn_error(qn), part);
    qn_clear_error(qn);
}

/* ---- computing again ------------------------------------------------------------------------ */

/* A chain of layers, every `piece` of them a checkpoint; 0: none. */
static qn_tensor *chain(qn_tensor *x, qn_tensor *w, int layers, int piece) {
    qn_tensor *begin = x;
    for (int i = 0; i < layers; i++) {
        x = qn_tanh(qn_matmul(x, w));
        if (!piece || (i + 1) % piece) continue;
        qn_checkpoint(1, &x, 1, &begin, &x);
        begin = x;
    }
    return qn_sum(x, QN_ALL, false);
}

static void computed_again_gradients_have_the_same_bits(void) {
    static const char *const devices[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        float got[2][2][SIDE * SIDE];
        for (int again = 0; again < 2; again++) {
            qn_ctx *qn = opened(devices[d]);
            qn_tensor *x[2] = {filled(qn, SIDE, SIDE, 1), filled(qn, SIDE, SIDE, 2)}, *g[2];
            qn_tensor *y = chain(x[0], x[1], 9, again ? 3 : 0);
            CHECK_INT(qn_grad(y, NULL, 2, x, g), QN_OK);
            for (int i = 0; i < 2; i++)
                CHECK_INT(qn_read(g[i], got[again][i], sizeof got[again][i]), QN_OK);
            qn_close(qn);
        }
        CHECK(!memcmp(got[0], got[1], sizeof got[0]));
    }
}

/* Memory of the gradient of a chain, in layers' values. */
static double layers_kept(int layers, int piece) {
    qn_ctx *qn = opened("cpu");
    qn_tensor *x = filled(qn, WIDE, WIDE, 1), *w = filled(qn, WIDE, WIDE, 2), *g;
    qn_tensor *y = chain(x, w, layers, piece);
    qn_stats s;
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    CHECK_INT(qn_realize(2, (qn_tensor *[]){y, g}), QN_OK);
    qn_get_stats(qn, &s, sizeof s);
    qn_close(qn);
    return (double)s.planned_peak_bytes / (WIDE * WIDE * sizeof(float));
}

static void a_chain_takes_memory_by_its_root(void) {
    double all = layers_kept(LAYERS, 0), root = layers_kept(LAYERS, 8);
    double shorter = layers_kept(LAYERS / 4, 4);
    printf("layers kept: %g of %d, %g with checkpoints; of %d %g\n", all, LAYERS, root, LAYERS / 4,
           shorter);
    CHECK(all >= LAYERS - 2);
    CHECK(root <= 2 * 8 + 6);
    CHECK(shorter <= 2 * 4 + 6);
}

/* A checkpoint in a checkpoint, captured parameters, several results, second derivatives. */
static void checkpoints_nest_and_are_derived_again(void) {
    qn_ctx *qn = opened("cpu");
    qn_tensor *x = number(qn, 0.7), *a = number(qn, 1.5), *in, *out[2], *g[2];
    in = qn_sin(qn_mul(x, a));
    CHECK_INT(qn_checkpoint(1, &in, 1, &x, &in), QN_OK);
    qn_tensor *y[2] = {qn_mul(in, in), qn_exp(in)};
    CHECK_INT(qn_checkpoint(2, y, 1, &x, out), QN_OK);
    CHECK_NEAR(value(out[0]), sin(1.05) * sin(1.05), 1e-14, 0);
    qn_tensor *z = qn_mul(out[0], out[1]); /* s^2 e^s of s = sin(a x) */
    double s = sin(1.05), ds = (2 * s + s * s) * exp(s), c = cos(1.05);
    double dds = (2 + 4 * s + s * s) * exp(s);
    CHECK_INT(qn_grad(z, NULL, 2, (qn_tensor *[]){x, a}, g), QN_OK);
    CHECK_NEAR(value(g[0]), ds * c * 1.5, 1e-13, 0);
    CHECK_NEAR(value(g[1]), ds * c * 0.7, 1e-13, 0);
    CHECK_NEAR(slope(g[0], x), (dds * c * c - ds * s) * 2.25, 1e-12, 0);
    qn_close(qn);
}

static void a_checkpoint_in_a_static_graph_follows_its_input(void) {
    qn_ctx *qn = opened("cpu");
    qn_tensor *x = number(qn, 0.5), *y = qn_square(qn_exp(x)), *g, *out[2];
    CHECK_INT(qn_checkpoint(1, &y, 1, &x, &y), QN_OK);
    CHECK_NEAR(value(y), exp(1), 1e-14, 0); /* read before it is captured */
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 2, (qn_tensor *[]){y, g});
    CHECK_STR(qn_error(qn), "");
    qn_tensor *other = number(qn, -1);
    CHECK_INT(qn_plan_run(plan, &other, out), QN_OK);
    CHECK_NEAR(value(out[0]), exp(-2), 1e-14, 0);
    CHECK_NEAR(value(out[1]), 2 * exp(-2), 1e-14, 0);
    qn_plan_free(plan);
    qn_close(qn);
}

/* ---- gradients that are given --------------------------------------------------------------- */

/* y with the gradient `slope` of the placeholder u, by x. */
static qn_tensor *given(qn_tensor *y, qn_tensor *u, qn_tensor *x, qn_tensor *slope) {
    qn_tensor *out = NULL;
    CHECK_INT(qn_custom_gradient(1, &y, &u, 1, &x, &slope, &out), QN_OK);
    return out;
}

static void a_clipped_gradient(void) {
    qn_ctx *qn = opened("cpu");
    qn_tensor *x = number(qn, 2), *u = qn_placeholder(x);
    qn_tensor *y = given(x, u, x, qn_clamp(u, -1, 1));
    CHECK_NEAR(slope(qn_mul(y, y), x), 1, 0, 0); /* 4 without */
    CHECK_NEAR(slope(qn_mul(y, number(qn, 0.25)), x), 0.25, 0, 0);
    CHECK_NEAR(value(y), 2, 0, 0);
    qn_close(qn);
}

static void a_step_that_gradients_go_straight_through(void) {
    qn_ctx *qn = opened("cpu");
    qn_tensor *x = number(qn, 2.6), *r = qn_round(x), *u = qn_placeholder(r);
    qn_tensor *y = given(r, u, x, u), *z = qn_mul(y, y), *g;
    CHECK_NEAR(value(z), 9, 0, 0);
    CHECK_INT(qn_grad(z, NULL, 1, &x, &g), QN_OK);
    CHECK_NEAR(value(g), 6, 0, 0);
    CHECK_NEAR(slope(g, x), 2, 0, 0); /* 2 y u is derived through y again */
    qn_close(qn);
}

/* y with y^3 + y = x by Newton's steps on numbers; dy/dx = 1 / (3 y^2 + 1). Its second derivative
 * goes by the value that was given it, so that has the gradient, too. */
static void an_implicit_function(void) {
    qn_ctx *qn = opened("cpu");
    qn_tensor *x = number(qn, 10), *y = qn_detach(number(qn, 1)), *fixed = qn_detach(x);
    for (int i = 0; i < 20; i++) {
        qn_tensor *f = qn_sub(qn_add(qn_mul(y, qn_mul(y, y)), y), fixed);
        y = qn_sub(y, qn_div(f, qn_add(qn_mul(number(qn, 3), qn_mul(y, y)), number(qn, 1))));
    }
    qn_tensor *one = number(qn, 1), *three = number(qn, 3);
    qn_tensor *u = qn_placeholder(y);
    qn_tensor *z = given(y, u, x, qn_div(u, qn_add(qn_mul(three, qn_mul(y, y)), one)));
    CHECK_NEAR(value(z), 2, 1e-12, 0);
    CHECK_NEAR(slope(z, x), 1.0 / 13, 1e-12, 0);
    /* the slope of the result with the gradient of its own */
    qn_tensor *v = qn_placeholder(z);
    qn_tensor *w = given(z, v, x, qn_div(v, qn_add(qn_mul(three, qn_mul(z, z)), one))), *g;
    CHECK_INT(qn_grad(w, NULL, 1, &x, &g), QN_OK);
    CHECK_NEAR(value(g), 1.0 / 13, 1e-12, 0);
    CHECK_NEAR(slope(g, x), -12.0 / (13 * 13 * 13), 1e-11, 0); /* -6y / (3y^2+1)^3 */
    qn_close(qn);
}

/* A slope that needs the gradients of both results at once: their product. */
static void gradients_of_several_results_come_together(void) {
    qn_ctx *qn = opened("cpu");
    double v[2] = {1, 2};
    qn_tensor *a = qn_from(qn, QN_F64, 1, (int64_t[]){2}, v), *b = number(qn, 5);
    qn_tensor *y[2] = {qn_neg(a), qn_exp(b)}, *out[2], *g[2];
    qn_tensor *u[2] = {qn_placeholder(y[0]), qn_placeholder(y[1])};
    qn_tensor *slopes[2] = {qn_mul(u[0], u[1]), qn_sum(u[0], QN_ALL, false)};
    CHECK_INT(qn_custom_gradient(2, y, u, 2, (qn_tensor *[]){a, b}, slopes, out), QN_OK);
    qn_tensor *seeds[2] = {a, b};
    CHECK_INT(qn_vjp(2, out, seeds, 2, (qn_tensor *[]){a, b}, g), QN_OK);
    double got[2];
    CHECK_INT(qn_read(g[0], got, sizeof got), QN_OK);
    CHECK_NEAR(got[0], 5, 0, 0);
    CHECK_NEAR(got[1], 10, 0, 0);
    CHECK_NEAR(value(g[1]), 3, 0, 0);
    qn_close(qn);
}

/* A result that is checkpointed keeps the gradient that it was given. */
static void given_gradients_are_computed_again(void) {
    qn_ctx *qn = opened("cpu");
    qn_tensor *x = number(qn, 2.6), *t = qn_mul(x, x), *u = qn_placeholder(t);
    qn_tensor *y = qn_exp(given(qn_round(t), u, t, qn_mul(u, t))), *z;
    CHECK_INT(qn_checkpoint(1, &y, 1, &x, &z), QN_OK);
    double want = exp(7) * 6.76 * 2 * 2.6;
    CHECK_NEAR(slope(y, x), want, 1e-13, 0);
    CHECK_NEAR(slope(z, x), want, 1e-13, 0);
    qn_close(qn);
}

/* A batch of none: whatever it is made of, its gradient is nothing, too. */
static void nothing_takes_the_gradient_it_is_given(void) {
    static const char *const devices[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        qn_ctx *qn = opened(devices[d]);
        qn_tensor *a = qn_from(qn, QN_F64, 2, (int64_t[]){0, 3}, ""), *b = number(qn, 5), *g[2];
        qn_tensor *y[2] = {qn_exp(a), qn_neg(a)}, *out[2];
        qn_tensor *u[2] = {qn_placeholder(y[0]), qn_placeholder(y[1])};
        qn_tensor *slopes[2] = {qn_mul(u[0], u[1]), qn_sum(u[0], QN_ALL, false)};
        CHECK_INT(qn_custom_gradient(2, y, u, 2, (qn_tensor *[]){a, b}, slopes, out), QN_OK);
        qn_tensor *z = qn_add(qn_sum(out[0], QN_ALL, false), qn_mul(b, b));
        CHECK_INT(qn_grad(z, NULL, 2, (qn_tensor *[]){a, b}, g), QN_OK);
        CHECK_NEAR(value(g[1]), 10, 0, 0);
        CHECK_INT(qn_numel(g[0]), 0);
        CHECK_INT(qn_dim(g[0], 1), 3);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
    }
}

/* ---- errors --------------------------------------------------------------------------------- */

static void what_does_not_fit_is_named(void) {
    qn_ctx *qn = opened("cpu");
    float one = 1, pair[2] = {1, 2};
    qn_tensor *x = number(qn, 1), *y = qn_exp(x), *u = qn_placeholder(y), *out = x;
    qn_tensor *narrow = qn_from(qn, QN_F32, 0, NULL, &one);
    qn_tensor *long_ = qn_from(qn, QN_F32, 1, (int64_t[]){2}, pair);
    CHECK(qn_custom_gradient(1, &y, &u, 1, &x, &long_, &out) == QN_ESHAPE && !out);
    expect_error(qn, QN_ESHAPE, "slope [2]");
    CHECK(qn_custom_gradient(1, &y, &u, 1, &x, &narrow, &out) == QN_EDTYPE);
    expect_error(qn, QN_EDTYPE, "custom_gradient: a slope of f32 for a x of f64");
    CHECK(qn_custom_gradient(1, &y, &x, 1, &x, &y, &out) == QN_EARG);
    expect_error(qn, QN_EARG, "placeholder 0 is none");
    CHECK(qn_custom_gradient(2, (qn_tensor *[]){y, y}, (qn_tensor *[]){u, u}, 1, &x, &y,
                             (qn_tensor *[2]){0}) == QN_EARG);
    expect_error(qn, QN_EARG, "placeholders 0 and 1 are one");
    CHECK(qn_checkpoint(1, &y, 1, NULL, &out) == QN_ENULL);
    expect_error(qn, QN_ENULL, "checkpoint: no list of xs");
    qn_tensor *none = NULL;
    CHECK_INT(qn_custom_gradient(1, &y, &u, 1, &x, &none, &out), QN_OK);
    CHECK_NEAR(slope(out, x), 0, 0, 0);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(computed_again_gradients_have_the_same_bits);
    RUN(a_chain_takes_memory_by_its_root);
    RUN(checkpoints_nest_and_are_derived_again);
    RUN(a_checkpoint_in_a_static_graph_follows_its_input);
    RUN(a_clipped_gradient);
    RUN(a_step_that_gradients_go_straight_through);
    RUN(an_implicit_function);
    RUN(gradients_of_several_results_come_together);
    RUN(given_gradients_are_computed_again);
    RUN(nothing_takes_the_gradient_it_is_given);
    RUN(what_does_not_fit_is_named);
    return test_end();
}
