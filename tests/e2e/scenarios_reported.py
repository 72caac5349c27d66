# SPDX-License-Identifier: BSD-3-Clause
"""Policies that use reports of agents, with real servers that use CPU time in cgroups."""
import contextlib
import math
import os
import socket
import time

from agents import Agents, Cgroups
from lab import HERE, PYTHON
from netns import wait_for
from scenario import scenario
from work import Steady, work
from work_server import COMMAND_PORT, PORT

AGENT = {"interval_ms": 500, "inactive_interval_ms": 500}
PAIR = {"web-1": 100, "web-2": 100}


class Pair:
    """Two work servers, each with its own cgroup and agent."""

    def __init__(self, lab, cpus=(None, None)):
        self.lab, self.cgroups, self.cpus = lab, Cgroups(lab), cpus
        self.agents = Agents(lab, "--port", str(PORT))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cgroups.__exit__()

    def start(self, burn_ms, sleep_ms):
        lab = self.lab
        lab.extra = Agents.configuration(lab)
        lab.write_config()
        for number in (1, 2):
            self.agents.extra[number] = self.cgroups.make(number, self.cpus[number - 1])
            program = lab.program(f"work-{number}", lab.namespaces[f"b{number}"], PYTHON,
                                  os.path.join(HERE, "work_server.py"), f"web-{number}",
                                  str(sleep_ms[number - 1]))
            self.cgroups.add(number, program.pid)
            lab.wait_for_program(program.name, lambda p=program: "serving" in p.output(), 10)
            self.tell(number, f"burn {burn_ms[number - 1]}")
            lab.program(f"agent-{number}", lab.namespaces[f"b{number}"],
                        lab.binary("weir-agent"), "decap", "eth0")
            lab.wait_for_program(f"agent-{number}", lambda n=number: "accepts" in
                                 lab.programs[f"agent-{n}"].output(), 10)
        self.agents.start_all()
        lab.start_dataplane()
        lab.start_control()
        lab.wait_ready()
        self.agents.wait_answered(service="work")

    def tell(self, number, command):
        with self.lab.namespaces[f"b{number}"].inside():
            sock = socket.create_connection(("127.0.0.1", COMMAND_PORT), 5)
        with contextlib.closing(sock), sock.makefile("rwb") as file:
            file.write(command.encode() + b"\n")
            file.flush()
            return int(file.readline())

    def cpu_seconds(self):
        return [self.cgroups.used(number) for number in (1, 2)]


class Window:
    """Measures for some seconds: requests served, CPU seconds, and the latency that
    clients measure."""

    def __init__(self, pair, load, seconds):
        begin, cpu = time.monotonic(), pair.cpu_seconds()
        time.sleep(seconds)
        self.cpu = [now - before for now, before in zip(pair.cpu_seconds(), cpu)]
        took = time.monotonic() - begin
        self.used = [each / took / limit if limit else 0 for each, limit in zip(self.cpu, pair.cpus)]
        samples = [[s for s in load.began(begin) if s.who == f"web-{n}"] for n in (1, 2)]
        assert all(samples), "a backend had no request"
        self.served = [len(each) for each in samples]
        self.ratio = self.served[0] / self.served[1]
        self.cpu_ms = [1000 * seconds / count for seconds, count in zip(self.cpu, self.served)]
        self.latency_ms = [1000 * sum(s.end - s.start for s in each) / len(each)
                           for each in samples]

    def __str__(self):
        return (f"{self.served[0]} : {self.served[1]} requests of "
                f"{self.cpu_ms[0]:.1f} and {self.cpu_ms[1]:.1f} ms of CPU, "
                f"{self.latency_ms[0]:.1f} and {self.latency_ms[1]:.1f} ms latency, "
                f"utilization {self.used[0]:.2f} and {self.used[1]:.2f}")


def watch(pair, load, seconds, good, windows=6):
    """Measure until a window is good, because other work on this machine disturbs some windows."""
    seen = []
    for _ in range(windows):
        seen.append(Window(pair, load, seconds))
        assert not load.errors(), load.errors()[:3]
        if good(seen[-1]):
            print(f"window {len(seen)}: {seen[-1]}")
            return
    raise AssertionError("; ".join(map(str, seen)))


def close(value, wanted, share=0.15):
    return (1 - share) * wanted <= value <= (1 + share) * wanted


def half_cpu(lab, policy, settle, good):
    """Run two backends, the second with half of the CPU quota of the first."""
    lab.services = [work(PAIR, policy=policy, agent=AGENT)]
    with Pair(lab, (0.4, 0.2)) as pair:
        pair.start(burn_ms=(10, 10), sleep_ms=(0, 0))
        with Steady(lab.client, 34) as load:
            time.sleep(settle)
            watch(pair, load, 15, good)


@scenario(start=False, pair=True, hosts=2)
def half_the_cpu_gets_half_the_flows(lab):
    """With reported weights, shares follow the CPU quotas 2:1 within 15 s, and both backends are equally busy"""
    half_cpu(lab, {"name": "weighted-round-robin", "weights": "reported"}, 15,
             lambda w: close(w.ratio, 2) and close(w.used[1], w.used[0], 0.1))


