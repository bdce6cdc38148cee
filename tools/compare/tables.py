"""tables.py - the outside counterparts of elementwise functions.

A row: plain (on float64 or integer arrays), real (on mpmath numbers; None where plain is exact or
rounded correctly in float64), the ulps that the function may be off (0: rounded correctly), the
dtypes it takes (f floats, i integers, b bool), what it gives (same, float: integers give f32, bool,
second: the dtype of the last arguments), and of sums that cancel the magnitude of the terms.
Primitives take their dtypes from ops.h.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np

try:
    import torch
except ImportError:
    torch = None

from mpmath import mpf
from quern import table_parser

TYPES = {"FLOAT": ("fib", "float"), "NUM": ("fi", "same"), "INT": ("i", "same"), "BITS": ("ib", "same"),
         "ANY": ("fib", "same"), "CMP": ("fib", "bool"), "SELECT": ("fib", "second")}


class Row:
    def __init__(self, plain, real=None, ulp=0, takes="fib", gives="float", slack=None):
        self.plain, self.real, self.ulp = plain, real, ulp
        self.takes, self.gives, self.slack, self.grad = takes, gives, slack, True


def torch_of(function):
    """PyTorch's function on arrays."""
    def call(*args):
        return function(*[torch.from_numpy(np.array(a)) for a in args]).numpy()
    call.absent = torch is None
    return call


def one(plain, real):
    """A primitive that may be off by one ulp."""
    return Row(plain, real, 1)


def two(plain, real, **more):
    return Row(plain, real, 2, **more)


def bounded(x, lo, hi):
    return min(max(x, lo), hi)


def clip(x, lo, hi):
    """Of integers by bounds brought into their range."""
    if x.dtype.kind == "f":
        return np.clip(x, lo, hi)
    info = np.iinfo(np.uint8 if x.dtype == bool else x.dtype)
    return np.clip(x, *[int(min(max(b, info.min), info.max)) for b in (lo, hi)]).astype(x.dtype)


def remainder(x, y):
    """fmod; integers by 0 give x, as docs/ops.md says."""
    return np.fmod(x, y) if x.dtype.kind == "f" else np.where(y == 0, x, np.fmod(x, y))


def step(x, y):
    return np.where(np.isnan(x), x, np.where(x == 0, y, x > 0)).astype(x.dtype)


def floor_quotient(x, y):
    """By fractions; where floats lie more than 2 apart it is the quotient, rounded as division does."""
    if x.dtype.kind != "f":
        return np.floor_divide(x, y)
    single = all(np.array_equal(v, v.astype(np.float32), equal_nan=True) for v in (x, y))
    x, y = [v.astype(np.float32 if single else np.float64) for v in (x, y)]
    out = np.asarray(np.floor(x / y)).astype(np.float64)
    out[np.isinf(x) & (y != 0)] = np.nan
    out[np.isfinite(x) & np.isinf(y) & (x * y < 0)] = -1
    small = np.abs(out) < (2.0**25 if single else 2.0**54)
    for i in np.argwhere(np.isfinite(x) & np.isfinite(y) & (x != 0) & small):
        at = tuple(i)
        exact = math.floor(Fraction(float(x[at])) / Fraction(float(y[at])))
        out[at] = np.copysign(exact, out[at])
    return out


def shift(left):
    """By Python's integers: a count that is negative or past the width shifts everything out."""
    def call(x, y):
        out = []
        width = 8 * x.dtype.itemsize
        for a, b in zip(x.tolist(), y.tolist()):
            b = width if b < 0 or b > width else b
            out.append((a << b) & (2 ** width - 1) if left else a >> b)
        if left and x.dtype.kind == "i":
            out = [v - 2 ** width if v >> (width - 1) else v for v in out]
        return np.array(out, dtype=x.dtype)
    return call


def plain_fma(x, y, z):
    """A product that overflows in float64 is finite beside an infinite z."""
    return np.where(np.isfinite(x) & np.isfinite(y) & np.isinf(z), z, x * y + z)


