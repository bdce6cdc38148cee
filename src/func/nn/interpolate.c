/* interpolate.c - images of another size, by PyTorch's definitions, and read along a grid.
 *
 * Resizing goes axis by axis. Each place of the result has a coordinate in the image, and from that
 * a few taps: places that are read and weights that they are added with. Places and weights are one
 * small vector for each tap, computed once; the sum over the taps is elementwise, so that the
 * planner may do several axes in one kernel. To whole multiples the nearest place is movement: each
 * element repeated. An image that shrinks with antialiasing has as many taps as a place covers, and
 * those are a reduction.
 *
 * A grid has a coordinate for each place of the result, so taps are places of planes. */
#include "func/nn/conv.h"

#include <math.h>

enum { TAPS = 4, FEW_CHANNELS = 4 };

/* One axis that is resized. */
typedef struct resize {
    qn_interpolate_mode mode;
    bool align, antialias;
    int axis;
    int64_t n, m; /* from, to */
    double scale; /* places of the image for one of the result */
} resize;

static qn_tensor *number(qn_tensor *like, double v) {
    return qn_like(like, v);
}

/* 0 to m - 1 in f64, along the axis of x's rank. */
static qn_tensor *places_along(qn_tensor *x, const resize *r) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_rank(x);
    for (int i = 0; i < rank; i++) dims[i] = i == r->axis ? r->m : 1;
    return func_iota(tensor_ctx(x), QN_F64, rank, dims, r->axis);
}

/* i * scale, or of centers (i + 1/2) * scale - 1/2. */
static qn_tensor *coordinates(qn_tensor *x, const resize *r) {
    qn_tensor *i = places_along(x, r), *scale = i ? number(i, r->scale) : NULL;
    if (!i || r->align) return i ? qn_mul(i, scale) : NULL;
    return qn_sub(qn_mul(qn_add(i, number(i, 0.5)), scale), number(i, 0.5));
}

/* x at places of an axis, whole numbers as f64 that may lie outside: the edge's element there. */
static qn_tensor *read_at(qn_tensor *x, const resize *r, qn_tensor *at) {
    at = qn_minimum(qn_maximum(at, number(at, 0)), number(at, (double)(r->n - 1)));
    at = func_as(func_reshape(at, 1, &r->m), QN_I32);
    return func_take(x, at, r->axis);
}

/* ---- few taps -------------------------------------------------------------------------------- */

/* A piece of Keys' cubic: of a distance up to 1, or from 1 to 2. */
static qn_tensor *cubic_near(qn_tensor *d, double a) {
    qn_tensor *t = qn_sub(qn_mul(number(d, a + 2), d), number(d, a + 3));
    return qn_add(qn_mul(qn_mul(t, d), d), number(d, 1));
}

static qn_tensor *cubic_far(qn_tensor *d, double a) {
    qn_tensor *t = qn_sub(qn_mul(number(d, a), d), number(d, 5 * a));
    t = qn_add(qn_mul(t, d), number(d, 8 * a));
    return qn_sub(qn_mul(t, d), number(d, 4 * a));
}

/* Weights of 2 or 4 taps of a coordinate whose fraction is t; how many. */
static int tap_weights(qn_tensor *t, bool cubic, qn_tensor **weight) {
    qn_tensor *rest = qn_sub(number(t, 1), t);
    if (!cubic) {
        weight[0] = rest;
        weight[1] = t;
        return 2;
    }
    weight[0] = cubic_far(qn_add(t, number(t, 1)), -0.75);
    weight[1] = cubic_near(t, -0.75);
    weight[2] = cubic_near(rest, -0.75);
    weight[3] = cubic_far(qn_add(rest, number(t, 1)), -0.75);
    return 4;
}

static qn_tensor *by_taps(qn_tensor *x, const resize *r) {
    bool cubic = r->mode == QN_INTERPOLATE_CUBIC;
    qn_tensor *at = coordinates(x, r), *weight[TAPS], *sum = NULL;
    if (!at) return NULL;
    if (!cubic) at = qn_maximum(at, number(at, 0));
    qn_tensor *first = qn_floor(at);
    int taps = tap_weights(qn_sub(at, first), cubic, weight);
    for (int k = 0; k < taps; k++) {
        qn_tensor *place = qn_add(first, number(first, cubic ? k - 1 : k));
        qn_tensor *part = qn_mul(read_at(x, r, place), func_as(weight[k], qn_dtype_of(x)));
        sum = sum ? qn_add(sum, part) : part;
    }
    return sum;
}

