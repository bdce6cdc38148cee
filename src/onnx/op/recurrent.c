/* recurrent.c - RNN, GRU and LSTM: the products with the input for all times at once, then a loop
 * over the times, recorded once. */
#include "onnx/onnx.h"

#include <ctype.h>

enum { RNN, GRU, LSTM };
enum { UNROLL_MOST = 8 };

typedef struct cell {
    int kind, gates;
    int64_t hidden;
    qn_tensor *r, *rb, *wb,
        *p;                /* recurrent weights transposed [H, gates H], biases, peepholes [3 H] */
    const char *f, *g, *h; /* activations */
    double alpha[3], beta[3], clip;
    bool forget, before_reset; /* input_forget; linear_before_reset */
} cell;

/* Names are compared without regard to case. */
static bool is_called(const char *a, const char *b) {
    for (; *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); a++) b++;
    return !*a && !*b;
}

static qn_tensor *activate(const cell *c, const char *name, int which, qn_tensor *x) {
    double a = c->alpha[which], b = c->beta[which];
    if (c->clip > 0) x = qn_clamp(x, -c->clip, c->clip);
    if (is_called(name, "Sigmoid")) return qn_sigmoid(x);
    if (is_called(name, "Tanh")) return qn_tanh(x);
    if (is_called(name, "Relu")) return qn_relu(x);
    if (is_called(name, "LeakyRelu")) return qn_leaky_relu(x, a);
    if (is_called(name, "ThresholdedRelu")) return qn_threshold(x, a, 0);
    if (is_called(name, "Elu")) return qn_elu(x, a);
    if (is_called(name, "Softsign")) return qn_softsign(x);
    if (is_called(name, "Softplus")) return qn_softplus(x);
    if (is_called(name, "Affine")) return qn_add(qn_mul(x, qn_weak(x, a)), qn_weak(x, b));
    if (is_called(name, "ScaledTanh"))
        return qn_mul(qn_tanh(qn_mul(x, qn_weak(x, b))), qn_weak(x, a));
    if (is_called(name, "HardSigmoid"))
        return qn_clamp(qn_add(qn_mul(x, qn_weak(x, a)), qn_weak(x, b)), 0, 1);
    return NULL;
}

static qn_tensor *gate(const cell *c, qn_tensor *x, int i) {
    return qn_narrow(x, -1, i * c->hidden, c->hidden);
}

static qn_tensor *plus(qn_tensor *x, qn_tensor *b) {
    return b ? qn_add(x, b) : x;
}

/* Gates in ONNX's order: z r h. */
static qn_tensor *gru_step(const cell *c, qn_tensor *x, qn_tensor *h) {
    qn_tensor *all = qn_matmul(h, c->r), *zero = NULL;
    qn_tensor *z = qn_add(gate(c, x, 0), gate(c, all, 0)),
              *r = qn_add(gate(c, x, 1), gate(c, all, 1));
    z = activate(c, c->f, 0, plus(z, c->rb ? gate(c, c->rb, 0) : zero));
    r = activate(c, c->f, 0, plus(r, c->rb ? gate(c, c->rb, 1) : zero));
    qn_tensor *bias = c->rb ? gate(c, c->rb, 2) : NULL, *n;
    if (c->before_reset)
        n = qn_mul(r, plus(gate(c, all, 2), bias));
    else
        n = plus(qn_matmul(qn_mul(r, h), gate(c, c->r, 2)), bias);
    n = activate(c, c->g, 1, qn_add(gate(c, x, 2), n));
    return qn_add(n, qn_mul(z, qn_sub(h, n)));
}

/* Gates in ONNX's order: i o f c. */
static qn_tensor *lstm_step(const cell *c, qn_tensor *x, qn_tensor *h, qn_tensor **memory) {
    qn_tensor *all = plus(qn_add(x, qn_matmul(h, c->r)), c->rb), *old = *memory;
    qn_tensor *in = gate(c, all, 0), *out = gate(c, all, 1), *keep = gate(c, all, 2);
    if (c->p) in = qn_add(in, qn_mul(gate(c, c->p, 0), old));
    if (c->p) keep = qn_add(keep, qn_mul(gate(c, c->p, 2), old));
    in = activate(c, c->f, 0, in);
    keep = c->forget ? qn_sub(qn_weak(in, 1), in) : activate(c, c->f, 0, keep);
    qn_tensor *new = activate(c, c->g, 1, gate(c, all, 3));
    *memory = qn_add(qn_mul(keep, old), qn_mul(in, new));
    if (c->p) out = qn_add(out, qn_mul(gate(c, c->p, 1), *memory));
    return qn_mul(activate(c, c->f, 0, out), activate(c, c->h, 2, *memory));
}

