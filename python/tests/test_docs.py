"""The examples of the pages about Python run, and the names of their tables are there."""

import functools
import linecache
import re
import unittest
from pathlib import Path

import quern

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("python.md", "from-pytorch.md", "from-numpy.md")
ALONE = ("data.md",)  # without tables of names


class Pages(unittest.TestCase):
    def test_each_block_runs(self):
        for page in PAGES + ALONE:
            blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)
            self.assertGreater(len(blocks), 0)
            for k, block in enumerate(blocks):
                name = f"<docs/{page}, block {k}>"  # kernels look at their text
                linecache.cache[name] = (len(block), None, block.splitlines(True), name)
                exec(compile(block, name, "exec"), {"__name__": "example", "print": lambda *_: None})

    def test_each_name_of_the_tables_is_there(self):
        for page in PAGES[1:]:
            rows = re.findall(r"^\| `.*", (DOCS / page).read_text(), re.M)
            names = [n for row in rows for n in re.findall(r"`([^`]+)`", row.split("|")[2])]
            self.assertGreater(len(names), 80)
            for name in names:
                root, _, path = name.partition(".")
                start = {"qn": quern, "Tensor": quern.Tensor}[root]
                with self.subTest(page=page, name=name):
                    functools.reduce(getattr, path.split("."), start)


if __name__ == "__main__":
    unittest.main()
