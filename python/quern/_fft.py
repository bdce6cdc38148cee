"""array_api.fft - Fourier transforms as the array API's extension has them, version 2024.12: of complex tensors."""

from . import _core
from ._core import float32


def complex_of(x):
    return x if x.dtype.kind == "c" else _core.complex(x, None)


def length(n, call):
    if n is not None and n < 1:
        raise ValueError(f"{call}: a length of {n}")
    return 0 if n is None else n


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    return _core.fft(complex_of(x), length(n, "fft"), axis, norm)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    return _core.ifft(complex_of(x), length(n, "ifft"), axis, norm)


def chosen(x, s, axes):
    """The axes and their lengths, None for the axis's own."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = tuple(axes)
    sizes = (None,) * len(axes) if s is None else tuple(None if n == -1 else n for n in s)
    if len(sizes) != len(axes):
        raise ValueError(f"{len(sizes)} lengths for {len(axes)} axes")
    return axes, sizes


def several(f, x, axes, sizes, norm):
    """One transform after the other, the last axis first."""
    for n, axis in zip(reversed(sizes), reversed(axes)):
        x = f(x, n=n, axis=axis, norm=norm)
    return x


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    return several(fft, complex_of(x), *chosen(x, s, axes), norm)


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    return several(ifft, complex_of(x), *chosen(x, s, axes), norm)


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    return _core.as_complex(_core.rfft(x, length(n, "rfft"), axis % x.ndim, norm))


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    return _core.irfft(complex_of(x), length(n, "irfft"), axis, norm)


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    axes, sizes = chosen(x, s, axes)
    first = rfft(x, n=sizes[-1], axis=axes[-1], norm=norm)
    return several(fft, first, axes[:-1], sizes[:-1], norm)


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    axes, sizes = chosen(x, s, axes)
    first = several(ifft, complex_of(x), axes[:-1], sizes[:-1], norm)
    return irfft(first, n=sizes[-1], axis=axes[-1], norm=norm)


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    return _core.hfft(complex_of(x), length(n, "hfft"), axis, norm)


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    return _core.as_complex(_core.ihfft(x, length(n, "ihfft"), axis % x.ndim, norm))


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    return _core.fftfreq(n, d, float32 if dtype is None else dtype)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    return _core.rfftfreq(n, d, float32 if dtype is None else dtype)


def fftshift(x, /, *, axes=None):
    return _core.fftshift(x, (axes,) if isinstance(axes, int) else axes)


def ifftshift(x, /, *, axes=None):
    return _core.ifftshift(x, (axes,) if isinstance(axes, int) else axes)
