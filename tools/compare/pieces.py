"""pieces.py - parts of numbers, choices, and movement by other names, against NumPy and mpmath."""

import math

import numpy as np

from quern import DTYPES, END, FLOATS, INTS, IndexItem, STORAGE, Value, epsilon
from sorting import several
from trial import anything, draw_shape, exact, near, normal, plain, sprinkled

WIDE = {"f16": "u16", "bf16": "u16", "f32": "u32", "f64": "u64"}
ODD = [0.0, -0.0, 1.0, -1.5, 2.0 ** -149, -2.0 ** -126, 2.0 ** -1074, 65504.0, 3e38, -1e300, np.inf, -np.inf, np.nan]


def odd_pairs(dtype, rng):
    """Special numbers in all pairs, and bits at random."""
    x, y = [a.reshape(-1) for a in np.meshgrid(ODD, ODD)]
    more = anything(dtype, (200,), rng)
    return [Value(dtype, np.concatenate([Value.of(dtype, v).raw, m]))
            for v, m in ((x, more.raw[:100]), (y, more.raw[100:]))]


def neighbours(x, y, dtype):
    """One step of the bits, which are ordered as the numbers of one sign are."""
    bits = np.dtype(STORAGE[dtype]).itemsize
    raw = x.raw.view(f"i{bits}")
    a, b = x.numbers(), y.numbers()
    step = np.where((a < b) != (a > 0), -1, 1).astype(raw.dtype)
    least = np.where(b < 0, np.array(1, raw.dtype) | np.iinfo(raw.dtype).min, 1).astype(raw.dtype)
    out = np.where(a == 0, least, raw + step)
    out = np.where(a == b, y.raw.view(raw.dtype), out)
    nan = Value.of(dtype, np.array(np.nan)).raw.view(raw.dtype)
    return Value(dtype, np.where(np.isnan(a) | np.isnan(b), nan, out).astype(raw.dtype).view(STORAGE[dtype]))


def nextafter(q, account, rng, name):
    for dtype in FLOATS:
        x, y = odd_pairs(dtype, rng)
        exact(q, account, name, dtype, [x, y], lambda a, b: q.call(name, a, b), neighbours(x, y, dtype), rng)


def ldexp(q, account, rng, name):
    for dtype in FLOATS:
        x, _ = odd_pairs(dtype, rng)
        for by in (-2200, -1080, -151, -130, -3, 0, 5, 127, 277, 2100):
            n = Value.of("i32", np.full(x.shape, by))
            with np.errstate(all="ignore"):
                want = np.array([math.copysign(math.inf, v) if np.isfinite(v) and v and by + math.frexp(v)[1] > 1024
                                 else math.ldexp(v, by) for v in x.numbers()])
            exact(q, account, name, dtype, [x, n], lambda a, b: q.call(name, a, b), Value.of(dtype, want), rng, f"{by}")


def frexp(q, account, rng, name):
    for dtype in FLOATS:
        x, _ = odd_pairs(dtype, rng)
        m, e = np.frexp(x.numbers())
        e = np.where(np.isfinite(x.numbers()), e, 0)

        def call(t):
            out = q.outs(2)
            q.call(name, t, out)
            return list(out)
        exact(q, account, name, dtype, [x], call, [Value.of(dtype, m), Value.of("i32", e)], rng)


def whole_numbers(function):
    def run(q, account, rng, name):
        for dtype in INTS:
            x, y = anything(dtype, (60,), rng), anything(dtype, (60,), rng)
            pairs = [(int(a), int(b)) for a, b in zip(x.raw, y.raw)]
            bits = 8 * x.raw.dtype.itemsize
            want = np.array([function(a, b) % 2 ** bits for a, b in pairs], f"u{bits // 8}").astype(STORAGE[dtype])
            if name == "lcm" and dtype[0] == "i":
                want = np.where(want < 0, -want, want)
            exact(q, account, name, dtype, [x, y], lambda a, b: q.call(name, a, b), Value(dtype, want), rng)
    return run


def bitwise_count(q, account, rng, name):
    for dtype in INTS + ["bool"]:
        x = anything(dtype, (60,), rng)
        want = [bin(abs(int(v))).count("1") for v in x.raw]
        exact(q, account, name, dtype, [x], lambda a: q.call(name, a), Value.of("u8", want), rng)


