#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the command lines in documents, --help and messages with the real parsers.

usage: check_command_lines.py SOURCE_ROOT PROGRAM...

PROGRAM is a path of weirctl, weir-dataplane and so on. Checks the code spans and blocks of every
*.md and README, the ExecStart lines of config/systemd, the output of --help, and quotes in messages
of the source (\\"weirctl ...\\").

weirctl is run as written, with an example for each placeholder, and without a daemon. It must exit
with status 3 or 0 (import: 0 or 1); the status is 2 if a word or an option is wrong. A code span
may name a command without its arguments. The other programs are run with --help after their
arguments, which they check first. Every option must be in the --help of its program.

Blocks of JSON are passed to config check. A complete configuration is passed unchanged. A port, or
settings of a service, are first inserted into a valid configuration. Scenarios are passed to
weir-sim check.
"""
import collections
import glob
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

# Placeholders of command lines. FILE, CONFIG and every *.json are replaced by a valid
# configuration.
EXAMPLES = {
    "ACTION": "drop", "ADDRESS": "10.0.0.2", "BACKEND": "web-1", "CLIENT": "192.0.2.7", "CONFIG": "weir.json",
    "DESTINATION": "198.51.100.10", "DIR": "folder", "DURATION": "60s", "FILE": "weir.json", "GROUP": "weir", "HOW": "scaled", "ORDER": "packets",
    "IN": "in", "INTERFACE": "lo", "K": "3", "KEY": "utilization", "LIST": "5,50", "M": "7",
    "MAC": "02:00:00:00:00:01", "MS": "100", "N": "4",
    "NAME": "web-1", "NOTES": "notes", "NUMBER": "0.5", "OUT": "out", "POLICY": "maglev", "PORT": "80",
    "PREFIX": "10.0.0.0/24", "PROTOCOL": "tcp", "REASON": "no_backend", "SCENARIO": "sre20", "SECONDS": "2",
    "SERVICE": "web", "SIGNAL": "QUIT", "SOURCE": "192.0.2.7", "USER": "nginx", "VIP": "198.51.100.10", "WEIGHT": "7", "WHAT": "rows",
    "WORD": "ready",
}
PLACEHOLDER = re.compile(r"(?<![0-9A-Za-z$-])[A-Z]+(?![0-9A-Za-z])")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
GENERIC = re.compile(r"\b(?:OBJECT|VERB|COMMAND)\b")
SOURCES = ("bpf", "config", "control", "dataplane", "policy", "scripts", "segment", "tests",
           "tools")
# Programs for developers: only their options are checked.
SCRIPTS = ("scripts/demo", "tests/e2e/run.py", "tests/perf/compare", "tests/perf/rig/run",
           "tests/packages/run", "tests/portability")
# Options of other programs, for code spans that contain only an option.
FOREIGN = {"--buildtype", "--pe", "--sysroot", "--tun-csum", "--tun-port", "--tun-remcsum", "--tun-type"}

# where: for example "docs/reference/cli.md:12". whole: whether the text has all arguments, not only
# the name of the command.
Command = collections.namedtuple("Command", "where text whole")


# --- finding the command lines --------------------------------------------------------------------

def line_of(text, place):
    return text.count("\n", 0, place) + 1


def in_blocks(name, text):
    """Yields the lines of fenced and indented blocks. If a line of a block has a prompt, the lines
    without a prompt are output and are skipped."""
    for block in re.finditer(r"^ *```[^\n]*\n(.*?)^ *```$|((?:^    [^\n]*\n)+)", text, re.M | re.S):
        lines = [line.strip() for line in (block[1] or block[2] or "").splitlines()]
        prompts = any(line.startswith("$ ") for line in lines)
        first = line_of(text, block.start(1 if block[2] is None else 2))
        for number, line in enumerate(lines, first):
            if not prompts or line.startswith("$ "):
                yield Command(f"{name}:{number}", line.removeprefix("$ "), True)


def json_blocks(root, path):
    """Yields (where, value) of every block of JSON. A block without braces contains the members of
    an object."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for block in re.finditer(r"^```json\n(.*?)^```$", text, re.M | re.S):
        where = f"{os.path.relpath(path, root)}:{line_of(text, block.start())}"
        content = block[1].strip()
        yield where, json.loads(content if content.startswith("{") else "{" + content + "}")


