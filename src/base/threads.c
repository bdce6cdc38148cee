/* threads.c - a fork-join pool made for kernels.
 *
 * A kernel of ten microseconds is worth splitting only if splitting costs one or two. So workers
 * wait for work by watching one word each, on a cache line of its own, for some tens of
 * microseconds, and only then let the system put them to sleep; the caller waits for them in the
 * same way. A program that computes kernel after kernel never sleeps in between, one that pauses
 * soon stops using processors.
 *
 * Fork. Each worker has a `state`: IDLE, GO or PARKED. The one who sends it to work exchanges GO
 * in, and if it finds PARKED there, wakes the sleeper; whoever changes GO to IDLE does the part.
 * Threads form a binary tree (t sends 2t+1 and 2t+2), so that many sleepers are woken in few steps,
 * and a job of fewer parts than threads disturbs only the workers it needs. Join. The caller, its
 * own part done, does what nobody has begun: on a busy machine a worker may not get a processor
 * for longer than the job takes. Every worker counts `pending` down; whoever brings it to zero
 * wakes the caller if its top bit says that it parked.
 *
 * Place. A system may put a thread that it wakes on the processor of the one who woke it, to spare
 * another a start, and there a worker stands behind the very caller whose work it is to share, for
 * milliseconds. So it is forbidden the processor that the caller began on: when it is woken and the
 * caller has moved, and when it waited there. All others remain, for the system to choose from, of
 * those that the worker began with, or that somebody has given it since.
 *
 * A job's parts are ranges of equal length, the same thread's the same every time, for the memory
 * that it touched the last time is near it. For work of pieces that differ (pool_share) a thread
 * takes its range piece by piece, and when that is done the pieces that others have left: so what
 * follows on each other stays near, too, and nobody waits for one who got too much.
 *
 * Order: the job's fields are written before the caller's exchange and read after the change of GO
 * (release and acquire, handed down the tree), and a worker's last use of them is before its
 * count-down; so the caller may write the next job once pending is zero.
 *
 * Workers take no signals (the program's handlers run on the program's threads) and no memory. */
#include "base/base.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

enum { LINE = 64, POOL_MOST = 1024, SPINS_PER_LOOK = 32 };
enum { IDLE, GO, PARKED, STOP };
static const uint32_t caller_parked = 1u << 31;

typedef struct worker {
    _Alignas(LINE) _Atomic uint32_t state;
    _Atomic int64_t taken; /* pieces of its range */
    _Atomic int at;        /* the processor it was last seen on, -1: none */
    int off;               /* the one it is kept off, -1: none */
#ifdef __linux__
    cpu_set_t allowed, set; /* where it may run; without `off` */
#endif
    int index;
    struct pool *pool;
    pthread_t thread;
} worker;

struct pool {
    heap *h;
    size_t size;          /* of this block */
    int threads;          /* the caller included */
    bool alone;           /* each thread has a processor: only then does watching pay */
    _Atomic int64_t spin; /* nanoseconds to watch before sleeping */
    pid_t owner;          /* the process that the workers are threads of */
    /* the job */
    pool_work work;
    void *arg;
    int64_t n;
    int parts;
    bool shared;                          /* by pieces */
    int home;                             /* the processor the caller began on, -1: any */
    _Alignas(LINE) _Atomic int64_t taken; /* pieces of the caller's range */
    _Alignas(LINE) _Atomic uint32_t pending;
    _Alignas(LINE) worker worker[]; /* [t - 1] is thread t */
};

/* ---- waiting --------------------------------------------------------------------------------- */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleep while *word is `value`; may also return early. Without futexes: a nap. */
static void word_sleep(_Atomic uint32_t *word, uint32_t value) {
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
#else
    (void)word;
    (void)value;
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
#endif
}

static void word_wake(_Atomic uint32_t *word) {
#ifdef __linux__
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
#else
    (void)word;
#endif
}

static double spin_seconds(pool *p) {
    return 1e-9 * (double)atomic_load_explicit(&p->spin, memory_order_relaxed);
}

/* Watch until the word is no longer `value`, for a bounded time; returns what it last was. */
static uint32_t word_watch(_Atomic uint32_t *word, bool (*waiting)(uint32_t), double seconds) {
    double end = 0;
    for (int i = 1;; i++) {
        uint32_t now = atomic_load_explicit(word, memory_order_acquire);
        if (!waiting(now)) return now;
        if (i % SPINS_PER_LOOK == 0) {
            double at = clock_seconds();
            if (end == 0) end = at + seconds;
            if (at >= end) return now;
        }
        relax();
    }
}

