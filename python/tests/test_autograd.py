"""Derivatives of functions of Python, beside central differences and values worked out by hand."""

import collections
import dataclasses
import math
import unittest

import quern as qn
from quern import _core


def difference(f, x, h=1e-5):
    """The gradient of f at a list of floats, by central differences."""
    out = []
    for i in range(len(x)):
        ends = []
        for s in (h, -h):
            y = list(x)
            y[i] += s
            ends.append(f(qn.tensor(y, "float64")).item())
        out.append((ends[0] - ends[1]) / (2 * h))
    return out


class Functional(unittest.TestCase):
    def near(self, found, wanted, places=6):
        for a, b in zip(found, wanted, strict=True):
            self.assertAlmostEqual(a, b, places)

    def test_grad_is_that_of_differences(self):
        x = [0.5, 1.5, -0.7]
        for f in (lambda v: (v * v).sum(), lambda v: qn.exp(v).prod(), lambda v: (v[0] * v[1:]).sum() ** 3,
                  lambda v: qn.logsumexp(v), lambda v: v.softmax()[1],
                  lambda v: (v.reshape(3, 1) @ v[None]).sin().sum()):
            self.near(qn.grad(f)(qn.tensor(x, "float64")).tolist(), difference(f, x))

    def test_no_grad_around_a_derivative_is_not_for_its_function(self):
        def cube(v):
            return (v * v * v).sum()

        x, w = qn.tensor([1.0, -2.0], "float64"), qn.tensor([3.0], "float64").requires_grad_()
        ways = {"grad": lambda: qn.grad(cube)(x), "jit": lambda: qn.jit(qn.grad(cube))(x),
                "vjp": lambda: qn.vjp(lambda v: v * v * v, x)[1](qn.ones(2, dtype="float64"))[0],
                "jvp": lambda: qn.jvp(lambda v: v * v * v, (x,), (qn.ones(2, dtype="float64"),))[1],
                "jacobian": lambda: qn.jacobian(lambda v: v * v * v)(x).sum(0)}
        for name, way in ways.items():
            with self.subTest(name), qn.no_grad():
                self.assertEqual(way().tolist(), [3.0, 12.0])
        with qn.no_grad():
            self.assertEqual(qn.hessian(cube)(x).tolist(), [[6.0, 0.0], [0.0, -12.0]])
            self.assertEqual(qn.hvp(cube, (x,), (x,))[0].tolist(), [6.0, 24.0])
            value, slope = qn.value_and_grad(lambda v: (v * w).sum())(x)
            self.assertTrue(_core.is_no_grad())
            with self.assertRaises(ZeroDivisionError):
                qn.grad(lambda v: v.sum() * (1 // 0))(x)
            self.assertTrue(_core.is_no_grad())
        for y in (value, slope.sum()):  # as everything recorded under no_grad
            with self.assertRaises(RuntimeError):
                y.backward()

        def partly(v):
            with qn.no_grad():
                known = v * v
            return (known * v).sum()
        self.assertEqual(qn.grad(partly)(x).tolist(), [1.0, 4.0])

    def test_gradients_are_trees_like_their_arguments(self):
        Pair = collections.namedtuple("Pair", "a b")

        @dataclasses.dataclass
        class Layer:
            w: qn.Tensor
            more: tuple

        def f(p, q, r):
            return (p["w"] * p["b"][0]).sum() + q.a * q.b + r.w * r.more[0]

        p = {"w": qn.tensor([1.0, 2.0]), "b": [qn.tensor(3.0), None]}
        q, r = Pair(qn.tensor(2.0), qn.tensor(5.0)), Layer(qn.tensor(7.0), (qn.tensor(11.0),))
        dp, dq, dr = qn.grad(f, argnums=(0, 1, 2))(p, q, r)
        self.assertEqual((dp["w"].tolist(), dp["b"][0].item(), dp["b"][1]), ([3, 3], 3, None))
        self.assertEqual((type(dq), dq.a.item(), dq.b.item()), (Pair, 5, 2))
        self.assertEqual((type(dr), dr.w.item(), dr.more[0].item()), (Layer, 11, 7))

    def test_derivatives_nest(self):
        f = qn.sin
        for k, value in enumerate((math.sin, math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x))):
            self.assertAlmostEqual(f(qn.tensor(0.7, "float64")).item(), value(0.7), 12, k)
            f = qn.grad(f)

    def test_what_a_function_knows_by_another_name_is_constant(self):
        x = qn.tensor(3.0)
        self.assertEqual(qn.grad(lambda y: x * y)(x).item(), 3)
        # d/dx (x * d/dy (x * y)) = d/dx x^2, where the inner derivative is taken at y = x
        self.assertEqual(qn.grad(lambda a: a * qn.grad(lambda b: a * b)(a))(x).item(), 6)

    def test_constants_have_gradients_too(self):
        self.assertEqual(qn.grad(lambda x: qn.exp(x).sum())(qn.zeros(2)).tolist(), [1, 1])
        self.assertEqual(qn.grad(lambda x: x * x)(3.0).item(), 6)

    def test_value_aux_and_keywords(self):
        f = qn.value_and_grad(lambda x, scale=1: ((x * scale).sum(), x + 1), has_aux=True)
        (y, more), g = f(qn.ones(2), scale=4)
        self.assertEqual((y.item(), more.tolist(), g.tolist()), (8, [2, 2], [4, 4]))
        g, more = qn.grad(lambda x: (x * x, "more"), has_aux=True)(qn.tensor(2.0))
        self.assertEqual((g.item(), more), (4, "more"))

    def test_vjp_and_jvp_are_transposes(self):
        def f(a, b):
            return {"p": a * b, "q": (a.sum() + qn.sin(b),)}

        a, b = qn.tensor([1.0, 2.0], "float64"), qn.tensor([0.3, 0.4], "float64")
        y, back = qn.vjp(f, a, b)
        seeds = {"p": qn.tensor([1.0, -1.0], "float64"), "q": (qn.tensor([2.0, 0.5], "float64"),)}
        da, db = back(seeds)
        u, v = qn.tensor([0.1, 0.2], "float64"), qn.tensor([0.7, -0.3], "float64")
        same, out = qn.jvp(f, (a, b), (u, v))
        self.assertEqual(same["p"].tolist(), y["p"].tolist())
        left = (da * u + db * v).sum().item()
        right = ((seeds["p"] * out["p"]).sum() + (seeds["q"][0] * out["q"][0]).sum()).item()
        self.assertAlmostEqual(left, right, 12)

    def test_jacobian_hessian_and_hvp(self):
        def f(x):
            return x[0] ** 2 * x[1] + qn.exp(x[1])

        x = qn.tensor([2.0, 3.0], "float64")
        h = qn.hessian(f)(x).tolist()
        self.near(h[0] + h[1], [6, 4, 4, math.exp(3)], 10)
        t = qn.tensor([1.0, -1.0], "float64")
        self.near(qn.hvp(f, (x,), (t,))[0].tolist(), [6 - 4, 4 - math.exp(3)], 10)
        j = qn.jacobian(lambda v: v * v.sum())(x).tolist()
        self.assertEqual(j, [[7, 2], [3, 8]])

    def test_checkpoint_keeps_the_bits(self):
        def block(x, w):
            for _ in range(3):
                x = qn.tanh(x @ w)
            return x

        x, w = qn.randn(qn.key(1), (4, 4)), qn.randn(qn.key(2), (4, 4))
        plain = qn.grad(lambda v: block(x, v).sum())(w)
        again = qn.grad(lambda v: qn.checkpoint(block)(x, v).sum())(w)
        self.assertEqual(plain.tolist(), again.tolist())

    def test_a_gradient_of_ones_own(self):
        @qn.custom_gradient
        def straight(x, bits):
            return qn.round(x)

        @straight.gradient
        def slope(g, y, x, bits):
            return g * 10, None

        x = qn.tensor([0.4, 1.6])
        y, g = qn.value_and_grad(lambda v: straight(v, 3).sum())(x)
        self.assertEqual((y.item(), g.tolist()), (2, [10, 10]))

        @qn.custom_gradient
        def two(x):
            return x * 2, x * 3

        with self.assertRaises(TypeError):
            two(x)
        two.gradient(lambda g, y, x: g[0] * 5 + g[1] * y[0])
        self.assertEqual(qn.grad(lambda v: (two(v)[0] + two(v)[1]).sum())(qn.tensor([1.0])).tolist(), [7])

    def test_wrong_uses_are_named(self):
        x = qn.ones(3)
        for kind, text, call in ((ValueError, r"\(3,\)", lambda: qn.grad(lambda v: v)(x)),
                                 (TypeError, "float", lambda: qn.grad(lambda v: v.sum())(qn.arange(3))),
                                 (TypeError, "scalar", lambda: qn.grad(lambda v: 3)(x)),
                                 (ValueError, "argument 1", lambda: qn.grad(lambda v: v.sum(), argnums=1)(x)),
                                 (ValueError, "seeds", lambda: qn.vjp(qn.exp, x)[1]([x]))):
            self.assertRaisesRegex(kind, text, call)


class Backward(unittest.TestCase):
    def test_gradients_are_added_up(self):
        w = qn.tensor([1.0, 2.0], requires_grad=True)
        b = qn.tensor(3.0).requires_grad_()
        other = qn.tensor(1.0, requires_grad=True)
        (w * b).sum().backward()
        self.assertEqual((w.grad.tolist(), b.grad.item(), other.grad), ([3, 3], 3, None))
        (w * w).sum().backward()
        self.assertEqual((w.grad.tolist(), b.grad.item()), ([5, 7], 3))
        w.grad = None
        (w * 2).backward(qn.tensor([1.0, 10.0]))
        self.assertEqual(w.grad.tolist(), [2, 20])
        w.zero_grad()
        self.assertIsNone(w.grad)

    def test_what_has_no_part_in_it_is_an_error(self):
        w = qn.tensor([1.0, 2.0], requires_grad=True)
        for kind, call in ((RuntimeError, lambda: qn.ones(()).backward()), (ValueError, lambda: (w * 2).backward()),
                           (RuntimeError, lambda: w.detach().sum().backward()),
                           (TypeError, lambda: qn.arange(3).requires_grad_())):
            with self.assertRaises(kind):
                call()
        with qn.no_grad():
            y = (w * 2).sum()
        self.assertRaises(RuntimeError, y.backward)

    def test_a_value_of_before_an_assignment_and_one_of_after_it(self):
        for change in (lambda w: w.assign([5.0, 6.0]), lambda w: w.__isub__(1.0), lambda w: w.__setitem__(0, 3.0)):
            w = qn.tensor([1.0, 2.0], requires_grad=True)
            before = w * 2
            with qn.no_grad():
                change(w)
            with self.assertRaisesRegex(RuntimeError, "more than one of its values"):
                (before * w).sum().backward()
            (before.detach() * w).sum().backward()
            self.assertEqual(w.grad.tolist(), [2.0, 4.0])

    def test_elements_of_a_parameter_are_written_in_its_memory(self):
        w = qn.tensor([1.0, 2.0], requires_grad=True)
        loss = (w * 3).sum()
        with qn.no_grad():
            w[0] = 5.0
            w[1:] = 7.0
        loss.backward()
        self.assertEqual((w.grad.tolist(), w.tolist()), ([3.0, 3.0], [5.0, 7.0]))
        (w * w).sum().backward()
        self.assertEqual(w.grad.tolist(), [13.0, 17.0])

    def test_parameters_are_not_changed_in_place_where_history_is_kept(self):
        w = qn.tensor([1.0, 2.0], requires_grad=True)
        for change in (lambda: w.__iadd__(1.0), lambda: w.__setitem__(0, 3.0)):
            with self.assertRaisesRegex(RuntimeError, "under no_grad"):
                change()
        self.assertEqual(w.tolist(), [1.0, 2.0])

    def test_what_was_computed_keeps_its_gradient_or_refuses(self):
        for change in (lambda h: h.__iadd__(1.0), lambda h: h.__setitem__(0, 5.0)):
            z = qn.tensor([1.0, 2.0], requires_grad=True)
            h = z * 2
            with qn.no_grad():
                with self.assertRaisesRegex(RuntimeError, "would be lost"):
                    change(h)
                for bare in (h.detach(), h * 1):
                    change(bare)
                    change(bare)
            (h + z * z).sum().backward()
            self.assertEqual(z.grad.tolist(), [4.0, 6.0])

    def test_a_loop_of_training_goes_down(self):
        x = qn.randn(qn.key(1), (64, 3))
        truth = qn.tensor([1.0, -2.0, 0.5])
        y = x @ truth
        w = qn.zeros(3).requires_grad_()
        first = None
        for _ in range(60):
            loss = ((x @ w - y) ** 2).mean()
            loss.backward()
            first = first if first is not None else loss.item()
            with qn.no_grad():
                w -= 0.1 * w.grad
            w.zero_grad()
        self.assertLess(loss.item(), first * 1e-4)
        self.assertTrue(w.requires_grad)
        self.assertTrue(qn.allclose(w, truth, atol=0.02))


class Trees(unittest.TestCase):
    def test_flatten_and_unflatten_are_inverse(self):
        for t in ({"b": [1, (2, None)], "a": 3}, 5, [], (None,), {"x": {}}):
            leaves, structure = qn.tree.flatten(t)
            self.assertEqual(qn.tree.unflatten(structure, leaves), t)
            self.assertEqual(hash(structure), hash(qn.tree.flatten(t)[1]))
        self.assertNotEqual(qn.tree.flatten([1, 2])[1], qn.tree.flatten((1, 2))[1])
        found = qn.tree.map(lambda a, b: a + b, {"a": 1, "b": [2]}, {"b": [20], "a": 10})
        self.assertEqual(found, {"a": 11, "b": [22]})
        with self.assertRaises(ValueError):
            qn.tree.map(max, [1], [1, 2])

    def test_classes_join(self):
        class Box:
            def __init__(self, x):
                self.x = x

        qn.tree.register(Box, lambda b: ([b.x], None), lambda data, children: Box(*children))
        self.assertEqual(qn.grad(lambda b: b.x * b.x)(Box(qn.tensor(4.0))).x.item(), 8)


if __name__ == "__main__":
    unittest.main()
