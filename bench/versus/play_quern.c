/* play_quern.c - Quern as a player: each case a static graph, replayed by qn_plan_run.
 *
 * All inputs are arguments of the graph, so nothing may be prepared beforehand; "packed" products
 * leave the second one a parameter. Training steps make their assignments within the graph. The
 * variant "ref" computes by the oracle device, for cases whose result has no other definition. */
#include "play_quern.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static played it;

/* QN_DEBUG works here, too: `peers --serve quern 1`, and a case as client.c writes it. */
static void log_line(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "%s\n", line);
}

static const char *open_quern(int threads, const char *variant) {
    it.ref = !strcmp(variant, "ref");
    qn_options options =
        QN_OPTIONS(.threads = threads, .device = it.ref ? "ref" : NULL, .log = log_line);
    it.qn = qn_open(&options);
    return it.qn ? NULL : "no context";
}

qn_tensor *play_input(played *p, const vs_case *c, int i, int rank, const int64_t *shape) {
    int64_t n = vs_input(c, i);
    float *data = malloc((size_t)n * sizeof *data);
    if (!data) return NULL;
    vs_fill(data, (uint32_t)i, n);
    if (c->kind == VS_MLP && i < 2)
        for (int64_t j = 0; j < n; j++) data[j] *= 0.05f;
    qn_tensor *t = qn_from(p->qn, QN_F32, rank, shape, data);
    free(data);
    p->in[p->inputs++] = t;
    return t;
}

static qn_tensor *input(const vs_case *c, int i, int rank, const int64_t *shape) {
    return play_input(&it, c, i, rank, shape);
}

/* An input in a narrow type, scaled to fill it. */
static qn_tensor *narrow(const vs_case *c, int i, int rank, const int64_t *shape, qn_dtype dtype) {
    qn_tensor *t = input(c, i, rank, shape);
    if (dtype == QN_I8) t = qn_mul(t, qn_like(t, 127));
    it.in[i] = qn_cast(t, dtype);
    qn_realize(1, &it.in[i]);
    return it.in[i];
}

static qn_tensor *product(const vs_case *c) {
    const int64_t *d = c->d, a[] = {d[0], d[1], d[3]}, plain[] = {d[0], d[3], d[2]};
    const int64_t swapped[] = {d[0], d[2], d[3]}, *b = d[4] ? swapped : plain;
    int skip = d[0] == 1;
    qn_tensor *x, *y;
    if (c->kind == VS_GEMM_I8 || c->kind == VS_GEMM_BF16) {
        qn_dtype type = c->kind == VS_GEMM_I8 ? QN_I8 : QN_BF16;
        qn_dtype wide = c->kind == VS_GEMM_I8 ? QN_I32 : QN_F32;
        x = qn_cast(narrow(c, 0, 3 - skip, a + skip, type), wide);
        y = qn_cast(narrow(c, 1, 3 - skip, b + skip, type), wide);
    } else {
        x = input(c, 0, 3 - skip, a + skip);
        y = input(c, 1, 3 - skip, b + skip);
    }
    if (c->kind == VS_GEMM_PACKED || d[5]) it.inputs = 1;
    return qn_matmul(x, d[4] ? qn_transpose(y, -1, -2) : y);
}

static void attention(const vs_case *c) {
    bool causal = c->kind == VS_ATTENTION_CAUSAL || c->kind == VS_ATTENTION_CAUSAL_GRAD;
    qn_tensor *q = input(c, 0, 4, c->d), *k = input(c, 1, 4, c->d), *v = input(c, 2, 4, c->d);
    qn_tensor *o = qn_attention(q, k, v, &QN_ATTENTION_OPTIONS(.causal = causal)), *g[3];
    it.out[0] = o;
    it.outputs = 1;
    if (c->kind == VS_ATTENTION || c->kind == VS_ATTENTION_CAUSAL) return;
    qn_tensor *seed = input(c, 3, 4, c->d);
    if (qn_grad(o, seed, 3, (qn_tensor *[]){q, k, v}, g)) return;
    for (int i = 0; i < 3; i++) it.out[i] = g[i];
    it.out[3] = o;
    it.outputs = 4;
}

