/* shuffle.c - a random permutation of [0, n) without a list of it.
 *
 * A Feistel network of 8 rounds permutes the numbers of as many bits as n - 1 has: one half of
 * the bits is changed by a hash of the other, in turns, which can be undone whatever the hash
 * is, so no two numbers meet. Where what comes out is not below n, it goes in again, and since
 * the network is one cycle through all of its numbers from each, that ends at a number below n,
 * another for each (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). The domain
 * is less than twice as large, so that is less than twice in the mean. The keys of the rounds
 * follow from seed and epoch. */
#include "data/data.h"

enum { ROUNDS = COUNT_OF(((shuffle *)0)->key) };

/* The finalizer of SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void shuffle_open(shuffle *s, uint64_t n, uint64_t seed, uint64_t epoch) {
    int bits = n > 1 ? 64 - __builtin_clzll(n - 1) : 0;
    *s = (shuffle){.n = n, .low = bits / 2, .high = bits - bits / 2};
    uint64_t state = mixed(seed + 0x9e3779b97f4a7c15u) ^ epoch;
    for (int i = 0; i < ROUNDS; i++) s->key[i] = mixed(state += 0x9e3779b97f4a7c15u);
}

static uint64_t permuted(const shuffle *s, uint64_t x) {
    uint64_t low_mask = ((uint64_t)1 << s->low) - 1, high_mask = ((uint64_t)1 << s->high) - 1;
    uint64_t low = x & low_mask, high = x >> s->low;
    for (int i = 0; i < ROUNDS; i += 2) {
        high ^= mixed(low + s->key[i]) & high_mask;
        low ^= mixed(high + s->key[i + 1]) & low_mask;
    }
    return high << s->low | low;
}

uint64_t shuffle_at(const shuffle *s, uint64_t i) {
    if (s->n < 2) return i;
    do i = permuted(s, i);
    while (i >= s->n);
    return i;
}
