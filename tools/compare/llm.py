#!/usr/bin/env python3
"""llm.py - language models of Quern against the package `transformers`: logits, and greedy tokens.

Usage: llm.py --library FILE [--family NAME] [--tokens N] [--folder PATH]

Small models of random weights are made of every architecture, written as safetensors and, by the
package `gguf` under its own names, as GGUF, and read by Quern. A case is one model in one file: its
logits behind prefixes of a text are to be within 1e-4 of the largest, and N tokens (200), each the
likeliest, the same. Another is a window, a scaling of positions, blocks in place of floats. The last
line is `N passed, N failed`. Needs torch, transformers, gguf.
"""

import argparse
import ctypes
import os
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers

SIZES = dict(vocab_size=320, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=160, max_position_embeddings=512, initializer_range=0.15, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=2.0)
GEMMA3 = dict(full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0),
              sliding_attention=dict(rope_type="default", rope_theta=10000.0))

# name, architecture in GGUF, class of its configuration, what differs from SIZES
FAMILIES = [
    ("llama", "llama", "LlamaConfig", dict()),
    ("llama-tied", "llama", "LlamaConfig", dict(tie_word_embeddings=True, attention_bias=True)),
    ("llama-head", "llama", "LlamaConfig", dict(head_dim=24)),
    ("llama-3.1", "llama", "LlamaConfig", dict(rope_parameters=LLAMA3)),
    ("llama-yarn", "llama", "LlamaConfig", dict(rope_parameters=YARN)),
    ("llama-linear", "llama", "LlamaConfig", dict(rope_parameters=LINEAR)),
    ("mistral", "llama", "MistralConfig", dict(sliding_window=None)),
    ("mistral-window", None, "MistralConfig", dict(sliding_window=20)),
    ("qwen2", "qwen2", "Qwen2Config", dict()),
    ("qwen3", "qwen3", "Qwen3Config", dict(head_dim=32)),
    ("mixtral", "llama", "MixtralConfig", dict(num_local_experts=6, num_experts_per_tok=2, sliding_window=None)),
    ("qwen3-moe", "qwen3moe", "Qwen3MoeConfig", dict(head_dim=32, num_experts=8, num_experts_per_tok=3,
                                                     moe_intermediate_size=64, norm_topk_prob=True)),
    ("qwen3-moe-plain", None, "Qwen3MoeConfig", dict(head_dim=32, num_experts=8, num_experts_per_tok=3,
                                                     moe_intermediate_size=48, norm_topk_prob=False)),
    ("gemma2", "gemma2", "Gemma2Config", dict(head_dim=16, sliding_window=20, num_hidden_layers=4,
                                              query_pre_attn_scalar=16)),
    ("gemma3", "gemma3", "Gemma3TextConfig", dict(head_dim=16, sliding_window=20, num_hidden_layers=7,
                                                  query_pre_attn_scalar=16)),
    ("gemma3-linear", "gemma3", "Gemma3TextConfig", dict(head_dim=16, sliding_window=20, num_hidden_layers=7,
                                                         query_pre_attn_scalar=16, rope_parameters=GEMMA3)),
    ("phi3", "phi3", "Phi3Config", dict()),
    ("phi3-window", "phi3", "Phi3Config", dict(sliding_window=20)),
    ("gpt2", "gpt2", "GPT2Config", dict(n_embd=64, n_layer=3, n_head=4, n_positions=512)),
]
BLOCKS = [("llama", "Q8_0"), ("llama", "Q4_0"), ("llama", "F16"), ("llama", "BF16"), ("gemma3", "Q8_0"),
          ("gpt2", "Q5_1"), ("qwen3-moe", "Q8_0"), ("mixtral", "Q4_0"), ("mixtral", "F16")]


def make(kind, changes):
    sizes = dict(SIZES)
    if kind == "GPT2Config":
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                     "intermediate_size", "max_position_embeddings"):
            sizes.pop(name)
    config = getattr(transformers, kind)(**(sizes | changes))
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().float()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p += 0.2 * torch.randn(p.shape)
    return model


