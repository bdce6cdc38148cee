/* layers.c - the layers: parameters under names in a module, and what they do to an input.
 *
 * Each layer is a pair of functions, _new and _forward. A _new that fails leaves NULL parameters in
 * its layer, the weight among them in any case; a NULL tensor makes every later result NULL, and
 * the first error stays in the context, so models are built without checks and looked at once.
 * Formulas and names are PyTorch's. */
#include "nn/nn.h"

#include <math.h>
#include <stdio.h>

/* A parameter "<name>.<part>". */
static qn_tensor *parameter(qn_module *m, const char *name, const char *part, int rank,
                            const int64_t *shape, qn_init init, double scale) {
    char full[NN_NAME_MOST];
    if (!m || !name || !nn_name(m, full, name, part)) return NULL;
    return qn_module_parameter(m, full, QN_F32, rank, shape, init, scale);
}

/* The context of a _forward; NULL where x is none, or no layer is given, which is reported. */
static qn_ctx *enter(const void *layer, const qn_tensor *x, const char *call) {
    const handle *h = x ? handle_check(NULL, x, HANDLE_TENSOR, call, "x") : NULL;
    if (!h) return NULL;
    if (layer) return h->ctx;
    fail(h->ctx, QN_ENULL, "%s: the layer is NULL", call);
    return NULL;
}

/* ---- linear ------------------------------------------------------------------------------- */

qn_linear_layer qn_linear_new(qn_module *m, const char *name, int64_t in, int64_t out, bool bias,
                              double scale) {
    qn_init init = scale > 0 ? QN_INIT_NORMAL : QN_INIT_UNIFORM;
    if (scale <= 0) scale = 1 / sqrt((double)(in > 0 ? in : 1));
    qn_linear_layer l = {.weight =
                             parameter(m, name, "weight", 2, (int64_t[]){out, in}, init, scale)};
    if (bias) l.bias = parameter(m, name, "bias", 1, (int64_t[]){out}, QN_INIT_ZEROS, 0);
    if (bias && !l.bias) l.weight = NULL;
    return l;
}

qn_tensor *qn_linear_forward(const qn_linear_layer *l, qn_tensor *x) {
    return enter(l, x, "linear_forward") ? qn_linear(x, l->weight, l->bias) : NULL;
}

/* ---- convolution -------------------------------------------------------------------------- */

qn_conv_layer qn_conv_new(qn_module *m, const char *name, int64_t in, int64_t out, int space,
                          const int64_t *kernel, bool bias, const qn_conv_options *options) {
    qn_conv_layer l = {.bias = NULL};
    if (options) l.options = *options;
    int64_t groups = l.options.groups ? l.options.groups : 1, shape[5] = {out}, places = 1;
    if (!m || !name) return l;
    if (space < 1 || space > 3 || !kernel || groups < 1 || in % groups) {
        fail(nn_context(m), QN_EARG, "conv: %d spatial axes, %lld channels in %lld groups", space,
             (long long)in, (long long)groups);
        return l;
    }
    shape[1] = in / groups;
    for (int i = 0; i < space; i++) places = sat_mul(places, shape[2 + i] = kernel[i]);
    double fan = (double)shape[1] * (double)places;
    l.weight = parameter(m, name, "weight", space + 2, shape, QN_INIT_UNIFORM,
                         1 / sqrt(fan > 0 ? fan : 1));
    if (bias) l.bias = parameter(m, name, "bias", 1, &out, QN_INIT_ZEROS, 0);
    if (bias && !l.bias) l.weight = NULL;
    return l;
}

qn_tensor *qn_conv_forward(const qn_conv_layer *l, qn_tensor *x) {
    return enter(l, x, "conv_forward") ? qn_conv(x, l->weight, l->bias, &l->options) : NULL;
}

/* ---- embedding ---------------------------------------------------------------------------- */

qn_embedding_layer qn_embedding_new(qn_module *m, const char *name, int64_t count, int64_t width,
                                    double scale) {
    return (qn_embedding_layer){.weight = parameter(m, name, "weight", 2, (int64_t[]){count, width},
                                                    QN_INIT_NORMAL, scale)};
}

qn_tensor *qn_embedding_forward(const qn_embedding_layer *l, qn_tensor *ids) {
    return enter(l, ids, "embedding_forward") ? qn_embedding(l->weight, ids) : NULL;
}

/* ---- norms -------------------------------------------------------------------------------- */

qn_norm_layer qn_layer_norm_new(qn_module *m, const char *name, int64_t width) {
    qn_norm_layer l = {.weight =
                           parameter(m, name, "weight", 1, (int64_t[]){width}, QN_INIT_ONES, 0),
                       .bias = parameter(m, name, "bias", 1, (int64_t[]){width}, QN_INIT_ZEROS, 0),
                       .epsilon = 1e-5};
    if (!l.bias) l.weight = NULL;
    return l;
}

