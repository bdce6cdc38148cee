/* math.c - operators by element, casts, and what is made of a few of them. */
#include "onnx/onnx.h"

#include <math.h>

/* ---- helpers --------------------------------------------------------------------------------- */

static bool is_float(const qn_tensor *x) {
    return x && dtype_is_float((int)qn_dtype_of(x));
}

void op_unary(onnx_op *o) {
    o->out[0] = o->row->unary(op_in(o, 0));
}

/* Before opset 7 the second argument lay along the first one's axes from `axis` on. */
static qn_tensor *old_broadcast(onnx_op *o, qn_tensor *y) {
    const onnx_attr *axis = op_attr(o, "axis");
    int rank = op_rank(o, 0), mine = op_rank(o, 1);
    if (o->version >= 7 || !axis || !attr_int(o, "broadcast", 0)) return y;
    int at = op_axis(o, axis->i, rank);
    for (int i = at + mine; i < rank && y; i++) y = qn_unsqueeze(y, -1);
    return y;
}

void op_binary(onnx_op *o) {
    o->out[0] = o->row->binary(op_in(o, 0), old_broadcast(o, op_in(o, 1)));
}

void op_identity(onnx_op *o) {
    o->made[0] = o->value[0];
}

/* The quotient of integers is cut towards 0. */
void op_div(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *y = old_broadcast(o, op_in(o, 1));
    if (is_float(x))
        o->out[0] = qn_div(x, y);
    else
        o->out[0] = qn_floor_div(qn_sub(x, qn_rem(x, y)), y);
}

void op_mod(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *y = op_in(o, 1);
    o->out[0] = attr_int(o, "fmod", 0) ? qn_rem(x, y) : qn_mod(x, y);
}

void op_pow(onnx_op *o) {
    o->out[0] = qn_pow(op_in(o, 0), old_broadcast(o, op_in(o, 1)));
}

void op_bit_shift(onnx_op *o) {
    bool left = !strcmp(attr_text(o, "direction", ""), "LEFT");
    o->out[0] = (left ? qn_shl : qn_shr)(op_in(o, 0), op_in(o, 1));
}

/* Sum, Mean, Max, Min of any number of arguments. */
void op_variadic(onnx_op *o) {
    qn_tensor *x = op_in(o, 0);
    for (int i = 1; i < o->n_in; i++) x = o->row->binary(x, op_in(o, i));
    o->out[0] = o->row->variant ? qn_div(x, qn_weak(x, o->n_in)) : x;
}

void op_where(onnx_op *o) {
    o->out[0] = qn_where(op_in(o, 0), op_in(o, 1), op_in(o, 2));
}

void op_clip(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *lo = op_in(o, 1), *hi = op_in(o, 2);
    if (o->version < 11) {
        lo = op_attr(o, "min") ? qn_weak(x, attr_float(o, "min", 0)) : NULL;
        hi = op_attr(o, "max") ? qn_weak(x, attr_float(o, "max", 0)) : NULL;
    }
    o->out[0] = lo || hi ? qn_clip(x, lo, hi) : x;
}

void op_is_inf(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *zero = qn_weak(x, 0), *y = qn_isinf(x);
    if (!attr_int(o, "detect_negative", 1)) y = qn_logical_and(y, qn_gt(x, zero));
    if (!attr_int(o, "detect_positive", 1)) y = qn_logical_and(y, qn_lt(x, zero));
    o->out[0] = y;
}

/* ---- activations ----------------------------------------------------------------------------- */

enum { LEAKY, ELU, CELU, SELU, HARD_SIGMOID, THRESHOLDED, SHRINK, GELU, SWISH };

static qn_tensor *selu(const onnx_op *o, qn_tensor *x) {
    double alpha = attr_float(o, "alpha", o->version < 6 ? 1.6732 : 1.67326319217681884765625);
    double gamma = attr_float(o, "gamma", o->version < 6 ? 1.0507 : 1.05070102214813232421875);
    return qn_mul(qn_elu(x, alpha), qn_weak(x, gamma));
}

static qn_tensor *shrink(const onnx_op *o, qn_tensor *x) {
    double bias = attr_float(o, "bias", 0), most = attr_float(o, "lambd", 0.5);
    qn_tensor *low = qn_lt(x, qn_weak(x, -most)), *high = qn_gt(x, qn_weak(x, most));
    qn_tensor *up = qn_add(x, qn_weak(x, bias)), *down = qn_sub(x, qn_weak(x, bias));
    return qn_where(low, up, qn_where(high, down, qn_zeros_like(x)));
}

