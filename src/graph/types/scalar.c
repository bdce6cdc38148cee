/* scalar.c - what the ELEM rows of ops.h mean, on scalars: for folding and for the oracle.
 *
 * The F and I columns are C expressions over x, y and z, expanded here into one switch for doubles
 * and one each for int64_t and uint64_t, with a loop over the elements in each case, so that the
 * oracle runs long arrays through the same code that folds one constant. Float results are computed
 * in double and rounded once to the dtype, which for + - * / and sqrt gives exactly the dtype's own
 * correctly rounded result; where the C library's double is off by several units, the row asks for
 * its long double. Integers are computed in 64 bits and wrapped; since every row is a
 * function of the wrapped values only, that is the narrower type's arithmetic.
 *
 * A row without a formula has "-" there. Each formula is followed by "- 0", which leaves a value as
 * it is (also -0.0) and makes "-" into the expression "- - 0"; such a case is never reached.
 *
 * Three rows need more than a formula on doubles and are handled before the switch: casts and
 * bitcasts look at two dtypes, and the two rows that round within (fma, floor_div) must do so in
 * the dtype. */
#include "graph/graph.h"

#include <float.h>
#include <math.h>

/* ---- functions the rows use ----------------------------------------------------------------- */

static double float_max(double x, double y) {
    if (isnan(x)) return x;
    if (isnan(y)) return y;
    return x > y ? x : y;
}

static double float_min(double x, double y) {
    if (isnan(x)) return x;
    if (isnan(y)) return y;
    return x < y ? x : y;
}

/* The exponential cannot overflow, and nothing is lost of small results. */
static double float_sigmoid(double x) {
    long double e = expl(-fabsl(x));
    return (double)((x < 0 ? e : 1) / (1 + e));
}

static double float_softplus(double x) {
    return (double)((x > 0 ? x : 0) + log1pl(expl(-fabsl(x))));
}

/* The two terms cancel where the result is near 0. */
static double float_logaddexp(double x, double y) {
    double most = x < y ? y : x, least = x < y ? x : y;
    long double apart = x == y ? 0 : (long double)most - (long double)least;
    return (double)((long double)most + log1pl(expl(-apart)));
}

/* Right of 0 as what is taken off x, or off 1, so that only the left needs digits. */
static double float_silu(double x) {
    long double t = fminl(fabsl(x), 2000);
    return (double)((x < 0 ? -0.0L : (long double)x) - t / (1 + expl(t)));
}

static double float_silu_slope(double x) {
    long double t = fminl(fabsl(x), 2000), e = expl(t), h = (1 - t * (e / (1 + e))) / (1 + e);
    return isnan(x) ? x : (double)(x < 0 ? h : 1 - h);
}

static double float_gelu(double x) {
    long double t = fminl(fabsl(x), 60);
    long double h = t * (erfcl(t * 0.70710678118654752440084L) / 2);
    return (double)((x < 0 ? -0.0L : (long double)x) - h);
}

static double float_gelu_slope(double x) {
    long double t = fminl(fabsl(x), 60), c = 0.3989422804014326779399L;
    long double h = erfcl(t * 0.70710678118654752440084L) / 2 - t * c * expl(-t * t / 2);
    return isnan(x) ? x : (double)(x < 0 ? h : 1 - h);
}

static double float_gelu_tanh(double x) {
    long double t = fminl(fabsl(x), 40);
    long double z = 1.5957691216057307117598L * (t + 0.044715L * t * t * t);
    return (double)((x < 0 ? -0.0L : (long double)x) - t / (1 + expl(z)));
}

static double float_gelu_tanh_slope(double x) {
    long double t = fminl(fabsl(x), 40), k = 1.5957691216057307117598L;
    long double e = expl(k * (t + 0.044715L * t * t * t)), q = 1 / (1 + e);
    long double h = q * (1 - t * k * (1 + 3 * 0.044715L * t * t) * (1 - q));
    return isnan(x) ? x : (double)(x < 0 ? h : 1 - h);
}

/* tanh(log(1 + n)) = a / (1 + a) with a = n + n^2/2. */
static double float_mish(double x) {
    long double n = expl(fminl(x, 1000)), a = n + n * n / 2;
    return x > 1000 ? x : (double)((x < -2000 ? -2000 : (long double)x) * (a / (1 + a)));
}

#define PI 3.14159265358979323846264338L

/* By the gamma function itself, and near its value 1 by Taylor's series; libm's lgamma leaves a
 * sign in a global variable. */
