/* play_dnnl.c - oneDNN 2, where its headers were there to build with and its library is to load.
 *
 * Every case is one primitive on plain layouts; where the library prefers a layout of its own, the
 * weights that a case calls constant are brought into it beforehand, and what is not constant is
 * brought into it, and the result out of it, within each call. The variant "sgemm" is its BLAS-like
 * entry, which beats its matmul on some shapes. */
#include "versus.h"

#if defined(__has_include)
#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#if DNNL_VERSION_MAJOR == 2
#define HAVE_DNNL 1
#endif
#endif
#endif

#ifdef HAVE_DNNL
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define API                                                                                        \
    X(engine_create)                                                                               \
    X(stream_create)                                                                               \
    X(stream_wait)                                                                                 \
    X(memory_desc_init_by_strides)                                                                 \
    X(memory_desc_init_by_tag)                                                                     \
    X(matmul_desc_init)                                                                            \
    X(primitive_desc_create)                                                                       \
    X(primitive_desc_query_md)                                                                     \
    X(primitive_create)                                                                            \
    X(memory_create)                                                                               \
    X(memory_desc_get_size)                                                                        \
    X(memory_desc_equal)                                                                           \
    X(primitive_execute)                                                                           \
    X(reorder_primitive_desc_create)                                                               \
    X(eltwise_forward_desc_init)                                                                   \
    X(softmax_forward_desc_init)                                                                   \
    X(layer_normalization_forward_desc_init)                                                       \
    X(reduction_desc_init)                                                                         \
    X(sgemm)                                                                                       \
    X(convolution_forward_desc_init)                                                               \
    X(convolution_backward_data_desc_init)                                                         \
    X(convolution_backward_weights_desc_init)                                                      \
    X(primitive_desc_destroy)                                                                      \
    X(primitive_destroy)                                                                           \
    X(memory_destroy)

static struct {
#define X(f) __typeof__(dnnl_##f) *f;
    API
#undef X
} api;

enum { STEPS = 4, ARGS = 4 };
typedef struct step {
    dnnl_primitive_t primitive;
    int n;
    dnnl_exec_arg_t arg[ARGS];
} step;

static struct {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bool sgemm;
    vs_case c;
    float *in[VS_INPUTS], *out;
    step step[STEPS];
    int steps;
} it;

