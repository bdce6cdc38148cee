/* test_linalg.c - linear algebra on `ref`, on the CPU and on OpenCL where it is here. Values are
 * held against identities, computed here in long double: L L' = a, a x = b, Q' Q = 1, a v = w v,
 * and against values worked out by hand; gradients against central differences in f64, second ones
 * against differences of first ones. All of it holds with a LAPACK and without; where none but the
 * plain one is installed that is taken. */
#include "device_here.h"
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

enum { MOST = 3 * 90 * 90, DEVICES = 4 };

static void ignore(void *user, const char *line) {
    (void)user, (void)line;
}

static qn_ctx *open_[DEVICES];
static int opened;
static uint64_t seed = 5;

static bool has_lapack(qn_ctx *qn) {
    return strstr(qn_device_facts(qn), "linear algebra: LAPACK");
}

/* The second one has a LAPACK, if any is here. */
static void open_devices(void) {
    static const char *const wanted[DEVICES] = {"cpu", "cpu", "ref", "opencl"};
    const char *given = getenv("QN_LAPACK");
    for (int i = 0; i < DEVICES; i++) {
        if (!strcmp(wanted[i], "opencl") && !device_here("opencl")) continue;
        setenv("QN_LAPACK", i != 1 ? "no" : given ? given : "", 1);
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = wanted[i], .threads = 1 + 2 * (i == 0)));
        if (i == 1 && !given && !has_lapack(qn)) {
            qn_close(qn);
            setenv("QN_LAPACK", "liblapack.so.3", 1);
            qn = qn_open(&QN_OPTIONS(.device = "cpu", .log = ignore));
            if (!has_lapack(qn)) printf("    without a LAPACK: none is installed\n");
        }
        if (qn) open_[opened++] = qn;
    }
    if (given) setenv("QN_LAPACK", given, 1);
}

#define EACH(qn) for (int at_ = 0; at_ < opened && ((qn) = open_[at_]); at_++)

typedef struct matrix {
    int64_t m, n;
    double v[MOST];
} matrix;

static void read_matrix(qn_tensor *t, int64_t which, matrix *out) {
    static double all[MOST];
    int rank = qn_rank(t);
    *out = (matrix){.m = rank > 1 ? qn_dim(t, -2) : 1, .n = rank ? qn_dim(t, -1) : 1};
    qn_tensor *wide = qn_contiguous(qn_cast(t, QN_F64));
    CHECK_INT(qn_read(wide, all, (size_t)qn_numel(t) * 8), 0);
    memcpy(out->v, all + which * out->m * out->n, (size_t)(out->m * out->n) * 8);
}

static void check_product(const matrix *a, bool turn_a, const matrix *b, bool turn_b,
                          const matrix *want, double within, const char *what) {
    int64_t m = turn_a ? a->n : a->m, k = turn_a ? a->m : a->n, n = turn_b ? b->m : b->n;
    double worst = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0, size = 1;
            for (int64_t l = 0; l < k; l++) {
                long double u = turn_a ? a->v[l * a->n + i] : a->v[i * a->n + l];
                long double v = turn_b ? b->v[j * b->n + l] : b->v[l * b->n + j];
                sum += u * v;
                size += fabsl(u * v);
            }
            double wanted = want ? want->v[i * n + j] : i == j;
            double off = (double)(fabsl(sum - (long double)wanted) / size);
            if (!(off <= worst)) worst = off;
        }
    if (!(worst <= within)) FAIL("%s [%d, %d]: off by %g", what, (int)m, (int)n, worst);
}

static qn_tensor *random_of(qn_ctx *qn, qn_dtype d, int64_t batch, int64_t m, int64_t n) {
    static double x[MOST];
    for (int64_t i = 0; i < batch * m * n; i++) x[i] = 2 * test_uniform(&seed) - 1;
    return qn_cast(qn_from(qn, QN_F64, 3, (int64_t[]){batch, m, n}, x), d);
}

static qn_tensor *positive_of(qn_ctx *qn, qn_dtype d, int64_t batch, int64_t n) {
    qn_tensor *x = random_of(qn, QN_F64, batch, n, n);
    qn_tensor *a = qn_add(qn_matmul(x, qn_transpose(x, -1, -2)), qn_eye(qn, QN_F64, n, n));
    a = qn_contiguous(qn_cast(a, d));
    CHECK_INT(qn_realize(1, &a), 0);
    return a;
}

static const int64_t sizes[] = {1, 2, 3, 7, 33, 70, 90};
static matrix a, b, c, d;

static double epsilon_of(qn_dtype dtype) {
    return dtype == QN_F64 ? 0x1p-52 : dtype == QN_F32 ? 0x1p-23 : 0x1p-10;
}

static void factors_and_solutions_fit(void) {
    qn_ctx *qn;
    EACH(qn)
    for (int dtype = QN_F32; dtype <= QN_F64; dtype++)
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            qn_scope s = qn_scope_begin(qn);
            int64_t n = sizes[i];
            double within = 8 * (double)n * epsilon_of((qn_dtype)dtype);
            qn_tensor *x = positive_of(qn, (qn_dtype)dtype, 3, n), *y;
            qn_tensor *l = qn_cholesky(x, false);
            y = random_of(qn, (qn_dtype)dtype, 3, n, 5);
            qn_tensor *r = qn_solve(x, y), *t = qn_solve_triangular(l, y, false, true, false);
            qn_tensor *inverse = qn_inv(x);
            for (int64_t k = 0; k < 3; k += 2) {
                read_matrix(x, k, &a);
                read_matrix(l, k, &b);
                check_product(&b, false, &b, true, &a, within, "cholesky");
                for (int64_t p = 0; p < n; p++)
                    for (int64_t q = p + 1; q < n; q++) CHECK(b.v[p * n + q] == 0);
                read_matrix(y, k, &d);
                read_matrix(t, k, &c);
                check_product(&b, true, &c, false, &d, within, "solve_triangular");
                read_matrix(r, k, &c);
                check_product(&a, false, &c, false, &d, 40 * within, "solve");
                read_matrix(inverse, k, &c);
                check_product(&a, false, &c, false, NULL, 40 * within, "inv");
            }
            qn_scope_end(qn, s);
        }
}

