/* test_distribute.c - bodies of several recurrent layers, which become a loop for each: against the
 * same body unrolled, on each device, with gradients, first and second, in both directions; what a
 * later loop takes of an earlier one; which bodies stay one loop; and where states are stacked. */
#include "device_here.h"
#include "graph/graph.h"
#include "graph/loop/loop.h"
#include "quern_loop.h"
#include "test.h"

#include <math.h>

static const char *device = "cpu";

static qn_ctx *begin(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    if (!qn || qn_error_code(qn)) FAIL("no device %s", device);
    return qn;
}

static void end(qn_ctx *qn) {
    if (qn_error_code(qn)) FAIL("%s: %s", device, qn_error(qn));
    qn_close(qn);
}

/* Numbers in [-1, 1), the same in each run. */
static qn_tensor *numbers(qn_ctx *qn, uint64_t seed, int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    float *data = malloc((size_t)(n + 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(2 * test_uniform(&seed) - 1);
    qn_tensor *t = qn_from(qn, QN_F32, rank, shape, data);
    free(data);
    return t;
}

static double difference(qn_tensor *a, qn_tensor *b) {
    static float x[1 << 16], y[1 << 16];
    double most = 0;
    if (qn_numel(b) != qn_numel(a)) return INFINITY;
    if (qn_read(a, x, sizeof x) || qn_read(b, y, sizeof y)) return INFINITY;
    for (int64_t i = 0; i < qn_numel(a); i++) {
        double d = fabs((double)x[i] - y[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

/* ---- layers over each other ------------------------------------------------------------------ */

enum {
    TRIPS = 6,
    B = 3,
    M = 5,
    N = 4,
    LAYERS = 3,
    CLASSES = 7,
    OUTS = 3,
    PARAMETERS = 2 * LAYERS + 3
};

typedef struct net {
    qn_tensor *x, *w[LAYERS], *u[LAYERS], *v, *s0, *d0, *h0[LAYERS];
} net;

static net net_of(qn_ctx *qn) {
    net n = {.x = numbers(qn, 1, 3, (int64_t[]){TRIPS, B, M})};
    for (int i = 0; i < LAYERS; i++) {
        n.w[i] = numbers(qn, 10 + (uint64_t)i, 2, (int64_t[]){i ? N : M, N});
        n.u[i] = numbers(qn, 20 + (uint64_t)i, 2, (int64_t[]){N, N});
        n.h0[i] = numbers(qn, 30 + (uint64_t)i, 2, (int64_t[]){B, N});
    }
    n.v = numbers(qn, 40, 2, (int64_t[]){N, CLASSES});
    n.s0 = numbers(qn, 41, 1, (int64_t[]){N});
    n.d0 = numbers(qn, 42, 2, (int64_t[]){B, M});
    return n;
}

/* States: a layer's each, a number that changes by itself and that all layers use, and the row of
 * the trip before, which the last layer uses. Outputs: the first layer, the last, and classes. */
static void body(const net *n, qn_tensor **state, qn_tensor *x, qn_tensor **out) {
    qn_tensor *scale = state[LAYERS], *before = state[LAYERS + 1], *in = x;
    for (int i = 0; i < LAYERS; i++) {
        qn_tensor *all = qn_add(qn_matmul(in, n->w[i]), qn_matmul(state[i], n->u[i]));
        if (i == LAYERS - 1) all = qn_add(all, qn_narrow(before, 1, 0, N));
        in = state[i] = qn_mul(qn_tanh(all), scale);
        if (!i) out[0] = in;
    }
    out[1] = in;
    out[2] = qn_matmul(qn_sin(in), n->v);
    state[LAYERS] = qn_cos(scale);
    state[LAYERS + 1] = x;
}

static void first_states(const net *n, qn_tensor **state) {
    for (int i = 0; i < LAYERS; i++) state[i] = n->h0[i];
    state[LAYERS] = n->s0;
    state[LAYERS + 1] = n->d0;
}

/* Results: outputs, then states. */
static void rolled(qn_ctx *qn, const net *n, bool reverse, int64_t checkpoint, qn_tensor **result) {
    qn_tensor *state[LAYERS + 2], *out[OUTS], *x = n->x;
    qn_loop_options o = QN_LOOP_OPTIONS(.reverse = reverse, .checkpoint = checkpoint);
    first_states(n, state);
    qn_loop *l = qn_loop_begin(qn, LAYERS + 2, state, 1, &x, &o);
    for (int i = 0; i < LAYERS + 2; i++) state[i] = qn_loop_state(l, i);
    body(n, state, qn_loop_slice(l, 0), out);
    CHECK_INT(qn_loop_end(l, LAYERS + 2, state, OUTS, out), QN_OK);
    for (int i = 0; i < OUTS; i++) result[i] = qn_loop_output(l, i);
    for (int i = 0; i < LAYERS + 2; i++) result[OUTS + i] = qn_loop_final(l, i);
    qn_loop_free(l);
}

static void unrolled(const net *n, bool reverse, qn_tensor **result) {
    qn_tensor *state[LAYERS + 2], *out[OUTS], *all[OUTS][TRIPS];
    first_states(n, state);
    for (int t = 0; t < TRIPS; t++) {
        int at = reverse ? TRIPS - 1 - t : t;
        body(n, state, qn_select(n->x, 0, at), out);
        for (int i = 0; i < OUTS; i++) all[i][at] = out[i];
    }
    for (int i = 0; i < OUTS; i++) result[i] = qn_stack(TRIPS, all[i], 0);
    for (int i = 0; i < LAYERS + 2; i++) result[OUTS + i] = state[i];
}

enum { RESULTS = OUTS + LAYERS + 2 };

static qn_tensor *loss_of(qn_tensor **result) {
    qn_tensor *sum = NULL;
    for (int i = 0; i < RESULTS; i++) {
        qn_tensor *one = qn_mean(qn_square(qn_sin(result[i])), QN_ALL, false);
        sum = sum ? qn_add(sum, one) : one;
    }
    return sum;
}

static void parameters_of(const net *n, qn_tensor **x) {
    for (int i = 0; i < LAYERS; i++) *x++ = n->w[i], *x++ = n->u[i];
    *x++ = n->v, *x++ = n->s0, *x++ = n->x;
}

/* Loops that the value is made by. */
static int loops_of(qn_ctx *qn, qn_tensor *t) {
    graph *g = qn->graph;
    arena a;
    node_id *order, root = tensor_at(t)->node;
    int loops = 0;
    arena_open(&a, &qn->heap);
    uint32_t n = graph_order(g, &a, 1, &root, &order);
    for (uint32_t i = 0; i < n; i++) loops += node_at(g, order[i])->op == OP_LOOP;
    arena_free(&a);
    return loops;
}

static const bool ways[] = {false, true};

static void layers(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *x[PARAMETERS], *g[2][PARAMETERS], *gg[2], *result[2][RESULTS];
    parameters_of(&n, x);
    for (int way = 0; way < 2; way++)
        for (int checkpoint = 0; checkpoint < 5; checkpoint += 2) {
            rolled(qn, &n, ways[way], checkpoint, result[0]);
            unrolled(&n, ways[way], result[1]);
            for (int k = 0; k < 2; k++) {
                CHECK_INT(qn_grad(loss_of(result[k]), NULL, PARAMETERS, x, g[k]), QN_OK);
                qn_tensor *again = qn_sum(qn_square(g[k][1]), QN_ALL, false);
                CHECK_INT(qn_grad(again, NULL, 1, &n.w[1], &gg[k]), QN_OK);
            }
            for (int i = 0; i < RESULTS; i++) CHECK(difference(result[0][i], result[1][i]) < 1e-5);
            for (int i = 0; i < PARAMETERS; i++) CHECK(difference(g[0][i], g[1][i]) < 1e-5);
            CHECK(difference(gg[0], gg[1]) < 1e-4);
        }
    end(qn);
}

static void layers_are_what_they_are_unrolled(void) {
    device_each(&device, layers);
}

/* Each layer is a loop of its own, and classes need none. */
static void a_layer_is_a_loop(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn);
    qn_tensor *result[RESULTS];
    rolled(qn, &n, false, 0, result);
    CHECK_INT(loops_of(qn, result[0]), 1);
    CHECK_INT(loops_of(qn, result[1]), LAYERS);
    CHECK_INT(loops_of(qn, result[2]), LAYERS);
    CHECK(node_at(qn->graph, tensor_at(result[2])->node)->op != OP_RESULT);
    end(qn);
}

/* ---- what stays one loop --------------------------------------------------------------------- */

typedef struct pair {
    qn_tensor *a, *b; /* states, then their next values */
} pair;

/* The loops of two states of `width` by as many, each after `trips`. */
static int loops_of_pair(pair (*make)(pair s, qn_tensor *w), int64_t width, int64_t trips) {
    qn_ctx *qn = begin();
    qn_tensor *w = numbers(qn, 1, 2, (int64_t[]){width, width});
    qn_tensor *state[2] = {w, numbers(qn, 2, 2, (int64_t[]){width, width})};
    qn_loop *l = qn_loop_begin(qn, 2, state, 0, NULL, &QN_LOOP_OPTIONS(.trips = trips));
    pair s = make((pair){qn_loop_state(l, 0), qn_loop_state(l, 1)}, w);
    CHECK_INT(qn_loop_end(l, 2, (qn_tensor *[]){s.a, s.b}, 0, NULL), QN_OK);
    int loops = loops_of(qn, qn_add(qn_loop_final(l, 0), qn_loop_final(l, 1)));
    qn_loop_free(l);
    end(qn);
    return loops;
}

static pair one_after_the_other(pair s, qn_tensor *w) {
    return (pair){qn_sin(s.a), qn_tanh(qn_add(s.b, qn_matmul(s.a, w)))};
}
static pair in_a_circle(pair s, qn_tensor *w) {
    return (pair){qn_sin(s.b), qn_tanh(qn_add(s.b, qn_matmul(s.a, w)))};
}
static pair without_a_product(pair s, qn_tensor *w) {
    return (pair){qn_sin(s.a), qn_tanh(qn_add(s.b, qn_mul(s.a, w)))};
}
static pair of_two_states(pair s, qn_tensor *w) {
    return (pair){qn_sin(qn_mul(s.a, w)), qn_tanh(qn_matmul(s.a, s.b))};
}

static void only_what_gains_is_cut(void) {
    CHECK_INT(loops_of_pair(one_after_the_other, 8, 10), 2);
    CHECK_INT(loops_of_pair(in_a_circle, 8, 10), 1);
    CHECK_INT(loops_of_pair(without_a_product, 8, 10), 1);
    CHECK_INT(loops_of_pair(of_two_states, 8, 10), 1);
}

/* A state that nothing stacks would take a gigabyte. */
static void memory_stays_what_it_was(void) {
    CHECK_INT(loops_of_pair(one_after_the_other, 256, 4096), 1);
    CHECK_INT(loops_of_pair(one_after_the_other, 256, 10), 2);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* What is stacked of a state, as it is before each trip and behind it, is written by no launch of
 * its own: a trip is one, and the loop is. */
static void a_state_lives_in_its_stack(void) {
    enum { WIDE = 64, LONG = 100 };
    qn_ctx *qn = begin();
    qn_tensor *h0 = numbers(qn, 1, 1, (int64_t[]){WIDE}), *w = numbers(qn, 2, 1, (int64_t[]){WIDE});
    qn_tensor *x = numbers(qn, 3, 2, (int64_t[]){LONG, WIDE}), *all[2];
    qn_loop *l = qn_loop_begin(qn, 1, &h0, 1, &x, NULL);
    qn_tensor *h = qn_loop_state(l, 0), *next = qn_tanh(qn_fma(w, h, qn_loop_slice(l, 0)));
    CHECK_INT(qn_loop_end(l, 1, &next, 2, (qn_tensor *[]){h, next}), QN_OK);
    for (int i = 0; i < 2; i++) all[i] = qn_loop_output(l, i);
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    CHECK_INT(qn_realize(2, all), QN_OK);
    qn_get_stats(qn, &b, sizeof b);
    CHECK_INT((int64_t)(b.kernels - a.kernels), 1 + LONG);
    CHECK(difference(qn_select(all[0], 0, 0), h0) == 0);
    CHECK(difference(qn_narrow(all[0], 0, 1, LONG - 1), qn_narrow(all[1], 0, 0, LONG - 1)) == 0);
    CHECK(difference(qn_loop_final(l, 0), qn_select(all[1], 0, LONG - 1)) == 0);
    qn_loop_free(l);
    end(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(layers_are_what_they_are_unrolled);
    RUN(a_layer_is_a_loop);
    RUN(only_what_gains_is_cut);
    RUN(memory_stays_what_it_was);
    RUN(a_state_lives_in_its_stack);
    return test_end();
}
