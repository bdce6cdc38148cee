"""opinfo.py - PyTorch's own samples of its operators (OpInfo), values and gradients, beside ours.

`compare.py opinfo`. An operator is called by PyTorch on each of its samples, and by the adapter of
its name (opinfo_table.py) on the same elements; results meet in shape, dtype and value, gradients of
both by the same random seeds. What is right is what PyTorch computes in double precision; a float32
result may be off by some roundings of the largest element, or as far as PyTorch's own is. Operators
without an adapter stand with a reason in opinfo_lacking.py, and all of them in docs/opinfo.md.
"""

import collections
import logging
import subprocess
import textwrap
import time
import warnings
import zlib

import numpy as np

import quern
from quern import QuernError, Value

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
try:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError as e:
    torch, op_db, why = None, [], e

DTYPES = ["f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "u16", "u32", "u64", "bool", "c64",
          "c128"]
EPSILON = {"f16": 2.0 ** -10, "bf16": 2.0 ** -7, "f32": 2.0 ** -23, "c64": 2.0 ** -23, "f64": 2.0 ** -52,
           "c128": 2.0 ** -52}
WIDE = {"f16": "f64", "bf16": "f64", "f32": "f64", "c64": "c128"}  # in which PyTorch's result counts as right
LARGEST = {d: quern.largest(d) for d in ("f16", "bf16", "f32")}
LOOSE = ("linalg.", "svd", "pinverse", "inverse", "det", "logdet", "matrix_exp", "cov", "corrcoef")


class Lacks(Exception):
    """What the sample asks for has no counterpart here."""


def name_of(info):
    return info.name + ("/" + info.variant_test_name if info.variant_test_name else "")


def types():
    return dict(zip(quern.DTYPES + ["c64", "c128"], [
        torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
        torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]))


def name_of_type(dtype):
    for name, t in types().items():
        if t == dtype:
            return name
    raise Lacks(f"dtype {dtype}")


class T:
    """A tensor of ours, with a name's worth of arithmetic; plain numbers beside it are weak."""

    def __init__(self, ours, handle):
        self.ours, self.handle = ours, handle

    @property
    def shape(self):
        return list(self.ours.q.shape(self.handle))

    @property
    def ndim(self):
        return self.ours.q.plain["qn_rank"](self.handle)

    @property
    def dtype(self):
        return quern.NAMES[self.ours.q.plain["qn_dtype_of"](self.handle)]

    @property
    def floats(self):
        return self.dtype in quern.FLOATS

    @property
    def whole(self):
        return self.dtype in quern.INTS

    def __add__(self, other):
        return self.ours.add(self, other)

    def __sub__(self, other):
        return self.ours.sub(self, other)

    def __mul__(self, other):
        return self.ours.mul(self, other)

    def __truediv__(self, other):
        return self.ours.div(self, other)

    def __neg__(self):
        return self.ours.neg(self)


class Ours:
    """Functions under their names without qn_: T in, T out, lists of them where arrays are given back."""

    def __init__(self, q):
        self.q = q

    def number(self, beside, value):
        """A Python number as a tensor that changes no dtype of its kind."""
        q = self.q
        if isinstance(value, bool):
            return q.tensor(Value("bool", value))
        if isinstance(value, int):
            return q.call("weak_int", beside.handle, value)
        if isinstance(value, complex):
            return q.tensor(Value("c128" if beside.dtype in ("f64", "c128") else "c64", value))
        return q.call("weak", beside.handle, float(value))

    def plain(self, dtype, values):
        return T(self, self.q.tensor(Value(dtype, np.asarray(values).astype(quern.STORAGE[dtype]))))

    def __getattr__(self, name):
        params = self.q.types["qn_" + name][1]
        params = params[1:] if params and params[0].startswith("qn_ctx") else params
        outs = sum(p == "qn_tensor **" for p in params)

        def call(*args, n=2):
            beside = next((a for a in args if isinstance(a, T)), None)
            given = []
            for kind, a in zip(params, args):
                if isinstance(a, T):
                    a = a.handle
                elif kind == "qn_tensor *" and a is not None:
                    a = self.number(beside, a)
                elif kind == "qn_tensor *const *":
                    a = [t.handle for t in a]
                elif kind in ("bool", "int", "int64_t"):
                    a = int(a)
                given.append(a)
            if not outs:
                return T(self, self.q.call(name, *given))
            places = [self.q.outs(n if outs == 1 else 1) for _ in range(outs)]
            self.q.call(name, *given, *places)
            return [T(self, h) for p in places for h in list(p)]
        return call


