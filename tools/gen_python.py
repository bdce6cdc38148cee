"""gen_python.py - what the Python package must know of every function, from the rows of the C API; gen.py writes it.

A C prototype becomes a Python signature by rules: a context goes, a list loses its length, a shape comes
before its dtype, a struct of options becomes keywords, results become a tuple, and the functions NAME,
NAME_axes, NAME_as and NAME_int are one, which takes an axis or several, a dtype, or an exact integer. What
does not follow, defaults and a few orders of arguments, stands in the tables here.

Written are python/src/calls.h, a row for each function: its parameters and the call; python/src/docs.h, their
documentation; the stubs python/quern/_core.pyi; and the tables of docs/python.md.
"""

import os
import re

import calls

# ---- conventions ---------------------------------------------------------------------------------

# Python's names beside C's: keywords need another, and the array API's are known to all.
ALIASES = {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_invert",
    "shl": "bitwise_left_shift", "shr": "bitwise_right_shift", "sub": "subtract", "mul": "multiply",
    "div": "divide", "neg": "negative", "mod": "remainder", "floor_div": "floor_divide", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
    "permute": "permute_dims", "expand": "broadcast_to", "unsqueeze": "expand_dims", "rem": "fmod",
    "variance": "var", "moveaxis": "movedim", "max": "amax", "min": "amin", "unstack": "unbind", "concat": "cat",
    "take_along_axis": "take_along_dim"}
KEYWORDS = ("and", "or", "not")  # of Python: only the alias is there

# Of any function, by the parameter's name; `None` is written N.
DEFAULTS = {"keepdims": "0", "descending": "0", "offset": "0", "rtol": "1e-05", "atol": "1e-08",
            "equal_nan": "0", "correction": "0", "norm": "0", "reduction": "0", "mode": "0", "combine": "0",
            "eps": "1e-05", "align_corners": "0", "padding": "0", "upper": "0", "transposed": "0", "unit": "0",
            "gain": "1", "right": "0", "largest": "1", "log_target": "0", "log_input": "1", "interleaved": "0",
            "gamma": "N", "beta": "N", "b": "N", "bound": "-1", "dtype": "N", "weights": "N", "include_self": "1",
            "options": "N"}
# Of one.
OF = {("elu", "alpha"): "1", ("celu", "alpha"): "1", ("leaky_relu", "slope"): "0.01", ("hardtanh", "lo"): "-1",
      ("hardtanh", "hi"): "1", ("softplus_beta", "beta"): "1", ("softplus_beta", "threshold"): "20",
      ("nan_to_num", "nan"): "0", ("nan_to_num", "infinity"): "inf", ("nan_to_num", "minus_infinity"): "-inf",
      ("norm", "p"): "2", ("diff", "n"): "1", ("dropout", "p"): "0.5", ("huber_loss", "delta"): "1",
      ("rope", "base"): "10000", ("pinv", "rtol"): "-1", ("matrix_rank", "rtol"): "-1", ("clip", "lo"): "N",
      ("clip", "hi"): "N", ("pad", "value"): "0", ("repeat_interleave", "axis"): "0",
      ("triplet_margin_loss", "margin"): "1", ("cosine_embedding_loss", "margin"): "0",
      ("margin_ranking_loss", "margin"): "0", ("hinge_embedding_loss", "margin"): "1",
      ("cosine_similarity", "axis"): "-1", ("cosine_similarity", "eps"): "1e-08", ("focal_loss", "alpha"): "0.25",
      ("focal_loss", "gamma"): "2", ("gaussian_nll_loss", "eps"): "1e-06", ("fftfreq", "d"): "1",
      ("rfftfreq", "d"): "1", ("slice", "step"): "1", ("slice_scatter", "step"): "1", ("linspace", "n"): "50",
      ("attention", "mask"): "N", ("cross_entropy", "weight"): "N", ("nll_loss", "weight"): "N",
      ("rot90", "turns"): "1", ("rot90", "a"): "0", ("rot90", "b"): "1",
      ("flatten", "first"): "0", ("flatten", "last"): "-1", ("eye", "columns"): "N",
      ("solve", "b"): "", ("solve_triangular", "b"): "", ("lstsq", "b"): "", ("beta", "b"): "", ("mode", "mode"): "",
      ("gamma", "gamma"): "", ("transpose", "b"): "-1", ("transpose", "a"): "-2", ("diagonal_axes", "b"): "-1",
      ("diagonal_axes", "a"): "-2", ("cross_entropy", "smoothing"): "0", ("nll_loss", "smoothing"): "0",
      ("irfftn", "last"): "0", ("irfft2", "last"): "0", ("bitcast", "dtype"): "", ("cast", "dtype"): "",
      ("cast_saturating", "dtype"): "", ("view", "dtype"): "", ("mx_quantize", "dtype"): "",
      ("mx_quantize", "block"): "32", ("bincount", "weights"): "N", ("multinomial", "weights"): "",
      ("multinomial_distinct", "weights"): "", ("flip", "axis"): "N", ("squeeze", "axis"): "N",
      ("isclose", "rtol"): "1e-05", ("beta", "a"): "", ("triu", "k"): "0", ("complex", "im"): "N",
      ("tril", "k"): "0", ("linear_scan", "b"): "", ("ctc_loss", "lengths"): "N", ("ctc_loss", "label_lengths"): "N",
      ("ctc_loss", "blank"): "0"}
