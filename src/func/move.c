/* move.c - movement: where an element of the result comes from.
 *
 * All of it comes down to the six MOVE rows, each a function on indices that the compiler
 * applies to the loads of whoever reads the result. unfold and diagonal are reshapes to a row
 * length that is one off, which shift each row against the one before; the index algebra turns
 * them into plain sums of indices. as_strided is in strided.c. */
#include "func/func.h"

#include <math.h>

/* ---- reshaping ------------------------------------------------------------------------------ */

static int64_t product(qn_ctx *qn, int n, const int64_t *dims) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p = dim_op(qn, p, '*', dims[i]);
    return p;
}

static void drop_at(int64_t *dims, int *n, int i) {
    for ((*n)--; i < *n; i++) dims[i] = dims[i + 1];
}

/* What must stand in place of -1. Sizes that occur on both sides cancel first, so that symbolic
 * ones need no division. */
static int64_t infer_size(const qn_tensor *x, int rank, const int64_t *shape, int hole) {
    int64_t have[QN_MAX_RANK], want[QN_MAX_RANK];
    int n = func_dims(x, have), m = 0;
    for (int i = 0; i < rank; i++)
        if (i != hole) want[m++] = shape[i];
    for (int i = m; i-- > 0;)
        for (int j = n; j-- > 0;)
            if (want[i] == have[j] && want[i] != 0) {
                drop_at(have, &n, j);
                drop_at(want, &m, i);
                break;
            }
    int64_t known = product(tensor_ctx(x), m, want), all = product(tensor_ctx(x), n, have);
    if (known == 1 || known == DIM_BAD) return known == 1 ? all : DIM_BAD;
    if (known == 0) {
        fail(tensor_ctx(x), QN_ESHAPE, "reshape: -1 could be any size next to a size 0");
        return DIM_BAD;
    }
    return dim_op(tensor_ctx(x), all, '/', known);
}

qn_tensor *qn_reshape(qn_tensor *x, int rank, const int64_t *shape) {
    func_frame f = func_on("reshape", ARG(x));
    int64_t dims[QN_MAX_RANK];
    int hole = -1;
    if (!x || rank < 0 || rank > QN_MAX_RANK || !shape)
        return func_end(f, func_reshape(x, rank, shape));
    for (int i = 0; i < rank; i++) {
        dims[i] = shape[i];
        if (dims[i] != -1) continue;
        if (hole >= 0) return func_end(f, fail_null(tensor_ctx(x), QN_ESHAPE, "reshape: -1 twice"));
        hole = i;
    }
    if (hole >= 0) dims[hole] = infer_size(x, rank, dims, hole);
    return func_end(f, func_reshape(x, rank, dims));
}

qn_tensor *qn_flatten(qn_tensor *x, int first, int last) {
    func_frame f = func_on("flatten", ARG(x));
    if (func_rank(x) == 0) return func_end(f, x ? func_reshape(x, 1, (int64_t[]){1}) : NULL);
    if (!func_axis(x, first, &first) || !func_axis(x, last, &last)) return func_end(f, NULL);
    if (first > last)
        return func_end(
            f, fail_null(tensor_ctx(x), QN_EARG, "flatten: axis %d is after %d", first, last));
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    dims[first] = product(tensor_ctx(x), last - first + 1, dims + first);
    for (int i = last + 1; i < rank; i++) dims[first + i - last] = dims[i];
    return func_end(f, func_reshape(x, rank - (last - first), dims));
}

/* Without the axes in mask; of those of another size `must` makes an error, else they stay. */
static qn_tensor *squeeze_mask(qn_tensor *x, uint32_t mask, bool must) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims), n = 0;
    for (int i = 0; i < rank; i++) {
        bool drop = (mask >> i & 1) && dims[i] == 1;
        if (!drop && must && (mask >> i & 1))
            return fail_null(tensor_ctx(x), QN_ESHAPE, "squeeze: the size of axis %d is not 1", i);
        if (!drop) dims[n++] = dims[i];
    }
    return func_reshape(x, n, dims);
}

qn_tensor *qn_squeeze(qn_tensor *x, int axis) {
    func_frame f = func_on("squeeze", ARG(x));
    uint32_t mask;
    return func_end(f, func_mask(x, axis, &mask) ? squeeze_mask(x, mask, axis != QN_ALL) : NULL);
}

