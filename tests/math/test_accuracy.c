/* test_accuracy.c - how many units in the last place (ulp) the elementwise functions are off, on
 * the device that QN_DEVICE names, against libm in a wider type (accuracy_oracle.h).
 *
 *   test_accuracy           as a test: f16 and bf16 whole, samples of f32 and f64; no entry may be
 *                           above its row's bound
 *   test_accuracy --sweep FILE CODE STEP SECONDS
 *                           every STEP-th float, and of functions of two arguments every STEP-th
 *                           pair of f16, function by function, in 16 ranges; first every 257-th.
 *                           Each range that is done is a line of FILE, with the hash CODE of what
 *                           it was compared with and that of the function's kernels as passes left
 *                           them; what is there is not done again
 *   test_accuracy --table FILE CODE WHEN
 *                           docs/accuracy.md from such a file, all halves and the samples
 *
 * Infinities, NaN and the signs of zeros must be equal. An overflow counts as the power of two
 * after the largest number. The unit is that of the true value. */
#include "quern.h"
#include "test.h"

#include <tgmath.h>
#include <time.h>

#define REAL         double
#define ORACLE(name) name##_d
#include "accuracy_oracle.h"
#undef REAL
#undef ORACLE
#define REAL         long double
#define ORACLE(name) name##_l
#include "accuracy_oracle.h"
#undef REAL
#undef ORACLE

#define LENGTH(a) ((int)(sizeof(a) / sizeof *(a)))

typedef long double wide;

static qn_tensor *elu(qn_tensor *x) {
    return qn_elu(x, 1.25);
}
static qn_tensor *leaky_relu(qn_tensor *x) {
    return qn_leaky_relu(x, 0.125);
}

static qn_tensor *celu(qn_tensor *x) {
    return qn_celu(x, 1.25);
}
static qn_tensor *softplus_beta(qn_tensor *x) {
    return qn_softplus_beta(x, 2, 20);
}
static qn_tensor *hardtanh(qn_tensor *x) {
    return qn_hardtanh(x, -2, 0.75);
}
static qn_tensor *threshold(qn_tensor *x) {
    return qn_threshold(x, 0.25, -3);
}

/* Quicker: where at most four bits of the sum cancel, double has enough, to 2^-24 ulp of an f32. */
static double logaddexp_near_d(double x, double y) {
    double most = fmax(x, y), sum = most + (log1p)((exp)(fmin(x, y) - most));
    return isfinite(x + y) && fabs(sum) * 16 > fabs(most) ? sum : logaddexp_d(x, y);
}

/* Right of 0, where their zeros keep all digits; trigamma has none. */
static qn_tensor *lgamma_right(qn_tensor *x) {
    return qn_lgamma(qn_abs(x));
}
static double lgamma_right_d(double x) {
    return (lgamma)(fabs(x));
}
static wide lgamma_right_l(wide x) {
    return lgammal(fabsl(x));
}
static qn_tensor *digamma_right(qn_tensor *x) {
    return qn_digamma(qn_abs(x));
}
static double digamma_right_d(double x) {
    return digamma_d(fabs(x));
}
static wide digamma_right_l(wide x) {
    return digamma_l(fabsl(x));
}

typedef struct row {
    const char *name;
    qn_tensor *(*one)(qn_tensor *);
    qn_tensor *(*two)(qn_tensor *, qn_tensor *);
    double (*one_d)(double), (*two_d)(double, double);
    wide (*one_l)(wide), (*two_l)(wide, wide);
    double bound32, bound64;
} row;

/* U: the oracle is above; N: with a quicker one of halves; L: it is libm's; 2: two arguments. */
#define U(name, f, b32, b64)  {#name, f, NULL, name##_d, NULL, name##_l, NULL, b32, b64},
#define L(name, f, b32, b64)  {#name, f, NULL, (name), NULL, name##l, NULL, b32, b64},
#define U2(name, f, b32, b64) {#name, NULL, f, NULL, name##_d, NULL, name##_l, b32, b64},
#define L2(name, f, b32, b64) {#name, NULL, f, NULL, (name), NULL, name##l, b32, b64},
#define N2(name, f, b32, b64) {#name, NULL, f, NULL, name##_near_d, NULL, name##_l, b32, b64},

