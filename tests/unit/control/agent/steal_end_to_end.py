#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the answers of weir-agent run --allow-steal to steal requests. The servers have real
sockets. The test creates the packets of the clients, so that they can leave a handshake half-open,
and captures all packets that are sent to such a client.

    balancer, clients  c0 ===== veth ===== eth0  backend: weir-agent run, servers
"""
import contextlib
import errno
import os
import random
import re
import select
import signal
import socket
import struct
import sys
import time

import agent_lab as base
from agent_lab import BACKEND, BACKEND6, KEYS, PORT, UDP_PORT, VIP, scenario, seal
from netns import sh, wait_for

CLIENT, CLIENT6 = "10.9.0.77", "2001:db8:9::77"  # addresses that no host has
STEAL = struct.Struct("!QQQQ16sI16s16sIIB")
ANSWER = struct.Struct("!QQQQ16s16sIIBB")
RESULTS = [None, "nothing-here", "removed", "running", "unsettled", "cookies", "no-listener",
           "cannot-tell", "late", "off"]
FIN, SYN, RST, ACK = 1, 2, 4, 16


def packed(address):
    return socket.inet_pton(socket.AF_INET6, address if ":" in address else f"::ffff:{address}")


def checksum(data):
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Wire:
    """Sends segments of simulated clients, and captures packets sent to them."""

    def __init__(self, lab):
        self.macs = lab.macs
        with lab.client.inside():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
            self.socket.bind(("c0", 0))
        self.seen = []  # (client port, flags, sequence number)

    def send(self, port, flags, seq=1000, ack=0, to=VIP, data=b"", options=b""):
        version = 6 if ":" in to else 4
        source, target = (CLIENT6, to) if version == 6 else (CLIENT, to)
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        source, target = socket.inet_pton(family, source), socket.inet_pton(family, target)
        tcp = struct.pack("!HHIIBBHHH", port, PORT, seq, ack, (20 + len(options)) << 2, flags, 8192,
                          0, 0) + options + data
        pseudo = source + target + struct.pack("!II", len(tcp), 6)
        tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
        if version == 6:
            ip = struct.pack("!IHBB", 6 << 28, len(tcp), 6, 64) + source + target
        else:
            ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + source + target
            ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        kind = b"\x86\xdd" if version == 6 else b"\x08\0"
        self.socket.send(self.macs[1] + self.macs[0] + kind + ip + tcp)

    def read(self):
        while select.select([self.socket], [], [], 0)[0]:
            frame = self.socket.recv(2048)
            kind, ip = frame[12:14], frame[14:]
            if frame[:6] != self.macs[0]:
                continue
            if kind == b"\x08\0" and ip[9] == 6 and ip[16:20] == socket.inet_aton(CLIENT):
                tcp = ip[(ip[0] & 15) * 4:]
            elif kind == b"\x86\xdd" and ip[6] == 6 and ip[24:40] == packed(CLIENT6):
                tcp = ip[40:]
            else:
                continue
            port, seq = struct.unpack("!2xHI", tcp[:8])
            self.seen.append((port, tcp[13], seq))
        return self.seen

    def answers(self, port, flags):
        """Returns the segments to this client port that have these flags."""
        return [seen for seen in self.read() if seen[0] == port and seen[1] & flags == flags]

    def handshake(self, port, **options):
        """Send a SYN; returns the SYN+ACK that answers it."""
        count = len(self.answers(port, SYN | ACK))
        self.send(port, SYN, **options)
        wait_for("SYN+ACK", lambda: len(self.answers(port, SYN | ACK)) > count)
        return self.answers(port, SYN | ACK)[-1][2]

    def close(self):
        self.socket.close()


class Thief(base.Balancer):
    """A simulated balancer that sends steal requests like weir-control."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.id, self.number_of_requests = 0, 0
        answer = self.ask()
        self.clock_ms, self.received_at = answer["clock_ms"], time.monotonic()

    def request(self, port, over=None):
        """Returns a steal request. over: {field: value that replaces the default}."""
        self.id += 1
        fields = {"balancer": self.number, "id": self.id, "agent": self.agent, "timeout_ms": 3000,
                  "recipient": self.to[0], "client": CLIENT, "vip": VIP, "vip_port": PORT,
                  "protocol": 6, **(over or {})}
        self.id = max(self.id, fields["id"])
        clock_ms = self.clock_ms + int((time.monotonic() - self.received_at) * 1000)
        body = STEAL.pack(fields["balancer"], fields["id"], fields["agent"],
                          max(0, clock_ms + fields["timeout_ms"]), packed(fields["recipient"]),
                          UDP_PORT, packed(fields["client"]), packed(fields["vip"]), port,
                          fields["vip_port"], fields["protocol"])
        head = b"WEIR" + struct.pack("!BBH", 1, 3, self.key)
        return seal((head + body).ljust(224, b"\0"), KEYS[self.key])

    def take(self, timeout=3.0):
        """Returns (result, id, client port) of the next answer, or None after the timeout."""
        if not select.select([self.socket], [], [], timeout)[0]:
            return None
        data, sender = self.socket.recvfrom(2048)
        assert len(data) == 256 and sender[:2] == self.to, (len(data), sender)
        assert data[:6] == b"WEIR\1\4" and seal(data[:224], KEYS[self.key]) == data
        assert not any(data[8 + ANSWER.size:224]), "rest"
        agent, balancer, number, _, _, _, port, _, _, result = ANSWER.unpack_from(data, 8)
        assert agent == self.agent and balancer == self.number
        return RESULTS[result], number, port

    def steal(self, port, over=None):
        """Steal a connection. Returns the result. Sends the request again if the agent refuses
        it because of the rate limit."""
        self.send(self.request(port, over))
        answer = self.take()
        assert answer is not None, "no answer"
        assert answer[1:] == ((over or {}).get("id", self.id), port), answer
        return answer[0]

    def steal_settled(self, port, over=None):
        """Repeat the request while its result is "unsettled", because the client's ACK may still
        arrive."""
        return wait_for("settled", lambda: self.last_but_unsettled(port, over), interval=0.05)

    def last_but_unsettled(self, port, over):
        result = self.steal(port, over)
        return result if result != "unsettled" else None


