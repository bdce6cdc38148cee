/* test_trips_marks.c - bodies of loops whose gradients take a way of their own: functions whose
 * derivatives have another form, gradients that are given, checkpoints. Values and gradients, first
 * and second, against the same body unrolled, with what the body captures, in layers, and inside of
 * a loop in a loop. */
#include "loop_values.h"
#include "quern_ops_nn.h"

enum { TRIPS = 5, WIDE = 6, EXAMPLES = 3, MOST = EXAMPLES * TRIPS * 2 * WIDE };

static qn_tensor *numbers(qn_ctx *qn, uint64_t seed, int rank, const int64_t *shape) {
    double data[MOST];
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    for (int64_t i = 0; i < n; i++) data[i] = 2 * test_uniform(&seed) - 1;
    return qn_from(qn, QN_F64, rank, shape, data);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* The next state of state h, row x and a captured matrix w, beside another state. */
typedef qn_tensor *(*body)(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other);

static qn_tensor *turned(qn_tensor *x) {
    return qn_transpose(x, 0, 1);
}
static qn_tensor *layer(qn_tensor *h, qn_tensor *x, qn_tensor *w) {
    return qn_tanh(qn_add(qn_matmul(h, w), x));
}

static qn_tensor *softplus(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    (void)other;
    return qn_sin(qn_softplus(qn_add(qn_matmul(h, w), qn_softplus(x))));
}
static qn_tensor *mish(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    (void)other;
    return qn_sin(qn_mish(qn_add(qn_mul(h, x), qn_mish(qn_matmul(x, w)))));
}
static qn_tensor *again(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *in[3] = {h, x, w}, *y = layer(qn_sin(h), qn_softplus(x), w), *out = NULL;
    (void)other;
    qn_checkpoint(1, &y, 3, in, &out);
    return out;
}

/* y with slopes for h and w, which are made of `seed`. */
static qn_tensor *with(qn_tensor *y, qn_tensor *seed, qn_tensor *h, qn_tensor *by_h, qn_tensor *w,
                       qn_tensor *by_w) {
    qn_tensor *in[2] = {h, w}, *to[2] = {by_h, by_w}, *out = NULL;
    qn_custom_gradient(1, &y, &seed, 2, in, to, &out);
    return out;
}
/* Slopes of what the trip has. */
static qn_tensor *given(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *in = qn_add(qn_matmul(h, w), x), *y = qn_mul(qn_tanh(in), qn_sum(w, 0, false));
    qn_tensor *seed = qn_placeholder(y), *slope = qn_mul(seed, qn_cos(in));
    (void)other;
    return with(y, seed, in, qn_mul(slope, qn_weak(seed, 0.5)), w, qn_matmul(turned(in), seed));
}
/* Of nothing but what comes to the result and what is the same in each trip. */
static qn_tensor *given_alone(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *y = layer(h, x, w), *seed = qn_placeholder(y);
    qn_tensor *by_w = qn_matmul(turned(seed), qn_expand_as(qn_sum(w, 0, true), seed));
    (void)other;
    return with(y, seed, h, qn_add(qn_add(seed, seed), qn_matmul(seed, w)), w, by_w);
}
/* Of a state that another layer has made. */
static qn_tensor *given_across(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *y = layer(h, x, w), *seed = qn_placeholder(y), *both = qn_mul(seed, other);
    return with(y, seed, x, both, w, qn_matmul(turned(h), both));
}
/* A number's, which is less memory than what it is a sum of. */
static qn_tensor *given_little(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *q = qn_sum(w, QN_ALL, false), *y = layer(h, x, w), *seed = qn_placeholder(y);
    (void)other;
    return with(y, seed, h, qn_mul(seed, x), q, qn_sum(qn_mul(seed, h), QN_ALL, false));
}
/* Two results whose gradients meet, in a slope with a checkpoint and a gradient given. */
static qn_tensor *given_together(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *y[2] = {layer(h, x, w), qn_mul(qn_sin(h), x)}, *seed[2], *out[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) seed[k] = qn_placeholder(y[k]);
    qn_tensor *sum = qn_add(qn_mul(seed[0], other), seed[1]);
    qn_tensor *in[2] = {sum, w}, *slope = qn_matmul(sum, w), *inner, *twice;
    qn_checkpoint(1, &slope, 2, in, &slope);
    inner = qn_placeholder(slope);
    twice = qn_add(inner, inner);
    qn_custom_gradient(1, &slope, &inner, 1, &sum, &twice, &slope);
    qn_custom_gradient(2, y, seed, 1, &h, &slope, out);
    return qn_add(out[0], qn_mul(out[1], qn_weak(out[1], 0.5)));
}
/* One that is not linear in what comes to the result: no part of that may come alone. */
static qn_tensor *given_clipped(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *y = layer(h, x, w), *seed = qn_placeholder(y), *less = qn_tanh(seed);
    (void)other;
    return with(y, seed, h, qn_matmul(less, turned(w)), w, qn_matmul(turned(h), less));
}

static const struct {
    body make;
    bool bent; /* second gradients are others in loops with checkpoints */
} bodies[] = {{softplus, false},     {mish, false},           {again, false},
              {given, false},        {given_alone, false},    {given_across, false},
              {given_little, false}, {given_together, false}, {given_clipped, true}};

/* ---- a loop, and the same unrolled ----------------------------------------------------------- */

typedef struct inputs {
    qn_tensor *h, *x, *w;
} inputs;

static inputs inputs_of(qn_ctx *qn) {
    return (inputs){numbers(qn, 1, 2, (int64_t[]){2, WIDE}),
                    numbers(qn, 2, 3, (int64_t[]){TRIPS, 2, WIDE}),
                    numbers(qn, 3, 2, (int64_t[]){WIDE, WIDE})};
}

/* Two layers of the body, the second reading what the first makes. */
static qn_tensor *rolled(qn_ctx *qn, body b, const inputs *in, int64_t checkpoint) {
    qn_tensor *h[2] = {in->h, in->h}, *x = in->x;
    qn_loop *l = qn_loop_begin(qn, 2, h, 1, &x, &QN_LOOP_OPTIONS(.checkpoint = checkpoint));
    qn_tensor *s[2] = {qn_loop_state(l, 0), qn_loop_state(l, 1)};
    h[0] = b(s[0], qn_loop_slice(l, 0), in->w, s[1]);
    h[1] = b(s[1], qn_matmul(h[0], in->w), in->w, s[0]);
    CHECK_INT(qn_loop_end(l, 2, h, 1, &h[1]), QN_OK);
    qn_tensor *all = qn_loop_output(l, 0);
    qn_loop_free(l);
    return all;
}

static qn_tensor *unrolled(body b, const inputs *in) {
    qn_tensor *h[2] = {in->h, in->h}, *all[TRIPS];
    for (int t = 0; t < TRIPS; t++) {
        qn_tensor *before = h[0];
        h[0] = b(h[0], qn_select(in->x, 0, t), in->w, h[1]);
        all[t] = h[1] = b(h[1], qn_matmul(h[0], in->w), in->w, before);
    }
    return qn_stack(TRIPS, all, 0);
}

/* Value, first gradients and gradients of those, read. */
typedef struct results {
    double of[7][MOST];
} results;

static void read_results(qn_ctx *qn, qn_tensor *y, const inputs *in, results *r) {
    qn_tensor *of[3] = {in->h, in->x, in->w}, *all[7] = {y};
    CHECK_INT(qn_grad(qn_sum(qn_square(y), QN_ALL, false), NULL, 3, of, all + 1), QN_OK);
    qn_tensor *norm = qn_sum(qn_sin(all[3]), QN_ALL, false);
    CHECK_INT(qn_grad(norm, NULL, 3, of, all + 4), QN_OK);
    memset(r, 0, sizeof *r);
    for (int i = 0; i < 7; i++) CHECK_INT(qn_read(all[i], r->of[i], sizeof r->of[i]), QN_OK);
    if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
}

static void compare(const results *got, const results *want, bool second) {
    for (int i = 0; i < (second ? 7 : 4); i++)
        for (int k = 0; k < MOST; k++)
            CHECK_NEAR(got->of[i][k], want->of[i][k], 1e-9, i < 4 ? 1e-10 : 1e-8);
}

static results got, want;

static inputs examples_of(qn_ctx *qn) {
    return (inputs){numbers(qn, 1, 3, (int64_t[]){EXAMPLES, 2, WIDE}),
                    numbers(qn, 2, 4, (int64_t[]){EXAMPLES, TRIPS, 2, WIDE}),
                    numbers(qn, 3, 2, (int64_t[]){WIDE, WIDE})};
}

/* What the reference makes of the body unrolled. */
static void expect_of(body b, bool is_mapped) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    inputs in = is_mapped ? examples_of(qn) : inputs_of(qn);
    qn_tensor *each[EXAMPLES];
    for (int e = 0; is_mapped && e < EXAMPLES; e++) {
        inputs one = {qn_select(in.h, 0, e), qn_select(in.x, 0, e), in.w};
        each[e] = unrolled(b, &one);
    }
    read_results(qn, is_mapped ? qn_stack(EXAMPLES, each, 0) : unrolled(b, &in), &in, &want);
    qn_close(qn);
}

