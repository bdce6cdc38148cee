"""Programs with quern.jit: state that is captured and changes, shapes, side effects, nested jits, exceptions. Each is
run plainly and jitted, step by step, in worlds of its own, and must do the same, or say why it does not."""

import collections
import contextlib
import dataclasses
import io
import random
import unittest
import warnings

import quern as qn

programs = []


def program(f):
    """f(wrap) gives a function that makes step k and tells all that can be seen behind it."""
    programs.append(f)
    return f


def value(x):
    return x.tolist() if isinstance(x, qn.Tensor) else x


def seen(*trees):
    return qn.tree.leaves(qn.tree.map(value, trees))


X = (1.0, 2.0, 3.0)


def vector(k, n=3):
    return qn.tensor([0.5 * i - k for i in range(n)])


@program
def a_counter_that_is_a_tensor(wrap):
    count = qn.zeros(())

    @wrap
    def f(x):
        nonlocal count
        count += 1
        return x * count
    return lambda k: seen(f(vector(k)), count)


@program
def an_equal_constant_released_before(wrap):
    @wrap
    def f(x):
        a = qn.zeros(3)
        b = qn.zeros(3)
        del b
        a += 1
        c = qn.zeros(3)
        a *= 2
        return x + a, c
    return lambda k: seen(f(vector(k)), qn.zeros(3))


@program
def a_constant_released_beside_a_captured_one(wrap):
    a = qn.zeros(3)

    @wrap
    def f(x):
        nonlocal a
        b = qn.zeros(3)
        del b
        a += 1
        return x + a

    def step(k):
        z = qn.zeros(3)
        del z
        return seen(f(vector(k)), a, qn.zeros(3))
    return step


@program
def a_global_number_that_changes_each_time(wrap):
    box = {"rate": 1}

    @wrap
    def f(x):
        return x * box["rate"]

    def step(k):
        box["rate"] = k % 3
        return seen(f(vector(k)))
    return step


@program
def a_number_that_becomes_another_kind(wrap):
    scale = 1
    f = wrap(lambda x: x * scale if isinstance(scale, int) else x - scale)

    def step(k):
        nonlocal scale
        scale = (1, 1.0, True, 1, -0.0, 0.0)[k % 6]
        return seen(f(vector(k)))
    return step


@program
def a_list_that_grows(wrap):
    layers = [2.0]

    @wrap
    def f(x):
        for w in layers:
            x = x * w
        return x

    def step(k):
        if k % 2:
            layers.append(k)
        return seen(f(vector(k)))
    return step


@program
def weights_exchanged_for_others(wrap):
    w = {"a": qn.ones(3), "b": qn.ones(3) * 2}
    f = wrap(lambda x: x * w["a"] + w["b"])

    def step(k):
        if k == 1:
            w["a"], w["b"] = w["b"], w["a"]
        if k == 2:
            w["a"] = qn.tensor([5.0, 6.0, 7.0])
        if k == 3:
            w["b"] = qn.tensor(3.0)
        return seen(f(vector(k)))
    return step


@program
def weights_that_change_dtype_in_place(wrap):
    w = qn.ones(3)
    f = wrap(lambda x: x * w)

    def step(k):
        nonlocal w
        if k == 2:
            w = w.astype("float64")
        if k == 4:
            w += 1
        return seen(f(vector(k)), f(vector(k)).dtype.name)
    return step


@program
def shapes_that_change(wrap):
    f = wrap(lambda x: (x - x.mean()) / x.shape[0])
    return lambda k: seen(f(vector(k, 1 + k % 4)))


@program
def an_object_given_as_argument(wrap):
    class Model:
        def __init__(self):
            self.k, self.w = 2.0, qn.ones(3)

    m, f = Model(), wrap(lambda m, x: x * m.w * m.k)

    def step(k):
        if k == 1:
            m.k = 3.0
        if k == 2:
            m.w = m.w + 1
        if k == 3:
            m.w += 1
        if k == 4:
            m.k = qn.tensor(0.5)
        return seen(f(m, vector(k)))
    return step


@program
def an_object_with_slots_and_a_property(wrap):
    class Model:
        __slots__ = ("k",)

        @property
        def twice(self):
            return 2 * self.k

    m = Model()
    f = wrap(lambda x: x * m.twice)

    def step(k):
        m.k = k // 2
        return seen(f(vector(k)))
    return step


