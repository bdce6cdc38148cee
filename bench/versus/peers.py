#!/usr/bin/env python3
"""peers.py - players that live in Python: NumPy, JAX, onnxruntime, PyTorch.

Usage: peers.py NAME THREADS    started by the director (client.c), spoken to over its standard input
and output; player.c has the protocol. A player is a class with make(kind, d): a function of no
arguments that does the case once and waits for it, or None where the library has no such thing. The
result of the last call is kept in self.out, as something np.asarray takes.
"""

import math
import os
import sys
import time

try:
    import numpy as np
except ImportError:
    print("no this Python has no NumPy")
    sys.exit(0)

import peers_lists
import peers_nets

MATRIX = ("gemm", "gemm_packed")
ATTENTION = ("attention", "attention_causal", "attention_grad", "attention_causal_grad")
CONV = ("conv", "conv_last", "conv_data", "conv_weights")


def value(number, n):
    """vs_value of case.c for elements 0 .. n - 1 of input `number`."""
    out = np.empty(n, np.float32)
    for at in range(0, n, 1 << 20):
        i = np.arange(at + 1, min(at + (1 << 20), n) + 1, dtype=np.uint64)
        h = (i * np.uint64(2654435761) + np.uint64((number + 1) * 0x9E3779B9)).astype(np.uint32)
        h ^= h >> np.uint32(15)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        out[at:at + len(h)] = (h >> np.uint32(8)).astype(np.float32) / np.float32(8388608) - np.float32(1)
    return out


def array(number, *shape):
    return value(number, math.prod(shape)).reshape(shape)