qn_norm_layer qn_rms_norm_new(qn_module *m, const char *name, int64_t width) {
    return (qn_norm_layer){.weight =
                               parameter(m, name, "weight", 1, (int64_t[]){width}, QN_INIT_ONES, 0),
                           .epsilon = 1e-6};
}

qn_tensor *qn_norm_forward(const qn_norm_layer *l, qn_tensor *x) {
    if (!enter(l, x, "norm_forward") || !l->weight) return NULL;
    return l->bias ? qn_layer_norm(x, l->weight, l->bias, l->epsilon)
                   : qn_rms_norm(x, l->weight, l->epsilon);
}

/* ---- attention ---------------------------------------------------------------------------- */

qn_attention_layer qn_attention_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                                    bool causal, double scale, double out_scale) {
    qn_attention_layer l = {.heads = heads, .causal = causal};
    char part[NN_NAME_MOST];
    if (!m || !name) return l;
    if (heads < 1 || width < 1 || width % heads) {
        fail(nn_context(m), QN_EARG, "attention: a width of %lld does not divide into %lld heads",
             (long long)width, (long long)heads);
        return l;
    }
    if (nn_name(m, part, name, "qkv"))
        l.qkv = qn_linear_new(m, part, width, sat_mul(3, width), true, scale);
    if (nn_name(m, part, name, "out"))
        l.out = qn_linear_new(m, part, width, width, true, out_scale);
    return l;
}

/* Part `i` of [batch, time, 3 * width] as [batch, heads, time, width / heads]. */
static qn_tensor *head_split(qn_tensor *qkv, int i, int64_t heads) {
    int64_t batch = qn_dim(qkv, 0), time = qn_dim(qkv, 1), width = qn_dim(qkv, 2) / 3;
    qn_tensor *part = qn_slice(qkv, -1, i * width, (i + 1) * width, 1);
    part = qn_reshape(part, 4, (int64_t[]){batch, time, heads, width / heads});
    return qn_permute(part, 4, (int[]){0, 2, 1, 3});
}

qn_tensor *qn_attention_forward(const qn_attention_layer *l, qn_tensor *x) {
    qn_ctx *qn = enter(l, x, "attention_forward");
    if (!qn || !l->qkv.weight) return NULL;
    if (qn_rank(x) != 3)
        return fail_null(qn, QN_ESHAPE, "attention: takes [batch, time, width], not %d axes",
                         qn_rank(x));
    if (l->heads < 1) return fail_null(qn, QN_EARG, "attention: %lld heads", (long long)l->heads);
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *qkv = qn_linear_forward(&l->qkv, x);
    if (!qkv) return qn_scope_return(qn, scope, NULL);
    qn_tensor *y = qn_attention(head_split(qkv, 0, l->heads), head_split(qkv, 1, l->heads),
                                head_split(qkv, 2, l->heads), l->causal);
    y = qn_permute(y, 4, (int[]){0, 2, 1, 3});
    y = qn_reshape(y, 3, (int64_t[]){qn_dim(x, 0), qn_dim(x, 1), qn_dim(x, 2)});
    return qn_scope_return(qn, scope, qn_linear_forward(&l->out, y));
}

/* ---- transformer block -------------------------------------------------------------------- */

qn_block_layer qn_block_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                            bool causal, double scale, double out_scale) {
    qn_block_layer l = {0};
    char part[NN_NAME_MOST];
    if (!m || !name) return l;
    if (nn_name(m, part, name, "norm1")) l.norm1 = qn_layer_norm_new(m, part, width);
    if (nn_name(m, part, name, "attention"))
        l.attention = qn_attention_new(m, part, width, heads, causal, scale, out_scale);
    if (nn_name(m, part, name, "norm2")) l.norm2 = qn_layer_norm_new(m, part, width);
    if (nn_name(m, part, name, "mlp.up"))
        l.up = qn_linear_new(m, part, width, sat_mul(4, width), true, scale);
    if (nn_name(m, part, name, "mlp.down"))
        l.down = qn_linear_new(m, part, sat_mul(4, width), width, true, out_scale);
    return l;
}

qn_tensor *qn_block_forward(const qn_block_layer *l, qn_tensor *x) {
    qn_ctx *qn = enter(l, x, "block_forward");
    if (!qn) return NULL;
    qn_scope scope = qn_scope_begin(qn);
    x = qn_add(x, qn_attention_forward(&l->attention, qn_norm_forward(&l->norm1, x)));
    qn_tensor *hidden = qn_linear_forward(&l->up, qn_norm_forward(&l->norm2, x));
    x = qn_add(x, qn_linear_forward(&l->down, qn_gelu(hidden)));
    return qn_scope_return(qn, scope, x);
}
