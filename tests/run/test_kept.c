/* test_kept.c - what a handle holds is not computed again and again, and nobody sees why.
 *
 * Launches are counted. What is kept must be no other value, make no gradient, version or refusal
 * another one, stay within its bound and go before memory runs out. */
#include <math.h>
#include <stdlib.h>

#include "quern.h"
#include "test.h"

enum { ROWS = 48, COLUMNS = 40 };

static uint64_t kernels_so_far(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s.kernels;
}

static uint64_t kept_bytes(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s.kept_bytes;
}

static qn_tensor *noise(qn_ctx *qn, int64_t rows, int64_t columns, uint64_t seed) {
    size_t n = (size_t)(rows * columns);
    float *v = malloc(n * sizeof *v);
    if (!v) abort();
    for (size_t i = 0; i < n; i++) v[i] = (float)(test_uniform(&seed) - 0.5);
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, v);
    free(v);
    return t;
}

static qn_tensor *number(qn_ctx *qn, float v) {
    return qn_from(qn, QN_F32, 0, NULL, &v);
}

static float read_one(qn_tensor *t) {
    float v = -12345;
    CHECK_INT(qn_read(t, &v, sizeof v), QN_OK);
    return v;
}

/* Something that takes several kernels: a softmax of a product of products. */
static qn_tensor *costly(qn_ctx *qn) {
    qn_tensor *a = noise(qn, ROWS, COLUMNS, 1), *b = noise(qn, COLUMNS, ROWS, 2);
    qn_tensor *c = noise(qn, ROWS, COLUMNS, 3);
    return qn_softmax(qn_matmul(qn_matmul(a, b), c), 1);
}

static uint64_t launches_of_scaled(qn_ctx *qn, qn_tensor *y, float factor, float *largest) {
    uint64_t before = kernels_so_far(qn);
    *largest = read_one(qn_max(qn_mul(y, number(qn, factor)), QN_ALL, false));
    return kernels_so_far(qn) - before;
}

static void a_held_value_is_computed_no_more_than_twice(void) {
    static const char *const devices[] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = devices[d]));
        qn_tensor *y = costly(qn);
        float first, again;
        uint64_t once = launches_of_scaled(qn, y, 1, &first);
        launches_of_scaled(qn, y, 2, &again);
        CHECK(again == 2 * first);
        for (int i = 3; i < 7; i++) {
            uint64_t few = launches_of_scaled(qn, y, (float)(i & ~1), &again);
            CHECK(again == (float)(i & ~1) * first);
            if (d == 0) CHECK_INT((int64_t)few, 1);
        }
        if (d == 0) CHECK((int64_t)once >= 3);
        qn_close(qn);
    }
}

/* A recurrent state that is never read itself, only something of it: each step's handle goes before
 * the next step's request comes through it. */
