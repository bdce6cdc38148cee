/* layers.c - the layers: parameters under names in a module, and what they do to an input.
 *
 * A layer is an object of its module, which owns and frees it: a row of `kinds`, tensors that are
 * parameters of the module, and layers that it is made of. Making one that fails gives NULL and
 * leaves the first error in the context; a NULL layer makes every later result NULL, so models are
 * built without checks and looked at once. Formulas and names are PyTorch's. */
#include "nn/nn.h"

#include <math.h>
#include <stdio.h>

enum { PARTS = 5 };

struct layer {
    nn_layer link; /* first: the module frees it */
    const struct layer_kind *kind;
    qn_tensor *weight, *bias; /* bias NULL: none */
    qn_conv_options conv;
    double epsilon;
    int64_t heads;
    bool causal;
    struct layer *part[PARTS]; /* of the same module */
};
typedef struct layer layer;

typedef struct layer_kind {
    const char *name;
    qn_tensor *(*apply)(const layer *l, qn_tensor *x);
} layer_kind;

/* ---- making --------------------------------------------------------------------------------- */

/* What a _new was given, read once. */
typedef struct making {
    qn_module *m;
    qn_ctx *qn;
    const char *call, *name;
    qn_layer_options o;
} making;

static bool begin(making *b, qn_module *m, const char *call, const char *name,
                  const qn_layer_options *options) {
    *b = (making){.m = m, .qn = nn_context(m), .call = call, .name = name};
    b->o = QN_LAYER_OPTIONS();
    if (!b->qn) return false;
    if (!name) return fail_null(b->qn, QN_ENULL, "%s: the name is NULL", call);
    return struct_take(b->qn, call, "qn_layer_options", &b->o, sizeof b->o, options);
}

/* A parameter "<name>.<part>", uniform within `scale` or with that deviation. */
static qn_tensor *parameter(const making *b, const char *part, int rank, const int64_t *shape,
                            qn_init kind, double scale) {
    char full[NN_NAME_MOST];
    if (!nn_name(b->m, full, b->name, part)) return NULL;
    return qn_module_parameter(b->m, full, QN_F32, rank, shape,
                               &QN_INIT_OPTIONS(.kind = kind, .scale = scale));
}

static qn_tensor *zeros(const making *b, const char *part, int64_t n) {
    return parameter(b, part, 1, &n, QN_INIT_ZEROS, 0);
}

static layer *fresh(const making *b, const layer_kind *kind) {
    layer *l = heap_try(&b->qn->heap, sizeof *l);
    if (!l) return fail_null(b->qn, QN_ENOMEM, "%s: out of memory", b->call);
    *l = (layer){.link = {.size = sizeof *l}, .kind = kind};
    return l;
}

/* The module's from now on; NULL, and it is gone, where it is not whole. */
static qn_layer *finish(const making *b, layer *l, bool whole) {
    qn_layer *known = l && whole ? nn_layer_keep(b->m, &l->link) : NULL;
    if (l && !known) heap_free(&b->qn->heap, l, sizeof *l);
    return known;
}

static layer *layer_of(const qn_layer *known, const char *call) {
    return object_of(known, HANDLE_LAYER, call);
}

/* ---- linear --------------------------------------------------------------------------------- */

static qn_tensor *apply_linear(const layer *l, qn_tensor *x) {
    return qn_linear(x, l->weight, l->bias);
}
static const layer_kind linear_kind = {"linear", apply_linear};

qn_layer *qn_linear_new(qn_module *m, const char *name, int64_t in, int64_t out,
                        const qn_layer_options *options) {
    making b;
    if (!begin(&b, m, "linear_new", name, options)) return NULL;
    layer *l = fresh(&b, &linear_kind);
    if (!l) return NULL;
    bool normal = b.o.scale > 0;
    double scale = normal ? b.o.scale : 1 / sqrt((double)(in > 0 ? in : 1));
    l->weight = parameter(&b, "weight", 2, (int64_t[]){out, in},
                          normal ? QN_INIT_NORMAL : QN_INIT_UNIFORM, scale);
    if (l->weight && !b.o.no_bias) l->bias = zeros(&b, "bias", out);
    return finish(&b, l, l->weight && (b.o.no_bias || l->bias));
}

/* ---- convolution ---------------------------------------------------------------------------- */

static qn_tensor *apply_conv(const layer *l, qn_tensor *x) {
    return qn_conv(x, l->weight, l->bias, &l->conv);
}
static const layer_kind conv_kind = {"conv", apply_conv};

