/* test_versions.c - values as versions: gradients after reads, assignments, steps and tapes, on the
 * processor and on the oracle. A gradient is right or an error; and what nobody can ask for takes
 * no memory. Expected values are worked out by hand. */
#include "quern_nn.h"
#include "test.h"

static const char *const devices[] = {"cpu", "ref"};
static qn_ctx *on(const char *device) {
    return qn_open(&QN_OPTIONS(.threads = 1, .device = device));
}

static qn_tensor *number(qn_ctx *qn, double v) {
    float f = (float)v;
    return qn_from(qn, QN_F32, 1, (int64_t[]){1}, &f);
}

static double value(qn_tensor *t) {
    float f = NAN;
    if (qn_read(t, &f, sizeof f)) FAIL("%s", qn_error(qn_context(t)));
    return f;
}

/* dy/dx; NaN after an error, which is left for the caller to look at. */
static double slope(qn_tensor *y, qn_tensor *x) {
    qn_tensor *g;
    qn_scope s = qn_scope_begin(qn_context(y));
    double v = qn_grad(y, NULL, 1, &x, &g) ? NAN : value(g);
    qn_scope_end(qn_context(y), s);
    return v;
}

static void expect_error(qn_ctx *qn, const char *part) {
    if (!strstr(qn_error(qn), part)) FAIL("\"%s\" does not say \"%s\"", qn_error(qn), part);
    CHECK_INT(qn_error_code(qn), QN_EGRAPH);
    qn_clear_error(qn);
}

static qn_stats stats_of(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

#define EACH_DEVICE(qn)                                                                            \
    for (size_t d_ = 0; d_ < 2; d_++)                                                              \
        for (qn_ctx *qn = on(devices[d_]); qn; qn_close(qn), qn = NULL)

/* ---- reads ---------------------------------------------------------------------------------- */

static void a_gradient_through_a_read_value_is_whole(void) {
    EACH_DEVICE(qn) {
        qn_tensor *x = number(qn, 3), *y = qn_mul(x, x), *z = qn_mul(y, x);
        CHECK_NEAR(value(y), 9, 0, 0);
        CHECK_NEAR(slope(z, x), 27, 0, 0);
        CHECK_NEAR(value(z), 27, 0, 0);
        CHECK_NEAR(slope(z, x), 27, 0, 0);
        qn_release(y); /* its value is computed again */
        CHECK_NEAR(slope(z, x), 27, 0, 0);
        qn_tensor *g;
        CHECK_INT(qn_grad(z, NULL, 1, &x, &g), QN_OK);
        CHECK_NEAR(value(g), 27, 0, 0);
        CHECK_NEAR(slope(g, x), 18, 0, 0);
    }
}

static void released_data_is_there_for_a_gradient(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = number(qn, 2), *x = number(qn, 5);
        qn_tensor *y = qn_mul(qn_mul(w, w), x);
        qn_release(x);
        CHECK_NEAR(value(y), 20, 0, 0);
        CHECK_NEAR(slope(y, w), 20, 0, 0);
    }
}

static void what_history_dropped_is_an_error(void) {
    EACH_DEVICE(qn) {
        CHECK_INT(qn_set(qn, "history", "0"), QN_OK);
        qn_tensor *w = number(qn, 2), *x = number(qn, 5), *b = number(qn, 1);
        qn_tensor *h = qn_mul(w, x), *y = qn_add(h, b), *z = qn_mul(y, y);
        qn_release(x);
        qn_release(h);
        qn_release(y);
        value(z);
        CHECK(isnan(slope(z, w)));
        expect_error(qn, "f32[1] lies on the way, and how it was computed was cut off");
        CHECK(isnan(slope(qn_mul(z, b), b))); /* z is a function of b, too */
        expect_error(qn, "cut off");
        CHECK_NEAR(slope(qn_mul(z, z), z), 242, 0, 0);
        qn_tensor *young = number(qn, 1);
        CHECK_NEAR(slope(qn_mul(z, young), young), 121, 0, 0);
    }
}

/* What is lost was made of what x was: y is of two of its values, as it would be with the history.
 * What is older than all of them is of none, and of a tensor's later values is what is younger. */
static void what_was_lost_before_an_assignment_is_an_error(void) {
    EACH_DEVICE(qn) {
        CHECK_INT(qn_set(qn, "history", "0"), QN_OK);
        qn_tensor *other = number(qn, 3), *before = qn_mul(other, other);
        value(before);
        qn_tensor *x = number(qn, 2), *h = qn_tanh(x);
        value(h);
        CHECK_INT(qn_assign(x, qn_mul(other, other)), QN_OK);
        value(other);
        qn_tensor *y = qn_mul(x, h);
        CHECK(isnan(slope(y, x)));
        expect_error(qn, "f32[1] lies on the way, and how it was computed was cut off");
        CHECK_NEAR(slope(qn_mul(x, qn_detach(h)), x), tanh(2), 1e-6, 0);
        CHECK_NEAR(slope(qn_mul(x, before), x), 9, 0, 0);
        CHECK_NEAR(value(y), 9 * tanh(2), 1e-5, 0);
    }
}

