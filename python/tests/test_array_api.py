"""The array API's namespace: what the standard says beyond the functions that other tests have. The public suite is
run by `make array-api`."""

import inspect
import unittest

import quern as qn
from quern import array_api as xp
from quern import linalg


class Namespace(unittest.TestCase):
    def test_it_is_found_by_its_arrays(self):
        self.assertIs(qn.zeros(1).__array_namespace__(), xp)
        self.assertIs(qn.zeros(1).__array_namespace__(api_version="2024.12"), xp)
        with self.assertRaises(ValueError):
            qn.zeros(1).__array_namespace__(api_version="1999.01")
        info = xp.__array_namespace_info__()
        self.assertIn("float32", info.dtypes(kind="real floating"))
        self.assertEqual(info.default_dtypes()["integral"], xp.int64)

    def test_sums_follow_the_standards_dtypes(self):
        x = xp.asarray([[1, 2], [3, 4]], dtype=xp.uint8)
        for axis in (None, 0, (0, 1), ()):
            for dtype, wanted in ((None, xp.uint64), (xp.int32, xp.int32)):
                y = xp.sum(x, axis=axis, dtype=dtype)
                self.assertEqual(y.dtype, wanted)
        self.assertEqual(xp.sum(x).item(), 10)
        self.assertEqual(xp.prod(x, axis=None, keepdims=True).tolist(), [[24]])
        self.assertIs(xp.sum(xp.ones(2, dtype=xp.float32)).dtype, xp.float32)
        self.assertEqual(xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True).tolist(), [0, 1, 3, 6])

    def test_dtypes_are_asked_of(self):
        self.assertTrue(xp.isdtype(xp.int8, ("signed integer", "bool")))
        self.assertFalse(xp.isdtype(xp.float32, "integral"))
        self.assertTrue(xp.can_cast(xp.int8, xp.int16))
        self.assertFalse(xp.can_cast(xp.int16, xp.uint16))
        self.assertIs(xp.result_type(xp.int8, qn.zeros(1, "uint8"), 3), xp.int16)
        self.assertIs(xp.result_type(xp.float32, 1.5), xp.float32)
        self.assertEqual((xp.iinfo(xp.uint8).max, xp.iinfo(xp.int8).min), (255, -128))
        self.assertEqual(xp.finfo(xp.float32).eps, 2.0**-23)

    def test_sets_and_places(self):
        x = xp.asarray([3, 1, 3, 2])
        u = xp.unique_all(x)
        self.assertEqual([v.tolist() for v in u], [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]])
        self.assertEqual([v.tolist() for v in xp.nonzero(xp.asarray([[0, 1], [2, 0]]))], [[0, 1], [1, 0]])
        self.assertEqual(xp.unstack(xp.zeros((0, 2))), ())
        self.assertEqual(xp.searchsorted(xp.asarray([1, 2, 4]), xp.asarray([2, 3]), side="right").tolist(), [2, 2])

    def test_bases_are_completed(self):
        x = qn.randn(qn.key(1), (2, 5, 3), "float64")
        u, s, vh = linalg.svd(x)
        self.assertEqual((u.shape, vh.shape), ((2, 5, 5), (2, 3, 3)))
        self.assertTrue(qn.allclose(u.mT @ u, qn.eye(5, dtype="float64"), 1e-9, 1e-9))
        q, r = linalg.qr(x, mode="complete")
        self.assertEqual((q.shape, r.shape), ((2, 5, 5), (2, 5, 3)))
        self.assertTrue(qn.allclose(q @ r, x, 1e-9, 1e-9))
        self.assertTrue(qn.allclose((u[..., :3] * s[..., None, :]) @ vh, x, 1e-9, 1e-9))

    def test_norms(self):
        x = qn.tensor([[3.0, 4.0], [0.0, 0.0]], "float64")
        found = [linalg.matrix_norm(x, ord=o).item() for o in ("fro", "nuc", 1, -1, float("inf"), 2, -2)]
        for a, b in zip(found, (5, 5, 4, 3, 7, 5, 0), strict=True):
            self.assertAlmostEqual(a, b, 9)
        self.assertEqual(linalg.vector_norm(x, axis=(0, 1)).item(), 5)

    def test_complex_numbers_are_numbers(self):
        z = xp.asarray([1 + 2j, -3j])
        self.assertEqual((z.dtype, z.tolist()), (xp.complex64, [1 + 2j, -3j]))
        self.assertEqual((z * 1j).tolist(), [-2 + 1j, 3])
        self.assertEqual((xp.real(z).tolist(), xp.imag(z).tolist(), xp.conj(z).tolist()),
                         ([1, 0], [2, -3], [1 - 2j, 3j]))
        self.assertEqual((xp.ones(2, dtype=xp.float64) * 2j).dtype, xp.complex128)
        self.assertEqual(complex(xp.asarray(2.5)), 2.5)
        self.assertEqual(xp.full((2,), 1j).tolist(), [1j, 1j])
        self.assertEqual(memoryview(z).format, "Zf")
        with self.assertRaises(TypeError):
            xp.asarray([1j], dtype=xp.float32)

    def test_transforms_are_of_complex_numbers(self):
        x = xp.asarray([1.0, 2.0, 0.0, -1.0], dtype=xp.float64)
        wanted = [2, 1 - 3j, 0, 1 + 3j]
        for f, n in ((xp.fft.fft, 4), (xp.fft.rfft, 3)):
            y = f(x)
            self.assertIs(y.dtype, xp.complex128)
            for a, b in zip(y.tolist(), wanted[:n], strict=True):
                self.assertAlmostEqual(abs(a - b), 0, 12)
        self.assertTrue(qn.allclose(xp.fft.irfft(xp.fft.rfft(x)), x, 1e-12, 1e-12))
        m = qn.randn(qn.key(1), (3, 4), "float64")
        self.assertTrue(qn.allclose(xp.fft.irfftn(xp.fft.rfftn(m), s=(3, 4)), m, 1e-12, 1e-12))
        self.assertTrue(qn.allclose(xp.real(xp.fft.ifftn(xp.fft.fftn(m))), m, 1e-12, 1e-12))

    def test_what_may_be_by_keyword_alone_is(self):
        for f, name in ((xp.sum, "axis"), (xp.sort, "descending"), (xp.std, "correction"), (xp.zeros, "dtype")):
            self.assertEqual(inspect.signature(f).parameters[name].kind, inspect.Parameter.KEYWORD_ONLY)


if __name__ == "__main__":
    unittest.main()
