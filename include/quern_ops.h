/* quern_ops.h - the operations of quern.h, which includes this header: what they share, and their
 * prototypes by section, generated from the tables that the library is made from. */
#ifndef QUERN_OPS_H
#define QUERN_OPS_H

#include "quern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- operations ------------------------------------------------------------------------- */

/* Broadcasting is NumPy's; dtypes promote as the array API says, and an integer with a float gives
 * the float's type. Functions that have no meaning for integers take them as f32. Axes may be
 * negative. Sizes may be codes from qn_var() and qn_dim(). */

#define QN_ALL (-2147483647 - 1) /* for an axis: every axis */
#define QN_END INT64_MAX         /* for the stop of a slice: as far as it goes */

typedef enum qn_quantile_mode { /* between two elements in order, for qn_quantile */
                                QN_QUANTILE_LINEAR = 0, /* by the distance */
                                QN_QUANTILE_LOWER = 1,
                                QN_QUANTILE_HIGHER = 2,
                                QN_QUANTILE_MIDPOINT = 3, /* their mean */
                                QN_QUANTILE_NEAREST =
                                    4 /* half way between: the one with the even number */
} qn_quantile_mode;

typedef enum qn_pad_mode {
    QN_PAD_CONSTANT = 0, /* with a value */
    QN_PAD_REFLECT = 1,  /* c b [a b c] b a */
    QN_PAD_EDGE = 2,     /* a a [a b c] c c */
    QN_PAD_CIRCULAR = 3  /* b c [a b c] a b */
} qn_pad_mode;

/* How qn_scatter brings a new value and the one that is there together. */
typedef enum qn_combine {
    QN_COMBINE_SET = 0,
    QN_COMBINE_SUM = 1,
    QN_COMBINE_PROD = 2,
    QN_COMBINE_MAX = 3,
    QN_COMBINE_MIN = 4,
    QN_COMBINE_AND = 5,
    QN_COMBINE_OR = 6
} qn_combine;

/* An item of an index, as between the brackets of x[...]; see qn_index. */
typedef enum qn_index_kind {
    QN_INDEX_SLICE = 0,    /* start:stop:step, a step of 0 meaning 1 */
    QN_INDEX_NUMBER = 1,   /* one place, `start`; the axis is dropped */
    QN_INDEX_ELLIPSIS = 2, /* all axes that no other item is for; at the end where there is none */
    QN_INDEX_NEW_AXIS = 3, /* an axis of size 1 */
    QN_INDEX_ARRAY = 4     /* places from a tensor of integers */
} qn_index_kind;
typedef struct qn_index_item {
    qn_index_kind kind;
    int64_t start, stop,
        step; /* negative ones count from the end; stop QN_END: as far as it goes */
    qn_tensor *array;
} qn_index_item;
#define QN_SLICE(start, stop, step) QN_ITEM(QN_INDEX_SLICE, start, stop, step, NULL)
#define QN_EVERY                    QN_SLICE(0, QN_END, 1)
#define QN_AT_PLACE(i)              QN_ITEM(QN_INDEX_NUMBER, i, 0, 0, NULL)
#define QN_ELLIPSIS                 QN_ITEM(QN_INDEX_ELLIPSIS, 0, 0, 0, NULL)
#define QN_NEW_AXIS                 QN_ITEM(QN_INDEX_NEW_AXIS, 0, 0, 0, NULL)
#define QN_AT_PLACES(t)             QN_ITEM(QN_INDEX_ARRAY, 0, 0, 0, t)
#ifdef __cplusplus
#define QN_ITEM(...) (qn_index_item{__VA_ARGS__})
#else
#define QN_ITEM(...) ((qn_index_item){__VA_ARGS__})
#endif

/* How windows go over the spatial axes of an image [N, C, spatial..]; one to three axes. What is 0
 * counts as 1, but for padding. */
typedef struct qn_conv_options {
    size_t size;                 /* QN_CONV_OPTIONS() */
    int64_t stride[3];           /* from window to window; 0 in pooling: the window's size */
    int64_t dilation[3];         /* from place to place in a window */
    int64_t before[3], after[3]; /* zeros around the image (in max_pool, what loses) */
    int64_t extra[3];            /* conv_transpose: places at the end that the stride leaves open */
    int64_t groups;              /* each with its own channels; as many as channels: depthwise */
    bool same;                   /* in place of before and after: ceil(n / stride) windows */
    bool channels_last;          /* images are [N, spatial.., C]; weights are as ever */
} qn_conv_options;
#define QN_CONV_OPTIONS(...) QN_STRUCT(qn_conv_options, __VA_ARGS__)

typedef struct qn_attention_options {
    size_t size;     /* QN_ATTENTION_OPTIONS() */
    bool causal;     /* no query sees keys after it; the last one sees all */
    double scale;    /* of the scores; 0: 1 / sqrt(D) */
    double cap;      /* above 0: scores are cap * tanh(scale * score / cap) */
    int64_t window;  /* above 0: a query sees less than so many keys away, with causal back only */
    qn_tensor *mask; /* [.., Tq, Tk]: floats are added to the scores; else keys are seen where it is
                      * not 0. A query that sees none gives 0 */
    bool grouped;    /* q's axis -3 is a multiple of k's and v's: so many heads share one */
} qn_attention_options;
#define QN_ATTENTION_OPTIONS(...) QN_STRUCT(qn_attention_options, __VA_ARGS__)

/* What becomes of a loss' terms. */
typedef enum qn_reduction {
    QN_REDUCE_MEAN = 0,
    QN_REDUCE_SUM = 1,
    QN_REDUCE_NONE = 2
} qn_reduction;

typedef struct qn_cross_entropy_options {
    size_t size; /* QN_CROSS_ENTROPY_OPTIONS() */
    qn_reduction reduction;
    double smoothing;  /* from 0 to 1: how much of each label goes to all classes alike */
    qn_tensor *weight; /* [C], of each class; the mean is over the weights */
    int64_t ignore;    /* a label that does not count, with `ignores` */
    bool ignores;
} qn_cross_entropy_options;
#define QN_CROSS_ENTROPY_OPTIONS(...) QN_STRUCT(qn_cross_entropy_options, __VA_ARGS__)

/* == generated by tools/gen.py from the rows of src/graph/ops.h and src/func/funcs.h == */

/* ---- operations: making ------------------------------------------------------------------- */

/* `value` at every index, in dtype; QN_ERANGE where an integer dtype does not hold it */
QN_API qn_tensor *qn_full(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value);
/* as full, of an integer: exact beyond 2^53, too; floats take it rounded once */
QN_API qn_tensor *qn_full_int(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape,
                              int64_t value);
/* zeros of a shape and dtype */
QN_API qn_tensor *qn_zeros(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape);
/* ones of a shape and dtype */
QN_API qn_tensor *qn_ones(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape);
/* a tensor of rank 0 in dtype; QN_ERANGE where an integer dtype does not hold the value */
QN_API qn_tensor *qn_scalar(qn_ctx *qn, qn_dtype dtype, double value);
/* as scalar, of an integer: exact beyond 2^53, too; floats take it rounded once */
QN_API qn_tensor *qn_scalar_int(qn_ctx *qn, qn_dtype dtype, int64_t value);
/* a scalar of x's dtype, whatever that is, to compute with x: qn_mul(x, qn_like(x, 2)); QN_ERANGE
 * where an integer dtype does not hold the value */
QN_API qn_tensor *qn_like(qn_tensor *x, double value);
/* a scalar to compute with x that does not change x's dtype, as numbers of Python do with PyTorch:
 * in x's dtype where that is a float, else f32; qn_mul(x, qn_weak(x, 0.5)) */
QN_API qn_tensor *qn_weak(qn_tensor *x, double value);
/* as weak, of an integer: exactly, in x's dtype, which is a float or holds it, else QN_ERANGE;
 * beside bools it is i64 */
QN_API qn_tensor *qn_weak_int(qn_tensor *x, int64_t value);
/* `value` in x's dtype and shape; QN_ERANGE where an integer dtype does not hold it */
QN_API qn_tensor *qn_full_like(qn_tensor *x, double value);
/* zeros in x's dtype and shape */
QN_API qn_tensor *qn_zeros_like(qn_tensor *x);
/* ones in x's dtype and shape */
QN_API qn_tensor *qn_ones_like(qn_tensor *x);
/* the index along an axis, at every index of a shape */
QN_API qn_tensor *qn_iota(qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, int axis);
/* [n]: start, start + step, ... below stop (above it for a negative step); QN_ERANGE for a step of
 * 0 */
