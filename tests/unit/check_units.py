#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The systemd units keep trying: none gives up after some failed starts. They stop in order.

usage: check_units.py SOURCE_ROOT

systemd allows five starts in ten seconds unless told otherwise. With a RestartSec of 200 ms these
are used up within a second, and the unit stays failed until somebody starts it by hand.

At shutdown the agent drains its backend: until it has ended, the decapsulator must go on, so it
starts before it.

weir-control may be restarted at any time, by an upgrade, too: that must not start a dataplane that
somebody has stopped. The dataplane wants weir-control, without which it has no tables.

To signal a process that has changed its user takes CAP_KILL, which no unit has: what a reload runs may
do so only outside of the sandbox (+).
"""
import configparser
import glob
import sys


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
            failed.append(f"{path}: systemd gives up after five starts in ten seconds")
        reload = unit.get("Service", "ExecReload", fallback="")
        if "kill" in reload and not reload.startswith("+"):
            failed.append(f"{path}: a reload may not signal the process")
        if path.endswith("/weir-control.service") and \
                "weir-dataplane.service" in unit.get("Unit", "Wants", fallback="").split():
            failed.append(f"{path}: each start of it starts a dataplane that was stopped")
        if path.endswith("/weir-agent.service") and \
                "weir-decap.service" not in unit.get("Unit", "After", fallback="").split():
            failed.append(f"{path}: stops together with weir-decap.service, which its drain needs")
    print("\n".join(failed) or f"{len(paths)} units")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
