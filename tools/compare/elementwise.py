"""elementwise.py - functions of single elements against NumPy, SciPy, PyTorch and mpmath.

A row gives the outside library's function on float64 or integer arrays, which decides special
values, and for floats one on mpmath numbers, which decides all digits. Functions without the second
are exact, or rounded correctly, in float64.
"""

import itertools
import math

import mpmath
import numpy as np

from judge import Case
from quern import DTYPES, FLOATS, INTS, LEAST, QuernError, Value, epsilon, largest
from tables import BINARY, OPTIONS, TERNARY, UNARY


# ---- argument makers -----------------------------------------------------------------------------


def special_floats(dtype, few=False):
    """Zeros, bounds of the format, of domains and of ranges, infinities and NaN."""
    e, top, tiny = epsilon(dtype), largest(dtype), 2.0 ** LEAST[dtype]
    short = [0.0, tiny * e, tiny, e, 0.5, 1.0, 1 + e, 2.0, 3.0, 10.5, np.sqrt(top), top, np.inf]
    more = [tiny * e * 3, tiny * (1 - e), e / 2, e ** 2, 1 - e / 2, 1.5, 2.5, np.pi / 2, np.pi, 6.0,
            5.5, 8.3, 11.09, 17.0, 20.0, 44.0, 88.6, 88.8, 100.0, 127.5, 128.0, 256.0, 300.0, 709.7,
            710.0, 745.0, 1024.0, 4e3, 6e4, 1e5, 2.0 ** 31, 2.0 ** 53, 0.1, 1 / 3, 0.25, 1e-3,
            top ** (1 / 3), top / 2, tiny ** 0.5, tiny * 8]
    short = short if few else short + more
    return np.array(short + [-v for v in short] + [np.nan])


def random_floats(dtype, n, rng):
    """A third of small numbers, a third of larger ones, a third of every exponent."""
    k = n // 3
    exponents = rng.uniform(LEAST[dtype] - 6, np.log2(largest(dtype)), n - 2 * k)
    return np.concatenate([rng.uniform(-2, 2, k), rng.uniform(-40, 40, k),
                           np.exp2(exponents) * rng.choice([-1, 1], n - 2 * k)])


