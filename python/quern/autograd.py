"""autograd.py - derivatives of functions of Python: grad, vjp, jvp, hessian and the like, of trees of tensors.

Each calls its function once on variables that have the arguments' values (quern.variable), so that a gradient by an
argument is no gradient by what the function knows under another name; derivatives nest.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import _core, tree
from ._core import Tensor

FLOATS = ("f", "c")


def is_float(x):
    return isinstance(x, Tensor) and x.dtype.kind in FLOATS


def variables(arguments, argnums, call):
    """The arguments with variables in the places of the tensors to derive by, these, and their structures."""
    arguments = list(arguments)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    found, structures = [], []
    for k in numbers:
        if not -len(arguments) <= k < len(arguments):
            raise ValueError(f"{call}: argument {k} of {len(arguments)}")
        leaves, structure = tree.flatten(arguments[k])
        new = []
        for leaf in leaves:
            if isinstance(leaf, (float, complex)) and not isinstance(leaf, bool):
                leaf = _core.tensor(leaf)
            if not is_float(leaf):
                raise TypeError(f"{call}: argument {k} has {leaf!r}, and only tensors of floats have gradients")
            new.append(_core.variable(leaf))
        arguments[k] = tree.unflatten(structure, new)
        found += new
        structures.append((structure, len(new)))
    return arguments, found, structures


def by_argument(values, structures, argnums):
    trees, at = [], 0
    for structure, n in structures:
        trees.append(tree.unflatten(structure, values[at:at + n]))
        at += n
    return trees[0] if isinstance(argnums, int) else tuple(trees)


class Deriving:
    """While a function is called to be derived: a jit in it is no plan, for what plans give has no history."""

    def __enter__(self):
        _core.derive_begin()

    def __exit__(self, *_):
        _core.derive_end()


def called(f, *args, **keywords):
    """A no_grad around the derivative is not for the function: only one inside is."""
    before = _core.set_no_grad(False)
    try:
        with Deriving():
            return f(*args, **keywords)
    finally:
        _core.set_no_grad(before)


def given(result):
    """What the caller gets of a derived function's result: under no_grad, that without history."""
    if not _core.is_no_grad():
        return result
    return tree.map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, result)


def scalar_of(y, call):
    if not is_float(y):
        raise TypeError(f"{call}: the function gives {y!r}, and a scalar float is wanted")
    if y.size != 1:
        raise ValueError(f"{call}: the function gives a tensor of shape {y.shape}, and a scalar is wanted")
    return y


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0,
                   has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives (f(..), its gradient by the arguments of these numbers), or with has_aux, where f gives
    (value, more), ((value, more), gradient). f gives a scalar. Gradients have the structure of their argument."""
    @functools.wraps(f)
    def wrapped(*args, **keywords):
        with_variables, xs, structures = variables(args, argnums, "grad")
        result = called(f, *with_variables, **keywords)
        y = scalar_of(result[0] if has_aux else result, "grad")
        return given(result), by_argument(_core.vjp_of([y], [None], xs), structures, argnums)
    return wrapped


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of f by the arguments of these numbers; with has_aux (gradient, more)."""
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def wrapped(*args, **keywords):
        result, gradient = both(*args, **keywords)
        return (gradient, result[1]) if has_aux else gradient
    return wrapped


def vjp(f: Callable[..., Any], *args: Any) -> tuple[Any, Callable[..., Any]]:
    """(f(*args), a function that takes a tree like f's result and gives that times the Jacobian, an argument each)."""
    with_variables, xs, structures = variables(args, range(len(args)), "vjp")
    result = called(f, *with_variables)
    ys, structure = tree.flatten(result)

    def back(seeds):
        seeds, same = tree.flatten(seeds)
        if same != structure:
            raise ValueError(f"vjp: the seeds are {same}, the results {structure}")
        return by_argument(_core.vjp_of(ys, seeds, xs), structures, tuple(range(len(args))))
    return given(result), back


