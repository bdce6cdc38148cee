/* test_kernel_counts.c - how many kernels patterns and models become: forward, with their gradients
 * in one request, and as a step of training. Counted on the null device, which plans everything and
 * runs nothing. docs/fusion.md shows the same numbers, and is held to them here. Of none are all
 * schedules refused. */
#include "quern_nn.h"
#include "test.h"

#include <string.h>

enum { MOST_PARAMETERS = 64 };

static qn_ctx *qn;
static qn_tensor *parameter[MOST_PARAMETERS];
static int parameters;

/* Zeros in memory. */
static qn_tensor *data(qn_dtype dtype, int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    void *zero = calloc((size_t)n, 8);
    qn_tensor *t = qn_from(qn, dtype, rank, shape, zero);
    free(zero);
    return t;
}

static qn_tensor *kept(qn_tensor *t) {
    return parameter[parameters++] = t;
}

/* A tensor in memory that gradients are asked for. */
#define RANK(...)  ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define GIVEN(...) kept(data(QN_F32, RANK(__VA_ARGS__), (int64_t[]){__VA_ARGS__}))

static qn_tensor *labels(int64_t n) {
    return data(QN_I64, 1, &n);
}

/* ---- patterns ------------------------------------------------------------------------------- */

static qn_tensor *softmax(void) {
    return qn_softmax(GIVEN(256, 512), -1);
}
static qn_tensor *log_softmax(void) {
    return qn_log_softmax(GIVEN(256, 512), -1);
}
static qn_tensor *layer_norm(void) {
    qn_tensor *x = GIVEN(256, 512), *g = GIVEN(512), *b = GIVEN(512);
    return qn_layer_norm(x, g, b, 1e-5);
}
static qn_tensor *rms_norm(void) {
    qn_tensor *x = GIVEN(256, 512), *g = GIVEN(512);
    return qn_rms_norm(x, g, 1e-5);
}
static qn_tensor *group_norm(void) {
    qn_tensor *x = GIVEN(4, 32, 16, 16), *g = GIVEN(32), *b = GIVEN(32);
    return qn_group_norm(x, g, b, 8, 1e-5);
}
/* As users write them, by the mean over axes. */
static qn_tensor *norm_over(int n, const int *axes) {
    qn_tensor *x = GIVEN(4, 32, 16, 16), *g = GIVEN(1, 32, 1, 1), *b = GIVEN(1, 32, 1, 1);
    qn_tensor *d = qn_sub(x, qn_mean_axes(x, n, axes, true));
    qn_tensor *v = qn_mean_axes(qn_mul(d, d), n, axes, true);
    return qn_fma(qn_mul(d, qn_rsqrt(qn_add(v, qn_like(v, 1e-5)))), g, b);
}
static qn_tensor *instance_norm(void) {
    return norm_over(2, (int[]){2, 3});
}
static qn_tensor *batch_norm(void) {
    return norm_over(3, (int[]){0, 2, 3});
}
static qn_tensor *cross_entropy(void) {
    return qn_cross_entropy(GIVEN(256, 512), labels(256));
}
static qn_tensor *padded_product(void) {
    qn_tensor *x = GIVEN(64, 64), *w = GIVEN(64, 64);
    return qn_pad(qn_matmul(x, w), (int64_t[]){1, 2, 2, 1}, QN_PAD_CONSTANT, 0);
}
static qn_tensor *two_products(void) {
    qn_tensor *x = GIVEN(256, 64), *up = GIVEN(64, 64), *down = GIVEN(64, 64);
    return qn_matmul(qn_relu(qn_matmul(x, up)), down);
}
static qn_tensor *two_narrow_products(void) {
    qn_tensor *x = GIVEN(4096, 16), *up = GIVEN(16, 64), *down = GIVEN(64, 16);
    return qn_matmul(qn_relu(qn_matmul(x, up)), down);
}
static qn_tensor *strided(void) {
    return qn_neg(qn_as_strided(GIVEN(8, 12), 2, (int64_t[]){6, 4}, (int64_t[]){12, 2}, 3));
}
static qn_tensor *attention(void) {
    qn_tensor *q = GIVEN(4, 256, 64), *k = GIVEN(4, 256, 64), *v = GIVEN(4, 256, 64);
    return qn_attention(q, k, v, &QN_ATTENTION_OPTIONS(.causal = true));
}

/* ---- models --------------------------------------------------------------------------------- */

static qn_module *module;
static qn_gpt *gpt;

