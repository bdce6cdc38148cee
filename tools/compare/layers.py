"""layers.py - layers against torch.nn's of the same name, in float64: names, order and shapes of their tensors, what
they give in training and else, the new values of running statistics, and the gradients by all inputs and parameters.

The cases are those of the Python package, python/tests/layer_cases.py; the arguments go into the struct by the table
that the library reads, src/nn/layers/arguments.h. The bound is 1e-9 of the largest number of a result; PyTorch's
derivative of hardsigmoid has a sixth in float32, also of float64."""

import ctypes as C
import importlib.util
import os
import warnings

import numpy as np

import quern
from judge import Case
from quern import QuernError, Value

try:
    import torch
except ImportError:
    torch = None

TYPES = {"int": C.c_int, "int64_t": C.c_int64, "double": C.c_double, "bool": C.c_bool, "size_t": C.c_size_t}
# What forward() of PyTorch calls the inputs that rows.h lists.
INPUTS = {"MultiheadAttention": ("query", "key", "value", "key_padding_mask", "attn_mask"),
          "TransformerEncoderLayer": ("src", "src_mask", "src_key_padding_mask"),
          "TransformerDecoderLayer": ("tgt", "memory", "tgt_mask", "memory_mask", "tgt_key_padding_mask",
                                      "memory_key_padding_mask")}


def tables():
    """The options as a struct of ctypes, the arguments' fields and types, the words, and the rows."""
    gen = quern.table_parser()
    fields = dict(gen.calls.structures(gen.calls.declarations(quern.ROOT)))["qn_layer_options"]
    types = {name: TYPES.get(type_, C.c_void_p) for type_, name, _ in fields}
    struct = type("LayerOptions", (C.Structure,), {"_fields_": [
        (name, types[name] if count == "1" else types[name] * int(count)) for _, name, count in fields]})
    with open(os.path.join(quern.ROOT, "src/nn/layers/arguments.h")) as f:
        words = {name: gen.literal(text).split() for name, text in
                 [gen.arguments(line, len("WORDS"))[0] for line in f if line.startswith("WORDS(")]}
    return struct, gen.gen_layers.fields(gen), words, {k.name: k for k in gen.gen_layers.kinds(gen)}


