#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-agent run for real: balancers that probe it, servers and clients whose numbers it tells.

    client, balancers  c0 ===== veth ===== eth0  backend: weir-agent run, servers
                 10.9.0.1                  10.9.0.2, 2001:db8:9::2; 198.51.100.10 on lo
"""
import contextlib
import glob
import hashlib
import hmac
import http.server
import json
import os
import re
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "e2e"))
from netns import Namespace, Program, sh, wait_for  # noqa: E402

BALANCER, BACKEND, VIP = "10.9.0.1", "10.9.0.2", "198.51.100.10"
BALANCER6, BACKEND6 = "2001:db8:9::1", "2001:db8:9::2"
UDP_PORT, PORT, ORCA_PORT = 4777, 8000, 8001
KEYS = {1: bytes(range(32)), 7: bytes(range(32, 64))}
WORDS = ["nothing", "starting", "ready", "lame-duck", "down"]
FIELDS = ["service_time_ms", "service_count", "service_median_ms", "busy_time_ms", "busy_count",
          "requests_per_second", "errors_per_second", "utilization", "active_requests",
          "accept_queue", "accept_queue_limit", "cpus", "cpu_mhz", "max_active_flows"]
BITS = {name: 1 << i for i, name in enumerate(FIELDS)}
ALL = sum(BITS.values())
PROBE = struct.Struct("!QQ16sQQIII16sI")
ANSWER = struct.Struct("!QQ16sQIIQQQQQQIIIIIIIIBB32s")
ANSWER_FIELDS = ("agent balancer challenge clock_ms serial given service_sum_us service_count "
                 "busy_sum_us busy_count requests_milli_per_s errors_milli_per_s "
                 "service_median_us utilization_ppm active accept_queue accept_queue_limit "
                 "cpu_milli cpu_mhz max_active_flows word unasked why").split()


def seal(data, secret):
    return data + hmac.new(secret, data, hashlib.sha512).digest()[:32]


class Balancer:
    """Probes the agent as weir-control does."""

    def __init__(self, namespace, to=BACKEND, wants=0, key=1):
        family = socket.AF_INET6 if ":" in to else socket.AF_INET
        with namespace.inside():
            self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.to, self.wants, self.key = (to, UDP_PORT), wants, key
        self.number = int.from_bytes(os.urandom(8), "big") | 1
        self.sequence = self.agent = self.heard = 0
        self.interval_ms = 2000
        self.challenge = b""

    def probe(self, recipient=None):
        """recipient: (address, port), if it is not the one that it is sent to."""
        self.sequence += 1
        self.challenge = os.urandom(16)
        to = (recipient or self.to)[0]
        address = to if ":" in to else f"::ffff:{to}"
        body = PROBE.pack(self.number, self.sequence, self.challenge, self.agent, 1,
                          self.interval_ms, self.heard, self.wants,
                          socket.inet_pton(socket.AF_INET6, address), (recipient or self.to)[1])
        head = b"WEIR" + struct.pack("!BBH", 1, 1, self.key)
        return seal((head + body).ljust(224, b"\0"), KEYS[self.key])

    def send(self, data):
        self.socket.sendto(data, self.to)

    def receive(self, timeout=1.0):
        """An answer as a dict, or None."""
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
        assert answer["balancer"] == self.number and answer["challenge"] == self.challenge
        answer["word"] = WORDS[answer["word"]]
        answer["given"] = {name for name in FIELDS if answer["given"] & BITS[name]}
        return answer

    def ask(self, hear=True):
        self.send(self.probe())
        answer = self.receive()
        assert answer is not None, "no answer"
        assert not answer["unasked"]
        if hear:
            self.agent, self.heard = answer["agent"], answer["serial"]
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
        os.chown(self.keys, 0, 65534)  # to be read again by the agent, which is nobody

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
        """One that wants everything, when the meter is there."""
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
        """After a scenario."""
        for program in self.programs:
            program.signal(signal.SIGINT)
            program.stop(0.2)
        for balancer in self.balancers:
            balancer.close()
        self.programs, self.balancers = [], []
        self.write_keys(1, 7)

    def close(self):
        self.end()
        self.client.remove()
        self.backend.remove()
        sh("rm", "-rf", self.dir)


def finish(client, server):
    """The server closes first."""
    server.close()
    assert client.recv(1) == b""
    client.close()


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# --- datagrams ----------------------------------------------------------------------------------

def agent_answers_who_has_the_key_and_counts_the_others(lab):
    agent = lab.start_agent("--max-active-flows", "1k")
    balancer = lab.balancer()
    answer = balancer.ask()
    assert (answer["word"], answer["serial"], answer["why"]) == \
        ("ready", 1, b"started".ljust(32, b"\0")), answer
    assert answer["given"] == {"max_active_flows"} and answer["max_active_flows"] == 1000, answer
    lab.balancer(to=BACKEND6, key=7).ask()
    lab.balancer(to=VIP).ask()  # the answer comes from the VIP
    good = balancer.probe()
    damaged = bytearray(good)
    damaged[20] ^= 1
    unknown = seal(good[:6] + struct.pack("!H", 9) + good[8:224], KEYS[1])
    for expected, data in (("length", good[:-1]), ("length", good + b"\0"), ("length", b""),
                           ("magic", b"R" + good[1:]), ("mac", bytes(damaged)), ("key", unknown),
                           ("version", good[:4] + b"\2" + good[5:])):
        before = lab.status()["datagrams"]["refused"].get(expected, 0)
        balancer.send(data)
        wait_for(expected, lambda e=expected, b=before: lab.status()["datagrams"]["refused"]
                 .get(e, 0) == b + 1)
    assert balancer.receive(0.2) is None, "a refused probe was answered"
    balancer.send(good)
    assert balancer.receive() is not None
    balancer.send(good)
    wait_for("replay", lambda: lab.status()["datagrams"]["refused"].get("replay") == 1)
    assert balancer.receive(0.2) is None, "a replay was answered"
    assert lab.status()["datagrams"]["answered"] == 4
    agent.signal(signal.SIGINT)  # without a drain
    assert agent.process.wait(2) == 0, agent.tail()


def agent_answers_no_probe_to_another_one(lab):
    """Else the answer could be passed off as that one's, and its numbers would hide those to come."""
    lab.start_agent()
    balancer, other = lab.balancer(), lab.balancer(to=BACKEND6)
    for each, elsewhere in ((balancer, (VIP, UDP_PORT)), (balancer, (BACKEND, UDP_PORT + 1)),
                            (other, ("2001:db8:9::3", UDP_PORT))):
        each.ask(), each.ask()
        before = lab.status()["datagrams"]["refused"].get("recipient", 0)
        sequence, each.sequence = each.sequence, each.sequence + 1000
        each.send(each.probe(recipient=elsewhere))
        wait_for("refusal", lambda b=before: lab.status()["datagrams"]["refused"].get(
            "recipient", 0) == b + 1)
        assert each.receive(0.2) is None, "a probe to another one was answered"
        each.sequence = sequence
        each.ask()


