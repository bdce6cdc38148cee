"""The examples of the pages about Python run, and the names of their tables are there."""

import contextlib
import functools
import io
import linecache
import os
import re
import runpy
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

import quern

ROOT = Path(__file__).resolve().parents[2]
TABLES = ("from-pytorch.md", "from-numpy.md")  # of names
APART = ("python.md", "data.md", "layers.md") + TABLES  # each block is a program


def run(page, block, k):
    name = f"<docs/{page}, block {k}>"  # kernels look at their text
    linecache.cache[name] = (len(block), None, block.splitlines(True), name)
    exec(compile(block, name, "exec"), {"__name__": "example", "print": lambda *_: None})


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)


class Pages(unittest.TestCase):
    def test_each_block_runs(self):
        for page in APART:
            blocks = blocks_of(page)
            self.assertGreater(len(blocks), 0)
            for k, block in enumerate(blocks):
                run(page, block, k)

    def test_the_tutorial_is_a_program(self):
        blocks = blocks_of("tutorial.md")
        self.assertGreaterEqual(len(blocks), 6)
        with contextlib.chdir(ROOT):
            run("tutorial.md", "".join(blocks), 0)

    def test_each_name_of_the_tables_is_there(self):
        for page in TABLES:
            rows = re.findall(r"^\| `.*", (ROOT / "docs" / page).read_text(), re.M)
            names = [n for row in rows for n in re.findall(r"`([^`]+)`", row.split("|")[2])]
            self.assertGreater(len(names), 80)
            for name in names:
                root, _, path = name.partition(".")
                start = {"qn": quern, "Tensor": quern.Tensor}[root]
                with self.subTest(page=page, name=name):
                    functools.reduce(getattr, path.split("."), start)


class Tutorial(unittest.TestCase):
    def test_the_network_reads_digits_and_draws_its_curve(self):
        program = runpy.run_path(str(ROOT / "examples" / "digits.py"))
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            path = os.path.join(folder, "curve.svg")
            self.assertGreaterEqual(program["main"](str(ROOT / "examples" / "data"), path), 0.98)
            curves = xml.etree.ElementTree.parse(path).getroot().findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual([len(c.get("points").split()) for c in curves], [330, 15])
        self.assertIn("loss of each step", out.getvalue())


if __name__ == "__main__":
    unittest.main()
