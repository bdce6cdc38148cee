/* test_reopen.c - what a static graph makes of its inputs follows them, whatever was read before.
 *
 * Graphs are recorded of one array and run with another, after their values were read, realized,
 * kept, assigned or differentiated. What each gives is worked out by hand. */
#include <stdlib.h>

#include "quern.h"
#include "test.h"

static const float first[3] = {1, 2, 3}, other[3] = {10, 20, 30}; /* sums 6, 60 */

static qn_ctx *qn;
static qn_tensor *x, *in;

static void open_all(void) {
    qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    x = qn_from(qn, QN_F32, 1, (int64_t[]){3}, first);
    in = qn_from(qn, QN_F32, 1, (int64_t[]){3}, other);
}

static void close_all(void) {
    if (qn_error_code(qn) != QN_OK) FAIL("%s", qn_error(qn));
    qn_close(qn);
}

static float read_one(qn_tensor *t) {
    float v = -12345;
    CHECK_INT(qn_read(t, &v, sizeof v), QN_OK);
    return v;
}

static qn_tensor *number(float v) {
    return qn_from(qn, QN_F32, 0, NULL, &v);
}

static qn_tensor *sum(qn_tensor *t) {
    return qn_sum(t, QN_ALL, false);
}

/* What the graph of x -> y gives for the other array; y is one number. */
static float run_other(qn_tensor *y) {
    qn_tensor *out = NULL;
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    if (!p || qn_plan_run(p, &in, &out)) return -54321;
    float v = read_one(out);
    qn_plan_free(p);
    return v;
}

static void refused(qn_tensor *of, qn_tensor *y, const char *a, const char *b) {
    CHECK(qn_plan_new(qn, 1, &of, 1, &y) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EGRAPH);
    if (!strstr(qn_error(qn), a) || !strstr(qn_error(qn), b)) FAIL("%s", qn_error(qn));
    qn_clear_error(qn);
}

/* ---- what was computed before ---------------------------------------------------------------- */

static void a_value_that_was_read_follows_its_input(void) {
    open_all();
    qn_tensor *loss = sum(x);
    CHECK(read_one(loss) == 6);
    CHECK(run_other(qn_add(loss, loss)) == 120);
    CHECK(run_other(loss) == 60);
    CHECK(run_other(qn_detach(loss)) == 60);
    close_all();
}

static void a_realized_value_and_its_views_follow(void) {
    open_all();
    qn_tensor *square = qn_mul(x, x), *flat = qn_reshape(square, 2, (int64_t[]){3, 1});
    qn_tensor *back = qn_flip(flat, 0);
    CHECK_INT(qn_realize(3, (qn_tensor *[]){square, flat, back}), QN_OK);
    qn_tensor *firsts = qn_slice(back, 0, 0, 1, 1);
    float v;
    CHECK_INT(qn_read(firsts, &v, sizeof v), QN_OK);
    CHECK(v == 9);
    CHECK(run_other(sum(firsts)) == 900);
    CHECK(run_other(qn_add(sum(qn_mul(flat, back)), sum(square))) == 100 * 900 * 2 + 160000 + 1400);
    close_all();
}

/* Gradients do not pass these. */
static void so_do_integers_and_masks(void) {
    open_all();
    qn_tensor *large = qn_gt(x, number(2.5f)), *whole = qn_cast(x, QN_I32);
    qn_tensor *twice = qn_add(whole, whole), *stopped = qn_detach(x);
    uint8_t mask[3];
    int32_t ints[3];
    float floats[3];
    CHECK_INT(qn_read(large, mask, sizeof mask), QN_OK);
    CHECK_INT(qn_read(twice, ints, sizeof ints), QN_OK);
    CHECK_INT(qn_read(stopped, floats, sizeof floats), QN_OK);
    CHECK(!mask[0] && !mask[1] && mask[2] && ints[2] == 6);
    CHECK(run_other(sum(qn_where(large, x, qn_neg(x)))) == 60);
    CHECK(run_other(qn_cast(sum(twice), QN_F32)) == 120);
    CHECK(run_other(sum(qn_mul(stopped, stopped))) == 1400);
    close_all();
}

