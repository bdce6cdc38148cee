"""opinfo_table.py - PyTorch's operators by our functions: each adapter takes what PyTorch's operator takes,
behind `o`, our functions (opinfo.Ours). Where a sample asks for what we lack it raises Lacks.
A row may be a pair, the second what is compared of PyTorch's results in place of them.
"""

import math

from opinfo import Lacks, T, name_of_type, torch, types
from quern import ALL, END, IndexItem

INF, COMPLEX = math.inf, "complex numbers to fill with"
TABLE = {}


def lacks(reason):
    raise Lacks(reason)


def row(*names, post=None):
    def put(f):
        for name in names:
            TABLE[name] = (f, post) if post else f
        return f
    return put


def same(names, ours=None):
    """Operators of tensors alone, in the same order."""
    for name in names.split():
        def call(o, *xs, f=ours or name.split(".")[-1]):
            return getattr(o, f)(*beside(o, xs))
        TABLE[name] = call


def beside(o, xs):
    """Numbers in front of a tensor, which our functions' weak numbers cannot be found for otherwise."""
    first = next(x for x in xs if isinstance(x, T))
    return [x if isinstance(x, T) else T(o, o.number(first, x)) for x in xs]


same("abs acos acosh asin asinh atan atanh ceil cos cosh exp exp2 expm1 floor log log10 log1p log2 neg reciprocal "
     "rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc erf erfc erfinv sign signbit isnan isinf isfinite "
     "logical_not angle real conj imag nn.functional.relu nn.functional.relu6 nn.functional.hardswish "
     "nn.functional.hardsigmoid nn.functional.silu nn.functional.mish nn.functional.softsign nn.functional.selu "
     "clone contiguous add mul sub maximum minimum atan2 hypot logaddexp pow eq ne lt le gt ge logical_and "
     "logical_or logical_xor copysign heaviside nextafter gcd lcm matmul dot mm bmm mv outer kron "
     "nn.functional.prelu nn.functional.linear erfc ge where zeros_like ones_like expand_as lerp det")
for torchs, our in {"sgn": "sign", "positive": "clone", "conj_physical": "conj", "resolve_conj": "clone",
                    "resolve_neg": "clone", "alias_copy": "clone", "bitwise_not": "not", "round": "round",
                    "nn.functional.logsigmoid": "log_sigmoid", "view_as_real": "as_real", "complex": "complex",
                    "view_as_complex": "as_complex", "true_divide": "div", "floor_divide": "floor_div",
                    "remainder": "mod", "fmod": "rem", "bitwise_and": "and", "bitwise_or": "or",
                    "bitwise_xor": "xor", "bitwise_left_shift": "shl", "bitwise_right_shift": "shr",
                    "max/binary": "maximum", "min/binary": "minimum", "__radd__": "add", "__rmul__": "mul",
                    "__rand__": "and", "__ror__": "or", "__rxor__": "xor", "mm": "matmul", "bmm": "matmul",
                    "mv": "matmul", "linalg.det": "det", "linalg.inv": "inv", "linalg.matrix_exp": "matrix_exp",
                    "matrix_exp": "matrix_exp", "nn.functional.silu/complex": "silu"}.items():
    same(torchs, our)


def scaled(name, swap=False):
    def call(o, x, y, alpha=1):
        x, y = beside(o, [x, y]) if not swap else beside(o, [y, x])
        if alpha != 1:
            if swap:
                x, y = x, o.mul(y, alpha)
            else:
                y = o.mul(y, alpha)
        return getattr(o, name)(x, y)
    return call


TABLE.update(add=scaled("add"), sub=scaled("sub"), rsub=scaled("sub", True))
for reversed_name, f in {"__rdiv__": "div", "__rmod__": "mod", "__rpow__": "pow", "__rsub__": "sub",
                         "__rmatmul__": "matmul"}.items():
    TABLE[reversed_name] = lambda o, x, y, f=f: getattr(o, f)(*beside(o, [y, x]))


@row("div/no_rounding_mode", "div/trunc_rounding", "div/floor_rounding")
def div(o, x, y, rounding_mode=None):
    x, y = beside(o, [x, y])
    if rounding_mode == "trunc":
        if not x.floats and not y.floats:
            return o.floor_div(x - o.rem(x, y), y)
        return o.trunc(o.div(x, y))
    return o.floor_div(x, y) if rounding_mode else o.div(x, y)


TABLE["deg2rad"] = lambda o, x: o.mul(x, math.pi / 180)
TABLE["rad2deg"] = lambda o, x: o.mul(x, 180 / math.pi)
TABLE["nn.functional.tanhshrink"] = lambda o, x: x - o.tanh(x)
TABLE["frac"] = lambda o, x: x - o.trunc(x)
TABLE["addcmul"] = lambda o, x, a, b, value=1: x + o.mul(o.mul(a, b), value)
TABLE["addcdiv"] = lambda o, x, a, b, value=1: x + o.mul(o.div(a, b), value)
TABLE["isreal"] = lambda o, x: o.eq(o.imag(x), 0.0) if x.dtype[0] == "c" else o.full_like(o.isnan(x), 1.0)
TABLE["isposinf"] = lambda o, x: o.eq(x, INF)
TABLE["isneginf"] = lambda o, x: o.eq(x, -INF)
TABLE["lerp"] = lambda o, x, y, weight: o.lerp(x, y, weight)
TABLE["polar"] = lambda o, r, a: o.complex(o.mul(r, o.cos(a)), o.mul(r, o.sin(a)))
TABLE["nan_to_num"] = lambda o, x, nan=None, posinf=None, neginf=None: o.nan_to_num(
    x, nan or 0.0, INF if posinf is None else posinf, -INF if neginf is None else neginf)
