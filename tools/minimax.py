#!/usr/bin/env python3
"""minimax.py - derives the polynomials of src/math/poly.h and piece.h.

Usage: minimax.py [NAME...]        print poly.h, or only the rows of these names
       minimax.py --pieces         print piece.h
       minimax.py --check          derive all rows again and compare with the committed headers
Needs mpmath (pip install mpmath). The whole table takes a minute or two.

Each row approximates a target g on [lo, hi] by a polynomial P, minimising the largest
|w(x) (P(x) - g(x))|. The weight w turns the error of P into the error that counts: the relative
error of the finished function (or the absolute one of an exponent). The optimum is found by Remez'
exchange on a dense grid of Chebyshev points in 60-digit arithmetic.

Coefficients must be numbers of the target format. Rounding them all at once would spoil the optimum,
so they are fixed one after the other from the lowest (the one that matters most), each followed by
a new exchange for those still free, which then make up for the rounding.
"""

import sys
from mpmath import mp, mpf, matrix, lu_solve, chebyt, exp, log, log1p, expm1, sin, asin, atan, tanh, erf
from mpmath import cbrt, erfc, sqrt, pi, cos, frexp, ldexp, nint, log10, findroot
from mpmath import loggamma, digamma, polygamma

mp.dps = 60
HEADER, PIECES = "src/math/poly.h", "src/math/piece.h"
BITS = {"F32": 24, "F64": 53}


def rounded(x, bits):
    """x to the nearest number of `bits` significant bits."""
    if x == 0:
        return mpf(0)
    mantissa, exponent = frexp(x)
    return ldexp(nint(ldexp(mantissa, bits)), exponent - bits)


class Fit:
    """The target on a grid, and the coefficients fixed so far (the lowest ones)."""

    def __init__(self, target, weight, lo, hi, degree):
        points = 20 * (degree + 3)
        middle, half = (mpf(lo) + hi) / 2, (mpf(hi) - lo) / 2
        self.x = [middle - half * cos(pi * (i + mpf(1) / 3) / (points - mpf(1) / 3))
                  for i in range(points)]
        self.g = [target(x) for x in self.x]
        self.w = [abs(weight(x)) for x in self.x]
        self.degree = degree
        self.fixed = []

    def errors(self, free):
        coefficients = self.fixed + free
        out = []
        for x, g, w in zip(self.x, self.g, self.w):
            p = mpf(0)
            for c in reversed(coefficients):
                p = p * x + c
            out.append(w * (p - g))
        return out

    def exchange(self, free_count):
        """Remez: the free coefficients with the smallest largest error, and that error.

        The free terms are x^low times a polynomial; where that factor is negative the alternation
        is that of the negated error."""
        n, points = free_count + 1, len(self.x)
        low = len(self.fixed)
        side = [-1 if x < 0 and low % 2 else 1 for x in self.x]
        place = [min(points - 1, int((points - 1) * (1 - cos(pi * i / (n - 1))) / 2 + mpf(1) / 2))
                 for i in range(n)]
        for i in range(1, n):
            place[i] = max(place[i], place[i - 1] + 1)
        for i in range(n - 2, -1, -1):
            place[i] = min(place[i], place[i + 1] - 1)
        best = None
        for _ in range(60):
            a, b = matrix(n, n), matrix(n, 1)
            for row, at in enumerate(place):
                x, w = self.x[at], self.w[at]
                power = x ** low
                for column in range(free_count):
                    a[row, column] = w * power
                    power *= x
                a[row, free_count] = (-1) ** row * side[at]
                known = mpf(0)
                for c in reversed(self.fixed):
                    known = known * x + c
                b[row] = w * (self.g[at] - known)
            solution = lu_solve(a, b)
            free, level = [solution[i] for i in range(free_count)], abs(solution[free_count])
            error = self.errors(free)
            worst = max(abs(e) for e in error)
            if best is None or worst < best[0]:
                best = (worst, free)
            if worst <= level * mpf("1.0005"):
                break
            place = alternation([e * s for e, s in zip(error, side)], n)
            if place is None:
                break
        return best


