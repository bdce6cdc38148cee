/* methods.c - the methods of optimization, one function and one row each.
 *
 * p is the parameter, g its gradient, both in the dtype of the state; state[] what the last step
 * left. Settings are read by what they are called in qn_optimizer_options; names, defaults and the
 * order of roundings that matter are PyTorch's where it has the method, else the authors'. */
#include "nn/optim/methods.h"

#include <math.h>

qn_tensor *setting_of(const step *s, setting k, qn_tensor *x) {
    qn_tensor *data = s->settings->data[k];
    return data ? qn_cast(data, qn_dtype_of(x)) : qn_like(x, s->settings->value[k]);
}

/* x times a setting. */
static qn_tensor *scaled(const step *s, setting k, qn_tensor *x) {
    return qn_mul(x, setting_of(s, k, x));
}

/* x times a setting plus y, rounded once. */
static qn_tensor *scaled_plus(const step *s, setting k, qn_tensor *x, qn_tensor *y) {
    return qn_fma(x, setting_of(s, k, x), y);
}

/* beta * old + (1 - beta) * new: `part` is beta, the setting behind it 1 - beta. */
static qn_tensor *blend(const step *s, setting part, qn_tensor *old, qn_tensor *new) {
    return scaled_plus(s, part, old, scaled(s, part + 1, new));
}
_Static_assert(NEW_MOMENTUM == MOMENTUM + 1 && NEW_BETA1 == BETA1 + 1 && NEW_BETA2 == BETA2 + 1,
               "blend finds what is new behind what is old");

static qn_tensor *plus_decay(const step *s, qn_tensor *g, qn_tensor *p) {
    return s->decays ? scaled_plus(s, WEIGHT_DECAY, p, g) : g;
}

/* p - rate * direction */
static qn_tensor *moved(const step *s, qn_tensor *p, qn_tensor *direction) {
    return qn_fma(qn_neg(s->rate), direction, p);
}

/* p * (1 - rate * decay) */
static qn_tensor *decayed(const step *s, qn_tensor *p) {
    if (!s->decays) return p;
    return qn_mul(p, qn_sub(qn_like(s->rate, 1), scaled(s, WEIGHT_DECAY, s->rate)));
}

static qn_tensor *plus_epsilon(const step *s, qn_tensor *x) {
    return qn_add(x, setting_of(s, EPSILON, x));
}

/* A scalar that every element needs, computed once. */
static qn_tensor *norm_of(qn_tensor *x) {
    return qn_contiguous(qn_sqrt(qn_sum(qn_mul(x, x), QN_ALL, false)));
}

/* The root of the mean of squares. */
static qn_tensor *rms_of(qn_tensor *x) {
    return qn_contiguous(qn_sqrt(qn_mean(qn_mul(x, x), QN_ALL, false)));
}

/* ---- by first moments ---------------------------------------------------------------------- */

/* The first gradient is taken undamped. */
static qn_tensor *dampened(const step *s, qn_tensor *g) {
    if (s->o->dampening == 0) return g;
    qn_tensor *first = qn_eq(s->count, qn_like(s->count, 1));
    return qn_mul(g, qn_where(first, qn_like(g, 1), setting_of(s, UNDAMPED, g)));
}

static qn_tensor *update_sgd(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    g = plus_decay(s, g, p);
    if (s->o->momentum != 0) {
        state[0] = scaled_plus(s, MOMENTUM, state[0], dampened(s, g));
        g = s->o->nesterov ? scaled_plus(s, MOMENTUM, state[0], g) : state[0];
    }
    return moved(s, p, g);
}

/* Chen et al. 2023: the sign of one blend moves the parameter, another blend is kept. */
static qn_tensor *update_lion(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    qn_tensor *direction = qn_sign(blend(s, BETA1, state[0], g));
    state[0] = blend(s, BETA2, state[0], g);
    return moved(s, decayed(s, p), direction);
}

/* ---- by first and second moments ----------------------------------------------------------- */

/* Kingma and Ba 2015: the direction is mean / (deviation + epsilon), both corrected for their start
 * at zero; with amsgrad (Reddi et al. 2018) by the largest deviation so far. */
