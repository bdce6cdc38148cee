"""files.py - trees of tensors in safetensors files: save, load, and open_file for a part of one.

A tensor's name is its way through the tree, keys and numbers joined by dots, as those of PyTorch's state dicts:
{"layer": [{"weight": w}]} is layer.0.weight.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core, tree
from ._core import Tensor

KINDS = "a tensor, an array or a number"


def name_of(key):
    """A part of a name; a dict's keys are texts or whole numbers."""
    if isinstance(key, str) or isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"save: {key!r} cannot be a part of a name: keys are texts or ints")


def named(x, name="", text=name_of):
    """(name, leaf) of each leaf of a tree; None is no leaf. text: of a key, what stands in a name."""
    found = tree.children_of(x)
    if found is None:
        yield name or "value", x
        return
    kind, data, children = found
    if kind is dict or isinstance(data, tuple) and len(data) == len(children):
        keys = data
    else:
        keys = getattr(kind, "_fields", range(len(children)))
    for key, child in zip(keys, children):
        part = text(key)
        yield from named(child, f"{name}.{part}" if name else part, text)


def save(path: str | os.PathLike[str], tensors: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tree of tensors, arrays of NumPy and numbers as a safetensors file; `metadata`: texts by name. The file
    appears under its name only when it is complete."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"save: the path comes first, save(path, tensors), and {type(path).__name__} is given")
    names, values = [], []
    for name, leaf in named(tensors):
        try:
            values.append(leaf if isinstance(leaf, Tensor) else _core.tensor(leaf))
        except (TypeError, ValueError) as e:
            raise type(e)(f"save: {name} is {type(leaf).__name__}, and {KINDS} is wanted: {e}") from None
        names.append(name)
    twice = {n for n in names if names.count(n) > 1} if len(set(names)) < len(names) else ()
    if twice:
        raise ValueError(f"save: two tensors are called {min(twice)}")
    pairs = [text for pair in (metadata or {}).items() for text in pair]
    _core.save_to(os.fspath(path), names, values, pairs)


class File:
    """A safetensors file opened for reading, as a mapping from names to tensors, which are read when asked for:

        with quern.open_file("model.safetensors") as f:
            w = f["layer.0.weight"]
    """

    def __init__(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        self.path = os.fspath(path)
        self.file = _core.file_open(self.path, device)
        self.names = tuple(self.file.names())
        self.set = frozenset(self.names)

    def keys(self) -> tuple[str, ...]:
        return self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.set

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.set:
            raise KeyError(name)
        x: Tensor = self.file.tensor(name)
        return x

    def items(self) -> Iterator[tuple[str, Tensor]]:
        for name in self.names:
            yield name, self[name]

    @property
    def metadata(self) -> dict[str, str]:
        """Texts that were stored along, by name."""
        with open(self.path, "rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        found = {key: self.file.text(key) for key in header.get("__metadata__", {})}
        return {key: text for key, text in found.items() if text is not None}

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self):
        return f"<quern.File {self.path!r} of {len(self)} tensors>"


def open_file(path: str | os.PathLike[str], device: str | None = None) -> File:
    """A safetensors file to read single tensors from."""
    return File(path, device)


def load(path: str | os.PathLike[str], like: Any = None, *, device: str | None = None) -> Any:
    """The tensors of a safetensors file as a dict by name; with `like`, a tree, as one of its structure, whose names
    and shapes they must have and whose dtypes they get."""
    with File(path, device) as f:
        if like is None:
            return dict(f.items())
        leaves, wanted = [], list(named(like))
        lacking = [name for name, _ in wanted if name not in f]
        if lacking:
            raise KeyError(f"load: {path} has no {', '.join(lacking[:5])}{' ..' if len(lacking) > 5 else ''}")
        unknown = f.set - {name for name, _ in wanted}
        if unknown:
            more = " .." if len(unknown) > 5 else ""
            raise KeyError(f"load: what is wanted has no place for {', '.join(sorted(unknown)[:5])}{more}")
        for name, leaf in wanted:
            x = f[name]
            shape = getattr(leaf, "shape", ())
            if tuple(shape) != x.shape:
                raise ValueError(f"load: {name} has shape {x.shape}, and {tuple(shape)} is wanted")
            leaves.append(x.cast(leaf.dtype) if isinstance(leaf, Tensor) and leaf.dtype != x.dtype else x)
        return tree.unflatten(tree.flatten(like)[1], leaves)
