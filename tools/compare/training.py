"""training.py - optimizers against torch.optim, step by step from the same parameters: each step's
loss takes the parameters that the last one assigned. Lion, which PyTorch lacks, is its paper's formula.
Steps are few and smooth; the bound is 64 epsilons of the largest parameter."""

import ctypes as C

import numpy as np

from judge import Case
from quern import OptimizerOptions, QuernError, Value, epsilon

try:
    import torch
except ImportError:
    torch = None

STEPS = 5
METHODS = ["sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"]
CASES = [(0, {"rate": 0.1}), (0, {"rate": 0.1, "momentum": 0.9}),
         (0, {"rate": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
         (1, {"rate": 0.01}), (1, {"rate": 0.01, "weight_decay": 0.1, "beta1": 0.8, "beta2": 0.95}),
         (2, {"rate": 0.01}), (2, {"rate": 0.1, "weight_decay": 0.3}), (3, {"rate": 0.01}),
         (3, {"rate": 0.01, "momentum": 0.5, "weight_decay": 0.1}), (4, {"rate": 0.1}),
         (4, {"rate": 0.1, "weight_decay": 0.1}), (5, {"rate": 0.01, "weight_decay": 0.1})]


class Lion:
    """Chen et al. 2023."""

    def __init__(self, parameters, options):
        self.parameters, self.options = parameters, options
        self.momenta = [torch.zeros_like(p) for p in parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    def step(self):
        o = self.options
        with torch.no_grad():
            for p, m in zip(self.parameters, self.momenta):
                way = torch.sign(o.beta1 * m + (1 - o.beta1) * p.grad)
                p -= o.rate * (way + o.weight_decay * p)
                m.mul_(o.beta2).add_(p.grad, alpha=1 - o.beta2)


def theirs(o, parameters):
    optim, decay, lr = torch.optim, o.weight_decay, o.rate
    if o.method == 0:
        return optim.SGD(parameters, lr=lr, momentum=o.momentum, nesterov=o.nesterov, weight_decay=decay)
    if o.method in (1, 2):
        adam = optim.Adam if o.method == 1 else optim.AdamW
        return adam(parameters, lr=lr, betas=(o.beta1, o.beta2), eps=o.epsilon, weight_decay=decay)
    if o.method == 3:
        return optim.RMSprop(parameters, lr=lr, alpha=o.beta2, eps=o.epsilon, momentum=o.momentum,
                             weight_decay=decay)
    if o.method == 4:
        return optim.Adagrad(parameters, lr=lr, eps=o.epsilon, weight_decay=decay)
    return Lion(parameters, o)


def steps(q, account, case, o, dtype, rng):
    values = [Value.of(dtype, rng.normal(0, 1, s)) for s in ((3, 4), (4,))]
    xs = [q.tensor(Value.of(dtype, rng.normal(0, 1, (5, 3)))) for _ in range(STEPS)]
    inputs = [torch.tensor(q.read(x).numbers()) for x in xs]
    w, b = [q.tensor(v) for v in values]
    ws = [torch.tensor(v.numbers(), requires_grad=True) for v in values]
    ours, other = q.call("optimizer_new", 2, [w, b], o), theirs(o, ws)
    try:
        for x, plain in zip(xs, inputs):
            y = q.call("tanh", q.call("add", q.call("matmul", x, w), b))
            q.call("optimizer_step", ours, q.call("mean", q.call("square", y), -2147483648, False))
            other.zero_grad()
            torch.tanh(plain @ ws[0] + ws[1]).square().mean().backward()
            other.step()
            for t, plainly in zip((w, b), ws):
                want = plainly.detach().numpy()
                account.bound(case, q.read(t), want, 64 * epsilon(dtype) * np.abs(want).max())
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
