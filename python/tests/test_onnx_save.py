"""quern.onnx.save: models that are written, checked by the onnx package and run by onnxruntime, where installed."""

import tempfile
import unittest
from pathlib import Path

import quern as qn

try:
    import numpy as np
except ImportError:
    np = None
try:
    import onnx as plain
    import onnxruntime
except ImportError:
    plain = None
try:
    from models import bert, dit, gan, gcn, gpt2, llama, lstm, mlp, moe, resnet, unet, vae, vit
except ImportError:
    import sys
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models"))
    import bert
    import dit
    import gan
    import gcn
    import gpt2
    import llama
    import lstm
    import mlp
    import moe
    import resnet
    import unet
    import vae
    import vit


def images(*shape):
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def ids(most, *shape):
    return np.random.default_rng(2).integers(0, most, shape).astype(np.int32)


# What is written of each: a model, and inputs by name.
NETWORKS = {
    "mlp": lambda: (mlp.MLP(20, (16, 8, 4)), (images(3, 20),)),
    "resnet18": lambda: (resnet.resnet18(num_classes=10), (images(2, 3, 32, 32),)),
    "resnet50": lambda: (resnet.resnet50(num_classes=10), (images(1, 3, 32, 32),)),
    "gpt2": lambda: (gpt2.GPT2(97, 16, 2, 4, 32), (ids(97, 2, 11),)),
    "llama": lambda: (llama.Llama(97, 32, 2, 4, 2, 48), (ids(97, 2, 7),)),
    "moe": lambda: (moe.Mixtral(97, 32, 2, 4, 2, 48, 4), (ids(97, 2, 7),)),
    "bert": lambda: (bert.Bert(97, 32, 2, 4, 64, 16), (ids(97, 2, 9),)),
    "vit": lambda: (vit.ViT(16, 4, 2, 4, 32, 64, num_classes=5), (images(2, 3, 16, 16),)),
    "unet": lambda: (unet.UNet(3, 2, width=8), (images(1, 3, 32, 32),)),
    "vae": lambda: (vae.VAE(36, 16, 4), (images(3, 36), images(3, 4))),
    "generator": lambda: (gan.Generator(8, 4, 3, 32), (images(2, 8, 1, 1),)),
    "dit": lambda: (dit.DiT(8, 2, 1, 32, 2, 4, 10), (images(2, 1, 8, 8), images(2), ids(10, 2))),
    "lstm": lambda: (lstm.LSTM(31, 8, 8, 1), (ids(31, 2, 5),)),
}


class Files(unittest.TestCase):
    """Needs nothing else: what was written is read by quern.onnx.load."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "m.onnx"
        self.x = qn.tensor([[1.0, -2.0, 3.0]])
        self.w = qn.tensor([[1.0, 2.0], [0.5, -1.0], [2.0, 0.0]])

    def tearDown(self):
        self.folder.cleanup()

    def names(self, m):
        return [v.name for v in m.inputs], [v.name for v in m.outputs]

    def test_tensors_that_were_recorded_are_written(self):
        y = (self.x @ self.w).relu()
        qn.onnx.save(self.path, {"y": y, "twice": y * 2}, {"x": self.x})
        with qn.onnx.load(self.path) as m:
            self.assertEqual(self.names(m), (["x"], ["y", "twice"]))
            self.assertEqual([t.tolist() for t in m(qn.tensor([[2.0, 0.0, 1.0]]))], [[[4.0, 4.0]], [[8.0, 8.0]]])
        qn.onnx.save(self.path, y, self.x, input_names=["a"], output_names=["b"])
        with qn.onnx.load(self.path) as m:
            self.assertEqual(self.names(m), (["a"], ["b"]))

    def test_functions_and_jits_are_written(self):
        def f(x, scale):
            return {"a": (x @ self.w) * scale, "b": x.sum()}

        for g in (f, qn.jit(f)):
            qn.onnx.save(self.path, g, {"x": self.x, "scale": 3.0})
            with qn.onnx.load(self.path) as m:
                self.assertEqual(self.names(m), (["x", "scale"], ["a", "b"]))
                a, b = m(self.x, 2.0)
                self.assertEqual((a.tolist(), b.item()), ([[12.0, 8.0]], 2.0))

    def test_parameters_go_into_a_file_beside(self):
        qn.onnx.save(self.path, self.x @ self.w, self.x, data="w.bin")
        self.assertEqual((self.path.parent / "w.bin").stat().st_size, 64)
        with qn.onnx.load(self.path) as m:
            self.assertEqual(m(self.x).tolist(), [[6.0, 4.0]])

    def test_mistakes_are_errors(self):
        y = self.x @ self.w
        with self.assertRaisesRegex(RuntimeError, "input 0 is an expression"):
            qn.onnx.save(self.path, y, y * 2)
        with self.assertRaisesRegex(RuntimeError, "cholesky"):
            qn.onnx.save(self.path, qn.linalg.cholesky(self.x.T @ self.x), self.x)
        with self.assertRaisesRegex(ValueError, "1 names for 2 tensors|2 names for 1 tensors"):
            qn.onnx.save(self.path, y, self.x, input_names=["a", "b"])
        with self.assertRaises(ValueError):
            qn.onnx.save(self.path, [], self.x)
        with self.assertRaises(ValueError):
            qn.onnx.save(self.path, y, self.x, data="../w.bin")
        with self.assertRaises(TypeError):
            qn.onnx.save(self.path, y, self.x, input_names=[1])
        self.assertFalse(self.path.exists())


@unittest.skipUnless(np and plain, "needs numpy, onnx and onnxruntime")
class Saved(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "m.onnx"

    def tearDown(self):
        self.folder.cleanup()

    def run_plain(self, inputs):
        plain.checker.check_model(str(self.path), full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        s = onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        return s.run(None, dict(zip((i.name for i in s.get_inputs()), inputs)))

    def assert_near(self, got, wanted):
        got, wanted = np.asarray(got), np.asarray(wanted)
        self.assertEqual(got.shape, wanted.shape)
        self.assertLessEqual(np.abs(got - wanted).max(), 1e-5 * max(1, np.abs(wanted).max()))

    def test_networks_give_onnxruntime_the_same_numbers(self):
        for name, make in NETWORKS.items():
            with self.subTest(name):
                net, inputs = make()
                net.eval()
                qn.onnx.save(self.path, net, inputs)
                wanted = qn.tree.leaves(net(*(qn.tensor(x) for x in inputs)))
                got = self.run_plain(inputs)
                self.assertEqual(len(got), len(wanted))
                for a, b in zip(got, wanted):
                    self.assert_near(a, b)
                with qn.onnx.load(self.path) as m:
                    self.assert_near(qn.tree.leaves(m(*inputs))[0], wanted[0])


if __name__ == "__main__":
    unittest.main()