static void ways(void) {
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        expect_of(bodies[i].make, false);
        for (int checkpoint = 0; checkpoint < 4; checkpoint += 2) {
            qn_ctx *qn = begin();
            inputs in = inputs_of(qn);
            read_results(qn, rolled(qn, bodies[i].make, &in, checkpoint), &in, &got);
            compare(&got, &want, !bodies[i].bent || !checkpoint);
            end(qn);
        }
    }
}

static void gradients_of_bodies_keep_their_ways(void) {
    device_each(&device, ways);
}

/* Of a loop for several examples, and of the examples unrolled. */
static void mapped(void) {
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        expect_of(bodies[i].make, true);
        qn_ctx *qn = begin();
        inputs in = examples_of(qn), one = {qn_example(in.h, 0), qn_example(in.x, 0), in.w};
        qn_tensor *y = rolled(qn, bodies[i].make, &one, 0);
        qn_tensor *from[2] = {one.h, one.x}, *to[2] = {in.h, in.x};
        CHECK_INT(qn_vmap(1, &y, NULL, 2, from, to, NULL, &y), QN_OK);
        read_results(qn, y, &in, &got);
        compare(&got, &want, true);
        end(qn);
    }
}

static void maps_keep_them(void) {
    device_each(&device, mapped);
}

