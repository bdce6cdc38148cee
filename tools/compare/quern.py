"""quern.py - libquern.so by ctypes: every public function under its name, arguments by the types of
the header's prototypes, so that nothing here lists functions.

A value outside is a Value: a dtype's name and a NumPy array of its storage; bf16, which NumPy lacks,
is stored as uint16.
"""

import ctypes as C
import glob
import importlib.util
import os
import re
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

DTYPES = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]
STORAGE = dict(zip(DTYPES, [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
                            np.uint32, np.uint64, np.float16, np.uint16, np.float32, np.float64]))
SIGNED, UNSIGNED = DTYPES[1:5], DTYPES[5:9]
INTS, FLOATS = SIGNED + UNSIGNED, DTYPES[9:]
CODES = {name: i for i, name in enumerate(DTYPES)} | {"c64": 32, "c128": 33}  # qn_dtype's numbers
STORAGE |= {"c64": np.complex64, "c128": np.complex128}
NAMES = {code: name for name, code in CODES.items()}
FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
LEAST = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}
ALL, END = -2147483648, 2 ** 63 - 1


def table_parser():
    """tools/gen.py of the tree whose tables are read, which finds its neighbours there, too."""
    sys.path.insert(0, os.path.join(ROOT, "tools"))
    spec = importlib.util.spec_from_file_location("gen", os.path.join(ROOT, "tools", "gen.py"))
    gen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen)
    return gen


def epsilon(dtype):
    return 2.0 ** -FRACTION[dtype]


def largest(dtype):
    top = 15 if dtype == "f16" else 1023 if dtype == "f64" else 127
    return (2 - epsilon(dtype)) * 2.0 ** top


def to_bf16(values):
    """float64 to bf16 bits, rounded once: to odd in f32, then to nearest even."""
    wide = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        narrow = wide.astype(np.float32)
        bits = narrow.view(np.uint32).copy()
        back = narrow.astype(np.float64)
        inexact = np.isfinite(wide) & (back != wide)
        beyond = inexact & (np.abs(back) > np.abs(wide))
    bits = np.where(beyond, bits - 1, bits)  # towards zero, from infinity to the largest number
    bits = np.where(inexact, bits | 1, bits)
    rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    nan = np.isnan(wide)
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)


class Value:
    """A dtype and its elements as stored."""

    def __init__(self, dtype, raw):
        self.dtype, self.raw = dtype, np.asarray(raw, dtype=STORAGE[dtype])

    @staticmethod
    def of(dtype, values):
        """Numbers rounded to a float dtype; to others as NumPy converts."""
        if dtype == "bf16":
            return Value(dtype, to_bf16(values))
        with np.errstate(all="ignore"):
            return Value(dtype, np.asarray(values).astype(STORAGE[dtype]))

    @property
    def shape(self):
        return self.raw.shape

    def numbers(self):
        """Floats as float64, which holds all of them; others as they are."""
        if self.dtype == "bf16":
            return (self.raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return self.raw.astype(np.float64) if self.dtype in FLOATS else self.raw

    def hex(self, i):
        """Element i of the flat order, in bits."""
        item = np.ascontiguousarray(self.raw).reshape(-1)[i:i + 1]
        return "0x" + item.tobytes()[::-1].hex()

    def map(self, f):
        return Value(self.dtype, f(self.raw))


class ConvOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("stride", C.c_int64 * 3), ("dilation", C.c_int64 * 3), ("before", C.c_int64 * 3),
                ("after", C.c_int64 * 3), ("extra", C.c_int64 * 3), ("groups", C.c_int64),
                ("same", C.c_bool), ("channels_last", C.c_bool)]


class OptimizerOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("method", C.c_int), ("rate", C.c_double), ("momentum", C.c_double),
                ("beta1", C.c_double), ("beta2", C.c_double), ("epsilon", C.c_double),
                ("weight_decay", C.c_double), ("clip", C.c_double), ("decay_rank", C.c_int),
                ("nesterov", C.c_bool), ("amsgrad", C.c_bool), ("centered", C.c_bool),
                ("maximize", C.c_bool), ("accumulates", C.c_bool), ("clip_value", C.c_double),
                ("dampening", C.c_double), ("rate_decay", C.c_double), ("start", C.c_double),
                ("beta2_decay", C.c_double), ("epsilon2", C.c_double), ("threshold", C.c_double),
                ("average", C.c_double), ("loss_scale", C.c_double), ("scale_growth", C.c_double),
                ("scale_backoff", C.c_double), ("scale_interval", C.c_int), ("iterations", C.c_int),
                ("adjust", C.c_int), ("coefficients", C.c_double * 3)]


def conv_options(**given):
    """The struct of options: lists for each axis, numbers and truths."""
    options = ConvOptions(size=C.sizeof(ConvOptions))
    for name, value in given.items():
        if isinstance(value, (list, tuple)):
            for i, v in enumerate(value):
                getattr(options, name)[i] = v
        else:
            setattr(options, name, value)
    return options


def fixed_options(space, stride, padding, dilation, groups):
    """Options alike along all axes."""
    return conv_options(stride=[stride] * space, before=[padding] * space, after=[padding] * space,
                        dilation=[dilation] * space, groups=groups)


class Options(C.Structure):
    """A struct of options by the names of its fields."""

    @classmethod
    def of(cls, **given):
        return cls(size=C.sizeof(cls), **given)


def pointer(tensor):
    return tensor if tensor else 0


class AttentionOptions(Options):
    _fields_ = [("size", C.c_size_t), ("causal", C.c_bool), ("scale", C.c_double), ("cap", C.c_double),
                ("window", C.c_int64), ("mask", C.c_void_p), ("grouped", C.c_bool)]


class CrossEntropyOptions(Options):
    _fields_ = [("size", C.c_size_t), ("reduction", C.c_int), ("smoothing", C.c_double), ("weight", C.c_void_p),
                ("ignore", C.c_int64), ("ignores", C.c_bool)]


class IndexItem(C.Structure):
    _fields_ = [("kind", C.c_int), ("start", C.c_int64), ("stop", C.c_int64), ("step", C.c_int64),
                ("array", C.c_void_p)]


def attention_options(causal):
    return AttentionOptions.of(causal=causal)


def prototypes():
    """name -> (type of the result, types of the parameters) of every QN_API function."""
    text = ""
    for path in sorted(glob.glob(os.path.join(ROOT, "include", "quern*.h"))):
        with open(path) as f:
            text += re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
    found = {}
    for match in re.finditer(r"^QN_API ([^;]*?)(\w+)\(([^;]*)\);", text, re.M):
        params = re.sub(r"\s+", " ", match[3]).strip()
        types = [re.sub(r"\w+$", "", p.strip()).strip() for p in re.split(r",(?![^(]*\))", params)]
        found[match[2]] = (match[1].strip(), [] if params == "void" else types)
    return found


SIMPLE = {"int": C.c_int, "int64_t": C.c_int64, "uint64_t": C.c_uint64, "double": C.c_double,
          "bool": C.c_bool, "size_t": C.c_size_t, "const char *": C.c_char_p, "qn_code": C.c_int,
          "qn_dtype": C.c_int, "qn_fft_norm": C.c_int, "qn_pad_mode": C.c_int,
          "qn_quantile_mode": C.c_int, "qn_combine": C.c_int,
          "qn_reduction": C.c_int, "qn_interpolate_mode": C.c_int, "qn_grid_padding": C.c_int, "void": None,
          "qn_scope": C.c_uint32, "qn_method": C.c_int, "uint32_t": C.c_uint32}


