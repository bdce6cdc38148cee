"""kernel_values.py - what a kernel of Python computes with: expressions, conditions, arrays and registers.

Values are Python's own numbers, indices that are made of sizes (kernel_index.py), and expressions of a dtype. Each
operation takes any of them: what is known is computed at once, what is an index stays one, and all else becomes a node
of an expression. kernel_text.py walks over a function and asks for these; it is the same object, of which this is the
half that knows nothing of Python's syntax.

What is written to memory under a condition has the condition as its mask. A condition of sizes and indices alone is
also a fact that bounds are proved by.
"""

import math

from . import _core
from . import kernel_index as ki
from .kernel_index import Index

NARROW = ("float16", "bfloat16", "float8_e4m3", "float8_e5m2")
IR_NAMES = {"bool": "bool", "float16": "f16", "bfloat16": "bf16", "float8_e4m3": "f8_e4m3",
            "float8_e5m2": "f8_e5m2", "float32": "f32", "float64": "f64", "int8": "i8",
            "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
            "uint64": "u64"}
PYTHON = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
          "floor_div": lambda a, b: a // b, "mod": lambda a, b: a % b, "and": lambda a, b: a & b,
          "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b,
          "pow": lambda a, b: a ** b}
HOLDS = {"lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
         "eq": lambda a, b: a == b, "ne": lambda a, b: a != b}
MONOIDS = {"add": "+=", "mul": "*=", "maximum": "max=", "minimum": "min="}


class KernelError(SyntaxError):
    """What a kernel may not have, with the line of the function that has it."""


class Again(Exception):
    """A register's dtype is another one than was thought."""


class Node:
    """An expression: an operation on others, or a leaf with its text. Equal ones are the same object."""

    __slots__ = ("op", "dtype", "args", "leaf", "memory", "index", "facts", "guard", "offset", "depth")


class Array:
    """Elements, row-major: an input, or one that the kernel makes."""

    def __init__(self, name, dtype, shape, made=False):
        self.name, self.dtype, self.shape, self.made = name, dtype, shape, made
        self.read = self.zeros = False
        self.local = False  # made in a loop, for one trip of it
        self.label = None  # in the text

    def size(self):
        n = 1
        for s in self.shape:
            n = ki.multiply(n, s)
        return n


class Register:
    """A number that changes."""

    def __init__(self, dtype):
        self.dtype, self.label = dtype, None


class Empty:
    """What allocates: Empty(fill) is kernel.empty, kernel.zeros or kernel.full."""

    def __init__(self, name):
        self.name = name


class Stmt:
    __slots__ = ("kind", "line", "body", "var", "extent", "memory", "value", "index", "facts", "guard", "monoid",
                 "offset")

    def __init__(self, kind, line, **parts):
        self.kind, self.line = kind, line
        for name in self.__slots__[2:]:
            setattr(self, name, parts.get(name))


class Facts:
    """A condition of sizes and indices: each is >= 0."""

    def __init__(self, facts):
        self.facts = facts


def is_float(dtype):
    return dtype.startswith(("float", "bfloat"))


def dtype_name(dtype, t):
    if isinstance(dtype, _core.dtype):
        dtype = dtype.name
    name = {float: "float32", int: "int64", bool: "bool"}.get(dtype, dtype)
    if not isinstance(name, str) or name not in IR_NAMES:
        t.fail(f"{describe(dtype)} is no dtype of a kernel")
    return name


def describe(x):
    if isinstance(x, Node):
        return f"a number of {x.dtype}"
    if isinstance(x, Index):
        return f"the index {x.text()}"
    if isinstance(x, Array):
        return f"the array {x.name or 'made here'}"
    if isinstance(x, Facts):
        return "a condition"
    if isinstance(x, Register):
        return "a number"
    name = getattr(x, "__qualname__", None)
    return name if isinstance(name, str) else repr(x)


