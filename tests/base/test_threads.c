/* test_threads.c - the fork-join pool: every index of [0, n) once, whatever the counts, the pauses
 * and the company. Also meant to be run under the thread sanitizer: make CFLAGS=-fsanitize=thread.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "test.h"

typedef struct range {
    int64_t begin, end;
    int calls;
} range;

static void note_range(void *arg, int thread, int64_t begin, int64_t end) {
    range *r = (range *)arg + thread;
    r->begin = begin;
    r->end = end;
    r->calls++;
}

/* The ranges, one a thread and in order of threads, follow each other and differ by one at most. */
static void check_split(pool *p, int64_t n) {
    range r[64] = {{0}};
    pool_run(p, n, note_range, r);
    int64_t at = 0, least = INT64_MAX, most = 0;
    int parts = n < pool_threads(p) ? (int)n : pool_threads(p);
    for (int t = 0; t < parts; t++) {
        CHECK_INT(r[t].calls, 1);
        CHECK_INT(r[t].begin, at);
        CHECK(r[t].end > r[t].begin);
        at = r[t].end;
        int64_t size = r[t].end - r[t].begin;
        if (size < least) least = size;
        if (size > most) most = size;
    }
    for (int t = parts; t < 64; t++) CHECK_INT(r[t].calls, 0);
    CHECK_INT(at, n);
    CHECK(n == 0 || most - least <= 1);
}

static void ranges_cover_everything_once(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    for (int threads = 1; threads <= 9; threads += threads < 5 ? 1 : 2) {
        pool *p = pool_open(&qn.heap, threads);
        CHECK_INT(pool_threads(p), threads);
        for (int64_t n = 0; n <= 40; n++) check_split(p, n);
        static const int64_t large[] = {1000, 4096, 99991, INT64_MAX - 3, INT64_MAX};
        for (size_t i = 0; i < COUNT_OF(large); i++) check_split(p, large[i]);
        pool_close(p);
    }
    CHECK_INT(qn.heap.bytes, 0);
}

typedef struct sums {
    int64_t parts[64][8]; /* one cache line a thread */
    int64_t base;
} sums;

static void add_up(void *arg, int thread, int64_t begin, int64_t end) {
    sums *s = arg;
    int64_t sum = 0;
    for (int64_t i = begin; i < end; i++) sum += s->base + i;
    s->parts[thread][0] = sum;
}

/* Plain memory written before a fork is seen by the workers, and theirs after it by the caller. */
static void fork_and_add(pool *p, int64_t round) {
    sums s;
    memset(&s, 0, sizeof s);
    int64_t n = round % 17, total = 0;
    s.base = round;
    pool_run(p, n, add_up, &s);
    for (int t = 0; t < 64; t++) total += s.parts[t][0];
    if (total != n * round + n * (n - 1) / 2) FAIL("round %lld", (long long)round);
}

static void many_fork_joins_in_a_row(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    static const struct { int threads, rounds; } cases[] = {{2, 20000}, {3, 500}, {8, 200}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        pool *p = pool_open(&qn.heap, cases[i].threads);
        for (int64_t round = 0; round < cases[i].rounds; round++) fork_and_add(p, round);
        pool_close(p);
    }
    CHECK_INT(qn.heap.bytes, 0);
}

/* Pauses around the time at which workers go to sleep. */
static void workers_wake_after_pauses(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    pool *p = pool_open(&qn.heap, 2);
    for (int64_t round = 0; round < 400; round++) {
        double end = clock_seconds() + (double)(round % 40) * 2e-6;
        if (round % 10 == 0) usleep(500);
        while (clock_seconds() < end) sched_yield();
        fork_and_add(p, round);
    }
    pool_close(p);
}

static void late_part(void *arg, int thread, int64_t begin, int64_t end) {
    (void)begin;
    (void)end;
    usleep(thread ? 300 : 100); /* the workers have begun when the caller is done */
    ((int *)arg)[thread * 16] = 1;
}

static void the_caller_sleeps_for_late_workers(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    pool *p = pool_open(&qn.heap, 3);
    for (int round = 0; round < 50; round++) {
        int done[48] = {0};
        pool_run(p, 3, late_part, done);
        CHECK_INT(done[0] + done[16] + done[32], 3);
    }
    pool_close(p);
}

typedef struct pieces {
    _Atomic int done[100], all;
    int n;
} pieces;

/* The first one waits for all others: whoever has it, the rest is done by somebody else. */
static void note_piece(void *arg, int thread, int64_t begin, int64_t end) {
    pieces *x = arg;
    (void)thread;
    for (int waits = 0; begin == 0 && x->all < x->n - 1 && waits < 100000; waits++) usleep(100);
    if (begin == 0) CHECK_INT(x->all, x->n - 1);
    CHECK_INT(end, begin + 1);
    x->done[begin]++;
    x->all++;
}