static qn_tensor *adam_direction(const step *s, qn_tensor *g, qn_tensor **state) {
    state[0] = blend(s, BETA1, state[0], g);
    state[1] = blend(s, BETA2, state[1], qn_mul(g, g));
    qn_tensor *square = state[1];
    if (s->o->amsgrad) square = state[2] = qn_maximum(state[2], square);
    qn_tensor *deviation = qn_sqrt(qn_mul(square, s->unbias2));
    return qn_div(qn_mul(state[0], s->unbias1), plus_epsilon(s, deviation));
}

static qn_tensor *update_adam(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    return moved(s, p, adam_direction(s, plus_decay(s, g, p), state));
}

/* Loshchilov and Hutter 2019: decay apart from the gradient. */
static qn_tensor *update_adamw(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    return moved(s, decayed(s, p), adam_direction(s, g, state));
}

/* Kingma and Ba 2015, section 7.1: the largest of decayed gradients in place of the deviation. */
static qn_tensor *update_adamax(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    g = plus_decay(s, g, p);
    state[0] = blend(s, BETA1, state[0], g);
    state[1] = qn_maximum(scaled(s, BETA2, state[1]), plus_epsilon(s, qn_abs(g)));
    return moved(s, p, qn_div(qn_mul(state[0], s->unbias1), state[1]));
}

/* You et al. 2020: Adam's direction and the decay, as long as the parameter. */
static qn_tensor *update_lamb(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    qn_tensor *direction = plus_decay(s, adam_direction(s, g, state), p);
    qn_tensor *long_p = norm_of(p), *long_way = norm_of(direction), *zero = qn_like(long_p, 0);
    qn_tensor *both = qn_and(qn_gt(long_p, zero), qn_gt(long_way, zero));
    qn_tensor *ratio = qn_where(both, qn_div(long_p, long_way), qn_like(long_p, 1));
    return moved(s, p, qn_mul(direction, qn_contiguous(ratio)));
}

/* Liu et al. 2023: the mean by the curvature, at most 1. The curvature is estimated by the square
 * of the gradient at hand, where the paper takes that of drawn labels every ten steps. */
static qn_tensor *update_sophia(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    state[0] = blend(s, BETA1, state[0], g);
    state[1] = blend(s, BETA2, state[1], qn_mul(g, g));
    qn_tensor *curved = scaled(s, THRESHOLD, state[1]), *one = qn_like(g, 1);
    qn_tensor *way = qn_div(state[0], qn_maximum(curved, setting_of(s, EPSILON, curved)));
    return moved(s, decayed(s, p), qn_maximum(qn_minimum(way, one), qn_neg(one)));
}

/* ---- by second moments --------------------------------------------------------------------- */

static qn_tensor *update_rmsprop(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    g = plus_decay(s, g, p);
    qn_tensor *square = state[0] = blend(s, BETA2, state[0], qn_mul(g, g));
    if (s->o->centered) {
        state[2] = blend(s, BETA2, state[2], g);
        square = qn_sub(square, qn_mul(state[2], state[2]));
    }
    g = qn_div(g, plus_epsilon(s, qn_sqrt(square)));
    if (s->o->momentum != 0) g = state[1] = scaled_plus(s, MOMENTUM, state[1], g);
    return moved(s, p, g);
}

/* Duchi et al. 2011. */
static qn_tensor *update_adagrad(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    g = plus_decay(s, g, p);
    state[0] = qn_fma(g, g, state[0]);
    g = qn_div(g, plus_epsilon(s, qn_sqrt(state[0])));
    if (s->o->rate_decay == 0) return moved(s, p, g);
    qn_tensor *done = qn_sub(s->count, qn_like(s->count, 1)), *one = qn_like(done, 1);
    step slower = *s;
    slower.rate = qn_contiguous(qn_div(s->rate, scaled_plus(s, RATE_DECAY, done, one)));
    return moved(&slower, p, g);
}

