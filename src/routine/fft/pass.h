/* pass.h - one pass of Stockham's FFT, by vectors: included with REAL the type of numbers, LANES of
 * them in a vector, TARGET the instructions it may use and OF(name) the names.
 *
 * Real and imaginary parts lie in arrays of their own. A pass of radix r takes n = r m elements, s
 * numbers at each (Stockham's stride, or rows side by side): for p < m, q < s
 *
 *   y[s (r p + k) + q] = w^(p k) * sum over j of x[s (p + m j) + q] e^(-2 pi i j k / r)
 *
 * with w = e^(-2 pi i / n). What comes next is m elements, r s numbers at each; no reordering is
 * left at the end. Loads and stores are contiguous along q, so a vector goes along q; where s is 1
 * it goes along p, and a tile turns what is stored. A vector of one lane does what is left over. */

#if LANES == 1
typedef REAL OF(vec);
#else
typedef REAL OF(vec)
    __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#endif
typedef struct OF(pair) {
    OF(vec) re, im;
} OF(pair);
#define VEC  OF(vec)
#define PAIR OF(pair)
#ifdef ROUTINE_PLAIN
#define INLINE static inline
#else
#define INLINE TARGET static inline __attribute__((always_inline))
#endif

INLINE VEC OF(all)(REAL v) {
    return (VEC){0} + v;
}
INLINE PAIR OF(plus)(PAIR a, PAIR b) {
    return (PAIR){a.re + b.re, a.im + b.im};
}
INLINE PAIR OF(minus)(PAIR a, PAIR b) {
    return (PAIR){a.re - b.re, a.im - b.im};
}
INLINE PAIR OF(times)(PAIR a, VEC re, VEC im) {
    return (PAIR){a.re * re - a.im * im, a.re * im + a.im * re};
}
INLINE PAIR OF(scaled)(PAIR a, REAL by) {
    return (PAIR){a.re * by, a.im * by};
}
INLINE PAIR OF(turned)(PAIR a) { /* -i a */
    return (PAIR){a.im, -a.re};
}

/* ---- butterflies ----------------------------------------------------------------------------- */

INLINE void OF(by2)(PAIR *x) {
    PAIR a = x[0];
    x[0] = OF(plus)(a, x[1]);
    x[1] = OF(minus)(a, x[1]);
}

INLINE void OF(by3)(PAIR *x) {
    PAIR sum = OF(plus)(x[1], x[2]), middle = OF(minus)(x[0], OF(scaled)(sum, (REAL)0.5));
    PAIR d = OF(turned)(OF(scaled)(OF(minus)(x[1], x[2]), (REAL)0.86602540378443864676));
    x[0] = OF(plus)(x[0], sum);
    x[1] = OF(plus)(middle, d);
    x[2] = OF(minus)(middle, d);
}

INLINE void OF(by4)(PAIR *a, PAIR *b, PAIR *c, PAIR *d) {
    PAIR even = OF(plus)(*a, *c), even2 = OF(minus)(*a, *c);
    PAIR odd = OF(plus)(*b, *d), odd2 = OF(turned)(OF(minus)(*b, *d));
    *a = OF(plus)(even, odd);
    *b = OF(plus)(even2, odd2);
    *c = OF(minus)(even, odd);
    *d = OF(minus)(even2, odd2);
}

INLINE void OF(by8)(PAIR *x) {
    const REAL half = (REAL)0.70710678118654752440;
    PAIR e0 = x[0], e1 = x[2], e2 = x[4], e3 = x[6], o0 = x[1], o1 = x[3], o2 = x[5], o3 = x[7];
    OF(by4)(&e0, &e1, &e2, &e3);
    OF(by4)(&o0, &o1, &o2, &o3);
    o1 = OF(scaled)(OF(plus)(o1, OF(turned)(o1)), half);
    o2 = OF(turned)(o2);
    o3 = OF(scaled)(OF(minus)(OF(turned)(o3), o3), half);
    x[0] = OF(plus)(e0, o0), x[4] = OF(minus)(e0, o0);
    x[1] = OF(plus)(e1, o1), x[5] = OF(minus)(e1, o1);
    x[2] = OF(plus)(e2, o2), x[6] = OF(minus)(e2, o2);
    x[3] = OF(plus)(e3, o3), x[7] = OF(minus)(e3, o3);
}

/* Radix 9 as 3 x 3: transforms of three along a of x[3 a + b], twiddle factors w^(b k) with
 * w = e^(-2 pi i / 9), then transforms of three along b. */
