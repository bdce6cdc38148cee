"""opinfo_composed.py - adapters as of opinfo_table.py of operators that are a few calls of ours, without a name
of their own here: distances, masked reductions, losses, covariances. What is compared is how those calls go
together, their gradients above all.
"""

import math

from opinfo import Lacks, T, name_of_type, torch
from opinfo_networks import NORMS, reduced, wide
from opinfo_table import INF, TABLE, beside, dims_of, over, row, sizes
from quern import ALL

BEFORE = set(TABLE)

# special functions

TABLE["lgamma"] = lambda o, x: o.lgamma(x)
TABLE["digamma"] = lambda o, x: o.digamma(x)


@row("polygamma/polygamma_n_0", "polygamma/polygamma_n_1", "special.polygamma/special_polygamma_n_0")
def polygamma(o, n, x):
    n, x = (x, n) if isinstance(n, T) else (n, x)  # as a method and as a function
    if n > 1:
        raise Lacks("derivatives of trigamma")
    return (o.trigamma if n else o.digamma)(x)


@row("mvlgamma/mvlgamma_p_1", "mvlgamma/mvlgamma_p_3", "mvlgamma/mvlgamma_p_5")
def mvlgamma(o, x, p):
    x = x if x.floats else o.cast(x, "f32")
    r = o.lgamma(x)
    for i in range(1, p):
        r = r + o.lgamma(x - i / 2)
    return o.add(r, p * (p - 1) / 4 * math.log(math.pi))


def product_of_log(log):
    """x log(y), 0 where x is, NaN where y is."""
    def call(o, x, y):
        x, y = floating(o, *(beside(o, [x, y])))
        r = o.where(o.eq(x, 0.0), o.zeros_like(o.mul(x, y)), o.mul(x, log(o, y)))
        return o.where(o.isnan(y), o.add(o.zeros_like(o.mul(x, y)), math.nan), r)
    return call


def floating(o, *xs):
    """Whole numbers as f32 where none is a float."""
    if any(x.floats or x.dtype[0] == "c" for x in xs):
        return list(xs)
    return [o.cast(x, "f32") for x in xs]


TABLE["xlogy"] = product_of_log(lambda o, y: o.log(y))
TABLE["special.xlog1py"] = product_of_log(lambda o, y: o.log1p(y))
TABLE["special.ndtr"] = lambda o, x: o.mul(o.erfc(o.mul(x, -math.sqrt(0.5))), 0.5)
TABLE["logaddexp2"] = lambda o, x, y: o.div(o.logaddexp(o.mul(x, math.log(2)), o.mul(y, math.log(2))), math.log(2))
TABLE["fmax"] = lambda o, x, y: nan_aside(o, "maximum", x, y)
TABLE["fmin"] = lambda o, x, y: nan_aside(o, "minimum", x, y)
TABLE["float_power"] = lambda o, x, y: o.pow(*[o.cast(t, "c128" if "c" in (x.dtype[0], getattr(y, "dtype", "f")[0])
                                                      or isinstance(y, complex) else "f64")
                                               for t in beside(o, [x, y])])
TABLE["nn.functional.hardshrink"] = lambda o, x, lambd=0.5: o.where(
    o.gt(o.abs(x), lambd), x, o.where(o.isnan(x), x, o.zeros_like(x)))
TABLE["nn.functional.softshrink"] = lambda o, x, lambd=0.5: x - o.clamp(x, -lambd, lambd)


@row("special.entr")
def entr(o, x):
    x, = floating(o, x)
    r = o.where(o.gt(x, 0.0), o.neg(o.mul(x, o.log(o.where(o.gt(x, 0.0), x, o.ones_like(x))))), o.zeros_like(x))
    return o.where(o.lt(x, 0.0), o.add(o.zeros_like(x), -INF), o.where(o.isnan(x), x, r))


def nan_aside(o, name, x, y):
    r = getattr(o, name)(x, y)
    return r if not r.floats else o.where(o.isnan(x), y, o.where(o.isnan(y), x, r))


