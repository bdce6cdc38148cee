/* layers.c - layers by functions of their own: the plain ones, which are kinds of layers/rows.h
 * with initial values of a deviation, and GPT's attention and block, which are layers of layers.
 *
 * Making one that fails gives NULL and leaves the first error in the context; a NULL layer makes
 * every later result NULL, so models are built without checks and looked at once. */
#include "nn/layers/layers.h"

#include <math.h>

static layer *layer_at(const qn_layer *known, const char *call) {
    return object_of(known, HANDLE_LAYER, call);
}

/* What a _new was given, read once; biases start at zero. */
static bool begin(making *b, qn_module *m, const char *call, const char *name,
                  const qn_layer_options *given, qn_layer_options *o) {
    if (!making_begin(b, m, call, name)) return false;
    b->bare_bias = true;
    *o = QN_LAYER_OPTIONS();
    if (!struct_take(b->qn, call, "qn_layer_options", o, sizeof *o, given)) return false;
    o->key = NULL;
    return true;
}

/* A layer of a kind, of options that are read. */
static qn_layer *of_kind(making *b, const char *kind, const qn_layer_options *o) {
    return layer_known(layer_make(b, layer_row_of(b->qn, b->call, kind), o));
}

/* ---- plain layers --------------------------------------------------------------------------- */

qn_layer *qn_linear_new(qn_module *m, const char *name, int64_t in, int64_t out,
                        const qn_layer_options *options) {
    making b;
    qn_layer_options o;
    if (!begin(&b, m, "linear_new", name, options, &o)) return NULL;
    o.in = in, o.out = out;
    return of_kind(&b, "Linear", &o);
}

qn_layer *qn_conv_new(qn_module *m, const char *name, int64_t in, int64_t out, int space,
                      const int64_t *kernel, const qn_layer_options *options) {
    static const char *const kinds[] = {"Conv1d", "Conv2d", "Conv3d"};
    making b;
    qn_layer_options o;
    qn_conv_options conv = QN_CONV_OPTIONS();
    if (!begin(&b, m, "conv_new", name, options, &o)) return NULL;
    if (!struct_take(b.qn, b.call, "qn_conv_options", &conv, sizeof conv, o.conv)) return NULL;
    o.groups = conv.groups ? conv.groups : 1;
    if (space < 1 || space > 3 || !kernel || o.groups < 1 || in % o.groups)
        return fail_null(b.qn, QN_EARG, "conv_new: %d spatial axes, %lld channels in %lld groups",
                         space, (long long)in, (long long)o.groups);
    o.in = in, o.out = out, o.conv = &conv;
    for (int i = 0; i < space; i++) o.kernel[i] = kernel[i];
    return of_kind(&b, kinds[space - 1], &o);
}

qn_layer *qn_embedding_new(qn_module *m, const char *name, int64_t count, int64_t width,
                           const qn_layer_options *options) {
    making b;
    qn_layer_options o;
    if (!begin(&b, m, "embedding_new", name, options, &o)) return NULL;
    o.in = count, o.out = width, o.index = 0;
    return of_kind(&b, "Embedding", &o);
}

static qn_layer *norm_new(making *b, const char *kind, qn_layer_options *o, int64_t width,
                          double epsilon) {
    if (!(o->epsilon > 0)) o->epsilon = epsilon;
    o->shape[0] = width, o->shape[1] = 0, o->affine = 1;
    return of_kind(b, kind, o);
}

qn_layer *qn_layer_norm_new(qn_module *m, const char *name, int64_t width,
                            const qn_layer_options *options) {
    making b;
    qn_layer_options o;
    if (!begin(&b, m, "layer_norm_new", name, options, &o)) return NULL;
    return norm_new(&b, "LayerNorm", &o, width, 1e-5);
}

qn_layer *qn_rms_norm_new(qn_module *m, const char *name, int64_t width,
                          const qn_layer_options *options) {
    making b;
    qn_layer_options o;
    if (!begin(&b, m, "rms_norm_new", name, options, &o)) return NULL;
    return norm_new(&b, "RMSNorm", &o, width, 1e-6);
}

/* ---- layers of layers ----------------------------------------------------------------------- */

/* A part "<name>.<part>", linear or a norm. */
static layer *linear_part(making *b, const char *part, int64_t in, int64_t out, double scale) {
    char full[NN_NAME_MOST];
    if (!nn_name(b->m, full, b->name, part)) return NULL;
    return layer_at(qn_linear_new(b->m, full, in, out,
                                  &QN_LAYER_OPTIONS(.scale = scale, .no_bias = b->o->no_bias)),
                    b->call);
}

static layer *norm_part(making *b, const char *part, int64_t width) {
    char full[NN_NAME_MOST];
    if (!nn_name(b->m, full, b->name, part)) return NULL;
    return layer_at(
        qn_layer_norm_new(b->m, full, width, &QN_LAYER_OPTIONS(.epsilon = b->o->epsilon)), b->call);
}

