"""reductions.py - reductions against NumPy: integers and choices bit by bit, sums within the bound
that any order of adding keeps, n * epsilon * (sum of magnitudes), of what sums are taken in."""

import math

import numpy as np

from quern import ALL, DTYPES, FLOATS, INTS, STORAGE, UNSIGNED, Value, epsilon
from trial import axis_of, draw_shape, exact, near, normal, plain, refuses, sprinkled, Case

TIMES = 4
wide = np.longdouble


def accumulator(dtype):
    return epsilon("f64") if dtype == "f64" else epsilon("f32")


def axes_of(shape, several, rng):
    """(arguments of Quern, NumPy's axis)."""
    if several:
        n = int(rng.integers(0, len(shape) + 1))
        chosen = [int(a) for a in rng.permutation(len(shape))[:n]]
        return (n, chosen), tuple(chosen)
    axis = ALL if rng.integers(3) == 0 else axis_of(shape, rng)
    return (axis,), None if axis == ALL else axis


def trials(several, dtypes, least=0):
    """Drawn shapes, axes and whether reduced ones are kept, for each dtype."""
    def draw(rng):
        for dtype in dtypes:
            for k in range(TIMES):
                shape = draw_shape(rng, least)
                args, axis = axes_of(shape, several, rng)
                yield dtype, shape, args, axis, bool(rng.integers(2)), k
    return draw


def count(x, axis):
    n = x.size / max(np.sum(np.ones_like(x, np.int64), axis).size, 1) if x.size else 0
    return int(round(n))


def sums(numpy_function, several=False):
    """sum and prod: integers in 64 bits, floats within the bound."""
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, k in trials(several, INTS + FLOATS)(rng):
            x = sprinkled(dtype, shape, rng) if k % 2 else plain(dtype, shape, rng)
            with np.errstate(all="ignore"):
                if dtype in INTS:
                    out = "u64" if dtype in UNSIGNED else "i64"
                    want = numpy_function(x.raw.astype(STORAGE[out]), axis=axis, keepdims=keep)
                    exact(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, keep),
                          Value(out, want), rng, f"{args} {keep}")
                    continue
                v = x.numbers().astype(wide)
                want = numpy_function(v, axis=axis, keepdims=keep)
                terms = numpy_function(np.abs(v), axis=axis, keepdims=keep)
                slack = (count(v, axis) + 1) * accumulator(dtype) * terms + epsilon(dtype) * np.abs(want)
                slack = np.where(np.isfinite(slack), slack, 0)
            near(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, keep), want, slack,
                 rng, f"{args} {keep}")
    return run


def identity(dtype, most):
    """What the largest of nothing is."""
    if dtype == "bool":
        return np.bool_(not most)
    if dtype in FLOATS:
        return Value.of(dtype, np.array(-math.inf if most else math.inf)).raw
    return np.iinfo(STORAGE[dtype]).min if most else np.iinfo(STORAGE[dtype]).max


def extremes(most, several=False):
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, k in trials(several, DTYPES)(rng):
            x = sprinkled(dtype, shape, rng)
            function = np.max if most else np.min
            if dtype == "bool":
                function = np.any if most else np.all
            v = x.numbers()
            if x.raw.size:
                want = Value.of(dtype, function(v, axis=axis, keepdims=keep))
            else:
                form = np.sum(np.zeros(shape, np.int8), axis=axis, keepdims=keep).shape
                want = Value(dtype, np.full(form, identity(dtype, most)))
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, keep), want, rng,
                  f"{args} {keep}")
    return run


def arguments(function, several=False):
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, _ in trials(several, DTYPES)(rng):
            x = sprinkled(dtype, shape, rng)
            if not x.raw.size:
                with q.scope():
                    t = q.tensor(x)
                    if axis is None or 0 in np.array(shape)[[axis] if isinstance(axis, int) else
                                                            list(axis)]:
                        refuses(q, account, Case(name, dtype), lambda: q.call(name, t, *args, keep),
                                "nothing to choose from")
                continue
            if several:  # the flat order of the reduced axes, in the order of the array
                axes = sorted(axis)
                rest = [i for i in range(len(shape)) if i not in axes]
                v = x.numbers().transpose(rest + axes).reshape([shape[i] for i in rest] + [-1])
                want = function(v, axis=-1)
                want = want.reshape([1 if i in axes else n for i, n in enumerate(shape)]) if keep else want
            else:
                want = function(x.numbers(), axis=axis, keepdims=keep)
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, keep),
                  Value.of("i64", want), rng, f"{args} {keep}")
    return run


def truths(function, several=False):
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, _ in trials(several, DTYPES)(rng):
            x = sprinkled(dtype, shape, rng)
            want = function(x.numbers() != 0, axis=axis, keepdims=keep)
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, keep),
                  Value("bool", want), rng, f"{args} {keep}")
    return run


