#!/usr/bin/env python3
"""programs.py - random programs of the Python package beside PyTorch.

Usage: programs.py [FIRST [COUNT]], with the package built (make python) and on the path.

A program makes tensors and parameters, computes, writes elements, adds in place, assigns to
parameters whole, by views and by steps under no_grad, reads, calls jitted functions and takes
gradients, in random order. PyTorch computes the same with values that are never changed: each
assignment to a parameter makes another leaf, and the gradient of the parameter is the sum of
theirs. Values and gradients must be equal; a gradient may be refused instead, and the reasons are
counted. Prints each program that differs, then counts; ends with status 1 where one does.
"""

import collections
import random
import sys

import numpy as np
import quern as qn
import torch

UNARY = {
    "sin": (qn.sin, torch.sin), "tanh": (qn.tanh, torch.tanh), "exp": (qn.exp, torch.exp),
    "relu": (qn.relu, torch.relu), "neg": (lambda x: -x, lambda x: -x), "square": (lambda x: x * x, lambda x: x * x),
    "+x": (lambda x: +x, lambda x: x + 0), "x * 1": (lambda x: x * 1, lambda x: x * 1),
    "x + 0": (lambda x: x + 0, lambda x: x + 0), "cast": (lambda x: qn.cast(x, "f64"), lambda x: x + 0),
    "detach": (qn.detach, lambda x: x.detach() + 0), "sum": (lambda x: x.sum(0), lambda x: x.sum(0)),
    "mean": (lambda x: qn.mean(x, -1, keepdims=True), lambda x: x.mean(-1, keepdim=True)),
    "max": (lambda x: qn.max(x, 0), lambda x: torch.amax(x, 0)), "flip": (lambda x: qn.flip(x, 0), lambda x: x.flip(0)),
    "cumsum": (lambda x: qn.cumsum(x, 0), lambda x: x.cumsum(0)),
    "softmax": (lambda x: qn.softmax(x, -1), lambda x: torch.softmax(x, -1)),
    "reshape": (lambda x: qn.reshape(x, (-1,)), lambda x: x.reshape(-1)),
    "transpose": (lambda x: qn.transpose(x, 0, -1), lambda x: x.transpose(0, -1)),
}
BINARY = {"+": lambda x, y: x + y, "*": lambda x, y: x * y, "-": lambda x, y: x - y,
          "x * y + x": lambda x, y: x * y + x}
SHAPES = [(3,), (2, 3), (3, 2), (4,), (2, 2), (1, 3), (2, 3, 2)]
WRONG = ValueError


def written(x, y):
    z = x * 2
    z[0] = 1.0
    return z - y


def written_apart(x, y):
    z = (x * 2).clone()
    z[0] = 1.0
    return z - y


