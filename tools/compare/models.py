#!/usr/bin/env python3
"""models.py - holds the models of models/*.c against PyTorch.

Usage: models.py FOLDER [NAME]...    FOLDER: what test_models --save wrote

Each file has a state dict, a batch, the loss in training, gradients, and buffers behind the step. The same network,
written here with torch.nn and the names of its well-known implementation, loads the state by name and must give the
same. Prints a line a model; ends with status 1 where one is off.
"""

import json
import math
import os
import struct
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

DTYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "U32": np.uint32}


def read(path):
    """The tensors of a safetensors file, and its metadata."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    head, data = json.loads(data[8:8 + size]), data[8 + size:]
    metadata = head.pop("__metadata__", {})
    tensors = {}
    for name, x in head.items():
        begin, end = x["data_offsets"]
        array = np.frombuffer(data[begin:end], DTYPES[x["dtype"]]).reshape(x["shape"])
        tensors[name] = torch.tensor(array)
    return tensors, metadata


# ---- networks: each takes the config, and gives the loss of the inputs ------------------------------------------

class Mlp(nn.Sequential):
    def __init__(self, c):
        parts, width = [], c.get("in", 784)
        for _ in range(c["layers"]):
            parts += [nn.Linear(width, c["hidden"]), nn.ReLU(), nn.Dropout(0)]
            width = c["hidden"]
        super().__init__(*parts, nn.Linear(width, c["classes"]))

    def loss(self, images, labels):
        return F.cross_entropy(self(images), labels)


class ResidualBlock(nn.Module):
    """kernels of the convolutions; the stride is that of the first 3 x 3."""

    def __init__(self, into, width, stride, kernels):
        super().__init__()
        out = width * (4 if len(kernels) == 3 else 1)
        widths = [into] + [width] * (len(kernels) - 1) + [out]
        strided = kernels.index(3)
        self.n = len(kernels)
        for i, k in enumerate(kernels):
            setattr(self, f"conv{i + 1}", nn.Conv2d(widths[i], widths[i + 1], k, stride if i == strided else 1, k // 2,
                                                    bias=False))
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(widths[i + 1]))
        self.downsample = None
        if stride != 1 or into != out:
            self.downsample = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(self.n):
            y = getattr(self, f"bn{i + 1}")(getattr(self, f"conv{i + 1}")(y))
            y = y.relu() if i + 1 < self.n else y
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class Resnet(nn.Module):
    def __init__(self, c, blocks, kernels):
        super().__init__()
        self.small, into, width = c.get("small"), c["width"], c["width"]
        self.conv1 = nn.Conv2d(c.get("channels", 3), into, *((3, 1, 1) if self.small else (7, 2, 3)), bias=False)
        self.bn1 = nn.BatchNorm2d(into)
        for stage, n in enumerate(blocks):
            parts = []
            for i in range(n):
                parts.append(ResidualBlock(into, width, 2 if stage and not i else 1, kernels))
                into = width * (4 if len(kernels) == 3 else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*parts))
            width *= 2
        self.fc = nn.Linear(into, c["classes"])

    def loss(self, images, labels):
        x = self.bn1(self.conv1(images)).relu()
        x = x if self.small else F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return F.cross_entropy(self.fc(x.mean((2, 3))), labels)


class Lstm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = nn.Embedding(c["vocabulary"], c["width"])
        self.rnn = nn.LSTM(c["width"], c["hidden"], c["layers"], batch_first=True)
        self.decoder = nn.Linear(c["hidden"], c["vocabulary"])

    def loss(self, ids, targets):
        return F.cross_entropy(self.decoder(self.rnn(self.encoder(ids))[0]).flatten(0, 1), targets.flatten())


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def softmax_attention(q, k, v, causal):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Conv1D(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(into, out)), nn.Parameter(torch.empty(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        w, self.heads = c["width"], c["heads"]
        self.transformer = t = nn.Module()
        t.wte, t.wpe, t.ln_f = nn.Embedding(c["vocabulary"], w), nn.Embedding(c["context"], w), nn.LayerNorm(w)
        t.h = nn.ModuleList()
        for _ in range(c["layers"]):
            b = nn.Module()
            b.ln_1, b.ln_2, b.attn, b.mlp = nn.LayerNorm(w), nn.LayerNorm(w), nn.Module(), nn.Module()
            b.attn.c_attn, b.attn.c_proj = Conv1D(w, 3 * w), Conv1D(w, w)
            b.mlp.c_fc, b.mlp.c_proj = Conv1D(w, 4 * w), Conv1D(4 * w, w)
            t.h.append(b)

    def loss(self, ids, targets):
        t = self.transformer
        x = t.wte(ids) + t.wpe.weight[:ids.shape[1]]
        for b in t.h:
            q, k, v = (heads_of(p, self.heads) for p in b.attn.c_attn(b.ln_1(x)).chunk(3, -1))
            x = x + b.attn.c_proj(softmax_attention(q, k, v, True))
            x = x + b.mlp.c_proj(F.gelu(b.mlp.c_fc(b.ln_2(x)), approximate="tanh"))
        return F.cross_entropy((t.ln_f(x) @ t.wte.weight.T).flatten(0, 1), targets.flatten())


NETWORKS = {
    "mlp": Mlp,
    "resnet18": lambda c: Resnet(c, (2, 2, 2, 2), (3, 3)),
    "resnet50": lambda c: Resnet(c, (3, 4, 6, 3), (1, 3, 1)),
    "lstm": Lstm,
    "gpt2": Gpt2,
}


# ---- comparing --------------------------------------------------------------------------------------------------

def part(tensors, kind):
    return {name[len(kind) + 1:]: x for name, x in tensors.items() if name.startswith(kind + "/")}


def off(a, b):
    """How far a is from b, beside the largest of b."""
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-6))


def compare(name, path):
    """What is off, worst first: (how far, what)."""
    tensors, metadata = read(path)
    config = {k: float(v) if "." in v else int(v) for k, v in (p.split("=") for p in metadata["config"].split())}
    net = NETWORKS[name](config).double()
    state, buffers = part(tensors, "state"), part(tensors, "after")
    missing = net.load_state_dict(state, strict=False)
    if missing.unexpected_keys or {k for k, _ in net.named_parameters()} & set(missing.missing_keys):
        sys.exit(f"{name}: names of the state do not fit: {missing}")
    inputs = {k: x.long() if x.dtype == torch.int32 else x.double() for k, x in part(tensors, "in").items()}
    loss = net.loss(**inputs)
    loss.backward()
    found = [(off(tensors["out/loss"].double(), loss.detach()), "loss")]
    for key, p in net.named_parameters():
        found.append((off(tensors["grad/" + key].double(), p.grad), "grad " + key))
    torch_buffers = dict(net.named_buffers())
    for key, x in buffers.items():
        found.append((off(x.double(), torch_buffers[key].double()), "buffer " + key))
    if set(buffers) != set(torch_buffers):
        sys.exit(f"{name}: buffers are {sorted(set(buffers) ^ set(torch_buffers))} apart")
    return sorted(found, reverse=True), float(loss.detach())


def main():
    torch.set_num_threads(1)
    folder, names, bad = sys.argv[1], sys.argv[2:] or list(NETWORKS), 0
    for name in names:
        found, loss = compare(name, os.path.join(folder, name + ".safetensors"))
        worst, what = found[0]
        fine = worst < 1e-4 and dict((w, x) for x, w in found)["loss"] < 1e-5
        bad += not fine
        print(f"{'ok  ' if fine else 'OFF '} {name}: loss {loss:.6f}, of {len(found)} tensors {what} is furthest off, "
              f"by {worst:.1e}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
