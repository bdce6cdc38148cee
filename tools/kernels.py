#!/usr/bin/env python3
"""kernels.py - the scheduled kernels of all bench cases as text, and whether two such texts are the same.

Usage: kernels.py dump PEERS [DEVICE]     run bench/peers on a device (null), kernels to the standard output
       kernels.py refused PEERS          steps that schedulers did not foresee to be refused: there are to be none
       kernels.py same OLD NEW [WORDS]    compare two dumps; WORDS has a line
                                      "PATTERN => TEXT" for each renamed word (Python's re)

A change that only moves code leaves every kernel as it was, byte by byte but for renamed words. A dump holds
each kernel's schedule and its tree after every pass, for each case of bench/versus/cases.h: products,
convolutions, attention, streams, the training steps of an MLP, a small GPT and GPT-2.
"""

import os
import re
import subprocess
import sys

CASES = """
#define X(family, name, KIND, ...) CASE KIND __VA_ARGS__ ;
#include "bench/versus/cases.h"
"""
WORDS = """
#define X(kind, word, ...) KIND kind word ;
#include "bench/versus/kinds.h"
"""
DIMS = 7


def expanded(text):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    return subprocess.run([*os.environ.get("CC", "cc").split(), "-E", "-P", "-I", root, "-"], input=text,
                          capture_output=True, text=True, check=True).stdout


def loads():
    """What the player is asked, a line a case."""
    word = dict(re.findall(r'KIND (\w+) "(\w+)"', expanded(WORDS)))
    for kind, dims in re.findall(r"CASE (\w+) ([^;]*);", expanded(CASES)):
        if kind in ("DISPATCH", "COMPILE", "PLAN", "FORK_JOIN", "COLD_START", "WARM_START"):
            continue
        d = [eval(x) for x in dims.split(",") if x.strip()]  # numbers and shifts of our own table
        yield "load %s %s\n" % (word[kind], " ".join(str(x) for x in d + [0] * (DIMS - len(d))))


def serve(peers, device, letters):
    """What each case says under these letters of QN_DEBUG."""
    env = dict(os.environ, QN_DEVICE=device, QN_DEBUG=letters, QN_CACHE="off", QN_WISDOM="off",
               QN_THREADS="1")
    for line in loads():
        out = subprocess.run([peers, "--serve", "quern", "1"], input=line, env=env, text=True,
                             capture_output=True, check=True)
        if "ok\nok" not in out.stdout:
            sys.exit(f"{line.strip()}: {out.stdout.strip()}")
        yield line.strip(), out.stderr


def dump(peers, device):
    for case, text in serve(peers, device, "k"):
        print(f"== {case}")
        print(text, end="")


def refused(peers):
    bad = [f"{case}: {line}" for case, text in serve(peers, "null", "s")
           for line in text.splitlines() if "(not foreseen)" in line]
    print("\n".join(bad + [f"{len(bad)} steps were refused"]))
    return int(bool(bad))


def read(path, words):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if words:
        with open(words, encoding="utf-8") as file:
            for line in file.read().splitlines():
                pattern, new = line.split(" => ")
                text = re.sub(pattern, new, text, flags=re.M)
    return text.split("\n")


def same(old, new, words):
    a, b = read(old, words), read(new, None)
    if a == b:
        print(f"{len(b)} lines, {sum(x.startswith('== ') for x in b)} cases: the same")
        return 0
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            print(f"line {i + 1} differs:\n- {x}\n+ {y}")
            break
    else:
        print(f"{len(a)} lines and {len(b)} lines")
    return 1


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "dump":
        return dump(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "null")
    if len(sys.argv) == 3 and sys.argv[1] == "refused":
        return refused(sys.argv[2])
    if len(sys.argv) >= 4 and sys.argv[1] == "same":
        return same(sys.argv[2], sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else None)
    print(__doc__.split("\n\n")[1])
    return 2


if __name__ == "__main__":
    sys.exit(main())