def means(function, several=False, corrections=None):
    """Mean, variance and deviation; function(v, axis, correction, keep) gives value and bound in
    units of the accumulator's epsilon."""
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, k in trials(several, DTYPES)(rng):
            out = dtype if dtype in FLOATS else "f32"
            x = normal(dtype, shape, rng, 3) if dtype in FLOATS else plain(dtype, shape, rng)
            if k == 3 and dtype in FLOATS:
                x = sprinkled(dtype, shape, rng)
            correction = float(rng.choice([0, 1, 0.5])) if corrections else 0.0
            more = (correction,) if corrections else ()
            with np.errstate(all="ignore"):
                v = x.numbers().astype(wide)
                want, terms = function(v, axis, correction, keep)
                slack = terms * accumulator(out) + epsilon(out) * np.abs(want)
                slack = np.where(np.isfinite(slack), slack, 0)
            near(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, *more, keep), want,
                 slack, rng, f"{args} {more} {keep}", out)
    return run


def mean(v, axis, _, keep):
    n = wide(count(v, axis))
    return (np.sum(v, axis=axis, keepdims=keep) / n,
            (n + 2) * np.sum(np.abs(v), axis=axis, keepdims=keep) / n)


def variance(v, axis, correction, keep):
    n = wide(count(v, axis))
    d = v - np.sum(v, axis=axis, keepdims=True) / n
    below = max(n - wide(correction), wide(0))
    off = (n + 2) * np.sum(np.abs(v), axis=axis, keepdims=True) / n  # of the mean, in epsilons
    terms = (n + 4) * d * d + 2 * np.abs(d) * off + off * off * 2.0 ** -23
    return (np.sum(d * d, axis=axis, keepdims=keep) / below,
            np.sum(terms, axis=axis, keepdims=keep) / below)


def deviation(v, axis, correction, keep):
    value, terms = variance(v, axis, correction, keep)
    root = np.sqrt(value)
    return root, np.where(value > 1e-6, terms / (2 * root + 1e-300), np.sqrt(terms) * 2.0 ** 12)


def norm(q, account, rng, name):
    for p in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, math.inf, -math.inf):
        for dtype, shape, args, axis, keep, k in trials(name == "norm_axes", FLOATS)(rng):
            x = normal(dtype, shape, rng) if k < 3 else plain(dtype, shape, rng)
            if not x.raw.size and math.isinf(p):
                continue
            with np.errstate(all="ignore"):
                v = np.abs(x.numbers().astype(wide))
                if math.isinf(p):
                    want = (np.max if p > 0 else np.min)(v, axis=axis, keepdims=keep)
                elif p == 0:
                    want = np.sum(v != 0, axis=axis, keepdims=keep).astype(wide)
                else:
                    want = np.sum(v ** wide(p), axis=axis, keepdims=keep) ** wide(1 / p)
                parts = (count(v, axis) + 4) * (1 + 1 / abs(p) if p and not math.isinf(p) else 1)
                slack = np.abs(want) * (parts * accumulator(dtype) + epsilon(dtype))
                slack = np.where(np.isfinite(slack), slack, 0)
            near(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, p, keep), want, slack,
                 rng, f"p {p} {args} {keep}")


def logsumexp(q, account, rng, name):
    for dtype, shape, args, axis, keep, k in trials(name == "logsumexp_axes", FLOATS + INTS)(rng):
        out = dtype if dtype in FLOATS else "f32"
        x = sprinkled(dtype, shape, rng) if k == 3 and dtype in FLOATS else plain(dtype, shape, rng)
        with np.errstate(all="ignore"):
            v = x.numbers().astype(wide)
            want = np.log(np.sum(np.exp(v), axis=axis, keepdims=keep))
            slack = (count(v, axis) + 4 + np.abs(want)) * accumulator(out) + epsilon(out) * np.abs(want)
            slack = np.where(np.isfinite(slack), slack, 0)
        near(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, keep), want, slack, rng,
             f"{args} {keep}", out)


REDUCTIONS = {
    "sum": sums(np.sum), "sum_axes": sums(np.sum, True), "prod": sums(np.prod),
    "prod_axes": sums(np.prod, True), "max": extremes(True), "max_axes": extremes(True, True),
    "min": extremes(False), "min_axes": extremes(False, True), "argmax": arguments(np.argmax),
    "argmax_axes": arguments(np.argmax, True), "argmin": arguments(np.argmin),
    "argmin_axes": arguments(np.argmin, True), "any": truths(np.any), "all": truths(np.all),
    "mean": means(mean), "mean_axes": means(mean, True), "variance": means(variance, False, True),
    "variance_axes": means(variance, True, True), "std": means(deviation, False, True), "norm": norm,
    "logsumexp": logsumexp, "std_axes": means(deviation, True, True), "any_axes": truths(np.any, True),
    "all_axes": truths(np.all, True), "norm_axes": norm, "logsumexp_axes": logsumexp}


