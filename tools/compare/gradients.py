"""gradients.py - first and second derivatives.

Of elementwise functions at ordinary points the oracle is mpmath's difference quotient at 240 bits and
more (of lgamma, digamma and trigamma its polygamma), and the bound is in ulps, besides what one ulp of
the argument makes; at special points (zeros, kinks, bounds, infinities, NaN) it is PyTorch's autograd.
Functions of whole tensors are held against PyTorch's autograd in float64, with random seeds; the second
order is that of the gradient's product with random numbers.
"""

import mpmath
import numpy as np

from judge import Case, error_ulps, is_real, ulp
from quern import QuernError, Value, epsilon
from tables import BINARY, OPTIONS, UNARY, torch_gelu_slope, torch_gelu_tanh_slope, torch_silu_slope
from vectors import VECTORS

try:
    import torch
except ImportError:
    torch = None

FIRST, SECOND = 8, 32  # ulps
ORDINARY = [1e-30, 1e-10, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.9, 1.1, 1.5, 2.2, 3.3, 5.0, 7.7, 12.0, 20.0, 50.0, 85.0]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 2.0, np.inf, -np.inf, np.nan]
REAL = {"neg": lambda x: -x, "abs": abs, "reciprocal": lambda x: 1 / x, "sqrt": mpmath.sqrt,
        "square": lambda x: x * x, "relu": lambda x: max(x, mpmath.mpf(0)),
        "relu6": lambda x: min(max(x, mpmath.mpf(0)), mpmath.mpf(6)),
        "clamp": lambda x, lo, hi: min(max(x, mpmath.mpf(lo)), mpmath.mpf(hi)),
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y, "maximum": max, "minimum": min,
        "mod": lambda x, y: x - y * mpmath.floor(x / y),
        "rem": lambda x, y: x - y * (1 if x / y > 0 else -1) * mpmath.floor(abs(x / y))}
POLYGAMMA = {"lgamma": -1, "digamma": 0, "trigamma": 1}  # the function's own order


class Polygamma:
    """A function whose derivatives are known: quotients of polygamma at 1,600 bits would take hours."""

    def __init__(self, order):
        self.order = order

    def derivative(self, x, n):
        with mpmath.workprec(400):
            return mpmath.polygamma(self.order + n, x)


def points(dtype, rng, dims):
    values = [v * s for v in ORDINARY for s in (1, -1)]
    if dims == 1:
        return [Value.of(dtype, np.concatenate([values, rng.uniform(-4, 4, 24)]))]
    columns = [np.concatenate([rng.choice(values, 24), rng.uniform(-4, 4, 16)]) for _ in range(dims)]
    return [Value.of(dtype, c) for c in columns]


def derivative(function, args, orders, direction=0):
    """mpmath's difference quotient, or None where the function is not real there. Steps are small
    beside each argument, and there are digits for derivatives that are far smaller than values."""
    try:
        if isinstance(function, Polygamma):
            return function.derivative(args[0], orders[0])
        with mpmath.workprec(1600):
            scale = [abs(a) if a else mpmath.mpf(1) for a in args]
            scaled = mpmath.diff(lambda *t: function(*[v * s for v, s in zip(t, scale)]),
                                 tuple(a / s for a, s in zip(args, scale)), tuple(orders),
                                 direction=direction)
            for s, n in zip(scale, orders):
                scaled = scaled / s ** n
            return scaled if isinstance(scaled, mpmath.mpf) and mpmath.isfinite(scaled) else None
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, NotImplementedError):
        return None


def kink(real, args, orders):
    """Do the derivatives of both sides differ, or the first ones?"""
    for some in ([min(n, 1) for n in orders], orders):
        sides = [derivative(real, args, some, d) for d in (-1, 1)]
        if None in sides or abs(sides[0] - sides[1]) > abs(sides[0]) * mpmath.mpf(2) ** -200:
            return True
    return False


def derivative_of_first(q, g, t):
    """Zeros of a first derivative that is data, which has no history."""
    try:
        return q.read(q.grad(g, None, [t])[0])
    except QuernError as e:
        if e.code != -10:
            raise
        q.plain["qn_clear_error"](q.qn)
        return q.read(q.call("zeros_like", t))


