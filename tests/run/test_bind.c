/* test_bind.c - a value belongs to the bindings that it was computed under.
 *
 * Expressions of sizes that vary are read, realized, passed by and fed to static graphs, while
 * their variables are bound to one number after the other. What each is at each binding is worked
 * out by hand. */
#include <stdlib.h>

#include "quern.h"
#include "test.h"

static const int64_t bindings[] = {1, 7, 3, 7, 1, 2, 12};
enum { BINDINGS = sizeof bindings / sizeof *bindings };

static int64_t t; /* in [1, 64] */

static void on_devices(void (*test)(qn_ctx *qn)) {
    static const char *const devices[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d], .threads = 1));
        t = qn_var(qn, "t", 1, 64);
        test(qn);
        if (qn_error_code(qn) != QN_OK) FAIL("%s: %s", devices[d], qn_error(qn));
        qn_close(qn);
    }
}

static float read_one(qn_tensor *x) {
    float v = -12345;
    CHECK_INT(qn_read(x, &v, sizeof v), QN_OK);
    return v;
}

/* ones[2 t + 1, 2], whose sum is 4 t + 2. */
static qn_tensor *ones(qn_ctx *qn) {
    int64_t size = qn_dim_add(qn, qn_dim_mul(qn, 2, t), 1);
    return qn_ones(qn, QN_F32, 2, (int64_t[]){size, 2});
}

static qn_tensor *sum(qn_tensor *x) {
    return qn_sum(x, QN_ALL, false);
}

static void what_is_recorded_again_is_computed_again(qn_ctx *qn) {
    for (int i = 0; i < BINDINGS; i++) { /* all handles are held to the end */
        CHECK_INT(qn_bind(qn, t, bindings[i]), QN_OK);
        float want = (float)(4 * bindings[i] + 2);
        CHECK(read_one(sum(ones(qn))) == want);
        CHECK(read_one(qn_neg(sum(ones(qn)))) == -want);
    }
}

static void what_was_read_is_still_an_expression(qn_ctx *qn) {
    qn_tensor *x = ones(qn), *y = sum(x), *z = qn_mul(y, y);
    static float v[512];
    for (int i = 0; i < BINDINGS; i++) {
        CHECK_INT(qn_bind(qn, t, bindings[i]), QN_OK);
        float want = (float)(4 * bindings[i] + 2);
        CHECK(read_one(y) == want);
        CHECK(read_one(z) == want * want);
        memset(v, 0, sizeof v);
        CHECK_INT(qn_read(x, v, sizeof v), QN_OK);
        for (int k = 0; k < 512; k++) CHECK(v[k] == ((float)k < want ? 1.0f : 0.0f));
    }
}

static void what_was_realized_is_still_an_expression(qn_ctx *qn) {
    qn_tensor *x = ones(qn), *y = qn_detach(sum(qn_exp(qn_sub(x, ones(qn)))));
    for (int i = 0; i < BINDINGS; i++) {
        CHECK_INT(qn_bind(qn, t, bindings[i]), QN_OK);
        CHECK_INT(qn_realize(2, (qn_tensor *[]){x, y}), QN_OK);
        float want = (float)(4 * bindings[i] + 2);
        CHECK(read_one(sum(x)) == want);
        CHECK(read_one(qn_add(y, y)) == 2 * want);
        CHECK(read_one(y) == want);
    }
}

/* Gradients do not pass integers, which elsewhere forget what they were made of. */
static void so_with_integers(qn_ctx *qn) {
    qn_tensor *x = qn_iota(qn, QN_I64, 1, &t, 0), *twice = qn_add(x, x), *y = sum(twice);
    for (int i = 0; i < BINDINGS; i++) {
        int64_t n = bindings[i], v[64] = {0}, total = 0;
        CHECK_INT(qn_bind(qn, t, n), QN_OK);
        CHECK_INT(qn_read(twice, v, sizeof v), QN_OK);
        for (int64_t k = 0; k < n; k++) CHECK_INT(v[k], 2 * k);
        CHECK_INT(qn_read(y, &total, sizeof total), QN_OK);
        CHECK_INT(total, n * (n - 1));
        CHECK_INT(qn_read(x, v, sizeof v), QN_OK);
        CHECK_INT(v[n - 1], n - 1);
    }
}

/* The shape is known, what is seen of the data follows t: v[t], by hand. */
static void so_with_places_that_vary(qn_ctx *qn) {
    float v[80];
    for (int i = 0; i < 80; i++) v[i] = (float)(i * i);
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){80}, v);
    qn_tensor *y = qn_slice(x, 0, t, qn_dim_add(qn, t, 2), 1);
    for (int i = 0; y && i < BINDINGS; i++) {
        float two[2] = {0};
        CHECK_INT(qn_bind(qn, t, bindings[i]), QN_OK);
        CHECK_INT(qn_read(y, two, sizeof two), QN_OK);
        CHECK(two[0] == v[bindings[i]] && two[1] == v[bindings[i] + 1]);
        CHECK(read_one(sum(y)) == two[0] + two[1]);
    }
}

