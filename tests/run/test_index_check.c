/* test_index_check.c - indices and labels outside their axis: an error where they are known, and
 * with QN_CHECK wherever they are computed, on every device, in a read and in a compiled graph. */
#include "quern.h"
#include "test.h"

#define LENGTH(a)  ((int)(sizeof(a) / sizeof *(a)))
#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static qn_ctx *qn;

static const char *error(void) {
    const char *text = qn_error(qn);
    const char *said = strstr(text, ": index ");
    return said || !*text ? text : "another error";
}

/* An index of five indices 0, last, 1, 0, 2, data or computed from it. */
static qn_tensor *indices(int64_t last, bool computed) {
    const int64_t v[5] = {0, last, 1, 0, 2};
    int64_t less[5];
    for (int i = 0; i < 5; i++) less[i] = v[i] - 7;
    qn_tensor *x = qn_from(qn, QN_I64, 1, SHAPE(5), computed ? less : v);
    return computed ? qn_add(x, qn_like(x, 7)) : x;
}

static qn_tensor *values(void) {
    return qn_from(qn, QN_F32, 1, SHAPE(3), (const float[]){0.5f, -1, 2});
}

static qn_tensor *use_gather(qn_tensor *x, qn_tensor *i) {
    return qn_gather(qn_reshape(x, 1, SHAPE(3)), i, 0);
}
static qn_tensor *use_take(qn_tensor *x, qn_tensor *i) {
    return qn_take(qn_reshape(x, 2, SHAPE(3, 1)), i, 0);
}
static qn_tensor *use_embedding(qn_tensor *x, qn_tensor *i) {
    return qn_embedding(qn_reshape(x, 2, SHAPE(3, 1)), i);
}
static qn_tensor *use_scatter(qn_tensor *x, qn_tensor *i) {
    qn_tensor *src = qn_cast(i, QN_F32);
    return qn_scatter(qn_reshape(x, 1, SHAPE(3)), i, src, 0, QN_COMBINE_SUM);
}
static qn_tensor *use_index_add(qn_tensor *x, qn_tensor *i) {
    return qn_index_add(qn_reshape(x, 1, SHAPE(3)), i, qn_cast(i, QN_F32), 0);
}
static qn_tensor *use_one_hot(qn_tensor *x, qn_tensor *i) {
    (void)x;
    return qn_one_hot(i, 3, QN_F32);
}
static qn_tensor *use_cross_entropy(qn_tensor *x, qn_tensor *i) {
    return qn_cross_entropy(qn_expand(qn_reshape(x, 2, SHAPE(1, 3)), 2, SHAPE(5, 3)), i);
}
static qn_tensor *use_nll_loss(qn_tensor *x, qn_tensor *i) {
    return qn_nll_loss(qn_expand(qn_reshape(x, 2, SHAPE(1, 3)), 2, SHAPE(5, 3)), i);
}
static qn_tensor *use_nll_loss_with(qn_tensor *x, qn_tensor *i) {
    x = qn_expand(qn_reshape(x, 2, SHAPE(1, 3)), 2, SHAPE(5, 3));
    return qn_nll_loss_with(x, i, &QN_CROSS_ENTROPY_OPTIONS(.weight = values()));
}
static qn_tensor *use_ctc_loss(qn_tensor *x, qn_tensor *i) {
    x = qn_expand(qn_reshape(x, 3, SHAPE(1, 1, 3)), 3, SHAPE(7, 1, 3));
    return qn_ctc_loss(x, qn_reshape(i, 2, SHAPE(1, 5)), NULL, NULL, 0, QN_REDUCE_SUM);
}
static qn_tensor *use_index_put(qn_tensor *x, qn_tensor *i) {
    x = qn_expand(qn_reshape(x, 2, SHAPE(3, 1)), 2, SHAPE(3, 4));
    qn_index_item item[1] = {QN_AT_PLACES(i)};
    return qn_index_put(x, 1, item, qn_ones(qn, QN_F32, 0, NULL), QN_COMBINE_SET);
}
static qn_tensor *two_arrays(qn_tensor *x, qn_tensor *i, bool put) {
    x = qn_expand(qn_reshape(x, 3, SHAPE(1, 3, 1)), 3, SHAPE(9, 3, 2));
    qn_index_item item[3] = {QN_AT_PLACES(qn_full(qn, QN_I64, 0, NULL, 8)), QN_AT_PLACES(i),
                             QN_EVERY};
    return put ? qn_index_put(x, 3, item, qn_ones(qn, QN_F32, 0, NULL), QN_COMBINE_SET)
               : qn_index(x, 3, item);
}
static qn_tensor *use_index(qn_tensor *x, qn_tensor *i) {
    return two_arrays(x, i, false);
}
static qn_tensor *use_index_put_by_two(qn_tensor *x, qn_tensor *i) {
    return two_arrays(x, i, true);
}

