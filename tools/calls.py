"""calls.py - what the recorder must know of every public function, read off the headers: gen.py writes it.

A prototype says by its types what each argument is, by names and order how long a list is: the last
argument before it that is called n, rank and so on. What does not follow stands in LENGTHS.
"""

import os
import re
import sys

HEADERS = ["quern.h", "quern_ops.h", "quern_ops_linalg.h", "quern_ops_nn.h", "quern_nn.h", "quern_tune.h",
           "quern_quant.h", "quern_archive.h"]
COUNTS = ("n", "n_in", "n_out", "rank", "space")

# Lists whose length no argument says: record.h has the words.
LENGTHS = {("pad", "before_after"): "LENGTH_PADS", ("update_slice", "start"): "LENGTH_RANK",
           ("max_pool", "size"): "LENGTH_SPACE", ("avg_pool", "size"): "LENGTH_SPACE",
           ("pool", "size"): "LENGTH_SPACE", ("max_pool_index", "size"): "LENGTH_SPACE",
           ("fractional_max_pool", "size"): "LENGTH_SPACE", ("fractional_max_pool", "places"): "LENGTH_SPACE",
           ("max_unpool", "places"): "LENGTH_SPACE", ("interpolate", "sizes"): "LENGTH_SPACE",
           ("im2col", "size"): "LENGTH_SPACE",
           ("plan_run", "inputs"): "LENGTH_INPUTS", ("plan_run", "outputs"): "LENGTH_OUTPUTS",
           ("optimizer_apply", "gradients"): "LENGTH_PARAMETERS",
           ("optimizer_update", "state"): "LENGTH_IS(3)", ("optimizer_update", "out"): "LENGTH_IS(4)",
           ("from", "data"): "LENGTH_SHAPE",
           ("borrow", "data"): "LENGTH_SHAPE",
           ("text_batch", "ids"): "LENGTH_BATCH", ("text_batch", "targets"): "LENGTH_BATCH",
           ("frexp", "out"): "LENGTH_IS(2)", ("mx_quantize", "out"): "LENGTH_IS(2)",
           ("aminmax", "out"): "LENGTH_IS(2)",
           ("batch_norm_training", "out"): "LENGTH_IS(3)",
           ("write", "data"): "size", ("result_type", "dtypes"): "m",
           ("vjp", "xs"): "m", ("vjp", "out"): "m", ("jvp", "xs"): "m", ("jvp", "tangents"): "m",
           ("custom_gradient", "xs"): "m", ("custom_gradient", "slopes"): "m", ("checkpoint", "xs"): "m",
           ("vmap", "examples"): "m", ("vmap", "xs"): "m", ("vmap", "in_axes"): "m",
           ("text_new", "text"): "size", ("text_ids", "ids"): "count", ("depends", "xs"): "m",
           ("depends", "out"): "m"}

# By type: the letter of record.h. What is made in a context is an object.
LETTERS = {"qn_ctx *": "C", "qn_tensor *": "T", "bool": "B", "double": "F", "int64_t": "Z", "uint64_t": "U",
           "size_t": "S", "qn_scope": "H", "int": "I", "const char *": "W", "const void *": "D",
           "const double *": "E", "const int64_t *": "P", "const int *": "A", "qn_tensor *const *": "L",
           "const char *const *": "M", "qn_tensor **": "R", "void *": "Q", "int32_t *": "J",
           "const qn_dtype *": "A", "int64_t *": "G", "const char **": "N", "const void **": "N",
           "const uint32_t **": "N"}
OBJECTS = ("tape", "plan", "loop", "file", "archive", "module", "layer", "optimizer", "gpt", "text")
NOT_KEPT = {"give_back", "owner", "alloc", "free", "alloc_user", "log", "log_user", "error", "error_size",
            "metadata", "pairs", "going", "user", "quants", "like"}
FIELDS = {"int": "INT", "int64_t": "I64", "uint64_t": "I64", "double": "F64", "bool": "BOOL",
          "const char *": "TEXT", "qn_tensor *": "TENSOR", "const qn_conv_options *": "CONV"}
BY_HAND = ("open",)

# Short names of the types that most signatures are made of.
SHORT = {"qn_tensor *": "t", "const qn_tensor *": "ct", "qn_ctx *": "c", "int": "i", "int64_t": "z", "bool": "b",
         "double": "f", "const char *": "w", "const int64_t *": "p", "const int *": "a",
         "qn_tensor *const *": "l", "qn_tensor **": "r"}


