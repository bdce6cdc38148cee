/* test_onnx_save.c - what qn_onnx_save writes of a graph, what it refuses, and its files. That the
 * numbers are right for all operations is test_onnx_random's. */
#include "device_here.h"
#include "failing_memory.h"
#include "onnx/save/save.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static qn_ctx *qn;

static const char *file(const char *name) {
    static char path[4][200];
    static int next;
    char *at = path[next++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    return at;
}

static qn_tensor *floats(int rank, const int64_t *shape, double first) {
    static float data[4096];
    for (int i = 0; i < 4096; i++)
        data[i] = (float)(first + 0.37 * (double)(i % 23) - (double)(i % 7));
    return qn_from(qn, QN_F32, rank, shape, data);
}
#define SHAPE(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) {                                     \
        __VA_ARGS__                                                                                \
    }

static size_t size_of_file(const char *path) {
    struct stat st;
    return stat(path, &st) ? 0 : (size_t)st.st_size;
}

/* How many nodes of an operator a model has. */
static int nodes_of(const char *path, const char *op) {
    qn_onnx *name = qn_onnx_open(qn, path);
    const onnx_model *m = name ? object_of(name, HANDLE_ONNX, "test") : NULL;
    int n = 0;
    for (uint32_t i = 0; m && i < m->graph.n_node; i++) n += !strcmp(m->graph.node[i].op, op);
    if (name) qn_onnx_close(name);
    return n;
}

/* The model's first output on x, as many numbers as the first of `wanted` has. */
static bool gives(const char *path, int n, qn_tensor *const *in, qn_tensor *wanted) {
    static float a[4096], b[4096];
    qn_onnx *m = qn_onnx_open(qn, path);
    qn_tensor *got = NULL;
    int64_t many = qn_numel(wanted);
    bool same = m && !qn_onnx_call(m, n, in, 1, &got) && qn_numel(got) == many &&
                !qn_read(got, a, sizeof(float) * (size_t)many) &&
                !qn_read(wanted, b, sizeof(float) * (size_t)many);
    for (int64_t i = 0; i < many && same; i++)
        same = fabs((double)a[i] - (double)b[i]) <= 1e-5 * fmax(1, fabs((double)b[i]));
    if (m) qn_onnx_close(m);
    qn_clear_error(qn);
    return same;
}

