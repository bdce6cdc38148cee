/* test_eig.c - eigenvalues and eigenvectors of matrices without symmetry, on `ref` and on the CPU,
 * with a LAPACK and without: a v = v w in long double, lengths of 1, pairs that are conjugates,
 * values worked out by hand, gradients against central differences in f64. */
#include "graph/graph.h"
#include "quern.h"
#include "test.h"

#include <complex.h>

enum { MOST = 90, DEVICES = 3 };

typedef double _Complex number;

static qn_ctx *open_[DEVICES];
static uint64_t seed = 7;

static void open_devices(void) {
    static const char *const wanted[DEVICES] = {"cpu", "cpu", "ref"};
    const char *given = getenv("QN_LAPACK");
    for (int i = 0; i < DEVICES; i++) {
        setenv("QN_LAPACK", i != 1 ? "no" : given ? given : "", 1);
        open_[i] = qn_open(&QN_OPTIONS(.device = wanted[i], .threads = 1 + 2 * (i == 0)));
    }
    if (given) setenv("QN_LAPACK", given, 1);
}

#define EACH(qn) for (int at_ = 0; at_ < DEVICES && ((qn) = open_[at_]); at_++)

static void read_complex(qn_tensor *t, number *out) {
    qn_tensor *pairs = qn_contiguous(qn_cast(qn_as_real(t), QN_F64));
    CHECK_INT(qn_read(pairs, out, (size_t)qn_numel(pairs) * 8), 0);
}

/* What of the last of `count` matrices x [n, n] does not hold. */
static double worst_of(qn_tensor *x, int64_t count, int64_t n) {
    static double a[3 * MOST * MOST];
    static number w[3 * MOST], v[3 * MOST * MOST];
    qn_tensor *values, *vectors;
    CHECK_INT(qn_eig(x, &values, &vectors), 0);
    CHECK_INT(qn_read(qn_contiguous(qn_cast(x, QN_F64)), a, (size_t)(count * n * n) * 8), 0);
    read_complex(values, w);
    read_complex(vectors, v);
    const double *m = a + (count - 1) * n * n;
    const number *at = w + (count - 1) * n, *column = v + (count - 1) * n * n;
    double worst = 0, most = 0;
    for (int64_t i = 0; i < n * n; i++) most = fmax(most, fabs(m[i]));
    for (int64_t k = 0; k < n; k++) {
        long double length = 0;
        for (int64_t i = 0; i < n; i++) {
            long double _Complex sum = 0, own = (long double _Complex)column[i * n + k] * at[k];
            for (int64_t j = 0; j < n; j++) sum += (long double)m[i * n + j] * column[j * n + k];
            worst = fmax(worst, (double)(cabsl(sum - own) / (most > 0 ? most : 1)));
            length += cabsl(column[i * n + k]) * cabsl(column[i * n + k]);
            if (cimag(at[k]) == 0 && most > 1e-200) CHECK(cimag(column[i * n + k]) == 0);
            if (cimag(at[k]) > 0) CHECK(column[i * n + k] == conj(column[i * n + k + 1]));
        }
        if (cimag(at[k]) > 0) CHECK(at[k + 1] == conj(at[k]));
        worst = fmax(worst, fabs((double)length - 1));
        if (isnan((double)length)) return NAN;
    }
    return worst;
}

static qn_tensor *random_of(qn_ctx *qn, qn_dtype d, int64_t batch, int64_t n) {
    static double x[3 * MOST * MOST];
    for (int64_t i = 0; i < batch * n * n; i++) x[i] = 2 * test_uniform(&seed) - 1;
    return qn_cast(qn_from(qn, QN_F64, 3, (int64_t[]){batch, n, n}, x), d);
}

static void vectors_are_turned_by_their_values(void) {
    static const int64_t sizes[] = {1, 2, 3, 4, 7, 33, 70, 90};
    qn_ctx *qn;
    EACH(qn)
    for (int dtype = QN_F32; dtype <= QN_F64; dtype++)
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            qn_scope s = qn_scope_begin(qn);
            qn_tensor *x = random_of(qn, (qn_dtype)dtype, 3, sizes[i]);
            CHECK_INT(qn_realize(1, &x), 0);
            double off = worst_of(x, 3, sizes[i]);
            double within = 8 * (double)sizes[i] * (dtype == QN_F64 ? 0x1p-52 : 0x1p-23);
            if (!(off <= within)) FAIL("[%d]: off by %g", (int)sizes[i], off);
            qn_scope_end(qn, s);
        }
}

/* Of some kinds that have no full set of vectors, or elements of very different size. */
static void extremes_have_vectors_too(void) {
    enum { N = 66 };
    static double v[N * N];
    static const double sizes_of[] = {1, 1e300, 1e-300};
    qn_ctx *qn;
    EACH(qn)
    for (int kind = 0; kind < 3 * 8; kind++) {
        qn_scope s = qn_scope_begin(qn);
        for (int i = 0; i < N * N; i++) {
            int r = i / N, k = i % N;
            double u = 2 * test_uniform(&seed) - 1;
            v[i] = kind % 8 == 0   ? 0
                   : kind % 8 == 1 ? 0.5
                   : kind % 8 == 2 ? (r == k)
                   : kind % 8 == 3 ? (k == r + 1)                                 /* nilpotent */
                   : kind % 8 == 4 ? (k == (r + 1) % N)                           /* roots of 1 */
                   : kind % 8 == 5 ? 0.25 * (r == k) + (k == r + 1)               /* Jordan's */
                   : kind % 8 == 6 ? (k >= r ? u : 0)                             /* triangular */
                                   : (r / 2 == k / 2 ? (r == k ? 0 : k - r) : 0); /* turns */
            v[i] *= sizes_of[kind / 8];
        }
        double off = worst_of(qn_from(qn, QN_F64, 2, (int64_t[]){N, N}, v), 1, N);
        if (!(off <= 1e-13)) FAIL("kind %d: off by %g", kind, off);
        qn_scope_end(qn, s);
    }
}

