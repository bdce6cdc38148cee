"""tiny_llm.py - a Llama of a few thousand numbers: written as a GGUF file or a folder of safetensors, and computed in
plain loops, as tests/llm/tiny_llm.h has it."""

import json
import math
import os
import random
import struct

import quern as qn

VOCABULARY, WIDTH, LAYERS, HEADS, SHARED, HEAD, INNER, TRAINED = 260, 32, 2, 4, 2, 8, 64, 128
TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ 'a:' if add_generation_prompt }}"
PARTS = {"attn_norm": (WIDTH,), "attn_q": (HEADS * HEAD, WIDTH), "attn_k": (SHARED * HEAD, WIDTH),
         "attn_v": (SHARED * HEAD, WIDTH), "attn_output": (WIDTH, HEADS * HEAD), "ffn_norm": (WIDTH,),
         "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def tokens():
    """GPT-2's characters for bytes, and four more."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(i if i in plain else next(other)) for i in range(256)] + ["<eos>", "ab", "<|end|>", "zz"]


def make(seed=1):
    """Weights by the names of a GGUF file: rows of numbers that float32 holds."""
    r = random.Random(seed)

    def one(shape):
        n, scale = math.prod(shape), (0.3, 0.45)[len(shape) - 1]
        base = 1 if len(shape) == 1 else 0
        flat = struct.unpack(f"{n}f", struct.pack(f"{n}f", *(base + scale * r.uniform(-1, 1) for _ in range(n))))
        return list(flat) if base else [list(flat[i:i + shape[1]]) for i in range(0, n, shape[1])]
    w = {"token_embd": one((VOCABULARY, WIDTH)), "output_norm": one((WIDTH,)), "output": one((VOCABULARY, WIDTH))}
    for layer in range(LAYERS):
        w |= {f"blk.{layer}.{name}": one(shape) for name, shape in PARTS.items()}
    return w


# In plain loops.

def times(m, x):
    return [sum(a * b for a, b in zip(row, x)) for row in m]


def norm(g, x):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + 1e-5)
    return [v * scale * w for v, w in zip(x, g)]


def rotate(x, place, halves):
    """Pairs lie side by side in a GGUF file, half a head apart in safetensors."""
    x = list(x)
    for h in range(0, len(x), HEAD):
        for i in range(HEAD // 2):
            a, b = (h + i, h + i + HEAD // 2) if halves else (h + 2 * i, h + 2 * i + 1)
            angle = place * 10000 ** (-2 * i / HEAD)
            x[a], x[b] = (x[a] * math.cos(angle) - x[b] * math.sin(angle),
                          x[a] * math.sin(angle) + x[b] * math.cos(angle))
    return x


def attend(q, keys, values):
    out = []
    for h in range(HEADS):
        at = h // (HEADS // SHARED) * HEAD
        score = [sum(q[h * HEAD + i] * k[at + i] for i in range(HEAD)) / math.sqrt(HEAD) for k in keys]
        p = [math.exp(s - max(score)) for s in score]
        out += [sum(pj * v[at + i] for pj, v in zip(p, values)) / sum(p) for i in range(HEAD)]
    return out


def hidden(w, ids, halves=False):
    """The last norm's output behind each id."""
    x = [list(w["token_embd"][i]) for i in ids]
    for layer in range(LAYERS):
        part = {name: w[f"blk.{layer}.{name}"] for name in PARTS}
        keys, values = [], []
        for j, xj in enumerate(x):
            y = norm(part["attn_norm"], xj)
            keys.append(rotate(times(part["attn_k"], y), j, halves))
            values.append(times(part["attn_v"], y))
            y = attend(rotate(times(part["attn_q"], y), j, halves), keys, values)
            xj = [a + b for a, b in zip(xj, times(part["attn_output"], y))]
            y = norm(part["ffn_norm"], xj)
            gate = [g / (1 + math.exp(-g)) * u for g, u in zip(times(part["ffn_gate"], y), times(part["ffn_up"], y))]
            x[j] = [a + b for a, b in zip(xj, times(part["ffn_down"], gate))]
    return [norm(w["output_norm"], xj) for xj in x]


def logits(w, ids, halves=False):
    return [times(w["output"], h) for h in hidden(w, ids, halves)]


# Files.

def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def pair(key, kind, value):
    """uint32 4, int32 5, float32 6, text 8; a list is an array of 9."""
    def one(v):
        return text(v) if kind == 8 else struct.pack({4: "<I", 5: "<i", 6: "<f"}[kind], v)
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", 9, kind, len(value)) + b"".join(map(one, value))
    return text(key) + struct.pack("<I", kind) + one(value)


def gguf(path, w, *, tokenizer=True, architecture="llama", end=256):
    sizes = {"context_length": TRAINED, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": INNER,
             "attention.head_count": HEADS, "attention.head_count_kv": SHARED, "attention.key_length": HEAD,
             "rope.dimension_count": HEAD}
    pairs = [pair("general.architecture", 8, architecture),
             pair("llama.attention.layer_norm_rms_epsilon", 6, 1e-5)]
    pairs += [pair("llama." + key, 4, v) for key, v in sizes.items()]
    if tokenizer:
        pairs += [pair("tokenizer.ggml.model", 8, "gpt2"), pair("tokenizer.ggml.pre", 8, "gpt-2"),
                  pair("tokenizer.ggml.tokens", 8, tokens()), pair("tokenizer.ggml.merges", 8, ["a b"]),
                  pair("tokenizer.ggml.token_type", 5, [3 if i in (256, 258) else 1 for i in range(VOCABULARY)]),
                  pair("tokenizer.ggml.eos_token_id", 4, end), pair("tokenizer.chat_template", 8, TEMPLATE)]
    head, data = b"", b""
    for name, m in w.items():
        shape = (len(m[0]), len(m)) if isinstance(m[0], list) else (len(m),)
        flat = [v for row in m for v in row] if len(shape) == 2 else m
        head += text(name + ".weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += struct.pack(f"<{len(flat)}f", *flat)
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(w), len(pairs)) + b"".join(pairs) + head
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)


def folder(path, w):
    """The same weights, as of the package transformers."""
    config = {"model_type": "llama", "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": SHARED, "head_dim": HEAD, "intermediate_size": INNER, "vocab_size": VOCABULARY,
              "max_position_embeddings": TRAINED, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "eos_token_id": 256,
              "hidden_act": "silu", "tie_word_embeddings": False}
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    for layer in range(LAYERS):
        names |= {f"blk.{layer}.{a}": f"model.layers.{layer}.{b}" for a, b in NAMES.items()}
    os.makedirs(path, exist_ok=True)
    qn.save(os.path.join(path, "model.safetensors"), {names[k] + ".weight": qn.tensor(v) for k, v in w.items()})
    special = [{"id": i, "content": tokens()[i], "special": True, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False} for i in (256, 258)]
    tokenizer = {"version": "1.0", "added_tokens": special, "normalizer": None, "post_processor": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                 "decoder": {"type": "ByteLevel"},
                 "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens())}, "merges": ["a b"]}}
    for name, value in (("config", config), ("tokenizer", tokenizer),
                        ("tokenizer_config", {"chat_template": TEMPLATE, "eos_token": "<eos>"})):
        with open(os.path.join(path, name + ".json"), "w") as f:
            json.dump(value, f)
