#!/usr/bin/env python3
"""onnx_nets.py - networks of ONNX files run by Quern and by onnxruntime, by turns: `make bench-onnx`.

Usage: onnx_nets.py [-n ROUNDS] [-t THREADS] [NAME ..]    of a Python with what tools/compare/onnx_zoo.py needs

Each library is a process of its own with the same file and inputs, on as many processors as it has threads; the one
that is not asked waits, and who is asked runs three times. Outputs must be the same to 1e-4 of the largest. Printed
is a table, a row for each network: least times of a run in milliseconds; onnxruntime's over Quern's, above 1 where
Quern is faster; seconds to load the model and run it once, with nothing compiled, and of Quern again in a new
process; the peak memory of that and the runs. With one thread the times are the process's processor time, which other
work on the machine hardly changes; with more they are the clock's.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tools", "compare")]
COLUMNS = ["network", "Quern, ms", "onnxruntime", "ratio", "first, s", "again, s", "onnxruntime's", "memory, MiB",
           "onnxruntime's"]
QUIET = 0.12  # seconds in which the other library's threads fall asleep: onnxruntime's (1.32) watch for work for 0.04
IN_A_ROW = 3  # runs, of which the first wakes the threads and fills the caches

# ---- a library's process: `onnx_nets.py --play LIBRARY FILE INPUTS OUTPUTS THREADS` -----------------


def play_quern(path, inputs, threads):
    import quern
    model = quern.onnx.load(path)
    tensors = {n: quern.tensor(x) for n, x in inputs.items()}

    def run():
        out = model.run(tensors)
        for t in out.values():
            t.realize()
        return out
    return run, lambda out: {n: t.numpy() for n, t in out.items()}


def play_onnxruntime(path, inputs, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [v.name for v in session.get_outputs()]
    return lambda: session.run(None, inputs), lambda out: dict(zip(names, out))


def load_library(library, threads):
    os.environ["QN_THREADS"] = str(threads)
    if library == "quern":
        import quern
        quern.zeros(1).realize()
    else:
        import onnxruntime  # noqa: F401


def status(field):
    """MiB, of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


def timed(run, clock):
    begun = clock()
    run()
    return clock() - begun


def play(library, path, inputs, outputs, threads):
    """Says the seconds of the first run, and answers each line: "run" by milliseconds, "memory" by MiB."""
    threads = int(threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    clock = time.process_time if threads == 1 else time.perf_counter
    with np.load(inputs) as file:
        inputs = dict(file)
    load_library(library, threads)
    loaded = status("VmRSS")
    begun = time.perf_counter()
    run, arrays = {"quern": play_quern, "onnxruntime": play_onnxruntime}[library](path, inputs, threads)
    out = run()
    took = time.perf_counter() - begun
    np.savez(outputs, **{str(i): a for i, (_, a) in enumerate(sorted(arrays(out).items()))})
    print(took, flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            print(status("VmHWM") - loaded, flush=True)
            continue
        times = [timed(run, clock) for _ in range(IN_A_ROW)]
        print(min(times) * 1e3, flush=True)


class Player:
    """A library in its process."""

    def __init__(self, library, files, threads, **environment):
        self.library, self.times = library, []
        self.outputs = os.path.join(files["folder"], library + ".npz")
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--play", library, files["model"], files["inputs"],
             self.outputs, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), **environment})
        self.first = float(self.process.stdout.readline() or "nan")

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline() or "nan")

    def arrays(self):
        with np.load(self.outputs) as file:
            return [file[str(i)] for i in range(len(file.files))]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


# ---- the table --------------------------------------------------------------------------------------


def same(mine, theirs):
    """Whether outputs are, to 1e-4 of the largest."""
    return all(a.shape == b.shape and np.allclose(a, b, rtol=0, atol=1e-4 * np.abs(b).max(initial=0))
               for a, b in zip(mine, theirs, strict=True))


def row(name, threads, rounds, folder):
    """The cells of a network, and its ratio."""
    from onnx_zoo import exported, inputs_of
    files = {"folder": folder, "model": exported(name), "inputs": os.path.join(folder, "inputs.npz")}
    np.savez(files["inputs"], **inputs_of(name))
    cache = {"QN_CACHE": tempfile.mkdtemp(dir=folder)}
    players = [Player("quern", files, threads, **cache), Player("onnxruntime", files, threads)]
    if not same(*(p.arrays() for p in players)):
        sys.exit(f"{name}: the outputs are not those of onnxruntime")
    for _ in range(rounds):
        for player in players:
            time.sleep(QUIET if threads > 1 else 0)
            player.times.append(player.ask("run"))
    ours, theirs = players
    memory = [p.ask("memory") for p in players]
    for player in players:
        player.end()
    again = Player("quern", files, threads, **cache)
    again.end()
    mine, other = min(ours.times), min(theirs.times)
    return [name, ms(mine), ms(other), f"{other / mine:.2f}", f"{ours.first:.1f}", f"{again.first:.1f}",
            f"{theirs.first:.1f}", *(f"{m:.0f}" for m in memory)], other / mine


def ms(value):
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    from onnx_zoo import NETWORKS
    names = [n for n, x in NETWORKS.items() if x.static]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=20, help="rounds")
    parser.add_argument("-t", type=int, default=1, help="threads")
    parser.add_argument("names", nargs="*", help=", ".join(names))
    given = parser.parse_args()
    unknown = [n for n in given.names if n not in names]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}")
    line(COLUMNS)
    line(["---"] * len(COLUMNS))
    ratios = []
    for name in given.names or names:
        with tempfile.TemporaryDirectory() as folder:
            cells, ratio = row(name, given.t, given.n, folder)
        line(cells)
        ratios.append(ratio)
    print(f"\n{given.t} threads, geometric mean of the ratios "
          f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--play"]:
        play(*sys.argv[2:])
    else:
        main()
