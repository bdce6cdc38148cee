/* matrix.c - algorithms on matrices by rows: triangles, LU, Cholesky.
 *
 * All of them go by halves: one half is factored, a product brings the other up to date, and that
 * is factored. So whatever can be is a product, as large as it can be, without a block's size that
 * would have to be chosen; LEAF columns go one by one. */
#include "routine/matrix.h"

#include <math.h>

enum { LEAF = 8, SQUARE = 48 };

/* In whole leaves. */
static int64_t half_of(int64_t n) {
    return (n / 2 + LEAF - 1) / LEAF * LEAF;
}

int64_t matrix_rows(const routine_array *a) {
    return a->dim[a->rank - 2];
}

int64_t matrix_columns(const routine_array *a) {
    return a->dim[a->rank - 1];
}

int64_t matrix_count(const routine_array *a) {
    int64_t n = 1;
    for (int i = 0; i + 2 < a->rank; i++) n *= a->dim[i];
    return n;
}

static double element(const routine_array *a, int64_t i) {
    return a->dtype == QN_F64 ? ((const double *)a->data)[i] : (double)((const float *)a->data)[i];
}

void matrix_load(const routine_array *a, int64_t which, double *to) {
    int64_t n = matrix_rows(a) * matrix_columns(a);
    for (int64_t i = 0; i < n; i++) to[i] = element(a, which * n + i);
}

void matrix_load_turned(const routine_array *a, int64_t which, double *to) {
    int64_t m = matrix_rows(a), n = matrix_columns(a);
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < n; k++) to[k * m + i] = element(a, (which * m + i) * n + k);
}

void vector_store(const routine_array *a, int64_t which, int64_t n, const double *from) {
    for (int64_t i = 0; i < n; i++)
        if (a->dtype == QN_F64)
            ((double *)a->data)[which * n + i] = from[i];
        else
            ((float *)a->data)[which * n + i] = (float)from[i];
}

void matrix_store(const routine_array *a, int64_t which, const double *from) {
    vector_store(a, which, matrix_rows(a) * matrix_columns(a), from);
}

void matrix_order(const double *v, int64_t n, bool descending, int64_t *place) {
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i;
        for (; k > 0 && (descending ? v[place[k - 1]] < v[i] : v[place[k - 1]] > v[i]); k--)
            place[k] = place[k - 1];
        place[k] = i;
    }
}

/* ---- triangles ------------------------------------------------------------------------------- */

/* Row `row` of b, once those in [from, to) are solved. */
static void solve_row(block a, block b, triangle t, int64_t row, int64_t from, int64_t to) {
    double *out = b.at + row * b.step;
    matrix_subtract(block_at(b, row, 0), block_at(a, row, from), block_at(b, from, 0),
                    (extents){1, t.m, to - from});
    for (int64_t j = 0; j < t.m && !t.unit; j++) out[j] /= a.at[row * a.step + row];
}

void triangle_solve(block a, block b, triangle t) {
    if (t.n <= LEAF) {
        for (int64_t i = 0; i < t.n; i++)
            if (t.upper)
                solve_row(a, b, t, t.n - 1 - i, t.n - i, t.n);
            else
                solve_row(a, b, t, i, 0, i);
        return;
    }
    int64_t half = half_of(t.n), first = t.upper ? half : 0, other = t.upper ? 0 : half;
    int64_t size = t.upper ? t.n - half : half;
    triangle begin = {t.upper, t.unit, size, t.m}, end = {t.upper, t.unit, t.n - size, t.m};
    triangle_solve(block_at(a, first, first), block_at(b, first, 0), begin);
    matrix_subtract(block_at(b, other, 0), block_at(a, other, first), block_at(b, first, 0),
                    (extents){end.n, t.m, size});
    triangle_solve(block_at(a, other, other), block_at(b, other, 0), end);
}

/* ---- LU -------------------------------------------------------------------------------------- */

static void exchange_rows(double *x, double *y, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        double v = x[j];
        x[j] = y[j];
        y[j] = v;
    }
}

/* The row with the largest element of column k, from row k on; NaN is the largest. */
static int64_t pivot_of(block a, int64_t n, int64_t k) {
    int64_t best = k;
    for (int64_t i = k; i < n; i++) {
        double v = fabs(a.at[i * a.step + k]);
        if (isnan(v)) return i;
        if (v > fabs(a.at[best * a.step + k])) best = i;
    }
    return best;
}

