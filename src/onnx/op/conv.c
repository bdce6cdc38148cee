/* conv.c - convolution and pooling. */
#include "onnx/onnx.h"

#include <math.h>

enum { SPACE_MOST = 3 };

/* Windows over the spatial axes of input 0, [N, C, spatial..]. */
typedef struct windows {
    int space;
    const int64_t *image; /* its sizes, spatial ones */
    int64_t size[SPACE_MOST], stride[SPACE_MOST], dilation[SPACE_MOST];
    int64_t before[SPACE_MOST], after[SPACE_MOST];
} windows;

static int64_t covered(const windows *w, int i) {
    return sat_add(sat_mul(w->size[i] - 1, w->dilation[i]), 1);
}

/* Padding that gives ceil(n / stride) windows. */
static void pad_same(windows *w, bool lower) {
    for (int i = 0; i < w->space; i++) {
        int64_t n = w->image[i], count = (n + w->stride[i] - 1) / w->stride[i];
        int64_t all = (count - 1) * w->stride[i] + covered(w, i) - n;
        if (all < 0) all = 0;
        w->before[i] = lower ? all - all / 2 : all / 2;
        w->after[i] = all - w->before[i];
    }
}

/* size: of the kernel where no attribute says; 0: it must. */
static windows windows_of(onnx_op *o, int input, const int64_t *size) {
    int rank;
    const int64_t *dims = op_shape(o, input, &rank);
    int64_t pads[2 * SPACE_MOST] = {0};
    windows w = {.space = rank - 2, .image = dims + 2};
    const char *mode = attr_text(o, "auto_pad", "NOTSET");
    if (rank < 3 || rank > 2 + SPACE_MOST) op_fail(o, QN_ESHAPE, "an image of %d axes", rank);
    for (int i = 0; i < w.space; i++) {
        w.size[i] = size ? size[i] : 0;
        w.stride[i] = w.dilation[i] = 1;
    }
    op_list(o, "kernel_shape", w.space, 1, w.size);
    op_list(o, "strides", w.space, 1, w.stride);
    op_list(o, "dilations", w.space, 1, w.dilation);
    op_list(o, "pads", 2 * w.space, -ONNX_SIZE_MOST, pads);
    for (int i = 0; i < w.space; i++) {
        if (w.size[i] < 1 || w.size[i] > ONNX_SIZE_MOST)
            op_fail(o, QN_ESHAPE, "a window of size %lld", (long long)w.size[i]);
        if (w.image[i] > ONNX_SIZE_MOST)
            op_fail(o, QN_ESHAPE, "an image of size %lld", (long long)w.image[i]);
    }
    for (int i = 0; i < w.space; i++) {
        w.before[i] = pads[i];
        w.after[i] = pads[w.space + i];
    }
    if (!strcmp(mode, "SAME_UPPER") || !strcmp(mode, "SAME_LOWER"))
        pad_same(&w, !strcmp(mode, "SAME_LOWER"));
    return w;
}

static qn_conv_options conv_options(onnx_op *o, const windows *w) {
    qn_conv_options c = QN_CONV_OPTIONS();
    c.groups = attr_int(o, "group", 1);
    for (int i = 0; i < w->space; i++) {
        c.stride[i] = w->stride[i];
        c.dilation[i] = w->dilation[i];
        c.before[i] = w->before[i];
        c.after[i] = w->after[i];
    }
    return c;
}

static qn_tensor *conv(onnx_op *o, qn_tensor *x, qn_tensor *w, int weight, qn_tensor *b) {
    int rank;
    const int64_t *kernel = op_shape(o, weight, &rank);
    if (rank != op_rank(o, 0))
        op_fail(o, QN_ESHAPE, "an image of %d axes, weights of %d", op_rank(o, 0), rank);
    windows at = windows_of(o, 0, kernel + 2);
    qn_conv_options c = conv_options(o, &at);
    return qn_conv(x, w, b, &c);
}

void op_conv(onnx_op *o) {
    o->out[0] = conv(o, op_in(o, 0), op_in(o, 1), 1, op_in(o, 2));
}

