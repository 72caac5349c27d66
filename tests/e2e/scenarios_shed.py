# SPDX-License-Identifier: BSD-3-Clause
"""weirctl backend shed: nginx, weir-agents, and wrk with keep-alive connections. A third backend is
added to two backends, and connections leave these two until each has the mean number of connections."""
import contextlib
import os
import random
import select
import signal
import socket
import threading
import time

from agents import Agents
from documented import check_form
from lab import VIP4, web
from netns import wait_for
from scenario import scenario

CONNECTIONS = 60
OLD, ALL = ({f"web-{number}": 100 for number in range(1, last + 1)} for last in (2, 3))
MEAN = CONNECTIONS // len(ALL)
AGENT = {"interval_ms": 200, "inactive_interval_ms": 200, "timeout_ms": 200}
HOOK = "cd {} && while read -r client port vip vip_port; do : > $client:$port; done"
# wrk sends its first request at once, and pauses before each later request: connections are idle then.
PAUSES = """
local first = true
function delay()
    if first then first = false; return 0 end
    return PAUSE + math.random(PAUSE)
end
"""


def start(lab, *options):
    """Start two of the three backends, each with an agent. options: options of the agents."""
    lab.services = [web(backends=OLD, vips=(VIP4,), agent=AGENT)]
    for number in lab.hosts:
        folder = lab.shed_folder(number)
        os.mkdir(folder)
        os.chmod(folder, 0o777)
    agents = Agents(lab, "--port", "80")
    for number in (1, 2):
        agents.extra[number] = [option.replace("{}", lab.shed_folder(number)) for option in options]
    lab.extra = agents.configuration(lab)
    lab.write_config()
    lab.start_backends()
    agents.start_all()
    lab.start_dataplane()
    lab.start_control()
    lab.wait_ready()
    agents.wait_answered((1, 2))
    return agents


def scale_out(lab, agents):
    lab.write_config([web(backends=ALL, vips=(VIP4,), agent=AGENT)])
    lab.weirctl("config", "reload")
    lab.wait_ready()
    agents.wait_answered((3,))


def established(lab, number):
    """Returns the number of established connections of clients at a backend."""
    lines = lab.namespaces[f"b{number}"].run(
        "ss", "-Htn", "state", "established", "src", f"{VIP4}:80").splitlines()
    return len(lines)


class Watch:
    """Records the minimum number of connections of each backend until the end of the block."""

    def __init__(self, lab, numbers):
        self.lab, self.over = lab, False
        self.least = {number: established(lab, number) for number in numbers}
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.over:
            for number in self.least:
                self.least[number] = min(self.least[number], established(self.lab, number))
            time.sleep(0.05)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()


@contextlib.contextmanager
def wrk(lab, path, pause_ms=0):
    """Run wrk, and wait until it has all its connections. Yields a function that stops wrk and returns its output."""
    script = os.path.join(lab.dir, "wrk.lua")
    with open(script, "w", encoding="ascii") as file:
        file.write(PAUSES.replace("PAUSE", str(pause_ms)) if pause_ms else "")
    program = lab.program("wrk", lab.client, "wrk", "-t1", f"-c{CONNECTIONS}", "-d300s", "--timeout",
                          "10s", "-s", script, f"http://{VIP4}{path}")
    wait_for("wrk's connections", lambda: sum(
        established(lab, number) for number in lab.hosts) >= CONNECTIONS, 20)

    def end():
        program.signal(signal.SIGINT)
        program.process.wait(30)
        text = program.output()
        assert " requests in " in text, text
        return text
    yield end
    if program.alive():
        program.kill()


def errors(text):
    """Returns wrk's counts of connect, read, write and timeout errors, and of responses other than 2xx and 3xx."""
    found = [int(word) for line in text.splitlines() if "Socket errors" in line
             for word in line.replace(",", " ").split() if word.isdigit()]
    return (found or [0] * 4) + [int(line.split()[-1]) for line in text.splitlines()
                                 if line.strip().startswith("Non-2xx")]


def shed_of(lab, name):
    return lab.backend(name, "web")["shed"]


def shed(lab, name, *options, **more):
    return lab.weirctl("backend", "shed", *options, f"web/{name}", **more)


def wait_ended(lab, name, timeout=60):
    wait_for(f"the shed of {name} to end", lambda: shed_of(lab, name)["ended_ms"] is not None,
             timeout, 0.1)
    return shed_of(lab, name)


