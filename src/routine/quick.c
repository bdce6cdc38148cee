/* quick.c - sorting words of 32 bits by vectors, of the widest that the processor has.
 *
 * Quicksort (quick.h): a vector is divided at the pivot by one comparison, and runs that fit into
 * the registers are sorted there by networks of minima and maxima. What moves words within
 * a vector differs between instruction sets: quick16.c is for AVX-512, quick8.c for AVX2. Each is
 * compiled for its own, function by function; where there is neither, nothing is sorted.
 *
 * The sorted row is the same whoever sorts, so nothing depends on the choice; an exported program
 * (ROUTINE_ALONE) does without. */
#include "routine/order.h"

bool quick_has32(int lanes) {
#if defined(__x86_64__) && !defined(ROUTINE_ALONE)
    if (lanes == 16)
        return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq");
    return lanes == 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
#else
    (void)lanes;
    return false;
#endif
}

bool quick_sort32(uint32_t *a, uint32_t *spare, int64_t n) {
#if defined(__x86_64__) && !defined(ROUTINE_ALONE)
    if (quick_has32(16))
        quick_sort32_by16(a, spare, n);
    else if (quick_has32(8))
        quick_sort32_by8(a, spare, n);
    else
        return false;
    return true;
#else
    (void)a;
    (void)spare;
    (void)n;
    return false;
#endif
}
