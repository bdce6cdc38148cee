/* optim.c - optimizers: one general step, the methods are rows of methods.c.
 *
 * A step is: gradients of all parameters, what was accumulated added, unscaled and clipped where
 * asked; for every parameter the method's update from (parameter, gradient, state) to (new
 * parameter, new state); assignments of all of them.
 *
 * What differs from step to step must not be a constant of the graph, or every step would be
 * another graph and be planned anew: rates and the step count are tensors, and so is any other
 * setting that is a number from when it is first changed. The count is raised by the step itself;
 * factors made of it are computed once a step, as stored scalars, not once for every element.
 * Where losses are scaled, whether a step counts at all is data, too: one whose gradients are not
 * finite assigns what was there before.
 *
 * State is kept in at least f32, whatever the parameter's dtype. */
#include "nn/optim/methods.h"

#include <math.h>
#include <stdio.h>

/* ---- making one --------------------------------------------------------------------------- */

/* Parameters that share settings. The first is of all; it is the others' where they say nothing. */
typedef struct group {
    struct group *next;
    int first, n;
    qn_optimizer_options options;
    qn_tensor *rate; /* of the state's module */
    settings settings;
    int number;
} group;

typedef struct optimizer {
    qn_ctx *ctx;
    int n, groups;
    size_t size;
    qn_dtype dtype;                   /* of what all steps share */
    group *group;                     /* the latest first; the last is of all */
    qn_module *module;                /* owns rates, count and state */
    qn_module *data;                  /* owns the settings */
    qn_tensor *count, *scale, *good;  /* the last two NULL: losses are not scaled */
    qn_tensor **parameter;            /* [n], a reference each */
    qn_tensor *(*state)[STATES_MOST]; /* [n], NULL where there is none */
    qn_tensor **sum, **average;       /* [n], likewise */
    qn_tensor **gradient;             /* [n], while a step is recorded; NULL: is left alone */
    qn_tensor *(
        *fresh)[STATES_MOST + 3]; /* [n], likewise: what is assigned, in the order of kept */
} optimizer;
enum { FRESH = STATES_MOST + 3 };

static group *group_of(const optimizer *o, int i) {
    group *g = o->group;
    while (i < g->first || i >= g->first + g->n) g = g->next;
    return g;
}

/* The one that is of all. */
static const qn_optimizer_options *common(const optimizer *o) {
    const group *g = o->group;
    while (g->next) g = g->next;
    return &g->options;
}

/* Where parameter i's values are that a step renews: itself, its state, its sum, its average. */
static void kept(const optimizer *o, int i, qn_tensor *at[FRESH]) {
    at[0] = o->parameter[i];
    for (int k = 0; k < STATES_MOST; k++) at[1 + k] = o->state[i][k];
    at[FRESH - 2] = o->sum[i];
    at[FRESH - 1] = o->average[i];
}

static bool number_fine(qn_ctx *qn, const char *name, double value, double most) {
    if (isfinite(value) && value >= 0 && value < most) return true;
    fail(qn, QN_ERANGE, "optimizer: %s is %g", name, value);
    return false;
}