static void a_state_that_is_named_anew_is_kept(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *w = noise(qn, COLUMNS, COLUMNS, 1), *h = noise(qn, 1, COLUMNS, 2);
    double expected[COLUMNS], weight[COLUMNS][COLUMNS];
    float first[COLUMNS], weights[COLUMNS * COLUMNS];
    CHECK_INT(qn_read(h, first, sizeof first), QN_OK);
    CHECK_INT(qn_read(w, weights, sizeof weights), QN_OK);
    for (int i = 0; i < COLUMNS; i++) {
        expected[i] = (double)first[i];
        for (int k = 0; k < COLUMNS; k++) weight[i][k] = (double)weights[i * COLUMNS + k];
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (int t = 0; t < 40; t++) {
        qn_tensor *next = qn_tanh(qn_matmul(h, w));
        qn_release(h);
        h = next;
        uint64_t before = kernels_so_far(qn);
        qn_tensor *doubled = qn_mul(h, number(qn, 2)), *sum = qn_sum(doubled, QN_ALL, false);
        float total = read_one(sum);
        qn_release(sum);
        qn_release(doubled);
        uint64_t launched = kernels_so_far(qn) - before;
        if (t >= 4 && launched < least) least = launched;
        if (launched > most) most = launched;
        double row[COLUMNS] = {0}, all = 0;
        for (int i = 0; i < COLUMNS; i++) {
            for (int k = 0; k < COLUMNS; k++) row[i] += expected[k] * weight[k][i];
            all += 2 * tanh(row[i]);
        }
        for (int i = 0; i < COLUMNS; i++) expected[i] = tanh(row[i]);
        CHECK(fabs((double)total - all) < 1e-4 * (1 + fabs(all)));
    }
    CHECK(most <= least + 4);
    qn_close(qn);
}

static void a_value_that_was_read_is_there(void) {
    qn_ctx *qn = qn_open(NULL);
    static float v[ROWS * COLUMNS], w[ROWS * COLUMNS];
    qn_tensor *y = costly(qn);
    CHECK_INT(qn_read(y, v, sizeof v), QN_OK);
    uint64_t before = kernels_so_far(qn);
    CHECK_INT(qn_read(y, w, sizeof w), QN_OK);
    CHECK_INT((int64_t)(kernels_so_far(qn) - before), 0);
    CHECK(!memcmp(v, w, sizeof v));
    qn_tensor *z = qn_mul(y, number(qn, 2));
    CHECK_INT(qn_read(z, w, sizeof w), QN_OK);
    CHECK_INT((int64_t)(kernels_so_far(qn) - before), 1);
    for (int i = 0; i < ROWS * COLUMNS; i++) CHECK(w[i] == 2 * v[i]);
    qn_close(qn);
}

/* A value that two requests went through is read without computing it a third time. */
static void what_is_kept_can_be_read(void) {
    qn_ctx *qn = qn_open(NULL);
    static float v[ROWS * COLUMNS];
    float largest, top = 0;
    qn_tensor *y = costly(qn);
    for (int i = 0; i < 2; i++) launches_of_scaled(qn, y, 1 + (float)i, &largest);
    CHECK(kept_bytes(qn) > 0);
    uint64_t before = kernels_so_far(qn);
    CHECK_INT(qn_read(y, v, sizeof v), QN_OK);
    CHECK_INT((int64_t)(kernels_so_far(qn) - before), 0);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (v[i] > top) top = v[i];
    CHECK(2 * top == largest);
    qn_close(qn);
}

static void what_is_little_work_is_not_kept(void) {
    qn_ctx *qn = qn_open(NULL);
    float largest;
    qn_tensor *x = noise(qn, ROWS, COLUMNS, 1), *y = qn_add(x, number(qn, 1));
    for (int i = 0; i < 4; i++) launches_of_scaled(qn, y, (float)i, &largest);
    CHECK(kept_bytes(qn) < ROWS * COLUMNS); /* the numbers that were read */
    qn_close(qn);
}

/* The second handle goes, and with it what was kept for it. */
static void what_nobody_holds_is_not_kept(void) {
    qn_ctx *qn = qn_open(NULL);
    float largest;
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *y = costly(qn);
    for (int i = 0; i < 3; i++) launches_of_scaled(qn, y, (float)i, &largest);
    CHECK(kept_bytes(qn) > 0);
    qn_scope_end(qn, s);
    qn_stats st;
    qn_get_stats(qn, &st, sizeof st);
    CHECK_INT((int64_t)st.kept_bytes, 0);
    CHECK_INT((int64_t)st.buffers, 0);
    qn_close(qn);
}

/* ---- nobody sees it -------------------------------------------------------------------------- */

/* Of y = x*x, dy/dx by z = y*sum is the same before and after y is kept; so is what is refused. */
static void gradients_and_refusals_are_those_of_an_expression(void) {
    qn_ctx *qn = qn_open(NULL);
    static float was[ROWS * COLUMNS], is[ROWS * COLUMNS];
    qn_tensor *x = noise(qn, ROWS, COLUMNS, 5), *w = noise(qn, COLUMNS, COLUMNS, 6), *g;
    qn_tensor *y = qn_tanh(qn_matmul(qn_mul(x, x), w));
    for (int round = 0; round < 4; round++) {
        qn_tensor *z = qn_sum(qn_mul(y, number(qn, 3)), QN_ALL, false);
        CHECK_INT(qn_grad(z, NULL, 1, &x, &g), QN_OK);
        CHECK_INT(qn_read(g, round ? is : was, sizeof was), QN_OK);
        read_one(z);
        for (int i = 0; round && i < ROWS * COLUMNS; i++) CHECK_NEAR(is[i], was[i], 1e-5, 1e-6);
    }
    CHECK(kept_bytes(qn) > 0);
    CHECK_INT(qn_assign(y, noise(qn, ROWS, COLUMNS, 7)), QN_EGRAPH);
    qn_clear_error(qn);
    qn_close(qn);
}

/* A static graph computes what it was made of, also where it passes by a kept value. */
static void a_static_graph_sees_its_inputs(void) {
    qn_ctx *qn = qn_open(NULL);
    float largest, one, two;
    qn_tensor *x = noise(qn, ROWS, COLUMNS, 8), *w = noise(qn, COLUMNS, COLUMNS, 9), *out;
    qn_tensor *y = qn_tanh(qn_matmul(x, w)), *z = qn_sum(y, QN_ALL, false);
    for (int i = 0; i < 3; i++) launches_of_scaled(qn, y, (float)i, &largest);
    CHECK(kept_bytes(qn) > 0);
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &z);
    CHECK(p != NULL);
    qn_tensor *other = noise(qn, ROWS, COLUMNS, 10);
    CHECK_INT(qn_plan_run(p, &other, &out), QN_OK);
    one = read_one(out);
    two = read_one(qn_sum(qn_tanh(qn_matmul(other, w)), QN_ALL, false));
    CHECK_NEAR(one, two, 1e-4, 1e-4);
    qn_plan_free(p);
    qn_close(qn);
}

