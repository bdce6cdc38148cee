#!/usr/bin/env python3
"""gen.py - writes what C cannot include, from the tables ops.h, funcs.h and knobs.h.

Usage: gen.py [--check] [--force] [--accept] [NAME...]

Generated are regions of ordinary files, and they are committed. What lies in include/quern_ops.h between
the lines "== generated .. ==" and "== end .. ==", the prototypes by section, belongs to the tables as a
whole, and so do the macros of include/quern_generic.h: a run writes it anew, --check compares. Its
words and parameters are all columns of the tables; quern_ops_linalg.h and quern_ops_nn.h have the sections that
HEADER_OF names. The tables of src/record follow from the headers (calls.py), and what the Python package has
(gen_python.py).

The bodies of src/func/api.c that only name a row, and the tables of docs/ops.md and docs/knobs.md, are
regions of their own, one for each row. A region is a comment holding a marker
    [gen NAME INPUT OUTPUT]
with checksums of the row it came from and of the text it was given, and all lines from there to
the next blank line, comment in the first column, or end. So everything else in these files may be
written by hand, and so may the regions: one whose text no longer has its checksum was edited, is
kept as it is, and is reported. Regions in a file keep their place; a new one goes behind the one of
the row before it.

  --check    change nothing; end with status 1 if a run would change anything, or if a region was
             edited and not accepted
  --force    write edited regions (all, or those named) anew
  --accept   take edited regions (all, or those named) as they are: they stay, and are reported only
             when their row changes
"""

import hashlib
import os
import re
import sys

sys.dont_write_bytecode = True
import calls  # noqa: E402
import gen_facts  # noqa: E402
import gen_layers  # noqa: E402
import gen_python  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COLUMNS = 100
MARKER = re.compile(r"\[gen (\S+) ([0-9a-f]{8}) ([0-9a-f]{8})( kept)?\]")
OPEN = ("/*", "<!--")


def checksum(text):
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# ---- reading tables ------------------------------------------------------------------------------


def strip_comments(text):
    """The text with comments blanked, strings left alone."""
    token = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/', re.S)
    return token.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)


def arguments(text, start):
    """The top-level arguments of the parenthesis at `start`, and where it ends."""
    depth, args, begin, i = 0, [], start + 1, start
    while True:
        c = text[i]
        if c == '"':
            i = re.compile(r'"(?:\\.|[^"\\])*"').match(text, i).end()
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                args.append(text[begin:i].strip())
                return args, i + 1
        elif c == "," and depth == 1:
            args.append(text[begin:i].strip())
            begin = i + 1
        i += 1


def literal(text):
    """The value of adjacent C string literals."""
    return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text)).replace('\\"', '"')


def rows(path):
    """(heading, arguments) of every X(...) row; the heading is the last comment before."""
    with open(os.path.join(ROOT, path)) as f:
        source = f.read()
    text, found, heading = strip_comments(source), [], ""
    for match in re.finditer(r"^X\(|^/\* (.*?) \*/$", source, re.M | re.S):
        if match[1]:
            heading = re.sub(r"\s*\n \* ", " ", match[1])
        elif text[match.start()] == "X":
            found.append((heading, arguments(text, match.end() - 1)[0]))
    return found


# ---- what a row becomes --------------------------------------------------------------------------


def wrapped(words, width, first, rest):
    lines, line = [], first
    for word in words:
        if len(line) + len(word) + (not line.endswith(" ")) > width:
            lines.append(line.rstrip())
            line = rest
        line += ("" if line.endswith(" ") else " ") + word
    return lines + [line.rstrip()]


def comment(doc):
    return "\n".join(wrapped(doc.split() + ["*/"], COLUMNS, "/*", " *"))


def prototype(result, name, params, begin="QN_API ", end=";"):
    """`result name(params)`, wrapped as clang-format does."""
    head = f"{begin}{result}{name}("
    lines, line = [], head
    for i, param in enumerate(params):
        text = param + ("," if i + 1 < len(params) else ")" + end)
        if len(line) + len(text) + (line != head) > COLUMNS and line.strip() != "":
            lines.append(line.rstrip())
            line = " " * len(head)
        line += ("" if line == head or line.strip() == "" else " ") + text
    return "\n".join(lines + [line])


