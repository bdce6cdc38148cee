/* parts.c - complex tensors taken apart and put together, and the public functions that do. */
#include "complex/complex.h"

#include <string.h>

qn_ctx *complex_context(const qn_tensor *x, const qn_tensor *y) {
    const qn_tensor *t[2] = {x, y};
    for (int i = 0; i < 2; i++)
        if (handle_is(t[i], HANDLE_COMPLEX) || handle_is(t[i], HANDLE_TENSOR))
            return tensor_ctx(t[i]);
    return NULL;
}

qn_tensor *complex_pairs(const qn_tensor *z) {
    return handle_name(&tensor_pairs(tensor_at(z))->h);
}

void complex_split(const qn_tensor *z, qn_tensor **re, qn_tensor **im) {
    *re = qn_select(complex_pairs(z), -1, 0);
    *im = qn_select(complex_pairs(z), -1, 1);
}

parts complex_parts(const qn_tensor *x) {
    parts z = {NULL, NULL};
    if (handle_is(x, HANDLE_COMPLEX))
        complex_split(x, &z.re, &z.im);
    else if (handle_is(x, HANDLE_TENSOR))
        z.re = func_widen(func_float((qn_tensor *)(uintptr_t)x));
    return z;
}

/* In dtype d, which holds it. */
static parts parts_in(const qn_tensor *x, qn_dtype d) {
    if (!handle_is(x, HANDLE_COMPLEX)) return (parts){func_as((qn_tensor *)(uintptr_t)x, d), NULL};
    parts z = complex_parts(x);
    return (parts){func_as(z.re, d), func_as(z.im, d)};
}

bool complex_given(qn_ctx *qn, int n, qn_tensor *const *x, const char *args, parts *out) {
    if (!qn) return false;
    const char *call = graph_name(qn, "complex");
    qn_dtype d = QN_BOOL;
    for (int i = 0; i < n; i++, args += strlen(args) + 1) {
        if (!x[i] && qn->code) return false; /* why is known */
        if (!tensor_any(qn, x[i], call, args)) return false;
        if (i && !complex_may_meet(call, x[i - 1], x[i])) return false;
        qn_dtype own = tensor_dtype(tensor_at(x[i]));
        d = i ? qn_dtype_promote(d, own) : own;
    }
    for (int i = 0; i < n; i++) {
        out[i] = parts_in(x[i], dtype_part(d));
        if (!out[i].re) return false;
    }
    return true;
}

bool complex_may_meet(const char *call, const qn_tensor *x, const qn_tensor *y) {
    qn_ctx *qn = complex_context(x, y);
    if (!qn || qn->knob[KNOB_EXPLICIT].number == 0) return true;
    if (!tensor_any(qn, x, call, "x") || !tensor_any(qn, y, call, "y")) return false;
    qn_dtype a = tensor_dtype(tensor_at(x)), b = tensor_dtype(tensor_at(y));
    if (a == b) return true;
    fail(qn, QN_EDTYPE, "%s: %s meets %s, and knob explicit is 1: cast one of them", call,
         qn_dtype_name(a), qn_dtype_name(b));
    return false;
}

qn_tensor *complex_whole(qn_tensor *re, qn_tensor *im) {
    if (!re) return NULL;
    if (!im) im = qn_like(re, 0);
    if (!im) return NULL;
    qn_dtype d = dtype_part(dtype_of_parts(dtype_promote(qn_dtype_of(re), qn_dtype_of(im))));
    qn_tensor *both[2] = {func_as(re, d), func_as(im, d)}, *fit[2];
    if (!both[0] || !both[1] || qn_broadcast_arrays(2, both, fit)) return NULL;
    return tensor_complex(qn_stack(2, fit, -1));
}

qn_tensor *complex_end(func_frame f, parts z) {
    return func_end(f, z.im ? complex_whole(z.re, z.im) : z.re);
}

qn_tensor *complex_number(parts z, double value) {
    return z.re ? qn_like(z.re, value) : NULL;
}

/* ---- public functions ------------------------------------------------------------------------ */

qn_tensor *qn_complex(qn_tensor *re, qn_tensor *im) {
    func_frame f = func_on("complex", ARG(re), OPTIONAL(im));
    qn_dtype d = re ? qn_dtype_of(re) : QN_F32;
    if (re && im) d = func_meet(re, im);
    if (re && !dtype_is_float((int)d))
        fail(f.qn, QN_EDTYPE, "%s: parts are floats, not %s", graph_name(f.qn, "complex"),
             qn_dtype_name(d));
    return func_end(f, f.qn && f.failures == f.qn->failures ? complex_whole(re, im) : NULL);
}

qn_tensor *qn_as_complex(qn_tensor *pairs) {
    func_frame f = func_on("as_complex", ARG(pairs));
    qn_tensor *x = pairs;
    if (!x) return func_end(f, NULL);
    if (func_rank(x) < 1 || qn_dim(x, -1) != 2)
        return func_end(f, fail_null(f.qn, QN_ESHAPE, "as_complex: no last axis of 2"));
    if (qn_dtype_of(x) != QN_F32 && qn_dtype_of(x) != QN_F64)
        return func_end(f, fail_null(f.qn, QN_EDTYPE, "as_complex: pairs are of f32 or f64, not %s",
                                     qn_dtype_name(qn_dtype_of(x))));
    return func_end(f, tensor_complex(x));
}

/* Of real numbers. */
qn_tensor *qn_as_real(qn_tensor *z) {
    func_frame f = func_on("as_real", ARG(z));
    if (z) fail(f.qn, QN_EDTYPE, "as_real: %s is not complex", qn_dtype_name(qn_dtype_of(z)));
    return func_end(f, NULL);
}

qn_tensor *qn_real(qn_tensor *z) {
    func_frame f = func_on("real", ARG(z));
    return func_end(f, z);
}

qn_tensor *qn_conj(qn_tensor *z) {
    func_frame f = func_on("conj", ARG(z));
    return func_end(f, z);
}

qn_tensor *qn_imag(qn_tensor *z) {
    func_frame f = func_on("imag", ARG(z));
    return func_end(f, z ? qn_zeros_like(z) : NULL);
}

qn_tensor *qn_angle(qn_tensor *z) {
    func_frame f = func_on("angle", ARG(z));
    z = func_float(z);
    return func_end(f, z ? qn_atan2(qn_zeros_like(z), z) : NULL);
}

/* ---- of complex ones ------------------------------------------------------------------------- */

static func_frame begin(const char *name, const qn_tensor *z) {
    return func_begin(complex_context(z, NULL), name);
}

qn_tensor *complex_real(qn_tensor *z) {
    func_frame f = begin("real", z);
    return func_end(f, complex_parts(z).re);
}

qn_tensor *complex_imag(qn_tensor *z) {
    func_frame f = begin("imag", z);
    return func_end(f, complex_parts(z).im);
}

qn_tensor *complex_conj(qn_tensor *z) {
    func_frame f = begin("conj", z);
    parts x = complex_parts(z);
    return complex_end(f, (parts){x.re, qn_neg(x.im)});
}

qn_tensor *complex_as_real(qn_tensor *z) {
    func_frame f = begin("as_real", z);
    return func_end(f, complex_pairs(z));
}
