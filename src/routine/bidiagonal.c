/* bidiagonal.c - singular values of large matrices: by reflections from both sides to two
 * diagonals (Golub and Kahan 1965), a panel at a time, and by rotations to one.
 *
 * The iteration is Demmel and Kahan's (1990): a shifted sweep where the shift moves anything, else
 * one without, which gives even small values of two diagonals to almost all digits. A sweep goes
 * from the larger end to the smaller. The one that goes up is the one that goes down, of the
 * transpose with rows and columns in the opposite order: left and right change places.
 *
 * Of more rows than columns R of QR is taken first. */
#include "routine/matrix.h"

#include <float.h>
#include <math.h>

enum { PANEL = REFLECT_PANEL, MOST_TURNS = 60 };

typedef struct bidiagonal {
    int64_t n;
    double *a;              /* [n, n], whose rows become the right reflections' vectors */
    double *left;           /* [n, n], of the left ones */
    double *x, *y;          /* [PANEL, n] each: what a panel does is a - left' y - x' right */
    double *c;              /* four of PANEL */
    double *d, *e;          /* the two diagonals */
    double *p, *q;          /* of n each */
    double *scale, *scales; /* of left and right reflections */
} bidiagonal;

/* ---- to two diagonals ------------------------------------------------------------------------ */

/* Two panels' first rows. */
typedef struct panels {
    int64_t rows;
    const double *one, *other;
} panels;

/* Adds those rows to `to`, from column `at` on, times c and c + PANEL. */
static void add_rows(const bidiagonal *b, panels p, int64_t at, double *to) {
    int64_t n = b->n, size = n - at;
    matrix_apply_turned((block){(double *)(uintptr_t)p.one + at, n}, p.rows, size, b->c, to);
    matrix_apply_turned((block){(double *)(uintptr_t)p.other + at, n}, p.rows, size, b->c + PANEL,
                        to);
}

/* Column i of what the panel from `from` on has made of a, and its reflection. */
static void reduce_column(const bidiagonal *b, int64_t from, int64_t i) {
    int64_t n = b->n, rows = i - from;
    double *v = b->left + i * n, *c = b->c;
    for (int64_t j = 0; j < rows; j++) {
        c[j] = -b->y[j * n + i];
        c[PANEL + j] = -b->a[(from + j) * n + i];
    }
    for (int64_t r = 0; r < n; r++) v[r] = r < i ? 0 : b->a[r * n + i];
    add_rows(b, (panels){rows, b->left + from * n, b->x}, i, v + i);
    b->scale[i] = reflect_make(v + i, n - i, &b->d[i]);
}

/* What that reflection takes from all columns behind: scale v' a, in the panel's y. */
static void follow_column(const bidiagonal *b, int64_t from, int64_t i) {
    int64_t n = b->n, rows = i - from, next = i + 1, size = n - next;
    double *y = b->y + rows * n, *c = b->c;
    const double *v = b->left + i * n + i;
    memset(y, 0, (size_t)n * sizeof *y);
    if (b->scale[i] == 0) return;
    matrix_apply_turned((block){b->a + i * n + next, n}, n - i, size, v, y + next);
    matrix_apply((block){b->left + from * n + i, n}, rows, n - i, v, c);
    matrix_apply((block){b->x + i, n}, rows, n - i, v, c + PANEL);
    for (int64_t j = 0; j < 2 * PANEL; j++) c[j] = -c[j];
    add_rows(b, (panels){rows, b->y, b->a + from * n}, next, y + next);
    for (int64_t k = next; k < n; k++) y[k] *= b->scale[i];
}

/* Row i behind the diagonal, its reflection, and what it takes from all rows below: a w scale, in
 * the panel's x. */
static void reduce_row(const bidiagonal *b, int64_t from, int64_t i) {
    int64_t n = b->n, rows = i - from, next = i + 1, size = n - next;
    double *row = b->a + i * n, *w = row + next, *x = b->x + rows * n, *c = b->c;
    for (int64_t j = 0; j <= rows; j++) {
        c[j] = -b->left[(from + j) * n + i];
        c[PANEL + j] = j < rows ? -b->x[j * n + i] : 0;
    }
    memset(row, 0, (size_t)next * sizeof *row);
    matrix_apply_turned((block){b->y + next, n}, rows + 1, size, c, w);
    matrix_apply_turned((block){b->a + from * n + next, n}, rows, size, c + PANEL, w);
    b->scales[i] = reflect_make(w, size, &b->e[i]);
    memset(x, 0, (size_t)n * sizeof *x);
    if (b->scales[i] == 0) return;
    matrix_apply((block){b->a + next * n + next, n}, size, size, w, x + next);
    matrix_apply((block){b->y + next, n}, rows + 1, size, w, c);
    matrix_apply((block){b->a + from * n + next, n}, rows, size, w, c + PANEL);
    c[PANEL + rows] = 0;
    for (int64_t j = 0; j < 2 * PANEL; j++) c[j] = -c[j];
    add_rows(b, (panels){rows + 1, b->left + from * n, b->x}, next, x + next);
    for (int64_t r = next; r < n; r++) x[r] *= b->scales[i];
}

