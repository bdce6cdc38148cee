/* functions.h - the operations that no machine has an instruction for: a pass expands them (math),
 * so that all devices agree on their values. */
#ifndef QN_FUNCTIONS_H
#define QN_FUNCTIONS_H

/* X(OP, name, sources, error in F32, error in F64): the largest errors in units in the last place
 * of the result, to which tests/math/test_math.c holds the formulas. The units of the slopes are
 * those of the larger of their two terms. The two terms of logaddexp cancel near 0: its units are
 * those of 2^-29 (F32) or 2^-50 (F64) of the larger one, where that is more than the result. Left
 * of 0 lgamma and digamma are differences, with zeros between their poles: there the units are
 * those of the larger term, of F32 those of 2^-6 of it where that is more than the result. */
#define MATH_FUNCTIONS(X)                                                                          \
    X(EXP, exp, 1, 0.90, 0.90)                                                                     \
    X(EXP2, exp2, 1, 0.90, 0.90)                                                                   \
    X(EXPM1, expm1, 1, 0.90, 1.20)                                                                 \
    X(LOG, log, 1, 0.95, 0.95)                                                                     \
    X(LOG2, log2, 1, 0.95, 1.00)                                                                   \
    X(LOG1P, log1p, 1, 0.95, 0.95)                                                                 \
    X(SIN, sin, 1, 0.51, 0.90)                                                                     \
    X(COS, cos, 1, 0.51, 0.90)                                                                     \
    X(ASIN, asin, 1, 0.60, 0.60)                                                                   \
    X(ACOS, acos, 1, 0.60, 0.60)                                                                   \
    X(ATAN, atan, 1, 0.98, 1.05)                                                                   \
    X(ASINH, asinh, 1, 1.75, 1.70)                                                                 \
    X(ACOSH, acosh, 1, 1.95, 2.00)                                                                 \
    X(ATANH, atanh, 1, 1.65, 1.65)                                                                 \
    X(CBRT, cbrt, 1, 0.51, 0.51)                                                                   \
    X(SOFTPLUS, softplus, 1, 1.55, 1.60)                                                           \
    X(ATAN2, atan2, 2, 1.40, 1.20)                                                                 \
    X(HYPOT, hypot, 2, 0.51, 1.20)                                                                 \
    X(LOGADDEXP, logaddexp, 2, 1.60, 2.00)                                                         \
    X(SINH, sinh, 1, 2.00, 2.00)                                                                   \
    X(COSH, cosh, 1, 2.00, 2.00)                                                                   \
    X(TANH, tanh, 1, 0.85, 1.20)                                                                   \
    X(SIGMOID, sigmoid, 1, 1.60, 1.60)                                                             \
    X(ERF, erf, 1, 0.72, 1.05)                                                                     \
    X(ERFC, erfc, 1, 1.90, 2.00)                                                                   \
    X(MISH, mish, 1, 2.00, 2.00)                                                                   \
    X(SILU, silu, 1, 2.00, 2.00)                                                                   \
    X(SILU_SLOPE, silu_slope, 1, 3.20, 3.20)                                                       \
    X(GELU, gelu, 1, 2.00, 2.00)                                                                   \
    X(GELU_SLOPE, gelu_slope, 1, 2.00, 5.25)                                                       \
    X(GELU_TANH, gelu_tanh, 1, 2.00, 2.00)                                                         \
    X(GELU_TANH_SLOPE, gelu_tanh_slope, 1, 5.00, 5.00)                                             \
    X(LGAMMA, lgamma, 1, 0.51, 2.40)                                                               \
    X(DIGAMMA, digamma, 1, 0.51, 2.00)                                                             \
    X(TRIGAMMA, trigamma, 1, 0.51, 2.00)                                                           \
    X(POW, pow, 2, 0.51, 0.95)

#endif