TABLE["nn.functional.celu"] = lambda o, x, alpha=1.0, inplace=False: o.celu(x, alpha)
TABLE["nn.functional.elu"] = lambda o, x, alpha=1.0, inplace=False: o.elu(x, alpha)
TABLE["nn.functional.leaky_relu"] = lambda o, x, negative_slope=0.01, inplace=False: o.leaky_relu(x, negative_slope)
TABLE["nn.functional.hardtanh"] = lambda o, x, min_val=-1.0, max_val=1.0, inplace=False: o.hardtanh(
    x, min_val, max_val)
TABLE["nn.functional.threshold"] = lambda o, x, t, v, inplace=False: o.threshold(x, t, v)
TABLE["nn.functional.softplus"] = lambda o, x, beta=1, threshold=20: o.softplus_beta(x, beta, threshold)
TABLE["nn.functional.glu"] = lambda o, x, dim=-1: o.glu(x, dim)
TABLE["nn.functional.gelu"] = lambda o, x, approximate="none": o.gelu(x) if approximate == "none" else o.gelu_tanh(x)
TABLE["isclose"] = lambda o, x, y, rtol=1e-5, atol=1e-8, equal_nan=False: o.isclose(x, y, rtol, atol, equal_nan)
TABLE["allclose"] = lambda o, x, y, rtol=1e-5, atol=1e-8, equal_nan=False: o.q.read(
    o.allclose(x, y, rtol, atol, equal_nan).handle).raw.item()
TABLE["equal"] = lambda o, x, y: o.q.read(o.all(o.eq(x, y), ALL, False).handle).raw.item() \
    if x.shape == y.shape else False
TABLE["item"] = lambda o, x: o.q.read(x.handle).numbers().item()
TABLE["ldexp"] = lambda o, x, y: o.ldexp(x, y) if y.whole else o.mul(x, o.exp2(y))
TABLE["frexp"] = lambda o, x: o.frexp(x)


@row("logit")
def logit(o, x, eps=None):
    if eps is not None and eps > 0.5:
        raise Lacks("bounds in the wrong order")
    x = x if x.floats else o.cast(x, "f32")
    return o.logit(x if eps is None else o.clamp(x, eps, 1 - eps))


@row("clamp")
def clamp(o, x, min=None, max=None):
    if isinstance(min, T) or isinstance(max, T):
        return o.clip(x, min, max)
    return o.clamp(x, -INF if min is None else min, INF if max is None else max)


TABLE["clamp_min"] = lambda o, x, m: clamp(o, x, m)
TABLE["clamp_max"] = lambda o, x, m: clamp(o, x, None, m)


@row("round/decimals_0", "round/decimals_3", "round/decimals_neg_3")
def rounded(o, x, decimals=0):
    if decimals < 0:
        return o.mul(o.round(o.div(x, 10.0 ** -decimals)), 10.0 ** -decimals)
    return o.div(o.round(o.mul(x, 10.0 ** decimals)), 10.0 ** decimals) if decimals else o.round(x)


# products

def affine(product):
    def call(o, x, *rest, beta=1, alpha=1):
        if x.whole and (isinstance(beta, float) or isinstance(alpha, float)):
            raise Lacks("fractions beside whole numbers, cut to whole ones")
        r = product(o, *rest)
        r = r if alpha == 1 else o.mul(r, alpha)
        return r if beta == 0 else (x if beta == 1 else o.mul(x, beta)) + r
    return call


TABLE["addmm"] = TABLE["addmm/decomposed"] = TABLE["addmv"] = TABLE["baddbmm"] = affine(lambda o, a, b: o.matmul(a, b))
TABLE["addbmm"] = affine(lambda o, a, b: o.cast(o.sum(o.matmul(a, b), 0, False), a.dtype))
TABLE["addr"] = affine(lambda o, a, b: o.outer(a, b))
TABLE["vdot"] = lambda o, a, b: o.dot(o.conj(a), b)
TABLE["linalg.vecdot"] = lambda o, x, y, dim=-1: o.sum(o.conj(x) * y, dim, False)
TABLE["einsum"] = lambda o, xs, spec: o.einsum(len(xs), xs, spec.replace(" ", ""))
TABLE["cross"] = lambda o, x, y, dim=None: o.cross(x, y, x.shape.index(3) if dim is None else dim)
TABLE["linalg.cross"] = lambda o, x, y, dim=-1: o.cross(x, y, dim)


@row("linalg.multi_dot")
def multi_dot(o, xs):
    r = xs[0]
    for x in xs[1:]:
        r = o.matmul(r, x)
    return r


@row("inner")
def inner(o, x, y):
    if not x.ndim or not y.ndim:
        return x * y
    return o.tensordot(x, y, 1, [-1], [-1])


@row("tensordot")
def tensordot(o, x, y, dims=2):
    if isinstance(dims, int):
        dims = [list(range(-dims, 0)), list(range(dims))]
    a, b = [[d] if isinstance(d, int) else list(d) for d in dims]
    return o.tensordot(x, y, len(a), a, b)


# reductions

def dims_of(dim):
    return None if dim is None else [dim] if isinstance(dim, int) else list(dim)


