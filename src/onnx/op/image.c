/* image.c - images read between their places: resizing, sampling by grids, regions, deformation. */
#include "onnx/onnx.h"

#include <math.h>

/* ---- resizing -------------------------------------------------------------------------------- */

enum { TAPS_MOST = 1 << 16 };

/* An axis of n places that becomes one of `count`: element i is the sum over its taps of
 * weight[t * count + i] times place at[t * count + i]. */
typedef struct resizing {
    int64_t n, count, taps;
    double scale, from, to; /* from, to: the region, of tf_crop_and_resize */
    int64_t *at;
    double *weight;
    bool *outside; /* takes the extrapolation value */
    bool any_outside;
} resizing;

/* Where place i of the result lies among the places of the input. */
static double place_of(const onnx_op *o, const resizing *r, int64_t i, const char *mode) {
    double n = (double)r->n, wide = r->scale * n, x = (double)i;
    if (!strcmp(mode, "align_corners")) return wide == 1 ? 0 : x * (n - 1) / (wide - 1);
    if (!strcmp(mode, "asymmetric")) return x / r->scale;
    if (!strcmp(mode, "tf_crop_and_resize")) {
        double size = r->to - r->from;
        if (r->count == 1) return r->from * (n - 1) + size * (n - 1) / 2;
        return r->from * (n - 1) + x * size * (n - 1) / ((double)r->count - 1);
    }
    if (!strcmp(mode, "pytorch_half_pixel") && r->count == 1) return -0.5;
    double half = (x + 0.5) / r->scale - 0.5;
    if (!strcmp(mode, "half_pixel_symmetric")) {
        double adjust = (double)r->count / wide;
        return n / 2 * (1 - adjust) + half;
    }
    if (!strcmp(mode, "half_pixel") || !strcmp(mode, "pytorch_half_pixel")) return half;
    if (!strcmp(mode, "tf_half_pixel_for_nn")) return (x + 0.5) / r->scale;
    op_fail(o, QN_EARG, "coordinate_transformation_mode \"%.40s\"", mode);
}

static double nearest_place(const char *mode, double x) {
    if (!strcmp(mode, "floor")) return floor(x);
    if (!strcmp(mode, "ceil")) return ceil(x);
    return !strcmp(mode, "round_prefer_ceil") ? floor(x + 0.5) : ceil(x - 0.5);
}

