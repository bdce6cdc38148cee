/* ops.h - the primitive operations, one row each. Everything about an op follows from its row:
 * enum, names, dtype and shape rules, constant folding, the oracle's meaning, gradients, gradient
 * checks, operator tests, benchmark cases, public prototypes, Python methods and docs/ops.md.
 *
 * X(NAME, name, arity, CLASS, TYPES, F, I, VALUE, fcost, icost, GRAD, lo, hi, doc)
 *   CLASS  LEAF no sources; ELEM elementwise over equal shapes; MOVE a function on indices, never a
 *          copy; JOIN sources beside each other; REDUCE over attribute axes, which are dropped;
 *          INDEX moved by computed indices; SCAN the running results of a reduction; CALL by a
 *          routine, from stored sources; LOOP by running a graph of its own again and again; MARK
 *          an identity that means something to a later stage
 *   TYPES  which dtypes it takes and gives (graph/types/dtype.c):
 *            FLOAT float, same out (integers and bools as f32); NUM int or float, same out, no
 *            bools, as in the array API: cast, or use AND, OR and XOR; INT integers, same; BITS
 *            bool and integers, same; ANY every dtype, same; CMP any equal pair, bool out; SELECT
 *            a condition, brought to bool, then an equal pair; TO out dtype is an attribute; NONE
 *            the constructor decides
 *   F      its value for floats, in double, of x, y, z ("-": not defined for floats)
 *   I      its value for integers, in T = int64_t or uint64_t, of x, y, z; wraps to the dtype
 *   VALUE  of floats: EXACT, or rounded once, so every device has the same bits, and constants are
 *          folded; FORMULA: as devices compute it, which may be off by units of the last place, so
 *          constants are left to them. NONE for rows of CLASS other than ELEM
 *   fcost  vector instructions for a register of F32, those slower than an addition counted as so
 *   icost  many additions; and of integers. Of a function that is expanded (ir/functions.h) the
 *          operations of its expansion, which tests/math/test_math.c counts. Of INDEX and SCAN what
 *          an element takes: to check an index, to carry a state. Of other classes: 1; what follows
 *          from their shapes is the planner's (plan/use.c). Nothing else is read for costs
 *   GRAD   its rule in grad/rules.c: rule_<GRAD>; NONE where there is no derivative, or it is 0
 *   lo hi  the domain tests draw from (floats); of a MARK 0 0: no public function makes it
 * Rows of CLASS other than ELEM have "-" for F and I; their meaning is dev/ref's plain loops.
 * The reductions' identity and combine are rows of graph/monoids.h. */

/* leaves */
X(CONST, "const", 0, LEAF, NONE, -, -, NONE, 1, 1, NONE, 0, 0,
  "one scalar value at every index of the shape")
X(IOTA, "iota", 0, LEAF, NONE, -, -, NONE, 1, 1, NONE, 0, 0, "the index along an axis")
X(BUFFER, "buffer", 0, LEAF, NONE, -, -, NONE, 1, 1, NONE, 0, 0, "memory that holds a value")
X(ARGUMENT, "argument", 0, LEAF, NONE, -, -, NONE, 1, 1, NONE, 0, 0,
  "what each trip of a loop gives to its body: a state, a slice, a captured value")

/* elementwise, one source */
X(NEG, "neg", 1, ELEM, NUM, -x, (T)(0 - (uint64_t)x), EXACT, 1, 1, neg, -4, 4, "-x")
X(ABS, "abs", 1, ELEM, NUM, fabs(x), x < 0 ? (T)(0 - (uint64_t)x) : x, EXACT, 1, 1, abs, -4, 4,
  "absolute value")
X(RECIPROCAL, "reciprocal", 1, ELEM, FLOAT, 1.0 / x, -, EXACT, 10, 0, reciprocal, 0.25, 4, "1 / x")
X(SQRT, "sqrt", 1, ELEM, FLOAT, sqrt(x), -, EXACT, 10, 0, sqrt, 0.1, 8, "square root; NaN below 0")
X(CBRT, "cbrt", 1, ELEM, FLOAT, (double)cbrtl(x), -, FORMULA, 53, 0, cbrt, 0.1, 30,
  "cube root, with x's sign")
