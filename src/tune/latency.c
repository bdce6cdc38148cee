/* latency.c - how long a cycle is, and how long a load waits for what a cache, or memory, has.
 *
 * A chain of pointers goes once through all lines of a piece of memory in random order, so that no
 * prefetcher guesses the next one and each load waits for the one before. How large the piece is
 * says where its lines are: half of a cache stays in it, and what is several times as large as a
 * cache has left it when the chain comes back. */
#include "tune/tune.h"

enum { STEPS = 1 << 15 };

/* Make the chain: a permutation of one cycle (Sattolo), each line with the address of the next. */
static void link_lines(char *memory, size_t lines, size_t line) {
    uint64_t seed = 1;
    for (size_t i = 0; i < lines; i++) *(void **)(void *)(memory + i * line) = memory + i * line;
    for (size_t i = lines; i-- > 1;) {
        seed = hash_mix(seed, i);
        void **a = (void **)(void *)(memory + i * line);
        void **b = (void **)(void *)(memory + seed % i * line);
        void *next = *a;
        *a = *b;
        *b = next;
    }
}

void tune_load_seconds(void *memory, size_t size, size_t line, int n, double *seconds) {
    void *volatile end; /* somebody wants to know where the chain led */
    void **at = memory;
    link_lines(memory, size / line, line);
    for (size_t i = 0; i < size / line && i < STEPS; i++) at = *at;
    for (int r = 0; r < n; r++) {
        double start = clock_thread_seconds();
        for (int i = 0; i < STEPS; i++) at = *at;
        end = at;
        seconds[r] = (clock_thread_seconds() - start) / STEPS;
    }
    (void)end;
}

/* One rotation, which the compiler may not join with others. It is a cycle on every processor that
 * we know of; an addition of a constant is not: Intel's since Golden Cove make several in one. */
static inline uint64_t a_cycle_later(uint64_t x) {
    x = x << 13 | x >> 51;
    __asm__ volatile("" : "+r"(x));
    return x;
}

/* A taken branch may be as long as two of them, so there are four to a round of the loop. */
double tune_clock_rate(void) {
    enum { TRIPS = 1 << 18, EACH = 4, TRIES = 15 };
    double best = 1;
    for (int round = 0; round < TRIES; round++) {
        uint64_t x = 1;
        double start = clock_thread_seconds();
        for (int i = 0; i < TRIPS; i++)
            x = a_cycle_later(a_cycle_later(a_cycle_later(a_cycle_later(x))));
        double t = clock_thread_seconds() - start;
        if (t < best) best = t;
    }
    return (double)TRIPS * EACH / best;
}
