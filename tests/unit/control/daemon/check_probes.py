#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the programs have the probes documented in docs/guide/operations.md, "Probes", with the
same number of arguments, and that config/bpftrace/drops.bt has the numbers and names of all drop
reasons.

check_probes.py SOURCE_ROOT DATAPLANE CONTROL"""
import re
import subprocess
import sys

root = sys.argv[1]
programs = {"weir-dataplane": sys.argv[2], "weir-control": sys.argv[3]}


def probes_of(path):
    """Returns {(name, number of arguments)} as read by readelf. Checks that no probe has a semaphore."""
    notes = subprocess.run(["readelf", "--wide", "--notes", path], capture_output=True, text=True,
                           check=True).stdout
    found = re.findall(r"Provider: weir\s+Name: (\w+)\s+Location: \w+, Base: \w+, Semaphore: (\w+)"
                       r"\s+Arguments: (.*)", notes)
    assert all(int(semaphore, 16) == 0 for _, semaphore, _ in found), found
    return {(name, len(arguments.split())) for name, _, arguments in found}


with open(f"{root}/docs/guide/operations.md", encoding="utf-8") as file:
    section = file.read().split("\n### Probes\n")[1].split("\n### ")[0]
documented = {}
for name, program, arguments in re.findall(r"^\| `(\w+)` \| `([\w-]+)` \| .* \| (.*) \|$", section,
                                           re.MULTILINE):
    count = len(re.sub(r"\([^)]*\)", "", re.sub(r"\[[^]]*\]\([^)]*\)", "", arguments)).split(","))
    documented.setdefault(program, set()).add((name, count))
assert sum(map(len, documented.values())) >= 5, "the table was not understood"

bad = 0
for program, path in programs.items():
    found = probes_of(path)
    # Both processes link segment/, so they also contain the unused probes of the other process.
    others = set().union(*documented.values())
    for probe in documented.get(program, set()) - found:
        print(f"{program} has no probe {probe[0]} with {probe[1]} arguments")
        bad = 1
    for probe in found - others:
        print(f"{program} has probe {probe[0]} with {probe[1]} arguments: not documented so")
        bad = 1

with open(f"{root}/config/bpftrace/drops.bt", encoding="utf-8") as file:
    reasons = re.findall(r'@reason\[(\d+)\] = "(\w+)";', file.read())
with open(f"{root}/segment/drop_reasons.h", encoding="utf-8") as file:
    listed = re.findall(r'X\([A-Z0-9_]+, "([a-z0-9_]+)",', file.read())
if reasons != [(str(number), name) for number, name in enumerate(listed)]:
    print("the reasons in config/bpftrace/drops.bt are not those of segment/drop_reasons.h")
    bad = 1
sys.exit(bad)
