"""judge.py - is a result right? Exact bits, units in the last place of an exact value, or an absolute
bound; and the account of all comparisons.

The exact value is an mpmath number (or a float where that is exact or special). The error of a
result in ulps is its distance from the exact value over the spacing of the dtype's numbers there.
"""

import collections
import math

import mpmath
import numpy as np

from conventions import explained
from quern import FLOATS, FRACTION, LEAST, Value, largest

mpmath.mp.prec = 240


def is_real(v):
    return isinstance(v, mpmath.mpf) or isinstance(v, (int, float)) and math.isfinite(v)


def ulp(x, dtype):
    """The spacing of the dtype's numbers around a finite x."""
    fraction, least = FRACTION[dtype], LEAST[dtype]
    exponent = max(mpmath.frexp(abs(x))[1] - 1, least) if x else least
    return mpmath.ldexp(mpmath.mpf(1), exponent - fraction)


def error_ulps(got, want, dtype):
    """The distance of a float from the exact value; infinite between a number and a special one."""
    if isinstance(want, float) and math.isnan(want) or math.isnan(got):
        return 0.0 if isinstance(want, float) and math.isnan(want) and math.isnan(got) else math.inf
    most = largest(dtype)
    if isinstance(want, float) and math.isinf(want):
        return 0.0 if got == want else math.inf
    if want == 0:
        same = math.copysign(1, got) == math.copysign(1, want) or isinstance(want, mpmath.mpf)
        return 0.0 if got == 0 and same else math.inf if got == 0 else float(
            abs(got) / ulp(mpmath.mpf(0), dtype))
    if math.isinf(got):  # right where the exact value rounds to infinity, or nearly
        got = math.copysign(2.0, got) * 2.0 ** 1023 if dtype == "f64" else got
        top = mpmath.mpf(most) + ulp(mpmath.mpf(most), dtype)
        got = mpmath.mpf(top) * (1 if got > 0 else -1)
        want = got if abs(want) >= top and (want > 0) == (got > 0) else want
    elif abs(want) > most:
        want = mpmath.mpf(most) * (1 if want > 0 else -1) + (want > 0 or -1) * min(
            abs(want) - most, ulp(mpmath.mpf(most), dtype))
    if got == 0 and math.copysign(1, got) != (1 if want > 0 else -1):
        return math.inf  # underflow keeps the sign
    return float(abs(mpmath.mpf(got) - want) / ulp(want, dtype))


def show(v):
    return mpmath.nstr(v, 20) if isinstance(v, mpmath.mpf) else repr(v)


class Case:
    """What is compared: function, dtype, order ("value", "gradient", "second") and a remark."""

    def __init__(self, name, dtype, order="value", remark=""):
        self.name, self.dtype, self.order, self.remark = name, dtype, order, remark


