/* complex_numbers.h - complex numbers for tests: made at random, read back from tensors, and
 * functions of them in long double, by C99's. */
#ifndef COMPLEX_NUMBERS_H
#define COMPLEX_NUMBERS_H

#include "api.h"
#include "graph/graph.h"
#include "quern.h"

#include <complex.h>

#ifndef CMPLX /* glibc has them for gcc alone */
#define CMPLX(x, y)  __builtin_complex((double)(x), (double)(y))
#define CMPLXF(x, y) __builtin_complex((float)(x), (float)(y))
#define CMPLXL(x, y) __builtin_complex((long double)(x), (long double)(y))
#endif

typedef long double _Complex wide;
typedef double _Complex number;
typedef float _Complex single;

enum { MOST = 4096 };
static qn_ctx *qn;
static const char *const devices[] = {"cpu", "ref"};

static void no_error(const char *what) {
    if (qn_error_code(qn)) FAIL("%s: %s", what, qn_error(qn));
    qn_clear_error(qn);
}

static inline double uniform(uint64_t *seed, double lo, double hi) {
    return lo + (hi - lo) * test_uniform(seed);
}

/* By memory: gcc 12 leaves out the rounding where it makes a vector of two. */
static inline double as_float(double x) {
    volatile float y = (float)x;
    return y;
}

/* Numbers that c64 has exactly. */
static inline void fill(number *z, int64_t n, uint64_t seed, double size) {
    for (int64_t i = 0; i < n; i++)
        z[i] = CMPLX(as_float(uniform(&seed, -size, size)), as_float(uniform(&seed, -size, size)));
}

static inline qn_tensor *made(qn_dtype d, int rank, const int64_t *dims, const number *z) {
    qn_tensor *t = qn_from(qn, QN_C128, rank, dims, z);
    return d == QN_C128 ? t : qn_cast(t, d);
}

static inline qn_tensor *vector(qn_dtype d, int64_t n, const number *z) {
    return made(d, 1, &n, z);
}

/* Values of a tensor, complex or real. */
static void values(qn_tensor *t, number *out, int64_t n, const char *what) {
    bool fits = t && qn_numel(t) == n;
    if (!fits) FAIL("%s: %s, of %lld numbers", what, qn_error(qn), t ? (long long)qn_numel(t) : -1);
    qn_scope s = qn_scope_begin(qn);
    for (int64_t i = 0; i < n; i++) out[i] = NAN;
    if (fits && qn_read(qn_cast(t, QN_C128), out, (size_t)n * sizeof *out)) no_error(what);
    qn_scope_end(qn, s);
}

/* |got - want| over |want|, or over 1 where that is less. */
static inline double error_of(number got, wide want, double least) {
    wide off = (wide)got - want;
    long double size = cabsl(want);
    if (got == (number)want) return 0;
    return (double)(cabsl(off) / (size > least ? size : least));
}

/* ---- by element ------------------------------------------------------------------------------ */

typedef struct function {
    const char *name;
    qn_tensor *(*of)(qn_tensor *x);
    wide (*oracle)(wide z);
    double size, units; /* of arguments; errors allowed, in roundings */
} function;

static wide sign_of(wide z) {
    return z / cabsl(z);
}
static wide reciprocal_of(wide z) {
    return 1 / z;
}
static wide square_of(wide z) {
    return z * z;
}
static wide rsqrt_of(wide z) {
    return 1 / csqrtl(z);
}
static wide exp2_of(wide z) {
    return cexpl(z * 0.69314718055994530941723212145817657L);
}
static wide expm1_of(wide z) {
    long double half = sinl(cimagl(z) / 2);
    return CMPLXL(expm1l(creall(z)) * cosl(cimagl(z)) - 2 * half * half,
                  expl(creall(z)) * sinl(cimagl(z)));
}
static wide log1p_of(wide z) {
    long double x = creall(z), y = cimagl(z);
    if (cabsl(z) > 0.5L) return clogl(1 + z);
    return CMPLXL(log1pl(x * (2 + x) + y * y) / 2, atan2l(y, 1 + x));
}
static wide log2_of(wide z) {
    return clogl(z) / 0.69314718055994530941723212145817657L;
}
static wide log10_of(wide z) {
    return clogl(z) / 2.30258509299404568401799145468436421L;
}
static wide sigmoid_of(wide z) {
    wide e = cexpl(creall(z) < 0 ? z : -z);
    return (creall(z) < 0 ? e : 1) / (1 + e);
}
static wide abs_of(wide z) {
    return cabsl(z);
}
static wide angle_of(wide z) {
    return cargl(z);
}
static wide neg_of(wide z) {
    return -z;
}
static wide real_of(wide z) {
    return creall(z);
}
static wide imag_of(wide z) {
    return cimagl(z);
}

static const function functions[] = {
    {"neg", qn_neg, neg_of, 5, 0},
    {"conj", qn_conj, conjl, 5, 0},
    {"real", qn_real, real_of, 5, 0},
    {"imag", qn_imag, imag_of, 5, 0},
    {"abs", qn_abs, abs_of, 5, 4},
    {"angle", qn_angle, angle_of, 5, 4},
    {"sign", qn_sign, sign_of, 5, 8},
    {"square", qn_square, square_of, 5, 4},
    {"reciprocal", qn_reciprocal, reciprocal_of, 5, 8},
    {"sqrt", qn_sqrt, csqrtl, 5, 8},
    {"rsqrt", qn_rsqrt, rsqrt_of, 5, 12},
    {"exp", qn_exp, cexpl, 5, 8},
    {"exp2", qn_exp2, exp2_of, 5, 16},
    {"expm1", qn_expm1, expm1_of, 2, 8},
    {"log", qn_log, clogl, 5, 8},
    {"log1p", qn_log1p, log1p_of, 5, 16},
    {"log2", qn_log2, log2_of, 5, 8},
    {"log10", qn_log10, log10_of, 5, 8},
    {"sin", qn_sin, csinl, 5, 8},
    {"cos", qn_cos, ccosl, 5, 8},
    {"tan", qn_tan, ctanl, 5, 16},
    {"sinh", qn_sinh, csinhl, 5, 8},
    {"cosh", qn_cosh, ccoshl, 5, 8},
    {"tanh", qn_tanh, ctanhl, 12, 16},
    {"asin", qn_asin, casinl, 5, 16},
    {"acos", qn_acos, cacosl, 5, 16},
    {"atan", qn_atan, catanl, 5, 16},
    {"asinh", qn_asinh, casinhl, 5, 16},
    {"acosh", qn_acosh, cacoshl, 5, 16},
    {"atanh", qn_atanh, catanhl, 5, 16},
    {"sigmoid", qn_sigmoid, sigmoid_of, 2, 24},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

#endif