/* d(x^2 s)/dx = 2 x s, where s = 4 t + 2 was read or not. */
static void gradients_are_those_of_the_binding(qn_ctx *qn) {
    float three = 3;
    qn_tensor *x = qn_from(qn, QN_F32, 0, NULL, &three), *s = sum(ones(qn));
    qn_tensor *y = qn_mul(qn_mul(x, x), s), *before, *after;
    CHECK_INT(qn_grad(y, NULL, 1, &x, &before), QN_OK);
    for (int i = 0; i < BINDINGS; i++) {
        CHECK_INT(qn_bind(qn, t, bindings[i]), QN_OK);
        float want = (float)(4 * bindings[i] + 2);
        CHECK(read_one(y) == 9 * want);
        CHECK_INT(qn_grad(y, NULL, 1, &x, &after), QN_OK);
        CHECK(read_one(after) == 6 * want);
        CHECK(read_one(before) == 6 * want);
        if (i & 1) CHECK(read_one(s) == want);
    }
}

/* A tape keeps what was computed, but for no other binding. */
static void so_while_a_tape_is_open(qn_ctx *qn) {
    float three = 3;
    qn_tensor *x = qn_from(qn, QN_F32, 0, NULL, &three), *a = qn_mul(x, x), *g;
    qn_tensor *s = sum(ones(qn)), *n = sum(qn_iota(qn, QN_I64, 1, &t, 0));
    CHECK_INT(qn_bind(qn, t, 64), QN_OK);
    CHECK_INT(qn_realize(2, (qn_tensor *[]){s, n}), QN_OK);
    qn_tape *tape = qn_tape_begin(qn);
    for (int i = 0; i < BINDINGS; i++) {
        qn_scope inner = qn_scope_begin(qn);
        int64_t k = bindings[i], total = -1;
        float want = (float)(4 * k + 2);
        CHECK_INT(qn_bind(qn, t, k), QN_OK);
        if (i == 4) qn_tape_end(tape);
        qn_tensor *y = qn_mul(qn_mul(a, s), sum(ones(qn)));
        CHECK(read_one(y) == 9 * want * want);
        CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
        CHECK(read_one(g) == 6 * want * want);
        CHECK_INT(qn_read(n, &total, sizeof total), QN_OK);
        CHECK_INT(total, k * (k - 1) / 2);
        qn_scope_end(qn, inner);
    }
}

/* Several requests go by the same value, which elsewhere is kept for the next one. */
static void nothing_is_kept_of_another_binding(qn_ctx *qn) {
    qn_tensor *x = qn_expand(qn_iota(qn, QN_F32, 2, (int64_t[]){t, 1}, 0), 2, (int64_t[]){t, 40});
    qn_tensor *y = qn_matmul(qn_transpose(x, 0, 1), x);
    for (int i = 0; i < BINDINGS; i++) {
        CHECK_INT(qn_bind(qn, t, bindings[i]), QN_OK);
        double n = (double)bindings[i], want = (n - 1) * n * (2 * n - 1) / 6; /* sum of squares */
        for (int k = 1; k < 5; k++) {
            float factor = (float)k;
            qn_tensor *scale = qn_from(qn, QN_F32, 0, NULL, &factor);
            CHECK(read_one(qn_max(qn_mul(y, scale), QN_ALL, false)) == (float)(k * want));
        }
    }
}

static void history_that_is_cut_is_no_other_value(qn_ctx *qn) {
    CHECK_INT(qn_set(qn, "history", "0"), QN_OK);
    qn_tensor *y = sum(ones(qn));
    CHECK_INT(qn_bind(qn, t, 2), QN_OK);
    CHECK(read_one(y) == 10);
    CHECK_INT(qn_bind(qn, t, 5), QN_OK);
    float v = -1;
    qn_code code = qn_read(y, &v, sizeof v);
    CHECK(code == QN_EGRAPH ? v == -1 : v == 22);
    qn_clear_error(qn);
    CHECK(read_one(sum(ones(qn))) == 22);
}

/* An assigned value is a value, of the time when it was computed. */
static void an_assignment_keeps_its_value(qn_ctx *qn) {
    float zero = 0, total = 0;
    qn_tensor *a = qn_from(qn, QN_F32, 0, NULL, &zero);
    for (int i = 0; i < BINDINGS; i++) {
        CHECK_INT(qn_bind(qn, t, bindings[i]), QN_OK);
        CHECK_INT(qn_assign(a, qn_add(a, sum(ones(qn)))), QN_OK);
        total += (float)(4 * bindings[i] + 2);
        CHECK(read_one(a) == total);
        CHECK_INT(qn_bind(qn, t, bindings[i] + 1), QN_OK);
        CHECK(read_one(a) == total);
        CHECK(read_one(qn_neg(a)) == -total);
    }
}