static void expect_error(qn_code code, qn_code wanted, const char *text) {
    CHECK_INT(code, wanted);
    const char *said = qn_error(qn);
    CHECK(said && strstr(said, text));
    if (!said || !strstr(said, text)) printf("  said: %s\n", said ? said : "nothing");
    qn_clear_error(qn);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void names_are_those_given_and_those_of_tensors(void) {
    qn_tensor *x = floats(SHAPE(2, 3), 1), *w = floats(SHAPE(3, 4), 2), *y = qn_matmul(x, w);
    const char *in = "image", *out = "scores";
    qn_set_name(w, "layer.weight");
    CHECK_INT(qn_onnx_save(file("n.onnx"), 1, &x, 1, &y,
                           &QN_ONNX_SAVE_OPTIONS(.input_names = &in, .output_names = &out)),
              0);
    qn_onnx *name = qn_onnx_open(qn, file("n.onnx"));
    const onnx_model *m = object_of(name, HANDLE_ONNX, "test");
    qn_onnx_value v;
    CHECK(qn_onnx_input_at(name, 0, &v, sizeof v) && !strcmp(v.name, "image"));
    CHECK(v.rank == 2 && v.shape[0] == 2 && v.shape[1] == 3 && v.dtype == QN_F32);
    CHECK(qn_onnx_output_at(name, 0, &v, sizeof v) && !strcmp(v.name, "scores"));
    CHECK(v.shape[1] == 4);
    CHECK_INT(m->graph.n_init, 1);
    CHECK(!strcmp(m->graph.init[0].name, "layer.weight"));
    CHECK_INT(m->opset[0].version, 20);
    qn_onnx_close(name);
    CHECK(gives(file("n.onnx"), 1, &x, y));
}

static void parameters_of_one_name_get_others(void) {
    qn_tensor *x = floats(SHAPE(3), 1), *a = floats(SHAPE(3), 2), *b = floats(SHAPE(3), 5);
    qn_set_name(a, "v7"), qn_set_name(b, "v7");
    qn_tensor *y = qn_mul(qn_add(qn_exp(x), a), b);
    CHECK_INT(qn_onnx_save(file("o.onnx"), 1, &x, 1, &y, NULL), 0);
    CHECK(gives(file("o.onnx"), 1, &x, y));
}

/* Reading a value makes it no parameter, where it follows an input. */
static void values_that_were_read_are_computed_in_the_model(void) {
    qn_tensor *x = floats(SHAPE(2, 3), 1), *h = qn_exp(x), *y = qn_sum(h, 1, false);
    float out[6];
    qn_read(h, out, sizeof out), qn_read(y, out, 8);
    CHECK_INT(qn_onnx_save(file("r.onnx"), 1, &x, 1, &y, NULL), 0);
    qn_tensor *other = floats(SHAPE(2, 3), -3);
    CHECK(gives(file("r.onnx"), 1, &other, qn_sum(qn_exp(other), 1, false)));
    CHECK(!gives(file("r.onnx"), 1, &other, y));
}

static void assigned_values_are_the_parameters(void) {
    qn_tensor *x = floats(SHAPE(3), 1), *w = floats(SHAPE(3), 2), *was = qn_mul(x, w);
    CHECK_INT(qn_assign(w, qn_mul(w, qn_weak(w, 3))), 0);
    qn_tensor *y = qn_mul(x, w);
    CHECK_INT(qn_onnx_save(file("a.onnx"), 1, &x, 1, &y, NULL), 0);
    CHECK(gives(file("a.onnx"), 1, &x, qn_mul(was, qn_weak(was, 3))));
    CHECK_INT(nodes_of(file("a.onnx"), "Mul"), 1);
}

static void an_output_may_be_an_input_or_a_parameter(void) {
    qn_tensor *x = floats(SHAPE(3), 1), *w = floats(SHAPE(3), 2), *out[3] = {x, w, x};
    CHECK_INT(qn_onnx_save(file("i.onnx"), 1, &x, 3, out, NULL), 0);
    qn_onnx *m = qn_onnx_open(qn, file("i.onnx"));
    qn_tensor *got[3];
    float a[3], b[3];
    CHECK_INT(qn_onnx_call(m, 1, &x, 3, got), 0);
    qn_read(got[1], a, sizeof a), qn_read(w, b, sizeof b);
    CHECK(!memcmp(a, b, sizeof a));
    qn_onnx_close(m);
}

/* ---- operators ------------------------------------------------------------------------------- */

static void convolutions_and_pools_are_operators(void) {
    qn_tensor *x = floats(SHAPE(2, 4, 9, 8), 1), *w = floats(SHAPE(6, 2, 3, 2), 0);
    qn_conv_options o = QN_CONV_OPTIONS(.groups = 2);
    o.stride[0] = 2, o.dilation[1] = 2, o.before[0] = o.before[1] = o.after[1] = 1;
    const int64_t two[2] = {2, 2};
    qn_tensor *c = qn_conv2d(x, w, NULL, &o), *y = qn_max_pool(qn_relu(c), two, NULL);
    CHECK_INT(qn_onnx_save(file("c.onnx"), 1, &x, 1, &y, NULL), 0);
    CHECK_INT(nodes_of(file("c.onnx"), "Conv"), 1);
    CHECK_INT(nodes_of(file("c.onnx"), "Relu"), 1);
    CHECK_INT(nodes_of(file("c.onnx"), "MaxPool"), 1);
    CHECK_INT(nodes_of(file("c.onnx"), "Transpose"), 0);
    CHECK(gives(file("c.onnx"), 1, &x, y));
    y = qn_avg_pool(c, two, NULL);
    CHECK_INT(qn_onnx_save(file("c.onnx"), 1, &x, 1, &y, NULL), 0);
    CHECK_INT(nodes_of(file("c.onnx"), "AveragePool"), 1);
    CHECK(gives(file("c.onnx"), 1, &x, y));
}

/* Each in a way that Conv has no form of, or must be told from those it has. */
static void other_windows_are_written_without_them(void) {
    qn_tensor *x = floats(SHAPE(1, 2, 7, 7), 1), *w = floats(SHAPE(2, 3, 3, 3), 0);
    qn_conv_options o = QN_CONV_OPTIONS();
    o.stride[0] = o.stride[1] = 2, o.extra[0] = 1;
    qn_tensor *y = qn_conv_transpose(x, w, NULL, &o);
    CHECK_INT(qn_onnx_save(file("t.onnx"), 1, &x, 1, &y, NULL), 0);
    CHECK(gives(file("t.onnx"), 1, &x, y));
    const int64_t three[2] = {3, 3};
    o = QN_CONV_OPTIONS(.stride = {2, 1}, .before = {1, 1}, .after = {1, 0});
    y = qn_max_pool(x, three, &o);
    CHECK_INT(qn_onnx_save(file("t.onnx"), 1, &x, 1, &y, NULL), 0);
    CHECK(gives(file("t.onnx"), 1, &x, y));
    qn_tensor *u = qn_slice(x, 2, 1, 7, 1);
    y = qn_conv2d(u, floats(SHAPE(3, 2, 2, 2), 1), NULL, NULL);
    CHECK_INT(qn_onnx_save(file("t.onnx"), 1, &x, 1, &y, NULL), 0);
    CHECK(gives(file("t.onnx"), 1, &x, y));
}

/* Weights of their own for each place, and windows that begin inside. */
static void what_looks_like_a_convolution_is_none(void) {
    qn_tensor *x = floats(SHAPE(9, 1), 1), *w = floats(SHAPE(4, 3), 0), *same = floats(SHAPE(3), 2);
    sym_store *y = qn->graph->syms;
    window_attr a = {0, 1, 1, 1, SYM_ZERO, sym_const(y, 4), sym_const(y, 3)};
    qn_tensor *z = qn_sum(qn_mul(build_window(x, &a, false), w), 1, false);
    CHECK_INT(qn_onnx_save(file("k.onnx"), 1, &x, 1, &z, NULL), 0);
    CHECK_INT(nodes_of(file("k.onnx"), "Conv"), 0);
    CHECK(gives(file("k.onnx"), 1, &x, z));
    for (int64_t start = 0; start < 2; start++) {
        a.start = sym_const(y, start), a.size = sym_const(y, 7 - start);
        z = qn_sum(qn_mul(build_window(x, &a, false), same), 1, false);
        CHECK_INT(qn_onnx_save(file("k.onnx"), 1, &x, 1, &z, NULL), 0);
        CHECK_INT(nodes_of(file("k.onnx"), "Conv"), start ? 0 : 1);
        CHECK(gives(file("k.onnx"), 1, &x, z));
    }
}

static void products_are_products_of_matrices(void) {
    qn_tensor *x = floats(SHAPE(2, 3, 5), 1), *w = floats(SHAPE(5, 4), 2), *y = qn_matmul(x, w);
    CHECK_INT(qn_onnx_save(file("m.onnx"), 1, &x, 1, &y, NULL), 0);
    CHECK_INT(nodes_of(file("m.onnx"), "MatMul"), 1);
    CHECK_INT(nodes_of(file("m.onnx"), "Transpose"), 0);
    CHECK_INT(nodes_of(file("m.onnx"), "Expand"), 0);
    CHECK(gives(file("m.onnx"), 1, &x, y));
}

static void routines_that_onnx_has_are_written(void) {
    qn_tensor *x = floats(SHAPE(3, 8), 1), *square = floats(SHAPE(2, 3, 3), 3), *count;
    qn_tensor *z = qn_rfft(x, 0, 1, QN_NORM_ORTHO), *nz, *det = qn_det(square);
    qn_tensor *of_x[3] = {z, qn_irfft(z, 0, 1, QN_NORM_BACKWARD), qn_fft(z, 4, 1, QN_NORM_FORWARD)};
    for (int i = 0; i < 3; i++) {
        CHECK_INT(qn_onnx_save(file("f.onnx"), 1, &x, 1, &of_x[i], NULL), 0);
        CHECK(gives(file("f.onnx"), 1, &x, of_x[i]));
    }
    CHECK_INT(qn_onnx_save(file("f.onnx"), 1, &square, 1, &det, NULL), 0);
    CHECK(gives(file("f.onnx"), 1, &square, det));
    CHECK_INT(qn_nonzero(qn_gt(x, qn_weak(x, 2)), 5, &nz, &count), 0);
    qn_tensor *found = qn_add(qn_cast(nz, QN_F32), qn_cast(count, QN_F32));
    CHECK_INT(qn_onnx_save(file("f.onnx"), 1, &x, 1, &found, NULL), 0);
    CHECK(gives(file("f.onnx"), 1, &x, found));
}

static void every_operation_is_written_or_has_no_row(void) {
    for (int op = 1; op < OP_COUNT; op++) {
        const save_row *row = &save_rows[op];
        bool spelled = row->real || row->whole;
        CHECK(row->write != NULL);
        if (op_rows[op].class_ == CLASS_ELEM && op != OP_CAST && op != OP_BITCAST) CHECK(spelled);
        if (op_rows[op].has_float && op != OP_CAST) CHECK(row->real != NULL);
        if (op_rows[op].has_int && op != OP_CAST) CHECK(row->whole != NULL);
    }
}

enum { SOME = 24 };

/* Values of a row's domain; of integers small ones of both signs, and shifts within the width. */
static qn_tensor *some_values(int op, qn_dtype dtype, int which) {
    const op_row *row = &op_rows[op];
    uint64_t seed = 7 + (uint64_t)which + 31 * (uint64_t)op, data[SOME] = {0};
    const int64_t shape = SOME;
    for (int64_t i = 0; i < SOME; i++) {
        double v = row->lo + (row->hi - row->lo) * test_uniform(&seed);
        int64_t n = test_below(&seed, 23) - (dtype_is_unsigned(dtype) || which ? 0 : 9);
        if (op == OP_POW) n = which ? n % 4 : n % 5;
        if (dtype_is_float(dtype))
            dtype_set_f(dtype, data, i, v);
        else
            dtype_set_i(dtype, data, i, dtype == QN_BOOL ? n & 1 : n);
    }
    return qn_from(qn, dtype, 1, &shape, data);
}

/* How many of the model's results are wrong. */
static int wrong_results(int n, qn_tensor *const *in, qn_tensor *y) {
    const char *path = file("row.onnx");
    uint64_t a[SOME] = {0}, b[SOME] = {0};
    qn_dtype d = qn_dtype_of(y);
    size_t size = SOME * qn_dtype_size(d);
    qn_tensor *got = NULL;
    int wrong = 0;
    if (qn_onnx_save(path, n, in, 1, &y, NULL)) return SOME;
    qn_onnx *m = qn_onnx_open(qn, path);
    if (!m || qn_onnx_call(m, n, in, 1, &got) || qn_read(got, a, size) || qn_read(y, b, size))
        wrong = SOME;
    if (m) qn_onnx_close(m);
    double unit = dtype_is_float(d) ? ldexp(8, -dtype_rows[d].fraction) : 0;
    for (int64_t i = 0; i < SOME && wrong < SOME; i++) {
        double x = dtype_get_f(d, a, i), z = dtype_get_f(d, b, i);
        bool near = fabs(x - z) <= fmax(unit, d == QN_F64 ? 1e-9 : 1e-5) * fmax(1, fabs(z));
        wrong += !(near || (isnan(x) && isnan(z)) || x == z);
    }
    return wrong;
}

static void every_row_is_right_in_every_dtype(void) {
    int rows = 0;
    for (int op = 1; op < OP_COUNT; op++) {
        const op_row *row = &op_rows[op];
        if (row->class_ != CLASS_ELEM || row->types == TYPES_TO) continue;
        for (int d = 0; d < DTYPE_COUNT; d++) {
            if (!types_fit(row->types, d) && row->types != TYPES_CMP && row->types != TYPES_SELECT)
                continue;
            qn_scope scope = qn_scope_begin(qn);
            qn_tensor *x[3];
            for (int k = 0; k < row->arity; k++)
                x[k] = some_values(op, op == OP_WHERE && !k ? QN_BOOL : (qn_dtype)d, k);
            qn_tensor *y = build_elem(op, row->arity, x);
            int wrong = y ? wrong_results(row->arity, x, y) : SOME;
            if (wrong)
                printf("  %s of %s: %s\n", row->name, qn_dtype_name((qn_dtype)d), qn_error(qn));
            CHECK_INT(wrong, 0);
            qn_clear_error(qn);
            qn_scope_end(qn, scope);
            rows++;
        }
    }
    CHECK(rows > 300);
}

static void angles_of_zeros_are_right(void) {
    float data[2][SOME];
    static const float value[] = {0, -0.0f, 1, -1};
    for (int i = 0; i < SOME; i++) data[0][i] = value[i % 4], data[1][i] = value[i / 4 % 4];
    qn_tensor *in[2] = {qn_from(qn, QN_F32, SHAPE(SOME), data[0]),
                        qn_from(qn, QN_F32, SHAPE(SOME), data[1])};
    CHECK_INT(wrong_results(2, in, qn_atan2(in[0], in[1])), 0);
}

static void every_cast_is_right(void) {
    for (int from = 0; from < DTYPE_COUNT; from++)
        for (int to = 0; to < DTYPE_COUNT; to++) {
            qn_scope scope = qn_scope_begin(qn);
            qn_tensor *x = some_values(OP_ABS, (qn_dtype)from, 0);
            bool bits = qn_dtype_size((qn_dtype)from) == qn_dtype_size((qn_dtype)to);
            qn_tensor *y = qn_cast(x, (qn_dtype)to);
            if (from != to) CHECK_INT(wrong_results(1, &x, y), 0);
            qn_clear_error(qn);
            y = bits && from != to && to != QN_BOOL && from != QN_BOOL ? qn_bitcast(x, (qn_dtype)to)
                                                                       : NULL;
            if (y) CHECK_INT(wrong_results(1, &x, y), 0);
            qn_clear_error(qn);
            qn_scope_end(qn, scope);
        }
}

/* ---- sizes that vary ------------------------------------------------------------------------- */

static void variables_are_sizes_of_the_model(void) {
    int64_t t = qn_var(qn, "tokens", 1, 64);
    CHECK_INT(qn_bind(qn, t, 5), 0);
    qn_tensor *x = floats(2, (int64_t[]){t, 4}, 1), *w = floats(SHAPE(4, 4), 2);
    qn_tensor *scores = qn_matmul(qn_matmul(x, w), qn_transpose(x, 0, 1));
    qn_tensor *y = qn_matmul(qn_softmax(scores, 1), x);
    CHECK_INT(qn_onnx_save(file("v.onnx"), 1, &x, 1, &y, NULL), 0);
    qn_onnx_value v;
    qn_onnx *m = qn_onnx_open(qn, file("v.onnx"));
    CHECK(m && qn_onnx_input_at(m, 0, &v, sizeof v));
    CHECK(v.shape[0] == -1 && v.dim_name[0] && !strcmp(v.dim_name[0], "tokens"));
    if (m) qn_onnx_close(m);
    qn_tensor *other = floats(SHAPE(3, 4), 4);
    qn_tensor *s = qn_matmul(qn_matmul(other, w), qn_transpose(other, 0, 1));
    CHECK(gives(file("v.onnx"), 1, &other, qn_matmul(qn_softmax(s, 1), other)));
    CHECK_INT(qn_onnx_save(file("v.onnx"), 1, &x, 1, &y, &QN_ONNX_SAVE_OPTIONS(.bound = true)), 0);
    m = qn_onnx_open(qn, file("v.onnx"));
    CHECK(m && qn_onnx_input_at(m, 0, &v, sizeof v) && v.shape[0] == 5);
    if (m) qn_onnx_close(m);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void parameters_may_be_in_a_file_of_their_own(void) {
    qn_tensor *x = floats(SHAPE(7), 1), *w = floats(SHAPE(7, 101), 2), *b = floats(SHAPE(101), 3);
    qn_tensor *y = qn_add(qn_matmul(x, w), b);
    CHECK_INT(qn_onnx_save(file("e.onnx"), 1, &x, 1, &y, &QN_ONNX_SAVE_OPTIONS(.data = "e.bin")),
              0);
    CHECK(size_of_file(file("e.onnx")) < 1000);
    CHECK_INT(size_of_file(file("e.bin")), 2880 + 448);
    CHECK(gives(file("e.onnx"), 1, &x, y));
    CHECK_INT(remove(file("e.bin")), 0);
    CHECK(!gives(file("e.onnx"), 1, &x, y));
    qn_clear_error(qn);
}

static void a_file_is_replaced_whole_or_not_at_all(void) {
    qn_tensor *x = floats(SHAPE(3), 1), *y = qn_exp(x),
              *bad = qn_cholesky(floats(SHAPE(2, 2), 1), false);
    CHECK_INT(qn_onnx_save(file("w.onnx"), 1, &x, 1, &y, NULL), 0);
    size_t was = size_of_file(file("w.onnx"));
    expect_error(qn_onnx_save(file("w.onnx"), 1, &x, 1, &bad, NULL), QN_EGRAPH, "cholesky");
    CHECK_INT(size_of_file(file("w.onnx")), was);
    CHECK(gives(file("w.onnx"), 1, &x, y));
    expect_error(qn_onnx_save(file("none/w.onnx"), 1, &x, 1, &y, NULL), QN_EIO, "none/w.onnx");
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void bad_arguments_are_errors(void) {
    qn_tensor *x = floats(SHAPE(3), 1), *y = qn_exp(x), *e = qn_exp(y), *twice[2] = {x, x};
    const char *empty = "", *same[2] = {"a", "a"}, *path = file("b.onnx");
    qn_tensor *z = qn_complex(x, x), *pair[2] = {x, floats(SHAPE(3), 2)};
    CHECK_INT(qn_onnx_save(path, 1, &x, 0, &y, NULL), QN_EARG);
    CHECK_INT(qn_onnx_save(path, 1, &x, 1, NULL, NULL), QN_ENULL);
    expect_error(qn_onnx_save(NULL, 1, &x, 1, &y, NULL), QN_ENULL, "no path");
    expect_error(qn_onnx_save(path, -1, &x, 1, &y, NULL), QN_EARG, "-1 inputs");
    expect_error(qn_onnx_save(path, 1, &y, 1, &e, NULL), QN_EGRAPH,
                 "onnx_save: input 0 is an expression");
    expect_error(qn_onnx_save(path, 2, twice, 1, &y, NULL), QN_EGRAPH, "are one tensor");
    expect_error(qn_onnx_save(path, 1, &x, 1, &z, NULL), QN_EDTYPE, "output 0 is complex");
    expect_error(qn_onnx_save(path, 1, &x, 1, &y, &QN_ONNX_SAVE_OPTIONS(.input_names = &empty)),
                 QN_EARG, "input 0 is empty");
    expect_error(qn_onnx_save(path, 2, pair, 1, &y, &QN_ONNX_SAVE_OPTIONS(.input_names = same)),
                 QN_EARG, "are called \"a\"");
    expect_error(qn_onnx_save(path, 1, &x, 1, &y, &QN_ONNX_SAVE_OPTIONS(.data = "../w")), QN_EARG,
                 "../w");
    expect_error(qn_onnx_save(path, 1, &x, 1, &y, &QN_ONNX_SAVE_OPTIONS(.data = "b.onnx")), QN_EARG,
                 "both the model and its data");
    CHECK_INT(size_of_file(path), 0);
}

static void a_device_that_computes_nothing_has_no_parameters(void) {
    qn_ctx *null = qn_open(&QN_OPTIONS(.device = "null"));
    const float zeros[3] = {0};
    qn_tensor *x = qn_from(null, QN_F32, SHAPE(3), zeros), *y = qn_exp(x);
    CHECK_INT(qn_onnx_save(file("d.onnx"), 1, &x, 1, &y, NULL), QN_EDEVICE);
    qn_close(null);
}

/* A loop, a product, sorting, a parameter: each request for memory fails once. */
static void every_failing_allocation_is_survived(void) {
    int left = -1, failed = 0, tries = 0;
    qn_options o = QN_OPTIONS(.device = "ref");
    o.alloc = failing_alloc, o.free = plain_free, o.alloc_user = &left;
    qn_ctx *was = qn, *mine = qn = qn_open(&o);
    qn_tensor *x = floats(SHAPE(4, 3), 1), *h = floats(SHAPE(3), 0);
    qn_tensor *w = floats(SHAPE(3, 3), 2);
    qn_loop *l = qn_loop_begin(mine, 1, &h, 1, &x, NULL);
    qn_tensor *next = qn_tanh(qn_add(qn_matmul(qn_loop_state(l, 0), w), qn_loop_slice(l, 0)));
    CHECK_INT(qn_loop_end(l, 1, &next, 1, &next), 0);
    qn_tensor *y = qn_sort(qn_loop_output(l, 0), 1, false);
    qn_loop_free(l);
    CHECK_INT(qn_realize(1, &y), 0);
    qn_code code = QN_ENOMEM;
    for (; code == QN_ENOMEM && tries < 5000; tries++) {
        left = tries;
        code = qn_onnx_save(file("memory.onnx"), 1, &x, 1, &y, NULL);
        left = -1;
        failed += code == QN_ENOMEM;
        if (code) qn_clear_error(mine);
        if (code) CHECK_INT(size_of_file(file("memory.onnx")), 0);
    }
    CHECK_INT(code, 0);
    CHECK(failed > 8);
    CHECK(gives(file("memory.onnx"), 1, &x, y));
    qn_close(mine);
    qn = was;
}

static void loops_are_loops(void) {
    qn_tensor *x = floats(SHAPE(4, 3), 1), *h = floats(SHAPE(3), 0), *w = floats(SHAPE(3, 3), 2);
    qn_loop *l = qn_loop_begin(qn, 1, &h, 1, &x, &QN_LOOP_OPTIONS(.reverse = true));
    qn_tensor *next = qn_tanh(qn_add(qn_matmul(qn_loop_state(l, 0), w), qn_loop_slice(l, 0)));
    CHECK_INT(qn_loop_end(l, 1, &next, 1, &next), 0);
    qn_tensor *y[2] = {qn_loop_output(l, 0), qn_loop_final(l, 0)};
    qn_loop_free(l);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(qn_onnx_save(file("l.onnx"), 1, &x, 1, &y[i], NULL), 0);
        CHECK_INT(nodes_of(file("l.onnx"), "Loop"), 1);
        CHECK_INT(nodes_of(file("l.onnx"), "MatMul"), 0);
        CHECK(gives(file("l.onnx"), 1, &x, y[i]));
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    snprintf(folder, sizeof folder, "/tmp/quern-onnx-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    qn = qn_open(&QN_OPTIONS(.device = "ref"));
    RUN(names_are_those_given_and_those_of_tensors);
    RUN(parameters_of_one_name_get_others);
    RUN(values_that_were_read_are_computed_in_the_model);
    RUN(assigned_values_are_the_parameters);
    RUN(an_output_may_be_an_input_or_a_parameter);
    RUN(convolutions_and_pools_are_operators);
    RUN(other_windows_are_written_without_them);
    RUN(what_looks_like_a_convolution_is_none);
    RUN(products_are_products_of_matrices);
    RUN(routines_that_onnx_has_are_written);
    RUN(loops_are_loops);
    RUN(every_operation_is_written_or_has_no_row);
    RUN(every_row_is_right_in_every_dtype);
    RUN(angles_of_zeros_are_right);
    RUN(every_cast_is_right);
    RUN(variables_are_sizes_of_the_model);
    RUN(parameters_may_be_in_a_file_of_their_own);
    RUN(a_file_is_replaced_whole_or_not_at_all);
    RUN(bad_arguments_are_errors);
    RUN(a_device_that_computes_nothing_has_no_parameters);
    RUN(every_failing_allocation_is_survived);
    qn_close(qn);
    return test_end();
}
