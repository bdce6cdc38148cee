/* test_long.c - long graphs: planning and compiling take time in proportion to them.
 *
 * Chains of thousands of operations, and recurrences unrolled over many steps. Kernels have a bound
 * on their code, equal ones are compiled once, and a plan's time is linear. Derivatives are held
 * against the chain rule in long double. */
#include "quern.h"
#include "test.h"

enum { ELEMENTS = 64 };

static qn_ctx *open_cpu(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    qn_set(qn, "wisdom", "off");
    return qn;
}

static qn_stats stats_of(const qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

static qn_tensor *ramp(qn_ctx *qn, double *v) {
    const int64_t n = ELEMENTS;
    for (int i = 0; i < n; i++) v[i] = (i - 31.5) / 20;
    return qn_from(qn, QN_F64, 1, &n, v);
}

/* The gradient of `length` sines of sines; how many kernels it compiled. */
static int64_t slope_of_sines(int length) {
    qn_ctx *qn = open_cpu();
    double v[ELEMENTS], got[ELEMENTS];
    qn_tensor *x = ramp(qn, v), *y = x, *g = NULL;
    for (int i = 0; i < length; i++) y = qn_sin(y);
    CHECK_INT(qn_grad(qn_sum(y, QN_ALL, false), NULL, 1, &x, &g), QN_OK);
    CHECK_INT(qn_read(g, got, sizeof got), QN_OK);
    for (int i = 0; i < ELEMENTS; i++) {
        long double at = v[i], slope = 1;
        for (int k = 0; k < length; k++) {
            slope *= cosl(at);
            at = sinl(at);
        }
        CHECK_NEAR(got[i], (double)slope, 1e-12 * length, 0);
    }
    int64_t compiles = (int64_t)stats_of(qn).compiles;
    qn_close(qn);
    return compiles;
}

/* They are cut, and what is between cuts is alike: no more kernels for four times as many. */
static void long_chains_are_cut_into_equal_kernels(void) {
    int64_t few = slope_of_sines(60), many = slope_of_sines(240);
    if (few > 6 || many > 6)
        FAIL("%lld kernels for 60 sines, %lld for 240", (long long)few, (long long)many);
}

/* Data of one value: what gradients are taken by. */
static qn_tensor *filled(qn_ctx *qn, int64_t rows, int64_t columns, float value) {
    float *data = malloc((size_t)(rows * columns) * sizeof *data);
    for (int64_t i = 0; data && i < rows * columns; i++) data[i] = value;
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, data);
    free(data);
    return t;
}

/* h = tanh(h w + x[t]) over `steps` rows, with the gradient of w; on a device that runs nothing. */
static qn_stats recurrence(int64_t steps) {
    enum { WIDTH = 8 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
    qn_tensor *x = filled(qn, steps, WIDTH, 0.5f), *w = filled(qn, WIDTH, WIDTH, 0.01f);
    qn_stats before = stats_of(qn);
    qn_tensor *h = qn_slice(x, 0, 0, 1, 1), *g = NULL;
    for (int64_t t = 1; t < steps; t++)
        h = qn_tanh(qn_add(qn_matmul(h, w), qn_slice(x, 0, t, t + 1, 1)));
    CHECK_INT(qn_grad(qn_sum(h, QN_ALL, false), NULL, 1, &w, &g), QN_OK);
    CHECK_INT(qn_realize(1, &g), QN_OK);
    qn_stats s = stats_of(qn);
    s.compiles -= before.compiles;
    s.kernels -= before.kernels;
    s.plan_seconds -= before.plan_seconds;
    qn_close(qn);
    return s;
}

static void recurrences_are_planned_in_linear_time(void) {
    double least[2] = {INFINITY, INFINITY};
    qn_stats s[2];
    for (int round = 0; round < 3; round++)
        for (int k = 0; k < 2; k++) {
            s[k] = recurrence(k ? 1600 : 200);
            if (s[k].plan_seconds < least[k]) least[k] = s[k].plan_seconds;
        }
    if (least[1] > 30 * least[0]) /* 8 times as long; by squares 64 */
        FAIL("planning took %g s for 200 steps, %g for 1600", least[0], least[1]);
    if (s[1].compiles > s[0].compiles + 8)
        FAIL("%lld kernels for 200 steps, %lld for 1600", (long long)s[0].compiles,
             (long long)s[1].compiles);
    CHECK(s[1].kernels < 9 * s[0].kernels);
}

enum { LAYERS = 2, HIDDEN = 256, BATCH = 32, INPUT = 64, MOST_STEPS = 256 };

static qn_tensor *zeros(qn_ctx *qn, int64_t rows, int64_t columns) {
    float *zero = calloc((size_t)(rows * columns), sizeof *zero);
    qn_tensor *t = qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, zero);
    free(zero);
    return t;
}

