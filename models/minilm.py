"""minilm.py - sentences as vectors: a BERT, the mean over its tokens, of length 1 (Reimers and Gurevych 2019).

It loads folders of sentence-transformers, all-MiniLM-L6-v2 and others of a BertModel (all-MiniLM-L12, bge, e5, gte):
config.json, model.safetensors and tokenizer.json, and, where they are there, 1_Pooling/config.json, which says
whether the mean or the first token stands for a text, and sentence_bert_config.json, which says how long one may be.

    model = load("all-MiniLM-L6-v2")
    vectors = model.encode(["A cat sits.", "A dog runs."])       # [2, 384]
    similar = vectors @ vectors.T                                # cosines

    python models/minilm.py FOLDER "A cat sits." "A dog runs." "Prices fell."    # the first beside each of the others
"""

import json
import os
import sys

import quern
from bert import Bert
from quern import nn

SHORTEST = 8  # tokens that a batch has at least, for few sizes take few graphs


def pooled(hidden, mask, kind="mean"):
    """[N, T, width] -> [N, width]: the mean over the tokens that are there, or the first token."""
    if kind == "cls":
        return hidden[:, 0]
    there = mask.cast(hidden.dtype).unsqueeze(-1)
    return (hidden * there).sum(axis=1) / quern.maximum(there.sum(axis=1), 1.0)


def of_length_1(x):
    return x / quern.maximum((x * x).sum(axis=-1, keepdims=True).sqrt(), 1e-12)


def rounded(n, least=1):
    """The next power of two."""
    while least < n:
        least *= 2
    return least


class Sentences(nn.Module):
    """A Bert with a tokenizer, quern.llm's or another that has encode(text) -> ids."""

    def __init__(self, bert, tokenizer=None, longest=256, pooling="mean", pad=0):
        super().__init__()
        self.bert = bert
        self.tokenizer, self.longest, self.pooling, self.pad = tokenizer, longest, pooling, pad

    def forward(self, ids, mask):
        """ids and mask [N, T] -> [N, width]; mask: 1 where there is text."""
        return of_length_1(pooled(self.bert(ids, mask)[0], mask, self.pooling))

    @quern.jit
    def embed(self, ids, mask):
        return self(ids, mask)

    def ids(self, text):
        """Those of a text, cut to the longest that is read: what stands behind a text, [SEP], is kept."""
        ids = self.tokenizer.encode(text)
        return ids if len(ids) <= self.longest else ids[:self.longest - 1] + ids[-1:]

    def encode(self, texts, batch=32):
        """Texts, or one, as vectors [N, width], or [width]. Those of like lengths go together."""
        if isinstance(texts, str):
            return self.encode([texts])[0]
        rows = [self.ids(text) for text in texts]
        order = sorted(range(len(rows)), key=lambda k: len(rows[k]))
        parts = [self.read([rows[k] for k in order[at:at + batch]]) for at in range(0, len(order), batch)]
        if not parts:
            return quern.zeros((0, self.bert.pooler.dense.weight.shape[0]))
        places = sorted(range(len(order)), key=order.__getitem__)
        return quern.concat(parts, axis=0)[quern.tensor(places)]

    def read(self, rows):
        """A batch, filled up to a size of few: one graph for each of them."""
        size, length = rounded(len(rows)), min(rounded(max(map(len, rows)), SHORTEST), self.longest)
        filled = [row + [self.pad] * (length - len(row)) for row in rows] + [[self.pad] * length] * (size - len(rows))
        there = [[1] * len(row) + [0] * (length - len(row)) for row in rows] + [[0] * length] * (size - len(rows))
        with quern.no_grad():
            return self.embed(quern.tensor(filled), quern.tensor(there))[:len(rows)]


def setting(folder, file, default):
    """What a file of JSON has, where the folder has one."""
    path = os.path.join(folder, file)
    if not os.path.exists(path):
        return default
    with open(path) as f:
        return json.load(f)


def bert_of(config):
    """A Bert of the sizes that a config.json of transformers has."""
    for name, usual in (("model_type", "bert"), ("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if config.get(name, usual) != usual:
            raise ValueError(f"config.json: {name} is {config[name]!r}, and {usual!r} is what this model has")
    return Bert(config["vocab_size"], config["hidden_size"], config["num_hidden_layers"],
                config["num_attention_heads"], config["intermediate_size"], config["max_position_embeddings"],
                config.get("type_vocab_size", 2), config.get("hidden_dropout_prob", 0.1),
                config.get("layer_norm_eps", 1e-12))


def pooling_of(folder):
    """What 1_Pooling/config.json asks for; the mean where there is none."""
    asked = setting(folder, os.path.join("1_Pooling", "config.json"), {"pooling_mode_mean_tokens": True})
    modes = [name.removeprefix("pooling_mode_") for name, v in asked.items() if name.startswith("pooling_mode") and v]
    if modes not in (["mean_tokens"], ["cls_token"]):
        raise ValueError(f"{folder}: 1_Pooling/config.json asks for {modes}, neither the mean nor the first token")
    return modes[0].partition("_")[0]


def load(folder):
    """The model of a folder, ready to encode."""
    config = setting(folder, "config.json", None)
    if config is None:
        raise FileNotFoundError(f"{folder} has no config.json")
    bert = bert_of(config)
    found = bert.load_state_dict(quern.load(os.path.join(folder, "model.safetensors")), strict=False)
    lacking = [name for name in found.missing_keys if "pooler" not in name]
    if lacking:
        raise RuntimeError(f"{folder}: model.safetensors has no {', '.join(lacking[:4])}")
    pooling, longest = pooling_of(folder), config["max_position_embeddings"]
    longest = min(longest, setting(folder, "sentence_bert_config.json", {}).get("max_seq_length", longest))
    return Sentences(bert, quern.llm.tokenizer(folder), longest, pooling, config.get("pad_token_id", 0)).eval()


def main(folder, *texts):
    vectors = load(folder).encode(texts)
    for text, cosine in zip(texts[1:], (vectors[1:] @ vectors[0]).tolist()):
        print(f"{cosine:7.4f}  {text}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: minilm.py FOLDER TEXT TEXT ..")
    main(*sys.argv[1:])
