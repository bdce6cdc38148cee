#!/usr/bin/env python3
"""schemas.py - JSON schemas of Quern against the package `jsonschema`.

Usage: schemas.py [--number N] [--seed N]

Random schemas, and for each random values that are nearly valid. What Quern takes must be valid by
jsonschema; what is valid must be taken, written without white space, as json.dumps does it, and on
lines with indents, where it is in the form of docs/llm.md: members in the order of `properties`. The
last line is `N passed, N failed`. Needs the Python package built in its place (make python).
"""

import argparse
import json
import os
import random
import sys
import tempfile

import jsonschema

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

import quern as qn  # noqa: E402
from tests import tiny_llm as tiny  # noqa: E402

NAMES = ["a", "ab", "b", "c\"\\", "d\u00e9"]  # sorted, and before those of others
OTHERS = ["x", "x1", "y\u00fc"]
LETTERS = "ab1 \u00e9\U0001F600\"\\\n\u0001/"
PATTERNS = ["^a+b?$", "b", "^[a-c]{2,3}", "(a|\u00e9)1$", "^\\d+(\\.\\d{1,2})?$", "^(?:x|[a-z_\\d]+)$", "^[^a\"]*$",
            "\\S\\\\"]
LIMITS = ["may be of both", "no number is within", "comes to no end", "begins with itself", "none of its values",
          " at least, and "]
LIKELIEST = (0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)
SAMPLES = ["a", "aab", "b", "bb", "abc", "a1", "\u00e91", "12.5", "1.", "x", "", "\"", "a_9", "b\\", "\u00e9\\", "1234"]


