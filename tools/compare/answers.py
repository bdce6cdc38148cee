"""answers.py - norms, rotary positions, attention's options and losses, by their formulas in float64,
and what the distributions make of uniform numbers."""

import math

import numpy as np

from quern import FLOATS, AttentionOptions, CrossEntropyOptions, Value, epsilon, pointer
from randoms import draws, fraction
from trial import exact, near, normal

MEAN, SUM, NONE = range(3)
REDUCTIONS = {MEAN: np.mean, SUM: np.sum, NONE: lambda v: v}


def formula(*cases, out=None):
    """(shapes, arguments from tensors, values from arrays): sums of few terms, all about 1."""
    def run(q, account, rng, name):
        for dtype in FLOATS:
            for shapes, ours, theirs, *draw in cases:
                make = draw[0] if draw else np.random.Generator.normal
                values = [Value.of(dtype, make(rng, size=s)) for s in shapes]
                with np.errstate(all="ignore"):
                    want = np.asarray(theirs(*[v.numbers() for v in values]))
                wide = epsilon("f64" if dtype == "f64" else "f32")
                slack = 64 * wide * (1 + np.abs(want)).max() + epsilon(dtype) * np.abs(want)
                near(q, account, name, dtype, values, lambda *t: q.call(name, *ours(q, *t)), want, slack, rng)
    return run


def losses(shapes, ours, theirs, draw=np.random.Generator.normal):
    """A loss by each reduction."""
    return formula(*[(shapes, lambda q, *t, how=how: (*ours(q, *t), how),
                      lambda *v, f=f: f(theirs(*v)), draw) for how, f in REDUCTIONS.items()])


def unit(rng, size):
    return rng.uniform(0.05, 0.95, size)



def tensor(q, values, dtype="f64"):
    return q.tensor(Value.of(dtype, np.asarray(values)))


# ---- norms ---------------------------------------------------------------------------------------------


def standard(x, axes, eps=1e-5):
    d = x - x.mean(axes, keepdims=True)
    return d / np.sqrt((d * d).mean(axes, keepdims=True) + eps)


def channels(p):
    return p.reshape(1, -1, 1)


def batch_norm_training(q, account, rng, name):
    for dtype in FLOATS:
        x, gamma, beta = normal(dtype, (4, 3, 5), rng), normal(dtype, (3,), rng), normal(dtype, (3,), rng)
        v = x.numbers()
        want = [standard(v, (0, 2)) * channels(gamma.numbers()) + channels(beta.numbers()), v.mean((0, 2)),
                v.var((0, 2), ddof=1)]
        for part in range(3):
            def call(*t):
                out = q.outs(3)
                q.call(name, *t, 1e-5, out)
                return out[part]
            slack = 64 * epsilon("f64" if dtype == "f64" else "f32") * 8 + epsilon(dtype) * np.abs(want[part])
            near(q, account, name, dtype, [x, gamma, beta], call, want[part], slack, rng, f"{part}")


# ---- attention and positions -----------------------------------------------------------------------------