qn_tensor *qn_squeeze_axes(qn_tensor *x, int n, const int *axes) {
    func_frame f = func_on("squeeze", ARG(x));
    uint32_t mask;
    return func_end(f, func_mask_of(x, n, axes, &mask) ? squeeze_mask(x, mask, true) : NULL);
}

/* Places of new axes in a result of this rank, as a mask; false: reported. */
static bool new_axes(const qn_tensor *x, int n, const int *axes, int rank, uint32_t *mask) {
    *mask = 0;
    for (int i = 0; i < n; i++) {
        int at = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (at < 0 || at >= rank || (*mask >> at & 1))
            return fail_null(tensor_ctx(x), QN_ERANGE, "unsqueeze: axis %d for rank %d", axes[i],
                             rank - n);
        *mask |= 1u << at;
    }
    return true;
}

static qn_tensor *unsqueeze_all(qn_tensor *x, int n, const int *axes) {
    int64_t old[QN_MAX_RANK], dims[QN_MAX_RANK];
    if (!x) return NULL;
    int rank = func_dims(x, old), from = 0;
    uint32_t mask;
    if (n > 0 && !axes) return fail_null(tensor_ctx(x), QN_ENULL, "unsqueeze: the axes are NULL");
    if (n < 0 || n > QN_MAX_RANK - rank)
        return fail_null(tensor_ctx(x), QN_ERANGE, "unsqueeze: %d more axes for rank %d", n, rank);
    if (!new_axes(x, n, axes, rank + n, &mask)) return NULL;
    for (int i = 0; i < rank + n; i++) dims[i] = mask >> i & 1 ? 1 : old[from++];
    return func_reshape(x, rank + n, dims);
}

qn_tensor *qn_unsqueeze(qn_tensor *x, int axis) {
    func_frame f = func_on("unsqueeze", ARG(x));
    return func_end(f, unsqueeze_all(x, 1, &axis));
}

qn_tensor *qn_unsqueeze_axes(qn_tensor *x, int n, const int *axes) {
    func_frame f = func_on("unsqueeze", ARG(x));
    return func_end(f, unsqueeze_all(x, n, axes));
}

qn_tensor *qn_permute(qn_tensor *x, int n, const int *axes) {
    return build_permute(x, n, axes);
}

qn_tensor *qn_transpose(qn_tensor *x, int a, int b) {
    func_frame f = func_on("transpose", ARG(x));
    if (!func_axis(x, a, &a) || !func_axis(x, b, &b)) return func_end(f, NULL);
    int axes[QN_MAX_RANK], rank = func_rank(x);
    for (int i = 0; i < rank; i++) axes[i] = i == a ? b : i == b ? a : i;
    return func_end(f, build_permute(x, rank, axes));
}

qn_tensor *qn_expand(qn_tensor *x, int rank, const int64_t *shape) {
    func_frame f = func_on("expand", ARG(x));
    int64_t dims[QN_MAX_RANK];
    int have = func_rank(x);
    if (!x || rank < have || rank > QN_MAX_RANK || !shape)
        return func_end(f, func_expand(x, rank, shape));
    for (int i = 0; i < rank; i++) {
        bool keep = shape[i] == -1 && i >= rank - have;
        dims[i] = keep ? qn_dim(x, i - (rank - have)) : shape[i];
    }
    return func_end(f, func_expand(x, rank, dims));
}

/* ---- slicing -------------------------------------------------------------------------------- */

qn_tensor *qn_flip(qn_tensor *x, int axis) {
    func_frame f = func_on("flip", ARG(x));
    uint32_t mask;
    return func_end(f, func_mask(x, axis, &mask) ? build_flip(x, mask) : NULL);
}

qn_tensor *qn_flip_axes(qn_tensor *x, int n, const int *axes) {
    func_frame f = func_on("flip", ARG(x));
    uint32_t mask;
    return func_end(f, func_mask_of(x, n, axes, &mask) ? build_flip(x, mask) : NULL);
}

