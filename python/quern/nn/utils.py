"""utils.py - what PyTorch has in torch.nn.utils: clipping, and parameters as one vector."""

from collections.abc import Iterable

from .. import _core
from .._core import Tensor
from ..autograd import no_grad
from ..optim import clip_grad_norm_ as clip_grad_norm_, clip_grad_value_ as clip_grad_value_


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    return _core.concat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    at = 0
    with no_grad():
        for p in parameters:
            p.assign(vec[at:at + p.size].reshape(p.shape).cast(p.dtype))
            at += p.size