static double cubic(double x, double a) {
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* What taps of place i weigh: a kernel of radius 1 or 2, widened where the image shrinks. */
static void weigh(const onnx_op *o, resizing *r, int64_t i, double x, bool is_cubic) {
    bool shrinks = attr_int(o, "antialias", 0) && r->scale < 1;
    double narrow = shrinks ? r->scale : 1, a = attr_float(o, "cubic_coeff_a", -0.75), sum = 0;
    bool exclude = attr_int(o, "exclude_outside", 0) != 0;
    int64_t first = (int64_t)floor(x) + 1 - r->taps / 2;
    for (int64_t t = 0; t < r->taps; t++) {
        double d = ((double)(first + t) - x) * narrow;
        double w = is_cubic ? cubic(d, a) : fmax(0, 1 - fabs(d));
        int64_t at = first + t;
        if (exclude && (at < 0 || at >= r->n)) w = 0;
        r->at[t * r->count + i] = at < 0 ? 0 : at >= r->n ? r->n - 1 : at;
        r->weight[t * r->count + i] = w;
        sum += w;
    }
    for (int64_t t = 0; t < r->taps && sum != 0 && (shrinks || exclude); t++)
        r->weight[t * r->count + i] /= sum;
}

static void plan_axis(const onnx_op *o, resizing *r) {
    const char *kind = attr_text(o, "mode", "nearest");
    const char *where = attr_text(o, "coordinate_transformation_mode",
                                  o->version < 11 ? "asymmetric" : "half_pixel");
    const char *round =
        attr_text(o, "nearest_mode", o->version < 11 ? "floor" : "round_prefer_floor");
    bool is_cubic = !strcmp(kind, "cubic"), is_nearest = !strcmp(kind, "nearest");
    double radius = is_cubic ? 2 : 1;
    if (attr_int(o, "antialias", 0) && r->scale < 1) radius /= r->scale;
    if (!is_nearest && !(radius <= TAPS_MOST / 2))
        op_fail(o, QN_ERANGE, "a scale of %g takes more than %d places for one", r->scale,
                TAPS_MOST);
    r->taps = is_nearest ? 1 : 2 * (int64_t)ceil(radius);
    size_t all = (size_t)op_count(o, 2, (int64_t[]){r->taps, r->count}, ONNX_MADE_MOST);
    r->at = op_alloc(o, all, sizeof *r->at);
    r->weight = op_alloc(o, all, sizeof *r->weight);
    r->outside = op_alloc(o, (size_t)r->count, sizeof *r->outside);
    for (int64_t i = 0; i < r->count; i++) {
        double x = place_of(o, r, i, where);
        bool crops = !strcmp(where, "tf_crop_and_resize");
        r->outside[i] = crops && (x < 0 || x > (double)r->n - 1);
        r->any_outside |= r->outside[i];
        x = fmin(fmax(x, -1e9), 1e9);
        if (!is_nearest) {
            weigh(o, r, i, x, is_cubic);
            continue;
        }
        double at = nearest_place(round, x);
        r->at[i] = at < 0 ? 0 : at >= (double)r->n ? r->n - 1 : (int64_t)at;
        r->weight[i] = 1;
    }
}

/* A vector along an axis of a tensor of `rank` axes. */
static qn_tensor *along(qn_tensor *v, int axis, int rank) {
    int64_t shape[QN_MAX_RANK];
    for (int i = 0; i < rank; i++) shape[i] = i == axis ? -1 : 1;
    return qn_reshape(v, rank, shape);
}

static qn_tensor *resize_axis(onnx_op *o, qn_tensor *x, int axis, const resizing *r) {
    int rank = x ? qn_rank(x) : 0;
    qn_tensor *y = NULL;
    bool one = !strcmp(attr_text(o, "mode", "nearest"), "nearest");
    for (int64_t t = 0; t < r->taps; t++) {
        qn_tensor *part = qn_take(x, op_from_ints(o, r->count, r->at + t * r->count), axis);
        if (!one) {
            qn_tensor *w =
                op_from_floats(o, 1, &r->count, r->weight + t * r->count, qn_dtype_of(x));
            part = qn_mul(part, along(w, axis, rank));
        }
        y = t ? qn_add(y, part) : part;
    }
    if (!r->any_outside) return y;
    qn_tensor *outside = op_from(o, QN_BOOL, 1, &r->count, r->outside);
    double value = attr_float(o, "extrapolation_value", 0);
    return qn_where(along(outside, axis, rank), qn_like(y, value), y);
}

/* Scales that keep the image's proportions within, or just beyond, the sizes that are wanted. */
static double common_scale(onnx_op *o, int n, const int64_t *axes, const int64_t *dims,
                           const int64_t *sizes) {
    bool larger = !strcmp(attr_text(o, "keep_aspect_ratio_policy", "stretch"), "not_smaller");
    double scale = 0;
    for (int i = 0; i < n; i++) {
        double mine = (double)sizes[i] / (double)dims[axes[i]];
        if (i == 0 || (larger ? mine > scale : mine < scale)) scale = mine;
    }
    return scale;
}

void op_resize(onnx_op *o) {
    int rank, n_scales = 0, n_sizes = 0, n_roi = 0, n;
    const int64_t *dims = op_shape(o, 0, &rank);
    bool old = o->version < 11 || o->row->variant, attribute = o->row->variant && o->version < 9;
    double *scales = attribute ? NULL : op_floats(o, old ? 1 : 2, &n_scales);
    const int64_t *sizes = old ? NULL : op_ints(o, 3, &n_sizes), *given = attr_ints(o, "axes", &n);
    const double *roi = old ? NULL : op_floats(o, 1, &n_roi);
    const onnx_attr *listed = op_attr(o, "scales");
    if (attribute && listed) n_scales = (int)listed->n_floats;
    int64_t axes[QN_MAX_RANK];
    if (!given) n = rank;
    if (n > rank || (n_sizes && n_sizes != n) || (!n_sizes && n_scales != n))
        op_fail(o, QN_ESHAPE, "%d scales, %d sizes for %d axes", n_scales, n_sizes, n);
    for (int i = 0; i < n; i++) axes[i] = given ? op_axis(o, given[i], rank) : i;
    const char *policy = attr_text(o, "keep_aspect_ratio_policy", "stretch");
    bool keeps = n_sizes && strcmp(policy, "stretch") != 0;
    double common = keeps ? common_scale(o, n, axes, dims, sizes) : 0;
    qn_tensor *x = op_in(o, 0);
    qn_dtype dtype = x ? qn_dtype_of(x) : QN_F32;
    bool is_nearest = !strcmp(attr_text(o, "mode", "nearest"), "nearest");
    if (!is_nearest && !dtype_is_float((int)dtype)) x = qn_cast(x, QN_F32);
    for (int i = 0; i < n; i++) {
        resizing r = {.n = dims[axes[i]], .from = 0, .to = 1};
        double scale = attribute ? (double)listed->floats[i] : n_scales ? scales[i] : 0;
        if (n_sizes) scale = keeps ? common : (double)sizes[i] / (double)r.n;
        if (!(scale > 0) || !(scale * (double)r.n < 1e8))
            op_fail(o, QN_ERANGE, "a scale of %g", scale);
        r.scale = scale;
        r.count = keeps     ? (int64_t)floor(scale * (double)r.n + 0.5)
                  : n_sizes ? sizes[i]
                            : (int64_t)floor(scale * (double)r.n);
        bool crops = roi && n_roi == 2 * n && (roi[i] != 0 || roi[n + i] != 1);
        if (crops) r.from = roi[i];
        if (crops) r.to = roi[n + i];
        if (scale == 1 && r.count == r.n && !crops) continue;
        plan_axis(o, &r);
        x = resize_axis(o, x, (int)axes[i], &r);
    }
    o->out[0] = is_nearest || dtype_is_float((int)dtype) ? x : qn_round(x);
    if (!is_nearest && dtype_is_int((int)dtype)) o->out[0] = qn_cast_saturating(o->out[0], dtype);
}

/* ---- grids ----------------------------------------------------------------------------------- */

void op_grid_sample(onnx_op *o) {
    const char *mode = attr_text(o, "mode", "linear"), *pad = attr_text(o, "padding_mode", "zeros");
    qn_interpolate_mode m = !strcmp(mode, "nearest") ? QN_INTERPOLATE_NEAREST
                            : !strcmp(mode, "cubic") || !strcmp(mode, "bicubic")
                                ? QN_INTERPOLATE_CUBIC
                                : QN_INTERPOLATE_LINEAR;
    qn_grid_padding p = !strcmp(pad, "border")       ? QN_GRID_BORDER
                        : !strcmp(pad, "reflection") ? QN_GRID_REFLECT
                                                     : QN_GRID_ZEROS;
    qn_tensor *grid = qn_cast(op_in(o, 1), op_in(o, 0) ? qn_dtype_of(op_in(o, 0)) : QN_F32);
    o->out[0] = qn_grid_sample(op_in(o, 0), grid, m, p, attr_int(o, "align_corners", 0) != 0);
}

/* The coordinates of each place of an image, from -1 to 1, turned by theta [N, 2, 3] or [N, 3, 4].
 */
void op_affine_grid(onnx_op *o) {
    int n;
    const int64_t *size = op_ints(o, 1, &n);
    int space = n - 2;
    bool align = attr_int(o, "align_corners", 0) != 0;
    if (space < 2 || space > 3) op_fail(o, QN_ESHAPE, "an image of %d axes", n);
    qn_tensor *theta = op_in(o, 0), *column[4] = {NULL};
    qn_dtype d = theta ? qn_dtype_of(theta) : QN_F32;
    int64_t flat[4] = {1, 1, 1, 1};
    for (int i = 0; i < space; i++) flat[i] = size[2 + i];
    for (int i = 0; i < space; i++) { /* the last axis is the first coordinate */
        int axis = space - 1 - i;
        int64_t m = flat[axis], shape[3] = {1, 1, 1};
        shape[axis] = m;
        double *v = op_alloc(o, (size_t)op_count(o, 1, &m, ONNX_MADE_MOST), sizeof *v);
        for (int64_t k = 0; k < m; k++)
            v[k] = align ? (m > 1 ? -1 + 2 * (double)k / (double)(m - 1) : 0)
                         : (2 * (double)k + 1) / (double)m - 1;
        column[i] = qn_expand(op_from_floats(o, space, shape, v, d), space, flat);
    }
    column[space] = qn_full(o->qn, d, space, flat, 1);
    qn_tensor *points = qn_reshape(qn_stack(space + 1, column, -1), 2, (int64_t[]){-1, space + 1});
    qn_tensor *y = qn_matmul(points, qn_transpose(theta, 1, 2));
    int64_t shape[5] = {size[0]};
    for (int i = 0; i < space; i++) shape[1 + i] = flat[i];
    shape[space + 1] = space;
    o->out[0] = qn_reshape(y, space + 2, shape);
}

/* ---- regions --------------------------------------------------------------------------------- */

/* One sample of a region: its four places in the image, flat, and what they weigh. */
static void sample_place(double y, double x, int64_t high, int64_t wide, int64_t *at, double *w) {
    memset(w, 0, 4 * sizeof *w);
    memset(at, 0, 4 * sizeof *at);
    if (y < -1 || y > (double)high || x < -1 || x > (double)wide) return;
    y = fmax(y, 0);
    x = fmax(x, 0);
    int64_t top = (int64_t)y, left = (int64_t)x, bottom = top + 1, right = left + 1;
    if (top >= high - 1) {
        top = bottom = high - 1;
        y = (double)top;
    }
    if (left >= wide - 1) {
        left = right = wide - 1;
        x = (double)left;
    }
    double down = y - (double)top, across = x - (double)left;
    int64_t places[4] = {top * wide + left, top * wide + right, bottom * wide + left,
                         bottom * wide + right};
    double weights[4] = {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across),
                         down * across};
    memcpy(at, places, sizeof places);
    memcpy(w, weights, sizeof weights);
}