def walk(value, change):
    """value with each tensor in it changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(walk(v, change) for v in value) if type(value) in (list, tuple) else [
            walk(v, change) for v in value]
    if isinstance(value, dict):
        return {k: walk(v, change) for k, v in value.items()}
    return value


def flat(results):
    """A result, or those in lists, in order."""
    if isinstance(results, (list, tuple)):
        return [r for v in results for r in flat(v)]
    return [results]


def wider():
    """torch's dtypes to those in which its result counts as right."""
    return {types()[a]: types()[b] for a, b in WIDE.items()}


def array(t):
    t = t.detach().resolve_conj().resolve_neg()
    t = t.contiguous().view(torch.uint16) if t.dtype == torch.bfloat16 else t
    return t.contiguous().numpy(force=True)


def numbers(t):
    """A tensor of PyTorch's as numbers that NumPy knows."""
    return array(t.double() if t.dtype == torch.bfloat16 else t)


class Sample:
    """One sample by one library: results, leaves and their gradients."""

    def __init__(self, sample):
        self.arguments = (sample.input, sample.args, sample.kwargs)

    def torch(self, info, post, wide, wants_grad, seeds=None):
        leaves = []

        def copy(t):
            to = wider().get(t.dtype) if wide else None
            c = t.detach().clone().to(to or t.dtype)
            if t.requires_grad and wants_grad:
                leaves.append(c.requires_grad_())
            return c
        x, args, kwargs = walk(self.arguments, copy)
        if wide:
            change = wider()
            args = tuple(change.get(a, a) if isinstance(a, torch.dtype) else a for a in args)
            kwargs = {k: change.get(v, v) if isinstance(v, torch.dtype) else v for k, v in kwargs.items()}
        results = flat(post(info.op(x, *args, **kwargs)))
        grads = None
        if wants_grad and leaves:
            ys = [i for i, r in enumerate(results) if isinstance(r, torch.Tensor) and r.requires_grad]
            if ys:
                if seeds is None:
                    seeds = [torch.randn(results[i].shape, dtype=results[i].dtype) for i in ys]
                else:
                    seeds = [s.to(results[i].dtype) for i, s in zip(ys, seeds)]
                grads = torch.autograd.grad([results[i] for i in ys], leaves, seeds, allow_unused=True)
                grads = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves)]
                return results, grads, ys, seeds
        return results, None, [], []

    def ours(self, q, adapter, wants_grad, ys, seeds):
        ours, leaves = Ours(q), []

        def give(t):
            if t.layout != torch.strided:
                raise Lacks("sparse tensors")
            handle = T(ours, q.tensor(Value(name_of_type(t.dtype), array(t))))
            if t.requires_grad and wants_grad:
                leaves.append(handle)
            return handle
        x, args, kwargs = walk(self.arguments, give)
        results = flat(adapter(ours, x, *args, **kwargs))
        values = [q.read(r.handle) if isinstance(r, T) else r for r in results]
        grads = None
        if wants_grad and ys and leaves:
            out = q.outs(len(leaves))
            given = [q.call("cast", q.tensor(Value(name_of_type(s.dtype), array(s))), results[i].dtype)
                     for i, s in zip(ys, seeds)]
            q.call("vjp", len(ys), [results[i].handle for i in ys], given, len(leaves),
                   [x.handle for x in leaves], out)
            grads = [q.read(h) for h in list(out)]
        return values, grads