static void take_parameters(qn_module *m) {
    module = m;
    for (int i = 0; i < qn_module_count(m) && parameters < MOST_PARAMETERS; i++)
        parameter[parameters++] = qn_module_parameters(m)[i];
    if (qn_realize(parameters, parameter)) FAIL("%s", qn_error(qn));
}

static qn_tensor *mlp(void) {
    qn_tensor *up = GIVEN(256, 784), *b = GIVEN(256), *down = GIVEN(10, 256), *c = GIVEN(10);
    qn_tensor *x = data(QN_F32, 2, (int64_t[]){128, 784});
    qn_tensor *y = qn_linear(qn_relu(qn_linear(x, up, b)), down, c);
    return qn_cross_entropy(y, labels(128));
}

static qn_tensor *gpt_model(void) {
    gpt = qn_gpt_new(
        qn, 1,
        &QN_GPT_CONFIG(.vocabulary = 128, .context = 64, .layers = 2, .heads = 4, .width = 64));
    take_parameters(qn_gpt_module(gpt));
    qn_tensor *ids = data(QN_I64, 2, (int64_t[]){1, 64});
    return qn_gpt_loss(gpt, ids, ids);
}

static qn_tensor *normed(qn_tensor *x, int64_t channels) {
    qn_tensor *g = GIVEN(channels), *b = GIVEN(channels);
    return qn_group_norm(x, g, b, 4, 1e-5);
}

/* Two basic blocks with group norms, the second with stride 2 and a projection. */
static qn_tensor *resnet(void) {
    qn_tensor *x = data(QN_F32, 4, (int64_t[]){8, 3, 32, 32});
    qn_tensor *y =
        qn_conv2d(x, GIVEN(16, 3, 3, 3), NULL, &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1}));
    for (int64_t block = 0, in = 16, out = 16; block < 2; block++, in = out, out *= 2) {
        int64_t to = block ? 32 : 16, stride = block ? 2 : 1;
        qn_tensor *a = qn_conv2d(
            y, GIVEN(to, in, 3, 3), NULL,
            &QN_CONV_OPTIONS(.stride = {stride, stride}, .before = {1, 1}, .after = {1, 1}));
        a = qn_relu(normed(a, to));
        a = qn_conv2d(a, GIVEN(to, to, 3, 3), NULL,
                      &QN_CONV_OPTIONS(.before = {1, 1}, .after = {1, 1}));
        a = normed(a, to);
        qn_tensor *skip =
            block ? qn_conv2d(y, GIVEN(to, in, 1, 1), NULL, &QN_CONV_OPTIONS(.stride = {2, 2})) : y;
        y = qn_relu(qn_add(a, skip));
        out = to;
    }
    qn_tensor *w = GIVEN(10, 32), *b = GIVEN(10);
    return qn_cross_entropy(qn_linear(qn_mean_axes(y, 2, (int[]){2, 3}, false), w, b), labels(8));
}

static qn_tensor *lstm(void) {
    enum { STEPS = 8, BATCH = 16, WIDTH = 64 };
    qn_tensor *x = data(QN_F32, 3, (int64_t[]){STEPS, BATCH, WIDTH});
    qn_tensor *wx = GIVEN(4 * WIDTH, WIDTH), *wh = GIVEN(4 * WIDTH, WIDTH), *b = GIVEN(4 * WIDTH);
    qn_tensor *h = qn_zeros(qn, QN_F32, 2, (int64_t[]){BATCH, WIDTH}), *c = h;
    for (int t = 0; t < STEPS; t++) {
        qn_tensor *now = qn_squeeze(qn_slice(x, 0, t, t + 1, 1), 0), *g[4];
        qn_tensor *z = qn_add(qn_linear(now, wx, b), qn_linear(h, wh, NULL));
        for (int i = 0; i < 4; i++) g[i] = qn_slice(z, 1, i * WIDTH, (i + 1) * WIDTH, 1);
        c = qn_add(qn_mul(qn_sigmoid(g[1]), c), qn_mul(qn_sigmoid(g[0]), qn_tanh(g[2])));
        h = qn_mul(qn_sigmoid(g[3]), qn_tanh(c));
    }
    return qn_mean_axes(qn_square(h), 2, (int[]){0, 1}, false);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    qn_tensor *(*make)(void);
    int forward, gradient, step; /* step 0: it is no loss */
} rows[] = {
    {"softmax", softmax, 1, 1, 0},
    {"log_softmax", log_softmax, 1, 1, 0},
    {"layer_norm", layer_norm, 1, 2, 0},
    {"rms_norm", rms_norm, 1, 2, 0},
    {"group_norm", group_norm, 1, 2, 0},
    {"instance norm", instance_norm, 1, 2, 0},
    {"batch norm", batch_norm, 1, 2, 0},
    {"cross_entropy", cross_entropy, 1, 1, 0},
    {"pad(matmul)", padded_product, 1, 2, 0},
    {"matmul(relu(matmul))", two_products, 2, 4, 0},
    {"narrow matmul(relu(matmul))", two_narrow_products, 1, 5, 0},
    {"as_strided", strided, 1, 1, 0},
    {"attention", attention, 1, 6, 0},
    {"MLP", mlp, 3, 8, 9},
    {"GPT", gpt_model, 17, 58, 60},
    {"ResNet", resnet, 13, 37, 41},
    {"LSTM", lstm, 20, 67, 65},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Kernels of one request. */
static int launched(int n, qn_tensor **t, qn_optimizer *o, qn_tensor *loss) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    int code = o ? qn_optimizer_step(o, loss) : qn_realize(n, t);
    if (o && !code) code = qn_realize(1, &loss);
    qn_get_stats(qn, &b, sizeof b);
    if (code) FAIL("%s", qn_error(qn));
    return (int)(b.kernels - a.kernels);
}

