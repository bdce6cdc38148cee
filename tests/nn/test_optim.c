/* test_optim.c - every optimizer against its paper's formula in plain double loops, over several
 * steps with given gradients; clipping; and that all steps share one plan. */
#include "quern_nn.h"
#include "run/run.h"
#include "test.h"

enum { PARAMETERS = 2, SIZE = 6, STEPS = 6 };
static const int64_t shapes[PARAMETERS][2] = {{2, 3}, {6, 1}}; /* the second may be a vector */

/* ---- the formulas -------------------------------------------------------------------------- */

typedef struct element {
    double p, a, b, c; /* the value and its state */
} element;

static bool decays_apart(qn_method method) {
    return method == QN_ADAMW || method == QN_LION || method == QN_LAMB || method >= QN_MUON ||
           method == QN_ADAFACTOR;
}

/* Of what takes elements one by one. */
static void plain_step(const qn_optimizer_options *o, double decay, int t, double g, element *e) {
    double rate = o->rate, second, way;
    if (o->maximize) g = -g;
    if (!decays_apart(o->method)) g += decay * e->p;
    if (decays_apart(o->method)) e->p *= 1 - rate * decay;
    switch (o->method) {
    case QN_SGD:
        e->a = o->momentum * e->a + (t == 1 ? 1 : 1 - o->dampening) * g;
        e->p -= rate * (o->nesterov ? g + o->momentum * e->a : o->momentum != 0.0 ? e->a : g);
        break;
    case QN_ADAM:
    case QN_ADAMW:
        e->a = o->beta1 * e->a + (1 - o->beta1) * g;
        e->b = o->beta2 * e->b + (1 - o->beta2) * g * g;
        e->c = fmax(e->c, e->b);
        second = o->amsgrad ? e->c : e->b;
        e->p -= rate * (e->a / (1 - pow(o->beta1, t))) /
                (sqrt(second / (1 - pow(o->beta2, t))) + o->epsilon);
        break;
    case QN_RMSPROP:
        e->b = o->beta2 * e->b + (1 - o->beta2) * g * g;
        e->c = o->beta2 * e->c + (1 - o->beta2) * g;
        second = e->b - (o->centered ? e->c * e->c : 0);
        e->a = o->momentum * e->a + g / (sqrt(second) + o->epsilon);
        e->p -= rate * e->a;
        break;
    case QN_ADAGRAD:
        if (t == 1) e->b = o->start;
        e->b += g * g;
        e->p -= rate / (1 + (t - 1) * o->rate_decay) * g / (sqrt(e->b) + o->epsilon);
        break;
    case QN_LION: {
        double direction = o->beta1 * e->a + (1 - o->beta1) * g;
        e->p -= rate * ((direction > 0) - (direction < 0));
        e->a = o->beta2 * e->a + (1 - o->beta2) * g;
        break;
    }
    case QN_ADADELTA:
        e->a = o->beta2 * e->a + (1 - o->beta2) * g * g;
        way = sqrt(e->b + o->epsilon) / sqrt(e->a + o->epsilon) * g;
        e->b = o->beta2 * e->b + (1 - o->beta2) * way * way;
        e->p -= rate * way;
        break;
    case QN_ADAMAX:
        e->a = o->beta1 * e->a + (1 - o->beta1) * g;
        e->b = fmax(o->beta2 * e->b, fabs(g) + o->epsilon);
        e->p -= rate / (1 - pow(o->beta1, t)) * e->a / e->b;
        break;
    case QN_SOPHIA:
        e->a = o->beta1 * e->a + (1 - o->beta1) * g;
        e->b = o->beta2 * e->b + (1 - o->beta2) * g * g;
        e->p -= rate * fmax(-1, fmin(1, e->a / fmax(o->threshold * e->b, o->epsilon)));
        break;
    case QN_ADAFACTOR:
    case QN_LAMB:
    case QN_MUON:
        break; /* matrix_step has them */
    }
}