def described(sample):
    def short(t):
        data = "" if t.numel() > 6 else " " + str(t.detach().flatten().tolist())
        return f"<{str(t.dtype)[6:]}{list(t.shape)}{data}>"

    def text(v):
        if isinstance(v, torch.Tensor):
            return short(v)
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(map(text, v)) + "]"
        return repr(v)
    words = [text(sample.input)] + [text(a) for a in sample.args]
    return ", ".join(words + [f"{k}={text(v)}" for k, v in sample.kwargs.items()])[:400]


class Judge:
    """Whether one result is right, and the tally."""

    def __init__(self, shown):
        self.shown, self.tally = shown, collections.defaultdict(collections.Counter)
        self.reasons, self.seen = collections.Counter(), collections.Counter()
        self.classes, self.kinds = collections.Counter(), collections.Counter()

    def wrong(self, name, dtype, kind, sample, text):
        from opinfo_lacking import explained
        reason = explained(name, dtype, kind, text)
        self.tally[name]["explained" if reason else "different"] += 1
        if reason:
            self.reasons[(name, ": ".join(reason))] += 1
            self.classes[reason] += 1
            return
        self.seen[(name, dtype, kind)] += 1
        if self.seen[(name, dtype, kind)] <= self.shown:
            print(f"DIFFERENT {name} {dtype} {kind} ({described(sample)}): {text}", flush=True)

    def meet(self, name, dtype, kind, sample, got, want, truth):
        """got, a Value, beside PyTorch's result and that of wider arguments."""
        self.tally[name][kind] += 1
        self.kinds[(dtype, kind)] += 1
        if not isinstance(want, torch.Tensor):
            if got != want and not (isinstance(got, Value) and np.array_equal(got.raw, want)):
                got = got.raw if isinstance(got, Value) else got
                self.wrong(name, dtype, kind, sample, f"got {got}, expected {want}")
            return
        w = numbers(want)
        form = f"{got.dtype}{list(got.shape)}"
        if form != f"{name_of_type(want.dtype)}{list(w.shape)}":
            self.wrong(name, dtype, kind, sample, f"form {form}, not {name_of_type(want.dtype)}{list(w.shape)}")
            if tuple(got.shape) != w.shape:
                return
        found = got.numbers() if got.dtype == "bf16" else got.raw
        place = different(name, kind, found, w, numbers(truth) if isinstance(truth, torch.Tensor) else w, got.dtype)
        if place is not None:
            i, error = place
            self.wrong(name, dtype, kind, sample, f"got {found.reshape(-1)[i]!r}, expected {w.reshape(-1)[i]!r} at "
                       f"{i} of {list(w.shape)}, off by {error:.3g}")


def different(name, kind, got, want, truth, dtype):
    """Where two arrays differ most, or None."""
    if dtype not in EPSILON or truth.shape != want.shape:
        bad = np.flatnonzero(np.asarray(got != want).reshape(-1))
        return (bad[0], 1) if bad.size else None
    if not np.size(want):
        return None
    x, w, t = (np.asarray(v).astype(np.complex128 if dtype[0] == "c" or np.iscomplexobj(v) else np.float64).reshape(-1)
               for v in (got, want, truth))
    finite = np.isfinite(t)
    scale = np.max(np.abs(t[finite]), initial=0)
    err = np.max(np.abs(w - t)[finite & np.isfinite(w)], initial=0)
    eps = EPSILON[dtype] * (64 if name.startswith(LOOSE) else 1) * (64 if dtype in ("f64", "c128") else 1)
    eps /= 8 if dtype in ("f16", "bf16") else 1  # their sums are of f32, so that few roundings of theirs are left
    least = 1e-12 if kind == "gradient" and dtype == "f64" else 0  # terms of the size of 1 that cancel
    bound = 32 * eps * np.abs(t) + 8 * eps * scale + 8 * err + least
    right = (x == w) | (x == t) | (np.isnan(x) & (np.isnan(w) | np.isnan(t))) | (np.abs(x - t) <= bound)
    if dtype in LARGEST:  # what is too large for the dtype is infinite, also where PyTorch's inner steps lose it
        right |= np.isinf(x) & finite & (np.sign(x.real) == np.sign(t.real)) & (np.abs(t) > LARGEST[dtype])
    bad = np.flatnonzero(~right)
    if not bad.size:
        return None
    off = np.where(np.isfinite(x[bad]) & np.isfinite(t[bad]), np.abs(x[bad] - t[bad]), np.inf)
    return bad[np.argmax(off)], off.max()