# shapes

TABLE["zero_"] = lambda o, x: o.zeros_like(x)
TABLE["to"] = lambda o, x, *args, **given: to(o, x, args, given)
TABLE["nn.functional.channel_shuffle"] = lambda o, x, groups: o.reshape(o.transpose(o.reshape(
    x, x.ndim + 1, [x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]]), 1, 2), x.ndim, x.shape)
TABLE["cartesian_prod"] = lambda o, *xs: xs[0] if len(xs) == 1 else o.stack(len(xs), [
    o.reshape(t, 1, [-1]) for t in o.meshgrid(len(xs), list(xs), n=len(xs))], -1)
TABLE["isin"] = lambda o, x, y, assume_unique=False, invert=False: within(o, x, y)
TABLE["linalg.vander"] = lambda o, x, N=None: o.pow(o.unsqueeze(o.atleast(x, 1), -1), o.arange_int(
    "i64", 0, x.shape[-1] if N is None else N, 1))


def within(o, x, y):
    return o.any(o.eq(o.unsqueeze(x, -1), o.reshape(y, 1, [-1])), -1, False)


def to(o, x, args, given):
    dtype = next((a for a in [*args, *given.values()] if isinstance(a, torch.dtype)), None)
    like = next((a for a in args if isinstance(a, T)), None)
    return o.cast(x, name_of_type(dtype) if dtype else like.dtype if like else x.dtype)


@row("block_diag")
def block_diag(o, *xs):
    xs = [o.atleast(x, 2) for x in xs]
    rows, columns = [sum(x.shape[i] for x in xs) for i in (0, 1)]
    parts, at = [], 0
    for x in xs:
        parts.append(o.pad(x, [0, 0, at, columns - at - x.shape[1]], 0, 0.0))
        at += x.shape[1]
    return o.concat(len(parts), parts, 0)


@row("as_strided_scatter")
def as_strided_scatter(o, x, src, size, stride, storage_offset=0):
    places = o.as_strided(o.arange_int("i64", 0, math.prod(x.shape), 1), len(size), list(size), list(stride),
                          storage_offset)
    r = o.index_copy(o.reshape(x, 1, [-1]), o.reshape(places, 1, [-1]), o.reshape(src, 1, [-1]), 0)
    return o.reshape(r, x.ndim, x.shape)


@row("put")
def put(o, x, index, source, accumulate=False):
    flat = [o.reshape(t, 1, [-1]) for t in (x, index, source)]
    r = o.index_add(*flat, 0) if accumulate else o.index_copy(*flat, 0)
    return o.reshape(r, x.ndim, x.shape)


@row("sum_to_size")
def sum_to_size(o, x, *shape):
    shape = sizes(shape)
    front = x.ndim - len(shape)
    axes = list(range(front)) + [front + i for i, n in enumerate(shape) if n == 1 and x.shape[front + i] != 1]
    r = o.reshape(o.sum_axes(x, len(axes), axes, True) if axes else x, len(shape), shape)
    return r if x.floats or x.dtype[0] == "c" or x.shape == shape and shape else o.cast(r, "i64")


@row("unravel_index")
def unravel_index(o, index, shape):
    shape, r = [shape] if isinstance(shape, int) else list(shape), []
    index = o.cast(index, "i64")
    for n in reversed(shape):
        r.append(o.mod(index, n))
        index = o.floor_div(index, n)
    return r[::-1]


# distances and norms

@row("cdist")
def cdist(o, x, y, p=2.0, compute_mode=None):
    return o.norm(o.unsqueeze(x, -2) - o.unsqueeze(y, -3), -1, float(p), False)


@row("nn.functional.pdist")
def pdist(o, x, p=2.0):
    n = x.shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    a, b = (o.take(x, o.plain("i64", [pair[k] for pair in pairs]), 0) for k in (0, 1))
    return o.norm(a - b, -1, float(p), False)


