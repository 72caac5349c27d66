#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the previous layouts that control supports (segment/fingerprint.c) with the present
layout: each of their facts must still be true, except for reserved space. Also check a simulated
next version of the layout, which adds a field: it must support the present layout, and no other
layout.

usage: check_formers.py [--record] SOURCE_ROOT COMPILER...

--record writes the facts of the present layout to tests/unit/segment/layouts/ABI.txt. Use it before
you change the layout. It prints the ABI and the fingerprint: add both to `formers`.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check_fingerprint import copy_layout, compile_layout

LAYOUTS = "tests/unit/segment/layouts"
MAIN = """#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "fingerprint.c"
int main(int argc, char **argv) {
	if (argc == 3) {
		return !weir_layout_served((uint32_t)strtoul(argv[1], NULL, 10),
			strtoull(argv[2], NULL, 16));
	}
	for (const struct layout *former = formers; former->abi != 0; former++) {
		printf("former %" PRIu32 " %" PRIx64 "\\n", former->abi, former->fingerprint);
	}
	printf("layout %d %" PRIx64 "\\n", WEIR_SEGMENT_ABI, weir_layout_fingerprint());
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		printf("fact %" PRIx64 " %s\\n", facts[i].value, facts[i].name);
	}
}
"""
# The changes of the simulated next version, which uses reserved space.
NEXT = [
    ("segment/layout.h", r"(struct weir_notes \{.*?)uint64_t reserved\[2\];",
     r"\1uint64_t added;\n\tuint64_t reserved[1];"),
    ("fingerprint.c", r"FIELD\(weir_notes, reserved\)",
     "FIELD(weir_notes, added) FIELD(weir_notes, reserved)"),
]


class Program:
    """The compiled program of a layout."""

    def __init__(self, folder, compiler):
        self.path = compile_layout(folder, compiler, MAIN)
        if self.path is None:
            raise SystemExit("the layout does not compile")
        self.formers, self.facts = [], {}
        for line in subprocess.run([self.path], capture_output=True, text=True,
                                   check=True).stdout.splitlines():
            kind, first, rest = line.split(" ", 2)
            if kind == "fact":
                self.facts[rest] = int(first, 16)
            elif kind == "former":
                self.formers.append((int(first), int(rest, 16)))
            else:
                self.abi, self.fingerprint = int(first), int(rest, 16)

    def serves(self, abi, fingerprint):
        return subprocess.run([self.path, str(abi), f"{fingerprint:x}"]).returncode == 0


def fnv(facts):
    """Returns the fingerprint, computed from the facts."""
    value = 0xcbf29ce484222325
    for name, fact in facts.items():
        for byte in name.encode() + fact.to_bytes(8, "little"):
            value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return value | 1


def may_differ(name):
    """Returns whether a fact may differ: reserved space, and the length of the header, which attach
    compares separately."""
    return re.search(r"\.reserved\d*$", name) or name == "weir_segment_header"


def lost(former, today):
    """Return the facts of a previous layout that are different or missing in the present layout."""
    return [f"{name} was {value:x}, is {today.get(name, 0):x}" if name in today else f"{name} is missing"
            for name, value in former.items()
            if not may_differ(name) and today.get(name) != value]


def read_layout(path):
    facts = {}
    for line in path.read_text().splitlines():
        value, name = line.split(" ", 1)
        facts[name] = int(value, 16)
    return facts


def check_recorded(root, today):
    problems = []
    for abi, fingerprint in today.formers:
        path = root / LAYOUTS / f"{abi}.txt"
        if not path.exists():
            problems.append(f"{LAYOUTS}/{abi}.txt is missing")
            continue
        former = read_layout(path)
        if fnv(former) != fingerprint:
            problems.append(f"{path.name}: its facts give {fnv(former):x}, not {fingerprint:x}")
        problems += [f"ABI {abi} cannot be served: {text}" for text in lost(former, today.facts)]
    return problems


def change(folder, edits):
    for name, pattern, replacement in edits:
        path = folder / name
        text = path.read_text()
        changed = re.sub(pattern, replacement, text, count=1, flags=re.S)
        if changed == text:
            raise SystemExit(f"{name}: the text to change was not found; see NEXT")
        path.write_text(changed)


def check_next(root, compiler, today):
    """Check that a later version supports the current layout if it is in `formers`, and supports no other layout."""
    entry = (f"formers[] = {{{{{today.abi}, sizeof(struct weir_segment_header), "
             f"UINT64_C(0x{today.fingerprint:x})}}, {{0, 0, 0}}}}")
    edits = NEXT + [("segment/layout.h", r"WEIR_SEGMENT_ABI \d+", f"WEIR_SEGMENT_ABI {today.abi + 1}"),
                    ("fingerprint.c", r"formers\[\] = \{.*?\}\}", entry)]
    with tempfile.TemporaryDirectory(prefix="weir-layout-") as folder:
        folder = Path(folder)
        copy_layout(root, folder)
        change(folder, edits)
        later = Program(folder, compiler)
        expected = [(later.abi, later.fingerprint, True), (today.abi, today.fingerprint, True),
                    (today.abi, later.fingerprint, False), (later.abi, today.fingerprint, False),
                    (today.abi, today.fingerprint ^ 2, False), (today.abi - 1, today.fingerprint, False),
                    (0, 0, False)]
        problems = [f"a next version {'refuses' if yes else 'serves'} ABI {abi}, layout {value:x}"
                    for abi, value, yes in expected if later.serves(abi, value) != yes]
        if lost(today.facts, later.facts):
            problems.append("an added field is reported as a loss")
        if today.serves(later.abi, later.fingerprint):
            problems.append("the current version serves the segment of a later version")
    moved = dict(today.facts)
    moved["weir_notes.heap_used"] += 8 << 32
    del moved["weir_notes.generation"]
    if len(lost(today.facts, moved)) != 2:
        problems.append("what was moved and what is gone was not noticed")
    return problems


def main():
    arguments = sys.argv[1:]
    record = arguments[:1] == ["--record"]
    if len(arguments) < 2 + record:
        raise SystemExit("usage: check_formers.py [--record] SOURCE_ROOT COMPILER...")
    root, compiler = Path(arguments[record]), arguments[record + 1:]
    with tempfile.TemporaryDirectory(prefix="weir-layout-") as folder:
        copy_layout(root, Path(folder))
        today = Program(Path(folder), compiler)
        if record:
            path = root / LAYOUTS / f"{today.abi}.txt"
            path.write_text("".join(f"{v:x} {n}\n" for n, v in today.facts.items()))
            print(f"{path}: {{{today.abi}, {today.facts['weir_segment_header']}, "
                  f"UINT64_C(0x{today.fingerprint:x})}}")
            return 0
        problems = check_recorded(root, today) + check_next(root, compiler, today)
    if fnv(today.facts) != today.fingerprint:
        problems.append("the fingerprint is not what its facts give")
    print(f"{len(today.formers)} former layouts, {len(today.facts)} facts today")
    for problem in problems:
        print(f"FAILED  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