static const row rows[] = {
    /* primitives */
    U(reciprocal, qn_reciprocal, 0.501, 0.501) L(sqrt, qn_sqrt, 0.501, 0.501) L(exp, qn_exp, 1, 1)
        L(exp2, qn_exp2, 1, 1) L(expm1, qn_expm1, 1, 1.2) L(log, qn_log, 1, 1)
            L(log2, qn_log2, 1, 1) L(log1p, qn_log1p, 1, 1) L(sin, qn_sin, 1, 1)
                L(cos, qn_cos, 1, 1) L(atan, qn_atan, 1, 1) L(tanh, qn_tanh, 1, 1.1)
                    U(sigmoid, qn_sigmoid, 1.75, 1.75) L(erf, qn_erf, 1, 1) L(erfc, qn_erfc, 1.8, 2)
                        L2(pow, qn_pow, 1, 1) U2(div, qn_div, 0.501, 0.501)
                            U2(mod, qn_mod, 0.501, 0.501)
    /* composed */
    U(relu, qn_relu, 0, 0) U(relu6, qn_relu6, 0, 0) U(sign, qn_sign, 0, 0)
        U(square, qn_square, 0.501, 0.501) U(rsqrt, qn_rsqrt, 2, 2) L(log10, qn_log10, 2, 2)
            L(cbrt, qn_cbrt, 2, 2) L(tan, qn_tan, 2, 2) L(sinh, qn_sinh, 2, 2)
                L(cosh, qn_cosh, 2, 2) L(asin, qn_asin, 2, 2) L(acos, qn_acos, 2, 2)
                    L(asinh, qn_asinh, 2, 2) L(acosh, qn_acosh, 2, 2) L(atanh, qn_atanh, 2, 2)
                        U(silu, qn_silu, 2, 2) U(gelu, qn_gelu, 2, 2)
                            U(gelu_tanh, qn_gelu_tanh, 2, 2) U(softplus, qn_softplus, 2, 2)
                                U(log_sigmoid, qn_log_sigmoid, 2, 2) U(mish, qn_mish, 2, 2)
                                    U(hardsigmoid, qn_hardsigmoid, 2, 2)
                                        U(hardswish, qn_hardswish, 2, 2) U(elu, elu, 2, 2)
                                            U(selu, qn_selu, 2, 2) U(leaky_relu, leaky_relu, 2, 2)
                                                L2(atan2, qn_atan2, 2, 2) L2(hypot, qn_hypot, 2, 2)
                                                    N2(logaddexp, qn_logaddexp, 2, 2)
                                                        U2(rem, qn_rem, 0.501, 0.501)
    /* and more of them */
    U(logit, qn_logit, 2, 2) U(sinc, qn_sinc, 2, 2) U(softsign, qn_softsign, 2, 2)
        U(celu, celu, 2, 2) U(softplus_beta, softplus_beta, 2, 2) L2(copysign, qn_copysign, 0, 0)
            U2(heaviside, qn_heaviside, 0, 0) U(hardtanh, hardtanh, 0, 0)
                U(threshold, threshold, 0, 0)
    /* of the gamma function */
    U(lgamma_right, lgamma_right, 0.51, 2) U(digamma_right, digamma_right, 0.51, 2)
        U(trigamma, qn_trigamma, 0.51, 2)};
#undef U
#undef L
#undef U2
#undef L2
#undef N2

/* ---- units in the last place ---------------------------------------------------------------- */

typedef struct format {
    qn_dtype dtype;
    int bits, lowest, highest; /* 2^lowest: smallest subnormal; 2^highest: the first to overflow */
    double half;               /* what a half's bound is more than that of its f32 rounded */
} format;

static const format formats[] = {{QN_F16, 11, -24, 16, 0},
                                 {QN_BF16, 8, -133, 128, 0},
                                 {QN_F32, 24, -149, 128, 0},
                                 {QN_F64, 53, -1074, 1024, 0}};
enum { F16, BF16, F32, F64 };

static double ulps(const format *f, wide got, wide want) {
    wide over = ldexpl(1, f->highest);
    int e;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    if (signbit(want) != signbit(got)) return (double)INFINITY;
    if (want == 0) return got == 0 ? 0 : (double)INFINITY;
    if (isinf(want) && isinf(got)) return 0;
    want = fminl(fabsl(want), over);
    got = fminl(fabsl(got), over);
    frexpl(want, &e);
    e = e - f->bits > f->lowest ? e - f->bits : f->lowest;
    return (double)ldexpl(fabsl(got - want), -e);
}

typedef struct worst {
    double error, at[2], got;
    wide want;
} worst;

/* ---- one block on the device ---------------------------------------------------------------- */