class QuernError(Exception):
    """A call was refused: the code's number and the text."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class Quern:
    """One context. `call` takes a function's name without qn_, and its arguments but the context."""

    def __init__(self, library, device):
        os.environ.update(QN_DEVICE=device, QN_CACHE=os.environ.get("QN_CACHE", "off"),
                          QN_WISDOM="off", QN_THREADS=os.environ.get("QN_THREADS", "1"))
        self.library, self.types = C.CDLL(library), prototypes()
        self.plain = {}
        for name, (result, params) in self.types.items():
            try:
                function = getattr(self.library, name)
            except AttributeError:
                continue
            function.restype = SIMPLE.get(result, C.c_void_p)
            function.argtypes = [SIMPLE.get(p, C.c_void_p) for p in params]
            self.plain[name] = function
        self.device = device
        self.qn = self.plain["qn_open"](*[None] * len(self.types["qn_open"][1]))
        if not self.qn:
            raise QuernError(0, f"device {device} does not open")

    def close(self):
        self.plain["qn_close"](self.qn)

    def fail(self):
        code = self.plain["qn_error_code"](self.qn)
        text = self.plain["qn_error"](self.qn).decode()
        self.plain["qn_clear_error"](self.qn)
        raise QuernError(code, text)

    @staticmethod
    def argument(kind, value):
        if isinstance(value, str):
            return value.encode() if kind == "const char *" else CODES[value]
        if isinstance(value, (list, tuple)):
            item = (C.c_int if kind == "const int *" else C.c_double if kind == "const double *"
                    else C.c_int64 if "int64_t" in kind else C.c_void_p)
            return (item * max(len(value), 1))(*value)
        return C.byref(value) if isinstance(value, C.Structure) else value

    def call(self, name, *args):
        """A tensor (its address), or 0 of a function with effects; raises QuernError."""
        result, params = self.types["qn_" + name]
        if params and params[0].startswith("qn_ctx"):
            args = (self.qn,) + args
        if len(args) != len(params):
            raise TypeError(f"{name} takes {len(params)} arguments: {params}")
        r = self.plain["qn_" + name](*[self.argument(p, a) for p, a in zip(params, args)])
        if result == "qn_tensor *" and not r or result == "qn_code" and r < 0:
            self.fail()
        return r

    @staticmethod
    def outs(n):
        return (C.c_void_p * max(n, 1))()

    def tensor(self, value):
        raw = np.ascontiguousarray(value.raw)
        shape = value.raw.shape
        data = raw.ctypes.data_as(C.c_void_p) if raw.size else C.cast(C.create_string_buffer(8),
                                                                      C.c_void_p)
        r = self.plain["qn_from"](self.qn, CODES[value.dtype], len(shape),
                                  (C.c_int64 * max(len(shape), 1))(*shape), data)
        return r or self.fail()

    def shape(self, t):
        return tuple(self.plain["qn_dim"](t, i) for i in range(self.plain["qn_rank"](t)))

    def read(self, t):
        dtype = NAMES[self.plain["qn_dtype_of"](t)]
        raw = np.empty(self.shape(t), STORAGE[dtype])
        room = raw if raw.size else np.empty(1, raw.dtype)
        if self.plain["qn_read"](t, room.ctypes.data_as(C.c_void_p), raw.nbytes) < 0:
            self.fail()
        return Value(dtype, raw)

    def grad(self, y, seed, xs):
        """Tensors of the gradients of the sum of y, weighed by seed."""
        out = self.outs(len(xs))
        self.call("grad", y, seed, len(xs), list(xs), out)
        return list(out)[:len(xs)]

    def scope(self):
        return Scope(self)


class Scope:
    """Everything made inside is released at the end."""

    def __init__(self, q):
        self.q = q

    def __enter__(self):
        self.mark = self.q.plain["qn_scope_begin"](self.q.qn)

    def __exit__(self, *_):
        self.q.plain["qn_scope_end"](self.q.qn, self.mark)
        self.q.plain["qn_clear_error"](self.q.qn)
