/* test_siblings.c - kernels beside each other that read the same memory and become one: how many
 * there are, on the device null; values at shapes where schedules change form, with infinities and
 * NaN among the numbers, against the device ref; the same bits with any number of threads. */
#include "base/base.h"
#include "quern.h"
#include "test.h"

#include <math.h>

enum { MOST = 4 };

typedef struct inputs {
    qn_ctx *qn;
    qn_tensor *x, *y, *row, *scale; /* [r, c], [r, c], [r, 1], [c] */
} inputs;

/* What it asks for in one request; how many there are. */
typedef int (*family)(const inputs *in, qn_tensor **out);

static int moments_of_rows(const inputs *in, qn_tensor **out) {
    out[0] = qn_sum(in->x, 1, false);
    out[1] = qn_sum(qn_mul(in->x, in->x), 1, false);
    return 2;
}
static int moments_of_columns(const inputs *in, qn_tensor **out) {
    out[0] = qn_sum(in->x, 0, false);
    out[1] = qn_sum(qn_mul(in->x, in->x), 0, false);
    return 2;
}
static int moments_of_all(const inputs *in, qn_tensor **out) {
    out[0] = qn_sum(in->x, QN_ALL, false);
    out[1] = qn_sum(qn_mul(in->x, in->x), QN_ALL, false);
    return 2;
}
static int largest_and_sum(const inputs *in, qn_tensor **out) {
    out[0] = qn_max(in->x, 1, false);
    out[1] = qn_sum(in->x, 1, false);
    out[2] = qn_argmin(in->x, 1, false);
    return 3;
}
static int ends_of_columns(const inputs *in, qn_tensor **out) {
    out[0] = qn_max(in->x, 0, false);
    out[1] = qn_min(in->x, 0, false);
    out[2] = qn_sum(qn_mul(in->x, in->y), 0, false);
    return 3;
}
static int elementwise(const inputs *in, qn_tensor **out) {
    out[0] = qn_add(in->x, in->y);
    out[1] = qn_mul(in->x, qn_tanh(in->y));
    return 2;
}
/* The gradients of scale and shift, and each further value that their sums make. */
static int norm_gradients(const inputs *in, qn_tensor **out) {
    qn_tensor *normal = qn_mul(qn_sub(in->x, in->row), in->row);
    out[0] = qn_sum(qn_mul(in->y, normal), 0, false);
    out[1] = qn_sum(in->y, 0, false);
    out[2] = qn_sub(in->scale, qn_mul(out[0], qn_scalar(in->qn, QN_F32, 0.1)));
    out[3] = qn_sub(in->scale, qn_mul(out[1], qn_scalar(in->qn, QN_F32, 0.2)));
    return 4;
}
static const struct {
    const char *name;
    family f;
    int kernels; /* of 100 x 70 */
} families[] = {
    {"moments_of_rows", moments_of_rows, 1}, {"moments_of_columns", moments_of_columns, 1},
    {"moments_of_all", moments_of_all, 1},   {"largest_and_sum", largest_and_sum, 1},
    {"ends_of_columns", ends_of_columns, 1}, {"elementwise", elementwise, 1},
    {"norm_gradients", norm_gradients, 1}};

static float *numbers(int64_t n, uint64_t seed, bool odd) {
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(4 * test_uniform(&seed) - 2);
    for (int64_t i = 0; odd && i < n; i += 997) x[i] = i % 3 ? i % 2 ? -INFINITY : INFINITY : NAN;
    return x;
}

static qn_tensor *input(qn_ctx *qn, int rank, int64_t r, int64_t c, uint64_t seed, bool odd) {
    float *x = numbers(r * c, seed, odd);
    qn_tensor *t = qn_from(qn, QN_F32, rank, rank == 1 ? &c : (int64_t[]){r, c}, x);
    free(x);
    return t;
}

static inputs open_inputs(const char *device, int threads, int64_t r, int64_t c, bool odd) {
    inputs in = {.qn = qn_open(&QN_OPTIONS(.device = device, .threads = threads))};
    in.x = input(in.qn, 2, r, c, 1, odd);
    in.y = input(in.qn, 2, r, c, 2, false);
    in.row = input(in.qn, 2, r, 1, 3, false);
    in.scale = input(in.qn, 1, 1, c, 4, false);
    return in;
}

static int launches(qn_ctx *qn, int n, qn_tensor **t) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    if (qn_realize(n, t)) FAIL("%s", qn_error(qn));
    qn_get_stats(qn, &b, sizeof b);
    return (int)(b.kernels - a.kernels);
}

