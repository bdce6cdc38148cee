/* device_here.h - is a device there to be tested? Asked in a process of its own, since a driver may
 * end the process that opens it. */
#ifndef DEVICE_HERE_H
#define DEVICE_HERE_H

#include "quern.h"
#include "test.h"

static inline bool device_opens(const void *name) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = name));
    return qn && qn_error_code(qn) == QN_OK;
}

/* Asked once of each: a driver's threads may hold its locks when a later process is forked. */
static inline bool device_here(const char *name) {
    static const char *asked[8];
    static bool here[8];
    int i = 0;
    while (i < 7 && asked[i] && strcmp(asked[i], name)) i++;
    if (!asked[i]) here[i] = test_apart(device_opens, name);
    asked[i] = name;
    return here[i];
}

/* Run a test under each device that is here, which `*device` names meanwhile, else cpu. */
static inline void device_each(const char **device, void (*test)(void)) {
    static const char *const devices[] = {"cpu", "ref", "opencl"};
    for (int i = 0; i < 3; i++) {
        if (!device_here(devices[i])) continue;
        *device = devices[i];
        test();
    }
    *device = "cpu";
}

#endif
