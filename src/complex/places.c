/* places.c - complex numbers that are left out, brought to another dtype, put at places and taken
 * from them.
 *
 * Setting and adding are linear, so parts go to their places apart. Of what is no number either
 * part may be NaN. */
#include "complex/complex.h"

static func_frame begin(const char *name, const qn_tensor *x, const qn_tensor *y) {
    return func_begin(complex_context(x, y), name);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* z with 0 for what is no number, and what is one. */
static parts numbers_of(const qn_tensor *x, qn_tensor **there) {
    parts z = complex_parts(x);
    *there = qn_and(qn_eq(z.re, z.re), qn_eq(z.im, z.im));
    return (parts){qn_where(*there, z.re, qn_like(z.re, 0)),
                   qn_where(*there, z.im, qn_like(z.im, 0))};
}

qn_tensor *complex_nansum(qn_tensor *x, int axis, bool keepdims) {
    func_frame f = begin("nansum", x, NULL);
    qn_tensor *there;
    parts z = numbers_of(x, &there);
    return complex_end(f, (parts){qn_sum(z.re, axis, keepdims), qn_sum(z.im, axis, keepdims)});
}

qn_tensor *complex_nansum_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    func_frame f = begin("nansum_axes", x, NULL);
    qn_tensor *there;
    parts z = numbers_of(x, &there);
    return complex_end(
        f, (parts){qn_sum_axes(z.re, n, axes, keepdims), qn_sum_axes(z.im, n, axes, keepdims)});
}

/* Sums over how many numbers there are; of none NaN. */
static qn_tensor *end_mean(func_frame f, qn_tensor *re, qn_tensor *im, qn_tensor *count) {
    count = re && count ? qn_cast(count, qn_dtype_of(re)) : NULL;
    return complex_end(f, (parts){qn_div(re, count), qn_div(im, count)});
}

qn_tensor *complex_nanmean(qn_tensor *x, int axis, bool keepdims) {
    func_frame f = begin("nanmean", x, NULL);
    qn_tensor *there;
    parts z = numbers_of(x, &there);
    return end_mean(f, qn_sum(z.re, axis, keepdims), qn_sum(z.im, axis, keepdims),
                    qn_count_nonzero(there, axis, keepdims));
}

qn_tensor *complex_nanmean_axes(qn_tensor *x, int n, const int *axes, bool keepdims) {
    func_frame f = begin("nanmean_axes", x, NULL);
    qn_tensor *there;
    parts z = numbers_of(x, &there);
    return end_mean(f, qn_sum_axes(z.re, n, axes, keepdims), qn_sum_axes(z.im, n, axes, keepdims),
                    qn_count_nonzero_axes(there, n, axes, keepdims));
}

typedef qn_tensor *reduction_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype,
                                bool keepdims);

/* In a complex dtype, of real numbers, too. */
static qn_tensor *reduced_as(const char *name, reduction_as *of, qn_tensor *x, func_axes at,
                             qn_dtype dtype, bool keepdims) {
    if (!dtype_is_complex((int)dtype)) {
        fail(complex_context(x, NULL), QN_EDTYPE, "%s: %s numbers as %s: take a part of them", name,
             handle_is(x, HANDLE_COMPLEX) ? "complex" : "real", qn_dtype_name(dtype));
        return NULL;
    }
    func_frame f = begin(name, x, NULL);
    qn_dtype part = dtype_part(dtype);
    bool complex = handle_is(x, HANDLE_COMPLEX);
    parts z = complex ? complex_parts(x) : (parts){x, NULL};
    qn_tensor *re = of(z.re, at.n, at.list, part, keepdims);
    qn_tensor *im = complex ? of(z.im, at.n, at.list, part, keepdims)
                    : re    ? qn_zeros_like(re)
                            : NULL;
    return complex_end(f, (parts){re, im});
}

qn_tensor *complex_sum_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims) {
    return reduced_as("sum_as", qn_sum_as, x, LISTED_AXES(n, axes), dtype, keepdims);
}

qn_tensor *complex_mean_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims) {
    return reduced_as("mean_as", qn_mean_as, x, LISTED_AXES(n, axes), dtype, keepdims);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Both with an imaginary part; is the way to combine them linear? Reported. */
static bool may_combine(const char *name, parts *x, parts *src, qn_combine combine) {
    if (!x->re || !src->re) return false;
    if (combine != QN_COMBINE_SET && combine != QN_COMBINE_SUM) {
        fail(tensor_ctx(x->re), QN_EDTYPE,
             "%s: complex numbers are set (QN_COMBINE_SET) or added (QN_COMBINE_SUM), not %d", name,
             (int)combine);
        return false;
    }
    if (!x->im) x->im = qn_zeros_like(x->re);
    if (!src->im) src->im = qn_zeros_like(src->re);
    return true;
}

qn_tensor *complex_scatter(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis,
                           qn_combine combine) {
    func_frame f = begin("scatter", x, src);
    parts z = complex_parts(x), w = complex_parts(src);
    if (!may_combine("scatter", &z, &w, combine)) return func_end(f, NULL);
    return complex_end(f, (parts){qn_scatter(z.re, index, w.re, axis, combine),
                                  qn_scatter(z.im, index, w.im, axis, combine)});
}

qn_tensor *complex_index_put(qn_tensor *x, int n, const qn_index_item *items, qn_tensor *src,
                             qn_combine combine) {
    func_frame f = begin("index_put", x, src);
    parts z = complex_parts(x), w = complex_parts(src);
    if (!may_combine("index_put", &z, &w, combine)) return func_end(f, NULL);
    return complex_end(f, (parts){qn_index_put(z.re, n, items, w.re, combine),
                                  qn_index_put(z.im, n, items, w.im, combine)});
}

qn_code complex_masked_select(qn_tensor *x, qn_tensor *mask, int64_t bound, qn_tensor **values,
                              qn_tensor **count) {
    qn_tensor *re = NULL, *im = NULL, *many = NULL;
    if (!handle_is(x, HANDLE_COMPLEX)) return qn_masked_select(x, mask, bound, values, count);
    if (values) *values = NULL;
    if (count) *count = NULL;
    func_frame f = begin("masked_select", x, NULL);
    parts z = complex_parts(x);
    bool made = !qn_masked_select(z.re, mask, bound, &re, NULL) &&
                !qn_masked_select(z.im, mask, bound, &im, NULL);
    qn_tensor *found = func_end(f, made ? complex_whole(re, im) : NULL);
    if (!found) return handle_code(x);
    f = begin("masked_select", x, NULL);
    qn_masked_select(complex_parts(x).re, mask, bound, NULL, &many);
    many = func_end(f, many);
    if (many && values)
        *values = found;
    else
        tensor_unwanted(tensor_at(found));
    if (many && count)
        *count = many;
    else if (many)
        tensor_unwanted(tensor_at(many));
    return many ? QN_OK : handle_code(x);
}
