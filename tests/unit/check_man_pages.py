#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that man and mandoc report no problem in the man pages, and that no text is missing.

usage: check_man_pages.py SOURCE_ROOT PAGE... -- PROGRAM...

Each program must have a page. As shown by man, the page must have every word of the program's
--help, and of the help of its commands, if they have one. weir.json.5 must have every key, and
every word of docs/reference/configuration.md.
"""
import os
import re
import subprocess
import sys

ALLOWED = ("STYLE:",)  # mandoc reports source lines longer than 80 characters


def run(*command, **environment):
    done = subprocess.run(command, text=True, capture_output=True, timeout=60, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8", **environment})
    return done.stdout, done.stderr


def rendered(page, problems):
    """Returns the words of a page as rendered by man, without hyphenation."""
    text, errors = run("man", "--warnings", "--local-file", "-Tutf8", page, MANWIDTH="400",
                       MANROFFOPT="-c", MAN_KEEP_FORMATTING="")
    if errors:
        problems.append(f"{page}: man: {errors.strip()}")
    lint, errors = run("mandoc", "-Tlint", page)
    problems += [line for line in (lint + errors).splitlines()
                 if not any(word in line for word in ALLOWED)]
    # bold text is overstruck, or marked by escape sequences (groff 1.23)
    return words(re.sub(r".\x08|\x1b\[[0-9;]*m", "", text))


def words(text):
    """Returns the words of a text, in lower case and without punctuation."""
    return {word for word in re.split(r"[\s\u2022(),;:.\"'\u2019\u2018|\[\]`*#]+", text.lower()) if word}


def helps(program):
    """Yields the help of a program, and of its commands, if they have one."""
    text = run(program, "--help")[0]
    yield text
    listed = re.search(r"^Commands:\n(.*?)\n\n", text, re.M | re.S)
    if not listed or 'COMMAND --help"' not in text and 'VERB --help"' not in text:
        return
    for row in listed[1].splitlines():
        name = re.match(r"  ((?:[a-z-]+ )*[a-z-]+)(?= |$)", row)[1].split("  ")[0]
        # the description and the list of commands of weirctl contain sentences
        yield run(program, *name.split(), "--help")[0]


def check_program(page, program, problems):
    shown = rendered(page, problems)
    for text in helps(program):
        # remove headings and marks, which have another form in the man page
        text = re.sub(r"^(Usage|Options|Commands|Examples?|Exit status):", "", text, flags=re.M)
        lacks = words(text) - shown
        if lacks:
            problems.append(f"{page}: lacks {sorted(lacks)}")


def check_configuration(page, root, problems):
    shown = rendered(page, problems)
    with open(root + "/docs/reference/configuration.md", encoding="utf-8") as file:
        text = file.read()
    keys = set(re.findall(r"^\| `(\w+)` \|", text, re.M))
    text = re.sub(r"\]\([^)]*\)|^```.*$|^\|.*\n\| ---.*$|^# .*$", " ", text, flags=re.M)
    lacks = words(" ".join(sorted(keys))) | words(text)
    lacks = {word for word in lacks - shown if not re.fullmatch(r"[-\\]+", word)}
    if len(keys) < 100 or lacks:
        problems.append(f"{page}: {len(keys)} keys; lacks {sorted(lacks)}")


def main():
    root, arguments = sys.argv[1], sys.argv[2:]
    pages, programs = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    page_of = {os.path.basename(page).rpartition(".")[0]: page for page in pages}
    problems = []
    for program in programs:
        name = os.path.basename(program)
        if name in page_of:
            check_program(page_of[name], program, problems)
        else:
            problems.append(f"{name} has no page")
    check_configuration(page_of["weir.json"], root, problems)
    print("\n".join(problems) or f"{len(pages)} pages")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