static void turned_matrices_fit(void) {
    static matrix q, r, v;
    qn_ctx *qn;
    EACH(qn)
    for (int dtype = QN_F32; dtype <= QN_F64; dtype++)
        for (size_t i = 0; i < 2 * COUNT_OF(sizes); i++) {
            qn_scope s = qn_scope_begin(qn);
            int64_t m = sizes[i % COUNT_OF(sizes)],
                    n = sizes[(i * 6 + i / 7 + 4) % COUNT_OF(sizes)];
            double within = 16 * (double)(m + n) * epsilon_of((qn_dtype)dtype);
            qn_tensor *x = random_of(qn, (qn_dtype)dtype, 2, m, n), *u, *w, *t;
            x = qn_contiguous(x);
            CHECK_INT(qn_realize(1, &x), 0);
            CHECK_INT(qn_qr(x, &u, &w), 0);
            read_matrix(x, 1, &a);
            read_matrix(u, 1, &q);
            read_matrix(w, 1, &r);
            check_product(&q, false, &r, false, &a, within, "qr");
            check_product(&q, true, &q, false, NULL, within, "q'q");
            for (int64_t p = 1; p < r.m; p++)
                for (int64_t k = 0; k < p; k++) CHECK(r.v[p * r.n + k] == 0);
            CHECK_INT(qn_svd(x, &u, &w, &t), 0);
            read_matrix(u, 1, &q);
            read_matrix(t, 1, &v);
            check_product(&q, true, &q, false, NULL, within, "u'u");
            check_product(&v, false, &v, true, NULL, within, "vh vh'");
            read_matrix(qn_unsqueeze(w, 1), 1, &r);
            for (int64_t k = 0; k < r.n; k++) {
                CHECK(r.v[k] >= 0 && (k == 0 || r.v[k] <= r.v[k - 1]));
                for (int64_t p = 0; p < m; p++) q.v[p * q.n + k] *= r.v[k];
            }
            check_product(&q, false, &v, false, &a, within, "svd");
            qn_tensor *symmetric = qn_add(qn_matmul(x, qn_transpose(x, -1, -2)),
                                          qn_full(qn, (qn_dtype)dtype, 0, NULL, -1));
            symmetric = qn_contiguous(symmetric);
            CHECK_INT(qn_realize(1, &symmetric), 0);
            CHECK_INT(qn_eigh(symmetric, &w, &u), 0);
            read_matrix(symmetric, 1, &a);
            read_matrix(u, 1, &q);
            read_matrix(qn_unsqueeze(w, 1), 1, &r);
            check_product(&q, true, &q, false, NULL, within, "v'v");
            v = q;
            for (int64_t k = 0; k < m; k++) {
                CHECK(k == 0 || r.v[k] >= r.v[k - 1]);
                for (int64_t p = 0; p < m; p++) v.v[p * m + k] *= r.v[k];
            }
            check_product(&v, false, &q, true, &a, 4 * within, "eigh");
            qn_scope_end(qn, s);
        }
}

static double at(qn_tensor *t, int64_t i) {
    double v[64] = {0};
    CHECK_INT(qn_read(qn_contiguous(qn_cast(t, QN_F64)), v, (size_t)qn_numel(t) * 8), 0);
    return v[i];
}

static void small_ones_worked_out_by_hand(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        double x[] = {2, 1, 5, 3}, singular[] = {1, 2, 2, 4}, w[] = {1, 2, 3}, e[] = {0, 1, 0, 0};
        qn_tensor *t = qn_from(qn, QN_F64, 2, (int64_t[]){2, 2}, x), *sign, *size;
        CHECK_NEAR(at(qn_det(t), 0), 1, 1e-14, 0);
        static const double inverse[] = {3, -1, -5, 2}, cube[] = {43, 24, 120, 67};
        for (int i = 0; i < 4; i++) CHECK_NEAR(at(qn_inv(t), i), inverse[i], 1e-13, 0);
        for (int i = 0; i < 4; i++) CHECK_NEAR(at(qn_matrix_power(t, 3), i), cube[i], 1e-13, 0);
        for (int i = 0; i < 4; i++) CHECK(at(qn_matrix_power(t, 0), i) == (i == 0 || i == 3));
        CHECK_INT(qn_slogdet(qn_neg(qn_mul(t, qn_like(t, 3))), &sign, &size), 0);
        CHECK(at(sign, 0) == 1);
        CHECK_NEAR(at(size, 0), log(9), 1e-14, 0);
        t = qn_from(qn, QN_F64, 2, (int64_t[]){2, 2}, singular);
        CHECK(at(qn_det(t), 0) == 0);
        CHECK_INT(qn_slogdet(t, &sign, &size), 0);
        CHECK(at(sign, 0) == 0 && at(size, 0) == -INFINITY);
        CHECK(at(qn_matrix_rank(t, -1), 0) == 1);
        CHECK(!isfinite(at(qn_inv(t), 0)));
        CHECK(isnan(at(qn_cholesky(qn_neg(t), false), 0)));
        for (int i = 0; i < 4; i++) CHECK_NEAR(at(qn_pinv(t, -1), i), singular[i] / 25, 1e-13, 0);
        t = qn_from(qn, QN_F64, 2, (int64_t[]){2, 2}, e);
        for (int i = 0; i < 4; i++) CHECK(at(qn_matrix_exp(t), i) == (i != 2));
        t = qn_mul(qn_eye(qn, QN_F64, 2, 2), qn_scalar(qn, QN_F64, 9));
        CHECK_NEAR(at(qn_matrix_exp(t), 0), exp(9), 1e-14, 0);
        t = qn_from(qn, QN_F64, 1, (int64_t[]){3}, w);
        qn_tensor *u = qn_from(qn, QN_F64, 1, (int64_t[]){3}, (double[]){4, 5, 6});
        for (int i = 0; i < 3; i++) CHECK(at(qn_cross(t, u, 0), i) == (i == 1 ? 6 : -3));
        for (int i = 0; i < 9; i++) CHECK(at(qn_kron(t, u), i) == w[i / 3] * (4 + i % 3));
        qn_scope_end(qn, s);
    }
}

