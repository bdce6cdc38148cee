/* test_plan.c - memory layout by properties: blocks alive together never overlap, the arena holds
 * every block, and its size stays near the largest sum of bytes alive at once. */
#include "plan/plan.h"
#include "test.h"

static qn_ctx *qn;

static int64_t up(int64_t n) {
    return (n + 63) / 64 * 64;
}

static int64_t lower_bound(uint32_t n, const memory_block *b, uint32_t steps) {
    int64_t best = 0;
    for (uint32_t t = 0; t < steps; t++) {
        int64_t sum = 0;
        for (uint32_t i = 0; i < n; i++)
            if (b[i].first <= t && t <= b[i].last) sum += up(b[i].size);
        if (sum > best) best = sum;
    }
    return best;
}

static void check_layout(uint32_t n, memory_block *b, int64_t total) {
    for (uint32_t i = 0; i < n; i++) {
        CHECK(b[i].offset >= 0 && b[i].offset % 64 == 0);
        CHECK(b[i].offset + b[i].size <= total);
        for (uint32_t j = 0; j < i; j++) {
            bool together = b[i].first <= b[j].last && b[j].first <= b[i].last;
            bool apart =
                b[i].offset + b[i].size <= b[j].offset || b[j].offset + b[j].size <= b[i].offset;
            if (together && !apart && b[i].size && b[j].size) {
                FAIL("blocks %u and %u overlap", i, j);
                return;
            }
        }
    }
}

static void random_lifetimes_never_overlap_and_stay_tight(void) {
    uint64_t seed = 7;
    int64_t used = 0, bound = 0;
    for (int round = 0; round < 300; round++) {
        memory_block b[96];
        uint32_t n = (uint32_t)test_below(&seed, 96), steps = 1 + (uint32_t)test_below(&seed, 120);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t first = (uint32_t)test_below(&seed, steps);
            uint32_t last = first + (uint32_t)test_below(&seed, 1 + (steps - first) / 4);
            int64_t size = test_below(&seed, 8) ? test_below(&seed, 100000) : 0;
            b[i] = (memory_block){first, last < steps ? last : steps - 1, size, -1};
        }
        arena a;
        arena_open(&a, &qn->heap);
        uint64_t compared = 0;
        int64_t total = memory_layout(&a, n, b, &compared);
        arena_free(&a);
        check_layout(n, b, total);
        used += total;
        bound += lower_bound(n, b, steps);
    }
    printf("layout / lower bound: %.4f\n", (double)used / (double)bound);
    CHECK((double)used <= 1.15 * (double)bound);
}

static void blocks_that_follow_each_other_share_one_place(void) {
    memory_block b[10];
    for (uint32_t i = 0; i < 10; i++) b[i] = (memory_block){i * 2, i * 2 + 1, 4096, -1};
    arena a;
    arena_open(&a, &qn->heap);
    uint64_t compared = 0;
    CHECK_INT(memory_layout(&a, 10, b, &compared), 4096);
    arena_free(&a);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    qn = qn_open(NULL);
    CHECK(qn != NULL);
    if (qn) {
        RUN(random_lifetimes_never_overlap_and_stay_tight);
        RUN(blocks_that_follow_each_other_share_one_place);
    }
    qn_close(qn);
    return test_end();
}
