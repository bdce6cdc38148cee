/* alone.c - a method as a function of one parameter and its state: nothing is assigned.
 *
 * For those who keep state in tensors of their own and assign by ways of their own, as the Python
 * package, whose functions can be traced with their optimizers in them. */
#include "graph/graph.h"
#include "nn/optim/methods.h"

/* The options, where they are fine and p is a parameter for them. */
static bool take(qn_ctx *qn, const char *call, qn_tensor *p, qn_optimizer_options *o,
                 const qn_optimizer_options *given) {
    *o = QN_OPTIMIZER_OPTIONS();
    if (!given) return fail_null(qn, QN_ENULL, "%s: no options", call);
    if (!struct_take(qn, call, "qn_optimizer_options", o, sizeof *o, given)) return false;
    return options_fine(qn, o) && parameter_fine(qn, method_of(o->method), p, "p");
}

qn_tensor *qn_optimizer_begin(qn_tensor *p, const qn_optimizer_options *given, int which) {
    const handle *h = p ? handle_check(NULL, p, HANDLE_TENSOR, "optimizer_begin", "p") : NULL;
    qn_optimizer_options o;
    if (!h || !take(h->ctx, "optimizer_begin", p, &o, given)) return NULL;
    if (which < 0 || which >= STATES_MOST)
        return fail_null(h->ctx, QN_ERANGE, "optimizer_begin: state %d of %d", which, STATES_MOST);
    int64_t shape[QN_MAX_RANK];
    int rank = qn_rank(p);
    state_row row = method_of(o.method)->state[which];
    if (!state_is(row.when, &o, rank)) return NULL;
    state_shape_of(p, row.shape, shape);
    return nn_full(h->ctx, state_dtype(p), rank, shape, which ? 0 : o.start);
}

/* The momentum that is given in place of the options'. */
static void put_momentum(settings *s, const qn_optimizer_options *o, qn_tensor *momentum) {
    if (!momentum) return;
    qn_tensor *rest = qn_contiguous(qn_sub(qn_like(momentum, 1), momentum));
    if (o->momentum != 0) {
        s->data[MOMENTUM] = momentum;
        s->data[NEW_MOMENTUM] = rest;
    } else {
        s->data[BETA1] = momentum;
        s->data[NEW_BETA1] = rest;
        s->data[LOG_BETA1] = qn_log(momentum);
    }
}

/* What an update is given, by its names; the last are scalars, of them the last may be NULL. */
enum { GIVEN_G, GIVEN_STATE, GIVEN_RATE = GIVEN_STATE + STATES_MOST, GIVEN_COUNT, GIVEN_MOMENTUM };
enum { GIVEN = GIVEN_MOMENTUM + 1 };

/* All of them are looked at before any is asked for its shape. */
static bool given_fine(qn_ctx *qn, qn_tensor *const *t) {
    static const char *const names[GIVEN] = {"g",    "state 0", "state 1", "state 2",
                                             "rate", "count",   "momentum"};
    for (int i = 0; i < GIVEN; i++) {
        bool optional = i == GIVEN_MOMENTUM || (i >= GIVEN_STATE && i < GIVEN_RATE);
        if (!t[i] && optional) continue;
        if (!handle_check(qn, t[i], HANDLE_TENSOR, "optimizer_update", names[i])) return false;
    }
    for (int i = GIVEN_RATE; i < GIVEN; i++) {
        if (!t[i] || qn_rank(t[i]) == 0) continue;
        fail(qn, QN_ESHAPE, "optimizer_update: %s is no scalar", names[i]);
        return false;
    }
    return true;
}

