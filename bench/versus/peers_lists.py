"""peers_lists.py - what NumPy, JAX and PyTorch do for play_lists.c's cases: scans, sorting, tables,
norms and pooling, linear algebra, and lists of tensors. Each function gives one of no arguments for
NumPy and PyTorch, of the inputs for JAX (which jits it), or None."""

import numpy as np

LINALG = ("cholesky", "solve", "inv", "triangular", "qr", "svd", "eigh")
LISTS = ("cumsum", "sort", "argsort", "topk", "unique", "take", "index_add", "embedding_grad",
         "fft") + LINALG
IMAGES = ("batch_norm", "batch_norm_grad", "max_pool", "avg_pool", "max_pool_grad", "bilinear", "bicubic")
SOLVERS = ("solver",)
PIECES = ("stack", "concat_grad", "select_grad", "shared")
ALL = LISTS + IMAGES + SOLVERS + PIECES


def index(n, below):
    """vs_index of case.c for 0 .. n - 1."""
    return (np.arange(n, dtype=np.int64) * 7919 % below).astype(np.int32)


def linalg(kind, array, n):
    """Matrices as play_lists.c makes them."""
    x = array(0, n, n)
    half, eye = (x + x.T) * np.float32(0.5), np.eye(n, dtype=np.float32)
    if kind == "cholesky":
        return [half * np.float32(1 / n) + 2 * eye]
    if kind in ("solve", "inv", "triangular"):
        a = x + np.float32(n) * eye
        return [a, array(1, n)] if kind == "solve" else [a, array(1, n, n)] if kind == "triangular" else [a]
    return [half if kind == "eigh" else x]


def inputs(kind, array, d):
    """The inputs as case.c has them."""
    if kind in ("cumsum", "sort", "argsort", "topk"):
        return [array(0, *d[:2])]
    if kind == "unique":
        return [index(d[0], d[1])]
    if kind == "fft":
        return [array(0, *d[:2], 2)]
    if kind in LINALG:
        return linalg(kind, array, d[0])
    if kind in SOLVERS:
        return [array(0, d[0], d[0])]
    if kind in PIECES:
        return [array(0, *d[:3])] + ([array(1, d[2], d[2])] if kind == "shared" else [])
    if kind in IMAGES:
        x = [array(i, d[0], d[1], d[2], d[2]) for i in range(2 if kind == "batch_norm_grad" else 1)]
        return x + ([np.ones(d[1], np.float32), np.zeros(d[1], np.float32)] if "norm" in kind else [])
    rows = [] if kind == "take" else [array(1, d[2], d[1])]
    return [array(0, *d[:2])] + rows + [index(d[2], d[0])]


def jacobi(roll, x, b):
    """A step of play_nets.c's solver."""
    near = roll(x, -1, 0) + roll(x, 1, 0) + roll(x, -1, 1) + roll(x, 1, 1)
    return near * np.float32(0.2) + b


def numpy_lists(kind, d, x):
    def solver():
        y = x[0]
        for _ in range(d[1]):
            y = jacobi(np.roll, y, x[0])
        return y

    def topk():
        part = np.partition(x[0], d[1] - d[2], axis=1)[:, d[1] - d[2]:]
        return -np.sort(-part, axis=1)

    def index_add():
        out = x[0].copy()
        np.add.at(out, x[2], x[1])
        return out
    return {
        "cumsum": lambda: np.cumsum(x[0], axis=d[2]), "sort": lambda: np.sort(x[0], axis=-1),
        "argsort": lambda: np.argsort(x[0], axis=-1, kind="stable"), "topk": topk,
        "fft": lambda: np.fft.fft(x[0].view(np.complex64)[..., 0]).view(np.float32),
        "unique": lambda: np.unique(x[0]), "take": lambda: np.take(x[0], x[1], axis=0),
        "index_add": index_add, "solver": solver, "cholesky": lambda: np.linalg.cholesky(x[0]),
        "solve": lambda: np.linalg.solve(x[0], x[1]), "inv": lambda: np.linalg.inv(x[0]),
        "qr": lambda: np.linalg.qr(x[0])[1],
        "svd": lambda: np.linalg.svd(x[0])[1], "eigh": lambda: np.linalg.eigh(x[0])[0],
    }.get(kind)


