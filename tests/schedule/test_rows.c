/* test_rows.c - what memory bounds: functions of rows and of columns and copies, at shapes where
 * their schedules change form, with infinities and NaN among the values, against the device ref;
 * and the same bits with any number of threads. */
#include "quern.h"
#include "run/run.h"
#include "test.h"

#include <math.h>
#include <unistd.h>

typedef struct shape {
    int64_t rows, columns;
} shape;

/* Around vectors and lines; columns far apart in memory, by whole pages too; few rows, few columns.
 */
static const shape shapes[] = {{0, 5},     {1, 1},     {1, 1300},  {1300, 1},  {3, 7},
                               {37, 17},   {16, 64},   {37, 1003}, {33, 1024}, {100, 1025},
                               {67, 2049}, {1027, 65}, {50, 4100}, {33, 1100}, {4100, 50}};

typedef qn_tensor *(*function)(qn_tensor *x, int axis);

static qn_tensor *softmax(qn_tensor *x, int axis) {
    return qn_softmax(x, axis);
}
static qn_tensor *log_softmax(qn_tensor *x, int axis) {
    return qn_log_softmax(x, axis);
}
static qn_tensor *variance(qn_tensor *x, int axis) {
    return qn_variance(x, axis, 0, false);
}
static qn_tensor *normal(qn_tensor *x, int axis) {
    qn_tensor *d = qn_sub(x, qn_mean(x, axis, true));
    qn_tensor *v = qn_add(qn_variance(x, axis, 0, true), qn_scalar(qn_context(x), QN_F32, 1e-3));
    return qn_div(d, qn_sqrt(v));
}
static qn_tensor *sum(qn_tensor *x, int axis) {
    return qn_sum(qn_mul(x, x), axis, false);
}
static qn_tensor *turned(qn_tensor *x, int axis) {
    return qn_contiguous(qn_permute(x, 2, axis ? (int[]){1, 0} : (int[]){0, 1}));
}

/* Turned, and another operand walked as it lies. */
static qn_tensor *half_transposed(qn_tensor *x, int axis) {
    (void)axis;
    qn_tensor *t = qn_permute(x, 2, (int[]){1, 0});
    return qn_add(t, qn_reshape(qn_neg(x), 2, (int64_t[]){qn_dim(x, 1), qn_dim(x, 0)}));
}
static qn_tensor *turned_in(qn_tensor *x, qn_dtype d) {
    x = qn_contiguous(qn_cast(qn_minimum(x, qn_scalar(qn_context(x), QN_F32, 100)), d));
    return qn_cast(qn_contiguous(qn_permute(x, 2, (int[]){1, 0})), QN_F32);
}
static qn_tensor *turned_wide(qn_tensor *x, int axis) {
    return turned_in(x, axis ? QN_F64 : QN_BF16);
}

static const struct {
    const char *name;
    function f;
} functions[] = {{"softmax", softmax},
                 {"log_softmax", log_softmax},
                 {"variance", variance},
                 {"normal", normal},
                 {"sum", sum},
                 {"turned", turned},
                 {"half_transposed", half_transposed},
                 {"turned_wide", turned_wide}};

/* The value, or with `gradient` the gradient of the sum of its arc tangents. */
static float *run(const char *device, int threads, function f, const shape *s, int axis,
                  bool gradient, const float *values, int64_t *count) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device, .threads = threads));
    qn_tensor *x = qn_from(qn, QN_F32, 2, (int64_t[]){s->rows, s->columns}, values),
              *y = f(x, axis);
    if (gradient) {
        qn_tensor *loss = qn_sum(qn_atan(y), QN_ALL, false), *g = NULL;
        if (qn_grad(loss, NULL, 1, &x, &g)) FAIL("%s", qn_error(qn));
        y = g;
    }
    *count = qn_numel(y);
    float *out = malloc((size_t)(*count + 1) * sizeof *out);
    if (qn_read(y, out, (size_t)*count * sizeof *out)) FAIL("%s", qn_error(qn));
    qn_close(qn);
    return out;
}