def nan_to_num(q, account, rng, name):
    for dtype in DTYPES:
        x = sprinkled(dtype, (3, 5), rng)
        want = np.nan_to_num(x.numbers(), nan=2.0, posinf=7.0, neginf=-7.0) if dtype in FLOATS else x.raw
        exact(q, account, name, dtype, [x], lambda a: q.call(name, a, 2.0, 7.0, -7.0), Value.of(dtype, want), rng)


def close(whole):
    def run(q, account, rng, name):
        for dtype in DTYPES:
            for equal in (False, True):
                x, y = sprinkled(dtype, (4, 6), rng), sprinkled(dtype, (4, 6), rng)
                mixed = Value(dtype, np.where(rng.integers(0, 2, (4, 6)), x.raw, y.raw))
                a, b = x.numbers().astype(np.float64), mixed.numbers().astype(np.float64)
                want = (np.allclose if whole else np.isclose)(a, b, 0.25, 0.5, equal_nan=equal)
                exact(q, account, name, dtype, [x, mixed],
                      lambda s, t: q.call(name, s, t, 0.25, 0.5, equal), Value("bool", want), rng, f"{equal}")
    return run


def clip(q, account, rng, name):
    for dtype in DTYPES:
        x, lo, hi = (sprinkled(dtype, (3, 5), rng) for _ in range(3))
        v = [a.numbers() for a in (x, lo, hi)]
        with np.errstate(all="ignore"):
            below = np.maximum(v[0], v[1])
            both = np.minimum(below, v[2])
        for want, bounds, call in (
                (both, [lo, hi], lambda t, a, b: q.call(name, t, a, b)),
                (below, [lo], lambda t, a: q.call(name, t, a, None)),
                (np.minimum(v[0], v[2]), [hi], lambda t, b: q.call(name, t, None, b))):
            near(q, account, name, dtype, [x, *bounds], call, want.astype(np.longdouble), 0, rng) \
                if dtype in FLOATS else exact(q, account, name, dtype, [x, *bounds], call,
                                              Value.of(dtype, want), rng)


def prelu(q, account, rng, name):
    for dtype in FLOATS:
        x = normal(dtype, (2, 3, 4), rng)
        for shape in ((3,), (1,), ()):
            w = normal(dtype, shape, rng)
            v, k = x.numbers(), w.numbers()
            k = k.reshape(1, 3, 1) if shape == (3,) else k.reshape(())
            want = np.where(v > 0, v, v * k)
            near(q, account, name, dtype, [x, w], lambda a, b: q.call(name, a, b), want,
                 epsilon(dtype) * np.abs(want), rng, f"{shape}")


def glu(q, account, rng, name):
    for dtype in FLOATS:
        x = normal(dtype, (3, 6), rng)
        a, b = np.split(x.numbers(), 2, 1)
        want = a / (1 + np.exp(-b))
        near(q, account, name, dtype, [x], lambda t: q.call(name, t, 1), want, 4 * epsilon(dtype) * np.abs(want), rng)


def softmin(q, account, rng, name):
    for dtype in FLOATS:
        x = normal(dtype, (3, 6), rng)
        e = np.exp(-(x.numbers() - x.numbers().min(1, keepdims=True)))
        want = e / e.sum(1, keepdims=True)
        near(q, account, name, dtype, [x], lambda t: q.call(name, t, 1), want,
             (12 * max(epsilon(dtype) if dtype == "f64" else epsilon("f32"), 0) * 8 + epsilon(dtype)) * want, rng)


# ---- movement ------------------------------------------------------------------------------------


def moved(*cases):
    """(shape, arguments after x, NumPy's function) in every dtype."""
    def run(q, account, rng, name):
        for dtype in DTYPES:
            for shape, args, function in cases:
                x = anything(dtype, shape, rng)
                exact(q, account, name, dtype, [x], lambda t: q.call(name, t, *args),
                      Value(dtype, function(x.raw)), rng, f"{shape} {args}")
    return run


def embedded(x, k):
    n = x.shape[-1] + abs(k)
    out = np.zeros(x.shape[:-1] + (n, n), x.dtype)
    for at in np.ndindex(*x.shape):
        i = at[-1]
        out[at[:-1] + (i - min(k, 0), i + max(k, 0))] = x[at]
    return out