static const struct {
    const char *name;
    qn_tensor *(*use)(qn_tensor *, qn_tensor *);
    int64_t least; /* that is inside */
} uses[] = {{"gather", use_gather, -3},
            {"take", use_take, -3},
            {"embedding", use_embedding, 0},
            {"scatter", use_scatter, -3},
            {"index_add", use_index_add, -3},
            {"one_hot", use_one_hot, 0},
            {"cross_entropy", use_cross_entropy, 0},
            {"nll_loss", use_nll_loss, 0},
            {"nll_loss_with", use_nll_loss_with, 0},
            {"ctc_loss", use_ctc_loss, 0},
            {"index_put", use_index_put, -3},
            {"index", use_index, -3},
            {"index_put", use_index_put_by_two, -3}};

/* ---- when the graph is made ----------------------------------------------------------------- */

static void known_indices_outside_are_errors_at_once(void) {
    qn = qn_open(&QN_OPTIONS(.device = "ref"));
    for (int k = 0; k < LENGTH(uses); k++) {
        char want[100];
        qn_tensor *i = qn_full(qn, QN_I32, 1, SHAPE(5), 3), *x = values();
        CHECK(uses[k].use(x, i) == NULL);
        snprintf(want, sizeof want, "%s: index 3 of an axis of 3", uses[k].name);
        CHECK_STR(qn_error(qn), want);
        qn_clear_error(qn);
        int64_t least = uses[k].least;
        CHECK(uses[k].use(x, qn_full_int(qn, QN_I32, 1, SHAPE(5), least - 1)) == NULL);
        snprintf(want, sizeof want, "%s: index %lld of an axis of 3", uses[k].name,
                 (long long)least - 1);
        CHECK_STR(qn_error(qn), want);
        qn_clear_error(qn);
        CHECK(uses[k].use(x, qn_full_int(qn, QN_I32, 1, SHAPE(5), least)) != NULL);
        CHECK(uses[k].use(x, qn_full(qn, QN_I32, 1, SHAPE(5), 2)) != NULL);
    }
    CHECK(qn_one_hot(qn_iota(qn, QN_I64, 1, SHAPE(4), 0), 3, QN_F32) == NULL);
    CHECK_STR(qn_error(qn), "one_hot: index 3 of an axis of 3");
    qn_close(qn);
}

/* ---- when it is run ------------------------------------------------------------------------- */

static int read_all(qn_tensor *y) {
    float out[64];
    return qn_read(y, out, sizeof out);
}

