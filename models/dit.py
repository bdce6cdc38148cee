"""dit.py - a diffusion transformer (Peebles and Xie 2023), with the names of the authors' DiT.

    model = dit_xl_2(size=32)                                    # latents of 256 x 256 images, as they publish it
    model.load_state_dict(quern.load("DiT-XL-2-256x256.safetensors"))
    latents = model.eval().sample(quern.tensor([207, 360]), steps=50, guidance=4.0)      # [2, 4, 32, 32]

    model = DiT(size=8, patch=2, channels=1, width=96, layers=4, heads=4, classes=10, learn_sigma=False)
    optimizer = quern.optim.AdamW(model.train().parameters(), lr=1e-3)

    @quern.jit
    def step(images, labels):                                    # [N, 1, 8, 8] from -1 to 1
        loss = model.loss(images, labels)                        # by other noise at each call
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    python models/dit.py examples/data [STEPS [FILE.safetensors]]    # learns to draw digits, and draws some

The noise of time t, from 0 to 999, is that of Ho et al. (2020): x_t = sqrt(a_t) x + sqrt(1 - a_t) noise. Images are
drawn by DDIM (Song et al. 2021), each step of which is the same static graph, guided by what the label changes (Ho and
Salimans 2022). Where a model has learned variances, as the published ones have, they are not used; nor is the
encoder of images as latents here.
"""

import itertools
import math
import os
import sys

import quern
from quern import nn
from quern.nn import functional as F
from quern.nn.random import generator

TIMES = 1000


# What part of the variance is the image's at each time, of evenly spaced betas.
ALPHAS = list(itertools.accumulate((1 - 1e-4 - (0.02 - 1e-4) * t / (TIMES - 1) for t in range(TIMES)),
                                   lambda a, b: a * b))


def zeroed(linear):
    for x in linear.parameters():
        nn.init.zeros_(x)
    return linear


def modulated(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class TimestepEmbedder(nn.Module):
    def __init__(self, width, frequencies=256):
        super().__init__()
        self.frequencies = frequencies
        self.mlp = nn.Sequential(nn.Linear(frequencies, width), nn.SiLU(), nn.Linear(width, width))
        for linear in (self.mlp[0], self.mlp[2]):
            nn.init.normal_(linear.weight, std=0.02)

    def forward(self, t):
        half = self.frequencies // 2
        angles = t.cast("float32").unsqueeze(-1) * (quern.arange(half) * (-math.log(10000) / half)).exp()
        return self.mlp(quern.concat([angles.cos(), angles.sin()], axis=-1))


class LabelEmbedder(nn.Module):
    """The row behind those of the classes stands for no label."""

    def __init__(self, classes, width):
        super().__init__()
        self.embedding_table = nn.Embedding(classes + 1, width)
        nn.init.normal_(self.embedding_table.weight, std=0.02)

    def forward(self, labels):
        return self.embedding_table(labels)


class PatchEmbed(nn.Module):
    def __init__(self, patch, channels, width):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, patch)
        bound = (6 / (width + channels * patch * patch)) ** 0.5             # of a linear map of patches
        nn.init.uniform_(self.proj.weight, -bound, bound)
        nn.init.zeros_(self.proj.bias)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)                      # [N, places, width]


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.reshape(n, t, self.heads, -1).transpose(1, 2) for part in quern.chunk(self.qkv(x), 3, axis=-1))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


