"""images.py - pooling, images of other sizes, grids and columns, beside PyTorch's."""

import ctypes as C
import math

import numpy as np

from quern import DTYPES, FLOATS, INTS, Options, Value, conv_options, epsilon
from reductions import accumulator
from sorting import several
from trial import exact, near, normal, plain

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = F = None

MODES = {"nearest": 0, "nearest-exact": 1, "linear": 2, "cubic": 3, "area": 4}


class PoolOptions(Options):
    _fields_ = [("size", C.c_size_t), ("kind", C.c_int), ("p", C.c_double), ("stride", C.c_int64 * 3),
                ("dilation", C.c_int64 * 3), ("before", C.c_int64 * 3), ("after", C.c_int64 * 3), ("same", C.c_bool),
                ("ceil", C.c_bool), ("exclude_padding", C.c_bool), ("adaptive", C.c_bool), ("channels_last", C.c_bool)]


class InterpolateOptions(Options):
    _fields_ = [("size", C.c_size_t), ("mode", C.c_int), ("align_corners", C.c_bool), ("antialias", C.c_bool),
                ("scale", C.c_double * 3), ("channels_last", C.c_bool)]


def of(values):
    return [torch.from_numpy(np.array(v.numbers(), np.float64)) for v in values]


def three(values):
    return tuple(values) + (0,) * (3 - len(values))


def drawn(dtype, shape, rng):
    return normal(dtype, shape, rng) if dtype in FLOATS else plain(dtype, shape, rng)


def geometry(space, rng):
    size = [int(v) for v in rng.integers(2, 4, space)]
    stride = [int(v) for v in rng.integers(1, 4, space)]
    padding = [int(rng.integers(0, 2)) for _ in size]
    return size, stride, padding, [int(v) for v in rng.integers(1, 3, space)], bool(rng.integers(2))


def image(dtype, space, rng):
    return drawn(dtype, (2, 3, *[int(v) for v in rng.integers(7, 11, space)]), rng)


def turned(last, x, axis):
    """x with its channels last, if asked for."""
    return Value(x.dtype, np.moveaxis(x.raw, 1, axis)) if last else x


def torch_pool(kind, space, p, size, stride, padding, dilation, ceil, exclude):
    name = f"{('max', 'avg', 'avg')[kind]}_pool{space}d"
    if kind == 0:
        return lambda t: getattr(F, name)(t, size, stride, padding, dilation, ceil)
    if kind == 1:
        return lambda t: getattr(F, name)(t, size, stride, padding, ceil, not exclude)
    return lambda t: (getattr(F, name)(t.abs() ** p, size, stride) * math.prod(size)) ** (1 / p)


def pool(q, account, rng, name):
    for dtype in FLOATS:
        for space in (1, 2, 3):
            for kind in (0, 1, 2):
                size, stride, padding, dilation, ceil = geometry(space, rng)
                exclude, p, last = bool(rng.integers(2)), float(rng.choice([1, 2, 3])), bool(rng.integers(2))
                if kind:
                    dilation = [1] * space
                if kind == 2:
                    padding, ceil = [0] * space, False
                options = PoolOptions.of(kind=kind, p=p, stride=three(stride), dilation=three(dilation), ceil=ceil,
                                         before=three(padding), after=three(padding), exclude_padding=exclude,
                                         channels_last=last)
                x = image(dtype, space, rng)
                t = of([x])[0]
                f = torch_pool(kind, space, p, size, stride, padding, dilation, ceil, exclude)
                want, bound = (np.moveaxis(f(v).numpy(), 1, -1) if last else f(v).numpy() for v in (t, t.abs()))
                slack = (math.prod(size) + 8) * accumulator(dtype) * np.abs(bound) + epsilon(dtype) * np.abs(want)
                near(q, account, name, dtype, [turned(last, x, -1)], lambda t: q.call(name, t, size, options), want,
                     slack, rng, f"{kind} {size} {stride} {padding} {dilation} {ceil} {exclude} {p} {last}")
            adaptive(q, account, rng, name, dtype, space)