def agent_keeps_nothing_of_recorded_probes(lab):
    """Those of a weir-control that has ended, or to a process of the agent that has"""
    agent = lab.start_agent()
    dead = [lab.balancer() for _ in range(70)]
    for each in dead:
        each.agent, each.sequence = 77, 1 << 40
        each.send(each.probe())
        assert each.receive() is not None
    assert lab.status()["balancers"] == []
    balancer = lab.balancer()
    balancer.ask(), balancer.ask()
    # Nor is the balancer's own next number used up by one that was recorded before a restart.
    balancer.sequence, process, balancer.agent = 1000, balancer.agent, 77
    balancer.send(balancer.probe())
    assert balancer.receive() is not None
    balancer.sequence, balancer.agent = 2, process
    balancer.ask()
    agent.signal(signal.SIGTERM)
    assert balancer.receive(1)["word"] == "lame-duck"
    balancer.ask(), balancer.ask()
    assert agent.process.wait(3) == 0, agent.tail()  # of 60 s
    assert "drain: done" in agent.tail(), agent.tail()
    assert all(each.receive(0) is None for each in dead), "the dead were told"


def agent_takes_new_keys_on_sighup(lab):
    agent = lab.start_agent()
    balancer, other = lab.balancer(), lab.balancer(key=7)
    balancer.ask(), other.ask()
    lab.write_keys(7)
    agent.signal(signal.SIGHUP)
    wait_for("reload", lambda: "1 keys read" in agent.tail())
    balancer.send(balancer.probe())
    assert balancer.receive(0.3) is None
    other.ask()
    os.chmod(lab.keys, 0o644)  # anybody may read it: the former ones stay
    agent.signal(signal.SIGHUP)
    wait_for("refusal", lambda: "the former keys stay" in agent.tail())
    other.ask()


