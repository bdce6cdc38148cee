#!/usr/bin/env python3
"""tokens.py - tokenizers of Quern against the package `tokenizers`: the same ids, the same text.

Usage: tokens.py --library FILE [--strings N] [--seed S] [--family NAME] [--save FOLDER] [--tally FILE]
       tokens.py --cases tests/text/cases    write small tokenizers, and what they give, for test_text

Vocabularies of every family are trained on this source tree and on random text, then N strings of
each family go both ways: pieces of the tree, random characters of all of Unicode, marks and
scripts that normalisers treat apart, contractions, numbers, white space, special tokens. Strings are
made in blocks of 10,000, each of a seed of its own; FILE gets a line for each block, and one that it
has is not run again, so what was broken off goes on. The last line is `N passed, N failed`.
"""

import argparse
import ctypes
import json
import os
import random
import sys

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN35 = (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"
GPT4O = (LEAD + UPPER + "*" + LOWER + "+" + CONTRACTION + "?|" + LEAD + UPPER + "+" + LOWER + "*" + CONTRACTION +
         r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES)
TEKKEN = (LEAD + UPPER + "*" + LOWER + "+|" + LEAD + UPPER + "+" + LOWER + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" +
          SPACES)


# ---- families -----------------------------------------------------------------------------------

SIZE = {}  # of vocabularies and what they are trained on; --cases wants small ones


def corpus():
    if SIZE:
        return open(os.path.join(ROOT, "docs", "design.md"), encoding="ascii").read().split("\n")[:100]
    texts = []
    for folder in ("src/graph", "src/text", "docs", "tools"):
        for name in sorted(os.listdir(os.path.join(ROOT, folder))):
            path = os.path.join(ROOT, folder, name)
            if os.path.isfile(path):
                texts.append(open(path, encoding="utf-8").read())
    rng = random.Random(1)
    return texts + [wild(rng, 200) for _ in range(300)]


def byte_level(split, ignore_merges=False, normalizer=None, specials=("<|endoftext|>",)):
    t = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer, t.decoder = split, decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    return t, trainers.BpeTrainer(vocab_size=SIZE.get("vocab", 1500), show_progress=False,
                                  special_tokens=list(specials), initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def by_pattern(pattern, **options):
    return byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                               pre_tokenizers.ByteLevel(False, use_regex=False)]), **options)


def wordpiece(**options):
    t = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(**options), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    return t, trainers.WordPieceTrainer(vocab_size=SIZE.get("vocab", 1500), show_progress=False, limit_alphabet=300,
                                        special_tokens=["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"])


def unigram(byte_fallback=False, scheme="always"):
    t = tokenizers.Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    t.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return t, trainers.UnigramTrainer(vocab_size=SIZE.get("vocab", 9000), show_progress=False, unk_token="<unk>",
                                      special_tokens=["<unk>", "<s>", "</s>"])


def sentence_bpe():
    """As Llama 2: no words, spaces are letters, unknown characters are bytes."""
    t = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")  # for training alone
    return t, trainers.BpeTrainer(vocab_size=SIZE.get("vocab", 2000), show_progress=False, limit_alphabet=300,
                                  special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])


def plain_bpe():
    t = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.BPEDecoder("</w>")
    return t, trainers.BpeTrainer(vocab_size=SIZE.get("vocab", 1500), show_progress=False,
                                  special_tokens=["<unk>"], limit_alphabet=200, end_of_word_suffix="</w>")


def words():
    t = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(
        "contiguous"), pre_tokenizers.Digits(True)])
    return t, trainers.WordLevelTrainer(vocab_size=SIZE.get("vocab", 2000), show_progress=False,
                                        special_tokens=["[UNK]"])


FAMILIES = {
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(False)),
    "roberta": lambda: byte_level(pre_tokenizers.ByteLevel(True), specials=("<s>", "</s>", "<mask>")),
    "smollm": lambda: byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True),
                                                          pre_tokenizers.ByteLevel(False)])),
    "llama3": lambda: by_pattern(LLAMA3, ignore_merges=True, specials=("<|begin_of_text|>", "<|eot_id|>")),
    "qwen2": lambda: by_pattern(QWEN2, normalizer=normalizers.NFC(), specials=("<|im_start|>", "<|im_end|>")),
    "qwen35": lambda: by_pattern(QWEN35, normalizer=normalizers.NFC()),
    "gpt4o": lambda: by_pattern(GPT4O, specials=("<|start|>", "<|end|>")),
    "tekken": lambda: by_pattern(TEKKEN),
    "bert": lambda: wordpiece(lowercase=True),
    "bert-cased": lambda: wordpiece(lowercase=False, strip_accents=False),
    "unigram": unigram,
    "unigram-first": lambda: unigram(scheme="first"),
    "llama2": sentence_bpe,
    "plain": plain_bpe,
    "words": words,
}


