"""vectors.py - functions of whole tensors as pairs, Quern's call and PyTorch's, for gradients."""

import numpy as np

from quern import ALL, Value, attention_options, conv_options, fixed_options

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = F = None


def fixed(*cases):
    """Cases (shapes, ours, theirs) that need no drawing."""
    return lambda rng: cases


def named(name, shape, args, theirs):
    return ([shape], lambda q, x: q.call(name, x, *args), theirs)


def reductions(name, theirs, *more):
    """By one axis, by all, with and without keeping."""
    return fixed(named(name, (3, 4), (1, *more, False), lambda x: theirs(x, 1, False)),
                 named(name, (2, 3, 2), (0, *more, True), lambda x: theirs(x, 0, True)),
                 named(name, (7,), (ALL, *more, False), lambda x: theirs(x, 0, False)))


def index(q, values, dtype="i64"):
    return q.tensor(Value.of(dtype, np.array(values)))


def pair(name, shapes, theirs, *args):
    return (shapes, lambda q, *t: q.call(name, *t, *args), theirs)


def scatters(rng):
    at = [[2, 0], [1, 1], [2, 2]]
    to = torch.tensor(at)
    for kind, reduce in (1, "sum"), (3, "amax"), (4, "amin"), (2, "prod"):
        yield ([(3, 3), (3, 2)], lambda q, x, s, kind=kind: q.call("scatter", x, index(q, at), s, 1, kind),
               lambda x, s, reduce=reduce: x.scatter_reduce(1, to, s, reduce, include_self=True))
    yield ([(3, 3), (3, 2)], lambda q, x, s: q.call("scatter", x, index(q, [[2, 0], [1, 0], [2, 1]]), s, 1, 0),
           lambda x, s: x.scatter(1, torch.tensor([[2, 0], [1, 0], [2, 1]]), s))


def norm_case(p):
    return (named("norm", (3, 5), (1, p, False), lambda x: torch.linalg.vector_norm(x, p, 1)),
            named("norm", (6,), (ALL, p, True), lambda x: torch.linalg.vector_norm(x, p, 0, True)))


def affine(function):
    """Norms with weight and bias."""
    return lambda x, w, b=None: function(x) * w + (0 if b is None else b)


def rms(x):
    return x / torch.sqrt((x * x).mean(-1, True) + 1e-5)


LABELS = [2, 0, 1, 1]


def labelled(name, theirs):
    return fixed(([(4, 3)], lambda q, x: q.call(name, x, index(q, LABELS)),
                  lambda x: theirs(x, torch.tensor(LABELS))))


def convs(rng):
    for space, last in (1, False), (2, False), (2, True), (3, False):
        x = (2, 4) + (5,) * space
        options = dict(stride=[2] * space, before=[1] * space, after=[1] * space, groups=2)
        w, function = (6, 2) + (3,) * space, getattr(F, f"conv{space}d")

        def ours(q, x, w, b, options=options, last=last):
            x = q.call("permute", x, 4, [0, 2, 3, 1]) if last else x
            r = q.call("conv", x, w, b, conv_options(channels_last=last, **options))
            return q.call("permute", r, 4, [0, 3, 1, 2]) if last else r
        yield [x, w, (6,)], ours, lambda x, w, b, f=function: f(x, w, b, 2, 1, 1, 2)


def transposed(rng):
    for space in (1, 2, 3):
        function = getattr(F, f"conv_transpose{space}d")
        options = dict(stride=[2] * space, before=[1] * space, after=[1] * space, extra=[1] * space)
        yield ([(2, 3) + (4,) * space, (3, 2) + (3,) * space, (2,)],
               lambda q, x, w, b, o=options: q.call("conv_transpose", x, w, b, conv_options(**o)),
               lambda x, w, b, f=function: f(x, w, b, 2, 1, 1))


def conv_fixed(space):
    name, function = f"conv{space}d", getattr(F, f"conv{space}d") if F else None
    return fixed(pair(name, [(2, 2) + (5,) * space, (4, 1) + (2,) * space, (4,)],
                      lambda x, w, b: function(x, w, b, 2, 1, 2, 2), fixed_options(space, 2, 1, 2, 2)))