X(EXP, "exp", 1, ELEM, FLOAT, exp(x), -, FORMULA, 21, 0, exp, -8, 8, "e^x")
X(EXP2, "exp2", 1, ELEM, FLOAT, exp2(x), -, FORMULA, 20, 0, exp2, -8, 8, "2^x")
X(EXPM1, "expm1", 1, ELEM, FLOAT, expm1(x), -, FORMULA, 31, 0, expm1, -4, 4,
  "e^x - 1, exact near 0")
X(LOG, "log", 1, ELEM, FLOAT, log(x), -, FORMULA, 28, 0, log, 0.1, 16,
  "natural logarithm; NaN below 0")
X(LOG2, "log2", 1, ELEM, FLOAT, log2(x), -, FORMULA, 29, 0, log2, 0.1, 16, "logarithm to base 2")
X(LOG1P, "log1p", 1, ELEM, FLOAT, log1p(x), -, FORMULA, 30, 0, log1p, -0.9, 8,
  "log(1 + x), exact near 0")
X(SIN, "sin", 1, ELEM, FLOAT, sin(x), -, FORMULA, 41, 0, sin, -8, 8, "sine of radians")
X(COS, "cos", 1, ELEM, FLOAT, cos(x), -, FORMULA, 39, 0, cos, -8, 8, "cosine of radians")
X(ASIN, "asin", 1, ELEM, FLOAT, asin(x), -, FORMULA, 33, 0, asin, -0.95, 0.95,
  "arc sine; NaN outside [-1, 1]")
X(ACOS, "acos", 1, ELEM, FLOAT, acos(x), -, FORMULA, 41, 0, acos, -0.95, 0.95,
  "arc cosine; NaN outside [-1, 1]")
X(ATAN, "atan", 1, ELEM, FLOAT, atan(x), -, FORMULA, 29, 0, atan, -8, 8, "arc tangent in radians")
X(ASINH, "asinh", 1, ELEM, FLOAT, (double)asinhl(x), -, FORMULA, 44, 0, asinh, -8, 8,
  "inverse of sinh")
X(ACOSH, "acosh", 1, ELEM, FLOAT, (double)acoshl(x), -, FORMULA, 48, 0, acosh, 1.1, 8,
  "inverse of cosh; NaN below 1")
X(ATANH, "atanh", 1, ELEM, FLOAT, (double)atanhl(x), -, FORMULA, 42, 0, atanh, -0.95, 0.95,
  "inverse of tanh; NaN outside [-1, 1]")
X(SINH, "sinh", 1, ELEM, FLOAT, (double)sinhl(x), -, FORMULA, 68, 0, sinh, -4, 4, "hyperbolic sine")
X(COSH, "cosh", 1, ELEM, FLOAT, (double)coshl(x), -, FORMULA, 51, 0, cosh, -4, 4,
  "hyperbolic cosine")
X(TANH, "tanh", 1, ELEM, FLOAT, (double)tanhl(x), -, FORMULA, 22, 0, tanh, -4, 4,
  "hyperbolic tangent")
X(SIGMOID, "sigmoid", 1, ELEM, FLOAT, float_sigmoid(x), -, FORMULA, 26, 0, sigmoid, -8, 8,
  "1 / (1 + e^-x)")
X(SOFTPLUS, "softplus", 1, ELEM, FLOAT, float_softplus(x), -, FORMULA, 56, 0, softplus, -12, 12,
  "log(1 + e^x) without overflow")
X(ERF, "erf", 1, ELEM, FLOAT, erf(x), -, FORMULA, 22, 0, erf, -3, 3, "error function")
X(ERFC, "erfc", 1, ELEM, FLOAT, (double)erfcl(x), -, FORMULA, 64, 0, erfc, -3, 6,
  "1 - erf(x), exact where that is small")
X(LGAMMA, "lgamma", 1, ELEM, FLOAT, float_lgamma(x), -, FORMULA, 120, 0, lgamma, 0.3, 6,
  "log|gamma(x)|; infinity at 0 and the negative integers")
X(DIGAMMA, "digamma", 1, ELEM, FLOAT, float_digamma(x), -, FORMULA, 102, 0, digamma, 0.3, 6,
  "derivative of lgamma; NaN at the negative integers, -infinity at 0 and infinity at -0")