def grads(q, name, values, options, second):
    """Values of the first derivatives, and of the second by the same argument."""
    ts = [q.tensor(v) for v in values]
    first = q.grad(q.call(name, *ts, *options), None, ts)
    out = [[q.read(g) for g in first]]
    if second:
        out.append([derivative_of_first(q, g, t) for g, t in zip(first, ts)])
    return out


def smooth(q, account, rng, name, row, real):
    for options in OPTIONS.get(name, [()])[:2]:
        function = (lambda *a: real(*a, *options)) if options else real  # judged within this turn
        for dtype in ("f32", "f64"):
            values = points(dtype, rng, row.arity)
            with q.scope():
                got = grads(q, name, values, options, True)
            numbers = [v.numbers() for v in values]
            for order, results in enumerate(got):
                case = Case(name, dtype, ["gradient", "second"][order], "by ")
                for which, result in enumerate(results):
                    judge(account, case, result, values, numbers, which, order + 1, function)


def judge(account, case, result, values, numbers, which, order, real):
    most = FIRST if order == 1 else SECOND
    orders = [order if i == which else 0 for i in range(len(values))]
    case.remark = f"by {which} "
    for i, got in enumerate(result.numbers().tolist()):
        args = [mpmath.mpf(float(n[i])) for n in numbers]
        want = derivative(real, args, orders)
        if want is None:
            account.skip(case.name, "no derivative by differences: outside the domain")
            continue
        account.compared[case.name] += 1
        if abs(want) < mpmath.mpf(2) ** -1060:
            want = mpmath.mpf(0)
        error = error_ulps(got, want, result.dtype)
        if error <= most:
            worst = account.worst.get((case.name, case.order), (0,))[0]
            if error > worst:
                account.worst[(case.name, case.order)] = (error, result.dtype)
            continue
        if kink(real, args, orders):
            account.skip(case.name, "a kink lies on the point: what PyTorch says is compared")
            continue
        if np.isfinite(got) and abs(got - want) <= shift(real, args, orders, result.dtype) + \
                most * ulp(want, result.dtype):
            continue
        flat = [Value(v.dtype, v.raw[i:i + 1]) for v in values]
        account.difference(case, account.words(flat, 0, 1), tuple(float(a) for a in args), got, want,
                           error)


def shift(real, args, orders, dtype):
    """What one ulp of each argument makes of the derivative."""
    total = mpmath.mpf(0)
    for i, a in enumerate(args):
        more = derivative(real, args, [n + (k == i) for k, n in enumerate(orders)])
        total += abs(more) * ulp(a, dtype) if more is not None else 0
    return total


def torch_function(name, options):
    special = {"log_sigmoid": torch.nn.functional.logsigmoid, "gelu": torch.nn.functional.gelu,
               "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
               "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
               "hardsigmoid": lambda x: torch.nn.functional.relu6(x + 3) / 6,
               "hardswish": lambda x: x * torch.nn.functional.relu6(x + 3) / 6,
               "rem": torch.fmod, "mod": torch.remainder, "neg": torch.neg,
               "silu_slope": torch_silu_slope, "trigamma": lambda x: torch.polygamma(1, x),
               "gelu_slope": torch_gelu_slope, "gelu_tanh_slope": torch_gelu_tanh_slope,
               "elu": lambda x: torch.nn.functional.elu(x, *options),
               "celu": lambda x: torch.nn.functional.celu(x, *options),
               "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, *options),
               "clamp": lambda x: torch.clamp(x, *options)}
    return special.get(name) or getattr(torch, name, None) or getattr(torch.nn.functional, name, None)


def at_special_points(q, account, name, row):
    """First derivatives where PyTorch says what they are; second ones where it can."""
    for options in OPTIONS.get(name, [()])[:2]:
        function = torch and torch_function(name, options)
        if not function:
            account.skip(name, "PyTorch is not installed" if not torch else
                         "PyTorch has no such function for special points")
            return
        grid = np.array(SPECIAL) if row.arity == 1 else np.array(
            [(a, b) for a in SPECIAL for b in SPECIAL]).T
        columns = [grid] if row.arity == 1 else list(grid)
        for dtype in ("f32", "f64"):
            values = [Value.of(dtype, c) for c in columns]
            want = torch_derivatives(function, values)
            if want is None:
                account.skip(name, "PyTorch has no derivative of it")
                return
            with q.scope():
                got = grads(q, name, values, options, True)
            for order in (0, 1):
                for which in range(row.arity):
                    if want[order][which] is None:
                        continue
                    case = Case(name, dtype, ["gradient", "second"][order], f"by {which} ")
                    exact = [float(v) for v in want[order][which]]
                    slack = [epsilon(dtype) * (abs(v) + 1) if is_real(v) else 0 for v in exact]
                    account.ulps(case, got[order][which], exact, (FIRST, SECOND)[order], values, slack)


