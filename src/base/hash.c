/* hash.c - hashing of bytes and words, and the set of ids that lookup tables are made of.
 *
 * The hash. Sixteen bytes are two words; each is offset by a key and the two are multiplied to 128
 * bits, whose halves are xored: every bit of either word reaches the whole result. Four such lanes
 * run side by side over 64-byte steps, since one multiplication's latency is what limits a single
 * chain. A lane's sum is carried on by rotating and multiplying by an odd number, which is
 * invertible, so no block of input can make it forget what came before. Values are the same on
 * every little-endian machine; they are for tables and caches, not against an adversary.
 *
 * The set. Linear probing over a power of two of slots, of which at most half are taken: a longer
 * probe is a branch that nobody foresees. A slot keeps the id, 0 where there is none, and 32 bits
 * of its hash beside it, for each line of the cache that a probe touches costs as much as all the
 * rest; so growing needs no access to the things themselves, and most misses are settled without
 * calling `same`. Where an entry goes those behind it move up, so no slot is ever dead. */
#include "base/base.h"

__extension__ typedef unsigned __int128 uint128;

/* Odd, with their bits spread evenly: fractional parts of square roots of 2, 3, 5, 7, 11. */
static const uint64_t key[5] = {0x6a09e667f3bcc909u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu,
                                0xa54ff53a5f1d36f1u, 0x510e527fade682d1u};

static inline uint64_t rotate(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

static inline uint64_t fold(uint64_t a, uint64_t b) {
    uint128 product = (uint128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t word(const unsigned char *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* One lane takes in sixteen bytes. */
static inline uint64_t lane(uint64_t sum, uint64_t a, uint64_t b, int i) {
    return (rotate(sum, 29) * key[4]) ^ fold(a ^ key[i], b ^ key[(i + 1) & 3]);
}

/* An invertible scramble: every input bit changes every output bit with probability near 1/2. */
static inline uint64_t finish(uint64_t x) {
    x = (x ^ (x >> 32)) * key[0];
    x = (x ^ (x >> 29)) * key[3];
    return x ^ (x >> 32);
}

uint64_t hash_mix(uint64_t a, uint64_t b) {
    return finish((a ^ key[1]) * key[4] + rotate(finish(b + key[2]), 23));
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t s0 = hash_mix(seed, n), left = n;
    if (left >= 64) {
        uint64_t s1 = s0 ^ key[1], s2 = s0 ^ key[2], s3 = s0 ^ key[3];
        for (; left >= 64; left -= 64, p += 64) {
            s0 = lane(s0, word(p), word(p + 8), 0);
            s1 = lane(s1, word(p + 16), word(p + 24), 1);
            s2 = lane(s2, word(p + 32), word(p + 40), 2);
            s3 = lane(s3, word(p + 48), word(p + 56), 3);
        }
        s0 = lane(lane(s0, s1, s2, 1), s2, s3, 2);
    }
    for (; left >= 16; left -= 16, p += 16) s0 = lane(s0, word(p), word(p + 8), 3);
    if (left) {
        unsigned char rest[16] = {0};
        memcpy(rest, p, left);
        s0 = lane(s0, word(rest), word(rest + 8), 2);
    }
    return finish(s0);
}

/* ---- idset ---------------------------------------------------------------------------------- */

enum { IDSET_FIRST = 16 };
static const uint32_t idset_most = 1u << 31;

static inline uint32_t idset_short(uint64_t hash) {
    return (uint32_t)(hash ^ (hash >> 32));
}

void idset_open(idset *s, heap *h) {
    *s = (idset){.h = h};
}

uint32_t idset_find(const idset *s, uint64_t hash, idset_same same, const void *wanted,
                    const void *user) {
    if (!s->cap) return 0;
    uint32_t mask = s->cap - 1, mine = idset_short(hash);
    for (uint32_t i = mine & mask; s->slot[i].id; i = (i + 1) & mask)
        if (s->slot[i].hash == mine && same(wanted, s->slot[i].id, user)) return s->slot[i].id;
    return 0;
}

static void idset_put(const idset *s, struct idset_slot entry) {
    uint32_t mask = s->cap - 1, i = entry.hash & mask;
    while (s->slot[i].id) i = (i + 1) & mask;
    s->slot[i] = entry;
}

/* Move the entries to a table of twice the size; the old one goes last: raising loses nothing. */
static void idset_grow(idset *s) {
    if (s->cap == idset_most)
        raise_error(s->h->ctx, QN_ERANGE, "more than 2^30 entries in a table");
    idset fresh = {.h = s->h, .cap = s->cap ? 2 * s->cap : IDSET_FIRST, .count = s->count};
    fresh.slot = heap_zeroed(s->h, (size_t)fresh.cap * sizeof *fresh.slot);
    for (uint32_t i = 0; i < s->cap; i++)
        if (s->slot[i].id) idset_put(&fresh, s->slot[i]);
    idset_free(s);
    *s = fresh;
}

void idset_add(idset *s, uint64_t hash, uint32_t id) {
    if (s->count >= s->cap / 2) idset_grow(s);
    idset_put(s, (struct idset_slot){id, idset_short(hash)});
    s->count++;
}

/* Entries behind it that were put there because its slot was taken move up. */
void idset_remove(idset *s, uint64_t hash, uint32_t id) {
    if (!s->cap) return;
    uint32_t mask = s->cap - 1, hole = idset_short(hash) & mask;
    while (s->slot[hole].id != id) {
        if (!s->slot[hole].id) return;
        hole = (hole + 1) & mask;
    }
    for (uint32_t i = (hole + 1) & mask; s->slot[i].id; i = (i + 1) & mask) {
        if (((i - s->slot[i].hash) & mask) < ((i - hole) & mask)) continue;
        s->slot[hole] = s->slot[i];
        hole = i;
    }
    s->slot[hole] = (struct idset_slot){0, 0};
    s->count--;
}

void idset_free(idset *s) {
    heap_free(s->h, s->slot, (size_t)s->cap * sizeof *s->slot);
    *s = (idset){.h = s->h};
}

void idset_cleanup(void *s) {
    idset_free(s);
}