static const char *open_dnnl(int threads, const char *variant) {
    void *lib = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    (void)threads;
    if (!lib) return "the library is not installed";
#define X(f)                                                                                       \
    *(void **)&api.f = dlsym(lib, "dnnl_" #f);                                                     \
    if (!api.f) return "no dnnl_" #f " in the library";
    API
#undef X
        it.sgemm = !strcmp(variant, "sgemm");
    if (api.engine_create(&it.engine, dnnl_cpu, 0)) return "no engine";
    return api.stream_create(&it.stream, it.engine, dnnl_stream_default_flags) ? "no stream" : NULL;
}

static void forget(void) {
    for (int i = 0; i < it.steps; i++) {
        for (int j = 0; j < it.step[i].n; j++) api.memory_destroy(it.step[i].arg[j].memory);
        api.primitive_destroy(it.step[i].primitive);
    }
    it.steps = 0;
}

static dnnl_memory_desc_t plain_of(dnnl_data_type_t type, int rank, const int64_t *dims,
                                   bool swapped) {
    dnnl_memory_desc_t md;
    dnnl_dims_t size, stride;
    int64_t s = 1;
    for (int i = rank - 1; i >= 0; i--) {
        size[i] = dims[i];
        stride[i] = s;
        s *= dims[i];
    }
    if (swapped) { /* the memory is [.., columns, rows] */
        stride[rank - 1] = size[rank - 2];
        stride[rank - 2] = 1;
    }
    api.memory_desc_init_by_strides(&md, rank, size, type, stride);
    return md;
}

static dnnl_memory_desc_t plain(int rank, const int64_t *dims, bool swapped) {
    return plain_of(dnnl_f32, rank, dims, swapped);
}

static dnnl_memory_desc_t any(dnnl_memory_desc_t md) {
    dnnl_dims_t dims;
    memcpy(dims, md.dims, sizeof dims);
    api.memory_desc_init_by_tag(&md, md.ndims, dims, md.data_type, dnnl_format_tag_any);
    return md;
}

/* One primitive with its arguments: pairs of an argument's number and its memory. */
static bool add(dnnl_primitive_desc_t pd, int n, const int *arg,
                const dnnl_memory_desc_t *const *md, float *const *data) {
    step *s = &it.step[it.steps];
    if (!pd || api.primitive_create(&s->primitive, pd)) return false;
    it.steps++;
    s->n = n;
    for (int i = 0; i < n; i++) {
        s->arg[i].arg = arg[i];
        if (api.memory_create(&s->arg[i].memory, md[i], it.engine, data[i])) return false;
    }
    api.primitive_desc_destroy(pd);
    return true;
}

static dnnl_primitive_desc_t desc_of(const void *op) {
    dnnl_primitive_desc_t pd = NULL;
    return api.primitive_desc_create(&pd, op, NULL, it.engine, NULL) ? NULL : pd;
}

/* Memory of layout `to` with what `data` in layout `from` holds; moved by a step of its own. The
 * step runs in every call, or once, here, when `once`. */
static float *moved(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, float *data,
                    float *target, bool once) {
    dnnl_primitive_desc_t pd = NULL;
    if (!target) target = vs_memory(api.memory_desc_get_size(to));
    if (api.reorder_primitive_desc_create(&pd, from, it.engine, to, it.engine, NULL)) return NULL;
    if (!add(pd, 2, (int[]){DNNL_ARG_FROM, DNNL_ARG_TO}, (const dnnl_memory_desc_t *[]){from, to},
             (float *[]){data, target}))
        return NULL;
    if (!once) return target;
    step *s = &it.step[--it.steps];
    api.primitive_execute(s->primitive, it.stream, s->n, s->arg);
    api.stream_wait(it.stream);
    for (int j = 0; j < s->n; j++) api.memory_destroy(s->arg[j].memory);
    api.primitive_destroy(s->primitive);
    return target;
}

static bool load_matmul(const int64_t *d, dnnl_data_type_t type, bool packed) {
    int rank = d[0] > 1 ? 3 : 2;
    const int64_t a[] = {d[0], d[1], d[3]}, b[] = {d[0], d[3], d[2]}, o[] = {d[0], d[1], d[2]};
    dnnl_memory_desc_t da = plain_of(type, rank, a + 3 - rank, false);
    dnnl_memory_desc_t db = plain_of(type, rank, b + 3 - rank, d[4]);
    dnnl_memory_desc_t dc = plain(rank, o + 3 - rank, false);
    dnnl_memory_desc_t wanted = packed ? any(db) : db;
    dnnl_matmul_desc_t op;
    if (api.matmul_desc_init(&op, &da, &wanted, NULL, &dc)) return false;
    dnnl_primitive_desc_t pd = desc_of(&op);
    if (!pd) return false;
    wanted = *api.primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    float *w = packed ? moved(&db, &wanted, it.in[1], NULL, true) : it.in[1];
    return w &&
           add(pd, 3, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
               (const dnnl_memory_desc_t *[]){&da, &wanted, &dc}, (float *[]){it.in[0], w, it.out});
}

/* A primitive from one input to the output, both of the shape [rows, columns] or as given. */
static bool load_one(const void *op, const dnnl_memory_desc_t *src, const dnnl_memory_desc_t *dst) {
    return add(desc_of(op), 2, (int[]){DNNL_ARG_SRC, DNNL_ARG_DST},
               (const dnnl_memory_desc_t *[]){src, dst}, (float *[]){it.in[0], it.out});
}

static bool load_eltwise(const vs_case *c, dnnl_alg_kind_t kind) {
    dnnl_memory_desc_t md = plain(1, c->d, false);
    dnnl_eltwise_desc_t op;
    bool linear = kind == dnnl_eltwise_linear;
    return !api.eltwise_forward_desc_init(&op, dnnl_forward_inference, kind, &md, linear ? -1 : 0,
                                          0) &&
           load_one(&op, &md, &md);
}

static bool load_rows(const vs_case *c) {
    const int64_t *d = c->d, swapped[] = {d[1], d[0]};
    dnnl_memory_desc_t md = plain(2, d, false), to = plain(2, swapped, false);
    dnnl_softmax_desc_t softmax;
    dnnl_layer_normalization_desc_t norm;
    dnnl_reduction_desc_t sum;
    switch (c->kind) {
    case VS_SOFTMAX:
        return !api.softmax_forward_desc_init(&softmax, dnnl_forward_inference, &md, 1) &&
               load_one(&softmax, &md, &md);
    case VS_LAYER_NORM:
        return !api.layer_normalization_forward_desc_init(&norm, dnnl_forward_inference, &md, NULL,
                                                          1e-5f, dnnl_normalization_flags_none) &&
               load_one(&norm, &md, &md);
    case VS_TRANSPOSE:
        to = plain(2, d, true);
        return moved(&md, &to, it.in[0], it.out, false) != NULL;
    default:
        break;
    }
    const int64_t kept[] = {c->kind == VS_SUM_ROWS ? d[0] : 1,
                            c->kind == VS_SUM_COLUMNS ? d[1] : 1};
    to = plain(2, kept, false);
    return !api.reduction_desc_init(&sum, dnnl_reduction_sum, &md, &to, 0, 0) &&
           load_one(&sum, &md, &to);
}

/* The three tensors of a convolution: as they lie here, and as the library wants them. */
typedef struct conv {
    dnnl_memory_desc_t src, weights, dst, wants_src, wants_weights, wants_dst;
    dnnl_dims_t stride, before, after;
    dnnl_primitive_desc_t forward;
} conv;

static bool read_conv(const vs_case *c, conv *v) {
    const int64_t *d = c->d;
    int64_t out = d[2] / d[5], pad = d[4] / 2, each = d[1] / d[6];
    int64_t after = (out - 1) * d[5] + d[4] - d[2] - pad;
    const dnnl_dims_t s = {d[0], d[1], d[2], d[2]}, o = {d[0], d[3], out, out};
    const int64_t w[] = {d[6], d[3] / d[6], each, d[4], d[4]}, plain_w[] = {d[3], each, d[4], d[4]};
    bool last = c->kind == VS_CONV_LAST, grad = c->kind != VS_CONV && !last;
    dnnl_format_tag_t tag = last ? dnnl_nhwc : dnnl_nchw;
    api.memory_desc_init_by_tag(&v->src, 4, s, dnnl_f32, tag);
    api.memory_desc_init_by_tag(&v->dst, 4, o, dnnl_f32, tag);
    v->weights = d[6] > 1 ? plain(5, w, false) : plain(4, plain_w, false);
    v->wants_src = last ? v->src : any(v->src);
    v->wants_dst = last ? v->dst : any(v->dst);
    v->wants_weights = any(v->weights);
    for (int i = 0; i < 2; i++) v->stride[i] = d[5], v->before[i] = pad, v->after[i] = after;
    dnnl_convolution_desc_t op;
    if (api.convolution_forward_desc_init(
            &op, grad ? dnnl_forward_training : dnnl_forward_inference, dnnl_convolution_direct,
            &v->wants_src, &v->wants_weights, NULL, &v->wants_dst, v->stride, v->before, v->after))
        return false;
    v->forward = desc_of(&op);
    return v->forward != NULL;
}

/* A memory to read in the layout wanted: as it lies, or brought there, in each call or once. */
static float *wanted(const dnnl_memory_desc_t *here, const dnnl_memory_desc_t *want, float *data,
                     bool once) {
    return api.memory_desc_equal(here, want) ? data : moved(here, want, data, NULL, once);
}

/* The primitive and what brings its result to where it belongs. */
static bool add_conv(dnnl_primitive_desc_t pd, const int *arg, const dnnl_memory_desc_t *a,
                     const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *want,
                     const dnnl_memory_desc_t *here, float *from_a, float *from_b) {
    bool same = api.memory_desc_equal(here, want);
    float *to = same ? it.out : vs_memory(api.memory_desc_get_size(want));
    return from_a && from_b &&
           add(pd, 3, arg, (const dnnl_memory_desc_t *[]){a, b, want},
               (float *[]){from_a, from_b, to}) &&
           (same || moved(want, here, to, it.out, false));
}

/* Weights packed once; images in NCHW or NHWC, moved to and from what the library prefers. */
static bool load_conv(const vs_case *c) {
    conv v;
    if (!read_conv(c, &v)) return false;
    dnnl_memory_desc_t s = *api.primitive_desc_query_md(v.forward, dnnl_query_src_md, 0);
    dnnl_memory_desc_t w = *api.primitive_desc_query_md(v.forward, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t o = *api.primitive_desc_query_md(v.forward, dnnl_query_dst_md, 0);
    float *weights = wanted(&v.weights, &w, it.in[1], true);
    float *from = wanted(&v.src, &s, it.in[0], false);
    return add_conv(v.forward, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, &s, &w, &o,
                    &v.dst, from, weights);
}

static bool load_conv_grad(const vs_case *c) {
    conv v;
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t pd;
    bool data = c->kind == VS_CONV_DATA;
    if (!read_conv(c, &v)) return false;
    if (data ? api.convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &v.wants_src,
                                                       &v.wants_weights, &v.wants_dst, v.stride,
                                                       v.before, v.after)
             : api.convolution_backward_weights_desc_init(
                   &op, dnnl_convolution_direct, &v.wants_src, &v.wants_weights, NULL, &v.wants_dst,
                   v.stride, v.before, v.after))
        return false;
    if (api.primitive_desc_create(&pd, &op, NULL, it.engine, v.forward)) return false;
    dnnl_memory_desc_t g = *api.primitive_desc_query_md(pd, dnnl_query_diff_dst_md, 0);
    float *grad = wanted(&v.dst, &g, it.in[2], false);
    if (data) {
        dnnl_memory_desc_t w = *api.primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
        dnnl_memory_desc_t s = *api.primitive_desc_query_md(pd, dnnl_query_diff_src_md, 0);
        return add_conv(pd, (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}, &g, &w,
                        &s, &v.src, grad, wanted(&v.weights, &w, it.in[1], false));
    }
    dnnl_memory_desc_t s = *api.primitive_desc_query_md(pd, dnnl_query_src_md, 0);
    dnnl_memory_desc_t w = *api.primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0);
    return add_conv(pd, (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS}, &g, &s, &w,
                    &v.weights, grad, wanted(&v.src, &s, it.in[0], false));
}