# An axis that is not given, by function, then by section: QN_ALL where it reduces, else the last one.
LAST_AXIS = ("sorting", "scans", "Fourier transforms", "linear algebra", "neural networks", "elementwise, one argument",
             "elementwise, two arguments and more")
FIRST_AXIS = ("joining and splitting",)
# Orders of arguments that are not C's.
ORDER = {"split": "x sizes axis", "chunk": "x n axis", "roll": "x shift axis", "repeat_interleave": "x times axis",
         "repeat_counts": "x counts axis", "einsum": "spec xs", "randint": "key lo hi shape dtype",
         "pad": "x widths mode value"}
RENAMED = {("pad", "before_after"): "widths", ("moveaxis", "from"): "source", ("moveaxis", "to"): "destination",
           ("arange", "start"): "start"}
# Functions that are there by other means, or that Python has no use for.
LEFT_OUT = {"index", "index_put", "like", "weak", "scalar", "cross_entropy_ignoring"}
# Functions that run the graph.
RUNNING = {"head"}
# Written by hand: how the parameters go to C.
BY_HAND = {
    "roll": ("x:T shift:P axis:A=N", "roll_of(v)"),
    "unstack": ("x:T axis:I=0", "SIZE(0, 1)", "qn_unstack(T(0), I(1), SIZE(0, 1), out)"),
    "eye": ("rows:Z columns:Z=N dtype:D=N", "qn_eye(CTX, FLOAT(2), Z(0), GIVEN(1) ? Z(1) : Z(0))"),
    "arange": ("start:X stop:X=N step:X=1 dtype:D=N",
               "arange_of(v)"),
    "full": ("shape:P value:X dtype:D=N", "full_of(v)"),
    "full_like": ("x:T value:X", "full_like_of(v)"),
}

# How many sizes C expects, as tools/calls.py has it: the kinds of parse.c.
KINDS_BY_LENGTH = {"LENGTH_SPACE": "Q", "LENGTH_RANK": "R", "LENGTH_PADS": "V"}

# ---- reading -------------------------------------------------------------------------------------


# Functions of quern.h that no table has.
EXTRA = {"complex": "re + i im, of floats, broadcast: complex128 where one is float64, else complex64; im None: 0",
         "real": "the real part; of a real tensor itself", "imag": "the imaginary part; of a real tensor zeros",
         "conj": "re - i im; of a real tensor itself", "angle": "atan2(im, re), from -pi to pi",
         "as_complex": "pairs along a last axis of 2 as complex numbers, without a copy",
         "as_real": "complex numbers as pairs along a last axis of 2, without a copy"}


