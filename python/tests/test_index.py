"""x[...] and x[...] = y beside NumPy, at indices drawn at random."""

import os
import random
import subprocess
import sys
import unittest

import quern as qn

try:
    import numpy as np
except ImportError:
    np = None

SEED = 20261


def drawn(r, shape):
    """An index of an array of this shape."""
    items, axis = [], 0
    arrays = [r.randint(1, 3) for _ in range(r.randint(1, 2))] if r.random() < 0.5 else None
    ellipsis = False
    while axis < len(shape):
        n, kind = shape[axis], r.random()
        if kind < 0.2:
            items.append(r.randint(-n, n - 1))
        elif kind < 0.5:
            items.append(slice(*[None if r.random() < 0.3 else r.randint(-n - 2, n + 2) for _ in range(2)],
                               r.choice([None, 1, 2, -1, -2])))
        elif kind < 0.6 and not ellipsis:
            items.append(Ellipsis)
            ellipsis = True
            axis += r.randint(0, len(shape) - axis) - 1
        elif kind < 0.7:
            items.append(None)
            axis -= 1
        elif arrays:
            items.append(np.array([r.randint(-n, n - 1) for _ in range(int(np.prod(arrays)))]).reshape(arrays))
        elif kind < 0.9:
            items.append([r.random() < 0.5 for _ in range(n)])
            break
        axis += 1
    return tuple(items[:6]) if len(items) != 1 or r.random() < 0.5 else items[0]


def ours(index):
    if isinstance(index, tuple):
        return tuple(ours(i) for i in index)
    return qn.tensor(index) if isinstance(index, np.ndarray) else index


@unittest.skipUnless(np, "no NumPy here")
class Random(unittest.TestCase):
    def cases(self, count):
        r = random.Random(SEED)
        for case in range(count):
            shape = tuple(r.randint(1, 4) for _ in range(r.randint(1, 4)))
            yield r, shape, drawn(r, shape), f"case {case} of seed {SEED}: shape {shape}"

    def test_reading(self):
        done = 0
        for r, shape, index, text in self.cases(600):
            a = np.arange(int(np.prod(shape))).reshape(shape)
            try:
                wanted = a[index]
            except (IndexError, ValueError):
                with self.assertRaises((IndexError, ValueError), msg=f"{text} [{index}]"):
                    qn.tensor(a)[ours(index)].tolist()
                continue
            found = qn.tensor(a)[ours(index)]
            self.assertEqual(found.shape, wanted.shape, f"{text} [{index}]")
            self.assertEqual(found.tolist(), wanted.tolist(), f"{text} [{index}]")
            done += 1
        self.assertGreater(done, 300)

    def test_writing(self):
        for r, shape, index, text in self.cases(200):
            a = np.arange(int(np.prod(shape)))
            a = a.reshape(shape)
            x = qn.tensor(a)
            try:
                size = a[index].shape
                value = np.arange(int(np.prod(size))).reshape(size) + 100
                if r.random() < 0.5:
                    value = -1
                a[index] = value
            except (IndexError, ValueError):
                continue
            x[ours(index)] = value if isinstance(value, int) else qn.tensor(value)
            self.assertEqual(x.tolist(), a.tolist(), f"{text} [{index}]")


class ByHand(unittest.TestCase):
    def test_what_is_no_index_is_refused(self):
        x = qn.zeros((2, 3))
        for index in (1.5, "a", (0, 0, 0), qn.tensor(0.5), {}):
            with self.assertRaises((IndexError, TypeError, ValueError)):
                x[index]
        with self.assertRaises(ValueError):
            x[::0]
        with self.assertRaises(TypeError):
            del x[0]

    def test_a_written_value_takes_the_dtype(self):
        x = qn.zeros(3, "int32")
        x[1] = 2.9
        x[2] = True
        self.assertEqual((x.tolist(), x.dtype), ([0, 2, 1], qn.int32))

    def test_what_was_read_before_keeps_its_value(self):
        x = qn.tensor([1, 2, 3])
        y = x[1:]
        x[1] = 9
        self.assertEqual((y.tolist(), x.tolist()), ([2, 3], [1, 9, 3]))

    def test_bools_and_lists_are_arrays(self):
        x = qn.tensor([[1, 2], [3, 4]])
        self.assertEqual(x[True].shape, (1, 2, 2))
        self.assertEqual(x[[1, 0]].tolist(), [[3, 4], [1, 2]])
        self.assertEqual(x[x > 2].tolist(), [3, 4])
        self.assertEqual(x[[]].shape, (0, 2))
        self.assertEqual(x[qn.tensor(1), 0].item(), 3)

    def test_what_lies_outside_is_refused_at_the_call_where_the_index_is_known(self):
        x = qn.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        before = x.tolist()
        arrays = [[2], [-3], [[0, 1], [1, 2]], (slice(None), [3]), (Ellipsis, [-4]), (None, [2]), (0, [3]),
                  ([0, 1], [0, 3]), (slice(None), None, [3])]
        if np:
            arrays += [np.array([2], "uint8"), np.array([-3], "int16"), (Ellipsis, np.array([[3]])),
                       np.array([2**63], "uint64")]
        for index in arrays:
            with self.assertRaisesRegex(IndexError, "out of range of axis", msg=str(index)):
                x[index]
            with self.assertRaisesRegex(IndexError, "out of range of axis", msg=str(index)):
                x[index] = 9.0
        self.assertEqual(x.tolist(), before)
        for index in ([1, -2], (slice(None), [-3, 2]), (Ellipsis, [2]), (None, [0]), ([True, False],)):
            x[index]

    def test_what_lies_outside_is_refused_by_the_read_where_it_is_computed(self):
        x = qn.tensor([1.0, 2.0])
        five = qn.tensor([5])
        for make in (lambda: x[five], lambda: x[five + 1], lambda: qn.take(x, five, 0),
                     lambda: qn.gather(x, five, 0)):
            with self.assertRaises(IndexError):
                make().tolist()
        self.assertEqual(x[qn.tensor([1, -2])].tolist(), [2, 1])
        with self.assertRaisesRegex(IndexError, "index -5 of an axis of 4"):
            qn.zeros((3, 4))[qn.tensor([0]), qn.tensor([-5])].tolist()

    def test_what_lies_outside_is_not_written(self):
        y = qn.tensor([[1.0, 2.0], [3.0, 4.0]]) + 0
        five = qn.tensor([5])
        for index in (five, five + 1, (slice(None), five), (qn.tensor([0]), -five)):
            with self.assertRaisesRegex(IndexError, "[56] is out of range of axis [01], which has 2"):
                y[index] = 9.0
            self.assertEqual(y.tolist(), [[1, 2], [3, 4]])
        y[qn.tensor([1]), qn.tensor([-2])] = 9.0
        self.assertEqual(y.tolist(), [[1, 2], [9, 4]])

    def test_a_check_that_says_nothing_is_on(self):
        code = "import quern as qn; print(qn.tensor([1.0, 2.0])[qn.tensor([2]) + 0].tolist())"
        path = os.path.dirname(os.path.dirname(os.path.abspath(qn.__file__)))
        for said, status in (("", 1), ("1", 1), ("0", 0)):
            env = dict(os.environ, QN_CHECK=said, PYTHONPATH=path)
            done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual("index 2 of an axis of 2" in done.stderr, status == 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
