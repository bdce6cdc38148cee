#!/usr/bin/env python3
"""onnx_tests.py - the node tests of the onnx package, run by Quern.

Usage: onnx_tests.py --library LIB [--device NAME] [--run | --exported] [--list FILE] [NAME ...]

Each test is a model of a node or a few, its inputs and what the reference gives. The last line is
"N passed, N failed, N skipped". Skipped are tests with values that are no tensors (sequences, maps)
and those with tensors of texts. Needs the packages onnx and ml_dtypes; docs/onnx.md lists what fails.
--run: by qn_onnx_run, twice, in place of qn_onnx_call. --exported: as C, compiled (onnx_exported.py). --list writes
a line a test, its result first; with --resume those that it has already are not run again. --from and --to: tests by
their places, the last one not among them.
"""

import argparse
import ctypes
import os
import sys
import tempfile
import warnings

import numpy as np

import onnx_exported

warnings.filterwarnings("ignore")
# Types that Quern holds in wider ones, by number: TensorProto.DataType.
CARRIERS = {18: np.float32, 20: np.float32, 21: np.uint8, 22: np.int8, 23: np.float32, 24: np.float32, 25: np.uint8,
            26: np.int8}
QN = {np.dtype(t): i for i, t in enumerate([np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
                                            np.uint32, np.uint64, np.float16])}
QN.update({np.dtype(np.float32): 11, np.dtype(np.float64): 12, np.dtype(np.complex64): 32, np.dtype(np.complex128): 33})
STRING = 8


def types_of_quern():
    import ml_dtypes
    QN[np.dtype(ml_dtypes.bfloat16)] = 10
    QN[np.dtype(ml_dtypes.float8_e4m3fn)] = 13
    QN[np.dtype(ml_dtypes.float8_e5m2)] = 14


class Library:
    def __init__(self, path, device):
        self.lib = lib = ctypes.CDLL(path)
        for name in ("qn_from", "qn_onnx_parse", "qn_error", "qn_scope_begin"):
            getattr(lib, name).restype = ctypes.c_void_p
        lib.qn_error.restype = ctypes.c_char_p
        lib.qn_dim.restype = ctypes.c_int64
        lib.qn_open.restype = ctypes.c_void_p
        lib.qn_scope_begin.restype = ctypes.c_uint32
        lib.qn_onnx_input_at.restype = lib.qn_onnx_depends.restype = ctypes.c_bool
        self.device = device
        self.open()

    def open(self):
        if self.device:
            os.environ["QN_DEVICE"] = self.device
        self.qn = ctypes.c_void_p(self.lib.qn_open(None))

    def error(self):
        text = self.lib.qn_error(self.qn).decode(errors="replace")
        self.lib.qn_clear_error(self.qn)
        return text or "no error"

    def tensor(self, array):
        array = np.asarray(array)
        shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        data = np.ascontiguousarray(array)
        return self.lib.qn_from(self.qn, QN[array.dtype], array.ndim, shape, data.ctypes.data_as(ctypes.c_void_p))

    def read(self, t, dtype):
        t = ctypes.c_void_p(t)
        shape = [self.lib.qn_dim(t, i) for i in range(self.lib.qn_rank(t))]
        if self.lib.qn_dtype_of(t) != QN[np.dtype(dtype)]:
            raise RuntimeError(f"an output of dtype {self.lib.qn_dtype_of(t)}, not {np.dtype(dtype)}")
        out = np.empty(shape, dtype)
        size = ctypes.c_size_t(out.nbytes)
        if self.lib.qn_read(t, out.ctypes.data_as(ctypes.c_void_p), size):
            raise RuntimeError(self.error())
        return out


def carried(array, number):
    if hasattr(array, "data_type"):  # a TensorProto
        from onnx import numpy_helper
        array = numpy_helper.to_array(array)
    array = np.asarray(array)
    return array.astype(CARRIERS[number]) if number in CARRIERS else array


def elem(value):
    return value.type.tensor_type.elem_type if value.type.HasField("tensor_type") else 0


