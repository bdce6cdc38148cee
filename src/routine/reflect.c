/* reflect.c - reflections whose vectors are rows, and their product.
 *
 * A panel's product is I - V T V' with an upper T (Schreiber and Van Loan 1989), so that what forms
 * the product of all is products of matrices. Nothing is computed where it is the identity still:
 * the last panel's rows and columns come first. */
#include "routine/matrix.h"

#include <math.h>

enum { PANEL = REFLECT_PANEL };

/* Squares below this have lost digits, or vanish: so do their elements, beside those of size 1. */
static const double least = 0x1p-900;

double reflect_make(double *x, int64_t n, double *end) {
    double rest = n > 1 ? matrix_dot(x + 1, x + 1, n - 1) : 0;
    *end = n ? x[0] : 0;
    if (!(rest >= least)) {
        memset(x, 0, (size_t)n * sizeof *x);
        return 0;
    }
    double length = sqrt(x[0] * x[0] + rest);
    *end = x[0] > 0 ? -length : length;
    x[0] -= *end;
    return 2 / (x[0] * x[0] + rest);
}

size_t reflect_space(int64_t n) {
    return (size_t)(2 * PANEL * n + 2 * PANEL * PANEL);
}

/* T's column i is -scale T V' v_i above the diagonal, scale there. */
static void make_triangle(block v, const double *scale, int64_t size, int64_t n, double *t,
                          double *gram) {
    memset(gram, 0, PANEL * PANEL * sizeof *gram);
    matrix_subtract_views((block){gram, PANEL}, view_of(v), view_turned(v),
                          (extents){size, size, n});
    for (int64_t i = 0; i < size; i++) {
        for (int64_t r = 0; r < i; r++) {
            double sum = 0;
            for (int64_t j = r; j < i; j++) sum += t[r * PANEL + j] * gram[j * PANEL + i];
            t[r * PANEL + i] = scale[i] * sum;
        }
        t[i * PANEL + i] = scale[i];
        for (int64_t r = i + 1; r < size; r++) t[r * PANEL + i] = 0;
    }
}

void reflect_form(const double *v, const double *scale, int64_t count, int64_t n, double *to,
                  double *space) {
    double *first = space, *second = first + PANEL * n, *t = second + PANEL * n;
    for (int64_t i = 0; i < n * n; i++) to[i] = i / n == i % n;
    for (int64_t from = (count - 1) / PANEL * PANEL; from >= 0 && count > 0; from -= PANEL) {
        int64_t size = count - from < PANEL ? count - from : PANEL, rows = n - from;
        block vectors = {(double *)(uintptr_t)v + from * n + from, n};
        block q = {to + from * n + from, n}, a = {first, PANEL}, b = {second, PANEL};
        make_triangle(vectors, scale + from, size, rows, t, t + PANEL * PANEL);
        memset(first, 0, (size_t)(PANEL * rows) * sizeof *first);
        memset(second, 0, (size_t)(PANEL * rows) * sizeof *second);
        matrix_subtract_views(a, view_of(q), view_turned(vectors), (extents){rows, size, rows});
        matrix_subtract_views(b, view_of(a), view_turned((block){t, PANEL}),
                              (extents){rows, size, size});
        matrix_subtract(q, b, vectors, (extents){rows, rows, size});
    }
}
