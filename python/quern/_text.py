"""How a tensor prints: NumPy's brackets, columns of one width, few elements of long axes."""

from . import _core

EDGE = 3  # elements shown at each end of a long axis
MOST = 1000  # elements that are all shown


def number(x, digits=4):
    """One element as text."""
    if isinstance(x, bool):
        return str(x)
    if isinstance(x, int):
        return str(x)
    if isinstance(x, complex):
        return f"{number(x.real, digits)}{'+' if x.imag >= 0 or x.imag != x.imag else ''}{number(x.imag, digits)}j"
    if x != x or x in (float("inf"), float("-inf")):
        return str(x)
    return f"{x:.{digits}f}".rstrip("0") if 1e-4 <= abs(x) < 1e6 or x == 0 else f"{x:.{digits}e}"


def shortened(x, axis=0):
    """x without the middle of its long axes."""
    for axis, n in enumerate(x.shape):
        if n > 2 * EDGE:
            first = x[(slice(None),) * axis + (slice(0, EDGE),)]
            last = x[(slice(None),) * axis + (slice(n - EDGE, n),)]
            x = _core.concat((first, last), axis)
    return x


def brackets(cells, shape, cut, indent, width):
    """Nested lists of texts as lines; `cut`: which axes lack their middle."""
    if not shape:
        return cells.rjust(width)
    inside = [brackets(c, shape[1:], cut[1:], indent + 1, width) for c in cells]
    if cut[0]:
        inside.insert(EDGE, "...")
    between = ", " if len(shape) == 1 else "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    if len(shape) == 1:
        lines, line = [], ""
        for i, text in enumerate(inside):
            text += ", " if i + 1 < len(inside) else ""
            if line and indent + 1 + len(line) + len(text) > 100:
                lines.append(line.rstrip())
                line = ""
            line += text
        return "[" + ("\n" + " " * (indent + 1)).join(lines + [line]) + "]"
    return "[" + between.join(inside) + "]"


def texts(values):
    return [texts(v) for v in values] if isinstance(values, list) else number(values)


def flat(values):
    if isinstance(values, list):
        for v in values:
            yield from flat(v)
    else:
        yield values


def text(x):
    """repr of a tensor."""
    if _core.is_traced(x):
        return f"tensor(<being traced>, shape={x.shape}, dtype={x.dtype})"
    if any(n < 0 for n in x.shape):
        return f"tensor(<of sizes that vary>, shape={x.shape}, dtype={x.dtype})"
    cut = [x.size > MOST and n > 2 * EDGE for n in x.shape]
    try:
        values = texts((shortened(x) if any(cut) else x).tolist())
    except RuntimeError as e:
        if "has none" not in str(e):
            raise
        return f"tensor(<of a loop's body or a map>, shape={x.shape}, dtype={x.dtype})"
    cells = list(flat(values))
    shown = brackets(values, x.shape, cut, len("tensor("), max(map(len, cells), default=0)) if cells or not x.shape \
        else "[]"
    more = f", shape={x.shape}" if not cells else ""
    more += ", requires_grad=True" if x.requires_grad else ""
    return f"tensor({shown}{more}, dtype={x.dtype})"


def html(x):
    """For notebooks: a matrix as a table, others as text."""
    from html import escape
    head = f"<small>{escape(str(x.dtype))} {x.shape}</small>"
    if x.ndim not in (1, 2) or not x.size:
        return f"<pre>{escape(text(x))}</pre>"
    short = shortened(x if x.ndim == 2 else x.reshape((1,) + x.shape))
    cut = [n > 2 * EDGE for n in ((1,) + x.shape if x.ndim == 1 else x.shape)]
    lines = []
    for i, row in enumerate(short.tolist()):
        if cut[0] and i == EDGE:
            lines.append("<tr><td>&vellip;</td></tr>")
        cells = [f"<td>{escape(number(v))}</td>" for v in row]
        if cut[1]:
            cells.insert(EDGE, "<td>&hellip;</td>")
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return f"{head}<table>{''.join(lines)}</table>"
