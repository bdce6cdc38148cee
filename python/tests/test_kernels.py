"""quern.kernel beside the plain function, element by element: what compiles is right, and what cannot says where."""

import math
import os
import random
import subprocess
import sys
import tempfile
import unittest

import quern as qn
from quern import kernel

EPS = 1e-5
SCALE = 2.0


@kernel
def softmax(x):
    n, m = x.shape
    y = kernel.empty((n, m), x.dtype)
    for i in range(n):
        top = -math.inf
        for j in range(m):
            top = max(top, x[i, j])
        row, total = kernel.empty(m, x.dtype), 0.0
        for j in range(m):
            row[j] = math.exp(x[i, j] - top)
        for j in range(m):
            total += row[j]
        for j in range(m):
            y[i, j] = row[j] / total
    return y


@softmax.gradient
def softmax_slope(g, y, x):
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


@kernel
def mean_of_row(x, i):
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
    return total / x.shape[1]


@kernel
def variance_of_row(x, i, mean):
    total = 0.0
    for j in range(x.shape[1]):
        d = x[i, j] - mean
        total += d * d
    return total / x.shape[1]


@kernel
def layer_norm(x, gamma=None, beta=None, eps=EPS):
    n, m = x.shape
    y = kernel.empty_like(x)
    for i in range(n):
        mean = mean_of_row(x, i)
        inverse = 1 / math.sqrt(variance_of_row(x, i, mean) + eps)
        for j in range(m):
            v = (x[i, j] - mean) * inverse
            if gamma is not None:
                v *= gamma[j]
            if beta is not None:
                v += beta[j]
            y[i, j] = v
    return y


@kernel
def scaled(x):
    y = kernel.empty_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * SCALE
    return y


@kernel
def cube(x):
    y = kernel.empty_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] ** 3
    return y


@kernel
def cube_slope(g, x):
    y = kernel.empty_like(x)
    for i in range(x.shape[0]):
        y[i] = 3 * x[i] * x[i] * g[i]
    return y


cube.gradient(lambda g, y, x: cube_slope(g, x))


def numbers(*shape, dtype=None, seed=1, whole=False):
    draw = random.Random(seed)
    n = math.prod(shape)
    flat = [draw.randint(-9, 9) if whole else draw.uniform(-2, 2) for _ in range(n)]
    return qn.tensor(flat, dtype).reshape(shape)


def flat(x):
    return x.reshape(-1).tolist()


