"""Quern: tensors that are recorded, differentiated, fused into few kernels and compiled for the machine at hand."""

import math as _math
from typing import Any as _Any

from ._core import *  # noqa: F401,F403
from ._core import Tensor, __version__  # noqa: F401
from . import _methods, data, optim, tree  # noqa: F401
from .autograd import (
    checkpoint as checkpoint, custom_gradient as custom_gradient, grad as grad, hessian as hessian, hvp as hvp,
    jacobian as jacobian, jvp as jvp, no_grad as no_grad, value_and_grad as value_and_grad, vjp as vjp)
from .export import Exported as Exported, export as export
from .files import load as load, open_file as open_file, save as save
from .jit import jit as jit
from .kernels import kernel as kernel
from .loops import cond as cond, fori_loop as fori_loop, scan as scan, vmap as vmap, while_loop as while_loop
from .pages import curve as curve, plot as plot, progress as progress, span as span, view_html as view_html



def _find_llvm() -> None:
    """LLVM's code generator of the wheel quern-llvm, where that is installed."""
    import importlib.machinery
    import os
    found = importlib.machinery.PathFinder.find_spec("quern_llvm")
    file = found and found.origin and os.path.join(os.path.dirname(found.origin), "libLLVM.so")
    if file and os.path.exists(file):
        use_llvm(file)  # noqa: F405


_find_llvm()
e, pi, inf, nan = _math.e, _math.pi, _math.inf, _math.nan
newaxis = None


def __getattr__(name: str) -> _Any:
    """Namespaces that nobody waits for who does not use them: of the array API, layers, models of files."""
    if name in ("array_api", "linalg", "llm", "nn", "onnx", "quant"):
        import importlib
        return importlib.import_module("quern." + name)
    raise AttributeError(f"module 'quern' has no attribute {name!r}")


def asarray(obj: _Any, /, *, dtype: _Any = None, device: str | None = None, copy: _Any = None) -> Tensor:
    """obj as a tensor: itself where it is one and `copy` is not True, else as tensor() makes one."""
    if isinstance(obj, Tensor) and not copy:
        same = (dtype is None or obj.dtype == dtype) and (device is None or obj.device == device)
        if not same and copy is False:
            raise ValueError("another dtype or device takes a copy")
        return obj if same else obj.to(device=device, dtype=dtype)
    if copy is False:
        raise ValueError("what is no tensor is copied")
    return tensor(obj, dtype, device=device)  # noqa: F405
