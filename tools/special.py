#!/usr/bin/env python3
"""special.py - derives tests/special_points.h: first and second derivatives at special points.

Usage: special.py           print the table
       special.py --check   compare it with the committed one
Needs mpmath (pip install mpmath).

Derivatives are the formulas below in 60 digits, of calculus and not of the library. Where a formula
has no value, at kinks, ties, bounds and infinities, the table has the limit or the convention of
docs/gradients.md, written down here by hand.
"""

import sys
from mpmath import mp, mpf, exp, log, sin, cos, tan, sinh, cosh, tanh, sqrt, cbrt, erf, erfc, pi
from mpmath import digamma, polygamma, diff, asin, acos, atan, asinh, acosh, atanh, expm1, log1p, sech, isnan, isinf

mp.dps = 60
HEADER = "tests/special_points.h"
INF, NAN = mpf("inf"), mpf("nan")
TINY, LARGE = mpf(2) ** -100, mpf(2) ** 70
MINUS_ZERO = "-0"
EVERYWHERE = [mpf(0), MINUS_ZERO, TINY, -TINY, mpf("0.5"), mpf("-0.5"), mpf(1), mpf(-1), mpf(2),
              mpf(-2), mpf(20), mpf(-20), LARGE, -LARGE]
ENDS = [INF, -INF]
LN2 = log(mpf(2))


def sigmoid(x):
    return 1 / (1 + exp(-x))


def bell(x):
    return 2 / sqrt(pi) * exp(-x * x)


def phi(x):
    return exp(-x * x / 2) / sqrt(2 * pi)


def cdf(x):
    return erfc(-x / sqrt(mpf(2))) / 2


def gelu_tanh_parts(x):
    k, a = mpf("0.7978845608028653558798921198687637369517"), mpf("0.044715")
    z, dz, ddz = 2 * k * (x + a * x ** 3), 2 * k * (1 + 3 * a * x * x), 12 * k * a * x
    s = sigmoid(z)
    t = s * sigmoid(-z)
    first = s + x * t * dz
    return first, 2 * t * dz + x * (t * (sigmoid(-z) - s) * dz * dz + t * ddz)


def mish_parts(x):
    w, dw, ddw = log1p(exp(x)), sigmoid(x), sigmoid(x) * sigmoid(-x)
    t, dt = tanh(w), sech(w) ** 2
    first = t + x * dt * dw
    return first, 2 * dt * dw + x * (-2 * t * dt * dw * dw + dt * ddw)


UNARY = []


def unary(name, first, second, points=None, special=None, ends=(), nan=(NAN, NAN), loose=False):
    """Both derivatives at `points`, and as given at those of `special` and at inf and -inf."""
    special = special or {}
    for x in EVERYWHERE if points is None else points:
        v = mpf(0) if x == MINUS_ZERO else x
        if x in special or (x == MINUS_ZERO and x not in special and mpf(0) in special):
            d = special[x] if x in special else special[mpf(0)]
        else:
            d = first(v), second(v)
        UNARY.append((name, x, d, loose))
    for x, d in zip(ENDS, ends):
        if d is not None:
            UNARY.append((name, x, d, loose))
    UNARY.append((name, NAN, nan, loose))


ZERO, ONE = (mpf(0), mpf(0)), (mpf(1), mpf(0))
BOTH = (NAN, NAN)
inside = [p for p in EVERYWHERE if p == MINUS_ZERO or abs(p) < 1]
positive = [p for p in EVERYWHERE if p != MINUS_ZERO and p > 0]
small = [p for p in EVERYWHERE if p == MINUS_ZERO or abs(p) <= 20]


def at_zero(value, minus):
    return {mpf(0): value, MINUS_ZERO: minus}


unary("neg", lambda x: mpf(-1), lambda x: mpf(0), ends=[(mpf(-1), mpf(0))] * 2, nan=(mpf(-1), mpf(0)))
unary("abs", lambda x: mpf(1 if x > 0 else -1), lambda x: mpf(0), special={mpf(0): ZERO},
      ends=[ONE, (mpf(-1), mpf(0))])