static int64_t clamped(int64_t v, int64_t lo, int64_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/* NumPy's rules for a constant size n. A backward slice is a forward one, reversed. */
static qn_tensor *slice_known(qn_tensor *x, int axis, int64_t n, int64_t start, int64_t stop,
                              int64_t step) {
    int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1, size;
    start = clamped(start < 0 ? sat_add(start, n) : start, lo, hi);
    if (stop == QN_END)
        stop = step > 0 ? n : -1;
    else
        stop = clamped(stop < 0 ? sat_add(stop, n) : stop, lo, hi);
    int64_t length = step > 0 ? stop - start : start - stop;
    int64_t stride = step > 0 ? step : sat_neg(step);
    size = length > 0 ? (length - 1) / stride + 1 : 0;
    if (size <= 1) stride = 1;
    if (step > 0 || size == 0) return func_slice_axis(x, axis, size ? start : 0, size, stride);
    return build_flip(func_slice_axis(x, axis, start - (size - 1) * stride, size, stride),
                      1u << axis);
}

/* From the end, when negative and not a size's code. */
static int64_t slice_place(const qn_tensor *x, int64_t n, int64_t place) {
    bool from_end = place < 0 && !dim_is_code(tensor_ctx(x)->graph, place);
    return from_end ? dim_op(tensor_ctx(x), n, '-', sat_neg(place)) : place;
}

/* Sizes that are not constants: nothing is cut off, the slice must provably lie inside. */
static qn_tensor *slice_symbolic(qn_tensor *x, int axis, int64_t n, int64_t start, int64_t stop,
                                 int64_t step) {
    qn_ctx *qn = tensor_ctx(x);
    start = slice_place(x, n, start);
    if (step > 0) {
        stop = stop == QN_END ? n : slice_place(x, n, stop);
        int64_t size = dim_op(qn, stop, '-', start);
        if (step > 1) size = dim_op(qn, dim_op(qn, size, '+', step - 1), '/', step);
        return func_slice_axis(x, axis, start, size, step);
    }
    int64_t stride = sat_neg(step), last = 0;
    if (stop != QN_END) last = dim_op(qn, slice_place(x, n, stop), '+', 1);
    int64_t trips = dim_op(qn, dim_op(qn, start, '-', last), '/', stride);
    int64_t size = dim_op(qn, trips, '+', 1);
    start = dim_op(qn, start, '-', dim_op(qn, trips, '*', stride));
    return build_flip(func_slice_axis(x, axis, start, size, stride), 1u << axis);
}

qn_tensor *qn_slice(qn_tensor *x, int axis, int64_t start, int64_t stop, int64_t step) {
    func_frame f = func_on("slice", ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    if (step == 0) return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "slice: a step of 0"));
    const graph *g = tensor_ctx(x)->graph;
    int64_t n = qn_dim(x, axis);
    bool known = n >= 0 && !dim_is_code(g, start) && !dim_is_code(g, stop);
    return func_end(f, known ? slice_known(x, axis, n, start, stop, step)
                             : slice_symbolic(x, axis, n, start, stop, step));
}

/* x at one place of an axis, the axis dropped. */
static qn_tensor *select_at(qn_tensor *x, int axis, int64_t index) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    drop_at(dims, &rank, axis);
    return func_reshape(func_slice_axis(x, axis, index, 1, 1), rank, dims);
}

qn_tensor *qn_select(qn_tensor *x, int axis, int64_t index) {
    func_frame f = func_on("select", ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    return func_end(f, select_at(x, axis, slice_place(x, qn_dim(x, axis), index)));
}

/* Of known sizes it is a slice of x beside x, which only begins elsewhere for another shift. By one
 * place, as differences are made, it is two pieces, of which each is a plain copy. */
static qn_tensor *roll_axis(qn_tensor *x, int axis, int64_t shift) {
    if (!func_axis(x, axis, &axis)) return NULL;
    qn_ctx *qn = tensor_ctx(x);
    int64_t n = qn_dim(x, axis);
    bool number = !dim_is_code(qn->graph, shift);
    if (n == 0) return x;
    if (n > 0 && number) shift = shift % n + (shift % n < 0 ? n : 0);
    int64_t moved = shift < 0 && number ? sat_neg(shift) : dim_op(qn, n, '-', shift);
    if (n > 0 && number && shift > 1 && shift < n - 1)
        return func_slice_axis(qn_concat(2, (qn_tensor *const[]){x, x}, axis), axis, moved, n, 1);
    qn_tensor *front = func_slice_axis(x, axis, 0, moved, 1); /* goes to the end */
    qn_tensor *end = func_slice_axis(x, axis, moved, dim_op(qn, n, '-', moved), 1);
    return qn_concat(2, (qn_tensor *const[]){end, front}, axis);
}

qn_tensor *qn_roll(qn_tensor *x, int axis, int64_t shift) {
    func_frame f = func_on("roll", ARG(x));
    return func_end(f, roll_axis(x, axis, shift));
}

qn_tensor *qn_roll_axes(qn_tensor *x, int n, const int *axes, const int64_t *shifts) {
    func_frame f = func_on("roll", ARG(x));
    if (x && (n < 0 || (n > 0 && (!axes || !shifts))))
        return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "roll: %d axes and shifts", n));
    for (int i = 0; x && i < n; i++) x = roll_axis(x, axes[i], shifts[i]);
    return func_end(f, x);
}

