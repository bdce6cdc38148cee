/* place.c - indexing as in NumPy: x[1, ..., 2:-1, None, rows, columns], read and written.
 *
 * Slices, new axes and an ellipsis are movement. Arrays of integers are broadcast together and take
 * the place of the axes that they index: where those are neighbours theirs, else in front. Numbers
 * beside arrays are arrays without axes, as NumPy has it.
 *
 * A mask stands for the vectors of its places, as many as it has axes (mask.c). Read, it has as
 * many as are true, a number that is read; written, as many as src has elements for, or, beside
 * another mask or an array, with which its places are broadcast, as many as are true.
 *
 * Reading by k arrays is one GATHER: their axes are merged to one, and so are the indices. Writing
 * is one SCATTER into the flat elements. The place of an element is linear in each index, so places
 * are computed, never looked up. A place outside along any axis is outside of all. */
#include "func/func.h"

/* What is known of an index when it has been walked through. */
typedef struct indexing {
    qn_tensor *view;               /* x with slices and new axes; axes of arrays stay */
    int arrays, axis[QN_MAX_RANK]; /* axes of the view that arrays index */
    int source[QN_MAX_RANK];       /* and of x */
    qn_tensor *array[QN_MAX_RANK]; /* i64, negative ones counted from the end */
    int64_t size[QN_MAX_RANK];     /* of that axis */
    bool number[QN_MAX_RANK];      /* it was checked */
    bool mask[QN_MAX_RANK]; /* places of a mask, of which those behind the last are outside */
    int before;             /* arrays in front of an ellipsis that stands for no axis */
} indexing;

static int consumed(const qn_index_item *item) {
    return item->kind == QN_INDEX_SLICE || item->kind == QN_INDEX_NUMBER ||
           item->kind == QN_INDEX_ARRAY;
}

/* The items, masks as what they stand for, and how many there are. */
typedef struct index_list {
    int n;
    qn_index_item item[3 * QN_MAX_RANK];
    bool mask[3 * QN_MAX_RANK]; /* the item stands for one */
    bool masks;
} index_list;

static bool is_mask(const qn_index_item *item) {
    const qn_tensor *t = item->array;
    return item->kind == QN_INDEX_ARRAY && handle_is(t, HANDLE_TENSOR) &&
           qn_dtype_of(t) == QN_BOOL && func_rank(t) > 0;
}

/* Is there a mask whose places are broadcast with those of another or with an array? Then how they
 * meet depends on how many they are. */
static bool masks_meet(int n, const qn_index_item *items) {
    int masks = 0, arrays = 0;
    for (int i = 0; i < n; i++) {
        bool is = is_mask(&items[i]);
        masks += is;
        arrays += !is && items[i].kind == QN_INDEX_ARRAY && func_rank(items[i].array) &&
                  qn_dim(items[i].array, -1) != 1;
    }
    return masks > 1 || (masks && arrays);
}

/* The mask lies on x's axes from `axis` on. */
static bool mask_fits(const qn_tensor *x, const qn_tensor *mask, const char *name, int axis) {
    bool fits = axis + func_rank(mask) <= func_rank(x);
    for (int i = 0; fits && i < func_rank(mask); i++) fits = qn_dim(mask, i) == qn_dim(x, axis + i);
    if (!fits) tensor_unfit("x", x, "mask", mask, "%s: a mask has the sizes of its axes", name);
    return fits;
}

/* Masks with `bound` elements, -1: as many as are true, which is read. Each axis of x that they lie
 * on has an item then; those behind the last lie outside. */
