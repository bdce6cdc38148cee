/* pool.c - pooling: one number of each window of an image, its largest, mean or norm.
 *
 * Windows at equal distances are movement (WINDOW), so pooling is a reduction over axes that no
 * memory has, and its gradient the windows undone. Few windows, as those of adaptive pooling are
 * as a rule, are slices, each a reduction, side by side. Others whose beginnings follow no rule,
 * those of adaptive pooling where the number of places does not divide the size, and of fractional
 * pooling, are gathered: all as long as the longest, what is behind a shorter one's end left out.
 *
 * Which element is the largest is an argmax over the places in the window; from that and from where
 * the window begins follows its place in the image. */
#include "func/nn/conv.h"

#include <math.h>

#define SAME(name) ((int)QN_POOL_##name == POOL_##name)
enum { POOL_MAX, POOL_AVG, POOL_NORM };
enum { FEW_OF_AXIS = 16, FEW_SUMS = 1 << 12, FEW_MAX = 64 }; /* windows, that are slices then */
_Static_assert(SAME(MAX) && SAME(AVG) && SAME(NORM), "qn_pool_kind");

/* Windows along one spatial axis. */
typedef struct pool_axis {
    bool moved;              /* at equal distances */
    bool open;               /* some reach beyond the image */
    int64_t places, size, n; /* size: of the longest */
    qn_tensor *start;        /* i64, of the result's rank: where in the image each begins */
    qn_tensor *end;          /* where each ends, if not moved; NULL: all are equally long */
} pool_axis;

typedef struct pooling {
    conv c;
    qn_pool_options o;
    int rank, first; /* of the image; its first spatial axis */
    pool_axis at[SPACE];
} pooling;

/* Numbers from 0 on along one axis of `rank`. */
static qn_tensor *counted(qn_ctx *qn, int rank, int axis, int64_t n) {
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = i == axis ? n : 1;
    return func_iota(qn, QN_I64, rank, dims, axis);
}

static qn_tensor *plus(qn_tensor *x, int64_t v) {
    return x && v ? qn_add(x, func_integer(x, v)) : x;
}

static qn_tensor *times(qn_tensor *x, int64_t v) {
    return v == 1 ? x : qn_mul(x, func_size(x, v));
}

/* ---- where the windows are ------------------------------------------------------------------- */

static bool pool_read(pooling *p, qn_tensor *x, const int64_t *size, const qn_pool_options *o) {
    qn_ctx *qn = tensor_ctx(x);
    *p = (pooling){.o = QN_POOL_OPTIONS(), .rank = func_rank(x)};
    if (!struct_take(qn, graph_name(qn, "pool"), "qn_pool_options", &p->o, sizeof p->o, o))
        return false;
    qn_conv_options c =
        QN_CONV_OPTIONS(.same = p->o.same && !p->o.adaptive, .channels_last = p->o.channels_last);
    for (int i = 0; i < SPACE && !p->o.adaptive; i++) {
        c.stride[i] = p->o.stride[i];
        c.dilation[i] = p->o.dilation[i];
        c.before[i] = p->o.before[i];
        c.after[i] = p->o.after[i];
        if (!c.stride[i] && size && i < p->rank - 2) c.stride[i] = size[i] < 1 ? 1 : size[i];
    }
    if (!conv_read(&p->c, x, p->rank - 2, &c)) return false;
    p->c.ceil = p->o.ceil;
    p->first = p->o.channels_last ? 1 : 2;
    if (!size) return fail_null(qn, QN_ENULL, "%s: no sizes", graph_name(qn, "pool"));
    for (int i = 0; i < p->c.space; i++) {
        p->c.kernel[i] = size[i];
        if (size[i] < 1) return conv_error(x, "a window below size 1");
    }
    if (p->o.kind < QN_POOL_MAX || p->o.kind > QN_POOL_NORM)
        return fail_null(qn, QN_EARG, "%s: no such kind", graph_name(qn, "pool"));
    if (p->o.kind == QN_POOL_NORM && !(p->o.p > 0))
        return fail_null(qn, QN_ERANGE, "%s: a norm with p = %g", graph_name(qn, "pool"), p->o.p);
    return true;
}