/* ---- padding -------------------------------------------------------------------------------- */

/* Ones where pad puts x's elements: as bools, so that nothing is added to a value. */
qn_tensor *func_inside(qn_tensor *x, const int64_t *lo_hi_interior) {
    if (!x) return NULL;
    qn_tensor *yes = func_broadcast(qn_scalar(tensor_ctx(x), QN_BOOL, 1), x);
    return func_pad(yes, lo_hi_interior);
}

static qn_tensor *pad_constant(qn_tensor *x, const int64_t *p, double value) {
    if (value == 0 && !signbit(value)) return func_pad(x, p);
    return qn_where(func_inside(x, p), func_pad(x, p), qn_like(x, value));
}

/* `count` elements to put before (or after) x along an axis. */
static qn_tensor *pad_part(qn_tensor *x, int axis, int64_t count, bool before, qn_pad_mode mode) {
    int64_t n = qn_dim(x, axis), dims[QN_MAX_RANK];
    qn_ctx *qn = tensor_ctx(x);
    if (mode == QN_PAD_CIRCULAR)
        return func_slice_axis(x, axis, before ? dim_op(qn, n, '-', count) : 0, count, 1);
    if (mode == QN_PAD_REFLECT) {
        int64_t start = before ? 1 : dim_op(qn, n, '-', dim_op(qn, count, '+', 1));
        return build_flip(func_slice_axis(x, axis, start, count, 1), 1u << axis);
    }
    int rank = func_dims(x, dims);
    dims[axis] = count;
    int64_t at = before ? 0 : dim_op(qn, n, '-', 1);
    return func_expand(func_slice_axis(x, axis, at, 1, 1), rank, dims);
}

static qn_tensor *pad_axis_from_itself(qn_tensor *x, int axis, int64_t before, int64_t after,
                                       qn_pad_mode mode) {
    if (!x || (before == 0 && after == 0)) return x;
    qn_tensor *parts[3];
    int n = 0;
    if (before) parts[n++] = pad_part(x, axis, before, true, mode);
    parts[n++] = x;
    if (after) parts[n++] = pad_part(x, axis, after, false, mode);
    return qn_concat(n, parts, axis);
}

/* Negative padding cuts off; what is left is to be padded. */
static qn_tensor *pad_crop(qn_tensor *x, int axis, int64_t *before_after) {
    int64_t cut[2] = {0, 0}, n = qn_dim(x, axis);
    for (int i = 0; i < 2; i++) {
        if (before_after[i] >= 0 || dim_is_code(tensor_ctx(x)->graph, before_after[i])) continue;
        cut[i] = sat_neg(before_after[i]);
        before_after[i] = 0;
    }
    if (!cut[0] && !cut[1]) return x;
    int64_t left = dim_op(tensor_ctx(x), dim_op(tensor_ctx(x), n, '-', cut[0]), '-', cut[1]);
    return func_slice_axis(x, axis, cut[0], left, 1);
}

qn_tensor *qn_pad(qn_tensor *x, const int64_t *before_after, qn_pad_mode mode, double value) {
    func_frame f = func_on("pad", ARG(x));
    int64_t p[3 * QN_MAX_RANK] = {0};
    int rank = func_rank(x);
    if (!x) return func_end(f, NULL);
    if (!before_after) return func_end(f, fail_null(tensor_ctx(x), QN_ENULL, "pad: no numbers"));
    if (mode < QN_PAD_CONSTANT || mode > QN_PAD_CIRCULAR)
        return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "pad: no such mode"));
    for (int i = 0; i < rank && x; i++) {
        p[3 * i] = before_after[2 * i];
        p[3 * i + 1] = before_after[2 * i + 1];
        x = pad_crop(x, i, p + 3 * i);
    }
    if (mode == QN_PAD_CONSTANT) return func_end(f, x ? pad_constant(x, p, value) : NULL);
    for (int i = 0; i < rank; i++) x = pad_axis_from_itself(x, i, p[3 * i], p[3 * i + 1], mode);
    return func_end(f, x);
}