X(TRIGAMMA, "trigamma", 1, ELEM, FLOAT, float_trigamma(x), -, FORMULA, 47, 0, trigamma, 0.3, 6,
  "derivative of digamma, polygamma of order 1; infinity at 0 and the negative integers")
X(SILU, "silu", 1, ELEM, FLOAT, float_silu(x), -, FORMULA, 20, 0, silu, -8, 8,
  "x * sigmoid(x), also called swish")
X(SILU_SLOPE, "silu_slope", 1, ELEM, FLOAT, float_silu_slope(x), -, FORMULA, 25, 0, silu_slope, -8,
  8, "derivative of silu")
X(GELU, "gelu", 1, ELEM, FLOAT, float_gelu(x), -, FORMULA, 36, 0, gelu, -4, 4,
  "x * Phi(x), Phi the normal distribution function")
X(GELU_SLOPE, "gelu_slope", 1, ELEM, FLOAT, float_gelu_slope(x), -, FORMULA, 35, 0, gelu_slope, -4,
  4, "derivative of gelu: Phi(x) + x * e^(-x*x/2) / sqrt(2*pi)")
X(GELU_TANH, "gelu_tanh", 1, ELEM, FLOAT, float_gelu_tanh(x), -, FORMULA, 30, 0, gelu_tanh, -4, 4,
  "gelu's approximation by tanh, as in GPT-2: x * sigmoid(sqrt(8/pi) * (x + 0.044715 * x^3))")
X(GELU_TANH_SLOPE, "gelu_tanh_slope", 1, ELEM, FLOAT, float_gelu_tanh_slope(x), -, FORMULA, 37, 0,
  gelu_tanh_slope, -4, 4, "derivative of gelu_tanh")
X(MISH, "mish", 1, ELEM, FLOAT, float_mish(x), -, FORMULA, 44, 0, mish, -6, 6,
  "x * tanh(softplus(x))")
X(FLOOR, "floor", 1, ELEM, NUM, floor(x), +x, EXACT, 1, 0, NONE, -8, 8,
  "largest integer not above x; integers stay")
X(CEIL, "ceil", 1, ELEM, NUM, ceil(x), +x, EXACT, 1, 0, NONE, -8, 8,
  "smallest integer not below x; integers stay")
X(ROUND, "round", 1, ELEM, NUM, rint(x), +x, EXACT, 1, 0, NONE, -8, 8,
  "nearest integer, ties to even; integers stay")
X(TRUNC, "trunc", 1, ELEM, NUM, trunc(x), +x, EXACT, 1, 0, NONE, -8, 8,
  "x without its fraction; integers stay")
X(NOT, "not", 1, ELEM, BITS, -, ~x, EXACT, 0, 1, NONE, 0, 0,
  "every bit inverted; logical not for bool")
X(CAST, "cast", 1, ELEM, TO, x, x, EXACT, 1, 1, cast, -8, 8,
  "the value in another dtype, rounded or wrapped")
X(BITCAST, "bitcast", 1, ELEM, TO, -, -, EXACT, 1, 1, NONE, -8, 8,
  "the same bits as a dtype of equal size; as bool: not 0")

/* elementwise, two sources */
X(ADD, "add", 2, ELEM, NUM, x + y, (T)((uint64_t)x + (uint64_t)y), EXACT, 1, 1, add, -4, 4, "x + y")
X(SUB, "sub", 2, ELEM, NUM, x - y, (T)((uint64_t)x - (uint64_t)y), EXACT, 1, 1, sub, -4, 4, "x - y")
X(MUL, "mul", 2, ELEM, NUM, x *y, (T)((uint64_t)x *(uint64_t)y), EXACT, 1, 1, mul, -4, 4, "x * y")
X(DIV, "div", 2, ELEM, FLOAT, x / y, -, EXACT, 10, 0, div, 0.25, 4, "x / y")
X(FLOOR_DIV, "floor_div", 2, ELEM, NUM, float_floor_div(x, y), int_floor_div(x, y), FORMULA, 14, 40,
  NONE, 0.5, 8,
  "the floor of the exact x / y: 9 for 1.0 and 0.1, -1 for -1 and infinity; of infinity NaN; "
  "integers by 0 give 0")
