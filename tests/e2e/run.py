#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run end-to-end scenarios: run.py [--build DIR] [--list] [NAME...]

Each function of scenarios_*.py marked @scenario is one test with a lab of its own. NAME may be a
prefix or a pattern (drain*). Root only. Ends with "<n> passed, <n> failed"; exit 0 when none
failed, 1 when some did, 2 when the lab is broken or nothing matched.
"""
import argparse
import contextlib
import fnmatch
import os
import signal
import sys
import time
import traceback

import netns
import scenarios_balancing
import scenarios_control
import scenarios_limits
import scenarios_policies
import scenarios_ports
import scenarios_subsets
import scenarios_traffic
import scenarios_worker
from scenario import collect

MODULES = (scenarios_traffic, scenarios_balancing, scenarios_policies, scenarios_control,
           scenarios_limits, scenarios_ports, scenarios_subsets, scenarios_worker)
DEADLINE_S = 180


def select(patterns):
    everything = [s for module in MODULES for s in collect(module)]
    if not patterns:
        return everything
    chosen = [s for s in everything
              if any(fnmatch.fnmatch(s.name, p) or s.name.startswith(p) for p in patterns)]
    for pattern in patterns:
        if not any(fnmatch.fnmatch(s.name, pattern) or s.name.startswith(pattern)
                   for s in everything):
            print(f"no scenario is called {pattern}; --list shows them", file=sys.stderr)
            return []
    return chosen


@contextlib.contextmanager
def deadline(seconds):
    """A block that hangs is a failure, and its traceback tells where."""
    def expired(_number, _frame):
        raise TimeoutError(f"not done within {seconds} s")
    signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def run_one(item, build):
    """Returns None, or what went wrong: in a line, and all that is known."""
    lab = item.make_lab(build)
    try:
        with lab:
            try:
                with deadline(DEADLINE_S):
                    item.function(lab)
            except KeyboardInterrupt:
                raise
            except Exception as problem:  # reported while the lab still stands
                return in_a_line(problem), traceback.format_exc() + lab.report()
    except netns.LabError as problem:
        return in_a_line(problem), traceback.format_exc()
    return None


def in_a_line(problem):
    return traceback.format_exception_only(problem)[-1].strip().replace("\n", " ")


def main():
    parser = argparse.ArgumentParser(description="Run end-to-end scenarios.")
    parser.add_argument("--build", default="build", help="meson build directory (build)")
    parser.add_argument("--list", action="store_true", help="name the scenarios and end")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenario, prefix or pattern")
    options = parser.parse_args()
    chosen = select(options.names)
    if options.list:
        for item in chosen:
            print(f"{item.name:44} {item.summary}")
        return 0
    if not chosen:
        return 2
    if os.geteuid() != 0:
        print("run.py makes network namespaces: run it as root", file=sys.stderr)
        return 2
    netns.on_signals_raise()
    netns.sweep()
    failed = {}
    for number, item in enumerate(chosen, 1):
        print(f"[{number:2}/{len(chosen)}] {item.name:44} ", end="", flush=True)
        start = time.monotonic()
        problem = run_one(item, options.build)
        print(f"{'FAILED' if problem else 'ok':6} {time.monotonic() - start:6.1f} s", flush=True)
        if problem:
            failed[item.name], report = problem
            print("    " + report.replace("\n", "\n    "), flush=True)
    for name, why in failed.items():
        print(f"failed: {name}: {why}")
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt as interrupt:
        print(f"\ninterrupted {interrupt}: everything was removed", file=sys.stderr)
        sys.exit(130)
