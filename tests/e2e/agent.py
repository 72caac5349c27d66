# SPDX-License-Identifier: BSD-3-Clause
"""An agent controlled by tests: answers the probes of weir-control as specified in
docs/reference/agent-protocol.md, or incorrectly if a test needs it. Scenarios use it as a library
(class Agent, in a namespace of a lab). As a program, it runs many agents on loopback:

    agent.py --keys FILE --count N [--port P] [--seconds S]

It answers on port P of N addresses, from 127.1.0.1 on, and prints its counts as JSON at the end.
"""
import argparse
import hashlib
import hmac
import ipaddress
import json
import secrets
import select
import socket
import struct
import threading
import time

BYTES = 256
PROBE, ANSWER, STEAL, STEAL_ANSWER, TCP = 1, 2, 3, 4, 5
HEADER = struct.Struct("!4sBBH")
PROBE_FIELDS = struct.Struct("!QQ16sQQIII")
ANSWER_FIELDS = struct.Struct("!QQ16sQIIQQQQQQIIIIIIIIBB32s")
PORT_WORD_FIELDS = struct.Struct("!B48sH3s")  # follows ANSWER_FIELDS: port count, speed and model of CPUs
PORT_WORD = struct.Struct("!HBB")
PORT_WORDS, GCU = 1 << 31, 1 << 16
PROTOCOLS = {"tcp": 6, "udp": 17}
STEAL_FIELDS = struct.Struct("!QQQQ16sI16s16sIIB")
TCP_FIELDS = struct.Struct("!QQ16sQI")
TCP_FAMILY = struct.Struct("!QQQQIIII")
STEAL_ANSWER_FIELDS = struct.Struct("!QQQQ16s16sIIBB")
WORDS = {"nothing": 0, "starting": 1, "ready": 2, "lame-duck": 3, "down": 4}
FIELDS = ("service_time_ms", "service_count", "service_median_ms", "busy_time_ms", "busy_count",
          "requests_per_second", "errors_per_second", "utilization", "active_requests",
          "accept_queue", "accept_queue_limit", "cpus", "cpu_mhz", "max_active_flows")


def bit(field):
    return 1 << FIELDS.index(field)


def key_line(number, secret):
    return f"{number} {secret.hex()}\n"


def seal(kind, number, secret, fields):
    body = (HEADER.pack(b"WEIR", 1, kind, number) + fields).ljust(BYTES - 32, b"\0")
    return body + hmac.new(secret, body, hashlib.sha512).digest()[:32]


def open_sealed(data, secrets_by_id):
    """Returns (kind, key id, fields) of a datagram, or None if it is not authentic."""
    if len(data) != BYTES:
        return None
    magic, version, kind, number = HEADER.unpack_from(data)
    secret = secrets_by_id.get(number)
    if magic != b"WEIR" or version != 1 or secret is None:
        return None
    mac = hmac.new(secret, data[:BYTES - 32], hashlib.sha512).digest()[:32]
    return (kind, number, data[HEADER.size:BYTES - 32]) if hmac.compare_digest(
        mac, data[BYTES - 32:]) else None


class Balancer:
    """An agent's state for one weir-control."""

    def __init__(self):
        self.number = self.sequence = self.acknowledged = self.interval_ms = self.wants = 0
        self.challenge, self.address, self.probes = b"", None, []