# ---- what counts, what is left out, and in which dtype ---------------------------------------------


def counted(several=False):
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, _ in trials(several, DTYPES)(rng):
            x = sprinkled(dtype, shape, rng)
            want = np.count_nonzero(x.numbers(), axis=axis, keepdims=keep)
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, keep), Value.of("i64", want), rng,
                  f"{args} {keep}")
    return run


def nan_extremes(function, several=False):
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, _ in trials(several, INTS + FLOATS)(rng):
            x = sprinkled(dtype, shape, rng)
            if not x.raw.size:
                continue
            want = Value.of(dtype, function(x.numbers(), axis=axis, keepdims=keep))
            def call(t):
                return q.call(name, t, *args, keep)
            if dtype in INTS:
                exact(q, account, name, dtype, [x], call, want, rng, f"{args} {keep}")
            else:
                near(q, account, name, dtype, [x], call, want.numbers(), 0, rng, f"{args} {keep}")
    return run


def nan_means(function, several=False, corrected=False):
    """Of finite numbers and NaNs; what cancels is allowed for by the largest number's square."""
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, k in trials(several, FLOATS)(rng):
            x = plain(dtype, shape, rng)
            x = Value(dtype, np.where(rng.integers(0, 3, shape), x.raw, Value.of(dtype, np.array(np.nan)).raw))
            more = (k % 2,) if corrected else ()
            v = x.numbers().astype(wide)
            with np.errstate(all="ignore"):
                given = {"ddof": more[0]} if more else {}
                want = function(v, axis=axis, keepdims=keep, **given)
                size = np.nan_to_num(np.abs(v)).max(initial=1)
                slack = 64 * accumulator(dtype) * size * size + epsilon(dtype) * np.abs(want)
                if function is np.nanstd:
                    slack = np.where(want > 1e-3, slack / want, np.sqrt(slack))
                slack = np.where(np.isfinite(slack), slack, 0)
            near(q, account, name, dtype, [x], lambda t: q.call(name, t, *args, *more, keep), want, slack, rng,
                 f"{args} {more} {keep}")
    return run


def in_dtype(function):
    """Small numbers, so that every dtype has them exactly, but for means."""
    def run(q, account, rng, name):
        for dtype, shape, args, axis, keep, _ in trials(True, DTYPES)(rng):
            x = plain(dtype, shape, rng)
            small = Value.of(dtype, np.sign(x.numbers()) if dtype != "bool" else x.raw)
            for out in ("i16", "u8", "i64", "f32", "f64"):
                if name == "mean_as" and out[0] != "f" or out == "u8" and dtype not in UNSIGNED + ["bool"]:
                    continue
                v = small.numbers().astype(np.float64 if out[0] == "f" else STORAGE[out])
                want = function(v, axis=axis, keepdims=keep)
                want = want.astype(STORAGE[out])
                exact(q, account, name, dtype, [small], lambda t: q.call(name, t, *args, out, keep),
                      Value.of(out, want), rng, f"{args} {out} {keep}")
    return run


def aminmax(q, account, rng, name):
    for dtype, shape, args, axis, keep, _ in trials(False, DTYPES)(rng):
        x = sprinkled(dtype, shape, rng)
        if not x.raw.size:
            continue
        want = [Value.of(dtype, f(x.numbers(), axis=axis, keepdims=keep)) for f in (np.min, np.max)]

        def call(t):
            out = q.outs(2)
            q.call(name, t, *args, keep, out)
            return list(out)
        exact(q, account, name, dtype, [x], call, want, rng, f"{args} {keep}")


def trace(q, account, rng, name):
    for dtype in INTS + FLOATS:
        for k in (-1, 0, 2):
            x = plain(dtype, (2, 3, 4), rng)
            want = np.trace(x.numbers(), k, 1, 2)
            out = dtype if dtype in FLOATS else "u64" if dtype in UNSIGNED else "i64"
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, k), Value.of(out, want), rng, f"{k}")


for suffix, many in ("", False), ("_axes", True):
    REDUCTIONS.update({f"count_nonzero{suffix}": counted(many), f"nansum{suffix}": sums(np.nansum, many),
                       f"nanprod{suffix}": sums(np.nanprod, many), f"nanmax{suffix}": nan_extremes(np.nanmax, many),
                       f"nanmin{suffix}": nan_extremes(np.nanmin, many),
                       f"nanmean{suffix}": nan_means(np.nanmean, many),
                       f"nanvariance{suffix}": nan_means(np.nanvar, many, True),
                       f"nanstd{suffix}": nan_means(np.nanstd, many, True)})
REDUCTIONS.update({"sum_as": in_dtype(np.sum), "prod_as": in_dtype(np.prod), "mean_as": in_dtype(np.mean),
                   "aminmax": aminmax, "trace": trace})