/* Plain gradient descent, the weights assigned in the graph. */
static qn_tensor *mlp(const vs_case *c) {
    const int64_t *d = c->d;
    qn_tensor *p[4], *g[4];
    p[0] = input(c, 0, 2, d);
    p[1] = input(c, 1, 2, d + 1);
    qn_tensor *x = input(c, 2, 2, (int64_t[]){d[3], d[0]});
    float zero[1024] = {0};
    if (d[1] > 1024 || d[2] > 1024) return NULL;
    p[2] = qn_from(it.qn, QN_F32, 1, d + 1, zero);
    p[3] = qn_from(it.qn, QN_F32, 1, d + 2, zero);
    int32_t labels[1024];
    for (int64_t i = 0; i < d[3] && i < 1024; i++) labels[i] = (int32_t)(i % d[2]);
    qn_tensor *y = qn_from(it.qn, QN_I32, 1, d + 3, labels);
    qn_tensor *h = qn_relu(qn_add(qn_matmul(x, p[0]), p[2]));
    qn_tensor *loss = qn_cross_entropy(qn_add(qn_matmul(h, p[1]), p[3]), y);
    if (qn_grad(loss, NULL, 4, p, g)) return NULL;
    for (int i = 0; i < 4; i++) qn_assign(p[i], qn_sub(p[i], qn_mul(g[i], qn_like(g[i], 0.1))));
    it.in[0] = x;
    it.in[1] = y;
    it.inputs = 2;
    it.trains = true;
    return loss;
}

/* The weights that every player has. */
static bool fill_gpt(const qn_module *m) {
    for (int i = 0; i < qn_module_count(m); i++) {
        qn_tensor *p = qn_module_parameters(m)[i];
        if (qn_rank(p) < 2) continue;
        size_t n = (size_t)(qn_dim(p, 0) * qn_dim(p, 1));
        float *data = malloc(n * sizeof *data);
        for (size_t j = 0; data && j < n; j++) data[j] = vs_gpt_weight((uint32_t)i, j);
        bool ok = data && !qn_write(p, data, n * sizeof *data);
        free(data);
        if (!ok) return false;
    }
    return true;
}

static qn_tensor *gpt(const vs_case *c) {
    const int64_t *d = c->d, shape[] = {d[5], d[1]};
    qn_gpt_config config = QN_GPT_CONFIG(.vocabulary = d[0], .context = d[1], .layers = d[2],
                                         .heads = d[3], .width = d[4]);
    it.gpt = qn_gpt_new(it.qn, 1, &config);
    qn_module *m = it.gpt ? qn_gpt_module(it.gpt) : NULL;
    if (!m || !fill_gpt(m)) return NULL;
    qn_optimizer_options options = qn_optimizer_defaults(QN_ADAMW);
    it.optimizer = qn_optimizer_new(it.qn, qn_module_count(m), qn_module_parameters(m), &options);
    int32_t *ids = malloc((size_t)(d[5] * d[1] + 1) * sizeof *ids);
    if (!ids) return NULL;
    for (int64_t i = 0; i <= d[5] * d[1]; i++) ids[i] = (int32_t)(i * 7919 % d[0]);
    it.in[0] = qn_from(it.qn, QN_I32, 2, shape, ids);
    it.in[1] = qn_from(it.qn, QN_I32, 2, shape, ids + 1);
    it.inputs = 2;
    it.trains = true;
    free(ids);
    qn_tensor *loss = qn_gpt_loss(it.gpt, it.in[0], it.in[1]);
    return qn_optimizer_step(it.optimizer, loss) ? NULL : loss;
}

