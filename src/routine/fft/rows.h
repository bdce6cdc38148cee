/* rows.h - transforms of rows: included with REAL and ROW(name), after the passes that ROW(widths)
 * lists.
 *
 * A row, or as many rows side by side as fill a vector, goes to the planes, through the passes to
 * and fro between two pairs of them, and out. The inverse exchanges real and imaginary parts, which
 * is exchanging pointers. Half of a real row's spectrum says all: the even and odd numbers of the
 * row are the parts of half as many complex ones, whose spectrum comes apart by symmetry (Press et
 * al., Numerical Recipes, 12.3). Bluestein: n numbers times a chirp, convolved with another chirp
 * by transforms of a quick length, times the chirp again. */

typedef struct ROW(state) {
    const fft_run *r;
    fft_planes a, b;
    REAL *roots, *halves, *chirp,
        *spectrum; /* spectrum: of the other chirp, divided by its length */
    REAL turn[FFT_LARGEST + 1][2 * FFT_LARGEST]; /* by radix */
} ROW(state);

/* ---- tables ---------------------------------------------------------------------------------- */

enum { ROW(BLOCK) = 32 };

/* Roots k j for j < m: a block's first one times those of the first block. */
static void ROW(fill_power)(const fft_roots *roots, int64_t k, int64_t m, REAL *re, REAL *im) {
    double block[2][ROW(BLOCK)];
    for (int64_t j = 0; j < m && j < ROW(BLOCK); j++) {
        fft_root w = fft_root_of(roots, k * j);
        re[j] = (REAL)(block[0][j] = w.re);
        im[j] = (REAL)(block[1][j] = w.im);
    }
    int64_t j = ROW(BLOCK);
    for (; j + ROW(BLOCK) <= m; j += ROW(BLOCK)) {
        fft_root w = fft_root_of(roots, k * j);
        REAL *restrict x = re + j, *restrict y = im + j;
        for (int i = 0; i < ROW(BLOCK); i++) {
            x[i] = (REAL)(w.re * block[0][i] - w.im * block[1][i]);
            y[i] = (REAL)(w.re * block[1][i] + w.im * block[0][i]);
        }
    }
    for (; j < m; j++) {
        fft_root w = fft_root_of(roots, k * j);
        re[j] = (REAL)w.re;
        im[j] = (REAL)w.im;
    }
}

static void ROW(fill_roots)(const fft_plan *p, const fft_roots *roots, REAL *out) {
    int64_t n = p->n, s = 1;
    for (int i = 0; i < p->passes; i++) {
        int r = p->radix[i];
        int64_t m = n / r;
        REAL *re = out, *im = out + (r - 1) * m;
        for (int k = 1; k < r; k++, re += m, im += m) ROW(fill_power)(roots, k * s, m, re, im);
        out += 2 * (r - 1) * m;
        n = m;
        s *= r;
    }
}

static const REAL *ROW(turn_of)(const ROW(state) * st, int radix) {
    return st->turn[radix];
}

static void ROW(fill_turns)(ROW(state) * st) {
    double memory[64];
    for (int p = 0; p < st->r->plan.passes; p++) {
        int radix = st->r->plan.radix[p];
        if (p && radix == st->r->plan.radix[p - 1]) continue;
        fft_roots roots = fft_roots_fill(radix, memory);
        for (int k = 0; k < radix; k++) {
            fft_root w = fft_root_of(&roots, k);
            st->turn[radix][2 * k] = (REAL)w.re;
            st->turn[radix][2 * k + 1] = (REAL)-w.im;
        }
    }
}

/* ---- the transform --------------------------------------------------------------------------- */

/* What is left over of whole vectors is a vector that begins earlier and computes some again. */
static void ROW(run_pass)(const fft_pass *f) {
    const ROW(width) *w = ROW(widths)();
    int64_t all = f->s == 1 && f->m > 1 ? f->m : f->s;
    while (w->lanes > all) w++;
    int64_t whole = all - all % w->lanes;
    w->pass(f, 0, whole);
    if (whole < all) w->pass(f, all - w->lanes, all);
}

