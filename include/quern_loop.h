/* quern_loop.h - loops, branches and maps with their bodies as functions, over quern.h's
 * qn_loop_begin and qn_vmap. A body is called once, to be recorded, and its arguments have values
 * in each trip only.
 *
 *     static qn_code step(qn_ctx *qn, void *arg, qn_tensor *const *h, qn_tensor *const *x,
 *                         qn_tensor **next, qn_tensor **out) {
 *         const model *m = arg;
 *         next[0] = out[0] = qn_tanh(qn_add(qn_matmul(x[0], m->w), qn_matmul(h[0], m->u)));
 *         return QN_OK;
 *     }
 *     qn_loop_call c = {.body = step, .arg = &m, .n = 1, .states = &h0, .n_in = 1,
 *                       .sequences = &xs, .n_out = 1};
 *     qn_loop_run(qn, &c, &last, &all);
 */
#ifndef QUERN_LOOP_H
#define QUERN_LOOP_H

#include <quern.h>

#define QN_LOOP_MOST 64 /* states, sequences, or outputs */

/* Gives the states behind a trip and what is stacked. Another code than QN_OK gives the loop up. */
typedef qn_code qn_loop_body(qn_ctx *qn, void *arg, qn_tensor *const *states,
                             qn_tensor *const *rows, qn_tensor **next, qn_tensor **outputs);
/* A bool scalar: is there to be another trip? */
typedef qn_tensor *qn_loop_test(qn_ctx *qn, void *arg, qn_tensor *const *states);

typedef struct qn_loop_call {
    qn_loop_body *body;
    qn_loop_test *test; /* or NULL: all trips are made */
    void *arg;          /* what both are given */
    int n, n_in, n_out;
    qn_tensor *const *states, *const *sequences;
    const qn_loop_options *options; /* or NULL */
} qn_loop_call;

/* Record the body between begin and end. */
static inline qn_code qn_loop_record(qn_ctx *qn, const qn_loop_call *c, qn_loop *l) {
    qn_tensor *state[QN_LOOP_MOST] = {0}, *row[QN_LOOP_MOST] = {0};
    qn_tensor *next[QN_LOOP_MOST] = {0}, *out[QN_LOOP_MOST] = {0};
    for (int i = 0; i < c->n; i++) state[i] = qn_loop_state(l, i);
    for (int i = 0; i < c->n_in; i++) row[i] = qn_loop_slice(l, i);
    qn_code code = c->test ? qn_loop_while(l, c->test(qn, c->arg, state)) : QN_OK;
    if (code == QN_OK) code = c->body(qn, c->arg, state, row, next, out);
    return code == QN_OK ? qn_loop_end(l, c->n, next, c->n_out, out) : code;
}

/* `code`, or if a result could not be made, why. */
static inline qn_code qn_loop_made(qn_ctx *qn, qn_code code, int n, qn_tensor *const *results) {
    for (int i = 0; results && code == QN_OK && i < n; i++)
        if (!results[i]) code = qn_error_code(qn);
    return code;
}

/* After an error: results that were made before it. Those of a scope it releases at its end, and
 * only the first error tells of itself. */
static inline void qn_loop_drop(int n, qn_tensor **results) {
    for (int i = 0; results && i < n; i++) {
        if (results[i]) qn_release(results[i]);
        results[i] = 0;
    }
}

/* Kept results, from now on the caller's scope's: all of them, or none. */
static inline qn_code qn_loop_pass(qn_ctx *qn, int n, qn_tensor **results) {
    for (int i = 0; i < n; i++) {
        qn_tensor *kept = results[i];
        qn_scope scope = qn_scope_begin(qn);
        results[i] = scope ? qn_scope_return(qn, scope, kept) : 0;
        qn_release(kept);
    }
    qn_code code = qn_loop_made(qn, QN_OK, n, results);
    if (code != QN_OK) qn_loop_drop(n, results);
    return code;
}

/* final: the n states at the end; outputs: n_out stacks. Both NULL after an error; either may be
 * NULL where nobody wants it. */
static inline qn_code qn_loop_run(qn_ctx *qn, const qn_loop_call *c, qn_tensor **final_states,
                                  qn_tensor **outputs) {
    for (int i = 0; final_states && i < c->n; i++) final_states[i] = 0;
    for (int i = 0; outputs && i < c->n_out; i++) outputs[i] = 0;
    if (!qn) return QN_ENULL;
    if (!c->body || c->n > QN_LOOP_MOST || c->n_in > QN_LOOP_MOST || c->n_out > QN_LOOP_MOST)
        return QN_EARG;
    qn_loop *l = qn_loop_begin(qn, c->n, c->states, c->n_in, c->sequences, c->options);
    if (!l) return qn_error_code(qn);
    qn_code code = qn_loop_record(qn, c, l);
    for (int i = 0; final_states && code == QN_OK && i < c->n; i++)
        final_states[i] = qn_loop_final(l, i);
    for (int i = 0; outputs && code == QN_OK && i < c->n_out; i++)
        outputs[i] = qn_loop_output(l, i);
    qn_loop_free(l);
    code = qn_loop_made(qn, code, c->n, final_states);
    code = qn_loop_made(qn, code, c->n_out, outputs);
    if (code == QN_OK) return QN_OK;
    qn_loop_drop(c->n, final_states);
    qn_loop_drop(c->n_out, outputs);
    return code;
}