/* ---- the nearest ----------------------------------------------------------------------------- */

static qn_tensor *by_nearest(qn_tensor *x, const resize *r, bool by_sizes) {
    qn_tensor *i = places_along(x, r), *at;
    if (by_sizes && r->m % r->n == 0) return qn_repeat_interleave(x, r->axis, r->m / r->n);
    if (!i) return NULL;
    if (r->mode == QN_INTERPOLATE_NEAREST_CENTER) i = qn_add(i, number(i, 0.5));
    if (by_sizes) /* one rounding, and whole numbers stay whole */
        at = qn_floor(qn_div(qn_mul(i, number(i, (double)r->n)), number(i, (double)r->m)));
    else
        at = qn_floor(qn_mul(i, number(i, r->scale)));
    return read_at(x, r, at);
}

/* ---- as many taps as a place covers ---------------------------------------------------------- */

/* What a filter weighs a distance with, 0 beyond its reach. */
static qn_tensor *filter(qn_tensor *d, bool cubic) {
    d = qn_abs(d);
    qn_tensor *zero = number(d, 0), *one = number(d, 1);
    if (!cubic) return qn_maximum(qn_sub(one, d), zero);
    qn_tensor *far = qn_where(qn_lt(d, number(d, 2)), cubic_far(d, -0.5), zero);
    return qn_where(qn_lt(d, one), cubic_near(d, -0.5), far);
}

/* Taps [m, k] from max(floor(center - reach + 1/2), 0) on, as many as lie in front of
 * floor(center + reach + 1/2) and the end; their weights' sum is 1. */
static qn_tensor *by_filter(qn_tensor *x, const resize *r) {
    bool cubic = r->mode == QN_INTERPOLATE_CUBIC;
    double wide = r->scale > 1 ? r->scale : 1, reach = (cubic ? 2 : 1) * wide;
    int64_t taps = reach < (double)r->n ? 2 * (int64_t)ceil(reach) + 1 : r->n;
    if (taps > r->n) taps = r->n;
    int64_t dims[2] = {r->m, taps}, shape[2 * QN_MAX_RANK];
    qn_ctx *qn = tensor_ctx(x);
    qn_tensor *i = func_iota(qn, QN_F64, 2, dims, 0), *k = func_iota(qn, QN_F64, 2, dims, 1);
    if (!i || !k) return NULL;
    qn_tensor *half = number(i, 0.5), *zero = number(i, 0), *n = number(i, (double)r->n);
    qn_tensor *center = qn_mul(qn_add(i, half), number(i, r->scale));
    if (!r->align) center = qn_minimum(center, n); /* what is behind the image is as its end */
    qn_tensor *lo = qn_add(qn_sub(center, number(i, reach)), half);
    qn_tensor *hi = qn_add(qn_add(center, number(i, reach)), half);
    lo = qn_maximum(qn_floor(lo), zero);
    hi = qn_minimum(qn_floor(hi), n);
    qn_tensor *at = qn_add(lo, k), *there = qn_lt(at, hi);
    qn_tensor *d = qn_div(qn_add(qn_sub(at, center), half), number(i, wide));
    qn_tensor *weight = qn_where(there, filter(d, cubic), zero);
    weight = qn_div(weight, qn_sum(weight, 1, true));
    at = func_as(qn_minimum(at, qn_sub(n, number(i, 1))), QN_I32);
    int rank = func_rank(x);
    x = func_take(x, at, r->axis);
    for (int a = 0; a <= rank; a++) shape[a] = a == r->axis ? r->m : a == r->axis + 1 ? taps : 1;
    weight = func_reshape(func_as(weight, qn_dtype_of(x)), rank + 1, shape);
    x = qn_mul(x, weight);
    return x ? build_reduce(OP_SUM, x, 1u << (r->axis + 1), false) : NULL;
}