static bool pool_regular(pooling *p, qn_tensor *x) {
    if (!conv_count(&p->c, x)) return false;
    for (int i = 0; i < p->c.space; i++) {
        const conv *c = &p->c;
        int64_t last = sat_mul(c->places[i] - 1, c->o.stride[i]);
        int64_t end = sat_sub(sat_add(last, conv_reach(c, i)), c->o.before[i]);
        qn_tensor *number = counted(tensor_ctx(x), p->rank, p->first + i, c->places[i]);
        p->at[i] = (pool_axis){.moved = true, .places = c->places[i], .size = c->kernel[i]};
        p->at[i].n = c->n[i];
        p->at[i].start = plus(times(number, c->o.stride[i]), -c->o.before[i]);
        p->at[i].open = c->o.before[i] || c->o.after[i] ||
                        (c->ceil && (c->n[i] < 0 || c->places[i] < 0 || end > c->n[i]));
        if (!p->at[i].start) return false;
    }
    return true;
}

/* Windows begin at k n / places, whose fractions are the multiples of their gcd. */
static int64_t longest_window(int64_t n, int64_t places) {
    int64_t rest = n % places, a = places, b = rest;
    while (b) {
        int64_t next = a % b;
        a = b;
        b = next;
    }
    return n / places + (rest == 0 ? 0 : rest > a ? 2 : 1);
}

