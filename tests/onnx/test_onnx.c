/* test_onnx.c - models of the ONNX format: what is read, recorded, refused. Models are written here
 * by hand, as protocol buffers; what operators give is compared with the reference by `make
 * onnx-tests`, so the values here are few, and worked out by hand. */
#include "device_here.h"
#include "onnx_write.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* y = relu(x made flat + its number of elements), of which x's shape says all. */
static message reshaping(void) {
    message g = {.size = 0}, n;
    int64_t minus = -1, zero = 0;
    put_in(&g, "x", ONNX_FLOAT, 2, (int64_t[]){-1, 3});
    put_out(&g, "y", ONNX_FLOAT);
    n = tensor_of_ints("flat", 1, &minus);
    put_message(&g, 5, &n);
    n = tensor_of_ints("axis", 1, &zero);
    put_message(&g, 5, &n);
    n = node("Shape", "x", "s");
    put_node(&g, &n);
    n = node("ReduceProd", "s axis", "p");
    put_node(&g, &n);
    n = node("Reshape", "x p", "r");
    put_node(&g, &n);
    n = node("Cast", "p", "f");
    add_int(&n, "to", ONNX_FLOAT);
    put_node(&g, &n);
    n = node("Add", "r f", "a");
    put_node(&g, &n);
    n = node("Relu", "a", "y");
    put_node(&g, &n);
    return whole(&g, 18);
}

/* y_t = the sum of x's first rows, by Scan. */
static message scanning(void) {
    message body = {.size = 0}, g = body, n;
    put_in(&body, "s", ONNX_FLOAT, 1, (int64_t[]){2});
    put_in(&body, "row", ONNX_FLOAT, 1, (int64_t[]){2});
    put_out(&body, "next", ONNX_FLOAT);
    put_out(&body, "out", ONNX_FLOAT);
    n = node("Add", "s row", "next");
    put_node(&body, &n);
    n = node("Identity", "next", "out");
    put_node(&body, &n);
    put_in(&g, "s0", ONNX_FLOAT, 1, (int64_t[]){2});
    put_in(&g, "x", ONNX_FLOAT, 2, (int64_t[]){-1, 2});
    put_out(&g, "last", ONNX_FLOAT);
    put_out(&g, "all", ONNX_FLOAT);
    n = node("Scan", "s0 x", "last all");
    add_int(&n, "num_scan_inputs", 1);
    add_graph(&n, "body", &body);
    put_node(&g, &n);
    return whole(&g, 18);
}