/* The past's last k - 1 places in front of the input: each channel by itself. */
void op_causal_conv(onnx_op *o) {
    int rank;
    const int64_t *kernel = op_shape(o, 1, &rank), k = rank == 3 ? kernel[2] : 0;
    qn_tensor *x = op_in(o, 0), *past = op_in(o, 3);
    const char *activation = attr_text(o, "activation", "none");
    int64_t *dims = op_shape(o, 0, &rank);
    if (rank != 3 || k < 1) op_fail(o, QN_ESHAPE, "an input of %d axes", rank);
    if (past)
        x = qn_concat(2, (qn_tensor *[]){past, x}, 2);
    else
        x = qn_pad(x, (int64_t[]){0, 0, 0, 0, k - 1, 0}, QN_PAD_CONSTANT, 0);
    qn_conv_options c = QN_CONV_OPTIONS(.groups = dims[1]);
    qn_tensor *y = qn_conv(x, op_in(o, 1), op_in(o, 2), &c);
    o->out[0] = strcmp(activation, "none") ? qn_silu(y) : y;
    if (op_wants(o, 1)) o->out[1] = qn_narrow(x, 2, dims[2], k - 1);
}

/* Padding of a transposed convolution cuts its result; what output_shape asks for beyond it is
 * `extra`, or more to be cut. */
void op_conv_transpose(onnx_op *o) {
    int rank, n, w_rank;
    const int64_t *kernel = op_shape(o, 1, &w_rank);
    op_shape(o, 0, &rank);
    if (rank != w_rank) op_fail(o, QN_ESHAPE, "an image of %d axes, weights of %d", rank, w_rank);
    windows w = windows_of(o, 0, kernel + 2);
    const int64_t *shape = attr_ints(o, "output_shape", &n);
    int64_t extra[SPACE_MOST] = {0};
    const char *mode = attr_text(o, "auto_pad", "NOTSET");
    bool lower = !strcmp(mode, "SAME_LOWER"), same = lower || !strcmp(mode, "SAME_UPPER");
    op_list(o, "output_padding", w.space, 0, extra);
    if (shape && n < w.space) op_fail(o, QN_ESHAPE, "%d sizes for %d axes", n, w.space);
    qn_conv_options c = conv_options(o, &w);
    for (int i = 0; i < w.space; i++) {
        int64_t more = extra[i];
        int64_t all = (w.image[i] - 1) * w.stride[i] + covered(&w, i) + more;
        c.extra[i] = more;
        if (shape || same) {
            int64_t wanted = shape ? shape[n - w.space + i] : w.image[i] * w.stride[i];
            if (wanted < 0) op_fail(o, QN_ERANGE, "output_shape has %lld", (long long)wanted);
            int64_t cut = sat_sub(all, wanted);
            if (cut < 0) c.extra[i] = sat_sub(more, cut);
            if (cut < 0) cut = 0;
            c.before[i] = lower ? cut - cut / 2 : cut / 2;
            if (!same) c.before[i] = cut / 2;
            c.after[i] = cut - c.before[i];
        }
    }
    o->out[0] = qn_conv_transpose(op_in(o, 0), op_in(o, 1), op_in(o, 2), &c);
}

/* ---- quantized products ---------------------------------------------------------------------- */

static qn_tensor *wide(qn_tensor *x) {
    return qn_cast(x, QN_I32);
}

/* Less its zero point, which is one number or one for each place of an axis. */
static qn_tensor *centered(onnx_op *o, int x, int zero, int axis) {
    qn_tensor *v = wide(op_in(o, x)), *z = op_in(o, zero);
    if (!z) return v;
    int rank, z_rank;
    const int64_t *n = op_shape(o, zero, &z_rank);
    op_shape(o, x, &rank);
    if (z_rank == 1 && n[0] != 1) {
        int64_t shape[QN_MAX_RANK];
        for (int i = 0; i < rank; i++) shape[i] = i == (axis + rank) % rank ? n[0] : 1;
        z = qn_reshape(z, rank, shape);
    } else if (z_rank == 1) {
        z = qn_reshape(z, 0, NULL);
    }
    return qn_sub(v, wide(z));
}

void op_matmul_integer(onnx_op *o) {
    o->out[0] = qn_matmul(centered(o, 0, 2, -2), centered(o, 1, 3, -1));
    o->type[0] = ONNX_INT32;
}

