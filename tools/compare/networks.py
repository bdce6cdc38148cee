"""networks.py - products, convolutions, norms, losses and random numbers, in float64 by PyTorch or
NumPy. Bounds are those of sums in any order in the accumulator (f32 of f16 and bf16), rounded once.
"""

import math

import numpy as np

from quern import (DTYPES, FLOATS, INTS, STORAGE, Value, attention_options, conv_options, epsilon,
                   fixed_options)
from answers import ANSWERS, attention_with
from images import IMAGES
from randoms import RANDOMS
from reductions import accumulator
from trial import exact, near, normal, plain

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = F = None

NUMBERS = INTS + FLOATS
TIMES = 3


def tensors(values):
    return [None if v is None else torch.from_numpy(np.array(v.numbers(), np.float64)) for v in values]


# ---- sums of products: every one is linear in each operand, so magnitudes give the bound -----------


def product(q, account, rng, name, dtype, values, args, function, terms, remark="", bias=None):
    """function(operands in float64); integers are small, so that float64 holds them."""
    operands = [v.numbers().astype(np.float64) for v in values]
    want = function(*operands)
    if dtype in INTS:
        want = want.astype(np.int64).astype(STORAGE[dtype])
        exact(q, account, name, dtype, values, args, Value(dtype, want), rng, remark)
        return
    bound = function(*[np.abs(o) for o in operands])
    slack = (terms + 2) * accumulator(dtype) * bound + epsilon(dtype) * np.abs(want)
    near(q, account, name, dtype, values, args, want, slack, rng, remark)


def numbers(dtype, shape, rng):
    return normal(dtype, shape, rng) if dtype in FLOATS else plain(dtype, shape, rng)


