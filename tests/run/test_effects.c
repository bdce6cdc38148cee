/* test_effects.c - a static graph makes the assignments that were recorded with it, or is an error.
 *
 * A step is recorded of one array, captured, and run with another. Whatever was assigned, through
 * whatever view, and whatever was read, realized or kept on the way, the state is then what the
 * same step gives that is recorded with the other array, or there was an error: never another
 * number. The oracle is that: the step alone, without a static graph. */
#include <stdlib.h>

#include "quern.h"
#include "quern_nn.h"
#include "test.h"

enum { N = 4 };
static const float first[N] = {1, 2, 3, 4}, other[N] = {10, -20, 30, 50}, start[N] = {7, 8, 9, 6},
                   start2[N] = {-3, 5, 2, 11}, start3[N] = {40, 41, 42, 43};

static qn_ctx *qn;
static qn_tensor *x, *state, *second, *third, *data, *y;
static qn_optimizer *optimizer;
static int right, refused;

static qn_tensor *vector(const float *v) {
    return qn_from(qn, QN_F32, 1, (int64_t[]){N}, v);
}

static qn_tensor *twice(qn_tensor *t) {
    return qn_add(t, t);
}

/* ---- what is assigned ------------------------------------------------------------------------ */

static void the_input(void) {
    CHECK_INT(qn_assign(state, x), QN_OK);
}

static void a_view_of_the_input(void) {
    CHECK_INT(qn_assign(state, qn_flip(x, 0)), QN_OK);
}

static void a_copy_of_the_input(void) {
    CHECK_INT(qn_assign(state, qn_detach(x)), QN_OK);
}

static void an_expression(void) {
    CHECK_INT(qn_assign(state, qn_add(twice(x), state)), QN_OK);
}

static void what_the_output_is(void) {
    CHECK_INT(qn_assign(state, y), QN_OK);
}

static void the_input_to_a_part(void) {
    qn_tensor *part = qn_slice(state, 0, 1, 3, 1);
    CHECK_INT(qn_assign(part, qn_slice(x, 0, 0, 2, 1)), QN_OK);
}

static void the_input_to_the_whole_turned(void) {
    CHECK_INT(qn_assign(qn_flip(state, 0), x), QN_OK);
}

static void the_input_updated(void) {
    qn_tensor *some = qn_slice(x, 0, 1, 3, 1);
    CHECK_INT(qn_assign(state, qn_update_slice(state, some, (int64_t[]){2})), QN_OK);
}

static void both_to_one(void) {
    CHECK_INT(qn_assign(state, x), QN_OK);
    CHECK_INT(qn_assign(state, qn_mul(state, twice(x))), QN_OK);
}

static void the_input_and_then_another(void) {
    CHECK_INT(qn_assign(state, twice(x)), QN_OK);
    CHECK_INT(qn_assign(state, x), QN_OK);
}

/* What follows no input but itself: each run is a step further. */
static void its_own_successor(void) {
    CHECK_INT(qn_assign(state, qn_mul(state, vector(start))), QN_OK);
}

static void its_successor_that_was_read(void) {
    float v[N];
    qn_tensor *next = twice(state);
    CHECK_INT(qn_read(next, v, sizeof v), QN_OK);
    CHECK_INT(qn_assign(state, next), QN_OK);
}

static void what_was_read_of_the_input(void) {
    float v[N];
    qn_tensor *next = twice(x);
    CHECK_INT(qn_read(next, v, sizeof v), QN_OK);
    CHECK_INT(qn_assign(state, next), QN_OK);
}

static void an_optimizers_step(void) {
    CHECK_INT(qn_optimizer_step(optimizer, qn_sum(qn_mul(state, qn_mul(x, x)), QN_ALL, false)),
              QN_OK);
}

/* ---- what lies there when it is assigned, and is another value in each run ------------------- */

static void two_crosswise(void) {
    qn_tensor *old = qn_detach(state);
    CHECK_INT(qn_assign(state, second), QN_OK);
    CHECK_INT(qn_assign(second, old), QN_OK);
}

static void two_crosswise_by_a_copy(void) {
    qn_tensor *old = qn_clone(state);
    CHECK_INT(qn_assign(state, second), QN_OK);
    CHECK_INT(qn_assign(second, old), QN_OK);
}

/* One after the other: both are what the second was. */
static void each_the_other(void) {
    CHECK_INT(qn_assign(state, second), QN_OK);
    CHECK_INT(qn_assign(second, state), QN_OK);
}

static void two_crosswise_and_back(void) {
    two_crosswise();
    two_crosswise();
}

