/* orthogonal.c - routines that turn matrices: QR, symmetric eigenvalues, singular values. */
#include "routine/matrix.h"

#include <math.h>

enum { SWEEPS = 60 };

/* ---- QR -------------------------------------------------------------------------------------- */

/* By reflections; [m, n] and Q [m, k], k the smaller of both. */
routine_need need_qr(const routine_call *c) {
    const routine_array *x = &c->source[0];
    double m = (double)matrix_rows(x), n = (double)matrix_columns(x), k = m < n ? m : n;
    return (routine_need){matrix_count(x), 4 * m * n * k * (double)matrix_count(x),
                          (size_t)(m * n + m * k + n + k + 2) * sizeof(double)};
}

/* a -= v (scale v^T a): columns [from, n) of rows [row, m); v is column `row` of h, v[row] = 1. */
typedef struct reflection {
    const double *v;
    int64_t step, row, m; /* v[i * step] for row i > `row` */
    double scale;
} reflection;

static void reflect(const reflection *r, double *a, int64_t columns, int64_t from, double *sums) {
    double *top = a + r->row * columns;
    for (int64_t k = from; k < columns; k++) sums[k] = top[k];
    for (int64_t i = r->row + 1; i < r->m; i++) {
        double v = r->v[i * r->step];
        for (int64_t k = from; k < columns; k++) sums[k] += v * a[i * columns + k];
    }
    for (int64_t k = from; k < columns; k++) top[k] -= r->scale * sums[k];
    for (int64_t i = r->row + 1; i < r->m; i++) {
        double v = r->scale * r->v[i * r->step];
        for (int64_t k = from; k < columns; k++) a[i * columns + k] -= v * sums[k];
    }
}

/* The reflection that clears column `row` below the diagonal, where its vector is then. */
static double make_reflection(double *a, int64_t m, int64_t n, int64_t row) {
    double *top = a + row * n + row, most = 0, sum = 0;
    for (int64_t i = row + 1; i < m; i++) most = fmax(most, fabs(a[i * n + row]));
    if (most == 0) return 0;
    most = fmax(most, fabs(*top));
    for (int64_t i = row; i < m; i++) sum += a[i * n + row] / most * (a[i * n + row] / most);
    double length = most * sqrt(sum), end = *top > 0 ? -length : length, first = *top - end;
    for (int64_t i = row + 1; i < m; i++) a[i * n + row] /= first;
    double scale = -first / end;
    *top = end;
    return scale;
}

static void qr_factor(double *a, int64_t m, int64_t n, double *q, double *scratch) {
    int64_t k = m < n ? m : n;
    double *scale = scratch, *sums = scratch + k;
    for (int64_t i = 0; i < k; i++) {
        scale[i] = make_reflection(a, m, n, i);
        const reflection r = {a + i, n, i, m, scale[i]};
        reflect(&r, a, n, i + 1, sums);
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) q[i * k + j] = i == j;
    for (int64_t i = k; i-- > 0;) {
        const reflection r = {a + i, n, i, m, scale[i]};
        reflect(&r, q, k, i, sums);
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < i && j < n; j++) a[i * n + j] = 0;
}

void run_qr(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0];
    int64_t m = matrix_rows(x), n = matrix_columns(x), k = m < n ? m : n;
    double *a = scratch, *q = a + m * n;
    for (int64_t which = from; which < to; which++) {
        matrix_load(x, which, a);
        qr_factor(a, m, n, q, q + m * k);
        if (routine_wants(c, 0)) matrix_store(&c->result[0], which, q);
        if (routine_wants(c, 1)) matrix_store(&c->result[1], which, a);
    }
}

/* ---- rotations ------------------------------------------------------------------------------- */

/* x, y = cos x - sin y, sin x + cos y */
static void rotate(double *x, double *y, int64_t n, double cosine, double sine) {
    for (int64_t i = 0; i < n; i++) {
        double u = x[i], v = y[i];
        x[i] = cosine * u - sine * v;
        y[i] = sine * u + cosine * v;
    }
}

/* Of the angle that makes a symmetric [[a, c], [c, b]] diagonal: the smaller one. */
static double tangent(double a, double b, double c) {
    double t = (b - a) / (2 * c);
    return (t >= 0 ? 1 : -1) / (fabs(t) + hypot(1, t));
}

/* Places of n numbers in order, by insertion. */
static void order_of(const double *v, int64_t n, bool descending, int64_t *place) {
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i;
        for (; k > 0 && (descending ? v[place[k - 1]] < v[i] : v[place[k - 1]] > v[i]); k--)
            place[k] = place[k - 1];
        place[k] = i;
    }
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

routine_need need_eigh(const routine_call *c) {
    const routine_array *x = &c->source[0];
    double n = (double)matrix_columns(x);
    return (routine_need){matrix_count(x), 40 * n * n * n * (double)matrix_count(x),
                          (size_t)(3 * n * n + 2 * n) * sizeof(double)};
}

/* Jacobi's method by rows: each rotation clears one element of both triangles. Rows of v become
 * eigenvectors. */
static bool sweep_symmetric(double *a, double *v, int64_t n) {
    bool changed = false;
    for (int64_t p = 0; p < n; p++)
        for (int64_t q = p + 1; q < n; q++) {
            double c = a[p * n + q], x = a[p * n + p], y = a[q * n + q];
            if (!(fabs(c) > 0x1p-53 * sqrt(fabs(x)) * sqrt(fabs(y))) || !isfinite(c)) continue;
            if (fabs(c) < 0x1p-1000) continue;
            double t = tangent(x, y, c), cosine = 1 / hypot(1, t), sine = t * cosine;
            changed = true;
            rotate(a + p * n, a + q * n, n, cosine, sine);
            for (int64_t i = 0; i < n; i++) rotate(&a[i * n + p], &a[i * n + q], 1, cosine, sine);
            a[p * n + p] = x - t * c;
            a[q * n + q] = y + t * c;
            a[p * n + q] = a[q * n + p] = 0;
            rotate(v + p * n, v + q * n, n, cosine, sine);
        }
    return changed;
}

