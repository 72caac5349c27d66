# SPDX-License-Identifier: BSD-3-Clause
"""Connections that wait at a backend with a full accept queue move to another backend. No
connection is served twice, even if a process is killed during a move."""
import collections
import contextlib
import itertools
import os
import random
import secrets
import select
import signal
import socket
import struct
import time

from lab import BACKENDS, HERE, PYTHON, VIP4, VIP6, service
from id_server import PORT
from netns import wait_for
from scenario import scenario
from scenarios_agents import agents

AGENT = {"interval_ms": 100, "inactive_interval_ms": 100, "timeout_ms": 80}
SELDOM = {"interval_ms": 500, "inactive_interval_ms": 500, "timeout_ms": 80}
BACKLOG = 8  # backlog of web-1's listening socket; its server is stopped
# Time for the first clients to connect. Control usually gets the report of a full queue after this
# time.
FIRST_SECONDS = 20
# Backlog of the other backends' sockets. All connections that leave web-1 can arrive at the same
# time.
ROOM = 64
NUMBERS = range(1, len(BACKENDS) + 1)


def ids(vips=(VIP4,), agent=None, **more):
    return service("ids", PORT, vips=vips, policy={"name": "round-robin"}, agent=agent or AGENT,
                   **more)


STEAL = {"after_ms": 300}


@contextlib.contextmanager
def serving(lab):
    """Run an agent, and a server that logs ids, on every backend."""
    path = os.path.join(lab.dir, "agent.keys")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
        file.write(f"7 {secrets.token_hex(32)}\n")
    os.chown(path, 0, 65534)
    os.chmod(path, 0o640)
    lab.extra = {**lab.extra, "agents": {"key_file": path}}
    lab.write_config()
    for number in NUMBERS:
        # With SYN cookies the kernel stores no half-open connections, so an agent would permit no
        # steal.
        lab.namespaces[f"b{number}"].sysctl(net__ipv4__tcp_syncookies=0)
        start_ids(lab, number)
        start_agent(lab, number)
    lab.start()
    for number in NUMBERS:
        lab.wait_for_program(f"ids-{number}",
                             lambda n=number: "serving" in lab.programs[f"ids-{n}"].output(), 10)
    wait_for("answers of all agents", lambda: all(
        (each.get("report") or {}).get("accept_queue_limit") for each in lab.backends("ids")), 15)
    yield


def log_of(lab, number):
    return os.path.join(lab.dir, f"ids-{number}.txt")


def backlog(number):
    return BACKLOG if number == 1 else ROOM


def start_ids(lab, number):
    lab.program(f"ids-{number}", lab.namespaces[f"b{number}"], PYTHON,
                os.path.join(HERE, "id_server.py"), f"web-{number}", log_of(lab, number), backlog(number))


def start_agent(lab, number):
    return lab.program(
        f"weir-agent-{number}", lab.namespaces[f"b{number}"], lab.binary("weir-agent"), "run",
        "--port", PORT, "--allow-steal", "--key-file", os.path.join(lab.dir, "agent.keys"),
        "--run-dir", os.path.join(lab.dir, f"weir-agent-{number}"))


def served(lab):
    """Returns how many times each id was served, by all servers together."""
    counts = collections.Counter()
    for number in NUMBERS:
        with contextlib.suppress(FileNotFoundError), open(log_of(lab, number), "rb") as file:
            counts.update(file.read().split())
    return counts


def set_steal(lab, steal, agent=None):
    lab.write_config([ids(agent=agent, **({"steal": steal} if steal else {}))])
    lab.weirctl("config", "reload")


class Client:
    def __init__(self, number, sock, began):
        self.number, self.sock, self.began = number, sock, began
        self.connected = self.answer = self.error = None
        self.retransmits = None

    def tell(self):
        """Send the id if the socket is connected, or detect that it was refused."""
        error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self.error = os.strerror(error)
            return
        self.connected = time.monotonic() - self.began
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        self.retransmits = struct.unpack_from("I", info, 100)[0]  # tcpi_total_retrans
        self.sock.send(b"%d\n" % self.number)

    def hear(self):
        try:
            self.answer = self.sock.recv(100) or None
            self.error = None if self.answer else "closed without an answer"
        except OSError as error:
            self.error = str(error)