void op_conv_integer(onnx_op *o) {
    o->out[0] = conv(o, centered(o, 0, 2, 1), centered(o, 1, 3, 0), 1, NULL);
    o->type[0] = ONNX_INT32;
}

/* Sums in the scale a * b, to the integers of scale and zero point y. */
static qn_tensor *rescaled(onnx_op *o, qn_tensor *sum, qn_tensor *by, int y) {
    const onnx_type *t = onnx_type_of(op_type(o, y + 1));
    if (!t) op_fail(o, QN_EDTYPE, "no zero point for the result");
    qn_tensor *scale = qn_div(by, qn_cast(op_in(o, y), QN_F32));
    qn_tensor *v = qn_round(qn_mul(qn_cast(sum, QN_F32), scale));
    v = qn_add(v, qn_cast(op_in(o, y + 1), QN_F32));
    bool sign = t->carrier == QN_I8;
    v = qn_clamp(v, sign ? -128 : 0, sign ? 127 : 255);
    o->type[0] = op_type(o, y + 1);
    return qn_cast(v, t->carrier);
}

static qn_tensor *scale_at(onnx_op *o, int i, int rank, int axis) {
    qn_tensor *s = qn_cast(op_in(o, i), QN_F32);
    int s_rank;
    const int64_t *n = op_shape(o, i, &s_rank);
    if (s_rank == 0) return s;
    if (s_rank > 1) return s;
    int64_t shape[QN_MAX_RANK];
    for (int k = 0; k < rank; k++) shape[k] = k == (axis + rank) % rank ? n[0] : 1;
    return n[0] == 1 ? qn_reshape(s, 0, NULL) : qn_reshape(s, rank, shape);
}

void op_qlinear_matmul(onnx_op *o) {
    qn_tensor *sum = qn_matmul(centered(o, 0, 2, -2), centered(o, 3, 5, -1));
    qn_tensor *by = qn_mul(scale_at(o, 1, op_rank(o, 0), -2), scale_at(o, 4, op_rank(o, 3), -1));
    o->out[0] = rescaled(o, sum, by, 6);
}

