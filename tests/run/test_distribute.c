/* test_distribute.c - bodies of several recurrent layers, which become a loop for each: against the
 * same body unrolled, on each device, with gradients, first and second, in both directions; what a
 * later loop takes of an earlier one; which bodies stay one loop; and where states are stacked. */
#include "graph/graph.h"
#include "graph/loop/loop.h"
#include "loop_values.h"

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

/* ---- layers over each other ------------------------------------------------------------------ */

enum { TRIPS = 6, LAYERS = 3, CLASSES = 7, OUTS = 3, PARAMETERS = 2 * LAYERS + 3 };

/* Of the batch, of a row of the sequence, of a state. */
typedef struct sizes {
    int64_t b, m, n;
} sizes;
static const sizes small = {3, 5, 4}, rows_of_pages = {33, 104, 100};

typedef struct net {
    sizes of;
    qn_tensor *x, *w[LAYERS], *u[LAYERS], *v, *s0, *d0, *h0[LAYERS];
} net;

static net net_of(qn_ctx *qn, sizes of) {
    net n = {of, .x = numbers(qn, 1, 3, (int64_t[]){TRIPS, of.b, of.m})};
    for (int i = 0; i < LAYERS; i++) {
        n.w[i] = numbers(qn, 10 + (uint64_t)i, 2, (int64_t[]){i ? of.n : of.m, of.n});
        n.u[i] = numbers(qn, 20 + (uint64_t)i, 2, (int64_t[]){of.n, of.n});
        n.h0[i] = numbers(qn, 30 + (uint64_t)i, 2, (int64_t[]){of.b, of.n});
    }
    n.v = numbers(qn, 40, 2, (int64_t[]){of.n, CLASSES});
    n.s0 = numbers(qn, 41, 1, (int64_t[]){of.n});
    n.d0 = numbers(qn, 42, 2, (int64_t[]){of.b, of.m});
    return n;
}

/* States: a layer's each, a number that changes by itself and that all layers use, and the row of
 * the trip before, which the last layer uses. Outputs: the first layer, the last, and classes. */
