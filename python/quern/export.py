"""export.py - quern.export: what a function of tensors computes as plain C, a .c file and its header (docs/export.md).

The function is traced, as quern.jit does it, and not recorded on the user's tensors. What a function does to a tensor
from outside, w.assign(..) or a gradient of backward(), is done to the tensor itself where there is no trace, and to
undo that means to know all that was touched. A trace knows it: it has a stand-in for each tensor that the function
uses, gives back what the tensors were, and says what they would be, and that is what a program needs: a tensor that
stays as it is is a parameter, one that changes a state, whose next value is an output of the trace.

It differs from jit's trace in one thing: stand-ins have the values of their tensors, for the program keeps them. So
parameters are in memory twice while a program is written.
"""

import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _core, tree
from ._core import Tensor
from .files import named
from .jit import Jitted, PLAIN, Watch, before_trace, distinct, watched
from .optim import Optimizer


class Exported(NamedTuple):
    """What NAME_run takes, in this order: inputs, outputs, and one state, if there are any; then the blob's values,
    if there is one, and an arena. A tensor of `states` is the user's, whose value NAME_init gives to the state, where
    it lies at NAME_STATE_i_OFFSET, i being its place in the dict."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: dict[str, Tensor]


class Names(Watch):
    """What a function can see, and what the tensors among it are called."""

    def __init__(self, f, arguments=()):
        self.met = {}
        super().__init__(f, arguments=arguments)

    def value(self, x, path):
        if isinstance(x, (Tensor, Optimizer)) or hasattr(type(x), "named_parameters"):
            self.met.setdefault(id(x), (x, path))
        super().value(x, path)

    def called(self, f):
        """By id: first as modules call them, then by the way to them; an optimizer's state by its parameter."""
        found = {}
        optimizers = [(x, path) for x, path in self.met.values() if isinstance(x, Optimizer)]
        inner = {id(t) for x, _ in optimizers for state in x.state.values() for t in state.values()}
        for x, path in self.met.values():
            if not isinstance(x, (Tensor, Optimizer)):
                prefix = "" if x is f else path
                for name, t in (*x.named_parameters(prefix), *x.named_buffers(prefix)):
                    found.setdefault(id(t), name)
        for x, path in self.met.values():
            if isinstance(x, Tensor) and id(x) not in inner:
                found.setdefault(id(x), path)
        for x, path in optimizers:
            for k, p in enumerate(q for group in x.param_groups for q in group["params"]):
                for name, t in x.state[id(p)].items():
                    found.setdefault(id(t), f"{found.get(id(p), f'{path}.{k}')}.{name}")
        random = sys.modules.get(f"{__package__}.nn.random")
        if random is not None and random.generator.key is not None:
            found.setdefault(id(random.generator.key), "nn.random.key")
        return found


def input_names(f, args, keywords):
    """By id of a tensor: the parameter's name, and below it the way in its tree."""
    try:
        given = inspect.signature(getattr(f, "forward", f)).bind(*args, **keywords).arguments
    except (TypeError, ValueError):  # of C, or a call that f itself refuses
        given = {**{str(k): x for k, x in enumerate(args)}, **keywords}
    found = {}
    for key, x in given.items():
        for name, leaf in named(x, key, str):
            found.setdefault(id(leaf), name)
    return found


def check_arguments(leaves, call):
    for x in leaves:
        if not isinstance(x, (Tensor, *PLAIN)) and (getattr(type(x), "__hash__", None) is None or
                                                    hasattr(x, "__dlpack__")):
            raise TypeError(f"export: argument {x!r} of {call} is neither a tensor nor a plain value: give a tensor")


def tensors_of(result, call):
    """(name, tensor) of each output."""
    found = list(named(result, "output" if tree.children_of(result) is None else "", str))
    for name, y in found:
        if not isinstance(y, Tensor):
            raise TypeError(f"export: {name} of what {call} gives is {y!r}, and an output is a tensor")
    return found


def check_unchanged(tensors, stand_ins, inputs, grads, names, call):
    """An argument that the function changes would be changed for the caller, too, or not; C's inputs never are."""
    for x, now, then, grad in zip(tensors, stand_ins, inputs, grads):
        what = "" if not _core.same_handle(now, then) else None if now.grad is grad else "the gradient of "
        if what is not None:
            raise ValueError(f"export: {call} changes {what}argument {names[id(x)]}, and a program's inputs stay as "
                             "they are: give what it becomes as a result, or let the function find the tensor outside, "
                             "which makes it a state")