/* Singular values count that are larger than the size times the dtype's epsilon, which is 2^-3 of
 * f8_e4m3 and 2^-2 of f8_e5m2: of two rows beside 1 those above 1/4, above 1/2. */
static void ranks_go_by_the_dtypes_epsilon(void) {
    static const struct {
        qn_dtype dtype;
        double second;
        int rank;
    } of[] = {{QN_F8_E4M3, 0.1875, 1}, {QN_F8_E4M3, 0.375, 2}, {QN_F8_E5M2, 0.375, 1},
              {QN_F8_E5M2, 0.75, 2},   {QN_BF16, 0x1p-7, 1},   {QN_BF16, 0x1p-5, 2},
              {QN_F16, 0x1p-10, 1},    {QN_F16, 0x1p-8, 2},    {QN_F32, 0x1p-23, 1},
              {QN_F32, 0x1p-21, 2},    {QN_F64, 0x1p-52, 1},   {QN_F64, 0x1p-50, 2}};
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        for (size_t i = 0; i < COUNT_OF(of); i++) {
            const double values[] = {1, 0, 0, of[i].second};
            qn_tensor *t = qn_cast(qn_from(qn, QN_F64, 2, (int64_t[]){2, 2}, values), of[i].dtype);
            CHECK_INT((int64_t)at(qn_matrix_rank(t, -1), 0), of[i].rank);
            CHECK_INT(at(qn_pinv(t, -1), 3) > 0, of[i].rank > 1);
        }
        qn_scope_end(qn, s);
    }
}

/* Residuals of least squares are orthogonal to the columns; of too few rows x is in their span. */
static void least_squares_are_least(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *x = random_of(qn, QN_F64, 2, 9, 4), *y = random_of(qn, QN_F64, 1, 9, 3);
        qn_tensor *r = qn_sub(qn_matmul(x, qn_lstsq(x, y)), y);
        qn_tensor *none = qn_matmul(qn_transpose(x, -1, -2), r);
        CHECK(at(qn_max(qn_abs(none), QN_ALL, false), 0) < 1e-13);
        x = qn_transpose(x, -1, -2);
        y = random_of(qn, QN_F64, 1, 4, 3);
        r = qn_sub(qn_lstsq(x, y), qn_matmul(qn_pinv(x, -1), y));
        CHECK(at(qn_max(qn_abs(r), QN_ALL, false), 0) < 1e-12);
        qn_scope_end(qn, s);
    }
}

static void nothing_is_a_matrix_too(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *x = qn_zeros(qn, QN_F32, 3, (int64_t[]){2, 0, 0}), *q, *r;
        CHECK(at(qn_det(x), 1) == 1);
        CHECK_INT(qn_numel(qn_inv(x)), 0);
        CHECK_INT(qn_qr(qn_zeros(qn, QN_F32, 2, (int64_t[]){3, 0}), &q, &r), 0);
        CHECK_INT(qn_numel(q), 0);
        CHECK(!qn_inv(qn_zeros(qn, QN_F32, 2, (int64_t[]){2, 3})));
        CHECK_INT(qn_error_code(qn), QN_ESHAPE);
        qn_clear_error(qn);
        qn_scope_end(qn, s);
    }
}

/* ---- large ones, by LAPACK where there is one ---- */

static qn_tensor *filled(qn_ctx *qn, qn_dtype dtype, int64_t n, double diagonal, double at_one) {
    qn_tensor *x = qn_mul(qn_eye(qn, dtype, n, n), qn_full(qn, dtype, 0, NULL, diagonal));
    const int64_t dims[] = {n, n};
    qn_tensor *i = qn_iota(qn, QN_I64, 2, dims, 0), *k = qn_iota(qn, QN_I64, 2, dims, 1);
    qn_tensor *one = qn_scalar(qn, QN_I64, 1), *here = qn_and(qn_eq(i, one), qn_eq(k, one));
    return qn_where(here, qn_full(qn, dtype, 0, NULL, at_one), x);
}

