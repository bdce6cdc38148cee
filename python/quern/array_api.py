"""quern.array_api - the namespace of the array API standard, version 2024.12, which x.__array_namespace__() gives.

Its names, signatures and results, over the package's own functions.
"""

import builtins as _builtins
import collections as _collections
import math as _math

from . import _core, asarray  # noqa: F401
from ._core import (  # noqa: F401
    Tensor, abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bitwise_and, bitwise_invert,
    bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor, bool, broadcast_to, ceil,
    complex128, complex64, conj, copysign, cos, cosh, divide, equal, exp, expm1, float32, float64,
    floor, from_dlpack, greater, greater_equal, hypot, imag, int16, int32, int64, int8,
    isfinite, isinf, isnan, less, less_equal, log, log10, log1p, log2, logaddexp, logical_and,
    logical_not, logical_or, logical_xor, matmul, maximum, minimum, multiply, negative, nextafter,
    not_equal, pow, real, reciprocal, remainder, signbit, sin, sinh, sqrt, square, subtract,
    tan, tril, triu, trunc, uint16, uint32, uint64, uint8, where)

__array_api_version__ = "2024.12"
e, pi, inf, nan, newaxis = _math.e, _math.pi, _math.inf, _math.nan, None

SIGNED, UNSIGNED, REAL = (int8, int16, int32, int64), (uint8, uint16, uint32, uint64), (float32, float64)
COMPLEX = (complex64, complex128)
KINDS = {"bool": (bool,), "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": SIGNED + UNSIGNED,
         "real floating": REAL, "complex floating": COMPLEX, "numeric": SIGNED + UNSIGNED + REAL + COMPLEX}
FINFO = {"float32": (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126),
         "float64": (64, 2.0**-52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022),
         "float16": (16, 2.0**-10, 65504.0, 2.0**-14), "bfloat16": (16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126)}


def placed(x, device):
    return x if device is None else x.to(device=device)


# ---- creation ----------------------------------------------------------------------------------------------------


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    return placed(_core.arange(start, stop, step, dtype), device)


