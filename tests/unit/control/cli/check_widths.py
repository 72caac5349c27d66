#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks lists of weirctl on terminals of several widths, with the answers of check_cli_docs.py.

usage: check_widths.py WEIRCTL SOURCE_ROOT BROKEN

At 80 columns no line is longer than the terminal, and the columns named in this file are shown. At
220 columns, and in a pipe, all columns are shown. The names of columns that do not fit are printed
below the table.
"""
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import check_cli_docs

COMMANDS = {
    "health show": ("SERVICE BACKEND CHECK HEALTH SINCE FAILS LAST-MS DETAIL", "PASSES LAST-OK AGE"),
    "service show": ("SERVICE BACKENDS ELIGIBLE ACTIVE-FLOWS DROPPED BINDS", "SLOTS BYTES"),
    "service show web": ("BACKEND IN-USE WEIGHT EFFECTIVE-% ACHIEVED-% OPEN-FLOWS ERRORS", ""),
    "worker show": ("WORKER CORE ALIVE BUSY-% RX-PACKETS FORWARDED DROPPED FLOWS HALF-OPEN", "TAKEN REPLIED"),
    "port show": ("PORT NAME RX-PACKETS LOST TX-PACKETS", "MAC"),
    "backend show": ("SERVICE BACKEND ADMIN HEALTH WEIGHT SHARE-%", "DROPPED"),
}


def on_terminal(command, columns, environment):
    terminal, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, env=environment)
    os.close(slave)
    text = b""
    try:
        while data := os.read(terminal, 65536):
            text += data
    except OSError:  # the end of the output
        pass
    process.wait()
    os.close(terminal)
    return text.decode().replace("\r\n", "\n")


def table(text, first):
    """Returns the words of the header line whose first word is `first`, and the lines from the
    header on."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.split()[:1] == [first]), None)
    return ([], []) if begin is None else (lines[begin].split(), lines[begin:])


def check(weirctl, words, shown, hidden, environment):
    command, shown, hidden = [weirctl, *words.split()], shown.split(), hidden.split()
    narrow = on_terminal(command, 80, environment)
    header, lines = table(narrow, shown[0])
    wide = table(on_terminal(command, 220, environment), shown[0])[0]
    piped = table(subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, check=False).stdout, shown[0])[0]
    problems = [f"longer than 80: {line}" for line in lines
                if len(line) > 80 and not line.startswith("warning:")]
    problems += [f"{word} is missing at 80 columns" for word in shown if word not in header]
    for word in hidden:
        if word in header or word not in narrow.partition("too narrow for ")[2]:
            problems.append(f"{word} is not named below the table")
        problems += [f"{word} is missing {where}" for where, columns in (("at 220", wide), ("in a pipe", piped))
                     if word not in columns]
    problems += [f"{word} is missing in a pipe" for word in wide if word not in piped]
    return [f"weirctl {words}: {problem}\n{narrow}" for problem in problems]


def main():
    weirctl, root, broken = (os.path.abspath(path) for path in sys.argv[1:4])
    problems = []
    with check_cli_docs.ControlServer(root, broken) as server:
        environment = dict(os.environ, WEIR_RUN_DIR=server.folder.name)
        for words, (shown, hidden) in COMMANDS.items():
            problems += check(weirctl, words, shown, hidden, environment)
    for problem in problems:
        print(problem)
    print(f"{len(COMMANDS)} lists, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
