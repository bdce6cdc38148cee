#!/usr/bin/env python3
"""perplexity.py - a language model in GGUF: perplexity and logits of Quern and of llama.cpp.

Usage: perplexity.py --quern build/quern --library build/libquern.so.0 --llama FOLDER
                     [--folder PATH] [--steps N] [--windows N]

FOLDER has llama.cpp's programs; without llama-perplexity there it says so and does nothing. A Llama
of 11.5 million parameters is trained by torch on this source tree, with a tokenizer of its own,
once: PATH keeps it, so that a later call finds it again. It becomes GGUF in f16, q8_0 and q4_0 by
`quern convert` and in q4_K by llama-quantize, and both programs read the same text that it has not
seen, in windows of the same size.

Beside them stands an oracle: the model in double precision, of the weights that the blocks stand
for. So what either side rounds is told apart from what the blocks lost. For each way there is the
perplexity, and the NMSE of log-probabilities beside the oracle's (what is 16 below the likeliest
counts as 16 below, as llama.cpp keeps them). A case passes if `quern perplexity` is the oracle's to
3 digits, if both programs read the same tokens, and if llama.cpp is within 1 in 100. The last line is
`N passed, N failed`. Needs numpy and gguf, and for training torch, transformers and tokenizers.
"""

import argparse
import ctypes
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
WINDOW = 512
SIZES = dict(vocab_size=4096, hidden_size=256, num_hidden_layers=12, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=768, max_position_embeddings=2048, bos_token_id=0, eos_token_id=0,
             tie_word_embeddings=False)


# ---- the model ----------------------------------------------------------------------------------

def texts():
    """What the model learns from, and what it does not see: one file in twenty."""
    learned, held = [], []
    for folder in ("src", "include", "docs", "tools", "models", "tests", "python", "examples"):
        for path, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            for name in sorted(names):
                file = os.path.join(path, name)
                if not name.endswith((".c", ".h", ".md", ".py", ".sh")) or os.path.getsize(file) > 200000:
                    continue
                if "/unicode/" in file or "/cases/" in file:
                    continue
                text = open(file, encoding="utf-8", errors="replace").read()
                (held if hash_of(name) % 20 == 0 else learned).append(text)
    return learned, held


def hash_of(name):
    return sum(ord(c) * 31**(i % 7) for i, c in enumerate(name))


