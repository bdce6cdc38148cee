/* index.c - operators with computed indices, and those whose sizes follow from values. */
#include "onnx/onnx.h"

#include <math.h>
#include <stdlib.h>

static qn_tensor *number(onnx_op *o, int64_t v) {
    return qn_scalar_int(o->qn, QN_I64, v);
}

/* Negative indices of an axis of n counted from its end. */
static qn_tensor *from_end(onnx_op *o, qn_tensor *index, int64_t n) {
    index = qn_cast(index, QN_I64);
    return qn_where(qn_lt(index, number(o, 0)), qn_add(index, number(o, n)), index);
}

static int64_t product(const int64_t *dims, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n = sat_mul(n, dims[i]);
    return n;
}

/* ---- gathers --------------------------------------------------------------------------------- */

void op_gather(onnx_op *o) {
    int axis = op_axis(o, attr_int(o, "axis", 0), op_rank(o, 0));
    o->out[0] = qn_take(op_in(o, 0), op_in(o, 1), axis);
}

/* Where in x's flat order the elements are that index names along an axis; its own places are
 * those of the other axes. */
static qn_tensor *flat_places(onnx_op *o, qn_tensor *index, int axis, const int64_t *dims) {
    int rank;
    const int64_t *mine = op_shape_of(o, index, &rank);
    qn_tensor *at =
        qn_mul(from_end(o, index, dims[axis]), number(o, product(dims, axis + 1, rank)));
    for (int i = 0; i < rank; i++) {
        if (i == axis) continue;
        qn_tensor *place = qn_iota(o->qn, QN_I64, rank, mine, i);
        at = qn_add(at, qn_mul(place, number(o, product(dims, i + 1, rank))));
    }
    return at;
}

static qn_tensor *flat(qn_tensor *x) {
    return qn_reshape(x, 1, (int64_t[]){-1});
}

void op_gather_elements(onnx_op *o) {
    int rank, other, axis = op_axis(o, attr_int(o, "axis", 0), op_rank(o, 0));
    const int64_t *dims = op_shape(o, 0, &rank), *mine = op_shape(o, 1, &other);
    if (rank != other) op_fail(o, QN_ESHAPE, "data of %d axes, indices of %d", rank, other);
    bool same = true;
    for (int i = 0; i < rank; i++) same &= i == axis || dims[i] == mine[i];
    if (same)
        o->out[0] = qn_gather(op_in(o, 0), op_in(o, 1), axis);
    else
        o->out[0] = qn_take(flat(op_in(o, 0)), flat_places(o, op_in(o, 1), axis, dims), 0);
}

static qn_combine combine_of(const onnx_op *o) {
    static const struct {
        const char *name;
        qn_combine combine;
    } ways[] = {{"none", QN_COMBINE_SET},
                {"add", QN_COMBINE_SUM},
                {"mul", QN_COMBINE_PROD},
                {"max", QN_COMBINE_MAX},
                {"min", QN_COMBINE_MIN}};
    const char *name = attr_text(o, "reduction", "none");
    for (size_t i = 0; i < COUNT_OF(ways); i++)
        if (!strcmp(name, ways[i].name)) return ways[i].combine;
    op_fail(o, QN_EARG, "reduction \"%.40s\"", name);
}

void op_scatter_elements(onnx_op *o) {
    int rank, other, axis = op_axis(o, attr_int(o, "axis", 0), op_rank(o, 0));
    const int64_t *dims = op_shape(o, 0, &rank);
    op_shape(o, 1, &other);
    if (rank != other) op_fail(o, QN_ESHAPE, "data of %d axes, indices of %d", rank, other);
    qn_tensor *at = flat(flat_places(o, op_in(o, 1), axis, dims));
    qn_tensor *y = qn_scatter(flat(op_in(o, 0)), at, flat(op_in(o, 2)), 0, combine_of(o));
    o->out[0] = qn_reshape(y, rank, dims);
}

