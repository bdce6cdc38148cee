/* test_prepack.c - weights of static graphs are packed once: the result is that of the same graph
 * with the weight as an input, another value of the weight is seen at once however it came, what a
 * plan assigns itself is not packed beforehand, and the memory is accounted for and given back.
 * Elsewhere a weight of many products is packed once in a run. */
#include "quern.h"
#include "test.h"

#include <math.h>

typedef struct shape {
    int m, n, k;
    bool turned; /* the weight is [n, k] */
    qn_dtype dtype, sum;
} shape;

static qn_tensor *random_matrix(qn_ctx *qn, int rows, int columns, qn_dtype dtype, uint64_t seed) {
    int64_t n = (int64_t)rows * columns, dims[2] = {rows, columns};
    float *p = malloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = (float)((int)test_below(&seed, 255) - 127);
    qn_tensor *t = qn_from(qn, QN_F32, 2, dims, p);
    if (dtype != QN_F32) t = qn_cast(t, dtype); /* one handle owns the value */
    qn_realize(1, &t);
    free(p);
    return t;
}

static qn_tensor *weight_of(qn_ctx *qn, const shape *s, uint64_t seed) {
    return random_matrix(qn, s->turned ? s->n : s->k, s->turned ? s->k : s->n, s->dtype, seed);
}

static qn_tensor *product(const shape *s, qn_tensor *x, qn_tensor *w) {
    if (s->dtype != s->sum) w = qn_cast(w, s->sum), x = qn_cast(x, s->sum);
    return qn_neg(qn_matmul(x, s->turned ? qn_transpose(w, 0, 1) : w));
}

/* One run; the launches it took. */
static int run(qn_ctx *qn, qn_plan *p, qn_tensor *const *in, const shape *s, void *out) {
    qn_stats a, b;
    qn_tensor *y = NULL;
    qn_get_stats(qn, &a, sizeof a);
    if (qn_plan_run(p, in, &y)) FAIL("run: %s", qn_error(qn));
    qn_get_stats(qn, &b, sizeof b);
    if (qn_read(y, out, (size_t)s->m * (size_t)s->n * 4)) FAIL("read: %s", qn_error(qn));
    qn_release(y);
    return (int)(b.kernels - a.kernels);
}

static void check_shape(const shape *s, int threads) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads));
    size_t bytes = (size_t)s->m * (size_t)s->n * 4;
    void *got = malloc(bytes), *want = malloc(bytes);
    qn_tensor *in[2] = {random_matrix(qn, s->m, s->k, s->dtype, 1), weight_of(qn, s, 2)};
    qn_tensor *y = product(s, in[0], in[1]);
    qn_plan *packed = qn_plan_new(qn, 1, in, 1, &y), *plain = qn_plan_new(qn, 2, in, 1, &y);
    for (int i = 0; i < 3; i++) {
        int first = run(qn, packed, in, s, got), again = run(qn, packed, in, s, got);
        CHECK_INT(run(qn, plain, in, s, want), 1);
        CHECK_INT(again, 1);
        CHECK_INT(first, 2);
        /* whole numbers, small enough to be summed exactly in any order */
        if (memcmp(got, want, bytes))
            FAIL("%dx%dx%d%s of %s, value %d: differs from the plain product", s->m, s->n, s->k,
                 s->turned ? " turned" : "", qn_dtype_name(s->dtype), i);
        qn_tensor *other = weight_of(qn, s, (uint64_t)i + 7);
        if (i == 0) {
            CHECK_INT(qn_assign(in[1], other), QN_OK);
        } else {
            size_t size = (size_t)s->n * (size_t)s->k * qn_dtype_size(s->dtype);
            void *data = malloc(size);
            CHECK_INT(qn_read(other, data, size), QN_OK);
            CHECK_INT(qn_write(in[1], data, size), QN_OK);
            free(data);
        }
    }
    qn_plan_free(packed);
    qn_plan_free(plain);
    qn_close(qn);
    free(got);
    free(want);
}