def special_ints(dtype):
    info = np.iinfo(Value.of(dtype, [0]).raw.dtype)
    near = [0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, -1, -2, -3, -8, info.min, info.min + 1, info.max,
            info.max - 1, info.max // 2]
    return sorted({v for v in near if info.min <= v <= info.max})


def random_ints(dtype, n, rng):
    info = np.iinfo(Value.of(dtype, [0]).raw.dtype)
    small = rng.integers(max(info.min, -20), 21, n // 2)
    return [int(v) for v in small] + [int(rng.integers(info.min, info.max, dtype=np.int64 if
            info.min else np.uint64, endpoint=True)) for _ in range(n - n // 2)]


def samples(dtype, n, rng, few=False):
    if dtype == "bool":
        return Value("bool", [False, True])
    if dtype in INTS:
        raw = np.array(special_ints(dtype) + random_ints(dtype, n, rng),
                       dtype=Value.of(dtype, [0]).raw.dtype)
        return Value(dtype, raw)
    with np.errstate(all="ignore"):
        return Value.of(dtype, np.concatenate([special_floats(dtype, few),
                                               random_floats(dtype, n, rng)]))


def tuples(dtypes, n, rng):
    """Arrays of equal length: every combination of specials, and as many random ones."""
    if len(dtypes) == 1:
        return [samples(dtypes[0], n, rng)]
    few = len(dtypes) > 2
    columns = [samples(d, 0, rng, True) for d in dtypes]
    if few:
        columns = [Value(c.dtype, c.raw[np.r_[0:len(c.raw):3, len(c.raw) - 1]]) for c in columns]
    grid = list(itertools.product(*[range(len(c.raw)) for c in columns]))
    parts = [[c.raw[[g[i] for g in grid]] for i, c in enumerate(columns)]]
    parts.append([samples(d, n, rng, True).raw for d in dtypes])
    for part in parts[1]:
        rng.shuffle(part)
    short = min(len(p) for p in parts[1])
    return [Value(d, np.concatenate([parts[0][i], parts[1][i][:short]]))
            for i, d in enumerate(dtypes)]


# ---- what is expected ----------------------------------------------------------------------------


def exact_values(row, numbers, options):
    """For each element the float64 value where special, else the mpmath number."""
    with np.errstate(all="ignore"):
        plain = np.asarray(row.plain(*numbers, *options), np.float64)
    want = []
    for i, special in enumerate(plain):
        args = [float(v[i]) for v in numbers]
        value = float(special)
        if np.isfinite(args).all():
            try:
                real = row.real(*[mpmath.mpf(a) for a in args], *options)
                if isinstance(real, mpmath.mpf) and mpmath.isfinite(real) and real != 0 and (
                        0 not in args or value == 0 or (real > 0) == (value > 0)):
                    value = real
            except (ZeroDivisionError, ValueError, OverflowError):
                pass
        want.append(value)
    return want


def result_dtype(row, dtypes):
    last = dtypes[-1]
    if row.gives == "bool":
        return "bool"
    if row.gives == "float" and last not in FLOATS:
        return "f32"
    return last


def compare_values(q, account, case, row, values, options, got):
    out = result_dtype(row, [v.dtype for v in values])
    if not account.form(case, got, out, values[0].shape):
        return
    flat = [Value(v.dtype, v.raw.reshape(-1)) for v in values]
    if out in FLOATS and any(v.dtype not in FLOATS for v in values[-1:]):
        numbers = [Value.of("f32", v.numbers()).numbers() for v in flat]
    else:
        numbers = [v.numbers() for v in flat]
    if out in FLOATS and row.real:
        want = exact_values(row, numbers, options)
        slack = None
        if row.slack:
            with np.errstate(all="ignore"):
                slack = np.nan_to_num(row.slack(*numbers, *options)) * epsilon(out)
        # ref takes the C library's functions, which in double are off by up to 2 ulps themselves.
        most = 2 if row.ulp == 1 and account.device == "ref" and out == "f64" else row.ulp
        account.ulps(case, Value(out, got.raw.reshape(-1)), want, most, flat, slack)
        return
    with np.errstate(all="ignore"):
        want = Value.of(out, row.plain(*numbers, *options))
    account.bits(case, Value(out, got.raw.reshape(-1)), want, flat)


# ---- views: the same elements by another way -----------------------------------------------------


def views(q, value):
    """(remark, tensor, the elements it shows) by transposition, slices, flips, broadcasts, ranks."""
    raw = value.raw
    n = raw.size
    yield "rank 0", q.tensor(Value(value.dtype, raw[0])), raw[0]
    yield "empty", q.tensor(Value(value.dtype, raw[:0].reshape(0, 3))), raw[:0].reshape(0, 3)
    if n < 6:
        return
    rows = 7 if n >= 77 else 2
    grid = raw[:n // rows * rows].reshape(rows, -1)
    t = q.tensor(Value(value.dtype, grid))
    yield "transposed", q.call("transpose", t, 0, 1), grid.T
    yield "flipped", q.call("flip", t, ALL_AXES), grid[::-1, ::-1]
    yield "sliced", q.call("slice", t, 1, 1, 2 ** 63 - 1, 2), grid[:, 1::2]
    line = q.tensor(Value(value.dtype, raw[:5]))
    yield "expanded", q.call("expand", line, 3, [2, 3, 5]), np.broadcast_to(raw[:5], (2, 3, 5))
    cube = raw[:n // 4 * 4].reshape(2, 2, 1, -1)
    yield "rank 4", q.tensor(Value(value.dtype, cube)), cube
    cube = raw[:n // 4 * 4].reshape(1, 2, 1, 2, 1, 1, -1, 1)
    t = q.call("permute", q.tensor(Value(value.dtype, cube)), 8, [6, 4, 3, 0, 2, 5, 1, 7])
    yield "rank 8", q.call("slice", t, 0, 0, 2 ** 63 - 1, 3), cube.transpose(6, 4, 3, 0, 2, 5, 1, 7)[::3]


def broadcasts(q, values):
    """Arguments of which each has sizes of 1 where another has more: tensors, and their elements."""
    shapes = [(4, 1, 3), (5, 1), (1, 5, 1)][:len(values)]
    raws = [v.raw[-math.prod(s):].reshape(s) for v, s in zip(values, shapes)]
    elements = [np.ascontiguousarray(r) for r in np.broadcast_arrays(*raws)]
    return [q.tensor(Value(v.dtype, r)) for v, r in zip(values, raws)], elements


ALL_AXES = -2147483648


def compare_views(q, account, name, row, dtypes, rng, options):
    values = tuples(dtypes, 40, rng)
    trials = [(s[0][0], [t for _, t, _ in s], [e for _, _, e in s]) for s in zip(*[views(q, v) for v in values])]
    if len(values) > 1 and min(v.raw.size for v in values) >= 12:
        trials.append(("broadcast", *broadcasts(q, values)))
    for remark, tensors, elements in trials:
        case = Case(name, dtypes[-1], "value", remark + " ")
        try:
            got = q.read(q.call(name, *tensors, *options))
        except QuernError as e:
            account.fail(case, f"refused: {e}")
            continue
        elements = [Value(d, e) for d, e in zip(dtypes, elements)]
        compare_values(q, account, case, row, elements, options, got)


# ---- running -------------------------------------------------------------------------------------


def dtype_lists(row):
    """The dtypes of the arguments, of each dtype the row takes and of those it must refuse."""
    kinds = {"f": FLOATS, "i": INTS, "b": ["bool"]}
    taken = [d for k in row.takes for d in kinds[k]]
    for dtype in DTYPES:
        front = ["bool"] if row.arity == 3 and row.gives == "second" else [dtype]
        yield front + [dtype] * (row.arity - 1), dtype in taken


def run_row(q, account, name, row, rng):
    if getattr(row.plain, "absent", False):
        account.skip(name, "PyTorch is not installed, which knows its special values")
        return
    for options in OPTIONS.get(name, [()]):
        for dtypes, taken in dtype_lists(row):
            values = tuples(dtypes, 60, rng)
            case = Case(name, dtypes[-1], "value", " ".join(map(str, options)))
            with q.scope():
                try:
                    got = q.read(q.call(name, *[q.tensor(v) for v in values], *options))
                except QuernError as e:
                    if taken:
                        account.fail(case, f"refused: {e}")
                    continue
                if not taken:
                    account.fail(case, "accepted, though the documents do not say so")
                    continue
                compare_values(q, account, case, row, values, options, got)
    for dtypes, taken in dtype_lists(row):
        if taken and dtypes[-1] in ("bf16", "f32", "i16", "u64", "bool"):
            with q.scope():
                compare_views(q, account, name, row, dtypes, rng, OPTIONS.get(name, [()])[0])


def promoted(a, b):
    """NumPy's rules for integers and bools, PyTorch's for floats; with an integer the float stays."""
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if (a in FLOATS) != (b in FLOATS):
        return a if a in FLOATS else b
    if a in FLOATS:
        return "f32" if {a, b} == {"f16", "bf16"} else max(a, b, key=DTYPES.index)
    wide = np.result_type(Value.of(a, [0]).raw, Value.of(b, [0]).raw)
    return next(d for d in DTYPES if d != "bf16" and Value.of(d, [0]).raw.dtype == wide)


def promotion(q, account, rng):
    """The dtype of maximum, which takes all of them, of every pair."""
    for a, b in itertools.product(DTYPES, DTYPES):
        with q.scope():
            x, y = [q.tensor(Value.of(d, [1, 0])) for d in (a, b)]
            got = q.read(q.call("maximum", x, y))
        account.bits(Case("promotion", f"{a} {b}"), got, Value.of(promoted(a, b), [1, 0]))


def table():
    rows = {"promotion": promotion}
    for arity, part in (1, UNARY), (2, BINARY), (3, TERNARY):
        for name, row in part.items():
            row.arity = arity
            rows[name] = lambda q, account, rng, name=name, row=row: run_row(q, account, name, row,
                                                                            rng)
    return rows