/* ---- branches --------------------------------------------------------------------------- */

/* Gives n results. */
typedef qn_code qn_branch(qn_ctx *qn, void *arg, qn_tensor **results);

/* A branch as a loop of one trip, if `taken`, an i64 scalar, is 1; else its results are 0. */
static inline qn_code qn_branch_record(qn_ctx *qn, qn_tensor *taken, int n, qn_branch *branch,
                                       void *arg, qn_tensor **results) {
    qn_tensor *out[QN_LOOP_MOST] = {0};
    qn_loop_options o = QN_LOOP_OPTIONS();
    o.trips = 1;
    o.most = taken;
    qn_loop *l = qn_loop_begin(qn, 0, 0, 0, 0, &o);
    if (!l) return qn_error_code(qn);
    qn_code code = branch(qn, arg, out);
    if (code == QN_OK) code = qn_loop_end(l, 0, 0, n, out);
    for (int i = 0; code == QN_OK && i < n; i++) results[i] = qn_select(qn_loop_output(l, i), 0, 0);
    qn_loop_free(l);
    return qn_loop_made(qn, code, n, results);
}

/* results[i]: what branch `yes` gives where `condition`, a bool scalar, holds, else what `no` does;
 * only one of them is computed, and gradients pass that one only. The two meet as in qn_where. What
 * a branch uses that was recorded before it is computed in any case. */
static inline qn_code qn_cond(qn_ctx *qn, qn_tensor *condition, int n, qn_branch *yes,
                              qn_branch *no, void *arg, qn_tensor **results) {
    for (int i = 0; i < n; i++) results[i] = 0;
    if (!qn || !condition) return QN_ENULL;
    if (n < 0 || n > QN_LOOP_MOST || !yes || !no) return QN_EARG;
    qn_scope scope = qn_scope_begin(qn);
    if (!scope) return qn_error_code(qn);
    qn_tensor *a[QN_LOOP_MOST] = {0}, *b[QN_LOOP_MOST] = {0};
    qn_tensor *not_taken = qn_cast(qn_logical_not(condition), QN_I64);
    qn_tensor *taken = qn_cast(condition, QN_I64);
    qn_code code = taken && not_taken ? QN_OK : qn_error_code(qn);
    if (code == QN_OK) code = qn_branch_record(qn, taken, n, yes, arg, a);
    if (code == QN_OK) code = qn_branch_record(qn, not_taken, n, no, arg, b);
    for (int i = 0; code == QN_OK && i < n; i++)
        results[i] = qn_keep(qn_where(condition, a[i], b[i]));
    code = qn_loop_made(qn, code, n, results);
    if (code != QN_OK) qn_loop_drop(n, results);
    qn_scope_end(qn, scope);
    return code == QN_OK ? qn_loop_pass(qn, n, results) : code;
}

/* ---- maps ------------------------------------------------------------------------------- */

/* Gives the results of one example. Another code than QN_OK gives the map up. */
typedef qn_code qn_vmap_body(qn_ctx *qn, void *arg, qn_tensor *const *example, qn_tensor **results);

typedef struct qn_vmap_call {
    qn_vmap_body *body;
    void *arg; /* what it is given */
    int n_in;
    qn_tensor *const *inputs;
    const int *in_axes; /* NULL: 0; QN_UNBATCHED: the body is given the input itself */
    int n_out;
    const int *out_axes; /* NULL: 0 */
} qn_vmap_call;

/* results[i]: those of all examples, as qn_vmap has them; NULL after an error. */
static inline qn_code qn_vmap_run(qn_ctx *qn, const qn_vmap_call *c, qn_tensor **results) {
    qn_tensor *arg[QN_LOOP_MOST] = {0}, *example[QN_LOOP_MOST] = {0}, *input[QN_LOOP_MOST] = {0};
    qn_tensor *one[QN_LOOP_MOST] = {0};
    int axis[QN_LOOP_MOST] = {0}, n = 0;
    for (int i = 0; i < c->n_out; i++) results[i] = 0;
    if (!qn) return QN_ENULL;
    if (!c->body || c->n_in > QN_LOOP_MOST || c->n_out > QN_LOOP_MOST) return QN_EARG;
    qn_scope scope = qn_scope_begin(qn);
    qn_code code = scope ? QN_OK : qn_error_code(qn);
    for (int i = 0; code == QN_OK && i < c->n_in; i++) {
        int at = c->in_axes ? c->in_axes[i] : 0;
        arg[i] = at == QN_UNBATCHED ? c->inputs[i] : qn_example(c->inputs[i], at);
        if (!arg[i]) code = qn_error_code(qn) != QN_OK ? qn_error_code(qn) : QN_ENULL;
        if (at == QN_UNBATCHED) continue;
        example[n] = arg[i];
        input[n] = c->inputs[i];
        axis[n++] = at;
    }
    if (code == QN_OK) code = c->body(qn, c->arg, arg, one);
    if (code == QN_OK) code = qn_vmap(c->n_out, one, c->out_axes, n, example, input, axis, results);
    for (int i = 0; code == QN_OK && i < c->n_out; i++) qn_keep(results[i]);
    if (scope) qn_scope_end(qn, scope);
    if (code != QN_OK) return code;
    return qn_loop_pass(qn, c->n_out, results);
}

#endif
