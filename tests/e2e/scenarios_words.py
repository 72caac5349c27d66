# SPDX-License-Identifier: BSD-3-Clause
"""nginx run by weir-agent exec, as its own user. SIGTERM alone makes the backend a lame duck.

WEIR_HOSTS sets the number of hosts with an nginx (default 3).
"""
import os
import signal

from agents import Agents
from lab import service
from netns import wait_for
from scenario import scenario
from scenarios_doctor import find, inside
from scenarios_restart import backends, undisturbed_requests, wait_used

HOSTS = int(os.environ.get("WEIR_HOSTS", "3"))
USER = 33  # www-data
SERVICES = ("--service", "web=80", "--allow-user", f"{USER}=web", "--service", "lines=7000")


class Servers:
    """Runs nginx on each host with weir-agent exec, instead of the lab's nginx."""

    def __init__(self, lab, agents):
        self.lab, self.agents = lab, agents

    def start(self, number):
        lab = self.lab
        folder = os.path.join(lab.dir, f"nginx-{number}")
        for root, folders, files in os.walk(folder):
            for each in [root, *(os.path.join(root, name) for name in [*folders, *files])]:
                os.chown(each, USER, USER)
        lab.namespaces[f"b{number}"].sysctl(net__ipv4__ip_unprivileged_port_start=80)
        lab.program(f"nginx-{number}", lab.namespaces[f"b{number}"], "setpriv", "--reuid", str(USER),
                    "--regid", str(USER), "--clear-groups", lab.binary("weir-agent"), "exec",
                    "--service", "web", "--run-dir", self.agents.run_dir(number), "--", "nginx", "-p",
                    folder, "-c", "nginx.conf", "-e", "stderr")

    def restart(self, number, stop=signal.SIGTERM):
        program = self.lab.programs[f"nginx-{number}"]
        program.signal(stop)
        program.process.wait(60)
        text = program.output()
        self.start(number)
        return text


@scenario(start=False, hosts=HOSTS, seconds=300, services=[
    service(name, port, backends=backends(HOSTS), policy={"name": "round-robin"},
            agent={"interval_ms": 500}, check=check)
    for name, port, check in (("web", 80, {"type": "http", "path": "/healthz"}), ("lines", 7000, None))])
def sigterm_to_exec_fails_nothing(lab):
    """If nginx is restarted by SIGTERM, host by host, without root, no request and no download fails"""
    agents = Agents(lab, *SERVICES)
    servers = Servers(lab, agents)
    agents.start_lab()
    for number in lab.hosts:
        lab.kill_backend(number)
        servers.start(number)
    for number in lab.hosts:
        wait_used(lab, number)
    with undisturbed_requests(lab) as downloads:
        for number in lab.hosts:
            text = servers.restart(number)
            downloads.look()
            assert "drained, acknowledged by " in text and ", 0 connections left: sending SIGTERM" in text, text
            assert lab.backend(f"web-{number}", "lines")["in_selection"], "the other service of the host"
            wait_used(lab, number)
    history = [each for number in lab.hosts
               for each in lab.api("health.history", service="web", backend=f"web-{number}")
               if each["to"] == "lame-duck"]
    assert {each["source"] for each in history} == {"agent"} and len(history) >= HOSTS, history
    assert any("announced by the application" in each["why"] for each in history), history
    others = lab.api("health.history", service="lines", backend="web-1")
    assert not [each for each in others if each["to"] == "lame-duck"], others
    wait_for("every backend", lab.all_usable, 20)


@scenario(start=False, hosts=1, services=[
    service(name, port, protocol, backends={"web-1": 100}, agent={"interval_ms": 500})
    for name, port, protocol in (("web", 80, "tcp"), ("names", 53, "udp"))])
def lame_duck_of_an_application_is_ended(lab):
    """Doctor and "weirctl backend ready" name what ends a lame duck that an application has announced"""
    agents = Agents(lab, "--service", "web=80", "--service", "names=53/udp")
    agents.start_lab()
    host, directory = lab.namespaces["b1"], ("--run-dir", agents.run_dir(1))

    def agent(*words):
        status, output = inside(host, lab.binary("weir-agent"), *words, *directory)
        assert status == 0, output

    def lame_duck(name, command):
        row = find(lab, "health", name + "/web-1", "warning", "lame duck")
        assert row["cure"].startswith(f"ssh 10.0.0.11 {command}"), row
        warnings = [line for line in lab.weirctl("backend", "ready", name + "/web-1")[1].splitlines()
                    if line.startswith("warning: ")]
        ends = command.partition(" #")[0]
        assert warnings == ["warning: the agent announces lame-duck again in its next report; to end this, run "
                            f'"{ends}" on the host'], warnings
        find(lab, "health", name + "/web-1", "warning", "lame duck")  # announced again
        agent(*row["cure"].partition(" #")[0].split()[3:])

    for name in ("web", "names"):
        agent("announce", "lame-duck", "--service", name)
        lame_duck(name, f"weir-agent announce ready --service {name} # or the name ")
        find(lab, "health", "backends", "ok")
    agent("announce", "lame-duck", "--service", "web")
    find(lab, "health", "web/web-1", "warning", "lame duck")
    agent("lame-duck", "--interval", "1s")
    find(lab, "health", "names/web-1", "warning", "lame duck")
    wait_for("the host to be a lame duck", lambda: lab.backend("web-1", "web")["report"]["word"] == "lame-duck", 10)
    lame_duck("web", "weir-agent ready")
    wait_for("the host to be ready", lambda: lab.backend("web-1", "web")["report"]["word"] == "ready", 10)
    lame_duck("web", "weir-agent announce ready --service web")
    find(lab, "health", "backends", "ok")