INLINE void OF(by9)(PAIR *x) {
    const REAL c1 = (REAL)0.76604444311897803520, s1 = (REAL)0.64278760968653932632;
    const REAL c2 = (REAL)0.17364817766693034885, s2 = (REAL)0.98480775301220805937;
    const REAL c4 = (REAL)-0.93969262078590838405, s4 = (REAL)0.34202014332566873304;
    PAIR a[3] = {x[0], x[3], x[6]}, b[3] = {x[1], x[4], x[7]}, c[3] = {x[2], x[5], x[8]};
    OF(by3)(a);
    OF(by3)(b);
    OF(by3)(c);
    PAIR u[3] = {a[1], OF(times)(b[1], OF(all)(c1), OF(all)(-s1)),
                 OF(times)(c[1], OF(all)(c2), OF(all)(-s2))};
    PAIR v[3] = {a[2], OF(times)(b[2], OF(all)(c2), OF(all)(-s2)),
                 OF(times)(c[2], OF(all)(c4), OF(all)(-s4))};
    PAIR w[3] = {a[0], b[0], c[0]};
    OF(by3)(w);
    OF(by3)(u);
    OF(by3)(v);
    x[0] = w[0], x[3] = w[1], x[6] = w[2];
    x[1] = u[0], x[4] = u[1], x[7] = u[2];
    x[2] = v[0], x[5] = v[1], x[8] = v[2];
}

/* Of an odd radix k and r - k share their sums: of x[j] + x[r-j], by cosines, and of x[j] - x[r-j],
 * by sines. */
INLINE PAIR OF(cosines)(const PAIR *x, const PAIR *sum, int r, int k, const REAL *turn) {
    PAIR y = x[0];
    FFT_UNROLL
    for (int j = 1; 2 * j < r; j++) y = OF(plus)(y, OF(scaled)(sum[j], turn[2 * (j * k % r)]));
    return y;
}
INLINE PAIR OF(sines)(const PAIR *difference, int r, int k, const REAL *turn) {
    PAIR y = OF(scaled)(difference[1], turn[2 * k + 1]);
    FFT_UNROLL
    for (int j = 2; 2 * j < r; j++)
        y = OF(plus)(y, OF(scaled)(difference[j], turn[2 * (j * k % r) + 1]));
    return OF(turned)(y);
}
INLINE void OF(by_odd)(PAIR *x, int r, const REAL *turn) {
    PAIR sum[FFT_LARGEST / 2 + 1], difference[FFT_LARGEST / 2 + 1], y[FFT_LARGEST];
    y[0] = x[0];
    FFT_UNROLL
    for (int j = 1; 2 * j < r; j++) {
        sum[j] = OF(plus)(x[j], x[r - j]);
        difference[j] = OF(minus)(x[j], x[r - j]);
        y[0] = OF(plus)(y[0], sum[j]);
    }
    FFT_UNROLL
    for (int k = 1; 2 * k < r; k++) {
        PAIR c = OF(cosines)(x, sum, r, k, turn), s = OF(sines)(difference, r, k, turn);
        y[k] = OF(plus)(c, s);
        y[r - k] = OF(minus)(c, s);
    }
    FFT_UNROLL
    for (int k = 0; k < r; k++) x[k] = y[k];
}

/* By the definition: of single numbers, which are few. */
INLINE void OF(by_any)(PAIR *x, int r, const REAL *turn) {
    PAIR y[FFT_LARGEST];
    for (int k = 0; k < r; k++) {
        y[k] = x[0];
        for (int j = 1; j < r; j++) {
            const REAL *w = turn + 2 * (j * k % r);
            y[k].re += x[j].re * w[0] + x[j].im * w[1];
            y[k].im += x[j].im * w[0] - x[j].re * w[1];
        }
    }
    for (int k = 0; k < r; k++) x[k] = y[k];
}

INLINE void OF(butterfly)(PAIR *x, int r, const REAL *turn) {
    if (LANES == 1)
        OF(by_any)(x, r, turn);
    else if (r == 2)
        OF(by2)(x);
    else if (r == 3)
        OF(by3)(x);
    else if (r == 4)
        OF(by4)(x, x + 1, x + 2, x + 3);
    else if (r == 8)
        OF(by8)(x);
    else if (r == 9)
        OF(by9)(x);
    else
        OF(by_odd)(x, r, turn);
}

/* ---- a pass ---------------------------------------------------------------------------------- */

INLINE VEC OF(load)(const REAL *p) {
    return *(const VEC *)p;
}
INLINE void OF(store)(REAL *p, VEC v) {
    *(VEC *)p = v;
}