typedef struct regions {
    int64_t n, high, wide, rows, columns, samples; /* samples: of a bin, the most of any region */
    const double *box;
    const int64_t *batch;
    double scale, offset, ratio;
    bool max;
} regions;

static int64_t samples_of(const regions *r, int64_t i, bool across) {
    const double *b = r->box + 4 * i;
    double size = (across ? b[2] - b[0] : b[3] - b[1]) * r->scale;
    if (r->offset == 0) size = fmax(size, 1);
    int64_t bins = across ? r->columns : r->rows;
    if (r->ratio > 0) return (int64_t)r->ratio;
    double n = ceil(size / (double)bins);
    return !(n > 1) ? 1 : n > 256 ? 256 : (int64_t)n; /* of no number 1 */
}

/* Bin (row, column) of region i; unused samples weigh nothing, or repeat the first for a maximum.
 */
static void place_bin(const regions *r, int64_t i, int64_t row, int64_t column, int64_t *at,
                      double *w) {
    const double *b = r->box + 4 * i;
    double left = b[0] * r->scale - r->offset, top = b[1] * r->scale - r->offset;
    double wide = b[2] * r->scale - r->offset - left, high = b[3] * r->scale - r->offset - top;
    if (r->offset == 0) {
        wide = fmax(wide, 1);
        high = fmax(high, 1);
    }
    int64_t down = samples_of(r, i, false), across = samples_of(r, i, true), n = 0;
    double bin_h = high / (double)r->rows, bin_w = wide / (double)r->columns;
    for (int64_t y = 0; y < down; y++)
        for (int64_t x = 0; x < across; x++, n++) {
            double py = top + (double)row * bin_h + ((double)y + 0.5) * bin_h / (double)down;
            double px = left + (double)column * bin_w + ((double)x + 0.5) * bin_w / (double)across;
            sample_place(py, px, r->high, r->wide, at + 4 * n, w + 4 * n);
            for (int k = 0; k < 4; k++) {
                at[4 * n + k] += r->batch[i] * r->high * r->wide;
                if (!r->max) w[4 * n + k] /= (double)(down * across);
            }
        }
    for (; n < r->samples; n++) {
        memcpy(at + 4 * n, at, 4 * sizeof *at);
        if (r->max) memcpy(w + 4 * n, w, 4 * sizeof *w);
    }
}

