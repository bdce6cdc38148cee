"""loops.py - loops and branches that are recorded once, and functions of one example for many.

A loop of Python around tensors records its body as often as it runs. scan, fori_loop and while_loop record it once:
their bodies are called a single time, on tensors that have a value in each trip only. What a body uses from outside
is the same in each trip. Gradients pass all of them, and so does vmap.
"""

import functools
from collections.abc import Callable
from typing import Any

from . import _core, autograd, tree
from ._core import Tensor


def tensors(leaves):
    """Leaves as tensors: numbers of Python and arrays become some."""
    return [x if isinstance(x, Tensor) else _core.tensor(x) for x in leaves]


def like(leaves, wanted, call):
    """What a body gives for states: of their dtypes where it is a number or of a kind that may be cast, of their
    shapes where these broadcast."""
    out = []
    for k, (x, state) in enumerate(zip(leaves, wanted)):
        x = x if isinstance(x, Tensor) else _core.tensor(x, state.dtype)
        if (x.shape, x.dtype) != (state.shape, state.dtype):
            raise ValueError(f"{call}: state {k} begins as {state.dtype} of shape {state.shape} and becomes {x.dtype} "
                             f"of shape {x.shape}: a loop's states keep both")
        out.append(x)
    return out


class Body:
    """A loop while its body is recorded; given up where that fails."""

    open = 0  # those that are being recorded

    def __init__(self, states, rows=(), trips=0, reverse=False, checkpoint=0, most=None):
        self.loop = _core.loop_new(states, rows, trips, reverse, most, checkpoint)

    def __enter__(self):
        self.deriving = autograd.Deriving()
        self.deriving.__enter__()  # a jit in a body is a part of it
        Body.open += 1
        return self.loop

    def __exit__(self, kind, *_):
        self.deriving.__exit__()
        Body.open -= 1
        if kind is not None:
            self.loop.give_up()


def back(structure, leaves, call, wanted):
    if structure != wanted:
        raise ValueError(f"{call}: the states begin as {wanted} and become {structure}")
    return leaves


def scan(f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, *, reverse: bool = False,
         checkpoint: int = 0) -> tuple[Any, Any]:
    """(last state, outputs) of f, which takes a state and a row of xs and gives the next state and an output.

        def step(h, x):
            h = quern.tanh(x @ w + h @ u)
            return h, h
        last, all = quern.scan(step, h0, xs)

    init, xs and outputs are trees; rows are along axis 0 of each tensor of xs, from the last to the first if `reverse`.
    Without xs, f is given None, `length` times. checkpoint: a gradient keeps the states every so many trips only."""
    states, structure = tree.flatten(init)
    rows, rows_structure = tree.flatten(xs)
    states, rows = tensors(states), tensors(rows)
    if length is None and not rows:
        raise ValueError("scan: how many trips are there? Give xs or length")
    if any(x.ndim == 0 for x in rows):
        raise ValueError("scan: a scalar among xs has no rows")
    trips = rows[0].shape[0] if length is None else length
    for x in rows:
        if x.shape[0] != trips:
            raise ValueError(f"scan: {x.shape[0]} rows where there are {trips} trips")
    if trips < 0:
        raise ValueError(f"scan: {trips} trips")
    if trips == 0:
        return empty_scan(f, init, xs, states, rows)
    with Body(states, rows, trips, reverse, checkpoint) as loop:
        inside = loop.arguments()
        state = tree.unflatten(structure, inside[:len(states)])
        result = f(state, tree.unflatten(rows_structure, inside[len(states):-1]))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(f"scan: the function gives a {type(result).__name__}, and (next state, output) is wanted")
        leaves, found = tree.flatten(result[0])
        outputs, outputs_structure = tree.flatten(result[1])
        loop.end(like(back(found, leaves, "scan", structure), states, "scan"), tensors(outputs))
    results = loop.results()
    return (tree.unflatten(structure, results[:len(states)]),
            tree.unflatten(outputs_structure, results[len(states):-1]))


def empty_scan(f, init, xs, states, rows):
    """Of no trips: the first state, and outputs of no rows, whose shapes one trip on zeros tells."""
    _, structure = tree.flatten(init)
    _, rows_structure = tree.flatten(xs)
    zeros = [_core.zeros(x.shape[1:], x.dtype) for x in rows]
    _, out = f(tree.unflatten(structure, states), tree.unflatten(rows_structure, zeros))
    return tree.unflatten(structure, states), tree.map(lambda y: _core.zeros((0,) + tensors([y])[0].shape,
                                                                             tensors([y])[0].dtype), out)


def fori_loop(lower: int, upper: int, body: Callable[..., Any], init: Any, *, checkpoint: int = 0) -> Any:
    """What body(i, state) makes of init, for i from lower to upper - 1; i is an int64 scalar."""
    trips = upper - lower
    if isinstance(trips, Tensor):
        raise TypeError("fori_loop: bounds are ints; of tensors while_loop makes as many trips as they say")
    if trips <= 0:
        return init
    states, structure = tree.flatten(init)
    states = tensors(states)
    with Body(states, (), trips, checkpoint=checkpoint) as loop:
        inside = loop.arguments()
        leaves, found = tree.flatten(body(inside[-1] + lower, tree.unflatten(structure, inside[:-1])))
        loop.end(like(back(found, leaves, "fori_loop", structure), states, "fori_loop"), ())
    return tree.unflatten(structure, loop.results()[:len(states)])


