/* matrix.c - blocked algorithms on matrices by rows: products, triangles, LU.
 *
 * Whatever can be is a product: a factor's panel of BLOCK columns is computed by rows, and the rest
 * is updated by matrix_subtract, which keeps a tile of ROWS by COLUMNS sums in the registers that
 * every processor has; its columns are packed side by side, for rows a power of two apart would
 * share few lines of a cache. */
#include "routine/matrix.h"

#include <math.h>

enum { BLOCK = 32, ROWS = 4, LANES = 2, COLUMNS = 2 * LANES, DEPTH = 128 };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(8)));

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

double matrix_dot(const double *a, const double *b, int64_t n) {
    lanes sum[2] = {{0}};
    double rest = 0;
    int64_t i = 0;
    for (; i + COLUMNS <= n; i += COLUMNS)
        for (int k = 0; k < 2; k++)
            sum[k] += *(const lanes *)(a + i + k * LANES) * *(const lanes *)(b + i + k * LANES);
    for (; i < n; i++) rest += a[i] * b[i];
    sum[0] += sum[1];
    for (int k = 0; k < LANES; k++) rest += sum[0][k];
    return rest;
}

/* A whole tile of c. */
static void subtract_tile(block c, block a, block b, int64_t depth) {
    lanes sum[ROWS][2] = {{{0}}};
    for (int64_t k = 0; k < depth; k++) {
        const lanes *row = (const lanes *)(b.at + k * b.step);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < 2; j++) sum[i][j] += a.at[i * a.step + k] * row[j];
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < 2; j++) ((lanes *)(c.at + i * c.step))[j] -= sum[i][j];
}

static void subtract_rest(block c, block a, block b, extents e) {
    for (int64_t i = 0; i < e.m; i++)
        for (int64_t k = 0; k < e.k; k++) {
            double v = a.at[i * a.step + k];
            for (int64_t j = 0; j < e.n; j++) c.at[i * c.step + j] -= v * b.at[k * b.step + j];
        }
}

void matrix_subtract(block c, block a, block b, extents e) {
    int64_t m = e.m - e.m % ROWS, n = e.n - e.n % COLUMNS;
    double panel[DEPTH * COLUMNS];
    for (int64_t k = 0; k < e.k; k += DEPTH)
        for (int64_t j = 0; j < n; j += COLUMNS) {
            int64_t depth = e.k - k < DEPTH ? e.k - k : DEPTH;
            for (int64_t i = 0; i < depth; i++)
                memcpy(panel + i * COLUMNS, b.at + (k + i) * b.step + j, sizeof(double) * COLUMNS);
            for (int64_t i = 0; i < m; i += ROWS)
                subtract_tile(block_at(c, i, j), block_at(a, i, k), (block){panel, COLUMNS}, depth);
        }
    subtract_rest(block_at(c, 0, n), a, block_at(b, 0, n), (extents){m, e.n - n, e.k});
    subtract_rest(block_at(c, m, 0), block_at(a, m, 0), b, (extents){e.m - m, e.n, e.k});
}

/* ---- triangles ------------------------------------------------------------------------------- */

/* Row `row` of b, once those in [from, to) are solved. */
static void solve_row(block a, block b, triangle t, int64_t row, int64_t from, int64_t to) {
    double *out = b.at + row * b.step;
    subtract_rest(block_at(b, row, 0), block_at(a, row, from), block_at(b, from, 0),
                  (extents){1, t.m, to - from});
    for (int64_t j = 0; j < t.m && !t.unit; j++) out[j] /= a.at[row * a.step + row];
}

void triangle_solve(block a, block b, triangle t) {
    for (int64_t done = 0; done < t.n; done += BLOCK) {
        int64_t size = t.n - done < BLOCK ? t.n - done : BLOCK;
        int64_t first = t.upper ? t.n - done - size : done, other = t.upper ? first + size : 0;
        matrix_subtract(block_at(b, first, 0), block_at(a, first, other), block_at(b, other, 0),
                        (extents){size, t.m, done});
        for (int64_t i = 0; i < size; i++)
            if (t.upper)
                solve_row(a, b, t, first + size - 1 - i, first + size - i, first + size);
            else
                solve_row(a, b, t, first + i, first, first + i);
    }
}

/* ---- LU -------------------------------------------------------------------------------------- */

static void exchange_rows(block a, int64_t n, int64_t i, int64_t k) {
    for (int64_t j = 0; j < n; j++) {
        double v = a.at[i * a.step + j];
        a.at[i * a.step + j] = a.at[k * a.step + j];
        a.at[k * a.step + j] = v;
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
static double factor_panel(block a, int64_t n, int64_t from, int64_t to, int64_t *order) {
    double sign = 1;
    for (int64_t k = from; k < to; k++) {
        int64_t p = pivot_of(a, n, k);
        if (p != k) {
            exchange_rows(a, n, k, p);
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

double lu_factor(block a, int64_t n, int64_t *order) {
    double sign = 1;
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t to = from + BLOCK < n ? from + BLOCK : n, left = n - to;
        sign *= factor_panel(a, n, from, to, order);
        triangle_solve(block_at(a, from, from), block_at(a, from, to),
                       (triangle){.unit = true, .n = to - from, .m = left});
        matrix_subtract(block_at(a, to, to), block_at(a, to, from), block_at(a, from, to),
                        (extents){left, left, to - from});
    }
    return sign;
}