static void so_does_what_was_read_on_the_way_of_a_gradient(void) {
    open_all();
    qn_tensor *y = qn_mul(x, x), *loss = sum(qn_mul(y, x)), *g;
    CHECK(read_one(loss) == 36);
    CHECK_INT(qn_realize(1, &y), QN_OK);
    CHECK_INT(qn_grad(loss, NULL, 1, &x, &g), QN_OK);
    float v[3];
    CHECK_INT(qn_read(g, v, sizeof v), QN_OK);
    CHECK(v[0] == 3 && v[1] == 12 && v[2] == 27);
    CHECK(run_other(sum(g)) == 3 * 1400);
    close_all();
}

static void so_while_a_tape_is_open(void) {
    open_all();
    qn_tape *tape = qn_tape_begin(qn);
    qn_scope inner = qn_scope_begin(qn);
    qn_tensor *y = qn_mul(x, x), *loss = qn_keep(sum(y));
    CHECK_INT(qn_realize(2, (qn_tensor *[]){y, loss}), QN_OK);
    qn_scope_end(qn, inner); /* nobody needs y now, but the tape keeps it */
    CHECK(run_other(qn_add(loss, loss)) == 2800);
    CHECK(read_one(loss) == 14);
    qn_tape_end(tape);
    CHECK(run_other(qn_add(loss, loss)) == 2800);
    CHECK(read_one(loss) == 14);
    qn_release(loss);
    close_all();
}

/* Each graph is recorded on what the last one's outputs and requests left behind. */
static void graph_after_graph_is_right(void) {
    open_all();
    qn_tensor *y = x;
    float want = 60;
    for (int i = 0; i < 6; i++) {
        y = qn_add(y, y);
        want *= 2;
        CHECK(read_one(sum(y)) == want / 10);
        if (i % 2) CHECK_INT(qn_realize(1, &y), QN_OK);
        CHECK(run_other(sum(y)) == want);
        CHECK(run_other(sum(qn_neg(y))) == -want);
    }
    close_all();
}

static void values_that_were_read_are_still_there(void) {
    open_all();
    qn_tensor *loss = sum(qn_exp(x)), *y = qn_add(loss, loss);
    qn_stats before, after;
    float v = read_one(loss);
    qn_get_stats(qn, &before, sizeof before);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK(p != NULL);
    refused(qn_neg(x), y, "input 0", "expression");
    CHECK(read_one(loss) == v);
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT((int64_t)after.kernels, (int64_t)before.kernels);
    CHECK_INT((int64_t)after.buffers, (int64_t)before.buffers);
    close_all();
}

static void so_with_sizes_that_vary(void) {
    open_all();
    int64_t t = qn_var(qn, "t", 1, 16);
    float v[5] = {1, 2, 3, 4, 5};
    CHECK_INT(qn_bind(qn, t, 2), QN_OK);
    qn_tensor *a = qn_from(qn, QN_F32, 1, &t, v), *square = qn_mul(a, a), *loss = sum(square);
    qn_tensor *count = qn_sum(qn_cast(a, QN_I32), QN_ALL, false), *out;
    int64_t whole;
    CHECK(read_one(loss) == 5);
    CHECK_INT(qn_read(count, &whole, sizeof whole), QN_OK);
    CHECK_INT(qn_realize(1, &square), QN_OK);
    qn_tensor *y = qn_add(qn_mul(loss, sum(square)), qn_cast(count, QN_F32));
    qn_plan *p = qn_plan_new(qn, 1, &a, 1, &y);
    CHECK(p != NULL);
    for (int64_t n = 5; p && n > 0; n--) {
        qn_tensor *data = qn_from(qn, QN_F32, 1, &n, v);
        float squares = 0, ones = 0;
        for (int i = 0; i < n; i++) squares += v[i] * v[i], ones += v[i];
        CHECK_INT(qn_plan_run(p, &data, &out), QN_OK);
        CHECK(read_one(out) == squares * squares + ones);
    }
    close_all();
}

/* ---- state ----------------------------------------------------------------------------------- */