enum { BLOCK = 1 << 16 };

static qn_ctx *qn;

typedef union element {
    uint64_t bits;
    double f64;
    float f32;
} element;

static double half_number(qn_dtype d, uint16_t h) {
    if (d == QN_BF16) {
        uint32_t b = (uint32_t)h << 16;
        float v;
        memcpy(&v, &b, sizeof v);
        return (double)v;
    }
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY)
               : e     ? ldexp(1024 + m, e - 25)
                       : ldexp((double)m, -24);
    return h >> 15 ? -v : v;
}

static double halves[2][1 << 16]; /* all of them; of bf16 the second row */

static void know_halves(void) {
    for (int h = 0; h < 1 << 16; h++) {
        halves[0][h] = half_number(QN_F16, (uint16_t)h);
        halves[1][h] = half_number(QN_BF16, (uint16_t)h);
    }
}

static inline double number(qn_dtype d, const void *p, int i) {
    if (d == QN_F64) return ((const double *)p)[i];
    if (d == QN_F32) return (double)((const float *)p)[i];
    return halves[d == QN_BF16][((const uint16_t *)p)[i]];
}

/* Is the result the float nearest to the true value? Then no other can be further ahead. */
static inline bool nearest(qn_dtype d, const void *p, int i, double want) {
    float v = (float)want;
    return d == QN_F32 && memcmp((const float *)p + i, &v, sizeof v) == 0;
}

/* At a glance, of what is narrower than double: no more than `error` off? false: ask ulps. */
static inline bool within(const format *f, double got, double want, double error) {
    element w = {.f64 = want}, unit;
    if (f->dtype == QN_F64 || !signbit(got) != !signbit(want)) return false;
    if (got == want) return true;
    if (isinf(got)) return fabs(want) >= ldexp(1, f->highest);
    int e = (int)(w.bits >> 52 & 2047) - 1022 - f->bits;
    unit.bits = (uint64_t)((e > f->lowest ? e : f->lowest) + 1023) << 52;
    return want != 0 && fabs(got - want) <= error * unit.f64;
}

static void look(const format *f, wide want, double got, double p, double q, worst *w) {
    double e = ulps(f, (wide)got, want);
    if (e > w->error) *w = (worst){e, {p, q}, got, want};
}

static void compare_wide(const row *r, const format *f, int n, const void *x, const void *y,
                         const void *out, worst *w) {
    for (int i = 0; i < n; i++) {
        double p = number(QN_F64, x, i), q = y ? number(QN_F64, y, i) : 0;
        look(f, r->one ? r->one_l((wide)p) : r->two_l((wide)p, (wide)q), number(QN_F64, out, i), p,
             q, w);
    }
}

static void compare_narrow(const row *r, const format *f, int n, const void *x, const void *y,
                           const void *out, worst *w) {
    const qn_dtype d = f->dtype;
    for (int i = 0; i < n; i++) {
        double p = number(d, x, i), q = y ? number(d, y, i) : 0;
        double got = number(d, out, i), want = r->one ? r->one_d(p) : r->two_d(p, q);
        if (w->error >= 0.5 && nearest(d, out, i, want)) continue;
        if (isnan(want) && isnan(got)) continue;
        if (!within(f, got, want, w->error)) look(f, (wide)want, got, p, q, w);
    }
}

/* Values of r at the n elements of x (and y), which are in `f`'s format. */
static void judge(const row *r, const format *f, int n, const void *x, const void *y, worst *w) {
    static char out[BLOCK * 8];
    qn_scope s = qn_scope_begin(qn);
    const int64_t shape = n;
    qn_tensor *a = qn_from(qn, f->dtype, 1, &shape, x);
    qn_tensor *v = r->one ? r->one(a) : r->two(a, qn_from(qn, f->dtype, 1, &shape, y));
    if (qn_read(v, out, (size_t)n * qn_dtype_size(f->dtype))) FAIL("%s: %s", r->name, qn_error(qn));
    qn_clear_error(qn);
    qn_scope_end(qn, s);
    if (f->dtype == QN_F64)
        compare_wide(r, f, n, x, y, out, w);
    else
        compare_narrow(r, f, n, x, y, out, w);
}

/* ---- which elements ------------------------------------------------------------------------- */

static uint64_t seed;

