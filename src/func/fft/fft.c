/* fft.c - the family of discrete Fourier transforms: calls of the routine FFT (graph/routines.h).
 *
 * A complex number is a pair here, real and imaginary part, along a last axis of size 2, as in
 * NumPy's memory, and axes are counted without it. Lengths and conventions are
 * NumPy's. The routine computes along the last axis, so another one is turned there; in several
 * dimensions one axis goes after the other. Narrow floats are computed in f32. */
#include "func/func.h"

/* ---- what is given --------------------------------------------------------------------------- */

typedef struct transform {
    int kind;
    bool inverse;
    int64_t n; /* 0: as long as the axis */
    qn_fft_norm norm;
} transform;

static bool takes_pairs(const transform *t) {
    return t->kind != CALL_FFT_REAL_IN;
}

static bool is_complex(const qn_tensor *x) {
    if (!x) return false;
    if (func_rank(x) > 1 && qn_dim(x, -1) == 2) return true;
    fail(tensor_ctx(x), QN_ESHAPE,
         "%s: complex numbers are pairs along the last axis, behind another one; x is of rank %d",
         graph_name(tensor_ctx(x), "fft"), func_rank(x));
    return false;
}

/* The axis without that of pairs; its size must be a number. */
static bool axis_is_good(const qn_tensor *x, const transform *t, int axis, int *out) {
    qn_ctx *qn = tensor_ctx(x);
    int rank = func_rank(x) - takes_pairs(t);
    if (axis < -rank || axis >= rank) {
        fail(qn, QN_ERANGE, "%s: axis %d of %d", graph_name(qn, "fft"), axis, rank);
        return false;
    }
    *out = axis < 0 ? axis + rank : axis;
    int64_t size = qn_dim(x, *out);
    if (size > 0 && t->n >= 0) return true;
    char text[FUNC_DIM_TEXT];
    fail(qn, size > 0 ? QN_ERANGE : QN_ESHAPE, "%s: length %lld of axis %d, of size %s",
         graph_name(qn, "fft"), (long long)t->n, axis, func_dim_text(x, *out, text));
    return false;
}

/* Cut, or with zeros behind. */
static qn_tensor *fitted(qn_tensor *x, int axis, int64_t n) {
    int64_t size = x ? qn_dim(x, axis) : n, p[3 * QN_MAX_RANK] = {0};
    if (size == n) return x;
    if (size > n) return func_slice_axis(x, axis, 0, n, 1);
    p[3 * axis + 1] = n - size;
    return func_pad(x, p);
}

/* ---- one axis -------------------------------------------------------------------------------- */

/* Along the last axis before the pairs'. */
static qn_tensor *call(qn_tensor *x, const transform *t, int64_t n) {
    static const int scales[2][3] = {{[QN_NORM_FORWARD] = 1, [QN_NORM_ORTHO] = 2},
                                     {[QN_NORM_BACKWARD] = 1, [QN_NORM_ORTHO] = 2}};
    const call_attr c = {ROUTINE_FFT, 0, 4, {t->kind, t->inverse, scales[t->inverse][t->norm], n}};
    int64_t dims[QN_MAX_RANK + 1];
    tuple_id shape;
    if (!x) return NULL;
    int rank = func_dims(x, dims), last = rank - 1 - takes_pairs(t);
    dims[last] = t->kind == CALL_FFT_REAL_IN ? n / 2 + 1 : n;
    if (t->kind == CALL_FFT_REAL_IN) dims[rank++] = 2;
    if (t->kind == CALL_FFT_REAL_OUT) rank--;
    if (!shape_from_user(tensor_ctx(x), "fft", rank, dims, &shape)) return NULL;
    for (int i = 0; i < rank; i++)
        if (dims[i] == 0) return func_full(tensor_ctx(x), qn_dtype_of(x), rank, dims, 0);
    return build_call(&c, qn_dtype_of(x), shape, 1, &x);
}

static qn_tensor *along(qn_tensor *x, const transform *t, int axis) {
    if (!x || (takes_pairs(t) && !is_complex(x)) || !axis_is_good(x, t, axis, &axis)) return NULL;
    qn_ctx *qn = tensor_ctx(x);
    if ((unsigned)t->norm > QN_NORM_FORWARD)
        return fail_null(qn, QN_EARG, "%s: norm %d", graph_name(qn, "fft"), (int)t->norm);
    if (t->kind == CALL_FFT_REAL_IN && func_rank(x) == QN_MAX_RANK)
        return fail_null(qn, QN_ERANGE, "%s: rank %d and an axis of pairs", graph_name(qn, "fft"),
                         QN_MAX_RANK);
    int64_t n = t->n, size = qn_dim(x, axis);
    if (!n) n = t->kind == CALL_FFT_REAL_OUT ? 2 * (size - 1) : size;
    if (n < 1)
        return fail_null(qn, QN_ESHAPE, "%s: %lld numbers from a spectrum of %lld",
                         graph_name(qn, "fft"), (long long)n, (long long)size);
    x = fitted(x, axis, t->kind == CALL_FFT_REAL_OUT ? n / 2 + 1 : n);
    int last = func_rank(x) - 1 - takes_pairs(t);
    x = call(axis == last ? x : qn_transpose(x, axis, last), t, n);
    return axis == last ? x : qn_transpose(x, axis, last);
}

