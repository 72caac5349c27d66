#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run end-to-end scenarios: run.py [--build DIR] [--jobs N] [--short] [--list] [NAME...]

Each function of scenarios_*.py marked @scenario is one test with its own lab; several run
concurrently. NAME can be a prefix or a pattern (drain*). Needs root. The last line is "<n>
passed, <n> failed". Exits with 0 if no test failed, 1 if a test failed, 2 if the lab does not work
or no NAME matches.
"""
import argparse
import contextlib
import fnmatch
import json
import os
import signal
import sys
import tempfile
import time
import traceback

import netns
import scenarios_access
import scenarios_affinity
import scenarios_agents
import scenarios_backends
import scenarios_backups
import scenarios_balancing
import scenarios_binds
import scenarios_buckets
import scenarios_canary
import scenarios_capture
import scenarios_capture_cli
import scenarios_checks
import scenarios_control
import scenarios_data_path
import scenarios_datagrams
import scenarios_deaths
import scenarios_doctor
import scenarios_doctor_files
import scenarios_doctor_routes
import scenarios_exec
import scenarios_flows
import scenarios_forwarding
import scenarios_hostile
import scenarios_import
import scenarios_lame_duck
import scenarios_limits
import scenarios_logs
import scenarios_metrics
import scenarios_mtu
import scenarios_notify
import scenarios_other_flows
import scenarios_page
import scenarios_policies
import scenarios_ports
import scenarios_probes
import scenarios_prometheus
import scenarios_protocols
import scenarios_reported
import scenarios_restart
import scenarios_reuse
import scenarios_rss
import scenarios_server_ends
import scenarios_shared_limit
import scenarios_shed
import scenarios_slow_start
import scenarios_status
import scenarios_steals
import scenarios_subsets
import scenarios_tcp
import scenarios_telemetry
import scenarios_traffic
import scenarios_words
import scenarios_worker
from scenario import collect

MODULES = (scenarios_traffic, scenarios_balancing, scenarios_backups, scenarios_backends, scenarios_binds, scenarios_policies, scenarios_affinity,
           scenarios_datagrams,
           scenarios_checks, scenarios_protocols, scenarios_exec, scenarios_data_path, scenarios_doctor, scenarios_doctor_files,
           scenarios_doctor_routes, scenarios_control,
           scenarios_status, scenarios_flows, scenarios_forwarding, scenarios_capture_cli, scenarios_hostile, scenarios_import,
           scenarios_limits, scenarios_logs, scenarios_mtu, scenarios_notify, scenarios_other_flows, scenarios_ports, scenarios_subsets,
           scenarios_worker,
           scenarios_access, scenarios_agents, scenarios_restart, scenarios_words, scenarios_reported,
           scenarios_lame_duck, scenarios_deaths, scenarios_server_ends,
           scenarios_shared_limit, scenarios_slow_start, scenarios_steals, scenarios_buckets, scenarios_rss, scenarios_reuse, scenarios_capture,
           scenarios_telemetry, scenarios_canary, scenarios_shed, scenarios_tcp,
           scenarios_probes,
           scenarios_metrics, scenarios_page, scenarios_prometheus)
# More than one scenario per CPU, because scenarios mostly wait for programs to start, for health
# checks and for timeouts.
JOBS = 2 * os.cpu_count()


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
    """Raises TimeoutError in a block that takes longer. The traceback shows where the block was."""
    def expired(_number, _frame):
        raise TimeoutError(f"not done within {seconds} s")
    signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def run_one(item, build, place):
    """Returns None, or the failure: one line, and a full report."""
    lab = item.make_lab(build, place)
    try:
        with lab:
            try:
                with deadline(round(item.seconds * netns.PATIENCE)):
                    item.function(lab)
            except KeyboardInterrupt:
                raise
            except Exception as problem:  # reported while the lab still exists
                return in_a_line(problem), traceback.format_exc() + lab.report()
    except netns.LabError as problem:
        return in_a_line(problem), traceback.format_exc()
    return None


def in_a_line(problem):
    return traceback.format_exception_only(problem)[-1].strip().replace("\n", " ")


class Running:
    """A scenario in a separate process. The lab's names contain the pid of this process."""

    def __init__(self, item, build, place):
        self.item, self.place, self.start = item, place, time.monotonic()
        self.output, self.result = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        sys.stdout.flush()
        sys.stderr.flush()
        # Block signals, so that no signal makes the child run the `finally` blocks of the parent.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, netns.SIGNALS)
        self.pid = os.fork()
        if self.pid == 0:
            self.run(build, unblocked)
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def run(self, build, unblocked):
        """In the child: writes [line, report] or null to self.result, unless the child was
        killed."""
        status = 1
        try:
            netns.ended_with_parent(signal.SIGTERM)
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            json.dump(run_one(self.item, build, self.place), self.result)
            self.result.flush()
            status = 0
        except KeyboardInterrupt:
            pass
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def ended(self):
        """Returns whether the process has exited. If so, sets self.seconds, self.cpu_seconds, self.problem."""
        pid, status, used = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        self.seconds = time.monotonic() - self.start
        self.cpu_seconds = used.ru_utime + used.ru_stime
        if status == 0:
            self.result.seek(0)
            self.problem = json.load(self.result)
        else:
            why = f"the scenario's process ended (wait status {status})"
            self.problem = [why, why]
        return True

    def text(self):
        self.output.seek(0)
        return self.output.read()


def run_all(chosen, build, jobs):
    """Run `jobs` scenarios at a time, then the scenarios that run in pairs, then the scenarios
    that run alone. Yields each finished scenario. Stops the running scenarios before it returns or
    raises an exception."""
    running = []
    try:
        for at_once in (None, 2, 1):
            items = [item for item in chosen if item.at_once == at_once]
            most = min(at_once or jobs, jobs)
            while items or running:
                while items and len(running) < most:
                    place = min(set(range(most)) - {each.place for each in running})
                    running.append(Running(items.pop(0), build, place))
                for each in [each for each in running if each.ended()]:
                    running.remove(each)
                    yield each
                time.sleep(0.02)
    finally:
        with netns.undisturbed():
            for each in running:
                os.kill(each.pid, signal.SIGTERM)
            for each in running:
                os.waitpid(each.pid, 0)


def main():
    parser = argparse.ArgumentParser(description="Run end-to-end scenarios.")
    parser.add_argument("--build", default="build", help="meson build directory (build)")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N",
                        help=f"maximum number of scenarios at once; fewer for those that measure time ({JOBS})")
    parser.add_argument("--short", action="store_true", help="run only the scenarios of the short form of scripts/test")
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios and exit")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenario, prefix or pattern")
    options = parser.parse_args()
    chosen = [item for item in select(options.names) if item.short or not options.short]
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
    jobs = 1 if len(chosen) == 1 else options.jobs
    for number, done in enumerate(run_all(chosen, options.build, jobs), 1):
        word = "FAILED" if done.problem else "ok"
        print(f"[{number:2}/{len(chosen)}] {done.item.name:44} {done.text()}{word:6} "
              f"{done.seconds:6.1f} s {done.cpu_seconds:6.1f} s of CPU", flush=True)
        if done.problem:
            failed[done.item.name], report = done.problem
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
