"""module.py - Module: tensors under names, with PyTorch's ways to register, list, save and load them.

An attribute that is a Parameter is trained, one of register_buffer() is kept along, one that is a Module is a part.
All are plain attributes of the instance; what they are stands in `_kinds`, in the order in which they came. A module
is a tree whose leaves are its parameters (quern.tree): grad, value_and_grad and vmap take modules.
"""

import collections
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .. import _core, tree
from .._core import Tensor
from ..autograd import no_grad

PARAMETER, BUFFER, MODULE = "parameter", "buffer", "module"
Missing = collections.namedtuple("Missing", "missing_keys unexpected_keys")
known: "weakref.WeakValueDictionary[int, Tensor]" = weakref.WeakValueDictionary()  # parameters by id


def Parameter(data: Any, requires_grad: bool = True) -> Tensor:  # noqa: N802
    """A tensor that a module which gets it as an attribute takes for a parameter."""
    x = data if isinstance(data, Tensor) else _core.tensor(data)
    if x.requires_grad or x.dtype.kind not in "fc":
        x = x.detach().clone() if x.requires_grad else x
    x = x.realize()
    if requires_grad:
        x.requires_grad = True
    known[id(x)] = x
    return x


def is_parameter(x: Any) -> bool:
    return isinstance(x, Tensor) and known.get(id(x)) is x


class Same:
    """A module in the structure of a tree: equal to itself and to those that were made of it with other parameters."""

    def __init__(self, module):
        self.module, self.origin = module, module.__dict__.get("_origin", module)

    def __eq__(self, other):
        return isinstance(other, Same) and self.origin is other.origin

    def __hash__(self):
        return id(self.origin)

    def __repr__(self):
        return type(self.module).__name__


