#!/usr/bin/env python3
"""export_networks.py - whole networks as C: their bits beside the library's, and their time.

Usage: export_networks.py --quern BUILD/quern [--runs N] [--no-sanitizers] [NAME ...]    of a Python with torch and what
                                                                          onnx_zoo.py exports networks by

Each network of onnx_zoo.py, by default MobileNetV3 and GPT-2, is written by `quern export` with its weights in a blob,
compiled by gcc and clang (-O3 -march=native -ffp-contract=off, all warnings as errors), and run on random inputs, all
of its memory between bytes that must stay. All bits of the outputs must be those of `quern run` with one thread. Then
the same compiled with sanitizers of addresses and undefined behaviour, memory of the very sizes that are promised.
Times are the least of N runs, by turns with the library's. The last line is "N passed, N failed".

The name "step" is a training step of a convolutional network (export_step.c): losses of some steps, and the parameters
and moments that those leave, must be the library's.
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

USUAL = ["mobilenet_v3", "gpt2", "step"]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
FAST = ["-O3", "-march=native", "-ffp-contract=off"]
CHECKED = ["-O1", "-march=native", "-ffp-contract=off", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
           "-DEXACT"]
ROUNDS = 3
STEPS = 4

# Rooms of memory between canaries, in large pages, as the library's; inputs and weights from files.
ROOMS = """
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#ifdef EXACT
enum { GUARD = 0 };
#else
enum { GUARD = 4096 };
#endif
typedef struct room { unsigned char *at; size_t size; } room;
static room rooms[64];
static int count;
static void *make(size_t size, const char *file) {
    void *p = NULL;
    const size_t large = 1 << 21, all = size + 2 * GUARD;
    if (posix_memalign(&p, all >= large ? large : MODEL_ALIGN, all)) exit(2);
    if (all >= large) madvise(p, all / large * large, MADV_HUGEPAGE);
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
static void give(FILE *out, const void *from, size_t size) {
    if (fwrite(from, 1, size, out) != size) exit(6);
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
"""

# The outputs to a file; the least time to stdout.
DRIVER = """
int main(int argc, char **argv) {
    double least = 1e9;
    int runs = argc > 1 ? atoi(argv[1]) : 1;
    void *arena = make(MODEL_ARENA_BYTES, NULL), *weights = make(MODEL_WEIGHTS_BYTES, "model.bin");
    @MAKE@
    memset(arena, 0xff, MODEL_ARENA_BYTES);
    for (int i = 0; i < runs; i++) {
        double begin = now();
        model_run(@GIVE@weights, arena);
        if (now() - begin < least) least = now() - begin;
    }
    printf("%.6f\\n", least);
    FILE *out = fopen("out.bin", "wb");
    if (!out) return 5;
    @WRITE@
    if (fclose(out)) return 7;
    return intact() ? 0 : 4;
}
"""

# Steps on batches, the loss of each to a file; then the state; then steps on the last batch, for their time.
STEP_DRIVER = """
int main(int argc, char **argv) {
    double least = 1e9;
    int runs = argc > 1 ? atoi(argv[1]) : 1;
    void *arena = make(MODEL_ARENA_BYTES, NULL), *weights = make(MODEL_WEIGHTS_BYTES, "model.bin");
    unsigned char *state = make(MODEL_STATE_BYTES, NULL);
    void *i0 = make(MODEL_INPUT_0_BYTES, NULL), *i1 = make(MODEL_INPUT_1_BYTES, NULL);
    void *o0 = make(MODEL_OUTPUT_0_BYTES, NULL);
    FILE *images = fopen("i0.bin", "rb"), *labels = fopen("i1.bin", "rb"), *out = fopen("out.bin", "wb");
    if (!images || !labels || !out) return 5;
    model_init(state, weights);
    for (int i = 0; i < @STEPS@; i++) {
        if (fread(i0, MODEL_INPUT_0_BYTES, 1, images) != 1 || fread(i1, MODEL_INPUT_1_BYTES, 1, labels) != 1) return 3;
        memset(arena, 0xff, MODEL_ARENA_BYTES);
        model_run(i0, i1, o0, state, weights, arena);
        give(out, o0, MODEL_OUTPUT_0_BYTES);
    }
    @WRITE@
    for (int i = 0; i < runs; i++) {
        double begin = now();
        model_run(i0, i1, o0, state, weights, arena);
        if (now() - begin < least) least = now() - begin;
    }
    printf("%.6f\\n", least);
    fclose(images);
    fclose(labels);
    if (fclose(out)) return 7;
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


def header(folder):
    with open(os.path.join(folder, "model.h")) as f:
        return f.read()


def write_main(folder, text):
    with open(os.path.join(folder, "main.c"), "w") as f:
        f.write(ROOMS + text)


def write_driver(folder):
    size = sizes(header(folder))
    n, m = size["INPUTS"], size["OUTPUTS"]
    make = [f'void *i{i} = make(MODEL_INPUT_{i}_BYTES, "i{i}.bin");' for i in range(n)]
    make += [f"void *o{i} = make(MODEL_OUTPUT_{i}_BYTES, NULL);" for i in range(m)]
    write = [f"give(out, o{i}, MODEL_OUTPUT_{i}_BYTES);" for i in range(m)]
    give = "".join(f"i{i}, " for i in range(n)) + "".join(f"o{i}, " for i in range(m))
    text = DRIVER.replace("@GIVE@", give)
    write_main(folder, text.replace("@MAKE@", "\n    ".join(make)).replace("@WRITE@", "\n    ".join(write)))
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


def compared(folder, library_run, runs, checked):
    """model.c beside what library_run() gives, the bytes and a time: the times, by whom; raises where bytes differ."""
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
    for c in compilers:
        build(c, FAST, c, folder)
    times = {c: 1e9 for c in ("library", *compilers)}
    for _ in range(ROUNDS):
        want, ms = library_run()
        times["library"] = min(times["library"], ms)
        for c in compilers:
            times[c] = min(times[c], float(command(["./" + c, str(runs)], folder)))
            if outputs(folder) != want:
                raise RuntimeError(f"{c}'s bits are others than the library's")
    for c in compilers if checked else []:
        build(c, CHECKED, "checked", folder)
        command(["./checked", "1"], folder, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
        if outputs(folder) != want:
            raise RuntimeError(f"{c}'s bits under sanitizers are others than the library's")
    return times


def report(times, size):
    figures = ", ".join(f"{c} {t:.2f} ms" + (f" ({times['library'] / t:.2f})" if c != "library" else "")
                        for c, t in times.items())
    return f"{figures}; arena {size['ARENA_BYTES'] / 2**20:.1f} MiB, weights {size['WEIGHTS_BYTES'] / 2**20:.1f} MiB"


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
    return report(compared(folder, lambda: library(quern, path, inputs, outs, runs, folder), runs, checked), size)


def library_step(runs, folder):
    """Of export_step.c: the losses' and the state's bytes, as STEP_DRIVER writes them, and the least time in ms. What
    the library has and no step changes, as the rate, is no state of the program's."""
    said = command(["./library", ".", str(STEPS), str(runs)], folder)
    with open(os.path.join(folder, "want.bin"), "rb") as f:
        want = f.read(4 * STEPS)
        names = re.findall(r"^state (\S+) (\d+)$", said, re.M)
        data = {name: f.read(int(size)) for name, size in names}
    states = re.findall(r'^/\* state \d+, "(.*)":', header(folder), re.M)
    if len(states) < len(names) - 1:
        raise RuntimeError(f"{len(states)} states for {len(names)} of the library's")
    return want + b"".join(data[name] for name in states), float(said.split()[-1])


def prove_step(quern, runs, checked, folder):
    here = os.path.dirname(os.path.abspath(__file__))
    command(["cc", "-std=c17", "-D_GNU_SOURCE", "-O2", "-I", os.path.join(here, "../../include"),
             os.path.join(here, "export_step.c"), os.path.join(os.path.dirname(quern), "libquern.a"), "-o", "library",
             "-ldl", "-lm", "-lpthread"], folder)
    library_step(0, folder)
    size = sizes(header(folder))
    write = [f"give(out, state + MODEL_STATE_{i}_OFFSET, MODEL_STATE_{i}_BYTES);" for i in range(size["STATES"])]
    write_main(folder, STEP_DRIVER.replace("@STEPS@", str(STEPS)).replace("@WRITE@", "\n    ".join(write)))
    return report(compared(folder, lambda: library_step(runs, folder), runs, checked), size)


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
                how = os.path.abspath(args.quern), args.runs, not args.no_sanitizers, folder
                print(f"{name}: {prove_step(*how) if name == 'step' else prove(name, *how)}", flush=True)
                passed += 1
            except Exception as e:  # whatever it is, the network has failed
                print(f"{name}: FAILED: {e}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
