/* resident.h - how much memory this process has. */
#ifndef QN_TEST_RESIDENT_H
#define QN_TEST_RESIDENT_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Bytes of the process that lie in memory; 0 where the system does not say. */
static inline int64_t resident(void) {
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %lld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

#endif