void op_activation(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *y = NULL;
    double alpha = attr_float(o, "alpha",
                              o->row->variant == LEAKY          ? 0.01
                              : o->row->variant == HARD_SIGMOID ? 0.2
                                                                : 1);
    switch (o->row->variant) {
    case LEAKY:
        y = qn_leaky_relu(x, alpha);
        break;
    case ELU:
        y = qn_elu(x, alpha);
        break;
    case CELU:
        y = qn_celu(x, alpha);
        break;
    case SELU:
        y = selu(o, x);
        break;
    case HARD_SIGMOID:
        y = qn_add(qn_mul(x, qn_weak(x, alpha)), qn_weak(x, attr_float(o, "beta", 0.5)));
        y = qn_clamp(y, 0, 1);
        break;
    case THRESHOLDED:
        y = qn_threshold(x, alpha, 0);
        break;
    case SHRINK:
        y = shrink(o, x);
        break;
    case GELU:
        y = !strcmp(attr_text(o, "approximate", ""), "tanh") ? qn_gelu_tanh(x) : qn_gelu(x);
        break;
    case SWISH:
        y = qn_mul(x, qn_sigmoid(qn_mul(x, qn_weak(x, alpha))));
        break;
    default:
        break;
    }
    o->out[0] = y;
}

void op_prelu(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *slope = op_in(o, 1);
    if (o->version < 7 && op_numel(o, 1) > 1) { /* one for each channel */
        int rank = op_rank(o, 0);
        int64_t shape[QN_MAX_RANK];
        for (int i = 0; i < rank; i++) shape[i] = i == 1 ? -1 : 1;
        slope = qn_reshape(slope, rank, shape);
    }
    o->out[0] = qn_where(qn_lt(x, qn_like(x, 0)), qn_mul(x, slope), x);
}

void op_swiglu(onnx_op *o) {
    qn_tensor *a = op_in(o, 0), *b = op_in(o, 1);
    qn_tensor *gate = qn_sigmoid(qn_mul(a, qn_weak(a, attr_float(o, "alpha", 1))));
    o->out[0] = qn_mul(qn_mul(a, gate), b);
}