/* ---- one axis after the other ---------------------------------------------------------------- */

static qn_tensor *resize_axis(qn_tensor *x, const resize *r, bool by_sizes) {
    if (r->n == r->m && by_sizes) return x; /* all modes */
    if (r->mode <= QN_INTERPOLATE_NEAREST_CENTER) return by_nearest(x, r, by_sizes);
    return r->antialias ? by_filter(x, r) : by_taps(x, r);
}

static bool interpolate_refused(const qn_tensor *x, const int64_t *sizes,
                                const qn_interpolate_options *o) {
    qn_ctx *qn = tensor_ctx(x);
    bool smooth = o->mode == QN_INTERPOLATE_LINEAR || o->mode == QN_INTERPOLATE_CUBIC;
    if (func_rank(x) < 3 || func_rank(x) > 2 + SPACE)
        return conv_error(x, "there must be 1 to 3 spatial axes beside N and C"), true;
    if (!sizes) return fail(qn, QN_ENULL, "interpolate: no sizes");
    if (o->mode < QN_INTERPOLATE_NEAREST || o->mode > QN_INTERPOLATE_AREA)
        return fail(qn, QN_EARG, "interpolate: no such mode");
    if (!smooth && (o->align_corners || o->antialias))
        return fail(qn, QN_EARG,
                    "interpolate: align_corners and antialias are for linear and cubic");
    for (int i = 0; i < func_rank(x) - 2; i++) {
        int64_t n = qn_dim(x, (o->channels_last ? 1 : 2) + i);
        if (n < 1 || n > INT32_MAX || sizes[i] < 1 || sizes[i] > INT32_MAX)
            return fail(qn, QN_ESHAPE, "interpolate: from %lld to %lld places along axis %d",
                        (long long)n, (long long)sizes[i], i);
        if (!(o->scale[i] >= 0) || isinf(o->scale[i]))
            return fail(qn, QN_ERANGE, "interpolate: scale[%d] is %g", i, o->scale[i]);
    }
    return false;
}

static qn_tensor *interpolated(qn_tensor *x, const int64_t *sizes,
                               const qn_interpolate_options *given) {
    qn_interpolate_options o = QN_INTERPOLATE_OPTIONS();
    if (!x ||
        !struct_take(tensor_ctx(x), "interpolate", "qn_interpolate_options", &o, sizeof o, given))
        return NULL;
    if (interpolate_refused(x, sizes, &o)) return NULL;
    bool nearest_mode = o.mode <= QN_INTERPOLATE_NEAREST_CENTER;
    if (o.mode == QN_INTERPOLATE_AREA)
        return qn_pool(x, sizes,
                       &QN_POOL_OPTIONS(.kind = QN_POOL_AVG, .adaptive = true,
                                        .channels_last = o.channels_last));
    qn_dtype d = qn_dtype_of(x);
    if (!nearest_mode) x = func_widen(func_float(x));
    for (int i = func_rank(x) - 3; i >= 0 && x; i--) {
        resize r = {o.mode, o.align_corners, o.antialias, (o.channels_last ? 1 : 2) + i, 0, 0, 0};
        bool by_sizes = o.scale[i] == 0 || o.align_corners;
        r.n = qn_dim(x, r.axis);
        r.m = sizes[i];
        r.scale = by_sizes ? (double)r.n / (double)r.m : 1 / o.scale[i];
        if (r.align) r.scale = r.m > 1 ? (double)(r.n - 1) / (double)(r.m - 1) : 0;
        if (r.align && r.antialias && r.m == 1) r.scale = 0;
        x = resize_axis(x, &r, by_sizes);
    }
    return nearest_mode ? x : func_as(x, dtype_is_float(d) ? d : QN_F32);
}

qn_tensor *qn_interpolate(qn_tensor *x, const int64_t *sizes,
                          const qn_interpolate_options *options) {
    func_frame f = func_on("interpolate", ARG(x));
    return func_end(f, interpolated(x, sizes, options));
}

/* ---- along a grid ---------------------------------------------------------------------------- */

