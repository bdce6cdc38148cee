"""quern.jit beside the plain function: captured state, shapes that change, side effects, exceptions."""

import collections
import contextvars
import copy
import dataclasses
import functools
import gc
import os
import pickle
import subprocess
import sys
import types
import unittest
import warnings
import weakref
from pathlib import Path

import quern as qn

SCALE = 2.0
WEIGHT = qn.tensor([1.0, 2.0])
TABLE = {"a": [1.0, 2.0]}


class Same(unittest.TestCase):
    """A jitted function gives what the plain one does."""

    def same(self, f, *calls):
        j = qn.jit(f)
        for args in qn.tree.map(lambda x: qn.tensor(x.tolist(), x.dtype) if isinstance(x, qn.Tensor) else x, calls):
            found, wanted = qn.tree.leaves(j(*args)), qn.tree.leaves(f(*args))
            for a, b in zip(found, wanted, strict=True):
                if isinstance(b, qn.Tensor):
                    self.assertEqual((a.tolist(), a.dtype, a.shape), (b.tolist(), b.dtype, b.shape))
                else:
                    self.assertEqual(a, b)
        return j

    def test_arithmetic_of_several_shapes_and_dtypes(self):
        j = self.same(lambda x, y: qn.tanh(x @ y + 1), (qn.ones((2, 2)), qn.ones((2, 2))),
                      (qn.full((2, 2), 3.0), qn.ones((2, 2))), (qn.ones((3, 2)), qn.ones((2, 2))),
                      (qn.ones((2, 2), "float64"), qn.ones((2, 2), "float64")))
        self.assertEqual(j.traces, 3)

    def test_trees_and_what_is_no_tensor(self):
        @dataclasses.dataclass
        class Pair:
            a: object
            b: object

        def f(p, k, *, name="x"):
            return {"sum": p.a + p.b[0] * k, "k": k, "name": name, "none": None, "list": [p.a]}

        self.same(f, (Pair(qn.ones(2), [qn.ones(2)]), 3), (Pair(qn.ones(2), [qn.ones(2)]), 4))
        with self.assertRaisesRegex(TypeError, "hashable"):
            qn.jit(lambda x, s: x)(qn.ones(1), {1, 2})

    def test_inputs_and_captured_tensors_as_results(self):
        self.same(lambda x: (x, WEIGHT, x + 1, 5), (qn.ones(2),), (qn.zeros(2),))

    def test_loops_of_python_are_unrolled_and_scans_run(self):
        def f(x):
            for k in range(4):
                x = x * 2 + k
            return x
        self.same(f, (qn.ones(3),), (qn.zeros(3),))

    def test_nested_functions_are_one_graph(self):
        inner = qn.jit(lambda x: x * 2)
        j = self.same(lambda x: inner(x) + inner(x + 1), (qn.ones(2),), (qn.zeros(2),))
        self.assertEqual(j.traces, 1)

    def test_gradients_inside_and_outside(self):
        def loss(w, x):
            return (qn.tanh(x @ w) ** 2).sum()

        w, x = qn.randn(qn.key(1), (3, 2)), qn.randn(qn.key(2), (4, 3))
        plain = qn.grad(loss)(w, x).tolist()
        self.assertEqual(qn.jit(qn.grad(loss))(w, x).tolist(), plain)
        self.assertEqual(qn.grad(qn.jit(loss))(w, x).tolist(), plain)

    def test_data_made_inside(self):
        bytes_ = memoryview(bytes([0, 0, 128, 63, 0, 0, 0, 64])).cast("f")
        for f in (lambda x: x * qn.tensor(2.0), lambda x: x * qn.tensor([3.0, 4.0]) + qn.tensor([1, 2], "float64"),
                  lambda x: x * bytes_, lambda x: x[[1, 0]], lambda x: x[qn.tensor([1, 1])],
                  lambda x: qn.imag(x * qn.tensor([1 + 2j, 3j])), lambda x: x + qn.tensor([x[0], 5.0]),
                  lambda x: qn.tensor(x, "float64") + qn.tensor([True, False]), lambda x: [qn.tensor([7.0, 8.0]), x],
                  lambda x: qn.tensor([list(range(100))], "float32").sum() * x):
            self.same(f, (qn.tensor([1.0, 2.0]),), (qn.tensor([5.0, 6.0]),))

        def changed(x):
            c = qn.tensor([1.0, 2.0])
            c += x
            c[0] = 5
            return c * x
        self.same(changed, (qn.tensor([1.0, 2.0]),), (qn.tensor([5.0, 6.0]),))

    def test_random_numbers_by_key(self):
        self.same(lambda k: qn.uniform(k, (4,)), (qn.key(1),), (qn.key(2),))

    def test_methods_partials_and_callables(self):
        class Model:
            def __init__(self):
                self.w, self.scale = qn.tensor([2.0]), 3

            @qn.jit
            def forward(self, x):
                return x * self.w * self.scale

            def __call__(self, x):
                return x + self.w

        m, other = Model(), Model()
        other.w = qn.tensor([5.0])
        self.assertEqual((m.forward(qn.ones(1)).item(), other.forward(qn.ones(1)).item()), (6, 15))
        m.scale = 4
        self.assertEqual(m.forward(qn.ones(1)).item(), 8)
        m.w = qn.tensor([1.0])
        self.assertEqual(m.forward(qn.ones(1)).item(), 4)
        j = qn.jit(m)
        self.assertEqual(j(qn.ones(1)).item(), 2)
        m.w += 10
        self.assertEqual(j(qn.ones(1)).item(), 12)
        p = qn.jit(functools.partial(lambda a, x: a * x, 3))
        self.assertEqual(p(qn.ones(1)).item(), 3)


