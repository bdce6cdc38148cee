/* factor.c - routines by LAPACK: one matrix each.
 *
 * A matrix by rows is to it the transpose by columns. With M the transpose of a:
 *   L of a           is the transpose of the upper factor of M: in place, nothing is turned
 *   a x = b          is x' M = b', M = P L U: two systems from the right, on the result's memory
 *   a = U S V'       is M = V S U': the two factors change places, each lies as it is wanted
 *   a = Q R          has no such form that is as fast: a is turned, and so are Q and R
 *   a = V w V'       is M's: the eigenvectors are turned, for they lie as rows
 * What holds NaN or infinities is not given to the iterations for values: some never end. Vectors
 * are computed even if nobody wants them, for values alone have other bits. */
#include "routine/lapack/lapack.h"

#include <math.h>

/* One matrix and what is known of its call. */
typedef struct problem {
    const routine_call *c;
    const lapack_functions *f;
    void *scratch;
    int64_t which;
    size_t size; /* of an element */
    int m, n, k; /* rows and columns of the first source, the lesser of both */
    int right;   /* columns of the second source */
} problem;

static const int minus_one = -1;

static problem problem_of(const routine_call *c, void *scratch, int64_t which) {
    const routine_array *a = &c->source[0];
    bool wide = a->dtype == QN_F64;
    int m = (int)matrix_rows(a), n = (int)matrix_columns(a);
    return (problem){.c = c,
                     .f = wide ? &c->lapack->f64 : &c->lapack->f32,
                     .scratch = scratch,
                     .which = which,
                     .size = wide ? sizeof(double) : sizeof(float),
                     .m = m,
                     .n = n,
                     .k = m < n ? m : n,
                     .right = c->sources > 1 ? (int)matrix_columns(&c->source[1]) : 0};
}