def over(o, name, x, dim, keepdim, *options):
    """A reduction over one axis, some or all of them."""
    dims = dims_of(dim)
    if not dims:
        return getattr(o, name)(x, ALL, *options, keepdim)
    if len(dims) == 1:
        return getattr(o, name)(x, dims[0], *options, keepdim)
    return getattr(o, name + "_axes")(x, len(dims), dims, *options, keepdim)


def reduction(name):
    def call(o, x, dim=None, keepdim=False, dtype=None):
        if isinstance(dim, bool):
            raise Lacks("options in dim's place")
        if dtype is not None:
            x = o.cast(x, name_of_type(dtype))
        r = over(o, name, x, dim, keepdim)
        return o.cast(r, name_of_type(dtype)) if dtype is not None else r  # a narrow integer wraps
    return call


for name, ours in {"sum": "sum", "prod": "prod", "mean": "mean", "nansum": "nansum", "nanmean": "nanmean",
                   "amax": "max", "amin": "min", "all": "all", "any": "any", "argmax": "argmax", "argmin": "argmin",
                   "logsumexp": "logsumexp", "count_nonzero": "count_nonzero",
                   "max/reduction_no_dim": "max", "min/reduction_no_dim": "min"}.items():
    TABLE[name] = reduction(ours)


def spread(*names):
    def call(o, x, *args, dim=None, unbiased=None, correction=None, keepdim=False):
        if args and isinstance(args[0], bool):
            unbiased, args = args[0], args[1:]
        elif args:
            dim, args = args[0], args[1:]
        if unbiased is not None:
            correction = float(unbiased)
        correction = 1.0 if correction is None else float(correction)
        r = [over(o, n, x, dim, keepdim, *([correction] if n != "mean" else [])) for n in names]
        return r if len(r) > 1 else r[0]
    return call


for name, ours in {"var": ["variance"], "std": ["std"], "var_mean": ["variance", "mean"],
                   "std_mean": ["std", "mean"]}.items():
    TABLE[name] = TABLE[name + "/unbiased"] = spread(*ours)


@row("aminmax")
def aminmax(o, x, dim=None, keepdim=False):
    return o.aminmax(x, ALL if dim is None else dim, keepdim, n=2)


def with_place(value, place):
    def call(o, x, dim=None, keepdim=False):
        return [getattr(o, value)(x, dim, keepdim), getattr(o, place)(x, dim, keepdim)]
    return call


TABLE["max/reduction_with_dim"] = with_place("max", "argmax")
TABLE["min/reduction_with_dim"] = with_place("min", "argmin")


def order_statistic(name):
    def call(o, x, dim=None, keepdim=False):
        return getattr(o, name)(x, ALL if dim is None else dim, keepdim)
    return call, lambda r: r if isinstance(r, torch.Tensor) else r[0]


TABLE["median"], TABLE["nanmedian"] = order_statistic("median"), order_statistic("nanmedian")
TABLE["kthvalue"] = (lambda o, x, k, dim=-1, keepdim=False: o.kthvalue(x, k, dim, keepdim)[0], lambda r: r[0])
TABLE["mode"] = (lambda o, x, dim=-1, keepdim=False: o.mode(x, dim, keepdim)[0], lambda r: r[0])


@row("quantile", )
def quantile(o, x, q, dim=None, keepdim=False, interpolation="linear"):
    mode = ["linear", "lower", "higher", "midpoint", "nearest"].index(interpolation)
    given = o.q.read(q.handle).numbers().reshape(-1).tolist() if isinstance(q, T) else [q]
    r = o.quantile(x, len(given), given, ALL if dim is None else dim, keepdim, mode)
    return r if isinstance(q, T) and q.ndim else o.select(r, 0, 0)


@row("trace")
def trace(o, x):
    return o.trace(x, 0)


@row("norm", "norm/inf", "linalg.vector_norm", "norm/fro")
def norm(o, x, ord=2, dim=None, keepdim=False, dtype=None, p=None):
    if isinstance(ord, str) and ord == "nuc":
        raise Lacks("nuclear norm")
    ord = 2 if ord in (None, "fro") else ord
    ord = ord if p is None else 2 if p == "fro" else p
    if dtype is not None:
        x = o.cast(x, name_of_type(dtype))
    return over(o, "norm", x, dim, keepdim, float(ord))


@row("linalg.norm", "linalg.norm/subgradients_at_zero")
def linalg_norm(o, x, ord=None, dim=None, keepdim=False, dtype=None):
    axes = x.ndim if dim is None else len(dims_of(dim))
    if ord is not None and axes == 2 and ord != "fro":
        return matrix_norm(o, x, ord, (-2, -1) if dim is None else dim, keepdim, dtype)
    return norm(o, x, 2 if ord is None else ord, dim, keepdim, dtype)


