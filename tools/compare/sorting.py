"""sorting.py - sorting and what is found by it against NumPy: places bit by bit (stable sorts), values
likewise, quantiles within roundings."""

import ctypes as C

import numpy as np

from quern import DTYPES, FLOATS, INTS, Value, epsilon
from trial import axis_of, draw_shape, exact, near, plain, sprinkled

TIMES = 2


def drawn(rng, least=1):
    while True:
        shape = draw_shape(rng, least)
        if len(shape) and (not least or min(shape)):
            return shape, axis_of(shape, rng)


def ordered(value, axis, descending):
    """Places in order, stably: NaN behind all numbers, in front where the order descends."""
    keys = value.numbers()
    if not descending:
        return np.argsort(keys, axis, kind="stable")
    back = np.flip(np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
    return keys.shape[axis] - 1 - back


def sorts(places):
    def run(q, account, rng, name):
        for dtype in DTYPES:
            for k in range(TIMES):
                shape, axis = drawn(rng, 0)
                x, descending = sprinkled(dtype, shape, rng), bool(rng.integers(2))
                at = ordered(x, axis, descending)
                want = Value("i64", at) if places else Value(dtype, np.take_along_axis(x.raw, at, axis))
                exact(q, account, name, dtype, [x], lambda t: q.call(name, t, axis, descending), want, rng,
                      f"{axis} {descending}")
    return run


def several(q, name, count, *args):
    """A call that fills in `count` tensors."""
    outs = [q.outs(1) for _ in range(count)]
    q.call(name, *args, *[C.cast(o, C.c_void_p) for o in outs])
    return [o[0] for o in outs]


def topk(q, account, rng, name):
    for dtype in DTYPES:
        shape, axis = drawn(rng)
        x, largest = sprinkled(dtype, shape, rng), bool(rng.integers(2))
        k = int(rng.integers(0, shape[axis] + 1))
        at = np.take(ordered(x, axis, largest), range(k), axis)
        want = [Value(dtype, np.take_along_axis(x.raw, at, axis)), Value("i64", at)]
        exact(q, account, name, dtype, [x], lambda t: several(q, name, 2, t, k, axis, largest), want, rng,
              f"{k} {axis} {largest}")


def kthvalue(q, account, rng, name):
    for dtype in DTYPES:
        shape, axis = drawn(rng)
        x, k = sprinkled(dtype, shape, rng), int(rng.integers(1, shape[axis] + 1))
        at = np.take(ordered(x, axis, False), [k - 1], axis)
        want = [Value(dtype, np.take_along_axis(x.raw, at, axis)), Value("i64", at)]
        exact(q, account, name, dtype, [x], lambda t: several(q, name, 2, t, k, axis, True), want, rng,
              f"{k} {axis}")


def mode(q, account, rng, name):
    for dtype in DTYPES:
        x = sprinkled(dtype, (3, 7), rng)
        keys, at = x.numbers(), np.zeros((3, 1), np.int64)
        for r in range(3):
            _, first, count = np.unique(keys[r], return_index=True, return_counts=True)
            at[r, 0] = first[np.argmax(count)]
        want = [Value(dtype, np.take_along_axis(x.raw, at, 1)), Value("i64", at)]
        exact(q, account, name, dtype, [x], lambda t: several(q, name, 2, t, 1, True), want, rng)


def medians(function):
    def run(q, account, rng, name):
        for dtype in DTYPES:
            shape, axis = drawn(rng)
            x = plain(dtype, shape, rng)
            v = np.sort(x.numbers(), axis)
            want = Value.of(dtype, np.take(v, (shape[axis] - 1) // 2, axis))
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, axis, False), want, rng, f"{axis}")
    return run


def quantile(q, account, rng, name):
    methods = ["linear", "lower", "higher", "midpoint", "nearest"]
    for dtype in FLOATS:
        for number, method in enumerate(methods):
            shape, axis = drawn(rng)
            x, at = plain(dtype, shape, rng), [float(v) for v in rng.random(3)]
            v = x.numbers()
            want = np.quantile(v, at, axis, method=method)
            slack = 4 * epsilon(dtype) * np.max(np.abs(v))
            near(q, account, name, dtype, [x], lambda t: q.call(name, t, 3, at, axis, False, number), want,
                 slack + 0 * want, rng, f"{at} {axis} {method}")


def unique(q, account, rng, name):
    for dtype in DTYPES:
        x = plain(dtype, (4, 5), rng)
        _, first, inverse, counts = np.unique(x.numbers().reshape(-1), return_index=True,
                                              return_inverse=True, return_counts=True)
        n = len(first)
        raw = np.zeros(20, x.raw.dtype)
        raw[:n] = x.raw.reshape(-1)[first]
        behind = [0] * (20 - n)
        want = [Value(dtype, raw), Value("i64", list(first) + behind), Value("i64", inverse.reshape(4, 5)),
                Value("i64", list(counts) + behind), Value("i64", n)]
        exact(q, account, name, dtype, [x], lambda t: several(q, name, 5, t), want, rng)


def searchsorted(q, account, rng, name):
    for dtype in DTYPES:
        x, v, right = plain(dtype, (int(rng.integers(0, 9)),), rng), plain(dtype, (3, 4), rng), bool(rng.integers(2))
        x = Value(dtype, x.raw[np.argsort(x.numbers(), kind="stable")])
        want = np.searchsorted(x.numbers(), v.numbers().reshape(-1), "right" if right else "left").reshape(3, 4)
        exact(q, account, name, dtype, [x, v], lambda s, t: q.call(name, s, t, right), Value("i64", want), rng,
              f"{right}")


def bincount(q, account, rng, name):
    for dtype in INTS:
        x = Value(dtype, rng.integers(0, 7, (3, 4)))
        want = np.bincount(x.raw.reshape(-1).astype(np.int64), minlength=7)
        exact(q, account, name, dtype, [x], lambda t: q.call(name, t, None, 7), Value("i64", want), rng)


def histogram(q, account, rng, name):
    for dtype in ["f32", "f64"]:
        x = Value(dtype, rng.integers(-9, 9, (3, 40)))
        edges = Value(dtype, np.sort(rng.permutation(np.arange(-8, 8))[:5]))
        want = np.histogram(x.raw, edges.raw)[0]
        exact(q, account, name, dtype, [x, edges], lambda t, e: q.call(name, t, e, None), Value("i64", want), rng)


SORTING = {"sort": sorts(False), "argsort": sorts(True), "topk": topk, "kthvalue": kthvalue, "mode": mode,
           "median": medians(np.sort), "nanmedian": medians(np.sort), "quantile": quantile, "unique": unique,
           "searchsorted": searchsorted, "bincount": bincount, "histogram": histogram}
