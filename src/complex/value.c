/* value.c - what a complex tensor is like, and its value. */
#include "complex/complex.h"

qn_dtype complex_dtype_of(const qn_tensor *t) {
    return tensor_dtype(tensor_at(t));
}

int complex_rank(const qn_tensor *t) {
    return qn_rank(complex_pairs(t)) - 1;
}

int64_t complex_dim(const qn_tensor *t, int axis) {
    int rank = complex_rank(t);
    if (axis >= -rank && axis < rank)
        return qn_dim(complex_pairs(t), axis < 0 ? axis + rank : axis);
    fail(tensor_ctx(t), QN_ERANGE, "dim: axis %d of %d", axis, rank);
    return QN_DIM_ERROR;
}

int64_t complex_numel(const qn_tensor *t) {
    int64_t n = qn_numel(complex_pairs(t));
    return n < 0 ? n : n / 2;
}

qn_code complex_read(qn_tensor *t, void *out, size_t size) {
    return qn_read(complex_pairs(t), out, size);
}

/* What is joined of parts is a result of operations, which nothing else would see. */
static qn_code refuse(const qn_tensor *t, const char *call) {
    return fail(tensor_ctx(t), QN_EGRAPH,
                "%s: a complex tensor that is the result of an operation, and no variable; realize "
                "it before",
                call);
}

qn_code complex_write(qn_tensor *t, const void *data, size_t size) {
    if (complex_is_joined(t)) return refuse(t, "write");
    return qn_write(complex_pairs(t), data, size);
}

qn_code complex_assign(qn_tensor *t, qn_tensor *value) {
    qn_ctx *qn = complex_context(t, value);
    bool both = handle_is(t, HANDLE_COMPLEX) && handle_is(value, HANDLE_COMPLEX);
    if (both && complex_is_joined(t)) return refuse(t, "assign");
    if (both) return qn_assign(complex_pairs(t), complex_pairs(value));
    return fail(qn, QN_EDTYPE, "assign: only one of both is complex");
}