static qn_tensor *conjugate(qn_tensor *x) {
    if (!x) return NULL;
    int64_t two = 2;
    qn_tensor *sign = func_iota(tensor_ctx(x), qn_dtype_of(x), 1, &two, 0);
    sign = qn_sub(qn_like(sign, 1), qn_mul(sign, qn_like(sign, 2)));
    return qn_mul(x, sign);
}

static qn_fft_norm other_norm(qn_fft_norm norm) {
    return norm == QN_NORM_BACKWARD  ? QN_NORM_FORWARD
           : norm == QN_NORM_FORWARD ? QN_NORM_BACKWARD
                                     : norm;
}

static qn_tensor *one_axis(const char *name, qn_tensor *x, transform t, int axis) {
    func_frame f = func_on(name, ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, along(x, &t, axis));
}

qn_tensor *qn_fft(qn_tensor *x, int64_t n, int axis, qn_fft_norm norm) {
    return one_axis("fft", x, (transform){CALL_FFT_COMPLEX, false, n, norm}, axis);
}

qn_tensor *qn_ifft(qn_tensor *x, int64_t n, int axis, qn_fft_norm norm) {
    return one_axis("ifft", x, (transform){CALL_FFT_COMPLEX, true, n, norm}, axis);
}

qn_tensor *qn_rfft(qn_tensor *x, int64_t n, int axis, qn_fft_norm norm) {
    return one_axis("rfft", x, (transform){CALL_FFT_REAL_IN, false, n, norm}, axis);
}

qn_tensor *qn_irfft(qn_tensor *x, int64_t n, int axis, qn_fft_norm norm) {
    return one_axis("irfft", x, (transform){CALL_FFT_REAL_OUT, true, n, norm}, axis);
}

/* A signal that is symmetric about 0 has a real spectrum: time and frequency exchanged. */
qn_tensor *qn_hfft(qn_tensor *x, int64_t n, int axis, qn_fft_norm norm) {
    func_frame f = func_on("hfft", ARG(x));
    func_floats(&f, 1, &x);
    if (!is_complex(x)) return func_end(f, NULL);
    const transform t = {CALL_FFT_REAL_OUT, true, n, other_norm(norm)};
    return func_end(f, along(conjugate(x), &t, axis));
}

qn_tensor *qn_ihfft(qn_tensor *x, int64_t n, int axis, qn_fft_norm norm) {
    func_frame f = func_on("ihfft", ARG(x));
    func_floats(&f, 1, &x);
    const transform t = {CALL_FFT_REAL_IN, false, n, other_norm(norm)};
    return func_end(f, conjugate(along(x, &t, axis)));
}

/* ---- several axes ---------------------------------------------------------------------------- */

/* Of none all, in their order. `pairs`: has x an axis of them? */
static int axes_given(const qn_tensor *x, bool pairs, int n, const int *axes, int *out) {
    qn_ctx *qn = x ? tensor_ctx(x) : NULL;
    int rank = func_rank(x) - pairs;
    if (!x || n < 0 || n > QN_MAX_RANK || (n && !axes)) {
        if (x) fail(qn, QN_EARG, "%s: %d axes", graph_name(qn, "fftn"), n);
        return -1;
    }
    for (int i = 0; i < (n ? n : rank); i++) {
        int axis = n ? axes[i] : i;
        out[i] = axis < 0 ? axis + rank : axis;
        if (out[i] < 0 || out[i] >= rank) {
            fail(qn, QN_ERANGE, "%s: axis %d of %d", graph_name(qn, "fftn"), axis, rank);
            return -1;
        }
        for (int k = 0; k < i; k++)
            if (out[k] == out[i]) {
                fail(qn, QN_ERANGE, "%s: axis %d twice", graph_name(qn, "fftn"), axis);
                return -1;
            }
    }
    return n ? n : rank;
}

static qn_tensor *complex_axes(qn_tensor *x, bool inverse, int n, const int *axes,
                               qn_fft_norm norm) {
    const transform t = {CALL_FFT_COMPLEX, inverse, 0, norm};
    for (int i = n - 1; i >= 0; i--) x = along(x, &t, axes[i]);
    return x;
}

static qn_tensor *complex_n(qn_tensor *x, bool inverse, int n, const int *axes, qn_fft_norm norm) {
    int all[QN_MAX_RANK];
    if (!is_complex(x)) return NULL;
    n = axes_given(x, true, n, axes, all);
    return n < 0 ? NULL : complex_axes(x, inverse, n, all, norm);
}

static qn_tensor *real_n(qn_tensor *x, int n, const int *axes, qn_fft_norm norm) {
    int all[QN_MAX_RANK];
    n = axes_given(x, false, n, axes, all);
    if (n == 0) return fail_null(tensor_ctx(x), QN_ESHAPE, "rfftn: a scalar has no axis");
    if (n < 0) return NULL;
    x = along(x, &(transform){CALL_FFT_REAL_IN, false, 0, norm}, all[n - 1]);
    return complex_axes(x, false, n - 1, all, norm);
}

