"""kernel_write.py - the tree that kernel_text.py makes of a function, written as text (src/ir/text/text.c)."""

from . import kernel_index as ki
from .kernel_values import IR_NAMES, Array, Values

NESTED = 24  # levels of an expression that are written into each other


class Writer:
    """The kernel's text, and of each of its lines the user's."""

    def __init__(self, t):
        self.t, self.lines, self.source = t, [], []

    def add(self, depth, text, line=0):
        self.lines.append("  " * depth + text)
        self.source.append(line)

    def name(self, memory):
        return memory.label

    def mask(self, facts):
        return "(" + " and ".join(f"{ki.as_index(f).text()} >= 0" for f in facts) + ")"

    def place(self, index, facts, offset, guard, lets):
        text = index.text()
        if facts:
            text += f"; valid={self.mask(facts)}"
        if offset is not None:
            text += f"; dyn={self.expr(offset, lets)}"
        if guard is not None:
            text += f"; guard={self.expr(guard, lets)}"
        return f"[{text}]"

    def expr(self, n, lets):
        return lets[n] if n in lets else self.whole(n, lets)

    def whole(self, n, lets):
        if n.leaf is not None:
            return n.leaf
        if n.op == "load":
            return self.name(n.memory) + self.place(n.index, n.facts, n.offset, n.guard, lets)
        word = f"cast:{IR_NAMES[n.dtype]}" if n.op == "cast" else n.op
        return f"{word}({', '.join(self.expr(a, lets) for a in n.args)})"

    def lets(self, depth, roots, line):
        """Lines for what a statement uses more than once, or nests too deeply."""
        uses, order = {}, []

        def visit(n):
            uses[n] = uses.get(n, 0) + 1
            if uses[n] == 1:
                for a in Values.inside(n):
                    visit(a)
                order.append(n)
        for n in roots:
            visit(n)
        lets, height = {}, {}
        for n in order:
            height[n] = 1 + max((height[a] for a in Values.inside(n)), default=0)
            if n.leaf is None and (uses[n] > 1 and n.op != "load" or height[n] > NESTED):
                self.add(depth, f"let x{len(lets)} = {self.whole(n, lets)}", line)
                lets[n] = f"x{len(lets)}"
                height[n] = 1
        return lets

    def stmts(self, body, depth):
        for s in body:
            if s.kind == "loop":
                self.add(depth, f"for {s.var} < {s.extent.text()} {{", s.line)
                self.stmts(s.body, depth + 1)
                self.add(depth, "}", s.line)
                continue
            roots = [x for x in (s.value, s.guard, s.offset) if x is not None]
            lets = self.lets(depth, roots, s.line)
            if s.kind == "def":
                start = "" if s.value is None else f" = {self.expr(s.value, lets)}"
                self.add(depth, f"def {self.name(s.memory)}{start}", s.line)
            else:
                place = self.place(s.index, s.facts, s.offset, s.guard, lets)
                self.add(depth, f"{self.name(s.memory)}{place} {s.monoid} {self.expr(s.value, lets)}", s.line)

    def kernel(self, name, dims, results, inputs, body):
        self.add(0, f'kernel "{name}" {{')
        for d in dims:
            self.add(1, f"dim {d.text} {d.lo} {d.hi}")
        for i, a in enumerate([*results, *inputs]):
            a.label = f"a{i}"
            access = ("read write" if a.read or a.zeros else "write") if a.made else "read"
            self.add(1, f"arg a{i} {IR_NAMES[a.dtype]}[{ki.as_index(a.size()).text()}] {access}")
        for i, r in enumerate(self.t.registers):
            r.label = f"t{i}"
            size = ki.as_index(r.size()).text() if isinstance(r, Array) else None
            self.add(1, f"{'local' if size else 'reg'} t{i} {IR_NAMES[r.dtype]}[{size or 1}]")
        self.stmts(body, 1)
        self.add(0, "}")
        return "\n".join(self.lines)