def declarations(root):
    """The headers, without comments and inline functions."""
    text = ""
    for name in HEADERS:
        with open(os.path.join(root, "include", name)) as f:
            text += re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
    return re.sub(r"^static inline .*?^\}", "", text, flags=re.M | re.S)


def split(declaration):
    """(type, name) of a parameter."""
    match = re.match(r"(.*?)(\w+)$", " ".join(declaration.split()))
    return match[1].strip(), match[2]


OF_CONTEXT = ("qn_ctx *", "qn_tensor *", "qn_tensor *const *") + tuple(f"qn_{o} *" for o in OBJECTS)


def functions(text):
    """(result, name, [(type, name)]) of every public function that is of a context, or makes one."""
    for match in re.finditer(r"QN_API\s+([^;(]*?)\bqn_(\w+)\(([^;]*)\);", text):
        params = [split(p) for p in match[3].split(",") if p.strip() != "void"]
        if match[2] in BY_HAND or any(t in OF_CONTEXT or bare(t) in OF_CONTEXT for t, _ in params):
            yield " ".join(match[1].split()), match[2], params


def bare(type_):
    return type_.replace("const ", "", 1) if type_.endswith(" *") else type_


def enums(text):
    return set(re.findall(r"typedef enum (qn_\w+)", text))


def letter(type_, structs, kinds):
    """The letter of record.h, None where the type has none. Of `structs`, name: whether it says its size."""
    if type_ in kinds:
        return "I"
    if bare(type_) in ["qn_%s *" % o for o in OBJECTS]:
        return "O"
    if bare(type_) in ("qn_ctx *", "qn_tensor *"):
        return LETTERS[bare(type_)]
    if type_.startswith("const ") and type_[6:-2] in structs:
        return "K" if structs[type_[6:-2]] else "V"
    if type_[:-2] in structs:
        return "N"
    return LETTERS.get(type_)


def length(name, params, k):
    """Of list k: the number of the argument that says it, or a word."""
    said = LENGTHS.get((name, params[k][1]))
    names = [p[1] for p in params]
    if said in names:
        return str(names.index(said))
    if said:
        return said
    if params[k][0] == "qn_tensor **" and params[k][1] != "out":
        return "LENGTH_IS(1)"
    before = [i for i in range(k) if params[i] in [("int", c) for c in COUNTS]]
    if not before:
        sys.exit(f"gen: qn_{name}: how long is {names[k]}? tools/calls.py, LENGTHS")
    return str(before[-1])


def row(result, name, params, structs, kinds):
    args = []
    for k, (type_, what) in enumerate(params):
        one = "D" if (name, what) == ("text_new", "text") else letter(type_, structs, kinds)
        if not one:
            sys.exit(f"gen: qn_{name}: what is {what}, a {type_}? tools/calls.py, LETTERS")
        if one in "PALMRJDE":
            long = length(name, params, k)
            if one == "P" and long.isdigit() and params[int(long)][1] == "n":
                one = "Y"
            args.append(f"{one}({k}, {long})")
        elif one == "K":
            args.append(f"K({k}, {type_[9:-2]})")
        elif one == "V":
            args.append(f"V({k}, {length(name, params, k)}, {type_[9:-2]})")
        else:
            args.append(f"{one}({k})")
    shown = ", ".join(t + ("" if t.endswith("*") else " ") + n for t, n in params)
    rest = f"{name}, ({shown}), ({', '.join(n for _, n in params)}), ({', '.join(args)}))"
    if result == "void":
        return f"VOID({rest}"
    gives = "E" if result == "qn_code" else letter(result, structs, kinds)
    return f"{'HAND' if name in BY_HAND else 'X'}({result}, {gives}, {rest}"


def signature(result, params):
    """A name for what a function is called with and gives: equal for equal types."""
    types = [result] + [t for t, _ in params]
    return "_".join(SHORT.get(t) or re.sub(r"\W", "", t.replace("qn_", "").replace("*", "p")) for t in types)


def member(one):
    """The member of call_value that a letter has."""
    return "F" if one == "F" else "I" if one in "ISHBZUE" else "P"


def asked(name, params, letters):
    """Whether a call is recorded, or complex: of which arguments that is asked."""
    terms = [f"OF_CONTEXT({params[0][1]})"] if letters[0] == "C" else []
    names = [n for (_, n), one in zip(params, letters) if one in "TO"]
    if names:
        terms.append(f"OF_HANDLES_{len(names)}({', '.join(names)})")
    for k, one in enumerate(letters):
        if one == "L" and length(name, params, k).isdigit():
            terms.append(f"OF_LIST({params[int(length(name, params, k))][1]}, {params[k][1]})")
    terms += [f"OF_DTYPE({n})" for t, n in params if t == "qn_dtype"]
    return " || ".join(terms)