def pools(name):
    def make(rng):
        for space in (1, 2):
            function = getattr(F, f"{name}{space}d")
            options = dict(stride=[2] * space, before=[1] * space, after=[1] * space)
            yield ([(2, 2) + (6,) * space],
                   lambda q, x, s=space, o=options: q.call(name, x, [3] * s, conv_options(**o)),
                   lambda x, f=function: f(x, 3, 2, 1))
    return make


def attend(rng):
    def theirs(query, key, value, causal):
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        unseen = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1) & causal
        return scores.masked_fill(unseen, -torch.inf).softmax(-1) @ value
    for causal in (False, True):
        yield ([(2, 5, 4)] * 3, lambda q, *t, c=causal: q.call("attention", *t, attention_options(c)),
               lambda *t, c=causal: theirs(*t, c))


def listed(name, *args):
    return lambda q, *t: q.call(name, len(t), list(t), *args)


def split_first(q, x):
    out = q.outs(2)
    q.call("split", x, 1, 2, [1, 3], out)
    return q.call("mul", q.call("sum", out[1], 1, True), out[0])


def recurrence(a, b):
    rows = [b[:, 0]]
    for i in range(1, b.shape[1]):
        rows.append(a[:, i] * rows[-1] + b[:, i])
    return torch.stack(rows, 1)


