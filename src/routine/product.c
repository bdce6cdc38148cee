/* product.c - c -= a b of doubles, the one product that factors by halves and panels are made of,
 * and what is done along rows.
 *
 * As BLIS has it: rows of a and columns of b are packed side by side, zeros beyond the edges, and a
 * tile of c is summed in registers. What is packed lies on the stack, for a routine takes no
 * memory: HEIGHT rows of a are used for all of b's columns, of which one tile's width is packed at
 * a time, for HEIGHT rows. Vectors are the widest that the processor has; where it has multiply-add
 * in one instruction, products in sums are not rounded. */
#include "routine/matrix.h"

enum { DEPTH = 128, HEIGHT = 64, LEAST = 1 << 10 /* multiply-adds from which packing pays */ };

#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif

#define ALONG_ROWS
#define LANES 2
#define ROWS  4
#define TARGET
#define OF(name)              name##_by2
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#include "routine/product.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ALONG_ROWS
#define LANES                 4
#define ROWS                  4
#define TARGET                __attribute__((target("avx2,fma")))
#define OF(name)              name##_by4
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_pd(a, b, c)
#include "routine/product.h"

#define LANES                 8
#define ROWS                  8
#define TARGET                __attribute__((target("avx512f")))
#define OF(name)              name##_by8
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_pd(a, b, c)
#include "routine/product.h"

static bool has_by4(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#if defined(__x86_64__)
#define ALONG(name) (has_by4() ? name##_by4 : name##_by2)
#else
#define ALONG(name) name##_by2
#endif

void matrix_add_scaled(double *to, const double *from, double v, int64_t n) {
    ALONG(add_scaled)(to, from, v, n);
}

double matrix_dot(const double *a, const double *b, int64_t n) {
    return ALONG(dot)(a, b, n);
}

void matrix_rotate(double *x, double *y, int64_t n, double cosine, double sine) {
    ALONG(rotate)(x, y, n, cosine, sine);
}

void matrix_apply(block a, int64_t m, int64_t n, const double *x, double *y) {
    ALONG(apply)(a, m, n, x, y);
}

void matrix_apply_turned(block a, int64_t m, int64_t n, const double *x, double *y) {
    ALONG(apply_turned)(a, m, n, x, y);
}

void matrix_turn(double *strip, const turn_wave *wave, int waves) {
    ALONG(turn)(strip, wave, waves);
}

static void subtract_few(block c, view a, view b, extents e) {
    for (int64_t i = 0; i < e.m; i++)
        for (int64_t k = 0; k < e.k; k++) {
            double v = a.at[i * a.row + k * a.column];
            const double *from = b.at + k * b.row;
            double *to = c.at + i * c.step;
            if (b.column == 1)
                matrix_add_scaled(to, from, -v, e.n);
            else
                for (int64_t j = 0; j < e.n; j++) to[j] -= v * from[j * b.column];
        }
}

void matrix_subtract_views(block c, view a, view b, extents e) {
    if (e.m * e.n * e.k < LEAST || e.n < 4 || e.m < 2) {
        subtract_few(c, a, b, e);
        return;
    }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        subtract_by8(c, a, b, e);
        return;
    }
    if (has_by4()) {
        subtract_by4(c, a, b, e);
        return;
    }
#endif
    subtract_by2(c, a, b, e);
}

void matrix_subtract(block c, block a, block b, extents e) {
    matrix_subtract_views(c, view_of(a), view_of(b), e);
}