/* All halves; of pairs of them, where the second goes with the first. */
static worst whole_halves(const row *r, const format *f) {
    static uint16_t x[BLOCK], y[BLOCK];
    worst w = {0};
    for (int k = 0; k < (r->one ? 1 : 24); k++) {
        for (int i = 0; i < BLOCK; i++) {
            x[i] = (uint16_t)i;
            y[i] = (uint16_t)(k < 12 ? i + (k - 6) * (k - 6) * (k - 6) : (int)test_rand(&seed));
        }
        judge(r, f, BLOCK, x, r->one ? NULL : y, &w);
    }
    return w;
}

/* Every step-th float of a range of patterns. */
static worst floats(const row *r, uint64_t from, uint64_t to, uint64_t step) {
    static uint32_t x[BLOCK];
    worst w = {0};
    while (from < to) {
        int n = 0;
        for (; n < BLOCK && from < to; from += step) x[n++] = (uint32_t)from;
        judge(r, &formats[F32], n, x, NULL, &w);
    }
    return w;
}

/* Every step-th pair of halves, of a range of both patterns. */
static worst pairs(const row *r, uint64_t from, uint64_t to, uint64_t step) {
    static uint16_t x[BLOCK], y[BLOCK];
    worst w = {0};
    while (from < to) {
        int n = 0;
        for (; n < BLOCK && from < to; from += step) {
            x[n] = (uint16_t)(from >> 16);
            y[n++] = (uint16_t)from;
        }
        judge(r, &formats[F16], n, x, y, &w);
    }
    return w;
}

/* A number of either sign: any pattern, near a power of two, or of moderate size. */
static uint64_t draw(const format *f) {
    uint64_t bits = test_rand(&seed);
    element e = {.bits = bits};
    if (bits & 0x100000) return f->dtype == QN_F64 ? bits : bits & 0xffffffff;
    double v = ldexp(test_uniform(&seed) * 2 - 1, (int)test_below(&seed, 12) - 2);
    if (f->dtype == QN_F64) {
        e.f64 = v;
    } else {
        e.bits = 0;
        e.f32 = (float)v;
    }
    return e.bits;
}

static worst drawn(const row *r, const format *f, int blocks) {
    static union {
        uint32_t narrow[BLOCK];
        uint64_t wide_[BLOCK];
    } x, y;
    worst w = {0};
    for (int k = 0; k < blocks; k++) {
        for (int i = 0; i < BLOCK; i++) {
            uint64_t a = draw(f), b = draw(f);
            if (f->dtype == QN_F64)
                x.wide_[i] = a, y.wide_[i] = b;
            else
                x.narrow[i] = (uint32_t)a, y.narrow[i] = (uint32_t)b;
        }
        judge(r, f, BLOCK, &x, r->one ? NULL : &y, &w);
    }
    return w;
}

/* ---- as a test ------------------------------------------------------------------------------ */

static double bound_of(const row *r, const format *f) {
    if (f->dtype == QN_F64) return r->bound64;
    if (f->dtype == QN_F32) return r->bound32;
    return r->bound32 <= 0.51 ? r->bound32 : 0.51;
}

static void hold(const row *r, const format *f, worst w) {
    if (w.error > bound_of(r, f))
        FAIL("%s of %s is %.3g ulp off at %a, %a: %a, not %La", r->name, qn_dtype_name(f->dtype),
             w.error, w.at[0], w.at[1], w.got, w.want);
}

static void every_half_is_rounded_once(void) {
    for (int i = 0; i < LENGTH(rows); i++)
        for (int k = F16; k <= BF16; k++)
            hold(&rows[i], &formats[k], whole_halves(&rows[i], &formats[k]));
}

/* A prime step, so that significands of all kinds come up at every exponent. */
static void floats_stay_within_their_bounds(void) {
    for (int i = 0; i < LENGTH(rows); i++)
        hold(&rows[i], &formats[F32],
             rows[i].one ? floats(&rows[i], 0, (uint64_t)1 << 32, 16411)
                         : drawn(&rows[i], &formats[F32], 4));
}

static void doubles_stay_within_their_bounds(void) {
    for (int i = 0; i < LENGTH(rows); i++)
        hold(&rows[i], &formats[F64], drawn(&rows[i], &formats[F64], 2));
}

/* ---- the tally of a sweep, and the table ---------------------------------------------------- */

enum { RANGES = 16, COARSE = 257 };

typedef struct tally {
    char code[64];         /* of what is measured */
    uint64_t step[RANGES]; /* 0: not done */
    worst of[RANGES];
} tally;

typedef struct kernels {
    uint64_t hash;
    bool last; /* a kernel is being told as the last pass left it */
} kernels;

