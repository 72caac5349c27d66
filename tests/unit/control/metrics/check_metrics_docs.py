#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that the tables of families in docs/reference/metrics.md agree with weir-metrics
--families, and the table of options with --help.

usage: check_metrics_docs.py WEIR_METRICS SOURCE_ROOT [--write]

--write updates the tables in the document.
"""
import re
import subprocess
import sys

BEGIN, END = "<!-- families -->\n", "<!-- end of families -->\n"


def main(program, root, *options):
    path = root + "/docs/reference/metrics.md"
    families = subprocess.run([program, "--families"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, _, rest = text.partition(BEGIN)
    shown, _, after = rest.partition(END)
    if "--write" in options:
        with open(path, "w", encoding="utf-8") as file:
            file.write(before + BEGIN + families + END + after)
        return 0
    if shown != families:
        print(f"docs/reference/metrics.md is not what {program} --families prints: run this with --write")
        return 1
    said = subprocess.run([program, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout
    options = set(re.findall(r"^ +(--[a-z-]+)", said, re.M))
    rows = re.findall(r"^\| (`--.*?) \|", before, re.M)
    documented = set(re.findall(r"--[a-z-]+", " ".join(rows)))
    if not options or options != documented:
        print(f"docs/reference/metrics.md has options {sorted(documented)}, --help has {sorted(options)}")
        return 1
    print(f"{families.count('| `')} families, {len(options)} options")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
