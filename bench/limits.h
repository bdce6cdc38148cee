/* limits.h - what this machine can do, measured in the run that quotes it: fused multiply-adds a
 * second on one core, bytes a second copied, and whether the machine was quiet. Ratios of a bench
 * are taken against these. */
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

/* Twelve independent chains of multiply-adds in registers, in assembly so that no compiler decides
 * about them: latency 4 and two units need eight. Zeros, for denormal rests would be slow. */
#define BENCH_FMA(name, reg)                                                                       \
    static inline double name(long n, int lanes) {                                                 \
        long left = n;                                                                             \
        double start = bench_now();                                                                \
        __asm__ volatile("vzeroall\n\t1:\n\t"                                                      \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "0\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "1\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "2\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "3\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "4\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "5\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "6\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "7\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "8\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "9\n\t"                    \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "10\n\t"                   \
                         "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg "11\n\t"                   \
                         "dec %0\n\tjnz 1b\n\t"                                                    \
                         : "+r"(left)                                                              \
                         :                                                                         \
                         : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",   \
                           "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");  \
        return (double)n * 12 * 2 * lanes / (bench_now() - start);                                 \
    }
BENCH_FMA(bench_fma512, "zmm")
BENCH_FMA(bench_fma256, "ymm")

/* Peak f32 multiply-adds of one core in flop/s now (about 10 ms). */
static inline double bench_fma_peak(void) {
    return __builtin_cpu_supports("avx512f") ? bench_fma512(2000000, 16) : bench_fma256(2000000, 8);
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
