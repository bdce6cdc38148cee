"""Pages, curves, spans of traces and progress."""

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import quern as qn

TRACED = """
import quern as qn

@qn.span("whole \\"step\\"")
def step(x):
    with qn.span("inner"):
        y = qn.relu(qn.matmul(x, x)).realize()
    return y.sum().item()

x = qn.ones((16, 16))
for i in range(3):
    step(x * i)
try:
    with qn.span("that fails"):
        raise KeyError("ended all the same")
except KeyError:
    pass
"""


class View(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "it")

    def tearDown(self):
        self.folder.cleanup()

    def read(self):
        with open(self.path, encoding="utf-8") as f:
            return f.read()

    def test_a_page_shows_how_a_tensor_is_computed(self):
        x = qn.tensor([[float(i + j) for j in range(4)] for i in range(8)])
        x.name = "<b>ound"
        y = qn.softmax(qn.matmul(x, x.T), 1)
        y.view_html(self.path)
        page = self.read()
        self.assertIn("f32[8, 8]", page)
        self.assertIn("&lt;b&gt;ound", page)
        self.assertNotIn("<script", page)
        self.assertAlmostEqual(y.sum().item(), 8.0, places=5)
        qn.view_html(y, self.path)
        with self.assertRaises(TypeError):
            qn.view_html(3, self.path)
        with self.assertRaises(OSError):
            qn.view_html(y, os.path.join(self.folder.name, "no", "folder.html"))

    def test_spans_kernels_and_requests_are_in_a_trace(self):
        env = dict(os.environ, QN_TRACE=self.path)
        package = os.path.dirname(os.path.dirname(qn.__file__))
        subprocess.run([sys.executable, "-c", TRACED], env=env, cwd=package, check=True)
        events = json.loads(self.read())
        open_spans, names = [], []
        for e in events:
            self.assertIn(e["ph"], "MXBEC")
            self.assertGreaterEqual(e["ts"], 0)
            if e["ph"] == "B":
                open_spans.append(e["name"])
                names.append(e["name"])
            if e["ph"] == "E":
                open_spans.pop()
        self.assertEqual(open_spans, [])
        self.assertEqual(names, ["whole \"step\"", "inner"] * 3 + ["that fails"])
        kernels = [e for e in events if e.get("cat") == "kernel"]
        runs = [e for e in events if e.get("cat") == "run"]
        self.assertGreaterEqual(len(kernels), len(runs))
        self.assertTrue(any("f32[16, 16]" in e["args"].get("writes", "") for e in kernels))
        for e in kernels:
            self.assertTrue(any(r["ts"] <= e["ts"] and e["ts"] + e["dur"] <= r["ts"] + r["dur"] + 0.01 for r in runs))

    def test_a_curve_is_svg(self):
        qn.plot([3, 2, float("nan"), 1.5], self.path, "loss & <others>", x_label="step", y_label="nats")
        drawn = xml.etree.ElementTree.fromstring(self.read())
        texts = ["".join(t.itertext()) for t in drawn.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("loss & <others>", texts)
        qn.plot(qn.arange(1, 2000), self.path, log=True)
        xml.etree.ElementTree.fromstring(self.read())
        for wrong in ([], ["a"], None):
            with self.assertRaises((TypeError, ValueError)):
                qn.plot(wrong, self.path)
        with self.assertRaises(ValueError):
            qn.plot([1], self.path, step=0)

    def test_a_curve_in_the_terminal(self):
        text = qn.curve([4, 3, 2, 1], "falls", height=2)
        self.assertEqual(text.splitlines(), ["falls", "         4 |█▃", "         1 |██▆▁"])
        self.assertEqual(len(qn.curve(range(1000), width=50).splitlines()[0]), 12 + 50)
        self.assertIn("|", qn.curve([1.0] * 3))
        self.assertIn("█", qn.curve([1.7e308, -1.7e308, 1.7e308, 1.7e308], width=2))
        self.assertIn("|", qn.curve([float("nan")]))
        self.assertEqual(qn.curve([1, float("inf"), 3], height=1).splitlines()[0].count("█"), 1)

    def test_progress_gives_the_items_and_says_how_far(self):
        out = io.StringIO()
        bar = qn.progress([1, 2, 3], "epoch", file=out, every=0)
        found = []
        for item in bar:
            bar.note(f"loss {item}")
            found.append(item)
        self.assertEqual(found, [1, 2, 3])
        lines = out.getvalue().splitlines()
        self.assertEqual(len(lines), 4)
        self.assertTrue(lines[0].startswith("epoch  |"))
        self.assertIn("100 %  3/3", lines[-1])
        self.assertTrue(lines[-1].endswith("loss 3"))
        self.assertEqual(len(bar), 3)
        self.assertEqual(list(qn.progress(iter("ab"), file=io.StringIO())), ["a", "b"])
        with self.assertRaises(TypeError):
            len(qn.progress(iter("ab"), file=io.StringIO()))
        ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        self.assertEqual(list(qn.progress(range(2), file=ascii_only)), [0, 1])


if __name__ == "__main__":
    unittest.main()