void op_qlinear_conv(onnx_op *o) {
    qn_tensor *sum = conv(o, centered(o, 0, 2, 1), centered(o, 3, 5, 0), 3, NULL), *b = op_in(o, 8);
    int rank = op_rank(o, 0);
    int64_t shape[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = i == 1 ? -1 : 1;
    if (b) sum = qn_add(sum, qn_reshape(b, rank, shape));
    qn_tensor *by = qn_mul(qn_cast(op_in(o, 1), QN_F32), scale_at(o, 4, rank, 1));
    o->out[0] = rescaled(o, sum, by, 6);
}

/* ---- pooling --------------------------------------------------------------------------------- */

static qn_pool_options pool_options(onnx_op *o, const windows *w) {
    qn_pool_options p = QN_POOL_OPTIONS(.kind = (qn_pool_kind)o->row->variant);
    p.p = o->version < 2 ? attr_float(o, "p", 2) : (double)attr_int(o, "p", 2);
    p.ceil = attr_int(o, "ceil_mode", 0) != 0;
    p.exclude_padding = !attr_int(o, "count_include_pad", 0);
    for (int i = 0; i < w->space; i++) {
        p.stride[i] = w->stride[i];
        p.dilation[i] = w->dilation[i];
        p.before[i] = w->before[i];
        p.after[i] = w->after[i];
    }
    return p;
}

/* The places of the maxima, counted over batches, channels and the image's axes, the last of which
 * goes fastest, or with storage_order the first of two. */
static qn_tensor *places_of_maxima(onnx_op *o, qn_tensor *index, const windows *w) {
    int rank, n;
    const int64_t *dims = op_shape(o, 0, &rank), *mine = op_shape_of(o, index, &n);
    int64_t all = 1;
    for (int i = 0; i < w->space; i++) all = sat_mul(all, w->image[i]);
    if (attr_int(o, "storage_order", 0) && w->space == 2) {
        qn_tensor *columns = qn_scalar_int(o->qn, QN_I64, w->image[1]);
        qn_tensor *high = qn_scalar_int(o->qn, QN_I64, w->image[0]);
        index = qn_add(qn_mul(qn_mod(index, columns), high), qn_floor_div(index, columns));
    }
    qn_tensor *batch = qn_iota(o->qn, QN_I64, rank, mine, 0);
    qn_tensor *channel = qn_iota(o->qn, QN_I64, rank, mine, 1);
    batch = qn_mul(batch, qn_scalar_int(o->qn, QN_I64, sat_mul(dims[1], all)));
    channel = qn_mul(channel, qn_scalar_int(o->qn, QN_I64, all));
    return qn_add(index, qn_add(batch, channel));
}

void op_pool(onnx_op *o) {
    windows w = windows_of(o, 0, NULL);
    qn_pool_options p = pool_options(o, &w);
    if (!op_wants(o, 1)) {
        o->out[0] = qn_pool(op_in(o, 0), w.size, &p);
        return;
    }
    qn_tensor *values = NULL, *index = NULL;
    if (qn_max_pool_index(op_in(o, 0), w.size, &p, &values, &index) != QN_OK) return;
    o->out[0] = values;
    o->out[1] = places_of_maxima(o, index, &w);
    o->type[1] = ONNX_INT64;
}

void op_global_pool(onnx_op *o) {
    int rank, axes[QN_MAX_RANK];
    op_shape(o, 0, &rank);
    for (int i = 2; i < rank; i++) axes[i - 2] = i;
    qn_tensor *x = op_in(o, 0);
    int n = rank > 2 ? rank - 2 : 0;
    if (o->row->variant == QN_POOL_MAX)
        o->out[0] = qn_max_axes(x, n, axes, true);
    else if (o->row->variant == QN_POOL_AVG)
        o->out[0] = qn_mean_axes(x, n, axes, true);
    else
        o->out[0] = qn_norm_axes(x, n, axes, (double)attr_int(o, "p", 2), true);
}

/* Zeros with the elements at their places, which were counted in an image without output_shape. */
void op_max_unpool(onnx_op *o) {
    int rank, n;
    const int64_t *dims = op_shape(o, 0, &rank);
    windows w = windows_of(o, 0, NULL);
    int64_t natural[QN_MAX_RANK], all = 1;
    for (int i = 0; i < rank; i++) {
        natural[i] = i < 2 ? dims[i]
                           : (dims[i] - 1) * w.stride[i - 2] + w.size[i - 2] - w.before[i - 2] -
                                 w.after[i - 2];
        all = sat_mul(all, natural[i] < 0 ? 0 : natural[i]);
    }
    const int64_t *wanted = op_ints(o, 2, &n);
    qn_tensor *y = qn_zeros(o->qn, qn_dtype_of(op_in(o, 0)), 1, &all);
    qn_tensor *at = qn_reshape(op_in(o, 1), 1, (int64_t[]){-1});
    y = qn_scatter(y, at, qn_reshape(op_in(o, 0), 1, (int64_t[]){-1}), 0, QN_COMBINE_SET);
    y = qn_reshape(y, rank, natural);
    if (wanted && n == rank) {
        int64_t pads[2 * QN_MAX_RANK] = {0};
        for (int i = 0; i < rank; i++) pads[2 * i + 1] = sat_sub(wanted[i], natural[i]);
        y = qn_pad(y, pads, QN_PAD_CONSTANT, 0);
    }
    o->out[0] = y;
}

void op_col2im(onnx_op *o) {
    int space, n;
    const int64_t *image = op_ints(o, 1, &space), *block = op_ints(o, 2, &n);
    int64_t pads[2 * SPACE_MOST] = {0};
    qn_conv_options c = QN_CONV_OPTIONS();
    if (space < 1 || space > SPACE_MOST || n != space)
        op_fail(o, QN_ESHAPE, "an image of %d axes, blocks of %d", space, n);
    for (int i = 0; i < space; i++) c.stride[i] = c.dilation[i] = 1;
    op_list(o, "strides", space, 1, c.stride);
    op_list(o, "dilations", space, 1, c.dilation);
    op_list(o, "pads", 2 * space, -ONNX_SIZE_MOST, pads);
    for (int i = 0; i < space; i++) {
        c.before[i] = pads[i];
        c.after[i] = pads[space + i];
    }
    o->out[0] = qn_col2im(op_in(o, 0), space, image, block, &c);
}