@scenario(start=False, pair=True, hosts=2)
def half_the_cpu_gets_as_many_flows_by_turns(lab):
    """With round robin, a backend with half the CPU gets an equal share and is twice as busy"""
    half_cpu(lab, {"name": "round-robin"}, 2,
             lambda w: close(w.ratio, 1, 0.05) and w.used[1] > 1.5 * w.used[0])


@scenario(start=False, pair=True, hosts=2)
def half_the_cpu_has_no_effect_by_load(lab):
    """With one request per backend, least-loaded is no better than round robin for a backend with half the CPU"""
    half_cpu(lab, {"name": "least-loaded"}, 2,
             lambda w: 0.95 < w.ratio < 1.5 and w.used[1] > 1.25 * w.used[0])


@scenario(start=False, pair=True, hosts=2, seconds=300)
def half_the_cpu_is_as_busy_with_balanced_weights(lab):
    """With balanced weights, both backends are equally busy after 45 s, and shares follow the CPU quotas 2:1"""
    half_cpu(lab, {"name": "weighted-round-robin", "weights": "balanced"}, 45,
             lambda w: close(w.ratio, 2) and close(w.used[1], w.used[0], 0.1))


@scenario(start=False, pair=True, hosts=2)
def half_the_cpu_gets_fewer_flows_by_prequal(lab):
    """With reported connections and latency, prequal sends fewer flows to the slower backend"""
    half_cpu(lab, {"name": "prequal"}, 5, lambda w: w.ratio > 1.3)


def by_measurement(lab, measurement, good):
    """Run two backends of about equal latency: the first one computes, the second one sleeps."""
    backends = {name: 200 for name in PAIR}
    lab.services = [work(backends, agent=AGENT, policy={
        "name": "time-weighted-round-robin", "service_time": "reported",
        "measurement": measurement})]
    with Pair(lab) as pair:
        pair.start(burn_ms=(16, 4), sleep_ms=(4, 16))
        with Steady(lab.client, 25) as load:
            time.sleep(10)
            watch(pair, load, 20, good)


@scenario(start=False, pair=True, hosts=2, seconds=240)
def by_execution_time_shares_depend_on_latency(lab):
    """With shares by execution time, a backend that computes and a backend that sleeps equally long get equal shares"""
    by_measurement(lab, "execution", lambda w: close(w.ratio, w.latency_ms[1] / w.latency_ms[0]))


@scenario(start=False, pair=True, hosts=2, seconds=240)
def by_busy_time_shares_depend_on_cpu_time(lab):
    """With shares by busy time, shares are inversely proportional to the CPU time of a request"""
    by_measurement(lab, "busy", lambda w: close(w.ratio, w.cpu_ms[1] / w.cpu_ms[0]))


def weights(lab):
    return {row["name"]: row["effective_weight"]
            for row in lab.api("backend.show", service="work")}


def capacity(lab, name, source):
    """Wait until the capacity of a backend comes from this source. Returns the capacity."""
    wait_for(f"capacity of {name}: {source}",  # this takes long, because the agent measures with the lowest priority
             lambda: (lab.backend(name, "work")["capacity"] or {}).get("source") == source, 60)
    return lab.backend(name, "work")["capacity"]


def rounded(weight):
    """Round half up, like C. Python would round 10.5, the weight of half a CPU of 2.1 GHz, to 10."""
    return math.floor(weight + 0.5)


@scenario(start=False, pair=True, hosts=2)
def automatic_weights_follow_the_cpu_quota(lab):
    """Weight "auto" is CPUs x speed (GCU) x 30, as agents report; it is kept after agents stop and control restarts"""
    lab.services = [work({name: "auto" for name in PAIR}, agent=AGENT,
                         policy={"name": "weighted-round-robin"})]
    with Pair(lab, (1.5, 0.5)) as pair:
        pair.start(burn_ms=(0, 0), sleep_ms=(5, 5))
        speed = {name: capacity(lab, name, "measured")["gcu_per_cpu"] * 30 for name in PAIR}
        wanted = {"web-1": rounded(1.5 * speed["web-1"]), "web-2": rounded(0.5 * speed["web-2"])}
        wait_for(f"weights {wanted}", lambda: weights(lab) == wanted, 5)
        assert " auto " in lab.weirctl("backend", "show", "work/")[1]
        shown = lab.weirctl("backend", "show", "work/web-1")[1]
        assert "measured by its agent" in shown, shown
        with Steady(lab.client, 20) as load:
            watch(pair, load, 3, lambda w: close(w.ratio, wanted["web-1"] / wanted["web-2"], 0.1))
            waste = lab.weirctl("service", "waste", "work")[1]  # the command requests reports that no policy needs
            assert "work: 2 of 2 backends report utilization" in waste, waste
        pair.cgroups.limit(2, 1.0)
        wanted["web-2"] = rounded(speed["web-2"])
        wait_for(f"weights {wanted}", lambda: weights(lab) == wanted, 5)
        for number in (1, 2):
            lab.programs[pair.agents.name(number)].kill()
        wait_for("no reports of agents", lambda: all(row["word"] == "nothing" for row in
                                        lab.api("health.show", service="work")), 10)
        assert weights(lab) == wanted, weights(lab)
        lab.programs["control"].kill()
        lab.start_control()
        wait_for("control attached", lambda: lab.api("version")["dataplane"]["attached"], 15)
        assert weights(lab) == wanted, weights(lab)