QN_API qn_tensor *qn_arange(qn_ctx *qn, qn_dtype dtype, double start, double stop, double step);
/* as arange, of integers: exact beyond 2^53, too; QN_ERANGE for a step of 0 and where an integer
 * dtype does not hold the ends */
QN_API qn_tensor *qn_arange_int(qn_ctx *qn, qn_dtype dtype, int64_t start, int64_t stop,
                                int64_t step);
/* [n]: evenly spaced numbers from start to stop, both included */
QN_API qn_tensor *qn_linspace(qn_ctx *qn, qn_dtype dtype, double start, double stop, int64_t n);
/* [rows, columns]: ones on the diagonal, zeros elsewhere */
QN_API qn_tensor *qn_eye(qn_ctx *qn, qn_dtype dtype, int64_t rows, int64_t columns);

/* ---- operations: converting --------------------------------------------------------------- */

/* another dtype: rounded to nearest even, wrapped, or truncated and clamped (NaN gives 0); bool: x
 * != 0 */
QN_API qn_tensor *qn_cast(qn_tensor *x, qn_dtype dtype);
/* the same bits as a dtype of equal size, else QN_EDTYPE; as bool: not 0 */
QN_API qn_tensor *qn_bitcast(qn_tensor *x, qn_dtype dtype);
/* the same bytes as another dtype: of another size the last axis is as much longer or shorter, and
 * must go up, else QN_ESHAPE; a scalar becomes a vector; the low bytes come first */
QN_API qn_tensor *qn_view(qn_tensor *x, qn_dtype dtype);
/* the value in memory of its own; its gradient is x's */
QN_API qn_tensor *qn_clone(qn_tensor *x);

/* ---- operations: elementwise, one argument ------------------------------------------------ */

/* Of any shape, which the result has; floats, integers and bools as f32 unless they stay. */

/* -x (integers and floats) */
QN_API qn_tensor *qn_neg(qn_tensor *x);
/* absolute value (integers and floats) */
QN_API qn_tensor *qn_abs(qn_tensor *x);
/* 1 / x (floats; integers and bools as f32) */
QN_API qn_tensor *qn_reciprocal(qn_tensor *x);
/* square root; NaN below 0 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_sqrt(qn_tensor *x);
/* cube root, with x's sign (floats; integers and bools as f32) */
QN_API qn_tensor *qn_cbrt(qn_tensor *x);
/* e^x (floats; integers and bools as f32) */
QN_API qn_tensor *qn_exp(qn_tensor *x);
/* 2^x (floats; integers and bools as f32) */
QN_API qn_tensor *qn_exp2(qn_tensor *x);
/* e^x - 1, exact near 0 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_expm1(qn_tensor *x);
/* natural logarithm; NaN below 0 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_log(qn_tensor *x);
/* logarithm to base 2 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_log2(qn_tensor *x);
/* log(1 + x), exact near 0 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_log1p(qn_tensor *x);
/* sine of radians (floats; integers and bools as f32) */
QN_API qn_tensor *qn_sin(qn_tensor *x);
/* cosine of radians (floats; integers and bools as f32) */
QN_API qn_tensor *qn_cos(qn_tensor *x);
/* arc sine; NaN outside [-1, 1] (floats; integers and bools as f32) */
QN_API qn_tensor *qn_asin(qn_tensor *x);
/* arc cosine; NaN outside [-1, 1] (floats; integers and bools as f32) */
QN_API qn_tensor *qn_acos(qn_tensor *x);
/* arc tangent in radians (floats; integers and bools as f32) */
QN_API qn_tensor *qn_atan(qn_tensor *x);
/* inverse of sinh (floats; integers and bools as f32) */
QN_API qn_tensor *qn_asinh(qn_tensor *x);
/* inverse of cosh; NaN below 1 (floats; integers and bools as f32) */
QN_API qn_tensor *qn_acosh(qn_tensor *x);
/* inverse of tanh; NaN outside [-1, 1] (floats; integers and bools as f32) */
QN_API qn_tensor *qn_atanh(qn_tensor *x);
/* hyperbolic sine (floats; integers and bools as f32) */
QN_API qn_tensor *qn_sinh(qn_tensor *x);
/* hyperbolic cosine (floats; integers and bools as f32) */
QN_API qn_tensor *qn_cosh(qn_tensor *x);
/* hyperbolic tangent (floats; integers and bools as f32) */
QN_API qn_tensor *qn_tanh(qn_tensor *x);
/* 1 / (1 + e^-x) (floats; integers and bools as f32) */
QN_API qn_tensor *qn_sigmoid(qn_tensor *x);
/* log(1 + e^x) without overflow (floats; integers and bools as f32) */
QN_API qn_tensor *qn_softplus(qn_tensor *x);
/* error function (floats; integers and bools as f32) */
QN_API qn_tensor *qn_erf(qn_tensor *x);
/* 1 - erf(x), exact where that is small (floats; integers and bools as f32) */
QN_API qn_tensor *qn_erfc(qn_tensor *x);
/* x * sigmoid(x), also called swish (floats; integers and bools as f32) */
QN_API qn_tensor *qn_silu(qn_tensor *x);
/* derivative of silu (floats; integers and bools as f32) */
QN_API qn_tensor *qn_silu_slope(qn_tensor *x);
/* x * Phi(x), Phi the normal distribution function (floats; integers and bools as f32) */
QN_API qn_tensor *qn_gelu(qn_tensor *x);
/* derivative of gelu: Phi(x) + x * e^(-x*x/2) / sqrt(2*pi) (floats; integers and bools as f32) */
QN_API qn_tensor *qn_gelu_slope(qn_tensor *x);
/* gelu's approximation by tanh, as in GPT-2: x * sigmoid(sqrt(8/pi) * (x + 0.044715 * x^3))
 * (floats; integers and bools as f32) */
QN_API qn_tensor *qn_gelu_tanh(qn_tensor *x);
/* derivative of gelu_tanh (floats; integers and bools as f32) */
QN_API qn_tensor *qn_gelu_tanh_slope(qn_tensor *x);
/* x * tanh(softplus(x)) (floats; integers and bools as f32) */
QN_API qn_tensor *qn_mish(qn_tensor *x);
/* largest integer not above x; integers stay (integers and floats) */
QN_API qn_tensor *qn_floor(qn_tensor *x);
/* smallest integer not below x; integers stay (integers and floats) */
QN_API qn_tensor *qn_ceil(qn_tensor *x);
/* nearest integer, ties to even; integers stay (integers and floats) */
QN_API qn_tensor *qn_round(qn_tensor *x);
/* x without its fraction; integers stay (integers and floats) */
QN_API qn_tensor *qn_trunc(qn_tensor *x);
/* every bit inverted; logical not for bool (bools and integers) */
QN_API qn_tensor *qn_not(qn_tensor *x);
/* x above 0, else 0; derivative 0 at 0 */
QN_API qn_tensor *qn_relu(qn_tensor *x);
/* -1, 0 or 1; NaN stays */
QN_API qn_tensor *qn_sign(qn_tensor *x);
/* log(sigmoid(x)) without overflow */
QN_API qn_tensor *qn_log_sigmoid(qn_tensor *x);
/* 1 / sqrt(x) */
QN_API qn_tensor *qn_rsqrt(qn_tensor *x);
/* x * x */
QN_API qn_tensor *qn_square(qn_tensor *x);
/* logarithm to base 10 */
QN_API qn_tensor *qn_log10(qn_tensor *x);
/* tangent of radians */
QN_API qn_tensor *qn_tan(qn_tensor *x);
/* bool: is x not a number? */
QN_API qn_tensor *qn_isnan(qn_tensor *x);
/* bool: is x an infinity? */
QN_API qn_tensor *qn_isinf(qn_tensor *x);
/* bool: neither infinite nor NaN? */
QN_API qn_tensor *qn_isfinite(qn_tensor *x);
/* bool: is x zero? */
QN_API qn_tensor *qn_logical_not(qn_tensor *x);
/* x clamped to [0, 6] */
QN_API qn_tensor *qn_relu6(qn_tensor *x);
/* x * relu6(x + 3) / 6 */
QN_API qn_tensor *qn_hardswish(qn_tensor *x);
/* relu6(x + 3) / 6 */
QN_API qn_tensor *qn_hardsigmoid(qn_tensor *x);
/* scaled elu, constants of Klambauer et al. 2017 */
QN_API qn_tensor *qn_selu(qn_tensor *x);
/* x above 0, else alpha * (e^x - 1) */
QN_API qn_tensor *qn_elu(qn_tensor *x, double alpha);
/* x above 0, else slope * x */
QN_API qn_tensor *qn_leaky_relu(qn_tensor *x, double slope);
/* the smaller of hi and the larger of lo and x; NaN stays, but is no bound; integers keep to the
 * integers within */
