#!/usr/bin/env python3
"""characters.py - every character through every step of Quern's tokenizers and of the package `tokenizers`.

Usage: characters.py --library FILE [--step NAME] [--every N]

A step is a normalizer, a splitter, or a kind of added token; beside it stands a model whose tokens
are the single bytes, those that begin a word apart from those that continue one. So ids are the
normalised text and where it was cut. Each character of Unicode, those that nobody has assigned yet,
too, goes through each step beside letters, digits, spaces, signs and marks. A part of a text that comes
out otherwise is made smaller and printed. The last line is `N passed, N failed`, of steps.
"""

import argparse
import json
import os
import sys

import tokenizers
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers

import tokens

# All that is assigned, or will be soon; of the planes behind, which are empty or private, some.
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and (c < 0x34000 or c >> 12 == 0xE0 or c % 97 == 0)]
MARKS = "{0}\u0301 a{0}\u0327\u0301 \u0301{0} \u0328{0}\u0301{0} {0}{0} A{0}B "  # what forms and cases look at
WORDS = "a{0}a 1{0}1 .{0}. {0} {0}{0}\n{0}'s\u4e2d{0}\u0301{0} B{0}b "           # what splitters look at
ADDED = "{0}word word{0} a{0}<x>{0}b {0} <x> {0} <y>{0} "
BYTES = {c: chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256)]}
BYTES.update({c: chr(256 + i) for i, c in enumerate(c for c in range(256) if c not in BYTES)})


def bert(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **options})


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


# name: text around the character, normalizer, splitter
STEPS = {
    "nfc": (MARKS, normalizers.NFC(), None),
    "nfd": (MARKS, normalizers.NFD(), None),
    "nfkc": (MARKS, normalizers.NFKC(), None),
    "nfkd": (MARKS, normalizers.NFKD(), None),
    "lowercase": (MARKS, normalizers.Lowercase(), None),
    "strip-accents": (MARKS, normalizers.StripAccents(), None),
    "strip": ("{0}", normalizers.Strip(), None),
    "bert-clean": (MARKS, bert(clean_text=True), None),
    "bert-chinese": (MARKS, bert(handle_chinese_chars=True), None),
    "bert-accents": (MARKS, bert(strip_accents=True), None),
    "bert-lower": (MARKS, bert(lowercase=True), None),
    "digits": (WORDS, None, pre_tokenizers.Digits(True)),
    "digits-together": (WORDS, None, pre_tokenizers.Digits(False)),
    "punctuation": (WORDS, None, pre_tokenizers.Punctuation()),
    "whitespace": (WORDS, None, pre_tokenizers.Whitespace()),
    "whitespace-split": (WORDS, None, pre_tokenizers.WhitespaceSplit()),
    "bert-splitter": (WORDS, None, pre_tokenizers.BertPreTokenizer()),
    "byte-level": (WORDS, None, pre_tokenizers.ByteLevel(True)),
    "llama3": (WORDS, None, split(tokens.LLAMA3)),
    "qwen2": (WORDS, None, split(tokens.QWEN2)),
    "qwen35": (WORDS, None, split(tokens.QWEN35)),
    "gpt4o": (WORDS, None, split(tokens.GPT4O)),
    "tekken": (WORDS, None, split(tokens.TEKKEN)),
    "digit-class": (WORDS, None, split(r"\d")),
    "number-class": (WORDS, None, split(r"\p{N}+")),
    "space-class": (WORDS, None, split(r"\s+")),
    "added": (ADDED, None, None),
}


def make(name):
    _, normalizer, splitter = STEPS[name]
    vocabulary = {}
    for prefix in ("", "##"):
        for byte in range(256):
            vocabulary[prefix + BYTES[byte]] = len(vocabulary)
    t = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [], continuing_subword_prefix="##"))
    if normalizer:
        t.normalizer = normalizer
    last = pre_tokenizers.ByteLevel(False, use_regex=False)
    t.pre_tokenizer = pre_tokenizers.Sequence([splitter, last]) if splitter else last
    if name == "added":
        t.add_tokens([AddedToken("word", single_word=True), AddedToken("<x>", lstrip=True, rstrip=True)])
        t.add_special_tokens([AddedToken("<y>", single_word=True, special=True)])
    return t


def differs(quern, mine, oracle, text):
    return oracle.encode(text, add_special_tokens=False).ids != list(quern.encode(mine, text, 0))


def compare(quern, name, every):
    """The characters that a step treats otherwise."""
    around, oracle = STEPS[name][0], make(name)
    mine, found = quern.tokenizer(oracle.to_str()), []
    for at in range(0, len(CODES), 64 * every):
        part = CODES[at:at + 64]
        whole = name != "strip" and "".join(around.replace("{0}", chr(c)) for c in part)
        if whole and not differs(quern, mine, oracle, whole):
            continue
        bad = [c for c in part if differs(quern, mine, oracle, around.replace("{0}", chr(c)))]
        if whole and not bad:
            bad = part  # only beside each other
        found += bad
    quern.lib.qn_tokenizer_close(mine)
    shown = " ".join(f"U+{c:04X}" for c in found[:12])
    print(f"{'FAIL' if found else 'ok  '} {name}: {len(found)} differ {shown}", flush=True)
    return not found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--step", action="append", choices=STEPS)
    parser.add_argument("--every", type=int, default=1, help="only each N-th row of 64 characters")
    options = parser.parse_args()
    quern = tokens.Quern(os.path.abspath(options.library))
    results = [compare(quern, name, options.every) for name in options.step or STEPS]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