/* The matrix's part of an array of which one has n elements. */
static void *part_of(const problem *p, const routine_array *a, int64_t n) {
    return (char *)a->data + (size_t)(p->which * n) * p->size;
}
static const void *matrix_of(const problem *p) {
    return part_of(p, &p->c->source[0], (int64_t)p->m * p->n);
}
static size_t bytes_of(const problem *p, int64_t m, int64_t n) {
    return (size_t)(m * n) * p->size;
}
/* Numbers of the library's in scratch begin where any may. */
static size_t rounded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}
static void *take(char **at, size_t bytes) {
    void *out = *at;
    *at += rounded(bytes);
    return out;
}
static double number(const problem *p, const void *at, int64_t i) {
    return p->size == sizeof(double) ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

/* to[j, i] = from[i, j]; their rows are `step` and `m` apart. */
static void turn32(const float *from, int64_t step, float *to, int64_t m, extents e) {
    for (int64_t j = 0; j < e.n; j++)
        for (int64_t i = 0; i < e.m; i++) to[j * m + i] = from[i * step + j];
}
static void turn64(const double *from, int64_t step, double *to, int64_t m, extents e) {
    for (int64_t j = 0; j < e.n; j++)
        for (int64_t i = 0; i < e.m; i++) to[j * m + i] = from[i * step + j];
}

/* The transpose of [m, n], whose rows are `step` apart, by blocks that stay in the first cache. */
static void turn(const problem *p, const void *from, int64_t step, void *to, int64_t m, int64_t n) {
    enum { SIDE = 16 };
    for (int64_t i = 0; i < m; i += SIDE)
        for (int64_t j = 0; j < n; j += SIDE) {
            extents e = {m - i < SIDE ? m - i : SIDE, n - j < SIDE ? n - j : SIDE, 0};
            if (p->size == sizeof(double))
                turn64((const double *)from + i * step + j, step, (double *)to + j * m + i, m, e);
            else
                turn32((const float *)from + i * step + j, step, (float *)to + j * m + i, m, e);
        }
}

static bool all_finite(const problem *p, bool lower) {
    const void *a = matrix_of(p);
    for (int64_t i = 0; i < p->m; i++) {
        double sum = 0; /* of zeros, or NaN */
        for (int64_t j = 0; j < (lower ? i + 1 : p->n); j++) sum += 0 * number(p, a, i * p->n + j);
        if (isnan(sum)) return false;
    }
    return true;
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

static size_t scratch_none(const problem *p) {
    (void)p;
    return 0;
}

static bool lapack_cholesky(const problem *p) {
    char *l = part_of(p, &p->c->result[0], (int64_t)p->n * p->n);
    size_t row = bytes_of(p, 1, p->n);
    int info = 0;
    memcpy(l, matrix_of(p), bytes_of(p, p->n, p->n));
    p->f->potrf("U", &p->n, l, &p->n, &info, 1);
    for (size_t i = 0; i < (size_t)p->n; i++)
        memset(l + i * row + (i + 1) * p->size, 0, row - (i + 1) * p->size);
    return info == 0;
}

/* ---- systems --------------------------------------------------------------------------------- */

/* x t = b, x in place of b [rows, n] by columns. */
typedef struct right_system {
    const char *uplo, *trans, *diag;
} right_system;
static void solve_right(const problem *p, right_system s, const void *t, void *b) {
    static const double one64 = 1;
    static const float one32 = 1;
    const void *one = p->size == sizeof(double) ? (const void *)&one64 : (const void *)&one32;
    p->f->trsm("R", s.uplo, s.trans, s.diag, &p->right, &p->n, one, t, &p->n, b, &p->right, 1, 1, 1,
               1);
}

static void *result_from_right(const problem *p) {
    int64_t n = (int64_t)p->n * p->right;
    void *x = part_of(p, &p->c->result[0], n);
    memcpy(x, part_of(p, &p->c->source[1], n), bytes_of(p, 1, n));
    return x;
}

static bool lapack_solve_triangular(const problem *p) {
    bool upper = p->c->what.attr[0] != 0, turned = p->c->what.attr[1] != 0;
    bool unit = p->c->what.attr[2] != 0;
    solve_right(p, (right_system){upper ? "L" : "U", turned ? "T" : "N", unit ? "U" : "N"},
                matrix_of(p), result_from_right(p));
    return true;
}

static size_t scratch_solve(const problem *p) {
    return rounded(bytes_of(p, p->n, p->n)) + rounded((size_t)p->n * sizeof(int)) +
           bytes_of(p, 1, p->right);
}

/* The factors of M, rows exchanged as `pivot` says, from 1 on. */
static void *factored(const problem *p, char **at, int **pivot) {
    void *a = take(at, bytes_of(p, p->n, p->n));
    int info = 0;
    *pivot = take(at, (size_t)p->n * sizeof(int));
    memcpy(a, matrix_of(p), bytes_of(p, p->n, p->n));
    p->f->getrf(&p->n, &p->n, a, &p->n, *pivot, &info);
    return a;
}

static void exchange(const problem *p, char *x, int i, int k, void *spare) {
    size_t row = bytes_of(p, 1, p->right);
    if (i == k) return;
    memcpy(spare, x + (size_t)i * row, row);
    memcpy(x + (size_t)i * row, x + (size_t)k * row, row);
    memcpy(x + (size_t)k * row, spare, row);
}

static bool lapack_solve(const problem *p) {
    char *at = p->scratch, *x = result_from_right(p);
    int *pivot;
    void *a = factored(p, &at, &pivot);
    if (!p->c->what.attr[0]) { /* x' P L U = b' */
        solve_right(p, (right_system){"U", "N", "N"}, a, x);
        solve_right(p, (right_system){"L", "N", "U"}, a, x);
        for (int i = p->n; i-- > 0;) exchange(p, x, i, pivot[i] - 1, at);
    } else { /* x' U' L' P' = b' */
        for (int i = 0; i < p->n; i++) exchange(p, x, i, pivot[i] - 1, at);
        solve_right(p, (right_system){"L", "T", "U"}, a, x);
        solve_right(p, (right_system){"U", "T", "N"}, a, x);
    }
    return true;
}

static bool lapack_determinant(const problem *p) {
    char *at = p->scratch;
    int *pivot;
    void *a = factored(p, &at, &pivot);
    double v[3] = {1, 0, 1};
    for (int i = 0; i < p->n; i++) {
        double d = number(p, a, (int64_t)i * p->n + i), sign = pivot[i] == i + 1 ? 1 : -1;
        v[0] *= isnan(d) ? d : sign * ((d > 0) - (d < 0));
        v[1] += log(fabs(d));
        v[2] *= sign * d;
    }
    for (int i = 0; i < 3; i++)
        if (routine_wants(p->c, i)) vector_store(&p->c->result[i], p->which, 1, &v[i]);
    return true;
}

/* ---- QR -------------------------------------------------------------------------------------- */

/* What a function said that it would like to work with. */
static int asked_for(const problem *p, const double *said) {
    return (int)number(p, said, 0) + 1;
}

static int qr_work(const problem *p) {
    double said[2] = {0}, none = 0;
    int info, factor, make;
    p->f->geqrf(&p->m, &p->n, &none, &p->m, &none, said, &minus_one, &info);
    factor = asked_for(p, said);
    p->f->orgqr(&p->m, &p->k, &p->k, &none, &p->m, &none, said, &minus_one, &info);
    make = asked_for(p, said);
    return factor > make ? factor : make;
}

static size_t scratch_qr(const problem *p) {
    return rounded(bytes_of(p, p->m, p->n)) + rounded(bytes_of(p, 1, p->k)) +
           bytes_of(p, 1, qr_work(p));
}

static bool lapack_qr(const problem *p) {
    const routine_call *c = p->c;
    int work_size = qr_work(p), info = 0;
    char *at = p->scratch;
    void *a = take(&at, bytes_of(p, p->m, p->n)), *tau = take(&at, bytes_of(p, 1, p->k));
    turn(p, matrix_of(p), p->n, a, p->m, p->n);
    p->f->geqrf(&p->m, &p->n, a, &p->m, tau, at, &work_size, &info);
    if (routine_wants(c, 1)) {
        char *r = part_of(p, &c->result[1], (int64_t)p->k * p->n);
        turn(p, a, p->m, r, p->n, p->k);
        for (int64_t i = 1; i < p->k; i++) memset(r + bytes_of(p, i, p->n), 0, bytes_of(p, 1, i));
    }
    if (!routine_wants(c, 0)) return true;
    p->f->orgqr(&p->m, &p->k, &p->k, a, &p->m, tau, at, &work_size, &info);
    turn(p, a, p->m, part_of(p, &c->result[0], (int64_t)p->m * p->k), p->k, p->m);
    return true;
}

/* ---- eigenvalues, singular values ------------------------------------------------------------ */

typedef struct work_sizes {
    int numbers, integers;
} work_sizes;

static work_sizes eigh_work(const problem *p) {
    double said[2] = {0}, none = 0;
    work_sizes w = {.integers = 1};
    int info;
    p->f->syevd("V", "U", &p->n, &none, &p->n, &none, said, &minus_one, &w.integers, &minus_one,
                &info, 1, 1);
    w.numbers = asked_for(p, said);
    return w;
}

static size_t scratch_eigh(const problem *p) {
    work_sizes w = eigh_work(p);
    return rounded(bytes_of(p, p->n, p->n)) + rounded(bytes_of(p, 1, p->n)) +
           rounded(bytes_of(p, 1, w.numbers)) + (size_t)w.integers * sizeof(int);
}

static bool lapack_eigh(const problem *p) {
    const routine_call *c = p->c;
    work_sizes size = eigh_work(p);
    char *at = p->scratch;
    int info = 0;
    void *a = take(&at, bytes_of(p, p->n, p->n)), *w = take(&at, bytes_of(p, 1, p->n));
    void *work = take(&at, bytes_of(p, 1, size.numbers));
    if (!all_finite(p, true)) return false;
    memcpy(a, matrix_of(p), bytes_of(p, p->n, p->n));
    p->f->syevd("V", "U", &p->n, a, &p->n, w, work, &size.numbers, (int *)(void *)at,
                &size.integers, &info, 1, 1);
    if (info) return false;
    if (routine_wants(c, 0)) memcpy(part_of(p, &c->result[0], p->n), w, bytes_of(p, 1, p->n));
    if (routine_wants(c, 1))
        turn(p, a, p->n, part_of(p, &c->result[1], (int64_t)p->n * p->n), p->n, p->n);
    return true;
}

static int svd_work(const problem *p) {
    double said[2] = {0}, none = 0;
    int info, integer;
    p->f->gesdd("S", &p->n, &p->m, &none, &p->n, &none, &none, &p->n, &none, &p->k, said,
                &minus_one, &integer, &info, 1);
    return asked_for(p, said);
}

static size_t scratch_svd(const problem *p) {
    return rounded(bytes_of(p, p->m, p->n)) + rounded(bytes_of(p, 1, p->k)) +
           rounded(bytes_of(p, p->m, p->k)) + rounded(bytes_of(p, p->k, p->n)) +
           rounded(bytes_of(p, 1, svd_work(p))) + 8 * (size_t)p->k * sizeof(int);
}

/* M = V S U': its left factor by columns is our right one by rows, and the other way round. */
static bool lapack_svd(const problem *p) {
    const routine_call *c = p->c;
    char *at = p->scratch;
    int size = svd_work(p), info = 0;
    void *a = take(&at, bytes_of(p, p->m, p->n)), *s = take(&at, bytes_of(p, 1, p->k));
    void *u = take(&at, bytes_of(p, p->m, p->k)), *v = take(&at, bytes_of(p, p->k, p->n));
    void *work = take(&at, bytes_of(p, 1, size));
    if (!all_finite(p, false)) return false;
    if (routine_wants(c, 0)) u = part_of(p, &c->result[0], (int64_t)p->m * p->k);
    if (routine_wants(c, 2)) v = part_of(p, &c->result[2], (int64_t)p->k * p->n);
    memcpy(a, matrix_of(p), bytes_of(p, p->m, p->n));
    p->f->gesdd("S", &p->n, &p->m, a, &p->n, s, v, &p->n, u, &p->k, work, &size, (int *)(void *)at,
                &info, 1);
    if (info) return false;
    if (routine_wants(c, 1)) memcpy(part_of(p, &c->result[1], p->k), s, bytes_of(p, 1, p->k));
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct {
    size_t (*scratch)(const problem *p);
    bool (*run)(const problem *p);
} rows[ROUTINE_COUNT] = {
#define X(NAME, name, need) [ROUTINE_##NAME] = {scratch_##need, lapack_##name},
    LAPACK_ROUTINES(X)
#undef X
};

/* Its integers have 32 bits, also those that count what it works with. */
bool lapack_suits(const routine_call *c) {
    const routine_array *a = &c->source[0];
    if (!rows[c->what.routine].run || (a->dtype != QN_F32 && a->dtype != QN_F64)) return false;
    int64_t m = matrix_rows(a), n = matrix_columns(a), right = 1, most = 1 << 14;
    if (c->sources > 1) right = matrix_columns(&c->source[1]);
    if (m > most || n > most || right < 1 || right > INT32_MAX / most) return false;
    return m >= LAPACK_FROM && n >= LAPACK_FROM;
}

size_t lapack_scratch(const routine_call *c) {
    problem p = problem_of(c, NULL, 0);
    return rows[c->what.routine].scratch(&p);
}

bool lapack_run(const routine_call *c, void *scratch, int64_t which) {
    problem p = problem_of(c, scratch, which);
    return rows[c->what.routine].run(&p);
}