/* Shazeer and Stern's algorithms 4 and 5, with PyTorch's least mean of rows. */
static void adafactor_step(const qn_optimizer_options *o, double decay, int t, int rank, int rows,
                           const double *g, element *e) {
    double new = pow(t, o->beta2_decay), least = o->epsilon > 0 ? o->epsilon : 0x1p-23;
    int columns = SIZE / rows;
    double row[SIZE] = {0}, column[SIZE] = {0}, mean = 0, way[SIZE], square = 0, norm = 0;
    for (int k = 0; k < SIZE; k++) {
        row[k / columns] += g[k] * g[k] / columns;
        column[k % columns] += g[k] * g[k] / rows;
        norm += e[k].p * e[k].p;
    }
    for (int k = 0; k < SIZE; k++) { /* every element has its row's and its column's */
        e[k].a += new *((rank > 1 ? row[k / columns] : g[k] * g[k]) - e[k].a);
        e[k].b += new *(column[k % columns] - e[k].b);
        mean += e[k].a / SIZE;
    }
    for (int k = 0; k < SIZE; k++) {
        double second = rank > 1 ? e[k].a * e[k].b / fmax(mean, least) : e[k].a;
        way[k] = g[k] / sqrt(fmax(second, least * least));
        square += way[k] * way[k];
    }
    double rate = fmax(o->epsilon2, sqrt(norm / SIZE)) * fmin(o->rate, 1 / sqrt(t));
    rate /= fmax(1, sqrt(square / SIZE) / o->threshold);
    for (int k = 0; k < SIZE; k++) e[k].p = e[k].p * (1 - o->rate * decay) - rate * way[k];
}

static void lamb_step(const qn_optimizer_options *o, double decay, int t, const double *g,
                      element *e) {
    double way[SIZE], ways = 0, norm = 0;
    for (int k = 0; k < SIZE; k++) {
        e[k].a = o->beta1 * e[k].a + (1 - o->beta1) * g[k];
        e[k].b = o->beta2 * e[k].b + (1 - o->beta2) * g[k] * g[k];
        way[k] =
            e[k].a / (1 - pow(o->beta1, t)) / (sqrt(e[k].b / (1 - pow(o->beta2, t))) + o->epsilon) +
            decay * e[k].p;
        ways += way[k] * way[k];
        norm += e[k].p * e[k].p;
    }
    for (int k = 0; k < SIZE; k++) e[k].p -= o->rate * sqrt(norm / ways) * way[k];
}

/* In the order of columns where a matrix is tall: x x^T is of the shorter side. */
static void muon_step(const qn_optimizer_options *o, double decay, int rows, const double *g,
                      element *e) {
    int columns = SIZE / rows;
    double x[SIZE], norm = 0, ratio = sqrt(fmax(1, (double)rows / columns));
    for (int k = 0; k < SIZE; k++) {
        e[k].a = o->momentum * e[k].a + (1 - o->momentum) * g[k];
        x[k] = o->nesterov ? o->momentum * e[k].a + (1 - o->momentum) * g[k] : e[k].a;
        norm += x[k] * x[k];
    }
    for (int k = 0; k < SIZE; k++) x[k] /= fmax(sqrt(norm), o->epsilon);
    for (int round = 0; round < o->iterations; round++) {
        double a[SIZE][SIZE] = {{0}}, b[SIZE][SIZE] = {{0}}, y[SIZE];
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < rows; j++)
                for (int k = 0; k < columns; k++)
                    a[i][j] += x[i * columns + k] * x[j * columns + k];
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < rows; j++) {
                b[i][j] = o->coefficients[1] * a[i][j];
                for (int k = 0; k < rows; k++) b[i][j] += o->coefficients[2] * a[i][k] * a[k][j];
            }
        for (int k = 0; k < SIZE; k++) {
            y[k] = o->coefficients[0] * x[k];
            for (int j = 0; j < rows; j++) y[k] += b[k / columns][j] * x[j * columns + k % columns];
        }
        memcpy(x, y, sizeof x);
    }
    for (int k = 0; k < SIZE; k++) e[k].p = e[k].p * (1 - o->rate * decay) - o->rate * ratio * x[k];
}

