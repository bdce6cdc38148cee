/* test_heap.c - memory that is counted and may fail, and unwinding: heaps, guards, cleanups.
 * Counters come from an allocator that keeps its own books. */
#include <pthread.h>
#include <unistd.h>

#include "books.h"

/* ---- heap ------------------------------------------------------------------------------------ */

static void heap_counts_bytes_peak_and_requests(void) {
    bench b;
    bench_open(&b);
    heap *h = &b.qn.heap;
    void *p = heap_try(h, 100), *q = heap_try(h, 1000);
    CHECK_INT(h->bytes, 1100);
    heap_free(h, p, 100);
    CHECK_INT(h->bytes, 1000);
    void *r = heap_try(h, 7);
    CHECK_INT(h->bytes, 1007);
    CHECK_INT(h->peak, 1100);
    CHECK_INT(h->requests, 3);
    CHECK_INT(b.books.bytes, 1007);
    heap_free(h, q, 1000);
    heap_free(h, r, 7);
    heap_free(h, NULL, 50);
    void *none = heap_try(h, 0);
    CHECK(none != NULL);
    heap_free(h, none, 0);
    bench_check(&b);
}

static void default_heap_is_aligned(void) {
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    for (size_t size = 1; size < 300; size++) {
        void *p = heap_try(&qn.heap, size);
        CHECK_INT((uintptr_t)p % 64, 0);
        memset(p, 1, size);
        heap_free(&qn.heap, p, size);
    }
    CHECK(heap_try(&qn.heap, SIZE_MAX) == NULL);
    CHECK(heap_try(&qn.heap, SIZE_MAX - 10) == NULL);
    CHECK_INT(qn.heap.bytes, 0);
}

static void allocator_without_free_is_accepted(void) {
    books kept = {0};
    qn_ctx qn = {0};
    qn_options options = QN_OPTIONS(.alloc = books_alloc, .alloc_user = &kept);
    heap_open(&qn.heap, &options, &qn);
    void *p = heap_try(&qn.heap, 200);
    CHECK(p != NULL);
    heap_free(&qn.heap, p, 200);
    CHECK_INT(qn.heap.bytes, 0);
    CHECK_INT(kept.blocks, 1);
    books_free(&kept, p, 200);
}

static void heap_fails_at_the_request_asked_for(void) {
    bench b;
    bench_open(&b);
    heap *h = &b.qn.heap;
    h->fail_at = h->requests + 3;
    void *p[5];
    for (int i = 0; i < 5; i++) {
        p[i] = heap_try(h, 10);
        CHECK_INT(p[i] == NULL, i == 2);
    }
    CHECK_INT(h->bytes, 40);
    for (int i = 0; i < 5; i++) heap_free(h, p[i], 10);
    bench_check(&b);
}

static void heap_alloc_unwinds_to_the_guard(void) {
    bench b;
    bench_open(&b);
    heap *h = &b.qn.heap;
    volatile int reached = 0;
    guard g;
    guard_open(h, &g);
    if (setjmp(g.at)) {
        guard_close(h, &g);
        reached += 10;
    } else {
        h->fail_at = h->requests + 1;
        reached++;
        heap_alloc(h, 10);
        reached += 100;
        guard_close(h, &g);
    }
    CHECK_INT(reached, 11);
    CHECK_INT(qn_error_code(&b.qn), QN_ENOMEM);
    bench_check(&b);
}

static void heap_zeroed_is_clear(void) {
    bench b;
    bench_open(&b);
    unsigned char *p = heap_zeroed(&b.qn.heap, 777);
    int set = 0;
    for (int i = 0; i < 777; i++) set += p[i] != 0;
    CHECK_INT(set, 0);
    heap_free(&b.qn.heap, p, 777);
    bench_check(&b);
}

/* Blocks of all kinds, and nothing beside them. */
static void heap_clear_clears_what_it_is_told(void) {
    enum { ROOM = (9 << 20) + 12345 };
    bench b;
    bench_open(&b);
    heap own;
    heap_open(&own, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        heap *h = i ? &own : &b.qn.heap;
        static const int size[] = {0, 1, 4097, 65535, 65536, 70000, 200000, 9 << 20};
        unsigned char *p = heap_try(h, ROOM);
        for (size_t k = 0; k < COUNT_OF(size); k++) {
            int at = 3 + 1000 * (int)k, wrong = 0;
            memset(p, 0x55, ROOM);
            heap_clear(h, p + at, (size_t)size[k]);
            for (int n = 0; n < ROOM; n++)
                wrong += p[n] != (n >= at && n < at + size[k] ? 0 : 0x55);
            CHECK_INT(wrong, 0);
        }
        heap_free(h, p, ROOM);
    }
    bench_check(&b);
}

