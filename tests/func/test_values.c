/* test_values.c - functions by value: what NumPy gives for the calls of numpy_values.h, on ref and
 * on the processor; and what is refused. */
#include "quern.h"
#include "test.h"

static qn_ctx *qn;

#define DIMS(...)  ((int64_t[]){__VA_ARGS__})
#define AXES(...)  ((int[]){__VA_ARGS__})
#define ITEMS(...) ((const qn_index_item[]){__VA_ARGS__})

static qn_tensor *line(int64_t n, const double *v) {
    return qn_from(qn, QN_F64, 1, &n, v);
}
#define LINE(n, ...) line(n, (const double[]){__VA_ARGS__})

static qn_tensor *at(qn_tensor *x, int n, const qn_index_item *items) {
    return qn_index(x, n, items);
}

static qn_tensor *put(qn_tensor *x, int n, const qn_index_item *items, qn_combine combine) {
    return qn_index_put(x, n, items, qn_like(x, 1), combine);
}

static qn_tensor *index_of(int rank, const int64_t *shape, const int64_t *v) {
    return qn_from(qn, QN_I64, rank, shape, v);
}

static qn_tensor *sines(int rank, const int64_t *shape, int64_t n) {
    double v[64];
    for (int64_t i = 0; i < n; i++) v[i] = sin((double)i);
    return qn_from(qn, QN_F64, rank, shape, v);
}

static qn_tensor *heads(int64_t n) {
    return sines(3, DIMS(n, 2, 4), 8 * n);
}

static qn_tensor *batch_part(qn_tensor *x, int part) {
    qn_tensor *out[3] = {NULL};
    return qn_batch_norm_training(x, NULL, NULL, 0.5, out) ? NULL : out[part];
}

static qn_tensor *attend(qn_tensor *x, const qn_attention_options *options) {
    return qn_attention(x, x, x, options);
}

static qn_tensor *truths(const int64_t *v) {
    return qn_cast(index_of(2, DIMS(3, 3), v), QN_BOOL);
}
#define SQUARE(...) truths((const int64_t[]){__VA_ARGS__})

static qn_tensor *truth(qn_tensor *x) {
    return qn_cast(x, QN_BOOL);
}

static qn_tensor *above(qn_tensor *x, double least) {
    return qn_gt(x, qn_like(x, least));
}

static qn_tensor *selected(qn_tensor *x, qn_tensor *mask, int64_t bound) {
    qn_tensor *v = NULL;
    return qn_masked_select(x, mask, bound, &v, NULL) ? NULL : v;
}

static qn_tensor *nonzeros(qn_tensor *x, int64_t bound) {
    qn_tensor *v = NULL;
    return qn_nonzero(x, bound, &v, NULL) ? NULL : v;
}

static qn_tensor *count_of(qn_tensor *x) {
    qn_tensor *n = NULL;
    return qn_nonzero(x, 0, NULL, &n) ? NULL : n;
}

static qn_tensor *eighths(void) {
    qn_tensor *x = qn_reshape(qn_arange(qn, QN_F64, 1, 7, 1), 2, DIMS(2, 3));
    return qn_mul(x, qn_like(x, 0.125));
}

typedef struct expected {
    const char *call;
    int rank;
    const int64_t *shape;
    size_t n;
    const double *value;
} expected;

static void holds(qn_tensor *t, const expected *e) {
    double got[128] = {0};
    t = qn_cast(t, QN_F64);
    if (!t || qn_rank(t) != e->rank || qn_numel(t) != (int64_t)e->n ||
        qn_read(t, got, sizeof got)) {
        FAIL("%s: %s, rank %d", e->call, qn_error(qn), qn_rank(t));
        qn_clear_error(qn);
        return;
    }
    for (int i = 0; i < e->rank; i++) CHECK_INT(qn_dim(t, i), e->shape[i]);
    for (size_t i = 0; i < e->n; i++)
        if (!test_close(got[i], e->value[i], 1e-13, 1e-13))
            FAIL("%s: [%zu] is %.17g, expected %.17g", e->call, i, got[i], e->value[i]);
}

