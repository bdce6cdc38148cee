#!/usr/bin/env python3
"""lora.py - adapters of Quern's language models against the packages `peft` and `transformers`.

Usage: lora.py --library FILE [--family NAME] [--tokens N]

To small models of random weights (llm.py's) `peft` adds adapters of random matrices, and writes them; the same are
written as GGUF by the package `gguf`, as llama.cpp's converter does. Quern reads both with a model of either kind, the
weights of some in blocks. Logits behind prefixes are to be within 1e-4 of the largest, and N tokens (50), each the
likeliest, the same. The last line is `N passed, N failed`. Needs torch, transformers, gguf, peft.
"""

import argparse
import ctypes
import json
import os
import sys
import tempfile

import gguf
import numpy as np
import peft
import safetensors.numpy
import torch
import transformers

import llm

LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# name, its row of llm.FAMILIES, what the adapter's configuration says, types of GGUF files
CASES = [
    ("all matrices", "llama", dict(r=8, lora_alpha=16, target_modules=LLAMA), ["F32", "Q8_0", "Q4_0"]),
    ("queries and values", "llama-tied", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]), ["F32"]),
    ("the output", "llama", dict(r=4, lora_alpha=8, target_modules=["lm_head", "k_proj"]), ["F32"]),
    ("by the root", "qwen2", dict(r=16, lora_alpha=8, use_rslora=True, target_modules=LLAMA), ["F32"]),
    ("ranks by pattern", "qwen3", dict(r=4, lora_alpha=8, target_modules=LLAMA,
                                       rank_pattern={"down_proj": 12, "layers.1.self_attn.q_proj": 2}), ["F32"]),
    ("gemma", "gemma3", dict(r=8, lora_alpha=8, target_modules=LLAMA), ["F32"]),
    ("one matrix for three", "phi3", dict(r=8, lora_alpha=4, target_modules=["qkv_proj", "gate_up_proj", "o_proj"]),
     ["F32"]),
    ("matrices that lie otherwise", "gpt2", dict(r=8, lora_alpha=16, fan_in_fan_out=True,
                                                 target_modules=["c_attn", "c_fc", "c_proj"]), ["F32", "Q5_1"]),
    ("attention of mixtures", "mixtral", dict(r=8, lora_alpha=16, target_modules=LLAMA[:4]), ["F32"]),
]


class Adapter(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("scale", ctypes.c_double)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("context", ctypes.c_int64), ("chunk", ctypes.c_int64),
                ("half", ctypes.c_bool), ("caches", ctypes.c_int64), ("copied", ctypes.c_bool),
                ("activation_bits", ctypes.c_int64), ("cache_bits", ctypes.c_int64), ("adapters", ctypes.c_int),
                ("adapter", ctypes.POINTER(Adapter))]


class Library(llm.Library):
    """One that opens models with adapters: (path, scale) of each."""

    adapters = []

    def open(self, path):
        adapter = (Adapter * len(self.adapters))(*((p.encode(), scale) for p, scale in self.adapters))
        options = Options(ctypes.sizeof(Options), 400, 32, adapters=len(adapter), adapter=adapter)
        return ctypes.c_void_p(self.lib.qn_llm_open(self.qn, path.encode(), ctypes.byref(options)))


def add(model, config, seed):
    """The model with an adapter whose matrices are random, neither of them zeros."""
    torch.manual_seed(seed)
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **config))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".lora_" in name:
                p.copy_(torch.randn(p.shape) * (0.1 if ".lora_A." in name else 0.2))
    return model


def write_gguf(path, folder, model, arch):
    """The adapter of a folder, by the names of GGUF."""
    with open(os.path.join(folder, "adapter_config.json")) as f:
        config = json.load(f)
    writer = gguf.GGUFWriter(path, arch)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), model.config.num_hidden_layers)
    tensors = safetensors.numpy.load_file(os.path.join(folder, "adapter_model.safetensors"))
    ranks = {w.shape[0] for name, w in tensors.items() if ".lora_A." in name}
    if config["use_rslora"]:
        alpha = config["lora_alpha"] * max(ranks)**0.5  # over the rank that is what the root gives
        assert len(ranks) == 1
    else:
        alpha = config["lora_alpha"]
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(alpha))
    for name, w in tensors.items():
        base, end = name.removeprefix("base_model.model.").rsplit(".lora_", 1)
        if arch == "llama" and end == "B.weight" and ".q_proj" in base:
            w = llm.paired(w, model.config.num_attention_heads)
        if arch == "llama" and end == "B.weight" and ".k_proj" in base:
            w = llm.paired(w, model.config.num_key_value_heads)
        new = names.get_name(base + ".weight", try_suffixes=(".weight",))
        writer.add_tensor(f"{new}.lora_{end[0].lower()}", np.ascontiguousarray(w, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run(library, o, folder, row):
    name, family, config, kinds = row
    _, arch, kind, changes = next(f for f in llm.FAMILIES if f[0] == family)
    plain = llm.make(kind, changes)
    at = lambda end: os.path.join(folder, f"{name}-{end}".replace(" ", "-"))
    plain.save_pretrained(at("model"))
    for dtype in kinds:
        llm.write_gguf(at(dtype + ".gguf"), plain, arch, dtype)
    add(llm.make(kind, changes), config, 1).save_pretrained(at("peft"), save_embedding_layers=False)
    write_gguf(at("lora.gguf"), at("peft"), plain, arch)
    files = [(at("model"), "safetensors", "F32")] + [(at(d + ".gguf"), "gguf " + d, d) for d in kinds]
    for path, text, dtype in files:
        for adapter in ("peft", "lora.gguf"):
            wanted = add(llm.rounded(llm.make(kind, changes), arch, dtype), config, 1)
            library.adapters = [(at(adapter), 1.0)]
            yield llm.case(library, f"{name}: {family} {text} with {adapter}", path, wanted, o.tokens)


def two(library, o, folder):
    """Two adapters of different ranks and scales, some of whose matrices are the same."""
    _, arch, kind, changes = llm.FAMILIES[0]
    rows = [dict(r=4, lora_alpha=8, target_modules=["q_proj", "up_proj"]),
            dict(r=8, lora_alpha=8, target_modules=["q_proj", "o_proj"])]
    scales, wanted, paths = (0.5, -1.5), llm.make(kind, changes), []
    wanted.save_pretrained(os.path.join(folder, "two"))
    for i, config in enumerate(rows):
        paths.append(os.path.join(folder, f"two-{i}"))
        add(llm.make(kind, changes), config, 2 + i).save_pretrained(paths[-1])
        tensors = safetensors.numpy.load_file(os.path.join(paths[-1], "adapter_model.safetensors"))
        own = dict(wanted.named_parameters())
        for name, a in tensors.items():
            if ".lora_A." not in name:
                continue
            b = tensors[name.replace("lora_A", "lora_B")]
            scale = scales[i] * config["lora_alpha"] / config["r"]
            with torch.no_grad():
                own[name.removeprefix("base_model.model.").replace("lora_A.", "")] += torch.from_numpy(scale * (b @ a))
    library.adapters = list(zip(paths, scales))
    yield llm.case(library, "two of different scales", os.path.join(folder, "two"), wanted, o.tokens)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--family")
    parser.add_argument("--tokens", type=int, default=50)
    o = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    library = Library(o.library)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for row in CASES:
            if not o.family or o.family == row[1]:
                results += run(library, o, folder, row)
        results += two(library, o, folder)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