def sections(gen):
    """name: (section, doc) of every function that the tables have."""
    found = {}
    for row in (gen.Op(args) for _, args in gen.rows("src/graph/ops.h")):
        section = next((t for t, has in gen.SECTIONS if has(row)), None)
        for name, _, _ in row.functions():
            doc = row.doc if not name.endswith("_axes") else f"as {row.name}, over n axes"
            found[name] = (section, f"{doc} ({gen.TAKES[row.types]})")
    for heading, _, name, _, doc in gen.funcs():
        found[name] = (heading.split(":")[0], doc)
    found.update({name: ("complex numbers", doc) for name, doc in EXTRA.items()})
    return found


NO_WORDS = ("qn_meta", "qn_quant")  # enums that no function of Python's takes


def enum_words(text):
    """enum: its members as words of Python, in the order of their values."""
    found = {}
    for match in re.finditer(r"typedef enum (qn_\w+) \{(.*?)\} \1;", text, re.S):
        if match[1] in NO_WORDS:
            continue
        names = [(int(v), n) for n, v in re.findall(r"(QN_\w+)\s*=\s*(-?\d+)", match[2])]
        split = [n.split("_") for _, n in names]
        common = 0
        while all(len(s) > common + 1 for s in split) and len({s[common] for s in split}) == 1:
            common += 1
        found[match[1]] = [(v, "_".join(s[common:]).lower()) for (v, _), s in zip(names, split)]
    return found


class Parameter:
    """One of a Python function: its name, kind (see parse.c), default ("": none; "N": None), and whether it
    is by keyword alone."""

    def __init__(self, name, kind, default="", keyword=False):
        self.name, self.kind, self.default, self.keyword = name, kind, default, keyword

    def spec(self):
        return f"{self.name}:{self.kind}" + (f"={self.default}" if self.default != "" else "")


class Function:
    """A Python function: name, parameters, the C expression, what it gives and its words."""

    def __init__(self, name, section, doc):
        self.name, self.section, self.doc = name, section, doc
        self.params, self.call, self.results, self.count = [], "", None, ""

    def names(self):
        alias = ALIASES.get(self.name)
        return [n for n in (self.name, alias) if n and n not in KEYWORDS]

    def spec(self):
        words, star = [], False
        for p in self.params:
            if p.keyword and not star:
                words.append("*")
                star = True
            words.append(p.spec())
        return " ".join(words)