def power(x, y):
    """Integers wrap; to a negative power only 1 and -1 are not 0."""
    if x.dtype.kind == "f":
        return np.power(x, y)
    bits = 8 * x.dtype.itemsize
    out = [pow(a, b, 2 ** bits) if b >= 0 else a ** (b & 1) if a in (1, -1) else 0
           for a, b in zip(x.tolist(), y.tolist())]
    return np.array([v % 2 ** bits for v in out], dtype=f"u{x.dtype.itemsize}").astype(x.dtype)


def real_pow(x, y):
    return mpmath.power(x, y) if x > 0 or y == int(y) else None


def real_gelu(x):
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def real_gelu_tanh(x):
    u = mpmath.sqrt(2 / mpmath.pi) * (x + mpf("0.044715") * x ** 3)
    return x / (1 + mpmath.exp(-2 * u))


def torch_silu_slope(x):
    s = torch.sigmoid(x)
    return s * (1 + x * (1 - s))


def real_silu_slope(x):
    return (1 + x / (1 + mpmath.exp(x))) / (1 + mpmath.exp(-x))


def torch_gelu_slope(x):
    return torch.special.ndtr(x) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def torch_gelu_tanh_slope(x):
    k = math.sqrt(8 / math.pi)
    s = torch.sigmoid(k * (x + 0.044715 * x ** 3))
    return s + x * s * (1 - s) * k * (1 + 3 * 0.044715 * x * x)


def real_gelu_slope(x):
    bell = mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2 + x * bell


def real_gelu_tanh_slope(x):
    k = mpmath.sqrt(8 / mpmath.pi)
    s = 1 / (1 + mpmath.exp(-k * (x + mpf("0.044715") * x ** 3)))
    return s + x * s * (1 - s) * k * (1 + 3 * mpf("0.044715") * x * x)


def real_selu(x):
    return mpf("1.0507009873554805") * (x if x > 0 else mpf("1.6732632423543772") * mpmath.expm1(x))


def real_trigamma(x):
    """By reflection left of 0, where mpmath takes a step for each whole number."""
    if not mpmath.isfinite(x) or x >= 0.5:
        return mpmath.polygamma(1, x) if x == x and x != -mpmath.inf else mpmath.nan
    if x == mpmath.floor(x):
        return mpmath.inf
    with mpmath.extraprec(max(0, mpmath.mag(x)) + 20):
        return (mpmath.pi / mpmath.sinpi(x)) ** 2 - mpmath.polygamma(1, 1 - x)


def real_softplus(x):
    return mpmath.log1p(mpmath.exp(x))


def real_log_sum(x, y):
    return max(x, y) + mpmath.log1p(mpmath.exp(-abs(x - y)))


