/* quick16.c - quicksort by vectors of sixteen words, where the processor has AVX-512: see quick.h.
 *
 * A vector is packed from both sides, words below the pivot to the left end, the others to the
 * right (Gueron and Krasnov 2016). Reading and writing share the array: two vectors are held back
 * at the start, so that there is always room for one where the next is written. Runs are sorted in
 * registers by bitonic merging, where each stage is a minimum and a maximum of words at a distance
 * (Batcher 1968). */
#if defined(__x86_64__)

#include "routine/order.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum { LANES = 16, REGISTERS = 16, BASE = LANES * REGISTERS, APART = false };
enum { MANY_WORDS = 1 << 17, MOST_WORDS = 1 << 21, MOST_ROW = INT32_MAX };
typedef __m512i vector;

/* Loops over registers are to be none. */
#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

/* ---- in registers ---------------------------------------------------------------------------- */

/* One stage: each lane with its partner, of which those in `upper` take the larger. */
INLINE vector stage(vector x, vector partner, __mmask16 upper) {
    return _mm512_mask_max_epu32(_mm512_min_epu32(x, partner), upper, x, partner);
}

INLINE vector reversed(vector x) {
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), x);
}

/* Partners at distances 8, 4, 2 and 1. */
INLINE vector merged_at8(vector x) {
    return stage(x, _mm512_shuffle_i64x2(x, x, 0x4e), 0xff00);
}
INLINE vector merged_at4(vector x) {
    return stage(x, _mm512_shuffle_i64x2(x, x, 0xb1), 0xf0f0);
}
INLINE vector merged_at2(vector x) {
    return stage(x, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0x4e), 0xcccc);
}
INLINE vector merged_at1(vector x) {
    return stage(x, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0xb1), 0xaaaa);
}

/* A sequence that goes up and down, or down and up, in order. */
INLINE vector merged(vector x) {
    return merged_at1(merged_at2(merged_at4(merged_at8(x))));
}

/* Any sixteen: pairs, fours and eights are mirrored, then merged. */
INLINE vector sorted(vector x) {
    x = merged_at1(x);
    x = stage(x, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0x1b), 0xcccc);
    x = merged_at1(x);
    const vector mirror8 = _mm512_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
    x = stage(x, _mm512_permutexvar_epi32(mirror8, x), 0xf0f0);
    x = merged_at1(merged_at2(x));
    x = stage(x, reversed(x), 0xff00);
    return merged_at1(merged_at2(merged_at4(x)));
}

/* The smaller of both in *a, the larger in *b, lane by lane. */
INLINE void exchange(vector *a, vector *b) {
    vector less = _mm512_min_epu32(*a, *b);
    *b = _mm512_max_epu32(*a, *b);
    *a = less;
}

/* Two sorted halves of `half` vectors each to one: the second mirrored, then at distances. */
INLINE void merge_halves(vector *v, const int half) {
    UNROLLED
    for (int i = 0; i < half; i++) {
        vector other = reversed(v[2 * half - 1 - i]);
        exchange(&v[i], &other);
        v[2 * half - 1 - i] = other;
    }
    /* the mirrored ones went up and down: each half is bitonic */
    UNROLLED
    for (int distance = half / 2; distance; distance /= 2) {
        UNROLLED
        for (int i = 0; i < 2 * half; i++)
            if (!(i & distance)) exchange(&v[i], &v[i + distance]);
    }
    UNROLLED
    for (int i = 0; i < 2 * half; i++) v[i] = merged(v[i]);
}

INLINE __mmask16 lanes_left(int64_t left) {
    return (__mmask16)(left >= LANES ? 0xffffu : left <= 0 ? 0u : (1u << left) - 1);
}

/* Sixteen words a vector, in order across 4, 8 or 16 of them; each is code once, for it is long. */
TARGET static __attribute__((noinline)) void sort_four(vector *v) {
    UNROLLED
    for (int i = 0; i < 4; i++) v[i] = sorted(v[i]);
    merge_halves(v, 1);
    merge_halves(v + 2, 1);
    merge_halves(v, 2);
}

TARGET static __attribute__((noinline)) void sort_eight(vector *v) {
    sort_four(v);
    sort_four(v + 4);
    merge_halves(v, 4);
}

TARGET static __attribute__((noinline)) void sort_sixteen(vector *v) {
    sort_eight(v);
    sort_eight(v + 8);
    merge_halves(v, 8);
}

/* At most BASE words; those beyond n count as the largest. */
TARGET static void sort_base(const uint32_t *from, uint32_t *to, int64_t n) {
    vector v[REGISTERS];
    int used = n > 8 * LANES ? 16 : n > 4 * LANES ? 8 : 4;
    for (int i = 0; i < used; i++)
        v[i] = _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), lanes_left(n - (int64_t)i * LANES),
                                       from + i * LANES);
    if (used == 16)
        sort_sixteen(v);
    else if (used == 8)
        sort_eight(v);
    else
        sort_four(v);
    for (int i = 0; i < used; i++)
        _mm512_mask_storeu_epi32(to + i * LANES, lanes_left(n - (int64_t)i * LANES), v[i]);
}

/* ---- at a pivot ------------------------------------------------------------------------------ */

/* The ninth of sixteen words. */
TARGET static uint32_t middle(const uint32_t *word) {
    uint32_t up[LANES];
    _mm512_storeu_si512(up, sorted(_mm512_loadu_si512(word)));
    return up[LANES / 2];
}

/* The words of x below the pivot to `left`, which moves on, the others to in front of `right`,
 * which moves back. A whole vector is written at the left. */
INLINE void divide(vector x, vector pivot, uint32_t **left, uint32_t **right) {
    __mmask16 upper = _mm512_cmpge_epu32_mask(x, pivot);
    int many = __builtin_popcount(upper);
    vector low = _mm512_maskz_compress_epi32((__mmask16)~upper, x);
    vector high = _mm512_maskz_compress_epi32(upper, x);
    _mm512_storeu_si512(*left, low);
    *left += LANES - many;
    *right -= many;
    _mm512_mask_storeu_epi32(*right, (__mmask16)((1u << many) - 1), high);
}

/* Reading takes from the side where less room is left. */
TARGET static int64_t divided(uint32_t *a, uint32_t *spare, int64_t n, uint32_t at) {
    const vector pivot = _mm512_set1_epi32((int)at);
    uint32_t *left = a, *right = a + n, *lo = a + LANES, *hi = a + n - LANES;
    vector first = _mm512_loadu_si512(a), last = _mm512_loadu_si512(hi);
    uint32_t rest[LANES];
    (void)spare;
    while (hi - lo >= LANES) {
        vector x;
        if (lo - left <= right - hi) {
            x = _mm512_loadu_si512(lo);
            lo += LANES;
        } else {
            hi -= LANES;
            x = _mm512_loadu_si512(hi);
        }
        divide(x, pivot, &left, &right);
    }
    int64_t odd = hi - lo;
    for (int64_t i = 0; i < odd; i++) rest[i] = lo[i];
    /* all is read, and between left and right there is room for what is held back */
    divide(first, pivot, &left, &right);
    for (int64_t i = 0; i < odd; i++) {
        if (rest[i] >= at)
            *--right = rest[i];
        else
            *left++ = rest[i];
    }
    divide(last, pivot, &left, &right);
    return left - a;
}

#define SORT quick_sort32_by16
#include "routine/quick.h"

#endif
