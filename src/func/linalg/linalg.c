/* linalg.c - linear algebra: calls of routines (graph/routines.h), and what is made of them.
 *
 * Routines take f32 and f64; half precision is computed in f32 and rounded at the end. Operands
 * are broadcast here, so that a routine sees as many matrices of each. */
#include "func/func.h"

/* ---- operands -------------------------------------------------------------------------------- */

static qn_tensor *refuse(qn_ctx *qn, const qn_tensor *x, const char *why) {
    str *text = &qn->graph->text;
    text->len = 0;
    shape_text(qn->graph, node_at(qn->graph, tensor_at(x)->node)->shape, text);
    return fail_null(qn, QN_ESHAPE, "%s: x is %s, %s", graph_name(qn, "linalg"), text->s, why);
}

static bool is_matrix(qn_tensor *x, bool square) {
    if (!x) return false;
    if (func_rank(x) < 2) return refuse(tensor_ctx(x), x, "which is no matrix"), false;
    if (square && qn_dim(x, -1) != qn_dim(x, -2))
        return refuse(tensor_ctx(x), x, "which is not square"), false;
    return true;
}

/* Result `result` of a routine, of x's batches and with these last sizes. */
static qn_tensor *call(int routine, int result, qn_tensor *x, int n, const int64_t *size) {
    const call_attr c = {routine, result, 0, {0}};
    int64_t dims[QN_MAX_RANK];
    tuple_id shape;
    int rank = func_dims(x, dims) - 2;
    for (int i = 0; i < n; i++) dims[rank++] = size[i];
    if (!shape_from_user(tensor_ctx(x), routine_rows[routine].name, rank, dims, &shape))
        return NULL;
    return build_call(&c, qn_dtype_of(x), shape, 1, &x);
}

static qn_tensor *turned(qn_tensor *x) {
    return qn_transpose(x, -1, -2);
}

static qn_tensor *identity_like(qn_tensor *x) {
    int64_t dims[QN_MAX_RANK];
    if (!x) return NULL;
    int rank = func_dims(x, dims);
    qn_tensor *i = func_iota(tensor_ctx(x), QN_I64, rank, dims, rank - 2);
    qn_tensor *k = func_iota(tensor_ctx(x), QN_I64, rank, dims, rank - 1);
    return qn_cast(qn_eq(i, k), qn_dtype_of(x));
}

/* Is the number of elements known to be 0? */
static bool is_nothing(const qn_tensor *x) {
    for (int i = 0; i < func_rank(x); i++)
        if (qn_dim(x, i) == 0) return true;
    return false;
}

/* ---- systems --------------------------------------------------------------------------------- */

/* The operands' batches broadcast; a vector b is a column. */
static bool system_fits(qn_tensor **a, qn_tensor **b, bool square, bool *vector) {
    if (!is_matrix(*a, square) || !*b) return false;
    *vector = func_rank(*b) == 1;
    if (*vector) *b = qn_unsqueeze(*b, 1);
    if (func_rank(*b) < 2 || qn_dim(*b, -2) != qn_dim(*a, -2))
        return tensor_unfit("a", *a, "b", *b, "b has a row for each of a"), false;
    int64_t x[QN_MAX_RANK], y[QN_MAX_RANK];
    int n = func_dims(*a, x), m = func_dims(*b, y), most = n > m ? n : m;
    int64_t to_a[QN_MAX_RANK], to_b[QN_MAX_RANK];
    for (int i = most; i-- > 0;) {
        int p = i - (most - n), q = i - (most - m);
        bool batch = i < most - 2;
        to_a[i] = p < 0 ? 1 : x[p];
        to_b[i] = q < 0 ? 1 : y[q];
        if (batch && to_a[i] == 1) to_a[i] = to_b[i];
        if (batch && to_b[i] == 1) to_b[i] = to_a[i];
    }
    *a = func_expand(*a, most, to_a);
    *b = func_expand(*b, most, to_b);
    if (*a && *b)
        for (int i = 0; i + 2 < most; i++)
            if (to_a[i] != to_b[i])
                return tensor_unfit("a", *a, "b", *b, "their batches do not fit"), false;
    return *a && *b;
}