def stubbed(root):
    """The functions that programs call through a stub, with what letters of parameters need."""
    text = declarations(root)
    structs, kinds = {name: sized(found) for name, found in structures(text)}, enums(text)
    return [f for f in functions(text) if f[1] not in BY_HAND], structs, kinds


def signatures(root):
    """The lines of src/record/signatures.h: what functions of equal types are called with."""
    found, structs, kinds = stubbed(root)
    seen = {}
    yield ""
    for result, name, params in found:
        letters = [letter(t, structs, kinds) for t, _ in params]
        seen.setdefault(signature(result, params), (result, params, letters))
    for name, (result, params, letters) in sorted(seen.items()):
        types = ", ".join(f"{t}{'' if t.endswith('*') else ' '}a{k}" for k, (t, _) in enumerate(params))
        ways = ", ".join(f"{member(one)}({k})" for k, one in enumerate(letters))
        args = ", ".join(f"a{k}" for k in range(len(params)))
        kind, lead = "SV", ""
        if result != "void":
            kind, lead = "S", f"{result}, {member(letter(result, structs, kinds) or 'E')}, "
        yield from wrapped(f"{kind}({lead}{name}, ({types}), ({args}), ({ways}))")


def stubs(root):
    """The lines of src/record/stubs.h: functions by signature."""
    found, structs, kinds = stubbed(root)
    yield ""
    for result, name, params in found:
        letters = [letter(t, structs, kinds) for t, _ in params]
        shown = ", ".join(t + ("" if t.endswith("*") else " ") + n for t, n in params)
        kind, lead = ("VOID", "") if result == "void" else ("X", f"{result}, ")
        lead += f"{name}, {signature(result, params)}, {asked(name, params, letters)}"
        yield from wrapped(f"{kind}({lead}, ({shown}), ({', '.join(n for _, n in params)}))")


def structures(text):
    """(name, fields) of the structs, a field being (type, name, count)."""
    for match in re.finditer(r"typedef struct (qn_\w+) \{(.*?)\} \1;", text, re.S):
        found = []
        for line in re.sub(r"\(\*(\w+)\)\([^)]*\)", r" \1", match[2]).split(";"):
            line = " ".join(line.split())
            if not line:
                continue
            type_, rest = re.match(r"((?:const )?\w+ (?:\*const \*|\*)?)(.*)", line).groups()
            for one in rest.split(","):
                part = re.match(r"\s*(\**)(\w+)(?:\[(\d+)\])?", one)
                found.append(((type_ + part[1]).strip(), part[2], part[3] or "1"))
        yield match[1], found


def sized(fields):
    """Does a struct begin with its size, as options do?"""
    return fields[0][:2] == ("size_t", "size")


def wrapped(line):
    """A row of at most 160 columns, as tables may be, else with more lines, of 100."""
    lines, width = [], 150 if line.startswith("X") else 98
    while len(line) > width:
        at = line.rfind(", ", 10, width) + 1
        lines.append(line[:at])
        line, width = "  " + line[at + 1:], 98
    return lines + [line]


def calls(root):
    """The lines of src/record/calls.h."""
    text = declarations(root)
    structs = {name: sized(found) for name, found in structures(text)}
    yield ""
    for result, name, params in functions(text):
        yield from wrapped(row(result, name, params, structs, enums(text)))


def inside(root):
    """The lines of src/record/inside.h."""
    yield ""
    for _, name, _ in functions(declarations(root)):
        yield f"#define qn_{name} inner_{name}"


def fields(root):
    """The lines of src/record/structs.h: structs that calls take, and their fields."""
    text = declarations(root)
    taken = {t[6:-2] for _, _, params in functions(text) for t, _ in params if t.startswith("const qn_")}
    yield ""
    for name, found in structures(text):
        if name not in taken:
            continue
        yield f"S({name[3:]}, {name})"
        for type_, field, count in found[sized(found):]:
            if field in NOT_KEPT:
                continue
            kind = "INT" if type_ in enums(text) else FIELDS.get(type_)
            if not kind:
                sys.exit(f"gen: {name}.{field}: what is a {type_}? tools/calls.py, FIELDS")
            yield f"X({name[3:]}, {field}, {kind}, {count})"