/* ---- windows and diagonals ------------------------------------------------------------------ */

qn_tensor *qn_unfold(qn_tensor *x, int axis, int64_t size, int64_t step) {
    func_frame f = func_on("unfold", ARG(x));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    if (size < 1 || step < 1)
        return func_end(f, fail_null(tensor_ctx(x), QN_EARG, "unfold: windows of %lld every %lld",
                                     (long long)size, (long long)step));
    int64_t n = qn_dim(x, axis), room = dim_op(tensor_ctx(x), n, '-', size);
    int64_t windows = dim_op(tensor_ctx(x), dim_op(tensor_ctx(x), room, '/', step), '+', 1);
    int rank = func_rank(x);
    if (rank == QN_MAX_RANK || windows == DIM_BAD)
        return func_end(f, fail_null(tensor_ctx(x), QN_ERANGE, "unfold: windows of %lld do not fit",
                                     (long long)size));
    func_windows w = {axis, rank, step, 1, 0, windows, size};
    return func_end(f, func_window(qn_unsqueeze(x, rank), &w));
}

/* In rows of n elements, i*(n+1) is the place of [i, i]. They are rows of the square that the
 * diagonal crosses, so that the offset is where the square lies and no part of a size. */
qn_tensor *qn_diagonal(qn_tensor *x, int64_t offset) {
    func_frame f = func_on("diagonal", ARG(x));
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    if (x && rank < 2)
        return func_end(f, fail_null(tensor_ctx(x), QN_ESHAPE, "diagonal: rank %d, below 2", rank));
    if (!x) return func_end(f, NULL);
    int64_t rows = qn_dim(x, -2), columns = qn_dim(x, -1);
    if (rows < 0 || columns < 0)
        return func_end(f,
                        fail_null(tensor_ctx(x), QN_ESHAPE, "diagonal: the sizes must be known"));
    int64_t right = offset > 0 ? offset : 0, down = offset < 0 ? sat_neg(offset) : 0;
    if (right > columns) right = columns;
    if (down > rows) down = rows;
    int64_t size = rows - down < columns - right ? rows - down : columns - right;
    x = func_slice_axis(x, rank - 2, size ? down : 0, size, 1);
    x = qn_flatten(func_slice_axis(x, rank - 1, size ? right : 0, size, 1), -2, -1);
    return func_end(f, x ? func_slice_axis(x, rank - 2, 0, size, size > 1 ? size + 1 : 1) : NULL);
}

/* The larger of the last two sizes, at most. */
static int64_t dim_most(const qn_tensor *x) {
    graph *g = tensor_ctx(x)->graph;
    int rank;
    const int64_t *dims = node_dims(g, tensor_at(x)->node, &rank);
    int64_t a = sym_hi(g->syms, (sym)dims[rank - 2]), b = sym_hi(g->syms, (sym)dims[rank - 1]);
    return a > b ? a : b;
}

/* x where (column - row) compares with k, else 0. */
static qn_tensor *triangle(qn_tensor *x, int64_t k, bool upper) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    if (x && rank < 2)
        return fail_null(tensor_ctx(x), QN_ESHAPE, "%s: rank %d, below 2",
                         graph_name(tensor_ctx(x), "tri"), rank);
    if (!x) return NULL;
    qn_tensor *row = func_iota(tensor_ctx(x), QN_I64, 2, dims + rank - 2, 0);
    qn_tensor *column = func_iota(tensor_ctx(x), QN_I64, 2, dims + rank - 2, 1);
    if (k > INT32_MAX && k > dim_most(x)) k = dim_most(x); /* no sum overflows */
    if (k < INT32_MIN && k < -dim_most(x)) k = -dim_most(x);
    row = qn_add(row, func_integer(row, k));
    qn_tensor *keep = upper ? qn_le(row, column) : qn_le(column, row);
    return qn_where(keep, x, qn_like(x, 0));
}

qn_tensor *qn_triu(qn_tensor *x, int64_t k) {
    func_frame f = func_on("triu", ARG(x));
    return func_end(f, triangle(x, k, true));
}

qn_tensor *qn_tril(qn_tensor *x, int64_t k) {
    func_frame f = func_on("tril", ARG(x));
    return func_end(f, triangle(x, k, false));
}
