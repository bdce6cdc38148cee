/* every_way.h - a test that is to hold in every way that kernels are made and run: by both of the
 * CPU's compilers, unfused, unscheduled, by work groups, and by the oracle. */
#ifndef QN_EVERY_WAY_H
#define QN_EVERY_WAY_H

#include "device_here.h"
#include "quern.h"
#include "test.h"

enum { ROWS = 37, COLUMNS = 53, ELEMENTS = ROWS * COLUMNS };

static const struct {
    const char *name, *device, *compiler, *fuse, *schedule;
} ways[] = {
    {"cpu", "cpu", "", "1", "1"},
    {"cpu, unfused", "cpu", "", "0", "1"},
    {"cpu, unscheduled", "cpu", "", "1", "0"},
    {"cc", "cpu", "cc", "1", "1"},
    {"opencl", "opencl", "", "1", "1"},
    {"ref", "ref", "", "1", "1"},
};

static const char *way; /* the one under way */
static bool slow;       /* by a compiler that takes its time */
static bool plans;      /* has static graphs */

static qn_ctx *open_way(size_t i) {
    way = ways[i].name;
    slow = ways[i].compiler[0] || !strcmp(ways[i].device, "opencl");
    if (!strcmp(ways[i].device, "opencl") && !device_here("opencl")) return NULL;
    plans = strcmp(ways[i].device, "ref") != 0;
    if (ways[i].compiler[0])
        setenv("QN_CPU", ways[i].compiler, 1);
    else
        unsetenv("QN_CPU");
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = ways[i].device));
    unsetenv("QN_CPU");
    if (qn) qn_set(qn, "fuse", ways[i].fuse);
    if (qn) qn_set(qn, "schedule", ways[i].schedule);
    return qn;
}

/* The test in every way that there is here. */
static void in_every_way(void (*test)(qn_ctx *qn)) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        qn_ctx *qn = open_way(i);
        if (!qn) continue;
        test(qn);
        if (qn_error_code(qn) != QN_OK) FAIL("%s: %s", way, qn_error(qn));
        qn_close(qn);
    }
}

/* Values whose products have to be rounded, of both signs and many magnitudes. */
static qn_tensor *noise(qn_ctx *qn, qn_dtype d, int seed) {
    const int64_t shape[2] = {ROWS, COLUMNS};
    static double v[ELEMENTS];
    uint64_t state = (uint64_t)seed;
    for (int i = 0; i < ELEMENTS; i++) v[i] = (test_uniform(&state) - 0.5) * (double)(1 + i % 7);
    return qn_cast(qn_from(qn, QN_F64, 2, shape, v), d);
}

static bool read_all(qn_tensor *t, int64_t n, double *out) {
    if (!t || qn_numel(t) != n || n > ELEMENTS) return false;
    return qn_read(qn_cast(t, QN_F64), out, (size_t)n * sizeof *out) == QN_OK;
}

static void expect_zeros(const char *what, qn_tensor *t) {
    static double v[ELEMENTS];
    int64_t n = qn_numel(t), wrong = 0;
    if (!read_all(t, n, v)) {
        FAIL("%s: %s cannot be read", way, what);
        return;
    }
    for (int64_t i = 0; i < n; i++) wrong += v[i] != 0;
    if (wrong) FAIL("%s: %s: %lld of %lld are not 0", way, what, (long long)wrong, (long long)n);
}

static void expect_range(const char *what, qn_tensor *t, double lo, double hi) {
    static double v[ELEMENTS];
    int64_t n = qn_numel(t);
    if (!read_all(t, n, v)) {
        FAIL("%s: %s cannot be read", way, what);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (v[i] >= lo && v[i] <= hi) continue;
        FAIL("%s: %s is %.17g, outside [%g, %g]", way, what, v[i], lo, hi);
        return;
    }
}

/* x*c to 1e30, as a temperature makes it. */
static qn_tensor *scaled_scores(qn_ctx *qn, double c) {
    return qn_mul(noise(qn, QN_F32, 19), qn_scalar(qn, QN_F32, c));
}

#endif