@row("linalg.matrix_norm")
def matrix_norm(o, x, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    if ord == "fro":
        return norm(o, x, 2, dim, keepdim, dtype)
    if dtype is not None:
        x = o.cast(x, name_of_type(dtype))
    row_axis, column = (d % x.ndim for d in dim)
    if ord in ("nuc", 2, -2):
        s = o.svd(o.moveaxis(x, 2, [row_axis, column], [-2, -1]))[1]
        r = getattr(o, {"nuc": "sum", 2: "max", -2: "min"}[ord])(s, -1, False)
    else:
        row_axis, column = (column, row_axis) if abs(ord) == INF else (row_axis, column)
        sums = o.sum(o.abs(x), row_axis, False)
        r = getattr(o, "max" if ord > 0 else "min")(sums, column - (column > row_axis), False)
    return o.reshape(r, x.ndim, [1 if i in (row_axis, column) else n for i, n in enumerate(x.shape)]) if keepdim else r


def softmaxes(name):
    def call(o, x, dim=None, dtype=None, **_):
        if dtype is not None:
            x = o.cast(x, name_of_type(dtype))
        return getattr(o, name)(x, dim)
    return call


TABLE["softmax"] = TABLE["softmax/with_dtype"] = softmaxes("softmax")
TABLE["log_softmax"] = TABLE["log_softmax/with_dtype"] = softmaxes("log_softmax")
TABLE["nn.functional.softmin"] = TABLE["nn.functional.softmin/with_dtype"] = softmaxes("softmin")


def scan(name):
    def call(o, x, dim, dtype=None):
        if dtype is not None:
            x = o.cast(x, name_of_type(dtype))
        r = getattr(o, name)(x, dim)
        return o.cast(r, name_of_type(dtype)) if dtype is not None else r  # a narrow integer wraps
    return call


TABLE["cumsum"], TABLE["cumprod"], TABLE["logcumsumexp"] = scan("cumsum"), scan("cumprod"), scan("logcumsumexp")
TABLE["cummax"] = lambda o, x, dim: [o.cummax(x, dim), o.cumargmax(x, dim)]
TABLE["cummin"] = lambda o, x, dim: [o.cummin(x, dim), o.cumargmin(x, dim)]


@row("diff")
def diff(o, x, n=1, dim=-1, prepend=None, append=None):
    if n == 0:
        return x  # without what is put in front and behind
    parts = [t for t in (prepend, x, append) if t is not None]
    return o.diff(o.concat(len(parts), parts, dim) if len(parts) > 1 else x, n, dim)


# movement

def sizes(args):
    return list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)


TABLE["reshape"] = TABLE["view"] = TABLE["view_copy"] = lambda o, x, *s: o.reshape(x, len(sizes(s)), sizes(s))
TABLE["reshape_as"] = TABLE["view_as"] = lambda o, x, y: o.reshape(x, y.ndim, y.shape)
TABLE["permute"] = TABLE["permute_copy"] = lambda o, x, *d: o.permute(x, len(sizes(d)), sizes(d))
TABLE["transpose"] = TABLE["transpose_copy"] = lambda o, x, a, b: o.transpose(x, a, b) if x.ndim else x
TABLE["T"] = TABLE["t"] = TABLE["t_copy"] = lambda o, x: o.permute(x, x.ndim, list(range(x.ndim))[::-1])
TABLE["mT"] = lambda o, x: o.transpose(x, -2, -1)
TABLE["H"] = TABLE["mH"] = lambda o, x: o.conj(o.transpose(x, -2, -1)) if x.ndim else o.conj(x)
for name in ("expand", "expand_copy", "broadcast_to"):
    TABLE[name] = lambda o, x, *s: o.expand(x, len(sizes(s)), sizes(s))
TABLE["broadcast_tensors"] = lambda o, *xs: o.broadcast_arrays(len(xs), list(xs), n=len(xs))
TABLE["flip"] = lambda o, x, dims: o.flip_axes(x, len(dims_of(dims)), dims_of(dims))
TABLE["fliplr"] = lambda o, x: o.flip(x, 1)
TABLE["flipud"] = lambda o, x: o.flip(x, 0)
TABLE["roll"] = lambda o, x, shifts, dims=None: o.reshape(o.roll(o.reshape(x, 1, [-1]), 0, dims_of(shifts)[0]), x.ndim,
                                                          x.shape) \
    if dims is None or dims == () else o.roll_axes(x, len(dims_of(dims)), dims_of(dims), dims_of(shifts))
TABLE["rot90"] = lambda o, x, k=1, dims=(0, 1): o.rot90(x, k, *dims)
TABLE["squeeze_copy"] = TABLE["squeeze"] = lambda o, x, dim=None: o.squeeze(x, ALL) if dim is None else \
    o.squeeze(x, dim) if x.ndim and x.shape[dim] == 1 else x
TABLE["squeeze/multiple"] = lambda o, x, dim: squeeze_axes(o, x, [d for d in dims_of(dim) if x.ndim and
                                                                 x.shape[d] == 1])
TABLE["unsqueeze"] = TABLE["unsqueeze_copy"] = lambda o, x, dim: o.unsqueeze(x, dim)
TABLE["movedim"] = lambda o, x, a, b: o.moveaxis(x, len(dims_of(a)), dims_of(a), dims_of(b))
TABLE["flatten"] = lambda o, x, start_dim=0, end_dim=-1: o.flatten(x, start_dim, end_dim) if x.ndim else \
    o.reshape(x, 1, [1])
TABLE["ravel"] = lambda o, x: o.reshape(x, 1, [-1])
TABLE["unflatten"] = lambda o, x, dim, s: o.unflatten(x, dim, len(s), list(s))
TABLE["unfold"] = TABLE["unfold_copy"] = lambda o, x, d, size, step: o.unfold(x, d, size, step) if x.ndim else \
    o.reshape(x, 1, [1])
TABLE["tril"] = lambda o, x, diagonal=0: o.tril(x, diagonal)
TABLE["triu"] = lambda o, x, diagonal=0: o.triu(x, diagonal)
TABLE["diag"] = lambda o, x, diagonal=0: o.diag(x, diagonal)
TABLE["diagflat"] = lambda o, x, offset=0: o.diag(o.reshape(x, 1, [-1]), offset)
TABLE["diagonal"] = TABLE["diagonal_copy"] = lambda o, x, offset=0, dim1=0, dim2=1: o.diagonal_axes(
    x, offset, dim1, dim2)
