/* memory.c - memory planning: offsets of temporaries in one arena, from their live ranges.
 *
 * Largest block first, each at the lowest offset where it overlaps no block that is live at the
 * same time. The order by size makes the greedy choice good: small blocks fill the gaps large ones
 * leave.
 *
 * What is taken at a time is not asked of each block that is live then, which would be quadratic
 * for values that a gradient needs again at the end. It stands in a segment tree over the levels of
 * a plan. A node has two sets of offsets: those of blocks that live at all levels of the node but
 * not at all of its parent's (`whole`), and those of blocks that live at some (`part`). A block's
 * range is log n nodes, so that many sets are read to place it; offsets that touch are one span in
 * them, and as blocks lie close together there are few. Temporaries of n launches take n log n
 * steps, about. */
#include "plan/plan.h"

#include <stdlib.h>

enum { ALIGN = 64, PATHS = 4 * 33 };

typedef struct span {
    int64_t from, to;
} span;

typedef struct spans { /* sorted, apart from each other */
    span *at;
    uint32_t count, cap;
} spans;

typedef struct levels {
    arena *a;
    uint32_t leaves; /* a power of two; node i's children are 2i and 2i + 1, the root is 1 */
    spans *whole, *part;
    uint64_t *steps;
} levels;

static int64_t aligned(int64_t n) {
    return sat_add(n, ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* The first span that ends behind `at`, or at its number. */
static uint32_t spans_find(const levels *l, const spans *s, int64_t at) {
    uint32_t low = 0, high = s->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        ++*l->steps;
        if (s->at[middle].to > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void spans_add(const levels *l, spans *s, span x) {
    uint32_t i = spans_find(l, s, x.from - 1), end = i;
    for (; end < s->count && s->at[end].from <= x.to; end++) {
        ++*l->steps;
        if (s->at[end].from < x.from) x.from = s->at[end].from;
        if (s->at[end].to > x.to) x.to = s->at[end].to;
    }
    s->at = arena_grow(l->a, s->at, &s->cap, s->count + 1, sizeof *s->at);
    memmove(s->at + i + 1, s->at + end, (s->count - end) * sizeof *s->at);
    s->at[i] = x;
    s->count = s->count + 1 - (end - i);
}

/* ---- levels ---------------------------------------------------------------------------------- */

/* The fewest nodes that are the range; returns how many. */
static int nodes_of(const levels *l, const memory_block *b, uint32_t *node) {
    uint32_t low = b->first + l->leaves, high = b->last + l->leaves + 1;
    int n = 0;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) node[n++] = low++;
        if (high & 1) node[n++] = --high;
    }
    return n;
}

static void take(const levels *l, const memory_block *b) {
    uint32_t node[PATHS];
    int64_t size = aligned(b->size);
    span x = {b->offset, sat_add(b->offset, size)};
    if (!size) return;
    for (int n = nodes_of(l, b, node); n-- > 0;) {
        spans_add(l, &l->whole[node[n]], x);
        spans_add(l, &l->part[node[n]], x);
    }
    for (uint32_t i = b->first + l->leaves, j = b->last + l->leaves; i; i /= 2, j /= 2) {
        spans_add(l, &l->part[i], x);
        if (j != i) spans_add(l, &l->part[j], x);
    }
}

/* The sets that tell what is taken during the block's life. */
static int sets_of(const levels *l, const memory_block *b, const spans **set) {
    uint32_t node[PATHS];
    int n = nodes_of(l, b, node), count = 0;
    for (int i = 0; i < n; i++) set[count++] = &l->part[node[i]];
    for (uint32_t i = b->first + l->leaves, j = b->last + l->leaves; i; i /= 2, j /= 2) {
        set[count++] = &l->whole[i];
        if (j != i) set[count++] = &l->whole[j];
    }
    return count;
}

static int64_t lowest_gap(const levels *l, const memory_block *b) {
    const spans *set[PATHS];
    int sets = sets_of(l, b, set);
    int64_t size = aligned(b->size), at = 0;
    for (;;) {
        int64_t end = at, next = INT64_MAX;
        for (int i = 0; i < sets; i++) {
            uint32_t k = spans_find(l, set[i], at);
            if (k == set[i]->count) continue;
            const span *s = &set[i]->at[k];
            if (s->from <= at && s->to > end) end = s->to;
            if (s->from > at && s->from < next) next = s->from;
        }
        if (end == at && next >= sat_add(at, size)) return at;
        at = end > at ? end : next;
    }
}

/* ---- the layout ------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b) {
    const memory_block *x = *(const memory_block *const *)a, *y = *(const memory_block *const *)b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x < y ? -1 : x > y;
}

int64_t memory_layout(arena *a, uint32_t n, memory_block *block, uint64_t *steps) {
    memory_block **order = arena_alloc(a, (n + 1) * sizeof *order);
    levels l = {.a = a, .leaves = 1, .steps = steps};
    int64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        order[i] = &block[i];
        while (l.leaves <= block[i].last) l.leaves *= 2;
    }
    l.whole = arena_zeroed(a, 2 * (size_t)l.leaves * sizeof *l.whole);
    l.part = arena_zeroed(a, 2 * (size_t)l.leaves * sizeof *l.part);
    qsort(order, n, sizeof(memory_block *), by_size);
    for (uint32_t i = 0; i < n; i++) {
        order[i]->offset = lowest_gap(&l, order[i]);
        take(&l, order[i]);
        int64_t end = sat_add(order[i]->offset, aligned(order[i]->size));
        if (end > total) total = end;
    }
    return total;
}