/* Padding before as after but for a stride's remainder, so that the size divides by the stride. */
static qn_tensor *convolution(const vs_case *c) {
    const int64_t *d = c->d, first[] = {d[0], d[1], d[2], d[2]}, last[] = {d[0], d[2], d[2], d[1]};
    const int64_t w[] = {d[3], d[1] / d[6], d[4], d[4]}, out[] = {d[0], d[3], d[2], d[2]};
    int64_t pad = d[4] / 2, after = (d[2] / d[5] - 1) * d[5] + d[4] - d[2] - pad;
    qn_conv_options o =
        QN_CONV_OPTIONS(.stride = {d[5], d[5]}, .before = {pad, pad}, .after = {after, after},
                        .groups = d[6], .channels_last = c->kind == VS_CONV_LAST);
    if (after < 0) o.after[0] = o.after[1] = 0;
    qn_tensor *x = input(c, 0, 4, o.channels_last ? last : first), *y, *g;
    qn_tensor *weights = input(c, 1, 4, w);
    y = qn_conv(x, weights, NULL, &o);
    if (c->kind == VS_CONV || c->kind == VS_CONV_LAST) return y;
    qn_tensor *seed = input(c, 2, 4, out);
    return qn_grad(y, seed, 1, c->kind == VS_CONV_DATA ? &x : &weights, &g) ? NULL : g;
}

/* Long because it has a line for each kind of case. */
static void build(const vs_case *c) {
    const int64_t *d = c->d;
    qn_tensor *x;
    it.outputs = 1;
    switch (c->kind) {
    case VS_GEMM:
    case VS_GEMM_PACKED:
    case VS_GEMM_I8:
    case VS_GEMM_BF16:
        it.out[0] = product(c);
        break;
    case VS_NEG:
        it.out[0] = qn_neg(input(c, 0, 1, d));
        break;
    case VS_EXP:
        it.out[0] = qn_exp(input(c, 0, 1, d));
        break;
    case VS_TANH:
        it.out[0] = qn_tanh(input(c, 0, 1, d));
        break;
    case VS_GELU:
        it.out[0] = qn_gelu(input(c, 0, 1, d));
        break;
    case VS_GELU_TANH:
        it.out[0] = qn_gelu_tanh(input(c, 0, 1, d));
        break;
    case VS_FMA:
        x = qn_mul(input(c, 0, 1, d), input(c, 1, 1, d));
        it.out[0] = qn_add(x, input(c, 2, 1, d));
        break;
    case VS_DISPATCH:
        x = input(c, 0, 1, d);
        it.out[0] = qn_add(x, x);
        break;
    case VS_SUM_ALL:
        it.out[0] = qn_sum(input(c, 0, 2, d), QN_ALL, false);
        break;
    case VS_SUM_ROWS:
        it.out[0] = qn_sum(input(c, 0, 2, d), 1, false);
        break;
    case VS_SUM_COLUMNS:
        it.out[0] = qn_sum(input(c, 0, 2, d), 0, false);
        break;
    case VS_SOFTMAX:
        it.out[0] = qn_softmax(input(c, 0, 2, d), -1);
        break;
    case VS_LAYER_NORM:
        it.out[0] = qn_layer_norm(input(c, 0, 2, d), NULL, NULL, 1e-5);
        break;
    case VS_TRANSPOSE:
        it.out[0] = qn_contiguous(qn_transpose(input(c, 0, 2, d), 0, 1));
        break;
    case VS_ATTENTION:
    case VS_ATTENTION_CAUSAL:
    case VS_ATTENTION_GRAD:
    case VS_ATTENTION_CAUSAL_GRAD:
        attention(c);
        break;
    case VS_CONV:
    case VS_CONV_LAST:
    case VS_CONV_DATA:
    case VS_CONV_WEIGHTS:
        it.out[0] = convolution(c);
        break;
    case VS_MLP:
        it.out[0] = mlp(c);
        break;
    case VS_GPT:
        it.out[0] = gpt(c);
        break;
    default:
        it.outputs = 0;
        if (!play_lists(&it, c)) play_nets(&it, c);
        break;
    }
}

