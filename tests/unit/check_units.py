#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that systemd restarts the units without limit after failed starts, and stops them in order.

usage: check_units.py SOURCE_ROOT

By default systemd allows five starts in ten seconds. With a RestartSec of 200 ms five starts take
less than a second, and the unit stays failed until an operator starts it.

At shutdown the agent drains its backend: the decapsulator must run until the drain has ended, so it
starts before the agent.

weir-control can be restarted at any time, also by an upgrade: this must not start a dataplane that an
operator has stopped. The unit of the dataplane has Wants=weir-control, because the dataplane gets its
tables from weir-control.

Sending a signal to a process that has changed its user requires CAP_KILL, which no unit has.
Therefore the reload command must run outside of the sandbox (+).

A process can open a socket of a family only if RestrictAddressFamilies of its unit has the family.
"""
import configparser
import glob
import re
import sys

# The folder of the daemon of a unit. weir-dataplane opens most of its sockets in DPDK.
DAEMONS = {"weir-control.service": "control/daemon", "weir-agent.service": "control/agent"}


def families(folder):
    """Returns the address families of all sockets that the code in a folder opens."""
    found = set()
    for path in glob.glob(folder + "/**/*.c", recursive=True):
        with open(path, encoding="utf-8") as file:
            found |= set(re.findall(r"\bsocket\((AF_\w+)", file.read()))
    return found


def main(root):
    paths = sorted(glob.glob(root + "/config/systemd/*.service"))
    failed = [] if paths else ["there are no units"]
    for path in paths:
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str
        unit.read(path, encoding="utf-8")
        if unit.get("Service", "Restart", fallback="no") != "always":
            failed.append(f"{path}: Restart is not always")
        if unit.get("Unit", "StartLimitIntervalSec", fallback="10s") != "0":
            failed.append(f"{path}: systemd stops restarting the unit after five starts in ten seconds")
        reload = unit.get("Service", "ExecReload", fallback="")
        if "kill" in reload and not reload.startswith("+"):
            failed.append(f"{path}: a reload may not signal the process")
        if path.endswith("/weir-control.service") and \
                "weir-dataplane.service" in unit.get("Unit", "Wants", fallback="").split():
            failed.append(f"{path}: each start of it starts a dataplane that was stopped")
        if path.endswith("/weir-agent.service") and \
                "weir-decap.service" not in unit.get("Unit", "After", fallback="").split():
            failed.append(f"{path}: stops together with weir-decap.service, which its drain needs")
        folder = DAEMONS.get(path.rpartition("/")[2])
        allowed = unit.get("Service", "RestrictAddressFamilies", fallback="").split()
        for family in sorted(families(f"{root}/{folder}") - set(allowed)) if folder else []:
            failed.append(f"{path}: {folder} opens sockets of {family}, which the unit forbids")
    print("\n".join(failed) or f"{len(paths)} units")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