/* A step's loss was printed before it was added to a total, which each run does. */
static void what_was_read_and_then_assigned_is_part_of_the_graph(void) {
    for (int read = 0; read < 2; read++) {
        open_all();
        qn_tensor *total = number(0), *loss = sum(x);
        if (read) CHECK(read_one(loss) == 6);
        CHECK_INT(qn_assign(total, loss), QN_OK);
        if (read) CHECK(read_one(total) == 6);
        if (read) CHECK_INT(qn_assign(total, loss), QN_OK);
        CHECK(run_other(qn_neg(loss)) == -60);
        CHECK(read_one(total) == 60);
        close_all();
    }
}

/* A version is a value and no function of what it was computed of. */
static void the_value_of_an_assigned_tensor_is_a_parameter(void) {
    open_all();
    qn_tensor *total = number(0);
    CHECK_INT(qn_assign(total, qn_add(total, sum(x))), QN_OK);
    CHECK(read_one(total) == 6);
    qn_tensor *y = qn_add(total, sum(x));
    CHECK(read_one(y) == 12);
    CHECK(run_other(y) == 66);
    CHECK_INT(qn_write(total, &other[1], sizeof(float)), QN_OK);
    CHECK(read_one(qn_add(total, number(0))) == 20);
    close_all();
}

/* An assignment of what follows no input, and is there, is made at once and once. */
static void what_follows_no_input_is_assigned_at_once(void) {
    open_all();
    qn_tensor *w = number(1), *v = qn_exp(number(0)), *twice = qn_add(v, v), *out;
    CHECK(read_one(twice) == 2);
    CHECK_INT(qn_assign(w, twice), QN_OK);
    qn_tensor *y = qn_mul(sum(x), w);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK(read_one(w) == 2);
    CHECK_INT(qn_write(w, &first[2], sizeof(float)), QN_OK);
    CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
    CHECK(read_one(out) == 180 && read_one(w) == 3);
    close_all();
}

/* Inputs and parameters may be asked for themselves: each run gives values of its own, which later
 * writes leave alone. */
static void an_input_or_a_parameter_is_an_output(void) {
    open_all();
    qn_tensor *w = number(7), *asked[4] = {x, w, x, sum(x)}, *out[4], *late[4];
    float v[3];
    qn_plan *p = qn_plan_new(qn, 1, &x, 4, asked);
    CHECK(p != NULL);
    CHECK_INT(qn_plan_run(p, &in, out), QN_OK);
    CHECK_INT(qn_write(w, &other[1], sizeof(float)), QN_OK);
    CHECK_INT(qn_plan_run(p, &x, late), QN_OK);
    CHECK_INT(qn_write(in, first, sizeof first), QN_OK);
    CHECK(read_one(out[1]) == 7 && read_one(out[3]) == 60);
    CHECK(read_one(late[1]) == 20 && read_one(late[3]) == 6);
    for (int i = 0; i <= 2; i += 2) {
        CHECK_INT(qn_read(out[i], v, sizeof v), QN_OK);
        CHECK(!memcmp(v, other, sizeof v));
        CHECK_INT(qn_read(late[i], v, sizeof v), QN_OK);
        CHECK(!memcmp(v, first, sizeof v));
    }
    qn_plan_free(p);
    close_all();
}

/* A state that was never read is a state, whatever it is made by; constants are refused. */
static void a_state_that_was_not_read_goes_on(void) {
    for (int way = 0; way < 4; way++) {
        open_all();
        int64_t three = 3;
        float v[3], sums = way == 0 ? 60 : way == 1 ? 63 : way == 2 ? 63 : 66;
        qn_tensor *b = way == 0   ? qn_variable(qn_zeros(qn, QN_F32, 1, &three))
                       : way == 1 ? qn_variable(qn_ones(qn, QN_F32, 1, &three))
                       : way == 2 ? qn_variable(qn_iota(qn, QN_F32, 1, &three, 0))
                                  : qn_cumsum(qn_ones(qn, QN_F32, 1, &three), 0);
        qn_tensor *y = sum(qn_add(b, x)), *out;
        CHECK_INT(qn_assign(b, qn_add(b, x)), QN_OK);
        qn_plan *p = qn_plan_new(qn, 1, &x, 1, &y);
        CHECK(p != NULL);
        for (int run = 0; run < 3 && p; run++) {
            CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
            CHECK(read_one(out) == sums + 60 * (float)run);
        }
        CHECK_INT(qn_read(b, v, sizeof v), QN_OK);
        CHECK(v[0] + v[1] + v[2] == sums + 120);
        qn_plan_free(p);
        close_all();
    }
}

