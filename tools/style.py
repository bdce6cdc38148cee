#!/usr/bin/env python3
"""style.py - the house rules that a machine can check (HACKING.md says why they are there).

Usage: style.py [ROOT]    Prints one line a finding, "file:line: text", and ends with status 1 when
there is one. Checked are the files git knows or would add; outside a git checkout, every file of the
source folders.
"""

import ast
import os
import re
import shutil
import subprocess
import sys

# A room may include the rooms before it, and itself.
ROOMS = ["base", "trace", "machine", "sym", "graph", "grad", "func", "plan", "ir", "lower", "transform",
         "math", "schedule", "emit", "routine", "dev", "run", "tune", "custom", "view", "io", "quant",
         "archive", "text", "data", "llm", "export", "onnx", "nn", "complex", "record", "models", "cli"]
FOLDERS = ["src", "include", "models", "tests", "bench", "examples", "tools", "docs", "python", ".ci"]
C_LIKE = (".c", ".h")
TEXT_LIKE = C_LIKE + (".py", ".sh", ".md", ".1", ".in", ".mk")

CHECKERS = ("tools/style.py", "tests/project/test_style.sh")  # name what is not there, on purpose

FILE_MOST = 800
FUNCTION_MOST = 60  # longer ones say why
PARAMETERS_MOST = 6
ARGUMENTS = "docs/decisions/029-arguments.md"  # public functions with more, and why
FOLDER_MOST = 5000  # lines of C in a room; a folder in a room counts apart
COLUMNS, SCRIPT_COLUMNS = 100, 120
TABLE_COLUMNS = 160  # a row of a table stays one line

# The library neither ends the process nor prints; only the command may.
BANNED = re.compile(
    r"(?<![\w.>])(abort|exit|_exit|_Exit|quick_exit|printf|vprintf|puts|putchar|perror|assert)\s*\(")
BANNED_STREAM = re.compile(r"\b(stdout|stderr)\b")
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b|" +
                        r"[Nn]ot " + "implemented")


class Report:
    def __init__(self):
        self.errors = 0

    def error(self, path, line, text):
        self.errors += 1
        print(f"{path}:{line}: {text}")


