/* matrix.h - what factorisations are made of: matrices of doubles by rows in scratch.
 *
 * All of them compute in double precision whatever the elements are, so that f32 is rounded once at
 * the end; a matrix is loaded, computed on, and stored. */
#ifndef QN_ROUTINE_MATRIX_H
#define QN_ROUTINE_MATRIX_H

#include "routine/routine.h"

/* Rows and columns of the last two axes, and how many such matrices there are. */
int64_t matrix_rows(const routine_array *a);
int64_t matrix_columns(const routine_array *a);
int64_t matrix_count(const routine_array *a);
void matrix_load(const routine_array *a, int64_t which, double *to);
void matrix_load_turned(const routine_array *a, int64_t which, double *to);
void matrix_store(const routine_array *a, int64_t which, const double *from);
/* The same of arrays of which one matrix has n elements: vectors, scalars. */
void vector_store(const routine_array *a, int64_t which, int64_t n, const double *from);

/* A matrix in another one: its first element and the distance of rows. */
typedef struct block {
    double *at;
    int64_t step;
} block;
static inline block block_at(block b, int64_t row, int64_t column) {
    return (block){b.at + row * b.step + column, b.step};
}
/* c -= a b, [m, k] by [k, n]. */
typedef struct extents {
    int64_t m, n, k;
} extents;
void matrix_subtract(block c, block a, block b, extents e);
/* The same of parts and transposes: element i, j is at[i * row + j * column]. */
typedef struct view {
    const double *at;
    int64_t row, column;
} view;
static inline view view_at(view v, int64_t row, int64_t column) {
    return (view){v.at + row * v.row + column * v.column, v.row, v.column};
}
static inline view view_of(block b) {
    return (view){b.at, b.step, 1};
}
static inline view view_turned(block b) {
    return (view){b.at, 1, b.step};
}
void matrix_subtract_views(block c, view a, view b, extents e);
/* to += v from */
void matrix_add_scaled(double *to, const double *from, double v, int64_t n);
/* QR of [m, n], the first numbers of `space`, which becomes R; behind it lies Q. */
void qr_factor_in(double *space, int64_t m, int64_t n);
size_t qr_numbers(int64_t m, int64_t n);
/* x, y = cosine x - sine y, sine x + cosine y */
void matrix_rotate(double *x, double *y, int64_t n, double cosine, double sine);
/* Where n numbers are in order, by insertion. */
void matrix_order(const double *v, int64_t n, bool descending, int64_t *place);
double matrix_dot(const double *a, const double *b, int64_t n);
/* y = a x and y += a' x, of a [m, n]. */
void matrix_apply(block a, int64_t m, int64_t n, const double *x, double *y);
void matrix_apply_turned(block a, int64_t m, int64_t n, const double *x, double *y);

/* ---- reflect.c: reflections I - scale v v', whose vectors are rows of [n, n] ----------------- */

enum { REFLECT_PANEL = 32 };

/* The one that makes x (*end, 0, ..): x becomes v; the scale. Elements of size 1 or less. */
double reflect_make(double *x, int64_t n, double *end);
/* The product of the first `count`, the first one leftmost, transposed. Row i of v is 0 before
 * element i, and `space` has room for reflect_space(n). */
void reflect_form(const double *v, const double *scale, int64_t count, int64_t n, double *to,
                  double *space);
size_t reflect_space(int64_t n);

/* ---- turns.c: rotations of neighbouring rows, done many at a time ---------------------------- */

enum { TURN_WAVES = 192, TURN_SWEEPS = 64, TURN_STRIP = 16 };

/* Rotations of rows first, first + step, .. of `count` pairs: x, y = c x + s y, c y - s x. */
typedef struct turn_wave {
    int64_t first, step, count;
    const double *turn; /* c and s of each */
} turn_wave;
typedef struct turn_list {
    double *rows; /* [n, length]; NULL: nobody wants them turned */
    int64_t n, length;
    double *turn, *strip; /* 2 * TURN_SWEEPS * n; TURN_STRIP * n */
    int64_t used;
    int waves;
    turn_wave wave[TURN_WAVES];
} turn_list;
size_t turn_space(int64_t n); /* of turn and strip, which lies behind it */
void turn_start(turn_list *t, double *rows, int64_t n, int64_t length, double *space);
/* Where to write c and s of a wave, and how many there were in the end. */
double *turn_begin(turn_list *t, int64_t first, int64_t step);
void turn_end(turn_list *t, int64_t count);
void turn_all(turn_list *t);
/* A list's waves on [rows, TURN_STRIP]. */
void matrix_turn(double *strip, const turn_wave *wave, int waves);
/* c, s and length of x, y: c x + s y = length, c y - s x = 0. */
double turn_of(double x, double y, double *c, double *s);

/* ---- bidiagonal.c: singular values of [m, n], of which m is no less, and n is not 0 ---------- */

typedef struct singular {
    int64_t m, n;
    bool vectors;
    double *space; /* bidiagonal_numbers, of which the first are the matrix, of 1 or less */
    double *values, *left, *right; /* n, [n, m], [n, n]: vectors by rows, in no order */
    int64_t *place;                /* where the values in order are */
} singular;
size_t bidiagonal_numbers(int64_t m, int64_t n);
void bidiagonal_svd(const singular *s);

/* ---- triangles ------------------------------------------------------------------------------- */

/* Factor [n, n] into L (unit, below) and U, rows exchanged: row i of P a is row order[i] of a. The
 * sign of the permutation. A column of zeros is left as it is. */
double lu_factor(block a, int64_t n, int64_t *order);
/* Solve for [n, m] in place: lower or upper, `unit` with ones on the diagonal. */
typedef struct triangle {
    bool upper, unit;
    int64_t n, m;
} triangle;
void triangle_solve(block a, block b, triangle t);
/* Factor [n, n], of which the lower triangle is read, into L, in place; NaN where it is not
 * positive definite. */
void cholesky_factor(block a, int64_t n);

#endif