/* What has no answer has none by either way. */
static void what_has_no_answer_has_none(void) {
    qn_ctx *qn;
    EACH(qn)
    for (int64_t n = 3; n < 90; n += 80)
        for (int dtype = QN_F32; dtype <= QN_F64; dtype++) {
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *x = filled(qn, (qn_dtype)dtype, n, 2, -1), *sign, *size, *w, *v;
            qn_tensor *l = qn_cast(qn_cholesky(x, false), QN_F64);
            CHECK_NEAR(at(qn_select(qn_select(l, 0, 0), 0, 0), 0), sqrt(2), 1e-7, 0);
            CHECK(isnan(at(qn_select(qn_select(l, 0, 1), 0, 1), 0)));
            CHECK(at(qn_select(qn_select(l, 0, 0), 0, 1), 0) == 0);
            CHECK(at(qn_sum(qn_isnan(l), QN_ALL, false), 0) >= 1);
            x = filled(qn, (qn_dtype)dtype, n, -2, 0);
            CHECK_INT(qn_slogdet(x, &sign, &size), 0);
            CHECK(at(sign, 0) == 0 && at(size, 0) == -INFINITY && at(qn_det(x), 0) == 0);
            CHECK(!isfinite(at(qn_sum(qn_inv(x), QN_ALL, false), 0)));
            x = filled(qn, (qn_dtype)dtype, n, -1, 3);
            CHECK_INT(qn_slogdet(x, &sign, &size), 0);
            CHECK(at(sign, 0) == (n % 2 ? 1 : -1));
            CHECK_NEAR(at(size, 0), log(3), 1e-6, 0);
            x = filled(qn, (qn_dtype)dtype, n, 1, NAN);
            CHECK_INT(qn_eigh(x, &w, &v), 0);
            CHECK(isnan(at(qn_sum(w, QN_ALL, false), 0)));
            CHECK_INT(qn_svd(x, NULL, &w, NULL), 0);
            CHECK(isnan(at(qn_sum(w, QN_ALL, false), 0)));
            qn_scope_end(qn, s);
        }
}

/* Huge, tiny, of one value many times, of diagonals and of rank one: A v = v w, v' v = 1. */
static void symmetric_extremes_fit(void) {
    static const double sizes_of[] = {1e300, 1e-300, 1, 0};
    static matrix v;
    qn_ctx *qn;
    EACH(qn)
    for (int kind = 0; kind < 12; kind++) {
        qn_scope s = qn_scope_begin(qn);
        const int64_t n = 66, dims[] = {n, n};
        double size = sizes_of[kind % 4];
        qn_tensor *x = random_of(qn, QN_F64, 1, n, n), *w, *u;
        x = qn_reshape(x, 2, dims);
        x = kind / 4 == 0   ? qn_add(x, qn_transpose(x, 0, 1))
            : kind / 4 == 1 ? qn_full(qn, QN_F64, 2, dims, 0.5)
                            : filled(qn, QN_F64, n, 1, -0.25);
        x = qn_contiguous(qn_mul(x, qn_full(qn, QN_F64, 0, NULL, size)));
        CHECK_INT(qn_realize(1, &x), 0);
        CHECK_INT(qn_eigh(x, &w, &u), 0);
        read_matrix(x, 0, &a);
        read_matrix(u, 0, &v);
        read_matrix(w, 0, &b);
        check_product(&v, true, &v, false, NULL, 1e-13, "v'v");
        for (int64_t i = 0; i < n * n && size > 0; i++) a.v[i] /= size;
        c = (matrix){.m = n, .n = n};
        for (int64_t i = 0; i < n * n; i++) c.v[i] = v.v[i] * b.v[i % n] / (size > 0 ? size : 1);
        check_product(&a, false, &v, false, &c, 1e-13, "a v");
        qn_scope_end(qn, s);
    }
}

/* Rows whose elements beside the diagonal are next to nothing of the largest: their squares are no
 * numbers any more. Points far apart have such kernels. */
static void symmetric_matrices_of_mixed_sizes(void) {
    static const double at[] = {0, 26.8, 26.85, 60}, steps[] = {1e-150, 1e-155, 1e-162, 1e-170};
    qn_ctx *qn;
    EACH(qn)
    for (int kind = 0; kind < 5; kind++) {
        qn_scope s = qn_scope_begin(qn);
        const int64_t n = 4;
        double v[16];
        for (int64_t i = 0; i < n * n; i++) {
            double apart = at[i / n] - at[i % n];
            v[i] = !kind            ? exp(-apart * apart / 2)
                   : i / n == i % n ? (double)(i / n + 1)
                                    : steps[kind - 1];
        }
        qn_tensor *x = qn_from(qn, QN_F64, 2, (const int64_t[]){n, n}, v), *w, *u;
        CHECK_INT(qn_eigh(x, &w, &u), 0);
        read_matrix(x, 0, &a);
        read_matrix(u, 0, &b);
        read_matrix(w, 0, &c);
        check_product(&b, true, &b, false, NULL, 1e-13, "v'v");
        matrix scaled = {.m = n, .n = n};
        for (int64_t i = 0; i < n * n; i++) scaled.v[i] = b.v[i] * c.v[i % n];
        check_product(&a, false, &b, false, &scaled, 1e-13, "a v");
        qn_scope_end(qn, s);
    }
}