class Clients:
    """Real TCP clients, each with its own id. `count` clients connect within `seconds`, to the
    VIPs in turn. If `first` is set, this number of clients connect first, and the remaining
    clients when full() is true."""
    numbers = itertools.count(1)

    def __init__(self, namespace, count, seconds, vips=(VIP4,), first=0, full=None):
        self.poll, self.all, self.open = select.epoll(), [], {}
        targets = [vips[i % len(vips)] for i in range(count)]
        with namespace.inside():
            socks = [socket.socket(socket.AF_INET6 if ":" in vip else socket.AF_INET,
                                   socket.SOCK_STREAM | socket.SOCK_NONBLOCK) for vip in targets]
        start = time.monotonic()
        for i, sock in enumerate(socks):
            if i == first and full:
                self.run(FIRST_SECONDS, lambda _: full())
            due = start + i * seconds / count
            self.run(max(0, due - time.monotonic()))
            # needed if run() returned early because all clients had their answers
            time.sleep(max(0, due - time.monotonic()))
            client = Client(next(self.numbers), sock, time.monotonic())
            sock.connect_ex((targets[i], PORT))
            self.all.append(client)
            self.open[sock.fileno()] = client
            self.poll.register(sock, select.EPOLLOUT)

    def run(self, seconds, until=None):
        """Let the clients continue for this time, or until the condition until(self) is true."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.open and not (until and until(self)):
            for fd, _ in self.poll.poll(min(left, 0.05)):
                client = self.open[fd]
                if client.connected is None:
                    client.tell()
                    if client.error is None:
                        self.poll.modify(fd, select.EPOLLIN)
                else:
                    client.hear()
                if client.error or client.answer:
                    self.poll.unregister(fd)
                    del self.open[fd]
        return self

    def connected(self):
        return [client for client in self.all if client.connected is not None]

    def all_connected(self):
        return len(self.connected()) == len(self.all)

    def close(self):
        for client in self.all:
            client.sock.close()
        self.poll.close()


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def figures(clients):
    times = [client.connected for client in clients.connected()]
    return {"connected": len(times), "failed": len(clients.all) - len(times),
            "p50_ms": round(percentile(times, 0.5) * 1000, 1),
            "p99_ms": round(percentile(times, 0.99) * 1000, 1),
            "p99_retransmits": percentile([c.retransmits for c in clients.connected()], 0.99)}


def check_served_once(lab, clients):
    """Check that each client with an answer was served, and that no client was served twice."""
    counts = served(lab)
    twice = {number: n for number, n in counts.items() if n > 1}
    assert not twice, f"served twice: {twice}"
    for client in clients.all:
        assert client.answer is None or counts[b"%d" % client.number] == 1, client.number


def crowd(lab, seconds, until=Clients.all_connected, vips=(VIP4,)):
    """Stop the server of web-1, and let clients connect: first as many as fill its queue, then more."""
    lab.programs["ids-1"].signal(signal.SIGSTOP)
    return Clients(lab.client, 160, 0.04, vips, (BACKLOG + 1) * len(BACKENDS)).run(seconds, until)


def wait_for_report(lab):
    """Wait for a report of the agent. Connections made now arrive before the next report, which
    shows a full queue, so that the backend then gets no new flows."""
    wait_for("a fresh report", lambda: lab.backend("web-1", "ids")["report"]["age_ms"] < 100, 10, 0.01)


def release(lab, clients, seconds=20):
    """Resume the server, and check that every waiting client gets its answer."""
    lab.programs["ids-1"].signal(signal.SIGCONT)
    clients.run(seconds)
    wait_for("queues empty", lambda: not any(each["accept_queue_full"] for each in lab.backends("ids")), 10)


@scenario(services=[ids(agent=SELDOM)], start=False, pair=True)
def connections_leave_a_stopped_server(lab):
    """Measures the time to connect with stealing off and on, if one accept queue is full and others are empty"""
    with serving(lab):
        # The accept queue holds one connection more than the backlog. Some of the connections that
        # do not fit are half-open, or established only on the client's side. The remaining clients
        # cannot connect while the server is stopped.
        wait_for_report(lab)
        off = crowd(lab, 6)
        without = figures(off)
        release(lab, off)
        check_served_once(lab, off)
        set_steal(lab, STEAL, SELDOM)
        wait_for_report(lab)
        on = crowd(lab, 15)
        with_steal = figures(on)
        steals = lab.api("flow.steals")
        release(lab, on)
        check_served_once(lab, on)
        print(f"off {without}, on {with_steal}, {steals['services']}", flush=True)
        assert without["failed"] > 0 or without["p99_ms"] > 1900, without
        assert with_steal["failed"] == 0, (with_steal, steals)
        assert with_steal["p99_retransmits"] <= 1, (with_steal, steals)
        [row] = steals["services"]
        assert row["moved"] > 0 and row["moved"] <= row["asked"], steals
        agents_stopped = lab.api("stats.show")["agents"]
        permits = sum(agents_stopped["steal_results"][name] for name in ("nothing_here", "removed"))
        assert row["moved"] <= permits <= agents_stopped["steals"] <= row["asked"], (agents_stopped, row)
        assert [each["to"] for each in steals["recent"] if each["outcome"] == "moved"]
        assert all(each["from"] == "web-1" for each in steals["recent"]), steals
        # The reason can also be half-open flows, if control detects them before it gets the
        # report of a full queue.
        assert "accept-queue" in {each["reason"] for each in steals["recent"] + row["relieved"]}, steals
        assert all(client.answer and client.error is None for client in on.all)
        _, shown, _ = lab.weirctl("flow", "steals", "ids")
        assert "moved" in shown and "web-1" in shown, shown
        off.close()
        on.close()


@contextlib.contextmanager
def unreachable(lab, number):
    """Drop all packets from a backend to clients. Its server and agent keep working."""
    namespace = lab.namespaces[f"b{number}"]
    namespace.ip("route", "add", "blackhole", "192.0.2.0/24")
    try:
        yield
    finally:
        namespace.ip("route", "del", "blackhole", "192.0.2.0/24")


@scenario(services=[ids()], start=False, pair=True)
def connections_leave_a_server_with_lost_answers(lab):
    """If a server's SYN+ACKs are lost, clients move to other backends, although its accept queue has room"""
    with serving(lab):
        with unreachable(lab, 1):
            off = Clients(lab.client, 160, 0.04).run(4, Clients.all_connected)
            assert figures(off)["failed"] == len(off.all) // len(BACKENDS), figures(off)
        off.run(20)  # now the server accepts the connections
        check_served_once(lab, off)
        off.close()
        set_steal(lab, STEAL)
        # Normal traffic as a baseline: control counts new flows from its first evaluation on.
        usual = Clients(lab.client, 80, 0.8).run(10)
        assert all(client.answer for client in usual.all), figures(usual)
        usual.close()
        with unreachable(lab, 1):
            on = Clients(lab.client, 160, 0.04).run(15, Clients.all_connected)
            with_steal, steals = figures(on), lab.api("flow.steals")
            print(f"on {with_steal}, {steals['services']}", flush=True)
            assert not lab.backend("web-1", "ids")["accept_queue_full"]
            assert with_steal["failed"] == 0, (with_steal, steals)
            assert with_steal["p99_retransmits"] <= 1, (with_steal, steals)
            assert steals["services"][0]["moved"] >= len(on.all) // len(BACKENDS), steals
            assert {(each["from"], each["reason"]) for each in steals["recent"]} == {
                ("web-1", "half-open")}, steals
            wait_for("no backend to relieve",
                     lambda: not lab.api("flow.steals")["services"][0]["relieved"], 20)
            _, shown, _ = lab.weirctl("flow", "steals", "ids")
            assert "half-open" in shown, shown
        on.run(10)
        check_served_once(lab, on)
        assert all(client.answer for client in on.all), figures(on)
        on.close()


