#!/usr/bin/env python3
"""onnx_saved.py - models that Quern wrote, checked by the onnx package and run by onnxruntime.

Usage: onnx_saved.py FOLDER [--tolerance T] [--verbose]

The folder is what `build/tests/test_onnx_random GRAPHS SEED FOLDER` leaves: NUMBER.onnx, and beside it
NUMBER.safetensors with inputs and what the oracle gives for them. What onnxruntime has no kernel for is counted apart,
by operator and type. Needs onnx, onnxruntime and ml_dtypes. Ends with a line of counts; 1 where a number is wrong.
"""

import argparse
import collections
import ctypes
import json
import pathlib
import re
import struct
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

DTYPES = {"BOOL": "?", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8", "U8": "u1", "U16": "u2", "U32": "u4",
          "U64": "u8", "F16": "f2", "F32": "f4", "F64": "f8", "BF16": ml_dtypes.bfloat16,
          "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
ROUNDING = {"float16": 400, "bfloat16": 3000, "float8_e4m3fn": 3e4, "float8_e5m2": 6e4}


def tensors(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + size])
    head.pop("__metadata__", None)
    return {name: np.frombuffer(data, DTYPES[t["dtype"]], int(np.prod(t["shape"])), 8 + size + t["data_offsets"][0])
            .reshape(t["shape"]) for name, t in head.items()}


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


NARROW = {"bfloat16": onnx.TensorProto.BFLOAT16, "float8_e4m3fn": onnx.TensorProto.FLOAT8E4M3FN,
          "float8_e5m2": onnx.TensorProto.FLOAT8E5M2}


def ort_value(x):
    x = np.ascontiguousarray(x).reshape(x.shape)
    if str(x.dtype) not in NARROW:
        return onnxruntime.OrtValue.ortvalue_from_numpy(x)
    bits = x.view(np.uint16 if x.itemsize == 2 else np.uint8)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, NARROW[str(x.dtype)])


def as_numpy(v, kind):
    """Of narrow floats by their memory, for NumPy has no such types."""
    name = {"tensor(bfloat16)": "BF16", "tensor(float8e4m3fn)": "F8_E4M3", "tensor(float8e5m2)": "F8_E5M2"}.get(kind)
    if not name:
        return v.numpy()
    shape, dtype = v.shape(), np.dtype(DTYPES[name])
    n = int(np.prod(shape))
    bytes_ = (ctypes.c_uint8 * (n * dtype.itemsize)).from_address(v.data_ptr()) if n else b""
    return np.frombuffer(bytes(bytes_), dtype, n).reshape(shape)


def run(path, given):
    """The outputs by name; narrow floats go in and out as onnxruntime's own values."""
    s = session(path)
    names = [i.name for i in s.get_inputs()]
    values = {n: ort_value(given[n]) for n in names}
    out = s.run_with_ort_values([o.name for o in s.get_outputs()], values)
    return {o.name: as_numpy(v, o.type) for o, v in zip(s.get_outputs(), out)}


def apart(a, b):
    """The largest difference, relative to 1 or the larger."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return np.inf
    if not a.size or np.array_equal(a, b):
        return 0
    if a.dtype.kind in "biu":
        return np.inf
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        d = np.where(same, 0, np.abs(x - y) / np.maximum(1, np.abs(y)))
    return np.inf if np.isnan(d).any() else float(d.max() / ROUNDING.get(str(a.dtype), 1))


def is_large(x):
    """Whole numbers that onnxruntime, which adds them up in floats, need not have."""
    return x.dtype.kind in "iu" and bool(x.size) and max(-int(x.min()), int(x.max())) > 2 ** 24


def type_at(path, op):
    """The element types that nodes of an operator have in a model."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    g, types = model.graph, {}
    for v in list(g.value_info) + list(g.input) + list(g.output):
        types[v.name] = v.type.tensor_type.elem_type
    for v in g.initializer:
        types[v.name] = v.data_type
    found = {types.get(n.input[1 if op == "Where" else 0], 0) for n in g.node if n.op_type == op}
    return " or ".join(sorted(onnx.TensorProto.DataType.Name(t).lower() for t in found if t not in (1, 7)))


def reason(error, path):
    text = str(error)
    found = re.search(r"Could not find an implementation for (\w+)\((\d+)\) node with name '([^']*)'", text)
    if found:
        return f"no kernel of {found[1]} for {type_at(path, found[1])}"
    found = re.search(r"Type '(tensor\(\w+\))' of input parameter \(\w+\) of operator \((\w+)\)", text)
    return f"{found[2]} of {found[1]}" if found else text[:160]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--tolerance", type=float, default=1e-5)
    p.add_argument("--verbose", action="store_true")
    a = p.parse_args()
    lacking, count, worst = collections.Counter(), collections.Counter(), 0.0
    for path in sorted(a.folder.glob("*.onnx"), key=lambda f: int(f.stem)):
        values = tensors(path.with_suffix(".safetensors"))
        count["models"] += 1
        try:
            onnx.checker.check_model(str(path), full_check=True)
            count["checked"] += 1
        except Exception as e:
            count["refused by the checker"] += 1
            print(f"{path.name}: checker: {str(e)[:300]}")
        try:
            got = run(str(path), values)
        except Exception as e:
            lacking[reason(e, path)] += 1
            if a.verbose:
                print(f"{path.name}: {str(e)[:200]}")
            continue
        if any(is_large(v) for v in values.values()):
            count["with large whole numbers"] += 1
            continue
        d = max((apart(got[n], v) for n, v in values.items() if n.startswith("output_")), default=0)
        count["run"] += 1
        if d > a.tolerance:
            count["wrong"] += 1
            bad = [n for n, v in values.items() if n.startswith("output_") and apart(got[n], v) > a.tolerance]
            print(f"{path.name}: {', '.join(bad)}: off by {d:.2g}")
        else:
            worst = max(worst, d)
    for what, n in lacking.most_common():
        print(f"onnxruntime: {what}: {n}")
    print(", ".join(f"{n} {what}" for what, n in count.items()) + f"; worst difference {worst:.2g}")
    return count["wrong"] > 0 or count["refused by the checker"] > 0


if __name__ == "__main__":
    sys.exit(main())