/* The mask of a largest's gradient compares it with what it is of; kernels may group the sums in
 * that differently. Each row of the gradient of the largest is that of one row of log_softmax:
 * it sums to 0, and is not 0 throughout. */
static void a_largest_of_sums_is_found_again(void) {
    for (int k = 0; k < 8; k++) {
        qn_ctx *qn = on("cpu");
        uint64_t seed = (uint64_t)k;
        float v[125], g[125];
        for (int i = 0; i < 125; i++) v[i] = (float)test_uniform(&seed) * 4 - 2;
        qn_tensor *x = qn_from(qn, QN_F32, 3, (int64_t[]){5, 5, 5}, v), *dx;
        qn_tensor *f = k & 1 ? qn_log_softmax(x, -1) : qn_layer_norm(x, NULL, NULL, 0.1);
        qn_tensor *y = qn_max(f, 1, true), *weigh = qn_mul(y, y);
        if (k & 2) CHECK_INT(qn_realize(1, &y), QN_OK);
        CHECK_INT(qn_grad(weigh, NULL, 1, &x, &dx), QN_OK);
        CHECK_INT(qn_read(dx, g, sizeof g), QN_OK);
        qn_ctx *ref = on("ref");
        qn_tensor *z = qn_from(ref, QN_F32, 3, (int64_t[]){5, 5, 5}, v), *dz;
        f = k & 1 ? qn_log_softmax(z, -1) : qn_layer_norm(z, NULL, NULL, 0.1);
        y = qn_max(f, 1, true);
        CHECK_INT(qn_grad(qn_mul(y, y), NULL, 1, &z, &dz), QN_OK);
        float want[125];
        CHECK_INT(qn_read(dz, want, sizeof want), QN_OK);
        for (int i = 0; i < 125; i++) CHECK_NEAR(g[i], want[i], 1e-3, 1e-3);
        qn_close(ref);
        qn_close(qn);
    }
}

/* ---- assignments ---------------------------------------------------------------------------- */

static void a_recorded_loss_keeps_the_value_it_was_recorded_with(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = number(qn, 3), *loss = qn_mul(w, w), *other = number(qn, 10);
        qn_assign(w, other);
        CHECK_NEAR(slope(loss, w), 6, 0, 0);
        CHECK_NEAR(value(w), 10, 0, 0);
        CHECK_NEAR(slope(loss, w), 6, 0, 0); /* loss is not computed yet, so 3 is still there */
        CHECK_NEAR(value(loss), 9, 0, 0);
        CHECK(isnan(slope(loss, w)));
        expect_error(qn, "the value it had before it was assigned to");
        CHECK_NEAR(slope(qn_mul(w, w), w), 20, 0, 0);
        CHECK_NEAR(value(other), 10, 0, 0);
    }
}

static void a_written_tensor_is_a_version_too(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = number(qn, 3), *loss = qn_mul(w, w);
        float ten = 10;
        qn_write(w, &ten, sizeof ten);
        CHECK_NEAR(slope(loss, w), 6, 0, 0);
        CHECK_NEAR(value(loss), 9, 0, 0);
        qn_at(qn, "train.c", 12);
        qn_write(w, &ten, sizeof ten);
        CHECK(isnan(slope(loss, w)));
        expect_error(qn, "before it was assigned to");
        qn_at(qn, NULL, 0);
    }
}

static void an_error_says_where_a_tensor_was_assigned_to(void) {
    EACH_DEVICE(qn) {
        qn_module *m = qn_module_new(qn, 0);
        qn_tensor *w = qn_module_parameter(m, "weight", QN_F32, 1, (int64_t[]){1},
                                           &QN_INIT_OPTIONS(.kind = QN_INIT_ONES));
        qn_tensor *loss = qn_mul(w, w);
        qn_at(qn, "train.c", 12);
        qn_assign(w, qn_mul(w, qn_like(w, 2)));
        qn_at(qn, "train.c", 13);
        qn_tensor *both[] = {loss, w};
        qn_realize(2, both);
        CHECK(isnan(slope(loss, w)));
        expect_error(qn, "train.c:13: grad: f32[1] \"weight\": the value it had before it was "
                         "assigned to at train.c:12 is needed and gone; record y after");
        qn_module_free(m);
    }
}

static void two_optimizers_take_the_gradients_that_were_recorded(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = number(qn, 3);
        qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
        o.rate = 0.5;
        qn_optimizer *a = qn_optimizer_new(qn, 1, &w, &o), *b = qn_optimizer_new(qn, 1, &w, &o);
        qn_tensor *first = qn_mul(w, w), *second = qn_mul(qn_mul(w, w), w);
        CHECK_INT(qn_optimizer_step(a, first), QN_OK);  /* - 0.5 * 6 */
        CHECK_INT(qn_optimizer_step(b, second), QN_OK); /* - 0.5 * 27 */
        CHECK_NEAR(value(w), 3 - 3 - 13.5, 0, 0);
        qn_optimizer_free(a);
        qn_optimizer_free(b);
    }
}