static void step(const cell *c, qn_tensor *x, qn_tensor *h[2]) {
    qn_tensor *memory = h[1];
    if (c->kind == RNN) h[0] = activate(c, c->f, 0, plus(qn_add(x, qn_matmul(h[0], c->r)), c->rb));
    if (c->kind == GRU) h[0] = gru_step(c, x, h[0]);
    if (c->kind == LSTM) h[0] = lstm_step(c, x, h[0], &memory);
    h[1] = memory;
}

typedef struct sequence {
    qn_tensor *x, *lengths; /* [T, N, gates H]; [N, 1] or NULL */
    int64_t times;
} sequence;

/* Behind its end a sequence keeps its state, and gives zeros. */
static qn_tensor *masked_step(const cell *c, const sequence *s, qn_tensor *x, qn_tensor *t,
                              qn_tensor *h[2]) {
    qn_tensor *old[2] = {h[0], h[1]};
    step(c, x, h);
    if (!s->lengths) return h[0];
    qn_tensor *on = qn_lt(t, s->lengths), *y = qn_where(on, h[0], qn_zeros_like(h[0]));
    h[0] = qn_where(on, h[0], old[0]);
    if (h[1]) h[1] = qn_where(on, h[1], old[1]);
    return y;
}

/* [T, N, H]; h becomes the last states. */
static qn_tensor *over_times(onnx_op *o, const cell *c, const sequence *s, qn_tensor *h[2]) {
    int n = c->kind == LSTM ? 2 : 1;
    if (s->times <= UNROLL_MOST) {
        qn_tensor *all[UNROLL_MOST] = {NULL};
        for (int64_t t = 0; t < s->times; t++)
            all[t] = masked_step(c, s, qn_select(s->x, 0, t), qn_scalar_int(o->qn, QN_I64, t), h);
        return qn_stack((int)s->times, all, 0);
    }
    qn_tensor *x = s->x, *y = NULL;
    qn_loop *l = qn_loop_begin(o->qn, n, h, 1, &x, NULL);
    if (!l) return NULL;
    qn_tensor *state[2] = {qn_loop_state(l, 0), n > 1 ? qn_loop_state(l, 1) : NULL};
    qn_tensor *out = masked_step(c, s, qn_loop_slice(l, 0), qn_loop_index(l), state);
    if (qn_loop_end(l, n, state, 1, &out) == QN_OK) {
        y = qn_loop_output(l, 0);
        for (int i = 0; i < n; i++) h[i] = qn_loop_final(l, i);
    }
    qn_loop_free(l);
    return y;
}

/* Each sequence's own elements in reverse, or all of them. */
static qn_tensor *reversed(onnx_op *o, qn_tensor *x, const sequence *s) {
    if (!s->lengths) return qn_flip(x, 0);
    int rank;
    const int64_t *dims = op_shape_of(o, x, &rank);
    qn_tensor *n = qn_reshape(s->lengths, 3, (int64_t[]){1, -1, 1});
    qn_tensor *t = qn_iota(o->qn, QN_I64, 3, dims, 0);
    qn_tensor *back = qn_sub(qn_sub(n, qn_scalar_int(o->qn, QN_I64, 1)), t);
    return qn_gather(x, qn_where(qn_lt(t, n), back, t), 0);
}