def adaptive(q, account, rng, name, dtype, space):
    for kind in (0, 1):
        places = [int(v) for v in rng.integers(1, 6, space)]
        options = PoolOptions.of(kind=kind, adaptive=True)
        x = image(dtype, space, rng)
        f = getattr(F, f"adaptive_{'avg' if kind else 'max'}_pool{space}d")
        want, bound = f(of([x])[0], places).numpy(), f(of([x])[0].abs(), places).numpy()
        slack = kind * (math.prod(x.shape) + 8) * accumulator(dtype) * bound + kind * epsilon(dtype) * np.abs(want)
        near(q, account, name, dtype, [x], lambda t: q.call(name, t, places, options), want, slack, rng,
             f"adaptive {kind} {places}")


def max_pool_index(q, account, rng, name):
    for dtype in [d for d in DTYPES if d != "bool"]:
        for space in (1, 2, 3):
            size, stride, padding, dilation, ceil = geometry(space, rng)
            options = PoolOptions.of(stride=three(stride), dilation=three(dilation), ceil=ceil,
                                     before=three(padding), after=three(padding))
            x = image(dtype, space, rng)
            f = getattr(F, f"max_pool{space}d")
            want = f(of([x])[0], size, stride, padding, dilation, ceil, return_indices=True)
            exact(q, account, name, dtype, [x], lambda t: several(q, name, 2, t, size, options),
                  [Value.of(dtype, want[0].numpy()), Value("i64", want[1].numpy())], rng,
                  f"{size} {stride} {padding} {dilation} {ceil}")
            places = [int(v) for v in rng.integers(1, 6, space)]
            options = PoolOptions.of(adaptive=True)
            want = getattr(F, f"adaptive_max_pool{space}d")(of([x])[0], places, return_indices=True)
            exact(q, account, name, dtype, [x], lambda t: several(q, name, 2, t, places, options),
                  [Value.of(dtype, want[0].numpy()), Value("i64", want[1].numpy())], rng, f"adaptive {places}")


def fractional_max_pool(q, account, rng, name):
    for dtype in FLOATS:
        for space in (2, 3):
            size, x = [int(v) for v in rng.integers(1, 4, space)], image(dtype, space, rng)
            places = [int(rng.integers(1, n - k + 1)) for n, k in zip(x.shape[2:], size)]
            u = Value.of("f64", rng.random((2, 3, space)))
            # PyTorch's samples are those of the last axis first
            want = getattr(F, f"fractional_max_pool{space}d")(
                of([x])[0], size, places, return_indices=True,
                _random_samples=torch.from_numpy(u.raw[..., ::-1].copy() if space == 2 else u.raw.copy()))
            exact(q, account, name, dtype, [x, u], lambda t, s: several(q, name, 2, t, s, size, places),
                  [Value.of(dtype, want[0].numpy()), Value("i64", want[1].numpy())], rng, f"{size} {places}")


def max_unpool(q, account, rng, name):
    for dtype in FLOATS:
        for space in (1, 2, 3):
            x = Value.of(dtype, rng.permutation(2 * 3 * 6 ** space).reshape(2, 3, *[6] * space) % 2039)
            pooled, at = getattr(F, f"max_pool{space}d")(of([x])[0], 2, return_indices=True)
            want = getattr(F, f"max_unpool{space}d")(pooled, at, 2).numpy()
            exact(q, account, name, dtype, [Value.of(dtype, pooled.numpy()), Value("i64", at.numpy())],
                  lambda t, i: q.call(name, t, i, [6] * space), Value.of(dtype, want), rng)


def resized(x, mode, places, align, antialias, scale):
    space = x.ndim - 2
    full = {"linear": ["linear", "bilinear", "trilinear"][space - 1], "cubic": "bicubic"}.get(mode, mode)
    smooth = mode in ("linear", "cubic")
    how = {"scale_factor": scale} if scale else {"size": places}
    return F.interpolate(x, mode=full, align_corners=align if smooth else None, antialias=antialias, **how)


