"""Memory shared with NumPy, PyTorch and JAX, both ways: without a copy, held as long as it is used."""

import ctypes
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

    @unittest.skipUnless(hasattr(torch and torch.Tensor, "__dlpack_c_exchange_api__"), "PyTorch has no table yet")
    def test_arrays_come_by_the_table_of_their_type(self):
        class Mute(torch.Tensor):
            def __dlpack__(self, **more):
                raise AssertionError("asked")

        t = torch.arange(6, dtype=torch.float32).reshape(2, 3).as_subclass(Mute)
        x = qn.from_dlpack(t)
        self.assertEqual((address(x), x.tolist()), (t.data_ptr(), [[0, 1, 2], [3, 4, 5]]))
        self.assertNotEqual(address(qn.from_dlpack(t, copy=True)), t.data_ptr())
        with self.assertRaises(AssertionError):  # what the table does not say
            qn.from_dlpack(t.T)

    def test_values_that_are_still_to_be_changed_are_never_taken_as_they_lie(self):
        z = torch.tensor([[1 + 2j, 3 + 4j]])
        for t in (z.conj(), z.conj().imag, z.conj()[0, :1], z.conj().imag[0, 1:], z.conj().imag[0, 0]):
            try:
                got = qn.from_dlpack(t).tolist()
            except BufferError:  # PyTorch says so of what is conjugated
                continue
            self.assertEqual(got, t.tolist())
        for t in (torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.ones(2))):
            with self.assertRaises(BufferError):
                qn.from_dlpack(t)
            self.assertEqual(qn.from_dlpack(t.detach()).sum().item(), len(t))

    def test_memory_taken_by_the_table_is_held_and_let_go(self):
        seen = []
        for _ in range(3):
            t = torch.ones(1000)
            seen.append(weakref.ref(t.untyped_storage()))
            x = qn.from_dlpack(t)
            at = t.data_ptr()
            del t
            gc.collect()
            junk = [torch.zeros(1000) for _ in range(8)]
            self.assertNotIn(at, [j.data_ptr() for j in junk])
            self.assertEqual(x.sum().item(), 1000)


class ManagedTensor(ctypes.Structure):
    """What DLPack's table hands over; its fields by their places, as the specification has them."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p),
                ("device", ctypes.c_int32), ("number", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class Table(unittest.TestCase):
    """Tensor.__dlpack_c_exchange_api__, called as an extension module of another library does."""

    REFUSE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)

    @classmethod
    def setUpClass(cls):
        at = ctypes.pythonapi.PyCapsule_GetPointer
        at.restype, at.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        first = at(qn.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
        cls.version = tuple((ctypes.c_uint32 * 2).from_address(first))
        cls.previous, allocate, give, take, cls.lend, stream = (ctypes.c_size_t * 6).from_address(first + 8)
        p = ctypes.POINTER
        cls.allocate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, p(p(ManagedTensor)), ctypes.c_void_p,
                                        cls.REFUSE)(allocate)
        cls.give = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, p(p(ManagedTensor)))(give)
        cls.take = ctypes.PYFUNCTYPE(ctypes.c_int, p(ManagedTensor), p(ctypes.py_object))(take)
        cls.stream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, p(ctypes.c_void_p))(stream)

    def given(self, x):
        m = ctypes.POINTER(ManagedTensor)()
        self.assertEqual(type(self).give(x, ctypes.byref(m)), 0)
        return m

    def taken(self, m):
        made = ctypes.py_object()
        self.assertEqual(type(self).take(m, ctypes.byref(made)), 0)
        return made.value

    @staticmethod
    def delete(m):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(m.contents.deleter)(ctypes.cast(m, ctypes.c_void_p))

    def test_its_version_and_what_it_has_not(self):
        self.assertEqual((self.version, self.previous, self.lend), ((1, 3), 0, 0))
        s = ctypes.c_void_p(1)
        self.assertEqual((type(self).stream(1, 0, ctypes.byref(s)), s.value), (0, None))

    def test_a_tensor_is_given_with_its_value_read_only(self):
        x = qn.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "float64") * 2
        m = self.given(x)
        v = m.contents
        self.assertEqual((v.major, v.flags, v.device, v.ndim, v.code, v.bits, v.lanes), (1, 1, 1, 2, 2, 64, 1))
        self.assertEqual((v.shape[:2], v.strides[:2]), ([2, 3], [3, 1]))
        x.assign(x + 1)
        x.realize()
        del x
        gc.collect()
        self.assertEqual(list((ctypes.c_double * 6).from_address(v.data + v.offset)), [2, 4, 6, 8, 10, 12])
        self.delete(m)

    def test_what_is_given_comes_back_as_it_lies(self):
        x = qn.arange(1000, dtype="int32") + 5
        m = self.given(x)
        at = m.contents.data
        y = self.taken(m)
        self.assertEqual((y.dtype, y.shape, y.sum().item()), (qn.int32, (1000,), 1000 * 999 // 2 + 5000))
        self.assertEqual(ctypes.addressof(ctypes.c_char.from_address(at)), self.given(y).contents.data)

    def test_memory_is_made_for_others_to_fill(self):
        size = (ctypes.c_int64 * 2)(3, 5)
        asked = ManagedTensor(device=1, ndim=2, code=0, bits=16, lanes=1, shape=size)
        prototype = ctypes.addressof(asked) + ManagedTensor.data.offset
        m = ctypes.POINTER(ManagedTensor)()
        refused = []
        refuse = self.REFUSE(lambda context, kind, message: refused.append((kind, message)))
        self.assertEqual(type(self).allocate(prototype, ctypes.byref(m), None, refuse), 0)
        memory = (ctypes.c_int16 * 15).from_address(m.contents.data)
        self.assertEqual((m.contents.data % 64, m.contents.strides[:2]), (0, [5, 1]))
        memory[:] = range(15)
        y = self.taken(m)
        self.assertEqual(y.tolist(), [list(range(5 * i, 5 * i + 5)) for i in range(3)])
        for field, value in (("device", 2), ("ndim", 13), ("bits", 4), ("lanes", 0)):
            old = getattr(asked, field)
            setattr(asked, field, value)
            self.assertEqual(type(self).allocate(prototype, ctypes.byref(m), None, refuse), -1)
            self.assertEqual(refused.pop()[0], b"BufferError")
            setattr(asked, field, old)
        size[0] = 1 << 62
        self.assertEqual(type(self).allocate(prototype, ctypes.byref(m), None, refuse), -1)

    def test_what_cannot_be_is_an_exception(self):
        with self.assertRaisesRegex(TypeError, "not a tensor"):
            self.given(3)
        m = self.given(qn.tensor([1.0, 2.0]))
        m.contents.lanes = 4
        with self.assertRaises(TypeError):
            self.taken(m)


@unittest.skipUnless(jnp and np, "no JAX here")
class WithJax(unittest.TestCase):
    def test_memory_is_shared_both_ways(self):
        a = jnp.arange(6.0).reshape(2, 3)
        self.assertEqual(qn.from_dlpack(a).tolist(), a.tolist())
        self.assertEqual(jnp.from_dlpack(qn.tensor([[1.0, 2.0]])).tolist(), [[1, 2]])


if __name__ == "__main__":
    unittest.main()
