"""Methods of Tensor that are written in Python: to other libraries and types, copies, files."""

import importlib

from . import _core
from ._core import Tensor

# Dtypes that NumPy has only by the package ml_dtypes.
NARROW = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}


def numpy(self):
    """The value as an array of NumPy."""
    import numpy as np
    if self.dtype.name not in NARROW:
        return np.asarray(memoryview(self))  # read-only, over the tensor's memory
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise TypeError(f"NumPy has no {self.dtype} without the package ml_dtypes: .astype(quern.float32)") from None
    data = np.frombuffer(self.tobytes(), np.uint8 if self.itemsize == 1 else np.uint16)
    return data.view(getattr(ml_dtypes, NARROW[self.dtype.name])).reshape(self.shape)


def __array__(self, dtype=None, copy=None):
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("another dtype takes a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def astype(self, dtype, *, copy=True, device=None):
    """The value in another dtype."""
    x = self if device is None else self.to(device)
    return x if not copy and x.dtype == dtype else x.cast(dtype)


def to(self, *args, device=None, dtype=None):
    """On another device, in another dtype: x.to("ref"), x.to(quern.float16)."""
    for arg in args:
        if isinstance(arg, str) and arg in _core.devices():
            device = arg
        else:
            dtype = arg
    x = self if dtype is None or self.dtype == dtype else self.cast(dtype)
    if device is None or x.device == device:
        return x
    return _core.from_bytes(x.tobytes(), x.dtype, x.shape, device)


def rebuilt(data, dtype, shape, requires_grad):
    x = _core.from_bytes(data, dtype, shape)
    x.requires_grad = requires_grad
    return x


def __reduce_ex__(self, protocol):
    return rebuilt, (self.tobytes(), self.dtype.name, self.shape, self.requires_grad)


def __copy__(self):
    return self.clone()


def __deepcopy__(self, memo):
    x = self.detach().clone().realize()
    x.requires_grad = self.requires_grad
    memo[id(self)] = x
    return x


def __format__(self, spec):
    return format(self.item(), spec) if self.ndim == 0 and spec else repr(self)


def _repr_html_(self):
    from ._text import html
    return html(self)


def view_html(self, path):
    """Write a page of HTML about how the value is computed."""
    from .pages import view_html as write
    write(self, path)


def __array_namespace__(self, *, api_version=None):
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"the array API of {api_version} is not here: 2024.12 is")
    return importlib.import_module("quern.array_api")


def to_device(self, device, /, *, stream=None):
    """As the array API has it."""
    return self.to(device=device)


def cast_method(name, dtype):
    def method(self):
        return self.cast(dtype)
    method.__name__ = name
    method.__doc__ = f"The value as {dtype}."
    return method


# As PyTorch has them; `bool` and `int` are names of Python's, and names of methods there all the same.
CASTS = [cast_method(name, dtype) for name, dtype in (
    ("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("bool", "bool"),
    ("int", "int32"), ("long", "int64"), ("short", "int16"))]

for method in (*CASTS, numpy, __array__, astype, to, __reduce_ex__, __copy__, __deepcopy__, __format__, _repr_html_,
               view_html, __array_namespace__, to_device):
    method.__qualname__ = "Tensor." + method.__name__
    setattr(Tensor, method.__name__, method)
setattr(Tensor, "__array_priority__", 1000)  # an array of NumPy leaves operators to the tensor
Tensor.__module__ = "quern"
