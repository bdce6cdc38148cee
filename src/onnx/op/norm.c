/* norm.c - normalizations, and products of matrices. */
#include "onnx/onnx.h"

#include <ctype.h>
#include <math.h>

static int axes_from(int from, int rank, int *axes) {
    int n = 0;
    for (int i = from; i < rank; i++) axes[n++] = i;
    return n;
}

/* [C] as [1, C, 1, ..]. */
static qn_tensor *by_channel(qn_tensor *v, int rank) {
    int64_t shape[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = i == 1 ? -1 : 1;
    return v ? qn_reshape(v, rank, shape) : NULL;
}

static qn_tensor *rsqrt_of(qn_tensor *variance, double epsilon) {
    return qn_rsqrt(qn_add(variance, qn_weak(variance, epsilon)));
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* In inference a batch norm is x * scale + shift, which both follow from weights alone. Of known
 * ones they are computed aside, once, so that what is left for a run is a multiply-add a place. Of
 * halves the product could lose what the difference from the mean keeps: they are left as said. */
static bool normed_by_weights(onnx_op *o, double epsilon) {
    int rank = op_rank(o, 0);
    onnx_run *run = o->run;
    qn_tensor *in[4], *x = op_in(o, 0);
    bool known = o->qn == run->model->ctx;
    if (!dtype_is_float((int)qn_dtype_of(x)) || qn_dtype_size(qn_dtype_of(x)) < 4) return false;
    for (int i = 0; i < 4; i++) known &= op_has(o, i + 1) && o->value[i + 1]->known;
    for (int i = 0; i < 4; i++) in[i] = known ? o->value[i + 1]->t : op_in(o, i + 1);
    qn_tensor *scale = qn_mul(in[0], rsqrt_of(in[3], epsilon));
    qn_tensor *shift = qn_sub(in[1], qn_mul(in[2], scale));
    if (!scale || !shift) op_fail(o, QN_ESHAPE, "weights of several sizes");
    if (known) {
        scale = value_main(run, value_new(run, "", scale, op_type(o, 1), true));
        shift = value_main(run, value_new(run, "", shift, op_type(o, 2), true));
    }
    o->out[0] = qn_add(qn_mul(x, by_channel(scale, rank)), by_channel(shift, rank));
    return true;
}

void op_batch_norm(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *mean = op_in(o, 3), *variance = op_in(o, 4), *y;
    double epsilon = attr_float(o, "epsilon", 1e-5);
    int rank = op_rank(o, 0), axes[QN_MAX_RANK] = {0};
    bool training = o->version >= 14 ? attr_int(o, "training_mode", 0) != 0
                                     : o->version < 7 && !attr_int(o, "is_test", 0);
    if (training) {
        int n = 1 + axes_from(2, rank, axes + 1);
        qn_tensor *mine = qn_mean_axes(x, n, axes, false);
        qn_tensor *spread = qn_variance_axes(x, n, axes, 0, false);
        double keep = attr_float(o, "momentum", 0.9);
        qn_tensor *go = qn_weak(mean, keep), *come = qn_weak(mean, 1 - keep);
        if (op_wants(o, 1)) o->out[1] = qn_add(qn_mul(mean, go), qn_mul(mine, come));
        if (op_wants(o, 2)) o->out[2] = qn_add(qn_mul(variance, go), qn_mul(spread, come));
        o->type[1 < o->n_out ? 1 : 0] = 0;
        for (int k = 1; k < o->n_out && k < 3; k++) o->type[k] = op_type(o, 2 + k);
        y = qn_layer_norm_axes(x, n, axes, NULL, NULL, epsilon);
    } else if (normed_by_weights(o, epsilon)) {
        return;
    } else {
        qn_tensor *by = rsqrt_of(by_channel(variance, rank), epsilon);
        y = qn_mul(qn_sub(x, by_channel(mean, rank)), by);
    }
    y = qn_mul(y, by_channel(op_in(o, 1), rank));
    o->out[0] = qn_add(y, by_channel(op_in(o, 2), rank));
}

void op_instance_norm(onnx_op *o) {
    o->out[0] =
        qn_instance_norm(op_in(o, 0), op_in(o, 1), op_in(o, 2), attr_float(o, "epsilon", 1e-5));
}

/* Scale and bias are of each channel, or before opset 21 of each group. */
void op_group_norm(onnx_op *o) {
    int rank, p_rank;
    const int64_t *dims = op_shape(o, 0, &rank), *p = op_shape(o, 1, &p_rank);
    int64_t groups = attr_int(o, "num_groups", 1);
    qn_tensor *scale = op_in(o, 1), *bias = op_in(o, 2), *x = op_in(o, 0);
    if (rank < 2 || p_rank != 1 || groups < 1 || dims[1] % groups)
        op_fail(o, QN_ESHAPE, "%lld groups", (long long)groups);
    if (p[0] == groups && o->version < 21) {
        scale = qn_repeat_interleave(scale, 0, dims[1] / groups);
        bias = qn_repeat_interleave(bias, 0, dims[1] / groups);
    }
    qn_dtype d = attr_int(o, "stash_type", 1) == 1 ? QN_F32 : qn_dtype_of(x);
    x = qn_group_norm(qn_cast(x, d), NULL, NULL, groups, attr_float(o, "epsilon", 1e-5));
    x = qn_cast(x, qn_dtype_of(op_in(o, 0)));
    o->out[0] = qn_add(qn_mul(x, by_channel(scale, rank)), by_channel(bias, rank));
}

void op_layer_norm(onnx_op *o) {
    int axes[QN_MAX_RANK], rank = op_rank(o, 0);
    int n = axes_from(op_axis(o, attr_int(o, "axis", -1), rank), rank, axes);
    double epsilon = attr_float(o, "epsilon", 1e-5);
    qn_tensor *x = op_in(o, 0), *b = op_in(o, 2);
    qn_tensor *wide = qn_dtype_of(x) == QN_F64 ? x : qn_cast(x, QN_F32);
    qn_tensor *y = qn_layer_norm_axes(wide, n, axes, NULL, NULL, epsilon);
    y = qn_mul(qn_cast(y, qn_dtype_of(x)), op_in(o, 1));
    o->out[0] = b ? qn_add(y, b) : y;
    for (int k = 1; k < o->n_out && k < 3; k++) {
        o->out[k] = k == 1 ? qn_mean_axes(wide, n, axes, true)
                           : rsqrt_of(qn_variance_axes(wide, n, axes, 0, true), epsilon);
        o->type[k] = onnx_type_like(qn_dtype_of(wide));
    }
}

void op_rms_norm(onnx_op *o) {
    int axes[QN_MAX_RANK], rank = op_rank(o, 0);
    int n = axes_from(op_axis(o, attr_int(o, "axis", -1), rank), rank, axes);
    qn_tensor *x = op_in(o, 0), *wide = qn_dtype_of(x) == QN_F64 ? x : qn_cast(x, QN_F32);
    qn_tensor *by =
        rsqrt_of(qn_mean_axes(qn_square(wide), n, axes, true), attr_float(o, "epsilon", 1e-5));
    o->out[0] = qn_mul(qn_cast(qn_mul(wide, by), qn_dtype_of(x)), op_in(o, 1));
}

void op_lp_norm(onnx_op *o) {
    int axis = op_axis(o, attr_int(o, "axis", -1), op_rank(o, 0));
    qn_tensor *x = op_in(o, 0), *n = qn_norm(x, axis, (double)attr_int(o, "p", 2), true);
    o->out[0] = qn_where(qn_eq(n, qn_weak(n, 0)), qn_zeros_like(x), qn_div(x, n));
}

void op_mean_variance(onnx_op *o) {
    int n, axes[QN_MAX_RANK], rank = op_rank(o, 0);
    const int64_t *list = attr_ints(o, "axes", &n), usual[] = {0, 2, 3};
    if (!list) n = 3;
    if (n > QN_MAX_RANK) op_fail(o, QN_ERANGE, "%d axes", n);
    for (int i = 0; i < n; i++) axes[i] = op_axis(o, (list ? list : usual)[i], rank);
    /* The mean difference from one of the values: of equal values it is 0 and nothing else. */
    qn_tensor *x = op_in(o, 0), *d = qn_sub(x, qn_max_axes(x, n, axes, true));
    d = qn_sub(d, qn_mean_axes(d, n, axes, true));
    qn_tensor *root = qn_std_axes(x, n, axes, 0, true);
    o->out[0] = qn_div(d, qn_add(root, qn_weak(root, 1e-9)));
}

/* Across channels: x over (bias + alpha / size * the squares' sum of the channels around)^beta. */
void op_lrn(onnx_op *o) {
    int rank = op_rank(o, 0);
    int64_t size = attr_int(o, "size", 1), pads[2 * QN_MAX_RANK] = {0};
    if (rank < 2 || size < 1)
        op_fail(o, QN_ESHAPE, "%lld channels of %d axes", (long long)size, rank);
    pads[2] = (size - 1) / 2;
    pads[3] = size - 1 - pads[2];
    qn_tensor *x = op_in(o, 0), *square = qn_pad(qn_square(x), pads, QN_PAD_CONSTANT, 0);
    qn_tensor *sum = qn_sum(qn_unfold(square, 1, size, 1), -1, false);
    sum = qn_mul(sum, qn_weak(x, attr_float(o, "alpha", 1e-4) / (double)size));
    sum = qn_add(sum, qn_weak(x, attr_float(o, "bias", 1)));
    o->out[0] = qn_div(x, qn_pow(sum, qn_weak(x, attr_float(o, "beta", 0.75))));
}

/* ---- products -------------------------------------------------------------------------------- */

void op_gemm(onnx_op *o) {
    qn_tensor *a = op_in(o, 0), *b = op_in(o, 1), *c = op_in(o, 2);
    double alpha = attr_float(o, "alpha", 1), beta = attr_float(o, "beta", 1);
    if (op_rank(o, 0) != 2 || op_rank(o, 1) != 2) op_fail(o, QN_ESHAPE, "no matrices");
    if (attr_int(o, "transA", 0)) a = qn_transpose(a, 0, 1);
    if (attr_int(o, "transB", 0)) b = qn_transpose(b, 0, 1);
    qn_tensor *y = qn_matmul(a, b);
    if (alpha != 1) y = qn_mul(y, qn_cast(qn_scalar(o->qn, QN_F64, alpha), qn_dtype_of(y)));
    if (c && beta != 1) c = qn_mul(c, qn_cast(qn_scalar(o->qn, QN_F64, beta), qn_dtype_of(c)));
    o->out[0] = c ? qn_add(y, c) : y;
}

/* Without the spaces that ONNX allows. */
void op_einsum(onnx_op *o) {
    const char *from = attr_text(o, "equation", "");
    char *spec = op_alloc(o, strlen(from) + 1, 1), *to = spec;
    for (; *from; from++)
        if (!isspace((unsigned char)*from)) *to++ = *from;
    qn_tensor **list = op_alloc(o, (size_t)o->n_in, sizeof(qn_tensor *));
    for (int i = 0; i < o->n_in; i++) list[i] = op_in(o, i);
    o->out[0] = qn_einsum(o->n_in, list, spec);
}

/* ---- quantization ---------------------------------------------------------------------------- */

/* A scale or zero point, brought to x's shape: one number, one for each place of an axis, or one
 * for each block of it. */
static qn_tensor *over_blocks(onnx_op *o, int i, qn_dtype dtype) {
    int rank, mine;
    const int64_t *dims = op_shape(o, 0, &rank), *n = op_shape(o, i, &mine);
    qn_tensor *v = qn_cast(op_in(o, i), dtype);
    int64_t block = attr_int(o, "block_size", 0);
    bool one = mine == 0 || (mine == 1 && n[0] == 1);
    if (one) return qn_reshape(v, 0, NULL);
    int axis = op_axis(o, attr_int(o, "axis", 1), rank);
    if (mine == 1 && !block) {
        int64_t shape[QN_MAX_RANK];
        for (int k = 0; k < rank; k++) shape[k] = k == axis ? n[0] : 1;
        return qn_reshape(v, rank, shape);
    }
    if (mine != rank || block < 1) op_fail(o, QN_ESHAPE, "a scale of %d axes", mine);
    v = qn_repeat_interleave(v, axis, block);
    return qn_narrow(v, axis, 0, dims[axis]);
}

static bool is_whole(int type) {
    const onnx_type *t = onnx_type_of(type);
    return t && (t->kind == ONNX_WHOLE || (t->kind == ONNX_SAME && dtype_is_int((int)t->carrier)));
}

static void bounds_of(int type, double *lo, double *hi) {
    const onnx_type *t = onnx_type_of(type);
    *lo = t->least;
    *hi = t->largest;
    if (t->kind == ONNX_WHOLE) return;
    double half = ldexp(1, t->bits - 1);
    bool sign = !dtype_is_unsigned((int)t->carrier);
    *lo = sign ? -half : 0;
    *hi = sign ? half - 1 : 2 * half - 1;
}

void op_quantize(onnx_op *o) {
    int type = op_has(o, 2) ? op_type(o, 2) : (int)attr_int(o, "output_dtype", 0);
    int precision = (int)attr_int(o, "precision", 0);
    if (!type) type = ONNX_UINT8;
    if (!onnx_type_of(type)) op_fail(o, QN_EDTYPE, "element type %d", type);
    qn_tensor *x = op_in(o, 0);
    qn_dtype d = precision && onnx_type_of(precision)  ? onnx_type_of(precision)->carrier
                 : dtype_is_float((int)qn_dtype_of(x)) ? qn_dtype_of(x)
                                                       : QN_F32;
    qn_tensor *y = qn_div(qn_cast(x, d), over_blocks(o, 1, d));
    o->type[0] = type;
    if (!is_whole(type)) {
        if (op_has(o, 2)) y = qn_add(y, over_blocks(o, 2, d));
        o->out[0] = op_quantized(o, y, type, attr_int(o, "saturate", 1) != 0);
        return;
    }
    double lo, hi;
    bounds_of(type, &lo, &hi);
    y = qn_cast(qn_round(y), QN_F32);
    if (op_has(o, 2)) y = qn_add(y, over_blocks(o, 2, QN_F32));
    o->out[0] = qn_cast(qn_clamp(y, lo, hi), onnx_type_of(type)->carrier);
}

void op_dequantize(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *scale = over_blocks(o, 1, QN_F32);
    bool narrow = qn_dtype_size(qn_dtype_of(x)) < 4;
    qn_tensor *y = narrow && is_whole(op_type(o, 0)) ? qn_cast(x, QN_I32) : x;
    if (op_has(o, 2) && is_whole(op_type(o, 0))) y = qn_sub(y, over_blocks(o, 2, qn_dtype_of(y)));
    o->out[0] = qn_mul(qn_cast(y, QN_F32), scale);
    o->type[0] = (int)attr_int(o, "output_dtype", 0);
    if (!o->type[0]) o->type[0] = op_type(o, 1);
}

void op_dynamic_quantize(onnx_op *o) {
    qn_tensor *x = op_in(o, 0), *zero = qn_weak(x, 0);
    qn_tensor *hi = qn_maximum(qn_max(x, QN_ALL, false), zero);
    qn_tensor *lo = qn_minimum(qn_min(x, QN_ALL, false), zero);
    qn_tensor *scale = qn_div(qn_sub(hi, lo), qn_weak(x, 255));
    qn_tensor *point = qn_clamp(qn_round(qn_div(qn_neg(lo), scale)), 0, 255);
    qn_tensor *y = qn_clamp(qn_add(qn_round(qn_div(x, scale)), point), 0, 255);
    qn_tensor *list[3] = {y, scale, point};
    int type[3] = {ONNX_UINT8, ONNX_FLOAT, ONNX_UINT8};
    for (int k = 0; k < o->n_out && k < 3; k++) {
        o->out[k] = list[k];
        o->type[k] = type[k];
    }
}
