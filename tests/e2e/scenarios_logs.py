# SPDX-License-Identifier: BSD-3-Clause
"""Machine-readable logs of all daemons: --log-format json."""
import json
import re

import clients
from agents import Agents
from lab import VIP4, service, web
from netns import wait_for
from scenario import scenario

JSON = ("--log-format", "json")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def records(lab, program):
    """Returns the log of a program. Each line must be a JSON object."""
    result = []
    for line in lab.programs[program].output().splitlines():
        record = json.loads(line)
        assert TIME.fullmatch(record["time"]), line
        assert record["level"] in ("error", "warn", "info", "debug"), line
        assert record["message"] and all(isinstance(v, str) for v in record.values()), line
        result.append(record)
    return result


def having(lab, program, **fields):
    return [r for r in records(lab, program) if fields.items() <= r.items()]


@scenario(services=[web(agent={})], start=False)
def every_daemon_logs_json(lab):
    """Each log line of dataplane, control, agent and metrics is a JSON object with fields for its subject"""
    agents = Agents(lab, "--port", "80", *JSON)
    lab.extra = {**lab.extra, **Agents.configuration(lab)}
    lab.write_config()
    lab.dataplane_options = (*lab.dataplane_options, *JSON)
    lab.control_options = (*lab.control_options, *JSON)
    agents.start(1)
    lab.start()
    lab.start_metrics(*JSON)
    assert clients.curl_batch(lab.client, VIP4, 20).ok == 20
    lab.programs["nginx-2"].kill()
    [refusing] = wait_for("the failed backend in the log", lambda: having(
        lab, "control", service="web", backend="web-2", state="refusing"), 20)
    assert "refused" in refusing["reason"] and refusing["level"] == "warn", refusing
    lab.weirctl("backend", "drain", "web/web-3")
    [drain] = having(lab, "control", command="backend.drain")
    assert (drain["object"], drain["before"], drain["after"], drain["outcome"], drain["peer_uid"]) \
        == ("web/web-3", "ready", "drain", "done", "0"), drain
    lab.lb.run("ip", "link", "set", "lb0", "down")
    wait_for("link down in the log", lambda: having(lab, "dataplane", port="wan", level="warn"), 20)
    lab.programs[agents.name(1)].stop()
    lab.programs["control"].stop()
    lab.programs["dataplane"].stop()
    lab.programs["metrics"].stop()
    for program in (agents.name(1), "control", "dataplane", "metrics"):
        assert records(lab, program), program


MANY = [{"name": f"web-{n}", "address": f"10.64.0.{n}"} for n in range(1, 61)]


@scenario(start=False, hosts=1, services=[service("web", 80, backends=MANY, vips=(VIP4,))])
def a_lost_link_is_not_logged_for_each_of_many_backends(lab):
    """If the next hops of many backends change at the same time, one log line counts the changes"""
    def words(state):
        return [line.split(" ", 1)[1].strip() for line in lab.programs["control"].output().splitlines()
                if re.search(state, line)]

    def counted(state):
        """Returns the total number of backends that the summary lines count."""
        return sum(int(n) for n in re.findall(rf"next hops of (\d+) more backends? {state}; last backend: web/web-\d+",
                                              lab.programs["control"].output()))

    lab.start_dataplane()
    lab.start_control()
    wait_for("every backend usable", lab.all_usable, 20)
    wait_for("60 changes", lambda: counted("resolved") + len(words("next hop for .*: port 0")) == 60, 5)
    lab.net.ip("link", "set", "lb0", "down")
    wait_for("no next hops", lambda: not any(row["resolved"] for row in lab.backends()), 10)
    wait_for("the count", lambda: counted("unresolved") == 40, 5)
    lines = words("unresolved")
    assert len(lines) == 21, lines
    assert lines[-1].startswith("warn  next hops of 40 more backends unresolved; last backend: web/web-"), lines
    assert lines[-1].endswith(": no ARP/ND reply for 10.0.0.1 on lb0"), lines