def in_spans(name, text):
    outside = re.sub(r"^ *```.*?^ *```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    for span in re.finditer(r"`([^`]+)`", outside):
        yield Command(f"{name}:{line_of(outside, span.start())}", " ".join(span[1].split()), False)


def in_document(root, path):
    name = os.path.relpath(path, root)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    yield from in_blocks(name, text)
    yield from in_spans(name, text)


def in_units(root):
    for path in glob.glob(root + "/config/systemd/*.service"):
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.startswith("ExecStart="):
                    command = line.strip().removeprefix("ExecStart=")
                    command = re.sub(r"\$\{(\w+)\}", r"\1", re.sub(r"\$\w+", "", command))
                    command = command.replace("%S", "/var/lib")  # like systemd
                    yield Command(f"{os.path.relpath(path, root)}:{number}", command, True)


def in_messages(root):
    """Yields the commands that messages quote, such as "see \\"weirctl %s --help\\""."""
    literal = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*')
    paths = [path for folder in SOURCES if folder != "tests"
             for path in glob.glob(f"{root}/{folder}/**/*.c", recursive=True)]
    for path in sorted(paths):
        name = os.path.relpath(path, root)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for found in literal.finditer(text):
            message = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found[0]))
            for quoted in re.findall(r'\\"(.*?)\\"', message):
                yield Command(f"{name}:{line_of(text, found.start())}",
                              quoted.replace("%s", "service"), True)


def in_helps(programs, objects):
    """Yields the usage lines and examples of every --help."""
    topics = [("weirctl", words) for words in [[], *objects]]
    topics += [(name, []) for name in programs if name != "weirctl"]
    topics += [("weir-sim", [word]) for word in ("run", "list", "check", "keys")]
    for name, words in topics:
        if name not in programs:
            continue
        where = " ".join([name, *words, "--help"])
        for line in help_of(programs[name], words).splitlines():
            line = re.sub(r"^\s*(?:[Uu]sage|[Ee]xamples?): *", "", line).strip()
            yield Command(where, line, True)


def help_of(path, words=()):
    return subprocess.run([path, *words, "--help"], check=True, text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


# --- expanding ----------------------------------------------------------------------------------

def without_optional(text):
    """Returns every form of a text with [optional] parts and A|B alternatives."""
    optional = re.search(r"\[([^\[\]:]*)\]", text)
    if optional:
        before, after = text[:optional.start()], text[optional.end():]
        return [*without_optional(before + after),
                *without_optional(before + optional[1] + after)]
    choices = []
    for word in text.replace("...", "").split(" "):
        before, equals, after = word.rpartition("=")
        choices.append([before + equals + each for each in after.split("|")])
    return [" ".join(choice) for choice in itertools.product(*choices)]


def fill_in(text):
    """Returns the text with an example for each placeholder. Raises KeyError if a placeholder is unknown."""
    text = PLACEHOLDER.sub(lambda m: EXAMPLES[m[0]], text)
    return re.sub(r"(?<![\w./-])[\w./-]+\.json\b", "weir.json", text)


# --- running ------------------------------------------------------------------------------------

class Checker:
    def __init__(self, root, programs, folder):
        self.root, self.programs = root, programs
        self.environment = dict(os.environ, WEIR_RUN_DIR=folder + "/none")
        self.folder = folder
        # A configuration without warnings, which --strict accepts.
        with open(root + "/config/two-armed.json", encoding="utf-8") as file:
            config = json.load(file)
        config["instance"]["hash_seed"] = "0x8f1d2c3b4a596877"
        with open(folder + "/weir.json", "w", encoding="utf-8") as file:
            json.dump(config, file)
        helps = help_of(programs["weirctl"]).split("Commands:\n")[1].split("\n\n")[0]
        commands = [re.split(r"  +", line.strip())[0].split() for line in helps.splitlines()]
        self.verbs = collections.defaultdict(set)
        for words in commands:
            self.verbs[words[0]].update(word for word in words[1:2] if word[0].isalpha())
        self.helps = {name: help_of(path) for name, path in programs.items()}
        for words in [[name] for name in self.verbs] + [words[:2] for words in commands]:
            self.helps["weirctl"] += help_of(
                programs["weirctl"], [w for w in words if w.islower() and w[0].isalpha()])
        if "weir-sim" in programs:
            self.helps["weir-sim"] += help_of(programs["weir-sim"], ["run"])
        self.scripts = {name: help_of(f"{root}/{name}") for name in SCRIPTS}
        self.counts = collections.Counter()
        self.problems = []
        self.results = {}  # of command lines

    def objects(self):
        return [[name] for name in sorted(self.verbs)] + [
            [name, verb] for name, verbs in sorted(self.verbs.items()) for verb in sorted(verbs)
            if verb.islower()]

    def problem(self, command, text, why):
        line = f"{command.where}: {text}: {why}"
        if line not in self.problems:
            self.problems.append(line)

    def run(self, name, words):
        """Run a command line. Documents repeat many of them: each is run once."""
        key = (name, *words)
        if key not in self.results:
            done = subprocess.run([self.programs[name], *words], cwd=self.folder, text=True,
                                  env=self.environment, timeout=60, check=False,
                                  stdin=subprocess.DEVNULL, capture_output=True)
            said = (done.stderr or done.stdout).strip().splitlines()
            self.results[key] = done.returncode, f"exit {done.returncode}: {said[0] if said else ''}"
        return self.results[key]

    def known_options(self, command, name, text, helps):
        for option in OPTION.findall(text):
            if not re.search(re.escape(option) + r"(?![\w-])", helps):
                self.problem(command, text, f"{name} --help has no {option}")

    def check_weirctl(self, command, text, words):
        if not command.whole and len(words) <= 2 and all(map(str.isalpha, words)):
            # The text contains only the name of a command
            code, why = self.run("weirctl", words + ["--help"])
            if code != 0:
                self.problem(command, text, why)
            return
        # The results of doctor and status depend on the machine, and init writes a file.
        if words[0] in ("doctor", "status") or words[:2] == ["config", "init"]:
            words = words + ["--help"]
        code, why = self.run("weirctl", words)
        # import may fail, because its input file does not exist in this test or has another format.
        if code not in ((0, 1) if words[:1] == ["import"] else (0, 3)):
            self.problem(command, text, why)

    def check_other(self, command, name, text, words):
        if name == "weir-agent" and words and not words[0].startswith("-") and \
                words[0] not in re.findall(r"^(?:Usage:|      ) weir-agent ([a-z-]+)",
                                           self.helps[name], re.M):
            self.problem(command, text, f"weir-agent has no command {words[0]}")
        if name == "weir-sim" and words[:1] == ["run"] and not words[1].endswith(".json") and \
                not os.path.exists(f"{self.root}/tools/sim/scenarios/{words[1]}.json"):
            self.problem(command, text, "there is no such scenario")
        if name == "weir-agent" and "--" in words:
            words = words[:words.index("--")]  # exec: the command line of another program follows
        takes_value = words and re.search(rf"{re.escape(words[-1])} [A-Z']", self.helps[name])
        if command.whole or not takes_value:  # otherwise the span is an option without its value
            code, why = self.run(name, words + ["--help"])
            if code != 0:
                self.problem(command, text, why)

    def check_program(self, command, name, text):
        """Run the command line of a program with --help. text: the text after the name of the
        program."""
        text = re.split(r" [|>;&#]| *$", text)[0]
        text = re.sub(r" *\[(?:OPTION|options)(?:\.\.\.)?\](?:\.\.\.)?", "", text)
        for form in [] if GENERIC.search(text) else without_optional(text):
            try:
                words = shlex.split(fill_in(form))
            except (KeyError, ValueError) as problem:
                self.problem(command, f"{name} {form}", f"what is {problem}? See EXAMPLES")
                continue
            self.counts[name] += 1
            if name == "weirctl":
                self.check_weirctl(command, f"{name} {form}", words)
            else:
                self.check_other(command, name, f"{name} {form}", words)
            self.known_options(command, name, f"{name} {form}", self.helps[name])

    def check_json(self, where, value):
        """Check a configuration, a part of a configuration, or a scenario."""
        with open(self.root + "/config/weir.json", encoding="utf-8") as file:
            whole = json.load(file)
        block = f"block-{self.counts['JSON']}.json"
        program, words = "weirctl", ["config", "check", block]
        if "duration_ms" in value:
            program, words, whole = "weir-sim", ["check", block], value
        elif "ports" in value:
            whole = value
        elif "device" in value:
            whole["ports"] = [value]
        elif "gcu" in value or "notify" in value:
            whole.update(value)
        else:
            whole["services"][0].update(value)
        with open(f"{self.folder}/{block}", "w", encoding="utf-8") as file:
            json.dump(whole, file)
        if program in self.programs:
            self.counts["JSON"] += 1
            code, why = self.run(program, words)
            if code != 0:
                self.problem(Command(where, "", True), "JSON", why)

    def check(self, command):
        first, _, rest = command.text.partition(" ")
        name = os.path.basename(first)
        if name in self.programs:
            if rest and rest[0] != " " and not first.endswith(":"):
                self.check_program(command, name, rest)
        elif first in self.scripts:
            self.counts[first] += 1
            self.known_options(command, first, command.text, self.scripts[first])
        elif command.whole:
            return
        elif first in self.verbs and re.match(r"[a-z]+(?: |$)", rest):
            self.check_program(command, "weirctl", command.text)
        elif first.startswith("--"):
            every = "".join([*self.helps.values(), *self.scripts.values()])
            if not OPTION.findall(first) or OPTION.findall(first)[0] not in FOREIGN:
                self.known_options(command, "any", first, every)


def main():
    root = os.path.abspath(sys.argv[1])
    programs = {os.path.basename(path): os.path.abspath(path) for path in sys.argv[2:]}
    documents = glob.glob(root + "/*.md") + glob.glob(root + "/docs/*/*.md")
    for source in SOURCES:
        documents += glob.glob(f"{root}/{source}/**/README*", recursive=True)
    with tempfile.TemporaryDirectory(prefix="weir-commands-") as folder:
        checker = Checker(root, programs, folder)
        for command in itertools.chain(
                *(in_document(root, path) for path in sorted(documents)), in_units(root),
                in_messages(root), in_helps(programs, checker.objects())):
            checker.check(command)
        for path in documents:
            for where, value in json_blocks(root, path):
                checker.check_json(where, value)
    for problem in checker.problems:
        print(problem)
    for name in [*programs, "JSON"]:
        if checker.counts[name] < (100 if name == "weirctl" else 3):
            print(f"only {checker.counts[name]} command lines of {name} found: mend this check")
            return 1
    print(f"{sum(checker.counts.values())} command lines, {len(checker.problems)} problems")
    return 1 if checker.problems else 0


if __name__ == "__main__":
    sys.exit(main())
