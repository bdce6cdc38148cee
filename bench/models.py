#!/usr/bin/env python3
"""models.py - a training step of the networks of models/ beside PyTorch's, by turns in one process.

Usage: models.py [-n ROUNDS] [-t THREADS] [NAME ..]    PYTHONPATH=python, of a Python with PyTorch

Both begin with the same weights and have the same data; the references are python/tests/torch_models.py. A step is the
loss, its gradients and Adam; Quern's is jitted, PyTorch's is eager with its fused Adam. Printed are the medians and the
least of both and the ratio of the medians, above 1 where Quern is faster, and how far the losses are apart in the end.
"""

import argparse
import os
import statistics
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(ROOT, "models"), os.path.join(ROOT, "python")]
WARM = 3


def cases(qn, nn, torch, plain):
    """{name: (ours, theirs, data, loss of ours, loss of theirs)}"""
    import gan
    import gcn
    import llama
    import lstm
    import mlp
    import moe
    import unet
    import vae
    import vit

    def floats(seed, *shape):
        return qn.randn(qn.key(seed), shape).realize()

    def labels(seed, classes, *shape):
        return qn.randint(qn.key(seed), 0, classes, shape).cast("int64").realize()

    def loss(model, *data):
        return model.loss(*data)

    class SparseGCN(plain.GCN):
        """Edges with their loops and weights, and index_add."""

        def forward(self, x, edges, weights):
            for k, conv in enumerate(self.convs):
                x = conv.lin(x if k == 0 else torch.relu(x))
                x = torch.zeros_like(x).index_add(0, edges[1], weights[:, None] * x[edges[0]]) + conv.bias
            return x

    def graph(nodes=2000, edges=10000, into=256):
        pairs, w = gcn.normalised(labels(3, nodes, 2, edges), nodes)
        return floats(4, nodes, into), pairs, labels(5, 7, nodes // 2), qn.arange(0, nodes, 2), w

    ids = labels(2, 1000, 8, 65)
    image_labels = labels(2, 10, 16)
    return {
        "mlp": (mlp.MLP(784, (512, 256, 10)), plain.mlp(784, (512, 256, 10)),
                (floats(1, 128, 784), labels(2, 10, 128)), loss, plain.label_loss),
        "lstm": (lstm.LSTM(1000, 128, 128, 2, 0.0), plain.LSTM(1000, 128, 128, 2), (ids,), loss, plain.next_loss),
        "vit": (vit.ViT(32, 4, 4, 4, 128, num_classes=10), plain.ViT(32, 4, 4, 4, 128, 10),
                (floats(1, 16, 3, 32, 32), image_labels), loss, plain.label_loss),
        "unet": (unet.UNet(3, 2, False, 16), plain.UNet(3, 2, False, 16),
                 (floats(1, 2, 3, 96, 96), labels(2, 2, 2, 96, 96)), loss, plain.unet_loss),
        "unet resized": (unet.UNet(3, 2, True, 16), plain.UNet(3, 2, True, 16),
                         (floats(1, 2, 3, 96, 96), labels(2, 2, 2, 96, 96)), loss, plain.unet_loss),
        "vae": (vae.VAE(), plain.VAE(784, 400, 20), (floats(1, 128, 784).sigmoid().realize(), floats(2, 128, 20)),
                loss, plain.vae_loss),
        "generator": (gan.Generator(100, 32, 3, 32), plain.dcgan(100, 32, 3, 32)[0],
                      (floats(1, 16, 100, 1, 1), floats(2, 16, 3, 32, 32)), lambda m, x, y: ((m(x) - y) ** 2).mean(),
                      lambda m, x, y: (m.main(x) - y).square().mean()),
        "discriminator": (gan.Discriminator(32, 3, 32), plain.dcgan(100, 32, 3, 32)[1], (floats(1, 16, 3, 32, 32),),
                          lambda m, x: nn.functional.softplus(m(x)).mean(),
                          lambda m, x: torch.nn.functional.softplus(m.main(x)).mean()),
        "gcn": (gcn.GCN(256, 64, 2, 7, 0.0), SparseGCN(256, 64, 2, 7), graph(), loss,
                lambda m, x, edges, y, known, w: torch.nn.functional.cross_entropy(m(x, edges, w)[known], y)),
        "llama": (llama.Llama(1000, 128, 4, 8, 2, 344),
                  plain.Llama(1000, 128, 4, 8, 2, lambda: plain.LlamaMLP(128, 344)), (ids,), loss, plain.next_loss),
        "moe": (moe.Mixtral(1000, 128, 2, 8, 2, 256, 8, 2, base=1e4),
                plain.Llama(1000, 128, 2, 8, 2, lambda: plain.Mixture(128, 256, 8, 2)), (ids,),
                lambda m, ids: m.loss(ids, balance=0.02), plain.mixture_loss),
    }


def pair(qn, torch, case):
    """Functions of a step, ours and theirs, which give the loss."""
    ours, theirs, data, our_loss, their_loss = case
    ours.load_state_dict(theirs.state_dict())
    optimizer = qn.optim.Adam(ours.parameters(), lr=1e-4)
    other = torch.optim.Adam(theirs.parameters(), lr=1e-4, fused=True)
    same = [torch.from_dlpack(x).clone() for x in data]

    @qn.jit
    def step(*data):
        optimizer.zero_grad()
        loss = our_loss(ours, *data)
        loss.backward()
        optimizer.step()
        return loss

    def their_step():
        other.zero_grad()
        loss = their_loss(theirs, *same)
        loss.backward()
        other.step()
        return loss.item()
    return lambda: step(*data).item(), their_step


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=15, help="rounds")
    parser.add_argument("-t", type=int, default=1, help="threads")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    os.environ["QN_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(given.t)
    import quern as qn
    import torch
    from quern import nn
    from tests import torch_models as plain
    torch.set_num_threads(given.t)
    torch.manual_seed(1)
    print(f"{'step of':14} {'Quern, ms':>16} {'PyTorch, ms':>16} {'ratio':>5} {'first call':>10} {'losses':>8}")
    for name, case in cases(qn, nn, torch, plain).items():
        if given.names and name not in given.names:
            continue
        both = pair(qn, torch, case)
        start = time.perf_counter()
        both[0]()
        first = time.perf_counter() - start
        both[1]()
        times = [[], []]
        for _ in range(WARM + given.n):
            for step, taken in zip(both, times):
                start = time.perf_counter()
                last = step()
                taken.append((time.perf_counter() - start) * 1e3)
                step.loss = last
        a, b = (t[WARM:] for t in times)
        middle = [statistics.median(t) for t in (a, b)]
        apart = abs(both[0].loss / both[1].loss - 1)
        columns = " ".join(f"{m:7.2f} ({min(t):6.2f})" for m, t in zip(middle, (a, b)))
        print(f"{name:14} {columns} {middle[1] / middle[0]:5.2f} {first:8.1f} s {apart:8.1e}", flush=True)


if __name__ == "__main__":
    main()