/* One step of a parameter of `rows` rows, 1 where it has one axis. */
static void matrix_step(const qn_optimizer_options *o, double decay, int t, int rank, int rows,
                        const double *g, element *e) {
    if (o->method == QN_ADAFACTOR)
        adafactor_step(o, decay, t, rank, rows, g, e);
    else if (o->method == QN_LAMB)
        lamb_step(o, decay, t, g, e);
    else if (o->method == QN_MUON)
        muon_step(o, decay, rows, g, e);
    else
        for (int k = 0; k < SIZE; k++) plain_step(o, decay, t, g[k], &e[k]);
}

/* ---- comparing ----------------------------------------------------------------------------- */

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
    const int ranks[PARAMETERS] = {2, o.method == QN_MUON ? 2 : 1};
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
            int rows = ranks[i] > 1 ? (int)shapes[i][0] : 1;
            matrix_step(&o, decay, t, ranks[i], rows, g[i], e[i]);
        }
    }
    for (int i = 0; i < PARAMETERS; i++) {
        float got[SIZE];
        CHECK_INT(qn_read(p[i], got, sizeof got), 0);
        for (int k = 0; k < SIZE; k++) CHECK_NEAR((double)got[k], e[i][k].p, 2e-5, 2e-6);
    }
    CHECK_INT(last.plans, first.plans); /* no step after the first is planned anew */
    CHECK_INT(last.compiles, first.compiles);
    CHECK_STR(qn_error(qn), "");
    qn_optimizer_free(optimizer);
    for (int i = 0; i < PARAMETERS; i++) qn_release(p[i]);
    qn_close(qn);
}