void op_roi_align(onnx_op *o) {
    int rank, n, boxes;
    const int64_t *dims = op_shape(o, 0, &rank);
    regions r = {.box = op_floats(o, 1, &boxes), .batch = op_ints(o, 2, &n), .samples = 1};
    if (rank != 4 || boxes != 4 * (int64_t)n)
        op_fail(o, QN_ESHAPE, "%d numbers for %d regions", boxes, n);
    r.n = n;
    r.high = dims[2];
    r.wide = dims[3];
    r.rows = attr_int(o, "output_height", 1);
    r.columns = attr_int(o, "output_width", 1);
    r.scale = attr_float(o, "spatial_scale", 1);
    r.ratio = (double)attr_int(o, "sampling_ratio", 0);
    r.max = !strcmp(attr_text(o, "mode", "avg"), "max");
    const char *shift = attr_text(o, "coordinate_transformation_mode",
                                  o->version < 16 ? "output_half_pixel" : "half_pixel");
    r.offset = !strcmp(shift, "half_pixel") ? 0.5 : 0;
    if (r.n && (r.high < 1 || r.wide < 1)) op_fail(o, QN_ESHAPE, "regions of an empty image");
    if (r.rows < 1 || r.columns < 1 || r.rows > 4096 || r.columns > 4096 || r.ratio > 256)
        op_fail(o, QN_ERANGE, "regions of %lld x %lld", (long long)r.rows, (long long)r.columns);
    for (int64_t i = 0; i < r.n; i++) {
        if (r.batch[i] < 0 || r.batch[i] >= dims[0])
            op_fail(o, QN_ERANGE, "image %lld", (long long)r.batch[i]);
        int64_t mine = samples_of(&r, i, false) * samples_of(&r, i, true);
        if (mine > r.samples) r.samples = mine;
    }
    op_count(o, 3, (int64_t[]){dims[0], dims[2], dims[3]}, INT64_MAX - 1);
    int64_t each = r.samples * 4, bins = r.rows * r.columns;
    int64_t all[3] = {sat_mul(r.n, bins), r.samples, 4};
    size_t places = (size_t)op_count(o, 3, all, ONNX_MADE_MOST);
    int64_t *at = op_alloc(o, places, sizeof *at);
    double *w = op_alloc(o, places, sizeof *w);
    for (int64_t i = 0; i < r.n; i++)
        for (int64_t k = 0; k < bins; k++)
            place_bin(&r, i, k / r.columns, k % r.columns, at + (i * bins + k) * each,
                      w + (i * bins + k) * each);
    qn_tensor *x = op_in(o, 0);
    x = qn_reshape(qn_transpose(x, 0, 1), 2, (int64_t[]){dims[1], -1});
    x = qn_take(x, op_from(o, QN_I64, 3, all, at), 1);
    x = qn_mul(x, op_from_floats(o, 3, all, w, qn_dtype_of(op_in(o, 0))));
    x = r.max ? qn_max_axes(x, 2, (int[]){2, 3}, false) : qn_sum_axes(x, 2, (int[]){2, 3}, false);
    x = qn_reshape(x, 4, (int64_t[]){dims[1], r.n, r.rows, r.columns});
    o->out[0] = qn_transpose(x, 0, 1);
}