def listed(make, arguments):
    """Several results into a list: make(arrays) and the call's arguments but the results."""
    def run(q, account, rng, name):
        for dtype in DTYPES:
            values = [anything(dtype, s, rng) for s in arguments[0]]
            want = [Value(dtype, w) for w in make(*[v.raw for v in values])]

            def call(*t):
                out = q.outs(len(want))
                q.call(name, *arguments[1](list(t)), out)
                return list(out)
            exact(q, account, name, dtype, values, call, want, rng)
    return run


def view(q, account, rng, name):
    for source in DTYPES:
        for dtype in DTYPES:
            if "bool" in (source, dtype):
                continue
            x = anything(source, (3, 8), rng)
            exact(q, account, name, f"{source}->{dtype}", [x], lambda t: q.call(name, t, dtype),
                  Value(dtype, np.ascontiguousarray(x.raw).view(STORAGE[dtype])), rng)


def expand_as(q, account, rng, name):
    for dtype in DTYPES:
        x, y = anything(dtype, (3, 1), rng), anything("f32", (2, 3, 4), rng)
        exact(q, account, name, dtype, [x, y], lambda a, b: q.call(name, a, b),
              Value(dtype, np.broadcast_to(x.raw, (2, 3, 4))), rng)


PIECES = {
    "nextafter": nextafter, "ldexp": ldexp, "frexp": frexp, "gcd": whole_numbers(math.gcd),
    "lcm": whole_numbers(math.lcm), "bitwise_count": bitwise_count, "nan_to_num": nan_to_num,
    "isclose": close(False), "allclose": close(True), "clip": clip, "prelu": prelu, "glu": glu, "softmin": softmin,
    "narrow": moved(((3, 5), (1, 1, 3), lambda x: x[:, 1:4]), ((3, 5), (0, -2, 2), lambda x: x[-2:])),
    "unflatten": moved(((3, 6), (1, 2, [2, -1]), lambda x: x.reshape(3, 2, 3)),
                       ((6,), (-1, 3, [1, 3, 2]), lambda x: x.reshape(1, 3, 2))),
    "moveaxis": moved(((2, 3, 4), (1, [0], [-1]), lambda x: np.moveaxis(x, 0, -1)),
                      ((2, 3, 4, 1), (2, [3, 0], [0, 2]), lambda x: np.moveaxis(x, (3, 0), (0, 2)))),
    "atleast": moved(*[(s, (r,), f) for r, f in ((1, np.atleast_1d), (2, np.atleast_2d), (3, np.atleast_3d))
                       for s in ((), (4,), (2, 3), (2, 3, 2))]),
    "rot90": moved(*[((2, 3, 4), (k, a, b), lambda x, k=k, a=a, b=b: np.rot90(x, k, (a, b)))
                     for k in (-1, 0, 1, 2, 3, 6) for a, b in ((0, 1), (2, 1))]),
    "diag_embed": moved(*[(s, (k,), lambda x, k=k: embedded(x, k)) for s in ((3,), (2, 1), (2, 0), (2, 3))
                          for k in (-2, -1, 0, 1, 3)]),
    "diag": moved(*[(s, (k,), lambda x, k=k: np.diag(x, k)) for s in ((3,), (3, 4)) for k in (-1, 0, 2)]),
    "diagonal_axes": moved(*[((3, 4, 5), (k, a, b), lambda x, k=k, a=a, b=b: np.diagonal(x, k, a, b))
                             for k in (-1, 0, 2) for a, b in ((0, 1), (2, 0), (-1, 1))]),
    "clone": moved(((3, 4), (), lambda x: x)), "variable": moved(((3, 4), (), lambda x: x)),
    "repeat_counts": moved(((3, 4), (1, 4, [2, 0, 1, 3]), lambda x: np.repeat(x, [2, 0, 1, 3], 1))),
    "view": view, "expand_as": expand_as,
    "broadcast_arrays": listed(np.broadcast_arrays, [((3, 1), (1, 4), ()), lambda t: (3, t)]),
    "meshgrid_xy": listed(np.meshgrid, [((3,), (4,), (2,)), lambda t: (3, t)]),
    "unstack": listed(lambda x: np.moveaxis(x, 1, 0), [((2, 3, 4),), lambda t: (t[0], 1, 3)])}


# ---- indexing --------------------------------------------------------------------------------------


