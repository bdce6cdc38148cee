#!/usr/bin/env python3
"""unicode.py - what the text room knows of characters, as tables of C: src/text/unicode/.

Usage: unicode.py [--check]    Needs the package tokenizers.

Categories, and what normalisers do to a character, are taken as that package has them, character by
character: it was built with tables of several ages, and a model has seen its text in that form.
Decompositions and combining classes are Python's, as far as the package knows the characters.
"""

import os
import sys
import unicodedata as unicode

from tokenizers import Regex, normalizers, pre_tokenizers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "text", "unicode")
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()


def rows(numbers, macro="X"):
    """Numbers as rows of a table, each of at most 158 columns."""
    line = ""
    for number in numbers:
        text = hex(number) if number > 9 else str(number)
        if line and len(line) + len(text) + 2 > 154:
            yield f"{macro}({line})"
            line = ""
        line += (", " if line else "") + text
    if line:
        yield f"{macro}({line})"


def runs(members):
    """First and last of each run of consecutive code points."""
    found = []
    for code in sorted(members):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return [end for run in found for end in run]


def bert(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **options})


def removed(normalizer):
    return {c for c in CODES if not normalizer.normalize_str(chr(c))}


def categories():
    """A code point and the category from it on, in one number: code * 32 + category."""
    of, last = {}, None
    for number, name in enumerate(CATEGORIES):
        split = pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed")
        of.update((c, number) for c in CODES if not split.pre_tokenize_str(chr(c)))
    for code in range(0x110000):
        category = of.get(code, CATEGORIES.index("Cs"))
        if category != last:
            yield code * 32 + category
        last = category


def sets():
    punctuation = pre_tokenizers.Punctuation("removed")
    yield "PUNCTUATION", {c for c in CODES if not punctuation.pre_tokenize_str(chr(c))}
    digits = pre_tokenizers.Digits()  # Rust's numbers, of a later Unicode than the patterns' \p{N}
    yield "NUMERIC", {c for c in CODES if len(digits.pre_tokenize_str("a" + chr(c))) == 2}
    yield "ACCENT", removed(bert(strip_accents=True))
    yield "MARK", removed(normalizers.StripAccents())
    yield "CONTROL", removed(bert(clean_text=True))
    chinese = bert(handle_chinese_chars=True)
    yield "CHINESE", {c for c in CODES if len(chinese.normalize_str(chr(c))) == 3}


def lower():
    """Runs of (first, count, step, distance): first + i*step becomes that + distance."""
    lowercase, found = normalizers.Lowercase(), []
    for code in CODES:
        small = lowercase.normalize_str(chr(code))
        if small == chr(code) or len(small) != 1:
            continue
        distance = ord(small) - code
        if found and found[-1][3] == distance:
            first, count, step, _ = found[-1]
            gap = code - (first + (count - 1) * step)
            if gap == step or (count == 1 and gap <= 2):
                found[-1][1:3] = [count + 1, gap]
                continue
        found.append([code, 1, 1, distance])
    for first, count, step, distance in found:
        yield first
        yield count * 4 + (step - 1) * 2 + (distance < 0)
        yield abs(distance)


def decompositions(compatible):
    """One step: runs of (first, count, target) of single characters, then (code, a, b, ..) apart."""
    known, singles, several = normalizers.NFKD(), [], []
    for code in CODES:
        text = unicode.decomposition(chr(code))
        if not text or text.startswith("<") != compatible or known.normalize_str(chr(code)) == chr(code):
            continue
        parts = [int(part, 16) for part in text.split() if not part.startswith("<")]
        if len(parts) > 1:
            several.append((code, parts))
        elif singles and [code, parts[0]] == [singles[-1][0] + singles[-1][1], singles[-1][2] + singles[-1][1]]:
            singles[-1][1] += 1
        else:
            singles.append([code, 1, parts[0]])
    return [n for run in singles for n in run], several


def composed(pairs):
    """(a, b, code) of the pairs that are put together, in order."""
    nfc = normalizers.NFC()
    found = sorted((*two, code) for code, two in pairs if nfc.normalize_str("".join(map(chr, two))) == chr(code))
    return [n for triple in found for n in triple]


def long(several):
    """(code, place * 32 + length) of each, and what stands at the places."""
    index, pool = [], []
    for code, parts in several:
        index += [code, len(pool) * 32 + len(parts)]
        pool += parts
    return index, pool


def orders():
    """Combining classes: runs of (first, count * 256 + class)."""
    nfd, found = normalizers.NFD(), []
    for code in CODES:
        order = unicode.combining(chr(code))
        if not order:
            continue
        pair = "\u0301" + chr(code) if order < 230 else chr(code) + "\u0334"
        if nfd.normalize_str(pair) == pair:
            continue  # the package does not know it
        if found and found[-1][0] + found[-1][1] == code and found[-1][2] == order:
            found[-1][1] += 1
        else:
            found.append([code, 1, order])
    return [n for first, count, order in found for n in (first, count * 256 + order)]


def parts(form, numbers_of):
    """The lines of each part, of which a macro of that form chooses one."""
    return [line for name, numbers in numbers_of.items()
            for line in (f"#ifdef {form % name}", *rows(numbers), "#endif")]


def files():
    lines = ["/* categories.h - X(code * 32 + category, ..): the category from that code point on, in the",
             " * order of `enum category`. Written by tools/unicode.py. */"]
    yield "categories.h", lines + list(rows(categories()))
    lines = ["/* sets.h - sets of characters, as X rows of the first and the last code point of each run;",
             " * SET_NAME_ROWS says which. Written by tools/unicode.py. */"]
    yield "sets.h", lines + parts("SET_%s_ROWS", {name: runs(members) for name, members in sets()})
    pairs = decompositions(False)[1]
    singles, several = decompositions(True)
    index, pool = long(several)
    lines = ["/* maps.h - what characters become: in lower case (first, count * 4 + (step - 1) * 2 +",
             " * sign, distance), decomposed (single ones: first, count, target; pairs: code, a, b),",
             " * composed (a, b, code), combining classes (first, count * 256 + class); MAP_NAME says which.",
             " * Written by tools/unicode.py. */"]
    yield "maps.h", lines + parts("MAP_%s", {
        "LOWER": lower(), "CANONICAL": decompositions(False)[0],
        "PAIRS": [n for code, two in pairs for n in (code, *two)], "COMPOSED": composed(pairs),
        "ORDER": orders()})
    lines = ["/* compatible.h - what characters become in the forms of compatibility, decomposed: single ones",
             " * (first, count, target), longer ones (code and place * 32 + length in the pool), the pool;",
             " * MAP_NAME says which. Written by tools/unicode.py. */"]
    yield "compatible.h", lines + parts("MAP_%s", {"COMPATIBLE": singles, "LONG": index, "POOL": pool})


def main():
    stale = 0
    os.makedirs(ROOT, exist_ok=True)
    for name, lines in files():
        path, text = os.path.join(ROOT, name), "\n".join(lines) + "\n"
        if "--check" not in sys.argv:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path, encoding="ascii").read() != text:
            print(f"unicode: {name} is not what this script writes")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
