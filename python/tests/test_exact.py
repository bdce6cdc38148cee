"""Numbers reach a tensor as they are: no double between an int and int64, no float32 before float64, and what a
dtype does not hold is refused."""

import unittest

import quern as qn

try:
    import numpy as np
except ImportError:
    np = None

BIG = 2**60 + 1


class Index:
    """An integer of another type."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Written(unittest.TestCase):
    def test_lists_become_the_dtype_of_what_is_there(self):
        x = qn.zeros(2, "float64")
        x[:] = [0.1, 0.2]
        self.assertEqual(x.tolist(), [0.1, 0.2])
        x[x > 0.15] = (0.3,)
        self.assertEqual(x.tolist(), [0.1, 0.3])
        x = qn.zeros(2, "int64")
        x[:] = [16777217.0, BIG]
        self.assertEqual(x.tolist()[0], 16777217)
        x[:] = [BIG, -BIG]
        self.assertEqual(x.tolist(), [BIG, -BIG])

    def test_numbers_do_so_too(self):
        x = qn.zeros(1, "int64")
        x[0] = 16777217.0
        self.assertEqual(x.item(), 16777217)
        x.assign(33554433.0)
        self.assertEqual(x.item(), 33554433)
        x = qn.zeros(2, "bool")
        x[0] = 0.25
        x[1] = 7
        self.assertEqual(x.tolist(), [True, True])
        x = qn.zeros(1)
        x[0] = 2**100
        self.assertEqual(x.item(), 2.0**100)
        x = qn.zeros(1, "float64").assign([0.1])
        self.assertEqual(x.item(), 0.1)

    def test_what_the_dtype_does_not_hold_is_refused(self):
        x = qn.tensor([1], "uint8")
        for value in (300, [300], -1, [-1], Index(300), [Index(300)], 2**70, [2**70]):
            with self.assertRaises((OverflowError, ValueError), msg=str(value)):
                x[:] = value
            with self.assertRaises((OverflowError, ValueError), msg=str(value)):
                x.assign(value)
        self.assertEqual(x.tolist(), [1])

    def test_tensors_of_other_devices_take_them(self):
        x = qn.tensor([1.0, 2.0, 3.0], device="ref")
        x[[0, 2]] = [4, 5]
        self.assertEqual((x[[2, 0]].tolist(), x.device), ([5, 4], "ref"))

    @unittest.skipUnless(np, "no NumPy here")
    def test_arrays_do_so_too(self):
        x = qn.zeros(2, "float64")
        x[:] = [np.array(0.1), 0.2]
        self.assertEqual(x.tolist(), [0.1, 0.2])
        with self.assertRaises(OverflowError):
            qn.zeros(1, "uint8")[0] = np.int64(300)


class Beside(unittest.TestCase):
    """A number takes the dtype in which the tensors meet, not that of one of them."""

    def test_masks_indices_and_conditions_do_not_count(self):
        x = qn.zeros(1, "float64")
        mask = qn.tensor([True])
        self.assertEqual(qn.masked_fill(x, mask, 0.1).item(), 0.1)
        self.assertEqual(qn.where(x, 0.5, 0.1).dtype, qn.float32)
        self.assertEqual(qn.where(mask, x, 0.1).dtype, qn.float64)
        self.assertIs(qn.masked_fill(qn.zeros(1, "int8"), mask, 5).dtype, qn.int8)
        self.assertEqual(qn.take(qn.tensor([1.5, 2.5]), 1, 0).item(), 2.5)
        self.assertEqual(qn.ldexp(qn.tensor([1.5]), 3).item(), 12)

    def test_the_others_meet(self):
        x, y = qn.zeros(1, "float64"), qn.ones(1, "float32")
        for found in (qn.lerp(x, y, 0.1), qn.lerp(y, x + 1, 0.1) * 0 + qn.lerp(x, y, 0.1), qn.clip(x, 0.1, y),
                      qn.fma(y, x, 0.1)):
            self.assertEqual((found.item(), found.dtype), (0.1, qn.float64))

    @unittest.skipUnless(np, "no NumPy here")
    def test_arrays_count_as_tensors(self):
        self.assertEqual(qn.lerp(np.zeros(1), qn.ones(1), 0.1).item(), 0.1)
        self.assertEqual(qn.clip(np.zeros(1), 0.1, None).item(), 0.1)

    def test_a_number_that_does_not_fit_is_an_error_of_python(self):
        for call in (lambda: qn.maximum(qn.ones(1, "int8"), 300), lambda: qn.ones(1, "int8") + 300):
            self.assertRaisesRegex(ValueError, "300", call)


class Integers(unittest.TestCase):
    def kinds(self):
        return [int, Index] + ([np.int64] if np else [])

    def test_lists_check_the_range_of_all(self):
        for kind in self.kinds():
            with self.assertRaises(OverflowError):
                qn.tensor([kind(300)], dtype="int8")
            with self.assertRaises(OverflowError):
                qn.tensor([[1], [kind(-1)]], dtype="uint16")
            self.assertEqual(qn.tensor([kind(BIG)], dtype="int64").item(), BIG)
        if np:
            with self.assertRaises(OverflowError):
                qn.tensor(np.int64(300), dtype="int8")
            self.assertEqual(qn.tensor([np.uint64(2**63)]).item(), 2**63)
            self.assertEqual(qn.tensor([1, np.uint64(2**63)]).tolist(), [1, 2**63])

    def test_full_and_arange_are_exact(self):
        for kind in self.kinds():
            self.assertEqual(qn.full((1,), kind(BIG)).item(), BIG)
            self.assertIs(qn.full((1,), kind(BIG)).dtype, qn.int64)
            self.assertEqual(qn.arange(kind(BIG), kind(BIG + 2)).tolist(), [BIG, BIG + 1])
            self.assertEqual(qn.full_like(qn.zeros(1, "int64"), kind(BIG)).item(), BIG)
        self.assertEqual(qn.full((2,), 2**63, dtype="uint64").tolist(), [2**63] * 2)
        self.assertEqual(qn.full((1,), 2**70, dtype="float64").item(), 2.0**70)
        with self.assertRaises(OverflowError):
            qn.full((1,), 2**64, dtype="uint64")
        with self.assertRaises(OverflowError):
            qn.full((1,), 2**63, dtype="int64")
        self.assertEqual(qn.full((1,), qn.tensor(0.5)).tolist(), [0.5])
        for value in (300, 2.5):
            with self.assertRaises(ValueError):
                qn.full_like(qn.zeros(1, "int8"), value)


class Lists(unittest.TestCase):
    def test_a_list_in_itself_is_refused(self):
        a = []
        a.append(a)
        b = [qn.tensor(1)]
        b.append(b)
        for endless in (a, b, [a], (b,)):
            self.assertRaisesRegex(ValueError, "axes|shape", qn.tensor, endless)
        deep = 1
        for _ in range(100000):
            deep = [deep]
        self.assertRaisesRegex(ValueError, "axes", qn.tensor, deep)
        while isinstance(deep, list):
            deep = deep[0]

    def test_a_list_that_changes_while_it_is_read_is_refused(self):
        class Emptying(Index):
            def __index__(self):
                del rows[1:]
                return 1

        rows = [Emptying(1), 2, 3]
        self.assertRaisesRegex(RuntimeError, "changed", qn.tensor, rows)

    @unittest.skipUnless(np, "no NumPy here")
    def test_rows_are_made_in_the_dtype(self):
        self.assertEqual(qn.tensor([np.array([0.1]), [0.1]], dtype="float64").tolist(), [[0.1], [0.1]])
        self.assertEqual(qn.tensor([np.array([0.1]), [0.1]]).tolist(), [[0.1], [0.1]])
        self.assertEqual(qn.tensor([[0.1], np.array([0.1])], dtype="float64").tolist(), [[0.1], [0.1]])
        self.assertEqual(qn.tensor([qn.tensor(np.float64(1)), 0.1], dtype="float64").tolist(), [1, 0.1])
        with self.assertRaises(OverflowError):
            qn.tensor([np.array([1]), [300]], dtype="int8")


if __name__ == "__main__":
    unittest.main()
