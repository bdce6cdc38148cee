/* test_nn.c - layers, a whole GPT, modules and text data against plain loops in double precision
 * that were written from the formulas, with the parameters read out of the module. */
#include "io/io.h"
#include "quern_nn.h"
#include "run/run.h"
#include "test.h"

#include <unistd.h>

enum { MOST = 8192 };

static qn_ctx *open_context(void) {
    qn_ctx *qn = qn_open(NULL);
    if (!qn) FAIL("no context");
    return qn;
}

/* Every error ends here: a test that fails says why. */
static void expect_fine(qn_ctx *qn) {
    CHECK_STR(qn_error(qn), "");
    qn_clear_error(qn);
}

static void random_values(float *x, int64_t n, uint64_t *seed) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)(test_uniform(seed) * 2 - 1);
}

/* A parameter's value as doubles; replaced by random ones first, so that no zero or one hides a
 * fault. */
static double *parameter_values(qn_module *m, const char *name, uint64_t *seed) {
    qn_tensor *t = qn_module_find(m, name);
    float values[MOST];
    if (!t || qn_numel(t) > MOST) {
        FAIL("no parameter %s", name);
        return NULL;
    }
    random_values(values, qn_numel(t), seed);
    CHECK_INT(qn_write(t, values, (size_t)qn_numel(t) * sizeof *values), 0);
    double *out = malloc((size_t)qn_numel(t) * sizeof *out);
    for (int64_t i = 0; i < qn_numel(t); i++) out[i] = (double)values[i];
    return out;
}

static void check_values(qn_tensor *t, const double *expected, int64_t n, double rel, double abs_) {
    static float got[MOST];
    CHECK(t != NULL);
    if (!t) return;
    CHECK_INT(qn_numel(t), n);
    CHECK_INT(qn_read(t, got, sizeof got), 0);
    for (int64_t i = 0; i < n && !test_state.bad; i++)
        CHECK_NEAR((double)got[i], expected[i], rel, abs_);
}

/* ---- the formulas ---------------------------------------------------------------------------- */

/* y[rows][out] = x[rows][in] @ w[out][in]^T + b */
static void plain_linear(const double *x, const double *w, const double *b, int rows, int in,
                         int out, double *y) {
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (int i = 0; i < in; i++) sum += x[r * in + i] * w[o * in + i];
            y[r * out + o] = sum;
        }
}