unary("reciprocal", lambda x: -1 / x ** 2, lambda x: 2 / x ** 3, ends=[ZERO, ZERO],
      special=at_zero((-INF, INF), (-INF, -INF)))
unary("sqrt", lambda x: 1 / (2 * sqrt(x)), lambda x: -x ** mpf("-1.5") / 4,
      points=positive + [mpf(0), mpf(-1)], special={mpf(0): (INF, -INF), mpf(-1): BOTH},
      ends=[ZERO, BOTH])
unary("rsqrt", lambda x: -x ** mpf("-1.5") / 2, lambda x: x ** mpf("-2.5") * 3 / 4,
      points=positive + [mpf(-1)], special={mpf(-1): BOTH}, ends=[ZERO, BOTH])
unary("cbrt", lambda x: 1 / (3 * cbrt(abs(x)) ** 2),
      lambda x: -2 / (9 * cbrt(abs(x)) ** 5) * (1 if x > 0 else -1), ends=[ZERO, ZERO],
      special=at_zero((INF, -INF), (INF, INF)))
unary("exp", exp, exp, ends=[(INF, INF), ZERO])
unary("exp2", lambda x: 2 ** x * LN2, lambda x: 2 ** x * LN2 ** 2, ends=[(INF, INF), ZERO])
unary("expm1", exp, exp, ends=[(INF, INF), ZERO])
for name, scale in (("log", 1), ("log2", 1 / LN2), ("log10", 1 / log(mpf(10)))):
    unary(name, lambda x, s=scale: s / x, lambda x, s=scale: -s / x ** 2, points=positive + [mpf(0)],
          special={mpf(0): (INF, -INF)}, ends=[ZERO, None])
unary("log1p", lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2,
      points=positive + inside + [mpf(-1)], special={mpf(-1): (INF, -INF)}, ends=[ZERO, None])
unary("sin", cos, lambda x: -sin(x), ends=[BOTH, BOTH])
unary("cos", lambda x: -sin(x), lambda x: -cos(x), ends=[BOTH, BOTH])
unary("tan", lambda x: 1 / cos(x) ** 2, lambda x: 2 * tan(x) / cos(x) ** 2, points=small,
      ends=[BOTH, BOTH])
unary("asin", lambda x: 1 / sqrt(1 - x * x), lambda x: x / sqrt(1 - x * x) ** 3,
      points=inside + [mpf(1), mpf(-1), mpf(2)],
      special={mpf(1): (INF, INF), mpf(-1): (INF, -INF), mpf(2): BOTH}, ends=[BOTH, BOTH])
unary("acos", lambda x: -1 / sqrt(1 - x * x), lambda x: -x / sqrt(1 - x * x) ** 3,
      points=inside + [mpf(1), mpf(-1), mpf(2)],
      special={mpf(1): (-INF, -INF), mpf(-1): (-INF, INF), mpf(2): BOTH}, ends=[BOTH, BOTH])
unary("atan", lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2, ends=[ZERO, ZERO])
unary("asinh", lambda x: 1 / sqrt(1 + x * x), lambda x: -x / sqrt(1 + x * x) ** 3, ends=[ZERO, ZERO])
unary("acosh", lambda x: 1 / sqrt(x * x - 1), lambda x: -x / sqrt(x * x - 1) ** 3,
      points=[mpf(1), mpf("1.25"), mpf(2), mpf(20), LARGE, mpf("0.5")],
      special={mpf(1): (INF, -INF), mpf("0.5"): BOTH}, ends=[ZERO, BOTH])
unary("atanh", lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2,
      points=inside + [mpf(1), mpf(-1)], special={mpf(1): (INF, INF), mpf(-1): (INF, -INF)})
unary("sinh", cosh, sinh, points=small, loose=True)
unary("cosh", sinh, cosh, points=small, loose=True)
unary("tanh", lambda x: sech(x) ** 2, lambda x: -2 * tanh(x) * sech(x) ** 2, ends=[ZERO, ZERO],
      loose=True)