static void a_second_step_on_one_loss_is_its_gradient_or_an_error(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = number(qn, 3), *loss = qn_mul(w, w);
        qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
        o.rate = 0.5;
        qn_optimizer *a = qn_optimizer_new(qn, 1, &w, &o);
        CHECK_INT(qn_optimizer_step(a, loss), QN_OK);
        CHECK_INT(qn_optimizer_step(a, loss), QN_OK);
        CHECK_NEAR(value(w), -3, 0, 0);
        CHECK_NEAR(value(loss), 9, 0, 0);
        CHECK_INT(qn_optimizer_step(a, loss), QN_EGRAPH);
        expect_error(qn, "needed and gone");
        CHECK_NEAR(value(w), -3, 0, 0);
        qn_optimizer_free(a);
    }
}

static void one_value_of_two_tensors_is_two_variables(void) {
    EACH_DEVICE(qn) {
        qn_tensor *a = number(qn, 1), *b = number(qn, 2), *zero = number(qn, 0);
        qn_tensor *sum = qn_add(zero, number(qn, 4));
        qn_assign(a, sum);
        qn_assign(b, sum);
        qn_tensor *y = qn_add(qn_mul(a, a), qn_mul(qn_like(b, 3), b));
        CHECK_NEAR(slope(y, a), 8, 0, 0);
        CHECK_NEAR(value(y), 28, 0, 0);
        CHECK_NEAR(slope(y, b), 3, 0, 0);
        qn_assign(a, zero);
        qn_assign(b, zero);
        y = qn_add(a, qn_mul(qn_like(b, 3), b));
        CHECK_NEAR(slope(y, a), 1, 0, 0);
        CHECK_NEAR(slope(y, b), 3, 0, 0);
    }
}

static void averages_and_statistics_stay_out_of_gradients(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = number(qn, 2), *mean = number(qn, 0);
        for (int i = 0; i < 3; i++) {
            qn_tensor *h = qn_mul(w, w);
            qn_assign(mean, qn_add(qn_mul(mean, qn_like(mean, 0.5)), qn_mul(h, qn_like(h, 0.5))));
            qn_tensor *loss = qn_mul(qn_sub(h, mean), w); /* w^3 - mean w */
            double m = 4 * (1 - pow(0.5, i + 1));
            CHECK_NEAR(slope(loss, w), 12 - m, 1e-6, 0);
            CHECK_NEAR(value(loss), 8 - 2 * m, 1e-6, 0);
            CHECK_NEAR(slope(loss, w), 12 - m, 1e-6, 0);
        }
    }
}

/* ---- tapes and plans ------------------------------------------------------------------------ */

static void a_tape_keeps_what_was_assigned_over(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = number(qn, 3);
        qn_tape *tape = qn_tape_begin(qn);
        qn_tensor *loss = qn_mul(w, w);
        value(loss);
        qn_assign(w, qn_mul(w, qn_like(w, 2)));
        CHECK_NEAR(value(w), 6, 0, 0);
        CHECK_NEAR(slope(loss, w), 6, 0, 0);
        qn_tape_end(tape);
        CHECK(isnan(slope(loss, w)));
        expect_error(qn, "the tape ended that kept it");
    }
}

static void a_tape_keeps_what_a_plan_assigns_over(void) {
    qn_ctx *qn = on("cpu");
    qn_tensor *w = number(qn, 3), *x = number(qn, 5);
    qn_scope s = qn_scope_begin(qn);
    qn_assign(w, qn_mul(w, x));
    qn_plan *plan = qn_plan_new(qn, 1, &x, 0, NULL);
    qn_scope_end(qn, s);
    qn_tape *tape = qn_tape_begin(qn);
    s = qn_scope_begin(qn);
    qn_tensor *loss = qn_scope_return(qn, s, qn_mul(qn_mul(w, w), w));
    CHECK_NEAR(value(loss), 27, 0, 0);
    CHECK_INT(qn_plan_run(plan, &x, NULL), QN_OK);
    CHECK_NEAR(value(w), 15, 0, 0);
    CHECK_NEAR(slope(loss, w), 27, 0, 0);
    qn_tape_end(tape);
    CHECK(isnan(slope(loss, w)));
    expect_error(qn, "the tape ended that kept it");
    uint64_t before = stats_of(qn).replaced;
    CHECK_INT(qn_plan_run(plan, &x, NULL), QN_OK);
    CHECK_INT(stats_of(qn).replaced, before + 1);
    CHECK_NEAR(value(w), 75, 0, 0);
    CHECK(isnan(slope(loss, w)));
    qn_clear_error(qn);
    qn_plan_free(plan);
    qn_close(qn);
}

