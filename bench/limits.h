/* limits.h - what this machine can do, measured in the run that quotes it: fused multiply-adds a
 * second on one core, bytes a second copied, and whether the machine was quiet. Ratios of a bench are
 * taken against these. */
#ifndef QN_BENCH_LIMITS_H
#define QN_BENCH_LIMITS_H
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Fraction of the last few milliseconds in which this thread did not run though it wanted to. */
static inline double bench_stolen(void) {
    double start = bench_now(), t = start, gap = 0;
    while (t < start + 4e-3) {
        double u = bench_now();
        if (u - t > 30e-6) gap += u - t;
        t = u;
    }
    return gap / (t - start);
}

static inline void bench_wait_quiet(void) {
    for (int i = 0; i < 50 && bench_stolen() > 0.04; i++)
        nanosleep(&(struct timespec){0, 20000000}, NULL);
}

#define BENCH_CHAINS(step)                                                                         \
    for (int i = 0; i < 12; i++) step(i)

__attribute__((target("avx512f"))) static inline double bench_fma512(long n) {
    __m512 a[12], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
    for (int i = 0; i < 12; i++) a[i] = _mm512_set1_ps((float)i);
    double start = bench_now();
    for (long k = 0; k < n; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) a[i] = _mm512_fmadd_ps(a[i], x, y);
        __asm__ volatile("" : "+v"(a[0]));
    }
    double t = bench_now() - start;
    for (int i = 1; i < 12; i++) a[0] = _mm512_add_ps(a[0], a[i]);
    volatile float sink = _mm512_cvtss_f32(a[0]);
    (void)sink;
    return (double)n * 12 * 32 / t;
}

__attribute__((target("avx2,fma"))) static inline double bench_fma256(long n) {
    __m256 a[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    for (int i = 0; i < 12; i++) a[i] = _mm256_set1_ps((float)i);
    double start = bench_now();
    for (long k = 0; k < n; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) a[i] = _mm256_fmadd_ps(a[i], x, y);
        __asm__ volatile("" : "+x"(a[0]));
    }
    double t = bench_now() - start;
    for (int i = 1; i < 12; i++) a[0] = _mm256_add_ps(a[0], a[i]);
    volatile float sink = _mm256_cvtss_f32(a[0]);
    (void)sink;
    return (double)n * 12 * 16 / t;
}

/* Peak f32 multiply-adds of one core in flop/s now (about 10 ms). */
static inline double bench_fma_peak(void) {
    return __builtin_cpu_supports("avx512f") ? bench_fma512(2000000) : bench_fma256(2000000);
}

/* Bytes read plus bytes written a second by one core copying `bytes`, the faster of two ways. */
static inline double bench_copy_peak(void *to, const void *from, size_t bytes) {
    double start = bench_now();
    memcpy(to, from, bytes);
    double t1 = bench_now() - start;
    start = bench_now();
    const __m128i *s = from;
    __m128i *d = to;
    for (size_t i = 0; i < bytes / 16; i++) _mm_stream_si128(d + i, _mm_load_si128(s + i));
    _mm_sfence();
    double t2 = bench_now() - start;
    return 2.0 * (double)bytes / (t1 < t2 ? t1 : t2);
}

static inline int bench_cmp(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double bench_median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, bench_cmp);
    return n ? v[n / 2] : 0;
}
#endif