static message one_node(const message *n, int opset) {
    message g = {.size = 0};
    put_in(&g, "x", ONNX_FLOAT, 1, (int64_t[]){2});
    put_out(&g, "y", ONNX_FLOAT);
    put_node(&g, n);
    return whole(&g, opset);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void tells_of_inputs_and_outputs(void) {
    qn_ctx *qn = begin();
    message m = reshaping();
    qn_onnx *model = parsed(qn, &m);
    qn_onnx_value v;
    CHECK_INT(qn_onnx_inputs(model), 1);
    CHECK_INT(qn_onnx_outputs(model), 1);
    CHECK(qn_onnx_input_at(model, 0, &v, sizeof v));
    CHECK_STR(v.name, "x");
    CHECK_INT(v.dtype, QN_F32);
    CHECK_INT(v.rank, 2);
    CHECK_INT(v.shape[0], -1);
    CHECK_STR(v.dim_name[0], "n");
    CHECK_INT(v.shape[1], 3);
    CHECK(qn_onnx_output_at(model, 0, &v, sizeof v));
    CHECK_INT(v.rank, -1);
    CHECK(!qn_onnx_input_at(model, 1, &v, sizeof v));
    qn_onnx_close(model);
    end(qn);
}

/* Whatever is cut off or changed, it is an error or a model; calling that one is no crash. */
static void try_damaged(const message *m) {
    qn_ctx *qn = begin();
    qn_onnx *model = parsed(qn, m);
    CHECK(model || qn_error_code(qn) != QN_OK);
    qn_tensor *in[2] = {NULL}, *out[2] = {NULL};
    for (int i = 0; model && i < 2 && i < qn_onnx_inputs(model); i++)
        in[i] =
            numbers(qn, 2, i || qn_onnx_inputs(model) < 2 ? (int64_t[]){2, 3} : (int64_t[]){2, 2});
    if (model && qn_onnx_inputs(model) <= 2 && qn_onnx_outputs(model) <= 2) {
        qn_code code = qn_onnx_call(model, qn_onnx_inputs(model), in, qn_onnx_outputs(model), out);
        CHECK_INT(code, qn_error_code(qn));
    }
    qn_clear_error(qn);
    if (model) qn_onnx_close(model);
    qn_close(qn);
}

static void every_prefix_is_an_error_or_a_model(void) {
    message list[2] = {reshaping(), scanning()};
    device = "ref";
    for (int k = 0; k < 2; k++)
        for (size_t n = 0; n < list[k].size; n++) {
            message cut = list[k];
            cut.size = n;
            try_damaged(&cut);
        }
    device = "cpu";
}

static void changed_bytes_are_an_error_or_a_model(void) {
    message list[2] = {reshaping(), scanning()};
    uint64_t state = 1;
    device = "ref";
    for (int i = 0; i < 4000; i++) {
        message m = list[i % 2];
        int changes = 1 + i % 3;
        for (int k = 0; k < changes; k++) {
            state = hash_mix(state, (uint64_t)i);
            size_t at = state % m.size;
            const uint64_t changed =
                state >> 40 & 1 ? state >> 32
                                : (uint64_t)((uint8_t)(m.byte[at] ^ 1 << (state >> 32 & 7)));
            m.byte[at] = (uint8_t)changed;
        }
        try_damaged(&m);
    }
    device = "cpu";
}

static void damage_is_told_with_its_place(void) {
    qn_ctx *qn = begin();
    message m = {.size = 0};
    CHECK(!parsed(qn, &m));
    expect(qn, QN_EFORMAT, "not an ONNX model");
    put_varint(&m, 7 << 3 | 2);
    put_varint(&m, 1000);
    CHECK(!parsed(qn, &m));
    expect(qn, QN_EFORMAT, "at byte 3: a field that ends past its message");
    m.size = 0;
    for (int i = 0; i < 20; i++) m.byte[m.size++] = 0xff;
    CHECK(!parsed(qn, &m));
    expect(qn, QN_EFORMAT, "a number of more than 64 bits");
    end(qn);
}

static void graphs_in_graphs_have_a_bound(void) {
    qn_ctx *qn = begin();
    message g = {.size = 0};
    for (int i = 0; i < 60; i++) {
        message n = node("If", "c", "y"), up = {.size = 0};
        add_graph(&n, "then_branch", &g);
        put_node(&up, &n);
        g = up;
    }
    message m = whole(&g, 18);
    CHECK(!parsed(qn, &m));
    expect(qn, QN_EFORMAT, "too deep");
    end(qn);
}

static void shapes_need_their_elements(void) {
    qn_ctx *qn = begin();
    message n = node("Identity", "w", "y"), g = {.size = 0}, t = g;
    put_int(&t, 1, (int64_t)1 << 40);
    put_int(&t, 2, ONNX_FLOAT);
    put_text(&t, 8, "w");
    put_message(&g, 5, &t);
    put_node(&g, &n);
    put_out(&g, "y", ONNX_FLOAT);
    message m = whole(&g, 18);
    qn_onnx *model = parsed(qn, &m);
    qn_tensor *y;
    CHECK_INT(qn_onnx_call(model, 0, NULL, 1, &y), QN_EFORMAT);
    expect(qn, QN_EFORMAT, "more elements than the file has");
    qn_onnx_close(model);
    end(qn);
}

/* ---- other files ----------------------------------------------------------------------------- */

static message elsewhere(const char *location, int64_t offset, int64_t n) {
    message g = {.size = 0}, t = g, e = g, node_of = node("Relu", "w", "y");
    char text[32];
    put_int(&t, 1, n);
    put_int(&t, 2, ONNX_FLOAT);
    put_text(&t, 8, "w");
    put_text(&e, 1, "location");
    put_text(&e, 2, location);
    put_message(&t, 13, &e);
    e.size = 0;
    snprintf(text, sizeof text, "%lld", (long long)offset);
    put_text(&e, 1, "offset");
    put_text(&e, 2, text);
    put_message(&t, 13, &e);
    put_int(&t, 14, 1);
    put_message(&g, 5, &t);
    put_node(&g, &node_of);
    put_out(&g, "y", ONNX_FLOAT);
    return whole(&g, 18);
}

static void call_elsewhere(qn_ctx *qn, const char *folder, const message *m, qn_code code,
                           const char *text) {
    qn_onnx *model = qn_onnx_parse(qn, m->byte, m->size, folder);
    qn_tensor *y = NULL;
    float v[2] = {0};
    CHECK_INT(qn_onnx_call(model, 0, NULL, 1, &y), code);
    if (code != QN_OK) {
        expect(qn, code, text);
    } else {
        CHECK_INT(qn_read(y, v, sizeof v), QN_OK);
        CHECK_NEAR((double)v[0], 0, 0, 0);
        CHECK_NEAR((double)v[1], 7, 0, 0);
        qn_release(y);
    }
    qn_onnx_close(model);
}

static void weights_in_other_files_stay_in_the_folder(void) {
    char folder[] = "/tmp/onnxXXXXXX", path[64], inner[64], link[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(inner, sizeof inner, "%s/in", folder);
    snprintf(path, sizeof path, "%s/in/w.bin", folder);
    snprintf(link, sizeof link, "%s/in/link", folder);
    CHECK_INT(mkdir(inner, 0700), 0);
    FILE *f = fopen(path, "wb");
    CHECK_INT(fwrite((float[]){1, -3, 7}, sizeof(float), 3, f), 3);
    fclose(f);
    CHECK_INT(symlink(path, link), 0);
    qn_ctx *qn = begin();
    message m = elsewhere("in/w.bin", 4, 2);
    call_elsewhere(qn, folder, &m, QN_OK, "");
    call_elsewhere(qn, NULL, &m, QN_EFORMAT, "the model is in no folder");
    m = elsewhere("in/w.bin", 8, 2);
    call_elsewhere(qn, folder, &m, QN_EFORMAT, "past the end of its file");
    m = elsewhere("in/none", 0, 2);
    call_elsewhere(qn, folder, &m, QN_EIO, "No such file");
    m = elsewhere("../w.bin", 0, 2);
    call_elsewhere(qn, inner, &m, QN_EFORMAT, "outside of the model's folder");
    m = elsewhere("x/../../w.bin", 0, 2);
    call_elsewhere(qn, inner, &m, QN_EFORMAT, "outside of the model's folder");
    m = elsewhere("/etc/passwd", 0, 2);
    call_elsewhere(qn, inner, &m, QN_EFORMAT, "outside of the model's folder");
    m = elsewhere("link", 4, 2);
    call_elsewhere(qn, inner, &m, QN_EIO, "\"link\"");
    m = elsewhere("in", 0, 2);
    call_elsewhere(qn, folder, &m, QN_EIO, "not a regular file");
    end(qn);
    unlink(link);
    unlink(path);
    rmdir(inner);
    rmdir(folder);
}

/* ---- calling --------------------------------------------------------------------------------- */

static void make_shapes(void) {
    qn_ctx *qn = begin();
    message m = reshaping();
    qn_onnx *model = parsed(qn, &m);
    qn_stats before, after;
    for (int64_t n = 1; n < 4; n++) {
        qn_tensor *x = numbers(qn, 2, (int64_t[]){n, 3}), *y = NULL;
        float v[9];
        qn_get_stats(qn, &before, sizeof before);
        CHECK_INT(qn_onnx_call(model, 1, &x, 1, &y), QN_OK);
        qn_get_stats(qn, &after, sizeof after);
        CHECK_INT(after.kernels, before.kernels);
        CHECK(!qn_onnx_depends(model));
        CHECK_INT(qn_rank(y), 1);
        CHECK_INT(qn_dim(y, 0), 3 * n);
        CHECK_INT(qn_read(y, v, (size_t)(3 * n) * sizeof *v), QN_OK);
        for (int i = 0; i < 3 * n; i++) {
            float sum = (float)(i - 4) + (float)(3 * n);
            CHECK_NEAR((double)v[i], sum < 0 ? 0 : (double)sum, 0, 0);
        }
        qn_release(x);
        qn_release(y);
    }
    qn_onnx_close(model);
    end(qn);
}

/* y = x w, w of 100 x 100 whole numbers: name says where in the bytes they begin. */
static message weighing(const char *name) {
    static float w[100 * 100];
    message g = {.size = 0}, n;
    char in[16];
    for (int i = 0; i < 100 * 100; i++) w[i] = (float)(i % 7 - 3);
    snprintf(in, sizeof in, "x %s", name);
    put_in(&g, "x", ONNX_FLOAT, 2, (int64_t[]){2, 100});
    put_out(&g, "y", ONNX_FLOAT);
    put_init(&g, name, ONNX_FLOAT, 2, (int64_t[]){100, 100}, sizeof w, w);
    n = node("MatMul", in, "y");
    put_node(&g, &n);
    return whole(&g, 18);
}

/* They are in memory once, whatever multiple of theirs they begin at, and as long as something is
 * to be computed of them. */
static void weights_lie_in_the_bytes_of_the_model(void) {
    static const char *const name[] = {"w", "ww", "www", "wwww"};
    for (int i = 0; i < 4; i++) {
        qn_ctx *qn = begin();
        message m = weighing(name[i]);
        qn_tensor *x = numbers(qn, 2, (int64_t[]){2, 100}), *y = NULL;
        float got[200], in[200];
        qn_stats before, after;
        CHECK_INT(qn_read(x, in, sizeof in), QN_OK);
        qn_onnx *model = parsed(qn, &m);
        qn_get_stats(qn, &before, sizeof before);
        CHECK_INT(qn_onnx_call(model, 1, &x, 1, &y), QN_OK);
        qn_get_stats(qn, &after, sizeof after);
        CHECK(after.bytes < before.bytes + 100 * 100);
        qn_onnx_close(model);
        CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
        for (int row = 0; row < 2; row++)
            for (int c = 0; c < 100; c++) {
                float want = 0;
                for (int r = 0; r < 100; r++)
                    want += in[100 * row + r] * (float)((100 * r + c) % 7 - 3);
                CHECK(got[100 * row + c] == want);
            }
        end(qn);
    }
}

static void shapes_are_made_aside(void) {
    device_each(&device, make_shapes);
}

/* Square roots and quotients in the graph that is computed, by the library's own account. */
static int roots;
static void count_roots(void *user, const char *line) {
    (void)user;
    roots += strstr(line, "sqrt") || strstr(line, " div ");
}

/* What follows weights alone is computed aside, so a norm of known statistics multiplies and adds;
 * statistics that are inputs give the same. */
static void batch_norms_are_folded_where_weights_are_known(void) {
    static const float weight[4][2] = {{2, -1}, {0.5f, 3}, {1, -2}, {4, 0.25f}};
    static const char *const name[4] = {"scale", "bias", "mean", "variance"};
    for (int known = 0; known < 2; known++) {
        message n = node("BatchNormalization", "x scale bias mean variance", "y"), g = {.size = 0};
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1, .log = count_roots));
        qn_tensor *in[5] = {numbers(qn, 3, (int64_t[]){1, 2, 3})}, *y = NULL;
        float got[6];
        put_in(&g, "x", ONNX_FLOAT, 3, (int64_t[]){1, 2, 3});
        for (int i = 0; i < 4; i++) {
            if (known)
                put_init(&g, name[i], ONNX_FLOAT, 1, (int64_t[]){2}, sizeof weight[i], weight[i]);
            else
                put_in(&g, name[i], ONNX_FLOAT, 1, (int64_t[]){2});
            in[i + 1] = qn_from(qn, QN_F32, 1, (int64_t[]){2}, weight[i]);
        }
        put_out(&g, "y", ONNX_FLOAT);
        put_node(&g, &n);
        message m = whole(&g, 15);
        qn_onnx *model = parsed(qn, &m);
        qn_set(qn, "debug", "g");
        roots = 0;
        CHECK_INT(qn_onnx_call(model, known ? 1 : 5, in, 1, &y), QN_OK);
        CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
        CHECK_INT(roots > 0, !known);
        for (int i = 0; i < 6; i++) {
            double x = i - 4, mean = (double)weight[2][i / 3], variance = (double)weight[3][i / 3];
            double want = (x - mean) / sqrt(variance + 1e-5) * (double)weight[0][i / 3] +
                          (double)weight[1][i / 3];
            CHECK_NEAR((double)got[i], want, 1e-6, 1e-6);
        }
        qn_onnx_close(model);
        end(qn);
    }
}