TABLE["linalg.diagonal"] = lambda o, x, offset=0, dim1=-2, dim2=-1: o.diagonal_axes(x, offset, dim1, dim2)
TABLE["narrow"] = TABLE["narrow_copy"] = lambda o, x, dim, start, n: o.narrow(x, dim, int(
    o.q.read(start.handle).raw) if isinstance(start, T) else start, n)
TABLE["select"] = lambda o, x, dim, i: o.select(x, dim, i)
TABLE["slice"] = lambda o, x, dim=0, start=None, end=None, step=1: o.slice(
    x, dim, 0 if start is None else start, END if end is None else end, step)
TABLE["select_scatter"] = lambda o, x, src, dim, i: o.select_scatter(x, src, dim, i)
TABLE["slice_scatter"] = lambda o, x, src, dim=0, start=None, end=None, step=1: o.slice_scatter(
    x, src, dim, 0 if start is None else start, END if end is None else end, step)
TABLE["as_strided"] = TABLE["as_strided/partial_views"] = TABLE["as_strided_copy"] = \
    lambda o, x, size, stride, storage_offset=0: o.as_strided(x, len(size), list(size), list(stride), storage_offset)


def squeeze_axes(o, x, dims):
    return o.squeeze_axes(x, len(dims), dims) if dims else x


@row("diag_embed")
def diag_embed(o, x, offset=0, dim1=-2, dim2=-1):
    r = o.diag_embed(x, offset)
    return r if (dim1, dim2) == (-2, -1) else o.moveaxis(r, 2, [-2, -1], [dim1, dim2])


@row("diagonal_scatter")
def diagonal_scatter(o, x, src, offset=0, dim1=0, dim2=1):
    r = o.diagonal_scatter(o.moveaxis(x, 2, [dim1, dim2], [-2, -1]), src, offset)
    return o.moveaxis(r, 2, [-2, -1], [dim1, dim2])


for rank in (1, 2, 3):
    TABLE[f"atleast_{rank}d"] = lambda o, *xs, rank=rank: [
        o.atleast(x, rank) for x in (xs[0] if len(xs) == 1 and isinstance(xs[0], (list, tuple)) else xs)]

TABLE["cat"] = lambda o, xs, dim=0: o.concat(len(xs), list(xs), dim)
TABLE["stack"] = lambda o, xs, dim=0: o.stack(len(xs), list(xs), dim)
TABLE["vstack"] = lambda o, xs: o.vstack(len(xs), [o.atleast(x, 2) for x in xs])
TABLE["hstack"] = lambda o, xs: o.hstack(len(xs), [o.atleast(x, 1) for x in xs])
TABLE["dstack"] = lambda o, xs: o.concat(len(xs), [o.atleast(x, 3) for x in xs], 2)
TABLE["column_stack"] = lambda o, xs: o.hstack(len(xs), [x if x.ndim > 1 else o.reshape(x, 2, [-1, 1]) for x in xs])
TABLE["meshgrid/variadic_tensors"] = lambda o, *xs, indexing="ij": meshgrid(o, list(xs), indexing)
TABLE["meshgrid/list_of_tensors"] = lambda o, xs, indexing="ij": meshgrid(o, list(xs), indexing)
TABLE["unbind"] = TABLE["unbind_copy"] = lambda o, x, dim=0: o.unstack(x, dim, x.shape[dim], n=x.shape[dim])
TABLE["tile"] = lambda o, x, *d: o.tile(x, len(sizes(d)), sizes(d))
TABLE["repeat"] = lambda o, x, *d: o.tile(x, len(sizes(d)), sizes(d))


def meshgrid(o, xs, indexing):
    xs = [o.reshape(x, 1, [-1]) for x in xs]
    return getattr(o, "meshgrid" if indexing == "ij" else "meshgrid_xy")(len(xs), xs, n=len(xs))


def parts(o, x, lengths, dim):
    return o.split(x, dim, len(lengths), lengths, n=len(lengths))