nn = torch.nn.functional if torch else None
PRIMITIVES = {
    "neg": Row(np.negative), "abs": Row(np.abs), "reciprocal": Row(lambda x: 1 / x),
    "sqrt": Row(np.sqrt), "exp": one(np.exp, mpmath.exp), "exp2": one(np.exp2, lambda x: mpf(2) ** x),
    "expm1": one(np.expm1, mpmath.expm1), "log": one(np.log, mpmath.log),
    "log2": one(np.log2, lambda x: mpmath.log(x) / mpmath.log(2)),
    "log1p": one(np.log1p, mpmath.log1p), "sin": two(np.sin, mpmath.sin), "cos": two(np.cos, mpmath.cos),
    "atan": one(np.arctan, mpmath.atan), "tanh": one(np.tanh, mpmath.tanh),
    "sigmoid": two(torch_of(lambda x: x.sigmoid()), lambda x: 1 / (1 + mpmath.exp(-x))),
    "erf": one(torch_of(lambda x: x.erf()), mpmath.erf),
    "erfc": two(torch_of(lambda x: x.erfc()), mpmath.erfc),
    "floor": Row(np.floor), "ceil": Row(np.ceil), "round": Row(np.round), "trunc": Row(np.trunc),
    "not": Row(np.invert), "add": Row(np.add), "sub": Row(np.subtract), "mul": Row(np.multiply),
    "div": Row(np.divide), "floor_div": Row(floor_quotient), "mod": Row(np.mod),
    "pow": one(power, real_pow), "maximum": Row(np.maximum), "minimum": Row(np.minimum),
    "lt": Row(np.less), "le": Row(np.less_equal), "eq": Row(np.equal), "ne": Row(np.not_equal),
    "and": Row(np.bitwise_and), "or": Row(np.bitwise_or), "xor": Row(np.bitwise_xor),
    "shl": Row(shift(True)), "shr": Row(shift(False)),
    "where": Row(np.where), "fma": Row(plain_fma, lambda x, y, z: x * y + z),
    "cbrt": one(np.cbrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
    "asin": one(np.arcsin, mpmath.asin), "acos": one(np.arccos, mpmath.acos),
    "asinh": two(np.arcsinh, mpmath.asinh), "acosh": two(np.arccosh, mpmath.acosh),
    "atanh": one(np.arctanh, mpmath.atanh), "atan2": one(np.arctan2, mpmath.atan2),
    "softplus": two(torch_of(lambda x: torch.logaddexp(x, torch.zeros_like(x))), real_softplus),
    "hypot": one(np.hypot, mpmath.hypot), "logaddexp": one(np.logaddexp, real_log_sum),
    "mish": two(torch_of(lambda x: nn.mish(x)), lambda x: x * mpmath.tanh(real_softplus(x))),
    "sinh": two(np.sinh, mpmath.sinh), "cosh": two(np.cosh, mpmath.cosh),
    "lgamma": two(torch_of(lambda x: x.lgamma()), lambda x: mpmath.loggamma(x).real),
    "digamma": two(torch_of(lambda x: x.digamma()), mpmath.digamma),
    "trigamma": two(torch_of(lambda x: torch.polygamma(1, x)), real_trigamma),
    "silu": two(torch_of(lambda x: nn.silu(x)), lambda x: x / (1 + mpmath.exp(-x))),
    "silu_slope": two(torch_of(torch_silu_slope), real_silu_slope),
    "gelu": two(torch_of(lambda x: nn.gelu(x)), real_gelu),
    "gelu_tanh": two(torch_of(lambda x: nn.gelu(x, approximate="tanh")), real_gelu_tanh),
    "gelu_slope": two(torch_of(torch_gelu_slope), real_gelu_slope),
    "gelu_tanh_slope": two(torch_of(torch_gelu_tanh_slope), real_gelu_tanh_slope),
}

COMPOSED = {
    "relu": Row(lambda x: np.where(np.isnan(x), x, np.where(x > 0, x, 0)), gives="same"),
    "sign": Row(lambda x: x if x.dtype == bool else np.sign(x), gives="same"),
    "log_sigmoid": two(torch_of(lambda x: nn.logsigmoid(x)), lambda x: -real_softplus(-x)),
    "rsqrt": two(lambda x: 1 / np.sqrt(x), lambda x: 1 / mpmath.sqrt(x)),
    "square": Row(lambda x: x * x, takes="fi", gives="same"),
    "log10": two(np.log10, mpmath.log10), "tan": two(np.tan, mpmath.tan),
    "isnan": Row(np.isnan, gives="bool"), "isinf": Row(np.isinf, gives="bool"),
    "isfinite": Row(np.isfinite, gives="bool"), "logical_not": Row(np.logical_not, gives="bool"),
    "relu6": Row(lambda x: clip(x, 0, 6), gives="same"),
    "hardswish": two(torch_of(lambda x: nn.hardswish(x)), lambda x: x * bounded(x + 3, 0, 6) / 6),
    "hardsigmoid": two(torch_of(lambda x: nn.hardsigmoid(x)), lambda x: bounded(x + 3, 0, 6) / 6),
    "selu": two(torch_of(lambda x: nn.selu(x)), real_selu),
    "elu": two(lambda x, a: np.where(x > 0, x, np.where(x < 0, a * np.expm1(x), x)),
               lambda x, a: x if x > 0 else a * mpmath.expm1(x)),
    "leaky_relu": two(lambda x, a: np.where(x > 0, x, a * x), lambda x, a: x if x > 0 else a * x),
    "clamp": Row(clip, gives="same"), "hardtanh": Row(clip, gives="same"),
    "threshold": Row(lambda x, t, v: np.where(x <= t, x.dtype.type(v), x), gives="same"),
    "celu": two(lambda x, a: np.where(x > 0, x, np.where(x < 0, a * np.expm1(x / a), x)),
                lambda x, a: x if x > 0 else a * mpmath.expm1(x / a)),
    "softplus_beta": two(lambda x, b, t: np.where(b * x > t, x, np.logaddexp(b * x, 0) / b),
                         lambda x, b, t: x if b * x > t else mpmath.log1p(mpmath.exp(b * x)) / b),
    "softsign": two(lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))), lambda x: x / (1 + abs(x))),
    "sinc": two(lambda x: np.where((x == np.rint(x)) & (x != 0) & np.isfinite(x), 0, np.sinc(x)), mpmath.sincpi),
    "erfinv": two(torch_of(lambda x: x.erfinv()), lambda x: mpmath.erfinv(x) if abs(x) < 1 else None),
    "logit": two(lambda x: np.log(x / (1 - x)), lambda x: mpmath.log(x / (1 - x)) if 0 < x < 1 else None),
    "signbit": Row(lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0, gives="bool"),
    "copysign": Row(np.copysign), "heaviside": Row(step, gives="same"),
    "gt": Row(np.greater, gives="bool"), "ge": Row(np.greater_equal, gives="bool"),
    "logical_and": Row(np.logical_and, gives="bool"), "logical_or": Row(np.logical_or, gives="bool"),
    "logical_xor": Row(np.logical_xor, gives="bool"),
    "rem": Row(remainder, takes="fi", gives="same"),
    "lerp": Row(lambda x, y, t: x + t * (y - x), lambda x, y, t: x + t * (y - x), 2,
                slack=lambda x, y, t: 4 * (np.abs(x) + np.abs(t) * (np.abs(x) + np.abs(y)))),
}
OPTIONS = {"elu": [(1.0,), (0.25,)], "leaky_relu": [(0.01,), (0.5,)],
           "clamp": [(-1.0, 2.0), (0.0, 6.0), (-np.inf, 1.0)],
           "hardtanh": [(-1.0, 1.0)], "threshold": [(1.0, 3.0)], "celu": [(1.0,), (0.5,)],
           "softplus_beta": [(1.0, 20.0), (2.0, 20.0)]}
