#!/usr/bin/env python3
"""export_networks.py - whole networks as C: their bits beside the library's, and their time.

Usage: export_networks.py --quern BUILD/quern [--runs N] [--no-sanitizers] [NAME ...]    of a Python with torch and what
                                                                          onnx_zoo.py exports networks by

Each network of onnx_zoo.py, by default MobileNetV3 and GPT-2, is written by `quern export` with its weights in a blob,
compiled by gcc and clang (-O3 -march=native -ffp-contract=off, all warnings as errors), and run on random inputs, all
of its memory between bytes that must stay. All bits of the outputs must be those of `quern run` with one thread. Then
the same compiled with sanitizers of addresses and undefined behaviour, whose runs are slow. Times are the least of N
runs, by turns with the library's. The last line is "N passed, N failed".
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from onnx_zoo import exported, inputs_of  # noqa: E402

USUAL = ["mobilenet_v3", "gpt2"]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
FAST = ["-O3", "-march=native", "-ffp-contract=off"]
CHECKED = ["-O1", "-march=native", "-ffp-contract=off", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
ROUNDS = 3

# Rooms of memory between canaries; inputs and weights from files; the outputs to one; the least time to stdout.
DRIVER = """
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
enum { GUARD = 4096, ROOMS = 64 };
typedef struct room { unsigned char *at; size_t size; } room;
static room rooms[ROOMS];
static int count;
static void *make(size_t size, const char *file) {
    void *p = NULL;
    if (posix_memalign(&p, MODEL_ALIGN, size + 2 * GUARD)) exit(2);
    memset(p, 0xa5, size + 2 * GUARD);
    rooms[count].at = (unsigned char *)p + GUARD;
    rooms[count].size = size;
    FILE *f = file ? fopen(file, "rb") : NULL;
    if (file && (!f || fread(rooms[count].at, 1, size, f) != size)) exit(3);
    if (f) fclose(f);
    return rooms[count++].at;
}
static int intact(void) {
    for (int i = 0; i < count; i++)
        for (int k = 1; k <= GUARD; k++)
            if (rooms[i].at[-k] != 0xa5 || rooms[i].at[rooms[i].size + (size_t)k - 1] != 0xa5) return 0;
    return 1;
}
int main(int argc, char **argv) {
    double least = 1e9;
    int runs = argc > 1 ? atoi(argv[1]) : 1;
    void *arena = make(MODEL_ARENA_BYTES, NULL), *weights = make(MODEL_WEIGHTS_BYTES, "model.bin");
    @MAKE@
    memset(arena, 0xff, MODEL_ARENA_BYTES);
    for (int i = 0; i < runs; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        model_run(@GIVE@weights, arena);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double t = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
        if (t < least) least = t;
    }
    printf("%.6f\\n", 1e3 * least);
    @WRITE@
    return intact() ? 0 : 4;
}
"""


def sizes(header):
    return {k: int(v) for k, v in re.findall(r"^#define MODEL_(\w+) (\d+)$", header, re.M)}


def command(words, folder, **more):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, **more)
    if done.returncode:
        raise RuntimeError(f"{words[0]} {words[1]}: {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def write_driver(folder):
    with open(os.path.join(folder, "model.h")) as f:
        size = sizes(f.read())
    n, m = size["INPUTS"], size["OUTPUTS"]
    make = [f'void *i{i} = make(MODEL_INPUT_{i}_BYTES, "i{i}.bin");' for i in range(n)]
    make += [f"void *o{i} = make(MODEL_OUTPUT_{i}_BYTES, NULL);" for i in range(m)]
    write = ['FILE *out = fopen("out.bin", "wb");', "if (!out) return 5;"]
    write += [f"if (fwrite(o{i}, 1, MODEL_OUTPUT_{i}_BYTES, out) != MODEL_OUTPUT_{i}_BYTES) return 6;"
              for i in range(m)]
    write += ["if (fclose(out)) return 7;"]
    give = "".join(f"i{i}, " for i in range(n)) + "".join(f"o{i}, " for i in range(m))
    text = DRIVER.replace("@GIVE@", give)
    text = text.replace("@MAKE@", "\n    ".join(make)).replace("@WRITE@", "\n    ".join(write))
    with open(os.path.join(folder, "main.c"), "w") as f:
        f.write(text)
    return size


def build(compiler, flags, program, folder):
    command([compiler, *STRICT, *flags, "-c", "model.c", "-o", program + ".o"], folder)
    command([compiler, "-std=c99", "-D_GNU_SOURCE", *flags, "main.c", program + ".o", "-o", program, "-lm"], folder)


def outputs(folder):
    with open(os.path.join(folder, "out.bin"), "rb") as f:
        return f.read()


def library(quern, path, names, outs, runs, folder):
    """The library's outputs, one behind the other, and its least time in ms, of one thread."""
    files = ",".join(f"{n}.npy" for n in outs)
    given = ",".join(f"{n}={n}.npy" for n in names)
    said = command([quern, "run", path, "--threads", "1", "--input", given, "--output", files, "--repeat", str(runs)],
                   folder)
    least = re.search(r"([0-9.]+) (ms|s)\b", said)
    ms = float(least[1]) * (1 if least[2] == "ms" else 1e3)
    return b"".join(np.load(os.path.join(folder, n + ".npy")).tobytes() for n in outs), ms


def prove(name, quern, runs, checked, folder):
    """Says how it went; raises where it did not."""
    path, given = exported(name), inputs_of(name)
    shapes = ",".join(f"{n}={'x'.join(map(str, x.shape))}" for n, x in given.items())
    said = command([quern, "export", path, "--out", "model.c", "--blob", "model.bin", "--shape", shapes], folder)
    inputs = re.findall(r"^input_\d+ is (.*)$", said, re.M)
    outs = [f"out{i}" for i in range(len(re.findall(r"^output_\d+ is ", said, re.M)))]
    for i, n in enumerate(inputs):
        np.ascontiguousarray(given[n]).tofile(os.path.join(folder, f"i{i}.bin"))
        np.save(os.path.join(folder, n + ".npy"), np.ascontiguousarray(given[n]))
    size = write_driver(folder)
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
    for c in compilers:
        build(c, FAST, c, folder)
    times = {c: 1e9 for c in ("library", *compilers)}
    for _ in range(ROUNDS):
        want, ms = library(quern, path, inputs, outs, runs, folder)
        times["library"] = min(times["library"], ms)
        for c in compilers:
            times[c] = min(times[c], float(command(["./" + c, str(runs)], folder)))
            if outputs(folder) != want:
                raise RuntimeError(f"{c}'s bits are others than the library's")
    if checked:
        build("gcc", CHECKED, "checked", folder)
        command(["./checked", "1"], folder, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
        if outputs(folder) != want:
            raise RuntimeError("bits under sanitizers are others than the library's")
    figures = ", ".join(f"{c} {t:.2f} ms" for c, t in times.items())
    return f"{figures}; arena {size['ARENA_BYTES'] / 2**20:.1f} MiB, weights {size['WEIGHTS_BYTES'] / 2**20:.1f} MiB"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quern", required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--no-sanitizers", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    passed = failed = 0
    for name in args.names or USUAL:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{name}: {prove(name, os.path.abspath(args.quern), args.runs, not args.no_sanitizers, folder)}",
                      flush=True)
                passed += 1
            except Exception as e:  # whatever it is, the network has failed
                print(f"{name}: FAILED: {e}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