class State(unittest.TestCase):
    """What changes outside is seen at the next call."""

    def test_a_captured_tensor_has_its_value_of_now(self):
        w = qn.tensor([1.0, 2.0])
        f = qn.jit(lambda x: x * w)
        x = qn.ones(2)
        self.assertEqual(f(x).tolist(), [1, 2])
        w += 1
        self.assertEqual(f(x).tolist(), [2, 3])
        w.assign(qn.tensor([7.0, 7.0]))
        self.assertEqual(f(x).tolist(), [7, 7])
        w[0] = 0
        self.assertEqual(f(x).tolist(), [0, 7])
        self.assertEqual(f.traces, 1)

    def test_another_tensor_another_shape(self):
        global WEIGHT
        f = qn.jit(lambda x: x * WEIGHT)
        before = WEIGHT
        try:
            self.assertEqual(f(qn.ones(2)).tolist(), [1, 2])
            WEIGHT = qn.tensor([5.0, 6.0])
            self.assertEqual(f(qn.ones(2)).tolist(), [5, 6])
            WEIGHT = qn.tensor(3.0)
            self.assertEqual(f(qn.ones(2)).tolist(), [3, 3])
        finally:
            WEIGHT = before

    def test_globals_closures_defaults_and_containers(self):
        global SCALE
        k, box = 1, [1.0]

        def helper(x):
            return x * SCALE

        def f(x, more=box):
            return helper(x) + k + more[0] + TABLE["a"][1]

        j, x = qn.jit(f), qn.zeros(1)
        for change in range(6):
            self.assertEqual(j(x + 1).item(), f(x + 1).item(), f"change {change}")
            if change == 0:
                SCALE = 5.0
            elif change == 1:
                k = 10
            elif change == 2:
                box[0] = 100.0
            elif change == 3:
                TABLE["a"][1] = 1000.0
            elif change == 4:
                def helper(x):
                    return x - 1
        SCALE, TABLE["a"][1] = 2.0, 2.0

    def test_attributes_of_instances_classes_and_modules(self):
        class Config:
            rate = 2

        class Model:
            def __init__(self):
                self.layers = [Config(), Config()]

            def run(self, x):
                for layer in self.layers:
                    x = x * layer.rate
                return x

        m = Model()
        f = qn.jit(lambda x: m.run(x) + Config.rate)
        self.assertEqual(f(qn.ones(1)).item(), 6)
        m.layers[0].rate = 3
        self.assertEqual(f(qn.ones(1)).item(), 8)
        m.layers.pop()
        self.assertEqual(f(qn.ones(1)).item(), 5)
        Config.rate = 10
        self.assertEqual(f(qn.ones(1)).item(), 13)
        module = type(sys)("settings")
        module.factor = 2
        g = qn.jit(lambda x: x * module.factor)
        self.assertEqual(g(qn.ones(1)).item(), 2)
        module.factor = 3
        self.assertEqual(g(qn.ones(1)).item(), 3)

    def test_what_a_function_does_to_tensors_is_done_each_time(self):
        count = qn.zeros(())

        def f(x):
            nonlocal count
            count += 1
            x[0] = 9
            return x * count

        j = qn.jit(f)
        for k in range(1, 4):
            x = qn.ones(2)
            self.assertEqual(j(x).tolist(), [9 * k, k])
            self.assertEqual((x.tolist(), count.item()), ([9, 1], k))

    def test_arguments_that_are_one_tensor(self):
        def g(a, b):
            a += 1
            b *= 3
            return a * 1

        j = qn.jit(g)
        for f in (j, g, j):
            a, b, c = qn.tensor([1.0] * 7), qn.tensor([1.0] * 7), qn.tensor([1.0] * 7)
            self.assertEqual((f(a, a).tolist(), a.tolist()), ([6] * 7, [6] * 7))
            self.assertEqual((f(b, c).tolist(), b.tolist(), c.tolist()), ([2] * 7, [2] * 7, [3] * 7))
        self.assertEqual(j.traces, 2)
        x = qn.tensor([1.0] * 100)
        self.assertEqual(qn.jit(lambda s, y: s + y, donate=0)(x, x)[0].item(), 2)

    def test_an_argument_that_is_captured_too(self):
        w = None

        def f(a):
            nonlocal w
            a += 1
            w *= 2
            return w * 1

        for order in ((True, False, True, False), (False, True, True)):
            found = []
            for run in (qn.jit(f), f):
                w = qn.tensor([1.0] * 7)
                for same in order:
                    a = w if same else qn.tensor([1.0] * 7)
                    found.append((run(a).tolist(), a.tolist(), w.tolist()))
            self.assertEqual(found[:len(order)], found[len(order):])

    def test_gradients_of_an_argument_that_is_captured_too(self):
        w, v = qn.tensor([2.0], requires_grad=True), qn.tensor([3.0], requires_grad=True)
        f = qn.jit(lambda x: (x * w).sum().backward())
        for x, wanted in ((w, ([4], None)), (v, ([3], [2])), (w, ([4], None))):
            w.grad = v.grad = None
            f(x)
            self.assertEqual((w.grad.tolist(), v.grad and v.grad.tolist()), wanted)

    def test_a_step_of_training_by_backward(self):
        x = qn.randn(qn.key(1), (32, 3))
        y = x @ qn.tensor([1.0, -2.0, 0.5])

        def train(wrap):
            w = qn.tensor([0.0, 0.0, 0.0], requires_grad=True)

            def step(x, y):
                loss = ((x @ w - y) ** 2).mean()
                loss.backward()
                with qn.no_grad():
                    w.assign(w - 0.1 * w.grad)
                w.zero_grad()
                return loss
            step = wrap(step)
            losses = [step(x, y).item() for _ in range(20)]
            self.assertIsNone(w.grad)
            self.assertTrue(w.requires_grad)
            return losses

        plain, jitted = train(lambda f: f), train(qn.jit)
        self.assertLess(plain[-1], plain[0] * 0.1)
        for a, b in zip(plain, jitted, strict=True):
            self.assertAlmostEqual(a, b, 5)

    def test_gradients_of_captured_parameters_are_left_behind(self):
        w = qn.tensor([2.0], requires_grad=True)
        f = qn.jit(lambda x: (x * w * w).sum().backward())
        self.assertIsNone(f(qn.tensor([3.0])))
        self.assertEqual(w.grad.tolist(), [12])

    def test_side_effects_are_told(self):
        seen = []

        def f(x):
            seen.append(1)
            return x + 1

        with self.assertWarnsRegex(RuntimeWarning, "seen"):
            qn.jit(f)(qn.ones(1))

    def test_numbers_that_change_are_told(self):
        f = qn.jit(lambda x, k: x * k)
        with self.assertWarnsRegex(RuntimeWarning, "as tensors"):
            for k in range(10):
                self.assertEqual(f(qn.ones(1), k).item(), k)

    def test_donated_arguments_are_used_up(self):
        f = qn.jit(lambda s, x: s + x, donate=0)
        s, x = qn.ones(1000).clone().realize(), qn.ones(1000)
        s = qn.tensor([1.0] * 1000)
        t = f(s, x)
        self.assertEqual(t[0].item(), 2)
        with self.assertRaisesRegex(RuntimeError, "donated"):
            s.tolist()


