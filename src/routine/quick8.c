/* quick8.c - quicksort by vectors of eight words, where the processor has AVX2: see quick.h.
 *
 * There is no instruction that packs a vector, but one that permutes it as another vector says, and
 * of the 256 outcomes of a comparison a table has the order that puts words below the pivot first.
 * The whole vector is stored twice: behind the words below, which never overtakes what is read, and
 * in front of the others in the spare array, where they stay. So no branch depends on a word.
 *
 * Runs in registers are sorted by columns: lane by lane by Batcher's network, which moves nothing
 * between lanes; then lanes are merged with their neighbours, two, four and all eight. Words in
 * order lie along lanes, lane after lane, until they are stored by transposing. */
#if defined(__x86_64__)

#include "routine/order.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,popcnt")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum { LANES = 8, REGISTERS = 16, BASE = LANES * REGISTERS, APART = true };
enum { MANY_WORDS = 1 << 17, MOST_WORDS = 1 << 19, MOST_ROW = MOST_WORDS };
typedef __m256i vector;

/* Loops over registers are to be none. */
#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Groups of two, four or eight lanes turned around. */
INLINE vector mirrored(vector x, const int group) {
    if (group == 2) return _mm256_shuffle_epi32(x, 0xb1);
    if (group == 4) return _mm256_shuffle_epi32(x, 0x1b);
    return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

/* The lower half of each group from one, the upper half from the other. */
INLINE vector halves(vector lower, vector upper, const int group) {
    if (group == 2) return _mm256_blend_epi32(lower, upper, 0xaa);
    if (group == 4) return _mm256_blend_epi32(lower, upper, 0xcc);
    return _mm256_blend_epi32(lower, upper, 0xf0);
}

/* One stage: each lane with its partner in the other half of its group, of which the upper takes
 * the larger. */
INLINE vector stage(vector x, vector partner, const int group) {
    return halves(_mm256_min_epu32(x, partner), _mm256_max_epu32(x, partner), group);
}

/* Partners at distances 2 and 1. */
INLINE vector merged_at2(vector x) {
    return stage(x, _mm256_shuffle_epi32(x, 0x4e), 4);
}
INLINE vector merged_at1(vector x) {
    return stage(x, mirrored(x, 2), 2);
}

/* Any eight in order. */
INLINE vector sorted(vector x) {
    x = merged_at1(x);
    x = merged_at1(stage(x, mirrored(x, 4), 4));
    return merged_at1(merged_at2(stage(x, mirrored(x, 8), 8)));
}

/* ---- in registers ---------------------------------------------------------------------------- */

/* The smaller of both in *a, the larger in *b, lane by lane. */
INLINE void exchange(vector *a, vector *b) {
    vector less = _mm256_min_epu32(*a, *b);
    *b = _mm256_max_epu32(*a, *b);
    *a = less;
}

/* Batcher's networks by odd-even merging: of eight, and what makes one of two sorted eights. */
/* clang-format off */
#define NETWORK_OF8(X)                                                                             \
    X(0, 1) X(2, 3) X(4, 5) X(6, 7) X(0, 2) X(1, 3) X(4, 6) X(5, 7) X(1, 2) X(5, 6)                \
    X(0, 4) X(1, 5) X(2, 6) X(3, 7) X(2, 4) X(3, 5) X(1, 2) X(3, 4) X(5, 6)
#define NETWORK_OF_EIGHTS(X)                                                                       \
    X(0, 8) X(1, 9) X(2, 10) X(3, 11) X(4, 12) X(5, 13) X(6, 14) X(7, 15)                          \
    X(4, 8) X(5, 9) X(6, 10) X(7, 11) X(2, 4) X(3, 5) X(6, 8) X(7, 9) X(10, 12) X(11, 13)          \
    X(1, 2) X(3, 4) X(5, 6) X(7, 8) X(9, 10) X(11, 12) X(13, 14)
/* clang-format on */
#define EXCHANGE(i, j) exchange(&v[i], &v[j]);

/* Each lane of so many registers. */
INLINE void sort_lanes(vector *v, const int registers) {
    NETWORK_OF8(EXCHANGE)
    if (registers == 8) return;
    v += 8;
    NETWORK_OF8(EXCHANGE)
    v -= 8;
    NETWORK_OF_EIGHTS(EXCHANGE)
}

/* Groups of lanes, whose halves are sorted along their lanes, to sorted ones: the upper half is
 * mirrored, in lanes and registers, so that both together go up and down; then partners are at
 * distances of lanes and of registers. */
INLINE void merge_lanes(vector *v, const int registers, const int group) {
    UNROLLED
    for (int i = 0; i < registers / 2; i++) {
        vector x = v[i], y = mirrored(v[registers - 1 - i], group);
        vector less = _mm256_min_epu32(x, y), more = _mm256_max_epu32(x, y);
        v[i] = halves(less, more, group);
        v[registers - 1 - i] = mirrored(halves(more, less, group), group);
    }
    UNROLLED
    for (int i = 0; i < registers; i++) {
        if (group > 4) v[i] = merged_at2(v[i]);
        if (group > 2) v[i] = merged_at1(v[i]);
    }
    UNROLLED
    for (int distance = registers / 2; distance; distance /= 2) {
        UNROLLED
        for (int i = 0; i < registers; i++)
            if (!(i & distance)) exchange(&v[i], &v[i + distance]);
    }
}

/* Lanes of eight registers to registers. */
INLINE void transpose(vector *v) {
    vector two[8], four[8];
    UNROLLED
    for (int i = 0; i < 8; i += 2) {
        two[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
        two[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    }
    UNROLLED
    for (int i = 0; i < 8; i += 4) {
        four[i] = _mm256_unpacklo_epi64(two[i], two[i + 2]);
        four[i + 1] = _mm256_unpackhi_epi64(two[i], two[i + 2]);
        four[i + 2] = _mm256_unpacklo_epi64(two[i + 1], two[i + 3]);
        four[i + 3] = _mm256_unpackhi_epi64(two[i + 1], two[i + 3]);
    }
    UNROLLED
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(four[i], four[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(four[i], four[i + 4], 0x31);
    }
}

/* Eight or sixteen vectors; each is code once, for it is long. A lane of sixteen registers is two
 * vectors, here one in each half. */
TARGET static __attribute__((noinline)) void sort_eight(vector *v) {
    sort_lanes(v, 8);
    merge_lanes(v, 8, 2);
    merge_lanes(v, 8, 4);
    merge_lanes(v, 8, 8);
    transpose(v);
}

TARGET static __attribute__((noinline)) void sort_sixteen(vector *v) {
    sort_lanes(v, 16);
    merge_lanes(v, 16, 2);
    merge_lanes(v, 16, 4);
    merge_lanes(v, 16, 8);
    transpose(v);
    transpose(v + 8);
}

/* Ones in the first lanes, `left` of them. */
INLINE vector lanes_left(int64_t left) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Where the vector i in order is then. */
INLINE int place_of(int i, int used) {
    return used == 8 ? i : i / 2 + i % 2 * 8;
}

/* At most BASE words; those beyond n count as the largest. */
TARGET static void sort_base(const uint32_t *from, uint32_t *to, int64_t n) {
    vector v[REGISTERS];
    const vector last = lanes_left(n % LANES), ones = _mm256_set1_epi32(-1);
    int used = n > 8 * LANES ? 16 : 8, whole = (int)(n / LANES);
    for (int i = 0; i < whole; i++) v[i] = _mm256_loadu_si256((const vector *)from + i);
    for (int i = whole; i < used; i++) v[i] = _mm256_xor_si256(lanes_left(n - i * LANES), ones);
    if (n % LANES) {
        vector rest = _mm256_maskload_epi32((const int *)from + whole * LANES, last);
        v[whole] = _mm256_or_si256(v[whole], rest);
    }
    if (used == 16)
        sort_sixteen(v);
    else
        sort_eight(v);
    for (int i = 0; i < whole; i++) _mm256_storeu_si256((vector *)to + i, v[place_of(i, used)]);
    if (n % LANES)
        _mm256_maskstore_epi32((int *)to + whole * LANES, last, v[place_of(whole, used)]);
}

/* ---- at a pivot ------------------------------------------------------------------------------ */

/* The least of the upper half of two vectors, which one in order and one mirrored give lane by
 * lane. */
TARGET static uint32_t middle(const uint32_t *word) {
    vector x = sorted(_mm256_loadu_si256((const vector *)word));
    vector y = sorted(_mm256_loadu_si256((const vector *)word + 1));
    vector upper = _mm256_max_epu32(x, mirrored(y, 8));
    upper = _mm256_min_epu32(upper, mirrored(upper, 8));
    upper = _mm256_min_epu32(upper, mirrored(upper, 4));
    upper = _mm256_min_epu32(upper, mirrored(upper, 2));
    return (uint32_t)_mm256_cvtsi256_si32(upper);
}

/* Of each mask of lanes: the lanes without a bit, then those with one, each in a byte. */
#define ONES_BELOW(m, lane) __builtin_popcount((m) & ((1u << (lane)) - 1))
#define PLACE(m, lane)                                                                             \
    ((m) >> (lane)&1 ? 8 - __builtin_popcount(m) + ONES_BELOW(m, lane) : (lane)-ONES_BELOW(m, lane))
#define LANE(m, lane) (uint64_t)(lane) << 8 * PLACE(m, lane)
#define ORDER(m)                                                                                   \
    LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7)
#define ORDERS4(m)  ORDER(m), ORDER((m) + 1), ORDER((m) + 2), ORDER((m) + 3)
#define ORDERS16(m) ORDERS4(m), ORDERS4((m) + 4), ORDERS4((m) + 8), ORDERS4((m) + 12)
#define ORDERS64(m) ORDERS16(m), ORDERS16((m) + 16), ORDERS16((m) + 32), ORDERS16((m) + 48)
static const uint64_t lower_first[256] = {ORDERS64(0u), ORDERS64(64u), ORDERS64(128u),
                                          ORDERS64(192u)};

/* Those above fill the spare array from its end, where there is room for all that was read. `back`
 * counts them down: so far behind the next to be read is where the next below goes. */
TARGET static int64_t divided(uint32_t *a, uint32_t *spare, int64_t n, uint32_t at) {
    const vector pivot = _mm256_set1_epi32((int)at);
    int64_t i = 0, back = 0;
    for (; i + LANES <= n; i += LANES) {
        vector x = _mm256_loadu_si256((const vector *)(a + i));
        vector upper = _mm256_cmpeq_epi32(_mm256_max_epu32(x, pivot), x);
        unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(upper));
        __m128i order = _mm_loadl_epi64((const __m128i *)&lower_first[mask]);
        x = _mm256_permutevar8x32_epi32(x, _mm256_cvtepu8_epi32(order));
        _mm256_storeu_si256((vector *)(a + i + back), x);
        _mm256_storeu_si256((vector *)(spare + n - LANES + back), x);
        back -= __builtin_popcount(mask);
    }
    for (; i < n; i++) {
        uint32_t word = a[i];
        a[i + back] = word;
        spare[n - 1 + back] = word;
        back -= word >= at;
    }
    return n + back;
}

#define SORT quick_sort32_by8
#include "routine/quick.h"

#endif