/* Rows [n] of tuples in the last axis of index, over axes `from` on of dims, as flat numbers. */
static qn_tensor *tuple_places(onnx_op *o, qn_tensor *index, int from, const int64_t *dims) {
    int rank;
    const int64_t *mine = op_shape_of(o, index, &rank);
    if (!rank) op_fail(o, QN_ESHAPE, "indices without an axis");
    int k = (int)mine[rank - 1];
    qn_tensor *at = qn_full_int(o->qn, QN_I64, rank - 1, mine, 0);
    for (int i = 0; i < k; i++) {
        qn_tensor *part = from_end(o, qn_select(index, -1, i), dims[from + i]);
        at = qn_add(at, qn_mul(part, number(o, product(dims, from + i + 1, from + k))));
    }
    return at;
}

void op_gather_nd(onnx_op *o) {
    int rank, other, batch = (int)attr_int(o, "batch_dims", 0);
    const int64_t *dims = op_shape(o, 0, &rank), *mine = op_shape(o, 1, &other);
    int64_t k = other ? mine[other - 1] : 0;
    if (!other || batch < 0 || batch >= other || k > rank - batch)
        op_fail(o, QN_ESHAPE, "data of %d axes, indices of %d, batches of %d", rank, other, batch);
    int end = batch + (int)k;
    int64_t batches = product(dims, 0, batch), places = product(dims, batch, end);
    qn_tensor *at = tuple_places(o, op_in(o, 1), batch, dims);
    at = qn_reshape(at, 2, (int64_t[]){batches, product(mine, batch, other - 1)});
    qn_tensor *which = qn_iota(o->qn, QN_I64, 2, (int64_t[]){batches, 1}, 0);
    at = flat(qn_add(at, qn_mul(which, number(o, places))));
    qn_tensor *x =
        qn_reshape(op_in(o, 0), 2, (int64_t[]){sat_mul(batches, places), product(dims, end, rank)});
    int64_t shape[QN_MAX_RANK];
    int n = other - 1 + rank - end;
    if (n > QN_MAX_RANK) op_fail(o, QN_ESHAPE, "%d axes", n);
    for (int i = 0; i < other - 1; i++) shape[i] = mine[i];
    for (int i = end; i < rank; i++) shape[other - 1 + i - end] = dims[i];
    o->out[0] = qn_reshape(qn_take(x, at, 0), n, shape);
}

void op_scatter_nd(onnx_op *o) {
    int rank, other;
    const int64_t *dims = op_shape(o, 0, &rank), *mine = op_shape(o, 1, &other);
    int64_t k = other ? mine[other - 1] : 0;
    if (!other || k > rank) op_fail(o, QN_ESHAPE, "data of %d axes, indices of %d", rank, other);
    int64_t places = product(dims, 0, (int)k), rest = product(dims, (int)k, rank);
    int64_t n = product(mine, 0, other - 1);
    qn_tensor *at = qn_reshape(tuple_places(o, op_in(o, 1), 0, dims), 2, (int64_t[]){n, 1});
    at = qn_expand(at, 2, (int64_t[]){n, rest});
    qn_tensor *x = qn_reshape(op_in(o, 0), 2, (int64_t[]){places, rest});
    qn_tensor *src = qn_reshape(op_in(o, 2), 2, (int64_t[]){n, rest});
    o->out[0] = qn_reshape(qn_scatter(x, at, src, 0, combine_of(o)), rank, dims);
}

/* Update b written into the cache's axis from write_indices[b] on, around the end if circular. */
void op_tensor_scatter(onnx_op *o) {
    int rank, axis = op_axis(o, attr_int(o, "axis", -2), op_rank(o, 0));
    const int64_t *dims = op_shape(o, 0, &rank), *mine = op_shape(o, 1, &rank);
    bool around = !strcmp(attr_text(o, "mode", "linear"), "circular");
    qn_tensor *at = qn_iota(o->qn, QN_I64, rank, mine, axis);
    if (op_has(o, 2)) {
        int64_t shape[QN_MAX_RANK];
        for (int i = 0; i < rank; i++) shape[i] = i ? 1 : mine[0];
        at = qn_add(at, qn_reshape(qn_cast(op_in(o, 2), QN_I64), rank, shape));
    }
    if (around) at = qn_mod(at, number(o, dims[axis]));
    at = flat(flat_places(o, at, axis, dims));
    qn_tensor *y = qn_scatter(flat(op_in(o, 0)), at, flat(op_in(o, 1)), 0, QN_COMBINE_SET);
    o->out[0] = qn_reshape(y, rank, dims);
}

