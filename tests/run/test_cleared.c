/* test_cleared.c - variables of zeros: memory of their own, without a kernel and, where they are
 * large, without a touch, whatever lay there before. */
#include "base/base.h"
#include "quern.h"
#include "resident.h"
#include "test.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static qn_stats stats_of(const qn_ctx *qn) {
    qn_stats s;
    qn_get_stats(qn, &s, sizeof s);
    return s;
}

static qn_tensor *cleared(qn_ctx *qn, qn_dtype dtype, int64_t n) {
    qn_tensor *t = qn_variable(qn_zeros(qn, dtype, 1, &n));
    CHECK_INT(qn_realize(1, &t), QN_OK);
    return t;
}

/* How many bytes of t's value are not 0. */
static int64_t set_bytes(qn_tensor *t) {
    size_t size = (size_t)qn_numel(t) * qn_dtype_size(qn_dtype_of(t));
    uint8_t *got = malloc(size + 1);
    int64_t set = 0;
    memset(got, 7, size + 1);
    CHECK_INT(qn_read(t, got, size), QN_OK);
    for (size_t i = 0; i < size; i++) set += got[i] != 0;
    free(got);
    return set;
}

/* x with `row` from place `at` on. */
static void put(qn_ctx *qn, qn_tensor *x, float value, int64_t at, int64_t n) {
    qn_tensor *row = qn_full(qn, QN_F32, 1, &n, value);
    CHECK_INT(qn_assign(qn_slice(x, 0, at, at + n, 1), row), QN_OK);
}

static void each_has_memory_of_its_own(void) {
    enum { N = 100000 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    qn_tensor *x = cleared(qn, QN_F32, N), *y = cleared(qn, QN_F32, N), *all[] = {x, y};
    CHECK_INT(stats_of(qn).kernels, 0);
    put(qn, x, 1, 10, 3);
    put(qn, y, 2, N - 1, 1);
    CHECK_INT(qn_realize(2, all), QN_OK);
    CHECK_INT(stats_of(qn).replaced, 2); /* neither had to copy what both were */
    float got[2];
    CHECK_INT(qn_read(qn_sum(x, 0, false), &got[0], 4), QN_OK);
    CHECK_INT(qn_read(qn_sum(y, 0, false), &got[1], 4), QN_OK);
    CHECK(got[0] == 3 && got[1] == 2);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void *own_alloc(void *user, size_t size, size_t align) {
    (void)user;
    void *p = aligned_alloc(align, (size + align - 1) / align * align);
    if (p) memset(p, 0x5a, size);
    return p;
}

static void own_free(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    free(p);
}

/* Blocks of the same size held ones before. */
static void check_over_ones(qn_ctx *qn, qn_dtype dtype, int64_t n) {
    qn_scope scope = qn_scope_begin(qn);
    qn_tensor *ones = qn_contiguous(qn_ones(qn, dtype, 1, &n));
    CHECK_INT(qn_realize(1, &ones), QN_OK);
    qn_scope_end(qn, scope);
    scope = qn_scope_begin(qn);
    int64_t set = set_bytes(cleared(qn, dtype, n));
    if (set)
        FAIL("%s of %lld: %lld bytes are set", qn_dtype_name(dtype), (long long)n, (long long)set);
    qn_scope_end(qn, scope);
}

static void whatever_lay_there_before(void) {
    static const int64_t size[] = {0, 1, 4095, 65535, 65536, 65537, 200003, 5000001};
    static const qn_dtype dtype[] = {QN_F32, QN_F16, QN_BOOL, QN_I64, QN_U8};
    for (int own = 0; own < 2; own++) {
        qn_ctx *qn =
            qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1, .alloc = own ? own_alloc : NULL,
                                .free = own ? own_free : NULL));
        for (size_t d = 0; d < COUNT_OF(dtype); d++)
            for (size_t i = 0; i < COUNT_OF(size); i++) check_over_ones(qn, dtype[d], size[i]);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
    }
}

