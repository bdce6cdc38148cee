/* join.c - several tensors into one, and one into several.
 *
 * A concatenation is a JOIN of its parts (pieces.c), which keeps every value as it is; a stack is
 * one of parts with an axis of size 1. The parts of a split are slices. */
#include "func/func.h"

#include <stdio.h>

/* Equal shapes but for the axis (-1: on all)? */
static bool join_fits(int n, qn_tensor *const *xs, int axis) {
    int64_t first[QN_MAX_RANK], other[QN_MAX_RANK];
    int rank = func_dims(xs[0], first);
    for (int i = 1; i < n; i++) {
        if (func_same_shape(xs[0], xs[i])) continue;
        bool same = func_dims(xs[i], other) == rank;
        for (int k = 0; same && k < rank; k++) same = k == axis || first[k] == other[k];
        if (same) continue;
        char name[32];
        snprintf(name, sizeof name, "tensor %d", i);
        if (axis < 0)
            tensor_unfit("tensor 0", xs[0], name, xs[i], "shapes must be equal");
        else
            tensor_unfit("tensor 0", xs[0], name, xs[i], "shapes must be equal but for axis %d",
                         axis);
        return false;
    }
    return true;
}

static qn_dtype join_dtype(int n, qn_tensor *const *xs) {
    qn_dtype dtype = qn_dtype_of(xs[0]);
    for (int i = 1; i < n; i++) dtype = dtype_promote(dtype, qn_dtype_of(xs[i]));
    return dtype;
}

qn_tensor *qn_concat(int n, qn_tensor *const *xs, int axis) {
    qn_ctx *qn = func_list_context("concat", n, xs);
    func_frame f = func_begin(qn, "concat");
    if (!qn || !func_axis(xs[0], axis, &axis) || !join_fits(n, xs, axis)) return func_end(f, NULL);
    func_meet_all(&f, n, xs);
    return func_end(f, build_join(n, xs, join_dtype(n, xs), axis, false));
}

/* Join what `each` makes of the parts. */
static qn_tensor *join_each(int n, qn_tensor *const *xs, int axis,
                            qn_tensor *(*each)(qn_tensor *x, int axis)) {
    qn_ctx *qn = tensor_ctx(xs[0]);
    qn_tensor *few[32], *whole = NULL;
    qn_tensor **part = n <= 32 ? few : heap_try(&qn->heap, (size_t)n * sizeof *part);
    if (!part)
        return fail_null(qn, QN_ENOMEM, "%s: no memory for %d tensors", graph_name(qn, "stack"), n);
    int made = 0;
    while (made < n && (part[made] = each(xs[made], axis))) made++;
    if (made == n) whole = qn_concat(n, part, axis);
    if (part != few) heap_free(&qn->heap, part, (size_t)n * sizeof *part);
    return whole;
}

qn_tensor *qn_stack(int n, qn_tensor *const *xs, int axis) {
    qn_ctx *qn = func_list_context("stack", n, xs);
    func_frame f = func_begin(qn, "stack");
    if (!qn || !join_fits(n, xs, -1)) return func_end(f, NULL);
    int rank = func_rank(xs[0]), at = axis < 0 ? axis + rank + 1 : axis;
    if (at < 0 || at > rank)
        return func_end(f, fail_null(qn, QN_ERANGE, "stack: axis %d for rank %d", axis, rank));
    if (rank == QN_MAX_RANK)
        return func_end(f, fail_null(qn, QN_ERANGE, "stack: more than %d axes", QN_MAX_RANK));
    func_meet_all(&f, n, xs);
    return func_end(f, build_join(n, xs, join_dtype(n, xs), at, true));
}

static qn_tensor *as_row(qn_tensor *x, int axis) {
    (void)axis;
    if (func_rank(x) == 0) return func_reshape(x, 2, (int64_t[]){1, 1});
    return func_rank(x) == 1 ? qn_unsqueeze(x, 0) : x;
}

static qn_tensor *at_least_vector(qn_tensor *x, int axis) {
    (void)axis;
    return func_rank(x) == 0 ? qn_unsqueeze(x, 0) : x;
}

qn_tensor *qn_vstack(int n, qn_tensor *const *xs) {
    qn_ctx *qn = func_list_context("vstack", n, xs);
    func_frame f = func_begin(qn, "vstack");
    if (!qn) return func_end(f, NULL);
    return func_end(f, join_each(n, xs, 0, as_row));
}

qn_tensor *qn_hstack(int n, qn_tensor *const *xs) {
    qn_ctx *qn = func_list_context("hstack", n, xs);
    func_frame f = func_begin(qn, "hstack");
    if (!qn) return func_end(f, NULL);
    return func_end(f, join_each(n, xs, func_rank(xs[0]) > 1, at_least_vector));
}

/* ---- splitting ------------------------------------------------------------------------------ */