/* A layer of n parts, if they are all there. */
static qn_layer *of_parts(making *b, const layer_row *row, int n, layer *const *part) {
    for (int i = 0; i < n; i++)
        if (!part[i]) return NULL;
    layer *l = layer_make(b, row, b->o);
    if (l) memcpy(l->part, part, (size_t)n * sizeof *part);
    return layer_known(l);
}

/* ---- attention ------------------------------------------------------------------------------ */

enum { QKV, OUT, ATTENTION_PARTS };

/* Part `i` of [batch, time, 3 * width] as [batch, heads, time, width / heads]. */
static qn_tensor *head_split(qn_tensor *qkv, int i, int64_t heads) {
    int64_t batch = qn_dim(qkv, 0), time = qn_dim(qkv, 1), width = qn_dim(qkv, 2) / 3;
    qn_tensor *part = qn_slice(qkv, -1, i * width, (i + 1) * width, 1);
    part = qn_reshape(part, 4, (int64_t[]){batch, time, heads, width / heads});
    return qn_permute(part, 4, (int[]){0, 2, 1, 3});
}

static qn_tensor *attend(calling *c, qn_tensor *x) {
    const layer *l = c->made;
    int64_t heads = l->o.heads;
    if (qn_rank(x) != 3)
        return fail_null(c->qn, QN_ESHAPE, "attention: takes [batch, time, width], not %d axes",
                         qn_rank(x));
    qn_tensor *qkv = layer_apply(l->part[QKV], x);
    if (!qkv) return NULL;
    qn_tensor *y =
        qn_attention(head_split(qkv, 0, heads), head_split(qkv, 1, heads),
                     head_split(qkv, 2, heads), &QN_ATTENTION_OPTIONS(.causal = l->o.causal));
    y = qn_permute(y, 4, (int[]){0, 2, 1, 3});
    y = qn_reshape(y, 3, (int64_t[]){qn_dim(x, 0), qn_dim(x, 1), qn_dim(x, 2)});
    return layer_apply(l->part[OUT], y);
}

static void apply_attention(calling *c) {
    c->out[0] = attend(c, c->in[0]);
}
static const layer_row attention_row = {
    .name = "attention", .arguments = "", .apply = apply_attention, .least = 1, .most = 1};

qn_layer *qn_attention_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                           const qn_layer_options *options) {
    making b;
    qn_layer_options o;
    layer *part[ATTENTION_PARTS] = {0};
    if (!begin(&b, m, "attention_new", name, options, &o)) return NULL;
    if (heads < 1 || width < 1 || width % heads)
        return fail_null(b.qn, QN_EARG,
                         "attention_new: a width of %lld does not divide into %lld heads",
                         (long long)width, (long long)heads);
    o.heads = heads, o.conv = NULL, o.p = 0, b.o = &o;
    part[QKV] = linear_part(&b, "qkv", width, sat_mul(3, width), o.scale);
    double scale = o.out_scale > 0 ? o.out_scale : o.scale;
    if (part[QKV]) part[OUT] = linear_part(&b, "out", width, width, scale);
    return of_parts(&b, &attention_row, ATTENTION_PARTS, part);
}

/* ---- transformer block ---------------------------------------------------------------------- */

enum { NORM1, ATTENTION, NORM2, UP, DOWN, BLOCK_PARTS };
_Static_assert((int)BLOCK_PARTS <= (int)LAYER_PARTS, "a layer has room for the parts of a block");

static void apply_block(calling *c) {
    layer *const *part = c->made->part;
    qn_tensor *x = c->in[0];
    x = qn_add(x, layer_apply(part[ATTENTION], layer_apply(part[NORM1], x)));
    qn_tensor *hidden = layer_apply(part[UP], layer_apply(part[NORM2], x));
    c->out[0] = qn_add(x, layer_apply(part[DOWN], qn_gelu(hidden)));
}
static const layer_row block_row = {
    .name = "block", .arguments = "", .apply = apply_block, .least = 1, .most = 1};

qn_layer *qn_block_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                       const qn_layer_options *options) {
    making b;
    qn_layer_options o;
    char inner[NN_NAME_MOST];
    layer *part[BLOCK_PARTS] = {0};
    if (!begin(&b, m, "block_new", name, options, &o)) return NULL;
    o.conv = NULL, o.p = 0, b.o = &o;
    double scale = o.out_scale > 0 ? o.out_scale : o.scale;
    part[NORM1] = norm_part(&b, "norm1", width);
    if (part[NORM1] && nn_name(m, inner, name, "attention"))
        part[ATTENTION] = layer_at(qn_attention_new(m, inner, width, heads, &o), b.call);
    if (part[ATTENTION]) part[NORM2] = norm_part(&b, "norm2", width);
    if (part[NORM2]) part[UP] = linear_part(&b, "mlp.up", width, sat_mul(4, width), o.scale);
    if (part[UP]) part[DOWN] = linear_part(&b, "mlp.down", sat_mul(4, width), width, scale);
    return of_parts(&b, &block_row, BLOCK_PARTS, part);
}
