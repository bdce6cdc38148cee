/* memory.c - memory planning: offsets of temporaries in one arena, from their live ranges.
 *
 * Largest block first, each at the lowest offset where it overlaps no block that is live at the
 * same time. The order by size makes the greedy choice good: small blocks fill the gaps large ones
 * leave. O(n^2) with a small constant; a training step has a few hundred temporaries. */
#include "plan/plan.h"

enum { ALIGN = 64 };

static int64_t aligned(int64_t n) {
    return sat_add(n, ALIGN - 1) / ALIGN * ALIGN;
}

/* Insertion into a list sorted by offset keeps the scan for a gap one pass. */
static int64_t lowest_gap(const memory_block *block, const uint32_t *placed, uint32_t n,
                          const memory_block *b) {
    int64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const memory_block *o = &block[placed[i]];
        if (o->last < b->first || o->first > b->last) continue;
        if (o->offset >= sat_add(at, aligned(b->size))) break;
        int64_t end = sat_add(o->offset, aligned(o->size));
        if (end > at) at = end;
    }
    return at;
}

static void sort_by_size(const memory_block *block, uint32_t *order, uint32_t n) {
    for (uint32_t gap = n / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            uint32_t v = order[i], j = i;
            for (; j >= gap && block[order[j - gap]].size < block[v].size; j -= gap)
                order[j] = order[j - gap];
            order[j] = v;
        }
}

int64_t memory_layout(arena *a, uint32_t n, memory_block *block) {
    uint32_t *order = arena_alloc(a, (n + 1) * sizeof *order);
    uint32_t *placed = arena_alloc(a, (n + 1) * sizeof *placed);
    int64_t total = 0;
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    sort_by_size(block, order, n);
    for (uint32_t i = 0; i < n; i++) {
        memory_block *b = &block[order[i]];
        b->offset = lowest_gap(block, placed, i, b);
        int64_t end = sat_add(b->offset, aligned(b->size));
        if (end > total) total = end;
        uint32_t j = i;
        for (; j && block[placed[j - 1]].offset > b->offset; j--) placed[j] = placed[j - 1];
        placed[j] = order[i];
    }
    return total;
}