/* The mask is what is kept, all of it outside of training. */
void op_dropout(onnx_op *o) {
    qn_tensor *x = op_in(o, 0);
    double ratio = o->version < 12 ? attr_float(o, "ratio", 0.5) : op_float(o, 1, 0.5);
    bool training = o->version >= 12 && op_int(o, 2, 0) != 0;
    int rank;
    const int64_t *dims = op_shape(o, 0, &rank);
    o->out[0] = x;
    qn_tensor *mask = qn_full(o->qn, QN_BOOL, rank, dims, 1);
    if (training && ratio > 0) {
        qn_tensor *key = qn_key(o->qn, (uint64_t)attr_int(o, "seed", 0));
        mask = qn_bernoulli(key, rank, dims, 1 - ratio);
        o->out[0] = qn_where(mask, qn_mul(x, qn_weak(x, ratio < 1 ? 1 / (1 - ratio) : 0)),
                             qn_zeros_like(x));
    }
    if (op_wants(o, 1)) {
        o->out[1] = mask;
        o->type[1] = o->version < 10 ? op_type(o, 0) : ONNX_BOOL;
    }
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* A float rounded to a type that Quern lacks, to nearest even, in f32: to a multiple of the unit
 * that its exponent has. What is too large is the largest number, or else no number. */
static qn_tensor *narrowed(onnx_op *o, qn_tensor *x, const onnx_type *t, bool saturate) {
    qn_tensor *part[2] = {NULL, NULL};
    bool zero_unsigned = t->bits == 8, always = t->bits < 8;
    x = qn_cast(x, qn_dtype_of(x) == QN_F64 ? QN_F64 : QN_F32);
    qn_tensor *a = qn_abs(x), *most = qn_weak(x, t->largest);
    if (qn_frexp(a, part) != QN_OK) return NULL;
    qn_tensor *e = qn_maximum(qn_sub(part[1], qn_scalar(o->qn, QN_I32, 1)),
                              qn_scalar(o->qn, QN_I32, t->least));
    qn_tensor *unit = qn_sub(e, qn_scalar(o->qn, QN_I32, t->fraction));
    qn_tensor *r = qn_ldexp(qn_round(qn_ldexp(a, qn_neg(unit))), unit);
    qn_tensor *beyond = saturate || always ? most : qn_weak(x, NAN);
    r = qn_where(qn_logical_or(qn_gt(r, most), qn_isinf(x)), beyond, r);
    r = qn_where(qn_signbit(x), qn_neg(r), r);
    if (zero_unsigned) r = qn_where(qn_eq(r, qn_weak(x, 0)), qn_zeros_like(r), r);
    if (always) return qn_where(qn_isnan(x), qn_weak(x, -0.0), r);
    return qn_where(qn_isnan(x), qn_weak(x, NAN), r);
}

/* Powers of two from 2^-127 to 2^127, and NaN. */
static qn_tensor *power_of_two(onnx_op *o, qn_tensor *x, bool saturate, const char *mode) {
    qn_tensor *part[2] = {NULL, NULL};
    x = qn_cast(x, QN_F64);
    if (qn_frexp(qn_abs(x), part) != QN_OK) return NULL;
    qn_tensor *one = qn_scalar(o->qn, QN_I32, 1), *e = qn_sub(part[1], one),
              *half = qn_weak(x, 0.5);
    if (!strcmp(mode, "up"))
        e = qn_where(qn_gt(part[0], half), qn_add(e, one), e);
    else if (!strcmp(mode, "nearest"))
        e = qn_where(qn_ge(part[0], qn_weak(x, 0.75)), qn_add(e, one), e);
    qn_tensor *above = qn_logical_or(qn_gt(e, qn_scalar(o->qn, QN_I32, 127)), qn_isinf(x));
    qn_tensor *below =
        qn_logical_or(qn_lt(e, qn_scalar(o->qn, QN_I32, -127)), qn_eq(x, qn_weak(x, 0)));
    qn_tensor *y = qn_ldexp(qn_weak(x, 1), e);
    y = qn_where(above, qn_weak(x, saturate ? 0x1p127 : NAN), y);
    y = qn_where(below, saturate ? qn_weak(x, 0x1p-127) : qn_weak(x, NAN), y);
    y = qn_where(qn_isnan(x), qn_weak(x, NAN), y);
    return qn_cast(y, QN_F32);
}

qn_tensor *op_quantized(onnx_op *o, qn_tensor *x, int to, bool saturate) {
    const onnx_type *t = onnx_type_of(to);
    if (!t) op_fail(o, QN_EDTYPE, "element type %d%s", to, to == ONNX_STRING ? ", texts" : "");
    if (to == ONNX_FLOAT8E8M0)
        return power_of_two(o, x, saturate, attr_text(o, "round_mode", "up"));
    if (t->kind == ONNX_NARROW) return qn_cast(narrowed(o, x, t, saturate), t->carrier);
    if (t->carrier == QN_F8_E4M3 || t->carrier == QN_F8_E5M2)
        return saturate ? qn_cast_saturating(x, t->carrier) : qn_cast(x, t->carrier);
    if (t->kind != ONNX_WHOLE) return qn_cast(x, t->carrier);
    /* As C does: cut to an integer, whose low bits are taken. */
    int64_t low = 8 - t->bits;
    qn_tensor *i = qn_cast(is_float(x) ? qn_cast(x, QN_I32) : x, t->carrier);
    return qn_shr(qn_shl(i, qn_scalar_int(o->qn, t->carrier, low)),
                  qn_scalar_int(o->qn, t->carrier, low));
}

qn_tensor *op_cast(onnx_op *o, qn_tensor *x, int from, int to) {
    if (from == to) return x;
    return op_quantized(o, x, to, attr_int(o, "saturate", 1) != 0);
}

void op_cast_to(onnx_op *o) {
    int to = o->row->variant ? op_type(o, 1) : (int)attr_int(o, "to", 0);
    o->out[0] = op_cast(o, op_in(o, 0), op_type(o, 0), to);
    o->type[0] = to;
}

void op_bitcast(onnx_op *o) {
    int to = (int)attr_int(o, "to", 0);
    const onnx_type *t = onnx_type_of(to), *from = onnx_type_of(op_type(o, 0));
    if (!t || !from || t->kind != ONNX_SAME || from->kind != ONNX_SAME)
        op_fail(o, QN_EDTYPE, "bits of types that Quern lacks");
    o->out[0] = qn_bitcast(op_in(o, 0), t->carrier);
    o->type[0] = to;
}

/* ---- constants ------------------------------------------------------------------------------- */

void op_constant(onnx_op *o) {
    const onnx_attr *at;
    if ((at = op_attr(o, "value")) && at->tensor) {
        o->made[0] = value_of_tensor(o->run, at->tensor);
    } else if ((at = op_attr(o, "value_float"))) {
        o->out[0] = qn_scalar(o->qn, QN_F32, (double)at->f);
    } else if ((at = op_attr(o, "value_int"))) {
        o->out[0] = qn_scalar_int(o->qn, QN_I64, at->i);
    } else if ((at = op_attr(o, "value_ints"))) {
        o->out[0] = op_from(o, QN_I64, 1, &(int64_t){at->n_ints}, at->ints);
    } else if ((at = op_attr(o, "value_floats"))) {
        o->out[0] = op_from(o, QN_F32, 1, &(int64_t){at->n_floats}, at->floats);
    } else {
        op_fail(o, QN_EDTYPE, "a constant of texts, or sparse");
    }
}

/* The one element of attribute `value`, 0 in f32 where there is none, as a tensor of rank 0. */
static qn_tensor *fill_of(onnx_op *o, int *type) {
    const onnx_attr *at = op_attr(o, "value");
    *type = at && at->tensor ? at->tensor->type : ONNX_FLOAT;
    if (!at || !at->tensor) return qn_scalar(o->qn, QN_F32, 0);
    void *data = onnx_elements(o->run->model, at->tensor, &o->run->a);
    if (onnx_numel(o->run->model, at->tensor) != 1)
        op_fail(o, QN_ESHAPE, "attribute value has not one element");
    return op_from(o, onnx_types[*type].carrier, 0, NULL, data);
}

void op_constant_of_shape(onnx_op *o) {
    int n, type;
    const int64_t *dims = op_ints(o, 0, &n);
    if (n > QN_MAX_RANK) op_fail(o, QN_ESHAPE, "%d axes", n);
    o->out[0] = qn_expand(fill_of(o, &type), n, dims);
    o->type[0] = type;
}

void op_range(onnx_op *o) {
    const onnx_type *t = onnx_type_of(op_type(o, 0));
    if (dtype_is_int((int)t->carrier)) {
        int64_t step = op_int(o, 2, 1);
        if (!step) op_fail(o, QN_EARG, "a step of 0");
        o->out[0] = qn_arange_int(o->qn, t->carrier, op_int(o, 0, 0), op_int(o, 1, 0), step);
        return;
    }
    double start = op_float(o, 0, 0), stop = op_float(o, 1, 0), step = op_float(o, 2, 1);
    double n = ceil((stop - start) / step);
    if (!(n < 1e9)) op_fail(o, QN_ERANGE, "a range of %g elements", n);
    int64_t count = n > 0 ? (int64_t)n : 0;
    qn_tensor *i = qn_iota(o->qn, QN_F64, 1, &count, 0);
    i = qn_add(qn_mul(i, qn_weak(i, step)), qn_weak(i, start));
    o->out[0] = qn_cast(i, t->carrier);
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* Of a seed that is given, always the same; else of one of the node's name. */
static qn_tensor *random_key(const onnx_op *o) {
    const onnx_attr *seed = op_attr(o, "seed");
    const char *name = o->n_out ? o->node->output[0] : "";
    uint32_t bits = 0;
    if (seed) memcpy(&bits, &seed->f, sizeof bits);
    return qn_key(o->qn, seed ? bits : hash_bytes(name, strlen(name), 1));
}

enum { UNIFORM, NORMAL };

void op_random(onnx_op *o) {
    bool like = o->n_in > 0, normal = o->row->variant == NORMAL;
    int rank;
    const int64_t *dims = like ? op_shape(o, 0, &rank) : attr_ints(o, "shape", &rank);
    int type = (int)attr_int(o, "dtype", like ? op_type(o, 0) : ONNX_FLOAT);
    const onnx_type *t = onnx_type_of(type);
    if (!t || rank > QN_MAX_RANK) op_fail(o, QN_EDTYPE, "element type %d", type);
    qn_tensor *key = random_key(o);
    qn_tensor *x = (normal ? qn_randn : qn_uniform)(key, QN_F32, rank, dims);
    double at = normal ? attr_float(o, "mean", 0) : attr_float(o, "low", 0);
    double by = normal ? attr_float(o, "scale", 1) : attr_float(o, "high", 1) - at;
    o->out[0] = qn_cast(qn_add(qn_mul(x, qn_weak(x, by)), qn_weak(x, at)), t->carrier);
    o->type[0] = type;
}

void op_bernoulli(onnx_op *o) {
    int rank, type = (int)attr_int(o, "dtype", op_type(o, 0));
    const int64_t *dims = op_shape(o, 0, &rank);
    qn_tensor *u = qn_uniform(random_key(o), QN_F32, rank, dims);
    o->out[0] = op_quantized(o, qn_lt(u, op_in(o, 0)), type, true);
    o->type[0] = type;
}

void op_multinomial(onnx_op *o) {
    qn_tensor *p = qn_exp(op_in(o, 0));
    o->type[0] = (int)attr_int(o, "dtype", ONNX_INT32);
    o->out[0] = qn_multinomial(random_key(o), p, attr_int(o, "sample_size", 1));
}
