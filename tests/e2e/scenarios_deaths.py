# SPDX-License-Identifier: BSD-3-Clause
"""How soon a dead server stops getting new flows, and a new server gets flows again: weir-agent watches the
listening sockets of nginx. Times are from the kernel's timestamps of packets, as in
scenarios_lame_duck.py.

WEIR_TRIALS sets the number of kills (default 4). Results are the median, the 99th percentile and the
largest value, in milliseconds.
"""
import contextlib
import json
import os
import random
import signal
import socket
import time
from collections import namedtuple

import clients
from agent import ANSWER, ANSWER_FIELDS
from lab import VIP4, backend_address, service
from netns import LabError, wait_for
from scenario import scenario
from scenarios_lame_duck import (EVENLY_S, FLOWS_PER_SECOND, QUICK, TRIES, Pond,
                                 acknowledged, arrivals, fields_of, of, row)
from taps import Tap

TRIALS = int(os.environ.get("WEIR_TRIALS", "4"))
PORT, FIN, RST = 80, 1, 4
UNASKED = 21  # index of the field "unsolicited" in ANSWER_FIELDS
PORTS = {"web": PORT, "lines": 7000}  # ports of nginx, and of a server that keeps running
AGENT = {"interval_ms": 300, "inactive_interval_ms": 600, "timeout_ms": 300}
ALLOWED_S = 0.005  # allowed in addition to the time of two round trips and of the publication
FREE_DEATHS = 2  # after this number of deaths, an agent delays the report that the server is back

SERVICES = [service(name, port, backends={"web-1": 900, "web-2": 100}, vips=(VIP4,),
                    policy={"name": "weighted-round-robin"}, agent=AGENT,
                    health_check={"type": "agent", "rise": 1, "fall": 10})
            for name, port in PORTS.items()]

# One killed server. All values are in seconds, except flows.
# close: from kill() until the last process of nginx closes its sockets (it needs a CPU to exit)
# last: from that close to the last new flow that reaches the dead server
# notice: from that close until the agent sends its notice
# after: from the notice to the last new flow that reaches the dead server
# flows: number of new flows after the notice
# trip: from the notice until the probe that acknowledges it reaches the backend
# published: duration of the publication
Death = namedtuple("Death", "close last notice after flows trip published")


def first_notice(packets, since):
    """Returns (time, serial) of the first unsolicited answer after `since`, or (None, None)."""
    for packet in packets:
        answer = fields_of(packet, ANSWER, ANSWER_FIELDS)
        if answer and answer[UNASKED] and packet.sent and packet.at > since:
            return packet.at, answer[4]
    return None, None


def closed_at(packets, since):
    """Returns the time when nginx closed its connection to this test. A process closes its descriptors
    in order, so its listening sockets were closed just before."""
    return next((packet.at for packet in packets if packet.sent and packet.flags & (FIN | RST)
                 and packet.source == PORT and packet.at > since), None)


def judge(there, elsewhere, killed, published):
    """Returns a Death. Returns None if no new flows arrived, or if the agent or the balancer did not
    answer: in these cases programs waited for a CPU, and the trial is invalid."""
    said, serial = first_notice(there, killed)
    closed = closed_at(there, killed)
    confirmed = said and acknowledged(there, serial)
    if not confirmed or not closed:
        return None
    late = arrivals(there, PORT, closed)
    if sum(after < EVENLY_S for after in late + arrivals(elsewhere, PORT, closed)) \
            < EVENLY_S * FLOWS_PER_SECOND / 5:
        return None
    after = arrivals(there, PORT, said)
    return Death(closed - killed, max(late, default=0), said - closed, max(after, default=0),
                 len(after), confirmed - said, published)


class Nginx:
    """The nginx of web-1, and the agent that watches it."""

    def __init__(self, lab):
        self.lab, self.pond, self.deaths = lab, Pond(lab, PORTS, lab.hosts), 0

    def port(self):
        return json.loads(self.pond.run("status", "--json"))["ports"][0]

    def is_watched(self):
        with contextlib.suppress(LabError):  # the agent is still starting
            return self.port()["state"] == "open"
        return False

    def signal(self, number):
        os.killpg(self.lab.programs["nginx-1"].pid, number)

    def workers(self):
        pid = self.lab.programs["nginx-1"].pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return file.read().split()

    def start(self):
        """Start nginx on its agent's CPU, not on the balancer's CPU: in production they are different hosts."""
        self.lab.start_nginx(1)
        self.pond.place("nginx-1", True)

    def connect(self):
        """Open a connection that a worker of nginx has accepted and keeps open."""
        with self.lab.lb.inside():
            connection = socket.create_connection((backend_address(1), PORT), 10)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        return connection

    def wait_used(self, used=True):
        wait_for(f"web-1 {'used' if used else 'unused'}",
                 lambda: self.lab.backend("web-1")["in_selection"] == used, 15, 0.02)

    def start_agent_again(self):
        """Replace the agent with a new process, which has not detected any deaths yet."""
        self.lab.programs[self.pond.agents.name(1)].kill()
        os.remove(os.path.join(self.pond.agents.run_dir(1), "word"))
        self.pond.agents.start(1)
        self.pond.place(self.pond.agents.name(1), True)
        self.pond.agents.wait_answered([1])
        wait_for("the port to be watched", self.is_watched, 10)
        wait_for("the agent to be probed", lambda: self.pond.interval_ms() == AGENT["interval_ms"],
                 15, 0.1)
        self.deaths = 0

    def kill(self):
        """Kill nginx and start it again. Returns a Death, or None if the trial is invalid. Also returns
        the time from the agent's announcement that nginx is back to the first new flow."""
        lab = self.lab
        if self.deaths == FREE_DEATHS:
            self.start_agent_again()
        with contextlib.ExitStack() as stack:
            there, elsewhere = (stack.enter_context(Tap(lab.namespaces[name], "eth0"))
                                for name in ("b1", "b2"))
            stack.enter_context(self.connect())
            # kill the master first, so that it cannot start new workers
            os.kill(lab.programs["nginx-1"].pid, signal.SIGKILL)
            lab.programs["nginx-1"].process.wait()
            time.sleep(random.uniform(0.1, 0.2))  # a random phase relative to control's timers
            killed = time.time()
            self.signal(signal.SIGKILL)
            time.sleep(0.15)
            published = lab.api("stats.show")["segment"]["last_publish_us"] / 1e6
            death = judge(there.read(), elsewhere.read(), killed, published)
            self.wait_used(False)
            assert lab.backend("web-1", "lines")["in_selection"], "its other port is down as well"
            lab.programs["nginx-1"].kill()
            self.deaths += 1
            there.read()
            begun, packets = time.time(), []
            self.start()

            def born():
                packets.extend(there.read())
                said, _ = first_notice(packets, begun)
                flows = arrivals(packets, PORT, said) if said else []
                return min(flows) if flows else None
            birth = wait_for("a flow after the notice that the server listens again", born, 15)
            said, _ = first_notice(packets, begun)
            assert len(arrivals(packets, PORT, begun)) == len(arrivals(packets, PORT, said)), \
                "a flow arrived before the notice that the server listens again"
            self.wait_used()
        return death, birth