static void check_use(int k, int64_t last, bool computed, bool checked) {
    char want[100];
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *y = uses[k].use(values(), indices(last, computed));
    snprintf(want, sizeof want, "%s: index %lld of an axis of 3", uses[k].name, (long long)last);
    bool bad = checked && (last < uses[k].least || last > 2);
    int code = read_all(y);
    CHECK_INT(code, bad ? QN_ERANGE : QN_OK);
    CHECK_STR(error(), bad ? want : "");
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

static void check_device(const char *device) {
    static const int64_t last[] = {2, 3, -1, -3, -4, INT64_MAX, INT64_MIN + 8, (int64_t)1 << 32};
    for (int checked = 0; checked < 2; checked++) {
        setenv("QN_CHECK", checked ? "1" : "0", 1);
        qn = qn_open(&QN_OPTIONS(.device = device));
        for (int k = 0; k < LENGTH(uses); k++)
            for (int i = 0; i < LENGTH(last); i++)
                for (int computed = 0; computed < 2; computed++)
                    check_use(k, last[i], computed, checked);
        qn_close(qn);
    }
    unsetenv("QN_CHECK");
}

static void indices_are_checked_on_cpu(void) {
    check_device("cpu");
}

static void indices_are_checked_on_ref(void) {
    check_device("ref");
}

static void indices_are_checked_through_the_c_compiler(void) {
    setenv("QN_CPU", "cc", 1);
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    check_use(0, 3, true, true);
    check_use(6, -1, false, true);
    qn_close(qn);
    unsetenv("QN_CPU");
    unsetenv("QN_CHECK");
}

static void indices_are_checked_on_opencl(void) {
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(&QN_OPTIONS(.device = "opencl"));
    if (!qn) {
        SKIP("no OpenCL device here");
    } else {
        check_use(0, 3, true, true);
        check_use(6, -1, false, true);
        qn_close(qn);
    }
    unsetenv("QN_CHECK");
}

/* null has no values to check: it plans the checks and runs nothing. */
static void null_plans_and_finds_nothing(void) {
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(&QN_OPTIONS(.device = "null"));
    CHECK_INT(read_all(use_gather(values(), indices(9, true))), QN_OK);
    qn_close(qn);
    unsetenv("QN_CHECK");
}

static void compiled_graphs_check_each_run(void) {
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(NULL);
    qn_tensor *i = indices(2, false), *out = NULL, *w = values();
    qn_tensor *y = qn_embedding(qn_reshape(w, 2, SHAPE(3, 1)), i);
    qn_assign(w, qn_mul(w, qn_like(w, 2)));
    qn_plan *p = qn_plan_new(qn, 1, &i, 1, &y);
    CHECK(p != NULL);
    qn_tensor *bad = indices(5, false), *good = indices(1, false);
    float v[3];
    CHECK_INT(qn_plan_run(p, &good, &out), QN_OK);
    CHECK_INT(qn_plan_run(p, &bad, &out), QN_ERANGE);
    CHECK_STR(qn_error(qn), "embedding: index 5 of an axis of 3");
    qn_clear_error(qn);
    CHECK_INT(qn_read(w, v, sizeof v), QN_OK);
    CHECK(v[2] == 4); /* of two runs one counts */
    CHECK_INT(qn_plan_run(p, &good, &out), QN_OK);
    qn_plan_free(p);
    qn_close(qn);
    unsetenv("QN_CHECK");
}

/* What fails has changed nothing, and gradients are checked by the same marks. */
static void a_failed_run_gives_no_value(void) {
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(NULL);
    qn_tape *tape = qn_tape_begin(qn);
    qn_tensor *w = qn_reshape(values(), 2, SHAPE(3, 1)), *g, *state = values();
    qn_tensor *y = qn_embedding(w, indices(-4, true));
    CHECK_INT(qn_grad(y, NULL, 1, &w, &g), QN_OK);
    CHECK_INT(read_all(g), QN_ERANGE);
    CHECK_STR(qn_error(qn), "embedding: index -4 of an axis of 3");
    qn_clear_error(qn);
    qn_tape_end(tape);
    qn_assign(state, qn_add(state, qn_gather(state, qn_slice(indices(8, true), 0, 0, 3, 1), 0)));
    CHECK_INT(read_all(state), QN_ERANGE);
    qn_clear_error(qn);
    qn_close(qn);
    unsetenv("QN_CHECK");
}

/* The value of index_put or gather with an index outside, computed or known: then it is NULL. */
static qn_tensor *bad_value(qn_tensor *x, bool put, bool known) {
    qn_tensor *i =
        known ? qn_full_int(qn, QN_I64, 1, SHAPE(3), 5) : qn_slice(indices(5, true), 0, 0, 3, 1);
    qn_index_item item[1] = {QN_AT_PLACES(i)};
    return put ? qn_index_put(x, 1, item, qn_ones(qn, QN_F32, 0, NULL), QN_COMBINE_SET)
               : qn_gather(x, i, 0);
}

static void expect_values(qn_tensor *t, const float *want) {
    float v[3] = {0};
    CHECK_INT(qn_read(t, v, sizeof v), QN_OK);
    for (int i = 0; i < 3; i++) CHECK_NEAR((double)v[i], (double)want[i], 0, 0);
}

/* Nothing is lost: what was recorded before has the old value, and the target takes another. */
static void replace_bad_value(bool put, bool written) {
    static const float old_square[3] = {0.25f, 1, 4}, next[3] = {7, 8, 9}, slope[3] = {14, 16, 18};
    qn_tensor *t = values(), *square = qn_square(t), *doubled, *g;
    const char *want =
        put ? "index_put: index 5 of an axis of 3" : "gather: index 5 of an axis of 3";
    CHECK_INT(qn_assign(t, bad_value(t, put, false)), QN_OK);
    doubled = qn_add(t, t);
    qn_tensor *of[4] = {t, t, doubled, square};
    CHECK_INT(qn_grad(qn_square(t), NULL, 1, &t, &g), QN_OK);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(read_all(i < 4 ? of[i] : g), QN_ERANGE);
        CHECK_STR(qn_error(qn), want);
        qn_clear_error(qn);
    }
    qn_tensor *good = qn_from(qn, QN_F32, 1, SHAPE(3), next);
    CHECK_INT(written ? qn_write(t, next, sizeof next) : qn_assign(t, good), QN_OK);
    expect_values(square, old_square);
    expect_values(t, next);
    CHECK_INT(qn_grad(qn_square(t), NULL, 1, &t, &g), QN_OK);
    expect_values(g, slope);
    CHECK_INT(read_all(doubled), QN_ERANGE);
    CHECK_STR(qn_error(qn), want);
    qn_clear_error(qn);
    expect_values(t, next);
}

