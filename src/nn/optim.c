/* optim.c - optimizers: one general step, the methods are rows.
 *
 * A step is: gradients, clipped to a global norm where asked; for every parameter the method's
 * update from (parameter, gradient, state) to (new parameter, new state); assignments of all of
 * them. A method is a function that records one update and the number of state tensors it keeps.
 *
 * What differs from step to step must not be a constant of the graph, or every step would be
 * another graph and be planned anew: the learning rate and the step count are tensors. The count
 * is raised by the step itself; the factors made of them are computed once a step, as stored
 * scalars, not once for every element.
 *
 * State is kept in at least f32, whatever the parameter's dtype. */
#include "nn/nn.h"

#include <math.h>
#include <stdio.h>

enum { STATES_MOST = 2 };

/* What an update sees: scalars as stored tensors of this step, and the options. */
typedef struct step {
    const qn_optimizer_options *o;
    qn_tensor *rate;    /* the learning rate */
    qn_tensor *unbias1; /* 1 / (1 - beta1^t), for methods that correct */
    qn_tensor *unbias2; /* 1 / (1 - beta2^t) */
    double decay;       /* weight decay of this parameter */
} step;

/* Records the new parameter; replaces state[] by the new state. */
typedef qn_tensor *(*update)(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state);

static qn_tensor *scaled(qn_tensor *x, double factor) {
    return qn_mul(x, qn_like(x, factor));
}

/* x * factor + y, rounded once */
static qn_tensor *scaled_plus(qn_tensor *x, double factor, qn_tensor *y) {
    return qn_fma(x, qn_like(x, factor), y);
}

/* beta * old + (1 - beta) * new */
static qn_tensor *blend(double beta, qn_tensor *old, qn_tensor *new) {
    return scaled_plus(old, beta, scaled(new, 1 - beta));
}

static qn_tensor *plus_decay(const step *s, qn_tensor *g, qn_tensor *p) {
    return s->decay == 0 ? g : scaled_plus(p, s->decay, g);
}

/* p - rate * direction */
static qn_tensor *moved(const step *s, qn_tensor *p, qn_tensor *direction) {
    return qn_fma(qn_neg(s->rate), direction, p);
}

/* p * (1 - rate * decay) */
static qn_tensor *decayed(const step *s, qn_tensor *p) {
    if (s->decay == 0) return p;
    return qn_mul(p, qn_sub(qn_like(s->rate, 1), scaled(s->rate, s->decay)));
}

/* ---- the methods -------------------------------------------------------------------------- */

static qn_tensor *update_sgd(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    g = plus_decay(s, g, p);
    if (s->o->momentum != 0) {
        state[0] = scaled_plus(state[0], s->o->momentum, g);
        g = s->o->nesterov ? scaled_plus(state[0], s->o->momentum, g) : state[0];
    }
    return moved(s, p, g);
}

/* Kingma and Ba 2015: the direction is mean / (deviation + epsilon), both corrected for their start
 * at zero. */
static qn_tensor *adam_direction(const step *s, qn_tensor *g, qn_tensor **state) {
    state[0] = blend(s->o->beta1, state[0], g);
    state[1] = blend(s->o->beta2, state[1], qn_mul(g, g));
    qn_tensor *deviation = qn_sqrt(qn_mul(state[1], s->unbias2));
    qn_tensor *mean = qn_mul(state[0], s->unbias1);
    return qn_div(mean, qn_add(deviation, qn_like(g, s->o->epsilon)));
}

static qn_tensor *update_adam(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    return moved(s, p, adam_direction(s, plus_decay(s, g, p), state));
}

/* Loshchilov and Hutter 2019: decay apart from the gradient. */
static qn_tensor *update_adamw(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    return moved(s, decayed(s, p), adam_direction(s, g, state));
}

static qn_tensor *update_rmsprop(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    g = plus_decay(s, g, p);
    state[0] = blend(s->o->beta2, state[0], qn_mul(g, g));
    g = qn_div(g, qn_add(qn_sqrt(state[0]), qn_like(g, s->o->epsilon)));
    if (s->o->momentum != 0) g = state[1] = scaled_plus(state[1], s->o->momentum, g);
    return moved(s, p, g);
}

static qn_tensor *update_adagrad(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    g = plus_decay(s, g, p);
    state[0] = qn_fma(g, g, state[0]);
    g = qn_div(g, qn_add(qn_sqrt(state[0]), qn_like(g, s->o->epsilon)));
    return moved(s, p, g);
}