static void three_in_turn(void) {
    qn_tensor *old = qn_detach(state);
    CHECK_INT(qn_assign(state, second), QN_OK);
    CHECK_INT(qn_assign(second, third), QN_OK);
    CHECK_INT(qn_assign(third, old), QN_OK);
}

static void three_the_other_way(void) {
    qn_tensor *old = qn_detach(third);
    CHECK_INT(qn_assign(third, second), QN_OK);
    CHECK_INT(qn_assign(second, state), QN_OK);
    CHECK_INT(qn_assign(state, old), QN_OK);
}

static void two_crosswise_turned(void) {
    qn_tensor *old = qn_detach(state);
    CHECK_INT(qn_assign(state, qn_flip(second, 0)), QN_OK);
    CHECK_INT(qn_assign(second, qn_flip(old, 0)), QN_OK);
}

static void parts_of_two_crosswise(void) {
    qn_tensor *a = qn_slice(state, 0, 0, 2, 1), *b = qn_slice(second, 0, 2, 4, 1);
    qn_tensor *old = qn_detach(a);
    CHECK_INT(qn_assign(a, b), QN_OK);
    CHECK_INT(qn_assign(b, old), QN_OK);
}

static void halves_of_one_crosswise(void) {
    qn_tensor *old = qn_clone(qn_slice(state, 0, 0, 2, 1));
    CHECK_INT(qn_assign(qn_slice(state, 0, 0, 2, 1), qn_slice(state, 0, 2, 4, 1)), QN_OK);
    CHECK_INT(qn_assign(qn_slice(state, 0, 2, 4, 1), old), QN_OK);
}

static void itself(void) {
    CHECK_INT(qn_assign(state, state), QN_OK);
    CHECK_INT(qn_assign(second, qn_detach(second)), QN_OK);
}

static void sum_and_difference(void) {
    qn_tensor *sum = qn_add(state, second), *difference = qn_sub(state, second);
    CHECK_INT(qn_assign(state, sum), QN_OK);
    CHECK_INT(qn_assign(second, difference), QN_OK);
}

static void what_changes_behind(void) {
    CHECK_INT(qn_assign(state, second), QN_OK);
    CHECK_INT(qn_assign(second, qn_add(second, second)), QN_OK);
}

/* A row of values that move up by one. */
static void data_by_way_of_others(void) {
    CHECK_INT(qn_assign(state, second), QN_OK);
    CHECK_INT(qn_assign(second, third), QN_OK);
    CHECK_INT(qn_assign(third, data), QN_OK);
}

static void the_input_by_way_of_others(void) {
    CHECK_INT(qn_assign(state, second), QN_OK);
    CHECK_INT(qn_assign(second, third), QN_OK);
    CHECK_INT(qn_assign(third, x), QN_OK);
}

#define ASSIGNED(X)                                                                                \
    X(the_input)                                                                                   \
    X(a_view_of_the_input)                                                                         \
    X(a_copy_of_the_input)                                                                         \
    X(an_expression)                                                                               \
    X(what_the_output_is)                                                                          \
    X(the_input_to_a_part)                                                                         \
    X(the_input_to_the_whole_turned)                                                               \
    X(the_input_updated)                                                                           \
    X(both_to_one)                                                                                 \
    X(the_input_and_then_another)                                                                  \
    X(its_own_successor)                                                                           \
    X(its_successor_that_was_read)                                                                 \
    X(what_was_read_of_the_input)                                                                  \
    X(an_optimizers_step)                                                                          \
    X(two_crosswise)                                                                               \
    X(two_crosswise_by_a_copy)                                                                     \
    X(each_the_other)                                                                              \
    X(two_crosswise_and_back)                                                                      \
    X(three_in_turn)                                                                               \
    X(three_the_other_way)                                                                         \
    X(two_crosswise_turned)                                                                        \
    X(parts_of_two_crosswise)                                                                      \
    X(halves_of_one_crosswise)                                                                     \
    X(itself)                                                                                      \
    X(sum_and_difference)                                                                          \
    X(what_changes_behind)                                                                         \
    X(data_by_way_of_others)                                                                       \
    X(the_input_by_way_of_others)
/* ---- what happens between recording and capturing -------------------------------------------- */

static qn_code nothing(void) {
    return QN_OK;
}

static qn_code the_output_is_read(void) {
    float v[N];
    return qn_read(y, v, sizeof v);
}

static qn_code the_state_is_read(void) {
    float v[N];
    return qn_read(state, v, sizeof v);
}

static qn_code something_else_is_read(void) {
    float v[N];
    return qn_read(twice(vector(start)), v, sizeof v);
}

