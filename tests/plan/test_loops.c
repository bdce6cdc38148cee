/* test_loops.c - outer loops over parts of an axis: norms whose statistics belong to groups of a
 * result's axis are one kernel, counted on the device null, and have the values that the device ref
 * finds, with gradients, at shapes whose parts are odd, with infinities and NaN among them. */
#include "base/base.h"
#include "quern.h"
#include "test.h"

enum { MOST = 4 };

typedef struct shape {
    int64_t n, c, h, w, groups;
} shape;

typedef struct inputs {
    qn_ctx *qn;
    qn_tensor *x, *scale, *shift; /* [n, c, h, w], [c], [c] */
    shape s;
} inputs;

typedef qn_tensor *(*pattern)(const inputs *in);

/* (x - mean) / sqrt(variance + eps) over some axes. */
static qn_tensor *normal(qn_tensor *x, int n, const int *axes) {
    qn_tensor *d = qn_sub(x, qn_mean_axes(x, n, axes, true));
    qn_tensor *v = qn_mean_axes(qn_mul(d, d), n, axes, true);
    return qn_mul(d, qn_rsqrt(qn_add(v, qn_like(v, 1e-5))));
}
static qn_tensor *by_channel(const inputs *in, qn_tensor *y) {
    const int64_t dims[4] = {1, in->s.c, 1, 1};
    return qn_fma(y, qn_reshape(in->scale, 4, dims), qn_reshape(in->shift, 4, dims));
}
static qn_tensor *whole(const inputs *in, qn_tensor *y) {
    return qn_reshape(y, 4, (int64_t[]){in->s.n, in->s.c, in->s.h, in->s.w});
}

static qn_tensor *group_norm(const inputs *in) {
    return qn_group_norm(in->x, in->scale, in->shift, in->s.groups, 1e-5);
}
static qn_tensor *group_norm_of_five_axes(const inputs *in) {
    const int64_t dims[5] = {in->s.n, in->s.groups, in->s.c / in->s.groups, in->s.h, in->s.w};
    qn_tensor *y = normal(qn_reshape(in->x, 5, dims), 3, (int[]){2, 3, 4});
    return qn_relu(by_channel(in, whole(in, y)));
}
/* The channels are the last axis: a part of it is summed, with places in front of it. */
static qn_tensor *group_norm_of_last_axis(const inputs *in) {
    const int64_t flat[3] = {in->s.n * in->s.w, in->s.h, in->s.c};
    const int64_t dims[4] = {flat[0], flat[1], in->s.groups, in->s.c / in->s.groups};
    qn_tensor *y = normal(qn_reshape(in->x, 4, dims), 2, (int[]){1, 3});
    return qn_fma(qn_reshape(y, 3, flat), in->scale, in->shift);
}
/* All axes are one afterwards. */
static qn_tensor *rows_of_a_vector(const inputs *in) {
    const int64_t rows[2] = {in->s.n * in->s.c, in->s.h * in->s.w}, all = rows[0] * rows[1];
    return qn_reshape(qn_softmax(qn_reshape(in->x, 2, rows), 1), 1, &all);
}
/* A running sum beside them along an axis whose parts have loops: it is of no part alone. */
static qn_tensor *scan_of_a_vector(const inputs *in) {
    const int64_t all = in->s.n * in->s.c * in->s.h * in->s.w;
    qn_tensor *x = qn_reshape(in->x, 1, &all);
    return qn_mul(rows_of_a_vector(in), qn_cumsum(qn_mul(x, qn_like(x, 0.01)), 0));
}
static qn_tensor *scan_of_last_axis(const inputs *in) {
    const int64_t flat[3] = {in->s.n * in->s.w, in->s.h, in->s.c};
    qn_tensor *x = qn_reshape(in->x, 3, flat);
    return qn_mul(group_norm_of_last_axis(in), qn_cumsum(x, 2));
}
static qn_tensor *scan_of_a_norm(const inputs *in) {
    return qn_cumsum(group_norm(in), 1);
}
static qn_tensor *instance_norm(const inputs *in) {
    return by_channel(in, normal(in->x, 2, (int[]){2, 3}));
}
static qn_tensor *batch_norm(const inputs *in) {
    return by_channel(in, normal(in->x, 3, (int[]){0, 2, 3}));
}
static qn_tensor *norm_of_a_norm(const inputs *in) {
    inputs next = *in;
    next.x = qn_add(group_norm(in), in->x);
    return qn_mul(group_norm(&next), in->x);
}
/* Statistics of one grouping beside values of another. */
static qn_tensor *two_groupings(const inputs *in) {
    const int64_t other = in->s.c % 4 ? in->s.c : in->s.c / 2;
    qn_tensor *y = qn_group_norm(in->x, NULL, NULL, other, 1e-5);
    return qn_add(group_norm(in), y);
}
static qn_tensor *norms_side_by_side(const inputs *in) {
    qn_tensor *y[6];
    for (int i = 0; i < 6; i++) y[i] = qn_mul(group_norm(in), qn_like(in->x, 1 + i));
    return qn_concat(6, y, 1);
}
static qn_tensor *norm_of_a_product(const inputs *in) {
    inputs next = *in;
    next.x = qn_matmul(in->x, qn_transpose(in->x, 2, 3));
    next.s.w = next.s.h;
    return group_norm(&next);
}