def agent_has_no_privileges(lab):
    agent = lab.start_agent("--port", str(PORT))
    socket_file = os.stat(os.path.join(lab.run_dir, "agent.sock"))
    assert (socket_file.st_mode & 0o777, socket_file.st_uid) == (0o600, 0), socket_file

    def capabilities(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            text = file.read()
        return {int(value, 16) for value in re.findall(r"Cap(?:Prm|Eff):\s(\w+)", text)}, \
            re.search(r"Uid:\s(\d+)", text).group(1)
    assert capabilities(agent.pid) == ({0}, "65534")
    helper = sh("ps", "-o", "pid=", "--ppid", agent.pid).split()
    assert len(helper) == 1
    assert capabilities(helper[0])[0] == {1 << 38 | 1 << 39}  # CAP_PERFMON, CAP_BPF
    files = [os.readlink(file) for file in glob.glob(f"/proc/{helper[0]}/fd/*")]
    assert sum(file.startswith("socket:") for file in files) == 1, files  # the agent's end
    agent.kill()
    wait_for("no helper", lambda: not os.path.exists(f"/proc/{helper[0]}"))


# --- numbers ------------------------------------------------------------------------------------

def agent_measures_only_what_is_wanted(lab):
    lab.start_agent("--port", str(PORT))
    with lab.listen():
        balancer = lab.balancer(wants=BITS["accept_queue"] | BITS["utilization"])
        wait_for("utilization", lambda: "utilization" in balancer.ask()["given"])
        answer = balancer.ask()
        assert answer["given"] == {"accept_queue", "utilization"}, answer
        assert not lab.status()["meter"]["loaded"]
        balancer.wants = BITS["active_requests"]
        wait_for("meter", lambda: balancer.ask()["given"] == {"active_requests"})
        assert lab.status()["meter"]["loaded"]


def agent_tells_what_the_clients_did(lab):
    """Numbers are exact."""
    lab.start_agent("--port", str(PORT))
    with lab.listen(9) as listener:
        with lab.connect() as early, listener.accept()[0]:  # before it was measured
            balancer = lab.metered_balancer()
            assert balancer.ask()["active"] == 1
            early.close()
        wait_for("it has ended", lambda: balancer.ask()["active"] == 0)
        first = balancer.ask()
        assert first["service_count"] == 0, first
        for i in range(40):
            client, server = lab.connect(), listener.accept()[0]
            time.sleep(0.1 if i < 8 else 0.02)
            finish(client, server)
        for _ in range(5):
            client, server = lab.connect(), listener.accept()[0]
            reset(server)
            client.close()
        for _ in range(7):
            client, server = lab.connect(), listener.accept()[0]
            reset(client)
            server.close()
        running = [(lab.connect(), listener.accept()[0]) for _ in range(4)]
        waiting = [lab.connect() for _ in range(3)]
        wait_for("7 are left", lambda: balancer.ask()["active"] == 7)
        answer = balancer.ask()
        assert answer["service_count"] == 40, answer
        mean_ms = answer["service_sum_us"] / 40e3
        assert 36 <= mean_ms < 50, mean_ms  # (8 * 100 + 32 * 20) / 40
        assert 20000 <= answer["service_median_us"] < 30000, answer["service_median_us"]
        assert (answer["accept_queue"], answer["accept_queue_limit"]) == (3, 9), answer
        assert answer["busy_count"] - first["busy_count"] == 52, answer
        meter = lab.status()["meter"]
        expected = {"opened": 60, "closed": 53, "finished": 41, "aborted": 5, "reset": 7,
                    "untimed": 1, "lost": 0, "untracked": 0, "active": 7}
        assert {key: meter[key] for key in expected} == expected, meter
        for client, server in running + [(client, listener.accept()[0]) for client in waiting]:
            finish(client, server)
        wait_for("rates", lambda: balancer.ask()["requests_milli_per_s"] == 0)
        answer = balancer.ask()
        assert (answer["active"], answer["accept_queue"]) == (0, 0)


def agent_tells_the_rates(lab):
    lab.start_agent("--port", str(PORT))
    with lab.listen() as listener:
        balancer = lab.metered_balancer()
        start, rates = time.monotonic(), []
        for i in range(150):
            time.sleep(max(0, start + i / 50 - time.monotonic()))
            client, server = lab.connect(), listener.accept()[0]
            if i % 5 == 0:
                reset(server)
                client.close()
            else:
                finish(client, server)
            if i > 75:
                rates.append(balancer.ask())
        requests = sum(a["requests_milli_per_s"] for a in rates) / len(rates) / 1e3
        errors = sum(a["errors_milli_per_s"] for a in rates) / len(rates) / 1e3
        assert 45 < requests < 55 and 9 < errors < 11, (requests, errors)


NGINX = """
worker_processes 1; daemon off; pid %(dir)s/nginx.pid; error_log /dev/null;
events { worker_connections 256; }
http { access_log %(dir)s/access.log; server { listen %(port)d; keepalive_timeout 0; location / {
    return 200 "hello"; } } }
"""


@contextlib.contextmanager
def cgroup():
    """A new cgroup v2, or None where there is none."""
    mounts = re.findall(r"^\S+ (\S+) cgroup2 ", open("/proc/mounts", encoding="ascii").read(), re.M)
    path = f"{mounts[0]}/weir-test-{os.getpid()}" if mounts else None
    try:
        if path:
            os.mkdir(path)
    except OSError:
        path = None
    try:
        yield path
    finally:
        if path:
            wait_for("no process in the cgroup", lambda: not os.rmdir(path))


def agent_measures_nginx(lab):
    """wrk counts the requests, the kernel the CPU time of the processes."""
    with cgroup() as path, contextlib.ExitStack() as ends:
        lab.start_agent("--port", str(PORT), *(["--cgroup", path] if path else []))
        config = os.path.join(lab.dir, "nginx.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(NGINX % {"dir": lab.dir, "port": PORT})
        into = f"echo $$ > {path}/cgroup.procs; " if path else ""
        nginx = lab.start("nginx", lab.backend, "sh", "-c",
                          f"{into}exec nginx -p {lab.dir} -c {config}")
        ends.callback(nginx.stop)
        wait_for("nginx", lambda: lab.connect().close() is None)
        balancer = lab.metered_balancer()
        wait_for("wrk's forerunner is over", lambda: balancer.ask()["active"] == 0)
        first = balancer.ask()
        output = lab.client.run("wrk", "-t", "1", "-c", "8", "-d", "3s", "-H",
                                "Connection: close", f"http://{BACKEND}:{PORT}/")
        wait_for("the last", lambda: balancer.ask()["active"] == 0)
        last = balancer.ask()
        seen = int(re.search(r"(\d+) requests in", output).group(1))
        with open(os.path.join(lab.dir, "access.log"), encoding="ascii") as file:
            requests = len(file.readlines())
        counted = last["service_count"] - first["service_count"]
        # wrk looks first whether the server is there, and cuts off 8 connections at its end.
        assert seen <= requests <= counted <= requests + 9, (seen, requests, counted)
        if path:
            pids = [nginx.pid, *sh("ps", "-o", "pid=", "--ppid", nginx.pid).split()]
            ticks = sum(sum(int(word) for word in open(f"/proc/{pid}/stat", encoding="ascii")
                            .read().rsplit(")", 1)[1].split()[11:13]) for pid in pids)
            used = ticks / os.sysconf("SC_CLK_TCK")
            told = (last["busy_sum_us"] - first["busy_sum_us"]) / 1e6
            assert abs(told - used) < 0.15 * used + 0.05, (told, used)
        print(f"  {requests} requests, {counted} counted, "
              f"{(last['service_sum_us'] - first['service_sum_us']) / counted:.0f} us each, busy "
              f"{(last['busy_sum_us'] - first['busy_sum_us']) / counted:.0f} us each")


def agent_says_when_the_cgroup_is_not_there(lab):
    path = os.path.join(lab.dir, "cgroup")
    os.mkdir(path)

    def write():
        with open(os.path.join(path, "cpu.stat"), "w", encoding="ascii") as file:
            file.write("usage_usec 1000\n")
    agent = lab.start_agent("--cgroup", path)
    wait_for("no CPU time", lambda: f"--cgroup {path}: no CPU time" in agent.tail())
    balancer = lab.balancer(wants=BITS["utilization"])
    assert balancer.ask()["given"] == balancer.ask()["given"] == set()
    write()
    wait_for("CPU time", lambda: f"--cgroup {path}: CPU time is" in agent.tail())
    wait_for("utilization", lambda: balancer.ask()["given"] == {"utilization"})
    os.remove(os.path.join(path, "cpu.stat"))
    wait_for("no CPU time any more", lambda: agent.tail().count("no CPU time") == 2)
    wait_for("no utilization", lambda: balancer.ask()["given"] == set())


# --- words --------------------------------------------------------------------------------------

def agent_tells_every_balancer_at_once_until_it_has_heard(lab):
    lab.start_agent()
    deaf, prompt = lab.balancer(), lab.balancer()
    deaf.ask(), prompt.ask()
    deaf.ask(), prompt.ask()  # the second one says that the word was heard
    assert all(b["heard"] for b in lab.status()["balancers"])
    command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval",
                        "20s", "--run-dir", lab.run_dir)
    told = prompt.receive(2)
    assert told["unasked"] and (told["word"], told["serial"]) == ("lame-duck", 2), told
    assert prompt.ask()["serial"] == 2
    prompt.ask()
    times = []
    for _ in range(6):
        told = deaf.receive(2)
        times.append(time.monotonic())
        assert told["unasked"] and told["serial"] == 2
    gaps = [b - a for a, b in zip(times, times[1:])]
    for gap, expected in zip(gaps, (0.05, 0.1, 0.2, 0.4, 0.5)):
        assert expected - 0.02 < gap < expected + 0.2, gaps
    assert prompt.receive(0.1) is None, "told again though it has heard"
    assert "1 of 2 balancers have heard" in command.tail() and command.alive(), command.tail()
    deaf.ask(), deaf.ask()
    assert command.process.wait(5) == 0, command.tail()
    lab.command("ready")
    assert prompt.receive(1)["word"] == "ready" and prompt.ask()["serial"] == 3


def agent_forgets_a_silent_balancer(lab):
    lab.start_agent()
    balancer, other = lab.balancer(), lab.balancer()
    balancer.interval_ms = 100
    balancer.ask(), other.ask()
    balancer.ask(), other.ask()  # the second one names the agent's process
    wait_for("one left", lambda: len(lab.status()["balancers"]) == 1)
    lab.command("lame-duck", "--interval", "0")
    assert balancer.receive(0.3) is None and other.receive(0.3) is not None


def agent_waits_for_the_last_connection(lab):
    lab.start_agent("--port", str(PORT))
    done = os.path.join(lab.dir, "done")
    with lab.listen() as listener:
        balancer = lab.balancer()
        balancer.ask(), balancer.ask()
        connections = [(lab.connect(), listener.accept()[0]) for _ in range(2)]
        command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval",
                            "20s", "--run-dir", lab.run_dir, "--then", f"touch {done}")
        assert balancer.receive(2)["word"] == "lame-duck"
        balancer.ask(), balancer.ask()
        wait_for("2 left", lambda: "2 connections are left" in command.tail())
        finish(*connections.pop())
        wait_for("1 left", lambda: "1 connections are left" in command.tail())
        assert command.alive() and not os.path.exists(done)
        finish(*connections.pop())
        assert command.process.wait(5) == 0 and os.path.exists(done), command.tail()