static bool masks_listed(index_list *list, const qn_tensor *x, const char *name, int n,
                         const qn_index_item *items, int64_t bound) {
    int used = 0, open = 0, axis = 0;
    *list = (index_list){0};
    for (int i = 0; i < n; i++)
        used += is_mask(&items[i]) ? func_rank(items[i].array) : consumed(&items[i]);
    open = func_rank(x) - used;
    for (int i = 0; i < n; i++) {
        qn_tensor *mask = items[i].array, *column[QN_MAX_RANK];
        bool is = is_mask(&items[i]);
        int axes = is ? func_rank(mask) : 1;
        if (list->n + axes > (int)COUNT_OF(list->item))
            return fail_null(tensor_ctx(x), QN_EARG, "%s: %d items", name, n);
        if (is) {
            int64_t many = bound;
            if (!tensor_of(tensor_ctx(x), mask, name, "array") || !mask_fits(x, mask, name, axis))
                return false;
            if (many == -1) many = func_mask_count(mask);
            if (many == -1 || !func_mask_places(mask, many, bound >= 0, column)) return false;
        }
        for (int k = 0; k < axes; k++) {
            list->mask[list->n] = is;
            list->item[list->n++] = is ? QN_AT_PLACES(column[k]) : items[i];
        }
        list->masks |= is;
        axis += is ? axes : items[i].kind == QN_INDEX_ELLIPSIS ? open : consumed(&items[i]);
    }
    return true;
}

/* Axes that the ellipsis stands for; below 0: reported. */
static int ellipsis_axes(const qn_tensor *x, const char *name, int n, const qn_index_item *items) {
    int used = 0, ellipses = 0;
    for (int i = 0; i < n; i++) {
        used += consumed(&items[i]);
        ellipses += items[i].kind == QN_INDEX_ELLIPSIS;
        if (items[i].kind < QN_INDEX_SLICE || items[i].kind > QN_INDEX_ARRAY)
            return fail(tensor_ctx(x), QN_EARG, "%s: item %d is of no kind", name, i), -1;
    }
    if (ellipses > 1) return fail(tensor_ctx(x), QN_EARG, "%s: two ellipses", name), -1;
    if (used > func_rank(x))
        return fail(tensor_ctx(x), QN_ERANGE, "%s: %d axes indexed of %d", name, used,
                    func_rank(x)),
               -1;
    return func_rank(x) - used;
}

static bool add_array(indexing *x, const qn_index_item *item, int axis, int source) {
    qn_ctx *qn = tensor_ctx(x->view);
    int64_t n = qn_dim(x->view, axis);
    qn_tensor *index = item->array;
    if (item->kind == QN_INDEX_NUMBER) {
        if (n >= 0 && (item->start >= n || item->start < -n))
            return fail_null(qn, QN_ERANGE, "index: %lld of an axis of %lld",
                             (long long)item->start, (long long)n);
        index = qn_scalar_int(qn, QN_I64, item->start);
    } else if (!tensor_of(qn, index, "index", "array")) {
        return false;
    } else if (!dtype_is_int(qn_dtype_of(index))) {
        return fail_null(qn, QN_EDTYPE, "index: by %s: arrays are of integers",
                         qn_dtype_name(qn_dtype_of(index)));
    }
    x->axis[x->arrays] = axis;
    x->source[x->arrays] = source;
    x->size[x->arrays] = n;
    x->number[x->arrays] = item->kind == QN_INDEX_NUMBER;
    x->array[x->arrays++] = func_as(func_from_end(index, n), QN_I64);
    return true;
}

/* One item; axis: where it is in the view, which it moves on. */
static bool walk_item(indexing *x, const qn_index_item *item, bool by_arrays, int *axis,
                      int *source) {
    switch (item->kind) {
    case QN_INDEX_NEW_AXIS:
        x->view = qn_unsqueeze(x->view, *axis);
        ++*axis;
        return x->view;
    case QN_INDEX_SLICE:
        x->view = qn_slice(x->view, *axis, item->start, item->stop, item->step ? item->step : 1);
        break;
    case QN_INDEX_NUMBER:
        if (by_arrays) {
            if (!add_array(x, item, *axis, *source)) return false;
            break;
        }
        x->view = qn_select(x->view, *axis, item->start);
        --*axis;
        break;
    default:
        if (!add_array(x, item, *axis, *source)) return false;
    }
    ++*axis;
    ++*source;
    return x->view;
}