static void outputs_of_a_plan_have_no_history(void) {
    qn_ctx *qn = on("cpu");
    qn_tensor *w = number(qn, 3), *x = number(qn, 5), *y = qn_mul(w, x), *out;
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK_INT(qn_plan_run(plan, &x, &out), QN_OK);
    CHECK(isnan(slope(qn_mul(out, w), w)));
    expect_error(qn, "is an output of qn_plan_run, which has no history; detach it");
    CHECK_NEAR(slope(qn_mul(qn_detach(out), w), w), 15, 0, 0);
    CHECK_NEAR(slope(qn_mul(out, out), out), 30, 0, 0);
    qn_plan_free(plan);
    qn_close(qn);
}

/* ---- values at the edges -------------------------------------------------------------------- */

static void edges_that_others_found(void) {
    EACH_DEVICE(qn) {
        float inf = INFINITY;
        qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){1}, &inf);
        CHECK(value(qn_gelu_tanh(x)) == INFINITY);
        qn_tensor *a = number(qn, 0.3), *b = number(qn, 0.001); /* fl(0.3) = 299 fl(0.001) + .. */
        CHECK_NEAR(slope(qn_mod(a, b), b), -299, 0, 0);
        CHECK_NEAR(slope(qn_mod(number(qn, 7), b), b), -floor(7.0 / (double)0.001f), 0, 0);
    }
}

/* 4096 + 1 - 4096 is 1; where the product is rounded to f16 first, it is 0. */
static void a_linear_layer_of_halves_rounds_once(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = qn_full(qn, QN_F32, 2, (int64_t[]){1, 2}, 1), *b = number(qn, -4096);
        float v[2] = {4096, 1};
        qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){1, 2}, v);
        qn_tensor *y = qn_linear(qn_cast(x, QN_F16), qn_cast(w, QN_F16), qn_cast(b, QN_F16));
        CHECK_NEAR(value(qn_reshape(qn_cast(y, QN_F32), 1, (int64_t[]){1})), 1, 0, 0);
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

static void rounds_of_reading_take_no_memory(void) {
    EACH_DEVICE(qn) {
        qn_set(qn, "history", "1");
        qn_tensor *x = number(qn, 1);
        uint64_t bytes = 0, host = 0;
        for (int i = 0; i < 60000; i++) {
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *y = qn_mul(x, qn_like(x, i & 1 ? 0.5 : 2));
            value(y);
            qn_release(x);
            x = qn_keep(y);
            qn_scope_end(qn, s);
            if (i == 30000) bytes = stats_of(qn).bytes, host = stats_of(qn).host_bytes;
        }
        CHECK_INT(stats_of(qn).bytes, bytes);
        CHECK(stats_of(qn).host_bytes <= host + 65536);
    }
}

enum { LARGE = 1 << 20 };

static qn_tensor *large(qn_ctx *qn, double v) {
    static float x[LARGE];
    for (int i = 0; i < LARGE; i++) x[i] = (float)v;
    return qn_from(qn, QN_F32, 1, (int64_t[]){LARGE}, x);
}

static void a_step_whose_loss_lives_on_holds_one_copy_of_the_parameters(void) {
    qn_ctx *qn = on("cpu");
    qn_tensor *w = large(qn, 1), *loss = NULL;
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    qn_optimizer *a = qn_optimizer_new(qn, 1, &w, &o);
    uint64_t before = stats_of(qn).bytes;
    for (int i = 0; i < 4; i++) {
        qn_scope s = qn_scope_begin(qn);
        qn_scope model = qn_scope_begin(qn);
        qn_tensor *next = qn_scope_return(qn, model, qn_sum(qn_mul(w, w), QN_ALL, false));
        CHECK_INT(qn_optimizer_step(a, next), QN_OK);
        float f;
        CHECK_INT(qn_read(next, &f, sizeof f), QN_OK);
        qn_release(loss);
        loss = qn_keep(next);
        qn_scope_end(qn, s);
    }
    CHECK_INT(stats_of(qn).replaced, 8); /* the parameter and the count of steps */
    CHECK(stats_of(qn).peak_bytes < before + 4 * LARGE / 2);
    CHECK(stats_of(qn).bytes < before + 4 * LARGE / 2);
    qn_optimizer_free(a);
    qn_close(qn);
}

static void kept_losses_do_not_keep_old_parameters(void) {
    EACH_DEVICE(qn) {
        qn_tensor *w = large(qn, 1), *loss[8];
        uint64_t before = stats_of(qn).bytes;
        for (int i = 0; i < 8; i++) {
            qn_scope s = qn_scope_begin(qn);
            float f;
            loss[i] = qn_keep(qn_sum(qn_mul(w, w), QN_ALL, false));
            CHECK_INT(qn_read(loss[i], &f, sizeof f), QN_OK);
            CHECK_INT(qn_assign(w, large(qn, 2)), QN_OK);
            qn_scope_end(qn, s);
        }
        CHECK_INT(qn_realize(1, &w), QN_OK);
        CHECK(stats_of(qn).bytes < before + 4 * LARGE / 2);
        CHECK(isnan(slope(loss[0], w)));
        expect_error(qn, "needed and gone");
    }
}