unary("sigmoid", lambda x: sigmoid(x) * sigmoid(-x),
      lambda x: sigmoid(x) * sigmoid(-x) * (sigmoid(-x) - sigmoid(x)), ends=[ZERO, ZERO], loose=True)
unary("softplus", sigmoid, lambda x: sigmoid(x) * sigmoid(-x), ends=[ONE, ZERO], loose=True)
unary("log_sigmoid", lambda x: sigmoid(-x), lambda x: -sigmoid(x) * sigmoid(-x), ends=[ZERO, ONE],
      loose=True)
unary("erf", bell, lambda x: -2 * x * bell(x), ends=[ZERO, ZERO])
unary("erfc", lambda x: -bell(x), lambda x: 2 * x * bell(x), ends=[ZERO, ZERO])
poles = [mpf(-1), mpf(-2), mpf(-20), -LARGE]
beside = [mpf(2) ** -400, -mpf(2) ** -400, mpf(2) ** -33, -mpf(2) ** -33]
unary("lgamma", digamma, lambda x: polygamma(1, x), ends=[(INF, mpf(0)), BOTH], points=EVERYWHERE + beside,
      special=at_zero((-INF, INF), (INF, INF)) | {x: (NAN, INF) for x in poles})
unary("digamma", lambda x: polygamma(1, x), lambda x: polygamma(2, x), ends=[ZERO, BOTH], points=EVERYWHERE + beside,
      special=at_zero((INF, -INF), (INF, INF)) | {x: (INF, -INF) for x in poles})
pole = {x: (-INF, INF) for x in [mpf(0)] + poles} | {MINUS_ZERO: (INF, INF)}
unary("trigamma", lambda x: polygamma(2, x), lambda x: polygamma(3, x), ends=[ZERO, BOTH], loose=True,
      points=EVERYWHERE + [mpf("-2.25")] + beside,
      special=pole)
unary("square", lambda x: 2 * x, lambda x: mpf(2), ends=[(INF, mpf(2)), (-INF, mpf(2))],
      nan=(NAN, mpf(2)))
unary("sign", lambda x: mpf(0), lambda x: mpf(0), ends=[ZERO, ZERO], nan=ZERO)
unary("relu", lambda x: mpf(1 if x > 0 else 0), lambda x: mpf(0), ends=[ONE, ZERO], nan=ONE)
unary("relu6", lambda x: mpf(1 if 0 <= x <= 6 else 0), lambda x: mpf(0), ends=[ZERO, ZERO], nan=ONE,
      points=EVERYWHERE + [mpf(6)])
unary("hardsigmoid", lambda x: mpf(1 if -3 <= x <= 3 else 0) / 6, lambda x: mpf(0),
      ends=[ZERO, ZERO], nan=(mpf(1) / 6, mpf(0)), points=EVERYWHERE + [mpf(3), mpf(-3)])
unary("hardswish", lambda x: mpf(0) if x < -3 else mpf(1) if x > 3 else (2 * x + 3) / 6,
      lambda x: mpf(1 if -3 <= x <= 3 else 0) / 3, nan=(NAN, mpf(1) / 3))
unary("leaky_relu", lambda x: mpf(1 if x > 0 else mpf("0.25")), lambda x: mpf(0),
      ends=[ONE, (mpf("0.25"), mpf(0))], nan=(mpf("0.25"), mpf(0)))
unary("elu", lambda x: mpf(1) if x > 0 else mpf("0.75") * exp(x),
      lambda x: mpf(0) if x > 0 else mpf("0.75") * exp(x), ends=[ONE, ZERO])
SCALE, ALPHA = mpf("1.0507009873554804934"), mpf("1.6732632423543772848")
unary("selu", lambda x: SCALE if x > 0 else SCALE * ALPHA * exp(x),
      lambda x: mpf(0) if x > 0 else SCALE * ALPHA * exp(x), ends=[(SCALE, mpf(0)), ZERO])
unary("clamp", lambda x: mpf(1 if -1 <= x <= 2 else 0), lambda x: mpf(0), ends=[ZERO, ZERO], nan=ONE)
unary("silu", lambda x: sigmoid(x) * (1 + x * sigmoid(-x)),
      lambda x: sigmoid(x) * sigmoid(-x) * (2 + x * (sigmoid(-x) - sigmoid(x))), points=small, loose=True,
      ends=[ONE, ZERO])