/* Data has the size that it was given with: elsewhere it is an error, and nothing is read. */
static void data_fits_its_binding_only(qn_ctx *qn) {
    float v[3] = {1, 2, 4};
    CHECK_INT(qn_bind(qn, t, 3), QN_OK);
    qn_tensor *x = qn_from(qn, QN_F32, 1, &t, v), *y = sum(x);
    CHECK(read_one(y) == 7);
    for (int n = 2; n < 60; n += 50) {
        float got = -1;
        CHECK_INT(qn_bind(qn, t, n), QN_OK);
        CHECK_INT(qn_read(y, &got, sizeof got), QN_ESHAPE);
        CHECK(got == -1);
        qn_clear_error(qn);
        CHECK_INT(qn_read(sum(qn_neg(x)), &got, sizeof got), QN_ESHAPE);
        qn_clear_error(qn);
        CHECK_INT(qn_bind(qn, t, 3), QN_OK);
        CHECK(read_one(y) == 7);
        CHECK(read_one(sum(qn_neg(x))) == -7);
    }
}

/* Sizes that are exchanged make other data, of as many bytes. */
static void data_of_exchanged_sizes_is_other_data(qn_ctx *qn) {
    int64_t u = qn_var(qn, "u", 1, 64), two = 2, three = 3;
    float v[6] = {1, 2, 3, 4, 5, 6}, got[6];
    CHECK_INT(qn_bind(qn, t, 2), QN_OK);
    CHECK_INT(qn_bind(qn, u, 3), QN_OK);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){t, u}, v);
    qn_tensor *w = qn_from(qn, QN_F32, 2, (int64_t[]){t, u}, v), *rows = qn_sum(x, 1, false);
    qn_tensor *y = qn_sum(qn_add(x, w), 1, false), *out;
    CHECK_INT(qn_assign(w, qn_add(w, x)), QN_OK);
    CHECK_INT(qn_read(w, got, sizeof got), QN_OK);
    CHECK(got[5] == 12);
    bool plans = strcmp(qn_device_of(qn, NULL), "ref") != 0;
    qn_tensor *z = qn_sum(qn_add(x, w), 1, false);
    qn_plan *p = plans ? qn_plan_new(qn, 1, &x, 1, &z) : NULL;
    CHECK_INT(qn_bind(qn, t, 3), QN_OK);
    CHECK_INT(qn_bind(qn, u, 2), QN_OK);
    qn_tensor *data = qn_from(qn, QN_F32, 2, (int64_t[]){t, u}, v);
    qn_tensor *const bad[] = {x, w, rows, y, qn_neg(w), qn_add(data, x)};
    for (int i = 0; i < 6; i++) {
        got[0] = -1;
        CHECK_INT(qn_read(bad[i], got, sizeof got), QN_ESHAPE);
        CHECK(got[0] == -1);
        qn_clear_error(qn);
    }
    CHECK_INT(qn_read(qn_sum(data, 1, false), got, sizeof got), QN_OK);
    CHECK(got[0] == 3 && got[1] == 7 && got[2] == 11);
    CHECK_INT(plans ? qn_plan_run(p, &x, &out) : QN_ESHAPE, QN_ESHAPE);
    qn_clear_error(qn);
    CHECK_INT(plans ? qn_plan_run(p, &data, &out) : QN_ESHAPE, QN_ESHAPE); /* the parameter */
    qn_clear_error(qn);
    if (plans) CHECK_INT(qn_assign(w, data), QN_OK);
    if (plans) CHECK_INT(qn_plan_run(p, &data, &out), QN_OK);
    if (plans) CHECK_INT(qn_read(out, got, sizeof got), QN_OK);
    CHECK(!plans || (got[0] == 6 && got[1] == 14 && got[2] == 22));
    CHECK_INT(qn_bind(qn, t, two), QN_OK);
    CHECK_INT(qn_bind(qn, u, three), QN_OK);
    CHECK_INT(qn_read(rows, got, sizeof got), QN_OK);
    CHECK(got[0] == 6 && got[1] == 15);
    qn_plan_free(p);
}