def tokenizer_of(learned, path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    if os.path.exists(path):
        return Tokenizer.from_file(path)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
    t.train_from_iterator(learned, trainers.BpeTrainer(
        vocab_size=SIZES["vocab_size"], show_progress=False, special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.save(path)
    return t


def train(folder, steps):
    """So many steps of 4 windows, from where folder/model is, if there is one."""
    import torch
    import transformers
    torch.manual_seed(0)
    learned, _ = texts()
    tokenizer = tokenizer_of(learned, os.path.join(folder, "tokenizer.json"))
    ids = np.array([i for text in learned for i in tokenizer.encode(text).ids + [0]])
    print(f"{sum(map(len, learned))} bytes, {len(ids)} tokens", flush=True)
    path = os.path.join(folder, "model")
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    if os.path.exists(path):
        model = transformers.LlamaForCausalLM.from_pretrained(path, dtype=torch.float32)
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)
    rng, begun = random.Random(steps), time.time()
    for step in range(steps):
        rate = min((step + 1) / 40, 1) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * rate
        at = [rng.randrange(len(ids) - WINDOW) for _ in range(4)]
        x = torch.tensor(np.stack([ids[i:i + WINDOW] for i in at]))
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x, labels=x).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 19:
            print(f"step {step + 1}: loss {loss.item():.3f}, {time.time() - begun:.0f} s", flush=True)
        if step % 100 == 99:
            model.save_pretrained(path)
    model.save_pretrained(path)


# ---- files --------------------------------------------------------------------------------------

def write_gguf(folder, path):
    """folder/model and folder/tokenizer.json in f32; a text begins with <|endoftext|>."""
    import gguf
    import json
    from safetensors.numpy import load_file
    weights = load_file(os.path.join(folder, "model", "model.safetensors"))
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        model = json.load(file)["model"]
    writer, heads = gguf.GGUFWriter(path, "llama"), SIZES["num_attention_heads"]
    head = SIZES["hidden_size"] // heads
    writer.add_context_length(SIZES["max_position_embeddings"])
    writer.add_embedding_length(SIZES["hidden_size"])
    writer.add_block_count(SIZES["num_hidden_layers"])
    writer.add_feed_forward_length(SIZES["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(SIZES["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(THETA)
    writer.add_vocab_size(SIZES["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(model["vocab"], key=model["vocab"].get))
    writer.add_token_types([3] + [1] * (SIZES["vocab_size"] - 1))
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(True)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, SIZES["num_hidden_layers"])
    for name, w in weights.items():
        w = w.astype(np.float32)
        if ".q_proj." in name or ".k_proj." in name:  # pairs side by side
            w = w.reshape(w.shape[0] // head, 2, head // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(w))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def held_text(quern, model, windows):
    """A text that the model has not seen, of so many windows and less than one more."""
    text, lo, hi = "\n".join(texts()[1]).replace("<|", "< |"), 0, windows * WINDOW * 8
    while lo < hi:
        middle = (lo + hi) // 2
        n = len(quern.encode(model, text[:middle])) // WINDOW
        if n == windows:
            return text[:middle]
        lo, hi = (lo, middle) if n > windows else (middle + 1, hi)
    sys.exit(f"perplexity: no text of {windows} windows was held out")


# ---- the oracle ---------------------------------------------------------------------------------

THETA, EPSILON = 10000.0, 1e-6


class Oracle:
    """The model of a GGUF file in double precision, by NumPy."""

    def __init__(self, path):
        import gguf
        self.w = {t.name[:-len(".weight")]: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64)
                  for t in gguf.GGUFReader(path).tensors}

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * self.w[name]

    def turned(self, x):
        n, half = x.shape[1], x.shape[2] // 2
        angle = np.arange(n)[:, None] * THETA**(-np.arange(half) / half)
        a, b, c, s = x[..., 0::2], x[..., 1::2], np.cos(angle), np.sin(angle)
        return np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)

    def heads(self, x, name):
        y = x @ self.w[name].T
        return y.reshape(len(x), -1, SIZES["hidden_size"] // SIZES["num_attention_heads"]).swapaxes(0, 1)

    def log_probabilities(self, ids):
        x = self.w["token_embd"][ids]
        mask = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        times = SIZES["num_attention_heads"] // SIZES["num_key_value_heads"]
        for i in range(SIZES["num_hidden_layers"]):
            b = f"blk.{i}."
            y = self.norm(x, b + "attn_norm")
            q, k = self.turned(self.heads(y, b + "attn_q")), self.turned(self.heads(y, b + "attn_k"))
            k, v = np.repeat(k, times, 0), np.repeat(self.heads(y, b + "attn_v"), times, 0)
            e = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[2]) + mask
            e = np.exp(e - e.max(-1, keepdims=True))
            y = (e / e.sum(-1, keepdims=True)) @ v
            x = x + y.swapaxes(0, 1).reshape(len(ids), -1) @ self.w[b + "attn_output"].T
            y = self.norm(x, b + "ffn_norm")
            gate = y @ self.w[b + "ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ self.w[b + "ffn_up"].T)) @ self.w[b + "ffn_down"].T
        return log_softmax(self.norm(x, "output_norm") @ self.w["output"].T)


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


# ---- the two programs ---------------------------------------------------------------------------

class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("context", ctypes.c_int64), ("chunk", ctypes.c_int64),
                ("half", ctypes.c_bool), ("caches", ctypes.c_int64), ("copied", ctypes.c_bool),
                ("activation_bits", ctypes.c_int64)]


class Quern:
    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(os.path.abspath(path))
        lib.qn_open.restype = lib.qn_llm_open.restype = ctypes.c_void_p
        lib.qn_error.restype = ctypes.c_char_p
        lib.qn_llm_encode.restype = ctypes.c_int64
        self.qn = ctypes.c_void_p(lib.qn_open(None))

    def check(self, fine):
        if not fine:
            sys.exit("perplexity: " + self.lib.qn_error(self.qn).decode())

    def open(self, path, bits):
        options = Options(ctypes.sizeof(Options), WINDOW, 0, False, 0, False, bits)
        m = self.lib.qn_llm_open(self.qn, path.encode(), ctypes.byref(options))
        self.check(m)
        return ctypes.c_void_p(m)

    def encode(self, path, text):
        m, out, data = self.open(path, 0), ctypes.POINTER(ctypes.c_int32)(), text.encode()
        n = self.lib.qn_llm_encode(m, data, ctypes.c_size_t(len(data)), ctypes.byref(out))
        self.check(n >= 0)
        ids = np.array(out[:n])
        self.lib.qn_llm_close(m)
        return ids

    def log_probabilities(self, path, windows, bits):
        """Of the second half of each window: a chunk, then token by token."""
        m, rows, out = self.open(path, bits), [], ctypes.POINTER(ctypes.c_float)()
        for ids in windows:
            data = (ctypes.c_int32 * WINDOW)(*ids)
            self.lib.qn_llm_rewind(m, ctypes.c_int64(0))
            self.check(not self.lib.qn_llm_feed(m, ctypes.c_int64(WINDOW // 2), data, None))
            for at in range(WINDOW // 2, WINDOW - 1):
                one = ctypes.byref(data, 4 * at)
                self.check(not self.lib.qn_llm_feed(m, ctypes.c_int64(1), one, ctypes.byref(out)))
                rows.append(np.ctypeslib.as_array(out, (SIZES["vocab_size"],)).copy())
        self.lib.qn_llm_close(m)
        return log_softmax(np.array(rows))


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    if done.returncode:
        sys.exit(f"perplexity: {command[0]}: {done.stdout[-2000:]}")
    return done.stdout


def llama(program, model, text, windows, folder):
    """Its perplexity, its tokens, and log-probabilities of 16 bits each."""
    file = os.path.join(folder, "logits")
    for _ in range(5):  # now and then it ends before its last line is out
        said = run(program, "-m", model, "-f", text, "-c", WINDOW, "-b", WINDOW, "--chunks", windows, "-t", 1,
                   "--kl-divergence-base", file)
        found = re.search(r"PPL = ([0-9.]+)", said)
        if found:
            break
    else:
        sys.exit(f"perplexity: {program} says no perplexity: {said[-2000:]}")
    with open(file, "rb") as f:
        data = f.read()
    os.remove(file)
    size, vocabulary, chunks = np.frombuffer(data, np.int32, 3, 8)
    ids = np.frombuffer(data, np.int32, size * chunks, 20).reshape(chunks, size)
    row = 2 * ((vocabulary + 1) // 2) + 4
    rows = np.frombuffer(data, np.uint16, offset=20 + 4 * size * chunks).reshape(-1, row)
    scale = np.ascontiguousarray(rows[:, :4]).view(np.float32).astype(np.float64)
    return float(found[1]), ids, rows[:, 4:4 + vocabulary] * scale[:, :1] + scale[:, 1:]


# ---- what is compared ---------------------------------------------------------------------------

def nmse(got, want):
    got, want = (np.maximum(x, x.max(-1, keepdims=True) - 16) for x in (got, want))
    return ((got - want)**2).sum() / ((want - want.mean(-1, keepdims=True))**2).sum()


def perplexity(rows, windows):
    after = np.array([ids[WINDOW // 2 + 1:] for ids in windows]).reshape(-1)
    return math.exp(-rows[np.arange(len(after)), after].mean())


def say(name, value, rows, want):
    same = (rows.argmax(1) == want.argmax(1)).mean()
    print(f"  {name:14} perplexity {value:.4f}, NMSE {nmse(rows, want):.1e}, same likeliest {same:.4f}", flush=True)


def case(o, quern, name, model, text):
    with open(text, encoding="utf-8") as file:
        ids = quern.encode(model, file.read())
    windows = ids[:o.windows * WINDOW].reshape(-1, WINDOW).copy()
    theirs, their_ids, their_rows = llama(os.path.join(o.llama, "llama-perplexity"), model, text, o.windows, o.folder)
    same = np.array_equal(their_ids, windows)
    windows[:, 0] = 0
    oracle = Oracle(model)
    want = np.concatenate([oracle.log_probabilities(ids)[WINDOW // 2:-1] for ids in windows])
    exact = perplexity(want, windows)
    said = run(o.quern, "perplexity", model, "--text", text, "--window", WINDOW)
    ours = float(re.search(r"perplexity ([0-9.]+) over (\d+)", said)[1])
    print(f"{name}: {len(want)} tokens, which are {'the same' if same else 'NOT THE SAME'}")
    print(f"  oracle         perplexity {exact:.4f}")
    print(f"  quern          perplexity {ours:.4f}")
    for bits in (0, 8):
        rows = quern.log_probabilities(model, windows, bits)
        say(f"quern {'by bytes' if bits else 'in f32'}", perplexity(rows, windows), rows, want)
    say("llama.cpp", theirs, their_rows, want)
    fine = same and abs(ours / exact - 1) < 5e-4 and abs(theirs / exact - 1) < 1e-2
    print(f"{'ok  ' if fine else 'FAIL'} {name}", flush=True)
    return fine


def compare(o):
    if not os.path.exists(os.path.join(o.folder, "model")):
        train(o.folder, o.steps)
    base, text = (os.path.join(o.folder, name) for name in ("f32.gguf", "held.txt"))
    write_gguf(o.folder, base)
    quern, results = Quern(o.library), []
    with open(text, "w", encoding="utf-8") as file:
        file.write(held_text(quern, base, o.windows))
    for name, option in (("f16", ("--dtype", "f16")), ("q4_k", None), ("q8_0", ("--quantize", "q8_0")),
                         ("q4_0", ("--quantize", "q4_0"))):
        model = os.path.join(o.folder, name + ".gguf")
        if option:
            run(o.quern, "convert", base, model, *option)
        else:  # what Quern reads and does not write
            run(os.path.join(o.llama, "llama-quantize"), "--pure", base, model, "Q4_K_S")
        results.append(case(o, quern, name, model, text))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quern", default="build/quern")
    parser.add_argument("--library", default="build/libquern.so.0")
    parser.add_argument("--llama", required=True, help="the folder of llama-perplexity")
    parser.add_argument("--folder")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--windows", type=int, default=16)
    o = parser.parse_args()
    if not os.path.exists(os.path.join(o.llama, "llama-perplexity")):
        print(f"skipped: there is no llama-perplexity in {o.llama}")
        return 0
    if o.folder:
        os.makedirs(o.folder, exist_ok=True)
        return compare(o)
    with tempfile.TemporaryDirectory() as o.folder:
        return compare(o)


if __name__ == "__main__":
    sys.exit(main())
