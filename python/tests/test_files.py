"""Trees of tensors in safetensors files."""

import json
import os
import tempfile
import unittest

import quern as qn


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "a.safetensors")

    def tearDown(self):
        self.folder.cleanup()

    def test_what_is_saved_is_loaded(self):
        for dtype in ("bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"):
            x = qn.tensor([[0, 1, 1], [1, 0, 1]]).astype(dtype)
            qn.save(self.path, {"x": x, "empty": qn.zeros((0, 2)), "scalar": qn.tensor(2.5)})
            found = qn.load(self.path)
            self.assertEqual(set(found), {"x", "empty", "scalar"})
            self.assertEqual((found["x"].tolist(), found["x"].dtype), (x.tolist(), x.dtype))
            self.assertEqual((found["empty"].shape, found["scalar"].item()), ((0, 2), 2.5))

    def test_the_bytes_are_the_format_s(self):
        qn.save(self.path, {"x": qn.tensor([1.0, 2.0])}, {"note": "ä"})
        with open(self.path, "rb") as f:
            data = f.read()
        n = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + n])
        self.assertEqual(header["__metadata__"], {"note": "ä"})
        self.assertEqual((header["x"]["dtype"], header["x"]["shape"]), ("F32", [2]))
        a, b = header["x"]["data_offsets"]
        self.assertEqual(data[8 + n + a:8 + n + b], bytes([0, 0, 128, 63, 0, 0, 0, 64]))

    def test_trees_go_by_names_and_come_back(self):
        tree = {"layers": [{"w": qn.ones((2, 3)), "b": qn.zeros(3)}, {"w": qn.ones(1), "b": None}], 7: 1.5}
        qn.save(self.path, tree)
        self.assertEqual(set(qn.load(self.path)), {"layers.0.w", "layers.0.b", "layers.1.w", "7"})
        like = qn.tree.map(lambda x: x * 0, tree)
        found = qn.load(self.path, like)
        self.assertEqual(qn.tree.flatten(found)[1], qn.tree.flatten(tree)[1])
        self.assertEqual((found["layers"][0]["w"].tolist(), found[7].item()), ([[1, 1, 1], [1, 1, 1]], 1.5))
        half = qn.load(self.path, qn.tree.map(lambda x: qn.tensor(x).astype("float16"), tree))
        self.assertEqual(half["layers"][0]["b"].dtype, qn.float16)

    def test_arrays_of_numpy(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no NumPy")
        qn.save(self.path, {"a": np.arange(6, dtype=np.int16).reshape(2, 3)})
        self.assertEqual(qn.load(self.path)["a"].numpy().tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_one_tensor_of_a_file(self):
        qn.save(self.path, {"a": qn.ones(2), "b": qn.zeros(3)}, {"epoch": "3"})
        with qn.open_file(self.path) as f:
            self.assertEqual((set(f), len(f), f.metadata), ({"a", "b"}, 2, {"epoch": "3"}))
            self.assertEqual(("a" in f, "c" in f), (True, False))
            self.assertEqual(f["b"].shape, (3,))
            with self.assertRaises(KeyError):
                f["c"]
        with self.assertRaisesRegex(ValueError, "closed"):
            f["a"]

    def test_the_order_of_pytorch_is_told(self):
        with self.assertRaisesRegex(TypeError, r"save: the path comes first, save\(path, tensors\), and dict is given"):
            qn.save({"x": qn.ones(2)}, self.path)

    def test_refused(self):
        x = qn.ones(2)
        qn.save(self.path, {"a": x})
        with open(self.path, "rb") as f:
            whole = f.read()
        for error, words, f in ((OSError, "No such", lambda: qn.load(self.path + "x")),
                                (OSError, "", lambda: qn.save(os.path.join(self.path, "x"), {"a": x})),
                                (TypeError, "b is str", lambda: qn.save(self.path, {"b": "text"})),
                                (ValueError, "called a.b", lambda: qn.save(self.path, {"a.b": x, "a": {"b": x}})),
                                (TypeError, "part of a name", lambda: qn.save(self.path, {1.5: x})),
                                (TypeError, "texts", lambda: qn.save(self.path, {"a": x}, {"n": 3})),
                                (ValueError, "zero byte", lambda: qn.save(self.path, {"a\0b": x})),
                                (KeyError, "has no b", lambda: qn.load(self.path, {"a": x, "b": x})),
                                (KeyError, "no place for a", lambda: qn.load(self.path, {})),
                                (ValueError, "shape", lambda: qn.load(self.path, {"a": qn.ones(3)})),
                                (RuntimeError, "traced", lambda: qn.jit(lambda x: qn.save(self.path, {"a": x}))(x))):
            with self.assertRaisesRegex(error, words):
                f()
        self.assertEqual(qn.load(self.path)["a"].tolist(), [1, 1])  # none of them touched it
        for n in (0, 4, 8, 20, len(whole) - 1):
            with open(self.path, "wb") as f:
                f.write(whole[:n])
            with self.assertRaises(ValueError):
                qn.load(self.path)

    def test_a_file_of_another_format_is_called_by_its_name(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no NumPy")
        for save, words in ((lambda f: np.save(f, np.ones(3)), "npy file"),
                            (lambda f: np.savez(f, np.ones(3)), "npz file"),
                            (lambda f: f.write(b"Once upon a time"), "text")):
            with open(self.path, "wb") as f:
                save(f)
            with self.assertRaisesRegex(ValueError, f"not a safetensors file, it looks like .*{words}"):
                qn.load(self.path)


if __name__ == "__main__":
    unittest.main()
