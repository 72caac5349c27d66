# SPDX-License-Identifier: BSD-3-Clause
"""Quorums of services, and the program that is run for changes of services and backends."""
import os

import clients
from lab import VIP4, service
from netns import wait_for
from scenario import scenario
from scenarios_doctor import find

THREE = {f"web-{n}": 100 for n in (1, 2, 3)}
SCRIPT = """#!/bin/sh
[ "$WEIR_STATE" != refusing ] || { echo "no mail today"; echo "$*" >>%(folder)s/failed; exit 3; }
echo "$* from $WEIR_PREVIOUS, user $(id -u): $WEIR_REASON" >>%(folder)s/reported
"""


def prepare(lab):
    """Write the program, and a folder in which its user may write."""
    folder = os.path.join(lab.dir, "notified")
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    lab.extra["notify"] = {"command": [lab.write_program("notify", SCRIPT % {"folder": folder}), "lab"]}
    lab.write_config()
    return folder


def lines(folder, name="reported"):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def is_up(lab):
    return lab.api("service.show", service="web")[0]["up"]


@scenario(start=False, hosts=3, services=[
    service("web", 80, backends=THREE, vips=(VIP4,), quorum=2, hysteresis=1,
            check={"type": "tcp", "interval_ms": 100, "timeout_ms": 100})])
def notify_reports_quorum_and_backends(lab):
    """A program runs for each change of a service by its quorum, and of its backends, without privileges"""
    folder = prepare(lab)
    lab.start()
    wait_for("the service is up", lambda: is_up(lab) is True)
    wait_for("a report", lambda: any("service web up" in line for line in lines(folder)))
    assert all(", user 0:" not in line for line in lines(folder)), lines(folder)
    lab.kill_backend(1)
    wait_for("a failure", lambda: "lab backend web web-1 refusing" in lines(folder, "failed"))
    wait_for("its line in the log", lambda: "exit status 3: no mail today" in lab.programs["control"].tail())
    lab.kill_backend(2)  # 1 of 3: within the hysteresis
    wait_for("web-2 refusing", lambda: "lab backend web web-2 refusing" in lines(folder, "failed"))
    assert is_up(lab) is True
    lab.kill_backend(3)
    wait_for("the service is down", lambda: is_up(lab) is False)
    wait_for("its report", lambda: "lab service web down" in lines(folder)[-1].split(" from ")[0])
    assert lines(folder)[-1].endswith(": 0 of 3 backends eligible, quorum 2"), lines(folder)
    status = lab.api("status")
    assert status["level"] == "critical", status
    lab.start_nginx(3)  # 1 of 3: not up yet

    def both():
        status = lab.api("status")
        return status["below_quorum"] == status["panic"] == ["web"]
    wait_for("below the quorum, and in panic mode", both)
    find(lab, "services", "web", "fault", "fewer eligible backends than its quorum")
    for number in (1, 2):
        lab.start_nginx(number)
    wait_for("the service is up again", lambda: is_up(lab) is True)
    wait_for("its report", lambda: any(line.startswith("lab service web up from down") for line in lines(folder)))
    assert clients.curl_batch(lab.client, VIP4, 20).ok == 20
    lab.programs["control"].stop()
    before = len(lines(folder))
    lab.start_control()
    lab.wait_ready()
    wait_for("a report after the restart", lambda: any(
        line.startswith("lab service web up from unknown") for line in lines(folder)[before:]))
