/* test_level.c - concurrent launches: independent branches of a graph become levels as deep as the
 * branches are long, large kernels are levels of their own, and launches of one level neither
 * depend on each other nor share memory. The interpreter runs a level from its end, the null device
 * compares the memory that its launches access. */
#include "books.h"
#include "interp_device.h"
#include "test.h"

enum { BRANCHES = 8, DEPTH = 6, LENGTH = 100 };

typedef struct counts {
    uint64_t kernels, levels;
} counts;

static counts counted(qn_ctx *qn, qn_tensor **t, int n) {
    qn_stats a, b;
    qn_get_stats(qn, &a, sizeof a);
    if (qn_realize(n, t)) FAIL("%s", qn_error(qn));
    qn_get_stats(qn, &b, sizeof b);
    return (counts){b.kernels - a.kernels, b.levels - a.levels};
}

static qn_tensor *numbers(qn_ctx *qn, int64_t n, float first) {
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = first + (float)(i % 50);
    qn_tensor *t = qn_from(qn, QN_F32, 1, &n, x);
    free(x);
    return t;
}

static void make_branches(qn_ctx *qn, qn_tensor **t) {
    for (int b = 0; b < BRANCHES; b++) {
        t[b] = numbers(qn, LENGTH, (float)b);
        for (int i = 0; i < DEPTH; i++) t[b] = (i + b) % 2 ? qn_add(t[b], t[b]) : qn_neg(t[b]);
    }
}

static void check_branches(qn_tensor **t) {
    float y[LENGTH];
    for (int b = 0; b < BRANCHES; b++) {
        CHECK_INT(qn_read(t[b], y, sizeof y), QN_OK);
        for (int i = 0; i < LENGTH; i++) CHECK(y[i] == -8 * (float)(b + i % 50));
    }
}

/* Each operation is a kernel. */
static qn_ctx *open_unfused(const char *device, int threads) {
    qn_options o = QN_OPTIONS(.device = device, .threads = threads);
    qn_ctx *qn = device ? qn_open(&o) : interp_open(&o, 0);
    qn_set(qn, "fuse", "0");
    return qn;
}

static void branches_run_side_by_side(void) {
    static const struct {
        const char *device;
        int threads;
    } cases[] = {{"cpu", 1}, {"cpu", 2}, {"cpu", 3}, {"null", 0}, {NULL, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        qn_ctx *qn = open_unfused(cases[i].device, cases[i].threads);
        if (!qn) {
            SKIP("no device");
            continue;
        }
        qn_tensor *t[BRANCHES];
        make_branches(qn, t);
        counts c = counted(qn, t, BRANCHES);
        if (cases[i].threads == 1) {
            CHECK_INT(c.levels, c.kernels);
            CHECK(c.levels > DEPTH);
        } else {
            CHECK_INT(c.levels, DEPTH);
        }
        if (i != 3) check_branches(t);
        qn_close(qn);
    }
}

/* A sum of all branches is as deep as they are and what adding them takes. */
static void dependent_launches_are_in_later_levels(void) {
    qn_ctx *qn = open_unfused(NULL, 0);
    qn_tensor *t[BRANCHES], *sum;
    float y[LENGTH];
    make_branches(qn, t);
    for (int n = BRANCHES; n > 1; n /= 2)
        for (int b = 0; b < n / 2; b++) t[b] = qn_add(t[b], t[n - 1 - b]);
    sum = qn_mul(t[0], qn_sqrt(numbers(qn, LENGTH, 1)));
    CHECK_INT(counted(qn, &sum, 1).levels, DEPTH + 4);
    CHECK_INT(qn_read(sum, y, sizeof y), QN_OK);
    for (int i = 0; i < LENGTH; i++) {
        double want = -8.0 * (28 + 8 * (i % 50)) * sqrt(1.0 + i % 50);
        CHECK_NEAR((double)y[i], want, 1e-3, 1e-6);
    }
    qn_close(qn);
}

static void large_kernels_stay_alone(void) {
    for (int large = 0; large < 2; large++) {
        qn_ctx *qn = open_unfused("cpu", 2);
        if (!qn) {
            SKIP("no compiler");
            return;
        }
        qn_tensor *x = numbers(qn, large ? 1 << 21 : 1 << 10, 1);
        qn_tensor *t[3] = {qn_neg(x), qn_sqrt(x), qn_add(x, x)};
        counts c = counted(qn, t, 3);
        CHECK_INT(c.kernels, 3);
        CHECK_INT(c.levels, large ? 3 : 1);
        qn_close(qn);
    }
}

/* ---- failures -------------------------------------------------------------------------------- */

static int levels_left;

static qn_code failing_launches(void *state, int n, const dev_launch *all) {
    if (levels_left-- == 0) return fail(*(qn_ctx **)state, QN_EDEVICE, "played: no such level");
    return interp_device.launch_many(state, n, all);
}

static void a_level_that_fails_leaves_nothing_behind(void) {
    for (int at = 0; at < 3; at++) {
        books b = {0};
        qn_options o = QN_OPTIONS(.alloc = books_alloc, .free = books_free, .alloc_user = &b);
        qn_ctx *qn = interp_open(&o, 0);
        dev_table table = *qn->run->dev;
        table.launch_many = failing_launches;
        qn->run->dev = &table;
        qn_set(qn, "fuse", "0");
        qn_tensor *t[BRANCHES];
        make_branches(qn, t);
        levels_left = at;
        CHECK_INT(qn_realize(BRANCHES, t), QN_EDEVICE);
        CHECK(strstr(qn_error(qn), "no such level"));
        qn_clear_error(qn);
        levels_left = 100;
        check_branches(t);
        qn_close(qn);
        CHECK_INT(b.bytes, 0);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(branches_run_side_by_side);
    RUN(dependent_launches_are_in_later_levels);
    RUN(large_kernels_stay_alone);
    RUN(a_level_that_fails_leaves_nothing_behind);
    return test_end();
}
