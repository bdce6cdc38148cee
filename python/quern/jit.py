"""jit.py - quern.jit: a function of Python as a static graph.

A function is called once on stand-ins for its tensors (traced), for each structure, shapes, dtypes and other
arguments; what it recorded is planned and compiled, and later calls run that. What it uses from outside:

- Tensors are captured: a call takes the value they have then. What the function does to them or to an argument,
  x += 1 or a gradient of backward(), is done at each call.
- All else, numbers in globals, closures, attributes and containers, is part of the graph. It is looked at again
  before each call (Watch), in all functions and methods that it reaches: where it changed the function is traced anew.
- What the function changes itself when it is traced, a counter or a list, changes once: that is said in a warning.

QN_NAIVE=1 runs the plain function. So do a jit inside of a trace, which becomes a part of it, one whose derivative is
taken (autograd.py), and one whose results backward() could be called of: what a plan gives has no history.

A call like one before runs without this file (src/fast.c), if all that Watch looked at is the same objects as then.
"""

import collections
import contextvars
import dis
import functools
import os
import sys
import types
import warnings
import weakref
import zlib
from collections.abc import Callable
from collections.abc import Callable, Sequence
from typing import Any

from . import _core, autograd, tree
from ._core import Tensor

NAIVE = os.environ.get("QN_NAIVE", "0") not in ("", "0")
PLAINLY = ("ref",)  # devices that have no plans
MOST = 64  # kinds of arguments that a function keeps graphs for
VERSIONS = 4  # graphs for the same arguments, of other state
OFTEN = 8  # traces for other values of plain arguments, of which a warning tells
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, _core.dtype)
ONLY_PLAIN = frozenset(PLAIN)  # and no heir of them, which may have attributes
VALUE = ((int, int.__int__), (float, float.__float__), (complex, complex.__complex__), (str, str.__str__),
         (bytes, bytes.__bytes__))  # what an heir of them is