/* What the attributes say of direction d. */
static cell cell_of(onnx_op *o, int d) {
    static const char *const usual[3][3] = {
        {"Tanh", "Tanh", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    static const int gates[3] = {1, 3, 4}, functions[3] = {1, 2, 3};
    cell c = {.kind = o->row->variant, .gates = gates[o->row->variant]};
    int rank, per = functions[c.kind];
    const onnx_attr *alpha = op_attr(o, "activation_alpha"), *beta = op_attr(o, "activation_beta");
    const onnx_attr *names = op_attr(o, "activations");
    const char **name[3] = {&c.f, &c.g, &c.h};
    const int64_t *dims = op_shape(o, 2, &rank);
    if (rank != 3) op_fail(o, QN_ESHAPE, "recurrent weights of %d axes", rank);
    c.hidden = dims[2];
    if (c.hidden > ONNX_SIZE_MOST) op_fail(o, QN_ESHAPE, "%lld states", (long long)c.hidden);
    for (int i = 0; i < 3; i++) {
        int at = d * per + (i < per ? i : 0);
        *name[i] = names && at < (int)names->n_texts ? names->texts[at] : usual[c.kind][i];
        bool hard = is_called(*name[i], "HardSigmoid");
        c.alpha[i] = alpha && at < (int)alpha->n_floats ? (double)alpha->floats[at]
                     : hard                             ? 0.2
                     : is_called(*name[i], "LeakyRelu") ? 0.01
                                                        : 1;
        c.beta[i] = beta && at < (int)beta->n_floats ? (double)beta->floats[at] : hard ? 0.5 : 1;
    }
    c.clip = attr_float(o, "clip", 0);
    c.forget = attr_int(o, "input_forget", 0) != 0;
    c.before_reset = attr_int(o, "linear_before_reset", 0) != 0;
    c.r = qn_transpose(qn_select(op_in(o, 2), 0, d), 0, 1);
    if (op_has(o, 3)) {
        qn_tensor *b = qn_select(op_in(o, 3), 0, d);
        c.wb = qn_narrow(b, 0, 0, c.gates * c.hidden);
        c.rb = qn_narrow(b, 0, c.gates * c.hidden, c.gates * c.hidden);
    }
    if (c.kind == LSTM && op_has(o, 7)) c.p = qn_select(op_in(o, 7), 0, d);
    return c;
}

void op_recurrent(onnx_op *o) {
    int rank, both = !strcmp(attr_text(o, "direction", "forward"), "bidirectional") ? 2 : 1;
    bool back = !strcmp(attr_text(o, "direction", "forward"), "reverse");
    bool batch_first = attr_int(o, "layout", 0) != 0, lstm = o->row->variant == LSTM;
    qn_tensor *x = op_in(o, 0), *y[2] = {NULL}, *last[2] = {NULL}, *memory[2] = {NULL};
    if (op_rank(o, 0) != 3) op_fail(o, QN_ESHAPE, "an input of %d axes", op_rank(o, 0));
    if (batch_first) x = qn_transpose(x, 0, 1);
    const int64_t *dims = op_shape_of(o, x, &rank);
    sequence s = {.times = dims[0]};
    if (op_has(o, 4)) s.lengths = qn_reshape(qn_cast(op_in(o, 4), QN_I64), 2, (int64_t[]){-1, 1});
    for (int d = 0; d < both; d++) {
        cell c = cell_of(o, d);
        bool reverse = back || d;
        qn_tensor *w = qn_transpose(qn_select(op_in(o, 1), 0, d), 0, 1), *h[2] = {NULL};
        s.x = plus(qn_matmul(reverse ? reversed(o, x, &s) : x, w), c.wb);
        for (int i = 0; i < (lstm ? 2 : 1); i++) {
            h[i] = op_in(o, 5 + i);
            if (h[i] && batch_first) h[i] = qn_transpose(h[i], 0, 1);
            h[i] =
                h[i] ? qn_select(h[i], 0, d)
                     : qn_zeros(o->qn, qn_dtype_of(op_in(o, 0)), 2, (int64_t[]){dims[1], c.hidden});
        }
        y[d] = over_times(o, &c, &s, h);
        if (reverse) y[d] = reversed(o, y[d], &s);
        last[d] = h[0];
        memory[d] = h[1];
    }
    if (op_wants(o, 0)) {
        o->out[0] = qn_stack(both, y, batch_first ? 2 : 1);
        if (batch_first) o->out[0] = qn_transpose(o->out[0], 0, 1);
    }
    if (op_wants(o, 1)) o->out[1] = qn_stack(both, last, batch_first ? 1 : 0);
    if (lstm && op_wants(o, 2)) o->out[2] = qn_stack(both, memory, batch_first ? 1 : 0);
}
