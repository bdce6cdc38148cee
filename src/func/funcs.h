/* funcs.h - the public functions that are not simply a row of ops.h, one row each. They are plain C
 * over other constructors (func_*.c), so they need neither a gradient nor a kernel of their own.
 * From here come prototypes (quern_ops.h, quern_ops_linalg.h, quern_ops_nn.h) and docs/ops.md, by
 * tools/gen.py, and the tests of the elementwise ones.
 *
 * X(KIND, name, params, ORACLE, lo, hi, doc)
 *   KIND    UNARY, BINARY  elementwise in x, or in x and y, tested by value and by gradient
 *           TENSOR         gives a tensor;  STATUS gives 0 or an error's code
 *   ORACLE  the value in long double, of x and y; "-" where tests have an oracle of their own
 *   lo hi   the domain tests draw from */

/* making */
X(TENSOR, full, (qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, double value), -, 0, 0,
  "`value` at every index, in dtype; QN_ERANGE where an integer dtype does not hold it")
X(TENSOR, full_int, (qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, int64_t value), -, 0, 0,
  "as full, of an integer: exact beyond 2^53, too; floats take it rounded once")
X(TENSOR, zeros, (qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape), -, 0, 0,
  "zeros of a shape and dtype")
X(TENSOR, ones, (qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape), -, 0, 0,
  "ones of a shape and dtype")
X(TENSOR, scalar, (qn_ctx *qn, qn_dtype dtype, double value), -, 0, 0,
  "a tensor of rank 0 in dtype; QN_ERANGE where an integer dtype does not hold the value")
X(TENSOR, scalar_int, (qn_ctx *qn, qn_dtype dtype, int64_t value), -, 0, 0,
  "as scalar, of an integer: exact beyond 2^53, too; floats take it rounded once")
X(TENSOR, like, (qn_tensor *x, double value), -, 0, 0,
  "a scalar of x's dtype, whatever that is, to compute with x: qn_mul(x, qn_like(x, 2)); "
  "QN_ERANGE where an integer dtype does not hold the value")
X(TENSOR, weak, (qn_tensor *x, double value), -, 0, 0,
  "a scalar to compute with x that does not change x's dtype, as numbers of Python do with "
  "PyTorch: in x's dtype where that is a float, of a complex x its parts', else f32; "
  "qn_mul(x, qn_weak(x, 0.5))")
X(TENSOR, weak_int, (qn_tensor *x, int64_t value), -, 0, 0,
  "as weak, of an integer: exactly, in x's dtype, which is a float or holds it, else QN_ERANGE; "
  "beside bools it is i64")
X(TENSOR, full_like, (qn_tensor *x, double value), -, 0, 0,
  "`value` in x's dtype and shape; QN_ERANGE where an integer dtype does not hold it")
X(TENSOR, zeros_like, (qn_tensor *x), -, 0, 0, "zeros in x's dtype and shape")
X(TENSOR, ones_like, (qn_tensor *x), -, 0, 0, "ones in x's dtype and shape")
X(TENSOR, iota, (qn_ctx *qn, qn_dtype dtype, int rank, const int64_t *shape, int axis), -, 0, 0,
  "the index along an axis, at every index of a shape")
X(TENSOR, arange, (qn_ctx *qn, qn_dtype dtype, double start, double stop, double step), -, 0, 0,
  "[n]: start, start + step, ... below stop (above it for a negative step); QN_ERANGE for a "
  "step of 0")
X(TENSOR, arange_int, (qn_ctx *qn, qn_dtype dtype, int64_t start, int64_t stop, int64_t step), -, 0, 0,
  "as arange, of integers: exact beyond 2^53, too; QN_ERANGE for a step of 0 and where an integer "
  "dtype does not hold the ends")
X(TENSOR, linspace, (qn_ctx *qn, qn_dtype dtype, double start, double stop, int64_t n), -, 0, 0,
  "[n]: evenly spaced numbers from start to stop, both included")
X(TENSOR, eye, (qn_ctx *qn, qn_dtype dtype, int64_t rows, int64_t columns), -, 0, 0,
  "[rows, columns]: ones on the diagonal, zeros elsewhere")

/* converting */
X(TENSOR, cast, (qn_tensor *x, qn_dtype dtype), -, 0, 0,
  "another dtype: rounded to nearest even, wrapped, or truncated and clamped (NaN gives 0); "
  "bool: x != 0")
X(TENSOR, cast_saturating, (qn_tensor *x, qn_dtype dtype), -, 0, 0,
  "another dtype, where what is beyond its largest or smallest number, infinities too, is that "
  "number: cast would give infinity, NaN in f8_e4m3, or wrap; NaN stays, of integers it is 0")
X(TENSOR, bitcast, (qn_tensor *x, qn_dtype dtype), -, 0, 0,
  "the same bits as a dtype of equal size, else QN_EDTYPE; as bool: not 0")
X(TENSOR, view, (qn_tensor *x, qn_dtype dtype), -, 0, 0,
  "the same bytes as another dtype: of another size the last axis is as much longer or shorter, "
  "and must go up, else QN_ESHAPE; a scalar becomes a vector; the low bytes come first")
X(STATUS, mx_quantize, (qn_tensor *x, qn_dtype dtype, int64_t block, qn_tensor **out), -, 0, 0,
  "blocks of the last axis (OCP MX v1.0: 32 long) by a scale each into out[2]: values of an f8 "
  "dtype, else QN_EDTYPE, and the scales' biased exponents, u8, 255 of one with NaN or infinity; "
  "computed in f32; QN_ESHAPE if blocks do not divide the axis; scales have no gradient")
X(TENSOR, mx_dequantize, (qn_tensor *x, qn_tensor *scales), -, 0, 0,
  "f32: f8 values, block by block, times 2^(scale - 127), of 255 NaN; a block is as long as x's "
  "last axis has elements for one of the u8 scales', else QN_ESHAPE; no product stores it")
X(TENSOR, clone, (qn_tensor *x), -, 0, 0,
  "the value in memory of its own; its gradient is x's")
X(TENSOR, variable, (qn_tensor *x), -, 0, 0,
  "x's value as a variable of its own, without a copy: a gradient by it is that of what is made of "
  "it, not of what is made of x or of another such variable; also of a constant; its own is x's")

/* elementwise, one argument: of any shape, which the result has; floats, integers and bools as f32
 * unless they stay */
X(UNARY, relu, (qn_tensor *x), x <= 0 ? 0 : x, -4, 4, "x above 0, else 0; derivative 0 at 0")
X(UNARY, sign, (qn_tensor *x), (x > 0) - (x < 0), -4, 4, "-1, 0 or 1; NaN stays")
X(UNARY, log_sigmoid, (qn_tensor *x), -log1pl(expl(-x)), -12, 12, "log(sigmoid(x)) without overflow")
X(UNARY, rsqrt, (qn_tensor *x), 1 / sqrtl(x), 0.1, 8, "1 / sqrt(x)")
X(UNARY, square, (qn_tensor *x), x * x, -4, 4, "x * x")
X(UNARY, log10, (qn_tensor *x), log10l(x), 0.1, 100, "logarithm to base 10")
X(UNARY, tan, (qn_tensor *x), tanl(x), -1.4, 1.4, "tangent of radians")
X(UNARY, isnan, (qn_tensor *x), isnan(x), -4, 4, "bool: is x not a number?")
X(UNARY, isinf, (qn_tensor *x), isinf(x) != 0, -4, 4, "bool: is x an infinity?")
X(UNARY, isfinite, (qn_tensor *x), isfinite(x), -4, 4, "bool: neither infinite nor NaN?")
X(UNARY, logical_not, (qn_tensor *x), x == 0, -4, 4, "bool: is x zero?")
X(UNARY, relu6, (qn_tensor *x), fminl(fmaxl(x, 0), 6), -8, 8, "x clamped to [0, 6]")
X(UNARY, hardswish, (qn_tensor *x), x * fminl(fmaxl(x + 3, 0), 6) / 6, -4, 4, "x * relu6(x + 3) / 6")
X(UNARY, hardsigmoid, (qn_tensor *x), fminl(fmaxl(x + 3, 0), 6) / 6, -4, 4, "relu6(x + 3) / 6")
X(UNARY, selu, (qn_tensor *x), 1.0507009873554805L * (x > 0 ? x : 1.6732632423543772L * expm1l(x)), -4, 4, "scaled elu, constants of Klambauer et al. 2017")
X(TENSOR, elu, (qn_tensor *x, double alpha), -, 0, 0, "x above 0, else alpha * (e^x - 1)")
X(TENSOR, leaky_relu, (qn_tensor *x, double slope), -, 0, 0, "x above 0, else slope * x")
X(TENSOR, clamp, (qn_tensor *x, double lo, double hi), -, 0, 0,
  "the smaller of hi and the larger of lo and x; NaN stays, but is no bound; integers keep to the "
  "integers within")
