"""randoms.py - random numbers: Threefry-2x32-20 written from its paper and held against its known
answers, and what the documents say is made of its words."""

import math

import numpy as np

from quern import FLOATS, INTS, STORAGE, UNSIGNED, Value, epsilon
from trial import Case, draw_shape, exact, near, normal

ROTATIONS = [[13, 15, 26, 6], [17, 29, 16, 24]]


def threefry(key, counter):
    """Two words from two words of key and counter, each of them an array or a number."""
    mask = 0xffffffff
    words = [int(k) for k in key] + [int(key[0]) ^ int(key[1]) ^ 0x1bd11bda]
    x = [(np.asarray(c, np.uint64) + np.uint64(k)) & mask for c, k in zip(counter, words)]
    for block in range(5):
        for by in ROTATIONS[block % 2]:
            x[0] = (x[0] + x[1]) & mask
            x[1] = ((x[1] << np.uint64(by)) | (x[1] >> np.uint64(32 - by))) & mask ^ x[0]
        x[0] = (x[0] + np.uint64(words[(block + 1) % 3])) & mask
        x[1] = (x[1] + np.uint64(words[(block + 2) % 3] + block + 1)) & mask
    return x


def known_answers():
    """Of Random123's kat_vectors."""
    ones = 0xffffffff
    for key, counter, want in [((0, 0), (0, 0), (0x6b200159, 0x99ba4efe)),
                               ((ones, ones), (ones, ones), (0x1cb996fc, 0xbb002be7)),
                               ((0x13198a2e, 0x03707344), (0x243f6a88, 0x85a308d3),
                                (0xc4923a9c, 0x483df7a0))]:
        if tuple(int(w) for w in threefry(key, counter)) != want:
            raise AssertionError("the comparison's own Threefry is wrong")


def draws(rng):
    known_answers()
    for seed in (0, 1, 2 ** 32 - 1, 0x123456789abcdef, 2 ** 64 - 1):
        shape = draw_shape(rng)
        n = math.prod(shape)
        index = np.arange(n, dtype=np.uint64)
        key = (seed & 0xffffffff, seed >> 32)
        yield seed, shape, [w.reshape(shape) for w in threefry(key, (index & 0xffffffff, index >> 32))]


def keys(q, account, rng, name):
    for seed, _, _ in draws(rng):
        exact(q, account, name, "u32", [], lambda: q.call("key", seed),
              Value.of("u32", [seed & 0xffffffff, seed >> 32]), rng, f"{seed}")


def key_fold(q, account, rng, name):
    for seed, _, _ in draws(rng):
        for data in (0, 7, 2 ** 40 + 3, 2 ** 64 - 1):
            want = threefry((seed & 0xffffffff, seed >> 32), (data & 0xffffffff, data >> 32))
            exact(q, account, name, "u32", [], lambda: q.call(name, q.call("key", seed), data),
                  Value.of("u32", np.array([int(w) for w in want], np.uint64)), rng, f"{seed} {data}")


def bits(q, account, rng, name):
    for seed, shape, words in draws(rng):
        exact(q, account, name, "u32", [],
              lambda: q.call(name, q.call("key", seed), len(shape), list(shape)),
              Value.of("u32", words[0]), rng, f"{seed} {shape}")


def fraction(words, dtype):
    if dtype == "f64":
        return (words[0] >> np.uint64(5)) * 2.0 ** -27 + (words[1] >> np.uint64(6)) * 2.0 ** -53
    width = {"f32": 24, "f16": 11, "bf16": 8}[dtype]
    return (words[0] >> np.uint64(32 - width)) * 2.0 ** -width


def uniform(q, account, rng, name):
    for dtype in FLOATS:
        for seed, shape, words in draws(rng):
            exact(q, account, name, dtype, [],
                  lambda: q.call(name, q.call("key", seed), dtype, len(shape), list(shape)),
                  Value.of(dtype, fraction(words, dtype)), rng, f"{seed} {shape}")


ANGLES = 0x616e676c  # what randn folds into a key for its angles, in the upper word


