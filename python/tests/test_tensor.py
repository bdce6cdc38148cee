"""Tensors as objects of Python: how they are made, what they say of themselves, operators, copies."""

import copy
import ctypes
import inspect
import math
import pickle
import re
import threading
import time
import unittest
import weakref
from pathlib import Path

import quern as qn

FOLDER = Path(__file__).resolve().parent.parent


class Making(unittest.TestCase):
    def test_numbers_of_python_have_the_dtypes_of_pytorch(self):
        for value, dtype in ((True, qn.bool), (3, qn.int64), (2.5, qn.float32), ([1, 2.5], qn.float32),
                             ([True, 2], qn.int64), ([], qn.float32), ([[True]], qn.bool)):
            self.assertIs(qn.tensor(value).dtype, dtype)

    def test_nested_lists_come_back(self):
        for value in ([[1, 2], [3, 4]], [[[0.5]]], [], [[], []], 7, [True, False], [2**62, -2**63]):
            self.assertEqual(qn.tensor(value).tolist(), value)

    def test_rows_of_several_lengths_are_refused(self):
        for value in ([[1, 2], [3]], [1, [2]], [[1], 2], [[1], [[2]]]):
            with self.assertRaises(ValueError):
                qn.tensor(value)

    def test_what_is_no_number_is_refused(self):
        for value in ("text", [None], object(), {"a": 1}, [1, "2"]):
            with self.assertRaises(TypeError):
                qn.tensor(value)

    def test_integers_beyond_a_dtype_are_refused(self):
        for value, dtype in ((256, "uint8"), (-1, "uint8"), (2**31, "int32"), (2**63, "int64"), (-2**63 - 1, None)):
            with self.assertRaises(OverflowError):
                qn.tensor(value, dtype)
        self.assertEqual(qn.tensor(2**64 - 1, "uint64").item(), 2**64 - 1)

    def test_every_dtype_holds_small_numbers(self):
        dtypes = [d for d in vars(qn).values() if isinstance(d, qn.dtype)]
        self.assertGreaterEqual(len(dtypes), 15)
        for dtype in dtypes:
            self.assertEqual(qn.tensor([0, 1], dtype).tolist(), [0, 1])
            self.assertEqual(qn.ones((2, 2), dtype).tolist(), [[1, 1], [1, 1]])

    def test_narrow_floats_read_exactly(self):
        for dtype, values in (("bfloat16", [1.0078125, -3.0e38 * 0, 2.0**-126, math.inf]),
                              ("float16", [1.0009765625, 65504.0, 2.0**-24, -math.inf]),
                              ("float8_e4m3", [1.125, 448.0, 2.0**-9, -0.0]),
                              ("float8_e5m2", [1.25, 57344.0, 2.0**-16, math.inf])):
            self.assertEqual(qn.tensor(values, dtype).tolist(), values)

    def test_dtypes_have_several_names(self):
        for name in ("float32", "f32", qn.float32, float):
            self.assertIs(qn.zeros(1, name).dtype, qn.float32)
        self.assertIs(qn.zeros(1, bool).dtype, qn.bool)
        self.assertIs(qn.zeros(1, int).dtype, qn.int64)
        for name in ("float", "f33", 3, None.__class__):
            with self.assertRaises(TypeError):
                qn.zeros(1, name)

    def test_arange_and_full_follow_their_numbers(self):
        self.assertEqual(qn.arange(3).tolist(), [0, 1, 2])
        self.assertIs(qn.arange(3).dtype, qn.int64)
        self.assertEqual(qn.arange(1, 2, 0.25).tolist(), [1, 1.25, 1.5, 1.75])
        self.assertEqual(qn.arange(5, 0, -2, dtype="float64").tolist(), [5, 3, 1])
        self.assertIs(qn.full((2,), True).dtype, qn.bool)
        self.assertEqual(qn.full((), 2**60 + 1).item(), 2**60 + 1)
        self.assertEqual(qn.eye(2).tolist(), [[1, 0], [0, 1]])

    def test_bytes_become_a_tensor(self):
        x = qn.from_bytes(b"\1\0\2\0", "int16", (2,))
        self.assertEqual(x.tolist(), [1, 2])
        self.assertEqual(x.tobytes(), b"\1\0\2\0")
        with self.assertRaises(ValueError):
            qn.from_bytes(b"\1", "int16", (1,))


