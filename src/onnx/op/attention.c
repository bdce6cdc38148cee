/* attention.c - attention, rotary positions, linear attention. */
#include "onnx/onnx.h"

#include <math.h>

/* [B, T, heads * D] as [B, heads, T, D]; four axes stay. */
static qn_tensor *split_heads(onnx_op *o, qn_tensor *x, int64_t heads) {
    int rank;
    const int64_t *d = op_shape_of(o, x, &rank);
    if (rank == 4) return x;
    if (rank != 3 || heads < 1 || d[2] % heads)
        op_fail(o, QN_ESHAPE, "%lld heads of a tensor of %d axes", (long long)heads, rank);
    x = qn_reshape(x, 4, (int64_t[]){d[0], d[1], heads, d[2] / heads});
    return qn_transpose(x, 1, 2);
}

static qn_tensor *join_heads(qn_tensor *x) {
    return qn_flatten(qn_transpose(x, 1, 2), 2, 3);
}

static qn_tensor *repeat_heads(qn_tensor *x, int64_t times) {
    return times > 1 ? qn_repeat_interleave(x, 1, times) : x;
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct attending {
    qn_tensor *q, *k, *v, *bias, *ahead; /* ahead: keys before query 0, [B, 1, 1, 1] or a scalar */
    int64_t queries, keys, batch;
} attending;

static void add_bias(attending *a, qn_tensor *allowed) {
    qn_tensor *zero = qn_weak(a->q, 0), *bias = qn_where(allowed, zero, qn_weak(a->q, -INFINITY));
    a->bias = a->bias ? qn_add(a->bias, bias) : bias;
}

/* The mask as what is added to scores; keys behind its end are not seen. */
static void add_mask(onnx_op *o, attending *a) {
    int rank;
    qn_tensor *mask = op_in(o, 3);
    if (!mask) return;
    const int64_t *dims = op_shape(o, 3, &rank);
    int64_t pads[2 * QN_MAX_RANK] = {0}, more = rank ? a->keys - dims[rank - 1] : 0;
    bool truth = op_type(o, 3) == ONNX_BOOL;
    if (more > 0) {
        pads[2 * rank - 1] = more;
        mask = qn_pad(mask, pads, QN_PAD_CONSTANT, truth ? 0 : -INFINITY);
    }
    if (truth)
        add_bias(a, mask);
    else
        a->bias = mask;
}

/* Which keys a query sees by place: those up to it, and in a window around it. */
static void add_places(onnx_op *o, attending *a) {
    bool causal = attr_int(o, "is_causal", 0) != 0;
    int64_t left = attr_int(o, "left_window_size", -1),
            right = attr_int(o, "right_window_size", -1);
    int64_t shape[2] = {a->queries, a->keys};
    if (!causal && left < 0 && right < 0) return;
    qn_tensor *i = qn_add(qn_iota(o->qn, QN_I64, 2, shape, 0), a->ahead);
    qn_tensor *d = qn_sub(i, qn_iota(o->qn, QN_I64, 2, shape, 1));
    if (causal) add_bias(a, qn_ge(d, qn_scalar_int(o->qn, QN_I64, 0)));
    if (left >= 0) add_bias(a, qn_le(d, qn_scalar_int(o->qn, QN_I64, left)));
    if (right >= 0) add_bias(a, qn_ge(d, qn_scalar_int(o->qn, QN_I64, -right)));
}

static void add_lengths(onnx_op *o, attending *a) {
    if (!op_has(o, 6)) return;
    qn_tensor *n = qn_reshape(qn_cast(op_in(o, 6), QN_I64), 4, (int64_t[]){-1, 1, 1, 1});
    add_bias(a, qn_lt(qn_iota(o->qn, QN_I64, 1, &a->keys, 0), n));
}

static void read_inputs(onnx_op *o, attending *a) {
    int rank;
    a->q = split_heads(o, op_in(o, 0), attr_int(o, "q_num_heads", 0));
    a->k = split_heads(o, op_in(o, 1), attr_int(o, "kv_num_heads", 0));
    a->v = split_heads(o, op_in(o, 2), attr_int(o, "kv_num_heads", 0));
    int64_t past = 0;
    if (op_has(o, 4) && op_has(o, 5)) {
        past = op_shape(o, 4, &rank)[2];
        a->k = qn_concat(2, (qn_tensor *[]){op_in(o, 4), a->k}, 2);
        a->v = qn_concat(2, (qn_tensor *[]){op_in(o, 5), a->v}, 2);
    }
    if (op_wants(o, 1)) o->out[1] = a->k;
    if (op_wants(o, 2)) o->out[2] = a->v;
    for (int k = 1; k < o->n_out && k < 3; k++) o->type[k] = op_type(o, k);
    const int64_t *q = op_shape_of(o, a->q, &rank), *k = op_shape_of(o, a->k, &rank);
    a->batch = q[0];
    a->queries = q[2];
    a->keys = k[2];
    if (k[1] < 1 || q[1] % k[1])
        op_fail(o, QN_ESHAPE, "%lld heads over %lld", (long long)q[1], (long long)k[1]);
    a->k = repeat_heads(a->k, q[1] / k[1]);
    a->v = repeat_heads(a->v, q[1] / k[1]);
    a->ahead = qn_scalar_int(o->qn, QN_I64, past);
    if (op_has(o, 6) && !op_has(o, 4)) {
        qn_tensor *n = qn_reshape(qn_cast(op_in(o, 6), QN_I64), 4, (int64_t[]){-1, 1, 1, 1});
        a->ahead = qn_sub(n, qn_scalar_int(o->qn, QN_I64, a->queries));
    }
}

static qn_tensor *scaled(qn_tensor *x, double scale) {
    return qn_mul(x, qn_weak(x, scale));
}

/* Of rows in which no key is seen the weights are 0. */
static qn_tensor *weights(onnx_op *o, const attending *a, qn_tensor *scores) {
    int precision = (int)attr_int(o, "softmax_precision", 0);
    const onnx_type *t = onnx_type_of(precision);
    if (t) scores = qn_cast(scores, t->carrier);
    qn_tensor *p = qn_softmax(scores, -1);
    if (!a->bias) return p;
    qn_tensor *most = qn_max(a->bias, -1, true);
    qn_tensor *unseen = qn_eq(most, qn_weak(most, -INFINITY));
    return qn_where(unseen, qn_zeros_like(p), p);
}

void op_attention(onnx_op *o) {
    attending a = {.q = NULL};
    int rank, mode = (int)attr_int(o, "qk_matmul_output_mode", 0);
    read_inputs(o, &a);
    add_mask(o, &a);
    add_places(o, &a);
    add_lengths(o, &a);
    double scale = attr_float(o, "scale", 0), cap = attr_float(o, "softcap", 0);
    if (!op_attr(o, "scale")) scale = 1 / sqrt((double)op_shape_of(o, a.q, &rank)[3]);
    scale = sqrt(scale);
    qn_tensor *raw = qn_matmul(scaled(a.q, scale), qn_transpose(scaled(a.k, scale), 2, 3));
    qn_tensor *capped = cap > 0 ? scaled(qn_tanh(scaled(raw, 1 / cap)), cap) : raw;
    qn_tensor *scores = a.bias ? qn_add(capped, a.bias) : capped;
    qn_tensor *p = qn_cast(weights(o, &a, scores), a.q ? qn_dtype_of(a.q) : QN_F32);
    qn_tensor *y = qn_matmul(p, a.v);
    o->out[0] = op_rank(o, 0) == 3 ? join_heads(y) : y;
    o->type[0] = op_type(o, 0);
    if (!op_wants(o, 3)) return;
    qn_tensor *seen[4] = {op_attr(o, "softcap") && mode == 0 ? capped : raw, capped, scores, p};
    o->out[3] = seen[mode < 0 || mode > 3 ? 0 : mode];
    o->type[3] = op_type(o, 0);
}

/* A graph between the products: of one input and one output. */
static qn_tensor *modified(onnx_op *o, const char *name, qn_tensor *x) {
    const onnx_attr *at = op_attr(o, name);
    if (!at || !at->graph) return x;
    if (at->graph->n_in != 1 || at->graph->n_out != 1)
        op_fail(o, QN_EARG, "%s of %u inputs", name, at->graph->n_in);
    if (!x) return NULL;
    onnx_value *in = value_new(o->run, "", x, onnx_type_like(qn_dtype_of(x)), false), *out;
    run_graph(o->run, o->frame, at->graph, 1, &in, &out);
    return value_main(o->run, out);
}

void op_flex_attention(onnx_op *o) {
    int rank;
    qn_tensor *q = op_in(o, 0), *k = op_in(o, 1), *v = op_in(o, 2);
    const int64_t *dq = op_shape(o, 0, &rank), *dk = op_shape(o, 1, &rank);
    if (rank != 4 || dk[1] < 1 || dq[1] % dk[1]) op_fail(o, QN_ESHAPE, "%d axes", rank);
    k = repeat_heads(k, dq[1] / dk[1]);
    v = repeat_heads(v, dq[1] / dk[1]);
    double scale = op_attr(o, "scale") ? attr_float(o, "scale", 1) : 1 / sqrt((double)dq[3]);
    const onnx_type *t = onnx_type_of((int)attr_int(o, "softmax_precision", 0));
    qn_dtype d = t ? t->carrier : qn_dtype_of(q) == QN_F64 ? QN_F64 : QN_F32;
    scale = sqrt(scale);
    qn_tensor *s = qn_cast(qn_matmul(scaled(q, scale), qn_transpose(scaled(k, scale), 2, 3)), d);
    s = qn_softmax(modified(o, "score_mod", s), -1);
    s = modified(o, "prob_mod", s);
    qn_tensor *y = qn_cast(qn_matmul(s, qn_cast(v, d)), qn_dtype_of(op_in(o, 2)));
    o->made[0] = value_new(o->run, "", y, op_type(o, 2), false);
    if (!y) op_fail(o, qn_error_code(o->qn), "%s", qn_error(o->qn));
}

/* ---- rotary positions ------------------------------------------------------------------------ */

void op_rotary(onnx_op *o) {
    int rank, cache_rank;
    int64_t heads = attr_int(o, "num_heads", 0), part = attr_int(o, "rotary_embedding_dim", 0);
    bool pairs = attr_int(o, "interleaved", 0) != 0, flat = op_rank(o, 0) == 3;
    qn_tensor *x = split_heads(o, op_in(o, 0), heads), *c = op_in(o, 1), *s = op_in(o, 2);
    const int64_t *d = op_shape_of(o, x, &rank);
    if (part == 0) part = d[3];
    if (part < 0 || part > d[3] || part % 2)
        op_fail(o, QN_ERANGE, "%lld of %lld places", (long long)part, (long long)d[3]);
    if (op_has(o, 3)) {
        c = qn_take(c, op_in(o, 3), 0);
        s = qn_take(s, op_in(o, 3), 0);
    }
    op_shape_of(o, c, &cache_rank);
    if (cache_rank == 3) { /* [B, T, D/2] over the heads */
        c = qn_unsqueeze(c, 1);
        s = qn_unsqueeze(s, 1);
    }
    qn_tensor *turned = qn_narrow(x, 3, 0, part), *a, *b;
    a = pairs ? qn_slice(turned, 3, 0, QN_END, 2) : qn_narrow(turned, 3, 0, part / 2);
    b = pairs ? qn_slice(turned, 3, 1, QN_END, 2) : qn_narrow(turned, 3, part / 2, part / 2);
    qn_tensor *both[2] = {qn_sub(qn_mul(c, a), qn_mul(s, b)), qn_add(qn_mul(s, a), qn_mul(c, b))};
    qn_tensor *y = pairs ? qn_flatten(qn_stack(2, both, -1), 3, 4) : qn_concat(2, both, 3);
    if (part < d[3]) y = qn_concat(2, (qn_tensor *[]){y, qn_narrow(x, 3, part, d[3] - part)}, 3);
    o->out[0] = flat ? join_heads(y) : y;
}

/* ---- linear attention ------------------------------------------------------------------------ */

typedef struct recurrence {
    qn_tensor *q, *k, *v, *decay, *beta; /* [T, B, heads, D]; decay as the logarithm; or NULL */
    double scale;
    int64_t groups;
} recurrence;

static qn_tensor *times_first(onnx_op *o, int i, int64_t heads) {
    qn_tensor *x = op_in(o, i);
    return x ? qn_cast(qn_moveaxis(split_heads(o, x, heads), 1, (int[]){2}, (int[]){0}), QN_F32)
             : NULL;
}

/* S becomes exp(decay) S + k (x) v', v' being v, or beta (v - S^T k); the result is q S. */
static qn_tensor *linear_step(const recurrence *r, qn_tensor *const *x, qn_tensor **state) {
    qn_tensor *s = *state, *v = x[2], *k = qn_unsqueeze(x[1], -1);
    if (r->decay) s = qn_mul(s, qn_unsqueeze(qn_exp(x[3]), -1));
    if (r->beta) v = qn_mul(x[4], qn_sub(v, qn_squeeze(qn_matmul(qn_unsqueeze(x[1], -2), s), -2)));
    s = *state = qn_add(s, qn_mul(k, qn_unsqueeze(v, -2)));
    qn_tensor *q = qn_unsqueeze(x[0], -2);
    return scaled(qn_squeeze(qn_matmul(q, repeat_heads(s, r->groups)), -2), r->scale);
}

void op_linear_attention(onnx_op *o) {
    int rank;
    int64_t q_heads = attr_int(o, "q_num_heads", 1), heads = attr_int(o, "kv_num_heads", 1);
    const char *rule = attr_text(o, "update_rule", "gated_delta");
    bool gated = !strncmp(rule, "gated", 5), delta = strstr(rule, "delta") != NULL;
    if (heads < 1 || q_heads % heads || gated != op_has(o, 4) || delta != op_has(o, 5))
        op_fail(o, QN_EARG, "inputs do not fit update_rule \"%.40s\"", rule);
    recurrence r = {.groups = q_heads / heads};
    r.q = times_first(o, 0, q_heads);
    r.k = times_first(o, 1, heads);
    r.v = times_first(o, 2, heads);
    r.decay = gated ? times_first(o, 4, heads) : NULL;
    r.beta = delta ? times_first(o, 5, op_shape(o, 5, &rank)[2]) : NULL;
    const int64_t *k = op_shape_of(o, r.k, &rank), *v = op_shape_of(o, r.v, &rank);
    r.scale = attr_float(o, "scale", 0);
    if (r.scale == 0) r.scale = 1 / sqrt((double)k[3]);
    qn_tensor *state = op_has(o, 3)
                           ? qn_cast(op_in(o, 3), QN_F32)
                           : qn_zeros(o->qn, QN_F32, 4, (int64_t[]){k[1], heads, k[3], v[3]});
    qn_tensor *list[5] = {r.q, r.k, r.v}, *row[5] = {NULL}, *y = NULL, *last = NULL;
    int n = 3;
    if (r.decay) list[n++] = r.decay;
    if (r.beta) list[n++] = r.beta;
    qn_loop *l = qn_loop_begin(o->qn, 1, &state, n, list, NULL);
    if (!l) return;
    qn_tensor *s = qn_loop_state(l, 0);
    for (int i = 0; i < 3; i++) row[i] = qn_loop_slice(l, i);
    if (r.decay) row[3] = qn_loop_slice(l, 3);
    if (r.beta) row[4] = qn_loop_slice(l, n - 1);
    qn_tensor *out = linear_step(&r, row, &s);
    if (qn_loop_end(l, 1, &s, 1, &out) == QN_OK) {
        y = qn_loop_output(l, 0);
        last = qn_loop_final(l, 0);
    }
    qn_loop_free(l);
    o->out[0] = qn_flatten(qn_moveaxis(y, 1, (int[]){0}, (int[]){1}), 2, 3);
    if (!op_wants(o, 1)) return;
    o->out[1] = last;
    o->type[1] = op_has(o, 3) ? op_type(o, 3) : op_type(o, 0);
}