def randn(q, account, rng, name):
    for dtype in FLOATS:
        for seed, shape, words in draws(rng):
            if dtype == "f64":
                key = threefry((seed & 0xffffffff, seed >> 32), (0, ANGLES))
                index = np.arange(math.prod(shape), dtype=np.uint64)
                second = threefry(key, (index & 0xffffffff, index >> 32))
                u, v = fraction(words, dtype) + 2.0 ** -53, fraction([w.reshape(shape) for w in second], dtype)
            else:
                u = np.float32((words[0] >> np.uint64(8)) * 2.0 ** -24 + 2.0 ** -24).astype(np.float64)
                v = (words[1] >> np.uint64(8)) * 2.0 ** -24
            radius = np.sqrt(-2 * np.log(u))
            want = radius * np.cos(2 * np.pi * v)
            e = epsilon("f64" if dtype == "f64" else "f32")
            near(q, account, name, dtype, [],
                 lambda: q.call(name, q.call("key", seed), dtype, len(shape), list(shape)), want,
                 8 * e * radius + epsilon(dtype) * np.abs(want), rng, f"{seed} {shape}")


def randint(q, account, rng, name):
    for dtype in INTS:
        info = np.iinfo(STORAGE[dtype])
        for seed, shape, words in draws(rng):
            for lo, hi in (0, 10), (0, 1), (max(info.min, -5), 100), (info.max - 3, info.max):
                if dtype in UNSIGNED and hi > 2 ** 63 - 1:
                    continue
                want = [lo + (int(w) * (hi - lo) >> 32) for w in words[0].reshape(-1)]
                want = np.array(want, dtype=STORAGE[dtype]).reshape(shape)
                exact(q, account, name, dtype, [], lambda: q.call(
                    name, q.call("key", seed), dtype, len(shape), list(shape), lo, hi),
                    Value(dtype, want), rng, f"{seed} {shape} {lo} {hi}")


def bernoulli(q, account, rng, name):
    for seed, shape, words in draws(rng):
        for p in (0.0, 0.25, 0.5, 0.9, 1.0):
            want = (words[0] >> np.uint64(8)) < np.uint64(round(p * 2 ** 24))
            exact(q, account, name, "bool", [],
                  lambda: q.call(name, q.call("key", seed), len(shape), list(shape), p),
                  Value("bool", want), rng, f"{seed} {shape} {p}")


def dropout(q, account, rng, name):
    """Each element is dropped or scaled, and as many are dropped as p says, within five deviations."""
    n = 4096
    for dtype in FLOATS:
        for p in (0.0, 0.1, 0.5, 0.9):
            x = normal(dtype, (n,), rng)
            with q.scope():
                got = q.read(q.call(name, q.tensor(x), q.call("key", 3), p))
            case, v = Case(name, dtype, "value", f"{p} "), x.numbers()
            if not account.form(case, got, dtype, (n,)):
                continue
            kept = got.numbers() != 0
            account.bound(case, got, np.where(kept, v / (1 - p), 0),
                          np.abs(v) / (1 - p) * epsilon(dtype) * 1.5, [x])
            off = abs(int(np.sum(~kept & (v != 0))) - n * p)
            if off > 5 * math.sqrt(n * p * (1 - p)):
                account.fail(case, f"{off} more or fewer dropped than expected of {n}")


# ---- by rejection: a sample in order, beside the quantiles of its distribution ----------------------


def quantiles(distribution, n):
    """Of n elements in order, and how far off each may be: once in 10^5 samples it is."""
    p, e = (np.arange(n) + 0.5) / n, 2.5 / math.sqrt(n)
    low, high = (distribution.ppf(np.clip(p + d, 1e-12, 1 - 1e-12)) for d in (-e, e))
    want = distribution.ppf(p)
    return want, np.maximum(high - want, want - low)


def sampled(draw, dtypes, *cases):
    def run(q, account, rng, name):
        try:
            from scipy import stats
        except ImportError:
            account.skip(name, "SciPy is not installed")
            return
        n = 20000
        for dtype in dtypes:
            for case in cases:
                want, slack = quantiles(draw(stats, *case), n)
                values = [] if name == "truncated_normal" else [Value.of(dtype, np.full(n, c)) for c in case]
                more = [dtype, 1, [n], *case] if name == "truncated_normal" else []

                def call(*t):
                    x = q.call(name, q.call("key", 11), *more, *t)
                    return q.call("sort", q.call("cast", x, "f64"), 0, False)
                near(q, account, name, dtype, values, call, want, slack + 4 * epsilon(dtype) * np.abs(want), rng,
                     f"{case}", "f64")
    return run