/* Place i goes from floor(i * n / places) to ceil((i + 1) * n / places). */
static bool pool_adaptive(pooling *p, qn_tensor *x) {
    qn_ctx *qn = tensor_ctx(x);
    for (int i = 0; i < p->c.space; i++) {
        int64_t n = p->c.n[i], places = p->c.kernel[i];
        bool moved = places == 1 || (n > 0 && n % places == 0);
        if (n == 0 || (n < 0 && !moved))
            return conv_error(x, "places over an axis that has none, or of unknown size");
        int64_t step = moved && places > 1 ? n / places : n, longest = longest_window(n, places);
        qn_tensor *number = counted(qn, p->rank, p->first + i, places);
        p->at[i] = (pool_axis){.moved = moved, .places = places, .size = moved ? step : longest};
        p->at[i].n = n;
        p->c.o.stride[i] = moved && n > 0 ? step : 1;
        p->at[i].start =
            moved ? times(number, step) : qn_floor_div(times(number, n), func_size(number, places));
        if (!moved)
            p->at[i].end = qn_floor_div(plus(times(plus(number, 1), n), places - 1),
                                        func_size(number, places));
        if (!p->at[i].start || (!moved && !p->at[i].end)) return false;
    }
    return true;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* t, of the result's rank, over the axes of windows: places and sizes behind each other. */
static qn_tensor *over_windows(const pooling *p, qn_tensor *t) {
    for (int i = p->c.space; i-- > 0 && t;) t = qn_unsqueeze(t, p->first + i + 1);
    return t;
}

/* The places in a window along an axis, over the axes of windows. */
static qn_tensor *inner(const pooling *p, qn_ctx *qn, int i) {
    return counted(qn, p->rank + p->c.space, p->first + 2 * i + 1, p->at[i].size);
}

/* Windows along axis i of x, in which those of the axes behind are made, by reading at places. */
static qn_tensor *gathered(const pooling *p, qn_tensor *x, int i) {
    const pool_axis *a = &p->at[i];
    int64_t dims[QN_MAX_RANK], flat[QN_MAX_RANK], split[QN_MAX_RANK];
    int axis = p->first + i, rank = func_dims(x, dims);
    qn_tensor *from = a->start, *to = a->end;
    for (int k = func_rank(from); k < rank; k++) from = qn_unsqueeze(from, -1);
    for (int k = p->rank; k < rank; k++) to = to ? qn_unsqueeze(to, -1) : NULL;
    from = qn_unsqueeze(from, axis + 1);
    qn_tensor *at = qn_add(from, counted(tensor_ctx(x), rank + 1, axis + 1, a->size));
    if (to) at = qn_minimum(at, plus(qn_unsqueeze(to, axis + 1), -1));
    if (!at) return NULL;
    for (int k = 0; k < rank; k++) flat[k] = qn_dim(at, k + (k > axis));
    flat[axis] = sat_mul(a->places, a->size);
    at = func_reshape(at, rank, flat);
    dims[axis] = flat[axis];
    x = build_gather(x, func_expand(at, rank, dims), axis);
    for (int k = 0; k <= rank; k++) split[k] = dims[k - (k > axis)];
    split[axis] = a->places;
    split[axis + 1] = a->size;
    return func_reshape(x, rank + 1, split);
}

/* Windows of x, their places in the axes of the mask. */
static qn_tensor *all_windows(const pooling *p, qn_tensor *x, uint32_t *mask) {
    *mask = 0;
    for (int i = p->c.space; i-- > 0 && x;) {
        const pool_axis *a = &p->at[i];
        int axis = p->first + i;
        func_windows w = {axis, axis + 1,  p->c.o.stride[i], p->c.o.dilation[i],
                          0,    a->places, a->size};
        w.before = p->c.o.before[i];
        if (a->moved && p->o.adaptive && a->places == 1)
            x = qn_unsqueeze(x, axis);
        else
            x = a->moved ? func_window(qn_unsqueeze(x, axis + 1), &w) : gathered(p, x, i);
        *mask |= 1u << (p->first + 2 * i + 1);
    }
    return x;
}

/* Bool: which places of windows are of the image; NULL: all are. */
static qn_tensor *image_inside(const pooling *p, qn_tensor *x) {
    qn_tensor *inside = NULL;
    bool open = false;
    uint32_t mask;
    for (int i = 0; i < p->c.space; i++) open |= p->at[i].open;
    if (open) {
        inside = func_broadcast(qn_scalar(tensor_ctx(x), QN_BOOL, 1), x);
        inside = all_windows(p, inside, &mask);
    }
    for (int i = 0; i < p->c.space; i++) {
        if (!p->at[i].end) continue;
        qn_tensor *length = over_windows(p, qn_sub(p->at[i].end, p->at[i].start));
        qn_tensor *there = qn_lt(inner(p, tensor_ctx(x), i), length);
        inside = inside ? qn_and(inside, there) : there;
    }
    return inside;
}

/* Windows, `outside` in them where the image is not. */
static qn_tensor *pool_windows(const pooling *p, qn_tensor *x, double outside, uint32_t *mask) {
    bool padded = true; /* with zeros */
    for (int i = 0; i < p->c.space; i++) padded &= !p->at[i].end;
    qn_tensor *t = all_windows(p, x, mask);
    qn_tensor *inside = outside == 0 && padded ? NULL : image_inside(p, x);
    return inside && t ? qn_where(inside, t, qn_like(t, outside)) : t;
}

/* ---- few windows ----------------------------------------------------------------------------- */

/* Window k of an axis of adaptive pooling, by itself. */
static qn_tensor *piece(const pooling *p, qn_tensor *x, int i, int64_t k) {
    int64_t n = p->at[i].n, m = p->at[i].places, from = k * n / m;
    return func_slice_axis(x, p->first + i, from, ((k + 1) * n + m - 1) / m - from, 1);
}

/* Few enough that each is read as a slice, a reduction of its own? One over all is no piece. */
static bool in_pieces(const pooling *p, int64_t most_of_axis, int64_t most) {
    int64_t all = 1;
    for (int i = 0; i < p->c.space; i++) {
        if (p->at[i].n < 1 || p->at[i].places > most_of_axis) return false;
        all *= p->at[i].places;
    }
    return p->o.adaptive && all > 1 && all <= most;
}

/* Sums over windows: the axes are summed one after the other, the outer ones first, which are rows
 * of vectors. */
static qn_tensor *piece_sums(const pooling *p, qn_tensor *x) {
    qn_tensor *part[FEW_OF_AXIS];
    for (int i = 0; i < p->c.space && x; i++) {
        for (int64_t k = 0; k < p->at[i].places; k++) {
            part[k] = piece(p, x, i, k);
            part[k] = part[k] ? build_reduce(OP_SUM, part[k], 1u << (p->first + i), true) : NULL;
            if (!part[k]) return NULL;
        }
        x = qn_concat((int)p->at[i].places, part, p->first + i);
    }
    return x;
}

/* The largest of each window, which is reduced as a whole, so that equal ones share alike. */
static qn_tensor *piece_max(const pooling *p, qn_tensor *x, int i) {
    qn_tensor *part[FEW_OF_AXIS];
    if (!x || i == p->c.space)
        return x ? build_reduce(OP_MAX, x, ((1u << i) - 1) << p->first, true) : NULL;
    for (int64_t k = 0; k < p->at[i].places; k++) {
        part[k] = piece_max(p, piece(p, x, i, k), i + 1);
        if (!part[k]) return NULL;
    }
    return qn_concat((int)p->at[i].places, part, p->first + i);
}

/* ---- what becomes of a window ---------------------------------------------------------------- */

static double lowest(qn_dtype d) {
    return dtype_is_float(d) ? -dtype_top(d) : (double)monoid_identity(MONOID_MAX, 0, d).i;
}

/* How many places of the windows of an axis are in front of the image. */
static qn_tensor *in_front(const pooling *p, int i) {
    qn_tensor *start = p->at[i].start;
    int64_t step = p->c.o.dilation[i];
    qn_tensor *front = qn_floor_div(plus(qn_neg(start), step - 1), func_size(start, step));
    return qn_maximum(front, qn_like(start, 0));
}

/* How many places the windows of an axis have that count; NULL: all have as many. Those of padding
 * count unless they are excluded, those beyond it never. Of none, whose sum is 0, it says 1. */
static qn_tensor *counts(const pooling *p, int i) {
    const pool_axis *a = &p->at[i];
    qn_tensor *start = a->start;
    if (a->end) return qn_sub(a->end, start);
    if (!a->open || (!p->o.exclude_padding && !p->c.ceil)) return NULL;
    qn_ctx *qn = tensor_ctx(start);
    int64_t step = p->c.o.dilation[i];
    int64_t last = p->o.exclude_padding ? a->n : dim_op(qn, a->n, '+', p->c.o.after[i]);
    /* places to the end of what counts: rounded up by the step */
    qn_tensor *room = qn_sub(func_size(start, last), start), *by = func_size(start, step);
    room = qn_minimum(qn_floor_div(plus(room, step - 1), by), func_size(start, a->size));
    if (p->o.exclude_padding) room = qn_sub(room, in_front(p, i));
    return qn_maximum(room, qn_like(room, 1));
}

static qn_tensor *averaged(const pooling *p, qn_tensor *x) {
    uint32_t mask = 0;
    bool pieces = in_pieces(p, FEW_OF_AXIS, FEW_SUMS);
    qn_tensor *t = pieces ? piece_sums(p, x) : pool_windows(p, x, 0, &mask), *divisor = NULL;
    double all = 1;
    for (int i = 0; i < p->c.space && t; i++) {
        qn_tensor *count = counts(p, i);
        if (!count && p->at[i].size < 0) count = func_size(p->at[i].start, p->at[i].size);
        if (count) count = func_as(count, qn_dtype_of(t));
        if (count) divisor = divisor ? qn_mul(divisor, count) : count;
        if (!count) all *= (double)p->at[i].size;
    }
    if (!t || (!divisor && !pieces)) return t ? func_mean(t, mask, false) : NULL;
    if (!divisor) return qn_div(t, qn_like(t, all));
    if (all != 1) divisor = qn_mul(divisor, qn_like(divisor, all));
    return qn_div(pieces ? t : build_reduce(OP_SUM, t, mask, false), divisor);
}

static qn_tensor *largest(const pooling *p, qn_tensor *x, double outside) {
    uint32_t mask;
    if (in_pieces(p, FEW_OF_AXIS, FEW_MAX)) return piece_max(p, x, 0);
    x = pool_windows(p, x, outside, &mask);
    return x ? build_reduce(OP_MAX, x, mask, false) : NULL;
}

static qn_tensor *normed(const pooling *p, qn_tensor *x) {
    uint32_t mask;
    double e = p->o.p;
    if (isinf(e)) return largest(p, qn_abs(x), 0);
    qn_tensor *powers = e == 2 ? qn_square(x) : qn_pow(qn_abs(x), qn_like(x, e));
    powers = e == 1 ? qn_abs(x) : powers;
    if (in_pieces(p, FEW_OF_AXIS, FEW_SUMS)) {
        powers = piece_sums(p, powers);
    } else {
        powers = pool_windows(p, powers, 0, &mask);
        powers = powers ? build_reduce(OP_SUM, powers, mask, false) : NULL;
    }
    return e == 1 ? powers : func_norm_root(powers, e);
}

static qn_tensor *pooled(qn_tensor *x, const int64_t *size, const qn_pool_options *o) {
    pooling p;
    if (!x || !pool_read(&p, x, size, o)) return NULL;
    if (!(p.o.adaptive ? pool_adaptive(&p, x) : pool_regular(&p, x))) return NULL;
    qn_dtype d = qn_dtype_of(x);
    if (p.o.kind == QN_POOL_MAX) return largest(&p, x, lowest(d));
    x = func_widen(func_float(x));
    x = p.o.kind == QN_POOL_AVG ? averaged(&p, x) : normed(&p, x);
    return func_as(x, dtype_is_float(d) ? d : QN_F32);
}

qn_tensor *qn_pool(qn_tensor *x, const int64_t *size, const qn_pool_options *options) {
    func_frame f = func_on("pool", ARG(x));
    return func_end(f, pooled(x, size, options));
}

/* By the options of convolutions, of which groups do not matter. */
static qn_tensor *pooled_as_conv(qn_tensor *x, const int64_t *size, qn_pool_kind kind,
                                 const qn_conv_options *given) {
    qn_conv_options o = QN_CONV_OPTIONS();
    if (!x || !struct_take(tensor_ctx(x), graph_name(tensor_ctx(x), "pool"), "qn_conv_options", &o,
                           sizeof o, given))
        return NULL;
    qn_pool_options p = QN_POOL_OPTIONS(.kind = kind, .same = o.same);
    p.channels_last = o.channels_last;
    for (int i = 0; i < SPACE; i++) {
        p.stride[i] = o.stride[i];
        p.dilation[i] = o.dilation[i];
        p.before[i] = o.before[i];
        p.after[i] = o.after[i];
    }
    return pooled(x, size, &p);
}

qn_tensor *qn_max_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options) {
    func_frame f = func_on("max_pool", ARG(x));
    return func_end(f, pooled_as_conv(x, size, QN_POOL_MAX, options));
}

