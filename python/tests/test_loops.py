"""Loops that are recorded once, branches and maps, beside loops of Python and values worked out by hand."""

import unittest

import quern as qn

W = qn.tensor([[0.5, -0.25], [0.125, 1.0]])


@qn.custom_gradient
def clipped(x):
    return x * 2


clipped.gradient(lambda g, y, x: g.clip(-0.25, 0.25))


@qn.kernel
def cube(x):
    y = qn.kernel.empty_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] ** 3
    return y


cube.gradient(lambda g, y, x: 3 * x * x * g)


class Loops(unittest.TestCase):
    def near(self, found, wanted, places=5):
        for a, b in zip(qn.tree.leaves(found), qn.tree.leaves(wanted), strict=True):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            for x, y in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True):
                self.assertAlmostEqual(x, y, places)

    def unrolled(self, step, h, xs, reverse=False):
        rows = list(range(xs.shape[0]))
        out = [None] * len(rows)
        for k in reversed(rows) if reverse else rows:
            h, out[k] = step(h, xs[k])
        return h, qn.tree.map(lambda *ys: qn.stack(ys, 0), *out)

    def test_scan_is_the_loop(self):
        def step(h, x):
            h = {"a": qn.tanh(h["a"] @ W + x), "n": h["n"] + 1}
            return h, (h["a"] * 2, h["n"])

        xs, h = qn.randn(qn.key(1), (5, 2)), {"a": qn.zeros(2), "n": qn.tensor(0)}
        for reverse in (False, True):
            self.near(qn.scan(step, h, xs, reverse=reverse), self.unrolled(step, h, xs, reverse))
        jitted = qn.jit(lambda h, xs: qn.scan(step, h, xs))
        for _ in range(2):
            self.near(jitted(h, xs), self.unrolled(step, h, xs))
        self.near(qn.scan(step, h, xs, checkpoint=2), self.unrolled(step, h, xs))

    def test_numbers_begin_states_and_trips_may_be_counted(self):
        last, all_ = qn.scan(lambda s, _: (s * 2, s), 1.0, length=5)
        self.assertEqual((last.item(), all_.tolist()), (32, [1, 2, 4, 8, 16]))
        last, all_ = qn.scan(lambda s, x: (s + x, (s, 1.5)), 0.0, qn.zeros((0,)))
        self.assertEqual((last.item(), all_[0].shape, all_[1].shape), (0, (0,), (0,)))

    def test_gradients_pass_a_scan(self):
        def step(h, x):
            h = qn.tanh(h * 0.5 + x)
            return h, h

        h, xs = qn.tensor([0.5, -1.0]), qn.randn(qn.key(2), (4, 2))
        for checkpoint in (0, 2):
            def f(h, xs):
                last, out = qn.scan(step, h, xs, checkpoint=checkpoint)
                return (last * 3).sum() + (out * out).sum()

            def g(h, xs):
                last, out = self.unrolled(step, h, xs)
                return (last * 3).sum() + (out * out).sum()
            self.near(qn.grad(f, (0, 1))(h, xs), qn.grad(g, (0, 1))(h, xs))

    def test_gradients_that_are_given_pass_a_scan(self):
        h, xs = qn.tensor([0.5, -1.0]), qn.randn(qn.key(2), (4, 2))
        for f in (clipped, cube, lambda x: qn.checkpoint(lambda x: qn.tanh(x @ W))(x)):
            def step(h, x):
                h = f(h) * 0.75 + x
                return h, h
            self.near(qn.grad(lambda h, xs: qn.scan(step, h, xs)[0].sum(), (0, 1))(h, xs),
                      qn.grad(lambda h, xs: self.unrolled(step, h, xs)[0].sum(), (0, 1))(h, xs))

    def test_backward_reaches_what_a_body_uses(self):
        w = qn.tensor([2.0, 3.0], requires_grad=True)
        last, _ = qn.scan(lambda h, x: (h * w + x, h), qn.ones(2), qn.ones((2, 2)))
        last.sum().backward()
        self.assertEqual(w.grad.tolist(), [5, 7])  # (w + 1) w + 1: 2 w + 1

    def test_counted_and_conditional_loops(self):
        self.assertEqual(qn.fori_loop(2, 6, lambda i, s: s + i, qn.tensor(0)).item(), 14)
        self.assertEqual(qn.fori_loop(6, 2, lambda i, s: s + i, qn.tensor(7)).item(), 7)
        self.assertEqual(qn.while_loop(lambda s: s < 100, lambda s: s * 3, qn.tensor(1)).item(), 243)
        a, n = qn.while_loop(lambda s: s[1] < 10, lambda s: (s[0] * 2, s[1] + 1), (qn.tensor(1.0), qn.tensor(0)))
        self.assertEqual((a.item(), n.item()), (1024, 10))
        self.assertEqual(qn.while_loop(lambda s: s < 100, lambda s: s * 3, qn.tensor(1), most=2).item(), 9)
        # 3, 9, 81, 6561: of x^8 the derivative is 8 x^7
        slope = qn.grad(lambda s: qn.while_loop(lambda s: s < 100, lambda s: s * s, s, most=20))(qn.tensor(3.0))
        self.assertEqual(slope.item(), 8 * 3**7)

    def test_a_branch_is_one_of_two(self):
        def yes(x):
            return x / (x - 2)

        def no(x):
            return x * x

        f = qn.jit(lambda p, x: qn.cond(p, yes, no, x))
        x = qn.tensor([4.0, 2.0])
        self.assertEqual(f(qn.tensor(False), x).tolist(), [16, 4])
        self.assertEqual(f(qn.tensor(True), x).tolist(), [2, float("inf")])
        self.assertEqual(qn.cond(True, yes, no, x)[0].item(), 2)
        slope = qn.grad(lambda x: qn.cond(x.sum() > 100, yes, no, x).sum())(x)
        self.assertEqual(slope.tolist(), [8, 4])  # no NaN of the other one
        both = qn.cond(x.sum() > 3, lambda: {"a": x, "n": 1}, lambda: {"a": -x, "n": 2})
        self.assertEqual((both["a"].tolist(), both["n"].item()), ([4, 2], 1))

    def test_what_cannot_be_is_refused_and_leaves_nothing_open(self):
        x = qn.ones((3, 2))
        for error, words, f in (
                (ValueError, "state 0 begins", lambda: qn.scan(lambda s, r: (s.astype("float64"), 0), qn.zeros(2), x)),
                (ValueError, "state 0 begins", lambda: qn.scan(lambda s, r: (s[:1], 0), qn.zeros(2), x)),
                (ValueError, "become", lambda: qn.scan(lambda s, r: ((s, s), 0), qn.zeros(2), x)),
                (TypeError, "next state", lambda: qn.scan(lambda s, r: s, qn.zeros(2), x)),
                (ValueError, "rows", lambda: qn.scan(lambda s, r: (s, s), 0.0, (x, qn.zeros(2)))),
                (ValueError, "how many", lambda: qn.scan(lambda s, r: (s, s), 0.0)),
                (ZeroDivisionError, "zero", lambda: qn.scan(lambda s, r: (1 // 0, s), 0.0, x)),
                (RuntimeError, "loop", lambda: qn.scan(lambda s, r: (s * float(s), s), 0.0, x)),
                (ValueError, "branch", lambda: qn.cond(qn.tensor(True), lambda: (x,), lambda: [x])),
                (ValueError, "scalar", lambda: qn.cond(qn.ones(2), lambda: x, lambda: x)),
                (TypeError, "while_loop", lambda: qn.fori_loop(0, qn.tensor(3), lambda i, s: s, x))):
            with self.assertRaisesRegex(error, words):
                f()
            self.assertEqual((x + 1)[0, 0].item(), 2)

    def test_a_value_of_a_body_has_none_outside(self):
        kept = []
        qn.scan(lambda s, r: (s + 1, kept.append(s)), 0.0, qn.ones(3))
        with self.assertRaisesRegex(RuntimeError, "loop's body"):
            kept[0].tolist()

    def test_nothing_is_left_behind(self):
        x = qn.ones((3, 2))
        for _ in range(3):
            qn.scan(lambda s, r: (s + r, s), qn.zeros(2), x)[0].tolist()
        before = qn.stats()["handles"]
        for _ in range(20):
            qn.scan(lambda s, r: (s + r, s), qn.zeros(2), x)[0].tolist()
            qn.vmap(lambda r: r.sum())(x).tolist()
        self.assertEqual(qn.stats()["handles"], before)


class Maps(unittest.TestCase):
    def test_of_one_argument_and_several(self):
        x = qn.tensor([[1.0, 2.0], [3.0, 4.0]])
        self.assertEqual(qn.vmap(lambda r: r.sum() * r)(x).tolist(), [[3, 6], [21, 28]])
        self.assertEqual(qn.vmap(lambda c: c.sum(), 1)(x).tolist(), [4, 6])
        self.assertEqual(qn.vmap(lambda c: c * 2, 1, 1)(x).tolist(), [[2, 4], [6, 8]])
        self.assertEqual(qn.vmap(lambda a, b: a @ b, (None, 0))(x, x).tolist(), (x @ x.T).T.tolist())
        self.assertEqual(qn.vmap(lambda a, k: a * k, (0, None))(x, 3).tolist(), (x * 3).tolist())

    def test_trees_nesting_and_shared_results(self):
        x = qn.tensor([[1.0, 2.0], [3.0, 4.0]])
        out = qn.vmap(lambda d, k: {"s": d["a"] * k, "c": qn.tensor(1.0)}, ({"a": 0}, None), {"s": 1, "c": None})(
            {"a": x}, 3)
        self.assertEqual((out["s"].tolist(), out["c"].item()), ([[3, 9], [6, 12]], 1))

        def distance(a, b):
            return ((a - b) ** 2).sum()
        both = qn.vmap(qn.vmap(distance, (None, 0)), (0, None))
        self.assertEqual(both(x, x).tolist(), [[0, 8], [8, 0]])
        self.assertEqual(qn.jit(both)(x, x).tolist(), [[0, 8], [8, 0]])

    def test_a_gradient_for_each_example_and_through_a_map(self):
        w, x = qn.tensor([1.0, -1.0]), qn.tensor([[1.0, 2.0], [3.0, 4.0]])
        each = qn.vmap(qn.grad(lambda w, x: (x @ w) ** 2), (None, 0))(w, x)
        self.assertEqual(each.tolist(), [[-2, -4], [-6, -8]])
        total = qn.grad(lambda w: qn.vmap(lambda x: (x @ w) ** 2)(x).sum())(w)
        self.assertEqual(total.tolist(), [-8, -12])

    def test_refused(self):
        x = qn.ones((2, 3))
        for error, words, f in ((ValueError, "how many", lambda: qn.vmap(lambda a, b: a)(x, qn.ones(3))),
                                (ValueError, "no axis", lambda: qn.vmap(lambda a: a, 2)(x)),
                                (ValueError, "no argument", lambda: qn.vmap(lambda a: a)(3)),
                                (ValueError, "axes", lambda: qn.vmap(lambda a: a, (0, 1))(x)),
                                (ValueError, "not like", lambda: qn.vmap(lambda a: a, 0, (0, 0))(x)),
                                (RuntimeError, "", lambda: qn.vmap(lambda a: a * a.sum().item())(x))):
            with self.assertRaisesRegex(error, words):
                f()


if __name__ == "__main__":
    unittest.main()