static qn_code both_are_realized(void) {
    return qn_realize(2, (qn_tensor *[]){y, state});
}

#define BETWEEN(X)                                                                                 \
    X(nothing)                                                                                     \
    X(the_output_is_read)                                                                          \
    X(the_state_is_read)                                                                           \
    X(something_else_is_read)                                                                      \
    X(both_are_realized)

/* ---- every one of each ----------------------------------------------------------------------- */

static void open_step(const float *given) {
    qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    x = vector(given);
    state = vector(start);
    second = vector(start2);
    third = vector(start3);
    data = vector(first);
    CHECK_INT(qn_set_name(state, "state"), QN_OK);
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 0.25;
    o.momentum = 0.5;
    optimizer = qn_optimizer_new(qn, 1, &state, &o);
}

static void shut(void) {
    qn_optimizer_free(optimizer);
    qn_close(qn);
}

static void close_step(void) {
    if (qn_error_code(qn) != QN_OK) FAIL("%s", qn_error(qn));
    shut();
}

/* The values of the output and the states. */
enum { VALUES = 4, RUNS = 3 };

static void read_all(qn_tensor *out, float (*v)[N]) {
    qn_tensor *t[VALUES] = {out, state, second, third};
    for (int i = 0; i < VALUES; i++) CHECK_INT(qn_read(t[i], v[i], sizeof v[i]), QN_OK);
}

/* What the last of the steps computes, and the states after it, of the other data, without a static
 * graph. */
static void expect(qn_tensor *(*output)(void), void (*assign)(void), float (*want)[N]) {
    open_step(other);
    for (int i = 0; i < RUNS; i++) {
        y = output();
        assign();
    }
    read_all(y, want);
    close_step();
}

typedef struct step {
    const char *name;
    qn_tensor *(*output)(void);
    void (*assign)(void);
    qn_code (*happens)(void);
} step;

/* As many runs of the captured step on the states it had; the first may have been spent. */
static void captured(const step *s, int tape) {
    float want[VALUES][N], got[VALUES][N];
    qn_tensor *out = NULL;
    expect(s->output, s->assign, want);
    open_step(first);
    qn_tensor *in = vector(other);
    qn_tape *t = tape ? qn_tape_begin(qn) : NULL;
    y = s->output();
    s->assign();
    CHECK_INT(s->happens(), QN_OK);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    qn_tape_end(t);
    if (!p) {
        CHECK_INT(qn_error_code(qn), QN_EGRAPH);
        if (s->happens == nothing) FAIL("%s: %s", s->name, qn_error(qn));
        refused++;
        shut();
        return;
    }
    CHECK_INT(qn_write(state, start, sizeof start), QN_OK);
    CHECK_INT(qn_write(second, start2, sizeof start2), QN_OK);
    CHECK_INT(qn_write(third, start3, sizeof start3), QN_OK);
    for (int i = 0; i < RUNS; i++) CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
    read_all(out, got);
    for (int v = 0; v < VALUES; v++)
        for (int i = 0; i < N; i++)
            if (got[v][i] != want[v][i])
                FAIL("%s: element %d of value %d is %g, not %g", s->name, i, v, got[v][i],
                     want[v][i]);
    right++;
    close_step();
}

static qn_tensor *of_the_input(void) {
    return qn_neg(x);
}

static qn_tensor *of_what_is_replaced(void) {
    return qn_add(qn_sub(x, twice(state)), second);
}

#define OUTPUTS(X)                                                                                 \
    X(of_the_input)                                                                                \
    X(of_what_is_replaced)

static void all_of_them(int tape) {
    static const struct {
        const char *name;
        qn_tensor *(*output)(void);
    } outputs[] = {
#define X(name) {#name, name},
        OUTPUTS(X)
#undef X
    };
    static const struct {
        const char *name;
        void (*assign)(void);
    } assigned[] = {
#define X(name) {#name, name},
        ASSIGNED(X)
#undef X
    };
    static const struct {
        const char *name;
        qn_code (*happens)(void);
    } between[] = {
#define X(name) {#name, name},
        BETWEEN(X)
#undef X
    };
    refused = right = 0;
    for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++)
        for (size_t a = 0; a < sizeof assigned / sizeof *assigned; a++)
            for (size_t b = 0; b < sizeof between / sizeof *between; b++) {
                char name[100];
                snprintf(name, sizeof name, "%s, %s, %s", outputs[o].name, assigned[a].name,
                         between[b].name);
                captured(&(step){name, outputs[o].output, assigned[a].assign, between[b].happens},
                         tape);
            }
    printf("%d right, %d refused\n", right, refused);
    CHECK(right >= (int)(2 * sizeof assigned / sizeof *assigned));
}