static void reduce(const bidiagonal *b) {
    int64_t n = b->n;
    memset(b->c, 0, 2 * PANEL * sizeof *b->c);
    for (int64_t from = 0; from < n; from += PANEL) {
        int64_t end = n - from < PANEL ? n : from + PANEL, rest = n - end;
        const extents e = {rest, rest, end - from};
        for (int64_t i = from; i < end; i++) {
            reduce_column(b, from, i);
            follow_column(b, from, i);
            reduce_row(b, from, i);
        }
        if (!rest) break;
        block to = {b->a + end * n + end, n};
        matrix_subtract_views(to, view_turned((block){b->left + from * n + end, n}),
                              view_of((block){b->y + end, n}), e);
        matrix_subtract_views(to, view_turned((block){b->x + end, n}),
                              view_of((block){b->a + from * n + end, n}), e);
    }
}

/* ---- to one diagonal ------------------------------------------------------------------------- */

/* Rows [lo, hi] of the two diagonals, in the order of a sweep that goes down. */
typedef struct sweep {
    int64_t lo, hi;
    bool up;
    double *d, *e;
    turn_list *row, *column; /* whose rows turn with its own rows, and with its columns */
} sweep;

static void load_sweep(const bidiagonal *b, sweep *s) {
    int64_t n = s->hi - s->lo;
    for (int64_t i = 0; i <= n; i++) s->d[i] = b->d[s->up ? s->hi - i : s->lo + i];
    for (int64_t i = 0; i < n; i++) s->e[i] = b->e[s->up ? s->hi - 1 - i : s->lo + i];
}

static void store_sweep(const bidiagonal *b, const sweep *s) {
    int64_t n = s->hi - s->lo;
    for (int64_t i = 0; i <= n; i++) b->d[s->up ? s->hi - i : s->lo + i] = s->d[i];
    for (int64_t i = 0; i < n; i++) b->e[s->up ? s->hi - 1 - i : s->lo + i] = s->e[i];
}

/* The sweep's smallest value but for a factor of its length; an element beside the diagonal that
 * moves none by more than its last digits is 0 now, and there is another sweep to do: -1. */
static double smallest(const sweep *s, double tolerance) {
    int64_t n = s->hi - s->lo;
    double about = fabs(s->d[0]), least = about;
    if (fabs(s->e[n - 1]) <= tolerance * fabs(s->d[n])) {
        s->e[n - 1] = 0;
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        if (fabs(s->e[i]) <= tolerance * about) {
            s->e[i] = 0;
            return -1;
        }
        about = fabs(s->d[i + 1]) * (about / (about + fabs(s->e[i])));
        if (about < least) least = about;
    }
    return least;
}

/* The lesser singular value of [[f, g], [0, h]], without overflow. */
static double lesser_of(double f, double g, double h) {
    double big = fmax(fabs(f), fabs(h)), small = fmin(fabs(f), fabs(h));
    g = fabs(g);
    if (small == 0) return 0;
    /* (|f| - |h|)^2 + g^2 and (|f| + |h|)^2 + g^2 are squares of the values' difference and sum */
    return 2 * (small / (hypot(big + small, g) + hypot(big - small, g))) * big;
}

static void sweep_unshifted(const sweep *s) {
    int64_t n = s->hi - s->lo;
    double *right = turn_begin(s->column, s->up ? s->hi : s->lo, s->up ? -1 : 1);
    double *left = turn_begin(s->row, s->up ? s->hi : s->lo, s->up ? -1 : 1);
    double c = 1, was_c = 1, sine, was_sine = 0;
    for (int64_t i = 0; i < n; i++) {
        double length = turn_of(s->d[i] * c, s->e[i], &c, &sine);
        if (i > 0) s->e[i - 1] = was_sine * length;
        s->d[i] = turn_of(was_c * length, s->d[i + 1] * sine, &was_c, &was_sine);
        *right++ = c, *right++ = sine;
        *left++ = was_c, *left++ = was_sine;
    }
    double last = s->d[n] * c;
    s->d[n] = last * was_c;
    s->e[n - 1] = last * was_sine;
    turn_end(s->column, n);
    turn_end(s->row, n);
}

