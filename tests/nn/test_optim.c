/* test_optim.c - every optimizer against its paper's formula in plain double loops, over several
 * steps with given gradients; clipping; and that all steps share one plan. */
#include "quern_nn.h"
#include "run/run.h"
#include "test.h"

enum { PARAMETERS = 2, SIZE = 6, STEPS = 6 };
static const int64_t shapes[PARAMETERS][2] = {{2, 3}, {6, 1}};
static const int ranks[PARAMETERS] = {2, 1}; /* the second is a vector of six */

/* ---- the formulas, one parameter element at a time ------------------------------------------- */

typedef struct element {
    double p, a, b; /* the value and its state */
} element;

static void plain_step(const qn_optimizer_options *o, double decay, int t, double g, element *e) {
    double rate = o->rate;
    bool apart = o->method == QN_ADAMW || o->method == QN_LION;
    if (!apart) g += decay * e->p;
    if (apart) e->p *= 1 - rate * decay;
    switch (o->method) {
    case QN_SGD:
        e->a = o->momentum * e->a + g;
        e->p -= rate * (o->nesterov ? g + o->momentum * e->a : e->a);
        break;
    case QN_ADAM:
    case QN_ADAMW:
        e->a = o->beta1 * e->a + (1 - o->beta1) * g;
        e->b = o->beta2 * e->b + (1 - o->beta2) * g * g;
        e->p -= rate * (e->a / (1 - pow(o->beta1, t))) /
                (sqrt(e->b / (1 - pow(o->beta2, t))) + o->epsilon);
        break;
    case QN_RMSPROP:
        e->b = o->beta2 * e->b + (1 - o->beta2) * g * g;
        e->a = o->momentum * e->a + g / (sqrt(e->b) + o->epsilon);
        e->p -= rate * e->a;
        break;
    case QN_ADAGRAD:
        e->b += g * g;
        e->p -= rate * g / (sqrt(e->b) + o->epsilon);
        break;
    case QN_LION: {
        double direction = o->beta1 * e->a + (1 - o->beta1) * g;
        e->p -= rate * ((direction > 0) - (direction < 0));
        e->a = o->beta2 * e->a + (1 - o->beta2) * g;
        break;
    }
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static double random_value(uint64_t *seed) {
    return test_uniform(seed) * 2 - 1;
}

static void clip_plain(double g[PARAMETERS][SIZE], double clip) {
    double square = 0;
    for (int i = 0; i < PARAMETERS * SIZE; i++)
        square += g[i / SIZE][i % SIZE] * g[i / SIZE][i % SIZE];
    double factor = clip == 0 ? 1 : fmin(1, clip / (sqrt(square) + 1e-6));
    for (int i = 0; i < PARAMETERS * SIZE; i++) g[i / SIZE][i % SIZE] *= factor;
}

/* Train two parameters by random gradients, the rate changing from step to step. */
static void compare(const qn_optimizer_options *options, uint64_t seed) {
    qn_ctx *qn = qn_open(NULL);
    qn_optimizer_options o = *options;
    element e[PARAMETERS][SIZE] = {0};
    qn_tensor *p[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) {
        float start[SIZE];
        for (int k = 0; k < SIZE; k++) e[i][k].p = (double)(start[k] = (float)random_value(&seed));
        p[i] = qn_from(qn, QN_F32, ranks[i], shapes[i], start);
    }
    qn_optimizer *optimizer = qn_optimizer_new(qn, PARAMETERS, p, &o);
    qn_stats first, last;
    for (int t = 1; t <= STEPS; t++) {
        double g[PARAMETERS][SIZE];
        qn_tensor *gradient[PARAMETERS];
        qn_scope s = qn_scope_begin(qn);
        for (int i = 0; i < PARAMETERS; i++) {
            float values[SIZE];
            for (int k = 0; k < SIZE; k++)
                g[i][k] = (double)(values[k] = (float)random_value(&seed));
            gradient[i] = qn_from(qn, QN_F32, ranks[i], shapes[i], values);
        }
        o.rate = options->rate * t;
        CHECK_INT(qn_optimizer_set_rate(optimizer, o.rate), 0);
        CHECK_INT(qn_optimizer_apply(optimizer, gradient), 0);
        CHECK_INT(qn_realize(PARAMETERS, p), 0);
        qn_scope_end(qn, s);
        qn_get_stats(qn, t == 1 ? &first : &last, sizeof last);
        clip_plain(g, o.clip);
        for (int i = 0; i < PARAMETERS; i++) {
            double decay = ranks[i] < o.decay_rank ? 0 : o.weight_decay;
            for (int k = 0; k < SIZE; k++) plain_step(&o, decay, t, g[i][k], &e[i][k]);
        }
    }
    for (int i = 0; i < PARAMETERS; i++) {
        float got[SIZE];
        CHECK_INT(qn_read(p[i], got, sizeof got), 0);
        for (int k = 0; k < SIZE; k++) CHECK_NEAR((double)got[k], e[i][k].p, 2e-5, 2e-6);
    }
    CHECK_INT(last.plans, first.plans); /* no step after the first is planned anew */
    CHECK_STR(qn_error(qn), "");
    qn_optimizer_free(optimizer);
    for (int i = 0; i < PARAMETERS; i++) qn_release(p[i]);
    qn_close(qn);
}

static void methods_follow_their_formulas(void) {
    for (int method = 0; method < (QN_LION + 1); method++) {
        qn_optimizer_options o = qn_optimizer_defaults((qn_method)method);
        CHECK_INT(o.method, method);
        o.rate = 0.01;
        compare(&o, 100);
        o.weight_decay = 0.3;
        compare(&o, 101);
        o.decay_rank = 2;
        compare(&o, 102);
        if (test_state.bad) {
            printf("in %s\n", qn_method_name((qn_method)method));
            break;
        }
    }
}

static void momentum_is_kept_where_asked(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 0.01;
    o.momentum = 0.9;
    compare(&o, 103);
    o.nesterov = true;
    compare(&o, 104);
    o = qn_optimizer_defaults(QN_RMSPROP);
    o.momentum = 0.8;
    compare(&o, 105);
}

static void gradients_are_clipped_by_their_common_norm(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 0.1;
    o.clip = 0.5; /* twelve numbers in [-1, 1) have a norm of about 2 */
    compare(&o, 106);
    o.clip = 100;
    compare(&o, 107);
}

/* The gradient of sum((p - c)^2) is 2 (p - c): plain descent at rate 1/2 arrives in one step. */
static void a_step_goes_down_the_gradient_of_the_loss(void) {
    qn_ctx *qn = qn_open(NULL);
    float goal[3] = {1, -2, 3}, got[3];
    qn_tensor *p = qn_from(qn, QN_F32, 1, (int64_t[]){3}, (float[]){9, 9, 9});
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 0.5;
    qn_optimizer *optimizer = qn_optimizer_new(qn, 1, &p, &o);
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *gap = qn_sub(p, qn_from(qn, QN_F32, 1, (int64_t[]){3}, goal));
    CHECK_INT(qn_optimizer_step(optimizer, qn_sum(qn_mul(gap, gap), QN_ALL, false)), 0);
    qn_scope_end(qn, s);
    CHECK_INT(qn_read(p, got, sizeof got), 0);
    for (int i = 0; i < 3; i++) CHECK_NEAR((double)got[i], (double)goal[i], 0, 1e-5);
    qn_optimizer_free(optimizer);
    qn_release(p);
    qn_close(qn);
}

/* 0.1 is not the f32 nearest to it. */
static void parameters_of_f64_are_stepped_in_f64(void) {
    for (int method = 0; method < (QN_LION + 1); method++) {
        qn_ctx *qn = qn_open(NULL);
        qn_optimizer_options o = qn_optimizer_defaults((qn_method)method);
        double start = 0.75, got = 0;
        o.rate = 0.1;
        element e = {.p = start};
        qn_tensor *p = qn_from(qn, QN_F64, 1, (int64_t[]){1}, &start);
        qn_optimizer *optimizer = qn_optimizer_new(qn, 1, &p, &o);
        for (int t = 1; t <= 5; t++) {
            plain_step(&o, o.weight_decay, t, 2 * e.p, &e);
            CHECK_INT(qn_optimizer_step(optimizer, qn_mul(p, p)), QN_OK);
        }
        CHECK_INT(qn_read(p, &got, sizeof got), QN_OK);
        CHECK_NEAR(got, e.p, 1e-13, 0);
        qn_optimizer_free(optimizer);
        qn_close(qn);
    }
}

static void its_state_has_names(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *p = qn_from(qn, QN_F32, 1, (int64_t[]){3}, (float[]){1, 2, 3});
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAM);
    qn_optimizer *optimizer = qn_optimizer_new(qn, 1, &p, &o);
    qn_module *state = qn_optimizer_state(optimizer);
    CHECK_INT(qn_module_count(state), 4);
    CHECK_INT(qn_numel(qn_module_find(state, "0.0")), 3);
    CHECK_INT(qn_numel(qn_module_find(state, "0.1")), 3);
    float count, rate;
    CHECK_INT(qn_optimizer_apply(optimizer, &p), 0);
    CHECK_INT(qn_optimizer_apply(optimizer, &p), 0);
    qn_read(qn_module_find(state, "count"), &count, sizeof count);
    qn_read(qn_module_find(state, "rate"), &rate, sizeof rate);
    CHECK_INT(count, 2);
    CHECK_NEAR((double)rate, 1e-3, 1e-6, 0);
    qn_optimizer_free(optimizer);
    qn_release(p);
    qn_close(qn);
}

static void bad_settings_are_refused(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *p = qn_from(qn, QN_F32, 0, NULL, &(float){1});
    qn_tensor *whole = qn_from(qn, QN_I32, 0, NULL, &(int32_t){1}), *none = NULL;
    qn_optimizer_options good = qn_optimizer_defaults(QN_ADAM), o;
#define REFUSED(change, n, what, code)                                                             \
    do {                                                                                           \
        o = good;                                                                                  \
        change;                                                                                    \
        CHECK(qn_optimizer_new(qn, n, what, &o) == NULL);                                          \
        CHECK_INT(qn_error_code(qn), code);                                                        \
        qn_clear_error(qn);                                                                        \
    } while (0)
    REFUSED(o.rate = -1, 1, &p, QN_ERANGE);
    REFUSED(o.rate = NAN, 1, &p, QN_ERANGE);
    REFUSED(o.beta2 = 1, 1, &p, QN_ERANGE);
    REFUSED(o.method = (QN_LION + 1), 1, &p, QN_EARG);
    REFUSED((void)0, 0, &p, QN_EARG);
    REFUSED((void)0, 1, NULL, QN_ENULL);
    REFUSED((void)0, 1, &none, QN_ENULL);
    REFUSED((void)0, 1, &whole, QN_EDTYPE);
    CHECK(qn_optimizer_new(NULL, 1, &p, &good) == NULL);
    qn_optimizer *optimizer = qn_optimizer_new(qn, 1, &p, &good);
    CHECK_INT(qn_optimizer_step(optimizer, NULL), QN_ENULL);
    qn_clear_error(qn);
    CHECK_INT(qn_optimizer_apply(optimizer, &none), QN_ENULL);
    qn_clear_error(qn);
    CHECK_INT(qn_optimizer_set_rate(optimizer, -1), QN_ERANGE);
    qn_optimizer_free(optimizer);
    qn_release(p);
    qn_release(whole);
    qn_close(qn);
}

static void the_rate_rises_then_falls_along_a_cosine(void) {
    CHECK_NEAR(qn_rate_cosine(1, 0.1, 4, 104, 0), 0.2, 1e-12, 0);
    CHECK_NEAR(qn_rate_cosine(1, 0.1, 4, 104, 3), 0.8, 1e-12, 0);
    CHECK_NEAR(qn_rate_cosine(1, 0.1, 4, 104, 4), 1, 1e-12, 0);
    CHECK_NEAR(qn_rate_cosine(1, 0.1, 4, 104, 54), 0.55, 1e-12, 0);
    CHECK_NEAR(qn_rate_cosine(1, 0.1, 4, 104, 104), 0.1, 1e-12, 0);
    CHECK_NEAR(qn_rate_cosine(1, 0.1, 4, 104, 1000), 0.1, 1e-12, 0);
    CHECK_NEAR(qn_rate_cosine(2, 2, 0, 10, 5), 2, 1e-12, 0);
}

/* A slice of all of a parameter is another handle of the same value: the step's next run must find
 * the value through the handle that is assigned. */
static void a_static_step_follows_a_parameter_that_is_sliced_whole(void) {
    const float start[3] = {8, 16, -32}, ones[3] = {1, 1, 1};
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *one = qn_from(qn, QN_F32, 1, (int64_t[]){3}, ones), *alias[4], *out = NULL;
    for (int i = 0; i < 4; i++)
        alias[i] = qn_neg(one); /* handles before and after the parameter's */
    qn_tensor *p = qn_from(qn, QN_F32, 1, (int64_t[]){3}, start);
    qn_release(alias[1]);
    qn_tensor *half = qn_mul(qn_slice(p, 0, 0, 3, 1), qn_like(p, 0.5));
    qn_tensor *y = qn_add(half, one);
    CHECK_INT(qn_assign(p, half), QN_OK);
    qn_plan *plan = qn_plan_new(qn, 1, &one, 1, &y);
    for (int run = 0; run < 3; run++) {
        float got[3];
        CHECK_INT(qn_plan_run(plan, &one, &out), QN_OK);
        CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
        for (int i = 0; i < 3; i++) CHECK(got[i] == start[i] / (float)(2 << run) + 1);
        qn_release(out);
    }
    qn_plan_free(plan);
    qn_close(qn);
}

/* The same where the graph assigns nothing, but the parameter is written between runs. */
static void a_static_graph_sees_what_is_written_to_a_sliced_parameter(void) {
    const float before[3] = {8, 16, -32}, after[3] = {1, 2, 3}, ones[3] = {1, 1, 1};
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *one = qn_from(qn, QN_F32, 1, (int64_t[]){3}, ones), *spare[4], *out = NULL;
    for (int i = 0; i < 4; i++) spare[i] = qn_neg(one);
    qn_tensor *p = qn_from(qn, QN_F32, 1, (int64_t[]){3}, before);
    for (int i = 0; i < 4; i++) qn_release(spare[i]); /* the slice gets one of their places */
    qn_tensor *y = qn_add(qn_slice(p, 0, 0, 3, 1), one);
    qn_plan *plan = qn_plan_new(qn, 1, &one, 1, &y);
    for (int run = 0; run < 2; run++) {
        float got[3];
        CHECK_INT(qn_plan_run(plan, &one, &out), QN_OK);
        CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
        for (int i = 0; i < 3; i++) CHECK(got[i] == (run ? after : before)[i] + 1);
        qn_release(out);
        CHECK_INT(qn_write(p, after, sizeof after), QN_OK);
    }
    qn_plan_free(plan);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(methods_follow_their_formulas);
    RUN(momentum_is_kept_where_asked);
    RUN(gradients_are_clipped_by_their_common_norm);
    RUN(a_step_goes_down_the_gradient_of_the_loss);
    RUN(parameters_of_f64_are_stepped_in_f64);
    RUN(its_state_has_names);
    RUN(bad_settings_are_refused);
    RUN(the_rate_rises_then_falls_along_a_cosine);
    RUN(a_static_step_follows_a_parameter_that_is_sliced_whole);
    RUN(a_static_graph_sees_what_is_written_to_a_sliced_parameter);
    return test_end();
}
