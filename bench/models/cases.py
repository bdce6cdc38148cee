"""cases.py - the networks of models/ with the sizes that the bench gives them, in Quern, PyTorch and JAX.

A row makes the data in NumPy, a model with its loss in Quern (models/) and in PyTorch (python/tests/torch_models.py, of
the same names), and names the loss in JAX (jax_nets.py). Imports are within, for each player has a process of its own.
"""

from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    data: Any           # of a numpy Generator: arrays
    ours: Any           # () -> (model, loss of (model, *data))
    theirs: Any         # the same in PyTorch
    jax: str            # a function of jax_nets
    sizes: Any = {}     # what else it takes


def loss(model, *data):
    return model.loss(*data)


def balanced(model, x):
    return model.loss(x, balance=0.02)


def floats(rng, *shape):
    return rng.standard_normal(shape, np.float32)


def ids(batch, length, vocabulary):
    return lambda rng: [rng.integers(0, vocabulary, (batch, length))]


def images(batch, size, classes):
    return lambda rng: [floats(rng, batch, 3, size, size), rng.integers(0, classes, batch)]


def plain(name, *sizes, loss="label_loss", **named):
    """A model of torch_models, and its loss there."""
    def made():
        from tests import torch_models
        return getattr(torch_models, name)(*sizes, **named), getattr(torch_models, loss)
    return made


def ours(module, name, *sizes, loss=loss, **named):
    def made():
        import importlib
        return getattr(importlib.import_module(module), name)(*sizes, **named), loss
    return made


# ---- what a row does not say ----------------------------------------------------------------------


def pixels(rng):
    return [floats(rng, 2, 3, 96, 96), rng.integers(0, 2, (2, 96, 96))]


def noise(rng):
    return [floats(rng, 16, 100, 1, 1), floats(rng, 16, 3, 32, 32)]


def graph(rng, nodes=2000, edges=10000, into=256):
    """Edges with a loop for each node and their weights, as models/gcn.py's normalised() makes them."""
    pairs, at = rng.integers(0, nodes, (2, edges)), np.arange(nodes)
    weights = np.concatenate([pairs[0] != pairs[1], np.ones(nodes)]).astype(np.float32)
    pairs = np.concatenate([pairs, np.stack([at, at])], 1)
    root = np.bincount(pairs[1], weights, nodes) ** -0.5
    return [floats(rng, nodes, into), pairs, rng.integers(0, 7, nodes // 2), np.arange(0, nodes, 2),
            (root[pairs[0]] * weights * root[pairs[1]]).astype(np.float32)]


def sparse_gcn():
    """Of edges and weights, with index_add, where the tests' has a dense matrix."""
    import torch
    from tests import torch_models

    class GCN(torch_models.GCN):
        def forward(self, x, edges, weights):
            for k, conv in enumerate(self.convs):
                x = conv.lin(torch.relu(x) if k else x)
                x = torch.zeros_like(x).index_add(0, edges[1], weights[:, None] * x[edges[0]]) + conv.bias
            return x
    return GCN(256, 64, 2, 7), lambda m, x, edges, labels, known, w: torch.nn.functional.cross_entropy(
        m(x, edges, w)[known], labels)


def our_generator():
    import gan
    return gan.Generator(100, 32, 3, 32), lambda m, x, y: ((m(x) - y) ** 2).mean()


def their_generator():
    from tests import torch_models
    return torch_models.dcgan(100, 32, 3, 32)[0], lambda m, x, y: (m.main(x) - y).square().mean()


def our_discriminator():
    import gan
    from quern.nn import functional as F
    return gan.Discriminator(32, 3, 32), lambda m, x: F.softplus(m(x)).mean()


def their_discriminator():
    import torch
    from tests import torch_models
    return torch_models.dcgan(100, 32, 3, 32)[1], lambda m, x: torch.nn.functional.softplus(m.main(x)).mean()


def their_llama(layers, mlp, *sizes, loss):
    def made():
        from tests import torch_models
        return (torch_models.Llama(1000, 128, layers, 8, 2, lambda: getattr(torch_models, mlp)(*sizes)),
                getattr(torch_models, loss))
    return made


CASES = {
    "resnet18": Case(images(4, 224, 1000), ours("resnet", "resnet18"), plain("resnet18"), "resnet",
                     {"layers": (2, 2, 2, 2)}),
    "vit tiny": Case(images(4, 224, 1000), ours("vit", "ViT", 224, 16, 12, 3, 192),
                     plain("ViT", 224, 16, 12, 3, 192, 1000), "vit", {"layers": 12, "heads": 3, "patch": 16}),
    "lstm": Case(ids(16, 65, 1000), ours("lstm", "LSTM", 1000, 256, 256, 2, 0.0),
                 plain("LSTM", 1000, 256, 256, 2, loss="next_loss"), "lstm", {"layers": 2}),
    "unet": Case(pixels, ours("unet", "UNet", 3, 2, False, 16), plain("UNet", 3, 2, False, 16, loss="unet_loss"),
                 "unet"),
    "unet resized": Case(pixels, ours("unet", "UNet", 3, 2, True, 16),
                         plain("UNet", 3, 2, True, 16, loss="unet_loss"), "unet"),
    "gcn": Case(graph, ours("gcn", "GCN", 256, 64, 2, 7, 0.0), sparse_gcn, "gcn", {"layers": 2}),
    "gpt2 124M": Case(ids(4, 65, 50257), ours("gpt2", "GPT2", dropout=0.0), plain("GPT2", loss="next_loss"), "gpt2",
                      {"layers": 12, "heads": 12}),
    "moe": Case(ids(8, 65, 1000), ours("moe", "Mixtral", 1000, 128, 2, 8, 2, 256, 8, 2, base=1e4, loss=balanced),
                their_llama(2, "Mixture", 128, 256, 8, 2, loss="mixture_loss"), "llama",
                {"layers": 2, "heads": 8, "kv_heads": 2, "chosen": 2, "balance": 0.02}),
    "llama": Case(ids(8, 65, 1000), ours("llama", "Llama", 1000, 128, 4, 8, 2, 344),
                  their_llama(4, "LlamaMLP", 128, 344, loss="next_loss"), "llama",
                  {"layers": 4, "heads": 8, "kv_heads": 2}),
    "mlp": Case(lambda rng: [floats(rng, 128, 784), rng.integers(0, 10, 128)],
                ours("mlp", "MLP", 784, (512, 256, 10)), plain("mlp", 784, (512, 256, 10)), "mlp", {"layers": 3}),
    "vae": Case(lambda rng: [rng.random((128, 784), np.float32), floats(rng, 128, 20)], ours("vae", "VAE"),
                plain("VAE", 784, 400, 20, loss="vae_loss"), "vae"),
    "generator": Case(noise, our_generator, their_generator, "generator"),
    "discriminator": Case(lambda rng: [floats(rng, 16, 3, 32, 32)], our_discriminator, their_discriminator,
                          "discriminator"),
}