def alternation(error, n):
    """n places where the error is extreme with alternating signs, the largest ones kept."""
    runs = []
    for i, e in enumerate(error):
        if runs and (e >= 0) == (error[runs[-1]] >= 0):
            if abs(e) > abs(error[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > n:
        if len(runs) - n == 1:
            drop = 0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else len(runs) - 1
            runs.pop(drop)
            continue
        at = min(range(len(runs)), key=lambda i: abs(error[runs[i]]))
        if at in (0, len(runs) - 1):
            runs.pop(at)
        else:  # dropping an inner one merges its neighbours, which have one sign
            keep = at - 1 if abs(error[runs[at - 1]]) > abs(error[runs[at + 1]]) else at + 1
            runs[at - 1:at + 2] = [runs[keep]]
    return runs if len(runs) == n else None


def derive(row):
    fit = Fit(row["target"], row["weight"], row["lo"], row["hi"], row["degree"])
    bits, refits = BITS[row["format"]], row.get("refits", 8)
    given = row.get("given", [])
    for i in range(row["degree"] + 1):
        if i < len(given):
            fit.fixed.append(mpf(given[i]))
            continue
        if i < len(given) + refits:
            worst, free = fit.exchange(row["degree"] + 1 - i)
        else:
            free = free[1:]
        fit.fixed.append(rounded(free[0], bits))
    return fit.fixed, max(abs(e) for e in fit.errors([]))


def mills(t):
    """e^(t^2/2) times what the normal distribution leaves beyond t."""
    return exp(t * t / 2) * erfc(t / sqrt(mpf(2))) / 2


def stirling(u):
    """What Stirling's formula leaves of log(gamma(x)), times x; u = 1/x^2."""
    x = 1 / sqrt(u)
    return (loggamma(x) - (x - mpf(1) / 2) * log(x) + x - log(2 * pi) / 2) * x


# ---- the rows -----------------------------------------------------------------------------------

LN2, LOG2E, TINY = log(mpf(2)), 1 / log(mpf(2)), mpf(10) ** -12
HALF_LN2 = LN2 / 2 + mpf("1e-5")
SQRT_HALF = sqrt(mpf("0.5"))
PSI_ZERO = findroot(digamma, mpf("1.4616"))


def row(name, fmt, degree, lo, hi, target, weight, form, given=(), refits=8):
    return dict(name=name, format=fmt, degree=degree, lo=lo, hi=hi, target=target, weight=weight,
                form=form, given=list(given), refits=refits)


def log2e_parts(fmt):
    high = rounded(LOG2E, BITS[fmt])
    return high, rounded(LOG2E - high, BITS[fmt])


def rows():
    for fmt, degree in (("F32", 6), ("F64", 11)):
        yield row("EXP", fmt, degree, -HALF_LN2, HALF_LN2, exp, lambda r: exp(-r),
                  "e^r = P(r)", [1, 1])
    yield row("BELL", "F32", 6, mpf("-0.6876"), mpf("0.6876"), lambda r: exp(-GELU / 2 * r),
              lambda r: exp(GELU / 2 * r), "e^(-K r / 2) = P(r), the K of gelu.c", [1])
    for fmt, degree in (("F32", 6), ("F64", 11)):
        yield row("EXP2", fmt, degree, -0.50001, 0.50001, lambda r: mpf(2) ** r,
                  lambda r: mpf(2) ** -r, "2^r = P(r)", [1])
    for fmt, degree in (("F32", 5), ("F64", 9)):
        yield row("EXPM1", fmt, degree, -HALF_LN2, HALF_LN2, lambda r: (expm1(r) - r) / r ** 2,
                  lambda r: r ** 2 / expm1(r), "e^r - 1 = r + r^2 P(r)")
    for fmt, degree in (("F32", 8), ("F64", 19)):
        yield row("LOG", fmt, degree, mpf("-0.25"), mpf("0.5"),
                  lambda f: (log1p(f) - f) / f ** 2, lambda f: f ** 2 / log1p(f),
                  "log(1+f) = f + f^2 P(f)", [-0.5])
    for fmt, degree in (("F32", 9), ("F64", 20)):
        high, low = log2e_parts(fmt)
        yield row("LOG2", fmt, degree, SQRT_HALF - 1, 2 * SQRT_HALF - 1,
                  lambda f, high=high: (log1p(f) * LOG2E / f - high),
                  lambda f: f / (log1p(f) * LOG2E),
                  "log2(1+f) = f (fl(log2(e)) + P(f))", [low])
    yield row("TANH", "F64", 13, TINY, mpf("0.766"), lambda u: (tanh(sqrt(u)) / sqrt(u) - 1) / u,
              lambda u: u * sqrt(u) / tanh(sqrt(u)), "tanh(x) = x + x u P(u), u = x^2")
    for fmt, degree in (("F32", 6), ("F64", 12)):
        yield row("ERF", fmt, degree, TINY, mpf("0.9"), lambda u: erf(sqrt(u)) / sqrt(u) - 1,
                  lambda u: sqrt(u) / erf(sqrt(u)), "erf(x) = x + x P(u), u = x^2")
    yield row("ERFC", "F64", 18, mpf("0.93"), mpf(6), lambda t: log(erfc(t)) * LOG2E,
              lambda t: erfc(t) / erf(t) * LN2, "1 - erf(t) = 2^P(t); error relative to erf", [0])
    for fmt, degree, k, hi in (("F32", 8, mpf("2.5"), "10.3"), ("F64", 21, mpf(4), "37.6")):
        def tail(v, k=k):
            t = 1 / v - k
            return exp(t * t) * erfc(t) / v
        yield row("ERFC_TAIL", fmt, degree, 1 / (mpf(hi) + k), 1 / (mpf("0.74") + k), tail,
                  lambda v, tail=tail: 1 / tail(v),
                  f"erfc(t) = e^(-t^2) v P(v), v = 1/(t + {float(k):g})")
    def ndtr(v):
        return mills(1 / v - 5) / v
    yield row("NDTR_TAIL", "F64", 21, 1 / mpf(44), 1 / mpf("6.05"), ndtr, lambda v: 1 / ndtr(v),
              "Phi(-t) = e^(-t^2/2) v P(v), v = 1/(t + 5)", refits=22)
    for fmt, degree in (("F32", 8), ("F64", 19)):
        yield row("ATAN", fmt, degree, TINY, mpf(1), lambda u: (atan(sqrt(u)) / sqrt(u) - 1) / u,
                  lambda u: u * sqrt(u) / atan(sqrt(u)), "atan(z) = z + z u P(u), u = z^2")
    for fmt, degree in (("F32", 5), ("F64", 12)):
        yield row("ASIN", fmt, degree, TINY, mpf("0.25"), lambda u: (asin(sqrt(u)) / sqrt(u) - 1) / u,
                  lambda u: u * sqrt(u) / asin(sqrt(u)), "asin(z) = z + z u P(u), u = z^2")
    for fmt in ("F32", "F64"):
        yield row("CBRT", fmt, 6, mpf("0.375"), mpf(3), cbrt, lambda v: 1 / cbrt(v),
                  "cbrt(v), to begin with")
    # In double arithmetic for float results: errors well below 2^-24 suffice.
    yield row("SIN_PI", "F64", 5, TINY, mpf("0.2501"), lambda u: sin(pi * sqrt(u)) / sqrt(u),
              lambda u: sqrt(u) / sin(pi * sqrt(u)), "sin(pi f) = f P(u), u = f^2; for F32")
    yield row("LOG2_SHORT", "F64", 14, SQRT_HALF - 1, 2 * SQRT_HALF - 1,
              lambda f: log1p(f) * LOG2E / f, lambda f: f / (log1p(f) * LOG2E),
              "log2(1+f) = f P(f); for F32")
    yield row("EXP2_SHORT", "F64", 7, -0.50001, 0.50001, lambda r: mpf(2) ** r,
              lambda r: mpf(2) ** -r, "2^r = P(r); for F32")
    yield row("SIN", "F64", 7, TINY, mpf("2.4675"), lambda u: (sin(sqrt(u)) / sqrt(u) - 1) / u,
              lambda u: u * sqrt(u) / sin(sqrt(u)), "sin(r) = r + r u P(u), u = r^2")
    yield row("ATANH", "F64", 7, TINY, mpf("0.02945"),
              lambda u: (log((1 + sqrt(u)) / (1 - sqrt(u))) / (2 * sqrt(u)) - 1 - u / 3) / u ** 2,
              lambda u: u ** 2, "atanh(s) = s + s u / 3 + s u^2 P(u), u = s^2")
    # Of the gamma function: the rows SHORT are in double arithmetic for float results.
    for name, near, far in (("", 19, 10), ("_SHORT", 10, 4)):
        yield row("LGAMMA" + name, "F64", near, mpf("-0.50001"), mpf("0.50001"),
                  lambda z: loggamma(2 + z) / z, lambda z: z / loggamma(2 + z),
                  "log(gamma(2+z)) = z P(z)")
        yield row("LGAMMA_FAR" + name, "F64", far, TINY, 1 / mpf("3.5") ** 2, stirling,
                  lambda u: sqrt(u) / loggamma(1 / sqrt(u)),
                  "lgamma(x) - Stirling's = v P(v^2), v = 1/x")
    for name, near, far in (("", 22, 18), ("_SHORT", 12, 6)):
        yield row("DIGAMMA" + name, "F64", near, 1 - PSI_ZERO, 2 - PSI_ZERO,
                  lambda d: digamma(d + PSI_ZERO) / d, lambda d: d / digamma(d + PSI_ZERO),
                  "digamma(x) = d P(d), d = x - 1.4616...", refits=6)
        yield row("DIGAMMA_FAR" + name, "F64", far, TINY, mpf("0.25"),
                  lambda u: (log(1 / sqrt(u)) - sqrt(u) / 2 - digamma(1 / sqrt(u))) / u,
                  lambda u: u / digamma(1 / sqrt(u)),
                  "digamma(x) = log(x) - v/2 - u P(u), u = v^2, v = 1/x", refits=6)
    for name, far in (("", 20), ("_SHORT", 7)):
        yield row("TRIGAMMA" + name, "F64", far, TINY, mpf("0.25"),
                  lambda u: (polygamma(1, 1 / sqrt(u)) - sqrt(u) - u / 2) / (u * sqrt(u)),
                  lambda u: u * sqrt(u) / polygamma(1, 1 / sqrt(u)),
                  "trigamma(x) = v + u/2 + u v P(u), v = 1/x, u = v^2", refits=6)
    yield row("SIN_TURN", "F64", 7, TINY, mpf("0.25001"),
              lambda u: (sin(pi * sqrt(u)) / (pi * sqrt(u)) - 1) / u,
              lambda u: pi * u * sqrt(u) / sin(pi * sqrt(u)), "sin(pi f) = pi (f + f u P(u)), u = f^2")


# ---- functions by pieces ------------------------------------------------------------------------

ENTRIES = 16


# gelu.c has 2^-n for e^(-n GRID/2), which is e^(-GELU n GRID/2).
GRID = mpf("1.375")
GELU = 2 * LN2 / GRID


def gelu_tail(t):
    return t * mills(t) * exp((GELU - 1) * t * t / 2)


def gelu_slope_tail(t):
    return (mills(t) - t / sqrt(2 * pi)) * exp((GELU - 1) * t * t / 2)


def pieces():
    """Name, degree, function, bits of the significand that number the pieces, factor, offset,
    largest t, and whether the function grows like t at 0, where value and start are 0 then; None
    says that it does and is computed as t and a bit less."""
    yield "TANH", 5, tanh, 2, mpf("1.65234375"), mpf(1), mpf("9.0625"), None
    yield "ERF", 5, erf, 3, mpf("0.951171875"), mpf("1.25"), mpf("3.9375"), None
    yield "GELU", 5, gelu_tail, 2, mpf("1.296875"), mpf("1.25"), mpf("14.4375"), True
    yield "GELU_SLOPE", 5, gelu_slope_tail, 2, mpf("1.796875"), mpf("1.75"), mpf("14.5625"), False


def borders(bits, factor, offset):
    """Where the pieces begin, and last where they end: where factor t + offset, offset in [1, 2), is
    a number of 1 + `bits` bits. With the number of the first piece."""
    first = int(ldexp(offset - 1, bits))
    grid = [ldexp(1 + mpf(i % 2**bits) / 2**bits, i // 2**bits)
            for i in range(first, first + ENTRIES + 1)]
    return [(s - offset) / factor for s in grid], first + (127 << bits)


def exact_point(f, near, width):
    """A float close to `near` whose value is a float to some 12 bits more: rounding it then costs
    nothing. The search begins where the value is that float, which is not close where f is flat."""
    value = rounded(f(near), 24)
    x = rounded(findroot(lambda t: f(t) - value, near), 24)
    step, best = ldexp(mpf(1), frexp(x)[1] - 24), None
    for i in range(2048):
        c = x + step * (i // 2 if i % 2 else -(i // 2))
        off = abs(f(c) / rounded(f(c), 24) - 1)
        if best is None or off < best[0]:
            best = (off, c)
    assert abs(best[1] - near) < width / 4
    return best[1]


def derive_piece(f, degree, lo, hi, like_t):
    """c, f(c) and P with f(t) = f(c) + (t - c) P(t - c). c is where f is 0, or else a zero of the
    error, in the middle if f(c) <= lo lets it, which is asked where `like_t` is None; where there
    is none, c is 0 and P stands for f(t)/t - 1."""
    slack = mpf("1e-6")
    zeros = [(lo + hi - (hi - lo) * cos(pi * (i + mpf(1) / 2) / (degree + 1))) / 2
             for i in range(degree + 1)]
    zeros = [z for z in zeros if like_t is not None or f(z) < lo - 1e-4]
    a, b = max(lo - slack, TINY), hi + slack
    if like_t and lo < slack:
        c = value = mpf(0)
    elif f(a) * f(b) < 0:
        c = rounded(findroot(f, (lo + hi) / 2), 24)
        value = rounded(f(c), 24)
    elif zeros:
        c = exact_point(f, min(zeros, key=lambda z: abs(z - (lo + hi) / 2)), hi - lo)
        value = rounded(f(c), 24)
    else:
        c, value = mpf(0), None
    if value is None:
        given = dict(lo=a, hi=b, target=lambda t: f(t) / t - 1, weight=lambda t: t / f(t))
    else:
        given = dict(lo=a - c, hi=b - c, target=lambda d: (f(c + d) - value) / d,
                     weight=lambda d: d / f(c + d))
    coefficients, worst = derive(dict(given, degree=degree - 1, format="F32"))
    return [c, value] + coefficients, worst


def render_piece(name, degree, f, bits, factor, offset, most, like_t):
    (edge, first), rows_of = borders(bits, factor, offset), [None] * ENTRIES
    assert edge[-1] > most * (1 + mpf(2) ** -20)
    worst = mpf(0)
    for i in range(ENTRIES):
        rows_of[(first + i) % ENTRIES], error = derive_piece(f, degree, edge[i], min(edge[i + 1], most), like_t)
        worst = max(worst, error)
    lines = [f"/* error 2^{float(log10(worst) / log10(mpf(2))):.1f} */",
             f"X({name}, {degree}, {23 - bits}, {spelled(factor)}, {spelled(offset)}, {spelled(most)},"]
    for column in range(degree + 2):
        line = "  {"
        for i, r in enumerate(rows_of):
            word = ("INFINITY" if r[column] is None else spelled(r[column]))
            word += "}" if i == ENTRIES - 1 else ","
            if len(line) + len(word) + 1 > 98:
                lines.append(line)
                line = "  "
            line += ("" if line in ("  {", "  ") else " ") + word
        lines.append(line + (")" if column == degree + 1 else ","))
    return "\n".join(lines) + "\n"


PIECES_OPENING = """/* piece.h - functions by pieces, one row each. Generated by tools/minimax.py, which says how;
 * `tools/minimax.py --check` derives them anew.
 *
 * X(NAME, degree, shift, factor, offset, most, starts, values, coefficients of P)
 *
 * For t in [0, most] the piece's number is in the last 4 bits of the pattern of
 * fma(t, factor, offset), shifted right: narrow pieces first, then wider ones. In a piece the
 * function is value + d P(d), d = t - start; where start is 0 the value is infinity and stands for
 * t. GELU and GELU_SLOPE are e^(K t^2/2) times -gelu(-t) and the slope of gelu at -t, with the K of
 * gelu.c. The error is that of the exact value with these coefficients, relative to the
 * function. */
"""


def pieces_text():
    return PIECES_OPENING + "".join("\n" + render_piece(*p) for p in pieces())


def spelled(x):
    """The shortest C spelling of a binary fraction."""
    text = float(x).hex()
    mantissa, exponent = text.split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return mantissa + "p" + exponent


def render(r):
    coefficients, worst = derive(r)
    bound = float(log10(worst) / log10(mpf(2)))
    note = (f"/* {r['form']}; [{float(r['lo']):.6g}, {float(r['hi']):.6g}], degree {r['degree']}, "
            f"error 2^{bound:.1f} */")
    words = [spelled(c) for c in coefficients]
    lines, line = [], f"X({r['name']}, {r['format']}, {len(words)}"
    for word in words:
        if len(line) + len(word) + 3 > 99:
            lines.append(line + ",")
            line = "  " + word
        else:
            line += ", " + word
    return "\n".join([note] + lines + [line + ")"])


OPENING = """/* poly.h - the polynomials of the mathematical functions, one row each. Generated by
 * tools/minimax.py, which says how; `tools/minimax.py --check` derives them anew.
 *
 * X(NAME, FORMAT, count, coefficients from the constant up)
 *
 * The error is that of the exact value of the polynomial with these coefficients, the largest in
 * the interval, relative to the function it stands for. */
"""


def main(arguments):
    wanted = [a for a in arguments if not a.startswith("-")]
    if "--pieces" in arguments:
        sys.stdout.write(pieces_text())
        return 0
    text = OPENING
    for r in rows():
        if wanted and r["name"] not in wanted:
            continue
        part = render(r)
        if wanted:
            print(part, flush=True)
        text += "\n" + part + "\n"
    if wanted:
        return 0
    if "--check" in arguments:
        with open(HEADER, encoding="utf-8") as header, open(PIECES, encoding="utf-8") as other:
            same = header.read() == text and other.read() == pieces_text()
        print("minimax: the headers match" if same else "minimax: the headers differ")
        return 0 if same else 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
