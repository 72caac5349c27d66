#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the invalid files that a table describes: NAME.json, and NAME.expected with the error
messages.

usage: broken.py TABLE FOLDER STAMP

The tables are config/broken.txt and tools/sim/broken.txt. A line of a table is one of

    # ...              a comment, in the first column; empty lines are also skipped
    === NAME           begins a case; the other cases change the document of the first case
    PLACE | TEXT       a line of the document
    12:34: ...         a message of the reader, verbatim

Each line of the first document may have the name of a place. A case replaces the line of a place by
one or several lines, or removes it with an empty TEXT; new lines are indented like the replaced line.
An empty place is indented like the line below it. Lines of the place "whole" replace the whole
document, unchanged. In a TEXT, <e9> is a byte in hexadecimal, <300*x> repeats x, and the document
ends at <end>, without a newline.
"""
import pathlib
import re
import shutil
import sys

ROW = re.compile(r"(\w*) *\|(?: (.*))?$")
MESSAGE = re.compile(r"\d+:\d+: ")
BYTE, REPEAT = re.compile(r"<([0-9a-f]{2})>"), re.compile(r"<(\d+)\*([^>]+)>")


def read_table(path):
    """Yields (name, [(place, text)...], [message...])."""
    cases = {}
    rows = messages = None
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.startswith("=== "):
            name = line[4:]
            if name in cases:
                sys.exit(f"{path}:{number}: {name} is there already")
            rows, messages = cases[name] = [], []
        elif rows is not None and (row := ROW.match(line)):
            rows.append((row[1], row[2] or ""))
        elif messages is not None and MESSAGE.match(line):
            messages.append(line)
        elif line and not line.startswith("#"):
            sys.exit(f"{path}:{number}: neither a place with its text nor a message")
    return cases


def indentation(text):
    return text[:len(text) - len(text.lstrip())]


def changed(document, rows):
    """Returns the lines of the document, with the replacements of a case."""
    places = {}
    for place, text in rows:
        places.setdefault(place, []).append(text)
    whole = places.pop("whole", None)
    lines = []
    for i, (place, text) in enumerate(document):
        indent = indentation(text or document[min(i + 1, len(document) - 1)][1])
        new = [indent + t for t in places.pop(place, []) if t] if place in places else [text]
        lines += [line for line in new if line]
    if places:
        raise ValueError("no such place: " + ", ".join(places))
    return lines if whole is None else whole


def text_of(lines):
    text = "".join(line + "\n" for line in lines if line)
    text = REPEAT.sub(lambda m: m[2] * int(m[1]), text).split("<end>")[0]
    parts = BYTE.split(text)  # every second element is a byte
    return b"".join(bytes.fromhex(part) if i % 2 else part.encode()
                    for i, part in enumerate(parts))


def main():
    table, folder, stamp = map(pathlib.Path, sys.argv[1:])
    cases = read_table(table)
    document = cases.pop(next(iter(cases)))[0]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, (rows, messages) in cases.items():
        if not messages:
            sys.exit(f"{table}: {name}: expects no message")
        try:
            lines = changed(document, rows)
        except ValueError as error:
            sys.exit(f"{table}: {name}: {error}")
        (folder / f"{name}.json").write_bytes(text_of(lines))
        (folder / f"{name}.expected").write_text("".join(m + "\n" for m in messages),
                                                 encoding="utf-8")
    stamp.write_text(f"{len(cases)} cases\n", encoding="utf-8")


if __name__ == "__main__":
    main()
