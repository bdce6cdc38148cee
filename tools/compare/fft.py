"""fft.py - Fourier transforms against NumPy's in f64 or wider: within roundings that grow with the
logarithm of the length, of the root of the mean square; axes, lengths, norms, pairs in and out."""

import numpy as np

from quern import FLOATS, Value, epsilon
from trial import near

NORMS = ["backward", "ortho", "forward"]


def complexes(values):
    return values[..., 0] + 1j * values[..., 1]


def pairs(values):
    values = np.asarray(values)
    return np.stack([values.real, values.imag], -1) if np.iscomplexobj(values) else values


def bound(dtype, n, want):
    size = np.sqrt(np.mean(np.square(np.abs(want)))) if want.size else 0
    return np.full(np.shape(want), 20 * epsilon(dtype) * np.log2(n + 2) * (size + np.max(np.abs(want), initial=0)))


def along(of, real):
    """One axis, of a length that cuts or pads."""
    def run(q, account, rng, name):
        for dtype in FLOATS:
            for _ in range(6):
                shape = tuple(int(v) for v in rng.integers(2, 40, int(rng.integers(1, 4))))
                axis, norm = int(rng.integers(-len(shape), len(shape))), int(rng.integers(3))
                n = int(rng.choice([0, rng.integers(1, 60)]))
                x = Value.of(dtype, rng.uniform(-1, 1, shape if real else (*shape, 2)))
                values = x.numbers() if real else complexes(x.numbers())
                want = pairs(of(values, n or None, axis, NORMS[norm]))
                near(q, account, name, dtype, [x], lambda t: q.call(name, t, n, axis, norm), want,
                     bound(dtype, max(want.shape), want), rng)
    return run


def over(of, real, last=False):
    """Several axes."""
    def run(q, account, rng, name):
        for dtype in FLOATS:
            shape = tuple(int(v) for v in rng.integers(2, 12, 3))
            axes = [int(a) for a in rng.permutation(3)[:int(rng.integers(1, 4))]]
            norm, size = int(rng.integers(3)), int(rng.integers(2, 20))
            x = Value.of(dtype, rng.uniform(-1, 1, shape if real else (*shape, 2)))
            values = x.numbers() if real else complexes(x.numbers())
            if last:
                sizes = [values.shape[a] for a in axes[:-1]] + [size]
                want = of(values, sizes, axes, NORMS[norm])
                near(q, account, name, dtype, [x], lambda t: q.call(name, t, len(axes), axes, size, norm), want,
                     bound(dtype, want.size, want), rng)
            else:
                want = pairs(of(values, None, axes, NORMS[norm]))
                near(q, account, name, dtype, [x], lambda t: q.call(name, t, len(axes), axes, norm), want,
                     bound(dtype, want.size, want), rng)
    return run


FFT = {"fft": along(np.fft.fft, False), "ifft": along(np.fft.ifft, False), "rfft": along(np.fft.rfft, True),
       "irfft": along(np.fft.irfft, False), "hfft": along(np.fft.hfft, False), "ihfft": along(np.fft.ihfft, True),
       "fftn": over(np.fft.fftn, False), "ifftn": over(np.fft.ifftn, False), "rfftn": over(np.fft.rfftn, True),
       "irfftn": over(np.fft.irfftn, False, True)}
