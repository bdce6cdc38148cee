/* fft.c - the routine FFT: what a call is of rows, and what it needs. */
#include "routine/fft/fft.h"

#include <math.h>

/* Planes of so many bytes may hold several rows side by side: they stay in the second cache. A row
 * that begins with a pass of eight is whole vectors from there on, and as fast alone. */
enum { SIDE_BY_SIDE = 256 << 10, ALONE = 32 };

static bool side_by_side(const fft_run *r, size_t real) {
    if (r->plan.n >= ALONE && r->plan.n % 8 == 0) return false;
    return 4 * r->plan.n * r->lanes * (int64_t)real <= SIDE_BY_SIDE;
}

bool fft_has_vectors(void) {
#ifdef ROUTINE_PLAIN
    return false;
#elif defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return true;
#endif
}

size_t fft_doubles(const fft_run *r) {
    size_t most = fft_roots_size(r->plan.n), other = 0;
    if (r->halved) other = fft_roots_size(r->n);
    if (other > most) most = other;
    if (r->convolved) other = fft_roots_size(2 * r->length);
    return other > most ? other : most;
}

static size_t fft_reals(const fft_run *r) {
    int64_t n = 4 * (r->plan.n * r->lanes + FFT_APART / (int64_t)sizeof(float)) + 2 * r->plan.roots;
    if (r->halved) n += r->n + 2;
    if (r->convolved) n += 2 * r->length + 2 * r->plan.n;
    return (size_t)n;
}

static size_t real_size(const routine_call *c) {
    return qn_dtype_size(c->source[0].dtype);
}

static size_t fft_bytes(const routine_call *c, const fft_run *r) {
    return fft_doubles(r) * sizeof(double) + fft_reals(r) * real_size(c);
}

/* The size of the axis that is transformed, which pairs lie behind. */
static int64_t axis_of(const routine_array *a, bool pairs) {
    return a->dim[a->rank - 1 - pairs];
}

static int64_t rows_of(const routine_call *c) {
    const routine_array *a = &c->source[0];
    int64_t rows = 1;
    bool pairs = c->what.attr[0] != CALL_FFT_REAL_IN;
    for (int i = 0; i < a->rank - 1 - pairs; i++) rows *= a->dim[i];
    return rows;
}

static fft_run run_of(const routine_call *c) {
    const routine_array *in = &c->source[0];
    int kind = (int)c->what.attr[0];
    fft_run r = {.kind = kind, .inverse = c->what.attr[1] != 0, .scale = 1};
    r.n = kind == CALL_FFT_REAL_OUT ? c->what.attr[3] : axis_of(in, kind == CALL_FFT_COMPLEX);
    int64_t half = r.n / 2 + 1;
    r.in_row = kind == CALL_FFT_COMPLEX ? 2 * r.n : kind == CALL_FFT_REAL_IN ? r.n : 2 * half;
    r.out_row = kind == CALL_FFT_COMPLEX ? 2 * r.n : kind == CALL_FFT_REAL_IN ? 2 * half : r.n;
    r.halved = kind != CALL_FFT_COMPLEX && r.n % 2 == 0;
    r.length = r.halved ? r.n / 2 : r.n;
    if (!fft_plan_of(&r.plan, r.length)) {
        r.convolved = true;
        (void)fft_plan_of(&r.plan, fft_smooth_above(2 * r.length - 1));
    }
    r.lanes = 32 / (int64_t)real_size(c);
    if (rows_of(c) < 2 || !side_by_side(&r, real_size(c))) r.lanes = 1;
    if (c->what.attr[2] == 1) r.scale = 1 / (double)r.n;
    if (c->what.attr[2] == 2) r.scale = 1 / sqrt((double)r.n);
    r.in = in->data;
    r.out = c->result[0].data;
    return r;
}

routine_need need_fft(const routine_call *c) {
    fft_run r = run_of(c);
    double n = (double)r.plan.n, each = n * (log2(n) + 4) * (r.convolved ? 1 : 0.4);
    return (routine_need){rows_of(c), each * (double)rows_of(c), fft_bytes(c, &r)};
}

void run_fft(const routine_call *c, void *scratch, int64_t from, int64_t to) {
    fft_run r = run_of(c);
    if (c->source[0].dtype == QN_F64)
        fft_rows_f64(&r, scratch, from, to);
    else
        fft_rows_f32(&r, scratch, from, to);
}