X(UNARY, signbit, (qn_tensor *x), signbit(x) != 0, -4, 4,
  "bool: has x a sign? also -0 and NaNs that have one; never an unsigned integer")
X(UNARY, sinc, (qn_tensor *x), x == 0 ? 1 : isinf(x) ? x - x : x == rintl(x) ? 0 : sinl(3.14159265358979323846L * x) / (3.14159265358979323846L * x), -4, 4,
  "sin(pi x) / (pi x), 1 at 0, as in NumPy and PyTorch")
X(UNARY, logit, (qn_tensor *x), logl(x / (1 - x)), 0.1, 0.9,
  "log(x / (1 - x)), the inverse of sigmoid; NaN outside [0, 1]")
X(TENSOR, erfinv, (qn_tensor *x), -, 0, 0,
  "y of erf(y) = x, infinite at 1 and -1, NaN beyond; also the normal distribution's quantiles: "
  "sqrt(2) * erfinv(2 p - 1); by one of Halley's steps in f64")
X(UNARY, softsign, (qn_tensor *x), isinf(x) ? copysignl(1, x) : x / (1 + fabsl(x)), -4, 4,
  "x / (1 + |x|)")
X(TENSOR, celu, (qn_tensor *x, double alpha), -, 0, 0,
  "x above 0, else alpha * (e^(x / alpha) - 1)")
X(TENSOR, hardtanh, (qn_tensor *x, double lo, double hi), -, 0, 0,
  "clamp by another name, lo and hi usually -1 and 1")
X(TENSOR, threshold, (qn_tensor *x, double threshold, double value), -, 0, 0,
  "x above the threshold, else `value`; NaN stays")
X(TENSOR, softplus_beta, (qn_tensor *x, double beta, double threshold), -, 0, 0,
  "log(1 + e^(beta x)) / beta, and x where beta x is above the threshold, PyTorch's 20")
X(TENSOR, glu, (qn_tensor *x, int axis), -, 0, 0,
  "the first half of an axis times sigmoid of the second one")
X(TENSOR, nan_to_num, (qn_tensor *x, double nan, double infinity, double minus_infinity), -, 0, 0,
  "x with numbers in place of NaN and the infinities; INFINITY and -INFINITY stand for the "
  "dtype's largest number of that sign; integers stay")
X(STATUS, frexp, (qn_tensor *x, qn_tensor **out), -, 0, 0,
  "x = m * 2^e into out[2]: m from 1/2 up to 1 with x's sign, and e, i32; x and 0 of zeros, "
  "infinities and NaN")
X(TENSOR, bitwise_count, (qn_tensor *x), -, 0, 0,
  "u8: how many bits of |x| are set; integers and bools")

/* elementwise, two arguments and more: shapes broadcast, else QN_ESHAPE; dtypes meet as the array
 * API says */
X(BINARY, gt, (qn_tensor *x, qn_tensor *y), x > y, -4, 4, "bool: x > y")
X(BINARY, ge, (qn_tensor *x, qn_tensor *y), x >= y, -4, 4, "bool: x >= y")
X(BINARY, logical_and, (qn_tensor *x, qn_tensor *y), x != 0 && y != 0, -4, 4, "bool: both non-zero")
X(BINARY, logical_or, (qn_tensor *x, qn_tensor *y), x != 0 || y != 0, -4, 4, "bool: either non-zero")
X(BINARY, logical_xor, (qn_tensor *x, qn_tensor *y), (x != 0) != (y != 0), -4, 4, "bool: exactly one non-zero")
X(BINARY, rem, (qn_tensor *x, qn_tensor *y), fmodl(x, y), 0.5, 8, "remainder with x's sign, C's % and fmod; integers by 0 give x")
X(TENSOR, lerp, (qn_tensor *x, qn_tensor *y, qn_tensor *t), -, 0, 0, "x + t * (y - x)")
X(BINARY, copysign, (qn_tensor *x, qn_tensor *y), copysignl(x, y), -4, 4,
  "|x| with y's sign, also that of -0 and NaN; integers as f32")
X(BINARY, heaviside, (qn_tensor *x, qn_tensor *y), x < 0 ? 0 : x == 0 ? y : x > 0 ? 1 : x, -4, 4,
  "0 below 0, y at 0, 1 above; NaN stays")
X(TENSOR, nextafter, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "the number next to x on the way to y, in the dtype where they meet; integers as f32; no "
  "derivative")
X(TENSOR, ldexp, (qn_tensor *x, qn_tensor *n), -, 0, 0,
  "x * 2^n, rounded once; n of integers, else QN_EDTYPE")
X(TENSOR, gcd, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "greatest common divisor of integers, not below 0; 0 of two zeros")
X(TENSOR, lcm, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "least common multiple of integers, not below 0 but where it wraps; 0 where either is")
X(TENSOR, clip, (qn_tensor *x, qn_tensor *lo, qn_tensor *hi), -, 0, 0,
  "the smaller of hi and the larger of lo and x, of tensors that meet; either bound may be "
  "NULL; NaN if any of them is; at a bound the derivative is x's")
X(TENSOR, prelu, (qn_tensor *x, qn_tensor *weight), -, 0, 0,
  "x above 0, else weight * x; weight has one number, or one for each channel, axis 1 of x")
X(TENSOR, isclose, (qn_tensor *x, qn_tensor *y, double rtol, double atol, bool equal_nan), -, 0, 0,
  "bool: |x - y| <= atol + rtol * |y|; infinities are near their equals only, NaN to NaN if "
  "equal_nan says so; integers are compared in f64")
X(TENSOR, allclose, (qn_tensor *x, qn_tensor *y, double rtol, double atol, bool equal_nan), -, 0, 0,
  "bool, a scalar: is every element close, as isclose says?")

/* reductions: axis QN_ALL means every axis; keepdims leaves reduced axes with size 1; _axes takes a
 * list, in which no axis may come twice, and of none changes nothing. Sums and products of
 * integers are in 64 bits. QN_ERANGE for an axis that x lacks */
X(TENSOR, mean, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "mean over an axis; integers and bools give f32")
X(TENSOR, mean_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0,
  "as mean, over n axes")
X(TENSOR, variance, (qn_tensor *x, int axis, double correction, bool keepdims), -, 0, 0,
  "variance: squares' sum over (count - correction); 1 gives the unbiased estimate; integers "
  "and bools give f32")
X(TENSOR, variance_axes, (qn_tensor *x, int n, const int *axes, double correction, bool keepdims), -, 0, 0,
  "as variance, over n axes")
X(TENSOR, std, (qn_tensor *x, int axis, double correction, bool keepdims), -, 0, 0,
  "square root of the variance; integers and bools give f32")
X(TENSOR, std_axes, (qn_tensor *x, int n, const int *axes, double correction, bool keepdims), -, 0, 0,
  "as std, over n axes")
X(TENSOR, any, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "bool: is any element non-zero? any dtype")
X(TENSOR, any_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0, "as any, over n axes")
X(TENSOR, all, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "bool: is every element non-zero? any dtype")
X(TENSOR, all_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0, "as all, over n axes")
X(TENSOR, norm, (qn_tensor *x, int axis, double p, bool keepdims), -, 0, 0,
  "(sum |x|^p)^(1/p); infinity: the largest |x|; 0: how many are non-zero; "
  "powers are not scaled: f32 overflows from about 1e19 for p = 2, as in PyTorch")
X(TENSOR, norm_axes, (qn_tensor *x, int n, const int *axes, double p, bool keepdims), -, 0, 0,
  "as norm, over n axes together: the vector norm of all their elements")
