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
/* x, y = cosine x - sine y, sine x + cosine y */
void matrix_rotate(double *x, double *y, int64_t n, double cosine, double sine);
/* Where n numbers are in order, by insertion. */
void matrix_order(const double *v, int64_t n, bool descending, int64_t *place);
double matrix_dot(const double *a, const double *b, int64_t n);

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