unary("silu_slope", lambda x: sigmoid(x) * sigmoid(-x) * (2 + x * (sigmoid(-x) - sigmoid(x))),
      lambda x: diff(lambda t: t * sigmoid(t), x, 3), points=small, loose=True, ends=[ZERO, ZERO])
unary("gelu", lambda x: cdf(x) + x * phi(x), lambda x: phi(x) * (2 - x * x), points=small, loose=True,
      ends=[ONE, ZERO])
unary("gelu_slope", lambda x: phi(x) * (2 - x * x), lambda x: phi(x) * (x ** 3 - 4 * x), points=small,
      loose=True, ends=[ZERO, ZERO])
unary("gelu_tanh", lambda x: gelu_tanh_parts(x)[0], lambda x: gelu_tanh_parts(x)[1], points=small,
      loose=True, ends=[ONE, ZERO])
unary("gelu_tanh_slope", lambda x: gelu_tanh_parts(x)[1],
      lambda x: diff(lambda t: gelu_tanh_parts(t)[0], x, 2), points=small, loose=True, ends=[ZERO, ZERO])
unary("mish", lambda x: mish_parts(x)[0], lambda x: mish_parts(x)[1], points=small, loose=True,
      ends=[ONE, ZERO])
unary("celu", lambda x: mpf(1) if x > 0 else exp(x / 2), lambda x: mpf(0) if x > 0 else exp(x / 2) / 2,
      ends=[ONE, ZERO])
unary("hardtanh", lambda x: mpf(1 if -1 <= x <= 2 else 0), lambda x: mpf(0), ends=[ZERO, ZERO], nan=ONE)
unary("threshold", lambda x: mpf(1 if x > 1 else 0), lambda x: mpf(0), ends=[ONE, ZERO], nan=ONE)
unary("softplus_beta", lambda x: sigmoid(2 * x) if x <= 10 else mpf(1),
      lambda x: 2 * sigmoid(2 * x) * sigmoid(-2 * x) if x <= 10 else mpf(0), ends=[ONE, ZERO], loose=True)
unary("nan_to_num", lambda x: mpf(1), lambda x: mpf(0), ends=[ZERO, ZERO], nan=ZERO)
unary("softsign", lambda x: 1 / (1 + abs(x)) ** 2, lambda x: (-2 if x > 0 else 2) / (1 + abs(x)) ** 3,
      special={mpf(0): ONE}, ends=[ZERO, ZERO])
unary("logit", lambda x: 1 / (x * (1 - x)), lambda x: (2 * x - 1) / (x * (1 - x)) ** 2, loose=True,
      points=[mpf(0), MINUS_ZERO, mpf("0.125"), mpf("0.25"), mpf("0.375"), mpf("0.5"), mpf("0.75"), mpf("0.875"),
              mpf(1)], special={mpf(0): (INF, -INF), MINUS_ZERO: (-INF, -INF), mpf(1): (INF, INF)})


def erfinv_parts(x):
    y = mp.erfinv(x)
    return sqrt(pi) / 2 * exp(y * y), pi / 2 * y * exp(2 * y * y)


unary("erfinv", lambda x: erfinv_parts(x)[0], lambda x: erfinv_parts(x)[1], loose=True,
      points=[mpf(0), MINUS_ZERO, mpf("0.125"), mpf("-0.125"), mpf("0.5"), mpf("-0.5"), mpf("0.75"), mpf("-0.9375"),
              mpf(1), mpf(-1)], special={mpf(1): (INF, INF), mpf(-1): (INF, -INF)})


def sinc_parts(x):
    if abs(x) < mpf(2) ** -50:
        return -pi ** 2 * x / 3, -pi ** 2 / 3
    s = mp.sincpi(x)
    first = (mp.cospi(x) - s) / x
    return first, -pi ** 2 * s - 2 * first / x


unary("sinc", lambda x: sinc_parts(x)[0], lambda x: sinc_parts(x)[1], ends=[BOTH, BOTH], loose=True)

