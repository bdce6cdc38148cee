/* accuracy_oracle.h - what test_accuracy compares with: each function in a type far wider than the
 * one that is measured, from libm. Included twice, with REAL double (for f16, bf16 and f32) and
 * long double (for f64, where it has 11 bits to spare); ORACLE(name) names the functions.
 *
 * Where an exponential's argument is itself computed, what its rounding lost goes into the result
 * to first order: the relative error of e^z is the absolute one of z. */

#ifndef QN_ACCURACY_ORACLE_H
#define QN_ACCURACY_ORACLE_H
#ifdef __SIZEOF_FLOAT128__
__extension__ typedef __float128 oracle_quad;
#else
typedef long double oracle_quad;
#endif

/* e^x - 1 with x = n log(2) + r as 2^n (e^r - 1) and `power` 2^n: the Taylor series of r / 64, and
 * six times e^2r - 1 = (e^r - 1) (e^r - 1 + 2), which loses no digits near 0. */
static inline oracle_quad oracle_quad_expm1(long double x, oracle_quad *power) {
    int n = (int)rintl(x / M_LN2l);
    oracle_quad ln2 =
        (oracle_quad)0.6931471805599453094286905L + (oracle_quad)-1.145835272679873281094621e-20L;
    oracle_quad r = ((oracle_quad)x - n * ln2) / 64, e = 1;
    for (int i = 20; i > 1; i--) e = 1 + e * r / i;
    e *= r;
    for (int i = 0; i < 6; i++) e *= e + 2;
    *power = (oracle_quad)ldexpl(1, n);
    return e * *power;
}

/* By Newton's step from the logarithm of 64 bits. */
static inline oracle_quad oracle_quad_log(oracle_quad x) {
    oracle_quad power, e = oracle_quad_expm1(logl((long double)x), &power) + power;
    return (oracle_quad)logl((long double)x) + (x - e) / e;
}

/* digamma between 1 and 2, where its zero is: from 64 on nine terms of the asymptotic series. */
static inline oracle_quad oracle_quad_digamma(long double x) {
    static const int over[] = {12, -120, 252, -240, 132, -32760, 12, -8160, 14364};
    static const int part[] = {1, 1, 1, 1, 1, 691, 1, 3617, 43867};
    oracle_quad z = x, sum = 0, tail = 0;
    for (; z < 64; z += 1) sum += 1 / z;
    for (int i = 8; i >= 0; i--) tail = (tail + (oracle_quad)part[i] / over[i]) / (z * z);
    return oracle_quad_log(z) - 1 / (2 * z) - tail - sum;
}
#endif

/* e^-(t + d) and the like: f(t) corrected by f'(t) / f(t) = slope for the small d. */
static inline REAL ORACLE(corrected)(REAL f, REAL slope, REAL d) {
    return fma(f, slope * d, f);
}

static inline REAL ORACLE(sigmoid)(REAL x) {
    REAL e = exp(-fabs(x));
    return (x < 0 ? e : (REAL)1) / (1 + e);
}

/* erfc(-x / sqrt(2)) / 2. The quotient is t + d. */
static inline REAL ORACLE(ndtr)(REAL x) {
    const REAL c = (REAL)M_SQRT1_2l, c_low = (REAL)(M_SQRT1_2l - (long double)c);
    REAL t = -x * c, d = fma(-x, c, -t) - x * c_low;
    if (!isfinite(t)) return t < 0 ? 1 : isnan(t) ? t : 0;
    REAL slope = t > 1 ? -(t + sqrt(t * t + 2)) : 0;
    return ORACLE(corrected)(erfc(t) / 2, slope, t > 1 ? d : 0);
}

static inline REAL ORACLE(gelu)(REAL x) {
    if (isinf(x)) return x > 0 ? x : (REAL)-0.0;
    return x * ORACLE(ndtr)(x);
}

/* Phi(x) + x phi(x), phi(x) = e^-(x^2/2) / sqrt(2 pi); right of 0 what is left of 1. */
static inline REAL ORACLE(gelu_slope)(REAL x) {
    if (x > 0) return 1 - ORACLE(gelu_slope)(-x);
    if (x < (sizeof(REAL) == 8 ? -20 : -45)) return (REAL)-0.0;
    REAL u = x * x / 2, u_low = fma(x, x, -2 * u) / 2;
    REAL phi = ORACLE(corrected)(exp(-u), -1, u_low) * (REAL)0.39894228040143267793994605993438L;
    return ORACLE(ndtr)(x) + x * phi;
}

/* sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), the argument as z + d. */
static inline REAL ORACLE(gelu_tanh_sigmoid)(REAL x) {
    const REAL k = (REAL)1.5957691216057307117597842397375L, c = (REAL)0.044715L;
    const REAL k_low = (REAL)(1.5957691216057307117597842397375L - (long double)k);
    const REAL c_low = (REAL)(0.044715L - (long double)c);
    REAL u = x * x, u_low = fma(x, x, -u);
    REAL b = c * u, b_low = fma(c, u, -b), p = b + 1, part = p - b;
    REAL p_low = (b - (p - part)) + (1 - part) + b_low + c_low * u + c * u_low;
    REAL kx = k * x, kx_low = fma(k, x, -kx) + k_low * x;
    REAL z = kx * p, d = fma(kx, p, -z) + kx_low * p + kx * p_low;
    REAL s = ORACLE(sigmoid)(z);
    return ORACLE(corrected)(s, z < 0 ? 1 - s : 0, z < 0 ? d : 0);
}

static inline REAL ORACLE(gelu_tanh)(REAL x) {
    if (fabs(x) > 200) return x > 0 ? x : isnan(x) ? x : (REAL)-0.0;
    return x * ORACLE(gelu_tanh_sigmoid)(x);
}

/* With the sigmoid s of z: s + x s (1 - s) z'. */
static inline REAL ORACLE(gelu_tanh_slope)(REAL x) {
    if (x > 0) return 1 - ORACLE(gelu_tanh_slope)(-x);
    if (x < (sizeof(REAL) == 8 ? -20 : -24)) return (REAL)-0.0;
    REAL s = ORACLE(gelu_tanh_sigmoid)(x), c = (REAL)(3 * 0.044715L);
    REAL rise = (REAL)1.5957691216057307117597842397375L * (1 + c * x * x);
    return s + s * (x * rise * (1 - s));
}

/* x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2). */
static inline REAL ORACLE(mish)(REAL x) {
    if (x > 60) return x;
    REAL e = exp(x), n = e * (e + 2);
    return isinf(x) ? (REAL)-0.0 : x * (n / (n + 2));
}

static inline REAL ORACLE(silu)(REAL x) {
    return x == -(REAL)INFINITY ? (REAL)-0.0 : x * ORACLE(sigmoid)(x);
}

static inline REAL ORACLE(silu_slope)(REAL x) {
    if (x > 0) return 1 - ORACLE(silu_slope)(-x);
    if (x < (sizeof(REAL) == 8 ? -700 : -5000)) return (REAL)-0.0;
    REAL s = ORACLE(sigmoid)(x);
    return s + s * (x * (1 - s));
}

static inline REAL ORACLE(softplus)(REAL x) {
    return x > 60 ? x : log1p(exp(x));
}

static inline REAL ORACLE(log_sigmoid)(REAL x) {
    return x < -60 ? x : -log1p(exp(-x));
}