/* ---- deformable convolution ------------------------------------------------------------------ */

typedef struct deforming {
    int64_t n, channels, high, wide, kernel[2], rows, columns, groups; /* groups: of offsets */
    int64_t stride[2], dilation[2], before[2];
} deforming;

/* Where the taps of the kernel fall along an axis: [N, groups, taps, rows * columns]. */
static qn_tensor *tap_places(onnx_op *o, const deforming *d, qn_tensor *offset, int axis) {
    int64_t taps = d->kernel[0] * d->kernel[1], places = d->rows * d->columns;
    int64_t shape[4] = {1, 1, taps, places};
    double *base = op_alloc(o, (size_t)(taps * places), sizeof *base);
    for (int64_t t = 0; t < taps; t++)
        for (int64_t p = 0; p < places; p++) {
            int64_t tap = axis ? t % d->kernel[1] : t / d->kernel[1];
            int64_t place = axis ? p % d->columns : p / d->columns;
            base[t * places + p] = (double)place * (double)d->stride[axis] +
                                   (double)(tap * d->dilation[axis] - d->before[axis]);
        }
    qn_tensor *mine = qn_reshape(offset, 5, (int64_t[]){d->n, d->groups, taps, 2, places});
    mine = qn_select(mine, 3, axis);
    return qn_add(mine, op_from_floats(o, 4, shape, base, mine ? qn_dtype_of(mine) : QN_F32));
}

