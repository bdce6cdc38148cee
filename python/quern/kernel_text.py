"""kernel_text.py - a function of Python as the text of a kernel (kernels.py says what such a function may do).

One walk over the function's tree makes the kernel's: `for` becomes a loop, arrays become arguments, numbers that only
depend on the arguments' sizes become indices (kernel_index.py), all other numbers expressions of a dtype. A name is an
expression as long as it is given its value once, or again in the same block; what changes in a loop or under a
condition is a register of the kernel. The dtype of a register is where all that it is given meets: that is only known
at the end, so the walk is made again until nothing is new. What is done with values is in kernel_values.py.
"""

import ast
import math

from . import _core
from . import kernel_index as ki
from .kernel_index import Index, Variable
from .kernel_values import Array, Empty, Facts, Node, Register, Stmt, Values, describe, dtype_name

DEEPEST = 12  # calls of kernels in each other

# Functions by the name that they have in math, numpy, quern and among Python's own: an operation of floats, or of all.
FLOATS = {name: name for name in (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "asin", "acos", "atan", "asinh",
    "acosh", "atanh", "sinh", "cosh", "tanh", "sigmoid", "softplus", "erf", "erfc", "lgamma", "digamma", "silu", "gelu",
    "mish", "reciprocal", "atan2", "hypot", "logaddexp")}
FLOATS.update(arcsin="asin", arccos="acos", arctan="atan", arcsinh="asinh", arccosh="acosh", arctanh="atanh",
              arctan2="atan2")
ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round", "rint": "round"}
EXTREMES = {"max": "maximum", "min": "minimum", "maximum": "maximum", "minimum": "minimum", "fmax": "maximum",
            "fmin": "minimum"}
BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_div", ast.Mod: "mod",
          ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr"}
COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


class Scope:
    """The names of one function: blocks in each other, the innermost last."""

    def __init__(self, source):
        self.source, self.blocks, self.rest = source, [{}], [[]]
        self.gone = {}  # names of blocks that ended: where they had their value

    def find(self, name):
        for block in reversed(self.blocks):
            if name in block:
                return block
        return None


def assigned_names(stmts):
    """Names that statements give a value, and whether they write into arrays or call what may."""
    names, writes = set(), False
    for top in stmts:
        for node in ast.walk(top):
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                names.add(node.id)
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                writes = True
            elif isinstance(node, ast.Call):
                writes = True
    return names, writes