void op_one_hot(onnx_op *o) {
    int rank;
    op_shape(o, 0, &rank);
    int64_t depth = op_int(o, 1, 0);
    int axis = op_axis(o, attr_int(o, "axis", -1), rank + 1);
    qn_tensor *index = qn_unsqueeze(from_end(o, op_in(o, 0), depth), axis);
    int64_t shape[QN_MAX_RANK];
    if (rank == QN_MAX_RANK || depth < 0) op_fail(o, QN_ESHAPE, "depth %lld", (long long)depth);
    for (int i = 0; i <= rank; i++) shape[i] = i == axis ? depth : 1;
    qn_tensor *hot = qn_eq(index, qn_iota(o->qn, QN_I64, rank + 1, shape, axis));
    qn_tensor *values = op_in(o, 2);
    o->out[0] = qn_where(hot, qn_select(values, 0, 1), qn_select(values, 0, 0));
    o->type[0] = op_type(o, 2);
}

void op_topk(onnx_op *o) {
    int64_t k = o->version < 10 ? attr_int(o, "k", 1) : op_int(o, 1, 1);
    int axis = op_axis(o, attr_int(o, "axis", -1), op_rank(o, 0));
    bool largest = attr_int(o, "largest", 1) != 0;
    qn_tensor *values = NULL, *index = NULL;
    if (qn_topk(op_in(o, 0), k, axis, largest, &values, &index) != QN_OK) return;
    o->out[0] = values;
    if (o->n_out < 2) return;
    o->out[1] = index;
    o->type[1] = ONNX_INT64;
}

