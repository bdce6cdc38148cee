#!/usr/bin/env python3
"""chats.py - chat templates of Quern against Jinja as models' templates are run by it.

Usage: chats.py --library FILE
       chats.py --cases tests/text/cases    write templates.hex for test_template

Templates in the manner of the common families, and lines for each thing that templates do, of
tests/text/templates, with conversations of every kind. The last line is `N passed, N failed`.
"""

import argparse
import ctypes
import itertools
import json
import os
import sys

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "text", "templates")


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


FAMILIES = {name: read(name) for name in sorted(os.listdir(FOLDER)) if name.endswith(".jinja")}
LINES = read("lines.txt").split("\n")[:-1]
CONVERSATIONS, TOOLS = json.loads(read("conversations.json")), json.loads(read("tools.json"))


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    def stop(text):
        raise TemplateError(text)

    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    env.globals["raise_exception"] = stop
    return env


def cases():
    """(template, variables as JSON, text or None where there is an error)."""
    env = environment()
    templates = list(FAMILIES.values()) + LINES
    templates += ["\n".join(LINES[19:24]), FAMILIES["llama3.jinja"].replace("\n", "\r\n")]
    for template, (messages, generate, tools) in itertools.product(
            templates, itertools.product(CONVERSATIONS, (True, False), (None, TOOLS))):
        if template in LINES and (messages != CONVERSATIONS[1] or generate or tools):
            continue
        values = {"messages": messages, "add_generation_prompt": generate, "bos_token": "<s>", "eos_token": "</s>"}
        if tools:
            values["tools"] = tools
        try:  # generation tags are an extension of `transformers` that adds no text
            plain = template.replace("{% generation %}", "{% if true %}")
            plain = plain.replace("{% endgeneration %}", "{% endif %}")
            text = env.from_string(plain).render(**values)
        except Exception:  # pylint: disable=broad-except
            text = None
        yield template, json.dumps(values), text


class Quern:
    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(path)
        lib.qn_open.restype = lib.qn_template_new.restype = lib.qn_template_render.restype = ctypes.c_void_p
        lib.qn_error.restype = ctypes.c_char_p
        self.ctx = ctypes.c_void_p(lib.qn_open(None))

    def render(self, template, values):
        data, given, size = template.encode(), values.encode(), ctypes.c_size_t()
        t = self.lib.qn_template_new(self.ctx, data, ctypes.c_size_t(len(data)))
        text = t and self.lib.qn_template_render(ctypes.c_void_p(t), given, ctypes.c_size_t(len(given)),
                                                 ctypes.byref(size))
        made = ctypes.string_at(text, size.value).decode() if text else None
        why = self.lib.qn_error(self.ctx).decode()
        self.lib.qn_clear_error(self.ctx)
        self.lib.qn_template_free(ctypes.c_void_p(t))
        return made, why


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library")
    parser.add_argument("--cases")
    options = parser.parse_args()
    if options.cases:
        with open(os.path.join(options.cases, "templates.hex"), "w", encoding="ascii") as file:
            for number, (template, values, text) in enumerate(cases()):
                if template not in LINES and number % 5:
                    continue
                shown = "!" if text is None else text.encode().hex() or "-"
                file.write(f"{template.encode().hex() or '-'} {values.encode().hex()} {shown}\n")
        return 0
    quern, passed, failed = Quern(os.path.abspath(options.library)), 0, 0
    for template, values, text in cases():
        made, why = quern.render(template, values)
        if made == text:
            passed += 1
            continue
        failed += 1
        print(f"{template[:300]!r}\n  of {values[:200]}\n  want {text!r}\n  got  {made!r} {why}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