static void runs_keep_a_static_graph_of_each_shape(void) {
    qn_ctx *qn = begin();
    message m = reshaping();
    qn_onnx *model = parsed(qn, &m);
    qn_stats stats;
    uint64_t plans = 0;
    for (int i = 0; i < 6; i++) {
        int64_t n = 1 + i % 2;
        qn_tensor *x = numbers(qn, 2, (int64_t[]){n, 3}), *y = NULL;
        float v[6];
        CHECK_INT(qn_onnx_run(model, 1, &x, 1, &y), QN_OK);
        CHECK_INT(qn_read(y, v, (size_t)(3 * n) * sizeof *v), QN_OK);
        CHECK_NEAR((double)v[2], (double)(3 * n) - 2, 0, 0);
        qn_get_stats(qn, &stats, sizeof stats);
        if (i == 1) plans = stats.plans;
        CHECK(i < 2 || stats.plans == plans);
        const onnx_model *of = object_of(model, HANDLE_ONNX, "test");
        CHECK(of->plans && of->plans->plan); /* the first, or beside the first the second */
        CHECK(i < 1 || (of->plans->next && !of->plans->next->next));
        qn_release(x);
        qn_release(y);
    }
    qn_onnx_close(model);
    end(qn);
}

/* An index that is outside is the first run's error, and then the next ones'. */
static void runs_that_fail_give_nothing(void) {
    message n = node("Gather", "x i", "y"), g = {.size = 0}, m;
    put_in(&g, "x", ONNX_FLOAT, 1, (int64_t[]){2});
    put_in(&g, "i", ONNX_INT64, 1, (int64_t[]){1});
    put_out(&g, "y", ONNX_FLOAT);
    put_node(&g, &n);
    m = whole(&g, 18);
    setenv("QN_CHECK", "1", 1);
    qn_ctx *qn = begin();
    qn_onnx *model = parsed(qn, &m);
    for (int i = 0; i < 3; i++) {
        qn_tensor *in[2] = {numbers(qn, 1, (int64_t[]){2}),
                            qn_from(qn, QN_I64, 1, (int64_t[]){1}, &(int64_t){7})};
        qn_tensor *y = in[0];
        CHECK(qn_onnx_run(model, 2, in, 1, &y) != QN_OK);
        CHECK(!y);
        CHECK(strstr(qn_error(qn), "7"));
        qn_clear_error(qn);
    }
    qn_onnx_close(model);
    end(qn);
    unsetenv("QN_CHECK");
}