/* A given gradient that only a slope reads, and that is not linear. */
static qn_tensor *given_deep(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *in = qn_sin(h), *seed = qn_placeholder(in), *bent = qn_tanh(seed);
    in = with(in, seed, h, bent, w, qn_matmul(turned(h), bent));
    qn_tensor *y = layer(h, x, w), *to = qn_placeholder(y);
    (void)other;
    return with(y, to, h, qn_mul(to, qn_mul(in, h)), w, qn_matmul(turned(in), to));
}

/* Two ways back that meet there: what comes to it must come at once. */
static void slopes_of_slopes_are_given_all(void) {
    double by_w[2][WIDE * WIDE];
    device = "ref";
    for (int k = 0; k < 2; k++) {
        qn_ctx *qn = begin();
        inputs in = inputs_of(qn);
        qn_tensor *y = k ? unrolled(given_deep, &in) : rolled(qn, given_deep, &in, 0);
        qn_tensor *loss[2] = {qn_sum(qn_square(y), QN_ALL, false),
                              qn_sum(qn_exp(y), QN_ALL, false)};
        qn_tensor *g[2], *both;
        for (int i = 0; i < 2; i++) CHECK_INT(qn_grad(loss[i], NULL, 1, &in.h, &g[i]), QN_OK);
        both = qn_sum(qn_mul(qn_sin(g[0]), g[1]), QN_ALL, false);
        CHECK_INT(qn_grad(both, NULL, 1, &in.w, &g[0]), QN_OK);
        CHECK_INT(qn_read(g[0], by_w[k], sizeof by_w[k]), QN_OK);
        end(qn);
    }
    for (int i = 0; i < WIDE * WIDE; i++) CHECK_NEAR(by_w[0][i], by_w[1][i], 1e-9, 1e-10);
}

