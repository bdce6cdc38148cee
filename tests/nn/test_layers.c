/* test_layers.c - layers by PyTorch's names: what their tensors are called, what they compute, by
 * plain loops in double precision or worked out by hand, and what training changes. Beside PyTorch
 * itself they stand in python/tests/test_layers.py. */
#include "quern_nn.h"
#include "run/run.h"
#include "test.h"

#include <unistd.h>

enum { MOST = 512 };

static qn_ctx *open_context(void) {
    qn_ctx *qn = qn_open(NULL);
    if (!qn) FAIL("no context");
    return qn;
}

static void expect_error(qn_ctx *qn, qn_code code, const char *text) {
    CHECK_INT(qn_error_code(qn), code);
    CHECK_STR(qn_error(qn), text);
    qn_clear_error(qn);
}

/* Random values written into a tensor, and what they are. */
static void fill(qn_tensor *t, double *values, uint64_t *seed) {
    float f[MOST];
    int64_t n = qn_numel(t);
    CHECK(n > 0 && n <= MOST);
    for (int64_t i = 0; i < n; i++) values[i] = (double)(f[i] = (float)(test_uniform(seed) - 0.5));
    CHECK_INT(qn_write(t, f, (size_t)n * sizeof *f), QN_OK);
}

static qn_tensor *input(qn_ctx *qn, int rank, const int64_t *shape, double *values,
                        uint64_t *seed) {
    qn_tensor *t = qn_zeros(qn, QN_F32, rank, shape);
    t = qn_realize(1, &t) ? NULL : t;
    fill(t, values, seed);
    return t;
}

