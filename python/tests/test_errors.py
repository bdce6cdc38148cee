"""What goes wrong is one of Python's exceptions, with the shapes and the user's line."""

import os
import sys
import unittest

import quern as qn


class Kinds(unittest.TestCase):
    def test_each_code_has_its_exception(self):
        x = qn.zeros((2, 3))
        for kind, text, call in (
                (ValueError, r"\[2, 3\] and \[4\]", lambda: x + qn.zeros(4)),
                (ValueError, r"\[2, 3\]", lambda: x @ x),
                (TypeError, "float|f32", lambda: x & x),
                (IndexError, "2", lambda: x.sum(axis=2)),
                (ValueError, "2", lambda: x.sum(axis=2)),
                (IndexError, "axis 0", lambda: x[5]),
                (qn.RangeError, "-4", lambda: x.flip(-4)),
                (ValueError, "reshape", lambda: x.reshape(5))):
            self.assertRaisesRegex(kind, text, call)

    def test_an_empty_list_of_tensors_is_named(self):
        for f in (qn.concat, qn.stack, qn.meshgrid):
            with self.subTest(f.__name__):
                self.assertRaisesRegex(ValueError, f.__name__ + ".*xs is empty", f, [])

    def test_an_error_leaves_nothing_behind(self):
        x = qn.zeros(2)
        with self.assertRaises(ValueError):
            x + qn.zeros(3)
        self.assertEqual((x + 1).tolist(), [1, 1])
        other = qn.zeros(2, "int8").to("ref")
        for wrong in (lambda: other + 300, lambda: qn.maximum(other, 300), lambda: other.reshape((300, "a"))):
            with self.assertRaises((ValueError, TypeError)):
                wrong()
            self.assertRaisesRegex(ValueError, "reshape.*7", x.reshape, 7)

    def test_an_error_beside_one_of_python_is_not_told_later(self):
        class Failing:
            def __index__(self):
                with self.test.assertRaises(ValueError):
                    qn.zeros(2) + qn.zeros(3)
                raise KeyError("mine")

        Failing.test = self
        with self.assertRaises((KeyError, TypeError)):
            qn.zeros(2)[Failing()]
        self.assertRaisesRegex(ValueError, "reshape.*7", qn.zeros(2).reshape, 7)


class Lines(unittest.TestCase):
    def test_a_tensor_knows_the_line_that_recorded_it(self):
        x = qn.zeros(2)
        y = x + 1
        line = sys._getframe().f_lineno - 1
        self.assertEqual(qn.place_of(y), (__file__, line))
        z = qn.exp(
            x)
        self.assertEqual(qn.place_of(z)[1], line + 3)

    def test_lines_of_this_package_are_not_the_users(self):
        y = qn.zeros(2).astype("int8")
        self.assertEqual(qn.place_of(y), (__file__, sys._getframe().f_lineno - 1))

    def test_every_operation_of_a_long_function_has_its_line(self):
        lines = ["def f(x):"] + [f"    x{i} = x + {i}" for i in range(500)] + ["    return locals()"]
        space = {}
        exec(compile("\n".join(lines), "long.py", "exec"), space)
        for _ in range(2):
            found = space["f"](qn.zeros(1))
            for i in range(500):
                self.assertEqual(qn.place_of(found[f"x{i}"]), ("long.py", i + 2))

    def test_lines_can_be_left_out(self):
        qn.set_knob("lines", "0")
        self.assertIsNone(qn.place_of(qn.zeros(1)))
        qn.set_knob("lines", "1")
        self.assertIsNotNone(qn.place_of(qn.zeros(1)))
        with self.assertRaisesRegex(ValueError, 'lines takes 0 or 1, not "off"'):
            qn.set_knob("lines", "off")
        self.assertIsNotNone(qn.place_of(qn.zeros(1)))


class Forks(unittest.TestCase):
    def refused(self, x):
        """What a child may not do with its parent's x, and that such an error is not told again."""
        y = qn.tensor([3.0, 4.0])
        for k, call in enumerate((lambda: x + 1, lambda: x + y, lambda: y + x, lambda: qn.concat([y, x]), lambda: -x,
                                  lambda: x.T, lambda: len(x), lambda: qn.lerp(y, x, 0.5), lambda: qn.where(y, 1, x),
                                  lambda: y[x], lambda: x.shape, lambda: x.name, lambda: x.item(),
                                  lambda: memoryview(x),
                                  lambda: y.__setitem__(0, x), lambda: y.assign(x), lambda: x.__iadd__(y),
                                  lambda: setattr(x, "requires_grad", True))):
            try:
                call()
                return 10 + k
            except RuntimeError as e:
                if "fork" not in str(e):
                    return 10 + k
            try:
                y.reshape(7)
            except ValueError as e:
                if "reshape" not in str(e):
                    return 50 + k
        return 0

    def test_a_child_gets_a_context_of_its_own(self):
        x = qn.tensor([1.0, 2.0])
        self.assertEqual((x * 2).tolist(), [2, 4])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if (qn.tensor([1.0]) + 1).tolist() == [2]:
                    code = self.refused(x)
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual((x * 3).tolist(), [3, 6])


if __name__ == "__main__":
    unittest.main()
