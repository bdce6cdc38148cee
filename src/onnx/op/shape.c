/* shape.c - operators that move elements: shapes, slices, joins. */
#include "onnx/onnx.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static int64_t within(int64_t v, int64_t lo, int64_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/* Sizes are known whatever the tensor is: they are made aside. */
static void known_ints(onnx_op *o, int rank, int64_t n, const int64_t *v) {
    qn_tensor *t = qn_from(o->run->model->aside, QN_I64, rank, &n, v);
    o->made[0] = value_new(o->run, "", t, ONNX_INT64, true);
}

void op_shape_op(onnx_op *o) {
    int rank;
    const int64_t *dims = op_shape(o, 0, &rank);
    int64_t start = attr_int(o, "start", 0), end = attr_int(o, "end", rank);
    start = within(start < 0 ? start + rank : start, 0, rank);
    end = within(end < 0 ? end + rank : end, start, rank);
    known_ints(o, 1, end - start, dims + start);
}

void op_size(onnx_op *o) {
    int64_t n = op_numel(o, 0);
    known_ints(o, 0, 1, &n);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

void op_reshape(onnx_op *o) {
    int n, rank;
    const int64_t *dims = op_shape(o, 0, &rank);
    const int64_t *wanted = o->version < 5 ? attr_ints(o, "shape", &n) : op_ints(o, 1, &n);
    int64_t shape[QN_MAX_RANK];
    if (n > QN_MAX_RANK) op_fail(o, QN_ESHAPE, "%d axes", n);
    bool zeros = attr_int(o, "allowzero", 0) != 0;
    for (int i = 0; i < n; i++) {
        shape[i] = wanted[i];
        if (wanted[i] < -1) op_fail(o, QN_ESHAPE, "a size of %lld", (long long)wanted[i]);
        if (wanted[i] || zeros) continue;
        if (i >= rank) op_fail(o, QN_ESHAPE, "a size of 0 for axis %d of %d", i, rank);
        shape[i] = dims[i];
    }
    o->out[0] = qn_reshape(op_in(o, 0), n, shape);
}

/* The axes that an attribute or, from opset 13 on, input 1 lists. */
static int listed_axes(onnx_op *o, int rank, int *axes) {
    int n;
    const int64_t *list = attr_ints(o, "axes", &n);
    if (!list) list = op_ints(o, 1, &n);
    if (!list) return -1;
    if (n > QN_MAX_RANK) op_fail(o, QN_ERANGE, "%d axes", n);
    for (int i = 0; i < n; i++) axes[i] = op_axis(o, list[i], rank >= 0 ? rank : op_rank(o, 0) + n);
    return n;
}

void op_squeeze(onnx_op *o) {
    int axes[QN_MAX_RANK], n = listed_axes(o, op_rank(o, 0), axes);
    qn_tensor *x = op_in(o, 0);
    o->out[0] = n < 0 ? qn_squeeze(x, QN_ALL) : qn_squeeze_axes(x, n, axes);
}

void op_unsqueeze(onnx_op *o) {
    int axes[QN_MAX_RANK], n = listed_axes(o, -1, axes);
    if (n < 0) op_fail(o, QN_EARG, "no axes");
    o->out[0] = qn_unsqueeze_axes(op_in(o, 0), n, axes);
}

void op_flatten(onnx_op *o) {
    int rank;
    const int64_t *dims = op_shape(o, 0, &rank);
    int64_t axis = attr_int(o, "axis", 1), flat[2] = {1, 1};
    if (axis < -rank || axis > rank) op_fail(o, QN_ERANGE, "axis %lld", (long long)axis);
    if (axis < 0) axis += rank;
    for (int i = 0; i < rank; i++) flat[i >= axis] = sat_mul(flat[i >= axis], dims[i]);
    o->out[0] = qn_reshape(op_in(o, 0), 2, flat);
}

void op_transpose(onnx_op *o) {
    int n, rank = op_rank(o, 0), axes[QN_MAX_RANK];
    const int64_t *perm = attr_ints(o, "perm", &n);
    if (perm && n != rank) op_fail(o, QN_ESHAPE, "%d axes of %d", n, rank);
    for (int i = 0; i < rank; i++) axes[i] = perm ? op_axis(o, perm[i], rank) : rank - 1 - i;
    o->out[0] = qn_permute(op_in(o, 0), rank, axes);
}

/* Broadcast to the shape of input 1, in which sizes of 1 keep the tensor's. */
void op_expand(onnx_op *o) {
    int n, rank;
    const int64_t *dims = op_shape(o, 0, &rank), *wanted = op_ints(o, 1, &n);
    int both = n > rank ? n : rank;
    int64_t shape[QN_MAX_RANK];
    if (both > QN_MAX_RANK) op_fail(o, QN_ESHAPE, "%d axes", both);
    for (int i = 0; i < both; i++) {
        int64_t mine = i >= both - rank ? dims[i - both + rank] : 1;
        int64_t theirs = i >= both - n ? wanted[i - both + n] : 1;
        shape[i] = mine == 1 ? theirs : mine;
        if (theirs != 1 && theirs != shape[i])
            op_fail(o, QN_ESHAPE, "axis %d of %lld does not become %lld", i, (long long)mine,
                    (long long)theirs);
    }
    o->out[0] = qn_expand(op_in(o, 0), both, shape);
}

void op_tile(onnx_op *o) {
    int n, rank = op_rank(o, 0);
    const int64_t *times = op_ints(o, 1, &n);
    if (o->version < 6) { /* so often along one axis */
        int64_t *list = op_alloc(o, QN_MAX_RANK, sizeof *list);
        int axis = op_axis(o, op_int(o, 2, 0), rank);
        for (int i = 0; i < rank; i++) list[i] = 1;
        list[axis] = op_int(o, 1, 1);
        times = list;
        n = rank;
    }
    o->out[0] = qn_tile(op_in(o, 0), n, times);
}

void op_concat(onnx_op *o) {
    qn_tensor **list = op_alloc(o, (size_t)o->n_in, sizeof(qn_tensor *));
    for (int i = 0; i < o->n_in; i++) list[i] = op_in(o, i);
    int axis = op_axis(o, attr_int(o, "axis", 1), op_rank(o, 0));
    o->out[0] = qn_concat(o->n_in, list, axis);
}

/* Sizes that are listed, or equal ones, of which the last is what is left. */
void op_split(onnx_op *o) {
    int n, rank, parts = o->n_out;
    const int64_t *dims = op_shape(o, 0, &rank), *list = attr_ints(o, "split", &n);
    int axis = op_axis(o, attr_int(o, "axis", 0), rank);
    if (!list) list = op_ints(o, 1, &n);
    int64_t *sizes = op_alloc(o, (size_t)parts, sizeof *sizes), left = dims[axis];
    int64_t each = parts ? (left + parts - 1) / parts : 0;
    if (list && n != parts) op_fail(o, QN_EARG, "%d sizes for %d outputs", n, parts);
    for (int i = 0; i < parts; i++) {
        sizes[i] = list ? list[i] : each < left ? each : left;
        left = sat_sub(left, sizes[i]);
    }
    qn_split(op_in(o, 0), axis, parts, sizes, o->out);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Elements start, start + step, .. before end, as NumPy has it. */
static qn_tensor *slice(onnx_op *o, qn_tensor *x, int axis, int64_t at[3]) {
    int rank;
    int64_t n = op_shape_of(o, x, &rank)[axis], start = at[0], end = at[1], step = at[2];
    if (!step) op_fail(o, QN_EARG, "a step of 0");
    if (start < 0) start = sat_add(start, n);
    if (end < 0) end = sat_add(end, n);
    bool back = step < 0;
    start = within(start, back ? -1 : 0, back ? n - 1 : n);
    end = within(end, back ? -1 : 0, back ? n - 1 : n);
    if (back ? end >= start : end <= start) return qn_slice(x, axis, 0, 0, 1);
    return qn_slice(x, axis, start, back && end < 0 ? QN_END : end, step);
}

void op_slice(onnx_op *o) {
    int n, ends, n_axes, n_steps = 0, rank = op_rank(o, 0);
    bool old = o->version < 10;
    const int64_t *start = old ? attr_ints(o, "starts", &n) : op_ints(o, 1, &n);
    const int64_t *end = old ? attr_ints(o, "ends", &ends) : op_ints(o, 2, &ends);
    const int64_t *axes = old ? attr_ints(o, "axes", &n_axes) : op_ints(o, 3, &n_axes);
    const int64_t *steps = old ? NULL : op_ints(o, 4, &n_steps);
    if (!start || !end || n != ends || (axes && n_axes != n) || (steps && n_steps != n))
        op_fail(o, QN_EARG, "starts, ends, axes and steps of different lengths");
    if (n > rank) op_fail(o, QN_EARG, "%d slices of %d axes", n, rank);
    qn_tensor *x = op_in(o, 0);
    for (int i = 0; i < n && x; i++) {
        int axis = op_axis(o, axes ? axes[i] : i, rank);
        x = slice(o, x, axis, (int64_t[]){start[i], end[i], steps ? steps[i] : 1});
    }
    o->out[0] = x;
}

/* ---- padding --------------------------------------------------------------------------------- */

static qn_pad_mode pad_mode(const onnx_op *o) {
    static const struct {
        const char *name;
        qn_pad_mode mode;
    } modes[] = {{"constant", QN_PAD_CONSTANT},
                 {"reflect", QN_PAD_REFLECT},
                 {"edge", QN_PAD_EDGE},
                 {"wrap", QN_PAD_CIRCULAR}};
    const char *name = attr_text(o, "mode", "constant");
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        if (!strcmp(name, modes[i].name)) return modes[i].mode;
    op_fail(o, QN_EARG, "mode \"%.40s\"", name);
}

void op_pad(onnx_op *o) {
    int n, n_axes = 0, rank = op_rank(o, 0);
    bool old = o->version < 11;
    const int64_t *pads =
        old ? attr_ints(o, o->version < 2 ? "paddings" : "pads", &n) : op_ints(o, 1, &n);
    const int64_t *axes = old ? NULL : op_ints(o, 3, &n_axes);
    int many = axes ? n_axes : rank;
    int64_t both[2 * QN_MAX_RANK] = {0};
    if (!pads || many > rank || n != 2 * many)
        op_fail(o, QN_ESHAPE, "%d pads for %d axes", n, many);
    for (int i = 0; i < many; i++) {
        int axis = op_axis(o, axes ? axes[i] : i, rank);
        both[2 * axis] = pads[i];
        both[2 * axis + 1] = pads[many + i];
    }
    qn_tensor *x = op_in(o, 0), *value = old ? NULL : op_in(o, 2);
    qn_pad_mode mode = pad_mode(o);
    double number = attr_float(o, "value", 0);
    if (!value || mode != QN_PAD_CONSTANT) {
        o->out[0] = qn_pad(x, both, mode, number);
        return;
    }
    if (!o->value[2]->follows && qn_dtype_size(qn_dtype_of(x)) < 8) {
        o->out[0] = qn_pad(x, both, mode, op_float(o, 2, 0));
        return;
    }
    qn_tensor *inside = qn_pad(qn_full_like(qn_cast(x, QN_BOOL), 1), both, mode, 0);
    o->out[0] = qn_where(inside, qn_pad(x, both, mode, 0), qn_reshape(value, 0, NULL));
}

void op_center_crop_pad(onnx_op *o) {
    int n, n_axes, rank;
    const int64_t *dims = op_shape(o, 0, &rank), *wanted = op_ints(o, 1, &n);
    const int64_t *axes = attr_ints(o, "axes", &n_axes);
    int64_t pads[2 * QN_MAX_RANK] = {0};
    if (n != (axes ? n_axes : rank)) op_fail(o, QN_ESHAPE, "%d sizes", n);
    for (int i = 0; i < n; i++) {
        int axis = op_axis(o, axes ? axes[i] : i, rank);
        if (wanted[i] < 0) op_fail(o, QN_ERANGE, "a size of %lld", (long long)wanted[i]);
        int64_t more = wanted[i] - dims[axis];
        int64_t before = more >= 0 ? more / 2 : -((-more) / 2);
        pads[2 * axis] = before;
        pads[2 * axis + 1] = more - before;
    }
    o->out[0] = qn_pad(op_in(o, 0), pads, QN_PAD_CONSTANT, 0);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { TO_SPACE, TO_DEPTH };

void op_depth_space(onnx_op *o) {
    int rank;
    const int64_t *d = op_shape(o, 0, &rank);
    int64_t b = attr_int(o, "blocksize", 1);
    if (rank != 4 || b < 1 || b > 1 << 20)
        op_fail(o, QN_ESHAPE, "%d axes, blocks of %lld", rank, (long long)b);
    int64_t bb = b * b, wide = sat_mul(d[1], bb), high[2] = {sat_mul(d[2], b), sat_mul(d[3], b)};
    qn_tensor *x = op_in(o, 0);
    if (o->row->variant == TO_DEPTH) {
        x = qn_reshape(x, 6, (int64_t[]){d[0], d[1], d[2] / b, b, d[3] / b, b});
        bool channels_first = !strcmp(attr_text(o, "mode", "DCR"), "CRD");
        x = qn_permute(x, 6,
                       channels_first ? (int[]){0, 1, 3, 5, 2, 4} : (int[]){0, 3, 5, 1, 2, 4});
        o->out[0] = qn_reshape(x, 4, (int64_t[]){d[0], wide, d[2] / b, d[3] / b});
        return;
    }
    int64_t c = d[1] / bb;
    bool columns = !strcmp(attr_text(o, "mode", "DCR"), "CRD");
    x = qn_reshape(x, 6,
                   columns ? (int64_t[]){d[0], c, b, b, d[2], d[3]}
                           : (int64_t[]){d[0], b, b, c, d[2], d[3]});
    x = qn_permute(x, 6, columns ? (int[]){0, 1, 4, 2, 5, 3} : (int[]){0, 3, 4, 1, 5, 2});
    o->out[0] = qn_reshape(x, 4, (int64_t[]){d[0], c, high[0], high[1]});
}

void op_trilu(onnx_op *o) {
    int64_t k = op_int(o, 1, 0);
    bool upper = attr_int(o, "upper", 1) != 0;
    o->out[0] = (upper ? qn_triu : qn_tril)(op_in(o, 0), k);
}

void op_eye_like(onnx_op *o) {
    int rank, type = (int)attr_int(o, "dtype", op_type(o, 0));
    const int64_t *d = op_shape(o, 0, &rank);
    if (rank != 2) op_fail(o, QN_ESHAPE, "%d axes, not 2", rank);
    qn_tensor *row = qn_iota(o->qn, QN_I64, 2, d, 0), *column = qn_iota(o->qn, QN_I64, 2, d, 1);
    qn_tensor *k = qn_scalar_int(o->qn, QN_I64, attr_int(o, "k", 0));
    o->out[0] = op_quantized(o, qn_eq(qn_add(row, k), column), type, true);
    o->type[0] = type;
}

/* ---- optional values ------------------------------------------------------------------------- */

void op_has_element(onnx_op *o) {
    qn_tensor *t = qn_full(o->run->model->aside, QN_BOOL, 0, NULL, op_has(o, 0));
    o->made[0] = value_new(o->run, "", t, ONNX_BOOL, true);
}