static void gradients_pass_a_model(void) {
    qn_ctx *qn = begin();
    message m = reshaping();
    qn_onnx *model = parsed(qn, &m);
    qn_tensor *x = numbers(qn, 2, (int64_t[]){1, 3}), *y = NULL, *g = NULL;
    float v[3]; /* x + 3 = -1 0 1, of which relu lets the last pass */
    CHECK_INT(qn_onnx_call(model, 1, &x, 1, &y), QN_OK);
    CHECK_INT(qn_grad(y, NULL, 1, &x, &g), QN_OK);
    CHECK_INT(qn_read(g, v, sizeof v), QN_OK);
    CHECK_NEAR((double)v[0], 0, 0, 0);
    CHECK_NEAR((double)v[1], 0, 0, 0);
    CHECK_NEAR((double)v[2], 1, 0, 0);
    qn_onnx_close(model);
    end(qn);
}

static void scans_are_sums_of_rows(void) {
    message m = scanning();
    for (int64_t n = 1; n <= 40; n += 39) { /* recorded by trips, and as one loop */
        qn_ctx *qn = begin();
        qn_onnx *model = parsed(qn, &m);
        qn_tensor *in[2] = {qn_zeros(qn, QN_F32, 1, (int64_t[]){2}),
                            numbers(qn, 2, (int64_t[]){n, 2})};
        qn_tensor *out[2] = {NULL};
        float last[2], all[80], sum[2] = {0};
        CHECK_INT(qn_onnx_call(model, 2, in, 2, out), QN_OK);
        CHECK_INT(qn_read(out[0], last, sizeof last), QN_OK);
        CHECK_INT(qn_read(out[1], all, (size_t)(2 * n) * sizeof *all), QN_OK);
        for (int i = 0; i < 2 * n; i++) {
            sum[i % 2] += (float)(i - 4);
            CHECK_NEAR((double)all[i], (double)sum[i % 2], 0, 0);
        }
        CHECK_NEAR((double)last[0], (double)sum[0], 0, 0);
        CHECK_NEAR((double)last[1], (double)sum[1], 0, 0);
        qn_onnx_close(model);
        end(qn);
    }
}

