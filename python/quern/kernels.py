"""kernels.py - quern.kernel: a function of Python with loops over elements, compiled for the machine.

    @quern.kernel
    def softmax(x):
        n, m = x.shape
        y = quern.kernel.empty((n, m), x.dtype)
        for i in range(n):
            top = -math.inf
            for j in range(m):
                top = max(top, x[i, j])
            total = 0.0
            for j in range(m):
                y[i, j] = math.exp(x[i, j] - top)
                total += y[i, j]
            for j in range(m):
                y[i, j] /= total
        return y

Loops are over range(..) of sizes; arrays are read and written by element; conditions, functions of math and other
kernels may be used, and what cannot be is a KernelError with the line. The text that is made of it (kernel_text.py) is
checked, scheduled and compiled as the library's own kernels are, and a call of it is an operation like others: it
stands in graphs of jit, in maps and in loops. Numbers of Python are a part of the kernel; dtypes, numbers of axes and
which sizes are equal say for which calls one kernel serves, and sizes do up to the next power of two.

softmax.py(x) runs the function as it is, as all do with QN_NAIVE=1.
"""

import ast
import functools
import inspect
import math
import os
import textwrap
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from . import _core, autograd
from . import kernel_index as ki
from ._core import Tensor
from .jit import NAIVE, Wrapping
from .kernel_index import Index
from .kernel_text import Translator
from .kernel_values import Again, Array, Empty, KernelError, Node
from .kernel_write import Writer

MOST_INPUTS, MOST_RESULTS = 3, 5
MOST = 256  # compiled forms that a kernel remembers
LEVELS = 8  # kernels whose gradients call kernels
WALKS = 32
NO_COMPILER = "no processor to compile for"  # as src/custom/loops.c says it
STATIC = (bool, int, float, str, type(None), _core.dtype)
local = threading.local()
every: "weakref.WeakSet[Kernel]" = weakref.WeakSet()


def forget():
    """In a child of fork: compiled kernels are of the parent's contexts."""
    for k in every:
        k.forms.clear()
        k.quick.clear()


os.register_at_fork(after_in_child=forget)


# ---- the function's text ------------------------------------------------------------------------

class Source:
    """A function's tree, and what it names from outside."""

    made = 0

    def __init__(self, f):
        try:
            lines, first = inspect.getsourcelines(f)
        except (OSError, TypeError):
            raise TypeError(f"{f.__name__}: the text of a kernel is needed, and there is none") from None
        self.f, self.file, self.lines, self.first = f, inspect.getsourcefile(f) or "", lines, first
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, first - 1)
        if not isinstance(tree.body[0], ast.FunctionDef):
            raise TypeError(f"{f.__name__}: a kernel is a function by def")
        self.tree = tree.body[0]
        self.signature = inspect.signature(f)
        self.locals = set(f.__code__.co_varnames)
        Source.made += 1
        self.number = Source.made

    def text_of(self, line):
        k = line - self.first
        return self.lines[k] if 0 <= k < len(self.lines) else ""

    def bind(self, args, keywords):
        bound = self.signature.bind(*args, **keywords)
        bound.apply_defaults()
        return dict(bound.arguments)

    def outside(self, name, t):
        """A name of the closure, the module or Python; what it is now is a part of the kernel."""
        free = self.f.__code__.co_freevars
        if name in free:
            cell = self.f.__closure__[free.index(name)]
            try:
                return t.reads.note(cell, "cell_contents", cell.cell_contents)
            except ValueError:
                t.fail(f"{name} has no value")
        known = self.f.__globals__
        if name in known:
            return t.reads.note(known, name, known[name])
        builtins = known["__builtins__"]
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        if name not in builtins:
            t.fail(f"{name} is not known")
        return builtins[name]

    def attribute(self, x, name, t):
        if not inspect.ismodule(x) and x is not kernel:
            t.fail(f"a kernel looks at attributes of arrays and modules only, not of {type(x).__name__}")
        if not hasattr(x, name):
            t.fail(f"{getattr(x, '__name__', 'kernel')} has no {name}")
        return t.reads.note(x, name, getattr(x, name))


class Reads:
    """What a kernel is made of from outside, to be looked at before each call."""

    def __init__(self):
        self.items = {}

    def note(self, of, name, value):
        if type(value) in STATIC or isinstance(value, tuple):
            self.items[id(of), name] = (of, name, value)
        elif not inspect.ismodule(value):
            self.items[id(of), name] = (of, name, value)
        if isinstance(value, (Tensor, list, dict)):
            raise KernelError(f"{name} is a {type(value).__name__} from outside: give it as an argument")
        return value

    def same(self):
        for of, name, value in self.items.values():
            now = of.get(name, self) if isinstance(of, dict) else getattr(of, name, self)
            if now is not value and (type(now) is not type(value) or now != value or isinstance(value, float) and
                                     math.copysign(1, now) != math.copysign(1, value)):
                return False
        return True