def matmul(q, account, rng, name):
    pairs = [((3, 5), (5, 4)), ((5,), (5, 4)), ((3, 5), (5,)), ((7,), (7,)), ((2, 3, 5), (5, 2)),
             ((2, 1, 3, 4), (3, 4, 5)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((17, 33), (33, 19)),
             ((1, 1), (1, 1)), ((1, 64), (64, 48)), ((65, 31), (31, 1))]
    for dtype in NUMBERS:
        for k in rng.choice(len(pairs), 6, replace=False):
            a, b = pairs[k]
            product(q, account, rng, name, dtype, [numbers(dtype, a, rng), numbers(dtype, b, rng)],
                    lambda x, y: q.call(name, x, y), np.matmul, a[-1], f"{a} {b}")


def dot(q, account, rng, name):
    for dtype in NUMBERS:
        for n in (0, 1, 7, 33):
            product(q, account, rng, name, dtype, [numbers(dtype, (n,), rng) for _ in range(2)],
                    lambda x, y: q.call(name, x, y), np.dot, n, f"{n}")


def outer(q, account, rng, name):
    for dtype in NUMBERS:
        product(q, account, rng, name, dtype, [numbers(dtype, (5,), rng), numbers(dtype, (3,), rng)],
                lambda x, y: q.call(name, x, y), np.outer, 0)


def tensordot(q, account, rng, name):
    cases = [((2, 3, 4), (4, 3, 5), [2, 1], [0, 1]), ((2, 3), (3, 2), [1], [0]), ((2, 3), (4,), [], []),
             ((2, 3, 4), (3, 4, 2), [0, 1, 2], [2, 0, 1])]
    for dtype in NUMBERS:
        a, b, i, j = cases[rng.integers(len(cases))]
        product(q, account, rng, name, dtype, [numbers(dtype, a, rng), numbers(dtype, b, rng)],
                lambda x, y: q.call(name, x, y, len(i), i, j), lambda x, y: np.tensordot(x, y, (i, j)),
                12, f"{a} {b} {i} {j}")


def einsum(q, account, rng, name):
    cases = [("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)), ("i,i->", (5,), (5,)),
             ("ii->i", (4, 4)), ("ii->", (4, 4)), ("ij->ji", (2, 3)), ("...ij,...jk->...ik", (2, 3, 4),
             (4, 2)), ("i,j->ij", (3,), (2,)), ("ij,j,jk->ik", (2, 3), (3,), (3, 4)), ("ij->", (2, 3)),
             ("abc,cd,bd->ad", (2, 3, 4), (4, 5), (3, 5)), ("ij,ij->i", (3, 4), (3, 4))]
    for dtype in NUMBERS:
        for k in rng.choice(len(cases), 4, replace=False):
            spec, *shapes = cases[k]
            product(q, account, rng, name, dtype, [numbers(dtype, s, rng) for s in shapes],
                    lambda *t: q.call(name, len(t), list(t), spec), lambda *v: np.einsum(spec, *v), 26,
                    spec)


def linear(q, account, rng, name):
    for dtype in NUMBERS:
        for bias in (False, True):
            values = [numbers(dtype, (2, 3, 6), rng), numbers(dtype, (4, 6), rng)]
            values += [numbers(dtype, (4,), rng)] if bias else []
            product(q, account, rng, name, dtype, values, lambda x, w, b=None: q.call(name, x, w, b),
                    lambda x, w, b=0: x @ w.T + b, 8, f"bias {bias}")


# ---- convolution and pooling -----------------------------------------------------------------------


def torch_conv(space, transposed=False, **options):
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{space}d")

    def call(x, w, b=None):
        return function(*[None if v is None else torch.from_numpy(np.array(v)) for v in (x, w, b)],
                        **options).numpy()
    return call


def conv_case(rng, space):
    groups = int(rng.choice([1, 2]))
    kernel = [int(k) for k in rng.integers(1, 4, space)]
    stride, dilation = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    padding = int(rng.integers(0, 3))
    size = [int(n) for n in rng.integers(5, 9, space)]
    return groups, kernel, stride, dilation, padding, size


def conv_fixed(space):
    def run(q, account, rng, name):
        for dtype in NUMBERS:
            groups, kernel, stride, dilation, padding, size = conv_case(rng, space)
            values = [numbers(dtype, (2, 2 * groups, *size), rng),
                      numbers(dtype, (2 * groups, 2, *kernel), rng)]
            values += [numbers(dtype, (2 * groups,), rng)] if rng.integers(2) else []
            args = (stride, padding, dilation, groups)
            product(q, account, rng, name, dtype, values,
                    lambda x, w, b=None: q.call(name, x, w, b, fixed_options(space, *args)),
                    torch_conv(space, stride=stride, padding=padding, dilation=dilation, groups=groups),
                    2 * math.prod(kernel) + 1, f"{args} kernel {kernel}")
    return run


def conv(q, account, rng, name):
    for dtype in NUMBERS:
        for channels_last in (False, True):
            space = int(rng.integers(1, 4))
            groups, kernel, _, _, _, size = conv_case(rng, space)
            stride, dilation = ([int(v) for v in rng.integers(1, 3, space)] for _ in range(2))
            before, after = ([int(v) for v in rng.integers(0, 3, space)] for _ in range(2))
            options = conv_options(stride=stride, dilation=dilation, before=before, after=after,
                                   groups=groups, channels_last=channels_last)
            values = [numbers(dtype, (2, 2 * groups, *size), rng),
                      numbers(dtype, (3 * groups, 2, *kernel), rng), numbers(dtype, (3 * groups,), rng)]
            pads = [(0, 0), (0, 0)] + list(zip(before, after))
            plainly = torch_conv(space, stride=stride, dilation=dilation, groups=groups)

            def function(x, w, b):
                x = np.moveaxis(x, -1, 1) if channels_last else x
                r = plainly(np.pad(x, pads), w, b)
                return np.moveaxis(r, 1, -1) if channels_last else r
            if channels_last:
                values[0] = Value(dtype, np.moveaxis(values[0].raw, 1, -1))
            product(q, account, rng, name, dtype, values,
                    lambda x, w, b: q.call(name, x, w, b, options), function, 2 * math.prod(kernel) + 1,
                    f"{stride} {dilation} {before} {after} {groups} last {channels_last}")


def conv_transpose(q, account, rng, name):
    for dtype in NUMBERS:
        space = int(rng.integers(1, 4))
        groups, kernel, stride, dilation, _, size = conv_case(rng, space)
        padding = int(rng.integers(0, min(kernel)))
        extra = int(rng.integers(0, stride))
        options = conv_options(stride=[stride] * space, dilation=[dilation] * space, groups=groups,
                               before=[padding] * space, after=[padding] * space, extra=[extra] * space)
        values = [numbers(dtype, (2, 2 * groups, *size), rng),
                  numbers(dtype, (2 * groups, 3, *kernel), rng), numbers(dtype, (3 * groups,), rng)]
        product(q, account, rng, name, dtype, values, lambda x, w, b: q.call(name, x, w, b, options),
                torch_conv(space, True, stride=stride, padding=padding, dilation=dilation,
                           groups=groups, output_padding=extra), 2 * math.prod(kernel) + 1,
                f"{stride} {dilation} {padding} {extra} {groups}")


def pool(most):
    def run(q, account, rng, name):
        for dtype in DTYPES if most else FLOATS:
            for space in (1, 2, 3):
                size = [int(v) for v in rng.integers(2, 4, space)]
                padding, stride = int(rng.integers(0, 2)), int(rng.integers(0, 4))
                options = conv_options(stride=[stride] * space, before=[padding] * space,
                                       after=[padding] * space)
                x = numbers(dtype, (2, 3, *[int(v) for v in rng.integers(5, 9, space)]), rng)
                function = getattr(F, f"{'max' if most else 'avg'}_pool{space}d")
                want = function(*tensors([x]), size, stride or None, padding).numpy()
                remark = f"{size} {stride} {padding}"
                call = lambda t: q.call(name, t, size, options)  # noqa: E731
                if most:
                    exact(q, account, name, dtype, [x], call, Value.of(dtype, want), rng, remark)
                    continue
                bound = function(tensors([x])[0].abs(), size, stride or None, padding).numpy()
                slack = (math.prod(size) + 2) * accumulator(dtype) * bound + epsilon(dtype) * np.abs(want)
                near(q, account, name, dtype, [x], call, want, slack, rng, remark)
    return run


# ---- norms and weights -----------------------------------------------------------------------------


def softmax(log):
    """Along an axis, or along all axes by a list."""
    def run(q, account, rng, name):
        for dtype in FLOATS + ["i32"]:
            for shape, axis, scale in ((7,), 0, 1), ((3, 5), -1, 30), ((3, 5), 0, 1), ((2, 1, 4), 1, 3), (
                    (2, 9), 1, 1e4):
                out = dtype if dtype in FLOATS else "f32"
                x = normal(dtype, shape, rng, scale) if dtype in FLOATS else plain(dtype, shape, rng)
                v = x.numbers().astype(np.float64)
                args = (axis,)
                if name.endswith("_axes"):
                    axis = tuple(range(len(shape)))
                    args = (len(shape), list(axis))
                low = v - np.max(v, axis, keepdims=True)
                sums = np.sum(np.exp(low), axis, keepdims=True)
                want = low - np.log(sums) if log else np.exp(low) / sums
                units = (v.size if name.endswith("_axes") else shape[axis]) + 4 + np.abs(low)
                slack = units * accumulator(out) * (1 if log else want) + epsilon(out) * np.abs(want)
                near(q, account, name, dtype, [x], lambda t: q.call(name, t, *args), want, slack + 1e-45,
                     rng, f"{shape} {axis} scale {scale}", out)
    return run


def normed(v, axes, eps, centre):
    """The normalised values and their bound in epsilons."""
    n = math.prod(v.shape[a] for a in axes)
    mean = np.mean(v, axes, keepdims=True) if centre else 0
    off = (n + 2) * np.mean(np.abs(v), axes, keepdims=True) if centre else 0
    d = v - mean
    var = np.mean(d * d, axes, keepdims=True)
    wrong = 2 * off * np.mean(np.abs(d), axes, keepdims=True) + (n + 4) * var
    scale = 1 / np.sqrt(var + eps)
    return d * scale, off * scale + np.abs(d) * scale * (6 + wrong / (2 * (var + eps)))


def norms(kind):
    def run(q, account, rng, name):
        for dtype in FLOATS:
            for k in range(4):
                shape = [(3, 8), (2, 3, 5), (4, 1), (2, 4, 3)][k]
                if kind == "group":
                    shape = [(2, 4, 3), (3, 6), (2, 4, 2, 3), (1, 2, 5)][k]
                width = shape[1] if kind == "group" else shape[-1]
                x = normal(dtype, shape, rng, 2)
                given = [normal(dtype, (width,), rng) if rng.integers(2) else None
                         for _ in range(1 if kind == "rms" else 2)]
                eps = float(rng.choice([1e-5, 1e-2]))
                v = x.numbers()
                if kind == "group":
                    grouped = v.reshape(shape[0], 2, -1)
                    y, units = (a.reshape(shape) for a in normed(grouped, (2,), eps, True))
                    side = (1, width) + (1,) * (len(shape) - 2)
                else:
                    y, units = normed(v, (len(shape) - 1,), eps, kind == "layer")
                    side = (width,)
                gamma = 1 if given[0] is None else given[0].numbers().reshape(side)
                beta = 0 if len(given) < 2 or given[1] is None else given[1].numbers().reshape(side)
                want = y * gamma + beta
                slack = (units + np.abs(y) * 2) * np.abs(gamma) * accumulator(dtype) + \
                    epsilon(dtype) * np.abs(want) + accumulator(dtype) * np.abs(beta)
                values = [x] + [g for g in given if g is not None]

                def call(t, *rest):
                    rest = list(rest)
                    parts = [None if g is None else rest.pop(0) for g in given]
                    args = parts + ([2] if kind == "group" else []) + [eps]
                    return q.call(name, t, *args)
                near(q, account, name, dtype, values, call, want, slack, rng, f"{shape} {eps}")
    return run


def attention(q, account, rng, name):
    attention_with(q, account, rng)
    for dtype in FLOATS:
        for causal in (False, True):
            for shape, keys in ((2, 5, 4), 5), ((3, 7), 3), ((1, 2, 4, 8), 6), ((2, 33, 16), 33):
                if causal and keys < shape[-2]:
                    continue
                other = shape[:-2] + (keys, shape[-1])
                values = [normal(dtype, s, rng) for s in (shape, other, other)]
                query, key, value = [v.numbers() for v in values]
                root = math.sqrt(shape[-1])
                scores = query @ np.swapaxes(key, -1, -2) / root
                sizes = np.abs(query) @ np.swapaxes(np.abs(key), -1, -2) / root
                if causal:
                    seen = np.arange(keys) <= np.arange(shape[-2])[:, None] + keys - shape[-2]
                    scores = np.where(seen, scores, -np.inf)
                weights = np.exp(scores - np.max(scores, -1, keepdims=True))
                weights /= np.sum(weights, -1, keepdims=True)
                want = weights @ value
                units = 2 * (shape[-1] + 3) * sizes.max() + 2 * keys + 12
                slack = units * accumulator(dtype) * (weights @ np.abs(value)) + epsilon(dtype) * np.abs(want)
                near(q, account, name, dtype, values,
                     lambda *t: q.call(name, *t, attention_options(causal)), want, slack, rng,
                     f"{shape} {keys} {causal}")


# ---- losses ----------------------------------------------------------------------------------------


def loss(function, scales=(1, 5), labels=False, options=(), y_values=None):
    """function(x, y) gives the terms and the magnitude that rounding works on."""
    def run(q, account, rng, name):
        for dtype in FLOATS:
            for scale in scales:
                for shape in (4, 3), (1, 5), (2, 3, 4):
                    x = normal(dtype, shape, rng, scale)
                    y = Value.of("i64", rng.integers(0, shape[-1], shape[:-1])) if labels else \
                        Value.of(dtype, y_values(rng, shape)) if y_values else normal(dtype, shape, rng,
                                                                                     scale)
                    terms, size = function(x.numbers(), y.numbers(), *options)
                    want = np.mean(terms)
                    slack = (terms.size + 4) * accumulator(dtype) * np.mean(np.abs(terms)) + \
                        8 * accumulator(dtype) * np.mean(size) + epsilon(dtype) * abs(want)
                    near(q, account, name, dtype, [x, y], lambda a, b: q.call(name, a, b, *options),
                         want, slack, rng, f"{shape} scale {scale}")
    return run


def pick(v, labels):
    return np.take_along_axis(v, labels[..., None], -1)[..., 0]


def cross_entropy(x, y):
    low = x - np.max(x, -1, keepdims=True)
    terms = np.log(np.sum(np.exp(low), -1)) - pick(low, y)
    return terms, np.abs(terms) + np.max(np.abs(low), -1)


def huber(x, y, delta):
    d = np.abs(x - y)
    terms = np.where(d <= delta, d * d / 2, delta * (d - delta / 2))
    return terms, np.abs(terms) + delta * d


def bce(x, y):
    terms = np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))
    return terms, np.abs(terms) + np.abs(x)