/* The kernels' text behind the last pass: unscheduled it is the same on all machines. */
static void hash_line(void *user, const char *line) {
    kernels *k = user;
    if (!strncmp(line, "k after ", 8)) k->last = !strncmp(line + 8, "place_barriers", 14);
    for (; k->last && *line; line++) k->hash = (k->hash ^ (unsigned char)*line) * 0x100000001b3;
}

static uint64_t kernels_of(const row *r, qn_dtype dtype) {
    kernels k = {0xcbf29ce484222325, false};
    qn_options options = QN_OPTIONS(.log = hash_line, .log_user = &k);
    const int64_t shape = 64;
    static const double zeros[64];
    char out[512];
    qn_ctx *ctx = qn_open(&options);
    qn_tensor *a = qn_from(ctx, dtype, 1, &shape, zeros);
    qn_tensor *v = r->one ? r->one(a) : r->two(a, qn_from(ctx, dtype, 1, &shape, zeros));
    if (qn_read(v, out, 64 * qn_dtype_size(dtype))) FAIL("%s: %s", r->name, qn_error(ctx));
    qn_close(ctx);
    return k.hash;
}

/* Of what a function computes, whatever else there is beside it. */
static void know_kernels(const char *code, tally t[LENGTH(rows)]) {
    setenv("QN_DEBUG", "k", 1);
    setenv("QN_SCHEDULE", "0", 1);
    setenv("QN_CACHE", "off", 1);
    for (int i = 0; i < LENGTH(rows); i++)
        snprintf(
            t[i].code, sizeof t[i].code, "%.20s-%016llx", code,
            (unsigned long long)(kernels_of(&rows[i], QN_F32) * 31 + kernels_of(&rows[i], QN_F16)));
    unsetenv("QN_DEBUG");
    unsetenv("QN_SCHEDULE");
    unsetenv("QN_CACHE");
}

/* Lines of function, range, step, code, error, arguments, result; without those of other code. */
static void tally_read(const char *path, const char *code, tally t[LENGTH(rows)]) {
    know_kernels(code, t);
    FILE *file = fopen(path, "r");
    char name[64], of[64];
    int range;
    unsigned long long step;
    worst w = {0};
    while (file && fscanf(file, "%63s %d %llu %63s %lf %lf %lf %lf", name, &range, &step, of,
                          &w.error, &w.at[0], &w.at[1], &w.got) == 8)
        for (int i = 0; i < LENGTH(rows); i++) {
            if (strcmp(name, rows[i].name) || strcmp(of, t[i].code) || range < 0 || range >= RANGES)
                continue;
            if (t[i].step[range] && t[i].step[range] <= step) continue;
            t[i].step[range] = step;
            t[i].of[range] = w;
        }
    if (file) fclose(file);
}

/* What is known, once. */
static FILE *tally_write(const char *path, const tally t[LENGTH(rows)]) {
    FILE *file = fopen(path, "w");
    for (int i = 0; i < LENGTH(rows) && file; i++)
        for (int r = 0; r < RANGES; r++) {
            const worst *w = &t[i].of[r];
            if (t[i].step[r])
                fprintf(file, "%s %d %llu %s %.4f %a %a %a\n", rows[i].name, r,
                        (unsigned long long)t[i].step[r], t[i].code, w->error, w->at[0], w->at[1],
                        w->got);
        }
    return file;
}

/* false: the time is over. */
static bool sweep_by(tally t[LENGTH(rows)], uint64_t step, time_t end, const char *path) {
    for (int i = 0; i < LENGTH(rows); i++)
        for (int r = 0; r < RANGES; r++) {
            uint64_t from = (uint64_t)r << 28, to = (uint64_t)(r + 1) << 28;
            if (t[i].step[r] && t[i].step[r] <= step) continue;
            if (time(NULL) > end) return false;
            t[i].of[r] =
                rows[i].one ? floats(&rows[i], from, to, step) : pairs(&rows[i], from, to, step);
            t[i].step[r] = step;
            FILE *file = tally_write(path, t);
            if (!file || fclose(file)) return false;
        }
    return true;
}

static int sweep(const char *path, const char *code, uint64_t step, double seconds) {
    static tally t[LENGTH(rows)];
    time_t end = time(NULL) + (time_t)seconds;
    if (!step) return 1;
    tally_read(path, code, t);
    return sweep_by(t, step > COARSE ? step : COARSE, end, path) && sweep_by(t, step, end, path)
               ? 0
               : 2;
}