/* The value it was made of was overwritten: there is nothing to compute it from, and it says so. */
static void what_cannot_be_computed_again_is_an_error(qn_ctx *qn) {
    float two = 2, nine = 9, got = -1;
    qn_tensor *w = qn_from(qn, QN_F32, 0, NULL, &two), *y = qn_mul(w, sum(ones(qn)));
    CHECK_INT(qn_bind(qn, t, 1), QN_OK);
    CHECK(read_one(y) == 12);
    CHECK_INT(qn_write(w, &nine, sizeof nine), QN_OK);
    CHECK(read_one(y) == 12);
    CHECK_INT(qn_bind(qn, t, 2), QN_OK);
    CHECK_INT(qn_read(y, &got, sizeof got), QN_EGRAPH);
    CHECK(strstr(qn_error(qn), "variable") != NULL && got == -1);
    qn_clear_error(qn);
    CHECK(read_one(qn_mul(w, sum(ones(qn)))) == 90);
}

/* What was read before is no parameter of its old value, in none of interleaved runs and reads. */
static void static_graphs_see_what_they_are_run_with(qn_ctx *qn) {
    if (!strcmp(qn_device_of(qn, NULL), "ref")) return; /* has no plans */
    float v[64], got;
    for (int i = 0; i < 64; i++) v[i] = (float)i;
    CHECK_INT(qn_bind(qn, t, 3), QN_OK);
    qn_tensor *s = sum(ones(qn)), *x = qn_from(qn, QN_F32, 1, &t, v), *loss = sum(x);
    qn_tensor *count = qn_iota(qn, QN_I32, 1, &t, 0);
    CHECK(read_one(s) == 14);
    CHECK(read_one(loss) == 3);
    CHECK_INT(qn_realize(1, &count), QN_OK);
    qn_tensor *y[2] = {qn_mul(sum(qn_mul(x, x)), s), qn_add(x, qn_cast(count, QN_F32))};
    qn_plan *p = qn_plan_new(qn, 1, &x, 2, y);
    for (int round = 0; p && round < 2 * BINDINGS; round++) {
        int64_t n = bindings[round % BINDINGS];
        qn_tensor *in = qn_from(qn, QN_F32, 1, &n, v), *out[2];
        if (qn_plan_run(p, &in, out)) {
            FAIL("round %d: %s", round, qn_error(qn));
            break;
        }
        float want = (float)(n * (n - 1) * (2 * n - 1) / 6 * (4 * n + 2)), all[64];
        CHECK(read_one(out[0]) == want);
        CHECK_INT(qn_read(out[1], all, (size_t)n * sizeof *all), QN_OK);
        for (int64_t k = 0; k < n; k++) CHECK(all[k] == (float)(2 * k));
        if (round % 3 == 1) CHECK(read_one(s) == (float)(4 * n + 2));
        if (round % 3 == 2) {
            CHECK_INT(qn_bind(qn, t, n + 1), QN_OK);
            CHECK(read_one(s) == (float)(4 * n + 6));
            CHECK(read_one(out[0]) == want); /* outputs are values */
        }
        CHECK_INT(qn_read(loss, &got, sizeof got), n + (round % 3 == 2) == 3 ? QN_OK : QN_ESHAPE);
        qn_clear_error(qn);
    }
    qn_plan_free(p);
}

#define ON_DEVICES(test)                                                                           \
    static void test##_(void) {                                                                    \
        on_devices(test);                                                                          \
    }
ON_DEVICES(what_is_recorded_again_is_computed_again)
ON_DEVICES(what_was_read_is_still_an_expression)
ON_DEVICES(what_was_realized_is_still_an_expression)
ON_DEVICES(so_with_integers)
ON_DEVICES(so_with_places_that_vary)
ON_DEVICES(gradients_are_those_of_the_binding)
ON_DEVICES(so_while_a_tape_is_open)
ON_DEVICES(nothing_is_kept_of_another_binding)
ON_DEVICES(history_that_is_cut_is_no_other_value)
ON_DEVICES(an_assignment_keeps_its_value)
ON_DEVICES(data_fits_its_binding_only)
ON_DEVICES(data_of_exchanged_sizes_is_other_data)
ON_DEVICES(what_cannot_be_computed_again_is_an_error)
ON_DEVICES(static_graphs_see_what_they_are_run_with)

int main(int argc, char **argv) {
    setenv("QN_CACHE", "off", 0);
    test_begin(argc, argv);
    RUN(what_is_recorded_again_is_computed_again_);
    RUN(what_was_read_is_still_an_expression_);
    RUN(what_was_realized_is_still_an_expression_);
    RUN(so_with_integers_);
    RUN(so_with_places_that_vary_);
    RUN(gradients_are_those_of_the_binding_);
    RUN(so_while_a_tape_is_open_);
    RUN(nothing_is_kept_of_another_binding_);
    RUN(history_that_is_cut_is_no_other_value_);
    RUN(an_assignment_keeps_its_value_);
    RUN(data_fits_its_binding_only_);
    RUN(data_of_exchanged_sizes_is_other_data_);
    RUN(what_cannot_be_computed_again_is_an_error_);
    RUN(static_graphs_see_what_they_are_run_with_);
    return test_end();
}