@scenario(start=False, hosts=3)
def shed_with_a_hook_fails_no_request(lab):
    """If the servers of two of three backends shed connections by "Connection: close", no request of wrk fails"""
    agents = start(lab, "--shed-hook", HOOK)
    with wrk(lab, "/shed") as end:
        scale_out(lab, agents)
        before = {number: established(lab, number) for number in (1, 2)}
        assert sum(before.values()) == CONNECTIONS and established(lab, 3) == 0, before
        plan = shed(lab, "web-1", "--to-mean", "--dry-run")[1]
        assert "dry run" in plan and "weir-agent runs its hook" in plan, plan
        time.sleep(1)
        assert {number: established(lab, number) for number in (1, 2)} == before
        with Watch(lab, (1, 2)) as watch:
            began = time.monotonic()
            for name in ("web-1", "web-2"):
                shed(lab, name, "--to-mean", "--rate", "20/s")
            first = {name: shed_of(lab, name) for name in OLD}
            last = {name: wait_ended(lab, name) for name in OLD}
            took = time.monotonic() - began
        text = end()
    after = {number: established(lab, number) for number in lab.hosts}
    print(f"  {before}, then {watch.least} at least; in {took:.1f} s "
          f"{[each['ended'] for each in last.values()]} ended; errors {errors(text)}")
    print("  " + text.replace("\n", "\n  "))
    assert errors(text) == [0, 0, 0, 0], text
    for number, name in ((1, "web-1"), (2, "web-2")):
        assert first[name]["method"] == "hook", first
        assert last[name]["state"] == "done", last[name]
        assert last[name]["ended"] <= 20 * took + 20, (last, took)
        assert watch.least[number] >= MEAN - 1, watch.least
    audit = lab.weirctl("audit", "show")[1]
    assert "shed.start" in audit and "shed.end" in audit, audit
    assert "shed" in lab.weirctl("health", "history", "web/web-1")[1]
    assert after, after


@scenario(start=False, hosts=3)
def shed_of_idle_connections_ends_as_many_as_it_counts(lab):
    """If the kernel closes idle connections of two of three backends, wrk counts each as a read error; a client
    that retries has no error"""
    agents = start(lab, "--shed-idle")
    with wrk(lab, "/", pause_ms=1500) as end:
        scale_out(lab, agents)
        before = {number: established(lab, number) for number in (1, 2)}
        plan = shed(lab, "web-1", "--to-mean", "--dry-run", "--idle", "1")[1]
        assert "weir-agent ends idle connections" in plan, plan
        time.sleep(1)
        assert {number: established(lab, number) for number in (1, 2)} == before
        with Watch(lab, (1, 2)) as watch:
            began = time.monotonic()
            for name in OLD:
                shed(lab, name, "--to-mean", "--rate", "20/s", "--idle", "1")
            last = {name: wait_ended(lab, name) for name in OLD}
            took = time.monotonic() - began
        text = end()
    ended = sum(each["ended"] for each in last.values())
    print(f"  {before}, then {watch.least} at least; in {took:.1f} s {ended} ended; "
          f"errors {errors(text)}; {[each['why'] for each in last.values()]}")
    connects, reads, writes, timeouts, *others = errors(text)
    # wrk counts each closed connection as a read or write error, and connects again. Nothing else
    # fails.
    assert connects == timeouts == 0 and not others, text
    assert reads + writes <= ended, (text, last)
    for number, name in ((1, "web-1"), (2, "web-2")):
        assert last[name]["method"] == "idle" and last[name]["state"] == "done", last[name]
        assert watch.least[number] >= MEAN - 1, watch.least


class Reusing:
    """Clients with keep-alive connections, which connect again when a connection has closed while it
    was idle, as browsers and libraries do. Counts requests, connections that closed while idle, and
    requests that were sent and got an RST. The pauses are about as long as --idle, which is the worst case."""

    def __init__(self, lab, count, pause):
        self.lab, self.pause, self.over = lab, pause, False
        self.requests, self.closed, self.failed = [0] * count, [0] * count, [0] * count
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True)
                        for i in range(count)]

    def connect(self):
        with self.lab.client.inside():
            return socket.create_connection((VIP4, 80), 10)

    def ask(self, sock):
        sock.sendall(b"GET / HTTP/1.1\r\nhost: web\r\n\r\n")
        answer = b""
        while not answer.endswith(b"\n") or answer.endswith(b"\r\n"):
            block = sock.recv(4096)
            if not block:
                raise ConnectionResetError
            answer += block

    def run(self, i):
        sock = self.connect()
        while not self.over:
            if select.select([sock], [], [], 0)[0]:  # an RST or a FIN
                self.closed[i] += 1
                sock.close()
                sock = self.connect()
            try:
                self.ask(sock)
                self.requests[i] += 1
            except (ConnectionResetError, BrokenPipeError):
                self.failed[i] += 1
                sock.close()
                sock = self.connect()
            time.sleep(random.uniform(*self.pause))
        sock.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        wait_for("all connections", lambda: all(self.requests), 20)
        return self

    def __exit__(self, *_):
        self.over = True
        for thread in self.threads:
            thread.join()


