/* test_custom.c - kernels of the user's: functions and C as text, beside and behind what fuses;
 * several results, rows on threads, gradients, maps, loops, static graphs, errors, memory. */
#include "device_here.h"
#include "quern_custom.h"
#include "quern_loop.h"
#include "test.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

static const char *device = "cpu";

static qn_ctx *begin(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = 3));
    if (!qn || qn_error_code(qn)) FAIL("no device %s", device);
    return qn;
}

static void end(qn_ctx *qn) {
    if (qn_error_code(qn)) FAIL("%s: %s", device, qn_error(qn));
    qn_close(qn);
}

static void on_each_device(void (*test)(void)) {
    device_each(&device, test);
}

static qn_tensor *numbers(qn_ctx *qn, int rank, const int64_t *shape) {
    static float data[1 << 18];
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    for (int64_t i = 0; i < n; i++) data[i] = (float)(i * 37 % 101) / 50 - 1;
    return qn_from(qn, QN_F32, rank, shape, data);
}

static float *values(qn_tensor *x) {
    static float out[4][1 << 18];
    static int turn;
    float *at = out[turn++ % 4];
    if (!x || qn_read(x, at, sizeof *out)) {
        FAIL("%s: %s", device, x ? qn_error(qn_context(x)) : "NULL");
        for (int i = 0; i < 1 << 18; i++) at[i] = NAN;
    }
    return at;
}

static void expect(qn_ctx *qn, qn_code code, const char *text) {
    CHECK_INT(qn_error_code(qn), code);
    CHECK(strstr(qn_error(qn), text) != NULL);
    if (!strstr(qn_error(qn), text)) printf("%s\n", qn_error(qn));
    qn_clear_error(qn);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static int64_t elements(const qn_custom_array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->rank; i++) n *= a->shape[i];
    return n;
}

static atomic_int calls;

/* x^3 plus `arg`, if it is there. */
static void cube(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    const float *x = in[0].data, more = arg ? *(const float *)arg : 0;
    float *y = out[0].data;
    atomic_fetch_add(&calls, 1);
    for (int64_t i = 0; i < elements(&in[0]); i++) y[i] = x[i] * x[i] * x[i] + more;
}

/* Of each row the running sum, and where it is largest, and the sum of squares. */
static void sums(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    const int64_t rows = in[0].shape[0], n = in[0].shape[1];
    (void)arg;
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)in[0].data + i * n;
        float *sum = (float *)out[0].data + i * n, most = -INFINITY;
        int64_t *where = (int64_t *)out[1].data + i;
        double all = 0, squares = 0;
        *where = 0;
        for (int64_t j = 0; j < n; j++) {
            sum[j] = (float)(all += x[j]);
            squares += x[j] * x[j];
            if (sum[j] > most) most = sum[j], *where = j;
        }
        ((double *)out[2].data)[i] = squares;
    }
}

/* The first input's every second element times the second's first. */
static void halve(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    const float *x = in[0].data, *f = in[1].data;
    (void)arg;
    for (int64_t i = 0; i < elements(&out[0]); i++) ((float *)out[0].data)[i] = x[2 * i] * f[0];
}

static qn_code cube_slope(qn_ctx *qn, void *arg, qn_tensor *const *x, qn_tensor *const *y,
                          qn_tensor *const *g, qn_tensor **slope) {
    (void)qn, (void)arg, (void)y;
    slope[0] = qn_mul(g[0], qn_mul(qn_square(x[0]), qn_scalar(qn, QN_F32, 3)));
    return QN_OK;
}

static qn_custom_options cube_options(void *arg) {
    qn_custom_options o = QN_CUSTOM_OPTIONS(.name = "cube", .n_in = 1, .n_out = 1, .function = cube,
                                            .gradient = cube_slope, .arg = arg);
    o.in_dtypes[0] = o.out_dtypes[0] = QN_F32;
    return o;
}

static qn_custom *new_cube(qn_ctx *qn, void *arg, bool rows) {
    qn_custom_options o = cube_options(arg);
    o.rows = rows;
    return qn_custom_new(qn, &o);
}

