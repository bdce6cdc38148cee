/* plain.c - layers of one operation: linear maps, embeddings, convolutions, pooling, dropout and
 * activations.
 *
 * Formulas, names and first values are PyTorch's: a weight is uniform within 1 / sqrt(in), in
 * counting the places of a kernel, and so is its bias. An image may lack its batch axis. */
#include "nn/layers/layers.h"

#include <limits.h>
#include <math.h>

/* ---- linear --------------------------------------------------------------------------------- */

static double bound(int64_t in) {
    return 1 / sqrt((double)(in > 0 ? in : 1));
}

static void bias_parameter(making *b, const char *name, int64_t n, double within) {
    if (!b->o->no_bias)
        layer_parameter(b, name, 1, &n, b->bare_bias ? QN_INIT_ZEROS : QN_INIT_UNIFORM, within);
}

void linear_parameters(making *b, const char *weight, const char *bias, int64_t out, int64_t in) {
    double scale = b->o->scale;
    layer_parameter(b, weight, 2, (int64_t[]){out, in},
                    scale > 0 ? QN_INIT_NORMAL : QN_INIT_UNIFORM, scale > 0 ? scale : bound(in));
    bias_parameter(b, bias, out, bound(in));
}

qn_tensor *linear_next(calling *c, qn_tensor *x, bool bias) {
    qn_tensor *weight = layer_next(c);
    return qn_linear(x, weight, bias ? layer_next(c) : NULL);
}

void linear_tensors(making *b) {
    linear_parameters(b, "weight", "bias", b->o->out, b->o->in);
}

void apply_linear(calling *c) {
    c->out[0] = linear_next(c, c->in[0], !c->o->no_bias);
}

void bilinear_tensors(making *b) {
    const qn_layer_options *o = b->o;
    layer_parameter(b, "weight", 3, (int64_t[]){o->out, o->in, o->hidden}, QN_INIT_UNIFORM,
                    bound(o->in));
    bias_parameter(b, "bias", o->out, bound(o->in));
}

void apply_bilinear(calling *c) {
    qn_tensor *xs[] = {c->in[0], layer_next(c), c->in[1]};
    qn_tensor *y = qn_einsum(3, xs, "...i,kij,...j->...k");
    c->out[0] = c->o->no_bias ? y : qn_add(y, layer_next(c));
}

void apply_identity(calling *c) {
    c->out[0] = c->in[0];
}

/* The axis; one that no int holds is none of a tensor's either. */
static int axis_of(int64_t place) {
    int64_t axis = place > 0 ? place - 1 : place;
    return axis > INT_MAX ? INT_MAX : axis < INT_MIN ? INT_MIN : (int)axis;
}

void apply_flatten(calling *c) {
    c->out[0] = qn_flatten(c->in[0], axis_of(c->o->first), axis_of(c->o->index));
}

/* ---- embedding ------------------------------------------------------------------------------ */

/* The row that is always 0; -1: none. */
static int64_t padding_row(const qn_layer_options *o) {
    return o->index < 0 ? sat_add(o->in, o->index) : o->index - 1;
}

void embedding_tensors(making *b) {
    const qn_layer_options *o = b->o;
    int64_t row = padding_row(o);
    if (row >= o->in || row < -1 || (row == -1 && o->index)) {
        fail(b->qn, QN_ERANGE, "%s: padding_idx is row %lld of %lld", b->call, (long long)row,
             (long long)o->in);
        b->fine = false;
        return;
    }
    layer_parameter(b, "weight", 2, (int64_t[]){o->in, o->out}, QN_INIT_NORMAL,
                    o->scale > 0 ? o->scale : 1);
    if (!b->fine || row < 0) return;
    qn_scope scope = qn_scope_begin(b->qn);
    qn_tensor *index = qn_full_int(b->qn, QN_I64, 1, (int64_t[]){1}, row);
    b->fine = !qn_assign(b->tensor[0], qn_index_fill(b->tensor[0], index, 0, 0)) &&
              !qn_realize(1, b->tensor);
    qn_scope_end(b->qn, scope);
}