@row("nn.functional.pairwise_distance")
def pairwise_distance(o, x, y, p=2.0, eps=1e-6, keepdim=False):
    return o.norm(o.add(*floating(o, x - y), eps), -1, float(p), keepdim)


TABLE["dist"] = lambda o, x, y, p=2: o.norm(x - y, ALL, float(p), False)
TABLE["nn.functional.normalize"] = lambda o, x, p=2.0, dim=1, eps=1e-12: o.div(x, o.clamp(
    over(o, "norm", x, dim, True, float(p)), eps, INF))
TABLE["norm/nuc"] = lambda o, x, p="nuc", dim=None, keepdim=False, **_: TABLE["linalg.matrix_norm"](
    o, x, "nuc", (-2, -1) if dim is None else dim, keepdim)


@row("renorm")
def renorm(o, x, p, dim, maxnorm):
    axes = [i for i in range(x.ndim) if i != dim % x.ndim]
    n = o.norm_axes(x, len(axes), axes, float(p), True)
    return o.mul(x, o.where(o.gt(n, maxnorm), o.div(o.full_like(n, maxnorm), o.add(n, 1e-7)), o.ones_like(n)))


@row("linalg.cond")
def cond(o, x, p=None):
    if p in (None, 2, -2):
        s = o.svd(x)[1]
        large, small = o.max(s, -1, False), o.min(s, -1, False)
        return o.div(small, large) if p == -2 else o.div(large, small)
    f = TABLE["linalg.matrix_norm"]
    return o.mul(f(o, x, p), f(o, o.inv(x), p))


@row("nn.functional.local_response_norm")
def local_response_norm(o, x, size, alpha=1e-4, beta=0.75, k=1.0):
    amounts = [0] * (2 * x.ndim)
    amounts[2:4] = size // 2, (size - 1) // 2
    means = o.mean(o.unfold(o.pad(o.square(x), amounts, 0, 0.0), 1, size, 1), -1, False)
    return o.div(x, o.pow(o.add(o.mul(means, alpha), k), beta))


@row("nn.functional.bilinear")
def bilinear(o, x, y, w, b=None):
    r = o.sum_axes(o.unsqueeze(o.unsqueeze(x, -2), -1) * w * o.unsqueeze(o.unsqueeze(y, -2), -2), 2, [-2, -1], False)
    r = r if r.floats else o.cast(r, x.dtype)
    return r if b is None else r + b


# sums along a line, covariances

def trapezoid(o, y, x=None, dx=1, dim=-1):
    n = y.shape[dim]
    means = o.div(o.narrow(y, dim, 1, n - 1) + o.narrow(y, dim, 0, n - 1), 2.0)
    if x is None:
        return o.mul(means, dx)
    if x.ndim == 1:
        axis = dim % y.ndim
        return means * o.reshape(o.diff(x, 1, 0), y.ndim, [-1 if i == axis else 1 for i in range(y.ndim)])
    return means * o.diff(x, 1, dim)


TABLE["trapezoid"] = TABLE["trapz"] = lambda o, y, x=None, dx=1, dim=-1: o.sum(trapezoid(o, y, x, dx, dim), dim, False)
TABLE["cumulative_trapezoid"] = lambda o, y, x=None, dx=1, dim=-1: o.cumsum(trapezoid(o, y, x, dx, dim), dim)


@row("cov")
def cov(o, x, correction=1, fweights=None, aweights=None):
    x, = floating(o, x)
    x = o.reshape(x, 2, [1, -1]) if x.ndim < 2 else x
    w = None
    for given in (fweights, aweights):
        if given is not None:
            w = given if w is None else w * given
    if w is None:
        total, mean = x.shape[1], o.mean(x, 1, True)
        d = x - mean
        scaled, count = d, total - correction
        if count <= 0:
            raise Lacks("covariances of too few, which PyTorch warns of")
        r = o.div(o.matmul(scaled, o.conj(o.transpose(d, 0, 1))), float(count))
    else:
        w = w if w.floats else o.cast(w, {"c64": "f32", "c128": "f64"}.get(x.dtype, x.dtype))
        total = o.sum(w, ALL, False)
        d = x - o.div(o.sum(x * w, 1, True), total)
        if aweights is not None and correction:
            a = o.div(o.sum(w * o.cast(aweights, w.dtype), ALL, False), total)
            count = total - o.mul(a, correction)
        else:
            count = o.sub(total, correction)
        count = o.clamp(count, 0.0, INF)
        r = o.div(o.matmul(d * w, o.conj(o.transpose(d, 0, 1))), count)
    return o.reshape(r, 0, []) if r.shape == [1, 1] else o.squeeze_axes(
        r, sum(n == 1 for n in r.shape), [i for i, n in enumerate(r.shape) if n == 1]) if 1 in r.shape else r