static void methods_follow_their_formulas(void) {
    for (int method = 0; method < (QN_SOPHIA + 1); method++) {
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
    for (int method = 0; method < (QN_SOPHIA + 1); method++) {
        qn_ctx *qn = qn_open(NULL);
        qn_optimizer_options o = qn_optimizer_defaults((qn_method)method);
        double start[SIZE] = {0.75, -0.5, 0.25, 1, -2, 0.125}, got[SIZE], g[SIZE];
        o.rate = 0.1;
        element e[SIZE] = {0};
        for (int k = 0; k < SIZE; k++) e[k].p = start[k];
        qn_tensor *p = qn_from(qn, QN_F64, 2, shapes[0], start);
        qn_optimizer *optimizer = qn_optimizer_new(qn, 1, &p, &o);
        for (int t = 1; t <= 5; t++) {
            for (int k = 0; k < SIZE; k++) g[k] = 2 * e[k].p;
            matrix_step(&o, o.weight_decay, t, 2, 2, g, e);
            CHECK_INT(qn_optimizer_step(optimizer, qn_sum(qn_mul(p, p), QN_ALL, false)), QN_OK);
        }
        CHECK_INT(qn_read(p, got, sizeof got), QN_OK);
        for (int k = 0; k < SIZE; k++) CHECK_NEAR(got[k], e[k].p, 1e-12, 1e-13);
        qn_optimizer_free(optimizer);
        qn_close(qn);
    }
}

/* ---- what is beside the method ------------------------------------------------------------- */

static void variants_follow_their_formulas(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 0.05, o.momentum = 0.9, o.dampening = 0.4;
    compare(&o, 110);
    o = qn_optimizer_defaults(QN_ADAM), o.amsgrad = true, o.rate = 0.02, o.beta2 = 0.6;
    compare(&o, 111);
    o = qn_optimizer_defaults(QN_RMSPROP), o.centered = true, o.momentum = 0.7;
    compare(&o, 112);
    o = qn_optimizer_defaults(QN_ADAGRAD), o.rate_decay = 0.3, o.start = 0.2;
    compare(&o, 113);
    o = qn_optimizer_defaults(QN_ADAMW), o.maximize = true, o.rate = 0.03;
    compare(&o, 114);
    o = qn_optimizer_defaults(QN_ADAFACTOR), o.epsilon = 1e-3, o.weight_decay = 0.1;
    compare(&o, 115);
}

typedef struct three {
    qn_ctx *qn;
    qn_tensor *p[2];
    qn_optimizer *optimizer;
} three;

/* Two parameters of three ones, whose losses' gradients are what is asked for. */
static three ones_under(const qn_optimizer_options *o) {
    three x = {.qn = qn_open(NULL)};
    for (int i = 0; i < 2; i++)
        x.p[i] = qn_from(x.qn, QN_F32, 1, (int64_t[]){3}, (float[]){1, 1, 1});
    x.optimizer = qn_optimizer_new(x.qn, 2, x.p, o);
    return x;
}

static qn_tensor *loss_of(const three *x, double a, double b) {
    return qn_add(qn_sum(qn_mul(x->p[0], qn_like(x->p[0], a)), QN_ALL, false),
                  qn_sum(qn_mul(x->p[1], qn_like(x->p[1], b)), QN_ALL, false));
}

static double first_of(qn_tensor *t) {
    float got[3] = {0};
    CHECK_INT(qn_read(t, got, (size_t)qn_numel(t) * sizeof *got), QN_OK);
    return (double)got[0];
}

static void end(three *x) {
    CHECK_STR(qn_error(x->qn), "");
    qn_optimizer_free(x->optimizer);
    qn_close(x->qn);
}

/* p -= rate (g + decay p), by hand. */
static void groups_have_settings_of_their_own(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 0.5;
    three x = ones_under(&o);
    o.rate = 0.25, o.weight_decay = 2;
    CHECK_INT(qn_optimizer_set_group(x.optimizer, 1, 1, &o), QN_OK);
    CHECK_INT(qn_optimizer_step(x.optimizer, loss_of(&x, 1, 1)), QN_OK);
    CHECK_NEAR(first_of(x.p[0]), 0.5, 1e-6, 0);
    CHECK_NEAR(first_of(x.p[1]), 0.25, 1e-6, 0);
    CHECK_NEAR(first_of(qn_module_find(qn_optimizer_state(x.optimizer), "rate.1")), 0.25, 0, 0);
    CHECK_INT(qn_optimizer_set_rate(x.optimizer, 1), QN_OK); /* of all groups */
    CHECK_INT(qn_optimizer_step(x.optimizer, loss_of(&x, 1, 1)), QN_OK);
    CHECK_NEAR(first_of(x.p[0]), -0.5, 1e-6, 0);
    CHECK_NEAR(first_of(x.p[1]), -1.25, 1e-6, 0);
    end(&x);
}

static void settings_change_without_a_plan(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAMW);
    o.clip = 1, o.clip_value = 0.5, o.average = 0.9;
    three x = ones_under(&o);
    qn_stats first, last;
    for (int t = 0; t < 6; t++) {
        o.rate *= 0.9, o.beta1 -= 0.01, o.beta2 -= 0.01, o.epsilon *= 2, o.weight_decay += 0.1;
        o.clip *= 0.9, o.clip_value *= 0.9, o.average -= 0.1;
        CHECK_INT(qn_optimizer_set_group(x.optimizer, 0, 2, &o), QN_OK);
        qn_scope s = qn_scope_begin(x.qn);
        CHECK_INT(qn_optimizer_step(x.optimizer, loss_of(&x, 1, 1)), QN_OK);
        CHECK_INT(qn_realize(2, x.p), QN_OK);
        qn_scope_end(x.qn, s);
        qn_get_stats(x.qn, t == 0 ? &first : &last, sizeof last); /* with the first change */
    }
    CHECK_INT(last.plans, first.plans);
    CHECK_INT(last.compiles, first.compiles);
    end(&x);
}

