/* test_memory.c - the memory plan: blocks that live together lie apart, each at the lowest place
 * that is left when those of at least its size have theirs, and long plans take steps in
 * proportion. The places are held against a search that asks each block. */
#include "base/base.h"
#include "plan/plan.h"
#include "test.h"

#include <math.h>

enum { MOST = 400, LINE = 64 };

static heap *memory;

static int64_t lines(const memory_block *b) {
    return (b->size + LINE - 1) / LINE * LINE;
}

static bool overlap(const memory_block *x, const memory_block *y) {
    return x->first <= y->last && y->first <= x->last;
}

static uint64_t lay_out(uint32_t n, memory_block *b, int64_t *size) {
    arena a;
    uint64_t steps = 0;
    arena_open(&a, memory);
    *size = memory_layout(&a, n, b, &steps);
    arena_free(&a);
    return steps;
}

/* Blocks that are at least as large, and come first where they are as large, have their places: is
 * there one further down for this one? */
static bool is_lowest(const memory_block *b, uint32_t n, uint32_t i) {
    for (int64_t at = 0; at < b[i].offset; at += LINE) {
        bool taken = false;
        for (uint32_t j = 0; j < n && !taken; j++) {
            bool before = b[j].size > b[i].size || (b[j].size == b[i].size && j < i);
            taken = before && overlap(&b[i], &b[j]) && at < b[j].offset + lines(&b[j]) &&
                    b[j].offset < at + lines(&b[i]);
        }
        if (!taken) return false;
    }
    return true;
}

static void check_random(uint64_t *seed) {
    memory_block b[MOST];
    uint32_t n = 1 + (uint32_t)test_below(seed, MOST - 1);
    int64_t sizes = test_below(seed, 2) ? 40 : 3, total, most = 0; /* many, or ties */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = (uint32_t)test_below(seed, 300), life = test_below(seed, 4) ? 4 : 300;
        b[i] = (memory_block){.first = first, .last = first + (uint32_t)test_below(seed, life)};
        b[i].size = 1 + test_below(seed, sizes * 50);
    }
    lay_out(n, b, &total);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(b[i].offset % LINE == 0 && b[i].offset >= 0);
        if (b[i].offset + lines(&b[i]) > most) most = b[i].offset + lines(&b[i]);
        if (!is_lowest(b, n, i)) FAIL("block %u of %u could lie lower", i, n);
        for (uint32_t j = 0; j < i; j++)
            if (overlap(&b[i], &b[j]) && b[i].offset < b[j].offset + lines(&b[j]) &&
                b[j].offset < b[i].offset + lines(&b[i]))
                FAIL("blocks %u and %u of %u lie over each other", i, j, n);
    }
    CHECK_INT(total, most);
}

static void blocks_that_live_together_lie_apart_and_low(void) {
    uint64_t seed = 1;
    for (int i = 0; i < 60; i++) check_random(&seed);
}

/* Values of n steps forward that steps backward need again, and short ones between. */
static uint64_t steps_of(uint32_t n, int64_t *size) {
    memory_block *b = calloc(2 * n, sizeof *b);
    for (uint32_t i = 0; i < n; i++) {
        b[2 * i] = (memory_block){.first = i, .last = 2 * n - i, .size = 100 + 8 * (i % 5)};
        b[2 * i + 1] = (memory_block){.first = i, .last = i + 1, .size = 1000 * (1 + i % 3)};
    }
    uint64_t steps = lay_out(2 * n, b, size);
    free(b);
    return steps;
}

static void long_plans_are_laid_out_in_proportion(void) {
    int64_t few, many;
    uint64_t a = steps_of(1000, &few), b = steps_of(16000, &many);
    if (b > 16 * 3 * a)
        FAIL("%llu steps for 2000 blocks, %llu for 32000", (unsigned long long)a,
             (unsigned long long)b);
    CHECK(many <= 16 * few);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn_ctx qn = {0};
    heap_open(&qn.heap, NULL, &qn);
    memory = &qn.heap;
    RUN(blocks_that_live_together_lie_apart_and_low);
    RUN(long_plans_are_laid_out_in_proportion);
    return test_end();
}