static void check_values(qn_tensor *t, const double *wanted, int64_t n) {
    float got[MOST];
    CHECK(t != NULL);
    if (!t) return;
    CHECK_INT(qn_numel(t), n);
    CHECK_INT(qn_read(t, got, sizeof got), QN_OK);
    for (int64_t i = 0; i < n && !test_state.bad; i++)
        CHECK_NEAR((double)got[i], wanted[i], 1e-5, 1e-6);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* ---- names ---------------------------------------------------------------------------------- */

static void check_names(qn_module *m, int n, const char *const *names) {
    CHECK_INT(qn_module_count(m), n);
    for (int i = 0; i < n; i++) CHECK_STR(qn_module_name(m, i), names[i]);
    CHECK(!qn_module_name(m, n));
}

static void tensors_are_called_as_pytorchs(void) {
    static const char *const lstm[] = {"l.weight_ih_l0",         "l.weight_hh_l0",
                                       "l.bias_ih_l0",           "l.bias_hh_l0",
                                       "l.weight_ih_l0_reverse", "l.weight_hh_l0_reverse",
                                       "l.bias_ih_l0_reverse",   "l.bias_hh_l0_reverse"};
    static const char *const encoder[] = {"self_attn.in_proj_weight",
                                          "self_attn.in_proj_bias",
                                          "self_attn.out_proj.weight",
                                          "self_attn.out_proj.bias",
                                          "linear1.weight",
                                          "linear1.bias",
                                          "linear2.weight",
                                          "linear2.bias",
                                          "norm1.weight",
                                          "norm1.bias",
                                          "norm2.weight",
                                          "norm2.bias"};
    static const char *const norm[] = {"bn.weight", "bn.bias"};
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    CHECK(qn_layer_new(m, "LSTM", "l",
                       &QN_LAYER_OPTIONS(.in = 3, .hidden = 5, .bidirectional = true)));
    check_names(m, 8, lstm);
    CHECK_INT(qn_dim(qn_module_find(m, "l.weight_ih_l0"), 0), 20);
    CHECK_INT(qn_dim(qn_module_find(m, "l.weight_ih_l0"), 1), 3);
    qn_module_free(m);
    m = qn_module_new(qn, 1);
    CHECK(qn_layer_new(m, "TransformerEncoderLayer", "",
                       &QN_LAYER_OPTIONS(.in = 8, .heads = 2, .hidden = 16)));
    check_names(m, 12, encoder);
    qn_module_free(m);
    m = qn_module_new(qn, 1);
    CHECK(qn_layer_new(m, "BatchNorm2d", "bn", &QN_LAYER_OPTIONS(.in = 3)));
    check_names(m, 2, norm);
    CHECK_INT(qn_module_buffer_count(m), 3);
    CHECK_STR(qn_module_buffer_name(m, 0), "bn.running_mean");
    CHECK_STR(qn_module_buffer_name(m, 2), "bn.num_batches_tracked");
    CHECK(!qn_module_buffer_name(m, 3));
    CHECK_STR(qn_error(qn), "");
    qn_module_free(m);
    qn_close(qn);
}

static void what_cannot_be_made_says_why(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    CHECK(!qn_layer_new(m, "Conv2D", "c", NULL));
    CHECK_INT(qn_error_code(qn), QN_EARG);
    CHECK(strstr(qn_error(qn), "no kind of layer is called \"Conv2D\", there is \"Conv2d\""));
    qn_clear_error(qn);
    CHECK(!qn_layer_new(m, "Linear", "l", &QN_LAYER_OPTIONS(.in = 3)));
    expect_error(qn, QN_EARG, "layer_new: Linear needs out_features");
    CHECK(!qn_layer_new(m, "Conv1d", "c",
                        &QN_LAYER_OPTIONS(.in = 3, .out = 4, .kernel = {2}, .groups = 2)));
    expect_error(qn, QN_EARG, "layer_new: 3 channels become 4 in 2 groups");
    CHECK(!qn_layer_new(m, "LSTM", "l", &QN_LAYER_OPTIONS(.in = 3, .hidden = -1)));
    expect_error(qn, QN_ERANGE, "layer_new: -1 hidden features, projected to 0");
    CHECK(!qn_layer_new(m, "MultiheadAttention", "a", &QN_LAYER_OPTIONS(.in = 6, .heads = 4)));
    expect_error(qn, QN_EARG, "layer_new: MultiheadAttention of a width of 6 in 4 heads");
    qn_layer *l = qn_layer_new(m, "BatchNorm2d", "b", &QN_LAYER_OPTIONS(.in = 2));
    qn_tensor *flat = qn_ones(qn, QN_F32, 2, (int64_t[]){3, 2}), *two[] = {flat, flat}, *out[2];
    CHECK(!qn_layer_forward(l, flat));
    expect_error(qn, QN_ESHAPE, "BatchNorm2d: the input has 2 axes, not 4");
    CHECK_INT(qn_layer_call(l, 2, two, 1, out), QN_EARG);
    expect_error(qn, QN_EARG, "layer_call: BatchNorm2d takes 1 to 1 inputs, not 2");
    CHECK_INT(qn_layer_apply("ReLU", NULL, 1, two, 1, two, 2, out), QN_EARG);
    qn_clear_error(qn);
    qn_module_free(m);
    qn_close(qn);
}

static void what_takes_no_such_number_says_so(void) {
    static const struct refused {
        const char *kind;
        qn_layer_options o;
        qn_code code;
        const char *text;
    } row[] = {
#define O(...) {.size = sizeof(qn_layer_options), __VA_ARGS__}
        {"RNN", O(.in = 3, .hidden = 2, .layers = -3), QN_ERANGE, "-3 layers, not 1 to 256"},
        {"LSTM", O(.in = 3, .hidden = 2, .layers = (int64_t)1 << 31), QN_ERANGE,
         "2147483648 layers, not 1 to 256"},
        {"LSTM", O(.in = 3, .hidden = 2, .p = 2), QN_ERANGE, "LSTM with a probability of 2"},
        {"Dropout", O(.p = 1.5), QN_ERANGE, "Dropout with a probability of 1.5"},
        {"Dropout2d", O(.p = NAN), QN_ERANGE, "Dropout2d with a probability of nan"},
        {"MaxPool2d", O(.kernel = {2}, .padding = {1, 2}), QN_EARG,
         "MaxPool2d with a kernel of 2 and padding of 2"},
        {"AvgPool1d", O(.kernel = {2}, .padding = {-1}), QN_EARG,
         "AvgPool1d with a kernel of 2 and padding of -1"},
        {"Conv2d", O(.in = 3, .out = 4, .kernel = {3}, .padding = {-1}, .stride = {2}), QN_EARG,
         "Conv2d with padding \"same\" and a stride of 2"},
        {"Conv1d", O(.in = 3, .out = 4, .kernel = {3}, .padding = {-2}), QN_EARG,
         "Conv1d with a kernel of 3 and padding of -2"},
        {"Conv1d", O(.in = 3, .out = 4, .kernel = {3}, .padding_mode = 7), QN_EARG,
         "padding_mode is 7, not 0 to 3"},
        {"Softshrink", O(.a = -0.5), QN_ERANGE, "Softshrink with lambd -0.5"},
        {"Hardtanh", O(.a = 1, .b = -1), QN_ERANGE, "Hardtanh within 1 and -1"},
        {"Embedding", O(.in = 3, .out = 2, .index = -4), QN_ERANGE, "padding_idx is row -1 of 3"},
        {"Embedding", O(.in = 3, .out = 2, .index = INT64_MIN), QN_ERANGE,
         "padding_idx is row -9223372036854775805 of 3"},
    };
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[200];
        snprintf(text, sizeof text, "layer_new: %s", row[i].text);
        CHECK(!qn_layer_new(m, row[i].kind, row[i].kind, &row[i].o));
        expect_error(qn, row[i].code, text);
    }
    CHECK_INT(qn_module_count(m), 0);
    qn_module_free(m);
    qn_close(qn);
}

