#!/usr/bin/env python3
"""main.py - steps of training of the networks of models/ beside PyTorch's and JAX's, by turns: `make bench-models`.

Usage: main.py [-n ROUNDS] [-t THREADS] [-p LIBRARY,..] [NAME ..]    of a Python with PyTorch and, for its column, JAX

Each library is a process of its own (player.py) with the same weights and data, on as many processors as it has
threads; those that are not asked wait. One whose first loss is wrong does not count. Printed is a table, a row for each
network: median times in milliseconds; the best peer's over Quern's, above 1 where Quern is faster; the first step, with
nothing compiled and again in a new process; the peak memory of the steps, and PyTorch's over it; the largest relative
difference of the first 20 losses from PyTorch's in double precision, of Quern and of PyTorch itself.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile

from cases import CASES

PLAYER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "player.py")
STEPS, WARM = 20, 3
PEERS = ["torch", "torch-compile", "jax"]
COLUMNS = ["step of", "Quern, ms", *PEERS, "ratio", "first, s", "again, s", "memory, MiB", "PyTorch's", "losses",
           "PyTorch's"]


class Player:
    """A library in its process; dead where it cannot do the case."""

    def __init__(self, library, case, threads, weights, **environment):
        self.times, self.losses = [], []
        self.process = subprocess.Popen(
            [sys.executable, PLAYER, library, case, str(threads), weights], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads), **environment})
        self.alive = self.answer() == "ready"

    def answer(self):
        return self.process.stdout.readline().strip()

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()

    def step(self):
        if not self.alive:
            return
        parts = self.ask("step").split()
        self.alive = len(parts) == 2
        if self.alive:
            self.times.append(float(parts[0]))
            self.losses.append(float(parts[1]))

    def memory(self):
        return float(self.ask("memory")) if self.alive else math.nan

    def median(self):
        return statistics.median(self.times[WARM:]) if self.alive else math.nan

    def first(self):
        return f"{self.times[0] / 1e3:.1f}" if self.times else ""

    def apart(self, exact):
        """At most, of the losses, from exact ones."""
        return max(abs(a / b - 1) for a, b in zip(self.losses, exact)) if self.alive else math.nan

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def played(library, case, threads, weights, steps, **environment):
    """A player that took so many steps alone and has ended."""
    player = Player(library, case, threads, weights, **environment)
    for _ in range(steps):
        player.step()
    player.end()
    return player


def row(case, threads, rounds, libraries, folder):
    """The cells of a network."""
    weights, cache = os.path.join(folder, "weights.npz"), {"QN_CACHE": tempfile.mkdtemp(dir=folder)}
    subprocess.run([sys.executable, PLAYER, "make", case, str(threads), weights], check=True)
    exact = played("torch64", case, threads, weights, STEPS).losses
    players = {name: Player(name, case, threads, weights, **cache) for name in ["quern", *libraries]}
    for _ in range(max(WARM + rounds, STEPS)):
        for player in players.values():
            player.step()
    for player in players.values():
        player.used = player.memory()
        player.end()
    ours, torch = players["quern"], players.get("torch")
    for name, player in players.items():
        if player.alive and not abs(player.losses[0] / exact[0] - 1) < 1e-4:
            print(f"{case}: {name} computes another loss: {player.losses[0]}, not {exact[0]}", file=sys.stderr)
            player.alive = False
    best = min((players[name].median() for name in libraries if players[name].alive), default=math.nan)
    again = played("quern", case, threads, weights, 1, **cache)
    os.remove(weights)
    return [case, ms(ours.median()), *(ms(players[n].median()) if n in players else "" for n in PEERS),
            f"{best / ours.median():.2f}", ours.first(), again.first(),
            f"{ours.used:.0f}", f"{torch.used / ours.used:.2f}" if torch else "",
            f"{ours.apart(exact):.1e}", f"{torch.apart(exact):.1e}" if torch else ""], best / ours.median()


def ms(value):
    return "" if math.isnan(value) else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=17, help="rounds behind the first three")
    parser.add_argument("-t", type=int, default=1, help="threads")
    parser.add_argument("-p", default=",".join(PEERS), help="libraries beside Quern")
    parser.add_argument("names", nargs="*", help=", ".join(CASES))
    given = parser.parse_args()
    peers = [n for n in given.p.split(",") if n]
    unknown = [n for n in given.names if n not in CASES] + [n for n in peers if n not in PEERS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}")
    line(COLUMNS)
    line(["---"] * len(COLUMNS))
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for case in given.names or CASES:
            cells, ratio = row(case, given.t, given.n, peers, folder)
            line(cells)
            ratios.append(ratio)
    print(f"\n{given.t} threads, geometric mean of the ratios "
          f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