qn_layer *qn_conv_new(qn_module *m, const char *name, int64_t in, int64_t out, int space,
                      const int64_t *kernel, const qn_layer_options *options) {
    making b;
    if (!begin(&b, m, "conv_new", name, options)) return NULL;
    layer *l = fresh(&b, &conv_kind);
    if (!l) return NULL;
    l->conv = QN_CONV_OPTIONS();
    if (!struct_take(b.qn, b.call, "qn_conv_options", &l->conv, sizeof l->conv, b.o.conv))
        return finish(&b, l, false);
    int64_t groups = l->conv.groups ? l->conv.groups : 1, shape[5] = {out}, places = 1;
    if (space < 1 || space > 3 || !kernel || groups < 1 || in % groups) {
        fail(b.qn, QN_EARG, "conv_new: %d spatial axes, %lld channels in %lld groups", space,
             (long long)in, (long long)groups);
        return finish(&b, l, false);
    }
    shape[1] = in / groups;
    for (int i = 0; i < space; i++) places = sat_mul(places, shape[2 + i] = kernel[i]);
    double fan = (double)shape[1] * (double)places;
    l->weight =
        parameter(&b, "weight", space + 2, shape, QN_INIT_UNIFORM, 1 / sqrt(fan > 0 ? fan : 1));
    if (l->weight && !b.o.no_bias) l->bias = zeros(&b, "bias", out);
    return finish(&b, l, l->weight && (b.o.no_bias || l->bias));
}

/* ---- embedding ------------------------------------------------------------------------------ */

static qn_tensor *apply_embedding(const layer *l, qn_tensor *ids) {
    return qn_embedding(l->weight, ids);
}
static const layer_kind embedding_kind = {"embedding", apply_embedding};

qn_layer *qn_embedding_new(qn_module *m, const char *name, int64_t count, int64_t width,
                           const qn_layer_options *options) {
    making b;
    if (!begin(&b, m, "embedding_new", name, options)) return NULL;
    layer *l = fresh(&b, &embedding_kind);
    if (!l) return NULL;
    l->weight = parameter(&b, "weight", 2, (int64_t[]){count, width}, QN_INIT_NORMAL,
                          b.o.scale > 0 ? b.o.scale : 1);
    return finish(&b, l, l->weight != NULL);
}

/* ---- norms ---------------------------------------------------------------------------------- */

static qn_tensor *apply_layer_norm(const layer *l, qn_tensor *x) {
    return qn_layer_norm(x, l->weight, l->bias, l->epsilon);
}
static qn_tensor *apply_rms_norm(const layer *l, qn_tensor *x) {
    return qn_rms_norm(x, l->weight, l->epsilon);
}
static const layer_kind layer_norm_kind = {"layer_norm", apply_layer_norm};
static const layer_kind rms_norm_kind = {"rms_norm", apply_rms_norm};

static qn_layer *norm_new(const making *b, const layer_kind *kind, int64_t width, double epsilon) {
    layer *l = fresh(b, kind);
    bool bias = kind == &layer_norm_kind && !b->o.no_bias;
    if (!l) return NULL;
    l->epsilon = b->o.epsilon > 0 ? b->o.epsilon : epsilon;
    l->weight = parameter(b, "weight", 1, &width, QN_INIT_ONES, 0);
    if (l->weight && bias) l->bias = zeros(b, "bias", width);
    return finish(b, l, l->weight && (!bias || l->bias));
}

qn_layer *qn_layer_norm_new(qn_module *m, const char *name, int64_t width,
                            const qn_layer_options *options) {
    making b;
    if (!begin(&b, m, "layer_norm_new", name, options)) return NULL;
    return norm_new(&b, &layer_norm_kind, width, 1e-5);
}

qn_layer *qn_rms_norm_new(qn_module *m, const char *name, int64_t width,
                          const qn_layer_options *options) {
    making b;
    if (!begin(&b, m, "rms_norm_new", name, options)) return NULL;
    return norm_new(&b, &rms_norm_kind, width, 1e-6);
}

/* ---- layers of layers ----------------------------------------------------------------------- */

/* Part "<name>.<part>" of another; NULL where the part before it failed. */
static bool part_name(const making *b, const char *part, char full[NN_NAME_MOST]) {
    return nn_name(b->m, full, b->name, part);
}

static layer *linear_part(const making *b, const char *part, int64_t in, int64_t out,
                          double scale) {
    char full[NN_NAME_MOST];
    if (!part_name(b, part, full)) return NULL;
    return layer_of(qn_linear_new(b->m, full, in, out,
                                  &QN_LAYER_OPTIONS(.scale = scale, .no_bias = b->o.no_bias)),
                    b->call);
}

static layer *norm_part(const making *b, const char *part, int64_t width) {
    char full[NN_NAME_MOST];
    if (!part_name(b, part, full)) return NULL;
    return layer_of(
        qn_layer_norm_new(b->m, full, width, &QN_LAYER_OPTIONS(.epsilon = b->o.epsilon)), b->call);
}

