#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the list of facts in segment/fingerprint.c with the declarations of the layout, and check
that every change of the layout changes the fingerprint.

usage: check_fingerprint.py SOURCE_ROOT COMPILER...
"""

import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# All structures of these headers are in the segment.
LAYOUT = ("layout.h", "capture_layout.h", "mailbox.h")
ENUMERATIONS = ("layout.h", "capture_layout.h", "mailbox.h", "drop_reasons.h", "flow_state.h",
                "packet_facts.h")
POLICY_ENUMERATIONS = ("weir_policy", "weir_when_exhausted")
# Attach compares these values separately, before the fingerprint.
NOT_FACTS = {"WEIR_SEGMENT_MAGIC", "WEIR_SEGMENT_ABI", "WEIR_ABI_PORT_COUNTERS",
             "WEIR_ABI_BUCKETS", "WEIR_ABI_FLOW_LIST", "WEIR_ABI_CAPTURE",
             "WEIR_ABI_PASSES_OVER", "WEIR_ABI_DRAINS", "WEIR_ABI_REMOVALS",
             "WEIR_ABI_SHARED_LIMITS", "WEIR_ABI_SHARES", "WEIR_BIND_FLAGS"}
MAIN = """#include <stdio.h>
#include "fingerprint.c"
int main(void) { printf("%llx\\n", (unsigned long long)weir_layout_fingerprint()); return 0; }
"""
# Declarations to change, and how: (file, pattern, replacement).
CHANGES = [
    ("segment/counters.h", r"(\tX\(packets, .*?\n)(\tX\(bytes, .*?\n)", r"\2\1"),
    ("segment/counters.h", r"X\(open_flows, ", "X(open_ones, "),
    ("segment/counters.h", r"(\tX\(completed, .*?\n)", r'\1\tX(added, FLOWS, "a", "A.") \\\n'),
    ("segment/drop_reasons.h", r"(\tX\(\w+, .*?\n)(\tX\(\w+, .*?\n)", r"\2\1"),
    ("segment/layout.h", r'X\(DRAIN, "drain"\) X\(MAINTENANCE, "maintenance"\)',
     'X(MAINTENANCE, "maintenance") X(DRAIN, "drain")'),
    ("policy/health_state.h", r'X\(LAME_DUCK, "lame-duck"\)', r'X(ADDED, "added") \g<0>'),
    ("segment/layout.h", r"PRESENT = 1u << 0", "PRESENT = 1u << 2"),
    ("segment/layout.h", r"define WEIR_UPDATES 4096u", "define WEIR_UPDATES 8192u"),
    ("policy/policy.h", r"(\tX\(LEAST_LOADED, .*?\n)(\tX\(WEIGHTED_.*?\n)", r"\2\1"),
    ("policy/policy.h", r"NEEDS_TIMES 0x10u", "NEEDS_TIMES 0x20u"),
]


class Layout:
    """Structures and enumerations, read from the output of the preprocessor."""

    def __init__(self, root, compiler):
        self.root, self.compiler = Path(root), compiler
        self.structs = {}  # name of a structure -> fields
        self.struct_file = {}
        self.enumerators = {}  # name of an enumeration -> names
        self.enum_file = {}
        for name, text in self._texts('#include "layout.h"\n#include "mailbox.h"\n'
                                      '#include "capture_layout.h"\n#include "flow_state.h"\n').items():
            self._read(name, text)

    def preprocess(self, text, *options):
        command = [*self.compiler, "-std=gnu11", "-E", "-x", "c", *options,
                   f"-I{self.root}/segment", f"-I{self.root}/policy", "-"]
        return subprocess.run(command, input=text, capture_output=True, text=True,
                              check=True).stdout

    def _texts(self, program):
        """Return the text of each of the project's headers after preprocessing."""
        texts, name = {}, ""
        for line in self.preprocess(program).splitlines():
            marker = re.match(r'# \d+ "(.*?)"', line)
            if marker:
                path = Path(marker.group(1))
                name = path.name if path.parent.name in ("segment", "policy") else ""
            elif name:
                texts[name] = texts.get(name, "") + line + "\n"
        return texts

    def _read(self, file, text):
        text = re.sub(r"__attribute__\(\(.*?\)\)\)?", "", text)
        for match in re.finditer(r"\b(struct|enum) (\w+) \{", text):
            kind, name, start = match.group(1), match.group(2), match.end()
            body = text[start:closing(text, start)]
            if kind == "enum":
                self.enumerators[name] = re.findall(r"\b(WEIR_\w+)\b\s*(?:=[^,]*)?(?:,|$)",
                                                    body.strip())
                self.enum_file[name] = file
            else:
                self.structs[name] = fields(body)
                self.struct_file[name] = file

    def in_segment(self):
        """Returns the structures in the segment, including nested structures."""
        names = {n for n, file in self.struct_file.items() if file in LAYOUT}
        while True:
            inner = {t for n in names for _, t in self.structs[n] if t in self.structs}
            if inner <= names:
                return sorted(names)
            names |= inner


