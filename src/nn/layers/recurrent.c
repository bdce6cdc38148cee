/* recurrent.c - RNN, LSTM and GRU, and a step of each.
 *
 * What a step takes of its input is one product over all steps, before the loop; the loop is
 * recorded once, whatever the number of steps, and has the product by the state. Gates and names
 * are PyTorch's: of LSTM input, forget, cell and output, of GRU reset, update and new, stacked in
 * weights "weight_ih_l0", "weight_hh_l0" and so on, by layers, the second direction "_reverse". */
#include "nn/layers/layers.h"

#include <math.h>
#include <stdio.h>

enum { RNN, LSTM, GRU };
static const int gates[] = {1, 4, 3}, states[] = {1, 2, 1};

/* What a step needs beside the state. */
typedef struct cell {
    int kind;
    int64_t hidden;
    bool relu;
    qn_tensor *input, *weight, *input_bias, *bias, *project; /* the last three may be NULL */
} cell;

/* ---- parameters ----------------------------------------------------------------------------- */

static int kind_of(const layer_row *row) {
    return row->name[0] == 'R' ? RNN : row->name[0] == 'L' ? LSTM : GRU;
}

/* Those of a cell: `end` is what their names end with. */
static void cell_parameters(making *b, const char *end, int64_t in) {
    const qn_layer_options *o = b->o;
    int64_t rows = gates[kind_of(b->row)] * o->hidden, out = o->project ? o->project : o->hidden;
    double within = 1 / sqrt((double)o->hidden);
    char name[48];
    snprintf(name, sizeof name, "weight_ih%s", end);
    layer_parameter(b, name, 2, (int64_t[]){rows, in}, QN_INIT_UNIFORM, within);
    snprintf(name, sizeof name, "weight_hh%s", end);
    layer_parameter(b, name, 2, (int64_t[]){rows, out}, QN_INIT_UNIFORM, within);
    if (!o->no_bias) {
        snprintf(name, sizeof name, "bias_ih%s", end);
        layer_parameter(b, name, 1, &rows, QN_INIT_UNIFORM, within);
        snprintf(name, sizeof name, "bias_hh%s", end);
        layer_parameter(b, name, 1, &rows, QN_INIT_UNIFORM, within);
    }
    if (!o->project) return;
    snprintf(name, sizeof name, "weight_hr%s", end);
    layer_parameter(b, name, 2, (int64_t[]){out, o->hidden}, QN_INIT_UNIFORM, within);
}

/* Sizes that a product with the number of gates does not overflow. */
static bool hidden_fine(making *b) {
    int64_t hidden = b->o->hidden, project = b->o->project;
    b->fine =
        hidden > 0 && hidden < INT32_MAX && project >= 0 && project < (hidden > 1 ? hidden : 2);
    if (!b->fine)
        fail(b->qn, QN_ERANGE, "%s: %lld hidden features, projected to %lld", b->call,
             (long long)hidden, (long long)project);
    return b->fine;
}

static bool layers_fine(qn_ctx *qn, const char *who, int64_t layers) {
    if (layers >= 1 && layers <= LAYER_TENSORS / 2) return true;
    fail(qn, QN_ERANGE, "%s: %lld layers, not 1 to %d", who, (long long)layers, LAYER_TENSORS / 2);
    return false;
}

void recurrent_tensors(making *b) {
    const qn_layer_options *o = b->o;
    int64_t out = o->project ? o->project : o->hidden;
    char end[32];
    b->fine = hidden_fine(b) && layers_fine(b->qn, b->call, o->layers);
    if (!b->fine) return;
    for (int64_t l = 0; l < o->layers && b->fine; l++)
        for (int d = 0; d <= o->bidirectional; d++) {
            snprintf(end, sizeof end, "_l%lld%s", (long long)l, d ? "_reverse" : "");
            cell_parameters(b, end, !l ? o->in : o->bidirectional ? 2 * out : out);
        }
}

void cell_tensors(making *b) {
    if (hidden_fine(b)) cell_parameters(b, "", b->o->in);
}