static void plain_layer_norm(const double *x, const double *w, const double *b, int rows, int n,
                             double *y) {
    for (int r = 0; r < rows; r++, x += n, y += n) {
        double mean = 0, variance = 0;
        for (int i = 0; i < n; i++) mean += x[i] / n;
        for (int i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / n;
        for (int i = 0; i < n; i++) y[i] = (x[i] - mean) / sqrt(variance + 1e-5) * w[i] + b[i];
    }
}

/* Causal or full self-attention of one sequence, from the fused projection [time][3 * width]. */
static void plain_attention(const double *qkv, int time, int width, int heads, bool causal,
                            double *y) {
    int size = width / heads;
    for (int h = 0; h < heads; h++)
        for (int t = 0; t < time; t++) {
            double weight[64], total = 0, top = -INFINITY;
            int seen = causal ? t + 1 : time;
            for (int s = 0; s < seen; s++) {
                weight[s] = 0;
                for (int d = 0; d < size; d++)
                    weight[s] += qkv[t * 3 * width + h * size + d] *
                                 qkv[s * 3 * width + width + h * size + d] / sqrt(size);
                top = fmax(top, weight[s]);
            }
            for (int s = 0; s < seen; s++) total += weight[s] = exp(weight[s] - top);
            for (int d = 0; d < size; d++) {
                double sum = 0;
                for (int s = 0; s < seen; s++)
                    sum += weight[s] / total * qkv[s * 3 * width + 2 * width + h * size + d];
                y[t * width + h * size + d] = sum;
            }
        }
}

/* ---- layers ---------------------------------------------------------------------------------- */

static void convolution_takes_its_weights_from_the_module(void) {
    qn_ctx *qn = open_context();
    uint64_t seed = 12;
    qn_module *m = qn_module_new(qn, 1);
    qn_conv_options options = QN_CONV_OPTIONS(.stride = {2}, .groups = 2);
    qn_layer *l = qn_conv_new(m, "l", 2, 2, 1, (int64_t[]){2}, &QN_LAYER_OPTIONS(.conv = &options));
    CHECK_INT(qn_rank(qn_module_find(m, "l.weight")), 3);
    float start[4];
    CHECK_INT(qn_read(qn_module_find(m, "l.weight"), start, sizeof start), QN_OK);
    for (int i = 0; i < 4; i++) CHECK(fabsf(start[i]) <= (float)sqrt(0.5) && start[i] != 0);
    double *w = parameter_values(m, "l.weight", &seed), *b = parameter_values(m, "l.bias", &seed);
    float values[10];
    double y[4];
    random_values(values, 10, &seed);
    for (int i = 0; i < 4; i++) {
        const float *x = values + i / 2 * 5 + i % 2 * 2;
        y[i] = w[i / 2 * 2] * (double)x[0] + w[i / 2 * 2 + 1] * (double)x[1] + b[i / 2];
    }
    qn_tensor *t = qn_from(qn, QN_F32, 3, (int64_t[]){1, 2, 5}, values);
    check_values(qn_layer_forward(l, t), y, 4, 1e-5, 1e-6);
    expect_fine(qn);
    CHECK(!qn_conv_new(m, "odd", 3, 2, 1, (int64_t[]){2}, &QN_LAYER_OPTIONS(.conv = &options)));
    CHECK_STR(qn_error(qn), "conv_new: 1 spatial axes, 3 channels in 2 groups");
    qn_clear_error(qn);
    free(w), free(b);
    qn_module_free(m);
    qn_close(qn);
}

static void linear_is_a_matrix_product_plus_bias(void) {
    qn_ctx *qn = open_context();
    uint64_t seed = 11;
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *l = qn_linear_new(m, "l", 5, 3, &QN_LAYER_OPTIONS(.scale = 1));
    qn_layer *bare = qn_linear_new(m, "bare", 5, 3, &QN_LAYER_OPTIONS(.scale = 1, .no_bias = true));
    double *w = parameter_values(m, "l.weight", &seed), *b = parameter_values(m, "l.bias", &seed);
    double *v = parameter_values(m, "bare.weight", &seed), x[20], y[12];
    float values[20];
    random_values(values, 20, &seed);
    for (int i = 0; i < 20; i++) x[i] = (double)values[i];
    qn_tensor *t = qn_from(qn, QN_F32, 3, (int64_t[]){2, 2, 5}, values);
    plain_linear(x, w, b, 4, 5, 3, y);
    check_values(qn_layer_forward(l, t), y, 12, 1e-5, 1e-6);
    plain_linear(x, v, NULL, 4, 5, 3, y);
    check_values(qn_layer_forward(bare, t), y, 12, 1e-5, 1e-6);
    CHECK_INT(qn_module_count(m), 3);
    expect_fine(qn);
    free(w), free(b), free(v);
    qn_module_free(m);
    qn_close(qn);
}

static void norms_are_their_formulas(void) {
    qn_ctx *qn = open_context();
    uint64_t seed = 12;
    qn_module *m = qn_module_new(qn, 1);
    qn_layer *layer = qn_layer_norm_new(m, "layer", 6, NULL);
    qn_layer *rms = qn_rms_norm_new(m, "rms", 6, NULL);
    double *w = parameter_values(m, "layer.weight", &seed);
    double *b = parameter_values(m, "layer.bias", &seed);
    double *v = parameter_values(m, "rms.weight", &seed), x[18], y[18];
    float values[18];
    random_values(values, 18, &seed);
    for (int i = 0; i < 18; i++) x[i] = (double)values[i];
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){3, 6}, values);
    plain_layer_norm(x, w, b, 3, 6, y);
    check_values(qn_layer_forward(layer, t), y, 18, 1e-4, 1e-5);
    for (int r = 0; r < 3; r++) {
        double square = 0;
        for (int i = 0; i < 6; i++) square += x[r * 6 + i] * x[r * 6 + i] / 6;
        for (int i = 0; i < 6; i++) y[r * 6 + i] = x[r * 6 + i] / sqrt(square + 1e-6) * v[i];
    }
    check_values(qn_layer_forward(rms, t), y, 18, 1e-4, 1e-5);
    expect_fine(qn);
    free(w), free(b), free(v);
    qn_module_free(m);
    qn_close(qn);
}

