/* arena.c - bump allocation, freed whole.
 *
 * Everything made for one purpose (one compilation, one plan) lives in blocks that are given back
 * together, so nothing in it needs an owner of its own. Blocks double up to 1 MiB: small arenas
 * stay small, large ones ask the allocator rarely. A request that would waste much of a block gets
 * a block of its own, linked behind the current one, so that the room left in the current one is
 * still used.
 *
 * Invariant: `block` is the block being filled, `used` counts from the start of its header, and
 * every block begins with a header of ARENA_HEADER bytes, so data starts 64-byte aligned.
 *
 * Under the address sanitizer pieces have a gap between them, and only what was handed out may be
 * touched: writing past a piece is reported as it is for malloc. */
#include "base/base.h"

#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_WATCHED 1
#endif
#endif

#ifdef ARENA_WATCHED
#include <sanitizer/asan_interface.h>
enum { ARENA_GAP = 16 };
static void arena_hide(void *p, size_t size) {
    __asan_poison_memory_region(p, size);
}
static void *arena_show(void *p, size_t size) {
    __asan_unpoison_memory_region(p, size);
    return p;
}
#else
enum { ARENA_GAP = 0 };
static void arena_hide(void *p, size_t size) {
    (void)p;
    (void)size;
}
static void *arena_show(void *p, size_t size) {
    (void)size;
    return p;
}
#endif

typedef struct arena_block {
    struct arena_block *up;
    size_t size; /* as requested from the heap, header included */
} arena_block;

enum { ARENA_ALIGN = 16, ARENA_HEADER = 64, ARENA_FIRST = 4096, ARENA_MOST = 1 << 20 };

void arena_open(arena *a, heap *h) {
    *a = (arena){.h = h};
}

static arena_block *arena_block_new(arena *a, size_t size) {
    arena_block *b = heap_alloc(a->h, size);
    b->size = size;
    a->total += size;
    arena_hide((char *)b + ARENA_HEADER, size - ARENA_HEADER);
    return b;
}

/* The next block. `total` at least doubles with each one, which makes it the measure. */
static size_t arena_fresh(const arena *a) {
    size_t fresh = a->total < ARENA_FIRST ? ARENA_FIRST : a->total;
    return fresh > ARENA_MOST ? ARENA_MOST : fresh;
}

static size_t arena_taken(size_t size) {
    return (size + ARENA_GAP + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

static bool arena_has_room(const arena *a, size_t taken) {
    return a->block && taken <= a->block->size - a->used;
}

size_t arena_needs(const arena *a, size_t size) {
    size_t fresh = arena_fresh(a), taken = arena_taken(size);
    if (arena_has_room(a, taken)) return 0;
    return taken > fresh / 4 ? ARENA_HEADER + taken : fresh;
}

/* A request the current block has no room for. */
static void *arena_more(arena *a, size_t size) {
    size_t fresh = arena_fresh(a);
    if (size > fresh / 4) {
        arena_block *own = arena_block_new(a, ARENA_HEADER + size);
        if (a->block) {
            own->up = a->block->up;
            a->block->up = own;
        } else {
            own->up = NULL;
            a->block = own;
            a->used = own->size;
        }
        return (char *)own + ARENA_HEADER;
    }
    arena_block *b = arena_block_new(a, fresh);
    b->up = a->block;
    a->block = b;
    a->used = ARENA_HEADER + size;
    return (char *)b + ARENA_HEADER;
}

void *arena_alloc(arena *a, size_t size) {
    if (size > PTRDIFF_MAX / 2) return heap_alloc(a->h, SIZE_MAX); /* raises: no such memory */
    size_t taken = arena_taken(size);
    if (!arena_has_room(a, taken)) return arena_show(arena_more(a, taken), size);
    void *p = (char *)a->block + a->used;
    a->used += taken;
    return arena_show(p, size);
}

void *arena_zeroed(arena *a, size_t size) {
    return memset(arena_alloc(a, size), 0, size);
}

void *arena_grow(arena *a, void *data, uint32_t *cap, uint32_t need, size_t elem) {
    if (need <= *cap && data) return data;
    uint32_t new_cap = heap_grown(*cap, need);
    size_t size;
    if (__builtin_mul_overflow((size_t)new_cap, elem, &size)) size = SIZE_MAX;
    void *grown = arena_alloc(a, size);
    if (data) memcpy(grown, data, *cap * elem);
    *cap = new_cap;
    return grown;
}

char *arena_printf(arena *a, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) n = 0;
    char *text = arena_alloc(a, (size_t)n + 1);
    text[0] = 0;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

void arena_free(arena *a) {
    for (arena_block *b = a->block; b;) {
        arena_block *up = b->up;
        heap_free(a->h, arena_show(b, b->size), b->size);
        b = up;
    }
    *a = (arena){.h = a->h};
}

void arena_reset(arena *a) {
    size_t total = a->total;
    if (!a->block) return;
    if (a->block->up) {
        arena_free(a);
        a->block = arena_block_new(a, total);
        a->block->up = NULL;
    }
    a->used = ARENA_HEADER;
    arena_hide((char *)a->block + ARENA_HEADER, a->block->size - ARENA_HEADER);
}

void arena_cleanup(void *a) {
    arena_free(a);
}