/* ---- what nobody asks for -------------------------------------------------------------------- */

static uint64_t kernels_of(qn_ctx *qn, qn_tensor *y) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    CHECK_INT(qn_realize(1, &y), QN_OK);
    qn_get_stats(qn, &b, sizeof b);
    return b.kernels - a.kernels;
}

static qn_tensor *plain(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    (void)other;
    return layer(h, x, w);
}
/* A product of a slice, which is made of all trips at once where a value takes it. */
static qn_tensor *given_weighed(qn_tensor *h, qn_tensor *x, qn_tensor *w, qn_tensor *other) {
    qn_tensor *y = layer(h, x, w), *seed = qn_placeholder(y);
    (void)other;
    return with(y, seed, h, qn_mul(seed, qn_matmul(x, w)), w, qn_matmul(turned(h), seed));
}

static qn_tensor *one_layer(qn_ctx *qn, body b, const inputs *in) {
    qn_tensor *h = in->h, *x = in->x;
    qn_loop *l = qn_loop_begin(qn, 1, &h, 1, &x, NULL);
    h = b(qn_loop_state(l, 0), qn_loop_slice(l, 0), in->w, NULL);
    CHECK_INT(qn_loop_end(l, 1, &h, 1, &h), QN_OK);
    qn_tensor *all = qn_loop_output(l, 0);
    qn_loop_free(l);
    return all;
}

static void values_cost_no_gradients(void) {
    device = "cpu";
    uint64_t kernels[3];
    for (int k = 0; k < 3; k++) {
        qn_ctx *qn = begin();
        inputs in = inputs_of(qn);
        kernels[k] = kernels_of(qn, one_layer(qn, (body[]){plain, given_weighed, again}[k], &in));
        end(qn);
    }
    CHECK_INT((int64_t)kernels[1], (int64_t)kernels[0]);
    CHECK((int64_t)kernels[2] <= (int64_t)kernels[0] + TRIPS); /* sines */
}

/* A mask that only the gradient takes is stacked, and not the product that it is of. */
static void masks_are_stacked(void) {
    enum { SIDE = 64, MANY = 64 };
    static double zero[MANY * SIDE * SIDE];
    device = "cpu";
    qn_ctx *qn = begin();
    qn_tensor *h = qn_from(qn, QN_F64, 2, (int64_t[]){SIDE, SIDE}, zero), *h0 = h, *g;
    qn_tensor *w = qn_from(qn, QN_F64, 2, (int64_t[]){SIDE, SIDE}, zero);
    qn_tensor *x = qn_from(qn, QN_F64, 3, (int64_t[]){MANY, SIDE, SIDE}, zero);
    qn_loop *l = qn_loop_begin(qn, 1, &h, 1, &x, NULL);
    h = qn_add(qn_relu(qn_matmul(qn_loop_state(l, 0), w)), qn_loop_slice(l, 0));
    CHECK_INT(qn_loop_end(l, 1, &h, 0, NULL), QN_OK);
    CHECK_INT(qn_grad(qn_sum(qn_loop_final(l, 0), QN_ALL, false), NULL, 1, &h0, &g), QN_OK);
    qn_loop_free(l);
    CHECK_INT(qn_realize(1, &g), QN_OK);
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    CHECK(s.planned_peak_bytes < MANY * SIDE * SIDE * sizeof(double) / 2);
    end(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(gradients_of_bodies_keep_their_ways);
    RUN(maps_keep_them);
    RUN(slopes_of_slopes_are_given_all);
    RUN(values_cost_no_gradients);
    RUN(masks_are_stacked);
    return test_end();
}
