/* reduce.c - reductions, running sums, softmax and losses. */
#include "onnx/onnx.h"

#include <math.h>

/* ---- reductions ------------------------------------------------------------------------------ */

/* The axes of a reduction, from an attribute or, later, input 1; false: none is to be reduced. */
static bool reduced_axes(onnx_op *o, int rank, int *axes, int *n) {
    const int64_t *list = attr_ints(o, "axes", n);
    if (!list && o->n_in > 1) list = op_ints(o, 1, n);
    if (!list) *n = 0;
    if (*n == 0 && attr_int(o, "noop_with_empty_axes", 0)) return false;
    if (*n > QN_MAX_RANK) op_fail(o, QN_ERANGE, "%d axes", *n);
    for (int i = 0; i < *n; i++) axes[i] = op_axis(o, list[i], rank);
    if (*n) return true;
    for (*n = 0; *n < rank; (*n)++) axes[*n] = *n;
    return true;
}

enum { SUM, MEAN, PROD, MAX, MIN, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE };

static qn_tensor *lowest(qn_tensor *x, bool max) {
    qn_dtype d = qn_dtype_of(x);
    if (d == QN_BOOL) return qn_full_like(x, max ? 0 : 1);
    if (dtype_is_float((int)d)) return qn_full_like(x, max ? -INFINITY : INFINITY);
    int bits = (int)qn_dtype_size(d) * 8;
    if (dtype_is_unsigned((int)d)) return max ? qn_zeros_like(x) : qn_not(qn_zeros_like(x));
    qn_tensor *one = qn_ones_like(x), *top = qn_shl(one, qn_full_like(x, bits - 1));
    return max ? top : qn_not(top);
}

/* Of no elements the greatest is the least there is: one is put there. */
static qn_tensor *extreme(onnx_op *o, qn_tensor *x, int n, const int *axes, bool keep) {
    bool max = o->row->variant == MAX, none = false;
    int rank;
    int64_t *dims = op_shape_of(o, x, &rank);
    for (int i = 0; i < n; i++) {
        if (dims[axes[i]] != 0) continue;
        none = true;
        dims[axes[i]] = 1;
    }
    if (none) x = lowest(qn_zeros(o->qn, qn_dtype_of(x), rank, dims), max);
    return max ? qn_max_axes(x, n, axes, keep) : qn_min_axes(x, n, axes, keep);
}

static qn_tensor *reduce(onnx_op *o, qn_tensor *x, int n, const int *axes, bool keep) {
    switch (o->row->variant) {
    case SUM:
        return qn_sum_axes(x, n, axes, keep);
    case MEAN:
        return qn_mean_axes(x, n, axes, keep);
    case PROD:
        return qn_prod_axes(x, n, axes, keep);
    case MAX:
    case MIN:
        return extreme(o, x, n, axes, keep);
    case L1:
        return qn_sum_axes(qn_abs(x), n, axes, keep);
    case L2:
        return qn_sqrt(qn_sum_axes(qn_square(x), n, axes, keep));
    case LOG_SUM:
        return qn_log(qn_sum_axes(x, n, axes, keep));
    case LOG_SUM_EXP:
        return qn_logsumexp_axes(x, n, axes, keep);
    default:
        return qn_sum_axes(qn_square(x), n, axes, keep);
    }
}

void op_reduce(onnx_op *o) {
    qn_tensor *x = op_in(o, 0);
    int axes[QN_MAX_RANK], n, rank = op_rank(o, 0);
    bool keep = attr_int(o, "keepdims", 1) != 0;
    if (!reduced_axes(o, rank, axes, &n)) {
        n = 0;
        keep = true;
    }
    o->out[0] = reduce(o, x, n, axes, keep);
}

void op_arg_extreme(onnx_op *o) {
    qn_tensor *x = op_in(o, 0);
    int rank, axis = op_axis(o, attr_int(o, "axis", 0), op_rank(o, 0));
    const int64_t *dims = op_shape(o, 0, &rank);
    bool keep = attr_int(o, "keepdims", 1) != 0, last = attr_int(o, "select_last_index", 0) != 0;
    if (last) x = qn_flip(x, axis);
    qn_tensor *i = (o->row->variant == MAX ? qn_argmax : qn_argmin)(x, axis, keep);
    o->out[0] = last ? qn_sub(qn_scalar_int(o->qn, QN_I64, dims[axis] - 1), i) : i;
}