/* A parameter that was read and given up is what it was, also after it was given up once more. */
static void a_static_graph_has_its_parameters_back(void) {
    qn_ctx *qn = qn_open(NULL);
    enum { WIDE = 512 };
    static float v[WIDE * WIDE];
    float one, two;
    CHECK_INT(qn_set(qn, "kept_memory", "2"), QN_OK);
    qn_tensor *x = noise(qn, WIDE, WIDE, 18), *out;
    qn_tensor *w = qn_sin(x), *y = qn_exp(x), *z;
    CHECK_INT(qn_read(w, v, sizeof v), QN_OK);
    CHECK_INT(qn_read(y, v, sizeof v), QN_OK);
    qn_tensor *in = noise(qn, WIDE, WIDE, 19);
    z = qn_sum(qn_mul(qn_add(in, w), y), QN_ALL, false);
    qn_plan *p = qn_plan_new(qn, 1, &in, 1, &z);
    CHECK(p != NULL);
    one = read_one(z);
    for (int i = 0; p && i < 3; i++) {
        CHECK_INT(qn_read(w, v, sizeof v), QN_OK); /* it may go again */
        for (int k = 0; k < 4; k++)
            CHECK_INT(qn_read(qn_cos(qn_add(x, number(qn, (float)(k + i)))), v, sizeof v), QN_OK);
        CHECK_INT(qn_plan_run(p, &in, &out), QN_OK);
        two = read_one(out);
        CHECK_NEAR(two, one, 1e-4, 1e-3);
    }
    qn_plan_free(p);
    qn_close(qn);
}

/* A table of places and a function of a weight are computed in the first run, and again when the
 * weight has another value: by hand. */
static void a_static_graph_computes_once_what_its_inputs_do_not_change(void) {
    qn_ctx *qn = qn_open(NULL);
    enum { WIDE = 64 };
    static float v[WIDE * WIDE];
    qn_tensor *x = noise(qn, 1, WIDE, 20), *w = noise(qn, WIDE, WIDE, 21), *out;
    qn_tensor *place = qn_iota(qn, QN_F32, 2, (int64_t[]){WIDE, WIDE}, 0);
    qn_tensor *table = qn_sum(qn_sin(qn_exp(qn_mul(place, number(qn, 0.01f)))), 0, true);
    qn_tensor *bent = qn_tanh(qn_exp(qn_mul(w, w)));
    qn_tensor *z = qn_add(qn_mul(qn_matmul(x, bent), table), qn_matmul(x, w));
    qn_plan *p = qn_plan_new(qn, 1, &x, 1, &z);
    CHECK(p != NULL);
    uint64_t of_run[6];
    for (int run = 0; p && run < 6; run++) {
        uint64_t before = kernels_so_far(qn);
        if (run == 3) {
            for (int i = 0; i < WIDE * WIDE; i++) v[i] = (float)(i % 7) * 0.1f;
            CHECK_INT(qn_write(w, v, sizeof v), QN_OK);
        }
        CHECK_INT(qn_plan_run(p, &x, &out), QN_OK);
        of_run[run] = kernels_so_far(qn) - before;
        float row[WIDE], in[WIDE];
        CHECK_INT(qn_read(out, row, sizeof row), QN_OK);
        CHECK_INT(qn_read(x, in, sizeof in), QN_OK);
        CHECK_INT(qn_read(w, v, sizeof v), QN_OK);
        for (int j = 0; j < WIDE; j++) {
            double a = 0, b = 0, t = 0;
            for (int i = 0; i < WIDE; i++) {
                double u = (double)v[i * WIDE + j];
                a += (double)in[i] * tanh(exp(u * u));
                b += (double)in[i] * u;
                t += sin(exp(0.01 * i));
            }
            CHECK_NEAR((double)row[j], a * t + b, 1e-4, 1e-3);
        }
    }
    CHECK(of_run[0] > of_run[1]);
    CHECK_INT((int64_t)of_run[2], (int64_t)of_run[1]);
    CHECK(of_run[3] > of_run[1]);
    CHECK_INT((int64_t)of_run[5], (int64_t)of_run[1]);
    qn_plan_free(p);
    qn_close(qn);
}

