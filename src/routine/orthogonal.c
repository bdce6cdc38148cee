/* orthogonal.c - singular values: of small matrices by rotations, Jacobi's method, which gives
 * small ones most digits; of large ones by two diagonals, a tenth of the time. */
#include "routine/matrix.h"

#include <math.h>

enum { SWEEPS = 60, LARGE = 48 /* from this many rows and columns on */ };

/* Of the angle that makes a symmetric [[a, c], [c, b]] diagonal: the smaller one. */
static double tangent(double a, double b, double c) {
    double t = (b - a) / (2 * c);
    return (t >= 0 ? 1 : -1) / (fabs(t) + hypot(1, t));
}

/* ---- singular values ------------------------------------------------------------------------- */

routine_need need_svd(const routine_call *c) {
    const routine_array *x = &c->source[0];
    double m = (double)matrix_rows(x), n = (double)matrix_columns(x), k = m < n ? m : n;
    double more = m < n ? n : m;
    size_t numbers = (size_t)(2 * more * k + 2 * k * k + 3 * k + 2);
    if (k >= LARGE)
        numbers =
            (size_t)(2 * more * k + k * k + 2 * k) + bidiagonal_numbers((int64_t)more, (int64_t)k);
    return (routine_need){matrix_count(x),
                          (k < LARGE ? 60 : 10) * more * k * k * (double)matrix_count(x),
                          numbers * sizeof(double)};
}

/* The two paths' matrix, by rows, of finite numbers; its largest magnitude is made 1/2 to 1 by a
 * power of 2, for squares of others overflow or vanish. false: there is NaN or infinity in it. */
static bool load_scaled(const routine_array *x, int64_t which, bool turn, double *to, int *power) {
    int64_t n = matrix_rows(x) * matrix_columns(x);
    double most = 0;
    if (turn)
        matrix_load_turned(x, which, to);
    else
        matrix_load(x, which, to);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(to[i])) return false;
        most = fmax(most, fabs(to[i]));
    }
    frexp(most, power);
    for (int64_t i = 0; *power && i < n; i++) to[i] = ldexp(to[i], -*power);
    return true;
}

static void store_nan(const routine_call *c, double *scratch, int64_t which) {
    int64_t m = matrix_rows(&c->source[0]), n = matrix_columns(&c->source[0]), k = m < n ? m : n;
    for (int64_t i = 0; i < k * (m < n ? n : m); i++) scratch[i] = NAN;
    for (int result = 0; result <= 2; result += 2)
        if (routine_wants(c, result)) matrix_store(&c->result[result], which, scratch);
    if (routine_wants(c, 1)) vector_store(&c->result[1], which, k, scratch);
}

/* Of rows whose squares are above it nothing is lost to what lies below the normal numbers; rows
 * without an element above FAINT of the largest one count as zeros. */
static const double SHORT = 0x1p-900, FAINT = 0x1p-960;

/* The length of a scaled row, also where squares vanish, and the power of 2 of its largest. */
static double faint_length(const double *x, int64_t n, int *power) {
    double most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    if (!(most > FAINT)) return 0;
    frexp(most, power);
    for (int64_t i = 0; i < n; i++) sum += ldexp(x[i], -*power) * ldexp(x[i], -*power);
    return ldexp(sqrt(sum), *power);
}

static double jacobi_length(const double *x, int64_t n) {
    double square = matrix_dot(x, x, n);
    int power;
    return square > SHORT ? sqrt(square) : faint_length(x, n, &power);
}

/* Of the angle that makes two rows orthogonal. false: they are. */
static bool tangent_of_rows(const double *x, const double *y, int64_t n, double *t) {
    double xx = matrix_dot(x, x, n), yy = matrix_dot(y, y, n), xy = matrix_dot(x, y, n), sum = 0;
    if (xx > SHORT && yy > SHORT) {
        *t = tangent(xx, yy, xy);
        return fabs(xy) > 0x1p-52 * sqrt(xx) * sqrt(yy);
    }
    int p = 0, q = 0;
    double lx = faint_length(x, n, &p), ly = faint_length(y, n, &q);
    if (lx == 0 || ly == 0) return false;
    for (int64_t i = 0; i < n; i++) sum += ldexp(x[i], -p) * ldexp(y[i], -q);
    double cosine = sum / ldexp(lx, -p) / ldexp(ly, -q);
    *t = tangent(lx / ly, ly / lx, cosine);
    return fabs(cosine) > 0x1p-52;
}

