"""arrays.py - making, converting, movement, joining and computed indices, bit by bit against NumPy."""

import math

import numpy as np

from quern import ALL, DTYPES, END, FLOATS, STORAGE, UNSIGNED, Value
from reductions import REDUCTIONS
from scans import SCANS
from trial import Case, anything, axis_of, draw_shape, exact, refuses

TIMES = 4  # trials of each dtype


def every(draw, dtypes=DTYPES, values=anything, least=0):
    """A row of movement: draw(shape, rng) gives the arguments after x and NumPy's function."""
    def run(q, account, rng, name):
        for dtype in dtypes:
            for _ in range(TIMES):
                shape = draw_shape(rng, least)
                drawn = draw(shape, rng)
                if drawn is None:
                    continue
                args, function = drawn
                x = values(dtype, shape, rng)
                exact(q, account, name, dtype, [x], lambda t: q.call(name, t, *args),
                      Value(dtype, function(x.raw)), rng, f"{args}")
    return run


# ---- movement ------------------------------------------------------------------------------------


def reshape(shape, rng):
    n = math.prod(shape)
    new = [n] if n < 2 or n % 2 else [2, n // 2, 1]
    given = new[:1] + [-1] + new[2:] if len(new) > 1 and rng.integers(2) else new
    return (len(given), given), lambda x: x.reshape(new)


def permute(shape, rng):
    order = [int(i) for i in rng.permutation(len(shape))]
    return (len(order), order), lambda x: x.transpose(order)


def transpose(shape, rng):
    a, b = axis_of(shape, rng), axis_of(shape, rng)
    return (a, b), lambda x: np.swapaxes(x, a, b)


def expand(shape, rng):
    new = [2] + [3 if n == 1 else n for n in shape]
    told = [2] + [-1 if n != 1 and rng.integers(2) else m for n, m in zip(shape, new[1:])]
    return (len(new), told), lambda x: np.broadcast_to(x, new)


def slices(shape, rng):
    axis, n = axis_of(shape, rng), max(shape) + 2
    start, stop = int(rng.integers(-n, n + 1)), int(rng.integers(-n, n + 1))
    step = int(rng.choice([1, 2, 3, -1, -2]))
    open_ = bool(rng.integers(2))

    def take(x):
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(start, None if open_ else stop, step)
        return x[tuple(cut)]
    return (axis, start, END if open_ else stop, step), take


def select(shape, rng):
    axis = axis_of(shape, rng)
    if shape[axis] == 0:
        return None
    index = int(rng.integers(-shape[axis], shape[axis]))
    return (axis, index), lambda x: np.take(x, index, axis)


def flip(shape, rng):
    axis = ALL if rng.integers(3) == 0 or not shape else axis_of(shape, rng)
    return (axis,), lambda x: np.flip(x) if axis == ALL else np.flip(x, axis)


def as_strided(shape, rng):
    n = math.prod(shape)
    if n < 4:
        return None
    new, strides, offset = [2, 2], [int(rng.integers(0, 2)), int(rng.integers(0, n - 2))], 0
    offset = int(rng.integers(0, n - sum(strides)))

    def take(x):
        flat = x.reshape(-1)
        return np.array([[flat[offset + i * strides[0] + j * strides[1]] for j in range(2)]
                         for i in range(2)], x.dtype)
    return (2, new, strides, offset), take


def pad(mode, numpy_mode):
    def draw(shape, rng):
        top = 3 if mode in (0, 2) else 1
        if mode and not all(n > 1 for n in shape):
            return None
        pads = [int(v) for v in rng.integers(-1 if mode == 0 and all(n > 2 for n in shape) else 0,
                                             top + 1, 2 * len(shape))]

        def fill(x):
            cut = tuple(slice(-min(a, 0), n + min(b, 0)) for a, b, n in
                        zip(pads[::2], pads[1::2], x.shape))
            wide = [(max(a, 0), max(b, 0)) for a, b in zip(pads[::2], pads[1::2])]
            return np.pad(x[cut], wide, numpy_mode) if x.ndim else x
        return (pads or [0], mode, 0.0), fill
    return draw


def pads(q, account, rng, name):
    for mode, numpy_mode in enumerate(["constant", "reflect", "edge", "wrap"]):
        every(pad(mode, numpy_mode))(q, account, rng, name)
    for dtype in DTYPES:  # another value than 0
        x = anything(dtype, (3,), rng)
        v = Value.of(dtype, np.array(1.0))
        exact(q, account, name, dtype, [x], lambda t: q.call(name, t, [1, 2], 0, 1.0), Value(
            dtype, np.concatenate([[v.raw], x.raw, [v.raw, v.raw]])), rng, "value 1")


def roll(shape, rng):
    axis, shift = axis_of(shape, rng), int(rng.choice([0, 1, -1, 3, 2 ** 40, -2 ** 62 + 1]))
    return (axis, shift), lambda x: np.roll(x, shift, axis) if x.shape[axis] else x


def some_axes(shape, rng):
    """A few different axes of either sign."""
    axes = rng.permutation(len(shape))[:rng.integers(0, len(shape) + 1)]
    return [int(a) - len(shape) * int(rng.integers(2)) for a in axes]


def flip_axes(shape, rng):
    axes = some_axes(shape, rng)
    return (len(axes), axes or [0]), lambda x: np.flip(x, tuple(axes))


def roll_axes(shape, rng):
    axes = some_axes(shape, rng)
    shifts = [int(v) for v in rng.integers(-7, 8, len(axes))]
    return (len(axes), axes or [0], shifts or [0]), lambda x: np.roll(x, shifts, axes) if axes else x


def squeeze_axes(shape, rng):
    axes = [a for a in some_axes(shape, rng) if shape[a] == 1]
    return (len(axes), axes or [0]), lambda x: np.squeeze(x, tuple(axes))


def unsqueeze_axes(shape, rng):
    n = int(rng.integers(0, 3))
    axes = [int(a) for a in rng.permutation(len(shape) + n)[:n]]
    return (n, axes or [0]), lambda x: np.expand_dims(x, tuple(axes))


def squeeze(shape, rng):
    ones = [i for i, n in enumerate(shape) if n == 1]
    axis = ALL if not ones or rng.integers(2) else ones[rng.integers(len(ones))]
    return (axis,), lambda x: np.squeeze(x) if axis == ALL else np.squeeze(x, axis)


def unsqueeze(shape, rng):
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    return (axis,), lambda x: np.expand_dims(x, axis)


def flatten(shape, rng):
    first = int(rng.integers(0, len(shape)))
    last = int(rng.integers(first, len(shape)))
    return (first, last), lambda x: x.reshape(
        x.shape[:first] + (math.prod(x.shape[first:last + 1]),) + x.shape[last + 1:])


def unfold(shape, rng):
    axis = axis_of(shape, rng)
    if not shape[axis]:
        return None
    size, step = int(rng.integers(1, shape[axis] + 1)), int(rng.integers(1, 4))

    def windows(x):
        w = np.lib.stride_tricks.sliding_window_view(x, size, axis)
        cut = [slice(None)] * w.ndim
        cut[axis if axis >= 0 else axis - 1] = slice(None, None, step)
        return w[tuple(cut)]
    return (axis, size, step), windows


def diagonal(shape, rng):
    k = int(rng.integers(-min(shape[-2], 3), min(shape[-1], 3) + 1))
    return (k,), lambda x: np.diagonal(x, k, -2, -1)


def triangle(function):
    def draw(shape, rng):
        k = int(rng.choice([-2, -1, 0, 1, 2, 100, -100, 2 ** 62, -2 ** 62, 2 ** 63 - 1, -2 ** 63]))
        return (k,), lambda x: function(x, max(min(k, 1000), -1000))
    return draw


# ---- joining and splitting -----------------------------------------------------------------------


def joined(numpy_function, name, least, new_axis=False):
    def run(q, account, rng, name=name):
        for dtype in DTYPES:
            for _ in range(TIMES):
                shape = list(draw_shape(rng, least, 3))
                axis = int(rng.integers(0, len(shape) + new_axis)) if len(shape) + new_axis else 0
                along = axis if name == "concat" else (min(1, len(shape) - 1) if name == "hstack" else 0)
                parts = []
                for _ in range(int(rng.integers(1, 5))):
                    s = list(shape)
                    if not new_axis and s and not (name == "vstack" and len(s) == 1):
                        s[along] = int(rng.integers(0, 4))
                    parts.append(anything(dtype, tuple(s), rng))
                args = (axis,) if name in ("concat", "stack") else ()
                want = Value(dtype, numpy_function([p.raw for p in parts], *args))
                exact(q, account, name, dtype, parts, lambda *t: q.call(name, len(t), list(t), *args),
                      want, rng, f"{args}")
    return run


def split(q, account, rng, name):
    for dtype in DTYPES:
        x = anything(dtype, (2, 7), rng)
        sizes = [[3, 4], [0, 7], [1, 2, 4], [7]][rng.integers(4)]

        def call(t):
            out = q.outs(len(sizes))
            q.call("split", t, 1, len(sizes), sizes, out)
            return list(out)[:len(sizes)]
        want = [Value(dtype, p) for p in np.split(x.raw, np.cumsum(sizes)[:-1], 1)]
        exact(q, account, name, dtype, [x], call, want, rng, f"{sizes}")


def chunk(q, account, rng, name):
    for dtype in DTYPES:
        x, n = anything(dtype, (7, 2), rng), int(rng.integers(1, 6))

        def call(t):
            out = q.outs(n)
            q.call("chunk", t, 0, n, out)
            return list(out)[:n]
        want = [Value(dtype, p) for p in np.array_split(x.raw, n, 0)]
        exact(q, account, name, dtype, [x], call, want, rng, f"{n}")


def meshgrid(q, account, rng, name):
    for dtype in DTYPES:
        xs = [anything(dtype, (int(n),), rng) for n in rng.integers(0, 4, 3)]

        def call(*t):
            out = q.outs(3)
            q.call("meshgrid", 3, list(t), out)
            return list(out)[:3]
        want = [Value(dtype, g) for g in np.meshgrid(*[x.raw for x in xs], indexing="ij")]
        exact(q, account, name, dtype, xs, call, want, rng)


def tile(shape, rng):
    times = [int(v) for v in rng.integers(0 if rng.integers(3) == 0 else 1, 4, rng.integers(1, 4))]
    return (len(times), times), lambda x: np.tile(x, times)


def repeat_interleave(shape, rng):
    times, axis = int(rng.integers(0, 4)), axis_of(shape, rng)
    return (axis, times), lambda x: np.repeat(x, times, axis)


# ---- making and converting -----------------------------------------------------------------------


def made(call, function):
    """call(shape, number, rng) gives arguments; function makes NumPy's array of them."""
    def run(q, account, rng, name):
        for dtype in DTYPES:
            for number in (0.0, 1.0, 2.5, -3.0, 1e10, 1e300, math.inf, -math.inf, math.nan, 255.0):
                shape = draw_shape(rng)
                args = call(dtype, shape, number)
                if args is None:
                    continue
                with np.errstate(all="ignore"):
                    want = function(dtype, shape, number)
                exact(q, account, name, dtype, [], lambda: q.call(name, *args), want, rng, f"{args}")
    return run


def converted(dtype, number):
    """A number in a dtype as docs/ops.md has it: rounded, truncated and clamped, NaN 0."""
    if dtype in FLOATS:
        return Value.of(dtype, np.array(number, np.float64)).raw
    if dtype == "bool":
        return np.bool_(number != 0)
    info = np.iinfo(STORAGE[dtype])
    if math.isnan(number):
        return STORAGE[dtype](0)
    return STORAGE[dtype](info.max if number >= info.max else info.min if number <= info.min else
                          int(number))


def filled(dtype, shape, number):
    return Value(dtype, np.full(shape, converted(dtype, number)))


def alike(name_args, function):
    def run(q, account, rng, name):
        for dtype in DTYPES:
            for number in (0.0, 1.0, 3.0, 2.5, -7.0, math.inf, math.nan):
                x = anything(dtype, draw_shape(rng), rng)
                exact(q, account, name, dtype, [x], lambda t: q.call(name, t, *name_args(number)),
                      function(x, number), rng, f"{name_args(number)}")
    return run


def held(dtype, number):
    """Is it a whole number of this dtype?"""
    if not math.isfinite(number) or number != int(number) or abs(number) > 2 ** 62:
        return False
    return dtype in FLOATS or dtype == "bool" or (
        np.iinfo(STORAGE[dtype]).min <= number <= np.iinfo(STORAGE[dtype]).max)


def weak(q, account, rng, name):
    """A number beside each dtype: PyTorch's result_type with a number of Python."""
    for dtype in DTYPES:
        x = anything(dtype, draw_shape(rng), rng)
        for number in (0, 1, 3, 100) if name == "weak_int" else (0.0, 1.0, 2.5, -7.0, math.inf, math.nan):
            to = dtype if dtype in FLOATS else "f32" if name == "weak" else "i64" if dtype == "bool" else dtype
            exact(q, account, name, dtype, [x], lambda t: q.call(name, t, number), filled(to, (), number), rng,
                  f"{number}")


def ramps(q, account, rng, name):
    for dtype in [d for d in DTYPES if d != "bool"]:
        for start, stop, step in (0, 5, 1), (1, 9, 3), (0, 0, 1), (5, 0, 1), (7, 1, -2), (0, 1, .25):
            if name == "arange_int" and (step != int(step) or dtype in UNSIGNED and step < 0):
                continue
            if dtype in UNSIGNED and step < 0 or dtype not in FLOATS and step < 1 and step > 0:
                continue
            exact(q, account, name, dtype, [], lambda: q.call(name, dtype, start, stop, step),
                  Value.of(dtype, np.arange(start, stop, step)), rng, f"({start}, {stop}, {step})")


def linspace(q, account, rng, name):
    for dtype in FLOATS:
        for start, stop, n in (0, 1, 5), (-2, 2, 9), (3, 4, 1), (0, 8, 0), (4, -4, 17):
            exact(q, account, name, dtype, [], lambda: q.call(name, dtype, start, stop, n),
                  Value.of(dtype, np.linspace(start, stop, n)), rng, f"({start}, {stop}, {n})")


def eye(q, account, rng, name):
    for dtype in DTYPES:
        n, m = int(rng.integers(0, 5)), int(rng.integers(0, 5))
        exact(q, account, name, dtype, [], lambda: q.call(name, dtype, n, m),
              Value.of(dtype, np.eye(n, m)), rng, f"({n}, {m})")


def iota(q, account, rng, name):
    for dtype in [d for d in DTYPES if d != "bool"]:
        shape = draw_shape(rng, 1)
        axis = axis_of(shape, rng)
        places = np.arange(shape[axis]).reshape([-1 if i == axis % len(shape) else 1
                                                 for i in range(len(shape))])
        exact(q, account, name, dtype, [], lambda: q.call(name, dtype, len(shape), list(shape), axis),
              Value.of(dtype, np.broadcast_to(places, shape)), rng, f"{shape} {axis}")


def cast(q, account, rng, name):
    from elementwise import samples
    for source in DTYPES:
        x = samples(source, 60, rng)
        for dtype in DTYPES:
            if source in FLOATS:
                want = np.array([converted(dtype, v) for v in x.numbers().tolist()], STORAGE[dtype])
            elif dtype in FLOATS:
                want = integers_to_float(dtype, x.raw)
            else:
                want = x.raw.astype(STORAGE[dtype])
            exact(q, account, name, f"{source}->{dtype}", [x], lambda t: q.call(name, t, dtype),
                  Value(dtype, want), rng)


def integers_to_float(dtype, raw):
    """Rounded once: f64 by NumPy, the narrower ones from a double that was rounded to odd."""
    if dtype == "f64":
        return raw.astype(np.float64)
    out = []
    for v in raw.tolist():
        a, shift = abs(int(v)), max(abs(int(v)).bit_length() - 53, 0)
        sticky = (a >> shift << shift) | ((a & ((1 << shift) - 1)) != 0) << shift
        out.append(math.copysign(float(sticky), v))
    return Value.of(dtype, np.array(out, np.float64)).raw


def bitcast(q, account, rng, name):
    for source in DTYPES:
        for dtype in DTYPES:
            same = np.dtype(STORAGE[source]).itemsize == np.dtype(STORAGE[dtype]).itemsize
            x = anything(source, (11,), rng)
            if not same:
                with q.scope():
                    t = q.tensor(x)
                    refuses(q, account, Case(name, dtype), lambda: q.call(name, t, dtype),
                            f"{source} as {dtype}")
                continue
            want = x.raw != 0 if dtype == "bool" else x.raw.view(STORAGE[dtype])
            exact(q, account, name, f"{source}->{dtype}", [x], lambda t: q.call(name, t, dtype),
                  Value(dtype, want), rng)


MOVEMENT = {"reshape": (reshape, 0), "permute": (permute, 0), "transpose": (transpose, 1),
            "expand": (expand, 0), "slice": (slices, 1), "select": (select, 1), "flip": (flip, 0),
            "as_strided": (as_strided, 0), "roll": (roll, 1), "squeeze": (squeeze, 0),
            "unsqueeze": (unsqueeze, 0), "flatten": (flatten, 1), "unfold": (unfold, 1),
            "diagonal": (diagonal, 2), "triu": (triangle(np.triu), 2),
            "tril": (triangle(np.tril), 2), "tile": (tile, 0),
            "repeat_interleave": (repeat_interleave, 1), "flip_axes": (flip_axes, 0),
            "roll_axes": (roll_axes, 0), "squeeze_axes": (squeeze_axes, 0),
            "unsqueeze_axes": (unsqueeze_axes, 0)}
ROWS = {name: every(draw, least=least) for name, (draw, least) in MOVEMENT.items()}
ROWS.update({
    "contiguous": every(lambda s, r: ((), lambda x: x)), "detach": every(lambda s, r: ((), lambda x: x)),
    "pad": pads, "concat": joined(np.concatenate, "concat", 1), "stack": joined(np.stack, "stack", 0, True),
    "vstack": joined(np.vstack, "vstack", 1), "hstack": joined(np.hstack, "hstack", 1),
    "split": split, "chunk": chunk, "meshgrid": meshgrid, "cast": cast, "bitcast": bitcast,
    "full": made(lambda d, s, v: (d, len(s), list(s), v), filled),
    "zeros": made(lambda d, s, v: None if v else (d, len(s), list(s)), filled),
    "ones": made(lambda d, s, v: None if v != 1 else (d, len(s), list(s)), filled),
    "scalar": made(lambda d, s, v: (d, v), lambda d, s, v: filled(d, (), v)),
    "full_int": made(lambda d, s, v: (d, len(s), list(s), int(v)) if held(d, v) else None, filled),
    "scalar_int": made(lambda d, s, v: (d, int(v)) if held(d, v) else None, lambda d, s, v: filled(d, (), v)),
    "arange_int": ramps, "weak": weak, "weak_int": weak,
    "like": alike(lambda v: (v,), lambda x, v: filled(x.dtype, (), v)),
    "full_like": alike(lambda v: (v,), lambda x, v: filled(x.dtype, x.shape, v)),
    "zeros_like": alike(lambda v: (), lambda x, v: filled(x.dtype, x.shape, 0)),
    "ones_like": alike(lambda v: (), lambda x, v: filled(x.dtype, x.shape, 1)),
    "iota": iota, "arange": ramps, "linspace": linspace, "eye": eye, **REDUCTIONS, **SCANS})


def table():
    from fft import FFT
    from indices import INDICES
    from linalg import LINALG
    from pieces import PIECES
    from sorting import SORTING
    return {name: lambda q, account, rng, name=name, run=run: run(q, account, rng, name)
            for name, run in {**ROWS, **INDICES, **PIECES, **SORTING, **LINALG, **FFT}.items()}