/* Shapes are looked at before they are read. */
static void parameters_need_a_shape(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    static const int64_t shape[64] = {1};
    for (int kind = 0; kind < 2; kind++) {
        qn_init_options init = QN_INIT_OPTIONS(.kind = kind ? QN_INIT_NORMAL : QN_INIT_ZEROS);
        CHECK(!qn_module_parameter(m, "x", QN_F32, 2, NULL, &init));
        CHECK_INT(qn_error_code(qn), QN_ENULL);
        qn_clear_error(qn);
        CHECK(!qn_module_buffer(m, "x", QN_F32, 64, shape, &init));
        CHECK(qn_error_code(qn) != QN_OK);
        qn_clear_error(qn);
        CHECK(!qn_module_parameter(m, "x", QN_F32, -1, shape, &init));
        CHECK(qn_error_code(qn) != QN_OK);
        qn_clear_error(qn);
    }
    CHECK(!qn_module_buffer(m, "x", QN_F32, 2, NULL, NULL));
    expect_error(qn, QN_ENULL, "full: the shape of 2 axes is NULL");
    qn_module_free(m);
    qn_close(qn);
}

/* ---- one operation -------------------------------------------------------------------------- */

/* The values of a layer of one result of x. */
static void check_layer(qn_ctx *qn, const char *kind, const qn_layer_options *o, qn_tensor *x,
                        int64_t n, const double *wanted) {
    qn_tensor *y[1] = {NULL};
    CHECK_INT(qn_layer_apply(kind, o, 0, NULL, 1, &x, 1, y), QN_OK);
    CHECK_STR(qn_error(qn), "");
    check_values(y[0], wanted, n);
}

static void layers_of_one_operation_are_pytorchs(void) {
    static const float four[] = {-1, -2, 3, 4}, three[] = {1, 2, 3};
    static const float tiny[8] = {1e-5F, 1e-5F, 1e-5F, 1e-5F, 1e-5F, 1e-5F, 1e-5F, 1e-5F};
    static const double ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    qn_ctx *qn = open_context();
    qn_tensor *x = qn_from(qn, QN_F32, 3, (int64_t[]){1, 1, 4}, four);
    check_layer(qn, "LPPool1d", &QN_LAYER_OPTIONS(.a = 1, .kernel = {2}), x, 2, (double[]){-3, 7});
    check_layer(qn, "LPPool1d", &QN_LAYER_OPTIONS(.a = 2, .kernel = {2}), x, 2,
                (double[]){sqrt(5), 5});
    check_layer(qn, "LPPool1d", &QN_LAYER_OPTIONS(.a = 3, .kernel = {4}), x, 1,
                (double[]){cbrt(82)});
    check_layer(qn, "AdaptiveAvgPool2d", &QN_LAYER_OPTIONS(.kernel = {0, 2}), x, 2,
                (double[]){-1.5, 3.5});
    x = qn_from(qn, QN_F32, 3, (int64_t[]){1, 1, 3}, three);
    check_layer(qn, "LPPool1d", &QN_LAYER_OPTIONS(.a = 1, .kernel = {2}, .ceil = true), x, 2,
                (double[]){3, 6});
    check_layer(qn, "Softmax", NULL, x, 3, (double[]){1, 1, 1});
    x = qn_reshape(x, 2, (int64_t[]){3, 1});
    check_layer(qn, "Softmax", NULL, x, 3, (double[]){1, 1, 1});
    x = qn_from(qn, QN_F32, 2, (int64_t[]){1, 8}, tiny);
    check_layer(qn, "RMSNorm", &QN_LAYER_OPTIONS(.shape = {8}, .epsilon = -0.0, .affine = -1), x, 8,
                ones);
    qn_close(qn);
}

