/* symmetric.c - eigenvalues of symmetric matrices: by reflections to three diagonals, by shifted
 * rotations to one (Golub and Van Loan, 8.3).
 *
 * Both triangles are kept up to date, so that all work is along rows; eigenvectors are rows while
 * they are turned. The matrix is scaled by a power of two first, so that squares neither overflow
 * nor vanish; one that is not finite has NaN for an answer. */
#include "routine/matrix.h"

#include <float.h>
#include <math.h>

enum { MOST_TURNS = 60 /* for one value; three are usual */, PANEL = REFLECT_PANEL };

typedef struct symmetric {
    int64_t n;
    double *a, *v;      /* [n, n] each: rows of v become eigenvectors */
    double *w, *beside; /* the diagonal; behind element i what is beside it */
    double *scale, *p;  /* of the reflections; a row */
    double *second;     /* [PANEL, n], and two of PANEL */
    double *space;
    turn_list *turns;
} symmetric;

static size_t space_of(int64_t n) {
    size_t turns = turn_space(n), form = reflect_space(n);
    return turns > form ? turns : form;
}

routine_need need_eigh(const routine_call *c) {
    const routine_array *x = &c->source[0];
    int64_t size = matrix_columns(x);
    double n = (double)size;
    size_t numbers = (size_t)(3 * n * n + (5 + PANEL) * n + 2 * PANEL) + space_of(size);
    return (routine_need){matrix_count(x), 4 * n * n * n * (double)matrix_count(x),
                          numbers * sizeof(double)};
}

/* Adds the panel's rows to `to`, from column `at` on: those of w by the first coefficients, those
 * of v by the others. */
static void add_rows(const symmetric *s, int64_t from, int64_t rows, int64_t at,
                     const double *coefficients, double *to) {
    int64_t n = s->n;
    block v = {s->a + from * n + at, n}, w = {s->second + at, n};
    matrix_apply_turned(w, rows, n - at, coefficients, to);
    matrix_apply_turned(v, rows, n - at, coefficients + PANEL, to);
}

/* Makes row i of [n, n] three diagonals' by I - scale v v', where v is then; the panel's rows
 * before it, from `from` on, are still to be subtracted: a - v' w - w' v. */
static void reduce_row(const symmetric *s, int64_t from, int64_t i) {
    int64_t n = s->n, rows = i - from, next = i + 1, size = n - next;
    double *row = s->a + i * n, *v = row + next, *w = s->second + rows * n, *p = s->p;
    double *both = s->second + PANEL * n;
    for (int64_t k = 0; k < rows; k++) {
        both[k] = -s->a[(from + k) * n + i];
        both[PANEL + k] = -s->second[k * n + i];
    }
    add_rows(s, from, rows, i, both, row + i);
    s->w[i] = row[i];
    s->scale[i] = reflect_make(v, size, &s->beside[i]);
    memset(row, 0, (size_t)next * sizeof *row);
    memset(w, 0, (size_t)n * sizeof *w);
    if (s->scale[i] == 0) return;
    matrix_apply((block){s->a + next * n + next, n}, size, size, v, p);
    matrix_apply((block){s->a + from * n + next, n}, rows, size, v, both);
    matrix_apply((block){s->second + next, n}, rows, size, v, both + PANEL);
    for (int64_t k = 0; k < 2 * PANEL; k++) both[k] = -both[k];
    add_rows(s, from, rows, next, both, p);
    for (int64_t k = 0; k < size; k++) w[next + k] = s->scale[i] * p[k];
    matrix_add_scaled(w + next, v, -0.5 * s->scale[i] * matrix_dot(w + next, v, size), size);
}

/* To three diagonals: a panel's rows first, of which each sees what those before it do; then the
 * rest of the matrix, by two products (Dongarra, Sorensen and Hammarling 1989). */
static void reduce(const symmetric *s) {
    int64_t n = s->n;
    memset(s->second + PANEL * n, 0, 2 * PANEL * sizeof *s->second);
    for (int64_t from = 0; from < n; from += PANEL) {
        int64_t end = n - from < PANEL ? n : from + PANEL, rest = n - end;
        for (int64_t i = from; i < end; i++) reduce_row(s, from, i);
        block to = {s->a + end * n + end, n};
        block v = {s->a + from * n + end, n}, w = {s->second + end, n};
        const extents e = {rest, rest, end - from};
        if (!rest) break;
        matrix_subtract_views(to, view_turned(v), view_of(w), e);
        matrix_subtract_views(to, view_turned(w), view_of(v), e);
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
    double root = hypot(half, 1);
    double bulge = w[end] - w[from] + e[from] / (half + copysign(root, half));
    double *turn = turn_begin(s->turns, end, -1);
    double sine = 1, cosine = 1, moved = 0;
    for (int64_t i = end - 1; i >= from; i--) {
        double f = sine * e[i], b = cosine * e[i], length = turn_of(bulge, f, &cosine, &sine);
        e[i + 1] = length;
        if (length == 0) { /* it fell apart here */
            w[i + 1] -= moved;
            e[end] = 0;
            turn_end(s->turns, end - 1 - i);
            return;
        }
        double at = w[i + 1] - moved, r = (w[i] - at) * sine + 2 * cosine * b;
        moved = sine * r;
        w[i + 1] = at + moved;
        bulge = cosine * r - b;
        *turn++ = cosine;
        *turn++ = sine;
    }
    turn_end(s->turns, end - from);
    w[from] -= moved;
    e[from] = bulge;
    e[end] = 0;
}

static void find_values(const symmetric *s, bool vectors) {
    int64_t n = s->n;
    reduce(s);
    if (vectors) reflect_form(s->a, s->scale, n, n, s->v, s->space);
    turn_start(s->turns, vectors ? s->v : NULL, n, n, s->space);
    for (int64_t from = 0; from < s->n; from++)
        for (int turn = 0; turn < MOST_TURNS; turn++) {
            int64_t end = end_of(s, from);
            if (end == from) break;
            turn_up(s, from, end);
        }
    turn_all(s->turns);
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
    if (!isnan(most)) find_values(s, routine_wants(c, 1));
    for (int64_t i = 0; i < n; i++) s->w[i] = isnan(most) ? NAN : ldexp(s->w[i], exponent);
    matrix_order(s->w, n, false, place);
    for (int64_t i = 0; i < n; i++) {
        s->p[i] = s->w[place[i]];
        for (int64_t k = 0; k < n && routine_wants(c, 1); k++)
            turned[k * n + i] = isnan(most) ? NAN : s->v[place[i] * n + k];
    }
    if (routine_wants(c, 0)) vector_store(&c->result[0], which, n, s->p);
    if (routine_wants(c, 1)) matrix_store(&c->result[1], which, turned);
}

void run_eigh(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    int64_t n = matrix_columns(&c->source[0]);
    double *a = scratch, *turned = a + 2 * n * n, *w = turned + n * n;
    double *place = w + 4 * n, *second = place + n, *space = second + PANEL * (n + 2);
    turn_list turns;
    const symmetric s = {n, a, a + n * n, w, w + n, w + 2 * n, w + 3 * n, second, space, &turns};
    for (int64_t which = from; which < to; which++)
        eigh_one(c, &s, turned, (int64_t *)(void *)place, which);
}
