#!/usr/bin/env python3
"""faults.py - does fuzz_parse find what readers may get wrong? Each row below is a fault: a check that
is taken out, or an end that is off by one. In a copy of the tree each is put in by itself, fuzz_parse is
built with sanitizers, and runs its kind until it has a finding.

Usage: faults.py [WORD]    Rows that have the word alone. Prints a line of a table for each, as it stands
in tests/README.md; ends with status 1 where a fault was not found. A copy of build-san is taken along,
where there is one, so that little is built: see "make faults"."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

MOST = 1000000  # inputs

# The kind that is to find it, the file, what stands there, what is put in its place, what that means.
FAULTS = [
    ("json", "src/io/json.c", "if (*out > 0xdbff || peek(r) != '\\\\') return false;",
     "if (peek(r) != '\\\\') return true;", "half a surrogate pair is a character"),
    ("json", "src/io/json.c", "length = utf8_length((const unsigned char *)r->text + at, r->size - at);",
     "length = 1;", "texts are not checked for UTF-8"),
    ("safetensors", "src/io/safetensors.c", "if ((none ? 0 : bytes) != e->end - e->begin)",
     "if ((none ? 0 : bytes) > e->end)", "a tensor's bytes may be fewer than its shape"),
    ("wisdom", "src/schedule/wisdom/text.c", "if (n > WISDOM_SEEN)", "if (n > 10 * WISDOM_SEEN)",
     "a list longer than there is room for"),
    ("options", "src/cli/options.c", "(double)number < row->lo || ", "", "a least number is not held"),
    ("grammar", "src/llm/grammar/gbnf.c", "if (++r->depth > GRAMMAR_NESTED_MOST)",
     "if (++r->depth > 1000000)", "no bound of groups in groups"),
    ("gguf", "src/archive/gguf.c", "e->bytes > f->size - from - e->at)", "e->bytes > f->size)",
     "a tensor may end past the file"),
    ("gguf", "src/archive/gguf.c", "size += n + 1; /*", "size += n; /*",
     "texts of a list without room for their zeros"),
    ("gguf", "src/archive/gguf.c", "last % q->elements || ", "", "rows that are no whole blocks"),
    ("npy", "src/archive/npy.c", "if (rank == QN_MAX_RANK) wrong(r, \"more axes", "if (0) wrong(r, \"more axes",
     "any number of axes"),
    ("npy", "src/archive/npy.c", "if (size < begin || length > size - begin || length > HEADER_MOST)",
     "if (size < begin || length > HEADER_MOST)", "a header that is longer than the file"),
    ("npz", "src/archive/npy.c", "if (e->bytes != m->size - e->at)", "if (e->bytes < m->size - e->at)",
     "an array that is longer than its member"),
    ("npz", "src/archive/zip.c", "if (at > limit || m->packed > limit - at)", "if (at > limit)",
     "a member that runs into the directory, or past the file"),
    ("npz", "src/archive/zip.c", "if (size == m->size && zip_crc(0, out, (size_t)size) != m->crc)",
     "if (size > m->size)", "check sums are not looked at, and nothing breaks: not to be found"),
    ("pt", "src/archive/pickle.c", "if (m->depth <= floor_of(m)) bad(m, \"the stack is empty\");\n"
     "    return m->stack[--m->depth];", "return m->stack[--m->depth];", "what is not on the stack is taken"),
    ("pt", "src/archive/pickle.c", "if (at >= m->memo_cap || !m->memo[at])", "if (at >= m->memo_cap)",
     "a place that nothing was put to"),
    ("pt", "src/archive/pickle.c", "(uint64_t)last >= elements || ", "", "strides past the storage"),
    ("pt", "src/archive/pickle.c", "!is_kind(size, O_LIST) ||", "", "a shape that is no list"),
    ("shards", "src/archive/safetensors.c",
     "if (!e) archive_bad(f, v->at, \"tensor \\\"%.80s\\\" is not in %.80s\", v->key, v->text);", "",
     "an index of a tensor that its shard has not"),
    ("csv", "src/data/csv.c", "if (n != v->columns)", "if (n < v->columns)",
     "lines of more cells than the first"),
    ("csv", "src/data/cells.c", "if (c->p == c->end) cells_bad(c, \"a quote that is not closed\");", "",
     "a quote that the file's end does not close"),
    ("rows", "src/data/file.c", "if (e->bytes != f->size - e->at)", "if (e->bytes < f->size - e->at)",
     "an array that is longer than its file"),
    ("rows", "src/data/file.c", "if (e->rank < 1 || e->rank > QN_MAX_RANK)", "if (e->rank < 1)",
     "any number of axes"),
    ("onnx", "src/onnx/proto.c", "if (size > (uint64_t)(p->end - p->at)) proto_bad(p, \"a field that ends past "
     "its message\");", "", "a field that ends past its message"),
    ("onnx", "src/onnx/tensor.c", "if (size != raw_size(f)) tensor_bad(f->m, f->t, \"data of another size than "
     "its shape has\");", "", "data of another size than the shape"),
    ("onnx", "src/onnx/tensor.c", "if (f->done >= f->n) tensor_bad(f->m, f->t, \"more elements than its shape "
     "has\");", "", "more numbers than the shape has"),
    ("onnx", "src/onnx/model.c", "if (t->rank == QN_MAX_RANK) proto_bad(&f->bytes, \"a tensor of more than 12 "
     "axes\");", "", "a tensor of any number of axes"),
    ("tokenizer", "src/text/load.c", "if (id < 0 || id >= limit)", "if (id >= limit)", "an id below 0"),
    ("tokenizer", "src/text/load.c",
     "if (id >= t->most) load_bad(l, NULL, \"id %d around a text, and there are %d\", id, t->most);", "(void)id;",
     "an id around a text that no token has"),
    ("tokenizer", "src/text/models.c", "if (unknown < -1 || unknown >= t->vocab.size)", "if (unknown < -1)",
     "an unknown token behind the vocabulary"),
    ("text", "src/text/pattern.c", "while (end < s.n && is_space_at(s, end, &n)) {",
     "while (is_space_at(s, end, &n)) {", "white space that ends with the text"),
    ("text", "src/text/pattern.c", "return end - at;\n}", "return end - at - (end > at + 9);\n}",
     "matches that end within a character"),
    ("text", "src/text/bpe.c", "right->size = 0;", "", "a symbol that was merged is there still"),
    ("template", "src/text/template/eval.c", "return i < 0 || i >= list.list->n ? undefined",
     "return i < 0 || i > list.list->n ? undefined", "an element one behind a list"),
    ("template", "src/text/template/eval.c", "over = a == INT64_MIN && b == -1;", "",
     "a quotient past 2^63"),
    ("template", "src/text/template/parse.c", "if (++n > ARGS_MOST)", "if (++n > 99)",
     "more arguments than there is room for"),
    ("config", "src/llm/config.c", "if (c->heads % c->kv_heads)", "if (0)", "heads that do not divide"),
    ("config", "src/llm/config.c", "|| c->chosen_count > c->experts)", ")",
     "more experts are chosen than there are"),
    ("llm", "src/llm/vocabulary.c", "if (n && n != tokens)", "if (n > tokens)",
     "fewer scores or types than tokens"),
    ("llm", "src/text/gguf.c", "if (v->unknown < 0 || v->unknown >= v->n)", "if (0)",
     "an unknown token behind the vocabulary: ids of files are checked before, not to be found"),
    ("request", "src/cli/serve/request.c", "if (p->r->stops == STOPS_MOST)", "if (p->r->stops > 99)",
     "more stops than there is room for"),
    ("request", "src/cli/serve/request.c", "!json_int(v, &id) || id < 0 || ", "!json_int(v, &id) || ",
     "a token below 0"),
    ("machine", "src/machine/machine.c", "v < f->least || ", "", "a number below its field's least"),
]


def copy_tree(tree):
    for name in ("src", "include", "models", "tests", "tools", "Makefile"):
        (shutil.copytree if os.path.isdir(name) else shutil.copy2)(name, os.path.join(tree, name))
    if os.path.isdir("build-san/src"):
        os.makedirs(f"{tree}/build-san")
        subprocess.run(["cp", "-a", "build-san/src", "build-san/models", "build-san/internal.a",
                        "build-san/sources", f"{tree}/build-san"], stderr=subprocess.DEVNULL)


def build(tree):
    out = subprocess.run(["make", "--no-print-directory", "SAN=1", "CFLAGS=-Wno-unused", "build-san/tests/fuzz_parse"],
                         cwd=tree, capture_output=True, text=True)
    if out.returncode:
        print(out.stdout[-2000:] + out.stderr[-2000:])
    return out.returncode == 0


def find(tree, kind):
    """How many inputs it takes, and how it ends; none: it was not found."""
    first = 1
    for last in (1000, 10000, 100000, MOST):
        out = subprocess.run(["build-san/tests/fuzz_parse", kind, str(first), str(last - first + 1)],
                             cwd=tree, capture_output=True, text=True, errors="replace").stdout
        match = re.search(rf"^{kind} (\d+) ends by", out, re.M)
        if match:
            return int(match.group(1))
        first = last + 1
    return None


def main():
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    missed = 0
    with tempfile.TemporaryDirectory() as tree:
        copy_tree(tree)
        for kind, path, old, new, what in FAULTS:
            if word not in f"{kind} {path} {what}":
                continue
            full = os.path.join(tree, path)
            with open(full, encoding="utf-8") as file:
                text = file.read()
            if text.count(old) != 1:
                print(f"{path}: {text.count(old)} times: {old}")
                missed += 1
                continue
            with open(full, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
            found = find(tree, kind) if build(tree) else None
            missed += found is None
            print(f"| {kind} | `{path}` | {what} | {found or 'not found'} |", flush=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
    return 1 if missed else 0


sys.exit(main())
