# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's telemetry socket (weir-dataplane --telemetry), queried by dpdk-telemetry.py."""
import json
import os
import re
import stat
import subprocess

import clients
from lab import PYTHON, VIP4, web
from netns import wait_for
from scenario import scenario

TOOL = "/usr/bin/dpdk-telemetry.py"
REQUESTS = 40


def prefix_of(lab):
    """Returns the file prefix of the telemetry socket, from the log."""
    found = re.search(r"dpdk-telemetry\.py -f (\S+)", lab.programs["dataplane"].output())
    assert found, lab.programs["dataplane"].output()
    return found.group(1)


def ask(prefix, *commands):
    """Returns {command without its parameter: answer}."""
    words = "".join(f"{command}\n" for command in (*commands, "quit"))
    done = subprocess.run([PYTHON, TOOL, "-f", prefix], input=words, capture_output=True, text=True,
                          timeout=20, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(commands), (commands, done.stdout, done.stderr)
    return {command: answer[command.split(",")[0]] for command, answer in zip(commands, answers)}


def idle_part(prefix):
    """Returns a function. Each call of this function returns the share of idle cycles since its previous call."""
    last = {}

    def part():
        [worker] = ask(prefix, "/weir/workers")["/weir/workers"].values()
        busy = worker["busy_cycles"] - last.get("busy_cycles", 0)
        idle = worker["idle_cycles"] - last.get("idle_cycles", 0)
        last.update(worker)
        return idle / max(busy + idle, 1)
    return part


@scenario(start=False, services=[web()])
def telemetry_distinguishes_busy_from_polling(lab):
    """dpdk-telemetry.py agrees with weirctl; only root can query; the dataplane removes the socket at its exit"""
    lab.dataplane_options = (*lab.dataplane_options, "--telemetry")
    lab.start()
    prefix = prefix_of(lab)
    folder = os.path.join("/var/run/dpdk", prefix)
    status = os.stat(folder)
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o700), status

    assert clients.curl_batch(lab.client, VIP4, REQUESTS).ok == REQUESTS
    [row] = lab.api("worker.show")
    answers = ask(prefix, "/weir/worker,0", "/weir/flows", "/weir/drops", "/weir/worker,1",
                  "/weir/worker,x", "/weir/worker")
    assert answers["/weir/worker,0"]["forwarded"] >= row["forwarded"] > REQUESTS, (answers, row)
    assert answers["/weir/worker,0"]["core"] == row["core"]
    assert answers["/weir/flows"]["new"] >= REQUESTS, answers
    assert set(answers["/weir/drops"]) == set(lab.api("stats.show")["drops"])
    for wrong in ("/weir/worker,1", "/weir/worker,x", "/weir/worker"):
        assert answers[wrong] is None, (wrong, answers[wrong])

    part = idle_part(prefix)
    part()
    wait_for("a worker that polls without packets", lambda: part() > 0.9, 20)
    lab.programs["dataplane"].stop()
    assert not os.path.exists(folder), os.listdir(folder)