class Values:
    """The kernel as it grows, and all that is done with values. `kinds`: dtypes of registers, by where they are
    defined, as known by the walks before."""

    masked = True  # loads under a condition have it as their mask

    def __init__(self, kinds):
        self.kinds = kinds
        self.nodes, self.arrays, self.registers, self.loops = {}, [], [], []
        self.body, self.facts, self.guards = [], [], []
        self.scopes, self.line = [], 0

    # ---- errors -------------------------------------------------------------------------------

    def fail(self, why, line=None):
        source = self.scopes[-1].source if self.scopes else None
        line = line or self.line
        if source is None:
            raise KernelError(why)
        raise KernelError(why, (source.file, line, None, source.text_of(line)))

    # ---- expressions --------------------------------------------------------------------------

    def node(self, op, dtype, args=(), leaf=None, memory=None, index=None, facts=(), guard=None, offset=None):
        key = (op, dtype, tuple(id(a) for a in args), leaf, id(memory), index and index.text(),
               tuple(ki.as_index(f).text() for f in facts), id(guard), id(offset))
        found = self.nodes.get(key)
        if found is None:
            found = self.nodes[key] = Node()
            found.op, found.dtype, found.args, found.leaf, found.memory = op, dtype, tuple(args), leaf, memory
            found.index, found.facts, found.guard, found.offset = index, facts, guard, offset
            inner = [a.depth for a in self.inside(found)]
            found.depth = 1 + max(inner, default=0)
        return found

    @staticmethod
    def inside(n):
        return [*n.args, *(x for x in (n.guard, n.offset) if x is not None)]

    def constant(self, value, dtype):
        if dtype == "bool":
            text = "1" if value else "0"
        elif dtype[0] in "iu":
            text = str(int(value))
        elif value != value:
            return self.op("sub", self.constant(math.inf, dtype), self.constant(math.inf, dtype))
        else:
            text = repr(float(value))
        return self.node("const", dtype, leaf=f"{IR_NAMES[dtype]}({text})")

    def to_node(self, x, dtype=None):
        """A value as an expression, of a dtype where that is given."""
        if isinstance(x, Node):
            return x if dtype in (None, x.dtype) else self.node("cast", dtype, (x,))
        if isinstance(x, bool):
            return self.constant(x, dtype or "bool")
        if isinstance(x, (int, float)):
            return self.constant(x, dtype or ("int64" if isinstance(x, int) else "float32"))
        if isinstance(x, Index):
            n = self.node("idx", "int64", leaf=f"idx({x.text()})")
            return n if dtype in (None, "int64") else self.node("cast", dtype, (n,))
        self.fail(f"a number is wanted, not {describe(x)}")

    def meet(self, xs, floats=False):
        """The dtype in which values meet; those of Python's numbers and of indices change none of their kind."""
        whole = [x for x in xs if isinstance(x, Node)]
        weak = [1.0 if isinstance(x, float) else 1 for x in xs if not isinstance(x, (Node, bool))]
        weak += [_core.bool for x in xs if isinstance(x, bool)]
        if floats and not any(is_float(x.dtype) for x in whole):
            weak.append(1.0)
        met = _core.result_type([getattr(_core, x.dtype) for x in whole] + weak).name
        return {"i64": "int64"}.get(met, met)

    def op(self, name, *args, dtype=None):
        return self.node(name, dtype or args[0].dtype, args)

    def numbers(self, xs, floats=False):
        dtype = self.meet(xs, floats)
        return [self.to_node(x, dtype) for x in xs]

    def is_static(self, x):
        return isinstance(x, (bool, int, float))

    def binary(self, name, a, b):
        if all(self.is_static(x) for x in (a, b)):
            try:
                return PYTHON[name](a, b)
            except (ArithmeticError, TypeError, ValueError) as e:
                self.fail(str(e))
        if isinstance(a, tuple) and isinstance(b, tuple) and name == "add":
            return a + b
        sizes = all(isinstance(x, Index) or type(x) is int for x in (a, b))
        if sizes and name in ("add", "sub", "mul"):
            return ki.multiply(a, b) if name == "mul" else ki.add(a, b, 1 if name == "add" else -1)
        if sizes and name in ("floor_div", "mod"):
            found = (ki.quotient if name == "floor_div" else ki.remainder)(a, b)
            if found is not None:
                return found
        self.number(a), self.number(b)
        if name == "pow":
            return self.power(a, b)
        x, y = self.numbers([a, b], name == "div")
        if name in ("and", "or", "xor", "shl", "shr") and is_float(x.dtype):
            self.fail(f"{name} of floats")
        return self.op(name, x, y)

    def power(self, a, b):
        if type(b) is int and 0 <= b <= 16:
            x, result = a, None
            while b:
                if b & 1:
                    result = x if result is None else self.binary("mul", result, x)
                b >>= 1
                if b:
                    x = self.binary("mul", x, x)
            return 1 if result is None else result
        if b == 0.5 and type(b) is float:
            return self.op("sqrt", *self.numbers([a], True))
        x, y = self.numbers([a, b])
        return self.op("pow", x, y)

    def number(self, x):
        if not isinstance(x, (Node, Index, bool, int, float)):
            self.fail(f"a number is wanted, not {describe(x)}")
        return x

    def compare(self, name, a, b):
        """A bool of Python, a list of facts (indices that are >= 0), or an expression."""
        if name in ("is", "is_not"):
            if isinstance(a, (Node, Index, Array)) or isinstance(b, (Node, Index, Array)):
                same = False if a is None or b is None else a is b
            else:
                same = a is b
            return same if name == "is" else not same
        if not any(isinstance(x, (Node, Index)) for x in (a, b)):
            return HOLDS[name](a, b)
        self.number(a), self.number(b)
        if all(isinstance(x, Index) or type(x) is int for x in (a, b)):
            if name in ("gt", "ge"):
                a, b, name = b, a, "lt" if name == "gt" else "le"
            less = ki.add(b, a, -1)  # b - a
            if name in ("lt", "le"):
                fact = ki.add(less, 1, -1) if name == "lt" else less
                if ki.not_negative(fact, self.facts):
                    return True
                return False if ki.not_negative(ki.add(-1, fact, -1)) else Facts([fact])
            if name == "eq":
                return True if less == 0 else Facts([less, ki.multiply(less, -1)])
        if name in ("gt", "ge"):
            a, b, name = b, a, "lt" if name == "gt" else "le"
        x, y = self.numbers([a, b])
        return self.op(name, x, y, dtype="bool")

    def truth(self, x):
        """What a condition says as an expression of bool."""
        if isinstance(x, Facts):
            result = None
            for fact in x.facts:
                one = self.op("le", self.constant(0, "int64"), self.to_node(ki.as_index(fact)), dtype="bool")
                result = one if result is None else self.op("and", result, one)
            return result
        if isinstance(x, bool):
            return self.constant(x, "bool")
        if isinstance(x, (int, float)):
            return self.constant(bool(x), "bool")
        x = self.to_node(x)
        return x if x.dtype == "bool" else self.op("ne", x, self.constant(0, x.dtype), dtype="bool")

    def both(self, word, a, b):
        """a and b, a or b: one of the two, as Python's."""
        if self.is_static(a):
            return b if bool(a) == (word == "and") else a
        if word == "and" and isinstance(a, Facts) and isinstance(b, Facts):
            return Facts(a.facts + b.facts)
        if not all(isinstance(x, (bool, Facts)) or isinstance(x, Node) and x.dtype == "bool" for x in (a, b)):
            x, y = self.plain(a), self.plain(b)
            return self.choose(self.condition(a), *((y, x) if word == "and" else (x, y)))
        if self.is_static(b):
            return a if b == (word == "and") else b
        return self.op(word, self.truth(a), self.truth(b))

    def opposite(self, x):
        if isinstance(x, Facts) and len(x.facts) == 1:
            return Facts([ki.add(-1, x.facts[0], -1)])
        return not x if self.is_static(x) else self.op("not", self.truth(x))

    def plain(self, x):
        return self.truth(x) if isinstance(x, Facts) else x

    def condition(self, x):
        if isinstance(x, (Facts, bool)):
            return x
        return self.truth(self.number(x))

    def choose(self, test, a, b):
        if a is b:
            return a
        if not all(isinstance(x, (Node, Index, bool, int, float)) for x in (a, b)):
            self.fail(f"a condition of numbers chooses between numbers, not {describe(a)} and {describe(b)}")
        x, y = self.numbers([a, b])
        return self.node("where", x.dtype, (self.truth(test), x, y))

    def under(self, condition):
        """Begin what is done only where a condition holds."""
        if isinstance(condition, Facts):
            self.facts.extend(condition.facts)
            return len(condition.facts), 0
        self.guards.append(condition)
        return 0, 1

    def leave(self, counts):
        del self.facts[len(self.facts) - counts[0]:]
        del self.guards[len(self.guards) - counts[1]:]

    def guard(self):
        result = None
        for g in self.guards:
            result = g if result is None else self.op("and", result, g)
        return result

    # ---- memory -------------------------------------------------------------------------------

    def place(self, array, indices):
        """(flat index, offset that is computed or None, its guard or None)."""
        if len(indices) != len(array.shape):
            self.fail(f"{array.name} has {len(array.shape)} axes, and here are {len(indices)} indices")
        flat, offset, guard = 0, None, None
        for axis, (x, size) in enumerate(zip(indices, array.shape)):
            if isinstance(x, bool) or not isinstance(x, (int, Index, Node)):
                self.fail(f"index {axis} of {array.name} is {describe(x)}, and an integer is wanted")
            flat = ki.multiply(flat, size)
            if isinstance(x, Node):
                if x.dtype[0] not in "iu":
                    self.fail(f"index {axis} of {array.name} is {x.dtype}, and an integer is wanted")
                x = self.to_node(x, "int64")
                inside = self.op("and", self.op("le", self.constant(0, "int64"), x, dtype="bool"),
                                 self.op("lt", x, self.to_node(size), dtype="bool"))
                guard = inside if guard is None else self.op("and", guard, inside)
                offset = x if offset is None else self.op("add", self.op("mul", offset, self.to_node(size)), x)
                continue
            if type(x) is int and x < 0:
                x = ki.add(size, x)
            self.check_inside(array, axis, x, size)
            flat = ki.add(flat, x)
            if offset is not None:
                offset = self.op("mul", offset, self.to_node(size))
        return ki.as_index(flat), offset, guard

    def check_inside(self, array, axis, x, size):
        shown = ki.as_index(x).text()
        if not ki.not_negative(x, self.facts):
            self.fail(f"index {axis} of {array.name}, {shown}, may be below 0")
        if not ki.not_negative(ki.add(ki.add(size, x, -1), 1, -1), self.facts):
            self.fail(f"index {axis} of {array.name}, {shown}, may be past the end of the axis, which is "
                      f"{ki.as_index(size).text()}")

    def both_guards(self, a, b):
        return b if a is None else a if b is None else self.op("and", a, b)

    def load(self, array, indices):
        index, offset, guard = self.place(array, indices)
        array.read = True
        n = self.node("load", array.dtype, memory=array, index=index, facts=tuple(self.facts),
                      guard=self.both_guards(self.guard() if self.masked else None, guard), offset=offset)
        return self.to_node(n, "float32") if array.dtype in NARROW else n

    def read(self, register):
        return self.node("load", register.dtype, memory=register, index=ki.as_index(0))

    def emit(self, stmt):
        self.body.append(stmt)

    def memories(self, n):
        """What an expression reads; parts that it has twice are looked at once."""
        found, seen, left = set(), {id(n)}, [n]
        while left:
            n = left.pop()
            if n.memory is not None:
                found.add(n.memory)
            for a in self.inside(n):
                if id(a) not in seen:
                    seen.add(id(a))
                    left.append(a)
        return found

    def store(self, memory, index, value, offset=None, guard=None, masked=True):
        """memory[index] = value, by a monoid where the value is made of what is there."""
        monoid = "="
        if value.op in MONOIDS:
            for own, other in (value.args, value.args[::-1]):
                if (own.op == "load" and own.memory is memory and own.index.text() == index.text() and
                        own.offset is offset and memory not in self.memories(other)):
                    monoid, value = MONOIDS[value.op], other
                    break
        if isinstance(memory, Array):
            memory.read |= monoid != "="
        facts = tuple(self.facts) if masked else ()
        guard = self.both_guards(self.guard() if masked else None, guard)
        self.emit(Stmt("store", self.line, memory=memory, index=index, value=value, facts=facts, guard=guard,
                       monoid=monoid, offset=offset))

    def new_register(self, key, x):
        """One that begins as x; its dtype is what walks before have found out."""
        dtype = self.wide(self.meet([x]))
        if key in self.kinds:
            dtype = self.meet_names(dtype, self.kinds[key])
        self.kinds[key] = dtype
        r = Register(dtype)
        self.registers.append(r)
        self.emit(Stmt("def", self.line, memory=r, value=self.to_node(x, dtype)))
        r.key = key
        return r

    @staticmethod
    def wide(dtype):
        return "float32" if dtype in NARROW else dtype

    @staticmethod
    def meet_names(a, b):
        return _core.result_type([getattr(_core, a), getattr(_core, b)]).name

    def fit(self, register, x):
        """x in the register's dtype, which is to hold it."""
        dtype = self.wide(self.meet([self.read(register), x]))
        if dtype != register.dtype:
            self.kinds[register.key] = dtype
            raise Again
        return self.to_node(x, dtype)