bool options_fine(qn_ctx *qn, const qn_optimizer_options *o) {
    const struct {
        const char *name;
        double value, most; /* below which it is */
    } rows[] = {{"rate", o->rate, INFINITY},
                {"momentum", o->momentum, 1},
                {"beta1", o->beta1, 1},
                {"beta2", o->beta2, 1},
                {"epsilon", o->epsilon, INFINITY},
                {"weight_decay", o->weight_decay, INFINITY},
                {"clip", o->clip, INFINITY},
                {"clip_value", o->clip_value, INFINITY},
                {"dampening", o->dampening, INFINITY},
                {"rate_decay", o->rate_decay, INFINITY},
                {"start", o->start, INFINITY},
                {"epsilon2", o->epsilon2, INFINITY},
                {"-beta2_decay", -o->beta2_decay, INFINITY},
                {"threshold", o->threshold, INFINITY},
                {"average", o->average, 1},
                {"loss_scale", o->loss_scale, INFINITY},
                {"scale_growth", o->scale_growth, INFINITY},
                {"scale_backoff", o->scale_backoff, INFINITY},
                {"scale_interval", o->scale_interval, 1 << 24},
                {"iterations", o->iterations, 100},
                {"adjust", o->adjust, QN_ADJUST_SPECTRAL + 1}};
    if (!method_of(o->method)) {
        fail(qn, QN_EARG, "optimizer: no such method");
        return false;
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (!number_fine(qn, rows[i].name, rows[i].value, rows[i].most)) return false;
    for (size_t i = 0; i < COUNT_OF(o->coefficients); i++)
        if (!isfinite(o->coefficients[i])) {
            fail(qn, QN_ERANGE, "optimizer: coefficients[%zu] is %g", i, o->coefficients[i]);
            return false;
        }
    return true;
}

static int write_scalar(qn_tensor *t, double value) {
    float narrow = (float)value;
    if (qn_dtype_of(t) == QN_F64) return qn_write(t, &value, sizeof value);
    return qn_write(t, &narrow, sizeof narrow);
}

static int set_rate(optimizer *o, group *g, double rate) {
    if (!isfinite(rate) || rate < 0)
        return fail(o->ctx, QN_ERANGE, "optimizer: a rate of %g", rate);
    g->options.rate = rate;
    return write_scalar(g->rate, rate);
}

/* Numbers that are others than before, which are data from now on. */
static int set_numbers(optimizer *o, group *g, const qn_optimizer_options *options) {
    double value[SETTINGS];
    int code = QN_OK;
    settings_of(options, value);
    for (int k = 0; k < SETTINGS && !code; k++) {
        char name[32];
        if (value[k] == g->settings.value[k]) continue;
        snprintf(name, sizeof name, "%d.%d", g->number, k);
        qn_tensor **data = &g->settings.data[k];
        if (!*data) *data = qn_module_parameter(o->data, name, o->dtype, 0, NULL, NULL);
        code = *data ? write_scalar(*data, value[k]) : (int)qn_error_code(o->ctx);
        if (!code) g->settings.value[k] = value[k];
    }
    if (!code) g->options = *options;
    return code ? code : set_rate(o, g, options->rate);
}

static qn_tensor *scalar(optimizer *o, const char *name, double value) {
    qn_tensor *t = qn_module_parameter(o->module, name, o->dtype, 0, NULL, NULL);
    return t && !write_scalar(t, value) ? t : NULL;
}

/* A group of parameters, its rate under the name "rate", of later groups "rate.<group>". */
static int add_group(optimizer *o, int first, int n, const qn_optimizer_options *options) {
    char name[32] = "rate";
    if (o->groups) snprintf(name, sizeof name, "rate.%d", o->groups);
    qn_tensor *rate = scalar(o, name, options->rate);
    group *g = rate ? heap_try(&o->ctx->heap, sizeof *g) : NULL;
    if (rate && !g) fail(o->ctx, QN_ENOMEM, "optimizer: out of memory");
    if (!g) return qn_error_code(o->ctx);
    *g = (group){.next = o->group, .first = first, .n = n, .rate = rate, .number = o->groups++};
    g->options = *options;
    settings_of(options, g->settings.value);
    o->group = g;
    return QN_OK;
}

/* A tensor "<i>.<part>" of the shape of parameter i, or with one of its axes 1. */
static qn_tensor *new_state(optimizer *o, int i, const char *part, state_shape s, double value) {
    qn_tensor *p = o->parameter[i];
    int64_t shape[QN_MAX_RANK];
    int rank = qn_rank(p);
    char name[32];
    state_shape_of(p, s, shape);
    snprintf(name, sizeof name, "%d.%s", i, part);
    if (value == 0) return qn_module_parameter(o->module, name, state_dtype(p), rank, shape, NULL);
    qn_scope scope = qn_scope_begin(o->ctx);
    qn_tensor *t =
        qn_module_add(o->module, name, nn_full(o->ctx, state_dtype(p), rank, shape, value));
    qn_scope_end(o->ctx, scope);
    return t;
}

static bool add_states(optimizer *o, int i) {
    const qn_optimizer_options *options = common(o);
    const method_row *m = method_of(options->method);
    char what[32];
    snprintf(what, sizeof what, "optimizer: parameter %d", i);
    if (!parameter_fine(o->ctx, m, o->parameter[i], what)) return false;
    for (int k = 0; k < STATES_MOST; k++) {
        char part[8];
        snprintf(part, sizeof part, "%d", k);
        if (!state_is(m->state[k].when, options, qn_rank(o->parameter[i]))) continue;
        o->state[i][k] = new_state(o, i, part, m->state[k].shape, k ? 0 : options->start);
        if (!o->state[i][k]) return false;
    }
    if (options->accumulates && !(o->sum[i] = new_state(o, i, "sum", FULL, 0))) return false;
    if (options->average > 0) o->average[i] = new_state(o, i, "average", FULL, 0);
    return options->average == 0 || o->average[i];
}

static bool add_state(optimizer *o, qn_tensor *const *parameters,
                      const qn_optimizer_options *options) {
    if (!handles_are(o->ctx, HANDLE_TENSOR, o->n, (const void *const *)parameters, "optimizer",
                     "parameter"))
        return false;
    o->module = qn_module_new(o->ctx, 0);
    o->data = qn_module_new(o->ctx, 0);
    o->dtype = QN_F32;
    for (int i = 0; i < o->n; i++)
        if (qn_dtype_of(parameters[i]) == QN_F64) o->dtype = QN_F64;
    if (!o->module || !o->data || add_group(o, 0, o->n, options)) return false;
    if (!(o->count = scalar(o, "count", 0))) return false;
    if (options->loss_scale > 0) {
        o->scale = scalar(o, "scale", options->loss_scale);
        if (!o->scale || !(o->good = scalar(o, "good", 0))) return false;
    }
    for (int i = 0; i < o->n; i++) {
        o->parameter[i] = qn_keep(parameters[i]);
        if (!add_states(o, i)) return false;
    }
    return true;
}

static void optimizer_close(optimizer *o) {
    for (int i = 0; i < o->n; i++)
        if (handle_is(o->parameter[i], HANDLE_TENSOR)) qn_release(o->parameter[i]);
    if (handle_is(o->module, HANDLE_MODULE)) qn_module_free(o->module);
    if (handle_is(o->data, HANDLE_MODULE)) qn_module_free(o->data);
    while (o->group) {
        group *g = o->group;
        o->group = g->next;
        heap_free(&o->ctx->heap, g, sizeof *g);
    }
    heap_free(&o->ctx->heap, o, o->size);
}

static optimizer *optimizer_open(qn_ctx *qn, int n) {
    size_t lists = (size_t)n * (4 + STATES_MOST + FRESH);
    size_t size = sizeof(optimizer) + lists * sizeof(qn_tensor *);
    optimizer *o = heap_try(&qn->heap, size);
    if (!o) return fail_null(qn, QN_ENOMEM, "optimizer: out of memory");
    memset(o, 0, size);
    *o = (optimizer){.ctx = qn, .n = n, .size = size};
    o->parameter = (qn_tensor **)(o + 1);
    o->gradient = o->parameter + n;
    o->sum = o->gradient + n;
    o->average = o->sum + n;
    o->state = (void *)(o->average + n);
    o->fresh = (void *)(o->state + n);
    return o;
}

qn_optimizer *qn_optimizer_new(qn_ctx *qn, int n, qn_tensor *const *parameters,
                               const qn_optimizer_options *given) {
    qn_optimizer_options options = QN_OPTIMIZER_OPTIONS();
    if (!qn) return NULL;
    if (!given || !parameters) return fail_null(qn, QN_ENULL, "optimizer: NULL given");
    if (!struct_take(qn, "optimizer_new", "qn_optimizer_options", &options, sizeof options, given))
        return NULL;
    if (n < 1) return fail_null(qn, QN_EARG, "optimizer: needs parameters");
    if (!options_fine(qn, &options)) return NULL;
    optimizer *o = optimizer_open(qn, n);
    if (!o) return NULL;
    qn_optimizer *known =
        add_state(o, parameters, &options) ? object_open(qn, HANDLE_OPTIMIZER, o) : NULL;
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

/* ---- changing its settings ---------------------------------------------------------------- */

qn_code qn_optimizer_set_rate(qn_optimizer *known, double rate) {
    optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_set_rate");
    if (!o) return handle_code(known);
    int code = QN_OK;
    for (group *g = o->group; g && !code; g = g->next) code = set_rate(o, g, rate);
    return code;
}

/* What all parameters share, and what is there from the start. */
static bool same_shared(const qn_optimizer_options *a, const qn_optimizer_options *b) {
    return a->clip == b->clip && a->clip_value == b->clip_value && a->average == b->average &&
           a->scale_growth == b->scale_growth && a->scale_backoff == b->scale_backoff &&
           a->scale_interval == b->scale_interval;
}

static bool same_states(const optimizer *o, const qn_optimizer_options *a, int first, int n) {
    const qn_optimizer_options *b = common(o);
    if (a->method != b->method || a->accumulates != b->accumulates ||
        (a->average > 0) != (b->average > 0) || (a->loss_scale > 0) != (b->loss_scale > 0))
        return false;
    const method_row *m = method_of(a->method);
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < STATES_MOST; k++)
            if (state_is(m->state[k].when, a, qn_rank(o->parameter[i])) != !!o->state[i][k])
                return false;
    return true;
}

qn_code qn_optimizer_set_group(qn_optimizer *known, int first, int n,
                               const qn_optimizer_options *given) {
    optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_set_group");
    qn_optimizer_options options = QN_OPTIMIZER_OPTIONS();
    if (!o) return handle_code(known);
    if (!given) return fail(o->ctx, QN_ENULL, "optimizer_set_group: no options");
    if (!struct_take(o->ctx, "optimizer_set_group", "qn_optimizer_options", &options,
                     sizeof options, given) ||
        !options_fine(o->ctx, &options))
        return qn_error_code(o->ctx);
    if (first < 0 || n < 1 || first > o->n - n)
        return fail(o->ctx, QN_ERANGE, "optimizer_set_group: parameters %d to %lld of %d", first,
                    (long long)first + n - 1, o->n);
    bool all = n == o->n;
    if (!same_states(o, &options, first, n))
        return fail(o->ctx, QN_EARG,
                    "optimizer_set_group: another method, or state that was not there from the "
                    "start");
    if (!all && !same_shared(&options, common(o)))
        return fail(o->ctx, QN_EARG,
                    "optimizer_set_group: clip, average and scale are of all parameters, not of "
                    "%d",
                    n);
    for (group *g = o->group; g; g = g->next) {
        if (g->first != first || g->n != n) continue;
        return set_numbers(o, g, &options);
    }
    return add_group(o, first, n, &options);
}

/* ---- gradients ---------------------------------------------------------------------------- */

/* Scale gradients down so that the norm of all of them together is at most `clip`. */
static void clip_norm(optimizer *o, const step *s) {
    qn_tensor *total = NULL;
    for (int i = 0; i < o->n; i++) {
        if (!o->gradient[i]) continue;
        qn_tensor *g = qn_cast(o->gradient[i], o->dtype);
        qn_tensor *square = qn_sum(qn_mul(g, g), QN_ALL, false);
        total = total ? qn_add(total, square) : square;
    }
    qn_tensor *norm = qn_add(qn_sqrt(total), qn_like(total, 1e-6));
    qn_tensor *factor = qn_minimum(qn_div(setting_of(s, CLIP, norm), norm), qn_like(norm, 1));
    factor = qn_contiguous(factor);
    for (int i = 0; i < o->n; i++)
        if (o->gradient[i])
            o->gradient[i] = qn_mul(o->gradient[i], qn_cast(factor, qn_dtype_of(o->gradient[i])));
}

/* Whether all gradients are finite: a stored scalar. */
static qn_tensor *all_finite(const optimizer *o) {
    qn_tensor *all = NULL;
    for (int i = 0; i < o->n; i++) {
        if (!o->gradient[i]) continue;
        qn_tensor *one = qn_all(qn_isfinite(o->gradient[i]), QN_ALL, false);
        all = all ? qn_and(all, one) : one;
    }
    return qn_contiguous(all);
}

static int gradients_of(const optimizer *o) {
    int n = 0;
    for (int i = 0; i < o->n; i++) n += o->gradient[i] != NULL;
    return n;
}

/* In the dtype of the state: with what was accumulated, of the loss itself, uphill where asked. */
static void take_gradients(optimizer *o) {
    qn_tensor *unscale = o->scale ? qn_contiguous(qn_reciprocal(o->scale)) : NULL;
    for (int i = 0; i < o->n; i++) {
        qn_tensor *g = o->gradient[i];
        if (!g) continue;
        g = qn_cast(g, state_dtype(o->parameter[i]));
        if (o->sum[i]) g = qn_add(g, o->sum[i]);
        if (unscale) g = qn_mul(g, qn_cast(unscale, qn_dtype_of(g)));
        o->gradient[i] = group_of(o, i)->options.maximize ? qn_neg(g) : g;
    }
}

static void clip_gradients(optimizer *o, const step *s) {
    for (int i = 0; i < o->n && s->o->clip_value != 0; i++) {
        qn_tensor *g = o->gradient[i];
        if (!g) continue;
        qn_tensor *most = setting_of(s, CLIP_VALUE, g);
        o->gradient[i] = qn_maximum(qn_minimum(g, most), qn_neg(most));
    }
    if (s->o->clip != 0) clip_norm(o, s);
}

/* ---- a step ------------------------------------------------------------------------------- */

/* What the parameters of a group share. */
static step step_of(const group *g, qn_tensor *count) {
    step s = {.o = &g->options, .rate = g->rate, .count = count, .settings = &g->settings};
    step_correct(&s);
    return s;
}

/* The average of the parameter's values, which begins as the first of them. */
static qn_tensor *averaged(const step *shared, qn_tensor *old, qn_tensor *p) {
    qn_tensor *first = qn_eq(shared->count, qn_like(shared->count, 1));
    qn_tensor *rest = qn_where(first, qn_like(p, 0), setting_of(shared, AVERAGE, p));
    qn_tensor *part = qn_where(first, qn_like(p, 1), setting_of(shared, NEW_AVERAGE, p));
    return qn_fma(old, qn_contiguous(rest), qn_mul(p, qn_contiguous(part)));
}

/* Record parameter `i`'s update into o->fresh; s is of its group. */
static void update_one(optimizer *o, const step *shared, const step *s, int i) {
    qn_tensor *p = o->parameter[i], **fresh = o->fresh[i];
    memcpy(fresh + 1, o->state[i], sizeof o->state[i]);
    step_record(*s, p, o->gradient[i], fresh, fresh + 1);
    if (o->sum[i]) fresh[FRESH - 2] = qn_zeros_like(o->sum[i]);
    if (o->average[i])
        fresh[FRESH - 1] = averaged(shared, o->average[i], qn_cast(fresh[0], state_dtype(p)));
}

/* Where the gradients were not finite everything stays, and what was accumulated goes. */
static void keep_where_not(optimizer *o, qn_tensor *fine) {
    qn_tensor *at[FRESH];
    for (int i = 0; i < o->n; i++) {
        kept(o, i, at);
        for (int k = 0; k < FRESH && o->gradient[i]; k++)
            if (at[k] && k != FRESH - 2) o->fresh[i][k] = qn_where(fine, o->fresh[i][k], at[k]);
    }
}

/* Assign only when every update could be recorded: a step is taken whole or not at all. `also` are
 * scalars with their new values. */
static int assign_all(optimizer *o, int n, qn_tensor *const (*also)[2]) {
    qn_tensor *at[FRESH];
    int code = QN_OK;
    for (int i = 0; i < o->n; i++) {
        kept(o, i, at);
        for (int k = 0; k < FRESH && o->gradient[i]; k++)
            if (at[k] && !o->fresh[i][k]) return qn_error_code(o->ctx);
    }
    for (int k = 0; k < n; k++)
        if (!also[k][1]) return qn_error_code(o->ctx);
    for (int i = 0; i < o->n && !code; i++) {
        kept(o, i, at);
        for (int k = 0; k < FRESH && o->gradient[i] && !code; k++)
            if (at[k]) code = qn_assign(at[k], o->fresh[i][k]);
    }
    for (int k = 0; k < n && !code; k++) code = qn_assign(also[k][0], also[k][1]);
    return code;
}

/* The scale falls after a step that was none, and rises after so many that were. */
static int assign_step(optimizer *o, const step *s, qn_tensor *fine) {
    if (!fine) return assign_all(o, 1, (qn_tensor *const[][2]){{o->count, s->count}});
    qn_tensor *good = qn_add(o->good, qn_like(o->good, 1)), *none = qn_like(good, 0);
    qn_tensor *enough = qn_ge(good, setting_of(s, SCALE_INTERVAL, good));
    qn_tensor *more = qn_mul(o->scale, setting_of(s, SCALE_GROWTH, o->scale));
    qn_tensor *less = qn_mul(o->scale, setting_of(s, SCALE_BACKOFF, o->scale));
    qn_tensor *grown = qn_where(qn_and(enough, qn_isfinite(more)), more, o->scale);
    keep_where_not(o, fine);
    return assign_all(o, 3,
                      (qn_tensor *const[][2]){
                          {o->count, qn_where(fine, s->count, o->count)},
                          {o->scale, qn_where(fine, grown, less)},
                          {o->good, qn_where(fine, qn_where(enough, none, good), none)},
                      });
}

/* From o->gradient. */
static int apply(optimizer *o) {
    qn_tensor *count = qn_add(o->count, qn_like(o->count, 1));
    group *whole = o->group, *known = NULL;
    while (whole->next) whole = whole->next;
    step shared = step_of(whole, count), s = shared;
    int given = gradients_of(o);
    take_gradients(o);
    qn_tensor *fine = o->scale ? all_finite(o) : NULL;
    clip_gradients(o, &shared);
    if (gradients_of(o) != given) return qn_error_code(o->ctx); /* one could not be recorded */
    for (int i = 0; i < o->n; i++) {
        if (!o->gradient[i]) continue;
        group *g = group_of(o, i);
        if (g != known) s = step_of(known = g, count);
        update_one(o, &shared, &s, i);
    }
    return assign_step(o, &shared, fine);
}

/* Gradients of a loss into o->gradient. */
static int derive(optimizer *o, qn_tensor *loss) {
    if (o->scale) loss = qn_mul(loss, qn_cast(o->scale, qn_dtype_of(loss)));
    return qn_grad(loss, NULL, o->n, o->parameter, o->gradient);
}

static bool gradients_fine(optimizer *o, qn_tensor *const *gradients) {
    int given = 0;
    bool failed = qn_error_code(o->ctx) != QN_OK; /* what is NULL may be for that */
    for (int i = 0; gradients && i < o->n; i++) {
        o->gradient[i] = gradients[i];
        if (!gradients[i] && failed) return false;
        if (!gradients[i]) continue;
        given++;
        const qn_tensor *t = gradients[i], *p = o->parameter[i];
        char what[32];
        snprintf(what, sizeof what, "gradient %d", i);
        if (!handle_check(o->ctx, t, HANDLE_TENSOR, "optimizer", what)) return false;
        bool same = qn_rank(t) == qn_rank(p);
        for (int d = 0; same && d < qn_rank(p); d++) same = qn_dim(t, d) == qn_dim(p, d);
        if (same) continue;
        fail(o->ctx, QN_ESHAPE, "optimizer: gradient %d has not its parameter's shape", i);
        return false;
    }
    if (!given) fail(o->ctx, QN_ENULL, "optimizer: no gradients");
    return given;
}

qn_code qn_optimizer_apply(qn_optimizer *known, qn_tensor *const *gradients) {
    optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_apply");
    if (!o) return handle_code(known);
    if (!gradients_fine(o, gradients)) return qn_error_code(o->ctx);
    qn_scope scope = qn_scope_begin(o->ctx);
    int code = apply(o);
    qn_scope_end(o->ctx, scope);
    return code;
}

qn_code qn_optimizer_step(qn_optimizer *known, qn_tensor *loss) {
    optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_step");
    if (!o) return handle_code(known);
    if (!handle_check(o->ctx, loss, HANDLE_TENSOR, "optimizer_step", "loss"))
        return qn_error_code(o->ctx);
    qn_scope scope = qn_scope_begin(o->ctx);
    int code = derive(o, loss);
    if (code == QN_OK) code = apply(o);
    qn_scope_end(o->ctx, scope);
    return code;
}

qn_code qn_optimizer_accumulate(qn_optimizer *known, qn_tensor *loss) {
    optimizer *o = object_of(known, HANDLE_OPTIMIZER, "optimizer_accumulate");
    if (!o) return handle_code(known);
    if (!handle_check(o->ctx, loss, HANDLE_TENSOR, "optimizer_accumulate", "loss"))
        return qn_error_code(o->ctx);
    if (!common(o)->accumulates)
        return fail(o->ctx, QN_EARG, "optimizer_accumulate: its options do not say accumulates");
    qn_scope scope = qn_scope_begin(o->ctx);
    int code = derive(o, loss);
    for (int i = 0; i < o->n && !code; i++) {
        qn_tensor *g = qn_cast(o->gradient[i], qn_dtype_of(o->sum[i]));
        o->fresh[i][0] = qn_add(o->sum[i], g);
        if (!o->fresh[i][0]) code = qn_error_code(o->ctx);
    }
    for (int i = 0; i < o->n && !code; i++) code = qn_assign(o->sum[i], o->fresh[i][0]);
    qn_scope_end(o->ctx, scope);
    return code;
}
