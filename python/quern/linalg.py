"""quern.linalg - linear algebra as the array API's extension has it, version 2024.12."""

import collections
import math

from . import _complex, _core
from ._core import inv, matmul, matrix_power, outer, solve  # noqa: F401

eigh_result = collections.namedtuple("eigh_result", "eigenvalues eigenvectors")
qr_result = collections.namedtuple("qr_result", "Q R")
slogdet_result = collections.namedtuple("slogdet_result", "sign logabsdet")
svd_result = collections.namedtuple("svd_result", "U S Vh")


def is_complex(x):
    return x.dtype.kind == "c"


def cholesky(x, /, *, upper=False):
    return _complex.cholesky(x, upper) if is_complex(x) else _core.cholesky(x, upper)


def det(x, /):
    return _complex.det(x) if is_complex(x) else _core.det(x)


def cross(x1, x2, /, *, axis=-1):
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross: {x1.shape} and {x2.shape} are not 3 long along axis {axis}")
    x1, x2 = _core.broadcast_arrays([x1, x2])
    return _core.cross(x1, x2, axis)


def diagonal(x, /, *, offset=0):
    return x.diagonal(offset)


def eigh(x, /):
    return eigh_result(*_core.eigh(x))


def eigvalsh(x, /):
    return _core.eigh(x).values


def matrix_transpose(x, /):
    return x.mT


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    if ord == "fro":
        size = abs(x)
        y = (size * size).sum((-2, -1), True).sqrt()
    elif ord == "nuc":
        y = svdvals(x).sum(-1)[..., None, None]
    elif ord in (2, -2):
        s = svdvals(x)
        y = (s.max(-1) if ord > 0 else s.min(-1))[..., None, None]
    elif ord in (1, -1, math.inf, -math.inf):
        axis = -2 if abs(ord) == 1 else -1
        sums = abs(x).sum(axis, True)
        y = sums.max(-3 - axis, True) if ord > 0 else sums.min(-3 - axis, True)
    else:
        raise ValueError(f"matrix_norm: {ord!r} is no norm")
    return y if keepdims else y[..., 0, 0]


def matrix_rank(x, /, *, rtol=None):
    if rtol is None and not is_complex(x):
        return _core.matrix_rank(x)
    s = svdvals(x)
    if rtol is None:
        rtol = max(x.shape[-2:]) * (2.0**-52 if s.dtype == _core.float64 else 2.0**-23)
    return (s > s.max(-1, True) * (rtol[..., None] if isinstance(rtol, _core.Tensor) else rtol)).count_nonzero(-1)


def pinv(x, /, *, rtol=None):
    if rtol is None or not isinstance(rtol, _core.Tensor):
        return _core.pinv(x, -1 if rtol is None else rtol)
    u, s, vh = svd(x, full_matrices=False)
    if not s.size:
        return _core.zeros(x.shape[:-2] + (x.shape[-1], x.shape[-2]), x.dtype)
    small = s <= s.max(-1, True) * rtol[..., None]
    return _complex.hermitian(vh) @ (_core.where(small, 0.0, 1 / s)[..., None] * _complex.hermitian(u))


def qr(x, /, *, mode="reduced"):
    if mode not in ("reduced", "complete"):
        raise ValueError(f'qr: mode is "reduced" or "complete", not {mode!r}')
    m, n = x.shape[-2:]
    if is_complex(x):
        return qr_result(*_complex.qr(x, mode == "complete"))
    if mode == "complete" and m > n:
        x = _core.concat([x, completed(x)], -1)
        q, r = _core.qr(x)
        return qr_result(q, r[..., :n])
    return qr_result(*_core.qr(x))


def completed(x):
    """Columns that make the rest of a basis of [.., m, n], m > n: those of the projection beside x."""
    m, n = x.shape[-2:]
    q, _ = _core.qr(x)
    rest = _core.eye(m, dtype=x.dtype) - q @ q.mT
    u, _, _ = _core.svd(rest)
    return u[..., :m - n]


def slogdet(x, /):
    return slogdet_result(*(_complex if is_complex(x) else _core).slogdet(x))


def svd(x, /, *, full_matrices=True):
    if is_complex(x):
        return svd_result(*_complex.svd(x, full_matrices))
    u, s, vh = _core.svd(x)
    m, n = x.shape[-2:]
    if full_matrices and m > n:
        u = _core.concat([u, completed(u)], -1)
    if full_matrices and n > m:
        vh = _core.concat([vh, completed(vh.mT).mT], -2)
    return svd_result(u, s, vh)


def svdvals(x, /):
    return svd(x, full_matrices=False).S


def tensordot(x1, x2, /, *, axes=2):
    from .array_api import tensordot
    return tensordot(x1, x2, axes=axes)


def trace(x, /, *, offset=0, dtype=None):
    from .array_api import sum
    return sum(x.diagonal(offset), axis=-1, dtype=dtype)


def vecdot(x1, x2, /, *, axis=-1):
    from .array_api import vecdot
    return vecdot(x1, x2, axis=axis)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    return x.norm(axis, ord, keepdims)