static void heap_grow_keeps_what_was_there(void) {
    bench b;
    bench_open(&b);
    heap *h = &b.qn.heap;
    int64_t *data = NULL;
    uint32_t cap = 0, moves = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t before = cap;
        data = heap_grow(h, data, &cap, i + 1, sizeof *data);
        moves += cap != before;
        CHECK(cap > i);
        data[i] = (int64_t)i * i;
    }
    for (int64_t i = 0; i < 10000; i++) CHECK_INT(data[i], i * i);
    CHECK(moves <= 12); /* doubling: 8 to 16384 */
    CHECK_INT(h->bytes, (uint64_t)cap * sizeof *data);
    heap_free(h, data, cap * sizeof *data);
    bench_check(&b);
}

static void heap_grow_raises_and_leaves_the_array(void) {
    bench b;
    bench_open(&b);
    heap *h = &b.qn.heap;
    uint32_t cap = 0;
    uint32_t *const data = heap_grow(h, NULL, &cap, 4, sizeof *data);
    for (uint32_t i = 0; i < cap; i++) data[i] = i;
    uint32_t before = cap;
    volatile int raised = 0;
    for (volatile int k = 0; k < 2; k++) {
        guard g;
        guard_open(h, &g);
        if (setjmp(g.at) == 0) {
            if (k == 0) h->fail_at = h->requests + 1;
            heap_grow(h, data, &cap, k == 0 ? 100 : UINT32_MAX, k == 0 ? 4 : SIZE_MAX / 4);
        } else {
            raised++;
        }
        guard_close(h, &g);
    }
    CHECK_INT(raised, 2);
    CHECK_INT(cap, before);
    for (uint32_t i = 0; i < before; i++) CHECK_INT(data[i], i);
    heap_free(h, data, cap * sizeof *data);
    bench_check(&b);
}

/* ---- guards ---------------------------------------------------------------------------------- */

static void raise_inside(qn_ctx *qn, int depth) {
    guard g;
    guard_open(&qn->heap, &g);
    if (setjmp(g.at)) {
        guard_close(&qn->heap, &g);
        raise_error(qn, QN_ERANGE, "again from depth %d", depth);
    }
    if (depth == 0) raise_error(qn, QN_ESHAPE, "the first of them");
    if (depth > 0) raise_inside(qn, depth - 1);
    guard_close(&qn->heap, &g);
}

static void raising_from_a_catcher_goes_outward(void) {
    bench b;
    bench_open(&b);
    volatile int caught = 0;
    guard g;
    guard_open(&b.qn.heap, &g);
    if (setjmp(g.at)) {
        guard_close(&b.qn.heap, &g);
        caught = 1;
    } else {
        raise_inside(&b.qn, 5);
    }
    CHECK_INT(caught, 1);
    CHECK_INT(qn_error_code(&b.qn), QN_ESHAPE);
    CHECK_STR(qn_error(&b.qn), "the first of them");
    bench_check(&b);
}

/* Closing an outer guard also drops inner ones that were jumped over. */
static void closing_a_guard_drops_those_inside(void) {
    bench b;
    bench_open(&b);
    guard outer, middle, inner;
    guard_open(&b.qn.heap, &outer);
    if (setjmp(outer.at) == 0) {
        guard_open(&b.qn.heap, &middle);
        guard_open(&b.qn.heap, &inner);
        CHECK(b.qn.heap.top == &inner);
        longjmp(outer.at, 1);
    }
    guard_close(&b.qn.heap, &outer);
    bench_check(&b);
}

/* What cleanups do is noted as digits, in order. */
typedef struct work_notes {
    qn_ctx *qn;
    int notes, digit;
} work_notes;

static void note(void *of) {
    work_notes *w = of;
    w->notes = w->notes * 10 + w->digit;
}

static void raise_below_three(void *arg) {
    work_notes *w = arg, one = {.digit = 1}, two = {.digit = 2};
    int raised = w->digit;
    cleanup a, b, c;
    cleanup_push(&w->qn->heap, &a, note, &one);
    cleanup_push(&w->qn->heap, &b, note, &two);
    cleanup_run(&w->qn->heap, &b); /* not again where the rest raises */
    cleanup_push(&w->qn->heap, &b, note, w);
    cleanup_push(&w->qn->heap, &c, note, w);
    w->digit = 3;
    if (raised) raise_error(w->qn, QN_ERANGE, "raised");
    cleanup_drop(&w->qn->heap, &c);
    cleanup_run(&w->qn->heap, &b);
    cleanup_run(&w->qn->heap, &a);
    w->notes += 1000 * (two.notes + one.notes);
}

static void guarded_work_runs_its_cleanups_last_first_where_it_raises(void) {
    bench b;
    bench_open(&b);
    work_notes w = {.qn = &b.qn};
    CHECK_INT(guarded(&b.qn, raise_below_three, &w), QN_OK);
    CHECK_INT(w.notes, 3003); /* the dropped one is not run, one and two once each */
    CHECK(!b.qn.heap.top && !b.qn.heap.cleanup);
    w = (work_notes){.qn = &b.qn, .digit = 9};
    CHECK_INT(guarded(&b.qn, raise_below_three, &w), QN_ERANGE);
    CHECK_INT(w.notes, 33); /* changed after the push, and seen as it is */
    CHECK_STR(qn_error(&b.qn), "raised");
    CHECK(!b.qn.heap.top && !b.qn.heap.cleanup);
    bench_check(&b);
}