static void two_states_of_one_value_are_refused(void) {
    open_all();
    qn_tensor *w = number(8), *average = qn_cast(w, QN_F32), *y = qn_mul(w, sum(x));
    CHECK_INT(qn_assign(w, qn_sub(w, number(1))), QN_OK);
    CHECK_INT(qn_assign(average, qn_mul(qn_add(average, w), number(0.5f))), QN_OK);
    refused(x, y, "had one value", "qn_clone");
    close_all();
}

/* What is given away may come back as it is. */
static void a_donated_input_is_an_output(void) {
    open_all();
    qn_tensor *asked[2] = {x, qn_add(x, x)}, *out[2];
    float v[3];
    qn_plan *p = qn_plan_new_with(qn, 1, &x, 2, asked, &QN_PLAN_OPTIONS(.donate = 1));
    CHECK(p != NULL);
    CHECK_INT(qn_plan_run(p, &in, out), QN_OK);
    CHECK_INT(qn_read(out[0], v, sizeof v), QN_OK);
    CHECK(!memcmp(v, other, sizeof v));
    CHECK_INT(qn_read(out[1], v, sizeof v), QN_OK);
    CHECK(v[0] == 20 && v[1] == 40 && v[2] == 60);
    qn_plan_free(p);
    close_all();
}

/* ---- what cannot be known -------------------------------------------------------------------- */

static void history_that_was_cut_is_an_error(void) {
    open_all();
    qn_tensor *early = qn_exp(number(0)), *late;
    CHECK_INT(qn_set(qn, "history", "0"), QN_OK);
    CHECK(read_one(early) == 1);
    x = qn_from(qn, QN_F32, 1, (int64_t[]){3}, first);
    qn_tensor *loss = sum(x), *count = qn_sum(qn_cast(x, QN_I32), QN_ALL, false);
    int64_t whole;
    CHECK(read_one(loss) == 6);
    CHECK_INT(qn_read(count, &whole, sizeof whole), QN_OK);
    CHECK_INT(qn_set_name(loss, "the loss"), QN_OK);
    refused(x, qn_add(loss, loss), "the loss", "history");
    refused(x, qn_add(qn_cast(count, QN_F32), sum(x)), "i64[]", "history");
    CHECK(run_other(qn_mul(sum(x), early)) == 60); /* it is older */
    CHECK_INT(qn_assign(late = number(4), loss), QN_OK);
    refused(x, qn_mul(sum(x), late), "the loss", "history"); /* each run would assign it */
    CHECK(read_one(late) == 6);
    CHECK(run_other(qn_mul(sum(x), late)) == 360); /* a version is what it is */
    close_all();
}

static void what_was_made_of_an_old_value_is_an_error(void) {
    open_all();
    qn_tensor *w = number(2), *loss = qn_mul(sum(x), w);
    CHECK_INT(qn_set_name(w, "the weight"), QN_OK);
    CHECK(read_one(loss) == 12);
    CHECK_INT(qn_write(w, &other[0], sizeof(float)), QN_OK);
    refused(x, qn_add(loss, loss), "the weight", "record it again");
    CHECK(read_one(loss) == 12);
    CHECK(run_other(qn_mul(sum(x), w)) == 600);
    close_all();
}

/* Nobody can change what has no name, so it is a constant of the graph; but what was assigned over
 * is not what its name has come to be. */