static void attention_is_its_formula(void) {
    enum { TIME = 5, WIDTH = 8, HEADS = 2, BATCH = 2 };
    for (int causal = 0; causal < 2; causal++) {
        qn_ctx *qn = open_context();
        uint64_t seed = 13;
        qn_module *m = qn_module_new(qn, 1);
        qn_layer *l = qn_attention_new(
            m, "a", WIDTH, HEADS, &QN_LAYER_OPTIONS(.scale = 1, .out_scale = 1, .causal = causal));
        double *qkv_w = parameter_values(m, "a.qkv.weight", &seed);
        double *qkv_b = parameter_values(m, "a.qkv.bias", &seed);
        double *out_w = parameter_values(m, "a.out.weight", &seed);
        double *out_b = parameter_values(m, "a.out.bias", &seed);
        double x[BATCH * TIME * WIDTH], y[BATCH * TIME * WIDTH];
        float values[BATCH * TIME * WIDTH];
        random_values(values, COUNT_OF(values), &seed);
        for (size_t i = 0; i < COUNT_OF(x); i++) x[i] = (double)values[i];
        for (int b = 0; b < BATCH; b++) {
            double qkv[TIME * 3 * WIDTH], mixed[TIME * WIDTH];
            plain_linear(x + b * TIME * WIDTH, qkv_w, qkv_b, TIME, WIDTH, 3 * WIDTH, qkv);
            plain_attention(qkv, TIME, WIDTH, HEADS, causal, mixed);
            plain_linear(mixed, out_w, out_b, TIME, WIDTH, WIDTH, y + b * TIME * WIDTH);
        }
        qn_tensor *t = qn_from(qn, QN_F32, 3, (int64_t[]){BATCH, TIME, WIDTH}, values);
        check_values(qn_layer_forward(l, t), y, COUNT_OF(y), 1e-4, 1e-5);
        expect_fine(qn);
        free(qkv_w), free(qkv_b), free(out_w), free(out_b);
        qn_module_free(m);
        qn_close(qn);
    }
}

/* ---- a GPT ----------------------------------------------------------------------------------- */

enum { VOCABULARY = 7, CONTEXT = 6, LAYERS = 2, WIDTH = 8, HEADS = 2, BATCH = 2, TIME = 5 };

static const qn_gpt_config tiny = QN_GPT_CONFIG(VOCABULARY, CONTEXT, LAYERS, HEADS, WIDTH);

/* The parameters by name, as the plain GPT wants them. */
typedef struct weights {
    qn_module *m;
    uint64_t seed;
    int count;
    double *value[64];
} weights;

static const double *weight_of(weights *w, const char *fmt, int block) {
    char name[64];
    snprintf(name, sizeof name, fmt, block);
    return w->value[w->count++] = parameter_values(w->m, name, &w->seed);
}

static void plain_gpt(weights *w, const int32_t *ids, double *logits) {
    const double *token = weight_of(w, "token.weight", 0);
    const double *position = weight_of(w, "position.weight", 0);
    double x[BATCH][TIME * WIDTH], n[TIME * WIDTH], h[TIME * 4 * WIDTH], y[TIME * 3 * WIDTH];
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < TIME * WIDTH; i++)
            x[b][i] = token[ids[b * TIME + i / WIDTH] * WIDTH + i % WIDTH] + position[i];
    for (int l = 0; l < LAYERS; l++) {
        const double *p[12];
        static const char *const names[] = {
            "block.%d.norm1.weight",         "block.%d.norm1.bias",
            "block.%d.attention.qkv.weight", "block.%d.attention.qkv.bias",
            "block.%d.attention.out.weight", "block.%d.attention.out.bias",
            "block.%d.norm2.weight",         "block.%d.norm2.bias",
            "block.%d.mlp.up.weight",        "block.%d.mlp.up.bias",
            "block.%d.mlp.down.weight",      "block.%d.mlp.down.bias"};
        for (int i = 0; i < 12; i++) p[i] = weight_of(w, names[i], l);
        for (int b = 0; b < BATCH; b++) {
            plain_layer_norm(x[b], p[0], p[1], TIME, WIDTH, n);
            plain_linear(n, p[2], p[3], TIME, WIDTH, 3 * WIDTH, y);
            plain_attention(y, TIME, WIDTH, HEADS, true, n);
            plain_linear(n, p[4], p[5], TIME, WIDTH, WIDTH, y);
            for (int i = 0; i < TIME * WIDTH; i++) x[b][i] += y[i];
            plain_layer_norm(x[b], p[6], p[7], TIME, WIDTH, n);
            plain_linear(n, p[8], p[9], TIME, WIDTH, 4 * WIDTH, h);
            for (int i = 0; i < TIME * 4 * WIDTH; i++) h[i] = h[i] / 2 * (1 + erf(h[i] / sqrt(2)));
            plain_linear(h, p[10], p[11], TIME, 4 * WIDTH, WIDTH, y);
            for (int i = 0; i < TIME * WIDTH; i++) x[b][i] += y[i];
        }
    }
    const double *norm_w = weight_of(w, "norm.weight", 0), *norm_b = weight_of(w, "norm.bias", 0);
    const double *head = weight_of(w, "head.weight", 0);
    for (int b = 0; b < BATCH; b++) {
        plain_layer_norm(x[b], norm_w, norm_b, TIME, WIDTH, n);
        plain_linear(n, head, NULL, TIME, WIDTH, VOCABULARY, logits + b * TIME * VOCABULARY);
    }
}