/* PyTorch's RMSNorm adds the dtype's epsilon, of f8_e4m3 1/8: 1/4 becomes 1/4 / sqrt(1/16 + 1/8),
 * 0.577, whose nearest number is 9/16; of f8_e5m2, 1/4: 0.447, whose nearest is 7/16. */
static void rms_norm_adds_the_dtypes_epsilon(void) {
    static const float quarters[] = {0.25F, 0.25F, 0.25F, 0.25F};
    static const double e4m3[] = {0.5625, 0.5625, 0.5625, 0.5625};
    static const double e5m2[] = {0.4375, 0.4375, 0.4375, 0.4375};
    qn_ctx *qn = open_context();
    for (int i = 0; i < 2; i++) {
        qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){1, 4}, quarters), *y[1] = {NULL};
        x = qn_cast(x, i ? QN_F8_E5M2 : QN_F8_E4M3);
        const qn_layer_options *o = &QN_LAYER_OPTIONS(.shape = {4}, .affine = -1);
        CHECK_INT(qn_layer_apply("RMSNorm", o, 0, NULL, 1, &x, 1, y), QN_OK);
        check_values(qn_cast(y[0], QN_F32), i ? e5m2 : e4m3, 4);
    }
    qn_close(qn);
}

static void four_axes_are_normalised(void) {
    static const float eight[] = {0, 0, 0, 0, 1, 1, 1, 1};
    static const double wanted[] = {-1, -1, -1, -1, 1, 1, 1, 1};
    qn_ctx *qn = open_context();
    qn_tensor *x = qn_from(qn, QN_F32, 4, (int64_t[]){2, 1, 2, 2}, eight);
    check_layer(qn, "LayerNorm",
                &QN_LAYER_OPTIONS(.shape = {2, 1, 2, 2}, .epsilon = -0.0, .affine = -1), x, 8,
                wanted);
    qn_close(qn);
}

/* Of one value for each channel there is no variance to go on with. */
static void one_value_is_not_normalised(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *b = qn_layer_new(m, "BatchNorm1d", "b", &QN_LAYER_OPTIONS(.in = 3));
    qn_layer *i = qn_layer_new(m, "InstanceNorm1d", "i", &QN_LAYER_OPTIONS(.in = 3));
    qn_tensor *one = qn_ones(qn, QN_F32, 2, (int64_t[]){1, 3});
    qn_tensor *two = qn_ones(qn, QN_F32, 3, (int64_t[]){2, 3, 1});
    CHECK(!qn_layer_forward(b, one));
    expect_error(qn, QN_ESHAPE, "BatchNorm1d: 1 value for each of 3 channels has no variance");
    CHECK(qn_layer_forward(b, two) != NULL);
    CHECK(!qn_layer_forward(i, two));
    expect_error(qn, QN_ESHAPE, "InstanceNorm1d: 1 value for each of 3 channels has no variance");
    qn_module_train(m, false);
    CHECK(qn_layer_forward(b, one) != NULL);
    CHECK_STR(qn_error(qn), "");
    qn_module_free(m);
    qn_close(qn);
}

static void states_are_those_of_all_layers(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l = qn_layer_new(m, "GRU", "l", &QN_LAYER_OPTIONS(.in = 3, .hidden = 5, .layers = 2));
    qn_tensor *in[2] = {qn_ones(qn, QN_F32, 3, (int64_t[]){4, 2, 3}), NULL}, *out[2];
    in[1] = qn_ones(qn, QN_F32, 3, (int64_t[]){4, 2, 5});
    CHECK_INT(qn_layer_call(l, 2, in, 2, out), QN_ESHAPE);
    expect_error(qn, QN_ESHAPE, "GRU: a first state of 4 layers and directions, not 2");
    in[1] = qn_ones(qn, QN_F32, 3, (int64_t[]){2, 3, 5});
    CHECK_INT(qn_layer_call(l, 2, in, 2, out), QN_ESHAPE);
    expect_error(qn, QN_ESHAPE, "GRU: a first state of 3 examples, not 2");
    in[1] = qn_ones(qn, QN_F32, 3, (int64_t[]){2, 2, 5});
    CHECK_INT(qn_layer_call(l, 2, in, 2, out), QN_OK);
    qn_module_free(m);
    qn_close(qn);
}

