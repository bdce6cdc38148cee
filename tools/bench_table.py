#!/usr/bin/env python3
"""bench_table.py - writes what `make bench-peers` measured into docs/performance.md.

Usage: bench_table.py [--commit C] RESULTS PAGE

RESULTS is build/bench/versus.jsonl: a line about the run and its machine, then a line for each case and
number of threads. PAGE has one region between the two marks below, with a table for each kind of
machine, that is each family of src/machine/families.h. The run's table takes the place of the one of
its family; those of other families stay as they are. A run of some cases only changes nothing, for
then the families' means would be of other cases than they say. Without --commit the commit is the
one of this checkout, with "+" where sources were changed since.
"""

import json
import math
import re
import subprocess
import sys

BEGIN = "<!-- tables that make bench-peers writes: begin -->"
END = "<!-- tables that make bench-peers writes: end -->"
HEAD = ("| family | peer / Quern, 1 thread | limit | 2 threads | limit | furthest behind |\n"
        "|---|---|---|---|---|---|\n")


def here():
    """The commit that was measured."""
    def git(*args):
        return subprocess.run(["git", *args], capture_output=True, text=True)
    changed = git("diff", "--quiet", "HEAD", "--", "src", "include", "bench").returncode
    return git("rev-parse", "--short", "HEAD").stdout.strip() + ("+" if changed else "")


def mean(values):
    """Geometric, as text; empty where there is no value."""
    return f"{math.exp(sum(map(math.log, values)) / len(values)):.2f}" if values else ""


def seconds(value):
    """A time in the unit that reads best."""
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def row(family, cases):
    """A family's means for each number of threads, and which case is furthest behind its best peer."""
    cells, behind = [], []
    for threads in (1, 2):
        mine = [c for c in cases if c["threads"] == threads]
        ratios = [(c["ratio"], c["case"].partition("/")[2]) for c in mine if c["ratio"] > 0]
        cells += [mean([r for r, _ in ratios]),
                  mean([c["limit_ratio"] for c in mine if c["limit_ratio"] > 0])]
        if ratios:
            least, name = min(ratios)
            behind.append(f"{'on two threads ' if threads == 2 else ''}{name}: {least:.2f}")
        elif threads == 1 or not behind:  # times without a peer: what they are is all there is to say
            behind += [f"{c['case'].partition('/')[2]} {seconds(c['quern'])}" for c in mine if c["quern"] > 0]
    missing = sum(c["quern"] <= 0 for c in cases)
    if missing:
        behind.append(f"{missing} without a number")
    return "| " + " | ".join([family, *cells, ", ".join(behind)]) + " |\n"


def table(run, cases, commit):
    """The family's name leads: by it a later run finds what it is to replace."""
    families = {}
    for case in cases:
        families.setdefault(case["case"].partition("/")[0], []).append(case)
    peers = sorted({name for case in cases for name in case["peers"]})
    quiet, samples = sum(c["quiet"] for c in cases), sum(c["samples"] for c in cases)
    processor = f"{run['processor']}, " if run["processor"] else ""
    return (f"### {run['machine']}: {run['about'] or 'a processor of no known family'}\n\n"
            f"{run['date']} at {commit}, {processor}{run['cores']} cores, at most {run['rounds']} rounds"
            f"{' that did not wait for quiet' if run['quick'] else ''}, {quiet} of {samples} samples quiet;\n"
            f"beside {', '.join(peers) or 'nothing'}.\n\n"
            + HEAD + "".join(row(family, of) for family, of in families.items()) + "\n")


def put(page, machine, text):
    """The page with `text` as the table of `machine`; tables stand in the order of their names."""
    head, begin, rest = page.partition(BEGIN + "\n")
    inner, end, tail = rest.partition(END + "\n")
    if not begin or not end:
        raise SystemExit("bench_table.py: the page has no region to write")
    tables = {part.split(":", 1)[0][4:]: part for part in re.split(r"^(?=### )", inner, flags=re.M)
              if part.startswith("### ")}
    tables[machine] = text
    return head + begin + "\n" + "".join(tables[name] for name in sorted(tables)) + end + tail


def main(args):
    commit = None
    if args[:1] == ["--commit"] and len(args) > 1:
        commit, args = args[1], args[2:]
    if len(args) != 2:
        print("usage: bench_table.py [--commit C] RESULTS PAGE", file=sys.stderr)
        return 2
    results, path = args
    with open(results, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    run, cases = (lines or [{}])[0], lines[1:]
    if "machine" not in run or not cases:
        print(f"bench_table.py: {results} has no run", file=sys.stderr)
        return 1
    if not run["whole"]:
        print(f"{path} stays: its tables are of all cases, on the machine that schedules were made for")
        return 0
    with open(path, encoding="utf-8") as file:
        page = file.read()
    page = put(page, run["machine"], table(run, cases, commit or here()))
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
    print(f"{path}: the table of {run['machine']} is of this run")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