class Op:
    """A row of ops.h that has a public function of its own form."""

    def __init__(self, args):
        self.row = args
        self.enum, self.name, self.arity = args[0], literal(args[1]), int(args[2])
        self.class_, self.types, self.doc = args[3], args[4], literal(args[13])
        self.public = args[11:13] != ["0", "0"]  # of marks

    def functions(self):
        """(name, parameters, body) of each."""
        if self.name in ("cast", "bitcast"):
            return []
        if self.class_ == "ELEM":
            names = {1: ["x"], 2: ["x", "y"], 3: ["x", "y", "z"]}[self.arity]
            params = [f"qn_tensor *{n}" for n in names]
            if self.arity == 1:
                return [(self.name, params, f"build_elem(OP_{self.enum}, 1, &x)")]
            array = f"(qn_tensor *const[]){{{', '.join(names)}}}"
            return [(self.name, params, f"build_elem(OP_{self.enum}, {self.arity}, {array})")]
        if self.class_ == "MARK":
            return [(self.name, ["qn_tensor *x"], f"build_mark(OP_{self.enum}, x)")] if self.public else []
        if self.class_ == "REDUCE" and self.arity == 1:
            one = (self.name, ["qn_tensor *x", "int axis", "bool keepdims"],
                   f"func_reduce(OP_{self.enum}, x, axis, keepdims)")
            several = (self.name + "_axes",
                       ["qn_tensor *x", "int n", "const int *axes", "bool keepdims"],
                       f"func_reduce_axes(OP_{self.enum}, x, n, axes, keepdims)")
            return [one, several]
        return []


def regions_of_ops():
    for _, args in rows("src/graph/ops.h"):
        op = Op(args)
        for name, params, body in op.functions():
            doc = op.doc if not name.endswith("_axes") else f"as {op.name}, over n axes"
            yield name, ", ".join(args[:7] + args[10:]), params, doc, body


def funcs():
    for heading, (kind, name, params, oracle, lo, hi, doc) in rows("src/func/funcs.h"):
        yield heading, kind, name, [p.strip() for p in params[1:-1].split(",")], literal(doc)


# The sections of the headers: heading of funcs.h, whether a row of ops.h belongs there. HEADER_OF says in
# which header, quern_ops_NAME.h, those are that are not in quern_ops.h.
SECTIONS = [("making", lambda op: False), ("converting", lambda op: False),
            ("elementwise, one argument", lambda op: op.class_ == "ELEM" and op.arity == 1),
            ("elementwise, two arguments and more", lambda op: op.class_ == "ELEM" and op.arity > 1),
            ("reductions", lambda op: op.class_ == "REDUCE"), ("scans", lambda op: False),
            ("movement", lambda op: False),
            ("joining and splitting", lambda op: False), ("computed indices", lambda op: False),
            ("sorting", lambda op: False), ("linear algebra", lambda op: False),
            ("Fourier transforms", lambda op: False),
            ("products", lambda op: False), ("convolution and pooling", lambda op: False),
            ("neural networks", lambda op: False), ("random numbers", lambda op: False),
            ("marks", lambda op: op.class_ == "MARK")]
HEADER_OF = {"linear algebra": "linalg", "Fourier transforms": "linalg", "products": "linalg",
             "convolution and pooling": "nn", "neural networks": "nn", "random numbers": "nn"}
TAKES = {"FLOAT": "floats; integers and bools as f32", "NUM": "integers and floats", "INT": "integers",
         "BITS": "bools and integers", "ANY": "any dtype", "CMP": "any dtypes; gives bool",
         "SELECT": "any dtypes", "TO": "any dtype; gives i64"}


def header(which):
    """The lines of a header's generated part."""
    composed = list(funcs())
    unknown = {h.split(":")[0] for h, *_ in composed} - {title for title, _ in SECTIONS}
    if unknown:
        sys.exit(f"gen: no section of the header is called {sorted(unknown)}")
    for title, has in SECTIONS:
        if HEADER_OF.get(title) != which:
            continue
        heading = next((h for h, *_ in composed if h.split(":")[0] == title), title)
        yield ""
        yield f"/* ---- operations: {title} ".ljust(94, "-") + " */"
        yield ""
        if ": " in heading:
            yield comment(heading.split(": ", 1)[1][0].upper() + heading.split(": ", 1)[1][1:] + ".")
            yield ""
        for op in (Op(args) for _, args in rows("src/graph/ops.h")):
            for name, params, _ in op.functions() if has(op) else []:
                axes = name != op.name
                yield comment(f"as {op.name}, over n axes" if axes else f"{op.doc} ({TAKES[op.types]})")
                yield prototype("qn_tensor *", "qn_" + name, params)
        for h, kind, name, params, doc in composed:
            if h.split(":")[0] == title:
                yield comment(doc)
                yield prototype("qn_code " if kind == "STATUS" else "qn_tensor *", "qn_" + name, params)