/* Zeiler 2012. */
static qn_tensor *update_adadelta(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    g = plus_decay(s, g, p);
    state[0] = blend(s, BETA2, state[0], qn_mul(g, g));
    qn_tensor *above = qn_sqrt(plus_epsilon(s, state[1])), *below = plus_epsilon(s, state[0]);
    qn_tensor *way = qn_mul(qn_div(above, qn_sqrt(below)), g);
    state[1] = blend(s, BETA2, state[1], qn_mul(way, way));
    return moved(s, p, way);
}

/* ---- of matrices --------------------------------------------------------------------------- */

/* x + (y - x) * t, as it is stored. */
static qn_tensor *towards(qn_tensor *x, qn_tensor *y, qn_tensor *t) {
    return qn_contiguous(qn_lerp(x, y, t));
}

/* The means of squares of an Adafactor: of rows by that of columns, or of every element. */
static qn_tensor *factored(const step *s, qn_tensor *g, qn_tensor **state, qn_tensor *least) {
    qn_tensor *square = qn_mul(g, g), *late = qn_cast(s->count, qn_dtype_of(g));
    qn_tensor *new = qn_contiguous(qn_pow(late, setting_of(s, BETA2_DECAY, g)));
    if (qn_rank(g) < 2) return state[2] = towards(state[2], square, new);
    state[0] = towards(state[0], qn_mean(square, -1, true), new);
    state[1] = towards(state[1], qn_mean(square, -2, true), new);
    qn_tensor *all = qn_contiguous(qn_maximum(qn_mean(state[0], -2, true), least));
    return qn_div(qn_mul(state[0], state[1]), all);
}

/* Shazeer and Stern 2018, as PyTorch has it: epsilon of 0 is that of the parameter's dtype. */
static qn_tensor *update_adafactor(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    bool own = s->o->epsilon == 0;
    qn_tensor *least = own ? qn_like(g, dtype_epsilon(s->kept)) : setting_of(s, EPSILON, g);
    qn_tensor *way = factored(s, g, state, least), *one = qn_like(g, 1);
    way = qn_mul(qn_rsqrt(qn_maximum(way, qn_mul(least, least))), g);
    qn_tensor *slow = qn_rsqrt(qn_cast(s->count, qn_dtype_of(g)));
    step own_rate = *s;
    qn_tensor *rate =
        qn_mul(qn_maximum(setting_of(s, EPSILON2, g), rms_of(p)), qn_minimum(s->rate, slow));
    qn_tensor *most = qn_maximum(one, qn_div(rms_of(way), setting_of(s, THRESHOLD, g)));
    own_rate.rate = qn_contiguous(qn_div(rate, most));
    return moved(&own_rate, decayed(s, p), way);
}

/* The matrix of the same singular vectors whose singular values are near 1: `iterations` times
 * a x + (b x x^T + c (x x^T)^2) x of Jordan et al. 2024, on the shorter side. */
static qn_tensor *orthogonal(const step *s, qn_tensor *x) {
    const double *c = s->o->coefficients;
    bool tall = qn_dim(x, 0) > qn_dim(x, 1);
    if (tall) x = qn_transpose(x, 0, 1);
    qn_tensor *norm = norm_of(x);
    x = qn_div(x, qn_maximum(norm, setting_of(s, EPSILON, norm)));
    for (int i = 0; i < s->o->iterations; i++) {
        qn_tensor *square = qn_matmul(x, qn_transpose(x, 0, 1));
        qn_tensor *even = qn_fma(square, qn_like(square, c[1]),
                                 qn_mul(qn_matmul(square, square), qn_like(square, c[2])));
        x = qn_contiguous(qn_fma(x, qn_like(x, c[0]), qn_matmul(even, x)));
    }
    return tall ? qn_transpose(x, 0, 1) : x;
}

static double muon_ratio(const step *s, qn_tensor *p) {
    double rows = (double)qn_dim(p, 0), columns = (double)qn_dim(p, 1);
    switch (s->o->adjust) {
    case QN_ADJUST_RMS:
        return 0.2 * sqrt(fmax(rows, columns));
    case QN_ADJUST_SPECTRAL:
        return sqrt(rows / columns);
    default:
        return sqrt(fmax(1, rows / columns));
    }
}