def agent_runs_no_command_when_the_drain_is_called_off(lab):
    lab.start_agent("--port", str(PORT))
    done = os.path.join(lab.dir, "called-off")
    with lab.listen() as listener:
        connection = (lab.connect(), listener.accept()[0])
        command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--interval",
                            "20s", "--run-dir", lab.run_dir, "--then", f"touch {done}")
        wait_for("1 left", lambda: "1 connections are left" in command.tail())
        lab.command("ready")
        assert command.process.wait(5) == 1, command.tail()
        assert "ended by weir-agent ready" in command.tail() and not os.path.exists(done)
        finish(*connection)


def agent_stops_at_the_deadline(lab):
    agent = lab.start_agent("--port", str(PORT), "--interval", "1s")
    with lab.listen() as listener:
        balancer = lab.balancer()
        balancer.ask(), balancer.ask()
        with lab.connect(), listener.accept()[0]:
            start = time.monotonic()
            agent.signal(signal.SIGTERM)
            assert balancer.receive(1)["word"] == "lame-duck"
            assert agent.process.wait(5) == 0, agent.tail()
            assert 0.9 < time.monotonic() - start < 2.0
    assert "drain: deadline" in agent.tail(), agent.tail()


def agent_stops_when_all_is_served(lab):
    agent = lab.start_agent("--port", str(PORT))
    with lab.listen() as listener:
        balancer = lab.balancer()
        balancer.ask(), balancer.ask()
        client, server = lab.connect(), listener.accept()[0]
        agent.signal(signal.SIGTERM)
        assert balancer.receive(1)["word"] == "lame-duck"
        balancer.ask(), balancer.ask()
        wait_for("serving", lambda: "drain: serving" in agent.tail())
        finish(client, server)
        assert agent.process.wait(5) == 0, agent.tail()
    assert "drain: done" in agent.tail(), agent.tail()