static void values_are_numpys(void) {
    const char *const device[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        qn = qn_open(&QN_OPTIONS(.device = device[d], .threads = 1));
        if (!qn) continue;
        qn_scope s = qn_scope_begin(qn);
        const double v[9] = {NAN, 1, 4, 2, NAN, -3, NAN, NAN, NAN};
        qn_tensor *A = qn_reshape(qn_arange(qn, QN_F64, 0, 60, 1), 3, DIMS(3, 4, 5));
        qn_tensor *W = qn_reshape(qn_arange(qn, QN_F64, 1, 7, 1), 2, DIMS(2, 3));
        qn_tensor *V = qn_from(qn, QN_F64, 2, DIMS(3, 3), v);
        qn_tensor *S = sines(3, DIMS(2, 3, 4), 24);
        qn_tensor *sevenths = qn_eq(qn_mod(A, qn_like(A, 7)), qn_like(A, 0));
        qn_tensor *a = index_of(2, DIMS(2, 1), (const int64_t[]){2, -1});
        qn_tensor *b = index_of(1, DIMS(3), (const int64_t[]){3, -2, 0});
#define X(call, rank, shape, ...)                                                                  \
    holds(call, &(expected){#call, rank, shape, sizeof((double[]){__VA_ARGS__}) / 8,               \
                            (const double[]){__VA_ARGS__}});
#include "numpy_values.h"
#undef X
        qn_scope_end(qn, s);
        qn_close(qn);
    }
}

static void indices_outside_are_refused(void) {
    qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *x = qn_zeros(qn, QN_F32, 2, DIMS(3, 4));
    const struct {
        int n;
        qn_code code;
        qn_index_item item[3];
    } bad[] = {{1, QN_ERANGE, {QN_AT_PLACE(3)}},
               {1, QN_ERANGE, {QN_AT_PLACE(-4)}},
               {3, QN_ERANGE, {QN_EVERY, QN_EVERY, QN_EVERY}},
               {2, QN_EARG, {QN_ELLIPSIS, QN_ELLIPSIS}},
               {1, QN_EDTYPE, {QN_AT_PLACES(x)}},
               {2, QN_ERANGE, {QN_AT_PLACES(qn_zeros(qn, QN_I64, 1, DIMS(2))), QN_AT_PLACE(4)}},
               {1, QN_EARG, {{(qn_index_kind)9, 0, 0, 0, NULL}}},
               {-1, QN_EARG, {QN_EVERY}}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(!qn_index(x, bad[i].n, bad[i].item));
        CHECK_INT(qn_error_code(qn), bad[i].code);
        qn_clear_error(qn);
    }
    CHECK(!qn_index_put(x, 1, ITEMS(QN_EVERY), qn_zeros(qn, QN_F32, 1, DIMS(3)), QN_COMBINE_SET));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_close(qn);
}