X(TENSOR, logsumexp, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "log(sum e^x) without overflow; integers and bools give f32")
X(TENSOR, logsumexp_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0, "as logsumexp, over n axes")
X(TENSOR, count_nonzero, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "i64: how many elements are not zero; NaN is not")
X(TENSOR, count_nonzero_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0,
  "as count_nonzero, over n axes")
X(TENSOR, nansum, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "sum of what is not NaN, 0 of nothing")
X(TENSOR, nansum_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0,
  "as nansum, over n axes")
X(TENSOR, nanprod, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "product of what is not NaN, 1 of nothing")
X(TENSOR, nanprod_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0,
  "as nanprod, over n axes")
X(TENSOR, nanmax, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "the largest that is not NaN; NaN where all are")
X(TENSOR, nanmax_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0,
  "as nanmax, over n axes")
X(TENSOR, nanmin, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "the smallest that is not NaN; NaN where all are")
X(TENSOR, nanmin_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0,
  "as nanmin, over n axes")
X(TENSOR, nanmean, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "mean of what is not NaN; NaN of nothing; integers and bools give f32")
X(TENSOR, nanmean_axes, (qn_tensor *x, int n, const int *axes, bool keepdims), -, 0, 0,
  "as nanmean, over n axes")
X(TENSOR, nanvariance, (qn_tensor *x, int axis, double correction, bool keepdims), -, 0, 0,
  "variance of what is not NaN, by their number less `correction`")
X(TENSOR, nanvariance_axes, (qn_tensor *x, int n, const int *axes, double correction, bool keepdims), -, 0, 0,
  "as nanvariance, over n axes")
X(TENSOR, nanstd, (qn_tensor *x, int axis, double correction, bool keepdims), -, 0, 0,
  "square root of nanvariance")
X(TENSOR, nanstd_axes, (qn_tensor *x, int n, const int *axes, double correction, bool keepdims), -, 0, 0,
  "as nanstd, over n axes")
X(TENSOR, sum_as, (qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims), -, 0, 0,
  "sum over n axes of x in `dtype`, to which elements are brought first: f32 sums as f64, "
  "integers in their own width")
X(TENSOR, prod_as, (qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims), -, 0, 0,
  "product over n axes of x in `dtype`")
X(TENSOR, mean_as, (qn_tensor *x, int n, const int *axes, qn_dtype dtype, bool keepdims), -, 0, 0,
  "mean over n axes of x in `dtype`, a float")
X(STATUS, aminmax, (qn_tensor *x, int axis, bool keepdims, qn_tensor **out), -, 0, 0,
  "the smallest and the largest over an axis, in one pass, into out[2]")
X(TENSOR, trace, (qn_tensor *x, int64_t offset), -, 0, 0,
  "sum of the elements [.., i, i + offset] of the last two axes")

/* scans: running results along one axis, of x's shape; sums and products of integers and bools in
 * 64 bits, of f16, bf16 and f8 in f32; QN_ERANGE for an axis that x lacks */
X(TENSOR, cumsum, (qn_tensor *x, int axis), -, 0, 0, "element i: the sum of elements 0 to i")
X(TENSOR, cumprod, (qn_tensor *x, int axis), -, 0, 0, "element i: the product of elements 0 to i")
X(TENSOR, cummax, (qn_tensor *x, int axis), -, 0, 0, "element i: the largest of elements 0 to i; NaN from the first NaN on")
X(TENSOR, cummin, (qn_tensor *x, int axis), -, 0, 0, "element i: the smallest of elements 0 to i; NaN from the first NaN on")
X(TENSOR, cumargmax, (qn_tensor *x, int axis), -, 0, 0,
  "i64: where cummax's element is, of equal ones and of NaN the last, as torch.cummax has it")
X(TENSOR, cumargmin, (qn_tensor *x, int axis), -, 0, 0,
  "i64: where cummin's element is, of equal ones and of NaN the last, as torch.cummin has it")
X(TENSOR, logcumsumexp, (qn_tensor *x, int axis), -, 0, 0,
  "element i: log(sum e^x) of elements 0 to i without overflow; integers and bools give f32")
X(TENSOR, linear_scan, (qn_tensor *a, qn_tensor *b, int axis), -, 0, 0,
  "h[i] = a[i] * h[i-1] + b[i] along an axis of b, a broadcast to b, h 0 in front: a linear "
  "recurrence; sums of segments where a is 0 at their beginnings and 1 elsewhere")
X(TENSOR, diff, (qn_tensor *x, int n, int axis), -, 0, 0,
  "x[i+1] - x[i] along an axis, n times; of bools whether they differ; QN_ERANGE for n below 0")

/* movement: no element is copied or computed */
X(TENSOR, reshape, (qn_tensor *x, int rank, const int64_t *shape), -, 0, 0,
  "the same elements in row-major order; one size may be -1, meaning what is left; QN_ESHAPE "
  "where the number of elements differs")
X(TENSOR, permute, (qn_tensor *x, int n, const int *axes), -, 0, 0,
  "axis i of the result is axis axes[i] of x; n is x's rank")
X(TENSOR, transpose, (qn_tensor *x, int a, int b), -, 0, 0, "axes a and b exchanged")
X(TENSOR, expand, (qn_tensor *x, int rank, const int64_t *shape), -, 0, 0,
  "broadcast to a shape, which may have more axes in front; -1 keeps a size; QN_ESHAPE where "
  "one is neither 1 nor equal")
X(TENSOR, slice, (qn_tensor *x, int axis, int64_t start, int64_t stop, int64_t step), -, 0, 0,
  "elements start, start + step, ... before stop; as in NumPy negative ones count from the end "
  "and what is outside is cut off; stop QN_END: as far as it goes; step may be negative")
X(TENSOR, select, (qn_tensor *x, int axis, int64_t index), -, 0, 0,
  "x at one index of an axis, which is dropped; QN_ERANGE outside of it")
X(TENSOR, flip, (qn_tensor *x, int axis), -, 0, 0, "an axis, or with QN_ALL every axis, in reverse order")
X(TENSOR, flip_axes, (qn_tensor *x, int n, const int *axes), -, 0, 0, "n axes in reverse order")
X(TENSOR, as_strided, (qn_tensor *x, int rank, const int64_t *shape, const int64_t *strides, int64_t offset), -, 0, 0,
  "element offset + sum of index * stride of x in row-major order; QN_ERANGE where that is "
  "outside of x")
X(TENSOR, pad, (qn_tensor *x, const int64_t *before_after, qn_pad_mode mode, double value), -, 0, 0,
  "two numbers for each axis of x say how much to add before and after (negative: to cut off); "
  "`value` is for QN_PAD_CONSTANT")
X(TENSOR, roll, (qn_tensor *x, int axis, int64_t shift), -, 0, 0,
  "elements moved `shift` places onward along an axis, around the end; `shift` may be negative or "
  "beyond the size")
X(TENSOR, roll_axes, (qn_tensor *x, int n, const int *axes, const int64_t *shifts), -, 0, 0,
  "as roll along n axes, one after the other, each by its shift; an axis may come twice")
X(TENSOR, squeeze, (qn_tensor *x, int axis), -, 0, 0, "an axis of size 1, or with QN_ALL all such axes, dropped")
X(TENSOR, squeeze_axes, (qn_tensor *x, int n, const int *axes), -, 0, 0, "n axes of size 1 dropped; QN_ESHAPE where one is not")
X(TENSOR, unsqueeze, (qn_tensor *x, int axis), -, 0, 0, "a new axis of size 1 at `axis` of the result")
X(TENSOR, unsqueeze_axes, (qn_tensor *x, int n, const int *axes), -, 0, 0, "n new axes of size 1, at these places of the result")
X(TENSOR, flatten, (qn_tensor *x, int first, int last), -, 0, 0, "axes first to last (included) merged into one")
X(TENSOR, unfold, (qn_tensor *x, int axis, int64_t size, int64_t step), -, 0, 0,
  "windows of `size` elements every `step` along an axis; the place within is a new last axis")