/* What was made of a tensor keeps its value when that is assigned to, also where it is kept; what
 * is made of it afterwards has the new one's. */
static void an_assignment_leaves_what_is_kept_as_it_was(void) {
    qn_ctx *qn = qn_open(NULL);
    float before, after, fresh;
    qn_tensor *x = noise(qn, ROWS, COLUMNS, 11), *w = noise(qn, COLUMNS, COLUMNS, 12);
    qn_tensor *y = qn_tanh(qn_matmul(x, w));
    for (int i = 1; i < 4; i++) launches_of_scaled(qn, y, 1, &before);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(qn_assign(w, qn_add(w, number(qn, 1))), QN_OK);
        launches_of_scaled(qn, y, 1, &after);
        CHECK(after == before);
    }
    qn_tensor *now = qn_tanh(qn_matmul(x, w));
    launches_of_scaled(qn, now, 1, &fresh);
    CHECK(fresh != before);
    CHECK_INT(qn_set(qn, "kept_memory", "0"),
              QN_OK); /* it is given up, and computed of the old w */
    launches_of_scaled(qn, y, 1, &after);
    launches_of_scaled(qn, y, 1, &after);
    CHECK(kept_bytes(qn) < ROWS * COLUMNS);
    CHECK_NEAR(after, before, 1e-6, 1e-6);
    qn_close(qn);
}

static void what_depends_on_a_dimension_variable_is_computed_for_each_binding(void) {
    qn_ctx *qn = qn_open(NULL);
    int64_t t = qn_var(qn, "t", 1, 64);
    for (int size = 8; size <= 32; size *= 2) {
        qn_scope s = qn_scope_begin(qn);
        CHECK_INT(qn_bind(qn, t, size), QN_OK);
        qn_tensor *x = qn_full(qn, QN_F32, 2, (int64_t[]){t, COLUMNS}, 1);
        qn_tensor *y = qn_matmul(qn_transpose(x, 0, 1), x);
        float largest;
        for (int i = 0; i < 4; i++) launches_of_scaled(qn, y, 1, &largest);
        CHECK(largest == (float)size);
        qn_scope_end(qn, s);
    }
    qn_close(qn);
}

/* Losses that are read before the step: what the step computes again is not kept, for it will not
 * be wanted of the weights as they were. */
static void a_training_step_keeps_no_activations(void) {
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *w = noise(qn, COLUMNS, COLUMNS, 13);
    for (int step = 0; step < 4; step++) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *x = noise(qn, ROWS, COLUMNS, 14), *g;
        qn_tensor *h = qn_tanh(qn_matmul(x, w)), *loss = qn_sum(qn_mul(h, h), QN_ALL, false);
        read_one(loss);
        CHECK_INT(qn_grad(loss, NULL, 1, &w, &g), QN_OK);
        CHECK_INT(qn_assign(w, qn_sub(w, qn_mul(g, number(qn, 1e-4f)))), QN_OK);
        CHECK_INT(qn_realize(1, &w), QN_OK);
        CHECK(kept_bytes(qn) < ROWS * COLUMNS); /* the loss */
        qn_scope_end(qn, s);
    }
    qn_close(qn);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void what_is_kept_stays_within_its_bound(void) {
    qn_ctx *qn = qn_open(NULL);
    enum { MANY = 60, WIDE = 512 }; /* a mebibyte each */
    static qn_tensor *y[MANY];
    CHECK_INT(qn_set(qn, "kept_memory", "5"), QN_OK);
    qn_tensor *x = noise(qn, WIDE, WIDE, 15);
    qn_realize(1, &x);
    for (int i = 0; i < MANY; i++) {
        float largest, again;
        y[i] = qn_sin(qn_exp(qn_add(x, number(qn, (float)i / MANY))));
        launches_of_scaled(qn, y[i], 1, &largest);
        launches_of_scaled(qn, y[i], 2, &again);
        CHECK(again == 2 * largest);
        CHECK(kept_bytes(qn) > 0 && kept_bytes(qn) <= (uint64_t)5 << 20);
    }
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    CHECK(s.kept_given_up >= MANY - 5);
    for (int i = 0; i < MANY; i += 7) { /* the last ones are there, the first have to be computed */
        float largest, again;
        launches_of_scaled(qn, y[i], 1, &largest);
        launches_of_scaled(qn, y[i], 2, &again);
        CHECK(again == 2 * largest);
    }
    qn_close(qn);
}

