/* test_export_loops.c - loops in exported programs: by trips, by rows, until something holds,
 * inside of each other, and their gradients. Each way in which a state may lie has a case: written
 * over itself, in two places by turns, in the rows of what stacks it, before a trip or behind it.
 */
#include "export_run.h"
#include "quern_loop.h"

#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                       \
        __VA_ARGS__                                                                                \
    }

static void compare(qn_ctx *qn, int n_in, qn_tensor *const *in, int n_out, qn_tensor *const *out) {
    export_case c = {.qn = qn, .n_in = n_in, .n_out = n_out};
    for (int i = 0; i < n_in; i++) c.in[i] = in[i];
    for (int i = 0; i < n_out; i++) c.out[i] = out[i];
    export_compare(&c);
}

static void loop(qn_ctx *qn, const qn_loop_call *call, qn_tensor **final_states,
                 qn_tensor **outputs) {
    if (qn_loop_run(qn, call, final_states, outputs)) FAIL("%s", qn_error(qn));
}

/* ---- places of states ------------------------------------------------------------------------ */

static qn_code grow(qn_ctx *qn, void *arg, qn_tensor *const *state, qn_tensor *const *row,
                    qn_tensor **next, qn_tensor **out) {
    (void)qn, (void)arg, (void)row, (void)out;
    next[0] = qn_add(qn_mul(state[0], qn_weak(state[0], 0.75)), qn_weak(state[0], 0.5));
    return QN_OK;
}

static void state_is_written_over_itself(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = export_numbers(qn, SHAPE(5, 7)), *y = NULL;
    qn_loop_call call = {
        .body = grow, .n = 1, .states = &x, .options = &QN_LOOP_OPTIONS(.trips = 5)};
    loop(qn, &call, &y, NULL);
    compare(qn, 1, &x, 1, &y);
    export_close(qn);
}

static qn_code multiply(qn_ctx *qn, void *arg, qn_tensor *const *state, qn_tensor *const *row,
                        qn_tensor **next, qn_tensor **out) {
    (void)qn, (void)row, (void)out;
    next[0] = qn_sin(qn_matmul(state[0], arg ? arg : state[1]));
    if (!arg) next[1] = qn_transpose(state[0], 0, 1);
    return QN_OK;
}

static void states_take_turns(void) {
    for (int64_t trips = 0; trips < 4; trips++) {
        qn_ctx *qn = export_open();
        qn_tensor *x[2] = {export_numbers(qn, SHAPE(6, 6)), export_numbers(qn, SHAPE(6, 6))}, *y[2];
        qn_loop_call call = {
            .body = multiply, .n = 2, .states = x, .options = &QN_LOOP_OPTIONS(.trips = trips)};
        loop(qn, &call, y, NULL);
        compare(qn, 2, x, 2, y);
        export_close(qn);
    }
}