static int split_check(const qn_tensor *x, const char *name, int n, const void *sizes, void *out) {
    if (!x) return QN_ENULL;
    if (!tensor_of(NULL, x, name, "x")) return handle_code(x);
    if (!sizes || !out)
        return fail(tensor_ctx(x), QN_ENULL, "%s: no sizes, or nowhere to put parts", name);
    if (n < 1) return fail(tensor_ctx(x), QN_EARG, "%s: %d parts", name, n);
    return QN_OK;
}

qn_code qn_split(qn_tensor *x, int axis, int n, const int64_t *sizes, qn_tensor **out) {
    int code = split_check(x, "split", n, sizes, out), made = 0;
    if (code) return code;
    if (!build_axis(x, "split", axis, &axis)) return handle_code(x);
    int64_t start = 0;
    for (int i = 0; i < n && start != DIM_BAD; i++)
        start = dim_op(tensor_ctx(x), start, '+', sizes[i]);
    if (start == DIM_BAD) return handle_code(x);
    if (start != qn_dim(x, axis))
        return fail(tensor_ctx(x), QN_ESHAPE, "split: the sizes do not make up axis %d", axis);
    start = 0;
    for (; made < n; made++) {
        func_frame f = func_begin(tensor_ctx(x), "split");
        out[made] = func_end(f, func_slice_axis(x, axis, start, sizes[made], 1));
        if (!out[made]) break;
        start = dim_op(tensor_ctx(x), start, '+', sizes[made]);
    }
    return func_outputs_done(tensor_ctx(x), n, out, made);
}

qn_code qn_chunk(qn_tensor *x, int axis, int n, qn_tensor **out) {
    int code = split_check(x, "chunk", n, out, out), made = 0;
    if (code) return code;
    if (!build_axis(x, "chunk", axis, &axis)) return handle_code(x);
    int64_t size = qn_dim(x, axis), start = 0;
    if (size < 0)
        return fail(tensor_ctx(x), QN_ESHAPE, "chunk: the size of axis %d must be known", axis);
    for (; made < n; made++) {
        int64_t part = size / n + (made < size % n);
        func_frame f = func_begin(tensor_ctx(x), "chunk");
        out[made] = func_end(f, func_slice_axis(x, axis, start, part, 1));
        if (!out[made]) break;
        start += part;
    }
    return func_outputs_done(tensor_ctx(x), n, out, made);
}

/* ---- repeating ------------------------------------------------------------------------------ */

/* [n] as [1, n] (tile) or [n, 1] (repeat), expanded and flattened again. */
static qn_tensor *repeat_axis(qn_tensor *x, int axis, int64_t times, bool each) {
    int64_t dims[QN_MAX_RANK + 1];
    if (!x || times == 1) return x;
    if (times < 0 && !dim_is_code(tensor_ctx(x)->graph, times))
        return fail_null(tensor_ctx(x), QN_ERANGE, "%s: %lld times",
                         graph_name(tensor_ctx(x), "repeat"), (long long)times);
    x = qn_unsqueeze(x, each ? axis + 1 : axis);
    int rank = func_dims(x, dims);
    dims[each ? axis + 1 : axis] = times;
    return qn_flatten(func_expand(x, rank, dims), axis, axis + 1);
}

qn_tensor *qn_tile(qn_tensor *x, int n, const int64_t *times) {
    func_frame f = func_on("tile", ARG(x));
    if (!x) return func_end(f, NULL);
    if (n < 0 || n > QN_MAX_RANK || (n > 0 && !times))
        return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "tile: %d numbers", n));
    while (x && func_rank(x) < n) x = qn_unsqueeze(x, 0);
    int first = func_rank(x) - n;
    for (int i = 0; i < n; i++) x = repeat_axis(x, first + i, times[i], false);
    return func_end(f, x);
}

qn_tensor *qn_repeat_interleave(qn_tensor *x, int axis, int64_t times) {
    func_frame f = func_on("repeat_interleave", ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    return func_end(f, repeat_axis(x, axis, times, true));
}

qn_code qn_meshgrid(int n, qn_tensor *const *xs, qn_tensor **out) {
    qn_ctx *qn = func_list_context("meshgrid", n, xs);
    if (!qn) return QN_ENULL;
    if (!out) return fail(qn, QN_ENULL, "meshgrid: out is NULL");
    if (n > QN_MAX_RANK) return fail(qn, QN_ERANGE, "meshgrid: %d axes", n);
    int64_t grid[QN_MAX_RANK];
    int made = 0;
    for (int i = 0; i < n; i++) {
        if (func_rank(xs[i]) != 1)
            return fail(qn, QN_ESHAPE, "meshgrid: tensor %d is no vector", i);
        grid[i] = qn_dim(xs[i], 0);
    }
    for (; made < n; made++) {
        int64_t own[QN_MAX_RANK];
        for (int i = 0; i < n; i++) own[i] = i == made ? grid[i] : 1;
        func_frame f = func_begin(qn, "meshgrid");
        out[made] = func_end(f, func_expand(func_reshape(xs[made], n, own), n, grid));
        if (!out[made]) break;
    }
    return func_outputs_done(qn, n, out, made);
}