X(TENSOR, diagonal, (qn_tensor *x, int64_t offset), -, 0, 0, "elements [.., i, i + offset] of the last two axes as a new last axis")
X(TENSOR, triu, (qn_tensor *x, int64_t k), -, 0, 0, "zeros below the k-th diagonal of the last two axes")
X(TENSOR, tril, (qn_tensor *x, int64_t k), -, 0, 0, "zeros above the k-th diagonal of the last two axes")
X(TENSOR, narrow, (qn_tensor *x, int axis, int64_t start, int64_t size), -, 0, 0,
  "`size` elements of an axis from start on, which may count from the end; QN_ERANGE outside")
X(TENSOR, expand_as, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "x broadcast to y's shape; of y nothing is read")
X(TENSOR, unflatten, (qn_tensor *x, int axis, int n, const int64_t *sizes), -, 0, 0,
  "an axis as n axes of these sizes, one of which may be -1")
X(TENSOR, moveaxis, (qn_tensor *x, int n, const int *from, const int *to), -, 0, 0,
  "n axes at new places, the others in their order around them")
X(TENSOR, atleast, (qn_tensor *x, int rank), -, 0, 0,
  "x with as many axes of size 1 as rank, up to 3, lacks: in front, but as NumPy's atleast_3d "
  "the third one behind")
X(TENSOR, rot90, (qn_tensor *x, int64_t turns, int a, int b), -, 0, 0,
  "turned by quarters in the plane of axes a and b, from a towards b")
X(TENSOR, diag_embed, (qn_tensor *x, int64_t offset), -, 0, 0,
  "[.., n] as a diagonal of square matrices, at [.., i, i + offset]; zeros elsewhere")
X(TENSOR, diag, (qn_tensor *x, int64_t offset), -, 0, 0,
  "of a matrix its diagonal, of a vector the matrix with that diagonal")
X(TENSOR, diagonal_axes, (qn_tensor *x, int64_t offset, int a, int b), -, 0, 0,
  "as diagonal, of axes a and b")
X(STATUS, broadcast_arrays, (int n, qn_tensor *const *xs, qn_tensor **out), -, 0, 0,
  "n tensors expanded to their common shape, into out[n]")

/* joining and splitting */
X(TENSOR, concat, (int n, qn_tensor *const *xs, int axis), -, 0, 0,
  "tensors one after the other along an axis; their other sizes are equal, their dtypes meet")
X(TENSOR, stack, (int n, qn_tensor *const *xs, int axis), -, 0, 0,
  "tensors of one shape along a new axis at `axis` of the result")
X(TENSOR, vstack, (int n, qn_tensor *const *xs), -, 0, 0, "concat along axis 0; vectors are rows")
X(TENSOR, hstack, (int n, qn_tensor *const *xs), -, 0, 0, "concat along axis 1; vectors along axis 0")
X(STATUS, split, (qn_tensor *x, int axis, int n, const int64_t *sizes, qn_tensor **out), -, 0, 0,
  "n consecutive parts of the given sizes, which make up the axis, else QN_ESHAPE, into out[n]")
X(STATUS, chunk, (qn_tensor *x, int axis, int n, qn_tensor **out), -, 0, 0,
  "n consecutive parts, the first ones larger by one where n does not divide, into out[n]")
X(TENSOR, tile, (qn_tensor *x, int n, const int64_t *times), -, 0, 0, "the whole repeated along the last n axes; new axes in front where n is above x's rank")
X(TENSOR, repeat_interleave, (qn_tensor *x, int axis, int64_t times), -, 0, 0,
  "each element repeated along an axis, at its place; `times` from 0 on")
X(STATUS, meshgrid, (int n, qn_tensor *const *xs, qn_tensor **out), -, 0, 0,
  "n vectors expanded to their common grid of n axes, the first along axis 0, into out[n]")
X(STATUS, unstack, (qn_tensor *x, int axis, int n, qn_tensor **out), -, 0, 0,
  "the n elements along an axis of size n, which is dropped, into out[n]")
X(STATUS, meshgrid_xy, (int n, qn_tensor *const *xs, qn_tensor **out), -, 0, 0,
  "as meshgrid, but the first vector along axis 1 and the second along axis 0")
X(TENSOR, repeat_counts, (qn_tensor *x, int axis, int n, const int64_t *counts), -, 0, 0,
  "element i of an axis of size n counts[i] times, at its place")

/* computed indices: negative ones count from the end of their axis, but for labels, classes and
 * rows of embeddings; those outside are an error where they are known when the graph is made and
 * under QN_CHECK, else give 0 or are dropped */
X(TENSOR, gather, (qn_tensor *x, qn_tensor *index, int axis), -, 0, 0,
  "x[.., index[..], ..] along an axis; index, of integers, has x's shape on all other axes, and "
  "the result index's")
X(TENSOR, scatter, (qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis, qn_combine combine), -, 0, 0,
  "x with src[..] combined into place index[..] along an axis; with QN_COMBINE_SET the last "
  "one stays")
X(TENSOR, take, (qn_tensor *x, qn_tensor *index, int axis), -, 0, 0,
  "x at the indices, of integers, along an axis, which is replaced by index's axes")
X(TENSOR, take_along_axis, (qn_tensor *x, qn_tensor *index, int axis), -, 0, 0, "gather, broadcasting x and index on the other axes")
X(TENSOR, index_add, (qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis), -, 0, 0,
  "x with slice i of src added to slice index[i]; index has rank 1")
X(TENSOR, update_slice, (qn_tensor *x, qn_tensor *src, const int64_t *start), -, 0, 0,
  "x with src, of x's rank and dtype, in place of the elements from start[axis] on; "
  "qn_assign(cache, qn_update_slice(cache, new, start)) writes into the cache's own memory where "
  "nothing else needs it")
X(TENSOR, one_hot, (qn_tensor *index, int64_t classes, qn_dtype dtype), -, 0, 0,
  "a new last axis of size `classes` with 1 at the index, 0 elsewhere, in dtype")
X(TENSOR, embedding, (qn_tensor *weight, qn_tensor *index), -, 0, 0,
  "rows of weight [rows, width] at indices, integers of any shape: [.., width]")
X(TENSOR, index, (qn_tensor *x, int n, const qn_index_item *items), -, 0, 0,
  "x[..] as NumPy has it: n items, slices, numbers, an ellipsis, new axes, and arrays of "
  "integers, which broadcast together and come where they stand, or in front where they are "
  "apart; e.g. 3, (qn_index_item[]){QN_ELLIPSIS, QN_SLICE(1, -1, 1), QN_AT_PLACES(t)}; a bool "
  "array stands for the places where it is true: their number is read, which runs the graph "
  "(nonzero, masked_select and where need not); they broadcast with arrays as others do")
X(TENSOR, index_put, (qn_tensor *x, int n, const qn_index_item *items, qn_tensor *src, qn_combine combine), -, 0, 0,
  "x with src, broadcast to what index gives, combined into those places; with QN_COMBINE_SET "
  "the last one stays, with QN_COMBINE_SUM all are added; how many places a bool array has is "
  "read only where it stands beside another or an array of integers")
X(TENSOR, index_copy, (qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis), -, 0, 0,
  "x with slice i of src in place of slice index[i], a negative one from the end; the last one "
  "stays")
X(TENSOR, index_fill, (qn_tensor *x, qn_tensor *index, double value, int axis), -, 0, 0,
  "x with `value` in the slices at the indices of a vector, negative ones from the end")
X(TENSOR, scatter_mean, (qn_tensor *x, qn_tensor *index, qn_tensor *src, int axis, bool include_self), -, 0, 0,
  "x with the mean of what scatter brings to a place, x's element among them if include_self; "
  "where nothing comes x; integers as f32")
X(TENSOR, masked_fill, (qn_tensor *x, qn_tensor *mask, qn_tensor *value), -, 0, 0,
  "x with `value`, in x's dtype, where the mask is not 0; both broadcast to x's shape; a number "
  "that x's dtype does not hold is QN_ERANGE")
X(TENSOR, masked_scatter, (qn_tensor *x, qn_tensor *mask, qn_tensor *src), -, 0, 0,
  "x with the elements of src, in their flat order, where the mask, broadcast to x, is not 0; "
  "those that src lacks are indices outside of it")
X(STATUS, nonzero, (qn_tensor *x, int64_t bound, qn_tensor **places, qn_tensor **count), -, 0, 0,
  "[bound, rank]: the indices of the first elements that are not 0, in i64 and in order, zeros "
  "behind the last, and how many there are in all (a scalar, i64); bound -1: x's number of "
  "elements; NumPy's argwhere, and by columns (qn_unstack) its nonzero and where; either result "
  "may be NULL")
