/* parts.c - the few expressions that all block types are written with. */
#include "quant/quant.h"

qn_tensor *quant_bytes(qn_tensor *rows, int64_t from, int64_t n) {
    return qn_cast(qn_slice(rows, 1, from, from + n, 1), QN_I32);
}

qn_tensor *quant_words(qn_tensor *rows, int64_t from, int64_t n) {
    return qn_cast(qn_view(qn_slice(rows, 1, from, from + 2 * n, 1), QN_U16), QN_I32);
}

qn_tensor *quant_longs(qn_tensor *rows, int64_t from, int64_t n) {
    return qn_view(qn_slice(rows, 1, from, from + 4 * n, 1), QN_I32);
}

qn_tensor *quant_half(qn_tensor *rows, int64_t from) {
    return qn_cast(qn_view(qn_slice(rows, 1, from, from + 2, 1), QN_F16), QN_F32);
}

qn_tensor *quant_shape(qn_tensor *x, size_t n, const int64_t *sizes) {
    int64_t dims[QN_MAX_RANK];
    if (!x) return NULL;
    dims[0] = qn_dim(x, 0);
    memcpy(dims + 1, sizes, n * sizeof *sizes);
    return qn_reshape(x, (int)n + 1, dims);
}

static qn_tensor *along(qn_tensor *x, int axis, int64_t n, qn_dtype dtype) {
    int64_t dims[QN_MAX_RANK];
    if (!x) return NULL;
    int rank = func_rank(x);
    for (int i = 0; i < rank; i++) dims[i] = i == axis ? n : 1;
    return func_iota(tensor_ctx(x), dtype, rank, dims, axis);
}

qn_tensor *quant_along(qn_tensor *x, int axis, int64_t n) {
    return x ? along(x, axis, n, qn_dtype_of(x)) : NULL;
}

qn_tensor *quant_fields(qn_tensor *x, quant_fields_of f) {
    if (!x) return NULL;
    /* of i64, as places are: so the step is a part of the kernel, and no number of its launch */
    qn_tensor *shift = along(x, f.axis, f.count, QN_I64);
    if (f.step != 1) shift = qn_mul(shift, func_integer(shift, f.step));
    return quant_and(qn_shr(x, qn_cast(shift, qn_dtype_of(x))), f.mask);
}

qn_tensor *quant_and(qn_tensor *x, int64_t mask) {
    return qn_and(x, func_integer(x, mask));
}

qn_tensor *quant_up(qn_tensor *x, int64_t n) {
    return qn_shl(x, func_integer(x, n));
}

qn_tensor *quant_down(qn_tensor *x, int64_t n) {
    return qn_shr(x, func_integer(x, n));
}

qn_tensor *quant_plus(qn_tensor *x, int64_t n) {
    return qn_add(x, func_integer(x, n));
}

qn_tensor *quant_float(qn_tensor *x) {
    return qn_cast(x, QN_F32);
}