def ignoring(q, account, rng, name):
    """Labels equal to the ignored one count neither in the sum nor in the number."""
    for dtype in FLOATS:
        for ignored in (-100, 1):
            x, y = normal(dtype, (6, 4), rng, 3), rng.integers(0, 4, 6)
            y[rng.integers(0, 6, 2)] = ignored
            v, kept = x.numbers(), y != ignored
            terms, size = cross_entropy(v[kept], y[kept])
            want = np.mean(terms) if kept.any() else np.nan
            slack = 12 * accumulator(dtype) * np.mean(size) + epsilon(dtype) * abs(want)
            near(q, account, name, dtype, [x, Value.of("i64", y)], lambda a, b: q.call(name, a, b, ignored),
                 want, slack, rng, f"{ignored}")


ROWS = {
    "cross_entropy_ignoring": ignoring, "matmul": matmul, "dot": dot, "outer": outer,
    "tensordot": tensordot, "einsum": einsum, "linear": linear, "conv": conv,
    "conv1d": conv_fixed(1), "conv2d": conv_fixed(2),
    "conv3d": conv_fixed(3), "conv_transpose": conv_transpose, "max_pool": pool(True),
    "avg_pool": pool(False), "softmax": softmax(False), "log_softmax": softmax(True),
    "softmax_axes": softmax(False), "log_softmax_axes": softmax(True),
    "layer_norm": norms("layer"), "rms_norm": norms("rms"), "group_norm": norms("group"),
    "attention": attention, "cross_entropy": loss(cross_entropy, (1, 5, 2e4), labels=True),
    "nll_loss": loss(lambda x, y: (-pick(x, y), np.abs(pick(x, y))), labels=True),
    "mse_loss": loss(lambda x, y: ((x - y) ** 2, (x - y) ** 2)),
    "l1_loss": loss(lambda x, y: (np.abs(x - y), np.abs(x - y))),
    "huber_loss": loss(huber, options=(1.0,)),
    "bce_with_logits": loss(bce, (1, 5, 50), y_values=lambda rng, s: rng.integers(0, 2, s)),
    **RANDOMS, **ANSWERS, **IMAGES}
WITH_TORCH = set(IMAGES) | {"conv", "conv1d", "conv2d", "conv3d", "conv_transpose", "max_pool", "avg_pool"}


def table():
    def row(name, run):
        if torch is None and name in WITH_TORCH:
            return lambda q, account, rng: account.skip(name, "PyTorch is not installed")
        return lambda q, account, rng: run(q, account, rng, name)
    return {name: row(name, run) for name, run in ROWS.items()}