static qn_tensor *to_real_n(qn_tensor *x, int64_t last, int n, const int *axes, qn_fft_norm norm) {
    int all[QN_MAX_RANK];
    if (!is_complex(x)) return NULL;
    n = axes_given(x, true, n, axes, all);
    if (n < 1) return NULL;
    x = complex_axes(x, true, n - 1, all, norm);
    return along(x, &(transform){CALL_FFT_REAL_OUT, true, last, norm}, all[n - 1]);
}

qn_tensor *qn_fftn(qn_tensor *x, int n, const int *axes, qn_fft_norm norm) {
    func_frame f = func_on("fftn", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, complex_n(x, false, n, axes, norm));
}

qn_tensor *qn_ifftn(qn_tensor *x, int n, const int *axes, qn_fft_norm norm) {
    func_frame f = func_on("ifftn", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, complex_n(x, true, n, axes, norm));
}

qn_tensor *qn_rfftn(qn_tensor *x, int n, const int *axes, qn_fft_norm norm) {
    func_frame f = func_on("rfftn", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, real_n(x, n, axes, norm));
}

qn_tensor *qn_irfftn(qn_tensor *x, int n, const int *axes, int64_t last, qn_fft_norm norm) {
    func_frame f = func_on("irfftn", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, to_real_n(x, last, n, axes, norm));
}

static const int last_two[2] = {-2, -1};

qn_tensor *qn_fft2(qn_tensor *x, qn_fft_norm norm) {
    func_frame f = func_on("fft2", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, complex_n(x, false, 2, last_two, norm));
}

qn_tensor *qn_ifft2(qn_tensor *x, qn_fft_norm norm) {
    func_frame f = func_on("ifft2", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, complex_n(x, true, 2, last_two, norm));
}

qn_tensor *qn_rfft2(qn_tensor *x, qn_fft_norm norm) {
    func_frame f = func_on("rfft2", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, real_n(x, 2, last_two, norm));
}

qn_tensor *qn_irfft2(qn_tensor *x, int64_t last, qn_fft_norm norm) {
    func_frame f = func_on("irfft2", ARG(x));
    func_floats(&f, 1, &x);
    return func_end(f, to_real_n(x, last, 2, last_two, norm));
}

/* ---- frequencies ----------------------------------------------------------------------------- */

static bool frequencies_fit(qn_ctx *qn, const char *name, int64_t n, double d) {
    if (n > 0 && (d < 0 || d > 0)) return true;
    if (qn) fail(qn, QN_ERANGE, "%s: %lld frequencies, a sample each %g", name, (long long)n, d);
    return false;
}

qn_tensor *qn_fftfreq(qn_ctx *qn, qn_dtype dtype, int64_t n, double d) {
    func_frame f = func_begin(qn, "fftfreq");
    if (!frequencies_fit(qn, "fftfreq", n, d)) return func_end(f, NULL);
    qn_tensor *k = func_iota(qn, QN_I64, 1, &n, 0);
    qn_tensor *high = qn_lt(qn_like(k, (double)((n - 1) / 2)), k);
    k = qn_cast(qn_where(high, qn_sub(k, qn_like(k, (double)n)), k), QN_F64);
    return func_end(f, qn_cast(qn_div(k, qn_like(k, (double)n * d)), dtype));
}

qn_tensor *qn_rfftfreq(qn_ctx *qn, qn_dtype dtype, int64_t n, double d) {
    func_frame f = func_begin(qn, "rfftfreq");
    if (!frequencies_fit(qn, "rfftfreq", n, d)) return func_end(f, NULL);
    int64_t half = n / 2 + 1;
    qn_tensor *k = func_iota(qn, QN_F64, 1, &half, 0);
    return func_end(f, qn_cast(qn_div(k, qn_like(k, (double)n * d)), dtype));
}

/* By half of each axis: of an odd one the middle is the zero frequency's. */
static qn_tensor *shifted(qn_tensor *x, int n, const int *axes, bool back) {
    int all[QN_MAX_RANK];
    n = axes_given(x, false, n, axes, all);
    for (int i = 0; i < n; i++) {
        int64_t size = x ? qn_dim(x, all[i]) : 0; /* which may be an expression */
        if (!x || size == 0 || size == 1) continue;
        int64_t half = dim_op(tensor_ctx(x), size, '/', 2);
        x = qn_roll(x, all[i], back ? dim_op(tensor_ctx(x), size, '-', half) : half);
    }
    return n < 0 ? NULL : x;
}

qn_tensor *qn_fftshift(qn_tensor *x, int n, const int *axes) {
    func_frame f = func_on("fftshift", ARG(x));
    return func_end(f, shifted(x, n, axes, false));
}

qn_tensor *qn_ifftshift(qn_tensor *x, int n, const int *axes) {
    func_frame f = func_on("ifftshift", ARG(x));
    return func_end(f, shifted(x, n, axes, true));
}
