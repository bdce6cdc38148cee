/* widths.h - the transforms of one dtype by each width of vectors that there is: included by f32.c
 * and f64.c, which say REAL, SHORT_LANES, LONG_LANES and ROW. */
#define TARGET
#define LANES    1
#define OF(name) single_##name
#include "routine/fft/pass.h"
#undef LANES
#undef OF

#ifndef __x86_64__
#define LANES    SHORT_LANES
#define OF(name) short_##name
#include "routine/fft/pass.h"
#undef LANES
#undef OF
#endif
#undef TARGET

#ifdef __x86_64__
#define TARGET   __attribute__((target("avx2")))
#define LANES    LONG_LANES
#define OF(name) long_##name
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
#ifdef __x86_64__
        {LONG_LANES, long_pass, long_split, long_join, long_apart},
#else
        {SHORT_LANES, short_pass, short_split, short_join, short_apart},
#endif
        {.lanes = 1, .pass = single_pass},
    };
    return fft_has_vectors() ? all : all + 1;
}

#include "routine/fft/rows.h"