static bool close_to(float a, float b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabsf(a - b) <= 2e-5f + 2e-5f * fabsf(b);
}

static void check(int i, const shape *s, int axis, bool gradient, const float *values) {
    int64_t n, count;
    float *want = run("ref", 1, functions[i].f, s, axis, gradient, values, &n);
    float *one = run("cpu", 1, functions[i].f, s, axis, gradient, values, &count);
    float *three = run("cpu", 3, functions[i].f, s, axis, gradient, values, &count);
    int bad = 0;
    for (int64_t e = 0; e < n && bad < 3; e++) {
        if (close_to(one[e], want[e])) continue;
        FAIL("%s%s of %lldx%lld along %d [%lld]: %.9g, not %.9g", gradient ? "gradient of " : "",
             functions[i].name, (long long)s->rows, (long long)s->columns, axis, (long long)e,
             one[e], want[e]);
        bad++;
    }
    CHECK(!memcmp(one, three, (size_t)n * sizeof *one));
    free(want);
    free(one);
    free(three);
}

static float *numbers(const shape *s, bool odd) {
    int64_t n = s->rows * s->columns;
    uint64_t seed = (uint64_t)n;
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(4 * test_uniform(&seed) - 2);
    for (int64_t i = 0; odd && i < n; i += 997) x[i] = i % 3 ? i % 2 ? -INFINITY : 1e30f : NAN;
    return x;
}

static void check_all(bool odd, bool gradient) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j += odd || gradient ? 3 : 1)
            for (int axis = 0; axis < 2; axis++) {
                if (!shapes[j].rows && axis == 0) continue;
                float *x = numbers(&shapes[j], odd);
                check((int)i, &shapes[j], axis, gradient, x);
                free(x);
            }
}

static void values_of_rows_and_columns_agree_with_ref(void) {
    check_all(false, false);
}

static void infinities_and_nan_stay_in_their_rows(void) {
    check_all(true, false);
}

static void gradients_of_rows_and_columns_agree_with_ref(void) {
    check_all(false, true);
}

/* ---- flat kernels that stream --------------------------------------------------------------- */

static bool paged, past, peeled, asked;
static int rotated;
static void see_pages(void *user, const char *line) {
    (void)user;
    paged |= !strncmp(line, "swap s", 6) || !strncmp(line, "swap us", 7);
    past |= !strncmp(line, "nontemporal a", 13);
    peeled |= !strncmp(line, "peel ", 5);
    asked |= !strncmp(line, "prefetch_next ", 14);
    rotated += !strncmp(line, "shift ", 6);
}

/* Two arguments walk four pages at a time, four of them two. Values are exact. */
static void streams_are_walked_by_pages_and_leave_nothing_out(void) {
    static const int64_t rest[] = {0, 1, 67, 4095};
    for (int i = 0; i < 8; i++) {
        int64_t n = (1 << 23) + rest[i / 2];
        qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = 1 + i % 3, .log = see_pages));
        qn_set(qn, "debug", "k");
        qn->run->limits.page_parallel_read_gain = 150;
        qn->run->limits.page_parallel_gain = 150; /* on any machine */
        paged = past = false;
        float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
        for (int64_t e = 0; e < n; e++) x[e] = (float)(e % 8191);
        qn_tensor *a = qn_from(qn, QN_F32, 1, &n, x), *z = qn_neg(a);
        if (i % 2) {
            for (int64_t e = 0; e < n; e++) y[e] = (float)(e % 127);
            qn_tensor *b = qn_from(qn, QN_F32, 1, &n, y);
            for (int64_t e = 0; e < n; e++) y[e] = (float)(e % 1021);
            z = qn_sub(qn_mul(b, z), qn_from(qn, QN_F32, 1, &n, y));
        }
        if (qn_read(z, y, (size_t)n * sizeof *y)) FAIL("%s", qn_error(qn));
        int bad = 0;
        for (int64_t e = 0; e < n && bad < 3; e++) {
            float want = i % 2 ? -x[e] * (float)(e % 127) - (float)(e % 1021) : -x[e];
            if (y[e] == want) continue;
            FAIL("%lld [%lld]: %g, not %g", (long long)n, (long long)e, y[e], want);
            bad++;
        }
        CHECK(paged && past);
        free(x);
        free(y);
        qn_close(qn);
    }
}

