#!/usr/bin/env python3
"""man.py - the pages qn(3), written from the headers: one for each section of them, with its
comments, prototypes, structs and enums, and one line for each function that leads to it.

Usage: man.py OUT VERSION    writes OUT/*.3
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = ["quern.h", "quern_ops.h", "quern_ops_linalg.h", "quern_ops_nn.h", "quern_nn.h", "quern_tune.h",
           "quern_generic.h", "quern_custom.h", "quern_view.h", "quern_quant.h", "quern_archive.h", "quern_text.h",
           "quern_data.h",
           "quern_llm.h", "quern_onnx.h", "quern_export.h"]
RULE = re.compile(r"^/\* ---- (.*?) -+ \*/$", re.M)
PART = re.compile(r"^(/\*.*?\*/)$", re.M | re.S)  # a comment of its own


def escaped(text):
    """Words as roff takes them."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\`")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def paragraphs(comment):
    """The paragraphs of a comment; one that is indented is an example."""
    lines = [re.sub(r"^ ?\* ?", "", line) for line in comment[2:-2].strip().split("\n")]
    for part in re.split(r"\n\s*\n", "\n".join(lines)):
        yield [line.rstrip() for line in part.split("\n") if line.strip()]


def prose(comment):
    out = []
    for lines in paragraphs(comment):
        out.append(".PP")
        code = False
        for line in lines:
            if line.startswith("    ") != code:
                code = not code
                out.append(".nf" if code else ".fi")
            out.append(escaped(line if code else line.strip()))
        if code:
            out.append(".fi")
    return out


def declarations(code):
    """What a stretch of code declares, as it is written."""
    code = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*|^extern \"C\" \{|^\}\s*$", "", code, flags=re.M)
    code = code.replace("QN_API ", "").strip("\n")
    return [".PP", ".nf", escaped(code), ".fi"] if code.strip() else []


def sections(name):
    """(title, text) of a header's sections; what stands before the first is the header's own."""
    with open(os.path.join(ROOT, "include", name)) as f:
        text = f.read()
    text = re.sub(r"/\* (==|clang-format).*?\*/\n?", "", text)
    parts = RULE.split(text)
    yield name, parts[0]
    yield from zip(parts[1::2], parts[2::2])


def functions(text):
    bare = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.findall(r"QN_API[^;(]*?\b(qn_\w+)\(", bare) + re.findall(r"^#define (qn_\w+)\(", bare, re.M)


def page(header, title, text, version):
    """The page's name, its functions and its lines."""
    whole = title == header
    stem = header[:-2] if whole else "quern_" + re.sub(r"\W+", "_", title.lower())
    names = functions(text)
    about = f"the header {header}" if whole else title
    include = "quern.h" if header.startswith("quern_ops") else header  # which includes them all
    # The heading, on both sides of a line, is the header's name: a section's would leave no room.
    lines = [f'.TH {header[:-2].upper()} 3 "" "Quern {version}" "Library Functions"', ".SH NAME",
             ", ".join([stem] + names) + " \\- " + escaped(about), ".SH SYNOPSIS", ".nf",
             f"#include <{include}>", ".fi", ".SH DESCRIPTION"]
    for k, part in enumerate(PART.split(text)):
        lines += prose(part) if k % 2 else declarations(part)
    return stem, names, lines + [".SH SEE ALSO", ".BR quern (1),", ".BR quern (3)"]


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    out, version = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    for header in HEADERS:
        for title, text in sections(header):
            if header == "quern_generic.h" and title != header:
                continue
            stem, names, lines = page(header, title, text, version)
            with open(os.path.join(out, stem + ".3"), "w") as f:
                f.write("\n".join(lines) + "\n")
            for name in names if header != "quern_generic.h" else []:
                with open(os.path.join(out, name + ".3"), "w") as f:
                    f.write(f".so man3/{stem}.3\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