/* What is no argument of a kind changes nothing. */
static void fields_of_other_kinds_are_not_read(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l =
        qn_layer_new(m, "TransformerEncoderLayer", "l",
                     &QN_LAYER_OPTIONS(.in = 8, .heads = 2, .hidden = 16, .add_bias = true));
    CHECK(l != NULL);
    CHECK_INT(qn_module_count(m), 12);
    qn_module_free(m);
    qn_close(qn);
}

/* ---- norms, dropout, embedding -------------------------------------------------------------- */

static void batch_norm_goes_on_with_running_statistics(void) {
    enum { N = 6, C = 2 };
    qn_ctx *qn = open_context();
    uint64_t seed = 3;
    double x[N * C], y[N * C], w[C], b[C], mean[C] = {0}, variance[C] = {1, 1};
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l = qn_layer_new(m, "BatchNorm1d", "b", &QN_LAYER_OPTIONS(.in = C, .momentum = 0.25));
    fill(qn_module_find(m, "b.weight"), w, &seed);
    fill(qn_module_find(m, "b.bias"), b, &seed);
    for (int turn = 0; turn < 3; turn++) {
        qn_tensor *t = input(qn, 2, (int64_t[]){N, C}, x, &seed);
        qn_module_train(m, turn < 2);
        for (int c = 0; c < C; c++) {
            double mu = 0, var = 0;
            for (int i = 0; i < N; i++) mu += x[i * C + c] / N;
            for (int i = 0; i < N; i++) var += (x[i * C + c] - mu) * (x[i * C + c] - mu) / N;
            if (turn == 2) mu = mean[c], var = variance[c];
            for (int i = 0; i < N; i++)
                y[i * C + c] = (x[i * C + c] - mu) / sqrt(var + 1e-5) * w[c] + b[c];
            if (turn == 2) continue;
            mean[c] += 0.25 * (mu - mean[c]);
            variance[c] += 0.25 * (var * N / (N - 1) - variance[c]);
        }
        check_values(qn_layer_forward(l, t), y, N * C);
        check_values(qn_module_find(m, "b.running_mean"), mean, C);
        check_values(qn_module_find(m, "b.running_var"), variance, C);
    }
    int64_t batches = 0;
    CHECK_INT(qn_read(qn_module_find(m, "b.num_batches_tracked"), &batches, sizeof batches), 0);
    CHECK_INT(batches, 2);
    CHECK_STR(qn_error(qn), "");
    qn_module_free(m);
    qn_close(qn);
}

static void dropout_draws_anew_each_step_by_one_plan(void) {
    enum { N = 400 };
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 5);
    qn_layer *l = qn_layer_new(m, "Dropout", "d", &QN_LAYER_OPTIONS(.p = 0.25));
    qn_tensor *ones = qn_ones(qn, QN_F32, 1, (int64_t[]){N});
    float last[N] = {0}, now[N];
    uint64_t plans = 0;
    for (int step = 0; step < 4; step++) {
        int zeros = 0, same = 0;
        qn_scope s = qn_scope_begin(qn);
        CHECK_INT(qn_read(qn_layer_forward(l, ones), now, sizeof now), QN_OK);
        qn_scope_end(qn, s);
        for (int i = 0; i < N; i++) {
            CHECK(now[i] == 0 || fabsf(now[i] - 4.0f / 3) < 1e-6f);
            zeros += now[i] == 0;
            same += (now[i] == 0) == (last[i] == 0);
        }
        CHECK(zeros > N / 8 && zeros < N / 2 && same < N);
        memcpy(last, now, sizeof last);
        qn_stats stats;
        qn_get_stats(qn, &stats, sizeof stats);
        if (step > 1) CHECK_INT(stats.plans, plans);
        plans = stats.plans;
    }
    qn_module_train(m, false);
    CHECK_INT(qn_read(qn_layer_forward(l, ones), now, sizeof now), QN_OK);
    for (int i = 0; i < N; i++) CHECK(now[i] == 1);
    l = qn_layer_new(m, "Dropout", "none", &QN_LAYER_OPTIONS(.p = -0.0)); /* a 0 that is meant */
    qn_module_train(m, true);
    CHECK_INT(qn_read(qn_layer_forward(l, ones), now, sizeof now), QN_OK);
    for (int i = 0; i < N; i++) CHECK(now[i] == 1);
    qn_module_free(m);
    qn_close(qn);
}

