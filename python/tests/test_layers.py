"""Every kind of layer beside PyTorch's of the same name: the tensors' names and shapes, results, and gradients."""

import unittest

import quern as qn
from quern import nn
from quern.nn import functional as F
from tests.layer_cases import CASES

try:
    import numpy as np
    import torch
except ImportError:
    np = torch = None

# What PyTorch has by default where we have another word for it.
OTHER = {("TransformerEncoderLayer", "activation"), ("TransformerDecoderLayer", "activation")}


@unittest.skipIf(torch is None, "PyTorch is not installed")
class BesidePyTorch(unittest.TestCase):
    def made(self, spec, rng):
        """An input for ours and for theirs."""
        if isinstance(spec, tuple) and spec and isinstance(spec[0], tuple):
            pairs = [self.made(s, rng) for s in spec]
            return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
        if not isinstance(spec, tuple):
            return spec, spec
        shape = spec[-1]
        if spec[0] == "i":
            a = rng.integers(0, spec[1], shape)
        elif spec[0] == "b":
            a = rng.random(shape) < 0.4
            a[..., 0] = False  # every query sees a key
        else:
            a = rng.standard_normal(shape).astype("float32")
            a = abs(a) + 0.1 if spec[0] == "p" else a
        ours, theirs = qn.tensor(a), torch.tensor(a)
        if a.dtype == np.float32:
            ours.requires_grad = theirs.requires_grad = True
        return ours, theirs

    def near(self, ours, theirs, what):
        if theirs is None or ours is None:
            self.assertEqual(ours is None, theirs is None, what)
            return
        if isinstance(theirs, (tuple, list)):
            self.assertEqual(len(ours), len(theirs), what)
            for a, b in zip(ours, theirs):
                self.near(a, b, what)
            return
        self.assertEqual(ours.shape, tuple(theirs.shape), what)
        a, b = np.asarray(ours.detach().cast("float64")), theirs.detach().double().numpy()
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=str(what))

    def leaves(self, x):
        return [y for one in x for y in self.leaves(one)] if isinstance(x, (tuple, list)) else [x]

    def loss(self, results, weights, cos):
        """Of all floats of results, each with a weight of its own."""
        total = 0
        for k, y in enumerate(self.leaves(results)):
            if y is not None and ("float" in str(y.dtype)):
                total = total + (y * (k + 1) + cos(y)).sum()
        return total

    def both(self, kind, args, keywords):
        theirs = getattr(torch.nn, kind)(*args, **keywords)
        ours = getattr(nn, kind)(*args, **keywords)
        names = theirs.state_dict()
        self.assertEqual([(n, x.shape) for n, x in ours.state_dict().items()],
                         [(n, tuple(x.shape)) for n, x in names.items()])
        ours.load_state_dict(names)
        return ours, theirs

    def check(self, kind, args, keywords, inputs):
        rng = np.random.default_rng(len(CASES) + len(kind))
        ours, theirs = self.both(kind, args, keywords)
        pairs = {n: self.made(s, rng) for n, s in (inputs.items() if isinstance(inputs, dict) else enumerate(inputs))}
        if isinstance(inputs, list) and len(inputs) > 1 and all(s is inputs[0] for s in inputs):
            pairs = {k: pairs[0] for k in pairs}
        for mode in (True, False):
            ours.train(mode), theirs.train(mode)
            if isinstance(inputs, dict):
                a = ours(**{n: p[0] for n, p in pairs.items()})
                b = theirs(**{n: p[1] for n, p in pairs.items()})
            else:
                a, b = ours(*(p[0] for p in pairs.values())), theirs(*(p[1] for p in pairs.values()))
            self.near(a, b, (kind, args, keywords, mode))
            self.near(list(ours.state_dict().values()), list(theirs.state_dict().values()), "state")
            ours.zero_grad(), theirs.zero_grad()
            mine = [x for p in pairs.values() for x in self.leaves(p[0]) if isinstance(x, qn.Tensor)]
            other = [x for p in pairs.values() for x in self.leaves(p[1]) if isinstance(x, torch.Tensor)]
            for x, y in zip(mine, other):
                x.grad = y.grad = None
            loss, wanted = self.loss(a, None, qn.cos), self.loss(b, None, torch.cos)
            if not wanted.requires_grad:
                continue
            loss.backward(), wanted.backward()
            for (n, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters()):
                self.near(p.grad, q.grad, (kind, args, keywords, mode, n))
            for x, y in zip(mine, other):
                self.near(x.grad, y.grad, (kind, args, keywords, mode, "input"))

    def test_kinds(self):
        for kind, args, keywords, inputs in CASES:
            with self.subTest(kind=kind, args=args, **keywords):
                self.check(kind, args, keywords, inputs)

    def test_every_kind_has_a_case(self):
        apart = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "GCNConv", "GATConv", "LPPool3d"}
        self.assertEqual(set(nn.KINDS) - {c[0] for c in CASES} - apart, set())

    def test_signatures_are_pytorchs(self):
        import inspect
        for kind, cls in nn.KINDS.items():
            theirs = getattr(torch.nn, kind, None)
            if theirs is None or kind in ("RNN", "LSTM", "GRU"):
                continue
            wanted = {n: p.default for n, p in inspect.signature(theirs).parameters.items()}
            for n, p in inspect.signature(cls).parameters.items():
                if n in wanted and (kind, n) not in OTHER:
                    self.assertEqual(p.default, wanted[n], (kind, n))


