"""init.py - first values for parameters that are there, with PyTorch's names: torch.nn.init."""

import math
from typing import Any

from .. import _core
from .._core import Tensor
from ..autograd import no_grad
from .random import generator


def put(tensor, value):
    with no_grad():
        tensor.assign(value.cast(tensor.dtype))
    return tensor


def key():
    return _core.key(generator.next_seed())


def fans(tensor):
    """(in, out) of a weight."""
    if tensor.ndim < 2:
        raise ValueError(f"a weight of {tensor.shape} has no fans: two axes at least are wanted")
    places = math.prod(tensor.shape[2:])
    return tensor.shape[1] * places, tensor.shape[0] * places


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    return {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}.get(nonlinearity, 1.0)


def constant_(tensor: Tensor, val: float) -> Any:
    return put(tensor, _core.full(tensor.shape, float(val)))


def zeros_(tensor: Tensor) -> Any:
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Any:
    return constant_(tensor, 1.0)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Any:
    return put(tensor, _core.uniform(key(), tensor.shape) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Any:
    return put(tensor, _core.randn(key(), tensor.shape) * std + mean)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Any:
    return put(tensor, _core.truncated_normal(key(), tensor.shape, (a - mean) / std, (b - mean) / std) * std + mean)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Any:
    within = gain * math.sqrt(6 / sum(fans(tensor)))
    return uniform_(tensor, -within, within)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Any:
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Any:
    within = calculate_gain(nonlinearity, a) * math.sqrt(3 / fans(tensor)[mode == "fan_out"])
    return uniform_(tensor, -within, within)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Any:
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode == "fan_out"]))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Any:
    return put(tensor, _core.orthogonal(key(), tensor.shape, gain=gain))
