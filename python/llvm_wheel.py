#!/usr/bin/env python3
"""llvm_wheel.py - the wheel quern-llvm: of LLVM what Quern's kernels are compiled by, and nothing else.

`pip install quern[llvm]` brings it where no libLLVM is installed. It has one library, linked from LLVM's static
archives (llvm-19-dev, or a build of one's own): the C functions that src/emit/llvm/api.h names are its only
symbols, and what they do not reach is left out. The code generator is that of the wheel's own machine, for kernels
run where they are made. The C++ library, zlib and zstd are linked in, so that it wants nothing but libc and libm.

Usage: llvm_wheel.py FOLDER ARCHIVES    from ARCHIVES/libLLVM*.a; writes the wheel into FOLDER and says its name.
                                        CXX is the compiler that links, g++ otherwise, LDFLAGS more for it.
"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backend  # noqa: E402

NAME, LIBRARY = "quern_llvm", "libLLVM.so"
LAST = 25 << 20  # bytes of a wheel at most
TARGETS = ("AArch64", "AMDGPU", "ARM", "AVR", "BPF", "Hexagon", "Lanai", "LoongArch", "M68k", "MSP430", "Mips", "NVPTX",
           "PowerPC", "RISCV", "Sparc", "SystemZ", "VE", "WebAssembly", "X86", "XCore", "Xtensa")
PARTS = ("CodeGen", "Desc", "Info", "Utils", "AsmParser", "Disassembler", "TargetMCA")
MODULE = '''"""LLVM's code generator for quern, which finds it here (python/llvm_wheel.py of quern makes it)."""

import os


def file():
    """The library's file."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "libLLVM.so")
'''


def functions():
    """The C functions that are looked up by name, those of this machine's target among them."""
    with open(os.path.join(backend.ROOT, "src", "emit", "llvm", "api.h")) as f:
        return ["LLVM" + n for n in re.findall(r"^\s*X\((\w+),", f.read(), re.M)] + ["LLVMGetVersion"]


def archives(folder):
    """Those of no other machine's target."""
    others = {f"libLLVM{t}{p}.a" for t in TARGETS if t != "X86" for p in PARTS}
    found = [p for p in sorted(glob.glob(os.path.join(folder, "libLLVM*.a"))) if os.path.basename(p) not in others]
    if not any("X86CodeGen" in p for p in found):
        sys.exit(f"quern: no libLLVMX86CodeGen.a in {folder}: tools/setup.sh --llvm-static installs LLVM's archives")
    return found


def linker():
    """lld and gold join functions of equal code; the others do not."""
    for name, command in (("lld", "ld.lld"), ("gold", "ld.gold")):
        if shutil.which(command):
            return [f"-fuse-ld={name}", "-Wl,--icf=all"]
    return []


def link(folder, out):
    names = functions()
    script = os.path.join(os.path.dirname(out), "names.map")
    with open(script, "w") as f:
        f.write("{ global: " + " ".join(n + ";" for n in names) + " local: *; };\n")
    command = [*shlex.split(os.environ.get("CXX", "g++")), "-shared", "-o", out, *linker(), "-static-libstdc++",
               "-static-libgcc", f"-Wl,--version-script={script}", f"-Wl,-soname,{LIBRARY}", "-Wl,--gc-sections,-O2,-s",
               "-Wl,-z,defs", *(f"-Wl,-u,{n}" for n in names), "-Wl,--start-group", *archives(folder),
               "-Wl,--end-group", *shlex.split(os.environ.get("LDFLAGS", "")), "-l:libz.a", "-l:libzstd.a", "-lpthread",
               "-ldl", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"quern: LLVM does not link:\n{done.stderr[-2000:]}")


def license_of(folder):
    """LLVM's own, as the package of the archives has it, else which it is."""
    for path in glob.glob(os.path.join(folder, "../../../share/doc/llvm-*-dev/copyright")):
        return backend.read(path)
    return b"LLVM is under the Apache License v2.0 with LLVM Exceptions: https://llvm.org/LICENSE.txt\n"


def version(out):
    """Of the LLVM in it."""
    found = re.search(rb"LLVM(?: version)? ?(\d+\.\d+\.\d+)", backend.read(out))
    return found.group(1).decode() if found else "0"


def build(folder, where):
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, LIBRARY)
        link(where, out)
        about = (f"Metadata-Version: 2.1\nName: quern-llvm\nVersion: {backend.project()['version']}\n"
                 f"Summary: LLVM {version(out)}'s code generator, for quern's kernels\n"
                 "License: Apache-2.0 WITH LLVM-exception\nRequires-Python: >=3.11\n")
        wheel = backend.Wheel(folder, "py3-none-" + backend.platform(out), NAME, about, license_of(where))
        wheel.add(f"{NAME}/__init__.py", MODULE.encode())
        wheel.add(f"{NAME}/{LIBRARY}", backend.read(out))
        return wheel.close()


if __name__ == "__main__":
    made = build(*sys.argv[1:3])
    size = os.path.getsize(os.path.join(sys.argv[1], made))
    print(f"{made}: {size} bytes")
    if size > LAST:
        sys.exit(f"quern: more than {LAST} bytes")