def ask_reload(nginx):
    """Reload nginx. New workers with the same sockets must not count as a death."""
    before, workers = nginx.port()["deaths"], nginx.workers()
    nginx.lab.programs["nginx-1"].signal(signal.SIGHUP)
    wait_for("other workers", lambda: nginx.workers() and not set(nginx.workers()) & set(workers), 10)
    port = nginx.port()
    assert (port["state"], port["deaths"]) == ("open", before), port


def ask_stop(nginx):
    """Stop nginx by SIGSTOP. Its sockets stay open, so that only health checks can detect this."""
    before = nginx.port()["deaths"]
    nginx.signal(signal.SIGSTOP)
    seen = nginx.port()["for_ms"]
    wait_for("two readings by the agent", lambda: nginx.port()["for_ms"] > seen + 2000, 10, 0.1)
    nginx.signal(signal.SIGCONT)
    port = nginx.port()
    assert (port["state"], port["deaths"]) == ("open", before), port


def ask_quit(nginx):
    """Run nginx -s quit. It gets no new flows, and a running download completes."""
    lab = nginx.lab
    digest = lab.make_file("slow.bin", 12 << 20)
    downloads = [clients.Download(lab.client, VIP4, "/slow/slow.bin") for _ in range(4)]
    at_web_1 = [each for each in downloads if each.backend() == "web-1"]
    assert at_web_1, "no download at web-1"
    lab.programs["nginx-1"].signal(signal.SIGQUIT)
    nginx.wait_used(False)
    assert nginx.port()["state"] == "closed", nginx.port()
    assert all(each.running() for each in at_web_1), "the downloads were too short"
    for each in downloads:
        status, size, sha256 = each.finish()
        assert (status, sha256) == (0, digest), (status, size)
        each.stop()
    lab.programs["nginx-1"].kill()
    nginx.start()
    nginx.wait_used()


@scenario(services=SERVICES, config=QUICK, start=False, alone=True, seconds=120 + 6 * TRIALS,
          hosts=2)
def kernel_death_and_birth(lab):
    """After kill -9 of nginx, its new flows usually stop within two round trips, a publication and 5 ms"""
    nginx = Nginx(lab)
    deaths, births = [], []
    with nginx.pond.flows(PORT):
        lab.programs["nginx-1"].kill()
        nginx.start()
        nginx.start_agent_again()
        for _ in range(TRIES * TRIALS):
            death, born = nginx.kill()
            births.append(born)
            deaths += [death] if death else []
            if len(deaths) == TRIALS:
                break
    assert len(deaths) == TRIALS, f"{len(deaths)} of {TRIES * TRIALS} trials were as they should"
    within = sum(d.last < 2 * d.trip + d.published + ALLOWED_S for d in deaths)
    text = (f"{row('close to last flow', [d.last for d in deaths])}, "
            f"{row('of it to the notice', [d.notice for d in deaths])}, "
            f"{row('notice to last flow', [d.after for d in deaths])}, "
            f"{row('round trip', [d.trip for d in deaths])}, "
            f"{row('publication', [d.published for d in deaths])}, "
            f"{row('kill to close', [d.close for d in deaths])}, "
            f"{row('kill to last flow', [d.close + d.last for d in deaths])} ms, flows after the notice "
            f"{max(d.flows for d in deaths)} at most, {within} of {len(deaths)} within; "
            f"{row('notice of listening to first flow', births)} ms")
    print(f"\n    {text}", end=" ", flush=True)
    # If CPUs are busy, both sides of each comparison are delayed in the same way. An agent that
    # read the sockets once a second, or health checks, would be ten times slower.
    assert of([d.last for d in deaths], 0.5) < 5 * of([d.trip for d in deaths], 0.5) + ALLOWED_S, text
    assert within >= 0.5 * len(deaths), text
    history = [each for each in lab.api("health.history", service="web", backend="web-1")
               if each["to"] == "refusing"]
    assert len(history) >= min(TRIALS, 4) and {each["source"] for each in history} == {"agent"}, history
    nginx.start_agent_again()
    ask_reload(nginx)
    ask_stop(nginx)
    ask_quit(nginx)
