/* make.c - complex tensors made of numbers, of data and of other tensors. */
#include "complex/complex.h"

/* Of a real one, which dies with the frame. */
static qn_tensor *end_real(func_frame f, qn_tensor *re) {
    return func_end(f, re ? complex_whole(re, NULL) : NULL);
}

qn_tensor *complex_from(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                        const void *data) {
    if (!dtype_is_complex((int)dtype)) return qn_from(qn, dtype, rank, shape, data);
    func_frame f = func_begin(qn, "from");
    int64_t dims[QN_MAX_RANK + 1];
    if (qn && (rank < 0 || rank >= QN_MAX_RANK || (rank && !shape)))
        return func_end(f, fail_null(qn, rank && !shape ? QN_ENULL : QN_ERANGE,
                                     "from: a complex tensor of rank %d, and at most %d", rank,
                                     QN_MAX_RANK - 1));
    for (int i = 0; qn && i < rank; i++) dims[i] = shape[i];
    if (qn) dims[rank] = 2;
    return func_end(f, qn ? tensor_complex(qn_from(qn, dtype_part(dtype), rank + 1, dims, data))
                          : NULL);
}

qn_tensor *complex_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value) {
    if (!dtype_is_complex((int)dtype)) return qn_full(qn, dtype, rank, shape, value);
    func_frame f = func_begin(qn, "full");
    return end_real(f, qn_full(qn, dtype_part(dtype), rank, shape, value));
}

qn_tensor *complex_full_int(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                            int64_t value) {
    if (!dtype_is_complex((int)dtype)) return qn_full_int(qn, dtype, rank, shape, value);
    func_frame f = func_begin(qn, "full_int");
    return end_real(f, qn_full_int(qn, dtype_part(dtype), rank, shape, value));
}

qn_tensor *complex_zeros(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape) {
    return complex_full(qn, dtype, rank, shape, 0);
}

qn_tensor *complex_ones(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape) {
    return complex_full(qn, dtype, rank, shape, 1);
}

qn_tensor *complex_scalar(qn_ctx *qn, qn_dtype dtype, double value) {
    return complex_full(qn, dtype, 0, NULL, value);
}

qn_tensor *complex_scalar_int(qn_ctx *qn, qn_dtype dtype, int64_t value) {
    return complex_full_int(qn, dtype, 0, NULL, value);
}

qn_tensor *complex_eye(qn_ctx *qn, qn_dtype dtype, int64_t rows, int64_t columns) {
    if (!dtype_is_complex((int)dtype)) return qn_eye(qn, dtype, rows, columns);
    func_frame f = func_begin(qn, "eye");
    return end_real(f, qn_eye(qn, dtype_part(dtype), rows, columns));
}

/* ---- of others ------------------------------------------------------------------------------- */

/* A number of x's dtype, and of its shape. */
static qn_tensor *alike(const char *name, qn_tensor *x, double value, bool shaped) {
    func_frame f = func_begin(complex_context(x, NULL), name);
    qn_tensor *re = complex_parts(x).re;
    return end_real(f, shaped ? qn_full_like(re, value) : qn_like(re, value));
}

qn_tensor *complex_like(qn_tensor *x, double value) {
    return alike("like", x, value, false);
}

/* A weak number is real, and so changes no sign of x's zeros nor makes NaN of its infinities; by
 * knob explicit a real one may not meet x. */
static qn_tensor *end_weak(func_frame f, qn_tensor *re) {
    return f.qn && f.qn->knob[KNOB_EXPLICIT].number ? end_real(f, re) : func_end(f, re);
}

qn_tensor *complex_weak(qn_tensor *x, double value) {
    func_frame f = func_begin(complex_context(x, NULL), "weak");
    return end_weak(f, qn_weak(complex_parts(x).re, value));
}

qn_tensor *complex_weak_int(qn_tensor *x, int64_t value) {
    func_frame f = func_begin(complex_context(x, NULL), "weak_int");
    return end_weak(f, qn_weak_int(complex_parts(x).re, value));
}

qn_tensor *complex_full_like(qn_tensor *x, double value) {
    return alike("full_like", x, value, true);
}

qn_tensor *complex_zeros_like(qn_tensor *x) {
    return alike("zeros_like", x, 0, true);
}

qn_tensor *complex_ones_like(qn_tensor *x) {
    return alike("ones_like", x, 1, true);
}

/* To bool: is it not 0? To another real dtype: the real part. */
qn_tensor *complex_cast(qn_tensor *x, qn_dtype dtype) {
    bool from = handle_is(x, HANDLE_COMPLEX), to = dtype_is_complex((int)dtype);
    if (!from && !to) return qn_cast(x, dtype);
    func_frame f = func_begin(complex_context(x, NULL), "cast");
    qn_dtype part = dtype_part(dtype);
    if (from && to) return func_end(f, tensor_complex(qn_cast(complex_pairs(x), part)));
    if (to) return end_real(f, qn_cast(x, part));
    parts z = complex_parts(x);
    if (dtype != QN_BOOL) return func_end(f, qn_cast(z.re, dtype));
    return func_end(f, qn_or(qn_cast(z.re, QN_BOOL), qn_cast(z.im, QN_BOOL)));
}

qn_tensor *complex_index_fill(qn_tensor *x, qn_tensor *index, double value, int axis) {
    func_frame f = func_begin(complex_context(x, NULL), "index_fill");
    if (!handle_is(x, HANDLE_COMPLEX)) return func_end(f, qn_index_fill(x, index, value, axis));
    parts z = complex_parts(x);
    return complex_end(
        f, (parts){qn_index_fill(z.re, index, value, axis), qn_index_fill(z.im, index, 0, axis)});
}

qn_tensor *complex_pad(qn_tensor *x, const int64_t *before_after, qn_pad_mode mode, double value) {
    func_frame f = func_begin(complex_context(x, NULL), "pad");
    parts z = complex_parts(x);
    return complex_end(
        f, (parts){qn_pad(z.re, before_after, mode, value), qn_pad(z.im, before_after, mode, 0)});
}