@program
def a_method_of_two_instances(wrap):
    class Model:
        def __init__(self, k):
            self.k = k

        @wrap
        def run(self, x):
            return x * self.k

    a, b = Model(2), Model(3)

    def step(k):
        if k == 2:
            a.k = 7
        return seen(a.run(vector(k)), b.run(vector(k)))
    return step


@program
def a_class_attribute_and_a_subclass(wrap):
    class Base:
        rate = 2

        def run(self, x):
            return x * self.rate

    class Heir(Base):
        pass

    m = Heir()
    f = wrap(lambda x: m.run(x))

    def step(k):
        if k == 1:
            Base.rate = 3
        if k == 2:
            Heir.rate = 5
        if k == 3:
            m.rate = 7
        if k == 4:
            Heir.run = lambda self, x: x - self.rate
        return seen(f(vector(k)))
    return step


@program
def a_helper_that_is_replaced(wrap):
    def helper(x):
        return x + 1

    tools = {"helper": helper}
    f = wrap(lambda x: tools["helper"](x) * 2)

    def step(k):
        if k == 2:
            tools["helper"] = lambda x: x - 1
        return seen(f(vector(k)))
    return step


@program
def a_default_argument_that_is_mutable(wrap):
    def f(x, more=[1.0]):
        return x + more[0]
    g = wrap(f)

    def step(k):
        f.__defaults__[0][0] = k // 2
        return seen(g(vector(k)))
    return step


@program
def keywords_dataclasses_and_named_tuples(wrap):
    Pair = collections.namedtuple("Pair", "a b")

    @dataclasses.dataclass
    class Both:
        a: object
        b: object

    @wrap
    def f(p, *, q, scale=1.0):
        return Pair(p.a * scale, Both(q.b, q.a + p.b))

    def step(k):
        out = f(Both(vector(k), 2.0), q=Pair(vector(1), k), scale=0.5 * (k % 2))
        return seen(out, type(out).__name__, type(out.b).__name__)
    return step


@program
def an_argument_written_in_place(wrap):
    @wrap
    def f(x, y):
        x[0] = 9
        x += y
        return x.sum()

    def step(k):
        x, y = vector(k), vector(1)
        return seen(f(x, y), x, y) + seen(f(y, y), y)
    return step


@program
def one_tensor_as_two_arguments(wrap):
    @wrap
    def f(x, y):
        x += 1
        return x * y

    def step(k):
        x, y = vector(k), vector(1)
        return seen(f(x, x) if k % 2 else f(x, y), x, y)
    return step


@program
def an_argument_that_is_captured_too(wrap):
    w = qn.tensor(X)

    @wrap
    def f(x):
        x += 1
        return x * w

    return lambda k: seen(f(w if k % 2 else vector(k)), w)


@program
def nested_jits_with_state_of_their_own(wrap):
    total, rate = qn.zeros(3), [2.0]

    @wrap
    def inner(x):
        nonlocal total
        total += x
        return x * rate[0]

    @wrap
    def outer(x):
        return inner(x) + inner(x + 1)

    def step(k):
        rate[0] = 1.0 + k // 2
        return seen(outer(vector(k)), total, inner(vector(k)), total)
    return step


@program
def a_jit_in_a_gradient_and_a_gradient_in_a_jit(wrap):
    w = qn.tensor(X)
    loss = wrap(lambda w, x: ((w * x) ** 2).sum())
    slope = wrap(qn.grad(lambda w: loss(w, w * 2)))
    return lambda k: seen(qn.grad(loss)(w, vector(k)), slope(w), qn.grad(lambda v: slope(v).sum())(w))


@program
def backward_through_results(wrap):
    w = qn.tensor(X, requires_grad=True)
    f = wrap(lambda x: x * w * w)

    def step(k):
        x = vector(k)
        if k % 2:
            with qn.no_grad():
                return seen(f(x))
        y = f(x)
        y.sum().backward()
        grad = w.grad
        w.grad = None
        h = f(f(x * w))  # of an expression that w has a part in
        h.sum().backward()
        both = seen(y, grad, w.grad)
        w.zero_grad()
        return both
    return step


