/* test_hash.c - hashes by their statistics, the id set against a naive model beside it. */
#include "books.h"

/* ---- hash ------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t repeats(uint64_t *values, size_t n) {
    qsort(values, n, sizeof *values, by_value);
    int64_t found = 0;
    for (size_t i = 1; i < n; i++) found += values[i] == values[i - 1];
    return found;
}

/* Among 2^18 values of a good 64-bit hash a repeat has probability 2^-29, among their low or high
 * halves the expected number of repeats is 2^35 / 2^32 = 8. */
static void check_spread(uint64_t *values, size_t n, const char *what) {
    uint64_t *half = malloc(n * sizeof *half);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < n; i++) half[i] = side ? values[i] >> 32 : values[i] & UINT32_MAX;
        int64_t found = repeats(half, n);
        if (found > 40) FAIL("%s: %lld repeats in half %d", what, (long long)found, side);
    }
    free(half);
    if (repeats(values, n)) FAIL("%s: values repeat", what);
}

static void hashes_of_structured_keys_spread(void) {
    enum { N = 1 << 18 };
    uint64_t *values = malloc(N * sizeof *values);
    for (uint32_t i = 0; i < N; i++) values[i] = hash_bytes(&i, sizeof i, 0);
    check_spread(values, N, "counting");
    for (uint32_t i = 0; i < N; i++) {
        uint64_t words[8] = {0, i % 64, 0, i / 64 % 64, 0, 0, i / 4096, 0};
        values[i] = hash_bytes(words, sizeof words, 0);
    }
    check_spread(values, N, "few small words");
    static const char zeroes[N] = {0};
    for (uint32_t i = 0; i < 2048; i++) values[i] = hash_bytes(zeroes, i, 0);
    CHECK_INT(repeats(values, 2048), 0);
    for (uint32_t i = 0; i < N; i++) values[i] = hash_bytes("seeded", 6, i);
    check_spread(values, N, "seeds");
    for (uint32_t i = 0; i < N; i++) values[i] = hash_mix(i % 512, i / 512);
    check_spread(values, N, "mixing");
    free(values);
}

/* Flipping any one input bit flips each output bit about half the time. */
static void hash_lets_every_bit_reach_every_bit(void) {
    static const int lengths[] = {1, 7, 8, 16, 24, 63, 64, 100, 200};
    enum { ROUNDS = 400 };
    uint64_t seed = 5;
    for (size_t l = 0; l < COUNT_OF(lengths); l++) {
        int n = lengths[l];
        double worst = 0.5;
        for (int bit = 0; bit < n * 8; bit++) {
            int flips[64] = {0};
            for (int round = 0; round < ROUNDS; round++) {
                unsigned char text[200];
                for (int i = 0; i < n; i++) text[i] = (unsigned char)test_rand(&seed);
                uint64_t before = hash_bytes(text, (size_t)n, 0);
                text[bit / 8] ^= (unsigned char)(1 << bit % 8);
                uint64_t changed = before ^ hash_bytes(text, (size_t)n, 0);
                for (int o = 0; o < 64; o++) flips[o] += (int)(changed >> o & 1);
            }
            for (int o = 0; o < 64; o++) {
                double rate = (double)flips[o] / (double)ROUNDS;
                if (fabs(rate - 0.5) > fabs(worst - 0.5)) worst = rate;
            }
        }
        /* 102,400 rates of 400 trials at most, deviation 0.025: beyond 6.4 deviations never. */
        if (fabs(worst - 0.5) > 0.16) FAIL("%d bytes: a bit flips with rate %.3f", n, worst);
    }
}

static void hash_depends_on_bytes_only(void) {
    char room[300];
    uint64_t seed = 3;
    for (int n = 0; n < 200; n++) {
        char text[200];
        for (int i = 0; i < n; i++) text[i] = (char)test_rand(&seed);
        uint64_t value = hash_bytes(text, (size_t)n, 9);
        memset(room, n, sizeof room);
        memcpy(room + n % 17, text, (size_t)n);
        CHECK(hash_bytes(room + n % 17, (size_t)n, 9) == value);
    }
    CHECK(hash_bytes(NULL, 0, 0) != hash_bytes(NULL, 0, 1));
    CHECK(hash_mix(1, 2) != hash_mix(2, 1));
    CHECK(hash_mix(0, 0) != 0 || hash_mix(0, 1) != 0);
}

/* Not a test of speed, which depends on the machine: printed for the reader. */
static void hash_speed_is_printed(void) {
    enum { SIZE = 1 << 20, TIMES = 200 };
    char *data = calloc(1, SIZE);
    uint64_t sum = 0;
    double start = clock_seconds();
    for (int i = 0; i < TIMES; i++) sum ^= hash_bytes(data, SIZE, sum);
    double seconds = clock_seconds() - start;
    CHECK(seconds > 0);
    printf("hash: %.1f GB/s (%d)\n", (double)SIZE * (double)TIMES / seconds * 1e-9, (int)(sum & 1));
    free(data);
}

