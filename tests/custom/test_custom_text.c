/* test_custom_text.c - kernels of the user's as loops in text: one for all sizes on each device, in
 * maps and static graphs, results that are read, what is refused and where it says so. */
#include "device_here.h"
#include "quern_custom.h"
#include "test.h"

#include <math.h>

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

static const char *const rows_text = "kernel \"softmax\" {\n"
                                     "  dim n 0 100000\n"
                                     "  dim m 1 100000\n"
                                     "  arg a0 f32[n*m] write\n"
                                     "  arg a1 f32[n*m] read\n"
                                     "  arg a2 f32[m] read\n"
                                     "  reg t0 f32[1]\n"
                                     "  reg t1 f32[1]\n"
                                     "  for i < n {\n"
                                     "    def t0 = f32(-inf)\n"
                                     "    for j < m {\n"
                                     "      t0[0] max= a1[i*m + j]\n"
                                     "    }\n"
                                     "    def t1 = f32(0)\n"
                                     "    for k < m {\n"
                                     "      t1[0] += exp(sub(a1[i*m + k], t0[0]))\n"
                                     "    }\n"
                                     "    for l < m {\n"
                                     "      a0[i*m + l] = mul(a2[l], div(exp(sub(a1[i*m + l], "
                                     "t0[0])), t1[0]))\n"
                                     "    }\n"
                                     "  }\n"
                                     "}\n";

static qn_custom_options loops_options(const char *text, const char *axes) {
    qn_custom_options o =
        QN_CUSTOM_OPTIONS(.name = "loops", .n_in = 2, .n_out = 1, .kernel = text, .axes = axes);
    o.in_dtypes[0] = o.in_dtypes[1] = o.out_dtypes[0] = QN_F32;
    return o;
}

static qn_tensor *call_rows(qn_custom *k, qn_tensor *x, qn_tensor *w) {
    qn_tensor *y = NULL, *in[2] = {x, w};
    int64_t dims[2] = {qn_dim(x, 0), qn_dim(x, 1)};
    qn_custom_call(k, 2, in, 1, &(qn_custom_shape){2, dims}, &y);
    return y;
}

static void check_rows(const float *got, qn_tensor *x, qn_tensor *w) {
    int64_t n = qn_dim(x, 0), m = qn_dim(x, 1);
    const float *in = values(x), *by = values(w);
    for (int64_t i = 0; i < n; i++) {
        long double all = 0;
        for (int64_t j = 0; j < m; j++) all += expl((long double)in[i * m + j]);
        for (int64_t j = 0; j < m; j++)
            CHECK_NEAR(got[i * m + j], (double)(by[j] * expl((long double)in[i * m + j]) / all),
                       2e-6, 1e-9);
    }
}

static void loops_of_each_device(void) {
    static const int64_t sizes[][2] = {{1, 1}, {5, 7}, {64, 200}, {300, 33}, {0, 4}};
    qn_ctx *qn = begin();
    qn_custom_options o = loops_options(rows_text, "n m, m");
    qn_custom *k = qn_custom_new(qn, &o);
    if (!k) FAIL("%s: %s", device, qn_error(qn));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && k; i++) {
        qn_tensor *x = numbers(qn, 2, sizes[i]), *w = numbers(qn, 1, &sizes[i][1]);
        check_rows(values(qn_neg(qn_neg(call_rows(k, x, w)))), x, w);
    }
    end(qn);
}

static void loops_as_text_serve_all_sizes(void) {
    on_each_device(loops_of_each_device);
}

