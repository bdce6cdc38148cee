"""Random kernels beside themselves as plain Python: loops, conditions, names that change, arrays that are read back."""

import linecache
import math
import os
import random
import unittest

import quern as qn
from quern import kernel

PROGRAMS = int(os.environ.get("QN_KERNEL_PROGRAMS", 30))
SEED = int(os.environ.get("QN_SEED", 1))


class Program:
    """The text of a kernel of x [n, m] and w [m], from a seed."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.lines, self.depth, self.loops, self.made = [], 1, [], 0
        self.names = [["a", "b"]]  # that have a value, by block
        self.add("n, m = x.shape")
        self.add("y = kernel.zeros((n, m), 'float64')")
        self.add("z = kernel.zeros(n, 'float64')")
        self.add("a, b = 0.5, -1")
        self.block(3, 6)
        self.add("return y, z, a, b")

    def text(self):
        return "@kernel\ndef f(x, w):\n" + "\n".join(self.lines) + "\n"

    def add(self, line):
        self.lines.append("    " * self.depth + line)

    def pick(self, *choices):
        return self.draw.choice(choices)

    def known(self):
        return [n for block in self.names for n in block]

    def index(self, size):
        """Of an axis: a loop's variable over it, or its end."""
        found = [v for v, s in self.loops if s == size]
        return self.draw.choice(found) if found and self.draw.random() < 0.8 else self.pick("0", "-1")

    def number(self, depth=0):
        r = self.draw.random()
        if depth > 2 or r < 0.25:
            return self.pick(*self.known(), "2", "0.25", "-1.5", *(v for v, _ in self.loops))
        if r < 0.5:
            i, j = self.index("n"), self.index("m")
            return self.pick(f"x[{i}, {j}]", f"w[{j}]", f"y[{i}, {j}]", f"z[{i}]")
        a, b = self.number(depth + 1), self.number(depth + 1)
        if r < 0.75:
            return f"({a} {self.pick('+', '-', '*')} {b})"
        if r < 0.85:
            return f"{self.pick('max', 'min')}({a}, {b})"
        if r < 0.93:
            return f"({a} if {self.condition(depth + 1)} else {b})"
        return self.pick(f"abs({a})", f"math.tanh({a})", f"math.sin({a})", f"float({a})", f"-{a}")

    def condition(self, depth=0):
        r = self.draw.random()
        if r < 0.25 and self.loops:
            v, size = self.draw.choice(self.loops)
            return self.pick(f"{v} > 0", f"{v} < {size} - 1", f"{v} == 0", f"0 < {v} <= 2")
        if r < 0.4 and depth < 3:
            return f"({self.condition(depth + 1)} {self.pick('and', 'or')} {self.condition(depth + 1)})"
        if r < 0.45 and depth < 3:
            return f"not {self.condition(depth + 1)}"
        return f"{self.number(2)} {self.pick('<', '<=', '>', '>=')} {self.number(2)}"

    def block(self, depth, most):
        for _ in range(self.draw.randint(2, most)):
            r = self.draw.random()
            if depth and r < 0.35:
                self.loop(depth)
            elif depth and r < 0.5:
                self.choice(depth)
            elif r < 0.7:
                self.assign()
            elif r < 0.85:
                self.made += 1
                self.add(f"t{self.made} = {self.number()}")
                self.names[-1].append(f"t{self.made}")
            else:
                i, j = self.index("n"), self.index("m")
                self.add(f"{self.pick(f'y[{i}, {j}]', f'z[{i}]')} {self.pick('=', '+=', '-=')} {self.bounded()}")

    def bounded(self):
        """What does not grow from trip to trip."""
        return f"math.tanh({self.number()})"

    def assign(self):
        names = self.known()
        if self.draw.random() < 0.4:
            a = self.draw.choice(names)
            self.add(f"{a} = {self.pick(f'min({a}, {self.number()})', f'max({self.number()}, {a})', f'{a} * 0.5')}")
        elif self.draw.random() < 0.2:
            a, b = self.draw.sample(names, 2)
            self.add(f"{a}, {b} = {b}, {self.bounded()}")
        else:
            self.add(f"{self.draw.choice(names)} {self.pick('=', '+=', '=')} {self.bounded()}")

    def inner(self, depth):
        self.depth += 1
        self.names.append([])
        self.block(depth - 1, 4)
        self.names.pop()
        self.depth -= 1

    def loop(self, depth):
        size = self.pick("n", "m")
        self.made += 1
        v = f"i{self.made}"
        self.add(f"for {v} in range({size}):")
        self.loops.append((v, size))
        self.inner(depth)
        self.loops.pop()

    def choice(self, depth):
        self.add(f"if {self.condition()}:")
        self.inner(depth)
        if self.draw.random() < 0.6:
            self.add("else:")
            self.inner(depth)


def made(seed):
    text = Program(seed).text()
    name = f"<kernel {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    known = {"kernel": kernel, "math": math}
    exec(compile(text, name, "exec"), known)
    return known["f"], text


class Programs(unittest.TestCase):
    def test_random_kernels_are_their_plain_functions(self):
        for seed in range(SEED, SEED + PROGRAMS):
            f, text = made(seed)
            draw = random.Random(seed)
            n, m = draw.randint(1, 6), draw.randint(1, 6)
            x, w = ([draw.uniform(-2, 2) for _ in range(k)] for k in (n * m, m))
            x, w = qn.tensor(x, "float64").reshape((n, m)), qn.tensor(w, "float64")
            with self.subTest(seed=seed, n=n, m=m, text=text):
                for found, wanted in zip(f(x, w), f.py(x, w), strict=True):
                    for a, b in zip(found.reshape(-1).tolist(), wanted.reshape(-1).tolist(), strict=True):
                        self.assertTrue(abs(a - b) <= 1e-5 * max(1, abs(b)), (a, b))


if __name__ == "__main__":
    unittest.main()