qn_tensor *qn_avg_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options) {
    func_frame f = func_on("avg_pool", ARG(x));
    return func_end(f, pooled_as_conv(x, size, QN_POOL_AVG, options));
}

/* ---- the largest, and where it is ------------------------------------------------------------ */

/* Where along axis i the k-th places of windows are. Of equals the first is the largest, so that
 * one in front of the image, where the lowest of all numbers stands, is found only where no place
 * of the window has more: then it is the first inside. A window with none has the image's end. */
static qn_tensor *place_along(const pooling *p, qn_tensor *k, int i) {
    const pool_axis *a = &p->at[i];
    bool front = a->moved && p->c.o.before[i];
    if (front) k = qn_maximum(k, in_front(p, i));
    k = qn_add(times(k, a->moved ? p->c.o.dilation[i] : 1), a->start);
    return front ? qn_minimum(k, plus(func_size(k, a->n), -1)) : k;
}

/* [N, C, places..]: where in the spatial axes, flat, the largest of each window is. */
static qn_tensor *places_of_max(const pooling *p, qn_tensor *x) {
    int axes[SPACE];
    uint32_t mask;
    qn_tensor *t = pool_windows(p, x, lowest(qn_dtype_of(x)), &mask), *flat = NULL;
    for (int i = 0; i < p->c.space; i++) axes[i] = p->first + 2 * i + 1;
    qn_tensor *k = t ? qn_argmax_axes(t, p->c.space, axes, false) : NULL;
    int64_t stride = 1;
    for (int i = p->c.space; i-- > 0 && k;) {
        const pool_axis *a = &p->at[i];
        qn_tensor *size = func_size(k, a->size), *at = i ? qn_mod(k, size) : k;
        at = times(place_along(p, at, i), stride);
        flat = flat ? qn_add(flat, at) : at;
        k = qn_floor_div(k, size);
        stride = dim_op(tensor_ctx(x), stride, '*', a->n);
    }
    return flat;
}