static double float_lgamma(double x) {
    long double t = fabsl(x), s = (t - 0.5L) * logl(t) - t + logl(2 * PI) / 2 + 1 / (12 * t);
    if (isinf(x) || (x <= 0 && x == floor(x))) return (double)INFINITY;
    if (x == 1 || x == 2) return 0; /* and no -0 */
    if (t > 1000 && x < 0) return (double)(logl(PI / (t * fabsl(sinl(PI * (t - rintl(t)))))) - s);
    if (t > 1000) return (double)(s - 1 / (360 * t * t * t));
    long double one = (long double)x - 1, two = (long double)x - 2;
    if (fabsl(one) < 1e-7L)
        return (double)(one * (-0.577215664901532860606512L +
                               one * (PI * PI / 12 - one * 0.400685634386531428467L)));
    if (fabsl(two) < 1e-7L)
        return (double)(two * (0.422784335098467139393488L +
                               two * (PI * PI / 12 - 0.5L - two * 0.0673523010531980951333L)));
    return (double)logl(fabsl(tgammal(x)));
}

/* From 16 on the asymptotic series, to there by the recurrence, and left of 0 by reflection. */
static double float_digamma(double x) {
    static const long double c[] = {1 / 12.L,  -1 / 120.L,     1 / 252.L, -1 / 240.L,
                                    1 / 132.L, -691 / 32760.L, 1 / 12.L,  -3617 / 8160.L};
    long double t = x, y = 0;
    if (isinf(x) || x == 0) return x == 0 ? -1 / x : x > 0 ? x : (double)NAN;
    if (x < 0) y = -PI / tanl(PI * (t - rintl(t))), t = 1 - t;
    if (x < 0 && x == floor(x)) return (double)NAN;
    for (; t < 16; t++) y -= 1 / t;
    long double u = 1 / (t * t), sum = 0;
    for (int i = sizeof c / sizeof *c; i-- > 0;) sum = (sum + c[i]) * u;
    return (double)(y + (logl(t) - 1 / (2 * t) - sum));
}

static double float_trigamma(double x) {
    static const long double b[] = {1 / 6.L,  -1 / 30.L,     1 / 42.L, -1 / 30.L,
                                    5 / 66.L, -691 / 2730.L, 7 / 6.L,  -3617 / 510.L};
    long double t = x < 0 ? 1 - (long double)x : x, y = 0, sum = 0;
    long double sine = x < 0 ? sinl(PI * (x - rintl(x))) / PI : 1;
    if (x == (double)INFINITY) return 0;
    if (sine == 0) return (double)INFINITY;
    for (; t < 16; t++) y += 1 / (t * t);
    long double u = 1 / (t * t);
    for (int i = sizeof b / sizeof *b; i-- > 0;) sum = (sum + b[i]) * u;
    y += (1 + sum) / t + u / 2;
    return (double)(x < 0 ? 1 / (sine * sine) - y : y);
}

