"""onnx_exported.py - a node test through C: its model exported, compiled, run between canaries.

An input whose value the model reads while it is recorded, as a shape for Reshape, can be no input of a C function:
it gets its value before the export, as `quern export --value` does it. A test all of whose inputs are so has nothing
left to compute in C and counts as failed, and so does one whose sizes follow what else is read.

The file is compiled as C99 with all warnings as errors and loaded as a shared object in a process of its own, where
the arena, the state, inputs and outputs lie between bytes that must stay; inputs must stay, too.
"""

import ctypes
import os
import re
import subprocess
import sys

import numpy as np

CFLAGS = ["-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
GUARD, CANARY, RUNS = 4096, 0xA5, 2


class Room:
    """Bytes at a multiple of 64, between canaries."""

    def __init__(self, size, array=None):
        self.size = size
        self.all = np.full(size + 2 * GUARD + 64, CANARY, np.uint8)
        self.at = GUARD + -(self.all.ctypes.data + GUARD) % 64
        if array is not None:
            self.mine()[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)

    def mine(self):
        return self.all[self.at:self.at + self.size]

    def pointer(self):
        return ctypes.c_void_p(self.all.ctypes.data + self.at)

    def whole(self):
        return bool((self.all[:self.at] == CANARY).all() and (self.all[self.at + self.size:] == CANARY).all())


def sizes_of(header):
    """The header's numbers by name."""
    return {k: int(v) for k, v in re.findall(r"^#define MODEL_(\w+) (\d+)$", header, re.M)}


def play(folder):
    """In a process of its own: inputs from in.npz, outputs to out.npz. Says what is wrong, or nothing."""
    given = np.load(os.path.join(folder, "in.npz"))
    with open(os.path.join(folder, "model.h")) as f:
        size = sizes_of(f.read())
    lib = ctypes.CDLL(os.path.join(folder, "model.so"))
    inputs = []
    for i in range(size["INPUTS"]):
        data = given[f"i{i}"]
        if data.nbytes != size[f"INPUT_{i}_BYTES"]:
            return f"input {i} has {data.nbytes} bytes, and the header says {size[f'INPUT_{i}_BYTES']}"
        inputs.append(Room(data.nbytes, data))
    outputs = [Room(size[f"OUTPUT_{i}_BYTES"]) for i in range(size["OUTPUTS"])]
    rooms = inputs + outputs
    if size["STATES"]:
        rooms.append(Room(size["STATE_BYTES"]))
        lib.model_init(rooms[-1].pointer())
    arena = Room(size["ARENA_BYTES"])
    rooms.append(arena)
    for _ in range(RUNS):
        arena.mine()[:] = 0xFF
        lib.model_run(*[r.pointer() for r in rooms])
    if not all(r.whole() for r in rooms):
        return "it wrote outside of its memory"
    for i, r in enumerate(inputs):
        if r.mine().tobytes() != given[f"i{i}"].tobytes():
            return f"it wrote into input {i}"
    np.savez(os.path.join(folder, "out.npz"), **{f"o{i}": r.mine() for i, r in enumerate(outputs)})
    return None


def bytes_of(array):
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def pointers(list_):
    return (ctypes.c_void_p * max(1, len(list_)))(*list_)


def export(library, case, inputs, n_out, path, carried):
    """Write the model of a case; which inputs are its, and which outputs there are. Raises with the error."""
    lib, qn = library.lib, library.qn
    lib.qn_plan_new.restype = ctypes.c_void_p
    lib.qn_onnx_reads.restype = ctypes.c_bool
    data = case.model.SerializeToString()
    m = ctypes.c_void_p(lib.qn_onnx_parse(qn, data, ctypes.c_size_t(len(data)), None))
    if not m:
        raise RuntimeError(library.error())
    plan, scope = None, lib.qn_scope_begin(qn)
    try:
        given = [None if x is None else library.tensor(carried(x, i)) for i, x in enumerate(inputs)]
        here = [i for i, x in enumerate(given) if x is not None]
        outs = pointers([None] * n_out)
        while True:
            if lib.qn_onnx_call(m, len(given), pointers(given), n_out, outs):
                raise RuntimeError(library.error())
            read = [i for i in here if given[i] is not None and lib.qn_onnx_reads(m, i)]
            if not read:
                break
            for i in read:
                if lib.qn_onnx_fix(m, i, ctypes.c_void_p(given[i])):
                    raise RuntimeError(library.error())
                given[i] = None
        mine = [i for i in here if given[i] is not None]
        if here and not mine:
            raise RuntimeError("the values of all inputs are read while it is recorded")
        made = [k for k in range(n_out) if outs[k]]
        plan = lib.qn_plan_new(qn, len(mine), pointers([given[i] for i in mine]), len(made),
                               pointers([outs[k] for k in made]))
        if not plan or lib.qn_export(ctypes.c_void_p(plan), os.fsencode(path), None):
            raise RuntimeError(library.error())
        return mine, made
    finally:
        if plan:
            lib.qn_plan_free(ctypes.c_void_p(plan))
        lib.qn_scope_end(qn, scope)
        lib.qn_clear_error(qn)
        lib.qn_onnx_close(m)


def build(folder, compiler):
    objects = [compiler, *CFLAGS, "-fPIC", "-shared", "-o", "model.so", "model.c", "-lm"]
    done = subprocess.run(objects, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("compiling: " + done.stderr[:600].strip())


def run(library, case, inputs, outputs, folder, compiler, carried, shapes):
    """The outputs of a case by its C file; carried(x, i): what input i is for Quern; shapes: outputs as arrays of
    their dtypes."""
    mine, made = export(library, case, inputs, len(outputs), os.path.join(folder, "model.c"), carried)
    build(folder, compiler)
    np.savez(os.path.join(folder, "in.npz"), **{f"i{k}": bytes_of(carried(inputs[i], i)) for k, i in enumerate(mine)})
    done = subprocess.run([sys.executable, __file__, folder], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr).strip() or f"the run ended with {done.returncode}")
    got = np.load(os.path.join(folder, "out.npz"))
    with open(os.path.join(folder, "model.h")) as f:
        header = f.read()
    result = [None] * len(outputs)
    for k, i in enumerate(made):
        shape = re.search(rf"^#define MODEL_OUTPUT_{k}_SHAPE {{(.*)}}$", header, re.M)
        sizes = [int(n) for n in shape[1].split(",")] if shape else []
        dtype = shapes[i].dtype
        if got[f"o{k}"].nbytes != dtype.itemsize * int(np.prod(sizes, dtype=np.int64)):
            raise RuntimeError(f"output {i} has elements of another size than {dtype}")
        result[i] = np.frombuffer(got[f"o{k}"].tobytes(), dtype).reshape(sizes)
    return result


if __name__ == "__main__":
    wrong = play(sys.argv[1])
    if wrong:
        print(wrong)
    sys.exit(wrong is not None)
