/* loop_values.h - what tests of loops share: contexts of the device that is being tested, and how
 * far two values are apart. */
#ifndef LOOP_VALUES_H
#define LOOP_VALUES_H

#include "device_here.h"
#include "quern_loop.h"
#include "test.h"

#include <math.h>

static const char *device = "cpu";

static inline qn_ctx *begin(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = device));
    if (!qn || qn_error_code(qn)) FAIL("no device %s", device);
    return qn;
}

static inline void end(qn_ctx *qn) {
    if (qn_error_code(qn)) FAIL("%s: %s", device, qn_error(qn));
    qn_close(qn);
}

/* The largest difference of two elements; infinite where one is NaN, or cannot be read. */
static inline double difference(qn_tensor *a, qn_tensor *b) {
    static double x[1 << 18], y[1 << 18];
    double most = 0;
    a = qn_cast(a, QN_F64), b = qn_cast(b, QN_F64);
    if (qn_numel(b) != qn_numel(a))
        FAIL("%lld and %lld elements", (long long)qn_numel(a), (long long)qn_numel(b));
    if (qn_read(a, x, sizeof x) || qn_read(b, y, sizeof y)) return INFINITY;
    for (int64_t i = 0; i < qn_numel(a); i++) {
        double d = fabs(x[i] - y[i]);
        if (isnan(d)) return INFINITY;
        if (d > most) most = d;
    }
    return most;
}

#endif
