#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Count test cases in a meson test log: summarize.py TESTLOG.json prints "PASSED FAILED SKIPPED",
then a line "failed: TEST: CASES" for each program that failed.

One meson test is one program with many cases. The cases are counted from the program's output:
cmocka's totals, or a line "<n> passed, <n> failed[, <n> skipped]". A program without such output is
one case. A program that fails without naming a failed case counts as one more failed case.
"""
import json
import re
import sys

PATTERNS = (
    (re.compile(r"^\[  PASSED  \] (\d+) test", re.M), 0),
    (re.compile(r"^\[  FAILED  \] (\d+) test", re.M), 1),
    (re.compile(r"^\[  SKIPPED \] (\d+) test", re.M), 2),
)
CASE = re.compile(r"^\[  FAILED  \] ([A-Za-z_]\w*)", re.M)  # cmocka's list at the end also contains this line
LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", re.M)


def output(test):
    return (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")


def count(test):
    text = output(test)
    counts = [0, 0, 0]
    for pattern, index in PATTERNS:
        counts[index] += sum(int(n) for n in pattern.findall(text))
    lines = LINE.findall(text)
    if lines:
        counts = [a + int(b or 0) for a, b in zip(counts, lines[-1])]
    result = test["result"]
    if result in ("OK", "EXPECTEDFAIL"):
        if counts[1]:
            print(f"{test['name']}: exit 0 although cases failed", file=sys.stderr)
        if not any(counts):
            counts[0] = 1
    elif result == "SKIP":
        counts[2] = counts[2] or 1
    elif counts[1] == 0:
        counts[1] = 1
    return counts


def failure(test):
    cases = list(dict.fromkeys(CASE.findall(output(test))))
    more = f" and {len(cases) - 4} more" if len(cases) > 4 else ""
    return f"failed: {test['name']}" + (f": {', '.join(cases[:4])}{more}" if cases else f" ({test['result']})")


def main():
    total, programs, failures = [0, 0, 0], 0, []
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            if line.strip():
                programs += 1
                test = json.loads(line)
                counts = count(test)
                total = [a + b for a, b in zip(total, counts)]
                if counts[1]:
                    failures.append(failure(test))
    if programs == 0:
        print("no test ran", file=sys.stderr)
        total[1] = 1
    print(*total)
    for line in failures:
        print(line)


if __name__ == "__main__":
    main()