# ---- compiled forms -----------------------------------------------------------------------------

class Compiled:
    """A kernel for some dtypes and sizes: its object, and the shapes of its results."""

    def __init__(self, handle, dims, shapes, picked, single, reads, text):
        self.handle, self.reads, self.picked, self.single, self.text = handle, reads, picked, single, text
        self.dims = dims  # (input, axis) of each dimension
        names = ", ".join(f"d{i}" for i in range(len(dims)))
        whole = ", ".join("(" + "".join(ki.as_index(s).python() + "," for s in shape) + ")" for shape in shapes)
        self.shapes = eval(f"lambda {names}: ({whole},)")  # of sizes alone, which this module has written

    def __call__(self, inputs):
        sizes = [inputs[i].shape[j] for i, j in self.dims]
        results = _core.kernel_call(self.handle, inputs, self.shapes(*sizes))
        return results[self.picked[0]] if self.single else tuple(results[i] for i in self.picked)


def size_class(n):
    """Sizes that one kernel serves: those between two powers of two."""
    return (n, n) if n < 2 else (1 << n.bit_length() - 1, (1 << n.bit_length()) - 1)


def inputs_of(arguments, static):
    """Arguments as a kernel has them, the dimensions with where they stand, and the text of the inputs' axes."""
    dims, found, arrays, values, axes = [], {}, [], {}, []
    for name, x in arguments.items():
        if not isinstance(x, Tensor):
            values[name] = x
            continue
        shape, words = [], []
        for j, n in enumerate(x.shape):
            lo, hi = size_class(n)
            if static or lo == hi:
                shape.append(n)
                words.append(str(n))
                continue
            if n not in found:
                found[n] = ki.Variable(f"d{len(dims)}", lo, hi)
                dims.append((found[n], (len(arrays), j)))
            shape.append(ki.variable(found[n]))
            words.append(found[n].text)
        axes.append(" ".join(words))
        values[name] = Array(name, x.dtype.name, tuple(shape))
        arrays.append(values[name])
    return values, arrays, dims, ", ".join(axes)


def walk(source, values, reads):
    """The function's tree as a kernel's; walked until all dtypes are known."""
    kinds = {}
    for _ in range(WALKS):
        t = Translator(kinds, lambda f: isinstance(f, Kernel), reads)
        for a in values.values():
            if isinstance(a, Array):
                a.read = False
        try:
            return t, finish(t, t.run(source, dict(values)), source)
        except Again:
            continue
    raise KernelError(f"{source.f.__name__}: its dtypes never settle")


def finish(t, result, source):
    """The arrays that are results, those that are returned first, and which of them these are."""
    single = not isinstance(result, tuple)
    given = (result,) if single else result
    if not given or result is None:
        raise KernelError(f"{source.f.__name__} returns nothing", (source.file, source.tree.lineno, None, ""))
    results, picked = [], []
    t.scopes = [type("Last", (), {"source": source})]
    for x in given:
        if isinstance(x, (Node, Index, bool, int, float)):
            n = t.to_node(x)
            x = Array(None, n.dtype, (), made=True)
            t.arrays.append(x)
            t.store(x, ki.as_index(0), n)
        if not isinstance(x, Array) or not x.made or x.local:
            t.fail("a kernel returns arrays that it makes outside of loops, and numbers", source.tree.lineno)
        if x not in results:
            results.append(x)
        picked.append(results.index(x))
    results += [a for a in t.arrays if a not in results]
    if len(results) > MOST_RESULTS:
        t.fail(f"a kernel makes {MOST_RESULTS} arrays at most, and this one {len(results)}", source.tree.lineno)
    return results, picked, single


def compile_form(k, arguments, static):
    source = k.source()
    reads = Reads()
    values, inputs, dims, axes = inputs_of(arguments, static)
    t, (results, picked, single) = walk(source, values, reads)
    writer = Writer(t)
    text = writer.kernel(k.__name__, [v for v, _ in dims], results, inputs, t.body)
    beside = next(x for x in arguments.values() if isinstance(x, Tensor))
    name = k.__name__ if k.__name__.isascii() else "kernel"
    try:
        handle = _core.kernel_new(beside, name[:63], text, axes, [getattr(_core, a.dtype) for a in inputs],
                                  [getattr(_core, a.dtype) for a in results])
    except ValueError as e:
        raise explained(e, source, writer) from None
    return Compiled(handle, [at for _, at in dims], [a.shape for a in results], picked, single, reads, text)