MOST_TRIPS = 2**31 - 1


def while_loop(test: Callable[..., Any], body: Callable[..., Any], init: Any, *, most: int | None = None) -> Any:
    """What body(state) makes of init as long as test(state), a bool scalar, holds, `most` times at most. A gradient
    wants `most`, for it needs room for what each trip keeps."""
    states, structure = tree.flatten(init)
    states = tensors(states)
    with Body(states, (), MOST_TRIPS if most is None else most) as loop:
        inside = tree.unflatten(structure, loop.arguments()[:-1])
        holds = test(inside)
        loop.while_(holds if isinstance(holds, Tensor) else _core.tensor(bool(holds)))
        leaves, found = tree.flatten(body(inside))
        loop.end(like(back(found, leaves, "while_loop", structure), states, "while_loop"), ())
    return tree.unflatten(structure, loop.results()[:len(states)])


def branch(f, arguments, taken):
    """(leaves, structure) of a branch: a loop of one trip, of none where `taken` is 0, with zeros for results."""
    with Body((), (), 1, most=taken) as loop:
        leaves, structure = tree.flatten(f(*arguments))
        leaves = tensors(leaves)
        loop.end((), leaves)
    return [y[0] for y in loop.results()[:-1]], structure


def cond(condition: Tensor | bool, yes: Callable[..., Any], no: Callable[..., Any], *arguments: Any) -> Any:
    """yes(*arguments) where a bool scalar holds, else no(*arguments); only that one is computed, but for what was
    recorded before. Both give trees of one structure, whose tensors meet as in where()."""
    if not isinstance(condition, Tensor):
        return yes(*arguments) if condition else no(*arguments)
    if condition.ndim:
        raise ValueError(f"cond: a condition is a scalar, not of shape {condition.shape}")
    holds = condition if condition.dtype == _core.bool else condition != 0
    a, structure = branch(yes, arguments, holds.cast("int64"))
    b, other = branch(no, arguments, holds.logical_not().cast("int64"))
    if structure != other:
        raise ValueError(f"cond: one branch gives {structure}, the other {other}")
    return tree.unflatten(structure, [_core.where(holds, x, y) for x, y in zip(a, b)])


# ---- maps --------------------------------------------------------------------------------------------------------


def spread(axes, value, what):
    """An axis, or None, for each leaf of a value: of one axis for all of it, or of a tree of them like it."""
    leaves, _ = tree.flatten(value)
    if axes is None or isinstance(axes, int):
        return [axes] * len(leaves)
    parts, inside = tree.children_of(axes), tree.children_of(value)
    if parts is None or inside is None or parts[:2] != inside[:2]:
        raise ValueError(f"vmap: axes {axes!r} are not like {what}")
    return [a for p, v in zip(parts[2], inside[2]) for a in spread(p, v, what)]


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """f, which is of one example, for all examples at once: they lie along axis in_axes of each tensor of the
    arguments, and along out_axes of the results'. Either is one axis for all, or a tuple with one for each argument
    or result, or trees of them; None: all examples share that argument, or result. It nests, and gradients pass it.

        distances = quern.vmap(quern.vmap(distance, (None, 0)), (0, None))(points, points)
        slopes = quern.vmap(quern.grad(loss), (None, 0, 0))(w, xs, ys)     # a gradient for each example
    """
    @functools.wraps(f)
    def wrapped(*args, **keywords):
        if isinstance(in_axes, (tuple, list)) and len(in_axes) != len(args):
            raise ValueError(f"vmap: {len(in_axes)} axes for {len(args)} arguments")
        axes = spread(tuple(in_axes) if isinstance(in_axes, list) else in_axes, args, "the arguments")
        leaves, structure = tree.flatten(args)
        axes += [None if in_axes is None or isinstance(in_axes, tuple) else 0 for _ in tree.leaves(keywords)]
        more, more_structure = tree.flatten(keywords)
        inputs = leaves + more
        found = [(k, x, a) for k, (x, a) in enumerate(zip(inputs, axes)) if a is not None and isinstance(x, Tensor)]
        if not found:
            raise ValueError("vmap: no argument has an axis of examples")
        sizes = {}
        for k, x, a in found:
            if not -x.ndim <= a < x.ndim:
                raise ValueError(f"vmap: argument {k} of shape {x.shape} has no axis {a}")
            sizes.setdefault(x.shape[a], x.shape)
        if len(sizes) > 1:
            raise ValueError(f"vmap: how many examples are there? Arguments have {', '.join(map(str, sizes.values()))}")
        examples = [_core.example(x, a) for _, x, a in found]
        for (k, _, _), e in zip(found, examples):
            inputs[k] = e
        with autograd.Deriving():
            result = f(*tree.unflatten(structure, inputs[:len(leaves)]),
                       **tree.unflatten(more_structure, inputs[len(leaves):]))
        ys, of = tree.flatten(result)
        back_axes = spread(tuple(out_axes) if isinstance(out_axes, list) else out_axes, result, "the results")
        if ys:
            ys = _core.vmap_of(tensors(ys), back_axes, examples, [x for _, x, _ in found], [a for _, _, a in found])
        return tree.unflatten(of, ys)
    return wrapped