/* The first lengths[b] elements of batch b in reverse. */
void op_reverse_sequence(onnx_op *o) {
    int rank, time = (int)attr_int(o, "time_axis", 0), batch = (int)attr_int(o, "batch_axis", 1);
    const int64_t *dims = op_shape(o, 0, &rank);
    if (rank < 2 || time < 0 || batch < 0 || time >= rank || batch >= rank || time == batch)
        op_fail(o, QN_ERANGE, "axes %d and %d of %d", time, batch, rank);
    int64_t shape[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = i == batch ? dims[i] : 1;
    qn_tensor *n = qn_reshape(qn_cast(op_in(o, 1), QN_I64), rank, shape);
    qn_tensor *at = qn_iota(o->qn, QN_I64, rank, dims, time);
    qn_tensor *back = qn_sub(qn_sub(n, number(o, 1)), at);
    o->out[0] = qn_gather(op_in(o, 0), qn_where(qn_lt(at, n), back, at), time);
}

/* ---- sizes that follow from values ----------------------------------------------------------- */

void op_nonzero(onnx_op *o) {
    int rank;
    const int64_t *dims = op_shape(o, 0, &rank);
    int n;
    const double *v = op_floats(o, 0, &n);
    int64_t *place = op_alloc(o, (size_t)n * (size_t)(rank ? rank : 1), sizeof *place), count = 0;
    for (int i = 0; i < n; i++) count += v[i] != 0;
    for (int64_t i = 0, at = 0; i < n; i++) {
        if (v[i] == 0) continue;
        for (int64_t k = rank - 1, left = i; k >= 0; left /= dims[k--])
            place[k * count + at] = left % dims[k];
        at++;
    }
    o->out[0] = op_from(o, QN_I64, 2, (int64_t[]){rank, count}, place);
}

/* The slices of an axis, or the elements, where the condition holds. */
void op_compress(onnx_op *o) {
    const onnx_attr *at = op_attr(o, "axis");
    qn_tensor *x = op_in(o, 0);
    int n, rank, axis = at ? op_axis(o, at->i, op_rank(o, 0)) : 0;
    if (!at) x = flat(x);
    int64_t most = op_shape_of(o, x, &rank)[axis], count = 0;
    const int64_t *yes = op_ints(o, 1, &n);
    int64_t *place = op_alloc(o, (size_t)n, sizeof *place);
    for (int i = 0; i < n && i < most; i++)
        if (yes[i]) place[count++] = i;
    o->out[0] = qn_take(x, op_from_ints(o, count, place), axis);
}

/* Slices along an axis, as rows of numbers, to be compared. */
typedef struct rows {
    const double *v;
    int64_t n, inner, outer; /* element e of row i: v[(e / inner * n + i) * inner + e % inner] */
} rows;

static double row_element(const rows *r, int64_t i, int64_t e) {
    return r->v[(e / r->inner * r->n + i) * r->inner + e % r->inner];
}

static int compare_rows(const rows *r, int64_t a, int64_t b) {
    int64_t all = sat_mul(r->inner, r->outer);
    for (int64_t e = 0; e < all; e++) {
        double x = row_element(r, a, e), y = row_element(r, b, e);
        if (x < y || (!isnan(x) && isnan(y))) return -1;
        if (x > y || (isnan(x) && !isnan(y))) return 1;
    }
    return 0;
}

/* A stable merge sort of row numbers; qsort takes no argument for the comparison. */
static void sort_rows(const rows *r, int64_t *order, int64_t *room, int64_t n) {
    if (n < 2) return;
    int64_t half = n / 2, i = 0, k = half, at = 0;
    sort_rows(r, order, room, half);
    sort_rows(r, order + half, room, n - half);
    while (i < half || k < n) {
        bool left = k == n || (i < half && compare_rows(r, order[i], order[k]) <= 0);
        room[at++] = order[left ? i++ : k++];
    }
    memcpy(order, room, (size_t)n * sizeof *order);
}

enum { EMPTY_MOST = 1 << 20 }; /* rows without elements, which no memory bounds */

typedef struct uniques {
    int64_t *first, *inverse, *counts, n;
} uniques;

/* Groups of equal rows, by their order or by where each is first. */
static uniques find_uniques(const onnx_op *o, const rows *r, bool sorted) {
    size_t n = (size_t)r->n;
    int64_t *order = op_alloc(o, n, sizeof *order), *room = op_alloc(o, n, sizeof *room);
    int64_t *group = op_alloc(o, n, sizeof *group), *number = op_alloc(o, n, sizeof *number);
    uniques u = {op_alloc(o, n, 8), op_alloc(o, n, 8), op_alloc(o, n, 8), 0};
    for (int64_t i = 0; i < r->n; i++) order[i] = i;
    sort_rows(r, order, room, r->n);
    for (int64_t i = 0; i < r->n; i++) {
        if (i && compare_rows(r, order[i - 1], order[i]) == 0) {
            group[order[i]] = u.n - 1;
            continue;
        }
        room[u.n] = order[i]; /* the first of its group, for the sort is stable */
        group[order[i]] = u.n++;
    }
    int64_t next = 0;
    for (int64_t g = 0; g < u.n; g++) number[g] = sorted ? g : -1;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t g = group[i];
        if (number[g] < 0) number[g] = next++;
        u.first[number[g]] = room[g];
        u.inverse[i] = number[g];
        u.counts[number[g]]++;
    }
    return u;
}

void op_unique(onnx_op *o) {
    const onnx_attr *at = op_attr(o, "axis");
    qn_tensor *x = op_in(o, 0);
    int n, rank, axis = at ? op_axis(o, at->i, op_rank(o, 0)) : 0;
    if (!at) x = flat(x);
    const int64_t *dims = op_shape_of(o, x, &rank);
    rows r = {
        .n = dims[axis], .inner = product(dims, axis + 1, rank), .outer = product(dims, 0, axis)};
    r.v = op_floats(o, 0, &n);
    op_count(o, 1, &r.n, n > EMPTY_MOST ? n : EMPTY_MOST);
    uniques u = find_uniques(o, &r, attr_int(o, "sorted", 1) != 0);
    qn_tensor *first = op_from_ints(o, u.n, u.first);
    qn_tensor *list[4] = {qn_take(x, first, axis), first, op_from_ints(o, r.n, u.inverse),
                          op_from_ints(o, u.n, u.counts)};
    for (int k = 0; k < o->n_out && k < 4; k++) {
        o->out[k] = list[k];
        if (k) o->type[k] = ONNX_INT64;
    }
}