static double plain_cross_entropy(const double *logits, const int32_t *targets, int rows) {
    double loss = 0;
    for (int r = 0; r < rows; r++, logits += VOCABULARY) {
        double total = 0;
        for (int c = 0; c < VOCABULARY; c++) total += exp(logits[c]);
        loss += (log(total) - logits[targets[r]]) / rows;
    }
    return loss;
}

static const int32_t some_ids[BATCH * TIME] = {0, 3, 6, 1, 2, 5, 5, 4, 0, 1};
static const int32_t some_targets[BATCH * TIME] = {3, 6, 1, 2, 0, 5, 4, 0, 1, 6};

static void gpt_is_its_formula(void) {
    qn_ctx *qn = open_context();
    qn_gpt *gpt = qn_gpt_new(qn, 1, &tiny);
    weights w = {.m = qn_gpt_module(gpt), .seed = 14};
    double logits[BATCH * TIME * VOCABULARY];
    plain_gpt(&w, some_ids, logits);
    CHECK_INT(w.count, qn_module_count(w.m)); /* no parameter was left out */
    qn_tensor *ids = qn_from(qn, QN_I32, 2, (int64_t[]){BATCH, TIME}, some_ids);
    qn_tensor *targets = qn_from(qn, QN_I32, 2, (int64_t[]){BATCH, TIME}, some_targets);
    check_values(qn_gpt_forward(gpt, ids), logits, COUNT_OF(logits), 1e-3, 1e-4);
    double loss = plain_cross_entropy(logits, some_targets, BATCH * TIME);
    check_values(qn_gpt_loss(gpt, ids, targets), &loss, 1, 1e-4, 0);
    expect_fine(qn);
    for (int i = 0; i < w.count; i++) free(w.value[i]);
    qn_gpt_free(gpt);
    qn_close(qn);
}

/* Change every parameter by `distance` along its direction and give the loss there. */
static double loss_along(qn_ctx *qn, qn_gpt *gpt, float *const *start, float *const *direction,
                         double distance) {
    qn_module *m = qn_gpt_module(gpt);
    static float values[MOST];
    float loss = 0;
    for (int i = 0; i < qn_module_count(m); i++) {
        qn_tensor *p = qn_module_parameters(m)[i];
        for (int64_t k = 0; k < qn_numel(p); k++)
            values[k] = start[i][k] + (float)distance * direction[i][k];
        qn_write(p, values, (size_t)qn_numel(p) * sizeof *values);
    }
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *ids = qn_from(qn, QN_I32, 2, (int64_t[]){BATCH, TIME}, some_ids);
    qn_tensor *targets = qn_from(qn, QN_I32, 2, (int64_t[]){BATCH, TIME}, some_targets);
    qn_read(qn_gpt_loss(gpt, ids, targets), &loss, sizeof loss);
    qn_scope_end(qn, s);
    return (double)loss;
}

/* The gradient's product with random directions is the slope of the loss along them. */
static void gpt_gradient_is_the_slope_of_the_loss(void) {
    qn_ctx *qn = open_context();
    qn_gpt *gpt = qn_gpt_new(qn, 5, &tiny);
    qn_module *m = qn_gpt_module(gpt);
    int n = qn_module_count(m);
    uint64_t seed = 15;
    float *start[64], *direction[64], *slope[64];
    qn_scope s = qn_scope_begin(qn);
    for (int i = 0; i < n; i++) {
        qn_tensor *p = qn_module_parameters(m)[i];
        size_t size = (size_t)qn_numel(p) * sizeof(float);
        start[i] = malloc(size), direction[i] = malloc(size), slope[i] = malloc(size);
        random_values(start[i], qn_numel(p), &seed);
        qn_write(p, start[i], size);
    }
    qn_tensor *ids = qn_from(qn, QN_I32, 2, (int64_t[]){BATCH, TIME}, some_ids);
    qn_tensor *targets = qn_from(qn, QN_I32, 2, (int64_t[]){BATCH, TIME}, some_targets);
    qn_tensor *gradient[64];
    CHECK_INT(qn_grad(qn_gpt_loss(gpt, ids, targets), NULL, n, qn_module_parameters(m), gradient),
              0);
    for (int i = 0; i < n; i++) qn_read(gradient[i], slope[i], MOST * sizeof(float));
    qn_scope_end(qn, s);
    for (int round = 0; round < 4; round++) {
        double expected = 0, step = 2e-3;
        for (int i = 0; i < n; i++) {
            int64_t count = qn_numel(qn_module_parameters(m)[i]);
            random_values(direction[i], count, &seed);
            for (int64_t k = 0; k < count; k++)
                expected += (double)slope[i][k] * (double)direction[i][k];
        }
        double measured = (loss_along(qn, gpt, start, direction, step) -
                           loss_along(qn, gpt, start, direction, -step)) /
                          (2 * step);
        CHECK_NEAR(expected, measured, 5e-3, 5e-4);
    }
    expect_fine(qn);
    for (int i = 0; i < n; i++) free(start[i]), free(direction[i]), free(slope[i]);
    qn_gpt_free(gpt);
    qn_close(qn);
}

