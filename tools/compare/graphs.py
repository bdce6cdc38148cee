"""graphs.py - random expression graphs in Quern and, step by step, in PyTorch in float64.

A graph starts from leaves of small shapes and grows by elementwise functions, movement, reductions,
products, softmax, norms and gathers, each taking values made before. In between values are read,
and leaves are assigned; what was recorded before keeps the old value. At the end the results and the
gradients by the leaves' last versions are compared, in f64 within 2^12 epsilons of the largest magnitude
that the graph has seen, which bounds what rounding makes of sums of so few steps. Steps keep
magnitudes near 1, and a graph whose condition is worse than that (found by moving the leaves by an
epsilon in PyTorch) has its bound widened by what moved.
"""

import numpy as np

from judge import Case
from quern import QuernError, Value, epsilon

try:
    import torch
except ImportError:
    torch = None

UNARY = ["neg", "abs", "sin", "cos", "tanh", "sigmoid", "exp", "relu", "square", "atan", "erf", "softplus",
         "silu", "gelu", "expm1", "floor"]
BINARY = ["add", "sub", "mul", "maximum", "minimum", "atan2", "hypot", "logaddexp"]


def hypot(x, y):
    """With derivatives 0 at (0, 0) (docs/gradients.md), where PyTorch has NaN."""
    corner = (x == 0) & (y == 0)
    one = torch.ones_like(x + y)
    return torch.where(corner, 0 * one, torch.hypot(torch.where(corner, one, x), torch.where(corner, one, y)))


def atan2(y, x):
    """NaN, for which the step is left, on the cut: there the sign of a zero, which rounding makes,
    decides between pi and -pi."""
    return torch.where((y == 0) & (x <= 0), float("nan"), torch.atan2(y, x))


THEIRS = {"hypot": hypot, "atan2": atan2,
          "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)) if torch else None,
          "silu": lambda x: x * torch.sigmoid(x), "gelu": lambda x: torch.nn.functional.gelu(x)}


class Pair:
    """A tensor of Quern's, PyTorch's and PyTorch's from leaves moved by an epsilon."""

    def __init__(self, ours, theirs, moved, old=None):
        self.ours, self.theirs, self.moved, self.old = ours, theirs, moved, old

    @property
    def shape(self):
        return tuple(self.theirs.shape)


class Graph:
    def __init__(self, q, rng, dtype):
        self.q, self.rng, self.dtype = q, rng, dtype
        self.values, self.leaves, self.log = [], [], []
        self.largest = 1.0
        for _ in range(int(rng.integers(2, 5))):
            self.leaf(tuple(int(n) for n in rng.choice([1, 2, 3, 5], int(rng.integers(1, 4)))))

    def number(self, shape):
        value = Value.of(self.dtype, self.rng.normal(0, 1, shape))
        plain = torch.tensor(value.numbers(), requires_grad=True)
        moved = value.numbers() * (1 + epsilon(self.dtype) * self.rng.choice([-1, 1], shape))
        return value, plain, torch.tensor(moved, requires_grad=True)

    def leaf(self, shape):
        value, plain, moved = self.number(shape)
        self.leaves.append(Pair(self.q.tensor(value), plain, moved))
        self.values.append(self.leaves[-1])

    def add(self, text, ours, theirs, *args):
        """The step's result, unless it grows beyond what the bound is made for."""
        plain, moved = (theirs(*[getattr(a, side) for a in args]) for side in ("theirs", "moved"))
        size = float(plain.detach().abs().max()) if plain.numel() else 0.0
        if not np.isfinite(size) or size > 100 or plain.numel() > 400:
            return
        self.largest = max(self.largest, size)
        self.values.append(Pair(ours(*[a.ours for a in args]), plain, moved))
        self.log.append(f"v{len(self.values) - 1} = {text}")

    def pick(self):
        return int(self.rng.integers(max(0, len(self.values) - 6), len(self.values)))


# ---- steps: each takes the graph, and adds a value or leaves it -------------------------------------


def call(g, name, *args):
    return lambda *t: g.q.call(name, *t, *args)


def unary(g):
    i, name = g.pick(), str(g.rng.choice(UNARY))
    g.add(f"{name}(v{i})", call(g, name), THEIRS.get(name) or getattr(torch, name), g.values[i])