class Reader:
    def __init__(self, gen, root):
        text = calls.declarations(root)
        self.prototypes = {name: (result, params) for result, name, params in calls.functions(text)}
        self.structs = dict(calls.structures(text))
        self.enums = enum_words(text)
        self.enum_names = sorted(self.enums)
        self.sections = sections(gen)

    def default(self, name, section, param, kind):
        if (name, param) in OF:
            return OF[name, param]
        if param == "axis" and kind in "aAI":
            names = [n for _, n in self.prototypes[name][1]]
            if "keepdims" in names or "axes" in names and kind == "A" and section not in LAST_AXIS:
                return "N"
            if section in LAST_AXIS:
                return "-1"
            return "0" if section in FIRST_AXIS else ""
        if param == "axes":
            return "N" if section == "Fourier transforms" else ""
        if param == "n" and section == "Fourier transforms" and not name.endswith("freq"):
            return "0"
        return DEFAULTS.get(param, "")

    def options(self, struct, start, owner):
        """Keywords of a struct of options, and the C text that fills one from them."""
        params, fields = [], []
        found = self.structs[struct]
        names = [f[1] for f in found]
        for type_, field, count in found[1:]:
            at = start + len(params)
            if field == "before" and "after" in names:
                params.append(Parameter("padding", "p", "0", True))
                fields += [f".before = THREE({at}), .after = AFTER({at})"] + (
                    [f".same = SAME({at})"] if "same" in names else [])
            elif field in ("after", "same", "ignores"):
                continue
            elif count == "3":
                params.append(Parameter(field, "3" if type_ == "int64_t" else "g", "0", True))
                fields.append(f".{field} = " + ("THREE" if type_ == "int64_t" else "THREE_F") + f"({at})")
            elif field == "ignore" and "ignores" in names:
                params.append(Parameter(field, "Z", "N", True))
                fields.append(f".ignore = Z({at}), .ignores = GIVEN({at})")
            else:
                kind = self.kind(owner, type_, field, True)
                default = "N" if kind == "T" else OF.get((owner, field), "0")
                params.append(Parameter(field, kind, default, True))
                fields.append(f".{field} = {self.argument(kind, at, type_)}")
        return params, f"&({struct}){{.size = sizeof({struct}), {', '.join(fields)}}}"

    def kind(self, name, type_, param, scalar=False):
        if type_ in self.enums:
            return "D" if type_ == "qn_dtype" else f"e{self.enum_names.index(type_)}"
        if type_ == "qn_tensor *":
            section = self.sections[name][0] if name in self.sections else ""
            several = sum(t == "qn_tensor *" for t, _ in self.prototypes[name][1])
            return "S" if section and section.startswith("elementwise") and several > 1 or \
                (name, param) == ("masked_fill", "value") else "T"
        if type_ == "int" and param == "axis":
            return "a"
        if type_ == "const int64_t *":
            return self.sizes(name, param)
        return {"int": "I", "int64_t": "Z", "uint64_t": "U", "double": "F", "bool": "B", "const char *": "W",
                "const int *": "A", "const double *": "E", "qn_tensor *const *": "L"}[type_]

    def sizes(self, name, param):
        """P, or the kind of sizes of which C is not told how many they are, for x says it."""
        _, params = self.prototypes[name]
        at = next((i for i, (_, what) in enumerate(params) if RENAMED.get((name, what), what) == param), None)
        return KINDS_BY_LENGTH.get(at is not None and calls.length(name, params, at), "P")

    @staticmethod
    def argument(kind, at, type_):
        if kind[0] == "e":
            return f"({type_})I({at})"
        return {"T": f"T({at})", "S": f"T({at})", "a": f"AXIS({at})", "I": f"I({at})", "Z": f"Z({at})", "U": f"U({at})",
                "F": f"F({at})", "B": f"B({at})", "W": f"W({at})", "P": f"P({at})", "Q": f"P({at})",
                "R": f"P({at})", "V": f"P({at})", "A": f"AXES({at})", "E": f"E({at})",
                "L": f"L({at})", "D": f"D({at})"}[kind]

    def parameters(self, name):
        """Python's parameters of one C function, before defaults, in C's order; and its result's names."""
        _, params = self.prototypes[name]
        lists = {}
        for i, (type_, what) in enumerate(params):
            if type_ in ("const int64_t *", "const int *", "const double *", "qn_tensor *const *"):
                length = calls.length(name, params, i)
                if length.isdigit():
                    lists.setdefault(int(length), []).append(what)
        shown, outs = [], []
        for i, (type_, what) in enumerate(params):
            if type_ == "qn_tensor **":
                outs.append(what)
            elif i not in lists and type_ != "qn_ctx *":
                shown.append((type_, RENAMED.get((name, what), what)))
        return shown, outs, lists

    def function(self, name):
        section, doc = self.sections[name]
        f = Function(name, section, doc)
        base = {"cross_entropy_with": "cross_entropy", "nll_loss_with": "nll_loss"}.get(name, name)
        f.name = base
        if base in BY_HAND:
            row = BY_HAND[base]
            for word in row[0].split():
                what, _, kind = word.partition(":")
                kind, _, default = kind.partition("=")
                f.params.append(Parameter(what, kind, default))
            f.count, f.call = (row[1], row[2]) if len(row) == 3 else ("", row[1])
            f.results = [] if f.count else None
            return f
        shown, outs, lists = self.parameters(name)
        several, as_ = name + "_axes", name + "_as"
        merged = several in self.prototypes and ("int", "axis") in shown
        typed = merged and as_ in self.prototypes
        if any(w == "dtype" for _, w in shown) and any(w == "shape" for _, w in shown):
            shown = [p for p in shown if p[1] != "dtype"] + [("qn_dtype", "dtype")]
        elif shown[0][1] == "dtype":
            shown = shown[1:] + shown[:1]
        if base in ORDER:
            order = ORDER[base].split()
            shown = sorted(shown, key=lambda p: order.index(p[1]))
        at, option = {}, ""
        second = {RENAMED.get((name, what), what) for of in lists.values() for what in of[1:]}
        for type_, what in shown:
            if type_.startswith("const qn_") and type_.endswith("_options *"):
                params, option = self.options(type_[6:-2], len(f.params), base)
                f.params += params
                continue
            kind = "A" if merged and what == "axis" else self.kind(name, type_, what)
            at[what] = (len(f.params), kind, type_)
            alike = "~" if kind in ("P", "A") and what in second else ""
            f.params.append(Parameter(what, kind + alike, self.default(name, section, what, kind)))
        if typed:
            at["dtype"] = (len(f.params), "D", "qn_dtype")
            f.params.append(Parameter("dtype", "D", "N", True))
        self.keywords(f)
        if outs:
            f.results = outs if outs != ["out"] else []
            f.count = self.how_many(name, outs, at)
        f.call = self.expression(name, at, option, outs, f)
        if merged:
            one = self.expression(name, {**at, "axis": (at["axis"][0], "a", "int")}, option, outs, f)
            most = self.expression(several, {**at, "axes": at["axis"]}, option, outs, f)
            f.call = f"ONE({at['axis'][0]}) ? {one} : {most}"
        if typed:
            more = self.expression(as_, {**at, "axes": at["axis"]}, option, outs, f)
            f.call = f"GIVEN({at['dtype'][0]}) ? {more} : {f.call}"
        return f

    @staticmethod
    def keywords(f):
        """What comes behind a parameter with a default has one, or is by keyword; a tensor of those is None."""
        seen = False
        for p in f.params:
            seen = seen or p.default != ""
            if seen and p.default == "":
                p.keyword = True
        seen = False
        for p in f.params:
            seen = seen or p.keyword
            p.keyword = seen

    def how_many(self, name, outs, at):
        if outs != ["out"]:
            return str(len(outs))
        _, params = self.prototypes[name]
        k = next(i for i, (t, _) in enumerate(params) if t == "qn_tensor **")
        long = calls.length(name, params, k)
        if long.startswith("LENGTH_IS("):
            return long[10:-1]
        what = params[int(long)][1]
        if what in at:
            return f"I({at[what][0]})"
        listed = next(w for t, w in params if w in at and at[w][1] in "LPA")
        return f"N({at[listed][0]})"

    def expression(self, name, at, option, outs, f):
        _, params = self.prototypes[name]
        lengths = {}
        for i, (type_, what) in enumerate(params):
            if type_ in ("const int64_t *", "const int *", "const double *", "qn_tensor *const *"):
                long = calls.length(name, params, i)
                if long.isdigit():
                    lengths.setdefault(int(long), RENAMED.get((name, what), what))
        args = []
        for i, (type_, what) in enumerate(params):
            what = RENAMED.get((name, what), what)
            if type_ == "qn_ctx *":
                args.append("CTX")
            elif type_ == "qn_tensor **":
                args.append("out" if outs == ["out"] else f"&out[{outs.index(what)}]")
            elif type_.endswith("_options *"):
                args.append(option)
            elif i in lengths:
                args.append(f"N({at[lengths[i]][0]})")
            elif type_ == "qn_dtype" and f.params[at[what][0]].default == "N" and not name.endswith("_as"):
                args.append(f"FLOAT({at[what][0]})" if name not in ("randint", "iota", "one_hot") else
                            f"WHOLE({at[what][0]})")
            else:
                args.append(self.argument(at[what][1], at[what][0], type_))
        return f"qn_{name}({', '.join(args)})"

    def all(self):
        for name in self.prototypes:
            if name not in self.sections or name in LEFT_OUT:
                continue
            if name.endswith("_int") and name[:-4] in self.prototypes:
                continue
            base = name[:-5] if name.endswith("_axes") else name[:-3] if name.endswith("_as") else ""
            if base in self.prototypes and ("int", "axis") in self.parameters(base)[0]:
                continue
            if name + "_with" in self.prototypes:
                continue
            yield self.function(name)