/* Of what lies in x, `lanes` of them side by side, by y; which of both it is in then. */
static fft_planes ROW(transform)(const ROW(state) * st, fft_planes x, fft_planes y, int64_t lanes) {
    const fft_plan *p = &st->r->plan;
    const REAL *roots = st->roots;
    fft_pass f = {.x = x, .y = y, .m = p->n, .s = lanes};
    for (int i = 0; i < p->passes; i++) {
        f.r = p->radix[i];
        f.m /= f.r;
        f.roots = roots;
        f.turn = ROW(turn_of)(st, f.r);
        ROW(run_pass)(&f);
        roots += 2 * (f.r - 1) * f.m;
        f.s *= f.r;
        fft_planes done = f.y;
        f.y = f.x;
        f.x = done;
    }
    return f.x;
}

static fft_planes ROW(exchanged)(fft_planes x) {
    return (fft_planes){x.im, x.re};
}

/* ---- Bluestein ------------------------------------------------------------------------------- */

static void ROW(fill_chirps)(ROW(state) * st, double *memory) {
    const fft_run *r = st->r;
    int64_t n = r->length, m = r->plan.n;
    fft_roots roots = fft_roots_fill(2 * n, memory);
    REAL *re = st->a.re, *im = st->a.im;
    for (int64_t i = 0; i < m; i++) re[i] = im[i] = 0;
    for (int64_t i = 0, square = 0; i < n; square = (square + 2 * i + 1) % (2 * n), i++) {
        fft_root w = fft_root_of(&roots, square);
        st->chirp[2 * i] = (REAL)w.re;
        st->chirp[2 * i + 1] = (REAL)w.im;
        re[i] = re[i ? m - i : 0] = (REAL)w.re;
        im[i] = im[i ? m - i : 0] = (REAL)-w.im;
    }
    fft_planes y = ROW(transform)(st, st->a, st->b, 1);
    for (int64_t i = 0; i < m; i++) {
        st->spectrum[2 * i] = ((REAL *)y.re)[i] / (REAL)m;
        st->spectrum[2 * i + 1] = ((REAL *)y.im)[i] / (REAL)m;
    }
}

/* The first n of x's numbers times a table's, pairs; the rest up to m is 0. */
static void ROW(multiply)(fft_planes x, const REAL *by, int64_t n, int64_t m, int64_t lanes) {
    REAL *re = x.re, *im = x.im;
    for (int64_t i = 0; i < n; i++)
        for (int64_t q = i * lanes; q < (i + 1) * lanes; q++) {
            REAL a = re[q], b = im[q];
            re[q] = a * by[2 * i] - b * by[2 * i + 1];
            im[q] = a * by[2 * i + 1] + b * by[2 * i];
        }
    for (int64_t q = n * lanes; q < m * lanes; q++) re[q] = im[q] = 0;
}

/* The spectrum of what lies in x (a, or a with its parts exchanged). */
static fft_planes ROW(spectrum_of)(const ROW(state) * st, fft_planes x, fft_planes y) {
    const fft_run *r = st->r;
    int64_t n = r->length, m = r->plan.n;
    if (!r->convolved) return ROW(transform)(st, x, y, r->lanes);
    ROW(multiply)(x, st->chirp, n, m, r->lanes);
    fft_planes z = ROW(transform)(st, x, y, r->lanes), other = z.re == x.re ? y : x;
    ROW(multiply)(z, st->spectrum, m, m, r->lanes);
    z = ROW(exchanged)(ROW(transform)(st, ROW(exchanged)(z), ROW(exchanged)(other), r->lanes));
    ROW(multiply)(z, st->chirp, n, n, r->lanes);
    return z;
}

