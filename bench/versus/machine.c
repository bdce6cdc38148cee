/* machine.c - what the machine can do now, and whether it is ours alone.
 *
 * Every limit is measured beside the case that is held against it, for the clock of a lent machine
 * drifts and its memory is shared. One thread is timed by its own processor time, which counts no
 * one else's work; several by the wall. Memory lies in huge pages here: this is what the machine
 * gives, not what a program that does not ask for them gets. */
#include "../limits.h"
#include "versus.h"

#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 2, MEMORY = 64 << 20, CACHED = 256 << 10 };

const char *vs_limit_name(vs_limit what) {
    static const char *const name[] = {"multiply-adds", "memory read",
                                       "memory copy",   "memory copy past the caches",
                                       "L2 read",       "L2 copy"};
    return name[what];
}

/* ---- kernels: a read, a copy, a copy by streaming stores, in the widest vectors ---- */

__attribute__((target("avx512f"))) static void read512(const char *s, size_t n) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (size_t i = 0; i < n; i += 256) {
        a = _mm512_or_si512(a, _mm512_load_si512(s + i));
        b = _mm512_or_si512(b, _mm512_load_si512(s + i + 64));
        c = _mm512_or_si512(c, _mm512_load_si512(s + i + 128));
        d = _mm512_or_si512(d, _mm512_load_si512(s + i + 192));
    }
    a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
    __asm__ volatile("" ::"v"(a));
}
__attribute__((target("avx512f"))) static void copy512(char *t, const char *s, size_t n) {
    for (size_t i = 0; i < n; i += 64) _mm512_store_si512(t + i, _mm512_load_si512(s + i));
}
__attribute__((target("avx512f"))) static void stream512(char *t, const char *s, size_t n) {
    for (size_t i = 0; i < n; i += 64)
        _mm512_stream_si512((void *)(t + i), _mm512_load_si512(s + i));
    _mm_sfence();
}
static void read128(const char *s, size_t n) {
    __m128i a = _mm_setzero_si128(), b = a;
    for (size_t i = 0; i < n; i += 32) {
        a = _mm_or_si128(a, _mm_load_si128((const __m128i *)(const void *)(s + i)));
        b = _mm_or_si128(b, _mm_load_si128((const __m128i *)(const void *)(s + i + 16)));
    }
    a = _mm_or_si128(a, b);
    __asm__ volatile("" ::"x"(a));
}
static void stream128(char *t, const char *s, size_t n) {
    for (size_t i = 0; i < n; i += 16)
        _mm_stream_si128((__m128i *)(void *)(t + i),
                         _mm_load_si128((const __m128i *)(const void *)(s + i)));
    _mm_sfence();
}

/* ---- running them ---- */

typedef struct job {
    vs_limit what;
    int threads, cpu;
    char *from, *to;
    pthread_barrier_t *gate;
    double rate;
} job;

static double own_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double work(vs_limit what, char *to, const char *from) {
    bool wide = __builtin_cpu_supports("avx512f");
    size_t n = what >= VS_L2_READ ? CACHED / 2 : MEMORY;
    int times = what >= VS_L2_READ ? 200 : 1;
    if (what == VS_PEAK) {
        long turns = 800000;
        if (wide)
            bench_fma512(turns, 16);
        else
            bench_fma256(turns, 8);
        return (double)turns * 12 * 2 * (wide ? 16 : 8);
    }
    for (int i = 0; i < times; i++) {
        if (what == VS_MEMORY_READ || what == VS_L2_READ) {
            if (wide)
                read512(from, n);
            else
                read128(from, n);
        } else if (what == VS_MEMORY_STREAM) {
            if (wide)
                stream512(to, from, n);
            else
                stream128(to, from, n);
        } else if (wide) {
            copy512(to, from, n);
        } else {
            memcpy(to, from, n);
        }
    }
    bool one = what == VS_MEMORY_READ || what == VS_L2_READ;
    return (one ? 1.0 : 2.0) * (double)n * times;
}

static void *run_job(void *arg) {
    job *j = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(j->cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (int r = 0; r < 2; r++) { /* the first warms clock, pages and caches */
        pthread_barrier_wait(j->gate);
        double start = j->threads == 1 ? own_time() : bench_now();
        double done = work(j->what, j->to, j->from);
        j->rate = done / ((j->threads == 1 ? own_time() : bench_now()) - start);
    }
    return NULL;
}

static char *huge(size_t n) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(p, n, MADV_HUGEPAGE);
    memset(p, 1, n);
    return p;
}

double vs_measure(vs_limit what, int threads) {
    static char *from[THREADS], *to[THREADS]; /* kept: fresh pages would be measured else */
    pthread_t thread[THREADS];
    job j[THREADS];
    pthread_barrier_t gate;
    double sum = 0;
    if (threads > THREADS) threads = THREADS;
    pthread_barrier_init(&gate, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        if (!from[i]) {
            from[i] = huge(MEMORY);
            to[i] = huge(MEMORY);
        }
        j[i] = (job){what, threads, i, from[i], to[i], &gate, 0};
        if (pthread_create(&thread[i], NULL, run_job, &j[i])) exit(1);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        sum += j[i].rate;
    }
    pthread_barrier_destroy(&gate);
    return sum;
}

static void *run_probe(void *arg) {
    job *j = arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(j->cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    j->rate = bench_stolen();
    return NULL;
}

double vs_stolen(int threads) {
    pthread_t thread[THREADS];
    job j[THREADS];
    double worst = 0;
    if (threads > THREADS) threads = THREADS;
    nanosleep(&(struct timespec){0, 15000000}, NULL); /* spinning threads of players go to sleep */
    for (int i = 0; i < threads; i++) {
        j[i] = (job){.cpu = i};
        if (pthread_create(&thread[i], NULL, run_probe, &j[i])) exit(1);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        if (j[i].rate > worst) worst = j[i].rate;
    }
    return worst;
}

void vs_pin(int threads) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < threads; i++) CPU_SET(i, &set);
    sched_setaffinity(0, sizeof set, &set);
}

size_t vs_l2(void) {
    long n = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return n > 0 ? (size_t)n : 256 << 10;
}