def items_of(q, wanted):
    """Python's index as Quern's items, and the tensors that they name."""
    out, kept = (IndexItem * max(len(wanted), 1))(), []
    for item, w in zip(out, wanted):
        if w is None:
            item.kind = 3
        elif w is Ellipsis:
            item.kind = 2
        elif isinstance(w, int):
            item.kind, item.start = 1, w
        elif isinstance(w, slice):
            step = w.step or 1
            item.start = w.start if w.start is not None else (0 if step > 0 else -1)
            item.stop, item.step = END if w.stop is None else w.stop, step
        else:
            kept.append(q.tensor(Value.of("bool" if w.dtype == bool else "i64", w)))
            item.kind, item.array = 4, kept[-1]
    return out


def indices_of(rng):
    a, b, c = rng.integers(-3, 3, (2, 1)), rng.integers(-4, 4, (3,)), rng.integers(-5, 5, ())
    every = slice(None)
    return [(), (1,), (-1, Ellipsis), (Ellipsis, slice(1, -1)), (slice(None, None, -2), None, 2), (a,), (every, b),
            (a, b), (a, every, c), (Ellipsis, c), (a, None, b), (1, b), (1, every, c), (every, b, c), (None, a, b, c),
            (every, a % 4, 2), (slice(0, 2), b, slice(4, 0, -3)), (Ellipsis, b, None, c),
            (a, b, rng.integers(0, 5, (1, 3)))] + masks_of(rng)


def masks_of(rng):
    def mask(*shape):
        return rng.integers(0, 2, shape).astype(bool)
    every, two = slice(None), np.array([1, 0, 1], bool)
    return [(mask(3, 4, 5),), (mask(3),), (every, mask(4)), (mask(3, 4), slice(1, 4)), (Ellipsis, mask(4, 5)),
            (1, mask(4)), (two, every, rng.integers(-5, 5, (2,))), (None, mask(3), every, 2),
            (mask(3), every, every)]


def index(q, account, rng, name):
    for dtype in DTYPES:
        x = anything(dtype, (3, 4, 5), rng)
        for wanted in indices_of(rng):
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, len(wanted), items_of(q, wanted)),
                  Value(dtype, x.raw[wanted]), rng, f"{wanted}")


def index_put(q, account, rng, name):
    for dtype in DTYPES:
        x = plain(dtype, (3, 4, 5), rng)
        for wanted in indices_of(rng):
            shape = x.raw[wanted].shape
            source = plain(dtype, shape[1:] if rng.integers(2) else shape, rng)
            for how in (0, 1):
                want = x.numbers().copy()
                if how == 0:  # equal values, so that no order counts
                    source = Value(dtype, np.full(source.shape, plain(dtype, (), rng).raw))
                    want[wanted] = source.numbers()
                elif dtype == "bool":
                    continue
                else:
                    np.add.at(want, wanted, source.numbers())
                exact(q, account, name, dtype, [x, source],
                      lambda t, s: q.call(name, t, len(wanted), items_of(q, wanted), s, how), Value.of(dtype, want),
                      rng, f"{wanted} {how}")


def index_slices(fill):
    def run(q, account, rng, name):
        for dtype in DTYPES:
            x, index = anything(dtype, (3, 4), rng), rng.permutation(4)[:3] - 4 * rng.integers(0, 2, 3)
            want, at = x.raw.copy(), Value.of("i32", index)
            if fill:
                want[:, index] = Value.of(dtype, np.array(1)).raw
                exact(q, account, name, dtype, [x, at], lambda t, i: q.call(name, t, i, 1.0, 1), Value(dtype, want),
                      rng)
                continue
            source = anything(dtype, (3, 3), rng)
            want[:, index] = source.raw
            exact(q, account, name, dtype, [x, at, source], lambda t, i, s: q.call(name, t, i, s, 1),
                  Value(dtype, want), rng)
    return run


def scatter_mean(q, account, rng, name):
    for dtype in FLOATS:
        for own in (False, True):
            x, source = normal(dtype, (3, 4), rng), normal(dtype, (3, 6), rng)
            index, want = rng.integers(0, 4, (3, 6)), x.numbers().copy()
            for i in range(3):
                for j in range(4):
                    came = [v for k, v in zip(index[i], source.numbers()[i]) if k == j]
                    if came:
                        want[i, j] = np.mean(came + [want[i, j]] * own)
            near(q, account, name, dtype, [x, Value.of("i64", index), source],
                 lambda t, i, s: q.call(name, t, i, s, 1, own), want,
                 16 * epsilon("f64" if dtype == "f64" else "f32") + epsilon(dtype) * np.abs(want), rng, f"{own}")