def inputs(kind, d):
    """The inputs as case.c has them, in NumPy."""
    if kind in MATRIX:
        b, m, n, k, swapped = d[:5]
        lead = (b,) if b > 1 else ()
        return [array(0, *lead, m, k), array(1, *lead, *((n, k) if swapped else (k, n)))]
    if kind == "fma":
        return [array(i, d[0]) for i in range(3)]
    if kind in ("neg", "exp", "tanh", "gelu", "gelu_tanh", "dispatch"):
        return [array(0, d[0])]
    if kind in ("sum_all", "sum_rows", "sum_columns", "softmax", "layer_norm", "transpose"):
        return [array(0, *d[:2])]
    if kind in peers_lists.ALL:
        return peers_lists.inputs(kind, array, d)
    if kind in ATTENTION:
        return [array(i, *d[:4]) for i in range(4 if kind.endswith("grad") else 3)]
    if kind in CONV:
        b, c, size, o, k, stride, groups = d
        image = [b, size, size, c] if kind == "conv_last" else [b, c, size, size]
        both = [array(0, *image), array(1, o, c // groups, k, k)]
        return both + ([array(2, b, o, size // stride, size // stride)] if kind in CONV[2:] else [])
    if kind == "mlp":
        zeros = [np.zeros(d[1], np.float32), np.zeros(d[2], np.float32)]
        return [array(0, d[0], d[1]) * np.float32(0.05), array(1, d[1], d[2]) * np.float32(0.05)] + \
            zeros + [array(2, d[3], d[0]), np.arange(d[3]) % d[2]]
    return None


def gpt_weights(d):
    """A GPT's parameters in src/nn/gpt.c's order, matrices as vs_gpt_weight of case.c has them."""
    vocabulary, context, layers, _, width = d[:5]
    norm, wide = [(width,), (width,)], 4 * width

    def linear(rows, columns):
        return [(rows, columns), (rows,)]
    block = norm + linear(3 * width, width) + linear(width, width) + norm + linear(wide, width) + \
        linear(width, wide)
    shapes = [(vocabulary, width), (context, width)] + layers * block + norm + [(vocabulary, width)]
    ones = {2 + 12 * i + j for i in range(layers) for j in (0, 6)} | {2 + 12 * layers}
    scale = np.float32(0.02) * np.float32(1.7320508)
    return [array(i, *shape) * scale if len(shape) > 1 else np.full(shape, i in ones, np.float32)
            for i, shape in enumerate(shapes)]


def gpt_ids(d):
    """Tokens and their successors."""
    ids = (np.arange(d[5] * d[1] + 1) * 7919 % d[0]).astype(np.int32)
    return [v.reshape(d[5], d[1]) for v in (ids[:-1], ids[1:])]


class Losses:
    """The losses of the steps taken so far; who asks for later ones has them taken."""

    def __init__(self, step, losses):
        self.step, self.losses = step, losses

    def get(self, i):
        while len(self.losses) <= i:
            self.step()
        return float(self.losses[i])


def keeping(player, run):
    """run, its result kept as the player's."""
    def call():
        player.out = run()
    return run and call


class Numpy:
    def __init__(self, threads):
        pass

    def make(self, kind, d):
        x = inputs(kind, d)
        if kind in peers_lists.ALL:
            return keeping(self, peers_lists.numpy_lists(kind, d, x))
        if x is None or kind in ("gelu", "gemm_packed", "mlp") + ATTENTION + CONV:
            return None
        shape = {"gemm": lambda: x[0].shape[:-1] + (d[2],), "transpose": lambda: (d[1], d[0]),
                 "sum_all": lambda: (1,), "sum_rows": lambda: (d[0],), "sum_columns": lambda: (d[1],)}
        out = self.out = np.empty(shape.get(kind, lambda: x[0].shape)(), np.float32)
        if kind == "gemm":
            b = np.swapaxes(x[1], -1, -2) if d[4] else x[1]
            return lambda: np.matmul(x[0], b, out=out)
        return {
            "neg": lambda: np.negative(x[0], out=out),
            "dispatch": lambda: np.add(x[0], x[0], out=out),
            "fma": lambda: np.add(np.multiply(x[0], x[1], out=out), x[2], out=out),
            "exp": lambda: np.exp(x[0], out=out),
            "tanh": lambda: np.tanh(x[0], out=out),
            "gelu_tanh": lambda: self.gelu_tanh(x[0], out),
            "sum_all": lambda: np.sum(x[0], axis=None, out=out[0:1].reshape(())),
            "sum_rows": lambda: np.sum(x[0], axis=1, out=out),
            "sum_columns": lambda: np.sum(x[0], axis=0, out=out),
            "softmax": lambda: self.softmax(x[0], out),
            "layer_norm": lambda: self.layer_norm(x[0], out),
            "transpose": lambda: np.copyto(out, x[0].T),
        }[kind]

    @staticmethod
    def gelu_tanh(x, out):
        np.multiply(x, x, out=out)
        out *= np.float32(0.044715)
        out += np.float32(1)
        out *= x
        out *= np.float32(0.7978845608028654)
        np.tanh(out, out=out)
        out += np.float32(1)
        out *= x
        out *= np.float32(0.5)

    @staticmethod
    def softmax(x, out):
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        out /= out.sum(axis=1, keepdims=True)

    @staticmethod
    def layer_norm(x, out):
        np.subtract(x, x.mean(axis=1, keepdims=True), out=out)
        out /= np.sqrt(np.square(out).mean(axis=1, keepdims=True) + np.float32(1e-5))


class Jax:
    """Everything under jit. XLA takes its number of threads from the processors it may use."""

    def __init__(self, threads):
        import jax
        jax.config.update("jax_platforms", "cpu")
        self.jax, self.jnp = jax, jax.numpy

    def attention(self, causal):
        jax, jnp = self.jax, self.jnp

        def f(q, k, v):
            s = jnp.einsum("bhtd,bhsd->bhts", q, k) * (1 / math.sqrt(q.shape[-1]))
            if causal:
                s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
            return jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(s), v)
        return f

    def conv(self, d, last=False):
        image = "NHWC" if last else "NCHW"
        pad = d[4] // 2
        after = (d[2] // d[5] - 1) * d[5] + d[4] - d[2] - pad
        return lambda x, w: self.jax.lax.conv_general_dilated(
            x, w, (d[5], d[5]), [(pad, after)] * 2, feature_group_count=d[6],
            dimension_numbers=(image, "OIHW", image))

    def layer_norm(self, x):
        y = x - x.mean(axis=1, keepdims=True)
        return y * self.jax.lax.rsqrt((y * y).mean(axis=1, keepdims=True) + 1e-5)

    def function(self, kind, d):
        jax, jnp = self.jax, self.jnp
        if kind in ("gemm", "gemm_packed"):
            return (lambda a, b: a @ jnp.swapaxes(b, -1, -2)) if d[4] else (lambda a, b: a @ b)
        if kind in ATTENTION:
            f = self.attention("causal" in kind)
            return (lambda q, k, v, o: jax.vjp(f, q, k, v)[1](o)) if kind.endswith("grad") else f
        if kind == "conv_data":
            return lambda x, w, o: jax.vjp(lambda x: self.conv(d)(x, w), x)[1](o)[0]
        if kind == "conv_weights":
            return lambda x, w, o: jax.vjp(lambda w: self.conv(d)(x, w), w)[1](o)[0]
        if kind in ("conv", "conv_last"):
            return self.conv(d, kind == "conv_last")
        return {
            "neg": lambda x: -x, "dispatch": lambda x: x + x, "fma": lambda a, b, c: a * b + c,
            "exp": jnp.exp, "tanh": jnp.tanh,
            "gelu": lambda x: jax.nn.gelu(x, approximate=False),
            "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
            "sum_all": jnp.sum, "sum_rows": lambda x: x.sum(axis=1),
            "sum_columns": lambda x: x.sum(axis=0), "softmax": jax.nn.softmax,
            "layer_norm": self.layer_norm, "transpose": lambda x: x.T,
        }[kind]

    def mlp(self, x):
        jax, jnp = self.jax, self.jnp

        def loss(p, data, labels):
            h = jax.nn.relu(data @ p[0] + p[2])
            logits = jax.nn.log_softmax(h @ p[1] + p[3])
            return -jnp.take_along_axis(logits, labels[:, None], 1).mean()

        @jax.jit
        def step(p, data, labels):
            value, g = jax.value_and_grad(loss)(p, data, labels)
            return [a - 0.1 * b for a, b in zip(p, g)], value
        return step

    def gpt(self, d):
        """src/nn/gpt.c's model and AdamW."""
        jax, jnp = self.jax, self.jnp
        layers, heads, width, batch = d[2:6]
        start, (ids, targets) = gpt_weights(d), gpt_ids(d)

        def normed(x, scale, shift):
            y = x - x.mean(-1, keepdims=True)
            return y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * scale + shift

        def loss(p, ids, targets):
            x = p[0][ids] + p[1]
            for b in (p[2 + 12 * i:14 + 12 * i] for i in range(layers)):
                qkv = (normed(x, b[0], b[1]) @ b[2].T + b[3]).reshape(batch, d[1], 3, heads, -1)
                q, k, v = jnp.transpose(qkv, (2, 0, 3, 1, 4))
                y = self.attention(True)(q, k, v).transpose(0, 2, 1, 3).reshape(x.shape)
                x = x + y @ b[4].T + b[5]
                hidden = jax.nn.gelu(normed(x, b[6], b[7]) @ b[8].T + b[9], approximate=False)
                x = x + hidden @ b[10].T + b[11]
            logits = jax.nn.log_softmax(normed(x, p[-3], p[-2]) @ p[-1].T)
            return -jnp.take_along_axis(logits, targets[..., None], -1).mean()

        def step(state, ids, targets):
            p, m, v, t = state
            value, g = jax.value_and_grad(loss)(p, ids, targets)
            each, t = jax.tree_util.tree_map, t + 1
            m = each(lambda a, b: 0.9 * a + 0.1 * b, m, g)
            v = each(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
            a, b = 1e-3 / (1 - 0.9 ** t), 1 / (1 - 0.999 ** t)
            p = each(lambda w, m, v: w * (1 - 1e-5) - a * m / (jnp.sqrt(v * b) + 1e-8), p, m, v)
            return (p, m, v, t), value
        zeros = [np.zeros_like(v) for v in start]
        return jax.jit(step, donate_argnums=0), (start, zeros, [v.copy() for v in zeros], np.float32(0)), [ids, targets]

    def train(self, step, start, data):
        state, losses = [self.jax.device_put(start)], []
        data = [self.jax.device_put(v) for v in data]

        def train():
            state[0], loss = self.jax.block_until_ready(step(state[0], *data))
            losses.append(loss)
        self.out = Losses(train, losses)
        train()
        return train

    def make(self, kind, d):
        if kind == "gpt":
            return self.train(*self.gpt(d))
        x = inputs(kind, d)
        if x is None:
            return None
        x = [self.jax.device_put(v) for v in x]
        if kind == "mlp":
            return self.train(self.mlp(x), x[:4], x[4:])
        function = peers_lists.jax_lists(self.jax, kind, d) if kind in peers_lists.ALL else \
            self.function(kind, d)
        if function is None:
            return None
        compiled = self.jax.jit(function).lower(*x).compile()

        def call():
            out = self.jax.block_until_ready(compiled(*x))
            self.out = out[0] if isinstance(out, (tuple, list)) else out
        return call


class Onnxruntime:
    """One node graphs; onnxruntime packs constant weights when it loads the model."""

    def __init__(self, threads):
        import onnx
        import onnxruntime
        self.onnx, self.ort, self.threads = onnx, onnxruntime, threads

    def nodes(self, kind, d):
        node = self.onnx.helper.make_node
        if kind in MATRIX:
            if d[4] and d[0] == 1:
                return [node("Gemm", ["x0", "x1"], ["y"], transB=1)]
            if d[4]:
                return [node("FusedMatMul", ["x0", "x1"], ["y"], transB=1, domain="com.microsoft")]
            return [node("MatMul", ["x0", "x1"], ["y"])]
        if kind == "conv":
            pad = d[4] // 2
            after = (d[2] // d[5] - 1) * d[5] + d[4] - d[2] - pad
            return [node("Conv", ["x0", "x1"], ["y"], strides=[d[5]] * 2, group=d[6],
                         pads=[pad, pad, after, after])]
        if kind in ("attention", "attention_causal"):
            return [node("MultiHeadAttention", ["x0", "x1", "x2"], ["y"], num_heads=d[1],
                         unidirectional=int("causal" in kind), domain="com.microsoft")]
        simple = {"neg": "Neg", "exp": "Exp", "tanh": "Tanh"}
        if kind in simple:
            return [node(simple[kind], ["x0"], ["y"])]
        if kind in ("gelu", "gelu_tanh"):
            return [node("Gelu", ["x0"], ["y"], approximate="tanh" if kind == "gelu_tanh" else "none")]
        if kind in ("sum_all", "sum_rows", "sum_columns"):
            return [node("ReduceSum", ["x0", "axes"], ["y"], keepdims=0)]
        return {
            "softmax": lambda: [node("Softmax", ["x0"], ["y"], axis=-1)],
            "layer_norm": lambda: [node("LayerNormalization", ["x0", "ones"], ["y"], epsilon=1e-5)],
            "transpose": lambda: [node("Transpose", ["x0"], ["y"], perm=[1, 0])],
        }.get(kind, lambda: None)()

    def make(self, kind, d):
        helper, numpy_helper = self.onnx.helper, self.onnx.numpy_helper
        x, nodes = inputs(kind, d), self.nodes(kind, d)
        if x is None or nodes is None:
            return None
        constant, floats = [], self.onnx.TensorProto.FLOAT
        if kind.startswith("attention"):  # its streaming kernel has the heads side by side
            x = [np.ascontiguousarray(v.transpose(0, 2, 1, 3)).reshape(d[0], d[2], -1) for v in x]
        if kind in ("gemm_packed", "conv"):
            constant.append(numpy_helper.from_array(x.pop(), "x1"))
        if kind.startswith("sum"):
            axes = {"sum_all": [0, 1], "sum_rows": [1], "sum_columns": [0]}[kind]
            constant.append(numpy_helper.from_array(np.array(axes, np.int64), "axes"))
        if kind == "layer_norm":
            constant.append(numpy_helper.from_array(np.ones(d[1], np.float32), "ones"))
        names = [helper.make_tensor_value_info(f"x{i}", floats, v.shape) for i, v in enumerate(x)]
        graph = helper.make_graph(nodes, "case", names, [helper.make_tensor_value_info("y", floats, None)],
                                  constant)
        opset = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=10)
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        session = self.ort.InferenceSession(model.SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        self.held = [self.ort.OrtValue.ortvalue_from_numpy(v) for v in x]
        for i, v in enumerate(self.held):
            binding.bind_ortvalue_input(f"x{i}", v)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        y = self.ort.OrtValue.ortvalue_from_numpy(binding.copy_outputs_to_cpu()[0])
        binding.bind_ortvalue_output("y", y)  # from now on into the same memory
        self.out = None

        def call():
            session.run_with_iobinding(binding)
            self.out = heads() if kind.startswith("attention") else y

        class heads:  # the output as the other players have it, when it is looked at
            def numpy(self):
                return y.numpy().reshape(d[0], d[2], d[1], d[3]).transpose(0, 2, 1, 3)
        return call


class Torch:
    compiled = False

    def __init__(self, threads):
        import torch
        torch.set_num_threads(threads)
        self.torch = torch
        self.fast = torch.compile if self.compiled else lambda f: f

    def train(self, step):
        losses = []

        def train():
            losses.append(step().detach())
        self.out = Losses(train, losses)
        train()
        return train

    def mlp(self, x):
        torch = self.torch
        p = [v.clone().requires_grad_() for v in x[:4]]
        labels = x[5].long()

        @self.fast
        def loss_of(p):
            h = torch.relu(torch.addmm(p[2], x[4], p[0]))
            return torch.nn.functional.cross_entropy(torch.addmm(p[3], h, p[1]), labels)

        def step():
            loss = loss_of(p)
            grads = torch.autograd.grad(loss, p)
            with torch.no_grad():
                torch._foreach_add_(p, grads, alpha=-0.1)
            return loss
        return self.train(step)

    def gpt(self, d):
        """src/nn/gpt.c's model with PyTorch's own attention and its AdamW of one kernel."""
        torch, f = self.torch, self.torch.nn.functional
        layers, heads, width, batch = d[2:6]
        p = [torch.from_numpy(v).requires_grad_() for v in gpt_weights(d)]
        ids, targets = (torch.from_numpy(v).long() for v in gpt_ids(d))
        optimizer = torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01, fused=True)

        @self.fast
        def loss_of(p):
            x = f.embedding(ids, p[0]) + p[1]
            for b in (p[2 + 12 * i:14 + 12 * i] for i in range(layers)):
                qkv = f.linear(f.layer_norm(x, (width,), b[0], b[1]), b[2], b[3])
                q, k, v = qkv.view(batch, d[1], 3, heads, -1).permute(2, 0, 3, 1, 4)
                y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + f.linear(y.transpose(1, 2).reshape(x.shape), b[4], b[5])
                hidden = f.gelu(f.linear(f.layer_norm(x, (width,), b[6], b[7]), b[8], b[9]))
                x = x + f.linear(hidden, b[10], b[11])
            logits = f.linear(f.layer_norm(x, (width,), p[-3], p[-2]), p[-1])
            return f.cross_entropy(logits.view(-1, d[0]), targets.view(-1))

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(p)
            loss.backward()
            optimizer.step()
            return loss
        return self.train(step)

    def make(self, kind, d):
        torch = self.torch
        if kind == "gpt":
            return self.gpt(d)
        if kind in ("lstm", "gru", "resnet"):
            return self.train(getattr(peers_nets, kind)(torch, array, d))
        f, x = torch.nn.functional, inputs(kind, d)
        if x is None:
            return None
        x = [torch.from_numpy(np.ascontiguousarray(v)) for v in x]
        if kind == "mlp":
            return self.mlp(x)
        if kind in peers_lists.ALL:
            return keeping(self, peers_lists.torch_lists(torch, kind, d, x))
        if kind.startswith("attention"):
            causal = "causal" in kind
            if kind.endswith("grad"):
                leaves = [v.requires_grad_() for v in x[:3]]

                def backward():
                    o = f.scaled_dot_product_attention(*leaves, is_causal=causal)
                    self.out = torch.autograd.grad(o, leaves, x[3])[0]
                return backward
            run = lambda: f.scaled_dot_product_attention(*x, is_causal=causal)
        elif kind in ("conv_data", "conv_weights"):
            leaf = x[kind == "conv_weights"].requires_grad_()
            y = f.conv2d(x[0], x[1], padding=d[4] // 2, stride=d[5], groups=d[6])

            def backward():
                self.out = torch.autograd.grad(y, leaf, x[2], retain_graph=True)[0]
            return backward
        elif kind == "conv_last":
            nchw = x[0].permute(0, 3, 1, 2)  # as PyTorch sees channels last

            def forward():
                y = f.conv2d(nchw, x[1], padding=d[4] // 2, stride=d[5], groups=d[6])
                self.out = y.permute(0, 2, 3, 1)
            return forward
        else:
            run = {
                "gemm": lambda: torch.matmul(x[0], x[1].transpose(-1, -2) if d[4] else x[1]),
                "neg": lambda: -x[0], "dispatch": lambda: x[0] + x[0],
                "fma": lambda: torch.addcmul(x[2], x[0], x[1]), "exp": lambda: torch.exp(x[0]),
                "tanh": lambda: torch.tanh(x[0]), "gelu": lambda: f.gelu(x[0]),
                "gelu_tanh": lambda: f.gelu(x[0], approximate="tanh"),
                "sum_all": lambda: x[0].sum(), "sum_rows": lambda: x[0].sum(1),
                "sum_columns": lambda: x[0].sum(0), "softmax": lambda: torch.softmax(x[0], 1),
                "layer_norm": lambda: f.layer_norm(x[0], (d[1],)),
                "transpose": lambda: x[0].t().contiguous(),
                "conv": lambda: f.conv2d(x[0], x[1], padding=d[4] // 2, stride=d[5], groups=d[6]),
            }.get(kind)
        if run is None:
            return None

        def call():
            with torch.inference_mode():
                self.out = run()
        return call


class TorchCompile(Torch):
    """Training steps only, their losses through torch.compile."""
    compiled = True

    def make(self, kind, d):
        return super().make(kind, d) if kind in ("gpt", "mlp") else None


PLAYERS = {"numpy": Numpy, "jax": Jax, "onnxruntime": Onnxruntime, "torch": Torch,
           "torch-compile": TorchCompile}


def elements(out, at, signless):
    if isinstance(out, Losses):
        return [out.get(i) for i in at]
    if hasattr(out, "numpy"):
        out = out.numpy()
    flat = np.asarray(out).reshape(-1)
    return [float(abs(flat[i]) if signless else flat[i]) for i in at]


def answer(player, state, words):
    if words[0] == "load":
        state.clear()
        player.out = None
        call = player.make(words[1], [int(w) for w in words[2:]])
        if call is None:
            return "no such operation"
        state += [call, words[1] == "qr"]  # the signs of R's rows are anybody's choice
        return "ok"
    call = state[0]
    if words[0] == "check":
        call()
        return "ok " + " ".join(f"{v:.9g}" for v in elements(player.out, [int(w) for w in words[1:]], state[1]))
    reps = int(words[1])
    for _ in range(reps // 10 + 1 if reps > 1 else 0):
        call()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(reps):
        call()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return f"ok {wall / reps:.9g} {cpu / reps:.9g}"


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print does not belong in the pipe
    try:
        player, state = PLAYERS[sys.argv[1]](int(sys.argv[2])), []
    except ImportError as error:
        print("no", error, file=out, flush=True)
        return
    print("ok", file=out, flush=True)
    for line in sys.stdin:
        try:
            text = answer(player, state, line.split())
        except Exception as error:  # a case a library cannot do must not end the player
            text = "no " + " ".join(str(error).split())[:200]
        try:
            print(text, file=out, flush=True)
        except BrokenPipeError:  # the director is gone
            return


if __name__ == "__main__":
    main()
