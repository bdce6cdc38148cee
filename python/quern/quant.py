"""quant.py - tensors in blocks of few bits, as GGUF files hold them (quern_quant.h): a block is some elements of the
last axis in so many bytes.

    blocks = quern.quant.quantize(w, "q4_0")            # float32 [n, k] -> uint8 [n, k / 32 * 18]
    y = x @ quern.quant.dequantize(blocks, "q4_0").T    # the blocks become numbers in the kernel that reads them
"""

from typing import TYPE_CHECKING, NamedTuple

from . import _core
from ._core import Tensor

if TYPE_CHECKING:
    from ._core import TensorLike


class QuantType(NamedTuple):
    """A type of blocks: elements and bytes of one, and whether quantize() makes it or it is only read."""

    name: str
    elements: int
    bytes: int
    made: bool

    @property
    def bits(self) -> float:
        """Bits of an element, its part of the scales included."""
        return self.bytes * 8 / self.elements


NUMBER = {row[1]: row[0] for row in _core.quant_types()}
TYPES = {row[1]: QuantType(*row[1:]) for row in _core.quant_types()}


def types() -> list[QuantType]:
    """All types of blocks, in the order of GGUF's numbers."""
    return list(TYPES.values())


def type_of(type: "str | QuantType") -> QuantType:
    """A type by its name, in any case: "q4_0", "Q4_K"."""
    found = TYPES.get(type.lower()) if isinstance(type, str) else TYPES.get(getattr(type, "name", ""))
    if found is None:
        raise ValueError(f"{type!r} is no type of blocks: {', '.join(TYPES)}")
    return found


def quantize(x: "TensorLike", type: "str | QuantType") -> Tensor:
    """The nearest blocks, uint8 [.., n * bytes] of floats [.., n * elements], by the rule of GGUF's own package; no
    gradient passes."""
    t: Tensor = _core.quant_make(x, NUMBER[type_of(type).name])
    return t


def dequantize(blocks: "TensorLike", type: "str | QuantType") -> Tensor:
    """What blocks stand for, float32 [.., n * elements] of uint8 [.., n * bytes]: an expression, fused into what reads
    it."""
    t: Tensor = _core.quant_read(blocks, NUMBER[type_of(type).name])
    return t
