# SPDX-License-Identifier: BSD-3-Clause
"""How weir-control handles reports of agents: announced states, false reports, limits. The agent is agent.py."""
import contextlib
import itertools
import os
import re
import secrets
import select
import socket
import threading
import time

from agent import BYTES, Serving
from lab import BACKENDS, VIP4, VIP6, backend_address, echo, service
from netns import sh, wait_for
from scenario import scenario

PORT = 4777
SECRET = secrets.token_bytes(32)
AGENT = {"port": PORT, "interval_ms": 100, "inactive_interval_ms": 600, "timeout_ms": 80}
QUICK = {"flow_table": {"flows_per_worker": 65536,
                        "timeout_ms": {"udp": 300, "udp_seen": 300, "young": 300}}}


def checked(check_port=80, **more):
    """Returns a UDP service at the IPv6 VIP whose backends have HTTP health checks."""
    return service("checked", 9000, protocol="udp", vips=(VIP6,),
                   check={"type": "http", "path": "/healthz", "port": check_port}, **more)


def unchecked(**more):
    return echo(vips=(VIP4,), **more)


@contextlib.contextmanager
def agents(lab, numbers=(1,)):
    """Write the key file, make control read it, and run an agent on each of these backends."""
    path = os.path.join(lab.dir, "agent.keys")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
        file.write(f"# of this lab\n7 {SECRET.hex()}\n")
    os.chown(path, 0, 65534)
    os.chmod(path, 0o640)
    lab.extra = {**lab.extra, "agents": {"key_file": path}}
    with contextlib.ExitStack() as stack:
        served = {number: stack.enter_context(Serving(lab.namespaces[f"b{number}"],
                                                      backend_address(number), PORT, 7, SECRET))
                  for number in numbers}
        lab.write_config()
        if "control" in lab.programs:
            lab.weirctl("config", "reload")
        else:
            lab.start()
        for one in served.values():
            one.wait_for_probe()
        yield served