class Kernels(unittest.TestCase):
    def near(self, a, b, tolerance=2e-6):
        for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (a, b)), strict=True):
            self.assertEqual((x.shape, x.dtype), (y.shape, y.dtype))
            for p, q in zip(flat(x), flat(y), strict=True):
                if p != p or q != q:
                    self.assertEqual((p != p, q != q), (True, True))
                else:
                    self.assertTrue(p == q or abs(p - q) <= tolerance * max(1, abs(q)), (p, q))

    def as_plain(self, k, *args, **keywords):
        self.near(k(*args, **keywords), k.py(*args, **keywords))

    # ---- values -------------------------------------------------------------------------------

    def test_softmax_of_random_shapes(self):
        for seed in range(12):
            draw = random.Random(seed)
            x = numbers(draw.randint(1, 40), draw.randint(1, 90), seed=seed)
            self.near(softmax(x), qn.softmax(x, axis=-1))
        self.as_plain(softmax, numbers(5, 7, dtype="float64"))
        self.assertEqual(softmax(qn.zeros((0, 4))).shape, (0, 4))

    def test_layer_norm_by_nested_kernels(self):
        for seed in range(6):
            draw = random.Random(seed)
            n, m = draw.randint(1, 30), draw.randint(2, 70)
            x, gamma, beta = numbers(n, m, seed=seed), numbers(m, seed=9), numbers(m, seed=8)
            self.near(layer_norm(x, gamma, beta), qn.layer_norm(x, gamma, beta), 2e-5)
            self.near(layer_norm(x), qn.layer_norm(x), 2e-5)
        self.as_plain(layer_norm, x, beta=beta)

    def test_one_form_serves_sizes_up_to_the_next_power_of_two(self):
        @kernel
        def double(x):
            y = kernel.empty(x.shape, x.dtype)
            for i in range(x.shape[0]):
                for j in range(x.shape[1]):
                    y[i, j] = 2 * x[i, j]
            return y
        for n, m in ((33, 65), (63, 127), (40, 70), (32, 64)):
            self.as_plain(double, numbers(n, m))
        self.assertEqual(len(double.forms), 1)
        self.as_plain(double, numbers(40, 40))
        self.as_plain(double, numbers(64, 40))
        self.assertEqual(len(double.forms), 3)

    def test_dtypes(self):
        @kernel
        def mixed(x, k):
            y = kernel.empty(x.shape, "float64")
            z = kernel.empty(x.shape, k.dtype)
            total = 0
            for i in range(x.shape[0]):
                y[i] = x[i] / 2 + k[i] * i
                z[i] = k[i] // 2 + k[i] % 3 - (k[i] & 1)
                total += k[i]
            return y, z, total
        for d in ("float32", "float64", "float16", "bfloat16"):
            self.as_plain(mixed, numbers(9, dtype=d), numbers(9, dtype="int64", whole=True))

    def test_conditions(self):
        @kernel
        def choose(x, sign=1):
            n, = x.shape
            y, z, count = kernel.empty(n), kernel.zeros(n), 0
            for i in range(n):
                if x[i] > 0 and not x[i] > 1:
                    a = x[i]
                    b = 1.0
                elif x[i] < -1:
                    a, b = -x[i], 2.0
                else:
                    a = 0.0
                    b = -1.0
                if sign > 0:
                    y[i] = a + b
                else:
                    y[i] = a - b
                if x[i] > 0.5:
                    z[i] = x[i]
                    count += 1
                z[i] += 1 if 0 <= x[i] <= 1 else (2 if x[i] > 1 else 3)
            return y, z, count
        x = numbers(50)
        self.as_plain(choose, x)
        self.as_plain(choose, x, -1)

    def test_and_and_or_of_numbers_give_one_of_them(self):
        @kernel
        def either(x, k):
            n, = x.shape
            y, z = kernel.empty((n, 6)), kernel.empty(n, qn.int64)
            for i in range(n):
                y[i, 0] = x[i] or 7.0
                y[i, 1] = x[i] and x[i] * 2
                y[i, 2] = x[i] and 3.0 or -1.0
                y[i, 3] = (x[i] > 0) and x[i]
                y[i, 4] = (i > 2) or x[i]
                y[i, 5] = 1.0 if (k[i] and x[i] > 0) or not (x[i] or i > 3) else 2.0
                z[i] = i and k[i] or n
            return y, z
        self.as_plain(either, qn.tensor([0.0, 2.0, -1.5, 0.0, 3.0, 0.0]), qn.tensor([0, 2, 0, -1, 5, 0]))

    def test_what_is_read_before_a_called_kernel_writes(self):
        @kernel
        def bump(y, i):
            y[i] = y[i] + 10.0
            return 1.0

        @kernel
        def order(x):
            n, = x.shape
            y, z = kernel.empty(n), kernel.empty((n, 10))
            for i in range(n):
                y[i] = x[i]
            for i in range(n):
                z[i, 0] = y[i] + bump(y, i)
                z[i, 1] = 1.0 if y[i] < 10.0 + bump(y, i) else 0.0
                z[i, 2] = max(y[i], bump(y, i), y[i])
                z[i, 3] = 1.0 if y[i] > 40.0 and bump(y, i) > 0 else y[i]
                z[i, 4] = bump(y, i) if y[i] < 40.0 else 2.0
                y[i] += bump(y, i)
                z[i, 5] = y[i]
                a = y[i]
                a += bump(y, i)
                z[i, 6] = a
                p = (y[i], bump(y, i), y[i])
                z[i, 7] = p[0]
                z[i, 8] = p[2]
                z[i, 9] = (y[i] - x[i]) * bump(y, i) + y[i]
            return y, z
        self.as_plain(order, qn.tensor([0.5, 12.0, -3.0, 25.0]))

    def test_values_of_a_tuple_are_those_of_its_line(self):
        @kernel
        def pairs(x):
            n, = x.shape
            y, s = kernel.empty(n), 0.0
            for i in range(n):
                s += x[i]
                p = (s, (x[i], s * 2))
                s += 100.0
                y[i] = p[0] + p[1][1]
            return y
        self.as_plain(pairs, numbers(7))

    def test_straight_lines_take_time_by_their_count(self):
        lines = "\n".join(f"        a = a * 0.5 + a * (a - {k}.0)" for k in range(60))
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "straight_lines.py"), "w") as f:
                f.write("from quern import kernel\n\n\n@kernel\ndef straight(x):\n    y = kernel.zeros(x.shape)\n"
                        f"    for i in range(x.shape[0]):\n        y[i] = x[i]\n        a = y[i]\n{lines}\n"
                        "        y[i] = a\n    return y\n")
            sys.path.insert(0, folder)
            try:
                import straight_lines
            finally:
                sys.path.remove(folder)
            self.assertEqual(straight_lines.straight(qn.zeros(2)).tolist(), [0.0, 0.0])

    def test_neighbours_under_conditions_of_indices(self):
        @kernel
        def smooth(x):
            n, = x.shape
            y, z = kernel.empty(n), kernel.empty(n)
            for i in range(n):
                left = x[i - 1] if i > 0 else x[i]
                right = x[i]
                if i < n - 1:
                    right = x[i + 1]
                y[i] = (left + x[i] + right) / 3
                if i == 0 or i == n - 1:
                    z[i] = 0.0
                else:
                    z[i] = x[-1]
            return y, z
        for n in (1, 2, 9, 40):
            self.as_plain(smooth, numbers(n))

    def test_loops_of_steps_and_triangles(self):
        @kernel
        def triangle(x):
            n, m = x.shape
            y = kernel.zeros((n, n))
            for i in range(n):
                for j in range(i + 1):
                    for k in range(0, m - 1, 2):
                        y[i, j] += x[i, k] * x[j, k + 1]
                for j in range(n - 1, i, -1):
                    y[i, j] = -1.0
            return y
        for n, m in ((5, 8), (7, 3), (1, 1)):
            self.as_plain(triangle, numbers(n, m))

    def test_what_changes_in_a_loop_is_read_in_order(self):
        @kernel
        def fibonacci(x):
            y = kernel.empty(x.shape)
            a, b = 0.0, 1.0
            for i in range(x.shape[0]):
                old = a
                a, b = b, a + b
                y[i] = old + x[i]
                if b > 1000:
                    b = 1.0
                    a = 0.0
            return y, a
        self.as_plain(fibonacci, numbers(40))

        @kernel
        def shift(x):
            y = kernel.empty(x.shape)
            last = x[0]
            for i in range(x.shape[0]):
                now = x[i]
                y[i] = last
                y[i] += y[i] * now
                last = now
            return y
        self.as_plain(shift, numbers(20))

    def test_indices_that_are_data(self):
        @kernel
        def pick(x, at):
            y = kernel.empty((at.shape[0], x.shape[1]), x.dtype)
            for i in range(at.shape[0]):
                for j in range(x.shape[1]):
                    y[i, j] = x[at[i], j]
            return y
        x, at = numbers(6, 5), qn.tensor([5, 0, 3, 3])
        self.as_plain(pick, x, at)

        @kernel
        def count(at, n):
            y = kernel.zeros(n, "int64")
            for i in range(at.shape[0]):
                y[at[i]] += 1
            return y
        self.as_plain(count, at, 7)

    def test_functions(self):
        @kernel
        def many(x):
            y = kernel.full(x.shape, 0.0, "float64")
            for i in range(x.shape[0]):
                v = abs(x[i]) + 0.5
                y[i] = (math.sin(v) + math.cos(v) * math.tanh(v) - math.log(v) + math.atan2(v, 2) + math.pow(v, 1.5) +
                        math.sqrt(v) + math.expm1(v) + math.erf(v) + math.lgamma(v) + math.hypot(v, 1) + v ** -1.5 +
                        math.floor(v) + min(v, 1.0, 2 * v) + int(v) + float(i) + math.pi + math.fabs(-v) + v ** 3)
            return y
        self.near(many(numbers(30, dtype="float64")), many.py(numbers(30, dtype="float64")), 1e-13)

    def test_scalars_and_several_results(self):
        @kernel
        def stats(x, k: kernel.array("float32", 0)):
            low, high, total = math.inf, -math.inf, 0.0
            for i in range(x.shape[0]):
                low = min(low, x[i])
                high = max(high, x[i] * k[()])
                total += x[i]
            return low, high, total, x.shape[0]
        self.as_plain(stats, numbers(100), qn.tensor(0.5))
        with self.assertRaisesRegex(TypeError, "float64"):
            stats(numbers(3), qn.tensor(0.5, "float64"))

    def test_no_text_reaches_outside_of_its_arguments(self):
        @kernel
        def past(x):
            y = kernel.empty_like(x)
            for i in range(x.shape[0]):
                y[i] = x[i + 1]
            return y
        with self.assertRaisesRegex(kernel.Error, "may be past the end") as e:
            past(numbers(4))
        self.assertIn("x[i + 1]", e.exception.text)
        self.assertTrue(e.exception.filename.endswith("test_kernels.py"))

        @kernel
        def other_axis(x):
            y = kernel.empty((x.shape[1],))
            for i in range(x.shape[1]):
                y[i] = x[i, 0]
            return y
        with self.assertRaisesRegex(kernel.Error, "past the end"):
            other_axis(numbers(3, 5))
        self.as_plain(other_axis, numbers(4, 4))

    # ---- what is around -----------------------------------------------------------------------

    def test_gradients(self):
        x = numbers(4, 6)
        w = numbers(4, 6, seed=3)
        self.near(qn.grad(lambda x: (softmax(x) * w).sum())(x), qn.grad(lambda x: (qn.softmax(x, -1) * w).sum())(x))
        v = numbers(5)
        self.near(qn.grad(lambda x: (cube(x) * 2).sum())(v), 6 * v * v)
        v.requires_grad = True
        cube(v).sum().backward()
        self.near(v.grad, 3 * (v * v).detach())
        with self.assertRaisesRegex(RuntimeError, "no gradient was given"):
            qn.grad(lambda x: scaled(x).sum())(numbers(3))

    def test_jit_maps_and_loops(self):
        x = numbers(3, 4, 5)
        self.near(qn.vmap(softmax)(x), qn.softmax(x, -1))
        f = qn.jit(lambda x: softmax(x * 2) + 1)
        for n in (4, 5, 4):
            self.near(f(numbers(n, 6)), qn.softmax(numbers(n, 6) * 2, -1) + 1)
        last = qn.fori_loop(0, 3, lambda i, h: cube(h) * 0.5, numbers(4))
        want = numbers(4)
        for _ in range(3):
            want = want ** 3 * 0.5
        self.near(last, want)

    def test_what_is_used_from_outside_is_what_it_is_now(self):
        global SCALE
        x = numbers(3)
        f = qn.jit(scaled)
        self.near(scaled(x), x * 2)
        self.near(f(x), x * 2)
        SCALE = 3.0
        try:
            self.near(scaled(x), x * 3)
            self.near(f(x), x * 3)
        finally:
            SCALE = 2.0

        def made(k):
            @kernel
            def inside(x):
                y = kernel.empty_like(x)
                for i in range(x.shape[0]):
                    y[i] = x[i] * k
                return y

            def set_(v):
                nonlocal k
                k = v
            return inside, set_
        inside, set_ = made(2)
        self.near(inside(x), x * 2)
        set_(5)
        self.near(inside(x), x * 5)

    def test_devices(self):
        x = numbers(6, 9)
        want = qn.softmax(x, -1).tolist()
        self.near(qn.tensor(softmax(x.to("ref")).tolist()), qn.tensor(want))

    def test_naive_runs_the_plain_function(self):
        code = ("import quern as qn\n"
                "from tests.test_kernels import softmax, numbers\n"
                "x = numbers(3, 4)\n"
                "y = softmax(x)\n"
                "assert not softmax.forms and abs(y - qn.softmax(x, -1)).max() < 1e-6\n")
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        subprocess.run([sys.executable, "-c", code], check=True, cwd=here,
                       env={**os.environ, "QN_NAIVE": "1", "PYTHONPATH": here})

    def test_without_a_compiler_python_runs_them(self):
        code = ("import warnings\n"
                "import quern as qn\n"
                "from tests.test_kernels import scaled\n"
                "with warnings.catch_warnings(record=True) as told:\n"
                "    warnings.simplefilter('always')\n"
                "    assert scaled(qn.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]\n"
                "assert 'quern[llvm]' in str(told[-1].message), told\n")
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        subprocess.run([sys.executable, "-c", code], check=True, cwd=here, capture_output=True,
                       env={**os.environ, "QN_LLVM": "/none", "QN_CC": "/none", "QN_CACHE": "off", "PYTHONPATH": here})

    def test_children_of_fork(self):
        x = numbers(3)
        self.near(scaled(x), x * 2)
        pid = os.fork()
        if not pid:
            try:
                ok = scaled(qn.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
            except BaseException:
                ok = False
            os._exit(0 if ok else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    # ---- errors -------------------------------------------------------------------------------

    def refused(self, f, why, *args):
        with self.assertRaisesRegex(kernel.Error, why):
            kernel(f)(*(args or (numbers(4),)))

    def test_what_no_kernel_has_is_named(self):
        def no_while(x):
            while x[0] > 0:
                pass
            return x

        def no_slices(x):
            y = kernel.empty_like(x)
            y[:] = x[:]
            return y

        def no_early_return(x):
            for i in range(x.shape[0]):
                return x[i]

        def no_argument_back(x):
            return x

        def no_writing(x):
            x[0] = 1.0
            return kernel.empty(3)

        def no_list(x):
            y = [1, 2]
            return y

        def no_call(x):
            return numbers(3)

        def no_break(x):
            for i in range(x.shape[0]):
                break
            return x[0]

        def no_value(x):
            for i in range(x.shape[0]):
                t = x[i]
            return t

        def no_name(x):
            return nothing + x[0]  # noqa: F821

        def no_data_range(x):
            total = 0.0
            for i in range(int(x[0])):
                total += 1
            return total

        def no_axes(x):
            return x[0, 0]

        def four(a, b, c, d):
            return a[0] + b[0] + c[0] + d[0]

        for f, why in ((no_while, "no while"), (no_slices, "no slices"), (no_early_return, "does not return from"),
                       (no_argument_back, "arrays that it makes"), (no_writing, "only read"), (no_list, "no list"),
                       (no_call, "cannot call numbers"), (no_break, "no break"), (no_value, "t has no value here"),
                       (no_name, "nothing is not known"), (no_data_range, "bounds"), (no_axes, "1 axes")):
            self.refused(f, why)
        with self.assertRaisesRegex(TypeError, "at most"):
            kernel(four)(*[numbers(2)] * 4)
        with self.assertRaisesRegex(TypeError, "takes a tensor"):
            scaled(3)
        with self.assertRaisesRegex(TypeError, "missing"):
            scaled()

    def test_an_index_past_its_axis_reads_nothing(self):
        @kernel
        def pick(x, at):
            y = kernel.empty(at.shape, x.dtype)
            for i in range(at.shape[0]):
                y[i] = x[at[i]]
            return y
        self.assertEqual(pick(qn.tensor([1.0, 2.0]), qn.tensor([0, 7, 1, -1])).tolist(), [1, 0, 2, 0])


if __name__ == "__main__":
    unittest.main()