static void groups_that_would_need_other_state_are_refused(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD), other;
    three x = ones_under(&o);
#define GROUP_REFUSED(first, n, change, code)                                                      \
    do {                                                                                           \
        other = o;                                                                                 \
        change;                                                                                    \
        CHECK_INT(qn_optimizer_set_group(x.optimizer, first, n, &other), code);                    \
        qn_clear_error(x.qn);                                                                      \
    } while (0)
    GROUP_REFUSED(0, 1, other.momentum = 0.9, QN_EARG);
    GROUP_REFUSED(0, 1, other.method = QN_ADAM, QN_EARG);
    GROUP_REFUSED(0, 1, other.clip = 1, QN_EARG);
    GROUP_REFUSED(0, 2, other.average = 0.5, QN_EARG);
    GROUP_REFUSED(0, 2, other.rate = -1, QN_ERANGE);
    GROUP_REFUSED(0, 3, (void)0, QN_ERANGE);
    GROUP_REFUSED(-1, 1, (void)0, QN_ERANGE);
    GROUP_REFUSED(2, 1, (void)0, QN_ERANGE);
    GROUP_REFUSED(0, 0, (void)0, QN_ERANGE);
    CHECK_INT(qn_optimizer_set_group(x.optimizer, 0, 1, NULL), QN_ENULL);
    qn_clear_error(x.qn);
    end(&x);
}

static void elements_of_gradients_are_held_within(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 1, o.clip_value = 0.5;
    three x = ones_under(&o);
    CHECK_INT(qn_optimizer_step(x.optimizer, loss_of(&x, 0.25, -7)), QN_OK);
    CHECK_NEAR(first_of(x.p[0]), 0.75, 0, 0);
    CHECK_NEAR(first_of(x.p[1]), 1.5, 0, 0);
    end(&x);
}

static void a_parameter_without_a_gradient_stays(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAMW);
    o.rate = 0.5;
    three x = ones_under(&o);
    qn_tensor *g[2] = {NULL, x.p[1]}, *none[2] = {NULL, NULL};
    CHECK_INT(qn_optimizer_apply(x.optimizer, g), QN_OK);
    CHECK_NEAR(first_of(x.p[0]), 1, 0, 0);
    CHECK_NEAR(first_of(x.p[1]), 1 * (1 - 0.5 * 0.01) - 0.5, 1e-5, 0);
    CHECK_INT(qn_optimizer_apply(x.optimizer, none), QN_ENULL);
    qn_clear_error(x.qn);
    g[0] = qn_sum(x.p[0], QN_ALL, false);
    CHECK_INT(qn_optimizer_apply(x.optimizer, g), QN_ESHAPE);
    qn_clear_error(x.qn);
    end(&x);
}

/* avg_1 = p_1, avg_t = 0.75 avg + 0.25 p_t; p falls by 1 a step. */
static void averages_begin_as_the_first_value(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 1, o.average = 0.75;
    three x = ones_under(&o);
    double wanted = 0;
    for (int t = 1; t <= 4; t++) {
        CHECK_INT(qn_optimizer_step(x.optimizer, loss_of(&x, 1, 0)), QN_OK);
        wanted = t == 1 ? 1 - t : 0.75 * wanted + 0.25 * (1 - t);
        CHECK_NEAR(first_of(qn_module_find(qn_optimizer_state(x.optimizer), "0.average")), wanted,
                   0, 1e-6);
    }
    end(&x);
}