static void pieces_go_to_whoever_is_free(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    for (int threads = 2; threads <= 5; threads++) {
        pool *p = pool_open(&qn.heap, threads);
        for (int round = 0; round < 200; round++) {
            pieces x = {.n = round % 101};
            pool_share(p, x.n, note_piece, &x);
            for (int i = 0; i < 100; i++) CHECK_INT(x.done[i], i < x.n);
        }
        pool_close(p);
    }
    pieces x = {.all = 6, .n = 7};
    pool_share(NULL, 7, note_piece, &x); /* without a pool: in order */
    CHECK_INT(x.all, 13);
}

typedef struct caller {
    pthread_t thread;
    _Atomic int others; /* parts but the first that it did itself */
    _Atomic int parts;
} caller;

static void note_who(void *arg, int thread, int64_t begin, int64_t end) {
    caller *c = arg;
    c->others += thread > 0 && pthread_equal(pthread_self(), c->thread);
    c->parts += (int)(end - begin);
}

/* Workers that sleep take longer to wake than these parts take. */
static void the_caller_does_what_nobody_has_begun(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    pool *p = pool_open(&qn.heap, 8);
    caller c = {.thread = pthread_self()};
    for (int i = 0; i < 200; i++) {
        usleep(i % 10 ? 0 : 200);
        pool_run(p, 8, note_who, &c);
        CHECK_INT(c.parts, 8 * (i + 1));
    }
    CHECK(c.others > 0);
    pool_close(p);
}

static void *own_pool(void *arg) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    for (int i = 0; i < 5; i++) {
        pool *p = pool_open(&qn.heap, 3);
        for (int64_t round = 0; round < 100; round++) fork_and_add(p, round);
        pool_close(p);
    }
    return qn.heap.bytes == 0 ? arg : NULL;
}

static void pools_are_independent(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, own_pool, threads);
    for (int i = 0; i < 3; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        CHECK(result == threads);
    }
}

static void pools_open_and_close_unused(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    for (int i = 0; i < 50; i++) pool_close(pool_open(&qn.heap, 1 + i % 5));
    pool_close(NULL);
    CHECK(pool_open(&qn.heap, 0) == NULL);
    CHECK(pool_open(&qn.heap, -5) == NULL);
    CHECK_INT(pool_threads(NULL), 1);
    CHECK_INT(qn.heap.bytes, 0);
}

static void without_memory_there_is_no_pool(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    qn.heap.fail_at = 1;
    pool *p = pool_open(&qn.heap, 4);
    CHECK(p == NULL);
    CHECK_INT(qn_error_code(&qn), QN_OK);
    check_split(p, 10);
    CHECK_INT(qn.heap.bytes, 0);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* In a child process with hardly any address space left for stacks. */
static void fewer_threads_where_not_all_can_be_made(void) {
    if (SANITIZED) {
        SKIP("sanitizers need the address space");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        static qn_ctx qn;
        heap_open(&qn.heap, NULL, &qn);
        struct rlimit limit = {(rlim_t)64 << 20, (rlim_t)64 << 20};
        setrlimit(RLIMIT_AS, &limit);
        pool *p = pool_open(&qn.heap, 60);
        bool fewer = pool_threads(p) < 60;
        check_split(p, 1000);
        pool_close(p);
        _exit(fewer && !test_state.bad && qn.heap.bytes == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void processors_follow_the_affinity(void) {
    int all = processors();
    CHECK(all >= 1);
#ifdef __linux__
    cpu_set_t old, one;
    CHECK_INT(sched_getaffinity(0, sizeof old, &old), 0);
    CHECK(all <= CPU_COUNT(&old));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &old)) CPU_SET(i, &one);
    CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
    CHECK_INT(processors(), 1);
    CHECK_INT(sched_setaffinity(0, sizeof old, &old), 0);
    CHECK_INT(processors(), all);
#endif
}

#ifdef __linux__
typedef struct place {
    pthread_t caller;
    int home;
    _Atomic int seen,
        there; /* parts that workers did, those where the caller's processor is open */
} place;

static void note_place(void *arg, int thread, int64_t begin, int64_t end) {
    place *x = arg;
    cpu_set_t set;
    (void)thread;
    (void)begin;
    (void)end;
    usleep(pthread_equal(pthread_self(), x->caller) ? 200 : 0); /* by then workers have begun */
    if (pthread_equal(pthread_self(), x->caller) || sched_getaffinity(0, sizeof set, &set)) return;
    x->seen++;
    x->there += CPU_ISSET((size_t)x->home, &set);
}

/* The caller moves over all processors; its workers sleep at times before the next job. */
static void workers_keep_off_the_callers_processor(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    cpu_set_t old, one;
    CHECK_INT(sched_getaffinity(0, sizeof old, &old), 0);
    if (processors() < 2) {
        SKIP("one processor");
        return;
    }
    pool *p = pool_open(&qn.heap, 2);
    place x = {.caller = pthread_self()};
    for (int round = 0; round < 20; round++)
        for (x.home = 0; x.home < 8; x.home++) {
            if (!CPU_ISSET((size_t)x.home, &old)) continue;
            CPU_ZERO(&one);
            CPU_SET((size_t)x.home, &one);
            CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
            for (int i = 0; i < 3; i++) {
                usleep(i ? 0 : 500);
                pool_run(p, 2, note_place, &x);
            }
        }
    CHECK_INT(sched_setaffinity(0, sizeof old, &old), 0);
    CHECK(x.seen > 0);
    CHECK(x.there <= x.seen / 4); /* on many processors one may have moved while it watched */
    pool_close(p);
}

static void stay_at_home(void *arg, int thread, int64_t begin, int64_t end) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)((place *)arg)->home, &one);
    if (!pthread_equal(pthread_self(), ((place *)arg)->caller))
        sched_setaffinity(0, sizeof one, &one);
    note_place(arg, thread, begin, end);
}