static void gpt_refuses_bad_sizes(void) {
    qn_ctx *qn = open_context();
    qn_gpt_config config = tiny;
    config.heads = 3;
    CHECK(qn_gpt_new(qn, 1, &config) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    qn_clear_error(qn);
    config = tiny;
    config.layers = -1;
    CHECK(qn_gpt_new(qn, 1, &config) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ERANGE);
    qn_clear_error(qn);
    qn_gpt *gpt = qn_gpt_new(qn, 1, &tiny);
    int32_t ids[16] = {0};
    qn_tensor *long_ids = qn_from(qn, QN_I32, 2, (int64_t[]){1, CONTEXT + 1}, ids);
    CHECK(qn_gpt_forward(gpt, long_ids) == NULL);
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    CHECK(qn_gpt_forward(gpt, NULL) == NULL && qn_gpt_forward(NULL, long_ids) == NULL);
    qn_gpt_free(gpt);
    qn_close(qn);
}

/* ---- modules --------------------------------------------------------------------------------- */

static void random_parameters_have_the_deviation_asked_for(void) {
    enum { N = 4096 };
    qn_ctx *qn = open_context();
    static float normal[N], uniform[N], again[N];
    qn_module *m = qn_module_new(qn, 3), *other = qn_module_new(qn, 3);
    int64_t shape[] = {64, 64};
    qn_tensor *a = qn_module_parameter(m, "a", QN_F32, 2, shape,
                                       &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 0.02));
    qn_tensor *b = qn_module_parameter(m, "b", QN_F32, 2, shape,
                                       &QN_INIT_OPTIONS(.kind = QN_INIT_UNIFORM, .scale = 0.5));
    qn_module_parameter(other, "b", QN_F32, 2, shape,
                        &QN_INIT_OPTIONS(.kind = QN_INIT_UNIFORM, .scale = 0.5));
    qn_tensor *a2 = qn_module_parameter(other, "a", QN_F32, 2, shape,
                                        &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 0.02));
    qn_read(a, normal, sizeof normal);
    qn_read(b, uniform, sizeof uniform);
    qn_read(a2, again, sizeof again);
    double mean = 0, square = 0, lowest = 0, highest = 0, together = 0;
    for (int i = 0; i < N; i++) {
        mean += (double)normal[i] / (double)N;
        square += (double)normal[i] * (double)normal[i] / (double)N;
        lowest = fmin(lowest, (double)uniform[i]);
        highest = fmax(highest, (double)uniform[i]);
        together += (double)normal[i] / 0.02 * (double)uniform[i] / 0.2887 / (double)N;
    }
    CHECK_NEAR(mean, 0, 0, 4 * 0.02 / sqrt(N)); /* four standard errors */
    CHECK_NEAR(sqrt(square), 0.02, 4 / sqrt(2.0 * (double)N), 0);
    CHECK(lowest >= -0.5 && lowest < -0.49 && highest < 0.5 && highest > 0.49);
    CHECK_NEAR(together, 0, 0, 4 / sqrt(N));      /* the two are independent */
    CHECK(!memcmp(normal, again, sizeof normal)); /* seed and name decide, not the order */
    expect_fine(qn);
    qn_module_free(m);
    qn_module_free(other);
    qn_close(qn);
}