def samples_of(info, dtype, most):
    torch.manual_seed(zlib.crc32(name_of(info).encode()))
    grad = dtype in EPSILON and info.supports_autograd
    found = list(info.sample_inputs("cpu", types()[dtype], requires_grad=grad))
    step = max(len(found) / most, 1)
    return [found[int(i * step)] for i in range(min(len(found), most))]


def compare_one(q, judge, info, dtype, sample, adapter, post):
    name, wants = name_of(info), dtype in EPSILON and info.supports_autograd
    given = Sample(sample)
    try:
        torch.manual_seed(7)
        want, grads, ys, seeds = given.torch(info, post, False, wants)
        truth, wide = want, grads
    except Exception as e:
        judge.tally[name]["left out"] += 1
        judge.reasons[(name, f"PyTorch refuses its own sample: {type(e).__name__}")] += 1
        return
    if dtype in WIDE:
        try:
            torch.manual_seed(7)
            truth, wide, _, _ = given.torch(info, post, True, wants, seeds)
        except Exception:
            truth, wide = want, grads
    with q.scope():
        try:
            got, ours = given.ours(q, adapter, wants, ys, seeds)
        except Lacks as e:
            judge.tally[name]["left out"] += 1
            judge.reasons[(name, str(e))] += 1
            return
        except QuernError as e:
            judge.wrong(name, dtype, "refused", sample, str(e))
            return
        except Exception as e:
            judge.wrong(name, dtype, "adapter", sample, f"{type(e).__name__}: {e}")
            return
    if len(got) != len(want):
        judge.wrong(name, dtype, "value", sample, f"{len(got)} results, not {len(want)}")
        return
    for g, w, t in zip(got, want, truth):
        judge.meet(name, dtype, "value", sample, g, w, t)
    for g, w, t in zip(ours or [], grads or [], wide or grads or []):
        judge.meet(name, dtype, "gradient", sample, g, w, t)


def complete():
    """Operators with neither adapter nor reason."""
    from opinfo_lacking import LACKING
    from opinfo_table import TABLE
    return [n for n in dict.fromkeys(map(name_of, op_db)) if n not in TABLE and n not in LACKING]


PAGE = """# PyTorch's operators

Written by `make compare COMPARE_ARGS="opinfo --page docs/opinfo.md"`: the operators of PyTorch's own samples
(OpInfo, {version}), by the names it gives them. `make compare COMPARE_ARGS=opinfo` calls both libraries on
the samples and compares values and gradients: forms exactly, whole numbers and truths exactly, floats with what
PyTorch computes in double precision.

## The run

{date}, commit {commit}, device {device}, at most {most} samples of each operator and dtype, in {seconds:.0f} s:
{samples} samples of {operators} operators, {different} differences that nothing explains.

"""


def table_of(judge):
    """What was compared, by dtypes."""
    lines = ["| dtype | values | gradients |", "|---|---|---|"]
    for dtype in DTYPES:
        lines.append(f"| {dtype} | {judge.kinds[(dtype, 'value')]} | {judge.kinds[(dtype, 'gradient')]} |")
    return lines