/* A step on the oracle device, which has no static graphs: recorded anew each time. */
static bool call_ref(void) {
    qn_scope scope = qn_scope_begin(it.qn);
    qn_tensor *loss = it.out[0];
    bool ok = true;
    it.out[0] = NULL;
    if (!loss) {
        loss = qn_gpt_loss(it.gpt, it.in[0], it.in[1]);
        ok = !qn_optimizer_step(it.optimizer, loss);
    }
    ok = ok && it.losses < LOSSES && !qn_read(loss, &it.loss[it.losses++], sizeof *it.loss);
    qn_scope_end(it.qn, scope);
    return ok;
}

static bool call_quern(void) {
    if (it.ref) return call_ref();
    for (int i = 0; i < it.outputs; i++) {
        qn_release(it.out[i]);
        it.out[i] = NULL;
    }
    if (it.again ? !it.again(&it) : qn_plan_run(it.plan, it.in, it.out) != QN_OK) {
        fprintf(stderr, "quern: %s\n", qn_error(it.qn));
        return false;
    }
    free(it.host);
    it.host = NULL;
    if (it.trains && it.losses < LOSSES) qn_read(it.out[0], &it.loss[it.losses++], sizeof *it.loss);
    return true;
}

static void forget(void) {
    qn_plan_free(it.plan);
    for (int i = 0; i < it.outputs; i++) qn_release(it.out[i]);
    qn_optimizer_free(it.optimizer);
    free(it.pieces);
    it.pieces = NULL;
    it.again = NULL;
    qn_gpt_free(it.gpt);
    free(it.host);
    it.plan = NULL;
    it.optimizer = NULL;
    it.gpt = NULL;
    it.host = NULL;
    memset(it.in, 0, sizeof it.in);
    memset(it.out, 0, sizeof it.out);
    it.inputs = it.outputs = it.losses = 0;
    it.trains = false;
}

static const char *load_quern(const vs_case *c) {
    static char why[256];
    forget();
    /* A context of its own for each case: all memory of the last one goes. */
    qn_close(it.qn);
    int threads = 0;
    const char *text = getenv("QN_THREADS");
    if (text) threads = atoi(text);
    if (open_quern(threads, it.ref ? "ref" : "")) return "no context";
    it.size = vs_output(c);
    build(c);
    if (!it.outputs) return "Quern has no such operation yet";
    if (!it.out[0]) {
        snprintf(why, sizeof why, "%s", qn_error(it.qn));
        return why;
    }
    if (it.again) return NULL;
    if (it.ref) return it.gpt && call_ref() ? NULL : "only training steps are its";
    it.plan = qn_plan_new(it.qn, it.inputs, it.in, it.outputs, it.out);
    if (!it.plan || (it.trains && !call_quern())) {
        snprintf(why, sizeof why, "%s", qn_error(it.qn));
        return why;
    }
    return NULL;
}

static double value_quern(int64_t i) {
    if (it.trains) {
        while (i >= it.losses && i < LOSSES)
            if (!call_quern()) return (double)NAN;
        return i < LOSSES ? (double)it.loss[i] : (double)NAN;
    }
    if (!it.host) {
        qn_dtype type = qn_dtype_of(it.out[0]);
        size_t each = type == QN_I64 ? 8 : 4, all = (size_t)qn_numel(it.out[0]) * each;
        char *host = malloc(all);
        it.host = malloc((size_t)it.size * sizeof *it.host);
        bool ok = host && it.host && !qn_read(it.out[0], host, all);
        for (int64_t j = 0; ok && j < it.size; j++) {
            int64_t wide = 0;
            int32_t narrow = 0;
            memcpy(type == QN_I64 ? (void *)&wide : (void *)&narrow, host + (size_t)j * each, each);
            if (type == QN_F32)
                memcpy(&it.host[j], host + (size_t)j * each, each);
            else
                it.host[j] = (float)(type == QN_I64 ? wide : narrow);
        }
        free(host);
        if (!ok) return (double)NAN;
    }
    return (double)it.host[i];
}

/* Says how long kernels took, with QN_DEBUG=x. */
static void close_quern(void) {
    forget();
    qn_close(it.qn);
}

const vs_player vs_quern = {"quern", open_quern, load_quern, call_quern, value_quern, close_quern};