/* The padding's row is looked up without its history: no gradient comes to it. */
void apply_embedding(calling *c) {
    qn_tensor *weight = layer_next(c), *ids = c->in[0];
    qn_tensor *rows = qn_embedding(weight, ids);
    int64_t row = padding_row(c->o);
    if (row >= 0 && rows) {
        qn_tensor *padding = qn_unsqueeze(qn_eq(ids, qn_like(ids, (double)row)), -1);
        rows = qn_where(padding, qn_detach(rows), rows);
    }
    c->out[0] = rows;
}

/* ---- convolution ---------------------------------------------------------------------------- */

static bool channels_fine(making *b) {
    const qn_layer_options *o = b->o;
    b->fine = o->groups > 0 && o->in % o->groups == 0 && o->out % o->groups == 0;
    if (!b->fine)
        fail(b->qn, QN_EARG, "%s: %lld channels become %lld in %lld groups", b->call,
             (long long)o->in, (long long)o->out, (long long)o->groups);
    return b->fine;
}

/* The weight [a, b, kernel..], uniform by what b and the kernel count, and the bias. */
static void kernel_parameters(making *b, int64_t first, int64_t second) {
    int space = b->row->space;
    int64_t shape[5] = {first, second}, in = second;
    for (int i = 0; i < space; i++) in = sat_mul(in, shape[2 + i] = b->o->kernel[i]);
    layer_parameter(b, "weight", space + 2, shape, QN_INIT_UNIFORM, bound(in));
    bias_parameter(b, "bias", b->o->out, bound(in));
}

void conv_tensors(making *b) {
    if (channels_fine(b)) kernel_parameters(b, b->o->out, b->o->in / b->o->groups);
}

void conv_transpose_tensors(making *b) {
    if (channels_fine(b)) kernel_parameters(b, b->o->in, b->o->out / b->o->groups);
}

static void put_windows(const calling *c, qn_conv_options *w) {
    const qn_layer_options *o = c->o;
    w->groups = o->groups;
    w->same = o->padding[0] < 0;
    for (int i = 0; i < c->row->space; i++) {
        w->stride[i] = o->stride[i], w->dilation[i] = o->dilation[i], w->extra[i] = o->extra[i];
        w->before[i] = w->after[i] = w->same ? 0 : o->padding[i];
    }
}

/* x with a batch axis; batched says whether it has one. */
static qn_tensor *image(calling *c, bool *batched) {
    qn_tensor *x = c->in[0];
    int space = c->row->space;
    *batched = true;
    if (!layer_rank(c, x, "the image", space + 1, space + 2)) return NULL;
    *batched = qn_rank(x) == space + 2;
    return *batched ? x : qn_unsqueeze(x, 0);
}

static qn_tensor *image_back(qn_tensor *y, bool batched) {
    return batched ? y : qn_squeeze(y, 0);
}

/* x padded by other places of it, and the windows without padding. */
static qn_tensor *padded(const calling *c, qn_tensor *x, qn_conv_options *w) {
    static const qn_pad_mode modes[] = {QN_PAD_CONSTANT, QN_PAD_REFLECT, QN_PAD_EDGE,
                                        QN_PAD_CIRCULAR};
    int mode = c->o->padding_mode; /* within these: layer_options_fine */
    int64_t widths[2 * QN_MAX_RANK] = {0};
    if (!mode) return x;
    for (int i = 0; i < c->row->space; i++) {
        int64_t all = w->same ? sat_mul(w->dilation[i], sat_sub(c->o->kernel[i], 1))
                              : sat_mul(2, w->before[i]);
        widths[2 * (2 + i)] = all / 2, widths[2 * (2 + i) + 1] = all - all / 2;
        w->before[i] = w->after[i] = 0;
    }
    w->same = false;
    return qn_pad(x, widths, modes[mode], 0);
}

void apply_conv(calling *c) {
    qn_tensor *weight = layer_next(c), *bias = c->o->no_bias ? NULL : layer_next(c);
    qn_conv_options windows = QN_CONV_OPTIONS();
    bool batched = true;
    if (c->o->conv) { /* of qn_conv_new: as they are */
        c->out[0] = qn_conv(c->in[0], weight, bias, c->o->conv);
        return;
    }
    qn_tensor *x = image(c, &batched);
    put_windows(c, &windows);
    if (x) x = padded(c, x, &windows);
    c->out[0] = image_back(qn_conv(x, weight, bias, &windows), batched);
}

