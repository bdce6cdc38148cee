"""trial.py - what the parts share: drawing shapes and values, running a call, and comparing."""

import numpy as np

from judge import Case
from quern import ALL, DTYPES, END, FLOATS, INTS, QuernError, STORAGE, Value

SHAPES = [(), (0,), (1,), (7,), (13,), (3, 5), (1, 4), (4, 1), (2, 0, 3), (2, 3, 4), (5, 1, 3), (2, 3, 1, 5),
          (1, 1, 1), (3, 2, 2, 2), (2, 1, 3, 1, 2, 1, 1, 2), (1, 2, 1, 2, 2, 3, 1, 2)]


def plain(dtype, shape, rng):
    """Ordinary numbers: small multiples of 1/8 in floats, small integers, truths."""
    if dtype == "bool":
        return Value(dtype, rng.integers(0, 2, shape).astype(np.bool_))
    if dtype in FLOATS:
        return Value.of(dtype, np.round(rng.normal(0, 2, shape) * 8) / 8)
    info = np.iinfo(STORAGE[dtype])
    return Value.of(dtype, rng.integers(max(info.min, -9), 10, shape))


def normal(dtype, shape, rng, scale=1.0):
    return Value.of(dtype, rng.normal(0, scale, shape))


def anything(dtype, shape, rng):
    """Any bits, but for bool."""
    if dtype == "bool":
        return plain(dtype, shape, rng)
    size = np.dtype(STORAGE[dtype]).itemsize
    n = int(np.prod(shape, dtype=np.int64))
    raw = np.frombuffer(rng.bytes(max(n, 1) * size), STORAGE[dtype])[:n].reshape(shape)
    return Value(dtype, raw)


def sprinkled(dtype, shape, rng):
    """Ordinary numbers with a few infinities, NaNs and zeros of both signs, or the integers' limits."""
    value = plain(dtype, shape, rng)
    flat = value.raw.reshape(-1).copy()
    if flat.size and dtype != "bool":
        if dtype in FLOATS:
            odd = Value.of(dtype, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], 2)).raw
        else:
            odd = np.array([np.iinfo(STORAGE[dtype]).min, np.iinfo(STORAGE[dtype]).max], STORAGE[dtype])
        flat[rng.integers(0, flat.size, 2)] = odd
    return Value(dtype, flat.reshape(value.shape))


def draw_shape(rng, least=0, most=8):
    return [s for s in SHAPES if least <= len(s) <= most][
        rng.integers(0, sum(least <= len(s) <= most for s in SHAPES))]


def axis_of(shape, rng):
    """An axis of either sign; of a scalar every axis."""
    return int(rng.integers(-len(shape), len(shape))) if shape else ALL


def given(q, value, rng):
    """The value as a tensor, now and then by way of a view of another layout."""
    if len(value.shape) >= 1 and rng.integers(0, 4) == 0:
        axis, shape = int(rng.integers(0, len(value.shape))), list(value.shape)
        shape[axis] *= 2  # every second one, between others
        among = np.stack([np.flip(value.raw), value.raw], axis + 1).reshape(shape)
        return q.call("slice", q.tensor(Value(value.dtype, among)), axis, 1, END, 2)
    if len(value.shape) >= 2 and rng.integers(0, 3) == 0:
        other = Value(value.dtype, np.swapaxes(value.raw, 0, -1))
        return q.call("transpose", q.tensor(other), 0, -1)
    if len(value.shape) >= 1 and rng.integers(0, 4) == 0:
        return q.call("flip", q.tensor(Value(value.dtype, np.flip(value.raw, 0))), 0)
    return q.tensor(value)


def run(q, account, case, values, call, judge, rng):
    """call(tensors) gives a tensor or several; judge(results) compares. A refusal is a difference."""
    with q.scope():
        try:
            got = call(*[given(q, v, rng) for v in values])
            got = [q.read(t) for t in got] if isinstance(got, (list, tuple)) else q.read(got)
        except QuernError as e:
            account.fail(case, f"refused: {e} for " + account.words(values, 0, -1))
            return
        judge(got)


def refuses(q, account, case, call, why):
    """The call must be refused."""
    with q.scope():
        account.compared[case.name] += 1
        try:
            call()
        except QuernError:
            return
        account.fail(case, f"accepted {why}")


def exact(q, account, name, dtype, values, call, want, rng, remark=""):
    """One or several results, equal in every bit."""
    case = Case(name, dtype, "value", remark and remark + " ")

    def judge(got):
        pairs = zip(got, want) if isinstance(got, list) else [(got, want)]
        for g, w in pairs:
            account.bits(case, g, w, values)
    run(q, account, case, values, call, judge, rng)


def near(q, account, name, dtype, values, call, want, slack, rng, remark="", out=None):
    """Within absolute bounds of values in float64 or wider."""
    case = Case(name, dtype, "value", remark and remark + " ")

    def judge(got):
        if account.form(case, got, out or dtype, np.shape(want)):
            account.bound(case, got, want, slack, values)
    run(q, account, case, values, call, judge, rng)


__all__ = ["ALL", "DTYPES", "FLOATS", "INTS", "SHAPES", "Case", "Value", "anything", "axis_of",
           "draw_shape", "exact", "given", "near", "normal", "plain", "refuses", "run", "sprinkled"]