def modulation(width, parts):
    """A map of time and label that begins as 0: a block is nothing at first."""
    return nn.Sequential(nn.SiLU(), zeroed(nn.Linear(width, parts * width)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn, self.mlp = Attention(width, heads), Mlp(width)
        for linear in (self.attn.qkv, self.attn.proj, self.mlp.fc1, self.mlp.fc2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.adaLN_modulation = modulation(width, 6)

    def forward(self, x, c):
        shift, scale, gate, shift2, scale2, gate2 = quern.chunk(self.adaLN_modulation(c), 6, axis=-1)
        x = x + gate.unsqueeze(1) * self.attn(modulated(self.norm1(x), shift, scale))
        return x + gate2.unsqueeze(1) * self.mlp(modulated(self.norm2(x), shift2, scale2))


class FinalLayer(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.norm_final = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.linear = zeroed(nn.Linear(width, out))
        self.adaLN_modulation = modulation(width, 2)

    def forward(self, x, c):
        return self.linear(modulated(self.norm_final(x), *quern.chunk(self.adaLN_modulation(c), 2, axis=-1)))


def places_of(side, width):
    """[1, side * side, width]: half of the numbers for the column, half for the row, sines before cosines."""
    speeds = 10000.0 ** (quern.arange(width // 4, dtype="float64") * (-4 / width))
    angles = quern.arange(side, dtype="float64").unsqueeze(-1) * speeds
    line = quern.concat([angles.sin(), angles.cos()], axis=1)
    row, column = (quern.broadcast_to(x, (side, side, width // 2)) for x in (line.unsqueeze(1), line.unsqueeze(0)))
    return quern.concat([column, row], axis=2).reshape(1, side * side, width).cast("float32")


class DiT(nn.Module):
    def __init__(self, size=32, patch=2, channels=4, width=1152, layers=28, heads=16, classes=1000, learn_sigma=True):
        super().__init__()
        self.size, self.patch, self.channels, self.classes = size, patch, channels, classes
        self.out = channels * (2 if learn_sigma else 1)
        self.x_embedder = PatchEmbed(patch, channels, width)
        self.t_embedder, self.y_embedder = TimestepEmbedder(width), LabelEmbedder(classes, width)
        self.pos_embed = nn.Parameter(places_of(size // patch, width), requires_grad=False)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.final_layer = FinalLayer(width, patch * patch * self.out)

    def forward(self, x, t, labels):
        """x [N, channels, size, size], t [N], labels [N] -> the noise in x, and behind its channels the variances."""
        n, p, side = x.shape[0], self.patch, self.size // self.patch
        c = self.t_embedder(t) + self.y_embedder(labels)
        x = self.x_embedder(x) + self.pos_embed
        for block in self.blocks:
            x = block(x, c)
        x = self.final_layer(x, c).reshape(n, side, side, p, p, self.out)
        return x.permute(0, 5, 1, 3, 2, 4).reshape(n, self.out, self.size, self.size)

    def loss(self, x, labels, unlabelled=0.1, drawn=None):
        """How far the noise is from what is guessed, its mean square; `unlabelled` is the part of the images whose
        label is not told. drawn: times [N], noise, and labels, instead of those that are drawn as dropout is."""
        if drawn is None:
            keys, n = [generator.draw() for _ in range(3)], x.shape[0]
            drawn = (quern.randint(keys[0], 0, TIMES, (n,)), quern.randn(keys[1], x.shape),
                     quern.where(quern.bernoulli(keys[2], (n,), unlabelled), self.classes, labels))
        t, noise, labels = drawn
        a = quern.tensor(ALPHAS)[t].reshape(-1, 1, 1, 1)
        guess = self(a.sqrt() * x + (1 - a).sqrt() * noise, t, labels)[:, :self.channels]
        return F.mse_loss(guess, noise)

    @quern.jit(donate=0)
    def step(self, x, t, a, b, labels, guidance):
        """From time t, where a of the variance is the image's, to where it is b; all three [] are data, so that all
        steps are one graph."""
        n = x.shape[0]
        both = quern.concat([labels, quern.full_like(labels, self.classes)], axis=0)
        noise = self(quern.concat([x, x], axis=0), quern.broadcast_to(t, (2 * n,)), both)[:, :self.channels]
        noise = noise[n:] + guidance * (noise[:n] - noise[n:])
        image = (x - (1 - a).sqrt() * noise) / a.sqrt()
        return b.sqrt() * image + (1 - b).sqrt() * noise

    def sample(self, labels, steps=50, guidance=4.0, noise=None):
        """Images of labels [N], in `steps` steps from noise, which is drawn where it is not given."""
        labels, known = quern.asarray(labels), [*ALPHAS, 1.0]
        times = [TIMES - 1 - k * TIMES // steps for k in range(steps)] + [TIMES]
        if noise is None:
            noise = quern.randn(generator.draw(), (labels.shape[0], self.channels, self.size, self.size))
        with quern.no_grad():
            x = quern.clone(noise).realize()                                # the steps use it up
            for t, then in zip(times, times[1:]):
                x = self.step(x, *map(quern.tensor, (t, known[t], known[then])), labels, quern.tensor(float(guidance)))
        return x


def dit_xl_2(**given):
    return DiT(**given)


def dit_s_8(**given):
    return DiT(**{"patch": 8, "width": 384, "layers": 12, "heads": 6, **given})


# ---- digits --------------------------------------------------------------------------------------


def digits(width=96, layers=4, heads=4):
    """A model of images [N, 1, 8, 8] of digits."""
    return DiT(8, 2, 1, width, layers, heads, 10, learn_sigma=False)


def scaled(digits):
    """Digits [N, 8, 8], whose numbers are from 0 to 16, as images."""
    return digits.cast("float32").unsqueeze(1) / 8 - 1


def shown(images):
    """Images [N, 1, 8, 8] from -1 to 1 side by side as a text."""
    inks = " .:-=+*#%@"
    rows = images[:, 0].transpose(0, 1).tolist()
    return "\n".join("  ".join("".join(2 * inks[min(max(int(5 * v + 5), 0), 9)] for v in part) for part in row)
                     for row in rows)


def main(folder, steps=2000, out=None):
    from quern.data import DataLoader, FileDataset, StackDataset
    nn.manual_seed(1)
    model = digits()
    data = StackDataset(*(FileDataset(os.path.join(folder, f"digits-{what}.idx")) for what in ("images", "labels")))
    batches = DataLoader(data, 64, shuffle=True, drop_last=True, seed=1)
    rate = quern.tensor(2e-3)
    optimizer = quern.optim.AdamW(model.parameters(), lr=rate)
    schedule = quern.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    @quern.jit
    def step(images, labels):
        loss = model.loss(scaled(images), labels.cast("int64"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    losses = []
    for images, labels in itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), steps):
        losses.append(step(images, labels).item())
        schedule.step()
        if len(losses) % 100 == 0:
            print(f"step {len(losses)}  loss {sum(losses[-100:]) / 100:.4f}", flush=True)
    if out:
        quern.save(out, model.state_dict())
    model.eval()
    for first in 0, 5:
        print(shown(model.sample(list(range(first, first + 5)), guidance=2.0)))
    return losses


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: dit.py FOLDER [STEPS [FILE.safetensors]]")
    main(sys.argv[1], *map(int, sys.argv[2:3]), *sys.argv[3:])