/* An image [N, C, planes] that is read by coordinates. */
typedef struct sampling {
    qn_tensor *x;        /* [N, C, all places] */
    int space;           /* 2 or 3 */
    int64_t n[SPACE];    /* of its axes */
    qn_grid_padding pad; /* and how */
    bool align;
    int64_t flat; /* places of the grid */
    bool each;    /* places and weights are computed for each channel anew: there are few */
} sampling;

static qn_tensor *clamped(qn_tensor *at, int64_t n) {
    return qn_minimum(qn_maximum(at, number(at, 0)), number(at, (double)(n - 1)));
}

/* Reflected at the edges, which are the outer places' centers if corners are aligned. */
static qn_tensor *reflected(qn_tensor *at, int64_t n, bool align) {
    double lo = align ? 0 : -0.5, span = align ? (double)(n - 1) : (double)n;
    if (span == 0) return qn_zeros_like(at);
    at = qn_abs(qn_sub(at, number(at, lo)));
    qn_tensor *turns = qn_floor(qn_div(at, number(at, span)));
    qn_tensor *extra = qn_sub(at, qn_mul(turns, number(at, span)));
    qn_tensor *half = qn_mul(turns, number(at, 0.5));
    qn_tensor *even = qn_eq(qn_floor(half), half);
    extra = qn_where(even, extra, qn_sub(number(at, span), extra));
    return clamped(qn_add(extra, number(at, lo)), n);
}

static qn_tensor *padded(const sampling *s, qn_tensor *at, int i) {
    if (s->pad == QN_GRID_BORDER) return clamped(at, s->n[i]);
    return s->pad == QN_GRID_REFLECT ? reflected(at, s->n[i], s->align) : at;
}

/* [N, C, flat] of x at whole coordinates [N, flat], one for each axis; 0 outside. */
static qn_tensor *read_plane(const sampling *s, qn_tensor *const *at) {
    qn_tensor *flat = NULL, *inside = NULL;
    for (int i = 0; i < s->space; i++) {
        qn_tensor *last = number(at[i], (double)(s->n[i] - 1));
        qn_tensor *there = qn_and(qn_le(number(at[i], 0), at[i]), qn_le(at[i], last));
        qn_tensor *place = func_as(clamped(at[i], s->n[i]), QN_I64);
        inside = inside ? qn_and(inside, there) : there;
        flat = flat ? qn_add(qn_mul(flat, func_size(flat, s->n[i])), place) : place;
    }
    int64_t dims[3];
    flat = qn_unsqueeze(s->each ? flat : qn_contiguous(flat), 1);
    inside = qn_unsqueeze(s->each ? inside : qn_contiguous(inside), 1);
    if (!flat || !inside) return NULL;
    func_dims(s->x, dims);
    dims[2] = s->flat;
    qn_tensor *value = build_gather(s->x, func_expand(flat, 3, dims), 2);
    if (s->pad != QN_GRID_ZEROS) return value;
    return value ? qn_where(inside, value, number(value, 0)) : NULL;
}

/* The sum over all taps, 2 or 4 along each axis, of coordinates that are no whole numbers. */
static qn_tensor *tapped(const sampling *s, qn_tensor *const *at, bool cubic) {
    qn_tensor *weight[SPACE][TAPS], *first[SPACE], *sum = NULL;
    int taps = cubic ? 4 : 2, all = 1;
    for (int i = 0; i < s->space; i++) {
        first[i] = qn_floor(at[i]);
        tap_weights(qn_sub(at[i], first[i]), cubic, weight[i]);
        all *= taps;
    }
    for (int k = 0; k < all; k++) {
        qn_tensor *place[SPACE], *w = NULL;
        for (int i = s->space, rest = k; i-- > 0; rest /= taps) {
            int tap = rest % taps;
            place[i] = qn_add(first[i], number(first[i], cubic ? tap - 1 : tap));
            if (cubic) place[i] = padded(s, place[i], i);
            w = w ? qn_mul(w, weight[i][tap]) : weight[i][tap];
        }
        if (!s->each) w = qn_contiguous(w);
        qn_tensor *part = qn_mul(read_plane(s, place), qn_unsqueeze(w, 1));
        sum = sum ? qn_add(sum, part) : part;
        if (!sum) return NULL;
    }
    return sum;
}