/* ---- rows in --------------------------------------------------------------------------------- */

static void ROW(load_complex)(const ROW(state) * st, const REAL *in, fft_planes x) {
    REAL *restrict re = x.re, *restrict im = x.im;
    int64_t n = st->r->length, lanes = st->r->lanes, i = 0;
    if (lanes == 1 && ROW(widths)()->split) i = ROW(widths)()->split(in, n, &x);
    for (; i < n; i++) {
        re[i * lanes] = in[2 * i];
        im[i * lanes] = in[2 * i + 1];
    }
}

static void ROW(load_real)(const ROW(state) * st, const REAL *in, fft_planes x) {
    REAL *re = x.re, *im = x.im;
    int64_t n = st->r->length, lanes = st->r->lanes;
    for (int64_t i = 0; i < n; i++) {
        re[i * lanes] = in[i];
        im[i * lanes] = 0;
    }
}

/* A spectrum of which half is there; the first and, of an even length, the last number are real. */
static void ROW(load_half)(const ROW(state) * st, const REAL *in, fft_planes x) {
    REAL *re = x.re, *im = x.im;
    int64_t n = st->r->length, lanes = st->r->lanes;
    re[0] = in[0], im[0] = 0;
    for (int64_t k = 1; 2 * k <= n; k++) {
        re[k * lanes] = re[(n - k) * lanes] = in[2 * k];
        im[k * lanes] = in[2 * k + 1];
        im[(n - k) * lanes] = -in[2 * k + 1];
    }
}

/* The same as the spectrum of the even numbers, and i times that of the odd ones. */
static void ROW(load_halved)(const ROW(state) * st, const REAL *in, fft_planes x) {
    REAL *re = x.re, *im = x.im;
    int64_t h = st->r->length, lanes = st->r->lanes;
    for (int64_t k = 0; k < h; k++) {
        const REAL *p = in + 2 * k, *q = in + 2 * (h - k), *w = st->halves + 2 * k;
        REAL pi = k ? p[1] : 0, qi = k ? q[1] : 0;
        REAL dr = p[0] - q[0], di = pi + qi;
        re[k * lanes] = p[0] + q[0] - (di * w[0] - dr * w[1]);
        im[k * lanes] = pi - qi + (dr * w[0] + di * w[1]);
    }
}

/* ---- rows out -------------------------------------------------------------------------------- */

static void ROW(store_complex)(const ROW(state) * st, fft_planes x, REAL *out) {
    const REAL *restrict re = x.re, *restrict im = x.im;
    int64_t n = st->r->kind == CALL_FFT_REAL_IN ? st->r->n / 2 + 1 : st->r->length,
            lanes = st->r->lanes;
    REAL scale = (REAL)st->r->scale;
    bool alone = lanes == 1 && ROW(widths)()->join;
    int64_t i = alone ? ROW(widths)()->join(&x, n, st->r->scale, out) : 0;
    for (; i < n; i++) {
        out[2 * i] = re[i * lanes] * scale;
        out[2 * i + 1] = im[i * lanes] * scale;
    }
}

static void ROW(store_real)(const ROW(state) * st, fft_planes x, REAL *out) {
    const REAL *re = x.re;
    int64_t n = st->r->length, lanes = st->r->lanes;
    for (int64_t i = 0; i < n; i++) out[i] = re[i * lanes] * (REAL)st->r->scale;
}