/* x with its spatial axes as one, the last: [N, C, all]. */
static qn_tensor *planes(const pooling *p, qn_tensor *x) {
    if (p->o.channels_last) x = qn_moveaxis(x, 1, (int[]){-1}, (int[]){1});
    return x ? qn_flatten(x, 2, p->rank - 1) : NULL;
}

/* Either result; values are those at the places, so that a gradient goes to one element alone. */
static qn_tensor *max_result(const pooling *p, qn_tensor *x, bool values) {
    qn_tensor *at = places_of_max(p, x);
    int64_t dims[QN_MAX_RANK];
    if (!values || !at) return at;
    qn_tensor *flat = build_gather(planes(p, x), planes(p, at), 2);
    if (p->o.channels_last) at = qn_moveaxis(at, 1, (int[]){-1}, (int[]){1});
    int rank = func_dims(at, dims);
    flat = func_reshape(flat, rank, dims);
    return p->o.channels_last ? qn_moveaxis(flat, 1, (int[]){1}, (int[]){-1}) : flat;
}

static qn_tensor *indexed(qn_tensor *x, const int64_t *size, const qn_pool_options *o,
                          bool values) {
    pooling p;
    if (!x || !pool_read(&p, x, size, o)) return NULL;
    if (p.o.kind != QN_POOL_MAX) return conv_error(x, "only of largest elements there are places");
    if (!(p.o.adaptive ? pool_adaptive(&p, x) : pool_regular(&p, x))) return NULL;
    return max_result(&p, x, values);
}