static void gradients_accumulate_until_the_step(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 1;
    three x = ones_under(&o);
    CHECK_INT(qn_optimizer_accumulate(x.optimizer, loss_of(&x, 1, 1)), QN_EARG);
    qn_clear_error(x.qn);
    end(&x);
    o.accumulates = true;
    x = ones_under(&o);
    qn_stats first, last;
    for (int t = 0; t < 4; t++) {
        qn_scope s = qn_scope_begin(x.qn);
        for (int k = 0; k < 2; k++) {
            CHECK_INT(qn_optimizer_accumulate(x.optimizer, loss_of(&x, 0.25, 0.5)), QN_OK);
            CHECK_INT(qn_realize(1, &(qn_tensor *){qn_module_find(qn_optimizer_state(x.optimizer),
                                                                  "0.sum")}),
                      QN_OK);
        }
        CHECK_INT(qn_optimizer_step(x.optimizer, loss_of(&x, 0.5, 2)), QN_OK);
        CHECK_INT(qn_realize(2, x.p), QN_OK);
        qn_scope_end(x.qn, s);
        CHECK_NEAR(first_of(x.p[0]), 1 - (t + 1) * 1.0, 1e-6, 0);
        CHECK_NEAR(first_of(x.p[1]), 1 - (t + 1) * 3.0, 1e-6, 0);
        qn_get_stats(x.qn, t == 1 ? &first : &last, sizeof last); /* begun from zeros twice */
    }
    CHECK_INT(last.plans, first.plans);
    end(&x);
}

static void steps_of_infinite_gradients_are_none_and_halve_the_scale(void) {
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAM);
    o.rate = 0.5, o.loss_scale = 1024, o.scale_interval = 2;
    three x = ones_under(&o);
    qn_module *state = qn_optimizer_state(x.optimizer);
    const double gradients[] = {1, INFINITY, 1, 1, 1, NAN};
    const double scales[] = {1024, 512, 512, 1024, 1024, 512}, counts[] = {1, 1, 2, 3, 4, 4};
    qn_stats first, last;
    for (int t = 0; t < 6; t++) {
        double before = first_of(x.p[0]);
        float g[3] = {1, (float)gradients[t], 1};
        qn_scope s = qn_scope_begin(x.qn);
        qn_tensor *times = qn_from(x.qn, QN_F32, 1, (int64_t[]){3}, g);
        qn_tensor *loss = qn_sum(qn_mul(times, qn_add(x.p[0], x.p[1])), QN_ALL, false);
        CHECK_INT(qn_optimizer_step(x.optimizer, loss), QN_OK);
        CHECK_INT(qn_realize(2, x.p), QN_OK);
        qn_scope_end(x.qn, s);
        qn_get_stats(x.qn, t == 0 ? &first : &last, sizeof last);
        CHECK_NEAR(first_of(qn_module_find(state, "scale")), scales[t], 0, 0);
        CHECK_NEAR(first_of(qn_module_find(state, "count")), counts[t], 0, 0);
        /* Adam's direction along equal gradients is 1, whatever the scale. */
        CHECK_NEAR(first_of(x.p[0]), isfinite(gradients[t]) ? before - 0.5 : before, 1e-4, 0);
    }
    CHECK_INT(last.plans, first.plans);
    end(&x);
}

