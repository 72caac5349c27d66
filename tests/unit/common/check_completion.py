#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the bash completion of all programs except weirctl with their --help.

usage: check_completion.py COMPLETION SCENARIOS PROGRAM...

The completion must offer exactly the options and commands of the help, and the values that a
program accepts for an option. These values are read from the error message for an invalid value.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

# Options whose help lists a few words after "one of". The test must find at least these options.
WORDS = {"--log-level", "--mode", "--format", "--case", "--order", "--policy", "--headers",
         "--publish", "--family", "--protocol"}


class Completion:
    """A bash process, in which programs are functions that print a cached help. (Starting a program
    that links DPDK takes longer than the rest of this test.)"""

    def __init__(self, path, programs, folder):
        functions = []
        for program in programs:
            name = os.path.basename(program)
            functions.append(f"{name}() {{ cat '{folder}/{name} '\"$*\" 2>/dev/null ||"
                             f" {shlex.quote(os.path.abspath(program))} \"$@\"; }}")
        self.bash = subprocess.Popen(["bash", "-u"], text=True, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.say("\n".join([f"source {shlex.quote(path)}", *functions]))

    def say(self, text):
        self.bash.stdin.write(text + "\n")

    def __call__(self, name, *words, current=""):
        every = [name, *words, current]
        self.say(f"COMP_WORDS=({' '.join(map(shlex.quote, every))}); COMP_CWORD={len(every) - 1}\n"
                 "_weir; printf '%s\\n' \"${COMPREPLY[@]}\" END")
        self.bash.stdin.flush()
        return set(iter(lambda: self.bash.stdout.readline().strip() or "", "END")) - {""}


def help_of(folder, program, *words):
    path = f"{folder}/{' '.join([os.path.basename(program), *words, '--help'])}"
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            subprocess.run([program, *words, "--help"], check=True, stdout=file, timeout=60)
    with open(path, encoding="utf-8") as file:
        return file.read()


def refused(program, words, option):
    """Returns the words in a program's error message about an invalid value of an option."""
    done = subprocess.run([program, *words, option, "+"], text=True, capture_output=True, timeout=60,
                          check=False)
    named = re.search(r"is not known; use (.*)", done.stderr)
    return set(re.split(r", | or ", named[1])) if named else set()


def check(complete, program, words, text, problems):
    """Check the options and words that the completion offers at the end of a command line."""
    name = os.path.basename(program)
    where = " ".join([name, *words])
    options = set(re.findall(r"^  (?:    |-\w, )(--[a-z-]+)", text, re.M))
    offered = complete(name, *words, current="--")
    if offered != options:
        problems.append(f"{where} --: {offered ^ options}")
    found = set()
    for option, rest in re.findall(
            r"^  (?:    |-\w, )(--[a-z-]+) [A-Z]((?:.*\n)(?:  {8,}.*\n)*)", text, re.M):
        if " or " not in rest and option not in WORDS:
            continue
        offered, expected = complete(name, *words, option), refused(program, words, option)
        if expected and offered != expected:
            problems.append(f"{where} {option}: {offered ^ expected}")
        found.update({option} if expected else set())
    return found


def check_all(programs, complete, folder, scenarios, problems):
    found = set()
    for program in programs:
        name = os.path.basename(program)
        text = help_of(folder, program)
        listed = re.search(r"^Commands:\n(.*?)\n\n", text, re.M | re.S)
        commands = re.findall(r"^  ([a-z-]+)", listed[1], re.M) if listed else []
        if commands and complete(name) != set(commands):
            problems.append(f"{name}: commands: {complete(name)}")
        found |= check(complete, program, (), text, problems)
        for command in commands if name == "weir-sim" else ():
            text = help_of(folder, program, command)
            found |= check(complete, program, (command,), text, problems)
        if name == "weir-sim":
            names = {each[:-5] for each in os.listdir(scenarios) if each.endswith(".json")}
            offered = complete(name, "run", "--dir", scenarios)
            problems += [] if names <= offered else [f"{name} run: lacks {names - offered}"]
    return found


def main():
    scenarios, programs = sys.argv[2], sys.argv[3:]
    problems = []
    with tempfile.TemporaryDirectory(prefix="weir-completion-") as folder:
        complete = Completion(sys.argv[1], programs, folder)
        found = check_all(programs, complete, folder, scenarios, problems)
        complete.bash.communicate(timeout=60)
    if not WORDS <= found:
        problems.append(f"no words were compared for {WORDS - found}: mend this check")
    with open(sys.argv[1], encoding="utf-8") as file:
        completed = set(re.search(r"^complete -F _weir (.*)$", file.read(), re.M)[1].split())
    if completed != {os.path.basename(program) for program in programs}:
        problems.append(f"complete: {completed}")
    print("\n".join(problems) or f"{len(programs)} programs")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
