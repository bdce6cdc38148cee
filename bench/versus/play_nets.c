/* play_nets.c - Quern as a player: networks that are trained, a step a call, its assignments in the
 * static graph, and a solver's loop. Every player has the same weights, matrices by uniform numbers
 * of the deviation that keeps activations in size, and so the same losses. */
#include "play_quern.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 80 };

typedef struct net {
    played *p;
    qn_tensor *w[MOST], *speed[MOST]; /* speeds where there is a momentum */
    double momentum;
    int count;
} net;

/* The next parameter: of `fan` inputs an element; ones or zeros where that is 0 or below. Its speed
 * is data from the start, since rules simplify by zeros that are known to be some. */
static qn_tensor *parameter(net *n, int rank, const int64_t *shape, int64_t fan) {
    int64_t all = 1;
    for (int i = 0; i < rank; i++) all *= shape[i];
    float *data = calloc((size_t)all, sizeof *data), scale = sqrtf(6.f / (float)fan);
    if (!data || n->count == MOST) {
        free(data);
        return NULL;
    }
    if (n->momentum > 0) n->speed[n->count] = qn_from(n->p->qn, QN_F32, rank, shape, data);
    for (int64_t i = 0; i < all; i++)
        data[i] = fan > 0 ? scale * vs_value(100u + (uint32_t)n->count, (uint64_t)i) : fan == 0;
    qn_tensor *t = qn_from(n->p->qn, QN_F32, rank, shape, data);
    free(data);
    return n->w[n->count++] = t;
}

/* The loss, after w <- w - rate * (momentum * speed + gradient). */
static void descend(net *n, qn_tensor *loss, double rate) {
    qn_tensor *g[MOST];
    played *p = n->p;
    if (!loss || qn_grad(loss, NULL, n->count, n->w, g)) return;
    for (int i = 0; i < n->count; i++) {
        qn_tensor *v = g[i];
        if (n->momentum > 0) {
            v = qn_add(qn_mul(n->speed[i], qn_like(v, n->momentum)), v);
            qn_assign(n->speed[i], v);
        }
        qn_assign(n->w[i], qn_sub(n->w[i], qn_mul(v, qn_like(v, rate))));
    }
    p->out[0] = loss;
    p->outputs = 1;
    p->trains = true;
}

/* ---- LSTM ---------------------------------------------------------------------------------- */

enum { LAYERS = 8 };

/* Gates in the order in, forget, new, out; h and cell become those behind a step. NULL or the last
 * layer's h. */
static qn_tensor *lstm_cells(const net *n, int64_t layers, qn_tensor *in, qn_tensor **h,
                             qn_tensor **cell) {
    for (int64_t l = 0; l < layers; l++) {
        qn_tensor *const *w = n->w + 3 * l, *g[4];
        qn_tensor *all = qn_add(qn_matmul(in, w[0]), qn_matmul(h[l], w[1]));
        if (qn_chunk(qn_add(all, w[2]), 1, 4, g)) return NULL;
        cell[l] =
            qn_add(qn_mul(qn_sigmoid(g[1]), cell[l]), qn_mul(qn_sigmoid(g[0]), qn_tanh(g[2])));
        in = h[l] = qn_mul(qn_sigmoid(g[3]), qn_tanh(cell[l]));
    }
    return in;
}

/* The last layer's states of all steps, each step recorded by itself. */
static qn_tensor *lstm_unrolled(const net *n, const vs_case *c, qn_tensor *x, qn_tensor **h,
                                qn_tensor **cell) {
    int steps = (int)c->d[3];
    qn_tensor **out = calloc((size_t)steps, sizeof(qn_tensor *)), *all = NULL;
    bool fine = out != NULL;
    for (int t = 0; fine && t < steps; t++)
        fine = (out[t] = lstm_cells(n, c->d[0], qn_select(x, 0, t), h, cell)) != NULL;
    if (fine) all = qn_stack(steps, out, 0);
    free(out);
    return all;
}