@unittest.skipIf(np is None, "NumPy is not installed")
class FunctionsOfHalves(unittest.TestCase):
    """Of several steps, each is taken in float32, and the result rounded once."""

    def setUp(self):
        self.rng = np.random.default_rng(3)

    def check(self, name, *args, **keywords):
        for dtype in ("float16", "bfloat16"):
            narrow = [qn.tensor(x).astype(dtype) if x.dtype.kind == "f" else qn.tensor(x) for x in args]
            wide = [x.astype("float32") if x.dtype.kind == "f" else x for x in narrow]

            def slope(*xs, of=getattr(F, name)):
                y = of(*xs, **keywords)
                return (y * qn.full_like(y, 0.5)).sum()
            for f in (lambda *xs: getattr(F, name)(*xs, **keywords), qn.grad(slope)):
                got, want = f(*narrow), f(*wide).astype(dtype)
                self.assertEqual(got.dtype, want.dtype, name)
                np.testing.assert_array_equal(np.asarray(got.astype("float32")),
                                              np.asarray(want.astype("float32")), f"{name} {keywords} {dtype}")

    def test_are_rounded_once(self):
        x, y = (self.rng.standard_normal((16, 8)).astype("float32") for _ in range(2))
        p = self.rng.uniform(0.05, 0.95, (16, 8)).astype("float32")
        for reduction in ("mean", "sum", "none"):
            for name in ("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "kl_div"):
                self.check(name, x, p if name == "kl_div" else y, reduction=reduction)
            self.check("binary_cross_entropy", p, p[::-1].copy(), p + 1, reduction=reduction)
            self.check("binary_cross_entropy_with_logits", x, p, p + 1, reduction=reduction)
            self.check("cross_entropy", x, p, y[0], reduction=reduction)
            self.check("poisson_nll_loss", x, p * 4, full=True, reduction=reduction)
            self.check("gaussian_nll_loss", x, y, p, full=True, reduction=reduction)
        self.check("huber_loss", x, y, delta=0.7)
        self.check("smooth_l1_loss", x, y, beta=0.3)
        self.check("kl_div", x, p, reduction="batchmean")
        self.check("cross_entropy", x, p, label_smoothing=0.1)
        self.check("normalize", x)
        self.check("tanhshrink", x / 50)

    def test_cells_and_graphs_are_rounded_once(self):
        x, h = (qn.tensor(self.rng.standard_normal((5, 8)).astype("float32")) for _ in range(2))
        edges = qn.zeros((2, 5000), dtype="int64")
        for dtype in ("float16", "bfloat16"):
            for made, args in ((nn.GRUCell(8, 8), (x, h)), (nn.RNNCell(8, 8), (x, h)), (nn.GCNConv(8, 4), (x, edges)),
                               (nn.GATConv(8, 4), (x, edges))):
                m = made.to(dtype)
                args = [a.astype(dtype) if a.dtype.kind == "f" else a for a in args]
                got = m(*args).astype("float32").numpy()
                wide = [a.astype("float32") if a.dtype.kind == "f" else a for a in args]
                want = m.to("float32")(*wide).numpy()
                # the maps of a layer are rounded, too
                np.testing.assert_allclose(got, want, 0, {"float16": 2e-3, "bfloat16": 2e-2}[dtype], str(m))

    def test_normalize_of_nothing_and_of_much(self):
        x = qn.tensor([[0.0] * 8, [30000.0] * 8]).astype("float16")
        self.assertEqual(F.normalize(x).astype("float32").tolist(), [[0.0] * 8, [0.353515625] * 8])

    def test_tanhshrink_has_its_digits_near_0(self):
        for dtype, close in (("float32", 1e-6), ("float64", 1e-14)):
            x = np.array([1e-6, -1e-4, 1e-3, 0.03, 0.4, -1.4, 1.6, 30.0], dtype)
            z = x.astype("float64") ** 2
            series = x * z * (1 / 3 - z * (2 / 15 - z * (17 / 315 - z * (62 / 2835 - z * 1382 / 155925))))
            want = np.where(z < 1e-2, series, x - np.tanh(x.astype("float64")))
            np.testing.assert_allclose(np.asarray(F.tanhshrink(qn.tensor(x))), want, close)
            g = qn.grad(lambda t: F.tanhshrink(t).sum())(qn.tensor(x))
            np.testing.assert_allclose(np.asarray(g), np.tanh(x.astype("float64")) ** 2, close)


class Labels(unittest.TestCase):
    def test_no_label_counts_from_the_end(self):
        x = qn.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
        for label in (-1, 3):
            y = qn.tensor([0, label])
            for loss in (qn.nll_loss, F.nll_loss, nn.NLLLoss(), nn.NLLLoss(weight=qn.ones(3)), qn.cross_entropy):
                with self.assertRaisesRegex(IndexError, f"index {label} of an axis of 3"):
                    loss(x, y).item()
            log_p = qn.log_softmax(qn.zeros((4, 1, 3)), axis=2)
            with self.assertRaisesRegex(IndexError, f"ctc_loss: index {label} of an axis of 3"):
                F.ctc_loss(log_p, qn.tensor([[1, label]]), qn.tensor([4]), qn.tensor([2])).item()
        self.assertEqual(F.nll_loss(x, qn.tensor([0, -1]), ignore_index=-1).item(), 0)

    def test_many_rows_of_float16(self):
        x, y = qn.full((70000, 2), -0.9058, dtype="float16"), qn.zeros(70000, dtype="int64")
        self.assertAlmostEqual(F.nll_loss(x, y).item(), 0.9058, 3)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class FunctionsBesidePyTorch(unittest.TestCase):
    """Arguments mean what they mean there, also by place and where none is given."""

    def check(self, name, *args, **keywords):
        def given(x, make):
            return make(x) if isinstance(x, np.ndarray) else x
        ours = getattr(F, name)(*(given(a, qn.tensor) for a in args),
                                **{n: given(a, qn.tensor) for n, a in keywords.items()})
        theirs = getattr(torch.nn.functional, name)(*(given(a, torch.tensor) for a in args),
                                                    **{n: given(a, torch.tensor) for n, a in keywords.items()})
        np.testing.assert_allclose(np.asarray(ours), theirs.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)

    def setUp(self):
        self.rng = np.random.default_rng(3)

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype("float32")

    def test_axes_that_are_not_given(self):
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for shape in ((4,), (3, 4), (2, 3, 4), (2, 3, 4, 5)):
                for name in ("softmax", "log_softmax", "softmin"):
                    self.check(name, self.floats(*shape))

    def test_causal_attention_counts_from_the_first_key(self):
        for rows, keys in ((3, 5), (5, 3), (1, 4), (4, 4)):
            q, k, v = self.floats(2, rows, 4), self.floats(2, keys, 4), self.floats(2, keys, 6)
            self.check("scaled_dot_product_attention", q, k, v, is_causal=True)
        q, mask = qn.tensor(self.floats(1, 2, 3)), qn.tensor([[True, False], [False, False]])
        with self.assertRaisesRegex(ValueError, "is_causal"):
            F.scaled_dot_product_attention(q, q, q, mask, is_causal=True)
        for m in (mask, qn.tensor([[0.0, -np.inf], [-np.inf, -np.inf]])):
            y = F.scaled_dot_product_attention(q, q, q, m, 0.5)
            self.assertEqual(y[0, 1].tolist(), [0.0] * 3)
            g = qn.grad(lambda x: F.scaled_dot_product_attention(x, x, x, m, 0.5).sum())(q)
            self.assertTrue(np.isfinite(np.asarray(g)).all())

    def test_instance_norm(self):
        x, w, b = self.floats(2, 3, 5), self.floats(3), self.floats(3)
        mean, var = self.floats(3), abs(self.floats(3)) + 0.5
        self.check("instance_norm", x)
        self.check("instance_norm", x, None, None, w, b)
        self.check("instance_norm", x, mean, var, w, b, False)
        ours, theirs = [qn.tensor(mean), qn.tensor(var)], [torch.tensor(mean), torch.tensor(var)]
        y = F.instance_norm(qn.tensor(x), *ours, momentum=0.3)
        z = torch.nn.functional.instance_norm(torch.tensor(x), *theirs, momentum=0.3)
        for a, b in zip([y, *ours], [z, *theirs]):
            np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=1e-5, atol=1e-6)

    def test_batch_norm_of_one_value_for_each_channel(self):
        for shape in ((1, 3), (1, 3, 1)):
            with self.assertRaisesRegex(ValueError, "value for each"):
                nn.BatchNorm1d(3)(qn.zeros(shape))
            self.assertEqual(nn.BatchNorm1d(3).eval()(qn.zeros(shape)).shape, shape)

    def test_losses(self):
        x, y, var = self.floats(4, 3), abs(self.floats(4, 3)) * 3, abs(self.floats(4, 3)) + 0.1
        for reduction in ("mean", "sum", "none"):
            for full in (False, True):
                self.check("gaussian_nll_loss", x, y, var, full, 0.2, reduction)
                self.check("poisson_nll_loss", x, y, True, full=full, reduction=reduction)
                self.check("poisson_nll_loss", var, y, False, full=full, eps=0.01, reduction=reduction)
        for shape in ((5, 4), (5, 4, 3), (4,)):
            x, rows = self.floats(*shape), (shape[:1] + shape[2:]) if len(shape) > 1 else ()
            y = self.rng.integers(0, 4, rows)
            for reduction in ("mean", "sum", "none"):
                for weight in (None, abs(self.floats(4))):
                    for ignore in (-100, 2):
                        self.check("nll_loss", x, np.asarray(y), weight, ignore_index=ignore, reduction=reduction)
        p = qn.tensor([0.0, 1e-42, 2e-39, 1e-38, 1e-30, 1.0])
        self.check("binary_cross_entropy", np.asarray(p), np.ones(6, "float32"), reduction="none")
        for y in (0.0, 0.5, 1.0):
            g = qn.grad(lambda p: F.binary_cross_entropy(p, qn.full_like(p, y), reduction="sum"))(p)
            self.assertTrue(np.isfinite(np.asarray(g)).all(), g)
        with self.assertRaises(TypeError):
            F.mse_loss(qn.tensor(x), qn.tensor(y), "sum")
        with self.assertRaisesRegex(TypeError, "1 arguments by place"):
            nn.MSELoss("sum")


if __name__ == "__main__":
    unittest.main()