QN_API qn_tensor *qn_clamp(qn_tensor *x, double lo, double hi);
/* bool: has x a sign? also -0 and NaNs that have one; never an unsigned integer */
QN_API qn_tensor *qn_signbit(qn_tensor *x);
/* sin(pi x) / (pi x), 1 at 0, as in NumPy and PyTorch */
QN_API qn_tensor *qn_sinc(qn_tensor *x);
/* log(x / (1 - x)), the inverse of sigmoid; NaN outside [0, 1] */
QN_API qn_tensor *qn_logit(qn_tensor *x);
/* x / (1 + |x|) */
QN_API qn_tensor *qn_softsign(qn_tensor *x);
/* x above 0, else alpha * (e^(x / alpha) - 1) */
QN_API qn_tensor *qn_celu(qn_tensor *x, double alpha);
/* clamp by another name, lo and hi usually -1 and 1 */
QN_API qn_tensor *qn_hardtanh(qn_tensor *x, double lo, double hi);
/* x above the threshold, else `value`; NaN stays */
QN_API qn_tensor *qn_threshold(qn_tensor *x, double threshold, double value);
/* log(1 + e^(beta x)) / beta, and x where beta x is above the threshold, PyTorch's 20 */
QN_API qn_tensor *qn_softplus_beta(qn_tensor *x, double beta, double threshold);
/* the first half of an axis times sigmoid of the second one */
QN_API qn_tensor *qn_glu(qn_tensor *x, int axis);
/* x with numbers in place of NaN and the infinities; INFINITY and -INFINITY stand for the dtype's
 * largest number of that sign; integers stay */
QN_API qn_tensor *qn_nan_to_num(qn_tensor *x, double nan, double infinity, double minus_infinity);
/* x = m * 2^e into out[2]: m from 1/2 up to 1 with x's sign, and e, i32; x and 0 of zeros,
 * infinities and NaN */
QN_API qn_code qn_frexp(qn_tensor *x, qn_tensor **out);
/* u8: how many bits of |x| are set; integers and bools */
QN_API qn_tensor *qn_bitwise_count(qn_tensor *x);

/* ---- operations: elementwise, two arguments and more -------------------------------------- */

/* Shapes broadcast, else QN_ESHAPE; dtypes meet as the array API says. */

/* x + y (integers and floats) */
QN_API qn_tensor *qn_add(qn_tensor *x, qn_tensor *y);
/* x - y (integers and floats) */
QN_API qn_tensor *qn_sub(qn_tensor *x, qn_tensor *y);
/* x * y (integers and floats) */
QN_API qn_tensor *qn_mul(qn_tensor *x, qn_tensor *y);
/* x / y (floats; integers and bools as f32) */
QN_API qn_tensor *qn_div(qn_tensor *x, qn_tensor *y);
/* floor(x / y); integers by 0 give 0 (integers and floats) */
QN_API qn_tensor *qn_floor_div(qn_tensor *x, qn_tensor *y);
/* x - y*floor(x / y), with y's sign; integers by 0 give 0 (integers and floats) */
QN_API qn_tensor *qn_mod(qn_tensor *x, qn_tensor *y);
/* x to the power y, as IEEE pow; integers exactly, wrapped, to a negative power without the
 * fraction: 0 but for 1 and -1 (integers and floats) */
QN_API qn_tensor *qn_pow(qn_tensor *x, qn_tensor *y);
/* angle of the point (y, x): atan(x / y) in the right quadrant (floats; integers and bools as f32)
 * */
QN_API qn_tensor *qn_atan2(qn_tensor *x, qn_tensor *y);
/* sqrt(x*x + y*y) without overflow (floats; integers and bools as f32) */
QN_API qn_tensor *qn_hypot(qn_tensor *x, qn_tensor *y);
/* log(e^x + e^y) without overflow (floats; integers and bools as f32) */
QN_API qn_tensor *qn_logaddexp(qn_tensor *x, qn_tensor *y);
/* the larger; NaN when either is (any dtype) */
QN_API qn_tensor *qn_maximum(qn_tensor *x, qn_tensor *y);
/* the smaller; NaN when either is (any dtype) */
QN_API qn_tensor *qn_minimum(qn_tensor *x, qn_tensor *y);
/* x < y (any dtypes; gives bool) */
QN_API qn_tensor *qn_lt(qn_tensor *x, qn_tensor *y);
/* x <= y (any dtypes; gives bool) */
QN_API qn_tensor *qn_le(qn_tensor *x, qn_tensor *y);
/* x == y (any dtypes; gives bool) */
QN_API qn_tensor *qn_eq(qn_tensor *x, qn_tensor *y);
/* x != y (any dtypes; gives bool) */
QN_API qn_tensor *qn_ne(qn_tensor *x, qn_tensor *y);
/* bitwise and (bools and integers) */
QN_API qn_tensor *qn_and(qn_tensor *x, qn_tensor *y);
/* bitwise or (bools and integers) */
QN_API qn_tensor *qn_or(qn_tensor *x, qn_tensor *y);
/* bitwise exclusive or (bools and integers) */
QN_API qn_tensor *qn_xor(qn_tensor *x, qn_tensor *y);
/* x * 2^y; 0 for y past the width (integers) */
QN_API qn_tensor *qn_shl(qn_tensor *x, qn_tensor *y);
/* floor(x / 2^y): arithmetic for signed, logical for unsigned (integers) */
QN_API qn_tensor *qn_shr(qn_tensor *x, qn_tensor *y);
/* y where x is not 0, else z (any dtypes) */
QN_API qn_tensor *qn_where(qn_tensor *x, qn_tensor *y, qn_tensor *z);
/* x*y + z with one rounding (floats; integers and bools as f32) */
QN_API qn_tensor *qn_fma(qn_tensor *x, qn_tensor *y, qn_tensor *z);
/* bool: x > y */
QN_API qn_tensor *qn_gt(qn_tensor *x, qn_tensor *y);
/* bool: x >= y */
QN_API qn_tensor *qn_ge(qn_tensor *x, qn_tensor *y);
/* bool: both non-zero */
QN_API qn_tensor *qn_logical_and(qn_tensor *x, qn_tensor *y);
/* bool: either non-zero */
QN_API qn_tensor *qn_logical_or(qn_tensor *x, qn_tensor *y);
/* bool: exactly one non-zero */
QN_API qn_tensor *qn_logical_xor(qn_tensor *x, qn_tensor *y);
/* remainder with x's sign, C's % and fmod; integers by 0 give x */
QN_API qn_tensor *qn_rem(qn_tensor *x, qn_tensor *y);
/* x + t * (y - x) */
QN_API qn_tensor *qn_lerp(qn_tensor *x, qn_tensor *y, qn_tensor *t);
/* |x| with y's sign, also that of -0 and NaN; integers as f32 */
QN_API qn_tensor *qn_copysign(qn_tensor *x, qn_tensor *y);
/* 0 below 0, y at 0, 1 above; NaN stays */
QN_API qn_tensor *qn_heaviside(qn_tensor *x, qn_tensor *y);
/* the number next to x on the way to y, in the dtype where they meet; integers as f32; no
 * derivative */
QN_API qn_tensor *qn_nextafter(qn_tensor *x, qn_tensor *y);
/* x * 2^n, rounded once; n of integers, else QN_EDTYPE */
QN_API qn_tensor *qn_ldexp(qn_tensor *x, qn_tensor *n);
/* greatest common divisor of integers, not below 0; 0 of two zeros */
QN_API qn_tensor *qn_gcd(qn_tensor *x, qn_tensor *y);
/* least common multiple of integers, not below 0 but where it wraps; 0 where either is */
QN_API qn_tensor *qn_lcm(qn_tensor *x, qn_tensor *y);
/* the smaller of hi and the larger of lo and x, of tensors that meet; either bound may be NULL; NaN
 * if any of them is; at a bound the derivative is x's */
