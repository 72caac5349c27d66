#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that the tables of drop reasons and counters in docs/guide/troubleshooting.md have the same
entries as segment/drop_reasons.h and segment/counters.h, in the same order.

usage: check_operations_docs.py SOURCE_ROOT
"""
import re
import sys

root = sys.argv[1]
with open(f"{root}/segment/drop_reasons.h", encoding="utf-8") as file:
    listed = re.findall(r'X\([A-Z0-9_]+, "([a-z0-9_]+)", "([^"]+)"\)', file.read())
with open(f"{root}/docs/guide/troubleshooting.md", encoding="utf-8") as file:
    section = file.read().split("\n## Drop reasons\n")[1].split("\n## ")[0]
documented = re.findall(r"^\| `([a-z0-9_]+)` \| (.+?) \| (.+?) \|$", section, re.MULTILINE)

assert len(listed) > 30, "drop_reasons.h was not understood"
bad = 0
for line in section.splitlines():
    if line.startswith("| `") and not re.match(r"^\| `[a-z0-9_]+` \| .+ \| .+ \|$", line):
        print(f"not a row of three: {line}")
        bad = 1
for (name, text), row in zip(listed, documented):
    if row[:2] != (name, text):
        print(f"row of {row[0]} should be: | `{name}` | {text} | ... |")
        bad = 1
if len(listed) != len(documented):
    print(f"{len(listed)} reasons, {len(documented)} rows")
    bad = 1

with open(f"{root}/segment/counters.h", encoding="utf-8") as file:
    listed = [
        (field, "gauge" if "GAUGES" in name else "counter", unit.lower(), text)
        for name, rows in re.findall(r"#define (\w+)\(X\) \\\n((?:.*\\\n)*.*\n)", file.read())
        for field, unit, text in re.findall(
            r'X\((\w+), (\w+), "\w+",[\s\\]*"([^"]+)"\)', rows)
    ]
with open(f"{root}/docs/guide/troubleshooting.md", encoding="utf-8") as file:
    section = file.read().split("\n## Counters\n")[1].split("\n## ")[0]
documented = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \| (.+) \|$", section, re.MULTILINE)
assert len(listed) > 25, "counters.h was not understood"
for row in (row for row in listed if row not in documented):
    print("missing row: | `{}` | {} | {} | {} |".format(*row))
    bad = 1
for row in (row for row in documented if row not in listed):
    print(f"row of {row[0]} is not in counters.h")
    bad = 1
if [row[0] for row in documented] != [row[0] for row in listed]:
    print("the counters are in another order")
    bad = 1
sys.exit(bad)
