"""kernel_index.py - sizes and indices of a kernel (kernels.py): polynomials over dimensions and loops' variables.

They are written into the kernel's text, computed for the shapes of results, and held against the axes that they index.
A proof puts each variable to the end of its range at which the expression is least, innermost first, and looks whether
what is left, over dimensions alone, can be below 0. It proves what loops over shapes make; what it cannot prove is
never assumed.
"""


class Variable:
    """What an index is made of: a dimension (lo to hi), a loop's variable (0 to extent - 1), or a quotient and the
    like, whose text is not its name."""

    made = 0

    def __init__(self, text, lo, hi, extent=None, python=None):
        Variable.made += 1
        self.text, self.python, self.lo, self.hi, self.extent = text, python or text, lo, hi, extent
        self.number = Variable.made  # later ones may depend on earlier ones


class Index:
    """A sum of products of variables: {variables, sorted: coefficient}."""

    __slots__ = ("terms",)

    def __init__(self, terms):
        self.terms = {k: c for k, c in terms.items() if c}

    def constant(self):
        """The number that it is, or None."""
        return self.terms.get((), 0) if all(k == () for k in self.terms) else None

    def write(self, name):
        parts = []
        for k, c in sorted(self.terms.items(), key=lambda item: (-len(item[0]), [v.number for v in item[0]])):
            factors = [name(v) for v in k]
            if not factors or abs(c) != 1:
                factors.insert(0, str(abs(c)))
            sign = "-" if c < 0 else "+"
            parts.append((sign if c < 0 else "") + "*".join(factors) if not parts else f"{sign} {'*'.join(factors)}")
        return " ".join(parts) or "0"

    def text(self):
        return self.write(lambda v: v.text)

    def python(self):
        return self.write(lambda v: v.python)

    def variables(self):
        return {v for k in self.terms for v in k}

    def split(self, v):
        """(a, b) of a*v + b; None where v stands in a power."""
        a, b = {}, {}
        for k, c in self.terms.items():
            if k.count(v) > 1:
                return None
            if v in k:
                rest = list(k)
                rest.remove(v)
                a[tuple(rest)] = c
            else:
                b[k] = c
        return Index(a), Index(b)

    def range(self):
        """Bounds by those of each variable alone."""
        lo = hi = 0
        for k, c in self.terms.items():
            least = most = c
            for v in k:
                ends = (least * v.lo, least * v.hi, most * v.lo, most * v.hi)
                least, most = min(ends), max(ends)
            lo, hi = lo + least, hi + most
        return lo, hi


def variable(v):
    return Index({(v,): 1})


def as_index(x):
    return x if isinstance(x, Index) else Index({(): int(x)})


def simple(x):
    """An int where it is one."""
    n = x.constant()
    return x if n is None else n


def add(a, b, sign=1):
    terms = dict(as_index(a).terms)
    for k, c in as_index(b).terms.items():
        terms[k] = terms.get(k, 0) + sign * c
    return simple(Index(terms))


def multiply(a, b):
    terms = {}
    for k, c in as_index(a).terms.items():
        for m, d in as_index(b).terms.items():
            key = tuple(sorted(k + m, key=lambda v: v.number))
            terms[key] = terms.get(key, 0) + c * d
    return simple(Index(terms))


def quotient(a, b):
    """floor(a / b), for b of 1 at least; None: that is not known."""
    a, b = as_index(a), as_index(b)
    n = b.constant()
    if b.range()[0] < 1:
        return None
    if n is not None and all(c % n == 0 for c in a.terms.values()):
        return simple(Index({k: c // n for k, c in a.terms.items()}))
    (lo, hi), (least, most) = a.range(), b.range()
    ends = [x // y for x in (lo, hi) for y in (least, most)]
    return variable(Variable(f"(({a.text()})/({b.text()}))", min(ends), max(ends),
                             python=f"(({a.python()})//({b.python()}))"))


def remainder(a, b):
    whole = quotient(a, b)
    if whole is None:
        return None
    left = as_index(add(a, multiply(whole, b), -1))
    if left.constant() is not None:
        return simple(left)
    b = as_index(b)
    return variable(Variable(f"({left.text()})", 0, b.range()[1] - 1, b, f"({left.python()})"))


def extreme(word, xs):
    """min or max of several."""
    xs = [as_index(x) for x in xs]
    if all(x.constant() is not None for x in xs):
        return (min if word == "min" else max)(x.constant() for x in xs)
    pick = min if word == "min" else max
    ranges = [x.range() for x in xs]
    return variable(Variable(f"{word}({', '.join(x.text() for x in xs)})", pick(r[0] for r in ranges),
                             pick(r[1] for r in ranges), python=f"{word}({', '.join(x.python() for x in xs)})"))


def not_negative(x, facts=()):
    """Is x >= 0 wherever the facts, each >= 0, hold? True is a proof."""
    if least(as_index(x)) >= 0:
        return True
    return any(least(as_index(add(x, fact, -1))) >= 0 for fact in facts)


def least(x):
    """A lower bound of x."""
    for v in sorted(x.variables(), key=lambda v: -v.number):
        parts = x.split(v)
        if v.extent is None or parts is None:
            continue
        a, b = parts
        lo, hi = a.range()
        if lo >= 0:
            x = b
        elif hi <= 0:
            x = as_index(add(b, multiply(a, add(v.extent, 1, -1))))
    return x.range()[0]