def closing(text, start):
    depth = 1
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError("unbalanced braces")


def fields(body, prefix=""):
    """Return (name, structure of the type or None) for each field. Fields of unnamed structures are listed directly."""
    result, at = [], 0
    while True:
        match = re.compile(r"\s*([^;{}]*?)([;{])").match(body, at)
        if match is None:
            return result
        declaration, at = match.group(1), match.end()
        if match.group(2) == "{":
            end = closing(body, at)
            name = re.compile(r"\s*(\w*)[^;]*;").match(body, end + 1)
            inner = body[at:end]
            at = name.end()
            if name.group(1):
                result.append((prefix + name.group(1), None))
                result += fields(inner, prefix + name.group(1) + ".")
            else:
                result += fields(inner, prefix)
            continue
        kind = re.match(r"(?:const )?struct (\w+)", declaration)
        names = re.sub(r"\[[^\]]*\]", "", declaration).split(",")
        for i, one in enumerate(names):
            name = re.findall(r"\w+", one)
            if i == 0 and len(name) < 2:
                continue  # not a declaration of a field
            result.append((prefix + name[-1], kind.group(1) if kind else None))


def facts(layout):
    """Return (name, expression) for each fact."""
    text = layout.preprocess((layout.root / "segment/fingerprint.c").read_text(), "-P")
    text = text[text.index("struct fact facts[]"):]
    text = text[:text.index("};")]
    return [("".join(re.findall(r'"([^"]*)"', name)), value) for name, value in
            re.findall(r'\{\s*((?:"[^"]*"\s*)+),(.*?)\},', text, re.S)]


def missing(layout):
    listed = facts(layout)
    names = {name for name, _ in listed}
    used = {word for _, value in listed for word in re.findall(r"\bWEIR_\w+\b", value)}
    problems = []
    if len(names) != len(listed):
        problems.append("the list names something twice")
    for struct in layout.in_segment():
        if struct not in names and struct not in ("weir_roots",):
            problems.append(f"struct {struct} is missing")
        problems += [f"{struct}.{field} is missing" for field, _ in layout.structs[struct]
                     if f"{struct}.{field}" not in names]
        problems += [f"{n} is no field" for n in names if n.startswith(struct + ".") and
                     n.split(".", 1)[1] not in {f for f, _ in layout.structs[struct]}]
    for enum, file in layout.enum_file.items():
        if file in ENUMERATIONS or enum in POLICY_ENUMERATIONS:
            problems += [f"{e} is missing" for e in layout.enumerators[enum]
                         if e not in used and not e.endswith("_COUNT")]
    for file, pattern in [*((f"segment/{name}", r"WEIR_\w+") for name in LAYOUT),
                          ("policy/policy.h", r"WEIR_NEEDS_\w+")]:
        text = (layout.root / file).read_text()
        problems += [f"{name} is missing" for name in
                     re.findall(rf"^#define ({pattern}) ", text, re.M)
                     if name not in names | NOT_FACTS]
    return problems