# ---- GGUF ---------------------------------------------------------------------------------------

def metadata(writer, config, arch):
    heads = config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(heads)
    if arch == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    rope = config.rope_parameters
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if getattr(config, "sliding_window", None) and arch != "llama" and arch != "qwen2":
        writer.add_sliding_window(config.sliding_window)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def factors(rope, head):
    """What Llama 3.1's converter divides the speeds by."""
    base = 1.0 / rope["rope_theta"]**(np.arange(0, head, 2) / head)
    out = []
    for speed in base:
        wave = 2 * np.pi / speed
        lo, hi = rope["original_max_position_embeddings"] / rope["low_freq_factor"], \
            rope["original_max_position_embeddings"] / rope["high_freq_factor"]
        smooth = (rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"]) / \
            (rope["high_freq_factor"] - rope["low_freq_factor"])
        out.append(1.0 if wave < hi else rope["factor"] if wave > lo else
                   1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(out, dtype=np.float32)


def paired(w, heads):
    """Rows of q and k in the order of pairs side by side, as the converter of Llama puts them."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


EXPERTS = {"gate.weight": "ffn_gate_inp.weight", "experts.gate": "ffn_gate_exps.weight",
           "experts.up": "ffn_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight"}


def apart(weights):
    """Gates and ups of experts, which are one tensor in a model and two in GGUF."""
    for name, value in weights.items():
        if name.endswith("experts.gate_up_proj"):
            half = value.shape[1] // 2
            yield name.replace("gate_up_proj", "gate"), value[:, :half]
            yield name.replace("gate_up_proj", "up"), value[:, half:]
        else:
            yield name, value


def write_gguf(path, model, arch, dtype):
    config = model.config
    writer = gguf.GGUFWriter(path, arch)
    metadata(writer, config, arch)
    if getattr(config, "num_local_experts", 0):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        if arch == "qwen3moe":
            writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), config.num_hidden_layers)
    used = {}
    for name, value in apart(model.state_dict()):
        if name == "lm_head.weight" and config.tie_word_embeddings or ".attn.bias" in name:
            continue
        w = value.numpy().astype(np.float32)
        if arch == "gpt2" and w.ndim == 2 and ".h." in name:
            w = w.T
        if arch == "llama" and ".q_proj." in name:
            w = paired(w, config.num_attention_heads)
        if arch == "llama" and ".k_proj." in name:
            w = paired(w, config.num_key_value_heads)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            w = w + 1
        kind = gguf.GGMLQuantizationType[dtype] if w.ndim > 1 else gguf.GGMLQuantizationType.F32
        packed = gguf.quants.quantize(np.ascontiguousarray(w), kind)
        used[name] = gguf.quants.dequantize(packed, kind)
        new = EXPERTS.get(name.split(".mlp.")[-1])
        new = f"blk.{name.split('.')[2]}.{new}" if new else names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(new, packed, raw_dtype=kind)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "llama3":
        head = config.hidden_size // config.num_attention_heads
        writer.add_tensor("rope_freqs.weight", factors(rope, head))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rounded(model, arch, dtype):
    """The model with the values that its blocks stand for."""
    if dtype == "F32":
        return model
    kind = gguf.GGMLQuantizationType[dtype]
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() < 2:
                continue
            w = p.numpy()
            turned = arch == "gpt2" and ".h." in name
            w = np.ascontiguousarray(w.T if turned else w)
            w = gguf.quants.dequantize(gguf.quants.quantize(w, kind), kind)
            p.copy_(torch.from_numpy(np.ascontiguousarray(w.T if turned else w)))
    return model


# ---- Quern --------------------------------------------------------------------------------------

class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("context", ctypes.c_int64), ("chunk", ctypes.c_int64),
                ("half", ctypes.c_bool), ("copied", ctypes.c_bool)]


class Generate(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("most", ctypes.c_int64), ("sample", ctypes.c_void_p),
                ("stops", ctypes.c_int), ("stop", ctypes.c_void_p), ("ignore_end", ctypes.c_bool),
                ("piece", ctypes.c_void_p), ("arg", ctypes.c_void_p)]


class Library:
    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(path)
        for name in ("qn_open", "qn_llm_open"):
            getattr(lib, name).restype = ctypes.c_void_p
        lib.qn_error.restype = ctypes.c_char_p
        lib.qn_llm_generate.restype = ctypes.c_int64
        self.qn = ctypes.c_void_p(lib.qn_open(None))

    def error(self):
        text = self.lib.qn_error(self.qn).decode()
        self.lib.qn_clear_error(self.qn)
        return text

    def open(self, path):
        options = Options(ctypes.sizeof(Options), 400, 32, False)
        return ctypes.c_void_p(self.lib.qn_llm_open(self.qn, path.encode(), ctypes.byref(options)))

    def answer(self, path, ids, places, tokens, vocabulary):
        """Logits behind prefixes, and what follows the whole text; None: an error was said."""
        lib = self.lib
        m = self.open(path)
        if not m:
            return print(f"  {self.error()}")
        data = (ctypes.c_int32 * len(ids))(*ids)
        rows, at = [], 0
        for place in places:
            out = ctypes.POINTER(ctypes.c_float)()
            code = lib.qn_llm_feed(m, ctypes.c_int64(place - at), ctypes.byref(data, 4 * at), ctypes.byref(out))
            if code:
                return print(f"  {self.error()}")
            rows.append(np.ctypeslib.as_array(out, (vocabulary,)).copy())
            at = place
        options = Generate(ctypes.sizeof(Generate), tokens, None, 0, None, True, None, None)
        out = ctypes.POINTER(ctypes.c_int32)()
        n = lib.qn_llm_generate(m, ctypes.c_int64(len(ids)), data, ctypes.byref(options), ctypes.byref(out))
        made = [out[i] for i in range(n)]
        if n < 0:
            print(f"  {self.error()}")
        lib.qn_llm_close(m)
        return rows, made


def expected(model, ids, places, tokens):
    with torch.no_grad():
        x = torch.tensor([ids])
        logits = model(x).logits[0].numpy()
        made = model.generate(input_ids=x, max_new_tokens=tokens, do_sample=False, eos_token_id=None, pad_token_id=0,
                              attention_mask=torch.ones_like(x))
    return [logits[i - 1] for i in places], made[0].tolist()[len(ids):]


def case(library, name, path, model, tokens):
    vocabulary = model.config.vocab_size
    rng = np.random.default_rng(1)
    ids = rng.integers(3, vocabulary, 75).tolist()
    places = [1, 2, 7, 40, 75]
    want, want_made = expected(model, ids, places, tokens)
    got = library.answer(path, ids, places, tokens, vocabulary)
    worst = max((np.abs(a - b).max() / np.abs(b).max() for a, b in zip(got[0], want)), default=9) if got else 9
    same = sum(a == b for a, b in zip(got[1], want_made)) if got else 0
    fine = worst <= 1e-4 and same == tokens
    print(f"{'ok  ' if fine else 'FAIL'} {name}: logits within {worst:.1e}, {same} of {tokens} tokens")
    return fine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--family")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--folder")
    o = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    library = Library(o.library)
    results = []
    with tempfile.TemporaryDirectory(dir=o.folder) as folder:
        for name, arch, kind, changes in FAMILIES:
            wanted = not o.family or o.family == name
            if wanted:
                model = make(kind, changes)
                path = os.path.join(folder, name)
                model.save_pretrained(path)
                results.append(case(library, f"{name} safetensors", path, model, o.tokens))
            kinds = [k for f, k in BLOCKS if f == name]
            for dtype in ["F32"] + kinds if wanted and arch else []:
                path = os.path.join(folder, f"{name}-{dtype}.gguf")
                write_gguf(path, model, arch, dtype)
                same = rounded(make(kind, changes), arch, dtype)
                results.append(case(library, f"{name} gguf {dtype}", path, same, o.tokens))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
