/* failing_memory.h - a program's own allocator, of which one request fails. */
#ifndef QN_TEST_FAILING_MEMORY_H
#define QN_TEST_FAILING_MEMORY_H

#include <stddef.h>
#include <stdlib.h>

/* `user` counts the requests down to the one that fails; below 0 none does. */
static inline void *failing_alloc(void *user, size_t size, size_t align) {
    int *left = user;
    if (*left >= 0 && (*left)-- == 0) return NULL;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static inline void plain_free(void *user, void *p, size_t size) {
    (void)user;
    (void)size;
    free(p);
}

#endif