QN_API qn_tensor *qn_clip(qn_tensor *x, qn_tensor *lo, qn_tensor *hi);
/* x above 0, else weight * x; weight has one number, or one for each channel, axis 1 of x */
QN_API qn_tensor *qn_prelu(qn_tensor *x, qn_tensor *weight);
/* bool: |x - y| <= atol + rtol * |y|; infinities are near their equals only, NaN to NaN if
 * equal_nan says so; integers are compared in f64 */
QN_API qn_tensor *qn_isclose(qn_tensor *x, qn_tensor *y, double rtol, double atol, bool equal_nan);
/* bool, a scalar: is every element close, as isclose says? */
QN_API qn_tensor *qn_allclose(qn_tensor *x, qn_tensor *y, double rtol, double atol, bool equal_nan);

/* ---- operations: reductions --------------------------------------------------------------- */

/* Axis QN_ALL means every axis; keepdims leaves reduced axes with size 1; _axes takes a list, in
 * which no axis may come twice, and of none changes nothing. Sums and products of integers are in
 * 64 bits. QN_ERANGE for an axis that x lacks. */

/* sum over axes; of what is repeated n times n*x, rounded once (integers and floats) */
QN_API qn_tensor *qn_sum(qn_tensor *x, int axis, bool keepdims);
/* as sum, over n axes */
QN_API qn_tensor *qn_sum_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* product over axes; of what is repeated n times x^n (integers and floats) */
QN_API qn_tensor *qn_prod(qn_tensor *x, int axis, bool keepdims);
/* as prod, over n axes */
QN_API qn_tensor *qn_prod_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* largest over axes; NaN when one is there (any dtype) */
QN_API qn_tensor *qn_max(qn_tensor *x, int axis, bool keepdims);
/* as max, over n axes */
QN_API qn_tensor *qn_max_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* smallest over axes; NaN when one is there (any dtype) */
QN_API qn_tensor *qn_min(qn_tensor *x, int axis, bool keepdims);
/* as min, over n axes */
QN_API qn_tensor *qn_min_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* first index of the largest, in the flat order of axes (any dtype; gives i64) */
QN_API qn_tensor *qn_argmax(qn_tensor *x, int axis, bool keepdims);
/* as argmax, over n axes */
QN_API qn_tensor *qn_argmax_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* first index of the smallest, in the flat order of axes (any dtype; gives i64) */
QN_API qn_tensor *qn_argmin(qn_tensor *x, int axis, bool keepdims);
/* as argmin, over n axes */
QN_API qn_tensor *qn_argmin_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* mean over an axis; integers and bools give f32 */
QN_API qn_tensor *qn_mean(qn_tensor *x, int axis, bool keepdims);
/* as mean, over n axes */
QN_API qn_tensor *qn_mean_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* variance: squares' sum over (count - correction); 1 gives the unbiased estimate; integers and
 * bools give f32 */
QN_API qn_tensor *qn_variance(qn_tensor *x, int axis, double correction, bool keepdims);
/* as variance, over n axes */
QN_API qn_tensor *qn_variance_axes(qn_tensor *x, int n, const int *axes, double correction,
                                   bool keepdims);
/* square root of the variance; integers and bools give f32 */
QN_API qn_tensor *qn_std(qn_tensor *x, int axis, double correction, bool keepdims);
/* as std, over n axes */
QN_API qn_tensor *qn_std_axes(qn_tensor *x, int n, const int *axes, double correction,
                              bool keepdims);
/* bool: is any element non-zero? any dtype */
QN_API qn_tensor *qn_any(qn_tensor *x, int axis, bool keepdims);
/* as any, over n axes */
QN_API qn_tensor *qn_any_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* bool: is every element non-zero? any dtype */
QN_API qn_tensor *qn_all(qn_tensor *x, int axis, bool keepdims);
/* as all, over n axes */
QN_API qn_tensor *qn_all_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* (sum |x|^p)^(1/p); infinity: the largest |x|; 0: how many are non-zero; powers are not scaled:
 * f32 overflows from about 1e19 for p = 2, as in PyTorch */
QN_API qn_tensor *qn_norm(qn_tensor *x, int axis, double p, bool keepdims);
/* as norm, over n axes together: the vector norm of all their elements */
QN_API qn_tensor *qn_norm_axes(qn_tensor *x, int n, const int *axes, double p, bool keepdims);
/* log(sum e^x) without overflow; integers and bools give f32 */
QN_API qn_tensor *qn_logsumexp(qn_tensor *x, int axis, bool keepdims);
/* as logsumexp, over n axes */
QN_API qn_tensor *qn_logsumexp_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* i64: how many elements are not zero; NaN is not */
QN_API qn_tensor *qn_count_nonzero(qn_tensor *x, int axis, bool keepdims);
/* as count_nonzero, over n axes */
QN_API qn_tensor *qn_count_nonzero_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* sum of what is not NaN, 0 of nothing */
QN_API qn_tensor *qn_nansum(qn_tensor *x, int axis, bool keepdims);
/* as nansum, over n axes */
QN_API qn_tensor *qn_nansum_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* product of what is not NaN, 1 of nothing */
QN_API qn_tensor *qn_nanprod(qn_tensor *x, int axis, bool keepdims);
/* as nanprod, over n axes */
QN_API qn_tensor *qn_nanprod_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* the largest that is not NaN; NaN where all are */
QN_API qn_tensor *qn_nanmax(qn_tensor *x, int axis, bool keepdims);
/* as nanmax, over n axes */
QN_API qn_tensor *qn_nanmax_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* the smallest that is not NaN; NaN where all are */
QN_API qn_tensor *qn_nanmin(qn_tensor *x, int axis, bool keepdims);
/* as nanmin, over n axes */
QN_API qn_tensor *qn_nanmin_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* mean of what is not NaN; NaN of nothing; integers and bools give f32 */
QN_API qn_tensor *qn_nanmean(qn_tensor *x, int axis, bool keepdims);
/* as nanmean, over n axes */
QN_API qn_tensor *qn_nanmean_axes(qn_tensor *x, int n, const int *axes, bool keepdims);
/* variance of what is not NaN, by their number less `correction` */
QN_API qn_tensor *qn_nanvariance(qn_tensor *x, int axis, double correction, bool keepdims);
/* as nanvariance, over n axes */
QN_API qn_tensor *qn_nanvariance_axes(qn_tensor *x, int n, const int *axes, double correction,
                                      bool keepdims);
/* square root of nanvariance */
QN_API qn_tensor *qn_nanstd(qn_tensor *x, int axis, double correction, bool keepdims);
/* as nanstd, over n axes */
QN_API qn_tensor *qn_nanstd_axes(qn_tensor *x, int n, const int *axes, double correction,
                                 bool keepdims);
/* sum over n axes of x in `dtype`, to which elements are brought first: f32 sums as f64, integers
 * in their own width */
QN_API qn_tensor *qn_sum_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims);
/* product over n axes of x in `dtype` */
QN_API qn_tensor *qn_prod_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims);
/* mean over n axes of x in `dtype`, a float */
QN_API qn_tensor *qn_mean_as(qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims);
/* the smallest and the largest over an axis, in one pass, into out[2] */
QN_API qn_code qn_aminmax(qn_tensor *x, int axis, bool keepdims, qn_tensor **out);
/* sum of the elements [.., i, i + offset] of the last two axes */
QN_API qn_tensor *qn_trace(qn_tensor *x, int64_t offset);

/* ---- operations: scans -------------------------------------------------------------------- */

/* Running results along one axis, of x's shape; sums and products of integers and bools in 64 bits,
 * of f16 and bf16 in f32; QN_ERANGE for an axis that x lacks. */

/* element i: the sum of elements 0 to i */
QN_API qn_tensor *qn_cumsum(qn_tensor *x, int axis);
/* element i: the product of elements 0 to i */
QN_API qn_tensor *qn_cumprod(qn_tensor *x, int axis);
/* element i: the largest of elements 0 to i; NaN from the first NaN on */
QN_API qn_tensor *qn_cummax(qn_tensor *x, int axis);
/* element i: the smallest of elements 0 to i; NaN from the first NaN on */
QN_API qn_tensor *qn_cummin(qn_tensor *x, int axis);
/* i64: where cummax's element is, of equal ones and of NaN the last, as torch.cummax has it */
QN_API qn_tensor *qn_cumargmax(qn_tensor *x, int axis);
/* i64: where cummin's element is, of equal ones and of NaN the last, as torch.cummin has it */
QN_API qn_tensor *qn_cumargmin(qn_tensor *x, int axis);
/* element i: log(sum e^x) of elements 0 to i without overflow; integers and bools give f32 */
QN_API qn_tensor *qn_logcumsumexp(qn_tensor *x, int axis);
/* h[i] = a[i] * h[i-1] + b[i] along an axis of b, a broadcast to b, h 0 in front: a linear
 * recurrence; sums of segments where a is 0 at their beginnings and 1 elsewhere */
