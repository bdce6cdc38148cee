/* qr.c - QR by reflections, PANEL columns at a time.
 *
 * The reflections of a panel are found one after the other; what they do to the columns right of it
 * is done at once, for their product is I - V T V' with an upper T (Schreiber and Van Loan 1989):
 * three products instead of PANEL passes. Q is the same applied to the identity, the last panel
 * first. */
#include "routine/matrix.h"

#include <math.h>

enum { PANEL = 32 };

typedef struct qr_space {
    int64_t m, n, k;        /* rows, columns, the lesser of both */
    double *a, *q;          /* [m, n], [m, k] */
    double *scale, *sums;   /* of the reflections; a row */
    double *v, *t;          /* [m, PANEL]; for each panel [PANEL, PANEL] */
    double *first, *second; /* [PANEL, more of n and k] each */
} qr_space;

static int64_t more_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

size_t qr_numbers(int64_t m, int64_t n) {
    int64_t k = m < n ? m : n, more = more_of(n, k);
    return (size_t)(m * n + m * k + k + more + m * PANEL + (k + PANEL) * PANEL + 2 * PANEL * more);
}

routine_need need_qr(const routine_call *c) {
    const routine_array *x = &c->source[0];
    double m = (double)matrix_rows(x), n = (double)matrix_columns(x), k = m < n ? m : n;
    return (routine_need){matrix_count(x), 4 * m * n * k * (double)matrix_count(x),
                          qr_numbers(matrix_rows(x), matrix_columns(x)) * sizeof(double)};
}

/* The reflection that clears column `row` below the diagonal, where its vector is then. Numbers
 * that are so small that they have few digits are made larger for it. */
static double make_reflection(double *a, int64_t m, int64_t n, int64_t row) {
    double *top = a + row * n + row, most = 0, sum = 0;
    for (int64_t i = row + 1; i < m; i++) most = fmax(most, fabs(a[i * n + row]));
    if (most == 0) return 0;
    most = fmax(most, fabs(*top));
    double up = most < 0x1p-900 ? 0x1p200 : 1;
    most *= up;
    for (int64_t i = row; i < m; i++) {
        double v = a[i * n + row] * up / most;
        sum += v * v;
    }
    double length = most * sqrt(sum), end = *top > 0 ? -length : length, first = *top * up - end;
    for (int64_t i = row + 1; i < m; i++) a[i * n + row] = a[i * n + row] * up / first;
    double scale = -first / end;
    *top = end / up;
    return scale;
}

/* a -= v (scale v' a) of columns (i, end); v is column i below the diagonal, and 1 there. */
static void reflect(const qr_space *s, int64_t i, int64_t end) {
    double *top = s->a + i * s->n + i + 1, *sums = s->sums;
    int64_t size = end - i - 1;
    if (size <= 0) return;
    memcpy(sums, top, (size_t)size * sizeof *sums);
    for (int64_t r = i + 1; r < s->m; r++)
        matrix_add_scaled(sums, s->a + r * s->n + i + 1, s->a[r * s->n + i], size);
    matrix_add_scaled(top, sums, -s->scale[i], size);
    for (int64_t r = i + 1; r < s->m; r++)
        matrix_add_scaled(s->a + r * s->n + i + 1, sums, -s->scale[i] * s->a[r * s->n + i], size);
}

/* V of the panel at column `from`, its 1s and 0s written out. */
static void write_vectors(const qr_space *s, int64_t from, int64_t size) {
    for (int64_t i = from; i < s->m; i++)
        for (int64_t j = 0; j < size; j++)
            s->v[(i - from) * PANEL + j] = i < from + j    ? 0
                                           : i == from + j ? 1
                                                           : s->a[i * s->n + from + j];
}

/* T: its column i is -scale T V' v_i above the diagonal, scale there. */
static void make_triangle(const qr_space *s, int64_t from, int64_t size) {
    double *t = s->t + from * PANEL, gram[PANEL * PANEL] = {0};
    block v = {s->v, PANEL};
    matrix_subtract_views((block){gram, PANEL}, view_turned(v), view_of(v),
                          (extents){size, size, s->m - from});
    for (int64_t i = 0; i < size; i++) {
        for (int64_t r = 0; r < i; r++) {
            double sum = 0;
            for (int64_t j = r; j < i; j++) sum += t[r * PANEL + j] * gram[j * PANEL + i];
            t[r * PANEL + i] = s->scale[from + i] * sum;
        }
        t[i * PANEL + i] = s->scale[from + i];
        for (int64_t r = i + 1; r < size; r++) t[r * PANEL + i] = 0;
    }
}

/* c = (I - V T V') c, or of T's transpose; c is rows from the panel's first on. */
static void apply_panel(const qr_space *s, int64_t from, int64_t size, bool turned, block c,
                        int64_t columns) {
    block v = {s->v, PANEL}, t = {s->t + from * PANEL, PANEL};
    block first = {s->first, columns}, second = {s->second, columns};
    if (columns <= 0) return;
    memset(s->first, 0, (size_t)(size * columns) * sizeof *s->first);
    memset(s->second, 0, (size_t)(size * columns) * sizeof *s->second);
    matrix_subtract_views(first, view_turned(v), view_of(c), (extents){size, columns, s->m - from});
    matrix_subtract_views(second, turned ? view_turned(t) : view_of(t), view_of(first),
                          (extents){size, columns, size});
    matrix_subtract(c, v, second, (extents){s->m - from, columns, size});
}

static void qr_factor(const qr_space *s) {
    int64_t last = 0;
    for (int64_t from = 0; from < s->k; last = from, from += PANEL) {
        int64_t size = s->k - from < PANEL ? s->k - from : PANEL, end = from + size;
        for (int64_t i = from; i < end; i++) {
            s->scale[i] = make_reflection(s->a, s->m, s->n, i);
            reflect(s, i, end);
        }
        write_vectors(s, from, size);
        make_triangle(s, from, size);
        apply_panel(s, from, size, true, (block){s->a + from * s->n + end, s->n}, s->n - end);
    }
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->k; j++) s->q[i * s->k + j] = i == j;
    for (int64_t from = last; from >= 0 && s->k; from -= PANEL) {
        int64_t size = s->k - from < PANEL ? s->k - from : PANEL;
        write_vectors(s, from, size);
        apply_panel(s, from, size, false, (block){s->q + from * s->k + from, s->k}, s->k - from);
    }
    for (int64_t i = 0; i < s->k; i++)
        for (int64_t j = 0; j < i && j < s->n; j++) s->a[i * s->n + j] = 0;
}

static qr_space space_of(double *space, int64_t m, int64_t n) {
    int64_t k = m < n ? m : n, more = more_of(n, k);
    qr_space s = {.m = m, .n = n, .k = k, .a = space};
    s.q = s.a + m * n;
    s.scale = s.q + m * k;
    s.sums = s.scale + k;
    s.v = s.sums + more;
    s.t = s.v + m * PANEL;
    s.first = s.t + (k + PANEL) * PANEL;
    s.second = s.first + PANEL * more;
    return s;
}

void qr_factor_in(double *space, int64_t m, int64_t n) {
    qr_space s = space_of(space, m, n);
    qr_factor(&s);
}

void run_qr(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0];
    qr_space s = space_of(scratch, matrix_rows(x), matrix_columns(x));
    for (int64_t which = from; which < to; which++) {
        matrix_load(x, which, s.a);
        qr_factor(&s);
        if (routine_wants(c, 0)) matrix_store(&c->result[0], which, s.q);
        if (routine_wants(c, 1)) matrix_store(&c->result[1], which, s.a);
    }
}