X(STATUS, masked_select, (qn_tensor *x, qn_tensor *mask, int64_t bound, qn_tensor **values, qn_tensor **count), -, 0, 0,
  "[bound]: the first elements of x where the mask, broadcast to it, is not 0, zeros behind the "
  "last, and how many there are in all (a scalar, i64); bound -1: x's number of elements; either "
  "result may be NULL")
X(TENSOR, head, (qn_tensor *x, int axis, qn_tensor *count), -, 0, 0,
  "the first elements along an axis, as many as `count`, an integer, says: its value is read, "
  "which runs the graph, so that results of nonzero, masked_select or unique get their exact "
  "size; QN_ERANGE beyond the size; a graph that is captured keeps the size it had then")
X(TENSOR, slice_scatter, (qn_tensor *x, qn_tensor *src, int axis, int64_t start, int64_t stop, int64_t step), -, 0, 0,
  "x with src, of its shape, in place of what slice gives; step from 1 on")
X(TENSOR, select_scatter, (qn_tensor *x, qn_tensor *src, int axis, int64_t index), -, 0, 0,
  "x with src in place of what select gives")
X(TENSOR, diagonal_scatter, (qn_tensor *x, qn_tensor *src, int64_t offset), -, 0, 0,
  "x with src in place of what diagonal gives")

/* sorting: any dtype; NaN comes behind all numbers (descending: before them), -0 equals 0, and
 * equal elements stay in their order. Indices are i64. QN_ERANGE for an axis that x lacks. Values
 * or index may be NULL. Computed by the host (docs/limits.md) */
X(TENSOR, sort, (qn_tensor *x, int axis, bool descending), -, 0, 0, "x in order along an axis")
X(TENSOR, argsort, (qn_tensor *x, int axis, bool descending), -, 0, 0,
  "where along the axis the elements of sort come from")
X(STATUS, topk, (qn_tensor *x, int64_t k, int axis, bool largest, qn_tensor **values, qn_tensor **index), -, 0, 0,
  "the k largest (smallest) along an axis, the largest (smallest) first, and where they are; "
  "QN_ERANGE for k beyond the size")
X(STATUS, kthvalue, (qn_tensor *x, int64_t k, int axis, bool keepdims, qn_tensor **values, qn_tensor **index), -, 0, 0,
  "the k-th smallest along an axis or QN_ALL, k from 1 on, and where it is; QN_ERANGE for k beyond "
  "the size")
X(TENSOR, median, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "the middle element, of two the lower, along an axis or QN_ALL; NaN where one is there")
X(TENSOR, nanmedian, (qn_tensor *x, int axis, bool keepdims), -, 0, 0,
  "as median, of what is not NaN; NaN where nothing is")
X(TENSOR, quantile, (qn_tensor *x, int n, const double *q, int axis, bool keepdims, qn_quantile_mode mode), -, 0, 0,
  "[n, ..]: what is at q[i]*(size - 1) in order, q in [0, 1], along an axis or QN_ALL; integers "
  "and bools give f32; NaN where one is there; QN_ESHAPE of nothing or of a size that is not known")
X(STATUS, mode, (qn_tensor *x, int axis, bool keepdims, qn_tensor **values, qn_tensor **index), -, 0, 0,
  "the most frequent element along an axis or QN_ALL, of several the least, and where it is first")
X(STATUS, unique, (qn_tensor *x, qn_tensor **values, qn_tensor **index, qn_tensor **inverse, qn_tensor **counts, qn_tensor **count), -, 0, 0,
  "x's different elements in order, where in the flat order each is first, which each element of x "
  "is (x's shape), how often each is there, and how many there are (a scalar); vectors have x's "
  "number of elements, zeros from `count` on; NaN differ; each of the five may be NULL")
X(TENSOR, searchsorted, (qn_tensor *sorted, qn_tensor *values, bool right), -, 0, 0,
  "how many elements of sorted, which ascends along its last axis, are less than each value, "
  "right: or equal to it; sorted is a vector, or has the sizes of values but for the last axis, "
  "else QN_ESHAPE; dtypes meet")
X(TENSOR, bincount, (qn_tensor *x, qn_tensor *weights, int64_t bins), -, 0, 0,
  "[bins]: how often each number from 0 on is among the integers of x, in i64; or the sum of the "
  "weights, of x's shape, there (NULL: none); numbers outside are no index: see above")
X(TENSOR, histogram, (qn_tensor *x, qn_tensor *edges, qn_tensor *weights), -, 0, 0,
  "[n - 1]: how many elements of x lie in [edges[i], edges[i + 1]), the last of them with its end, "
  "in i64; or the sum of their weights, of x's shape (NULL: none); edges [n] ascend; what is "
  "outside, and NaN, is left out")

/* linear algebra: of the last two axes, the ones before them count matrices and broadcast;
 * integers and bools are f32; computed by the host (docs/limits.md). QN_ESHAPE
 * where sizes do not fit. What has no answer, as a singular system, gives infinities or NaN and no
 * error. Where several results are given each may be NULL */
X(TENSOR, cholesky, (qn_tensor *x, bool upper), -, 0, 0,
  "L, lower, of L @ transpose(L) = x, symmetric and positive definite, of which the lower triangle "
  "is read (upper: the transpose of L); NaN where x is not positive definite; of a Hermitian x "
  "both transposes are conjugated")
X(TENSOR, solve_triangular, (qn_tensor *a, qn_tensor *b, bool upper, bool transposed, bool unit), -, 0, 0,
  "x of a @ x = b, or transpose(a) @ x = b, of the upper or lower triangle of a [.., n, n], with "
  "ones on its diagonal if `unit`; b is [.., n, m] or a vector")
X(TENSOR, solve, (qn_tensor *a, qn_tensor *b), -, 0, 0,
  "x of a @ x = b: a [.., n, n], b [.., n, m] or a vector")
X(TENSOR, inv, (qn_tensor *x), -, 0, 0, "the inverse")
X(TENSOR, det, (qn_tensor *x), -, 0, 0, "the determinant; its gradient is NaN where x is singular")
X(STATUS, slogdet, (qn_tensor *x, qn_tensor **sign, qn_tensor **logarithm), -, 0, 0,
  "sign of the determinant, 0 of a singular x, and log |det|")
X(STATUS, qr, (qn_tensor *x, qn_tensor **q, qn_tensor **r), -, 0, 0,
  "x [.., m, n] = q @ r: q [.., m, k] with orthonormal columns, r [.., k, n] upper, k the smaller "
  "of m and n; gradients for n <= m")
X(STATUS, eigh, (qn_tensor *x, qn_tensor **values, qn_tensor **vectors), -, 0, 0,
  "eigenvalues, ascending, and eigenvectors, as columns, of symmetric x, of which the lower "
  "triangle is read; gradients of vectors want different values")
X(STATUS, eig, (qn_tensor *x, qn_tensor **values, qn_tensor **vectors), -, 0, 0,
  "complex eigenvalues of a real x [.., n, n], in no order but that of a pair the one with the "
  "positive imaginary part is first, and eigenvectors, as columns of length 1: x @ vectors = "
  "vectors * values. Gradients want different values, and of vectors a result that does not change "
  "with their phases (Boeddeker et al. 2017)")
X(TENSOR, eigvals, (qn_tensor *x), -, 0, 0, "the values of eig alone")
X(STATUS, svd, (qn_tensor *x, qn_tensor **u, qn_tensor **s, qn_tensor **vh), -, 0, 0,
  "x [.., m, n] = u @ diag(s) @ vh: u [.., m, k] and transpose(vh) with orthonormal columns, s "
  "descending; gradients of u and vh want different singular values, none of them 0")
X(TENSOR, lstsq, (qn_tensor *a, qn_tensor *b), -, 0, 0,
  "x of the least |a @ x - b|, and of the least |x| where a [.., m, n] has more columns; of full "
  "rank; b is [.., m, k] or a vector; by QR")
X(TENSOR, pinv, (qn_tensor *x, double rtol), -, 0, 0,
  "the Moore-Penrose inverse; singular values of at most rtol times the largest count as 0 "
  "(negative: the larger size times the dtype's epsilon)")