VECTORS = {} if torch is None else {
    "sum": reductions("sum", torch.sum), "prod": reductions("prod", lambda x, a, k: torch.prod(x, a, k)),
    "max": reductions("max", torch.amax), "min": reductions("min", torch.amin),
    "mean": reductions("mean", torch.mean), "logsumexp": reductions("logsumexp", torch.logsumexp),
    "variance": reductions("variance", lambda x, a, k: torch.var(x, a, correction=1, keepdim=k), 1.0),
    "std": reductions("std", lambda x, a, k: torch.std(x, a, correction=0, keepdim=k), 0.0),
    "cumsum": fixed(named("cumsum", (3, 5), (1,), lambda x: x.cumsum(1)),
                    named("cumsum", (4, 2), (0,), lambda x: x.cumsum(0))),
    "cumprod": fixed(named("cumprod", (3, 5), (1,), lambda x: x.cumprod(1))),
    "cummax": fixed(named("cummax", (3, 5), (1,), lambda x: x.cummax(1).values)),
    "cummin": fixed(named("cummin", (3, 5), (0,), lambda x: x.cummin(0).values)),
    "logcumsumexp": fixed(named("logcumsumexp", (3, 5), (1,), lambda x: x.logcumsumexp(1))),
    "linear_scan": fixed(([(2, 4), (2, 4)], lambda q, a, b: q.call("linear_scan", a, b, 1), recurrence)),
    "diff": fixed(named("diff", (3, 5), (2, 1), lambda x: x.diff(2, 1))),
    "norm": fixed(*[c for p in (1.0, 2.0, 3.0, 0.5, -1.0, float("inf")) for c in norm_case(p)]),
    "reshape": fixed(named("reshape", (3, 4), (2, [2, 6]), lambda x: x.reshape(2, 6))),
    "permute": fixed(named("permute", (2, 3, 4), (3, [2, 0, 1]), lambda x: x.permute(2, 0, 1))),
    "transpose": fixed(named("transpose", (2, 3), (0, 1), lambda x: x.T)),
    "expand": fixed(named("expand", (3, 1), (3, [2, 3, 4]), lambda x: x.expand(2, 3, 4))),
    "slice": fixed(named("slice", (3, 7), (1, 1, 6, 2), lambda x: x[:, 1:6:2]),
                   named("slice", (7,), (0, 6, 0, -2), lambda x: x.flip(0)[0:6:2])),
    "select": fixed(named("select", (3, 4), (1, -2), lambda x: x[:, -2])),
    "flip": fixed(named("flip", (3, 4), (1,), lambda x: x.flip(1))),
    "flip_axes": fixed(named("flip_axes", (3, 4), (2, [0, 1]), lambda x: x.flip(0, 1))),
    "roll_axes": fixed(named("roll_axes", (3, 4), (2, [0, 1], [1, -2]), lambda x: x.roll((1, -2), (0, 1)))),
    "squeeze_axes": fixed(named("squeeze_axes", (3, 1, 4, 1), (2, [1, 3]), lambda x: x.squeeze((1, 3)))),
    "unsqueeze_axes": fixed(named("unsqueeze_axes", (3,), (2, [0, 2]), lambda x: x[None, :, None])),
    "softmax_axes": fixed(named("softmax_axes", (3, 5), (2, [0, 1]), lambda x: x.flatten().softmax(0).reshape(3, 5))),
    "log_softmax_axes": fixed(named("log_softmax_axes", (3, 5), (2, [0, 1]),
                                    lambda x: x.flatten().log_softmax(0).reshape(3, 5))),
    "std_axes": fixed(named("std_axes", (3, 4), (2, [0, 1], 0.0, False), lambda x: torch.std(x, (0, 1), correction=0))),
    "norm_axes": fixed(named("norm_axes", (3, 4), (2, [0, 1], 2.0, False),
                             lambda x: torch.linalg.vector_norm(x, 2.0, (0, 1)))),
    "logsumexp_axes": fixed(named("logsumexp_axes", (3, 4), (2, [0, 1], True),
                                  lambda x: torch.logsumexp(x, (0, 1), True))),
    "as_strided": fixed(named("as_strided", (9,), (2, [3, 4], [2, 1], 1),
                              lambda x: torch.as_strided(x, (3, 4), (2, 1), 1))),
    "pad": fixed(*[named("pad", (2, 5), ([0, 0, 2, 1], mode, 3.0),
                         lambda x, m=m: F.pad(x, (2, 1), m, **({"value": 3.0} if m == "constant" else {})))
                   for mode, m in enumerate(("constant", "reflect", "replicate", "circular"))]),
    "roll": fixed(named("roll", (3, 4), (1, 3), lambda x: x.roll(3, 1))),
    "squeeze": fixed(named("squeeze", (3, 1, 4), (1,), lambda x: x.squeeze(1))),
    "unsqueeze": fixed(named("unsqueeze", (3,), (0,), lambda x: x.unsqueeze(0))),
    "flatten": fixed(named("flatten", (2, 3, 2), (1, 2), lambda x: x.flatten(1, 2))),
    "unfold": fixed(named("unfold", (8,), (0, 3, 2), lambda x: x.unfold(0, 3, 2)),
                    named("unfold", (2, 6), (1, 2, 1), lambda x: x.unfold(1, 2, 1))),
    "diagonal": fixed(named("diagonal", (3, 4), (1,), lambda x: torch.diagonal(x, 1))),
    "triu": fixed(named("triu", (3, 4), (1,), lambda x: torch.triu(x, 1))),
    "tril": fixed(named("tril", (3, 4), (-1,), lambda x: torch.tril(x, -1))),
    "tile": fixed(named("tile", (2, 3), (2, [2, 3]), lambda x: torch.tile(x, (2, 3)))),
    "repeat_interleave": fixed(named("repeat_interleave", (2, 3), (1, 3),
                                     lambda x: x.repeat_interleave(3, 1))),
    "concat": fixed(([(2, 3), (1, 3)], listed("concat", 0), lambda *t: torch.cat(t, 0))),
    "stack": fixed(([(2, 3), (2, 3)], listed("stack", 1), lambda *t: torch.stack(t, 1))),
    "vstack": fixed(([(3,), (3,)], listed("vstack"), lambda *t: torch.vstack(t))),
    "hstack": fixed(([(2, 3), (2, 1)], listed("hstack"), lambda *t: torch.hstack(t))),
    "split": fixed(([(2, 4)], split_first, lambda x: x[:, 1:].sum(1, True) * x[:, :1])),
    "gather": fixed(([(3, 4)], lambda q, x: q.call("gather", x, index(q, [[3, 3, 0], [1, 1, 1], [0, 2, 0]]), 1),
                     lambda x: x.gather(1, torch.tensor([[3, 3, 0], [1, 1, 1], [0, 2, 0]])))),
    "take": fixed(([(3, 4)], lambda q, x: q.call("take", x, index(q, [[2, 2], [0, 1]]), 0),
                   lambda x: x[torch.tensor([[2, 2], [0, 1]])])),
    "take_along_axis": fixed(([(3, 4)], lambda q, x: q.call("take_along_axis", x, index(q, [[3], [1], [0]]), 1),
                              lambda x: torch.take_along_dim(x, torch.tensor([[3], [1], [0]]), 1))),
    "scatter": scatters,
    "index_add": fixed(([(4, 3), (3, 3)], lambda q, x, s: q.call("index_add", x, index(q, [1, 1, 3]), s, 0),
                        lambda x, s: x.index_add(0, torch.tensor([1, 1, 3]), s))),
    "update_slice": fixed(([(3, 4), (2, 2)], lambda q, x, s: q.call("update_slice", x, s, [1, 1]),
                           lambda x, s: torch.slice_scatter(x, torch.slice_scatter(x[1:3], s, 1, 1, 3), 0, 1, 3))),
    "embedding": fixed(([(5, 3)], lambda q, w: q.call("embedding", w, index(q, [[4, 4], [0, 1]])),
                        lambda w: F.embedding(torch.tensor([[4, 4], [0, 1]]), w))),
    "matmul": fixed(pair("matmul", [(2, 3, 4), (4, 5)], torch.matmul), pair("matmul", [(4,), (4, 3)], torch.matmul)),
    "dot": fixed(pair("dot", [(6,), (6,)], torch.dot)), "outer": fixed(pair("outer", [(4,), (3,)], torch.outer)),
    "tensordot": fixed(pair("tensordot", [(2, 3, 4), (4, 3, 2)],
                            lambda x, y: torch.tensordot(x, y, ([2, 1], [0, 1])), 2, [2, 1], [0, 1])),
    "einsum": fixed(([(2, 3, 4), (4, 5), (3, 5)], lambda q, *t: q.call("einsum", 3, list(t), "abc,cd,bd->ad"),
                     lambda *t: torch.einsum("abc,cd,bd->ad", *t)),
                    ([(4, 4)], lambda q, *t: q.call("einsum", 1, list(t), "ii->i"), torch.diagonal)),
    "linear": fixed(pair("linear", [(2, 3, 4), (5, 4), (5,)], F.linear)),
    "conv": convs, "conv1d": conv_fixed(1), "conv2d": conv_fixed(2), "conv3d": conv_fixed(3),
    "conv_transpose": transposed, "max_pool": pools("max_pool"), "avg_pool": pools("avg_pool"),
    "softmax": fixed(named("softmax", (3, 5), (1,), lambda x: x.softmax(1))),
    "log_softmax": fixed(named("log_softmax", (3, 5), (0,), lambda x: x.log_softmax(0))),
    "layer_norm": fixed(pair("layer_norm", [(3, 6), (6,), (6,)], lambda x, w, b: F.layer_norm(x, (6,), w, b), 1e-5)),
    "rms_norm": fixed(pair("rms_norm", [(3, 6), (6,)], affine(rms), 1e-5)),
    "group_norm": fixed(([(2, 4, 3), (4,), (4,)], lambda q, x, w, b: q.call("group_norm", x, w, b, 2, 1e-5),
                         lambda x, w, b: F.group_norm(x, 2, w, b))),
    "attention": attend, "cross_entropy": labelled("cross_entropy", F.cross_entropy),
    "nll_loss": labelled("nll_loss", F.nll_loss), "mse_loss": fixed(pair("mse_loss", [(3, 4)] * 2, F.mse_loss)),
    "l1_loss": fixed(pair("l1_loss", [(3, 4)] * 2, F.l1_loss)),
    "huber_loss": fixed(pair("huber_loss", [(3, 4)] * 2, F.huber_loss, 1.0)),
    "bce_with_logits": fixed(pair("bce_with_logits", [(3, 4)] * 2, F.binary_cross_entropy_with_logits)),
    "where": fixed(([(3, 4)] * 2, lambda q, x, y: q.call("where", q.call("lt", x, y), x, q.call("mul", x, y)),
                    lambda x, y: torch.where(x < y, x, x * y))),
    "fma": fixed(pair("fma", [(3, 4)] * 3, lambda x, y, z: x * y + z)),
    "lerp": fixed(pair("lerp", [(3, 4)] * 3, torch.lerp)),
    "contiguous": fixed(named("contiguous", (3, 4), (), lambda x: x * 1)),
    "detach": fixed(([(3, 4)], lambda q, x: q.call("mul", x, q.call("detach", x)), lambda x: x * x.detach()))}
