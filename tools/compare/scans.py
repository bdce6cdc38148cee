"""scans.py - running results against NumPy: integers, choices and places bit by bit, sums within the
bound that any order of adding keeps."""

import numpy as np

from quern import DTYPES, FLOATS, INTS, STORAGE, UNSIGNED, Value, epsilon
from reductions import accumulator, wide
from trial import axis_of, draw_shape, exact, near, plain, sprinkled

TIMES = 4


def trials(dtypes, rng):
    for dtype in dtypes:
        for k in range(TIMES):
            shape = draw_shape(rng, 1)
            yield dtype, shape, axis_of(shape, rng), k


def finite(slack):
    return np.where(np.isfinite(slack), slack, 0)


def sums(function):
    def run(q, account, rng, name):
        for dtype, shape, axis, k in trials(INTS + FLOATS, rng):
            x = sprinkled(dtype, shape, rng) if k % 2 else plain(dtype, shape, rng)
            call = lambda t: q.call(name, t, axis)
            with np.errstate(all="ignore"):
                if dtype in INTS:
                    out = "u64" if dtype in UNSIGNED else "i64"
                    want = Value(out, function(x.raw.astype(STORAGE[out]), axis=axis))
                    exact(q, account, name, dtype, [x], call, want, rng, f"{axis}")
                    continue
                v = x.numbers().astype(wide)
                want, terms = function(v, axis=axis), function(np.abs(v), axis=axis)
                slack = (shape[axis] + 1) * accumulator(dtype) * terms + epsilon(dtype) * np.abs(want)
            near(q, account, name, dtype, [x], call, want, finite(slack), rng, f"{axis}")
    return run


def extremes(function):
    def run(q, account, rng, name):
        for dtype, shape, axis, _ in trials(DTYPES, rng):
            x = sprinkled(dtype, shape, rng)
            want = Value.of(dtype, function.accumulate(x.numbers(), axis=axis))
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, axis), want, rng, f"{axis}")
    return run


def places(function):
    """Where the running extreme was met last, or the last NaN."""
    def run(q, account, rng, name):
        for dtype, shape, axis, _ in trials(DTYPES, rng):
            x = sprinkled(dtype, shape, rng)
            v = x.numbers()
            here = (v == function.accumulate(v, axis=axis)) | (v != v)
            at = np.arange(shape[axis]).reshape([-1 if i == axis % len(shape) else 1
                                                 for i in range(len(shape))])
            want = np.maximum.accumulate(np.where(here, at, 0), axis=axis)
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, axis),
                  Value.of("i64", want), rng, f"{axis}")
    return run


def logcumsumexp(q, account, rng, name):
    for dtype, shape, axis, k in trials(FLOATS + INTS, rng):
        out = dtype if dtype in FLOATS else "f32"
        x = sprinkled(dtype, shape, rng) if k == 3 and dtype in FLOATS else plain(dtype, shape, rng)
        with np.errstate(all="ignore"):
            v = x.numbers().astype(wide)
            want = np.logaddexp.accumulate(v, axis=axis)
            slack = (4 * shape[axis] + 4 + np.abs(want)) * accumulator(out) + epsilon(out) * np.abs(want)
        near(q, account, name, dtype, [x], lambda t: q.call(name, t, axis), want, finite(slack), rng,
             f"{axis}", out)


def linear_scan(q, account, rng, name):
    for dtype, shape, axis, _ in trials(FLOATS, rng):
        a, b = plain(dtype, shape, rng), plain(dtype, shape, rng)
        u, v = (np.moveaxis(x.numbers().astype(wide), axis, 0) for x in (a, b))
        want, terms = np.zeros_like(v), np.zeros_like(v)
        with np.errstate(all="ignore"):
            for i in range(len(v)):
                want[i] = v[i] + (u[i] * want[i - 1] if i else 0)
                terms[i] = np.abs(v[i]) + (np.abs(u[i]) * terms[i - 1] if i else 0)
            slack = 2 * (shape[axis] + 1) * accumulator(dtype) * terms + epsilon(dtype) * np.abs(want)
        want, slack = np.moveaxis(want, 0, axis), np.moveaxis(finite(slack), 0, axis)
        near(q, account, name, dtype, [a, b], lambda s, t: q.call(name, s, t, axis), want, slack, rng,
             f"{axis}")


def diff(q, account, rng, name):
    for dtype, shape, axis, _ in trials(INTS + ["bool"], rng):
        x, times = plain(dtype, shape, rng), int(rng.integers(0, 4))
        with np.errstate(all="ignore"):
            want = np.diff(x.raw, times, axis=axis)
        exact(q, account, name, dtype, [x], lambda t: q.call(name, t, times, axis), Value(dtype, want),
              rng, f"{times} {axis}")


SCANS = {"cumsum": sums(np.cumsum), "cumprod": sums(np.cumprod), "cummax": extremes(np.maximum),
         "cummin": extremes(np.minimum), "cumargmax": places(np.maximum),
         "cumargmin": places(np.minimum), "logcumsumexp": logcumsumexp, "linear_scan": linear_scan,
         "diff": diff}