class Attributes(unittest.TestCase):
    def test_they_say_shape_dtype_and_size(self):
        x = qn.zeros((2, 3), "float64")
        self.assertEqual((x.shape, x.ndim, x.size, x.itemsize, x.nbytes, len(x)), ((2, 3), 2, 6, 8, 48, 2))
        self.assertEqual((x.T.shape, x.mT.shape), ((3, 2), (3, 2)))
        self.assertEqual(x.device, qn.default_device())
        self.assertEqual(qn.zeros((1, 2, 3)).T.shape, (3, 2, 1))

    def test_scalars_are_numbers_of_python(self):
        self.assertEqual(int(qn.tensor(3.7)), 3)
        self.assertEqual(float(qn.tensor([[2]])), 2.0)
        self.assertTrue(qn.tensor(True))
        self.assertEqual(range(5)[qn.tensor(3)], 3)
        for wrong in (lambda: int(qn.zeros(2)), lambda: bool(qn.zeros(0)), lambda: len(qn.tensor(1))):
            with self.assertRaises((ValueError, TypeError)):
                wrong()
        with self.assertRaises(TypeError):
            range(5)[qn.tensor(1.0)]

    def test_rows_are_iterated_over(self):
        self.assertEqual([r.tolist() for r in qn.tensor([[1, 2], [3, 4]])], [[1, 2], [3, 4]])
        a, b = qn.tensor([5, 6])
        self.assertEqual((a.item(), b.item()), (5, 6))
        self.assertTrue(3 in [int(v) for v in qn.arange(4)])

    def test_names_are_kept(self):
        x = qn.zeros(2)
        self.assertIsNone(x.name)
        x.name = "weight"
        self.assertEqual(x.name, "weight")

    def test_they_are_hashed_by_identity_and_referenced_weakly(self):
        x = qn.zeros(2)
        self.assertIn(x, {x: 1})
        r = weakref.ref(x)
        self.assertIs(r(), x)
        del x
        self.assertIsNone(r())


class Operators(unittest.TestCase):
    def test_numbers_change_no_dtype_of_their_kind(self):
        for dtype, whole, real in (("bool", "int64", "float32"), ("int8", "int8", "float32"),
                                   ("uint16", "uint16", "float32"), ("float16", "float16", "float16"),
                                   ("float64", "float64", "float64"), ("bfloat16", "bfloat16", "bfloat16")):
            x = qn.ones(2, dtype)
            if dtype != "bool":
                self.assertEqual(str((x + 2).dtype), whole)
                self.assertEqual(str((2 * x).dtype), whole)
            self.assertEqual(str((x * 0.5).dtype), real)
            self.assertEqual(str(qn.maximum(x, 0.5).dtype), real)

    def test_arithmetic_is_pythons(self):
        for a, b in ((7, 2), (-7, 2), (7, -2), (5, 3)):
            x = qn.tensor(a)
            for f in (lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p // q,
                      lambda p, q: p % q, lambda p, q: p & q, lambda p, q: p | q, lambda p, q: p ^ q,
                      lambda p, q: p < q, lambda p, q: p == q, lambda p, q: p != q, lambda p, q: p >= q):
                self.assertEqual(f(x, b).item(), f(a, b))
                self.assertEqual(f(a, qn.tensor(b)).item(), f(a, b))
            self.assertAlmostEqual((x / b).item(), a / b, 6)
        self.assertEqual([(-qn.tensor(3)).item(), abs(qn.tensor(-3)).item(), (~qn.tensor(3)).item()], [-3, 3, -4])
        self.assertEqual(((qn.tensor(3) ** 2).item(), (2 ** qn.tensor(3)).item()), (9, 8))
        self.assertEqual(((qn.tensor(1) << 4).item(), (qn.tensor(256) >> 3).item()), (16, 32))
        self.assertEqual((qn.tensor([1.0, 2.0]) @ qn.tensor([3.0, 4.0])).item(), 11)

    def test_plus_gives_a_tensor_of_its_own(self):
        for values in [1.0, 2.0], [1j, 2.0], [1, 2]:
            x = qn.asarray(values)
            y = +x
            y[0] = 5
            self.assertEqual(x.tolist(), values)
            self.assertEqual(y.tolist(), [5, 2])

    def test_an_operation_in_place_leaves_what_was_recorded(self):
        x = qn.tensor([1.0, 2.0])
        y, same = x * 2, x
        x += 1
        self.assertIs(x, same)
        self.assertEqual((x.tolist(), y.tolist()), ([2, 3], [2, 4]))
        x *= x
        x -= 1
        x /= 2
        self.assertEqual(x.tolist(), [1.5, 4])
        with self.assertRaises(ValueError):
            x += qn.zeros((2, 2))
        with self.assertRaises(TypeError):
            y = qn.tensor([1])
            y /= 2

    def test_other_types_are_not_operands(self):
        for other in ("a", None, [1, 2], {}):
            with self.assertRaises(TypeError):
                qn.zeros(2) + other
        with self.assertRaises(OverflowError):
            qn.zeros(2, "int64") + 2**70

    def test_assign_writes_into_memory(self):
        x = qn.tensor([1.0, 2.0, 3.0])
        y = x + 0
        self.assertIs(x.assign(5), x)
        self.assertEqual((x.tolist(), y.tolist()), ([5, 5, 5], [1, 2, 3]))
        x[1:].assign(qn.tensor([7.0, 8.0]))
        self.assertEqual(x.tolist(), [5, 7, 8])