static void names_are_unique_and_bounded(void) {
    qn_ctx *qn = open_context();
    qn_module *m = qn_module_new(qn, 1);
    char longest[200];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    int64_t shape[] = {2};
    CHECK(qn_module_parameter(m, "a", QN_F32, 1, shape, NULL) != NULL);
    CHECK(qn_module_parameter(m, "a", QN_F32, 1, shape, NULL) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    qn_clear_error(qn);
    CHECK(qn_module_parameter(m, longest, QN_F32, 1, shape, NULL) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    qn_clear_error(qn);
    CHECK(qn_linear_new(m, longest, 2, 2, &QN_LAYER_OPTIONS(.scale = 1)) == NULL);
    CHECK_INT(qn_error_code(qn), QN_EARG);
    CHECK_INT(qn_module_count(m), 1);
    CHECK(qn_module_find(m, "b") == NULL && qn_module_name(m, 1) == NULL);
    qn_module_free(m);
    qn_close(qn);
}

static void modules_load_all_or_nothing(void) {
    qn_ctx *qn = open_context();
    char path[64];
    snprintf(path, sizeof path, "/tmp/quern-nn-%ld", (long)getpid());
    int64_t shape[] = {3};
    float before[3], after[3];
    qn_module *saved = qn_module_new(qn, 1), *same = qn_module_new(qn, 2);
    qn_module *wrong = qn_module_new(qn, 3), *more = qn_module_new(qn, 4);
    qn_module_parameter(saved, "a", QN_F32, 1, shape,
                        &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 1));
    qn_module_parameter(saved, "b", QN_F32, 1, shape,
                        &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 1));
    qn_module_parameter(same, "a", QN_F32, 1, shape,
                        &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 1));
    qn_tensor *w = qn_module_parameter(wrong, "a", QN_F32, 1, shape,
                                       &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 1));
    qn_module_parameter(wrong, "b", QN_F32, 1, (int64_t[]){4},
                        &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 1));
    qn_module_parameter(more, "c", QN_F32, 1, shape,
                        &QN_INIT_OPTIONS(.kind = QN_INIT_NORMAL, .scale = 1));
    CHECK_INT(qn_module_save(saved, path, NULL), 0);
    qn_file *file = qn_file_open(qn, path);
    CHECK_INT(qn_module_load(same, file), 0);
    qn_read(qn_module_find(saved, "a"), before, sizeof before);
    qn_read(qn_module_find(same, "a"), after, sizeof after);
    CHECK(!memcmp(before, after, sizeof before));
    qn_read(w, before, sizeof before);
    CHECK_INT(qn_module_load(wrong, file), QN_ESHAPE);
    qn_clear_error(qn);
    qn_read(w, after, sizeof after);
    CHECK(!memcmp(before, after, sizeof before));
    CHECK_INT(qn_module_load(more, file), QN_EARG);
    qn_clear_error(qn);
    CHECK_INT(qn_module_load(more, NULL), QN_ENULL);
    qn_file_close(file);
    unlink(path);
    qn_module_free(saved), qn_module_free(same), qn_module_free(wrong), qn_module_free(more);
    qn_close(qn);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void text_is_numbered_by_characters(void) {
    static const char bytes[] = "b\xc3\xa9"
                                "a\xff"
                                "b\xf0\x9f\x98\x80\xe2\x82"; /* é, stray ff, emoji, cut */
    static const uint32_t expected[] = {'a', 'b', 0xe9, 0xdc82, 0xdce2, 0xdcff, 0x1f600};
    static const int32_t numbers[] = {1, 2, 0, 5, 1, 6, 4, 3};
    qn_ctx *qn = open_context();
    qn_text *t = qn_text_new(qn, bytes, sizeof bytes - 1, 0);
    const uint32_t *character;
    int32_t ids[8];
    CHECK_INT(qn_text_vocabulary(t, &character), COUNT_OF(expected));
    for (size_t i = 0; i < COUNT_OF(expected); i++) CHECK_INT(character[i], expected[i]);
    CHECK_INT(qn_text_size(t, false), COUNT_OF(numbers));
    CHECK_INT(qn_text_ids(t, 0, 8, ids), 0);
    for (int i = 0; i < 8; i++) CHECK_INT(ids[i], numbers[i]);
    CHECK_INT(qn_text_ids(t, 1, 8, ids), QN_ERANGE);
    qn_text_free(t);
    qn_clear_error(qn);
    CHECK(qn_text_new(qn, "", 0, 0) == NULL && qn_error_code(qn) == QN_EARG);
    qn_clear_error(qn);
    CHECK(qn_text_new(qn, "a", (size_t)1 << 62, 0) == NULL && qn_error_code(qn) == QN_ENOMEM);
    qn_clear_error(qn);
    CHECK(qn_text_new(qn, "a", 1, 1) == NULL && qn_error_code(qn) == QN_ERANGE);
    qn_close(qn);
}