class Translator(Values):
    """One walk."""

    def __init__(self, kinds, is_kernel, reads):
        super().__init__(kinds)
        self.is_kernel, self.reads = is_kernel, reads
        self.select, self.fixed = None, 0

    # ---- names --------------------------------------------------------------------------------

    def lookup(self, name):
        scope = self.scopes[-1]
        if self.select is not None and name in self.select:
            return self.select[name]
        block = scope.find(name)
        if block is not None:
            found = block[name]
            return self.read(found) if isinstance(found, Register) else found
        if name in scope.source.locals:
            where = scope.gone.get(name)
            self.fail(f"{name} has no value here" + (f": it is given one in the block of line {where} only, give it "
                                                     "one before" if where else ""))
        return scope.source.outside(name, self)

    def changes_later(self, name):
        """Is the name given another value in a block inside of what is left of this one?"""
        for stmt in self.scopes[-1].rest[-1]:
            block = isinstance(stmt, ast.For) or isinstance(stmt, ast.If) and not is_choice(stmt)
            if block and name in assigned_names([stmt])[0]:
                return True
        return False

    def is_stale(self, n, stmts):
        """Does the expression read what these statements change?"""
        names, writes = assigned_names(stmts)
        scope = self.scopes[-1]
        for memory in self.memories(n):
            if isinstance(memory, Array):
                if writes and memory.made:
                    return True
            elif any(scope.find(name) and scope.find(name)[name] is memory for name in names):
                return True
        return False

    def settle(self, x, stmts, key):
        """x as it is now, whatever these statements change."""
        if isinstance(x, tuple):
            return tuple(self.settle(v, stmts, (*key, k)) for k, v in enumerate(x))
        if isinstance(x, Node) and self.is_stale(x, stmts):
            return self.read(self.new_register(key, x))
        return x

    def before(self, x, es, at, word="before"):
        """x as it is before these expressions: kernels that they call may write what it reads."""
        if es and isinstance(x, (Node, tuple)) and any(self.calls_kernel(e) for e in es):
            key = (at.lineno, at.col_offset, at.end_lineno, at.end_col_offset, word, self.path())
            return self.settle(x, es, key)
        return x

    def calls_kernel(self, e):
        return any(isinstance(n, ast.Call) and isinstance(n.func, (ast.Name, ast.Attribute)) and
                   self.is_kernel(self.expr(n.func)) for n in ast.walk(e))

    def in_order(self, es):
        """The values of expressions, each as it is when its turn comes."""
        return [self.before(self.expr(e), es[k + 1:], e, ("in order", k)) for k, e in enumerate(es)]

    def assign(self, name, x, at):
        scope = self.scopes[-1]
        if isinstance(x, Facts):
            x = self.truth(x)
        if self.select is not None:
            self.select[name] = x
            return
        block = scope.find(name)
        if block is not None and isinstance(block[name], Register):
            r = block[name]
            self.store(r, ki.as_index(0), self.fit(r, self.number(x)))
            return
        if block is not None and block is not scope.blocks[-1]:
            self.fail(f"{name} cannot be changed here: it is {describe(block[name])}")
        key = (at.lineno, at.col_offset, name, self.path())
        if isinstance(x, (Node, Index, bool, int, float)) and self.changes_later(name):
            scope.blocks[-1][name] = self.new_register(key, x)
        else:
            scope.blocks[-1][name] = self.settle(x, scope.rest[-1], (*key, "kept"))

    def path(self):
        return tuple(s.source.number for s in self.scopes) + (self.fixed,)

    # ---- expressions of Python ----------------------------------------------------------------

    def expr(self, e):
        method = getattr(self, "expr_" + type(e).__name__, None)
        if method is None:
            self.fail(f"a kernel has no {type(e).__name__.lower()}", e.lineno)
        self.line = e.lineno
        return method(e)

    def expr_Constant(self, e):
        return e.value

    def expr_Name(self, e):
        return self.lookup(e.id)

    def expr_Tuple(self, e):
        return tuple(self.in_order(e.elts))

    def expr_Attribute(self, e):
        x = self.expr(e.value)
        if isinstance(x, Array):
            known = {"shape": tuple(x.shape), "ndim": len(x.shape), "size": x.size(), "dtype": getattr(_core, x.dtype)}
            if e.attr not in known:
                self.fail(f"an array of a kernel has shape, ndim, size and dtype, not {e.attr}")
            return known[e.attr]
        if isinstance(x, (Node, Index, Facts, int, float, tuple)):
            self.fail(f"{describe(x)} has no attribute {e.attr} in a kernel")
        return self.scopes[-1].source.attribute(x, e.attr, self)

    def expr_Subscript(self, e):
        x = self.expr(e.value)
        if isinstance(x, tuple):
            i = self.expr(e.slice)
            if type(i) is not int or not -len(x) <= i < len(x):
                self.fail(f"an index of {len(x)} values is an int in their range, not {describe(i)}")
            return x[i]
        if not isinstance(x, Array):
            self.fail(f"{describe(x)} has no elements")
        return self.load(x, self.indices(e.slice))

    def indices(self, e):
        if isinstance(e, ast.Slice) or isinstance(e, ast.Tuple) and any(isinstance(x, ast.Slice) for x in e.elts):
            self.fail("a kernel computes element by element: no slices")
        x = self.expr(e)
        return list(x) if isinstance(x, tuple) else [x]

    def expr_BinOp(self, e):
        name = BINARY.get(type(e.op)) or ("pow" if isinstance(e.op, ast.Pow) else None)
        if name is None:
            self.fail("a kernel has no operator @")
        left, right = self.in_order([e.left, e.right])
        return self.binary(name, self.plain(left), self.plain(right))

    def expr_UnaryOp(self, e):
        x = self.expr(e.operand)
        if isinstance(e.op, ast.Not):
            return self.opposite(x)
        x = self.number(self.plain(x))
        if isinstance(e.op, ast.UAdd):
            return x
        if isinstance(e.op, ast.USub):
            if self.is_static(x):
                return -x
            return ki.multiply(x, -1) if isinstance(x, Index) else self.op("neg", x)
        return ~x if self.is_static(x) else self.op("not", self.to_node(x))

    def expr_Compare(self, e):
        left, *others = [self.plain(x) for x in self.in_order([e.left, *e.comparators])]
        result = True
        for op, right in zip(e.ops, others):
            if isinstance(op, (ast.Is, ast.IsNot)):
                name = "is" if isinstance(op, ast.Is) else "is_not"
            else:
                name = COMPARE.get(type(op))
            if name is None:
                self.fail("a kernel has no `in`")
            result = self.both("and", result, self.compare(name, left, right))
            left = right
        return result

    def expr_BoolOp(self, e):
        word = "and" if isinstance(e.op, ast.And) else "or"
        result = self.expr(e.values[0])
        for k, x in enumerate(e.values[1:]):
            if self.is_static(result) and bool(result) != (word == "and"):
                return result
            counts = None
            result = self.before(result, [x], e, ("first", k))
            if not self.is_static(result):  # what comes second is looked at where the first says so
                first = self.condition(result)
                counts = self.under(first if word == "and" else self.opposite(first))
            second = self.expr(x)
            if counts:
                self.leave(counts)
            result = self.both(word, result, second)
        return result

    def expr_IfExp(self, e):
        test = self.expr(e.test)
        if self.is_static(test) or test is None:
            return self.expr(e.body if test else e.orelse)
        test = self.before(self.condition(test), [e.body, e.orelse], e, "test")
        values = []
        for part, of in ((test, e.body), (self.opposite(test), e.orelse)):
            counts = self.under(part)
            value = self.number(self.plain(self.expr(of)))
            values.append(self.before(value, [e.orelse], e, "body") if of is e.body else value)
            self.leave(counts)
        return self.choose(test, *values)

    # ---- calls --------------------------------------------------------------------------------

    def expr_Call(self, e):
        f = self.expr(e.func)
        if any(isinstance(a, ast.Starred) for a in e.args) or any(k.arg is None for k in e.keywords):
            self.fail("a kernel's calls have no * and **")
        given = [self.plain(x) for x in self.in_order([*e.args, *(k.value for k in e.keywords)])]
        args = given[:len(e.args)]
        keywords = {k.arg: x for k, x in zip(e.keywords, given[len(e.args):])}
        self.line = e.lineno
        if self.is_kernel(f):
            return self.inline(f, args, keywords)
        if isinstance(f, Empty):
            return self.allocate(f, args, keywords)
        if isinstance(f, _core.dtype):
            return self.cast(args, f.name)
        name = getattr(f, "__name__", None)
        if name in ("float", "int", "bool") and f in (float, int, bool):
            if len(args) == 1 and self.is_static(args[0]):
                return f(args[0])
            return self.cast(args, {"float": "float32", "int": "int64", "bool": "bool"}[name])
        if f is len and len(args) == 1 and isinstance(args[0], (Array, tuple)):
            return args[0].shape[0] if isinstance(args[0], Array) else len(args[0])
        method = name and getattr(f, "__module__", None) != "__main__" and self.is_function(f) and \
            self.function(name, args, keywords)
        if method is None or method is False:
            self.fail(f"a kernel cannot call {describe(f)}: make it a @quern.kernel, or use the functions of math")
        return method

    @staticmethod
    def is_function(f):
        module = (getattr(f, "__module__", None) or type(f).__module__ or "").partition(".")[0]
        return module in ("math", "numpy", "builtins", "quern", "cmath") or type(f).__module__ == "numpy"

    def cast(self, args, dtype):
        if len(args) != 1:
            self.fail("one number is wanted")
        return self.to_node(self.number(args[0]), dtype)

    def function(self, name, args, keywords):
        """A function of numbers; None: there is no such one here."""
        if name == "cast" and len(args) == 2 and isinstance(args[1], _core.dtype):
            return self.cast(args[:1], args[1].name)
        if keywords or not args or not all(isinstance(a, (Node, Index, bool, int, float)) for a in args):
            return None
        static = all(self.is_static(a) for a in args)
        n = len(args)
        if name in FLOATS:
            op = FLOATS[name]
            if n != (2 if op in ("atan2", "hypot", "logaddexp") else 1):
                return None
            if static and hasattr(math, name):
                return getattr(math, name)(*args)
            return self.op(op, *self.numbers(args, True))
        if name in EXTREMES:
            return self.extreme(EXTREMES[name], args, static)
        if n == 1:
            return self.of_one(name, args[0], static)
        if name in ("pow", "power") and n == 2:
            return self.binary("pow", *args)
        if name == "where" and n == 3:
            return self.choose(self.condition(args[0]), args[1], args[2])
        if name == "fma" and n == 3:
            return self.op("fma", *self.numbers(args, True))
        return None

    def extreme(self, op, args, static):
        if len(args) < 2:
            self.fail(f"{op} of one number: a loop finds that of an array")
        if static:
            return max(args) if op == "maximum" else min(args)
        if all(isinstance(a, Index) or type(a) is int for a in args):
            return ki.extreme("max" if op == "maximum" else "min", args)
        result, *rest = self.numbers(args)
        for x in rest:
            result = self.op(op, result, x)
        return result

    def of_one(self, name, x, static):
        if name in ("abs", "fabs", "absolute"):
            return abs(x) if static else self.op("abs", *self.numbers([x]))
        if name in ROUNDINGS:
            if static and name != "rint":
                return {"round": round, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}[name](x)
            return self.op(ROUNDINGS[name], *self.numbers([x]))
        if name == "square":
            return self.binary("mul", x, x)
        if name == "rsqrt":
            return self.op("reciprocal", self.op("sqrt", *self.numbers([x], True)))
        if name == "tan":
            v, = self.numbers([x], True)
            return self.op("div", self.op("sin", v), self.op("cos", v))
        if name == "relu":
            return self.extreme("maximum", [x, 0], False)
        if name in ("isnan", "isinf", "isfinite"):
            v, = self.numbers([x], True)
            if name == "isnan":
                return self.op("ne", v, v, dtype="bool")
            inf = self.constant(math.inf, v.dtype)
            return self.op("eq" if name == "isinf" else "lt", self.op("abs", v), inf, dtype="bool")
        return None

    def allocate(self, f, args, keywords):
        if self.guards or self.facts or self.select is not None:
            self.fail("an array is made outside of conditions")
        like = f.name.endswith("_like")
        names = ["x" if like else "shape"] + (["value"] if f.name.startswith("full") else []) + ["dtype"]
        given = dict(zip(names, args))
        given.update(keywords)
        first = given.pop(names[0], None)
        value = given.pop("value", 0) if "value" in names else None
        dtype = given.pop("dtype", None)
        if given or first is None or len(args) > len(names):
            self.fail(f"kernel.{f.name}({', '.join(names)})")
        shape = tuple(first.shape) if like and isinstance(first, Array) else first
        shape = shape if isinstance(shape, tuple) else (shape,)
        if any(isinstance(s, bool) or not isinstance(s, (int, Index)) for s in shape):
            self.fail(f"kernel.{f.name}: a shape is made of sizes, not {describe(first)}")
        for s in shape:
            if not ki.not_negative(s):
                self.fail(f"kernel.{f.name}: the size {ki.as_index(s).text()} may be below 0")
        if dtype is None:
            dtype = first.dtype if like else "float32"
        array = Array(None, dtype_name(dtype, self), shape, made=True)
        array.zeros = f.name.startswith("zeros")
        array.local = bool(self.loops)
        (self.registers if array.local else self.arrays).append(array)
        if array.local:
            start = self.constant(0, array.dtype) if array.zeros else None
            self.emit(Stmt("def", self.line, memory=array, value=start))
        if value is not None:
            self.fill(array, value)
        return array

    def fill(self, array, value):
        index, outer = 0, self.body
        for size in array.shape:
            v = self.begin_loop("f", size)
            index = ki.add(ki.multiply(index, size), v)
        self.store(array, ki.as_index(index), self.to_node(self.number(value), array.dtype))
        for _ in array.shape:
            self.end_loop()
        assert self.body is outer

    def inline(self, f, args, keywords):
        if len(self.scopes) == DEEPEST:
            self.fail(f"kernels call each other more than {DEEPEST} deep")
        source = f.source()
        try:
            bound = source.bind(args, keywords)
        except TypeError as e:
            self.fail(str(e))
        self.fixed += 1
        key = (source.tree.lineno, self.fixed, "argument", self.path())
        bound = {name: self.settle(x, source.tree.body, (*key, name)) for name, x in bound.items()}
        line, select = self.line, self.select
        self.select = None
        result = self.run(source, bound)
        self.select, self.line = select, line
        if isinstance(result, Array) and not result.made:
            self.fail(f"{f.__name__} gives back its own argument")
        return result

    # ---- statements ---------------------------------------------------------------------------

    def run(self, source, bound):
        """The body of a function, with its arguments; what it returns."""
        scope = Scope(source)
        self.scopes.append(scope)
        stmts = source.tree.body
        writes = {n for n in bound if n in assigned_names(stmts)[0]}
        for name, x in bound.items():
            if name in writes and isinstance(x, (Node, Index, bool, int, float)):
                x = self.read(self.new_register((0, 0, name, self.path()), x))
                x = x.memory
            scope.blocks[-1][name] = x
        result = self.block(stmts, last=True)
        self.scopes.pop()
        return result

    def block(self, stmts, last=False, after=()):
        """Statements one after the other, up to what they return; `last`: they may. `after`: what comes then."""
        scope = self.scopes[-1]
        for i, stmt in enumerate(stmts):
            scope.rest[-1] = [*stmts[i + 1:], *after]
            self.line = stmt.lineno
            if isinstance(stmt, ast.Return):
                if not last:
                    self.fail("a kernel does not return from a loop, or under a condition of numbers", stmt.lineno)
                if stmt.value is None:
                    self.fail("a kernel returns something", stmt.lineno)
                return self.expr(stmt.value)
            method = getattr(self, "stmt_" + type(stmt).__name__, None)
            if method is None:
                self.fail(f"a kernel has no {type(stmt).__name__.lower()}", stmt.lineno)
            result = method(stmt, last)
            if result is not None:
                return result
        return None

    def inner(self, stmts, last=False):
        """A block of its own: names that it makes end with it."""
        scope = self.scopes[-1]
        scope.blocks.append({})
        scope.rest.append([])
        result = self.block(stmts, last)
        scope.rest.pop()
        for name in scope.blocks.pop():
            scope.gone[name] = stmts[0].lineno
        return result

    def stmt_Pass(self, stmt, last):
        pass

    def stmt_Expr(self, stmt, last):
        if not (isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str)):
            self.expr(stmt.value)

    def stmt_Assign(self, stmt, last):
        values = [self.expr(stmt.value)]
        for target in stmt.targets:
            self.target(target, values[0], stmt)

    def stmt_AnnAssign(self, stmt, last):
        dtype = self.expr(stmt.annotation)
        if stmt.value is None:
            self.fail("a name with a dtype is given its value at once")
        x = self.expr(stmt.value)
        if isinstance(dtype, _core.dtype):
            x = self.to_node(self.number(x), dtype.name)
        elif dtype in (int, float, bool):
            x = self.cast([x], {int: "int64", float: "float32", bool: "bool"}[dtype])
        else:
            self.fail("a number of a kernel is of a dtype, quern.float64 or so, or a float, int or bool")
        self.target(stmt.target, x, stmt)

    def stmt_AugAssign(self, stmt, last):
        name = BINARY.get(type(stmt.op)) or ("pow" if isinstance(stmt.op, ast.Pow) else None)
        if name is None:
            self.fail("a kernel has no operator @=")
        target = stmt.target
        if isinstance(target, ast.Name):
            old = self.before(self.plain(self.lookup(target.id)), [stmt.value], stmt)
            self.assign(target.id, self.binary(name, old, self.plain(self.expr(stmt.value))), target)
            return
        array, indices = self.element(target)
        indices = list(self.before(tuple(indices), [stmt.value], stmt, "at"))
        old = self.before(self.load(array, indices), [stmt.value], stmt)
        value = self.binary(name, old, self.plain(self.expr(stmt.value)))
        self.write(array, indices, value)

    def target(self, target, x, stmt):
        self.line = stmt.lineno
        if isinstance(target, ast.Name):
            self.assign(target.id, x, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(x, tuple) or len(x) != len(target.elts):
                self.fail(f"{len(target.elts)} values are wanted, not {describe(x)}")
            key = (target.lineno, target.col_offset, "pair", self.path())
            if len(x) > 1:  # all are as they were before the first is given to its name
                x = tuple(self.settle(v, [stmt], (*key, i)) for i, v in enumerate(x))
            for t, v in zip(target.elts, x):
                self.target(t, v, stmt)
        elif isinstance(target, ast.Subscript):
            array, indices = self.element(target)
            self.write(array, indices, self.number(self.plain(x)))
        else:
            self.fail("a value is given to names and to elements of arrays")

    def element(self, target):
        if not isinstance(target, ast.Subscript):
            self.fail("a value is given to names and to elements of arrays")
        array = self.expr(target.value)
        if not isinstance(array, Array):
            self.fail(f"{describe(array)} has no elements")
        if not array.made:
            self.fail(f"{array.name} is an argument and is only read: make a result by kernel.empty")
        return array, self.indices(target.slice)

    def write(self, array, indices, x):
        index, offset, guard = self.place(array, indices)
        value = self.to_node(x)
        self.store(array, index, self.to_node(value, array.dtype), offset, guard)

    def stmt_For(self, stmt, last):
        if stmt.orelse:
            self.fail("a kernel's loops have no else")
        if not isinstance(stmt.target, ast.Name):
            self.fail("a loop has one variable")
        call = stmt.iter
        if not isinstance(call, ast.Call) or self.expr(call.func) is not range or call.keywords:
            self.fail("a kernel's loops are over range(..)")
        bounds = [self.expr(a) for a in call.args]
        for b in bounds:
            if isinstance(b, bool) or not isinstance(b, (int, Index)):
                self.fail(f"a loop's bounds are made of sizes, ints and other loops' variables, not {describe(b)}")
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        if type(step) is not int or step == 0:
            self.fail("a loop's step is an int other than 0")
        count = ki.add(stop, start, -1) if step > 0 else ki.add(start, stop, -1)
        if abs(step) != 1:
            count = ki.quotient(ki.add(count, abs(step) - 1), abs(step))
        if not ki.not_negative(count, self.facts):
            count = ki.extreme("max", [count, 0])
        if self.scopes[-1].find(stmt.target.id) is not None:
            self.fail(f"{stmt.target.id} has a value, and a loop wants a name of its own")
        v = self.begin_loop(stmt.target.id, count)
        scope = self.scopes[-1]
        scope.blocks.append({stmt.target.id: ki.add(start, ki.multiply(v, step))})
        scope.rest.append([])
        self.block(stmt.body)
        scope.rest.pop()
        for name in scope.blocks.pop():
            scope.gone[name] = stmt.lineno
        self.end_loop()

    def begin_loop(self, name, count):
        extent = ki.as_index(count)
        v = Variable(f"{name if name.isascii() else 'i'}_{self.fixed}", 0, max(extent.range()[1] - 1, 0), extent)
        self.fixed += 1
        stmt = Stmt("loop", self.line, body=[], var=v.text, extent=extent)
        self.emit(stmt)
        self.loops.append((v, self.body))
        self.body = stmt.body
        return ki.variable(v)

    def end_loop(self):
        self.body = self.loops.pop()[1]

    def stmt_If(self, stmt, last):
        test = self.expr(stmt.test)
        if self.is_static(test) or test is None or isinstance(test, (tuple, str)):
            return self.block(stmt.body if test else stmt.orelse, last, self.scopes[-1].rest[-1])
        self.line = stmt.lineno
        test = self.condition(test)
        key = (stmt.lineno, stmt.col_offset, "if", self.path())
        if isinstance(test, Node):
            test = self.settle(test, stmt.body + stmt.orelse, key)
        if all(is_choice(s) for s in stmt.body + stmt.orelse):
            return self.choose_names(stmt, test)
        self.declare_shared(stmt)
        for part, stmts in ((test, stmt.body), (self.opposite(test), stmt.orelse)):
            if stmts:
                counts = self.under(part)
                self.inner(stmts)
                self.leave(counts)
        return None

    def choose_names(self, stmt, test):
        """if and else that only give names values: each is one or the other."""
        outer, found = self.select, []
        for part, stmts in ((test, stmt.body), (self.opposite(test), stmt.orelse)):
            self.select = dict(outer or {})
            counts = self.under(part)
            for s in stmts:
                self.line = s.lineno
                getattr(self, "stmt_" + type(s).__name__)(s, False)
            self.leave(counts)
            found.append(self.select)
        self.select = outer
        before, values = outer or {}, {}
        for name in dict.fromkeys([*found[0], *found[1]]):
            if found[0].get(name) is before.get(name) and found[1].get(name) is before.get(name):
                continue
            pair = []
            for one in found:
                if name in one:
                    pair.append(one[name])
                elif self.scopes[-1].find(name) is not None:
                    pair.append(self.lookup(name))
            if len(pair) == 2:
                values[name] = self.choose(test, *pair)
            else:
                self.scopes[-1].gone[name] = stmt.lineno
        key = (stmt.lineno, stmt.col_offset, "chosen", self.path())
        if len(values) > 1 and outer is None:
            whole = {n: self.settle(v, [stmt], (*key, n)) for n, v in values.items()}
            values = whole
        for name, x in values.items():
            self.assign(name, x, stmt)

    def declare_shared(self, stmt):
        """Names that both branches give their first value last behind the if."""
        scope = self.scopes[-1]
        names = assigned_names(stmt.body)[0] & assigned_names(stmt.orelse)[0]
        for name in sorted(names):
            if scope.find(name) is None:
                key = (stmt.lineno, stmt.col_offset, name, self.path())
                r = self.new_register(key, self.constant(0, self.kinds.get(key, "bool")))
                scope.blocks[-1][name] = r

    def stmt_While(self, stmt, last):
        self.fail("a kernel has no while: its loops are over range(..)", stmt.lineno)

    def stmt_Break(self, stmt, last):
        self.fail("a kernel's loops run to their end: no break", stmt.lineno)

    def stmt_Continue(self, stmt, last):
        self.fail("a kernel's loops have no continue: put what follows under a condition", stmt.lineno)


def is_choice(stmt):
    """Does it only give a name a value?"""
    target = stmt.targets[0] if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 else \
        stmt.target if isinstance(stmt, ast.AugAssign) else None
    if not isinstance(target, ast.Name):
        return isinstance(stmt, ast.If) and all(is_choice(s) for s in stmt.body + stmt.orelse)
    return not any(isinstance(n, ast.Call) and not isinstance(n.func, (ast.Name, ast.Attribute))
                   for n in ast.walk(stmt))