static void an_assigned_bad_value_is_an_error_until_another_is_assigned(void) {
    static const char *const device[] = {"cpu", "ref"};
    static const float old[3] = {0.5f, -1, 2};
    setenv("QN_CHECK", "1", 1);
    for (int d = 0; d < 2; d++) {
        qn = qn_open(&QN_OPTIONS(.device = device[d]));
        for (int i = 0; i < 4; i++) replace_bad_value(i & 1, i & 2);
        for (int put = 0; put < 2; put++) {
            qn_tensor *t = values();
            CHECK(qn_assign(t, bad_value(t, put, true)) != QN_OK);
            CHECK_STR(error(), put ? "index_put: index 5 of an axis of 3"
                                   : "gather: index 5 of an axis of 3");
            qn_clear_error(qn);
            expect_values(t, old);
        }
        qn_close(qn);
    }
    unsetenv("QN_CHECK");
}

static void ignored_labels_do_not_count(void) {
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(NULL);
    const float x[6] = {20000, 20001, 0, 1, 3, 3};
    qn_tensor *logits = qn_from(qn, QN_F32, 2, SHAPE(3, 2), x);
    qn_tensor *labels = qn_from(qn, QN_I32, 1, SHAPE(3), (const int32_t[]){1, -100, 0});
    float loss;
    CHECK_INT(qn_read(qn_cross_entropy_ignoring(logits, labels, -100), &loss, sizeof loss), QN_OK);
    CHECK_NEAR((double)loss, (log1p(exp(-1.0)) + log(2.0)) / 2, 1e-7,
               0); /* [20000, 20001]: .31326 */
    CHECK_INT(qn_read(qn_cross_entropy(logits, labels), &loss, sizeof loss), QN_ERANGE);
    CHECK_STR(qn_error(qn), "cross_entropy: index -100 of an axis of 2");
    qn_close(qn);
    unsetenv("QN_CHECK");
}

/* What a mask leaves over lies outside on purpose; an array beside it does not. */
static void masks_are_no_indices(void) {
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(NULL);
    qn_tensor *x = qn_expand(qn_reshape(values(), 2, SHAPE(3, 1)), 2, SHAPE(3, 4));
    qn_tensor *mask = qn_from(qn, QN_BOOL, 1, SHAPE(3), (const bool[]){true, false, true});
    for (int k = 0; k < 3; k++) {
        int64_t at[2] = {3, k == 2 ? -5 : -4};
        qn_index_item item[2] = {QN_AT_PLACES(mask),
                                 QN_AT_PLACES(qn_from(qn, QN_I64, 1, SHAPE(2), at))};
        float got[12];
        qn_tensor *y =
            qn_index_put(x, k ? 2 : 1, item, qn_ones(qn, QN_F32, 0, NULL), QN_COMBINE_SET);
        CHECK_INT(qn_read(y, got, sizeof got), k == 2 ? QN_ERANGE : QN_OK);
        CHECK_STR(qn_error(qn), k == 2 ? "index_put: index -5 of an axis of 4" : "");
        if (k < 2) CHECK(got[3] == 1 && got[8] == 1 && got[4] == -1 && (got[0] == 1) == !k);
        qn_clear_error(qn);
    }
    qn_close(qn);
    unsetenv("QN_CHECK");
}

