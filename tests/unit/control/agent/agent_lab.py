# SPDX-License-Identifier: BSD-3-Clause
"""A lab for weir-agent run, with balancers that probe it, and servers and clients that it measures.

    client, balancers  c0 ===== veth ===== eth0  backend: weir-agent run, servers
                 10.9.0.1                  10.9.0.2, 2001:db8:9::2; 198.51.100.10 on lo
"""
import contextlib
import hashlib
import hmac
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "e2e"))
from netns import Namespace, Program, sh, wait_for  # noqa: E402

BALANCER, BACKEND, VIP = "10.9.0.1", "10.9.0.2", "198.51.100.10"
BALANCER6, BACKEND6 = "2001:db8:9::1", "2001:db8:9::2"
UDP_PORT, PORT, ORCA_PORT = 4777, 8000, 8001
DNS, OTHER = 8053, PORT + 10
KEYS = {1: bytes(range(32)), 7: bytes(range(32, 64))}
WORDS = ["nothing", "starting", "ready", "lame-duck", "down"]
FIELDS = ["service_time_ms", "service_count", "service_median_ms", "busy_time_ms", "busy_count",
          "requests_per_second", "errors_per_second", "utilization", "active_requests",
          "accept_queue", "accept_queue_limit", "cpus", "cpu_mhz", "max_active_flows"]
BITS = {name: 1 << i for i, name in enumerate(FIELDS)}
ALL = sum(BITS.values())
BITS["gcu"] = 1 << 16
BITS["port_words"] = 1 << 31
PORT_WORD, PROTOCOLS = struct.Struct("!HBB"), {6: "tcp", 17: "udp"}
PROBE = struct.Struct("!QQ16sQQIII16sI")
ANSWER = struct.Struct("!QQ16sQIIQQQQQQIIIIIIIIBB32sB48sH3s")
ANSWER_FIELDS = ("agent balancer challenge clock_ms serial given service_sum_us service_count "
                 "busy_sum_us busy_count requests_milli_per_s errors_milli_per_s "
                 "service_median_us utilization_ppm active accept_queue accept_queue_limit "
                 "cpu_milli cpu_mhz max_active_flows word unasked why port_word_count port_words "
                 "gcu_milli cpu_model").split()


def seal(data, secret):
    return data + hmac.new(secret, data, hashlib.sha512).digest()[:32]