def empty(shape, *, dtype=None, device=None):
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    return zeros_like(x, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    n_cols = n_rows if n_cols is None else n_cols
    k = _builtins.max(-n_rows, _builtins.min(n_cols, k))  # of others, too, nothing is seen
    rows, columns = _core.arange(n_rows).reshape(n_rows, 1), _core.arange(n_cols)
    return placed((columns - rows == k).cast(float32 if dtype is None else dtype), device)


def full(shape, fill_value, *, dtype=None, device=None):
    return placed(_core.full(shape, fill_value, dtype), device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    dtype = float32 if dtype is None else dtype
    if num == 0:
        return zeros((0,), dtype=dtype, device=device)
    if isinstance(start, complex) or isinstance(stop, complex):
        parts = [linspace(a, b, num, dtype=float64, endpoint=endpoint)
                 for a, b in ((start.real, stop.real), (start.imag, stop.imag))]
        return placed(_core.complex(*parts).cast(dtype), device)
    start, stop = float(start), float(stop)
    if endpoint:
        x = _core.linspace(start, stop, num, float64)
    else:
        k = _core.arange(num, dtype=float64)
        x = k * ((stop - start) / num) + start if _math.isfinite(stop - start) else \
            (1 - k / num) * start + k / num * stop
    return placed(x.cast(dtype), device)


def meshgrid(*arrays, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is \"xy\" or \"ij\", not {indexing!r}")
    if not arrays:
        return []
    return list((_core.meshgrid if indexing == "ij" or len(arrays) == 1 else _core.meshgrid_xy)(arrays))


def ones(shape, *, dtype=None, device=None):
    return placed(_core.ones(shape, dtype), device)


def ones_like(x, /, *, dtype=None, device=None):
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def zeros(shape, *, dtype=None, device=None):
    return placed(_core.zeros(shape, dtype), device)


def zeros_like(x, /, *, dtype=None, device=None):
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


# ---- dtypes ------------------------------------------------------------------------------------------------------


def astype(x, dtype, /, *, copy=True, device=None):
    return x.astype(dtype, copy=copy, device=device)


def dtype_of(x):
    return x.dtype if isinstance(x, Tensor) else x


def can_cast(from_, to, /):
    try:
        return result_type(dtype_of(from_), to) == to
    except TypeError:
        return False


finfo_object = _collections.namedtuple("finfo_object", "bits eps max min smallest_normal dtype")
iinfo_object = _collections.namedtuple("iinfo_object", "bits max min dtype")


def finfo(type, /):
    dtype = {"complex64": float32, "complex128": float64}.get(dtype_of(type).name, dtype_of(type))
    if dtype.name not in FINFO:
        raise TypeError(f"{dtype} is no floating dtype")
    bits, eps, most, least = FINFO[dtype.name]
    return finfo_object(bits, eps, most, -most, least, dtype)


def iinfo(type, /):
    dtype = dtype_of(type)
    if dtype.kind not in "iu":
        raise TypeError(f"{dtype} is no integer dtype")
    bits = 8 * dtype.itemsize
    if dtype.kind == "u":
        return iinfo_object(bits, 2**bits - 1, 0, dtype)
    return iinfo_object(bits, 2**(bits - 1) - 1, -2**(bits - 1), dtype)


def isdtype(dtype, kind):
    if isinstance(kind, tuple):
        return any_of(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of dtypes: {', '.join(KINDS)} are")
        return any_of(dtype == d for d in KINDS[kind])
    return dtype == kind


def any_of(found):
    return _builtins.any(found)


def result_type(*arrays_and_dtypes):
    others = [x for x in arrays_and_dtypes if not isinstance(x, complex)]
    if len(others) == len(arrays_and_dtypes):
        return _core.result_type(others)
    return _core.result_type([complex64] + [x for x in others if not isinstance(x, (int, float))])


def broadcast_arrays(*arrays):
    if len({a.dtype for a in arrays}) == 1:
        return list(_core.broadcast_arrays(arrays))
    shape = _core.broadcast_arrays([_core.zeros(a.shape, bool) for a in arrays])[0].shape
    return [a.broadcast_to(shape) for a in arrays]  # each in its dtype, also beside complex ones


# ---- elementwise -------------------------------------------------------------------------------------------------


def clip(x, /, min=None, max=None):
    lo, hi = (b.cast(x.dtype) if isinstance(b, Tensor) and b.dtype != x.dtype else b for b in (min, max))
    if lo is None and hi is None:
        return x.clone()
    return _core.clip(x, lo, hi).cast(x.dtype)


def floor_divide(x1, x2, /):
    """Of infinities the quotient itself, where `//` is Python's: no number, and -1 of 1 and -infinity."""
    y = _core.floor_divide(x1, x2)
    if y.dtype.kind == "f":
        for x in (x1, x2):
            infinite = _core.isinf(x) if isinstance(x, Tensor) else _core.full((), _math.isinf(x), bool)
            y = _core.where(infinite, _core.divide(x1, x2), y)
    return y


def positive(x, /):
    return x.clone()


def round(x, /):
    return _core.complex(_core.real(x).round(), _core.imag(x).round()) if x.dtype.kind == "c" else x.round()


def sign(x, /):
    y = x.sign()  # of -0, too, it is 0
    if y.dtype.kind == "c":
        return _core.complex(_core.real(y) + 0, _core.imag(y) + 0)
    return y + 0 if y.dtype.kind == "f" else y


def tanh(x, /):
    """Of +-infinity + bi it is +-1, and a zero with the sign of b, where `quern.tanh` has C's, that of sin(2b)."""
    y = _core.tanh(x)
    if x.dtype.kind != "c":
        return y
    a, b = _core.real(x), _core.imag(x)
    end = _core.complex(_core.copysign(_core.ones_like(a), a), _core.copysign(_core.zeros_like(b), b))
    return _core.where(_core.logical_and(_core.isinf(a), _core.isfinite(b)), end, y)


# ---- manipulation ------------------------------------------------------------------------------------------------


def concat(arrays, /, *, axis=0):
    if axis is None:
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    return _core.concat(list(arrays), axis)


def expand_dims(x, /, axis):
    return x.expand_dims(axis)


def flip(x, /, *, axis=None):
    return x.flip(axis)


def matrix_transpose(x, /):
    return x.mT


def moveaxis(x, source, destination, /):
    return x.moveaxis(source, destination)


def permute_dims(x, /, axes):
    return x.permute(axes)


def repeat(x, repeats, /, *, axis=None):
    if axis is None:
        x, axis = x.reshape(-1), 0
    if isinstance(repeats, Tensor):
        repeats = repeats.tolist() if repeats.ndim else [repeats.item()]
        if len(repeats) != 1:
            return repeat_each(x, repeats, axis)
        repeats = repeats[0]
    return x.repeat_interleave(repeats, axis)


def repeat_each(x, counts, axis):
    if len(counts) != x.shape[axis] or _builtins.any(n < 0 for n in counts):
        raise ValueError(f"repeat: {counts} for an axis of {x.shape[axis]}")
    index = [k for k, n in enumerate(counts) for _ in range(n)]
    return x.take(_core.tensor(index, int64), axis)


def reshape(x, /, shape, *, copy=None):
    y = x.reshape(shape)
    return y.clone() if copy else y


def roll(x, /, shift, *, axis=None):
    return x.roll(shift, axis)


def squeeze(x, /, axis):
    return x.squeeze((axis,) if isinstance(axis, int) else axis)


def stack(arrays, /, *, axis=0):
    return _core.stack(list(arrays), axis)


def tile(x, repetitions, /):
    repetitions = tuple(repetitions)
    return x.tile((1,) * (x.ndim - len(repetitions)) + repetitions) if repetitions else x.clone()


def unstack(x, /, *, axis=0):
    return x.unstack(axis)


# ---- searching, sorting, sets ------------------------------------------------------------------------------------


def argmax(x, /, *, axis=None, keepdims=False):
    return x.argmax(axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return x.argmin(axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    return x.count_nonzero(axis, keepdims)


def nonzero(x, /):
    if x.ndim == 0:
        raise ValueError("nonzero: a scalar has no places")
    places, count = _core.nonzero(x != 0 if x.dtype.kind == "c" else x)
    return places.head(0, count).unstack(1)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    if side not in ("left", "right"):
        raise ValueError(f'side is "left" or "right", not {side!r}')
    return _core.searchsorted(x1 if sorter is None else x1.take(sorter, 0), x2, side == "right")


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return x.argsort(axis, descending)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    return x.sort(axis, descending)


unique_all_result = _collections.namedtuple("unique_all_result", "values indices inverse_indices counts")
unique_counts_result = _collections.namedtuple("unique_counts_result", "values counts")
unique_inverse_result = _collections.namedtuple("unique_inverse_result", "values inverse_indices")


def unique_complex(x):
    """By real parts, then by imaginary ones: the numbers that both have among their own."""
    x = x.reshape(-1)
    re, im = (_core.unique(part(x)).inverse.cast(int64) for part in (_core.real, _core.imag))
    return _core.unique(re * _builtins.max(x.size, 1) + im)


def unique_all(x, /):
    if x.dtype.kind == "c":
        u = unique_complex(x)
        index, counts = (v.head(0, u.count) for v in (u.index, u.counts))
        return unique_all_result(x.reshape(-1).take(index, 0), index, u.inverse.reshape(x.shape), counts)
    u = _core.unique(x)
    values, index, counts = (v.head(0, u.count) for v in (u.values, u.index, u.counts))
    return unique_all_result(values, index, u.inverse, counts)


def unique_counts(x, /):
    u = unique_all(x)
    return unique_counts_result(u.values, u.counts)


def unique_inverse(x, /):
    u = unique_all(x)
    return unique_inverse_result(u.values, u.inverse_indices)


def unique_values(x, /):
    return unique_all(x).values


# ---- statistics --------------------------------------------------------------------------------------------------


def summed(name, x, axis, dtype, keepdims):
    if dtype is None:
        dtype = {"b": int64, "i": int64, "u": uint64}.get(x.dtype.kind, x.dtype)
    if x.dtype == bool:
        x = x.cast(dtype)
    if name == "prod" and dtype.kind == "c":  # multiplied in the dtype it has then
        return x.cast(dtype).prod(axis, keepdims)
    return getattr(x, name)(axis, keepdims, dtype=dtype)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    return summed("sum", x, axis, dtype, keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    return summed("prod", x, axis, dtype, keepdims)


def max(x, /, *, axis=None, keepdims=False):
    return x.max(axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    return x.min(axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    return x.mean(axis, keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return x.std(axis, correction, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return x.variance(axis, correction, keepdims)


def running(name, first, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an axis is wanted where there are several")
        axis = 0
    dtype = dtype or ({"i": int64, "u": uint64, "b": int64}.get(x.dtype.kind, x.dtype))
    y = getattr(x.cast(dtype), name)(axis).cast(dtype)
    if include_initial:
        shape = list(x.shape)
        shape[axis] = 1
        y = _core.concat([_core.full(tuple(shape), first, dtype), y], axis)
    return y


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    return running("cumsum", 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    return running("cumprod", 1, x, axis, dtype, include_initial)


def all(x, /, *, axis=None, keepdims=False):
    return x.all(axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    return x.any(axis, keepdims)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    parts = [p for p in (prepend, x, append) if p is not None]
    return (x if len(parts) == 1 else _core.concat(parts, axis)).diff(n, axis)


# ---- indices, products -------------------------------------------------------------------------------------------


def take(x, indices, /, *, axis=None):
    if axis is None and x.ndim != 1:
        raise ValueError("an axis is wanted where there are several")
    return x.take(indices, 0 if axis is None else axis)


def take_along_axis(x, indices, /, *, axis=-1):
    return x.take_along_axis(indices, axis)


def tensordot(x1, x2, /, *, axes=2):
    if isinstance(axes, int):
        axes = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    return x1.tensordot(x2, tuple(axes[0]), tuple(axes[1]))


def vecdot(x1, x2, /, *, axis=-1):
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: {x1.shape} and {x2.shape} along axis {axis}")
    a, b = (x.moveaxis((axis,), (-1,)) for x in (conj(x1), x2))
    dtype = result_type(x1, x2)
    return (a[..., None, :].cast(dtype) @ b[..., None].cast(dtype))[..., 0, 0]


# ---- what there is -----------------------------------------------------------------------------------------------


class Info:
    """What __array_namespace_info__() gives."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 12}

    def default_device(self):
        return _core.default_device()

    def default_dtypes(self, *, device=None):
        return {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}

    def dtypes(self, *, device=None, kind=None):
        names = KINDS if kind is None else (kind,) if isinstance(kind, str) else kind
        return {d.name: d for k in names for d in KINDS[k]}

    def devices(self):
        return [_core.default_device()]


def __array_namespace_info__():
    return Info()


from . import _fft as fft, linalg  # noqa: E402,F401