def forged_syn(port):
    """A segment from an address that nobody has, with its pseudo header's checksum."""
    source, target = socket.inet_aton("10.9.0.77"), socket.inet_aton(BACKEND)
    segment = struct.pack("!HHIIBBHHH", port, PORT, port, 0, 5 << 4, 2, 1024, 0, 0)
    words = struct.unpack("!16H", source + target + struct.pack("!HH", 6, len(segment)) + segment)
    total = sum(words)
    total = (total >> 16) + (total & 0xffff)
    checksum = ~(total + (total >> 16)) & 0xffff
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, source, target)
    return header + segment[:16] + struct.pack("!H", checksum) + segment[18:]


def half_open(lab):
    return len(lab.backend.run("ss", "-Htn", "state", "syn-recv").splitlines())


def agent_waits_for_no_flood_of_syns(lab):
    agent = lab.start_agent("--port", str(PORT), "--interval", "60s")
    with lab.listen():
        balancer = lab.balancer()
        balancer.ask(), balancer.ask()
        with lab.client.inside():
            raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        with raw:
            for port in range(2000, 2040):
                raw.sendto(forged_syn(port), (BACKEND, 0))
        wait_for("half-open connections", lambda: half_open(lab) >= 30)
        start = time.monotonic()
        agent.signal(signal.SIGTERM)
        assert balancer.receive(1)["word"] == "lame-duck"
        balancer.ask(), balancer.ask()
        assert agent.process.wait(10) == 0, agent.tail()
        assert half_open(lab) >= 30
        assert 1.5 < time.monotonic() - start < 4, time.monotonic() - start
    assert "drain: done" in agent.tail(), agent.tail()