static qn_tensor *update_muon(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    state[0] = blend(s, MOMENTUM, state[0], g);
    qn_tensor *way = s->o->nesterov ? blend(s, MOMENTUM, state[0], g) : state[0];
    way = orthogonal(s, way);
    return moved(s, decayed(s, p), qn_mul(way, qn_like(way, muon_ratio(s, p))));
}

/* ---- the rows ------------------------------------------------------------------------------ */

#define DEFAULTS(METHOD, ...)                                                                      \
    { .method = METHOD, __VA_ARGS__ }
#define BETAS .beta1 = 0.9, .beta2 = 0.999

static const method_row methods[] = {
    [QN_SGD] = {"sgd", update_sgd, .state = {{WITH_MOMENTUM, FULL}},
                .defaults = DEFAULTS(QN_SGD, .rate = 1e-3)},
    [QN_ADAM] = {"adam", update_adam, .corrects = true,
                 .state = {{ALWAYS, FULL}, {ALWAYS, FULL}, {WITH_AMSGRAD, FULL}},
                 .defaults = DEFAULTS(QN_ADAM, .rate = 1e-3, BETAS, .epsilon = 1e-8)},
    [QN_ADAMW] = {"adamw", update_adamw, .corrects = true,
                  .state = {{ALWAYS, FULL}, {ALWAYS, FULL}, {WITH_AMSGRAD, FULL}},
                  .defaults = DEFAULTS(QN_ADAMW, .rate = 1e-3, BETAS, .epsilon = 1e-8,
                                       .weight_decay = 0.01)},
    [QN_RMSPROP] = {"rmsprop", update_rmsprop,
                    .state = {{ALWAYS, FULL}, {WITH_MOMENTUM, FULL}, {WITH_CENTERED, FULL}},
                    .defaults = DEFAULTS(QN_RMSPROP, .rate = 1e-2, .beta2 = 0.99, .epsilon = 1e-8)},
    [QN_ADAGRAD] = {"adagrad", update_adagrad, .state = {{ALWAYS, FULL}},
                    .defaults = DEFAULTS(QN_ADAGRAD, .rate = 1e-2, .epsilon = 1e-10)},
    [QN_LION] = {"lion", update_lion, .state = {{ALWAYS, FULL}},
                 .defaults = DEFAULTS(QN_LION, .rate = 1e-4, .beta1 = 0.9, .beta2 = 0.99)},
    [QN_ADADELTA] = {"adadelta", update_adadelta, .state = {{ALWAYS, FULL}, {ALWAYS, FULL}},
                     .defaults = DEFAULTS(QN_ADADELTA, .rate = 1, .beta2 = 0.9, .epsilon = 1e-6)},
    [QN_ADAMAX] = {"adamax", update_adamax, .corrects = true,
                   .state = {{ALWAYS, FULL}, {ALWAYS, FULL}},
                   .defaults = DEFAULTS(QN_ADAMAX, .rate = 2e-3, BETAS, .epsilon = 1e-8)},
    [QN_ADAFACTOR] = {"adafactor", update_adafactor,
                      .state = {{OF_MATRICES, ROWS}, {OF_MATRICES, COLUMNS}, {OF_VECTORS, FULL}},
                      .defaults = DEFAULTS(QN_ADAFACTOR, .rate = 1e-2, .beta2_decay = -0.8,
                                           .epsilon2 = 1e-3, .threshold = 1)},
    [QN_LAMB] = {"lamb", update_lamb, .corrects = true, .state = {{ALWAYS, FULL}, {ALWAYS, FULL}},
                 .defaults = DEFAULTS(QN_LAMB, .rate = 1e-3, BETAS, .epsilon = 1e-6)},
    [QN_MUON] = {"muon", update_muon, .matrix = true, .state = {{ALWAYS, FULL}},
                 .defaults = DEFAULTS(QN_MUON, .rate = 1e-3, .momentum = 0.95, .epsilon = 1e-7,
                                      .weight_decay = 0.1, .nesterov = true, .iterations = 5,
                                      .coefficients = {3.4445, -4.7750, 2.0315})},
    [QN_SOPHIA] = {"sophia", update_sophia, .state = {{ALWAYS, FULL}, {ALWAYS, FULL}},
                   .defaults = DEFAULTS(QN_SOPHIA, .rate = 1e-4, .beta1 = 0.965, .beta2 = 0.99,
                                        .epsilon = 1e-15, .weight_decay = 0.1, .threshold = 0.04)},
};

