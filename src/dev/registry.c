/* registry.c - the memory functions that host devices share. */
#include "dev/dev.h"

static heap *state_heap(void *state) {
    return &(*(qn_ctx **)state)->heap;
}

void *dev_host_alloc(void *state, size_t size) {
    return heap_try(state_heap(state), size ? size : 1);
}

void dev_host_free(void *state, void *memory, size_t size) {
    heap_free(state_heap(state), memory, size ? size : 1);
}

qn_code dev_host_copy_in(void *state, void *memory, size_t offset, const void *from, size_t size) {
    (void)state;
    if (size) memcpy((char *)memory + offset, from, size);
    return QN_OK;
}

qn_code dev_host_copy_out(void *state, const void *memory, size_t offset, void *to, size_t size) {
    (void)state;
    if (size) memcpy(to, (const char *)memory + offset, size);
    return QN_OK;
}