def torch_derivatives(function, values):
    try:
        xs = [torch.tensor(v.numbers(), dtype=torch.float64, requires_grad=True) for v in values]
        first = torch.autograd.grad(function(*xs).sum(), xs, create_graph=True, allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return None
    first = [torch.zeros_like(x) if g is None else g for g, x in zip(first, xs)]
    second = []
    for g, x in zip(first, xs):
        try:
            more = torch.autograd.grad(g.sum(), [x], allow_unused=True, retain_graph=True)[0] \
                if g.requires_grad else None
            second.append((torch.zeros_like(x) if more is None else more).detach().numpy(force=True))
        except (RuntimeError, NotImplementedError):
            second.append(None)
    return [g.detach().numpy(force=True) for g in first], second


def elementwise(q, account, rng, name, row):
    real = Polygamma(POLYGAMMA[name]) if name in POLYGAMMA else row.real or REAL.get(name)
    try:
        if real:
            smooth(q, account, rng, name, row, real)
        at_special_points(q, account, name, row)
    except QuernError as e:
        account.fail(Case(name, "", "gradient"), f"refused: {e}")


# ---- functions of whole tensors ------------------------------------------------------------------


def whole(q, account, rng, name, make):
    if torch is None:
        account.skip(name, "PyTorch is not installed")
        return
    for dtype in ("f64", "f32", "f16"):
        for shapes, ours, theirs in make(rng):
            values = [Value.of(dtype, rng.normal(0, 1, s)) for s in shapes]
            xs = [torch.tensor(v.numbers(), requires_grad=True) for v in values]
            y = theirs(*xs)
            seed = Value.of(dtype, rng.normal(0, 1, tuple(y.shape)))
            weights = [Value.of(dtype, rng.normal(0, 1, s)) for s in shapes]
            first = torch.autograd.grad((y * torch.tensor(seed.numbers())).sum(), xs, create_graph=True,
                                        allow_unused=True)
            first = [torch.zeros_like(x) if g is None else g for g, x in zip(first, xs)]
            total = sum((g * torch.tensor(w.numbers())).sum() for g, w in zip(first, weights))
            second = torch.autograd.grad(total, xs, allow_unused=True) if total.requires_grad else [None] * 9
            remark = " ".join(str(tuple(s)) for s in shapes) + " "
            with q.scope():
                try:
                    ts = [q.tensor(v) for v in values]
                    ours_first = q.grad(ours(q, *ts), q.tensor(seed), ts)
                    parts = [q.call("sum", q.call("mul", g, q.tensor(w)), -2147483648, False)
                             for g, w in zip(ours_first, weights)]
                    sum_ = parts[0]
                    for p in parts[1:]:
                        sum_ = q.call("add", sum_, p)
                    ours_second = q.grad(sum_, None, ts)
                    got = [[q.read(g) for g in gs] for gs in (ours_first, ours_second)]
                except QuernError as e:
                    account.fail(Case(name, dtype, "gradient", remark), f"refused: {e}")
                    continue
            for order, wants in enumerate((first, second)):
                if order and dtype == "f16":
                    continue
                units = (64, 512)[order] * epsilon(dtype)
                size = max([float(w.detach().abs().max()) for w in wants if w is not None] + [1])
                for i, (g, w) in enumerate(zip(got[order], wants)):
                    case = Case(name, dtype, ["gradient", "second"][order], f"by {i} of {remark}")
                    expected = np.zeros(shapes[i]) if w is None else w.detach().numpy(force=True)
                    if account.form(case, g, dtype, expected.shape):
                        account.bound(case, g, expected, units * size, values)


def table():
    rows = {}
    for part in (UNARY, BINARY):
        for name, row in part.items():
            if row.grad and row.gives in ("float", "same"):
                rows[name] = lambda q, account, rng, name=name, row=row: elementwise(q, account, rng, name,
                                                                                    row)
    for name, make in VECTORS.items():
        rows[name] = lambda q, account, rng, name=name, make=make: whole(q, account, rng, name, make)
    return rows