static bool is_idle(uint32_t state) {
    return state == IDLE;
}

static bool is_pending(uint32_t pending) {
    return (pending & ~caller_parked) != 0;
}

/* ---- where workers run ----------------------------------------------------------------------- */

#ifdef __linux__
static int processor_here(void) {
    return sched_getcpu();
}

static void keep_off(worker *w, int processor) {
    cpu_set_t now;
    if (processor < 0 || w->off == processor) return;
    w->off = processor;
    if (pthread_getaffinity_np(w->thread, sizeof now, &now) != 0) return;
    if (!CPU_EQUAL(&now, &w->set)) w->allowed = now; /* not what was set here */
    w->set = w->allowed;
    CPU_CLR((size_t)processor, &w->set);
    if (CPU_COUNT(&w->set) == 0 || pthread_setaffinity_np(w->thread, sizeof w->set, &w->set) != 0)
        w->set = now;
}
#else
static int processor_here(void) {
    return -1;
}

static void keep_off(worker *w, int processor) {
    (void)w;
    (void)processor;
}
#endif

/* ---- fork, work, join ------------------------------------------------------------------------ */

static void pool_send(pool *p, int thread, uint32_t state) {
    worker *w = &p->worker[thread - 1];
    bool parked = atomic_exchange_explicit(&w->state, state, memory_order_acq_rel) == PARKED;
    bool behind = parked || atomic_load_explicit(&w->at, memory_order_relaxed) == p->home;
    /* One that is to stop may be gone by now, and what is set for it would be set for us. */
    if (behind && state == GO) keep_off(w, p->home);
    if (parked) word_wake(&w->state);
}

/* Near-equal contiguous ranges, the first n % parts of them one longer. */
static int64_t range_begin(const pool *p, int thread) {
    int64_t longer = p->n % p->parts;
    return p->n / p->parts * thread + (thread < longer ? thread : longer);
}

static _Atomic int64_t *taken_of(pool *p, int thread) {
    return thread ? &p->worker[thread - 1].taken : &p->taken;
}

static void pool_pieces(pool *p, int thread) {
    for (int k = 0; k < p->parts; k++) {
        int whose = (thread + k) % p->parts;
        _Atomic int64_t *taken = taken_of(p, whose);
        int64_t begin = range_begin(p, whose), pieces = range_begin(p, whose + 1) - begin;
        while (atomic_load_explicit(taken, memory_order_relaxed) < pieces) {
            int64_t i = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
            if (i < pieces) p->work(p->arg, thread, begin + i, begin + i + 1);
        }
    }
}

/* Send on to this thread's children, then do this thread's part. */
static void pool_part(pool *p, int thread) {
    for (int child = 2 * thread + 1; child <= 2 * thread + 2; child++)
        if (child < p->parts) pool_send(p, child, GO);
    if (p->shared)
        pool_pieces(p, thread);
    else
        p->work(p->arg, thread, range_begin(p, thread), range_begin(p, thread + 1));
}