# ---- two arguments: d/dx, d/dy, d2/dx2, d2/dxdy, d2/dy2 -------------------------------------------

BINARY = []
FEW = [mpf(0), MINUS_ZERO, mpf(1), mpf(-1), mpf(2)]
LEAST = [mpf(0), mpf(-2), INF, NAN]


def number(x):
    return mpf(0) if x == MINUS_ZERO else x


def binary(name, derivatives, xs=None, ys=None):
    for x in FEW + ENDS + [NAN] if xs is None else xs:
        for y in FEW + ENDS + [NAN] if ys is None else ys:
            d = derivatives(number(x), number(y))
            if d is not None:
                BINARY.append((name, x, y, d))


def five(*values):
    return [mpf(v) if not isinstance(v, mpf) else v for v in values]


def all_of(value):
    return [value] * 5


def d_div(x, y):
    if y == 0:
        return None
    return five(1 / y, -x / y ** 2, 0, -1 / y ** 2, 2 * x / y ** 3)


def d_pow(x, y):
    """x^y for numbers of C's pow; None where this table says nothing."""
    if x == 0:
        slope = {-1: -INF, -2: -INF, 0: mpf(0), 1: mpf(1), 2: mpf(0)}.get(int(y)) if y == int(y) else INF
        bend = {-1: INF, -2: INF, 0: mpf(0), 1: mpf(0), 2: mpf(2)}.get(int(y)) if y == int(y) else -INF
        return [slope, mpf(0) if y >= 0 else -INF, bend, None, mpf(0) if y >= 0 else INF]
    if isinf(x):
        return [mpf(0) if y < 1 else mpf(1) if y == 1 else INF,
                mpf(0) if y < 0 else INF, None, None, None]
    if x < 0:
        if y != int(y):
            return all_of(NAN)
        n = int(y)
        return [y * x ** (n - 1), NAN, y * (y - 1) * x ** (n - 2), NAN, NAN]
    l, p = log(x), x ** y
    return [y * p / x, p * l, y * (y - 1) * p / x ** 2, p / x * (1 + y * l), p * l * l]


def d_atan2(x, y):
    if isnan(x) or isnan(y):
        return all_of(NAN)
    if isinf(x) or isinf(y) or (x == 0 and y == 0):
        return all_of(mpf(0))
    r = x * x + y * y
    return [y / r, -x / r, -2 * x * y / r ** 2, (x * x - y * y) / r ** 2, 2 * x * y / r ** 2]


def d_hypot(x, y):
    if isinf(x) and isinf(y):
        return [NAN, NAN, None, None, None]
    if isnan(x) or isnan(y):
        return [NAN, NAN, None, None, None] if isinf(x) or isinf(y) else all_of(NAN)
    if isinf(x):
        return five(1 if x > 0 else -1, 0, 0, 0, 0)
    if isinf(y):
        return five(0, 1 if y > 0 else -1, 0, 0, 0)
    if x == 0 and y == 0:
        return all_of(mpf(0))
    h = sqrt(x * x + y * y)
    return [x / h, y / h, y * y / h ** 3, -x * y / h ** 3, x * x / h ** 3]


def d_logaddexp(x, y):
    if isnan(x) or isnan(y):
        return all_of(NAN)
    if isinf(x) and x == y:
        return five(0.5, 0.5, 0, 0, 0)
    s = sigmoid(x - y) if not (isinf(x) or isinf(y)) else mpf(1 if x > y else 0)
    t = s * (1 - s)
    return [s, 1 - s, t, -t, t]


def d_extreme(x, y, sign):
    if isnan(x) or isnan(y):
        return all_of(NAN)
    first = mpf("0.5") if x == y else mpf(1 if sign * (x - y) > 0 else 0) if not (
        isinf(x) and isinf(y)) else mpf(1 if sign * x > 0 else 0)
    return five(first, 1 - first, 0, 0, 0)


def d_mod(x, y):
    return five(1, -mp.floor(x / y), 0, 0, 0)