void op_scan_along(onnx_op *o) {
    bool prod = o->row->variant == PROD;
    int rank, axis = op_axis(o, op_int(o, 1, 0), op_rank(o, 0));
    const int64_t *dims = op_shape(o, 0, &rank);
    bool exclusive = attr_int(o, "exclusive", 0) != 0, reverse = attr_int(o, "reverse", 0) != 0;
    qn_tensor *x = op_in(o, 0);
    if (reverse) x = qn_flip(x, axis);
    if (exclusive && dims[axis] > 0) {
        int64_t pads[2 * QN_MAX_RANK] = {0};
        pads[2 * axis] = 1;
        pads[2 * axis + 1] = -1;
        x = qn_pad(x, pads, QN_PAD_CONSTANT, prod ? 1 : 0);
    }
    x = prod ? qn_cumprod(x, axis) : qn_cumsum(x, axis);
    o->out[0] = reverse ? qn_flip(x, axis) : x;
}

/* ---- softmax --------------------------------------------------------------------------------- */

enum { SOFTMAX, LOG_SOFTMAX, HARDMAX };

static qn_tensor *softmax(onnx_op *o, qn_tensor *x, int axis) {
    if (o->row->variant == SOFTMAX) return qn_softmax(x, axis);
    if (o->row->variant == LOG_SOFTMAX) return qn_log_softmax(x, axis);
    int rank;
    const int64_t *dims = op_shape_of(o, x, &rank);
    qn_tensor *at = qn_iota(o->qn, QN_I64, rank, dims, axis);
    return qn_cast(qn_eq(at, qn_argmax(x, axis, true)), qn_dtype_of(x));
}