/* Matrices in which something is 0, or all is: x of `kind`, of at least 66 rows and columns. */
static qn_tensor *extreme(qn_ctx *qn, int kind, int64_t m, int64_t n) {
    static double v[90 * 90];
    for (int64_t i = 0; i < m * n; i++) {
        int64_t r = i / n, k = i % n;
        double u = 2 * test_uniform(&seed) - 1;
        v[i] = kind == 0   ? u
               : kind == 1 ? 0.5
               : kind == 2 ? (r == k) * (r % 5 ? 1 : -0.25)
               : kind == 3 ? (k == r + 1 || k == r) * (r % 7 ? u : 0) /* two diagonals with gaps */
               : kind == 4 ? (k % 3 ? u : 0)
               : kind == 5 ? ldexp(u, -(int)(r + k) * 4) /* graded */
               : kind == 6 ? (k == r + 1)                /* nilpotent */
                           : (r == 3 && k == 3);
    }
    return qn_from(qn, QN_F64, 2, (int64_t[]){m, n}, v);
}

/* Huge, tiny, singular, of one value many times: U S V' = x, U' U = 1, V' V = 1. */
static void singular_extremes_fit(void) {
    static const double sizes_of[] = {1, 1e300, 1e-300, 0};
    static matrix u, v;
    qn_ctx *qn;
    EACH(qn)
    for (int kind = 0; kind < 8 * 4 * 2; kind++) {
        qn_scope scope = qn_scope_begin(qn);
        double size = sizes_of[kind / 8 % 4];
        qn_tensor *x = extreme(qn, kind % 8, kind < 32 ? 66 : 90, 66), *l, *s, *r;
        if (kind % 3 == 0) x = qn_transpose(x, 0, 1);
        x = qn_contiguous(qn_mul(x, qn_full(qn, QN_F64, 0, NULL, size)));
        CHECK_INT(qn_realize(1, &x), 0);
        CHECK_INT(qn_svd(x, &l, &s, &r), 0);
        read_matrix(x, 0, &a);
        read_matrix(l, 0, &u);
        read_matrix(s, 0, &b);
        read_matrix(r, 0, &v);
        check_product(&u, true, &u, false, NULL, 1e-13, "u'u");
        check_product(&v, false, &v, true, NULL, 1e-13, "vh vh'");
        for (int64_t i = 0; i < b.n; i++) CHECK(b.v[i] >= 0 && (!i || b.v[i] <= b.v[i - 1]));
        for (int64_t i = 0; i < a.m * a.n && size > 0; i++) a.v[i] /= size;
        for (int64_t i = 0; i < u.m * u.n; i++) u.v[i] *= b.v[i % u.n] / (size > 0 ? size : 1);
        check_product(&u, false, &v, false, &a, 1e-13, "u s vh");
        qn_scope_end(qn, scope);
    }
}

/* Small ones of any size, by rotations: squares of what is in them overflow or vanish. */
static void small_singular_extremes_fit(void) {
    static const double size[] = {1, 1e300, 1e-300};
    static matrix u, v;
    qn_ctx *qn;
    EACH(qn)
    for (int kind = 0; kind < 3 * 3 * 2; kind++) {
        qn_scope scope = qn_scope_begin(qn);
        int64_t n = (int64_t[]){2, 3, 47}[kind % 3], m = n + 2 * (kind / 9);
        a = (matrix){.m = m, .n = n};
        for (int64_t i = 0; i < m * n; i++)
            b.v[i] = (a.v[i] = test_uniform(&seed)) * size[kind / 3 % 3];
        qn_tensor *x = qn_from(qn, QN_F64, 2, (int64_t[]){m, n}, b.v), *l, *s, *r;
        CHECK_INT(qn_svd(x, &l, &s, &r), 0);
        read_matrix(l, 0, &u);
        read_matrix(s, 0, &b);
        read_matrix(r, 0, &v);
        check_product(&u, true, &u, false, NULL, 1e-13, "u'u");
        check_product(&v, false, &v, true, NULL, 1e-13, "vh vh'");
        for (int64_t i = 0; i < n; i++) CHECK(b.v[i] > 0 && (!i || b.v[i] <= b.v[i - 1]));
        for (int64_t i = 0; i < m * n; i++) u.v[i] *= b.v[i % n] / size[kind / 3 % 3];
        check_product(&u, false, &v, false, &a, 1e-13, "u s vh");
        qn_scope_end(qn, scope);
    }
}

/* Values far apart are all found, also of rows that are not orthogonal and far below others: of
 * [[2, 1], [1, 2]] times 1e-200 below a 1 they are 3e-200 and 1e-200. */
static void singular_values_may_be_far_apart(void) {
    static const double two[4][2] = {{1e200, 1}, {1e-170, 1e-171}, {1, 1e-250}, {5e-324, 0}};
    static const double three[9] = {1, 0, 0, 0, 2e-200, 1e-200, 0, 1e-200, 2e-200};
    static matrix u, v;
    qn_ctx *qn;
    EACH(qn)
    for (int i = 0; i < 4; i++) {
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *x =
            qn_from(qn, QN_F64, 2, (int64_t[]){2, 2}, (double[]){two[i][0], 0, 0, two[i][1]});
        qn_tensor *l, *s, *r;
        CHECK_INT(qn_svd(x, NULL, &s, NULL), 0);
        CHECK_NEAR(at(s, 0), two[i][0], 0, 1e-15);
        if (!has_lapack(qn)) CHECK_NEAR(at(s, 1), two[i][1], 0, 1e-15);
        if (!i)
            CHECK_NEAR(at(qn_select(qn_select(qn_pinv(x, -1), 0, 0), 0, 0), 0), 1e-200, 0, 1e-15);
        CHECK_INT(qn_svd(qn_from(qn, QN_F64, 2, (int64_t[]){3, 3}, three), &l, &s, &r), 0);
        CHECK_NEAR(at(s, 0), 1, 0, 1e-15);
        if (!has_lapack(qn)) CHECK_NEAR(at(s, 1), 3e-200, 0, 1e-14);
        if (!has_lapack(qn)) CHECK_NEAR(at(s, 2), 1e-200, 0, 1e-14);
        read_matrix(l, 0, &u);
        read_matrix(r, 0, &v);
        check_product(&u, true, &u, false, NULL, 1e-14, "u'u");
        check_product(&v, false, &v, true, NULL, 1e-14, "vh vh'");
        qn_scope_end(qn, scope);
    }
}