class Lab(base.Lab):
    def build(self):
        super().build()
        macs = [re.search(r"link/ether (\S+)", ns.ip("link", "show", name)).group(1)
                for ns, name in ((self.client, "c0"), (self.backend, "eth0"))]
        self.macs = [bytes.fromhex(mac.replace(":", "")) for mac in macs]
        for address in (CLIENT, CLIENT6):
            self.backend.ip("neigh", "add", address, "lladdr", macs[0], "dev", "eth0", "nud",
                            "permanent")

    def start_thief(self, *options):
        self.agent = self.start_agent("--allow-steal", "--port", str(PORT), *options)
        return self.thief()

    def thief(self, **options):
        self.balancers.append(Thief(self.client, **options))
        return self.balancers[-1]

    def wire(self):
        return contextlib.closing(Wire(self))

    def listen(self, backlog=64, address="", family=socket.AF_INET):
        with self.backend.inside():
            listener = socket.create_server((address, PORT), backlog=backlog, family=family,
                                            dualstack_ipv6=family == socket.AF_INET6)
        listener.settimeout(10)
        return contextlib.closing(listener)

    def half_open(self, *ports):
        """Returns the number of unfinished handshakes of these client ports."""
        peers = [line.split()[3] for line in self.backend.run(
            "ss", "-Htn", "state", "syn-recv").splitlines()]
        return sum(any(peer.endswith(f":{port}") for peer in peers) for port in ports)

    def overflows(self):
        names, values = [line.split() for line in self.backend.run("cat", "/proc/net/netstat")
                         .splitlines() if line.startswith("TcpExt:")]
        return int(values[names.index("ListenOverflows")])

    def refused(self, name):
        return self.status()["datagrams"]["refused"].get(name, 0)

    def expect_refused(self, thief, data, name):
        before = self.refused(name)
        thief.send(data)
        wait_for(name, lambda: self.refused(name) == before + 1)
        assert thief.take(0) is None, f"refused as {name}, but answered"

    def connect_from(self, port):
        with self.client.inside():
            connection = socket.socket()
        connection.settimeout(10)
        connection.bind((base.BALANCER, port))
        connection.connect((VIP, PORT))
        return connection

    def end(self):
        super().end()
        self.backend.sysctl(net__ipv4__tcp_syncookies=1, net__ipv4__tcp_fastopen=1)