/* Coordinates in the image of grid numbers from -1 to 1, the last of which is for the last axis. */
static bool grid_read(sampling *s, qn_tensor *grid, bool pad, qn_tensor **at) {
    int64_t dims[2] = {qn_dim(grid, 0), s->flat};
    for (int i = 0; i < s->space; i++) {
        qn_tensor *g = qn_select(grid, func_rank(grid) - 1, s->space - 1 - i);
        double n = (double)s->n[i];
        if (!g) return false;
        g = func_reshape(g, 2, dims);
        g = qn_mul(qn_add(g, number(g, 1)), number(g, (s->align ? n - 1 : n) / 2));
        if (!s->align) g = qn_sub(g, number(g, 0.5));
        at[i] = pad ? padded(s, g, i) : g;
        if (!at[i]) return false;
    }
    return true;
}

static bool sample_fits(sampling *s, qn_tensor *x, qn_tensor *grid, qn_interpolate_mode mode) {
    int rank = func_rank(x);
    bool fits = (rank == 4 || rank == 5) && func_rank(grid) == rank &&
                qn_dim(grid, 0) == qn_dim(x, 0) && qn_dim(grid, -1) == rank - 2;
    if (!fits)
        return tensor_unfit("x", x, "grid", grid,
                            "x is [N, C, 2 or 3 axes], the grid [N, places.., axes]"),
               false;
    if ((mode == QN_INTERPOLATE_CUBIC && rank != 4) || mode < QN_INTERPOLATE_NEAREST ||
        mode > QN_INTERPOLATE_CUBIC || s->pad < QN_GRID_ZEROS || s->pad > QN_GRID_REFLECT)
        return fail_null(tensor_ctx(x), QN_EARG, "grid_sample: no such mode for %d axes", rank - 2);
    s->space = rank - 2;
    s->flat = func_count(grid, ((1u << s->space) - 1) << 1);
    s->each = qn_dim(x, 1) >= 0 && qn_dim(x, 1) <= FEW_CHANNELS;
    for (int i = 0; i < s->space; i++) {
        s->n[i] = qn_dim(x, 2 + i);
        if (s->n[i] < 1) return conv_error(x, "an axis without places, or of unknown size");
    }
    return true;
}

static qn_tensor *sampled(qn_tensor *x, qn_tensor *grid, qn_interpolate_mode mode,
                          qn_grid_padding pad, bool align) {
    sampling s = {.pad = pad, .align = align};
    qn_tensor *at[SPACE], *y;
    int64_t dims[QN_MAX_RANK];
    if (!x || !grid || !sample_fits(&s, x, grid, mode)) return NULL;
    qn_dtype d = dtype_promote(qn_dtype_of(func_float(x)), qn_dtype_of(func_float(grid)));
    s.x = func_widen(func_as(qn_flatten(x, 2, func_rank(x) - 1), d));
    if (!grid_read(&s, func_widen(func_as(grid, d)), mode != QN_INTERPOLATE_CUBIC, at)) return NULL;
    if (mode <= QN_INTERPOLATE_NEAREST_CENTER) {
        for (int i = 0; i < s.space; i++) at[i] = qn_round(at[i]);
        y = read_plane(&s, at);
    } else {
        y = tapped(&s, at, mode == QN_INTERPOLATE_CUBIC);
    }
    dims[0] = qn_dim(x, 0);
    dims[1] = qn_dim(x, 1);
    for (int i = 0; i < s.space; i++) dims[2 + i] = qn_dim(grid, 1 + i);
    return func_as(func_reshape(y, 2 + s.space, dims), d);
}

qn_tensor *qn_grid_sample(qn_tensor *x, qn_tensor *grid, qn_interpolate_mode mode,
                          qn_grid_padding padding, bool align_corners) {
    func_frame f = func_on("grid_sample", ARG(x), ARG(grid));
    return func_end(f, sampled(x, grid, mode, padding, align_corners));
}

/* ---- windows as columns ---------------------------------------------------------------------- */

