/* shape.c - movement by other names: each is a few of the MOVE rows in a row.
 *
 * Nothing here copies an element, but clone, which is there to. */
#include "func/func.h"

#include <string.h>

qn_tensor *qn_clone(qn_tensor *x) {
    func_frame f = func_on("clone", ARG(x));
    return func_end(f, qn_contiguous(x));
}

qn_tensor *qn_variable(qn_tensor *x) {
    func_frame f = func_on("variable", ARG(x));
    return func_end(f, x ? build_apart(x) : NULL);
}

qn_tensor *qn_narrow(qn_tensor *x, int axis, int64_t start, int64_t size) {
    func_frame f = func_on("narrow", ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    int64_t n = qn_dim(x, axis);
    if (start < 0 && n >= 0 && start >= -n) start += n;
    return func_end(f, func_slice_axis(x, axis, start, size, 1));
}

qn_tensor *qn_expand_as(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("expand_as", ARG(x), ARG(y));
    return func_end(f, func_broadcast(x, y));
}

qn_tensor *qn_unflatten(qn_tensor *x, int axis, int n, const int64_t *sizes) {
    func_frame f = func_on("unflatten", ARG(x));
    int64_t dims[QN_MAX_RANK], shape[2 * QN_MAX_RANK];
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    if (n < 0 || n > QN_MAX_RANK || (n > 0 && !sizes))
        return func_end(f, fail_null(f.qn, QN_EARG, "unflatten: %d sizes", n));
    int rank = func_dims(x, dims), m = 0;
    for (int i = 0; i < rank; i++) {
        if (i != axis) shape[m++] = dims[i];
        for (int k = 0; i == axis && k < n; k++) shape[m++] = sizes[k];
    }
    return func_end(f, qn_reshape(x, m, shape));
}

qn_tensor *qn_moveaxis(qn_tensor *x, int n, const int *from, const int *to) {
    func_frame f = func_on("moveaxis", ARG(x));
    uint32_t taken, placed;
    if (!func_mask_of(x, n, from, &taken) || !func_mask_of(x, n, to, &placed))
        return func_end(f, NULL);
    int axes[QN_MAX_RANK], rank = func_rank(x), next = 0;
    for (int i = 0; i < rank; i++) axes[i] = -1;
    for (int i = 0; i < n; i++)
        axes[to[i] < 0 ? to[i] + rank : to[i]] = from[i] < 0 ? from[i] + rank : from[i];
    for (int i = 0; i < rank; i++) {
        if (axes[i] >= 0) continue;
        while (taken >> next & 1) next++;
        axes[i] = next++;
    }
    return func_end(f, qn_permute(x, rank, axes));
}

/* As NumPy's: of a vector of rank 3 the elements lie along axis 1. */
qn_tensor *qn_atleast(qn_tensor *x, int rank) {
    func_frame f = func_on("atleast", ARG(x));
    if (x && (rank < 0 || rank > 3))
        return func_end(f, fail_null(f.qn, QN_ERANGE, "atleast: rank %d, above 3", rank));
    if (x && rank == 3 && func_rank(x) == 2) return func_end(f, qn_unsqueeze(x, 2));
    if (x && rank == 3 && func_rank(x) < 2) {
        while (func_rank(x) == 0 && x) x = qn_unsqueeze(x, 0);
        return func_end(f, qn_unsqueeze_axes(x, 2, (int[]){0, 2}));
    }
    while (x && func_rank(x) < rank) x = qn_unsqueeze(x, 0);
    return func_end(f, x);
}

/* By quarter turns from axis a towards axis b. */
qn_tensor *qn_rot90(qn_tensor *x, int64_t turns, int a, int b) {
    func_frame f = func_on("rot90", ARG(x));
    uint32_t mask;
    if (!func_mask_of(x, 2, (int[]){a, b}, &mask)) return func_end(f, NULL);
    int64_t k = (turns % 4 + 4) % 4;
    if (k == 2) return func_end(f, build_flip(x, mask));
    if (k == 1) x = qn_transpose(qn_flip(x, b), a, b);
    if (k == 3) x = qn_flip(qn_transpose(x, a, b), b);
    return func_end(f, x);
}

/* ---- diagonals ------------------------------------------------------------------------------ */

/* Rows of n + 1 places, of which the first is used, cut again into rows of n. */
qn_tensor *qn_diag_embed(qn_tensor *x, int64_t offset) {
    func_frame f = func_on("diag_embed", ARG(x));
    int axis;
    if (!func_axis(x, -1, &axis)) return func_end(f, NULL);
    int64_t dims[QN_MAX_RANK], away = offset < 0 ? sat_neg(offset) : offset;
    int64_t most = (int64_t)1 << 31, size = sat_add(qn_dim(x, axis), away); /* its square fits */
    if (qn_dim(x, axis) < 0)
        return func_end(f, fail_null(f.qn, QN_ESHAPE, "diag_embed: the size must be known"));
    if (axis + 2 > QN_MAX_RANK || size > most)
        return func_end(f, fail_null(f.qn, QN_ERANGE, "diag_embed: offset %lld of rank %d",
                                     (long long)offset, axis + 1));
    int64_t pad[3 * QN_MAX_RANK] = {0};
    x = qn_unsqueeze(x, -1);
    pad[3 * (axis + 1) + 1] = size;
    x = func_pad(x, pad); /* [.., n, size + 1] */
    x = qn_flatten(x, axis, axis + 1);
    if (!x) return func_end(f, NULL);
    int64_t have = qn_dim(x, axis), begin = offset < 0 ? away * size : offset;
    memset(pad, 0, sizeof pad);
    pad[3 * axis] = begin;
    int64_t all = size * size, extra = all - have - begin;
    if (extra > 0) pad[3 * axis + 1] = extra;
    x = func_pad(x, pad);
    if (extra < 0) x = func_slice_axis(x, axis, 0, all, 1);
    if (!x) return func_end(f, NULL);
    int rank = func_dims(x, dims);
    dims[rank - 1] = dims[rank] = size;
    return func_end(f, func_reshape(x, rank + 1, dims));
}

qn_tensor *qn_diag(qn_tensor *x, int64_t offset) {
    func_frame f = func_on("diag", ARG(x));
    if (x && func_rank(x) != 1 && func_rank(x) != 2)
        return func_end(f, tensor_unfit("x", x, NULL, NULL, "x is a vector or a matrix"));
    return func_end(f, func_rank(x) == 1 ? qn_diag_embed(x, offset) : qn_diagonal(x, offset));
}

qn_tensor *qn_diagonal_axes(qn_tensor *x, int64_t offset, int a, int b) {
    func_frame f = func_on("diagonal_axes", ARG(x));
    uint32_t mask;
    if (!func_mask_of(x, 2, (int[]){a, b}, &mask)) return func_end(f, NULL);
    return func_end(f, qn_diagonal(qn_moveaxis(x, 2, (int[]){a, b}, (int[]){-2, -1}), offset));
}

/* ---- lists ---------------------------------------------------------------------------------- */

qn_code qn_broadcast_arrays(int n, qn_tensor *const *xs, qn_tensor **out) {
    qn_ctx *qn = func_list_context("broadcast_arrays", n, xs);
    if (!qn) return QN_ENULL;
    if (!out) return fail(qn, QN_ENULL, "broadcast_arrays: out is NULL");
    int made = 0;
    for (; made < n; made++) {
        func_frame f = func_begin(qn, "broadcast_arrays");
        qn_tensor *all = qn_isnan(xs[0]); /* of any dtype, and nothing is read of it */
        for (int i = 1; i < n; i++) all = qn_and(all, qn_isnan(xs[i]));
        out[made] = func_end(f, func_broadcast(xs[made], all));
        if (!out[made]) break;
    }
    return func_outputs_done(qn, n, out, made);
}

qn_code qn_unstack(qn_tensor *x, int axis, int n, qn_tensor **out) {
    if (!func_outputs_check(x, "unstack", out)) return handle_code(x);
    qn_ctx *qn = tensor_ctx(x);
    if (!build_axis(x, "unstack", axis, &axis)) return handle_code(x);
    if (n < 1 || qn_dim(x, axis) != n)
        return fail(qn, QN_ESHAPE, "unstack: axis %d has not the size %d", axis, n);
    int made = 0;
    for (; made < n; made++) {
        func_frame f = func_begin(qn, "unstack");
        out[made] = func_end(f, qn_select(x, axis, made));
        if (!out[made]) break;
    }
    return func_outputs_done(qn, n, out, made);
}

/* The first two vectors lie along axes 1 and 0. */
qn_code qn_meshgrid_xy(int n, qn_tensor *const *xs, qn_tensor **out) {
    qn_ctx *qn = func_list_context("meshgrid_xy", n, xs);
    if (!qn) return QN_ENULL;
    int code = qn_meshgrid(n, xs, out), made = 0;
    if (code || n < 2) return code;
    for (; made < n; made++) {
        func_frame f = func_begin(qn, "meshgrid_xy");
        qn_tensor *ij = out[made];
        out[made] = func_end(f, qn_transpose(ij, 0, 1));
        if (!qn->graph->scopes) qn_release(ij);
        if (!out[made]) break;
    }
    for (int i = made + 1; made < n && i < n; i++)
        if (!qn->graph->scopes) qn_release(out[i]);
    return func_outputs_done(qn, n, out, made);
}

/* ---- repeating and other sizes -------------------------------------------------------------- */

/* Where each element of the result comes from is known, so it is an index that is read. */
qn_tensor *qn_repeat_counts(qn_tensor *x, int axis, int n, const int64_t *counts) {
    func_frame f = func_on("repeat_counts", ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    int64_t total = 0, most = (int64_t)1 << 26;
    if (n < 0 || !counts || qn_dim(x, axis) != n)
        return func_end(
            f, fail_null(f.qn, QN_ESHAPE, "repeat_counts: %d counts for axis %d", n, axis));
    for (int i = 0; i < n; i++) {
        if (counts[i] < 0 || counts[i] > most || total > most)
            return func_end(
                f, fail_null(f.qn, QN_ERANGE, "repeat_counts: %lld times", (long long)counts[i]));
        total += counts[i];
    }
    size_t bytes = (size_t)(total ? total : 1) * sizeof(int64_t);
    int64_t *place = heap_try(&f.qn->heap, bytes), at = 0;
    if (!place) return func_end(f, fail_null(f.qn, QN_ENOMEM, "repeat_counts: no memory"));
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < counts[i]; k++) place[at++] = i;
    qn_tensor *index = qn_from(f.qn, QN_I64, 1, &total, place);
    heap_free(&f.qn->heap, place, bytes);
    return func_end(f, qn_take(x, index, axis));
}

/* The low part comes first, as in memory: [..] as [.., parts]. */
static qn_tensor *into_parts(qn_tensor *x, qn_dtype wide, qn_dtype narrow, qn_dtype dtype) {
    const int64_t parts = (int64_t)(qn_dtype_size(wide) / qn_dtype_size(narrow));
    x = qn_unsqueeze(qn_bitcast(x, wide), -1);
    qn_tensor *by = x ? func_iota(tensor_ctx(x), wide, 1, &parts, 0) : NULL;
    by = qn_mul(by, qn_like(by, (double)(8 * qn_dtype_size(narrow))));
    return qn_bitcast(qn_cast(qn_shr(x, by), narrow), dtype);
}

static qn_tensor *from_parts(qn_tensor *x, qn_dtype narrow, qn_dtype wide, qn_dtype dtype) {
    const int64_t parts = (int64_t)(qn_dtype_size(wide) / qn_dtype_size(narrow));
    qn_tensor *whole = NULL;
    x = qn_cast(qn_bitcast(x, narrow), wide);
    for (int64_t i = 0; i < parts && x; i++) {
        qn_tensor *part = qn_select(x, -1, i);
        part = qn_shl(part, qn_like(part, (double)(8 * i) * (double)qn_dtype_size(narrow)));
        whole = whole ? qn_or(whole, part) : part;
    }
    return qn_bitcast(whole, dtype);
}

/* Does the last axis make up whole elements of the dtype? */
static bool view_fits(const qn_tensor *x, int64_t ratio) {
    if (func_rank(x) && qn_dim(x, -1) >= 0 && qn_dim(x, -1) % ratio == 0) return true;
    tensor_unfit("x", x, NULL, NULL, "the last axis goes by %lld elements", (long long)ratio);
    return false;
}

qn_tensor *qn_view(qn_tensor *x, qn_dtype dtype) {
    static const qn_dtype of_size[] = {[1] = QN_U8, [2] = QN_U16, [4] = QN_U32, [8] = QN_U64};
    func_frame f = func_on("view", ARG(x));
    if (x && !dtype_is_known((int)dtype)) {
        dtype_refuse(f.qn, "view", (int)dtype);
        return func_end(f, NULL);
    }
    int64_t to = (int64_t)qn_dtype_size(dtype), from = (int64_t)qn_dtype_size(qn_dtype_of(x));
    if (!x || to == from || !to) return func_end(f, qn_bitcast(x, dtype));
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims), last = rank - 1;
    if (to < from) {
        if (rank == 0) return func_end(f, into_parts(x, of_size[from], of_size[to], dtype));
        dims[last] = dim_op(f.qn, dims[last], '*', from / to);
        x = into_parts(x, of_size[from], of_size[to], dtype);
        return func_end(f, func_reshape(x, rank, dims));
    }
    if (!view_fits(x, to / from)) return func_end(f, NULL);
    dims[last] /= to / from;
    dims[rank] = to / from;
    if (rank == QN_MAX_RANK)
        return func_end(f, fail_null(f.qn, QN_ERANGE, "view: more than %d axes", QN_MAX_RANK - 1));
    x = func_reshape(x, rank + 1, dims);
    return func_end(f, from_parts(x, of_size[from], of_size[to], dtype));
}
