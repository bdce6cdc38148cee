/* strided.c - as_strided: elements at offset + the sum of index * stride of a tensor in row-major
 * order.
 *
 * Where no two places overlap it is movement, and so index algebra: with the strides in falling
 * order, the elements of one index lie in a run as long as its stride, so the tensor is cut into
 * such runs (a slice or pad, and a reshape), these in turn into those of the next index, and of the
 * last runs the first element is taken. A stride of 0 repeats, a negative one is flipped. Kernels
 * read through that as they do through any view, and the gradient is such movement, too. Places
 * that overlap, and sizes that are not known, are gathered. */
#include "func/func.h"

/* What as_strided was given: the places of the result's elements in x. */
typedef struct strided {
    int rank;
    const int64_t *shape, *strides;
    int64_t offset;
} strided;

/* Are all places within [0, n)? Only constants can be checked; others read 0 outside. */
static bool strided_inside(const qn_tensor *x, const strided *p) {
    int64_t lo = p->offset, hi = p->offset, n = func_count(x, (1u << func_rank(x)) - 1);
    for (int i = 0; i < p->rank; i++) {
        int64_t reach;
        if (p->shape[i] == 0 || n < 0 || dim_is_code(tensor_ctx(x)->graph, p->shape[i]))
            return true;
        if (__builtin_mul_overflow(p->shape[i] - 1, p->strides[i], &reach) ||
            __builtin_add_overflow(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi))
            return false;
    }
    return lo >= 0 && hi < n;
}

/* One index: its axis in the result, size and stride. */
typedef struct strided_axis {
    int axis;
    int64_t size, stride;
} strided_axis;

/* The axes that move, by falling strides, negative ones turned around; *offset becomes that of the
 * first element. Is each run as long as what is read of it? */
static bool strided_apart(const qn_tensor *x, const strided *p, int64_t *offset, strided_axis *at,
                          int *n) {
    const graph *g = tensor_ctx(x)->graph;
    int64_t span = 1;
    *n = 0;
    for (int i = 0; i < p->rank; i++) {
        if (p->shape[i] < 1 || dim_is_code(g, p->shape[i])) return false;
        if (p->shape[i] == 1 || p->strides[i] == 0) continue;
        int64_t stride = p->strides[i] < 0 ? -p->strides[i] : p->strides[i];
        if (p->strides[i] < 0) *offset += (p->shape[i] - 1) * p->strides[i];
        int k = (*n)++;
        for (; k && at[k - 1].stride < stride; k--) at[k] = at[k - 1];
        at[k] = (strided_axis){i, p->shape[i], stride};
    }
    for (int i = *n; i-- > 0;) {
        if (span > at[i].stride) return false;
        span += (at[i].size - 1) * at[i].stride;
    }
    return true;
}

/* The last axis, of `size` elements, from `start` on as rows x columns. */
static qn_tensor *in_runs(qn_tensor *x, int64_t size, int64_t start, int64_t rows,
                          int64_t columns) {
    int64_t dims[QN_MAX_RANK], pads[3 * QN_MAX_RANK] = {0};
    int rank = func_dims(x, dims), last = rank - 1;
    int64_t most = size - start, want = rows * columns;
    x = func_slice_axis(x, last, start, want < most ? want : most, 1);
    pads[3 * last + 1] = want - most;
    if (want > most && x) x = func_pad(x, pads);
    dims[last] = rows;
    dims[rank] = columns;
    return x ? func_reshape(x, rank + 1, dims) : NULL;
}

/* As movement; `apart` has checked that it is. */
static qn_tensor *strided_view(qn_tensor *x, const strided *p, int64_t start,
                               const strided_axis *at, int n) {
    int64_t dims[QN_MAX_RANK];
    int axes[QN_MAX_RANK], place[QN_MAX_RANK] = {0};
    int64_t size = func_count(x, (1u << func_rank(x)) - 1);
    x = qn_flatten(x, 0, -1);
    for (int i = 0; i < n && x; i++) {
        x = in_runs(x, size, start, at[i].size, at[i].stride);
        size = at[i].stride;
        start = 0;
    }
    if (x) x = func_slice_axis(x, n, start, 1, 1); /* [sizes by falling stride.., 1] */
    for (int i = 0; i < n; i++) place[at[i].axis] = i + 1;
    for (int i = 0, k = 0; i < p->rank; i++)
        if (place[i]) axes[k++] = place[i] - 1;
    axes[n] = n;
    if (x) x = build_permute(x, n + 1, axes);
    for (int i = 0; i < p->rank; i++) dims[i] = place[i] ? p->shape[i] : 1;
    x = x ? func_reshape(x, p->rank, dims) : NULL;
    for (int i = 0; i < p->rank && x; i++)
        if (place[i] && p->strides[i] < 0) x = qn_flip(x, i);
    return x ? func_expand(x, p->rank, p->shape) : NULL;
}

qn_tensor *qn_as_strided(qn_tensor *x, int rank, const int64_t *shape, const int64_t *strides,
                         int64_t offset) {
    func_frame f = func_on("as_strided", ARG(x));
    if (!x) return func_end(f, NULL);
    if (rank > 0 && (!shape || !strides))
        return func_end(f, fail_null(tensor_ctx(x), QN_ENULL, "as_strided: no shape or strides"));
    qn_tensor *place = func_full(tensor_ctx(x), QN_I64, rank, shape, 0);
    if (!place) return func_end(f, NULL);
    const strided p = {rank, shape, strides, offset};
    if (!strided_inside(x, &p))
        return func_end(f, fail_null(tensor_ctx(x), QN_ERANGE, "as_strided: places outside x"));
    strided_axis at[QN_MAX_RANK];
    int64_t first = offset;
    int n;
    if (rank < QN_MAX_RANK && func_count(x, (1u << func_rank(x)) - 1) > 0 &&
        strided_apart(x, &p, &first, at, &n))
        return func_end(f, strided_view(x, &p, first, at, n));
    for (int i = 0; i < rank; i++) {
        qn_tensor *index = func_iota(tensor_ctx(x), QN_I64, rank, shape, i);
        place = qn_add(place, qn_mul(index, qn_like(index, (double)strides[i])));
    }
    place = qn_add(place, qn_like(place, (double)offset));
    x = qn_gather(qn_flatten(x, 0, -1), qn_flatten(place, 0, -1), 0);
    return func_end(f, func_reshape(x, rank, shape));
}
