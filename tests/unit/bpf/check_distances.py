#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that XDP programs can pass the BPF verifier of Linux 6.1, the kernel of Debian 12.

usage: check_distances.py OBJECT...

This verifier does not record that a byte-swapped word (be16) has only 16 bits, and refuses to add
an unbounded value to a packet pointer. Newer kernels, on which the other tests can run, record this.
This test therefore checks that a byte-swapped word is masked before it is added to a 64-bit
register, such as a pointer.
"""
import re
import subprocess
import sys

SWAP = re.compile(r"(r\d+) = be16 \1$")
MASK = re.compile(r"[rw](\d+) &= ")
SPILL = re.compile(r"\*\(u64 \*\)\(r10 - (\d+)\) = (r\d+)$")
FILL = re.compile(r"(r\d+) = \*\(u64 \*\)\(r10 - (\d+)\)$")
COPY = re.compile(r"(r\d+) = (r\d+)$")
ADD = re.compile(r"r\d+ \+= (r\d+)$")
SET = re.compile(r"[rw](\d+) = ")


def look(path):
    """Returns the errors in one object, in the order of its instructions."""
    text = subprocess.run(["llvm-objdump", "-d", "--no-show-raw-insn", path], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    unbounded, swaps = set(), 0
    for number, instruction in re.findall(r"^ +(\d+):\t(.*)$", text, re.M):
        if match := SWAP.match(instruction):
            unbounded.add(match[1])
            swaps += 1
        elif match := MASK.match(instruction):
            unbounded.discard("r" + match[1])
        elif match := SPILL.match(instruction):
            (unbounded.add if match[2] in unbounded else unbounded.discard)(int(match[1]))
        elif match := FILL.match(instruction):
            (unbounded.add if int(match[2]) in unbounded else unbounded.discard)(match[1])
        elif match := COPY.match(instruction):
            (unbounded.add if match[2] in unbounded else unbounded.discard)(match[1])
        elif match := ADD.match(instruction):
            if match[1] in unbounded:
                yield f"{path}: instruction {number} adds a swapped word: {instruction}"
        elif match := SET.match(instruction):
            unbounded.discard("r" + match[1])
    if swaps == 0:
        yield f"{path}: no word is swapped: mend this check"


def main():
    problems = [problem for path in sys.argv[1:] for problem in look(path)]
    print("\n".join(problems) or f"{len(sys.argv) - 1} objects")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