/* A worker is told from outside to run on one processor alone; the caller leaves that one and comes
 * back. */
static void workers_stay_where_others_have_put_them(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    cpu_set_t old, one, others;
    CHECK_INT(sched_getaffinity(0, sizeof old, &old), 0);
    if (processors() < 2) {
        SKIP("one processor");
        return;
    }
    place x = {.caller = pthread_self()};
    while (!CPU_ISSET((size_t)x.home, &old)) x.home++;
    CPU_ZERO(&one);
    CPU_SET((size_t)x.home, &one);
    CPU_XOR(&others, &old, &one);
    pool *p = pool_open(&qn.heap, 2);
    CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
    for (int i = 0; i < 1000 && !x.seen; i++) {
        usleep(500); /* it sleeps, so that nothing else is set while it does this */
        pool_run(p, 2, stay_at_home, &x);
    }
    CHECK(x.seen > 0);
    x.seen = x.there = 0;
    for (int i = 0; i < 10; i++) {
        CHECK_INT(sched_setaffinity(0, sizeof one, i % 2 ? &one : &others), 0);
        usleep(500);
        pool_run(p, 2, note_place, &x);
    }
    CHECK_INT(sched_setaffinity(0, sizeof old, &old), 0);
    CHECK(x.seen > 0 && x.there == x.seen);
    pool_close(p);
}
#endif

static void spin_a_while(void *arg, int thread, int64_t begin, int64_t end) {
    uint64_t *slot = (uint64_t *)arg + thread * 8, x = *slot;
    for (int64_t i = begin; i < end; i++) x = x * 6364136223846793005u + 1;
    *slot = x;
}

static double best_time(pool *p, int64_t n) {
    uint64_t slots[64 * 8] = {0};
    double best = 1e9;
    for (int batch = 0; batch < 20; batch++) {
        double start = clock_seconds();
        for (int i = 0; i < 100; i++) pool_run(p, n, spin_a_while, slots);
        double each = (clock_seconds() - start) / 100;
        if (each < best) best = each;
    }
    return best;
}

/* Not a test of speed, which depends on the machine and its load: printed for the reader. */
static void the_price_of_a_fork_join_is_printed(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    pool *p = pool_open(&qn.heap, 2);
    double empty = best_time(p, 2), alone = best_time(NULL, 20000), both = best_time(p, 20000);
    CHECK(empty > 0 && both > 0);
    printf("fork-join: %.2f us; a loop of %.1f us on 2 threads: %.2f times as fast\n", empty * 1e6,
           alone * 1e6, alone / both);
    pool_close(p);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(ranges_cover_everything_once);
    RUN(many_fork_joins_in_a_row);
    RUN(workers_wake_after_pauses);
    RUN(the_caller_sleeps_for_late_workers);
    RUN(the_caller_does_what_nobody_has_begun);
    RUN(pieces_go_to_whoever_is_free);
    RUN(pools_are_independent);
    RUN(pools_open_and_close_unused);
    RUN(without_memory_there_is_no_pool);
    RUN(fewer_threads_where_not_all_can_be_made);
    RUN(processors_follow_the_affinity);
#ifdef __linux__
    RUN(workers_keep_off_the_callers_processor);
    RUN(workers_stay_where_others_have_put_them);
#endif
    RUN(the_price_of_a_fork_join_is_printed);
    return test_end();
}