/* Both of two results, or after an error neither; what nobody asked for is let go. */
static qn_code give(const qn_tensor *x, qn_tensor *made[2], qn_tensor **values, qn_tensor **index) {
    qn_tensor **out[2] = {values, index};
    bool done = made[0] && made[1];
    for (int i = 0; i < 2; i++) {
        if (out[i]) *out[i] = done ? made[i] : NULL;
        if (made[i] && !(done && out[i])) qn_release(made[i]);
    }
    return done ? QN_OK : handle_code(x);
}

qn_code qn_max_pool_index(qn_tensor *x, const int64_t *size, const qn_pool_options *options,
                          qn_tensor **values, qn_tensor **index) {
    qn_tensor *made[2] = {NULL};
    for (int i = 0; i < 2 && (i == 0 || made[0]); i++) {
        func_frame f = func_on("max_pool_index", ARG(x));
        made[i] = func_end(f, indexed(x, size, options, i == 0));
    }
    return give(x, made, values, index);
}

/* Windows of `size` that begin at floor((i + u) * alpha) - floor(u * alpha), the last at the end
 * (Graham 2014, as PyTorch has it). */
static bool pool_fractional(pooling *p, qn_tensor *x, qn_tensor *samples, const int64_t *places) {
    for (int i = 0; i < p->c.space; i++) {
        int64_t n = p->c.n[i], k = p->c.kernel[i], m = places[i];
        if (n < 0 || m < 1 || n < k || m > n - k + 1)
            return conv_error(x, "as many windows do not fit, or an axis of unknown size");
        qn_tensor *u = qn_slice(samples, 2, i, i + 1, 1);
        for (int a = 3; a < p->rank; a++) u = qn_unsqueeze(u, -1);
        u = func_as(u, QN_F64);
        qn_tensor *number = counted(tensor_ctx(x), p->rank, 2 + i, m);
        qn_tensor *last = func_size(number, n - k), *at = last;
        if (m > 1) {
            qn_tensor *alpha = qn_like(u, (double)(n - k) / (double)(m - 1));
            at = qn_floor(qn_mul(qn_add(func_as(number, QN_F64), u), alpha));
            at = func_as(qn_sub(at, qn_floor(qn_mul(u, alpha))), QN_I64);
            at = qn_where(qn_eq(number, qn_like(number, (double)(m - 1))), last, at);
        } else {
            at = qn_add(at, qn_zeros_like(number));
        }
        p->at[i] = (pool_axis){.places = m, .size = k, .n = n, .start = at};
        if (!at) return false;
    }
    return true;
}