/* The spectra of even and odd numbers come apart: X_k = E_k + w^k O_k. */
static void ROW(store_halved)(const ROW(state) * st, fft_planes x, REAL *out) {
    const REAL *re = x.re, *im = x.im;
    int64_t h = st->r->length, lanes = st->r->lanes;
    REAL scale = (REAL)(st->r->scale / 2);
    bool alone = lanes == 1 && ROW(widths)()->apart;
    int64_t done = alone ? ROW(widths)()->apart(&x, h, st->r->scale / 2, st->halves, out) : 1;
    for (int64_t k = 0; k <= h; k = k ? k + 1 : done) {
        int64_t p = k < h ? k * lanes : 0, q = k ? (h - k) * lanes : 0;
        const REAL *w = st->halves + 2 * k;
        REAL er = re[p] + re[q], ei = im[p] - im[q], dr = im[p] + im[q], di = re[q] - re[p];
        out[2 * k] = (er + (dr * w[0] - di * w[1])) * scale;
        out[2 * k + 1] = (ei + (dr * w[1] + di * w[0])) * scale;
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void ROW(open)(ROW(state) * st, const fft_run *r, void *scratch) {
    size_t plane = (size_t)(r->plan.n * r->lanes) + FFT_APART / sizeof(REAL);
    double *memory = scratch;
    REAL *at = (REAL *)(memory + fft_doubles(r));
    st->r = r;
    st->a = (fft_planes){at, at + plane};
    st->b = (fft_planes){at + 2 * plane, at + 3 * plane};
    st->roots = at + 4 * plane;
    st->halves = st->roots + 2 * r->plan.roots;
    st->chirp = st->halves + (r->halved ? r->n + 2 : 0);
    st->spectrum = st->chirp + (r->convolved ? 2 * r->length : 0);
    ROW(fill_turns)(st);
    fft_roots roots = fft_roots_fill(r->plan.n, memory);
    ROW(fill_roots)(&r->plan, &roots, st->roots);
    if (r->halved) {
        roots = fft_roots_fill(r->n, memory);
        for (int64_t k = 0; k <= r->length; k++) {
            fft_root w = fft_root_of(&roots, k);
            st->halves[2 * k] = (REAL)w.re;
            st->halves[2 * k + 1] = (REAL)w.im;
        }
    }
    if (r->convolved) ROW(fill_chirps)(st, memory);
}

static fft_planes ROW(lane)(fft_planes x, int64_t lane) {
    return (fft_planes){(REAL *)x.re + lane, (REAL *)x.im + lane};
}

static void ROW(load)(const ROW(state) * st, int64_t row, fft_planes x) {
    const fft_run *r = st->r;
    const REAL *in = (const REAL *)r->in + row * r->in_row;
    if (r->kind == CALL_FFT_REAL_OUT)
        (r->halved ? ROW(load_halved) : ROW(load_half))(st, in, x);
    else if (r->kind == CALL_FFT_REAL_IN && !r->halved)
        ROW(load_real)(st, in, x);
    else
        ROW(load_complex)(st, in, x);
}

static void ROW(store)(const ROW(state) * st, int64_t row, fft_planes x) {
    const fft_run *r = st->r;
    REAL *out = (REAL *)r->out + row * r->out_row;
    if (r->kind == CALL_FFT_REAL_IN && r->halved)
        ROW(store_halved)(st, x, out);
    else if (r->kind == CALL_FFT_REAL_OUT && !r->halved)
        ROW(store_real)(st, x, out);
    else
        ROW(store_complex)(st, x, out);
}

/* Rows that lack to a vector's are as the last one. */
void ROW(fft_rows)(const fft_run *r, void *scratch, int64_t from, int64_t to) {
    ROW(state) st;
    ROW(open)(&st, r, scratch);
    for (int64_t row = from; row < to; row += r->lanes) {
        fft_planes x = r->inverse ? ROW(exchanged)(st.a) : st.a;
        for (int64_t i = 0; i < r->lanes; i++)
            ROW(load)(&st, row + i < to ? row + i : to - 1, ROW(lane)(x, i));
        fft_planes y = ROW(spectrum_of)(&st, st.a, st.b);
        if (r->inverse) y = ROW(exchanged)(y);
        for (int64_t i = 0; i < r->lanes && row + i < to; i++)
            ROW(store)(&st, row + i, ROW(lane)(y, i));
    }
}