/* Columns [from, to) of the whole height; rows are exchanged in all columns. */
static double factor_few(block a, int64_t n, int64_t from, int64_t to, int64_t *order) {
    double sign = 1;
    for (int64_t k = from; k < to; k++) {
        int64_t p = pivot_of(a, n, k);
        if (p != k) {
            exchange_rows(a.at + k * a.step, a.at + p * a.step, n);
            int64_t was = order[k];
            order[k] = order[p];
            order[p] = was;
            sign = -sign;
        }
        double pivot = a.at[k * a.step + k];
        if (pivot == 0) continue;
        for (int64_t i = k + 1; i < n; i++) {
            double *row = a.at + i * a.step, v = row[k] /= pivot;
            for (int64_t j = k + 1; j < to; j++) row[j] -= v * a.at[k * a.step + j];
        }
    }
    return sign;
}

/* The same by halves (Toledo 1997): all but few columns' work is one product's. */
static double factor_columns(block a, int64_t n, int64_t from, int64_t to, int64_t *order) {
    if (to - from <= LEAF) return factor_few(a, n, from, to, order);
    int64_t middle = from + half_of(to - from);
    double sign = factor_columns(a, n, from, middle, order);
    triangle_solve(block_at(a, from, from), block_at(a, from, middle),
                   (triangle){.unit = true, .n = middle - from, .m = to - middle});
    matrix_subtract(block_at(a, middle, middle), block_at(a, middle, from),
                    block_at(a, from, middle), (extents){n - middle, to - middle, middle - from});
    return sign * factor_columns(a, n, middle, to, order);
}

double lu_factor(block a, int64_t n, int64_t *order) {
    for (int64_t i = 0; i < n; i++) order[i] = i;
    return n ? factor_columns(a, n, 0, n, order) : 1;
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* x of x L' = b, in place of b, whose n columns and m rows t has. */
static void solve_from_right(block l, block b, int64_t n, int64_t m) {
    if (n <= LEAF) {
        for (int64_t i = 0; i < m; i++)
            for (int64_t k = 0; k < n; k++) {
                double *row = b.at + i * b.step, sum = row[k];
                for (int64_t j = 0; j < k; j++) sum -= row[j] * l.at[k * l.step + j];
                row[k] = sum / l.at[k * l.step + k];
            }
        return;
    }
    int64_t half = half_of(n);
    solve_from_right(l, b, half, m);
    matrix_subtract_views(block_at(b, 0, half), view_of(b), view_turned(block_at(l, half, 0)),
                          (extents){m, n - half, half});
    solve_from_right(block_at(l, half, half), block_at(b, 0, half), n - half, m);
}

static void cholesky_few(block a, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double *row = a.at + i * a.step;
        for (int64_t k = 0; k <= i; k++) {
            double sum = row[k];
            for (int64_t j = 0; j < k; j++) sum -= row[j] * a.at[k * a.step + j];
            row[k] = k < i ? sum / a.at[k * a.step + k] : sqrt(sum);
        }
    }
}

/* The lower triangle of c -= a a', a [n, k], by squares on the diagonal and what is below them. */
static void subtract_square(block c, block a, int64_t n, int64_t k) {
    if (n <= SQUARE) {
        matrix_subtract_views(c, view_of(a), view_turned(a), (extents){n, n, k});
        return;
    }
    int64_t half = half_of(n);
    block below = block_at(a, half, 0);
    subtract_square(c, a, half, k);
    matrix_subtract_views(block_at(c, half, 0), view_of(below), view_turned(a),
                          (extents){n - half, half, k});
    subtract_square(block_at(c, half, half), below, n - half, k);
}

void cholesky_factor(block a, int64_t n) {
    if (n <= LEAF) {
        cholesky_few(a, n);
        return;
    }
    int64_t half = half_of(n);
    block below = block_at(a, half, 0);
    cholesky_factor(a, half);
    solve_from_right(a, below, half, n - half);
    subtract_square(block_at(a, half, half), below, n - half, half);
    cholesky_factor(block_at(a, half, half), n - half);
}
