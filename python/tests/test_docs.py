"""The examples of docs/python.md run."""

import re
import unittest
from pathlib import Path


class Examples(unittest.TestCase):
    def test_each_block_of_the_page_runs(self):
        page = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", page, re.S)
        self.assertGreater(len(blocks), 2)
        for block in blocks:
            exec(compile(block, "docs/python.md", "exec"), {"__name__": "example", "print": lambda *_: None})


if __name__ == "__main__":
    unittest.main()