ARITY = {"gt": 2, "ge": 2, "logical_and": 2, "logical_or": 2, "logical_xor": 2, "rem": 2, "lerp": 3,
         "hypot": 2, "atan2": 2, "logaddexp": 2, "copysign": 2, "heaviside": 2}


def collect():
    """The rows by arity. A primitive's types are those of ops.h; what went from funcs.h to ops.h,
    or is in neither, follows the tree."""
    gen = table_parser()
    ops = {op.name: op for op in (gen.Op(args) for _, args in gen.rows("src/graph/ops.h"))}
    functions = {name for _, _, name, _, _ in gen.funcs()}
    found = {1: {}, 2: {}, 3: {}}
    for name, row in {**PRIMITIVES, **COMPOSED}.items():
        op = ops.get(name)
        if op and op.class_ == "ELEM":
            row.takes, row.gives = TYPES[op.types]
            row.grad = op.row[10] != "NONE"
            found[op.arity][name] = row
        elif name in functions:
            row.ulp = 2 if row.real and row.ulp == 1 else row.ulp
            row.grad = "bool" != row.gives and name not in ("sign", "heaviside", "threshold", "hardtanh")
            found[ARITY.get(name, 1)][name] = row
    return found


FOUND = collect()
UNARY, BINARY, TERNARY = FOUND[1], FOUND[2], FOUND[3]