FIXED = (type, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
BOUND = "_quern_jit"  # in the __dict__ of an instance: its methods that are Jitted
PACKAGE = __name__.partition(".")[0]


# Steps of a look, as steps.c has them: what was found at an item of a dict, an attribute, as all items of a list, of a
# dict, of another mapping, of what is iterated, as the dict of an object, its type, in one of its slots.
ITEM, ATTRIBUTE, LIST, DICT, MAPPING, ITERATED, DICT_OF, TYPE, SLOT = range(9)
ABSENT = _core.ABSENT


class Wrapping:
    """What stands for its function f, and is looked at as that is."""


class Watch:
    """What a function can see: a list of tokens, equal where nothing changed, and the paths they were found by.

    Of modules and classes that is what the functions have names for, of which more may be found on the way: then it
    looks again. Code of installed packages is taken as it is. `steps` are the places that it looked at and what it
    found: while they find the same objects, another look gives the same tokens. None: some cannot be told so."""

    def __init__(self, f, names=(), arguments=()):
        self.names = dict.fromkeys(names)  # in the order they were found in, which another look keeps
        known = -1
        while known != len(self.names):
            known = len(self.names)
            self.tokens, self.paths, self.held, self.seen, self.steps = [], [], [], set(), []
            self.value(f, getattr(f, "__qualname__", "f"))
            for x in arguments:
                self.value(x, type(x).__name__)
        del self.seen

    def step(self, kind, x, key, found):
        if self.steps is not None:
            self.steps.append((kind, x, key, found))

    def add(self, path, token, held=None):
        self.tokens.append(token)
        self.paths.append(path)
        if held is not None:
            self.held.append(held)

    def value(self, x, path):
        if isinstance(x, (Jitted, Wrapping)):
            x = x.f
        if type(x) in ONLY_PLAIN:
            self.tokens.append(token_of(x))
            self.paths.append(path)
        elif isinstance(x, PLAIN):  # of a class of its own: np.float64, a member of an Enum
            self.add(path, token_of(x), x)
            if id(x) not in self.seen:
                self.seen.add(id(x))
                self.instance(x, path)
        elif isinstance(x, types.MethodType):  # made anew by each look
            self.value(x.__self__, "self")
            self.value(x.__func__, path)
        elif isinstance(x, Tensor) or isinstance(x, FIXED) and not isinstance(x, type):
            self.add(path, id(x), x)
        elif id(x) in self.seen:
            self.add(path, id(x))
        else:
            self.seen.add(id(x))
            self.add(path, (type(x), id(x)), x)
            self.inside(x, path)

    def inside(self, x, path):
        if isinstance(x, types.FunctionType):
            self.function(x, path)
        elif isinstance(x, functools.partial):
            for part in ("func", "args", "keywords"):
                self.value(getattr(x, part), f"{path}.{part}")
        elif isinstance(x, types.ModuleType):
            self.named(x, path, is_fixed(x.__name__))
        elif isinstance(x, type):
            self.step(ATTRIBUTE, x, "__mro__", x.__mro__)
            for cls in x.__mro__:
                if not is_fixed(getattr(cls, "__module__", None)):
                    self.named(cls, path)
            if type(x) is not type:
                self.step(TYPE, x, None, type(x))
                self.value(type(x), path)
        elif isinstance(x, (weakref.ref, contextvars.ContextVar)):
            self.never()
            try:
                self.value(x() if isinstance(x, weakref.ref) else x.get(), path)
            except LookupError:
                self.add(path, "empty")
        elif isinstance(x, (staticmethod, classmethod)):
            self.value(x.__func__, path)
        elif isinstance(x, property):
            for f in (x.fget, x.fset):
                self.value(f, path)
        else:
            self.contents(x, path)
            self.instance(x, path)

    def function(self, f, path):
        self.add(path, id(f.__code__), f.__code__)
        self.step(ATTRIBUTE, f, "__code__", f.__code__)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            try:
                found = cell.cell_contents
                self.value(found, name)
            except ValueError:
                found = ABSENT
                self.add(name, "empty")
            self.step(ATTRIBUTE, cell, "cell_contents", found)
        if is_fixed(f.__module__):
            return
        used = used_names(f.__code__)
        known = f.__globals__
        self.names.update(dict.fromkeys(used[1]))
        reached = used[0]
        if "globals" in reached and "globals" not in known:  # globals()["name"], as far as the code has the name
            reached = (*reached, *(name for name in used[1] if name not in reached))
        for name in reached:
            self.step(ITEM, known, name, known.get(name, ABSENT))
            if name in known:
                self.value(known[name], name)
        self.step(ATTRIBUTE, f, "__defaults__", f.__defaults__)
        self.step(ATTRIBUTE, f, "__kwdefaults__", f.__kwdefaults__)
        self.step(ATTRIBUTE, f, "__dict__", f.__dict__)
        self.step(DICT, f.__dict__, None, tuple(part for item in f.__dict__.items() for part in item))
        self.value(f.__defaults__, path + " defaults")
        self.value(f.__kwdefaults__, path + " defaults")
        for name, v in f.__dict__.items():
            self.value(v, f"{path}.{name}")

    def named(self, x, path, fixed=False):
        """What a module or class has that is used by name, and how it works: __call__, __mul__."""
        known = vars(x)
        found = [name for name in self.names if name in known]
        if isinstance(x, types.ModuleType):
            for name in self.names:
                self.step(ITEM, known, name, known.get(name, ABSENT))
        else:
            self.step(MAPPING, known, None, (*known.keys(), *known.values()))
            found += [name for name in known if name[:2] == "__" and isinstance(known[name], types.FunctionType)]
        for name in found:
            v = known[name]
            if fixed and isinstance(v, (types.ModuleType, type, types.FunctionType)):
                self.add(f"{path}.{name}", id(v), v)
            elif not isinstance(v, types.MemberDescriptorType):
                self.value(v, f"{path}.{name}")

    def contents(self, x, path):
        if isinstance(x, (dict, types.MappingProxyType)):
            self.add(path, len(x))
            self.items(x)
            for k, v in x.items():
                self.value(k, path)
                self.value(v, f"{path}[{k!r}]" if isinstance(k, PLAIN) else path)
        elif isinstance(x, (list, tuple, set, frozenset, collections.deque)):
            self.add(path, len(x))
            if type(x) not in (tuple, frozenset):
                whole = type(x) is list and LIST or type(x) in (set, collections.deque) and ITERATED
                self.step(whole, x, None, tuple(x)) if whole else self.never()
            for i, v in enumerate(x):
                self.value(v, f"{path}[{i}]")
        else:
            try:
                bytes_ = memoryview(x)
            except (TypeError, ValueError, BufferError):
                return
            self.never()
            self.add(path, (bytes_.format, bytes_.shape, zlib.crc32(bytes_.tobytes())))
            if "O" in bytes_.format and hasattr(x, "flat"):  # an array of objects, or of records that have some
                for row in x.flat:
                    for v in (row,) if bytes_.format == "O" else row.tolist():
                        self.value(v, path)

    def items(self, x):
        if isinstance(x, types.MappingProxyType) or type(x) is collections.OrderedDict:  # of an order of its own
            self.step(MAPPING, x, None, (*x.keys(), *x.values()))
        elif type(x).items is dict.items:
            self.step(DICT, x, None, tuple(part for item in dict.items(x) for part in item))
        else:
            self.never()

    def never(self):
        """What is looked at now has no steps: it is looked at again by each call."""
        self.steps = None

    def instance(self, x, path):
        if getattr(type(x), "__module__", None) == "builtins":
            return
        self.step(TYPE, x, None, type(x))
        known = getattr(x, "__dict__", None)
        if isinstance(known, dict):
            self.step(DICT_OF, x, None, known)
            self.step(DICT, known, None, tuple(part for item in known.items() for part in item))
            for name, v in known.items():
                if not isinstance(v, Bound):
                    self.add(path, name)
                    self.value(v, f"{path}.{name}")
        for cls in type(x).__mro__:
            if is_fixed(getattr(cls, "__module__", None)):
                continue
            for name, v in vars(cls).items():
                if isinstance(v, types.MemberDescriptorType):  # of __slots__
                    try:
                        found = v.__get__(x)
                        self.value(found, f"{path}.{name}")
                    except AttributeError:
                        found = ABSENT
                        self.add(path, "empty")
                    self.step(SLOT, x, v, found)
        self.value(type(x), path)

    def changed_since(self, before):
        """The first path that is another one than it was."""
        for path, a, b in zip(self.paths, self.tokens, before.tokens):
            if a != b:
                return path
        return (self.paths if len(self.paths) > len(before.paths) else before.paths)[-1]


def token_of(x):
    """Of a plain value, what is equal only for the same one: 1 is not True, and 0.0 is not -0.0."""
    if type(x) not in ONLY_PLAIN:  # of a class with an __eq__ and __repr__ of its own, perhaps
        return type(x), next((token_of(value(x)) for base, value in VALUE if isinstance(x, base)), x)
    if isinstance(x, (float, complex)):
        return type(x), repr(x)
    if isinstance(x, slice):
        return slice, token_of(x.start), token_of(x.stop), token_of(x.step)
    return type(x), x


@functools.lru_cache(maxsize=4096)
def is_fixed(module):
    """Is a module's code taken as it is? That of Python, of installed packages, and ours."""
    root = (module or "").partition(".")[0]
    if root == PACKAGE or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


@functools.lru_cache(maxsize=4096)
def used_names(code):
    """Names of globals that code uses, and functions defined in it; and all names there, of attributes and as texts,
    getattr(x, "k"). A global that is called as an attribute is may change without being seen."""
    found = {i.argval for i in dis.get_instructions(code) if "GLOBAL" in i.opname or i.opname == "LOAD_NAME"}
    names, constants = set(code.co_names), list(code.co_consts)
    for c in constants:  # which grows
        if isinstance(c, types.CodeType):
            inside = used_names(c)
            found.update(inside[0])
            names.update(inside[1])
        elif isinstance(c, (tuple, frozenset)):
            constants.extend(c)
        elif isinstance(c, str):
            names.update(part for part in c.split(".") if part.isidentifier())
    return tuple(sorted(found)), tuple(sorted(names))


def distinct(leaves):
    """The tensors, each once: what is done to one by the name of an argument is done to all that it has."""
    return list({id(x): x for x in leaves if isinstance(x, Tensor)}.values())


def watched(leaves):
    """Arguments that are objects of their own: what they have is looked at, too."""
    return [x for x in leaves if type(x) not in ONLY_PLAIN and not isinstance(x, Tensor) and
            (isinstance(x, PLAIN) or type(x).__eq__ is object.__eq__)]


# Called before a function is recorded: what is made once must not be made within.
before_trace: list[Callable[[], object]] = []


class Graph:
    """One trace and, from the first call on that has use for it, its plan."""

    def __init__(self, jitted, args, keywords, leaves, structure):
        for prepare in before_trace:
            prepare()
        own = watched(leaves)
        self.watch = Watch(jitted.f, arguments=own)
        self.changes = []  # (input whose tensor is to be changed, output, is it a gradient?)
        given_grads = [x.grad for x in distinct(leaves)]
        _core.trace_begin()
        captured, data, outside, self.own_gradient = None, None, None, False
        try:
            stand_ins = {id(x): _core.trace_input(x) for x in distinct(leaves)}
            given = [stand_ins[id(x)] if isinstance(x, Tensor) else x for x in leaves]
            inputs = [_core.handle_copy(x) for x in stand_ins.values()]
            traced_args, traced_keywords = tree.unflatten(structure, given)
            result = jitted.f(*traced_args, **traced_keywords)
            outputs, self.structure = tree.flatten(result)
            self.constants = tuple(None if isinstance(y, Tensor) else y for y in outputs)
            found = [_core.variable(y) for y in outputs if isinstance(y, Tensor)]
            self.results = len(found)
            for k, x in enumerate(stand_ins.values()):
                if not _core.same_handle(x, inputs[k]):
                    self.changes.append((k, len(found), False))
                    found.append(_core.variable(x))
                if x.grad is None and given_grads[k] is not None:
                    self.changes.append((k, -1, True))
                elif x.grad is not given_grads[k]:
                    self.changes.append((k, len(found), True))
                    found.append(_core.variable(x.grad))
        finally:
            captured, data, outside, self.own_gradient = _core.trace_end()
        captured.sort(key=lambda c: c[2] is None)  # first what changes, whose memory may go to what it becomes
        self.arguments = len(inputs)
        self.captured = [c[0] for c in captured]
        self.outside = outside  # arguments that are what it has from outside, too
        states, state_output = sum(now is not None for _, _, now, *_ in captured), len(found)
        places = {key: k for k, key in enumerate([*stand_ins, *(id(x) for x, *_ in captured)])}
        whose = [-1 if of is None else places.get(id(of), -1) for *_, of in captured]
        for k, (x, stand_in, now, *_) in enumerate(captured, self.arguments):
            inputs.append(stand_in)
            if now is not None:
                self.changes.append((k, len(found), False))
                found.append(now)
        for k, (*_, grad, cleared, _of) in enumerate(captured, self.arguments):
            if grad is not None:
                self.changes.append((k, len(found), True))
                found.append(grad)
            elif cleared:
                self.changes.append((k, -1, True))
        self.look_again(jitted, own)
        donated = jitted.donated(leaves, args, keywords)
        _core.mark_outside(self.captured + self.outside)

        def plan(data=data):  # of constants, which the plan has from then on
            return _core.plan_new(inputs, found, donated, states, self.arguments, state_output)
        reaches = _core.reach_of(found[:self.results], inputs)
        had = [x.grad is not None for x in distinct(leaves) + self.captured]
        self.ready = _core.ready_new(plan, self.arguments, tuple(self.captured), self.changes, self.structure.nodes,
                                     self.constants, tree.made, reaches, had, whose, self.own_gradient)

    def look_again(self, jitted, own):
        """Behind the trace; a warning tells what it changed."""
        now = Watch(jitted.f, self.watch.names, own)
        if now.tokens != self.watch.tokens:
            what = now.changed_since(self.watch)
            warnings.warn(f"jit: {jitted.__name__} changed {what} when it was traced; calls that run its graph do not",
                          RuntimeWarning, stacklevel=6)
        self.watch = now

    def fits(self, jitted, leaves):
        if not self.ready.fits(distinct(leaves)):
            return False
        now = Watch(jitted.f, self.watch.names, watched(leaves))
        if now.tokens != self.watch.tokens:
            return False
        self.watch = now
        return True

    def may_be_remembered(self, leaves, structure):
        """Are equal words of fast.c such arguments again?"""
        return self.watch.steps is not None and \
            all(node is None or node[0] in (tuple, list, dict, type(None)) for node in structure.nodes) and \
            all(isinstance(x, (Tensor, *PLAIN)) or type(x).__eq__ is object.__eq__ for x in leaves)


class Bound(dict):
    """The methods of an instance that are Jitted, in its __dict__, so that they go with it; copies get their own."""

    def __reduce__(self):
        return Bound, ()


class Jitted(_core.JitBase):
    """What quern.jit() gives."""

    def __init__(self, f, donate=()):
        functools.update_wrapper(self, f)
        self.f, self.donate = f, (donate,) if isinstance(donate, int) else tuple(donate)
        self.graphs, self.traces, self.plain = {}, 0, set()
        self.outside = set()  # of tensors that graphs found outside: one that is an argument, too, has its own graph

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        known = getattr(instance, "__dict__", None)
        if isinstance(known, dict):
            kept, key = known.get(BOUND), self
            if not kept or next(iter(kept.values())).f.__self__ is not instance:  # new, or of what it is a copy of
                kept = known[BOUND] = Bound()
        else:  # nothing goes with it: the last ones are kept
            kept, key = self.__dict__.setdefault("bound", {}), id(instance)
        found = kept.get(key)
        if found is None or found.f.__self__ is not instance:
            if key is not self and len(kept) >= MOST:
                del kept[next(iter(kept))]
            found = kept[key] = Jitted(types.MethodType(self.f, instance), self.donate)
        return found

    def donated(self, leaves, args, keywords):
        place = {id(x): k for k, x in enumerate(distinct(leaves))}
        bits = 0
        for k, arg in enumerate(args):
            for leaf in tree.leaves(arg):
                if isinstance(leaf, Tensor):
                    bits |= (k in self.donate) << place[id(leaf)]
        return bits

    def key(self, leaves, structure):
        parts, place = [structure, _core.is_no_grad()], {}
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                same = place.setdefault(id(leaf), len(place))
                parts.append((leaf.shape, leaf.dtype, leaf.requires_grad, same,
                              id(leaf) in self.outside and id(leaf)))
            else:
                parts.append(token_of(leaf) if isinstance(leaf, PLAIN) else (type(leaf), leaf))
        key = tuple(parts)
        try:
            hash(key)
        except TypeError:
            bad = next(x for x in leaves if getattr(type(x), "__hash__", None) is None)
            raise TypeError(f"jit: argument {bad!r} of {self.__name__} is neither a tensor nor hashable, so it cannot "
                            "be known again: give a tensor, or a tuple") from None
        return key

    def slow(self, *args, **keywords):
        """A call as fast.c cannot make it."""
        if NAIVE or _core.is_tracing() or _core.is_deriving():
            return self.f(*args, **keywords)
        leaves, structure = tree.flatten((args, keywords))
        if any(isinstance(x, Tensor) and x.device in PLAINLY for x in leaves) or _core.default_device() in PLAINLY:
            return self.f(*args, **keywords)
        key = self.key(leaves, structure)
        graph = next((g for g in self.graphs.get(key, ()) if g.fits(self, leaves)), None) or \
            self.trace(key, args, keywords, leaves, structure)
        tensors = distinct(leaves)
        if graph.may_be_remembered(leaves, structure):
            self.remember(args, keywords, tensors, graph.ready, graph.watch.steps)
        result = graph.ready.run(tensors)
        return self.f(*args, **keywords) if result is NotImplemented else result

    def trace(self, key, args, keywords, leaves, structure):
        self.traces += 1
        plain = tuple(x for x in leaves if not isinstance(x, Tensor))
        self.plain.add(tuple(token_of(x) if isinstance(x, PLAIN) else x for x in plain))
        if len(self.plain) == OFTEN:
            warnings.warn(f"jit: {self.__name__} was traced for {OFTEN} values of its arguments that are no tensors, "
                          f"such as {plain!r}: give them as tensors where they change", RuntimeWarning, stacklevel=3)
        while len(self.graphs) >= MOST:
            self.graphs.pop(next(iter(self.graphs)))
            self.forget()
        graph = Graph(self, args, keywords, leaves, structure)
        self.outside.update(id(x) for x in graph.captured + graph.outside)
        known = self.graphs.setdefault(self.key(leaves, structure), [])
        known.insert(0, graph)
        del known[VERSIONS:]
        return graph


def jit(f: Callable[..., Any] | None = None, *, donate: int | Sequence[int] = ()) -> Any:
    """f as a static graph: planned and compiled at its first call for these shapes, dtypes and other arguments.
    Arguments and results are trees of tensors; what is no tensor is part of the graph, and another value makes
    another one. donate: numbers of arguments whose memory results may take; they are used up.

        @quern.jit
        def step(x, w):
            return quern.tanh(x @ w)
    """
    return functools.partial(jit, donate=donate) if f is None else Jitted(f, donate)
