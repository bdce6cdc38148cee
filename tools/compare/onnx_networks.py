#!/usr/bin/env python3
"""onnx_networks.py - whole networks of the ONNX format: Quern's outputs beside onnxruntime's.

Usage: onnx_networks.py [--device NAME] [NAME ...]    of a Python with torch, torchvision, transformers, onnxscript and
                                                      onnxruntime, behind `make python`

Each network of onnx_zoo.py is run on random inputs by its static graph, twice, and recorded (`call`). Outputs must have
the dtypes and shapes of onnxruntime's, integers be equal, and floats differ by at most 1e-4 of the largest one of the
output. The last line is "N passed, N failed".
"""

import argparse
import os
import sys
import traceback

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "python"))
from onnx_zoo import NETWORKS, exported, inputs_of  # noqa: E402

NEAR = 1e-4


def expected(path, inputs):
    """onnxruntime's outputs by name."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip((v.name for v in session.get_outputs()), session.run(None, inputs)))


def answers(path, inputs, device):
    """Quern's outputs by name, of each way to compute them."""
    import quern
    model = quern.onnx.load(path, device=device)
    tensors = {n: quern.tensor(x, device=device) for n, x in inputs.items()}
    for way in ("run", "run again"):
        yield way, {n: t.numpy() for n, t in model.run(tensors).items()}
    out = model(**tensors)
    out = out if isinstance(out, tuple) else (out,)
    yield "call", {v.name: t.numpy() for v, t in zip(model.outputs, out)}
    model.close()


def apart(mine, theirs):
    """The largest difference in parts of the largest value; raises where outputs are of different kinds."""
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        raise ValueError(f"{mine.dtype}{list(mine.shape)} in place of {theirs.dtype}{list(theirs.shape)}")
    if theirs.size == 0:
        raise ValueError("onnxruntime's output is empty")
    if theirs.dtype.kind != "f":
        return 0.0 if np.array_equal(mine, theirs) else np.inf
    largest = np.abs(theirs).max()
    if not np.isfinite(largest) or theirs.std() < 1e-6 * largest:
        raise ValueError("onnxruntime's output says nothing: it is constant, or not finite")
    worst = np.abs(mine.astype(np.float64) - theirs).max() / largest
    return worst if np.isfinite(worst) else np.inf


def judge(name, device):
    """The largest difference of a network's outputs."""
    path, inputs = exported(name), inputs_of(name)
    theirs, worst = expected(path, inputs), 0.0
    for way, mine in answers(path, inputs, device):
        for output, want in theirs.items():
            try:
                off = apart(mine[output], want)
            except ValueError as e:
                raise ValueError(f"{way}: {output}: {e}") from e
            if off > NEAR:
                raise ValueError(f"{way}: {output} is off by {off:.1e} of the largest")
            worst = max(worst, off)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device")
    parser.add_argument("names", nargs="*", help=", ".join(NETWORKS))
    given = parser.parse_args()
    unknown = [n for n in given.names if n not in NETWORKS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}")
    passed = failed = 0
    for name in given.names or NETWORKS:
        try:
            print(f"{name}: {judge(name, given.device):.1e}", flush=True)
            passed += 1
        except Exception as e:  # whatever it is, the network has failed
            last = traceback.extract_tb(e.__traceback__)[-1]
            print(f"{name}: failed: {e or type(e).__name__} ({os.path.basename(last.filename)}:{last.lineno})",
                  flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