class Variable:
    """A tensor of each library; of a parameter PyTorch's leaves of all its values, too."""

    def __init__(self, ours, theirs, leaf=False):
        self.ours, self.theirs, self.leaf = ours, theirs, leaf
        self.leaves = [theirs] if leaf else []

    def change(self, value):
        self.theirs = value.detach().clone().requires_grad_(True)
        self.leaves.append(self.theirs)


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.variables, self.log = [], []
        both = BINARY["x * y + x"]
        self.functions = [(qn.jit(both), both), (qn.jit(written), written_apart), (written, written_apart)]
        self.steps = [(self.unary, 22), (self.binary, 20), (self.part, 8), (self.write, 8), (self.add, 5),
                      (self.read, 9), (self.assign, 8), (self.assign_view, 4), (self.call, 6), (self.backward, 4),
                      (self.make, 3), (self.parameter, 3)]

    def run(self):
        self.parameter()
        self.parameter()
        self.make()
        steps, weights = zip(*self.steps)
        for _ in range(self.random.randrange(5, 30)):
            self.random.choices(steps, weights)[0]()
        for i in range(len(self.variables)):
            self.check(i)
        self.backward()

    # ---- what is chosen ----

    def pick(self, fits=lambda v: True):
        found = [i for i, v in enumerate(self.variables) if fits(v)]
        return self.random.choice(found) if found else None

    def pick_like(self, t):
        return self.pick(lambda v: v.theirs.shape == t.shape)

    def index(self, n):
        kind = self.random.random()
        if kind < .4:
            return self.random.randrange(n)
        if kind < .8:
            start = self.random.randrange(n)
            return slice(start, self.random.randrange(start + 1, n + 1))
        return slice(None, None, 2)

    def indexed(self, fits):
        i = self.pick(lambda v: v.theirs.dim() > 0 and fits(v))
        return (i, self.index(self.variables[i].theirs.shape[0])) if i is not None else (None, None)

    def new(self, ours, theirs, text, leaf=False):
        self.log.append(f"v{len(self.variables)} = {text}")
        self.variables.append(Variable(ours, theirs, leaf))

    def drawn(self, shape):
        return self.numbers.uniform(-1.5, 1.5, tuple(shape))

    # ---- steps ----

    def make(self, leaf=False):
        a = self.drawn(self.random.choice(SHAPES))
        ours, theirs = qn.tensor(a, dtype="f64"), torch.tensor(a)
        computed = self.random.random() < .3
        ours = ours * 1.0 if computed else ours
        if leaf:
            ours.requires_grad = True
            theirs.requires_grad_(True)
        self.new(ours, theirs, f"{a.shape}{' computed' * computed}{' parameter' * leaf}", leaf)

    def parameter(self):
        self.make(True)

    def unary(self):
        i = self.pick(lambda v: v.theirs.dim() > 0)
        name, (ours, theirs) = self.random.choice(list(UNARY.items()))
        v = self.variables[i]
        self.new(ours(v.ours), theirs(v.theirs), f"{name} of v{i}")

    def binary(self):
        i = self.pick()
        j = self.pick_like(self.variables[i].theirs)
        name, f = self.random.choice(list(BINARY.items()))
        a, b = self.variables[i], self.variables[j]
        self.new(f(a.ours, b.ours), f(a.theirs, b.theirs), f"{name} of v{i}, v{j}")

    def call(self):
        i = self.pick(lambda v: v.theirs.dim() > 0)
        j = self.pick_like(self.variables[i].theirs)
        k = self.random.randrange(len(self.functions))
        a, b = self.variables[i], self.variables[j]
        ours, theirs = self.functions[k]
        self.new(ours(a.ours, b.ours), theirs(a.theirs, b.theirs), f"function {k} of v{i}, v{j}")

    def part(self):
        i, at = self.indexed(lambda v: True)
        self.new(self.variables[i].ours[at], self.variables[i].theirs[at] + 0, f"v{i}[{at}]")

    def write(self):
        i, at = self.indexed(lambda v: not v.leaf)
        if i is None:
            return
        v = self.variables[i]
        j = self.pick_like(v.theirs[at])
        now = v.theirs.clone()
        v.ours[at] = .5 if j is None else self.variables[j].ours
        now[at] = .5 if j is None else self.variables[j].theirs
        v.theirs = now
        self.log.append(f"v{i}[{at}] = {.5 if j is None else f'v{j}'}")

    def add(self):
        i = self.pick(lambda v: not v.leaf)
        j = self.pick_like(self.variables[i].theirs)
        self.log.append(f"v{i} += v{j}")
        self.variables[i].ours += self.variables[j].ours
        self.variables[i].theirs = self.variables[i].theirs + self.variables[j].theirs

    def read(self):
        i = self.pick()
        self.log.append(f"read v{i}")
        self.check(i)

    def assign(self):
        i, at = self.indexed(lambda v: v.leaf)
        v = self.variables[i]
        j = self.pick_like(v.theirs)
        other = self.variables[j]
        kind = self.random.randrange(4)
        self.log.append(f"v{i} " + [f"assigned v{j}", f"-= .1 * v{j}", f"[{at}] = .25", "assigned data"][kind])
        with qn.no_grad():
            if kind == 0:
                v.ours.assign(other.ours)
                v.change(other.theirs)
            elif kind == 1:
                v.ours -= .1 * other.ours
                v.change(v.theirs - .1 * other.theirs)
            elif kind == 2:
                v.ours[at] = .25
                v.change(v.theirs)
                v.theirs.data[at] = .25
            else:
                a = self.drawn(v.theirs.shape)
                v.ours.assign(qn.tensor(a, dtype="f64"))
                v.change(torch.tensor(a))

    def assign_view(self):
        i, at = self.indexed(lambda v: v.leaf)
        v = self.variables[i]
        a = self.drawn(v.theirs[at].shape)
        self.log.append(f"the view v{i}[{at}] assigned data")
        v.ours[at].assign(qn.tensor(a, dtype="f64"))
        v.change(v.theirs)
        v.theirs.data[at] = torch.tensor(a)

    def backward(self):
        i = self.pick(lambda v: v.theirs.requires_grad)
        v = self.variables[i]
        ours, theirs = (v.ours * v.ours).sum(), (v.theirs * v.theirs).sum()
        early = self.random.random() < .3
        self.log.append(f"backward of (v{i} * v{i}).sum()" + ", read before" * early)
        if early:
            ours.numpy()
        theirs.backward(retain_graph=True)
        ours.backward()
        for k, x in enumerate(self.variables):
            if x.leaf:
                want = sum((t.grad for t in x.leaves if t.grad is not None), torch.zeros_like(x.theirs))
                got = x.ours.grad
                self.compare(f"gradient of v{k}", np.zeros(want.shape) if got is None else got.numpy(), want)

    # ---- what is compared ----

    def check(self, i):
        self.compare(f"v{i}", np.asarray(self.variables[i].ours.numpy()), self.variables[i].theirs)

    @staticmethod
    def compare(what, got, want):
        want = want.detach().numpy()
        if got.shape != want.shape or not np.allclose(got, want, rtol=1e-8, atol=1e-8, equal_nan=True):
            raise WRONG(f"{what} is\n{got}\nand should be\n{want}")


def main():
    first, count = [int(a) for a in sys.argv[1:3]] + [1, 500][len(sys.argv) - 1:]
    torch.set_num_threads(1)
    refused, wrong = collections.Counter(), 0
    for seed in range(first, first + count):
        p = Program(seed)
        try:
            p.run()
        except RuntimeError as e:
            refused[str(e).split("] ", 1)[-1].split(";")[0][:90]] += 1
        except WRONG as e:
            wrong += 1
            print(f"seed {seed}: {e}", *p.log, sep="\n  ")
    for reason, n in refused.most_common():
        print(f"refused {n}: {reason}")
    print(f"{count - wrong - refused.total()} programs equal, {refused.total()} refused, {wrong} wrong, "
          f"seeds {first} to {first + count - 1}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