static void masks_outside_are_refused(void) {
    qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    qn_tensor *x = qn_zeros(qn, QN_F32, 2, DIMS(3, 4)), *v = NULL;
    qn_tensor *five = qn_cast(qn_ones(qn, QN_F32, 1, DIMS(5)), QN_BOOL);
    CHECK(!qn_index(x, 1, ITEMS(QN_AT_PLACES(five))));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    qn_index_item meet[2] = {QN_AT_PLACES(qn_cast(qn_ones(qn, QN_F32, 1, DIMS(3)), QN_BOOL)),
                             QN_AT_PLACES(qn_zeros(qn, QN_I64, 1, DIMS(2)))};
    CHECK(!qn_index(x, 2, meet));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK(!qn_index_put(x, 2, meet, qn_scalar(qn, QN_F32, 1), QN_COMBINE_SET));
    CHECK_INT(qn_error_code(qn), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK_INT(qn_masked_select(x, five, -1, &v, NULL), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK_INT(qn_nonzero(x, -2, &v, NULL), QN_ERANGE);
    CHECK(!v);
    qn_clear_error(qn);
    CHECK_INT(qn_nonzero(qn_scalar(qn, QN_F32, 1), -1, &v, NULL), QN_ESHAPE);
    qn_clear_error(qn);
    CHECK(!qn_head(x, 0, qn_scalar_int(qn, QN_I64, 4)));
    CHECK_STR(qn_error(qn), "head: 4 elements of an axis of 3");
    qn_clear_error(qn);
    CHECK(!qn_head(x, 0, qn_scalar(qn, QN_F32, 1)));
    CHECK_INT(qn_error_code(qn), QN_EDTYPE);
    qn_close(qn);
}

/* One plan for every mask: sizes are bounds. */
static void masks_run_in_static_graphs(void) {
    qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    double v[6] = {0};
    qn_tensor *x = qn_from(qn, QN_F64, 1, DIMS(6), v), *out[2] = {NULL};
    qn_tensor *mask = above(x, 0.5);
    CHECK_INT(qn_masked_select(qn_mul(x, x), mask, -1, &out[0], &out[1]), 0);
    qn_plan *p = qn_plan_new(qn, 1, &x, 2, out);
    CHECK(p != NULL);
    for (int i = 0; p && i < 3; i++) {
        qn_tensor *got[2] = {NULL};
        int64_t count = 0;
        for (int k = 0; k < 6; k++) v[k] = k % 3 < i ? k : 0;
        qn_tensor *in = qn_from(qn, QN_F64, 1, DIMS(6), v);
        CHECK_INT(qn_plan_run(p, &in, got), 0);
        CHECK_INT(qn_read(got[1], &count, sizeof count), 0);
        CHECK_INT(qn_read(got[0], v, sizeof v), 0);
        const double one[] = {9, 0, 0, 0, 0, 0}, two[] = {1, 9, 16, 0, 0, 0};
        CHECK_INT(count, i == 2 ? 3 : i);
        for (int k = 0; k < 6; k++) CHECK(v[k] == (i == 0 ? 0 : i == 1 ? one[k] : two[k]));
    }
    qn_plan_free(p);
    qn_close(qn);
}

static void gradients_go_to_what_masks_chose(void) {
    qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    qn_tensor *W = LINE(6, 1, 2, 3, 4, 5, 6), *v = NULL, *g = NULL;
    double got[6];
    CHECK_INT(qn_masked_select(W, above(W, 3), -1, &v, NULL), 0);
    qn_tensor *all = qn_add(
        qn_sum(qn_square(v), 0, false),
        qn_sum(qn_masked_scatter(LINE(3, 0, 0, 0), above(LINE(3, 0, 1, 1), 0.5), W), 0, false));
    CHECK_INT(qn_grad(all, NULL, 1, &W, &g), 0);
    CHECK_INT(qn_read(g, got, sizeof got), 0);
    const double want[] = {1, 1, 0, 8, 10, 12};
    for (int i = 0; i < 6; i++) CHECK(got[i] == want[i]);
    qn_close(qn);
}

/* Where the quotient is rounded up to a whole number, of all floats, and to a tiny one below 0. */
static void floors_are_of_the_exact_quotient(void) {
    static const double x[] = {1, -1, 1, 6, 7.5, -7.5, 1e-30, -1e-30, 0.3};
    static const double y[] = {0.1, 0.1, -0.1, 0.2, 2.5, 2.5, 1e30, 1e30, 0.1};
    static const qn_dtype dtypes[] = {QN_F16, QN_BF16, QN_F32, QN_F64};
    static const char *const devices[] = {"ref", "cpu"};
    for (int i = 0; i < 8; i++) {
        qn = qn_open(&QN_OPTIONS(.device = devices[i / 4], .threads = 1));
        int64_t n = sizeof x / sizeof *x;
        qn_tensor *a = qn_cast(qn_from(qn, QN_F64, 1, &n, x), dtypes[i % 4]);
        qn_tensor *b = qn_cast(qn_from(qn, QN_F64, 1, &n, y), dtypes[i % 4]);
        double got[sizeof x / sizeof *x], p[sizeof x / sizeof *x], q[sizeof x / sizeof *x];
        CHECK_INT(qn_read(qn_cast(qn_floor_div(a, b), QN_F64), got, sizeof got), 0);
        CHECK_INT(qn_read(qn_cast(a, QN_F64), p, sizeof p), 0);
        CHECK_INT(qn_read(qn_cast(b, QN_F64), q, sizeof q), 0);
        for (int k = 0; k < n; k++) {
            long double exact = p[k] == 0 ? 0 : floorl((long double)p[k] / q[k]);
            if (p[k] < 0 && isinf(q[k])) exact = -1; /* F16's 1e30 is infinite */
            if (got[k] != (double)exact)
                FAIL("%s %s: %g / %g gives %g", devices[i / 4], qn_dtype_name(dtypes[i % 4]), p[k],
                     q[k], got[k]);
        }
        qn_close(qn);
    }
}

/* Python's divmod, as PEP 238 and NumPy have it: by fmod, which is exact. */
static void divmod_of(double x, double y, double *quotient, double *modulus) {
    double r = fmod(x, y);
    *modulus = r;
    *quotient = x / y;
    if (y == 0) return;
    long double whole = ((long double)x - r) / y;
    if (r == 0) *modulus = copysign(0.0, y);
    if (r != 0 && (r < 0) != (y < 0)) whole -= 1, *modulus = r + y;
    *quotient = whole == 0 ? copysign(0.0, x / y) : (double)rintl(whole);
}

static bool same_number(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

#define SPECIALS 14

static void check_quotients(const char *name, qn_dtype dtype, const double *x, const double *y) {
    int64_t n = SPECIALS * SPECIALS;
    double p[SPECIALS * SPECIALS], q[SPECIALS * SPECIALS], got[3][SPECIALS * SPECIALS];
    qn_tensor *a = qn_cast(qn_from(qn, QN_F64, 1, &n, x), dtype);
    qn_tensor *b = qn_cast(qn_from(qn, QN_F64, 1, &n, y), dtype);
    qn_tensor *of[] = {qn_floor_div(a, b), qn_mod(a, b), qn_rem(a, b)};
    CHECK_INT(qn_read(qn_cast(a, QN_F64), p, sizeof p), 0);
    CHECK_INT(qn_read(qn_cast(b, QN_F64), q, sizeof q), 0);
    for (int i = 0; i < 3; i++) CHECK_INT(qn_read(qn_cast(of[i], QN_F64), got[i], sizeof *got), 0);
    for (int k = 0; k < n; k++) {
        double want[3];
        divmod_of(p[k], q[k], &want[0], &want[1]);
        want[2] = fmod(p[k], q[k]);
        for (int i = 0; i < 3; i++) {
            int64_t one = 1;
            qn_tensor *rounded = qn_cast(qn_from(qn, QN_F64, 1, &one, &want[i]), dtype);
            CHECK_INT(qn_read(qn_cast(rounded, QN_F64), &want[i], sizeof *want), 0);
            if (!same_number(got[i][k], want[i]))
                FAIL("%s %s: %s of %g and %g is %g, not %g", name, qn_dtype_name(dtype),
                     ((const char *[]){"floor_div", "mod", "rem"})[i], p[k], q[k], got[i][k],
                     want[i]);
        }
    }
}

/* Every pair of zeros, ones, infinities, NaN, the largest and the smallest, of every float. */
static void quotients_of_special_values_are_pythons(void) {
    static const qn_dtype dtypes[] = {QN_F16, QN_BF16, QN_F32, QN_F64};
    static const double most[] = {65504, 3.3895313892515355e38, 3.4028234663852886e38, 1.7e308};
    static const double least[] = {0x1p-24, 0x1p-133, 0x1p-149, 0x1p-1074};
    static const char *const devices[] = {"ref", "cpu"};
    for (int i = 0; i < 8; i++) {
        qn = qn_open(&QN_OPTIONS(.device = devices[i / 4], .threads = 1));
        double huge = most[i % 4], tiny = least[i % 4];
        double x[SPECIALS * SPECIALS], y[SPECIALS * SPECIALS];
        const double v[SPECIALS] = {0,         -0.0, 1,     -1,   0.5,   -2.5, 3,
                                    -INFINITY, NAN,  -huge, huge, -tiny, tiny, INFINITY};
        for (int k = 0; k < SPECIALS * SPECIALS; k++)
            x[k] = v[k / SPECIALS], y[k] = v[k % SPECIALS];
        check_quotients(devices[i / 4], dtypes[i % 4], x, y);
        qn_close(qn);
    }
}

/* As C99's Annex F has it: +0. */
static void logarithms_of_gamma_are_plus_zero_where_it_is_1(void) {
    static const qn_dtype dtypes[] = {QN_F16, QN_BF16, QN_F32, QN_F64};
    static const char *const devices[] = {"ref", "cpu"};
    for (int i = 0; i < 8; i++) {
        double got[2];
        qn = qn_open(&QN_OPTIONS(.device = devices[i / 4], .threads = 1));
        qn_tensor *y = qn_lgamma(qn_cast(LINE(2, 1, 2), dtypes[i % 4]));
        CHECK_INT(qn_read(qn_cast(y, QN_F64), got, sizeof got), 0);
        for (int k = 0; k < 2; k++)
            if (!same_number(got[k], 0))
                FAIL("%s %s: lgamma(%d) is %g", devices[i / 4], qn_dtype_name(dtypes[i % 4]), k + 1,
                     got[k]);
        qn_close(qn);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(values_are_numpys);
    RUN(indices_outside_are_refused);
    RUN(masks_outside_are_refused);
    RUN(masks_run_in_static_graphs);
    RUN(gradients_go_to_what_masks_chose);
    RUN(floors_are_of_the_exact_quotient);
    RUN(quotients_of_special_values_are_pythons);
    RUN(logarithms_of_gamma_are_plus_zero_where_it_is_1);
    return test_end();
}