class Agent:
    """One agent. Tests can also build single datagrams with answer()."""

    def __init__(self, sock, number, secret):
        self.sock, self.key = sock, (number, secret)
        self.process = secrets.randbits(63) | 1
        self.started = time.monotonic()
        self.word, self.serial, self.why = WORDS["ready"], 1, ""
        self.values = {}  # values of FIELDS, as in the datagram
        # states of ports, sent if requested: {("tcp", 80): "down"}, or ("down", 1), where 1 is the reason code
        self.port_words = {}
        self.balancers, self.silent = {}, False
        self.steal = None  # called with each steal request and its sender

    def answer(self, balancer, /, unasked=False, key=None, **over):
        """Returns an answer as a datagram. Values in `over` replace the correct values of fields."""
        number, secret = key or self.key
        at = {"agent": self.process, "balancer": balancer.number, "serial": self.serial,
              "challenge": balancer.challenge, "word": self.word, "why": self.why,
              "clock_ms": int((time.monotonic() - self.started) * 1000), **self.values, **over}
        given = at.get("given")
        if given is None:
            given = sum(bit(field) for field in FIELDS if field in at)
            given |= balancer.wants & PORT_WORDS
            given |= balancer.wants & GCU if "gcu" in at or "cpu_model" in at else 0
        ports = self.pack_port_words() if given & PORT_WORDS else []
        fields = ANSWER_FIELDS.pack(
            at["agent"], at["balancer"], at["challenge"], at["clock_ms"], at["serial"], given,
            at.get("service_time_ms", 0), at.get("service_count", 0),
            at.get("busy_time_ms", 0), at.get("busy_count", 0),
            at.get("requests_per_second", 0), at.get("errors_per_second", 0),
            at.get("service_median_ms", 0), at.get("utilization", 0),
            at.get("active_requests", 0), at.get("accept_queue", 0),
            at.get("accept_queue_limit", 0), at.get("cpus", 0), at.get("cpu_mhz", 0),
            at.get("max_active_flows", 0), at["word"], int(unasked), at["why"].encode())
        gcu, model = (at.get("gcu", 0), at.get("cpu_model", 0)) if given & GCU else (0, 0)
        fields += PORT_WORD_FIELDS.pack(len(ports), b"".join(ports), gcu, model.to_bytes(3, "big"))
        return seal(ANSWER, number, secret, fields)

    def pack_port_words(self):
        """Returns the announced states of the ports, as in the datagram."""
        packed = []
        for (protocol, port), said in self.port_words.items():
            word, reason = (said, 0) if isinstance(said, str) else said
            packed.append(PORT_WORD.pack(port, PROTOCOLS[protocol], WORDS[word] | reason << 4))
        return packed

    def steal_answer(self, request, result, **over):
        """Returns an answer to a steal request. Values in `over` replace the correct values of fields."""
        at = {**request, **over}
        return seal(STEAL_ANSWER, *self.key, STEAL_ANSWER_FIELDS.pack(
            at["agent"], at["balancer"], at["id"], int((time.monotonic() - self.started) * 1000),
            at["client"], at["vip"], at["client_port"], at["vip_port"], at["protocol"], result))

    def tcp_figures(self, balancer, **over):
        """Returns a datagram with TCP statistics: one IPv4 connection with a round-trip time of 1234 us."""
        at = {"agent": self.process, "balancer": balancer.number, "challenge": balancer.challenge,
              "clock_ms": int((time.monotonic() - self.started) * 1000), **over}
        fields = TCP_FIELDS.pack(at["agent"], at["balancer"], at["challenge"], at["clock_ms"], 7)
        return seal(TCP, *self.key, fields + TCP_FAMILY.pack(0, 0, 0, 0, 1, 1234, 1234, 0))

    def receive(self, data, address):
        """Receive a probe and answer it. Returns its balancer, or None."""
        opened = open_sealed(data, dict([self.key]))
        if opened is not None and opened[0] == STEAL and self.steal is not None:
            names = ("balancer", "id", "agent", "deadline_ms", "recipient", "recipient_port",
                     "client", "vip", "client_port", "vip_port", "protocol")
            self.steal(dict(zip(names, STEAL_FIELDS.unpack_from(opened[2]))), address)
        if opened is None or opened[0] != PROBE:
            return None
        (number, sequence, challenge, _, _, interval_ms, acknowledged,
         wants) = PROBE_FIELDS.unpack_from(opened[2])
        balancer = self.balancers.setdefault(number, Balancer())
        if sequence <= balancer.sequence:
            return None
        balancer.number, balancer.sequence, balancer.challenge = number, sequence, challenge
        balancer.interval_ms, balancer.acknowledged, balancer.wants = interval_ms, acknowledged, wants
        balancer.address = address
        balancer.probes.append(time.monotonic())
        if not self.silent:
            self.sock.sendto(self.answer(balancer), address)
        return balancer

    def tell(self, balancer):
        """Send one unsolicited answer with the current state."""
        self.sock.sendto(self.answer(balancer, unasked=True), balancer.address)