@row("corrcoef")
def corrcoef(o, x):
    c = cov(o, x)
    if not c.ndim:
        return o.div(c, c)
    s = o.sqrt(o.real(o.diagonal_axes(c, 0, 0, 1)))
    r = o.div(o.div(c, o.unsqueeze(s, 1)), s)
    if r.dtype[0] == "c":
        return o.complex(o.clamp(o.real(r), -1, 1), o.clamp(o.imag(r), -1, 1))
    return o.clamp(r, -1, 1)


# linear algebra

@row("cholesky_solve")
def cholesky_solve(o, b, a, upper=False):
    c = o.conj(a) if a.dtype[0] == "c" else a
    x = o.solve_triangular(c if upper else a, b, upper, upper, False)
    return o.solve_triangular(a if upper else c, x, upper, not upper, False)


@row("cholesky_inverse")
def cholesky_inverse(o, a, upper=False):
    return cholesky_solve(o, o.expand(o.eye(a.dtype, a.shape[-1], a.shape[-1]), a.ndim, a.shape), a, upper)


@row("linalg.tensorinv")
def tensorinv(o, x, ind=2):
    n = math.prod(x.shape[:ind])
    return o.reshape(o.inv(o.reshape(x, 2, [n, -1])), x.ndim, x.shape[ind:] + x.shape[:ind])


@row("linalg.tensorsolve")
def tensorsolve(o, a, b, dims=None):
    if dims is not None:
        a = o.moveaxis(a, len(dims), list(dims), list(range(a.ndim - len(dims), a.ndim)))
    rest = a.shape[b.ndim:]
    n = math.prod(rest)
    return o.reshape(o.solve(o.reshape(a, 2, [n, n]), o.reshape(b, 2, [n, 1])), len(rest), rest)


# masked

MASKED = {"sum": (0.0, "sum"), "prod": (1.0, "prod"), "amax": (-INF, "max"), "amin": (INF, "min"),
          "logsumexp": (-INF, "logsumexp"), "argmax": (-INF, "argmax"), "argmin": (INF, "argmin")}


def shown(o, x, mask, fill):
    """x, fill where the mask says no."""
    if mask is None:
        return x
    if x.whole and math.isinf(fill):
        info = torch.iinfo(getattr(torch, {"i": "int", "u": "uint"}[x.dtype[0]] + x.dtype[1:]))
        if info.bits > 32:
            raise Lacks("bounds of i64, which are no doubles")
        fill = float(info.max if fill > 0 else info.min)
    elif x.whole or x.dtype == "bool":
        return o.where(mask, x, o.cast(o.full_like(x, fill), x.dtype))
    return o.where(mask, x, o.full_like(x, fill))


def counted(o, x, mask, dim):
    """How many of the elements that a reduction takes together count, with the axes kept."""
    ones = o.ones_like(o.real(x) if x.dtype[0] == "c" else x)
    return over(o, "sum", shown(o, ones, mask, 0.0), dim, True)


def masked_reduction(name):
    fill, ours = MASKED[name]

    def call(o, x, dim=None, keepdim=False, dtype=None, mask=None):
        x = o.cast(x, name_of_type(dtype)) if dtype is not None else x
        r = over(o, ours, shown(o, x, mask, fill), dim, keepdim)
        if name in ("argmax", "argmin", "logsumexp"):
            return o.cast(r, x.dtype)  # PyTorch's are of x's dtype
        return o.cast(r, name_of_type(dtype)) if dtype is not None else r
    return call