def softmax_seen(scores, seen):
    scores = np.where(seen, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(most), 0, most))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def attended(q, k, v, causal=False, scale=0.0, cap=0.0, window=0, mask=None, grouped=False):
    if grouped:
        k, v = (np.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = cap * np.tanh(scores / cap) if cap else scores
    i, j = np.arange(q.shape[-2])[:, None] + k.shape[-2] - q.shape[-2], np.arange(k.shape[-2])
    seen = np.ones(scores.shape, bool)
    if causal:
        seen &= j <= i
    if window:
        seen &= (i - j < window) & (causal | (j - i < window))
    if mask is not None and mask.dtype == bool:
        seen &= mask
    elif mask is not None:
        scores = scores + mask
    return softmax_seen(scores, seen) @ v


def attention_with(q, account, rng):
    """All options, alone and together; of keys that nobody sees comes 0."""
    truth = rng.integers(0, 3, (6, 6)) > 0
    truth[2] = False
    added = np.round(rng.normal(0, 1, (4, 6, 6)) * 8) / 8
    added[1, :, 2] = -np.inf
    shape, few = (2, 4, 6, 8), (2, 2, 6, 8)
    for dtype in FLOATS:
        for given in ({"scale": 0.5}, {"cap": 2.0}, {"cap": 1.5, "scale": 0.75, "causal": True}, {"window": 3},
                      {"window": 2, "causal": True}, {"mask": truth}, {"mask": added},
                      {"mask": added, "causal": True, "window": 4, "cap": 3.0}, {"grouped": True},
                      {"grouped": True, "mask": added, "causal": True}, {"grouped": True, "mask": truth}):
            part = few if given.get("grouped") else shape
            values = [normal(dtype, s, rng) for s in (shape, part, part)]
            want = attended(*[v.numbers() for v in values], **given)

            def call(*t):
                plain = {k: v for k, v in given.items() if k != "mask"}
                if "mask" in given:
                    kind = "bool" if given["mask"].dtype == bool else dtype
                    plain["mask"] = q.tensor(Value.of(kind, given["mask"]))
                return q.call("attention", *t, AttentionOptions.of(**plain))
            slack = 64 * epsilon("f64" if dtype == "f64" else "f32") + epsilon(dtype) * np.abs(want)
            near(q, account, "attention", dtype, values, call, want, slack, rng, " ".join(given))


def turned(interleaved):
    def theirs(x):
        half = x.shape[-1] // 2
        angle = np.arange(x.shape[-2])[:, None] * 100.0 ** (-np.arange(half) / half)
        c, s = np.cos(angle), np.sin(angle)
        a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
        out = [a * c - b * s, a * s + b * c]
        return np.stack(out, -1).reshape(x.shape) if interleaved else np.concatenate(out, -1)
    return ([(2, 5, 8)], lambda q, x: (x, tensor(q, np.arange(5), "i32"), 100.0, interleaved), theirs)


def shuffled(x, r, back=False):
    n, c, h, w = x.shape
    if back:
        return x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4).reshape(n, c * r * r, h // r, w // r)
    return x.reshape(n, c // r ** 2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // r ** 2, h * r, w * r)


# ---- losses ----------------------------------------------------------------------------------------------


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def cross_entropy_with(q, account, rng, name):
    """Of logits, or of nll_loss_with's logarithms of probabilities."""
    labels, weight = rng.integers(0, 5, 7), np.round(rng.uniform(0.5, 2, 5) * 8) / 8
    for dtype in FLOATS:
        for how in (MEAN, SUM, NONE):
            for weighs in (False, True):
                for smoothing in (0.0, 0.25):
                    for ignore in (None, 2):
                        x = normal(dtype, (7, 5), rng)
                        p = x.numbers() if name.startswith("nll") else log_softmax(x.numbers())
                        w = weight if weighs else np.ones(5)
                        each = -(1 - smoothing) * w[labels] * p[np.arange(7), labels] - smoothing * (p * w).mean(-1)
                        kept = np.ones(7, bool) if ignore is None else labels != ignore
                        each = np.where(kept, each, 0)
                        want = each if how == NONE else each.sum()
                        if how == MEAN:
                            want = each.sum() / np.where(kept, w[labels], 0).sum()

                        def call(t, y):
                            given = tensor(q, weight, dtype) if weighs else None
                            return q.call(name, t, y, CrossEntropyOptions.of(
                                reduction=how, smoothing=smoothing, weight=pointer(given), ignore=ignore or 0,
                                ignores=ignore is not None))
                        slack = 256 * epsilon("f64" if dtype == "f64" else "f32") + epsilon(dtype) * np.abs(want)
                        near(q, account, name, dtype, [x, Value.of("i64", labels)], call, want, slack, rng,
                             f"{how} {weighs} {smoothing} {ignore}")


def length(v):
    return np.sqrt((v * v).sum(-1))


def cosine(x, y):
    return (x * y).sum(-1) / (length(x) * length(y))


def focal(x, y):
    p = 1 / (1 + np.exp(-x))
    entropy = -(y * np.log(p) + (1 - y) * np.log(1 - p))
    return entropy * (p * (1 - y) + (1 - p) * y) ** 2 * (0.25 * y + 0.75 * (1 - y))


def ctc(q, account, rng, name):
    """The recurrence without logarithms."""
    for dtype in FLOATS:
        for steps, batch, classes, size in ((6, 2, 4, 2), (5, 3, 3, 3), (4, 1, 5, 1)):
            x = Value.of(dtype, np.log(rng.dirichlet(np.ones(classes), (steps, batch))))
            labels = rng.integers(1, classes, (batch, size))
            lengths, sizes = rng.integers(2 * size - 1, steps + 1, batch), rng.integers(0, size + 1, batch)
            p, want = np.exp(x.numbers()), np.zeros(batch)
            for n in range(batch):
                word = [0] + [w for label in labels[n, :sizes[n]] for w in (label, 0)]
                alpha = np.eye(len(word))[0]
                for t in range(lengths[n]):
                    before = [alpha[s] + (alpha[s - 1] if s > 0 else 0)
                              + (alpha[s - 2] if s > 1 and word[s] not in (0, word[s - 2]) else 0)
                              for s in range(len(word))]
                    alpha = np.array(before) * p[t, n, word]
                with np.errstate(divide="ignore"):
                    want[n] = -np.log(alpha[-2:].sum())
            given = [tensor(q, v, "i64") for v in (labels, lengths, sizes)]
            inner = epsilon("f64" if dtype == "f64" else "f32")
            size_of = np.where(np.isfinite(want), 1 + np.abs(want), 1)
            slack = 64 * steps * inner * size_of + epsilon(dtype) * size_of
            near(q, account, name, dtype, [x], lambda t: q.call(name, t, *given, 0, 2), want, slack, rng)


TRUTH = np.where(np.arange(4) % 3 == 0, 1.0, -1.0)
LOSSES = {
    "cross_entropy_soft": losses([(4, 5), (4, 5)], lambda q, x, y: (x, y), lambda x, y: -(y * log_softmax(x)).sum(-1)),
    "bce_loss": losses([(4, 5), (4, 5)], lambda q, p, y: (p, y),
                       lambda p, y: -(y * np.log(p) + (1 - y) * np.log1p(-p)), unit),
    "kl_div": losses([(4, 5), (4, 5)], lambda q, x, y: (x, y, False), lambda x, y: y * (np.log(y) - x), unit),
    "triplet_margin_loss": losses([(4, 5)] * 3, lambda q, *t: (*t, 1.0),
                                  lambda a, b, c: np.maximum(length(a - b) - length(a - c) + 1, 0)),
    "cosine_embedding_loss": losses([(4, 5)] * 2, lambda q, x, y: (x, y, tensor(q, TRUTH, "i8"), 0.25),
                                    lambda x, y: np.where(TRUTH > 0, 1 - cosine(x, y),
                                                          np.maximum(cosine(x, y) - 0.25, 0))),
    "margin_ranking_loss": losses([(4,)] * 2, lambda q, x, y: (x, y, tensor(q, TRUTH, "i8"), 0.5),
                                  lambda x, y: np.maximum(-TRUTH * (x - y) + 0.5, 0)),
    "hinge_embedding_loss": losses([(4,)], lambda q, x: (x, tensor(q, TRUTH, "i8"), 1.0),
                                   lambda x: np.where(TRUTH > 0, x, np.maximum(1 - x, 0))),
    "soft_margin_loss": losses([(4,)], lambda q, x: (x, tensor(q, TRUTH, "i8")),
                               lambda x: np.log1p(np.exp(-TRUTH * x))),
    "focal_loss": losses([(4, 5)] * 2, lambda q, x, y: (x, y, 0.25, 2.0), focal, unit),
    "poisson_nll_loss": losses([(4, 5)] * 2, lambda q, x, y: (x, y, True), lambda x, y: np.exp(x) - y * x),
    "gaussian_nll_loss": losses([(4, 5)] * 3, lambda q, x, y, v: (x, y, v, 1e-6),
                                lambda x, y, v: (np.log(v) + (x - y) ** 2 / v) / 2, unit)}


# ---- random numbers ----------------------------------------------------------------------------------------


def exponentials(dtype, words):
    u = fraction(words, "f64" if dtype == "f64" else "f32")
    return -np.log1p(-np.where(u == 0, 2.0 ** (-54 if dtype == "f64" else -25), u))


def distribution(of):
    def run(q, account, rng, name):
        for dtype in FLOATS:
            for seed, shape, words in draws(rng):
                want = of(exponentials(dtype, words))
                wide = epsilon("f64" if dtype == "f64" else "f32")
                slack = 8 * wide * (1 + np.abs(want)) + epsilon(dtype) * np.abs(want)
                near(q, account, name, dtype, [],
                     lambda: q.call(name, q.call("key", seed), dtype, len(shape), list(shape)), want, slack, rng,
                     f"{seed} {shape}")
    return run


def weights(bound):
    """Against uniform or randn of the same key, times what the fans make of it."""
    def run(q, account, rng, name):
        for dtype in FLOATS:
            with q.scope():
                key = q.call("key", 5)
                wide = "f64" if dtype == "f64" else "f32"
                base = q.read(q.call("uniform" if "uniform" in name else "randn", key,
                                     wide if "uniform" in name else dtype, 3, [4, 3, 2])).numbers()
            size = 1.5 * bound(3 * 2, 4 * 2)
            want = (2 * base - 1) * size * math.sqrt(3) if "uniform" in name else base * size
            near(q, account, name, dtype, [], lambda: q.call(name, q.call("key", 5), dtype, 3, [4, 3, 2], 1.5), want,
                 4 * epsilon(wide) * size * 2 + epsilon(dtype) * np.abs(want) * 2, rng)
    return run


def chosen(several):
    """The largest of logarithms and Gumbel numbers of the same key."""
    def run(q, account, rng, name):
        for dtype in ("f32", "f64"):
            x = Value.of(dtype, rng.uniform(0.5, 4, (3, 5)))
            logits = np.log(x.numbers())[:, None] if several else x.numbers()
            shape = (3, 4, 5) if several else (3, 5)
            with q.scope():
                noise = q.read(q.call("gumbel", q.call("key", 9), dtype, len(shape), list(shape))).numbers()
            want = Value.of("i64", np.argmax(logits + noise, -1))
            more = (4,) if several else ()
            exact(q, account, name, dtype, [x], lambda t: q.call(name, q.call("key", 9), t, *more), want, rng)
    return run


def key_fold_in(q, account, rng, name):
    for data in (0, 7, 2 ** 40 + 3):
        with q.scope():
            want = q.read(q.call("key_fold", q.call("key", 3), data))
        exact(q, account, name, "u32", [Value.of("i64", np.array(data))],
              lambda t: q.call(name, q.call("key", 3), t), want, rng, f"{data}")


def key_split(q, account, rng, name):
    with q.scope():
        want = [q.read(q.call("key_fold", q.call("key", 3), (0x70617274 << 32) | i)) for i in range(4)]

    def call():
        out = q.outs(4)
        q.call(name, q.call("key", 3), 4, out)
        return list(out)
    exact(q, account, name, "u32", [], call, want, rng)


ANSWERS = {
    "layer_norm_axes": formula(([(3, 4, 5), (4, 5), (5,)], lambda q, x, g, b: (x, 2, [1, 2], g, b, 1e-5),
                                lambda x, g, b: standard(x, (1, 2)) * g + b)),
    "instance_norm": formula(([(2, 3, 6), (3,), (3,)], lambda q, x, g, b: (x, g, b, 1e-5),
                              lambda x, g, b: standard(x, (2,)) * channels(g) + channels(b))),
    "batch_norm": formula(([(2, 3, 6), (3,), (3,), (3,)], lambda q, x, m, v, b: (x, m, v, None, b, 0.5),
                           lambda x, m, v, b: (x - channels(m)) / np.sqrt(channels(v) + 0.5) + channels(b), unit)),
    "batch_norm_training": batch_norm_training, "rope": formula(turned(False), turned(True)),
    "pixel_shuffle": formula(([(2, 8, 2, 3)], lambda q, x: (x, 2), lambda x: shuffled(x, 2))),
    "pixel_unshuffle": formula(([(2, 2, 4, 6)], lambda q, x: (x, 2), lambda x: shuffled(x, 2, True))),
    "cosine_similarity": formula(([(4, 5), (4, 5)], lambda q, x, y: (x, y, 1, 1e-8), cosine)),
    "cross_entropy_with": cross_entropy_with, "nll_loss_with": cross_entropy_with, "ctc_loss": ctc, **LOSSES,
    "exponential": distribution(lambda e: e), "gumbel": distribution(lambda e: -np.log(e)),
    "kaiming_normal": weights(lambda i, o: 1 / math.sqrt(i)), "kaiming_uniform": weights(lambda i, o: 1 / math.sqrt(i)),
    "xavier_normal": weights(lambda i, o: math.sqrt(2 / (i + o))),
    "xavier_uniform": weights(lambda i, o: math.sqrt(2 / (i + o))),
    "categorical": chosen(False), "multinomial": chosen(True), "key_fold_in": key_fold_in, "key_split": key_split}