@row("chunk", "unsafe_chunk")
def chunk(o, x, chunks, dim=0):
    n = x.shape[dim]
    return split(o, x, max(-(-n // chunks), 1), dim)


@row("split", "unsafe_split", "split/list_args", "split_with_sizes", "split_with_sizes_copy")
def split(o, x, size, dim=0):
    n = x.shape[dim]
    lengths = list(size) if isinstance(size, (list, tuple)) else [min(size, n - i) for i in range(0, n, size)] or [0]
    return parts(o, x, lengths, dim)


@row("tensor_split")
def tensor_split(o, x, at, dim=0):
    if isinstance(at, T):
        at = o.q.read(at.handle).raw.tolist()
    if isinstance(at, int):
        return o.chunk(x, dim, at, n=at)
    n, cuts = x.shape[dim], [0, *at, x.shape[dim]]
    return [o.slice(x, dim, a, b, 1) for a, b in zip(cuts, [*cuts[1:-1], n])]


TABLE["hsplit"] = lambda o, x, at: tensor_split(o, x, at, 0 if x.ndim == 1 else 1)
TABLE["vsplit"] = lambda o, x, at: tensor_split(o, x, at, 0)
TABLE["dsplit"] = lambda o, x, at: tensor_split(o, x, at, 2)


@row("repeat_interleave")
def repeat_interleave(o, x, repeats, dim=None, output_size=None):
    if dim is None:
        x, dim = o.reshape(x, 1, [-1]), 0
    if isinstance(repeats, T):
        counts = o.q.read(repeats.handle).raw.reshape(-1).tolist()
        return o.repeat_counts(x, dim, len(counts), counts)
    return o.repeat_interleave(x, dim, repeats)


@row("nn.functional.pad/constant", "nn.functional.pad/reflect", "nn.functional.pad/replicate",
     "nn.functional.pad/replicate_negative", "nn.functional.pad/circular", "constant_pad_nd")
def pad(o, x, pad, mode="constant", value=0):
    if not isinstance(mode, str):
        mode, value = "constant", mode
    if isinstance(value, complex):
        raise Lacks("complex numbers to pad with")
    amounts = [0] * (2 * x.ndim)
    for i in range(len(pad) // 2):
        axis = x.ndim - 1 - i
        amounts[2 * axis:2 * axis + 2] = pad[2 * i:2 * i + 2]
    return o.pad(x, amounts, ["constant", "reflect", "replicate", "circular"].index(mode), float(value or 0))


# indices

TABLE["take_along_dim"] = lambda o, x, index, dim=None: o.take_along_axis(x, index, dim) if dim is not None else \
    o.take_along_axis(o.reshape(x, 1, [-1]), o.reshape(index, 1, [-1]), 0)
TABLE["take"] = lambda o, x, index: o.take(o.reshape(x, 1, [-1]), index, 0)
TABLE["masked_fill"] = lambda o, x, mask, value: o.masked_fill(*o.broadcast_arrays(2, [x, mask], n=2), value)
TABLE["masked_scatter"] = lambda o, x, mask, src: o.masked_scatter(*o.broadcast_arrays(2, [x, mask], n=2), src)
TABLE["nn.functional.linear"] = lambda o, x, w, b=None: o.linear(x, w, b) if w.ndim > 1 else o.squeeze(
    o.linear(x, o.unsqueeze(w, 0), b), -1)
TABLE["nn.functional.prelu"] = lambda o, x, weight: o.prelu(x, weight)
TABLE["nn.functional.one_hot"] = lambda o, x, num_classes=-1: o.one_hot(
    x, num_classes if num_classes >= 0 else int(o.q.read(o.max(x, ALL, False).handle).raw) + 1, "i64")
TABLE["argwhere"] = TABLE["nonzero"] = lambda o, x, as_tuple=False: nonzero(o, x, as_tuple)


def lifted(o, *ts):
    return [o.reshape(t, 1, [-1]) if isinstance(t, T) and not t.ndim else t for t in ts]


def narrowed(o, x, index, dim):
    """PyTorch's index may be shorter than x on other axes: the front of x counts."""
    for axis in range(x.ndim):
        if axis != dim % x.ndim and x.shape[axis] != index.shape[axis]:
            x = o.narrow(x, axis, 0, index.shape[axis])
    return x


@row("gather")
def gather(o, x, dim, index, sparse_grad=False):
    scalar = not index.ndim
    x, index = lifted(o, x, index)
    if x.ndim != index.ndim:
        raise Lacks("indices of none of another rank")
    r = o.gather(narrowed(o, x, index, dim), index, dim)
    return o.reshape(r, 0, []) if scalar else r


@row("index_fill")
def index_fill(o, x, dim, index, value):
    if isinstance(value, complex):
        raise Lacks(COMPLEX)
    scalar = not x.ndim
    x, index = lifted(o, x, index)
    if isinstance(value, T):
        shape = [index.shape[0] if i == dim % x.ndim else n for i, n in enumerate(x.shape)]
        r = o.index_copy(x, index, o.expand(o.cast(value, x.dtype), x.ndim, shape), dim)
    else:
        r = o.index_fill(x, index, value, dim)
    return o.reshape(r, 0, []) if scalar else r


def nonzero(o, x, as_tuple):
    places, count = o.nonzero(x, -1)
    r = o.head(places, 0, count)
    return o.unstack(r, 1, x.ndim, n=x.ndim) if as_tuple else r


@row("masked_select")
def masked_select(o, x, mask):
    x, mask = o.broadcast_arrays(2, [x, mask], n=2)
    values, count = o.masked_select(x, mask, -1)
    return o.head(values, 0, count)


def combined(how):
    return {"sum": 1, "add": 1, "prod": 2, "multiply": 2, "amax": 3, "amin": 4}[how]


def scattered(o, x, dim, index, src, combine, include_self=True):
    scalar = not x.ndim
    x, index, src = lifted(o, x, index, src)
    if not isinstance(src, T):
        src = o.expand(T(o, o.number(x, src)), index.ndim, index.shape)
        src = o.cast(src, x.dtype)
    for axis in range(index.ndim):
        if src.shape[axis] != index.shape[axis]:
            src = o.narrow(src, axis, 0, index.shape[axis])
    whole, front = x, narrowed(o, x, index, dim)
    if combine == "mean":
        if x.whole:
            raise Lacks("means of whole numbers, cut to whole ones")
        r = o.scatter_mean(front, index, src, dim, include_self)
    else:
        if not include_self:
            front = o.scatter(front, index, o.full_like(src, identity(combine, x.dtype)), dim, 0)
        r = o.scatter(front, index, src, dim, combine)
    r = front_of(o, whole, r)
    return o.reshape(r, 0, []) if scalar else r


def identity(combine, dtype):
    """What combines without a trace."""
    if combine in (0, 1, 2):
        return float(combine == 2)
    sign = -1 if combine == 3 else 1
    if dtype[0] in "iu":
        least, most = torch.iinfo(types()[dtype]).min, torch.iinfo(types()[dtype]).max
        if most > 2 ** 53:
            raise Lacks("bounds of i64, which are no doubles")
        return float(least if sign < 0 else most)
    return float(sign > 0) if dtype == "bool" else sign * INF


def front_of(o, x, src):
    """x with src over its front."""
    if x.shape == src.shape:
        return x if x is src else src
    for axis, n in enumerate(src.shape):
        if n != x.shape[axis]:
            rest = o.narrow(x, axis, 0, n)
            return o.slice_scatter(x, front_of(o, rest, src), axis, 0, n, 1)
    return src


TABLE["scatter_add"] = lambda o, x, dim, index, src: scattered(o, x, dim, index, src, 1)
TABLE["scatter"] = lambda o, x, dim, index, src, reduce=None: scattered(
    o, x, dim, index, src, combined(reduce) if reduce else 0)
for name in ("sum", "prod", "mean", "amin", "amax"):
    TABLE["scatter_reduce/" + name] = lambda o, x, dim, index, src, reduce, include_self=True: scattered(
        o, x, dim, index, src, "mean" if reduce == "mean" else combined(reduce), include_self)


def slices(o, x, dim, index, src, combine, include_self=True):
    """index_add and the like by scatter, or our own."""
    scalar = not x.ndim
    x, index, src = lifted(o, x, index, src)
    if combine == "copy":
        r = o.index_copy(x, index, src, dim)
    elif combine == "add":
        r = o.index_add(x, index, src, dim)
    else:
        wide = o.reshape(index, x.ndim, [-1 if i == dim % x.ndim else 1 for i in range(x.ndim)])
        return scattered_again(o, x, dim, o.expand(wide, x.ndim, src.shape), src, combine, include_self, scalar)
    return o.reshape(r, 0, []) if scalar else r


def scattered_again(o, x, dim, index, src, combine, include_self, scalar):
    r = scattered(o, x, dim, index, src, combine, include_self)
    return o.reshape(r, 0, []) if scalar else r


TABLE["index_add"] = lambda o, x, dim, index, src, alpha=1: slices(
    o, x, dim, index, o.mul(src, alpha) if alpha != 1 else src, "add")
TABLE["index_copy"] = lambda o, x, dim, index, src: slices(o, x, dim, index, src, "copy")
for name in ("mean", "prod", "amin", "amax"):
    TABLE["index_reduce/" + name] = lambda o, x, dim, index, src, reduce, include_self=True: slices(
        o, x, dim, index, src, "mean" if reduce == "mean" else combined(reduce), include_self)


@row("index_select")
def index_select(o, x, dim, index):
    scalar = not x.ndim
    x, index = lifted(o, x, index)
    r = o.take(x, index, dim)
    return o.reshape(r, 0, []) if scalar else r


def items(o, index):
    """Items of an index of PyTorch's."""
    found = []
    for i in index if isinstance(index, tuple) else [index]:
        if isinstance(i, (list, tuple)):
            i = o.plain("i64", i)
        if isinstance(i, T):
            found.append(IndexItem(4, 0, 0, 0, i.handle))
        elif isinstance(i, slice):
            found.append(IndexItem(0, i.start or 0, END if i.stop is None else i.stop, i.step or 1, None))
        elif i is None:
            found.append(IndexItem(3, 0, 0, 0, None))
        elif i is Ellipsis:
            found.append(IndexItem(2, 0, 0, 0, None))
        elif isinstance(i, bool):
            raise Lacks("a Python bool as an index")
        else:
            found.append(IndexItem(1, i, 0, 0, None))
    return len(found), (IndexItem * max(len(found), 1))(*found)


@row("__getitem__")
def getitem(o, x, index):
    n, array = items(o, index)
    return o.index(x, n, array)


@row("index_put")
def index_put(o, x, index, values, accumulate=False):
    n, array = items(o, tuple(index))
    return o.index_put(x, n, array, values, 1 if accumulate else 0)


# sorting

TABLE["argsort"] = lambda o, x, dim=-1, descending=False, stable=False: ordered(o, x, dim, descending)[1] \
    if stable or x.dtype in ("f32", "f64") else lacks("equal elements in any order")
TABLE["msort"] = lambda o, x: o.sort(x, 0, False)


def ordered(o, x, dim, descending):
    scalar = not x.ndim
    x, = lifted(o, x)
    r = [o.sort(x, dim, descending), o.argsort(x, dim, descending)]
    return [o.reshape(t, 0, []) for t in r] if scalar else r


@row("sort", post=lambda r: [r[0], r[0]])  # of equal ones PyTorch takes any, if not asked for a stable order
def sort(o, x, dim=-1, descending=False, stable=False):
    values, index = ordered(o, x, dim, descending)
    return [values, o.gather(x, index, dim) if x.ndim else x]


@row("topk", post=lambda r: [r[0], r[0]])  # of equal ones PyTorch takes any
def topk(o, x, k, dim=-1, largest=True, sorted=True):
    scalar = not x.ndim
    x, = lifted(o, x)
    values, index = o.topk(x, k, dim, largest)
    r = [values, o.gather(x, index, dim)]
    return [o.reshape(t, 0, []) for t in r] if scalar else r


@row("searchsorted", "bucketize")
def searchsorted(o, edges, values, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        edges = o.take_along_axis(edges, sorter, -1)
    scalar = not isinstance(values, T) or not values.ndim
    values = values if isinstance(values, T) else T(o, o.number(edges, values))
    values, = lifted(o, values)
    r = o.searchsorted(edges, values, side == "right" if side else right)
    r = o.cast(r, "i32") if out_int32 else r
    return o.reshape(r, 0, []) if scalar else r


TABLE["bucketize"] = lambda o, values, edges, out_int32=False, right=False: searchsorted(
    o, edges, values, out_int32, right)


@row("bincount")
def bincount(o, x, weights=None, minlength=0):
    largest = int(o.q.read(o.max(x, ALL, False).handle).raw) + 1 if x.shape[0] else 0
    r = o.bincount(x, weights, max(largest, minlength))
    return o.cast(r, "f64") if weights is not None and r.dtype not in ("f32", "f64") else r


@row("unique")
def unique(o, x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        raise Lacks("unique slices of an axis")
    values, index, inverse, counts, count = o.unique(x)
    r = [o.head(values, 0, count)] + [inverse] * return_inverse + [o.head(counts, 0, count)] * return_counts
    return r


@row("histogram")
def histogram(o, x, bins, range=None, weight=None, density=False):
    if density or not isinstance(bins, T):
        raise Lacks("bins that are counted, densities")
    flat_weight = o.reshape(weight, 1, [-1]) if weight is not None else None
    r = o.histogram(o.reshape(x, 1, [-1]), bins, flat_weight)
    return [o.cast(r, x.dtype), bins]


@row("histc")
def histc(o, x, bins=100, min=0, max=0):
    if min == max and math.prod(x.shape):
        min, max = (float(o.q.read(getattr(o, f)(x, ALL, False).handle).numbers()) for f in ("min", "max"))
    if min == max:
        min, max = min - 1, max + 1
    if x.whole:
        raise Lacks("edges of whole numbers")
    wide = o.cast(x, "f32") if x.dtype in ("f16", "bf16") else x
    return o.cast(o.histogram(o.reshape(wide, 1, [-1]), o.linspace(wide.dtype, min, max, bins + 1), None), x.dtype)

# making and converting


def casting(dtype):
    return lambda o, x, **_: o.cast(x, dtype)


for name, dtype in {"bool": "bool", "byte": "u8", "char": "i8", "double": "f64", "float": "f32", "half": "f16",
                    "bfloat16": "bf16", "int": "i32", "long": "i64", "short": "i16", "cfloat": "c64",
                    "cdouble": "c128"}.items():
    TABLE[name] = casting(dtype)


def typed(name):
    def call(o, x, dtype=None, **_):
        r = getattr(o, name)(x)
        return r if dtype is None else o.cast(r, name_of_type(dtype))
    return call


TABLE["zeros_like"], TABLE["ones_like"] = typed("zeros_like"), typed("ones_like")
TABLE["full_like"] = lambda o, x, v, dtype=None, **_: o.full_like(
    x if dtype is None else o.cast(x, name_of_type(dtype)), float(lacks(COMPLEX) if isinstance(v, complex) else v))
TABLE["where"] = lambda o, x, c, y: o.where(c, x, y)  # as the method of x


@row("fill")
def fill(o, x, value):
    if isinstance(value, T):
        return o.expand(o.cast(value, x.dtype), x.ndim, x.shape)
    return o.full_like(x, float(value)) if not isinstance(value, complex) else lacks(COMPLEX)





def made(name):
    def call(o, shape, dtype=None, **_):
        return getattr(o, name)(name_of_type(dtype or torch.float32), len(shape), list(shape))
    return call


def new(fill):
    def call(o, x, shape, value=None, dtype=None, **_):
        value = float(fill if value is None else lacks(COMPLEX) if isinstance(value, complex) else value)
        return o.full(name_of_type(dtype) if dtype else x.dtype, len(shape), list(shape), value)
    return call


TABLE["new_zeros"], TABLE["new_ones"], TABLE["new_full"] = new(0), new(1), new(None)
TABLE["scalar_tensor"] = lambda o, v, dtype=None, **_: o.scalar(name_of_type(dtype or torch.float32), float(
    lacks(COMPLEX) if isinstance(v, complex) else v))
TABLE["full"] = lambda o, shape, v, dtype=None, **_: o.full(name_of_type(dtype or torch.get_default_dtype()), len(
    shape), list(shape), float(lacks(COMPLEX) if isinstance(v, complex) else v)) if dtype else lacks(
        "a dtype by the kind of a Python number")
TABLE["zeros"], TABLE["ones"] = made("zeros"), made("ones")
TABLE["eye"] = lambda o, n, m=None, dtype=None, **_: o.eye(name_of_type(dtype or torch.float32), n,
                                                          n if m is None else m)


@row("linspace")
def linspace(o, start, stop, steps, dtype=None, **_):
    return o.linspace(name_of_type(dtype or torch.float32), float(start), float(stop), steps)


@row("arange")
def arange(o, start, end=None, step=1, dtype=None, **_):
    if end is None:
        start, end = 0, start
    whole = all(isinstance(v, int) for v in (start, end, step))
    dtype = name_of_type(dtype) if dtype else "i64" if whole else "f32"
    return o.arange_int(dtype, start, end, step) if whole else o.arange(dtype, start, end, step)

import opinfo_networks  # noqa: E402, F401: its rows
import opinfo_composed  # noqa: E402, F401: its rows