/* A kernel whose every schedule is refused runs, but many times slower. */
static void fail_if_refused(void *user, const char *line) {
    (void)user;
    if (strstr(line, "no proposal is left")) FAIL("%s", line);
}

/* The graph is made anew for each count, since values that were computed are kept. */
static int count(int row, int what) {
    qn_tensor *g[MOST_PARAMETERS + 1];
    parameters = 0;
    qn = qn_open(&QN_OPTIONS(.device = "null", .threads = 1, .log = fail_if_refused));
    qn_set(qn, "debug", "s");
    qn_optimizer *o = NULL;
    qn_tensor *y = rows[row].make();
    int n = parameters, made = 0;
    if (what == 0) made = launched(1, &y, NULL, NULL);
    if (what == 1) {
        bool loss = qn_rank(y) == 0;
        qn_tensor *seed = NULL;
        int64_t dims[8];
        for (int i = 0; i < qn_rank(y); i++) dims[i] = qn_dim(y, i);
        if (!loss) seed = data(QN_F32, qn_rank(y), dims);
        if (qn_grad(y, seed, n, parameter, g)) FAIL("%s", qn_error(qn));
        g[n] = y;
        made = launched(rows[row].step ? n + 1 : n, g, NULL, NULL);
    }
    if (what == 2) {
        qn_optimizer_options options = qn_optimizer_defaults(QN_ADAMW);
        o = qn_optimizer_new(qn, n, parameter, &options);
        made = launched(0, NULL, o, y);
    }
    qn_optimizer_free(o);
    if (gpt) qn_gpt_free(gpt);
    gpt = NULL;
    qn_close(qn);
    return made;
}

/* The page, which is read from the folder that tests run in. */
static char *page(void) {
    FILE *f = fopen("docs/fusion.md", "r");
    static char text[1 << 14];
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return text;
}

static void the_page_shows_the_same_numbers(void) {
    const char *text = page();
    for (int i = 0; i < ROWS; i++) {
        char line[160], step[16] = "-";
        if (rows[i].step) snprintf(step, sizeof step, "%d", rows[i].step);
        snprintf(line, sizeof line, "\n| %s | %d | %d | %s |", rows[i].name, rows[i].forward,
                 rows[i].gradient, step);
        if (!strstr(text, line)) FAIL("docs/fusion.md has no line %s", line + 1);
    }
}

static void patterns_and_models_become_that_many_kernels(void) {
    for (int i = 0; i < ROWS; i++) {
        const int want[3] = {rows[i].forward, rows[i].gradient, rows[i].step};
        int got[3] = {0};
        for (int what = 0; what < (rows[i].step ? 3 : 2); what++) got[what] = count(i, what);
        if (memcmp(got, want, sizeof got))
            FAIL("%s: %d, %d, %d kernels, not %d, %d, %d", rows[i].name, got[0], got[1], got[2],
                 want[0], want[1], want[2]);
    }
}

int main(void) {
    RUN(patterns_and_models_become_that_many_kernels);
    RUN(the_page_shows_the_same_numbers);
    return test_end();
}