static void loops_in_maps_and_static_graphs_of_each_device(void) {
    qn_ctx *qn = begin();
    qn_custom_options o = loops_options(rows_text, "n m, m");
    qn_custom *k = qn_custom_new(qn, &o);
    qn_tensor *x = numbers(qn, 3, (int64_t[]){3, 5, 7}), *w = numbers(qn, 1, (int64_t[]){7});
    qn_tensor *e = qn_example(x, 0), *y = call_rows(k, e, w), *out;
    CHECK_INT(qn_vmap(1, &y, NULL, 1, &e, &x, NULL, &y), QN_OK); /* memory of any alignment */
    const float *got = values(y);
    check_rows(got, qn_reshape(x, 2, (int64_t[]){15, 7}), w);
    int64_t t = qn_var(qn, "t", 1, 64);
    CHECK_INT(qn_bind(qn, t, 2), QN_OK);
    x = qn_from(qn, QN_F32, 2, (int64_t[]){t, 7}, (float[14]){0});
    y = call_rows(k, x, w);
    qn_plan *p = strcmp(device, "ref") ? qn_plan_new(qn, 1, &x, 1, &y) : NULL;
    for (int n = 3; n < 40 && p; n += 18) {
        qn_tensor *data = numbers(qn, 2, (int64_t[]){n, 7});
        CHECK_INT(qn_plan_run(p, &data, &out), QN_OK);
        check_rows(values(out), data, w);
    }
    if (p) qn_plan_free(p);
    end(qn);
}

static void loops_stand_in_maps_and_static_graphs(void) {
    on_each_device(loops_in_maps_and_static_graphs_of_each_device);
}

/* What it also reads begins as zeros, whatever the memory held. */
static void results_that_are_read_begin_as_zeros(void) {
    static const char *const text = "kernel \"count\" {\n"
                                    "  dim n 0 100000\n"
                                    "  arg a0 f32[8] read write\n"
                                    "  arg a1 i64[n] read\n"
                                    "  for i < n {\n"
                                    "    a0[0; dyn=a1[i]; guard=and(le(i64(0), a1[i]), lt(a1[i], "
                                    "i64(8)))] += f32(1)\n"
                                    "  }\n"
                                    "}\n";
    qn_ctx *qn = begin();
    qn_custom_options o =
        QN_CUSTOM_OPTIONS(.name = "count", .n_in = 1, .n_out = 1, .kernel = text, .axes = "n");
    o.in_dtypes[0] = QN_I64;
    o.out_dtypes[0] = QN_F32;
    qn_custom *k = qn_custom_new(qn, &o);
    for (int again = 0; again < 3; again++) {
        int64_t at[100], n = 100, eight = 8, want[8] = {0};
        for (int i = 0; i < 100; i++) at[i] = (i * i + again) % 13 - 2;
        for (int i = 0; i < 100; i++)
            if (at[i] >= 0 && at[i] < 8) want[at[i]]++;
        qn_tensor *x = qn_from(qn, QN_I64, 1, &n, at), *y = NULL;
        qn_custom_call(k, 1, &x, 1, &(qn_custom_shape){1, &eight}, &y);
        const float *got = values(y);
        for (int i = 0; i < 8; i++) CHECK_INT((int)got[i], want[i]);
    }
    end(qn);
}

/* Nor is what the text leaves out what somebody else had there. */
static void what_is_left_out_is_zero(void) {
    static const char *const text = "kernel \"first\" {\n"
                                    "  dim n 1 100000\n"
                                    "  arg a0 f32[n] write\n"
                                    "  arg a1 f32[n] read\n"
                                    "  for i < 1 {\n"
                                    "    a0[i] = a1[i]\n"
                                    "  }\n"
                                    "}\n";
    qn_ctx *qn = begin();
    qn_custom_options o =
        QN_CUSTOM_OPTIONS(.name = "first", .n_in = 1, .n_out = 1, .kernel = text, .axes = "n");
    o.in_dtypes[0] = o.out_dtypes[0] = QN_F32;
    qn_custom *k = qn_custom_new(qn, &o);
    int64_t n = 65536;
    for (int again = 0; again < 3; again++) {
        qn_tensor *x = qn_full(qn, QN_F32, 1, &n, 7), *y = NULL, *filled = qn_add(x, x);
        qn_realize(1, &filled);
        qn_release(filled);
        qn_custom_call(k, 1, &x, 1, &(qn_custom_shape){1, &n}, &y);
        const float *got = values(y);
        int64_t wrong = got[0] != 7;
        for (int64_t i = 1; i < n; i++) wrong += got[i] != 0;
        CHECK_INT(wrong, 0);
    }
    end(qn);
}