def generic():
    """The lines of quern_generic.h: functions of tensors whose places numbers may take."""
    elementwise = [(name, params) for op in (Op(args) for _, args in rows("src/graph/ops.h"))
                   if op.class_ == "ELEM" and op.arity > 1 for name, params, _ in op.functions()]
    elementwise += [(name, params) for h, _, name, params, doc in funcs()
                    if h.startswith("elementwise, two") and "may be NULL" not in doc
                    and all(p.startswith("qn_tensor *") for p in params)]
    yield ""
    for name, params in elementwise:
        names = [p.split("*")[1] for p in params]
        first = {2: "", 3: "true, " if name == "where" else "false, "}[len(names)]
        operands = ", ".join(f"QN_OPERAND({n})" for n in names)
        head, body = f"#define qn_{name}({', '.join(names)})", f"qn_apply{len(names)}(qn_{name}, {first}{operands})"
        yield f"{head} {body}"


def wrappers():
    for name, row, params, _, body in regions_of_ops():
        head = prototype("qn_tensor *", "qn_" + name, params, begin="", end=" {")
        yield name, row, f"/* [gen {name} 00000000 00000000] */\n{head}\n    return {body};\n}}"


def table(name, columns, lines):
    cells = [columns, ["---"] * len(columns)] + lines
    text = "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in cells)
    return name, text, f"<!-- [gen {name} 00000000 00000000] -->\n{text}"


def formula(text):
    return "" if text == "-" else f"`{' '.join(text.split())}`"


def ops_tables():
    groups = {}
    for _, args in rows("src/graph/ops.h"):
        op = Op(args)
        grad = "" if args[10] == "NONE" else "yes"
        groups.setdefault(op.class_, []).append(
            [f"`{op.name}`", op.types.lower(), formula(args[5]), formula(args[6]), grad, op.doc])
    columns = ["operation", "types", "floats", "integers", "gradient", ""]
    for class_, lines in groups.items():
        yield table(class_.lower(), columns, lines)
    groups = {}
    for heading, kind, name, params, doc in funcs():
        call = f"`qn_{name}({', '.join(re.split(r'[ *]', p)[-1] for p in params)})`"
        groups.setdefault(heading, []).append([call, doc])
    for heading, lines in groups.items():
        group, _, common = heading.partition(": ")
        yield table(group.replace(", ", "-").replace(" ", "-"), ["function", common], lines)
    yield gen_facts.table(sys.modules[__name__], ROOT)


def knobs_table():
    when = {"ANY": "any time", "OPEN": "before"}
    lines = [[f"`QN_{a[0]}`", a[2].lower(), when[a[3]],
              f"`{literal(a[4])}`" if literal(a[4]) else "", literal(a[5])]
             for _, a in rows("src/base/knobs.h")]
    yield table("knobs", ["variable", "kind", "set", "default", ""], lines)


WHOLE = [("include/quern_ops.h", lambda: header(None)),
         ("include/quern_ops_linalg.h", lambda: header("linalg")), ("include/quern_ops_nn.h", lambda: header("nn")),
         ("include/quern_generic.h", generic),
         ("src/record/calls.h", lambda: calls.calls(ROOT)), ("src/record/inside.h", lambda: calls.inside(ROOT)),
         ("src/record/signatures.h", lambda: calls.signatures(ROOT)), ("src/record/stubs.h", lambda: calls.stubs(ROOT)),
         ("src/record/structs.h", lambda: calls.fields(ROOT))]


def of_python(make):
    return make(sys.modules[__name__], gen_python.Reader(sys.modules[__name__], ROOT))


WHOLE += [("python/src/calls.h", lambda: of_python(gen_python.rows)),
          ("python/src/docs.h", lambda: of_python(gen_python.docs)),
          ("python/quern/_core.pyi", lambda: of_python(gen_python.stubs)),
          ("python/quern/nn/layers.pyi", lambda: gen_layers.stubs(sys.modules[__name__]))]


def python_tables():
    yield from of_python(gen_python.table)


OUTPUTS = [("src/func/api.c", wrappers), ("docs/ops.md", ops_tables), ("docs/knobs.md", knobs_table),
           ("docs/python.md", python_tables), ("docs/layers.md", lambda: gen_layers.table(sys.modules[__name__]))]

# ---- regions -------------------------------------------------------------------------------------


class Region:
    """Lines [begin, end) of a file."""

    def __init__(self, lines, begin, end):
        self.begin, self.end = begin, end
        self.text = "\n".join(lines[begin:end])
        match = MARKER.search(self.text)
        self.name, self.input, self.output = match[1], match[2], match[3]
        self.kept = bool(match[4])
        self.edited = checksum(bare(self.text)) != self.output


def bare(text):
    """What the output checksum is taken of: the words, without the marker."""
    return " ".join(MARKER.sub("", text).split())


