/* linalg.c - systems of complex equations by real ones of twice the size.
 *
 * A + iB stands for the real matrix [A -B; B A]: sums, products and inverses of the one are those
 * of the other, and least squares, too. It is twice the work of complex arithmetic. With the parts
 * of each number beside each other, blocks [a -b; b a], triangles are triangles, too: what is
 * unique of the real matrix, as a Cholesky factor with a positive diagonal, is what was looked
 * for. */
#include "complex/complex.h"

static func_frame begin(const char *name, const qn_tensor *x, const qn_tensor *y) {
    return func_begin(complex_context(x, y), name);
}

static qn_tensor *beside(qn_tensor *x, qn_tensor *y, int axis) {
    qn_tensor *both[2] = {x, y};
    return x && y ? qn_concat(2, both, axis) : NULL;
}

/* [A -B; B A], or NULL where it is no matrix, and that is reported. */
static qn_tensor *matrix(parts z) {
    if (!z.re) return NULL;
    if (func_rank(z.re) < 2) {
        qn_ctx *qn = tensor_ctx(z.re);
        return fail_null(qn, QN_ESHAPE, "%s: x is no matrix", graph_name(qn, "matrix"));
    }
    if (!z.im) z.im = qn_zeros_like(z.re);
    return beside(beside(z.re, qn_neg(z.im), -1), beside(z.im, z.re, -1), -2);
}

/* Of [A; B], which are its first columns. */
static parts taken(qn_tensor *m, int64_t rows, int64_t columns) {
    if (!m) return (parts){NULL, NULL};
    m = qn_slice(m, -1, 0, columns, 1);
    return (parts){qn_slice(m, -2, 0, rows, 1), qn_slice(m, -2, rows, 2 * rows, 1)};
}

/* Sizes of the last two axes; false: they vary. */
static bool sizes(parts z, int64_t *rows, int64_t *columns) {
    qn_tensor *re = z.re;
    if (!re || func_rank(re) < 2) return re != NULL;
    *rows = qn_dim(re, -2), *columns = qn_dim(re, -1);
    if (*rows >= 0 && *columns >= 0) return true;
    fail(tensor_ctx(re), QN_ESHAPE, "%s: sizes that vary", graph_name(tensor_ctx(re), "matrix"));
    return false;
}

typedef qn_tensor *of_matrix(qn_tensor *m, double number);

static qn_tensor *inverse(qn_tensor *m, double number) {
    return (void)number, qn_inv(m);
}

static qn_tensor *exponential(qn_tensor *m, double number) {
    return (void)number, qn_matrix_exp(m);
}

/* A function of matrices that respects sums and products; its result is as x, or `turned`. */
static qn_tensor *of_one(const char *name, of_matrix *of, qn_tensor *x, double number,
                         bool turned) {
    func_frame f = begin(name, x, NULL);
    int64_t rows = 0, columns = 0;
    parts z = complex_parts(x);
    if (!sizes(z, &rows, &columns)) return func_end(f, NULL);
    qn_tensor *m = matrix(z);
    m = m ? of(m, number) : NULL;
    return complex_end(f, turned ? taken(m, columns, rows) : taken(m, rows, columns));
}

qn_tensor *complex_inv(qn_tensor *x) {
    return of_one("inv", inverse, x, 0, true);
}

/* The tolerance that is taken where none is given goes by the sizes of the complex matrix. */
static qn_tensor *pseudo_inverse(qn_tensor *m, double rtol) {
    int64_t rows = qn_dim(m, -2) / 2, columns = qn_dim(m, -1) / 2;
    double least = (double)(rows > columns ? rows : columns) * dtype_epsilon(qn_dtype_of(m));
    return qn_pinv(m, rtol < 0 ? least : rtol);
}

qn_tensor *complex_pinv(qn_tensor *x, double rtol) {
    return of_one("pinv", pseudo_inverse, x, rtol, true);
}

qn_tensor *complex_matrix_exp(qn_tensor *x) {
    return of_one("matrix_exp", exponential, x, 0, false);
}

/* The singular values come in pairs. */
qn_tensor *complex_matrix_rank(qn_tensor *x, double rtol) {
    func_frame f = begin("matrix_rank", x, NULL);
    int64_t rows = 0, columns = 0;
    parts z = complex_parts(x);
    if (!sizes(z, &rows, &columns)) return func_end(f, NULL);
    qn_tensor *m = matrix(z);
    double least = (double)(rows > columns ? rows : columns) * dtype_epsilon(qn_dtype_of(m));
    if (rtol < 0) rtol = least;
    qn_tensor *rank = m ? qn_matrix_rank(m, rtol) : NULL;
    return func_end(f, rank ? qn_shr(rank, func_integer(rank, 1)) : NULL);
}

/* With 0 on the diagonal. */
static qn_tensor *off_diagonal(qn_tensor *x) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(x, dims);
    if (!x) return NULL;
    qn_tensor *i = func_iota(tensor_ctx(x), QN_I64, rank, dims, rank - 2);
    qn_tensor *k = func_iota(tensor_ctx(x), QN_I64, rank, dims, rank - 1);
    return qn_where(qn_eq(i, k), qn_like(x, 0), x);
}