/* As lstm_cells, of gates in the order reset, update, new. */
static qn_tensor *gru_cells(const net *n, int64_t layers, qn_tensor *in, qn_tensor **h) {
    for (int64_t l = 0; l < layers; l++) {
        qn_tensor *const *w = n->w + 3 * l, *x[3], *y[3];
        if (qn_chunk(qn_add(qn_matmul(in, w[0]), w[2]), 1, 3, x) ||
            qn_chunk(qn_matmul(h[l], w[1]), 1, 3, y))
            return NULL;
        qn_tensor *r = qn_sigmoid(qn_add(x[0], y[0])), *z = qn_sigmoid(qn_add(x[1], y[1]));
        qn_tensor *new = qn_tanh(qn_fma(r, y[2], x[2]));
        in = h[l] = qn_fma(z, qn_sub(h[l], new), new);
    }
    return in;
}

/* The same as one loop. */
static qn_tensor *lstm_loop(const net *n, const vs_case *c, qn_tensor *x, qn_tensor **h,
                            qn_tensor **cell) {
    int layers = (int)c->d[0];
    qn_tensor *state[2 * LAYERS], *next[2 * LAYERS];
    for (int i = 0; i < layers; i++) state[2 * i] = h[i], state[2 * i + 1] = cell[i];
    qn_loop_options o = QN_LOOP_OPTIONS(.checkpoint = c->d[5]);
    qn_loop *l = qn_loop_begin(n->p->qn, 2 * layers, state, 1, &x, &o);
    for (int i = 0; i < layers; i++)
        h[i] = qn_loop_state(l, 2 * i), cell[i] = qn_loop_state(l, 2 * i + 1);
    qn_tensor *out = lstm_cells(n, layers, qn_loop_slice(l, 0), h, cell), *all = NULL;
    for (int i = 0; i < layers; i++) next[2 * i] = h[i], next[2 * i + 1] = cell[i];
    if (out && qn_loop_end(l, 2 * layers, next, 1, &out) == QN_OK) all = qn_loop_output(l, 0);
    qn_loop_free(l);
    return all;
}

static qn_tensor *gru_loop(const net *n, int layers, qn_tensor *x, qn_tensor **h) {
    qn_loop *l = qn_loop_begin(n->p->qn, layers, h, 1, &x, NULL);
    for (int i = 0; i < layers; i++) h[i] = qn_loop_state(l, i);
    qn_tensor *out = gru_cells(n, layers, qn_loop_slice(l, 0), h), *all = NULL;
    if (out && qn_loop_end(l, layers, h, 1, &out) == QN_OK) all = qn_loop_output(l, 0);
    qn_loop_free(l);
    return all;
}

/* The loss is the last layer's states' mean square. */
static void gru(played *p, const vs_case *c) {
    int64_t layers = c->d[0], width = c->d[1], batch = c->d[2], steps = c->d[3];
    const int64_t weight[] = {width, 3 * width}, wide = 3 * width, state[] = {batch, width};
    net n = {.p = p};
    qn_tensor *x = play_input(p, c, 0, 3, (int64_t[]){steps, batch, width}), *h[LAYERS];
    if (layers > LAYERS) return;
    for (int64_t l = 0; l < layers; l++) {
        parameter(&n, 2, weight, 6 * width);
        parameter(&n, 2, weight, 6 * width);
        parameter(&n, 1, &wide, -1);
        h[l] = qn_full(p->qn, QN_F32, 2, state, 0);
    }
    qn_tensor *all = gru_loop(&n, (int)layers, x, h);
    if (all) descend(&n, qn_mean(qn_square(all), QN_ALL, false), 0.5);
}

/* Jacobi's iteration as a loop of a kernel a step. */
static void solver(played *p, const vs_case *c) {
    qn_tensor *b = play_input(p, c, 0, 2, (int64_t[]){c->d[0], c->d[0]});
    qn_loop *l = qn_loop_begin(p->qn, 1, &b, 0, NULL, &QN_LOOP_OPTIONS(.trips = c->d[1]));
    qn_tensor *x = qn_loop_state(l, 0), *sum = NULL;
    for (int k = 0; k < 4; k++) {
        qn_tensor *near = qn_roll(x, k / 2, k % 2 ? 1 : -1);
        sum = sum ? qn_add(sum, near) : near;
    }
    x = qn_fma(sum, qn_like(sum, 0.2), b);
    if (qn_loop_end(l, 1, &x, 0, NULL) == QN_OK) p->out[0] = qn_loop_final(l, 0);
    p->outputs = 1;
    qn_loop_free(l);
}