/* A text whose character at i tells i: windows can be recognised. */
static void batches_are_windows_of_their_part(void) {
    enum { SIZE = 1000, ROWS = 4, LENGTH = 7, TRAIN = 900 };
    qn_ctx *qn = open_context();
    char text[SIZE * 3];
    for (int i = 0; i < SIZE; i++) {
        uint32_t c = 0x1000 + (uint32_t)i;
        text[3 * i] = (char)(0xe0 | c >> 12);
        text[3 * i + 1] = (char)(0x80 | (c >> 6 & 0x3f));
        text[3 * i + 2] = (char)(0x80 | (c & 0x3f));
    }
    qn_text *t = qn_text_new(qn, text, sizeof text, 0.1);
    CHECK_INT(qn_text_size(t, false), TRAIN);
    CHECK_INT(qn_text_size(t, true), SIZE - TRAIN);
    int32_t ids[ROWS * LENGTH], targets[ROWS * LENGTH], again[ROWS * LENGTH];
    bool seen[SIZE] = {false};
    int lowest = SIZE, highest = 0;
    for (uint64_t index = 0; index < 500; index++) {
        CHECK_INT(qn_text_batch(t, ids, targets,
                                &QN_BATCH_OPTIONS(.rows = ROWS, .context = LENGTH, .seed = 9,
                                                  .index = index)),
                  ROWS);
        for (int i = 0; i < ROWS * LENGTH; i++) {
            CHECK_INT(targets[i], ids[i] + 1);
            if (i % LENGTH) CHECK_INT(ids[i], ids[i - 1] + 1);
            lowest = ids[i] < lowest ? ids[i] : lowest;
            highest = targets[i] > highest ? targets[i] : highest;
        }
    }
    CHECK(lowest < 5 && highest < TRAIN && highest > TRAIN - 6);
    qn_text_batch(t, ids, targets,
                  &QN_BATCH_OPTIONS(.rows = ROWS, .context = LENGTH, .seed = 9, .index = 3));
    qn_text_batch(t, again, targets,
                  &QN_BATCH_OPTIONS(.rows = ROWS, .context = LENGTH, .seed = 9, .index = 3));
    CHECK(!memcmp(ids, again, sizeof ids));
    qn_text_batch(t, again, targets,
                  &QN_BATCH_OPTIONS(.rows = ROWS, .context = LENGTH, .seed = 10, .index = 3));
    CHECK(memcmp(ids, again, sizeof ids) != 0);
    int windows = 0, within;
    for (uint64_t index = 0;
         (within = qn_text_batch(t, ids, targets,
                                 &QN_BATCH_OPTIONS(.rows = ROWS, .context = LENGTH,
                                 .held_out = true, .index = index))) > 0;
         index++) {
        windows += within;
        for (int i = 0; i < within * LENGTH; i++) {
            CHECK(ids[i] >= TRAIN && !seen[ids[i]]);
            seen[ids[i]] = true;
            CHECK_INT(targets[i], ids[i] + 1);
        }
        for (int i = within * LENGTH; i < ROWS * LENGTH; i++) CHECK_INT(ids[i], TRAIN + i % LENGTH);
    }
    CHECK_INT(windows, 99 / LENGTH);
    CHECK_INT(qn_text_batch(t, ids, targets,
                            &QN_BATCH_OPTIONS(.rows = 1, .context = 100, .held_out = true)),
              QN_ERANGE);
    qn_text_free(t);
    qn_close(qn);
}

/* ---- compiled while fresh -------------------------------------------------------------------- */

/* Two modules of one seed are alike: one is computed before it is compiled, the other is not. */
static void a_fresh_module_compiles(void) {
    qn_ctx *own = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    if (strcmp(qn_device_of(own, NULL), "cpu")) {
        qn_close(own);
        SKIP("no compiler");
        return;
    }
    qn_scope s = qn_scope_begin(own);
    float data[8] = {1, -2, 3, 4, .5, 6, -7, 8}, got[6], want[6];
    qn_tensor *x = qn_from(own, QN_F32, 2, (int64_t[]){2, 4}, data), *out;
    qn_module *m[2] = {qn_module_new(own, 7), qn_module_new(own, 7)};
    qn_layer *l[2];
    for (int i = 0; i < 2; i++) l[i] = qn_linear_new(m[i], "fc", 4, 3, NULL);
    CHECK(!qn_read(qn_layer_forward(l[0], x), want, sizeof want));
    qn_tensor *y = qn_layer_forward(l[1], x);
    qn_plan *p = qn_plan_new(own, 1, &x, 1, &y);
    if (!p) FAIL("%s", qn_error(own));
    CHECK(p && !qn_plan_run(p, &x, &out) && !qn_read(out, got, sizeof got));
    CHECK(!memcmp(got, want, sizeof got));
    CHECK(!qn_write(qn_module_find(m[1], "fc.weight"), (float[12]){0},
                    48)); /* what is a parameter is read anew */
    CHECK(p && !qn_plan_run(p, &x, &out) && !qn_read(out, got, sizeof got));
    for (int i = 0; i < 6; i++) CHECK(got[i] == 0);
    qn_plan_free(p);
    qn_scope_end(own, s);
    qn_module_free(m[0]);
    qn_module_free(m[1]);
    qn_close(own);
}