static void a_released_value_is_what_it_was(void) {
    open_all();
    qn_scope inner = qn_scope_begin(qn);
    qn_tensor *loss = qn_mul(sum(x), number(2));
    CHECK(read_one(loss) == 12);
    loss = qn_scope_return(qn, inner, loss);
    CHECK(run_other(qn_add(loss, loss)) == 240);
    CHECK(read_one(loss) == 12);
    inner = qn_scope_begin(qn);
    qn_tensor *w = number(2);
    loss = qn_mul(sum(x), w);
    CHECK_INT(qn_write(w, &first[2], sizeof(float)), QN_OK);
    qn_tensor *late = qn_scope_return(qn, inner, qn_add(loss, qn_mul(sum(x), w)));
    CHECK(read_one(late) == 12 + 18);
    refused(x, late, "plan_new", "f32[]");
    close_all();
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void an_input_that_others_share_is_an_error(void) {
    open_all();
    int64_t three = 3;
    qn_tensor *zeros = qn_zeros(qn, QN_F32, 1, &three), *place = qn_iota(qn, QN_F32, 1, &three, 0);
    CHECK_INT(qn_realize(2, (qn_tensor *[]){zeros, place}), QN_OK);
    refused(zeros, sum(qn_add(zeros, number(1))), "input 0", "constant");
    refused(place, sum(qn_add(place, number(1))), "input 0", "constant");
    qn_tensor *both[2] = {x, x}, *y = sum(qn_mul(x, x));
    CHECK(qn_plan_new(qn, 2, both, 1, &y) == NULL);
    CHECK(strstr(qn_error(qn), "inputs 0 and 1") != NULL);
    qn_clear_error(qn);
    close_all();
}

/* A view of a view is made past the first one, unless that lies in memory. */
static void what_was_made_past_an_input_is_an_error(void) {
    open_all();
    qn_tensor *square = qn_mul(x, x), *a = qn_reshape(square, 2, (int64_t[]){3, 1}), *out = NULL;
    qn_tensor *past = sum(qn_mul(qn_reshape(a, 2, (int64_t[]){1, 3}), number(1)));
    CHECK_INT(qn_realize(1, &a), QN_OK);
    refused(a, past, "input 0", "realize it before");
    qn_tensor *y = sum(qn_mul(qn_reshape(a, 2, (int64_t[]){1, 3}), number(2)));
    qn_tensor *data = qn_from(qn, QN_F32, 2, (int64_t[]){3, 1}, other);
    qn_plan *p = qn_plan_new(qn, 1, &a, 1, &y);
    CHECK(p && qn_plan_run(p, &data, &out) == QN_OK);
    CHECK(read_one(out) == 120);
    close_all();
}

/* So where what lies below the input is data. */
static void what_was_made_past_an_input_of_data_is_an_error(void) {
    open_all();
    qn_tensor *a = qn_reshape(x, 2, (int64_t[]){3, 1});
    qn_tensor *past = sum(qn_square(qn_reshape(a, 2, (int64_t[]){1, 3})));
    CHECK_INT(qn_realize(1, &a), QN_OK);
    refused(a, past, "input 0", "realize it before");
    qn_tensor *beside = qn_mul(x, number(3)), *b = qn_exp(x), *y = sum(qn_mul(x, b)), *out = NULL;
    CHECK_INT(qn_realize(1, &b), QN_OK);
    qn_plan *p = qn_plan_new(qn, 1, &b, 1, &y); /* data beside an input that nothing went past */
    CHECK(p != NULL && beside != NULL);
    CHECK_INT(qn_plan_run(p, &x, &out), QN_OK);
    close_all();
}

int main(int argc, char **argv) {
    setenv("QN_CACHE", "off", 0);
    test_begin(argc, argv);
    RUN(a_value_that_was_read_follows_its_input);
    RUN(a_realized_value_and_its_views_follow);
    RUN(so_do_integers_and_masks);
    RUN(so_does_what_was_read_on_the_way_of_a_gradient);
    RUN(so_while_a_tape_is_open);
    RUN(graph_after_graph_is_right);
    RUN(values_that_were_read_are_still_there);
    RUN(so_with_sizes_that_vary);
    RUN(what_was_read_and_then_assigned_is_part_of_the_graph);
    RUN(the_value_of_an_assigned_tensor_is_a_parameter);
    RUN(what_follows_no_input_is_assigned_at_once);
    RUN(an_input_or_a_parameter_is_an_output);
    RUN(a_state_that_was_not_read_goes_on);
    RUN(two_states_of_one_value_are_refused);
    RUN(a_donated_input_is_an_output);
    RUN(history_that_was_cut_is_an_error);
    RUN(what_was_made_of_an_old_value_is_an_error);
    RUN(a_released_value_is_what_it_was);
    RUN(an_input_that_others_share_is_an_error);
    RUN(what_was_made_past_an_input_is_an_error);
    RUN(what_was_made_past_an_input_of_data_is_an_error);
    return test_end();
}