/* A model of one node, called on x: its error. */
static void expect_of(const message *n, int opset, qn_code code, const char *text) {
    qn_ctx *qn = begin();
    message m = one_node(n, opset);
    qn_onnx *model = parsed(qn, &m);
    qn_tensor *x = numbers(qn, 1, (int64_t[]){2}), *y = NULL;
    CHECK_INT(qn_onnx_call(model, 1, &x, 1, &y), code);
    CHECK(!y);
    expect(qn, code, text);
    qn_onnx_close(model);
    end(qn);
}

static void errors_name_node_operator_and_opset(void) {
    message n = node("Reluu", "x", "y");
    expect_of(&n, 18, QN_EARG,
              "node \"here\" (Reluu, opset 18): there is no such operator; there is \"Relu\"");
    n = node("Mish", "x", "y");
    expect_of(&n, 17, QN_EARG, "(Mish, opset 17): the operator begins with opset 18");
    n = node("Add", "x z", "y");
    expect_of(&n, 18, QN_EFORMAT, "input \"z\" is not there");
    n = node("Add", "x -", "y");
    expect_of(&n, 18, QN_EARG, "input 1 is missing");
    n = node("Gemm", "x x", "y");
    expect_of(&n, 18, QN_ESHAPE, "(Gemm, opset 18): no matrices");
    n = node("Relu", "x", "z");
    expect_of(&n, 18, QN_EFORMAT, "output \"y\" is not there");
    n = node("Concat", "x", "y");
    add_int(&n, "axis", 3);
    expect_of(&n, 18, QN_ERANGE, "axis 3 of 1 axes");
}

