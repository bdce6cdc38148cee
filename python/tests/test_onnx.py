"""Models of the ONNX format, written by hand as protocol buffers, beside what their operators say."""

import os
import struct
import tempfile
import unittest
from pathlib import Path

import quern as qn

FLOAT, INT64, BOOL = 1, 7, 9


def varint(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def field(number, value):
    """A number, a text, or a message's bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def value(name, kind, shape=None):
    dims = b"" if shape is None else b"".join(
        field(1, field(2, d) if isinstance(d, str) else field(1, d) if d is not None else b"") for d in shape)
    tensor = field(1, kind) + (b"" if shape is None else field(2, dims))
    return field(1, name) + field(2, field(1, tensor))


def floats(name, shape, values, file=None):
    """A tensor, also one whose bytes are in another file."""
    data = struct.pack(f"<{len(values)}f", *values)
    head = b"".join(field(1, n) for n in shape) + field(2, FLOAT) + field(8, name)
    if file is None:
        return head + field(9, data)
    file.write_bytes(data)
    return head + field(13, field(1, "location") + field(2, file.name)) + field(14, 1)


def node(op, inputs, outputs, **attributes):
    out = b"".join(field(1, n) for n in inputs.split()) + b"".join(field(2, n) for n in outputs.split()) + field(4, op)
    for name, v in attributes.items():
        one = field(6, v) + field(20, 5) if isinstance(v, bytes) else field(3, v) + field(20, 2)
        out += field(5, field(1, name) + one)
    return out


def graph(nodes, inputs, outputs, weights=()):
    return (b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, w) for w in weights) +
            b"".join(field(11, v) for v in inputs) + b"".join(field(12, v) for v in outputs))


def model(*parts, **more):
    return field(1, 9) + field(8, field(2, 17)) + field(7, graph(*parts, **more))


W = [1.0, -2.0, 0.5, 3.0, -1.0, 2.0]  # [3, 2]
X = [[1.0, 2.0, 3.0], [-1.0, 0.0, 2.0]]
Y = [[sum(row[k] * W[2 * k + j] for k in range(3)) + b for j, b in enumerate((10.0, -20.0))] for row in X]


def linear(file=None):
    """y = x @ w + b, z = relu(y); b is an input that has a value."""
    return model([node("MatMul", "x w", "xw"), node("Add", "xw b", "y"), node("Relu", "y", "z")],
                 [value("x", FLOAT, ("n", 3)), value("b", FLOAT, (2,))],
                 [value("y", FLOAT, ("n", 2)), value("z", FLOAT)],
                 [floats("w", (3, 2), W, file), floats("b", (2,), [10.0, -20.0])])


def deciding():
    """x or -x, as the sum of x is above 0 or not."""
    branches = {name: graph([node(op, "x", "out")], [], [value("out", FLOAT)])
                for name, op in (("then_branch", "Identity"), ("else_branch", "Neg"))}
    return model([node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c"),
                  node("If", "c", "y", **branches)],
                 [value("x", FLOAT, ("n",))], [value("y", FLOAT)], [floats("zero", (), [0.0])])


class Models(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "m.onnx"

    def tearDown(self):
        self.folder.cleanup()

    def test_inputs_and_outputs_have_names(self):
        self.path.write_bytes(linear())
        with qn.onnx.load(self.path) as m:
            self.assertEqual(m.inputs, (("x", qn.float32, ("n", 3), False), ("b", qn.float32, (2,), True)))
            self.assertEqual(m.outputs, (("y", qn.float32, ("n", 2), False), ("z", qn.float32, None, False)))
            self.assertIn("(x, b) -> (y, z)", repr(m))

    def test_calls_by_place_and_by_name(self):
        with qn.onnx.parse(linear()) as m:
            zero = [[v - b for v, b in zip(row, (10.0, -20.0))] for row in Y]
            for x in (X, qn.tensor(X), memoryview(qn.tensor(X))):
                y, z = m(x)
                self.assertEqual((y.tolist(), z.tolist()), (Y, [[max(v, 0.0) for v in row] for row in Y]))
            self.assertEqual(m(X, [0, 0])[0].tolist(), zero)  # ints become what the input is
            self.assertEqual(m(b=[0.0, 0.0], x=X)[0].tolist(), zero)
            self.assertEqual(m(X, None)[0].tolist(), Y)
            out = m.run({"x": X, "b": [0.0, 0.0]})
            self.assertEqual((list(out), out["y"].tolist()), (["y", "z"], zero))

    def test_arrays_of_numpy(self):
        try:
            import numpy as np
        except ImportError as e:
            self.skipTest(str(e))
        with qn.onnx.parse(linear()) as m:
            self.assertEqual(m.run({"x": np.array(X, np.float32)})["y"].numpy().tolist(), Y)
            with self.assertRaisesRegex(TypeError, "input \"x\" is f64, and the model takes f32"):
                m(np.array(X))

    def test_a_static_graph_is_kept_for_each_shape(self):
        with qn.onnx.parse(linear()) as m:
            m.run({"x": X})
            before = qn.stats()["plans"]
            for _ in range(3):
                self.assertEqual(m.run({"x": X})["y"].tolist(), Y)
            self.assertEqual(qn.stats()["plans"], before)
            self.assertEqual(m.run({"x": X[:1]})["y"].tolist(), Y[:1])

    def test_it_is_a_function_of_its_inputs(self):
        with qn.onnx.parse(linear()) as m:
            x = qn.tensor(X, requires_grad=True)
            (m(x)[0] ** 2).sum().backward()
            want = [[2 * sum(row[j] * W[2 * k + j] for j in range(2)) for k in range(3)] for row in Y]
            self.assertEqual(x.grad.tolist(), want)
            self.assertEqual(qn.grad(lambda x: (m(x)[0] ** 2).sum())(qn.tensor(X)).tolist(), want)

    def test_within_a_jit(self):
        m = qn.onnx.parse(linear())
        f = qn.jit(lambda x: m(x)[0] * 2)
        want = [[2 * v for v in row] for row in Y]
        for _ in range(3):
            self.assertEqual(f(qn.tensor(X)).tolist(), want)
        m.close()
        self.assertEqual(f(qn.tensor(X)).tolist(), want)

    def test_what_decides_is_read(self):
        with qn.onnx.parse(deciding()) as m:
            self.assertEqual(m([1.0, 2.0]).tolist(), [1.0, 2.0])
            self.assertEqual(m([1.0, -2.0]).tolist(), [-1.0, 2.0])
            self.assertEqual(m.run({"x": [1.0, -2.0]})["y"].tolist(), [-1.0, 2.0])
            with self.assertRaises(RuntimeError):
                qn.jit(lambda x: m(x))(qn.tensor([1.0, 2.0]))
            self.assertEqual(m([1.0, -2.0]).tolist(), [-1.0, 2.0])

    def test_weights_may_lie_beside_it(self):
        file = Path(self.folder.name) / "w.bin"
        data = linear(file)
        self.path.write_bytes(data)
        with qn.onnx.load(str(self.path)) as m:
            self.assertEqual(m(X)[0].tolist(), Y)
        with qn.onnx.parse(data, folder=self.folder.name) as m:
            self.assertEqual(m(X)[0].tolist(), Y)
        with qn.onnx.parse(data) as m, self.assertRaises(ValueError):
            m(X)
        os.remove(file)
        with qn.onnx.load(self.path) as m, self.assertRaises(OSError):
            m(X)

    def test_operators(self):
        names = {(o.domain, o.name) for o in qn.onnx.operators()}
        self.assertLess({("", "MatMul"), ("", "If"), ("", "Conv")}, names)
        with qn.onnx.parse(model([node("Nonsense", "x", "y")], [value("x", FLOAT)], [value("y", FLOAT)])) as m:
            with self.assertRaisesRegex(ValueError, "Nonsense"):
                m(X)

    def test_what_is_asked_for_wrongly(self):
        with qn.onnx.parse(linear()) as m:
            for call, kind, text in ((lambda: m(), TypeError, "wants 'x'"), (lambda: m(X, q=1), TypeError, "'q' is no"),
                                     (lambda: m(X, x=X), TypeError, "twice"), (lambda: m(X, X, X), TypeError, "2 inp"),
                                     (lambda: m([1.0]), ValueError, "1 axes"),
                                     (lambda: m([[1.0]]), ValueError, "axis 1"),
                                     (lambda: m("ab"), TypeError, "")):
                with self.assertRaisesRegex(kind, text):
                    call()
        with self.assertRaisesRegex(ValueError, "closed"):
            m(X)
        with self.assertRaises(OSError):
            qn.onnx.load(self.path)
        whole = linear()
        for n in range(1, len(whole), 7):
            try:
                qn.onnx.parse(whole[:n]).close()
            except ValueError:
                pass
        with self.assertRaises(ValueError):
            qn.onnx.parse(b"abc")


if __name__ == "__main__":
    unittest.main()