/* The weight, the same in all trips, is packed before the first. */
static void captured_weight_is_packed(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = export_numbers(qn, SHAPE(48, 192)), *w = export_numbers(qn, SHAPE(192, 192)),
              *y = NULL;
    w = qn_mul(w, qn_weak(w, 0.05));
    if (qn_realize(1, &w)) FAIL("%s", qn_error(qn));
    qn_loop_call call = {
        .body = multiply, .arg = w, .n = 1, .states = &x, .options = &QN_LOOP_OPTIONS(.trips = 3)};
    loop(qn, &call, &y, NULL);
    compare(qn, 1, &x, 1, &y);
    size_t size;
    char *text = export_read("model.c", &size);
    CHECK(text && strstr(text, "pack_0"));
    free(text);
    export_close(qn);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static qn_code running(qn_ctx *qn, void *arg, qn_tensor *const *state, qn_tensor *const *row,
                       qn_tensor **next, qn_tensor **out) {
    const int *which = arg;
    (void)qn;
    next[0] = qn_tanh(qn_add(state[0], row[0]));
    out[0] = *which == 0 ? next[0] : *which == 1 ? state[0] : qn_mul(state[0], row[0]);
    return QN_OK;
}

static void rows_are_read_and_stacked(void) {
    for (int which = 0; which < 3; which++)
        for (int reverse = 0; reverse < 2; reverse++) {
            qn_ctx *qn = export_open();
            qn_tensor *in[2] = {export_numbers(qn, SHAPE(4)), export_numbers(qn, SHAPE(5, 4))},
                      *out[2];
            qn_loop_call call = {.body = running,
                                 .arg = &which,
                                 .n = 1,
                                 .n_in = 1,
                                 .n_out = 1,
                                 .states = &in[0],
                                 .sequences = &in[1],
                                 .options = &QN_LOOP_OPTIONS(.reverse = reverse)};
            loop(qn, &call, &out[0], &out[1]);
            compare(qn, 2, in, 2, out);
            compare(qn, 2, in, 1, &out[1]); /* nobody wants the state's end */
            export_close(qn);
        }
}

static void gradients_go_back_through_trips(void) {
    qn_ctx *qn = export_open();
    int which = 0;
    qn_tensor *in[2] = {export_numbers(qn, SHAPE(4)), export_numbers(qn, SHAPE(5, 4))}, *y[2],
              *g[2];
    qn_loop_call call = {.body = running,
                         .arg = &which,
                         .n = 1,
                         .n_in = 1,
                         .n_out = 1,
                         .states = &in[0],
                         .sequences = &in[1]};
    loop(qn, &call, &y[0], &y[1]);
    if (qn_grad(qn_sum(qn_square(y[1]), QN_ALL, false), NULL, 2, in, g)) FAIL("%s", qn_error(qn));
    compare(qn, 2, in, 2, g);
    export_close(qn);
}

/* ---- trips that data count ------------------------------------------------------------------- */

static qn_tensor *below_two(qn_ctx *qn, void *arg, qn_tensor *const *state) {
    (void)qn, (void)arg;
    qn_tensor *most = qn_max(state[0], QN_ALL, false);
    return qn_lt(most, qn_weak(most, 2));
}

static qn_code double_it(qn_ctx *qn, void *arg, qn_tensor *const *state, qn_tensor *const *row,
                         qn_tensor **next, qn_tensor **out) {
    (void)qn, (void)arg, (void)row;
    next[0] = qn_mul(state[0], qn_weak(state[0], 1.5));
    out[0] = qn_neg(next[0]);
    return QN_OK;
}

static void trips_go_on_while_a_test_holds(void) {
    for (int first = 0; first < 2; first++) {
        qn_ctx *qn = export_open();
        qn_tensor *x = export_numbers(qn, SHAPE(7)), *out[2];
        if (first) x = qn_add(x, qn_weak(x, 3)); /* no trip at all */
        if (qn_realize(1, &x)) FAIL("%s", qn_error(qn));
        qn_loop_call call = {.body = double_it,
                             .test = below_two,
                             .n = 1,
                             .n_out = 1,
                             .states = &x,
                             .options = &QN_LOOP_OPTIONS(.trips = 9)};
        loop(qn, &call, &out[0], &out[1]);
        compare(qn, 1, &x, 2, out);
        export_close(qn);
    }
}

static void trips_are_as_many_as_a_number_says(void) {
    for (int64_t most = -1; most < 12; most += 4) {
        qn_ctx *qn = export_open();
        qn_tensor *in[2] = {export_numbers(qn, SHAPE(7)), qn_from(qn, QN_I64, 0, NULL, &most)},
                  *out[2];
        qn_loop_call call = {.body = double_it,
                             .n = 1,
                             .n_out = 1,
                             .states = &in[0],
                             .options = &QN_LOOP_OPTIONS(.trips = 6, .most = in[1])};
        loop(qn, &call, &out[0], &out[1]);
        compare(qn, 2, in, 2, out);
        export_close(qn);
    }
}

static qn_code add_one(qn_ctx *qn, void *arg, qn_tensor **result) {
    (void)qn;
    qn_tensor *x = arg;
    result[0] = qn_exp(x);
    return QN_OK;
}

static qn_code take_one(qn_ctx *qn, void *arg, qn_tensor **result) {
    (void)qn;
    qn_tensor *x = arg;
    result[0] = qn_sin(x);
    return QN_OK;
}

static void one_branch_is_taken(void) {
    qn_ctx *qn = export_open();
    qn_tensor *x = export_numbers(qn, SHAPE(3, 11)), *y = NULL;
    qn_tensor *e = qn_select(qn_select(x, 0, 0), 0, 0);
    if (qn_cond(qn, qn_lt(e, qn_weak(e, 0)), 1, add_one, take_one, x, &y)) FAIL("%s", qn_error(qn));
    compare(qn, 1, &x, 1, &y);
    export_close(qn);
}

/* ---- loops in loops -------------------------------------------------------------------------- */

static qn_code nested(qn_ctx *qn, void *arg, qn_tensor *const *state, qn_tensor *const *row,
                      qn_tensor **next, qn_tensor **out) {
    (void)arg;
    qn_tensor *first[2] = {state[0], row[0]}, *inner[2] = {NULL};
    qn_loop_call call = {
        .body = multiply, .n = 2, .states = first, .options = &QN_LOOP_OPTIONS(.trips = 3)};
    qn_code code = qn_loop_run(qn, &call, inner, NULL);
    next[0] = inner[1];
    out[0] = inner[0];
    return code;
}

static void loops_are_inside_of_loops(void) {
    qn_ctx *qn = export_open();
    qn_tensor *in[2] = {export_numbers(qn, SHAPE(4, 4)), export_numbers(qn, SHAPE(3, 4, 4))},
              *out[2];
    qn_loop_call call = {
        .body = nested, .n = 1, .n_in = 1, .n_out = 1, .states = &in[0], .sequences = &in[1]};
    loop(qn, &call, &out[0], &out[1]);
    compare(qn, 2, in, 2, out);
    export_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    export_begin();
    RUN(state_is_written_over_itself);
    RUN(states_take_turns);
    RUN(captured_weight_is_packed);
    RUN(rows_are_read_and_stacked);
    RUN(gradients_go_back_through_trips);
    RUN(trips_go_on_while_a_test_holds);
    RUN(trips_are_as_many_as_a_number_says);
    RUN(one_branch_is_taken);
    RUN(loops_are_inside_of_loops);
    export_end();
    return test_end();
}