static void weights_are_packed_once_and_again_when_they_change(void) {
    static const shape shapes[] = {
        {64, 96, 128, false, QN_F32, QN_F32},  {20, 131, 67, false, QN_F32, QN_F32},
        {20, 131, 67, true, QN_F32, QN_F32},   {8, 100, 300, true, QN_F32, QN_F32},
        {3, 70, 33, true, QN_F32, QN_F32},     {130, 67, 700, true, QN_F32, QN_F32},
        {33, 65, 129, false, QN_BF16, QN_F32}, {16, 64, 64, true, QN_I8, QN_I32},
        {17, 67, 65, false, QN_I8, QN_I32},    {19, 64, 66, true, QN_I16, QN_I32},
        {12, 99, 50, true, QN_U8, QN_I32},     {40, 64, 40, true, QN_F16, QN_F32},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i], i % 2 ? 2 : 1);
}

/* A weight that each run assigns has a new value each time: it is packed by the product. */
static void what_a_plan_assigns_is_not_packed_beforehand(void) {
    static const shape s = {32, 64, 64, false, QN_F32, QN_F32};
    qn_ctx *qn = qn_open(NULL);
    float *first = malloc(32 * 64 * 4), *second = malloc(32 * 64 * 4);
    qn_tensor *in[1] = {random_matrix(qn, 32, 64, QN_F32, 1)}, *w = weight_of(qn, &s, 2);
    qn_tensor *y = product(&s, in[0], w);
    CHECK_INT(qn_assign(w, qn_mul(w, qn_like(w, 2))), QN_OK);
    qn_plan *p = qn_plan_new(qn, 1, in, 1, &y);
    int one = run(qn, p, in, &s, first);
    CHECK_INT(run(qn, p, in, &s, second), one);
    int bad = 0;
    for (int i = 0; i < 32 * 64; i++) bad += second[i] != 2 * first[i];
    CHECK_INT(bad, 0);
    qn_plan_free(p);
    qn_close(qn);
    free(first);
    free(second);
}

static void packed_memory_is_counted_and_given_back(void) {
    static const shape s = {32, 640, 512, true, QN_F32, QN_F32};
    qn_ctx *qn = qn_open(NULL);
    void *out = malloc(32 * 640 * 4);
    qn_stats before, packed, after;
    qn_tensor *in[1] = {random_matrix(qn, 32, 512, QN_F32, 1)}, *w = weight_of(qn, &s, 2);
    qn_tensor *y = product(&s, in[0], w), *any = qn_neg(in[0]);
    qn_realize(1, &any); /* the context's room for temporaries is there from now on */
    qn_release(any);
    qn_get_stats(qn, &before, sizeof before);
    qn_plan *p = qn_plan_new(qn, 1, in, 1, &y);
    run(qn, p, in, &s, out);
    qn_get_stats(qn, &packed, sizeof packed);
    CHECK(packed.bytes >= before.bytes + 640 * 512 * 4);
    CHECK_INT(packed.buffers, before.buffers + 1);
    qn_plan_free(p);
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.bytes, before.bytes);
    CHECK_INT(after.buffers, before.buffers);
    qn_close(qn);
    free(out);
}

enum { USES = 6 };

/* x_i w of so many x, in one request; the launches it took. They are of whole numbers, exact. */
static int products(qn_ctx *qn, int n, const shape *s, qn_tensor *const *x, qn_tensor *w,
                    float *const *got) {
    qn_tensor *y[USES];
    qn_stats before, after;
    for (int i = 0; i < n; i++) y[i] = product(s, x[i], w);
    qn_get_stats(qn, &before, sizeof before);
    CHECK_INT(qn_realize(n, y), QN_OK);
    qn_get_stats(qn, &after, sizeof after);
    for (int i = 0; i < n; i++) {
        CHECK_INT(qn_read(y[i], got[i], (size_t)s->m * (size_t)s->n * 4), QN_OK);
        qn_release(y[i]);
    }
    return (int)(after.kernels - before.kernels);
}