void apply_conv_transpose(calling *c) {
    qn_tensor *weight = layer_next(c), *bias = c->o->no_bias ? NULL : layer_next(c);
    qn_conv_options windows = QN_CONV_OPTIONS();
    bool batched = true;
    qn_tensor *x = image(c, &batched);
    put_windows(c, &windows);
    c->out[0] = image_back(qn_conv_transpose(x, weight, bias, &windows), batched);
}

/* ---- pooling -------------------------------------------------------------------------------- */

static void pool_windows(calling *c, qn_pool_options *w) {
    const qn_layer_options *o = c->o;
    int64_t size[3];
    bool batched = true;
    qn_tensor *x = image(c, &batched), *index = NULL;
    if (!x) return;
    for (int i = 0; i < c->row->space; i++) {
        size[i] = o->kernel[i] ? o->kernel[i] : qn_dim(x, 2 + i);
        if (w->adaptive) continue;
        w->stride[i] = o->stride[i], w->dilation[i] = o->dilation[i];
        w->before[i] = w->after[i] = o->padding[i];
    }
    w->ceil = o->ceil, w->exclude_padding = o->exclude_padding;
    if (w->kind == QN_POOL_MAX && o->indices) {
        if (qn_max_pool_index(x, size, w, &x, &index)) return;
        c->out[1] = image_back(index, batched);
    } else {
        x = qn_pool(x, size, w);
    }
    c->out[0] = image_back(x, batched);
}

void apply_max_pool(calling *c) {
    pool_windows(c, &QN_POOL_OPTIONS(.kind = QN_POOL_MAX));
}

void apply_avg_pool(calling *c) {
    pool_windows(c, &QN_POOL_OPTIONS(.kind = QN_POOL_AVG));
}

/* x^(1/p), whose gradient at 0 is 0. */
static qn_tensor *root_of(qn_tensor *x, double p) {
    qn_tensor *zero = qn_eq(x, qn_like(x, 0)), *some = qn_where(zero, qn_like(x, 1), x);
    qn_tensor *root = qn_pow(some, qn_like(some, 1 / p));
    return qn_where(zero, qn_like(x, p > 0 ? 0 : INFINITY), root);
}

/* As PyTorch has it: powers keep their sign, and of a window that the end cuts off the mean counts
 * for the whole kernel. */
void apply_norm_pool(calling *c) {
    double p = c->o->a, places = 1;
    qn_tensor *x = c->in[0];
    if (p == 0 || isnan(p)) {
        fail(c->qn, QN_ERANGE, "%s: norm_type is %g", c->row->name, p);
        return;
    }
    for (int i = 0; i < c->row->space; i++) places *= (double)c->o->kernel[i];
    if (p != 1) c->in[0] = qn_pow(x, qn_like(x, p));
    pool_windows(c, &QN_POOL_OPTIONS(.kind = QN_POOL_AVG));
    qn_tensor *sum = qn_mul(c->out[0], qn_like(c->out[0], places));
    c->out[0] = p == 1 ? sum : root_of(sum, p);
}

void apply_adaptive_avg(calling *c) {
    pool_windows(c, &QN_POOL_OPTIONS(.kind = QN_POOL_AVG, .adaptive = true));
}

void apply_adaptive_max(calling *c) {
    pool_windows(c, &QN_POOL_OPTIONS(.kind = QN_POOL_MAX, .adaptive = true));
}

/* ---- dropout -------------------------------------------------------------------------------- */