BOTH = (VIP4, VIP6)


@scenario(services=[ids(vips=BOTH, agent=SELDOM, steal=STEAL)], start=False,
          workers={"cores": [os.cpu_count() - 1] * 2})
def steals_by_two_workers_of_both_families(lab):
    """Connections of IPv4 and IPv6 clients, with flows on two workers, move away from a stopped server"""
    with serving(lab):
        moved = collections.Counter()
        for _ in range(3):
            wait_for_report(lab)
            clients = crowd(lab, 30, vips=BOTH)
            assert clients.all_connected(), (figures(clients), lab.api("flow.steals"))
            release(lab, clients)
            check_served_once(lab, clients)
            assert all(client.answer for client in clients.all), figures(clients)
            clients.close()
        for each in lab.api("flow.steals")["recent"]:
            assert each["from"] == "web-1" and each["vip"] in BOTH, each
            if each["outcome"] == "moved":
                moved[each["vip"]] += 1
        assert moved[VIP4] > 0 and moved[VIP6] > 0, moved
        workers = lab.api("worker.show")
        assert len(workers) == 2 and all(w["flow_new"] > 100 for w in workers), workers
        print(dict(moved), [w["flow_new"] for w in workers], flush=True)


@scenario(services=[ids(steal=STEAL)], start=False, seconds=300)
def steals_survive_kills(lab):
    """If agent and control are killed while connections are stolen, no client is served twice"""
    chance, moved = random.Random(4711), 0
    with serving(lab):
        for turn in range(8):
            clients = crowd(lab, 0.25 + chance.random() * 0.5, until=None)
            if turn % 2 == 0:
                lab.programs["control"].kill()
                clients.run(0.2)
                lab.start_control()
            else:
                lab.programs["weir-agent-1"].kill()
                clients.run(0.2)
                start_agent(lab, 1)
            clients.run(1 + chance.random())
            moved += sum(row["moved"] for row in lab.api("flow.steals")["services"])
            lab.programs["ids-1"].signal(signal.SIGCONT)
            clients.run(120)  # until all clients have an answer; the last SYN may be sent seconds later
            check_served_once(lab, clients)
            assert all(client.answer for client in clients.all), figures(clients)
            clients.close()
            wait_for("answers of all agents", lambda: all(
                (each.get("report") or {}).get("accept_queue_limit") and not each["accept_queue_full"]
                for each in lab.backends("ids")), 15)
        assert moved > 0, "nothing was stolen"


