/* solve.c - routines by triangles: Cholesky, systems of equations, determinants, exponentials. */
#include "routine/matrix.h"

#include <math.h>

static double cube(const routine_array *a) {
    double n = (double)matrix_columns(a);
    return n * n * (double)matrix_rows(a) * (double)matrix_count(a);
}

static size_t square(const routine_array *a) {
    return (size_t)(matrix_columns(a) * matrix_columns(a)) * sizeof(double);
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

routine_need need_cholesky(const routine_call *c) {
    const routine_array *a = &c->source[0];
    return (routine_need){matrix_count(a), cube(a) / 3, square(a)};
}

void run_cholesky(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0];
    int64_t n = matrix_columns(x);
    double *a = scratch;
    for (int64_t which = from; which < to; which++) {
        matrix_load(x, which, a);
        cholesky_factor((block){a, n}, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = i + 1; k < n; k++) a[i * n + k] = 0;
        matrix_store(&c->result[0], which, a);
    }
}

/* ---- systems --------------------------------------------------------------------------------- */

static size_t system_bytes(const routine_call *c) {
    const routine_array *b = &c->source[1];
    size_t n = (size_t)matrix_rows(b), m = (size_t)matrix_columns(b);
    return (n * n + 2 * n * m) * sizeof(double) + n * sizeof(int64_t);
}

static double system_work(const routine_call *c) {
    const routine_array *a = &c->source[0];
    double n = (double)matrix_rows(a);
    return n * n * (n + (double)matrix_columns(&c->source[1])) * (double)matrix_count(a);
}

routine_need need_solve_triangular(const routine_call *c) {
    return (routine_need){matrix_count(&c->source[0]), system_work(c), system_bytes(c)};
}

void run_solve_triangular(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0], *y = &c->source[1];
    int64_t n = matrix_rows(y), m = matrix_columns(y);
    bool upper = c->what.attr[0] != 0, turned = c->what.attr[1] != 0, unit = c->what.attr[2] != 0;
    double *a = scratch, *b = a + n * n;
    for (int64_t which = from; which < to; which++) {
        if (turned)
            matrix_load_turned(x, which, a);
        else
            matrix_load(x, which, a);
        matrix_load(y, which, b);
        triangle_solve((block){a, n}, (block){b, m}, (triangle){upper != turned, unit, n, m});
        matrix_store(&c->result[0], which, b);
    }
}

routine_need need_solve(const routine_call *c) {
    return need_solve_triangular(c);
}

/* a x = b, of factored a; the rows of b in order are `spare`. */
static void solve_factored(block a, const int64_t *order, double *b, double *spare, int64_t n,
                           int64_t m) {
    for (int64_t i = 0; i < n; i++) memcpy(spare + i * m, b + order[i] * m, (size_t)m * sizeof *b);
    triangle_solve(a, (block){spare, m}, (triangle){.unit = true, .n = n, .m = m});
    triangle_solve(a, (block){spare, m}, (triangle){.upper = true, .n = n, .m = m});
}

void run_solve(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0], *y = &c->source[1];
    int64_t n = matrix_rows(y), m = matrix_columns(y);
    double *a = scratch, *b = a + n * n, *spare = b + n * m;
    int64_t *order = (int64_t *)(spare + n * m);
    for (int64_t which = from; which < to; which++) {
        if (c->what.attr[0])
            matrix_load_turned(x, which, a);
        else
            matrix_load(x, which, a);
        matrix_load(y, which, b);
        lu_factor((block){a, n}, n, order);
        solve_factored((block){a, n}, order, b, spare, n, m);
        matrix_store(&c->result[0], which, spare);
    }
}

/* ---- determinants ---------------------------------------------------------------------------- */

routine_need need_determinant(const routine_call *c) {
    const routine_array *a = &c->source[0];
    return (routine_need){matrix_count(a), cube(a) * 2 / 3,
                          square(a) + (size_t)matrix_columns(a) * sizeof(int64_t)};
}

void run_determinant(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    const routine_array *x = &c->source[0];
    int64_t n = matrix_columns(x);
    double *a = scratch;
    for (int64_t which = from; which < to; which++) {
        matrix_load(x, which, a);
        double v[3] = {1, 0, 1};
        v[0] = v[2] = lu_factor((block){a, n}, n, (int64_t *)(a + n * n));
        for (int64_t i = 0; i < n; i++) {
            double d = a[i * n + i];
            v[0] *= isnan(d) ? d : (d > 0) - (d < 0);
            v[1] += log(fabs(d));
            v[2] *= d;
        }
        for (int k = 0; k < 3; k++)
            if (routine_wants(c, k)) vector_store(&c->result[k], which, 1, &v[k]);
    }
}

