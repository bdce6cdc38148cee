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


class Complex(unittest.TestCase):
    """What the standard has of complex numbers and the package's own functions have not."""

    A = [[1 + 2j, 0.5 - 1j, 3j], [2, -1 + 1j, 0.25], [0, 0, 0], [1j, 1, -1]]

    def near(self, x, y, places=12):
        self.assertEqual(x.shape, y.shape)
        self.assertLess(abs(x - y).max().item() if x.size else 0, 10**-places)

    def adjoint(self, x):
        return xp.conj(x).mT

    def test_factors_of_matrices(self):
        whole = qn.tensor(self.A, "complex128")
        for x in (whole, whole.mT, whole[:3], whole[:1], whole * 0, whole[:, :0], qn.stack([whole, whole * 1j])):
            m, n = x.shape[-2:]
            for mode in ("reduced", "complete"):
                q, r = linalg.qr(x, mode=mode)
                self.near(q @ r, x)
                one = xp.eye(q.shape[-1], dtype=x.dtype)
                self.near(self.adjoint(q) @ q, one.broadcast_to(q.shape[:-2] + one.shape))
            for full in (False, True):
                u, s, vh = linalg.svd(x, full_matrices=full)
                k = min(m, n)
                self.near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x)
                self.assertEqual(s.tolist(), xp.sort(s, descending=True).tolist())

    def test_determinants_and_roots_of_matrices(self):
        x = qn.tensor(self.A, "complex128")[:3] + xp.eye(3, dtype=xp.complex128)
        wanted = sum(x[0, i] * (x[1, j] * x[2, k] - x[1, k] * x[2, j]) for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)))
        self.near(linalg.det(x), wanted)
        sign, log = linalg.slogdet(x)
        self.near(sign * xp.exp(log), wanted)
        self.assertEqual(linalg.det(xp.zeros((2, 2), dtype=xp.complex64)).item(), 0)
        h = x @ self.adjoint(x) + xp.eye(3)
        for upper in (False, True):
            r = linalg.cholesky(h, upper=upper)
            self.near(self.adjoint(r) @ r if upper else r @ self.adjoint(r), h)
        self.assertEqual(linalg.matrix_rank(qn.tensor(self.A, "complex128")).item(), 3)
        self.near(x @ linalg.pinv(x, rtol=qn.tensor(1e-9, "float64")), xp.eye(3, dtype=x.dtype))

    def test_sets_roundings_and_signs(self):
        x = qn.tensor([1 + 1j, 0, 1 + 1j, 1 - 1j])
        u = xp.unique_all(x)
        self.assertEqual((u.values.tolist(), u.counts.tolist()), ([0, 1 - 1j, 1 + 1j], [1, 1, 2]))
        self.assertEqual(u.values.take(u.inverse_indices, 0).tolist(), x.tolist())
        self.assertEqual(xp.nonzero(x)[0].tolist(), [0, 2, 3])
        self.assertEqual(xp.round(qn.tensor([1.5 + 2.5j])).tolist(), [2 + 2j])
        self.assertEqual(str(xp.sign(qn.tensor([complex(-0.0, -0.0)])).tolist()[0]), "0j")

    def test_exponentials_at_the_ends(self):
        inf, nan = float("inf"), float("nan")
        for f, z, re, im in ((xp.exp, complex(-inf, nan), 0, 0), (xp.exp, complex(inf, inf), inf, nan),
                             (xp.expm1, complex(-inf, inf), -1, 0), (xp.cosh, complex(nan, 0), nan, 0),
                             (xp.tanh, complex(inf, nan), 1, 0), (xp.acos, complex(0, nan), xp.pi / 2, nan),
                             (xp.atanh, complex(1.5, nan), nan, nan), (xp.asinh, complex(nan, 0), nan, 0)):
            y = f(qn.tensor([z])).tolist()[0]
            for part, wanted in ((y.real, re), (y.imag, im)):
                same = part == wanted or part != part and wanted != wanted or abs(part - wanted) < 1e-6
                self.assertTrue(same, (f, z, y))
        self.assertEqual(str(xp.expm1(qn.tensor([complex(-0.0, 0.0)])).tolist()[0]), "0j")
        for z, wanted in ((complex(inf, 2), 1 + 0j), (complex(-inf, 2), -1 + 0j), (complex(inf, -2), 1 - 0j)):
            y = xp.tanh(qn.tensor([z])).tolist()[0]
            self.assertEqual((y, str(y.imag)), (wanted, str(-0.0 if z.imag < 0 else 0.0)))

    def test_products_of_no_axes_and_of_several(self):
        x = qn.tensor([[1 + 2j, 3 - 1j], [2j, 1]])
        self.assertEqual(xp.prod(x, axis=()).tolist(), x.tolist())
        self.assertEqual(xp.prod(x, axis=(0, -1)).item(), (1 + 2j) * (3 - 1j) * 2j)
        self.assertEqual(xp.prod(x, axis=(1, 0), keepdims=True).shape, (1, 1))

    def test_quotients_of_infinities(self):
        inf = float("inf")
        x, y = qn.tensor([inf, inf, -inf, 1.0, -1.0, 7.0]), qn.tensor([2.0, -2.0, 2.0, -inf, inf, 2.0])
        self.assertEqual(str(xp.floor_divide(x, y).tolist()), "[inf, -inf, -inf, -0.0, -0.0, 3.0]")
        self.assertEqual(str(xp.floor_divide(qn.tensor(-1.0), inf).item()), "-0.0")
        self.assertEqual(xp.floor_divide(qn.tensor(7), 2).item(), 3)
        self.assertEqual((qn.tensor(-1.0) // inf).item(), -1.0 // inf)             # the operator is Python's


class Edges(unittest.TestCase):
    def test_masks_without_elements_choose_nothing(self):
        x = qn.ones((1, 2))
        none = qn.zeros((0,), "bool")
        self.assertEqual((x[none].shape, x[qn.zeros((1, 0), "bool")].shape), ((0, 2), (0,)))
        for x, mask in ((qn.ones(()), none), (qn.ones(3), qn.ones(2, "bool")), (qn.ones(3), qn.ones((3, 1), "bool"))):
            with self.assertRaises(IndexError):
                x[mask]

    def test_sizes_and_ends(self):
        self.assertEqual(xp.eye(2, k=2**63).tolist(), [[0, 0], [0, 0]])
        sixths = xp.linspace(0.0, 1.0, 6, dtype=xp.float64, endpoint=False)
        self.assertEqual(sixths.tolist(), [k * (1 / 6) for k in range(6)])
        self.assertEqual(xp.repeat(xp.arange(20), xp.asarray([2] * 20)).shape, (40,))
        a, b = xp.broadcast_arrays(xp.zeros(2, dtype=xp.bool), xp.zeros((3, 1), dtype=xp.complex64))
        self.assertEqual((a.shape, a.dtype, b.dtype), ((3, 2), xp.bool, xp.complex64))


if __name__ == "__main__":
    unittest.main()