/* A cache of keys: one row a step, in the cache's own memory. */
static void a_cache_is_written_in_place(void) {
    for (int views = 0; views < 2; views++) {
        qn_ctx *qn = on("cpu");
        qn_tensor *cache = large(qn, 0);
        qn_tensor *rows = qn_reshape(cache, 2, (int64_t[]){1024, LARGE / 1024});
        qn_realize(1, &cache);
        uint64_t before = stats_of(qn).peak_bytes;
        for (int64_t i = 0; i < 3; i++) {
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *row = qn_full(qn, QN_F32, 1, (int64_t[]){1024}, (double)i + 1);
            if (views)
                CHECK_INT(qn_assign(qn_slice(cache, 0, i * 1024, (i + 1) * 1024, 1), row), QN_OK);
            else
                CHECK_INT(qn_assign(cache, qn_update_slice(cache, row, (int64_t[]){i * 1024})),
                          QN_OK);
            qn_scope_end(qn, s);
            if (!i) qn_release(rows); /* a view of an older value: from now on nothing needs it */
            CHECK_INT(qn_realize(1, &cache), QN_OK);
        }
        CHECK_INT(stats_of(qn).replaced, 3);
        CHECK(stats_of(qn).peak_bytes < before + 4 * LARGE / 2);
        static float x[LARGE];
        CHECK_INT(qn_read(cache, x, sizeof x), QN_OK);
        CHECK(x[0] == 1 && x[1024] == 2 && x[2048] == 3 && x[3071] == 3 && x[3072] == 0);
        qn_close(qn);
    }
}

/* ---- views ---------------------------------------------------------------------------------- */

static void read_floats(qn_tensor *t, int n, const float *want) {
    float x[64];
    if (qn_read(t, x, sizeof x)) FAIL("%s", qn_error(qn_context(t)));
    for (int i = 0; i < n; i++) CHECK_NEAR(x[i], want[i], 0, 0);
}

static qn_tensor *counting(qn_ctx *qn, int64_t rows, int64_t columns) {
    float x[64];
    for (int i = 0; i < rows * columns; i++) x[i] = (float)i;
    return qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, x);
}