def d_rem(x, y):
    return five(1, -(mp.floor(abs(x / y)) * (1 if x * y > 0 else -1)), 0, 0, 0)


binary("add", lambda x, y: five(1, 1, 0, 0, 0), LEAST, LEAST)
binary("sub", lambda x, y: five(1, -1, 0, 0, 0), LEAST, LEAST)
binary("mul", lambda x, y: five(y, x, 0, 1, 0), LEAST, LEAST)
binary("div", d_div, xs=FEW, ys=FEW)
binary("pow", d_pow, xs=[mpf(0), mpf("0.5"), mpf(1), mpf(2), mpf(-2), INF],
       ys=[mpf(-2), mpf(-1), mpf("0.5"), mpf(0), mpf(1), mpf(2)])
binary("pow", lambda x, y: all_of(NAN), xs=[NAN], ys=[mpf(-1), mpf("0.5"), mpf(3), NAN])
binary("pow", lambda x, y: [mpf(0), NAN, mpf(0), None, NAN], xs=[NAN], ys=[mpf(0)])
binary("atan2", d_atan2)
binary("hypot", d_hypot)
binary("logaddexp", d_logaddexp)
binary("maximum", lambda x, y: d_extreme(x, y, 1))
binary("minimum", lambda x, y: d_extreme(x, y, -1))
binary("copysign", lambda x, y: five((x > 0) - (x < 0) if y > 0 else (x < 0) - (x > 0), 0, 0, 0, 0),
       xs=[mpf(0), mpf(1), mpf(-2), INF, -INF], ys=[mpf(1), mpf(-2), INF])
binary("heaviside", lambda x, y: five(0, 1 if x == 0 else 0, 0, 0, 0),
       xs=[mpf(0), mpf(1), mpf(-2), INF, -INF, NAN], ys=[mpf("0.5"), mpf(-2)])
binary("mod", d_mod, xs=[mpf(0), mpf(7), mpf(-7)], ys=[mpf(2), mpf(-2), mpf("0.75")])
binary("rem", d_rem, xs=[mpf(0), mpf(7), mpf(-7)], ys=[mpf(2), mpf(-2), mpf("0.75")])

# ---- the table ------------------------------------------------------------------------------------


def spelled(v):
    if v is None:
        return "UNSAID"
    if v == MINUS_ZERO:
        return "-0.0"
    if isnan(v):
        return "NAN"
    if isinf(v) or abs(v) > mpf(2) ** 1023 * (2 - mpf(2) ** -53):
        return "INFINITY" if v > 0 else "-INFINITY"
    return repr(float(v)).removesuffix(".0")


OPENING = """/* special_points.h - first and second derivatives at special points, a row a function. Generated by
 * tools/special.py, which says how; `tools/special.py --check` derives them anew.
 *
 * ONE(name, loose, x, first, second, ..)  loose: to an absolute error of a few units of 1
 * TWO(name, x, y, d/dx, d/dy, d2/dx2, d2/dxdy, d2/dy2, ..)  UNSAID: anything may stand there */

/* clang-format off */"""


def packed(head, numbers):
    lines, line = [], head
    for i, v in enumerate(numbers):
        word = spelled(v) + (")" if i + 1 == len(numbers) else ",")
        if len(line) + len(word) + 1 > 99:
            lines.append(line)
            line = " "
        line += " " + word
    return "\n".join(lines + [line])


def text():
    parts = [OPENING]
    for name in dict.fromkeys(row[0] for row in UNARY):
        of = [row for row in UNARY if row[0] == name]
        numbers = [v for _, x, d, _ in of for v in (x,) + tuple(d)]
        parts.append(packed(f"ONE({name}, {int(of[0][3])},", numbers))
    for name in dict.fromkeys(row[0] for row in BINARY):
        numbers = [v for n, x, y, d in BINARY if n == name for v in [x, y] + list(d)]
        parts.append(packed(f"TWO({name},", numbers))
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        with open(HEADER, encoding="utf-8") as header:
            same = header.read() == text()
        print("special: the table matches" if same else "special: the table differs")
        sys.exit(0 if same else 1)
    sys.stdout.write(text())
