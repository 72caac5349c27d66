#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that everything to which the documents refer exists: links, files, folders, tests,
scenarios, messages.

usage: check_doc_names.py SOURCE_ROOT BUILD_ROOT

Checks every *.md of the tree: targets and anchors of links; code spans that are a path from the root
or the name of a source file; tests after "meson test -C build"; scenarios after "scripts/test e2e" or
"tests/e2e/run.py"; the tests that a table names for a guarantee (S1, M1, ...). Such a table must list
all guarantees of a header (M1 to M4). Also checks the log messages that docs/guide/troubleshooting.md
quotes, the details of checks without a result, and the tests of every complaint answered in
docs/guide/complaints.md. A link whose text is the name of a document must lead to this document. No
two headings of a document may have the same anchor. In headers and systemd units, checks paths from
the root, headings of documents, and that guarantees are numbered without gaps. Lists of all policies
must contain every policy, and docs/design/testing.md must list every file of recorded traces.
"""
import collections
import fnmatch
import glob
import itertools
import json
import os
import re
import subprocess
import sys

FOLDERS = ("bpf", "common", "config", "control", "dataplane", "docs", "policy", "scripts",
           "segment", "tests", "tools")
PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})(?:/[\w.*-]+)*/?")
FILE = re.compile(r"[\w-]+(?:\.bpf)?\.[ch]")
# For comments. A section is named like this: docs/guide/operations.md, "Memory".
NAMED = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]*\.(?:c|h|md|json|py)\b")
SECTION = re.compile(r"docs/([\w/-]+\.md), \"([^\"]+)\"")


# Lists of all policies: document, start and end of the list.
POLICIES = (("README.md", "\nThe policies are ", "\n\n"),
            ("docs/guide/policies.md", "\n## Which one\n", "\n## "),
            ("docs/reference/policies.md", "\n## Slow start\n", "\n## "),
            ("docs/reference/agent.md", "| policy | asks for |", "\n\n"))


# Names of errors whose texts come from libuv.
LIBUV = {"address not available"}


def read_strings(root):
    """Returns the strings of the programs, one per line, and patterns of strings with
    conversions."""
    strings = set()
    for folder in ("common", "control", "dataplane"):
        for path in glob.glob(f"{root}/{folder}/**/*.[ch]", recursive=True):
            with open(path, encoding="utf-8") as file:
                text = re.sub(r'"\s*\n\s*"', "", file.read())
            strings.update(string.replace('\\"', '"')
                           for string in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text))
    formats = [re.split(r"%[-+ #0-9.*lhzjt]*[a-zA-Z]", string) for string in strings]
    return "\n".join(strings), [re.compile(".+".join(map(re.escape, parts)))
                                for parts in formats if len(parts) > 1 and
                                len(re.findall(r"[a-z]{2,}", " ".join(parts))) > 2]


class Tree:
    def __init__(self, root, build):
        self.root = root
        self.files = set()
        for folder in FOLDERS:
            for _, _, names in os.walk(os.path.join(root, folder)):
                self.files.update(names)
        with open(build + "/meson-info/intro-tests.json", encoding="utf-8") as file:
            tests = json.load(file)
        self.suites = {suite.split(":")[-1] for test in tests for suite in test["suite"]}
        self.tests = {test["name"] for test in tests}
        listed = subprocess.run([root + "/tests/e2e/run.py", "--list"], text=True, check=True,
                                stdin=subprocess.DEVNULL, capture_output=True).stdout
        self.scenarios = {line.split()[0] for line in listed.splitlines()}
        documents = glob.glob(root + "/*.md")
        for folder in FOLDERS:
            documents += glob.glob(f"{root}/{folder}/**/*.md", recursive=True)
        self.cases = set()  # functions of unit tests
        for path in glob.glob(root + "/tests/**/*.c", recursive=True):
            with open(path, encoding="utf-8") as file:
                self.cases.update(re.findall(r"^TEST\(\s*(\w+)", file.read(), re.M))
        for pattern, name in (("packets/scenarios_*", r"test_(\w+)"), ("packages/check", r"(\w+)")):
            for path in glob.glob(f"{root}/tests/{pattern}.py"):
                with open(path, encoding="utf-8") as file:
                    self.cases.update(re.findall(rf"^def {name}\(lab", file.read(), re.M))
        self.messages, self.formats = read_strings(root)
        self.text, self.anchors = {}, {}
        for path in sorted(documents):
            with open(path, encoding="utf-8") as file:
                text = self.text[path] = file.read()
            self.anchors[path] = [anchor(heading) for heading in re.findall(
                r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)]


def anchor(heading):
    """Returns the anchor of a heading, as the web site that shows the documents generates it."""
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


def check_links(tree, path):
    for target in re.findall(r"\]\(([^)\s]+)\)", tree.text[path]):
        if target.startswith(("http:", "https:")):
            continue
        name, _, place = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(file):
            yield f"link to {target}: there is no such file"
        elif place and place not in tree.anchors.get(file, {place}):
            yield f"link to {target}: there is no such heading"


def check_link_texts(tree, path):
    """Check that a link whose text is the name of a document leads to this document, and that
    "above" and "below" lead to the same document."""
    for text, target in re.findall(r"\[([\w-]+\.md|above|below)\]\(([^)\s]+)\)", tree.text[path]):
        name = target.partition("#")[0]
        if name if "." not in text else text != os.path.basename(name or path):
            yield f"link to {target}: its text is {text}"


def check_headings(tree, path):
    for name, times in collections.Counter(tree.anchors[path]).items():
        if times > 1:
            yield f"{times} headings are #{name}: a link gets to the first of them"


def check_spans(tree, path):
    outside = re.sub(r"^```.*?^```$", "", tree.text[path], flags=re.M | re.S)
    for span in re.findall(r"`([^`\n]+)`", outside):
        at = os.path.join(tree.root, span)
        if PATH.fullmatch(span) and not glob.glob(at) and not os.path.exists(at + ".c"):
            yield f"`{span}`: there is no such path"
        elif FILE.fullmatch(span) and span not in tree.files:
            yield f"`{span}`: there is no such file"


def is_scenario(tree, name):
    return any(each.startswith(name) or fnmatch.fnmatch(each, name) for each in tree.scenarios)


def check_tests(tree, path):
    for line in re.findall(r"meson test -C build ([^`\n#]+)", tree.text[path]):
        words = line.split()
        for before, word in zip([""] + words, words):
            known = tree.suites if before == "--suite" else tree.tests
            if not word.startswith("-") and word not in known:
                yield f"meson test: {word}: there is no such test or suite"
    for line in re.findall(r"(?:scripts/test e2e|tests/e2e/run.py(?: --build build)?) ([^`\n#]+)",
                           tree.text[path]):
        for word in line.replace("'", "").split():
            if not word.startswith(("-", "[")) and not is_scenario(tree, word):
                yield f"{word}: there is no such scenario"


def check_guarantees(tree, path):
    """Check that the tests named in rows of guarantees exist. These rows begin with a guarantee like
    S1, or with "M1 to M4 of `header`"."""
    for row in re.findall(r"^\| [A-Z]\d .*$", tree.text[path], re.M):
        for name in re.findall(r"`([a-z0-9_]{8,})`", row):
            if name not in tree.tests | tree.cases and not is_scenario(tree, name):
                yield f"{name}: there is no such test or scenario"
    for first, last, header in re.findall(r"^\| ([A-Z]\d) to ([A-Z]\d) of `([\w/.]+)`",
                                          tree.text[path], re.M):
        named = [first[0] + str(i) for i in range(int(first[1]), int(last[1]) + 1)]
        with open(os.path.join(tree.root, header), encoding="utf-8") as file:
            found = re.findall(rf"^//\s+({first[0]}\d) ", file.read(), re.M)
        if found != named:
            yield f"{first} to {last} of {header}: it has {', '.join(found) or 'none of these'}"


def check_complaints(tree):
    """Check that each complaint has an answer and an existing test."""
    answered = tree.text[tree.root + "/docs/guide/complaints.md"].partition("\n## Handled\n")[2]
    rows = re.findall(r"^\| (.*) \|$", answered.partition("\n## ")[0], re.M)[2:]
    if len(rows) < 25:
        yield f"docs/guide/complaints.md: only {len(rows)} complaints found: fix this check"
    for row in rows:
        complaint, _, answer, tests = (cell.strip() for cell in row.split("|"))
        names = re.findall(r"`(\w+)`", tests)
        if not answer or not names:
            yield f"docs/guide/complaints.md: {complaint}: has no answer or no test"
        for name in names:
            if name not in tree.cases | tree.tests | tree.scenarios:
                yield f"docs/guide/complaints.md: {complaint}: {name}: there is no such test"


def is_message(tree, text):
    """Returns whether the text is part of a string of the programs. A conversion like %s matches
    any text."""
    return text in tree.messages or any(message.search(text) for message in tree.formats)


def check_symptoms(tree, path):
    """Check that quoted log messages are in the source, except messages of DPDK."""
    section = tree.text[path].partition("\n## Symptoms\n")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (.*?) \|", section, re.M):
        spans = re.findall(r"`([^`]+)`", row)
        if not any(span.startswith("dpdk:") for span in spans):
            yield from (f"`{span}`: there is no such message" for span in spans
                        if not all(part.strip() in tree.messages for part in span.split("...")))


def check_logged(tree, path):
    """Check that the messages quoted after "log has" or "log names", and the details quoted after
    "no result:", are in the source."""
    text = re.sub(r"\s+", " ", tree.text[path])
    for span in re.findall(r"\blog (?:has|names) `([^`]+)`", text):
        if span not in tree.messages:
            yield f"`{span}`: there is no such message"
    for span in re.findall(r"`no result: ([^`]+)`", text):
        if span not in LIBUV and not any(is_message(tree, each)
                                         for each in (span, f"no result: {span}")):
            yield f"`no result: {span}`: there is no such detail"


def check_comments(tree, path):
    with open(path, encoding="utf-8") as file:
        lines = re.findall(r"^.*?(?://|#(?!include))(.*)$", file.read(), re.M)
    text = re.sub(r"\s+", " ", " ".join(lines))
    for name in NAMED.findall(text):
        if not os.path.exists(os.path.join(tree.root, name)):
            yield f"{name}: there is no such file"
    for name, heading in SECTION.findall(text):
        if anchor(heading) not in tree.anchors.get(f"{tree.root}/docs/{name}", ()):
            yield f"docs/{name}: there is no heading \"{heading}\""


def check_numbers(_, path):
    """Check that the guarantees of a header are numbered 1, 2, 3, ..., each at the start of a
    line."""
    with open(path, encoding="utf-8") as file:
        found = re.findall(r"^//\s+([A-Z])(\d) ", file.read(), re.M)
    for letter in {letter for letter, _ in found}:
        numbers = [int(number) for of, number in found if of == letter]
        if numbers[0] == 1 and numbers != list(range(1, len(numbers) + 1)):
            yield f"guarantees {letter}: {numbers}: not one after the other"


def check_policies(tree):
    with open(tree.root + "/policy/policy.h", encoding="utf-8") as file:
        table = re.search(r"#define WEIR_POLICIES\(X\)((?:.*\\\n)+.*)", file.read())[1]
    names = re.findall(r'"([a-z-]+)"', table)
    if len(names) < 10:
        yield f"policy/policy.h: {names}: mend this check"
    for path, begin, end in POLICIES:
        found = tree.text[f"{tree.root}/{path}"].partition(begin)[2].partition(end)[0]
        yield from (f"{path}: {begin.strip()}: lacks {name}" for name in names
                    if f"`{name}`" not in found and f"`{name}," not in found
                    and f", {name}`" not in found)


def check_vectors(tree):
    for path in glob.glob(tree.root + "/tests/vectors/*.json"):
        if f"`{os.path.basename(path)}`" not in tree.text[tree.root + "/docs/design/testing.md"]:
            yield f"docs/design/testing.md: lacks {os.path.basename(path)}"


def main():
    tree = Tree(os.path.abspath(sys.argv[1]), sys.argv[2])
    if len(tree.text) < 15 or len(tree.tests) < 100:
        sys.exit(f"{len(tree.text)} documents, {len(tree.tests)} tests: mend this check")
    sources = [path for folder in FOLDERS for ending in ("h", "service")
               for path in glob.glob(f"{tree.root}/{folder}/**/*.{ending}", recursive=True)]
    if len(sources) < 100 or len(tree.cases) < 1000:
        sys.exit(f"{len(sources)} headers and units, {len(tree.cases)} cases: mend this check")
    problems = 0
    for paths, checks in ((tree.text, (check_links, check_link_texts, check_headings,
                                       check_spans, check_tests, check_guarantees,
                                       check_symptoms, check_logged)),
                          (sources, (check_comments, check_numbers))):
        for path, check in itertools.product(paths, checks):
            for problem in check(tree, path):
                print(f"{os.path.relpath(path, tree.root)}: {problem}")
                problems += 1
    for problem in itertools.chain(check_policies(tree), check_vectors(tree),
                                   check_complaints(tree)):
        print(problem)
        problems += 1
    print(f"{len(tree.text)} documents, {len(sources)} headers and units, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