# --- changes ----------------------------------------------------------------------------------


def copy_layout(root, folder):
    for name in ("segment", "policy"):
        (folder / name).mkdir()
        for header in (Path(root) / name).glob("*.h"):
            shutil.copy(header, folder / name)
    shutil.copy(Path(root) / "segment/fingerprint.c", folder)


def compile_layout(folder, compiler, main):
    """Compile a program. Return its path, or None if it does not compile."""
    (folder / "main.c").write_text(main)
    command = [*compiler, "-std=gnu11", "-D_GNU_SOURCE", "-D_Static_assert(...)=", "-w",
               f"-I{folder}/segment", f"-I{folder}/policy", f"-I{folder}", folder / "main.c",
               "-o", folder / "main"]
    if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).returncode:
        return None
    return folder / "main"


def fingerprint(root, compiler, change=None):
    """Return the fingerprint of the layout after a change, or None if the changed layout does not
    compile. change: a file, and a function that changes its text."""
    with tempfile.TemporaryDirectory(prefix="weir-fingerprint-") as folder:
        folder = Path(folder)
        copy_layout(root, folder)
        if change is not None:
            path = folder / change[0]
            text = path.read_text()
            changed = change[1](text)
            if changed == text:
                raise SystemExit(f"{change[0]}: the text to change was not found; see CHANGES")
            path.write_text(changed)
        program = compile_layout(folder, compiler, MAIN)
        if program is None:
            return None
        return subprocess.run([program], capture_output=True, text=True,
                              check=True).stdout.strip()


def struct_changes(layout):
    """Yield changes: a new field in each structure, and two swapped adjacent fields."""
    for struct in layout.in_segment():
        if not layout.structs[struct]:
            continue
        file = layout.struct_file[struct]
        file = f"policy/{file}" if file == "policy.h" else f"segment/{file}"
        head = rf"^struct {struct} \{{.*\n"
        text = (layout.root / file).read_text()
        start = re.search(head, text, re.M).end()
        body = text[start:closing(text, start)]
        yield (f"{struct}: a field more", file,
               lambda t, h=head: re.sub(h, r"\g<0>\tuint64_t added;\n", t, count=1, flags=re.M))
        line = r"(\t[a-z]\w*[ \w]* \w+(?:\[\w+\])*;.*\n)"
        pair = re.search("^" + line + line, body, re.M)
        if pair:
            yield (f"{struct}: two fields swapped", file,
                   lambda t, s=start, p=pair: t[:s + p.start()] + p.group(2) + p.group(1) +
                   t[s + p.end():])


def unnoticed(layout, compiler):
    usual = fingerprint(layout.root, compiler)
    changes = [(f"{file}: {pattern}", file,
                lambda t, p=pattern, r=replacement: re.sub(p, r, t, count=1, flags=re.S))
               for file, pattern, replacement in CHANGES]
    changes += list(struct_changes(layout))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda c: fingerprint(layout.root, compiler, c[1:]), changes))
    problems = [] if usual == fingerprint(layout.root, compiler) else ["not the same twice"]
    problems += [f"not detected: {name}" for (name, _, _), value in zip(changes, found)
                 if value == usual]
    programs = sum(value is not None for value in found)
    print(f"{len(changes)} changes, {programs} of the changed layouts compile")
    if programs < len(changes) * 2 // 3:
        problems.append("too few of the changed layouts compile")
    return problems


def main():
    if len(sys.argv) < 3:
        raise SystemExit("usage: check_fingerprint.py SOURCE_ROOT COMPILER...")
    compiler = sys.argv[2:]
    layout = Layout(sys.argv[1], compiler)
    print(f"{len(layout.in_segment())} structures, "
          f"{sum(len(layout.structs[s]) for s in layout.in_segment())} fields, "
          f"{len(facts(layout))} facts")
    problems = missing(layout) + unnoticed(layout, compiler)
    for problem in problems:
        print(f"FAILED  segment/fingerprint.c: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
