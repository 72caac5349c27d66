# SPDX-License-Identifier: BSD-3-Clause
"""Health checks by programs."""
import os
import signal

import clients
from lab import VIP4, service
from netns import wait_for
from scenario import scenario

BACKENDS = {"web-1": 100, "web-2": 100}
# Fails while a file with the name of the backend exists. Another file has the exit status.
SCRIPT = """#!/bin/sh
[ "$2" = "$WEIR_ADDRESS" ] && [ "$WEIR_SERVICE" = web ] && [ "$WEIR_PORT" = 80 ] || { echo "called as $*"; exit 9; }
echo "$WEIR_BACKEND, user $(id -u)"
[ ! -e "$1/$WEIR_BACKEND.slow" ] || sleep 60
read -r status <"$1/$WEIR_BACKEND" || exit 0
exit "$status"
"""


def prepare(lab, **keys):
    """Write the program, and a folder for exit statuses. Returns a function that sets that of a backend."""
    folder = os.path.join(lab.dir, "statuses")
    os.mkdir(folder)
    lab.services[0]["health_check"] = {
        "type": "exec", "command": [lab.write_program("check", SCRIPT), folder, "{address}"], "interval_ms": 500, "timeout_ms": 500, "rise": 1,
        "fall": 2, **keys}
    lab.write_config()

    def set_status(backend, status, name="%s"):
        part = os.path.join(folder, ".part")
        with open(part, "w", encoding="ascii") as file:
            file.write(f"{status}\n")
        os.rename(part, os.path.join(folder, name % backend))
    set_status("web-1", 0)
    set_status("web-2", 0)
    return folder, set_status


def rows(lab):
    return {row["backend"]: (row["health"], (row["last"] or {}).get("detail")) for row in lab.api("health.show")}


def wait_state(lab, backend, state, text):
    def look():
        now = rows(lab)
        assert now[backend][0] == state and text in (now[backend][1] or ""), now
        return True
    wait_for(f"{backend} {state}: {text}", look, 15)


def helper_of(lab):
    """Returns the process that runs programs."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii") as name, open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                parent = int(stat.read().rsplit(")", 1)[1].split()[1])
                if name.read() == "weir-programs\n" and parent == lab.programs["control"].pid:
                    return int(pid)
        except OSError:
            pass
    raise AssertionError("no process weir-programs")


@scenario(start=False, hosts=2, services=[service("web", 80, backends=BACKENDS, vips=(VIP4,))])
def checks_by_a_program(lab):
    """A program without privileges checks the backends: exit statuses, a timeout, and the end of its process"""
    folder, set_status = prepare(lab)
    lab.start()
    for name in BACKENDS:
        wait_state(lab, name, "healthy", f"exit status 0: {name}, user ")
        assert not rows(lab)[name][1].endswith("user 0"), rows(lab)
    set_status("web-1", 2)
    wait_state(lab, "web-1", "refusing", "exit status 2: web-1")
    assert rows(lab)["web-2"][0] == "healthy"
    before = lab.api("backend.show", backend="web-2")[0]["new_flows"]
    assert clients.curl_batch(lab.client, VIP4, 20).ok == 20
    wait_for("20 flows at web-2", lambda: lab.api("backend.show", backend="web-2")[0]["new_flows"] >= before + 20)
    set_status("web-1", 0)
    wait_state(lab, "web-1", "healthy", "exit status 0: web-1")
    set_status("web-2", 0, "%s.slow")
    wait_state(lab, "web-2", "refusing", "killed after 500 ms: web-2")
    os.remove(os.path.join(folder, "web-2.slow"))
    wait_state(lab, "web-2", "healthy", "exit status 0: web-2")
    os.kill(helper_of(lab), signal.SIGKILL)
    why = "the process that runs programs has exited; restart weir-control"
    wait_state(lab, "web-1", "healthy", f"no result: {why}")
    wait_for("unchecked backends", lambda: lab.api("status")["unchecked"] == 2)
    status = lab.api("status")
    assert status["level"] == "warning" and status["programs"].endswith(why), status
    lab.programs["control"].stop()
    lab.start_control()
    set_status("web-1", 1)
    wait_state(lab, "web-1", "refusing", "exit status 1: web-1")
    assert lab.api("status")["programs"] is None


@scenario(start=False, hosts=2, services=[service("web", 80, backends=BACKENDS, vips=(VIP4,))])
def weights_from_exit_statuses(lab):
    """The exit status of the program sets the weight of a backend, until it is 0 again"""
    _, set_status = prepare(lab, weight_from_exit=True)
    lab.start()

    def weights(name):
        row = lab.backend(name)
        return row["own_weight"], row["effective_weight"], row["health"]
    wait_for("both healthy", lambda: weights("web-1") == weights("web-2") == (None, 100, "healthy"))
    set_status("web-1", 27)
    wait_for("weight 25", lambda: weights("web-1") == (25, 25, "healthy"))
    set_status("web-1", 2)
    wait_for("weight 0", lambda: weights("web-1") == (0, 0, "healthy"))
    set_status("web-1", 1)
    wait_for("refusing", lambda: weights("web-1")[2] == "refusing")
    set_status("web-1", 0)
    wait_for("the usual weight", lambda: weights("web-1") == (None, 100, "healthy"))
    assert weights("web-2") == (None, 100, "healthy")