/* The worst of all ranges, and how many were judged. */
static worst swept(const tally *t, double *judged) {
    worst w = {0};
    *judged = 0;
    for (int r = 0; r < RANGES; r++) {
        if (!t->step[r]) continue;
        *judged += 0x1p28 / (double)t->step[r];
        if (t->of[r].error > w.error) w = t->of[r];
    }
    return w;
}

static void table_row(const row *r, const tally *t) {
    double judged;
    worst w = swept(t, &judged), f16 = whole_halves(r, &formats[F16]);
    worst bf16 = whole_halves(r, &formats[BF16]), f64 = drawn(r, &formats[F64], 2);
    worst f32 = r->one && judged > 0 ? w : drawn(r, &formats[F32], 4);
    if (r->two && w.error > f16.error) f16 = w;
    printf("| `%s` | %.3f | %.3f | %.3f | %a", r->name, f16.error, bf16.error, f32.error,
           f32.at[0]);
    if (r->two) printf(", %a", f32.at[1]);
    printf(" | %.3f | %a", f64.error, f64.at[0]);
    if (r->two) printf(", %a", f64.at[1]);
    printf(judged >= 0x1p32 ? " | all |\n" : " | %.2g |\n", judged);
}

/* What `make accuracy` says of functions that are judged elsewhere, by tests/math/test_math.c. */
static const char cancelling[] =
    "No row here are the functions below: they cancel near zeros of theirs, where a unit of the "
    "value's\n"
    "own last place has no lower end, while the argument's last place alone moves the value by "
    "many. There\n"
    "errors are held, by `make test`, in units of the larger of the two terms that are added:\n"
    "\n"
    "| function | where | f32 | f64 |\n"
    "| --- | --- | --- | --- |\n"
    "| `lgamma` | left of 0, zeros between its poles | 0.51 units of 2^-6 of the larger term, at "
    "least of the value | 2.4 |\n"
    "| `digamma` | left of 0, zeros between its poles | 0.51, as `lgamma` | 2.0 |\n"
    "| `silu_slope` | its zero at -1.278 | 3.2 | 3.2 |\n"
    "| `gelu_slope` | its zero at -0.752 | 2.0 | 5.25 |\n"
    "| `gelu_tanh_slope` | its zero at -0.753 | 5.0 | 5.0 |\n"
    "\n"
    "In units of the value some thousands were seen of `lgamma` and `digamma` of f64 beside a zero "
    "(2,977 and\n"
    "3,993). `lgamma_right` and `digamma_right` are the same functions right of 0.\n"
    "\n";

static int table(const char *path, const char *code, const char *when) {
    static tally t[LENGTH(rows)];
    tally_read(path, code, t);
    printf("# Accuracy\n\nThe largest errors in units of the true value's last place (ulp), on "
           "`cpu`, against libm in a wider type,\nmeasured %s; `make accuracy` goes on with it. "
           "Swept: so many of the\n2^32 floats, evenly spread; of two arguments pairs of f16 "
           "(of bf16 1.5 M, of f32 0.26 M drawn). f64: 0.13 M\ndrawn. Infinities, NaN and the "
           "signs of zeros are those of the true value everywhere. Against double a half or\n"
           "f32 is known to 2^-29 ulp (`logaddexp` of f32 to 2^-24), an f64 against the 64 bits of "
           "long double to 2^-11: no "
           "figure here is a matter of how the\noracle rounds, but for the last digits of "
           "0.500.\n\n",
           when);
    printf("%s", cancelling);
    printf("| function | f16 | bf16 | f32 | at | f64 | at | swept |\n");
    printf("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < LENGTH(rows); i++) table_row(&rows[i], &t[i]);
    return test_state.bad;
}

int main(int argc, char **argv) {
    int code = -1;
    test_begin(argc, argv);
    know_halves();
    qn = qn_open(NULL);
    if (argc == 6 && !strcmp(argv[1], "--sweep"))
        code = sweep(argv[2], argv[3], strtoull(argv[4], NULL, 10), atof(argv[5]));
    if (argc == 5 && !strcmp(argv[1], "--table")) code = table(argv[2], argv[3], argv[4]);
    if (code >= 0) {
        qn_close(qn);
        return code;
    }
    RUN(every_half_is_rounded_once);
    RUN(floats_stay_within_their_bounds);
    RUN(doubles_stay_within_their_bounds);
    qn_close(qn);
    return test_end();
}