static cell cell_next(calling *c) {
    const qn_layer_options *o = c->o;
    cell k = {.kind = kind_of(c->row), .hidden = o->hidden};
    k.relu = k.kind == RNN && o->variant;
    k.input = layer_next(c), k.weight = layer_next(c);
    if (!o->no_bias) k.input_bias = layer_next(c), k.bias = layer_next(c);
    if (o->project) k.project = layer_next(c);
    return k;
}

/* ---- a step --------------------------------------------------------------------------------- */

static qn_tensor *gate(const cell *k, qn_tensor *x, int i) {
    return qn_slice(x, -1, i * k->hidden, (i + 1) * k->hidden, 1);
}

static void step_lstm(const cell *k, qn_tensor *sum, qn_tensor *const *state, qn_tensor **next) {
    qn_tensor *in = qn_sigmoid(gate(k, sum, 0)), *forget = qn_sigmoid(gate(k, sum, 1));
    qn_tensor *new = qn_tanh(gate(k, sum, 2)), *out = qn_sigmoid(gate(k, sum, 3));
    next[1] = qn_add(qn_mul(forget, state[1]), qn_mul(in, new));
    next[0] = qn_mul(out, qn_tanh(next[1]));
    if (k->project) next[0] = qn_linear(next[0], k->project, NULL);
}

static void step_gru(const cell *k, qn_tensor *of_x, qn_tensor *of_h, qn_tensor *h,
                     qn_tensor **next) {
    qn_tensor *reset = qn_sigmoid(qn_add(gate(k, of_x, 0), gate(k, of_h, 0)));
    qn_tensor *update = qn_sigmoid(qn_add(gate(k, of_x, 1), gate(k, of_h, 1)));
    qn_tensor *new = qn_tanh(qn_add(gate(k, of_x, 2), qn_mul(reset, gate(k, of_h, 2))));
    next[0] = qn_lerp(new, h, update);
}

/* of_x: what the input gives to the gates. The states are rounded once in each step. */
static void step(const cell *k, qn_tensor *of_x, qn_tensor *const *state, qn_tensor **next) {
    int n = states[k->kind];
    qn_tensor *v[] = {state[0], n > 1 ? state[1] : NULL, of_x,
                      qn_linear(state[0], k->weight, k->bias)};
    qn_dtype dtype = layer_widen(4, v);
    qn_tensor *sum = k->kind == GRU ? NULL : qn_add(v[2], v[3]);
    if (k->kind == GRU) step_gru(k, v[2], v[3], v[0], next);
    if (k->kind == LSTM) step_lstm(k, sum, v, next);
    if (k->kind == RNN) next[0] = k->relu ? qn_relu(sum) : qn_tanh(sum);
    for (int i = 0; i < n; i++) next[i] = qn_cast(next[i], dtype);
}

static qn_tensor *zeros(calling *c, qn_tensor *x, int64_t rows, int64_t width) {
    return qn_full(c->qn, qn_dtype_of(x), 2, (int64_t[]){rows, width}, 0);
}

void apply_cell(calling *c) {
    cell k = cell_next(c);
    qn_tensor *x = c->in[0], *state[2] = {c->in[1], c->in[2]};
    if (!layer_rank(c, x, "the input", 1, 2)) return;
    bool batched = qn_rank(x) == 2;
    if (!batched) x = qn_unsqueeze(x, 0);
    for (int i = 0; i < states[k.kind]; i++) {
        if (!state[i])
            state[i] = zeros(c, x, qn_dim(x, 0), k.hidden);
        else if (!batched)
            state[i] = qn_unsqueeze(state[i], 0);
    }
    step(&k, qn_linear(x, k.input, k.input_bias), state, c->out);
    for (int i = 0; i < states[k.kind] && !batched; i++) c->out[i] = qn_squeeze(c->out[i], 0);
}

/* ---- all steps ------------------------------------------------------------------------------ */