X(TENSOR, matrix_rank, (qn_tensor *x, double rtol), -, 0, 0,
  "[..] in i64: how many singular values are above rtol times the largest; rtol as pinv's")
X(TENSOR, matrix_power, (qn_tensor *x, int64_t n), -, 0, 0, "x @ x @ .. n times; of the inverse for n < 0")
X(TENSOR, matrix_exp, (qn_tensor *x), -, 0, 0, "the sum of x^n / n!, by Pade's approximation (Higham 2005)")
X(TENSOR, cross, (qn_tensor *x, qn_tensor *y, int axis), -, 0, 0,
  "cross product along an axis of size 3; the others broadcast; any numbers")
X(TENSOR, kron, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "the Kronecker product: y times each element of x, side by side; axes of size 1 go in "
  "front of the smaller rank; any numbers")

/* Fourier transforms: complex numbers are pairs, real and imaginary part, along a last axis of
 * size 2, and axes count without it. Any length; f64, else f32 inside. n is the length, 0 the
 * axis's own: what is longer is cut, what is shorter has zeros behind. QN_ESHAPE for a size that
 * varies or is 0, QN_ERANGE for an axis that x lacks. Lists of axes: of none all */
X(TENSOR, fft, (qn_tensor *x, int64_t n, int axis, qn_fft_norm norm), -, 0, 0,
  "sum over j of x[j] e^(-2 pi i j k / n) for k < n")
X(TENSOR, ifft, (qn_tensor *x, int64_t n, int axis, qn_fft_norm norm), -, 0, 0,
  "the inverse of fft: e^(+2 pi i j k / n)")
X(TENSOR, rfft, (qn_tensor *x, int64_t n, int axis, qn_fft_norm norm), -, 0, 0,
  "fft of real numbers, without pairs: its first n/2 + 1 numbers, as pairs; an infinite element "
  "of an even number of them makes NaN of what would be infinite")
X(TENSOR, irfft, (qn_tensor *x, int64_t n, int axis, qn_fft_norm norm), -, 0, 0,
  "the inverse of rfft: n real numbers, 0: 2 (size - 1); imaginary parts that should be 0 are not"
  " read")
X(TENSOR, hfft, (qn_tensor *x, int64_t n, int axis, qn_fft_norm norm), -, 0, 0,
  "fft of a signal of which half is there, the other its mirror image conjugated: n real numbers,"
  " 0: 2 (size - 1)")
X(TENSOR, ihfft, (qn_tensor *x, int64_t n, int axis, qn_fft_norm norm), -, 0, 0,
  "the inverse of hfft: of real numbers the first n/2 + 1, as pairs")
X(TENSOR, fftn, (qn_tensor *x, int n, const int *axes, qn_fft_norm norm), -, 0, 0,
  "fft along n axes")
X(TENSOR, ifftn, (qn_tensor *x, int n, const int *axes, qn_fft_norm norm), -, 0, 0,
  "ifft along n axes")
X(TENSOR, rfftn, (qn_tensor *x, int n, const int *axes, qn_fft_norm norm), -, 0, 0,
  "rfft along the last of n axes, then fft along the others")
X(TENSOR, irfftn, (qn_tensor *x, int n, const int *axes, int64_t last, qn_fft_norm norm), -, 0, 0,
  "the inverse of rfftn; the last axis is `last` long, 0: 2 (size - 1)")
X(TENSOR, fft2, (qn_tensor *x, qn_fft_norm norm), -, 0, 0,
  "fft along the last two axes")
X(TENSOR, ifft2, (qn_tensor *x, qn_fft_norm norm), -, 0, 0,
  "ifft along the last two axes")
X(TENSOR, rfft2, (qn_tensor *x, qn_fft_norm norm), -, 0, 0,
  "rfftn along the last two axes")
X(TENSOR, irfft2, (qn_tensor *x, int64_t last, qn_fft_norm norm), -, 0, 0,
  "irfftn along the last two axes")
X(TENSOR, fftfreq, (qn_ctx *qn, qn_dtype dtype, int64_t n, double d), -, 0, 0,
  "[n]: the frequencies of fft, a sample each d: 0, 1, .., -2, -1 over n d")
X(TENSOR, rfftfreq, (qn_ctx *qn, qn_dtype dtype, int64_t n, double d), -, 0, 0,
  "[n/2 + 1]: those of rfft")
X(TENSOR, fftshift, (qn_tensor *x, int n, const int *axes), -, 0, 0,
  "rolled by half of n axes, here all of the tensor: frequency 0 is in the middle")
X(TENSOR, ifftshift, (qn_tensor *x, int n, const int *axes), -, 0, 0,
  "the inverse of fftshift")

/* products: in the dtype in which the operands meet; sizes that are summed over are equal, else
 * QN_ESHAPE */
X(TENSOR, matmul, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "matrix product over x's last and y's last but one axis, batched and broadcast over the "
  "others; a vector is a row or column; in the operands' dtype, f16, bf16 and f8 summed in f32: "
  "cast narrow operands to i32 or f32 to keep whole sums, nothing wide is stored for it")
X(TENSOR, dot, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "inner product of two vectors of one size: a scalar")
X(TENSOR, outer, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "[n, m]: x[i] * y[j] of two vectors")
X(TENSOR, tensordot, (qn_tensor *x, qn_tensor *y, int n, const int *x_axes, const int *y_axes), -, 0, 0,
  "sum over n pairs of axes; the others of x, then of y, remain")
X(TENSOR, einsum, (int n, qn_tensor *const *xs, const char *spec), -, 0, 0,
  "Einstein summation, e.g. \"bij,bjk->bik\"; axes go by letters, repeated ones take the "
  "diagonal, \"...\" broadcasts")
X(TENSOR, linear, (qn_tensor *x, qn_tensor *w, qn_tensor *b), -, 0, 0,
  "x @ transpose(w) + b: x [.., in], w [out, in], b [out] or NULL: [.., out]")

/* convolution and pooling */
X(TENSOR, conv, (qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options), -, 0, 0,
  "convolution (as in networks: the kernel is not flipped) of [N, C, spatial..] with w [O, "
  "C/groups, kernel..], plus b [O]: [N, O, floor((n + before + after - dilation*(kernel-1) - 1) / "
  "stride) + 1 ..]; b and options may be NULL")
X(TENSOR, conv1d, (qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options), -, 0, 0,
  "conv over one spatial axis: x [N, C, L], w [O, C/groups, K]; "
  "QN_ESHAPE for an image of another rank")
X(TENSOR, conv2d, (qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options), -, 0, 0,
  "conv over two: x [N, C, H, W], w [O, C/groups, KH, KW]; "
  "QN_ESHAPE for an image of another rank")
X(TENSOR, conv3d, (qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options), -, 0, 0,
  "conv over three: x [N, C, D, H, W], w [O, C/groups, KD, KH, KW]; "
  "QN_ESHAPE for an image of another rank")
X(TENSOR, conv_transpose, (qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options), -, 0, 0,
  "the gradient of conv for its input, plus b: x [N, C, spatial..], w [C, O/groups, kernel..]: "
  "[N, O, (n-1)*stride - before - after + dilation*(kernel-1) + 1 + extra ..]")
X(TENSOR, max_pool, (qn_tensor *x, const int64_t *size, const qn_conv_options *options), -, 0, 0,
  "the largest of each window of [N, C, spatial..]; padding loses; options may be NULL, the "
  "stride is the window's size then; groups do not matter")
X(TENSOR, avg_pool, (qn_tensor *x, const int64_t *size, const qn_conv_options *options), -, 0, 0,
  "the mean of each window, padding counting as zeros; as max_pool otherwise")
X(TENSOR, pool, (qn_tensor *x, const int64_t *size, const qn_pool_options *options), -, 0, 0,
  "the largest, the mean or the norm of each window of [N, C, spatial..]; options may be NULL; "
  "adaptive: size is how many places the result has")
X(STATUS, max_pool_index, (qn_tensor *x, const int64_t *size, const qn_pool_options *options, qn_tensor **values, qn_tensor **index), -, 0, 0,
  "the largest of each window, and where in the spatial axes, flat, it is, the first of equal "
  "ones, in i64; the gradient goes to that one; either may be NULL")
