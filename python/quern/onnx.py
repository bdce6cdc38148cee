"""onnx.py - models in the ONNX format as functions of tensors, and functions of tensors as models (docs/onnx.md).

    model = quern.onnx.load("model.onnx")
    y = model(x)                        # recorded: lazy, with gradients, part of a larger graph, in a jit, too
    out = model.run({"image": x})       # by names, computed at once by a static graph of these shapes, which is kept
    quern.onnx.save("net.onnx", net, {"image": x})      # what a function, a jit or a module makes of such inputs
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from . import _core, tree
from ._core import Tensor
from .jit import Jitted


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


def save(path: str | os.PathLike[str], outputs: Tensor | Iterable[Tensor] | Mapping[str, Tensor] | Callable[..., Any],
         inputs: Tensor | Iterable[Any] | Mapping[str, Any], *, input_names: Iterable[str] | None = None,
         output_names: Iterable[str] | None = None, name: str | None = None, data: str | None = None,
         bound: bool = False) -> None:
    """Write what outputs were computed of inputs as a model, with all else that they use as parameters. Either is a
    tensor, several, or a dict by name; inputs are data, no expressions. outputs may also be a function, a jit or a
    module: it is called with inputs, a dict's by keyword, which may be any arrays then, and the tensors of what it
    gives are the outputs. data: a file for the parameters, in the model's folder. bound: sizes that vary do not."""
    given, input_names = _ends(inputs, input_names)
    if callable(outputs) and not isinstance(outputs, Tensor):
        f = outputs.f if isinstance(outputs, Jitted) else outputs
        arrays = [x if isinstance(x, Tensor) else _core.tensor(x) for x in given]
        given = [x.clone().realize() for x in arrays]  # nobody else's, and no constants
        keys = list(inputs) if isinstance(inputs, Mapping) else None
        outputs = f(**dict(zip(keys, given))) if keys is not None else f(*given)
        if not isinstance(outputs, (Tensor, Mapping)):
            outputs = tree.leaves(outputs)
    made, output_names = _ends(outputs, output_names)
    _core.onnx_save(path, made, given, output_names, input_names, (name, data, bound))


def _ends(x: Any, names: Iterable[str] | None) -> tuple[list[Any], tuple[str, ...] | None]:
    """Inputs or outputs as a list, and their names: those given, or a dict's."""
    if isinstance(x, Mapping):
        return list(x.values()), tuple(x if names is None else names)
    single = isinstance(x, Tensor) or hasattr(x, "dtype")
    return [x] if single else list(x), None if names is None else tuple(names)