static qn_tensor *fractional(qn_tensor *x, qn_tensor *samples, const int64_t *size,
                             const int64_t *places, bool values) {
    pooling p;
    if (!x || !samples || !pool_read(&p, x, size, NULL)) return NULL;
    if (!places) return fail_null(tensor_ctx(x), QN_ENULL, "fractional_max_pool: no places");
    if (func_rank(samples) != 3 || qn_dim(samples, 0) != qn_dim(x, 0) ||
        qn_dim(samples, 1) != qn_dim(x, 1) || qn_dim(samples, 2) != p.c.space)
        return tensor_unfit("x", x, "samples", samples, "samples are [N, C, spatial axes]");
    return pool_fractional(&p, x, samples, places) ? max_result(&p, x, values) : NULL;
}

qn_code qn_fractional_max_pool(qn_tensor *x, qn_tensor *samples, const int64_t *size,
                               const int64_t *places, qn_tensor **values, qn_tensor **index) {
    qn_tensor *made[2] = {NULL};
    for (int i = 0; i < 2 && (i == 0 || made[0]); i++) {
        func_frame f = func_on("fractional_max_pool", ARG(x), ARG(samples));
        made[i] = func_end(f, fractional(x, samples, size, places, i == 0));
    }
    return give(x, made, values, index);
}

qn_tensor *qn_max_unpool(qn_tensor *x, qn_tensor *index, const int64_t *places) {
    func_frame f = func_on("max_unpool", ARG(x), ARG(index));
    int64_t dims[QN_MAX_RANK], flat[3], all = 1;
    if (!x || !index) return func_end(f, NULL);
    int rank = func_dims(x, dims);
    if (rank < 3 || rank > 2 + SPACE) {
        conv_error(x, "there must be 1 to 3 spatial axes beside N and C");
        return func_end(f, NULL);
    }
    if (!places) return func_end(f, fail_null(f.qn, QN_ENULL, "max_unpool: no places"));
    for (int i = 2; i < rank; i++) {
        dims[i] = places[i - 2];
        all = dim_op(f.qn, all, '*', dims[i]);
    }
    flat[0] = dims[0], flat[1] = dims[1], flat[2] = all;
    qn_tensor *zeros = func_full(f.qn, qn_dtype_of(x), 3, flat, 0);
    x = build_scatter(zeros, qn_flatten(index, 2, rank - 1), qn_flatten(x, 2, rank - 1), 2,
                      MONOID_SET);
    return func_end(f, func_reshape(x, rank, dims));
}