# --- handshakes ---------------------------------------------------------------------------------

@scenario
def steal_without_a_socket_is_granted_once_per_request(lab):
    thief = lab.start_thief()
    with lab.listen(), lab.wire() as wire:
        assert thief.steal(2000) == "nothing-here"
        wire.handshake(2000)
        # A repeated request gets the stored answer, although a handshake has started meanwhile.
        assert thief.steal(2000, {"id": 1}) == "nothing-here"
        assert thief.steal(2000, {"id": 1}) == "nothing-here"
        assert lab.half_open(2000) == 1
        lab.expect_refused(thief, thief.request(2001, {"id": 1}), "flow")
        lab.expect_refused(thief, thief.request(2000, {"id": 1, "vip": BACKEND}), "flow")
        # Request ids are separate for each balancer, so this balancer may also use id 1.
        assert lab.thief(key=7).steal(2001, {"id": 1}) == "nothing-here"
        steals = lab.status()["steals"]
        assert steals == {"allowed": True, "nothing-here": 4}, steals
        assert "nothing-here" in lab.command("status")


@scenario
def steal_removes_a_handshake_without_a_reset(lab):
    thief = lab.start_thief()
    with lab.listen() as listener, lab.wire() as wire:
        begin = time.monotonic()
        wire.handshake(2000)
        wire.handshake(2001)
        first = thief.steal(2000)  # the result may be "unsettled", because the client's ACK may still arrive
        assert first == "unsettled" or time.monotonic() - begin > 0.5, first
        if first == "unsettled":
            assert thief.steal_settled(2000) == "removed"
        removed = thief.id
        assert lab.half_open(2000, 2001) == 1  # the other handshake stays
        assert thief.steal(2000) == "nothing-here"
        # The socket still listens, and the same client may start again.
        number = wire.handshake(2000, seq=5000)
        # A repeated request has no effect on a connection started after the first request.
        assert thief.steal(2000, {"id": removed}) == "removed"
        wire.send(2000, ACK, seq=5001, ack=number + 1)
        with listener.accept()[0] as connection:
            assert connection.getpeername() == (CLIENT, 2000)
            assert not [seen for seen in wire.read() if seen[1] & RST], wire.seen
            wire.send(2000, RST, seq=5001)  # reset the connection, so that it does not remain for later scenarios
            wait_for("the end of the connection", lambda: connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET)
    assert "cannot remove" not in lab.agent.tail(), lab.agent.tail()


@scenario
def either_the_steal_or_the_ack_succeeds(lab):
    """The steal request and the client's ACK arrive at the same time. If the agent has removed the
    handshake, this host does not serve the connection. If the ACK arrives between the agent's
    lookup and the removal, it completes the connection; the removal then closes the connection, and
    the client gets an RST."""
    thief = lab.start_thief()
    removed, running, served = set(), set(), set()
    with lab.listen() as listener, lab.wire() as wire:
        for first in range(4000, 4060, 20):
            ports = range(first, first + 20)
            numbers = {port: wire.handshake(port) for port in ports}
            time.sleep(0.6)  # the SYN+ACK is now old enough for a steal
            for port in ports:
                question = thief.request(port)
                for step in random.sample(("ask", "ack"), 2):
                    if step == "ask":
                        thief.send(question)
                    else:
                        wire.send(port, ACK, seq=1001, ack=numbers[port] + 1, data=b"question")
                    wait_until = time.monotonic() + random.random() / random.choice((200, 1000, 5000))
                    while time.monotonic() < wait_until:
                        pass
            while len(removed | running) < first + 20 - 4000:
                result, _, port = thief.take() or ("silence", 0, 0)
                assert result in ("removed", "running", "unsettled"), result
                (removed if result == "removed" else running).add(port)
        listener.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            while True:
                connection, (_, port) = listener.accept()
                with connection, contextlib.suppress(OSError):
                    assert connection.recv(8) == b"question"
                    served.add(port)
        resets = {port for port in removed | running if wire.answers(port, RST)}
    print(f"  {len(removed)} removed, {len(running)} not, {len(served)} served, "
          f"{len(resets)} reset")
    assert not (removed & served) - resets, (removed & served) - resets


