#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Packet scenarios on weir-pcap. Last line: '<n> passed, <n> failed'.

    tests/packets/run.py --weir-pcap BUILD/tools/pcap/weir-pcap [--few-drivers MODULE] [NAME]...

NAME is a part of a scenario's name; without NAME, all scenarios run. MODULE is BUILD/tests/packets/few_drivers.so.
"""
import argparse
import concurrent.futures
import ctypes
import os
import signal
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lab
import malformed
import scenarios_choose
import scenarios_datagrams
import scenarios_files
import scenarios_forged
import scenarios_forward
import scenarios_fragments
import scenarios_icmp
import scenarios_modes
import scenarios_move
import scenarios_ports
import scenarios_reload

PR_SET_PDEATHSIG = 1
MODULES = [
    scenarios_forward,
    scenarios_modes,
    scenarios_choose,
    scenarios_datagrams,
    scenarios_forged,
    scenarios_move,
    scenarios_reload,
    scenarios_icmp,
    scenarios_fragments,
    scenarios_ports,
    scenarios_files,
    malformed,
]


def collect(names):
    """Returns (name, function) of every requested scenario, in the order of the files."""
    found = []
    for module in MODULES:
        for name, function in vars(module).items():
            full = f"{module.__name__}.{name[5:]}"
            if name.startswith("test_") and (not names or any(part in full for part in names)):
                found.append((full, function))
    return found


def run_one(program, few_drivers, name, function):
    """Returns (text, passed, failed). A scenario can return the number of its cases; otherwise it
    is one case."""
    place = lab.Lab(program, few_drivers)
    try:
        counts = function(place)
    except lab.Failure as failure:
        return f"FAILED {name}: {failure}", 0, 1
    except Exception:  # any error fails this scenario, but does not end the run
        return f"FAILED {name}:\n{traceback.format_exc()}", 0, 1
    finally:
        place.close()
    passed, failed = counts if counts else (1, 0)
    word = "ok" if failed == 0 else "FAILED"
    return f"{word} {name}" + (f" ({passed} cases)" if counts else ""), passed, failed


def end_with_parent():
    """Make the kernel kill this process when its parent exits."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir-pcap", required=True, help="program to test")
    parser.add_argument("--few-drivers", help="library to preload, so that DPDK starts faster")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.weir_pcap)
    few_drivers = arguments.few_drivers and os.path.abspath(arguments.few_drivers)
    passed = failed = 0
    scenarios = collect(arguments.names)
    if not scenarios:
        print("no such scenario")
        failed = 1
    # More processes than CPUs, because DPDK waits for 0.1 s when it starts.
    with concurrent.futures.ProcessPoolExecutor(2 * os.cpu_count(), initializer=end_with_parent) as pool:
        running = [pool.submit(run_one, program, few_drivers, *scenario) for scenario in scenarios]
        for result in running:
            text, ok, bad = result.result()
            print(text, flush=True)
            passed += ok
            failed += bad
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