/* ---- idset ----------------------------------------------------------------------------------- */

/* The model: thing `id` has key keys[id]; hashes collide on purpose, being the key modulo `spread`.
 */
typedef struct model {
    uint32_t keys[4096];
    bool in[4096];
    uint32_t count;
} model;

static bool same_key(const void *key, uint32_t id, const void *user) {
    return ((const model *)user)->keys[id] == *(const uint32_t *)key;
}

static uint32_t taken_slots(const idset *s) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < s->cap; i++) taken += s->slot[i].id != 0;
    return taken;
}

static void idset_against_model(uint64_t seed, uint32_t things, uint64_t spread) {
    model *m = calloc(1, sizeof *m);
    bench b;
    bench_open(&b);
    idset s;
    idset_open(&s, &b.qn.heap);
    for (uint32_t id = 1; id < things; id++) m->keys[id] = id * 7919;
    for (int step = 0; step < 40000; step++) {
        uint32_t id = 1 + (uint32_t)test_below(&seed, things - 1);
        uint64_t hash = spread ? m->keys[id] % spread : hash_mix(m->keys[id], 0);
        bool growing = step / 4000 % 2 == 0; /* phases of mostly adding and mostly removing */
        uint32_t found = idset_find(&s, hash, same_key, &m->keys[id], m);
        if (found != (m->in[id] ? id : 0)) {
            FAIL("step %d: found %u for %u", step, found, id);
            break;
        }
        if (!m->in[id] && (growing || test_below(&seed, 8) == 0)) {
            idset_add(&s, hash, id);
            m->in[id] = true;
            m->count++;
        } else if (m->in[id] && (!growing || test_below(&seed, 8) == 0)) {
            idset_remove(&s, hash, id);
            m->in[id] = false;
            m->count--;
        } else if (!m->in[id]) {
            idset_remove(&s, hash, id); /* not there: no effect */
        }
        if (s.count != m->count) FAIL("step %d: count %u, expected %u", step, s.count, m->count);
        if (step % 500 == 0) CHECK_INT(s.count, taken_slots(&s));
        if (s.count * 2 > s.cap) FAIL("step %d: too full", step);
    }
    for (uint32_t id = 1; id < things; id++) {
        uint64_t hash = spread ? m->keys[id] % spread : hash_mix(m->keys[id], 0);
        CHECK_INT(idset_find(&s, hash, same_key, &m->keys[id], m), m->in[id] ? id : 0);
    }
    CHECK(s.cap <= 4096 * 4);
    idset_free(&s);
    bench_check(&b);
    free(m);
}

static void idset_agrees_with_a_model(void) {
    idset_against_model(1, 4096, 0);
    idset_against_model(2, 100, 0);
    idset_against_model(3, 300, 5); /* nearly everything collides */
    idset_against_model(4, 12, 1);
}

static void idset_does_not_grow_by_replacing(void) {
    bench b;
    bench_open(&b);
    idset s;
    idset_open(&s, &b.qn.heap);
    for (uint32_t id = 1; id <= 200000; id++) {
        idset_add(&s, hash_mix(id, 1), id);
        if (id > 10) idset_remove(&s, hash_mix(id - 10, 1), id - 10);
    }
    CHECK_INT(s.count, 10);
    CHECK(s.cap <= 64);
    idset_free(&s);
    bench_check(&b);
}

static void idset_survives_raising(void) {
    static model m;
    bench b;
    bench_open(&b);
    static idset s;
    idset_open(&s, &b.qn.heap);
    volatile int raised = 0;
    for (volatile uint32_t id = 1; id < 4000; id++) {
        m.keys[id] = id;
        for (volatile int attempt = 0; attempt < 2; attempt++) {
            guard g;
            guard_open(&b.qn.heap, &g);
            if (setjmp(g.at) == 0) {
                b.qn.heap.fail_at = attempt ? 0 : b.qn.heap.requests + 1;
                idset_add(&s, hash_mix(id, 0), id);
                attempt = 2;
            } else {
                raised++;
                CHECK_INT(s.count, id - 1);
            }
            guard_close(&b.qn.heap, &g);
        }
        CHECK_INT(s.count, id);
    }
    b.qn.heap.fail_at = 0;
    CHECK(raised >= 5);
    for (uint32_t id = 1; id < 4000; id++)
        CHECK_INT(idset_find(&s, hash_mix(id, 0), same_key, &id, &m), id);
    idset_free(&s);
    bench_check(&b);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(hashes_of_structured_keys_spread);
    RUN(hash_lets_every_bit_reach_every_bit);
    RUN(hash_depends_on_bytes_only);
    RUN(hash_speed_is_printed);
    RUN(idset_agrees_with_a_model);
    RUN(idset_does_not_grow_by_replacing);
    RUN(idset_survives_raising);
    return test_end();
}
