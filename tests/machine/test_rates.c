/* test_rates.c - measuring a machine changes no bit: whatever the rates of the record say, every
 * result has the same bits. Facts of the processor's model may change how a sum is grouped; they
 * stay as they are here, with caches so small that small tensors stream from memory. And the
 * schedules of every family give right results; the oracle is the device that has none. */
#include "machine/machine.h"

#include "quern.h"
#include "test.h"

#include <unistd.h>

enum { MACHINES = 3 };

/* ---- records --------------------------------------------------------------------------------- */

static const char *const caches[] = {"l1 32768\nl2 65536\nl3 1048576\n",
                                     "l1 8192\nl2 32768\nl3 0\n"};

/* A record with random rates, each from an eighth to eight times the usual. */
static void write_record(FILE *f, const char *facts, uint64_t *seed) {
    machine_field x;
    fputs(facts, f);
    for (int i = 0; machine_field_at(i, &x); i++) {
        if (x.kind != MACHINE_RATE) continue;
        double v = (double)x.usual * exp2(6 * test_uniform(seed) - 3);
        if (!x.usual && test_uniform(seed) < 0.5) v = (double)x.least;
        v = v < (double)x.least ? (double)x.least : v > (double)x.most ? (double)x.most : v;
        fprintf(f, "%s %lld\n", x.name, (long long)v);
    }
}

static qn_ctx *open_with(const char *facts, uint64_t *seed, int threads) {
    char path[] = "/tmp/quern-rates-XXXXXX";
    int file = mkstemp(path);
    FILE *f = file < 0 ? NULL : fdopen(file, "w");
    if (!f) return NULL;
    if (seed)
        write_record(f, facts, seed);
    else
        fputs(facts, f);
    fclose(f);
    setenv("QN_MACHINE", path, 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads));
    unsetenv("QN_MACHINE");
    unlink(path);
    return qn;
}

/* ---- cases: the kinds of bench/versus, smaller ----------------------------------------------- */

static qn_tensor *noise(qn_ctx *qn, int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    float *x = malloc((size_t)n * sizeof *x);
    uint64_t seed = (uint64_t)(n + 31 * shape[0]);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(test_uniform(&seed) - 0.4);
    qn_tensor *t = qn_from(qn, QN_F32, rank, shape, x);
    free(x);
    return t;
}
#define NOISE(...)                                                                                 \
    noise(qn, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__})

