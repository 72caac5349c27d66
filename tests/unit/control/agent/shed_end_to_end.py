#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests weir-agent run --shed-idle and --shed-hook: orders to end connections, with real
connections of this kernel. Orders are repeated, delayed and lost, and processes are killed.

    balancer, clients  c0 ===== veth ===== eth0  backend: weir-agent run, a server
"""
import collections
import contextlib
import os
import select
import signal
import socket
import struct
import sys
import time

import agent_lab as base
from agent_lab import BACKEND6, BALANCER, KEYS, PORT, UDP_PORT, VIP, scenario, seal
from netns import wait_for

SHED = struct.Struct("!QQQQ16sIIIII32sB100s")
ANSWER = struct.Struct("!QQQQIIIIBB")
RESULTS = [None, "active", "done", "off", "no-port", "late", "busy", "unsupported", "failed",
           "hook-failed"]
METHODS = ["none", "idle", "hook"]
IDLE_MS = 1000
HOOK = "cat >> {0}/lines; echo $WEIR_SHED_SERVICE $WEIR_SHED_COUNT >> {0}/runs"

Answer = collections.namedtuple("Answer", "id connections candidates leaving ended method result")


def packed(address):
    return socket.inet_pton(socket.AF_INET6, address if ":" in address else f"::ffff:{address}")


class Shedder(base.Balancer):
    """Sends shed orders like weir-control."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.id = 0
        answer = self.ask()
        self.clock_ms, self.received_at = answer["clock_ms"], time.monotonic()

    def order(self, count, **over):
        """Returns a new order. over: {field: value that replaces the default}."""
        self.id += 1
        fields = {"id": self.id, "agent": self.agent, "timeout_ms": 3000, "rate": 1000,
                  "keep": 0, "idle_ms": IDLE_MS, "recipient": self.to[0],
                  "binds": [(VIP, PORT, PORT)], **over}
        self.id = max(self.id, fields["id"])
        clock_ms = self.clock_ms + int((time.monotonic() - self.received_at) * 1000)
        binds = b"".join(packed(vip) + struct.pack("!HH", *ports)
                         for vip, *ports in fields["binds"])
        body = SHED.pack(self.number, fields["id"], fields["agent"],
                         max(0, clock_ms + fields["timeout_ms"]), packed(fields["recipient"]),
                         UDP_PORT, count, int(fields["rate"] * 1000), fields["keep"],
                         fields["idle_ms"], b"web", len(fields["binds"]), binds)
        return seal((b"WEIR" + struct.pack("!BBH", 1, 6, self.key) + body).ljust(224, b"\0"),
                    KEYS[self.key])

    def take(self, timeout=10.0):
        """Returns the next answer, or None if no answer arrives."""
        if not select.select([self.socket], [], [], timeout)[0]:
            return None
        data, sender = self.socket.recvfrom(2048)
        assert len(data) == 256 and sender[:2] == self.to, (len(data), sender)
        assert data[:6] == b"WEIR\1\7" and seal(data[:224], KEYS[self.key]) == data
        assert not any(data[8 + ANSWER.size:224]), "rest"
        agent, balancer, number, _, *numbers, method, result = ANSWER.unpack_from(data, 8)
        assert agent == self.agent and balancer == self.number
        return Answer(number, *numbers, METHODS[method], RESULTS[result])

    def run(self, order):
        """Send an order. Waits until the order has ended; returns its last answer."""
        self.send(order)
        answer = self.take()
        while answer is not None and answer.result == "active":
            answer = self.take()
        assert answer is not None, "no answer"
        return answer