def agent_stays_a_lame_duck_when_it_dies(lab):
    agent = lab.start_agent("--warm-up", "true")
    wait_for("ready", lambda: lab.status()["word"] == "ready")
    lab.command("lame-duck", "--interval", "0")
    agent.kill()
    agent = lab.start_agent("--warm-up", "true")
    balancer = lab.balancer()
    wait_for("two probes after the warm-up", lambda: balancer.ask()["clock_ms"] > 300)
    assert balancer.ask()["word"] == "lame-duck"
    lab.command("ready")
    assert balancer.receive()["word"] == "ready"
    agent.kill()
    agent = lab.start_agent()
    assert lab.balancer().ask()["word"] == "ready"
    lab.command("lame-duck", "--interval", "0")
    agent.signal(signal.SIGTERM)
    assert agent.process.wait(5) == 0  # in order: the next one begins anew
    agent = lab.start_agent()
    assert lab.status()["word"] == "ready"
    agent.kill()


def agent_that_was_stopped_begins_anew(lab):
    """Though it had no time to drain: docker stop kills after ten seconds."""
    agent = lab.start_agent("--port", str(PORT))
    with lab.listen() as listener, lab.connect(), listener.accept()[0]:
        agent.signal(signal.SIGTERM)
        wait_for("the drain", lambda: lab.status()["drain"]["state"] == "serving")
        agent.kill()
        agent = lab.start_agent("--port", str(PORT))
        assert lab.status()["word"] == "ready", agent.tail()