static void body(const net *n, qn_tensor **state, qn_tensor *x, qn_tensor **out) {
    qn_tensor *scale = state[LAYERS], *before = state[LAYERS + 1], *in = x;
    for (int i = 0; i < LAYERS; i++) {
        qn_tensor *all = qn_add(qn_matmul(in, n->w[i]), qn_matmul(state[i], n->u[i]));
        all = qn_mul(all, qn_like(all, 2.0 / (double)n->of.n));
        if (i == LAYERS - 1) all = qn_add(all, qn_narrow(before, 1, 0, n->of.n));
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

static void layers_of(sizes of) {
    qn_ctx *qn = begin();
    net n = net_of(qn, of);
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

static void layers(void) {
    layers_of(small);
}

static void layers_are_what_they_are_unrolled(void) {
    device_each(&device, layers);
    layers_of(rows_of_pages);
}

/* Each layer is a loop of its own, and classes need none. */
static void a_layer_is_a_loop(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn, small);
    qn_tensor *result[RESULTS];
    rolled(qn, &n, false, 0, result);
    CHECK_INT(loops_of(qn, result[0]), 1);
    CHECK_INT(loops_of(qn, result[1]), LAYERS);
    CHECK_INT(loops_of(qn, result[2]), LAYERS);
    CHECK(node_at(qn->graph, tensor_at(result[2])->node)->op != OP_RESULT);
    end(qn);
}

/* The last layer and the classes are made of the first layer's rows, and yet no function of what
 * stacks them, as they are none unrolled. What is recorded again is the same. */
static void outputs_follow_no_other_output(void) {
    qn_ctx *qn = begin();
    net n = net_of(qn, small);
    qn_tensor *result[RESULTS], *again[RESULTS], *g;
    int32_t follows = 1;
    rolled(qn, &n, false, 0, result);
    rolled(qn, &n, false, 0, again);
    for (int of = 0; of < OUTS; of++)
        for (int by = 0; by < OUTS; by++) {
            if (of == by) continue;
            CHECK_INT(qn_depends(1, &result[of], 1, &result[by], &follows), QN_OK);
            CHECK_INT(follows, 0);
            CHECK_INT(qn_grad(qn_sum(result[of], QN_ALL, false), NULL, 1, &result[by], &g), QN_OK);
            CHECK(difference(g, qn_zeros_like(g)) == 0);
        }
    for (int i = 0; i < RESULTS; i++)
        CHECK_INT(tensor_at(again[i])->node, tensor_at(result[i])->node);
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
/* All of a deep stack's layers, wanted behind the last one, would live at once. */
static int loops_of_deep(bool all_layers) {
    enum { DEEP = 30, WIDE = 16, LONG = 4096 };
    qn_ctx *qn = begin();
    qn_tensor *x = numbers(qn, 1, 3, (int64_t[]){1, 8, WIDE}),
              *w = numbers(qn, 2, 2, (int64_t[]){WIDE, WIDE});
    qn_tensor *state[DEEP], *sum = NULL;
    x = qn_expand(x, 3, (int64_t[]){LONG, 8, WIDE});
    for (int i = 0; i < DEEP; i++) state[i] = qn_full(qn, QN_F32, 2, (int64_t[]){8, WIDE}, 0);
    qn_loop *l = qn_loop_begin(qn, DEEP, state, 1, &x, NULL);
    qn_tensor *in = qn_loop_slice(l, 0);
    for (int i = 0; i < DEEP; i++) {
        in = state[i] = qn_tanh(qn_add(qn_matmul(in, w), qn_loop_state(l, i)));
        sum = sum && all_layers ? qn_concat(2, (qn_tensor *[]){sum, in}, 1) : in;
    }
    if (all_layers) sum = qn_matmul(qn_sin(sum), numbers(qn, 3, 2, (int64_t[]){DEEP * WIDE, 4}));
    CHECK_INT(qn_loop_end(l, DEEP, state, 1, &sum), QN_OK);
    int loops = loops_of(qn, qn_loop_output(l, 0));
    qn_loop_free(l);
    end(qn);
    return loops;
}

/* Values of as many axes as there may be cannot be stacked. */
static int loops_of_many_axes(void) {
    qn_ctx *qn = begin();
    const int64_t shape[QN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4};
    qn_tensor *state[2] = {numbers(qn, 1, QN_MAX_RANK, shape),
                           numbers(qn, 2, 2, shape + QN_MAX_RANK - 2)};
    qn_loop *l = qn_loop_begin(qn, 2, state, 0, NULL, &QN_LOOP_OPTIONS(.trips = 3));
    qn_tensor *flat = qn_reshape(qn_loop_state(l, 0), 2, shape + QN_MAX_RANK - 2);
    flat = qn_matmul(flat, numbers(qn, 3, 2, (int64_t[]){4, 4}));
    state[0] = qn_sin(qn_loop_state(l, 0)), state[1] = qn_tanh(qn_add(qn_loop_state(l, 1), flat));
    CHECK_INT(qn_loop_end(l, 2, state, 0, NULL), QN_OK);
    int loops = loops_of(qn, qn_loop_final(l, 1));
    qn_loop_free(l);
    end(qn);
    return loops;
}

static void memory_stays_what_it_was(void) {
    CHECK_INT(loops_of_deep(false), 30);
    CHECK_INT(loops_of_deep(true), 1);
    CHECK_INT(loops_of_many_axes(), 1);
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

/* A state whose every trip is a loop's, in rows that begin anywhere: null looks at all launches. */
static void rows_of_loops_in_loops_begin_anywhere(void) {
    enum { WIDE = 1001, INNER = 3 };
    for (int way = 0; way < 3; way++) {
        device = way == 2 ? "cpu" : "null";
        qn_ctx *qn = begin();
        int64_t wide = WIDE;
        qn_tensor *h = numbers(qn, 1, 1, &wide), *state, *next, *all, *g;
        qn_loop *l = qn_loop_begin(qn, 1, &h, 0, NULL, &QN_LOOP_OPTIONS(.trips = 5));
        state = qn_loop_state(l, 0);
        qn_loop *in = qn_loop_begin(qn, 1, &state, 0, NULL, &QN_LOOP_OPTIONS(.trips = INNER));
        next = qn_sin(qn_loop_state(in, 0));
        qn_loop_end(in, 1, &next, 0, NULL);
        next = qn_loop_final(in, 0);
        qn_loop_free(in);
        CHECK_INT(qn_loop_end(l, 1, &next, 1, way == 1 ? &state : &next), QN_OK);
        all = qn_loop_output(l, 0);
        qn_loop_free(l);
        CHECK_INT(qn_grad(qn_sum(qn_square(all), QN_ALL, false), NULL, 1, &h, &g), QN_OK);
        CHECK_INT(qn_realize(2, (qn_tensor *[]){all, g}), QN_OK);
        for (int k = 0; way == 2 && k < 5; k++) {
            for (int i = 0; i < INNER; i++) h = qn_sin(h);
            CHECK(difference(qn_select(all, 0, k), h) < 1e-6);
        }
        end(qn);
    }
    device = "cpu";
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(layers_are_what_they_are_unrolled);
    RUN(a_layer_is_a_loop);
    RUN(outputs_follow_no_other_output);
    RUN(only_what_gains_is_cut);
    RUN(memory_stays_what_it_was);
    RUN(a_state_lives_in_its_stack);
    RUN(rows_of_loops_in_loops_begin_anywhere);
    return test_end();
}