/* Element k of the butterfly at x, `step` numbers apart. Written out, for a loop would keep the
 * elements in memory. */
INLINE PAIR OF(load_pair)(const fft_planes *x, int64_t at) {
    return (PAIR){OF(load)((const REAL *)x->re + at), OF(load)((const REAL *)x->im + at)};
}
INLINE void OF(load_pairs)(PAIR *v, int r, const fft_planes *x, int64_t at, int64_t step) {
    if (r > 9) {
        FFT_UNROLL
        for (int k = 0; k < r; k++) v[k] = OF(load_pair)(x, at + k * step);
        return;
    }
    v[0] = OF(load_pair)(x, at);
    v[1] = OF(load_pair)(x, at + step);
    if (r > 2) v[2] = OF(load_pair)(x, at + 2 * step);
    if (r > 3) v[3] = OF(load_pair)(x, at + 3 * step);
    if (r > 4) v[4] = OF(load_pair)(x, at + 4 * step);
    if (r > 5) v[5] = OF(load_pair)(x, at + 5 * step);
    if (r > 6) v[6] = OF(load_pair)(x, at + 6 * step);
    if (r > 7) v[7] = OF(load_pair)(x, at + 7 * step);
    if (r > 8) v[8] = OF(load_pair)(x, at + 8 * step);
}

INLINE void OF(store_pair)(const fft_planes *y, int64_t at, PAIR v) {
    OF(store)((REAL *)y->re + at, v.re);
    OF(store)((REAL *)y->im + at, v.im);
}

/* By w^(p k), of the last pass 1. */
INLINE PAIR OF(by_root)(const fft_pass *f, PAIR v, int k, int64_t p) {
    const REAL *re = (const REAL *)f->roots + (k - 1) * f->m + p, *im = re + (f->r - 1) * f->m;
    return f->m == 1 ? v : OF(times)(v, OF(all)(*re), OF(all)(*im));
}

INLINE void OF(pass_along_q)(const fft_pass *f, int r, int64_t from, int64_t to) {
    int64_t m = f->m, s = f->s;
    PAIR v[FFT_LARGEST];
    for (int64_t p = 0; p < m; p++)
        for (int64_t q = from; q < to; q += LANES) {
            int64_t at = s * r * p + q;
            OF(load_pairs)(v, r, &f->x, s * p + q, s * m);
            OF(butterfly)(v, r, (const REAL *)f->turn);
            OF(store_pair)(&f->y, at, v[0]);
            OF(store_pair)(&f->y, at + s, OF(by_root)(f, v[1], 1, p));
            if (r > 2) OF(store_pair)(&f->y, at + 2 * s, OF(by_root)(f, v[2], 2, p));
            if (r > 3) OF(store_pair)(&f->y, at + 3 * s, OF(by_root)(f, v[3], 3, p));
            if (r > 4) OF(store_pair)(&f->y, at + 4 * s, OF(by_root)(f, v[4], 4, p));
            if (r > 5) OF(store_pair)(&f->y, at + 5 * s, OF(by_root)(f, v[5], 5, p));
            if (r > 6) OF(store_pair)(&f->y, at + 6 * s, OF(by_root)(f, v[6], 6, p));
            if (r > 7) OF(store_pair)(&f->y, at + 7 * s, OF(by_root)(f, v[7], 7, p));
            if (r > 8) OF(store_pair)(&f->y, at + 8 * s, OF(by_root)(f, v[8], 8, p));
            FFT_UNROLL
            for (int k = 9; k < r; k++)
                OF(store_pair)(&f->y, at + k * s, OF(by_root)(f, v[k], k, p));
        }
}

/* s is 1: lanes are neighbouring p, and the tile holds them by k. */
INLINE void OF(pass_along_p)(const fft_pass *f, int r, int64_t from, int64_t to) {
    int64_t m = f->m;
    PAIR v[FFT_LARGEST];
    REAL re[FFT_LARGEST][LANES], im[FFT_LARGEST][LANES];
    for (int64_t p = from; p < to; p += LANES) {
        OF(load_pairs)(v, r, &f->x, p, m);
        OF(butterfly)(v, r, (const REAL *)f->turn);
        FFT_UNROLL
        for (int k = 0; k < r; k++) {
            const REAL *root = (const REAL *)f->roots + (k - 1) * m + p;
            if (k) v[k] = OF(times)(v[k], OF(load)(root), OF(load)(root + (r - 1) * m));
            OF(store)(re[k], v[k].re);
            OF(store)(im[k], v[k].im);
        }
        REAL *to_re = (REAL *)f->y.re + r * p, *to_im = (REAL *)f->y.im + r * p;
        for (int j = 0; j < LANES; j++)
            for (int k = 0; k < r; k++) {
                to_re[j * r + k] = re[k][j];
                to_im[j * r + k] = im[k][j];
            }
    }
}

