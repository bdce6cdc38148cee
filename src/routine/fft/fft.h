/* fft.h - the discrete Fourier transform of rows: plans, and what computes by them.
 *
 * A plan says which radices make up a length, and Bluestein's convolution where a prime factor is
 * too large for one. It is numbers alone; its tables, roots of unity for each pass, are filled in
 * the scratch of a run, so nothing is kept between calls and nothing is shared. */
#ifndef QN_ROUTINE_FFT_H
#define QN_ROUTINE_FFT_H

#include "routine/routine.h"

/* Written out wholly, so that what it indexes is in registers. */
#ifdef __clang__
#define FFT_UNROLL /* clang warns of what it does not unroll, and decides well by itself */
#else
#define FFT_UNROLL _Pragma("GCC unroll 4")
#endif

/* Planes lie so many bytes further apart than they are long: of powers of two they would all be in
 * the same few lines of the first cache. */
enum { FFT_APART = 1088 };
enum { FFT_PASSES = 64, FFT_LANES = 8, FFT_LARGEST = 13 };

/* Of complex numbers, `n` of them. */
typedef struct fft_plan {
    int64_t n;
    int passes;
    uint8_t radix[FFT_PASSES];
    int64_t roots; /* of all passes together */
} fft_plan;
/* false: a prime factor is above FFT_LARGEST */
ROUTINE_LINK bool fft_plan_of(fft_plan *p, int64_t n);
ROUTINE_LINK int64_t
fft_smooth_above(int64_t n); /* the least length from n on that is quick to compute */

/* e^(-2 pi i k / n) for all k, as products of two tables: of `fine` ones side by side, and of their
 * multiples. Both are correctly reduced to an eighth of a turn. */
typedef struct fft_roots {
    int64_t n;
    int shift;
    const double *fine, *coarse; /* pairs */
} fft_roots;
ROUTINE_LINK size_t fft_roots_size(int64_t n); /* in doubles */
ROUTINE_LINK fft_roots fft_roots_fill(int64_t n, double *memory);
typedef struct fft_root {
    double re, im;
} fft_root;
static inline fft_root fft_root_of(const fft_roots *r, int64_t k) {
    const double *a = r->fine + 2 * (k & (((int64_t)1 << r->shift) - 1));
    const double *b = r->coarse + 2 * (k >> r->shift);
    return (fft_root){a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]};
}

/* Arrays of real and imaginary parts, and a pass over them: see pass.h. */
typedef struct fft_planes {
    void *re, *im;
} fft_planes;
typedef struct fft_pass {
    fft_planes x, y;
    int r;
    int64_t m, s;
    const void
        *roots; /* w^(p k): real parts of k = 1 for all p, of k = 2, ..; then imaginary ones */
    const void *turn; /* e^(-2 pi i k / r) with the sign of sines turned, pairs; of odd radices */
} fft_pass;

/* What one run of a call knows. */
typedef struct fft_run {
    int kind; /* CALL_FFT_COMPLEX, .. */
    bool inverse;
    bool halved;    /* a real row is computed as half as many complex numbers */
    int64_t n;      /* of the transform, as the user sees it */
    int64_t length; /* of the complex one that is computed */
    int64_t lanes;  /* rows side by side */
    fft_plan plan;  /* of the length, or of the convolution's */
    bool convolved;
    double scale;
    const void *in;
    void *out;
    int64_t in_row, out_row; /* numbers from row to row */
} fft_run;

ROUTINE_LINK bool fft_has_vectors(void);
ROUTINE_LINK size_t
fft_doubles(const fft_run *r); /* that roots are made from, at the beginning of scratch */
/* Rows [from, to). */
ROUTINE_LINK void fft_rows_f32(const fft_run *r, void *scratch, int64_t from, int64_t to);
ROUTINE_LINK void fft_rows_f64(const fft_run *r, void *scratch, int64_t from, int64_t to);

#endif