def files(root):
    try:
        out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             cwd=root, capture_output=True, check=True).stdout
        names = [n for n in out.decode().split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = [os.path.relpath(os.path.join(d, f), root) for top in FOLDERS
                 for d, _, fs in os.walk(os.path.join(root, top)) for f in fs]
    return sorted(n for n in names if os.path.isfile(os.path.join(root, n)))


def strip_code(text):
    """The text with comments and the insides of literals blanked, lines kept."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def check_rooms(report, path, code_lines, lines):
    """Includes go only to earlier rooms; a room's files live in its folder."""
    parts = path.split("/")
    if parts[0] != "src" or len(parts) < 3:
        return
    if parts[1] not in ROOMS:
        report.error(path, 1, f"no such room: {parts[1]}")
        return
    mine = ROOMS.index(parts[1])
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            continue
        room, slash, _ = match.group(1).partition("/")
        if not slash:
            if not re.fullmatch(r"quern\w*\.h", room):
                report.error(path, number, f'include "{room}" must name its room')
        elif room not in ROOMS:
            report.error(path, number, f"include of unknown room {room}")
        elif ROOMS.index(room) > mine:
            report.error(path, number, f"room {parts[1]} may not include {room}, which comes later")


def check_calls(report, path, code_lines):
    if not path.startswith("src/") or path.startswith("src/cli/"):
        return
    for number, line in enumerate(code_lines, 1):
        match = BANNED.search(line)
        if match:
            report.error(path, number, f"the library must not call {match.group(1)}")
        elif re.search(r"\b(setjmp|longjmp)\s*\(", line) and path != "src/base/guard.c":
            report.error(path, number, "setjmp stands in base/guard.c alone: guarded() or a cleanup")
        elif BANNED_STREAM.search(line):
            report.error(path, number, "the library must not print")


def functions(code_lines):
    """A function starts at a line in column 0 that ends in "{" and ends at a "}" in column 0: its first
    and last line, and its head."""
    start = None
    for number, line in enumerate(code_lines, 1):
        if start is None and re.search(r"\)\s*\{\s*$", line):
            head = number
            while head > 1 and not re.match(r"[A-Za-z_]", code_lines[head - 1]):
                head -= 1
            if re.match(r"[A-Za-z_]", code_lines[head - 1]):
                start, text = head, " ".join(code_lines[head - 1:number])
        elif start is not None and line.startswith("}"):
            yield start, number, text
            start = None


def parameters(head):
    """The name of a function and how many parameters it has."""
    match = re.match(r"[^(]*?(\w+)\s*\((.*)\)\s*\{", head)
    if not match:
        return "", 0
    inner = match.group(2)
    while "(" in inner:  # a parameter that is a function has commas of its own
        inner, n = re.subn(r"\([^()]*\)", "", inner)
        if not n:
            break
    return match.group(1), inner.count(",") + 1


def check_prototypes(report, root, path, code):
    """A public function with more than 6 parameters has its reason in the decision on arguments."""
    reasons = os.path.join(root, ARGUMENTS)
    told = ""
    if os.path.exists(reasons):
        with open(reasons, encoding="utf-8") as file:
            told = file.read()
    for match in re.finditer(r"^(?:QN_API|static inline)\b[^;{]*[;{]", code, re.M):
        name, count = parameters(" ".join(match.group()[:-1].split()) + "{")
        if count > PARAMETERS_MOST and f"| `{name}` |" not in told:
            report.error(path, code.count("\n", 0, match.start()) + 1,
                         f"{name} has {count} parameters: options, or a line in {ARGUMENTS}")


def comment_before(lines, number):
    """The comment that ends on the line before line `number`, as one line; else nothing."""
    last = number - 1
    if last < 1 or not lines[last - 1].rstrip().endswith("*/"):
        return ""
    first = last
    while first > 1 and "/*" not in lines[first - 1]:
        first -= 1
    return re.sub(r"\s+\*?\s*", " ", "\n".join(lines[first - 1:last]))


def check_length(report, path, start, length, above):
    if length > FUNCTION_MOST and not re.search(r"Long because \w", above):
        report.error(path, start, f"a function of {length} lines: split it, or say in the comment right "
                     'before it "Long because ..."')


def check_functions(report, path, code_lines, lines):
    for start, end, head in functions(code_lines):
        above = comment_before(lines, start)
        check_length(report, path, start, end - start + 1, above)
        name, count = parameters(head)
        if path.startswith("src/") and count > PARAMETERS_MOST and not name.startswith("qn_"):
            if "Parameters as" not in above:
                report.error(path, start, f"{name} has {count} parameters: a struct of what belongs together")


def check_enums(report, path, code):
    """A public enum's values are written down, so none moves when another comes; nothing counts them,
    for such a member would change with each."""
    for enum in re.finditer(r"\benum\s*\w*\s*\{([^}]*)\}", code):
        for member in re.finditer(r"(\w+)\s*(=?)[^,]*(?:,|$)", enum.group(1)):
            line = code.count("\n", 0, enum.start(1) + member.start()) + 1
            if not member.group(2):
                report.error(path, line, f"{member.group(1)} of a public enum has no value")
            if re.search(r"(?:^|_)(COUNT|END|NUM)$", member.group(1)):
                report.error(path, line, f"{member.group(1)}: no member counts the others")


def check_python(report, path, text, lines):
    """Functions of the Python package are as short as those of C."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            start = min([node.lineno] + [d.lineno for d in node.decorator_list])
            above = lines[start - 2] if start > 1 and lines[start - 2].lstrip().startswith("#") else ""
            check_length(report, path, start, node.end_lineno - node.lineno + 1, above)


def check_text(report, path, lines):
    most = COLUMNS if path.endswith(C_LIKE) else SCRIPT_COLUMNS
    for number, line in enumerate(lines, 1):
        row = re.match(r"X\(", line) and path.endswith(".h")
        if len(line) > (TABLE_COLUMNS if row else most) and not path.endswith((".md", ".1")):
            report.error(path, number, f"{len(line)} columns")
        if line != line.rstrip():
            report.error(path, number, "space at the end of the line")
        if "\t" in line and path.endswith(C_LIKE + (".py", ".sh")):
            report.error(path, number, "a tab")
        if UNFINISHED.search(line) and path not in CHECKERS:
            report.error(path, number, "unfinished: " + UNFINISHED.search(line).group())


def anchors(text):
    """What a heading is called in a link, as GitHub makes it."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-")
            for head in re.findall(r"^#+ (.*)$", text, re.M)}


