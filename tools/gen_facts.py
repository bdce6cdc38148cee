"""gen_facts.py - the table of docs/ops.md that says of every function which dtypes it takes and gives, shapes for
example, whether it has a gradient, how far it is off, and where it is made. From docs/ops.tally (which
tests/func/test_ops_page.c holds against the functions), docs/accuracy.md, docs/gradients.md and the sources."""

import glob
import math
import os
import re

GROUPS = {"bools": ["bool"], "integers": ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"],
          "floats": ["f16", "bf16", "f32", "f64"]}
PARTS = {"bools": GROUPS["bools"], "signed": GROUPS["integers"][:4], "unsigned": GROUPS["integers"][4:],
         "floats": GROUPS["floats"]}
# Of sections whose functions move elements, or count and choose among them: nothing is rounded.
EXACT = ("making", "converting", "movement", "joining", "computed indices", "sorting")
EXACT_TOO = ("floor_div clamp clip nan_to_num frexp nextafter ldexp gcd lcm key key_fold random_bits uniform "
             "randint bernoulli key_split key_fold_in shuffle pixel_shuffle pixel_unshuffle max_pool "
             "max_pool_index fractional_max_pool max_unpool im2col").split()
SUMS = ("reductions", "scans", "products", "convolution", "neural networks", "Fourier", "linear algebra")


def taken(dtypes):
    words, left = [], list(dtypes)
    for group, members in GROUPS.items():
        if all(d in dtypes for d in members):
            words.append(group)
            left = [d for d in left if d not in members]
    return ", ".join(words + left)


def given(to):
    """What comes of each group; several calls put together in the tally give nothing."""
    if not all(to.values()):
        return ""
    of = {}
    for part, members in PARTS.items():
        there = [d for d in members if d in to]
        if there:
            outs = {to[d] for d in there}
            of[part] = "the same" if all(to[d] == d for d in there) else outs.pop() if len(outs) == 1 else \
                " ".join(to[d] for d in there)
    if len(set(of.values())) == 1:
        return next(iter(of.values()))
    parts = {}
    for part, what in of.items():
        parts.setdefault(what, []).append(part)
    return "; ".join(", ".join(p).replace("signed, unsigned", "integers") + f": {w}" for w, p in parts.items())


def sources(root):
    found = {}
    for path in sorted(glob.glob(os.path.join(root, "src", "func", "**", "*.c"), recursive=True)):
        with open(path) as f:
            for name in re.findall(r"^qn_(?:tensor \*|code )qn_(\w+)\(", f.read(), re.M):
                found.setdefault(name, os.path.relpath(path, os.path.join(root, "src")))
    for path in sorted(glob.glob(os.path.join(root, "src", "math", "*.c"))):
        with open(path) as f:
            for name in re.findall(r"^expr_id math_(\w+)\(const math \*m, const expr_id", f.read(), re.M):
                found[name] = os.path.relpath(path, os.path.join(root, "src"))
    return found


def errors(root):
    """Largest errors of f32 and f64, to a tenth above."""
    found = {}
    with open(os.path.join(root, "docs", "accuracy.md")) as f:
        for name, f32, f64 in re.findall(r"^\| `(\w+)` \| [\d.]+ \| [\d.]+ \| ([\d.]+) \| [^|]* \| ([\d.]+) \|",
                                         f.read(), re.M):
            up = [math.ceil(float(v) * 10 - 1e-9) / 10 for v in (f32, f64)]
            found[name.removesuffix("_right")] = f"{up[0]:g}, {up[1]:g}"
    return found


def rows(gen, root):
    with open(os.path.join(root, "docs", "gradients.md")) as f:
        special = set(re.findall(r"`(\w+)`", "".join(line for line in f if line.startswith("|"))))
    tally = {}
    with open(os.path.join(root, "docs", "ops.tally")) as f:
        for line in f:
            name, dtypes, shapes, gradient = line.rstrip("\n").split("|")
            tally[name] = dict(d.split("=") for d in dtypes.split()), shapes, gradient
    ops = {}
    for _, args in gen.rows("src/graph/ops.h"):
        op = gen.Op(args)
        ops.update({name: (op, args[7]) for name, _, _ in op.functions()})
    headings = {name: heading for heading, _, name, _, _ in gen.funcs()}
    where, off = sources(root), errors(root)
    for name in [name for name, *_ in gen.regions_of_ops()] + [f[2] for f in gen.funcs()]:
        to, shapes, gradient = tally.get(name, ({}, "", ""))  # of a new one test_ops_page asks for a row
        op, value = ops.get(name, (None, ""))
        heading = headings.get(name, "")
        if name in off:
            ulp = off[name]
        elif value == "FORMULA" and name not in EXACT_TOO:
            ulp = "[of the larger term](accuracy.md)"
        elif name in EXACT_TOO or value == "EXACT" or op and op.name not in ("sum", "prod", "sum_product"):
            ulp = "exact"
        elif op or heading.startswith(SUMS):
            ulp = "sums"
        else:
            whole = all(d in ("bool", "i64", "u8") for d in to.values())
            ulp = "exact" if whole or heading.startswith(EXACT) else "a few"
        said = f"[{gradient}](gradients.md)" if gradient and name in special else gradient
        made = where.get(name) if where.get(name) != "func/api.c" else None
        above = "as said above"
        yield [f"`{name}`", taken(to), given(to) or above, shapes or above, said or "none", ulp,
               f"`{made or 'graph/ops.h'}`"]


COLUMNS = ["function", "takes", "gives", "shapes, for example", "gradient", "ulp of f32, f64", "made in src/"]


def table(gen, root):
    return gen.table("every-function", COLUMNS, list(rows(gen, root)))
