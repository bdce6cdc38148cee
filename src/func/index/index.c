/* index.c - reading and writing by computed indices.
 *
 * The primitives GATHER and SCATTER take an index for every element they move. The functions here
 * expand an index that is the same along some axes, which costs nothing. */
#include "func/func.h"

#define SAME(name) ((int)QN_COMBINE_##name == (int)MONOID_##name)
_Static_assert(SAME(SET) && SAME(SUM) && SAME(PROD) && SAME(MAX), "qn_combine is monoids.h");
_Static_assert(SAME(MIN) && SAME(AND) && SAME(OR), "qn_combine is monoids.h");

/* Negative indices of an axis of n count from its end; those outside stay: errors name them. */
qn_tensor *func_from_end(qn_tensor *index, int64_t n) {
    if (!index) return NULL;
    qn_dtype d = qn_dtype_of(index);
    int op = node_at(tensor_ctx(index)->graph, tensor_at(index)->node)->op;
    if (!dtype_is_int(d) || dtype_is_unsigned(d) || op == OP_IOTA) return index;
    bool narrow = n >= 0 && n <= INT32_MAX && qn_dtype_size(d) <= 4;
    index = func_as(index, narrow ? QN_I32 : QN_I64);
    qn_tensor *size = func_size(index, n), *zero = qn_like(index, 0);
    qn_tensor *turned = qn_add(index, size);
    qn_tensor *behind = qn_and(qn_lt(index, zero), qn_le(zero, turned));
    return qn_where(behind, turned, index);
}

/* As above, along an axis of x, where there is one; if not, what is made of the index says so. */
static qn_tensor *index_of(const qn_tensor *x, qn_tensor *index, int axis) {
    int rank = func_rank(x);
    if (!x || axis < -rank || axis >= rank) return index;
    return func_from_end(index, qn_dim(x, axis));
}

qn_tensor *qn_gather(qn_tensor *x, qn_tensor *index, int axis) {
    func_frame f = func_on("gather", ARG(x), ARG(index));
    return func_end(f, build_gather(x, index_of(x, index, axis), axis));
}

qn_tensor *qn_scatter(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis,
                      qn_combine combine) {
    func_frame f = func_on("scatter", ARG(x), ARG(index), ARG(src));
    return func_end(f, build_scatter(x, index_of(x, index, axis), src, axis, (int)combine));
}

/* index, of any shape, as one axis at `axis` among axes of size 1. */
static qn_tensor *index_along(qn_tensor *index, int rank, int axis) {
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = 1;
    if (index) dims[axis] = func_count(index, (1u << func_rank(index)) - 1);
    return func_reshape(index, rank, dims);
}

/* Of indices from 0 on. */
static qn_tensor *taken(qn_tensor *x, qn_tensor *index, int axis) {
    int64_t flat[QN_MAX_RANK], shape[2 * QN_MAX_RANK];
    int rank = func_dims(x, flat), n = 0;
    for (int i = 0; i < rank; i++) {
        if (i != axis)
            shape[n++] = flat[i];
        else
            n += func_dims(index, shape + n);
    }
    index = index_along(index, rank, axis);
    flat[axis] = qn_dim(index, axis);
    x = build_gather(x, func_expand(index, rank, flat), axis);
    return func_reshape(x, n, shape);
}

qn_tensor *func_take(qn_tensor *x, qn_tensor *index, int axis) {
    return index && func_axis(x, axis, &axis) ? taken(x, index, axis) : NULL;
}

qn_tensor *qn_take(qn_tensor *x, qn_tensor *index, int axis) {
    func_frame f = func_on("take", ARG(x), ARG(index));
    if (!index || !func_axis(x, axis, &axis)) return func_end(f, build_gather(x, index, axis));
    return func_end(f, taken(x, index_of(x, index, axis), axis));
}

qn_tensor *qn_take_along_axis(qn_tensor *x, qn_tensor *index, int axis) {
    func_frame f = func_on("take_along_axis", ARG(x), ARG(index));
    if (!index || !func_axis(x, axis, &axis)) return func_end(f, build_gather(x, index, axis));
    int64_t from[QN_MAX_RANK], to[QN_MAX_RANK];
    int rank = func_dims(x, from);
    if (func_dims(index, to) != rank)
        return func_end(f, tensor_unfit("x", x, "index", index, "their ranks must be equal"));
    for (int i = 0; i < rank; i++) {
        if (i == axis || from[i] == to[i]) continue;
        if (from[i] == 1)
            from[i] = to[i];
        else
            to[i] = from[i]; /* expand refuses all but a size of 1 */
    }
    index = index_of(x, index, axis);
    return func_end(f,
                    build_gather(func_expand(x, rank, from), func_expand(index, rank, to), axis));
}

