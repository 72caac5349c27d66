#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Soak test: under normal load for hours, no process of Weir may grow.

usage: run.py [--build DIR] [--minutes N] [--out DIR] [--command FILE]

Runs real traffic (wrk, curl, downloads, SYN floods) in the lab of the end-to-end scenarios. The
backends run weir-agent, and stealing between backends is enabled. Meanwhile the test scrapes the
metrics, polls the page, runs the commands of commands.txt one after the other, reloads the
configuration, changes weights and drains backends. Every 10 s it writes memory, descriptors,
threads and CPU time of each process of Weir to OUT/processes.csv, and the dataplane's counters to
OUT/counters.csv. At the end it plots memory and descriptors to OUT/*.svg.

Fails if a process exits, a request fails, a command has a wrong exit status, or a process grows in
the second half of the run: memory (RSS) by more than 2 % and 512 KiB, or descriptors or threads by
more than 2, by linear regression. Must run as root; takes 60 minutes by default. The last line is
"1 passed, 0 failed" or "0 passed, 1 failed".
"""
import argparse
import os
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import lab as e2e  # noqa: E402
import netns  # noqa: E402
from agents import Agents  # noqa: E402
from load import Load  # noqa: E402
from samples import Samples  # noqa: E402

SAMPLE_SECONDS = 10
AGENT = {"port": 4777, "interval_ms": 500}


def services():
    return [e2e.web(agent=AGENT, steal={}, drain={"at_deadline": "keep"}), e2e.lines(), e2e.echo()]


def soak(options):
    lab = e2e.Lab(options.build, services(), config={"flow_table": {"flows_per_worker": 16384}})
    with lab:
        agents = Agents(lab, "--port", "80", "--allow-steal")
        lab.extra.update(Agents.configuration(lab))
        lab.write_config()
        agents.start_all()
        lab.start()
        lab.start_metrics()
        agents.wait_answered()
        samples = Samples(lab, options.out)
        load = Load(lab, options.command)
        began = time.monotonic()
        end = began + options.minutes * 60
        with load:
            while time.monotonic() < end:
                samples.take(time.monotonic() - began)
                for name in samples.programs():
                    assert lab.programs[name].alive(), f"{name} ended:\n{lab.programs[name].tail()}"
                load.work_until(min(end, time.monotonic() + SAMPLE_SECONDS))
        samples.take(time.monotonic() - began)
        samples.draw()
        print(load.summary())
        problems = load.problems() + samples.growth()
        if problems and options.verbose:
            print(lab.report())
    return problems


def main():
    parser = argparse.ArgumentParser(description="Run Weir under ordinary load for hours.")
    parser.add_argument("--build", default="build", help="meson build directory (build)")
    parser.add_argument("--minutes", type=float, default=60, metavar="N")
    parser.add_argument("--out", metavar="DIR", help="directory for tables and plots (default: a new directory in /tmp)")
    parser.add_argument("--command", default=os.path.join(HERE, "commands.txt"), metavar="FILE",
                        help="file with the commands to run, one per line (tests/soak/commands.txt)")
    parser.add_argument("--verbose", action="store_true", help="print the logs if the test fails")
    options = parser.parse_args()
    options.out = options.out or tempfile.mkdtemp(prefix="weir-soak-")
    os.makedirs(options.out, exist_ok=True)
    netns.on_signals_raise()
    netns.sweep()
    try:
        problems = soak(options)
    except Exception:
        traceback.print_exc()
        problems = ["it did not run to its end"]
    for problem in problems:
        print(f"failed: {problem}")
    print(f"tables and plots: {options.out}")
    print("0 passed, 1 failed" if problems else "1 passed, 0 failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