static bool columns_read(conv *c, const qn_tensor *x, int space, const int64_t *size,
                         const qn_conv_options *o) {
    if (!conv_read(c, x, space, o)) return false;
    if (c->o.channels_last) return conv_error(x, "columns are of channels first"), false;
    if (!size) return fail_null(tensor_ctx(x), QN_ENULL, "im2col: no sizes");
    for (int i = 0; i < space; i++) {
        c->kernel[i] = size[i];
        if (size[i] < 1) return conv_error(x, "a window below size 1"), false;
    }
    return true;
}

static func_windows window_at(const conv *c, int i) {
    return (func_windows){2 + 2 * i,      3 + 2 * i,    c->o.stride[i], c->o.dilation[i],
                          c->o.before[i], c->places[i], c->kernel[i]};
}

/* [N, C, places, size, ..] to [N, C, sizes.., places..], or back. */
static qn_tensor *sizes_first(qn_tensor *t, int space, bool back) {
    int order[QN_MAX_RANK] = {0, 1}, other[QN_MAX_RANK] = {0, 1};
    for (int i = 0; i < space; i++) {
        order[2 + i] = 3 + 2 * i;
        order[2 + space + i] = 2 + 2 * i;
    }
    for (int i = 0; i < 2 + 2 * space; i++) other[order[i]] = i;
    return build_permute(t, 2 + 2 * space, back ? other : order);
}

static qn_tensor *columns_of(qn_tensor *x, const int64_t *size, const qn_conv_options *o) {
    conv c;
    int space = func_rank(x) - 2;
    if (!x || !columns_read(&c, x, space, size, o) || !conv_count(&c, x)) return NULL;
    for (int i = 0; i < space; i++) {
        func_windows w = window_at(&c, i);
        x = func_window(qn_unsqueeze(x, w.by), &w);
    }
    x = sizes_first(x, space, false);
    if (!x) return NULL;
    x = qn_flatten(x, 2 + space, 1 + 2 * space);
    return qn_flatten(x, 1, 1 + space);
}

qn_tensor *qn_im2col(qn_tensor *x, const int64_t *size, const qn_conv_options *options) {
    func_frame f = func_on("im2col", ARG(x));
    return func_end(f, columns_of(x, size, options));
}

static qn_tensor *image_of(qn_tensor *x, int space, const int64_t *places, const int64_t *size,
                           const qn_conv_options *o) {
    qn_ctx *qn = tensor_ctx(x);
    int64_t dims[QN_MAX_RANK] = {qn_dim(x, 0)}, area = 1, all = 1;
    conv c;
    if (space < 1 || space > SPACE || !places || !size)
        return fail_null(qn, QN_EARG, "col2im: places and sizes of 1 to 3 axes");
    for (int i = 0; i < space; i++) area = sat_mul(area, size[i]);
    if (func_rank(x) != 3 || area < 1 || qn_dim(x, 1) < 0 || qn_dim(x, 1) % area)
        return conv_error(x, "columns are [N, C * a window's size, windows]");
    dims[1] = qn_dim(x, 1) / area;
    for (int i = 0; i < space; i++) dims[2 + i] = places[i];
    qn_tensor *like = func_full(qn, QN_BOOL, 2 + space, dims, 0);
    if (!like || !columns_read(&c, like, space, size, o) || !conv_count(&c, like)) return NULL;
    for (int i = 0; i < space; i++) {
        dims[2 + i] = c.kernel[i];
        dims[2 + space + i] = c.places[i];
        all = dim_op(qn, all, '*', c.places[i]);
    }
    if (all != qn_dim(x, 2))
        return tensor_unfit("x", x, NULL, NULL, "of such an image there are %lld windows",
                            (long long)all);
    x = sizes_first(func_reshape(x, 2 + 2 * space, dims), space, true);
    for (int i = space; i-- > 0 && x;) {
        func_windows w = window_at(&c, i);
        x = func_unwindow(x, &w, places[i]);
    }
    int64_t image[QN_MAX_RANK] = {dims[0], dims[1]};
    for (int i = 0; i < space; i++) image[2 + i] = places[i];
    return func_reshape(x, 2 + space, image);
}

qn_tensor *qn_col2im(qn_tensor *x, int space, const int64_t *places, const int64_t *size,
                     const qn_conv_options *options) {
    func_frame f = func_on("col2im", ARG(x));
    return func_end(f, x ? image_of(x, space, places, size, options) : NULL);
}