static void small_ones_worked_out_by_hand(void) {
    static const double turn[] = {0, -2, 2, 0}, real[] = {2, 1, 3, 4};
    qn_ctx *qn;
    EACH(qn) {
        qn_scope s = qn_scope_begin(qn);
        number w[3];
        read_complex(qn_eigvals(qn_from(qn, QN_F64, 2, (int64_t[]){2, 2}, turn)), w);
        CHECK_NEAR(cimag(w[0]), 2, 1e-15, 0);
        CHECK(creal(w[0]) == 0 && w[1] == conj(w[0]));
        read_complex(qn_eigvals(qn_from(qn, QN_F64, 2, (int64_t[]){2, 2}, real)), w);
        CHECK_NEAR(fmin(creal(w[0]), creal(w[1])), 1, 1e-14, 0);
        CHECK_NEAR(fmax(creal(w[0]), creal(w[1])), 5, 1e-14, 0);
        CHECK(cimag(w[0]) == 0 && cimag(w[1]) == 0);
        qn_tensor *x = qn_eigvals(qn_zeros(qn, QN_F16, 3, (int64_t[]){2, 0, 0}));
        CHECK_INT(qn_dtype_of(x), QN_C64);
        CHECK_INT(qn_numel(x), 0);
        x = qn_eigvals(qn_full(qn, QN_F64, 2, (int64_t[]){3, 3}, NAN));
        read_complex(x, w);
        CHECK(isnan(creal(w[2])) && isnan(cimag(w[2])));
        qn_scope_end(qn, s);
    }
}

static void what_is_no_real_square_is_refused(void) {
    qn_ctx *qn = open_[0];
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *values = NULL;
    CHECK(!qn_eigvals(qn_zeros(qn, QN_F32, 2, (int64_t[]){2, 3})));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK_INT(qn_eig(qn_zeros(qn, QN_C64, 2, (int64_t[]){2, 2}), &values, NULL), QN_EDTYPE);
    qn_clear_error(qn);
    CHECK(!qn_eigvals(qn_zeros(qn, QN_F32, 12, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2})));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    qn_scope_end(qn, s);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static qn_tensor *weighed(qn_tensor *x, int64_t n) {
    qn_tensor *k = qn_cast(qn_iota(qn_context(x), QN_I64, 1, &n, 0), QN_F64);
    return qn_mul(x, qn_add(qn_cos(qn_mul(k, qn_like(k, 3))), qn_like(k, 0.3)));
}

/* Of values, of vectors' sizes, of products in which phases cancel; the order does not matter. */
static qn_tensor *subject(qn_tensor *x, int kind) {
    qn_tensor *w, *v, *y = NULL;
    if (qn_eig(x, &w, &v)) return NULL;
    qn_tensor *re = qn_real(w), *im = qn_imag(w);
    qn_tensor *cross = qn_mul(qn_select(v, 0, 0), qn_conj(qn_select(v, 0, 2)));
    if (kind == 0) y = qn_sin(re);
    if (kind == 1) y = qn_cos(im);
    if (kind == 2)
        y = qn_mul(weighed(qn_square(qn_abs(qn_transpose(v, 0, 1))), 4),
                   qn_unsqueeze(qn_exp(re), 1));
    if (kind == 3) y = qn_add(qn_mul(qn_real(cross), qn_cos(re)), qn_mul(qn_imag(cross), im));
    return qn_sum(y, QN_ALL, false);
}

static double value_of(qn_ctx *qn, const double *v, int kind) {
    double out = NAN;
    qn_scope s = qn_scope_begin(qn);
    CHECK_INT(qn_read(subject(qn_from(qn, QN_F64, 2, (int64_t[]){4, 4}, v), kind), &out, 8), 0);
    qn_scope_end(qn, s);
    return out;
}

static void gradients_are_those_of_differences(void) {
    qn_ctx *qn;
    EACH(qn)
    for (int kind = 0; kind < 16; kind++) {
        qn_scope s = qn_scope_begin(qn);
        double v[16], g[16], h = 1e-5;
        for (int i = 0; i < 16; i++)
            v[i] = 0.5 * test_uniform(&seed) + (i / 4 == i % 4) * (i / 8) * (i / 4) + 3 * (i == 1) -
                   3 * (i == 4);
        qn_tensor *x = qn_from(qn, QN_F64, 2, (int64_t[]){4, 4}, v), *grad = NULL;
        CHECK_INT(qn_grad(subject(x, kind % 4), NULL, 1, &x, &grad), 0);
        CHECK_INT(qn_read(qn_contiguous(grad), g, sizeof g), 0);
        for (int i = 0; i < 16; i++) {
            double was = v[i];
            v[i] = was + h;
            double up = value_of(qn, v, kind % 4);
            v[i] = was - h;
            double down = value_of(qn, v, kind % 4);
            v[i] = was;
            CHECK_NEAR(g[i], (up - down) / (2 * h), 1e-5, 1e-6);
        }
        qn_scope_end(qn, s);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    open_devices();
    RUN(vectors_are_turned_by_their_values);
    RUN(extremes_have_vectors_too);
    RUN(small_ones_worked_out_by_hand);
    RUN(what_is_no_real_square_is_refused);
    RUN(gradients_are_those_of_differences);
    for (int i = 0; i < DEVICES; i++) qn_close(open_[i]);
    return test_end();
}