/* Before opset 13 the axes from `axis` on are one. */
void op_softmax(onnx_op *o) {
    qn_tensor *x = op_in(o, 0);
    int rank = op_rank(o, 0), axis;
    const int64_t *dims = op_shape(o, 0, &rank);
    if (o->version >= 13 || rank == 0) {
        o->out[0] = softmax(o, x, op_axis(o, attr_int(o, "axis", -1), rank));
        return;
    }
    axis = op_axis(o, attr_int(o, "axis", 1), rank);
    int64_t flat[2] = {1, 1};
    for (int i = 0; i < rank; i++) flat[i >= axis] = sat_mul(flat[i >= axis], dims[i]);
    o->out[0] = qn_reshape(softmax(o, qn_reshape(x, 2, flat), 1), rank, dims);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* -weight[label] * log_p[.., label, ..] by element, its sum, or the mean by the weights: log_p
 * [N, C, ..], labels [N, ..]. */
static qn_tensor *nll(onnx_op *o, qn_tensor *log_p, int labels_in, int weight_in) {
    qn_tensor *labels = qn_cast(op_in(o, labels_in), QN_I64), *weight = op_in(o, weight_in);
    const char *kind = attr_text(o, "reduction", "mean");
    const onnx_attr *ignore = op_attr(o, "ignore_index");
    qn_tensor *counts = NULL;
    if (ignore) {
        counts = qn_ne(labels, qn_scalar_int(o->qn, QN_I64, ignore->i));
        labels = qn_where(counts, labels, qn_zeros_like(labels));
    }
    qn_tensor *loss = qn_neg(qn_gather(log_p, qn_unsqueeze(labels, 1), 1));
    loss = qn_squeeze(loss, 1);
    qn_tensor *each = weight ? qn_take(weight, labels, 0) : qn_ones_like(loss);
    if (counts) each = qn_where(counts, each, qn_zeros_like(each));
    loss = qn_where(qn_eq(each, qn_like(each, 0)), qn_zeros_like(loss), qn_mul(loss, each));
    if (!strcmp(kind, "none")) return loss;
    qn_tensor *sum = qn_sum(loss, QN_ALL, false);
    return !strcmp(kind, "sum") ? sum : qn_div(sum, qn_sum(each, QN_ALL, false));
}

void op_nll_loss(onnx_op *o) {
    o->out[0] = nll(o, op_in(o, 0), 1, 2);
}

void op_cross_entropy(onnx_op *o) {
    qn_tensor *log_p = qn_log_softmax(op_in(o, 0), 1);
    o->out[0] = nll(o, log_p, 1, 2);
    if (op_wants(o, 1)) {
        o->out[1] = log_p;
        o->type[1] = op_type(o, 0);
    }
}

/* ---- training -------------------------------------------------------------------------------- */

enum { MOMENTUM, ADAGRAD, ADAM };

typedef struct step {
    qn_tensor *rate, *count, *x, *gradient, *first, *second;
    double norm;
} step;

static qn_tensor *times(qn_tensor *x, double v) {
    return qn_mul(x, qn_weak(x, v));
}

static void momentum_step(onnx_op *o, const step *s, int k, int n) {
    double alpha = attr_float(o, "alpha", 0), beta = attr_float(o, "beta", 0);
    qn_tensor *zero = qn_eq(s->count, qn_like(s->count, 0));
    qn_tensor *by = qn_where(zero, qn_weak(s->x, 1), qn_weak(s->x, beta));
    qn_tensor *v = qn_add(times(s->first, alpha), qn_mul(s->gradient, by));
    bool nesterov = !strcmp(attr_text(o, "mode", ""), "nesterov");
    qn_tensor *down = nesterov ? qn_add(s->gradient, times(v, alpha)) : v;
    o->out[k] = qn_sub(s->x, qn_mul(s->rate, down));
    o->out[n + k] = v;
}

static void adagrad_step(onnx_op *o, const step *s, int k, int n) {
    double decay = attr_float(o, "decay_factor", 0), epsilon = attr_float(o, "epsilon", 1e-6);
    qn_tensor *count = qn_cast(s->count, qn_dtype_of(s->x));
    qn_tensor *rate = qn_div(s->rate, qn_add(times(count, decay), qn_weak(s->x, 1)));
    qn_tensor *h = qn_add(s->first, qn_square(s->gradient));
    qn_tensor *root = qn_add(qn_sqrt(h), qn_weak(h, epsilon));
    o->out[k] = qn_sub(s->x, qn_div(qn_mul(rate, s->gradient), root));
    o->out[n + k] = h;
}

static void adam_step(onnx_op *o, const step *s, int k, int n) {
    double alpha = attr_float(o, "alpha", 0.9), beta = attr_float(o, "beta", 0.999);
    double epsilon = attr_float(o, "epsilon", 1e-6),
           after = attr_float(o, "norm_coefficient_post", 0);
    qn_tensor *v = qn_add(times(s->first, alpha), times(s->gradient, 1 - alpha));
    qn_tensor *h = qn_add(times(s->second, beta), times(qn_square(s->gradient), 1 - beta));
    qn_tensor *t = qn_cast(s->count, qn_dtype_of(s->x)), *one = qn_weak(s->x, 1);
    qn_tensor *grown = qn_sqrt(qn_sub(one, qn_pow(qn_weak(s->x, beta), t)));
    grown = qn_div(qn_mul(s->rate, grown), qn_sub(one, qn_pow(qn_weak(s->x, alpha), t)));
    qn_tensor *rate = qn_where(qn_gt(t, qn_weak(t, 0)), grown, s->rate);
    qn_tensor *x = qn_sub(s->x, qn_div(qn_mul(rate, v), qn_add(qn_sqrt(h), qn_weak(h, epsilon))));
    o->out[k] = times(x, 1 - after);
    o->out[n + k] = v;
    o->out[2 * n + k] = h;
}

/* Inputs: rate, count, n tensors, their n gradients, and one or two states for each. */
void op_optimizer(onnx_op *o) {
    int lists = o->row->variant == ADAM ? 4 : 3, n = (o->n_in - 2) / lists;
    if (n < 1 || o->n_in != 2 + lists * n || o->n_out != (lists - 1) * n)
        op_fail(o, QN_EARG, "%d inputs and %d outputs", o->n_in, o->n_out);
    for (int k = 0; k < n; k++) {
        step s = {.rate = op_in(o, 0), .count = op_in(o, 1), .x = op_in(o, 2 + k)};
        s.gradient = qn_add(op_in(o, 2 + n + k), times(s.x, attr_float(o, "norm_coefficient", 0)));
        s.first = op_in(o, 2 + 2 * n + k);
        s.second = lists > 3 ? op_in(o, 2 + 3 * n + k) : NULL;
        for (int l = 0; l < lists - 1; l++) o->type[l * n + k] = op_type(o, 2 + k);
        if (o->row->variant == MOMENTUM) momentum_step(o, &s, k, n);
        if (o->row->variant == ADAGRAD) adagrad_step(o, &s, k, n);
        if (o->row->variant == ADAM) adam_step(o, &s, k, n);
    }
}