/* From and to count q, or p where s is 1: whole vectors of them. Rare radices are loops. */
TARGET static void OF(pass)(const fft_pass *f, int64_t from, int64_t to) {
    bool alone = f->s == 1 && f->m > 1;
    int r = f->r;
    if (from >= to) return;
    if (alone && r == 8 && LANES > 1)
        OF(pass_along_p)(f, 8, from, to);
    else if (alone && r == 4 && LANES > 1)
        OF(pass_along_p)(f, 4, from, to);
    else if (alone && r == 9 && LANES > 1)
        OF(pass_along_p)(f, 9, from, to);
    else if (alone)
        OF(pass_along_p)(f, r, from, to);
    else if (r == 9 && LANES > 1)
        OF(pass_along_q)(f, 9, from, to);
    else if (r == 8 && LANES > 1)
        OF(pass_along_q)(f, 8, from, to);
    else if (r == 5 && LANES > 1)
        OF(pass_along_q)(f, 5, from, to);
    else if (r == 4 && LANES > 1)
        OF(pass_along_q)(f, 4, from, to);
    else if (r == 3 && LANES > 1)
        OF(pass_along_q)(f, 3, from, to);
    else
        OF(pass_along_q)(f, r, from, to);
}

/* ---- pairs to planes and back ---------------------------------------------------------------- */

#if LANES > 1
/* Every other number of two vectors, and two vectors in turn. */
#if LANES == 2
#define EVEN(a, b)  __builtin_shufflevector(a, b, 0, 2)
#define ODD(a, b)   __builtin_shufflevector(a, b, 1, 3)
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 2)
#define UPPER(a, b) __builtin_shufflevector(a, b, 1, 3)
#define BACK(a)     __builtin_shufflevector(a, a, 1, 0)
#elif LANES == 4
#define EVEN(a, b)  __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b)   __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define UPPER(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define BACK(a)     __builtin_shufflevector(a, a, 3, 2, 1, 0)
#else
#define EVEN(a, b)  __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b)   __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOWER(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define BACK(a)     __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#endif

/* As many as are whole vectors; how many that were. */
TARGET static int64_t OF(split)(const void *pairs, int64_t n, const fft_planes *x) {
    const REAL *in = pairs;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        VEC a = OF(load)(in + 2 * i), b = OF(load)(in + 2 * i + LANES);
        OF(store)((REAL *)x->re + i, EVEN(a, b));
        OF(store)((REAL *)x->im + i, ODD(a, b));
    }
    return i;
}

TARGET static int64_t OF(join)(const fft_planes *x, int64_t n, double scale, void *pairs) {
    REAL *out = pairs;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        VEC a = OF(load)((const REAL *)x->re + i) * (REAL)scale;
        VEC b = OF(load)((const REAL *)x->im + i) * (REAL)scale;
        OF(store)(out + 2 * i, LOWER(a, b));
        OF(store)(out + 2 * i + LANES, UPPER(a, b));
    }
    return i;
}

/* See store_halved: from k on while both k and h - k are whole vectors of inner numbers. */
TARGET static int64_t OF(apart)(const fft_planes *x, int64_t h, double scale, const void *roots,
                                void *pairs) {
    const REAL *re = x->re, *im = x->im, *w = roots;
    REAL *out = pairs, by = (REAL)scale;
    int64_t k = 1;
    for (; k + LANES <= h; k += LANES) {
        VEC a = OF(load)(w + 2 * k), b = OF(load)(w + 2 * k + LANES), c = EVEN(a, b), s = ODD(a, b);
        VEC pr = OF(load)(re + k), pi = OF(load)(im + k);
        VEC qr = OF(load)(re + h - k - LANES + 1), qi = OF(load)(im + h - k - LANES + 1);
        qr = BACK(qr), qi = BACK(qi);
        VEC dr = pi + qi, di = qr - pr;
        VEC yr = (pr + qr + (dr * c - di * s)) * by, yi = (pi - qi + (dr * s + di * c)) * by;
        OF(store)(out + 2 * k, LOWER(yr, yi));
        OF(store)(out + 2 * k + LANES, UPPER(yr, yi));
    }
    return k;
}

#undef EVEN
#undef ODD
#undef LOWER
#undef UPPER
#undef BACK
#endif

#undef VEC
#undef PAIR
#undef INLINE