static void raise_nested(void *arg) {
    work_notes *w = arg, inner = {.qn = w->qn, .digit = 5};
    cleanup c;
    cleanup_push(&w->qn->heap, &c, note, w);
    CHECK_INT(guarded(w->qn, raise_below_three, &inner), QN_ERANGE);
    CHECK_INT(inner.notes, 33);
    CHECK_INT(w->notes, 0); /* what was pushed outside waits */
    CHECK(w->qn->heap.cleanup == &c);
    cleanup_run(&w->qn->heap, &c);
}

static void a_guard_inside_leaves_the_cleanups_outside_alone(void) {
    bench b;
    bench_open(&b);
    work_notes w = {.qn = &b.qn, .digit = 7};
    CHECK_INT(guarded(&b.qn, raise_nested, &w), QN_OK);
    CHECK_INT(w.notes, 7);
    bench_check(&b);
}

/* Memory that only cleanups own: none is left, wherever the work ends. */
static void take_and_raise(void *arg) {
    bench *b = arg;
    heap *h = &b->qn.heap;
    str text;
    arena a;
    cleanup c, d, e;
    str_open(&text, h);
    arena_open(&a, h);
    cleanup_push(h, &c, str_cleanup, &text);
    cleanup_push(h, &d, arena_cleanup, &a);
    str_add(&text, "some text");
    heap_piece own = {h, heap_alloc(h, 100), 100};
    cleanup_push(h, &e, heap_piece_cleanup, &own);
    arena_alloc(&a, 5000);
    str_addf(&text, "%200d", 1);
    cleanup_run(h, &e);
    cleanup_run(h, &d);
    cleanup_run(h, &c);
}

static void guarded_work_leaks_nothing_wherever_memory_ends(void) {
    int ends = 0;
    for (uint64_t k = 1;; k++) {
        bench b;
        bench_open(&b);
        b.qn.heap.fail_at = b.qn.heap.requests + k;
        qn_code code = guarded(&b.qn, take_and_raise, &b);
        CHECK_INT(b.qn.heap.bytes, 0);
        bench_check(&b);
        if (!code) break;
        CHECK_INT(code, QN_ENOMEM);
        ends++;
    }
    CHECK(ends >= 4);
}

static void *unguarded(void *arg) {
    bench *b = arg;
    b->qn.heap.fail_at = b->qn.heap.requests + 1;
    heap_alloc(&b->qn.heap, 10);
    return arg;
}

static void raising_without_a_guard_ends_only_the_thread(void) {
    bench b;
    bench_open(&b);
    pthread_t thread;
    void *result = &b;
    CHECK_INT(pthread_create(&thread, NULL, unguarded, &b), 0);
    CHECK_INT(pthread_join(thread, &result), 0);
    CHECK(result == NULL);
    CHECK_INT(qn_error_code(&b.qn), QN_ENOMEM);
    bench_check(&b);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static long resident_pages(void) {
    long size = 0, pages = -1;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &size, &pages) != 2) pages = -1;
    if (f) fclose(f);
    return pages;
}

/* Small blocks below one that stays: the C library keeps them. */
static void what_was_freed_goes_back_to_the_system(void) {
    enum { BLOCKS = 1000, BYTES = 60000 };
    static void *block[BLOCKS + 1];
    heap h;
    heap_open(&h, NULL, NULL);
    for (int i = 0; i <= BLOCKS; i++) {
        block[i] = heap_try(&h, BYTES);
        CHECK(block[i]);
        memset(block[i], 1, BYTES);
    }
    for (int i = 0; i < BLOCKS; i++) heap_free(&h, block[i], BYTES);
    const long before = resident_pages();
    heap_trim(&h);
    CHECK((before - resident_pages()) * sysconf(_SC_PAGESIZE) > (long)BLOCKS * BYTES / 2);
    heap_free(&h, block[BLOCKS], BYTES);
}
#else
static void what_was_freed_goes_back_to_the_system(void) {
    SKIP("another C library, or a sanitizer's allocator");
}
#endif

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(heap_counts_bytes_peak_and_requests);
    RUN(default_heap_is_aligned);
    RUN(allocator_without_free_is_accepted);
    RUN(heap_fails_at_the_request_asked_for);
    RUN(heap_alloc_unwinds_to_the_guard);
    RUN(heap_zeroed_is_clear);
    RUN(heap_clear_clears_what_it_is_told);
    RUN(heap_grow_keeps_what_was_there);
    RUN(heap_grow_raises_and_leaves_the_array);
    RUN(raising_from_a_catcher_goes_outward);
    RUN(closing_a_guard_drops_those_inside);
    RUN(guarded_work_runs_its_cleanups_last_first_where_it_raises);
    RUN(a_guard_inside_leaves_the_cleanups_outside_alone);
    RUN(guarded_work_leaks_nothing_wherever_memory_ends);
    RUN(raising_without_a_guard_ends_only_the_thread);
    RUN(what_was_freed_goes_back_to_the_system);
    return test_end();
}