X(MOD, "mod", 2, ELEM, NUM, float_mod(x, y), int_mod(x, y), FORMULA, 14, 40, mod, 0.5, 8,
  "x - y*floor(x / y), with y's sign; integers by 0 give 0")
X(POW, "pow", 2, ELEM, NUM, pow(x, y), int_pow(x, y), FORMULA, 70, 40, pow, 0.2, 3,
  "x to the power y, as IEEE pow; integers exactly, wrapped, to a negative power without the "
  "fraction: 0 but for 1 and -1")
X(ATAN2, "atan2", 2, ELEM, FLOAT, atan2(x, y), -, FORMULA, 52, 0, atan2, -4, 4,
  "angle of the point (y, x): atan(x / y) in the right quadrant")
X(HYPOT, "hypot", 2, ELEM, FLOAT, hypot(x, y), -, FORMULA, 12, 0, hypot, -4, 4,
  "sqrt(x*x + y*y) without overflow")
X(LOGADDEXP, "logaddexp", 2, ELEM, FLOAT, float_logaddexp(x, y), -, FORMULA, 89, 0, logaddexp, 0, 4,
  "log(e^x + e^y) without overflow")
X(MAXIMUM, "maximum", 2, ELEM, ANY, float_max(x, y), x > y ? x : y, EXACT, 1, 1, maximum, -4, 4,
  "the larger; NaN when either is")
X(MINIMUM, "minimum", 2, ELEM, ANY, float_min(x, y), x < y ? x : y, EXACT, 1, 1, minimum, -4, 4,
  "the smaller; NaN when either is")
X(LT, "lt", 2, ELEM, CMP, x < y, x < y, EXACT, 1, 1, NONE, -4, 4, "x < y")
X(LE, "le", 2, ELEM, CMP, x <= y, x <= y, EXACT, 1, 1, NONE, -4, 4, "x <= y")
X(EQ, "eq", 2, ELEM, CMP, x == y, x == y, EXACT, 1, 1, NONE, -4, 4, "x == y")
X(NE, "ne", 2, ELEM, CMP, x != y, x != y, EXACT, 1, 1, NONE, -4, 4, "x != y")
X(AND, "and", 2, ELEM, BITS, -, x &y, EXACT, 0, 1, NONE, 0, 0, "bitwise and")
X(OR, "or", 2, ELEM, BITS, -, x | y, EXACT, 0, 1, NONE, 0, 0, "bitwise or")
X(XOR, "xor", 2, ELEM, BITS, -, x ^ y, EXACT, 0, 1, NONE, 0, 0, "bitwise exclusive or")
X(SHL, "shl", 2, ELEM, INT, -, int_shl(x, y), EXACT, 0, 1, NONE, 0, 0,
  "x * 2^y; 0 for y past the width")
X(SHR, "shr", 2, ELEM, INT, -, int_shr(x, y), EXACT, 0, 1, NONE, 0, 0,
  "floor(x / 2^y): arithmetic for signed, logical for unsigned")

/* elementwise, three sources */
X(WHERE, "where", 3, ELEM, SELECT, x != 0 ? y : z, x != 0 ? y : z, EXACT, 1, 1, where, -4, 4,
  "y where x is not 0, else z")
X(FMA, "fma", 3, ELEM, FLOAT, fma(x, y, z), -, EXACT, 1, 0, fma, -4, 4, "x*y + z with one rounding")

/* movement: attributes are per axis */
X(RESHAPE, "reshape", 1, MOVE, ANY, -, -, NONE, 1, 1, reshape, -4, 4,
  "same elements in row-major order")
X(PERMUTE, "permute", 1, MOVE, ANY, -, -, NONE, 1, 1, permute, -4, 4,
  "axis i of the result is axis p[i]")
X(EXPAND, "expand", 1, MOVE, ANY, -, -, NONE, 1, 1, expand, -4, 4, "axes of size 1 repeated")
X(PAD, "pad", 1, MOVE, ANY, -, -, NONE, 1, 1, pad, -4, 4,
  "zeros before, after and between (lo, hi, interior)")
X(SLICE, "slice", 1, MOVE, ANY, -, -, NONE, 1, 1, slice, -4, 4,
  "start, size and positive step per axis")
X(WINDOW, "window", 1, MOVE, ANY, -, -, NONE, 1, 1, window, -4, 4,
  "r[.. i .. j ..] = x[.. start + stride*i + slope*j .. j ..], 0 outside; an axis j of size 1 is "
  "repeated")