QN_API qn_tensor *qn_linear_scan(qn_tensor *a, qn_tensor *b, int axis);
/* x[i+1] - x[i] along an axis, n times; of bools whether they differ; QN_ERANGE for n below 0 */
QN_API qn_tensor *qn_diff(qn_tensor *x, int n, int axis);

/* ---- operations: movement ----------------------------------------------------------------- */

/* No element is copied or computed. */

/* the same elements in row-major order; one size may be -1, meaning what is left; QN_ESHAPE where
 * the number of elements differs */
QN_API qn_tensor *qn_reshape(qn_tensor *x, int rank, const int64_t *shape);
/* axis i of the result is axis axes[i] of x; n is x's rank */
QN_API qn_tensor *qn_permute(qn_tensor *x, int n, const int *axes);
/* axes a and b exchanged */
QN_API qn_tensor *qn_transpose(qn_tensor *x, int a, int b);
/* broadcast to a shape, which may have more axes in front; -1 keeps a size; QN_ESHAPE where one is
 * neither 1 nor equal */
QN_API qn_tensor *qn_expand(qn_tensor *x, int rank, const int64_t *shape);
/* elements start, start + step, ... before stop; as in NumPy negative ones count from the end and
 * what is outside is cut off; stop QN_END: as far as it goes; step may be negative */