for name in MASKED:
    TABLE["masked." + name] = masked_reduction(name)


@row("masked.mean")
def masked_mean(o, x, dim=None, keepdim=False, dtype=None, mask=None):
    x = o.cast(x, name_of_type(dtype)) if dtype is not None else x
    r = o.div(over(o, "sum", shown(o, x, mask, 0.0), dim, True), counted(o, x, mask, dim))
    return kept(o, r, x, dim, keepdim)


def kept(o, r, x, dim, keepdim):
    axes = [d % x.ndim for d in dims_of(dim) or range(x.ndim)] if x.ndim else []
    return r if keepdim or not axes else o.squeeze_axes(r, len(axes), axes)


def masked_spread(root):
    def call(o, x, *args, dim=None, unbiased=None, correction=None, keepdim=False, dtype=None, mask=None):
        if args:
            raise Lacks("options in dim's place")
        x, = floating(o, o.cast(x, name_of_type(dtype)) if dtype is not None else x)
        n = counted(o, x, mask, dim)
        mean = o.div(over(o, "sum", shown(o, x, mask, 0.0), dim, True), n)
        d = shown(o, x - mean, mask, 0.0)
        less = float(correction if correction is not None else 1 if unbiased is None else unbiased)
        squares = o.real(d * o.conj(d)) if d.dtype[0] == "c" else o.square(d)
        count = o.sub(n, less)
        r = o.div(over(o, "sum", squares, dim, True), o.clamp(count, 0.0, INF))
        r = kept(o, o.sqrt(r) if root else r, x, dim, keepdim)
        return o.complex(r, None) if x.dtype[0] == "c" else r
    return call


TABLE["masked.var"], TABLE["masked.std"] = masked_spread(False), masked_spread(True)
for name, fill in {"softmax": -INF, "log_softmax": -INF, "softmin": INF}.items():
    TABLE["masked." + name] = lambda o, x, dim, dtype=None, mask=None, name=name, fill=fill: getattr(o, name)(
        shown(o, o.cast(x, name_of_type(dtype)) if dtype is not None else x, mask, fill), dim)
for name, fill in {"cumsum": 0.0, "cumprod": 1.0}.items():
    TABLE["masked." + name] = lambda o, x, dim, dtype=None, mask=None, name=name, fill=fill: o.cast(getattr(o, name)(
        shown(o, x, mask, fill), dim), name_of_type(dtype) if dtype is not None else x.dtype)


@row("masked.norm")
def masked_norm(o, x, ord, dim=None, keepdim=False, dtype=None, mask=None):
    return over(o, "norm", shown(o, x, mask, INF if ord < 0 else 0.0), dim, keepdim, float(ord))


@row("masked.normalize")
def masked_normalize(o, x, ord, dim, eps=1e-12, dtype=None, mask=None):
    n = masked_norm(o, x, ord, dim, True, dtype, mask)
    return o.div(shown(o, x, mask, 0.0), o.clamp(n, eps, INF))


@row("masked.logaddexp")
def masked_logaddexp(o, x, y, input_mask=None, other_mask=None, dtype=None):
    return o.logaddexp(shown(o, x, input_mask, -INF), shown(o, y, other_mask, -INF))


# losses