@scenario(services=[ids(steal=STEAL)], start=False, seconds=300)
def steals_survive_stops(lab):
    """If agent, control or dataplane is paused while connections are stolen, no client is served twice"""
    chance, moved = random.Random(4712), 0
    with serving(lab):
        for turn in range(9):
            stopped = lab.programs[("control", "weir-agent-1", "dataplane")[turn % 3]]
            clients = crowd(lab, 0.25 + chance.random() * 0.5, until=None)
            stopped.signal(signal.SIGSTOP)
            clients.run(chance.choice((0.05, 0.3, 1, 4)))  # listed flows can be moved for 3 s
            stopped.signal(signal.SIGCONT)
            clients.run(1 + chance.random())
            moved = sum(row["moved"] for row in lab.api("flow.steals")["services"])
            lab.programs["ids-1"].signal(signal.SIGCONT)
            clients.run(120)  # until all clients have an answer; the last SYN may be sent seconds later
            check_served_once(lab, clients)
            assert all(client.answer for client in clients.all), figures(clients)
            clients.close()
            wait_for("answers of all agents", lambda: all(
                (each.get("report") or {}).get("accept_queue_limit") and not each["accept_queue_full"]
                for each in lab.backends("ids")), 15)
        assert moved > 0, "nothing was stolen"