static qn_custom *new_sums(qn_ctx *qn) {
    qn_custom_options o = QN_CUSTOM_OPTIONS(.name = "sums", .n_in = 1, .n_out = 3, .function = sums,
                                            .rows = true, .cost = 1e5);
    o.in_dtypes[0] = o.out_dtypes[0] = QN_F32;
    o.out_dtypes[1] = QN_I64;
    o.out_dtypes[2] = QN_F64;
    return qn_custom_new(qn, &o);
}

/* With a result of x's shape. */
static qn_tensor *apply(qn_custom *k, qn_tensor *x) {
    int64_t dims[QN_MAX_RANK];
    qn_tensor *y = NULL;
    qn_custom_shape shape = {qn_rank(x), dims};
    for (int i = 0; i < shape.rank; i++) dims[i] = qn_dim(x, i);
    qn_custom_call(k, 1, &x, 1, &shape, &y);
    return y;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void what_is_around_fuses_of_each_device(void) {
    qn_ctx *qn = begin();
    qn_tensor *x = numbers(qn, 2, (int64_t[]){5, 7});
    qn_custom *k = new_cube(qn, NULL, false);
    qn_tensor *a = qn_add(qn_mul(x, qn_scalar(qn, QN_F32, 2)), qn_scalar(qn, QN_F32, 1));
    qn_tensor *y = qn_neg(qn_relu(apply(k, a)));
    qn_stats s, t;
    qn_get_stats(qn, &s, sizeof s);
    CHECK_INT(qn_realize(1, &y), QN_OK);
    qn_get_stats(qn, &t, sizeof t);
    if (strcmp(device, "ref")) CHECK_INT(t.kernels - s.kernels, 3);
    const float *got = values(y), *in = values(x);
    for (int i = 0; i < 35; i++) {
        float b = in[i] * 2 + 1, want = b * b * b > 0 ? -(b * b * b) : -0.0f;
        CHECK(got[i] == want);
    }
    end(qn);
}

static void what_is_around_fuses(void) {
    on_each_device(what_is_around_fuses_of_each_device);
}

static void check_sums(qn_ctx *qn, qn_tensor *const *r, qn_tensor *x, int rows, int n) {
    static double squares[1 << 12];
    static int64_t where[1 << 12];
    const float *sum = values(r[0]), *in = values(x);
    CHECK_INT(qn_read(r[1], where, sizeof where), QN_OK);
    CHECK_INT(qn_read(r[2], squares, sizeof squares), QN_OK);
    if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
    for (int i = 0; i < rows && !test_state.bad; i++) {
        double all = 0, square = 0, most = -INFINITY;
        int64_t at = 0;
        for (int j = 0; j < n; j++, in++) {
            all += *in;
            square += *in * *in;
            if ((float)all > most) most = (float)all, at = j;
            CHECK(sum[i * n + j] == (float)all);
        }
        CHECK_INT(where[i], at);
        CHECK(squares[i] == square);
    }
}

static qn_code call_sums(qn_custom *k, qn_tensor *x, qn_tensor **r) {
    int64_t rows = qn_dim(x, 0), n = qn_dim(x, 1), both[2] = {rows, n};
    qn_custom_shape shape[3] = {{2, both}, {1, &rows}, {1, &rows}};
    return qn_custom_call(k, 1, &x, 3, shape, r);
}

static void several_results_of_each_device(void) {
    qn_ctx *qn = begin();
    qn_custom *k = new_sums(qn);
    qn_tensor *x = numbers(qn, 2, (int64_t[]){1000, 9}), *r[3], *again[3];
    CHECK_INT(call_sums(k, x, r), QN_OK);
    CHECK_INT(qn_realize(3, r), QN_OK);
    check_sums(qn, r, x, 1000, 9);
    for (int i = 0; i < 3; i++) { /* one alone: others have room of their own */
        qn_tensor *y = qn_neg(x);
        CHECK_INT(call_sums(k, y, again), QN_OK);
        CHECK_INT(qn_realize(1, &again[i]), QN_OK);
        CHECK_INT(call_sums(k, y, again), QN_OK);
        check_sums(qn, again, y, 1000, 9);
    }
    x = numbers(qn, 2, (int64_t[]){0, 4});
    CHECK_INT(call_sums(k, x, r), QN_OK);
    check_sums(qn, r, x, 0, 4);
    end(qn);
}

static void several_results_of_rows_on_threads(void) {
    on_each_device(several_results_of_each_device);
}

static void rows_are_divided_among_threads(void) {
    qn_ctx *qn = begin();
    qn_custom_options o = cube_options(NULL);
    o.rows = true;
    o.cost = 1e6;
    qn_custom *k = qn_custom_new(qn, &o);
    qn_tensor *x = numbers(qn, 2, (int64_t[]){64, 4});
    atomic_store(&calls, 0);
    const float *got = values(apply(k, x)), *in = values(x);
    CHECK_INT(atomic_load(&calls), 3);
    for (int i = 0; i < 256; i++) CHECK(got[i] == in[i] * in[i] * in[i]);
    end(qn);
}

/* They have the same shapes, and their calls one launch each. */
static void kernels_are_told_apart(void) {
    qn_ctx *qn = begin();
    float one = 1, two = 2;
    qn_tensor *x = numbers(qn, 1, (int64_t[]){6});
    qn_custom *a = new_cube(qn, &one, false), *b = new_cube(qn, &two, false);
    const float *first = values(apply(a, x)), *second = values(apply(b, x));
    for (int i = 0; i < 6; i++)
        CHECK(second[i] == first[i] + 1 || fabsf(second[i] - first[i] - 1) < 1e-6f);
    atomic_store(&calls, 0);
    values(qn_add(qn_add(apply(a, x), apply(b, x)), apply(a, x)));
    CHECK_INT(atomic_load(&calls), 2);
    end(qn);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void gradients_of_each_device(void) {
    qn_ctx *qn = begin();
    qn_custom *k = new_cube(qn, NULL, false);
    qn_tensor *x = numbers(qn, 1, (int64_t[]){20}), *g, *h;
    qn_tensor *y = qn_square(apply(k, x));
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    CHECK_INT(qn_grad(g, NULL, 1, &x, &h), QN_OK);
    const float *in = values(x), *first = values(g), *second = values(h);
    for (int i = 0; i < 20; i++) { /* of x^6 */
        CHECK_NEAR(first[i], 6 * pow(in[i], 5), 1e-5, 1e-6);
        if (strcmp(device, "ref")) CHECK(isfinite(second[i]));
    }
    end(qn);
}

static void gradients_are_what_was_given(void) {
    on_each_device(gradients_of_each_device);
}

static void slopes_are_differentiated_again(void) {
    qn_ctx *qn = begin();
    qn_custom *k = new_cube(qn, NULL, false);
    qn_tensor *x = numbers(qn, 1, (int64_t[]){20}), *g, *h;
    CHECK_INT(qn_grad(apply(k, x), NULL, 1, &x, &g), QN_OK);
    CHECK_INT(qn_grad(g, NULL, 1, &x, &h), QN_OK);
    const float *in = values(x), *second = values(h);
    for (int i = 0; i < 20; i++) CHECK_NEAR(second[i], 6 * in[i], 1e-5, 1e-6);
    end(qn);
}

/* The sine's gradient calls the cosine, whose gradient calls the sine. */
static qn_custom *wave[2];

static void wave_of(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    for (int64_t i = 0; i < elements(&out[0]); i++) {
        double x = ((const double *)in[0].data)[i];
        ((double *)out[0].data)[i] = arg == &wave[0] ? sin(x) : cos(x);
    }
}

static qn_code wave_slope(qn_ctx *qn, void *arg, qn_tensor *const *x, qn_tensor *const *y,
                          qn_tensor *const *g, qn_tensor **slope) {
    (void)qn, (void)y;
    bool sine = arg == &wave[0];
    slope[0] = qn_mul(g[0], apply(wave[sine], x[0]));
    if (!sine) slope[0] = qn_neg(slope[0]);
    return QN_OK;
}

static void gradients_that_call_each_other_of_each_device(void) {
    qn_ctx *qn = begin();
    for (int i = 0; i < 2; i++) {
        qn_custom_options o =
            QN_CUSTOM_OPTIONS(.name = i ? "cosine" : "sine", .n_in = 1, .n_out = 1,
                              .function = wave_of, .gradient = wave_slope, .arg = &wave[i]);
        o.in_dtypes[0] = o.out_dtypes[0] = QN_F64;
        wave[i] = qn_custom_new(qn, &o);
    }
    double in[4] = {0.5, -1, 2, 3}, got[4];
    qn_tensor *x = qn_from(qn, QN_F64, 1, (int64_t[]){4}, in), *y = apply(wave[0], x);
    for (int order = 0; order <= 8; order++) {
        CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
        for (int i = 0; i < 4; i++) {
            double want = order % 2 ? cos(in[i]) : sin(in[i]);
            CHECK_NEAR(got[i], order / 2 % 2 ? -want : want, 1e-15, 1e-14);
        }
        if (order < 8) CHECK_INT(qn_grad(y, NULL, 1, &x, &y), QN_OK);
    }
    qn_tensor *ninth;
    CHECK_INT(qn_grad(y, NULL, 1, &x, &ninth), QN_EGRAPH);
    expect(qn, QN_EGRAPH, "sine: no gradient of a kernel that is called");
    CHECK_INT(qn_grad(apply(wave[1], x), NULL, 1, &x, &y), QN_OK);
    CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
    for (int i = 0; i < 4; i++) CHECK_NEAR(got[i], -sin(in[i]), 1e-15, 1e-14);
    end(qn);
}

static void gradients_may_call_each_other(void) {
    on_each_device(gradients_that_call_each_other_of_each_device);
}

static void no_gradient_is_an_error_and_never_zero(void) {
    qn_ctx *qn = begin();
    qn_custom_options o = cube_options(NULL);
    o.gradient = NULL;
    qn_tensor *x = numbers(qn, 1, (int64_t[]){4}), *g, *r[3];
    qn_tensor *y = qn_mul(apply(qn_custom_new(qn, &o), x), x);
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_EGRAPH);
    expect(qn, QN_EGRAPH, "cube: no gradient was given of this kernel");
    CHECK_INT(qn_grad(qn_mul(qn_detach(apply(qn_custom_new(qn, &o), x)), x), NULL, 1, &x, &g),
              QN_OK);
    x = numbers(qn, 2, (int64_t[]){4, 2}); /* integers pass nothing on */
    CHECK_INT(call_sums(new_sums(qn), x, r), QN_OK);
    y = qn_mul(qn_cast(qn_unsqueeze(r[1], 1), QN_F32), x);
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    values(g);
    end(qn);
}

/* ---- where calls stand ----------------------------------------------------------------------- */

/* A kernel of all that there is is called for each example, one of rows for all of theirs. */
static void maps_call_for_each_example(void) {
    for (int rows = 0; rows < 2; rows++) {
        qn_ctx *qn = begin();
        qn_custom *k = new_cube(qn, NULL, rows);
        qn_tensor *x = numbers(qn, 3, (int64_t[]){4, 3, 5}), *e = qn_example(x, 0), *y, *g;
        y = qn_neg(apply(k, e));
        CHECK_INT(qn_vmap(1, &y, NULL, 1, &e, &x, NULL, &y), QN_OK);
        atomic_store(&calls, 0);
        const float *got = values(y), *in = values(x);
        CHECK_INT(atomic_load(&calls), rows ? 1 : 4);
        for (int i = 0; i < 60; i++) CHECK(got[i] == -(in[i] * in[i] * in[i]));
        CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
        got = values(g);
        for (int i = 0; i < 60; i++) CHECK_NEAR(got[i], -3 * in[i] * in[i], 1e-6, 0);
        end(qn);
    }
}

/* Maps in maps, of two inputs of which one is the same for all, and a result of another shape. */
static void maps_nest_and_repeat_what_is_the_same(void) {
    qn_ctx *qn = begin();
    qn_custom_options o =
        QN_CUSTOM_OPTIONS(.name = "halve", .n_in = 2, .n_out = 1, .function = halve);
    o.in_dtypes[0] = o.in_dtypes[1] = o.out_dtypes[0] = QN_F32;
    qn_custom *k = qn_custom_new(qn, &o);
    qn_tensor *x = numbers(qn, 3, (int64_t[]){3, 2, 8}), *f = numbers(qn, 2, (int64_t[]){3, 4});
    qn_tensor *a = qn_example(x, 0), *b = qn_example(a, 0), *c = qn_example(f, 0), *y;
    int64_t four = 4;
    CHECK_INT(qn_custom_call(k, 2, (qn_tensor *[]){b, c}, 1, &(qn_custom_shape){1, &four}, &y), 0);
    CHECK_INT(qn_vmap(1, &y, NULL, 1, &b, &a, NULL, &y), QN_OK);
    CHECK_INT(qn_vmap(1, &y, NULL, 2, (qn_tensor *[]){a, c}, (qn_tensor *[]){x, f}, NULL, &y), 0);
    const float *got = values(y), *in = values(x), *by = values(f);
    for (int i = 0; i < 24; i++) CHECK(got[i] == in[2 * i] * by[i / 8 * 4]);
    end(qn);
}

static void bodies_of_loops_call_of_each_device(void) {
    qn_ctx *qn = begin();
    qn_custom *k = new_cube(qn, NULL, false);
    qn_tensor *x = numbers(qn, 1, (int64_t[]){3}), *g;
    qn_loop_options o = QN_LOOP_OPTIONS(.trips = 3);
    qn_loop *l = qn_loop_begin(qn, 1, &x, 0, NULL, &o);
    qn_tensor *h = qn_mul(apply(k, qn_loop_state(l, 0)), qn_scalar(qn, QN_F32, 2));
    qn_loop_end(l, 1, &h, 0, NULL);
    qn_tensor *last = qn_loop_final(l, 0);
    qn_loop_free(l);
    const float *got = values(last), *in = values(x);
    for (int i = 0; i < 3; i++) {
        double y = in[i];
        for (int t = 0; t < 3; t++) y = y * y * y * 2;
        CHECK_NEAR(got[i], y, 1e-5, 1e-7);
    }
    CHECK_INT(qn_grad(qn_sum(last, QN_ALL, false), NULL, 1, &x, &g), QN_OK);
    got = values(g), in = values(x);
    for (int i = 0; i < 3; i++) {
        double y = in[i], slope = 1;
        for (int t = 0; t < 3; t++) slope *= 6 * y * y, y = y * y * y * 2;
        CHECK_NEAR(got[i], slope, 1e-5, 1e-7);
    }
    end(qn);
}

static void bodies_of_loops_call(void) {
    on_each_device(bodies_of_loops_call_of_each_device);
}

static void static_graphs_of_each_device(void) {
    if (!strcmp(device, "ref")) return; /* it has none */
    qn_ctx *qn = begin();
    qn_custom *k = new_sums(qn);
    int64_t t = qn_var(qn, "t", 1, 64);
    qn_tensor *r[3], *out[3];
    CHECK_INT(qn_bind(qn, t, 2), QN_OK);
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){t, 6}, (float[12]){0});
    CHECK_INT(call_sums(k, x, r), QN_OK);
    r[0] = qn_neg(qn_neg(r[0]));
    qn_plan *p = qn_plan_new(qn, 1, &x, 3, r);
    if (!p) FAIL("%s: %s", device, qn_error(qn));
    for (int n = 3; n < 40 && p; n += 18) {
        qn_tensor *data = numbers(qn, 2, (int64_t[]){n, 6});
        CHECK_INT(qn_plan_run(p, &data, out), QN_OK);
        check_sums(qn, out, data, n, 6);
    }
    qn_plan_free(p);
    end(qn);
}