/* One-sided Jacobi: the k rows of a, of length n, are turned until each two are orthogonal; v the
 * same way from the identity. */
static bool sweep_rows(double *a, double *v, int64_t k, int64_t n) {
    bool changed = false;
    for (int64_t p = 0; p < k; p++)
        for (int64_t q = p + 1; q < k; q++) {
            double *x = a + p * n, *y = a + q * n;
            double t;
            if (!tangent_of_rows(x, y, n, &t)) continue;
            double cosine = 1 / hypot(1, t), sine = t * cosine;
            changed = true;
            matrix_rotate(x, y, n, cosine, sine);
            matrix_rotate(v + p * k, v + q * k, k, cosine, sine);
        }
    return changed;
}

/* Rows of no length get directions orthogonal to all others: unit vectors, made orthogonal. */
static void complete_rows(double *a, int64_t k, int64_t n, const double *length) {
    for (int64_t i = 0, unit = 0; i < k; i++) {
        double *row = a + i * n;
        if (length[i] > 0) continue;
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
    int power;
    if (!load_scaled(x, which, m > n, a, &power)) {
        store_nan(c, scratch, which);
        return;
    }
    for (int64_t i = 0; i < k * k; i++) v[i] = i / k == i % k;
    for (int i = 0; i < SWEEPS && sweep_rows(a, v, k, more);) i++;
    for (int64_t i = 0; i < k; i++) length[i] = jacobi_length(a + i * more, more);
    matrix_order(length, k, true, place);
    for (int64_t i = 0; i < k; i++) {
        double l = s[i] = length[place[i]];
        for (int64_t j = 0; j < more; j++)
            sorted[i * more + j] = l == 0 ? 0 : a[place[i] * more + j] / l;
        for (int64_t j = 0; j < k; j++) turned[i * k + j] = v[place[i] * k + j];
    }
    complete_rows(sorted, k, more, s);
    for (int64_t i = 0; i < k; i++) s[i] = ldexp(s[i], power);
    if (routine_wants(c, 1)) vector_store(&c->result[1], which, k, s);
    /* rows of `turned` are columns of U and those of `sorted` rows of Vh, or the other way round */
    const double *left = m <= n ? turned : sorted, *right = m <= n ? sorted : turned;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) a[i * k + j] = left[j * m + i];
    if (routine_wants(c, 0)) matrix_store(&c->result[0], which, a);
    if (routine_wants(c, 2)) matrix_store(&c->result[2], which, right);
}

/* By two diagonals. */
static void svd_large(const routine_call *c, double *scratch, int64_t which) {
    const routine_array *x = &c->source[0];
    int64_t m = matrix_rows(x), n = matrix_columns(x), k = m < n ? m : n, more = m < n ? n : m;
    double *one = scratch, *values = one + more * k, *right = values + k, *left = right + k * k;
    singular s = {more, k,     routine_wants(c, 0) || routine_wants(c, 2), left + more * k, values,
                  left, right, (int64_t *)(void *)(left + more * k)};
    s.space += k;
    int power;
    if (!load_scaled(x, which, m < n, s.space, &power)) {
        store_nan(c, scratch, which);
        return;
    }
    bidiagonal_svd(&s);
    for (int64_t i = 0; i < k; i++) one[i] = ldexp(values[s.place[i]], power);
    if (routine_wants(c, 1)) vector_store(&c->result[1], which, k, one);
    for (int result = 0; result <= 2; result += 2) {
        bool first = (result == 0) == (m >= n); /* of the longer side */
        int64_t length = first ? more : k;
        const double *from = first ? left : right;
        if (!routine_wants(c, result)) continue;
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < length; j++)
                one[result ? i * length + j : j * k + i] = from[s.place[i] * length + j];
        matrix_store(&c->result[result], which, one);
    }
}

void run_svd(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0];
    bool large = matrix_rows(x) >= LARGE && matrix_columns(x) >= LARGE;
    for (int64_t which = from; which < to; which++)
        if (large)
            svd_large(c, scratch, which);
        else
            svd_one(c, scratch, which);
}