/* x[i] of each row of an index, summed over the rows: a loop of a loop, and the gradient by x. */
static qn_tensor *sum_of_picked(qn_tensor *x, qn_tensor *index, qn_tensor *most) {
    qn_tensor *zero = qn_zeros(qn, QN_F32, 0, NULL), *two[2] = {index, index};
    qn_tensor *pairs = qn_stack(2, two, 1);
    qn_loop *l = qn_loop_begin(qn, 1, &zero, 1, &pairs, &QN_LOOP_OPTIONS(.most = most));
    qn_tensor *s = qn_loop_state(l, 0), *pair = qn_loop_slice(l, 0);
    qn_loop *inner = qn_loop_begin(qn, 1, &s, 1, &pair, NULL);
    qn_tensor *i = qn_loop_slice(inner, 0);
    qn_tensor *at = qn_add(i, qn_mul(qn_loop_index(inner), qn_like(i, 0)));
    qn_tensor *picked = qn_take(qn_sin(x), qn_reshape(at, 1, SHAPE(1)), 0);
    qn_tensor *next = qn_add(qn_loop_state(inner, 0), qn_reshape(picked, 0, NULL));
    CHECK_INT(qn_loop_end(inner, 1, &next, 0, NULL), QN_OK);
    next = qn_loop_final(inner, 0);
    CHECK_INT(qn_loop_end(l, 1, &next, 0, NULL), QN_OK);
    qn_tensor *sum = qn_loop_final(l, 0);
    qn_loop_free(inner), qn_loop_free(l);
    return sum;
}

static void in_loops(const char *device) {
    static const struct {
        int64_t last, most;
        qn_code code;
    } cases[] = {{2, 5, QN_OK}, {3, 5, QN_ERANGE}, {3, 1, QN_OK}, {-4, 5, QN_ERANGE}};
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(&QN_OPTIONS(.device = device));
    for (int k = 0; k < LENGTH(cases); k++) {
        char want[64] = "";
        float got;
        qn_tensor *most = qn_from(qn, QN_I64, 0, NULL, &cases[k].most), *x = values(), *g;
        qn_tensor *sum = sum_of_picked(x, indices(cases[k].last, true), most);
        if (cases[k].code)
            snprintf(want, sizeof want, "take: index %d of an axis of 3", (int)cases[k].last);
        for (int of = 0; of < 2; of++) {
            CHECK_INT(qn_grad(sum, NULL, 1, &x, &g), QN_OK);
            CHECK_INT(qn_read(of ? qn_sum(g, QN_ALL, false) : sum, &got, sizeof got),
                      cases[k].code);
            CHECK_STR(qn_error(qn), want);
            qn_clear_error(qn);
        }
    }
    qn_close(qn);
    unsetenv("QN_CHECK");
}

static void indices_in_loops_are_checked_in_each_trip(void) {
    in_loops("cpu");
    in_loops("ref");
}

/* An axis bound to no elements, and no trip that could read of it: its index is made by none. */
static void a_loop_of_no_trips_has_no_index(void) {
    setenv("QN_CHECK", "1", 1);
    qn = qn_open(NULL);
    int64_t n = qn_var(qn, "n", 0, 3);
    qn_tensor *x = qn_ones(qn, QN_F32, 1, &n), *index = indices(2, true);
    x = qn_add(x, qn_cast(qn_iota(qn, QN_I64, 1, &n, 0), QN_F32));
    for (int64_t most = 0; most < 3; most += 2) {
        float got = -1;
        qn_tensor *sum = sum_of_picked(x, index, qn_from(qn, QN_I64, 0, NULL, &most));
        CHECK_INT(qn_bind(qn, n, 0), QN_OK);
        CHECK_INT(qn_read(sum, &got, sizeof got), most ? QN_ERANGE : QN_OK);
        CHECK_STR(qn_error(qn), most ? "take: index 2 of an axis of 0" : "");
        qn_clear_error(qn);
        CHECK_INT(qn_bind(qn, n, 3), QN_OK);
        CHECK_INT(qn_read(sum, &got, sizeof got), QN_OK);
    }
    qn_close(qn);
    unsetenv("QN_CHECK");
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(known_indices_outside_are_errors_at_once);
    RUN(indices_are_checked_on_cpu);
    RUN(indices_are_checked_on_ref);
    RUN(indices_are_checked_through_the_c_compiler);
    RUN(indices_are_checked_on_opencl);
    RUN(null_plans_and_finds_nothing);
    RUN(compiled_graphs_check_each_run);
    RUN(a_failed_run_gives_no_value);
    RUN(an_assigned_bad_value_is_an_error_until_another_is_assigned);
    RUN(ignored_labels_do_not_count);
    RUN(masks_are_no_indices);
    RUN(indices_in_loops_are_checked_in_each_trip);
    RUN(a_loop_of_no_trips_has_no_index);
    return test_end();
}