QN_API qn_tensor *qn_slice(qn_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* x at one index of an axis, which is dropped; QN_ERANGE outside of it */
QN_API qn_tensor *qn_select(qn_tensor *x, int axis, int64_t index);
/* an axis, or with QN_ALL every axis, in reverse order */
QN_API qn_tensor *qn_flip(qn_tensor *x, int axis);
/* n axes in reverse order */
QN_API qn_tensor *qn_flip_axes(qn_tensor *x, int n, const int *axes);
/* element offset + sum of index * stride of x in row-major order; QN_ERANGE where that is outside
 * of x */
QN_API qn_tensor *qn_as_strided(qn_tensor *x, int rank, const int64_t *shape,
                                const int64_t *strides, int64_t offset);
/* two numbers for each axis of x say how much to add before and after (negative: to cut off);
 * `value` is for QN_PAD_CONSTANT */
QN_API qn_tensor *qn_pad(qn_tensor *x, const int64_t *before_after, qn_pad_mode mode, double value);
/* elements moved `shift` places onward along an axis, around the end; `shift` may be negative or
 * beyond the size */
QN_API qn_tensor *qn_roll(qn_tensor *x, int axis, int64_t shift);
/* as roll along n axes, one after the other, each by its shift; an axis may come twice */
QN_API qn_tensor *qn_roll_axes(qn_tensor *x, int n, const int *axes, const int64_t *shifts);
/* an axis of size 1, or with QN_ALL all such axes, dropped */
QN_API qn_tensor *qn_squeeze(qn_tensor *x, int axis);
/* n axes of size 1 dropped; QN_ESHAPE where one is not */
QN_API qn_tensor *qn_squeeze_axes(qn_tensor *x, int n, const int *axes);
/* a new axis of size 1 at `axis` of the result */
QN_API qn_tensor *qn_unsqueeze(qn_tensor *x, int axis);
/* n new axes of size 1, at these places of the result */
QN_API qn_tensor *qn_unsqueeze_axes(qn_tensor *x, int n, const int *axes);
/* axes first to last (included) merged into one */
QN_API qn_tensor *qn_flatten(qn_tensor *x, int first, int last);
/* windows of `size` elements every `step` along an axis; the place within is a new last axis */
QN_API qn_tensor *qn_unfold(qn_tensor *x, int axis, int64_t size, int64_t step);
/* elements [.., i, i + offset] of the last two axes as a new last axis */
QN_API qn_tensor *qn_diagonal(qn_tensor *x, int64_t offset);
/* zeros below the k-th diagonal of the last two axes */
QN_API qn_tensor *qn_triu(qn_tensor *x, int64_t k);
/* zeros above the k-th diagonal of the last two axes */
QN_API qn_tensor *qn_tril(qn_tensor *x, int64_t k);
/* `size` elements of an axis from start on, which may count from the end; QN_ERANGE outside */
QN_API qn_tensor *qn_narrow(qn_tensor *x, int axis, int64_t start, int64_t size);
/* x broadcast to y's shape; of y nothing is read */
QN_API qn_tensor *qn_expand_as(qn_tensor *x, qn_tensor *y);
/* an axis as n axes of these sizes, one of which may be -1 */
QN_API qn_tensor *qn_unflatten(qn_tensor *x, int axis, int n, const int64_t *sizes);
/* n axes at new places, the others in their order around them */
QN_API qn_tensor *qn_moveaxis(qn_tensor *x, int n, const int *from, const int *to);
/* x with as many axes of size 1 as rank, up to 3, lacks: in front, but as NumPy's atleast_3d the
 * third one behind */
QN_API qn_tensor *qn_atleast(qn_tensor *x, int rank);
/* turned by quarters in the plane of axes a and b, from a towards b */
QN_API qn_tensor *qn_rot90(qn_tensor *x, int64_t turns, int a, int b);
/* [.., n] as a diagonal of square matrices, at [.., i, i + offset]; zeros elsewhere */
QN_API qn_tensor *qn_diag_embed(qn_tensor *x, int64_t offset);
/* of a matrix its diagonal, of a vector the matrix with that diagonal */
QN_API qn_tensor *qn_diag(qn_tensor *x, int64_t offset);
/* as diagonal, of axes a and b */
QN_API qn_tensor *qn_diagonal_axes(qn_tensor *x, int64_t offset, int a, int b);
/* n tensors expanded to their common shape, into out[n] */
QN_API qn_code qn_broadcast_arrays(int n, qn_tensor *const *xs, qn_tensor **out);

/* ---- operations: joining and splitting ---------------------------------------------------- */

/* tensors one after the other along an axis; their other sizes are equal, their dtypes meet */
QN_API qn_tensor *qn_concat(int n, qn_tensor *const *xs, int axis);
/* tensors of one shape along a new axis at `axis` of the result */
QN_API qn_tensor *qn_stack(int n, qn_tensor *const *xs, int axis);
/* concat along axis 0; vectors are rows */
QN_API qn_tensor *qn_vstack(int n, qn_tensor *const *xs);
/* concat along axis 1; vectors along axis 0 */
QN_API qn_tensor *qn_hstack(int n, qn_tensor *const *xs);
/* n consecutive parts of the given sizes, which make up the axis, else QN_ESHAPE, into out[n] */
QN_API qn_code qn_split(qn_tensor *x, int axis, int n, const int64_t *sizes, qn_tensor **out);
/* n consecutive parts, the first ones larger by one where n does not divide, into out[n] */
QN_API qn_code qn_chunk(qn_tensor *x, int axis, int n, qn_tensor **out);
/* the whole repeated along the last n axes; new axes in front where n is above x's rank */
QN_API qn_tensor *qn_tile(qn_tensor *x, int n, const int64_t *times);
/* each element repeated along an axis, at its place; `times` from 0 on */
QN_API qn_tensor *qn_repeat_interleave(qn_tensor *x, int axis, int64_t times);
/* n vectors expanded to their common grid of n axes, the first along axis 0, into out[n] */
QN_API qn_code qn_meshgrid(int n, qn_tensor *const *xs, qn_tensor **out);
/* the n elements along an axis of size n, which is dropped, into out[n] */
QN_API qn_code qn_unstack(qn_tensor *x, int axis, int n, qn_tensor **out);
/* as meshgrid, but the first vector along axis 1 and the second along axis 0 */
QN_API qn_code qn_meshgrid_xy(int n, qn_tensor *const *xs, qn_tensor **out);
/* element i of an axis of size n counts[i] times, at its place */
QN_API qn_tensor *qn_repeat_counts(qn_tensor *x, int axis, int n, const int64_t *counts);

/* ---- operations: computed indices --------------------------------------------------------- */

/* Negative ones are not special; those outside are an error where they are known when the graph is
 * made and under QN_CHECK, else give 0 or are dropped. */

/* x[.., index[..], ..] along an axis; index, of integers, has x's shape on all other axes, and the
 * result index's */
QN_API qn_tensor *qn_gather(qn_tensor *x, qn_tensor *index, int axis);
/* x with src[..] combined into place index[..] along an axis; with QN_COMBINE_SET the last one
 * stays */
QN_API qn_tensor *qn_scatter(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis,
                             qn_combine combine);
/* x at the indices, of integers, along an axis, which is replaced by index's axes */
QN_API qn_tensor *qn_take(qn_tensor *x, qn_tensor *index, int axis);
/* gather, broadcasting x and index on the other axes */
QN_API qn_tensor *qn_take_along_axis(qn_tensor *x, qn_tensor *index, int axis);
/* x with slice i of src added to slice index[i]; index has rank 1 */
QN_API qn_tensor *qn_index_add(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis);
/* x with src, of x's rank and dtype, in place of the elements from start[axis] on; qn_assign(cache,
 * qn_update_slice(cache, new, start)) writes into the cache's own memory where nothing else needs
 * it */
QN_API qn_tensor *qn_update_slice(qn_tensor *x, qn_tensor *src, const int64_t *start);
/* a new last axis of size `classes` with 1 at the index, 0 elsewhere, in dtype */
QN_API qn_tensor *qn_one_hot(qn_tensor *index, int64_t classes, qn_dtype dtype);
/* rows of weight [rows, width] at indices, integers of any shape: [.., width] */
QN_API qn_tensor *qn_embedding(qn_tensor *weight, qn_tensor *index);
/* x[..] as NumPy has it: n items, slices, numbers, an ellipsis, new axes, and arrays of integers,
 * which broadcast together and come where they stand, or in front where they are apart; e.g. 3,
 * (qn_index_item[]){QN_ELLIPSIS, QN_SLICE(1, -1, 1), QN_AT_PLACES(t)} */
QN_API qn_tensor *qn_index(qn_tensor *x, int n, const qn_index_item *items);
/* x with src, broadcast to what index gives, combined into those places; with QN_COMBINE_SET the
 * last one stays, with QN_COMBINE_SUM all are added */
QN_API qn_tensor *qn_index_put(qn_tensor *x, int n, const qn_index_item *items, qn_tensor *src,
                               qn_combine combine);
/* x with slice i of src in place of slice index[i], a negative one from the end; the last one stays
 * */
QN_API qn_tensor *qn_index_copy(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis);
/* x with `value` in the slices at the indices of a vector, negative ones from the end */
QN_API qn_tensor *qn_index_fill(qn_tensor *x, qn_tensor *index, double value, int axis);
/* x with the mean of what scatter brings to a place, x's element among them if include_self; where
 * nothing comes x; integers as f32 */
QN_API qn_tensor *qn_scatter_mean(qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis,
                                  bool include_self);
/* x with `value`, in x's dtype, where the mask is not 0; both broadcast to x's shape */
QN_API qn_tensor *qn_masked_fill(qn_tensor *x, qn_tensor *mask, qn_tensor *value);
/* x with src, of its shape, in place of what slice gives; step from 1 on */
QN_API qn_tensor *qn_slice_scatter(qn_tensor *x, qn_tensor *src, int axis, int64_t start,
                                   int64_t stop, int64_t step);
/* x with src in place of what select gives */
QN_API qn_tensor *qn_select_scatter(qn_tensor *x, qn_tensor *src, int axis, int64_t index);
/* x with src in place of what diagonal gives */
QN_API qn_tensor *qn_diagonal_scatter(qn_tensor *x, qn_tensor *src, int64_t offset);

/* ---- operations: sorting ------------------------------------------------------------------ */

/* Any dtype; NaN comes behind all numbers (descending: before them), -0 equals 0, and equal
 * elements stay in their order. Indices are i64. QN_ERANGE for an axis that x lacks. Values or
 * index may be NULL. Computed by the host (docs/limits.md). */

/* x in order along an axis */
QN_API qn_tensor *qn_sort(qn_tensor *x, int axis, bool descending);
/* where along the axis the elements of sort come from */
QN_API qn_tensor *qn_argsort(qn_tensor *x, int axis, bool descending);
/* the k largest (smallest) along an axis, the largest (smallest) first, and where they are;
 * QN_ERANGE for k beyond the size */
QN_API qn_code qn_topk(qn_tensor *x, int64_t k, int axis, bool largest, qn_tensor **values,
                       qn_tensor **index);
/* the k-th smallest along an axis or QN_ALL, k from 1 on, and where it is; QN_ERANGE for k beyond
 * the size */
QN_API qn_code qn_kthvalue(qn_tensor *x, int64_t k, int axis, bool keepdims, qn_tensor **values,
                           qn_tensor **index);
/* the middle element, of two the lower, along an axis or QN_ALL; NaN where one is there */
QN_API qn_tensor *qn_median(qn_tensor *x, int axis, bool keepdims);
/* as median, of what is not NaN; NaN where nothing is */
QN_API qn_tensor *qn_nanmedian(qn_tensor *x, int axis, bool keepdims);
/* [n, ..]: what is at q[i]*(size - 1) in order, q in [0, 1], along an axis or QN_ALL; integers and
 * bools give f32; NaN where one is there; QN_ESHAPE of nothing or of a size that is not known */
QN_API qn_tensor *qn_quantile(qn_tensor *x, int n, const double *q, int axis, bool keepdims,
                              qn_quantile_mode mode);
/* the most frequent element along an axis or QN_ALL, of several the least, and where it is first */
QN_API qn_code qn_mode(qn_tensor *x, int axis, bool keepdims, qn_tensor **values,
                       qn_tensor **index);
/* x's different elements in order, where in the flat order each is first, which each element of x
 * is (x's shape), how often each is there, and how many there are (a scalar); vectors have x's
 * number of elements, zeros from `count` on; NaN differ; each of the five may be NULL */
QN_API qn_code qn_unique(qn_tensor *x, qn_tensor **values, qn_tensor **index, qn_tensor **inverse,
                         qn_tensor **counts, qn_tensor **count);
/* how many elements of sorted, which ascends along its last axis, are less than each value, right:
 * or equal to it; sorted is a vector, or has the sizes of values but for the last axis, else
 * QN_ESHAPE; dtypes meet */
QN_API qn_tensor *qn_searchsorted(qn_tensor *sorted, qn_tensor *values, bool right);
/* [bins]: how often each number from 0 on is among the integers of x, in i64; or the sum of the
 * weights, of x's shape, there (NULL: none); numbers outside are no index: see above */
QN_API qn_tensor *qn_bincount(qn_tensor *x, qn_tensor *weights, int64_t bins);
/* [n - 1]: how many elements of x lie in [edges[i], edges[i + 1]), the last of them with its end,
 * in i64; or the sum of their weights, of x's shape (NULL: none); edges [n] ascend; what is
 * outside, and NaN, is left out */
QN_API qn_tensor *qn_histogram(qn_tensor *x, qn_tensor *edges, qn_tensor *weights);

/* ---- operations: linear algebra ----------------------------------------------------------- */

/* Of the last two axes, the ones before them count matrices and broadcast; integers and bools are
 * f32; computed in double precision by the host (docs/limits.md). QN_ESHAPE where sizes do not fit.
 * What has no answer, as a singular system, gives infinities or NaN and no error. Where several
 * results are given each may be NULL. */

/* L, lower, of L @ transpose(L) = x, symmetric and positive definite, of which the lower triangle
 * is read (upper: the transpose of L); NaN where x is not positive definite */
QN_API qn_tensor *qn_cholesky(qn_tensor *x, bool upper);
/* x of a @ x = b, or transpose(a) @ x = b, of the upper or lower triangle of a [.., n, n], with
 * ones on its diagonal if `unit`; b is [.., n, m] or a vector */
QN_API qn_tensor *qn_solve_triangular(qn_tensor *a, qn_tensor *b, bool upper, bool transposed,
                                      bool unit);
/* x of a @ x = b: a [.., n, n], b [.., n, m] or a vector */
QN_API qn_tensor *qn_solve(qn_tensor *a, qn_tensor *b);
/* the inverse */
QN_API qn_tensor *qn_inv(qn_tensor *x);
/* the determinant; its gradient is NaN where x is singular */
QN_API qn_tensor *qn_det(qn_tensor *x);
/* sign of the determinant, 0 of a singular x, and log |det| */
QN_API qn_code qn_slogdet(qn_tensor *x, qn_tensor **sign, qn_tensor **logarithm);
/* x [.., m, n] = q @ r: q [.., m, k] with orthonormal columns, r [.., k, n] upper, k the smaller of
 * m and n; gradients for n <= m */
QN_API qn_code qn_qr(qn_tensor *x, qn_tensor **q, qn_tensor **r);
/* eigenvalues, ascending, and eigenvectors, as columns, of symmetric x, of which the lower triangle
 * is read; gradients of vectors want different values */
QN_API qn_code qn_eigh(qn_tensor *x, qn_tensor **values, qn_tensor **vectors);
/* x [.., m, n] = u @ diag(s) @ vh: u [.., m, k] and transpose(vh) with orthonormal columns, s
 * descending; gradients of u and vh want different singular values, none of them 0 */
QN_API qn_code qn_svd(qn_tensor *x, qn_tensor **u, qn_tensor **s, qn_tensor **vh);
/* x of the least |a @ x - b|, and of the least |x| where a [.., m, n] has more columns; of full
 * rank; b is [.., m, k] or a vector; by QR */
QN_API qn_tensor *qn_lstsq(qn_tensor *a, qn_tensor *b);
/* the Moore-Penrose inverse; singular values of at most rtol times the largest count as 0
 * (negative: the larger size times the dtype's epsilon) */
QN_API qn_tensor *qn_pinv(qn_tensor *x, double rtol);
/* [..] in i64: how many singular values are above rtol times the largest; rtol as pinv's */
QN_API qn_tensor *qn_matrix_rank(qn_tensor *x, double rtol);
/* x @ x @ .. n times; of the inverse for n < 0 */
QN_API qn_tensor *qn_matrix_power(qn_tensor *x, int64_t n);
/* the sum of x^n / n!, by Pade's approximation (Higham 2005) */
QN_API qn_tensor *qn_matrix_exp(qn_tensor *x);
/* cross product along an axis of size 3; the others broadcast; any numbers */
QN_API qn_tensor *qn_cross(qn_tensor *x, qn_tensor *y, int axis);
/* the Kronecker product: y times each element of x, side by side; axes of size 1 go in front of the
 * smaller rank; any numbers */
QN_API qn_tensor *qn_kron(qn_tensor *x, qn_tensor *y);

/* ---- operations: products ----------------------------------------------------------------- */

/* In the dtype in which the operands meet; sizes that are summed over are equal, else QN_ESHAPE. */

/* matrix product over x's last and y's last but one axis, batched and broadcast over the others; a
 * vector is a row or column; in the operands' dtype, f16 and bf16 summed in f32: cast narrow
 * operands to i32 or f32 to keep whole sums, nothing wide is stored for it */
QN_API qn_tensor *qn_matmul(qn_tensor *x, qn_tensor *y);
/* inner product of two vectors of one size: a scalar */
QN_API qn_tensor *qn_dot(qn_tensor *x, qn_tensor *y);
/* [n, m]: x[i] * y[j] of two vectors */
QN_API qn_tensor *qn_outer(qn_tensor *x, qn_tensor *y);
/* sum over n pairs of axes; the others of x, then of y, remain */
QN_API qn_tensor *qn_tensordot(qn_tensor *x, qn_tensor *y, int n, const int *x_axes,
                               const int *y_axes);
/* Einstein summation, e.g. "bij,bjk->bik"; axes go by letters, repeated ones take the diagonal,
 * "..." broadcasts */
QN_API qn_tensor *qn_einsum(int n, qn_tensor *const *xs, const char *spec);
/* x @ transpose(w) + b: x [.., in], w [out, in], b [out] or NULL: [.., out] */
QN_API qn_tensor *qn_linear(qn_tensor *x, qn_tensor *w, qn_tensor *b);

/* ---- operations: convolution and pooling -------------------------------------------------- */

/* convolution (as in networks: the kernel is not flipped) of [N, C, spatial..] with w [O, C/groups,
 * kernel..], plus b [O]: [N, O, floor((n + before + after - dilation*(kernel-1) - 1) / stride) + 1
 * ..]; b and options may be NULL */
QN_API qn_tensor *qn_conv(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
/* conv over one spatial axis: x [N, C, L], w [O, C/groups, K]; QN_ESHAPE for an image of another
 * rank */
QN_API qn_tensor *qn_conv1d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* conv over two: x [N, C, H, W], w [O, C/groups, KH, KW]; QN_ESHAPE for an image of another rank */
QN_API qn_tensor *qn_conv2d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* conv over three: x [N, C, D, H, W], w [O, C/groups, KD, KH, KW]; QN_ESHAPE for an image of
 * another rank */
QN_API qn_tensor *qn_conv3d(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                            const qn_conv_options *options);
/* the gradient of conv for its input, plus b: x [N, C, spatial..], w [C, O/groups, kernel..]: [N,
 * O, (n-1)*stride - before - after + dilation*(kernel-1) + 1 + extra ..] */
QN_API qn_tensor *qn_conv_transpose(qn_tensor *x, qn_tensor *w, qn_tensor *b,
                                    const qn_conv_options *options);
/* the largest of each window of [N, C, spatial..]; padding loses; options may be NULL, the stride
 * is the window's size then; groups do not matter */
QN_API qn_tensor *qn_max_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options);
/* the mean of each window, padding counting as zeros; as max_pool otherwise */
QN_API qn_tensor *qn_avg_pool(qn_tensor *x, const int64_t *size, const qn_conv_options *options);

/* ---- operations: neural networks ---------------------------------------------------------- */

/* e^x over its sum along an axis; integers and bools give f32; QN_ALL: over all */
QN_API qn_tensor *qn_softmax(qn_tensor *x, int axis);
/* as softmax, over n axes together */
QN_API qn_tensor *qn_softmax_axes(qn_tensor *x, int n, const int *axes);
/* logarithm of softmax without overflow */
QN_API qn_tensor *qn_log_softmax(qn_tensor *x, int axis);
/* as log_softmax, over n axes together */
QN_API qn_tensor *qn_log_softmax_axes(qn_tensor *x, int n, const int *axes);
/* (x - mean) / sqrt(variance + eps) over the last axis of x [.., C], times gamma, plus beta, [C]
 * (either may be NULL) */
QN_API qn_tensor *qn_layer_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps);
/* x / sqrt(mean(x*x) + eps) over the last axis of x [.., C], times gamma [C] (may be NULL) */
QN_API qn_tensor *qn_rms_norm(qn_tensor *x, qn_tensor *gamma, double eps);
/* layer_norm of [N, C, ...] over each group of channels and all later axes; gamma and beta: [C] or
 * NULL */
