#!/usr/bin/env python3
"""compare.py - every public function against NumPy, PyTorch, SciPy and mpmath.

Usage: compare.py [--device NAME] [--seed N] [--only NAME[,NAME]] [--part PART[,PART]] [--count N] [--first N]
                  [--tree PATH] [--library PATH] [opinfo [--samples N] [--dtypes D,D] [--page PATH]]

Every row of ops.h and funcs.h, every dtype it takes, special values and random ones, first and
second derivatives, and random graphs. Prints each difference with the bits of its arguments and the
options that repeat it, then counts. Ends with status 1 when a difference is not explained by a row
of conventions.py, or a public function has neither counterpart nor reason.
"""

import argparse
import os
import sys
import time
import zlib

try:
    import mpmath  # noqa: F401
    import numpy as np
except ImportError as e:
    sys.exit(f"compare: {e}: needs NumPy and mpmath; PyTorch adds gradients, convolutions and graphs")

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import quern  # noqa: E402
from judge import Account, Case  # noqa: E402

PARTS = ["elementwise", "arrays", "networks", "gradients", "training", "layers", "graphs", "quants"]


def public_functions():
    """Names without qn_ of the tables' rows, and of the headers."""
    gen = quern.table_parser()
    rows = [name for name, *_ in gen.regions_of_ops()] + [f[2] for f in gen.funcs()]
    header = quern.prototypes()
    return rows, [name[3:] for name in header]


def missing(tables):
    """Functions that nothing is compared with and that have no reason."""
    from conventions import NOT_COMPARED
    known = set().union(*tables.values()) | set(NOT_COMPARED)
    rows, header = public_functions()
    return [n for n in dict.fromkeys(rows + header) if n not in known]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("family", nargs="*", help="as --part; opinfo: PyTorch's own samples, in no other run")
    parser.add_argument("--page", help="of opinfo: write docs/opinfo.md there, of what was compared")
    parser.add_argument("--dtypes", default="", help="of opinfo: these alone, by commas")
    parser.add_argument("--samples", type=int, default=40, help="of opinfo, for each operator and dtype")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="functions, by commas")
    parser.add_argument("--part", default=",".join(PARTS))
    parser.add_argument("--count", type=int, default=200, help="random graphs")
    parser.add_argument("--first", type=int, default=0, help="number of the first random graph")
    parser.add_argument("--shown", type=int, default=3, help="differences printed of one kind")
    parser.add_argument("--tree", default=quern.ROOT, help="whose tables, header and build")
    parser.add_argument("--library", help="another build than the tree's")
    args = parser.parse_args()
    quern.ROOT = os.path.abspath(args.tree)
    args.library = args.library or os.path.join(quern.ROOT, "build", "libquern.so.0")
    np.seterr(all="ignore")
    os.environ.setdefault("QN_CACHE", "off")
    if "opinfo" in args.family:
        import opinfo
        q = quern.Quern(args.library, args.device)
        return 1 if opinfo.compare(q, [n for n in args.only.split(",") if n], args.samples, args.shown,
                                   args.page, [d for d in args.dtypes.split(",") if d]) else 0
    args.part = ",".join(args.family) or args.part
    tables = {part: __import__(part).table() for part in PARTS}
    only = [name for name in args.only.split(",") if name]
    account = Account(args.device, args.seed, args.shown)
    q = quern.Quern(args.library, args.device)
    absent, public = 0, set(sum(public_functions(), []))
    for name in [] if only else missing(tables):
        print(f"not compared: {name}")
        absent += 1
    for part in args.part.split(","):
        start = time.time()
        for name, run in tables[part].items():
            known = name in public or name in ("graphs", "optimizers", "layers", "promotion")
            if known and (not only or name in only):
                rng = np.random.default_rng([args.seed, zlib.crc32(f"{part} {name}".encode())])
                account.count, account.first = args.count, args.first
                try:
                    run(q, account, rng)
                except quern.QuernError as e:
                    account.fail(Case(name, "", part), f"stopped: {e}")
        print(f"{part}: {sum(account.compared.values())} comparisons so far, "
              f"{time.time() - start:.1f} s", flush=True)
    total = account.summary()
    q.close()
    return 1 if total or absent else 0


if __name__ == "__main__":
    sys.exit(main())