static qn_tensor *system_call(const call_attr *c, qn_tensor *a, qn_tensor *b) {
    int64_t dims[QN_MAX_RANK];
    tuple_id shape;
    if (!a || !b) return NULL;
    int rank = func_dims(b, dims);
    if (!shape_from_user(tensor_ctx(b), "solve", rank, dims, &shape)) return NULL;
    return build_call(c, qn_dtype_of(b), shape, 2, (qn_tensor *const[]){a, b});
}

static qn_tensor *solved(func_frame *f, const call_attr *c, qn_tensor *a, qn_tensor *b) {
    qn_tensor *both[2] = {a, b};
    bool vector;
    if (!a || !b) return NULL;
    func_floats(f, 2, both);
    if (!system_fits(&both[0], &both[1], true, &vector)) return NULL;
    qn_tensor *x = system_call(c, both[0], both[1]);
    return vector ? qn_squeeze(x, -1) : x;
}

qn_tensor *qn_solve(qn_tensor *a, qn_tensor *b) {
    func_frame f = func_on("solve", ARG(a), ARG(b));
    const call_attr c = {ROUTINE_SOLVE, 0, 1, {false}};
    return func_end(f, solved(&f, &c, a, b));
}

qn_tensor *qn_solve_triangular(qn_tensor *a, qn_tensor *b, bool upper, bool transposed, bool unit) {
    func_frame f = func_on("solve_triangular", ARG(a), ARG(b));
    const call_attr c = {ROUTINE_SOLVE_TRIANGULAR, 0, 3, {upper, transposed, unit}};
    return func_end(f, solved(&f, &c, a, b));
}

static qn_tensor *inverse(qn_tensor *x) {
    const call_attr c = {ROUTINE_SOLVE, 0, 1, {false}};
    return system_call(&c, x, identity_like(x));
}