@program
def a_training_step_with_an_optimizer_in_it(wrap):
    w, m = qn.tensor(X, requires_grad=True), qn.zeros(3)

    @wrap
    def train(x):
        nonlocal m
        loss = ((w * x - 1) ** 2).mean()
        loss.backward()
        with qn.no_grad():
            m = m * 0.5 + w.grad
            w.assign(w - 0.125 * m)
        w.zero_grad()
        return loss

    def step(k):
        nonlocal m
        before = m
        out = seen(train(vector(1)), w, w.grad, w.requires_grad)
        m = before
        return out
    return step


@program
def gradients_left_and_cleared(wrap):
    w = qn.tensor(X, requires_grad=True)
    f = wrap(lambda x: (x * w).sum().backward())
    clear = wrap(lambda x: w.zero_grad())

    def step(k):
        f(vector(k))
        if k % 3 == 2:
            clear(vector(k))
        return seen(w.grad)
    return step


@program
def gradients_made_outside(wrap):
    w = qn.tensor(X, requires_grad=True)

    @wrap
    def update():
        with qn.no_grad():
            w.assign(w - 0.25 * w.grad)

    def step(k):
        (w * w * k).sum().backward()
        if k % 2:
            (w * vector(k)).sum().backward()
        update()
        out = seen(w, w.grad)
        if k % 3:
            w.grad = None
        return out
    return step


@program
def gradients_of_an_argument(wrap):
    w, v = qn.tensor(X, requires_grad=True), qn.tensor(X, requires_grad=True)
    f = wrap(lambda w, x: (w * w * x).sum().backward())

    def step(k):
        f(w if k % 2 else v, vector(k))
        if k == 4:
            v.grad = None
        return seen(w.grad, v.grad)
    return step


@program
def an_exception_at_some_calls(wrap):
    w, box = qn.zeros(3), {"raise": False}

    @wrap
    def f(x):
        nonlocal w
        w += 1
        if box["raise"]:
            raise KeyError("mine")
        return x + w

    def step(k):
        nonlocal w
        box["raise"] = k % 3 == 1
        before = w.tolist()
        try:
            return seen(f(vector(k)), w)
        except KeyError as e:
            w = qn.tensor(before)  # the plain function has counted, a graph has not
            return [str(e), w.tolist()]
    return step


@program
def shapes_that_do_not_fit_at_some_calls(wrap):
    w = qn.ones(3)
    f = wrap(lambda x: x + w)

    def step(k):
        try:
            return seen(f(vector(k, 2 if k % 2 else 3)))
        except ValueError as e:
            return ["broadcast" in str(e)]
    return step


@program
def loops_and_branches_recorded_once(wrap):
    w = qn.tensor(X)

    @wrap
    def f(x, p):
        h, all_ = qn.scan(lambda h, r: (h * 0.5 + r * w, h), qn.zeros(3), x)
        return qn.cond(p, lambda: h * 2, lambda: h - 1), all_

    def step(k):
        nonlocal w
        if k == 3:
            w += 1
        return seen(f(qn.ones((2 + k % 2, 3)) * k, qn.tensor(k % 3 == 0)))
    return step


@program
def a_map_and_a_key(wrap):
    @wrap
    def f(key, xs):
        keys = qn.key_split(key, 2)
        return qn.vmap(lambda x: x / (1 + (x * x).sum()))(xs) + qn.uniform(keys[0], (3,)), keys[1]
    key = qn.key(3)

    def step(k):
        nonlocal key
        y, key = f(key, qn.ones((2, 3)) * k)
        return seen(y)
    return step


@program
def results_that_are_no_tensors(wrap):
    f = wrap(lambda x, k: {"n": x.shape[0], "none": None, "k": k, "list": [x, "text", (x * k,)]})
    return lambda k: seen(f(vector(k), k % 3))


@program
def strings_and_flags_that_choose(wrap):
    f = wrap(lambda x, mode, on=True: x.sum() if mode == "sum" else x.prod() if on else x)
    return lambda k: seen(f(vector(k), ("sum", "prod")[k % 2], on=k % 3 > 0))


@program
def a_set_a_queue_and_a_frozen_object(wrap):
    @dataclasses.dataclass(frozen=True)
    class Settings:
        rate: float

    s, some, queue = {2.0}, [Settings(1.0)], collections.deque([1.0])
    f = wrap(lambda x: x * sum(s) * some[0].rate + queue[-1])

    def step(k):
        if k == 1:
            s.add(5.0)
        if k == 2:
            some[0] = Settings(2.0)
        if k == 3:
            queue.append(4.0)
        return seen(f(vector(k)))
    return step