class Flows:
    """Sends new UDP flows, one datagram each, as fast as possible, and collects the backends that
    answer. Uses source ports in turn, because a port that is reused too soon would belong to an
    existing flow."""
    ports = itertools.cycle(range(2000, 65000))

    def __init__(self, namespace, host, port=9000):
        self.namespace, self.name = namespace, (host, port)
        self.family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answers, self.over = [], False

    def __enter__(self):
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()

    def work(self):
        """Open one socket for each flow. Close a socket after its answer, or when 200 newer sockets are open."""
        poll, flows = select.epoll(), {}
        with self.namespace.inside():
            while not self.over:
                sock = socket.socket(self.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
                with contextlib.suppress(OSError):  # in use: try the next port
                    sock.bind(("", next(self.ports)))
                sock.connect(self.name)
                flows[sock.fileno()] = sock
                poll.register(sock, select.EPOLLIN)
                sock.send(b"who?\n")
                self.take(poll, flows, 0)
                while len(flows) > 200:
                    flows.pop(next(iter(flows))).close()
            self.take(poll, flows, 0.2)
        for sock in flows.values():
            sock.close()

    def take(self, poll, flows, timeout):
        for fd, _ in poll.poll(timeout):
            sock = flows.pop(fd)
            with contextlib.suppress(OSError):
                self.answers.append(sock.recv(100).decode().split()[0])
            sock.close()


def health(lab, service_name, backend="web-1"):
    return lab.backend(backend, service_name)["health"]


def refusals(lab):
    return lab.api("stats.show")["agents"]["refused"]


@scenario(services=[unchecked(agent=AGENT), checked(agent=AGENT)], config=QUICK, start=False)
def spoofed_agent_changes_nothing(lab):
    """Forged, replayed, truncated and misdirected answers are counted, and change nothing"""
    with agents(lab) as served:
        one = served[1]
        one.say("lame-duck")
        wait_for("lame duck", lambda: health(lab, "echo") == "lame-duck", 5)
        with one.lock:
            recorded = one.agent.answer(one.newest(), unasked=True)
        one.say("ready")
        wait_for("ready", lambda: health(lab, "echo") == "healthy", 5)
        balancer = one.wait_for_probe()
        duck = {"word": 3, "serial": 1000}
        agent = one.agent
        with lab.namespaces["b2"].inside():
            elsewhere = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        lies = {
            "mac": lambda: agent.answer(balancer, True, key=(7, b"x" * 32), **duck),
            "key": lambda: agent.answer(balancer, True, key=(8, SECRET), **duck),
            "length": lambda: agent.answer(balancer, True, **duck)[:BYTES - 1],
            "magic": lambda: b"\0" * BYTES,
            "balancer": lambda: agent.answer(balancer, True, **{**duck, "balancer": 5}),
            "challenge": lambda: agent.answer(balancer, True, **{**duck, "challenge": b"c" * 16}),
            "value": lambda: agent.answer(balancer, True, **{**duck, "word": 77}),
        }
        before = refusals(lab)
        for name, make in lies.items():
            with one.lock:
                agent.sock.sendto(make(), balancer.address)
            wait_for(f"{name} counted", lambda n=name: refusals(lab)[n] > before[n], 5)
        with one.lock:
            agent.sock.sendto(recorded, balancer.address)
        wait_for("replay counted", lambda: refusals(lab)["challenge"] + refusals(lab)["serial"] >
                 before["challenge"] + before["serial"] + 1, 5)
        elsewhere.sendto(agent.answer(balancer, True, **duck), balancer.address)
        wait_for("sender counted", lambda: refusals(lab)["sender"] > before["sender"], 5)
        elsewhere.close()
        for name in ("echo", "checked"):
            assert health(lab, name) == "healthy", health(lab, name)
        history = lab.api("health.history", service="echo", backend="web-1")
        assert history[-1]["to"] == "healthy", history
        # An authentic announcement is still accepted.
        one.say("lame-duck")
        wait_for("lame duck", lambda: health(lab, "echo") == "lame-duck", 5)


@scenario(services=[unchecked(agent=AGENT, health_check={"type": "agent", "rise": 2, "fall": 3})],
          config=QUICK, start=False)
def agent_check_follows_the_agent(lab):
    """Check type agent: without an answer the check fails; new answers make the backend healthy again"""
    with agents(lab, (1, 2, 3, 4)) as served:
        wait_for("all healthy", lambda: all(health(lab, "echo", b) == "healthy"
                                            for b in BACKENDS), 10)
        served[2].agent.silent = True
        wait_for("refusing", lambda: health(lab, "echo", "web-2") == "refusing", 10)
        assert health(lab, "echo", "web-1") == "healthy"
        served[2].agent.silent = False
        wait_for("healthy again", lambda: health(lab, "echo", "web-2") == "healthy", 10)


SLOW = {"type": "http", "path": "/healthz", "interval_ms": 4000, "rise": 2}


@scenario(services=[service("web", 80, check=SLOW, agent=AGENT), unchecked(agent=AGENT)],
          config=QUICK, start=False)
def port_that_is_down_takes_only_its_service(lab):
    """If port 80 is announced as down, only its service is refusing, until the results of new checks"""
    with agents(lab) as served:
        one = served[1]
        wait_for("healthy", lambda: health(lab, "web") == "healthy", 20)
        one.say("ready", ports={("tcp", 80): ("down", 1), ("udp", 80): "down"})
        wait_for("refusing", lambda: health(lab, "web") == "refusing", 5)
        assert health(lab, "echo") == "healthy", health(lab, "echo")
        history = lab.api("health.history", service="web", backend="web-1")
        assert history[-1]["why"] == "port 80: no listening socket", history
        shown = lab.weirctl("backend", "show", "web/web-1")[1]
        assert "tcp 80: down (no listening socket), udp 80: down" in shown, shown
        assert "port 80: no listening socket" in shown, shown
        shown = lab.weirctl("health", "show", "web")[1]
        assert "reports down: port 80: no listening socket; HTTP 200" in shown, shown
        # The service's checks passed during the whole time. When the port is no longer "down",
        # new checks run at once, not after the interval.
        passes = lab.api("health.show", service="web")[0]["passes"]
        one.say("ready")
        wait_for("healthy again", lambda: health(lab, "web") == "healthy", 20)
        assert lab.api("health.show", service="web")[0]["passes"] >= passes + 2
        *_, ended, passed = lab.api("health.history", service="web", backend="web-1")
        assert (ended["from"], ended["to"], passed["to"]) == ("refusing", "starting", "healthy"), \
            (ended, passed)
        assert passed["source"] == "check" and passed["time_ms"] - ended["time_ms"] < 2000, passed
        # The service moves to a port that is down.
        one.say("ready", ports={("tcp", 81): ("down", 1)})
        lab.write_config([service("web", 81, check={**SLOW, "port": 80}, agent=AGENT),
                          unchecked(agent=AGENT)])
        lab.weirctl("config", "reload")
        wait_for("refusing", lambda: health(lab, "web") == "refusing", 5)
        history = lab.api("health.history", service="web", backend="web-1")
        assert history[-1]["why"] == "port 81: no listening socket", history


@scenario(services=[unchecked(agent=AGENT, health_check={"type": "agent", "rise": 2, "fall": 3})],
          config=QUICK, start=False)
def end_of_down_waits_for_answers(lab):
    """Check type agent: after "down", `rise` answers without "down" make the backend healthy"""
    with agents(lab, (1, 2, 3, 4)) as served:
        wait_for("healthy", lambda: health(lab, "echo") == "healthy", 10)
        served[1].say("down")
        wait_for("refusing", lambda: health(lab, "echo") == "refusing", 5)
        served[1].say("ready")
        wait_for("healthy again", lambda: health(lab, "echo") == "healthy", 10)
        history = lab.api("health.history", service="echo", backend="web-1")
        assert [c["to"] for c in history][-3:] == ["refusing", "starting", "healthy"], history


@scenario(services=[unchecked(agent=AGENT)], config=QUICK, start=False)
def ready_waits_for_the_check(lab):
    """If the server is down, a backend whose agent reports ready becomes refusing, and is never healthy"""
    with agents(lab) as served:
        served[1].say("ready")
        lab.write_config([unchecked(agent=AGENT), checked(agent=AGENT, check_port=81)])
        lab.weirctl("config", "reload")
        wait_for("refusing", lambda: health(lab, "checked") == "refusing", 20)
        history = lab.api("health.history", service="checked", backend="web-1")
        assert [c["to"] for c in history][-1] == "refusing", history
        assert all(c["to"] != "healthy" for c in history), history


@scenario(services=[unchecked(agent=AGENT)], config=QUICK, start=False)
def full_accept_queue_gets_no_new_flows(lab):
    """A backend whose accept queue is 3/4 full gets no new flows until its queue is less than 3/8 full"""
    with agents(lab, (1, 2, 3, 4)) as served:
        one = served[1]

        def gets_flows():
            with Flows(lab.client, VIP4) as flows:
                wait_for("flows", lambda: len(flows.answers) > 60, 10)
            return "web-1" in flows.answers

        wait_for("flows at web-1", gets_flows, 10)
        for queue, taken in ((100, True), (120, False), (70, False), (40, True)):
            with one.lock:
                one.agent.values = {"accept_queue": queue, "accept_queue_limit": 160}
            one.wait_for_probe()
            one.wait_for_probe()
            time.sleep(0.05)
            assert gets_flows() == taken, (queue, taken)
        # When all queues are full, new flows are still served.
        for each in served.values():
            with each.lock:
                each.agent.values = {"accept_queue": 160, "accept_queue_limit": 160}
        for each in served.values():
            each.wait_for_probe()
            each.wait_for_probe()
        with Flows(lab.client, VIP4) as flows:
            wait_for("flows", lambda: len(flows.answers) > 60, 10)
        assert sum(b["spilled"] for b in lab.backends("echo")) > 0


@scenario(services=[unchecked(agent=AGENT), checked(agent=AGENT)], config=QUICK, start=False)
def weir_agent_states_are_followed(lab):
    """Control follows the states of weir-agent: ready, lame duck by command, ready again, stopped"""
    with agents(lab, (2,)):
        directory = os.path.join(lab.dir, "weir-agent")
        options = ("--run-dir", directory)
        started = lab.program("weir-agent", lab.namespaces["b1"], lab.binary("weir-agent"), "run",
                              "--port", "80", "--key-file", os.path.join(lab.dir, "agent.keys"),
                              *options)

        def command(*words):
            with lab.namespaces["b1"].inside():
                return sh(lab.binary("weir-agent"), *words, *options)

        def reported():
            """Returns the fields that the agent reports on request; none before its first answer."""
            return lab.backend("web-1", "echo")["report"] or ()

        lab.wait_for_program("weir-agent", lambda: os.path.exists(
            os.path.join(directory, "agent.sock")), 10)
        wait_for("the agent to be ready", lambda: "ready" in command("status"), 10)
        wait_for("answers", lambda: lab.api("stats.show")["agents"]["answers"] > 5, 10)
        # The balancer requests the fields that the policy needs, and the agent reports them.
        wait_for("a report", reported, 10)
        assert "active_requests" not in reported()
        lab.weirctl("service", "set", "echo", "policy=prequal")
        wait_for("requests in progress", lambda: "active_requests" in reported(), 10)
        command("lame-duck", "--interval", "1s")
        wait_for("lame duck", lambda: all(health(lab, s) == "lame-duck"
                                          for s in ("echo", "checked")), 5)
        repeats = ("warning: the agent announces lame-duck again in its next report; to end this, "
                   "run \"weir-agent ready\" on the host")
        assert repeats in lab.weirctl("backend", "ready", "echo/web-1")[1]
        wait_for("lame duck again", lambda: health(lab, "echo") == "lame-duck", 5)
        command("ready")
        wait_for("ready", lambda: all(health(lab, s) == "healthy"
                                      for s in ("echo", "checked")), 5)
        assert "warning" not in lab.weirctl("backend", "ready", "echo/web-1")[1]
        assert sum(refusals(lab).values()) - refusals(lab)["serial"] == 0, refusals(lab)
        command("lame-duck", "--interval", "1s")
        wait_for("lame duck", lambda: health(lab, "echo") == "lame-duck", 5)
        started.kill()
        wait_for("the missing answers in the log", lambda: lab.programs["control"].output().count(
            "weir-agent of echo/web-1 does not answer: its last answer was ") == 1, 10)
        assert "agent has not answered for" in lab.weirctl("backend", "show", "echo/")[1]
        assert lab.backend("web-1", "echo")["agent"] == "silent"
        assert lab.backend("web-2", "echo")["agent"] == "answers"
        code, findings, _ = lab.weirctl("doctor", check=False)
        assert code >= 1 and re.search(r"^warning +agents +echo/web-1 +its weir-agent has not "
                                       r"answered for \d+\.\ds; also: checked/web-1$", findings, re.M), findings
        assert "weir-agent of echo/web-3 does not answer: no answer to any of " in \
            lab.programs["control"].output()
        assert health(lab, "echo") == "lame-duck", "missing answers counted as ready"


def cpu_model(name):
    """Returns the number of a CPU model (docs/reference/agent-protocol.md)."""
    number = 2166136261
    for byte in name.encode():
        number = (number ^ byte) * 16777619 % (1 << 32)
    return (number >> 24 ^ number) % (1 << 24) or 1


@scenario(services=[unchecked(agent=AGENT, backends={f"web-{n}": "auto" for n in (1, 2, 3, 4)})],
          config=QUICK, start=False)
def automatic_weights_differ_between_generations(lab):
    """Weight "auto" depends on the CPU speed: reported by the agent, from the table gcu, or unknown"""
    def weights():
        return [lab.backend(f"web-{n}", "echo")["auto_weight"] for n in (1, 2, 3, 4)]
    with agents(lab, (1, 2, 3, 4)) as served:
        for number, speed in ((1, {"gcu": 800}), (2, {"gcu": 1600}), (3, {}),
                              (4, {"gcu": 1000, "cpu_model": cpu_model("CPU of 2026")})):
            with served[number].lock:
                served[number].agent.values = {"cpus": 4000, "cpu_mhz": 2500, **speed}
        wait_for("weights", lambda: weights() == [96, 192, 100, 120], 10)
        lab.extra = {**lab.extra, "gcu": [{"cpu": "CPU of 2026", "gcu": 2.5}]}
        lab.write_config()
        lab.weirctl("config", "reload")
        assert weights() == [96, 192, 100, 300], weights()
        for number, source in ((2, "measured"), (3, "frequency"), (4, "table")):
            capacity = lab.backend(f"web-{number}", "echo")["capacity"]
            assert capacity["source"] == source and capacity["cpus"] == 4, capacity
        shown = lab.weirctl("backend", "show", "echo/web-4")[1]
        assert "10 GCU: 4 CPUs with 2.5 GCU each, from the gcu table" in shown, shown
