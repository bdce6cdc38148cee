/* test_sequence.c - in which order kernels run: what an unrolled network needs at once. On one
 * thread, where the order of launches is that of the kernels. */
#include "quern.h"
#include "test.h"

enum { WIDTH = 32, ROWS = 4, LAYERS = 2 };

static qn_tensor *matrix(qn_ctx *qn, int64_t rows, int64_t columns) {
    static const float zero[64 * WIDTH * 4] = {0};
    return qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, zero);
}

typedef struct network {
    qn_tensor *weight[3 * LAYERS], *h[LAYERS], *c[LAYERS];
} network;

/* One step of a layer of LSTM, gates side by side. */
static qn_tensor *cell(network *n, int layer, qn_tensor *x) {
    qn_tensor **w = &n->weight[3 * layer], *gate[4];
    qn_tensor *z = qn_add(qn_add(qn_matmul(x, w[0]), qn_matmul(n->h[layer], w[1])), w[2]);
    for (int i = 0; i < 4; i++) gate[i] = qn_slice(z, 1, i * WIDTH, (i + 1) * WIDTH, 1);
    n->c[layer] = qn_add(qn_mul(qn_sigmoid(gate[0]), n->c[layer]),
                         qn_mul(qn_sigmoid(gate[1]), qn_tanh(gate[2])));
    return n->h[layer] = qn_mul(qn_sigmoid(gate[3]), qn_tanh(n->c[layer]));
}

/* Bytes planned for so many steps, with or without gradients. */
static uint64_t planned(int steps, bool gradients) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    network n;
    for (int l = 0; l < LAYERS; l++) {
        n.weight[3 * l] = matrix(qn, WIDTH, 4 * WIDTH);
        n.weight[3 * l + 1] = matrix(qn, WIDTH, 4 * WIDTH);
        n.weight[3 * l + 2] = matrix(qn, 1, 4 * WIDTH);
        n.h[l] = matrix(qn, ROWS, WIDTH);
        n.c[l] = matrix(qn, ROWS, WIDTH);
    }
    qn_tensor *x = matrix(qn, 64 * ROWS, WIDTH), *all[3 * LAYERS + 1];
    for (int t = 0; t < steps; t++) {
        qn_tensor *in = qn_slice(x, 0, t * ROWS, (t + 1) * ROWS, 1);
        for (int l = 0; l < LAYERS; l++) in = cell(&n, l, in);
    }
    qn_tensor *last = n.h[LAYERS - 1], *loss = qn_sum(qn_mul(last, last), QN_ALL, false);
    all[3 * LAYERS] = loss;
    if (gradients) CHECK_INT(qn_grad(loss, NULL, 3 * LAYERS, n.weight, all), QN_OK);
    if (gradients)
        CHECK_INT(qn_realize(3 * LAYERS + 1, all), QN_OK);
    else
        CHECK_INT(qn_realize(1, &loss), QN_OK);
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    qn_close(qn);
    return s.planned_peak_bytes;
}

static void an_unrolled_network_needs_the_memory_of_one_step(void) {
    uint64_t few = planned(8, false), many = planned(64, false);
    CHECK(few > 0);
    if (many > few + few / 8)
        FAIL("8 steps need %llu bytes, 64 steps %llu", (unsigned long long)few,
             (unsigned long long)many);
}

static void its_gradients_need_memory_in_proportion_to_the_steps(void) {
    uint64_t few = planned(16, true), many = planned(64, true);
    CHECK(few > 0);
    if (many > 4 * few + few / 4)
        FAIL("16 steps need %llu bytes, 64 steps %llu", (unsigned long long)few,
             (unsigned long long)many);
}

/* ---- a step of training ---------------------------------------------------------------------- */

enum { BATCH = 256, ACROSS = 256, PARTS = 5, LAYERS_MOST = 12, LAYERS_FEW = 4 };

static qn_tensor *zeros(qn_ctx *qn, int64_t rows, int64_t columns) {
    static const float zero[BATCH * ACROSS * PARTS] = {0};
    return qn_from(qn, QN_F32, 2, (int64_t[]){rows, columns}, zero);
}

/* The gradient of the product is made of pieces, and needs no more than what the layer returns. */
static qn_tensor *layer_of(qn_tensor *x, qn_tensor *w) {
    qn_tensor *z = qn_matmul(x, qn_transpose(w, 0, 1)), *sum = NULL;
    for (int i = 0; i < PARTS; i++) {
        qn_tensor *part = qn_slice(z, 1, i * ACROSS, (i + 1) * ACROSS, 1);
        part = qn_mul(part, qn_scalar(qn_context(x), QN_F32, i + 2));
        sum = sum ? qn_add(sum, part) : part;
    }
    return qn_tanh(sum);
}

/* Bytes planned for a step of so many layers with momentum; the rate of each is a number that is
 * computed and stored. */
static uint64_t planned_for_training(int layers) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    qn_tensor *weight[LAYERS_MOST], *moment[LAYERS_MOST], *rate[LAYERS_MOST], *all[2 * LAYERS_MOST];
    qn_tensor *h = zeros(qn, BATCH, ACROSS);
    for (int l = 0; l < layers; l++) {
        weight[l] = zeros(qn, PARTS * ACROSS, ACROSS);
        moment[l] = zeros(qn, PARTS * ACROSS, ACROSS);
        rate[l] = zeros(qn, BATCH, 1);
        h = layer_of(h, weight[l]);
    }
    CHECK_INT(qn_grad(qn_sum(qn_mul(h, h), QN_ALL, false), NULL, layers, weight, all), QN_OK);
    for (int l = 0; l < layers; l++) {
        qn_tensor *part = qn_contiguous(qn_mean(rate[l % 2], QN_ALL, false));
        all[layers + l] = qn_add(qn_mul(moment[l], part), qn_mul(all[l], all[l]));
        all[l] = qn_sub(weight[l], qn_div(all[l], qn_add(qn_sqrt(all[layers + l]), part)));
    }
    CHECK_INT(qn_realize(2 * layers, all), QN_OK);
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    qn_close(qn);
    return s.planned_peak_bytes;
}

/* What a layer returns is kept for its gradient; but the gradient of its product, made of pieces,
 * not beyond that of its weights, whatever else that waits for. */
static void gradients_of_layers_are_let_go(void) {
    uint64_t few = planned_for_training(LAYERS_FEW), many = planned_for_training(LAYERS_MOST);
    uint64_t kept = BATCH * ACROSS * sizeof(float),
             each = (many - few) / (LAYERS_MOST - LAYERS_FEW);
    CHECK(many > few);
    if (each > kept + kept / 2)
        FAIL("a layer needs %llu bytes, of which %llu are kept", (unsigned long long)each,
             (unsigned long long)kept);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(an_unrolled_network_needs_the_memory_of_one_step);
    RUN(its_gradients_need_memory_in_proportion_to_the_steps);
    RUN(gradients_of_layers_are_let_go);
    return test_end();
}