/* By hand as by an optimizer: the same bits. */
static void a_method_is_a_function_of_its_state(void) {
    for (int method = 0; method < (QN_SOPHIA + 1); method++) {
        qn_ctx *qn = qn_open(NULL);
        qn_optimizer_options o = qn_optimizer_defaults((qn_method)method);
        const float start[SIZE] = {0.75F, -0.5F, 0.25F, 1, -2, 0.125F}, slope[SIZE] = {1, 2, 3, -4};
        float ours[SIZE], theirs[SIZE];
        qn_tensor *p = qn_from(qn, QN_F32, 2, shapes[0], start), *state[3], *out[4];
        qn_tensor *q = qn_from(qn, QN_F32, 2, shapes[0], start);
        qn_tensor *g = qn_from(qn, QN_F32, 2, shapes[0], slope);
        qn_tensor *rate = qn_from(qn, QN_F32, 0, NULL, &(float){(float)o.rate});
        for (int k = 0; k < 3; k++) state[k] = qn_optimizer_begin(p, &o, k);
        qn_optimizer *optimizer = qn_optimizer_new(qn, 1, &q, &o);
        for (int t = 1; t <= 3; t++) {
            qn_tensor *count = qn_from(qn, QN_F32, 0, NULL, &(float){(float)t});
            CHECK_INT(qn_optimizer_update(p, g, &o, rate, NULL, count, state, out), QN_OK);
            CHECK_INT(qn_assign(p, out[0]), QN_OK);
            for (int k = 0; k < 3; k++) {
                CHECK(!state[k] == !out[1 + k]);
                if (state[k]) CHECK_INT(qn_assign(state[k], out[1 + k]), QN_OK);
            }
            for (int k = 0; k < 4; k++) qn_release(out[k]);
            CHECK_INT(qn_optimizer_apply(optimizer, &g), QN_OK);
            qn_release(count);
        }
        CHECK_INT(qn_read(p, ours, sizeof ours), QN_OK);
        CHECK_INT(qn_read(q, theirs, sizeof theirs), QN_OK);
        CHECK(!memcmp(ours, theirs, sizeof ours));
        CHECK_STR(qn_error(qn), "");
        CHECK_INT(qn_optimizer_update(p, g, &o, rate, NULL, g, state, out), QN_ESHAPE);
        qn_optimizer_free(optimizer);
        qn_close(qn);
    }
}

/* Momentum 0.5 as a tensor, 0.9 in the options: m = 0.5 m + g. */
static void momentum_may_be_a_tensor(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.momentum = 0.9;
    qn_tensor *p = qn_from(qn, QN_F32, 0, NULL, &(float){8}), *out[4];
    qn_tensor *m = qn_from(qn, QN_F32, 0, NULL, &(float){4}), *state[3] = {m, NULL, NULL};
    qn_tensor *one = qn_from(qn, QN_F32, 0, NULL, &(float){1});
    qn_tensor *half = qn_from(qn, QN_F32, 0, NULL, &(float){0.5F});
    CHECK_INT(qn_optimizer_update(p, one, &o, one, half, one, state, out), QN_OK);
    float got[2];
    CHECK_INT(qn_read(out[0], &got[0], 4), QN_OK);
    CHECK_INT(qn_read(out[1], &got[1], 4), QN_OK);
    CHECK(got[0] == 5 && got[1] == 3);
    qn_close(qn);
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
    REFUSED(o.method = (QN_SOPHIA + 1), 1, &p, QN_EARG);
    REFUSED(o.method = QN_MUON, 1, &p, QN_ESHAPE); /* no matrix */
    REFUSED(o.average = 1, 1, &p, QN_ERANGE);
    REFUSED(o.loss_scale = INFINITY, 1, &p, QN_ERANGE);
    REFUSED(o.adjust = (qn_adjust)7, 1, &p, QN_ERANGE);
    REFUSED(o.coefficients[2] = NAN, 1, &p, QN_ERANGE);
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
    RUN(variants_follow_their_formulas);
    RUN(groups_have_settings_of_their_own);
    RUN(settings_change_without_a_plan);
    RUN(groups_that_would_need_other_state_are_refused);
    RUN(elements_of_gradients_are_held_within);
    RUN(a_parameter_without_a_gradient_stays);
    RUN(averages_begin_as_the_first_value);
    RUN(gradients_accumulate_until_the_step);
    RUN(steps_of_infinite_gradients_are_none_and_halve_the_scale);
    RUN(a_method_is_a_function_of_its_state);
    RUN(momentum_may_be_a_tensor);
    RUN(its_state_has_names);
    RUN(bad_settings_are_refused);
    RUN(the_rate_rises_then_falls_along_a_cosine);
    RUN(a_static_step_follows_a_parameter_that_is_sliced_whole);
    RUN(a_static_graph_sees_what_is_written_to_a_sliced_parameter);
    return test_end();
}