static void inputs_are_checked(void) {
    qn_ctx *qn = begin();
    message n = node("Relu", "x", "y"), m = one_node(&n, 18);
    qn_onnx *model = parsed(qn, &m);
    qn_tensor *x = numbers(qn, 1, (int64_t[]){3}), *i = qn_zeros(qn, QN_I32, 1, (int64_t[]){2});
    qn_tensor *two = numbers(qn, 2, (int64_t[]){1, 2}), *y, *many[3] = {x, x, x};
    CHECK_INT(qn_onnx_call(model, 1, &x, 1, &y), QN_ESHAPE);
    expect(qn, QN_ESHAPE, "input \"x\": axis 0 is 3, and the model takes 2");
    CHECK_INT(qn_onnx_call(model, 1, &two, 1, &y), QN_ESHAPE);
    expect(qn, QN_ESHAPE, "has 2 axes, and the model takes 1");
    CHECK_INT(qn_onnx_call(model, 1, &i, 1, &y), QN_EDTYPE);
    expect(qn, QN_EDTYPE, "input \"x\" is i32, and the model takes f32 (FLOAT)");
    CHECK_INT(qn_onnx_call(model, 3, many, 1, &y), QN_EARG);
    expect(qn, QN_EARG, "3 inputs and 1 outputs");
    CHECK_INT(qn_onnx_run(model, 0, NULL, 1, &y), QN_EARG);
    expect(qn, QN_EARG, "input 0 is missing");
    qn_onnx_close(model);
    CHECK_INT(qn_onnx_call(model, 1, &x, 1, &y), QN_EGRAPH);
    qn_clear_error(qn);
    end(qn);
}