def binary(g):
    i, j, name = g.pick(), g.pick(), str(g.rng.choice(BINARY))
    try:
        np.broadcast_shapes(g.values[i].shape, g.values[j].shape)
    except ValueError:
        j = i
    g.add(f"{name}(v{i}, v{j})", call(g, name), THEIRS.get(name) or getattr(torch, name), g.values[i],
          g.values[j])


def chosen(g):
    i = g.pick()
    c = float(g.rng.normal())
    g.add(f"where(v{i} < {c}, v{i}, sin v{i})", lambda x: g.q.call(
        "where", g.q.call("lt", x, g.q.call("like", x, c)), x, g.q.call("sin", x)),
        lambda x: torch.where(x < float(Value.of(g.dtype, c).numbers()), x, torch.sin(x)), g.values[i])


def movement(g):
    i = g.pick()
    shape = g.values[i].shape
    if not shape:
        return
    axis = int(g.rng.integers(len(shape)))
    order = [int(a) for a in g.rng.permutation(len(shape))]
    n = shape[axis]
    start = int(g.rng.integers(n))
    steps = [("flip", (axis,), lambda x: x.flip(axis)), ("permute", (len(order), order), lambda x: x.permute(order)),
             ("roll", (axis, 1), lambda x: x.roll(1, axis)), ("unsqueeze", (axis,), lambda x: x.unsqueeze(axis)),
             ("slice", (axis, start, n, 1), lambda x: x.narrow(axis, start, n - start)),
             ("select", (axis, start), lambda x: x.select(axis, start)),
             ("reshape", (1, [-1]), lambda x: x.reshape(-1)), ("repeat_interleave", (axis, 2),
                                                              lambda x: x.repeat_interleave(2, axis))]
    name, args, theirs = steps[g.rng.integers(len(steps))]
    if 0 not in shape:
        g.add(f"{name}(v{i}, {args})", call(g, name, *args), theirs, g.values[i])


def reduction(g):
    i = g.pick()
    shape = g.values[i].shape
    if not shape:
        return
    axis, keep = int(g.rng.integers(len(shape))), bool(g.rng.integers(2))
    steps = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin,
             "logsumexp": torch.logsumexp}
    name = str(g.rng.choice(list(steps)))
    g.add(f"{name}(v{i}, {axis}, {keep})", call(g, name, axis, keep),
          lambda x: steps[name](x, axis, keep), g.values[i])


def normal(g):
    i = g.pick()
    shape = g.values[i].shape
    if not shape:
        return
    name = str(g.rng.choice(["softmax", "log_softmax", "layer_norm"]))
    if name == "layer_norm":
        g.add(f"layer_norm(v{i})", lambda x: g.q.call(name, x, None, None, 0.1),
              lambda x: torch.nn.functional.layer_norm(x, shape[-1:], eps=0.1), g.values[i])
    else:
        g.add(f"{name}(v{i})", call(g, name, -1), lambda x: getattr(torch, name)(x, -1), g.values[i])


def product(g):
    i = g.pick()
    shape = g.values[i].shape
    if len(shape) != 2:
        return
    g.add(f"v{i} @ transpose(v{i}) / {shape[1]}", lambda x: g.q.call(
        "div", g.q.call("matmul", x, g.q.call("transpose", x, 0, 1)), g.q.call("like", x, float(shape[1]))),
        lambda x: x @ x.T / shape[1], g.values[i])


def gather(g):
    i = g.pick()
    shape = g.values[i].shape
    if not shape or 0 in shape:
        return
    axis = int(g.rng.integers(len(shape)))
    index = g.rng.integers(0, shape[axis], 3)
    g.add(f"take(v{i}, {index.tolist()}, {axis})", lambda x: g.q.call(
        "take", x, g.q.tensor(Value.of("i64", index)), axis),
        lambda x: torch.index_select(x, axis, torch.tensor(index)), g.values[i])


def join(g):
    i = g.pick()
    if g.values[i].shape:
        g.add(f"concat(v{i}, v{i} * v{i})", lambda x: g.q.call("concat", 2, [x, g.q.call("mul", x, x)], 0),
              lambda x: torch.cat([x, x * x]), g.values[i])


def read(g):
    i = g.pick()
    g.log.append(f"read v{i}")
    g.q.read(g.values[i].ours)


