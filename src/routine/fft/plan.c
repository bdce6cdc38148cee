/* plan.c - lengths as radices, and roots of unity. */
#include "routine/fft/fft.h"

#include <math.h>

/* ---- radices --------------------------------------------------------------------------------- */

/* Eights first, since a first pass of eight makes what follows whole vectors; an odd power of two
 * ends with fours. Nines before threes: behind a first pass of three the next has three columns,
 * fewer than a vector. */
bool fft_plan_of(fft_plan *p, int64_t n) {
    static const uint8_t odd[] = {9, 3, 5, 7, 11, 13};
    *p = (fft_plan){.n = n};
    int twos = 0;
    int64_t rest = n;
    for (; rest > 1 && rest % 2 == 0; rest /= 2) twos++;
    while (twos) {
        int bits = twos == 1 ? 1 : twos == 2 || twos == 4 ? 2 : 3;
        p->radix[p->passes++] = (uint8_t)(1 << bits);
        twos -= bits;
    }
    for (size_t i = 0; i < sizeof odd; i++)
        for (; rest % odd[i] == 0; rest /= odd[i]) p->radix[p->passes++] = odd[i];
    for (int i = 0; i < p->passes; i++) {
        n /= p->radix[i];
        p->roots += (p->radix[i] - 1) * n;
    }
    return rest == 1;
}

int64_t fft_smooth_above(int64_t n) {
    static const int64_t factor[] = {1, 3, 5, 7, 9, 15, 21, 25, 27, 35, 45, 49, 63, 75, 81};
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < sizeof factor / sizeof *factor; i++) {
        int64_t m = factor[i] * 8;
        while (m < n) m *= 2;
        if (m < best) best = m;
    }
    return best;
}

/* ---- roots ----------------------------------------------------------------------------------- */

static int roots_shift(int64_t n) {
    int shift = 0;
    while (((int64_t)1 << (2 * shift)) < n) shift++;
    return shift;
}

size_t fft_roots_size(int64_t n) {
    int shift = roots_shift(n);
    return 2 * (size_t)(((int64_t)1 << shift) + (n >> shift) + 1);
}

/* By the octant of k/n, so that the argument is at most pi/4 and as exact as a double can be. */
static void one_root(int64_t k, int64_t n, double *out) {
    int64_t eighths = 8 * k, octant = eighths / n, part = eighths - octant * n;
    if (octant & 1) part = n - part;
    double x = 0.78539816339744830962 * (double)part / (double)n, c = cos(x), s = sin(x);
    bool turned = (octant + 1) & 2;
    double re = turned ? s : c, im = turned ? c : s;
    out[0] = octant >= 2 && octant < 6 ? -re : re;
    out[1] = octant < 4 ? -im : im;
}

fft_roots fft_roots_fill(int64_t n, double *memory) {
    int shift = roots_shift(n);
    int64_t fine = (int64_t)1 << shift;
    double *coarse = memory + 2 * fine;
    for (int64_t i = 0; i < fine; i++) one_root(i < n ? i : 0, n, memory + 2 * i);
    for (int64_t i = 0; i << shift < n; i++) one_root(i << shift, n, coarse + 2 * i);
    return (fft_roots){n, shift, memory, coarse};
}
