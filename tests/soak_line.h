/* soak_line.h - the line by which a fuzzer says what it has run, which tools/soak.sh adds up. */
#ifndef SOAK_LINE_H
#define SOAK_LINE_H

#include <stdint.h>
#include <stdio.h>

typedef struct soak_counts {
    int64_t inputs, accepted, lines, compared, findings; /* lines: of schedules, or gradients */
} soak_counts;

static inline void soak_line(FILE *f, const char *kind, uint64_t first, uint64_t last,
                             soak_counts c) {
    fprintf(f,
            "%-11s seeds %llu to %llu: %lld inputs, %lld accepted, %lld lines or gradients, %lld "
            "compared, %lld findings\n",
            kind, (unsigned long long)first, (unsigned long long)last, (long long)c.inputs,
            (long long)c.accepted, (long long)c.lines, (long long)c.compared,
            (long long)c.findings);
}

#endif