class Module:
    """What has parameters, buffers and parts, and a forward(). A heir calls super().__init__() first."""

    training: bool
    _kinds: dict[str, str]
    _left_out: set[str]

    def __init__(self) -> None:
        object.__setattr__(self, "_kinds", {})
        object.__setattr__(self, "_left_out", set())  # buffers that are not saved
        self.training = True

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        tree.register(cls, children, remade)

    # ---- attributes ----

    def __setattr__(self, name: str, value: Any) -> None:
        kinds: Any = self.__dict__.get("_kinds")
        kind = MODULE if isinstance(value, Module) else PARAMETER if is_parameter(value) else None
        if kind and kinds is None:
            raise AttributeError(f"{type(self).__name__}: super().__init__() comes before attributes")
        if kind:
            if kinds.get(name) != kind:
                kinds.pop(name, None)
                kinds[name] = kind
        elif kinds and name in kinds and value is not None and not (
                isinstance(value, Tensor) and kinds[name] == BUFFER):
            if kinds[name] == PARAMETER and isinstance(value, Tensor):
                raise TypeError(f"{type(self).__name__}.{name} is a parameter: give a Parameter, or None")
            del kinds[name]
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._kinds.pop(name, None)
        object.__delattr__(self, name)

    def _check_name(self, name: str) -> None:
        """May a parameter, a buffer or a part be called so?"""
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"{type(self).__name__}: {name!r} is no name: a text without a point")
        if name not in self._kinds and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} has an attribute {name!r} already")

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        self._check_name(name)
        self._kinds[name] = PARAMETER
        object.__setattr__(self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that goes with the module and is not trained; saved if `persistent`."""
        self._check_name(name)
        self._kinds[name] = BUFFER
        (self._left_out.discard if persistent else self._left_out.add)(name)
        object.__setattr__(self, name, tensor)

    def add_module(self, name: str, module: "Module | None") -> None:
        self._check_name(name)
        self._kinds[name] = MODULE
        object.__setattr__(self, name, module)

    register_module = add_module

    def _own(self, kind: str) -> Iterator[tuple[str, Any]]:
        for name, k in self._kinds.items():
            if k == kind and self.__dict__.get(name) is not None:
                yield name, self.__dict__[name]

    # ---- lists ----

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        return self._own(MODULE)

    def children(self) -> Iterator["Module"]:
        for _, m in self.named_children():
            yield m

    def named_modules(self, memo: set[int] | None = None, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """This module and all of its parts, each once."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, m in self.named_children():
            yield from m.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["Module"]:
        for _, m in self.named_modules():
            yield m

    def _named(self, kind: str, prefix: str, recurse: bool, all_: bool = False) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for path, m in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, x in m._own(kind):
                if all_ or id(x) not in seen:
                    seen.add(id(x))
                    yield f"{path}.{name}" if path else name, x

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        return self._named(PARAMETER, prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, x in self.named_parameters(recurse=recurse):
            yield x

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        return self._named(BUFFER, prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, x in self.named_buffers(recurse=recurse):
            yield x

    def get_submodule(self, target: str) -> "Module":
        m: Any = self
        for part in target.split(".") if target else []:
            if part not in m._kinds or m._kinds[part] != MODULE:
                raise AttributeError(f"{type(m).__name__} has no module {part!r}")
            m = m.__dict__[part]
        return m

    def get_parameter(self, target: str) -> Tensor:
        path, _, name = target.rpartition(".")
        x: Tensor = self.get_submodule(path).__dict__[name]
        return x

    get_buffer = get_parameter

    # ---- state ----

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Parameters and buffers by name, PyTorch's. The tensors are the module's own."""
        found = {}
        for kind in (PARAMETER, BUFFER):
            for name, x in self._own(kind):
                if kind == PARAMETER or name not in self._left_out:
                    found[prefix + name] = x
        for name, m in self.named_children():
            found.update(m.state_dict(f"{prefix}{name}."))
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Any:
        """Take values by name: tensors, also of PyTorch, or arrays. strict: no name may be missing or unknown."""
        mine, wrong = self.state_dict(), []
        missing = [n for n in mine if n not in state_dict]
        unexpected = [n for n in state_dict if n not in mine]
        if strict and missing:
            wrong.append("there is no " + ", ".join(missing[:8]) + (" .." if len(missing) > 8 else ""))
        if strict and unexpected:
            wrong.append("it has no " + ", ".join(unexpected[:8]) + (" .." if len(unexpected) > 8 else ""))
        values = []
        for name, x in mine.items():
            if name in state_dict:
                value = as_tensor(state_dict[name])
                if value.shape != x.shape:
                    wrong.append(f"{name} is {x.shape}, not {value.shape}")
                values.append((x, value))
        if wrong:
            raise RuntimeError(f"{type(self).__name__}: a state does not fit: " + "; ".join(wrong))
        with no_grad():
            for x, value in values:
                x.assign(value.cast(x.dtype) if value.dtype != x.dtype else value)
        if values:
            values[0][0].realize()
        return Missing(missing, unexpected)

    # ---- what is done to all ----

    def apply(self, fn: Callable[["Module"], Any]) -> "Module":
        for m in self.children():
            m.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> "Module":
        """The mode of this module and, by their own train(), of its parts."""
        self.training = mode
        for m in self.children():
            m.train(mode)
        return self

    def eval(self) -> "Module":
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> "Module":
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.parameters():
            p.grad = None if set_to_none or p.grad is None else _core.zeros_like(p.grad)

    def to(self, dtype: Any = None, device: str | None = None) -> "Module":
        """Floats in another dtype, all on another device. Tensors that change are new: make optimizers afterwards.
        One that several modules have stays one; what fits already stays what it is."""
        made: dict[int, tuple[Tensor, Tensor]] = {}  # by id, which the old tensor keeps its own
        for m in self.modules():
            for name, kind in list(m._kinds.items()):
                x = m.__dict__.get(name)
                if kind == MODULE or x is None:
                    continue
                if id(x) not in made:
                    made[id(x)] = x, moved(x, dtype if x.dtype.kind == "f" else None, device, kind)
                object.__setattr__(m, name, made[id(x)][1])
        return self

    def float(self) -> "Module":
        return self.to(dtype="float32")

    def double(self) -> "Module":
        return self.to(dtype="float64")

    def half(self) -> "Module":
        return self.to(dtype="float16")

    def bfloat16(self) -> "Module":
        return self.to(dtype="bfloat16")

    # ---- calling ----

    def forward(self, *args: Any, **keywords: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.forward(*args, **keywords)

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        parts = [f"({n}): " + repr(m).replace("\n", "\n  ") for n, m in self.named_children()]
        extra = self.extra_repr()
        if not parts:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(parts) + "\n)"


def moved(x, dtype, device, kind):
    """x of a dtype on a device; x itself where it is so already."""
    y = x.detach().to(device=device, dtype=dtype)
    if y.dtype == x.dtype and y.device == x.device:
        return x
    return Parameter(y.realize(), x.requires_grad) if kind == PARAMETER else y.realize()


def as_tensor(x):
    """A tensor of a tensor, of PyTorch's or of an array."""
    if isinstance(x, Tensor):
        return x
    if hasattr(x, "detach"):
        x = x.detach().cpu().contiguous()
    return _core.tensor(x)


# ---- as trees ------------------------------------------------------------------------------------


def children(module):
    return list(module.parameters()), Same(module)


def remade(data, values):
    """A module like another, of other values for its parameters; its buffers are the same tensors."""
    given = {id(p): x for p, x in zip(data.module.parameters(), values)}
    new = replaced(data.module, given, {})
    object.__setattr__(new, "_origin", data.origin)
    return new


def replaced(module, given, made):
    if id(module) in made:
        return made[id(module)]
    new = made[id(module)] = object.__new__(type(module))
    for name, x in module.__dict__.items():
        if isinstance(x, Module) and name != "_origin":
            x = replaced(x, given, made)
        elif isinstance(x, Tensor):
            x = given.get(id(x), x)
        elif name in ("_kinds", "_left_out"):
            x = x.copy()
        object.__setattr__(new, name, x)
    return new


tree.register(Module, children, remade)


def functional_call(module: Module, tensors: Mapping[str, Tensor], args: Any = (), kwargs: Any = None) -> Any:
    """What a module gives with other tensors in place of those of these names: for grad and the like. A tensor that
    several names have is replaced under all of them."""
    args = args if isinstance(args, tuple) else (args,)
    given: dict[int, Tensor] = {}
    places, old = [], []
    for name, x in tensors.items():
        path, _, last = name.rpartition(".")
        m = module.get_submodule(path)
        if m._kinds.get(last, MODULE) == MODULE:
            raise KeyError(f"{type(module).__name__} has no {name}")
        was = m.__dict__.get(last)
        if was is None:
            places.append((m, last, x))
        elif given.setdefault(id(was), x) is not x:
            raise ValueError(f"functional_call: {name} is one tensor with another name, and they are given two")
    for m in module.modules():
        places += [(m, name, given[id(m.__dict__.get(name))]) for name in m._kinds
                   if id(m.__dict__.get(name)) in given]
    try:
        for m, name, x in places:
            old.append((m, name, m.__dict__.get(name)))
            object.__setattr__(m, name, x)
        return module(*args, **(kwargs or {}))
    finally:
        for m, name, x in reversed(old):
            object.__setattr__(m, name, x)


# ---- containers ----------------------------------------------------------------------------------


def next_number(module):
    """The name of what is put behind the others: their count, or the next number that none has."""
    n = len(module._kinds)
    while str(n) in module._kinds:
        n += 1
    return str(n)


class Sequential(Module):
    """Modules one after the other; of an OrderedDict by its names."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else \
            ((str(i), m) for i, m in enumerate(modules))
        for name, m in named:
            self.add_module(name, m)

    def forward(self, x: Any) -> Any:
        for m in self.children():
            x = m(x)
        return x

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: Any) -> Any:
        parts = list(self.named_children())
        return type(self)(dict(parts[index])) if isinstance(index, slice) else parts[index][1]

    def append(self, module: Module) -> "Sequential":
        self.add_module(next_number(self), module)
        return self


class ModuleList(Module):
    """A list of modules, called 0, 1, 2 .."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: Any) -> Any:
        parts = list(self.children())
        return ModuleList(parts[index]) if isinstance(index, slice) else parts[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(list(self._kinds)[index], module)

    def append(self, module: Module) -> "ModuleList":
        self.add_module(next_number(self), module)
        return self

    def extend(self, modules: Iterable[Module]) -> "ModuleList":
        for m in modules:
            self.append(m)
        return self

    def insert(self, index: int, module: Module) -> None:
        parts = list(self.children())
        parts.insert(index, module)
        for name in list(self._kinds):
            delattr(self, name)
        self.extend(parts)


class ModuleDict(Module):
    """Modules by names."""

    def __init__(self, modules: Any = ()) -> None:
        super().__init__()
        self.update(modules)

    def update(self, modules: Any) -> None:
        for name, m in modules.items() if isinstance(modules, Mapping) else modules:
            self.add_module(name, m)

    def __getitem__(self, name: str) -> Any:
        if name not in self._kinds:
            raise KeyError(name)
        return self.__dict__[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        if name not in self._kinds:
            raise KeyError(name)
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._kinds))

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def keys(self) -> Iterator[str]:
        return iter(list(self._kinds))

    def values(self) -> Iterator[Module]:
        return self.children()

    def items(self) -> Iterator[tuple[str, Module]]:
        return self.named_children()


class ParameterList(Module):
    """A list of parameters, called 0, 1, 2 .."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__()
        for x in values:
            self.append(x)

    def append(self, value: Any) -> "ParameterList":
        self.register_parameter(next_number(self), value if is_parameter(value) else Parameter(value))
        return self

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[Tensor]:
        return (x for _, x in self._own(PARAMETER))

    def __getitem__(self, index: Any) -> Any:
        found = list(self)
        return ParameterList(found[index]) if isinstance(index, slice) else found[index]

    def __setitem__(self, index: int, value: Any) -> None:
        self.register_parameter(list(self._kinds)[index], value if is_parameter(value) else Parameter(value))


class ParameterDict(Module):
    """Parameters by names."""

    def __init__(self, values: Any = ()) -> None:
        super().__init__()
        for name, x in values.items() if isinstance(values, Mapping) else values:
            self[name] = x

    def __setitem__(self, name: str, value: Any) -> None:
        self.register_parameter(name, value if is_parameter(value) else Parameter(value))

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._kinds:
            raise KeyError(name)
        x: Tensor = self.__dict__[name]
        return x

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._kinds))

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def items(self) -> Iterator[tuple[str, Tensor]]:
        return self._own(PARAMETER)
