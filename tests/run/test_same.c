/* test_same.c - the same bits every time: however many threads, whichever run, objects fresh or
 * from the cache on disk. Sums are where it would show: how they are cut may follow the shapes,
 * never who computes. */
#include <unistd.h>

#include "base/base.h"
#include "quern.h"
#include "test.h"

enum { CASES = 12, RUNS = 50 };

static qn_tensor *noise(qn_ctx *qn, int rank, int64_t a, int64_t b, int64_t c) {
    int64_t shape[3] = {a, b, c}, n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    float *x = malloc((size_t)n * sizeof *x);
    uint64_t seed = (uint64_t)(a + 31 * b + 977 * c);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(test_uniform(&seed) - 0.4);
    qn_tensor *t = qn_from(qn, QN_F32, rank, shape, x);
    free(x);
    return t;
}

static qn_tensor *product(qn_ctx *qn, int64_t m, int64_t n, int64_t k) {
    return qn_matmul(noise(qn, 2, m, k, 0), noise(qn, 2, k, n, 1));
}

static qn_tensor *make_case(qn_ctx *qn, int i) {
    qn_tensor *x;
    switch (i) {
    case 0:
        return product(qn, 301, 257, 1100);
    case 1:
        return product(qn, 1, 900, 3000);
    case 2:
        return product(qn, 8, 700, 2048);
    case 3:
        return product(qn, 40, 33, 20000);
    case 4: /* rows far apart, as in a weight's gradient */
        x = qn_permute(noise(qn, 2, 1024, 96, 2), 2, (int[]){1, 0});
        return qn_matmul(x, noise(qn, 2, 1024, 130, 3));
    case 5:
        return qn_sum(noise(qn, 1, 1 << 20, 0, 0), 0, false);
    case 6:
        return qn_sum(noise(qn, 2, 1500, 700, 4), 0, false);
    case 7:
        return qn_sum(noise(qn, 2, 1500, 700, 4), 1, false);
    case 8:
        return qn_softmax(noise(qn, 2, 300, 1111, 5), 1);
    case 9:
        x = noise(qn, 3, 12, 64, 48);
        x = qn_softmax(qn_matmul(x, qn_permute(x, 3, (int[]){0, 2, 1})), 2);
        return qn_matmul(x, noise(qn, 3, 12, 64, 48));
    case 10:
        x = noise(qn, 2, 600, 400, 6);
        return qn_div(qn_exp(x), qn_add(qn_tanh(x), qn_sum(qn_exp(x), 1, true)));
    default:
        return qn_prod(qn_add(noise(qn, 2, 5, 30000, 7), qn_scalar(qn, QN_F32, 0.9)), 1, false);
    }
}

/* One number for all bits of a case's result. */
static uint64_t bits_of(qn_ctx *qn, int i) {
    qn_scope s = qn_scope_begin(qn);
    qn_tensor *y = make_case(qn, i);
    size_t size = (size_t)qn_numel(y) * sizeof(float);
    void *data = calloc(1, size + 1);
    if (!y || qn_read(y, data, size)) FAIL("case %d: %s", i, qn_error(qn));
    uint64_t h = hash_bytes(data, size, 0);
    free(data);
    qn_scope_end(qn, s);
    return h;
}

/* Returns how many kernels had to be compiled. */
static uint64_t all_cases(int threads, const char *cache, uint64_t *h) {
    if (cache) setenv("QN_CACHE", cache, 1);
    qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads));
    setenv("QN_CACHE", "off", 1);
    for (int i = 0; i < CASES; i++) h[i] = bits_of(qn, i);
    qn_stats stats;
    qn_get_stats(qn, &stats, sizeof stats);
    qn_close(qn);
    return stats.compiles;
}

static void compare(const uint64_t *h, const uint64_t *want, const char *what) {
    for (int i = 0; i < CASES; i++)
        if (h[i] != want[i]) FAIL("case %d differs %s", i, what);
}

static void threads_change_no_bit(void) {
    uint64_t one[CASES], other[CASES];
    all_cases(1, NULL, one);
    for (int threads = 2; threads <= 5; threads++) {
        char what[40];
        snprintf(what, sizeof what, "with %d threads", threads);
        all_cases(threads, NULL, other);
        compare(other, one, what);
    }
}

static void runs_change_no_bit(void) {
    for (int threads = 1; threads <= 2; threads++) {
        qn_ctx *qn = qn_open(&QN_OPTIONS(.threads = threads));
        for (int i = 0; i < CASES; i++) {
            uint64_t first = bits_of(qn, i);
            for (int r = 1; r < RUNS / 2 && !test_state.bad; r++)
                if (bits_of(qn, i) != first) FAIL("case %d differs in run %d", i, r);
        }
        qn_close(qn);
    }
}

static void objects_from_the_cache_change_no_bit(void) {
    char folder[] = "/tmp/quern-same-XXXXXX", command[80];
    uint64_t fresh[CASES], cold[CASES], warm[CASES];
    CHECK(mkdtemp(folder) != NULL);
    all_cases(2, NULL, fresh);
    CHECK(all_cases(2, folder, cold) > 0);
    CHECK_INT(all_cases(2, folder, warm), 0);
    compare(cold, fresh, "with a cold cache");
    compare(warm, fresh, "with a warm cache");
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_INT(system(command), 0);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(threads_change_no_bit);
    RUN(runs_change_no_bit);
    RUN(objects_from_the_cache_change_no_bit);
    return test_end();
}
