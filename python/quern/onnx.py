"""onnx.py - models in the ONNX format as functions of tensors (docs/onnx.md).

    model = quern.onnx.load("model.onnx")
    y = model(x)                        # recorded: lazy, with gradients, part of a larger graph, in a jit, too
    out = model.run({"image": x})       # by names, computed at once by a static graph of these shapes, which is kept
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _core
from ._core import Tensor


class Value(NamedTuple):
    """An input or output. dtype None: not said; shape: sizes, names of what varies, None where nothing is said;
    optional: an input that has a value in the model."""

    name: str
    dtype: _core.dtype | None
    shape: tuple[int | str | None, ...] | None
    optional: bool


class Operator(NamedTuple):
    """An operator that there is, from opset `first` to `last`, 0 being the newest; domain "": the standard's."""

    domain: str
    name: str
    first: int
    last: int


def operators() -> list[Operator]:
    """All operators that there are."""
    return [Operator(*row) for row in _core.onnx_operators()]


class Model:
    """A model that was read, by quern.onnx.load()."""

    def __init__(self, model: str | os.PathLike[str] | bytes, *, folder: str | os.PathLike[str] | None = None,
                 device: str | None = None) -> None:
        self.device = device
        if isinstance(model, (bytes, bytearray, memoryview)):
            self.path = None
            self._native = _core.onnx_open(None, model, folder, device)
        else:
            self.path = os.fspath(model)
            self._native = _core.onnx_open(self.path, None, None, device)
        self.inputs: tuple[Value, ...] = tuple(Value(*row) for row in self._native.values(False))
        self.outputs: tuple[Value, ...] = tuple(Value(*row) for row in self._native.values(True))

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The outputs for inputs in the model's order, or by their names; None, or none at the end, for what has a
        value in the model. One output is a tensor, several are a tuple, in which None is what the model leaves out."""
        out = self._native.call(self._bind(inputs, named), False)
        return out[0] if len(out) == 1 else out

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Tensor | None]:
        """The outputs by name for inputs by name, computed at once by a static graph of their dtypes and shapes, which
        is kept for the next run. They have no history."""
        out = self._native.call(self._bind((), inputs), True)
        return dict(zip((v.name for v in self.outputs), out))

    def close(self) -> None:
        self._native.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        def text(values: tuple[Value, ...]) -> str:
            return ", ".join(v.name for v in values)
        return f"<quern.onnx.Model {self.path or 'of bytes'!r}: ({text(self.inputs)}) -> ({text(self.outputs)})>"

    def _bind(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[Tensor | None]:
        """Inputs in the model's order, as tensors."""
        names = [v.name for v in self.inputs]
        if len(inputs) > len(names):
            raise TypeError(f"the model takes {len(names)} inputs, and {len(inputs)} were given")
        given: dict[str, Any] = dict(zip(names, inputs))
        for name, x in named.items():
            if name in given or name not in names:
                what = "was given twice" if name in given else f"is no input: {', '.join(names)}"
                raise TypeError(f"{name!r} {what}")
            given[name] = x
        lacking = [v.name for v in self.inputs if given.get(v.name) is None and not v.optional]
        if lacking:
            raise TypeError(f"the model wants {', '.join(map(repr, lacking))}, too")
        return [self._tensor(v, given.get(v.name)) for v in self.inputs]

    def _tensor(self, v: Value, x: Any) -> Tensor | None:
        """Numbers and lists become what the input is; arrays have their dtypes."""
        if x is None or isinstance(x, Tensor):
            return x
        plain = not hasattr(x, "dtype")
        return _core.tensor(x, v.dtype if plain else None, device=self.device)


def load(path: str | os.PathLike[str], *, device: str | None = None) -> Model:
    """A model of a file. Weights in files beside it are read when they are first used."""
    return Model(path, device=device)


def parse(data: bytes, *, folder: str | os.PathLike[str] | None = None, device: str | None = None) -> Model:
    """A model of bytes; folder: where other files of it lie."""
    return Model(bytes(data), folder=folder, device=device)