@program
def data_of_other_libraries(wrap):
    import array
    data = array.array("f", [1, 2, 3])
    f = wrap(lambda x: x * data)

    def step(k):
        data[0] = k // 2
        return seen(f(vector(k)))
    return step


@program
def views_of_captured_tensors(wrap):
    w = qn.ones((2, 3))
    row = w[0]

    @wrap
    def f(x):
        return x * row + w[1]

    def step(k):
        nonlocal w
        if k == 2:
            w[1] = 5
        if k == 3:
            w = w * 2
        return seen(f(vector(k)))
    return step


class Programs(unittest.TestCase):
    def both(self, make, order):
        plain, jitted = make(lambda f: f), make(qn.jit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in order:
                self.assertEqual(jitted(k), plain(k), f"{make.__name__}, step {k} of {order}")

    def test_each_does_what_it_does_without_jit(self):
        self.assertGreaterEqual(len(programs), 30)
        for make in programs:
            with self.subTest(make.__name__):
                self.both(make, [0, 1, 2, 3, 4, 5, 5, 4, 0])

    def test_each_in_a_random_order(self):
        chance = random.Random(13)
        for make in programs:
            with self.subTest(make.__name__):
                self.both(make, [chance.randrange(6) for _ in range(12)])

    def test_what_cannot_be_frozen_is_an_error_that_says_why(self):
        x, kept = qn.ones(3), []
        for f in (lambda x: x if x.sum() > 0 else -x, lambda x: x * x.sum().item(), lambda x: [r for r in x if r > 0],
                  lambda x: x[x > 0], lambda x: int(x[0]), lambda x: print(f"{x.sum():.2f}")):
            with self.assertRaisesRegex(RuntimeError, "traced by jit"), contextlib.redirect_stdout(io.StringIO()):
                qn.jit(f)(x)
        with self.assertWarnsRegex(RuntimeWarning, "kept"):
            qn.jit(lambda x: kept.append(x))(x)
        with self.assertRaisesRegex(RuntimeError, "no value outside"):
            kept[0].tolist()

    def test_results_of_a_step_that_took_its_gradient_have_no_history(self):
        w = qn.tensor(X, requires_grad=True)

        @qn.jit
        def step(x):
            loss = (x * w).sum()
            loss.backward()
            return loss
        loss = step(qn.ones(3))
        self.assertEqual((step.traces, w.grad.tolist()), (1, [1, 1, 1]))
        with self.assertRaisesRegex(RuntimeError, "requires_grad"):
            loss.backward()

    def test_gradients_that_are_there_or_not_are_two_graphs(self):
        w = qn.tensor(X, requires_grad=True)
        f = qn.jit(lambda x: (x * w).sum().backward())
        for _ in range(5):
            w.grad = None
            for k in range(1, 4):
                f(qn.ones(3))
                self.assertEqual(w.grad.tolist(), [k, k, k])
        self.assertEqual(f.traces, 2)

    def test_calls_seen_before_take_the_short_way(self):
        w = qn.ones(3)
        calls = []

        class Spied(type(qn.jit(lambda: 0))):
            def slow(self, *args, **keywords):
                calls.append(1)
                return super().slow(*args, **keywords)

        class Model:
            k = 2.0

        m = Model()
        f = Spied(lambda d, k, m: {"y": d["x"] * w * k * m.k, "k": k})
        for _ in range(5):
            self.assertEqual(f({"x": qn.ones(3)}, 2, m)["y"].tolist(), [4, 4, 4])
        self.assertEqual(len(calls), 1)
        m.k = 3.0
        for _ in range(3):
            self.assertEqual(f({"x": qn.ones(3)}, 2, m)["y"].tolist(), [6, 6, 6])
        self.assertEqual((len(calls), f.traces), (2, 2))
        w += 1
        self.assertEqual(f({"x": qn.ones(3)}, 2, m)["y"].tolist(), [12, 12, 12])
        self.assertEqual((len(calls), f.traces), (2, 2))

    def test_what_a_jit_holds_is_collected(self):
        import gc
        import weakref

        class Thing:
            pass

        def make():
            thing = Thing()
            f = qn.jit(lambda x: (x, thing is f)[0] * 2)
            f(qn.ones(2))
            f(qn.ones(2))
            return weakref.ref(thing)
        alive = make()
        gc.collect()
        self.assertIsNone(alive())


if __name__ == "__main__":
    unittest.main()