# ---- writing -------------------------------------------------------------------------------------


def rows(gen, reader):
    """The lines of python/src/calls.h."""
    yield ""
    for name in reader.enum_names:
        words = " ".join(w for _, w in reader.enums[name])
        yield f'ENUM({reader.enum_names.index(name)}, {name[3:]}, "{words}")'
    yield ""
    for f in reader.all():
        python = "|".join(f.names())
        # A function's own name in C stays, also where that is a word of Python.
        if f.results is None:
            kind, more = "X", ""
        else:
            kind, more = "Y", f'"{" ".join(f.results)}", {f.count}, '
        line = f'{kind}({f.name}, "{python}", "{f.spec()}", {more}{f.call})'
        yield from broken(line)


def broken(line, width=100):
    """A row in lines of at most `width` columns, not broken in a string."""
    lines = []
    while len(line) > width:
        at, i, inside = -1, 0, False
        while i < width:
            if line[i] == '"':
                inside = not inside
            elif line[i] == " " and not inside and i > 4:
                at = i
            i += 1
        if at < 0:  # a long string: as two
            at = line.rfind(" ", 10, width - 2)
            lines.append(line[:at + 1] + '"')
            line = '  "' + line[at + 1:]
            continue
        lines.append(line[:at])
        line = "  " + line[at + 1:]
    return lines + [line]


