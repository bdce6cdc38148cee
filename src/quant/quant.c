/* quant.c - the public calls: rows of blocks as tensors, whatever the type. */
#include "quant/quant.h"

static const quant_type types[] = {
#define MADE_0(name) NULL
#define MADE_1(name) quantize_##name
#define X(NAME, name, elements, bytes, QUANTIZE)                                                   \
    {QN_##NAME, #name, elements, bytes, quant_##name, MADE_##QUANTIZE(name)},
#include "quant/types.h"
#undef X
};
enum { TYPES = COUNT_OF(types) };

const quant_type *quant_find(int type) {
    for (int i = 0; i < TYPES; i++)
        if ((int)types[i].type == type) return &types[i];
    return NULL;
}

qn_quant qn_quant_at(int i, const char **name, int *elements, int *bytes, bool *made) {
    if (i < 0 || i >= TYPES) return QN_QUANT_NONE;
    if (name) *name = types[i].name;
    if (elements) *elements = types[i].elements;
    if (bytes) *bytes = types[i].bytes;
    if (made) *made = types[i].make != NULL;
    return types[i].type;
}

const char *qn_quant_name(qn_quant type) {
    const quant_type *t = quant_find((int)type);
    return t ? t->name : NULL;
}

/* x as rows [R, from], read by `f`, with the last axis `from` elements long for each `to`. */
static qn_tensor *by_rows(qn_tensor *x, int64_t from, int64_t to, quant_read *f) {
    qn_ctx *qn = tensor_ctx(x);
    int64_t dims[QN_MAX_RANK], rows = 1, lo, hi;
    int rank = func_dims(x, dims);
    int64_t last = rank ? dims[rank - 1] : -1;
    if (last < 0 || last % from) {
        if (rank && qn_dim_range(qn, last, &lo, &hi)) return NULL;
        return fail_null(qn, QN_ESHAPE, "%s: the last of %d axes, of size %s, is no row of %lld",
                         graph_name(qn, "quant"), rank, rank ? qn_dim_text(qn, last) : "none",
                         (long long)from);
    }
    dims[rank - 1] = last / from;
    for (int i = 0; i < rank; i++) rows = qn_dim_mul(qn, rows, dims[i]);
    qn_tensor *y = f(qn_reshape(x, 2, (int64_t[]){rows, from}));
    dims[rank - 1] = last / from * to;
    return qn_reshape(y, rank, dims);
}

static const quant_type *type_for(qn_ctx *qn, const char *call, qn_quant type, bool make) {
    const quant_type *t = quant_find((int)type);
    if (t && (!make || t->make)) return t;
    fail(qn, QN_EARG, "%s: %s%s%d", graph_name(qn, call), t ? t->name : "",
         t ? " is only read: type " : "no type of blocks: ", (int)type);
    return NULL;
}

qn_tensor *qn_dequantize(qn_tensor *blocks, qn_quant type) {
    func_frame f = func_on("dequantize", ARG(blocks));
    const quant_type *t = blocks ? type_for(f.qn, "dequantize", type, false) : NULL;
    if (!t) return func_end(f, NULL);
    if (qn_dtype_of(blocks) != QN_U8)
        return func_end(f, fail_null(f.qn, QN_EDTYPE, "dequantize: blocks are u8, not %s",
                                     qn_dtype_name(qn_dtype_of(blocks))));
    return func_end(f, by_rows(blocks, t->bytes, t->elements, t->read));
}

static qn_tensor *scales_read(qn_tensor *rows) {
    return qn_view(qn_slice(rows, 1, 0, 2, 1), QN_F16);
}

qn_tensor *quant_scales(qn_tensor *blocks, int type) {
    return by_rows(blocks, quant_find(type)->bytes, 1, scales_read);
}

qn_tensor *quant_half_scales(qn_tensor *halves, int type) {
    int last = halves ? func_rank(halves) - 1 : 0;
    int64_t each = quant_find(type)->bytes / 2;
    return qn_select(qn_unflatten(halves, last, 2, (const int64_t[]){-1, each}), last + 1, 0);
}

qn_tensor *quant_whole_of(qn_tensor *blocks, int type) {
    const quant_type *t = quant_find(type);
    return by_rows(blocks, t->bytes, t->elements, quant_whole(type));
}

qn_tensor *quant_by_scales(qn_tensor *blocks, qn_tensor *scales, int type) {
    const quant_type *t = quant_find(type);
    qn_tensor *whole = quant_float(quant_whole_of(blocks, type));
    int last = func_rank(whole) - 1;
    qn_tensor *y = qn_unflatten(whole, last, 2, (int64_t[]){-1, t->elements});
    return qn_flatten(qn_mul(qn_cast(qn_unsqueeze(scales, -1), QN_F32), y), last, last + 1);
}

qn_tensor *qn_quantize(qn_tensor *x, qn_quant type) {
    func_frame f = func_on("quantize", ARG(x));
    const quant_type *t = x ? type_for(f.qn, "quantize", type, true) : NULL;
    if (!t) return func_end(f, NULL);
    if (!dtype_is_float((int)qn_dtype_of(x)))
        return func_end(f, fail_null(f.qn, QN_EDTYPE, "quantize: takes floats, not %s",
                                     qn_dtype_name(qn_dtype_of(x))));
    x = qn_detach(func_as(x, QN_F32));
    return func_end(f, by_rows(x, t->elements, t->bytes, t->make));
}