static void refuse_loops(qn_ctx *qn, qn_custom_options o, qn_code code, const char *text) {
    CHECK(!qn_custom_new(qn, &o));
    expect(qn, code, text);
}

static void loops_are_checked(void) {
    qn_ctx *qn = begin();
    qn_custom_options o = loops_options(rows_text, "n m, m");
    char past[2048];
    snprintf(past, sizeof past, "%s", rows_text);
    memcpy(strstr(past, "a1[i*m + j]"), "a1[i*m+j+1]", 11);
    refuse_loops(qn, loops_options(past, "n m, m"), QN_EFORMAT, "line 12, in j: past the end");
    refuse_loops(qn, loops_options("kernel", "n m, m"), QN_EFORMAT, "expected");
    refuse_loops(qn, loops_options(rows_text, "n 3, 3"), QN_EARG, "what dimension m is");
    refuse_loops(qn, loops_options(rows_text, "n m, m, m"), QN_EARG, "more inputs");
    refuse_loops(qn, loops_options(rows_text, "n k, m"), QN_EARG, "axis \"k\"");
    refuse_loops(qn, loops_options(rows_text, "* n m, m"), QN_EARG, "a * and axes");
    refuse_loops(qn, loops_options(rows_text, "n * m, m"), QN_EARG, "axis \"*\"");
    refuse_loops(qn, loops_options(rows_text, "*, *"), QN_EARG, "what dimension n is");
    refuse_loops(qn, loops_options(rows_text, "n n n n n n n n n n n n n n, m"), QN_EARG,
                 "more axes");
    refuse_loops(qn, loops_options(rows_text, NULL), QN_EARG, "what dimension n is");
    o.in_dtypes[1] = QN_F64;
    refuse_loops(qn, o, QN_EDTYPE, "a2 of the text is f32, and input 1 is f64");
    o.in_dtypes[1] = QN_F32;
    o.n_in = 1;
    refuse_loops(qn, o, QN_EARG, "more than 1 inputs");
    o.n_in = 3;
    refuse_loops(qn, o, QN_EARG, "2 inputs and 1 results, and 3 and 1");
    o.n_in = 2;
    o.rows = true;
    refuse_loops(qn, o, QN_EARG, "rows are for functions");
    o.rows = false;
    o.c_source = "";
    refuse_loops(qn, o, QN_EARG, "two of a function");
    o.c_source = NULL;
    qn_custom *k = qn_custom_new(qn, &o);
    qn_tensor *x = numbers(qn, 2, (int64_t[]){4, 6}), *w = numbers(qn, 1, (int64_t[]){5});
    CHECK(!call_rows(k, x, w));
    expect(qn, QN_ESHAPE, "loops: axis 0 of input 1 is 5, where m is 6");
    CHECK(!call_rows(k, x, x));
    expect(qn, QN_ESHAPE, "loops: input 1 has 2 axes, and the kernel takes 1");
    qn_tensor *y, *in[2] = {x, numbers(qn, 1, (int64_t[]){6})};
    CHECK(qn_custom_call(k, 2, in, 1, &(qn_custom_shape){1, (int64_t[]){25}}, &y) != QN_OK);
    expect(qn, QN_ESHAPE, "loops: result 0 has 25 elements, and a0 of the kernel 24");
    end(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(loops_as_text_serve_all_sizes);
    RUN(loops_stand_in_maps_and_static_graphs);
    RUN(results_that_are_read_begin_as_zeros);
    RUN(what_is_left_out_is_zero);
    RUN(loops_are_checked);
    return test_end();
}