/* Of a matrix with NaN or infinity in it all is NaN, whatever its size and that of the others. */
static void singular_values_of_what_is_not_finite_are_nan(void) {
    qn_ctx *qn;
    EACH(qn)
    for (int kind = 0; kind < 2 * 4; kind++) {
        qn_scope scope = qn_scope_begin(qn);
        int64_t n = (int64_t[]){2, 3, 47, 48}[kind / 2];
        qn_tensor *part[3];
        qn_tensor *x = filled(qn, QN_F64, n, 2, kind % 2 ? INFINITY : NAN);
        CHECK_INT(qn_svd(x, &part[0], &part[1], &part[2]), 0);
        for (int i = 0; i < 3; i++) CHECK(at(qn_all(qn_isnan(part[i]), QN_ALL, false), 0) == 1);
        qn_scope_end(qn, scope);
    }
}

/* A matrix of two diagonals has its smallest value to almost all digits: of ones and halves that of
 * order n is 2^-n or so, its inverse's elements are powers of 2. */
static void small_singular_values_are_exact(void) {
    enum { N = 60 };
    static double v[N * N], x[N];
    qn_ctx *qn;
    EACH(qn) {
        if (has_lapack(qn)) continue;
        qn_scope scope = qn_scope_begin(qn);
        for (int i = 0; i < N * N; i++) v[i] = i / N == i % N ? 0.5 : i / N + 1 == i % N;
        qn_tensor *s;
        CHECK_INT(qn_svd(qn_from(qn, QN_F64, 2, (int64_t[]){N, N}, v), NULL, &s, NULL), 0);
        /* 1 / smallest is the largest value of the inverse, by its powers: (inverse' inverse) x */
        long double y[N], z[N], most = 0, was = -1;
        for (int i = 0; i < N; i++) y[i] = 1;
        for (int turn = 0; turn < 200 && most != was; turn++) {
            was = most;
            for (int i = N - 1; i >= 0; i--) z[i] = 2 * (y[i] - (i + 1 < N ? z[i + 1] : 0));
            for (int i = 0; i < N; i++) y[i] = 2 * (z[i] - (i ? y[i - 1] : 0));
            most = 0;
            for (int i = 0; i < N; i++) most += y[i] * y[i];
            most = sqrtl(most);
            for (int i = 0; i < N; i++) y[i] /= most;
        }
        CHECK_INT(qn_read(s, x, sizeof x), 0);
        CHECK_NEAR(x[N - 1], (double)(1 / sqrtl(most)), 0, 1e-13);
        qn_scope_end(qn, scope);
    }
}

/* The way back of a system is one of the transpose. */
static void large_systems_go_back(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        const int64_t n = 70;
        qn_tensor *x = random_of(qn, QN_F64, 2, n, n), *y = random_of(qn, QN_F64, 2, n, 3), *g;
        qn_tensor *seed_ = random_of(qn, QN_F64, 2, n, 3);
        CHECK_INT(qn_grad(qn_solve(x, y), seed_, 1, &y, &g), 0);
        read_matrix(x, 1, &a);
        read_matrix(g, 1, &b);
        read_matrix(seed_, 1, &c);
        check_product(&a, true, &b, false, &c, 1e-11, "solve transposed");
        qn_scope_end(qn, s);
    }
}

/* Values alone are those beside vectors. */
static void values_alone_are_the_same(void) {
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        qn_tensor *x = positive_of(qn, QN_F64, 1, 70), *w, *only, *v;
        CHECK_INT(qn_eigh(x, &w, &v), 0);
        CHECK_INT(qn_realize(2, (qn_tensor *[]){w, v}), 0);
        CHECK_INT(qn_eigh(qn_mul(x, qn_like(x, 2)), &only, NULL), 0);
        for (int i = 0; i < 70; i += 23)
            CHECK_NEAR(at(qn_select(qn_select(only, -1, i), 0, 0), 0),
                       2 * at(qn_select(qn_select(w, -1, i), 0, 0), 0), 1e-10, 1e-10);
        CHECK_INT(qn_svd(qn_mul(x, qn_like(x, -1)), NULL, &only, NULL), 0);
        for (int i = 0; i < 70; i += 23)
            CHECK_NEAR(at(qn_select(qn_select(only, -1, i), 0, 0), 0),
                       at(qn_select(qn_select(w, -1, 69 - i), 0, 0), 0), 1e-10, 1e-10);
        qn_scope_end(qn, s);
    }
}

