/* test_borders.c - padding of what a product makes: the product's kernel stores it among the zeros.
 * How many kernels there are is counted on the device null; values are those of plain loops in
 * double precision, with zeros of any width on any side, and the same for any number of threads. */
#include "base/base.h"
#include "quern.h"
#include "test.h"

typedef struct padding {
    int64_t batch, rows, depth, columns;
    int64_t around[6]; /* before and behind, by axis of [batch, rows, columns] */
} padding;

typedef enum epilogue { NOTHING, RELU, BIAS, EPILOGUES } epilogue;

static const padding paddings[] = {
    {1, 64, 64, 64, {0, 0, 1, 2, 2, 1}},  {1, 61, 67, 129, {0, 0, 0, 3, 5, 0}},
    {3, 17, 31, 13, {1, 0, 2, 2, 0, 7}},  {2, 40, 16, 24, {0, 2, 0, 0, 0, 0}},
    {5, 1, 33, 40, {0, 0, 4, 4, 4, 4}},   {1, 33, 20, 1, {0, 0, 1, 1, 1, 1}},
    {1, 200, 9, 7, {0, 0, 40, 0, 0, 33}}, {1, 96, 300, 80, {0, 0, 1, 1, 1, 1}}};

typedef struct inputs {
    qn_tensor *x, *w, *bias;
    double *value[3];
} inputs;

static qn_tensor *numbers(qn_ctx *qn, int rank, const int64_t *dims, uint64_t seed, double **out) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    *out = malloc((size_t)(n + 1) * sizeof **out);
    for (int64_t i = 0; i < n; i++) (*out)[i] = x[i] = (float)(2 * test_uniform(&seed) - 1);
    qn_tensor *t = qn_from(qn, QN_F32, rank, dims, x);
    free(x);
    return t;
}

static inputs open_inputs(qn_ctx *qn, const padding *p) {
    inputs in;
    in.x = numbers(qn, 3, (int64_t[]){p->batch, p->rows, p->depth}, 1, &in.value[0]);
    in.w = numbers(qn, 3, (int64_t[]){p->batch, p->depth, p->columns}, 2, &in.value[1]);
    in.bias = numbers(qn, 1, &p->columns, 3, &in.value[2]);
    return in;
}

static void close_inputs(inputs *in) {
    for (int i = 0; i < 3; i++) free(in->value[i]);
}

static qn_tensor *product(const inputs *in, epilogue e) {
    qn_tensor *y = qn_matmul(in->x, in->w);
    if (e == BIAS) y = qn_add(y, in->bias);
    return e == NOTHING ? y : qn_relu(y);
}

static qn_tensor *padded(const inputs *in, const padding *p, epilogue e) {
    return qn_pad(product(in, e), p->around, QN_PAD_CONSTANT, 0);
}

static double element(const inputs *in, const padding *p, epilogue e, int64_t b, int64_t r,
                      int64_t c) {
    double sum = 0;
    if (b < 0 || r < 0 || c < 0 || b >= p->batch || r >= p->rows || c >= p->columns) return 0;
    for (int64_t k = 0; k < p->depth; k++)
        sum += in->value[0][(b * p->rows + r) * p->depth + k] *
               in->value[1][(b * p->depth + k) * p->columns + c];
    if (e == BIAS) sum += in->value[2][c];
    return e != NOTHING && sum < 0 ? 0 : sum;
}

static float *read_all(qn_tensor *t) {
    size_t n = (size_t)qn_numel(t) * sizeof(float);
    float *x = malloc(n + 1);
    if (qn_read(t, x, n)) FAIL("a padded product cannot be read");
    return x;
}

static void compare(const inputs *in, const padding *p, epilogue e, const float *got) {
    const int64_t *a = p->around;
    int64_t r_all = p->rows + a[2] + a[3], c_all = p->columns + a[4] + a[5];
    for (int64_t b = 0; b < p->batch + a[0] + a[1]; b++)
        for (int64_t r = 0; r < r_all; r++)
            for (int64_t c = 0; c < c_all; c++) {
                double want = element(in, p, e, b - a[0], r - a[2], c - a[4]);
                double is = (double)got[(b * r_all + r) * c_all + c];
                if (fabs(is - want) <= 1e-5 * (1 + (double)p->depth)) continue;
                FAIL("%lld x %lld x %lld: [%lld, %lld, %lld] is %g, not %g", (long long)p->rows,
                     (long long)p->depth, (long long)p->columns, (long long)b, (long long)r,
                     (long long)c, is, want);
                return;
            }
}

static int64_t launched(qn_ctx *qn, int n, qn_tensor **t) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    if (qn_realize(n, t)) FAIL("%s", qn_error(qn));
    qn_get_stats(qn, &b, sizeof b);
    return (int64_t)(b.kernels - a.kernels);
}

static void a_padded_product_is_one_kernel(void) {
    for (int e = 0; e < EPILOGUES; e++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null"));
        inputs in = open_inputs(qn, &paddings[0]);
        qn_tensor *y = padded(&in, &paddings[0], (epilogue)e);
        CHECK_INT(launched(qn, 1, &y), 1);
        close_inputs(&in);
        qn_close(qn);
    }
}