/* Kernels compiled for the first training step of an LSTM of two layers. */
static int64_t lstm_step(int64_t steps) {
    qn_ctx *qn = open_cpu();
    qn_tensor *w[2 * LAYERS + 1], *h[LAYERS], *c[LAYERS], *out[MOST_STEPS];
    for (int l = 0; l < LAYERS; l++) {
        w[2 * l] = zeros(qn, l ? HIDDEN : INPUT, 4 * HIDDEN);
        w[2 * l + 1] = zeros(qn, HIDDEN, 4 * HIDDEN);
        h[l] = c[l] = zeros(qn, BATCH, HIDDEN);
    }
    w[2 * LAYERS] = zeros(qn, HIDDEN, INPUT);
    qn_tensor *x = zeros(qn, steps * BATCH, INPUT);
    for (int64_t t = 0; t < steps; t++) {
        qn_tensor *in = qn_slice(x, 0, t * BATCH, (t + 1) * BATCH, 1);
        for (int l = 0; l < LAYERS; l++) {
            qn_tensor *g = qn_add(qn_matmul(in, w[2 * l]), qn_matmul(h[l], w[2 * l + 1])), *part[4];
            for (int i = 0; i < 4; i++) part[i] = qn_slice(g, 1, i * HIDDEN, (i + 1) * HIDDEN, 1);
            c[l] = qn_add(qn_mul(qn_sigmoid(part[1]), c[l]),
                          qn_mul(qn_sigmoid(part[0]), qn_tanh(part[2])));
            in = h[l] = qn_mul(qn_sigmoid(part[3]), qn_tanh(c[l]));
        }
        out[t] = in;
    }
    qn_tensor *y = qn_matmul(qn_concat((int)steps, out, 0), w[2 * LAYERS]), *g[2 * LAYERS + 1];
    qn_tensor *loss = qn_mean(qn_square(qn_sub(y, x)), QN_ALL, false);
    CHECK_INT(qn_grad(loss, NULL, 2 * LAYERS + 1, w, g), QN_OK);
    for (int i = 0; i < 2 * LAYERS + 1; i++) qn_assign(w[i], qn_sub(w[i], g[i]));
    CHECK_INT(qn_realize(1, &loss), QN_OK);
    int64_t compiles = (int64_t)stats_of(qn).compiles;
    qn_close(qn);
    return compiles;
}

static void a_training_step_of_an_lstm_compiles_few_kernels(void) {
    int64_t few = lstm_step(64), many = lstm_step(MOST_STEPS);
    printf("an LSTM's training step: %lld kernels for 64 steps, %lld for 256\n", (long long)few,
           (long long)many);
    CHECK(few <= 40 && many <= 40);
}

enum { PLACE_ROWS = 4, PLACE_COLUMNS = 64, PLACES = 250 };

/* Column i of the data goes over column 7 i of what was written before, around the end: offsets
 * that differ, given at launch, so that each place is compared with those over it. */
static void places_are_written_one_over_another_in_linear_time(void) {
    qn_ctx *qn = open_cpu();
    enum { COUNT = PLACE_ROWS * PLACE_COLUMNS };
    float data[COUNT], want[COUNT], got[COUNT];
    for (int i = 0; i < COUNT; i++) want[i] = data[i] = (float)i;
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){PLACE_ROWS, PLACE_COLUMNS}, data), *y = x;
    for (int i = 0; i < PLACES; i++) {
        int from = i % PLACE_COLUMNS, to = i * 7 % PLACE_COLUMNS;
        y = qn_update_slice(y, qn_slice(x, 1, from, from + 1, 1), (int64_t[]){0, to});
        for (int r = 0; r < PLACE_ROWS; r++)
            want[r * PLACE_COLUMNS + to] = data[r * PLACE_COLUMNS + from];
    }
    CHECK_INT(qn_read(y, got, sizeof got), QN_OK);
    CHECK(!memcmp(got, want, sizeof got));
    CHECK(stats_of(qn).compiles <= 8);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(places_are_written_one_over_another_in_linear_time);
    RUN(long_chains_are_cut_into_equal_kernels);
    RUN(recurrences_are_planned_in_linear_time);
    RUN(a_training_step_of_an_lstm_compiles_few_kernels);
    return test_end();
}