static inline REAL ORACLE(relu6)(REAL x) {
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

static inline REAL ORACLE(hardsigmoid)(REAL x) {
    return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
}

static inline REAL ORACLE(hardswish)(REAL x) {
    return x <= -3 ? (x == x ? (REAL)-0.0 : x) : x >= 3 ? x : x * (x + 3) / 6;
}

static inline REAL ORACLE(elu)(REAL x) {
    return x > 0 ? x : (REAL)1.25 * expm1(x);
}

static inline REAL ORACLE(selu)(REAL x) {
    return (REAL)1.0507009873554804934193349852946L *
           (x > 0 ? x : (REAL)1.6732632423543772848170429916717L * expm1(x));
}

static inline REAL ORACLE(leaky_relu)(REAL x) {
    return x > 0 ? x : x * (REAL)0.125;
}

static inline REAL ORACLE(relu)(REAL x) {
    return x > 0 ? x : isnan(x) ? x : 0;
}

static inline REAL ORACLE(sign)(REAL x) {
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

static inline REAL ORACLE(rsqrt)(REAL x) {
    return 1 / sqrt(x);
}

static inline REAL ORACLE(reciprocal)(REAL x) {
    return 1 / x;
}

static inline REAL ORACLE(rem)(REAL x, REAL y) {
    return fmod(x, y);
}

/* The remainder with y's sign. */
static inline REAL ORACLE(mod)(REAL x, REAL y) {
    REAL r = fmod(x, y);
    if (r == 0) return copysign((REAL)0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

static inline REAL ORACLE(div)(REAL x, REAL y) {
    return x / y;
}

/* Near 0 the two terms cancel: there log1p of s = e^x + e^y - 1. */
static inline REAL ORACLE(logaddexp)(REAL x, REAL y) {
    if (x == y && fabs(x) > 2) return x + (REAL)M_LN2l;
    REAL most = x > y ? x : y, d = x == y ? 0 : -fabs(x - y);
    if (isnan(x) || isnan(y)) return x + y;
    REAL sum = most + log1p(exp(d));
    if (!(fabs(sum) < 1)) return sum;
    if (fmin(x, y) < -4000) return sum;
    oracle_quad power_x, power_y, s = oracle_quad_expm1(most, &power_x);
    s += oracle_quad_expm1(fmin(x, y), &power_y);
    s += power_x - 1 + power_y;
    REAL high = (REAL)s, low = (REAL)(s - (oracle_quad)high);
    return log1p(high) + low / (1 + high);
}

static inline REAL ORACLE(square)(REAL x) {
    return x * x;
}

/* Around 1/2 of 2x - 1, which is exact. */
static inline REAL ORACLE(logit)(REAL x) {
    return x < (REAL)0.25 ? log(x / (1 - x)) : log1p((2 * x - 1) / (1 - x));
}

/* sin(pi x) by the distance to the nearest whole number. */
static inline REAL ORACLE(sinc)(REAL x) {
    const REAL pi = (REAL)3.1415926535897932384626433832795L;
    if (x == 0) return 1;
    REAL n = rint(x), r = fmod(n, (REAL)2) != 0 ? n - x : x - n;
    if (r == 0) r = fmod(n, (REAL)2) != 0 ? (REAL)-0.0 : 0;
    return sin(pi * r) / (pi * x);
}

static inline REAL ORACLE(softsign)(REAL x) {
    return isinf(x) ? copysign((REAL)1, x) : x / (1 + fabs(x));
}

static inline REAL ORACLE(celu)(REAL x) {
    return x > 0 ? x : (REAL)1.25 * expm1(x / (REAL)1.25);
}

static inline REAL ORACLE(softplus_beta)(REAL x) {
    return 2 * x > 20 ? x : log1p(exp(2 * x)) / 2;
}

static inline REAL ORACLE(hardtanh)(REAL x) {
    return x < -2 ? -2 : x > (REAL)0.75 ? (REAL)0.75 : x;
}

static inline REAL ORACLE(threshold)(REAL x) {
    return x <= (REAL)0.25 ? -3 : x;
}

static inline REAL ORACLE(heaviside)(REAL x, REAL y) {
    return x > 0 ? 1 : x < 0 ? 0 : x == 0 ? y : x;
}

/* From 24 on the asymptotic series, to there by the recurrence; left of 0 by reflection. */
static inline REAL ORACLE(digamma)(REAL x) {
    const REAL pi = (REAL)3.1415926535897932384626433832795L;
    REAL sum = 0, f = x - rint(x);
    if (isnan(x) || x == (REAL)INFINITY) return x;
    if (x == 0) return -1 / x;
    if (x < 0) return f == 0 || isinf(x) ? (REAL)NAN : ORACLE(digamma)(1 - x) - pi / tan(pi * f);
    if (x > 1 && x < 2) return (REAL)oracle_quad_digamma((long double)x);
    for (; x < 24; x += 1) sum += 1 / x;
    REAL u = 1 / (x * x);
    REAL tail = u * (1 / (REAL)132 + u * (-691 / (REAL)32760 + u * (1 / (REAL)12)));
    tail = u * (1 / (REAL)12 +
                u * (-1 / (REAL)120 + u * (1 / (REAL)252 + u * (-1 / (REAL)240 + tail))));
    return log(x) - (1 / (2 * x) + tail) - sum;
}

static inline REAL ORACLE(trigamma)(REAL x) {
    const REAL pi = (REAL)3.1415926535897932384626433832795L;
    REAL sum = 0, f = x - rint(x), s = sin(pi * f) / pi;
    if (isnan(x) || x == -(REAL)INFINITY) return (REAL)NAN;
    if (x == (REAL)INFINITY || x == 0) return x == 0 ? (REAL)INFINITY : 0;
    if (x < 0) return f == 0 ? (REAL)INFINITY : 1 / (s * s) - ORACLE(trigamma)(1 - x);
    for (; x < 24; x += 1) sum += 1 / (x * x);
    REAL v = 1 / x, u = v * v;
    REAL tail = u * (5 / (REAL)66 + u * (-691 / (REAL)2730 + u * (7 / (REAL)6)));
    tail =
        u * (1 / (REAL)6 + u * (-1 / (REAL)30 + u * (1 / (REAL)42 + u * (-1 / (REAL)30 + tail))));
    return v + u / 2 + v * tail + sum;
}