static void the_row_of_padding_begins_at_zero_and_has_no_gradient(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 5);
    qn_layer *l =
        qn_layer_new(m, "Embedding", "e", &QN_LAYER_OPTIONS(.in = 4, .out = 2, .index = -1));
    qn_tensor *w = qn_module_find(m, "e.weight"), *g = NULL;
    qn_tensor *ids = qn_from(qn, QN_I64, 1, (int64_t[]){3}, (int64_t[]){3, 1, 3});
    qn_tensor *loss = qn_sum(qn_layer_forward(l, ids), QN_ALL, false);
    CHECK_INT(qn_grad(loss, NULL, 1, &w, &g), QN_OK);
    check_values(g, (double[]){0, 0, 1, 1, 0, 0, 0, 0}, 8);
    float values[8];
    CHECK_INT(qn_read(w, values, sizeof values), QN_OK);
    CHECK(values[6] == 0 && values[7] == 0 && values[0] != 0);
    qn_module_free(m);
    qn_close(qn);
}

/* ---- recurrent ------------------------------------------------------------------------------ */

enum { T = 4, IN = 3, HIDDEN = 2 };
typedef struct weights {
    double ih[4 * HIDDEN * IN], hh[4 * HIDDEN * HIDDEN], bi[4 * HIDDEN], bh[4 * HIDDEN];
} weights;

/* Of gate row r: what x and what h give. */
static double of_x(const weights *w, int r, const double *x) {
    double sum = w->bi[r];
    for (int i = 0; i < IN; i++) sum += w->ih[r * IN + i] * x[i];
    return sum;
}
static double of_h(const weights *w, int r, const double *h) {
    double sum = w->bh[r];
    for (int i = 0; i < HIDDEN; i++) sum += w->hh[r * HIDDEN + i] * h[i];
    return sum;
}

static void plain_lstm(const weights *w, const double *x, double *h, double *c) {
    double next[HIDDEN], sum[4];
    for (int j = 0; j < HIDDEN; j++) {
        for (int g = 0; g < 4; g++)
            sum[g] = of_x(w, g * HIDDEN + j, x) + of_h(w, g * HIDDEN + j, h);
        c[j] = sigmoid(sum[1]) * c[j] + sigmoid(sum[0]) * tanh(sum[2]);
        next[j] = sigmoid(sum[3]) * tanh(c[j]);
    }
    memcpy(h, next, sizeof next);
}

static void plain_gru(const weights *w, const double *x, double *h, double *c) {
    double next[HIDDEN];
    (void)c;
    for (int j = 0; j < HIDDEN; j++) {
        int z = HIDDEN + j, n = 2 * HIDDEN + j;
        double reset = sigmoid(of_x(w, j, x) + of_h(w, j, h));
        double update = sigmoid(of_x(w, z, x) + of_h(w, z, h));
        double new = tanh(of_x(w, n, x) + reset * of_h(w, n, h));
        next[j] = (1 - update) * new + update *h[j];
    }
    memcpy(h, next, sizeof next);
}

static void check_recurrent(const char *kind, int results,
                            void (*plain)(const weights *, const double *, double *, double *)) {
    qn_ctx *qn = open_context();
    uint64_t seed = 8;
    weights w;
    double x[T * IN], h[HIDDEN], c[HIDDEN], all[T * HIDDEN];
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l = qn_layer_new(m, kind, "l", &QN_LAYER_OPTIONS(.in = IN, .hidden = HIDDEN));
    fill(qn_module_find(m, "l.weight_ih_l0"), w.ih, &seed);
    fill(qn_module_find(m, "l.weight_hh_l0"), w.hh, &seed);
    fill(qn_module_find(m, "l.bias_ih_l0"), w.bi, &seed);
    fill(qn_module_find(m, "l.bias_hh_l0"), w.bh, &seed);
    qn_tensor *in[3] = {input(qn, 2, (int64_t[]){T, IN}, x, &seed)}, *out[3];
    in[1] = input(qn, 2, (int64_t[]){1, HIDDEN}, h, &seed);
    if (results == 3) in[2] = input(qn, 2, (int64_t[]){1, HIDDEN}, c, &seed);
    for (int t = 0; t < T; t++) {
        plain(&w, x + t * IN, h, c);
        memcpy(all + t * HIDDEN, h, sizeof h);
    }
    CHECK_INT(qn_layer_call(l, results, in, results, out), QN_OK);
    check_values(out[0], all, T * HIDDEN);
    check_values(out[1], h, HIDDEN);
    if (results == 3) check_values(out[2], c, HIDDEN);
    CHECK_STR(qn_error(qn), "");
    qn_module_free(m);
    qn_close(qn);
}