/* Of a Hermitian matrix, whose diagonal is real, blocks of two, [2 n, 2 n]. */
static qn_tensor *blocks(parts z, int64_t n) {
    int64_t dims[QN_MAX_RANK];
    int rank = func_dims(z.re, dims);
    z.im = off_diagonal(z.im);
    qn_tensor *rows[2] = {qn_stack(2, (qn_tensor *[]){z.re, qn_neg(z.im)}, -1),
                          qn_stack(2, (qn_tensor *[]){z.im, z.re}, -1)};
    dims[rank - 2] = dims[rank - 1] = 2 * n;
    return func_reshape(qn_stack(2, rows, -3), rank, dims);
}

qn_tensor *complex_cholesky(qn_tensor *x, bool upper) {
    func_frame f = begin("cholesky", x, NULL);
    int64_t n = 0, columns = 0;
    parts z = complex_parts(x);
    if (!sizes(z, &n, &columns)) return func_end(f, NULL);
    if (z.re && (func_rank(z.re) < 2 || n != columns)) return func_end(f, qn_cholesky(z.re, upper));
    qn_tensor *l = z.re && z.im ? qn_cholesky(blocks(z, n), false) : NULL;
    if (!l) return func_end(f, NULL);
    l = qn_slice(l, -1, 0, QN_END, 2);
    z = (parts){qn_slice(l, -2, 0, QN_END, 2), off_diagonal(qn_slice(l, -2, 1, QN_END, 2))};
    if (upper) z = (parts){qn_transpose(z.re, -1, -2), qn_neg(qn_transpose(z.im, -1, -2))};
    return complex_end(f, z);
}

static qn_tensor *power(qn_tensor *m, double number) {
    return qn_matrix_power(m, (int64_t)number);
}

qn_tensor *complex_matrix_power(qn_tensor *x, int64_t n) {
    if (n < -(1 << 30) || n > 1 << 30)
        return fail_null(complex_context(x, NULL), QN_ERANGE, "matrix_power: %lld", (long long)n);
    return of_one("matrix_power", power, x, (double)n, false);
}

/* Of a vector b its one column. */
static qn_tensor *solved(const char *name, qn_tensor *(*of)(qn_tensor *, qn_tensor *), qn_tensor *a,
                         qn_tensor *b) {
    func_frame f = begin(name, a, b);
    int64_t rows = 0, columns = 0;
    parts given[2];
    if (!complex_given(f.qn, 2, (qn_tensor *[]){a, b}, "a\0b", given) ||
        !sizes(given[0], &rows, &columns))
        return func_end(f, NULL);
    parts y = given[1];
    qn_tensor *m = matrix(given[0]);
    if (!m) return func_end(f, NULL);
    if (!y.im) y.im = qn_zeros_like(y.re);
    bool vector = func_rank(y.re) == 1;
    if (vector) y = (parts){qn_unsqueeze(y.re, -1), qn_unsqueeze(y.im, -1)};
    qn_tensor *x = of(m, beside(y.re, y.im, -2));
    parts z = x ? taken(x, columns, qn_dim(x, -1)) : (parts){NULL, NULL};
    if (vector && z.re) z = (parts){qn_squeeze(z.re, -1), qn_squeeze(z.im, -1)};
    return complex_end(f, z);
}

qn_tensor *complex_solve(qn_tensor *a, qn_tensor *b) {
    return solved("solve", qn_solve, a, b);
}

/* Without the other triangle, and without the diagonal of `unit`. */
static qn_tensor *triangle(qn_tensor *x, bool upper, bool transposed, bool unit) {
    if (!x || func_rank(x) < 2) return x;
    x = upper ? qn_triu(x, unit) : qn_tril(x, -(int64_t)unit);
    return transposed ? qn_transpose(x, -1, -2) : x;
}

qn_tensor *complex_solve_triangular(qn_tensor *a, qn_tensor *b, bool upper, bool transposed,
                                    bool unit) {
    func_frame f = begin("solve_triangular", a, b);
    parts given[2];
    if (!complex_given(f.qn, 2, (qn_tensor *[]){a, b}, "a\0b", given)) return func_end(f, NULL);
    parts z = given[0];
    z.re = triangle(z.re, upper, transposed, unit);
    z.im = triangle(z.im, upper, transposed, unit);
    if (unit && z.re && func_rank(z.re) > 1)
        z.re = qn_add(z.re, qn_eye(f.qn, qn_dtype_of(z.re), qn_dim(z.re, -2), qn_dim(z.re, -1)));
    a = z.re ? complex_whole(z.re, z.im) : NULL;
    return func_end(f, a ? complex_solve(a, b) : NULL);
}

qn_tensor *complex_lstsq(qn_tensor *a, qn_tensor *b) {
    return solved("lstsq", qn_lstsq, a, b);
}
