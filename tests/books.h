/* books.h - an allocator that keeps its own books, to hold the heap's counters against. */
#ifndef QN_BOOKS_H
#define QN_BOOKS_H
#include "base/base.h"
#include "test.h"

typedef struct books {
    int64_t bytes, blocks;
    int wrong; /* blocks given back with another size than they were asked with, or misasked */
} books;

static inline void *books_alloc(void *user, size_t size, size_t align) {
    books *b = user;
    if (align != 64 || size == 0) b->wrong++;
    unsigned char *p = aligned_alloc(64, 64 + (size + 63) / 64 * 64);
    if (!p) return NULL;
    memcpy(p, &size, sizeof size);
    memset(p + 64, 0xa5, size);
    b->bytes += (int64_t)size;
    b->blocks++;
    return p + 64;
}

static inline void books_free(void *user, void *p, size_t size) {
    books *b = user;
    size_t asked;
    memcpy(&asked, (char *)p - 64, sizeof asked);
    if (asked != size) b->wrong++;
    b->bytes -= (int64_t)asked;
    b->blocks--;
    free((char *)p - 64);
}

typedef struct bench {
    books books;
    qn_ctx qn;
} bench;

static inline void bench_open(bench *b) {
    *b = (bench){0};
    qn_options options =
        QN_OPTIONS(.alloc = books_alloc, .free = books_free, .alloc_user = &b->books);
    heap_open(&b->qn.heap, &options, &b->qn);
}

/* All memory is back, the heap's counters agree with the books. */
static inline void bench_check(const bench *b) {
    CHECK_INT(b->books.wrong, 0);
    CHECK_INT(b->books.blocks, 0);
    CHECK_INT(b->books.bytes, 0);
    CHECK_INT(b->qn.heap.bytes, 0);
    CHECK(b->qn.heap.top == NULL);
}
#endif