/* The part of this thread is ours now, if nobody else has taken it. */
static bool take_part(worker *w) {
    uint32_t state = GO;
    return atomic_compare_exchange_strong_explicit(&w->state, &state, IDLE, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* Until there is something to do (true) or no more (false). */
static bool worker_wait(worker *w) {
    atomic_store_explicit(&w->at, processor_here(), memory_order_relaxed);
    for (;;) {
        uint32_t state = word_watch(&w->state, is_idle, spin_seconds(w->pool));
        if (state == IDLE) {
            if (atomic_compare_exchange_strong_explicit(&w->state, &state, PARKED,
                                                        memory_order_acq_rel, memory_order_acquire))
                state = PARKED;
            while (state == PARKED) {
                word_sleep(&w->state, PARKED);
                state = atomic_load_explicit(&w->state, memory_order_acquire);
            }
        }
        if (state == STOP) return false;
        if (take_part(w)) return true;
    }
}

static void *worker_main(void *arg) {
    worker *w = arg;
    pool *p = w->pool;
    while (worker_wait(w)) {
        atomic_store_explicit(&w->at, processor_here(), memory_order_relaxed);
        pool_part(p, w->index);
        uint32_t before = atomic_fetch_sub_explicit(&p->pending, 1, memory_order_acq_rel);
        if (before == (1 | caller_parked)) word_wake(&p->pending);
    }
    return NULL;
}

static void pool_join(pool *p) {
    for (int t = 1; t < p->parts; t++) {
        if (!take_part(&p->worker[t - 1])) continue;
        pool_part(p, t); /* with its scratch, which nobody else uses now; its children come next */
        atomic_fetch_sub_explicit(&p->pending, 1, memory_order_acq_rel);
    }
    if (!is_pending(word_watch(&p->pending, is_pending, spin_seconds(p)))) return;
    uint32_t now = atomic_fetch_or_explicit(&p->pending, caller_parked, memory_order_acq_rel);
    now |= caller_parked;
    while (is_pending(now)) {
        word_sleep(&p->pending, now);
        now = atomic_load_explicit(&p->pending, memory_order_acquire);
    }
}

static void pool_fork(pool *p, int64_t n, bool shared, pool_work work, void *arg) {
    p->work = work;
    p->arg = arg;
    p->n = n;
    p->parts = n < p->threads ? (int)n : p->threads;
    p->shared = shared;
    p->home = p->alone ? processor_here() : -1;
    for (int t = 0; shared && t < p->parts; t++)
        atomic_store_explicit(taken_of(p, t), 0, memory_order_relaxed);
    atomic_store_explicit(&p->pending, (uint32_t)p->parts - 1, memory_order_relaxed);
    pool_part(p, 0);
    pool_join(p);
}

void pool_run(pool *p, int64_t n, pool_work work, void *arg) {
    if (n <= 0) return;
    if (p && n > 1)
        pool_fork(p, n, false, work, arg);
    else
        work(arg, 0, 0, n);
}

void pool_share(pool *p, int64_t n, pool_work work, void *arg) {
    if (p && n > 1)
        pool_fork(p, n, true, work, arg);
    else
        for (int64_t i = 0; i < n; i++) work(arg, 0, i, i + 1);
}

/* ---- opening and closing --------------------------------------------------------------------- */

void pool_spin(pool *p, int64_t ns) {
    if (p) atomic_store_explicit(&p->spin, p->alone ? ns : 0, memory_order_relaxed);
}

pool *pool_open(heap *h, int threads) {
    if (threads > POOL_MOST) threads = POOL_MOST;
    if (threads <= 1) return NULL;
    size_t size = sizeof(pool) + (size_t)(threads - 1) * sizeof(worker);
    pool *p = heap_try(h, size);
    if (!p) return NULL;
    memset(p, 0, size);
    p->h = h;
    p->size = size;
    p->threads = 1;
    p->owner = getpid();
    p->alone = threads <= processors();
    pool_spin(p, POOL_SPIN_NS);
    p->home = -1;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (; p->threads < threads; p->threads++) {
        worker *w = &p->worker[p->threads - 1];
        w->index = p->threads;
        w->off = -1;
        atomic_store_explicit(&w->at, -1, memory_order_relaxed);
        w->pool = p;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (p->threads > 1) return p;
    heap_free(h, p, size);
    return NULL;
}

int pool_threads(const pool *p) {
    return p ? p->threads : 1;
}

void pool_close(pool *p) {
    if (!p) return;
    int threads = p->owner == getpid() ? p->threads : 1; /* a fork copies its caller alone */
    for (int t = 1; t < threads; t++) pool_send(p, t, STOP);
    for (int t = 1; t < threads; t++) pthread_join(p->worker[t - 1].thread, NULL);
    heap_free(p->h, p, p->size);
}

/* ---- how many -------------------------------------------------------------------------------- */

#ifdef __linux__
/* The share of processors a container grants (cpu.max: "<quota> <period>" in microseconds, or
 * "max <period>"), rounded up; `most` where there is no limit. */
static int processors_granted(int most) {
    int file = open("/sys/fs/cgroup/cpu.max", O_RDONLY | O_CLOEXEC);
    if (file < 0) return most;
    char text[64];
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    text[n > 0 ? n : 0] = 0;
    long long quota, period;
    if (sscanf(text, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return most;
    long long granted = (quota + period - 1) / period;
    return granted < most ? (int)granted : most;
}
#endif

int processors_there(void) {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 1 ? (int)online : 1;
}

int processors(void) {
    int count = processors_there();
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
    count = processors_granted(count);
#endif
    return count > 1 ? count : 1;
}