static void static_graphs_of_sizes_that_vary(void) {
    on_each_device(static_graphs_of_each_device);
}

/* ---- C as text ------------------------------------------------------------------------------- */

static const char *const softplus = "#include <math.h>\n"
                                    "void softplus(void *arg, const qn_custom_array *in,\n"
                                    "              const qn_custom_array *out) {\n"
                                    "    const float *x = in->data;\n"
                                    "    float *y = out->data;\n"
                                    "    for (int64_t i = 0; i < in->shape[0]; i++)\n"
                                    "        y[i] = x[i] > 20 ? x[i] : log1pf(expf(x[i]));\n"
                                    "}\n";

static qn_custom_options source_options(const char *text) {
    qn_custom_options o = QN_CUSTOM_OPTIONS(.name = "softplus", .n_in = 1, .n_out = 1,
                                            .c_source = text, .rows = true);
    o.in_dtypes[0] = o.out_dtypes[0] = QN_F32;
    return o;
}

static void c_is_compiled_of_each_device(void) {
    qn_ctx *qn = begin();
    qn_custom_options o = source_options(softplus);
    qn_custom *k = qn_custom_new(qn, &o);
    qn_tensor *x = numbers(qn, 1, (int64_t[]){500});
    const float *got = values(apply(k, x)), *in = values(x);
    for (int i = 0; i < 500; i++) CHECK_NEAR(got[i], log1p(exp(in[i])), 1e-6, 0);
    end(qn);
}