static qn_tensor *sum_all(qn_ctx *qn) {
    return qn_sum(qn_sum(NOISE(512, 2048), 1, false), 0, false);
}
static qn_tensor *sum_line(qn_ctx *qn) {
    return qn_sum(NOISE(1 << 20), 0, false);
}
static qn_tensor *sum_rows(qn_ctx *qn) {
    return qn_sum(NOISE(64, 16384), 1, false);
}
static qn_tensor *sum_some_rows(qn_ctx *qn) {
    return qn_sum(NOISE(5, 65536), 1, false);
}
static qn_tensor *sum_columns(qn_ctx *qn) {
    return qn_sum(NOISE(1024, 1024), 0, false);
}
static qn_tensor *sum_exp(qn_ctx *qn) {
    return qn_sum(qn_exp(NOISE(37, 8192)), 1, false);
}
static qn_tensor *softmax(qn_ctx *qn) {
    return qn_softmax(NOISE(128, 2048), 1);
}
static qn_tensor *softmax_long(qn_ctx *qn) {
    return qn_softmax(NOISE(20, 40000), 1);
}
static qn_tensor *softmax_down(qn_ctx *qn) {
    return qn_softmax(NOISE(600, 500), 0);
}
static qn_tensor *log_softmax(qn_ctx *qn) {
    return qn_log_softmax(NOISE(100, 1111), 1);
}
static qn_tensor *layer_norm(qn_ctx *qn) {
    return qn_layer_norm(NOISE(256, 1024), NOISE(1024), NOISE(1024), 1e-5);
}
static qn_tensor *layer_norm_grad(qn_ctx *qn) {
    qn_tensor *x = NOISE(256, 768), *w = NOISE(768), *g[2];
    qn_tensor *y = qn_layer_norm(x, w, NOISE(768), 1e-5);
    qn_tensor *loss = qn_sum(qn_sum(qn_mul(y, qn_tanh(y)), 1, false), 0, false);
    if (qn_grad(loss, NULL, 2, (qn_tensor *[]){x, w}, g)) return NULL;
    return qn_add(g[0], g[1]);
}
static qn_tensor *variance(qn_ctx *qn) {
    return qn_variance(NOISE(64, 9000), 1, 1, false);
}
static qn_tensor *group_norm(qn_ctx *qn) {
    return qn_group_norm(NOISE(4, 32, 20, 20), NOISE(32), NOISE(32), 8, 1e-5);
}
static qn_tensor *gemm(qn_ctx *qn) {
    return qn_matmul(NOISE(256, 1024), NOISE(1024, 384));
}
static qn_tensor *gemm_odd(qn_ctx *qn) {
    return qn_matmul(NOISE(301, 1100), NOISE(1100, 257));
}
static qn_tensor *turned(qn_tensor *x) {
    return qn_permute(x, 2, (int[]){1, 0});
}
static qn_tensor *gemm_turned(qn_ctx *qn) {
    return qn_matmul(NOISE(128, 768), turned(NOISE(768, 768)));
}
static qn_tensor *gemm_deep(qn_ctx *qn) {
    return qn_matmul(NOISE(40, 20000), NOISE(20000, 33));
}
static qn_tensor *gemm_far(qn_ctx *qn) {
    return qn_matmul(turned(NOISE(1024, 96)), NOISE(1024, 130));
}
static qn_tensor *gemm_batch(qn_ctx *qn) {
    return qn_matmul(NOISE(6, 128, 64), NOISE(6, 64, 128));
}
static qn_tensor *gemm_tail(qn_ctx *qn) {
    qn_tensor *y = qn_matmul(NOISE(200, 512), NOISE(512, 300));
    return qn_gelu(qn_add(qn_mul(y, NOISE(200, 300)), qn_add(NOISE(200, 1), NOISE(200, 300))));
}
static qn_tensor *gemv(qn_ctx *qn) {
    return qn_matmul(NOISE(1, 2048), NOISE(2048, 1000));
}
static qn_tensor *gemv_turned(qn_ctx *qn) {
    return qn_matmul(NOISE(1, 2048), turned(NOISE(1000, 2048)));
}
static qn_tensor *few_rows(qn_ctx *qn) {
    return qn_matmul(NOISE(8, 2048), NOISE(2048, 768));
}
static qn_tensor *few_rows_turned(qn_ctx *qn) {
    return qn_matmul(NOISE(8, 2048), turned(NOISE(768, 2048)));
}
static qn_tensor *gemm_bf16(qn_ctx *qn) {
    return qn_matmul(qn_cast(NOISE(128, 512), QN_BF16), qn_cast(NOISE(512, 256), QN_BF16));
}
static qn_tensor *attention(qn_ctx *qn) {
    return qn_attention(NOISE(1, 3, 200, 64), NOISE(1, 3, 200, 64), NOISE(1, 3, 200, 64), NULL);
}
static qn_tensor *attention_grad(qn_ctx *qn) {
    qn_tensor *x[3] = {NOISE(1, 3, 128, 64), qn_neg(NOISE(1, 3, 128, 64)), NOISE(1, 3, 128, 64)};
    qn_tensor *y = qn_attention(x[0], x[1], x[2], &QN_ATTENTION_OPTIONS(.causal = true)), *g[3];
    qn_tensor *seed = NOISE(1, 3, 128, 64);
    if (qn_grad(y, seed, 3, x, g)) return NULL;
    return qn_concat(3, g, 0);
}
static qn_tensor *convolve(qn_ctx *qn, qn_tensor *x, qn_tensor *w, int64_t stride, int64_t groups,
                           int part) {
    qn_tensor *g[2], *y;
    y = qn_conv2d(x, w, NULL,
                  &QN_CONV_OPTIONS(.stride = {stride, stride}, .before = {1, 1}, .after = {1, 1},
                                   .groups = groups));
    (void)qn;
    if (part < 0) return y;
    return qn_grad(qn_tanh(y), qn_neg(y), 2, (qn_tensor *[]){x, w}, g) ? NULL : g[part];
}
static qn_tensor *conv(qn_ctx *qn) {
    return convolve(qn, NOISE(2, 32, 28, 28), NOISE(48, 32, 3, 3), 1, 1, -1);
}
static qn_tensor *conv_stride(qn_ctx *qn) {
    return convolve(qn, NOISE(2, 3, 64, 64), NOISE(32, 3, 7, 7), 2, 1, -1);
}
static qn_tensor *conv_depthwise(qn_ctx *qn) {
    return convolve(qn, NOISE(2, 32, 28, 28), NOISE(32, 1, 3, 3), 1, 32, -1);
}
static qn_tensor *conv_data(qn_ctx *qn) {
    return convolve(qn, NOISE(2, 16, 28, 28), NOISE(24, 16, 3, 3), 1, 1, 0);
}
static qn_tensor *conv_weights(qn_ctx *qn) {
    return convolve(qn, NOISE(2, 16, 28, 28), NOISE(24, 16, 3, 3), 1, 1, 1);
}
static qn_tensor *stream(qn_ctx *qn) {
    qn_tensor *x = NOISE(1 << 19);
    return qn_add(qn_mul(qn_exp(x), x), qn_tanh(x));
}
static qn_tensor *transpose(qn_ctx *qn) {
    return qn_contiguous(turned(NOISE(700, 1024)));
}
static qn_tensor *perceptron(qn_ctx *qn) {
    qn_tensor *x = NOISE(64, 400), *w = NOISE(400, 300), *v = NOISE(300, 10), *g[2];
    qn_tensor *y = qn_log_softmax(qn_matmul(qn_relu(qn_matmul(x, w)), v), 1);
    qn_tensor *loss = qn_mean(qn_mean(y, 1, false), 0, false);
    if (qn_grad(loss, NULL, 2, (qn_tensor *[]){w, v}, g)) return NULL;
    return qn_matmul(g[0], g[1]);
}