def agent_is_starting_until_it_is_warm(lab):
    warm = os.path.join(lab.dir, "warm")
    lab.start_agent("--warm-up", f"until test -e {warm}; do sleep 0.05; done")
    balancer = lab.balancer()
    assert balancer.ask()["word"] == "starting"
    balancer.ask()
    with open(warm, "w", encoding="ascii"):
        pass
    told = balancer.receive(2)
    assert told["unasked"] and told["word"] == "ready", told
    os.remove(warm)


def agent_stays_starting_when_the_warm_up_fails(lab):
    agent = lab.start_agent("--warm-up", "exit 3")
    wait_for("failure", lambda: "the command failed (exit 3" in agent.tail())
    balancer = lab.balancer()
    assert balancer.ask()["word"] == "starting"
    balancer.ask()
    lab.command("ready")
    assert balancer.receive()["word"] == "ready"
    assert balancer.ask()["word"] == "ready"


def connections_that_cannot_be_counted_are_not_none(lab):
    """A kernel without inet_diag: the drain lasts until its deadline."""
    os.makedirs(lab.run_dir, exist_ok=True)
    path = os.path.join(lab.run_dir, "agent.sock")
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    drain = {"state": "serving", "left_ms": 900, "unheard": 0}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(512)
                        connection.send(json.dumps({"word": "lame-duck", "drain": drain}).encode())
        threading.Thread(target=serve, daemon=True).start()
        assert "serving, 0 balancers have not heard, an unknown number of connections, 0.9 s" in \
            lab.command("status")
        command = lab.start("lame-duck", lab.backend, lab.agent_binary, "lame-duck", "--run-dir",
                            lab.run_dir)
        wait_for("progress", lambda: "an unknown number of connections are left" in command.tail())
        drain["state"] = "deadline"
        assert command.process.wait(5) == 0, command.tail()
        listener.shutdown(socket.SHUT_RDWR)


# --- ORCA ---------------------------------------------------------------------------------------

class Application(http.server.BaseHTTPRequestHandler):
    body, headers_too = b"{}", {}

    def do_GET(self):
        self.send_response(200)
        for name, value in self.headers_too.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