/* ---- how many -------------------------------------------------------------------------------- */

static void siblings_are_one_kernel(void) {
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        inputs in = open_inputs("null", 1, 100, 70, false);
        qn_tensor *out[MOST];
        int n = families[i].f(&in, out), kernels = launches(in.qn, n, out);
        if (kernels != families[i].kernels)
            FAIL("%s: %d kernels, not %d", families[i].name, kernels, families[i].kernels);
        qn_close(in.qn);
    }
}

/* The gradients of a norm's parameters, in a context where nothing of them is computed yet. */
static inputs norm_of_its_own(qn_tensor **g) {
    inputs in = open_inputs("null", 1, 100, 70, false);
    qn_tensor *p[2] = {in.scale, qn_mul(in.scale, in.scale)};
    qn_realize(1, &p[1]);
    qn_tensor *loss = qn_sum(qn_mul(qn_layer_norm(in.x, p[0], p[1], 1e-5), in.y), QN_ALL, false);
    if (qn_grad(loss, NULL, 2, p, g)) FAIL("%s", qn_error(in.qn));
    return in;
}

static void gradients_of_a_norms_parameters_are_one_kernel(void) {
    qn_tensor *g[2], *apart[2];
    inputs in = norm_of_its_own(g), other = norm_of_its_own(apart);
    int both = launches(in.qn, 2, g);
    int first = launches(other.qn, 1, apart), second = launches(other.qn, 1, apart + 1);
    CHECK(second == 1 && both == first);
    qn_close(in.qn);
    qn_close(other.qn);
}

static void two_stages_serve_both_results(void) {
    inputs in = open_inputs("null", 2, 2048, 512, false);
    qn_tensor *out[MOST];
    CHECK_INT(launches(in.qn, moments_of_all(&in, out), out), 2);
    CHECK_INT(launches(in.qn, norm_gradients(&in, out), out), 2);
    qn_close(in.qn);
}

static void kernels_that_would_not_gain_are_not_fused(void) {
    inputs in = open_inputs("null", 1, 100, 100, false);
    qn_tensor *x = in.x, *y = in.y, *turned = qn_permute(x, 2, (int[]){1, 0});
    qn_tensor *w = qn_contiguous(qn_neg(y)), *v = qn_contiguous(qn_exp(y));
    qn_realize(1, &w);
    qn_realize(1, &v);
    /* the same shape of results, but one goes along the rows and one down the columns */
    qn_tensor *crossed[] = {qn_sum(x, 0, false), qn_sum(x, 1, false)};
    CHECK_INT(launches(in.qn, 2, crossed), 2);
    qn_tensor *other_way[] = {qn_add(x, y), qn_mul(turned, w)};
    CHECK_INT(launches(in.qn, 2, other_way), 2);
    /* a third of what each touches */
    qn_tensor *little[] = {qn_add(qn_mul(x, y), v), qn_mul(x, w)};
    CHECK_INT(launches(in.qn, 2, little), 2);
    /* products have schedules of their own */
    qn_tensor *products[] = {qn_matmul(x, y), qn_sub(x, y)};
    CHECK_INT(launches(in.qn, 2, products), 2);
    qn_tensor *halves[] = {qn_sum(qn_slice(x, 0, 0, 50, 1), 1, false),
                           qn_sum(qn_slice(x, 0, 50, 100, 1), 1, false)};
    CHECK_INT(launches(in.qn, 2, halves), 2);
    qn_close(in.qn);
}

/* Two that read the same matrix the same way, where one waits for what a third makes of the other's
 * sums. */
static void no_fused_kernel_depends_on_itself(void) {
    inputs in = open_inputs("null", 1, 100, 100, false);
    qn_tensor *a = qn_sum(in.y, 0, false);
    qn_tensor *p = qn_matmul(qn_reshape(a, 2, (int64_t[]){1, -1}), in.x);
    qn_tensor *b = qn_sum(qn_mul(in.y, p), 0, false);
    CHECK_INT(launches(in.qn, 3, (qn_tensor *[]){a, p, b}), 2);
    qn_close(in.qn);
}

/* ---- one pass -------------------------------------------------------------------------------- */

static int loops;
static bool scheduled;
static void count_loops(void *user, const char *line) {
    (void)user;
    if (!strncmp(line, "k after ", 8)) scheduled = !strcmp(line, "k after schedule");
    line += strspn(line, " ");
    loops += scheduled && !strncmp(line, "for r", 5);
}