@scenario
def steal_removes_a_handshake_of_ipv6(lab):
    thief = lab.start_thief()
    flow = {"client": CLIENT6, "vip": BACKEND6}
    with lab.listen(address="::", family=socket.AF_INET6), lab.wire() as wire:
        assert thief.steal(2000, flow) == "nothing-here"
        wire.handshake(2000, to=BACKEND6)
        assert thief.steal_settled(2000, flow) == "removed"
        assert lab.half_open(2000) == 0
        # A listener for both address families also accepts IPv4 connections.
        wire.handshake(2001)
        assert thief.steal_settled(2001) == "removed"
        assert not [seen for seen in wire.read() if seen[1] & RST], wire.seen


@scenario
def steal_of_a_connection_is_refused(lab):
    """A complete connection cannot be stolen, because the application has it or may get it. It
    makes no difference whether the server has not accepted, has accepted or has closed the
    connection."""
    thief = lab.start_thief()
    flow = {"client": base.BALANCER}
    with lab.listen() as listener, lab.connect_from(3000) as client:
        assert thief.steal(3000, flow) == "running"
        with listener.accept()[0] as server:
            assert thief.steal(3000, flow) == "running"
            client.send(b"question")
            assert server.recv(8) == b"question"
            server.send(b"answer")
            assert client.recv(6) == b"answer"
        assert thief.steal(3000, flow) == "running"
        assert client.recv(1) == b""
    assert thief.steal(3000, flow) == "running"  # the socket is in TIME-WAIT


@scenario
def steal_of_a_fast_open_connection_is_refused(lab):
    """With TCP Fast Open, the application may get the connection when the SYN arrives, although its
    state is SYN_RECV."""
    # Enable TCP Fast Open for any client and listener, without cookies
    lab.backend.sysctl(net__ipv4__tcp_fastopen=0x602)
    thief = lab.start_thief()
    with lab.listen() as listener, lab.wire() as wire:
        wire.send(2100, SYN, data=b"question", options=struct.pack("!BBBB", 34, 2, 1, 1))
        with listener.accept()[0] as connection:
            assert connection.recv(8) == b"question"
            assert lab.half_open(2100) == 1
            # the result is "running" even after the time in which a client's ACK may arrive
            deadline = time.monotonic() + 0.7
            while time.monotonic() < deadline:
                assert thief.steal(2100) == "running"
                time.sleep(0.05)
            connection.send(b"answer")
            assert not [seen for seen in wire.read() if seen[1] & RST], wire.seen


@scenario
def steal_from_a_full_accept_queue_is_granted(lab):
    """The accept queue is full, so the kernel drops the SYN. The host has no state of the
    connection, and grants the steal."""
    lab.backend.sysctl(net__ipv4__tcp_syncookies=0)
    thief = lab.start_thief()
    with lab.listen(backlog=1), lab.wire() as wire, contextlib.ExitStack() as clients:
        for port in (3000, 3001):
            clients.enter_context(lab.connect_from(port))
        dropped = lab.overflows()
        wire.send(2000, SYN)
        wait_for("the drop", lambda: lab.overflows() > dropped)
        assert thief.steal(2000) == "nothing-here"
        assert thief.steal(3001, {"client": base.BALANCER}) == "running"
        # Check only packets to this client, because connections of earlier clients may still be
        # closing.
        assert not [seen for seen in wire.read() if seen[0] == 2000], wire.seen


@scenario
def steal_without_a_listener_is_refused(lab):
    """The agent refuses, because the server may be in another network namespace, whose sockets the
    agent cannot read."""
    thief = lab.start_thief()
    assert thief.steal(2000) == "no-listener"
    with lab.listen(address=BACKEND):
        assert thief.steal(2000) == "no-listener"
        assert thief.steal(2000, {"vip": BACKEND}) == "nothing-here"


# --- requests -----------------------------------------------------------------------------------

