"""Quern: tensors that are recorded, differentiated, fused into few kernels and compiled for the machine at hand."""

import math as _math

from ._core import *  # noqa: F401,F403
from ._core import Tensor, __version__  # noqa: F401
from . import _methods, optim, tree  # noqa: F401
from .autograd import (checkpoint, custom_gradient, grad, hessian, hvp, jacobian, jvp, no_grad,  # noqa: F401
                       value_and_grad, vjp)
from .files import load, open_file, save  # noqa: F401
from .jit import jit  # noqa: F401
from .loops import cond, fori_loop, scan, vmap, while_loop  # noqa: F401

e, pi, inf, nan = _math.e, _math.pi, _math.inf, _math.nan
newaxis = None


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """obj as a tensor: itself where it is one and `copy` is not True, else as tensor() makes one."""
    if isinstance(obj, Tensor) and not copy:
        same = (dtype is None or obj.dtype == dtype) and (device is None or obj.device == device)
        if not same and copy is False:
            raise ValueError("another dtype or device takes a copy")
        return obj if same else obj.to(device=device, dtype=dtype)
    if copy is False:
        raise ValueError("what is no tensor is copied")
    return tensor(obj, dtype, device=device)  # noqa: F405