static void sweep_shifted(const sweep *s, double shift) {
    int64_t n = s->hi - s->lo;
    double *d = s->d, *e = s->e, c, sine;
    double *right = turn_begin(s->column, s->up ? s->hi : s->lo, s->up ? -1 : 1);
    double *left = turn_begin(s->row, s->up ? s->hi : s->lo, s->up ? -1 : 1);
    double f = (fabs(d[0]) - shift) * (copysign(1, d[0]) + shift / d[0]), g = e[0];
    for (int64_t i = 0; i < n; i++) {
        double length = turn_of(f, g, &c, &sine);
        if (i > 0) e[i - 1] = length;
        f = c * d[i] + sine * e[i];
        e[i] = c * e[i] - sine * d[i];
        g = sine * d[i + 1];
        d[i + 1] *= c;
        *right++ = c, *right++ = sine;
        d[i] = turn_of(f, g, &c, &sine);
        f = c * e[i] + sine * d[i + 1];
        d[i + 1] = c * d[i + 1] - sine * e[i];
        if (i + 1 < n) {
            g = sine * e[i + 1];
            e[i + 1] *= c;
        }
        *left++ = c, *left++ = sine;
    }
    e[n - 1] = f;
    turn_end(s->column, n);
    turn_end(s->row, n);
}

/* One sweep of rows [lo, hi]. */
static void turn_once(const bidiagonal *b, int64_t lo, int64_t hi, turn_list *left,
                      turn_list *right) {
    static const double tolerance = 16 * DBL_EPSILON;
    bool up = fabs(b->d[lo]) < fabs(b->d[hi]);
    sweep s = {lo, hi, up, b->p, b->q, up ? right : left, up ? left : right};
    int64_t n = hi - lo;
    load_sweep(b, &s);
    double least = smallest(&s, tolerance), most = 0, shift = 0;
    for (int64_t i = 0; i <= n; i++) most = fmax(most, fabs(s.d[i]));
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(s.e[i]));
    if (least >= 0) {
        if ((double)b->n * tolerance * (least / most) > DBL_EPSILON)
            shift = lesser_of(s.d[n - 1], s.e[n - 1], s.d[n]);
        double moves = shift / fabs(s.d[0]);
        if (shift > 0 && moves * moves > DBL_EPSILON)
            sweep_shifted(&s, shift);
        else
            sweep_unshifted(&s);
    }
    store_sweep(b, &s);
}

static void find_values(const bidiagonal *b, turn_list *left, turn_list *right) {
    int64_t n = b->n, hi = n - 1;
    for (int64_t turn = 0; hi > 0 && turn < MOST_TURNS * n; turn++) {
        if (fabs(b->e[hi - 1]) < DBL_MIN) {
            b->e[--hi] = 0;
            continue;
        }
        int64_t lo = hi - 1;
        while (lo > 0 && fabs(b->e[lo - 1]) >= DBL_MIN) lo--;
        turn_once(b, lo, hi, left, right);
    }
    turn_all(left);
    turn_all(right);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static size_t numbers_of(int64_t n) {
    size_t turns = 2 * turn_space(n), form = reflect_space(n);
    return (size_t)((2 * n + 2 * PANEL + 8) * n + 2 * PANEL) + (turns > form ? turns : form);
}

size_t bidiagonal_numbers(int64_t m, int64_t n) {
    return numbers_of(n) + (m > n ? qr_numbers(m, n) : 0);
}

/* right[place] row by row are the vectors; of those on the left that R of a = Q R has, Q times
 * them, which is the same by rows. */
static void find_vectors(const singular *s, const bidiagonal *b, double *space) {
    int64_t n = s->n, m = s->m;
    double *to = m > n ? b->a : s->left;
    turn_list left, right;
    reflect_form(b->a, b->scales, n, n, s->right, space);
    reflect_form(b->left, b->scale, n, n, to, space);
    turn_start(&left, to, n, n, space);
    turn_start(&right, s->right, n, n, space + turn_space(n));
    find_values(b, &left, &right);
    if (m == n) return;
    for (int64_t i = 0; i < n * n; i++) to[i] = -to[i];
    memset(s->left, 0, (size_t)(n * m) * sizeof *s->left);
    matrix_subtract_views((block){s->left, m}, view_of((block){to, n}),
                          view_turned((block){s->space + m * n, n}), (extents){n, m, n});
}

void bidiagonal_svd(const singular *s) {
    int64_t m = s->m, n = s->n;
    double *space = s->space, *rest = space + (m > n ? (int64_t)qr_numbers(m, n) : n * n);
    if (m > n) qr_factor_in(space, m, n);
    bidiagonal b = {.n = n, .a = space, .left = rest, .d = s->values};
    b.x = b.left + n * n;
    b.y = b.x + PANEL * n;
    b.c = b.y + PANEL * n;
    b.e = b.c + 2 * PANEL;
    b.p = b.e + n;
    b.q = b.p + n;
    b.scale = b.q + n;
    b.scales = b.scale + n;
    space = b.scales + n;
    reduce(&b);
    if (s->vectors) {
        find_vectors(s, &b, space);
    } else {
        turn_list left, right;
        turn_start(&left, NULL, n, n, space);
        turn_start(&right, NULL, n, n, space + turn_space(n));
        find_values(&b, &left, &right);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < n && s->vectors && signbit(b.d[i]); k++)
            s->right[i * n + k] = -s->right[i * n + k];
        b.d[i] = fabs(b.d[i]);
    }
    matrix_order(b.d, n, true, s->place);
}
