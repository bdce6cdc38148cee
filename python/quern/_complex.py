"""_complex.py - factorisations of complex matrices [.., m, n], from operations that are recorded: a step a column.

Householder's reflections make a matrix triangular, or bidiagonal with real numbers, whose singular values and vectors
are then those of real matrices (Golub and Kahan 1965). Elimination by the largest number of a column gives
determinants.
"""

from . import _core


def hermitian(x):
    return _core.conj(x).mT


def identity(x, n):
    return _core.eye(n, dtype=x.dtype).broadcast_to(x.shape[:-2] + (n, n))


def phase(x):
    """x / |x|; of 0 it is 1."""
    size = abs(x)
    none = size == 0
    return _core.where(none, 1, x) / _core.where(none, 1, size)


def reflection(x):
    """A unitary matrix [.., n, n] by which x [.., n] becomes its length, real and not negative, and zeros."""
    n = x.shape[-1]
    largest = abs(x).max(-1, True)
    x = x / _core.where(largest == 0, 1, largest)  # else squares overflow
    turn = phase(x[..., :1])
    first = (_core.arange(n) == 0).astype(x.dtype)
    length = (_core.real(x * _core.conj(x))).sum(-1, True).sqrt()
    v = x + turn * length * first
    square = _core.real(v * _core.conj(v)).sum(-1, True)
    v = v / _core.where(square == 0, 1, square).sqrt()
    double = _core.where(square == 0, 0, 2).astype(x.dtype)[..., None]
    h = _core.eye(n, dtype=x.dtype) - double * v[..., None] * _core.conj(v)[..., None, :]
    # Of 0 h is the identity, else h x = -turn |x|: the first row is turned back.
    turned = _core.where(square == 0, 1, -_core.conj(turn)) * first + (1 - first)
    return turned[..., None] * h


def grown(h, n):
    """h as the last part of an identity of n."""
    k = n - h.shape[-1]
    if not k:
        return h
    upper = _core.eye(k, n, dtype=h.dtype).broadcast_to(h.shape[:-2] + (k, n))
    lower = _core.concat([_core.zeros(h.shape[:-2] + (n - k, k), h.dtype), h], -1)
    return _core.concat([upper, lower], -2)


def qr(x, complete):
    m, n = x.shape[-2:]
    q, r = identity(x, m), x
    for k in range(min(m, n)):
        h = grown(reflection(r[..., k:, k]), m)
        q, r = q @ hermitian(h), h @ r
    k = m if complete else min(m, n)
    return q[..., :k], r[..., :k, :].triu()


def svd(x, full):
    """u, s and vh: u [.., m, m] and vh [.., n, n] where `full`."""
    m, n = x.shape[-2:]
    if m < n:
        u, s, vh = svd(hermitian(x), full)
        return hermitian(vh), s, hermitian(u)
    left, right = identity(x, m), identity(x, n)
    for k in range(n):
        h = grown(reflection(x[..., k:, k]), m)
        left, x = left @ hermitian(h), h @ x
        if k + 1 < n:  # the row behind the diagonal
            g = grown(reflection(_core.conj(x[..., k, k + 1:])), n)
            right, x = right @ hermitian(g), x @ hermitian(g)
    u, s, vh = _core.svd(_core.real(x[..., :n, :]))  # bidiagonal, and real
    u, vh = left[..., :n] @ u.astype(x.dtype), vh.astype(x.dtype) @ hermitian(right)
    return (_core.concat([u, left[..., n:]], -1) if full and m > n else u), s, vh


def cholesky(x, upper):
    n = x.shape[-1]
    columns, rest = [], x
    for k in range(n):
        top = _core.real(rest[..., :1, :1]).sqrt().astype(x.dtype)
        below = rest[..., 1:, :1] / top
        columns.append(_core.concat([_core.zeros(x.shape[:-2] + (k, 1), x.dtype), top, below], -2))
        rest = rest[..., 1:, 1:] - below @ hermitian(below)
    lower = _core.concat(columns, -1) if columns else x
    return hermitian(lower) if upper else lower


def pivots(x):
    """The pivots of elimination, and a sign for exchanged rows: their product is the determinant."""
    found, sign = [], None
    for k in range(x.shape[-1]):
        rows = x.shape[-2]
        at = abs(x[..., 0]).argmax(-1, True)
        row = x.take_along_axis(at[..., None].broadcast_to(x.shape[:-2] + (1, x.shape[-1])), -2)
        here = _core.where(at[..., 0] == 0, 1, -1).astype(x.dtype)
        sign = here if sign is None else sign * here
        pivot = row[..., :1]
        found.append(pivot[..., 0, 0])
        exchanged = (_core.arange(1, rows) == at)[..., None]
        rest = _core.where(exchanged, x[..., :1, :], x[..., 1:, :])
        factor = rest[..., :1] / _core.where(pivot == 0, 1, pivot)
        x = rest[..., 1:] - factor * row[..., 1:]
    return found, sign


def det(x):
    found, y = pivots(x)
    for p in found:
        y = y * p
    return _core.ones(x.shape[:-2], x.dtype) if y is None else y


def slogdet(x):
    found, sign = pivots(x)
    if sign is None:
        return _core.ones(x.shape[:-2], x.dtype), _core.zeros(x.shape[:-2], _core.real(x).dtype)
    log = 0
    for p in found:
        size = abs(p)
        sign = sign * p / _core.where(size == 0, 1, size)
        log = log + size.log()
    return sign, log