class Balancer:
    """A simulated balancer, which probes the agent like weir-control."""

    def __init__(self, namespace, to=BACKEND, wants=0, key=1):
        family = socket.AF_INET6 if ":" in to else socket.AF_INET
        with namespace.inside():
            self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.to, self.wants, self.key = (to, UDP_PORT), wants, key
        self.number = int.from_bytes(os.urandom(8), "big") | 1
        self.sequence = self.agent = self.acknowledged = 0
        self.interval_ms = 2000
        self.challenge = self.challenge_before = b""

    def probe(self, recipient=None):
        """Returns a probe. recipient: the (address, port) in the probe, if different from its
        destination."""
        self.sequence += 1
        self.challenge_before, self.challenge = self.challenge, os.urandom(16)
        to = (recipient or self.to)[0]
        address = to if ":" in to else f"::ffff:{to}"
        body = PROBE.pack(self.number, self.sequence, self.challenge, self.agent, 1,
                          self.interval_ms, self.acknowledged, self.wants,
                          socket.inet_pton(socket.AF_INET6, address), (recipient or self.to)[1])
        head = b"WEIR" + struct.pack("!BBH", 1, 1, self.key)
        return seal((head + body).ljust(224, b"\0"), KEYS[self.key])

    def send(self, data):
        self.socket.sendto(data, self.to)

    def receive(self, timeout=1.0):
        """Returns the next answer as a dict, or None."""
        if not select.select([self.socket], [], [], timeout)[0]:
            return None
        data, sender = self.socket.recvfrom(2048)
        assert len(data) == 256, len(data)
        assert sender[:2] == self.to, f"{sender} answers for {self.to}"
        key = struct.unpack("!H", data[6:8])[0]
        assert data[:6] == b"WEIR\1\2" and key == self.key, data[:8]
        assert seal(data[:224], KEYS[key]) == data, "not authentic"
        assert not any(data[8 + ANSWER.size:224]), "rest"
        answer = dict(zip(ANSWER_FIELDS, ANSWER.unpack_from(data, 8)))
        assert answer["balancer"] == self.number
        # An unsolicited answer may have been sent before the agent got the newest probe.
        assert answer["challenge"] == self.challenge or (
            answer["unasked"] and answer["challenge"] == self.challenge_before)
        answer["word"] = WORDS[answer["word"]]
        answer["given"] = {name for name, bit in BITS.items() if answer["given"] & bit}
        words = list(PORT_WORD.iter_unpack(answer.pop("port_words")))
        assert not any(any(word) for word in words[answer["port_word_count"]:]), words
        answer["ports"] = {f"{port}/{PROTOCOLS[protocol]}": (WORDS[both & 15], both >> 4)
                           for port, protocol, both in words[:answer["port_word_count"]]}
        return answer

    def ask(self, hear=True):
        self.send(self.probe())
        answer = self.receive(10)
        while answer is not None and answer["challenge"] != self.challenge:
            answer = self.receive(10)
        assert answer is not None, "no answer"
        assert not answer["unasked"]
        if hear:
            self.agent, self.acknowledged = answer["agent"], answer["serial"]
        return answer

    def close(self):
        self.socket.close()


class Lab:
    def __init__(self, agent):
        self.agent_binary = agent
        self.dir = tempfile.mkdtemp(prefix="weir-agent-")
        os.chmod(self.dir, 0o755)
        self.client = Namespace(f"weir-{os.getpid()}-client").create()
        self.backend = Namespace(f"weir-{os.getpid()}-backend").create()
        self.programs, self.balancers = [], []
        self.keys = os.path.join(self.dir, "keys")
        self.run_dir = os.path.join(self.dir, "run")

    def build(self):
        self.client.ip("link", "add", "c0", "type", "veth", "peer", "name", "eth0", "netns",
                       self.backend.name)
        for namespace, name, *addresses in ((self.client, "c0", BALANCER, BALANCER6),
                                            (self.backend, "eth0", BACKEND, BACKEND6)):
            namespace.ip("link", "set", name, "up")
            namespace.ip("addr", "add", f"{addresses[0]}/24", "dev", name)
            namespace.ip("addr", "add", f"{addresses[1]}/64", "dev", name, "nodad")
        self.backend.ip("addr", "add", f"{VIP}/32", "dev", "lo")
        self.client.ip("route", "add", VIP, "via", BACKEND)
        self.write_keys(1, 7)

    def write_keys(self, *ids):
        with open(self.keys, "w", encoding="ascii") as file:
            file.writelines(f"{id} {KEYS[id].hex()}\n" for id in ids)
        os.chmod(self.keys, 0o640)
        os.chown(self.keys, 0, 65534)  # the agent runs as user nobody, and must be able to read the keys

    def start(self, name, namespace, *command):
        log = os.path.join(self.dir, f"{len(self.programs)}-{name}.log")
        program = Program(name, namespace, command, log)
        self.programs.append(program)
        return program

    def start_agent(self, *options):
        agent = self.start("agent", self.backend, self.agent_binary, "run", "--key-file",
                           self.keys, "--run-dir", self.run_dir, *options)
        wait_for(f"agent {options}", lambda: "answering" in agent.tail() or self.died(agent))
        return agent

    def command(self, *words):
        return self.backend.run(self.agent_binary, *words, "--run-dir", self.run_dir)

    def status(self):
        return json.loads(self.command("status", "--json"))

    def balancer(self, **options):
        self.balancers.append(Balancer(self.client, **options))
        return self.balancers[-1]

    def metered_balancer(self):
        """Returns a balancer that requests all measurements. Waits until the agent's meter is loaded."""
        balancer = self.balancer(wants=ALL)
        wait_for("the meter", lambda: "active_requests" in balancer.ask()["given"])
        return balancer

    def connect(self, port=PORT):
        with self.client.inside():
            connection = socket.socket()
        connection.settimeout(10)
        connection.connect((BACKEND, port))
        return connection

    @staticmethod
    def died(program):
        if not program.alive():
            raise RuntimeError(f"{program.name} ended: {program.tail()}")
        return False

    def listen(self, backlog=64):
        with self.backend.inside():
            listener = socket.create_server((BACKEND, PORT), backlog=backlog)
        return contextlib.closing(listener)

    def end(self):
        """End all programs after a scenario."""
        for program in self.programs:
            program.signal(signal.SIGINT)
            program.stop(0.2)
        for balancer in self.balancers:
            balancer.close()
        self.programs, self.balancers = [], []
        # A killed agent leaves its lame-duck state in this folder. The agent of the next scenario would restore it.
        sh("rm", "-rf", self.run_dir)
        self.write_keys(1, 7)

    def close(self):
        self.end()
        self.client.remove()
        self.backend.remove()
        sh("rm", "-rf", self.dir)


