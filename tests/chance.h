/* chance.h - the numbers that a fuzzer's input follows from: one stream, set from its seed. */
#ifndef QN_CHANCE_H
#define QN_CHANCE_H

#include "test.h"

static uint64_t rng;

static inline int64_t below(int64_t n) {
    return test_below(&rng, n);
}
static inline bool chance(int percent) {
    return below(100) < percent;
}

#endif
