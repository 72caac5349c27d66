#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-sim run from the command line: exit codes, messages, and a comparison with
docs/design/simulator.md.

check_cli.py WEIR-SIM SCENARIOS BROKEN DOC
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

PROGRAM, SCENARIOS, BROKEN, DOC = sys.argv[1:5]
SMALL = {
    "name": "small", "title": "A small one", "seeds": 2, "duration_ms": 2000,
    "clients": {"count": 2, "load_percent": 30}, "backends": {"count": 3},
    "cost": {"mean_ms": 2},
    "variants": [{"name": "a"}, {"name": "b", "policy": {"name": "random"}}],
    "plots": [{"plot": "spread"}, {"plot": "cpu"}],
}
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def run(*arguments, **keywords):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False,
                          timeout=120, **keywords)


def expect(condition, *what):
    if not condition:
        raise AssertionError(what)


def with_small(function):
    with tempfile.TemporaryDirectory(prefix="weir-sim-") as directory:
        path = pathlib.Path(directory) / "small.json"
        path.write_text(json.dumps(SMALL), encoding="utf-8")
        function(path)


@test
def exit_codes_are_0_1_2():
    expect(run("--help").returncode == 0)
    expect(run("list", "--dir", SCENARIOS).returncode == 0)
    done = run("check", f"{BROKEN}/missing.json")
    expect(done.returncode == 1, done)
    expect('missing.json:1:1: "duration_ms" is missing; add it' in done.stderr, done.stderr)
    done = run("run", "no-such-scenario", "--dir", SCENARIOS)
    expect(done.returncode == 1 and "No such file" in done.stderr, done)
    done = run("run")
    expect(done.returncode == 2 and "Try: weir-sim run --help" in done.stderr, done)
    expect("Try: weir-sim run --help" in run("run", "--seed", "x").stderr)
    expect("Try: weir-sim --help" in run("rnu").stderr)


@test
def same_seed_prints_the_same_bytes():
    def body(path):
        first = run("run", str(path), "--seed", "7", "--json")
        second = run("run", str(path), "--seed", "7", "--json", "--jobs", "1")
        other = run("run", str(path), "--seed", "8", "--json")
        expect(first.returncode == 0, first)
        expect(first.stdout == second.stdout)
        expect(first.stdout != other.stdout)
        expect(json.loads(first.stdout)["seeds"] == 1)
    with_small(body)


@test
def out_has_tables_scripts_and_pictures():
    def body(path):
        out = path.parent / "out"
        done = run("run", str(path), "--out", str(out))
        expect(done.returncode == 0, done)
        names = sorted(os.listdir(out))
        expect(names == ["backends.csv", "series.csv", "small-cpu.gp", "small-cpu.svg",
                         "small-spread.gp", "small-spread.svg", "summary.csv"], names)
        expect("A small one" in done.stdout)
        # Standard error is not a terminal, so no progress bar is printed.
        expect(done.stderr == "", done.stderr)
    with_small(body)


@test
def without_gnuplot_it_reports_the_missing_program():
    def body(path):
        out = path.parent / "out"
        empty = path.parent / "empty"
        empty.mkdir()
        done = run("run", str(path), "--out", str(out), env={"PATH": str(empty)})
        expect(done.returncode == 1 and "gnuplot-nox" in done.stderr, done)
        expect((out / "summary.csv").exists() and (out / "small-cpu.gp").exists())
        done = run("run", str(path), "--out", str(out), "--no-plots", env={"PATH": str(empty)})
        expect(done.returncode == 0, done)
    with_small(body)


@test
def gnuplot_without_a_status_is_reported():
    def body(path):
        done = run("run", str(path), "--out", str(path.parent / "out"),
                   preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        expect(done.returncode == 1 and "gnuplot: No child processes" in done.stderr, done)
    with_small(body)


@test
def impossible_directory_is_refused_before_the_work():
    done = run("run", "fleet", "--dir", SCENARIOS, "--out", "/proc/no/such")
    expect(done.returncode == 1 and "/proc/no/such" in done.stderr, done)


def document():
    return pathlib.Path(DOC).read_text(encoding="utf-8")


@test
def document_has_every_key_as_printed():
    rows = {}
    for line in document().splitlines():
        match = re.match(r"\| `([^`]+)` \| (.*?) \| (.*?) \| (.*) \|$", line)
        if match:
            rows[match[1]] = match.groups()[1:]
    keys = [line.split("\t") for line in run("keys").stdout.splitlines()]
    expect(len(keys) > 80)
    for path, span, default, meaning in keys:
        if path.startswith("events[].policy."):
            path = None  # described with the keys of `policy`
        elif path.startswith("wait."):
            path = None  # described with the keys of `cost`
        if path is None:
            continue
        wanted = (span, default if default == "required" else f"`{default}`", meaning)
        expect(rows.pop(path, None) == wanted, path, wanted)


@test
def document_names_every_scenario_metric_and_plot():
    text = document()
    for path in pathlib.Path(SCENARIOS).glob("*.json"):
        expect(f"| `{path.stem}` |" in text, path.stem)
    def body(path):
        metrics = json.loads(run("run", str(path), "--json").stdout)
        for name in metrics["variants"][0]["windows"][0]["metrics"]:
            expect(f"| `{name}` |" in text, name)
    with_small(body)
    plots = next(line for line in run("keys").stdout.splitlines()
                 if line.startswith("plots[].plot\t"))
    for name in plots.split("\t")[1].split(", "):
        expect(f"| `{name}` |" in text, name)


@test
def list_has_a_short_line_for_each_scenario():
    lines = run("list", "--dir", SCENARIOS).stdout.splitlines()
    expect(len(lines) == len(list(pathlib.Path(SCENARIOS).glob("*.json"))))
    for line in lines:
        expect(re.fullmatch(r"[a-z0-9_]+ +\S.*", line) and len(line) < 100, line)
        expect(line[26] == " " and line[27] != " ", line)  # values are aligned


@test
def plots_of_the_documents_have_their_command():
    documents = pathlib.Path(DOC).parent.parent
    shown = set()
    for path in documents.glob("*/*.md"):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"!\[[^]]+\]\(\.\./plots/(\w+)-(\w+)\.svg\)(\n\n.*)?", text):
            scenario, plot, after = match.groups()
            expect(after and f"`weir-sim run {scenario} --out results`" in after, match[0])
            with open(f"{SCENARIOS}/{scenario}.json", encoding="utf-8") as file:
                wishes = [wish["plot"] for wish in json.load(file)["plots"]]
            expect(plot in wishes, scenario, plot)
            shown.add(f"{scenario}-{plot}.svg")
    expect(shown == set(os.listdir(documents / "plots")), shown)


def main():
    failed = 0
    for function in TESTS:
        try:
            function()
            print(f"ok   {function.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAIL {function.__name__}: {error}")
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