class Liar:
    """The agent of the stopped server, which reports a full queue, and answers steal requests according to `mode`."""
    NOTHING, RUNNING = 1, 3

    def __init__(self, lab, serving_agent):
        self.lab, self.agent, self.mode = lab, serving_agent.agent, "never"
        self.requests, self.later, self.killed = 0, [], False
        self.agent.values = {"accept_queue": BACKLOG + 1, "accept_queue_limit": BACKLOG}
        self.agent.steal = self.asked

    def asked(self, request, address):
        self.requests += 1
        wrong = {"wrong id": {"id": request["id"] + 1000},
                 "wrong flow": {"client_port": request["client_port"] ^ 1},
                 "wrong agent": {"agent": request["agent"] ^ 2},
                 "wrong balancer": {"balancer": request["balancer"] ^ 2}}
        answers = {"never": [], "late": [], "refused": [(self.RUNNING, {})]}.get(
            self.mode, [(self.NOTHING, {})])
        if self.mode in wrong:  # also send a valid answer, so that the agent does not count as silent
            answers = [(self.NOTHING, wrong[self.mode]), (self.RUNNING, {})]
        if self.mode == "late":
            self.later.append((self.agent.steal_answer(request, self.NOTHING), address))
        if self.mode == "killed before" and not self.killed:
            self.kill()
        for result, over in answers:
            for _ in range(3 if self.mode == "three times" else 1):
                self.agent.sock.sendto(self.agent.steal_answer(request, result, **over), address)
        if self.mode == "killed after" and not self.killed:
            self.kill()

    def kill(self):
        self.killed = True
        self.lab.programs["control"].kill()

    def send_later(self):
        for datagram, address in self.later:
            self.agent.sock.sendto(datagram, address)
        self.later = []


@contextlib.contextmanager
def lying_agent(lab):
    """Run servers that count ids, and agents that report empty accept queues. Yields {number:
    agent}, and the Liar that answers for agent 1."""
    for number in NUMBERS:
        lab.namespaces[f"b{number}"].sysctl(net__ipv4__tcp_syncookies=0)
        start_ids(lab, number)
    with agents(lab, NUMBERS) as agent_of:
        for number in NUMBERS:
            agent_of[number].agent.values = {"accept_queue": 0, "accept_queue_limit": backlog(number)}
        yield agent_of, Liar(lab, agent_of[1])


def queue_length(lab):
    """Returns the number of connections in the accept queue of web-1."""
    return int(lab.namespaces["b1"].run("ss", "-Htln", f"sport = :{PORT}").split()[1])


def steal_counts(lab):
    [row] = lab.api("flow.steals", service="ids")["services"]
    return row


@scenario(services=[ids(steal=STEAL)], start=False, seconds=600)
def steals_accept_one_valid_answer(lab):
    """No flow is moved twice because of late, repeated or wrong confirmations, or because control is killed"""
    with lying_agent(lab) as (agent_of, liar):
        # weir-control sends requests to a silent agent less and less often, at last so late that
        # all clients have already connected elsewhere. An agent that refuses gets requests at the
        # usual rate.
        for mode in ("never", "refused", "late", "refused", "wrong id", "wrong flow", "wrong agent",
                     "wrong balancer", "three times", "killed before", "killed after"):
            before, liar.requests, liar.mode, liar.killed = steal_counts(lab), 0, mode, False
            refused = lab.api("stats.show")["agents"]["refused"]
            # All clients start while web-1 reports room in its queue; otherwise web-1 would get
            # no clients.
            agent_of[1].agent.values["accept_queue"] = 0
            wait_for("room in the queue", lambda: not lab.backend("web-1", "ids")["accept_queue_full"], 10)
            lab.programs["ids-1"].signal(signal.SIGSTOP)
            clients = Clients(lab.client, 160, 0.04)
            agent_of[1].agent.values["accept_queue"] = BACKLOG + 1
            if mode in ("killed before", "killed after"):
                wait_for("control killed", lambda: clients.run(0.02) and liar.killed, 20)
                lab.start_control()
                clients.run(20, Clients.all_connected)
            elif mode == "three times":
                clients.run(20, Clients.all_connected)
                assert clients.all_connected(), figures(clients)
            else:
                wait_for(f"a request, {mode}", lambda: clients.run(0.02) and liar.requests > 0, 20)
                clients.run(0.6)
                liar.send_later()
                clients.run(0.1)
                assert steal_counts(lab)["moved"] == before["moved"], (mode, steal_counts(lab))
            if mode in ("late", "wrong id", "wrong flow", "wrong agent", "wrong balancer",
                        "three times"):
                now = lab.api("stats.show")["agents"]["refused"]
                name = {"wrong flow": "flow", "wrong balancer": "balancer"}.get(mode, "steal")
                assert now[name] > refused[name], (mode, now)
            liar.mode = "never"
            agent_of[1].agent.values["accept_queue"] = 0  # so that this agent gets no request, and stays silent
            lab.programs["ids-1"].signal(signal.SIGCONT)
            clients.run(120)  # until all clients have an answer; the last SYN may be sent seconds later
            check_served_once(lab, clients)
            assert all(client.answer for client in clients.all), (mode, figures(clients), [(c.error, c.retransmits, c.connected, c.number) for c in clients.all if not c.answer])
            clients.close()