class Lab(base.Lab):
    def __init__(self, agent):
        super().__init__(agent)
        self.reset = []  # clients that have got an RST

    def start_shedder(self, *options, **of_balancer):
        self.agent = self.start_agent("--port", str(PORT), *options)
        self.balancers.append(Shedder(self.client, **of_balancer))
        return self.balancers[-1]

    @contextlib.contextmanager
    def connections(self, count, address=VIP):
        """Yields [socket of each client], {client port: socket of the server}."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.ExitStack() as stack:
            with self.backend.inside():
                listener = stack.enter_context(socket.create_server(
                    ("", PORT), backlog=256, family=socket.AF_INET6, dualstack_ipv6=True))
            clients, servers = [], {}
            for _ in range(count):
                with self.client.inside():
                    client = stack.enter_context(socket.socket(family))
                client.settimeout(10)
                client.connect((address, PORT))
                server, peer = listener.accept()
                clients.append(client)
                servers[peer[1]] = stack.enter_context(server)
            yield clients, servers

    def ended(self, clients):
        """Returns the clients that have got an RST."""
        for client in clients:
            if client not in self.reset and select.select([client], [], [], 0)[0]:
                try:
                    client.recv(1)
                except ConnectionResetError:
                    self.reset.append(client)
        return [client for client in clients if client in self.reset]


def refused(lab, name):
    return lab.status()["datagrams"]["refused"].get(name, 0)


# --- idle ---------------------------------------------------------------------------------------

@scenario
def idle_connections_end_the_longest_idle_first(lab):
    shedder = lab.start_shedder("--shed-idle")
    with lab.connections(6) as (clients, servers):
        time.sleep(IDLE_MS / 1000 + 0.3)
        dry = shedder.run(shedder.order(0))
        assert dry[1:] == (6, 6, 0, 0, "idle", "done"), dry
        for client in clients[2:4]:
            client.send(b"question")
            server = servers[client.getsockname()[1]]
            server.recv(8), server.send(b"answer"), client.recv(6)
        busy = clients[4]
        busy.send(b"unread question")
        wait_for("it", lambda: shedder.run(shedder.order(0)).candidates == 3)
        time.sleep(IDLE_MS / 1000 + 0.3)
        answer = shedder.run(shedder.order(3))
        assert answer[1:] == (3, 2, 0, 3, "idle", "done"), answer
        assert lab.ended(clients) == [clients[0], clients[1], clients[5]], lab.ended(clients)
        # The connection with the unread request is not ended.
        answer = shedder.run(shedder.order(9, timeout_ms=1500))
        assert answer[1:] == (1, 0, 0, 2, "idle", "done"), answer
        busy.settimeout(10)
        servers[busy.getsockname()[1]].send(b"answer")
        assert busy.recv(6) == b"answer"
        shed = lab.status()["shed"]
        assert shed == {"method": "idle", "orders": 2, "ended": 5}, shed
        assert "shed       idle, 2 orders, 5 connections" in lab.command("status")
        assert "ended 3 connections of service web" in lab.agent.tail(), lab.agent.tail()


@scenario
def request_that_takes_longer_than_idle_keeps_its_connection(lab):
    shedder = lab.start_shedder("--shed-idle")
    with lab.connections(2) as (clients, servers):
        clients[0].send(b"question")
        server = servers[clients[0].getsockname()[1]]
        assert server.recv(8) == b"question"
        time.sleep(IDLE_MS / 1000 + 0.3)
        answer = shedder.run(shedder.order(2, timeout_ms=1500))
        assert answer[1:] == (1, 0, 0, 1, "idle", "done"), answer
        assert lab.ended(clients) == [clients[1]]
        server.send(b"answer")
        assert clients[0].recv(6) == b"answer"
        time.sleep(IDLE_MS / 1000 + 0.3)
        assert shedder.run(shedder.order(1)).ended == 1


@scenario
def repeated_and_delayed_orders_end_no_more(lab):
    shedder = lab.start_shedder("--shed-idle")
    with lab.connections(20) as (clients, _):
        time.sleep(IDLE_MS / 1000 + 0.3)
        delayed, order = shedder.order(5), shedder.order(5, rate=20, timeout_ms=4000)
        for _ in range(20):
            shedder.send(order)
            time.sleep(0.03)
        assert shedder.run(order).ended <= 5
        wait_for("the end", lambda: shedder.run(order).result == "done")
        while shedder.take(0.2):
            pass
        assert shedder.run(order).ended == 5
        before = refused(lab, "replay")
        shedder.send(delayed)
        wait_for("replay", lambda: refused(lab, "replay") == before + 1)
        assert len(lab.ended(clients)) == 5
        # Another balancer cannot repeat the order, and a recorded order has no effect after its
        # deadline.
        late = shedder.order(5, timeout_ms=-1)
        assert shedder.run(late).result == "late"
        for over, name in (({"agent": shedder.agent ^ 1}, "agent"), ({"idle_ms": 999}, "value"),
                           ({"timeout_ms": 60000}, "value"), ({"recipient": VIP}, "recipient")):
            before = refused(lab, name)
            shedder.send(shedder.order(5, **over))
            wait_for(name, lambda: refused(lab, name) == before + 1)
        assert shedder.take(0) is None
        assert len(lab.ended(clients)) == 5


@scenario
def order_keeps_connections_rate_and_deadline(lab):
    shedder = lab.start_shedder("--shed-idle")
    with lab.connections(40) as (clients, _):
        time.sleep(IDLE_MS / 1000 + 0.3)
        begin = time.monotonic()
        answer = shedder.run(shedder.order(40, rate=10, timeout_ms=2000))
        took = time.monotonic() - begin
        assert 1 <= answer.ended <= 10 * took + 2, (answer, took)
        assert answer.result == "done" and took >= 1.9, took
        ended = len(lab.ended(clients))
        assert ended == answer.ended, (ended, answer)
        answer = shedder.run(shedder.order(40, keep=15, timeout_ms=1500))
        assert answer.connections == 15, answer
        assert len(lab.ended(clients)) == 25
        answer = shedder.run(shedder.order(40, keep=16, timeout_ms=1500))
        assert (answer.ended, answer.connections) == (0, 15), answer


@scenario
def connections_of_other_vips_ports_and_ages_stay(lab):
    shedder = lab.start_shedder("--shed-idle")
    with lab.connections(3) as (clients, _), contextlib.ExitStack() as stack:
        with lab.client.inside():
            other = stack.enter_context(socket.create_connection((base.BACKEND, PORT)))
            six = stack.enter_context(socket.create_connection((BACKEND6, PORT)))
        time.sleep(IDLE_MS / 1000 + 0.3)
        assert shedder.run(shedder.order(9, idle_ms=60000, timeout_ms=500)).ended == 0
        assert shedder.run(shedder.order(
            9, binds=[(VIP, PORT + 1, 65535)])).result == "no-port"
        assert shedder.run(shedder.order(9, binds=[(VIP, 1, 65535)], timeout_ms=500)).ended == 3
        assert len(lab.ended(clients)) == 3 and not lab.ended([other, six])
        assert shedder.run(shedder.order(1, binds=[(BACKEND6, PORT, PORT)])).ended == 1
        assert lab.ended([other, six]) == [six]


@scenario
def without_consent_nothing_ends(lab):
    shedder = lab.start_shedder()
    with lab.connections(3) as (clients, _):
        time.sleep(IDLE_MS / 1000 + 0.3)
        answer = shedder.run(shedder.order(9))
        assert answer[1:] == (0, 0, 0, 0, "none", "off"), answer
        assert not lab.ended(clients)
    assert lab.status()["shed"] == {"method": "none", "orders": 0, "ended": 0}
    assert "shed " not in lab.command("status")


@scenario
def nothing_ends_after_the_agent_is_killed(lab):
    shedder = lab.start_shedder("--shed-idle")
    with lab.connections(60) as (clients, _):
        time.sleep(IDLE_MS / 1000 + 0.3)
        shedder.send(shedder.order(60, rate=10, timeout_ms=4500))
        assert shedder.take().result == "active"
        wait_for("a few ends", lambda: len(lab.ended(clients)) >= 5)
        lab.agent.signal(signal.SIGKILL)
        wait_for("the death", lambda: not lab.agent.alive())
        time.sleep(0.3)
        ended = len(lab.ended(clients))
        time.sleep(1.5)
        assert len(lab.ended(clients)) == ended < 60, ended
        assert not lab.backend.run("sh", "-c", "ip netns pids $(ip netns identify) | xargs -r "
                                   "ps -o comm= -p | grep weir-agent-shed || true").strip()


@scenario
def helper_has_no_more_than_one_capability(lab):
    def effective(name):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii") as file:
                fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
                if fields["Name"] == name and os.readlink(f"/proc/{pid}/ns/net") == os.readlink(
                        f"/proc/{lab.agent.pid}/ns/net"):
                    return int(fields["CapEff"], 16), fields["Uid"].split("\t")[1]
        return None
    lab.start_shedder("--shed-idle")
    assert effective("weir-agent-shed") == (1 << 12, "65534"), effective("weir-agent-shed")
    lab.end()
    lab.start_shedder("--shed-hook", "true")
    assert effective("weir-agent-shed") == (0, "65534"), effective("weir-agent-shed")


# --- the hook -----------------------------------------------------------------------------------

@scenario
def hook_gets_each_connection_once(lab):
    out = os.path.join(lab.dir, "hook")
    os.mkdir(out)
    os.chmod(out, 0o777)
    shedder = lab.start_shedder("--shed-hook", HOOK.format(out))
    with lab.connections(8) as (clients, _):
        dry = shedder.run(shedder.order(0))
        assert dry[1:] == (8, 8, 0, 0, "hook", "done"), dry
        assert not os.path.exists(f"{out}/runs")
        answer = shedder.run(shedder.order(3, keep=2))
        assert answer[1:] == (8, 5, 3, 3, "hook", "done"), answer
        answer = shedder.run(shedder.order(9, keep=2, timeout_ms=2500))
        assert answer.ended == 3 and answer.leaving == 6, answer
        with open(f"{out}/lines", encoding="ascii") as file:
            lines = file.read().splitlines()
        ports = [client.getsockname()[1] for client in clients]
        assert len(lines) == len(set(lines)) == 6, lines
        for line in lines:
            client, port, vip, vip_port = line.split()
            assert (client, vip, int(vip_port)) == (BALANCER, VIP, PORT) and int(port) in ports
        with open(f"{out}/runs", encoding="ascii") as file:
            assert file.read() == "web 3\nweb 3\n"
        assert not lab.ended(clients)  # the server did not close them


@scenario
def failed_hook_ends_its_order(lab):
    shedder = lab.start_shedder("--shed-hook", "cat > /dev/null; exit 3")
    with lab.connections(4):
        answer = shedder.run(shedder.order(2))
        assert (answer.ended, answer.result) == (2, "hook-failed"), answer
        assert "the command failed (exit 3" in lab.agent.tail(), lab.agent.tail()
        answer = shedder.run(shedder.order(1))
        assert (answer.ended, answer.result) == (1, "hook-failed"), answer


@scenario
def hook_that_hangs_fails_at_the_deadline_of_its_order(lab):
    shedder = lab.start_shedder("--shed-hook", "sleep 60 & wait")
    with lab.connections(6):
        for timeout_ms in (1000, 2500):
            began = time.monotonic()
            shedder.send(shedder.order(2, timeout_ms=timeout_ms))
            assert shedder.take().result == "active"
            assert lab.status()["word"] == "ready"
            answer = shedder.take(20)
            took_ms = (time.monotonic() - began) * 1000
            assert (answer.ended, answer.result) == (2, "hook-failed"), answer
            # weir-control accepts the answer until 500 ms after the deadline.
            assert timeout_ms - 200 <= took_ms < timeout_ms + 400, took_ms
            assert "the command was still running at the deadline" in lab.agent.tail(), lab.agent.tail()
            wait_for("its children to end", lambda: "sleep" not in lab.backend.run(
                "sh", "-c", "ip netns pids $(ip netns identify) | xargs -r ps -o comm= -p || true"))


@scenario
def hook_is_not_started_shortly_before_the_deadline(lab):
    shedder = lab.start_shedder("--shed-hook", "cat > /dev/null")
    with lab.connections(4):
        answer = shedder.run(shedder.order(2, timeout_ms=300))
        assert (answer.ended, answer.leaving, answer.result) == (0, 0, "done"), answer
        assert shedder.run(shedder.order(2)).ended == 2


if __name__ == "__main__":
    sys.exit(base.run_scenarios(Lab))