/* Exact: fmod has x's sign and no rounding; bringing it to y's side adds y once. */
static double float_mod(double x, double y) {
    double r = fmod(x, y);
    if (r == 0) return copysign(0.0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

/* The floor of the exact quotient: what is left of x tells where the division rounded up to a whole
 * number. fma's sign is right whatever it rounds. All of x is left where q is 0, also of an
 * infinite y. An infinite x has no quotient, as it has no modulus, but by 0 the division's. */
static double float_floor_div(double x, double y) {
    double q = floor(x / y), left = q == 0 ? x : fma(-q, y, x);
    if (isinf(x) && y != 0) return (double)NAN;
    return (y < 0 ? -left : left) < 0 ? q - 1 : q;
}

static float single_floor_div(float x, float y) {
    float q = floorf(x / y), left = q == 0 ? x : fmaf(-q, y, x);
    if (isinf(x) && y != 0) return (float)NAN;
    return (y < 0 ? -left : left) < 0 ? q - 1 : q;
}

static int64_t signed_floor_div(int64_t x, int64_t y) {
    if (y == 0) return 0;
    if (y == -1) return (int64_t)(0 - (uint64_t)x); /* wraps for the smallest */
    int64_t q = x / y;
    return q - (x % y != 0 && (x < 0) != (y < 0));
}

static int64_t signed_mod(int64_t x, int64_t y) {
    if (y == 0 || y == -1) return 0;
    int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static uint64_t unsigned_floor_div(uint64_t x, uint64_t y) {
    return y ? x / y : 0;
}

static uint64_t unsigned_mod(uint64_t x, uint64_t y) {
    return y ? x % y : 0;
}

static uint64_t unsigned_pow(uint64_t x, uint64_t y) {
    uint64_t r = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1) r *= x;
    return r;
}

static int64_t signed_pow(int64_t x, int64_t y) {
    if (y >= 0) return (int64_t)unsigned_pow((uint64_t)x, (uint64_t)y);
    if (x == -1) return y & 1 ? -1 : 1;
    return x == 1;
}

/* A negative count is, as an unsigned one, past every width. */
static int64_t signed_shl(int64_t x, int64_t y) {
    return (uint64_t)y < 64 ? (int64_t)((uint64_t)x << y) : 0;
}

static int64_t signed_shr(int64_t x, int64_t y) {
    return x >> ((uint64_t)y < 64 ? y : 63);
}

static uint64_t unsigned_shl(uint64_t x, uint64_t y) {
    return y < 64 ? x << y : 0;
}

static uint64_t unsigned_shr(uint64_t x, uint64_t y) {
    return y < 64 ? x >> y : 0;
}

/* ---- the formulas --------------------------------------------------------------------------- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused-variable"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wbitwise-op-parentheses"
#endif

static void scalar_floats(int op, int64_t n, const scalar *a, const scalar *b, const scalar *c,
                          scalar *out) {
    switch (op) {
#define X(NAME, name, arity, CLASS, TYPES, F, I, ...)                                              \
    case OP_##NAME:                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            double x = a[i].f, y = b[i].f, z = c[i].f;                                             \
            out[i].f = F - 0;                                                                      \
        }                                                                                          \
        break;
#include "graph/ops.h"
#undef X
    default:
        break;
    }
}

#define int_floor_div signed_floor_div
#define int_mod       signed_mod
#define int_shl       signed_shl
#define int_shr       signed_shr
#define int_pow       signed_pow
static void scalar_signed(int op, int64_t n, const scalar *a, const scalar *b, const scalar *c,
                          scalar *out) {
    typedef int64_t T;
    switch (op) {
#define X(NAME, name, arity, CLASS, TYPES, F, I, ...)                                              \
    case OP_##NAME:                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T x = a[i].i, y = b[i].i, z = c[i].i;                                                  \
            out[i].i = I - 0;                                                                      \
        }                                                                                          \
        break;
#include "graph/ops.h"
#undef X
    default:
        break;
    }
}
#undef int_floor_div
#undef int_mod
#undef int_shl
#undef int_shr
#undef int_pow

#define int_floor_div unsigned_floor_div
#define int_mod       unsigned_mod
#define int_shl       unsigned_shl
#define int_shr       unsigned_shr
#define int_pow       unsigned_pow
static void scalar_unsigned(int op, int64_t n, const scalar *a, const scalar *b, const scalar *c,
                            scalar *out) {
    typedef uint64_t T;
    switch (op) {
#define X(NAME, name, arity, CLASS, TYPES, F, I, ...)                                              \
    case OP_##NAME:                                                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T x = (T)a[i].i, y = (T)b[i].i, z = (T)c[i].i;                                         \
            out[i].i = (int64_t)(I - 0);                                                           \
        }                                                                                          \
        break;
#include "graph/ops.h"
#undef X
    default:
        break;
    }
}

#pragma GCC diagnostic pop

/* ---- bit patterns ---------------------------------------------------------------------------- */

scalar scalar_number(qn_dtype dtype, double v) {
    uint64_t element = 0;
    dtype_set_f(dtype, &element, 0, v);
    return scalar_from_bits(dtype, element);
}

uint64_t scalar_bits(qn_dtype dtype, scalar v) {
    uint64_t bits = 0;
    if (dtype_is_float(dtype))
        dtype_set_f(dtype, &bits, 0, v.f);
    else
        dtype_set_i(dtype, &bits, 0, v.i);
    return bits;
}

scalar scalar_from_bits(qn_dtype dtype, uint64_t bits) {
    if (dtype_is_float(dtype)) return (scalar){.f = dtype_get_f(dtype, &bits, 0)};
    return (scalar){.i = dtype_get_i(dtype, &bits, 0)};
}

int64_t scalar_to_word(qn_dtype dtype, uint64_t bits) {
    scalar v = scalar_from_bits(dtype, bits);
    if (!dtype_is_float(dtype)) return v.i;
    return (int64_t)(dtype == QN_F64 ? bits : scalar_bits(QN_F32, v));
}

scalar scalar_from_word(qn_dtype dtype, int64_t word) {
    if (!dtype_is_float(dtype)) return (scalar){.i = word};
    return scalar_from_bits(dtype == QN_F64 ? QN_F64 : QN_F32, (uint64_t)word);
}

/* ---- one operation on n elements ------------------------------------------------------------ */

static void round_all(qn_dtype dtype, int64_t n, scalar *v) {
    if (dtype == QN_F32)
        for (int64_t i = 0; i < n; i++) v[i].f = (double)(float)v[i].f;
    else if (dtype != QN_F64)
        for (int64_t i = 0; i < n; i++) v[i].f = dtype_round(dtype, v[i].f);
}

static void wrap_all(qn_dtype dtype, int64_t n, scalar *v) {
    if (qn_dtype_size(dtype) < 8)
        for (int64_t i = 0; i < n; i++) v[i].i = dtype_wrap(dtype, v[i].i);
}

static void cast_all(qn_dtype to, qn_dtype from, int64_t n, const scalar *x, scalar *out) {
    bool from_float = dtype_is_float(from), to_float = dtype_is_float(to);
    if (from_float && !to_float) {
        for (int64_t i = 0; i < n; i++) {
            uint64_t element = 0;
            dtype_set_f(to, &element, 0, x[i].f);
            out[i].i = dtype_get_i(to, &element, 0);
        }
    } else if (from_float) {
        memmove(out, x, sizeof *x * (size_t)n);
        round_all(to, n, out);
    } else if (to_float && from == QN_U64) {
        for (int64_t i = 0; i < n; i++) out[i].f = dtype_from_u64(to, (uint64_t)x[i].i);
        round_all(to, n, out);
    } else if (to_float) {
        for (int64_t i = 0; i < n; i++) out[i].f = dtype_from_i64(to, x[i].i);
        round_all(to, n, out);
    } else if (to == QN_BOOL) {
        for (int64_t i = 0; i < n; i++) out[i].i = x[i].i != 0;
    } else {
        memmove(out, x, sizeof *x * (size_t)n);
        wrap_all(to, n, out);
    }
}

static bool bitcast_all(qn_dtype to, qn_dtype from, int64_t n, const scalar *x, scalar *out) {
    if (qn_dtype_size(to) != qn_dtype_size(from)) return false;
    for (int64_t i = 0; i < n; i++) out[i] = scalar_from_bits(to, scalar_bits(from, x[i]));
    return true;
}

/* x*y + z, whose product is exact, rounded to odd: rounding that once more is as good as rounding
 * once. Rounding to nearest is not: the sum may come to lie halfway between two narrow values. */
static double fma_odd(double x, double y, double z) {
    double p = x * y, sum = p + z, from_z = sum - p;
    double error = (p - (sum - from_z)) + (z - from_z);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (bits % 2 || !(error > 0 || error < 0)) return sum;
    bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
    memcpy(&sum, &bits, sizeof bits);
    return sum;
}

/* The two rows that round within. */
static bool inner_rounding(int op, qn_dtype dtype, int64_t n, const scalar *const arg[3],
                           scalar *out) {
    const scalar *x = arg[0], *y = arg[1], *z = arg[2];
    if (op == OP_FMA && dtype == QN_F32) {
        for (int64_t i = 0; i < n; i++)
            out[i].f = (double)fmaf((float)x[i].f, (float)y[i].f, (float)z[i].f);
        return true;
    }
    if (op == OP_FMA && dtype != QN_F64) {
        for (int64_t i = 0; i < n; i++) out[i].f = fma_odd(x[i].f, y[i].f, z[i].f);
        return true;
    }
    if (op != OP_FLOOR_DIV || dtype == QN_F64) return false;
    for (int64_t i = 0; i < n; i++)
        out[i].f = (double)single_floor_div((float)x[i].f, (float)y[i].f);
    return true;
}

bool scalar_ops(int op, qn_dtype dtype, qn_dtype in, int64_t n, const scalar *const arg[3],
                scalar *out) {
    if (op <= OP_NONE || op >= OP_COUNT || op_rows[op].class_ != CLASS_ELEM) return false;
    int arity = op_rows[op].arity;
    const scalar *x = arg[0], *y = arity < 2 ? x : arg[1], *z = arity < 3 ? x : arg[2];
    if (op == OP_BITCAST) return bitcast_all(dtype, in, n, x, out);
    if (op == OP_CAST) return cast_all(dtype, in, n, x, out), true;
    if (op == OP_WHERE) {
        for (int64_t i = 0; i < n; i++) out[i] = x[i].i ? y[i] : z[i];
        return true;
    }
    if (dtype_is_float(in)) {
        if (!op_rows[op].has_float) return false;
        if (!inner_rounding(op, dtype, n, (const scalar *[]){x, y, z}, out))
            scalar_floats(op, n, x, y, z, out);
        if (dtype_is_float(dtype))
            round_all(dtype, n, out);
        else
            for (int64_t i = 0; i < n; i++) out[i].i = out[i].f != 0;
        return true;
    }
    if (!op_rows[op].has_int) return false;
    if (dtype_is_unsigned(in))
        scalar_unsigned(op, n, x, y, z, out);
    else
        scalar_signed(op, n, x, y, z, out);
    wrap_all(dtype, n, out);
    return true;
}

bool scalar_op(int op, qn_dtype dtype, qn_dtype in, const scalar *x, scalar *out) {
    int n = op > OP_NONE && op < OP_COUNT ? op_rows[op].arity : 1;
    const scalar *const arg[3] = {x, n > 1 ? x + 1 : x, n > 2 ? x + 2 : x};
    return scalar_ops(op, dtype, in, 1, arg, out);
}