/* Of images whole channels: ones of [N, C, 1..] are dropped, and multiplied. */
void apply_dropout(calling *c) {
    qn_tensor *x = c->in[0], *mask;
    double p = c->o->p;
    int space = c->row->space;
    int64_t shape[QN_MAX_RANK];
    if (!(p >= 0 && p <= 1)) {
        fail(c->qn, QN_ERANGE, "%s: a probability of %g", c->row->name, p);
        return;
    }
    if (!space || !c->training) {
        c->out[0] = layer_drop(c, x, p);
        return;
    }
    if (!layer_rank(c, x, "the image", space + 1, space + 2)) return;
    int rank = qn_rank(x);
    for (int i = 0; i < rank; i++) shape[i] = i < rank - space ? qn_dim(x, i) : 1;
    mask = qn_full(c->qn, qn_dtype_of(x), rank, shape, 1);
    c->out[0] = qn_mul(x, layer_drop(c, mask, p));
}

/* ---- activations ---------------------------------------------------------------------------- */

qn_dtype layer_widen(int n, qn_tensor **x) {
    qn_dtype common = QN_BOOL;
    for (int i = 0; i < n; i++)
        if (x[i]) common = qn_dtype_promote(common, qn_dtype_of(x[i]));
    qn_dtype wide = qn_dtype_promote(common, QN_F32);
    for (int i = 0; i < n; i++)
        if (x[i]) x[i] = qn_cast(x[i], wide);
    return dtype_is_float(common) ? common : wide;
}

static qn_tensor *polynomial(qn_tensor *x, int n, const double *term) {
    qn_tensor *y = qn_like(x, term[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = qn_fma(y, x, qn_like(x, term[i]));
    return y;
}

/* x - tanh(x). Near 0 that is x^3/3, of which the difference has no digits: there Lambert's
 * continued fraction stands for it, x / (1 + z/(3 + z/(5 + ..))) with z = x x and as far as 21, as
 * one quotient of polynomials, all of whose terms are positive. Up to 1.5 it is within 1e-18. */
qn_tensor *tanhshrink(qn_tensor *x) {
    static const double above[] = {4583103525, 349188840, 6891885, 42900, 65};
    static const double below[] = {13749310575, 6547290750, 413513100, 7567560, 45045, 66};
    qn_dtype d = layer_widen(1, &x);
    if (!x) return NULL;
    qn_tensor *near = qn_lt(qn_abs(x), qn_like(x, 1.5)), *small = qn_where(near, x, qn_like(x, 0));
    qn_tensor *z = qn_mul(small, small), *cube = qn_mul(small, z);
    qn_tensor *part = qn_div(polynomial(z, 5, above), polynomial(z, 6, below));
    return qn_cast(qn_where(near, qn_mul(cube, part), qn_sub(x, qn_tanh(x))), d);
}

qn_tensor *hardshrink(qn_tensor *x, double lambda) {
    return qn_where(qn_le(qn_abs(x), qn_like(x, lambda)), qn_like(x, 0), x);
}

qn_tensor *softshrink(qn_tensor *x, double lambda) {
    return qn_sub(x, qn_clamp(x, -lambda, lambda));
}

qn_tensor *threshold(qn_tensor *x, double value, double limit) {
    return qn_threshold(x, limit, value);
}

void apply_one(calling *c) {
    c->out[0] = c->row->of.one(c->in[0]);
}

void apply_gelu(calling *c) {
    c->out[0] = c->o->variant ? qn_gelu_tanh(c->in[0]) : qn_gelu(c->in[0]);
}

void apply_number(calling *c) {
    c->out[0] = c->row->of.number(c->in[0], c->o->a);
}

void apply_numbers(calling *c) {
    c->out[0] = c->row->of.numbers(c->in[0], c->o->a, c->o->b);
}

/* Without an axis it is PyTorch's of old: the first of 0, 1 or 3 axes, else the second. */
void apply_axis(calling *c) {
    int rank = c->in[0] ? qn_rank(c->in[0]) : 0, axis = rank == 2 || rank > 3;
    if (c->o->index) axis = axis_of(c->o->index);
    c->out[0] = c->row->of.axis(c->in[0], axis);
}

void prelu_tensors(making *b) {
    int64_t n = b->o->in;
    qn_scope scope = qn_scope_begin(b->qn);
    layer_value(b, "weight", nn_full(b->qn, QN_F32, 1, &n, b->o->a));
    qn_scope_end(b->qn, scope);
}

void apply_prelu(calling *c) {
    c->out[0] = qn_prelu(c->in[0], layer_next(c));
}