def run(library, case, inputs, outputs, by_run):
    """The outputs of a case's model; raises with Quern's error."""
    lib, model = library.lib, case.model
    data = model.SerializeToString()
    m = ctypes.c_void_p(lib.qn_onnx_parse(library.qn, data, ctypes.c_size_t(len(data)), None))
    if not m:
        raise RuntimeError(library.error())
    scope = lib.qn_scope_begin(library.qn)
    try:
        given = [None if x is None else library.tensor(carried(x, elem(v))) for x, v in zip(inputs, model.graph.input)]
        ins = (ctypes.c_void_p * max(1, len(given)))(*given)
        outs = (ctypes.c_void_p * len(outputs))()
        call = lib.qn_onnx_run if by_run else lib.qn_onnx_call
        for _ in range(2 if by_run else 1):
            if call(m, len(given), ins, len(outputs), outs):
                raise RuntimeError(library.error())
        return [None if not t else library.read(t, carried(y, elem(v)).dtype)
                for t, y, v in zip(outs, outputs, model.graph.output)]
    finally:
        lib.qn_scope_end(library.qn, scope)
        lib.qn_clear_error(library.qn)
        lib.qn_onnx_close(m)


RANDOM = {"RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Bernoulli"}


def compare(case, mine, theirs):
    """What differs, or None."""
    random = any(n.op_type in RANDOM for n in case.model.graph.node) or "training_dropout" in case.name
    for i, (a, b, v) in enumerate(zip(mine, theirs, case.model.graph.output)):
        b = carried(b, elem(v))
        if a is None or a.shape != b.shape:
            return f"output {i} has shape {None if a is None else a.shape}, not {b.shape}"
        if random:
            continue  # any numbers will do
        rtol = max(case.rtol, 2**-6) if a.dtype.name == "bfloat16" else case.rtol  # as the package's own runner
        if a.dtype.kind not in "biufc":
            a, b = a.astype(np.float32), b.astype(np.float32)
        if a.dtype.kind in "fc":
            fine = np.isclose(a, b, rtol=rtol, atol=case.atol, equal_nan=True)
        else:
            fine = a == b
        if not fine.all():
            at = tuple(np.argwhere(~np.atleast_1d(fine))[0])
            return f"output {i}{list(map(int, at))} is {np.atleast_1d(a)[at]}, not {np.atleast_1d(b)[at]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--device", default=None)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--exported", action="store_true")
    parser.add_argument("--compiler", default="gcc")
    parser.add_argument("--list")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--to", type=int, default=1 << 30)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    try:
        from onnx.backend.test.case.node import collect_testcases
        types_of_quern()
    except ImportError as missing:
        print(f"{missing}: pip install onnx ml_dtypes")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    library = Library(args.library, args.device)
    counts, known = {"passed": 0, "failed": 0, "skipped": 0}, {}
    if args.resume and args.list and os.path.exists(args.list):
        with open(args.list) as f:
            known = {line.split()[1]: line.rstrip("\n") for line in f if len(line.split()) > 1}
    out = open(args.list, "a" if args.resume else "w") if args.list else None
    with tempfile.TemporaryDirectory() as folder:
        by = None if not args.exported else (folder, args.compiler)
        for number, case in enumerate(collect_testcases()):
            if (args.names and not any(n in case.name for n in args.names)) or not args.first <= number < args.to:
                continue
            if number % 200 == 199:  # contexts keep what was compiled
                library.lib.qn_close(library.qn)
                library.open()
            line = known.get(case.name)
            result, why = (line.split()[0], line.split(" ", 2)[2]) if line else one(library, case, args.run, by)
            counts[result] += 1
            if result == "failed":
                print(f"{case.name}: {why}", flush=True)
            if out and not line:
                print(result, case.name, " ".join((why or "").split()), file=out, flush=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return counts["failed"] > 0


def exported(library, case, inputs, outputs, by):
    values, results = case.model.graph.input, case.model.graph.output
    theirs = [carried(y, elem(v)) for y, v in zip(outputs, results)]
    return onnx_exported.run(library, case, inputs, outputs, *by, lambda x, i: carried(x, elem(values[i])), theirs)


def one(library, case, by_run, by=None):
    g = case.model.graph
    values = list(g.input) + list(g.output)
    if any(not v.type.HasField("tensor_type") for v in values):
        return "skipped", "values that are no tensors"
    if any(elem(v) == STRING for v in values):
        return "skipped", "tensors of texts"
    for inputs, outputs in case.data_sets:
        try:
            mine = exported(library, case, inputs, outputs, by) if by else run(library, case, inputs, outputs, by_run)
            why = compare(case, mine, outputs)
        except Exception as e:  # whatever it is, the test has failed
            why = str(e) or type(e).__name__
        if why:
            return "failed", why
    return "passed", None


if __name__ == "__main__":
    sys.exit(main())