static void an_assignment_to_a_view_is_one_to_what_it_shows(void) {
    EACH_DEVICE(qn) {
        qn_tensor *x = counting(qn, 3, 4), *before = qn_mul(x, qn_like(x, 1));
        qn_tensor *row = qn_slice(x, 0, 1, 2, 1), *ten = qn_full_like(row, 10);
        CHECK_INT(qn_assign(row, ten), QN_OK);
        read_floats(x, 12, (float[]){0, 1, 2, 3, 10, 10, 10, 10, 8, 9, 10, 11});
        read_floats(row, 4, (float[]){10, 10, 10, 10});
        read_floats(before, 12, (float[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
        qn_tensor *turned = qn_transpose(x, 0, 1);
        qn_tensor *part = qn_slice(qn_slice(turned, 0, 3, QN_END, -2), 1, 0, 2, 1); /* [2, 2] */
        CHECK_INT(qn_write(part, (float[]){-1, -2, -3, -4}, 16), QN_OK);
        read_floats(x, 12, (float[]){0, -3, 2, -1, 10, -4, 10, -2, 8, 9, 10, 11});
        read_floats(part, 4, (float[]){-1, -2, -3, -4});
        qn_tensor *flat = qn_reshape(x, 1, (int64_t[]){12});
        CHECK_INT(qn_assign(qn_slice(flat, 0, 10, 12, 1), number(qn, 0)), QN_ESHAPE);
        qn_clear_error(qn);
    }
}

static void a_view_of_an_old_value_is_refused(void) {
    EACH_DEVICE(qn) {
        qn_tensor *x = counting(qn, 2, 2), *row = qn_slice(x, 0, 0, 1, 1);
        qn_assign(x, counting(qn, 2, 2));
        CHECK_INT(qn_assign(row, qn_full_like(row, 1)), QN_EGRAPH);
        expect_error(qn, "take it again");
        row = qn_slice(x, 0, 0, 1, 1);
        qn_tensor *wide = qn_expand(row, 2, (int64_t[]){3, 2});
        CHECK_INT(qn_assign(wide, qn_full_like(wide, 1)), QN_EGRAPH);
        expect_error(qn, "is a view by expand, whose elements are not one place each");
        qn_tensor *sum = qn_add(x, x);
        CHECK_INT(qn_assign(sum, x), QN_EGRAPH);
        expect_error(qn, "is the result of add, which nothing else would see");
        CHECK_INT(qn_assign(qn_slice(sum, 0, 0, 1, 1), row), QN_EGRAPH);
        expect_error(qn, "is a view of a result of add, which is no variable");
        qn_realize(1, &sum);
        CHECK_INT(qn_assign(sum, x), QN_OK);
        read_floats(sum, 4, (float[]){0, 1, 2, 3});
        qn_tensor *zeros = qn_zeros(qn, QN_F32, 2, (int64_t[]){2, 2});
        CHECK_INT(qn_assign(zeros, x), QN_OK);
        read_floats(zeros, 4, (float[]){0, 1, 2, 3});
    }
}

/* ---- views that were read ------------------------------------------------------------------- */

static qn_tensor *turned(qn_tensor *x) {
    return qn_transpose(x, 0, -1);
}
static qn_tensor *flat(qn_tensor *x) {
    return qn_flatten(x, 0, -1);
}
static qn_tensor *flipped(qn_tensor *x) {
    return qn_flip(x, -1);
}
static qn_tensor *sliced(qn_tensor *x) {
    return qn_slice(x, 0, 1, QN_END, 2);
}
static qn_tensor *selected(qn_tensor *x) {
    return qn_rank(x) > 1 ? qn_select(x, 0, 1) : qn_slice(x, 0, 1, 4, 1);
}
static qn_tensor *diagonal(qn_tensor *x) {
    return qn_rank(x) > 1 ? qn_diagonal(x, 0) : qn_reshape(x, 2, (int64_t[]){1, qn_numel(x)});
}

static qn_tensor *(*const steps[])(qn_tensor *) = {turned, flat,     flipped,
                                                   sliced, selected, diagonal};
enum { STEPS = sizeof steps / sizeof *steps, CHAIN = 3, CELLS = 64 };

typedef struct chain {
    int step[CHAIN], steps, read; /* read: bits, of t and of the views on the way */
    bool late, written;           /* the view that is assigned to is taken after they were read */
    qn_dtype dtype;
} chain;

static qn_tensor *cells(qn_ctx *qn, qn_dtype dtype) {
    float x[CELLS];
    int32_t whole[CELLS];
    for (int i = 0; i < CELLS; i++) x[i] = (float)(whole[i] = i);
    const void *data = dtype == QN_F32 ? (const void *)x : whole;
    return qn_from(qn, dtype, 3, (int64_t[]){4, 4, 4}, data);
}

static qn_tensor *shown(const chain *c, qn_tensor *t, int n) {
    for (int i = 0; i < n && t; i++) t = steps[c->step[i]](t);
    return t;
}

static void read_numbers(qn_tensor *t, float *out) {
    CHECK_INT(qn_read(qn_cast(t, QN_F32), out, CELLS * sizeof *out), QN_OK);
}

/* Where the view's elements lie in t: what the view shows of a tensor of all places' numbers. */
static void write_by(qn_ctx *qn, const chain *c) {
    float place[CELLS], x[CELLS], now[CELLS];
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *t = cells(qn, c->dtype), *way[CHAIN + 1], *v = shown(c, t, c->steps);
    if (!v) FAIL("%s", qn_error(qn));
    int64_t n = qn_numel(v);
    read_numbers(qn_add(shown(c, cells(qn, c->dtype), c->steps), qn_zeros_like(v)), place);
    for (int i = 0; i <= c->steps; i++) {
        way[i] = shown(c, t, i);
        if (c->read >> i & 1) CHECK_INT(qn_realize(1, &way[i]), QN_OK);
    }
    if (c->late) v = shown(c, t, c->steps);
    for (int times = 0; times < 2; times++) {
        qn_tensor *value = qn_add(qn_full_like(v, 100 * (times + 1)), v);
        float data[CELLS];
        int32_t whole[CELLS];
        read_numbers(value, data);
        for (int i = 0; i < n; i++) whole[i] = (int32_t)data[i];
        const void *bytes = c->dtype == QN_F32 ? (const void *)data : whole;
        int code = c->written ? qn_write(v, bytes, 4 * (size_t)n) : qn_assign(v, value);
        if (code)
            FAIL("steps %d %d %d of %d, read %d: %s", c->step[0], c->step[1], c->step[2], c->steps,
                 c->read, qn_error(qn));
        read_numbers(t, x);
        read_numbers(v, now);
        for (int i = 0; i < n; i++) {
            float want = place[i] + (times ? 300 : 100);
            CHECK_NEAR(x[(int)place[i]], want, 0, 0);
            CHECK_NEAR(now[i], want, 0, 0);
            x[(int)place[i]] = place[i];
        }
        for (int i = 0; i < CELLS; i++) CHECK_NEAR(x[i], i, 0, 0);
        if (times || !c->late) continue;
        v = shown(c, t, c->steps); /* taken again */
        CHECK_INT(qn_realize(1, &v), QN_OK);
    }
    qn_scope_end(qn, s);
}

/* On every way from a tensor to a view of it any of both and what lies between may have been read.
 * Ways whose steps do nothing are views as others are. */
static void what_was_read_on_the_way_to_a_view_does_not_matter(void) {
    EACH_DEVICE(qn) {
        for (int way = 0; way < STEPS * STEPS * STEPS; way++) {
            chain c = {{way % STEPS, way / STEPS % STEPS, way / STEPS / STEPS},
                       .steps = 1 + way % 3};
            for (c.read = 0; c.read < 1 << (c.steps + 1); c.read++) {
                c.late = (way + c.read) & 1;
                c.written = (way + c.read / 2) & 1;
                c.dtype = way / 2 & 1 ? QN_I32 : QN_F32;
                write_by(qn, &c);
            }
        }
    }
}

static void a_view_that_was_read_reaches_its_tensor_or_is_refused(void) {
    EACH_DEVICE(qn) {
        qn_tensor *x = counting(qn, 2, 2), *view = flat(x), *part = qn_slice(view, 0, 1, 3, 1);
        qn_tensor *one = qn_full_like(view, 1);
        qn_realize(1, &view);
        qn_assign(x, counting(qn, 2, 2));
        CHECK_INT(qn_assign(view, one), QN_EGRAPH);
        expect_error(qn, "is a view of a tensor that was assigned to since");
        CHECK_INT(qn_write(part, (float[]){7, 8}, 8), QN_EGRAPH);
        expect_error(qn, "is a view of a tensor that was assigned to since");
        read_floats(view, 4, (float[]){0, 1, 2, 3});
        qn_keep(view = flat(x)), qn_keep(part = qn_slice(view, 0, 1, 3, 1));
        qn_realize(1, &view);
        qn_release(x); /* then what was read is the tensor farthest from the part */
        CHECK_INT(qn_write(part, (float[]){7, 8}, 8), QN_OK);
        read_floats(view, 4, (float[]){0, 7, 8, 3});
        qn_tensor *wide = qn_expand(view, 2, (int64_t[]){2, 4});
        qn_realize(1, &wide); /* no view: what is repeated is a value of its own */
        CHECK_INT(qn_write(qn_select(wide, 0, 1), (float[]){1, 2, 3, 4}, 16), QN_OK);
        read_floats(wide, 8, (float[]){0, 7, 8, 3, 1, 2, 3, 4});
        read_floats(view, 4, (float[]){0, 7, 8, 3});
    }
}

/* Equal values are one node, and only handles tell whose a view is. */
static void a_view_writes_the_tensor_that_it_was_taken_of(void) {
    enum { CAST, WHOLE, TURNED_TWICE, DETACHED, BY_ONE, PART, WAYS };
    EACH_DEVICE(qn) {
        for (int way = 0; way < WAYS; way++)
            for (int late = 0; late < 2; late++) {
                bool shows = way == WHOLE || way == TURNED_TWICE || way == PART;
                qn_tensor *x = counting(qn, 2, 2), *beside = qn_cast(x, QN_F32), *of = x;
                if (way == CAST) of = beside;
                if (way == WHOLE) of = qn_slice(x, 0, 0, QN_END, 1);
                if (way == TURNED_TWICE) of = turned(turned(x));
                if (way == DETACHED) of = qn_realize(1, &x) ? NULL : qn_contiguous(x);
                if (way == BY_ONE) of = qn_mul(x, qn_like(x, 1));
                qn_tensor *part = late ? qn_slice(of, 0, 1, 2, 1) : of;
                float bytes[4] = {6, 7, 8, 9}, want[4] = {0, 1, 6, 7};
                CHECK_INT(qn_write(part, bytes, late ? 8 : 16), QN_OK);
                read_floats(of, 4,
                            late && way != WHOLE && way != TURNED_TWICE ? want
                            : late                                      ? (float[]){0, 1, 2, 3}
                                                                        : bytes);
                read_floats(x, 4, !shows ? (float[]){0, 1, 2, 3} : late ? want : bytes);
                if (way != CAST) read_floats(beside, 4, (float[]){0, 1, 2, 3});
                read_floats(part, late ? 2 : 4, bytes);
            }
    }
}

/* Rules make them the view's node; they are values nonetheless. */
static void what_equals_a_view_is_none(void) {
    EACH_DEVICE(qn) {
        for (int way = 0; way < 5; way++) {
            qn_tensor *x = counting(qn, 2, 2), *part = qn_slice(x, 0, 0, 1, 1), *of = part;
            if (way == 0) of = qn_mul(part, qn_like(part, 1));
            if (way == 1) of = qn_cast(part, QN_F32);
            if (way == 2) of = qn_expand(part, 2, (int64_t[]){1, 2});
            if (way == 3) of = qn_sum(part, 0, true);
            if (way == 4) of = qn_concat(1, &part, 0);
            CHECK_INT(qn_write(of, (float[]){8, 9}, 8), QN_EGRAPH);
            expect_error(qn, "has a view's value and is none");
            CHECK_INT(qn_realize(1, &of), QN_OK);
            CHECK_INT(qn_write(of, (float[]){8, 9}, 8), QN_OK);
            read_floats(of, 2, (float[]){8, 9});
            read_floats(x, 4, (float[]){0, 1, 2, 3});
            read_floats(part, 2, (float[]){0, 1});
        }
    }
}

/* Constants of one value are one node, and a part of one is another constant. */
static void a_view_of_a_constant_is_refused(void) {
    EACH_DEVICE(qn) {
        qn_tensor *keys = qn_zeros(qn, QN_F32, 2, (int64_t[]){2, 2}), *values = qn_zeros_like(keys);
        qn_tensor *row = qn_slice(values, 0, 0, 1, 1);
        CHECK_INT(qn_assign(row, qn_full_like(row, 3)), QN_EGRAPH);
        expect_error(qn, "is a view of a constant");
        values = qn_variable(values), row = qn_slice(values, 0, 0, 1, 1);
        CHECK_INT(qn_assign(row, qn_full_like(row, 3)), QN_OK);
        read_floats(values, 4, (float[]){3, 3, 0, 0});
        read_floats(keys, 4, (float[]){0, 0, 0, 0});
        qn_tensor *x = counting(qn, 1, 2), *both = qn_concat(2, (qn_tensor *[]){x, keys}, 0);
        row = qn_slice(both, 0, 0, 1, 1);
        CHECK_INT(qn_assign(row, qn_full_like(row, 3)), QN_EGRAPH);
        expect_error(qn, "which it does not reach");
        read_floats(x, 2, (float[]){0, 1});
        CHECK_INT(
            qn_assign(qn_reshape(keys, 1, (int64_t[]){4}), qn_ones(qn, QN_F32, 1, (int64_t[]){4})),
            QN_EGRAPH);
        expect_error(qn, "is a view of a constant");
        CHECK_INT(qn_assign(qn_reshape(keys, 2, (int64_t[]){2, 2}), qn_ones_like(keys)), QN_OK);
        read_floats(keys, 4, (float[]){1, 1, 1, 1});
    }
}

/* History of no bytes forgets at once what a read value shows. */
static void a_view_whose_history_is_cut_is_refused(void) {
    setenv("QN_HISTORY", "0", 1);
    EACH_DEVICE(qn) {
        qn_tensor *x = counting(qn, 2, 2), *view = flat(x);
        qn_tensor *sum = qn_add(x, x), *product = qn_mul(x, x), *turn = turned(product);
        qn_release(product);
        qn_realize(1, &view);
        qn_realize(2, (qn_tensor *[]){sum, turn}); /* nobody needs the product: so it is cut */
        qn_tensor *part = qn_slice(view, 0, 1, 3, 1);
        CHECK_INT(qn_write(part, (float[]){7, 8}, 8), QN_EGRAPH);
        expect_error(qn, "take it again");
        CHECK_INT(qn_write(view, (float[]){7, 8, 9, 10}, 16), QN_EGRAPH);
        expect_error(qn, "take it again");
        CHECK_INT(qn_write(flat(x), (float[]){7, 8, 9, 10}, 16), QN_OK);
        read_floats(x, 4, (float[]){7, 8, 9, 10});
        CHECK_INT(qn_write(sum, (float[]){1, 2, 3, 4}, 16), QN_OK);
        CHECK_INT(qn_write(turn, (float[]){4, 3, 2, 1}, 16), QN_OK);
        read_floats(turn, 4, (float[]){4, 3, 2, 1});
    }
    unsetenv("QN_HISTORY");
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_gradient_through_a_read_value_is_whole);
    RUN(released_data_is_there_for_a_gradient);
    RUN(what_history_dropped_is_an_error);
    RUN(what_was_lost_before_an_assignment_is_an_error);
    RUN(a_largest_of_sums_is_found_again);
    RUN(a_recorded_loss_keeps_the_value_it_was_recorded_with);
    RUN(a_written_tensor_is_a_version_too);
    RUN(an_error_says_where_a_tensor_was_assigned_to);
    RUN(two_optimizers_take_the_gradients_that_were_recorded);
    RUN(a_second_step_on_one_loss_is_its_gradient_or_an_error);
    RUN(one_value_of_two_tensors_is_two_variables);
    RUN(averages_and_statistics_stay_out_of_gradients);
    RUN(a_tape_keeps_what_was_assigned_over);
    RUN(a_tape_keeps_what_a_plan_assigns_over);
    RUN(outputs_of_a_plan_have_no_history);
    RUN(edges_that_others_found);
    RUN(a_linear_layer_of_halves_rounds_once);
    RUN(rounds_of_reading_take_no_memory);
    RUN(a_step_whose_loss_lives_on_holds_one_copy_of_the_parameters);
    RUN(kept_losses_do_not_keep_old_parameters);
    RUN(a_cache_is_written_in_place);
    RUN(an_assignment_to_a_view_is_one_to_what_it_shows);
    RUN(a_view_of_an_old_value_is_refused);
    RUN(what_was_read_on_the_way_to_a_view_does_not_matter);
    RUN(a_view_that_was_read_reaches_its_tensor_or_is_refused);
    RUN(a_view_writes_the_tensor_that_it_was_taken_of);
    RUN(what_equals_a_view_is_none);
    RUN(a_view_of_a_constant_is_refused);
    RUN(a_view_whose_history_is_cut_is_refused);
    return test_end();
}
