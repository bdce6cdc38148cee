/* make.c - tensors out of nothing. None of them needs memory: each is a constant or counts. */
#include "func/func.h"

#include <math.h>

/* To be asked before what the dtype is like. */
static bool is_dtype(qn_ctx *qn, const char *name, qn_dtype dtype) {
    return dtype_is_known((int)dtype) || dtype_refuse(qn, graph_name(qn, name), (int)dtype);
}

/* An integer dtype holds whole numbers of its range only. */
static bool holds(qn_ctx *qn, const char *name, qn_dtype dtype, double value) {
    if (!qn || !is_dtype(qn, name, dtype)) return false;
    if (!dtype_is_int(dtype)) return true;
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
    if (!holds(qn, "scalar", dtype, value)) return NULL;
    return build_const(qn, dtype, 0, scalar_number(dtype, value));
}

qn_tensor *qn_like(qn_tensor *x, double value) {
    const tensor *t = x ? tensor_of(NULL, x, "like", "x") : NULL;
    if (!t || !holds(t->h.ctx, "like", qn_dtype_of(x), value)) return NULL;
    return qn_scalar(t->h.ctx, qn_dtype_of(x), value);
}

/* The value of an integer in a dtype; false: reported. */
static bool whole_number(qn_ctx *qn, const char *name, qn_dtype dtype, int64_t value, scalar *out) {
    if (!qn || !is_dtype(qn, name, dtype)) return false;
    if (dtype_is_float(dtype)) {
        *out = (scalar){.f = dtype_round(dtype, dtype_from_i64(dtype, value))};
        return true;
    }
    *out = (scalar){.i = dtype == QN_BOOL ? value != 0 : dtype_wrap(dtype, value)};
    if (dtype == QN_BOOL || (out->i == value && !(dtype == QN_U64 && value < 0))) return true;
    return fail_null(qn, QN_ERANGE, "%s: %lld is no %s", graph_name(qn, name), (long long)value,
                     qn_dtype_name(dtype));
}

qn_tensor *qn_scalar_int(qn_ctx *qn, qn_dtype dtype, int64_t value) {
    scalar v;
    return whole_number(qn, "scalar_int", dtype, value, &v) ? build_const(qn, dtype, 0, v) : NULL;
}

qn_tensor *qn_full_int(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, int64_t value) {
    func_frame f = func_begin(qn, "full_int");
    qn_tensor *x = qn_scalar_int(qn, dtype, value);
    return func_end(f, x ? func_expand(x, rank, shape) : NULL);
}

/* ---- weak scalars --------------------------------------------------------------------------- */

qn_tensor *qn_weak(qn_tensor *x, double value) {
    const tensor *t = x ? tensor_of(NULL, x, "weak", "x") : NULL;
    if (!t) return NULL;
    qn_dtype dtype = qn_dtype_of(x);
    return qn_scalar(t->h.ctx, dtype_is_float(dtype) ? dtype : QN_F32, value);
}

qn_tensor *qn_weak_int(qn_tensor *x, int64_t value) {
    const tensor *t = x ? tensor_of(NULL, x, "weak_int", "x") : NULL;
    if (!t) return NULL;
    qn_dtype dtype = qn_dtype_of(x) == QN_BOOL ? QN_I64 : qn_dtype_of(x);
    scalar v;
    if (!whole_number(t->h.ctx, "weak_int", dtype, value, &v)) return NULL;
    return build_const(t->h.ctx, dtype, 0, v);
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
    qn_tensor *x = func_iota(qn, dtype, rank, shape, axis);
    int64_t last = x ? qn_dim(x, axis) - 1 : -1; /* below 0: a size that varies, or none */
    if (last >= 0 && !dtype_is_float(dtype)) {
        scalar v;
        if (!whole_number(qn, "iota", dtype, last, &v)) x = NULL;
    }
    return func_end(f, x);
}

/* By scalars, which are to be what x's elements become: of a number that is known all is known. */
qn_tensor *func_fill(qn_tensor *value, qn_dtype dtype) {
    if (!value || qn_dtype_of(value) == dtype) return value;
    qn_ctx *qn = tensor_ctx(value);
    const graph *g = qn->graph;
    const graph_node *x = node_at(g, tensor_at(value)->node);
    while (x->op == OP_EXPAND || x->op == OP_RESHAPE) x = node_at(g, x->src[0]);
    if (x->op == OP_CONST && dtype_is_int(dtype)) {
        scalar v = scalar_from_bits((qn_dtype)x->dtype, x->bits), held;
        bool large = dtype_is_unsigned(x->dtype) && v.i < 0;
        bool fits = dtype_is_float(x->dtype) ? holds(qn, "fill", dtype, v.f)
                    : large                  ? holds(qn, "fill", dtype, (double)(uint64_t)v.i)
                                             : whole_number(qn, "fill", dtype, v.i, &held);
        if (!fits) return NULL;
    }
    return func_as(value, dtype);
}

/* start + i * step in f32 at least, integers in i64. */
static qn_tensor *make_ramp(qn_ctx *qn, const char *name, qn_dtype dtype, double start, double step,
                            int64_t n) {
    if (!qn || !is_dtype(qn, name, dtype)) return NULL;
    double last = start + (double)(n - 1) * step;
    bool ends =
        n < 1 || (holds(qn, name, dtype, trunc(start)) && holds(qn, name, dtype, trunc(last)));
    if (!ends) return NULL;
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
    return func_end(f, make_ramp(qn, "arange", dtype, start, step, n > 0 ? (int64_t)n : 0));
}

/* How many numbers there are, and the last one; false: the step is 0, or there are 2^62. */
static bool ramp_length(int64_t start, int64_t stop, int64_t step, int64_t *n, int64_t *last) {
    if (!step) return false;
    *n = 0, *last = start;
    if (step > 0 ? start >= stop : start <= stop) return true;
    uint64_t way = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, steps = (way - 1) / stride;
    if (steps >= (uint64_t)1 << 62) return false;
    *n = (int64_t)steps + 1;
    *last = (int64_t)((uint64_t)start + steps * (uint64_t)step);
    return true;
}

qn_tensor *qn_arange_int(qn_ctx *qn, qn_dtype dtype, int64_t start, int64_t stop, int64_t step) {
    func_frame f = func_begin(qn, "arange_int");
    int64_t n, last;
    scalar end;
    if (!qn) return func_end(f, NULL);
    if (!ramp_length(start, stop, step, &n, &last))
        return func_end(f, fail_null(qn, QN_ERANGE, "arange_int: from %lld to %lld by %lld",
                                     (long long)start, (long long)stop, (long long)step));
    bool held = whole_number(qn, "arange_int", dtype, n ? start : 0, &end) &&
                whole_number(qn, "arange_int", dtype, n ? last : 0, &end);
    if (!held) return func_end(f, NULL);
    qn_tensor *i = func_iota(qn, QN_I64, 1, &n, 0);
    i = qn_add(qn_mul(i, func_integer(i, step)), func_integer(i, start));
    return func_end(f, func_as(i, dtype));
}

qn_tensor *qn_linspace(qn_ctx *qn, qn_dtype dtype, double start, double stop, int64_t n) {
    func_frame f = func_begin(qn, "linspace");
    if (qn && n < 0)
        return func_end(f, fail_null(qn, QN_ERANGE, "linspace: %lld numbers", (long long)n));
    double step = n > 1 ? (stop - start) / (double)(n - 1) : 0;
    qn_tensor *x = make_ramp(qn, "linspace", dtype, start, step, n);
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