def jvp(f: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*args), the Jacobian times the tangents, which are like the arguments)."""
    with_variables, xs, _ = variables(args, range(len(args)), "jvp")
    moves, same = tree.flatten(tuple(tangents))
    if same != tree.flatten(tuple(args))[1]:
        raise ValueError("jvp: tangents are not like the arguments")
    result = called(f, *with_variables)
    ys, structure = tree.flatten(result)
    moves = [m if isinstance(m, Tensor) else _core.tensor(m) for m in moves]
    return given(result), tree.unflatten(structure, _core.jvp_of(ys, xs, moves))


def jacobian(f: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function that gives all derivatives of f's result by one argument, tensors both: the result's axes, then the
    argument's. For a few hundred."""
    @functools.wraps(f)
    def wrapped(*args, **keywords):
        with_variables, xs, structures = variables(args, argnum, "jacobian")
        result = called(f, *with_variables, **keywords)
        return by_argument([_core.jacobian_of(result, x) for x in xs], structures, argnum)
    return wrapped


def hessian(f: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function that gives all second derivatives of f's scalar by one argument, a tensor: its axes twice."""
    @functools.wraps(f)
    def wrapped(*args, **keywords):
        with_variables, xs, structures = variables(args, argnum, "hessian")
        y = scalar_of(called(f, *with_variables, **keywords), "hessian")
        return by_argument([_core.hessian_of(y, x) for x in xs], structures, argnum)
    return wrapped


def hvp(f: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of f's scalar times tangents, which are like the arguments."""
    with_variables, xs, structures = variables(args, range(len(args)), "hvp")
    y = scalar_of(called(f, *with_variables), "hvp")
    return by_argument(_core.hvp_of([y], xs, tree.leaves(tuple(tangents))), structures, tuple(range(len(args))))


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """f, whose gradient computes again what lies between arguments and results instead of keeping it."""
    @functools.wraps(f)
    def wrapped(*args, **keywords):
        xs = [x for x in tree.leaves((args, keywords)) if is_float(x)]
        leaves, structure = tree.flatten(f(*args, **keywords))
        at = [i for i, leaf in enumerate(leaves) if is_float(leaf)]
        if xs and at:
            for i, y in zip(at, _core.checkpoint_of([leaves[i] for i in at], xs)):
                leaves[i] = y
        return tree.unflatten(structure, leaves)
    return wrapped


class custom_gradient:
    """A function with a gradient of its own. Decorate the function, then name its gradient:

        @quern.custom_gradient
        def safe_log(x):
            return quern.log(x)

        @safe_log.gradient
        def slope(g, y, x):              # gradients of the results, results, arguments
            return g / quern.maximum(x, 1e-6)

    It gives a gradient for each argument, None for none. With several results g and y are tuples.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.slope: Callable[..., Any] | None = None
        functools.update_wrapper(self, f)

    def gradient(self, f: Callable[..., Any]) -> Callable[..., Any]:
        self.slope = f
        return f

    def __call__(self, *args: Any) -> Any:
        if self.slope is None:
            raise TypeError(f"{self.f.__name__} has no gradient yet: @{self.f.__name__}.gradient names it")
        inner = [_core.variable(a) if is_float(a) else a for a in args]
        result = self.f(*inner)
        several = isinstance(result, (tuple, list))
        ys = [y.detach() for y in (result if several else [result])]
        marks = [_core.placeholder(y) if y.size else _core.zeros_like(y) for y in ys]
        slopes = self.slope(tuple(marks) if several else marks[0], tuple(ys) if several else ys[0], *args)
        slopes = list(slopes) if isinstance(slopes, (tuple, list)) else [slopes]
        if len(slopes) != len(args):
            raise ValueError(f"{self.f.__name__}: {len(slopes)} gradients for {len(args)} arguments")
        pairs = [(a, s) for a, s in zip(args, slopes) if is_float(a)]
        whole = [i for i, y in enumerate(ys) if y.size]  # nothing comes to an empty one
        if whole:
            made = _core.custom_gradient_of([ys[i] for i in whole], [marks[i] for i in whole],
                                            [a for a, _ in pairs], [s for _, s in pairs])
        out = list(ys)
        for i, k in enumerate(whole):
            out[k] = made[i]
        return tuple(out) if several else out[0]


class no_grad:
    """While open, and as a decorator of functions, results have no history: with quern.no_grad(): .."""

    def __init__(self) -> None:
        self.before: list[bool] = []

    def __enter__(self) -> "no_grad":
        self.before.append(_core.set_no_grad(True))
        return self

    def __exit__(self, *_: Any) -> None:
        _core.set_no_grad(self.before.pop())

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def wrapped(*args, **keywords):
            with no_grad():
                return f(*args, **keywords)
        return wrapped