def dtype_name(name):
    """Python's name of a dtype, as dtype.c has it."""
    found = re.match(r"(bf|f8_|f|i|u|c)(.*)", name)
    long = {"bf": "bfloat", "f8_": "float8_", "f": "float", "i": "int", "u": "uint", "c": "complex"}
    return long[found[1]] + found[2] if found else name


PYTHON_TYPES = {"T": "TensorLike", "S": "TensorLike", "L": "Sequence[Tensor]", "I": "int", "Z": "int", "U": "int",
                "F": "float", "B": "builtins.bool", "D": "DTypeLike", "A": "int | Sequence[int]", "a": "int",
                "P": "Shape", "Q": "Shape", "R": "Shape", "V": "Shape",
                "E": "float | Sequence[float]", "W": "str", "3": "int | Sequence[int]",
                "g": "float | Sequence[float]", "p": "int | str | Sequence[int] | Sequence[tuple[int, int]]",
                "X": "Number"}


def shown_default(p, reader):
    if p.default == "N":
        return "None"
    if p.kind == "B":
        return {"0": "False", "1": "True"}[p.default]
    if p.kind[0] == "e":
        words = dict(reader.enums[reader.enum_names[int(p.kind[1:])]])
        return f'"{words[int(p.default)]}"'
    return p.default


def one_by_one(f):
    """The last parameter of those by position, and the type of what may be given one by one in its place."""
    last = next((p for p in reversed(f.params) if not p.keyword), None)
    if last and last.kind[0] in "PQRVAL":
        return last, "Tensor" if last.kind[0] == "L" else "int"
    return None, None


def signature(f, reader, first=""):
    """Python's, without types: for __text_signature__ and the table of docs."""
    words, star = [first] if first else [], False
    for p in f.params[1 if first else 0:]:
        if p.keyword and not star:
            words.append("*")
            star = True
        words.append(p.name + (f"={shown_default(p, reader)}" if p.default != "" else ""))
        if p is one_by_one(f)[0]:
            words.append("*more")
            star = True
    return "(" + ", ".join(words) + ")"


