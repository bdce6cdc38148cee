"""gen_layers.py - what follows from the rows of layers, src/nn/layers/rows.h: the tables of docs/layers.md and the
stubs python/quern/nn/layers.pyi; gen.py writes them."""

import os
import re

TYPES = {"SIZE": "int", "SIZES": "int | str | Sequence[int]", "SHAPE": "int | Sequence[int]", "PLACE": "int",
         "NUMBER": "float", "YES": "bool", "NOT": "bool", "FLAG": "bool", "WORD": "str"}
# Keywords and results of the calls whose forward() a row cannot say: layers.py.
FORWARD = {"MultiheadAttention": "Attention", "TransformerEncoderLayer": "Encoder",
           "TransformerDecoderLayer": "Decoder", "LSTM": "TwoStates", "LSTMCell": "TwoStatesCell", "RNN": "States",
           "GRU": "States"}


class Kind:
    def __init__(self, gen, macro, args):
        self.name, self.doc = args[0], gen.literal(args[-1])
        self.arguments = gen.literal(args[1]).split()
        self.results = int(args[7]) if macro == "LAYER" else 1
        self.tensors = macro == "LAYER" and args[2] != "NULL"


def kinds(gen):
    with open(os.path.join(gen.ROOT, "src/nn/layers/rows.h")) as f:
        text = gen.strip_comments(f.read())
    for match in re.finditer(r"^(LAYER|UNARY)\(", text, re.M):
        yield Kind(gen, match[1], gen.arguments(text, match.end() - 1)[0])


def fields(gen):
    """argument: (field, type)"""
    return {args[0]: (args[1], args[2]) for _, args in gen.rows("src/nn/layers/arguments.h")}


def signature(kind, types):
    found = []
    for one in kind.arguments:
        name, equals, default = one.partition("=")
        type_ = TYPES[types[name][1]] + (" | None" if default == "None" or name == "momentum" else "")
        found.append(f"{name}: {type_}" + (f" = {default}" if equals else ""))
    return found


def stubs(gen):
    types = fields(gen)
    for kind in kinds(gen):
        words = [*signature(kind, types), "*", "device: str | None = None", "dtype: Any = None"]
        yield f"class {kind.name}({FORWARD.get(kind.name, 'Layer')}):"
        yield from gen.wrapped([w + ("," if i + 1 < len(words) else ") -> None: ...") for i, w in enumerate(words)],
                               118, "    def __init__(self,", "                 ")


def table(gen):
    types = fields(gen)
    lines = [[f"`{k.name}({', '.join(k.arguments)})`", k.doc] for k in kinds(gen)]
    yield gen.table("kinds", ["kind", "what it does"], lines)
    used = {a.partition("=")[0] for k in kinds(gen) for a in k.arguments}
    yield gen.table("arguments", ["argument", "field of `qn_layer_options`", "type"],
                    [[f"`{n}`", f"`{field}`", type_] for n, (field, type_) in types.items() if n in used])