def masked_fill(q, account, rng, name):
    for dtype in DTYPES:
        x, value = anything(dtype, (3, 4), rng), plain(dtype, (), rng)
        mask = Value("bool", rng.integers(0, 2, (4,)).astype(bool))
        exact(q, account, name, dtype, [x, mask, value], lambda t, m, v: q.call(name, t, m, v),
              Value(dtype, np.where(mask.raw, value.raw, x.raw)), rng)


def masked_scatter(q, account, rng, name):
    for dtype in DTYPES:
        x, source = anything(dtype, (3, 4), rng), anything(dtype, (2, 7), rng)
        mask = Value("bool", rng.integers(0, 2, (4,)).astype(bool))
        want, at = x.raw.copy(), np.broadcast_to(mask.raw, (3, 4))
        want[at] = source.raw.reshape(-1)[:at.sum()]
        exact(q, account, name, dtype, [x, mask, source], lambda t, m, s: q.call(name, t, m, s),
              Value(dtype, want), rng)


def behind(raw, bound):
    """As long as a bound: cut off, or zeros behind."""
    out = np.zeros((bound,) + raw.shape[1:], raw.dtype)
    out[:min(bound, len(raw))] = raw[:bound]
    return out


def nonzero(q, account, rng, name):
    for dtype in DTYPES:
        x = plain(dtype, (3, 4, 2), rng)
        found = np.argwhere(x.numbers())
        for bound in (-1, 0, 7):
            want = [Value("i64", behind(found, 24 if bound < 0 else bound)), Value("i64", len(found))]
            exact(q, account, name, dtype, [x], lambda t: several(q, name, 2, t, bound), want, rng, f"{bound}")


def masked_select(q, account, rng, name):
    for dtype in DTYPES:
        x, mask = anything(dtype, (3, 4), rng), Value("bool", rng.integers(0, 2, (4,)).astype(bool))
        found = x.raw[np.broadcast_to(mask.raw, (3, 4))]
        for bound in (-1, 5):
            want = [Value(dtype, behind(found, 12 if bound < 0 else bound)), Value("i64", len(found))]
            exact(q, account, name, dtype, [x, mask], lambda t, m: several(q, name, 2, t, m, bound), want, rng,
                  f"{bound}")


def head(q, account, rng, name):
    for dtype in DTYPES:
        x, n = anything(dtype, (3, 4), rng), Value("i32", rng.integers(0, 5, ()))
        exact(q, account, name, dtype, [x, n], lambda t, k: q.call(name, t, 1, k),
              Value(dtype, x.raw[:, :int(n.raw)]), rng)


def put_back(cut, *cases):
    def run(q, account, rng, name):
        for dtype in DTYPES:
            for args in cases:
                x = anything(dtype, (3, 4, 5), rng)
                want = x.raw.copy()
                part = cut(want, *args)
                source = anything(dtype, part.shape, rng)
                part[...] = source.raw
                exact(q, account, name, dtype, [x, source], lambda t, s: q.call(name, t, s, *args),
                      Value(dtype, want), rng, f"{args}")
    return run


def diagonal_of(x, k):
    d = np.diagonal(x, k, 1, 2)
    d.setflags(write=True)
    return d


def slice_of(x, axis, start, stop, step):
    return np.moveaxis(x, axis, 0)[start:None if stop == END else stop:step] if axis == 0 else \
        x[(slice(None),) * axis + (slice(start, None if stop == END else stop, step),)]


PIECES.update({"index": index, "index_put": index_put, "index_copy": index_slices(False),
               "index_fill": index_slices(True), "scatter_mean": scatter_mean, "masked_fill": masked_fill,
               "masked_scatter": masked_scatter, "nonzero": nonzero, "masked_select": masked_select, "head": head,
               "slice_scatter": put_back(slice_of, (1, 1, END, 2), (0, 0, 2, 1), (2, -3, -1, 1), (2, 1, 1, 1)),
               "select_scatter": put_back(lambda x, a, i: x[(slice(None),) * a + (i,)], (0, 1), (2, -1), (1, -4)),
               "diagonal_scatter": put_back(diagonal_of, (0,), (2,), (-1,), (4,))})