QN_API qn_tensor *qn_group_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, int64_t groups,
                                double eps);
/* softmax(q @ transpose(k) / sqrt(D)) @ v over q [.., Tq, D], k [.., Tk, D], v [.., Tk, E], floats:
 * [.., Tq, E]; options may be NULL; causal: query i sees keys up to i + Tk - Tq */
QN_API qn_tensor *qn_attention(qn_tensor *q, qn_tensor *k, qn_tensor *v,
                               const qn_attention_options *options);
/* zeros with probability p, the rest times 1 / (1-p); key: as of qn_key */
QN_API qn_tensor *qn_dropout(qn_tensor *x, qn_tensor *key, double p);
/* mean of -log_softmax(logits, -1) at the labels: logits [.., C], labels [..] of integers: a scalar
 * */
QN_API qn_tensor *qn_cross_entropy(qn_tensor *logits, qn_tensor *labels);
/* cross_entropy over the labels that are not `ignore`; NaN where there is none */
QN_API qn_tensor *qn_cross_entropy_ignoring(qn_tensor *logits, qn_tensor *labels, int64_t ignore);
/* mean of -log_p at the labels: log_p [.., C], labels [..] of integers: a scalar */
QN_API qn_tensor *qn_nll_loss(qn_tensor *log_p, qn_tensor *labels);
/* mean of (x - y)^2: a scalar */
QN_API qn_tensor *qn_mse_loss(qn_tensor *x, qn_tensor *y);
/* mean of |x - y|: a scalar */
QN_API qn_tensor *qn_l1_loss(qn_tensor *x, qn_tensor *y);
/* mean of d*d/2 for d = |x - y| up to delta, delta * (d - delta/2) beyond */
QN_API qn_tensor *qn_huber_loss(qn_tensor *x, qn_tensor *y, double delta);
/* mean of -(y*log_sigmoid(x) + (1-y)*log_sigmoid(-x)): a scalar */
QN_API qn_tensor *qn_bce_with_logits(qn_tensor *x, qn_tensor *y);
/* softmax of -x */
QN_API qn_tensor *qn_softmin(qn_tensor *x, int axis);
/* layer_norm over n axes together; gamma and beta broadcast to x's shape */
QN_API qn_tensor *qn_layer_norm_axes(qn_tensor *x, int n, const int *axes, qn_tensor *gamma,
                                     qn_tensor *beta, double eps);
