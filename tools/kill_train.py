#!/usr/bin/env python3
"""kill_train.py - kills `quern train` at random moments, by SIGKILL, and goes on from its checkpoint.

Usage: kill_train.py QUERN [KILLS [SEED [MODEL]]]    20 kills; the seed, 1; a model's name, or the character GPT

One training runs undisturbed. The others have its options, write a checkpoint after every step that takes a
millisecond, and are killed at a moment drawn by the seed, many of them while they write; then --resume goes on, to be
killed again, until the training is done. Each checkpoint that is there must load, every loss that was printed must be
the undisturbed one's, to the last digit, and the model that comes out the same file. Files that were being written
when their writer was killed stay under names of their own, NAME.*.part, and are counted.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

DIGITS = ["--data", "examples/data/digits-images.idx", "--labels", "examples/data/digits-labels.idx"]
TEXT = ["--data", "TEXT", "--set", "vocabulary=257", "--set", "context=16", "--set", "width=16"]
OPTIONS = {
    "": ["--text", "TEXT", "--layers", "1", "--width", "16", "--heads", "2", "--context", "16"],
    "mlp": [*DIGITS, "--set", "in=64", "--set", "hidden=16", "--set", "dropout=0.1"],
    "gan": [*DIGITS, "--set", "channels=1", "--set", "image=8", "--set", "width=2", "--set", "latent=4"],
    "lstm": [*TEXT, "--set", "hidden=16"],
    "bert": [*TEXT, "--set", "mask=256", "--set", "layers=1", "--set", "heads=2", "--set", "hidden=16"],
}
COMMON = ["--batch", "4", "--seed", "3", "--steps", "1000", "--json"]


def losses(text):
    """{step: loss as it is spelled} of whole lines."""
    found = {}
    for line in text.split("\n")[:-1]:
        row = json.loads(line, parse_float=str)
        if "step" in row:
            found[row["step"]] = row["loss"]
    return found


class Trainings:
    def __init__(self, quern, folder, model):
        self.quern, self.folder, self.name = quern, folder, model
        self.text = os.path.join(folder, "text")
        with open(self.text, "w") as f:
            f.writelines(f"line {i} of a text in which every line says its number, {i}, twice.\n" for i in range(60))

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, out, *more):
        options = [self.text if o == "TEXT" else o for o in OPTIONS[self.name]]
        name = [self.name] if self.name else []
        return [self.quern, "train", *name, *options, "--out", self.path(out), *COMMON, *more]

    def undisturbed(self):
        begun = time.monotonic()
        done = subprocess.run(self.command("whole"), capture_output=True, text=True, check=True)
        with open(self.path("whole"), "rb") as f:
            self.model = f.read()
        self.losses, self.seconds = losses(done.stdout), time.monotonic() - begun

    def part(self, again, after):
        """Train for so many seconds; what was printed, and how it ended: None where it was killed."""
        with open(self.path("out"), "w+") as out, open(self.path("err"), "w+") as err:
            more = ["--checkpoint", "0.001"] + ["--resume"] * again
            run = subprocess.Popen(self.command("killed", *more), stdout=out, stderr=err)
            try:
                status = run.wait(after)
            except subprocess.TimeoutExpired:
                run.send_signal(signal.SIGKILL)
                run.wait()
                status = None
            out.seek(0)
            err.seek(0)
            return losses(out.read()), status, err.read()


def main():
    quern, kills = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    os.environ["QN_CACHE"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        t = Trainings(quern, folder, sys.argv[4] if len(sys.argv) > 4 else "")
        t.undisturbed()
        done = resumed = finished = seen = 0
        while done < kills:
            checkpoint = os.path.exists(t.path("killed.checkpoint"))
            got, status, err = t.part(checkpoint, rng.uniform(0.02, 0.6 * t.seconds))
            wrong = [step for step, loss in got.items() if t.losses[step] != loss]
            if wrong:
                sys.exit(f"kill_train: after {done} kills the loss of step {wrong[0]} is {got[wrong[0]]}, and was "
                         f"{t.losses[wrong[0]]}")
            if status not in (None, 0):
                sys.exit(f"kill_train: after {done} kills it ends with status {status}: {err}")
            if checkpoint and got and min(got) == 1:
                sys.exit(f"kill_train: after {done} kills it began anew")
            done += status is None
            resumed += checkpoint
            seen += len(got)
            if status == 0:
                with open(t.path("killed"), "rb") as f:
                    if f.read() != t.model:
                        sys.exit(f"kill_train: after {done} kills another model came out")
                os.remove(t.path("killed"))
                finished += 1
        got, status, err = t.part(os.path.exists(t.path("killed.checkpoint")), 600)
        names = set(os.listdir(folder))
        parts = {name for name in names if name.startswith("killed.") and name.endswith(".part")}  # or of the model
        left = sorted(names - parts - {"text", "whole", "killed", "out", "err"})
        if status or left or any(t.losses[step] != loss for step, loss in got.items()):
            sys.exit(f"kill_train: at the end status {status}, left behind {left}: {err}")
        print(f"{done} kills, {resumed} times gone on from a checkpoint, {finished + 1} trainings of {len(t.losses)} "
              f"steps done, {seen + len(got)} losses equal to the last digit; "
              f"{len(parts)} killed while they wrote")


if __name__ == "__main__":
    main()