static const struct {
    const char *name;
    pattern make;
    int kernels; /* of [8, 24, 6, 10] in 8 groups; 0: it does not matter */
} patterns[] = {{"group_norm", group_norm, 1},
                {"group_norm_of_five_axes", group_norm_of_five_axes, 1},
                {"group_norm_of_last_axis", group_norm_of_last_axis, 1},
                {"rows_of_a_vector", rows_of_a_vector, 1},
                {"scan_of_a_vector", scan_of_a_vector, 0},
                {"scan_of_last_axis", scan_of_last_axis, 0},
                {"scan_of_a_norm", scan_of_a_norm, 0},
                {"instance_norm", instance_norm, 1},
                {"batch_norm", batch_norm, 1},
                {"norm_of_a_norm", norm_of_a_norm, 0},
                {"two_groupings", two_groupings, 0},
                {"norms_side_by_side", norms_side_by_side, 0},
                {"norm_of_a_product", norm_of_a_product, 2}};

static const shape shapes[] = {{8, 24, 6, 10, 8},  {4, 32, 16, 16, 8}, {3, 6, 5, 7, 2},
                               {3, 6, 5, 7, 3},    {1, 9, 1, 1, 3},    {2, 5, 3, 1, 1},
                               {2, 5, 1, 13, 5},   {17, 22, 2, 3, 11}, {1, 64, 33, 1, 16},
                               {2, 36, 12, 11, 6}, {1, 2, 70, 70, 2}};

static qn_tensor *input(qn_ctx *qn, int rank, const int64_t *dims, uint64_t seed, bool odd) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(4 * test_uniform(&seed) - 1);
    for (int64_t i = 0; odd && i < n; i += 97) x[i] = i % 3 ? INFINITY : NAN;
    qn_tensor *t = qn_from(qn, QN_F32, rank, dims, x);
    free(x);
    return t;
}

static inputs open_inputs(const char *device, shape s, bool odd) {
    inputs in = {.qn = qn_open(&QN_OPTIONS(.device = device)), .s = s};
    in.x = input(in.qn, 4, (int64_t[]){s.n, s.c, s.h, s.w}, 1, odd);
    in.scale = input(in.qn, 1, &s.c, 2, false);
    in.shift = input(in.qn, 1, &s.c, 3, false);
    return in;
}

static void norms_are_one_kernel(void) {
    for (size_t i = 0; i < COUNT_OF(patterns); i++) {
        inputs in = open_inputs("null", shapes[0], false);
        qn_stats a, b;
        qn_tensor *y = patterns[i].make(&in);
        qn_get_stats(in.qn, &a, sizeof a);
        if (qn_realize(1, &y)) FAIL("%s", qn_error(in.qn));
        qn_get_stats(in.qn, &b, sizeof b);
        int kernels = (int)(b.kernels - a.kernels);
        if (patterns[i].kernels && kernels != patterns[i].kernels)
            FAIL("%s: %d kernels, not %d", patterns[i].name, kernels, patterns[i].kernels);
        qn_close(in.qn);
    }
}