static void a_lapack_that_is_not_there_is_told_of(void) {
    setenv("QN_LAPACK", "/no/such.so", 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .log = ignore));
    CHECK(strstr(qn_device_facts(qn), "our own (/no/such.so is not here)"));
    CHECK(at(qn_det(qn_eye(qn, QN_F32, 80, 80)), 0) == 1);
    qn_close(qn);
    setenv("QN_LAPACK", "libm.so.6", 1);
    qn = qn_open(&QN_OPTIONS(.device = "cpu", .log = ignore));
    CHECK(strstr(qn_device_facts(qn), "our own (libm.so.6 is no LAPACK)"));
    qn_close(qn);
    unsetenv("QN_LAPACK");
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* A function of one matrix [4, 3], to anything; weighed and summed it is differentiated. */
typedef qn_tensor *subject(qn_tensor *x);

static qn_tensor *square_of(qn_tensor *x) { /* [3, 3], regular, without symmetry */
    qn_tensor *one = qn_eye(tensor_ctx(x), QN_F64, 3, 3);
    return qn_add(qn_slice(x, 0, 1, 4, 1), qn_mul(one, qn_like(one, 3)));
}

static qn_tensor *gram_of(qn_tensor *x) {
    qn_tensor *one = qn_eye(tensor_ctx(x), QN_F64, 3, 3);
    return qn_add(qn_matmul(qn_transpose(x, 0, 1), x), qn_mul(one, qn_like(one, 0.5)));
}

static qn_tensor *f_cholesky(qn_tensor *x) {
    return qn_cholesky(gram_of(x), false);
}
static qn_tensor *f_solve(qn_tensor *x) {
    return qn_solve(square_of(x), qn_transpose(qn_sin(x), 0, 1));
}
static qn_tensor *f_triangular(qn_tensor *x) {
    return qn_solve_triangular(square_of(x), qn_transpose(x, 0, 1), true, false, false);
}
static qn_tensor *f_unit(qn_tensor *x) {
    return qn_solve_triangular(square_of(x), qn_transpose(x, 0, 1), false, true, true);
}
static qn_tensor *f_inv(qn_tensor *x) {
    return qn_inv(square_of(x));
}
static qn_tensor *f_det(qn_tensor *x) {
    return qn_det(square_of(x));
}
static qn_tensor *f_slogdet(qn_tensor *x) {
    qn_tensor *t = NULL;
    qn_slogdet(square_of(x), NULL, &t);
    return t;
}
static qn_tensor *f_exp(qn_tensor *x) {
    return qn_matrix_exp(square_of(x));
}
static qn_tensor *f_qr(qn_tensor *x) {
    qn_tensor *q = NULL, *r = NULL;
    qn_qr(x, &q, &r);
    return qn_concat(2, (qn_tensor *[]){q, qn_square(r)}, 0);
}
static qn_tensor *f_eigh(qn_tensor *x) {
    qn_tensor *w = NULL, *v = NULL;
    qn_eigh(gram_of(x), &w, &v);
    return qn_mul(qn_square(v), qn_unsqueeze(qn_sin(w), 1)); /* whatever the vectors' signs are */
}
static qn_tensor *f_svd(qn_tensor *x) {
    qn_tensor *u = NULL, *s = NULL, *vh = NULL;
    qn_svd(x, &u, &s, &vh);
    qn_tensor *same = qn_matmul(u, qn_mul(qn_unsqueeze(qn_sin(s), 1), vh));
    return qn_add(same, qn_square(qn_dim(x, 0) < qn_dim(x, 1) ? vh : u));
}
static qn_tensor *f_svd_wide(qn_tensor *x) {
    return f_svd(qn_transpose(x, 0, 1));
}
static qn_tensor *f_lstsq(qn_tensor *x) {
    return qn_lstsq(x, qn_sin(qn_slice(x, 1, 0, 2, 1)));
}
static qn_tensor *f_pinv(qn_tensor *x) {
    return qn_pinv(x, -1);
}

/* Each singular value twice, also of what is near x. */
static qn_tensor *f_pinv_equal(qn_tensor *x) {
    return qn_pinv(qn_kron(qn_eye(tensor_ctx(x), QN_F64, 2, 2), x), -1);
}

static qn_tensor *scalar_of(subject *f, qn_tensor *x) {
    qn_ctx *qn = tensor_ctx(x);
    qn_tensor *y = f(x);
    int64_t dims[4] = {0};
    int rank = y ? qn_rank(y) : 0;
    if (!rank) return y;
    for (int i = 0; i < rank; i++) dims[i] = qn_dim(y, i);
    qn_tensor *w = qn_iota(qn, QN_F64, rank, dims, rank - 1);
    w = qn_sin(qn_mul(w, qn_scalar(qn, QN_F64, 1.7)));
    return qn_sum(qn_mul(y, qn_add(w, qn_scalar(qn, QN_F64, 1.2))), QN_ALL, false);
}

static double value_at(qn_ctx *qn, subject *f, const double *x, int order, int element) {
    qn_tensor *t = qn_from(qn, QN_F64, 2, (int64_t[]){4, 3}, x), *g = NULL;
    qn_tensor *y = scalar_of(f, t);
    if (!order) return at(y, 0);
    CHECK_INT(qn_grad(y, NULL, 1, &t, &g), 0);
    return at(g, element);
}

