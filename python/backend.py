#!/usr/bin/env python3
"""backend.py - builds the wheel of the package: what `pip install .` and `make wheel` call (PEP 517).

It needs nothing but make, a C compiler and Python: the extension module is made by the Makefile, stripped, and put
beside the package's files into a zip. Its tag says the newest glibc that its symbols want, so the wheel is what
auditwheel calls manylinux: nothing but libc and libm is linked; LLVM is looked for at run time.

Usage: backend.py FOLDER    writes the wheel there and says its name
"""

import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def project():
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        return tomllib.load(f)["project"]


def metadata():
    p = project()
    lines = ["Metadata-Version: 2.1", f"Name: {p['name']}", f"Version: {p['version']}", f"Summary: {p['description']}",
             f"Requires-Python: {p['requires-python']}"] + [f"Classifier: {c}" for c in p["classifiers"]]
    for extra, needs in p["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"] + [f'Requires-Dist: {n}; extra == "{extra}"' for n in needs]
    with open(os.path.join(ROOT, p["readme"])) as f:
        return "\n".join(lines + ["Description-Content-Type: text/markdown", "", f.read()])


def module():
    """The path of the extension module, built."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX") if sysconfig.get_config_var("Py_GIL_DISABLED") else ".abi3.so"
    done = subprocess.run(["make", f"-j{os.cpu_count()}", "python", f"PYTHON={sys.executable}"], cwd=ROOT,
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"quern: make python failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return os.path.join(ROOT, "python", "quern", "_core" + suffix)


def platform(path):
    """manylinux_2_N of the newest glibc symbol that the module takes."""
    machine = sysconfig.get_platform().split("-")[-1]
    try:
        text = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return f"linux_{machine}"
    versions = [int(v) for v in re.findall(r"GLIBC_2\.(\d+)", text)]
    return f"manylinux_2_{max(versions + [17])}_{machine}" if versions else f"linux_{machine}"


def tag(path):
    if path.endswith(".abi3.so"):
        return f"cp311-abi3-{platform(path)}"
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{version}-{version}t-{platform(path)}"


class Wheel:
    """A wheel of this project, or of another name, with another METADATA and LICENSE."""

    def __init__(self, folder, tag_, name=None, about=None, license_=None):
        p = project()
        name = name or p["name"]
        self.about = about or metadata()
        self.license = license_ or read(os.path.join(ROOT, "LICENSE"))
        self.info = f"{name}-{p['version']}.dist-info"
        self.name = f"{name}-{p['version']}-{tag_}.whl"
        self.zip = zipfile.ZipFile(os.path.join(folder, self.name), "w", zipfile.ZIP_DEFLATED)
        self.record, self.tag = [], tag_

    def add(self, name, data):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
        self.zip.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)

    def close(self):
        self.add(f"{self.info}/METADATA", self.about.encode())
        pure = "true" if self.tag.endswith("any") else "false"
        text = f"Wheel-Version: 1.0\nGenerator: quern\nRoot-Is-Purelib: {pure}\nTag: {self.tag}\n"
        self.add(f"{self.info}/WHEEL", text.encode())
        self.add(f"{self.info}/LICENSE", self.license)
        self.record.append(f"{self.info}/RECORD,,")
        self.zip.writestr(f"{self.info}/RECORD", "\n".join(self.record) + "\n")
        self.zip.close()
        return self.name


def read(path):
    with open(path, "rb") as f:
        return f.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    path = module()
    wheel = Wheel(wheel_directory, tag(path))
    for pattern in ("*.py", "*.pyi", "py.typed"):
        for file in sorted(glob.glob(os.path.join(ROOT, "python", "quern", "**", pattern), recursive=True)):
            wheel.add(os.path.relpath(file, os.path.join(ROOT, "python")), read(file))
    with tempfile.TemporaryDirectory() as folder:
        small = shutil.copy(path, folder)
        subprocess.run(["strip", small], check=False)
        wheel.add("quern/" + os.path.basename(path), read(small))
    return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    module()
    wheel = Wheel(wheel_directory, "py3-none-any")
    wheel.add("quern.pth", (os.path.join(ROOT, "python") + "\n").encode())
    return wheel.close()


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_editable(config_settings=None):
    return []


if __name__ == "__main__":
    made = build_wheel(sys.argv[1])
    print(f"{made}: {os.path.getsize(os.path.join(sys.argv[1], made))} bytes")