/* Bits that are not all 0 are another constant. */
static void zeros_with_a_sign_keep_it(void) {
    int64_t n = 70000;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    qn_tensor *t = qn_variable(qn_full(qn, QN_F32, 1, &n, -0.0));
    CHECK_INT(set_bytes(t), n);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* By devices that compute by element, and those with memory of their own, as well. */
static void on_every_device(void) {
    static const char *const device[] = {"cpu", "ref", "opencl"};
    for (size_t d = 0; d < COUNT_OF(device); d++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device[d]));
        if (!qn) continue;
        qn_tensor *x = cleared(qn, QN_F32, 70001);
        CHECK_INT(set_bytes(x), 0);
        put(qn, x, 0.5, 5, 2);
        CHECK_INT(set_bytes(x), 2);
        CHECK_STR(qn_error(qn), "");
        qn_close(qn);
    }
}

/* Large blocks of memory that there is no more of from some size on. */
static size_t large_used, large_most;
enum { LARGE = 1 << 20 };

static void *few_alloc(void *user, size_t size, size_t align) {
    (void)user;
    if (size >= LARGE && large_used + size > large_most) return NULL;
    if (size >= LARGE) large_used += size;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void few_free(void *user, void *p, size_t size) {
    (void)user;
    if (size >= LARGE) large_used -= size;
    free(p);
}

/* A value that is kept to be used again is not given up by the request that asks for it. */
static void without_memory_what_is_asked_for_stays(void) {
    int64_t n = LARGE;
    large_used = 0;
    large_most = SIZE_MAX;
    qn_ctx *qn =
        qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1, .alloc = few_alloc, .free = few_free));
    float *data = malloc((size_t)n * sizeof *data), sum;
    for (int64_t i = 0; i < n; i++) data[i] = 1;
    qn_tensor *x = qn_from(qn, QN_F32, 1, &n, data), *y = qn_exp(qn_sin(qn_exp(x)));
    for (int i = 0; i < 3; i++) {
        qn_tensor *other = qn_from(qn, QN_F32, 1, &n, data);
        CHECK_INT(qn_read(qn_sum(qn_mul(y, other), 0, false), &sum, sizeof sum), QN_OK);
    }
    free(data);
    CHECK(stats_of(qn).kept_bytes > 0);
    qn_tensor *all[] = {y, qn_variable(qn_zeros(qn, QN_F32, 1, &n))};
    large_most = large_used;
    if (qn_realize(2, all)) qn_clear_error(qn);
    large_most = SIZE_MAX;
    const void *at = NULL;
    CHECK_INT(qn_data(y, &at), QN_OK);
    CHECK(at && fabsf(((const float *)at)[5] - 1.508f) < 1e-3f);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void pages_come_as_they_are_written(void) {
    enum { N = 64 << 20 };
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "cpu", .threads = 1));
    put(qn, cleared(qn, QN_F32, 100), 1, 0, 1);
    const int64_t before = resident();
    qn_tensor *x = cleared(qn, QN_F32, N), *y = cleared(qn, QN_F32, N), *all[] = {x, y};
    put(qn, x, 1, N / 2, 3);
    put(qn, y, 1, 1, 3);
    CHECK_INT(qn_realize(2, all), QN_OK);
    const int64_t grown = resident() - before;
    if (grown > 64 << 20) FAIL("%lld MiB of 512 are there", (long long)grown >> 20);
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}
#else
static void pages_come_as_they_are_written(void) {
    SKIP("a sanitizer's allocator, or another system");
}
#endif

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(each_has_memory_of_its_own);
    RUN(whatever_lay_there_before);
    RUN(zeros_with_a_sign_keep_it);
    RUN(on_every_device);
    RUN(without_memory_what_is_asked_for_stays);
    RUN(pages_come_as_they_are_written);
    return test_end();
}
