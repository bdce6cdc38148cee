"""LLVM's code generator from the wheel quern-llvm: it is taken where it is installed and no other is asked for."""

import os
import subprocess
import sys
import tempfile
import unittest

CODE = """
import os, warnings
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as told:
    import quern as qn
    qn.tensor(1.0)
print(told[0].message)
assert os.environ.get("QN_LLVM") == WANTED
"""


class Wheel(unittest.TestCase):
    def told(self, **knobs):
        """The warning of an import beside a wheel whose library is none."""
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "quern_llvm"))
            for name in ("__init__.py", "libLLVM.so"):
                open(os.path.join(folder, "quern_llvm", name), "w").close()
            code = CODE.replace("WANTED", repr(knobs.get("QN_LLVM")))
            env = {n: v for n, v in os.environ.items() if n != "QN_LLVM"}
            env.update(knobs, QN_CC="/none", QN_CACHE="off", PYTHONPATH=os.pathsep.join((here, folder)))
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

    def test_it_is_taken_and_the_environment_stays(self):
        self.assertIn("quern_llvm/libLLVM.so", self.told())

    def test_another_that_is_asked_for_is_taken(self):
        told = self.told(QN_LLVM="/none/at/all.so")
        self.assertNotIn("quern_llvm", told)
        self.assertIn("/none/at/all.so", told)

    def test_the_warning_names_the_remedy(self):
        self.assertIn("pip install quern[llvm]", self.told(QN_LLVM="/none/at/all.so"))


if __name__ == "__main__":
    unittest.main()