/* A formula so long that one block is work enough: its whole blocks are set apart all the same, for
 * under masks nothing goes past the caches. */
static void long_formulas_stream_without_masks(void) {
    int64_t n = (1 << 23) + 5;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .log = see_pages));
    qn_set(qn, "debug", "k");
    float *x = calloc((size_t)n, sizeof *x);
    qn_tensor *y = qn_from(qn, QN_F32, 1, &n, x);
    paged = past = peeled = false;
    for (int i = 0; i < 5; i++) y = qn_erfc(qn_tanh(y));
    CHECK_INT(qn_realize(1, &y), QN_OK);
    CHECK(paged && past && peeled);
    free(x);
    qn_close(qn);
}

/* What is done with the rows of a machine that walks streams side by side (families.h). */
static void look(function f, const shape *s, const float *x) {
    setenv("QN_MACHINE", "skylake-x", 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .log = see_pages));
    qn_set(qn, "debug", "k");
    unsetenv("QN_MACHINE");
    paged = asked = false;
    rotated = 0;
    qn_tensor *y = f(qn_from(qn, QN_F32, 2, (int64_t[]){s->rows, s->columns}, x), 1);
    CHECK_INT(qn_realize(1, &y), QN_OK);
    qn_close(qn);
}

/* Rows of pages that come from memory: the same values, and the same bits with all threads. The
 * first reduction walks four pages at a time; where a row is stored while the next ones are read,
 * the one after those is asked for. */
static void rows_that_stream_are_walked_in_parts(void) {
    const shape s = {(4 << 20) / 4 / 4096 + 1, 4096}; /* four times its second cache, and a row */
    float *x = numbers(&s, false);
    for (int i = 0; i < 4; i++) check(i, &s, 1, false, x);
    look(softmax, &s, x);
    CHECK(rotated == 2 && asked);
    look(variance, &s, x);
    CHECK(rotated == 0 && paged);
    free(x);
}

/* Enough rows for the stages of several to run as one: whole chunks and not, columns around the
 * vectors of a trip. */
static void stages_of_several_rows_run_as_one(void) {
    static const shape s[] = {{16, 64},  {17, 65},    {19, 127},  {31, 128}, {61, 96},
                              {67, 101}, {128, 1003}, {131, 256}, {257, 63}, {1021, 64}};
    for (size_t j = 0; j < sizeof s / sizeof *s; j++)
        for (int odd = 0; odd < 2; odd++) {
            float *x = numbers(&s[j], odd);
            for (int i = 0; i < 4; i++) check(i, &s[j], 1, false, x);
            check(0, &s[j], 1, true, x);
            check(1, &s[j], 1, true, x);
            look(softmax, &s[j], x);
            CHECK_INT(rotated, s[j].columns < 64 ? 0 : 2);
            look(log_softmax, &s[j], x);
            CHECK_INT(rotated, s[j].columns < 64 ? 0 : 2);
            free(x);
        }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(values_of_rows_and_columns_agree_with_ref);
    RUN(infinities_and_nan_stay_in_their_rows);
    RUN(gradients_of_rows_and_columns_agree_with_ref);
    RUN(streams_are_walked_by_pages_and_leave_nothing_out);
    RUN(long_formulas_stream_without_masks);
    RUN(rows_that_stream_are_walked_in_parts);
    RUN(stages_of_several_rows_run_as_one);
    return test_end();
}