FACTOR = 2.0
max = 2.0


class Base:
    rate = 2.0

    def __call__(self, x):
        return x * FACTOR

    def outer(self, x):
        return self.inner(x)

    def inner(self, x):
        return x * FACTOR

    def rated(self, x):
        return x * self.rate

    @property
    def factor(self):
        return FACTOR

    @staticmethod
    def still(x):
        return x * FACTOR

    @classmethod
    def of_class(cls, x):
        return x * cls.rate

    def __mul__(self, x):
        return x * FACTOR

    def __getattr__(self, name):
        if name == "absent":
            return FACTOR
        raise AttributeError(name)


class Heir(Base):
    pass


class Slots:
    __slots__ = "k"


class Watched(unittest.TestCase):
    """What a function reaches in some steps is looked at, too."""

    def seen(self, f, change):
        """A change is seen at the next call, and without one nothing is traced again."""
        j, x = qn.jit(f), qn.tensor([1.0, 2.0, 3.0])
        first = j(x).tolist()
        self.assertEqual(j(x).tolist(), first)
        self.assertEqual(j.traces, 1)
        change()
        wanted = f(x).tolist()
        self.assertNotEqual(wanted, first)
        self.assertEqual(j(x).tolist(), wanted)

    def factor(self, value):
        def change():
            global FACTOR
            FACTOR = value
        return change

    def test_methods_and_what_they_use(self):
        m, heir, box = Base(), Heir(), [Heir()]
        for f in (lambda x: m.outer(x), lambda x: x * m.factor, lambda x: m.still(x), lambda x: m * x, m, heir, m.outer,
                  lambda x: heir(x), lambda x: x * m.absent, lambda x: box[0].outer(x), lambda x: Heir().outer(x)):
            self.factor(2.0)()
            self.seen(f, self.factor(3.0))

    def test_data_of_classes(self):
        m = Heir()
        for k, f in enumerate((lambda x: m.rated(x), lambda x: m.of_class(x), lambda x: x * Heir.rate)):
            self.seen(f, lambda: setattr(Base, "rate", 3.0 + k))

    def test_functions_of_modules(self):
        module = type(sys)("helpers")
        exec("K = 2.0\ndef scale(x): return x * K\nclass C:\n    max = 2.0", module.__dict__)
        module.sub = type(sys)("helpers.sub")
        module.sub.K = 2.0
        self.seen(lambda x: module.scale(x), lambda: setattr(module, "K", 3.0))
        self.seen(lambda x: module.scale(x), lambda: setattr(module, "scale", lambda x: x * 7))
        self.seen(lambda x: x * module.sub.K, lambda: setattr(module.sub, "K", 3.0))
        self.seen(lambda x: x * module.C.max, lambda: setattr(module.C, "max", 3.0))

    def test_names_of_builtins(self):
        def change():
            global max
            max = 3.0
        self.seen(lambda x: x * max, change)

    def test_equal_values_that_are_not_the_same(self):
        zero, ones, keys = [0.0], {1}, {1: 0}
        self.seen(lambda x: 1 / (x * zero[0]), lambda: zero.__setitem__(0, -0.0))
        self.seen(lambda x: x * (2 if True in [v is True for v in ones] else 3), lambda: (ones.clear(), ones.add(True)))
        self.seen(lambda x: x * (2 if True in [v is True for v in keys] else 3),
                  lambda: (keys.clear(), keys.update({True: 0})))
        f = qn.jit(lambda x, z: 1 / (x * z))
        self.assertEqual((f(qn.ones(1), 0.0).item(), f(qn.ones(1), -0.0).item()), (float("inf"), -float("inf")))

    def test_slots_and_containers(self):
        s, queue, d = Slots(), collections.deque([2.0]), {"k": 2.0}
        s.k = 2.0
        mapping, sub = types.MappingProxyType(d), type("Sub", (dict,), {})()
        sub.k, members = 2.0, {Base()}

        def g(x):
            return x * g.k
        g.k = 2.0
        self.seen(lambda x: x * s.k, lambda: setattr(s, "k", 3.0))
        self.seen(lambda x: x * queue[0], lambda: queue.__setitem__(0, 3.0))
        self.seen(lambda x: x * mapping["k"], lambda: d.__setitem__("k", 3.0))
        self.seen(lambda x: x * sub.k, lambda: setattr(sub, "k", 3.0))
        self.seen(lambda x: g(x), lambda: setattr(g, "k", 3.0))
        self.seen(lambda x: x * [m.rate for m in members][0], lambda: [setattr(m, "rate", 9.0) for m in members])