/* ---- the exponential ------------------------------------------------------------------------- */

routine_need need_matrix_exp(const routine_call *c) {
    const routine_array *a = &c->source[0];
    return (routine_need){matrix_count(a), 20 * cube(a),
                          8 * square(a) + (size_t)matrix_columns(a) * sizeof(int64_t)};
}

/* c = a b, all [n, n]; c is another. */
static void multiply(double *c, const double *a, double *b, int64_t n) {
    memset(c, 0, (size_t)(n * n) * sizeof *c);
    matrix_subtract((block){c, n}, (block){(double *)(uintptr_t)a, n}, (block){b, n},
                    (extents){n, n, n});
    for (int64_t i = 0; i < n * n; i++) c[i] = -c[i];
}

/* to = c0 + c2 a2 + c4 a4 + c6 a6, the first of the identity */
static void combine(double *to, const double *const power[3], const double *c, int64_t n) {
    for (int64_t i = 0; i < n * n; i++)
        to[i] = c[1] * power[0][i] + c[2] * power[1][i] + c[3] * power[2][i];
    for (int64_t i = 0; i < n; i++) to[i * n + i] += c[0];
}

static double norm_one(const double *a, int64_t n) {
    double most = 0;
    for (int64_t k = 0; k < n; k++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += fabs(a[i * n + k]);
        if (!(sum <= most)) most = sum;
    }
    return most;
}

/* Higham (2005): Pade's approximation of degree 13 of a / 2^s, whose norm is below 5.37, squared s
 * times. w: eight matrices, a the first, which the result replaces. */
static void exponential(double *w, int64_t n) {
    static const double b[14] = {64764752532480000.0,
                                 32382376266240000.0,
                                 7771770303897600.0,
                                 1187353796428800.0,
                                 129060195264000.0,
                                 10559470521600.0,
                                 670442572800.0,
                                 33522128640.0,
                                 1323241920.0,
                                 40840800.0,
                                 960960.0,
                                 16380.0,
                                 182.0,
                                 1.0};
    int64_t size = n * n;
    double *a = w, *a2 = w + size, *a4 = w + 2 * size, *a6 = w + 3 * size, *u = w + 4 * size;
    double *v = w + 5 * size, *t = w + 6 * size, *s = w + 7 * size, norm = norm_one(a, n);
    int64_t *order = (int64_t *)(w + 8 * size);
    int squarings = 0;
    if (isfinite(norm) && norm > 5.371920351148152)
        squarings = (int)ceil(log2(norm / 5.371920351148152));
    for (int64_t i = 0; i < size; i++) a[i] = ldexp(a[i], -squarings);
    multiply(a2, a, a, n);
    multiply(a4, a2, a2, n);
    multiply(a6, a4, a2, n);
    const double *const power[3] = {a2, a4, a6};
    combine(t, power, (const double[]){0, b[9], b[11], b[13]}, n);
    multiply(s, a6, t, n);
    combine(t, power, (const double[]){b[1], b[3], b[5], b[7]}, n);
    for (int64_t i = 0; i < size; i++) t[i] += s[i];
    multiply(u, a, t, n);
    combine(t, power, (const double[]){0, b[8], b[10], b[12]}, n);
    multiply(s, a6, t, n);
    combine(v, power, (const double[]){b[0], b[2], b[4], b[6]}, n);
    for (int64_t i = 0; i < size; i++) {
        double sum = v[i] + s[i];
        v[i] = sum - u[i];
        u[i] += sum;
    }
    lu_factor((block){v, n}, n, order);
    solve_factored((block){v, n}, order, u, a, n, n);
    for (; squarings > 0; squarings--) {
        multiply(t, a, a, n);
        memcpy(a, t, (size_t)size * sizeof *a);
    }
}

void run_matrix_exp(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    int64_t n = matrix_columns(&c->source[0]);
    for (int64_t which = from; which < to && n; which++) {
        matrix_load(&c->source[0], which, scratch);
        exponential(scratch, n);
        matrix_store(&c->result[0], which, scratch);
    }
}