qn_tensor *qn_inv(qn_tensor *x) {
    func_frame f = func_on("inv", ARG(x));
    if (!is_matrix(x, true)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    return func_end(f, inverse(x));
}

/* ---- factors --------------------------------------------------------------------------------- */

qn_tensor *qn_cholesky(qn_tensor *x, bool upper) {
    func_frame f = func_on("cholesky", ARG(x));
    if (!is_matrix(x, true)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    int64_t n = qn_dim(x, -1);
    x = call(ROUTINE_CHOLESKY, 0, x, 2, (int64_t[]){n, n});
    return func_end(f, upper ? turned(x) : x);
}

static qn_tensor *determinant(const char *name, qn_tensor *x, int result) {
    func_frame f = func_on(name, ARG(x));
    if (!is_matrix(x, true)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    if (dims[rank - 1] == 0)
        return func_end(f, func_full(f.qn, qn_dtype_of(x), rank - 2, dims, result != 1));
    return func_end(f, call(ROUTINE_DETERMINANT, result, x, 0, NULL));
}

qn_tensor *qn_det(qn_tensor *x) {
    return determinant("det", x, 2);
}

/* Results of one name; where one fails none is given. */
typedef qn_tensor *part_of(qn_tensor *x, int which);
static qn_code parts(qn_tensor *x, int n, qn_tensor **const *out, part_of *part) {
    bool any = false;
    qn_code code = QN_OK;
    for (int i = 0; i < n; i++)
        if (out[i]) *out[i] = NULL;
    for (int i = 0; i < n && !code; i++) {
        bool last = i + 1 == n && !any;
        if (!out[i] && !last) continue; /* of none that is asked for, arguments are checked */
        qn_tensor *t = part(x, i);
        any = true;
        if (!t) code = handle_code(x);
        if (out[i])
            *out[i] = t;
        else if (t)
            qn_release(t);
    }
    for (int i = 0; i < n && code; i++)
        if (out[i] && *out[i]) {
            qn_release(*out[i]);
            *out[i] = NULL;
        }
    return code;
}

static qn_tensor *slogdet_part(qn_tensor *x, int which) {
    return determinant("slogdet", x, which);
}

qn_code qn_slogdet(qn_tensor *x, qn_tensor **sign, qn_tensor **logarithm) {
    return parts(x, 2, (qn_tensor * *[]){sign, logarithm}, slogdet_part);
}

/* The smaller of a matrix's two sizes; DIM_BAD where that is not known. */
static int64_t smaller(qn_tensor *x) {
    int64_t m = qn_dim(x, -2), n = qn_dim(x, -1);
    if (m == n || (m >= 0 && n >= 0)) return m < n ? m : n;
    refuse(tensor_ctx(x), x, "of which the smaller size must be known");
    return DIM_BAD;
}

static qn_tensor *qr_of(qn_tensor *x, int which) {
    int64_t k = x ? smaller(x) : DIM_BAD;
    if (k == DIM_BAD) return NULL;
    if (which == 0) return call(ROUTINE_QR, 0, x, 2, (int64_t[]){qn_dim(x, -2), k});
    return call(ROUTINE_QR, 1, x, 2, (int64_t[]){k, qn_dim(x, -1)});
}

static qn_tensor *qr_part(qn_tensor *x, int which) {
    func_frame f = func_on("qr", ARG(x));
    if (!is_matrix(x, false)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    return func_end(f, qr_of(x, which));
}

qn_code qn_qr(qn_tensor *x, qn_tensor **q, qn_tensor **r) {
    return parts(x, 2, (qn_tensor * *[]){q, r}, qr_part);
}

static qn_tensor *eigh_part(qn_tensor *x, int which) {
    func_frame f = func_on("eigh", ARG(x));
    if (!is_matrix(x, true)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    int64_t n = qn_dim(x, -1);
    return func_end(f, call(ROUTINE_EIGH, which, x, 1 + which, (int64_t[]){n, n}));
}

qn_code qn_eigh(qn_tensor *x, qn_tensor **values, qn_tensor **vectors) {
    return parts(x, 2, (qn_tensor * *[]){values, vectors}, eigh_part);
}

/* The routine's pairs are the complex numbers. */
static qn_tensor *eig_named(const char *name, qn_tensor *x, int which) {
    func_frame f = func_on(name, ARG(x));
    if (!is_matrix(x, true)) return func_end(f, NULL);
    if (func_rank(x) == QN_MAX_RANK)
        return func_end(f, refuse(f.qn, x, "and complex tensors have an axis less"));
    if (qn_dtype_of(x) != QN_F64) x = func_as(x, QN_F32);
    int64_t n = x ? qn_dim(x, -1) : 0;
    x = x ? call(ROUTINE_EIG, which, x, 2 + which, which ? (int64_t[]){n, n, 2} : (int64_t[]){n, 2})
          : NULL;
    return func_end(f, x ? tensor_complex(x) : NULL);
}

static qn_tensor *eig_part(qn_tensor *x, int which) {
    return eig_named("eig", x, which);
}

qn_code qn_eig(qn_tensor *x, qn_tensor **values, qn_tensor **vectors) {
    return parts(x, 2, (qn_tensor * *[]){values, vectors}, eig_part);
}

qn_tensor *qn_eigvals(qn_tensor *x) {
    return eig_named("eigvals", x, 0);
}

static qn_tensor *svd_of(qn_tensor *x, int which) {
    int64_t k = x ? smaller(x) : DIM_BAD;
    if (k == DIM_BAD) return NULL;
    if (which == 1) return call(ROUTINE_SVD, 1, x, 1, &k);
    if (which == 0) return call(ROUTINE_SVD, 0, x, 2, (int64_t[]){qn_dim(x, -2), k});
    return call(ROUTINE_SVD, 2, x, 2, (int64_t[]){k, qn_dim(x, -1)});
}

static qn_tensor *svd_part(qn_tensor *x, int which) {
    func_frame f = func_on("svd", ARG(x));
    if (!is_matrix(x, false)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    return func_end(f, svd_of(x, which));
}

qn_code qn_svd(qn_tensor *x, qn_tensor **u, qn_tensor **s, qn_tensor **vh) {
    return parts(x, 3, (qn_tensor * *[]){u, s, vh}, svd_part);
}

/* ---- made of them ---------------------------------------------------------------------------- */

/* a = q r: r^-1 q' b; of more columns than rows by the transpose's: q r'^-1 b. */
static qn_tensor *least_squares(qn_tensor *a, qn_tensor *b) {
    int64_t m = qn_dim(a, -2), n = qn_dim(a, -1);
    if (smaller(a) == DIM_BAD) return NULL;
    const call_attr c = {ROUTINE_SOLVE_TRIANGULAR, 0, 3, {true, m < n, false}};
    if (m < n) a = turned(a);
    qn_tensor *q = qr_of(a, 0), *r = qr_of(a, 1);
    if (m < n) return qn_matmul(q, system_call(&c, r, b));
    return system_call(&c, r, qn_matmul(turned(q), b));
}

qn_tensor *qn_lstsq(qn_tensor *a, qn_tensor *b) {
    func_frame f = func_on("lstsq", ARG(a), ARG(b));
    qn_tensor *both[2] = {a, b}, *x = NULL;
    bool vector = false;
    if (!a || !b) return func_end(f, NULL);
    func_floats(&f, 2, both);
    if (system_fits(&both[0], &both[1], false, &vector)) x = least_squares(both[0], both[1]);
    return func_end(f, vector ? qn_squeeze(x, -1) : x);
}

/* Bool [.., k]: which singular values count. */
static qn_tensor *significant(qn_tensor *x, qn_tensor *s, double rtol, qn_dtype given) {
    int64_t m = qn_dim(x, -2), n = qn_dim(x, -1);
    if (rtol < 0) rtol = (double)(m > n ? m : n) * dtype_epsilon(given);
    qn_tensor *most = func_reduce(OP_MAX, s, -1, true);
    return qn_gt(s, qn_mul(most, qn_like(s, rtol)));
}

/* The inverse as a function of x around the x of these factors, s being the inverses of the
 * singular values that count, else 0. With z = s u' and w = v s held fixed, c = x w and r = z x
 * span columns and rows, and the inverse is r' (r r')^-1 (z x w) (c' c)^-1 c' for every x of the
 * same rank near by. Here both grams are 1, and no singular vector is differentiated: those of
 * equal values have no derivative where the inverse has one. */
static qn_tensor *inverse_around(qn_tensor *x, qn_tensor *z, qn_tensor *w, qn_tensor *counts) {
    const call_attr solve = {ROUTINE_SOLVE, 0, 1, {false}};
    qn_tensor *c = qn_matmul(x, w), *r = qn_matmul(z, x), *gram = qn_matmul(turned(c), c);
    qn_tensor *rest = counts ? qn_unsqueeze(qn_logical_not(counts), -1) : NULL;
    rest = qn_mul(identity_like(gram), rest);
    qn_tensor *y = system_call(&solve, qn_add(gram, rest), turned(c));
    gram = qn_add(qn_matmul(r, turned(r)), rest);
    return qn_matmul(turned(r), system_call(&solve, gram, qn_matmul(qn_matmul(z, c), y)));
}

qn_tensor *qn_pinv(qn_tensor *x, double rtol) {
    func_frame f = func_on("pinv", ARG(x));
    if (!is_matrix(x, false)) return func_end(f, NULL);
    qn_dtype given = qn_dtype_of(x);
    if (is_nothing(x)) return func_end(f, turned(func_float(x)));
    func_floats(&f, 1, &x);
    qn_tensor *u = svd_of(x, 0), *s = svd_of(x, 1), *vh = svd_of(x, 2);
    qn_tensor *counts = s ? significant(x, s, rtol, given) : NULL;
    if (!counts) return func_end(f, NULL);
    qn_tensor *one = qn_like(s, 1), *zero = qn_like(s, 0);
    s = qn_where(counts, qn_div(one, qn_where(counts, s, one)), zero);
    qn_tensor *z = qn_detach(qn_mul(qn_unsqueeze(s, -1), turned(u)));
    qn_tensor *w = qn_detach(qn_mul(turned(vh), qn_unsqueeze(s, -2)));
    qn_tensor *value = qn_matmul(qn_detach(turned(vh)), z);
    x = inverse_around(x, z, w, qn_detach(counts));
    return func_end(f, qn_add(value, qn_sub(x, qn_detach(x))));
}

qn_tensor *qn_matrix_rank(qn_tensor *x, double rtol) {
    func_frame f = func_on("matrix_rank", ARG(x)), wide = f;
    if (!is_matrix(x, false)) return func_end(f, NULL);
    qn_dtype given = qn_dtype_of(x);
    int64_t dims[QN_MAX_RANK];
    if (is_nothing(x)) return func_end(f, func_full(f.qn, QN_I64, func_dims(x, dims) - 2, dims, 0));
    func_floats(&wide, 1, &x);
    qn_tensor *s = svd_of(x, 1);
    if (!s) return func_end(f, NULL);
    s = func_as(significant(x, s, rtol, given), QN_I64);
    return func_end(f, func_reduce(OP_SUM, s, -1, false));
}

qn_tensor *qn_matrix_power(qn_tensor *x, int64_t n) {
    func_frame f = func_on("matrix_power", ARG(x));
    if (!is_matrix(x, true)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    qn_tensor *power = n < 0 ? inverse(x) : x, *r = NULL;
    for (; left && power; left >>= 1) {
        if (left & 1) r = r ? qn_matmul(r, power) : power;
        if (left > 1) power = qn_matmul(power, power);
    }
    return func_end(f, r || n ? r : identity_like(x));
}

qn_tensor *qn_matrix_exp(qn_tensor *x) {
    func_frame f = func_on("matrix_exp", ARG(x));
    if (!is_matrix(x, true)) return func_end(f, NULL);
    func_floats(&f, 1, &x);
    int64_t n = qn_dim(x, -1);
    return func_end(f, call(ROUTINE_MATRIX_EXP, 0, x, 2, (int64_t[]){n, n}));
}

qn_tensor *qn_cross(qn_tensor *x, qn_tensor *y, int axis) {
    func_frame f = func_on("cross", ARG(x), ARG(y));
    if (!x || !y) return func_end(f, NULL);
    if (func_rank(x) != func_rank(y))
        return func_end(f, tensor_unfit("x", x, "y", y, "their ranks must be equal"));
    if (!func_axis(x, axis, &axis)) return func_end(f, NULL);
    if (qn_dim(x, axis) != 3 || qn_dim(y, axis) != 3)
        return func_end(f, tensor_unfit("x", x, "y", y, "axis %d must have 3 elements", axis));
    qn_tensor *v[] = {x, y};
    func_numbers(&f, 2, v);
    qn_tensor *x1 = qn_roll(v[0], axis, -1), *x2 = qn_roll(v[0], axis, 1);
    qn_tensor *y1 = qn_roll(v[1], axis, -1), *y2 = qn_roll(v[1], axis, 1);
    return func_end(f, qn_sub(qn_mul(x1, y2), qn_mul(x2, y1)));
}

qn_tensor *qn_kron(qn_tensor *x, qn_tensor *y) {
    func_frame f = func_on("kron", ARG(x), ARG(y));
    int64_t a[QN_MAX_RANK] = {0}, b[QN_MAX_RANK] = {0}, to_x[2 * QN_MAX_RANK];
    int64_t to_y[2 * QN_MAX_RANK], whole[QN_MAX_RANK];
    if (!x || !y) return func_end(f, NULL);
    int n = func_dims(x, a), m = func_dims(y, b), rank = n > m ? n : m;
    if (2 * rank > QN_MAX_RANK)
        return func_end(f, tensor_unfit("x", x, "y", y, "ranks of at most %d", QN_MAX_RANK / 2));
    for (int i = 0; i < rank; i++) {
        int64_t u = i < rank - n ? 1 : a[i - (rank - n)], v = i < rank - m ? 1 : b[i - (rank - m)];
        to_x[2 * i] = u;
        to_y[2 * i + 1] = v;
        to_x[2 * i + 1] = to_y[2 * i] = 1;
        whole[i] = dim_op(f.qn, u, '*', v);
    }
    qn_tensor *p = qn_mul(func_reshape(x, 2 * rank, to_x), func_reshape(y, 2 * rank, to_y));
    return func_end(f, func_reshape(p, rank, whole));
}