static void lstm_and_gru_are_their_formulas(void) {
    check_recurrent("LSTM", 3, plain_lstm);
    check_recurrent("GRU", 2, plain_gru);
}

/* ---- attention ------------------------------------------------------------------------------ */

/* What a cache has of the keys before gives what all of them at once do. */
static void attention_by_steps_is_attention_of_all(void) {
    enum { WIDTH = 4, LONG = 3 };
    qn_ctx *qn = open_context();
    uint64_t seed = 4;
    double x[LONG * WIDTH];
    float whole[LONG * WIDTH];
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l = qn_layer_new(
        m, "MultiheadAttention", "a",
        &QN_LAYER_OPTIONS(.in = WIDTH, .heads = 2, .batch_first = true, .causal = true));
    qn_tensor *t = input(qn, 3, (int64_t[]){1, LONG, WIDTH}, x, &seed);
    qn_tensor *in[7] = {t, t, t}, *out[4], *past[2] = {NULL};
    CHECK_INT(qn_layer_call(l, 3, in, 2, out), QN_OK);
    CHECK_INT(qn_read(out[0], whole, sizeof whole), QN_OK);
    CHECK_INT(qn_rank(out[1]), 3);
    for (int i = 0; i < LONG; i++) {
        double wanted[WIDTH];
        for (int k = 0; k < WIDTH; k++) wanted[k] = (double)whole[i * WIDTH + k];
        in[0] = in[1] = in[2] = qn_slice(t, 1, i, i + 1, 1);
        in[5] = past[0], in[6] = past[1];
        CHECK_INT(qn_layer_call(l, 7, in, 4, out), QN_OK);
        check_values(out[0], wanted, WIDTH);
        past[0] = out[2], past[1] = out[3];
    }
    CHECK_STR(qn_error(qn), "");
    qn_module_free(m);
    qn_close(qn);
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* Nodes 0 -> 1, 2 -> 1 and loops: degrees 1, 3, 1; weights 1 / sqrt(d d'). */
static void graph_convolution_is_the_sum_over_edges(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l = qn_layer_new(m, "GCNConv", "g", &QN_LAYER_OPTIONS(.in = 1, .out = 1));
    CHECK_INT(qn_write(qn_module_find(m, "g.lin.weight"), &(float){2}, sizeof(float)), QN_OK);
    CHECK_INT(qn_write(qn_module_find(m, "g.bias"), &(float){0.5f}, sizeof(float)), QN_OK);
    qn_tensor *in[2] = {qn_from(qn, QN_F32, 2, (int64_t[]){3, 1}, (float[]){1, 10, 100}),
                        qn_from(qn, QN_I64, 2, (int64_t[]){2, 2}, (int64_t[]){0, 2, 1, 1})};
    qn_tensor *out[1];
    CHECK_INT(qn_layer_call(l, 2, in, 1, out), QN_OK);
    double middle = 2 / sqrt(3) + 20.0 / 3 + 200 / sqrt(3) + 0.5;
    check_values(out[0], (double[]){2.5, middle, 200.5}, 3);
    qn_module_free(m);
    qn_close(qn);
}

/* -1 is no node: the edge brings nothing, and with QN_CHECK it is an error. */
static void nodes_do_not_count_from_the_end(void) {
    static const char *const kind[] = {"GCNConv", "GATConv"};
    setenv("QN_CHECK", "1", 1);
    for (int k = 0; k < 4; k++) {
        qn_ctx *qn = open_context();
        qn_module *m = qn_module_new(qn, 1);
        qn_layer *l = qn_layer_new(m, kind[k / 2], "g",
                                   &QN_LAYER_OPTIONS(.in = 1, .out = 1, .no_normalize = true));
        int64_t edge[4] = {0, 2, 1, 1};
        edge[k % 2 ? 3 : 1] = -1;
        qn_tensor *in[2] = {qn_from(qn, QN_F32, 2, (int64_t[]){3, 1}, (float[]){1, 10, 100}),
                            qn_from(qn, QN_I64, 2, (int64_t[]){2, 2}, edge)};
        qn_tensor *out[1];
        float got[3];
        CHECK_INT(qn_layer_call(l, 2, in, 1, out), QN_OK);
        CHECK_INT(qn_read(out[0], got, sizeof got), QN_ERANGE);
        CHECK(strstr(qn_error(qn), "index -1 of an axis of 3") != NULL);
        qn_clear_error(qn);
        qn_module_free(m);
        qn_close(qn);
    }
    unsetenv("QN_CHECK");
}

static void edges_of_no_node_bring_nothing(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l = qn_layer_new(m, "GCNConv", "g", &QN_LAYER_OPTIONS(.in = 1, .out = 1));
    CHECK_INT(qn_write(qn_module_find(m, "g.lin.weight"), &(float){2}, sizeof(float)), QN_OK);
    for (int k = 0; k < 2; k++) {
        int64_t edge[6] = {0, 2, 1, 1, 1, k ? -1 : 3};
        qn_tensor *in[2] = {qn_from(qn, QN_F32, 2, (int64_t[]){3, 1}, (float[]){1, 10, 100}),
                            qn_from(qn, QN_I64, 2, (int64_t[]){2, 3}, edge)};
        qn_tensor *out[1];
        CHECK_INT(qn_layer_call(l, 2, in, 1, out), QN_OK);
        double middle = 2 / sqrt(3) + 20.0 / 3 + 200 / sqrt(3);
        check_values(out[0], (double[]){2, middle, 200}, 3);
    }
    qn_module_free(m);
    qn_close(qn);
}

/* With no attention parameters all edges to a node count alike, its loop too. */
static void graph_attention_of_zeros_is_the_mean_over_edges(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l = qn_layer_new(m, "GATConv", "g", &QN_LAYER_OPTIONS(.in = 1, .out = 1, .heads = 2));
    static const float zero[2];
    CHECK_INT(qn_write(qn_module_find(m, "g.lin.weight"), (float[]){1, 2}, 8), QN_OK);
    CHECK_INT(qn_write(qn_module_find(m, "g.att_src"), zero, 8), QN_OK);
    CHECK_INT(qn_write(qn_module_find(m, "g.att_dst"), zero, 8), QN_OK);
    qn_tensor *in[2] = {qn_from(qn, QN_F32, 2, (int64_t[]){3, 1}, (float[]){1, 10, 100}),
                        qn_from(qn, QN_I64, 2, (int64_t[]){2, 3}, (int64_t[]){0, 2, 1, 1, 1, 1})};
    qn_tensor *out[1];
    CHECK_INT(qn_layer_call(l, 2, in, 1, out), QN_OK);
    check_values(out[0], (double[]){1, 2, 37, 74, 100, 200}, 6);
    qn_module_free(m);
    qn_close(qn);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static void buffers_are_saved_and_loaded(void) {
    char path[] = "/tmp/quern-test-layers-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1), *other = qn_module_new(qn, 2);
    CHECK(qn_layer_new(m, "BatchNorm1d", "b", &QN_LAYER_OPTIONS(.in = 2)));
    CHECK(qn_layer_new(other, "BatchNorm1d", "b", &QN_LAYER_OPTIONS(.in = 2)));
    CHECK_INT(qn_write(qn_module_find(m, "b.running_mean"), (float[]){3, 4}, 8), QN_OK);
    CHECK_INT(qn_module_save(m, path, NULL), QN_OK);
    qn_file *f = qn_file_open(qn, path);
    CHECK_INT(qn_module_load(other, f), QN_OK);
    check_values(qn_module_find(other, "b.running_mean"), (double[]){3, 4}, 2);
    qn_file_close(f);
    unlink(path);
    qn_module_free(m);
    qn_module_free(other);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(tensors_are_called_as_pytorchs);
    RUN(what_cannot_be_made_says_why);
    RUN(what_takes_no_such_number_says_so);
    RUN(parameters_need_a_shape);
    RUN(layers_of_one_operation_are_pytorchs);
    RUN(rms_norm_adds_the_dtypes_epsilon);
    RUN(four_axes_are_normalised);
    RUN(one_value_is_not_normalised);
    RUN(states_are_those_of_all_layers);
    RUN(fields_of_other_kinds_are_not_read);
    RUN(batch_norm_goes_on_with_running_statistics);
    RUN(dropout_draws_anew_each_step_by_one_plan);
    RUN(the_row_of_padding_begins_at_zero_and_has_no_gradient);
    RUN(lstm_and_gru_are_their_formulas);
    RUN(attention_by_steps_is_attention_of_all);
    RUN(graph_convolution_is_the_sum_over_edges);
    RUN(graph_attention_of_zeros_is_the_mean_over_edges);
    RUN(nodes_do_not_count_from_the_end);
    RUN(edges_of_no_node_bring_nothing);
    RUN(buffers_are_saved_and_loaded);
    return test_end();
}
