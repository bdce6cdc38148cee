"""Functions beside NumPy, at values drawn at random: the way of their arguments, for what they compute is held
against oracles in C."""

import unittest

import quern as qn

try:
    import numpy as np
except ImportError:
    np = None

# name: how the arguments are made. Same name and arguments in NumPy unless the third says otherwise.
ONE = "abs sqrt cbrt exp exp2 expm1 log log2 log1p sin cos tanh sinh cosh floor ceil trunc round sign square log10 " \
    "tan isnan isinf isfinite logical_not signbit negative reciprocal".split()
TWO = "add subtract multiply divide floor_divide remainder hypot logaddexp maximum minimum less less_equal " \
    "equal not_equal greater greater_equal logical_and logical_or logical_xor copysign heaviside fmod pow".split()


def sample(*shape, dtype="float64", seed=1):
    return np.random.default_rng([seed, *shape]).uniform(0.5, 4, shape).astype(dtype)


@unittest.skipUnless(np, "no NumPy here")
class BesideNumPy(unittest.TestCase):
    def same(self, found, wanted, text=""):
        wanted = np.asarray(wanted)
        self.assertEqual(found.shape, wanted.shape, text)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12, atol=1e-12, err_msg=text)

    def test_elementwise(self):
        x, y = sample(2, 3), sample(3, seed=2)
        for name in ONE:
            self.same(getattr(qn, name)(qn.tensor(x)), getattr(np, name)(x), name)
            self.same(getattr(qn.tensor(x), name)(), getattr(np, name)(x), name)
        for name in TWO:
            f = np.power if name == "pow" else getattr(np, name)
            self.same(getattr(qn, name)(qn.tensor(x), qn.tensor(y)), f(x, y), name)
            self.same(getattr(qn, name)(qn.tensor(x), 2), f(x, 2), name)
            self.same(getattr(qn, name)(2.5, qn.tensor(y)), f(2.5, y), name)
        self.same(qn.where(qn.tensor(x) > 2, qn.tensor(x), 0), np.where(x > 2, x, 0))
        self.same(qn.clip(qn.tensor(x), 1, hi=3), np.clip(x, 1, 3))
        self.same(qn.clip(qn.tensor(x), hi=2.0), np.minimum(x, 2))

    def test_reductions_over_none_one_and_several_axes(self):
        x = sample(2, 3, 4)
        for name in "sum prod max min mean any all argmax argmin std var".split():
            for axis in (None, 0, -1) + (() if name.startswith("arg") else ((0, 2), (1,), ())):
                for keepdims in (False, True):
                    found = getattr(qn, name)(qn.tensor(x), axis=axis, keepdims=keepdims)
                    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
                    self.same(found, wanted, f"{name} over {axis}")
        self.same(qn.tensor(x).sum(1), x.sum(1))
        self.assertIs(qn.tensor(x).sum(dtype="float32").dtype, qn.float32)
        self.same(qn.tensor(x, "float32").sum(axis=(0, 1), dtype=qn.float64), x.astype("f4").astype("f8").sum((0, 1)))
        self.same(qn.std(qn.tensor(x), correction=1), np.std(x, ddof=1))

    def test_movement(self):
        x = sample(2, 3, 4)
        t = qn.tensor(x)
        for found, wanted in ((t.reshape(4, 6), x.reshape(4, 6)), (t.reshape((3, -1)), x.reshape(3, -1)),
                              (t.permute(2, 0, 1), x.transpose(2, 0, 1)), (t.flip(), np.flip(x)),
                              (t.flip((0, 2)), np.flip(x, (0, 2))), (t.roll(1), np.roll(x, 1)),
                              (t.roll((1, 2), (0, 2)), np.roll(x, (1, 2), (0, 2))), (t.roll(3, 1), np.roll(x, 3, 1)),
                              (t.expand_dims(1), x[:, None]), (t[:, None].squeeze(1), x),
                              (t.tile(2, 1, 2), np.tile(x, (2, 1, 2))),
                              (t.moveaxis(0, 2), np.moveaxis(x, 0, 2)), (t.diagonal(), x.diagonal(0, -2, -1)),
                              (t.pad((1, 2, 0, 0, 3, 0)), np.pad(x, ((1, 2), (0, 0), (3, 0)))),
                              (t.pad((1, 1, 0, 0, 0, 0), mode="edge"), np.pad(x, ((1, 1), (0, 0), (0, 0)), "edge")),
                              (t.repeat_interleave(2, axis=1), x.repeat(2, 1)), (t.triu(1), np.triu(x, 1)),
                              (qn.concat([t, t], 1), np.concatenate([x, x], 1)),
                              (qn.stack((t, t), axis=-1), np.stack([x, x], -1))):
            self.same(found, wanted)
        for a, b in zip(t.split((1, 2), axis=1), np.split(x, [1], 1)):
            self.same(a, b)
        for a, b in zip(t.chunk(3, axis=2), np.array_split(x, 3, 2)):
            self.same(a, b)
        self.assertEqual(len(t.unstack(2)), 4)
        for a, b in zip(qn.meshgrid([qn.arange(2), qn.arange(3)]), np.meshgrid(range(2), range(3), indexing="ij")):
            self.same(a, b)

    def test_several_results_have_names(self):
        x = sample(5)
        r = qn.topk(qn.tensor(x), 2)
        self.same(r.values, np.sort(x)[::-1][:2])
        self.same(r.index, np.argsort(-x)[:2])
        values, index = r
        self.assertIs(values, r.values)
        m = sample(3, 3)
        q, r = qn.qr(qn.tensor(m))
        self.same(q @ r, m)
        self.assertEqual(type(qn.svd(qn.tensor(m))).__name__, "svd_result")
        self.assertEqual(len(qn.frexp(qn.tensor(x))), 2)

    def test_products_and_linear_algebra(self):
        a, b = sample(2, 3, 4), sample(4, 5)
        self.same(qn.tensor(a) @ qn.tensor(b), a @ b)
        self.same(qn.einsum("bij,jk->bki", [qn.tensor(a), qn.tensor(b)]), np.einsum("bij,jk->bki", a, b))
        self.same(qn.tensordot(qn.tensor(a), qn.tensor(a), (0, 1), (0, 1)), np.tensordot(a, a, ((0, 1), (0, 1))))
        m = sample(3, 3) + 3 * np.eye(3)
        self.same(qn.inv(qn.tensor(m)), np.linalg.inv(m))
        self.same(qn.solve(qn.tensor(m), qn.tensor(m[0])), np.linalg.solve(m, m[0]))
        self.same(qn.rfft(qn.tensor(m)), np.stack([np.fft.rfft(m).real, np.fft.rfft(m).imag], -1))
        pairs = qn.tensor(np.stack([m, m * 0], -1))
        self.same(qn.fftn(pairs, (0, 1), norm="ortho")[..., 0], np.fft.fftn(m, norm="ortho").real)

    def test_names_of_pytorch(self):
        x = sample(3, 4, 5)
        t = qn.tensor(x)
        for found, wanted in ((t.sum(dim=1, keepdim=True), x.sum(1, keepdims=True)),
                              (t.mean(dim=(0, 2)), x.mean((0, 2))), (t.flip(dims=(0, 1)), np.flip(x, (0, 1))),
                              (qn.softmax(t, dim=0).sum(dim=0), np.ones((4, 5))),
                              (t.cumsum(dim=1), x.cumsum(1)), (t.std(dim=1, correction=1), x.std(1, ddof=1)),
                              (t.argmax(dim=-1, keepdim=True), x.argmax(-1)[..., None]),
                              (t.amax((0, 1)), x.max((0, 1))),
                              (t.amin(-1), x.min(-1)), (qn.cat((t, t), dim=1), np.concatenate([x, x], 1)),
                              (t.unbind(1)[2], x[:, 2]), (t.movedim(0, -1), np.moveaxis(x, 0, -1)),
                              (qn.einsum("abc,abd->acd", t, t), np.einsum("abc,abd->acd", x, x)),
                              (qn.einsum("abc->cba", t), x.T), (qn.meshgrid(qn.arange(2), qn.arange(3))[1],
                                                                np.meshgrid(range(2), range(3), indexing="ij")[1])):
            self.same(found, wanted)
        for name, dtype in (("double", qn.float64), ("half", qn.float16), ("bfloat16", qn.bfloat16), ("int", qn.int32),
                            ("long", qn.int64), ("short", qn.int16), ("bool", qn.bool), ("float", qn.float32)):
            self.assertEqual(getattr(t, name)().dtype, dtype)
        with self.assertRaisesRegex(TypeError, r"sum\(\) has no argument dimension"):
            t.sum(dimension=1)
        with self.assertRaisesRegex(TypeError, r"sum\(\) is given twice dim"):
            t.sum(axis=1, dim=1)
        with self.assertRaisesRegex(TypeError, r"exp\(\) has no argument dim"):
            t.exp(dim=1)

    def test_options_are_keywords(self):
        x, w = qn.tensor(sample(1, 2, 6, 6)), qn.tensor(sample(3, 2, 3, 3))
        self.assertEqual(qn.conv(x, w).shape, (1, 3, 4, 4))
        self.assertEqual(qn.conv(x, w, padding=1, stride=(2, 1)).shape, (1, 3, 3, 6))
        self.assertEqual(x.conv2d(w, padding="same").shape, (1, 3, 6, 6))
        self.assertEqual(qn.conv(x, w, padding=((1, 0), (0, 0))).shape, (1, 3, 5, 4))
        self.assertEqual(qn.max_pool(x, (2, 2)).shape, (1, 2, 3, 3))
        self.assertEqual(qn.pool(x, (2, 2), kind="avg", adaptive=True).shape, (1, 2, 2, 2))
        self.assertEqual(qn.interpolate(x, (12, 12), mode="linear").shape, (1, 2, 12, 12))
        q = qn.tensor(sample(2, 4, 8))
        self.assertEqual(qn.attention(q, q, q, causal=True).shape, (2, 4, 8))
        mask = qn.ones((4, 4), "bool")
        self.same(qn.attention(q, q, q, mask=mask), np.asarray(qn.attention(q, q, q)))
        logits, labels = qn.tensor(sample(4, 3)), qn.tensor([0, 1, 2, 1])
        loss = qn.cross_entropy(logits, labels, reduction="none")
        self.same(loss.mean(), qn.cross_entropy(logits, labels))
        self.same(qn.cross_entropy(logits, labels, ignore=1), np.asarray(loss)[[0, 2]].mean())

    def test_options_are_one_for_all_axes_or_one_for_each(self):
        x, w = qn.zeros((1, 2, 8, 8)), qn.zeros((3, 2, 3, 3))
        for option in ({"stride": (2, 2, 7)}, {"dilation": (1, 1, 1)}, {"padding": (1, 1, 1)}, {"stride": (1, 2, 3, 4)},
                       {"padding": ((1, 1),)}, {"padding": ((1, 1),) * 4}, {"padding": ((1, 1),) * 3}):
            (name, value), = option.items()
            with self.assertRaisesRegex(ValueError, rf"{len(value)}", msg=str(option)):
                qn.conv(x, w, **option)
            with self.assertRaisesRegex(ValueError, rf"{len(value)}", msg=str(option)):
                x.max_pool((2, 2), **option)
        self.assertEqual(qn.conv(x, w, stride=(2,)).shape, (1, 3, 3, 3))
        self.assertEqual(qn.conv(x, w, padding=(1,)).shape, (1, 3, 8, 8))
        self.assertEqual(qn.conv(qn.zeros((1, 2, 8)), w[..., 0], padding=((1, 0),)).shape, (1, 3, 7))
        for scale in ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0)):
            with self.assertRaisesRegex(ValueError, "scale.*2 spatial"):
                qn.interpolate(x, (8, 8), scale=scale)
        self.assertEqual(qn.interpolate(x, (8, 8), scale=2.0).shape, (1, 2, 8, 8))
        with self.assertRaises((TypeError, ValueError)):
            qn.conv(x, w, padding=((1, 1), 1))

    def test_sizes_are_as_many_as_there_are_axes(self):
        x = qn.zeros((1, 2, 8, 8))
        index = qn.max_pool_index(x, (2, 2)).index
        self.assertEqual((x.max_pool(2).shape, x.max_pool((2,)).shape, x.pool(2).shape, x.im2col(2).shape),
                         ((1, 2, 4, 4),) * 3 + ((1, 8, 49),))
        self.assertEqual(qn.interpolate(x, 4).shape, (1, 2, 4, 4))
        self.assertEqual(qn.max_unpool(x.max_pool(2), index, 8, 8).shape, x.shape)
        columns = x.im2col((2, 2))
        self.assertEqual(qn.col2im(columns, (8, 8), (2, 2), stride=1).shape, x.shape)
        for call in (lambda: x.max_pool((2, 2, 2)), lambda: x.pool((2, 2, 2)), lambda: x.im2col((2, 2, 2)),
                     lambda: qn.interpolate(x, (4, 4, 4)), lambda: x.pad((1, 1)), lambda: x.pad((1,) * 10),
                     lambda: x.update_slice(x, (0,)), lambda: x.as_strided((2, 2), (1,)),
                     lambda: x.moveaxis((0, 1), (1,)), lambda: qn.tensordot(x, x, (2, 3), (2,)),
                     lambda: qn.max_unpool(x.max_pool(2), index, (8, 8, 8)), lambda: x.roll((1, 2), (0, 1, 2)),
                     lambda: qn.col2im(columns, (8, 8), (2,)),
                     lambda: qn.col2im(columns, (8, 8), (2, 2), stride=(1, 1, 1)),
                     lambda: x.roll((1, 2))):
            self.assertRaisesRegex(ValueError, r"\d", call)

    def test_random_numbers_follow_their_key(self):
        key = qn.key(7)
        self.assertEqual(qn.uniform(key, (3,)).tolist(), qn.uniform(qn.key(7), (3,)).tolist())
        a, b = qn.key_split(key, 2)
        self.assertNotEqual(qn.randn(a, (2,)).tolist(), qn.randn(b, (2,)).tolist())
        r = np.asarray(qn.randint(key, 3, 9, (1000,)))
        self.assertTrue(((r >= 3) & (r < 9)).all() and r.dtype == np.int64)
        self.assertEqual(sorted(qn.permutation(key, 5).tolist()), [0, 1, 2, 3, 4])

    def test_arrays_go_both_ways(self):
        for dtype in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split():
            a = (sample(2, 3) * 10).astype(dtype)
            x = qn.tensor(a)
            self.assertEqual(x.dtype.name, dtype)
            self.assertEqual(np.asarray(x).dtype, a.dtype)
            self.assertTrue((x.numpy() == a).all() and (np.asarray(qn.tensor(a.T)) == a.T).all())
        a = sample(2, 3)
        self.same(a + qn.tensor(a), 2 * a)
        self.assertIsInstance(a + qn.tensor(a), qn.Tensor)
        self.assertEqual(qn.tensor([np.ones(2), np.zeros(2)]).shape, (2, 2))
        self.assertIs((qn.zeros(2) * np.float32(2)).dtype, qn.float32)
        self.assertIs(qn.zeros(1, np.float64).dtype, qn.float64)
        self.assertEqual(qn.float32, np.float32)
        self.assertEqual(np.asarray(qn.tensor(a), dtype="f4").dtype, np.float32)


if __name__ == "__main__":
    unittest.main()