static void c_as_text_is_compiled(void) {
    on_each_device(c_is_compiled_of_each_device);
}

static void refused_text_says_where(void) {
    qn_ctx *qn = begin();
    qn_custom_options o = source_options("void softplus(void *arg, const qn_custom_array *in,\n"
                                         "              const qn_custom_array *out) {\n"
                                         "    out->dat = 0;\n}\n");
    CHECK(!qn_custom_new(qn, &o));
    expect(qn, QN_EDEVICE, "softplus:3:");
    o.c_source = "int other;";
    CHECK(!qn_custom_new(qn, &o));
    expect(qn, QN_EARG, "defines no function \"softplus\"");
    o.c_source = "void nowhere(void); void softplus(void) { nowhere(); }";
    CHECK(!qn_custom_new(qn, &o));
    expect(qn, QN_EDEVICE, "nowhere");
    end(qn);
    setenv("QN_CC", "/no/such/compiler", 1);
    qn = begin();
    unsetenv("QN_CC");
    o.c_source = softplus;
    CHECK(!qn_custom_new(qn, &o));
    expect(qn, QN_EDEVICE, "/no/such/compiler");
    end(qn);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void refuse_options(qn_ctx *qn, qn_custom_options o, qn_code code, const char *text) {
    CHECK(!qn_custom_new(qn, &o));
    expect(qn, code, text);
}

/* Writes i % 4 as truths, and the same where nobody wants it. */
static void truths(void *arg, const qn_custom_array *in, const qn_custom_array *out) {
    (void)arg;
    for (int64_t i = 0; i < elements(&in[0]); i++)
        ((uint8_t *)out[0].data)[i] = (uint8_t)((const float *)in[0].data)[i];
}

/* What a function writes that is not 0 is true. */
static void bools_are_1_of_each_device(void) {
    static const float v[8] = {0, 1, 2, 255, 3, 0, 128, 1};
    for (int rows = 0; rows < 2; rows++) {
        qn_ctx *qn = begin();
        qn_custom_options o = QN_CUSTOM_OPTIONS(.name = "truths", .n_in = 1, .n_out = 1,
                                                .function = truths, .rows = rows);
        o.in_dtypes[0] = QN_F32;
        o.out_dtypes[0] = QN_BOOL;
        qn_custom *k = qn_custom_new(qn, &o);
        qn_tensor *y = apply(k, qn_from(qn, QN_F32, 2, (int64_t[]){4, 2}, v));
        uint8_t got[8];
        CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
        for (int i = 0; i < 8; i++) CHECK_INT(got[i], v[i] != 0);
        float *one = values(qn_cast(qn_eq(y, qn_ones_like(y)), QN_F32));
        for (int i = 0; i < 8; i++) CHECK(one[i] == (v[i] != 0));
        end(qn);
    }
}

static void bools_are_1(void) {
    on_each_device(bools_are_1_of_each_device);
}

static void options_are_checked(void) {
    qn_ctx *qn = begin();
    qn_custom_options o = cube_options(NULL);
    CHECK(!qn_custom_new(NULL, &o) && !qn_custom_new(qn, NULL));
    expect(qn, QN_ENULL, "options is NULL");
    o.name = "two words";
    refuse_options(qn, o, QN_EARG, "name is none of C");
    o.name = "cube";
    o.n_in = 4;
    refuse_options(qn, o, QN_EARG, "4 inputs; there are 1 to 3");
    o.n_in = 1;
    o.n_out = 0;
    refuse_options(qn, o, QN_EARG, "0 results; there are 1 to 5");
    o.n_out = 1;
    o.out_dtypes[0] = (qn_dtype)77;
    refuse_options(qn, o, QN_EDTYPE, "result 0 is of dtype 77");
    o.out_dtypes[0] = QN_C64;
    refuse_options(qn, o, QN_EDTYPE, "c64");
    o.out_dtypes[0] = QN_F32;
    o.c_source = "";
    refuse_options(qn, o, QN_EARG, "two of a function");
    o.function = NULL;
    o.c_source = NULL;
    refuse_options(qn, o, QN_EARG, "neither a function nor");
    o.size = 1;
    refuse_options(qn, o, QN_EARG, "qn_custom_options");
    end(qn);
}

static void calls_name_what_does_not_fit(void) {
    qn_ctx *qn = begin(), *other = begin();
    qn_custom *k = new_cube(qn, NULL, true);
    int64_t four = 4, five = 5, bad = -1;
    qn_tensor *x = numbers(qn, 1, &four), *y = x, *wide = qn_cast(x, QN_F64);
    qn_custom_shape shape = {1, &five};
    CHECK_INT(qn_custom_call(NULL, 1, &x, 1, &shape, &y), QN_ENULL);
    CHECK(!y);
    CHECK_INT(qn_custom_call(k, 1, &x, 1, &shape, &y), QN_ESHAPE);
    expect(qn, QN_ESHAPE, "cube: result 0 of [5] for input 0 of [4]");
    shape.shape = &bad;
    CHECK(qn_custom_call(k, 1, &x, 1, &shape, &y) != QN_OK);
    expect(qn, qn_error_code(qn), "cube: result 0");
    shape.shape = &four;
    CHECK_INT(qn_custom_call(k, 1, &wide, 1, &shape, &y), QN_EDTYPE);
    expect(qn, QN_EDTYPE, "cube: input 0 is f64, and the kernel takes f32");
    CHECK_INT(qn_custom_call(k, 2, (qn_tensor *[]){x, x}, 1, &shape, &y), QN_EARG);
    expect(qn, QN_EARG, "cube: 2 inputs, and it takes 1");
    CHECK_INT(qn_custom_call(k, 1, &x, 1, NULL, &y), QN_ENULL);
    expect(qn, QN_ENULL, "shapes is NULL");
    qn_tensor *foreign = numbers(other, 1, &four);
    CHECK_INT(qn_custom_call(k, 1, &foreign, 1, &shape, &y), QN_EGRAPH);
    expect(qn, QN_EGRAPH, "input 0 belongs to another context");
    end(other);
    end(qn);
}

static qn_code bad_slope(qn_ctx *qn, void *arg, qn_tensor *const *x, qn_tensor *const *y,
                         qn_tensor *const *g, qn_tensor **slope) {
    (void)qn, (void)x, (void)y;
    slope[0] = arg ? qn_matmul(g[0], g[0]) : qn_sum(g[0], QN_ALL, false);
    return QN_OK;
}

static void slopes_are_checked(void) {
    qn_ctx *qn = begin();
    qn_custom_options o = cube_options(NULL);
    o.gradient = bad_slope;
    o.function = cube;
    qn_tensor *x = numbers(qn, 2, (int64_t[]){2, 3});
    CHECK(!apply(qn_custom_new(qn, &o), x));
    expect(qn, QN_ESHAPE, "slope");
    o.arg = &o;
    CHECK(!apply(qn_custom_new(qn, &o), x));
    expect(qn, QN_ESHAPE, "matmul");
    end(qn);
}

/* ---- lifetimes and memory -------------------------------------------------------------------- */

static uint64_t handles(const qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s.handles;
}

static void results_belong_to_the_callers_scope(void) {
    qn_ctx *qn = begin();
    qn_custom *k = new_cube(qn, NULL, false);
    qn_tensor *x = numbers(qn, 1, (int64_t[]){4});
    uint64_t before = handles(qn);
    qn_tensor *y = apply(k, x);
    CHECK_INT(handles(qn) - before, 1);
    qn_release(y);
    qn_scope scope = qn_scope_begin(qn);
    apply(k, x);
    qn_scope_end(qn, scope);
    CHECK_INT(handles(qn), before);
    end(qn);
}

static int64_t left = -1;

static void *get(void *user, size_t size, size_t align) {
    (void)user;
    if (left == 0) return NULL;
    if (left > 0) left--;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void give(void *user, void *p, size_t size) {
    (void)user, (void)size;
    free(p);
}

enum { FUNCTION, SOURCE, LOOPS };

static qn_code make_and_run(qn_ctx *qn, qn_tensor *x, int kind) {
    static const char *const text = "kernel \"cube\" {\n  dim n 1 9\n  arg a0 f32[n] write\n"
                                    "  arg a1 f32[n] read\n  for i < n {\n"
                                    "    a0[i] = mul(a1[i], mul(a1[i], a1[i]))\n  }\n}\n";
    qn_scope scope = qn_scope_begin(qn);
    qn_custom_options o = kind == SOURCE ? source_options(softplus) : cube_options(NULL);
    if (kind == LOOPS) {
        o.function = NULL;
        o.kernel = text;
        o.axes = "n";
    }
    qn_tensor *y = NULL, *g = NULL;
    qn_custom *k = qn_custom_new(qn, &o);
    if (k) y = apply(k, x);
    if (y && kind != SOURCE) qn_grad(y, NULL, 1, &x, &g);
    if (kind == SOURCE) g = y;
    qn_code code = g ? qn_realize(1, &g) : qn_error_code(qn);
    if (scope) qn_scope_end(qn, scope);
    return code;
}

static void memory_may_be_out_anywhere(void) {
    for (int kind = FUNCTION; kind <= LOOPS; kind++) {
        int64_t n = 0;
        for (qn_code code = QN_ENOMEM; code && !test_state.bad; n += kind ? 7 : 1) {
            qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .alloc = get, .free = give));
            qn_tensor *x = numbers(qn, 1, (int64_t[]){4});
            left = n;
            code = make_and_run(qn, x, kind);
            left = -1;
            if (code && qn_error_code(qn) != QN_ENOMEM) FAIL("%d: %s", (int)n, qn_error(qn));
            qn_clear_error(qn);
            if (kind != SOURCE) CHECK_INT(make_and_run(qn, x, kind), QN_OK);
            qn_close(qn);
        }
        CHECK(n > 10);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(what_is_around_fuses);
    RUN(several_results_of_rows_on_threads);
    RUN(rows_are_divided_among_threads);
    RUN(kernels_are_told_apart);
    RUN(gradients_are_what_was_given);
    RUN(slopes_are_differentiated_again);
    RUN(gradients_may_call_each_other);
    RUN(no_gradient_is_an_error_and_never_zero);
    RUN(maps_call_for_each_example);
    RUN(maps_nest_and_repeat_what_is_the_same);
    RUN(bodies_of_loops_call);
    RUN(static_graphs_of_sizes_that_vary);
    RUN(c_as_text_is_compiled);
    RUN(refused_text_says_where);
    RUN(bools_are_1);
    RUN(options_are_checked);
    RUN(calls_name_what_does_not_fit);
    RUN(slopes_are_checked);
    RUN(results_belong_to_the_callers_scope);
    RUN(memory_may_be_out_anywhere);
    return test_end();
}