void run_eigh(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    int64_t n = matrix_columns(&c->source[0]);
    double *a = scratch, *v = a + n * n, *turned = v + n * n, *w = turned + n * n;
    int64_t *place = (int64_t *)(w + n);
    for (int64_t which = from; which < to; which++) {
        matrix_load(&c->source[0], which, a);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < n; k++) {
                if (k > i) a[i * n + k] = a[k * n + i];
                v[i * n + k] = i == k;
            }
        for (int i = 0; i < SWEEPS && sweep_symmetric(a, v, n);) i++;
        for (int64_t i = 0; i < n; i++) w[i] = a[i * n + i];
        order_of(w, n, false, place);
        for (int64_t i = 0; i < n; i++) {
            a[i] = w[place[i]];
            for (int64_t k = 0; k < n; k++) turned[k * n + i] = v[place[i] * n + k];
        }
        if (routine_wants(c, 0)) vector_store(&c->result[0], which, n, a);
        if (routine_wants(c, 1)) matrix_store(&c->result[1], which, turned);
    }
}

/* ---- singular values ------------------------------------------------------------------------- */

routine_need need_svd(const routine_call *c) {
    const routine_array *x = &c->source[0];
    double m = (double)matrix_rows(x), n = (double)matrix_columns(x), k = m < n ? m : n;
    double more = m < n ? n : m;
    return (routine_need){matrix_count(x), 60 * more * k * k * (double)matrix_count(x),
                          (size_t)(2 * more * k + 2 * k * k + 3 * k + 2) * sizeof(double)};
}

/* One-sided Jacobi: the k rows of a, of length n, are turned until each two are orthogonal; v the
 * same way from the identity. */
static bool sweep_rows(double *a, double *v, int64_t k, int64_t n) {
    bool changed = false;
    for (int64_t p = 0; p < k; p++)
        for (int64_t q = p + 1; q < k; q++) {
            double *x = a + p * n, *y = a + q * n;
            double xx = matrix_dot(x, x, n), yy = matrix_dot(y, y, n), xy = matrix_dot(x, y, n);
            if (!(fabs(xy) > 0x1p-52 * sqrt(xx) * sqrt(yy)) || !isfinite(xy)) continue;
            double t = tangent(xx, yy, xy), cosine = 1 / hypot(1, t), sine = t * cosine;
            changed = true;
            rotate(x, y, n, cosine, sine);
            rotate(v + p * k, v + q * k, k, cosine, sine);
        }
    return changed;
}

/* Rows of no length get directions orthogonal to all others: unit vectors, made orthogonal. */
static void complete_rows(double *a, int64_t k, int64_t n, const double *length) {
    for (int64_t i = 0, unit = 0; i < k; i++) {
        double *row = a + i * n;
        if (length[i] > 0 || isnan(length[i])) continue;
        for (double left = 0; left < 0.5 / (double)(n + 1) && unit < n; unit++) {
            for (int64_t j = 0; j < n; j++) row[j] = j == unit;
            for (int again = 0; again < 2; again++)
                for (int64_t r = 0; r < k; r++) {
                    if (r >= i && !(length[r] > 0)) continue;
                    double dot = r == i ? 0 : matrix_dot(row, a + r * n, n);
                    for (int64_t j = 0; j < n; j++) row[j] -= dot * a[r * n + j];
                }
            left = sqrt(matrix_dot(row, row, n));
            for (int64_t j = 0; j < n && left > 0; j++) row[j] /= left;
        }
    }
}

/* What is computed: the rows of `x` or, of more rows than columns, of its transpose. */
static void svd_one(const routine_call *c, double *scratch, int64_t which) {
    const routine_array *x = &c->source[0];
    int64_t m = matrix_rows(x), n = matrix_columns(x), k = m < n ? m : n, more = m < n ? n : m;
    double *a = scratch, *sorted = a + k * more, *v = sorted + k * more, *turned = v + k * k;
    double *length = turned + k * k, *s = length + k;
    int64_t *place = (int64_t *)(s + k);
    if (m <= n)
        matrix_load(x, which, a);
    else
        matrix_load_turned(x, which, a);
    for (int64_t i = 0; i < k * k; i++) v[i] = i / k == i % k;
    for (int i = 0; i < SWEEPS && sweep_rows(a, v, k, more);) i++;
    for (int64_t i = 0; i < k; i++) length[i] = sqrt(matrix_dot(a + i * more, a + i * more, more));
    order_of(length, k, true, place);
    for (int64_t i = 0; i < k; i++) {
        double l = s[i] = length[place[i]];
        for (int64_t j = 0; j < more; j++)
            sorted[i * more + j] = l == 0 ? 0 : a[place[i] * more + j] / l;
        for (int64_t j = 0; j < k; j++) turned[i * k + j] = v[place[i] * k + j];
    }
    complete_rows(sorted, k, more, s);
    if (routine_wants(c, 1)) vector_store(&c->result[1], which, k, s);
    /* rows of `turned` are columns of U and those of `sorted` rows of Vh, or the other way round */
    const double *left = m <= n ? turned : sorted, *right = m <= n ? sorted : turned;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) a[i * k + j] = left[j * m + i];
    if (routine_wants(c, 0)) matrix_store(&c->result[0], which, a);
    if (routine_wants(c, 2)) matrix_store(&c->result[2], which, right);
}

void run_svd(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    for (int64_t which = from; which < to; which++) svd_one(c, scratch, which);
}
