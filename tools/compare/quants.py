"""quants.py - blocks of few bits against the gguf package: random bytes as blocks of every type that it has a
reference for, and random floats made blocks, bit for bit; archives written by one and read by the other."""

import ctypes as C
import os
import tempfile

import numpy as np

from judge import Case
from quern import QuernError, Value

try:
    import gguf
except ImportError:
    gguf = None

ROUNDS = 4


def types():
    """(type, its class) of those that both have."""
    for type_, row in sorted(gguf.quants._type_traits.items(), key=lambda x: x[0].value):
        if type_.name not in ("BF16",):
            yield type_, row


def each(account, name):
    if gguf is None:
        account.skip(name, "the gguf package is not installed")
        return []
    return types()


def dequantize(q, account, rng):
    for type_, row in each(account, "dequantize"):
        for _ in range(ROUNDS):
            raw = rng.integers(0, 256, (3, 5 * row.type_size), dtype=np.uint8)
            case = Case("dequantize", "f32", "value", type_.name + " ")
            with q.scope():
                try:
                    got = q.read(q.call("dequantize", q.tensor(Value("u8", raw)), type_.value))
                    account.bits(case, got, Value("f32", gguf.quants.dequantize(raw, type_)))
                except QuernError as e:
                    account.fail(case, f"refused: {e}")


def floats(rng, row):
    """Numbers of many sizes, a row of halves that are ties, a block of zeros; no -0, whose sign NumPy's min loses."""
    x = rng.normal(0, 1, (4, 5 * row.block_size)) * np.exp(rng.normal(0, 4, (4, 1)))
    x[1] = np.round(x[1] * 2) / 2 + 0.0
    x[2, :row.block_size] = 0
    return x.astype(np.float32)


def quantize(q, account, rng):
    for type_, row in each(account, "quantize"):
        for _ in range(ROUNDS):
            x = floats(rng, row)
            case = Case("quantize", "f32", "value", type_.name + " ")
            try:
                want = gguf.quants.quantize(x, type_)
            except NotImplementedError:
                break
            with q.scope():
                try:
                    got = q.read(q.call("quantize", q.tensor(Value("f32", x)), type_.value))
                    account.bits(case, got, Value("u8", want))
                except QuernError as e:
                    account.fail(case, f"refused: {e}")



def names_of(items):
    return (C.c_char_p * len(items))(*[name.encode() for name in items])


def archive_save(q, account, rng):
    """Ours, read by gguf and NumPy."""
    arrays = {"a": rng.normal(0, 1, (3, 64)).astype(np.float32), "half": rng.normal(0, 1, 7).astype(np.float16),
              "i": rng.integers(-9, 9, (2, 3, 4)), "e": np.zeros((0, 2), np.float64)}
    names = {"float32": "f32", "float16": "f16", "int64": "i64", "float64": "f64"}
    values = {name: Value(names[a.dtype.name], a) for name, a in arrays.items()}
    with tempfile.TemporaryDirectory() as folder, q.scope():
        tensors = (C.c_void_p * len(values))(*[q.tensor(v) for v in values.values()])
        for kind in ("npz", "gguf"):
            if kind == "gguf" and not gguf:
                account.skip("archive_save", "the gguf package is not installed")
                continue
            path = os.path.join(folder, "x." + kind)
            q.call("archive_save", path, len(values), names_of(values), tensors, None)
            if kind == "npz":
                found = dict(np.load(path))
            else:
                found = {t.name: t.data.reshape(t.shape[::-1]) for t in gguf.GGUFReader(path).tensors}
            case = Case("archive_save", "any", "value", kind + " ")
            if list(found) != list(values):
                account.fail(case, f"has {list(found)}")
            for name, value in values.items():
                account.bits(case, Value(value.dtype, found[name]), value)


def archive_tensor(q, account, rng):
    """NumPy's, read by us."""
    arrays = {"f64": rng.normal(0, 1, (3, 4)), "i16": rng.integers(-99, 99, 5).astype(np.int16),
              "u8": np.asfortranarray(rng.integers(0, 255, (2, 3, 4)).astype(np.uint8))}
    with tempfile.TemporaryDirectory() as folder, q.scope():
        for save in (np.savez, np.savez_compressed):
            path = os.path.join(folder, "x.npz")
            save(path, **arrays)
            archive = q.call("archive_open", path)
            for name, a in arrays.items():
                case = Case("archive_tensor", name, "value", save.__name__ + " ")
                account.bits(case, q.read(q.call("archive_tensor", archive, name)),
                             Value(name, np.ascontiguousarray(a)))
            q.call("archive_close", archive)


def table():
    return {"dequantize": dequantize, "quantize": quantize, "archive_save": archive_save,
            "archive_tensor": archive_tensor}