/* Chen et al. 2023: the sign of one blend moves the parameter, another blend is kept. */
static qn_tensor *update_lion(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state) {
    qn_tensor *direction = qn_sign(blend(s->o->beta1, state[0], g));
    state[0] = blend(s->o->beta2, state[0], g);
    return moved(s, decayed(s, p), direction);
}

static const struct {
    const char *name;
    update update;
    int states;          /* most it may keep */
    bool momentum_state; /* the last of them only with momentum */
    bool corrects;       /* uses unbias1 and unbias2 */
    qn_optimizer_options defaults;
} methods[] = {
    [QN_SGD] = {"sgd", update_sgd, 1, true, false, {.method = QN_SGD, .rate = 1e-3}},
    [QN_ADAM] = {"adam",
                 update_adam,
                 2,
                 false,
                 true,
                 {.method = QN_ADAM, .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
    [QN_ADAMW] = {"adamw",
                  update_adamw,
                  2,
                  false,
                  true,
                  {.method = QN_ADAMW,
                   .rate = 1e-3,
                   .beta1 = 0.9,
                   .beta2 = 0.999,
                   .epsilon = 1e-8,
                   .weight_decay = 0.01}},
    [QN_RMSPROP] = {"rmsprop",
                    update_rmsprop,
                    2,
                    true,
                    false,
                    {.method = QN_RMSPROP, .rate = 1e-2, .beta2 = 0.99, .epsilon = 1e-8}},
    [QN_ADAGRAD] = {"adagrad",
                    update_adagrad,
                    1,
                    false,
                    false,
                    {.method = QN_ADAGRAD, .rate = 1e-2, .epsilon = 1e-10}},
    [QN_LION] = {"lion",
                 update_lion,
                 1,
                 false,
                 false,
                 {.method = QN_LION, .rate = 1e-4, .beta1 = 0.9, .beta2 = 0.99}},
};

static bool method_fine(qn_method method) {
    return (unsigned)method < COUNT_OF(methods);
}

void qn_optimizer_get_defaults(qn_method method, qn_optimizer_options *out, size_t size) {
    const qn_optimizer_options *known = &methods[method_fine(method) ? method : QN_SGD].defaults;
    struct_give(out, size, known, sizeof *known);
    if (out && size >= sizeof size) out->size = size;
}

const char *qn_method_name(qn_method method) {
    return method_fine(method) ? methods[method].name : "";
}

/* ---- making one --------------------------------------------------------------------------- */

typedef struct optimizer {
    qn_ctx *ctx;
    qn_optimizer_options options;
    int n, states; /* parameters; state tensors of each */
    size_t size;
    qn_module *module; /* owns rate, count and state */
    qn_tensor *rate, *count;
    qn_tensor **parameter; /* [n], a reference each */
    qn_tensor **state;     /* [n][states] */
    qn_tensor **gradient;  /* [n], while a step is recorded */
    qn_tensor **fresh;     /* [n][1 + states], likewise: what is assigned */
} optimizer;

static bool options_fine(qn_ctx *qn, const qn_optimizer_options *o) {
    const double values[] = {o->rate,    o->momentum,     o->beta1, o->beta2,
                             o->epsilon, o->weight_decay, o->clip};
    static const char *const names[] = {"rate",    "momentum",     "beta1", "beta2",
                                        "epsilon", "weight_decay", "clip"};
    if (!method_fine(o->method)) {
        fail(qn, QN_EARG, "optimizer: no such method");
        return false;
    }
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        bool below_one = i >= 1 && i <= 3;
        if (isfinite(values[i]) && values[i] >= 0 && !(below_one && values[i] >= 1)) continue;
        fail(qn, QN_ERANGE, "optimizer: %s is %g", names[i], values[i]);
        return false;
    }
    return true;
}

static qn_dtype state_dtype(const qn_tensor *p) {
    return qn_dtype_of(p) == QN_F64 ? QN_F64 : QN_F32;
}

/* State tensor `k` of parameter `i`, zeros under the name "<i>.<k>". */
static qn_tensor *new_state(optimizer *o, int i, int k) {
    qn_tensor *p = o->parameter[i];
    int64_t shape[QN_MAX_RANK];
    char name[32];
    for (int d = 0; d < qn_rank(p); d++) shape[d] = qn_dim(p, d);
    snprintf(name, sizeof name, "%d.%d", i, k);
    return qn_module_parameter(o->module, name, state_dtype(p), qn_rank(p), shape, NULL);
}

static int set_rate(optimizer *o, double rate) {
    if (!isfinite(rate) || rate < 0)
        return fail(o->ctx, QN_ERANGE, "optimizer: a rate of %g", rate);
    float value = (float)rate;
    if (qn_dtype_of(o->rate) == QN_F64) return qn_write(o->rate, &rate, sizeof rate);
    return qn_write(o->rate, &value, sizeof value);
}

static bool add_state(optimizer *o, qn_tensor *const *parameters) {
    if (!handles_are(o->ctx, HANDLE_TENSOR, o->n, (const void *const *)parameters, "optimizer",
                     "parameter"))
        return false;
    o->module = qn_module_new(o->ctx, 0);
    qn_dtype dtype = QN_F32; /* of what all steps share */
    for (int i = 0; i < o->n; i++)
        if (qn_dtype_of(parameters[i]) == QN_F64) dtype = QN_F64;
    o->rate = qn_module_parameter(o->module, "rate", dtype, 0, NULL, NULL);
    o->count = qn_module_parameter(o->module, "count", dtype, 0, NULL, NULL);
    if (!o->count || set_rate(o, o->options.rate)) return false;
    for (int i = 0; i < o->n; i++) {
        if (!dtype_is_float(qn_dtype_of(parameters[i]))) {
            fail(o->ctx, QN_EDTYPE, "optimizer: parameter %d is %s, not a float", i,
                 qn_dtype_name(qn_dtype_of(parameters[i])));
            return false;
        }
        o->parameter[i] = qn_keep(parameters[i]);
        for (int k = 0; k < o->states; k++)
            if (!(o->state[i * o->states + k] = new_state(o, i, k))) return false;
    }
    return true;
}

static void optimizer_close(optimizer *o) {
    for (int i = 0; i < o->n; i++)
        if (handle_is(o->parameter[i], HANDLE_TENSOR)) qn_release(o->parameter[i]);
    if (handle_is(o->module, HANDLE_MODULE)) qn_module_free(o->module);
    heap_free(&o->ctx->heap, o, o->size);
}

qn_optimizer *qn_optimizer_new(qn_ctx *qn, int n, qn_tensor *const *parameters,
                               const qn_optimizer_options *given) {
    qn_optimizer_options taken = QN_OPTIMIZER_OPTIONS(), *options = &taken;
    if (!qn) return NULL;
    if (!given || !parameters) return fail_null(qn, QN_ENULL, "optimizer: NULL given");
    if (!struct_take(qn, "optimizer_new", "qn_optimizer_options", options, sizeof taken, given))
        return NULL;
    if (n < 1) return fail_null(qn, QN_EARG, "optimizer: needs parameters");
    if (!options_fine(qn, options)) return NULL;
    int states = methods[options->method].states;
    if (methods[options->method].momentum_state && options->momentum == 0) states--;
    size_t lists = (size_t)n * (size_t)(3 + 2 * states);
    size_t size = sizeof(optimizer) + lists * sizeof(qn_tensor *);
    optimizer *o = heap_try(&qn->heap, size);
    if (!o) return fail_null(qn, QN_ENOMEM, "optimizer: out of memory");
    memset(o, 0, size);
    *o = (optimizer){.ctx = qn, .options = *options, .n = n, .states = states, .size = size};
    o->parameter = (qn_tensor **)(o + 1);
    o->gradient = o->parameter + n;
    o->state = o->gradient + n;
    o->fresh = o->state + n * states;
    qn_optimizer *known = add_state(o, parameters) ? object_open(qn, HANDLE_OPTIMIZER, o) : NULL;
    if (!known) optimizer_close(o);
    return known;
}

void qn_optimizer_free(qn_optimizer *known) {
    optimizer *o = object_close(known, HANDLE_OPTIMIZER, "optimizer_free");
    if (o) optimizer_close(o);
}

qn_module *qn_optimizer_state(const qn_optimizer *known) {
    const optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_state");
    return o ? o->module : NULL;
}

qn_code qn_optimizer_set_rate(qn_optimizer *known, double rate) {
    optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_set_rate");
    return o ? set_rate(o, rate) : handle_code(known);
}

/* ---- a step ------------------------------------------------------------------------------- */

/* 1 / (1 - beta^t), through expm1 because beta^t is near 1 at first. */
static qn_tensor *unbias(qn_tensor *t, double beta) {
    return qn_contiguous(qn_reciprocal(qn_neg(qn_expm1(scaled(t, log(beta))))));
}

/* Scale gradients down so that the norm of all of them together is at most `clip`. */
static void clip_gradients(optimizer *o) {
    if (o->options.clip == 0) return;
    qn_tensor *total = NULL;
    for (int i = 0; i < o->n; i++) {
        qn_tensor *g = qn_cast(o->gradient[i], QN_F32);
        qn_tensor *square = qn_sum(qn_mul(g, g), QN_ALL, false);
        total = total ? qn_add(total, square) : square;
    }
    qn_tensor *norm = qn_add(qn_sqrt(total), qn_like(total, 1e-6));
    qn_tensor *factor = qn_minimum(qn_div(qn_like(norm, o->options.clip), norm), qn_like(norm, 1));
    factor = qn_contiguous(factor);
    for (int i = 0; i < o->n; i++)
        o->gradient[i] = qn_mul(o->gradient[i], qn_cast(factor, qn_dtype_of(o->gradient[i])));
}

/* Record parameter `i`'s update into o->fresh. */
static void update_one(optimizer *o, const step *shared, int i) {
    step own = *shared, *s = &own;
    qn_tensor *p = o->parameter[i], **fresh = o->fresh + (size_t)i * (size_t)(1 + o->states);
    qn_tensor *state[STATES_MOST] = {0};
    qn_dtype dtype = state_dtype(p);
    for (int k = 0; k < o->states; k++) state[k] = o->state[i * o->states + k];
    s->rate = qn_cast(s->rate, dtype);
    if (s->unbias1) s->unbias1 = qn_cast(s->unbias1, dtype);
    if (s->unbias2) s->unbias2 = qn_cast(s->unbias2, dtype);
    s->decay = qn_rank(p) < o->options.decay_rank ? 0 : o->options.weight_decay;
    qn_tensor *next = methods[o->options.method].update(s, qn_cast(p, dtype),
                                                        qn_cast(o->gradient[i], dtype), state);
    fresh[0] = qn_cast(next, qn_dtype_of(p));
    for (int k = 0; k < o->states; k++) fresh[1 + k] = state[k];
}

/* Assign only when every update could be recorded: a step is taken whole or not at all. */
static int assign_all(optimizer *o, qn_tensor *count) {
    int each = 1 + o->states, code = QN_OK;
    for (int i = 0; i < o->n * each; i++)
        if (!o->fresh[i]) return qn_error_code(o->ctx);
    if (!count) return qn_error_code(o->ctx);
    for (int i = 0; i < o->n && !code; i++) {
        code = qn_assign(o->parameter[i], o->fresh[i * each]);
        for (int k = 0; k < o->states && !code; k++)
            code = qn_assign(o->state[i * o->states + k], o->fresh[i * each + 1 + k]);
    }
    return code ? code : qn_assign(o->count, count);
}

static int apply(optimizer *o, qn_tensor *const *gradients) {
    if (!gradients) return fail(o->ctx, QN_ENULL, "optimizer: no gradients");
    if (!handles_are(o->ctx, HANDLE_TENSOR, o->n, (const void *const *)gradients, "optimizer",
                     "gradient"))
        return qn_error_code(o->ctx);
    for (int i = 0; i < o->n; i++) o->gradient[i] = gradients[i];
    qn_scope scope = qn_scope_begin(o->ctx);
    qn_tensor *count = qn_add(o->count, qn_like(o->count, 1));
    step s = {.o = &o->options, .rate = o->rate};
    if (methods[o->options.method].corrects) {
        s.unbias1 = unbias(count, o->options.beta1);
        s.unbias2 = unbias(count, o->options.beta2);
    }
    clip_gradients(o);
    for (int i = 0; i < o->n; i++) update_one(o, &s, i);
    int code = assign_all(o, count);
    qn_scope_end(o->ctx, scope);
    return code;
}

qn_code qn_optimizer_apply(qn_optimizer *known, qn_tensor *const *gradients) {
    optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_apply");
    return o ? apply(o, gradients) : handle_code(known);
}

qn_code qn_optimizer_step(qn_optimizer *known, qn_tensor *loss) {
    optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_step");
    if (!o) return handle_code(known);
    if (!handle_check(o->ctx, loss, HANDLE_TENSOR, "optimizer_step", "loss"))
        return qn_error_code(o->ctx);
    qn_scope scope = qn_scope_begin(o->ctx);
    int code = qn_grad(loss, NULL, o->n, o->parameter, o->gradient);
    if (code == QN_OK) code = apply(o, o->gradient);
    qn_scope_end(o->ctx, scope);
    return code;
}

double qn_rate_cosine(double peak, double last, double warmup, double total, double done) {
    if (done < warmup) return peak * (done + 1) / (warmup + 1);
    if (done >= total || total <= warmup) return last;
    double turn = (done - warmup) / (total - warmup);
    return last + (peak - last) * 0.5 * (1 + cos(acos(-1.0) * turn));
}