/* ---- boxes ----------------------------------------------------------------------------------- */

typedef struct box {
    double top, left, bottom, right;
} box;

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static box box_of(const double *v, bool center) {
    if (center) return (box){v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
    return (box){smaller(v[0], v[2]), smaller(v[1], v[3]), larger(v[0], v[2]), larger(v[1], v[3])};
}

static double overlap(const box *a, const box *b) {
    double high = smaller(a->bottom, b->bottom) - larger(a->top, b->top);
    double wide = smaller(a->right, b->right) - larger(a->left, b->left);
    if (high <= 0 || wide <= 0) return 0;
    double of_a = (a->bottom - a->top) * (a->right - a->left);
    double of_b = (b->bottom - b->top) * (b->right - b->left);
    return high * wide / (of_a + of_b - high * wide);
}

typedef struct suppressing {
    const double *boxes, *scores; /* of one batch and class */
    int64_t n, most, kept, *keep;
    double least_score, most_overlap;
    bool scored, center;
} suppressing;

/* The boxes of highest score that do not overlap one that was kept by more than allowed. */
static void suppress(suppressing *s, int64_t *order, int64_t *room) {
    rows r = {.v = s->scores, .n = s->n, .inner = 1, .outer = 1};
    for (int64_t i = 0; i < s->n; i++) order[i] = i;
    sort_rows(&r, order, room, s->n);
    s->kept = 0;
    for (int64_t i = s->n - 1; i >= 0 && s->kept < s->most;) {
        /* Of equal scores the first one first: the sort is ascending and stable. */
        int64_t low = i;
        while (low > 0 && s->scores[order[low - 1]] == s->scores[order[i]]) low--;
        for (int64_t k = low; k <= i && s->kept < s->most; k++) {
            bool fine = !s->scored || s->scores[order[k]] > s->least_score;
            box mine = box_of(s->boxes + 4 * order[k], s->center);
            for (int64_t j = 0; fine && j < s->kept; j++) {
                box other = box_of(s->boxes + 4 * s->keep[j], s->center);
                fine = overlap(&mine, &other) <= s->most_overlap;
            }
            if (fine) s->keep[s->kept++] = order[k];
        }
        i = low - 1;
    }
}

void op_non_max_suppression(onnx_op *o) {
    int rank, n;
    const int64_t *dims = op_shape(o, 1, &rank);
    const double *boxes = op_floats(o, 0, &n);
    if (rank != 3 || n != sat_mul(sat_mul(dims[0], dims[2]), 4))
        op_fail(o, QN_ESHAPE, "boxes and scores that do not fit");
    const double *scores = op_floats(o, 1, &n);
    suppressing s = {.n = dims[2], .most = op_int(o, 2, 0), .most_overlap = op_float(o, 3, 0)};
    s.scored = op_has(o, 4);
    s.least_score = op_float(o, 4, 0);
    s.center = attr_int(o, "center_point_box", 0) != 0;
    size_t each = n ? (size_t)s.n : 0;
    int64_t *order = op_alloc(o, each, 8), *room = op_alloc(o, each, 8), count = 0;
    int64_t *out = op_alloc(o, 3 * (size_t)n, sizeof *out);
    s.keep = op_alloc(o, each, 8);
    for (int64_t b = 0; n && b < dims[0]; b++) /* without scores there may be any number of b */
        for (int64_t c = 0; c < dims[1]; c++) {
            s.boxes = boxes + b * s.n * 4;
            s.scores = scores + (b * dims[1] + c) * s.n;
            suppress(&s, order, room);
            for (int64_t i = 0; i < s.kept; i++) {
                memcpy(out + 3 * count++, (int64_t[]){b, c, s.keep[i]}, 3 * sizeof *out);
            }
        }
    o->out[0] = op_from(o, QN_I64, 2, (int64_t[]){count, 3}, out);
}