/* The loops of the kernel of what would be the same without parts are what they were. */
static int loops;
static bool lowered;
static void count_loops(void *user, const char *line) {
    (void)user;
    if (!strncmp(line, "k after ", 8)) lowered = !strcmp(line, "k after schedule");
    line += strspn(line, " ");
    loops += lowered && !strncmp(line, "for i", 5);
}
static void an_axis_that_nothing_takes_apart_is_one_loop(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "null", .log = count_loops));
    qn_set(qn, "schedule", "0");
    const int64_t dims[3] = {4, 24, 10}, split[4] = {4, 8, 3, 10};
    qn_tensor *x = input(qn, 3, dims, 1, false);
    qn_tensor *m = qn_mean_axes(qn_reshape(x, 4, split), 1, (int[]){2}, true);
    qn_realize(1, &m); /* in memory, so nothing is staged */
    qn_tensor *y = qn_mul(qn_reshape(qn_sub(qn_reshape(x, 4, split), m), 3, dims), x);
    qn_set(qn, "debug", "k");
    loops = 0;
    CHECK_INT(qn_realize(1, &y), QN_OK);
    CHECK_INT(loops, 3);
    qn_close(qn);
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct results {
    int n;
    int64_t count[MOST];
    float *value[MOST];
} results;

/* The pattern's values, and its gradients where nothing is odd. */
static results run(const char *device, pattern make, shape s, bool odd) {
    inputs in = open_inputs(device, s, odd);
    qn_tensor *of[3] = {in.x, in.scale, in.shift}, *out[MOST] = {make(&in)};
    results got = {.n = odd ? 1 : MOST};
    int64_t dims[QN_MAX_RANK];
    for (int i = 0; i < qn_rank(out[0]); i++) dims[i] = qn_dim(out[0], i);
    qn_tensor *seed = input(in.qn, qn_rank(out[0]), dims, 4, false);
    if (!odd && qn_grad(out[0], seed, 3, of, out + 1)) FAIL("%s", qn_error(in.qn));
    if (qn_realize(got.n, out)) FAIL("%s", qn_error(in.qn));
    for (int i = 0; i < got.n; i++) {
        got.count[i] = qn_numel(out[i]);
        got.value[i] = calloc((size_t)got.count[i] + 1, sizeof(float));
        if (qn_read(out[i], got.value[i], (size_t)got.count[i] * sizeof(float)))
            FAIL("%s", qn_error(in.qn));
    }
    qn_close(in.qn);
    return got;
}

static bool close_to(float a, float b, float scale) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabsf(a - b) <= 1e-4f * scale + 1e-4f * fabsf(b);
}

static void check(size_t i, shape s, bool odd) {
    results want = run("ref", patterns[i].make, s, odd), got = run("cpu", patterns[i].make, s, odd);
    for (int o = 0; o < want.n; o++) {
        float scale = 0;
        for (int64_t e = 0; e < want.count[o]; e++)
            if (isfinite(want.value[o][e])) scale = fmaxf(scale, fabsf(want.value[o][e]));
        for (int64_t e = 0; e < want.count[o]; e++) {
            if (close_to(got.value[o][e], want.value[o][e], scale)) continue;
            FAIL("%s of [%lld, %lld, %lld, %lld] in %lld: result %d is %g at %lld, not %g",
                 patterns[i].name, (long long)s.n, (long long)s.c, (long long)s.h, (long long)s.w,
                 (long long)s.groups, o, (double)got.value[o][e], (long long)e,
                 (double)want.value[o][e]);
            break;
        }
        free(want.value[o]);
        free(got.value[o]);
    }
}

static void values_and_gradients_are_those_of_ref(void) {
    for (size_t i = 0; i < COUNT_OF(patterns); i++)
        for (size_t s = 0; s < COUNT_OF(shapes); s++) check(i, shapes[s], false);
}

static void infinities_and_nan_stay_in_their_groups(void) {
    for (size_t i = 0; i < COUNT_OF(patterns); i++) check(i, shapes[2], true);
}

static void no_elements_are_no_elements(void) {
    inputs in = open_inputs("cpu", (shape){2, 6, 0, 4, 3}, false);
    qn_tensor *y = group_norm(&in);
    CHECK_INT(qn_realize(1, &y), QN_OK);
    CHECK_INT(qn_numel(y), 0);
    qn_close(in.qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(norms_are_one_kernel);
    RUN(an_axis_that_nothing_takes_apart_is_one_loop);
    RUN(values_and_gradients_are_those_of_ref);
    RUN(infinities_and_nan_stay_in_their_groups);
    RUN(no_elements_are_no_elements);
    return test_end();
}
