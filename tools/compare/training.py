"""training.py - optimizers against torch.optim, step by step from the same parameters: each step's
loss takes the parameters that the last one assigned. Those that PyTorch lacks, or has in bfloat16 alone
(Muon's iteration), are their papers' formulas in PyTorch's operations. The bound is 64 epsilons of the
largest parameter, which grows with the steps: a difference of one step goes into all later gradients; how
far is seen by PyTorch's own steps from parameters that are moved by an epsilon."""

import ctypes as C

import numpy as np

from judge import Case
from quern import OptimizerOptions, QuernError, Value, epsilon

try:
    import torch
except ImportError:
    torch = None

STEPS = 20
METHODS = ["sgd", "adam", "adamw", "rmsprop", "adagrad", "lion", "adadelta", "adamax", "adafactor", "lamb",
           "muon", "sophia"]
CASES = [(0, {"rate": 0.1}), (0, {"rate": 0.1, "momentum": 0.9}),
         (0, {"rate": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
         (0, {"rate": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
         (0, {"rate": 0.1, "clip": 0.01}), (0, {"rate": 0.1, "clip_value": 0.01}),
         (1, {"rate": 0.01}), (1, {"rate": 0.01, "weight_decay": 0.1, "beta1": 0.8, "beta2": 0.95}),
         (1, {"rate": 0.01, "amsgrad": True, "beta2": 0.5}),
         (2, {"rate": 0.01}), (2, {"rate": 0.1, "weight_decay": 0.3}), (2, {"rate": 0.1, "amsgrad": True}),
         (3, {"rate": 0.01}), (3, {"rate": 0.01, "momentum": 0.5, "weight_decay": 0.1}),
         (3, {"rate": 0.01, "centered": True}), (4, {"rate": 0.1}), (4, {"rate": 0.1, "weight_decay": 0.1}),
         (4, {"rate": 0.1, "rate_decay": 0.1, "start": 0.1}), (5, {"rate": 0.01, "weight_decay": 0.1}),
         (6, {}), (6, {"weight_decay": 0.1, "beta2": 0.5}), (7, {}), (7, {"weight_decay": 0.1}),
         (8, {}), (8, {"rate": 0.5, "weight_decay": 0.1, "epsilon": 1e-3}), (9, {}),
         (9, {"rate": 0.1, "weight_decay": 0.1}), (10, {"rate": 0.02}),
         (10, {"rate": 0.02, "nesterov": False, "adjust": 1}), (11, {"rate": 0.01})]


class Formula:
    """A method as its paper has it: update(t, p, g, state) assigns to p, state being a dict."""

    def __init__(self, parameters, update):
        self.parameters, self.update, self.t = parameters, update, 0
        self.states = [{} for _ in parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def step(self):
        self.t += 1
        with torch.no_grad():
            for p, state in zip(self.parameters, self.states):
                self.update(self.t, p, p.grad, state)


def lerped(state, name, value, beta):
    state[name] = beta * state.get(name, torch.zeros_like(value)) + (1 - beta) * value
    return state[name]


def lion(o):
    """Chen et al. 2023."""
    def update(t, p, g, state):
        way = torch.sign(o.beta1 * state.get("m", torch.zeros_like(g)) + (1 - o.beta1) * g)
        p -= o.rate * (way + o.weight_decay * p)
        lerped(state, "m", g, o.beta2)
    return update


def lamb(o):
    """You et al. 2020, algorithm 2."""
    def update(t, p, g, state):
        mean = lerped(state, "m", g, o.beta1) / (1 - o.beta1 ** t)
        square = lerped(state, "v", g * g, o.beta2) / (1 - o.beta2 ** t)
        way = mean / (square.sqrt() + o.epsilon) + o.weight_decay * p
        p -= o.rate * p.norm() / way.norm() * way
    return update


def muon(o):
    """Jordan et al. 2024, with PyTorch's blend of the momentum."""
    def update(t, p, g, state):
        m = lerped(state, "m", g, o.momentum)
        x = torch.lerp(g, m, o.momentum) if o.nesterov else m
        u, s, v = torch.linalg.svd(x / x.norm(), full_matrices=False)  # the polynomial, on singular values
        a, b, c = o.coefficients
        for _ in range(o.iterations):
            s = a * s + b * s ** 3 + c * s ** 5
        rows, columns = p.shape
        ratio = 0.2 * max(rows, columns) ** 0.5 if o.adjust else max(1, rows / columns) ** 0.5
        p *= 1 - o.rate * o.weight_decay
        p -= o.rate * ratio * (u * s @ v)
    return update


def sophia(o):
    """Liu et al. 2023, the curvature estimated by the gradient's square at every step."""
    def update(t, p, g, state):
        m, h = lerped(state, "m", g, o.beta1), lerped(state, "h", g * g, o.beta2)
        p *= 1 - o.rate * o.weight_decay
        p -= o.rate * (m / (o.threshold * h).clamp(min=o.epsilon)).clamp(-1, 1)
    return update


def theirs(o, ps):
    optim, up = torch.optim, o.maximize
    betas, also = (o.beta1, o.beta2), {"lr": o.rate, "weight_decay": o.weight_decay}
    makers = {
        0: lambda: optim.SGD(ps, momentum=o.momentum, nesterov=o.nesterov, dampening=o.dampening, maximize=up,
                             **also),
        1: lambda: optim.Adam(ps, betas=betas, eps=o.epsilon, amsgrad=o.amsgrad, **also),
        2: lambda: optim.AdamW(ps, betas=betas, eps=o.epsilon, amsgrad=o.amsgrad, **also),
        3: lambda: optim.RMSprop(ps, alpha=o.beta2, eps=o.epsilon, momentum=o.momentum, centered=o.centered,
                                 **also),
        4: lambda: optim.Adagrad(ps, eps=o.epsilon, lr_decay=o.rate_decay, initial_accumulator_value=o.start,
                                 **also),
        6: lambda: optim.Adadelta(ps, rho=o.beta2, eps=o.epsilon, **also),
        7: lambda: optim.Adamax(ps, betas=betas, eps=o.epsilon, **also),
        8: lambda: optim.Adafactor(ps, beta2_decay=o.beta2_decay, eps=(o.epsilon or None, o.epsilon2),
                                   d=o.threshold, **also)}
    formulas = {5: lion, 9: lamb, 10: muon, 11: sophia}
    return makers[o.method]() if o.method in makers else Formula(ps, formulas[o.method](o))


def stepped(o, optimizer, ws, x):
    optimizer.zero_grad()
    torch.tanh(x @ ws[0] + ws[1]).square().mean().backward()
    if o.clip:
        torch.nn.utils.clip_grad_norm_(ws, o.clip)
    if o.clip_value:
        torch.nn.utils.clip_grad_value_(ws, o.clip_value)
    optimizer.step()


def steps(q, account, case, o, dtype, rng):
    shapes = ((3, 4), (5, 4)) if o.method == 10 else ((3, 4), (4,))
    values = [Value.of(dtype, rng.normal(0, 1, s)) for s in shapes]
    xs = [q.tensor(Value.of(dtype, rng.normal(0, 1, (5, 3)))) for _ in range(STEPS)]
    inputs = [torch.tensor(q.read(x).numbers()) for x in xs]
    w, b = [q.tensor(v) for v in values]
    there = [[torch.tensor(v.numbers() * by, requires_grad=True) for v in values] for by in (1, 1 + epsilon(dtype))]
    ours, others = q.call("optimizer_new", 2, [w, b], o), [theirs(o, ws) for ws in there]
    try:
        for t, (x, plain) in enumerate(zip(xs, inputs)):
            y = q.call("tanh", q.call("add", q.call("matmul", x, w), b))
            q.call("optimizer_step", ours, q.call("mean", q.call("square", y), -2147483648, False))
            for other, ws in zip(others, there):
                stepped(o, other, ws, plain)
            for ours_now, *plainly in zip((w, b), *there):
                want, moved = (p.detach().numpy() for p in plainly)
                slack = 64 * (1 + t / 4) * epsilon(dtype) * np.abs(want).max() + 8 * np.abs(moved - want).max()
                account.bound(case, q.read(ours_now), want, slack)
    finally:
        q.plain["qn_optimizer_free"](ours)


def run(q, account, rng):
    if torch is None:
        account.skip("optimizers", "PyTorch is not installed")
        return
    for method, given in CASES:
        for dtype in ("f32", "f64"):
            o = OptimizerOptions()
            q.plain["qn_optimizer_get_defaults"](method, C.byref(o), C.sizeof(o))
            for name, value in given.items():
                setattr(o, name, value)
            case = Case("optimizers", dtype, "value", f"{METHODS[method]} {given} ")
            with q.scope():
                try:
                    steps(q, account, case, o, dtype, rng)
                except QuernError as e:
                    account.fail(case, f"refused: {e}")


def table():
    return {"optimizers": run}