X(STATUS, fractional_max_pool, (qn_tensor *x, qn_tensor *samples, const int64_t *size, const int64_t *places, qn_tensor **values, qn_tensor **index), -, 0, 0,
  "as max_pool_index over `places` windows of `size` that begin at floor((i + u) * a) - "
  "floor(u * a), a = (n - size) / (places - 1), the last at the end (Graham 2014): samples [N, C, "
  "spatial axes] has the numbers u from [0, 1), in the order of the axes")
X(TENSOR, max_unpool, (qn_tensor *x, qn_tensor *index, const int64_t *places), -, 0, 0,
  "zeros [N, C, places..] with x at the places that max_pool_index found")
X(TENSOR, interpolate, (qn_tensor *x, const int64_t *sizes, const qn_interpolate_options *options), -, 0, 0,
  "[N, C, spatial..] with other sizes of the one to three spatial axes, as PyTorch's interpolate; "
  "options may be NULL: the nearest; linear is bilinear and trilinear, too, and cubic by axes")
X(TENSOR, grid_sample, (qn_tensor *x, qn_tensor *grid, qn_interpolate_mode mode, qn_grid_padding padding, bool align_corners), -, 0, 0,
  "[N, C, places..]: x [N, C, H, W] or [N, C, D, H, W] at the coordinates grid [N, places.., 2 or "
  "3], from -1 to 1 over the image, that of the last axis first; cubic for two axes")
X(TENSOR, im2col, (qn_tensor *x, const int64_t *size, const qn_conv_options *options), -, 0, 0,
  "[N, C * sizes, windows]: the windows of [N, C, spatial..] as columns, PyTorch's Unfold; no "
  "copy by itself")
X(TENSOR, col2im, (qn_tensor *x, int space, const int64_t *places, const int64_t *size, const qn_conv_options *options), -, 0, 0,
  "[N, C, places..] of `space` axes: the sum of what columns [N, C * sizes, windows] have of each "
  "place, PyTorch's Fold")

/* neural networks */
X(TENSOR, softmax, (qn_tensor *x, int axis), -, 0, 0,
  "e^x over its sum along an axis; integers and bools give f32; QN_ALL: over all")
X(TENSOR, softmax_axes, (qn_tensor *x, int n, const int *axes), -, 0, 0, "as softmax, over n axes together")
X(TENSOR, log_softmax, (qn_tensor *x, int axis), -, 0, 0,
  "logarithm of softmax without overflow")
X(TENSOR, log_softmax_axes, (qn_tensor *x, int n, const int *axes), -, 0, 0, "as log_softmax, over n axes together")
X(TENSOR, layer_norm, (qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps), -, 0, 0,
  "(x - mean) / sqrt(variance + eps) over the last axis of x [.., C], times gamma, plus beta, "
  "[C] (either may be NULL)")
X(TENSOR, rms_norm, (qn_tensor *x, qn_tensor *gamma, double eps), -, 0, 0,
  "x / sqrt(mean(x*x) + eps) over the last axis of x [.., C], times gamma [C] (may be NULL)")
X(TENSOR, group_norm, (qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, int64_t groups, double eps), -, 0, 0,
  "layer_norm of [N, C, ...] over each group of channels and all later axes; gamma and beta: "
  "[C] or NULL")
X(TENSOR, attention, (qn_tensor *q, qn_tensor *k, qn_tensor *v, const qn_attention_options *options), -, 0, 0,
  "softmax(q @ transpose(k) / sqrt(D)) @ v over q [.., Tq, D], k [.., Tk, D], v [.., Tk, E], "
  "floats: [.., Tq, E]; options may be NULL; causal: query i sees keys up to i + Tk - Tq. Weights "
  "below 2^-120 of a query's largest (f64: 2^-1016) may count as 0")
X(TENSOR, dropout, (qn_tensor *x, qn_tensor *key, double p), -, 0, 0,
  "zeros with probability p, the rest times 1 / (1-p); key: as of qn_key")
X(TENSOR, cross_entropy, (qn_tensor *logits, qn_tensor *labels), -, 0, 0,
  "mean of -log_softmax(logits, -1) at the labels: logits [.., C], labels [..] of integers: a "
  "scalar")
X(TENSOR, cross_entropy_ignoring, (qn_tensor *logits, qn_tensor *labels, int64_t ignore), -, 0, 0,
  "cross_entropy over the labels that are not `ignore`; NaN where there is none")
X(TENSOR, nll_loss, (qn_tensor *log_p, qn_tensor *labels), -, 0, 0,
  "mean of -log_p at the labels: log_p [.., C], labels [..] of integers: a scalar")
X(TENSOR, mse_loss, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "mean of (x - y)^2: a scalar")
X(TENSOR, l1_loss, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "mean of |x - y|: a scalar")
X(TENSOR, huber_loss, (qn_tensor *x, qn_tensor *y, double delta), -, 0, 0, "mean of d*d/2 for d = |x - y| up to delta, delta * (d - delta/2) beyond")
X(TENSOR, bce_with_logits, (qn_tensor *x, qn_tensor *y), -, 0, 0,
  "mean of -(y*log_sigmoid(x) + (1-y)*log_sigmoid(-x)): a scalar")
X(TENSOR, softmin, (qn_tensor *x, int axis), -, 0, 0,
  "softmax of -x")
X(TENSOR, layer_norm_axes, (qn_tensor *x, int n, const int *axes, qn_tensor *gamma, qn_tensor *beta, double eps), -, 0, 0,
  "layer_norm over n axes together; gamma and beta broadcast to x's shape")
X(TENSOR, instance_norm, (qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps), -, 0, 0,
  "of [N, C, ..] each channel of each image with mean 0 and variance 1 over the axes behind; "
  "gamma and beta: [C] or NULL")
X(TENSOR, batch_norm, (qn_tensor *x, qn_tensor *mean, qn_tensor *variance, qn_tensor *gamma, qn_tensor *beta, double eps), -, 0, 0,
  "(x - mean) / sqrt(variance + eps) of [N, C, ..] by channels, times gamma, plus beta: each "
  "[C], the last two or NULL")
X(STATUS, batch_norm_training, (qn_tensor *x, qn_tensor *gamma, qn_tensor *beta, double eps, qn_tensor **out), -, 0, 0,
  "batch_norm by x's own mean and variance over all axes but 1; into out[3] the result, the "
  "mean, and the variance without bias, with which running statistics go on: qn_lerp(running, "
  "out[1], momentum); QN_ESHAPE for one value in each channel")
X(TENSOR, rope, (qn_tensor *x, qn_tensor *positions, double base, bool interleaved), -, 0, 0,
  "rotary positions (Su et al. 2021): of x [.., T, D] pair i turned by position * base^(-2i/D), "
  "positions [.., T]; the pair is [i, i + D/2], or interleaved [2i, 2i + 1]")
X(TENSOR, pixel_shuffle, (qn_tensor *x, int64_t r), -, 0, 0,
  "[N, C*r^n, n axes] as [N, C, n axes r times as long]: r^n channels become a block of places")
X(TENSOR, pixel_unshuffle, (qn_tensor *x, int64_t r), -, 0, 0,
  "the inverse of pixel_shuffle")
X(TENSOR, cross_entropy_with, (qn_tensor *logits, qn_tensor *labels, const qn_cross_entropy_options *options), -, 0, 0,
  "cross_entropy with weights of classes, smoothed labels, one that does not count, or another "
  "reduction than the mean; options may be NULL")
X(TENSOR, nll_loss_with, (qn_tensor *log_p, qn_tensor *labels, const qn_cross_entropy_options *options), -, 0, 0,
  "nll_loss with the same options as cross_entropy_with, of which smoothing mixes in the mean of "
  "all classes' -log_p; options may be NULL")
X(TENSOR, cross_entropy_soft, (qn_tensor *logits, qn_tensor *target, qn_reduction reduction), -, 0, 0,
  "-sum of target * log_softmax(logits, -1) over the last axis, target being the classes' "
  "probabilities; reduced over the rows")
X(TENSOR, kl_div, (qn_tensor *log_p, qn_tensor *target, bool log_target, qn_reduction reduction), -, 0, 0,
  "target * (log(target) - log_p), 0 where target is; log_target: it is given as its logarithm")