@scenario
def late_or_misdirected_steal_requests_do_nothing(lab):
    thief = lab.start_thief()
    with lab.listen(), lab.wire() as wire:
        wire.handshake(2000)
        assert thief.steal_settled(2001) == "nothing-here"
        recorded = thief.request(2000, {"timeout_ms": 150})
        assert thief.steal(2000, {"timeout_ms": -1}) == "late"
        lab.expect_refused(thief, thief.request(2000, {"timeout_ms": 60000}), "value")
        lab.expect_refused(thief, thief.request(2000, {"protocol": 17}), "value")
        lab.expect_refused(thief, thief.request(2000, {"agent": thief.agent ^ 1}), "agent")
        lab.expect_refused(thief, thief.request(2000, {"recipient": VIP}), "recipient")
        damaged = bytearray(thief.request(2000))
        damaged[100] ^= 1
        lab.expect_refused(thief, bytes(damaged), "mac")
        lab.expect_refused(thief, thief.request(2000)[:-1], "length")
        time.sleep(0.2)  # wait until the deadline of the request has passed
        thief.send(recorded)  # replayed by a sender without the key
        assert thief.take()[0] == "late"
        assert lab.half_open(2000) == 1
        assert thief.steal_settled(2000) == "removed"


@scenario
def steal_requests_beyond_the_rate_are_not_processed(lab):
    thief = lab.start_thief()
    sent = answered = 0
    with lab.listen():
        begin = time.monotonic()
        while lab.refused("rate") == 0:  # on a loaded machine, more than one request is needed
            assert sent < 2000
            for _ in range(100):
                sent += 1
                thief.send(thief.request(20000 + sent))  # not a connection of another scenario
            while answered + lab.refused("rate") < sent:
                answer = thief.take()
                assert answer is None or answer[0] == "nothing-here", answer
                answered += answer is not None
        assert 24 <= answered <= 24 + (time.monotonic() - begin) * 200 + 1, answered
        assert thief.steal(20000) == "nothing-here"  # a later request is processed again


@scenario
def steal_is_off_without_the_option_and_at_other_ports(lab):
    lab.start_agent("--port", str(PORT))
    with lab.listen(), lab.wire() as wire:
        wire.handshake(2000)
        thief = lab.thief()
        assert thief.steal(2000) == "off"
        assert lab.status()["steals"] == {"allowed": False, "off": 1}
        lab.end()
        lab.agent = lab.start_agent("--allow-steal", "--port", str(PORT + 1))
        assert lab.thief().steal(2000) == "off"
        assert lab.half_open(2000) == 1


# --- processes -----------------------------------------------------------------------------------