/* 10^3 values of 256 KiB that were read and are still held; their last digits are sums'. */
static void what_was_read_stays_within_the_bound_and_comes_back_the_same(void) {
    qn_ctx *qn = qn_open(NULL);
    enum { MANY = 1000, WIDE = 256 };
    static qn_tensor *y[MANY];
    static float v[WIDE * WIDE], first[MANY], w[WIDE * WIDE];
    qn_stats s;
    CHECK_INT(qn_set(qn, "kept_memory", "8"), QN_OK);
    qn_tensor *x = noise(qn, WIDE, WIDE, 17), *sum = qn_sum(x, 1, true);
    for (int i = 0; i < MANY; i++) {
        y[i] = qn_mul(qn_add(sum, number(qn, (float)i)), x);
        CHECK_INT(qn_read(y[i], v, sizeof v), QN_OK);
        first[i] = v[i];
        qn_get_stats(qn, &s, sizeof s);
        if (s.kept_bytes > (uint64_t)8 << 20 || s.bytes > (uint64_t)16 << 20) {
            FAIL("after %d reads: %llu bytes are kept, of %llu", i,
                 (unsigned long long)s.kept_bytes, (unsigned long long)s.bytes);
            break;
        }
    }
    for (int i = 0; i < MANY; i += 111) {
        CHECK_INT(qn_read(y[i], v, sizeof v), QN_OK);
        CHECK(v[i] == first[i]);
        CHECK_INT(qn_read(qn_sub(y[i], qn_contiguous(y[i])), w, sizeof w), QN_OK);
        CHECK(w[i] == 0);
    }
    CHECK_INT(qn_assign(y[1], x), QN_OK); /* it was read, so it is a variable */
    CHECK_INT(qn_read(y[1], v, sizeof v), QN_OK);
    CHECK_INT(qn_read(x, w, sizeof w), QN_OK);
    CHECK(!memcmp(v, w, sizeof v));
    qn_close(qn);
}

typedef struct limited {
    size_t used, most;
} limited;

static void *limited_alloc(void *user, size_t size, size_t align) {
    limited *l = user;
    if (l->used + size > l->most) return NULL;
    void *p = aligned_alloc(align < 64 ? 64 : align, (size + 63) / 64 * 64);
    if (p) l->used += size;
    return p;
}

static void limited_free(void *user, void *p, size_t size) {
    if (p) ((limited *)user)->used -= size;
    free(p);
}

static void what_is_kept_goes_before_memory_runs_out(void) {
    limited l = {.most = (size_t)1 << 30};
    qn_ctx *qn = qn_open(
        &QN_OPTIONS(.alloc = limited_alloc, .free = limited_free, .alloc_user = &l, .threads = 1));
    enum { FEW = 24, WIDE = 512 };
    qn_tensor *x = noise(qn, WIDE, WIDE, 16);
    for (int i = 0; i < FEW; i++) {
        float largest, again;
        qn_tensor *y = qn_sin(qn_exp(qn_add(x, number(qn, (float)i / FEW))));
        launches_of_scaled(qn, y, 1, &largest);
        if (i == 1) l.most = l.used + ((size_t)8 << 20);
        launches_of_scaled(qn, y, 2, &again);
        CHECK(again == 2 * largest);
    }
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    CHECK(s.kept_given_up > 0);
    CHECK_INT(qn_error_code(qn), QN_OK);
    qn_close(qn);
    CHECK_INT((int64_t)l.used, 0);
}

int main(int argc, char **argv) {
    setenv("QN_CACHE", "off", 0);
    test_begin(argc, argv);
    RUN(a_held_value_is_computed_no_more_than_twice);
    RUN(a_state_that_is_named_anew_is_kept);
    RUN(a_value_that_was_read_is_there);
    RUN(what_is_kept_can_be_read);
    RUN(what_is_little_work_is_not_kept);
    RUN(what_nobody_holds_is_not_kept);
    RUN(gradients_and_refusals_are_those_of_an_expression);
    RUN(a_static_graph_sees_its_inputs);
    RUN(a_static_graph_has_its_parameters_back);
    RUN(a_static_graph_computes_once_what_its_inputs_do_not_change);
    RUN(an_assignment_leaves_what_is_kept_as_it_was);
    RUN(what_depends_on_a_dimension_variable_is_computed_for_each_binding);
    RUN(a_training_step_keeps_no_activations);
    RUN(what_is_kept_stays_within_its_bound);
    RUN(what_was_read_stays_within_the_bound_and_comes_back_the_same);
    RUN(what_is_kept_goes_before_memory_runs_out);
    return test_end();
}