def agent_believes_the_application(lab):
    agent = lab.start_agent("--port", str(PORT), "--orca-url", f"http://127.0.0.1:{ORCA_PORT}/",
                            "--orca-interval", "100ms")
    with lab.backend.inside():
        server = http.server.ThreadingHTTPServer(("127.0.0.1", ORCA_PORT), Application)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Application.body = b'{"rps_fractional": 123.5, "eps": 2, "application_utilization": 0.25}'
    balancer = lab.metered_balancer()
    try:
        wait_for("the application's rate",
                 lambda: balancer.ask()["requests_milli_per_s"] == 123500)
        answer = balancer.ask()
        assert (answer["errors_milli_per_s"], answer["utilization_ppm"]) == (2000, 250000), answer
        Application.body = b'{"rps_fractional": -1}'
        wait_for("complaint", lambda: lab.status()["orca"] not in ("ok", "not wanted"))
        wait_for("measured again", lambda: balancer.ask()["requests_milli_per_s"] == 0)
        Application.headers_too = {"endpoint-load-metrics": "TEXT rps_fractional=7"}
        wait_for("the header", lambda: balancer.ask()["requests_milli_per_s"] == 7000)
    finally:
        server.shutdown()
        server.server_close()
    assert agent.alive()


def agent_says_what_is_wrong(lab):
    os.chmod(lab.keys, 0o644)
    for status, expected, *words in (
            (1, "keys", "run", "--key-file", lab.keys, "--run-dir", lab.run_dir),
            (1, "--key-file: there is no /nonexistent", "run", "--key-file", "/nonexistent"),
            (3, "no weir-agent run answers", "status", "--run-dir", lab.run_dir),
            (3, "no weir-agent run answers", "lame-duck", "--run-dir", lab.run_dir),
            (2, "use weir-agent key generate", "key")):
        program = lab.start("words", lab.backend, lab.agent_binary, *words)
        assert program.process.wait(10) == status, (words, program.tail())
        assert expected in program.tail(), (words, program.tail())
    lab.write_keys(1)
    planted = os.path.join(lab.dir, "planted")
    os.mkdir(planted)
    for mode, owner, expected in ((0o1777, 0, "is shared with all users"),
                                  (0o755, 4242, "belongs to user 4242")):
        os.chmod(planted, mode)
        os.chown(planted, owner, 0)
        program = lab.start("planted", lab.backend, lab.agent_binary, "run", "--key-file", lab.keys,
                            "--run-dir", planted)
        wait_for("the end", lambda p=program: not p.alive())
        assert program.process.returncode == 1, program.tail()
        assert expected in program.tail(), program.tail()
    lonely = lab.start("lonely", lab.backend, "prlimit", "--nproc=1", lab.agent_binary, "run",
                       "--key-file", lab.keys, "--run-dir", lab.run_dir, "--warm-up", "true")
    assert lonely.process.wait(10) == 1, lonely.tail()  # it may not fork any more
    assert "cannot start: " in lonely.tail(), lonely.tail()
    first = lab.start_agent()
    second = lab.start("second", lab.backend, lab.agent_binary, "run", "--key-file", lab.keys,
                       "--run-dir", lab.run_dir)
    assert second.process.wait(10) == 1, second.tail()
    assert "UDP port 4777 is in use" in second.tail(), second.tail()
    third = lab.start("third", lab.backend, lab.agent_binary, "run", "--key-file", lab.keys,
                      "--run-dir", lab.run_dir, "--udp-port", "4778")
    wait_for("the end", lambda: not third.alive())  # else nobody could talk to the first one
    assert third.process.returncode == 1, third.tail()
    assert f"another weir-agent uses {lab.run_dir}" in third.tail(), third.tail()
    lab.command("lame-duck", "--interval", "0")
    assert "lame-duck" in first.tail(), first.tail()


SCENARIOS = [scenario for name, scenario in list(globals().items())
             if name.startswith(("agent_", "connections_")) and callable(scenario)]


def main():
    if os.geteuid() != 0:
        print("needs root")
        return 77
    chosen = sys.argv[2:]
    lab = Lab(os.path.abspath(sys.argv[1]))
    try:
        lab.build()
        for scenario in SCENARIOS:
            if chosen and scenario.__name__ not in chosen:
                continue
            print(scenario.__name__, flush=True)
            scenario(lab)
            lab.end()
    finally:
        for program in lab.programs:
            print(f"--- {program.name}\n{program.tail()}")
        lab.close()
    print(f"{len(chosen) or len(SCENARIOS)} scenarios")
    return 0


if __name__ == "__main__":
    sys.exit(main())
