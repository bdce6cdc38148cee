/* methods.h - what a method of optim.c is: a row with its state and its update.
 *
 * An update records the new value of one parameter and of its state as expressions. A setting that
 * is a number is a constant of them until it is changed, and a scalar tensor from then on, so that
 * one plan serves whatever else it is changed to; what decides the expression itself, whether
 * there is momentum at all, is asked of the options. */
#ifndef QN_NN_METHODS_H
#define QN_NN_METHODS_H

#include "nn/nn.h"

/* The settings that are numbers in expressions: X(NAME, value of the options o). */
#define SETTINGS_OF(X)                                                                             \
    X(MOMENTUM, o->momentum)                                                                       \
    X(NEW_MOMENTUM, 1 - o->momentum)                                                               \
    X(UNDAMPED, 1 - o->dampening)                                                                  \
    X(BETA1, o->beta1)                                                                             \
    X(NEW_BETA1, 1 - o->beta1)                                                                     \
    X(LOG_BETA1, o->beta1 > 0 ? log(o->beta1) : -INFINITY)                                         \
    X(BETA2, o->beta2)                                                                             \
    X(NEW_BETA2, 1 - o->beta2)                                                                     \
    X(LOG_BETA2, o->beta2 > 0 ? log(o->beta2) : -INFINITY)                                         \
    X(BETA2_DECAY, o->beta2_decay)                                                                 \
    X(EPSILON, o->epsilon)                                                                         \
    X(EPSILON2, o->epsilon2)                                                                       \
    X(WEIGHT_DECAY, o->weight_decay)                                                               \
    X(RATE_DECAY, o->rate_decay)                                                                   \
    X(THRESHOLD, o->threshold)                                                                     \
    X(CLIP, o->clip)                                                                               \
    X(CLIP_VALUE, o->clip_value)                                                                   \
    X(AVERAGE, o->average)                                                                         \
    X(NEW_AVERAGE, 1 - o->average)                                                                 \
    X(SCALE_GROWTH, o->scale_growth > 0 ? o->scale_growth : 2)                                     \
    X(SCALE_BACKOFF, o->scale_backoff > 0 ? o->scale_backoff : 0.5)                                \
    X(SCALE_INTERVAL, o->scale_interval > 0 ? o->scale_interval : 2000)
typedef enum setting {
#define X(name, value) name,
    SETTINGS_OF(X)
#undef X
        SETTINGS
} setting;

typedef struct settings {
    double value[SETTINGS];
    qn_tensor *data[SETTINGS]; /* NULL: it has never been changed */
} settings;

/* What an update sees. */
typedef struct step {
    const qn_optimizer_options *o;
    qn_tensor *rate, *count; /* scalars of this step: the learning rate; steps, this one too */
    const settings *settings;
    qn_tensor *unbias1; /* 1 / (1 - beta1^t), for methods that correct; stored */
    qn_tensor *unbias2; /* 1 / (1 - beta2^t) */
    qn_dtype kept;      /* of the parameter, as it is kept */
    bool decays;        /* this parameter has weight decay */
} step;

/* Tensors of a method's state: when a parameter has one, and its shape. */
enum { STATES_MOST = 3 };
typedef enum state_when {
    NEVER,
    ALWAYS,
    WITH_MOMENTUM,
    WITH_AMSGRAD,
    WITH_CENTERED,
    OF_MATRICES, /* of two axes and more */
    OF_VECTORS   /* of one or none */
} state_when;
typedef enum state_shape {
    FULL,   /* the parameter's */
    ROWS,   /* the last axis 1 */
    COLUMNS /* the last but one 1 */
} state_shape;
typedef struct state_row {
    state_when when;
    state_shape shape;
} state_row;

/* Records the new parameter; replaces state[] by the new state, NULL where there is none. */
typedef qn_tensor *(*update)(const step *s, qn_tensor *p, qn_tensor *g, qn_tensor **state);
typedef struct method_row {
    const char *name;
    update update;
    bool corrects; /* uses unbias1 and unbias2 */
    bool matrix;   /* parameters have two axes */
    state_row state[STATES_MOST];
    qn_optimizer_options defaults;
} method_row;

/* ---- methods.c ----------------------------------------------------------------------------- */

const method_row *method_of(qn_method method); /* NULL: there is none */
bool state_is(state_when when, const qn_optimizer_options *o, int rank);
/* Setting `k` as a scalar in x's dtype. */
qn_tensor *setting_of(const step *s, setting k, qn_tensor *x);
void settings_of(const qn_optimizer_options *o, double value[SETTINGS]);
qn_dtype state_dtype(const qn_tensor *p);
void state_shape_of(const qn_tensor *p, state_shape s, int64_t *shape);
/* Is p one for the method? `what` it is called in the error. */
bool parameter_fine(qn_ctx *qn, const method_row *m, const qn_tensor *p, const char *what);
/* The factors that the method takes of the count. */
void step_correct(step *s);
/* Records the update of p by g, of any dtype, into next, in p's dtype, and state. */
void step_record(step s, qn_tensor *p, qn_tensor *g, qn_tensor **next, qn_tensor **state);

/* ---- optim.c --------------------------------------------------------------------------------- */

bool options_fine(qn_ctx *qn, const qn_optimizer_options *o);

#endif
