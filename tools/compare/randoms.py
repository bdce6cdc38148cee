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


def randn(q, account, rng, name):
    for dtype in FLOATS:
        for seed, shape, words in draws(rng):
            width = 32 if dtype == "f64" else 24
            u = ((words[0] >> np.uint64(32 - width)) + 0.5) * 2.0 ** -width
            if width == 24:
                u = np.float32((words[0] >> np.uint64(8)) * 2.0 ** -24 + 2.0 ** -24).astype(np.float64)
            v = (words[1] >> np.uint64(32 - width)) * 2.0 ** -width
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


RANDOMS = {"key": keys, "key_fold": key_fold, "random_bits": bits, "uniform": uniform, "randn": randn,
           "randint": randint, "bernoulli": bernoulli, "dropout": dropout}