def cases():
    path = os.path.join(quern.ROOT, "python", "tests", "layer_cases.py")
    spec = importlib.util.spec_from_file_location("layer_cases", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CASES


def put(o, name, value, space, fields, words):
    """An argument into the options, as quern_nn.h says."""
    field, type_ = fields[name]
    if type_ in ("SIZES", "SHAPE"):
        value = [-1] if value == "same" else list(value) if isinstance(value, (tuple, list)) else \
            [value] * (space if type_ == "SIZES" else 1)
        for i, v in enumerate(value):
            getattr(o, field)[i] = v or 0
        return
    if type_ == "PLACE":
        value = 0 if value is None else value + (value >= 0)
    elif type_ == "NUMBER":
        value = 0.0 if value is None and name == "eps" else float("nan") if value is None else value or -0.0
    elif type_ == "YES":
        value = 1 if value else -1
    elif type_ == "WORD":
        value = words[name].index(value)
    setattr(o, field, not value if type_ == "NOT" else 0 if value is None else value)


class Comparison:
    def __init__(self, q, account, rng):
        self.q, self.account, self.rng = q, account, rng
        self.struct, self.fields, self.words, self.rows = tables()

    def options(self, kind, args, keywords, call):
        names = [a.partition("=")[0] for a in self.rows[kind].arguments]
        o = self.struct(size=C.sizeof(self.struct))
        space = int(kind[-2]) if kind[-1] == "d" and kind[-2].isdigit() else 0
        for name, value in {**dict(zip(names, args)), **keywords, **call}.items():
            put(o, name, value, space, self.fields, self.words)
        return o

    def array(self, spec):
        shape = spec[-1]
        if spec[0] == "i":
            return self.rng.integers(0, spec[1], shape)
        a = self.rng.standard_normal(shape)
        if spec[0] == "b":
            a = a < -0.3
            a[..., 0] = False  # every query sees a key
        return abs(a) + 0.1 if spec[0] == "p" else a

    def inputs(self, kind, given):
        """Arrays in the order of our inputs, None where there is none, and what a call says beside them."""
        if isinstance(given, dict):
            known = {k: self.array(v) for k, v in given.items() if isinstance(v, tuple)}
            return [known.get(n) for n in INPUTS[kind]], {k: v for k, v in given.items() if k not in known}
        flat = [s for x in given for s in (x if isinstance(x[0], tuple) else [x])]
        made = {id(s): self.array(s) for s in flat}
        return [made[id(s)] for s in flat], {}

    def theirs(self, layer, kind, tensors, said):
        """What PyTorch gives, flat."""
        if kind in INPUTS:
            made = layer(**{n: x for n, x in zip(INPUTS[kind], tensors) if x is not None}, **said)
        elif kind.startswith("LSTM") and len(tensors) > 1:
            made = layer(tensors[0], tuple(tensors[1:]))
        else:
            made = layer(*tensors)
        made = made if isinstance(made, tuple) else (made,)
        return [y for x in made for y in (x if isinstance(x, tuple) else (x,))]

    def near(self, case, got, want):
        if not want.is_floating_point():
            self.account.compared[case.name] += 1
            if not np.array_equal(got.raw, want.numpy()):
                self.account.fail(case, f"{got.raw.tolist()} is {want.tolist()} there")
            return
        want = want.detach().numpy().astype(np.float64)
        part = 1e-7 if case.remark.startswith("Hardsigmoid") else 1e-9
        self.account.bound(case, got, want, part * max(1.0, np.abs(want).max(initial=0)))

    def ours(self, kind, o, tensors, inputs):
        n_out = self.rows[kind].results + len(tensors)
        out = self.q.outs(n_out)
        self.q.call("layer_apply", kind, o, len(tensors), tensors, len(inputs), inputs, n_out, out)
        return list(out)[:self.rows[kind].results], list(out)[self.rows[kind].results:n_out]

    def one(self, kind, args, keywords, given, training):
        q, case = self.q, Case("layers", "f64", "value", f"{kind}{args} {keywords} training={training} ")
        layer = getattr(torch.nn, kind)(*args, **keywords).double().train(training)
        arrays, said = self.inputs(kind, given)
        o = self.options(kind, args, keywords, said)
        o.training = training
        state = layer.state_dict()
        mine = [q.tensor(Value("f64" if x.is_floating_point() else "i64", x.numpy().copy())) for x in state.values()]
        made = {id(a): q.tensor(Value({"f": "f64", "i": "i64", "b": "bool"}[a.dtype.kind], a))
                for a in arrays if a is not None}
        plain = {id(a): torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays if a is not None}
        ours, new = self.ours(kind, o, mine, [None if a is None else made[id(a)] for a in arrays])
        theirs = self.theirs(layer, kind, [None if a is None else plain[id(a)] for a in arrays], said)
        pairs = [(a, b) for a, b in zip(ours, theirs) if a and b is not None]
        for a, b in pairs:
            self.near(case, q.read(a), b)
        for value, (name, now) in zip(new, layer.state_dict().items()):
            if value:
                self.near(case, q.read(value), now)
        self.gradients(case, pairs, {name: x for name, x in zip(state, mine)}, layer, made, plain)

    def gradients(self, case, pairs, mine, layer, made, plain):
        """By parameters and inputs, of the sum of results times random numbers."""
        wanted = [(mine[n], p) for n, p in layer.named_parameters()]
        wanted += [(made[k], x) for k, x in plain.items() if x.requires_grad]
        pairs = [(a, b) for a, b in pairs if b.requires_grad]
        if not wanted or not pairs:
            return
        ours, theirs = None, 0
        for a, b in pairs:
            w = self.rng.standard_normal(tuple(b.shape))
            term = self.q.call("sum", self.q.call("mul", a, self.q.tensor(Value("f64", w))), -2147483648, False)
            ours = self.q.call("add", ours, term) if ours else term
            theirs = theirs + (b * torch.tensor(w)).sum()
        slopes = torch.autograd.grad(theirs, [b for _, b in wanted], allow_unused=True)
        case.order = "gradient"
        for got, (_, x), want in zip(self.q.grad(ours, None, [a for a, _ in wanted]), wanted, slopes):
            self.near(case, self.q.read(got), torch.zeros_like(x) if want is None else want)


def run(q, account, rng):
    if torch is None:
        account.skip("layers", "PyTorch is not installed")
        return
    comparison = Comparison(q, account, rng)
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    for kind, args, keywords, given in cases():
        for training in (True, False):
            with q.scope():
                try:
                    comparison.one(kind, args, keywords, given, training)
                except QuernError as e:
                    account.fail(Case("layers", "f64", "value", f"{kind}{args} {keywords} "), f"refused: {e}")


def table():
    return {"layers": run}
