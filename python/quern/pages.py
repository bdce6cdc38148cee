"""pages.py - to see what a program does: a page about a tensor, curves, spans of a trace, progress."""

import atexit
import functools
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from types import TracebackType
from typing import Any, Generic, TextIO, TypeVar

from . import _core
from ._core import Tensor

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
if os.environ.get("QN_TRACE"):  # contexts are open to the end
    atexit.register(_core.trace_flush)
BLOCKS = " ▁▂▃▄▅▆▇█"


def view_html(x: Tensor, path: str | os.PathLike[str]) -> None:
    """Write a page of HTML about how x is computed: its graph, kernels, what they take, and values that are there."""
    _core.view_to(x, os.fspath(path))


class span:
    """A span in the trace that QN_TRACE=file.json asks for: `with span("step"):`, or a decorator. Without a trace
    nothing is written."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"span: {name!r} is no name")
        self.name = name

    def __enter__(self) -> "span":
        _core.span_begin(self.name)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 where: TracebackType | None) -> None:
        _core.span_end()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def within(*args: Any, **keywords: Any) -> Any:
            with self:
                return function(*args, **keywords)
        return within  # type: ignore[return-value]


def numbers(values: Any, what: str) -> list[float]:
    """Of a tensor, an array or anything that gives numbers."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    found = [float(v) for v in values] if isinstance(values, Iterable) else [float(values)]
    if not found:
        raise ValueError(f"{what}: no values")
    return found


def plot(values: Any, path: str | os.PathLike[str], title: str | None = None, *, x_label: str | None = None,
         y_label: str | None = None, first: float = 0, step: float = 1, log: bool = False) -> None:
    """Draw values as a curve into an SVG file. Value i stands at first + i * step; `log`: y by its logarithm. What is
    not finite is a gap."""
    if step == 0:
        raise ValueError("plot: step is 0")
    _core.plot_to(numbers(values, "plot"), os.fspath(path), title, x_label, y_label, first, step, log)


def curve(values: Any, title: str = "", *, width: int = 72, height: int = 8) -> str:
    """The same as text, of blocks: a column for each group of values, as high as their mean."""
    if width < 1 or height < 1:
        raise ValueError(f"curve: {width} columns and {height} rows")
    given = numbers(values, "curve")
    columns = min(width, len(given))
    means: list[float] = []
    for c in range(columns):
        group = given[len(given) * c // columns:len(given) * (c + 1) // columns]
        finite = [v for v in group if math.isfinite(v)]
        means.append(sum(v / len(finite) for v in finite) if finite else math.nan)  # whose sum might be infinite
    finite = [m for m in means if math.isfinite(m)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    most = height * (len(BLOCKS) - 1)
    unit = 1.0 if math.isfinite(high - low) else 0.25  # so that differences are finite
    levels = [0 if math.isnan(m) else
              1 + round((m * unit - low * unit) / (high * unit - low * unit) * (most - 1)) if high > low else most // 2
              for m in means]
    rows = [title] if title else []
    for row in range(height - 1, -1, -1):
        label = f"{high:10.4g}" if row == height - 1 else f"{low:10.4g}" if row == 0 else " " * 10
        line = "".join(BLOCKS[max(0, min(len(BLOCKS) - 1, n - row * (len(BLOCKS) - 1)))] for n in levels)
        rows.append(f"{label} |{line}".rstrip())
    return "\n".join(rows) + "\n"


def duration(seconds: float) -> str:
    s = round(seconds)
    return f"{s // 3600}:{s // 60 % 60:02}:{s % 60:02}" if s >= 3600 else f"{s // 60}:{s % 60:02}"


class progress(Generic[T]):
    """The items of an iterable, with a bar of how far they are: redrawn in place on a terminal, elsewhere a line now
    and then. `total` where the iterable has no len(); note(text) shows a text behind the bar."""

    def __init__(self, items: Iterable[T], label: str = "", *, total: int | None = None, file: TextIO | None = None,
                 every: float | None = None) -> None:
        self.items, self.label, self.text, self.done = items, label, "", 0
        self.total = len(items) if total is None and isinstance(items, Sized) else total
        self.file = sys.stderr if file is None else file
        self.terminal = self.file.isatty() and os.environ.get("TERM") != "dumb"
        self.every = every if every is not None else 0.1 if self.terminal else 5.0

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("it is not known how many items there are")
        return self.total

    def note(self, text: Any) -> None:
        """Show a text behind the bar from the next time on."""
        self.text = str(text)

    def line(self, seconds: float) -> str:
        rate = self.done / seconds if seconds > 0 else 0.0
        parts = [self.label] if self.label else []
        if self.total:
            share = min(self.done / self.total, 1.0)
            eighths = round(share * 20 * 8)
            bar = "█" * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")
            parts.append(f"|{bar:20}| {100 * share:3.0f} %")
        parts.append(f"{self.done}" + (f"/{self.total}" if self.total is not None else ""))
        left = f", {duration((self.total - self.done) / rate)} left" if self.total and rate > 0 else ""
        parts.append(f"{duration(seconds)}{left if self.done < (self.total or 0) else ''}, {rate:.3g}/s")
        return "  ".join(parts + ([self.text] if self.text else []))

    def show(self, seconds: float, last: bool) -> None:
        text = self.line(seconds)
        try:
            text.encode(getattr(self.file, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            text = "".join(c if c.isascii() else "#" for c in text)
        if self.terminal:
            self.file.write("\r" + text + "\033[K" + ("\n" if last else ""))
        else:
            self.file.write(text + "\n")
        self.file.flush()

    def __iter__(self) -> Iterator[T]:
        begun = shown = time.monotonic()
        self.done = 0
        try:
            for item in self.items:
                yield item
                self.done += 1
                now = time.monotonic()
                if now - shown >= self.every:
                    shown = now
                    self.show(now - begun, False)
        finally:
            self.show(time.monotonic() - begun, True)
