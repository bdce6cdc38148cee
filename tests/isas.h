/* isas.h - tests on a processor of less than this one: without its dot instructions, or others. */
#ifndef QN_TEST_ISAS_H
#define QN_TEST_ISAS_H

#include <stdlib.h>

/* Run it on one thread of the processor for each of the levels that QN_ISA names. */
static inline void on_each_isa(void (*run)(const char *device, int threads)) {
    static const char *const isa[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
    for (int i = 0; i < 3; i++) {
        setenv("QN_ISA", isa[i], 1);
        run("cpu", 1);
    }
    unsetenv("QN_ISA");
}

#endif