/* Is what is given as state what the method keeps? */
static bool state_fine(qn_ctx *qn, const qn_optimizer_options *o, qn_tensor *p,
                       qn_tensor *const *state) {
    for (int k = 0; k < STATES_MOST; k++) {
        state_row row = method_of(o->method)->state[k];
        int64_t shape[QN_MAX_RANK];
        bool is = state_is(row.when, o, qn_rank(p)), same = is == !!state[k];
        state_shape_of(p, row.shape, shape);
        for (int d = 0; is && same && d < qn_rank(p); d++)
            same = qn_rank(state[k]) == qn_rank(p) && qn_dim(state[k], d) == shape[d];
        if (same && (!is || qn_dtype_of(state[k]) == state_dtype(p))) continue;
        fail(qn, QN_ESHAPE, "optimizer_update: state %d is not what %s keeps of this parameter", k,
             qn_method_name(o->method));
        return false;
    }
    return true;
}

static bool update_work(step s, qn_tensor *const *given, qn_tensor **out) {
    qn_tensor *state[STATES_MOST];
    memcpy(state, given + 2, sizeof state);
    step_correct(&s);
    step_record(s, given[0], s.o->maximize ? qn_neg(given[1]) : given[1], &out[0], state);
    memcpy(out + 1, state, sizeof state);
    bool whole = out[0] != NULL;
    for (int k = 0; k < STATES_MOST; k++) whole &= !given[2 + k] || state[k];
    return whole;
}

/* The scope ends; what it made is its caller's, as any function's result. */
static int give(qn_ctx *qn, qn_scope scope, bool fine, qn_tensor *const *made, qn_tensor **out) {
    for (int k = 0; k < 1 + STATES_MOST; k++) out[k] = fine && made[k] ? qn_keep(made[k]) : NULL;
    qn_scope_end(qn, scope);
    for (int k = 0; k < 1 + STATES_MOST; k++) {
        qn_tensor *kept = out[k];
        if (!kept) continue;
        qn_scope own = qn_scope_begin(qn);
        fine &= (out[k] = own ? qn_scope_return(qn, own, kept) : NULL) != NULL;
        qn_release(kept);
    }
    for (int k = 0; k < 1 + STATES_MOST && !fine; k++) {
        if (out[k] && qn->graph->scopes == 0) qn_release(out[k]);
        out[k] = NULL;
    }
    return fine ? QN_OK : qn_error_code(qn);
}

qn_code qn_optimizer_update(qn_tensor *p, qn_tensor *g, const qn_optimizer_options *given,
                            qn_tensor *rate, qn_tensor *momentum, qn_tensor *count,
                            qn_tensor *const *state, qn_tensor **out) {
    const handle *h = p ? handle_check(NULL, p, HANDLE_TENSOR, "optimizer_update", "p") : NULL;
    qn_optimizer_options o;
    settings numbers = {0};
    if (!h) return p ? handle_code(p) : QN_ENULL;
    qn_ctx *qn = h->ctx;
    if (!take(qn, "optimizer_update", p, &o, given)) return qn_error_code(qn);
    if (!state || !out) return fail(qn, QN_ENULL, "optimizer_update: no state or no results");
    qn_tensor *const all[GIVEN] = {g, state[0], state[1], state[2], rate, count, momentum};
    if (!given_fine(qn, all) || !state_fine(qn, &o, p, state)) return qn_error_code(qn);
    bool same = qn_rank(g) == qn_rank(p);
    for (int d = 0; same && d < qn_rank(p); d++) same = qn_dim(g, d) == qn_dim(p, d);
    if (!same) return fail(qn, QN_ESHAPE, "optimizer_update: g has not its parameter's shape");
    settings_of(&o, numbers.value);
    qn_scope scope = qn_scope_begin(qn);
    put_momentum(&numbers, &o, momentum);
    step s = {.o = &o, .rate = rate, .count = count, .settings = &numbers};
    qn_tensor *given_all[2 + STATES_MOST] = {p, g, state[0], state[1], state[2]};
    qn_tensor *made[1 + STATES_MOST] = {0};
    bool fine = update_work(s, given_all, made);
    return give(qn, scope, fine, made, out);
}