/* x [T, N, in] through one cell: all states h, and in place of `state` the last ones. */
static qn_tensor *pass(calling *c, const cell *k, qn_tensor *x, bool reverse, qn_tensor **state) {
    int n = states[k->kind];
    qn_tensor *of_x = qn_linear(x, k->input, k->input_bias), *all = NULL, *inside[2], *next[2];
    qn_loop *l = qn_loop_begin(c->qn, n, state, 1, &of_x, &QN_LOOP_OPTIONS(.reverse = reverse));
    if (!l) return NULL;
    for (int i = 0; i < n; i++) inside[i] = qn_loop_state(l, i);
    step(k, qn_loop_slice(l, 0), inside, next);
    if (!qn_loop_end(l, n, next, 1, next)) {
        for (int i = 0; i < n; i++) state[i] = qn_loop_final(l, i);
        all = qn_loop_output(l, 0);
    }
    qn_loop_free(l);
    return all;
}

/* First states as they are given, [layers * directions, N, width], or zeros. */
static void first_states(calling *c, const cell *k, qn_tensor *x, int at, qn_tensor **state) {
    int64_t out = c->o->project ? c->o->project : k->hidden;
    for (int i = 0; i < states[k->kind]; i++) {
        qn_tensor *given = c->in[1 + i];
        state[i] = given ? qn_select(given, 0, at) : zeros(c, x, qn_dim(x, 1), i ? k->hidden : out);
    }
}

/* All layers of x [T, N, in]; the last states of each into `last`. */
static qn_tensor *layers_of(calling *c, qn_tensor *x, qn_tensor *last[2][LAYER_TENSORS]) {
    int ways = 1 + c->o->bidirectional, at = 0;
    for (int64_t l = 0; l < c->o->layers && x; l++) {
        qn_tensor *ends[2] = {NULL}, *state[2];
        if (l) x = layer_drop(c, x, c->o->p);
        for (int d = 0; d < ways; d++, at++) {
            cell k = cell_next(c);
            first_states(c, &k, x, at, state);
            ends[d] = pass(c, &k, x, d > 0, state);
            for (int i = 0; i < states[k.kind]; i++) last[i][at] = state[i];
        }
        x = ways == 1 ? ends[0] : qn_concat(2, ends, -1);
    }
    return x;
}

/* Inputs without a batch get one of 1, states too. */
static void put_batch(calling *c) {
    for (int i = 0; i < 3; i++)
        if (c->in[i]) c->in[i] = qn_unsqueeze(c->in[i], 1);
}

/* Have the first states of x [T, N, in] a row for each layer and direction, and one for each of N?
 * A size that is not known yet is taken as it is. */
static bool states_fit(calling *c, qn_tensor *x, int n, int all) {
    static const char *const what[] = {"layers and directions", "examples"};
    for (int i = 1; i <= n; i++) {
        qn_tensor *given = c->in[i];
        if (!given) continue;
        if (!layer_rank(c, given, "a first state", 3, 3)) return false;
        for (int k = 0; k < 2; k++) {
            int64_t has = qn_dim(given, k), wanted = k ? qn_dim(x, 1) : all;
            if (has == wanted || has < 0 || wanted < 0) continue;
            fail(c->qn, QN_ESHAPE, "%s: a first state of %lld %s, not %lld", c->row->name,
                 (long long)has, what[k], (long long)wanted);
            return false;
        }
    }
    return true;
}

void apply_recurrent(calling *c) {
    qn_tensor *x = c->in[0], *last[2][LAYER_TENSORS];
    if (!layers_fine(c->qn, c->row->name, c->o->layers)) return;
    int n = states[kind_of(c->row)], all = (int)c->o->layers * (1 + c->o->bidirectional);
    if (!layer_rank(c, x, "the input", 2, 3)) return;
    if (c->n < 2 * all) { /* each cell has two weights at least */
        fail(c->qn, QN_EARG, "%s: %d tensors are too few for %d layers", c->row->name, c->n, all);
        return;
    }
    bool batched = qn_rank(x) == 3, turned = batched && c->o->batch_first;
    if (!batched) put_batch(c);
    x = turned ? qn_transpose(c->in[0], 0, 1) : c->in[0];
    if (!x || !states_fit(c, x, n, all)) return;
    x = layers_of(c, x, last);
    if (!x) return;
    c->out[0] = turned ? qn_transpose(x, 0, 1) : x;
    for (int i = 0; i < n; i++) c->out[1 + i] = qn_stack(all, last[i], 0);
    for (int i = 0; i <= n && !batched; i++) c->out[i] = qn_squeeze(c->out[i], 1);
}