/* Within one kernel, too: what a row's sums have in common is loaded once. */
static void sums_of_one_row_are_one_loop(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .log = count_loops));
    qn_set(qn, "schedule", "0");
    qn_tensor *x = input(qn, 2, 100, 70, 1, false), *y = input(qn, 2, 100, 70, 2, false);
    qn_tensor *s = qn_sum(x, 1, true), *q = qn_sum(qn_mul(x, x), 1, true);
    qn_tensor *variance = qn_sub(q, qn_mul(s, s));
    qn_tensor *waits = qn_sum(qn_mul(x, qn_max(x, 1, true)), 1, true);
    qn_tensor *unlike = qn_add(qn_sum(x, 1, true), qn_max(y, 1, true));
    qn_set(qn, "debug", "k");
    loops = 0;
    CHECK_INT(launches(qn, 1, &variance), 1);
    CHECK_INT(loops, 1);
    loops = 0;
    CHECK_INT(launches(qn, 1, &waits), 1);
    CHECK_INT(loops, 2);
    loops = 0;
    CHECK_INT(launches(qn, 1, &unlike), 1);
    CHECK_INT(loops, 2);
    qn_close(qn);
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct results {
    int n;
    int64_t count[MOST];
    bool whole[MOST];
    void *value[MOST];
} results;

static results run(const char *device, int threads, family f, int64_t r, int64_t c, bool odd) {
    inputs in = open_inputs(device, threads, r, c, odd);
    qn_tensor *out[MOST];
    results got = {.n = f(&in, out)};
    if (qn_realize(got.n, out)) FAIL("%s", qn_error(in.qn));
    for (int i = 0; i < got.n; i++) {
        size_t width = qn_dtype_size(qn_dtype_of(out[i]));
        got.count[i] = qn_numel(out[i]);
        got.whole[i] = qn_dtype_of(out[i]) != QN_F32;
        got.value[i] = calloc((size_t)got.count[i] + 1, width);
        if (qn_read(out[i], got.value[i], (size_t)got.count[i] * width))
            FAIL("%s", qn_error(in.qn));
    }
    qn_close(in.qn);
    return got;
}

static bool close_to(float a, float b, float scale) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabsf(a - b) <= 2e-5f * scale + 2e-5f * fabsf(b);
}

static void check_shape(size_t i, int64_t r, int64_t c, bool odd) {
    results want = run("ref", 1, families[i].f, r, c, odd);
    results one = run("cpu", 1, families[i].f, r, c, odd);
    results three = run("cpu", 3, families[i].f, r, c, odd);
    float scale = 1 + sqrtf((float)(r > c ? r : c)); /* of sums of as many numbers */
    for (int o = 0; o < want.n; o++) {
        bool bad = false;
        int64_t width = want.whole[o] ? 8 : 4;
        for (int64_t e = 0; e < want.count[o] && !bad; e++) {
            if (want.whole[o]
                    ? ((int64_t *)one.value[o])[e] == ((int64_t *)want.value[o])[e]
                    : close_to(((float *)one.value[o])[e], ((float *)want.value[o])[e], scale))
                continue;
            FAIL("%s of %lldx%lld: result %d is wrong at %lld", families[i].name, (long long)r,
                 (long long)c, o, (long long)e);
            bad = true;
        }
        CHECK(!memcmp(one.value[o], three.value[o], (size_t)(want.count[o] * width)));
        free(want.value[o]);
        free(one.value[o]);
        free(three.value[o]);
    }
}

static void values_are_those_of_ref(void) {
    static const int64_t shape[][2] = {{0, 5},     {1, 1},     {1, 1300},  {1300, 1},  {3, 7},
                                       {37, 17},   {16, 64},   {37, 1003}, {64, 256},  {33, 1025},
                                       {1027, 65}, {4099, 50}, {50, 4100}, {2053, 300}};
    for (size_t i = 0; i < COUNT_OF(families); i++)
        for (size_t s = 0; s < COUNT_OF(shape); s++)
            if (shape[s][0] || families[i].f != largest_and_sum)
                check_shape(i, shape[s][0], shape[s][1], s % 2 == 0);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(siblings_are_one_kernel);
    RUN(gradients_of_a_norms_parameters_are_one_kernel);
    RUN(two_stages_serve_both_results);
    RUN(kernels_that_would_not_gain_are_not_fused);
    RUN(no_fused_kernel_depends_on_itself);
    RUN(sums_of_one_row_are_one_loop);
    RUN(values_are_those_of_ref);
    return test_end();
}