static bool walk(indexing *x, qn_tensor *t, const char *name, const index_list *list) {
    const qn_index_item *items = list->item;
    *x = (indexing){.view = t};
    if (!t) return false;
    int open = ellipsis_axes(t, name, list->n, items), axis = 0, source = 0;
    if (open < 0) return false;
    bool by_arrays = false;
    for (int i = 0; i < list->n; i++) by_arrays |= items[i].kind == QN_INDEX_ARRAY;
    for (int i = 0; i < list->n; i++) {
        int arrays = x->arrays;
        if (items[i].kind == QN_INDEX_ELLIPSIS) {
            axis += open;
            source += open;
            if (!open) x->before = x->arrays;
        } else if (!walk_item(x, &items[i], by_arrays, &axis, &source)) {
            return false;
        }
        if (x->arrays > arrays) x->mask[arrays] = list->mask[i];
    }
    return true;
}

/* Sum of index times stride; -1 where one is outside of its axis. Each is checked along its own
 * axis: of the sum nobody could tell which one it was. */
static qn_tensor *linear(const indexing *x, const int64_t *stride) {
    qn_tensor *sum = NULL, *outside = NULL;
    for (int i = 0; i < x->arrays; i++) {
        qn_tensor *index = x->array[i];
        if (!x->mask[i] && !x->number[i]) index = build_index(index, x->size[i]);
        qn_tensor *n = func_size(index, x->size[i]);
        qn_tensor *part = qn_mul(index, func_size(index, stride[i]));
        sum = sum ? qn_add(sum, part) : part;
        if (x->number[i]) continue;
        qn_tensor *off = qn_or(qn_lt(index, qn_like(index, 0)), qn_le(n, index));
        outside = outside ? qn_or(outside, off) : off;
    }
    return outside ? qn_where(outside, qn_like(sum, -1), sum) : sum;
}

/* Are the axes of the arrays neighbours? As in NumPy not with an ellipsis between them, even one
 * that stands for none. */
static bool neighbours(const indexing *x) {
    if (x->before && x->before < x->arrays) return false;
    return x->axis[x->arrays - 1] - x->axis[0] == x->arrays - 1;
}

/* The arrays' result axes, in front of t, to where they belong. */
static qn_tensor *arrays_placed(const indexing *x, qn_tensor *t, int rank) {
    int from[QN_MAX_RANK], to[QN_MAX_RANK];
    if (!neighbours(x)) return t;
    for (int i = 0; i < rank; i++) {
        from[i] = i;
        to[i] = x->axis[0] + i;
    }
    return qn_moveaxis(t, rank, from, to);
}

static qn_tensor *arrays_in_front(const indexing *x, qn_tensor *t) {
    int to[QN_MAX_RANK];
    for (int i = 0; i < x->arrays; i++) to[i] = i;
    return qn_moveaxis(t, x->arrays, x->axis, to);
}

static qn_tensor *read_by_arrays(const indexing *x) {
    if (!x->arrays) return x->view;
    int64_t stride[QN_MAX_RANK], step = 1;
    for (int i = x->arrays; i-- > 0;) {
        stride[i] = step;
        step = dim_op(tensor_ctx(x->view), step, '*', x->size[i]);
    }
    qn_tensor *index = x->arrays == 1 ? x->array[0] : linear(x, stride);
    qn_tensor *t = arrays_in_front(x, x->view);
    if (x->arrays > 1) t = qn_flatten(t, 0, x->arrays - 1);
    t = func_take(t, index, 0);
    return t ? arrays_placed(x, t, func_rank(index)) : NULL;
}

static bool items_there(const qn_tensor *x, const char *name, int n, const qn_index_item *items) {
    if (!x) return false;
    if (n >= 0 && (n == 0 || items) && n <= 2 * QN_MAX_RANK) return true;
    return fail_null(tensor_ctx(x), QN_EARG, "%s: %d items", name, n);
}