/* The loss is the last layer's states' mean square. */
static void lstm(played *p, const vs_case *c) {
    int64_t layers = c->d[0], width = c->d[1], batch = c->d[2], steps = c->d[3];
    const int64_t square[] = {width, 4 * width}, wide = 4 * width, state[] = {batch, width};
    net n = {.p = p};
    qn_tensor *x = play_input(p, c, 0, 3, (int64_t[]){steps, batch, width});
    qn_tensor *h[LAYERS], *cell[LAYERS];
    if (layers > LAYERS) return;
    for (int64_t l = 0; l < layers; l++) {
        parameter(&n, 2, square, 6 * width);
        parameter(&n, 2, square, 6 * width);
        parameter(&n, 1, &wide, -1);
        h[l] = cell[l] = qn_full(p->qn, QN_F32, 2, state, 0);
    }
    qn_tensor *all = c->d[4] ? lstm_loop(&n, c, x, h, cell) : lstm_unrolled(&n, c, x, h, cell);
    if (all) descend(&n, qn_mean(qn_square(all), QN_ALL, false), 0.5);
}

/* ---- ResNet -------------------------------------------------------------------------------- */

/* A convolution without bias and its norm by the batch. */
static qn_tensor *conv_norm(net *n, qn_tensor *x, int64_t to, int64_t k, int64_t stride) {
    int64_t from = qn_dim(x, 1), shape[] = {to, from, k, k}, pad = k / 2;
    qn_conv_options o =
        QN_CONV_OPTIONS(.stride = {stride, stride}, .before = {pad, pad}, .after = {pad, pad});
    qn_tensor *w = parameter(n, 4, shape, from * k * k), *out[3];
    qn_tensor *gamma = parameter(n, 1, &to, 0), *beta = parameter(n, 1, &to, -1);
    x = qn_conv(x, w, NULL, &o);
    return qn_batch_norm_training(x, gamma, beta, 1e-5, out) ? NULL : out[0];
}

static void resnet(played *p, const vs_case *c) {
    int64_t width = c->d[0], size = c->d[1], batch = c->d[2], wide = 8 * width, ten = 10;
    net n = {.p = p, .momentum = 0.9};
    qn_tensor *x = play_input(p, c, 0, 4, (int64_t[]){batch, 3, size, size});
    int32_t label[1024];
    for (int64_t i = 0; i < batch && i < 1024; i++) label[i] = (int32_t)(i % ten);
    qn_tensor *y = p->in[p->inputs++] = qn_from(p->qn, QN_I32, 1, &batch, label);
    qn_tensor *h = qn_relu(conv_norm(&n, x, width, 3, 1));
    for (int block = 0; block < 8; block++) {
        int64_t to = width << block / 2, stride = block > 1 && block % 2 == 0 ? 2 : 1;
        qn_tensor *a = qn_relu(conv_norm(&n, h, to, 3, stride)), *b = conv_norm(&n, a, to, 3, 1);
        if (stride > 1) h = conv_norm(&n, h, to, 1, stride);
        h = qn_relu(qn_add(h, b));
    }
    h = qn_mean_axes(h, 2, (int[]){2, 3}, false);
    qn_tensor *w = parameter(&n, 2, (int64_t[]){wide, ten}, wide), *b = parameter(&n, 1, &ten, -1);
    descend(&n, qn_cross_entropy(qn_add(qn_matmul(h, w), b), y), 0.01);
}

bool play_nets(played *p, const vs_case *c) {
    if (c->kind == VS_LSTM)
        lstm(p, c);
    else if (c->kind == VS_GRU)
        gru(p, c);
    else if (c->kind == VS_SOLVER)
        solver(p, c);
    else if (c->kind == VS_RESNET)
        resnet(p, c);
    else
        return false;
    return true;
}