def jax_lists(jax, kind, d):
    jnp, lax = jax.numpy, jax.lax

    def pool(x, start, combine):
        window, stride = (1, 1, d[3], d[3]), (1, 1, d[4], d[4])
        return lax.reduce_window(x, start, combine, window, stride, "VALID")

    def batch_norm(x, gamma, beta):
        mean = x.mean((0, 2, 3), keepdims=True)
        y = (x - mean) * lax.rsqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
        return y * gamma[:, None, None] + beta[:, None, None]

    def most(x):
        return pool(x, -jnp.inf, lax.max)
    def resized(x, method="bilinear"):
        return jax.image.resize(x, (d[0], d[1], d[3], d[3]), method, antialias=False)

    def solver(b):
        return lax.fori_loop(0, d[1], lambda _, x: jacobi(jnp.roll, x, b), b)
    return {
        "bilinear": resized, "solver": solver,
        "cumsum": lambda x: jnp.cumsum(x, axis=d[2]), "sort": lambda x: jnp.sort(x, axis=-1),
        "argsort": lambda x: jnp.argsort(x, axis=-1), "topk": lambda x: lax.top_k(x, d[2])[0],
        "unique": lambda x: jnp.unique(x, size=d[1]), "take": lambda x, i: jnp.take(x, i, axis=0),
        "index_add": lambda x, s, i: x.at[i].add(s),
        "embedding_grad": lambda x, s, i: jnp.zeros_like(x).at[i].add(s),
        "batch_norm": batch_norm, "max_pool": most,
        "batch_norm_grad": lambda x, s, g, b: jax.vjp(batch_norm, x, g, b)[1](s),
        "avg_pool": lambda x: pool(x, 0., lax.add) / d[3] ** 2,
        "max_pool_grad": lambda x: jax.grad(lambda x: (most(x) ** 2).sum())(x),
        "cholesky": jnp.linalg.cholesky, "solve": jnp.linalg.solve, "inv": jnp.linalg.inv,
        "triangular": lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        "qr": lambda a: jnp.linalg.qr(a)[1], "svd": lambda a: jnp.linalg.svd(a)[1],
        "eigh": lambda a: jnp.linalg.eigh(a)[0],
    }.get(kind)


def torch_pieces(torch, kind, d, x):
    parts = [v.clone() for v in x[0]]
    if kind == "stack":
        return lambda: torch.stack(parts, d[3])
    if kind == "select_grad":
        leaf = x[0].clone().requires_grad_()

        def select():
            return torch.autograd.grad(torch.stack(leaf.unbind(0)).square().sum(), leaf)[0]
        return select
    if kind == "concat_grad":
        parts = [v.requires_grad_() for v in parts]
        return lambda: torch.autograd.grad(torch.cat(parts, 0).square().sum(), parts)[0]
    weight = x[1].clone().requires_grad_()

    def shared():
        total = ((parts[0] @ weight) * parts[0]).sum()
        for p in parts[1:]:
            total = total + ((p @ weight) * p).sum()
        return torch.autograd.grad(total, weight)[0]
    return shared


def torch_grads(torch, kind, d, x):
    f = torch.nn.functional
    if kind == "embedding_grad":
        leaf, ids = x[0].requires_grad_(), x[2].long()
        return lambda: torch.autograd.grad(f.embedding(ids, leaf), leaf, x[1])[0]
    if kind == "max_pool_grad":
        leaf = x[0].requires_grad_()
        return lambda: torch.autograd.grad(f.max_pool2d(leaf, d[3], d[4]).square().sum(), leaf)[0]
    leaves = [x[0].requires_grad_(), x[2].requires_grad_(), x[3].requires_grad_()]

    def batch_norm():
        y = f.batch_norm(leaves[0], None, None, leaves[1], leaves[2], training=True, eps=1e-5)
        return torch.autograd.grad(y, leaves, x[1])[0]
    return batch_norm


def torch_lists(torch, kind, d, x):
    f = torch.nn.functional
    if kind in PIECES:
        return torch_pieces(torch, kind, d, x)
    if kind.endswith("_grad"):
        return torch_grads(torch, kind, d, x)
    def solver():
        y = x[0]
        for _ in range(d[1]):
            y = jacobi(torch.roll, y, x[0])
        return y
    ids = x[-1].long() if kind in ("take", "index_add") else None
    run = {
        "cumsum": lambda: torch.cumsum(x[0], d[2]), "sort": lambda: torch.sort(x[0], dim=-1)[0],
        "argsort": lambda: torch.argsort(x[0], dim=-1, stable=True),
        "topk": lambda: torch.topk(x[0], d[2])[0], "unique": lambda: torch.unique(x[0]),
        "take": lambda: torch.index_select(x[0], 0, ids),
        "index_add": lambda: torch.index_add(x[0], 0, ids, x[1]),
        "batch_norm": lambda: f.batch_norm(x[0], None, None, x[1], x[2], training=True, eps=1e-5),
        "max_pool": lambda: f.max_pool2d(x[0], d[3], d[4]),
        "avg_pool": lambda: f.avg_pool2d(x[0], d[3], d[4]), "solver": solver,
        "bilinear": lambda: f.interpolate(x[0], (d[3], d[3]), mode="bilinear"),
        "bicubic": lambda: f.interpolate(x[0], (d[3], d[3]), mode="bicubic"),
        "cholesky": lambda: torch.linalg.cholesky(x[0]), "solve": lambda: torch.linalg.solve(x[0], x[1]),
        "fft": lambda: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x[0]))),
        "inv": lambda: torch.linalg.inv(x[0]),
        "triangular": lambda: torch.linalg.solve_triangular(x[0], x[1], upper=False),
        "qr": lambda: torch.linalg.qr(x[0])[1], "svd": lambda: torch.linalg.svd(x[0])[1],
        "eigh": lambda: torch.linalg.eigh(x[0])[0],
    }.get(kind)

    def call():
        with torch.inference_mode():
            return run()
    return run and call
