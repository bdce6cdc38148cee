"""Memory shared with NumPy, PyTorch and JAX, both ways: without a copy, held as long as it is used."""

import gc
import unittest
import weakref

import quern as qn

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None
try:
    import jax.numpy as jnp
except ImportError:
    jnp = None


def address(x):
    return np.asarray(x).ctypes.data  # old versions of NumPy's from_dlpack are given a copy


@unittest.skipUnless(np, "no NumPy here")
class WithNumPy(unittest.TestCase):
    def test_given_memory_is_the_tensors_own_and_read_only(self):
        x = qn.tensor([[1.0, 2.0], [3.0, 4.0]])
        a, b, c = np.asarray(x), np.from_dlpack(x), np.asarray(memoryview(x))
        self.assertEqual(len({v.ctypes.data for v in (a, b, c)}), 1)
        for v in (a, b, c):
            self.assertFalse(v.flags.writeable)
        self.assertTrue(np.array(x).flags.writeable)

    def test_given_memory_keeps_its_value(self):
        x = qn.tensor([1.0, 2.0, 3.0])
        a = np.asarray(x)
        for _ in range(3):
            x.assign(x * 2)
            x.realize()
        self.assertEqual((a.tolist(), x.tolist()), ([1, 2, 3], [8, 16, 24]))
        del x
        gc.collect()
        self.assertEqual(a.tolist(), [1, 2, 3])

    def test_bools_of_other_bytes_are_true(self):
        raw = np.tile(np.array([0, 1, 2, 255], "uint8"), 64).view(bool)
        given = [qn.tensor(raw)]
        try:
            given.append(qn.from_dlpack(raw))
        except BufferError:
            pass  # NumPy before 1.25 gives no bools
        for x in given:
            self.assertEqual(x.sum().item(), 192)
            self.assertEqual(x.mean().item(), 0.75)
            self.assertEqual(np.asarray(x).view("uint8").max(), 1)

    def test_computed_values_are_given(self):
        y = qn.arange(1000, dtype="float32") * 2
        self.assertTrue((np.asarray(y) == np.arange(1000) * 2).all())
        self.assertEqual(np.asarray(y[3:5]).tolist(), [6, 8])
        self.assertEqual(np.asarray(qn.zeros((0, 3))).shape, (0, 3))
        self.assertEqual(np.asarray(qn.tensor(2.5)).shape, ())

    def test_taken_memory_is_not_copied_where_it_lies_right(self):
        room = np.zeros(1024 + 16, np.float32)
        at = (-room.ctypes.data % 64) // 4
        a = room[at:at + 1024].reshape(32, 32)
        x = qn.from_dlpack(a)
        self.assertEqual(address(x), a.ctypes.data)
        copied = qn.from_dlpack(a, copy=True)
        self.assertNotEqual(address(copied), a.ctypes.data)
        for other in (room[at + 1:at + 1025], a.T, a[::2, 1:]):
            y = qn.from_dlpack(other)
            self.assertEqual(y.tolist(), other.tolist())

    def test_taken_memory_is_held_and_let_go(self):
        for at in (0, 1):  # at a multiple of 64 bytes, and not
            room = np.zeros(1024 + 16)
            first = (-room.ctypes.data % 64) // 8 + at
            a = room[first:first + 1000]
            a[:] = np.arange(1000)
            seen = weakref.ref(room)
            x = qn.from_dlpack(a)
            del room, a
            gc.collect()
            self.assertIsNotNone(seen())
            self.assertEqual(x[5].item(), 5)
            qn.set_knob("history", "0")
            del x
            (qn.ones(2) + 1).tolist()
            gc.collect()
            self.assertIsNone(seen())
            qn.set_knob("history", "32")

    def test_taken_memory_is_not_written(self):
        a = np.arange(4096, dtype=np.float32)
        x = qn.from_dlpack(a)
        x.assign(x + 1)
        x += 1
        x[0] = 100
        self.assertEqual(x[:3].tolist(), [100, 3, 4])
        self.assertTrue((a == np.arange(4096)).all())

    def test_every_dtype_goes_both_ways(self):
        for name in ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
                     "complex128").split():
            x = qn.tensor([[0, 1], [1, 0]], name)
            if name == "bool" and np.lib.NumpyVersion(np.__version__) < "1.25.0":
                continue  # it knows none there
            a = np.from_dlpack(x)
            self.assertEqual((a.dtype.name, a.tolist()), (name, x.tolist()))
            y = qn.from_dlpack(a if a.flags.writeable else a.copy())
            self.assertEqual((y.dtype.name, y.tolist()), (name, x.tolist()))

    def test_old_consumers_get_a_copy(self):
        x = qn.tensor([1.0, 2.0])
        capsule = x.__dlpack__()
        self.assertIn('"dltensor"', repr(capsule))
        del capsule
        self.assertIn("dltensor_versioned", repr(x.__dlpack__(max_version=(1, 0))))
        self.assertIn('"dltensor"', repr(x.__dlpack__(copy=False)))
        with self.assertRaises(BufferError):
            x.__dlpack__(dl_device=(2, 0))
        self.assertEqual(x.__dlpack_device__(), (1, 0))

    def test_a_capsule_is_taken_once(self):
        class Once:
            def __init__(self, c):
                self.c = c

            def __dlpack__(self, **more):
                return self.c

        c = qn.tensor([1.0]).__dlpack__(max_version=(1, 0))
        self.assertEqual(qn.from_dlpack(Once(c)).tolist(), [1])
        with self.assertRaises(TypeError):
            qn.from_dlpack(Once(c))
        with self.assertRaises(AttributeError):
            qn.from_dlpack(3)


@unittest.skipUnless(torch and np, "no PyTorch here")
class WithPyTorch(unittest.TestCase):
    def test_memory_is_shared_both_ways(self):
        t = torch.arange(64, dtype=torch.float32).reshape(8, 8)
        x = qn.from_dlpack(t)
        self.assertEqual(address(x), t.data_ptr())
        self.assertEqual((x + 1).tolist(), (t + 1).tolist())
        y = qn.tensor([[1.0, 2.0]]).realize()
        back = torch.from_dlpack(y)
        self.assertEqual((back.data_ptr(), back.tolist()), (address(y), [[1, 2]]))

    def test_narrow_floats_come_and_go(self):
        t = torch.tensor([1.5, -2.25], dtype=torch.bfloat16)
        x = qn.from_dlpack(t)
        self.assertEqual((x.dtype, x.tolist()), (qn.bfloat16, [1.5, -2.25]))
        self.assertEqual(torch.from_dlpack(x).dtype, torch.bfloat16)
        self.assertEqual(qn.tensor(t[::2]).tolist(), [1.5])
        self.assertEqual(qn.tensor(torch.eye(3).T[1:]).tolist(), [[0, 1, 0], [0, 0, 1]])


@unittest.skipUnless(jnp and np, "no JAX here")
class WithJax(unittest.TestCase):
    def test_memory_is_shared_both_ways(self):
        a = jnp.arange(6.0).reshape(2, 3)
        self.assertEqual(qn.from_dlpack(a).tolist(), a.tolist())
        self.assertEqual(jnp.from_dlpack(qn.tensor([[1.0, 2.0]])).tolist(), [[1, 2]])


if __name__ == "__main__":
    unittest.main()