def c_string(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


def docs(gen, reader):
    """The lines of python/src/docs.h."""
    yield ""
    for f in reader.all():
        sign = re.sub(r"=(-?)inf\b", r"=\g<1>1e999", signature(f, reader))  # inf is no literal
        yield from broken(f'X({f.name}, "{c_string(sign)}", "{c_string(python_doc(f.doc))}")')


CODES = {"QN_ESHAPE": "ValueError", "QN_EDTYPE": "TypeError", "QN_ERANGE": "RangeError", "QN_EARG": "ValueError",
         "QN_EGRAPH": "RuntimeError", "QN_EDEVICE": "RuntimeError", "QN_ALL": "None", "QN_END": "None",
         "may be NULL": "may be None", "NULL": "None"}


def python_doc(doc):
    doc = re.sub(r"\bqn_(\w+)", r"\1", doc)
    for c, python in CODES.items():
        doc = doc.replace(c, python)
    return re.sub(r"QN_COMBINE_(\w+)", lambda m: f'combine="{m[1].lower()}"', doc)


def typed(p, reader):
    if p.kind[0] == "e":
        words = reader.enums[reader.enum_names[int(p.kind[1:])]]
        text = "Literal[" + ", ".join(f'"{w}"' for _, w in words) + "]"
    else:
        text = PYTHON_TYPES[p.kind.rstrip("~")]
    default = ""
    if p.default != "":
        shown = shown_default(p, reader)
        default = " = " + (shown if "inf" not in shown else "...")
        if p.default == "N":
            text += " | None"
    return f"{p.name}: {text}{default}"


def result_type(f):
    if f.results is None:
        return "Tensor"
    if f.results:
        return f"{f.name}_result"
    if f.count.isdigit():
        return "tuple[" + ", ".join(["Tensor"] * int(f.count)) + "]"
    return "tuple[Tensor, ...]"


def definition(f, name, reader, method):
    params, star, (last, item) = [f.params[0].name] if method else [], False, one_by_one(f)
    for p in f.params[1 if method else 0:]:
        if p.keyword and not star:
            params.append("*")
            star = True
        text = typed(p, reader)
        params.append(text.replace("Sequence[Tensor]", "Sequence[Tensor] | Tensor") if p is last else text)
        if p is last:
            params.append(f"*more: {item}")
            star = True
    indent = "    " if method else ""
    head, lines, line = f"{indent}def {name}(", [], ""
    line = head
    for i, param in enumerate(params):
        text = param + ("," if i + 1 < len(params) else "")
        if len(line) + len(text) + 1 > 118:
            lines.append(line.rstrip())
            line = indent + "        "
        line += text + " "
    lines.append(line.rstrip() + f") -> {result_type(f)}: ...")
    return lines


def is_method(f):
    return bool(f.params) and f.params[0].kind in "TS" and f.params[0].name in ("x", "z", "index")


def stubs(gen, reader):
    """The lines of python/quern/_core.pyi that the rows give: results, functions, and methods of Tensor."""
    methods = []
    yield ""
    with open(os.path.join(gen.ROOT, "src/base/dtypes.h")) as f:
        for name in re.findall(r'^(?:X|COMPLEX)\(\w+, "(\w+)"', f.read(), re.M):
            yield f"{dtype_name(name)}: dtype"
    for f in reader.all():
        if f.results:
            yield ""
            yield f"class {f.name}_result(NamedTuple):"
            yield from [f"    {w}: Tensor" + ("  # type: ignore[assignment]" if w in ("count", "index") else "")
                        for w in f.results]
            yield ""
        for name in f.names():
            yield from definition(f, name, reader, False)
            if is_method(f):
                methods += definition(f, name, reader, True)
    yield ""
    yield "class Methods:"
    yield from methods


def table(gen, reader):
    """Rows of docs/python.md: (section, lines)."""
    groups = {}
    for f in reader.all():
        names = f.names()
        also = f", `{names[1]}`" if len(names) > 1 else ""
        groups.setdefault(f.section.replace(", ", "-").replace(" ", "-"), []).append(
            [f"`{names[0]}{signature(f, reader)}`{also}", python_doc(f.doc)])
    for group, lines in groups.items():
        yield gen.table(group, ["function", ""], lines)