def explained(error, source, writer):
    """What the library says of a line of the text, said of the user's."""
    message = str(error)
    before, found, rest = message.partition("kernel text, line ")
    number = rest.partition(",")[0].partition(":")[0]
    line = writer.source[int(number) - 1] if found and number.isdigit() and int(number) <= len(writer.source) else 0
    return KernelError(message, (source.file, line or source.tree.lineno, None, source.text_of(line)))


# ---- kernels ------------------------------------------------------------------------------------

class Kernel(Wrapping):
    """What @quern.kernel makes of a function."""

    def __init__(self, f: Callable[..., Any], static: bool = False) -> None:
        functools.update_wrapper(self, f)
        self.__name__: str = f.__name__
        self.f, self.static = f, static
        self.slope: Callable[..., Any] | None = None
        self.forms: dict[Any, Compiled] = {}
        self.quick: dict[Any, Compiled] = {}  # by exact arguments, for calls like one before
        self.known: Source | None = None
        every.add(self)

    def __repr__(self):
        return f"<kernel {self.__name__}>"

    def source(self):
        if self.known is None:
            self.known = Source(self.f)
        return self.known

    def gradient(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Name its gradient: f(gradients of the results, results, *arguments) gives one for each argument, or None."""
        self.slope = f
        self.f.__dict__["_gradient"] = f  # which jit looks at
        return f

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if getattr(local, "plain", False):
            return self.f(*args, **keywords)
        run = self.py_tensors if NAIVE else self.run
        none = _core.is_no_grad() or getattr(local, "level", 0) >= LEVELS
        if self.slope is None or none:  # as qn_custom_call has it
            return run(*args, **keywords)
        arguments = self.source().bind(args, keywords)
        both = autograd.custom_gradient(lambda *a: run(**dict(zip(arguments, a))))
        functools.update_wrapper(both, self.f)
        both.slope = self.slope
        local.level = getattr(local, "level", 0) + 1
        try:
            return both(*arguments.values())
        finally:
            local.level -= 1

    def arguments(self, args, keywords):
        arguments = self.source().bind(args, keywords)
        kinds = self.source().signature.parameters
        for name, x in arguments.items():
            if not isinstance(x, (Tensor, Kernel, *STATIC)) and not callable(x) and not isinstance(x, tuple):
                try:
                    arguments[name] = x = _core.tensor(x)
                except Exception:
                    raise TypeError(f"{self.__name__}: {name} is {type(x).__name__}: a kernel takes tensors, numbers "
                                    "and functions") from None
            wanted = kinds[name].annotation
            if isinstance(wanted, ArrayType):
                wanted.check(self.__name__, name, x)
        return arguments

    def run(self, *args, **keywords):
        exact = None if keywords else tuple([
            (x.shape, x.dtype, x.device) if type(x) is Tensor else x if type(x) in (int, type(None)) else self
            for x in args])
        form = self.quick.get(exact) if exact else None
        if form is not None and form.reads.same():
            return form([x for x in args if type(x) is Tensor])
        form = self.form(args, keywords)
        if form is None:
            return self.py_tensors(*args, **keywords)
        if exact and self not in exact:
            if len(self.quick) >= MOST:
                self.quick.clear()
            self.quick[exact] = form
        return form([x for x in self.arguments(args, keywords).values() if isinstance(x, Tensor)])

    def form(self, args, keywords):
        """The compiled form for these arguments; None: there is no compiler."""
        arguments = self.arguments(args, keywords)
        tensors, key, seen = [], [], {}
        for x in arguments.values():
            if isinstance(x, Tensor):
                tensors.append(x)
                key.append(x.dtype)
                for n in x.shape:  # its class, and which one it equals
                    key.append(n if self.static else (size_class(n), seen.setdefault(n, len(seen))))
            else:
                key.append((type(x), repr(x)) if isinstance(x, (float, tuple)) else (type(x), x))
        if not tensors:
            raise TypeError(f"{self.__name__}: a kernel takes a tensor at least")
        if len(tensors) > MOST_INPUTS:
            raise TypeError(f"{self.__name__}: {len(tensors)} tensors, and a kernel takes {MOST_INPUTS} at most: join "
                            "some")
        key.append(tensors[0].device)
        key = tuple(key)
        form = self.forms.get(key)
        if form is None and not self.static:
            form = self.forms.get((key, tuple(x.shape for x in tensors)))
        if form is None or not form.reads.same():
            try:
                form = self.compiled(key, arguments, tensors)
            except RuntimeError as e:
                if NO_COMPILER not in str(e):
                    raise
                warnings.warn(f"{self.__name__}: there is no compiler: kernels are run by Python, slowly: "
                              "pip install quern[llvm]", RuntimeWarning, 4)
                return None
        return form

    def compiled(self, key, arguments, tensors):
        """A form for sizes like these, or where that cannot be proved to be right for just these."""
        if len(self.forms) >= MOST:
            del self.forms[next(iter(self.forms))]
        try:
            form = self.forms[key] = compile_form(self, arguments, self.static)
        except KernelError:
            if self.static:
                raise
            form = compile_form(self, arguments, True)
            self.forms[key, tuple(x.shape for x in tensors)] = form
        return form

    def py(self, *args: Any, **keywords: Any) -> Any:
        """The function as it is, by Python: to look into it, and to see what compiling brings."""
        return self.py_tensors(*args, **keywords)

    def py_tensors(self, *args, **keywords):
        arguments = {name: Plain.of(x) if isinstance(x, Tensor) else x
                     for name, x in self.arguments(args, keywords).items()}
        before, local.plain = getattr(local, "plain", False), True
        try:
            result = self.f(**arguments)
        finally:
            local.plain = before
        if isinstance(result, tuple):
            return tuple(Plain.tensor(x) for x in result)
        return Plain.tensor(result)

    def text(self, *args: Any, **keywords: Any) -> str:
        """The kernel's text for such arguments."""
        form = self.form(args, keywords)
        return form.text if form is not None else ""


# ---- as plain Python ----------------------------------------------------------------------------

class Plain:
    """An array of plain Python: a list of its elements, row by row."""

    def __init__(self, data, shape, dtype):
        self.data, self.shape, self.dtype = data, shape, dtype
        self.ndim, self.size = len(shape), len(data)
        self.round = ROUND.get(dtype.kind, float) if dtype.name != "bool" else bool

    @classmethod
    def of(cls, x):
        flat = x.reshape(-1).tolist()
        return cls(flat, x.shape, x.dtype)

    @staticmethod
    def tensor(x):
        if not isinstance(x, Plain):
            return _core.tensor(x)
        return _core.tensor(x.data, x.dtype).reshape(x.shape)

    def at(self, key):
        key = key if isinstance(key, tuple) else (key,)
        if len(key) != len(self.shape):
            raise IndexError(f"{len(key)} indices for {len(self.shape)} axes")
        flat = 0
        for i, n in zip(key, self.shape):
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of bounds for an axis of {n}")
            flat = flat * n + (i if i >= 0 else i + n)
        return flat

    def __getitem__(self, key):
        return self.data[self.at(key)]

    def __setitem__(self, key, value):
        self.data[self.at(key)] = self.round(value)

    def __len__(self):
        return self.shape[0]


ROUND = {"i": int, "u": int, "b": bool}


def plain(name, first, value=0, dtype=None):
    like = name.endswith("_like")
    shape = first.shape if like else first if isinstance(first, tuple) else (first,)
    dtype = dtype or (first.dtype if like else _core.float32)
    if not isinstance(dtype, _core.dtype):
        dtype = getattr(_core, {float: "float32", int: "int64", bool: "bool"}.get(dtype, dtype))
    return Plain([value] * math.prod(shape), shape, dtype)


class Making(Empty):
    """kernel.empty and the like: in plain Python they make plain arrays."""

    def __call__(self, first, *more, **keywords):
        names = (["value"] if self.name.startswith("full") else []) + ["dtype"]
        return plain(self.name, first, **dict(zip(names, more)), **keywords)


class ArrayType:
    """What kernel.array says of an argument."""

    def __init__(self, dtype=None, ndim=None):
        self.dtype, self.ndim = dtype, ndim

    def check(self, call, name, x):
        if not isinstance(x, Tensor):
            raise TypeError(f"{call}: {name} is {x!r}, and an array is wanted")
        if self.dtype is not None and x.dtype != self.dtype:
            raise TypeError(f"{call}: {name} is of {x.dtype.name}, and {getattr(self.dtype, 'name', self.dtype)} is "
                            "wanted")
        if self.ndim is not None and x.ndim != self.ndim:
            raise ValueError(f"{call}: {name} has {x.ndim} axes, and {self.ndim} are wanted")


class Decorator:
    """quern.kernel."""

    Error = KernelError
    array = ArrayType
    empty, zeros, full = Making("empty"), Making("zeros"), Making("full")
    empty_like, zeros_like, full_like = Making("empty_like"), Making("zeros_like"), Making("full_like")

    def __call__(self, f: Callable[..., Any] | None = None, *, static: bool = False) -> Any:
        """A function with loops over elements, compiled; `static`: for each shape by itself."""
        return Kernel(f, static) if f is not None else functools.partial(Kernel, static=static)


kernel = Decorator()