class Serving:
    """An Agent in a namespace, served by a thread."""

    def __init__(self, namespace, address, port, number, secret):
        with namespace.inside():
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET,
                                 socket.SOCK_DGRAM)
        sock.bind((address, port))
        self.agent = Agent(sock, number, secret)
        self.lock, self.over = threading.Condition(), False
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.agent.sock.close()

    def serve(self):
        repeat_at, pause = None, 0.05
        while not self.over:
            readable = select.select([self.agent.sock], [], [], 0.01)[0]
            with self.lock:
                if readable:
                    self.agent.receive(*self.agent.sock.recvfrom(512))
                    self.lock.notify_all()
                unheard = [b for b in self.agent.balancers.values()
                           if b.acknowledged < self.agent.serial and b.probes and not self.agent.silent]
                if not unheard:
                    repeat_at, pause = None, 0.05
                elif repeat_at is None:
                    repeat_at = time.monotonic() + pause
                elif time.monotonic() >= repeat_at:
                    for balancer in unheard:
                        self.agent.tell(balancer)
                    pause = min(pause * 2, 0.5)
                    repeat_at = time.monotonic() + pause

    def wait_for_probe(self, timeout=15):
        with self.lock:
            count = sum(len(b.probes) for b in self.agent.balancers.values())
            done = self.lock.wait_for(
                lambda: sum(len(b.probes) for b in self.agent.balancers.values()) > count, timeout)
            assert done, "no probe came"
            return self.newest()

    def newest(self):
        return max(self.agent.balancers.values(), key=lambda b: b.probes[-1])

    def say(self, word, why="", ports=None):
        """Send a new state of the host, and states of its ports, to every balancer without waiting for a probe."""
        with self.lock:
            self.agent.word, self.agent.why = WORDS[word], why
            self.agent.port_words = ports or {}
            self.agent.serial += 1
            for balancer in self.agent.balancers.values():
                self.agent.tell(balancer)


def many(keys, count, port, seconds):
    """Run `count` agents on loopback, each with its own address and socket."""
    with open(keys, encoding="ascii") as file:
        number, secret = next(line.split() for line in file if line.strip()[:1].isdigit())
    poll, agents = select.epoll(), {}
    first = int(ipaddress.ip_address("127.1.0.1"))
    for i in range(count):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.bind((str(ipaddress.ip_address(first + i)), port))
        poll.register(sock, select.EPOLLIN)
        agents[sock.fileno()] = Agent(sock, int(number), bytes.fromhex(secret))
    end, processor = time.monotonic() + seconds, time.process_time()
    while time.monotonic() < end:
        for fd, _ in poll.poll(0.1):
            agents[fd].receive(*agents[fd].sock.recvfrom(512))
    gaps = [b - a for agent in agents.values() for balancer in agent.balancers.values()
            for a, b in zip(balancer.probes[2:], balancer.probes[3:])]
    gaps.sort()
    probes = [len(balancer.probes) for agent in agents.values()
              for balancer in agent.balancers.values()]
    print(json.dumps({
        "agents": count, "asked": len(probes), "probes": sum(probes), "seconds": seconds,
        "gap_ms": {name: round(gaps[int(len(gaps) * share)] * 1000, 1) if gaps else None
                   for name, share in (("least", 0), ("median", 0.5), ("p99", 0.99),
                                       ("most", 1 - 1e-9))},
        "cpu_s": round(time.process_time() - processor, 2)}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--port", type=int, default=4777)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    many(arguments.keys, arguments.count, arguments.port, arguments.seconds)


if __name__ == "__main__":
    main()