/* Which branch is taken follows from the input: it is read, and there is no static graph. */
static void values_that_were_read_are_told_of(void) {
    qn_ctx *qn = begin();
    message yes = {.size = 0}, no = yes, g = yes, n, m;
    put_out(&yes, "a", ONNX_FLOAT);
    n = node("Relu", "x", "a");
    put_node(&yes, &n);
    put_out(&no, "b", ONNX_FLOAT);
    n = node("Neg", "x", "b");
    put_node(&no, &n);
    put_in(&g, "c", ONNX_BOOL, 0, (int64_t[]){0});
    put_in(&g, "x", ONNX_FLOAT, 1, (int64_t[]){2});
    put_out(&g, "y", ONNX_FLOAT);
    n = node("If", "c", "y");
    add_graph(&n, "then_branch", &yes);
    add_graph(&n, "else_branch", &no);
    put_node(&g, &n);
    m = whole(&g, 18);
    qn_onnx *model = parsed(qn, &m);
    for (int i = 0; i < 4; i++) {
        qn_tensor *in[2] = {qn_from(qn, QN_BOOL, 0, NULL, &(uint8_t){i & 1}),
                            numbers(qn, 1, (int64_t[]){2})};
        qn_tensor *y = NULL;
        float v[2];
        CHECK_INT(qn_onnx_run(model, 2, in, 1, &y), QN_OK);
        CHECK(qn_onnx_depends(model));
        CHECK_INT(qn_read(y, v, sizeof v), QN_OK);
        CHECK_NEAR((double)v[0], i % 2 ? 0 : 4, 0, 0);
    }
    qn_onnx_close(model);
    end(qn);
}

/* y = x in the shape s, an input. */
static message reshaping_by_an_input(void) {
    message g = {.size = 0}, n;
    put_in(&g, "x", ONNX_FLOAT, 2, (int64_t[]){2, 3});
    put_in(&g, "s", ONNX_INT64, 1, (int64_t[]){1});
    put_out(&g, "y", ONNX_FLOAT);
    n = node("Reshape", "x s", "y");
    put_node(&g, &n);
    return whole(&g, 18);
}