class Pluck(float):
    """A number with an attribute."""


class Meta(type):
    factor = 2.0


class OfMeta(metaclass=Meta):
    pass


class Target:
    k = 1.0


class Model:
    def __init__(self):
        self.w = qn.tensor([1.0])

    @qn.jit
    def run(self, x):
        return x * self.w

    @qn.jit
    def twice(self, x):
        return self.run(x) * 2


def plain_and_jitted(make):
    """What make(wrap) tells of a function as it is, and of it jitted."""
    return make(lambda f: f), make(qn.jit)


class Unnoticed(unittest.TestCase):
    """What a call like one before has to notice."""

    def same(self, make):
        plain, jitted = plain_and_jitted(make)
        self.assertEqual(plain, jitted)

    def test_calls_without_history(self):
        def make(wrap):
            w = qn.tensor([3.0, 4.0])
            f, told = wrap(lambda x: x * w), []
            count = qn.zeros(2).realize()
            def add(x):
                nonlocal count
                count += x
                return count * 2
            g = wrap(add)
            for _ in range(3):
                with qn.no_grad():
                    told += [f(qn.tensor([1.0, 2.0])).tolist(), g(qn.tensor([1.0, 2.0])).tolist(), count.tolist()]
            return told
        self.same(make)

    def test_a_graph_without_history_is_not_one_with(self):
        def make(wrap):
            w, x, told = qn.tensor([3.0, 4.0]), qn.tensor([1.0, 2.0]), []
            w.requires_grad = True
            f = wrap(lambda x: (x * w).sum())
            for free in (True, True, False, False, True, False):
                if free:
                    with qn.no_grad():
                        told.append(f(x).item())
                else:
                    f(x).backward()
                    told.append(w.grad.tolist())
            return told
        self.same(make)

    def test_frozen_and_thawed_parameters(self):
        for begins in (True, False):
            def make(wrap, begins=begins):
                v, w, told = qn.tensor([1.0, 2.0]), qn.tensor([2.0, 3.0]), []
                v.requires_grad, w.requires_grad = True, begins
                def step(x):
                    y = (x * w * v).sum()
                    y.backward()
                    return y
                f = wrap(step)
                for on in (begins, begins, not begins, not begins, begins):
                    w.requires_grad = on
                    f(qn.tensor([5.0, 6.0]))
                    told.append([None if t.grad is None else t.grad.tolist() for t in (v, w)])
                return told
            self.same(make)

    def test_a_parameter_that_is_changed_and_frozen(self):
        def make(wrap):
            w = qn.tensor([1.0, 2.0], requires_grad=True)

            def freeze(x):
                w.requires_grad = False
                w.assign(w * 2)
                return x * w
            told = [wrap(freeze)(qn.tensor([3.0, 4.0])).tolist(), w.tolist(), w.requires_grad]
            for on in (False, True):
                w.requires_grad = on
                v = qn.tensor([5.0, 6.0], requires_grad=True)
                (v * w).sum().backward()
                told.append([None if t.grad is None else t.grad.tolist() for t in (v, w)])
            return told
        self.same(make)

    def test_the_order_of_a_dict(self):
        def make(wrap):
            known = collections.OrderedDict(a=1.0, b=9.0)
            f, x, told = wrap(lambda x: x * next(iter(known.values()))), qn.tensor([1.0]), []
            for k in range(6):
                if k % 3 == 2:
                    known.move_to_end(next(iter(known)))
                told.append(f(x).tolist())
            return told
        self.same(make)

    def test_names_as_texts(self):
        def make(wrap):
            config, x, told = types.ModuleType("config"), qn.tensor([1.0]), []
            config.alpha, config.beta = 1.0, types.SimpleNamespace(gamma=2.0)
            class Settings:
                rate = 1.0
            f = wrap(lambda x: x * getattr(config, "alpha") * getattr(Settings, "rate"))  # noqa: B009
            names = wrap(lambda x: sum([getattr(config, n) * x for n in ("alpha", "delta") if hasattr(config, n)], x))
            for k in range(6):
                config.alpha, Settings.rate = 1.0 + k // 2, 1.0 + k // 3
                if k == 4:
                    config.delta = 5.0
                told += [f(x).tolist(), names(x).tolist()]
            return told
        self.same(make)

    def test_attributes_of_numbers_and_of_metaclasses(self):
        def make(wrap):
            number, x, told = Pluck(2.0), qn.tensor([1.0]), []
            number.k = 1.0
            f, g = wrap(lambda x: x * number * number.k), wrap(lambda x, n: x * n * n.k)
            h = wrap(lambda x: x * OfMeta.factor)
            for k in range(6):
                number.k = Meta.factor = 1.0 + k // 3
                told += [f(x).tolist(), g(x, number).tolist(), h(x).tolist()]
            return told
        self.same(make)

    def test_an_equal_number_with_attributes_is_not_traced_again(self):
        holder = types.SimpleNamespace(n=Pluck(2.0))
        f = qn.jit(lambda x: x * holder.n)
        for _ in range(4):
            holder.n = Pluck(2.0)
            self.assertEqual(f(qn.tensor([3.0])).tolist(), [6.0])
        self.assertEqual(f.traces, 1)

    def test_globals_called_as_attributes_and_texts_are(self):
        names = {"qn": qn}
        exec("config = type('config', (), {'loss': 2.0})\n"
             "def f(x): return {'error': x * config.loss}\n"
             "def g(x): return [x * config.loss + rate for rate in (bias,)]", names)
        f, g = qn.jit(names["f"]), qn.jit(names["g"])
        for k in range(4):
            names["bias"] = 1.0 + k // 2
            names["loss"] = names["error"] = f(qn.tensor([1.0]))["error"]
            self.assertEqual(g(qn.tensor([1.0]))[0].tolist(), [3.0 + k // 2])
        self.assertEqual((f.traces, g.traces), (1, 2))

    def test_names_that_globals_are_asked_for(self):
        names = {"qn": qn, "rate": 1.0}
        exec("def f(x): return x * globals()['rate']", names)
        f = qn.jit(names["f"])
        for k in (1.0, 2.0, 2.0):
            names["rate"] = k
            self.assertEqual(f(qn.tensor([3.0])).tolist(), [3.0 * k])
        self.assertEqual(f.traces, 2)

    def test_slices_as_arguments(self):
        f = qn.jit(lambda x, s: x[s])
        for stop in (1, 2, 1, 2):
            self.assertEqual(f(qn.tensor([1.0, 2.0, 3.0]), slice(0, stop)).tolist(), [1.0, 2.0][:stop])
        self.assertEqual(f.traces, 2)

    def test_what_is_behind_variables_and_references(self):
        def make(wrap):
            x, told, var = qn.tensor([1.0]), [], contextvars.ContextVar("var")
            var.set(1.0)
            target = Target()
            ref = weakref.ref(target)
            f = wrap(lambda x: x * var.get() * ref().k)
            for k in range(6):
                var.set(1.0 + k // 2)
                target.k = 1.0 + k // 3
                told.append(f(x).tolist())
            return told
        self.same(make)

    def test_lists_in_arrays_of_objects(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy")
        def make(wrap):
            array, x, told = numpy.array([None, 2.0], dtype=object), qn.tensor([1.0]), []
            array[0] = [1.0]
            f = wrap(lambda x: x * array[0][0] * array[1])
            for k in range(4):
                array[0][0] = 1.0 + k // 2
                told.append(f(x).tolist())
            return told
        self.same(make)

    def test_a_method_goes_with_its_instance(self):
        m = Model()
        for _ in range(3):
            self.assertEqual(m.run(qn.tensor([2.0])).tolist(), [2.0])
            self.assertEqual(m.twice(qn.tensor([2.0])).tolist(), [4.0])
        self.assertEqual((m.run.traces, m.twice.traces), (1, 1))
        other = copy.deepcopy(m)
        other.w = qn.tensor([5.0])
        again = pickle.loads(pickle.dumps(m.__dict__))
        self.assertEqual(other.run(qn.tensor([2.0])).tolist(), [10.0])
        self.assertEqual(copy.copy(other).run(qn.tensor([1.0])).tolist(), [5.0])
        self.assertEqual(again["w"].tolist(), [1.0])
        gone = weakref.ref(m)
        del m
        gc.collect()
        self.assertIsNone(gone())

    def test_methods_of_what_has_no_dict(self):
        class Bare:
            __slots__ = ("w",)

            def __init__(self, w):
                self.w = qn.tensor([w])

            @qn.jit
            def run(self, x):
                return x * self.w
        kept = [Bare(float(k)) for k in range(3)]
        for _ in range(3):
            self.assertEqual([b.run(qn.tensor([2.0])).item() for b in kept], [0.0, 2.0, 4.0])
        self.assertEqual([b.run.traces for b in kept], [1, 1, 1])


class Outside(unittest.TestCase):
    def test_what_was_assigned_before_is_made_once(self):
        f = qn.jit(lambda x: x * 2)
        w = qn.tensor([1.0, 2.0])
        w.requires_grad = True
        with qn.no_grad():
            w -= 0.5 * w
        kept = w * 1
        for k in range(4):
            self.assertEqual(f(qn.full((3 + k % 2,), 1.0)).tolist(), [2.0] * (3 + k % 2))
        self.assertEqual((w.tolist(), kept.tolist()), ([0.5, 1.0], [0.5, 1.0]))

    def test_assignments_between_a_trace_and_its_plan(self):
        w = qn.tensor([1.0, 2.0], requires_grad=True)
        f = qn.jit(lambda x: (x * w).sum())
        loss = f(qn.tensor([3.0, 4.0]))  # recorded for its gradient, without a plan
        loss.backward()
        with qn.no_grad():
            w -= 0.5 * w.grad
        values = []
        with qn.no_grad():
            values = [f(qn.tensor([1.0, 1.0])).item() for _ in range(3)]
        self.assertEqual((values, w.tolist()), ([-0.5] * 3, [-0.5, 0.0]))


class Refused(unittest.TestCase):
    """What cannot be right is an error that says why."""

    def test_values_are_not_known(self):
        for f in (lambda x: 1 if x.sum() > 0 else 2, lambda x: x.item(), lambda x: x.tolist(), lambda x: float(x[0]),
                  lambda x: x[x > 0], lambda x: range(int(x[0])), lambda x: memoryview(x), lambda x: WEIGHT.tolist(),
                  lambda x: qn.head(x, 0, x.sum().astype("int64")), lambda x: [v for v in x if v]):
            with self.assertRaisesRegex(RuntimeError, "traced"):
                qn.jit(f)(qn.ones(2))
        self.assertEqual((qn.ones(2) + WEIGHT).tolist(), [2, 3])

    def test_values_do_not_escape(self):
        kept = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            qn.jit(lambda x: kept.append(x + 1))(qn.ones(2))
        for use in (lambda: kept[0] + 1, lambda: kept[0].tolist(), lambda: kept[0].shape):
            with self.assertRaisesRegex(RuntimeError, "has no value outside"):
                use()

    def test_an_exception_inside_leaves_all_as_it_was(self):
        w = qn.tensor([1.0])

        def f(x):
            nonlocal w
            w += 5
            raise KeyError("mine")

        j = qn.jit(f)
        for _ in range(2):
            with self.assertRaises(KeyError):
                j(qn.ones(1))
            self.assertEqual(w.tolist(), [1])
        with self.assertRaisesRegex(ValueError, "broadcast"):
            qn.jit(lambda x: x + qn.ones(3))(qn.ones(2))
        self.assertEqual(qn.jit(lambda x: x + w)(qn.ones(1)).item(), 2)

    def test_who_names_the_value_of_a_state_keeps_it(self):
        """What a call replaces is written over where nobody else can ask for it."""
        held = {"detached": lambda w: w.detach(), "expression": lambda w: w + 0, "copy": copy.copy,
                "view": lambda w: w[1:], "memory": memoryview, "none": lambda w: None, "list": lambda w: [w.detach()]}
        for name, hold in held.items():
            w = qn.tensor([1.0] * 64)
            f = qn.jit(lambda x: w.assign(w * 2 + x))
            f(qn.zeros(64))
            for k in range(1, 4):
                with self.subTest(name, k=k):
                    other = hold(w)
                    f(qn.zeros(64))
                    self.assertEqual(w.tolist(), [2.0 ** (k + 1)] * 64)
                    other = other[0] if name == "list" else other
                    if other is not None:
                        self.assertEqual(set(other.tolist()), {2.0 ** k})
                    del other

    def test_a_cleared_gradient_makes_room_for_the_next(self):
        """Before the run; one that is held stays, and one that is added to is an input."""
        code = "import quern as qn\nw = qn.ones((1 << 20,)); w.requires_grad = True\n" \
            "@qn.jit\ndef f(x):\n    w.grad = None\n    (w * x).sum().backward()\n" \
            "@qn.jit\ndef g(x):\n    (w * x).sum().backward()\n" \
            "x = qn.ones((1 << 20,)); f(x); held = w.grad; f(x); f(x)\n" \
            "print(qn.stats()['peak_bytes'] >> 20, held.sum().item() / (1 << 20))\n" \
            "g(x); g(x); print(w.grad.sum().item() / (1 << 20))"
        path = str(Path(__file__).resolve().parent.parent)
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path},
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), ["16", "1.0", "3.0"], done.stderr)

    def test_printing_is_no_reading(self):
        texts = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            qn.jit(lambda x: texts.append(repr(x)))(qn.ones(2))
        self.assertIn("traced", texts[0])

    def test_the_plain_function_runs_where_asked_for(self):
        code = "import quern as qn; n = []\nf = qn.jit(lambda x: n.append(1) or x.item())\n" \
            "f(qn.ones(())); f(qn.ones(()))\nassert len(n) == 2 and f.traces == 0"
        path = str(Path(__file__).resolve().parent.parent)
        done = subprocess.run([sys.executable, "-c", code], env={"QN_NAIVE": "1", "PYTHONPATH": path, "PATH": ""})
        self.assertEqual(done.returncode, 0)

    def test_the_first_key_of_dropout_is_no_change(self):
        """It is made before a trace, also of a function that could draw and does not."""
        code = "import quern as qn\nfrom quern.nn.random import generator\n" \
            "f = qn.jit(lambda x, noisy: x * qn.randn(generator.draw(), (2,)) if noisy else x + 1)\n" \
            "f(qn.ones(2), False); f(qn.ones(2), False)\nassert f.traces == 1"
        path = str(Path(__file__).resolve().parent.parent)
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], env={**os.environ, "PYTHONPATH": path},
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
