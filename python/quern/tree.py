"""tree.py - trees of Python: dicts, lists, tuples, named tuples, dataclasses and None with tensors at their leaves.

What takes or gives several tensors takes and gives trees of them: grad, jit, optimizers, files. A dict's values go by
its keys in order of insertion, sorted where they are texts. Other classes join by register().
"""

import dataclasses
from collections.abc import Callable
from typing import Any

Way = Callable[..., Any]
registry: dict[type, tuple[Way, Way]] = {}  # class: (children of, made of (data, children))


def register(cls: type, flatten: Way, unflatten: Way) -> None:
    """Take objects of a class for trees: flatten(x) gives (children, data), unflatten(data, children) makes one."""
    registry[cls] = (flatten, unflatten)


def children_of(x):
    """(kind, data, children) of an inner node, None of a leaf. Kind and data are hashable."""
    cls = type(x)
    if cls is tuple or cls is list:
        return cls, len(x), x
    if cls is dict:
        try:
            keys = tuple(sorted(x))
        except TypeError:
            keys = tuple(x)
        return dict, keys, [x[k] for k in keys]
    if x is None:
        return type(None), None, ()
    if cls in registry:
        children, data = registry[cls][0](x)
        return cls, data, tuple(children)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return cls, len(x), x
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        names = tuple(f.name for f in dataclasses.fields(x))
        return cls, names, [getattr(x, n) for n in names]
    return None


def made(kind, data, children):
    if kind is tuple or kind is list:
        return kind(children)
    if kind is dict:
        return dict(zip(data, children))
    if kind is type(None):
        return None
    if kind in registry:
        return registry[kind][1](data, children)
    if dataclasses.is_dataclass(kind):
        x = object.__new__(kind)
        for name, value in zip(data, children):
            object.__setattr__(x, name, value)
        return x
    return kind(*children)


class Structure:
    """What a tree is without its leaves: compared and hashed."""

    __slots__ = ("nodes", "leaves")

    def __init__(self, nodes, leaves):
        self.nodes, self.leaves = nodes, leaves

    def __eq__(self, other):
        return isinstance(other, Structure) and self.nodes == other.nodes

    def __hash__(self):
        return hash(self.nodes)

    def __repr__(self):
        return str(unflatten(self, ["*"] * self.leaves))


def flatten(x: Any) -> tuple[list[Any], "Structure"]:
    """(leaves, structure)"""
    leaves: list[Any] = []
    nodes: list[Any] = []
    walk(x, leaves, nodes)
    return leaves, Structure(tuple(nodes), len(leaves))


def walk(x, leaves, nodes):
    found = children_of(x)
    if found is None:
        leaves.append(x)
        nodes.append(None)
        return
    kind, data, children = found
    nodes.append((kind, data, len(children)))
    for child in children:
        walk(child, leaves, nodes)


def unflatten(structure: "Structure", leaves: Any) -> Any:
    return grown(iter(structure.nodes), iter(leaves))


def grown(nodes, leaves):  # no function in unflatten: one that names itself would keep the leaves until a collection
    node = next(nodes)
    if node is None:
        return next(leaves)
    kind, data, count = node
    return made(kind, data, [grown(nodes, leaves) for _ in range(count)])


def map(f: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree with f(leaf, ..) at its leaves; others have its structure."""
    leaves, structure = flatten(tree)
    rest = []
    for other in others:
        more, same = flatten(other)
        if same != structure:
            raise ValueError(f"trees are not alike: {structure} and {same}")
        rest.append(more)
    return unflatten(structure, [f(*all_) for all_ in zip(leaves, *rest)])


def leaves(tree: Any) -> list[Any]:
    return flatten(tree)[0]
