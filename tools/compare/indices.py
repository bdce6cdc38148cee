"""indices.py - reading and writing by computed indices, by plain loops over NumPy arrays."""

import numpy as np

from quern import DTYPES, FLOATS, Value
from trial import anything, axis_of, draw_shape, exact, plain

TIMES = 3
COMBINES = ["set", "sum", "prod", "max", "min", "and", "or"]


def drawn(rng, least=1):
    while True:
        shape = draw_shape(rng, least, 3)
        if 0 not in shape:
            return shape, axis_of(shape, rng) % len(shape)


def index_value(shape, n, rng, outside=False, ends=True):
    """Negative ones count from the end, if `ends`."""
    dtype = str(rng.choice(["i32", "i64", "u8", "i16"]))
    low = -n * ends - outside if dtype != "u8" else 0
    return Value.of(dtype, rng.integers(low, n + 2 * outside, shape))


def place(i, n):
    return i + n if -n <= i < 0 else i


def gathered(x, index, axis):
    """x at the indices along an axis; 0 where they are outside."""
    out = np.zeros(index.shape, x.dtype)
    for at in np.ndindex(*index.shape):
        i = place(int(index[at]), x.shape[axis])
        if 0 <= i < x.shape[axis]:
            out[at] = x[at[:axis] + (i,) + at[axis + 1:]]
    return out


def gather(q, account, rng, name):
    for dtype in DTYPES:
        for k in range(TIMES):
            shape, axis = drawn(rng)
            x = anything(dtype, shape, rng)
            n = int(rng.integers(0, 6))
            index = index_value(shape[:axis] + (n,) + shape[axis + 1:], shape[axis], rng, k == 2)
            want = Value(dtype, gathered(x.raw, index.raw, axis))
            exact(q, account, name, dtype, [x, index], lambda t, i: q.call(name, t, i, axis), want,
                  rng, f"{axis}{' outside' if k == 2 else ''}")


def take_along_axis(q, account, rng, name):
    for dtype in DTYPES:
        x, n = anything(dtype, (2, 3, 4), rng), int(rng.integers(1, 6))
        index = index_value((1, n, 4), 3, rng)
        want = np.take_along_axis(x.raw, np.broadcast_to(index.raw.astype(np.int64), (2, n, 4)), 1)
        exact(q, account, name, dtype, [x, index], lambda t, i: q.call(name, t, i, 1),
              Value(dtype, want), rng)


def take(q, account, rng, name):
    for dtype in DTYPES:
        shape, axis = drawn(rng)
        x, index = anything(dtype, shape, rng), index_value((2, 3), shape[axis], rng)
        want = np.take(x.raw, index.raw.astype(np.int64), axis)
        exact(q, account, name, dtype, [x, index], lambda t, i: q.call(name, t, i, axis),
              Value(dtype, want), rng, f"{axis}")


def embedding(q, account, rng, name):
    for dtype in DTYPES:
        x, index = anything(dtype, (5, 3), rng), index_value(draw_shape(rng, 0, 2), 5, rng, ends=False)
        exact(q, account, name, dtype, [x, index], lambda t, i: q.call(name, t, i),
              Value(dtype, x.raw[index.raw.astype(np.int64)]), rng)


def one_hot(q, account, rng, name):
    for dtype in DTYPES:
        index = index_value(draw_shape(rng, 0, 2), 4, rng, True, False)
        want = index.raw[..., None].astype(np.int64) == np.arange(4)
        exact(q, account, name, dtype, [index], lambda i: q.call(name, i, 4, dtype),
              Value.of(dtype, want), rng)


def combine(kind, old, new):
    if kind == "set":
        return new
    if kind in ("and", "or"):
        return old & new if kind == "and" else old | new
    if kind in ("max", "min"):
        return (np.maximum if kind == "max" else np.minimum)(old, new)
    return old + new if kind == "sum" else old * new


def scatter(q, account, rng, name):
    """Small numbers, so that float sums and products are exact in every order."""
    for number, kind in enumerate(COMBINES):
        for dtype in DTYPES:
            if kind in ("and", "or") and dtype in FLOATS or kind in ("sum", "prod") and dtype == "bool":
                continue
            for k in range(2):
                shape, axis = drawn(rng)
                x = plain(dtype, shape, rng)
                n = int(rng.integers(0, 5))
                part = shape[:axis] + (n,) + shape[axis + 1:]
                index, source = index_value(part, shape[axis], rng, k == 1), plain(dtype, part, rng)
                if kind == "prod" and dtype in FLOATS:
                    source = Value.of(dtype, rng.choice([1.0, 2.0, -1.0, 0.5], part))
                out = x.numbers().copy()
                values = source.numbers()
                with np.errstate(all="ignore"):
                    for at in np.ndindex(*part):
                        i = place(int(index.raw[at]), shape[axis])
                        if 0 <= i < shape[axis]:
                            to = at[:axis] + (i,) + at[axis + 1:]
                            out[to] = combine(kind, out[to], values[at])
                exact(q, account, name, dtype, [x, index, source],
                      lambda t, i, s: q.call(name, t, i, s, axis, number), Value.of(dtype, out), rng,
                      f"{axis} {kind}{' outside' if k else ''}")


def index_add(q, account, rng, name):
    for dtype in [d for d in DTYPES if d != "bool"]:
        shape, axis = drawn(rng)
        x, n = plain(dtype, shape, rng), int(rng.integers(0, 5))
        source = plain(dtype, shape[:axis] + (n,) + shape[axis + 1:], rng)
        index = index_value((n,), shape[axis], rng)
        out = np.moveaxis(x.numbers().copy(), axis, 0)
        with np.errstate(all="ignore"):
            np.add.at(out, index.raw.astype(np.int64), np.moveaxis(source.numbers(), axis, 0))
        exact(q, account, name, dtype, [x, index, source],
              lambda t, i, s: q.call(name, t, i, s, axis), Value.of(dtype, np.moveaxis(out, 0, axis)),
              rng, f"{axis}")


def update_slice(q, account, rng, name):
    for dtype in DTYPES:
        shape, _ = drawn(rng)
        size = tuple(int(rng.integers(0, n + 1)) for n in shape)
        start = [int(rng.integers(0, n - m + 1)) for n, m in zip(shape, size)]
        x, source = anything(dtype, shape, rng), anything(dtype, size, rng)
        want = x.raw.copy()
        want[tuple(slice(s, s + m) for s, m in zip(start, size))] = source.raw
        exact(q, account, name, dtype, [x, source], lambda t, s: q.call(name, t, s, start),
              Value(dtype, want), rng, f"{start}")


INDICES = {"gather": gather, "take": take, "take_along_axis": take_along_axis, "scatter": scatter,
           "index_add": index_add, "update_slice": update_slice, "one_hot": one_hot,
           "embedding": embedding}
