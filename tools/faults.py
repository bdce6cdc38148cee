#!/usr/bin/env python3
"""faults.py - does fuzz_parse find what readers may get wrong? Each row below is a fault: a check that
is taken out, or an end that is off by one. Each is put into a copy of its file by itself, fuzz_parse is
linked with that file in place of the library's, and runs its kind until it has a finding.

Usage: faults.py [WORD..]    Rows that have one of the words alone. build-san/internal.a is to be there (`make
faults` sees to it). Prints a row of the table in tests/README.md for each; ends with status 1 where a
fault was not found."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

BUILD = "build-san"
MOST = 200000  # inputs
FAST = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []

# The kind that is to find it, the file, what stands there, what is put in its place, what that means.
FAULTS = [
    ("json", "src/io/json.c", "if (*out > 0xdbff || peek(r) != '\\\\') return false;",
     "if (peek(r) != '\\\\') return true;", "half a surrogate pair is a character"),
    ("json", "src/io/json.c", "length = utf8_length((const unsigned char *)r->text + at, r->size - at);",
     "length = 1;", "texts are not checked for UTF-8"),
    ("safetensors", "src/io/safetensors.c", "if (!json_int(dim, &e->shape[i]) || e->shape[i] < 0)",
     "if (!json_int(dim, &e->shape[i]))", "a size below 0"),
    ("wisdom", "src/schedule/wisdom/text.c", "if (!end || n >= LINE ||", "if (!end ||",
     "a line of any length"),
    ("options", "src/cli/options.c", "(double)number < row->lo || ", "", "a least number is not held"),
    ("gguf", "src/archive/gguf.c", "e->bytes > f->size - from - e->at)", "e->bytes > f->size)",
     "a tensor may end past the file"),
    ("gguf", "src/archive/gguf.c", "start[1] = size + 1;", "start[1] = size + 2;",
     "a text that is one longer than it is"),
    ("npy", "src/archive/npy.c", "if (rank == QN_MAX_RANK) wrong(r, \"more axes", "if (0) wrong(r, \"more axes",
     "any number of axes"),
    ("npy", "src/archive/npy.c", "if (size < begin || length > size - begin || length > HEADER_MOST)",
     "if (size < begin || length > HEADER_MOST)", "a header that is longer than the file"),
    ("npz", "src/archive/npy.c", "if (e->bytes != m->size - e->at)", "if (e->bytes < m->size - e->at)",
     "an array that is longer than its member"),
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
    ("onnx", "src/onnx/proto.c", "if (size > (uint64_t)(p->end - p->at)) proto_bad(p, \"a field that ends past "
     "its message\");", "", "a field that ends past its message"),
    ("onnx", "src/onnx/tensor.c", "if (size != raw_size(f)) tensor_bad(f->m, f->t, \"data of another size than "
     "its shape has\");", "", "data of another size than the shape"),
    ("onnx", "src/onnx/tensor.c", "if (f->done >= f->n) tensor_bad(f->m, f->t, \"more elements than its shape "
     "has\");", "", "more numbers than the shape has"),
    ("onnx", "src/onnx/model.c", "if (dims[i] < 0) proto_bad(&f->bytes, \"a tensor's size below 0\");", "",
     "a tensor's size below 0"),
    ("tokenizer", "src/text/load.c", "if (id < 0 || id >= limit)", "if (id >= limit)", "an id below 0"),
    ("tokenizer", "src/text/load.c",
     "if (id >= t->most) load_bad(l, NULL, \"id %d around a text, and there are %d\", id, t->most);", "(void)id;",
     "an id around a text that no token has"),
    ("tokenizer", "src/text/models.c", "if (unknown < -1 || unknown >= t->vocab.size)", "if (unknown < -1)",
     "an unknown token behind the vocabulary"),
    ("text", "src/text/pattern.c", "while (end < s.n && is_space_at(s, end, &n)) {",
     "while (is_space_at(s, end, &n)) {", "white space that ends with the text"),
    ("text", "src/text/bpe.c", "right->size = 0;", "", "a symbol that was merged is there still"),
    ("template", "src/text/template/value.c", "            n = utf8_length_at(v.s.s + at);\n", "            n = 1;\n",
     "the characters of a text are its bytes"),
    ("template", "src/text/template/methods.c", "while (right && s.n && stripped(", "while (right && stripped(",
     "white space is stripped off nothing"),
    ("template", "src/text/template/parse.c", "if (++n > ARGS_MOST)", "if (++n > 99)",
     "more arguments than there is room for"),
    ("config", "src/llm/config.c", "if (c->heads % c->kv_heads)", "if (0)", "heads that do not divide"),
    ("config", "src/llm/config.c", "|| c->chosen_count > c->experts)", ")",
     "more experts are chosen than there are"),
    ("llm", "src/llm/vocabulary.c", "if (n && n != tokens)", "if (n > tokens)",
     "fewer scores or types than tokens"),
    ("request", "src/cli/serve/request.c", "if (one->kind == JSON_STRING && one->text_size == 0)", "if (0)",
     "an empty stop"),
    ("request", "src/cli/serve/request.c", "!json_int(v, &id) || id < 0 || ", "!json_int(v, &id) || ",
     "a token below 0"),
    ("machine", "src/machine/machine.c", "v < f->least || ", "", "a number below its field's least"),
]


def command_of(target, source):
    """How make compiles a source into a target, as words."""
    out = subprocess.run(["make", "-n", "-W", source, "SAN=1", target], capture_output=True, text=True).stdout
    line = next(x for x in out.replace("\\\n", " ").split("\n") if f" {source} " in x and ";" in x)
    return shlex.split(line.split(";", 1)[1])


def run(words):
    out = subprocess.run(words, capture_output=True, text=True)
    if out.returncode:
        print(out.stderr[-3000:])
    return out.returncode == 0


def build(folder, path, text):
    """fuzz_parse of the faulty file, which is linked before the library that has the right one."""
    main, faulty = "tests/ir/fuzz_parse.c", os.path.join(folder, path)
    os.makedirs(os.path.dirname(faulty), exist_ok=True)
    with open(faulty, "w", encoding="utf-8") as file:
        file.write(text)
    words = command_of(f"{BUILD}/tests/fuzz_parse", main)
    at = words.index(main)
    flags = [w for w in words[:at] if w not in ("-MMD", "-MP", "-MT", "-MF") and not w.endswith("fuzz_parse.d")
             and not w.endswith("tests/fuzz_parse")]
    included = path == "src/cli/options.c"  # the fuzzer includes it
    object_ = os.path.join(folder, "options.o" if included else "fuzz_parse.o")
    if included or not os.path.exists(object_):
        before = [f"-I{folder}/src"] if included else []
        if not run([flags[0], *before, *flags[1:], "-c", main, "-o", object_]):
            return False
    objects = [object_]
    if not included:
        words_ = command_of(f"{BUILD}/{path[:-2]}.o", path)
        mine = [w for w in words_[:words_.index("-MMD")]] + ["-Wno-error", "-c", faulty, "-o", faulty[:-2] + ".o"]
        if not run(mine):
            return False
        objects.append(faulty[:-2] + ".o")
    return run([*flags, *FAST, *objects, *words[at + 3:], "-o", os.path.join(folder, "fuzz_parse")])


def find(folder, kind):
    """How many inputs it takes, and how it ends; none: it was not found."""
    first = 1
    for last in (1000, 20000, MOST):
        out = subprocess.run([os.path.join(folder, "fuzz_parse"), kind, str(first), str(last - first + 1)],
                             capture_output=True, text=True, errors="replace").stdout
        match = re.search(rf"^{kind} (\d+) ends by", out, re.M)
        if match:
            return int(match.group(1))
        first = last + 1
    return None


def main():
    words = sys.argv[1:] or [""]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, path, old, new, what in FAULTS:
            if not any(word in f"{kind} {path} {what}" for word in words):
                continue
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if text.count(old) != 1:
                print(f"{path}: {text.count(old)} times: {old}")
                missed += 1
                continue
            found = find(folder, kind) if build(folder, path, text.replace(old, new)) else None
            missed += found is None
            print(f"| {kind} | `{path}` | {what} | {found or 'not found'} |", flush=True)
    return 1 if missed else 0


sys.exit(main())
