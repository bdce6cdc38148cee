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

    def test_an_error_leaves_nothing_behind(self):
        x = qn.zeros(2)
        with self.assertRaises(ValueError):
            x + qn.zeros(3)
        self.assertEqual((x + 1).tolist(), [1, 1])


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


class Forks(unittest.TestCase):
    def test_a_child_gets_a_context_of_its_own(self):
        x = qn.tensor([1.0, 2.0])
        self.assertEqual((x * 2).tolist(), [2, 4])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if (qn.tensor([1.0]) + 1).tolist() == [2]:
                    try:
                        x + 1
                    except RuntimeError:
                        code = 0
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual((x * 3).tolist(), [3, 6])


if __name__ == "__main__":
    unittest.main()