/* of [N, C, ..] each channel of each image with mean 0 and variance 1 over the axes behind; gamma
 * and beta: [C] or NULL */
QN_API qn_tensor *qn_instance_norm(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps);
/* (x - mean) / sqrt(variance + eps) of [N, C, ..] by channels, times gamma, plus beta: each [C],
 * the last two or NULL */
QN_API qn_tensor *qn_batch_norm(qn_tensor *x, qn_tensor *mean, qn_tensor *variance,
                                qn_tensor *gamma, qn_tensor *beta, double eps);
/* batch_norm by x's own mean and variance over all axes but 1; into out[3] the result, the mean,
 * and the variance without bias, with which running statistics go on: qn_lerp(running, out[1],
 * momentum) */
QN_API qn_code qn_batch_norm_training(qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps,
                                      qn_tensor **out);
/* rotary positions (Su et al. 2021): of x [.., T, D] pair i turned by position * base^(-2i/D),
 * positions [.., T]; the pair is [i, i + D/2], or interleaved [2i, 2i + 1] */
QN_API qn_tensor *qn_rope(qn_tensor *x, qn_tensor *positions, double base, bool interleaved);
/* [N, C*r^n, n axes] as [N, C, n axes r times as long]: r^n channels become a block of places */
QN_API qn_tensor *qn_pixel_shuffle(qn_tensor *x, int64_t r);
/* the inverse of pixel_shuffle */
QN_API qn_tensor *qn_pixel_unshuffle(qn_tensor *x, int64_t r);
/* cross_entropy with weights of classes, smoothed labels, one that does not count, or another
 * reduction than the mean; options may be NULL */
QN_API qn_tensor *qn_cross_entropy_with(qn_tensor *logits, qn_tensor *labels,
                                        const qn_cross_entropy_options *options);
/* -sum of target * log_softmax(logits, -1) over the last axis, target being the classes'
 * probabilities; reduced over the rows */
QN_API qn_tensor *qn_cross_entropy_soft(qn_tensor *logits, qn_tensor *target,
                                        qn_reduction reduction);
/* target * (log(target) - log_p), 0 where target is; log_target: it is given as its logarithm */
QN_API qn_tensor *qn_kl_div(qn_tensor *log_p, qn_tensor *target, bool log_target,
                            qn_reduction reduction);
/* -(y*log(p) + (1-y)*log(1-p)), a logarithm of 0 being -100; bce_with_logits is more exact */
QN_API qn_tensor *qn_bce_loss(qn_tensor *p, qn_tensor *y, qn_reduction reduction);
/* |anchor - near| - |anchor - far| + margin where that is above 0, lengths being over the last axis
 * */
QN_API qn_tensor *qn_triplet_margin_loss(qn_tensor *anchor, qn_tensor *near, qn_tensor *far,
                                         double margin, qn_reduction reduction);
/* x . y / (|x| |y|) along an axis, lengths being eps at least */
QN_API qn_tensor *qn_cosine_similarity(qn_tensor *x, qn_tensor *y, int axis, double eps);
/* 1 - cosine_similarity along the last axis where target is above 0, else what it is above margin
 * */
QN_API qn_tensor *qn_cosine_embedding_loss(qn_tensor *x, qn_tensor *y, qn_tensor *target,
                                           double margin, qn_reduction reduction);
/* -target * (x - y) + margin where that is above 0; target 1 or -1 */
QN_API qn_tensor *qn_margin_ranking_loss(qn_tensor *x, qn_tensor *y, qn_tensor *target,
                                         double margin, qn_reduction reduction);
/* x where target is above 0, else margin - x where that is above 0 */
QN_API qn_tensor *qn_hinge_embedding_loss(qn_tensor *x, qn_tensor *target, double margin,
                                          qn_reduction reduction);
/* log(1 + e^(-target * x)); target 1 or -1 */
QN_API qn_tensor *qn_soft_margin_loss(qn_tensor *x, qn_tensor *target, qn_reduction reduction);
/* bce_with_logits' terms times (1 - p)^gamma, p being what the truth is given, and alpha for y = 1,
 * 1 - alpha for 0; no such weights for alpha below 0 (Lin et al. 2017) */
QN_API qn_tensor *qn_focal_loss(qn_tensor *x, qn_tensor *y, double alpha, double gamma,
                                qn_reduction reduction);
/* x - y * log(x), or of x as a logarithm e^x - y * x */
QN_API qn_tensor *qn_poisson_nll_loss(qn_tensor *x, qn_tensor *y, bool log_input,
                                      qn_reduction reduction);
/* (log(variance) + (x - y)^2 / variance) / 2, the variance being eps at least */
QN_API qn_tensor *qn_gaussian_nll_loss(qn_tensor *x, qn_tensor *y, qn_tensor *variance, double eps,
                                       qn_reduction reduction);

/* ---- operations: random numbers ----------------------------------------------------------- */

/* A function of the key, so the same key gives the same numbers everywhere. */

/* a key of shape [2], u32; one from qn_from serves as well, and may change without a new plan */
QN_API qn_tensor *qn_key(qn_ctx *qn, uint64_t seed);
/* another key, independent for each value of data */
QN_API qn_tensor *qn_key_fold(qn_tensor *key, uint64_t data);
/* u32 from Threefry-2x32-20 (Salmon et al. 2011), the counter being the flat index */
QN_API qn_tensor *qn_random_bits(qn_tensor *key, int rank, const int64_t *shape);
/* floats in [0, 1), every multiple of the dtype's epsilon alike (f64: 53 bits) */
QN_API qn_tensor *qn_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* normal floats, mean 0 and variance 1 (Box-Muller) */
QN_API qn_tensor *qn_randn(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* integers in [lo, hi), at most 2^32 different ones, all of which the dtype holds */
QN_API qn_tensor *qn_randint(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                             int64_t lo, int64_t hi);
/* bool: true with probability p */
QN_API qn_tensor *qn_bernoulli(qn_tensor *key, int rank, const int64_t *shape, double p);
/* n independent keys into out[n] */
QN_API qn_code qn_key_split(qn_tensor *key, int n, qn_tensor **out);
/* key_fold by an integer that is a tensor of rank 0: it may change, a step's number, without a new
 * plan */
QN_API qn_tensor *qn_key_fold_in(qn_tensor *key, qn_tensor *data);
/* floats above 0 with the density e^-x: -log(1 - u) */
QN_API qn_tensor *qn_exponential(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* floats of Gumbel's distribution: -log of exponential ones */
QN_API qn_tensor *qn_gumbel(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape);
/* of logits [.., C] a class each, [..] of i64, with the probabilities softmax(logits, -1) */
QN_API qn_tensor *qn_categorical(qn_tensor *key, qn_tensor *logits);
/* of weights [.., C], not below 0, n classes each, [.., n] of i64, with probabilities in their
 * proportion; a class may come again */
QN_API qn_tensor *qn_multinomial(qn_tensor *key, qn_tensor *weights, int64_t n);
/* normal floats of variance gain^2 / in for a weight [out, in, kernel..], in counting the kernel's
 * places (He et al. 2015; gain sqrt(2) before relu) */
QN_API qn_tensor *qn_kaiming_normal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                    double gain);
/* as kaiming_normal, uniform within gain * sqrt(3 / in) */
QN_API qn_tensor *qn_kaiming_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                     double gain);
/* normal floats of variance 2 gain^2 / (in + out) (Glorot and Bengio 2010) */
QN_API qn_tensor *qn_xavier_normal(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                   double gain);
/* as xavier_normal, uniform within gain * sqrt(6 / (in + out)) */
QN_API qn_tensor *qn_xavier_uniform(qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape,
                                    double gain);

/* ---- operations: marks -------------------------------------------------------------------- */

/* must be stored before it is used (any dtype) */
QN_API qn_tensor *qn_contiguous(qn_tensor *x);
/* the value without its history (any dtype) */
QN_API qn_tensor *qn_detach(qn_tensor *x);

/* == end of what is generated == */

#ifdef __cplusplus
}
#endif
#endif