class Maker:
    """Schemas, and values for them."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.defs = {}

    def number(self):
        return self.r.choice([0, 1, -1, 2, 7, 10, 99, 100, -12, 120, 0.5, -0.25, 1.5, 2.75, 10.01, -9.99, 1e3])

    def string(self):
        return "".join(self.r.choice(LETTERS) for _ in range(self.r.randrange(5)))

    def value(self, depth=0):
        kind = self.r.randrange(7 if depth < 2 else 5)
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.r.randrange(3))]
        if kind == 6:
            return {name: self.value(depth + 1) for name in sorted(self.r.sample(NAMES + OTHERS, self.r.randrange(3)))}
        return [None, self.r.random() < 0.5, self.number(), self.string(), int(self.number())][kind]

    def bounds(self):
        s = {}
        for low, high in (("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")):
            if self.r.random() < 0.3:
                s[low] = self.number()
            if self.r.random() < 0.3:
                s[high] = self.number()
        return s

    def object(self, depth):
        s = {"type": "object"}
        names = sorted(self.r.sample(NAMES, self.r.randrange(len(NAMES) + 1)))
        if names or self.r.random() < 0.5:
            s["properties"] = {name: self.schema(depth + 1) for name in names}
        s["required"] = [name for name in names if self.r.random() < 0.4]
        s["additionalProperties"] = self.r.choice([True, False, False, self.schema(depth + 2)])
        if s["additionalProperties"] is not False and self.r.random() < 0.3:
            s["required"].append("r")
        return s

    def array(self, depth):
        s = {"type": "array"}
        if self.r.random() < 0.7:
            s["items"] = self.schema(depth + 1)
        if self.r.random() < 0.3:
            s["prefixItems"] = [self.schema(depth + 1) for _ in range(self.r.randrange(1, 3))]
            if self.r.random() < 0.3:
                s["items"] = False
        if self.r.random() < 0.4:
            s["minItems"] = self.r.randrange(3)
        if self.r.random() < 0.4:
            s["maxItems"] = s.get("minItems", 0) + self.r.randrange(3)
        return s

    def text(self):
        s = {"type": "string"}
        if self.r.random() < 0.3:
            s["pattern"] = self.r.choice(PATTERNS)
        else:
            s |= {"minLength": self.r.randrange(3)} if self.r.random() < 0.5 else {}
            s |= {"maxLength": s.get("minLength", 0) + self.r.randrange(4)} if self.r.random() < 0.5 else {}
        return s

    def schema(self, depth=0):
        kind = self.r.randrange(12 if depth < 3 else 7)
        if kind < 3:
            return {"type": ["integer", "number", "number"][kind], **self.bounds()}
        if kind < 5:
            return self.text()
        if kind == 5:
            return self.r.choice([{"enum": [self.value(1) for _ in range(3)]}, {"const": self.value(1)},
                                  {"type": ["null", "boolean"]}, {"minLength": 2, "maximum": 3}, True, {}])
        if kind == 6:
            if self.defs and self.r.random() < 0.7:
                return {"$ref": "#/$defs/" + self.r.choice(list(self.defs))}
            return {"type": self.r.choice(["null", "boolean", "string", "integer", "object", "array"])}
        if kind < 9:
            return self.object(depth)
        if kind == 9:
            return self.array(depth)
        if kind == 10:
            return {self.r.choice(["anyOf", "anyOf", "oneOf"]): [self.schema(depth + 1) for _ in range(2)]}
        return {"allOf": [self.object(depth + 1), {"description": "more"}]}

    def near(self, s, depth=0):
        """A value that a schema may well hold."""
        if s is True or s == {} or depth > 6 or self.r.random() < 0.06:
            return self.value(1)
        if "$ref" in s:
            return self.near(self.defs[s["$ref"].rsplit("/", 1)[1]], depth + 1)
        for word in ("anyOf", "oneOf", "allOf"):
            if word in s:
                return self.near(self.r.choice(s[word]) if word != "allOf" else s[word][0], depth + 1)
        if "enum" in s:
            return self.r.choice(s["enum"])
        if "const" in s:
            return s["const"]
        kind = s.get("type", "string")
        kind = self.r.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            out = {name: self.near(p, depth + 1) for name, p in s.get("properties", {}).items()
                   if self.r.random() < (0.9 if name in s.get("required", ()) else 0.5)}
            more = s.get("additionalProperties", True)
            others = (["r"] if self.r.random() < 0.7 else []) if "r" in s.get("required", ()) else []
            if self.r.random() < 0.3:
                others += sorted(self.r.sample(OTHERS, self.r.randrange(1, 3)))
            for name in others:
                out[name] = self.near(more, depth + 1) if more else self.value(1)
            return out
        if kind == "array":
            first = s.get("prefixItems", [])
            n = max(s.get("minItems", 0) + self.r.randrange(-1, 3), 0)
            rest = s.get("items", True) or True
            return [self.near(first[i] if i < len(first) else rest, depth + 1) for i in range(n)]
        if kind == "string":
            return self.r.choice(SAMPLES) if "pattern" in s else self.string()
        if kind in ("integer", "number"):
            edge = [s[k] for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if k in s]
            x = self.r.choice(edge) if edge and self.r.random() < 0.5 else self.number()
            x = x + self.r.choice([0, 0, 1, -1, 0.5, -0.25, 0.01])
            return int(x) if kind == "integer" or x == int(x) else round(x, 4)
        return {"null": None, "boolean": self.r.random() < 0.5}[kind]


def in_form(value):
    """Whole numbers have no fraction, and those with one no exponent."""
    if isinstance(value, float):
        return value != int(value) and "e" not in repr(value)
    if isinstance(value, (list, dict)):
        return all(map(in_form, value.values() if isinstance(value, dict) else value))
    return True


class Taker:
    """Is a text taken? It is put into a list, behind whose end nothing may follow."""

    def __init__(self, model):
        self.native = model._native
        self.tokenizer = model.tokenizer

    def takes(self, schema, text):
        ids = qn.llm.ids_of([70, *text.encode()])
        try:
            new, _ = self.native.step(ids, 1, False, False, None, schema, len(ids) - 1, LIKELIEST)
        except ValueError as e:
            if "does not fit" in str(e):
                return False
            raise
        if new:
            raise AssertionError(f"{text} may go on in {schema}")
        return True


def known_limit(error):
    return any(part in error for part in LIMITS)


def compare(taker, seed):
    """How many texts, and how many were valid; a failure as a text."""
    maker = Maker(seed)
    for name in ("p", "q"):
        maker.defs[name] = maker.schema(1)
    inner = maker.schema()
    whole = {"type": "array", "prefixItems": [inner], "items": False, "minItems": 1, "$defs": maker.defs}
    validator = jsonschema.Draft202012Validator(whole)
    text, texts, valid = json.dumps(whole), 0, 0
    for _ in range(20):
        value = [maker.near(inner)]
        good = validator.is_valid(value)
        for layout in ({"separators": (",", ":")}, {}, {"indent": 2}):
            written = json.dumps(value, ensure_ascii=False, **layout)
            try:
                taken = taker.takes(text, written)
            except ValueError as e:
                return texts, valid, None if known_limit(str(e)) else f"{e}\n{text}"
            texts += 1
            valid += good
            if taken != good and (taken or in_form(value)):
                return texts, valid, f"{'takes' if taken else 'refuses'} {written}\n{text}"
    return texts, valid, None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--number", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    o = p.parse_args()
    texts = valid = failed = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tiny.gguf")
        tiny.gguf(path, tiny.make())
        with qn.llm.open(path, context=4096) as m:
            for seed in range(o.seed, o.seed + o.number):
                n, good, fault = compare(Taker(m), seed)
                texts, valid, compared = texts + n, valid + good, compared + (n > 0)
                if fault:
                    failed += 1
                    print(f"seed {seed}: {fault}")
    print(f"{compared} schemas, {texts} texts, {valid} of them valid")
    print(f"{o.number - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
