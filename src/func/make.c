/* make.c - tensors out of nothing. None of them needs memory: each is a constant or counts. */
#include "func/func.h"

#include <math.h>

/* An integer dtype holds whole numbers of its range only. */
static bool holds(qn_ctx *qn, const char *name, qn_dtype dtype, double value) {
    if (!qn || !dtype_is_int(dtype)) return qn;
    double back = dtype_is_unsigned(dtype) ? (double)(uint64_t)scalar_number(dtype, value).i
                                           : (double)scalar_number(dtype, value).i;
    int bits = 8 * (int)qn_dtype_size(dtype) - !dtype_is_unsigned(dtype);
    if (back == value && value < ldexp(1, bits)) return true;
    fail(qn, QN_ERANGE, "%s: %.17g is no %s", graph_name(qn, name), value, qn_dtype_name(dtype));
    return false;
}

qn_tensor *qn_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value) {
    func_frame f = func_begin(qn, "full");
    if (!holds(qn, "full", dtype, value)) return func_end(f, NULL);
    return func_end(f, func_full(qn, dtype, rank, shape, value));
}

qn_tensor *qn_zeros(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape) {
    func_frame f = func_begin(qn, "zeros");
    return func_end(f, func_full(qn, dtype, rank, shape, 0));
}

qn_tensor *qn_ones(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape) {
    func_frame f = func_begin(qn, "ones");
    return func_end(f, func_full(qn, dtype, rank, shape, 1));
}

qn_tensor *qn_scalar(qn_ctx *qn, qn_dtype dtype, double value) {
    if (!qn) return NULL;
    if (!qn_dtype_size(dtype)) return fail_null(qn, QN_EDTYPE, "scalar: no such dtype");
    if (!holds(qn, "scalar", dtype, value)) return NULL;
    return build_const(qn, dtype, 0, scalar_number(dtype, value));
}

qn_tensor *qn_like(qn_tensor *x, double value) {
    const tensor *t = x ? tensor_of(NULL, x, "like", "x") : NULL;
    if (!t || !holds(t->h.ctx, "like", qn_dtype_of(x), value)) return NULL;
    return qn_scalar(t->h.ctx, qn_dtype_of(x), value);
}

qn_tensor *qn_full_like(qn_tensor *x, double value) {
    func_frame f = func_on("full_like", ARG(x));
    return func_end(f, func_broadcast(qn_like(x, value), x));
}

qn_tensor *qn_zeros_like(qn_tensor *x) {
    func_frame f = func_on("zeros_like", ARG(x));
    return func_end(f, qn_full_like(x, 0));
}

qn_tensor *qn_ones_like(qn_tensor *x) {
    func_frame f = func_on("ones_like", ARG(x));
    return func_end(f, qn_full_like(x, 1));
}

qn_tensor *qn_iota(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, int axis) {
    func_frame f = func_begin(qn, "iota");
    return func_end(f, func_iota(qn, dtype, rank, shape, axis));
}

/* start + i * step in f32 at least, integers in i64. */
static qn_tensor *make_ramp(qn_ctx *qn, qn_dtype dtype, double start, double step, int64_t n) {
    bool whole = !dtype_is_float(dtype) && step == trunc(step) && start == trunc(start);
    qn_dtype wide = whole ? QN_I64 : dtype == QN_F64 || !dtype_is_float(dtype) ? QN_F64 : QN_F32;
    qn_tensor *i = func_iota(qn, wide, 1, &n, 0);
    qn_tensor *x = qn_add(qn_mul(i, qn_like(i, step)), qn_like(i, start));
    return func_as(x, dtype);
}

qn_tensor *qn_arange(qn_ctx *qn, qn_dtype dtype, double start, double stop, double step) {
    func_frame f = func_begin(qn, "arange");
    double n = ceil((stop - start) / step);
    if (qn && (!(step != 0) || !(fabs(n) < 0x1p62)))
        return func_end(f,
                        fail_null(qn, QN_ERANGE, "arange: from %g to %g by %g", start, stop, step));
    return func_end(f, make_ramp(qn, dtype, start, step, n > 0 ? (int64_t)n : 0));
}

qn_tensor *qn_linspace(qn_ctx *qn, qn_dtype dtype, double start, double stop, int64_t n) {
    func_frame f = func_begin(qn, "linspace");
    if (qn && n < 0)
        return func_end(f, fail_null(qn, QN_ERANGE, "linspace: %lld numbers", (long long)n));
    double step = n > 1 ? (stop - start) / (double)(n - 1) : 0;
    qn_tensor *x = make_ramp(qn, dtype, start, step, n);
    if (n < 2) return func_end(f, x);
    qn_tensor *i = func_iota(qn, QN_I64, 1, &n, 0); /* the last one exactly */
    qn_tensor *last = qn_eq(i, qn_like(i, (double)(n - 1)));
    return func_end(f, qn_where(last, qn_like(x, stop), x));
}

qn_tensor *qn_eye(qn_ctx *qn, qn_dtype dtype, int64_t rows, int64_t columns) {
    func_frame f = func_begin(qn, "eye");
    const int64_t shape[2] = {rows, columns};
    qn_tensor *i = func_iota(qn, QN_I64, 2, shape, 0), *j = func_iota(qn, QN_I64, 2, shape, 1);
    return func_end(f, qn_cast(qn_eq(i, j), dtype));
}

/* ---- converting ----------------------------------------------------------------------------- */

qn_tensor *qn_cast(qn_tensor *x, qn_dtype dtype) {
    return build_cast(x, dtype, false);
}

qn_tensor *qn_bitcast(qn_tensor *x, qn_dtype dtype) {
    return build_cast(x, dtype, true);
}