static void a_graph_makes_its_assignments_or_is_an_error(void) {
    all_of_them(0);
}

static void so_while_a_tape_is_open(void) {
    all_of_them(1);
}

/* ---- the error, and what is none ------------------------------------------------------------ */

static void the_error_names_the_tensor_and_the_remedy(void) {
    open_step(first);
    y = qn_neg(x);
    the_input();
    CHECK_INT(the_output_is_read(), QN_OK);
    CHECK(!qn_plan_new(qn, 1, &x, 1, &y));
    CHECK_INT(qn_error_code(qn), QN_EGRAPH);
    CHECK(strstr(qn_error(qn), "\"state\"") && strstr(qn_error(qn), "record it again"));
    qn_clear_error(qn);
    the_input();
    CHECK(qn_plan_new(qn, 1, &x, 1, &y) != NULL);
    close_step();
}

/* Steps without a static graph, and then one that only reads what they made. */
static void what_was_trained_before_is_a_parameter(void) {
    float got[N];
    open_step(first);
    qn_tensor *in = vector(other), *out = NULL;
    for (int i = 0; i < 3; i++) {
        an_optimizers_step();
        CHECK_INT(the_state_is_read(), QN_OK);
    }
    y = qn_sub(state, state);
    y = qn_add(y, x);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
    CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
    for (int i = 0; i < N; i++) CHECK(got[i] == other[i]);
    close_step();
}

/* Data that is no input, and what is written, are the state's at once. */
static void what_follows_no_input_is_no_part_of_the_graph(void) {
    float got[N], piece[2] = {-1, -2};
    open_step(first);
    qn_tensor *in = vector(other), *out = NULL;
    y = qn_neg(x);
    CHECK_INT(qn_write(second, start, sizeof start), QN_OK);
    CHECK_INT(qn_assign(state, vector(other)), QN_OK);
    CHECK_INT(qn_write(qn_slice(second, 0, 1, 3, 1), piece, sizeof piece), QN_OK);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK_INT(qn_read(state, got, sizeof got), QN_OK);
    CHECK(got[0] == other[0] && got[3] == other[3]);
    CHECK_INT(qn_read(second, got, sizeof got), QN_OK);
    CHECK(got[0] == start[0] && got[1] == -1 && got[2] == -2 && got[3] == start[3]);
    CHECK_INT(qn_write(second, start, sizeof start), QN_OK);
    CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
    CHECK_INT(qn_read(second, got, sizeof got), QN_OK);
    CHECK(got[1] == start[1]);
    close_step();
}

/* But where the graph uses what they replace: it does so in the first run alone. */
static void data_that_replaces_what_is_used_is_a_part_of_it(void) {
    float got[N];
    open_step(first);
    qn_tensor *in = vector(other), *out = NULL;
    y = qn_add(x, state);
    CHECK_INT(qn_assign(state, data), QN_OK);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    for (int run = 0; run < 3; run++) {
        CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
        CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
        for (int i = 0; i < N; i++) CHECK(got[i] == other[i] + (run ? first[i] : start[i]));
    }
    close_step();
}

/* A constant is every other use of its value, too: an expression of it could not follow it. */
static void a_constant_that_is_assigned_to_is_an_error(void) {
    open_step(first);
    qn_tensor *total = qn_zeros(qn, QN_F32, 1, (int64_t[]){N});
    y = qn_neg(x);
    CHECK_INT(qn_assign(total, qn_add(total, x)), QN_OK);
    CHECK(!qn_plan_new(qn, 1, &x, 1, &y));
    CHECK_INT(qn_error_code(qn), QN_EGRAPH);
    CHECK(strstr(qn_error(qn), "constant") && strstr(qn_error(qn), "qn_from"));
    shut();
}

/* What is pending is made once, before; what was made after the output was recorded is no error. */
static void a_graph_without_assignments(void) {
    for (int read_between = 0; read_between < 2; read_between++) {
        float got[N], was[N], twice[N];
        open_step(first);
        y = qn_neg(x);
        CHECK_INT(qn_assign(state, qn_add(state, state)), QN_OK);
        if (read_between) CHECK_INT(qn_read(state, got, sizeof got), QN_OK);
        CHECK_INT(qn_assign(state, qn_add(state, x)), QN_OK);
        if (read_between) CHECK_INT(qn_read(state, got, sizeof got), QN_OK);
        qn_plan *p = qn_plan_new_with(qn, 1, &x, 1, &y, &QN_PLAN_OPTIONS(.no_assignments = true));
        CHECK(p != NULL);
        CHECK_INT(qn_read(state, was, sizeof was), QN_OK);
        qn_tensor *in = vector(other), *out = NULL;
        for (int i = 0; i < 2; i++) {
            CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
            CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
            for (int k = 0; k < N; k++) CHECK(got[k] == -other[k]);
        }
        CHECK_INT(qn_read(state, twice, sizeof twice), QN_OK);
        CHECK(!memcmp(was, twice, sizeof was));
        for (int k = 0; k < N; k++) CHECK(was[k] == start[k] + start[k] + first[k]);
        close_step();
    }
}