class Copies(unittest.TestCase):
    def test_pickle_and_copy_keep_everything(self):
        for dtype in ("float32", "bfloat16", "bool", "uint64", "float8_e4m3"):
            x = qn.ones((2, 3), dtype)
            for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
                self.assertEqual((y.tolist(), y.dtype, y.shape), (x.tolist(), x.dtype, x.shape))
        w = qn.tensor([1.0], requires_grad=True)
        self.assertTrue(pickle.loads(pickle.dumps(w)).requires_grad)
        self.assertTrue(copy.deepcopy([w])[0].requires_grad)
        self.assertIs(pickle.loads(pickle.dumps(qn.float32)), qn.float32)

    def test_buffers_say_shape_and_format(self):
        m = memoryview(qn.tensor([[1, 2], [3, 4]], "int16"))
        self.assertEqual((m.shape, m.format, m.itemsize, m.readonly), ((2, 2), "h", 2, True))
        self.assertEqual(m.tolist(), [[1, 2], [3, 4]])
        with self.assertRaises(BufferError):
            memoryview(qn.zeros(2, "bfloat16"))
        self.assertEqual(qn.tensor(memoryview(b"abc")).tolist(), [97, 98, 99])
        self.assertEqual(qn.tensor(memoryview(bytearray(range(6))).cast("B", (2, 3))).tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_a_buffer_is_row_by_row(self):
        class Request(ctypes.Structure):
            _fields_ = [("memory", ctypes.c_char * 256)]

        get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
        get.argtypes = [ctypes.py_object, ctypes.POINTER(Request), ctypes.c_int]
        release.argtypes = [ctypes.POINTER(Request)]
        strides, c, fortran, any_ = 0x18, 0x20, 0x40, 0x80
        for shape, flags, fine in (((2, 3), fortran, False), ((2, 3), c, True), ((2, 3), any_, True),
                                   ((3,), fortran, True), ((), fortran, True)):
            view = Request()
            if fine:
                get(qn.zeros(shape), ctypes.byref(view), flags | strides)
                release(ctypes.byref(view))
            else:
                with self.assertRaises(BufferError):
                    get(qn.zeros(shape), ctypes.byref(view), flags | strides)

    def test_devices_go_by_name(self):
        x = qn.tensor([1.0, 2.0])
        y = x.to("ref")
        self.assertEqual((y.device, (y + 1).tolist()), ("ref", [2, 3]))
        self.assertEqual(y.to(x.device).tolist(), [1, 2])
        self.assertEqual(qn.tensor([1], device="ref").device, "ref")
        with self.assertRaises(RuntimeError):
            x + y
        with self.assertRaises(RuntimeError):
            qn.tensor([1], device="abacus")


class Printing(unittest.TestCase):
    def test_small_tensors_print_whole(self):
        self.assertEqual(repr(qn.tensor([1, 2])), "tensor([1, 2], dtype=int64)")
        self.assertEqual(repr(qn.tensor([[1.5, -2.0], [0.25, 1e10]])),
                         "tensor([[       1.5,        -2.],\n        [      0.25, 1.0000e+10]], dtype=float32)")
        self.assertEqual(repr(qn.tensor(True)), "tensor(True, dtype=bool)")
        self.assertEqual(repr(qn.zeros((0, 3))), "tensor([], shape=(0, 3), dtype=float32)")
        self.assertEqual(str(qn.tensor([math.nan, math.inf])), "tensor([nan, inf], dtype=float32)")

    def test_large_tensors_print_their_ends(self):
        text = repr(qn.arange(10**6))
        self.assertEqual(text, "tensor([     0,      1,      2, ..., 999997, 999998, 999999], dtype=int64)")
        self.assertEqual(repr(qn.zeros((1000, 1000))).count("\n"), 6)

    def test_format_and_html(self):
        self.assertEqual(f"{qn.tensor(3.14159):.2f}", "3.14")
        self.assertIn("<td>2.</td>", qn.tensor([[1.0, 2.0]])._repr_html_())


class Generated(unittest.TestCase):
    """That every row has arrived everywhere."""

    def rows(self):
        text = re.sub(r'"\n +"', "", (FOLDER / "src/calls.h").read_text())
        return re.findall(r'^[XY]\((\w+), "([^"]+)",\s+"([^"]*)"', text, re.M)

    def test_functions_and_methods_are_there_with_signatures(self):
        self.assertGreater(len(self.rows()), 290)
        for _, names, spec in self.rows():
            for name in names.split("|"):
                f = getattr(qn, name)
                words = [w.partition(":")[0] for w in spec.split() if w != "*"]
                found = [p for p in inspect.signature(f).parameters if p != "more"]  # of what may come one by one
                self.assertEqual(found, words, name)
                self.assertGreater(len(f.__doc__), 3)
                if spec.startswith("x:T") or spec.startswith("x:S"):
                    self.assertTrue(callable(getattr(qn.Tensor, name)))

    def test_stubs_are_python_and_have_every_function(self):
        text = (FOLDER / "quern/_core.pyi").read_text()
        compile(text, "_core.pyi", "exec")
        for _, names, _ in self.rows():
            for name in names.split("|"):
                self.assertRegex(text, rf"\ndef {name}\(")

    def test_bad_arguments_are_named(self):
        x = qn.zeros((2, 2))
        for call, text in ((lambda: qn.sum(), "sum.* x"), (lambda: qn.sum(x, axes=1), "axes"),
                           (lambda: qn.sum(x, 0, axis=1), "axis"), (lambda: qn.exp(x, 1, 2), "exp"),
                           (lambda: qn.sum(x, axis=1.5), "1.5"), (lambda: qn.reshape(x, "ab"), "reshape"),
                           (lambda: qn.concat(x), "concat"), (lambda: qn.concat([x, 1]), "1")):
            self.assertRaisesRegex(TypeError, text, call)
        self.assertRaisesRegex(ValueError, "reflect", lambda: qn.pad(x, (0, 0, 1, 1), mode="mirror"))


class Threads(unittest.TestCase):
    def test_several_threads_compute_at_once(self):
        results = [None] * 4

        def work(k):
            x = qn.full((64, 64), k, "float64")
            for _ in range(20):
                x = (x @ qn.eye(64, dtype="float64") + 1).realize()
            results[k] = x[0, 0].item()

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, [20, 21, 22, 23])

    def order(self, access):
        """Who is first: the access, or the thread that computes when it begins?"""
        order, begun = [], threading.Event()
        x = qn.full((900, 900), 0.001, "float64")
        for _ in range(4):
            x = x @ x + 0.5

        def work():
            begun.set()
            x.realize()
            order.append("computed")

        thread = threading.Thread(target=work)

        def meanwhile():
            if not thread.ident:
                thread.start()
                begun.wait()
                time.sleep(0.02)

        access(meanwhile)
        order.append("accessed")
        thread.join()
        return order

    def test_what_asks_a_tensor_waits_until_no_thread_computes(self):
        y = qn.tensor([[1.0, 2.0]])

        class Number:
            def __index__(self):
                self.meanwhile()
                return 0

            def __array__(self, *args, **more):
                self.meanwhile()
                return memoryview(b"12")

        class Row(Number):
            __array__ = None

        def beside(what):
            def access(meanwhile):
                meanwhile()
                what()
            return access

        def within(what, kind=Row):
            def access(meanwhile):
                kind.meanwhile = staticmethod(meanwhile)
                what(kind())
            return access

        del Row.__array__
        for name, access in (("shape", beside(lambda: y.shape)), ("dtype", beside(lambda: y.dtype)),
                             ("ndim", beside(lambda: y.ndim)), ("size", beside(lambda: y.size)),
                             ("len", beside(lambda: len(y))), ("nbytes", beside(lambda: y.nbytes)),
                             ("requires_grad", beside(lambda: setattr(y, "requires_grad", False))),
                             ("index", within(lambda i: y[i])), ("reshape", within(lambda i: y.flip(i)))):
            self.assertEqual(self.order(access), ["computed", "accessed"], name)


if __name__ == "__main__":
    unittest.main()