static void check_products(const shape *s, const float *x, const float *w, const float *got) {
    int wrong = 0;
    for (int i = 0; i < s->m; i++)
        for (int j = 0; j < s->n; j++) {
            double sum = 0;
            for (int r = 0; r < s->k; r++)
                sum -= (double)x[i * s->k + r] * w[s->turned ? j * s->k + r : r * s->n + j];
            wrong += got[i * s->n + j] != (float)sum;
        }
    CHECK_INT(wrong, 0);
}

/* One launch of all products, and one that packs. A new value is packed anew. */
static void a_weight_of_many_products_is_packed_once_in_a_run(void) {
    static const shape shapes[] = {{33, 131, 67, true, QN_F32, QN_F32},
                                   {20, 96, 80, false, QN_F32, QN_F32}};
    for (int k = 0; k < 2; k++) {
        const shape *s = &shapes[k];
        qn_ctx *qn = qn_open(NULL);
        qn_set(qn, "kept_memory", "0"); /* else the third request keeps -x */
        qn_tensor *x[USES], *w = weight_of(qn, s, 2);
        float *got[USES], *in = calloc((size_t)(s->m * s->k), 4);
        float *weight = calloc((size_t)(s->n * s->k), 4);
        for (int i = 0; i < USES; i++) {
            x[i] = random_matrix(qn, s->m, s->k, QN_F32, (uint64_t)i + 20);
            got[i] = calloc((size_t)(s->m * s->n), 4);
        }
        CHECK_INT(products(qn, 3, s, x, w, got), 1);
        for (int turn = 0; turn < 2; turn++) {
            CHECK_INT(products(qn, USES, s, x, w, got), 2);
            CHECK_INT(qn_read(w, weight, (size_t)(s->n * s->k) * 4), QN_OK);
            for (int i = 0; i < USES; i++) {
                CHECK_INT(qn_read(x[i], in, (size_t)(s->m * s->k) * 4), QN_OK);
                check_products(s, in, weight, got[i]);
            }
            CHECK_INT(qn_assign(w, weight_of(qn, s, 9)), QN_OK);
            CHECK_INT(qn_realize(1, &w), QN_OK);
        }
        qn_close(qn);
        for (int i = 0; i < USES; i++) free(got[i]);
        free(in);
        free(weight);
    }
}

/* And in a static graph there are panels of it once. */
static void so_in_a_static_graph_which_keeps_one_copy(void) {
    static const shape s = {32, 640, 512, true, QN_F32, QN_F32};
    qn_ctx *qn = qn_open(NULL);
    qn_tensor *x[USES], *w = weight_of(qn, &s, 2), *y[USES], *out[USES];
    qn_stats before, after;
    for (int i = 0; i < USES; i++) {
        x[i] = random_matrix(qn, 32, 512, QN_F32, (uint64_t)i + 20);
        y[i] = product(&s, x[i], w);
    }
    qn_plan *p = qn_plan_new(qn, USES, x, USES, y);
    qn_get_stats(qn, &before, sizeof before);
    CHECK_INT(qn_plan_run(p, x, out), QN_OK);
    qn_get_stats(qn, &after, sizeof after);
    CHECK_INT(after.kernels - before.kernels, 2);
    CHECK_INT(after.buffers - before.buffers, USES + 1);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(weights_are_packed_once_and_again_when_they_change);
    RUN(what_a_plan_assigns_is_not_packed_beforehand);
    RUN(packed_memory_is_counted_and_given_back);
    RUN(a_weight_of_many_products_is_packed_once_in_a_run);
    RUN(so_in_a_static_graph_which_keeps_one_copy);
    return test_end();
}