static bool all_parts(const layer *l, int n) {
    for (int i = 0; i < n; i++)
        if (!l->part[i]) return false;
    return true;
}

static qn_tensor *apply(const layer *l, qn_tensor *x) {
    return x ? l->kind->apply(l, x) : NULL;
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

static qn_tensor *apply_attention(const layer *l, qn_tensor *x) {
    if (qn_rank(x) != 3)
        return fail_null(handle_at(x)->ctx, QN_ESHAPE,
                         "attention: takes [batch, time, width], not %d axes", qn_rank(x));
    qn_tensor *qkv = apply(l->part[QKV], x);
    if (!qkv) return NULL;
    qn_tensor *y =
        qn_attention(head_split(qkv, 0, l->heads), head_split(qkv, 1, l->heads),
                     head_split(qkv, 2, l->heads), &QN_ATTENTION_OPTIONS(.causal = l->causal));
    y = qn_permute(y, 4, (int[]){0, 2, 1, 3});
    y = qn_reshape(y, 3, (int64_t[]){qn_dim(x, 0), qn_dim(x, 1), qn_dim(x, 2)});
    return apply(l->part[OUT], y);
}
static const layer_kind attention_kind = {"attention", apply_attention};

qn_layer *qn_attention_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                           const qn_layer_options *options) {
    making b;
    if (!begin(&b, m, "attention_new", name, options)) return NULL;
    if (heads < 1 || width < 1 || width % heads)
        return fail_null(b.qn, QN_EARG,
                         "attention_new: a width of %lld does not divide into %lld heads",
                         (long long)width, (long long)heads);
    layer *l = fresh(&b, &attention_kind);
    if (!l) return NULL;
    l->heads = heads, l->causal = b.o.causal;
    l->part[QKV] = linear_part(&b, "qkv", width, sat_mul(3, width), b.o.scale);
    double scale = b.o.out_scale > 0 ? b.o.out_scale : b.o.scale;
    if (l->part[QKV]) l->part[OUT] = linear_part(&b, "out", width, width, scale);
    return finish(&b, l, all_parts(l, ATTENTION_PARTS));
}

/* ---- transformer block ---------------------------------------------------------------------- */

enum { NORM1, ATTENTION, NORM2, UP, DOWN, BLOCK_PARTS };
_Static_assert((int)BLOCK_PARTS <= (int)PARTS, "a layer has room for the parts of a block");

static qn_tensor *apply_block(const layer *l, qn_tensor *x) {
    x = qn_add(x, apply(l->part[ATTENTION], apply(l->part[NORM1], x)));
    qn_tensor *hidden = apply(l->part[UP], apply(l->part[NORM2], x));
    return qn_add(x, apply(l->part[DOWN], qn_gelu(hidden)));
}
static const layer_kind block_kind = {"block", apply_block};

qn_layer *qn_block_new(qn_module *m, const char *name, int64_t width, int64_t heads,
                       const qn_layer_options *options) {
    making b;
    char inner[NN_NAME_MOST];
    if (!begin(&b, m, "block_new", name, options)) return NULL;
    layer *l = fresh(&b, &block_kind);
    if (!l) return NULL;
    double scale = b.o.out_scale > 0 ? b.o.out_scale : b.o.scale;
    l->part[NORM1] = norm_part(&b, "norm1", width);
    if (l->part[NORM1] && part_name(&b, "attention", inner))
        l->part[ATTENTION] = layer_of(qn_attention_new(m, inner, width, heads, &b.o), b.call);
    if (l->part[ATTENTION]) l->part[NORM2] = norm_part(&b, "norm2", width);
    if (l->part[NORM2])
        l->part[UP] = linear_part(&b, "mlp.up", width, sat_mul(4, width), b.o.scale);
    if (l->part[UP]) l->part[DOWN] = linear_part(&b, "mlp.down", sat_mul(4, width), width, scale);
    return finish(&b, l, all_parts(l, BLOCK_PARTS));
}

/* ---- applying ------------------------------------------------------------------------------- */

qn_tensor *qn_layer_forward(const qn_layer *known, qn_tensor *x) {
    const handle *h = x ? handle_check(NULL, x, HANDLE_TENSOR, "layer_forward", "x") : NULL;
    if (!h) return NULL;
    if (!handle_check(h->ctx, known, HANDLE_LAYER, "layer_forward", "the layer")) return NULL;
    const layer *l = handle_at(known)->object;
    qn_scope scope = qn_scope_begin(h->ctx);
    return qn_scope_return(h->ctx, scope, apply(l, x));
}
