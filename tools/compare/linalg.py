"""linalg.py - linear algebra against NumPy, matrices well conditioned: within some roundings; factors
that are unique up to signs by what they multiply to."""

import numpy as np

from quern import FLOATS, Value, epsilon
from sorting import several
from trial import exact, near

BATCHES = [(), (2,), (2, 1, 3)]


def square(rng, batch, n, symmetric=False):
    x = rng.uniform(-1, 1, (*batch, n, n))
    return (x @ np.swapaxes(x, -1, -2) if symmetric else x) + n * np.eye(n)


def drawn(rng, symmetric=False):
    for dtype in FLOATS:
        for batch in BATCHES:
            n = int(rng.integers(1, 7))
            x = Value.of(dtype, square(rng, batch, n, symmetric))
            if symmetric:
                low = np.tril(x.numbers())
                x = Value.of(dtype, low + np.swapaxes(np.tril(low, -1), -1, -2))
            yield dtype, batch, n, x


def slack(dtype, n, want):
    return np.full(np.shape(want), 200 * n * epsilon(dtype) * (1 + np.max(np.abs(want), initial=0)))


def one(call, want_of, symmetric=False):
    def run(q, account, rng, name):
        for dtype, _, n, x in drawn(rng, symmetric):
            want = want_of(x.numbers())
            near(q, account, name, dtype, [x], lambda t: call(q, t), want, slack(dtype, n, want), rng)
    return run


def systems(want_of, *args):
    def run(q, account, rng, name):
        for dtype, batch, n, x in drawn(rng):
            b = Value.of(dtype, rng.uniform(-1, 1, (n, 3)))
            want = want_of(x.numbers(), b.numbers())
            near(q, account, name, dtype, [x, b], lambda t, u: q.call(name, t, u, *args), want,
                 slack(dtype, n, want), rng)
    return run


def upper_solve(a, b):
    return np.linalg.solve(np.triu(a), b)


def lstsq(a, b):
    return np.linalg.pinv(a) @ b


def qr(q, account, rng, name):
    for dtype, _, n, x in drawn(rng):
        def call(t):
            u, r = several(q, "qr", 2, t)
            return q.call("matmul", u, r)
        near(q, account, name, dtype, [x], call, x.numbers(), 4 * slack(dtype, n, x.numbers()), rng)


def of_parts(dtype):
    """In which a complex result has its parts: that of f16 is c64."""
    return "f64" if dtype == "f64" else "f32"


def eig(q, account, rng, name):
    for dtype, _, n, x in drawn(rng):
        def call(t):
            values, vectors = several(q, "eig", 2, t)
            turned = q.call("matmul", q.call("mul", vectors, q.call("unsqueeze", values, -2)), q.call("inv", vectors))
            return q.call("real", turned)
        out, want = of_parts(dtype), x.numbers()
        near(q, account, name, dtype, [x], call, want, 4 * slack(out, n, want), rng, out=out)


def eigvals(q, account, rng, name):
    for dtype, _, n, x in drawn(rng):
        out, values = of_parts(dtype), np.linalg.eigvals(x.numbers())
        for part, of in (("real", np.real), ("imag", np.imag)):
            want = np.sort(of(values), -1)

            def call(t, part=part):
                return q.call("sort", q.call(part, q.call("eigvals", t)), -1, False)
            near(q, account, name, dtype, [x], call, want, slack(out, n, want), rng, out=out)


def rank(q, account, rng, name):
    for dtype, _, n, x in drawn(rng):
        want = np.linalg.matrix_rank(x.numbers())
        exact(q, account, name, dtype, [x], lambda t: q.call(name, t, -1.0), Value("i64", want), rng)


def exponential(x):
    out, term = 0 * x + np.eye(x.shape[-1]), np.eye(x.shape[-1])
    for k in range(1, 120):
        term = term @ x / k
        out = out + term
    return out


def pairs(want_of, shapes, *args):
    def run(q, account, rng, name):
        for dtype in FLOATS:
            x, y = [Value.of(dtype, rng.uniform(-2, 2, s)) for s in shapes]
            want = want_of(x.numbers(), y.numbers())
            near(q, account, name, dtype, [x, y], lambda t, u: q.call(name, t, u, *args), want,
                 slack(dtype, 1, want), rng)
    return run


LINALG = {
    "cholesky": one(lambda q, t: q.call("cholesky", t, False), np.linalg.cholesky, True),
    "inv": one(lambda q, t: q.call("inv", t), np.linalg.inv), "det": one(lambda q, t: q.call("det", t), np.linalg.det),
    "slogdet": one(lambda q, t: several(q, "slogdet", 2, t)[1], lambda x: np.linalg.slogdet(x)[1]),
    "eigh": one(lambda q, t: several(q, "eigh", 2, t)[0], np.linalg.eigvalsh, True),
    "svd": one(lambda q, t: several(q, "svd", 3, t)[1], lambda x: np.linalg.svd(x, compute_uv=False)),
    "pinv": one(lambda q, t: q.call("pinv", t, -1.0), np.linalg.pinv),
    "matrix_power": one(lambda q, t: q.call("matrix_power", t, -2), lambda x: np.linalg.matrix_power(x, -2)),
    "matrix_exp": one(lambda q, t: q.call("matrix_exp", t), exponential),
    "solve": systems(np.linalg.solve), "lstsq": systems(lstsq),
    "solve_triangular": systems(upper_solve, True, False, False), "qr": qr, "eig": eig, "eigvals": eigvals,
    "matrix_rank": rank,
    "cross": pairs(np.cross, [(4, 3), (4, 3)], 1), "kron": pairs(np.kron, [(2, 3), (4, 1, 2)])}