def paragraph(text):
    return textwrap.wrap(text, 130, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def names_text(names):
    return " ".join(f"`{n}`" for n in sorted(names))


def left_out(judge):
    """Reasons of samples that were left out, with how many and of which operators."""
    from opinfo_lacking import EXPLAINED
    given = {f"{whose}: {reason}" for _, _, _, whose, reason in EXPLAINED}
    counts, of = collections.Counter(), collections.defaultdict(set)
    for (name, reason), n in judge.reasons.items():
        if reason not in given:
            counts[reason] += n
            of[reason].add(name)
    return [line for reason, n in sorted(counts.items())
            for line in paragraph(f"- {reason} ({n}): {names_text(of[reason])}")]


def page(judge, q, most, seconds):
    """docs/opinfo.md."""
    from opinfo_composed import COMPOSED
    from opinfo_lacking import EXPLAINED, OURS, REASONS, THEIRS
    from opinfo_table import TABLE
    names = list(dict.fromkeys(map(name_of, op_db)))
    have = {n for n in names if n in TABLE}
    commit = subprocess.run(["git", "-C", quern.ROOT, "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True).stdout.strip()
    text = PAGE.format(version="PyTorch " + torch.__version__.split("+")[0], date=time.strftime("%Y-%m-%d"),
                       commit=commit or "unknown", device=q.device, most=most, seconds=seconds,
                       samples=sum(n["samples"] for n in judge.tally.values()), operators=len(judge.tally),
                       different=sum(n["different"] for n in judge.tally.values()))
    lines = [*table_of(judge), "\n## Compared\n", f"{len(have)} of {len(names)}. By functions of ours:\n",
             *textwrap.wrap(names_text(have - COMPOSED), 130), "\nMade of a few calls of ours:\n",
             *textwrap.wrap(names_text(have & COMPOSED), 130), "\n## Not there\n",
             f"{len(names) - len(have)}, by reasons.\n"]
    for reason, given in REASONS.items():
        given = {n for n in given.split() if n in names and n not in TABLE}
        if given:
            lines += paragraph(f"- **{reason[0].upper() + reason[1:]}**: {names_text(given)}")
    for whose, title in (OURS, "Other conventions"), (THEIRS, "PyTorch's faults and habits"):
        lines += [f"\n## {title}\n", "With the number of differences that each explains.\n"]
        for operators, _, _, of, reason in EXPLAINED:
            n = judge.classes[(whose, reason)]
            if of == whose and n:
                lines += paragraph(f"- {', '.join(f'`{n}`' for n in operators.split()) or 'All'} ({n}): {reason}."
                                   .replace("`composed`", "Those made of a few calls"))
    lines += ["\n## Samples left out\n", "What they ask for has no counterpart here, or PyTorch refuses them itself.\n",
              *left_out(judge)]
    return text + "\n".join(lines) + "\n"


def compare(q, only, most, shown, to=None, dtypes=()):
    """Compares, writes the page if a path is given; the number of differences that nothing explains."""
    from opinfo_table import TABLE
    if torch is None:
        print(f"opinfo: left out: {why}")
        return 0
    judge, start = Judge(shown), time.time()
    absent = [] if only else complete()
    for name in absent:
        print(f"neither compared nor explained: {name}")
    for info in op_db:
        name = name_of(info)
        if name not in TABLE or only and name not in only and info.name not in only:
            continue
        adapter, post = TABLE[name] if isinstance(TABLE[name], tuple) else (TABLE[name], lambda r: r)
        for dtype in dtypes or DTYPES:
            if types()[dtype] not in info.dtypes:
                continue
            try:
                samples = samples_of(info, dtype, most)
            except Exception as e:
                judge.reasons[(name, f"no samples: {type(e).__name__}")] += 1
                continue
            for sample in samples:
                judge.tally[name]["samples"] += 1
                compare_one(q, judge, info, dtype, sample, adapter, post)
    if to:
        with open(to, "w") as f:
            f.write(page(judge, q, most, time.time() - start))
    return report(judge, start) + len(absent)


def report(judge, start):
    kinds = ["samples", "value", "gradient", "different", "explained", "left out"]
    print(f"{'operator':40}" + "".join(f"{k:>10}" for k in kinds))
    for name, n in sorted(judge.tally.items()):
        print(f"{name:40}" + "".join(f"{n[k]:10}" for k in kinds))
    for (name, reason), n in sorted(judge.reasons.items()):
        print(f"reason: {name}: {n}: {reason}")
    total = collections.Counter()
    for n in judge.tally.values():
        total.update(n)
    print(f"{len(judge.tally)} operators, " + ", ".join(f"{total[k]} {k}" for k in kinds) +
          f", {time.time() - start:.0f} s")
    return total["different"]


__all__ = ["Lacks", "T", "compare"]
