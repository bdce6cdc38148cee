/* records.h - machine records as tests write them. */
#ifndef QN_TEST_RECORDS_H
#define QN_TEST_RECORDS_H

#include "machine/machine.h"

/* A machine by what differs most from one to another. */
#define RECORD(vector, regs, c1, c2, c3, n, group, shared, dot)                                    \
    {                                                                                              \
        .page_parallel_read_gain = 150, .page_parallel_gain = 150, .vector_bytes = vector,         \
        .registers = regs, .l1 = c1, .l2 = c2, .l3 = c3, .threads = n, .members = group,           \
        .group_bytes = shared, .dots = dot                                                         \
    }

/* The same, with the usual values of what it does not say. */
static inline machine record(machine m) {
    machine_complete(&m);
    return m;
}

#endif