/* Both are wanted: the padded one is a copy of the other. */
static void a_product_that_is_wanted_itself_is_stored_once(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    const padding *p = &paddings[1];
    inputs in = open_inputs(qn, p);
    qn_tensor *y[2] = {product(&in, RELU)};
    y[1] = qn_pad(y[0], p->around, QN_PAD_CONSTANT, 0);
    CHECK_INT(launched(qn, 2, y), 2);
    float *got = read_all(y[1]);
    compare(&in, p, RELU, got);
    free(got);
    close_inputs(&in);
    qn_close(qn);
}

static void values_on(const char *device, int threads, size_t count) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = threads));
    for (size_t i = 0; i < count; i++)
        for (int e = 0; e < EPILOGUES; e++) {
            inputs in = open_inputs(qn, &paddings[i]);
            float *got = read_all(padded(&in, &paddings[i], (epilogue)e));
            compare(&in, &paddings[i], (epilogue)e, got);
            free(got);
            close_inputs(&in);
        }
    qn_close(qn);
}

static void values_are_those_of_plain_loops(void) {
    values_on("cpu", 1, COUNT_OF(paddings));
    values_on("cpu", 3, COUNT_OF(paddings));
    values_on("ref", 1, COUNT_OF(paddings));
}

static void values_through_c_are_the_same(void) {
    setenv("QN_CPU", "cc", 1);
    values_on("cpu", 2, 3);
    unsetenv("QN_CPU");
}

/* Where the zeros are is given to each launch. */
static void another_place_needs_no_other_kernel(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    padding p = paddings[0];
    inputs in = open_inputs(qn, &p);
    uint64_t compiles = 0;
    for (int64_t at = 1; at < 4; at++) {
        p.around[2] = at;
        p.around[3] = 4 - at;
        p.around[4] = 5 - at;
        p.around[5] = at;
        qn_scope scope = qn_scope_begin(qn); /* or the product would be kept */
        float *got = read_all(padded(&in, &p, NOTHING));
        qn_scope_end(qn, scope);
        compare(&in, &p, NOTHING, got);
        free(got);
        qn_stats s;
        qn_get_stats(qn, &s, sizeof s);
        if (at > 1) CHECK_INT((int64_t)s.compiles, (int64_t)compiles);
        compiles = s.compiles;
    }
    close_inputs(&in);
    qn_close(qn);
}

/* What reads the padded value finds it whole, in the same request. */
static void readers_wait_for_the_border(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 3));
    const padding *p = &paddings[0];
    inputs in = open_inputs(qn, p);
    qn_tensor *y[2] = {padded(&in, p, NOTHING)};
    y[1] = qn_exp(qn_transpose(y[0], -1, -2));
    if (qn_realize(2, y)) FAIL("%s", qn_error(qn));
    float *a = read_all(y[0]), *b = read_all(y[1]);
    for (int64_t r = 0; r < 67; r++)
        for (int64_t c = 0; c < 67; c++)
            CHECK(fabsf(b[c * 67 + r] - expf(a[r * 67 + c])) <= 1e-5f * expf(a[r * 67 + c]));
    compare(&in, p, NOTHING, a);
    free(a);
    free(b);
    close_inputs(&in);
    qn_close(qn);
}

/* [t, 5] times [5, 7], with t zeros in front of each row and 2 behind. */
static void borders_follow_dimension_variables(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu"));
    int64_t t = qn_var(qn, "t", 1, 40);
    CHECK_INT(qn_bind(qn, t, 3), QN_OK);
    float zero[40 * 5] = {0}, some[40 * 5], weight[5 * 7];
    for (int i = 0; i < 40 * 5; i++) some[i] = (float)(i % 11) - 5;
    for (int i = 0; i < 5 * 7; i++) weight[i] = (float)(i % 13) - 6;
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){t, 5}, zero);
    qn_tensor *w = qn_from(qn, QN_F32, 2, (int64_t[]){5, 7}, weight);
    qn_tensor *y = qn_pad(qn_matmul(x, w), (int64_t[]){1, t, t, 2}, QN_PAD_CONSTANT, 0);
    qn_plan *plan = qn_plan_new(qn, 1, &x, 1, &y);
    CHECK(plan != NULL);
    for (int64_t n = 1; plan && n <= 40; n += 13) {
        qn_tensor *in = qn_from(qn, QN_F32, 2, (int64_t[]){n, 5}, some), *made;
        CHECK_INT(qn_plan_run(plan, &in, &made), QN_OK);
        float *got = read_all(made);
        for (int64_t r = 0; r < 2 * n + 1; r++)
            for (int64_t c = 0; c < n + 9; c++) {
                bool inside = r >= 1 && r < n + 1 && c >= n && c < n + 7;
                float want = 0;
                for (int64_t k = 0; inside && k < 5; k++)
                    want += some[(r - 1) * 5 + k] * weight[k * 7 + c - n];
                CHECK(got[r * (n + 9) + c] == want);
            }
        free(got);
    }
    qn_plan_free(plan);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(a_padded_product_is_one_kernel);
    RUN(a_product_that_is_wanted_itself_is_stored_once);
    RUN(values_are_those_of_plain_loops);
    RUN(values_through_c_are_the_same);
    RUN(another_place_needs_no_other_kernel);
    RUN(readers_wait_for_the_border);
    RUN(borders_follow_dimension_variables);
    return test_end();
}