def interpolate(q, account, rng, name):
    for dtype in FLOATS:
        for mode in MODES:
            for _ in range(6):
                smooth = mode in ("linear", "cubic")
                antialias = smooth and bool(rng.integers(3) == 0)
                space = 2 if mode == "cubic" or antialias else int(rng.integers(1, 4))
                align = smooth and bool(rng.integers(2))
                x = image(dtype, space, rng)
                places = [int(v) for v in rng.integers(1, 20, space)]
                scale = None
                if mode not in ("area",) and rng.integers(3) == 0:
                    scale = [float(rng.choice([0.5, 1.5, 2, 2.25, 3])) for _ in places]
                    places = [int(math.floor(n * s)) for n, s in zip(x.shape[2:], scale)]
                last = bool(rng.integers(2))
                options = InterpolateOptions.of(mode=MODES[mode], align_corners=align, antialias=antialias,
                                                channels_last=last, scale=three(scale or ()))
                want = resized(of([x])[0], mode, places, align, antialias, scale).numpy()
                want = np.moveaxis(want, 1, -1) if last else want
                # coordinates and weights in double precision, a few roundings of the sums
                slack = (mode not in ("nearest", "nearest-exact")) * (
                    24 * accumulator(dtype) * 2 * np.max(np.abs(x.numbers())) + epsilon(dtype) * np.abs(want))
                near(q, account, name, dtype, [turned(last, x, -1)], lambda t: q.call(name, t, places, options), want,
                     slack, rng, f"{mode} {places} {align} {antialias} {scale} {last}")


def grid_sample(q, account, rng, name):
    for dtype in ("f32", "f64"):
        for space in (2, 3):
            for mode in ("nearest", "bilinear", "bicubic")[:5 - space]:
                for pad in ("zeros", "border", "reflection"):
                    align = bool(rng.integers(2))
                    x = image(dtype, space, rng)
                    grid = Value.of(dtype, rng.uniform(-1.6, 1.6, (2, *[int(v) for v in rng.integers(2, 6, space)],
                                                                   space)))
                    want = F.grid_sample(*of([x, grid]), mode, pad, align).numpy()
                    number = {"nearest": 0, "bilinear": 2, "bicubic": 3}[mode]
                    padding = ["zeros", "border", "reflection"].index(pad)
                    # a coordinate is off by some roundings, an image as steep as its numbers are large
                    slack = (number > 0) * 400 * epsilon(dtype) * np.max(np.abs(x.numbers())) + 0 * want
                    near(q, account, name, dtype, [x, grid],
                         lambda t, g: q.call(name, t, g, number, padding, align), want, slack, rng,
                         f"{mode} {pad} {align}")


def columns(back):
    def run(q, account, rng, name):
        for dtype in FLOATS + INTS:
            size, stride, padding, dilation, _ = geometry(2, rng)
            options = conv_options(stride=stride, before=padding, after=padding, dilation=dilation)
            x = plain(dtype, (2, 3, *[int(v) for v in rng.integers(7, 11, 2)]), rng)
            want = F.unfold(of([x])[0], size, dilation, padding, stride)
            if not back:
                exact(q, account, name, dtype, [x], lambda t: q.call(name, t, size, options),
                      Value.of(dtype, want.numpy()), rng, f"{size} {stride} {padding} {dilation}")
                continue
            places = list(x.shape[2:])
            small = Value.of(dtype, rng.integers(0, 3, want.shape))
            want = F.fold(of([small])[0], places, size, dilation, padding, stride).numpy()
            exact(q, account, name, dtype, [small], lambda t: q.call(name, t, 2, places, size, options),
                  Value.of(dtype, want), rng, f"{size} {stride} {padding} {dilation}")
    return run


IMAGES = {"pool": pool, "max_pool_index": max_pool_index, "fractional_max_pool": fractional_max_pool,
          "max_unpool": max_unpool, "interpolate": interpolate, "grid_sample": grid_sample,
          "im2col": columns(False), "col2im": columns(True)}