/* One of the four places around: what the image has there, times its weight; 0 outside. */
static qn_tensor *corner(onnx_op *o, const deforming *d, qn_tensor *x, qn_tensor *at[2],
                         int64_t up[2]) {
    qn_tensor *index = NULL, *weight = NULL, *inside = NULL;
    int64_t size[2] = {d->high, d->wide};
    for (int i = 0; i < 2; i++) {
        qn_tensor *low = qn_floor(at[i]), *part = qn_sub(at[i], low);
        qn_tensor *place = qn_add(low, qn_weak(low, (double)up[i]));
        qn_tensor *w = up[i] ? part : qn_sub(qn_weak(part, 1), part);
        qn_tensor *in = qn_logical_and(qn_ge(place, qn_weak(place, 0)),
                                       qn_le(place, qn_weak(place, (double)size[i] - 1)));
        qn_tensor *whole = qn_cast(qn_clamp(place, 0, (double)size[i] - 1), QN_I64);
        index = i ? qn_add(qn_mul(index, qn_scalar_int(o->qn, QN_I64, d->wide)), whole) : whole;
        weight = i ? qn_mul(weight, w) : w;
        inside = i ? qn_logical_and(inside, in) : in;
    }
    int64_t all = d->kernel[0] * d->kernel[1] * d->rows * d->columns;
    index = qn_reshape(index, 4, (int64_t[]){d->n, d->groups, 1, all});
    weight = qn_where(inside, weight, qn_zeros_like(weight));
    weight = qn_reshape(weight, 4, (int64_t[]){d->n, d->groups, 1, all});
    index = qn_expand(index, 4, (int64_t[]){d->n, d->groups, d->channels / d->groups, all});
    return qn_mul(qn_gather(x, index, 3), weight);
}

void op_deform_conv(onnx_op *o) {
    int rank, w_rank, o_rank;
    const int64_t *dims = op_shape(o, 0, &rank), *w = op_shape(o, 1, &w_rank),
                  *to = op_shape(o, 2, &o_rank);
    if (rank != 4 || w_rank != 4 || o_rank != 4) op_fail(o, QN_ESHAPE, "an image of %d axes", rank);
    deforming d = {.n = dims[0], .channels = dims[1], .high = dims[2], .wide = dims[3]};
    d.groups = attr_int(o, "offset_group", 1);
    int64_t groups = attr_int(o, "group", 1), pads[4] = {0};
    int64_t taps = op_count(o, 2, w + 2, ONNX_MADE_MOST);
    int64_t places = op_count(o, 2, to + 2, ONNX_MADE_MOST);
    op_count(o, 2, (int64_t[]){taps, places}, ONNX_MADE_MOST);
    d.stride[0] = d.stride[1] = d.dilation[0] = d.dilation[1] = 1;
    op_list(o, "strides", 2, 1, d.stride);
    op_list(o, "dilations", 2, 1, d.dilation);
    op_list(o, "pads", 4, -ONNX_SIZE_MOST, pads);
    for (int i = 0; i < 2; i++) {
        d.kernel[i] = w[2 + i];
        d.before[i] = pads[i];
    }
    d.rows = to[2];
    d.columns = to[3];
    if (d.groups < 1 || groups < 1 || d.channels % d.groups || d.channels % groups ||
        w[0] % groups || to[1] != sat_mul(sat_mul(2, d.groups), taps))
        op_fail(o, QN_ESHAPE, "%lld offsets of %lld groups", (long long)to[1], (long long)d.groups);
    qn_tensor *x = qn_reshape(
        op_in(o, 0), 4, (int64_t[]){d.n, d.groups, d.channels / d.groups, sat_mul(d.high, d.wide)});
    qn_tensor *at[2] = {tap_places(o, &d, op_in(o, 2), 0), tap_places(o, &d, op_in(o, 2), 1)},
              *sum = NULL;
    for (int k = 0; k < 4; k++) {
        qn_tensor *part = corner(o, &d, x, at, (int64_t[]){k / 2, k % 2});
        sum = k ? qn_add(sum, part) : part;
    }
    if (op_has(o, 4)) {
        qn_tensor *mask = qn_reshape(op_in(o, 4), 4, (int64_t[]){d.n, d.groups, 1, taps * places});
        sum = qn_mul(sum, mask);
    }
    int64_t each = sat_mul(d.channels / groups, taps);
    sum = qn_reshape(sum, 4, (int64_t[]){d.n, groups, each, places});
    qn_tensor *weight =
        qn_reshape(op_in(o, 1), 4, (int64_t[]){1, groups, w[0] / groups, sat_mul(w[1], taps)});
    qn_tensor *y = qn_reshape(qn_matmul(weight, sum), 4, (int64_t[]){d.n, w[0], d.rows, d.columns});
    if (op_has(o, 3)) y = qn_add(y, qn_reshape(op_in(o, 3), 4, (int64_t[]){1, -1, 1, 1}));
    o->out[0] = y;
}