static bool load_primitive(const vs_case *c) {
    switch (c->kind) {
    case VS_GEMM:
        return load_matmul(c->d, dnnl_f32, false);
    case VS_GEMM_PACKED:
        return load_matmul(c->d, dnnl_f32, true);
    case VS_GEMM_I8:
        return load_matmul(c->d, dnnl_s8, c->d[5]);
    case VS_GEMM_BF16:
        return load_matmul(c->d, dnnl_bf16, c->d[5]);
    case VS_NEG:
        return load_eltwise(c, dnnl_eltwise_linear);
    case VS_EXP:
        return load_eltwise(c, dnnl_eltwise_exp);
    case VS_TANH:
        return load_eltwise(c, dnnl_eltwise_tanh);
    case VS_GELU:
        return load_eltwise(c, dnnl_eltwise_gelu_erf);
    case VS_GELU_TANH:
        return load_eltwise(c, dnnl_eltwise_gelu_tanh);
    case VS_SUM_ALL:
    case VS_SUM_ROWS:
    case VS_SUM_COLUMNS:
    case VS_SOFTMAX:
    case VS_LAYER_NORM:
    case VS_TRANSPOSE:
        return load_rows(c);
    case VS_CONV:
    case VS_CONV_LAST:
        return load_conv(c);
    case VS_CONV_DATA:
    case VS_CONV_WEIGHTS:
        return load_conv_grad(c);
    default:
        return false;
    }
}

