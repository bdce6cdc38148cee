/* symmetric.c - eigenvalues of symmetric matrices: by reflections to three diagonals, by shifted
 * rotations to one (Golub and Van Loan, 8.3).
 *
 * Both triangles are kept up to date, so that all work is along rows; eigenvectors are rows while
 * they are turned. The matrix is scaled by a power of two first, so that squares neither overflow
 * nor vanish; one that is not finite has NaN for an answer. */
#include "routine/matrix.h"

#include <float.h>
#include <math.h>

enum { MOST_TURNS = 60 /* for one value; three are usual */ };

typedef struct symmetric {
    int64_t n;
    double *a, *v;      /* [n, n] each: rows of v become eigenvectors */
    double *w, *beside; /* the diagonal; behind element i what is beside it */
    double *scale, *p;  /* of the reflections; a row */
} symmetric;

routine_need need_eigh(const routine_call *c) {
    const routine_array *x = &c->source[0];
    double n = (double)matrix_columns(x);
    return (routine_need){matrix_count(x), 4 * n * n * n * (double)matrix_count(x),
                          (size_t)(3 * n * n + 5 * n) * sizeof(double)};
}

/* Beside a largest element of 1/2 to 1 this is nothing, and its square is still a number. */
static const double NOTHING = 0x1p-400;

/* Makes row i of [n, n] three diagonals' by I - scale v v', v in the row behind the diagonal. */
static void reduce_row(const symmetric *s, int64_t i) {
    int64_t n = s->n, size = n - i - 1;
    double *v = s->a + i * n + i + 1, *p = s->p, length = sqrt(matrix_dot(v, v, size));
    double rest = matrix_dot(v + 1, v + 1, size - 1);
    s->w[i] = s->a[i * n + i];
    s->scale[i] = 0;
    s->beside[i] = length < NOTHING ? 0 : v[0];
    if (rest == 0 || length < NOTHING) return;
    double end = v[0] > 0 ? -length : length;
    s->beside[i] = end;
    v[0] -= end;
    s->scale[i] = 2 / (v[0] * v[0] + rest);
    for (int64_t k = 0; k < size; k++)
        p[k] = s->scale[i] * matrix_dot(s->a + (i + 1 + k) * n + i + 1, v, size);
    matrix_add_scaled(p, v, -0.5 * s->scale[i] * matrix_dot(p, v, size), size);
    for (int64_t k = 0; k < size; k++) {
        double *row = s->a + (i + 1 + k) * n + i + 1;
        matrix_add_scaled(row, p, -v[k], size);
        matrix_add_scaled(row, v, -p[k], size);
    }
}

/* The reflections' product, transposed, the last one first. */
static void form_vectors(const symmetric *s) {
    int64_t n = s->n;
    for (int64_t i = 0; i < n * n; i++) s->v[i] = i / n == i % n;
    for (int64_t i = n - 2; i >= 0; i--) {
        const double *v = s->a + i * n + i + 1;
        for (int64_t k = i + 1; k < n && s->scale[i] != 0; k++) {
            double *row = s->v + k * n + i + 1;
            matrix_add_scaled(row, v, -s->scale[i] * matrix_dot(row, v, n - i - 1), n - i - 1);
        }
    }
}

/* The first place from `from` on where nothing is beside the diagonal. */
static int64_t end_of(const symmetric *s, int64_t from) {
    int64_t end = from;
    for (; end + 1 < s->n; end++)
        if (fabs(s->beside[end]) <= DBL_EPSILON / 2 * (fabs(s->w[end]) + fabs(s->w[end + 1])))
            break;
    return end;
}

/* One step of QL on [from, end], shifted by Wilkinson's value; the bulge goes up. */
static void turn_up(const symmetric *s, int64_t from, int64_t end) {
    double *w = s->w, *e = s->beside, half = (w[from + 1] - w[from]) / (2 * e[from]);
    double root = hypot(half, 1),
           bulge = w[end] - w[from] + e[from] / (half + copysign(root, half));
    double sine = 1, cosine = 1, moved = 0;
    for (int64_t i = end - 1; i >= from; i--) {
        double f = sine * e[i], b = cosine * e[i], length = hypot(f, bulge);
        e[i + 1] = length;
        if (length == 0) { /* it fell apart here */
            w[i + 1] -= moved;
            e[end] = 0;
            return;
        }
        sine = f / length;
        cosine = bulge / length;
        double at = w[i + 1] - moved, r = (w[i] - at) * sine + 2 * cosine * b;
        moved = sine * r;
        w[i + 1] = at + moved;
        bulge = cosine * r - b;
        matrix_rotate(s->v + i * s->n, s->v + (i + 1) * s->n, s->n, cosine, sine);
    }
    w[from] -= moved;
    e[from] = bulge;
    e[end] = 0;
}

static void find_values(const symmetric *s) {
    for (int64_t i = 0; i + 2 < s->n; i++) reduce_row(s, i);
    for (int64_t i = s->n > 1 ? s->n - 2 : 0; i < s->n; i++) {
        s->w[i] = s->a[i * s->n + i];
        s->beside[i] = i + 1 < s->n ? s->a[i * s->n + i + 1] : 0;
        s->scale[i] = 0;
    }
    form_vectors(s);
    for (int64_t from = 0; from < s->n; from++)
        for (int turn = 0; turn < MOST_TURNS; turn++) {
            int64_t end = end_of(s, from);
            if (end == from) break;
            turn_up(s, from, end);
        }
}

/* Of the lower triangle, by both; 0: it is nothing, NaN: it is not finite. */
static double load_symmetric(const routine_array *x, int64_t which, double *a) {
    int64_t n = matrix_columns(x);
    double most = 0;
    matrix_load(x, which, a);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            double v = a[k * n + i] = a[i * n + k];
            if (!isfinite(v)) return NAN;
            if (fabs(v) > most) most = fabs(v);
        }
    return most;
}

static void eigh_one(const routine_call *c, const symmetric *s, double *turned, int64_t *place,
                     int64_t which) {
    int64_t n = s->n;
    int exponent = 0;
    double most = load_symmetric(&c->source[0], which, s->a);
    if (!isnan(most)) frexp(most, &exponent);
    for (int64_t i = 0; i < n * n; i++) s->a[i] = ldexp(s->a[i], -exponent);
    if (!isnan(most)) find_values(s);
    for (int64_t i = 0; i < n; i++) s->w[i] = isnan(most) ? NAN : ldexp(s->w[i], exponent);
    matrix_order(s->w, n, false, place);
    for (int64_t i = 0; i < n; i++) {
        s->p[i] = s->w[place[i]];
        for (int64_t k = 0; k < n; k++)
            turned[k * n + i] = isnan(most) ? NAN : s->v[place[i] * n + k];
    }
    if (routine_wants(c, 0)) vector_store(&c->result[0], which, n, s->p);
    if (routine_wants(c, 1)) matrix_store(&c->result[1], which, turned);
}

void run_eigh(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    int64_t n = matrix_columns(&c->source[0]);
    double *a = scratch, *turned = a + 2 * n * n, *w = turned + n * n;
    const symmetric s = {n, a, a + n * n, w, w + n, w + 2 * n, w + 3 * n};
    for (int64_t which = from; which < to; which++)
        eigh_one(c, &s, turned, (int64_t *)(void *)(w + 4 * n), which);
}