X(TENSOR, bce_loss, (qn_tensor *p, qn_tensor *y, qn_reduction reduction), -, 0, 0,
  "-(y*log(p) + (1-y)*log(1-p)), a logarithm of 0 being -100; bce_with_logits is more exact")
X(TENSOR, ctc_loss, (qn_tensor *log_p, qn_tensor *labels, qn_tensor *lengths, qn_tensor *label_lengths, int64_t blank, qn_reduction reduction), -, 0, 0,
  "-log of the probability of labels [N, S] by log_p [T, N, C], each step's classes, one of them "
  "blank, summed over all alignments (Graves et al. 2006); lengths and label_lengths [N], or NULL: "
  "all. Infinite, and no gradient, where labels do not fit into the steps; NaN for a length below "
  "0 or beyond its axis; the mean is that of losses over their numbers of labels")
X(TENSOR, triplet_margin_loss, (qn_tensor *anchor, qn_tensor *near, qn_tensor *far, double margin, qn_reduction reduction), -, 0, 0,
  "|anchor - near| - |anchor - far| + margin where that is above 0, lengths being over the last "
  "axis")
X(TENSOR, cosine_similarity, (qn_tensor *x, qn_tensor *y, int axis, double eps), -, 0, 0,
  "x . y / (|x| |y|) along an axis, lengths being eps at least")
X(TENSOR, cosine_embedding_loss, (qn_tensor *x, qn_tensor *y, qn_tensor *target, double margin, qn_reduction reduction), -, 0, 0,
  "1 - cosine_similarity along the last axis where target is above 0, else what it is above "
  "margin")
X(TENSOR, margin_ranking_loss, (qn_tensor *x, qn_tensor *y, qn_tensor *target, double margin, qn_reduction reduction), -, 0, 0,
  "-target * (x - y) + margin where that is above 0; target 1 or -1")
X(TENSOR, hinge_embedding_loss, (qn_tensor *x, qn_tensor *target, double margin, qn_reduction reduction), -, 0, 0,
  "x where target is above 0, else margin - x where that is above 0")
X(TENSOR, soft_margin_loss, (qn_tensor *x, qn_tensor *target, qn_reduction reduction), -, 0, 0,
  "log(1 + e^(-target * x)); target 1 or -1")
X(TENSOR, focal_loss, (qn_tensor *x, qn_tensor *y, double alpha, double gamma, qn_reduction reduction), -, 0, 0,
  "bce_with_logits' terms times (1 - p)^gamma, p being what the truth is given, and alpha for y "
  "= 1, 1 - alpha for 0; no such weights for alpha below 0 (Lin et al. 2017)")
X(TENSOR, poisson_nll_loss, (qn_tensor *x, qn_tensor *y, bool log_input, qn_reduction reduction), -, 0, 0,
  "x - y * log(x), or of x as a logarithm e^x - y * x")
X(TENSOR, gaussian_nll_loss, (qn_tensor *x, qn_tensor *y, qn_tensor *variance, double eps, qn_reduction reduction), -, 0, 0,
  "(log(variance) + (x - y)^2 / variance) / 2, the variance being eps at least")

/* random numbers: a function of the key, so the same key gives the same numbers everywhere */
X(TENSOR, key, (qn_ctx *qn, uint64_t seed), -, 0, 0, "a key of shape [2], u32; one from qn_from serves as well, and may change without a new plan")
X(TENSOR, key_fold, (qn_tensor *key, uint64_t data), -, 0, 0, "another key, independent for each value of data")
X(TENSOR, random_bits, (qn_tensor *key, int rank, const int64_t *shape), -, 0, 0,
  "u32 from Threefry-2x32-20 (Salmon et al. 2011), the counter being the flat index")
X(TENSOR, uniform, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape), -, 0, 0,
  "floats in [0, 1), every multiple of the dtype's epsilon alike (f64: 53 bits)")
X(TENSOR, randn, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape), -, 0, 0, "normal floats, mean 0 and variance 1 (Box-Muller)")
X(TENSOR, randint, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape, int64_t lo, int64_t hi), -, 0, 0,
  "integers in [lo, hi), at most 2^32 different ones, all of which the dtype holds")
X(TENSOR, bernoulli, (qn_tensor *key, int rank, const int64_t *shape, double p), -, 0, 0,
  "bool: true with probability p")
X(STATUS, key_split, (qn_tensor *key, int n, qn_tensor **out), -, 0, 0,
  "n independent keys into out[n]")
X(TENSOR, key_fold_in, (qn_tensor *key, qn_tensor *data), -, 0, 0,
  "key_fold by an integer that is a tensor of rank 0: it may change, a step's number, without a "
  "new plan")
X(TENSOR, exponential, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape), -, 0, 0,
  "floats above 0 with the density e^-x: -log(1 - u)")
X(TENSOR, gumbel, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape), -, 0, 0,
  "floats of Gumbel's distribution: -log of exponential ones")
X(TENSOR, categorical, (qn_tensor *key, qn_tensor *logits), -, 0, 0,
  "of logits [.., C] a class each, [..] of i64, with the probabilities softmax(logits, -1)")
X(TENSOR, multinomial, (qn_tensor *key, qn_tensor *weights, int64_t n), -, 0, 0,
  "of weights [.., C], not below 0, n classes each, [.., n] of i64, with probabilities in their "
  "proportion; a class may come again")
X(TENSOR, kaiming_normal, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape, double gain), -, 0, 0,
  "normal floats of variance gain^2 / in for a weight [out, in, kernel..], in counting the "
  "kernel's places (He et al. 2015; gain sqrt(2) before relu)")
X(TENSOR, kaiming_uniform, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape, double gain), -, 0, 0,
  "as kaiming_normal, uniform within gain * sqrt(3 / in)")
X(TENSOR, xavier_normal, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape, double gain), -, 0, 0,
  "normal floats of variance 2 gain^2 / (in + out) (Glorot and Bengio 2010)")
X(TENSOR, xavier_uniform, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape, double gain), -, 0, 0,
  "as xavier_normal, uniform within gain * sqrt(6 / (in + out))")
X(TENSOR, gamma, (qn_tensor *key, qn_tensor *alpha), -, 0, 0,
  "variates of gamma distributions of shape alpha, above 0, and scale 1, in alpha's shape and "
  "dtype; NaN of others (Marsaglia and Tsang 2000); by the host, without a derivative")
X(TENSOR, beta, (qn_tensor *key, qn_tensor *a, qn_tensor *b), -, 0, 0,
  "variates of beta distributions, a and b broadcast; as gamma")
X(TENSOR, dirichlet, (qn_tensor *key, qn_tensor *alpha), -, 0, 0,
  "of alpha [.., C] probabilities, whose sum is 1 along the last axis; as gamma")
X(TENSOR, poisson, (qn_tensor *key, qn_tensor *rate), -, 0, 0,
  "how many events there are where `rate` are expected, in i64 and rate's shape; 0 of a negative "
  "rate and NaN; by the host (Hoermann 1993)")
X(TENSOR, truncated_normal, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape, double lo, double hi), -, 0, 0,
  "normal floats of mean 0 and variance 1 between lo and hi, others not being there; by the host "
  "(Robert 1995), in f64, rounded to the dtype in the end, which a bound may be, too")
X(TENSOR, permutation, (qn_tensor *key, int64_t n), -, 0, 0,
  "[n]: the numbers from 0 to n - 1, in i64, in an order of which all are alike")
X(TENSOR, shuffle, (qn_tensor *key, qn_tensor *x, int axis), -, 0, 0,
  "x with the slices along an axis in a random order")
X(TENSOR, multinomial_distinct, (qn_tensor *key, qn_tensor *weights, int64_t n), -, 0, 0,
  "as multinomial, but no class comes again; those of weight 0 come last; QN_ERANGE for n beyond "
  "the number of classes")
X(TENSOR, orthogonal, (qn_tensor *key, qn_dtype dtype, int rank, const int64_t *shape, double gain), -, 0, 0,
  "a weight [out, in..] as a matrix of orthonormal rows or columns, whichever are fewer, times "
  "gain: all such matrices alike (Mezzadri 2007; Saxe et al. 2014)")