SLOW_MS = 32  # service time of a connection; nine connections in a full queue take 0.29 s
STAY_SECONDS = 0.6  # connections that wait behind a full queue stay for longer than this


@scenario(services=[ids(steal=STEAL)], start=False, seconds=300)
def connections_stay_at_a_server_that_is_slow_for_a_moment(lab):
    """If a full accept queue is empty before clients send their next SYN, no connection is moved"""
    with lying_agent(lab) as (agent_of, liar):
        liar.mode = "refused"
        values = agent_of[1].agent.values

        def crowded(again_after):
            """Stop the server, and let its queue become full. Report the queue as empty after this
            time, or at the first steal request, and then resume the server. Returns whether control
            had this report in time, the number of steal requests before the report, and how long the
            first client that did not fit in a queue had waited by then, in seconds."""
            values["accept_queue"] = 0
            wait_for("room in the queue", lambda: not lab.backend("web-1", "ids")["accept_queue_full"], 10)
            liar.requests = 0
            lab.programs["ids-1"].signal(signal.SIGSTOP)
            first = (BACKLOG + 1) * len(BACKENDS)
            # A SYN that arrives before the queue is full is answered, and its connection is not half-open.
            clients = Clients(lab.client, first + 3 * len(BACKENDS), 0.04, first=first,
                              full=lambda: queue_length(lab) > BACKLOG)
            values["accept_queue"] = BACKLOG + 1
            clients.run(again_after, lambda _: liar.requests > 0)
            asked, waited = liar.requests, time.monotonic() - clients.all[first].began
            values["accept_queue"] = 0
            wait_for("room in the queue", lambda: not lab.backend("web-1", "ids")["accept_queue_full"], 10, 0.01)
            in_time = time.monotonic() - clients.all[first].began < STAY_SECONDS
            lab.programs["ids-1"].signal(signal.SIGCONT)
            clients.run(60)
            assert all(client.answer for client in clients.all), figures(clients)
            check_served_once(lab, clients)
            clients.close()
            return in_time, asked, waited

        # The service time is unknown: connections leave after 0.3 s.
        _, asked, _ = crowded(20)
        assert asked > 0
        # The service time is known: connections leave when they have waited for twice the service
        # time of the whole queue.
        for served_by_now in range(10, 60, 10):  # connections served since the agent started
            values.update({"service_time_ms": SLOW_MS * 1000 * served_by_now, "service_count": served_by_now})
            agent_of[1].wait_for_probe()
            agent_of[1].wait_for_probe()
        _, asked, waited = crowded(20)
        print(f"asked after {waited:.3f} s", flush=True)
        assert asked > 0 and waited > STAY_SECONDS, (asked, waited)

        def finishes_in_time():
            in_time, asked, waited = crowded(0.4)
            assert asked == 0 or waited > STAY_SECONDS, (asked, waited)
            return in_time

        wait_for("a queue that is empty in time", finishes_in_time, 120, 0.1)