qn_tensor *qn_index(qn_tensor *x, int n, const qn_index_item *items) {
    func_frame f = func_on("index", ARG(x));
    indexing w;
    index_list list;
    if (!items_there(x, "index", n, items)) return func_end(f, NULL);
    if (!masks_listed(&list, x, "index", n, items, -1)) return func_end(f, NULL);
    return func_end(f, walk(&w, x, "index", &list) ? read_by_arrays(&w) : NULL);
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The places in x's flat elements of what qn_index reads: those where every array is at 0, and what
 * the arrays add to them. */
static qn_tensor *places(qn_tensor *x, const index_list *list) {
    qn_ctx *qn = tensor_ctx(x);
    int64_t dims[QN_MAX_RANK], all, stride[QN_MAX_RANK], step = 1, part[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    all = func_count(x, (1u << rank) - 1);
    for (int i = rank; i-- > 0;) {
        stride[i] = step;
        step = dim_op(qn, step, '*', dims[i]);
    }
    indexing w;
    qn_tensor *flat = func_iota(qn, QN_I64, 1, &all, 0);
    if (!walk(&w, func_reshape(flat, rank, dims), "index_put", list)) return NULL;
    if (!w.arrays) return w.view;
    for (int i = 0; i < w.arrays; i++) part[i] = stride[w.source[i]];
    qn_tensor *add = linear(&w, part), *t = arrays_in_front(&w, w.view);
    if (!add) return NULL;
    for (int i = 0; i < w.arrays; i++) t = qn_select(t, 0, 0);
    int more = func_rank(add);
    for (int i = 0; i < func_rank(t) && add && i < QN_MAX_RANK; i++)
        if (func_rank(add) < more + func_rank(t)) add = qn_unsqueeze(add, -1);
    t = qn_where(qn_lt(add, qn_like(add, 0)), add, qn_add(add, t));
    return t ? arrays_placed(&w, t, more) : NULL;
}

/* Elements of src along the axis of a mask alone, counted from the last: where that is in the
 * result tells a walk with a bound of any size; as many as the mask has if src has one for all.
 * -1: how many are true must be read. */
static int64_t bound_of_put(qn_tensor *x, int n, const qn_index_item *items, const qn_tensor *src) {
    indexing w;
    index_list list;
    if (masks_meet(n, items)) return -1;
    if (!masks_listed(&list, x, "index_put", n, items, 0) || !list.masks) return 0;
    if (!walk(&w, x, "index_put", &list)) return 0;
    int behind = func_rank(w.view) - (neighbours(&w) ? w.axis[0] + w.arrays : w.arrays);
    int at = func_rank(src) - 1 - behind;
    if (at < 0 || qn_dim(src, at) == 1) {
        int64_t most = 0;
        for (int i = 0; i < n; i++)
            if (is_mask(&items[i]))
                most = func_count(items[i].array, (1u << func_rank(items[i].array)) - 1);
        return most;
    }
    return qn_dim(src, at);
}

/* What masks leave over goes to one more element, which is cut off again. */
static qn_tensor *put_at(qn_tensor *x, qn_tensor *to, qn_tensor *src, bool masks, int how) {
    int64_t all = func_count(x, (1u << func_rank(x)) - 1);
    x = func_reshape(x, 1, &all);
    if (!masks) return build_scatter(x, to, src, 0, how);
    to = qn_where(qn_lt(to, qn_like(to, 0)), func_size(to, all), to);
    x = func_pad(x, (int64_t[]){0, 1, 0});
    return func_slice_axis(build_scatter(x, to, src, 0, how), 0, 0, all, 1);
}

qn_tensor *qn_index_put(qn_tensor *x, int n, const qn_index_item *items, qn_tensor *src,
                        qn_combine combine) {
    func_frame f = func_on("index_put", ARG(x), ARG(src));
    if (!src || !items_there(x, "index_put", n, items)) return func_end(f, NULL);
    int64_t dims[QN_MAX_RANK], all = qn_numel(x), count;
    int rank = func_dims(x, dims);
    if (all <= 0) return func_end(f, qn_numel(src) < 0 ? NULL : x);
    index_list list;
    int64_t bound = bound_of_put(x, n, items, src);
    if (!masks_listed(&list, x, "index_put", n, items, bound)) return func_end(f, NULL);
    qn_tensor *to = places(x, &list);
    if (!to) return func_end(f, NULL);
    if (!func_fits(src, to))
        return func_end(f, tensor_unfit("what is indexed", to, "src", src, "src broadcasts to it"));
    count = func_count(to, (1u << func_rank(to)) - 1);
    src = func_reshape(func_broadcast(func_fill(src, qn_dtype_of(x)), to), 1, &count);
    to = func_reshape(to, 1, &count);
    x = put_at(x, to, src, list.masks, (int)combine);
    return func_end(f, func_reshape(x, rank, dims));
}

/* ---- whole slices --------------------------------------------------------------------------- */

/* index, a vector, along an axis of src, whose slices it places. */
static qn_tensor *slice_index(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis) {
    if (!x || !index || !src) return NULL;
    if (func_rank(index) != 1 || func_rank(src) != func_rank(x) ||
        qn_dim(index, 0) != qn_dim(src, axis))
        return tensor_unfit("src", src, "index", index,
                            "index is a vector with a number for each slice of src");
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < func_rank(x); i++) dims[i] = i == axis ? qn_dim(index, 0) : 1;
    index = func_from_end(index, qn_dim(x, axis));
    return func_broadcast(func_reshape(index, func_rank(x), dims), src);
}

static bool integers(const qn_tensor *index) {
    if (!index || dtype_is_int(qn_dtype_of(index))) return index != NULL;
    fail(tensor_ctx(index), QN_EDTYPE, "%s: indices are integers, not %s",
         graph_name(tensor_ctx(index), "index"), qn_dtype_name(qn_dtype_of(index)));
    return false;
}

qn_tensor *qn_index_copy(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis) {
    func_frame f = func_on("index_copy", ARG(x), ARG(index), ARG(src));
    if (!func_axis(x, axis, &axis) || !src || !integers(index)) return func_end(f, NULL);
    index = slice_index(x, index, src, axis);
    return func_end(f, index ? build_scatter(x, index, src, axis, MONOID_SET) : NULL);
}

qn_tensor *qn_index_fill(qn_tensor *x, qn_tensor *index, double value, int axis) {
    func_frame f = func_on("index_fill", ARG(x), ARG(index));
    if (!func_axis(x, axis, &axis) || !integers(index)) return func_end(f, NULL);
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    if (func_rank(index) != 1)
        return func_end(f, tensor_unfit("x", x, "index", index, "index is a vector"));
    dims[axis] = qn_dim(index, 0);
    qn_tensor *src = func_expand(qn_like(x, value), rank, dims);
    index = slice_index(x, index, src, axis);
    return func_end(f, index ? build_scatter(x, index, src, axis, MONOID_SET) : NULL);
}

/* The mean of what comes to a place: sum over count, where anything came. */
qn_tensor *qn_scatter_mean(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis,
                           bool include_self) {
    func_frame f = func_on("scatter_mean", ARG(x), ARG(index), ARG(src));
    qn_tensor *v[] = {x, src};
    func_floats(&f, 2, v);
    if (!v[0] || !v[1] || !index) return func_end(f, build_scatter(x, index, src, axis, 0));
    double own = include_self ? 1 : 0;
    qn_tensor *count =
        qn_scatter(qn_full_like(v[0], own), index, qn_ones_like(v[1]), axis, QN_COMBINE_SUM);
    qn_tensor *start = include_self ? v[0] : qn_zeros_like(v[0]);
    qn_tensor *sum = qn_scatter(start, index, v[1], axis, QN_COMBINE_SUM);
    qn_tensor *none = qn_le(count, qn_like(v[0], own));
    qn_tensor *divisor = qn_where(none, qn_like(v[0], 1), count);
    return func_end(f, qn_where(none, v[0], qn_div(sum, divisor)));
}

qn_tensor *qn_masked_fill(qn_tensor *x, qn_tensor *mask, qn_tensor *value) {
    func_frame f = func_on("masked_fill", ARG(x), ARG(mask), ARG(value));
    if (!x || !mask || !value) return func_end(f, NULL);
    if (!func_fits(mask, x)) return func_end(f, tensor_unfit("x", x, "mask", mask, "mask fits x"));
    if (!func_fits(value, x))
        return func_end(f, tensor_unfit("x", x, "value", value, "value fits x"));
    return func_end(f, qn_where(mask, func_fill(value, qn_dtype_of(x)), x));
}

/* ---- slices put back ------------------------------------------------------------------------ */

static bool same_shape(const qn_tensor *part, const qn_tensor *src) {
    bool same = func_rank(part) == func_rank(src);
    for (int i = 0; same && i < func_rank(part); i++) same = qn_dim(part, i) == qn_dim(src, i);
    if (!same) tensor_unfit("the slice", part, "src", src, "their shapes must be equal");
    return same;
}

/* src is laid where the slice was taken: padded with what is before, after and between. */
qn_tensor *qn_slice_scatter(qn_tensor *x, qn_tensor *src, int axis, int64_t start, int64_t stop,
                            int64_t step) {
    func_frame f = func_on("slice_scatter", ARG(x), ARG(src));
    if (!func_axis(x, axis, &axis) || !src) return func_end(f, NULL);
    int64_t n = qn_dim(x, axis), p[3 * QN_MAX_RANK] = {0};
    if (step < 1 || n < 0)
        return func_end(f, fail_null(f.qn, QN_EARG,
                                     "slice_scatter: a step of %lld, or an axis of "
                                     "no known size",
                                     (long long)step));
    qn_tensor *part = qn_slice(x, axis, start, stop, step);
    if (!part || !same_shape(part, src)) return func_end(f, NULL);
    int64_t size = qn_dim(part, axis);
    if (!size) return func_end(f, x);
    start = start < 0 ? sat_add(start, n) : start;
    p[3 * axis] = start < 0 ? 0 : start;
    p[3 * axis + 1] = n - p[3 * axis] - (size - 1) * step - 1;
    p[3 * axis + 2] = size > 1 ? step - 1 : 0;
    src = func_fill(src, qn_dtype_of(x));
    return func_end(f, qn_where(func_inside(src, p), func_pad(src, p), x));
}

qn_tensor *qn_select_scatter(qn_tensor *x, qn_tensor *src, int axis, int64_t index) {
    func_frame f = func_on("select_scatter", ARG(x), ARG(src));
    if (!func_axis(x, axis, &axis) || !src) return func_end(f, NULL);
    qn_tensor *part = qn_select(x, axis, index);
    if (!part || !same_shape(part, src)) return func_end(f, NULL);
    int64_t stop = index == -1 ? QN_END : index + 1;
    return func_end(f, qn_slice_scatter(x, qn_unsqueeze(src, axis), axis, index, stop, 1));
}

/* Row i has src's number in the column that is the diagonal's there. */
qn_tensor *qn_diagonal_scatter(qn_tensor *x, qn_tensor *src, int64_t offset) {
    func_frame f = func_on("diagonal_scatter", ARG(x), ARG(src));
    qn_tensor *part = x && src ? qn_diagonal(x, offset) : NULL;
    if (!part || !same_shape(part, src)) return func_end(f, NULL);
    int64_t dims[QN_MAX_RANK], p[3 * QN_MAX_RANK] = {0};
    int rank = func_dims(x, dims), last = rank - 2;
    p[3 * last] = offset < 0 ? -offset : 0;
    p[3 * last + 1] = dims[last] - p[3 * last] - qn_dim(src, -1);
    if (qn_dim(src, -1) == 0) return func_end(f, x);
    src = qn_unsqueeze(func_pad(func_fill(src, qn_dtype_of(x)), p), -1);
    qn_tensor *row = func_iota(f.qn, QN_I64, 2, dims + last, 0);
    qn_tensor *column = func_iota(f.qn, QN_I64, 2, dims + last, 1);
    qn_tensor *here = qn_eq(qn_sub(column, row), qn_scalar_int(f.qn, QN_I64, offset));
    return func_end(f, qn_where(here, src, x));
}
