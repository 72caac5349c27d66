#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random operations on a balancer under traffic, compared with a model after each of them.

usage: run.py [--build DIR] [--seed N] [--operations N] [--seconds N]

weir-dataplane with two workers and weir-control are real, in network namespaces. The seed
determines the operations (operations.py). model.py determines the expected state afterwards:
backends, states, weights, which backends get new flows, and where every flow goes. Checked after each
operation:

  - weirctl's answers agree with the model
  - packets of existing flows are sent to their backend (S6), also after a process was killed (S3)
  - new flows go to backends that the model allows
  - every packet was sent once; packets in = out + dropped for a named reason

A failure prints the seed, the number of the operation and the last operations before it; all
operations are written to a file in /tmp, because operations after a kill depend on its timing. Root
only. The last line is "1 passed, 0 failed" or "0 passed, 1 failed".
"""
import argparse
import collections
import os
import random
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import lab as e2e  # noqa: E402
import netns  # noqa: E402
import scenarios_ports  # noqa: E402
from checks import Checks  # noqa: E402
from model import CHECK_PORT, Model  # noqa: E402
from operations import Operations  # noqa: E402
from wire import Hosts, Wire  # noqa: E402

HOSTS = 6
DAY_MS = 86_400_000
FLOWS = {"flows_per_worker": 262_144,
         "timeout_ms": {"established": DAY_MS, "udp": DAY_MS, "closing": 1000}}


class OperationsLab(e2e.Lab):
    """The lab, with backends that only answer health checks."""

    def start_backends(self):
        self.listeners = Hosts(self, CHECK_PORT)
        # Sent packets are captured on the link; no backend decapsulates them.
        self.net.sysctl(net__ipv4__ip_forward=0)

    def attach_tap(self):
        self.lb.ip("link", "set", "tap0", "address", "02:00:00:00:00:b1", "master", "br1", "up")


def first_services(chance):
    model = Model(range(1, HOSTS + 1))
    for number in range(4):
        model.add_service(number, sorted(chance.sample(range(1, HOSTS + 1), 3 + number % 3)))
    return model


def run(options, seed, done):
    chance = random.Random(seed)
    model = first_services(chance)
    workers = {"cores": [0, 1], "idle": "yield", "steal": False}
    lab = OperationsLab(options.build, model.configuration(), lb_mtu=1500, workers=workers,
                        hosts=HOSTS, config={"flow_table": FLOWS})
    with lab:
        try:
            scenarios_ports.start_with_tap(lab, 2)
            wire = Wire(lab.net, "lb0", scenarios_ports.STATIC_MAC)
            checks = Checks(lab, wire, model, chance)
            operations = Operations(lab, checks, chance)
            end = time.monotonic() + options.seconds
            while len(done) < options.operations and time.monotonic() < end:
                done.append("checks of the beginning" if not done else operations.choose())
                if len(done) > 1:
                    operations.perform(done)
                checks.after_operation(len(done))
            checks.all_flows()
        except BaseException:
            if options.verbose:
                print(lab.report())
            raise
        finally:
            if hasattr(lab, "listeners"):
                lab.listeners.close()
    return checks


def main():
    parser = argparse.ArgumentParser(description="Random operations against a model.")
    parser.add_argument("--build", default="build", help="meson build directory (build)")
    parser.add_argument("--seed", type=int, help="seed of the operations (default: random; it is printed)")
    parser.add_argument("--operations", type=int, default=sys.maxsize, metavar="N")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="N")
    parser.add_argument("--verbose", action="store_true", help="print the logs if the test fails")
    options = parser.parse_args()
    if options.operations == sys.maxsize and options.seconds == float("inf"):
        options.seconds = 60
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    netns.on_signals_raise()
    netns.sweep()
    done, began = [], time.monotonic()
    print(f"seed {seed}", flush=True)
    try:
        checks = run(options, seed, done)
    except Exception:
        traceback.print_exc()
        history = f"/tmp/weir-operations-{seed}.txt"
        with open(history, "w", encoding="utf-8") as file:
            file.writelines(f"{number:5} {text}\n" for number, text in enumerate(done, 1))
        print(f"last operations (all: {history}):")
        for number, text in list(enumerate(done, 1))[-12:]:
            print(f"  {number:5} {text}")
        print(f"seed {seed}, operation {len(done)}; again: tests/operations/run.py --seed {seed} "
              f"--operations {len(done)}")
        print("0 passed, 1 failed")
        return 1
    kinds = collections.Counter(text.split()[0].rstrip(":") for text in done[1:])
    print(f"seed {seed}: {len(done)} operations in {time.monotonic() - began:.0f} s, "
          f"{checks.packets} packets, {checks.created} flows")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