X(FLIP, "flip", 1, MOVE, ANY, -, -, NONE, 1, 1, flip, -4, 4, "axes in reverse order")

/* side by side: a value made of pieces. More than three are a tree; see pieces.c */
X(JOIN, "join", 2, JOIN, ANY, -, -, NONE, 1, 1, join, -4, 4,
  "two or three sources one behind the other along an axis; more are joins of joins")

/* reductions over sorted axes, which the result lacks; empty ones give the identity */
X(SUM, "sum", 1, REDUCE, NUM, -, -, NONE, 1, 1, sum, -4, 4,
  "sum over axes; of what is repeated n times n*x, rounded once")
X(SUM_PRODUCT, "sum_product", 2, REDUCE, NUM, -, -, NONE, 1, 1, sum_product, -4, 4,
  "sum over axes of x*y, where a bool third source holds, if there is one; the products are not "
  "rounded. Made of every sum of a product")
X(PROD, "prod", 1, REDUCE, NUM, -, -, NONE, 1, 1, prod, 0.5, 2,
  "product over axes; of what is repeated n times x^n")
X(MAX, "max", 1, REDUCE, ANY, -, -, NONE, 1, 1, max, -4, 4,
  "largest over axes; NaN when one is there; either zero where both are largest")
X(MIN, "min", 1, REDUCE, ANY, -, -, NONE, 1, 1, min, -4, 4,
  "smallest over axes; NaN when one is there; either zero where both are smallest")
X(ARGMAX, "argmax", 1, REDUCE, TO, -, -, NONE, 1, 1, NONE, -4, 4,
  "first index of the largest, in the flat order of axes")
X(ARGMIN, "argmin", 1, REDUCE, TO, -, -, NONE, 1, 1, NONE, -4, 4,
  "first index of the smallest, in the flat order of axes")

/* scans */
X(SCAN, "scan", 1, SCAN, ANY, -, -, NONE, 4, 4, scan, -4, 4,
  "the results of a monoid up to each element of an axis, or from it on; some take two sources")

/* computed indices */
X(GATHER, "gather", 2, INDEX, NONE, -, -, NONE, 8, 8, gather, -4, 4,
  "r[..i..] = x[.. index[..i..] ..] along one axis; 0 where the index is outside")
X(SCATTER, "scatter", 3, INDEX, NONE, -, -, NONE, 8, 8, scatter, -4, 4,
  "x with x[.. index[..i..] ..] combined with src[..i..] by a monoid; outside indices are dropped")

/* calls: see routines.h */
X(CALL, "call", 0, CALL, NONE, -, -, NONE, 1, 1, call, -4, 4,
  "a result of a routine that is no loop nest: sorting, factorisations")

/* loops: see loop/loop.c */
X(LIST, "list", 0, LOOP, NONE, -, -, NONE, 0, 0, list, -4, 4,
  "up to three values, the last one perhaps a list")
X(LOOP, "loop", 0, LOOP, NONE, -, -, NONE, 0, 0, list, -4, 4,
  "a body, given trip by trip: sources are a list of first states, sequences, captured values")
X(RESULT, "result", 0, LOOP, NONE, -, -, NONE, 1, 1, result, -4, 4,
  "of a loop: a state at its end, a value of the body in each trip, or how many trips there were")

/* marks */
X(CONTIGUOUS, "contiguous", 1, MARK, ANY, -, -, NONE, 1, 1, contiguous, -4, 4,
  "must be stored before it is used")
X(DETACH, "detach", 1, MARK, ANY, -, -, NONE, 1, 1, NONE, -4, 4, "the value without its history")
X(APART, "apart", 1, MARK, ANY, -, -, NONE, 1, 1, contiguous, 0, 0,
  "the value as a node of its own: what is made of it is made anew")
X(STAND_IN, "stand_in", 1, MARK, ANY, -, -, NONE, 1, 1, stand_in, 0, 0,
  "the value, whose gradient takes another way: that of a node of equal value")
X(CUSTOM, "custom", 1, MARK, ANY, -, -, NONE, 1, 1, custom, 0, 0,
  "the value, whose gradient also passes by a graph that was given")