class Account:
    def __init__(self, device, seed, shown=3):
        self.device, self.seed, self.shown = device, seed, shown
        self.compared = collections.Counter()
        self.different = collections.Counter()
        self.reasons = collections.Counter()
        self.skipped = collections.Counter()
        self.worst = {}
        self.seen = collections.Counter()

    def skip(self, name, reason, n=1):
        self.skipped[(name, reason)] += n

    def fail(self, case, text):
        """A difference that is no element's: a refusal, a dtype, a shape."""
        self.compared[case.name] += 1
        self.difference(case, "", (), text, None)

    def difference(self, case, inputs, numbers, got, want, error=None):
        reason = explained(case, numbers, got, want)
        if reason:
            self.reasons[(case.name, reason)] += 1
            return
        self.different[case.name] += 1
        key = (case.name, case.dtype, case.order, case.remark.split(" ")[0])
        self.seen[key] += 1
        if self.seen[key] <= self.shown:
            off = "" if error is None else f", {error:.3g} ulp"
            expected = "" if want is None else f", expected {show(want)}{off}"
            print(f"DIFFERENT {case.name} {case.dtype} {case.order} {case.remark}({inputs}): got "
                  f"{show(got)}{expected}  [--device {self.device} --seed {self.seed} --only "
                  f"{case.name}]", flush=True)

    def form(self, case, got, dtype, shape):
        if got.dtype != dtype or tuple(got.shape) != tuple(shape):
            self.fail(case, f"{got.dtype}{list(got.shape)}, not {dtype}{list(shape)}")
            return False
        return True

    def bits(self, case, got, want, inputs=()):
        """Equal in every bit, one NaN being as good as another."""
        if not self.form(case, got, want.dtype, want.shape):
            return
        a, b = np.ascontiguousarray(got.raw).reshape(-1), np.ascontiguousarray(want.raw).reshape(-1)
        self.compared[case.name] += max(a.size, 1)
        kind = f"u{a.itemsize}"
        differ = a.view(kind) != b.view(kind)
        if got.dtype in FLOATS:
            x, y = got.numbers().reshape(-1), want.numbers().reshape(-1)
            differ &= ~(np.isnan(x) & np.isnan(y))
        for i in np.flatnonzero(differ):
            x, y = got.numbers().reshape(-1)[i].item(), want.numbers().reshape(-1)[i].item()
            self.difference(case, self.words(inputs, i, a.size), self.at(inputs, i, a.size), x, y)

    def ulps(self, case, got, want, most, inputs=(), slack=None):
        """Within `most` ulps (0: rounded correctly) of exact values, or within slack[i] of them."""
        numbers = got.numbers().reshape(-1)
        self.compared[case.name] += max(numbers.size, 1)
        for i, exact in enumerate(want):
            x = numbers[i].item()
            error = error_ulps(x, exact, got.dtype)
            if error <= (most or 0.5):
                if math.isfinite(error) and error > self.worst.get((case.name, case.order), (0,))[0]:
                    self.worst[(case.name, case.order)] = (error, got.dtype)
                continue
            if slack is not None and is_real(exact) and math.isfinite(x) and \
                    abs(x - exact) <= slack[i]:
                continue
            self.difference(case, self.words(inputs, i, numbers.size),
                            self.at(inputs, i, numbers.size), x, exact, error)

    def bound(self, case, got, want, slack, inputs=()):
        """Within an absolute bound of float64 values; specials must be the same."""
        if not self.form(case, got, got.dtype, np.shape(want)):
            return
        x, y = got.numbers().reshape(-1), np.asarray(want, np.float64).reshape(-1)
        s = np.broadcast_to(np.asarray(slack, np.float64), np.shape(want)).reshape(-1)
        self.compared[case.name] += max(x.size, 1)
        with np.errstate(all="ignore"):
            rounded = Value.of(got.dtype, y).numbers()
            near = (np.abs(x - y) <= s) | (x == rounded) | (np.isnan(x) & np.isnan(y))
            near |= np.isinf(x) & (np.sign(x) == np.sign(y)) & (np.abs(y) + s >= largest(got.dtype))
        for i in np.flatnonzero(~near):
            with np.errstate(all="ignore"):
                units = abs(x[i] - y[i]) / max(float(ulp(mpmath.mpf(y[i]), got.dtype)), 5e-324) \
                    if np.isfinite(y[i]) and np.isfinite(x[i]) else math.inf
            self.difference(case, self.words(inputs, i, x.size), self.at(inputs, i, x.size),
                            x[i].item(), y[i].item(), units)

    @staticmethod
    def words(inputs, i, n):
        """Elements i of inputs that go element by element, else their shapes and first bits."""
        if inputs and all(v.raw.size == n for v in inputs):
            return ", ".join(v.hex(i) for v in inputs)
        return f"element {i} of " + ", ".join(
            f"{v.dtype}{list(v.shape)}" + (" " + " ".join(v.hex(k) for k in range(v.raw.size))
                                           if v.raw.size <= 8 else "") for v in inputs)

    @staticmethod
    def at(inputs, i, n):
        if inputs and all(v.raw.size == n for v in inputs):
            return tuple(v.numbers().reshape(-1)[i].item() for v in inputs)
        return ()

    def summary(self):
        """Prints the account; the number of unexplained differences."""
        print(f"{'function':22}{'compared':>10}{'different':>10}{'explained':>10}{'skipped':>9}"
              "  largest error")
        why, left = collections.Counter(), collections.Counter()
        for (name, _), n in self.reasons.items():
            why[name] += n
        for (name, _), n in self.skipped.items():
            left[name] += n
        for name in sorted(set(self.compared) | set(left)):
            worst = ", ".join(f"{order} {error:.3g} ulp ({dtype})" for (n, order), (error, dtype)
                              in sorted(self.worst.items()) if n == name)
            print(f"{name:22}{self.compared[name]:10}{self.different[name]:10}{why[name]:10}"
                  f"{left[name]:9}  {worst}")
        for title, counter in ("explained", self.reasons), ("skipped", self.skipped):
            for (name, reason), n in sorted(counter.items()):
                print(f"{title}: {name}: {n}: {reason}")
        total = sum(self.different.values())
        print(f"{sum(self.compared.values())} comparisons, {total} unexplained differences, "
              f"{sum(why.values())} explained, {sum(left.values())} skipped (device {self.device}, "
              f"seed {self.seed})")
        return total
