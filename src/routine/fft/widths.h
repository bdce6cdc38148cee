/* widths.h - the transforms of one dtype by each width of vectors that there is: included by f32.c
 * and f64.c, which say REAL, SHORT_LANES, LONG_LANES and ROW. */
#define TARGET
#define LANES    1
#define OF(name) ROW(single_##name)
#include "routine/fft/pass.h"
#undef LANES
#undef OF

#if !defined(__x86_64__) && !defined(ROUTINE_PLAIN)
#define LANES    SHORT_LANES
#define OF(name) ROW(short_##name)
#include "routine/fft/pass.h"
#undef LANES
#undef OF
#endif
#undef TARGET

#if defined(__x86_64__) && !defined(ROUTINE_PLAIN)
#define TARGET   __attribute__((target("avx2")))
#define LANES    LONG_LANES
#define OF(name) ROW(long_##name)
#include "routine/fft/pass.h"
#undef LANES
#undef OF
#undef TARGET
#endif

typedef struct ROW(width) {
    int lanes;
    void (*pass)(const fft_pass *f, int64_t from, int64_t to);
    /* of rows that are alone; not of single numbers */
    int64_t (*split)(const void *pairs, int64_t n, const fft_planes *x);
    int64_t (*join)(const fft_planes *x, int64_t n, double scale, void *pairs);
    int64_t (*apart)(const fft_planes *x, int64_t h, double scale, const void *roots, void *pairs);
} ROW(width);

/* The widest first. */
static const ROW(width) * ROW(widths)(void) {
    static const ROW(width) all[] = {
#ifdef ROUTINE_PLAIN
        {.lanes = 1, .pass = ROW(single_pass)},
#elif defined(__x86_64__)
        {LONG_LANES, ROW(long_pass), ROW(long_split), ROW(long_join), ROW(long_apart)},
#else
        {SHORT_LANES, ROW(short_pass), ROW(short_split), ROW(short_join), ROW(short_apart)},
#endif
        {.lanes = 1, .pass = ROW(single_pass)},
    };
    return fft_has_vectors() ? all : all + 1;
}

#include "routine/fft/rows.h"