def assign(g):
    """A leaf's next version: what was recorded keeps the old one, what follows takes the new."""
    if not g.assigning:
        return
    i = int(g.rng.integers(len(g.leaves)))
    old = g.leaves[i]
    value, plain, moved = g.number(old.shape)
    g.log.append(f"assign leaf {i}")
    g.q.call("assign", old.ours, g.q.tensor(value))
    g.leaves[i] = Pair(old.ours, plain, moved, old)
    g.values.append(g.leaves[i])
    g.values = [v for v in g.values if v is not old]  # the name shows the new version


STEPS = [unary, unary, unary, binary, binary, binary, chosen, movement, movement, reduction, normal, product,
         gather, join, read, assign]


def bound(g, plain, moved):
    """Absolute: rounding of every step, and what an epsilon in the leaves makes."""
    shift = (plain - moved).detach().abs()
    return 8 * float(shift.max()) + 2.0 ** 12 * epsilon(g.dtype) * g.largest if plain.numel() else 0.0


def one(q, account, seed, number, dtype):
    rng = np.random.default_rng([seed, number])
    case = Case("graphs", dtype, "value", f"graph {number} ")
    with q.scope():
        g = Graph(q, rng, dtype)
        g.assigning = bool(rng.integers(2))
        tape = q.plain["qn_tape_begin"](q.qn) if g.assigning else None
        try:
            for _ in range(int(rng.integers(6, 22))):
                STEPS[rng.integers(len(STEPS))](g)
            tail = [v for v in g.values[-3:]]
            for v in tail:
                account.bound(case, q.read(v.ours), v.theirs.detach().numpy(force=True), bound(g, v.theirs, v.moved))
            compare_gradients(q, account, g, tail, number)
        except QuernError as e:
            account.fail(case, f"refused: {e}: " + "; ".join(g.log))
        finally:
            if tape:
                q.plain["qn_tape_end"](tape)
    if account.different["graphs"] > one.before:
        one.before = account.different["graphs"]
        print(f"  graph {number} {dtype}: leaves {[v.shape for v in g.leaves]}; " + "; ".join(g.log))


one.before = 0


def total(g, side, parts):
    if side == "ours":
        sums = [g.q.call("sum", g.q.call("tanh", p.ours), -2147483648, False) for p in parts]
        result = sums[0]
        for s in sums[1:]:
            result = g.q.call("add", result, s)
        return result
    return sum(torch.tanh(getattr(p, side)).sum() for p in parts)


def versions_of(y, leaf, side):
    """The gradients by each value of the leaf that y uses, as qn_grad tells them apart, the last one first."""
    found, version = [], leaf
    while version and y.requires_grad:
        more = torch.autograd.grad(y, [getattr(version, side)], allow_unused=True, retain_graph=True)[0]
        found += [] if more is None else [more]
        version = version.old
    return found


def is_refused(q, y, leaf):
    """Of a leaf of which y uses several values."""
    try:
        q.grad(y, None, [leaf.ours])
    except QuernError as e:
        return "uses more than one of its values" in str(e)
    return False


def compare_gradients(q, account, g, tail, number):
    sides = {}
    for side in ("theirs", "moved"):
        y = total(g, side, tail)
        sides[side] = [versions_of(y, leaf, side) for leaf in g.leaves]
    y = total(g, "ours", tail)
    for i, leaf in enumerate(g.leaves):
        case = Case("graphs", g.dtype, "gradient", f"graph {number} by leaf {i} ")
        several = len(sides["theirs"][i]) > 1
        if several and is_refused(q, y, leaf):
            continue
        if several and sum(bool(v.any()) for v in sides["theirs"][i]) > 1:  # floor's uses count as none
            account.fail(case, "given by several values of one tensor")
            continue
        plain, moved = (sum(sides[side][i], torch.zeros_like(leaf.theirs)) for side in ("theirs", "moved"))
        g.largest = max(g.largest, float(plain.abs().max()) if plain.numel() else 0.0)
        r, = q.grad(y, None, [leaf.ours])
        account.bound(case, q.read(r), plain.numpy(force=True), bound(g, plain, moved))


def run(q, account, rng):
    if torch is None:
        account.skip("graphs", "PyTorch is not installed")
        return
    for number in range(account.first, account.first + account.count):
        one(q, account, account.seed, number, ["f64", "f32"][number % 2])


def table():
    return {"graphs": run}