const method_row *method_of(qn_method method) {
    return (unsigned)method < COUNT_OF(methods) ? &methods[method] : NULL;
}

bool state_is(state_when when, const qn_optimizer_options *o, int rank) {
    switch (when) {
    case ALWAYS:
        return true;
    case WITH_MOMENTUM:
        return o->momentum != 0;
    case WITH_AMSGRAD:
        return o->amsgrad;
    case WITH_CENTERED:
        return o->centered;
    case OF_MATRICES:
        return rank >= 2;
    case OF_VECTORS:
        return rank < 2;
    default:
        return false;
    }
}

void settings_of(const qn_optimizer_options *o, double value[SETTINGS]) {
    const double values[SETTINGS] = {
#define X(name, value) [name] = value,
        SETTINGS_OF(X)
#undef X
    };
    memcpy(value, values, sizeof values);
}

void qn_optimizer_get_defaults(qn_method method, qn_optimizer_options *out, size_t size) {
    const method_row *row = method_of(method);
    const qn_optimizer_options *known = row ? &row->defaults : &methods[QN_SGD].defaults;
    struct_give(out, size, known, sizeof *known);
    if (out && size >= sizeof size) out->size = size;
}

const char *qn_method_name(qn_method method) {
    const method_row *row = method_of(method);
    return row ? row->name : "";
}

/* ---- a step of one parameter --------------------------------------------------------------- */

qn_dtype state_dtype(const qn_tensor *p) {
    return qn_dtype_of(p) == QN_F64 ? QN_F64 : QN_F32;
}

void state_shape_of(const qn_tensor *p, state_shape s, int64_t *shape) {
    int rank = qn_rank(p);
    for (int d = 0; d < rank; d++) shape[d] = qn_dim(p, d);
    if (s == ROWS && rank > 1) shape[rank - 1] = 1;
    if (s == COLUMNS && rank > 1) shape[rank - 2] = 1;
}

bool parameter_fine(qn_ctx *qn, const method_row *m, const qn_tensor *p, const char *what) {
    if (!dtype_is_float(qn_dtype_of(p)))
        return fail_null(qn, QN_EDTYPE, "%s is %s, not a float", what,
                         qn_dtype_name(qn_dtype_of(p)));
    if (m->matrix && qn_rank(p) != 2)
        return fail_null(qn, QN_ESHAPE, "%s has %d axes, %s takes matrices", what, qn_rank(p),
                         m->name);
    return true;
}

/* 1 / (1 - beta^t), through expm1 because beta^t is near 1 at first. */
static qn_tensor *unbias(const step *s, setting log_beta) {
    qn_tensor *power = qn_mul(s->count, setting_of(s, log_beta, s->count));
    return qn_contiguous(qn_reciprocal(qn_neg(qn_expm1(power))));
}

void step_correct(step *s) {
    if (!method_of(s->o->method)->corrects) return;
    s->unbias1 = unbias(s, LOG_BETA1);
    s->unbias2 = unbias(s, LOG_BETA2);
}

void step_record(step s, qn_tensor *p, qn_tensor *g, qn_tensor **next, qn_tensor **state) {
    qn_dtype dtype = state_dtype(p);
    s.rate = qn_cast(s.rate, dtype);
    if (s.unbias1) s.unbias1 = qn_cast(s.unbias1, dtype);
    if (s.unbias2) s.unbias2 = qn_cast(s.unbias2, dtype);
    s.kept = qn_dtype_of(p);
    s.decays = s.o->weight_decay != 0 && qn_rank(p) >= s.o->decay_rank;
    update record = method_of(s.o->method)->update;
    *next = qn_cast(record(&s, qn_cast(p, dtype), qn_cast(g, dtype), state), s.kept);
}