def check_links(report, root, path, lines):
    """A relative link of a page leads to a file and to a heading that are there; a page of docs/ that
    any file names is there."""
    def read(name):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()

    for number, line in enumerate(lines, 1):
        if path.endswith(".md"):
            for link in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = link.partition("#")
                to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
                if not os.path.exists(os.path.join(root, to)):
                    report.error(path, number, f"a link to {link}, which is not there")
                elif anchor and to.endswith(".md") and anchor not in anchors(read(to)):
                    report.error(path, number, f"a link to {link}, a heading that is not there")
        for name in re.findall(r"(?<![\w./-])docs/[\w./-]*\.md\b", line):
            if path not in CHECKERS and not os.path.exists(os.path.join(root, name)):
                report.error(path, number, f"names {name}, which is not there")


def check_decisions(report, paths):
    """Decisions are numbered in the order in which they were taken, without a gap."""
    names = [p for p in paths if re.match(r"docs/decisions/", p)]
    for number, path in enumerate(sorted(names), 1):
        if not re.fullmatch(rf"docs/decisions/{number:03}-[a-z0-9-]+\.md", path):
            report.error(path, 1, f"a decision is called docs/decisions/NNN-title.md; here comes {number:03}")


def is_package(path):
    """A file of the Python package; its stubs are declarations, as long as there are functions."""
    return path.startswith("python/quern/") and path.endswith(".py")


def check_size(report, path, lines):
    if (path.endswith(C_LIKE) or is_package(path)) and len(lines) > FILE_MOST:
        report.error(path, 1, f"{len(lines)} lines: a file has at most {FILE_MOST}")


def check_folders(report, folders):
    """No room grows beyond what one can know."""
    for folder, count in sorted(folders.items()):
        if count > FOLDER_MOST:
            report.error(folder, 1, f"{count} lines of C: a folder has at most {FOLDER_MOST}")


def check_opening(report, path, text):
    """The file's first comment names it and teaches its subject."""
    name = os.path.basename(path)
    if path.endswith(C_LIKE) and not text.startswith(f"/* {name} - "):
        report.error(path, 1, f'a file opens with "/* {name} - what it is about"')


def is_table(text):
    return re.search(r"^(X|SV?)\(", text, re.M) is not None


def check_format(report, root, paths):
    """clang-format, where it is the version whose output the tree is in."""
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not program:
        return
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    if not re.search(r"version 14\.", version):
        return
    result = subprocess.run([program, "--dry-run", "-Werror"] + paths, cwd=root,
                            capture_output=True, text=True)
    seen = set()
    for match in re.finditer(r"^(\S+?):(\d+):\d+: error: ", result.stderr, re.M):
        if match.group(1) not in seen:
            seen.add(match.group(1))
            report.error(match.group(1), match.group(2), "not as clang-format has it")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    report, to_format, folders = Report(), [], {}
    count = 0
    paths = files(root)
    check_decisions(report, paths)
    for path in paths:
        if not path.endswith(TEXT_LIKE) and os.path.basename(path) not in ("Makefile", "run"):
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            text = file.read()
        count += 1
        lines = text.split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        check_text(report, path, lines)
        check_links(report, root, path, lines)
        check_size(report, path, lines)
        if path == "Makefile" and len(lines) > 150:
            report.error(path, 151, "the Makefile has more than 150 lines")
        if is_package(path):
            check_python(report, path, text, lines)
        if path.endswith(C_LIKE):
            if path.startswith("src/"):
                folder = os.path.dirname(path)
                folders[folder] = folders.get(folder, 0) + len(lines)
            code_lines = strip_code(text).split("\n")
            check_opening(report, path, text)
            check_rooms(report, path, code_lines, lines)
            check_calls(report, path, code_lines)
            check_functions(report, path, code_lines, lines)
            if path.startswith("include/"):
                check_enums(report, path, "\n".join(code_lines))
                check_prototypes(report, root, path, "\n".join(code_lines))
            if not is_table(text):
                to_format.append(path)
    check_folders(report, folders)
    if to_format:
        check_format(report, root, to_format)
    print(f"style: {count} files, {report.errors} errors")
    return 1 if report.errors else 0


if __name__ == "__main__":
    sys.exit(main())