@row("nn.functional.multi_margin_loss")
def multi_margin(o, x, y, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    single = x.ndim < 2
    x, y = o.reshape(x, 2, [1, -1]) if single else x, o.reshape(y, 1, [-1])
    own = o.one_hot(y, x.shape[1], "bool")
    picked = o.take_along_axis(x, o.unsqueeze(y, -1), 1)
    terms = o.relu(o.add(x - picked, margin))
    terms = terms if p == 1 else o.square(terms)
    if weight is not None:
        terms = terms * o.unsqueeze(o.take(weight, y, 0), -1)
    r = o.div(o.sum(o.where(own, o.zeros_like(terms), terms), 1, False), float(x.shape[1]))
    return o.reshape(r, 0, []) if single and reduction == "none" else reduced(o, r, reduction)


@row("nn.functional.multilabel_soft_margin_loss")
def multilabel_soft_margin(o, x, y, weight=None, size_average=None, reduce=None, reduction="mean"):
    terms = o.neg(y * o.log_sigmoid(x) + (o.add(o.neg(y), 1)) * o.log_sigmoid(o.neg(x)))
    terms = terms if weight is None else terms * weight
    return reduced(o, o.mean(terms, -1, False), reduction)


def linear_cross_entropy(o, x, w, y, **given):
    if w.ndim > 2 or "bias" in given or "linear_bias" in given:
        raise Lacks("linear_cross_entropy with a bias or places beside the classes")
    given = {k: v for k, v in given.items() if k in ("weight", "ignore_index", "reduction", "label_smoothing")}
    if y.floats:
        raise Lacks("linear_cross_entropy of soft labels")
    return TABLE["nn.functional.cross_entropy"](o, o.matmul(x, o.transpose(w, 0, 1)), y, **given)


for name in ("", "/chunked", "/chunked_none"):
    TABLE["nn.functional.linear_cross_entropy" + name] = linear_cross_entropy


@row("nn.functional.embedding_bag")
def embedding_bag(o, index, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    weight, index = (index, weight) if index.floats else (weight, index)
    if index.ndim != 2 or max_norm is not None or scale_grad_by_freq or padding_idx is not None:
        raise Lacks("bags of several lengths, options of an embedding")
    rows = o.embedding(weight, index)
    if per_sample_weights is not None:
        rows = rows * o.unsqueeze(per_sample_weights, -1)
    return getattr(o, mode)(rows, 1, False)


# transforms and normalisations

SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def half(name):
    def call(o, x, s=None, dim=None, norm=None):
        if name[-1] == "2" and dim is None:
            dim = (-2, -1)
        if name[0] == "h":
            return TABLE["fft.irfftn"](o, o.conj(wide(o, x)), s=s, dim=dim, norm=SWAPPED[norm])
        return o.conj(TABLE["fft.rfftn"](o, x, s=s, dim=dim, norm=SWAPPED[norm]))
    return call


for name in ("hfftn", "hfft2", "ihfftn", "ihfft2"):
    TABLE["fft." + name] = half(name)


@row("stft")
def stft(o, x, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
         onesided=None, return_complex=None, align_to_window=None):
    if x.dtype[0] == "c" or onesided is False or window is not None and window.dtype[0] == "c" or align_to_window:
        raise Lacks("transforms of complex signals, whole spectra")
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    front = x.shape[:-1]
    x = o.reshape(x, 2, [-1, x.shape[-1]])
    if center:
        x = o.pad(x, [0, 0, n_fft // 2, n_fft // 2], ["constant", "reflect"].index(pad_mode), 0.0)
    frames = o.unfold(x, 1, n_fft, hop)
    window = o.ones(x.dtype, 1, [length]) if window is None else window
    before = (n_fft - length) // 2
    frames = frames * o.pad(window, [before, n_fft - length - before], 0, 0.0)
    r = o.transpose(o.as_complex(o.rfft(frames, 0, -1, NORMS["ortho" if normalized else None])), 1, 2)
    r = o.reshape(r, len(front) + 2, front + r.shape[1:])
    return r if return_complex else o.as_real(r)


@row("_softmax_backward_data")
def softmax_backward(o, grad, y, dim, dtype):
    r = y * (grad - o.sum(grad * y, dim, True))
    return o.cast(r, name_of_type(dtype))


TABLE["native_batch_norm"] = (lambda o, x, w, b, mean, var, training, momentum, eps: TABLE[
    "nn.functional.batch_norm"](o, x, mean, var, w, b, training, momentum, eps), lambda r: r[0])

COMPOSED = set(TABLE) - BEFORE
