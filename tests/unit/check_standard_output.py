#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that commands fail with an error message if standard output is a full disk or closed.

usage: check_standard_output.py PROGRAM...
"""
import os
import subprocess
import sys

FULL = "cannot write to standard output: No space left on device"
SOME = "could not write all output to standard output"
CLOSED = "cannot write to standard output: Bad file descriptor"
COMMANDS = {
    "weir-agent": (("key", "generate"), ("--help",), ("--version",)),
    "weir-bench": (("--help",), ("--version",)),
    "weir-control": (("--help",), ("--version",),
                     ("--check-dataplane", "--config", "/nowhere", "--run-dir", "/nowhere")),
    "weir-dataplane": (("--help",), ("--version",)),
    "weir-metrics": (("--help",), ("--version",), ("--families",)),
    "weir-pcap": (("--help",), ("--version",)),
    "weir-sim": (("keys",), ("--version",)),
}


def run(shell, program, *words):
    done = subprocess.run(["/bin/sh", "-c", f'exec "$@" {shell}', "sh", program, *words],
                          stderr=subprocess.PIPE, text=True, timeout=20, check=False)
    return done.returncode, done.stderr.strip().removeprefix(os.path.basename(program) + ": ")


def main():
    tried = 0
    for program in sys.argv[1:]:
        for words in COMMANDS[os.path.basename(program)]:
            for shell, errors in ((">/dev/full", (FULL, SOME)), (">&-", (CLOSED, SOME))):
                status, error = run(shell, program, *words)
                assert status == 1 and error in errors, (program, words, shell, status, error)
                tried += 1
    assert tried
    print(f"{tried} commands")


if __name__ == "__main__":
    main()