def capabilities(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        text = file.read()
    return {int(value, 16) for value in re.findall(r"Cap(?:Prm|Eff|Inh|Amb):\s(\w+)", text)}, \
        re.search(r"Uid:\s(\d+)", text).group(1)


@scenario
def steal_helpers_have_one_capability(lab):
    lab.start_thief()
    assert capabilities(lab.agent.pid) == ({0}, "65534")
    helpers = {capabilities(pid)[0].difference({0}).pop(): pid
               for pid in sh("ps", "-o", "pid=", "--ppid", lab.agent.pid).split()}
    # one helper has CAP_NET_ADMIN, the other CAP_PERFMON and CAP_BPF
    assert set(helpers) == {1 << 12, 1 << 38 | 1 << 39}, helpers
    helper = helpers[1 << 12]
    assert capabilities(helper)[1] == "65534"
    assert base.sockets_of(helper) == 2  # its connection to the agent, and netlink
    os.kill(lab.agent.pid, signal.SIGKILL)
    for pid in helpers.values():
        wait_for("the helper to end", lambda p=pid: not os.path.exists(f"/proc/{p}"))


@scenario
def steal_continues_without_its_helper(lab):
    """Without its helper, the agent can still report that a handshake does not exist; it refuses
    all other requests."""
    thief = lab.start_thief()
    with lab.listen(), lab.wire() as wire:
        wire.handshake(2000)
        helper = [pid for pid in sh("ps", "-o", "pid=", "--ppid", lab.agent.pid).split()
                  if 1 << 12 in capabilities(pid)[0]]
        os.kill(int(helper[0]), signal.SIGKILL)
        wait_for("the end of the helper in the log", lambda: "the helper process for --allow-steal has exited" in lab.agent.tail())
        assert "has exited" in lab.status()["steals"]["problem"], lab.status()
        assert "half-open connections are not removed; restart weir-agent" in lab.command("status")
        assert thief.steal_settled(2000) == "cannot-tell"
        assert lab.half_open(2000) == 1
        assert thief.steal(2001) == "nothing-here"


@scenario
def steal_by_a_stopped_helper_is_late(lab):
    """The helper is stopped, and continues after the deadline of the request. It must then not
    remove the handshake."""
    thief = lab.start_thief()
    helper = [int(pid) for pid in sh("ps", "-o", "pid=", "--ppid", lab.agent.pid).split()
              if 1 << 12 in capabilities(pid)[0]][0]
    with lab.listen(), lab.wire() as wire:
        for port in range(2300, 2320):
            wire.handshake(port)
            time.sleep(0.6)  # now the SYN+ACK is old enough for a steal, unless the kernel has retransmitted it
            os.kill(helper, signal.SIGSTOP)
            request = thief.request(port, {"timeout_ms": 1000})
            thief.send(request)
            thief.send(request)  # the first request is still being processed, so both requests get a single answer
            if thief.take(1.2) is None:
                break
            os.kill(helper, signal.SIGCONT)
            thief.take()
        os.kill(helper, signal.SIGCONT)
        assert thief.take()[0] == "late"
        assert thief.take(0.1) is None
        assert lab.half_open(port) == 1


@scenario
def steal_by_a_helper_that_hangs_is_logged(lab):
    """The helper hangs, and requests wait for it until their queue is full. The log then contains
    the reason."""
    thief = lab.start_thief()
    helper = [int(pid) for pid in sh("ps", "-o", "pid=", "--ppid", lab.agent.pid).split()
              if 1 << 12 in capabilities(pid)[0]][0]
    with lab.listen(), lab.wire() as wire:
        wire.handshake(2350)
        os.kill(helper, signal.SIGSTOP)

        def full():
            for _ in range(20):
                thief.send(thief.request(2350))
            while (answer := thief.take(0)) is not None:
                if answer[0] == "cannot-tell":
                    return True
            return False
        wait_for("no place for more", full, 60, 0.1)
        assert "weir-agent-net hangs or is stopped" in lab.agent.tail(), lab.agent.tail()
        os.kill(helper, signal.SIGCONT)


@scenario
def steal_needs_ports_and_the_capability(lab):
    for status, expected, *words in (
            (2, "--allow-steal needs --port", lab.agent_binary),
            (1, "--allow-steal needs CAP_NET_ADMIN", "setpriv", "--bounding-set", "-net_admin",
             "--inh-caps", "-net_admin", lab.agent_binary)):
        ports = ("--port", str(PORT)) if status == 1 else ()
        program = lab.start("refused", lab.backend, *words, "run", "--allow-steal", "--key-file",
                            lab.keys, "--run-dir", lab.run_dir, *ports)
        assert program.process.wait(10) == status, program.tail()
        assert expected in program.tail(), program.tail()


# --- SYN cookies --------------------------------------------------------------------------------

@scenario
def steal_is_refused_while_cookies_may_be_valid(lab):
    """The queue of the listener has room for one half-open connection; the kernel answers further
    SYNs with SYN cookies. This scenario is the last one, because cookies are valid in this network
    namespace for up to two minutes."""
    thief = lab.start_thief()
    with lab.listen(backlog=1), lab.wire() as wire:
        assert thief.steal(2200) == "nothing-here"
        for port in range(2200, 2210):
            wire.handshake(port)
        assert lab.half_open(*range(2200, 2210)) < 10
        assert thief.steal(2209) == "cookies"
        assert thief.steal_settled(2200) == "cookies"
        lab.backend.sysctl(net__ipv4__tcp_syncookies=0)  # the kernel no longer accepts cookies
        assert thief.steal_settled(2200) == "removed"
        lab.backend.sysctl(net__ipv4__tcp_syncookies=2)
        assert thief.steal(2250) == "cookies"
    # A new agent process cannot determine when the kernel sent the last cookie, so it refuses.
    lab.backend.sysctl(net__ipv4__tcp_syncookies=1)
    lab.agent.signal(signal.SIGINT)
    lab.agent.process.wait(5)
    thief = lab.start_thief()
    with lab.listen():
        assert thief.steal(2250) == "cookies"


if __name__ == "__main__":
    sys.exit(base.run_scenarios(Lab))