def find_regions(lines):
    found, i = {}, 0
    while i < len(lines):
        if not lines[i].startswith(OPEN):
            i += 1
            continue
        close = i
        while close < len(lines) and "*/" not in lines[close] and "-->" not in lines[close]:
            close += 1
        end = close + 1
        if MARKER.search("\n".join(lines[i:end])):
            while end < len(lines) and lines[end] and not lines[end].startswith(OPEN):
                end += 1
            region = Region(lines, i, end)
            found[region.name] = region
        i = end
    return found


def marked(text, name, row, kept=False):
    marker = f"[gen {name} {checksum(row)} {checksum(bare(text))}{' kept' if kept else ''}]"
    return MARKER.sub(marker, text)


class Run:
    def __init__(self, options, names):
        self.options, self.names = options, names
        self.changed, self.reported = [], []

    def chosen(self, name, option):
        return option in self.options and (not self.names or name in self.names)

    def replacement(self, path, old, name, row, text):
        """What an existing region becomes, or None to leave it."""
        fresh = old.input == checksum(row)
        if self.chosen(name, "--force") and (old.edited or old.kept):
            return marked(text, name, row)
        if self.chosen(name, "--accept") and (old.edited or (old.kept and not fresh)):
            return marked(old.text, name, row, kept=True)
        if old.edited or (old.kept and not fresh):
            why = "edited by hand" if old.edited else "kept as edited, but its row changed"
            self.reported.append(f"{path}:{old.begin + 1}: {name}: {why}")
            return None
        if old.kept:
            return None
        new = marked(text, name, row)
        return new if new != old.text else None

    def whole(self, path, text):
        """What is between the lines that say generated and end."""
        with open(os.path.join(ROOT, path)) as f:
            old = f.read()
        first, last = re.search(r"^.*== generated .* ==.*\n", old, re.M), re.search(r"^.*== end .* ==", old, re.M)
        if not first or not last:
            sys.exit(f"gen: {path}: no generated part")
        new = old[:first.end()] + text + old[last.start():]
        if new != old:
            at = next(i for i, (a, b) in enumerate(zip(old.split("\n"), new.split("\n"))) if a != b)
            self.changed.append(f"{path}:{at + 1}: {old.splitlines()[at].strip()}")
            if "--check" not in self.options:
                with open(os.path.join(ROOT, path), "w") as f:
                    f.write(new)

    def file(self, path, wanted):
        with open(os.path.join(ROOT, path)) as f:
            lines = f.read().split("\n")
        previous = None
        for name, row, text in wanted:
            old = find_regions(lines).get(name)
            if old:
                new = self.replacement(path, old, name, row, text)
                if new is not None:
                    lines[old.begin:old.end] = new.split("\n")
                    self.changed.append(f"{path}: {name}")
            else:
                lines = self.insert(lines, previous, marked(text, name, row))
                self.changed.append(f"{path}: {name} (new)")
            previous = name
        self.remove(path, lines, {name for name, _, _ in wanted})
        if "--check" not in self.options:
            with open(os.path.join(ROOT, path), "w") as f:
                f.write("\n".join(lines))

    @staticmethod
    def insert(lines, previous, text):
        """Behind the region before it, else behind the line that says generated."""
        regions = find_regions(lines)
        if previous in regions:
            at = regions[previous].end
        else:
            at = next(i for i, line in enumerate(lines) if "== generated" in line) + 2
        apart = text.split("\n")[-1] == "}" or text.startswith("<!--")
        return lines[:at] + ([""] if apart and previous in regions else []) + text.split("\n") + \
            ([""] if apart and previous not in regions else []) + lines[at:]

    def remove(self, path, lines, names):
        for region in sorted(find_regions(lines).values(), key=lambda r: -r.begin):
            if region.name in names:
                continue
            if (region.edited or region.kept) and not self.chosen(region.name, "--force"):
                self.reported.append(f"{path}:{region.begin + 1}: {region.name}: edited, and its "
                                     "row is gone")
                continue
            del lines[region.begin:region.end]
            self.changed.append(f"{path}: {region.name} (gone)")


def main():
    options = {a for a in sys.argv[1:] if a.startswith("-")}
    if options - {"--check", "--force", "--accept"}:
        print(__doc__)
        return 2
    run = Run(options, [a for a in sys.argv[1:] if not a.startswith("-")])
    for path, make in WHOLE:
        run.whole(path, "\n".join(make()) + "\n\n")
    for path, make in OUTPUTS:
        run.file(path, list(make()))
    for line in run.reported + run.changed:
        print(line)
    checking = "--check" in options
    print(f"gen: {len(run.changed)} regions {'out of date' if checking else 'written'}, "
          f"{len(run.reported)} left as edited")
    return int(checking and bool(run.changed or run.reported))


if __name__ == "__main__":
    sys.exit(main())