#define CASE(name)                                                                                 \
    { #name, name }
static const struct {
    const char *name;
    qn_tensor *(*make)(qn_ctx *qn);
} cases[] = {CASE(sum_all),
             CASE(sum_line),
             CASE(sum_rows),
             CASE(sum_some_rows),
             CASE(sum_columns),
             CASE(sum_exp),
             CASE(softmax),
             CASE(softmax_long),
             CASE(softmax_down),
             CASE(log_softmax),
             CASE(layer_norm),
             CASE(layer_norm_grad),
             CASE(variance),
             CASE(group_norm),
             CASE(gemm),
             CASE(gemm_odd),
             CASE(gemm_turned),
             CASE(gemm_deep),
             CASE(gemm_far),
             CASE(gemm_batch),
             CASE(gemm_tail),
             CASE(gemv),
             CASE(gemv_turned),
             CASE(few_rows),
             CASE(few_rows_turned),
             CASE(gemm_bf16),
             CASE(attention),
             CASE(attention_grad),
             CASE(conv),
             CASE(conv_stride),
             CASE(conv_depthwise),
             CASE(conv_data),
             CASE(conv_weights),
             CASE(stream),
             CASE(transpose),
             CASE(perceptron)};
enum { COUNT = (int)(sizeof cases / sizeof cases[0]) };

/* The case's result as f32, to be freed; NULL: it failed. */
static float *values_of(qn_ctx *qn, int i, int64_t *n) {
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *y = cases[i].make(qn);
    qn_tensor *z = qn_cast(y, QN_F32);
    *n = y ? qn_numel(z) : 0;
    float *data = calloc(1, (size_t)*n * sizeof *data + 1);
    if (!y || qn_read(z, data, (size_t)*n * sizeof *data))
        FAIL("%s: %s", cases[i].name, qn_error(qn));
    qn_scope_end(qn, s);
    return data;
}

static uint64_t bits_of(qn_ctx *qn, int i) {
    int64_t n;
    float *data = values_of(qn, i, &n);
    uint64_t h = hash_bytes(data, (size_t)n * sizeof *data, 0);
    free(data);
    return h;
}

/* Close the context, in which every step of a schedule was to be legal. */
static void close_with(qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    CHECK(!qn || (s.schedules >= s.compiles && !s.schedules_dropped));
    qn_close(qn);
}

static void rates_change_no_bit(void) {
    for (size_t c = 0; c < sizeof caches / sizeof caches[0]; c++) {
        uint64_t want[COUNT], seed = 1 + c;
        for (int i = 0; i <= MACHINES; i++) {
            qn_ctx *qn = open_with(caches[c], i ? &seed : NULL, 1 + i % 2);
            CHECK(qn != NULL);
            for (int k = 0; qn && k < COUNT; k++) {
                uint64_t h = bits_of(qn, k);
                if (!i) want[k] = h;
                if (h != want[k])
                    FAIL("%s differs, caches %d, machine %d", cases[k].name, (int)c, i);
            }
            close_with(qn);
        }
    }
}

/* The largest difference, of the largest value. */
static double apart(const float *x, const float *y, int64_t n) {
    double worst = 0, largest = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        largest = fmax(largest, fabs((double)y[i]));
    }
    return worst / largest;
}

static void every_family_is_right(void) {
    const char *name;
    float *want[COUNT];
    int64_t n[COUNT], m;
    qn_ctx *ref = qn_open(&QN_OPTIONS(.device = "ref"));
    for (int k = 0; k < COUNT; k++) want[k] = values_of(ref, k, &n[k]);
    qn_close(ref);
    for (int f = 0; machine_family(f, &name, NULL); f += 2) { /* all: make bench-machines */
        setenv("QN_MACHINE", name, 1);
        qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 2));
        unsetenv("QN_MACHINE");
        for (int k = 0; k < COUNT; k++) {
            float *got = values_of(qn, k, &m);
            double allowed = cases[k].make == gemm_bf16 ? 1e-2 : 1e-4;
            if (m != n[k] || !(apart(got, want[k], m) < allowed))
                FAIL("%s under %s is wrong", cases[k].name, name);
            free(got);
        }
        close_with(qn);
    }
    for (int k = 0; k < COUNT; k++) free(want[k]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(rates_change_no_bit);
    RUN(every_family_is_right);
    return test_end();
}