def train(name):
    """The tokenizer of a family, with tokens and what stands around a text as models of it have."""
    t, trainer = FAMILIES[name]()
    if SIZE and name in ("llama2", "gpt2"):
        trainer.vocab_size += 100
    t.train_from_iterator(corpus(), trainer)
    if name == "llama2":
        t.pre_tokenizer = None
        t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        t = tokenizers.Tokenizer.from_str(json.dumps({**json.loads(t.to_str()), "pre_tokenizer": None}))
    t.add_tokens([AddedToken("<tool>", lstrip=True), AddedToken("word", single_word=True),
                  AddedToken("<|Ünï|>", normalized=True), AddedToken("<to", normalized=False)])
    t.add_special_tokens([AddedToken("<|x|>", rstrip=True, special=True)])
    if name in ("bert", "llama3", "llama2", "unigram"):
        token = {"bert": "[CLS]", "llama3": "<|begin_of_text|>"}.get(name, "<s>")
        t.post_processor = processors.TemplateProcessing(
            single=f"{token} $A" + (" [SEP]" if name == "bert" else ""),
            special_tokens=[(token, t.token_to_id(token))] + ([("[SEP]", t.token_to_id("[SEP]"))] * (name == "bert")))
    return t


# ---- strings ------------------------------------------------------------------------------------

SPOTS = [
    "'s", "'LL", "'\u017f", "n't", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085",
    "word", "<|x|>", "<tool>", "<|Ünï|>", "<to", "<s>", "</s>", "[MASK]", "<|im_end|>", "<0x41>", "\u2581",
    "123", "45678", "٣", "Ⅷ", "½", "²", "e\u0301", "\u0301", "q\u0323\u0307\u0301", "한국어", "각",
    "\u1100\u1161\u11a8", "İ", "ẞ", "ﬁ", "中文字", "ひらがな", "カタ", "ไทย", "नमस्ते", "العربية", "👩\u200d👧", "🇩🇪",
    "\u200b", "\ufeff", "ABCdef", "XMLHttp", "ǅ", "ʰ", "_", "__init__", "->", "==", "/**/", "//\n", "\x00",
    "\x1f", "\x7f", "don't", "I'VE", "#include <x.h>", "0.5e-3", "ﷺ", "Å", "ÅÄ", "\u0130\u0307", " .", " ,",
    "do not",
]


def character(rng):
    kind = rng.random()
    if kind < 0.35:
        return chr(rng.randrange(32, 127))
    if kind < 0.55:
        return chr(rng.randrange(0xA0, 0x600))
    if kind < 0.8:
        return chr(rng.randrange(0x600, 0xD800))
    return chr(rng.choice((rng.randrange(0xE000, 0x10000), rng.randrange(0x10000, 0x20000),
                           rng.randrange(0x110000 - 0x20000, 0x110000))))


def wild(rng, most):
    out = []
    for _ in range(rng.randrange(1, most)):
        out.append(rng.choice(SPOTS) if rng.random() < 0.4 else character(rng))
    return "".join(out)


BLOCK = 10000


def strings(n, seed, tree=None):
    rng, tree = random.Random(seed), tree or "\n".join(corpus())
    yield ""
    for i in range(n):
        if i % 3 == 0:
            at = rng.randrange(len(tree))
            yield tree[at:at + rng.randrange(1, 200)]
        elif i % 3 == 1:
            yield wild(rng, 20)
        else:
            yield "".join(rng.choice(SPOTS) for _ in range(rng.randrange(1, 8)))


# ---- the library --------------------------------------------------------------------------------