/* The numbers in a narrow type, in their own memory. */
static void narrow(vs_kind kind, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if (kind == VS_GEMM_I8)
            ((int8_t *)x)[i] = (int8_t)(x[i] * 127.f);
        else if (kind == VS_GEMM_BF16)
            ((uint16_t *)x)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static const char *load_dnnl(const vs_case *c) {
    if (it.sgemm && c->kind != VS_GEMM) return "products only";
    forget();
    it.c = *c;
    for (int i = 0; i < VS_INPUTS; i++) {
        int64_t n = vs_input(c, i);
        it.in[i] = n ? vs_memory((size_t)n * 4) : NULL;
        if (n) vs_fill(it.in[i], (uint32_t)i, n);
        narrow(c->kind, it.in[i], n);
    }
    it.out = vs_memory((size_t)vs_output(c) * 4);
    if (it.sgemm) return NULL;
    return load_primitive(c) ? NULL : "no primitive for it";
}

static bool call_dnnl(void) {
    const int64_t *d = it.c.d;
    for (int64_t b = 0; it.sgemm && b < d[0]; b++)
        if (api.sgemm('N', d[4] ? 'T' : 'N', d[1], d[2], d[3], 1, it.in[0] + b * d[1] * d[3], d[3],
                      it.in[1] + b * d[2] * d[3], d[4] ? d[3] : d[2], 0, it.out + b * d[1] * d[2],
                      d[2]))
            return false;
    for (int i = 0; i < it.steps; i++)
        if (api.primitive_execute(it.step[i].primitive, it.stream, it.step[i].n, it.step[i].arg))
            return false;
    return !api.stream_wait(it.stream);
}

static double value_dnnl(int64_t i) {
    return (double)it.out[i];
}
#else
static const char *open_dnnl(int threads, const char *variant) {
    (void)threads;
    (void)variant;
    return "built without its headers (libdnnl-dev)";
}
static const char *load_dnnl(const vs_case *c) {
    (void)c;
    return "not here";
}
static bool call_dnnl(void) {
    return false;
}
static double value_dnnl(int64_t i) {
    return (double)i;
}
#endif

const vs_player vs_dnnl = {"onednn", open_dnnl, load_dnnl, call_dnnl, value_dnnl, NULL};
