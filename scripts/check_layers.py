#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the tree with the table "Folders" of docs/design/architecture.md. Checks that each folder
includes only the folders in its row, and that their rows are below its row; that the include path
of each target contains only folders that the row permits; and that there are no circular calls
between files.

check_layers.py SOURCE_ROOT [BUILD]
BUILD: a build directory of gcc; without it, include paths and calls are not checked"""
import collections
import glob
import json
import os
import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
GENERATED = {"weir_version.h", "steer.skel.h", "decap.skel.h", "meter.skel.h",
             "listen.skel.h"}
TREES = ("policy", "segment", "config", "common", "bpf", "dataplane", "control", "tools")


def read_table(root):
    """[(folder or file, {folders that it is allowed to include})], top layer first."""
    with open(os.path.join(root, "docs/design/architecture.md"), encoding="utf-8") as file:
        section = file.read().split("\n## Folders\n")[1].split("\n## ")[0]
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 5:
            name = cells[0].strip("`").rstrip("/")
            rows.append((name, {folder.rstrip("/") for folder in re.findall(r"`([^`]+)`", cells[3])}))
    return rows


def read_sources(root):
    """{file: [names in its #include "..." lines]}"""
    sources = {}
    for tree in TREES:
        for path in glob.glob(f"{root}/{tree}/**/*.[ch]", recursive=True):
            with open(path, encoding="utf-8") as file:
                sources[os.path.relpath(path, root)] = INCLUDE.findall(file.read())
    return sources


class Tree:
    def __init__(self, root):
        self.rows = read_table(root)
        self.may = dict(self.rows)
        self.order = {name: place for place, (name, _) in enumerate(self.rows)}
        self.sources = read_sources(root)
        self.by_name = collections.defaultdict(list)
        for path in self.sources:
            self.by_name[os.path.basename(path)].append(path)
        self.problems = []

    def room(self, path):
        return path if path in self.may else os.path.dirname(path)

    def below(self, room):
        """Returns the folders that a folder is allowed to include, directly or through their headers."""
        seen, todo = set(), [room]
        while todo:
            for other in self.may.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    def resolve(self, path, name):
        """Returns the file that an #include "name" refers to, or None after an error."""
        room = self.room(path)
        found = self.by_name.get(name, [])
        own = [other for other in found if os.path.dirname(other) == os.path.dirname(path)]
        allowed = [other for other in found if os.path.dirname(other) in self.may.get(room, ())]
        if own or len(allowed) == 1:
            return (own or allowed)[0]
        if len(allowed) > 1:
            self.problems.append(f"{path}: {name} may be {' or '.join(sorted(allowed))}")
        elif found:
            self.problems.append(f"{path}: includes {name} of {os.path.dirname(found[0])}/, which "
                                 f"the row of {room} does not name")
        elif name not in GENERATED:
            self.problems.append(f"{path}: includes {name}, which does not exist")
        return None

    def check_rows(self):
        for name, may in self.rows:
            for other in sorted(may):
                if other not in self.order:
                    self.problems.append(f"row of {name}: {other} has no row")
                elif self.order[other] <= self.order[name]:
                    self.problems.append(f"row of {name}: {other} is above it")
        for path in self.sources:
            if self.room(path) not in self.may:
                self.problems.append(f"{path}: its folder has no row")
        for name in self.may:
            if not any(self.room(path) == name for path in self.sources):
                self.problems.append(f"row of {name}: it has no source file")

    def check_includes(self):
        used = collections.defaultdict(set)
        for path, names in self.sources.items():
            for name in names:
                other = self.resolve(path, name)
                if other is not None:
                    used[self.room(path)].add(os.path.dirname(other))
        for name, may in self.rows:
            for other in sorted(may - used[name]):
                self.problems.append(f"row of {name}: nothing there includes {other}")

    def check_circles(self, root, build):
        """Check for circular calls between source files, using the symbols of object files."""
        defined, wanted = {}, collections.defaultdict(set)
        paths = {os.path.join(command["directory"], command["output"]): path
                 for path, command in self.commands(root, build)}
        listing = subprocess.run(["nm", "-g", "--print-file-name", *paths], stdout=subprocess.PIPE,
                                 text=True, check=True).stdout
        for line in listing.splitlines():
            output, entry = line.rsplit(":", 1)
            kind, symbol = entry.split()[-2:]
            if kind == "U":
                wanted[paths[output]].add(symbol)
            else:
                defined[symbol] = paths[output]
        graph = {path: sorted({defined[symbol] for symbol in symbols if symbol in defined} - {path})
                 for path, symbols in wanted.items()}
        state, stack = {}, []

        def visit(node):
            state[node] = "open"
            stack.append(node)
            for other in graph.get(node, ()):
                if state.get(other) == "open":
                    circle = stack[stack.index(other):] + [other]
                    self.problems.append("circle of calls: " + " -> ".join(circle))
                elif other not in state:
                    visit(other)
            stack.pop()
            state[node] = "done"

        for node in sorted(graph):
            if node not in state:
                visit(node)

    def commands(self, root, build):
        """Yield (source, compile command) for each source of our programs and libraries."""
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
            for command in json.load(file):
                path = os.path.relpath(os.path.join(command["directory"], command["file"]), root)
                if path in self.sources and not command["output"].startswith("tests/"):
                    yield path, command

    def check_paths(self, root, build):
        """Check that each source's include path has only folders that its folder may include."""
        checked = 0
        for path, command in self.commands(root, build):
            room, checked = self.room(path), checked + 1
            allowed = self.below(room) | {os.path.dirname(path), "."}
            for word in command["command"].split():
                if not word.startswith("-I"):
                    continue
                folder = os.path.relpath(os.path.join(command["directory"], word[2:]), root)
                if folder.split("/")[0] in TREES and folder not in allowed:
                    self.problems.append(f"{path}: its include path has {folder}, which is not "
                                         f"below {room}")
        if checked < len([path for path in self.sources if path.endswith(".c")]) // 2:
            self.problems.append(f"{build}: only {checked} sources found")


def main():
    tree = Tree(sys.argv[1])
    if len(tree.rows) < 10:
        sys.exit("docs/design/architecture.md: the table was not understood")
    tree.check_rows()
    tree.check_includes()
    if len(sys.argv) > 2:
        root, build = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
        tree.check_circles(root, build)
        tree.check_paths(root, build)
    for problem in sorted(set(tree.problems)):
        print(problem)
    sys.exit(1 if tree.problems else 0)


if __name__ == "__main__":
    main()