def states_of(captured, names, call):
    """[(tensor, its stand-in, what stands for its next value, its name)]

    A gradient that the function leaves is used up where its tensor changes, by an optimizer's step. Where it used the
    gradient that was there before, the new one takes its place: that is a state, too."""
    left = {id(x): grad for x, _, _, grad, _, _ in captured if grad is not None}
    cleared = {id(x) for x, _, _, _, cleared, _ in captured if cleared}
    kept = {id(of) for *_, of in captured if of is not None}

    def name_of(x, of):
        return names.get(id(x)) or (f"{name_of(of, None)}.grad" if of is not None else "a tensor")
    found = []
    for x, stand_in, now, grad, _, of in captured:
        if of is not None and id(of) in cleared:
            raise ValueError(f"export: {call} uses the gradient that {name_of(of, None)} has now, and clears it, so "
                             "that only the first run would have it: clear it before")
        now = left.get(id(of), now) if of is not None else now
        if now is not None:
            found.append((x, stand_in, now, name_of(x, of)))
        elif grad is not None and id(x) not in kept:
            raise ValueError(f"export: {call} leaves a gradient in {name_of(x, of)}, which a program has no place for: "
                             "give it as a result, or clear it at the end")
    return found


def distinct_names(found):
    """Each name once: those that come again get a number."""
    out = {}
    for x, _, _, name in found:
        k = 1
        while (name if k == 1 else f"{name}.{k}") in out:
            k += 1
        out[name if k == 1 else f"{name}.{k}"] = x
    return out


def export(f: Callable[..., Any], path: str | os.PathLike[str], /, *args: Any, name: str | None = None,
           blob: str | os.PathLike[str] | None = None, **keywords: Any) -> Exported:
    """Write what f(*args, **keywords) computes as a program of C: the file `path`, which ends in .c, and its header.

        def step(x, y):
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss
        quern.export(step, "step.c", x, y)

    f, a function, a module or a jit, is called once, on stand-ins for the tensors of its arguments, of which the
    shapes and dtypes count: they are the inputs, in the order of the arguments and of their trees, one that is given
    twice once. The tensors of what it gives are the outputs. Tensors from outside are parameters as they are now, and
    a state where f changes them: weights, an optimizer's state, running means, dropout's key. What is no tensor is
    part of the program. An argument that f changes is a ValueError. name: in front of all names of C, else the file's;
    blob: a file for the parameters, else they are in the .c file. Afterwards all tensors are as they were."""
    plain = f.f if isinstance(f, Jitted) else f
    call = getattr(plain, "__name__", type(plain).__name__)
    leaves, structure = tree.flatten((args, keywords))
    check_arguments(leaves, call)
    for prepare in before_trace:
        prepare()
    tensors, own = distinct(leaves), watched(leaves)
    seen, inputs_named = Names(plain, own), input_names(plain, args, keywords)
    grads = [x.grad for x in tensors]
    captured, data = [], None
    _core.trace_begin(True)
    try:
        stand_ins = {id(x): _core.trace_input(x) for x in tensors}
        inputs = [_core.handle_copy(x) for x in stand_ins.values()]
        args, keywords = tree.unflatten(structure, [stand_ins.get(id(x), x) for x in leaves])
        results = tensors_of(plain(*args, **keywords), call)
        outputs = [_core.variable(y) for _, y in results]
        check_unchanged(tensors, stand_ins.values(), inputs, grads, inputs_named, call)
    finally:
        captured, data, _, _ = _core.trace_end()
    now = Watch(plain, seen.names, own)
    if now.tokens != seen.tokens:
        warnings.warn(f"export: {call} changed {now.changed_since(seen)} when it was called; runs of the program do "
                      "not", RuntimeWarning, stacklevel=2)
    found = states_of(captured, seen.called(plain), call)
    states = distinct_names(found)
    try:
        if not outputs and not found:
            raise ValueError(f"export: {call} gives no tensor and changes none")
        _core.export_write(path, inputs, outputs, [s for _, s, _, _ in found], [y for _, _, y, _ in found],
                           list(states), (name, blob))
    finally:  # what is to be assigned is let go, also where an exception holds this call
        del captured, data, found, inputs, outputs
    path = os.fsdecode(path)
    name = name or os.path.basename(path)[:-2]
    return Exported(name, tuple(inputs_named[id(x)] for x in tensors), tuple(n for n, _ in results),
                    states)
