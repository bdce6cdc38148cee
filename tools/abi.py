#!/usr/bin/env python3
"""abi.py - holds what the headers promise to compiled programs against the committed baseline.

Usage: abi.py [check [INCLUDE]]   status 1, saying what, where a program compiled before would not work
       abi.py write               the headers' promises become the baseline, tools/abi.txt
Needs libabigail (Debian: abigail-tools) and a C compiler; status 3 without them.

The baseline is the headers' declarations, a line each. From it and from the headers two libraries of
empty functions are compiled, and abidiff compares those: so only public types count, and the check
needs no build. A struct of options may grow at its end, for programs hand in its size (QN_STRUCT in
quern.h), and so may a struct of results: new fields lie behind the old struct, not in bytes that only
filled it up, which an older program may have left as they were. Functions and values of enums may be
added. Nothing else may change.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BASELINE = os.path.join(ROOT, "tools", "abi.txt")
HEADERS = ["quern.h", "quern_ops.h", "quern_ops_linalg.h", "quern_ops_nn.h", "quern_nn.h", "quern_tune.h",
           "quern_custom.h", "quern_view.h", "quern_quant.h", "quern_archive.h", "quern_text.h", "quern_data.h",
           "quern_llm.h", "quern_onnx.h", "quern_export.h"]
STRUCT = re.compile(r"typedef struct (qn_[a-z_]*(?:options|config|stats|wisdom|state)) \{ (.*) \} \1;")


def declarations(include):
    """Types and prototypes of the headers, one a line, in the order they stand in."""
    text = ""
    for name in HEADERS:
        with open(os.path.join(include, name)) as f:
            text += f.read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    text = re.sub(r"^static inline .*?^\}", "", text, flags=re.M | re.S)
    text = re.sub(r"extern \"C\" \{|^\}\s*$", "", text, flags=re.M)
    lines, depth, line = [], 0, ""
    for c in re.sub(r"\s+", " ", text):
        line += c
        depth += (c == "{") - (c == "}")
        if c == ";" and depth == 0:
            lines.append(line.strip().replace("QN_API ", ""))
            line = ""
    return [" ".join(one.split()) for one in lines]


def fields(lines):
    """name -> fields of the structs that may grow."""
    return {m[1]: m[2].split("; ") for m in map(STRUCT.fullmatch, lines) if m}


def as_before(before, now):
    """The declarations of now, structs without what they have grown by; and C that fails to compile
    where that does not lie behind the struct as it was."""
    old, lines, proof = fields(before), [], [line for line in now if line.startswith("typedef")]
    for line in now:
        match = STRUCT.fullmatch(line)
        here, there = (match[2].split("; "), old.get(match[1])) if match else ([], None)
        if there and len(here) > len(there):
            line = f"typedef struct {match[1]} {{ {'; '.join(here[:len(there)]).rstrip(';')}; }} {match[1]};"
            first = re.findall(r"\w+", re.sub(r"\[.*?\]", "", here[len(there)].split(",")[0]))[-1]
            was = "; ".join(there)
            proof.append(f"_Static_assert(offsetof({match[1]}, {first}) >= sizeof(struct {{ {was} }}), "
                         f'"{match[1]}.{first} lies in what filled up the struct");')
        lines.append(line)
    return lines, proof


def compile_c(lines, out, *options):
    source = out + ".c"
    with open(source, "w") as f:
        f.write("#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n" + "\n".join(lines) + "\n")
    compiler = os.environ.get("CC", "cc").split()
    return subprocess.run([*compiler, "-std=c17", "-g", "-O0", "-w", *options, "-o", out, source]).returncode == 0


def library(lines, folder, name):
    """A shared library in which each prototype is an empty function."""
    out = os.path.join(folder, name, "libquern.so.0")
    os.mkdir(os.path.dirname(out))
    stubs = [line if line.startswith("typedef") else line[:-1] + " { __builtin_trap(); }" for line in lines]
    return out if compile_c(stubs, out, "-fPIC", "-shared") else None


def check(include):
    with open(BASELINE) as f:
        before = [line for line in f.read().splitlines() if line and not line.startswith("#")]
    now, proof = as_before(before, declarations(include))
    with tempfile.TemporaryDirectory() as folder:
        old, new = library(before, folder, "before"), library(now, folder, "now")
        if not old or not new:
            print("abi: the declarations do not compile")
            return 2
        if not compile_c(proof, os.path.join(folder, "proof.o"), "-c"):
            return 1
        status = subprocess.run(["abidiff", "--no-added-syms", old, new]).returncode
    return 2 if status & 3 else 1 if status else 0


def main():
    command, include = (sys.argv + ["check"])[1], (sys.argv + ["", ""])[2]
    include = include or os.path.join(ROOT, "include")
    if command == "write":
        with open(BASELINE, "w") as f:
            f.write("# What the headers promise to compiled programs; written by tools/abi.py write.\n")
            f.write("\n".join(declarations(include)) + "\n")
        return 0
    if command != "check":
        print(__doc__)
        return 2
    if not shutil.which("abidiff") or not shutil.which(os.environ.get("CC", "cc").split()[0]):
        print("abi: no abidiff (Debian: abigail-tools), or no compiler")
        return 3
    return check(include)


if __name__ == "__main__":
    sys.exit(main())