/* The derivative of order 1, or the second one by element 4 and each, is that of differences. */
static void check_gradient(qn_ctx *qn, const char *name, subject *f, int order) {
    double x[12];
    for (int i = 0; i < 12; i++) x[i] = sin(1.3 * i * i + 0.4) + (i == 4);
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *t = qn_from(qn, QN_F64, 2, (int64_t[]){4, 3}, x), *g = NULL;
    qn_tensor *y = scalar_of(f, t);
    if (!y) FAIL("%s: %s", name, qn_error(qn));
    for (int k = 0; k < order && y; k++) {
        CHECK_INT(qn_grad(y, NULL, 1, &t, &g), 0);
        y = qn_sum(qn_select(qn_select(g, 0, 1), 0, 1), QN_ALL, false);
    }
    for (int i = 0; i < 12 && y; i += order) {
        const double h = 1e-5;
        double was = x[i];
        qn_scope inner = qn_scope_begin(qn);
        x[i] = was + h;
        double up = value_at(qn, f, x, order - 1, 4);
        x[i] = was - h;
        double down = value_at(qn, f, x, order - 1, 4);
        x[i] = was;
        double want = (up - down) / (2 * h), got = at(g, i);
        if (!test_close(got, want, 1e-5, 1e-6))
            FAIL("%s, order %d, element %d: %g, by differences %g", name, order, i, got, want);
        qn_scope_end(qn, inner);
    }
    qn_scope_end(qn, s);
}

#define GRADIENT(f, orders)                                                                        \
    for (int order = 1; order <= (orders); order++) check_gradient(qn, #f, f, order);

static void gradients_are_those_of_differences(void) {
    qn_ctx *qn = open_[opened > 2 ? 2 : 0];
    GRADIENT(f_cholesky, 2)
    GRADIENT(f_solve, 2)
    GRADIENT(f_triangular, 2)
    GRADIENT(f_unit, 2)
    GRADIENT(f_inv, 2)
    GRADIENT(f_det, 2)
    GRADIENT(f_slogdet, 2)
    GRADIENT(f_exp, 2)
    GRADIENT(f_qr, 2)
    GRADIENT(f_eigh, 2)
    GRADIENT(f_svd, 1)
    GRADIENT(f_svd_wide, 1)
    GRADIENT(f_lstsq, 2)
    GRADIENT(f_pinv, 2)
    GRADIENT(f_pinv_equal, 2)
}

/* Of p = x+ and a seed s: -p's p' + (1 - xp) s' p p' + p' p s' (1 - px) (Golub and Pereyra 1973).
 * Where x is diag(1, 1, 0), so is p. */
static void a_pseudo_inverse_of_equal_singular_values_has_a_gradient(void) {
    static const double upstream[9] = {1, -2, 3, 5, 7, -11, 13, 17, -19};
    static const double part[9] = {1, 0, 0, 0, 1, 0, 0, 0, 0},
                        want[9] = {-1, 2, 13, -5, -7, 17, 3, -11, 0};
    qn_ctx *qn;
    EACH(qn) {
        qn_scope scope = qn_scope_begin(qn);
        qn_tensor *s = qn_from(qn, QN_F64, 2, (int64_t[]){3, 3}, upstream), *g;
        qn_tensor *x = qn_from(qn, QN_F64, 2, (int64_t[]){3, 3}, part);
        CHECK_INT(qn_grad(qn_pinv(x, -1), s, 1, &x, &g), 0);
        for (int i = 0; i < 9; i++) CHECK_NEAR(at(g, i), want[i], 1e-12, 1e-12);
        double unit[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
        x = qn_from(qn, QN_F64, 2, (int64_t[]){3, 3}, unit);
        CHECK_INT(qn_grad(qn_pinv(x, -1), s, 1, &x, &g), 0);
        for (int i = 0; i < 9; i++) CHECK_NEAR(at(g, i), -upstream[i], 1e-12, 1e-12);
        qn_scope_end(qn, scope);
    }
}

/* The compiled way has the same gradients: one of each kind. */
static void the_cpu_has_them_too(void) {
    qn_ctx *qn = open_[0];
    GRADIENT(f_cholesky, 1)
    GRADIENT(f_det, 1)
}

static void no_gradient_is_an_error(void) {
    qn_ctx *qn = open_[0];
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *x = random_of(qn, QN_F64, 1, 2, 3), *q = NULL, *g = NULL;
    x = qn_contiguous(x);
    CHECK_INT(qn_realize(1, &x), 0);
    CHECK_INT(qn_qr(x, &q, NULL), 0);
    CHECK_INT(qn_grad(qn_sum(q, QN_ALL, false), NULL, 1, &x, &g), QN_EGRAPH);
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    open_devices();
    RUN(factors_and_solutions_fit);
    RUN(turned_matrices_fit);
    RUN(small_ones_worked_out_by_hand);
    RUN(ranks_go_by_the_dtypes_epsilon);
    RUN(least_squares_are_least);
    RUN(nothing_is_a_matrix_too);
    RUN(what_has_no_answer_has_none);
    RUN(symmetric_extremes_fit);
    RUN(singular_extremes_fit);
    RUN(small_singular_extremes_fit);
    RUN(singular_values_may_be_far_apart);
    RUN(singular_values_of_what_is_not_finite_are_nan);
    RUN(small_singular_values_are_exact);
    RUN(symmetric_matrices_of_mixed_sizes);
    RUN(large_systems_go_back);
    RUN(values_alone_are_the_same);
    RUN(gradients_are_those_of_differences);
    RUN(a_pseudo_inverse_of_equal_singular_values_has_a_gradient);
    RUN(the_cpu_has_them_too);
    RUN(no_gradient_is_an_error);
    RUN(a_lapack_that_is_not_there_is_told_of);
    for (int i = 0; i < opened; i++) qn_close(open_[i]);
    return test_end();
}
