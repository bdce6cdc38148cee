/* heap.c - memory from the caller's allocator, counted, and raising when there is none.
 *
 * A compiler allocates everywhere, and a check after every allocation would bury what the code
 * says. So code that can be given up as a whole asks with heap_alloc(), which never returns NULL:
 * where memory is out it records QN_ENOMEM and unwinds (guard.c).
 *
 * Invariants: `bytes` is exactly the sum of the sizes requested and not yet given back (an empty
 * request counts as one byte); `requests` counts every request, also those that fail. To have the
 * k-th request from now fail, set fail_at = requests + k. */
#include "base/base.h"

#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { HEAP_ALIGN = 64, HEAP_GROW_FIRST = 8 };

/* Large blocks ask for large pages: a matrix product touches hundreds of pages at once, more than
 * the processor remembers of the small kind. */
enum { LARGE_PAGE = 2 << 20 };

/* From so many bytes on a call of the system is less than touching them. */
enum { CLEARED_BY_SYSTEM = 64 << 10 };

static void *libc_alloc(void *user, size_t size, size_t align) {
    (void)user;
#ifdef MADV_HUGEPAGE
    bool large = size >= 2 * (size_t)LARGE_PAGE;
    if (large) align = LARGE_PAGE;
    void *p = aligned_alloc(align, (size + align - 1) / align * align);
    if (p && large) madvise(p, size / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    return p;
#else
    return aligned_alloc(align, (size + align - 1) / align * align);
#endif
}

static void libc_free(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    free(p);
}

/* For a caller who gives an allocator without a free: one that never takes back. */
static void no_free(void *user, void *p, size_t size) {
    (void)user;
    (void)p;
    (void)size;
}

void heap_open(heap *h, const qn_options *options, struct qn_ctx *ctx) {
    *h = (heap){.alloc = libc_alloc, .free = libc_free, .ctx = ctx};
    if (options && options->alloc) {
        h->alloc = options->alloc;
        h->free = options->free ? options->free : no_free;
        h->user = options->alloc_user;
    }
}

void heap_trim(const heap *h) {
#ifdef __GLIBC__
    if (h->alloc == libc_alloc) malloc_trim(0);
#else
    (void)h;
#endif
}

void *heap_try(heap *h, size_t size) {
    if (size == 0) size = 1;
    h->requests++;
    if (h->requests == h->fail_at) return NULL;
    if (size > PTRDIFF_MAX - HEAP_ALIGN) return NULL;
    void *p = h->alloc(h->user, size, HEAP_ALIGN);
    if (!p) return NULL;
    h->bytes += size;
    if (h->bytes > h->peak) h->peak = h->bytes;
    return p;
}

void *heap_alloc(heap *h, size_t size) {
    void *p = heap_try(h, size);
    if (!p) {
        fail(h->ctx, QN_ENOMEM, "out of memory: %zu bytes asked for, %llu in use", size,
             (unsigned long long)h->bytes);
        heap_unwind(h);
    }
    return p;
}

void *heap_zeroed(heap *h, size_t size) {
    return memset(heap_alloc(h, size), 0, size);
}

#ifdef __linux__
/* Give whole pages back, of the C library's memory, which come anew as zeros where they are
 * private. Of a library that shares its memory, or of pages of 2 MiB, some would stay as they are:
 * so the first, the last and one between are looked at, of which the system has to have none. glibc
 * takes such pages where it is told to (glibc.malloc.hugetlb), and Linux 5.18 to 6.0 gave back more
 * of them than it was asked for: then nothing is given back. */
static bool pages_dropped(char *from, char *to, size_t page) {
    const size_t n = (size_t)(to - from) / page;
    unsigned char there[3] = {1, 1, 1};
    char *const at[3] = {from, from + n / 2 * page, to - page};
    const char *told = getenv("GLIBC_TUNABLES");
    if ((told && strstr(told, "hugetlb")) || madvise(from, n * page, MADV_DONTNEED)) return false;
    for (int i = 0; i < 3; i++)
        if (mincore(at[i], page, &there[i]) || there[i] & 1) return false;
    return true;
}
#endif

void heap_clear(const heap *h, void *p, size_t size) {
    char *first = p, *end = first + size;
#ifdef __linux__
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *from = first + (page - (uintptr_t)first % page) % page, *to = end - (uintptr_t)end % page;
    if (h->alloc == libc_alloc && size >= CLEARED_BY_SYSTEM && pages_dropped(from, to, page)) {
        memset(first, 0, (size_t)(from - first));
        first = to;
    }
#else
    (void)h;
#endif
    memset(first, 0, (size_t)(end - first));
}

void heap_free(heap *h, void *p, size_t size) {
    if (!p) return;
    if (size == 0) size = 1;
    h->bytes -= size;
    h->free(h->user, p, size);
}

void *heap_grow(heap *h, void *data, uint32_t *cap, uint32_t need, size_t elem) {
    if (need <= *cap && data) return data;
    uint32_t new_cap = heap_grown(*cap, need);
    size_t size, old_size = *cap * elem;
    if (__builtin_mul_overflow((size_t)new_cap, elem, &size)) size = SIZE_MAX; /* heap refuses */
    void *grown = heap_alloc(h, size);
    if (data) {
        memcpy(grown, data, old_size);
        heap_free(h, data, old_size);
    }
    *cap = new_cap;
    return grown;
}

uint32_t heap_grown(uint32_t cap, uint32_t need) {
    uint64_t grown = (uint64_t)cap * 2;
    if (grown < HEAP_GROW_FIRST) grown = HEAP_GROW_FIRST;
    if (grown < need) grown = need;
    return grown > UINT32_MAX ? UINT32_MAX : (uint32_t)grown;
}
