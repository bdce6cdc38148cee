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

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(an_unrolled_network_needs_the_memory_of_one_step);
    RUN(its_gradients_need_memory_in_proportion_to_the_steps);
    return test_end();
}
