/* reduce.c - reductions of complex numbers that are not linear.
 *
 * A product of complex numbers is no monoid of one number: it is taken by halves, each step one
 * multiplication of what is left, and running products in as many steps, each by what stands 1, 2,
 * 4, .. places before (Hillis and Steele, 1986). */
#include "complex/complex.h"

/* A function of a real tensor that the complex one is first made into. */
static qn_tensor *size_of(const qn_tensor *x) {
    parts z = complex_parts(x);
    return z.im ? qn_hypot(z.re, z.im) : z.re;
}

static qn_tensor *truth_of(const qn_tensor *x) {
    parts z = complex_parts(x);
    return z.im ? qn_or(qn_cast(z.re, QN_BOOL), qn_cast(z.im, QN_BOOL)) : z.re;
}

static func_frame begin(const char *name, const qn_tensor *x) {
    return func_begin(complex_context(x, NULL), name);
}

/* ---- by truth and by size -------------------------------------------------------------------- */

qn_tensor *complex_any(qn_tensor *x, int axis, bool keepdims) {
    func_frame f = begin("any", x);
    return func_end(f, qn_any(truth_of(x), axis, keepdims));
}

qn_tensor *complex_any_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    func_frame f = begin("any_axes", x);
    return func_end(f, qn_any_axes(truth_of(x), n, axes, keepdims));
}

qn_tensor *complex_all(qn_tensor *x, int axis, bool keepdims) {
    func_frame f = begin("all", x);
    return func_end(f, qn_all(truth_of(x), axis, keepdims));
}

qn_tensor *complex_all_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    func_frame f = begin("all_axes", x);
    return func_end(f, qn_all_axes(truth_of(x), n, axes, keepdims));
}

qn_tensor *complex_count_nonzero(qn_tensor *x, int axis, bool keepdims) {
    func_frame f = begin("count_nonzero", x);
    return func_end(f, qn_count_nonzero(truth_of(x), axis, keepdims));
}

qn_tensor *complex_count_nonzero_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    func_frame f = begin("count_nonzero_axes", x);
    return func_end(f, qn_count_nonzero_axes(truth_of(x), n, axes, keepdims));
}

qn_tensor *complex_norm(qn_tensor *x, int axis, double p, bool keepdims) {
    func_frame f = begin("norm", x);
    return func_end(f, qn_norm(size_of(x), axis, p, keepdims));
}

qn_tensor *complex_norm_axes(qn_tensor *x, int n, const int *axes, double p, bool keepdims) {
    func_frame f = begin("norm_axes", x);
    return func_end(f, qn_norm_axes(size_of(x), n, axes, p, keepdims));
}

/* The mean of |z - mean|^2 is real: the variances of both parts. */
static qn_tensor *spread(const qn_tensor *x, int axis, double correction, bool keepdims) {
    parts z = complex_parts(x);
    return qn_add(qn_variance(z.re, axis, correction, keepdims),
                  qn_variance(z.im, axis, correction, keepdims));
}

static qn_tensor *spread_axes(const qn_tensor *x, int n, const int *axes, double correction,
                              bool keepdims) {
    parts z = complex_parts(x);
    return qn_add(qn_variance_axes(z.re, n, axes, correction, keepdims),
                  qn_variance_axes(z.im, n, axes, correction, keepdims));
}

qn_tensor *complex_variance(qn_tensor *x, int axis, double correction, bool keepdims) {
    func_frame f = begin("variance", x);
    return func_end(f, spread(x, axis, correction, keepdims));
}

qn_tensor *complex_variance_axes(qn_tensor *x, int n, const int *axes, double correction,
                                 bool keepdims) {
    func_frame f = begin("variance_axes", x);
    return func_end(f, spread_axes(x, n, axes, correction, keepdims));
}

qn_tensor *complex_std(qn_tensor *x, int axis, double correction, bool keepdims) {
    func_frame f = begin("std", x);
    qn_tensor *y = spread(x, axis, correction, keepdims);
    return func_end(f, y ? func_root(y) : NULL);
}

qn_tensor *complex_std_axes(qn_tensor *x, int n, const int *axes, double correction,
                            bool keepdims) {
    func_frame f = begin("std_axes", x);
    qn_tensor *y = spread_axes(x, n, axes, correction, keepdims);
    return func_end(f, y ? func_root(y) : NULL);
}

/* ---- products -------------------------------------------------------------------------------- */

static parts slice(parts z, int axis, int64_t start, int64_t n) {
    return (parts){func_slice_axis(z.re, axis, start, n, 1),
                   func_slice_axis(z.im, axis, start, n, 1)};
}

static parts join(parts x, parts y, int axis) {
    qn_tensor *re[2] = {x.re, y.re}, *im[2] = {x.im, y.im};
    return (parts){qn_concat(2, re, axis), qn_concat(2, im, axis)};
}

static parts ones(parts like) {
    return (parts){qn_ones_like(like.re), qn_zeros_like(like.im)};
}

/* The size of an axis, which must be known. */
static bool size_known(parts z, int axis, int64_t *n) {
    *n = qn_dim(z.re, axis);
    if (*n >= 0) return true;
    fail(tensor_ctx(z.re), QN_ESHAPE, "%s: an axis of a size that varies",
         graph_name(tensor_ctx(z.re), "prod"));
    return false;
}

static parts product(parts z, int axis, int64_t n) {
    if (!n) z = join(z, ones((parts){qn_sum(z.re, axis, true), qn_sum(z.im, axis, true)}), axis);
    for (; n > 1 && z.re; n -= n / 2) {
        parts both = complex_times(slice(z, axis, 0, n / 2), slice(z, axis, n - n / 2, n / 2));
        z = n % 2 ? join(both, slice(z, axis, n / 2, 1), axis) : both;
    }
    return z;
}

/* One axis after the other, the last first: those before it keep their numbers. */
static qn_tensor *product_over(const char *name, const qn_tensor *x, func_axes at, bool keepdims) {
    func_frame f = begin(name, x);
    parts z = complex_parts(x);
    uint32_t mask;
    int64_t n;
    if (!z.re || !z.im || !func_mask_at(z.re, at, &mask)) return func_end(f, NULL);
    for (int axis = QN_MAX_RANK; axis-- > 0;) {
        if (!(mask >> axis & 1)) continue;
        if (!size_known(z, axis, &n)) return func_end(f, NULL);
        z = product(z, axis, n);
        if (!keepdims) z = (parts){qn_squeeze(z.re, axis), qn_squeeze(z.im, axis)};
        if (!z.re || !z.im) return func_end(f, NULL);
    }
    return complex_end(f, z);
}

qn_tensor *complex_prod(qn_tensor *x, int axis, bool keepdims) {
    return product_over("prod", x, ONE_AXIS(axis), keepdims);
}

qn_tensor *complex_prod_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    return product_over("prod_axes", x, LISTED_AXES(n, axes), keepdims);
}

qn_tensor *complex_cumprod(qn_tensor *x, int axis) {
    func_frame f = begin("cumprod", x);
    parts z = complex_parts(x);
    int64_t n;
    if (!z.re || !z.im || !func_axis(z.re, axis, &axis) || !size_known(z, axis, &n))
        return func_end(f, NULL);
    for (int64_t by = 1; by < n && z.re; by *= 2)
        z = join(slice(z, axis, 0, by),
                 complex_times(slice(z, axis, 0, n - by), slice(z, axis, by, n - by)), axis);
    return complex_end(f, z);
}
