"""random.py - what layers draw by: one key for first values and one for dropout, from one seed.

The key of dropout is a tensor that each draw assigns to: in a function that quern.jit traces, every call draws other
bits, and none takes a new plan. get_rng_state() and set_rng_state() are for a run that goes on bit for bit.
"""

import os
from typing import Any

from .. import _core
from .._core import Tensor
from ..jit import before_trace

OTHER = 2**64 - 1  # what the next key is folded with, which is not what a layer folds with


class Generator:
    """Seeds of first values, counted, and the key of draws."""

    def __init__(self) -> None:
        self.seed, self.count = 0, 0
        self.key: Tensor | None = None

    def start(self, seed: int) -> None:
        self.seed, self.count = seed % 2**64, 0
        words = [self.seed % 2**32, self.seed // 2**32]
        if self.key is None:
            self.key = _core.tensor(words, "uint32")
        else:
            self.key.assign(_core.tensor(words, "uint32"))

    def next_seed(self) -> int:
        self.count += 1
        return (self.seed * 0x9E3779B97F4A7C15 + self.count * 0xD1B54A32D192ED03) % 2**64

    def prepare(self) -> None:
        if self.key is None:
            count = self.count
            self.start(self.seed)
            self.count = count

    def forget(self) -> None:
        """A child of fork has a context of its own, without its parent's tensors."""
        self.key = None

    def draw(self) -> Tensor:
        """A key for one layer; the next one gets another."""
        self.prepare()
        assert self.key is not None
        now: Tensor = _core.key_fold(self.key, OTHER)
        self.key.assign(_core.key_fold(self.key, OTHER - 1))
        return now


generator = Generator()
before_trace.append(generator.prepare)
os.register_at_fork(after_in_child=generator.forget)


def manual_seed(seed: int) -> None:
    """Layers that are made from now on begin with values of this seed, and dropout draws by it."""
    generator.start(seed)


def get_rng_state() -> dict[str, Any]:
    generator.prepare()
    assert generator.key is not None
    return {"seed": generator.seed, "count": generator.count, "key": generator.key.tolist()}


def set_rng_state(state: dict[str, Any]) -> None:
    generator.start(state["seed"])
    assert generator.key is not None
    generator.count = state["count"]
    generator.key.assign(_core.tensor(state["key"], "uint32"))