@scenario(start=False, hosts=3)
def shed_of_idle_connections_hardly_fails_a_request(lab):
    """If clients reuse connections after about the time that --idle sets, few requests get an RST"""
    agents = start(lab, "--shed-idle")
    with Reusing(lab, CONNECTIONS, (0.9, 1.3)) as clients:
        scale_out(lab, agents)
        for name in OLD:
            if shed(lab, name, "--to-mean", "--rate", "50/s", "--idle", "1", check=False)[0] == 0:
                wait_ended(lab, name)
        after = {number: established(lab, number) for number in lab.hosts}
    ended = sum((shed_of(lab, name) or {"ended": 0})["ended"] for name in OLD)
    closed, failed = sum(clients.closed), sum(clients.failed)
    print(f"  {ended} ended: {closed} noticed before a request, {failed} with one, of "
          f"{sum(clients.requests)} requests; then {after}")
    assert closed + failed <= ended, (closed, failed, ended)
    assert failed <= ended / 4, (failed, ended)


def refused(lab, name, *options):
    code, _, err = shed(lab, name, "--to-mean", *options, check=False)
    assert code == 1, (code, err)
    return err


@scenario(start=False, hosts=3)
def shed_without_consent_is_refused(lab):
    """For each reason why a backend cannot shed connections, there is a message, and no connection is closed"""
    agents = start(lab)
    with wrk(lab, "/") as end:
        assert "there is nothing to shed" in refused(lab, "web-1") + refused(lab, "web-2")
        scale_out(lab, agents)
        before = {number: established(lab, number) for number in (1, 2)}
        for options in ((), ("--dry-run",)):
            assert "does not permit shedding" in refused(lab, "web-1", *options)
        assert "there is nothing to shed" in refused(lab, "web-3")
        assert shed(lab, "web-1", "--stop", check=False)[0] == 1
        assert shed(lab, "web-1", check=False)[0] == 2
        lab.weirctl("backend", "drain", "web/web-1")
        assert "gets no new flows" in refused(lab, "web-1")
        lab.weirctl("backend", "ready", "web/web-1")
        lab.programs[agents.name(2)].kill()
        wait_for("a silent agent", lambda: "does not answer" in refused(lab, "web-2"), 10)
        for number in (2, 3):
            lab.weirctl("backend", "drain", f"web/web-{number}")
        assert "there is no mean" in refused(lab, "web-1")
        assert {number: established(lab, number) for number in (1, 2)} == before
        assert errors(end()) == [0, 0, 0, 0]
    assert "does not permit shedding" in lab.weirctl("audit", "show")[1]
    assert shed_of(lab, "web-1") is None


@scenario(start=False, hosts=3)
def shed_ends_with_its_agent_or_control(lab):
    """If the agent or weir-control is killed, no connection is closed after the deadline of the order"""
    agents = start(lab, "--shed-idle")
    with wrk(lab, "/", pause_ms=4000):
        scale_out(lab, agents)
        shed(lab, "web-1", "--to-mean", "--rate", "2/s", "--idle", "1")
        wait_for("an end", lambda: shed_of(lab, "web-1")["ended"] >= 1, 20)
        lab.programs[agents.name(1)].kill()
        time.sleep(0.5)
        count = reset_count(lab, 1)
        time.sleep(3)
        assert reset_count(lab, 1) == count
        failed = wait_ended(lab, "web-1", 30)
        assert failed["state"] == "failed" and "does not answer" in failed["why"], failed
        shed(lab, "web-2", "--to-mean", "--rate", "2/s", "--idle", "1")
        wait_for("an end", lambda: shed_of(lab, "web-2")["ended"] >= 1, 20)
        lab.programs["control"].kill()
        time.sleep(1.6)  # the current order is valid for a second
        count = reset_count(lab, 2)
        time.sleep(3)
        assert reset_count(lab, 2) == count
        lab.start_control()
        lab.wait_ready()
        assert shed_of(lab, "web-2") is None
        agents.wait_answered((2, 3))
        terms = {"service": "web", "backend": "web-2", "rate": 5, "idle_ms": 1000}
        for command in ("shed.plan", "shed.start"):
            check_form(command, lab.api(command, **terms), optional=["why"])
        check_form("shed.start", shed_of(lab, "web-2"), optional=["why"])
        assert "running" in lab.weirctl("backend", "show", "web/web-2")[1]
        check_form("shed.stop", lab.api("shed.stop", service="web", backend="web-2"),
                   optional=["why"])
        assert wait_ended(lab, "web-2", 10)["state"] == "stopped"


def reset_count(lab, number):
    """Returns the number of RSTs that this backend has sent."""
    names, values = [line.split() for line in lab.namespaces[f"b{number}"].run(
        "cat", "/proc/net/snmp").splitlines() if line.startswith("Tcp:")]
    return int(values[names.index("OutRsts")])