/* Data, too, is what each run assigns; but what is written is data of the moment. */
static void a_graph_with_all_assignments(void) {
    float got[N];
    open_step(first);
    y = qn_neg(x);
    CHECK_INT(qn_assign(state, data), QN_OK);
    CHECK_INT(qn_write(second, other, sizeof other), QN_OK);
    qn_plan *p = qn_plan_new_with(qn, 1, &x, 1, &y, &QN_PLAN_OPTIONS(.all_assignments = true));
    CHECK(p != NULL);
    CHECK_INT(qn_read(second, got, sizeof got), QN_OK);
    CHECK(!memcmp(got, other, sizeof got));
    CHECK_INT(qn_write(state, start, sizeof start), QN_OK);
    CHECK_INT(qn_write(second, start2, sizeof start2), QN_OK);
    qn_tensor *in = vector(other), *out = NULL;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
        CHECK_INT(qn_read(state, got, sizeof got), QN_OK);
        CHECK(!memcmp(got, first, sizeof got));
        CHECK_INT(qn_read(second, got, sizeof got), QN_OK);
        CHECK(!memcmp(got, start2, sizeof got));
        CHECK_INT(qn_write(data, i ? start : first, sizeof first), QN_OK);
    }
    close_step();
}

/* What was written to a part of a tensor, before the graph was recorded or behind it, is made: no
 * run makes it again, and none loses it. */
static void what_was_written_to_a_part_stays_written(void) {
    static const float part[] = {50, 60};
    float got[N], want[N], was[N];
    for (int all = 0; all < 2; all++)
        for (int late = 0; late < 2; late++) {
            open_step(first);
            memcpy(want, start, sizeof want);
            memcpy(want + 1, part, sizeof part);
            if (late) y = qn_add(x, state);
            CHECK_INT(qn_write(qn_slice(state, 0, 1, 3, 1), part, sizeof part), QN_OK);
            if (!late) y = qn_add(x, state);
            qn_plan *p =
                qn_plan_new_with(qn, 1, &x, 1, &y, &QN_PLAN_OPTIONS(.all_assignments = all != 0));
            CHECK_INT(p != NULL, !late); /* else its outputs want what there is no more */
            CHECK_INT(qn_read(state, got, sizeof got), QN_OK);
            CHECK(!memcmp(got, want, sizeof got));
            qn_tensor *out = NULL;
            for (int run = 0; p && run < 2; run++) {
                CHECK_INT(qn_read(state, was, sizeof was), QN_OK);
                CHECK_INT(qn_plan_run(p, &x, &out), QN_OK);
                CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
                for (int k = 0; k < N; k++) CHECK(got[k] == first[k] + was[k]);
                CHECK_INT(qn_read(state, got, sizeof got), QN_OK);
                CHECK(!memcmp(got, was, sizeof got));
                CHECK_INT(qn_write(state, start2, sizeof start2), QN_OK);
            }
            qn_clear_error(qn);
            close_step();
        }
}

static void all_assignments_and_none_are_an_error(void) {
    open_step(first);
    y = qn_neg(x);
    qn_plan_options o = QN_PLAN_OPTIONS(.no_assignments = true, .all_assignments = true);
    CHECK(!qn_plan_new_with(qn, 1, &x, 1, &y, &o));
    CHECK_INT(qn_error_code(qn), QN_EARG);
    CHECK(strstr(qn_error(qn), "no_assignments and all_assignments"));
    shut();
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_graph_makes_its_assignments_or_is_an_error);
    RUN(so_while_a_tape_is_open);
    RUN(the_error_names_the_tensor_and_the_remedy);
    RUN(what_was_trained_before_is_a_parameter);
    RUN(what_follows_no_input_is_no_part_of_the_graph);
    RUN(data_that_replaces_what_is_used_is_a_part_of_it);
    RUN(a_constant_that_is_assigned_to_is_an_error);
    RUN(a_graph_without_assignments);
    RUN(a_graph_with_all_assignments);
    RUN(what_was_written_to_a_part_stays_written);
    RUN(all_assignments_and_none_are_an_error);
    return test_end();
}