static void inputs_with_a_value_are_known(void) {
    qn_ctx *qn = begin();
    message m = reshaping_by_an_input();
    qn_onnx *model = parsed(qn, &m);
    qn_onnx_value v;
    int64_t six = 6;
    qn_tensor *in[2] = {numbers(qn, 2, (int64_t[]){2, 3}),
                        qn_from(qn, QN_I64, 1, (int64_t[]){1}, &six)};
    qn_tensor *y = NULL;
    CHECK_INT(qn_onnx_call(model, 2, in, 1, &y), QN_OK);
    CHECK(qn_onnx_depends(model));
    CHECK(!qn_onnx_reads(model, 0));
    CHECK(qn_onnx_reads(model, 1));
    CHECK_INT(qn_onnx_fix(model, 1, in[1]), QN_OK);
    CHECK(qn_onnx_input_at(model, 1, &v, sizeof v) && v.optional);
    for (int static_graph = 0; static_graph < 2; static_graph++) {
        qn_code code =
            static_graph ? qn_onnx_run(model, 1, in, 1, &y) : qn_onnx_call(model, 1, in, 1, &y);
        CHECK_INT(code, QN_OK);
        CHECK(!qn_onnx_depends(model));
        CHECK_INT(qn_dim(y, 0), 6);
    }
    CHECK_INT(qn_onnx_fix(model, 1, NULL), QN_OK);
    CHECK(qn_onnx_input_at(model, 1, &v, sizeof v) && !v.optional);
    CHECK(qn_onnx_run(model, 1, in, 1, &y) != QN_OK); /* nor is there a graph of before */
    qn_clear_error(qn);
    CHECK_INT(qn_onnx_fix(model, 1, in[0]), QN_EDTYPE);
    qn_clear_error(qn);
    CHECK_INT(qn_onnx_fix(model, 2, in[0]), QN_ERANGE);
    qn_clear_error(qn);
    CHECK(!qn_onnx_reads(model, 2));
    CHECK_INT(qn_onnx_fix(NULL, 0, in[0]), QN_ENULL);
    qn_onnx_close(model);
    end(qn);
}

static void operators_are_listed(void) {
    const char *domain, *name;
    int first, last, n = 0;
    bool relu = false;
    for (; qn_onnx_operator_at(n, &domain, &name, &first, &last); n++)
        relu |= !strcmp(name, "Relu");
    CHECK(relu);
    CHECK(n > 150);
    CHECK(!qn_onnx_operator_at(-1, NULL, NULL, NULL, NULL));
}

static void memory_may_be_out_anywhere(void) {
    message m = reshaping();
    bool done = false;
    for (uint64_t at = 1; !done && at < 4000; at++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .threads = 1));
        qn_tensor *x = numbers(qn, 2, (int64_t[]){2, 3}), *y = NULL;
        qn->heap.fail_at = qn->heap.requests + at;
        qn_onnx *model = parsed(qn, &m);
        qn_code code = model ? qn_onnx_run(model, 1, &x, 1, &y) : qn_error_code(qn);
        done = code == QN_OK && qn->heap.requests < qn->heap.fail_at;
        if (code != QN_OK) CHECK_INT(code, QN_ENOMEM);
        CHECK(code == QN_OK || !y);
        qn->heap.fail_at = 0;
        qn_clear_error(qn);
        if (model) qn_onnx_close(model);
        qn_close(qn);
    }
    CHECK(done);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(tells_of_inputs_and_outputs);
    RUN(every_prefix_is_an_error_or_a_model);
    RUN(changed_bytes_are_an_error_or_a_model);
    RUN(damage_is_told_with_its_place);
    RUN(graphs_in_graphs_have_a_bound);
    RUN(shapes_need_their_elements);
    RUN(weights_in_other_files_stay_in_the_folder);
    RUN(weights_lie_in_the_bytes_of_the_model);
    RUN(shapes_are_made_aside);
    RUN(batch_norms_are_folded_where_weights_are_known);
    RUN(runs_keep_a_static_graph_of_each_shape);
    RUN(runs_that_fail_give_nothing);
    RUN(gradients_pass_a_model);
    RUN(scans_are_sums_of_rows);
    RUN(errors_name_node_operator_and_opset);
    RUN(inputs_are_checked);
    RUN(values_that_were_read_are_told_of);
    RUN(inputs_with_a_value_are_known);
    RUN(operators_are_listed);
    RUN(memory_may_be_out_anywhere);
    return test_end();
}