def dirichlet(q, account, rng, name):
    alpha = np.array([0.3, 1, 4.5])
    for dtype in ("f32", "f64"):
        x = Value.of(dtype, np.broadcast_to(alpha, (20000, 3)))
        mean = alpha / alpha.sum()
        off = 5 * np.sqrt(mean * (1 - mean) / (1 + alpha.sum()) / 20000)
        near(q, account, name, dtype, [x], lambda t: q.call("mean", q.call(name, q.call("key", 12), t), 0, False),
             mean, off, rng)


def order_of(q, n, key):
    """The order of 64 bits of two keys."""
    high, low = (q.read(q.call("random_bits", q.call("key_fold", key, i), 1, [n])).raw.astype(np.uint64)
                 for i in range(2))
    return np.argsort(high << np.uint64(32) | low, kind="stable")


def permutation(q, account, rng, name):
    for n in (0, 1, 7, 1000):
        with q.scope():
            want = order_of(q, n, q.call("key", 5))
        exact(q, account, name, "i64", [], lambda: q.call(name, q.call("key", 5), n), Value("i64", want), rng, f"{n}")


def shuffle(q, account, rng, name):
    for dtype in FLOATS + INTS:
        x = Value.of(dtype, np.arange(24).reshape(2, 12))
        with q.scope():
            order = order_of(q, 12, q.call("key", 6))
        exact(q, account, name, dtype, [x], lambda t: q.call(name, q.call("key", 6), t, 1),
              Value(dtype, x.raw[:, order]), rng)


def multinomial_distinct(q, account, rng, name):
    for dtype in ("f32", "f64"):
        x = Value.of(dtype, rng.uniform(0.5, 4, (3, 5)))
        with q.scope():
            noise = q.read(q.call("gumbel", q.call("key", 9), dtype, 2, [3, 5])).numbers()
        want = np.argsort(-(np.log(x.numbers()) + noise), -1, kind="stable")[:, :4]
        exact(q, account, name, dtype, [x], lambda t: q.call(name, q.call("key", 9), t, 4), Value("i64", want), rng)


def orthogonal(q, account, rng, name):
    for dtype in ("f32", "f64"):
        for shape in ([5, 3], [3, 2, 4]):
            rows, columns = shape[0], math.prod(shape[1:])
            n = min(rows, columns)

            def call():
                w = q.call("reshape", q.call(name, q.call("key", 2), dtype, len(shape), shape, 2.0), 2, [rows, columns])
                t = q.call("transpose", w, 0, 1)
                return q.call("matmul", *((w, t) if rows < columns else (t, w)))
            near(q, account, name, dtype, [], call, 4 * np.eye(n), 40 * epsilon(dtype) + np.zeros((n, n)), rng)


RANDOMS = {"gamma": sampled(lambda s, a: s.gamma(a), ("f32", "f64"), (0.05,), (0.7,), (1,), (12.5,), (1e4,)),
           "beta": sampled(lambda s, a, b: s.beta(a, b), ("f32", "f64"), (0.1, 0.3), (2, 0.5), (30, 40)),
           "poisson": sampled(lambda s, r: s.poisson(r), ("f32", "f64"), (0.3,), (9,), (10.5,), (300,), (1e5,)),
           "truncated_normal": sampled(lambda s, lo, hi: s.truncnorm(lo, hi), ("f32", "f64"), (-2, 2), (-0.1, 0.4),
                                       (3, 9), (-math.inf, -4.5), (0, 0.5), (1, 1.5)),
           "dirichlet": dirichlet, "permutation": permutation, "shuffle": shuffle,
           "multinomial_distinct": multinomial_distinct, "orthogonal": orthogonal, "key": keys,
           "key_fold": key_fold, "random_bits": bits, "uniform": uniform, "randn": randn,
           "randint": randint, "bernoulli": bernoulli, "dropout": dropout}
