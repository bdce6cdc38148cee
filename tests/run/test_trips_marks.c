/* test_trips_marks.c - bodies of loops whose gradients take a way of their own: functions whose
 * derivatives have another form, gradients that are given, checkpoints. Values and gradients, first
 * and second, against the same body unrolled, with what the body captures, in layers, and inside of
 * a loop in a loop. */
#include "loop_values.h"
#include "quern_ops_nn.h"

enum { TRIPS = 5, WIDE = 6 };

static qn_tensor *numbers(qn_ctx *qn, uint64_t seed, int rank, const int64_t *shape) {
    double data[TRIPS * WIDE * WIDE];
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    for (int64_t i = 0; i < n; i++) data[i] = 2 * test_uniform(&seed) - 1;
    return qn_from(qn, QN_F64, rank, shape, data);
}

/* ---- bodies ---------------------------------------------------------------------------------- */

/* The next state of state h, row x and a captured matrix w. */
typedef qn_tensor *(*body)(qn_tensor *h, qn_tensor *x, qn_tensor *w);

static qn_tensor *softplus(qn_tensor *h, qn_tensor *x, qn_tensor *w) {
    return qn_sin(qn_softplus(qn_add(qn_matmul(h, w), qn_softplus(x))));
}
static qn_tensor *mish(qn_tensor *h, qn_tensor *x, qn_tensor *w) {
    return qn_sin(qn_mish(qn_add(qn_mul(h, x), qn_mish(qn_matmul(x, w)))));
}
/* tanh by the sums of w's columns, with a gradient that is given and is not theirs. It is linear in
 * the seed, as a gradient is, for a loop may ask for it by parts. */
static qn_tensor *given(qn_tensor *h, qn_tensor *x, qn_tensor *w) {
    qn_tensor *in[2] = {qn_add(qn_matmul(h, w), x), w},
              *y = qn_mul(qn_tanh(in[0]), qn_sum(w, 0, false));
    qn_tensor *seed = qn_placeholder(y), *out = NULL;
    qn_tensor *slope = qn_mul(qn_mul(seed, qn_cos(in[0])), qn_weak(seed, 0.5));
    qn_tensor *to[2] = {slope, qn_matmul(qn_transpose(in[0], 0, 1), seed)};
    qn_custom_gradient(1, &y, &seed, 2, in, to, &out);
    return out;
}
static qn_tensor *again(qn_tensor *h, qn_tensor *x, qn_tensor *w) {
    qn_tensor *in[3] = {h, x, w}, *y = qn_tanh(qn_add(qn_matmul(qn_sin(h), w), qn_softplus(x))),
              *out = NULL;
    qn_checkpoint(1, &y, 3, in, &out);
    return out;
}
static const body bodies[] = {softplus, mish, given, again};

/* ---- a loop, and the same unrolled ----------------------------------------------------------- */

typedef struct inputs {
    qn_tensor *h, *x, *w;
} inputs;

static inputs inputs_of(qn_ctx *qn) {
    return (inputs){numbers(qn, 1, 2, (int64_t[]){2, WIDE}),
                    numbers(qn, 2, 3, (int64_t[]){TRIPS, 2, WIDE}),
                    numbers(qn, 3, 2, (int64_t[]){WIDE, WIDE})};
}

/* Two layers of the body, the second reading what the first makes. */
static qn_tensor *rolled(qn_ctx *qn, body b, const inputs *in, int64_t checkpoint) {
    qn_tensor *h[2] = {in->h, in->h}, *x = in->x;
    qn_loop *l = qn_loop_begin(qn, 2, h, 1, &x, &QN_LOOP_OPTIONS(.checkpoint = checkpoint));
    h[0] = b(qn_loop_state(l, 0), qn_loop_slice(l, 0), in->w);
    h[1] = b(qn_loop_state(l, 1), qn_matmul(h[0], in->w), in->w);
    CHECK_INT(qn_loop_end(l, 2, h, 1, &h[1]), QN_OK);
    qn_tensor *all = qn_loop_output(l, 0);
    qn_loop_free(l);
    return all;
}

static qn_tensor *unrolled(body b, const inputs *in) {
    qn_tensor *h[2] = {in->h, in->h}, *all[TRIPS];
    for (int t = 0; t < TRIPS; t++) {
        h[0] = b(h[0], qn_select(in->x, 0, t), in->w);
        all[t] = h[1] = b(h[1], qn_matmul(h[0], in->w), in->w);
    }
    return qn_stack(TRIPS, all, 0);
}

static void compare(qn_ctx *qn, const inputs *in, qn_tensor *a, qn_tensor *b) {
    qn_tensor *y[2] = {a, b}, *of[3] = {in->h, in->x, in->w}, *g[2][3], *gg[2][3];
    for (int k = 0; k < 2; k++) {
        CHECK_INT(qn_grad(qn_sum(qn_square(y[k]), QN_ALL, false), NULL, 3, of, g[k]), QN_OK);
        qn_tensor *norm = qn_sum(qn_square(g[k][2]), QN_ALL, false);
        CHECK_INT(qn_grad(norm, NULL, 3, of, gg[k]), QN_OK);
    }
    CHECK(difference(a, b) < 1e-12);
    for (int i = 0; i < 3; i++) CHECK(difference(g[0][i], g[1][i]) < 1e-10);
    for (int i = 0; i < 3; i++) CHECK(difference(gg[0][i], gg[1][i]) < 1e-8);
    if (qn_error_code(qn)) FAIL("%s", qn_error(qn));
}

static void ways(void) {
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (int checkpoint = 0; checkpoint < 3; checkpoint += 2) {
            qn_ctx *qn = begin();
            inputs in = inputs_of(qn);
            compare(qn, &in, rolled(qn, bodies[i], &in, checkpoint), unrolled(bodies[i], &in));
            end(qn);
        }
}

static void gradients_of_bodies_keep_their_ways(void) {
    device_each(&device, ways);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(gradients_of_bodies_keep_their_ways);
    return test_end();
}