def finish(client, server):
    """Close both sockets of a connection. The server closes first."""
    server.close()
    assert client.recv(1) == b""
    client.close()


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# --- servers, and the states of their ports ---

def listen(lab, address=BACKEND, port=PORT, kind=socket.SOCK_STREAM, namespace=None):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with (namespace or lab.backend).inside():
        server = socket.socket(family, kind)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind((address, port))
    if kind == socket.SOCK_STREAM:
        server.listen()
    return server


def reader(lab, **options):
    """Returns a balancer that requests the states of ports, after the agent has registered it."""
    balancer = lab.balancer(wants=BITS["port_words"], **options)
    balancer.ask(), balancer.ask()
    return balancer


def sockets_of(pid):
    """Count the sockets that a process has open. It may open and close files meanwhile."""
    count = 0
    for file in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(file.path).startswith("socket:")
    return count


def port_of(lab, number=PORT):
    return next(port for port in lab.status()["ports"] if port["port"] == number)


def notice(balancer, timeout=5):
    """Returns the next unsolicited answer, and acknowledges it."""
    answer = balancer.receive(timeout)
    assert answer is not None and answer["unasked"], answer
    while (repeated := balancer.receive(0)) is not None:
        assert repeated["serial"] == answer["serial"], (answer, repeated)
    balancer.acknowledged = answer["serial"]
    balancer.ask()
    return answer


SERVER = """
import socket, sys, time
servers = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
print("listening", flush=True)
time.sleep(1000)
"""


def start_server(lab, *ports):
    with lab.backend.inside():
        process = subprocess.Popen(["/usr/bin/python3", "-c", SERVER, *map(str, ports)],
                                   stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "listening\n"
    return process


SCENARIOS = []


def scenario(function):
    """Register a scenario: run_scenarios calls it with its lab, in the order of the file."""
    SCENARIOS.append(function)
    return function


def run_scenarios(make_lab=Lab):
    """The main function of a file of scenarios. Command line: FILE WEIR-AGENT [SCENARIO...]"""
    if os.geteuid() != 0:
        print("needs root")
        return 77
    chosen = sys.argv[2:]
    lab = make_lab(os.path.abspath(sys.argv[1]))
    try:
        lab.build()
        for function in SCENARIOS:
            if chosen and function.__name__ not in chosen:
                continue
            print(function.__name__, flush=True)
            function(lab)
            lab.end()
    finally:
        for program in lab.programs:
            print(f"--- {program.name}\n{program.tail()}")
        lab.close()
    print(f"{len(chosen) or len(SCENARIOS)} scenarios")
    return 0