class Quern:
    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(path)
        lib.qn_open.restype = lib.qn_tokenizer_open.restype = ctypes.c_void_p
        lib.qn_error.restype = ctypes.c_char_p
        lib.qn_tokenizer_encode.restype = ctypes.c_int64
        lib.qn_tokenizer_decode.restype = ctypes.c_void_p
        self.ctx = ctypes.c_void_p(lib.qn_open(None))

    def tokenizer(self, text):
        data = text.encode()
        found = self.lib.qn_tokenizer_open(self.ctx, data, ctypes.c_size_t(len(data)))
        if not found:
            sys.exit("tokens: " + self.lib.qn_error(self.ctx).decode())
        return ctypes.c_void_p(found)

    def encode(self, t, text, flags):
        data, ids = text.encode(), ctypes.POINTER(ctypes.c_int32)()
        n = self.lib.qn_tokenizer_encode(t, data, ctypes.c_size_t(len(data)), flags, ctypes.byref(ids))
        if n < 0:
            sys.exit("tokens: " + self.lib.qn_error(self.ctx).decode())
        return ids[:n]

    def decode(self, t, ids, skip):
        data, size = (ctypes.c_int32 * max(len(ids), 1))(*ids), ctypes.c_size_t()
        text = self.lib.qn_tokenizer_decode(t, ctypes.c_int64(len(ids)), data, ctypes.c_bool(skip), ctypes.byref(size))
        if not text:
            sys.exit("tokens: " + self.lib.qn_error(self.ctx).decode())
        return ctypes.string_at(text, size.value).decode()


def differs(quern, mine, oracle, text, rng):
    """What is wrong with a text's ids or with what ids give, None where nothing is."""
    special = rng.random() < 0.5
    want = oracle.encode(text, add_special_tokens=special).ids
    got = quern.encode(mine, text, 1 if special else 0)
    if want != got:
        return f"ids\n  want {want!r}\n  got  {got!r}"
    ids = [rng.randrange(oracle.get_vocab_size()) for _ in range(9)] if rng.random() < 0.3 else want
    want, got = oracle.decode(ids, skip_special_tokens=special), quern.decode(mine, ids, special)
    return f"text\n  want {want!r}\n  got  {got!r}" if want != got else None


def compare(quern, name, options):
    oracle, tree, done = train(name), "\n".join(corpus()), tallied(options.tally)
    if options.save:
        oracle.save(os.path.join(options.save, name + ".json"))
    mine, passed, failed = quern.tokenizer(oracle.to_str()), 0, 0
    for first in range(0, options.strings, BLOCK):
        size, seed, bad = min(BLOCK, options.strings - first), options.seed + first // BLOCK * 7919, 0
        block = f"{name} {options.seed} {first} {size}"
        if block in done:
            passed, failed = passed + done[block][0], failed + done[block][1]
            continue
        rng = random.Random(seed)
        for text in strings(size, seed, tree):
            wrong = differs(quern, mine, oracle, text, rng)
            bad += wrong is not None
            if wrong and failed + bad <= 3:
                print(f"{name}: {text!r}: {wrong}")
        passed, failed = passed + size + 1 - bad, failed + bad
        if options.tally:
            with open(options.tally, "a", encoding="ascii") as file:
                file.write(f"{block} {size + 1 - bad} {bad}\n")
    quern.lib.qn_tokenizer_close(mine)
    print(f"{name}: {passed} of {passed + failed}", flush=True)
    return passed, failed


def tallied(path):
    """Blocks that a file of tallies has: family, seed, first string, how many; passed and failed."""
    if not path or not os.path.exists(path):
        return {}
    rows = [line.rsplit(" ", 2) for line in open(path, encoding="ascii").read().splitlines()]
    return {block: (int(passed), int(failed)) for block, passed, failed in rows}


def write_cases(folder):
    """NAME.json, and in NAME.ids for each text its bytes, ids and the bytes of what those give."""
    SIZE["vocab"] = 300
    for name in ("gpt2", "llama3", "qwen2", "gpt4o", "bert", "unigram", "llama2", "plain", "words"):
        oracle = train(name)
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            file.write(oracle.to_str() + "\n")
        with open(os.path.join(folder, name + ".ids"), "w", encoding="ascii") as file:
            for text in list(strings(30, 3)) + ["".join(SPOTS)]:
                ids = oracle.encode(text).ids
                back = oracle.decode(ids, skip_special_tokens=False)
                file.write(f"{text.encode().hex() or '-'} {back.encode().hex() or '-'} {' '.join(map(str, ids))}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library")
    parser.add_argument("--cases")
    parser.add_argument("--strings", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--save")
    parser.add_argument("--tally")
    options = parser.parse_args()
    if options.cases:
        write_cases(options.cases)
        return 0
    quern = Quern(os.path.abspath(options.library))
    results = [compare(quern, name, options) for name in options.family or FAMILIES]
    passed, failed = (sum(r[i] for r in results) for i in (0, 1))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