qn_tensor *qn_index_add(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis) {
    func_frame f = func_on("index_add", ARG(x), ARG(index), ARG(src));
    if (!index || !src || !func_axis(x, axis, &axis))
        return func_end(f, build_scatter(x, index, src, axis, MONOID_SUM));
    if (func_rank(index) != 1 || func_rank(src) != func_rank(x))
        return func_end(
            f, tensor_unfit("src", src, "index", index, "src must be slices of x, index a vector"));
    if (qn_dim(index, 0) != qn_dim(src, axis))
        return func_end(f, tensor_unfit("src", src, "index", index,
                                        "there is one index for each slice along axis %d", axis));
    index = index_along(index_of(x, index, axis), func_rank(x), axis);
    index = func_broadcast(index, src);
    return func_end(f, build_scatter(x, index, src, axis, MONOID_SUM));
}

static bool update_fits(const qn_tensor *x, const qn_tensor *src, const int64_t *start) {
    qn_ctx *qn = tensor_ctx(x);
    if (func_rank(x) != func_rank(src))
        return tensor_unfit("x", x, "src", src, "their ranks must be equal"), false;
    if (qn_dtype_of(x) != qn_dtype_of(src))
        return fail(qn, QN_EDTYPE, "%s: x is %s, src %s", graph_name(qn, "update_slice"),
                    qn_dtype_name(qn_dtype_of(x)), qn_dtype_name(qn_dtype_of(src))),
               false;
    for (int i = 0; i < func_rank(x); i++) {
        int64_t n = qn_dim(x, i), size = qn_dim(src, i);
        if (n < 0 || size < 0 || start[i] < -1) continue; /* sizes of later: PAD checks them */
        if (start[i] < 0 || size > n || start[i] > n - size)
            return fail(qn, QN_ERANGE, "%s: %lld elements from %lld on do not fit axis %d of %lld",
                        graph_name(qn, "update_slice"), (long long)size, (long long)start[i], i,
                        (long long)n),
                   false;
    }
    return true;
}

qn_tensor *qn_update_slice(qn_tensor *x, qn_tensor *src, const int64_t *start) {
    func_frame f = func_on("update_slice", ARG(x), ARG(src));
    if (x && src && !start) fail(f.qn, QN_ENULL, "update_slice: start is NULL");
    if (!x || !src || !start || !update_fits(x, src, start)) return func_end(f, NULL);
    int64_t p[3 * QN_MAX_RANK];
    for (int i = 0; i < func_rank(x); i++) {
        p[3 * i] = start[i];
        int64_t after = dim_op(f.qn, qn_dim(x, i), '-', start[i]);
        p[3 * i + 1] = dim_op(f.qn, after, '-', qn_dim(src, i));
        p[3 * i + 2] = 0;
    }
    return func_end(f, qn_where(func_inside(src, p), func_pad(src, p), x));
}

/* Bool: is this class the label? [..] integers give [.., classes]. */
qn_tensor *func_is_class(qn_tensor *labels, int64_t classes) {
    if (!labels) return NULL;
    if (!dtype_is_int(qn_dtype_of(labels)))
        return fail_null(tensor_ctx(labels), QN_EDTYPE, "%s: classes are integers, not %s",
                         graph_name(tensor_ctx(labels), "index"),
                         qn_dtype_name(qn_dtype_of(labels)));
    labels = build_index(labels, classes);
    if (!labels) return NULL;
    qn_tensor *number = func_iota(tensor_ctx(labels), QN_I64, 1, &classes, 0);
    return qn_eq(qn_unsqueeze(func_as(labels, QN_I64), -1), number);
}

qn_tensor *qn_one_hot(qn_tensor *index, int64_t classes, qn_dtype dtype) {
    func_frame f = func_on("one_hot", ARG(index));
    return func_end(f, qn_cast(func_is_class(index, classes), dtype));
}

qn_tensor *qn_embedding(qn_tensor *weight, qn_tensor *index) {
    func_frame f = func_on("embedding", ARG(weight), ARG(index));
    if (!index || !func_rank(weight)) return func_end(f, build_gather(weight, index, 0));
    return func_end(f, func_take(weight, index, 0));
}