/* First values are memory before the first step: it has the plan that all others have. */
static void the_first_step_of_a_fresh_module_has_every_steps_plan(void) {
    qn_ctx *own = qn_open(&QN_OPTIONS(.threads = 1));
    qn_module *m = qn_module_new(own, 3);
    qn_layer *a = qn_linear_new(m, "a", 5, 7, NULL), *b = qn_linear_new(m, "b", 7, 7, NULL);
    qn_layer *unused = qn_linear_new(m, "unused", 5, 5, NULL);
    CHECK(a && b && unused);
    qn_optimizer_options o = qn_optimizer_defaults(QN_ADAM);
    qn_optimizer *adam = qn_optimizer_new(own, 4, qn_module_parameters(m), &o);
    qn_stats at[4] = {{0}};
    float data[10] = {1, -2, 3, .5f}, loss;
    for (int step = 0; step < 4; step++) {
        qn_scope s = qn_scope_begin(own);
        qn_tensor *x = qn_from(own, QN_F32, 2, (int64_t[]){2, 5}, data);
        qn_tensor *h = qn_tanh(qn_layer_forward(a, x));
        for (int t = 0; t < 3; t++) h = qn_tanh(qn_layer_forward(b, h));
        qn_tensor *y = qn_sum(qn_mul(h, h), QN_ALL, false);
        CHECK(!qn_optimizer_step(adam, y));
        CHECK(!qn_read(y, &loss, sizeof loss));
        qn_scope_end(own, s);
        qn_get_stats(own, &at[step], sizeof at[step]);
        if (step) CHECK_INT(at[step].plans, at[0].plans);
        if (step) CHECK_INT(at[step].compiles, at[0].compiles);
    }
    qn_optimizer_free(adam);
    qn_module_free(m);
    qn_close(own);
}

/* A training step recorded on fresh parameters: compiling makes no step, each run makes one. */
static void a_step_of_a_fresh_module_compiles(void) {
    qn_ctx *own = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    if (strcmp(qn_device_of(own, NULL), "cpu")) {
        qn_close(own);
        SKIP("no compiler");
        return;
    }
    qn_scope s = qn_scope_begin(own);
    float data[4] = {1, -2, 3, .5f}, w[4], first[4], loss;
    qn_tensor *x = qn_from(own, QN_F32, 2, (int64_t[]){1, 4}, data), *out;
    qn_module *m = qn_module_new(own, 3), *same = qn_module_new(own, 3);
    qn_layer *l = qn_linear_new(m, "fc", 4, 1, &QN_LAYER_OPTIONS(.no_bias = true));
    CHECK(qn_linear_new(same, "fc", 4, 1, &QN_LAYER_OPTIONS(.no_bias = true)));
    CHECK(!qn_read(qn_module_find(same, "fc.weight"), first, sizeof first));
    qn_optimizer_options o = qn_optimizer_defaults(QN_SGD);
    o.rate = 0.25;
    o.momentum = o.weight_decay = 0;
    qn_optimizer *sgd = qn_optimizer_new(own, 1, qn_module_parameters(m), &o);
    qn_tensor *y = qn_sum(qn_layer_forward(l, x), QN_ALL, false);
    CHECK(!qn_optimizer_step(sgd, y));
    qn_plan *p = qn_plan_new(own, 1, &x, 1, &y);
    if (!p) FAIL("%s", qn_error(own));
    CHECK(!qn_read(qn_module_find(m, "fc.weight"), w, sizeof w) && !memcmp(w, first, sizeof w));
    for (int step = 1; p && step <= 3; step++) {
        CHECK(!qn_plan_run(p, &x, &out) && !qn_read(out, &loss, sizeof loss));
        double expected = 0; /* of the weights before: each step takes rate * x off them */
        for (int i = 0; i < 4; i++) expected += data[i] * (first[i] - .25 * (step - 1) * data[i]);
        CHECK_NEAR(loss, expected, 1e-5, 1e-5);
        CHECK(!qn_read(qn_module_find(m, "fc.weight"), w, sizeof w));
        for (int i = 0; i < 4; i++) CHECK_NEAR(w[i], first[i] - .25 * step * data[i], 1e-5, 1e-6);
    }
    qn_plan_free(p);
    qn_optimizer_free(sgd);
    qn_scope_end(own, s);
    qn_module_free(m);
    qn_module_free(same);
    qn_close(own);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(linear_is_a_matrix_product_plus_bias);
    RUN(convolution_takes_its_weights_from_the_module);
    RUN(norms_are_their_formulas);
    RUN(attention_is_its_formula);
    RUN(gpt_is_its_formula);
    RUN(gpt_gradient_is_the_slope_of_the_loss);
    RUN(gpt_refuses_bad_sizes);
    RUN(random_parameters_have_the_deviation_asked_for);
    RUN(names_are_unique_and_bounded);
    RUN(modules_load_all_or_nothing);
    RUN(text_is_numbered_by_characters);
    RUN(batches_are_windows_of_their_part);
    RUN(a_fresh_module_compiles);
    RUN(the_first_step_of_a_fresh_module_has_every_steps_plan);
    RUN(a_step_of_a_fresh_module_compiles);
    return test_end();
}
